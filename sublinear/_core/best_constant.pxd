from sublinear._core.losses cimport Loss


cdef class BestConstant:
    cdef Loss loss
    cdef double[::1] place, mass     # of the kinks, as functions of b: where, and slope gained
    cdef Py_ssize_t count
    cdef double slope                # of the sum as b -> -infinity
    cdef readonly double best        # the last b found
    cdef readonly double share       # of the slope gained at b that makes the sum's slope vanish

    cdef double lowest_slope(self, double target) noexcept nogil
    cdef double jump(self, double target) noexcept nogil
    cdef void swap(self, Py_ssize_t j, Py_ssize_t k) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void add(self, double prediction, double target, double weight) noexcept nogil
    cdef double find(self) noexcept nogil
    cdef double derivative(self, double prediction, double target) noexcept nogil
