"""Dual coordinate ascent: its state, and its steps, for the schedules that extend it to inline."""
from libc.stdint cimport uint32_t

from sublinear._core.examples cimport Example, Examples, PassMean, Sample, Visits
from sublinear._core.line cimport OFFSET_AHEAD, Line, Lines, add, dot, drawn_line
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready
from sublinear._core.solver cimport Solver

cdef enum:
    ALWAYS_ADDED = 32     # entries of rows for which a branch that is hard to foresee costs more


cdef class SDCA(Solver):
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

    cdef _set_objective(self, Objective objective)
    cdef double _work(self) noexcept nogil
    cdef double _estimated_gap(self) noexcept nogil
    cdef bint _goes_on(self) noexcept nogil
    cdef void _run(self, Py_ssize_t limit) noexcept nogil
    cdef void _begin_pass(self) noexcept nogil
    cdef void _close_sample(self) noexcept nogil
    cdef void _end_pass(self) noexcept nogil
    cdef void _next_pass(self) noexcept nogil
    cdef void _draw_awake(self) noexcept nogil

    cdef inline double _step(
        self, Examples examples, Py_ssize_t i, double prediction, Py_ssize_t k, Visits* visits
    ) noexcept nogil:
        """Maximise the dual over a_i, as visit k; returns how often to add the row to w."""
        cdef Example* example = examples.at(i)
        cdef double target = examples.target(example, i), before = example.dual
        example.dual = self.loss.dual_step(before, prediction, target, example.curvature)
        visits.before[k], visits.after[k] = before, example.dual
        visits.prediction[k], visits.target[k] = prediction, target
        return self.step_scale * self.objective.weight(i) * (example.dual - before)


cdef inline Py_ssize_t visit(
    SDCA self, Draws* draws, Py_ssize_t stop, double* w, Py_ssize_t limit, bint with_mean,
    Sample* sample, Visits* visits
) noexcept nogil:
    """Steps over the draws before `stop`, at most VISITS; returns the entries of their rows.

    They end before a row with which those would exceed the limit. The mean of the pass takes
    from w what it needs meanwhile, if asked to.
    """
    cdef Lines* rows = self.examples.rows
    cdef Py_ssize_t first = draws.position, position = first, i, entries = 0
    cdef const uint32_t* items = draws.items
    cdef double change
    cdef Line x
    make_ready(draws, stop + OFFSET_AHEAD)
    while position < stop:
        self.examples.prefetch_state(items, position, draws.ready)
        i = items[position]
        x = drawn_line(rows, items, position, draws.ready, w)
        if entries + x.size > limit:
            break
        change = self._step(self.examples, i, dot(&x, w) + self.offset, position - first, visits)
        if x.size <= ALWAYS_ADDED or change != 0:
            add(&x, change, w)
        entries += x.size
        position += 1
        if with_mean and position == self.mean.next:
            self.mean.add(w)
    self.examples.settle(sample, items + first, first, position - first, visits)
    draws.position = position
    return entries
