from libc.stdint cimport uint32_t

from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix
from sublinear._core.weighted_examples cimport WeightedExamples


cdef enum:
    MAX_CANDIDATES = 2
    BLOCK = 2048                 # rows, if short: in fewer, arrays beside X begin too often
    SHORT_ROW = 64               # entries
    SMALL_BLOCK = 512            # rows, if long; estimates read the first of each, or draw

cdef struct BlockSums:
    double loss[MAX_CANDIDATES]    # sum of weight_i l(<x_i, v>) for every candidate v
    double conjugate               # sum of weight_i (l*(-a_i) + a_i <x_i, w>)
    double reach                   # sum of weight_i |a_i| |x_i|, if asked for
    double inner[MAX_CANDIDATES]   # sum of weight_i a_i <x_i, v>, if asked for

cdef struct Point:
    const uint32_t* items          # the rows that blocks are parts of; NULL: all rows
    const double* weights          # of these; NULL: 1 each
    const double* candidate[MAX_CANDIDATES]
    int n_candidates
    bint together                  # two candidates' products in one reading of a line
    const double* w                # w(a), where there are duals
    const double* duals            # NULL: none
    Py_ssize_t dual_stride
    bint wants_reach, wants_inner


cdef class Objective(WeightedExamples):
    cdef readonly Matrix matrix
    cdef readonly Loss loss
    cdef public double alpha
    cdef readonly int n_threads
    cdef readonly double intercept_penalty
    cdef readonly bint free_intercept, has_multiplier
    cdef public Py_ssize_t accesses
    cdef readonly object targets_array
    cdef object zeros                  # what `values_of_zeros` returns; None until needed
    cdef object sample                 # rows and their masses, of an estimate; None until needed
    cdef const double* targets

    cdef double curvatures_of(
        self, Py_ssize_t start, Py_ssize_t stop, double* curvatures) noexcept nogil
    cdef void add_duals(
        self, Py_ssize_t start, Py_ssize_t stop, const double* duals, Py_ssize_t stride, double* w
    ) noexcept nogil
    cdef double total(self, Py_ssize_t start, Py_ssize_t stop, const double* terms) noexcept nogil

    cdef double penalty_of(self, const double* w) noexcept nogil
    cdef int useful_threads(self) noexcept
    cdef Point _point(self, candidates, const double[::1] w, const double[:] duals) except *
    cdef Py_ssize_t _restrict_to_sample(self, Point* at)
    cdef double _weight_read(
        self, const Point* at, Py_ssize_t n, Py_ssize_t length, Py_ssize_t part)
    cdef int threads_for(self, Py_ssize_t n_entries) noexcept nogil
    cdef BlockSums block_sums(
        self, Py_ssize_t start, Py_ssize_t stop, const Point* at) noexcept nogil
