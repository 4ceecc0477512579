"""Mean gradients of many rows at one place, and steps that correct for it: what SVRG is made of.

Gradients are summed in lanes that the number of a row in the stream alone determines: the result
depends neither on how the stream is cut into blocks nor on the number of threads.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.stdint cimport uint32_t

import math

import numpy as np

from sublinear._core.line cimport (
    Line, Lines, add, dot, is_dense, line_at, line_size, line_start, prefetch_ahead,
)
from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix
from sublinear._core.portable cimport prefetch
from sublinear._core.row_groups cimport (
    MOST_TOGETHER, Group, add_group, append_line, dot_group, set_group, take_lines,
)
from sublinear._core.states import part_of, prefixed, restore, saved

cdef enum:
    LANES = 4
    GROUP = 256       # consecutive rows of a lane
    SAMPLED = 32      # of those, the first ones: their losses are evaluated
    WEIGHTS_PER_CALL = 1 << 22    # that inner steps move between two looks at pending signals

COUNTS = "n_rows", "accesses", "total_weight"


cdef class AnchoredGradient:
    """The mean gradient of the loss over rows, at an anchor, and the mean squares of features.

    Parameters
    ----------
    loss : Loss
    anchor : ndarray of shape (n_weights,), float64
    n_threads : int, default=1

    Attributes
    ----------
    n_rows, accesses : int
        Rows and feature values that came.
    total_weight : float
    """
    cdef public Py_ssize_t n_rows, accesses
    cdef public double total_weight
    # sums by lane: gradients; squares; losses of some rows and their weights
    cdef readonly object anchor, sums
    cdef public int n_threads
    cdef Loss loss
    cdef const double[::1] w
    cdef double[:, ::1] lanes

    def __init__(self, Loss loss, anchor, int n_threads=1):
        self.loss, self.anchor, self.w, self.n_threads = loss, anchor, anchor, n_threads
        self.sums = np.zeros((LANES, 2 * len(anchor) + 2))
        self.lanes = self.sums

    def add(self, block, Py_ssize_t start, Py_ssize_t stop):
        """Add the rows start .. stop - 1 of a RowBlock."""
        cdef Matrix matrix = block.matrix
        cdef const double[::1] targets = block.targets
        cdef const double[::1] weights = block.weights
        cdef const uint32_t[::1] order = block.order
        cdef Rows rows
        cdef Py_ssize_t lane, group = self.n_rows // GROUP
        rows.lines = &matrix.rows
        rows.order = NULL if order is None else &order[0]
        rows.targets = &targets[0]
        rows.weights = NULL if weights is None else &weights[0]
        rows.start, rows.stop = start, stop
        if self.n_threads == 1:
            with nogil:
                self._add_groups(&rows, group, 1)
        else:
            for lane in prange(LANES, nogil=True, num_threads=self.n_threads, schedule="static"):
                self._add_groups(&rows, group + lane, LANES)
        self.total_weight = block.add_weights(self.total_weight, start, stop)
        self.n_rows += stop - start
        self.accesses += count_entries(&rows)

    def add_sums(self, sums, Py_ssize_t n_rows, Py_ssize_t accesses, double total_weight):
        """Add rows that were summed elsewhere: what `flat` returns there, and their counts."""
        self.sums[0] += sums
        self.n_rows += n_rows
        self.accesses += accesses
        self.total_weight += total_weight

    @property
    def flat(self):
        """The sums of all lanes."""
        return self.sums.sum(axis=0)

    cdef void _add_groups(
        self, const Rows* rows, Py_ssize_t group, Py_ssize_t step
    ) noexcept nogil:
        """Add the rows of a group, of the one `step` groups further on, and so forth."""
        cdef Py_ssize_t shift = self.n_rows - rows.start    # row k has the number k + shift
        cdef Py_ssize_t first, last, stop, sampled, ahead
        cdef Group together
        set_group(&together, rows.lines)
        while group * GROUP < rows.stop + shift:
            first = max(rows.start, group * GROUP - shift)
            stop = min(rows.stop, (group + 1) * GROUP - shift)
            sampled = group * GROUP + SAMPLED - shift
            while first < stop:
                last = min(stop, first + together.most)
                ahead = last - first
                if last == stop:
                    ahead += (step - 1) * GROUP
                self._add_rows(
                    &together, rows, first, last, ahead, min(sampled, last) - first,
                    &self.lanes[group % LANES, 0])
                first = last
            group += step

    cdef void _add_rows(
        self, Group* group, const Rows* rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t ahead, Py_ssize_t sampled, double* gradient
    ) noexcept nogil:
        """Add the rows first .. last - 1, as many as a Group takes at the most.

        Those `ahead` places further on come next.
        """
        cdef double* squares = gradient + self.w.shape[0]
        cdef double* losses = squares + self.w.shape[0]
        cdef double[MOST_TOGETHER] z, slope, value, of_targets, of_weights
        cdef const double* y = of_targets
        cdef const double* s = NULL if rows.weights == NULL else of_weights
        cdef Py_ssize_t r, count = last - first
        if rows.order != NULL:
            self._gather(group, rows, first, last, ahead, of_targets, of_weights)
        else:
            take_lines(group, first, count, ahead)
            y = rows.targets + first
            if s != NULL:
                s = rows.weights + first
        dot_group(group, &self.w[0], z)
        self.loss.derivatives_of(z, y, slope, count)
        if s != NULL:
            for r in range(count):
                slope[r] *= s[r]
        add_group(group, slope, s, gradient, squares)
        if sampled > 0:
            self.loss.values_of(z, y, value, sampled)
        for r in range(sampled):
            losses[0] += value[r] * (1.0 if s == NULL else s[r])
            losses[1] += 1.0 if s == NULL else s[r]

    cdef void _gather(
        self, Group* group, const Rows* rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t ahead, double* targets, double* weights
    ) noexcept nogil:
        """Let the group be of rows of an order, and find their targets and weights."""
        cdef Py_ssize_t k, i, later
        group.count = 0
        for k in range(first, last):
            if not group.together:
                prefetch_ahead(rows.lines, rows.order, k, rows.stop, &self.w[0])
            i, later = rows.order[k], rows.order[min(k + ahead, rows.stop - 1)]
            append_line(group, i, later)
            prefetch(rows.targets + later)
            targets[k - first] = rows.targets[i]
            if rows.weights != NULL:
                prefetch(rows.weights + later)
                weights[k - first] = rows.weights[i]

    def copy(self):
        """Return a gradient that goes on in this one's place and leaves it as it is."""
        cdef AnchoredGradient other = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        other.lanes[...] = self.lanes
        other.n_rows, other.accesses = self.n_rows, self.accesses
        other.total_weight = self.total_weight
        return other

    def state(self):
        """Return what `resume` needs, a flat dict."""
        return saved(self, ("anchor", "sums")) | prefixed("stage", saved(self, COUNTS))

    def resume(self, state):
        """Go on from a `state()` of a gradient at the same anchor."""
        restore(self, ("sums",), state)
        restore(self, COUNTS, part_of(state, "stage"))

    @property
    def mean(self):
        """The mean gradient, float64, shape (n_weights,)."""
        return self.flat[:len(self.anchor)] / self.total_weight

    @property
    def squares(self):
        """The sum of the squares of every feature, float64, shape (n_weights,)."""
        return self.flat[len(self.anchor):2 * len(self.anchor)]

    @property
    def mean_loss(self):
        """The mean loss at the anchor, of an eighth of the rows; NaN if there is none."""
        sums, place = self.flat, 2 * len(self.anchor)
        total, weight = sums[place], sums[place + 1]
        return float(total / weight) if weight > 0 else math.nan


cdef struct Rows:
    const Lines* lines
    const uint32_t* order      # NULL: as they are
    const double* targets
    const double* weights      # NULL: all are 1
    Py_ssize_t start, stop


cdef Py_ssize_t count_entries(const Rows* rows) noexcept nogil:
    cdef Py_ssize_t total = 0, k
    if is_dense(rows.lines.storage):
        return (rows.stop - rows.start) * rows.lines.length
    if rows.order == NULL:
        return line_start(rows.lines, rows.stop) - line_start(rows.lines, rows.start)
    for k in range(rows.start, rows.stop):
        total += line_size(rows.lines, rows.order[k])
    return total


def inner_steps(
    block, Py_ssize_t start, Py_ssize_t stop, Loss loss, double rate,
    const double[::1] alpha, AnchoredGradient gradient, double[::1] w
):
    """Take an inner step of the paper's Algorithm 1 for every row; return the values read.

    Rows count by their weight beside the mean one of the stage.
    """
    cdef Matrix matrix = block.matrix
    cdef const double[::1] targets = block.targets
    cdef const double[::1] weights = block.weights
    cdef const uint32_t[::1] order = block.order
    cdef const double[::1] anchor = gradient.w, mean = gradient.mean
    cdef double mean_weight = gradient.total_weight / gradient.n_rows
    cdef Py_ssize_t step = max(1, WEIGHTS_PER_CALL // w.shape[0]), first, last
    cdef Py_ssize_t k, i, j, n_read = 0
    cdef double change, s
    cdef Line x
    for first in range(start, stop, step):
        last = min(stop, first + step)
        with nogil:
            for k in range(first, last):
                i = k if order is None else order[k]
                x = line_at(&matrix.rows, i)
                s = (1.0 if weights is None else weights[i]) / mean_weight
                change = s * (
                    loss.derivative(dot(&x, &w[0]), targets[i])
                    - loss.derivative(dot(&x, &anchor[0]), targets[i]))
                for j in range(w.shape[0]):
                    w[j] -= rate * (mean[j] + alpha[j] * w[j])
                add(&x, -rate * change, &w[0])
                n_read += x.size
        PyErr_CheckSignals()
    return n_read
