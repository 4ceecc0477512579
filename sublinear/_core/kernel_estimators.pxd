from sublinear._core.flat_sampler cimport FlatSampler
from sublinear._core.kernels cimport Kernel
from sublinear._core.matrix cimport Matrix


cdef class KernelEstimator:
    cdef readonly Kernel kernel
    cdef readonly Matrix matrix, columns
    cdef readonly Py_ssize_t accesses, full_accesses
    cdef bint exponential
    cdef double radius               # the largest |A_k|
    cdef double[::1] squares, point, inner, product
    cdef FlatSampler sampler
    cdef Py_ssize_t row              # the one that `point` and the sampler hold, or -1
