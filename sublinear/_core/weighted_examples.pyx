"""WeightedExamples, what objectives have in common: the weights s_i of their examples."""
from libc.math cimport floor, INFINITY
from libc.stdint cimport uint32_t

import numpy as np

cdef enum:
    ROUNDS = 32    # in which the bound of `sample_by_weight` comes down; any bound is right

cdef double GOLDEN = 0.6180339887498949    # its multiples keep no period that examples may have


def sample_by_weight(const double[::1] weights, Py_ssize_t size):
    """Draw at most about `size` examples by their weights, always the same ones.

    Those that weigh as much as a draw stands for are all drawn and stand for themselves. The
    others are drawn one from each part of their sum, of equal weight, for which it stands.

    Parameters
    ----------
    weights : ndarray of shape (n_examples,), float64
        Not negative, not all 0.
    size : int

    Returns
    -------
    drawn : ndarray of shape (n_drawn,), uint32
        In ascending order.
    masses : ndarray of shape (n_drawn,), float64
        What weight each stands for.
    """
    cdef double bound = INFINITY, rest = np.sum(weights), point, passed = 0
    cdef Py_ssize_t n = weights.shape[0], n_heavy = 0, n_drawn = 0, n_parts, k = 0, i
    for _ in range(ROUNDS):
        if rest <= 0 or n_heavy >= size or rest / (size - n_heavy) >= bound:
            break
        bound = rest / (size - n_heavy)
        rest, n_heavy = 0, 0
        with nogil:
            for i in range(n):
                if weights[i] >= bound:
                    n_heavy += 1
                else:
                    rest += weights[i]
    n_parts = <Py_ssize_t> (rest / bound) + 1    # of the sum of the others
    drawn, masses = np.empty(n_heavy + n_parts, np.uint32), np.empty(n_heavy + n_parts)
    cdef uint32_t[::1] items = drawn
    cdef double[::1] of_item = masses
    point = bound / 2    # of this sum: where the next one is drawn
    with nogil:
        for i in range(n):
            if weights[i] >= bound:
                items[n_drawn], of_item[n_drawn] = i, weights[i]
                n_drawn += 1
                continue
            passed += weights[i]
            if passed <= point or k == n_parts:
                continue
            items[n_drawn], of_item[n_drawn] = i, 0
            while passed > point and k < n_parts:    # a part may end, and the next begin, with one
                of_item[n_drawn] += bound
                k += 1
                point = bound * (k + k * GOLDEN - floor(k * GOLDEN))
            n_drawn += 1
    return drawn[:n_drawn], masses[:n_drawn]


cdef class WeightedExamples(BaseObjective):
    """The base of objectives whose duals, one or several to an example, count s_i times.

    A subclass has `make_feasible(duals)`, in place.

    Attributes
    ----------
    weights_array : ndarray of shape (n_examples,), float64, or None
        None: each is 1.
    total_weight : float
        Their sum.
    mean_weight : float
        Of these examples, where total_weight is that of more.
    """

    def _weigh(self, Py_ssize_t n_examples, weights, noun):
        """Take the weights; ValueError if there are not as many as `noun` says."""
        cdef const double[::1] view
        self.total_weight, self.mean_weight = n_examples, 1
        if weights is None:
            return
        view = weights
        if view.shape[0] != n_examples:
            raise ValueError(f"{n_examples} {noun}, but {view.shape[0]} weights")
        self.weights_array, self.weights = weights, &view[0]
        self.total_weight = np.sum(weights)
        self.mean_weight = self.total_weight / n_examples

    def duals_of(self, masses):
        """Turn masses s_i a_i into feasible duals near a_i; returns the array, written over."""
        if self.weights_array is not None:
            weights = self.weights_array.reshape(-1, *[1] * (masses.ndim - 1))
            np.divide(masses, weights, out=masses, where=weights > 0)
            masses[self.weights_array == 0] = 0
        self.make_feasible(masses)
        return masses
