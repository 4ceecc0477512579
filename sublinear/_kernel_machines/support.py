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
    n = len(diagonal)
    residual = np.empty_like(coefficients)  # <w - w', phi(x_j)>
    for first in range(0, n, ROWS):
        rows = np.arange(first, min(n, first + ROWS))
        residual[:, rows] = coefficients @ np.asarray(kernel(rows), dtype=np.float64).T
    factor = np.zeros((n, min(size, n)))
    left = np.array(diagonal, dtype=np.float64)  # |phi(x_j)'|^2
    least = LEAST_PIVOT * left.max()
    chosen, ready = [], []
    while len(chosen) < factor.shape[1]:
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(left > least, (residual**2).sum(axis=0) / left, 0.0)
        gain[chosen] = 0.0
        best, last = int(gain.argmax()), len(chosen)
        if gain[best] <= 0:
            break
        if ready:
            ahead = ready[int(gain[ready].argmax())]
            if gain[ahead] >= NEAR_BEST * gain[best]:
                best = ahead
        if best not in ready:
            ready = np.argsort(-gain, kind="stable")[:BLOCK].tolist()
            known = last
            columns = np.asarray(kernel(np.array(ready)), dtype=np.float64).T
            columns = columns - factor[:, :last] @ factor[ready, :last].T
        column = columns[:, ready.index(best)]
        column = column - factor[:, known:last] @ factor[best, known:last]
        column /= np.sqrt(left[best])
        factor[:, last] = column
        residual -= np.outer(residual[:, best] / column[best], column)
        left = np.maximum(left - column**2, 0.0)
        chosen.append(best)
    return np.sort(np.array(chosen, dtype=np.intp))


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
    linear = objective.linear(features, True)
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
