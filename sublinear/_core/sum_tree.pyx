"""A sampler over n weights with cheap updates."""
import numpy as np

from sublinear._core.sweeps cimport sum_of


cdef void rebuild_sums(SumNodes* tree) noexcept nogil:
    cdef int level
    cdef Py_ssize_t parent, first
    for level in range(1, tree.n_levels):
        for parent in range(tree.size[level]):
            first = parent * FAN_OUT
            tree.level[level][parent] = sum_of(
                tree.level[level - 1] + first, min(FAN_OUT, tree.size[level - 1] - first))
    tree.drift = 0


cdef Py_ssize_t descend(const SumNodes* tree, double mass) noexcept nogil:
    """The index whose slice of [0, total) holds `mass`; -1 if rounding led to an empty node."""
    cdef Py_ssize_t node = 0, child, last
    cdef int level = tree.n_levels - 1
    cdef const double* weights
    while level > 0:
        level -= 1
        weights = tree.level[level]
        last = -1
        for child in range(node * FAN_OUT, min((node + 1) * FAN_OUT, tree.size[level])):
            if weights[child] > 0:
                last = child
                if mass < weights[child]:
                    break
                mass -= weights[child]
        if last < 0:
            return -1
        node = last
    return node


cdef Py_ssize_t draw_index(SumNodes* tree, double u) noexcept nogil:
    """Index i with probability weight_i / total, for u uniform in [0, 1); -1 if all are zero."""
    cdef Py_ssize_t i = descend(tree, u * total_weight(tree))
    if i < 0:
        rebuild_sums(tree)
        i = descend(tree, u * total_weight(tree))
    return i


cdef class SumTree:
    """Draw an index by weight; change a weight.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Finite and not negative.
    """

    def __cinit__(self, weights):
        weights = np.array(weights, dtype=np.float64, ndmin=1)
        if weights.ndim != 1 or weights.size == 0:
            raise ValueError(f"weights must be one-dimensional, not empty; got {weights.shape}")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights must be finite and not negative")
        self.levels = [weights]
        size = weights.size
        while size > 1 or len(self.levels) == 1:
            size = (size + FAN_OUT - 1) // FAN_OUT
            self.levels.append(np.empty(size))
        self.nodes.n_levels = len(self.levels)
        cdef int level
        cdef double[::1] sums
        for level in range(self.nodes.n_levels):
            sums = self.levels[level]
            self.nodes.level[level] = &sums[0]
            self.nodes.size[level] = sums.size
        rebuild_sums(&self.nodes)

    @property
    def total(self):
        """The sum of the weights."""
        return total_weight(&self.nodes)

    @property
    def weights(self):
        """The weights, as a read-only view."""
        view = self.levels[0].view()
        view.flags.writeable = False
        return view

    def __len__(self):
        return self.nodes.size[0]

    def set_weight(self, Py_ssize_t i, double weight):
        """Give index i a new weight, finite and not negative."""
        if not 0 <= i < self.nodes.size[0]:
            raise IndexError(f"index {i} is out of range for {self.nodes.size[0]} weights")
        if not 0 <= weight < float("inf"):
            raise ValueError(f"a weight must be finite and not negative, got {weight}")
        set_weight(&self.nodes, i, weight)

    def draw(self, double u):
        """Return index i with probability weight_i / total.

        Parameters
        ----------
        u : float
            A uniform draw from [0, 1).
        """
        cdef Py_ssize_t i = draw_index(&self.nodes, u)
        if i < 0:
            raise ValueError("every weight is zero: there is nothing to draw")
        return i
