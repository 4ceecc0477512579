"""What methods of second order ask for at a place, in one reading of the rows."""
from typing import NamedTuple

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t

import numpy as np

from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix, add_lines, add_lines_with_squares, dots

cdef enum:
    CACHED_ENTRIES = 1 << 14     # of rows that are read, and added up before others
    MOST_ROWS = 2048             # of these


class Evaluation(NamedTuple):
    """Examples at weights w.

    Attributes
    ----------
    loss : float
        sum_i s_i l(z_i), s_i the shares and z_i = <x_i, w>.
    predictions, change : ndarray of shape (n_rows,)
        z_i, and what the way to w has added to them.
    slopes, curvatures : ndarray of shape (n_rows,)
        l'(z_i) and l''(z_i), or what takes the place of the latter.
    pull, squares : ndarray of shape (n_weights,)
        sum_i s_i l'(z_i) x_i and, of these curvatures c_i, sum_i s_i c_i x_i^2.
    """

    loss: float
    predictions: np.ndarray
    change: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray
    pull: np.ndarray
    squares: np.ndarray


def evaluate(
    Matrix matrix, Loss loss, const uint32_t[::1] rows, const double[::1] targets,
    const double[::1] shares, const double[::1] way=None, const double[::1] predictions=None,
    double secant_share=0, bint wants_squares=False, const double[::1] least_curvatures=None
):
    """Return the Evaluation of some rows.

    The rounding of predictions stays as it is from one place to the next: so the gradients of small
    steps tend to 0, where that of predictions made anew would keep them from it.

    Parameters
    ----------
    matrix : Matrix
    loss : Loss
    rows : ndarray of shape (n_rows,), uint32
    targets, shares : ndarray of shape (n_rows,), float64
    way : ndarray of shape (matrix.n_weights,), float64, default=None
        How far w is from where predictions are known. None means there.
    predictions : ndarray of shape (n_rows,), float64, default=None
        Those. None means 0, where w is 0.
    secant_share : float, default=0.0
        Curvatures are at least this share of those of the parabolas that touch the loss and are
        least at the target.
    wants_squares : bool, default=False
        Whether `squares` are wanted, which are 0 otherwise.
    least_curvatures : ndarray of shape (n_rows,), float64, default=None
        Curvatures are at least these, too.
    """
    cdef Py_ssize_t n = rows.shape[0], first, last, k
    cdef Py_ssize_t step = CACHED_ENTRIES * matrix.n_rows // max(1, matrix.n_stored)
    cdef double[:, ::1] sums = np.zeros((2, matrix.n_weights))
    cdef double[::1] z = np.zeros(n) if predictions is None else np.array(predictions)
    cdef double[::1] change = np.empty(0 if way is None else n)
    cdef double[::1] slopes = np.empty(n), curvatures = np.empty(n)
    cdef double[MOST_ROWS] losses
    cdef double[MOST_ROWS] factors
    cdef double[MOST_ROWS] weights
    cdef double secant
    if way is not None and way.shape[0] != matrix.n_weights:
        raise ValueError(f"way must have {matrix.n_weights} entries, got {way.shape[0]}")
    if not targets.shape[0] == shares.shape[0] == z.shape[0] == n:
        raise ValueError("targets, shares and predictions must have the length of rows")
    if least_curvatures is not None and least_curvatures.shape[0] != n:
        raise ValueError("least_curvatures must have the length of rows")
    step = min(max(step, 1), MOST_ROWS)
    cdef double[::1] totals = np.zeros((n + step - 1) // step)
    for first in range(0, n, step):
        last = min(n, first + step)
        with nogil:
            if way is not None:
                dots(&matrix.rows, &rows[0], first, last, &way[0], &change[first])
                for k in range(first, last):
                    z[k] += change[k]
            loss.evaluate_of(
                &z[first], &targets[first], losses, &slopes[first], &curvatures[first],
                last - first)
            totals[first // step] = dense_dot64(&shares[first], losses, last - first)
            for k in range(first, last):
                factors[k - first] = shares[k] * slopes[k]
                if secant_share > 0 and slopes[k] != 0:
                    secant = slopes[k] / (z[k] - targets[k])
                    curvatures[k] = max(curvatures[k], secant_share * secant)
                if least_curvatures is not None:
                    curvatures[k] = max(curvatures[k], least_curvatures[k])
                weights[k - first] = shares[k] * curvatures[k]
            if wants_squares:
                add_lines_with_squares(
                    &matrix.rows, &rows[first], last - first, factors, weights, &sums[0, 0],
                    &sums[1, 0])
            else:
                add_lines(&matrix.rows, &rows[first], last - first, factors, &sums[0, 0])
        PyErr_CheckSignals()
    loss_sum = float(np.add.reduce(totals))
    return Evaluation(loss_sum, z.base, change.base, slopes.base, curvatures.base, *sums.base)
