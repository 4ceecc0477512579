"""Linear sketches of a vector that is a sum of lines, and l2 samples from them.

Hash functions are a 64-bit mixer with a seed of its own for each, in place of the limited
independence of the papers.
"""
from libc.math cimport log
from libc.stdint cimport uint64_t

from sublinear._core.line cimport Line

cdef enum:
    MAX_DEPTH = 9


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """The finaliser of SplitMix64: a bijection whose output bits look independent."""
    x += 0x9E3779B97F4A7C15ULL
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL
    return x ^ (x >> 31)


cdef inline uint64_t hashed(uint64_t seed, Py_ssize_t j) noexcept nogil:
    return mix(seed ^ mix(<uint64_t> j))


cdef inline double exponential(uint64_t seed, Py_ssize_t j) noexcept nogil:
    """A standard exponential variable that belongs to coordinate j."""
    return -log(((hashed(seed, j) >> 12) + 0.5) * 2.0**-52)  # never 1


# Depth rows of width counters; coordinate j adds its value, with a sign, to one counter of each.
cdef struct Counters:
    int depth
    Py_ssize_t mask           # width - 1; the width is a power of two
    uint64_t seed[MAX_DEPTH]
    double* count


cdef inline void add_value(const Counters* sketch, Py_ssize_t j, double value) noexcept nogil:
    """Coordinate j of the vector grows by a value."""
    cdef uint64_t h
    cdef int r
    for r in range(sketch.depth):
        h = hashed(sketch.seed[r], j)
        sketch.count[r * (sketch.mask + 1) + <Py_ssize_t> (h & <uint64_t> sketch.mask)] += (
            value if h >> 63 else -value)


cdef double median(double* values, int size) noexcept nogil

cdef double estimate(const Counters* sketch, Py_ssize_t j) noexcept nogil

cdef double squared_norm_estimate(const Counters* sketch) noexcept nogil


cdef class CountSketch:
    cdef Counters counters
    cdef readonly object array

    cdef void add_line(self, const Line* x, double factor) noexcept nogil


cdef class SketchedL2Sampler:
    cdef readonly CountSketch sketch
    cdef uint64_t seed
    cdef readonly Py_ssize_t[::1] candidate
    cdef readonly double[::1] value, size

    cdef void add_line(self, const Line* x, double factor) noexcept nogil
    cdef void add_candidates(self, const Line* x, double factor) noexcept nogil
    cdef Py_ssize_t best(self) noexcept nogil
