"""Which KernelRows suit the examples at hand, and how exact their values are."""

import numpy as np

from sublinear._core.kernel_rows import LARGEST
from sublinear._core.kernels import (
    Linear,
    centred_size,
    exact_values,
    root_mean_square,
    rows_of,
)
from sublinear._core.matrix import Matrix
from sublinear._core.panel_rows import PanelRows, PostingRows, panel_bytes

SAMPLE = 32  # examples whose kernel values are compared with exact ones
SURE = 0.0025  # of the spread: bounds on errors below it leave nothing to measure
LEAST_SPREAD = 1e-14  # of the mean square of images: none that float64 can tell
HIDING = 0.01  # errors of float32 exponents, of which values near their bounds may show little
MOST_PANEL_BYTES = 2**22  # of one panel of sparse data
POSTING_COST = 40  # of a matching pair, in stored entries of a row in panels


def kernel_rows(kernel, X, Y=None, memory=float("inf"), n_threads=1, spread=0.0):
    """Return the KernelRows of a Kernel between the rows of X and those of Y.

    Parameters
    ----------
    kernel : Kernel
    X, Y : ndarray or CSR matrix
        As Matrix takes them; Y None means X.
    memory : float, default=inf
        Bytes that panels of Y may take; without them panels are built when they are needed.
    n_threads : int, default=1
        That build panels.
    spread : float, default=0.0
        `least_spread` of X, if it is known. Where errors are small beside it for sure, they are not
        measured, and `rounding` is a bound.
    """
    left = Matrix(X)
    right = left if Y is None else Matrix(Y)
    squares = left.squared_norms()
    largest = float(squares.max())
    if right is not left:
        largest = max(largest, float(right.squared_norms().max()))
    if not kernel.largest(largest) < LARGEST:
        raise ValueError(
            "the kernel's values, or inner products they are made of, leave the range of float32: "
            "scale X down or choose a smaller gamma"
        )
    stored = left.n_stored / left.n_rows
    mean = None
    bytes_of_one, bytes_of_all = panel_bytes(right)
    if left.is_sparse:
        if bytes_of_one > MOST_PANEL_BYTES or matching_pairs(left, right) * POSTING_COST < stored:
            rows = PostingRows(kernel, left, right)
            return measured(rows, left, right, stored, largest, spread)
    elif kernel.is_far(squares, lambda: column_means(left)):
        mean = column_means(left)
        left, right = centred(left, right, mean)
        largest = max(float(side.squared_norms().max()) for side in (left, right))
    rows = PanelRows(kernel, left, right, bytes_of_all <= memory, n_threads)
    measured(rows, left, right, stored, largest, spread)
    if mean is not None and isinstance(kernel, Linear):
        rows.set_offsets(mean)
    return rows


class KeptColumns:
    """Kernel matrices of any few dense rows with columns that stay: their panels are kept.

    Parameters
    ----------
    kernel : Kernel
        Not linear.
    Y : ndarray
        The columns. They are not kept, but panels of them, once they are used.
    spread : float
        `least_spread` of Y.
    """

    def __init__(self, kernel, Y, spread):
        self.kernel, self.spread, self.panels = kernel, spread, None
        self.mean = column_means(Matrix(Y)) if centres(kernel, Y) else None
        self.largest = float(self._seen(Y).squared_norms().max())

    def _seen(self, X):
        """Return rows as the kernel sees them."""
        return Matrix(X if self.mean is None else X - self.mean)

    def rows(self, X, Y):
        """Return the KernelRows of X with the columns Y: the values of `kernel_rows`, transposed.

        None if that would have to measure their errors.
        """
        left = self._seen(X)
        largest = max(self.largest, float(left.squared_norms().max()))
        if not self.kernel.most_error(left.longest_row, largest) < SURE * self.spread:
            return None
        if self.panels is None:
            columns = self._seen(Y)
            first = rows_of(columns, slice(1))  # not X, which would stay in memory
            self.panels = PanelRows(self.kernel, first, columns).with_rows(first)
        return self.panels.with_rows(left)


def centres(kernel, X):
    """Tell whether `kernel_rows` centres dense rows X."""
    matrix = Matrix(X)
    return kernel.is_far(matrix.squared_norms(), lambda: column_means(matrix))


def column_means(matrix):
    """Return the mean of the rows of a dense matrix (float64)."""
    return matrix.arrays[0].mean(axis=0, dtype=np.float64)


def centred(left, right, mean):
    """Return dense matrices with `mean` taken off their rows, one object if they are one."""
    moved = Matrix(left.arrays[0] - mean)
    return moved, moved if right is left else Matrix(right.arrays[0] - mean)


def spread_out(matrix, count):
    """Return up to so many numbers of a matrix's rows at equal distances (int64)."""
    count = min(count, matrix.n_rows)
    return np.arange(count, dtype=np.int64) * (matrix.n_rows - 1) // max(1, count - 1)


def least_spread(kernel, X):
    """Return how far images of rows of X and any others lie from their mean at least, squared.

    By the sample that `measured` takes of the rows of X. With as many others |m + m'|^2 / 4 of the
    means is at most (|m|^2 + |m'|^2) / 2, so half of what the rows of X have is left. 0 where
    rounding, or a kernel that has no images, would make it negative.
    """
    matrix = Matrix(X)
    side = rows_of(matrix, spread_out(matrix, SAMPLE // 2))
    if not side.is_sparse and kernel.is_far(side.squared_norms(), lambda: column_means(side)):
        side, _ = centred(side, side, column_means(side))
    values = exact_values(kernel, side, side)
    return max(0.0, float(values.diagonal().mean() - values.mean()) / 2)


def measured(rows, left, right, stored, largest, least=0.0):
    """Return KernelRows with their errors set, from a sample compared with float64.

    `least` is `least_spread` of the left side, or 0.
    """
    kernel, same = rows.kernel, right is left
    bound = kernel.most_error(left.longest_row, largest)
    if bound < SURE * least:
        rows.rounding = bound / least
        return rows
    numbers = others = spread_out(left, SAMPLE if same else SAMPLE // 2)
    sides = [rows_of(left, numbers)]
    if not same:
        others = spread_out(right, SAMPLE // 2)
        sides.append(rows_of(right, others))
    between = exact_values(kernel, sides[0], sides[-1])
    within = [between] if same else [exact_values(kernel, side, side) for side in sides]
    off = rows.block(numbers, others)[:, : len(others)] - between
    diagonal = sum(float(values.trace()) / len(values) for values in within) / len(within)
    spread = spread_of(between, within, diagonal)
    rows.rounding, exact_deviation = kernel.rounding(stored, largest), 0.0
    if rows.rounding > HIDING:
        exact_deviation = kernel.exact_error(sides[0]) * root_mean_square(between)
    rows.set_errors(root_mean_square(off), diagonal, exact_deviation)
    if spread > LEAST_SPREAD * diagonal:
        rows.rounding = max(rows.rounding, rows.deviation / spread)
    return rows


def spread_of(between, within, diagonal):
    """Return how far images lie from their mean, squared, by values between and within the sides.

    Where the kernel has no images, that may be 0: the centred values are then looked at.
    """
    mean, size = centred_size(between)
    overall = mean
    if len(within) > 1:
        overall = (sum(values.mean() for values in within) / 2 + mean) / 2
    return max(diagonal - overall, size)


def matching_pairs(left, right):
    """Return how many features a row of each have in common on average; sparse matrices."""
    counts, others = (feature_counts(side) for side in (left, right))
    return counts @ others / left.n_rows / right.n_rows


def feature_counts(side):
    """Return how many rows of a sparse matrix have each feature."""
    counts, step = np.zeros(side.n_columns), max(2**16, side.n_columns)
    for start in range(0, side.n_stored, step):  # bincount copies indices
        part = side.arrays[1][start : min(start + step, side.n_stored)]
        counts += np.bincount(part, minlength=side.n_columns)
    return counts
