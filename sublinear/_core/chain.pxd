from sublinear._core.matrix cimport Matrix
from sublinear._core.weighted_examples cimport WeightedExamples


cdef struct Decoded:
    double best       # score of the best path, errors counted where labels were given
    double truth      # score of the labels
    Py_ssize_t errors


cdef class Chains:
    cdef readonly Matrix matrix
    cdef readonly Py_ssize_t n_classes, n_sequences, n_weights
    cdef Py_ssize_t rows_per_call         # between two looks at pending signals
    cdef readonly object offsets_array
    cdef const Py_ssize_t* offsets        # of the sequences' rows
    cdef double[:, ::1] emission          # scores of one sequence's rows
    cdef double[::1] score, previous
    cdef int[:, ::1] back

    cdef int decode(
        self, const double* weights, double scale, Py_ssize_t i, const int* labels, int* path,
        Decoded* found, bint looks
    ) except -1 nogil
    cdef Py_ssize_t after_slice(self, Py_ssize_t first) noexcept nogil


cdef class ChainObjective(WeightedExamples):
    cdef readonly Chains chains
    cdef readonly double alpha
    cdef readonly Py_ssize_t accesses
    cdef readonly object labels_array
    cdef const int* labels
