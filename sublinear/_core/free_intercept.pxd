from sublinear._core.losses cimport Loss


cdef class FreeIntercept:
    cdef public double start
    cdef Loss loss
    cdef const double[::1] targets, scales
    cdef double spread, flat
    cdef Py_ssize_t[::1] undecided    # examples whose derivatives differ at the ends
    cdef Py_ssize_t n_undecided
    cdef double decided               # what the derivatives of the others add up to
    cdef double[:, ::1] slopes        # of the undecided: at the low end, the high one, between them

    cdef double best(self, const double[::1] margins) noexcept nogil
    cdef bint _is_flat_around(self, double best, const double[::1] margins) noexcept nogil
    cdef double _where_slope_is(
        self, double level, double start, const double[::1] margins) noexcept nogil
    cdef (double, double) _bracket(
        self, double level, double start, const double[::1] margins) noexcept nogil
    cdef double _bisect(
        self, double level, double low, double high, const double[::1] margins) noexcept nogil
    cdef void _undecide(self) noexcept nogil
    cdef void _decide(self, int low, int high) noexcept nogil
    cdef double _slope(
        self, double intercept, const double[::1] margins, int place) noexcept nogil


cdef inline double weighted_slope(
    Loss loss, double scale, double score, double target
) noexcept nogil:
    """The derivative of the loss of an example, times its weight."""
    return scale * loss.derivative(score, target) if scale > 0 else 0
