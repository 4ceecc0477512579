cdef enum:
    MAX_KINKS = 2

cdef class Loss:
    # of a piecewise linear loss: how many kinks, and prediction - target there, ascending
    cdef readonly int n_kinks
    cdef double kink[MAX_KINKS]

    cdef double value(self, double prediction, double target) noexcept nogil
    cdef double derivative(self, double prediction, double target) noexcept nogil
    cdef double second_derivative(self, double prediction, double target) noexcept nogil
    cdef double conjugate(self, double dual, double target) noexcept nogil
    cdef double nearest_dual(self, double dual, double target) noexcept nogil
    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature) noexcept nogil
