"""Pegasos for outputs of any kind, told by a problem in Python.

Objective: the regularised structured hinge loss

    alpha / 2 |w|^2 + (1 / S) sum_i s_i max_y (loss(y_i, y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>)

over a feature map phi of input and output together: Shalev-Shwartz, Singer, Srebro, Cotter,
"Pegasos: primal estimated sub-gradient solver for SVM" (2011), section 5.

The steps are those of sublinear._core.steps, the certificate that of chain_pegasos.pyx.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sublinear._core.aligned import read_only
from sublinear._core.iterates import certify_best, choose
from sublinear._core.matrix import Matrix, check_before_csr, csr_structure
from sublinear._core.order import Order
from sublinear._core.solver import BaseObjective, Solver
from sublinear._core.states import take
from sublinear._core.steps import dual_of_draws
from sublinear._core.weight_vector import WeightVector

LOOK = 2**14  # entries that could be read while the problem's functions see an example


@dataclass
class Violation:
    """The output that an example violates most at some weights, beside its own."""

    difference: Matrix  # phi(x, y) - phi(x, other), its only row
    loss: float


class StructuredObjective(BaseObjective):
    """The examples, the problem that explains them, and the primal value."""

    def __init__(self, problem, X, y, alpha, weights, n_features=None):
        self.problem, self.X, self.y, self.alpha = problem, X, y, alpha
        n = len(X)
        self.ratios = np.ones(n) if weights is None else weights * (n / weights.sum())
        self.accesses = 0
        self.n_features = n_features
        self.n_features = self.features(X[0], y[0]).shape[1]

    def features(self, x, y):
        """Return phi(x, y) as one row, checked."""
        row = self.problem.joint_features(x, y)
        sparsely = sparse.issparse(row)
        if sparsely:
            check_before_csr(row)
            row = sparse.csr_array(row)
            csr_structure(row)
        else:
            row = np.asarray(row)
        if row.dtype.kind == "c":
            raise ValueError("joint_features must return real numbers, got complex ones")
        # copied, as the next one may be in the same array; float64, as the difference of two rows
        # is taken, and unsigned numbers and truth values have no negative ones
        try:
            row = row.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"joint_features must return numbers: {error}") from error
        if row.ndim == 1:
            row = row.reshape(1, -1)
        if row.ndim != 2 or row.shape[0] != 1 or row.shape[1] == 0:
            raise ValueError(f"joint_features must return one row of numbers, got {row.shape}")
        if self.n_features not in (None, row.shape[1]):
            raise ValueError(
                f"joint_features returned {row.shape[1]} numbers, but {self.n_features} before: "
                "its length must not change"
            )
        values = row.data if sparsely else row
        if not np.isfinite(values).all():
            raise ValueError("joint_features returned NaN or infinity")
        return row

    def most_violated(self, weights, i):
        """Return the Violation of example i."""
        x, y = self.X[i], self.y[i]
        other = self.problem.loss_augmented_decode(weights, x, y)
        loss = checked_loss(self.problem.loss(y, other))
        return Violation(Matrix(self.features(x, y) - self.features(x, other)), loss)

    def primal(self, weights):
        """Return the primal value."""
        weights = read_only(weights.view())
        total = 0.0
        for i, ratio in enumerate(self.ratios):
            violation = self.most_violated(weights, i)
            total += ratio * (violation.loss - violation.difference.row_dots(weights, [0])[0])
            self.accesses += violation.difference.n_stored
        return self.alpha / 2 * float(weights @ weights) + total / len(self.ratios)

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        zeros = np.zeros(self.n_features)
        return zeros, self.primal(zeros), 0.0


def checked_loss(value):
    """Return what a problem's `loss` returned as a float; ValueError unless it can be a loss."""
    try:
        loss = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"loss must return a number, got {value!r}") from None
    if not 0 <= loss < np.inf:
        raise ValueError(f"loss must be finite and not negative, got {loss}")
    return loss


class StructuredPegasos(Solver):
    """Pegasos; an access is a stored entry of phi(x, y) - phi(x, other)."""

    certificate_growth = 1.5

    def __init__(self, objective, random, *, sampling, batch_size, average):
        n = len(objective.X)
        self.objective, self.batch_size = objective, batch_size
        self.order = Order(n, sampling, random, batch_size)
        self.chunk = batch_size if sampling == "subsets" else n
        self.output = choose(average, random.bit_generator.seed_seq)
        self.weight_vector = WeightVector(
            objective.n_features, averaged=self.output.averages, keeps_norm=False
        )
        self.n_draws = np.zeros(n)
        self.n_iter = self.accesses = self.n_drawn = 0
        self.in_chunk = self.in_epoch = 0
        self.cost = 0.0
        self.is_resumed = False

    @property
    def keeps_best(self):
        """Whether one of several models is to be chosen by its objective."""
        return self.output.keeps_best

    @property
    def work(self):
        """Entries read, and what else could be read while an example is looked at."""
        return self.accesses + LOOK * (self.n_iter * len(self.n_draws) + self.in_epoch)

    def state(self):
        """Return what `resume` needs to go on over other examples; its arrays are this one's."""
        w, total = self.weight_vector.settle()
        return {
            "w": w,
            "n_drawn": self.n_drawn,
            **self.output.state(self.weight_vector.n_averaged, total),
        }

    def resume(self, state):
        """Go on from a `state()`; there is no certificate then."""
        self.weight_vector.set(take(state, "w", self.weight_vector.values))
        self.output.resume(self.weight_vector, state, self.weight_vector.values)
        self.n_drawn = take(state, "n_drawn", self.n_drawn)
        self.is_resumed = True

    def advance(self, limit):
        """Go on until the epoch ends, then return True, or `limit` is reached."""
        epoch = self.n_iter
        while self.n_iter == epoch and self.accesses < limit:
            self._step()
        return self.n_iter > epoch

    def _step(self):
        size = min(self.batch_size, self.chunk - self.in_chunk)
        batch = self.order.take(size)
        self.in_chunk = (self.in_chunk + size) % self.chunk
        weights = read_only(self.weight_vector.to_array())
        violations = [self.objective.most_violated(weights, i) for i in batch]
        self.n_drawn += size
        self.weight_vector.shrink(1 - size / self.n_drawn)
        for i, violation in zip(batch, violations, strict=True):
            ratio = self.objective.ratios[i]
            rate = ratio / (self.objective.alpha * self.n_drawn)
            self.weight_vector.add_row(violation.difference, 0, rate)
            self.cost += ratio * violation.loss
            self.n_draws[i] += 1
            self.accesses += violation.difference.n_stored
        if self.output.counts:
            self.weight_vector.count_in_average()
        if self.weight_vector.n_averaged == self.output.next_record:
            self.output.record(self.weight_vector)
        self.in_epoch += size
        if self.in_epoch >= len(self.n_draws):
            self.in_epoch -= len(self.n_draws)
            self.n_iter += 1

    def model(self):
        """Return the weights chosen by `average`."""
        return self.output.models(self.weight_vector)[0]

    def dual(self):
        """Return the dual value of the outputs found so far, shrunk to be feasible."""
        if self.is_resumed:
            return -np.inf
        last = self.weight_vector.to_array()
        penalty = self.objective.alpha / 2 * float(last @ last)
        return dual_of_draws(self.cost, penalty, self.n_draws, self.n_drawn)

    def certify(self, rounded):
        """Return the model and its certificate (see `_drive`)."""
        models = self.output.models(self.weight_vector)
        model, primal = certify_best(models, rounded, self.objective.primal)
        return model, primal, self.dual()
