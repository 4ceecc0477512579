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

with y, q = softmax(X), softmax(P) after the step and K the relative entropy. The mean's gap is at
most (log n + log d + the sum of these terms) / the sum of eta. Eta grows while the term of a step
is not positive and shrinks where it is. Where softmax is saturated it grows without being put to
the test, so a step that brings the sum above a part of log n + log d is not made: its payoffs
predict those of a shorter one from the same place, which costs a pass.
"""
import numpy as np

from sublinear._core.inner import inner
from sublinear._core.matrix cimport Matrix
from sublinear._core.passes cimport Passes
from sublinear._core.saddle_solver cimport SaddleSolver
from sublinear._core.saddle_solver import Point

# eta for payoffs between -1 and 1: the first, one whose regret the theorem bounds, one after which
# gaps are rounding
FIRST_RATE, SAFE_RATE, LONGEST_RATE = 8.0, 0.25, 1e12
LONGER, SHORTER = 1.1, 0.7
ALLOWED = 0.1             # sum of the terms, relative to log n + log d


class Strategy:
    """Softmax of scores, and what relative entropies need."""

    def __init__(self, scores):
        self.scores = scores - scores.max()  # sums of long steps keep their digits near the best
        weights = np.exp(self.scores)
        total = weights.sum()
        self.weights, self.log_total = weights / total, np.log(total)

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
        Passes, each of them a step or the end of one that was too long.
    accesses, full_accesses : int
        Feature values read; the same with rows charged in full.
    """

    def __init__(self, problem, Matrix matrix):
        super().__init__(problem)
        self.matrix, self.passes = matrix, Passes(matrix, norms=False)
        self.n_iter = self.accesses = self.full_accesses = 0
        self.rate = FIRST_RATE
        n_rows, n_columns = matrix.n_rows, matrix.n_weights
        # per unit: what the players saw last
        self.gradient, self.payoffs = np.zeros(n_columns), np.zeros(n_rows)
        self.last_x, self.last_p = Strategy(self.gradient), Strategy(self.payoffs)
        self.latest = None  # the Point of the last pass
        self.mean = Point(*map(np.zeros, (n_columns, n_rows, n_rows, n_columns)))
        self.total_rate = self.regret = 0.0
        self.allowed = ALLOWED * np.log(float(n_rows) * n_columns)

    @property
    def work(self):
        return self.accesses

    def advance(self, limit):
        """Make a step or find that it is too long, unless the pass would exceed the limit."""
        if self.accesses + self.matrix.n_stored > limit:
            return False
        rate, last_gradient, last_payoffs = self.rate, self.gradient, self.payoffs
        x = Strategy(self.last_x.scores - rate * last_gradient)
        p = Strategy(self.last_p.scores + rate * last_payoffs)
        self._evaluate(x.weights, p.weights)
        self.accesses += self.matrix.n_stored
        self.full_accesses += self.matrix.n_rows * self.matrix.n_columns
        self.n_iter += 1
        y = Strategy(self.last_x.scores - rate * self.gradient)
        q = Strategy(self.last_p.scores + rate * self.payoffs)
        regret = rate * (
            inner(self.gradient - last_gradient, x.weights - y.weights)
            - inner(self.payoffs - last_payoffs, p.weights - q.weights)
        )
        regret -= y.entropy_to(x) + x.entropy_to(self.last_x)
        regret -= q.entropy_to(p) + p.entropy_to(self.last_p)
        if self.regret + regret <= self.allowed or rate <= SAFE_RATE:
            self.regret += regret
            self.last_x, self.last_p = y, q
            self._add_to_mean(rate)
        self.rate = min(max(rate * (LONGER if regret <= 0 else SHORTER), SAFE_RATE), LONGEST_RATE)
        return True

    def _evaluate(self, x, p):
        """Find what the players see at x and p, by a pass."""
        payoffs, gradient = self.passes.products(x, p)
        self.latest = Point(x, payoffs, p, gradient)
        self.payoffs, self.gradient = payoffs / self.problem.unit, gradient / self.problem.unit

    def _add_to_mean(self, rate):
        self.total_rate += rate
        part = rate / self.total_rate
        both = zip(self.mean, self.latest, strict=True)
        self.mean = Point(*((1 - part) * mean + part * latest for mean, latest in both))

    def means(self):
        """Return the means of x and p."""
        if self.total_rate == 0:
            return self.last_x.weights, self.last_p.weights
        return self.mean.x, self.mean.p

    def certify(self, rounded):
        """Return the better x, the last one or the mean, its value, and the best dual value."""
        if self.latest is None:
            self._evaluate(self.last_x.weights, self.last_p.weights)
            self.problem.accesses += self.matrix.n_stored
        candidates = [self.latest, self.mean] if self.total_rate > 0 else [self.latest]
        found = []
        for point in candidates:
            self.take_dual(self.problem.dual(point.p, point.gradient), point.p)
            found.append(self.problem.primal(point.x, point.payoffs, 0.0, rounded))
        model, primal = min(found, key=lambda one: one[1])
        return model, primal, self.best_dual
