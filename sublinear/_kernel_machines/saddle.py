"""The sublinear problems in the space of a kernel: parameters, solver, sums of kernel functions."""

import math

import numpy as np

from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_estimators import KernelEstimator
from sublinear._core.matrix import Matrix
from sublinear._kernel_machines.training import (
    FittedKernel,
    alike,
    check_kernel_shape,
    checked_rounding,
    checked_square,
    gamma_value,
    told_apart,
)
from sublinear._saddle import MAX_PASSES, WHOLE_PASSES, RoundsPlan, variant_of
from sublinear._solvers.kernel_active_set import LARGEST_ERROR, KernelActiveSet
from sublinear._solvers.kernel_primal_dual import KernelPrimalDual
from sublinear._threads import effective_threads
from sublinear._validation import check_choice, has_matrix

NAMES = ("linear", "poly", "rbf")  # of the kernels that have estimators
KERNEL_VALUES = ("exact", "sampled")
MEMORY = 2**29  # bytes, for kernel rows that are kept, and for panels of X
CHUNK = 4096  # rows of a prediction
# of the largest kernel value: what float32 may do to a squared distance, but for the `rounding` of
# KernelRows
ROUNDING = 2e-6
CANCELLED = 5e-7  # of the same: |x|^2 below it, where images cancel, is rounding by a percent

KERNEL_PARAMETERS = """\
kernel : {"linear", "poly", "rbf"}, default="linear"
        "poly": (gamma <x, z> + coef0)^degree; "rbf": exp(-gamma |x - z|^2). With these the model
        is a sum of kernel functions around rows, found without variance reduction, and the
        result, and an epsilon that is absolute, are in the units of the kernel's space.
    kernel_values : {"exact", "sampled"}, default="exact"
        With "poly" and "rbf": kernel rows of the rows drawn, a value for each row, or unbiased
        estimates of them from a few columns. Certificates have exact values. batch_size="auto" is
        16, with estimates 1.
    gamma : {"scale", "auto"} or float, default="scale"
        Positive. "scale": 1 / (n_features * variance of all values, rows counted by their
        weights); "auto": 1 / n_features.
    %(degree)s
    %(coef0)s"""


def is_linear(settings):
    """Whether the problem is solved in the space of X."""
    return settings.kernel == "linear"


def check_kernel_parameters(settings, X):
    """Raise ValueError unless the parameters of KERNEL_PARAMETERS make sense, with the others."""
    check_choice("kernel", settings.kernel, NAMES)
    check_choice("kernel_values", settings.kernel_values, KERNEL_VALUES)
    check_kernel_shape(settings)
    if is_linear(settings):
        return
    if settings.variant == "variance_reduced":
        raise ValueError('variant="variance_reduced" needs kernel="linear"')
    if settings.variant == "active_set" and settings.kernel_values == "sampled":
        raise ValueError('variant="active_set" needs kernel_values="exact"')
    if settings.certify == "sampled":
        raise ValueError('certify="sampled" needs kernel="linear"')
    if has_matrix(X):
        raise ValueError("kernels need rows in memory: X is a store or an oracle")


def kernel_variant(settings):
    """Return the variant of a ball or a quadratic program in the space of a kernel."""
    return variant_of(settings, "active_set" if settings.kernel_values == "exact" else "plain")


class KernelSpace:
    """The rows of X in the space of a kernel.

    Parameters
    ----------
    settings : object
        Has the attributes of KERNEL_PARAMETERS.
    X : ndarray or CSR matrix
    shift : float, default=0.0
        What is added to the kernel, for an intercept.
    weights : ndarray of shape (n_rows,), default=None
        How often the rows count for gamma="scale".
    variant : str, default="plain"
        "active_set" takes rows in float64 where float32 cannot tell the values.

    Attributes
    ----------
    fitted : FittedKernel
    rows : KernelRows
    rounding : float
        Typical error of float32 values, as predictions have, relative to their spread.
    diagonal : ndarray of shape (n_rows,)
        k(x, x).
    longest : float
        The largest length of an image.
    """

    def __init__(self, settings, X, shift=0.0, weights=None, variant="plain"):
        self.shift = shift
        self.fitted = FittedKernel.of(settings, gamma_value(settings.gamma, X, weights))
        self.kernel = self.fitted.function()
        self.matrix = Matrix(X)
        rows = kernel_rows(self.kernel, X, memory=MEMORY / 2)
        self.rounding = rows.rounding
        self.rows = checked_square(told_apart(rows) if variant == "active_set" else rows)
        self.squares = self.matrix.squared_norms()
        self.diagonal = np.array(self.rows.diagonal)
        self.longest = float(np.sqrt(max(0.0, self.diagonal.max()) + shift)) or 1.0
        if settings.kernel_values == "sampled":
            self.matrix.transposed()  # once, before threads ask for it

    def farthest_from_first(self):
        """Return the largest distance of an image from the first one, what is noticeable at least.

        That is one kernel row.
        """
        row = self.rows.block(np.zeros(1, dtype=np.int64))[0, : self.rows.n_columns]
        squares = self.diagonal + self.diagonal[0] - 2.0 * row
        return math.sqrt(max(squares.max(), ROUNDING * self.longest**2))

    def row_sizes(self):
        """Return how many values every row of X stores."""
        if self.matrix.is_sparse:
            return np.diff(self.matrix.arrays[2])
        return np.full(self.matrix.n_rows, self.matrix.n_columns)


class KernelPlan(RoundsPlan):
    """How a problem is going to be solved in the space of a kernel: what `Plan` is without one.

    Parameters
    ----------
    settings : object
        Has the `saddle_parameters` and those of KERNEL_PARAMETERS as attributes.
    geometry : str
    space : KernelSpace
    epsilon : float
    unit : float
        What epsilon is measured against.
    variant : str, default="plain"
        "plain" or "active_set".
    """

    def __init__(self, settings, geometry, space, epsilon, unit, variant="plain"):
        super().__init__(settings, geometry)
        self.space, self.epsilon, self.unit = space, epsilon, unit
        self.is_whole = variant in WHOLE_PASSES
        self.sampled = settings.kernel_values == "sampled"
        batch = self._batch(settings.batch_size)
        n_rows = space.matrix.n_rows
        self._set_lengths(settings, batch, self.rates.steps, n_rows, unit / epsilon)
        if self.is_whole:
            self.max_iter = settings.max_iter or MAX_PASSES

    def _batch(self, batch_size):
        if batch_size != "auto":
            return batch_size
        return 1 if self.theory or self.sampled else 16

    def solver(self, problem, random):
        """Return the solver of a problem, whose unit is about the largest length of a line.

        None: that of an image and its part of the ridge.
        """
        space, unit = self.space, problem.unit
        if self.is_whole:
            return KernelActiveSet(
                problem,
                space.rows,
                space.row_sizes(),
                space.matrix.n_columns,
                epsilon=self.epsilon,
                relative=problem.relative,
            )
        if unit is None:
            # <image, x> is at most the product of their lengths; the shortest e there is has this
            tail = problem.ridge.max() * problem.shortest_tail()
            unit = float(np.sqrt(space.longest**2 + tail))
        problem.kernel_error = LARGEST_ERROR * space.rows.deviation
        problem.kernel_rounding = ROUNDING * space.longest**2 + 4 * problem.kernel_error
        problem.least_length = math.sqrt(CANCELLED * space.longest**2 + problem.kernel_error)
        estimator = None
        if self.sampled:
            estimator = KernelEstimator(space.kernel, space.matrix, space.squares)
        return KernelPrimalDual(
            problem,
            space.rows,
            space.row_sizes(),
            space.matrix.n_columns,
            random,
            shift=space.shift,
            unit=unit,
            batch_size=self.batch,
            **self._rounds(),
            estimator=estimator,
            capacity=int(MEMORY / 2 / (4 * space.matrix.n_rows)),
            skips=self.theory and problem.geometry == "hull",
        )


def kernel_sum(fitted, support_vectors, coefficients, X, n_jobs=None):
    """Return sum_j coefficients[:, j] k(support vector j, x) for the rows x of X.

    Parameters
    ----------
    fitted : FittedKernel
    support_vectors : ndarray or CSR matrix
    coefficients : ndarray of shape (n_outputs, n_support)
    X : ndarray or CSR matrix
    n_jobs : int, default=None

    Returns
    -------
    sums : ndarray of shape (n_outputs, n_rows), float64
    """
    sums = np.zeros((len(coefficients), X.shape[0]))
    if coefficients.shape[1] == 0:
        return sums
    kernel = fitted.function()
    support, shown = alike(support_vectors, X, fitted)
    order = np.arange(coefficients.shape[1])
    for start in range(0, X.shape[0], CHUNK):
        part = shown(X[start : start + CHUNK])
        rows = checked_rounding(told_apart(kernel_rows(kernel, support, part, memory=0)))
        products = np.zeros((len(coefficients), rows.n_columns))
        rows.add_product(order, coefficients, products, effective_threads(n_jobs))
        sums[:, start : start + CHUNK] = products
    return sums


def self_values(fitted, X):
    """Return k(x, x) for the rows x of X (float64), by a FittedKernel."""
    if fitted.name == "rbf":
        return np.ones(X.shape[0])
    squares = Matrix(X).squared_norms()
    return (fitted.gamma * squares + fitted.coef0) ** fitted.degree
