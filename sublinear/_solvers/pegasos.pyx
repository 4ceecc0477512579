"""Pegasos: projected stochastic sub-gradient descent.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figures 1 and 2; the tail average is that of Takac et al. (2013), Algorithm 1.

Objective: that of sublinear._core.objective.

    for t = 1, 2, ..:
        B = the next b examples
        w <- (1 - 1/t) w - 1/(alpha t b) sum_{i in B} r_i l'(<w, x_i>) x_i,      r_i = s_i n / W
        w <- the nearest point with |w| <= radius                                    (optional)

Cost per step: the stored entries of b rows, twice for those whose derivative is not 0.

At t = 1 the factor is exactly 0. Without projection w_{t+1} is a combination of rows whose
coefficients, clipped to the loss's domain, are feasible duals: they give the certificate. After
whole epochs of a permutation nothing needs clipping.
"""
from libc.stdint cimport uint32_t

import numpy as np

from sublinear._core.line cimport (
    LINE_AHEAD, OFFSET_AHEAD, Line, Lines, line_at, line_size, prefetch_ahead,
)
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready, next_chunk
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits
from sublinear._core.weight_vector cimport (
    ScaledVector, WeightVector, add_line, count_in_average, fold_scale, needs_folding, project,
    shrink, weight_dot,
)

AVERAGES = ("last", "mean", "tail")


cdef class Pegasos:
    """Pegasos with mini-batches.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
    batch_size : int, default=1
    projection : bool, default=False
        Project onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    average : {"last", "mean", "tail"}, default="last"
        The model: the last iterate, the mean of all, or the mean of those since step 2^k, where
        2^k is the largest power of two that is at most half the number of steps.

    Attributes
    ----------
    n_steps, n_iter, accesses : int
        Steps taken, epochs (of n examples) completed, feature values read.
    """
    cdef readonly Objective objective
    cdef readonly Order order
    cdef readonly WeightVector weight_vector
    cdef readonly Py_ssize_t n_steps, n_iter, accesses
    cdef readonly object coefficients      # of the rows in v = w / scale
    cdef Loss loss
    cdef str average
    cdef bint averages
    cdef double radius                     # 0: no projection
    cdef Py_ssize_t batch_size, n_seen     # n_seen: examples of the present epoch
    cdef Py_ssize_t next_window
    cdef list windows                      # (steps, sum of iterates) at powers of two
    cdef double[::1] coefficient, derivative

    def __cinit__(
        self, Objective objective, RandomBits random, *, str sampling="shuffle",
        Py_ssize_t batch_size=1, bint projection=False, str average="last"
    ):
        cdef Py_ssize_t n = objective.matrix.n_rows
        if average not in AVERAGES:
            raise ValueError(f"average must be one of {AVERAGES}, got {average!r}")
        self.objective = objective
        self.loss = objective.loss
        self.order = Order(n, sampling, random, batch_size)
        self.average = average
        self.averages = average != "last"
        self.weight_vector = WeightVector(
            objective.matrix.n_weights, averaged=self.averages, keeps_norm=projection)
        self.radius = objective.radius() if projection else 0
        self.batch_size = batch_size
        self.coefficients = np.zeros(n)
        self.coefficient = self.coefficients
        self.derivative = np.empty(batch_size)
        self.windows = []
        self.next_window = 1

    estimated_gap = float("inf")
    certificate_growth = 1.5
    keeps_best = False
    diverged = False

    @property
    def work(self):
        """Feature values read, and one for every example looked at."""
        return self.accesses + self.n_iter * self.objective.matrix.n_rows + self.n_seen

    def state(self):
        """Return what `resume` needs to go on, perhaps over other examples."""
        w = self.weight_vector
        return {
            "average": self.average,
            "w": w.to_array(),
            "coefficients": self.coefficients * w.vector.scale,
            "sum_of_iterates": w.sum_of_iterates() if self.averages else None,
            "n_averaged": w.n_averaged,
            "n_steps": self.n_steps,
            "windows": self.windows,
            "next_window": self.next_window,
        }

    def can_resume(self, state):
        """Tell whether a `state()` has as many weights as this solver."""
        return state["w"].shape[0] == self.objective.matrix.n_weights

    def resume(self, state):
        """Go on from the `state()` of a solver that `can_resume`.

        The coefficients of the rows are taken over if there are as many rows as then: should they
        be other rows, certificates suffer, but hold. Another `average` begins anew.
        """
        self.weight_vector.set(state["w"])
        self.n_steps = state["n_steps"]
        if self.averages and state["average"] == self.average:
            self.weight_vector.set_average(state["sum_of_iterates"], state["n_averaged"])
            self.windows, self.next_window = state["windows"], state["next_window"]
        if state["coefficients"].shape[0] == self.coefficient.shape[0]:
            self.coefficients[:] = state["coefficients"]

    def advance(self, Py_ssize_t limit):
        """Go on until the epoch ends, then return True, or a step would exceed `limit`."""
        cdef Py_ssize_t epoch = self.n_iter, before = -1
        while self.n_iter == epoch and self.n_steps != before:
            before = self.n_steps
            with nogil:
                self._run(limit)
            if self.average == "tail" and self.weight_vector.n_averaged == self.next_window:
                self.windows = self.windows[len(self.windows) // 2:] + [
                    (self.next_window, self.weight_vector.sum_of_iterates())]
                self.next_window *= 2
        return self.n_iter > epoch

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        """Steps until the epoch, the budget or a window of the tail average ends."""
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t size
        while True:
            make_ready(draws, min(draws.count, draws.position + self.batch_size + OFFSET_AHEAD))
            size = min(self.batch_size, draws.count - draws.position)
            if self.accesses + self._entries(draws, size) > limit:
                return
            self._step(draws, size)
            draws.position += size
            if draws.position == draws.count:
                next_chunk(draws)
            self.n_seen += size
            if self.n_seen >= self.objective.matrix.n_rows:
                self.n_seen -= self.objective.matrix.n_rows
                self.n_iter += 1
                return
            if self.averages and self.weight_vector.vector.n_averaged == self.next_window:
                return

    cdef inline Py_ssize_t _entries(self, Draws* draws, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t total = 0, k
        for k in range(draws.position, draws.position + size):
            total += line_size(&self.objective.matrix.rows, draws.items[k])
        return total

    cdef void _step(self, Draws* draws, Py_ssize_t size) noexcept nogil:
        cdef Lines* rows = &self.objective.matrix.rows
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef double ratio = rows.count / self.objective.total_weight
        cdef double rate
        cdef const uint32_t* batch = draws.items + draws.position
        cdef Py_ssize_t i, k
        cdef Line x
        for k in range(size):
            self._look_ahead(draws, draws.position + k, rows)
            i = batch[k]
            x = line_at(rows, i)
            self.derivative[k] = ratio * self.objective.weight(i) * self.loss.derivative(
                weight_dot(w, &x), self.objective.targets[i])
            self.accesses += x.size
        self.n_steps += 1
        shrink(w, 1 - 1.0 / self.n_steps)
        rate = 1 / (self.objective.alpha * self.n_steps * size)
        for k in range(size):
            if self.derivative[k] != 0:
                i = batch[k]
                x = line_at(rows, i)
                self.coefficient[i] += add_line(w, &x, -rate * self.derivative[k])
        if self.radius > 0:
            project(w, self.radius)
        if needs_folding(w):
            for i in range(rows.count):
                self.coefficient[i] *= w.scale
            fold_scale(w)
        if self.averages:
            count_in_average(w)

    cdef inline void _look_ahead(
        self, Draws* draws, Py_ssize_t position, Lines* rows
    ) noexcept nogil:
        """Ask for what the draws after `position` will read."""
        cdef Py_ssize_t later = position + LINE_AHEAD
        prefetch_ahead(
            rows, draws.items, position, draws.ready, self.weight_vector.vector.values)
        if later < draws.ready:
            prefetch(&self.objective.targets[draws.items[later]])
            prefetch(&self.coefficient[draws.items[later]])

    def model(self):
        """Return the weights chosen by `average` as a new array (float64)."""
        if self.average == "last":
            return self.weight_vector.to_array()
        if self.average == "tail" and len(self.windows) == 2:
            steps, total = self.windows[0]
            count = self.weight_vector.n_averaged - steps
            return (self.weight_vector.sum_of_iterates() - total) / count
        return self.weight_vector.average()

    def duals(self):
        """Return feasible duals near those of the last iterate (float64)."""
        objective = self.objective
        duals = self.coefficients * (
            self.weight_vector.vector.scale * objective.alpha * objective.total_weight)
        if objective.weights_array is not None:
            weights = objective.weights_array
            duals = np.divide(duals, weights, out=np.zeros_like(duals), where=weights > 0)
        objective.make_feasible(duals)
        return duals

    def certify(self, rounded):
        """Return the model and its certificate, that of `duals()` (see `_drive`)."""
        model = rounded(self.model())
        duals = self.duals()
        primals, dual = self.objective.certificate(
            self.objective.weights_of_dual(duals), duals, [model])
        return model, primals[0], dual
