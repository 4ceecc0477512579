from sublinear._core.matrix cimport Matrix


cdef struct Decoded:
    double best       # score of the best path, errors counted where labels were given
    double truth      # score of the labels
    Py_ssize_t errors


cdef class Chains:
    cdef readonly Matrix matrix
    cdef readonly Py_ssize_t n_classes, n_sequences, n_weights
    cdef readonly object offsets_array
    cdef const Py_ssize_t* offsets        # of the sequences' rows
    cdef double[:, ::1] emission          # scores of one sequence's rows
    cdef double[::1] score, previous
    cdef int[:, ::1] back

    cdef Decoded decode(
        self, const double* weights, double scale, Py_ssize_t i, const int* labels, int* path
    ) noexcept nogil


cdef class ChainObjective:
    cdef readonly Chains chains
    cdef readonly double alpha, total_weight
    cdef readonly Py_ssize_t accesses
    cdef readonly object labels_array, weights_array
    cdef const int* labels
    cdef const double* weights            # NULL: all are 1

    cdef inline double weight(self, Py_ssize_t i) noexcept nogil:
        return 1.0 if self.weights == NULL else self.weights[i]
