from libc.stdint cimport int64_t

from sublinear._core.panels cimport PANEL

cdef enum:
    TILE = PANEL            # rows: their values for a panel, 16 KB, stay in the first cache
    EXACT_TILE = 512        # rows and columns of them, in float64


cdef class KernelRows:
    cdef readonly Py_ssize_t n_rows, n_columns
    cdef readonly double error, deviation, exact_deviation, mean_diagonal, asymmetry, unit
    cdef public double rounding
    cdef readonly object groups


cdef check_numbers(const int64_t[::1] numbers, Py_ssize_t count)


cdef inline void add_sums(
    const double* sums, double* margins, Py_ssize_t p, Py_ssize_t n_columns
) noexcept nogil:
    cdef Py_ssize_t lane
    for lane in range(min(PANEL, n_columns - p * PANEL)):
        margins[p * PANEL + lane] += sums[lane]


cdef class GivenRows(KernelRows):
    cdef readonly object diagonal


cdef class CallableRows(GivenRows):
    cdef readonly object function, X, Y


cdef class PrecomputedRows(GivenRows):
    cdef readonly object matrix


cdef class ExactRows(KernelRows):
    cdef readonly KernelRows source
    cdef readonly bint keeps
    cdef object kept
