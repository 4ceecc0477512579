"""The generic sublinear primal-dual method, with its building blocks.

Paper: Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010), Figure 4.

Objective: max over x in K of min over i of c_i(x), c_i concave.

    x = where the low-regret step starts
    for t = 1, 2, ..:
        v = Sample(x, c), clipped to 1 / eta
        multiply p(i) by 1 - eta v(i) + eta^2 v(i)^2
        draw a row i by p;  x = LowRegret(x, c_i)

Low-regret steps and samplers are objects of a user's, or those compiled here:

    BallStep     |x| <= R       y += A_i * step, x = y shortened to R
    SimplexStep  simplex        multiply x_j by 1 + eta g_j + eta^2 g_j^2, g = A_i
    MeanStep     R^d            x = mean of the rows drawn, for c_i(x) = b_i + 2 <A_i, x> - |x|^2
    L2Sampler    any x          draw j by x_j^2, read column j:  v(i) = A_ij |x|^2 / x_j
    L1Sampler    any x          draw j by |x_j|:                 v(i) = A_ij |x|_1 sign(x_j)

Cost per step: n + d, and the stored entries of a row and a column.

Departures: eta is a parameter; rows are drawn by the weights after their update, which are those
averaged; rounds of doubling length go on, weights from the means of the last round.
"""
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport fabs, log, sqrt
from numpy.random cimport bitgen_t

import numpy as np

from sublinear._core.aligned import contiguous, read_only
from sublinear._core.dense_lines cimport dense_add64, dense_squares64
from sublinear._core.flat_sampler cimport Draw, FlatSampler, draw_entries, sum_blocks
from sublinear._core.line cimport Line, add, entry_index, entry_value, line_at, line_size
from sublinear._core.matrix cimport Matrix
from sublinear._core.random cimport RandomBits, uniform
from sublinear._core.rounds cimport Rounds, begin_longer, first_round, is_over
from sublinear._core.saddle_solver cimport SaddleSolver
from sublinear._core.sweeps cimport (
    TINY, dual_step, in_range, multiply_weights, sum_of, variance_bounded,
)

from sublinear._core.matrix import NotFinite


cdef class ReadsValues:
    """What low-regret steps and samplers share: their counters.

    Attributes
    ----------
    accesses : int
        Values read so far; add to it what a call reads.
    full_accesses : int
        The same with every line charged in full.
    most_accesses : int
        The most that one step, or one sample, reads; -1 if that is not known. `max_accesses` needs
        it.
    """
    cdef public Py_ssize_t accesses, full_accesses, most_accesses

    def __cinit__(self, *arguments, **named):
        self.most_accesses = -1


cdef class LowRegretStep(ReadsValues):
    """The documentation is that of `sublinear.primal_dual.LowRegretStep`."""

    def start(self, n_steps):
        raise NotImplementedError("a low-regret step needs start(n_steps)")

    def go_on(self, n_steps):
        return None

    def step(self, i):
        raise NotImplementedError("a low-regret step needs step(i)")

    def bound(self, p):
        return np.inf

    def n_steps(self, epsilon):
        return 0


cdef class Sampler(ReadsValues):
    """The documentation is that of `sublinear.primal_dual.Sampler`."""
    cdef public double scale

    def __cinit__(self, *arguments, **named):
        self.scale = 1.0

    def start(self):
        return None

    def sample(self, x, random):
        raise NotImplementedError("a sampler needs sample(x, random)")

    def values(self, x):
        return None

    def deviation(self, x):
        return self.scale


def check_made(block):
    """Raise ValueError for a compiled block whose subclass has not called super().__init__."""
    if isinstance(block, (CompiledStep, CompiledSampler)) and block.matrix is None:
        raise ValueError(f"{type(block).__name__}.__init__ must call super().__init__() with A")


cdef class CompiledStep(LowRegretStep):
    """x = scale * value, moved by rows.

    Parameters
    ----------
    matrix : Matrix
    offsets : ndarray of shape (n_rows,), float64, or None
    rate : float
        Factor on the step size of the theory.
    unit : float or None
        What the step size is measured against, by the subclass; None asks for it, a pass.
    """
    cdef readonly Matrix matrix
    cdef readonly object offsets, unit
    cdef bint computed
    cdef double rate, scale
    cdef object array
    cdef double* value
    cdef Py_ssize_t size

    def __init__(self, Matrix matrix, offsets, double rate, unit):
        cdef double[::1] view
        self.matrix, self.offsets, self.rate, self.unit = matrix, offsets, rate, unit
        self.computed = matrix.is_computed
        self.size = matrix.n_columns
        self.array = np.zeros(self.size)
        view = self.array
        self.value = &view[0]
        self.most_accesses = matrix.longest_row

    @property
    def x(self):
        return self.scale * self.array

    def step(self, i):
        check_made(self)
        if self.computed:
            self.matrix.hold((i,))
        self.move(self.matrix.checked_row(i))

    cdef void move(self, Py_ssize_t i) noexcept nogil:
        self.accesses += line_size(&self.matrix.rows, i)
        self.full_accesses += self.size

    def _measured(self, measure):
        """The unit, by a pass the first time if it was not given."""
        if self.unit is None:
            self.unit = measure() or 1.0
            self.accesses += self.matrix.n_stored
        return self.unit

    def _gradient(self, p):
        """Return A'p and p'b; rows of weight 0 are not read."""
        cdef const Py_ssize_t[::1] rows = np.flatnonzero(p)
        cdef Py_ssize_t k
        gradient = np.zeros(self.size)
        self.matrix.add_rows(p[rows.base], rows.base, gradient)
        for k in range(rows.shape[0]):
            self.accesses += line_size(&self.matrix.rows, rows[k])
        self.full_accesses += rows.shape[0] * self.size
        return gradient, 0.0 if self.offsets is None else float(p @ self.offsets)


def check_length(length, n_columns):
    """Raise ValueError unless an x of this length has an entry for every column."""
    if length != n_columns:
        raise ValueError(f"x has {length} entries, A has {n_columns} columns")


cdef class BallStep(CompiledStep):
    """Online gradient ascent in the ball of a radius, lazily projected."""
    cdef double radius, step_length

    def __init__(self, Matrix matrix, offsets, double rate, unit, double radius):
        CompiledStep.__init__(self, matrix, offsets, rate, unit)
        self.radius = radius

    def start(self, n_steps):
        self.array[:] = 0
        self.go_on(n_steps)

    def go_on(self, n_steps):
        unit = self._measured(self.matrix.largest_norm)
        self.matrix.check_underflow(unit * unit)
        self.step_length = self.rate * self.radius / (unit * np.sqrt(2 * n_steps))
        self._project()

    cdef void move(self, Py_ssize_t i) noexcept nogil:
        cdef Line row = line_at(&self.matrix.rows, i)
        CompiledStep.move(self, i)
        add(&row, 1.0, self.value)
        self._project()

    cdef void _project(self) noexcept nogil:
        cdef double square = dense_squares64(self.value, self.size)
        self.scale = self.step_length
        if self.scale * sqrt(square) > self.radius:
            self.scale = self.radius / sqrt(square)

    def bound(self, p):
        gradient, known = self._gradient(p)
        return known + self.radius * float(np.linalg.norm(gradient))

    def n_steps(self, epsilon):
        # the regret of T steps is at most 2 R G sqrt(2 T) for rows of length G
        ratio = self.radius * self._measured(self.matrix.largest_norm) / epsilon
        return 8 * ratio * ratio  # which may be inf, where ratio ** 2 would raise OverflowError


cdef class SimplexStep(CompiledStep):
    """Multiplicative weights in the simplex; a further round begins at the mean of the last one."""
    cdef double eta
    cdef double[::1] total           # of x over the round
    cdef Py_ssize_t count

    def __init__(self, Matrix matrix, offsets, double rate, unit):
        CompiledStep.__init__(self, matrix, offsets, rate, unit)
        self.total = np.zeros(self.size)

    def start(self, n_steps):
        self.array[:] = 1.0 / self.size
        self.scale = 1
        self.total[:] = 0
        self.count = 0
        self.go_on(n_steps)

    def go_on(self, n_steps):
        if self.count > 0:
            self.array[:] = self.total
            self.array /= self.array.sum()
            self.scale = 1
            self.total[:] = 0
            self.count = 0
        unit = self._measured(self.matrix.largest_entry)
        self.eta = self.rate * np.sqrt(np.log(max(2, self.size)) / n_steps) / unit

    cdef void move(self, Py_ssize_t i) noexcept nogil:
        cdef Line row = line_at(&self.matrix.rows, i)
        cdef Py_ssize_t k, j
        cdef double weight
        CompiledStep.move(self, i)
        self.count += 1
        dense_add64(self.value, self.scale, &self.total[0], self.size)
        for k in range(row.size):
            j = entry_index(&row, k)
            weight = self.value[j] * variance_bounded(-self.eta * entry_value(&row, k))
            self.value[j] = max(weight, TINY)
        self.scale = 1 / in_range(self.value, sum_of(self.value, self.size), self.size)

    def bound(self, p):
        gradient, known = self._gradient(p)
        return known + float(gradient.max())

    def n_steps(self, epsilon):
        # the regret of T steps is at most 2 G sqrt(T log d) for entries up to G
        ratio = self._measured(self.matrix.largest_entry) / epsilon
        return 4 * log(max(2, self.size)) * ratio * ratio


cdef class MeanStep(CompiledStep):
    """Follow the leader for c_i(x) = b_i + 2 <A_i, x> - |x|^2: the mean of the rows drawn."""
    cdef Py_ssize_t count

    def start(self, n_steps):
        self.array[:] = 0
        self.count = 0
        self.scale = 1

    cdef void move(self, Py_ssize_t i) noexcept nogil:
        cdef Line row = line_at(&self.matrix.rows, i)
        CompiledStep.move(self, i)
        add(&row, 1.0, self.value)
        self.count += 1
        self.scale = 1.0 / self.count

    def bound(self, p):
        gradient, known = self._gradient(p)
        return known + float(gradient @ gradient)

    def n_steps(self, epsilon):
        # the regret of T steps is at most 4 G^2 (1 + log T) for rows of length G
        unit = self._measured(self.matrix.largest_norm)
        ratio = 4 * unit * unit / epsilon
        steps = max(1.0, ratio)
        while ratio * (1 + log(steps)) > steps:
            steps *= 1.25
        return steps


cdef class CompiledSampler(Sampler):
    """Estimates of b_i + <A_i, x>, quadratic: of b_i + 2 <A_i, x> - |x|^2, from one column.

    Parameters
    ----------
    matrix : Matrix
    offsets : ndarray of shape (n_rows,), float64, or None
    quadratic : bool
    squared : bool
        Columns are drawn by x_j^2, not by |x_j|.
    scale : float or None
        About the largest |c_i(x)|; None: that of x of length 1, quadratic: of the longest row's, by
        a pass.
    """
    cdef readonly Matrix matrix, columns
    cdef readonly object offsets
    cdef readonly Py_ssize_t n_rows
    cdef bint quadratic, squared, computed, measured
    cdef FlatSampler sampler
    cdef const double[::1] known
    cdef Py_ssize_t size
    cdef double factor, square, longest

    def __init__(self, Matrix matrix, offsets, bint quadratic, bint squared, scale):
        self.longest = -1                # not known
        self.matrix, self.columns = matrix, matrix.transposed()
        self.quadratic, self.squared, self.offsets = quadratic, squared, offsets
        self.known = np.zeros(matrix.n_rows) if offsets is None else offsets
        self.computed = matrix.is_computed
        self.n_rows, self.size = matrix.n_rows, matrix.n_columns
        self.sampler = FlatSampler(self.size)
        self.most_accesses = self.columns.longest_row
        self.measured = scale is not None
        if self.measured:
            self.scale = scale

    def start(self):
        if self.measured:
            return
        dense = self.squared or self.quadratic
        measure = self.matrix.largest_norm if dense else self.matrix.largest_entry
        self.longest = longest = measure()
        self.accesses += self.matrix.n_stored
        known = 0.0 if self.offsets is None else float(np.abs(self.offsets).max())
        self.scale = max(longest**2 if self.quadratic else longest, known) or 1.0
        self.measured = True

    def sample(self, x, random):
        cdef const double[::1] point = contiguous(x, dtype=np.float64)
        cdef bitgen_t* bits = <bitgen_t*> PyCapsule_GetPointer(
            random.bit_generator.capsule, "BitGenerator")
        cdef Py_ssize_t j
        cdef double[::1] out
        check_made(self)
        out = np.empty(self.n_rows)
        check_length(point.shape[0], self.size)
        j = self.draw(&point[0], 1.0, bits)
        if self.computed and j >= 0:
            self.columns.hold((j,))
        self.estimate(j, &out[0])
        return np.asarray(out)

    cdef Py_ssize_t draw(self, const double* value, double scale, bitgen_t* bits) noexcept nogil:
        """Draw a column for x = scale * value; -1 if x is 0."""
        cdef double* chance = self.sampler.sums.chance
        cdef double entry, square = 0
        cdef Py_ssize_t j
        cdef Draw drawn
        for j in range(self.size):
            entry = scale * value[j]
            square += entry * entry
            chance[j] = entry * entry if self.squared else fabs(entry)
        self.square = square
        if not sum_blocks(&self.sampler.sums) > 0:
            return -1
        drawn = draw_entries(&self.sampler.sums, uniform(bits))
        self.factor = scale * value[drawn.start] / drawn.share
        return drawn.start

    cdef void estimate(self, Py_ssize_t j, double* out) noexcept nogil:
        """What column j says of every c_i(x), x that of the draw."""
        cdef Py_ssize_t i
        cdef double shift = self.square if self.quadratic else 0
        cdef Line column
        for i in range(self.n_rows):
            out[i] = self.known[i] - shift
        if j >= 0:
            column = line_at(&self.columns.rows, j)
            add(&column, self.factor * (2 if self.quadratic else 1), out)
            self.accesses += column.size
            self.full_accesses += self.n_rows

    def values(self, x):
        x = contiguous(x, dtype=np.float64)
        result = self.matrix.row_dots(x, np.arange(self.n_rows))
        self.accesses += self.matrix.n_stored
        self.full_accesses += self.n_rows * self.size
        if self.quadratic:
            result = 2 * result - x @ x
        return result if self.offsets is None else result + self.offsets

    def deviation(self, x):
        # A_ij |x|^2 / x_j and A_ij |x|_1 are no farther from their mean
        if self.longest < 0:
            return self.scale
        return (2 if self.quadratic else 1) * self.longest * float(
            np.linalg.norm(x, 2 if self.squared else 1))


def checked(values, size, what):
    """Return what a user's object returned as float64; ValueError unless finite and of a size."""
    if np.iscomplexobj(values):
        raise ValueError(f"{what} must be real numbers, got complex ones")
    try:
        array = contiguous(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be real numbers: {error}") from error
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        shape = "one-dimensional" if size is None else f"of shape ({size},)"
        raise ValueError(f"{what} must be {shape}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{what} must be finite, got NaN or infinity: does the data hold them, or sums that "
            "leave the range of floating-point numbers?")
    return array


cdef class GenericPrimalDual(SaddleSolver):
    """Figure 4, in rounds.

    Parameters
    ----------
    problem : object
        Has `certificate(x, p)`, which returns a primal and a dual value of a minimisation, and
        `accesses`, what the blocks have read for certificates.
    low_regret : LowRegretStep
        Started.
    sampler : Sampler
        Started.
    random : RandomBits
    dual_rate : float
        eta is dual_rate * sqrt(log(n) / T), at most 0.3, in units of the sampler's scale.
    round_steps : int
        T, the steps of the first round.
    growth : int
        By what factor rounds grow; 1: there is one round only.
    max_steps : int
        A round ends there, whatever its length.
    by_draws : bool
        Certificates are given the shares of the rows drawn in the round, of which few differ from
        0, in place of the mean of p.

    Attributes
    ----------
    n_iter : int
        Steps.
    """
    cdef readonly LowRegretStep low_regret
    cdef readonly Sampler sampler
    cdef readonly Py_ssize_t n_iter
    cdef RandomBits random
    cdef object generator, x
    cdef bint compiled
    cdef CompiledStep fast_step
    cdef CompiledSampler fast_sampler
    cdef FlatSampler weights
    cdef double[::1] p_sum, x_sum, estimates, counts
    cdef bint by_draws
    cdef Rounds rounds
    cdef Py_ssize_t n, d, most
    cdef Py_ssize_t accesses_before, full_before
    cdef double dual_rate, eta, total, seen

    def __init__(
        self, problem, LowRegretStep low_regret, Sampler sampler, RandomBits random, *,
        double dual_rate, Py_ssize_t round_steps, Py_ssize_t growth=2,
        Py_ssize_t max_steps=2**62, bint by_draws=False
    ):
        super().__init__(problem)
        self.low_regret, self.sampler = low_regret, sampler
        self.random = random
        self.generator = np.random.Generator(random.bit_generator)
        self.n = sampler.n_rows
        self.x = read_only(checked(
            low_regret.x, None, "the point x of the low-regret step").copy())
        self.d = len(self.x)
        if isinstance(low_regret, CompiledStep) and low_regret.matrix.n_rows != self.n:
            raise ValueError(
                f"the sampler has {self.n} rows, the low-regret step {low_regret.matrix.n_rows}")
        if isinstance(sampler, CompiledSampler):
            check_length(self.d, sampler.matrix.n_columns)
        self.compiled = runs_compiled(low_regret, sampler)
        if self.compiled:
            self.fast_step, self.fast_sampler = low_regret, sampler
        self.weights = FlatSampler(self.n)
        self.weights.chances[:] = 1.0 / self.n
        self.total = 1
        self.p_sum, self.x_sum = np.zeros(self.n), np.zeros(self.d)
        self.estimates, self.counts = np.zeros(self.n), np.zeros(self.n)
        self.by_draws = by_draws
        self.dual_rate = dual_rate
        self.rounds = first_round(round_steps, growth, max_steps)
        self.most = max(0, low_regret.most_accesses) + max(0, sampler.most_accesses)
        self.accesses_before = low_regret.accesses + sampler.accesses - problem.accesses
        self.full_before = (
            low_regret.full_accesses + sampler.full_accesses - problem.full_accesses)
        self._begin_round()

    def _begin_round(self):
        """Begin new means."""
        self.p_sum[:] = 0
        self.x_sum[:] = 0
        self.counts[:] = 0
        self.eta = dual_step(self.dual_rate, self.n, self.rounds.length) / self.sampler.scale

    cdef Py_ssize_t _read(self) noexcept nogil:
        return self.low_regret.accesses + self.sampler.accesses

    @property
    def accesses(self):
        """Values that the blocks have read, but for certificates."""
        return self._read() - self.accesses_before - self.problem.accesses

    @property
    def full_accesses(self):
        """The same with every line charged in full."""
        read = self.low_regret.full_accesses + self.sampler.full_accesses
        return read - self.full_before - self.problem.full_accesses

    @property
    def work(self):
        """Values read, and n + d for every step."""
        return self.accesses + (self.n + self.d) * self.n_iter

    def advance(self, Py_ssize_t limit):
        """Go on until the round ends, then return True, or until a step might exceed `limit`."""
        cdef bint ended
        cdef Py_ssize_t room
        if is_over(&self.rounds):
            if not begin_longer(&self.rounds):
                return True
            self.low_regret.go_on(self.rounds.length)
            self._look_at_x()
            # the last weights may be too small to return by smaller steps
            self.weights.chances[:] = np.asarray(self.p_sum) / np.sum(self.p_sum)
            self.total = 1
            self._begin_round()
        room = limit - self.accesses
        if not self.compiled:
            return self._take_python_steps(room)
        with nogil:
            ended = self._take_steps(room)
        return ended

    cdef bint _take_steps(self, Py_ssize_t room) noexcept nogil:
        """Steps to the end of the round, then True, or until one might read more than `room`."""
        cdef Py_ssize_t last = self._read() + room - self.most, j
        while not is_over(&self.rounds):
            if self._read() > last:
                return False
            j = self.fast_sampler.draw(
                self.fast_step.value, self.fast_step.scale, self.random.bits)
            self.fast_sampler.estimate(j, &self.estimates[0])
            self._reweight()
            self._add_to_means(self.fast_step.value, self.fast_step.scale)
            self.fast_step.move(self._draw_row())
        return True

    def _take_python_steps(self, Py_ssize_t room):
        """The same where a block is a user's, or lines have to be asked for."""
        cdef const double[::1] x
        before = self.accesses
        while not is_over(&self.rounds):
            if self.accesses - before + self.most > room:
                return False
            PyErr_CheckSignals()
            x = self.x
            self.estimates = checked(
                self.sampler.sample(self.x, self.generator), self.n,
                "what the sampler's sample() returns").copy()
            self._reweight()
            self._add_to_means(&x[0], 1.0)
            self.low_regret.step(self._draw_row())
            self._look_at_x()
        return True

    def _look_at_x(self):
        if not self.compiled:
            self.x = read_only(checked(
                self.low_regret.x, self.d, "the point x of the low-regret step").copy())

    cdef void _reweight(self) noexcept nogil:
        self.seen += sum_of(&self.estimates[0], self.n)
        self.total = multiply_weights(
            self.weights.sums.chance, &self.estimates[0], self.eta, self.n)

    cdef void _add_to_means(self, const double* value, double scale) noexcept nogil:
        dense_add64(self.weights.sums.chance, 1 / self.total, &self.p_sum[0], self.n)
        dense_add64(value, scale, &self.x_sum[0], self.d)
        self.rounds.taken += 1
        self.n_iter += 1

    cdef Py_ssize_t _draw_row(self) noexcept nogil:
        cdef Py_ssize_t i
        sum_blocks(&self.weights.sums)
        i = draw_entries(&self.weights.sums, uniform(self.random.bits)).start
        self.counts[i] += 1
        return i

    def means(self):
        """Return the means of x and p over this round, as new arrays (float64)."""
        if not np.isfinite(self.seen):
            raise NotFinite(
                "A holds values whose sums leave the range of floating-point numbers")
        steps = self.rounds.taken
        if steps == 0:
            x = np.array(self.low_regret.x, dtype=np.float64)
            return x, self.weights.chances / self.total
        return np.asarray(self.x_sum) / steps, np.asarray(self.p_sum) / steps

    def certify(self, rounded):
        """Return the mean of x, its primal value and the best dual value so far."""
        x, p = self.means()
        if self.by_draws and self.rounds.taken > 0:
            p = np.asarray(self.counts) / self.rounds.taken
        primal, dual = self.problem.certificate(x, p)
        self.take_dual(dual, p)
        return x, primal, self.best_dual


def runs_compiled(low_regret, sampler):
    """Tell whether no step needs the interpreter: blocks compiled here, not overridden."""
    kinds = type(low_regret), type(sampler)
    if not issubclass(kinds[0], CompiledStep) or not issubclass(kinds[1], CompiledSampler):
        return False
    if kinds[0].step is not CompiledStep.step or kinds[1].sample is not CompiledSampler.sample:
        return False
    if kinds[0].x is not CompiledStep.x:
        return False
    return not (low_regret.matrix.is_computed or sampler.matrix.is_computed)
