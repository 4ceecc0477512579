"""Whole passes over a matrix: its products with vectors, in slices that can be interrupted."""
from cpython.exc cimport PyErr_CheckSignals
from libc.float cimport DBL_MAX
from libc.math cimport NAN, sqrt

import numpy as np

from sublinear._core.line cimport (
    ROWS, Line, Lines, Several, add, dot, dot_and_add_rows, dot_and_square_rows, dot_rows, line_at,
    prefetch_line, set_several, squared_norm, take_several, takes_rows,
)
from sublinear._core.matrix cimport Matrix

from sublinear._core.matrix import NotFinite


cdef void pass_over_line(
    const Lines* rows, Py_ssize_t i, const double* x, double factor, double* payoff,
    double* gradient, double* norm
) noexcept nogil:
    cdef Line line = line_at(rows, i)
    payoff[0] = dot(&line, x)
    if factor != 0:
        add(&line, factor, gradient)
    if norm != NULL:
        norm[0] = squared_norm(&line)


cdef void pass_over_rows(
    const Lines* rows, const Several* several, Py_ssize_t first, const double* x,
    const double* factors, double* payoffs, double* gradient, double* norms
) noexcept nogil:
    """ROWS adjacent dense rows, from `first` on."""
    cdef Py_ssize_t k
    cdef bint adds = False
    cdef Line line
    for k in range(ROWS):
        adds = adds or factors[k] != 0
    if not adds and norms != NULL:
        dot_and_square_rows(rows, several, x, payoffs, norms)
        return
    if adds:
        dot_and_add_rows(rows, several, x, payoffs, factors, gradient)
    else:
        dot_rows(rows, several.rows, several.near, several.next, ROWS, x, payoffs)
    if norms != NULL:
        for k in range(ROWS):
            line = line_at(rows, first + k)
            norms[k] = squared_norm(&line)


cdef double pass_over(
    const Lines* rows, const double* targets, const double* x, const double* p, double* payoffs,
    double* gradient, double* norms, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    """Rows start .. stop of payoffs = Y A x and, unless p is NULL, of gradient += A' Y p.

    Fills in squared norms unless they are NULL; returns the largest.
    """
    cdef Py_ssize_t i = start, k, count
    cdef Several several
    cdef double factors[ROWS]
    cdef double largest = 0
    cdef double* norm
    cdef bint together = takes_rows(rows)
    set_several(&several, rows)
    while i < stop:
        count = ROWS if together and i + ROWS <= stop else 1
        norm = NULL if norms == NULL else norms + i
        for k in range(count):
            factors[k] = 0 if p == NULL else p[i + k] * (1 if targets == NULL else targets[i + k])
        if count == ROWS:
            take_several(&several, rows, NULL, i, stop)
            pass_over_rows(rows, &several, i, x, factors, payoffs + i, gradient, norm)
        else:
            if i + 1 < stop:
                prefetch_line(rows, i + 1)
            pass_over_line(rows, i, x, factors[0], payoffs + i, gradient, norm)
        for k in range(i, i + count):
            if norms != NULL:
                largest = max(largest, norms[k])
            if targets != NULL:
                payoffs[k] *= targets[k]
        i += count
    return largest


cdef class Passes:
    """Passes over the rows A_i of a matrix, whose signs y_i are the targets.

    Parameters
    ----------
    matrix : Matrix
    targets : ndarray of shape (n_rows,), float64, default=None
        None: all 1.
    norms : bool, default=True
        Whether the first pass finds `longest`, and that the norms of the rows are in range.

    Attributes
    ----------
    longest : float
        The largest |A_i|, constant entry included; -1 before the first pass, NaN without norms.
    """

    def __init__(self, Matrix matrix, targets=None, *, bint norms=True):
        cdef const double[::1] view
        self.matrix, self.longest = matrix, -1 if norms else NAN
        self.targets = NULL
        if targets is not None:
            view = self.targets_array = np.require(targets, np.float64, ["C"])
            self.targets = &view[0]

    def products(self, const double[::1] x, const double[::1] p):
        """Return Y A x and A' Y p (float64); raises NotFinite."""
        payoffs, gradient = np.empty(self.matrix.n_rows), np.zeros(self.matrix.n_weights)
        norms = np.empty(self.matrix.n_rows) if self.longest < 0 else None
        self._pass(x, p, payoffs, gradient, norms)
        if not (np.isfinite(payoffs).all() and np.isfinite(gradient).all()):
            raise NotFinite
        return payoffs, gradient

    def payoffs(self, const double[::1] x):
        """Return Y A x (float64)."""
        result = np.empty(self.matrix.n_rows)
        self._pass(x, None, result, None, None)
        return result

    def payoffs_and_norms(self, const double[::1] x):
        """Return Y A x and |A_i|^2, constant entries included (float64)."""
        payoffs, norms = np.empty(self.matrix.n_rows), np.empty(self.matrix.n_rows)
        self._pass(x, None, payoffs, None, norms)
        return payoffs, norms

    cdef _pass(
        self, const double[::1] x, const double[::1] p, double[::1] payoffs, double[::1] gradient,
        double[::1] norms
    ):
        cdef Py_ssize_t n_rows = self.matrix.n_rows, step = self.matrix.rows_per_call(), start, stop
        cdef double largest = 0
        for start in range(0, n_rows, step):
            stop = min(n_rows, start + step)
            self.matrix.hold(range(start, stop))
            with nogil:
                largest = max(largest, pass_over(
                    &self.matrix.rows, self.targets, &x[0], NULL if p is None else &p[0],
                    &payoffs[0], NULL if gradient is None else &gradient[0],
                    NULL if norms is None else &norms[0], start, stop))
            PyErr_CheckSignals()
        if norms is not None:
            if largest > DBL_MAX:
                raise NotFinite
            self.matrix.check_underflow(largest)
            self.longest = sqrt(largest)
