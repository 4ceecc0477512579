from sublinear._core.line cimport Lines
from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix


cdef struct BlockSums:
    double loss          # sum of weight_i l(<x_i, v>)
    double conjugate     # sum of weight_i (l*(-a_i) + a_i <x_i, w>)


cdef class Objective:
    cdef readonly Matrix matrix
    cdef readonly Loss loss
    cdef readonly double alpha
    cdef readonly double total_weight
    cdef readonly int n_threads
    cdef readonly Py_ssize_t accesses
    cdef readonly object targets_array, weights_array
    cdef const double* targets
    cdef const double* weights          # NULL: all are 1

    cdef inline double weight(self, Py_ssize_t i) noexcept nogil:
        return 1.0 if self.weights == NULL else self.weights[i]

    cdef BlockSums block_sums(
        self, Py_ssize_t start, Py_ssize_t stop, const double* v, const double* w,
        const double* duals, Py_ssize_t dual_stride) noexcept nogil
