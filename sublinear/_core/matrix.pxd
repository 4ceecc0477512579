from libc.stdint cimport uint32_t

from sublinear._core.line cimport Lines

cdef enum:
    WORTH_THREADS = 1 << 20      # entries: fewer are not worth the wait for another thread


cdef void dots(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop, const double* w,
    double* products
) noexcept nogil

cdef void dot_pairs(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop, const double* w,
    const double* v, double* products, double* seconds
) noexcept nogil

cdef void add_lines(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    double* total
) noexcept nogil

cdef void add_lines_with_squares(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    const double* weights, double* total, double* squares
) noexcept nogil

cdef void squares(
    const Lines* lines, Py_ssize_t start, Py_ssize_t stop, double* norms) noexcept nogil


cdef class Matrix:
    cdef Lines rows
    cdef readonly Py_ssize_t n_rows, n_columns, n_stored
    cdef readonly double constant
    cdef readonly object dtype
    cdef readonly object arrays      # what the rows point into
    cdef object _transposed
    cdef Py_ssize_t checked_row(self, Py_ssize_t i) except -1
    cdef Py_ssize_t rows_per_call(self)
    cpdef hold(self, lines)
