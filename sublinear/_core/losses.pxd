cdef enum:
    MAX_KINKS = 2

cdef class Loss:
    # of a piecewise linear loss: how many kinks, and prediction - target there, ascending
    cdef readonly int n_kinks
    cdef double kink[MAX_KINKS]
    # |prediction - target| from which on a dual at its bound will stay there for long
    cdef readonly double far

    cdef double value(self, double prediction, double target) noexcept nogil
    cdef double derivative(self, double prediction, double target) noexcept nogil
    cdef double second_derivative(self, double prediction, double target) noexcept nogil
    cdef double conjugate(self, double dual, double target) noexcept nogil
    cdef double nearest_dual(self, double dual, double target) noexcept nogil
    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature) noexcept nogil

    # the same for many, side by side
    cdef void values_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count) noexcept nogil
    cdef void conjugates_of(
        self, const double* a, const double* y, double* out, Py_ssize_t count) noexcept nogil
    cdef void derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count) noexcept nogil
    cdef void second_derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count) noexcept nogil
    # all three: values, derivatives and second derivatives
    cdef void evaluate_of(
        self, const double* z, const double* y, double* values, double* slopes,
        double* curvatures, Py_ssize_t count) noexcept nogil
