"""CountSketch and an l2 sampler: what can be said of a vector without storing it.

Charikar, Chen, Farach-Colton, "Finding frequent items in data streams" (2002): every row of a
CountSketch estimates a coordinate, and the squared norm, without bias; the median of the rows is
seldom far off (Thorup and Zhang's sketch of the norm is of this kind).

SketchedL2Sampler: Jayaram and Woodruff, "Perfect L_p sampling in a data stream" (2018), in place of
the older sampler of Monemizadeh and Woodruff. With standard exponentials e_j, the j that maximises
x_j^2 / e_j is j with probability x_j^2 / |x|^2. A CountSketch of x_j / sqrt(e_j) finds the few
coordinates that may be it; a second look at the data tells their values, so the choice among them
is exact. It errs only where the right one is not among them.
"""
from libc.math cimport fabs, sqrt
from libc.string cimport memset

import numpy as np

from sublinear._core.line cimport entry_index, entry_value, line_at, value_at
from sublinear._core.matrix cimport Matrix


cdef double median(double* values, int size) noexcept nogil:
    """Of an odd number of values, which it sorts."""
    cdef double value
    cdef int k, m
    for k in range(1, size):
        value = values[k]
        m = k
        while m > 0 and values[m - 1] > value:
            values[m] = values[m - 1]
            m -= 1
        values[m] = value
    return values[size // 2]


cdef double estimate(const Counters* sketch, Py_ssize_t j) noexcept nogil:
    cdef double values[MAX_DEPTH]
    cdef uint64_t h
    cdef int r
    for r in range(sketch.depth):
        h = hashed(sketch.seed[r], j)
        values[r] = sketch.count[
            r * (sketch.mask + 1) + <Py_ssize_t> (h & <uint64_t> sketch.mask)]
        if not h >> 63:
            values[r] = -values[r]
    return median(values, sketch.depth)


cdef double squared_norm_estimate(const Counters* sketch) noexcept nogil:
    cdef double values[MAX_DEPTH]
    cdef Py_ssize_t k
    cdef int r
    for r in range(sketch.depth):
        values[r] = 0
        for k in range(r * (sketch.mask + 1), (r + 1) * (sketch.mask + 1)):
            values[r] += sketch.count[k] * sketch.count[k]
    return median(values, sketch.depth)


cdef class CountSketch:
    """A linear sketch of a vector.

    Parameters
    ----------
    width : int
        Counters in a row, a power of two.
    depth : int
        Rows, an odd number up to 9.
    """

    def __init__(self, Py_ssize_t width, int depth):
        cdef double[::1] view
        if width < 1 or width & (width - 1):
            raise ValueError(f"width must be a power of two, got {width}")
        if not (1 <= depth <= MAX_DEPTH and depth % 2 == 1):
            raise ValueError(f"depth must be odd and at most {MAX_DEPTH}, got {depth}")
        self.array = np.zeros(width * depth)
        view = self.array
        self.counters.count = &view[0]
        self.counters.mask = width - 1
        self.counters.depth = depth

    def restart(self, uint64_t seed):
        """Begin with a vector of zeros and new hash functions."""
        cdef int r
        for r in range(self.counters.depth):
            self.counters.seed[r] = mix(seed + <uint64_t> r)
        memset(self.counters.count, 0, self.array.nbytes)

    cdef void add_line(self, const Line* x, double factor) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(x.size):
            add_value(&self.counters, entry_index(x, k), factor * entry_value(x, k))

    def add(self, Py_ssize_t j, double value):
        """Add a value to coordinate j."""
        add_value(&self.counters, j, value)

    def estimate(self, Py_ssize_t j):
        """Return the estimate of coordinate j."""
        return estimate(&self.counters, j)

    def squared_norm(self):
        """Return the estimate of the squared norm."""
        return squared_norm_estimate(&self.counters)


cdef class SketchedL2Sampler:
    """One draw of a coordinate j with probability x_j^2 / |x|^2, by two passes over the lines of x.

    Parameters
    ----------
    width, depth : int
        Of the sketch.
    n_candidates : int
        Coordinates that the second pass looks at.

    Attributes
    ----------
    candidate : memoryview of int
        Coordinates that may be the one, once `find` has been called.
    value : memoryview of float
        What the second pass finds for them.
    """

    def __init__(self, Py_ssize_t width, int depth, Py_ssize_t n_candidates):
        self.sketch = CountSketch(width, depth)
        self.candidate = np.zeros(n_candidates, dtype=np.intp)
        self.value = np.zeros(n_candidates)
        self.size = np.zeros(n_candidates)

    def restart(self, uint64_t seed):
        """Begin with a vector of zeros and new random choices."""
        self.seed = mix(seed)
        self.sketch.restart(mix(self.seed))
        self.value[:] = 0
        self.size[:] = -1

    cdef void add_line(self, const Line* x, double factor) noexcept nogil:
        cdef Py_ssize_t k, j
        for k in range(x.size):
            j = entry_index(x, k)
            add_value(
                &self.sketch.counters, j,
                factor * entry_value(x, k) / sqrt(exponential(self.seed, j)))

    def find(self, Py_ssize_t n_columns):
        """End the first pass: find the candidates."""
        cdef Py_ssize_t j, k, last = self.candidate.shape[0] - 1
        cdef double size
        with nogil:
            for j in range(n_columns):
                size = fabs(estimate(&self.sketch.counters, j))
                if size <= self.size[last]:
                    continue
                k = last
                while k > 0 and self.size[k - 1] < size:
                    self.size[k] = self.size[k - 1]
                    self.candidate[k] = self.candidate[k - 1]
                    k -= 1
                self.size[k] = size
                self.candidate[k] = j

    cdef void add_candidates(self, const Line* x, double factor) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(self.candidate.shape[0]):
            if self.size[k] >= 0:
                self.value[k] += factor * value_at(x, self.candidate[k])

    cdef Py_ssize_t best(self) noexcept nogil:
        """The candidate with the largest x_j^2 / e_j; -1 if all are 0."""
        cdef Py_ssize_t k, best = -1
        cdef double ratio, largest = 0
        for k in range(self.candidate.shape[0]):
            ratio = self.value[k] * self.value[k] / exponential(self.seed, self.candidate[k])
            if ratio > largest:
                best, largest = k, ratio
        return best

    def add_rows(self, Matrix matrix, const double[::1] factors):
        """First pass: add a multiple of every row."""
        cdef Py_ssize_t i
        cdef Line x
        for i in range(matrix.n_rows):
            x = line_at(&matrix.rows, i)
            self.add_line(&x, factors[i])

    def read_rows(self, Matrix matrix, const double[::1] factors):
        """Second pass: the same rows once more."""
        cdef Py_ssize_t i
        cdef Line x
        for i in range(matrix.n_rows):
            x = line_at(&matrix.rows, i)
            self.add_candidates(&x, factors[i])

    def drawn(self):
        """Return the coordinate and its value, or None if the vector is zero."""
        cdef Py_ssize_t k = self.best()
        return None if k < 0 else (self.candidate[k], self.value[k])
