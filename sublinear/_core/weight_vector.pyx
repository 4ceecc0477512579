"""The weight vector of sub-gradient methods."""
from libc.string cimport memset

import numpy as np

from sublinear._core.dense_lines cimport dense_add64, dense_squares64
from sublinear._core.line cimport line_at
from sublinear._core.matrix cimport Matrix


cdef void refresh_norm(ScaledVector* w) noexcept nogil:
    if w.keeps_norm:
        w.squared_norm = dense_squares64(w.values, w.size) * w.scale * w.scale
        w.drift = 0


cdef void fold_scale(ScaledVector* w) noexcept nogil:
    """v <- w, scale <- 1"""
    cdef Py_ssize_t j
    for j in range(w.size):
        w.values[j] *= w.scale
    w.sum_of_scales /= w.scale
    w.scale = 1
    refresh_norm(w)


cdef void settle_average(ScaledVector* w) noexcept nogil:
    """Make the correction the sum of the iterates: S <- 0."""
    if w.correction != NULL:
        dense_add64(w.values, w.sum_of_scales, w.correction, w.size)
    w.sum_of_scales = 0


cdef void clear(ScaledVector* w) noexcept nogil:
    """w <- 0, the average kept"""
    settle_average(w)
    memset(w.values, 0, w.size * sizeof(double))
    w.scale = 1
    w.squared_norm = 0
    w.drift = 0


cdef class WeightVector:
    """w = scale * v with its squared norm, projection, and an average of its past values.

    Parameters
    ----------
    size : int
        Number of entries, that of the constant entry included.
    averaged : bool, default=False
        Keep what the average of the iterates needs: a second vector.
    keeps_norm : bool, default=True
        Keep |w|^2 up to date, which projection needs.
    """

    def __cinit__(self, Py_ssize_t size, bint averaged=False, bint keeps_norm=True):
        self.values = np.zeros(size)
        cdef double[::1] values = self.values
        self.vector.values = &values[0] if size else NULL
        self.vector.size = size
        self.vector.scale = 1
        self.vector.keeps_norm = keeps_norm
        self.correction = None
        if averaged:
            self.correction = np.zeros(size)
            values = self.correction
            self.vector.correction = &values[0] if size else NULL

    @property
    def squared_norm(self):
        """|w|^2, kept up to date by every operation; only if keeps_norm."""
        return self.vector.squared_norm

    @property
    def n_averaged(self):
        """How many iterates the average holds."""
        return self.vector.n_averaged

    def to_array(self):
        """Return w as a new array (float64)."""
        return self.vector.scale * self.values

    def set(self, w):
        """w <- the given array, the average started anew."""
        self.values[:] = w
        self.vector.scale = 1
        refresh_norm(&self.vector)
        self.restart_average()

    def sum_of_iterates(self):
        """Return the sum of the iterates counted so far (float64); only if averaged."""
        if self.correction is None:
            raise ValueError("a sum of iterates needs averaged=True")
        result = np.empty(self.vector.size)
        cdef double[::1] total = result
        cdef const double* values = self.vector.values
        cdef const double* correction = self.vector.correction
        cdef double scale = self.vector.sum_of_scales
        cdef Py_ssize_t j
        with nogil:
            for j in range(self.vector.size):
                total[j] = scale * values[j] + correction[j]
        return result

    def settle(self):
        """Return w and the sum of the iterates counted, or 0 if there is no average.

        They are this vector's own memory, and change when it does.
        """
        settle_average(&self.vector)
        fold_scale(&self.vector)
        return self.values, 0.0 if self.correction is None else self.correction

    def restart_average(self):
        """Forget the iterates counted so far."""
        self.set_average(0, 0)

    def set_average(self, sum_of_iterates, Py_ssize_t n_averaged):
        """Let the average be that of n_averaged iterates with the given sum."""
        if self.correction is not None:
            self.correction[:] = sum_of_iterates
        self.vector.sum_of_scales = 0
        self.vector.n_averaged = n_averaged

    def count_in_average(self):
        """Let the average include the present w."""
        count_in_average(&self.vector)

    def add_row(self, Matrix matrix, Py_ssize_t i, double factor):
        """w += factor * row i of the matrix."""
        cdef Line x = line_at(&matrix.rows, matrix.checked_row(i))
        add_line(&self.vector, &x, factor)

    def dot_row(self, Matrix matrix, Py_ssize_t i):
        """Return <w, row i of the matrix>."""
        cdef Line x = line_at(&matrix.rows, matrix.checked_row(i))
        return weight_dot(&self.vector, &x)

    def shrink(self, double factor):
        """w *= factor, factor >= 0."""
        if not factor >= 0:
            raise ValueError(f"factor must not be negative, got {factor}")
        shrink(&self.vector, factor)
        if needs_folding(&self.vector):
            fold_scale(&self.vector)

    def project(self, double radius):
        """w <- the nearest point of the ball of that radius around 0."""
        if not self.vector.keeps_norm:
            raise ValueError("projection needs keeps_norm=True")
        project(&self.vector, radius)
        if needs_folding(&self.vector):
            fold_scale(&self.vector)
