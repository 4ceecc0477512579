"""The objective of a kernel machine, its dual, and the gap between them, from margins.

    P(f, b) = 1/2 |f|^2 + sum_i c_i l(f(x_i) + b, y_i),       c_i = C s_i
    D(v)    = - 1/2 v' K v - sum_i c_i l*(-v_i / c_i, y_i)

f lies in the space of the kernel and has the form f_v = sum_j v_j k(x_j, .) at the optimum. This
is the objective of sublinear._core.objective times C W, W = sum_i s_i, with alpha = 1 / (C W) and
v_i = c_i a_i. A solver keeps v and the margins K v, so that both values cost O(n).

Without an intercept b = 0. One that is penalised by b^2 / (2 constant^2) is that of the kernel
k + constant^2. One that is not, `free_intercept`, asks for sum_i v_i = 0; given f, the best b is
found from the derivative in b, which increases.
"""
from libc.math cimport fabs

import numpy as np

cdef double UNBALANCED = 1e-9   # |sum v| / sum |v| that rounding may leave


cdef class KernelObjective:
    """A regularised loss over the examples of a kernel matrix.

    Parameters
    ----------
    rows : KernelRows
        Square.
    targets : ndarray of shape (n_rows,), float64
    loss : Loss
    scales : ndarray of shape (n_rows,), float64
        c_i, not negative.
    constant : float, default=0.0
        The kernel is k + constant^2: a penalised intercept.
    free_intercept : bool, default=False
    n_threads : int, default=1

    Attributes
    ----------
    accesses : int
        Kernel evaluations for certificates: none, the margins suffice.
    """

    def __init__(
        self, KernelRows rows, targets, Loss loss, scales, *, double constant=0.0,
        bint free_intercept=False, int n_threads=1
    ):
        if rows.diagonal is None:
            raise ValueError("the rows and columns of the kernel matrix must be the same examples")
        self.rows, self.loss, self.n_rows = rows, loss, rows.n_rows
        self.targets = self.targets_array = targets
        self.scales = self.scales_array = scales
        if self.targets.shape[0] != self.n_rows or self.scales.shape[0] != self.n_rows:
            raise ValueError(f"{self.n_rows} rows, but {self.targets.shape[0]} targets and "
                             f"{self.scales.shape[0]} scales")
        self.constant, self.free_intercept, self.n_threads = constant, free_intercept, n_threads

    def diagonal(self):
        """Return k(x_i, x_i) + constant^2 (float64)."""
        return self.rows.diagonal + self.constant * self.constant

    def make_feasible(self, double[::1] coefficients):
        """Move every v_i to the nearest point where the conjugate is finite, in place."""
        cdef Py_ssize_t i
        cdef double scale
        for i in range(self.n_rows):
            scale = self.scales[i]
            if scale > 0:
                coefficients[i] = scale * self.loss.nearest_dual(
                    coefficients[i] / scale, self.targets[i])
            else:
                coefficients[i] = 0

    def balance(self, double[::1] coefficients):
        """Make sum_i v_i vanish, in place: shrink those of the sign that prevails."""
        values = np.asarray(coefficients)
        positive, negative = values[values > 0].sum(), -values[values < 0].sum()
        if positive > negative:
            values[values > 0] *= negative / positive
        elif negative > positive:
            values[values < 0] *= positive / negative

    cdef double slope_of(self, Py_ssize_t i, double score) noexcept nogil:
        """The derivative of the loss of example i, weighted."""
        if not self.scales[i] > 0:
            return 0
        return self.scales[i] * self.loss.derivative(score, self.targets[i])

    cdef double slope(self, const double[::1] margins, double intercept) noexcept nogil:
        """The derivative of the objective in a free intercept."""
        cdef double total = 0
        cdef Py_ssize_t i
        for i in range(self.n_rows):
            total += self.slope_of(i, margins[i] + intercept)
        return total

    def best_intercept(self, const double[::1] margins):
        """Return the intercept that is best for these margins: 0 unless it is free.

        Bisection, begun around the last answer. An example whose derivative is the same at both
        ends has that derivative between them too, and is not looked at again.
        """
        cdef double low, high, middle, width = 1e-3, total, decided = 0
        cdef Py_ssize_t i, k, count = 0, left
        cdef int _
        if not self.free_intercept:
            return 0.0
        cdef double[:, ::1] slopes = np.empty((3, self.n_rows))  # at low, high and in the middle
        cdef Py_ssize_t[::1] undecided = np.empty(self.n_rows, dtype=np.intp)
        low = high = self.last_intercept
        with nogil:
            while self.slope(margins, low) > 0 and width < 1e300:
                low -= width
                width *= 4
            width = 1e-3
            while self.slope(margins, high) < 0 and width < 1e300:
                high += width
                width *= 4
            for i in range(self.n_rows):
                slopes[0, count] = self.slope_of(i, margins[i] + low)
                slopes[1, count] = self.slope_of(i, margins[i] + high)
                undecided[count] = i
                if slopes[0, count] == slopes[1, count]:
                    decided += slopes[0, count]
                else:
                    count += 1
            for _ in range(100):
                middle = low + (high - low) / 2
                if high - low <= 1e-12 * (1 + fabs(middle)):
                    break
                total = decided
                for k in range(count):
                    i = undecided[k]
                    slopes[2, k] = self.slope_of(i, margins[i] + middle)
                    total += slopes[2, k]
                if total > 0:
                    high = middle
                else:
                    low = middle
                left = 0
                for k in range(count):
                    undecided[left] = undecided[k]
                    slopes[0, left] = slopes[0 if total > 0 else 2, k]
                    slopes[1, left] = slopes[2 if total > 0 else 1, k]
                    if slopes[0, left] == slopes[1, left]:
                        decided += slopes[0, left]
                    else:
                        left += 1
                count = left
        self.last_intercept = low + (high - low) / 2
        return self.last_intercept

    def values(self, const double[::1] coefficients, const double[::1] margins, double intercept):
        """Return P and D.

        Parameters
        ----------
        coefficients : ndarray of shape (n_rows,), float64
            v, feasible.
        margins : ndarray of shape (n_rows,), float64
            (K + constant^2) v.
        intercept : float
            b, not penalised; 0 unless it is free.

        Returns
        -------
        primal, dual : float
            dual is -inf where a free intercept finds v not balanced.
        """
        cdef double norm = 0, loss = 0, conjugate = 0, total = 0, size = 0, v, scale, y
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_rows):
                v, scale, y = coefficients[i], self.scales[i], self.targets[i]
                norm += v * margins[i]
                total += v
                size += fabs(v)
                if scale > 0:
                    loss += scale * self.loss.value(margins[i] + intercept, y)
                    conjugate += scale * self.loss.conjugate(v / scale, y)
        primal, dual = norm / 2 + loss, -norm / 2 - conjugate
        if self.free_intercept and fabs(total) > UNBALANCED * size:
            dual = -np.inf
        return primal, dual

    def model(self, const double[::1] coefficients, double intercept):
        """Return the coefficients and, last, the intercept as one array."""
        if not self.free_intercept:
            intercept = self.constant * self.constant * np.sum(coefficients)
        return np.append(coefficients, intercept)

    def at_zeros(self):
        """Return the model of zero coefficients, its primal value and their dual value."""
        zeros = np.zeros(self.n_rows)
        intercept = self.best_intercept(zeros)
        return (self.model(zeros, intercept), *self.values(zeros, zeros, intercept))
