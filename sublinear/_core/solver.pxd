cdef enum:
    FIRST_SLICE = 1 << 9        # feature values: few rows, as a slow disk may have to bring them
    LOOKED_THROUGH = 1 << 20    # examples between two returns to Python, however little is read


cdef class Solver:
    cdef double quiet_work, quiet_gap      # see be_quiet_until
    cdef Py_ssize_t quiet_iter

    cdef inline bint is_quiet(self, double work, Py_ssize_t n_iter) noexcept nogil:
        """Whether not to return yet, as far as these two tell."""
        return work < self.quiet_work and n_iter < self.quiet_iter


cdef class BaseObjective:
    pass
