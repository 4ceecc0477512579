"""Strata: draws in proportion to weights, the same for an example of weight k and for k of them.

The examples lie along a line, each as long as its weight, sorted by what they are: equal ones are
neighbours, and where they are stored does not matter. The line is cut into strata of the same
width. One place is taken from each, as far from its left end in all of them; the example there is
drawn. This is systematic sampling: an epoch draws an example of weight s s / width times, rounded
up or down, and a weight of k does what k copies do, to the last bit.

Equal examples have a mass, the sum of their weights. Where the masses are whole numbers, as they
are by default, or multiples of the least, a stratum is as wide as the greatest number that divides
them all: nothing is rounded. If these would be too many strata, there are FEW, or one for each
mass; where masses have nothing in common, as many as examples.

What an example is, its product with a random vector tells. Different ones of the same product, as
rounding may leave them, count as equal ones.
"""
from cpython.exc cimport PyErr_CheckSignals

from libc.math cimport INFINITY, fabs, rint
from libc.stdint cimport uint8_t, uint32_t

import numpy as np

from sublinear._core.line cimport Line, dot, line_at
from sublinear._core.matrix cimport Matrix

cdef enum:
    MANY = 1 << 20               # strata that are never too many;
    LONGEST = 4                  # nor are so many for each mass
    FEW = 1 << 16                # strata where exact ones are too many; one for each mass if more

cdef double EXACT = 2.0**53      # whole numbers up to here are float64
cdef double ROUNDING = 1e-9      # of sums of weights


def kinds_of(Matrix matrix, const double[::1] w, const double[::1] targets, double factor):
    """Return <row i, w> + factor * target i for every row (float64)."""
    result = np.empty(matrix.n_rows)
    cdef double[::1] kind = result
    cdef Py_ssize_t first, i, step = matrix.rows_per_call()
    cdef Line x
    for first in range(0, matrix.n_rows, step):
        with nogil:
            for i in range(first, min(matrix.n_rows, first + step)):
                x = line_at(&matrix.rows, i)
                kind[i] = dot(&x, &w[0]) + factor * targets[i]
        PyErr_CheckSignals()
    return result


cdef Py_ssize_t greatest_divisor(Py_ssize_t one, Py_ssize_t other) noexcept nogil:
    while other > 0:
        one, other = other, one % other
    return one


cdef class Strata:
    """The line of the examples, and its strata.

    Parameters
    ----------
    matrix : Matrix
    targets : ndarray of shape (n_rows,), float64
        What tells examples apart besides their rows.
    weights : ndarray of shape (n_rows,), float64, default=None
        Not negative, and not all 0; None means 1 each.
    least : int, default=1
        The number of strata is at least this.

    Attributes
    ----------
    items : ndarray of uint32
        The examples of weight, as they lie along the line.
    ends : ndarray of shape (len(items),), float64, or None
        Where they end; None: after 1, 2, ...
    """

    def __cinit__(self, Matrix matrix, targets, weights=None, Py_ssize_t least=1):
        draws = np.random.default_rng(0)
        kinds = kinds_of(
            matrix, draws.standard_normal(matrix.n_weights), targets, draws.standard_normal())
        items = np.argsort(kinds).astype(np.uint32)
        if weights is not None:
            items = items[weights[items] > 0]
        cdef const uint32_t[::1] item = items
        self.items = items
        self.places.items = &item[0]
        self.places.last = len(items) - 1
        self._note_copies(kinds)
        self.places.count = max(least, self._draws_of_epoch(weights))
        self.places.width = <double> len(items) / self.places.count
        if weights is not None:
            self._widen(weights[items])

    def _note_copies(self, const double[::1] kinds):
        copies = np.zeros(self.places.last + 1, dtype=np.uint8)
        cdef uint8_t[::1] is_copy = copies
        cdef const uint32_t* items = self.places.items
        cdef Py_ssize_t k
        for k in range(1, is_copy.shape[0]):
            is_copy[k] = kinds[items[k]] == kinds[items[k - 1]]
        self.is_copy = copies

    def _draws_of_epoch(self, const double[::1] weights):
        """Return the number of strata (see the top of this file)."""
        cdef Py_ssize_t k = 0, n_different = 0, n_items = self.places.last + 1, total
        cdef double unit, least = INFINITY
        while k < n_items:
            least = min(least, self._next_mass(&k, weights))
            n_different += 1
        for unit in (1.0, least):
            total = self._units(unit, weights)
            if 0 < total <= max(MANY, LONGEST * n_different):
                return total
            if total > 0:
                return n_different * max(1, FEW // n_different)
        return n_items

    cdef Py_ssize_t _units(self, double unit, const double[::1] weights) noexcept:
        """How many of the largest multiple of a unit the masses are; 0 if they are none of it."""
        cdef Py_ssize_t k = 0, divisor = 0
        cdef double multiple, total = 0
        while k <= self.places.last:
            multiple = self._next_mass(&k, weights) / unit
            total += rint(multiple)
            if total > EXACT or fabs(multiple - rint(multiple)) > ROUNDING * multiple:
                return 0
            divisor = greatest_divisor(<Py_ssize_t> rint(multiple), divisor)
        return <Py_ssize_t> total // divisor

    cdef double _next_mass(self, Py_ssize_t* k, const double[::1] weights) noexcept:
        """The weight of the items that are equal to item k, which moves behind them."""
        cdef double mass = 0
        while True:
            mass += 1 if weights is None else weights[self.places.items[k[0]]]
            k[0] += 1
            if k[0] > self.places.last or not self.is_copy[k[0]]:
                return mass

    def _widen(self, weights):
        """Let the items be as wide as their weights."""
        power = np.frexp(weights.max())[1]    # without it sums stay finite, and no digit changes
        ends = np.cumsum(np.ldexp(weights, -power))
        self.places.width = ends[self.places.last] / self.count
        edges = np.searchsorted(ends, np.arange(self.count) * self.places.width, side="right")
        edges = np.minimum(edges, self.places.last).astype(np.uint32)
        cdef const double[::1] end = ends
        cdef const uint32_t[::1] edge = edges
        self.places.ends, self.places.edges = &end[0], &edge[0]
        self.ends, self.edges = ends, edges

    def share(self, double[:, ::1] masses, const double[::1] weights):
        """Divide what equal examples have among them, by their weights, in place.

        Parameters
        ----------
        masses : ndarray of shape (n_rows, n_columns), float64
        weights : ndarray of shape (n_rows,), float64, or None
        """
        cdef Py_ssize_t first = 0, end, n = self.places.last + 1
        with nogil:
            for end in range(1, n + 1):
                if end == n or not self.is_copy[end]:
                    if end - first > 1:
                        self._share(first, end, masses, weights)
                    first = end

    cdef void _share(
        self, Py_ssize_t first, Py_ssize_t end, double[:, ::1] masses, const double[::1] weights
    ) noexcept nogil:
        """Divide what the items [first, end) have."""
        cdef const uint32_t* items = self.places.items
        cdef double weight = 0, mass
        cdef Py_ssize_t k, c
        for k in range(first, end):
            weight += 1 if weights is None else weights[items[k]]
        for c in range(masses.shape[1]):
            mass = 0
            for k in range(first, end):
                mass += masses[items[k], c]
            for k in range(first, end):
                masses[items[k], c] = mass * (
                    1 / weight if weights is None else weights[items[k]] / weight)

    @property
    def are_items(self):
        """Whether every stratum is an item."""
        return self.ends is None and self.places.count == self.places.last + 1

    @property
    def count(self):
        """Number of strata."""
        return self.places.count
