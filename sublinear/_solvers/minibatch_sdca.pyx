"""Mini-batched stochastic dual coordinate ascent: naive, safe and aggressive.

Paper: Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs" (2013),
section 4; the aggressive rule is Algorithm 2.

Objective: that of sublinear._core.objective. One iteration looks at a batch B of b examples, all
from the same w, as b machines would:

    z_i = <w, x_i> for i in B
    d_i = the dual step of example i with its curvature multiplied by beta     (equation 15)
    a_i += d_i;  w += sum_{i in B} s_i d_i x_i / (alpha W)

naive        beta = 1. The steps may add up to far too much, and w need not converge.
safe         beta = beta_b = 1 + (b - 1)(n sigma^2 - 1) / (n - 1): the dual rises in expectation.
aggressive   beta starts at beta_b. Tentative steps d with beta give
             rho = |sum_B s_i d_i x_i|^2 / sum_B |s_i d_i x_i|^2, clipped to [1, beta_b], how much
             they really interact. The steps are taken with rho, unless the dual would fall, and
             beta <- beta^gamma rho^(1 - gamma).

Cost per iteration: the stored entries of b rows, twice (naive, safe), three times where they are
more than a quarter of the weights (aggressive), else seven times; from the cache but for the first.

Departures from the paper: sigma^2 belongs to the rows scaled to length 1, whatever their lengths
are, and each step uses its own |x_i|^2, so that no assumption |x_i| <= 1 is needed (Lemma 1 holds
for those rows as it stands, with any weights). Batches come from a permutation of the examples by
default.

Averages: "tail" is the averaged dual of Theorem 2; "decaying" that of the experiments,
v <- 0.9 v + 0.1 w after every iteration. Both are kept on the duals, lazily, since w is linear in
them: an iteration touches those of its batch only.
"""
from cython cimport final
from libc.math cimport pow
from libc.stdint cimport uint32_t
from libc.string cimport memset
from cython.parallel cimport prange

import numpy as np

from sublinear._core.dense_lines cimport dense_add64, dense_squares64
from sublinear._core.line cimport (
    CACHED_WEIGHTS, LINE_AHEAD, OFFSET_AHEAD, Line, add, dot, drawn_line, line_at, line_size,
    prefetch_ahead, zero_entries,
)
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, make_ready, next_chunk
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits
from sublinear._core.solver cimport Solver

cdef enum Rule:
    NAIVE
    SAFE
    AGGRESSIVE

cdef enum Average:
    LAST
    TAIL
    DECAYING

cdef enum Stage:           # of an iteration, in their order; all but LOOK and TAKE are AGGRESSIVE's
    LOOK                   # predictions, and steps with beta
    GATHER                 # direction = the sum of what the steps would add to w
    MEASURE                # how much they interact: rho
    FORGET                 # direction = 0
    GATHER_AGAIN           # steps with rho, and their direction
    WEIGH                  # whether the dual would rise
    TAKE                   # w and the duals move
    CLEAR                  # direction = 0
    OVER

RULES = {"naive": NAIVE, "safe": SAFE, "aggressive": AGGRESSIVE}
AVERAGES = {"last": LAST, "tail": TAIL, "decaying": DECAYING}

cdef double DECAY = 0.9
cdef enum:
    EPOCHS_OF_GRACE = 3    # before a dual no better than the first one counts as divergence
    IN_CACHE = 1 << 15     # feature values of a batch that is still there
    WHOLE = 4              # entries of a vector that take as long as a stored one of a row
    PIECE = 1 << 21        # feature values of a stage between two looks for an interrupt


cdef class MiniBatchSDCA(Solver):
    """Dual coordinate ascent with several coordinates per iteration.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    batch_size : int
        From 1 to n_rows.
    rule : {"naive", "safe", "aggressive"}
    beta : float
        beta_b; the naive rule does not use it.
    gamma : float, default=0.95
        How slowly the aggressive rule's beta follows rho.
    average : {"last", "tail", "decaying"}, default="last"
    sampling : {"shuffle", "fixed", "subsets"}, default="shuffle"
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; clipped to the loss's domain. None means zeros.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    n_steps, n_iter, accesses : int
        Iterations, epochs (of n examples) completed, feature values read.
    n_refused : int
        Iterations whose steps would have lowered the dual (aggressive rule).
    piece : int
        Examples of a batch that are worked on before `advance` returns.
    beta : float
        The present one.
    """
    keeps_best = True
    certificate_growth = 1.5
    cdef readonly Objective objective
    cdef readonly object w
    cdef readonly Py_ssize_t n_steps, n_iter, accesses, n_refused
    cdef readonly double beta
    cdef public Py_ssize_t piece
    cdef Loss loss
    cdef Order order
    cdef Py_ssize_t batch_size, n_seen
    cdef Rule rule
    cdef bint warm
    cdef Average average
    cdef double largest_beta, gamma, step_scale, first_dual, last_dual
    cdef Stage stage
    cdef Py_ssize_t place              # of the batch: where the stage is
    cdef Py_ssize_t entries, n_pieces
    cdef Py_ssize_t n_weights
    cdef Py_ssize_t longest_row, row_entries    # stored entries at most, and on average
    cdef bint is_far               # a batch, or its weights, may have left the cache after a look
    cdef bint sums_whole           # what belongs to all weights is done at once, not row by row
    cdef double rho, together, separate, increase
    cdef double* weights
    cdef double* direction                 # sum of the batch's steps, zero between iterations
    cdef object direction_array
    cdef double[::1] dual, curvature
    cdef double[::1] prediction, step      # of the batch
    # averages: of dual i up to iteration `averaged_until[i]`
    cdef double[::1] averaged, previous
    cdef Py_ssize_t[::1] averaged_until
    cdef Py_ssize_t window_start, previous_start, next_window

    def __cinit__(
        self, Objective objective, RandomBits random, *, Py_ssize_t batch_size, rule,
        double beta, double gamma=0.95, average="last", sampling="shuffle", duals=None
    ):
        cdef Py_ssize_t n = objective.matrix.n_rows
        if not 1 <= batch_size <= n:
            raise ValueError(f"batch_size must be from 1 to {n}, got {batch_size}")
        self.objective = objective
        self.loss = objective.loss
        self.order = Order(n, sampling, random, batch_size)
        self.batch_size = batch_size
        self.rule = RULES[rule]
        self.average = AVERAGES[average]
        self.beta = self.largest_beta = 1 if self.rule == NAIVE else beta
        self.gamma = gamma
        self.step_scale = 1 / (objective.alpha * objective.total_weight)
        self.longest_row = objective.matrix.longest_row
        self.row_entries = max(1, objective.matrix.n_stored // n)
        self.n_weights = objective.matrix.n_weights
        self.piece = max(1, PIECE // self.row_entries)
        self.is_far = self.n_weights > CACHED_WEIGHTS or batch_size * self.row_entries > IN_CACHE
        self.sums_whole = (
            self.rule == AGGRESSIVE
            and self.n_weights <= WHOLE * batch_size * self.row_entries)
        self.prediction = np.empty(batch_size)
        self.step = np.empty(batch_size)
        self.direction_array = np.zeros(objective.matrix.n_weights)
        self.curvature = objective.curvatures()
        self._start(duals)

    def _start(self, duals):
        cdef double[::1] w, direction = self.direction_array
        n = self.objective.matrix.n_rows
        self.direction = &direction[0]
        self.warm = duals is not None
        if duals is None:
            self.dual = np.zeros(n)
            self.w = np.zeros(self.objective.matrix.n_weights)
            self.first_dual = self.objective.values_of_zeros()[1]
        else:
            self.dual = np.array(duals, dtype=np.float64)
            self.objective.make_feasible(self.dual)
            self.w = self.objective.weights_of_dual(self.dual)
            factor = self.objective.shrinkage(self.w, self.objective.cost_of(self.dual))
            np.asarray(self.dual)[:] *= factor
            self.w *= factor
            self.first_dual = self.objective.values_of_zeros()[1] - self.objective.penalty(
                self.w) - self.objective.cost_of(self.dual) / self.objective.total_weight
        w = self.w
        self.weights = &w[0]
        self.last_dual = self.first_dual
        if self.average != LAST:
            self.averaged = np.array(self.dual) if self.average == DECAYING else np.zeros(n)
            self.averaged_until = np.full(n, self.n_steps, dtype=np.intp)
            self.previous = np.zeros(n)
            self.window_start = self.previous_start = self.n_steps
            self.next_window = self.n_iter + 1

    @property
    def work(self):
        """Feature values read, and one for every example looked at, or piece of a batch."""
        examples = self.n_iter * self.objective.matrix.n_rows + self.n_seen
        return self.accesses + examples + self.n_pieces

    @property
    def diverged(self):
        """True once w or the dual is not finite, or the dual no better than some epochs before.

        Only the naive rule, a beta that is too small, or an X so large that rounding swallows the
        steps, can bring that about.
        """
        if not np.isfinite(self.w).all() or not np.isfinite(self.last_dual):
            return True
        if self.n_iter < EPOCHS_OF_GRACE:
            return False
        if self.warm:    # perhaps at the optimum, where the dual rises no more
            return not self.last_dual >= self.first_dual - 1e-9 * abs(self.first_dual)
        return not self.last_dual > self.first_dual

    def advance(self, Py_ssize_t limit):
        """Go on until the epoch ends, then return True; or a batch would exceed `limit`.

        It also returns after every piece of a large batch, so that a fit can be interrupted.
        """
        cdef Py_ssize_t epoch = self.n_iter
        with nogil:
            self._run(limit)
        if self.average == TAIL and self.n_iter == self.next_window and self.n_iter > epoch:
            self._next_window()
        return self.n_iter > epoch

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t size
        while True:
            make_ready(draws, min(draws.count, draws.position + self.batch_size + OFFSET_AHEAD))
            size = min(self.batch_size, draws.count - draws.position)
            if self.stage == LOOK and self.place == 0:
                self.entries = 0
                if self.accesses + size * self.longest_row > limit:
                    self._count(draws.items + draws.position, 0, size)
                    if self.accesses + self.entries > limit:
                        return
                    self.entries = 0
            if not self._iterate(draws.items + draws.position, size):
                return
            self.accesses += self.entries
            draws.position += size
            if draws.position == draws.count:
                next_chunk(draws)
            self.n_seen += size
            if self.n_seen >= self.objective.matrix.n_rows:
                self.n_seen -= self.objective.matrix.n_rows
                self.n_iter += 1
                return

    cdef bint _iterate(self, const uint32_t* batch, Py_ssize_t size) noexcept nogil:
        """Go on with an iteration, by one piece if the batch is large; tell whether it is over."""
        cdef Py_ssize_t end
        while self.stage != OVER:
            end = min(size, self.place + self.piece)
            if self.stage == TAKE and self.sums_whole:    # w moves with all duals
                end = size
            self._work_on(batch, self.place, end)
            self.place = end
            if end == size:
                self.place = 0
                self._end_stage()
            if size > self.piece and self.stage != OVER:
                self.n_pieces += 1
                return False
        self.stage = LOOK
        self.n_steps += 1
        return True

    cdef void _work_on(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """The present stage for examples begin, .., end - 1 of the batch."""
        if self.stage == LOOK:
            self._look(batch, begin, end)
            self._count(batch, begin, end)
        elif self.stage == GATHER:
            self._gather(batch, begin, end)
        elif self.stage == MEASURE:
            self._measure(batch, begin, end)
        elif self.stage == GATHER_AGAIN:
            self._propose(batch, begin, end, self.rho)
            self._gather(batch, begin, end)
        elif self.stage == WEIGH:
            self._weigh(batch, begin, end)
        elif self.stage == TAKE:
            self._take(batch, begin, end)
        else:
            self._clear(batch, begin, end)

    cdef void _end_stage(self) noexcept nogil:
        """Go over to the next stage: other rules than the aggressive one look, and take."""
        if self.stage == GATHER:
            self.together = self.separate = 0
        elif self.stage == MEASURE:
            self.rho = self.together / self.separate if self.separate > 0 else 1
            self.rho = min(max(self.rho, 1), self.largest_beta)
            self.beta = pow(self.beta, self.gamma) * pow(self.rho, 1 - self.gamma)
        elif self.stage == GATHER_AGAIN:
            self.together = self.increase = 0
        elif self.stage == WEIGH:
            self.increase -= 0.5 / self.step_scale * self.together
            self.n_refused += self.increase < 0
        if self.rule != AGGRESSIVE:
            self.stage = TAKE if self.stage == LOOK else OVER
        elif self.stage == WEIGH and not self.increase >= 0:
            self.stage = CLEAR
        else:
            self.stage = <Stage> (self.stage + 1)

    cdef void _count(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(begin, end):
            self.entries += line_size(&self.objective.matrix.rows, batch[k])

    cdef void _look(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """Predictions and steps, in parallel: this is what other machines would do."""
        cdef int n_threads = self.objective.threads_for((end - begin) * self.row_entries)
        cdef Py_ssize_t share = (end - begin + n_threads - 1) // n_threads, first, last
        cdef int t
        if n_threads == 1:    # to begin a team of one costs as much as some rows
            self._look_at(batch, begin, end)
            return
        for t in prange(n_threads, schedule="static", num_threads=n_threads):
            first = min(end, begin + t * share)
            last = min(end, first + share)
            self._look_at(batch, first, last)

    cdef void _look_at(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        self._predict(begin, end)
        self._propose(batch, begin, end, self.beta)

    cdef void _predict(self, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
        """z_i = <w, x_i>"""
        cdef const Draws* draws = &self.order.draws
        cdef Py_ssize_t position
        cdef Line x
        for position in range(draws.position + begin, draws.position + end):
            self._look_ahead(position)
            x = drawn_line(
                &self.objective.matrix.rows, draws.items, position, draws.ready, self.weights)
            self.prediction[position - draws.position] = dot(&x, self.weights)

    @final
    cdef inline void _look_ahead(self, Py_ssize_t position) noexcept nogil:
        """Ask for what the draws after `position` will read beside their rows."""
        cdef Py_ssize_t later = position + LINE_AHEAD
        cdef uint32_t i
        if later < self.order.draws.ready:
            i = self.order.draws.items[later]
            prefetch(&self.dual[i])
            prefetch(&self.curvature[i])
            prefetch(&self.objective.targets[i])

    cdef void _propose(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end, double beta
    ) noexcept nogil:
        """step_k = the dual step of example i with curvature beta q_i"""
        cdef Py_ssize_t i, k
        for k in range(begin, end):
            i = batch[k]
            self.step[k] = self.loss.dual_step(
                self.dual[i], self.prediction[k], self.objective.targets[i],
                beta * self.curvature[i]) - self.dual[i]

    @final
    cdef inline double _factor(self, Py_ssize_t i, double step) noexcept nogil:
        """What a step of dual i adds to w, in units of x_i."""
        return self.step_scale * self.objective.weight(i) * step

    cdef inline Line _line(
        self, const uint32_t* batch, Py_ssize_t k, Py_ssize_t end, const double* w
    ) noexcept nogil:
        """The line of an example that has been looked at; those after it may be far by now."""
        if self.is_far:
            prefetch_ahead(&self.objective.matrix.rows, batch, k, end, w)
        return line_at(&self.objective.matrix.rows, batch[k])

    cdef void _gather(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """direction += what the steps would add to w"""
        cdef Py_ssize_t k
        cdef Line x
        for k in range(begin, end):
            x = self._line(batch, k, end, self.direction)
            add(&x, self._factor(batch[k], self.step[k]), self.direction)

    cdef void _clear(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        cdef Py_ssize_t k
        cdef Line x
        if self.sums_whole:
            if begin == 0:
                memset(self.direction, 0, self.n_weights * sizeof(double))
            return
        for k in range(begin, end):
            x = self._line(batch, k, end, self.direction)
            zero_entries(&x, self.direction)

    cdef void _measure(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """together += |direction|^2, from the rows that make it up; separate += sum_i |v_i|^2"""
        cdef double step
        cdef Py_ssize_t i, k
        for k in range(begin, end):
            i, step = batch[k], self.step[k]
            self.separate += self._factor(i, step) * step * self.curvature[i]
        self._square(batch, begin, end)

    cdef void _square(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """together += sum_k <v_k, direction>"""
        cdef Py_ssize_t k
        cdef Line x
        if self.sums_whole:
            if begin == 0:
                self.together = dense_squares64(self.direction, self.n_weights)
            return
        for k in range(begin, end):
            x = self._line(batch, k, end, self.direction)
            self.together += self._factor(batch[k], self.step[k]) * dot(&x, self.direction)

    cdef void _weigh(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        """increase += W (D(a + step) - D(a)), but for what |direction|^2 takes away"""
        cdef double a, y
        cdef Py_ssize_t i, k
        for k in range(begin, end):
            i = batch[k]
            a = self.dual[i]
            y = self.objective.targets[i]
            self.increase += self.objective.weight(i) * (
                self.loss.conjugate(a, y) - self.loss.conjugate(a + self.step[k], y)
                - self.prediction[k] * self.step[k])
        self._square(batch, begin, end)

    cdef void _take(
        self, const uint32_t* batch, Py_ssize_t begin, Py_ssize_t end
    ) noexcept nogil:
        cdef Py_ssize_t i, k
        cdef Line x
        for k in range(begin, end):
            if self.step[k] == 0:
                continue
            i = batch[k]
            if self.average != LAST:
                self._bring_up_to_date(i)
            self.dual[i] += self.step[k]
            if not self.sums_whole:
                x = self._line(batch, k, end, self.weights)
                add(&x, self._factor(i, self.step[k]), self.weights)
        if self.sums_whole:
            dense_add64(self.direction, 1, self.weights, self.n_weights)

    @final
    cdef inline void _bring_up_to_date(self, Py_ssize_t i) noexcept nogil:
        """Count the iterations over which dual i has not moved in its average."""
        cdef Py_ssize_t count = self.n_steps - self.averaged_until[i]
        if self.average == TAIL:
            self.averaged[i] += count * self.dual[i]
        else:
            self.averaged[i] = self.dual[i] + pow(DECAY, count) * (self.averaged[i] - self.dual[i])
        self.averaged_until[i] = self.n_steps

    def _next_window(self):
        """At epochs that are powers of two: the tail begins at the last but one of them."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.dual.shape[0]):
                self._bring_up_to_date(i)
                self.previous[i] = self.averaged[i]
                self.averaged[i] = 0
        self.previous_start, self.window_start = self.window_start, self.n_steps
        self.next_window *= 2

    def duals(self):
        """Return the duals, averaged as chosen, as an array of its own."""
        cdef Py_ssize_t i
        if self.average == LAST or self.n_steps == self.previous_start:
            return np.array(self.dual)
        with nogil:
            for i in range(self.dual.shape[0]):
                self._bring_up_to_date(i)
        if self.average == DECAYING:
            return np.array(self.averaged)
        total = np.asarray(self.previous) + np.asarray(self.averaged)
        return total / (self.n_steps - self.previous_start)

    def release_duals(self):
        """Return the duals that a certificate takes, zeros if they have diverged."""
        duals = self.duals()
        return duals if np.isfinite(duals).all() else np.zeros_like(duals)

    def model(self):
        """Return the weights w, not a copy."""
        return self.w

    def certify(self, rounded):
        """Return w of the duals, averaged as chosen, and its certificate (see `_drive`)."""
        duals = self.duals()
        w = self.w if self.average == LAST else self.objective.weights_of_dual(duals)
        model = rounded(w)
        model = model.copy() if model is self.w else model
        primals, self.last_dual = self.objective.certificate(w, duals, [model])
        return model, primals[0], self.last_dual
