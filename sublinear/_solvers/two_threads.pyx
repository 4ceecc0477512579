"""Stochastic dual coordinate ascent by two threads that share one problem.

They do so in one of two ways, each a fixed schedule: which updates a step does not yet see depends
on the data and the seed alone, and one thread that follows the schedule alone gets the same
numbers.

- Many short rows, and a short w: RowHalves. Each thread has half of the examples and its own w, and
  works through blocks of 16, after each of which it adds how the other's w changed meanwhile.
- Long rows: ColumnHalves. Each thread has half of every row. Both go through the same examples,
  a few rows ahead of the updates, and exchange their parts of the dot products.

Steps that do not see each other gain less together than each one alone: |w|^2 grows by more than
they reckon with. After passes in which that costs a quarter of what they gain, the schedule goes on
without delays, from zeros if the dual has become worse than theirs.

The steps, their objective and what they cost are those of `sdca`.
"""
from cython cimport final
from cython.parallel cimport parallel, threadid
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

import numpy as np

from sublinear._core.dense_lines cimport dense_add64, dense_dot64
from sublinear._core.examples cimport Examples, Sample, Visits, clear, collect_awake
from sublinear._core.line cimport (
    CACHED_WEIGHTS, LINE_AHEAD, OFFSET_AHEAD, WEIGHTS_AHEAD, Line, Lines, add, dot, line_at,
    line_size, prefetch_line, prefetch_weights,
)
from sublinear._core.matrix cimport Matrix
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, make_ready, restart
from sublinear._core.portable cimport clock, omp_get_num_threads, publish, wait_for
from sublinear._core.random cimport RandomBits
from sublinear._solvers.sdca cimport SDCA, visit

from sublinear._core.aligned import apart

cdef enum:
    CHUNK_ENTRIES = 1 << 18   # between two looks at the budget; in rows
    LEAST_CHUNK = 256
    LARGEST_CHUNK = 4096
    COMPARE_EVERY = 256   # chunks, how two threads and one do,
    COMPARED = 3          # of each; the longest does not count: the first one wakes a thread up
    LONGEST_REST = 64     # comparisons
    BLOCK = 16            # rows of a half between two exchanges
    KEPT_BLOCKS = 2       # blocks whose changes are remembered: one half may be a block ahead
    GROUP = 4             # rows whose dot products are exchanged at once, with halves of columns
    PRODUCTS = 64         # dot products remembered, those of three groups at least
    CACHE_LINES = 128     # bytes, between what two threads write, as in `aligned`
    FLAG = 16             # long longs between two flags

cdef enum:    # how threads run a schedule
    ALONE
    TOGETHER

cdef double MOST_LOST = 0.02    # seconds
cdef double MOST_UNSEEN = 0.25  # of what steps gain
cdef Py_ssize_t WATCHED = 4     # feature values to a weight, at least, between two |w|^2

# What pays, measured: rows too short or too few for the exchange stay on one thread.
cdef enum:
    MANY_ROWS = 100_000
    SHORT_ROW = 64
    LONG_ROW = 256
    ENOUGH_ENTRIES = 2_000_000


def thread_schedule(matrix):
    """Return the class whose two threads are faster than one on this matrix, else SDCA."""
    if matrix.n_stored < ENOUGH_ENTRIES:
        return SDCA
    length = matrix.n_stored / matrix.n_rows
    if length >= LONG_ROW and matrix.is_sparse:
        return ColumnHalves
    if length <= SHORT_ROW and matrix.n_rows >= MANY_ROWS and matrix.n_weights <= BLOCK * length:
        return RowHalves
    return SDCA


cdef class TwoThreads(SDCA):
    """What the schedules for two threads have in common: chunks, and the watch over the dual."""
    cdef Py_ssize_t chunk                # rows
    cdef long long[::1] flags
    cdef long long n_exchanged           # blocks or rows of the chunks so far
    cdef Py_ssize_t n_chunks
    cdef double pace[2][COMPARED]        # seconds for a block or row, each way
    cdef int way                         # the faster one
    cdef double by_one                   # seconds for a block or row, at the last comparison
    cdef double lost                     # seconds more by two threads, since it was 0
    cdef int last_rest, rest_left        # comparisons that two threads sit out: last time, still
    cdef bint without_delays             # from now on
    cdef Py_ssize_t watched              # accesses before the steps that are watched now
    cdef double square                   # |w|^2 before them
    cdef double growth                   # of it since, as the steps reckon, over `step_scale`
    cdef double gain                     # of the dual, as they do

    def __init__(self, objective, random, duals=None, pack=False):
        SDCA.__init__(self, objective, random, duals, pack)
        matrix = self.objective.matrix
        rows = CHUNK_ENTRIES * matrix.n_rows // max(1, matrix.n_stored)
        self.chunk = min(max(rows, LEAST_CHUNK), LARGEST_CHUNK)
        self.flags = np.full(2 * FLAG, -1, dtype=np.longlong)
        self.way = TOGETHER
        self.square = self._square()

    cdef double _square(self):
        """|w|^2"""
        return dense_dot64(self.weights, self.weights, self.objective.matrix.n_weights)

    def _follow(self):
        self.square, self.growth, self.gain = self._square(), 0, 0
        self.watched = self.accesses

    def be_quiet_until(self, double work, double gap, double n_iter):
        """Return at every end: there is something to watch."""

    def advance(self, Py_ssize_t limit):
        """Go on until the pass ends, then return True, or another row would exceed `limit`."""
        ended = SDCA.advance(self, limit)
        if ended and not self.without_delays:
            self.gain += self.pass_gain
            if self.accesses - self.watched >= WATCHED * self.objective.matrix.n_weights:
                self._watch()
        return ended

    def _watch(self):
        """Drop the delays if what steps did not see of each other took much of their gain."""
        objective, before, square = self.objective, self.square, self._square()
        unseen = objective.alpha / 2 * (square - before - self.step_scale * self.growth)
        gain = self.gain
        self.square, self.growth, self.gain, self.watched = square, 0, 0, self.accesses
        if unseen <= MOST_UNSEEN * gain:
            return
        self.without_delays = True
        self._drop_delays()
        cost = self.examples.cost() / objective.total_weight + objective.alpha / 2 * square
        if objective.has_multiplier:
            last = self.weights[objective.matrix.n_columns]
            cost += self.offset * objective.alpha * last / objective.matrix.constant
        if not cost <= 0:
            self._forget()

    cdef void _run_chunk(self, Py_ssize_t size) noexcept nogil:
        """Run the next `size` blocks or rows: by two threads unless one is faster.

        Where the second processor is busy with something else, two threads wait for each other.
        Both ways give the same numbers, so the clock may decide.
        """
        cdef Py_ssize_t first = self.n_exchanged
        cdef Py_ssize_t turn = self.n_chunks % COMPARE_EVERY
        cdef int way = self.way
        cdef double started = clock(), seconds
        if turn // COMPARED == 1 and self.rest_left == 0:
            way = ALONE if way == TOGETHER else TOGETHER    # try the other one
        if way == ALONE or self.without_delays or self.objective.n_threads == 1:
            self._alternate(first, first + size)
        else:
            with parallel(num_threads=2):
                if omp_get_num_threads() == 2:
                    self._run_half(threadid(), first, first + size)
                elif threadid() == 0:
                    self._alternate(first, first + size)
        seconds = clock() - started
        self.pace[way][turn % COMPARED] = seconds / size
        if turn == 2 * COMPARED - 1:
            self._choose_way()
        elif way == TOGETHER and self.by_one > 0:
            self._count_loss(seconds - size * self.by_one)
        self.n_chunks += 1
        self.n_exchanged += size

    cdef void _choose_way(self) noexcept nogil:
        """Take the way that is faster now, unless two threads are to rest."""
        self.by_one = mean_of_best(self.pace[ALONE])
        if self.rest_left > 0:
            self.rest_left -= 1
        elif mean_of_best(self.pace[TOGETHER]) <= self.by_one:
            self.way = TOGETHER
        else:
            self.way = ALONE

    cdef void _count_loss(self, double seconds) noexcept nogil:
        """Let two threads rest, longer each time, once they have lost too much.

        They do where the system now and then takes a processor from one of them, on which the other
        one waits: a comparison of a few chunks hardly sees that.
        """
        self.lost = max(0, self.lost + seconds)
        if self.lost > MOST_LOST:
            self.way, self.lost = ALONE, 0
            self.last_rest = self.rest_left = min(2 * self.last_rest + 1, LONGEST_REST)

    cdef inline double _growth(
        self, const uint32_t* items, Py_ssize_t count, const Visits* visits
    ) noexcept nogil:
        """By how much |w|^2 has grown, over `step_scale`, as steps reckon."""
        cdef double total = 0, change, product
        cdef Py_ssize_t k
        for k in range(count):
            change = visits.after[k] - visits.before[k]
            product = visits.prediction[k] - self.offset
            total += self.objective.weight(items[k]) * change * (
                2 * product + self.examples.at(items[k]).curvature * change)
        return total

    cdef void _run_half(self, int half, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        pass

    cdef void _alternate(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        pass

    def _drop_delays(self):
        pass

    def _forget(self):
        self.w[:] = 0
        self.examples.forget()


cdef inline double mean_of_best(const double* seconds) noexcept nogil:
    """The mean of COMPARED but for the longest."""
    cdef double longest = max(seconds[0], max(seconds[1], seconds[2]))
    return (seconds[0] + seconds[1] + seconds[2] - longest) / 2


cdef struct Half:
    Draws draws
    double* w
    double* change[KEPT_BLOCKS]  # of w, in the last blocks
    uint8_t* sleep        # of its examples
    Py_ssize_t accesses, n_visited
    Sample sample
    double growth         # see TwoThreads
    char apart[CACHE_LINES]


cdef class RowHalves(TwoThreads):
    """SDCA by two threads that have half of the examples each (see the top of the file).

    The first half has the examples before `middle`.
    """
    cdef Half half[2]
    cdef object second_w, changes, bits   # what the halves point into, apart in memory
    cdef Py_ssize_t middle
    cdef Py_ssize_t longest               # entries of the longest row
    cdef Py_ssize_t n_weights

    def __init__(self, Objective objective, random, duals=None, pack=False):
        cdef Py_ssize_t n = objective.matrix.n_rows
        cdef double[::1] w
        TwoThreads.__init__(self, objective, random, duals, pack)
        self.n_weights = objective.matrix.n_weights
        self.bits = [RandomBits(seed) for seed in random.bit_generator.seed_seq.spawn(2)]
        both_w, *self.changes = apart(1 + KEPT_BLOCKS, 2, self.n_weights)
        both_w[:] = self.w
        self.w, self.second_w = both_w
        self.middle = half_size(n, 0)
        for h in range(2):
            self._set_half(h, h * self.middle)
            w = both_w[h]
            self.half[h].w = &w[0]
        self.weights = self.half[0].w
        self.longest = objective.matrix.longest_row

    def _set_half(self, int h, Py_ssize_t first):
        cdef RandomBits bits = self.bits[h]
        cdef double[::1] change
        cdef int b
        for b in range(KEPT_BLOCKS):
            change = self.changes[b][h]
            self.half[h].change[b] = &change[0]
        self.half[h].draws = self.order.draws
        self.half[h].draws.n = self.half[h].draws.count = half_size(self.order.draws.n, h)
        self.half[h].draws.items += first
        self.half[h].draws.choices += first
        self.half[h].draws.bits = bits.bits
        self.half[h].sleep = &self.examples.sleep[0] + first

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Py_ssize_t n_blocks
        if self.half[0].draws.position == 0:
            self.mean.restart(self.half[0].draws.count)
        while True:
            n_blocks = max(blocks_left(&self.half[0].draws), blocks_left(&self.half[1].draws))
            if n_blocks == 0:
                break
            n_blocks = min(n_blocks, self.chunk // (2 * BLOCK))
            if not self._fits(n_blocks, limit):
                return
            self._run_chunk(n_blocks)
            self._count()
        self._end_pass()

    cdef bint _fits(self, Py_ssize_t n_blocks, Py_ssize_t limit) noexcept nogil:
        """Tell whether the next blocks stay within the limit."""
        cdef Py_ssize_t total = self.accesses, k
        cdef Draws* draws
        cdef int h
        if limit - total >= 2 * n_blocks * BLOCK * self.longest:
            return True
        for h in range(2):
            draws = &self.half[h].draws
            make_ready(draws, draws.position + n_blocks * BLOCK)
            for k in range(draws.position, min(draws.count, draws.position + n_blocks * BLOCK)):
                total += line_size(self.examples.rows, draws.items[k])
        return total <= limit

    cdef void _count(self) noexcept nogil:
        self.accesses = self.half[0].accesses + self.half[1].accesses
        self.n_visited = self.half[0].n_visited + self.half[1].n_visited

    cdef void _run_half(self, int h, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t b
        for b in range(first, last):
            self._block(h, b)
            publish(&self.flags[h * FLAG], b)
            wait_for(&self.flags[(1 - h) * FLAG], b)
            self._apply(h, b)

    cdef void _alternate(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t b
        cdef int h
        for b in range(first, last):
            for h in range(2):
                self._block(h, b)
            for h in range(2):
                self._apply(h, b)

    cdef void _block(self, int h, Py_ssize_t b) noexcept nogil:
        """Steps over the next examples of a half, which keep how they change w for the other."""
        cdef Half* half = &self.half[h]
        cdef Draws* draws = &half.draws
        cdef Py_ssize_t first = draws.position, stop = min(draws.count, first + BLOCK), j
        cdef double* change = half.change[b % KEPT_BLOCKS]
        cdef Visits visits
        if not self.without_delays:
            memcpy(change, half.w, self.n_weights * sizeof(double))
        half.accesses += visit(
            self, draws, stop, half.w, BLOCK * self.longest, h == 0, &half.sample, &visits)
        half.growth += self._growth(draws.items + first, stop - first, &visits)
        half.n_visited += stop - first
        if self.without_delays:
            return
        for j in range(self.n_weights):
            change[j] = half.w[j] - change[j]

    cdef void _apply(self, int h, Py_ssize_t b) noexcept nogil:
        """Bring what the other half did in block b into this half's w."""
        if not self.without_delays:    # else both have one w
            dense_add64(
                self.half[1 - h].change[b % KEPT_BLOCKS], 1, self.half[h].w, self.n_weights)

    def _drop_delays(self):
        self.half[1].w = self.weights

    def _follow(self):
        TwoThreads._follow(self)
        self.second_w[:] = self.w

    def _rescale(self, ratio):
        TwoThreads._rescale(self, ratio)
        for h in range(2):
            self.half[h].accesses = self.half[h].n_visited = 0

    cdef void _end_pass(self) noexcept nogil:
        cdef int h
        for h in range(2):
            self.sample.gap += self.half[h].sample.gap
            self.sample.loss += self.half[h].sample.loss
            self.sample.gain += self.half[h].sample.gain
            self.growth += self.half[h].growth
        if not self.without_delays:    # the two differ by rounding
            memcpy(self.half[1].w, self.half[0].w, self.n_weights * sizeof(double))
        SDCA._end_pass(self)

    cdef void _next_pass(self) noexcept nogil:
        cdef Py_ssize_t n = self.examples.rows.count
        cdef Draws* draws
        cdef int h
        clear(&self.sample)
        for h in range(2):
            clear(&self.half[h].sample)
            self.half[h].growth = 0
            draws = &self.half[h].draws
            draws.n = draws.count = collect_awake(
                self.half[h].sleep, half_size(n, h), draws.items,
                <uint32_t> (h * self.middle))
            restart(draws)


cdef inline Py_ssize_t half_size(Py_ssize_t n, int h) noexcept nogil:
    """Of n examples; the first half has the one in the middle."""
    return (n + 1 - h) // 2


cdef inline Py_ssize_t blocks_left(const Draws* draws) noexcept nogil:
    return (draws.count - draws.position + BLOCK - 1) // BLOCK


cdef struct Chunk:
    # what a thread of ColumnHalves keeps apart while it goes through one
    double constant       # the constant feature's part of the predictions
    double growth         # see TwoThreads


cdef class ColumnHalves(TwoThreads):
    """SDCA by two threads that have half of the columns each (see the top of the file).

    Both keep the duals, and compute the same ones; and the weight of the constant feature, which
    all rows share, so that no step waits for it. Rows are never packed: they are read as halves.
    """
    cdef Examples other                  # those of the second thread
    cdef Matrix halves                   # line 2 i + h is half h of row i
    cdef Lines half[2]
    cdef double product[2][PRODUCTS]

    def _make_examples(self, duals, pack):
        self.halves = self.objective.matrix.halves()
        self.half[0] = self.half[1] = self.halves.rows
        self.half[0].constant = self.half[1].constant = 0
        examples = Examples(self.objective, duals)
        self.other = Examples(self.objective, like=examples)
        return examples

    def __init__(self, objective, random, duals=None, pack=False):
        TwoThreads.__init__(self, objective, random, duals)
        self.mean.interval = 0           # neither thread may read the other's part of w

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t size, entries, k
        while draws.position < draws.count:
            size = min(draws.count - draws.position, self.chunk)
            make_ready(draws, min(draws.count, draws.position + size + OFFSET_AHEAD))
            entries = 0
            for k in range(draws.position, draws.position + size):
                entries += line_size(self.examples.rows, draws.items[k])
            if self.accesses + entries > limit:
                return
            self._run_chunk(size)
            self.accesses += entries
            self.n_visited += size
            draws.position += size
        self._end_pass()

    cdef void _run_half(self, int h, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t g = first
        cdef Chunk chunk = self._begin_chunk()
        while g < last + GROUP:
            if g < last:
                self._multiply(h, g, min(g + GROUP, last))
                publish(&self.flags[h * FLAG], g)
            if g > first:
                wait_for(&self.flags[(1 - h) * FLAG], g - GROUP)
                self._update(h, g - GROUP, min(g, last), &chunk)
            g += GROUP
        if h == 0:
            self._end_chunk(&chunk)

    cdef void _alternate(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        cdef Py_ssize_t group = 1 if self.without_delays else GROUP, g = first
        cdef Py_ssize_t delay = 0 if self.without_delays else GROUP
        cdef Chunk[2] chunk
        cdef int h
        chunk[0] = chunk[1] = self._begin_chunk()
        while g < last + delay:
            for h in range(2):
                if g < last:
                    self._multiply(h, g, min(g + group, last))
            for h in range(2):
                if g >= first + delay:
                    self._update(h, g - delay, min(g - delay + group, last), &chunk[h])
            g += group
        self._end_chunk(&chunk[0])

    @final
    cdef inline Chunk _begin_chunk(self) noexcept nogil:
        cdef Chunk chunk
        cdef Lines* rows = &self.objective.matrix.rows
        chunk.constant = rows.constant * self.weights[rows.length] if rows.constant != 0 else 0
        chunk.growth = 0
        return chunk

    @final
    cdef inline void _end_chunk(self, const Chunk* chunk) noexcept nogil:
        cdef Lines* rows = &self.objective.matrix.rows
        self.growth += chunk.growth
        if rows.constant != 0:
            self.weights[rows.length] = chunk.constant / rows.constant

    @final
    cdef inline Py_ssize_t _position(self, Py_ssize_t k) noexcept nogil:
        """Of row k, counted since the solver began, among the draws."""
        return self.order.draws.position + k - self.n_exchanged

    @final
    cdef inline void _multiply(self, int h, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """A half's part of the dot products of the rows [start, stop)."""
        cdef Py_ssize_t k, position
        cdef Line x
        for k in range(start, stop):
            position = self._position(k)
            self._ask_for(h, position)
            x = self._half_of_row(h, self.order.draws.items[position])
            self.product[h][k % PRODUCTS] = dot(&x, self.weights)

    @final
    cdef inline void _ask_for(self, int h, Py_ssize_t position) noexcept nogil:
        """Ask for what the draws after `position` will read of a half."""
        cdef const uint32_t* items = self.order.draws.items
        cdef Line later
        if position + LINE_AHEAD >= self.order.draws.ready:
            return
        prefetch_line(&self.half[h], 2 * <Py_ssize_t> items[position + LINE_AHEAD] + h)
        if h == 0:
            self.examples.prefetch_state(items, position, self.order.draws.ready)
        else:
            self.other.prefetch_state(items, position, self.order.draws.ready)
        if self.half[h].length > CACHED_WEIGHTS:
            later = self._half_of_row(h, items[position + WEIGHTS_AHEAD])
            prefetch_weights(&later, self.weights)

    @final
    cdef inline Line _half_of_row(self, int h, Py_ssize_t i) noexcept nogil:
        return line_at(&self.half[h], 2 * i + h)

    cdef inline void _update(
        self, int h, Py_ssize_t start, Py_ssize_t stop, Chunk* chunk
    ) noexcept nogil:
        """The steps of a group of rows, from both parts of their products, on a half's columns."""
        cdef const uint32_t* items = &self.order.draws.items[self._position(start)]
        cdef Py_ssize_t count = stop - start, k
        cdef double constant = self.objective.matrix.rows.constant, prediction
        cdef double change[GROUP]
        cdef Visits visits
        cdef Line x
        for k in range(count):
            prediction = (
                self.product[0][(start + k) % PRODUCTS] + self.product[1][(start + k) % PRODUCTS]
                + chunk.constant + self.offset)
            if h == 0:
                change[k] = self._step(self.examples, items[k], prediction, k, &visits)
            else:
                change[k] = self._step(self.other, items[k], prediction, k, &visits)
            chunk.constant += constant * constant * change[k]
        for k in range(count):
            if change[k] != 0:
                x = self._half_of_row(h, items[k])
                add(&x, change[k], self.weights)
        if h == 0:
            chunk.growth += self._growth(items, count, &visits)
            self.examples.settle(&self.sample, items, self._position(start), count, &visits)

    def _rescale(self, ratio):
        TwoThreads._rescale(self, ratio)
        self.other.rescale(ratio)

    def _scale(self, factor):
        self.other.scale(factor)
        TwoThreads._scale(self, factor)

    def set_duals(self, duals):
        TwoThreads.set_duals(self, duals)
        self.other.set_duals(duals)

    def _forget(self):
        TwoThreads._forget(self)
        self.other.forget()
