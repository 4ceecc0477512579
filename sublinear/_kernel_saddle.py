"""The sublinear problems in the space of a kernel: parameters, solver, sums of kernel functions."""

import math

import numpy as np

from sublinear._core.kernel_estimators import KernelEstimator
from sublinear._core.kernels import RBF, Linear, Poly, kernel_rows
from sublinear._core.matrix import Matrix
from sublinear._kernel_training import (
    check_kernel_shape,
    checked_rounding,
    checked_square,
    gamma_value,
    like,
)
from sublinear._saddle import PRACTICAL, THEORY, batch_within, round_lengths, squared
from sublinear._solvers.kernel_primal_dual import KernelPrimalDual
from sublinear._threads import effective_threads
from sublinear._validation import check_choice, has_matrix

KERNELS = {"linear": Linear, "poly": Poly, "rbf": RBF}
KERNEL_VALUES = ("exact", "sampled")
MEMORY = 2**29  # bytes, for kernel rows that are kept, and for panels of X
CHUNK = 4096  # rows of a prediction
# of the largest kernel value: what float32 may do to a squared distance, but for the `rounding` of
# KernelRows
ROUNDING = 2e-6

KERNEL_PARAMETERS = """\
kernel : {"linear", "poly", "rbf"}, default="linear"
        "poly": (gamma <x, z> + coef0)^degree; "rbf": exp(-gamma |x - z|^2). With these the model
        is a sum of kernel functions around rows drawn, found without variance reduction, and
        `epsilon` and `result_` are in the units of the kernel's space.
    kernel_values : {"exact", "sampled"}, default="exact"
        With "poly" and "rbf": kernel rows of the rows drawn, n_samples values each, or unbiased
        estimates of them from a few columns. Certificates have exact values.
    gamma : {"scale", "auto"} or float, default="scale"
        Positive. "scale": 1 / (n_features * variance of the values of X); "auto": 1 / n_features.
    degree : int, default=3
    coef0 : float, default=0.0"""


def is_linear(settings):
    """Whether the problem is solved in the space of X."""
    return settings.kernel == "linear"


def check_kernel_parameters(settings, X):
    """Raise ValueError unless the parameters of KERNEL_PARAMETERS make sense, with the others."""
    check_choice("kernel", settings.kernel, tuple(KERNELS))
    check_choice("kernel_values", settings.kernel_values, KERNEL_VALUES)
    check_kernel_shape(settings)
    if is_linear(settings):
        return
    if settings.variant == "variance_reduced":
        raise ValueError('variant="variance_reduced" needs kernel="linear"')
    if settings.certify == "sampled":
        raise ValueError('certify="sampled" needs kernel="linear"')
    if has_matrix(X):
        raise ValueError("kernels need rows in memory: X is a store or an oracle")


class KernelData:
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
    """

    def __init__(self, settings, X, shift=0.0, weights=None):
        self.settings, self.shift = settings, shift
        self.gamma = gamma_value(settings.gamma, X, weights)
        self.kernel = KERNELS[settings.kernel](self.gamma, settings.degree, settings.coef0)
        self.matrix = Matrix(X)
        self.rows = checked_square(kernel_rows(self.kernel, X, memory=MEMORY / 2))
        self.squares = self.matrix.squared_norms()
        self.diagonal = np.array(self.rows.diagonal)
        self.longest = float(np.sqrt(max(0.0, self.diagonal.max()) + shift)) or 1.0
        self.batch = batch_within(self._batch(), settings.max_iter)
        if settings.kernel_values == "sampled":
            self.matrix.transposed()  # once, before threads ask for it

    def _batch(self):
        if self.settings.batch_size != "auto":
            return self.settings.batch_size
        if self.settings.constants == "theory" or self.settings.kernel_values == "sampled":
            return 1
        return 16

    def _row_sizes(self):
        if self.matrix.is_sparse:
            return np.diff(self.matrix.arrays[2])
        return np.full(self.matrix.n_rows, self.matrix.n_columns)

    def limit(self, epsilon, unit):
        """Return how many rows to draw at the most, with an error of epsilon for images of unit."""
        return self._steps(epsilon, unit)[1] * self.batch

    def _steps(self, epsilon, unit):
        """The steps of the first round, and of all."""
        settings, rates = self.settings, self._rates("ball")
        steps = rates.steps * math.log(max(2, self.matrix.n_rows)) * squared(unit / epsilon)
        return round_lengths(
            steps,
            settings.max_iter,
            in_rounds=settings.certify == "las_vegas",
            theory=settings.constants == "theory",
            batch=self.batch,
        )

    def _rates(self, geometry):
        return (THEORY if self.settings.constants == "theory" else PRACTICAL)[geometry]

    def solver(self, problem, random, epsilon, unit, ratio):
        """Return the solver of a problem.

        Parameters
        ----------
        problem : Saddle
        random : RandomBits
        epsilon : float
        unit : float
            About the largest length of an image, and of what belongs to it.
        ratio : float
            What epsilon is measured against.
        """
        problem.kernel_rounding = ROUNDING * self.longest**2
        round_steps, max_steps = self._steps(epsilon, ratio)
        rates, theory = self._rates(problem.geometry), self.settings.constants == "theory"
        estimator = None
        if self.settings.kernel_values == "sampled":
            estimator = KernelEstimator(self.kernel, self.matrix, self.squares)
        return KernelPrimalDual(
            problem,
            self.rows,
            self._row_sizes(),
            self.matrix.n_columns,
            random,
            shift=self.shift,
            unit=unit,
            batch_size=self.batch,
            round_steps=round_steps,
            growth=2 if self.settings.certify == "las_vegas" else 1,
            max_steps=max_steps,
            primal_rate=rates.primal,
            dual_rate=rates.dual * (1 if theory else math.sqrt(self.batch)),
            estimator=estimator,
            capacity=int(MEMORY / 2 / (4 * self.matrix.n_rows)),
        )


def kernel_sum(settings, gamma, support_vectors, coefficients, X, n_jobs=None):
    """Return sum_j coefficients[:, j] k(support vector j, x) for the rows x of X.

    Returns
    -------
    sums : ndarray of shape (n_outputs, n_rows), float64
    """
    sums = np.zeros((len(coefficients), X.shape[0]))
    if coefficients.shape[1] == 0:
        return sums
    kernel = KERNELS[settings.kernel](gamma, settings.degree, settings.coef0)
    support, order = like(support_vectors, X), np.arange(coefficients.shape[1])
    for start in range(0, X.shape[0], CHUNK):
        rows = checked_rounding(kernel_rows(kernel, support, X[start : start + CHUNK], memory=0))
        part = np.zeros((len(coefficients), rows.n_columns))
        rows.add_product(order, coefficients, part, effective_threads(n_jobs))
        sums[:, start : start + CHUNK] = part
    return sums


def self_values(settings, gamma, X):
    """Return k(x, x) for the rows x of X (float64)."""
    if settings.kernel == "rbf":
        return np.ones(X.shape[0])
    squares = Matrix(X).squared_norms()
    if settings.kernel == "linear":
        return squares
    return (gamma * squares + settings.coef0) ** settings.degree
