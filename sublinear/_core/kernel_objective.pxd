from sublinear._core.kernel_rows cimport KernelRows
from sublinear._core.losses cimport Loss


cdef class KernelObjective:
    cdef readonly KernelRows rows
    cdef object float64_rows, products
    cdef readonly Loss loss
    cdef readonly object targets_array, scales_array
    cdef readonly double shift, memory, square_memory
    cdef readonly bint free_intercept
    cdef readonly Py_ssize_t n_rows, accesses
    cdef readonly int n_threads
    cdef const double[::1] targets, scales
    cdef double last_intercept, spread, value_of_zeros, factor_error
    cdef public double model_error
    cdef readonly double rounding, relative_rounding

    cdef double slope_of(self, Py_ssize_t i, double score) noexcept nogil
    cdef double slope(self, const double[::1] margins, double intercept) noexcept nogil
    cdef double _intercept_from(self, double start, const double[::1] margins)
    cdef double where_slope_is(self, double level, double start, const double[::1] margins)
