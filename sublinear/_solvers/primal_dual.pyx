"""The sublinear primal-dual method, with and without variance reduction.

Papers: Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010), Figures 3
and 4 and section III; variance reduction: Carmon, Jin, Sidford, Tian, "Variance reduction for
matrix games" (2019), Algorithm 2.

Objective: max_x min_p over p in the simplex of

    ball        p' Y A x                             |x| <= 1          margins, targets y = +1, -1
    hull        p' (b + 2 Y A x + 2 r e) - |x|^2 - |e|^2               simplex QP, enclosing ball
    simplex     -p' A x                              x in the simplex  matrix games

    for t = 1, 2, ..:
        draw rows i by |p - p0|, columns j by (x - x0)^2, in the simplex by |x - x0|
        g = A'p0 + sum_i A_i (p - p0)(i) / (chance of i * draws)       estimates A'p
        v = A x0 + sum_j A_:j (x - x0)(j) / (chance of j * draws)      estimates A x, clipped
        move x by g, multiply p(i) by 1 - eta v(i) + eta^2 v(i)^2

Without variance reduction x0 = p0 = 0: the algorithms of the first paper. With it, stages begin at
the mean (x0, p0) of the last one, one pass yields A x0 and A'p0, and with them a certificate; the
deterministic part of v and, to 0.2 %, its noise enter p by exp(-eta v).

Cost per step: n + d, and the stored entries of batch_size rows and columns.

With caps on p, as the soft ball has them, each reweighting is followed by the projection onto
p(i) <= caps(i) in relative entropy, p(i) = min(caps(i), theta p(i)).

Departures: mini-batches; where adjacent columns (rows) of dense data lie together in memory, they
are drawn together, by the sum of their chances, which keeps g and v unbiased; the practical rates;
rounds of doubling length go on, weights from the means of the last round, sums of rows from where
they are; where the mean of x is 0, as after one step, x as it is takes its place; where rows may
lie far from the origin (hull), x0 is taken off the lines drawn, in the simplex the middle of all
entries.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport sqrt

import numpy as np

from sublinear._core.adjacent cimport (
    ADJACENT, FIRST_BYTE, SIDE_BY_SIDE, add_adjacent, add_side_by_side, lie_side_by_side,
    lines_per_cache_line,
)
from sublinear._core.dense_lines cimport dense_add64, dense_squares64
from sublinear._core.flat_sampler cimport (
    SCANNED, Draw, FlatSampler, FlatSums, block_start, block_stop, draw_block, draw_entries,
    entry_of_block, sum_some_blocks, total_of,
)
from sublinear._core.inner import inner
from sublinear._core.line cimport Line, Lines, add, line_at, line_size, prefetch_line, value_bytes
from sublinear._core.matrix cimport Matrix
from sublinear._core.matrix import NotFinite
from sublinear._core.passes cimport Passes
from sublinear._core.random cimport RandomBits, uniform
from sublinear._core.rounds cimport Rounds, begin_longer, begin_round, first_round, is_over
from sublinear._core.sample_sizes import samples_for
from sublinear._core.saddle_solver cimport SaddleSolver
from sublinear._core.saddle_solver import Point, as_is
from sublinear._core.sweeps cimport (
    SWEPT, TINY, chance_to_move, dual_step, exponents, in_range, look_at, multiply, multiply_exp,
    sum_of,
)

GEOMETRIES = ("ball", "hull", "simplex")

cdef enum Geometry:
    BALL
    HULL
    SIMPLEX

# How the variance-reduced method adapts (see `_adapt`):
cdef double PROGRESS_IN_BALL = 0.9       # of the gap at the last progress: less is progress (ball)
cdef double PROGRESS = 0.999             # the same in other geometries
cdef double FASTER = 1.1                 # factor on dual_rate after progress, except in the ball
cdef double SLOWER = 0.7                 # factor on rates without progress; stages grow by 1 / it
cdef int PATIENCE = 3                    # stages without progress before both rates shrink
cdef Py_ssize_t LONGEST_STAGE = 1000     # times the first one
cdef int WINDOW = 20                     # stages between two checks for a stall, except in the ball
cdef double PROGRESS_IN_WINDOW = 0.9     # of the gap at the last check: less is no stall


cdef struct Player:
    # p or x: what it is at, where it was at the anchor, and what it saw of the other one
    Py_ssize_t size
    double* value          # the iterate is scale * value
    double scale
    double* total          # sum of the iterates of this stage
    double* response       # this step's estimate of the matrix times the other's difference
    double* anchor         # NULL: the origin, and there are no factors either
    double* anchored       # the matrix times the other's anchor
    double* factor         # exp(-rate * what is known of the payoff), relative to the largest
    bint squared           # draws by the squares of iterate - anchor
    FlatSums* sums
    const Lines* lines
    Draw* draws
    Py_ssize_t n_draws, n_drawn


cdef inline double difference(const Player* player, Py_ssize_t k) noexcept nogil:
    """Entry k of iterate - anchor."""
    cdef double iterate = player.scale * player.value[k]
    return iterate if player.anchor == NULL else iterate - player.anchor[k]


cdef void chances_of(
    const Player* player, Py_ssize_t start, double* chance, Py_ssize_t size
) noexcept nogil:
    """What entries from start on are drawn by."""
    cdef const double* anchor = NULL if player.anchor == NULL else player.anchor + start
    look_at(player.value + start, player.scale, anchor, player.squared, chance, size)


cdef void look(Player* player) noexcept nogil:
    """Add the iterate to the total; gather what its entries are drawn by."""
    cdef double chance[SWEPT]
    cdef FlatSums* sums = player.sums
    cdef Py_ssize_t first = 0, last, start, size
    while first < sums.n_blocks:
        last = min(sums.n_blocks, first + SWEPT // sums.width)
        start = block_start(sums, first)
        size = block_stop(sums, last - 1) - start
        dense_add64(player.value + start, player.scale, player.total + start, size)
        chances_of(player, start, chance, size)
        sum_some_blocks(sums, first, last, chance)
        first = last


cdef void draw(Player* player, RandomBits random) noexcept nogil:
    cdef Py_ssize_t k
    cdef double chance[SCANNED]
    cdef double rest
    cdef Draw block
    player.n_drawn = 0
    if not total_of(player.sums) > 0:
        return
    for k in range(player.n_draws):
        block = draw_block(player.sums, uniform(random.bits), &rest)
        if not player.sums.whole:
            chances_of(player, block.start, chance, block.stop - block.start)
            block = entry_of_block(player.sums, block, chance, rest)
        player.draws[k] = block
    player.n_drawn = player.n_draws


cdef Py_ssize_t entries(const Player* player) noexcept nogil:
    """Stored entries of the lines drawn; the constant line has none."""
    cdef Py_ssize_t k, i, total = 0
    for k in range(player.n_drawn):
        for i in range(player.draws[k].start, min(player.draws[k].stop, player.lines.count)):
            total += line_size(player.lines, i)
    return total


cdef Py_ssize_t lines_drawn(const Player* player) noexcept nogil:
    cdef Py_ssize_t k, total = 0
    for k in range(player.n_drawn):
        total += player.draws[k].stop - player.draws[k].start
    return total


cdef list drawn_numbers(const Player* player):
    """The lines drawn that are stored: the constant line is not."""
    cdef Py_ssize_t k
    lines = []
    for k in range(player.n_drawn):
        lines += range(player.draws[k].start, min(player.draws[k].stop, player.lines.count))
    return lines


cdef void add_lines(
    const Lines* lines, const Py_ssize_t* order, Py_ssize_t count, const double* factors, double* w
) noexcept nogil:
    """w += sum_r factors[r] * (line order[r]), for up to SIDE_BY_SIDE lines"""
    cdef Py_ssize_t r
    cdef Line line
    if count == SIDE_BY_SIDE and lie_side_by_side(lines):
        add_side_by_side(lines, order, factors, w)
        return
    for r in range(count):
        line = line_at(lines, order[r])
        add(&line, factors[r], w)


cdef double add_draws(
    Player* player, const double* signs, double constant, const double* centre,
    double* response, Py_ssize_t size
) noexcept nogil:
    """response = the matrix times the difference, estimated; returns the same of the centre.

    Line i counts signs[i] times, the centre once; the constant line has `constant` everywhere.
    """
    cdef Py_ssize_t k, i, stop, n_lines = player.lines.count, n_single = 0
    cdef double factors[ADJACENT]
    cdef double single_factors[SIDE_BY_SIDE]
    cdef Py_ssize_t single[SIDE_BY_SIDE]
    cdef double factor, centred = 0, shift = 0
    cdef Draw drawn
    for k in range(size):
        response[k] = 0
    for k in range(player.n_drawn):
        drawn = player.draws[k]
        factor = 1 / (drawn.share * player.n_drawn)
        for i in range(drawn.start, drawn.stop):
            factors[i - drawn.start] = factor * difference(player, i)
            centred += factors[i - drawn.start] * (1 if centre == NULL else centre[i])
            if signs != NULL:
                factors[i - drawn.start] *= signs[i]
        stop = min(drawn.stop, n_lines)
        if stop - drawn.start == 1:
            prefetch_line(player.lines, drawn.start)
            single[n_single], single_factors[n_single] = drawn.start, factors[0]
            n_single += 1
            if n_single == SIDE_BY_SIDE:
                add_lines(player.lines, single, n_single, single_factors, response)
                n_single = 0
        elif stop > drawn.start:
            add_adjacent(player.lines, drawn.start, stop - drawn.start, factors, response)
        if drawn.stop > n_lines:
            shift += constant * factors[n_lines - drawn.start]
    add_lines(player.lines, single, n_single, single_factors, response)
    if shift != 0:
        for k in range(size):
            response[k] += shift
    return centred


cdef double reweight(
    Player* player, double rate, const double* signs, const double* extra, double shift
) noexcept nogil:
    """Multiply the weights by exp(-rate * payoff), or the first paper's approximation of it.

    Returns the sum of the responses: what is not finite in the lines drawn shows there.
    """
    cdef double z[SWEPT]
    cdef Py_ssize_t start = 0, size
    cdef double total = 0, seen = 0
    cdef double* value
    while start < player.size:
        size = min(SWEPT, player.size - start)
        value = player.value + start
        seen += sum_of(player.response + start, size)
        exponents(
            player.response + start, rate, NULL if signs == NULL else signs + start,
            NULL if extra == NULL else extra + start, shift, z, size)
        if player.factor == NULL:
            multiply(value, z, TINY, size)
        else:
            multiply_exp(value, player.factor + start, z, TINY, size)
        total += sum_of(value, size)
        start += size
    player.scale = 1 / in_range(player.value, total, player.size)
    return seen


cdef void cap_weights(Player* player, const double* caps) noexcept nogil:
    """Project the iterate: min(caps, scale * value) with the scale that makes its sum 1.

    The sum is concave in scale and too small where every weight counts in full: Newton's method
    comes from below and ends where the same weights are capped again.
    """
    cdef double* value = player.value
    cdef double scale = player.scale, free, fixed
    cdef Py_ssize_t k, n_fixed, n_before = -1
    while True:
        free = fixed = 0
        n_fixed = 0
        for k in range(player.size):
            if scale * value[k] >= caps[k]:
                fixed += caps[k]
                n_fixed += 1
            else:
                free += value[k]
        if n_fixed == n_before or free <= 0:
            break
        n_before = n_fixed
        scale = max(scale, (1 - fixed) / free)
    for k in range(player.size):
        value[k] = min(caps[k], scale * value[k])
    player.scale = 1


cdef class PrimalDual(SaddleSolver):
    """What both methods share: the players, their draws and estimates, passes, the budget.

    Parameters
    ----------
    problem : object
        Has `geometry`, one of GEOMETRIES; `targets`, `offsets` and `ridge`, y, b and r of the
        objective (float64) or None; `middle`, which for the simplex is taken off all entries;
        `unit`, about the largest |A_i|, for the simplex the largest |A_ij - middle|, or None, which
        asks `measure(x, Y A x, longest)` after the first pass;
        `primal(x, Y A x, longest, rounded)`, the model that x becomes and a bound on its objective,
        with longest = max |A_i|; `model(x)`, the same model without a certificate;
        `dual(p, A'Y p, longest)`, a bound from below; `attained`, a primal value known beforehand,
        or inf; `caps` on p (float64, of sum 1 at least) or None; and `accesses`, to which passes
        made for certificates alone are added.
    matrix : Matrix
        Its rows are the A_i; a constant column may stand for an intercept. Of a ComputedMatrix what
        is drawn is asked for.
    random : RandomBits
    batch_size : int
        Rows, and columns, drawn in one step.

    Attributes
    ----------
    n_iter : int
        Steps, counted in draws: one with batches of 16 counts 16.
    accesses, full_accesses : int
        Feature values read; the same with every line charged in full, as the papers count.
    """
    cdef readonly Matrix matrix, columns
    cdef readonly Py_ssize_t n_iter, accesses, full_accesses
    cdef readonly dict p_state, x_state
    cdef RandomBits random
    cdef Geometry geometry
    cdef Player p, x
    cdef list keeper
    cdef bint drawn                      # lines are drawn for a step not yet taken
    cdef bint skips, moves               # x moves in some steps only; in this one
    cdef bint computed
    cdef const double* targets
    cdef const double* caps
    cdef Rounds rounds
    cdef Py_ssize_t batch_size, n_looks, n_moves
    cdef double unit, middle, move_chance, sum_of_seen
    cdef readonly Passes passes

    def __init__(
        self, problem, Matrix matrix, RandomBits random, Py_ssize_t batch_size, bint anchored
    ):
        cdef int geometry = GEOMETRIES.index(problem.geometry)
        SaddleSolver.__init__(self, problem)
        self.geometry = <Geometry> geometry
        self.matrix, self.random = matrix, random
        self.columns = matrix.transposed()
        self.batch_size, self.unit, self.middle = batch_size, problem.unit or 0, problem.middle
        self.keeper = []
        self.targets = self._keep(problem.targets)
        self.caps = self._keep(problem.caps)
        self.computed = matrix.is_computed
        self.p_state = self._set_up(&self.p, &self.matrix.rows, matrix.n_rows, anchored)
        self.x_state = self._set_up(&self.x, &self.columns.rows, matrix.n_weights, anchored)
        self.x.squared = self.geometry != SIMPLEX
        self.p_state["value"][:] = self.first_distribution(self.p.size)
        if self.geometry == SIMPLEX:
            self.x_state["value"][:] = 1.0 / self.x.size
        self.moves = True
        self.passes = Passes(matrix, problem.targets, norms=self.geometry != SIMPLEX)

    cdef double* _keep(self, array):
        """The address of an array of float64, kept alive; NULL for None."""
        cdef double[::1] view
        if array is None:
            return NULL
        view = array = np.require(array, np.float64, ["C", "W"])
        self.keeper.append(array)
        return &view[0]

    cdef dict _set_up(self, Player* player, const Lines* lines, Py_ssize_t size, bint anchored):
        """Give a player its arrays and its sampler."""
        cdef Py_ssize_t width = lines_per_cache_line(lines)
        cdef Py_ssize_t lead = 0 if width == 1 else FIRST_BYTE // value_bytes(lines.storage)
        cdef FlatSampler sampler = FlatSampler(size, width, lead)
        cdef Py_ssize_t n_draws = max(1, self.batch_size // width)
        cdef unsigned char[::1] draws = np.zeros(n_draws * sizeof(Draw), dtype=np.uint8)
        state = {name: np.zeros(size) for name in ("value", "total", "response")}
        player.value = self._keep(state["value"])
        player.total = self._keep(state["total"])
        player.response = self._keep(state["response"])
        if anchored:
            state |= {name: np.zeros(size) for name in ("anchor", "anchored", "factor")}
            player.anchor = self._keep(state["anchor"])
            player.anchored = self._keep(state["anchored"])
            player.factor = self._keep(state["factor"])
        player.size, player.scale, player.lines = size, 1, lines
        player.sums, player.draws, player.n_draws = &sampler.sums, <Draw*> &draws[0], n_draws
        self.keeper += [sampler, draws]
        return state

    @property
    def work(self):
        """Feature values read, and n + d for every step."""
        cdef Py_ssize_t per_step = self.p.size + self.x.size
        return self.accesses + per_step * (self.n_iter // self.batch_size)

    cdef int _take_steps(self, Py_ssize_t limit) except -1 nogil:
        """Steps to the end of the round, then True, or until one would exceed the limit."""
        cdef Py_ssize_t cost
        cdef double centred_p, centred_x
        cdef bint lengths = self.geometry == HULL
        while not is_over(&self.rounds):
            if not self.drawn:
                self._draw()
            cost = entries(&self.p) + entries(&self.x)
            if self.accesses + cost > limit:
                return False
            if self.computed:
                with gil:
                    self._hold_drawn()
            centred_p = add_draws(
                &self.p, self.targets, 0, NULL, self.x.response, self.x.size)
            centred_x = add_draws(
                &self.x, NULL, self.matrix.constant, self.x.anchor if lengths else NULL,
                self.p.response, self.p.size)
            if self.geometry == SIMPLEX:
                centred_p *= self.middle
                centred_x *= self.middle
            elif not lengths:
                centred_x = 0
            self._move(centred_p, centred_x)
            self.drawn = False
            self.accesses += cost
            self.full_accesses += (
                lines_drawn(&self.p) * self.x.size + lines_drawn(&self.x) * self.p.size)
            self.rounds.taken += 1
            self.n_iter += self.batch_size
        return True

    cdef void _draw(self) noexcept nogil:
        look(&self.p)
        look(&self.x)
        self.n_looks += 1
        draw(&self.p, self.random)
        if self.skips:
            self.moves = uniform(self.random.bits) < self.move_chance or self.n_moves == 0
            if not self.moves:
                self.p.n_drawn = 0
        draw(&self.x, self.random)
        self.drawn = True

    cdef _hold_drawn(self):
        """Have the lines drawn computed."""
        PyErr_CheckSignals()
        self.matrix.hold(drawn_numbers(&self.p))
        self.columns.hold(drawn_numbers(&self.x))

    cdef void _move(self, double centred_p, double centred_x) noexcept nogil:
        """Move p and x by what this step's estimates say."""
        pass

    cdef _begin_round(self):
        self.n_looks = 0
        for state in (self.p_state, self.x_state):
            state["total"][:] = 0

    def means(self):
        """Return the means of x and p over this round, as new arrays (float64).

        Where that of x is 0, as it is after a first step from there, x as it is now.
        """
        if not np.isfinite(self.sum_of_seen):
            raise NotFinite
        x, p = self.x_state["value"] * self.x.scale, self.p_state["value"] * self.p.scale
        if self.n_looks > 0:
            p = self.p_state["total"] / self.n_looks
            if self.x_state["total"].any():
                x = self.x_state["total"] / self.n_looks
        return x, p

    def model(self):
        """Return the mean of x as the problem wants it."""
        return self.problem.model(self.means()[0])

    def certified(self, x, p, rounded):
        """Return the model of x, its primal value, and the dual value of p, after one pass."""
        payoffs, gradient = self.passes.products(x, p)
        self.problem.accesses += self.matrix.n_stored
        return self._values(x, payoffs, p, gradient, rounded)

    def _values(self, x, payoffs, p, gradient, rounded):
        """Return the model of x, its primal value, and the best dual value so far."""
        dual = self.problem.dual(p, gradient, self.passes.longest)
        self.take_dual(dual, p)
        model, primal = self.problem.primal(x, payoffs, self.passes.longest, rounded)
        return model, primal, self.best_dual


cdef class SublinearPrimalDual(PrimalDual):
    """The algorithms of Clarkson, Hazan and Woodruff, in rounds.

    Parameters
    ----------
    problem, matrix, random, batch_size
        As in PrimalDual.
    round_steps : int
        T, the steps of the first round.
    growth : int, default=2
        By what factor rounds grow; 1: there is one round only.
    max_steps : int, default=2**62
        Of all rounds together: the last one ends there.
    primal_rate, dual_rate : float
        x moves by primal_rate / sqrt(2 T), eta is dual_rate * sqrt(log(n) / T), at most 0.3; in the
        simplex x has an eta of its own, with log(d).
    sampled : (float, float) or None
        Certificates by sampling, in the ball and with one round: an error of the margin, and the
        probability with which it may be larger. None: certificates take a pass.
    """
    cdef readonly object sampled
    cdef double primal_rate, dual_rate, step, eta, column_eta
    cdef object known_array
    cdef double* known               # eta * b

    def __init__(
        self, problem, Matrix matrix, RandomBits random, *, Py_ssize_t batch_size,
        Py_ssize_t round_steps, Py_ssize_t growth=2,
        Py_ssize_t max_steps=2**62, double primal_rate, double dual_rate, sampled=None
    ):
        super().__init__(problem, matrix, random, batch_size, False)
        self.sampled = sampled
        self.rounds = first_round(round_steps, growth, max_steps)
        self.primal_rate, self.dual_rate = primal_rate, dual_rate
        if problem.offsets is not None:
            self.known_array = np.zeros(self.p.size)
            self.known = self._keep(self.known_array)
        self._begin_round()

    cdef _begin_round(self):
        cdef double steps = self.rounds.length
        PrimalDual._begin_round(self)
        self.eta = dual_step(self.dual_rate, self.p.size, steps)
        self.column_eta = dual_step(self.dual_rate, self.x.size, steps)
        self.step = self.primal_rate / (sqrt(2 * steps) * self.unit)
        self.skips = self.geometry == HULL
        if self.skips:
            self.move_chance = chance_to_move(self.p.size, steps)
        if self.known != NULL:
            self.known_array[:] = (self.eta / self.unit**2) * self.problem.offsets
        self._project()

    def advance(self, Py_ssize_t limit):
        """Go on until the round ends, then return True, or until a step would exceed `limit`."""
        cdef bint ended
        if is_over(&self.rounds):
            if not begin_longer(&self.rounds):
                return True
            self._take_means()
            self._begin_round()
        with nogil:
            ended = self._take_steps(limit)
        return ended

    cdef _take_means(self):
        """Let weights be their means: the last ones may be too small to return by smaller steps."""
        x, p = self.means()
        self.p_state["value"][:] = p
        self.p.scale = 1
        if self.geometry == SIMPLEX:
            self.x_state["value"][:] = x
            self.x.scale = 1

    cdef void _move(self, double centred_p, double centred_x) noexcept nogil:
        cdef double rate = self.eta / self.unit, shift = 0
        if self.geometry == HULL:
            shift = dense_squares64(self.x.value, self.x.size) * rate / self.unit
            rate *= 2 / self.unit
        elif self.geometry == SIMPLEX:
            rate = -rate
            shift = rate * centred_x
        self.sum_of_seen += reweight(&self.p, rate, self.targets, self.known, shift)
        if self.caps != NULL:
            cap_weights(&self.p, self.caps)
        if not self.moves:
            return
        self.n_moves += 1
        if self.geometry == SIMPLEX:
            rate = self.column_eta / self.unit
            self.sum_of_seen += reweight(&self.x, rate, NULL, NULL, rate * centred_p)
            return
        rate = 1
        if self.geometry == HULL:
            rate = 1.0 / self.n_moves
            dense_add64(self.x.value, -1, self.x.response, self.x.size)
        dense_add64(self.x.response, rate, self.x.value, self.x.size)
        self._project()

    cdef void _project(self) noexcept nogil:
        """x = step * (sum of rows), shortened to length 1."""
        cdef double square
        if self.geometry == BALL:
            square = dense_squares64(self.x.value, self.x.size)
            self.x.scale = self.step / max(1.0, self.step * sqrt(square))
            self.sum_of_seen += square

    def certify(self, rounded):
        """Return the model and its certificate, after one pass or what `sampled` allows."""
        x, p = self.means()
        if self.sampled is None:
            return self.certified(x, p, rounded)
        payoffs, cost = self._sampled_payoffs(x, *self.sampled)
        if payoffs is None:
            return self.certified(x, p, rounded)
        self.problem.accesses += cost
        model, primal = self.problem.primal(
            x, payoffs - self.sampled[0], self.unit, rounded)
        if self.n_moves == 0:  # no row is drawn, and nothing bounds the optimum
            return model, primal, -np.inf
        # the sum of the rows drawn in the only round is that of A'Yq for their mean q
        return model, primal, self.problem.dual(None, self.x_state["value"] / self.n_moves)

    def _sampled_payoffs(self, const double[::1] x, double error, double failure):
        """Estimates of Y A x that are all within `error` but with probability `failure`.

        Corollary II.9: medians of means of column samples, each with variance |x|^2 |A_i|^2.
        Returns the estimates and the values read; None, 0 if a pass costs less.
        """
        cdef Py_ssize_t size, groups, k, j, _, total = 0
        cdef double norm = sqrt(inner(np.asarray(x), np.asarray(x)))
        cdef Line line
        if norm == 0:
            return np.zeros(self.p.size), 0
        wanted = samples_for(norm * self.unit, error, failure, self.p.size)
        if wanted[0] * wanted[1] >= self.x.size:
            return None, 0
        size, groups = wanted
        cdef FlatSampler sampler = FlatSampler(self.x.size)
        sampler.chances[:] = np.square(x)
        sampler.update()
        cdef double[:, ::1] means = np.zeros((groups, self.p.size))
        cdef double factor
        for k in range(groups):
            for _ in range(size):
                j = draw_entries(&sampler.sums, uniform(self.random.bits)).start
                factor = norm * norm / (x[j] * size)
                if j == self.columns.n_rows:
                    np.asarray(means)[k] += factor * self.matrix.constant
                    continue
                if self.computed:
                    self.columns.hold((j,))
                line = line_at(&self.columns.rows, j)
                add(&line, factor, &means[k, 0])
                total += line.size
            PyErr_CheckSignals()
        payoffs = np.median(means, axis=0)
        if not np.isfinite(payoffs).all():
            raise NotFinite
        return payoffs if self.targets == NULL else payoffs * self.problem.targets, total


cdef class VarianceReducedPrimalDual(PrimalDual):
    """The method of Carmon, Jin, Sidford and Tian, in stages.

    Parameters
    ----------
    problem, matrix, random, batch_size
        As in PrimalDual; the problem may have `ridge`, r of the objective.
    stage_steps : int
        Steps between two passes.
    max_steps : int, default=2**62
        Of all stages together: the last one ends there.
    primal_rate, dual_rate : float
        What x moves by, and eta, for rows of length 1.
    """
    cdef bint begun, at_anchor       # the pass at the anchor is done
    cdef double primal_rate, dual_rate, least_rate, gain
    cdef double best_primal, gap_to_beat, window_gap
    cdef int n_idle, n_in_window     # stages without progress, or without much of it
    cdef Py_ssize_t stage_steps, first_stage
    cdef tuple first_rates
    cdef object best                 # the Point of the least primal value
    cdef object decayed              # the sum of all anchors' Points, earlier ones with less weight
    cdef double decayed_weight       # of that sum
    cdef object tail_state, tail_anchor
    cdef const double* ridge
    cdef double* tail                # e of the objective
    cdef double* tail_start          # e at the anchor
    cdef double* known               # gain * r (e - e at the anchor)

    def __init__(
        self, problem, Matrix matrix, RandomBits random, *, Py_ssize_t batch_size,
        Py_ssize_t stage_steps, Py_ssize_t max_steps=2**62,
        double primal_rate, double dual_rate
    ):
        super().__init__(problem, matrix, random, batch_size, True)
        self.first_stage, self.rounds = stage_steps, first_round(0, 1, max_steps)
        self.first_rates, self.window_gap = (primal_rate, dual_rate), np.inf
        self._set_rates()
        self.p_state["anchor"][:] = self.p_state["value"]
        self.x_state["anchor"][:] = self.x_state["value"]
        self.begun = self.geometry == SIMPLEX
        self.ridge = self._keep(problem.ridge)
        if problem.ridge is not None:
            self.tail_state = problem.ridge * self.p_state["value"]
            self.tail_anchor = self.tail_state.copy()
            self.tail = self._keep(self.tail_state)
            self.tail_start = self._keep(self.tail_anchor)
            self.known = self._keep(np.zeros(self.p.size))

    cdef _set_rates(self):
        """The first steps and stages."""
        self.primal_rate, self.dual_rate = self.first_rates
        self.least_rate, self.stage_steps = self.dual_rate, self.first_stage
        self.gap_to_beat, self.n_idle = np.inf, 0

    def advance(self, Py_ssize_t limit):
        """Go on until a stage and the pass after it have ended, then return True, or to `limit`."""
        cdef bint ended
        while True:
            if self.at_anchor:
                with nogil:
                    ended = self._take_steps(limit)
                if not ended:
                    return False
                self._move_anchor(*self.means())
            if not self._pass(limit):
                return False
            if self.begun:
                self._begin_round()
                return True
            self._begin_at_mean()

    def _move_anchor(self, x, p):
        self.x_state["anchor"][:] = x
        self.p_state["anchor"][:] = p
        self.at_anchor = False

    def _begin_at_mean(self):
        """After a first pass: x is the mean of the rows, in the ball at length 1."""
        mean = self.x_state["anchored"].copy()
        norm = sqrt(inner(mean, mean))
        if self.geometry == BALL and norm > 0:
            mean /= norm
        self._move_anchor(mean, self.p_state["anchor"])
        self.x_state["value"][:] = mean    # known, should there be no room for another pass
        self.begun = True

    cdef bint _pass(self, Py_ssize_t limit) except -1:
        """The pass at the anchor, unless it would exceed the limit."""
        if self.accesses + self.matrix.n_stored > limit:
            return False
        payoffs, gradient = self.passes.products(self.x_state["anchor"], self.p_state["anchor"])
        self.p_state["anchored"][:] = payoffs
        self.x_state["anchored"][:] = gradient
        self.accesses += self.matrix.n_stored
        self.full_accesses += self.p.size * self.x.size
        self.at_anchor = True
        return True

    cdef _begin_round(self):
        """A stage begins at the anchor: what is known of the payoffs there goes into factors."""
        PrimalDual._begin_round(self)
        if self.unit == 0:
            self.unit = self.problem.measure(
                self.x_state["anchor"], self.p_state["anchored"], self.passes.longest) or 1.0
        self._certify_anchor()
        begin_round(&self.rounds, self.stage_steps)
        self.gain = self.dual_rate / self.unit
        if self.geometry == HULL:
            self.gain *= 2 / self.unit
        elif self.geometry == SIMPLEX:
            self.gain = -self.gain
        for state in (self.p_state, self.x_state):
            state["value"][:] = state["anchor"]
        self.p.scale = 1
        known = self.gain * self.p_state["anchored"]
        if self.problem.offsets is not None:
            known += (self.dual_rate / self.unit**2) * self.problem.offsets
        if self.ridge != NULL:
            self.tail_anchor[:] = self.tail_state
            known += self.gain * self.problem.ridge * self.tail_anchor
        self.p_state["factor"][:] = np.exp(known.min() - known)
        if self.geometry == SIMPLEX:
            self.x.scale = 1
            known = -self.gain * self.x_state["anchored"]
            self.x_state["factor"][:] = np.exp(known.min() - known)

    cdef _certify_anchor(self):
        """Two certificates by linearity: of the anchor, and of the mean of all anchors so far.

        Weights in that mean halve from each anchor to the one before.
        """
        latest = Point(
            self.x_state["anchor"], self.p_state["anchored"],
            self.p_state["anchor"], self.x_state["anchored"],
        )
        if self.decayed is None:
            self.decayed, self.decayed_weight = latest.copy(), 1
        else:
            self.decayed_weight = 1 + self.decayed_weight / 2
            for total, array in zip(self.decayed, latest, strict=True):
                total *= 0.5
                total += array
        self._offer(latest.copy())
        self._offer(Point(*(total / self.decayed_weight for total in self.decayed)))
        self._adapt(min(self.best_primal, self.problem.attained) - self.best_dual)

    cdef _offer(self, point):
        """Keep a Point where there is no better x."""
        _, primal, _ = self._values(*point, as_is)
        if self.best is None or primal < self.best_primal:
            self.best_primal, self.best = primal, point

    cdef _adapt(self, double gap):
        """Longer steps of p, or, without progress, shorter steps and more of them in a stage."""
        cdef bint grows = self.geometry != BALL
        if grows and self._has_stalled(gap):
            self._set_rates()
        if gap < (PROGRESS if grows else PROGRESS_IN_BALL) * self.gap_to_beat:
            self.gap_to_beat = gap
            self.n_idle = 0
            if grows:
                self.dual_rate *= FASTER
            return
        self.n_idle += 1
        self.dual_rate = max(self.least_rate, SLOWER * self.dual_rate)
        if self.n_idle >= PATIENCE and self.dual_rate == self.least_rate \
                and self.stage_steps < LONGEST_STAGE * self.first_stage:
            self.primal_rate *= SLOWER
            self.dual_rate = self.least_rate = SLOWER * self.least_rate
            self.stage_steps = <Py_ssize_t> (self.stage_steps / SLOWER) + 1
            self.n_idle = 0

    cdef bint _has_stalled(self, double gap):
        """Tell whether the gap creeps: steps may be too short for a p(i) that has to grow."""
        cdef bint creeps = gap >= PROGRESS_IN_WINDOW * self.window_gap
        self.n_in_window += 1
        if creeps and self.n_in_window < WINDOW:
            return False
        self.window_gap, self.n_in_window = gap, 0
        return creeps

    cdef void _move(self, double centred_p, double centred_x) noexcept nogil:
        cdef double rate = self.primal_rate, square = 0, length
        cdef Py_ssize_t k
        cdef Player* x = &self.x
        if self.ridge != NULL:
            for k in range(self.p.size):
                self.known[k] = self.gain * self.ridge[k] * (self.tail[k] - self.tail_start[k])
                self.tail[k] += rate * (
                    self.ridge[k] * self.p.value[k] * self.p.scale - self.tail[k])
        self.sum_of_seen += reweight(
            &self.p, self.gain, self.targets, self.known, self.gain * centred_x)
        if self.caps != NULL:
            cap_weights(&self.p, self.caps)
        if self.geometry == SIMPLEX:
            self.sum_of_seen += reweight(x, -self.gain, NULL, NULL, -self.gain * centred_p)
        elif self.geometry == HULL:
            for k in range(x.size):
                x.value[k] += rate * (
                    x.anchored[k] + x.response[k] - centred_p * x.anchor[k] - x.value[k])
        else:
            rate /= self.unit
            dense_add64(x.anchored, rate, x.value, x.size)
            dense_add64(x.response, rate, x.value, x.size)
            square = dense_squares64(x.value, x.size)
            if square > 1:
                length = sqrt(square)
                for k in range(x.size):
                    x.value[k] /= length

    def certify(self, rounded):
        """Return the model and its certificate: free at an anchor, by a pass within a stage."""
        if self.best is None or self.rounds.taken > 0:
            x, p = self.means()
            payoffs, gradient = self.passes.products(x, p)
            self.problem.accesses += self.matrix.n_stored
            self._offer(Point(x, payoffs, p, gradient))
        return self._values(*self.best, rounded)
