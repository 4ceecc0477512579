from sublinear._core.free_intercept cimport FreeIntercept
from sublinear._core.kernel_rows cimport KernelRows
from sublinear._core.losses cimport Loss
from sublinear._core.solver cimport BaseObjective


cdef class KernelObjective(BaseObjective):
    cdef readonly KernelRows rows
    cdef object float64_rows, products
    cdef readonly Loss loss
    cdef readonly object targets_array, scales_array
    cdef readonly double shift, memory, square_memory
    cdef readonly bint free_intercept
    cdef readonly Py_ssize_t n_rows, accesses
    cdef readonly int n_threads
    cdef const double[::1] targets, scales
    cdef FreeIntercept search
    cdef double value_of_zeros, factor_error
    cdef public double model_error
    cdef readonly double rounding, relative_rounding

    cdef double _best_intercept(self, const double[::1] margins)
