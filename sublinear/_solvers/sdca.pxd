"""Dual coordinate ascent: its state, and its step, for the schedules that extend it to inline."""
from libc.stdint cimport uint8_t

from sublinear._core.examples cimport Example, Examples, PassMean, Sample
from sublinear._core.line cimport OFFSET_AHEAD, Line, add, dot, prefetch_ahead
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready
from sublinear._core.random cimport RandomBits

cdef enum:
    ALWAYS_ADDED = 32     # entries of rows for which a branch that is hard to foresee costs more


cdef class SDCA:
    cdef readonly Objective objective
    cdef readonly object w
    cdef readonly Py_ssize_t n_iter, accesses
    cdef Examples examples
    cdef Loss loss
    cdef Order order
    cdef PassMean mean
    cdef double* weights
    cdef double step_scale                 # 1 / (alpha W)
    cdef double offset                     # the unpenalised intercept but for the part in w
    cdef Py_ssize_t n_visited
    cdef double certified_gap              # with a free intercept, until the next step; else 0
    cdef Sample sample                     # of this pass
    cdef readonly double pass_gap, pass_loss, pass_gain   # estimated in the last one

    cdef void _run(self, Py_ssize_t limit) noexcept nogil
    cdef void _begin_pass(self) noexcept nogil
    cdef void _close_sample(self) noexcept nogil
    cdef void _end_pass(self) noexcept nogil
    cdef void _next_pass(self) noexcept nogil
    cdef void _draw_awake(self) noexcept nogil

    cdef inline void _look_ahead(self, Draws* draws, const double* w) noexcept nogil:
        """Make draws and ask for what they will read."""
        make_ready(draws, draws.position + OFFSET_AHEAD + 1)
        prefetch_ahead(self.examples.rows, draws.items, draws.position, draws.ready, w)
        self.examples.prefetch_state(draws.items, draws.position, draws.ready)

    cdef inline double _step(
        self, Py_ssize_t i, const Line* x, double* w, uint8_t* sleep, Sample* sample
    ) noexcept nogil:
        """Maximise the dual over a_i, given w, which follows.

        Returns by how much |w|^2 grows, divided by `step_scale`.
        """
        cdef Example* example = self.examples.at(i)
        cdef double target = self.examples.target(example, i)
        cdef double prediction = dot(x, w) + self.offset
        cdef double dual, change, weight
        dual = self.loss.dual_step(example.dual, prediction, target, example.curvature)
        if sample != NULL:
            self.examples.sample(sample, i, example, dual, prediction, target)
        change = dual - example.dual
        example.dual = dual
        self.examples.settle(sleep, change != 0, prediction - target)
        if x.size > ALWAYS_ADDED and change == 0:
            return 0
        weight = self.objective.weight(i)
        add(x, self.step_scale * weight * change, w)
        return weight * change * (2 * prediction + example.curvature * change)
