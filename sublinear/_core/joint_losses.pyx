"""Losses of all classes at once, each given by four functions of one example.

With scores z (one for each of k classes), label y and dual a, a vector of k numbers:

value          l(z)
subgradient    g(z), written over z; where it is e_r - e_y, that r is returned, else ALL_CLASSES
conjugate      l*(-a), for a in its domain
make_feasible  a point near a where l*(-a) is finite, written over a

Sub-gradients are p - e_y with p in the simplex, so duals are e_y - p. At the optimum a = -g(z) and
W = sum weight_i x_i a_i' / (alpha * total weight).

Source: Shalev-Shwartz et al., "Pegasos" (2011), section 5, Examples 3 and 4.
"""
from libc.math cimport exp, log, log1p

import numpy as np

from sublinear._core.aligned import contiguous


cdef class JointLoss:
    """Base of the losses; the methods below apply one of them to arrays, for tests.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, Py_ssize_t n_classes):
        self.n_classes = n_classes

    cdef double value(self, const double* scores, Py_ssize_t label) noexcept nogil:
        return 0

    cdef Py_ssize_t subgradient(self, double* scores, Py_ssize_t label) noexcept nogil:
        return label

    cdef double conjugate(self, const double* dual, Py_ssize_t label) noexcept nogil:
        return 0

    cdef void make_feasible(self, double* dual, Py_ssize_t label) noexcept nogil:
        cdef double mass = 0
        cdef Py_ssize_t r
        for r in range(self.n_classes):
            if r != label:
                dual[r] = min(dual[r], 0)
                mass -= dual[r]
        if mass > 1:
            for r in range(self.n_classes):
                dual[r] /= mass
            mass = 1
        dual[label] = mass

    def values(self, scores, labels):
        """Return l(z) for rows of scores."""
        cdef const double[:, ::1] z = self._rows(scores)
        return np.array([self.value(&z[i, 0], y) for i, y in enumerate(labels)])

    def subgradients(self, scores, labels):
        """Return a sub-gradient for rows of scores."""
        result = self._rows(scores).copy()
        cdef double[:, ::1] z = result
        cdef Py_ssize_t i, y, rival
        for i, y in enumerate(labels):
            rival = self.subgradient(&z[i, 0], y)
            if rival != ALL_CLASSES:
                result[i] = 0
                z[i, rival] += 1
                z[i, y] -= 1
        return result

    def conjugates(self, duals, labels):
        """Return l*(-a) for rows of duals."""
        cdef const double[:, ::1] a = self._rows(duals)
        return np.array([self.conjugate(&a[i, 0], y) for i, y in enumerate(labels)])

    def feasible_duals(self, duals, labels):
        """Return feasible rows near those of duals."""
        result = self._rows(duals).copy()
        cdef double[:, ::1] a = result
        cdef Py_ssize_t i, y
        for i, y in enumerate(labels):
            self.make_feasible(&a[i, 0], y)
        return result

    def _rows(self, array):
        array = contiguous(array, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.n_classes:
            raise ValueError(f"rows must have {self.n_classes} entries")
        return array


cdef class CostHinge(JointLoss):
    """max_r cost(y, r) + z_r - z_y; l*(-a) = sum_r a_r cost(y, r) over r other than y.

    Parameters
    ----------
    n_classes : int
    cost : ndarray of shape (n_classes, n_classes), float64, default=None
        cost[y, r] of predicting r for y, 0 on the diagonal; None means 1 elsewhere.
    """
    cdef readonly object cost_array
    cdef const double[:, ::1] cost

    def __init__(self, Py_ssize_t n_classes, cost=None):
        super().__init__(n_classes)
        self.cost_array = 1 - np.eye(n_classes) if cost is None else cost
        self.cost = self.cost_array

    cdef inline Py_ssize_t rival(self, const double* scores, Py_ssize_t label) noexcept nogil:
        """The class of the maximum; the label itself if nothing exceeds it."""
        cdef Py_ssize_t r, best = label
        cdef double value, most = scores[label]
        for r in range(self.n_classes):
            value = self.cost[label, r] + scores[r]
            if value > most:
                most = value
                best = r
        return best

    cdef double value(self, const double* scores, Py_ssize_t label) noexcept nogil:
        cdef Py_ssize_t r = self.rival(scores, label)
        return self.cost[label, r] + scores[r] - scores[label]

    cdef Py_ssize_t subgradient(self, double* scores, Py_ssize_t label) noexcept nogil:
        return self.rival(scores, label)

    cdef double conjugate(self, const double* dual, Py_ssize_t label) noexcept nogil:
        cdef double total = 0
        cdef Py_ssize_t r
        for r in range(self.n_classes):
            total += dual[r] * self.cost[label, r]
        return total


cdef class MultinomialLogistic(JointLoss):
    """log sum_r exp(z_r - z_y); with p = e_y - a, l*(-a) = sum_r p_r log p_r."""

    cdef double value(self, const double* scores, Py_ssize_t label) noexcept nogil:
        cdef double others = 0
        cdef Py_ssize_t r, first = 0
        for r in range(1, self.n_classes):
            if scores[r] > scores[first]:
                first = r
        for r in range(self.n_classes):
            if r != first:
                others += exp(scores[r] - scores[first])
        return log1p(others) + (scores[first] - scores[label])

    cdef Py_ssize_t subgradient(self, double* scores, Py_ssize_t label) noexcept nogil:
        cdef double most = scores[0], others = 0, total
        cdef Py_ssize_t r
        for r in range(1, self.n_classes):
            most = max(most, scores[r])
        for r in range(self.n_classes):
            scores[r] = exp(scores[r] - most)
            if r != label:
                others += scores[r]
        total = others + scores[label]
        for r in range(self.n_classes):
            scores[r] /= total
        scores[label] = -others / total
        return ALL_CLASSES

    cdef double conjugate(self, const double* dual, Py_ssize_t label) noexcept nogil:
        cdef double total = 0
        cdef Py_ssize_t r
        for r in range(self.n_classes):
            if r == label and dual[r] < 1:
                total += (1 - dual[r]) * log1p(-dual[r])    # 1 - a is rounded
            elif r != label and dual[r] < 0:
                total -= dual[r] * log(-dual[r])
        return total


JOINT_LOSSES = {"hinge": CostHinge, "logistic": MultinomialLogistic}
