"""JointObjective: alpha / 2 |W|^2 + weighted mean loss over one weight vector for each class.

    P(W) = alpha / 2 |W|^2 + (1 / S) sum_i s_i l(W' x_i, y_i),      S = sum_i s_i
    D(a) = - alpha / 2 |W(a)|^2 - (1 / S) sum_i s_i l*(-a_i, y_i),
    W(a) = sum_i s_i x_i a_i' / (alpha S)

W has the shape (n_weights, n_classes) in row order, |W| is its Frobenius norm. For the hinge of
cost 1 this is the problem of Crammer and Singer, "On the algorithmic implementation of multiclass
kernel-based vector machines" (JMLR 2, 2001).
"""
from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from sublinear._core.classes cimport add_classes, dot_classes
from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.line cimport Line, line_at


cdef class JointObjective(WeightedExamples):
    """A regularised loss of all classes over the rows of a matrix.

    Parameters
    ----------
    matrix : Matrix
    labels : ndarray of shape (n_rows,), intc
        From 0 to n_classes - 1.
    loss : JointLoss
    alpha : float
        Strength of the penalty alpha / 2 |W|^2.
    weights : ndarray of shape (n_rows,), float64, default=None
        Sample weights s_i, not negative; None means 1 each.

    Attributes
    ----------
    accesses : int
        Feature values read by the methods below so far.
    """

    def __cinit__(self, Matrix matrix, labels, JointLoss loss, double alpha, weights=None):
        cdef const int[::1] codes = labels
        if codes.shape[0] != matrix.n_rows:
            raise ValueError(f"{matrix.n_rows} rows, but {codes.shape[0]} labels")
        if not (0 <= labels.min() and labels.max() < loss.n_classes):
            raise ValueError(f"labels must be from 0 to {loss.n_classes - 1}")
        self.matrix = matrix
        self.loss = loss
        self.alpha = alpha
        self.n_classes = loss.n_classes
        self.labels_array = labels
        self.labels = &codes[0]
        self._weigh(matrix.n_rows, weights, "rows")

    def _rows_per_call(self):
        return max(1, self.matrix.rows_per_call() // self.n_classes)

    def penalty(self, const double[:, ::1] W):
        """Return alpha / 2 |W|^2."""
        return self.alpha / 2 * dense_dot64(&W[0, 0], &W[0, 0], W.shape[0] * W.shape[1])

    def primal(self, const double[:, ::1] W):
        """Return P(W).

        Parameters
        ----------
        W : ndarray of shape (n_weights, n_classes), float64
        """
        cdef Py_ssize_t i, first, last, n = self.matrix.n_rows, step = self._rows_per_call()
        cdef double[::1] scores = np.empty(self.n_classes)
        cdef double total = 0
        cdef Line x
        if W.shape[0] != self.matrix.n_weights or W.shape[1] != self.n_classes:
            raise ValueError(f"W must have shape {(self.matrix.n_weights, self.n_classes)}")
        for first in range(0, n, step):
            last = min(n, first + step)
            with nogil:
                for i in range(first, last):
                    x = line_at(&self.matrix.rows, i)
                    dot_classes(&x, &W[0, 0], self.n_classes, &scores[0])
                    total += self.weight(i) * self.loss.value(&scores[0], self.labels[i])
            PyErr_CheckSignals()
        self.accesses += self.matrix.n_stored
        return self.penalty(W) + total / self.total_weight

    def weights_of_dual(self, const double[:, ::1] duals):
        """Return W(a) as a new array of shape (n_weights, n_classes), float64."""
        result = np.zeros((self.matrix.n_weights, self.n_classes))
        cdef double[:, ::1] W = result
        cdef double[::1] factors = np.empty(self.n_classes)
        cdef Py_ssize_t i, c, first, last, n = self.matrix.n_rows, step = self._rows_per_call()
        cdef double scale = 1 / (self.alpha * self.total_weight)
        cdef Line x
        self._check_duals(duals)
        for first in range(0, n, step):
            last = min(n, first + step)
            with nogil:
                for i in range(first, last):
                    if duals[i, self.labels[i]] > 0 and self.weight(i) != 0:
                        for c in range(self.n_classes):
                            factors[c] = scale * self.weight(i) * duals[i, c]
                        x = line_at(&self.matrix.rows, i)
                        add_classes(&x, &factors[0], self.n_classes, &W[0, 0])
            PyErr_CheckSignals()
        self.accesses += self.matrix.n_stored
        return result

    def dual(self, const double[:, ::1] duals):
        """Return D(a) of feasible duals, an array of shape (n_rows, n_classes)."""
        penalty = self.penalty(self.weights_of_dual(duals))
        cdef double total = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.matrix.n_rows):
                total += self.weight(i) * self.loss.conjugate(&duals[i, 0], self.labels[i])
        return -penalty - total / self.total_weight

    def make_feasible(self, double[:, ::1] duals):
        """Move every row of duals to a feasible point near it, in place."""
        cdef Py_ssize_t i
        self._check_duals(duals)
        with nogil:
            for i in range(self.matrix.n_rows):
                self.loss.make_feasible(&duals[i, 0], self.labels[i])

    def _check_duals(self, const double[:, ::1] duals):
        if duals.shape[0] != self.matrix.n_rows or duals.shape[1] != self.n_classes:
            raise ValueError(f"duals must have shape {(self.matrix.n_rows, self.n_classes)}")

    def primal_of_zeros(self):
        """Return P(0), the mean loss of zero weights; reads no feature."""
        cdef double[::1] scores = np.zeros(self.n_classes)
        cdef double total = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.matrix.n_rows):
                total += self.weight(i) * self.loss.value(&scores[0], self.labels[i])
        return total / self.total_weight

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        zeros = np.zeros((self.matrix.n_weights, self.n_classes))
        return zeros, self.primal_of_zeros(), 0.0
