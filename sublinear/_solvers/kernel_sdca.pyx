"""Dual ascent for kernel machines, block by block, without a stored kernel matrix.

Objective: that of sublinear._core.kernel_objective, for losses whose conjugate is quadratic on an
interval (`Loss.dual_form`). The dual value is then, up to a constant, a concave quadratic function
of the coefficients v in a box, with |v_i| where the loss is insensitive to small errors.

    the margins m = K v are kept; g_i = y_i - m_i - b - r_i v_i is the slope of the dual value
    repeat, a round:
        gain_i = what the best step of v_i alone would add to the dual value
        W = up to B rows: random ones of those with gain_i > 1e-3 max gain, then free rows; up to
            512 of them at zeros, and as long as no more have coefficients or such gains
        K_WW, the kernel between the rows of W
        ascend over v_W: the row of the largest gain in W again and again, until no gain exceeds
            `inner_tol` times the first one, or 20 |W| steps are done
        m += K[:, changed rows of W] times their changes, by K_WW if W has all rows

A free intercept keeps sum v = 0: the ascent then goes along pairs of coefficients, as in libsvm's
second order working set selection (Fan, Chen, Lin, JMLR 6, 2005), until no pair's slope exceeds
sqrt(`inner_tol`) times the first one. So it does where the intercept is penalised, which is one
more example then: its coefficient is minus the sum of the others, k(0, 0) = shift and k(0, i) = 0.
Single steps would have to overcome what all examples have in common.

Cost of a round: |W|^2 / 2 kernel evaluations for K_WW and n for every changed row; O(|W|) per step
of the ascent, O(n) for gains and values. Nothing is cached between rounds, but K_WW if W stays.
Rows of W are random among those that can gain: the top ones alone would be near copies of each
other.

Changes of coefficients and slopes are float32 within the ascent, coefficients and margins float64.
A round begins with changes of 0 and slopes from the margins, so errors of the ascent do not add up,
and shrink with the changes. Where the loss is insensitive to small errors, slopes are those on the
side of 0 where the coefficient is: they vanish at the optimum, those of the loss without its tube
do not.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, isnan, sqrt
from libc.stdint cimport int64_t

import numpy as np

from sublinear._core.kernel_objective cimport KernelObjective
from sublinear._core.panels cimport panel_problem, panels
from sublinear._core.random cimport RandomBits, below
from sublinear._core.solver cimport Solver

from sublinear._core.pace import relative_gap

cdef enum:
    STEPS_PER_ROW = 20
    FEW_ROWS = 512              # of W: a sixteenth of the kernel values of 2048
    WORK_PER_CALL = 1 << 25     # entries of K_WW that the ascent reads between two looks around
    UNRESOLVED_IN_FLOAT32 = 2   # certificates
    UNRESOLVED = 32
    FIRST_SLICE = 1 << 16       # accesses

cdef enum Phase:                # of a round
    SELECT
    ASCEND
    UPDATE

cdef enum:                      # the rows of `inner`: the arrays of a panel_problem
    CHANGE
    GRADIENT
    LOW
    HIGH
    KINK
    ABOVE
    BELOW
    CURVATURE
    N_ARRAYS

cdef double OF_FLOAT32 = 2.0**-25   # a typical relative error of values that are rounded to it
cdef double GROWTH = 4, MOST_DAMPING = 0.1
cdef double INNER_TOL = 0.01, INNER_TOL_OF_FEW = 1e-4
cdef double LATE_TOL_OF_FEW = 1e-7
cdef double CALLS = 2.0**18     # of Python in a round, as kernel values
cdef double LEAST_GAIN = 1e-3   # of the largest: a row with less is no candidate


cdef class KernelSDCA(Solver):
    """Block dual ascent.

    Parameters
    ----------
    objective : KernelObjective
        Its loss must have a `dual_form()`.
    random : RandomBits
    block_size : int, default=2048
        Rows of W at the most.
    inner_tol : float, default=None
        When the ascent within W ends. None means 0.01, and 1e-4 where W always has all rows, and
        so few that what a round does besides takes longer; then it goes on to 1e-7 for about as
        long as that takes.
    coefficients : ndarray of shape (n_rows,), float64, default=None
        Where to start: v, moved to the nearest feasible point. None means zeros.
    max_accesses : float, default=inf
        The budget of kernel evaluations: a working set is as small as what is left of it.

    Attributes
    ----------
    n_iter, accesses, n_steps : int
        Rounds, kernel evaluations, steps of the ascent.
    """
    first_slice = FIRST_SLICE    # the first round of few examples
    cdef readonly KernelObjective objective
    cdef readonly Py_ssize_t n_iter, accesses, n_steps
    cdef readonly object coefficients, margins
    cdef double gap, primal, dual, value_of_zeros
    cdef RandomBits random
    cdef Py_ssize_t block_size, inner_work, inner_steps, position
    cdef double inner_tol, late_tol                  # the latter: as long as calls would take
    cdef double max_accesses, epsilon, intercept
    cdef bint is_start                               # whether changes lead to one from elsewhere
    cdef object before                               # coefficients and margins before an ascent
    cdef double constant                             # a penalised intercept, part of the margins
    cdef double damping                              # of K_WW, relative to K_ii
    cdef double moved                                # by all changes: see KernelObjective.errors
    cdef double end, late_end                        # the same, of the gains that `ascend` measures
    cdef Py_ssize_t (*ascend)(panel_problem*, Py_ssize_t, float, float*) noexcept nogil
    cdef Py_ssize_t reads_per_step                   # of rows of K_WW
    cdef float end_gain, late_gain                   # where an ascent ends
    cdef Phase phase
    cdef bint indefinite                             # as a certificate has found
    cdef object low, high, ridge, curvature, sizes
    cdef object slopes, gains                        # of the present coefficients
    cdef readonly object rows                        # of W
    cdef object chosen                               # the next W
    cdef object values, inner, units                 # K_WW, arrays of the ascent, their units
    cdef object changed, target                      # rows that change, and to what
    cdef panel_problem problem

    def __init__(
        self, KernelObjective objective, RandomBits random, *, Py_ssize_t block_size=2048,
        inner_tol=None, coefficients=None, double max_accesses=INFINITY
    ):
        n = objective.n_rows
        self.random = random
        self.block_size = max(2, min(block_size, n))
        self.max_accesses = max_accesses
        has_few = inner_tol is None and n <= min(FEW_ROWS, block_size)
        if inner_tol is None:
            inner_tol = INNER_TOL_OF_FEW if has_few else INNER_TOL
        self.inner_tol, self.late_tol = inner_tol, LATE_TOL_OF_FEW if has_few else inner_tol
        self.gap = self.primal = INFINITY
        self.damping = 0
        self.slopes, self.gains = np.empty((2, n))
        self._set_objective(objective)
        self._set_zeros()
        self._begin(self.coefficients if coefficients is None else coefficients)

    def _set_objective(self, KernelObjective objective):
        """Set the box and the curvatures of the dual value."""
        form = objective.loss.dual_form()
        if form is None:
            raise ValueError(f"{type(objective.loss).__name__} has no quadratic conjugate")
        self.objective = objective
        self._set_ascent(objective.keeps_sum)
        self.epsilon = form.epsilon
        self._set_box(form.bound, form.ridge, form.one_sided)
        self.sizes = objective.squared_sizes()
        self.value_of_zeros = INFINITY
        if form.bound == INFINITY:
            self.value_of_zeros = objective.at_zeros()[1]

    cdef _set_ascent(self, bint pairs):
        """Set how to ascend: along pairs where the sum is kept, with gains measured by slopes."""
        self.ascend = panels().ascend_pairs if pairs else panels().ascend
        self.reads_per_step = 2 if pairs else 1
        self.end = sqrt(self.inner_tol) if pairs else self.inner_tol
        self.late_end = sqrt(self.late_tol) if pairs else self.late_tol

    def _set_box(self, double bound, double ridge_of_loss, bint one_sided):
        """Set where every coefficient may be, and the curvature of the dual value in it."""
        cdef const double[::1] y = self.objective.targets_array
        cdef const double[::1] scales = self.objective.scales_array
        cdef const double[::1] diagonal = self.objective.diagonal()
        self.low, self.high, self.ridge, self.curvature = np.empty((4, y.shape[0]))
        cdef double[::1] low = self.low, high = self.high
        cdef double[::1] ridge = self.ridge, curvature = self.curvature
        cdef double reach
        cdef Py_ssize_t i
        with nogil:
            for i in range(y.shape[0]):
                reach = bound * scales[i] if scales[i] > 0 else 0
                low[i] = 0 if one_sided and y[i] > 0 else -reach
                high[i] = 0 if one_sided and y[i] < 0 else reach
                ridge[i] = ridge_of_loss / scales[i] if scales[i] > 0 else 0
                curvature[i] = max(diagonal[i] + ridge[i], 1e-12)

    def _set_zeros(self):
        """Let the coefficients and their margins be zeros."""
        n = self.objective.n_rows
        self.coefficients, self.margins = np.zeros(n), np.zeros(n)
        self.moved = self.constant = 0

    def _begin(self, coefficients):
        """Let the coefficients go to the feasible point nearest to these."""
        self.chosen = self.before = None
        self.is_start = True
        start = coefficients.copy()
        self.objective.make_feasible(start)
        np.clip(start, self.low, self.high, out=start)
        if self.objective.free_intercept:
            self.objective.balance(start)
        changed = np.flatnonzero(start != self.coefficients)
        if changed.size:
            self._change(changed, start)
        else:
            self.phase = SELECT
            self._evaluate()
            self._check_start()

    def restart(self, KernelObjective objective):
        """Go on with other scales and the same kernel matrix, targets and intercept."""
        self.n_iter = self.accesses = self.n_steps = self.inner_work = 0
        ridge = self.ridge
        self._set_objective(objective)
        if not np.array_equal(ridge, self.ridge):
            self.forget_block()    # it holds the curvatures, and is scaled by them
        self._begin(self.target if self.phase == UPDATE else self.coefficients)

    def adopt(self, coefficients):
        """Go on from coefficients that another method has found."""
        self._begin(coefficients)

    @property
    def estimated_gap(self):
        """The relative gap but for rounding."""
        return relative_gap(self.primal, self.gap)

    def look(self):
        """Return `estimated_gap`."""
        return self.estimated_gap

    def glance(self):
        """Return the gap and the primal value but for rounding."""
        return self.gap, self.primal

    def refine(self):
        """Sum the margins up in float64, and go on so; False if that is done or too much."""
        reached, known = self.coefficients, self.objective.has_products
        cost = 0 if known else np.count_nonzero(reached) * self.objective.n_rows
        if self.objective.is_exact or self.accesses + cost > self.max_accesses:
            return False
        self.objective.refine()
        self.forget_block()
        if known:
            self._take_margins()
        else:
            self._set_zeros()
            self._begin(reached)
        return True

    def _take_margins(self):
        """Let the margins be those that the objective computes without the rows."""
        self.moved, self.constant = 0, self.objective.shift * np.sum(self.coefficients)
        self.margins = self.objective.margins_of(self.coefficients)
        self.phase, self.chosen, self.before = SELECT, None, None
        self._evaluate()

    def forget_block(self):
        """Give back the memory of K_WW."""
        self.rows = self.values = None

    @property
    def most_unresolved(self):
        """As `_drive` asks: few before `refine`."""
        return UNRESOLVED if self.objective.is_exact else UNRESOLVED_IN_FLOAT32

    @property
    def keeps_best(self):
        """Whether objectives tell which model is better: only for positive definite kernels."""
        return not self.indefinite

    @property
    def work(self):
        """Kernel evaluations, entries of K_WW read by the ascent, and the calls of rounds."""
        return self.accesses + self.inner_work + CALLS * self.n_iter

    def advance(self, limit):
        """Go on until the round ends, then return True, or a piece of it would exceed `limit`."""
        if self.phase == SELECT and not self._select(limit):
            return False
        if self.phase == ASCEND:
            if not self._take_steps():
                return False
            self._end_ascent()
        while self.position < len(self.changed):
            if not self._update(limit):
                return False
        self.n_iter += 1
        self.phase = SELECT
        self._evaluate()
        if self.is_start:
            self._check_start()
        elif self.before is not None:
            self._check()
        return True

    def _check_start(self):
        """Begin at zeros if a start from elsewhere is worse.

        Coefficients of a model whose intercept does not follow from them are no good duals.
        """
        self.is_start = False
        if self.dual < 0:
            self._set_zeros()
            self._evaluate()

    def _check(self):
        """Undo an ascent that went astray, as K_WW, rounded, is indefinite, and damp the next.

        Only where some intervals have no end: elsewhere ends stop it. The dual value is far below
        that of zeros then, or above what the optimum can be.
        """
        before, self.before = self.before, None
        bound = self.value_of_zeros
        if bound == INFINITY or not self.damping < MOST_DAMPING:
            return
        if fabs(self.dual) <= (1 + 1e-6) * bound:
            return
        error = max(self.objective.rows.error, OF_FLOAT32)
        self.damping = max(GROWTH * self.damping, GROWTH * sqrt(self.block_size) * error)
        self.coefficients, self.margins, self.constant = before
        self.forget_block()
        self._evaluate()

    def _evaluate(self):
        """Find intercept, values, slopes and gains of the present coefficients."""
        objective = self.objective
        self.intercept = objective.best_intercept(self.margins)
        primal, dual = objective.values(self.coefficients, self.margins, self.intercept)
        self.gap, self.primal, self.dual = max(0.0, primal - dual), fabs(primal), dual
        cdef const double[::1] v = self.coefficients, margins = self.margins
        cdef const double[::1] y = objective.targets_array, ridge = self.ridge
        cdef const double[::1] low = self.low, high = self.high, q = self.curvature
        cdef double[::1] slopes = self.slopes, gains = self.gains
        cdef double g, u, d, epsilon = self.epsilon
        cdef Py_ssize_t i
        with nogil:
            for i in range(v.shape[0]):
                g = slopes[i] = y[i] - margins[i] - self.intercept - ridge[i] * v[i]
                u = g + q[i] * v[i]
                u = u - epsilon if u > epsilon else (u + epsilon if u < -epsilon else 0)
                u = min(max(u / q[i], low[i]), high[i])
                d = u - v[i]
                gains[i] = d * (g - 0.5 * q[i] * d) - epsilon * (fabs(u) - fabs(v[i]))

    def _select(self, limit):
        """Choose W and compute K_WW; False if that would exceed the limit."""
        if self.chosen is None:  # else the limit was in the way of them
            self.chosen = self._working_set(self._affordable_rows())
        rows = self.chosen
        if rows.size == 0:    # nothing gains, and nothing lies between its ends
            self.chosen = None
            self._change(rows, self.coefficients)
            return True
        if not np.array_equal(rows, self.rows):
            cost = self._block_cost(len(rows))
            if self.accesses + cost > limit:
                return False
            self.forget_block()    # its memory serves again
            self.values = self.objective.block(rows)
            self.accesses += cost
            self.rows = rows
            self._scale_block()
        self.chosen = None
        self._begin_ascent()
        return True

    def _affordable_rows(self):
        """How many rows W may have within the budget, or 2: a pair can move."""
        n, size = self.objective.n_rows, self._most_rows()
        left = self.max_accesses - self.accesses
        while size > 2 and self._block_cost(size) + size * n > left:
            size = max(2, size // 2)
        return size

    def _most_rows(self):
        """How many rows W may have: few at zeros, and as long as few have coefficients or gain."""
        if self.block_size >= self.objective.n_rows:
            return self.block_size
        taken = self.coefficients != 0
        if not taken.any() or np.count_nonzero(taken | self._gaining()) <= FEW_ROWS:
            return min(FEW_ROWS, self.block_size)
        return self.block_size

    def _gaining(self):
        """Whether rows gain enough to be candidates."""
        return self.gains > max(LEAST_GAIN * self.gains.max(), 0.0)

    def _block_cost(self, n_rows):
        """Return the kernel evaluations of a symmetric block."""
        size = n_rows + (self.objective.shift > 0)
        return size * (size + 1) // 2

    def _working_set(self, Py_ssize_t size):
        """Rows of W, in order."""
        if size >= self.objective.n_rows:
            return np.arange(self.objective.n_rows)
        gaining = self._gaining()
        if self.objective.keeps_sum:
            rows = self._both_sides(gaining, size // 2)
        else:
            rows = self._sample(np.flatnonzero(gaining), size)
        free = (self.coefficients > self.low) & (self.coefficients < self.high)
        free[rows] = False
        rows = np.concatenate([rows, self._sample(np.flatnonzero(free), size - len(rows))])
        rows.sort()
        return rows

    def _both_sides(self, gaining, Py_ssize_t size):
        """`size` rows to rise and `size` to fall: without both, no pair could gain."""
        v, g = self.coefficients, self.slopes
        rise = g - np.where(v >= 0, self.epsilon, -self.epsilon)
        fall = -g + np.where(v > 0, self.epsilon, -self.epsilon)
        return np.union1d(
            self._side(rise, v < self.high, gaining, size),
            self._side(fall, v > self.low, gaining, size))

    def _side(self, slopes, movable, gaining, Py_ssize_t size):
        """`size` of the rows that gain in one direction, then those nearest to it."""
        gaining = movable & gaining & (slopes > 0)
        rows = self._sample(np.flatnonzero(gaining), size)
        others = np.flatnonzero(movable & ~gaining)
        cdef Py_ssize_t missing = size - len(rows)
        if len(others) > missing > 0:
            least = np.partition(slopes[others], len(others) - missing)[len(others) - missing]
            nearer = others[slopes[others] > least]
            ties = self._sample(others[slopes[others] == least], missing - len(nearer))
            others = np.concatenate([nearer, ties])
        return np.concatenate([rows, others]) if missing > 0 else rows

    def _sample(self, candidates, Py_ssize_t size):
        """`size` of the candidates, at random; all if there are no more."""
        cdef int64_t[::1] items = candidates
        cdef Py_ssize_t k, other, count = items.shape[0]
        if size >= count:
            return candidates
        for k in range(size):
            other = k + below(self.random.bits, <unsigned int> (count - k))
            items[k], items[other] = items[other], items[k]
        return candidates[:size]

    def _block_curvature(self):
        """The diagonal of K_WW, which damping makes positive semidefinite."""
        return self.curvature[self.rows] + self.damping * self.sizes[self.rows]

    def _scale_block(self):
        """Make K_WW that of the changes divided by `units`: single steps need curvatures of 1."""
        curvature = self._block_curvature()
        self.units = np.ones(len(curvature))
        if not self.objective.keeps_sum and (curvature != 1).any():
            self.units = 1 / np.sqrt(curvature)
            self._multiply_by_units()
        self._set_diagonal(curvature * self.units**2)

    def _multiply_by_units(self):
        cdef float[:, ::1] values = self.values
        cdef Py_ssize_t n_rows = len(self.rows), n_threads = self.objective.n_threads, i, k
        padded = np.ones(values.shape[1], dtype=np.float32)
        padded[:n_rows] = self.units
        cdef float[::1] units = padded
        for i in prange(n_rows, nogil=True, schedule="static", num_threads=n_threads):
            for k in range(units.shape[0]):
                values[i, k] *= units[i] * units[k]

    def _set_diagonal(self, const double[::1] diagonal):
        cdef float[:, ::1] values = self.values
        cdef Py_ssize_t i
        for i in range(diagonal.shape[0]):
            values[i, i] = <float> diagonal[i]

    def _begin_ascent(self):
        """Copy what the ascent needs of W."""
        arrays = self.inner = np.zeros((N_ARRAYS, self.values.shape[1]), dtype=np.float32)
        self._set_inner(arrays)
        if self.objective.shift > 0:    # the intercept comes last, and has no ends
            count = len(self.rows)
            arrays[LOW, count], arrays[HIGH, count] = -INFINITY, INFINITY
            arrays[KINK, count], arrays[CURVATURE, count] = INFINITY, self.objective.shift
        self._set_problem(self.values, arrays)
        self._set_ends()
        self.inner_steps = 0
        self.phase = ASCEND

    def _set_inner(self, float[:, ::1] inner):
        cdef const double[::1] v = self.coefficients, slopes = self.slopes, units = self.units
        cdef const double[::1] low = self.low, high = self.high
        cdef const int64_t[::1] rows = self.rows
        cdef const float[:, ::1] values = self.values
        cdef double g, pull, side, unit, epsilon = self.epsilon
        cdef Py_ssize_t i, k
        with nogil:
            for k in range(rows.shape[0]):
                i, unit = rows[k], units[k]
                g = slopes[i]
                pull = g if v[i] == 0 else v[i]
                side = 1 if pull > 0 else (-1 if pull < 0 else 0)
                inner[GRADIENT, k] = <float> ((g - epsilon * side) * unit)
                inner[LOW, k] = <float> ((low[i] - v[i]) / unit)
                inner[HIGH, k] = <float> ((high[i] - v[i]) / unit)
                inner[KINK, k] = <float> (-v[i] / unit)
                inner[ABOVE, k] = <float> (epsilon * (1 - side) * unit)
                inner[BELOW, k] = <float> (epsilon * (1 + side) * unit)
                inner[CURVATURE, k] = values[k, k]

    def _set_problem(self, const float[:, ::1] values, float[:, ::1] inner):
        """Let the problem be that of the arrays, which stay where they are."""
        self.problem.size = values.shape[1]
        self.problem.has_kinks = self.epsilon > 0
        self.problem.values = &values[0, 0]
        self.problem.change, self.problem.gradient = &inner[CHANGE, 0], &inner[GRADIENT, 0]
        self.problem.low, self.problem.high = &inner[LOW, 0], &inner[HIGH, 0]
        self.problem.kink = &inner[KINK, 0]
        self.problem.above, self.problem.below = &inner[ABOVE, 0], &inner[BELOW, 0]
        self.problem.curvature = &inner[CURVATURE, 0]

    def _set_ends(self):
        """Set the gains where the ascent ends."""
        cdef float largest = 0
        self.ascend(&self.problem, 0, 0, &largest)
        self.end_gain = largest * <float> self.end
        self.late_gain = largest * <float> self.late_end

    def _take_steps(self):
        """Go on with the ascent, beyond its end for as long as calls take; True when it is done."""
        cdef panel_problem* problem = &self.problem
        cdef Py_ssize_t step_work = self.reads_per_step * problem.size
        # what the calls of another round would take
        cdef Py_ssize_t steps_of_a_round = <Py_ssize_t> (CALLS / step_work)
        cdef Py_ssize_t most = STEPS_PER_ROW * len(self.rows), taken
        cdef Py_ssize_t limit = min(
            most - self.inner_steps, 1 + WORK_PER_CALL // problem.size)
        cdef float largest = 0
        with nogil:
            taken = self.ascend(problem, limit, self.end_gain, &largest)
            if taken < limit and self.late_gain < self.end_gain:
                taken += self.ascend(
                    problem, min(limit - taken, steps_of_a_round), self.late_gain, &largest)
        self.inner_steps += taken
        self.n_steps += taken
        self.inner_work += taken * step_work
        return taken < limit or self.inner_steps == most

    def _end_ascent(self):
        """Let the coefficients go to where the ascent has come."""
        target, reached = self.coefficients.copy(), self._reached()
        if np.isfinite(reached).all():    # else K_WW, rounded, is indefinite: others take over
            target[self.rows] = reached
        if self.objective.free_intercept:
            self._restore_sum(target)
        if self.value_of_zeros < INFINITY:
            self.before = self.coefficients.copy(), self.margins.copy(), self.constant
        self._change(np.flatnonzero(target != self.coefficients), target)

    def _reached(self):
        """Return what the ascent made of v_W, exactly at an end or at 0 where it says so."""
        cdef const double[::1] v = self.coefficients, units = self.units
        cdef const double[::1] low = self.low, high = self.high
        cdef const int64_t[::1] rows = self.rows
        cdef const float[:, ::1] inner = self.inner
        cdef double[::1] reached = np.empty(rows.shape[0])
        cdef double u
        cdef Py_ssize_t i, k
        cdef bint has_kinks = self.epsilon > 0
        with nogil:
            for k in range(rows.shape[0]):
                i = rows[k]
                u = v[i] + inner[CHANGE, k] * units[k]
                if has_kinks and inner[KINK, k] == 0:
                    u = 0
                if u < low[i] or inner[LOW, k] == 0:
                    u = low[i]
                if u > high[i] or inner[HIGH, k] == 0:
                    u = high[i]
                reached[k] = u
        return reached.base

    def _restore_sum(self, target):
        """Take what float32 added to sum v off the coefficient farthest from its ends."""
        rows, excess = self.rows, target.sum()
        v = target[rows]
        widest = rows[np.minimum(v - self.low[rows], self.high[rows] - v).argmax()]
        target[widest] = min(max(target[widest] - excess, self.low[widest]), self.high[widest])

    def _change(self, rows, target):
        """Let the coefficients of these rows go to their targets."""
        self.changed, self.target, self.position = rows, target, 0
        self.phase = UPDATE

    def _update(self, limit):
        """Change some rows; False if that would exceed the limit."""
        by_block = self._block_serves()
        step = len(self.changed) if by_block else self.objective.rows.rows_per_call
        rows = self.changed[self.position:self.position + step]
        cost = 0 if by_block else len(rows) * self.objective.n_rows
        if self.accesses + cost > limit:
            return False
        changes = self.target[rows] - self.coefficients[rows]
        if by_block:
            self._add_block_product()
        else:
            self.objective.rows.add_product(
                rows, changes[np.newaxis], self.margins[np.newaxis], self.objective.n_threads)
        self.coefficients[rows] = self.target[rows]
        if self.objective.shift:    # that of the model, whose sum rounds in its own way
            constant = self.objective.shift * np.sum(self.coefficients)
            self.margins += constant - self.constant
            self.constant = constant
        self.moved += self.objective.square_of(changes, rows)
        self.accesses += cost
        self.position += len(rows)
        PyErr_CheckSignals()
        return True

    def _block_serves(self):
        """Whether changes are multiplied by K_WW: it is read whole, so few are faster anew.

        Not where it is in `units`, or rounded and the margins are not.
        """
        cdef Py_ssize_t n = self.objective.n_rows
        if not self.objective.keeps_sum or self.objective.is_exact or self.rows is None:
            return False
        return len(self.rows) == n and 2 * len(self.changed) >= n

    def _add_block_product(self):
        """Change all rows by K_WW, whose diagonal is the kernel's meanwhile."""
        diagonal = self.values.diagonal()[:self.objective.n_rows].astype(np.float64)
        self._set_diagonal(self.objective.diagonal())
        self.objective.rows.add_product_of(
            self.values, (self.target - self.coefficients)[np.newaxis], self.margins[np.newaxis],
            self.objective.n_threads)
        self._set_diagonal(diagonal)

    def model(self):
        """Return the coefficients and the intercept."""
        return self.objective.model(self.coefficients, self.intercept)

    def certify(self, rounded):
        """Return the model and its certificate (see `_drive`)."""
        objective = self.objective
        intercept = objective.best_intercept(self.margins)
        primal, dual = objective.values(self.coefficients, self.margins, intercept)
        dual = objective.certified(
            primal, dual, self.coefficients, self.margins, intercept, self.moved)
        self.indefinite |= isnan(dual)
        return objective.model(self.coefficients, intercept), primal, dual
