"""Blocks of a stream's rows, and copies of some of them."""

from copy import copy
from functools import partial

import numpy as np
import scipy.sparse as sp

from sublinear._core.kept_rows import Sample, copied_sparse, joined
from sublinear._core.losses import COUNT_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.order import sort_indices

COPIED = 2**18  # values that are copied at a time
NEAR = 8  # one in so many rows, from which on those of a sum are read in the order of memory
COUNTING = tuple(entry.loss for entry in COUNT_LOSSES.values())


class RowBlock:
    """Rows of a stream, in the form that solvers take.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows,), float64
    weights : ndarray of shape (n_rows,), float64, or None for ones
    constant : float
        The value of the constant feature; 0 for none.
    order : ndarray of uint32, default=None
        The order of the rows, which `sort` changes; None: as they are.
    """

    def __init__(self, X, targets, weights, constant, order=None):
        self.X, self.constant, self.order = X, constant, order
        self.matrix = Matrix(X, constant=constant)
        self.targets, self.weights = targets, weights
        self._copies = None  # of rows, for several problems
        self._sorted = 0  # up to where the order is that of memory, as only sums count there

    @property
    def n_rows(self):
        """How many rows there are."""
        return self.matrix.n_rows if self.order is None else len(self.order)

    def with_all(self, targets):
        """Return this block and copies of it, with each of the targets; kept rows are shared."""
        blocks = [self, *(copy(self) for _ in targets[1:])]
        copies = {} if len(targets) > 1 else None
        for block, its_targets in zip(blocks, targets, strict=True):
            block.targets, block._copies = its_targets, copies
        return blocks

    def sort(self, start, stop):
        """Let rows from `start` to `stop` - 1 or the last one come as they lie in memory.

        Where they are too few for that to bring them nearer, they stay as they are; and so do the
        rows before the `stop` of the last call, and those of several problems, which share an order
        but may sum other rows.
        """
        if self.order is not None and self._copies is None and start >= self._sorted:
            self._sorted = min(stop, self.n_rows)
            if NEAR * (self._sorted - start) >= self.matrix.n_rows:
                sort_indices(self.order[start : self._sorted], self.matrix.n_rows)

    def chosen(self, start, stop):
        """Return what picks the rows start .. stop - 1 out of X."""
        return slice(start, stop) if self.order is None else self.order[start:stop]

    def add_weights(self, total, start, stop):
        """Return a total and the weights of rows, added one by one: no cut of a stream is seen."""
        if self.weights is None:
            return total + (stop - start)
        weights = self.weights[self.chosen(start, stop)]
        with np.errstate(over="ignore"):  # a total of inf is refused
            return float(np.add.accumulate(np.concatenate(([total], weights)))[-1])

    def kept(self, start, stop):
        """Return a Sample of rows."""
        chosen = self.chosen(start, stop)
        copies = {} if self._copies is None else self._copies
        if (start, stop) not in copies:
            copies[start, stop] = self._copied(chosen)
        weights = np.ones(stop - start) if self.weights is None else self.weights[chosen]
        return Sample(copies[start, stop], np.array(self.targets[chosen]), np.array(weights))

    def picked(self, places):
        """Return a Sample of the rows at an array of places."""
        rows = places if self.order is None else self.order[places]
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        return Sample(self._copied(rows), self.targets[rows], weights)

    def _copied(self, chosen):
        if sp.issparse(self.X):
            return copied_sparse(self.matrix, chosen)
        return copied_dense(self.X, chosen, self.constant)


class HeavyRows:
    """Rows whose masses are beyond a bound; where they become too many, it rises.

    The mass of a row is about what it adds to a Hessian, but for its features, in any unit.

    Parameters
    ----------
    counting : bool
        Whether targets are counts: curvatures grow with them.
    most : int
    bound : float, default=0.0
    sample : Sample, default=None
        Rows to begin with.
    """

    def __init__(self, counting, most, bound=0.0, sample=None):
        self.counting, self.most, self.bound = counting, most, bound
        self.samples = [] if sample is None else [sample]

    def beyond(self, targets, weights):
        """Return which rows are beyond the bound."""
        return self.masses(targets, weights) > self.bound

    def masses(self, targets, weights):
        """Return those of rows."""
        return weights * targets if self.counting else weights

    def take(self, block, start, stop):
        """Take what is beyond the bound of rows of a RowBlock."""
        if block.weights is None and not self.counting:
            return
        chosen = block.chosen(start, stop)
        targets = block.targets[chosen]
        weights = np.ones(len(targets)) if block.weights is None else block.weights[chosen]
        places = start + np.flatnonzero(self.beyond(targets, weights))
        if places.size:
            self._append(block.picked(places))

    def add(self, sample):
        """Take what is beyond the bound of a Sample."""
        chosen = self.beyond(sample.targets, sample.weights)
        if chosen.any():
            self._append(part_of_sample(sample, chosen))

    def rise_to(self, bound):
        """Let the bound be at least that."""
        self.bound = max(self.bound, bound)
        samples, self.samples = self.samples, []
        for sample in samples:
            self.add(sample)

    def _append(self, sample):
        self.samples.append(sample)
        if sum(len(sample.targets) for sample in self.samples) > self.most:
            heavy = joined(self.samples)
            masses = self.masses(heavy.targets, heavy.weights)
            self.bound = float(np.partition(masses, -self.most - 1)[-self.most - 1])
            self.samples = [part_of_sample(heavy, masses > self.bound)]

    def copy(self):
        """Return one that goes on in this one's place and leaves it as it is."""
        other = HeavyRows(self.counting, self.most, self.bound)
        other.samples = list(self.samples)
        return other


def part_of_sample(sample, chosen):
    """Return the Sample of some of its rows."""
    return Sample(*(array[chosen] for array in sample))


def is_of_counts(loss):
    """Tell whether a loss is one of counts, whose curvature grows with them."""
    return isinstance(loss, COUNTING)


def joined_blocks(blocks, least_rows, start=0):
    """Yield (slice of the rows, rows, weights or None, targets, ..), small blocks together.

    Parameters
    ----------
    blocks : iterable of (X, weights or None, targets, ..)
    least_rows : int
        Blocks of fewer rows are joined with the ones after them.
    start : int, default=0
        Rows before the first block.
    """
    stop, parts = start, []
    for block in blocks:
        stop += block[0].shape[0]
        if stop - start >= least_rows:
            yield slice(start, stop), *_joined([*parts, block])
            start, parts = stop, []
        else:  # a source may fill the same arrays again
            parts.append([None if part is None else part.copy() for part in block])
    if parts:
        yield slice(start, stop), *_joined(parts)


def _joined(blocks):
    """Return the rows, the weights or None, and the targets of several blocks together."""
    if len(blocks) == 1:
        return blocks[0]
    rows, weights, *targets = zip(*blocks, strict=True)
    stack = partial(sp.vstack, format="csr") if any(map(sp.issparse, rows)) else np.vstack
    if all(own is None for own in weights):
        return stack(rows), None, *map(np.concatenate, targets)
    weights = [
        np.ones(len(y)) if own is None else own for own, y in zip(weights, targets[0], strict=True)
    ]
    return stack(rows), *map(np.concatenate, (weights, *targets))


def copied_dense(X, chosen, constant):
    """Return X[chosen] as float64, with a column more that holds the constant unless it is 0."""
    is_run, n_columns = isinstance(chosen, slice), X.shape[1]
    rows = X[chosen] if is_run else chosen
    copied = np.empty((len(rows), n_columns + bool(constant)))
    step = max(1, COPIED // n_columns)
    for start in range(0, len(rows), step):  # no second copy of all, and Ctrl-C is seen
        part, own = rows[start : start + step], copied[start : start + step]
        own[:, :n_columns] = part if is_run else X[part]
        own[:, n_columns:] = constant
    return copied
