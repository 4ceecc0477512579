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
from libc.stdint cimport uint8_t, uint32_t

import numpy as np

from sublinear._core.line cimport (
    LINE_AHEAD, OFFSET_AHEAD, Line, Lines, add, dot, line_at, prefetch_ahead, squared_norm,
)
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready, next_chunk
from sublinear._core.packed cimport PackedRows, Record, record_at
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits

cdef enum:
    LONGEST_SLEEP = 5     # as a power of two, less one pass
    LEVEL_BITS = 3        # of a byte of `sleep`: the level; the rest counts the passes to sleep
    SAMPLED = 8           # one example in so many enters the estimate of the gap
    MEANS_PER_PASS = 256  # the mean is kept where it can take so many w into account
    WARM_UP = 16          # it leaves out those of the first of so many parts of the pass

cdef struct Example:
    double dual
    double curvature      # s_i |x_i|^2 / (alpha W)

EXAMPLE = np.dtype([("dual", "f8"), ("curvature", "f8")])


cdef class SDCA:
    """Dual coordinate ascent over shuffled passes.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; clipped to the loss's domain. None means zeros.
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
    cdef Loss loss
    cdef Order order
    cdef PackedRows packed
    cdef Lines* rows
    cdef object examples                   # where rows are not packed
    cdef Example* example
    cdef double* weights
    cdef double step_scale                 # 1 / (alpha W)
    cdef double offset                     # the unpenalised intercept but for the part in w
    cdef double longest_row                # the largest |x_i|^2
    cdef uint8_t[::1] sleep                # of every example
    cdef Py_ssize_t n_visited
    # the mean of w over the pass, taken every `mean_interval` examples; 0: not kept
    cdef double[::1] mean_sum
    cdef Py_ssize_t mean_interval, next_mean, mean_count
    # sums over the sampled examples of the pass, and the results of the last one
    cdef double sampled_gap, sampled_loss
    cdef double pass_gap, pass_loss

    def __cinit__(
        self, Objective objective, RandomBits random, duals=None, bint pack=False
    ):
        cdef Py_ssize_t n = objective.matrix.n_rows
        self.objective = objective
        self.loss = objective.loss
        self.step_scale = 1 / (objective.alpha * objective.total_weight)
        self.w = np.zeros(objective.matrix.n_weights)
        cdef double[::1] w = self.w
        self.weights = &w[0]
        self._store_rows(pack)
        self._start(duals)
        self.sleep = np.zeros(n, dtype=np.uint8)
        self.order = Order(n, "shuffle", random)
        self.pass_gap = float("inf")
        self._keep_mean()

    def _store_rows(self, pack):
        cdef Example[::1] examples
        if pack:
            self.packed = PackedRows(self.objective.matrix, self.objective.targets_array)
            self.rows = &self.packed.rows
        else:
            self.examples = np.zeros(self.objective.matrix.n_rows, dtype=EXAMPLE)
            examples = self.examples
            self.example = &examples[0]
            self.rows = &self.objective.matrix.rows

    def _start(self, duals):
        cdef const double[:] start = duals
        cdef Py_ssize_t i
        cdef double square, largest = 0
        cdef Line x
        cdef Example* example
        with nogil:
            for i in range(self.rows.count):
                x = line_at(self.rows, i)
                square = squared_norm(&x)
                self.longest_row = max(self.longest_row, square)
                example = self._example(i)
                example.curvature = self.objective.curvature(i, square)
                largest = max(largest, example.curvature)
                if start is not None:
                    example.dual = self.loss.nearest_dual(start[i], self.objective.targets[i])
        self.objective.check_curvature(largest)
        if start is not None:
            self.w[:] = self.objective.weights_of_dual(self.duals())

    def _keep_mean(self):
        """Decide whether to keep the mean: d additions each time must not slow the pass down."""
        matrix = self.objective.matrix
        interval = max(1, 4 * matrix.n_weights * matrix.n_rows // max(1, matrix.n_stored))
        if interval * MEANS_PER_PASS <= matrix.n_rows:
            self.mean_interval = interval
            self.mean_sum = np.zeros(matrix.n_weights)

    cdef inline Example* _example(self, Py_ssize_t i) noexcept nogil:
        if self.example == NULL:
            return <Example*> record_at(self.packed, i)    # a Record begins like an Example
        return &self.example[i]

    cdef inline double _target(self, Example* example, Py_ssize_t i) noexcept nogil:
        return (<Record*> example).target if self.example == NULL else self.objective.targets[i]

    def restart(self, double alpha):
        """Go on from the present duals with another alpha; counts start at 0 again.

        Every dual keeps its value: those at a bound stay there, and w, which is proportional to
        1 / alpha, follows.
        """
        cdef double ratio = self.objective.alpha / alpha
        cdef Py_ssize_t i
        self.objective.alpha = alpha
        self.step_scale *= ratio
        self.w *= ratio
        for i in range(self.rows.count):
            self._example(i).curvature *= ratio
        self.sleep[:] = 0
        self.n_epochs = self.accesses = self.n_visited = 0
        self.mean_count = 0
        self.pass_gap = float("inf")
        self.sampled_gap = self.sampled_loss = 0
        for i in range(self.rows.count):
            self.order.draws.items[i] = <uint32_t> i
        self.order.draws.n = self.order.draws.count = self.rows.count
        next_chunk(&self.order.draws)

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
        cdef double prediction, target, dual, change
        cdef Py_ssize_t i
        cdef Example* example
        cdef Line x
        if draws.position == 0:
            self._restart_mean(draws)
        while draws.position < draws.count:
            self._look_ahead(draws)
            i = draws.items[draws.position]
            x = line_at(self.rows, i)
            if self.accesses + x.size > limit:
                return
            example = self._example(i)
            target = self._target(example, i)
            prediction = dot(&x, self.weights) + self.offset
            if draws.position % SAMPLED == 0:
                self._sample(i, example.dual, prediction, target)
            dual = self.loss.dual_step(example.dual, prediction, target, example.curvature)
            change = dual - example.dual
            if change != 0:
                example.dual = dual
                add(&x, self.step_scale * self.objective.weight(i) * change, self.weights)
                if self.sleep[i] != 0:
                    self.sleep[i] = 0
            else:
                self._send_to_sleep(i)
            self.accesses += x.size
            self.n_visited += 1
            draws.position += 1
            if draws.position == self.next_mean:
                self._count_in_mean()
        self._end_pass(draws)

    cdef inline void _look_ahead(self, Draws* draws) noexcept nogil:
        """Make draws and ask for what they will read."""
        cdef Py_ssize_t later = draws.position + LINE_AHEAD
        make_ready(draws, draws.position + OFFSET_AHEAD + 1)
        prefetch_ahead(self.rows, draws.items, draws.position, draws.ready, self.weights)
        if self.example != NULL and later < draws.ready:
            prefetch(&self.example[draws.items[later]])
            prefetch(&self.objective.targets[draws.items[later]])

    cdef inline void _sample(
        self, Py_ssize_t i, double dual, double prediction, double target
    ) noexcept nogil:
        """Count an example's term of the gap, l(z) + l*(-a) + a z, in the estimate."""
        cdef double weight = self.objective.weight(i)
        cdef double loss = self.loss.value(prediction, target)
        self.sampled_loss += weight * loss
        self.sampled_gap += weight * (
            loss + self.loss.conjugate(dual, target) + dual * prediction)

    cdef inline void _send_to_sleep(self, Py_ssize_t i) noexcept nogil:
        """The dual did not move: skip 2^level - 1 passes, one level more each time."""
        cdef int level = self.sleep[i]
        self.sleep[i] = <uint8_t> (
            min(level + 1, LONGEST_SLEEP) | (((1 << level) - 1) << LEVEL_BITS))

    cdef void _restart_mean(self, Draws* draws) noexcept nogil:
        cdef Py_ssize_t j
        self.next_mean = draws.count // WARM_UP + 1 if self.mean_interval > 0 else 0
        self.mean_count = 0
        if self.mean_interval > 0:
            for j in range(self.mean_sum.shape[0]):
                self.mean_sum[j] = 0

    cdef void _count_in_mean(self) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(self.mean_sum.shape[0]):
            self.mean_sum[j] += self.weights[j]
        self.mean_count += 1
        self.next_mean += self.mean_interval

    cdef void _end_pass(self, Draws* draws) noexcept nogil:
        """Estimate the gap; collect the examples that are awake in the next pass."""
        cdef double share = SAMPLED / self.objective.total_weight
        cdef Py_ssize_t i, count = 0
        cdef int asleep
        self.pass_gap = share * self.sampled_gap
        self.pass_loss = share * self.sampled_loss
        self.sampled_gap = self.sampled_loss = 0
        for i in range(self.rows.count):    # without branches: who sleeps is hard to foresee
            asleep = self.sleep[i] >> LEVEL_BITS != 0
            self.sleep[i] -= <uint8_t> (asleep << LEVEL_BITS)
            draws.items[count] = <uint32_t> i
            count += 1 - asleep
        draws.n = draws.count = count
        next_chunk(draws)
        self.n_epochs += 1
        if self.objective.free_constant:
            self.offset += self.rows.constant * self.weights[self.rows.length]

    def duals(self):
        """Return the duals as an array of its own."""
        if self.packed is None:
            return self.examples["dual"].copy()
        result = np.empty(self.objective.matrix.n_rows)
        cdef double[::1] duals = result
        cdef Py_ssize_t i
        for i in range(duals.shape[0]):
            duals[i] = record_at(self.packed, i).dual
        return result

    def release_duals(self):
        """Return the duals and end the solver's life, so that both need less memory."""
        self.order = None
        self.sleep = None
        return self.duals()

    def model(self):
        """Return the weights."""
        return self._with_offset(self.w) if self.objective.free_constant else self.w

    def _with_offset(self, w):
        """Return the weights whose constant column makes up for the offset."""
        w = np.array(w)
        w[self.rows.length] += self.offset / self.rows.constant
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
        models = [self.model()]
        if self.mean_count > 0:
            mean = np.asarray(self.mean_sum) / self.mean_count
            models.append(self._with_offset(mean) if self.objective.free_constant else mean)
        models = [rounded(model) for model in models]
        primals, dual = self._certificate(models)
        best = int(np.argmin(primals))
        return models[best], primals[best], dual

    def _certificate(self, models):
        objective = self.objective
        if objective.free_constant:
            duals = self.duals()
            objective.balance(duals)
            w = objective.weights_of_dual(duals)
            w[self.rows.length] = 0
            return objective.certificate(w, duals, models)
        duals = self.examples["dual"] if self.packed is None else self.duals()
        rounding = 0.0
        if self.packed is not None and not self.packed.exact:
            rounding = 2.0**-24 * np.sqrt(self.longest_row)
        return objective.certificate(self.w, duals, models, rounding)
