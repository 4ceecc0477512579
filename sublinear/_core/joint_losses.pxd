cdef enum:
    ALL_CLASSES = -1


cdef class JointLoss:
    cdef readonly Py_ssize_t n_classes
    cdef double value(self, const double* scores, Py_ssize_t label) noexcept nogil
    cdef Py_ssize_t subgradient(self, double* scores, Py_ssize_t label) noexcept nogil
    cdef double conjugate(self, const double* dual, Py_ssize_t label) noexcept nogil
    cdef void make_feasible(self, double* dual, Py_ssize_t label) noexcept nogil
