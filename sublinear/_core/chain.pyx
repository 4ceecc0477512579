"""Linear chains: sequences of rows with a label each, and the best labels by dynamic programming.

The score of labels y_1, .., y_T for rows x_1, .., x_T is

    start[y_1] + sum_t <emission[:, y_t], x_t> + sum_{t > 1} transition[y_{t-1}, y_t]

All weights lie in one array of n_classes columns: n_classes rows of transitions (from a row's label
to a column's), one of starts, and one for each feature.

    P(w) = alpha / 2 |w|^2
           + (1 / S) sum_i s_i max_y (H(y, y_i) + score(x_i, y) - score(x_i, y_i))

with H the number of labels that differ. The maximum is found by Viterbi's algorithm (A. Viterbi,
"Error bounds for convolutional codes and an asymptotically optimum decoding algorithm", 1967): a
sequence costs its stored entries times n_classes, and its length times n_classes^2.
"""
from cpython.exc cimport PyErr_CheckSignals

import numpy as np

from sublinear._core.classes cimport dot_classes
from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.line cimport Line, line_at

cdef enum:
    OPERATIONS_PER_CALL = 1 << 24      # between two looks at pending signals


cdef class Chains:
    """Sequences of rows of a matrix.

    Parameters
    ----------
    matrix : Matrix
    offsets : ndarray of shape (n_sequences + 1,), intp
        Sequence i has the rows from offsets[i] to offsets[i + 1] - 1, at least one.
    n_classes : int
    """

    def __cinit__(self, Matrix matrix, offsets, Py_ssize_t n_classes):
        cdef const Py_ssize_t[::1] view = offsets
        lengths = np.diff(offsets)
        if offsets[0] != 0 or offsets[lengths.size] != matrix.n_rows or lengths.min() < 1:
            raise ValueError("offsets must rise from 0 to the number of rows")
        longest = lengths.max()
        self.matrix = matrix
        self.n_classes = n_classes
        self.rows_per_call = max(1, OPERATIONS_PER_CALL // (n_classes * n_classes))
        self.n_sequences = len(lengths)
        self.n_weights = (n_classes + 1 + matrix.n_weights) * n_classes
        self.offsets_array = offsets
        self.offsets = &view[0]
        self.emission = np.empty((longest, n_classes))
        self.back = np.empty((longest, n_classes), dtype=np.intc)
        self.score = np.empty(n_classes)
        self.previous = np.empty(n_classes)

    cdef Py_ssize_t after_slice(self, Py_ssize_t first) noexcept nogil:
        """The end of some sequences from `first` on that together cost few operations."""
        cdef Py_ssize_t last = first + 1, end = self.offsets[first] + self.rows_per_call
        while last < self.n_sequences and self.offsets[last + 1] <= end:
            last += 1
        return last

    cdef int decode(
        self, const double* weights, double scale, Py_ssize_t i, const int* labels, int* path,
        Decoded* found, bint looks
    ) except -1 nogil:
        """Write the labels of the best score under scale * weights into path.

        Where labels, those of all rows, are not NULL, every one that differs adds 1 to the score.
        `looks`: for Ctrl-C, now and then; without, it raises nothing.
        """
        cdef Py_ssize_t k = self.n_classes, first = self.offsets[i]
        cdef Py_ssize_t length = self.offsets[i + 1] - first, t, c, p
        cdef const double* start = weights + k * k
        cdef const double* features = start + k
        cdef double* score = &self.score[0]
        cdef double* previous = &self.previous[0]
        cdef double* emission
        cdef double value, cost = 1 / scale
        cdef int* back
        cdef Line x
        found.truth = found.best = 0
        found.errors = 0
        for t in range(length):
            if looks and (t + 1) % self.rows_per_call == 0:
                with gil:
                    PyErr_CheckSignals()
            emission = &self.emission[t, 0]
            back = &self.back[t, 0]
            x = line_at(&self.matrix.rows, first + t)
            dot_classes(&x, features, k, emission)
            if labels != NULL:
                c = labels[first + t]
                found.truth += emission[c] + (
                    weights[labels[first + t - 1] * k + c] if t > 0 else start[c])
                for p in range(k):
                    emission[p] += cost
                emission[c] -= cost
            if t == 0:
                for c in range(k):
                    score[c] = start[c] + emission[c]
                continue
            score, previous = previous, score
            for c in range(k):
                score[c] = previous[0] + weights[c]
                back[c] = 0
            for p in range(1, k):
                for c in range(k):
                    value = previous[p] + weights[p * k + c]
                    back[c] = <int> p if value > score[c] else back[c]
                    score[c] = value if value > score[c] else score[c]
            for c in range(k):
                score[c] += emission[c]
        p = 0
        for c in range(1, k):
            if score[c] > score[p]:
                p = c
        found.best = scale * score[p]
        found.truth *= scale
        for t in range(length - 1, -1, -1):
            path[t] = <int> p
            if labels != NULL and p != labels[first + t]:
                found.errors += 1
            if t > 0:
                p = self.back[t, p]
        return 0

    def best_paths(self, const double[:, ::1] weights):
        """Return the best label of every row (intc) and the score of every sequence's labels."""
        paths, scores = np.empty(self.matrix.n_rows, dtype=np.intc), np.empty(self.n_sequences)
        cdef int[::1] path = paths
        cdef double[::1] score = scores
        cdef Py_ssize_t i = 0, last
        cdef Decoded found
        self.check_weights(weights)
        while i < self.n_sequences:
            last = self.after_slice(i)
            with nogil:
                while i < last:
                    self.decode(&weights[0, 0], 1, i, NULL, &path[self.offsets[i]], &found, True)
                    score[i] = found.best
                    i += 1
            PyErr_CheckSignals()
        return paths, scores

    def check_weights(self, const double[:, ::1] weights):
        """Raise ValueError if weights do not have the shape that these chains need."""
        if weights.shape[1] != self.n_classes or weights.shape[0] * self.n_classes \
                != self.n_weights:
            raise ValueError(
                f"weights must have {self.n_weights // self.n_classes} rows and "
                f"{self.n_classes} columns")


cdef class ChainObjective(WeightedExamples):
    """The regularised hinge loss of whole label sequences.

    Parameters
    ----------
    chains : Chains
    labels : ndarray of shape (n_rows,), intc
    alpha : float
    weights : ndarray of shape (n_sequences,), float64, default=None
        Weights s_i of the sequences, not negative; None means 1 each.

    Attributes
    ----------
    accesses : int
        Feature values read by the methods below so far.
    """

    def __cinit__(self, Chains chains, labels, double alpha, weights=None):
        cdef const int[::1] codes = labels
        if codes.shape[0] != chains.matrix.n_rows:
            raise ValueError(f"{chains.matrix.n_rows} rows, but {codes.shape[0]} labels")
        if not (0 <= labels.min() and labels.max() < chains.n_classes):
            raise ValueError(f"labels must be from 0 to {chains.n_classes - 1}")
        self.chains = chains
        self.alpha = alpha
        self.labels_array = labels
        self.labels = &codes[0]
        self._weigh(chains.n_sequences, weights, "sequences")

    def penalty(self, const double[:, ::1] weights):
        """Return alpha / 2 |w|^2."""
        cdef Py_ssize_t size = weights.shape[0] * weights.shape[1]
        return self.alpha / 2 * dense_dot64(&weights[0, 0], &weights[0, 0], size)

    def primal(self, const double[:, ::1] weights):
        """Return P(w)."""
        cdef Chains chains = self.chains
        cdef int[::1] path = np.empty(chains.emission.shape[0], dtype=np.intc)
        cdef double total = 0
        cdef Py_ssize_t i = 0, last
        cdef Decoded found
        chains.check_weights(weights)
        while i < chains.n_sequences:
            last = chains.after_slice(i)
            with nogil:
                while i < last:
                    chains.decode(&weights[0, 0], 1, i, self.labels, &path[0], &found, True)
                    total += self.weight(i) * (found.best - found.truth)
                    i += 1
            PyErr_CheckSignals()
        self.accesses += chains.matrix.n_stored
        return self.penalty(weights) + total / self.total_weight

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        cdef Py_ssize_t k = self.chains.n_classes
        zeros = np.zeros((self.chains.n_weights // k, k))
        return zeros, self.primal(zeros), 0.0
