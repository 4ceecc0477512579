"""Fewer support vectors: a part of them that can express nearly the same, and its best model.

Orthogonal least squares (Chen, Cowan, Grant, 1991) in the space of the kernel. With w = sum_j c_j
phi(x_j) and chosen vectors S, the nearest point of their span is the projection of w. The next one
is that which brings it nearest: with f = w - w', and p_j what phi(x_j) has beyond the span, the one
with the largest <f, phi(x_j)>^2 / |p_j|^2. These are kept for all j by the columns of a pivoted
Cholesky factor, which are computed for the most promising candidates together: the next choices are
mostly among them, and one of those is taken if it is nearly as good as the best.

Cost: n^2 kernel values for n support vectors, n m^2 multiplications and n m numbers for m chosen.
"""

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sublinear._core.random import RandomBits
from sublinear._drive import Limits, drive
from sublinear._second_order import linear_spaces
from sublinear._solvers.finisher import Finisher
from sublinear._solvers.sdca import SDCA

BLOCK = 32
NEAR_BEST = 0.5  # of the largest gain, where the column is at hand
LEAST_PIVOT = 1e-6  # of the largest: what is nearer to the span than this cannot be told from it
ROWS = 1024  # of kernel values at a time
LEAST_JITTER = 1e-12  # of the largest entry of a diagonal, for rounding in float64
LEAST_TOL = 1e-5  # a smaller gap is not worth its epochs
MOST_EPOCHS = 1000


def nearest_span(kernel, diagonal, coefficients, size):
    """Choose vectors whose span comes near to all models that combine the vectors.

    Parameters
    ----------
    kernel : callable
        kernel(rows) -> kernel values of these vectors with all, an array (len(rows), n).
    diagonal : ndarray of shape (n,)
        Kernel values of each vector with itself.
    coefficients : ndarray of shape (n_models, n)
    size : int
        At most so many are chosen; fewer if they span all of them.

    Returns
    -------
    chosen : ndarray of shape (n_chosen,), intp
        In increasing order.
    """
    residual = _products(kernel, coefficients)  # <w - w', phi(x_j)>
    factor = PivotedFactor(kernel, diagonal, size)
    least = LEAST_PIVOT * factor.left.max()
    while len(factor.chosen) < factor.columns.shape[1]:
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(factor.left > least, (residual**2).sum(axis=0) / factor.left, 0.0)
        gain[factor.chosen] = 0.0
        if gain.max() <= 0:
            break
        best = factor.best_at_hand(gain)
        column = factor.add(best)
        residual -= np.outer(residual[:, best] / column[best], column)
    return np.sort(np.array(factor.chosen, dtype=np.intp))


def _products(kernel, coefficients):
    """Return the products of models with all vectors."""
    products, n = np.empty_like(coefficients), coefficients.shape[1]
    for first in range(0, n, ROWS):
        rows = np.arange(first, min(n, first + ROWS))
        products[:, rows] = coefficients @ np.asarray(kernel(rows), dtype=np.float64).T
    return products


class PivotedFactor:
    """A Cholesky factor of the kernel matrix, a column for each vector chosen.

    Parameters
    ----------
    kernel, diagonal, size
        As for `nearest_span`.

    Attributes
    ----------
    chosen : list of int
    columns : ndarray of shape (n, size)
        Those of the vectors not chosen yet are zeros.
    left : ndarray of shape (n,)
        The squared lengths of what the vectors have beyond the span of those chosen.
    """

    def __init__(self, kernel, diagonal, size):
        self.kernel, self.chosen = kernel, []
        self.columns = np.zeros((len(diagonal), min(size, len(diagonal))))
        self.left = np.array(diagonal, dtype=np.float64)
        # candidates, and their kernel values beyond the span of the first `known` vectors chosen
        self.ready, self.candidates, self.known = [], None, 0

    def best_at_hand(self, gain):
        """Return the vector of the largest gain; if it has none at hand, get candidates."""
        best = int(gain.argmax())
        if self.ready:
            ahead = self.ready[int(gain[self.ready].argmax())]
            if gain[ahead] >= NEAR_BEST * gain[best]:
                return ahead
        if best not in self.ready:
            self.ready = np.argsort(-gain, kind="stable")[:BLOCK].tolist()
            self.known = len(self.chosen)
            before = self.columns[:, : self.known]
            values = np.asarray(self.kernel(np.array(self.ready)), dtype=np.float64).T
            self.candidates = values - before @ before[self.ready].T
        return best

    def add(self, best):
        """Choose a vector at hand; return its column."""
        last = len(self.chosen)
        since = self.columns[:, self.known : last]
        column = self.candidates[:, self.ready.index(best)] - since @ since[best]
        column /= np.sqrt(self.left[best])
        self.columns[:, last] = column
        self.left = np.maximum(self.left - column**2, 0.0)
        self.chosen.append(best)
        return column


def best_on_span(objective, examples, tol):
    """Find the coefficients of these examples that are best if all others are 0.

    With K_SS = L L' for the examples S, the rows of K_S' L'^-1 are the features of a linear model
    that takes the same values and has the same norm. Kernel values are float64.

    Parameters
    ----------
    objective : KernelObjective
    examples : ndarray of int
    tol : float
        Relative gap of the linear model.

    Returns
    -------
    coefficients : ndarray of shape (len(examples),), float64
    margins : ndarray of shape (n_rows,), float64
        (K + shift) v of all examples.
    """
    if not len(examples):
        return np.zeros(0), np.zeros(objective.n_rows)
    rows, order = objective.rows, np.arange(objective.n_rows)
    values = rows.exact_block(examples, order, objective.n_threads)
    rows.add_offsets(values, examples, order)
    values += objective.shift
    factor = jittered_factor(values[:, examples])
    features = np.ascontiguousarray(solve_triangular(factor, values, lower=True).T)
    linear = objective.linear(features, has_shift=True)
    solver = SDCA(linear, RandomBits(np.random.SeedSequence(0)))
    limits = Limits(max(tol, LEAST_TOL), MOST_EPOCHS)
    spaces = linear_spaces(solver, limits.tol)
    if spaces:  # with a large C single steps creep
        solver = Finisher(spaces, limits.tol, limits.max_iter)
    model, _, errors = drive(solver, limits)
    if errors:
        raise errors.pop()
    coefficients = solve_triangular(factor, model[: len(examples)], lower=True, trans="T")
    return coefficients, coefficients @ values


def jittered_factor(matrix):
    """Return the lower Cholesky factor of a matrix and as little on its diagonal as it takes."""
    jitter = LEAST_JITTER * matrix.diagonal().max()
    while True:
        try:
            return cholesky(matrix + jitter * np.eye(len(matrix)), lower=True)
        except LinAlgError:  # images that nearly coincide, or a kernel that is not positive
            jitter *= 10
