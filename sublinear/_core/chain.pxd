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
    cdef double[:, ::1] score             # of the best path to every label, of rows t % 2
    cdef int[:, ::1] back                 # the label before, on that path

    cdef int decode(
        self, const double* weights, double scale, Py_ssize_t i, const int* labels, int* path,
        Decoded* found, bint looks
    ) except -1 nogil
    cdef double _score_of_label(
        self, const double* weights, Py_ssize_t t, const int* labels) noexcept nogil
    cdef void _add_costs(self, Py_ssize_t t, Py_ssize_t label, double cost) noexcept nogil
    cdef void _extend_paths(self, const double* weights, Py_ssize_t t) noexcept nogil
    cdef Py_ssize_t after_slice(self, Py_ssize_t first) noexcept nogil


cdef class ChainObjective(WeightedExamples):
    cdef readonly Chains chains
    cdef readonly double alpha
    cdef readonly Py_ssize_t accesses
    cdef readonly object labels_array
    cdef const int* labels
