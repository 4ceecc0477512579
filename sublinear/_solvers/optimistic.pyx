"""Matrix games by optimistic multiplicative weights, in whole passes.

Paper: Rakhlin, Sridharan, "Optimization, learning, and games with predictable sequences" (2013),
section 4: both players predict that the other one does what it did last.

Objective: min_x max_p p'Ax, both in the simplex.

    for t = 1, 2, ..:
        x = softmax(X - eta g),  p = softmax(P + eta v)      g, v: those of the last step
        g = A'p, v = A x                                      one pass
        X -= eta g, P += eta v

Certificates: those of x and p, and, by linearity, those of the means of x and p, weighted by eta,
cost no pass.

Cost per step: the stored entries, once.

Departure: eta is as long as the data allows. The regret of a step is at most

    eta (<g - last g, x - y> + <last v - v, p - q>)
        - K(y, x) - K(x, last y) - K(q, p) - K(p, last q)

with y, q = softmax(X), softmax(P) after the step and K the relative entropy. Eta grows while this
is negative and shrinks where it is not; the mean's gap is at most (log n + log d + the sum of these
terms) / the sum of eta.
"""
import numpy as np

from sublinear._core.inner import inner
from sublinear._core.matrix cimport Matrix
from sublinear._core.passes cimport Passes
from sublinear._core.saddle_solver cimport SaddleSolver

FIRST_RATE = 8.0          # for payoffs between -1 and 1
LONGER, SHORTER = 1.1, 0.7


class Strategy:
    """Softmax of scores, and what relative entropies need."""

    def __init__(self, scores):
        largest = scores.max()
        weights = np.exp(scores - largest)
        total = weights.sum()
        self.scores, self.weights = scores, weights / total
        self.log_total = largest + np.log(total)

    def entropy_to(self, other):
        """Return the relative entropy sum_k w_k log(w_k / other_k)."""
        mean = inner(self.weights, self.scores - other.scores)
        return mean - self.log_total + other.log_total


class OptimisticWeights(SaddleSolver):
    """The method, as `_drive` wants one.

    Parameters
    ----------
    problem : object
        Has `unit`, the largest |A_ij|; `primal`, `dual` and `accesses` as for PrimalDual.
    matrix : Matrix

    Attributes
    ----------
    n_iter : int
        Steps, each of one pass.
    accesses, full_accesses : int
        Feature values read; the same with rows charged in full.
    """

    def __init__(self, problem, Matrix matrix):
        super().__init__(problem)
        self.matrix, self.passes = matrix, Passes(matrix)
        self.n_iter = self.accesses = self.full_accesses = 0
        self.rate = FIRST_RATE / problem.unit
        n_rows, n_columns = matrix.n_rows, matrix.n_weights
        self.x_scores, self.p_scores = np.zeros(n_columns), np.zeros(n_rows)
        self.gradient, self.payoffs = np.zeros(n_columns), np.zeros(n_rows)
        self.x = self.last_x = Strategy(self.x_scores)
        self.p = self.last_p = Strategy(self.p_scores)
        # weighted sums of x, A x, p, A'p
        self.sums = [np.zeros(size) for size in (n_columns, n_rows, n_rows, n_columns)]
        self.total_rate = 0.0

    @property
    def work(self):
        return self.accesses

    def advance(self, limit):
        """Make a step, unless it would exceed the limit."""
        if self.accesses + self.matrix.n_stored > limit:
            return False
        rate, last_gradient, last_payoffs = self.rate, self.gradient, self.payoffs
        self.x = Strategy(self.x_scores - rate * last_gradient)
        self.p = Strategy(self.p_scores + rate * last_payoffs)
        self.payoffs, self.gradient = self.passes.products(self.x.weights, self.p.weights)
        self.accesses += self.matrix.n_stored
        self.full_accesses += self.matrix.n_rows * self.matrix.n_columns
        self.n_iter += 1
        for total, term in zip(self.sums, self._latest(), strict=True):
            total += rate * term
        self.total_rate += rate
        self.x_scores = self.x_scores - rate * self.gradient
        self.p_scores = self.p_scores + rate * self.payoffs
        y, q = Strategy(self.x_scores), Strategy(self.p_scores)
        regret = rate * (
            inner(self.gradient - last_gradient, self.x.weights - y.weights)
            - inner(self.payoffs - last_payoffs, self.p.weights - q.weights)
        )
        regret -= y.entropy_to(self.x) + self.x.entropy_to(self.last_x)
        regret -= q.entropy_to(self.p) + self.p.entropy_to(self.last_p)
        self.rate *= LONGER if regret <= 0 else SHORTER
        self.last_x, self.last_p = y, q
        return True

    def _latest(self):
        return self.x.weights, self.payoffs, self.p.weights, self.gradient

    def means(self):
        """Return the means of x and p, as new arrays."""
        if self.n_iter == 0:
            return self.x.weights.copy(), self.p.weights.copy()
        return self.sums[0] / self.total_rate, self.sums[2] / self.total_rate

    def certify(self, rounded):
        """Return the better x, the last one or the mean, its value, and the best dual value."""
        if self.n_iter == 0:
            products = self.passes.products(self.x.weights, self.p.weights)
            self.problem.accesses += self.matrix.n_stored
            candidates = [(self.x.weights, products[0], self.p.weights, products[1])]
        else:
            candidates = [self._latest(), [total / self.total_rate for total in self.sums]]
        found = []
        for x, payoffs, p, gradient in candidates:
            self.take_dual(self.problem.dual(p, gradient), p)
            found.append(self.problem.primal(x, payoffs, 0.0, rounded))
        model, primal = min(found, key=lambda one: one[1])
        return model.copy(), primal, self.best_dual
