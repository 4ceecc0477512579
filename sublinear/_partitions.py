"""A partition of the examples, and what the others may ask of it. Knows nothing of clusters.

Paper: Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
optimization" (CoCoA+, 2015), Algorithm 1. With w = w(a) of all duals, partition k improves its own

    by SDCA on   - (1 / W) sum_i s_i l*(-a_i) - alpha <w, c> - sigma alpha / 2 |c|^2,

where c = sum_i s_i (a_i - its value before) x_i / (alpha W) is what it adds to w. That is SDCA with
alpha / sigma in place of alpha, on v = w + sigma c.

Duals are on trial until the next request tells how far to go from the last ones to them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._solvers.sdca import SDCA
from sublinear._validation import check_sample_weight, margin_targets

LOSS, CONJUGATE = 0, 2  # their places in Objective.sums
SLICE = 1 << 24  # feature values between two looks at Ctrl-C


@dataclass(frozen=True)
class Problem:
    """What the partitions solve together.

    Attributes
    ----------
    loss : type
    loss_parameters : tuple of float
    alpha, total_weight, constant : float
        Of the whole; constant is the value of the constant column, 0 without.
    seed : numpy.random.SeedSequence
    label : object
        Of the class with target +1; None: y holds the targets.
    class_factors : dict
        Factors on the weights of examples by label.
    """

    loss: type
    loss_parameters: tuple
    alpha: float
    total_weight: float
    constant: float
    seed: np.random.SeedSequence
    label: object = None
    class_factors: dict | None = None


class Description(NamedTuple):
    """What a partition tells about its examples; masses are the weights of the labels."""

    n_columns: int
    n_stored: int
    dtype: np.dtype
    labels: np.ndarray | None
    masses: np.ndarray  # of all examples where there are no labels, shape (1,)


class Trial(NamedTuple):
    """What a partition proposes in a round.

    change is what w would gain; conjugate, what sum_i s_i l*(-a_i) would; work, accesses, gap and
    loss are those of its solvers, the last two estimates.
    """

    change: np.ndarray
    conjugate: float
    accesses: int
    work: int
    gap: float
    loss: float


def inner(u, v):
    """Return <u, v>, without the threads that a BLAS would start."""
    return float(np.add.reduce(u * v))


def check_block(block, numeric):
    """Return X, y and weights of a block as solvers can read them; weights None if all are 1."""
    if not isinstance(block, (tuple, list)) or not 2 <= len(block) <= 3:
        raise ValueError("a block must be a tuple (X, y) or (X, y, sample_weight)")
    X, y = check_X_y(
        block[0],
        block[1],
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=[np.float64, np.float32],
        y_numeric=numeric,
        ensure_min_samples=0,
    )
    if not numeric and y.shape[0] > 0:
        check_classification_targets(y)
    weight = block[2] if len(block) == 3 else None
    if weight is not None and X.shape[0] > 0 and np.any(weight):
        weight = check_sample_weight(weight, X)
    elif weight is not None:  # nothing counts here
        weight = np.zeros(X.shape[0])
    return X, np.asarray(y, dtype=np.float64) if numeric else y, weight


class Partition:
    """Blocks of rows with their duals.

    Parameters
    ----------
    index : int
    blocks : iterable of (X, y) or (X, y, sample_weight)
    numeric : bool
        Whether y holds numbers to be predicted, not labels.
    """

    def __init__(self, index, blocks, numeric):
        self.index, self.numeric = index, numeric
        self.blocks = []
        for block in blocks:
            checked = check_block(block, numeric)
            if checked[0].shape[0] > 0:
                self.blocks.append(checked)
        widths = sorted({X.shape[1] for X, _, _ in self.blocks})
        if len(widths) > 1:
            raise ValueError(f"the blocks of partition {index} differ in columns: {widths}")

    def describe(self):
        """Return the Description, None without rows."""
        if not self.blocks:
            return None
        weights = [np.ones(X.shape[0]) if w is None else w for X, _, w in self.blocks]
        labels, masses = None, np.array([sum(float(w.sum()) for w in weights)])
        if not self.numeric:
            y = np.concatenate([y for _, y, _ in self.blocks])
            labels, places = np.unique(y, return_inverse=True)
            masses = np.bincount(places, weights=np.concatenate(weights))
        return Description(
            n_columns=self.blocks[0][0].shape[1],
            n_stored=sum(X.nnz if hasattr(X, "nnz") else X.size for X, _, _ in self.blocks),
            dtype=np.result_type(*(X.dtype for X, _, _ in self.blocks)),
            labels=labels,
            masses=masses,
        )

    def open(self, problem, n_weights):
        """Begin a problem with duals of zero."""
        self.problem, self.sigma, self.trial = problem, 1.0, None
        self.v = np.zeros(n_weights)
        self.objectives, self.solvers, self.duals = [], [], []
        loss = problem.loss(*problem.loss_parameters)
        seed = problem.seed
        for k, (X, y, weight) in enumerate(self.blocks):
            objective = Objective(
                Matrix(X, problem.constant),
                y if self.numeric else margin_targets(y, problem.label),
                loss,
                problem.alpha,
                weights_of_classes(y, weight, problem.class_factors),
                total_weight=problem.total_weight,
            )
            own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, self.index, k))
            self.objectives.append(objective)
            self.solvers.append(SDCA(objective, RandomBits(own), w=self.v))
            self.duals.append(np.zeros(objective.matrix.n_rows))

    def at_zeros(self):
        """Return the parts of P(0) and D(0)."""
        return (
            sum(objective.primal_of_zeros() for objective in self.objectives),
            sum(objective.dual_of_zeros() for objective in self.objectives),
        )

    def round(self, number, gamma, w, sigma, passes):
        """Settle the last round, make a number of passes around w; return the Trial."""
        self._settle(number - 1, gamma)
        accesses, work, gap, loss = self._run(w, sigma, passes)
        self.trial = number
        conjugate = sum(
            objective.conjugate_sum(solver.duals()) - objective.conjugate_sum(duals)
            for objective, solver, duals in self._all()
        )
        return Trial((self.v - w) / sigma, conjugate, accesses, work, gap, loss)

    def certify(self, number, gamma, w, model):
        """Settle the last round; return sums over the rows: losses, conjugates with products."""
        self._settle(number - 1, gamma)
        sums = np.zeros(CONJUGATE + 1)
        for objective, _, duals in self._all():
            sums += objective.sums([model], w, duals)[: CONJUGATE + 1]
        return sums[LOSS], sums[CONJUGATE]

    def restore(self, number, gamma):
        """Settle the last round, drop the present one; return this partition's part of w(a)."""
        self._settle(number - 1, gamma)
        self._settle(number, 0.0)
        return (
            sum(
                (objective.weights_of_dual(duals) for objective, _, duals in self._all()),
                np.zeros_like(self.v),
            )
            / self.sigma
        )

    def catch_up(self, w):
        """Make a pass around w while the others wait; return what it adds to w, what it read."""
        accesses, work, _, _ = self._run(w, 1.0, 1)
        self.duals = [solver.duals() for solver in self.solvers]
        return self.v - w, accesses, work

    def _all(self):
        return zip(self.objectives, self.solvers, self.duals, strict=True)

    def _run(self, w, sigma, passes):
        """Make passes of SDCA with alpha / sigma; return accesses, work, estimates."""
        if sigma != self.sigma:
            for solver in self.solvers:
                solver.restart(self.problem.alpha / sigma)
            self.sigma = sigma
        self.v[:] = w
        accesses = -sum(solver.accesses for solver in self.solvers)
        work = -sum(solver.work for solver in self.solvers)
        for _ in range(passes):
            for solver in self.solvers:
                while not solver.advance(solver.accesses + SLICE + self.v.size):
                    pass
        return (
            accesses + sum(solver.accesses for solver in self.solvers),
            work + sum(solver.work for solver in self.solvers),
            sum(solver.pass_gap for solver in self.solvers),
            sum(solver.pass_loss for solver in self.solvers),
        )

    def _settle(self, number, gamma):
        """If the duals of that round are on trial, go so far towards them."""
        if self.trial != number:
            return
        self.trial = None
        for k, (objective, solver, duals) in enumerate(self._all()):
            new = solver.duals()
            if gamma < 1:
                new = duals + gamma * (new - duals)
                objective.make_feasible(new)
                solver.set_duals(new)
            self.duals[k] = new


def weights_of_classes(y, weight, factors):
    """Return sample weights times the factors of the labels, None if all are 1."""
    if factors is None:
        return weight
    weight = np.ones(y.shape[0]) if weight is None else weight.copy()
    for label, factor in factors.items():
        weight[y == label] *= factor
    return weight


class LocalPartitions:
    """Partitions in this process.

    Parameters
    ----------
    partitions : list of Partition
    """

    def __init__(self, partitions):
        self.partitions = partitions

    def __len__(self):
        return len(self.partitions)

    def ask(self, method, *arguments, only=None):
        """Return what the partitions answer, in their order.

        Parameters
        ----------
        method : str
        *arguments : object
        only : set of int, default=None
            The partitions that are asked. None means all.
        """
        return [
            getattr(partition, method)(*arguments)
            for k, partition in enumerate(self.partitions)
            if only is None or k in only
        ]
