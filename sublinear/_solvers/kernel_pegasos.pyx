"""Kernel Pegasos: stochastic sub-gradient descent on kernel machines.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figure 3, with the batches of Figure 2.

Objective: that of sublinear._core.kernel_objective, divided by W = sum_i c_i; alpha = 1 / W.

    for t = 1, 2, ..:
        B = the next b examples
        z_i = W / N sum_j v_j K_ij,  0 at t = 1,                    for i in B
        v_i <- v_i - c_i n / W l'(z_i, y_i),                        for i in B
        N <- N + |B|,                                               0 at first

For the hinge loss and b = 1, y_i v_i is alpha[i] of Figure 3, which prints y of the drawn example
in place of y_j, and t in place of the t - 1 of equation (13), which is N. A shorter batch counts by
its size (see sublinear._core.steps).

Figure 3 computes the kernel between each drawn example and all support vectors. Here the sums
sum_j v_j K_ij of all examples are kept. Draws come in blocks: kernel values among them tell what a
change does to the later ones of the block, and some hundred changes at a time are brought to all
sums, where kernel values are cheap. The steps are those of Figure 3, up to rounding.

Cost per step: half a block's kernel values (none where a batch is a block), and n for every change:
a step that changes nothing costs next to nothing, and so does a certificate. After an epoch this is
less than what Figure 3 computes, during the first one up to twice as much.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

import numpy as np

from sublinear._core.kernel_objective cimport KernelObjective
from sublinear._core.losses cimport Loss
from sublinear._core.order cimport Order
from sublinear._core.random cimport RandomBits
from sublinear._core.solver cimport Solver

cdef enum:
    CALLS = 1 << 14          # kernel values that could be computed during the calls of an epoch
    LEAST_BLOCK = 64         # draws: of the first block, so that small budgets suffice for steps
    PENDING = 512            # changes brought to all sums together
    CLIPPED_ROWS = 512       # of kernel values among clipped coefficients, at a time


cdef class KernelPegasos(Solver):
    """Pegasos with kernels and mini-batches.

    Parameters
    ----------
    objective : KernelObjective
        Without a free intercept.
    random : RandomBits
    sampling : {"replacement", "shuffle", "fixed", "subsets"}, default="replacement"
    batch_size : int, default=1
    block_size : int, default=2048
        Draws of a block at the most, unless a batch has more: 4 block_size^2 bytes.

    Attributes
    ----------
    n_steps, n_iter, accesses : int
        Steps taken, epochs (of n examples) completed, kernel values computed.
    n_drawn : float
        Examples of all steps.
    coefficients : ndarray of shape (n_rows,), float64
        v above.
    """
    certificate_growth = 1.5

    cdef readonly KernelObjective objective
    cdef readonly Order order
    cdef readonly double total_weight
    cdef readonly Py_ssize_t n_steps, n_iter, accesses
    cdef readonly double n_drawn
    cdef readonly object coefficients
    cdef object draws, values, pending_rows, pending_changes, sums
    cdef Loss loss
    cdef double shift, total      # the sum of the coefficients
    cdef Py_ssize_t n, batch_size, block_size, n_seen    # n_seen: examples of the present epoch
    cdef Py_ssize_t n_pending
    cdef tuple start                         # rows yet to be set, and coefficients
    # of the block: its size, the next draw, the length of a row of values (0: none are needed)
    cdef Py_ssize_t n_block, position, stride
    cdef double[::1] coefficient, block_sum, derivative
    cdef double[:, ::1] sum
    cdef const int64_t[::1] draw
    cdef const float[:, ::1] value
    cdef int64_t[::1] pending_row
    cdef float[::1] pending_change

    def __cinit__(
        self, KernelObjective objective, RandomBits random, *, sampling="replacement",
        Py_ssize_t batch_size=1, Py_ssize_t block_size=2048
    ):
        if objective.free_intercept:
            raise ValueError("kernel Pegasos needs a penalised intercept, or none")
        self.objective, self.loss, self.n = objective, objective.loss, objective.n_rows
        self.total_weight = objective.scales_array.sum() or 1.0    # without weight 0 is the model
        self.shift = objective.shift
        self.order = Order(self.n, sampling, random, batch_size)
        self.batch_size, self.block_size = batch_size, block_size
        self.start = np.zeros(0, dtype=np.int64), None
        self.coefficients = np.zeros(self.n)
        self.coefficient = self.coefficients
        self.sums = np.zeros((1, self.n))
        self.sum = self.sums
        self.derivative = np.empty(batch_size)
        self.pending_rows = np.empty(max(PENDING, batch_size), dtype=np.int64)
        self.pending_changes = np.empty(max(PENDING, batch_size), dtype=np.float32)
        self.pending_row, self.pending_change = self.pending_rows, self.pending_changes

    @property
    def work(self):
        """Kernel values computed, one for every example looked at, and the calls of an epoch."""
        return self.accesses + self.n_iter * (self.n + CALLS) + self.n_seen

    def advance(self, Py_ssize_t limit):
        """Go on until the epoch ends, then return True, or a step might exceed `limit`."""
        cdef Py_ssize_t epoch = self.n_iter, before
        if not self._set_start(limit):
            return False
        while self.n_iter == epoch:
            if self.position == self.n_block and not self._next_block(limit):
                return False
            before = self.position
            with nogil:
                self._run(limit)
            if self.position == self.n_block or self._is_full():
                self._bring_to_sums()
            elif self.position == before:
                return False
        return True

    def _next_block(self, Py_ssize_t limit):
        """Draw the next block; False if its kernel values would exceed the limit."""
        cdef Py_ssize_t b = self.batch_size, left = self.n - self.n_seen, size
        drawn = self.n_iter * self.n + self.n_seen
        size = min(self.block_size, max(LEAST_BLOCK, drawn))
        size = max(1, size // b) * b
        if self.order.draws.count < self.n:    # subsets: whole batches
            left = (left + b - 1) // b * b
        size = min(size, left)
        cost = size * (size + 1) // 2 if size > b else 0
        if self.accesses + cost > limit:
            return False
        self.accesses += cost
        self.draws = self.order.take(size).astype(np.int64)
        self.draw = self.draws
        self.block_sum = self.sums[0, self.draws]
        self.stride = 0
        if size > b:
            self.values = self.objective.rows.block(
                self.draws, self.draws, self.objective.n_threads)
            self.value = self.values
            self.stride = self.value.shape[1]
        self.n_block, self.position = size, 0
        return True

    cdef inline bint _is_full(self) noexcept nogil:
        return self.n_pending + min(
            self.batch_size, self.n_block - self.position) > self.pending_row.shape[0]

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        """Steps until the block, the budget, or the room for changes ends."""
        cdef Py_ssize_t size
        while self.position < self.n_block and not self._is_full():
            size = min(self.batch_size, self.n_block - self.position)
            if self.accesses + size * self.n > limit:
                return
            self._step(size)
            self.position += size
            self.n_seen += size
            if self.n_seen >= self.n:
                self.n_seen -= self.n
                self.n_iter += 1

    cdef void _step(self, Py_ssize_t size) noexcept nogil:
        cdef double scale = self._scale(), offset = self.shift * self.total
        cdef double ratio = self.n / self.total_weight, change
        cdef Py_ssize_t first = self.position, k, q, i
        for k in range(size):
            i = self.draw[first + k]
            self.derivative[k] = ratio * self.objective.scales[i] * self.loss.derivative(
                scale * (self.block_sum[first + k] + offset), self.objective.targets[i])
        self.n_steps += 1
        self.n_drawn += size
        for k in range(size):
            # the products take float32
            change = <float> -self.derivative[k]
            if change == 0:
                continue
            i = self.draw[first + k]
            self.coefficient[i] += change
            self.total += change
            self.pending_row[self.n_pending] = i
            self.pending_change[self.n_pending] = <float> change
            self.n_pending += 1
            self.accesses += self.n
            if self.stride > 0:
                for q in range(first + size, self.n_block):
                    self.block_sum[q] += change * self.value[first + k, q]

    cdef inline double _scale(self) noexcept nogil:
        """What makes the weights w of the coefficients."""
        return self.total_weight / max(self.n_drawn, 1)

    def _bring_to_sums(self):
        """Bring pending changes to the sums; an interrupt leaves some of them pending."""
        rows, changes = self.pending_rows, self.pending_changes
        at_once = self.objective.rows.rows_per_call
        while self.n_pending > 0:
            first = max(0, self.n_pending - at_once)
            part = slice(first, self.n_pending)
            self.objective.rows.add_product(
                rows[part], changes[np.newaxis, part], self.sums, self.objective.n_threads)
            self.n_pending = first
            PyErr_CheckSignals()

    def resume(self, coefficients, Py_ssize_t n_steps, double n_drawn):
        """Go on from the coefficients of w, and the numbers of steps and draws, of another fit."""
        self.n_steps, self.n_drawn = n_steps, n_drawn
        # the products take float32
        values = (coefficients / self._scale()).astype(np.float32)
        self.start = np.flatnonzero(values), values

    def _set_start(self, Py_ssize_t limit):
        """Set the coefficients to begin with; False if their products would exceed the limit."""
        rows, values = self.start
        while rows.size:
            part, rows = rows[:PENDING], rows[PENDING:]
            if self.accesses + part.size * self.n > limit:
                return False
            self.coefficients[part] = values[part]
            self.total = self.coefficients.sum()
            self.pending_rows[:part.size], self.pending_changes[:part.size] = part, values[part]
            self.n_pending = part.size
            self.accesses += part.size * self.n
            self._bring_to_sums()
            self.start = rows, values
        return True

    def model(self):
        """Return the coefficients of w and, last, the intercept as a new array (float64)."""
        return self.objective.model(self.coefficients * self._scale(), 0.0)

    def margins(self):
        """Return <w, phi(x_i)> for all examples, with the intercept (float64)."""
        self._bring_to_sums()
        return (self.sums[0] + self.shift * self.total) * self._scale()

    def duals(self):
        """Return the feasible coefficients nearest to those of w (float64)."""
        duals = self.coefficients * self._scale()
        self.objective.make_feasible(duals)
        return duals

    def certify(self, rounded):
        """Return the model and its certificate, that of `duals()` (see `_drive`).

        With w = f_u, z its margins and v the duals,
        D(v) = |w|^2 / 2 - sum_i v_i z_i - sum_i c_i l*(-v_i / c_i) - |f_{u - v}|^2 / 2:
        only clipped coefficients take kernel values.
        """
        coefficients, duals = self.coefficients * self._scale(), self.duals()
        margins = self.margins()
        norm, product = coefficients @ margins, duals @ margins
        primal, _ = self.objective.values(coefficients, margins, 0.0)
        _, dual = self.objective.values(duals, margins, 0.0)     # - product / 2 - conjugates
        dual += (norm - product - self._squared_norm(coefficients - duals)) / 2
        dual = self.objective.certified(primal, dual, coefficients, margins, 0.0)
        return rounded(self.model()), primal, dual

    def _squared_norm(self, coefficients):
        """Return |f_v|^2 for coefficients of which many are 0."""
        rows, n_threads = self.objective.rows, self.objective.n_threads
        support = np.flatnonzero(coefficients)
        values = coefficients[support]
        total = self.shift * values.sum() ** 2
        for first in range(0, support.size, CLIPPED_ROWS):
            part = support[first:first + CLIPPED_ROWS]
            block = rows.block(part, support, n_threads)[:, :support.size]
            total += values[first:first + CLIPPED_ROWS] @ (block @ values)
            self.objective.accesses += part.size * support.size
        return total
