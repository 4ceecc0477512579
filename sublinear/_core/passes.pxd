"""Whole passes over a matrix: its products with vectors, in slices that can be interrupted."""
from sublinear._core.matrix cimport Matrix


cdef class Passes:
    cdef readonly Matrix matrix
    cdef readonly double longest
    cdef object targets_array
    cdef const double* targets
    cdef _pass(self, const double[::1] x, const double[::1] p, double[::1] payoffs,
               double[::1] gradient, double[::1] norms)
