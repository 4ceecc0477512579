"""WeightedExamples, what objectives have in common: the weights s_i of their examples."""
import numpy as np


cdef class WeightedExamples:
    """The base of objectives whose duals, one or several to an example, count s_i times.

    A subclass has `make_feasible(duals)`, in place.

    Attributes
    ----------
    weights_array : ndarray of shape (n_examples,), float64, or None
        None: each is 1.
    total_weight : float
        Their sum.
    """

    def _weigh(self, Py_ssize_t n_examples, weights, noun):
        """Take the weights; ValueError if there are not as many as `noun` says."""
        cdef const double[::1] view
        self.total_weight = n_examples
        if weights is None:
            return
        view = weights
        if view.shape[0] != n_examples:
            raise ValueError(f"{n_examples} {noun}, but {view.shape[0]} weights")
        self.weights_array, self.weights = weights, &view[0]
        self.total_weight = np.sum(weights)

    def duals_of(self, masses):
        """Turn masses s_i a_i into feasible duals near a_i; returns the array, written over."""
        if self.weights_array is not None:
            weights = self.weights_array.reshape(-1, *[1] * (masses.ndim - 1))
            np.divide(masses, weights, out=masses, where=weights > 0)
            masses[self.weights_array == 0] = 0
        self.make_feasible(masses)
        return masses
