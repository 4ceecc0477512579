"""Stochastic dual coordinate ascent.

Papers: Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs" (2013),
section 4 with b = 1; Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods" (2013)
for losses other than the hinge.

Objective: that of sublinear._core.objective, whose dual it maximises one coordinate at a time:

    for i in a random order of the examples:
        z = <w, x_i>
        a = the maximiser of the dual over a_i                       (Loss.dual_step)
        w += s_i (a - a_i) / (alpha W) x_i;  a_i = a

Cost per step: the stored entries of one row, twice if its dual moves.

Departures from the paper:

- examples are visited in shuffled passes, not drawn independently, which takes fewer of them;
- rows need no scaling: each step uses its own |x_i|^2;
- an example whose dual did not move sleeps for 0, 1, 3, 7, 15, then 31 passes. It costs nothing
  meanwhile; certificates look at every example;
- an intercept that is not penalised ties the duals: sum_i s_i a_i = 0. The method of multipliers
  deals with that: w keeps a penalised constant column, and after each pass its part of the
  predictions moves into `offset`, the multiplier, until nothing is left to move. Certificates
  balance the duals first;
- where w is short, its mean over the last pass is kept: its objective is often far below that of w,
  and the better of the two is the model.
"""
import numpy as np

from sublinear._core.examples cimport (
    SAMPLED, Example, Examples, PassMean, Sample, collect_awake,
)
from sublinear._core.line cimport (
    OFFSET_AHEAD, Line, Lines, add, dot, line_at, prefetch_ahead,
)
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready, next_chunk
from sublinear._core.random cimport RandomBits


cdef class SDCA:
    """Dual coordinate ascent over shuffled passes.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; moved into the loss's domain. None means zeros.
    pack : bool, default=False
        Work on a packed copy of the rows (see PackedRows), which must be sparse.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    n_epochs : int
        Completed passes.
    accesses : int
        Feature values read.
    """
    keeps_best = True
    diverged = False
    cdef readonly Objective objective
    cdef readonly object w
    cdef readonly Py_ssize_t n_epochs, accesses
    cdef Examples examples
    cdef Loss loss
    cdef Order order
    cdef PassMean mean
    cdef double* weights
    cdef double step_scale                 # 1 / (alpha W)
    cdef double offset                     # the unpenalised intercept but for the part in w
    cdef Py_ssize_t n_visited
    cdef Sample sample                     # of this pass
    cdef double pass_gap, pass_loss        # estimated in the last one

    def __cinit__(
        self, Objective objective, RandomBits random, duals=None, bint pack=False
    ):
        self.objective = objective
        self.loss = objective.loss
        self.step_scale = 1 / (objective.alpha * objective.total_weight)
        self.examples = Examples(objective, duals, pack)
        if duals is None:
            self.w = np.zeros(objective.matrix.n_weights)
        else:
            self.w = objective.weights_of_dual(self.examples.duals())
        cdef double[::1] w = self.w
        self.weights = &w[0]
        self.order = Order(objective.matrix.n_rows, "shuffle", random)
        self.mean = PassMean(objective.matrix)
        self.pass_gap = float("inf")

    def restart(self, double alpha):
        """Go on from the present duals with another alpha; counts start at 0 again.

        Every dual keeps its value: those at a bound stay there, and w, which is proportional to
        1 / alpha, follows.
        """
        cdef double ratio = self.objective.alpha / alpha
        self.objective.alpha = alpha
        self.step_scale *= ratio
        self.w *= ratio
        self.examples.rescale(ratio)
        self._next_pass()
        self.n_epochs = self.accesses = self.n_visited = 0
        self.pass_gap = float("inf")

    @property
    def work(self):
        """Feature values read, and one for every example looked at."""
        return self.accesses + self.n_visited

    @property
    def estimated_gap(self):
        """The relative gap, estimated from a part of the last pass; a hint, no certificate."""
        primal = self.pass_loss + self.objective.penalty(self.w)
        return self.pass_gap / max(primal, 1e-300)

    def advance(self, Py_ssize_t limit):
        """Go on until the pass ends or another row would make `accesses` exceed `limit`."""
        with nogil:
            self._run(limit)

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Lines* rows = self.examples.rows
        cdef double prediction, target, dual, change
        cdef Py_ssize_t i
        cdef Example* example
        cdef Line x
        if draws.position == 0:
            self.mean.restart(draws.count)
        while draws.position < draws.count:
            make_ready(draws, draws.position + OFFSET_AHEAD + 1)
            prefetch_ahead(rows, draws.items, draws.position, draws.ready, self.weights)
            self.examples.prefetch_state(draws.items, draws.position, draws.ready)
            i = draws.items[draws.position]
            x = line_at(rows, i)
            if self.accesses + x.size > limit:
                return
            example = self.examples.at(i)
            target = self.examples.target(example, i)
            prediction = dot(&x, self.weights) + self.offset
            if draws.position % SAMPLED == 0:
                self.examples.sample(&self.sample, i, example.dual, prediction, target)
            dual = self.loss.dual_step(example.dual, prediction, target, example.curvature)
            change = dual - example.dual
            if change != 0:
                example.dual = dual
                add(&x, self.step_scale * self.objective.weight(i) * change, self.weights)
                if self.examples.sleep[i] != 0:
                    self.examples.sleep[i] = 0
            else:
                self.examples.fall_asleep(&self.examples.sleep[i])
            self.accesses += x.size
            self.n_visited += 1
            draws.position += 1
            if draws.position == self.mean.next:
                self.mean.add(self.weights)
        self._end_pass()

    cdef void _end_pass(self) noexcept nogil:
        cdef double share = SAMPLED / self.objective.total_weight
        self.pass_gap = share * self.sample.gap
        self.pass_loss = share * self.sample.loss
        self.n_epochs += 1
        if self.objective.free_constant:
            self.offset += self.objective.matrix.constant * self.weights[
                self.objective.matrix.n_columns]
        self._next_pass()

    cdef void _next_pass(self) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        self.sample.gap = self.sample.loss = 0
        draws.n = draws.count = collect_awake(
            &self.examples.sleep[0], self.examples.rows.count, draws.items, 0, 1)
        next_chunk(draws)

    def duals(self):
        """Return the duals as an array of its own (float64)."""
        return self.examples.duals()

    def release_duals(self):
        """Return the duals and end the solver's life, so that both need less memory."""
        self.order = None
        return self.duals()

    def model(self):
        """Return the weights."""
        return self._with_offset(self.w) if self.objective.free_constant else self.w

    def _with_offset(self, w):
        """Return the weights whose constant column makes up for the offset."""
        w = np.array(w)
        w[self.objective.matrix.n_columns] += self.offset / self.objective.matrix.constant
        return w

    def certify(self, rounded):
        """Return the better of w and its mean over the last pass, with its certificate.

        Parameters
        ----------
        rounded : callable
            Gives the model as it will be stored.

        Returns
        -------
        model : ndarray of shape (n_weights,), float64
        primal, dual : float
        """
        models = [self.w, *self.mean.models()]
        if self.objective.free_constant:
            models = [self._with_offset(model) for model in models]
        models = [rounded(model) for model in models]
        primals, dual = self.examples.certificate(self.w, models)
        best = int(np.argmin(primals))
        return models[best], primals[best], dual
