from sublinear._core.panels cimport panel_kernel


cdef class Kernel:
    cdef readonly double gamma, coef0
    cdef readonly int degree
    cdef panel_kernel form
    cdef readonly double scale           # of examples in panels and lists

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil
