"""Sums of several rows, by loops over four dense rows at once, and slopes of many scores."""
from sublinear._core.line cimport DENSE_FLOAT32, DENSE_FLOAT64, Line, add, add_squares
from sublinear._core.losses cimport Loss

cdef extern from "row_groups.h" nogil:
    void add_four32 "sublinear_add_four32"(
        const float* a, const float* b, const float* c, const float* d, const double* factors,
        const double* weights, double* total, double* squares, Py_ssize_t size) noexcept
    void add_four64 "sublinear_add_four64"(
        const double* a, const double* b, const double* c, const double* d, const double* factors,
        const double* weights, double* total, double* squares, Py_ssize_t size) noexcept
    void logistic_slopes "sublinear_logistic_slopes"(
        const double* z, const double* y, double* slopes, Py_ssize_t size) noexcept


cdef inline void add_rows(
    const Line* x, Py_ssize_t count, const double* factors, const double* weights,
    double* total, double* squares
) noexcept nogil:
    """total += factors_r x_r, squares += weights_r x_r^2 for all rows r, in their order"""
    cdef Py_ssize_t r = 0, k
    cdef bint wide = x.storage == DENSE_FLOAT64
    if x.stride == 1 and (wide or x.storage == DENSE_FLOAT32):
        while r + 4 <= count:
            if wide:
                add_four64(
                    <const double*> x[r].values, <const double*> x[r + 1].values,
                    <const double*> x[r + 2].values, <const double*> x[r + 3].values,
                    factors + r, weights + r, total, squares, x.size)
            else:
                add_four32(
                    <const float*> x[r].values, <const float*> x[r + 1].values,
                    <const float*> x[r + 2].values, <const float*> x[r + 3].values,
                    factors + r, weights + r, total, squares, x.size)
            if x.constant != 0:
                for k in range(r, r + 4):
                    total[x.length] += factors[k] * x.constant
                    squares[x.length] += weights[k] * x.constant * x.constant
            r += 4
    while r < count:
        add(&x[r], factors[r], total)
        add_squares(&x[r], weights[r], squares)
        r += 1


cdef inline void slopes_of(
    Loss loss, bint is_logistic, const double* z, const double* y, double* slopes, Py_ssize_t count
) noexcept nogil:
    """slopes = l'(z)"""
    cdef Py_ssize_t r
    if is_logistic:
        logistic_slopes(z, y, slopes, count)
        return
    for r in range(count):
        slopes[r] = loss.derivative(z[r], y[r])
