"""Fewer support vectors: the nearest model that a part of them can express.

Orthogonal least squares (Chen, Cowan, Grant, 1991) in the space of the kernel. With w = sum_j c_j
phi(x_j) and chosen vectors S, the nearest point of their span is the projection of w. The next one
is that which brings it nearest: with f = w - w', and p_j what phi(x_j) has beyond the span, the one
with the largest <f, phi(x_j)>^2 / |p_j|^2. These are kept for all j by the columns of a pivoted
Cholesky factor, which are computed for the most promising candidates together: the next choices are
mostly among them, and one of those is taken if it is nearly as good as the best.

Cost: n^2 kernel values for n support vectors, n m^2 multiplications and n m numbers for m chosen.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

BLOCK = 32
NEAR_BEST = 0.5  # of the largest gain, where the column is at hand
LEAST_PIVOT = 1e-6  # of the largest: what is nearer to the span than this cannot be told from it
ROWS = 1024  # of kernel values at a time


@dataclass(frozen=True)
class Projection:
    """A model's nearest point in the span of some of its vectors.

    Attributes
    ----------
    chosen : ndarray of shape (n_chosen,), intp
        In increasing order.
    coefficients : ndarray of shape (n_models, n_chosen), float64
    squared_distances, squared_norms : ndarray of shape (n_models,), float64
        |w - w'|^2 and |w|^2.
    """

    chosen: np.ndarray
    coefficients: np.ndarray
    squared_distances: np.ndarray
    squared_norms: np.ndarray


def project(kernel, diagonal, coefficients, size):
    """Project models onto the span of `size` of their vectors, chosen for all models together.

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
    projection : Projection
    """
    n = len(diagonal)
    residual = np.empty_like(coefficients)  # <w - w', phi(x_j)>
    for first in range(0, n, ROWS):
        rows = np.arange(first, min(n, first + ROWS))
        residual[:, rows] = coefficients @ np.asarray(kernel(rows), dtype=np.float64).T
    squared_norms = np.einsum("kj,kj->k", residual, coefficients)
    factor = np.zeros((n, min(size, n)))
    left = np.array(diagonal, dtype=np.float64)  # |phi(x_j)'|^2
    least = LEAST_PIVOT * left.max()
    along = np.zeros((len(coefficients), factor.shape[1]))  # w in the basis of the factor
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
        along[:, last] = residual[:, best] / column[best]
        residual -= np.outer(along[:, last], column)
        left = np.maximum(left - column**2, 0.0)
        chosen.append(best)
    m = len(chosen)
    chosen = np.array(chosen, dtype=np.intp)
    found = solve_triangular(factor[chosen, :m], along[:, :m].T, lower=True, trans="T").T
    distances = np.maximum(squared_norms - (along[:, :m] ** 2).sum(axis=1), 0.0)
    order = np.argsort(chosen)
    return Projection(chosen[order], found[:, order], distances, squared_norms)
