"""Stochastic dual coordinate ascent.

Paper: Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs" (2013),
section 4 with b = 1; Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods" (2013)
for losses other than the hinge.

Objective: that of sublinear._core.objective, whose dual it maximises one coordinate at a time:

    for i in a fresh random order of the examples:
        z = <w, x_i>
        a = the maximiser of the dual over a_i                       (Loss.dual_step)
        w += s_i (a - a_i) / (alpha W) x_i;  a_i = a

Cost per step: the stored entries of one row, twice if its dual moves.

Departures from the paper: examples are visited in shuffled epochs, not drawn independently, which
takes fewer epochs in practice; rows need no scaling, each step uses its own |x_i|^2.
"""
import numpy as np

from sublinear._core.line cimport (
    Line, Lines, add, dot, line_at, line_size, prefetch_line, prefetch_offset, squared_norm,
)
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready, next_chunk
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits

cdef enum:
    AHEAD = 6        # rows prefetched before their turn

# A row without entries does not move w: any tiny curvature gives it its best dual at once.
cdef double LEAST_CURVATURE = 1e-300

cdef struct Example:
    double dual
    double curvature      # s_i |x_i|^2 / (alpha W)

EXAMPLE = np.dtype([("dual", "f8"), ("curvature", "f8")])


cdef class SDCA:
    """Dual coordinate ascent over shuffled epochs.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; clipped to the loss's domain. None means zeros.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    duals : ndarray of shape (n_rows,), float64
        A view of the state.
    n_epochs : int
        Completed passes.
    accesses : int
        Feature values read.
    """
    cdef readonly Objective objective
    cdef Loss loss
    cdef readonly Order order
    cdef readonly object w, examples
    cdef readonly Py_ssize_t n_epochs, accesses
    cdef double* weights
    cdef Example* example

    def __cinit__(self, Objective objective, RandomBits random, duals=None):
        self.objective = objective
        self.loss = objective.loss
        self.examples = np.zeros(objective.matrix.n_rows, dtype=EXAMPLE)
        self.w = np.zeros(objective.matrix.n_weights)
        self._start(duals)
        self.order = Order(objective.matrix.n_rows, "shuffle", random)

    def _start(self, duals):
        cdef Example[::1] examples = self.examples
        cdef double[::1] w = self.w
        cdef const double[:] start = duals
        cdef double scale = 1 / (self.objective.alpha * self.objective.total_weight)
        cdef double largest = 0
        cdef Py_ssize_t i
        cdef Line x
        cdef Example* example
        self.example = &examples[0]
        self.weights = &w[0]
        with nogil:
            for i in range(examples.shape[0]):
                x = line_at(&self.objective.matrix.rows, i)
                example = &self.example[i]
                example.curvature = max(
                    LEAST_CURVATURE, self.objective.weight(i) * squared_norm(&x) * scale)
                largest = max(largest, example.curvature)
                if start is not None:
                    example.dual = self.loss.nearest_dual(start[i], self.objective.targets[i])
        if not largest < 1e300:
            raise ValueError(
                "the squared norm of a row of X, divided by alpha * n_samples, overflows: "
                "scale X down or raise alpha")
        if start is not None:
            self.w[:] = self.objective.weights_of_dual(self.duals)

    @property
    def duals(self):
        return self.examples["dual"]

    @property
    def work(self):
        """Feature values read, and one for every example looked at."""
        return (self.accesses + self.n_epochs * self.objective.matrix.n_rows
                + self.order.draws.position)

    def advance(self, Py_ssize_t limit):
        """Go on until the epoch ends or another row would make `accesses` exceed `limit`."""
        with nogil:
            self._run(limit)

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Lines* rows = &self.objective.matrix.rows
        cdef Draws* draws = &self.order.draws
        cdef double scale = 1 / (self.objective.alpha * self.objective.total_weight)
        cdef double dual, change
        cdef Py_ssize_t i
        cdef Example* example
        cdef Line x
        while draws.position < draws.count:
            self._prefetch(draws, rows)
            i = draws.items[draws.position]
            x = line_at(rows, i)
            if self.accesses + x.size > limit:
                return
            example = &self.example[i]
            dual = self.loss.dual_step(
                example.dual, dot(&x, self.weights), self.objective.targets[i], example.curvature)
            change = dual - example.dual
            if change != 0:
                example.dual = dual
                add(&x, scale * self.objective.weight(i) * change, self.weights)
            self.accesses += x.size
            draws.position += 1
        self.n_epochs += 1
        next_chunk(draws)

    cdef inline void _prefetch(self, Draws* draws, Lines* rows) noexcept nogil:
        cdef Py_ssize_t later = draws.position + 2 * AHEAD
        make_ready(draws, later + 1)
        if later < draws.count:
            prefetch_offset(rows, draws.items[later])
            prefetch(&self.example[draws.items[later]])
            prefetch(&self.objective.targets[draws.items[later]])
            later -= AHEAD
            prefetch_line(rows, draws.items[later])

    def release_duals(self):
        """Return the duals as an array of its own and end the solver's life."""
        self.order = None
        return self.duals.copy()

    def model(self):
        """Return the weights w, not a copy."""
        return self.w

    def certificate(self, model):
        """Return the primal value of `model` and the dual value reached (see Objective)."""
        return self.objective.certificate(self.w, self.duals, model)
