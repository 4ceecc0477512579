"""What kernel machines of all kinds need before a solver runs: parameters, gamma, the data."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sublinear._certified_model import Training
from sublinear._core.kernel_choice import centres
from sublinear._core.kernel_rows import ExactRows, KernelRows
from sublinear._core.kernels import KERNELS
from sublinear._core.matrix import Matrix
from sublinear._kernel_machines.memory import KernelMemory
from sublinear._validation import check_number
from sublinear._warnings import warn

ROWS_LOOKED_AT = 1000  # for how many values they store
MOST_ROUNDING = 0.01  # of the spread of kernel values
MOST_OF_SCORES = 0.001  # of a margin, or of the deviation of the targets
LEAST_VARIANCE = 1e-290  # 1 / gamma; squares of smaller values underflow
LARGEST_TARGET = 1e18
BLOCK = 2**16  # stored values, about, looked at together
LEAST_SQUARE = 1e-6  # k(x, x) may be minus that of the largest: rounding of given values


@dataclass
class KernelTraining(Training):
    """The Training of a kernel machine: `matrix` is None, there is a kernel matrix instead.

    Attributes
    ----------
    rows : KernelRows or None
        Of all examples; None where there are subsets.
    subsets : list of callables or None
        Each returns the examples of a problem, in order, where it has not all of them.
    memory : KernelMemory or None
    """

    rows: KernelRows | None = None
    subsets: list | None = None
    memory: KernelMemory | None = None

    constant = 1.0
    dtype = np.dtype(np.float64)

    @property
    def n_rows(self):
        """How many examples there are."""
        return self.X.shape[0]

    @property
    def n_given(self):
        """How many there are with those without weight, which have no part in the fit."""
        return self.given.count or self.n_rows

    @property
    def n_weights(self):
        """The coefficients, and the intercept."""
        return self.n_rows + 1

    @cached_property
    def stored(self):
        """How many values a row stores, about."""
        some = self.X[:: max(1, self.n_rows // ROWS_LOOKED_AT)]
        return (some.nnz if sp.issparse(some) else np.count_nonzero(some)) / some.shape[0]

    @cached_property
    def block_size(self):
        """How many rows a block has."""
        return self.memory.block_size(self.n_rows, self.stored)

    @cached_property
    def most_at_once(self):
        """How many problems may be solved at the same time."""
        n_rows = self.n_rows
        if self.subsets is not None:  # of two classes
            n_rows = int(np.sort(np.unique(self.y, return_counts=True)[1])[-2:].sum())
        room = self.memory.most_at_once(n_rows, self.stored, self.block_size)
        return min(len(self.targets), room)


class FittedKernel(NamedTuple):
    """The kernel of a fit: predictions keep to it, whatever parameters are set after the fit.

    Attributes
    ----------
    name : str or callable
    gamma : float or None
        A number, where the kernel is one of KERNELS.
    degree : int
    coef0 : float
    """

    name: object
    gamma: float | None
    degree: int
    coef0: float

    @classmethod
    def of(cls, settings, gamma=None):
        """Return that of present parameters."""
        return cls(settings.kernel, gamma, settings.degree, settings.coef0)

    @property
    def is_precomputed(self):
        """Whether X is the kernel matrix."""
        return not callable(self.name) and self.name == "precomputed"

    @property
    def is_given(self):
        """Whether values come from a callable or a matrix."""
        return callable(self.name) or self.is_precomputed

    @property
    def is_definite(self):
        """Whether it is positive semi-definite for sure."""
        return self.name in ("rbf", "linear") or (self.name == "poly" and self.coef0 >= 0)

    def most_rank(self, n_features):
        """Return a bound on the rank of its matrices, inf if none is known."""
        return math.inf if self.is_given else self.function().most_rank(n_features, math.inf)

    def function(self):
        """Return the Kernel, which is compiled."""
        return KERNELS[self.name](self.gamma, self.degree, self.coef0)


def check_kernel_shape(estimator):
    """Raise ValueError unless gamma, degree and coef0 make sense."""
    check_number("gamma", estimator.gamma, low=0, open_low=True, words=("scale", "auto"))
    check_number("degree", estimator.degree, low=0, high=1000, integer=True)
    check_number("coef0", estimator.coef0, low=-math.inf)


def alike(support, X, fitted):
    """Return support vectors, and a function of rows of X, so that both are sparse or both dense.

    Those of X have the say, unless dense ones are centred: the model was fitted to such rows.
    """
    if sp.issparse(X) == sp.issparse(support):
        return support, lambda rows: rows
    if sp.issparse(support):
        return support.toarray(), lambda rows: rows
    if not fitted.is_given and centres(fitted.function(), support):
        return support, dense_rows
    return sp.csr_array(support), lambda rows: rows


def dense_rows(X):
    """Return sparse rows as an array; ValueError for indices out of range, which SciPy follows."""
    Matrix(X)
    return X.toarray()


def told_apart(rows):
    """Return KernelRows, in float64 if float32 cannot tell the values."""
    return ExactRows(rows) if rows.rounding > MOST_ROUNDING else rows


def checked_rounding(rows):
    """Return KernelRows; warn if their floating-point numbers cannot tell what the values are."""
    if rows.rounding > MOST_ROUNDING:
        size = "float64" if rows.is_exact else "float32"
        warn(
            f"kernel values, which are {size}, are off by about {rows.rounding:.1g} of their "
            "spread: the model, its certificate and its predictions are those of the rounded "
            "values. Centre X, scale it, or change gamma or coef0.",
            UserWarning,
        )
    return rows


def loses_scores(deviation, coefficients, size):
    """Tell whether errors of kernel values make sums with coefficients useless.

    Parameters
    ----------
    deviation : float
        That of the errors.
    coefficients : ndarray of shape (n_outputs, n_rows)
    size : float
        What the sums are measured against.
    """
    off = deviation * np.sqrt((coefficients**2).sum(axis=1).max())  # errors are independent
    return bool(off > MOST_OF_SCORES * size)


def check_targets(targets):
    """Raise ValueError for numbers whose squares float32, in which steps are taken, cannot hold."""
    largest = np.abs(targets).max()
    if largest and not 1 / LARGEST_TARGET <= largest <= LARGEST_TARGET:
        raise ValueError(
            f"the largest absolute value of y is {largest:.1g}, and kernel machines compute in "
            "float32: scale y"
        )


def check_coefficients(models):
    """Raise ValueError unless float32, in which products take them, holds all coefficients."""
    largest = max(np.abs(model[:-1]).max(initial=0.0) for model in models)
    if not largest <= np.finfo(np.float32).max:
        raise ValueError(
            "the fit left the range of float32, in which kernel machines compute: lower C, or "
            "scale sample_weight down"
        )


def checked_square(rows):
    """Return the KernelRows of examples with themselves; ValueError if a k(x, x) is negative."""
    diagonal = rows.diagonal
    least = diagonal.min()
    if least < 0 and least < -LEAST_SQUARE * np.abs(diagonal).max():
        raise ValueError(
            "k(x, x) is negative for an example, so the kernel is not positive definite and there "
            "is no optimum to find: choose a larger coef0, or another kernel"
        )
    return checked_rounding(rows)


def gamma_value(gamma, X, weights=None):
    """Return gamma as a number."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return float(gamma)
    matrix = Matrix(X)
    variance, largest = weighted_variance(matrix, weights), matrix.largest_entry()
    if variance < LEAST_VARIANCE and 0 < largest < math.sqrt(LEAST_VARIANCE):
        raise ValueError('the variance of X underflows for gamma="scale": scale X up')
    # values that differ by roundings are one value, whose variance, 0, makes gamma 1 in SVC too
    rounding = np.finfo(np.float64).eps * largest
    return 1.0 / (X.shape[1] * variance) if math.sqrt(variance) > rounding else 1.0


def weighted_variance(matrix, weights=None):
    """Return the variance of all values, rows counted by their weights, without a copy.

    Float64 sums of deviations from the mean: a float32 copy of the values has the same variance.
    All is measured from one of the values, which leaves no rounding where all are the same.
    """
    weights = np.ones(matrix.n_rows) if weights is None else weights
    count = weights.sum() * matrix.n_columns
    is_full = matrix.n_stored == matrix.n_rows * matrix.n_columns
    origin = next(blocks(matrix, weights))[0].flat[0] if is_full else 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # kernel values will be found too large
        mean = (
            sum((of_rows * (values - origin)).sum() for values, of_rows in blocks(matrix, weights))
            / count
        )
        squares = sum(
            (of_rows * (values - origin - mean) ** 2).sum()
            for values, of_rows in blocks(matrix, weights)
        )
        if matrix.is_sparse:
            zeros = matrix.n_columns - np.diff(matrix.arrays[2])
            squares += (weights * zeros).sum() * mean**2
        return squares / count


def blocks(matrix, weights):
    """Yield the stored values of some rows at a time, as float64, and their rows' weights."""
    step = max(1, BLOCK * matrix.n_rows // max(1, matrix.n_stored))
    for start in range(0, matrix.n_rows, step):
        of_rows = weights[start : start + step]
        if matrix.is_sparse:
            values, _, offsets = matrix.arrays
            ends = offsets[start : start + step + 1]
            values, of_rows = values[ends[0] : ends[-1]], np.repeat(of_rows, np.diff(ends))
        else:
            values = matrix.arrays[0][start : start + step]
            of_rows = of_rows[:, np.newaxis]
        yield values.astype(np.float64), of_rows
