"""Rows in partitions, and what all solvers over partitions share. Knows nothing of clusters.

A solver asks all partitions the same and waits for their answers. Vectors of the length of the
model are added up on their way to it, as a tree whose shape the number of partitions determines.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sublinear._checkpoint import fingerprint
from sublinear._core.aligned import contiguous
from sublinear._core.constant_column import RowSample, short_length
from sublinear._core.inner import inner
from sublinear._core.matrix import Matrix
from sublinear._core.objective import CONJUGATE, Objective, mass_at, penalized
from sublinear._core.row_blocks import joined_blocks
from sublinear._core.solver import BaseObjective, Solver
from sublinear._core.starting_intercept import (
    middle,
    middle_of_parts,
    spread_of,
)
from sublinear._core.states import part_of, prefixed, restore, saved, take
from sublinear._labels import LabelWeights, margin_targets, weights_by_class
from sublinear._stream import StreamSummary, check_source, checked_block, names_of_block, naming
from sublinear._validation import agreed_names, check_names_fit
from sublinear.sources._read_ahead import lasting_blocks

MOST_LOSSES = 5  # of partitions in one request


class PartitionsLost(Exception):
    """Some partitions are gone, with their state.

    Parameters
    ----------
    indices : set of int
    """

    def __init__(self, indices):
        super().__init__(f"partitions lost: {sorted(indices)}")
        self.indices = indices


@dataclass(frozen=True)
class Problem:
    """What the partitions solve together.

    Attributes
    ----------
    make_loss : callable
        make_loss() -> Loss
    alpha, total_weight, constant : float
        Of the whole; constant is the value of the constant column, 0 without.
    intercept_penalty : float
        As of Objective.
    seed : numpy.random.SeedSequence
    label : object
        Of the class with target +1; None: y holds the targets.
    classes, class_factors : ndarray or None
        All labels, and factors on the weights of their examples; without factors these are 1.
    """

    make_loss: Callable
    alpha: float
    total_weight: float
    constant: float
    seed: np.random.SeedSequence
    intercept_penalty: float = 1.0
    label: object = None
    classes: np.ndarray | None = None
    class_factors: np.ndarray | None = None

    @property
    def has_multiplier(self):
        """As of Objective."""
        return self.intercept_penalty < 1

    @property
    def free_intercept(self):
        """Whether the weight of that column is an intercept without penalty."""
        return self.intercept_penalty == 0

    def penalty(self, n_weights):
        """Return alpha for every weight, and its part for that of the constant column."""
        penalty = np.full(n_weights, float(self.alpha))
        penalty[-1] *= self.intercept_penalty
        return penalty

    def penalized(self, w):
        """As that of Objective."""
        return penalized(w, self.intercept_penalty)

    def mass(self, last):
        """As that of Objective."""
        return mass_at(last, self.constant, self.alpha * self.total_weight * self.intercept_penalty)


class Description(NamedTuple):
    """What a partition tells about its examples."""

    sizes: list  # rows of every block
    n_columns: int
    n_stored: int
    is_sparse: bool  # some block
    widest: int  # feature values of the longest row
    dtype: np.dtype
    weight: float  # of all examples
    middle: float  # about the weighted median of numeric targets
    labels: LabelWeights | None
    names: list | None  # of columns


def blocks_of(source):
    """Return the blocks of a source: an iterable, or a function that returns one."""
    source = source() if callable(source) else source
    check_source(source)
    return source


class Member:
    """What is asked of partitions of any kind that are elsewhere."""

    def put(self, most, method, *arguments):
        """Return what a method does, but keep a vector of more than `most` entries.

        The vector is the first of the method's results; its length stands in its place.
        """
        vector, *rest = getattr(self, method)(*arguments)
        if vector.size <= most:
            return vector, *rest
        self.vector = vector
        return vector.size, *rest

    def take(self):
        """Return the vector kept."""
        return self.vector

    def ping(self):
        """Answer."""


class Partition(Member):
    """Blocks of rows.

    Parameters
    ----------
    index : int
    source : iterable of (X, y) or (X, y, sample_weight), or a function that returns one
    numeric : bool
        Whether y holds numbers to be predicted, not labels.
    """

    def __init__(self, index, source, numeric):
        self.index, self.numeric = index, numeric
        self.sizes, self.blocks = [], []
        with naming(f"partition {index}"):
            source = blocks_of(source)
        self.names = getattr(source, "feature_names", None)
        for number, block in enumerate(lasting_blocks(source), start=1):
            with naming(f"block {number} of partition {index}"):
                self.names = agreed_names(self.names, names_of_block(block))
                self._keep(checked_block(block, numeric))
        self.skipped = getattr(source, "skipped", 0)

    def _keep(self, block):
        n_rows, n_columns = block.X.shape
        self.sizes.append(n_rows)
        if n_rows == 0:
            return
        self.blocks.append(block)
        expected = self.blocks[0].X.shape[1]
        if n_columns != expected:
            raise ValueError(f"{n_columns} columns, but the first block has {expected}")

    def summary(self):
        """Return how many blocks there are, rows of those with weight, and lines left out."""
        counted = (X.shape[0] for X, _, weight in self.blocks if weight is None or weight.any())
        return len(self.sizes), sum(counted), self.skipped

    def describe(self):
        """Return the Description, None without rows."""
        if not self.blocks:
            return None
        matrices = [Matrix(block.X) for block in self.blocks]
        weights = [
            np.ones(X.shape[0]) if weight is None else weight for X, _, weight in self.blocks
        ]
        labels = None if self.numeric else LabelWeights()
        middles = np.zeros(len(weights))
        for k, (block, own) in enumerate(zip(self.blocks, weights, strict=True)):
            if self.numeric:
                middles[k] = middle(block.y, own)
            else:
                labels.add(block.y, own)
        sums = np.array([own.sum() for own in weights], dtype=np.float64)
        return Description(
            sizes=self.sizes,
            n_columns=matrices[0].n_columns,
            n_stored=sum(matrix.n_stored for matrix in matrices),
            is_sparse=any(matrix.is_sparse for matrix in matrices),
            widest=max(matrix.longest_row for matrix in matrices),
            dtype=np.result_type(*(block.X.dtype for block in self.blocks)),
            weight=float(sum(sums)),
            middle=middle_of_parts(middles, sums),
            labels=labels,
            names=self.names,
        )

    def scales(self, n_columns):
        """Return the sum of some of the rows, the `squares` of this RowSample, and of every block.

        Of these the length of a row that is rather short, and the weight; the middle and the spread
        of its targets, 0 for labels.
        """
        sample, found = RowSample(n_columns), []
        for X, y, own in self.blocks:
            sample.add(Matrix(X), own)
            length = short_length(sample.norms[-1], sample.weights[-1])
            targets = (0.0, 0.0)
            if self.numeric:
                y = contiguous(y, dtype=np.float64)
                targets = middle(y, own), spread_of(y, own)
            weight = len(y) if own is None else own.sum()
            found.append((length, weight, *targets))
        return sample.total, sample.squares, found

    def mark(self):
        """Return a hash of all rows."""
        return fingerprint(itertools.chain(*self.blocks))

    def open(self, problem, n_weights):
        """Begin a problem."""
        self.problem, self.n_weights, self.loss = problem, n_weights, problem.make_loss()
        self.objectives = [
            self._objective(
                X,
                weights_by_class(y, weight, problem.classes, problem.class_factors),
                contiguous(y, dtype=np.float64)
                if self.numeric
                else margin_targets(y, problem.label),
            )
            for X, y, weight in self.blocks
        ]

    def _objective(self, X, weights, targets):
        problem = self.problem
        return Objective(
            Matrix(X, problem.constant),
            targets,
            self.loss,
            problem.alpha,
            weights,
            total_weight=problem.total_weight,
        )

    def joined_objectives(self, least_rows):
        """Yield (slice of the rows, Objective) of `joined_blocks`; alpha is the problem's."""
        parts = (
            (block.X, objective.weights_array, objective.targets_array)
            for block, objective in zip(self.blocks, self.objectives, strict=True)
        )
        for where, *part in joined_blocks(parts, least_rows):
            yield where, self._objective(*part)

    def by_block(self, values):
        """Return numbers of the rows as an array for every block."""
        stops = np.cumsum([objective.matrix.n_rows for objective in self.objectives])
        return np.split(values, stops)[:-1]

    def at_zeros(self):
        """Return the parts of P(0) and D(0)."""
        parts = [objective.values_of_zeros() for objective in self.objectives]
        return np.sum([(0.0, 0.0), *parts], axis=0)

    def target_moments(self, center):
        """Return the weighted sums of the targets, less a number, and of their squares."""
        sums = np.zeros(2)
        for objective in self.objectives:
            rest = objective.targets_array - center
            weights = objective.weights_array
            weights = np.ones_like(rest) if weights is None else weights
            sums += np.sum(weights * rest), np.sum(weights * rest * rest)
        return sums

    def loss_sum(self, w):
        """Return the sum of the losses of a model."""
        return sum(float(objective.sums([w])[0]) for objective in self.objectives)

    def masses_of(self, duals):
        """Return the masses of positive and of negative duals."""
        pairs = zip(self.objectives, duals, strict=True)
        return sum((np.array(objective.masses(a)) for objective, a in pairs), np.zeros(2))

    def sums(self, w, duals, models, of_duals=None):
        """Return sums over the rows: the losses of one or two models; the conjugates of duals.

        The latter with their products by w, any w; adds w(a) to `of_duals`, as `Objective.sums`.
        """
        total = np.zeros(CONJUGATE + 1)
        for objective, of_block in zip(self.objectives, duals, strict=True):
            total += objective.sums(models, w, of_block, of_duals=of_duals)[: CONJUGATE + 1]
        return total

    def weights_of(self, duals):
        """Return this partition's part of w(a)."""
        return sum(
            (
                objective.weights_of_dual(of_block)
                for objective, of_block in zip(self.objectives, duals, strict=True)
            ),
            np.zeros(self.n_weights),
        )


class LocalPartitions:
    """Partitions in this process.

    Parameters
    ----------
    partitions : list of Partition
    groups : list of lists of int, default=None
        The chunks of every partition. None: all rows are in the order of the partitions.

    Attributes
    ----------
    n_lost : int
        Partitions that `ask_retrying` found lost.
    """

    n_lost = 0

    def __init__(self, partitions, groups=None):
        self.partitions, self.groups = partitions, groups

    def __len__(self):
        return len(self.partitions)

    def ask(self, method, *arguments, only=None):
        """Return what the partitions answer, in their order, a list.

        Parameters
        ----------
        method : str
        *arguments : object
        only : set of int, default=None
            The partitions that are asked. None means all.
        """
        asked = range(len(self)) if only is None else sorted(only)
        return list(self._answers(method, arguments, asked))

    def _answers(self, method, arguments, asked):
        return (getattr(self.partitions[k], method)(*arguments) for k in asked)

    def total(self, method, *arguments):
        """Return the sum of the vectors with which the answers begin, and what is left of them."""
        return sum_of(self._answers(method, arguments, range(len(self))))

    def close(self):
        """Forget the partitions."""
        self.partitions = ()


def sum_of(answers):
    """Return the sum of the vectors with which answers begin, and what is left of them.

    By the tree of `added_neighbours`; of answers that come one by one few vectors are kept.
    """
    sums, rests = [], []  # of 2^level vectors each, levels falling
    for vector, *rest in answers:
        level = 0
        while sums and sums[-1][0] == level:
            vector = np.add(sums.pop()[1], vector)
            level += 1
        sums.append((level, vector))
        rests.append(rest)
    (_, total), *earlier = reversed(sums)
    for _, vector in earlier:
        total = np.add(vector, total)
    return total, rests


def added_neighbours(parts, add, count=1):
    """Add neighbours until no more than `count` are left; `add` takes two of them."""
    while len(parts) > count:
        pairs = itertools.zip_longest(parts[::2], parts[1::2])
        parts = [first if second is None else add(first, second) for first, second in pairs]
    return parts


class WholeObjective(BaseObjective):
    """The objective of all partitions together, as `_drive` wants it."""

    def __init__(self, solver):
        self.solver = solver
        self.accesses = 0

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        return (np.zeros(self.solver.n_weights), *self._values_at_zeros)

    @cached_property
    def _values_at_zeros(self):
        parts = self.solver.retrying(lambda: self.solver.partitions.ask("at_zeros"))
        return tuple(float(sum(part)) for part in zip(*parts, strict=True))


_STATE = "n_iter", "accesses", "work", "n_lost", "estimated_gap"


class Rounds(Solver):
    """What solvers over partitions share: a round is an iteration.

    A subclass has `_recover(lost)`, which makes lost partitions again, and `_begin()`.

    Parameters
    ----------
    partitions : LocalPartitions or the like
    problem : Problem
    n_weights, n_stored : int
        Length of w; feature values of all rows.

    Attributes
    ----------
    n_lost : int
        Partitions that were lost.
    """

    def __init__(self, partitions, problem, *, n_weights, n_stored):
        self.partitions, self.problem = partitions, problem
        self.n_weights, self.n_stored = n_weights, n_stored
        self.n_iter = self.accesses = self.n_lost = 0
        self.work = 0.0
        self.estimated_gap = np.inf
        self.objective = WholeObjective(self)
        self.retrying(self._begin)

    def _penalty(self, w):
        problem = self.problem
        square = inner(w[:-1], w[:-1]) + problem.intercept_penalty * w[-1] * w[-1]
        return problem.alpha / 2 * (square if problem.has_multiplier else inner(w, w))

    def _certificate(self, sums, w, models, of_duals=None):
        """Return the best model, its primal value and the dual value, from what partitions tell.

        Here w is that of their sums; None for `of_duals` means that it is w(a) of the duals.
        """
        self.objective.accesses += self.n_stored
        means = sum(sums) / self.problem.total_weight
        primals = [
            self._penalty(model) + float(loss)
            for model, loss in zip(models, means[: len(models)], strict=True)
        ]
        best = int(np.argmin(primals))
        dual = self._penalty(w) - float(means[CONJUGATE])
        if of_duals is not None:
            dual -= self._penalty(w - self.problem.penalized(of_duals))
        return models[best], primals[best], dual

    def retrying(self, request):
        """Return request(), however many partitions must be made again for it."""
        return retrying(self.partitions, request, self._recover, self)

    def _last_round(self):
        """What partitions must know of it to tell their state."""
        return ()

    def state(self):
        """Return what `set_state` needs to go on, a flat dict of arrays and numbers."""
        state = saved(self, _STATE) | {"certificate_accesses": self.objective.accesses}
        parts = self.retrying(lambda: self.partitions.ask("state", *self._last_round()))
        for k, part in enumerate(parts):
            state |= prefixed(k, part)
        return state

    def set_state(self, state):
        """Go on from a `state()` of a solver made alike."""
        restore(self, _STATE, state)
        self.objective.accesses = take(state, "certificate_accesses", 0)
        for k in range(len(self.partitions)):
            part = part_of(state, k)
            self.retrying(lambda k=k, part=part: self.partitions.ask("set_state", part, only={k}))


def retrying(partitions, request, recover, counts):
    """Return request(); where partitions are lost, make them again, recover(lost), and repeat.

    Parameters
    ----------
    partitions : LocalPartitions or the like
    request, recover : callable
    counts : object
        Its `n_lost` counts every loss.

    Raises
    ------
    RuntimeError
        If they are lost time and again.
    """
    lost, cause = set(), None
    for _ in range(MOST_LOSSES):
        try:
            if lost:
                partitions.rebuild(lost)
                recover(lost)
                lost = set()
            return request()
        except PartitionsLost as error:
            counts.n_lost += len(error.indices)
            lost |= error.indices
            cause = error.__cause__
    raise RuntimeError(
        f"partitions {sorted(lost)} were lost {MOST_LOSSES} times in a row: their workers die "
        f"with them, perhaps for want of memory, or their sources fail; the last error: {cause!r}"
    ) from cause


def ask_retrying(partitions, method):
    """Return what partitions answer, making those again that are lost meanwhile."""
    return retrying(partitions, lambda: partitions.ask(method), lambda lost: None, partitions)


def total_retrying(partitions, method, *arguments):
    """Return what their `total` does, making those again that are lost meanwhile."""
    return retrying(
        partitions,
        lambda: partitions.total(method, *arguments),
        lambda lost: None,
        partitions,
    )


def summary_of(answers):
    """Return the StreamSummary of all partitions, from those of each."""
    return StreamSummary(*map(sum, zip(*answers, strict=True)))


def columns_of(found):
    """Return the number of columns of all partitions, and their names or None.

    Parameters
    ----------
    found : list
        What partitions tell of their `n_columns` and `names`, None from those without rows.

    Raises
    ------
    ValueError
        If there is none, or they differ.
    """
    n_columns = names = None
    for k, part in enumerate(found):
        if part is None:
            continue
        with naming(f"partition {k}"):
            if n_columns not in (None, part.n_columns):
                raise ValueError(f"{part.n_columns} columns, but those before have {n_columns}")
            n_columns, names = part.n_columns, agreed_names(names, part.names)
            check_names_fit(names, n_columns)
    if n_columns is None:
        raise ValueError(
            "there are no rows to learn from: all partitions are empty, or all weights are 0"
        )
    return n_columns, names
