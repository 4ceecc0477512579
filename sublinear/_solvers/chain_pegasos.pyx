"""Pegasos for linear chains: an example is a sequence of rows with a label each.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figure 2 with the loss of section 5, Example 5.

Objective: that of sublinear._core.chain.

    for each batch B, N the number of sequences drawn so far:
        y_i <- argmax_y H(y, labels_i) + score(x_i, y) for i in B, by Viterbi's algorithm
        w <- (1 - |B| / N) w
             + 1/(alpha N) sum_{i in B} r_i (phi(x_i, labels_i) - phi(x_i, y_i))

with r_i = s_i n / S, and phi the features of a path, score(x, y) = <w, phi(x, y)>.

Cost per step: for b sequences, the stored entries of their rows times n_classes, their length times
n_classes^2, and twice the rows whose label was found wrong.

Departures: those of sublinear._core.steps.

The certificate costs the primal value's pass only. The dual has a variable for each sequence and
path, b_i(y) >= 0 with sum_y b_i(y) <= 1, and

    D(b) = (1/S) sum_i s_i sum_y b_i(y) H(y, labels_i) - alpha / 2 |w(b)|^2

The last iterate is w(b) where b_i(y) is n / N times how often y was found for i. So, with L the sum
of r_i H over all steps, D(c b) = c L / N - c^2 alpha / 2 |w|^2 for every factor c with which
c n / N times the most draws of a sequence is at most 1: after epochs of a permutation, c <= 1.
"""
import numpy as np

from sublinear._core.chain cimport ChainObjective, Chains, Decoded
from sublinear._core.classes cimport add_pair
from sublinear._core.line cimport Line, is_dense, line_at, line_start, prefetch_line
from sublinear._core.order cimport Draws
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits
from sublinear._core.steps cimport SubgradientSteps
from sublinear._core.weight_vector cimport ScaledVector

from sublinear._core.steps import dual_of_draws


cdef class ChainPegasos(SubgradientSteps):
    """Pegasos with mini-batches of sequences.

    Parameters
    ----------
    objective : ChainObjective
    random : RandomBits
    sampling, batch_size, average
        Of SubgradientSteps.
    """
    cdef readonly ChainObjective objective
    cdef readonly double cost              # sum of r_i H over all steps
    cdef bint is_resumed
    cdef Chains chains
    cdef Py_ssize_t[::1] sizes             # feature values of the sequences
    cdef Py_ssize_t[::1] n_draws           # of the sequences
    cdef int[::1] found                    # labels of the last look, for all rows
    cdef Py_ssize_t[::1] errors            # of the batch's sequences

    def __init__(
        self, ChainObjective objective, RandomBits random, *, sampling="shuffle",
        Py_ssize_t batch_size=1, average="last"
    ):
        cdef Chains chains = objective.chains
        cdef Py_ssize_t i
        super().__init__(
            chains.n_sequences, chains.n_weights, objective.alpha, random, sampling, batch_size,
            average)
        self.objective = objective
        self.chains = chains
        self.n_draws = np.zeros(chains.n_sequences, dtype=np.intp)
        self.sizes = np.empty(chains.n_sequences, dtype=np.intp)
        for i in range(chains.n_sequences):
            self.sizes[i] = self._stored(chains.offsets[i], chains.offsets[i + 1])
        self.found = np.empty(chains.matrix.n_rows, dtype=np.intc)
        self.errors = np.empty(batch_size, dtype=np.intp)

    cdef Py_ssize_t _stored(self, Py_ssize_t first, Py_ssize_t last):
        if is_dense(self.chains.matrix.rows.storage):
            return (last - first) * self.chains.matrix.n_columns
        return line_start(&self.chains.matrix.rows, last) - line_start(
            &self.chains.matrix.rows, first)

    def resume(self, state):
        """Go on from a `state()` of as many weights; there is no certificate then."""
        SubgradientSteps.resume(self, state)
        self.is_resumed = True

    cdef Py_ssize_t entries(self, Py_ssize_t i) noexcept nogil:
        return self.sizes[i]

    cdef void look_ahead(self, Py_ssize_t position) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t row
        if position + 1 < draws.ready:
            row = self.chains.offsets[draws.items[position + 1]]
            prefetch(&self.objective.labels[row])
            prefetch_line(&self.chains.matrix.rows, row)

    cdef void look_at(self, Py_ssize_t i, Py_ssize_t place) noexcept nogil:
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef int* path = &self.found[self.chains.offsets[i]]
        cdef Decoded found
        self.chains.decode(w.values, w.scale, i, self.objective.labels, path, &found, False)
        self.errors[place] = found.errors

    cdef void learn_from(self, Py_ssize_t i, Py_ssize_t place, double rate) noexcept nogil:
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef double ratio = self.ratio(self.objective, i)
        cdef double change = rate * ratio / w.scale
        self.n_draws[i] += 1
        self.cost += ratio * self.errors[place]
        if self.errors[place] > 0:
            self._add_difference(i, change, w.values)
            if w.correction != NULL and w.sum_of_scales != 0:
                self._add_difference(i, -change * w.sum_of_scales, w.correction)

    cdef void _add_difference(self, Py_ssize_t i, double factor, double* w) noexcept nogil:
        """w += factor * (phi(x_i, labels_i) - phi(x_i, the path found))"""
        cdef Py_ssize_t k = self.chains.n_classes, row
        cdef Py_ssize_t first = self.chains.offsets[i], last = self.chains.offsets[i + 1]
        cdef const int* labels = self.objective.labels
        cdef const int* found = &self.found[0]
        cdef double* start = w + k * k
        cdef Line x
        start[labels[first]] += factor
        start[found[first]] -= factor
        for row in range(first, last):
            if row > first:
                w[labels[row - 1] * k + labels[row]] += factor
                w[found[row - 1] * k + found[row]] -= factor
            if labels[row] != found[row]:
                x = line_at(&self.chains.matrix.rows, row)
                add_pair(&x, factor, k, labels[row], found[row], start + k)

    def shaped(self, model):
        """Return the weights as an array of n_classes columns."""
        return model.reshape(-1, self.chains.n_classes)

    def dual(self):
        """Return the dual value of the paths found so far, shrunk to be feasible (see the top)."""
        if self.is_resumed:
            return -np.inf
        last = self.shaped(self.weight_vector.to_array())
        return dual_of_draws(self.cost, self.objective.penalty(last), self.n_draws, self.n_drawn)
