"""The sublinear perceptron and enclosing ball by passes, in memory that knows neither n nor d.

Paper: Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010), section V;
what is streamed are Figure 3 and Algorithm Sublinear MEB.

Objectives, for rows A_i of norm at most 1 (perceptron: times their label):

    max over |x| <= 1 of min over i of <A_i, x>;        min over x of max over i of |A_i - x|^2

    step s:  p(i) = exp(-+ eta (sum_{r < s} v_r(i) + 2 v_{s - 1}(i))), made again from what is kept
             draw b rows from p while they pass by                             (weighted reservoirs)
             sketch x_s, a multiple of the sum over r of r times the rows drawn in step r before
             draw b coordinates from it
        once more:  read x_s at the coordinates that may be those drawn
             keep (j, |x_s|^2 / x_s(j)) of each:    v_s(i) = their mean of A_i(j) |x_s|^2 / x_s(j)
             for the ball:                          v_s(i) = |A_i|^2 - 2 (this mean) + |x_s|^2
    result:  sum_s s x_s / sum_s s

Cost per step: two passes; in the first, b values of every row for every step before, those of one
coordinate found together, and the stored entries of the rows drawn, times the depth of b sketches;
d times that to find the coordinates.

Departures from the paper:

- b rows and b coordinates in a step instead of one, so T draws take T / b steps;
- exponential variables in the sampler, which make it exact, and a second pass instead of an
  estimate of x_s(j); |x_s|^2 is estimated by a CountSketch;
- the ball's primal moves at every step, by b rows; its coin is what sets the paper's number of
  dual steps between two moves;
- later steps weigh more, in x_s and in the result: while the first ones pass, p is nearly uniform,
  and few rows that decide have no weight yet;
- p looks ahead: rows drawn from it are first in x_s two steps after its last v, and count the last
  v as if it came twice more; it would overshoot otherwise;
- exp(-eta v) for 1 - eta v + eta^2 v^2, of which it is the less.
"""
import json

from cython cimport final
from libc.math cimport exp, sqrt
from libc.stdint cimport uint64_t
from libc.string cimport memset

import numpy as np

from sublinear._core.line cimport (
    Line, entry_index, entry_value, is_dense, line_at, squared_norm,
)
from sublinear._core.matrix cimport Matrix
from sublinear._core.random cimport RandomBits, uniform
from sublinear._core.sketch cimport CountSketch, SketchedL2Sampler, mix, squared_norm_estimate
from sublinear._core.states import fill, reading, refusal, restore, saved, take_random

cdef double LOOK_AHEAD = 2                   # steps until rows drawn from p show in v
COUNTS = "n_done", "n_chosen", "accesses", "n_passes", "position", "next_row"
NUMBERS = *COUNTS, "extreme", "shift", "largest", "total"


cdef inline Py_ssize_t first_from(
    const Py_ssize_t[::1] columns, Py_ssize_t low, Py_ssize_t high, Py_ssize_t j
) noexcept nogil:
    """The first place in low .. high - 1 of sorted columns that is not below j, else `high`."""
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low


def weights_of(n_steps):
    """Return what the steps count, the later the more."""
    return np.arange(1.0, n_steps + 1)


cdef class SemiStreaming:
    """The state between two blocks of rows: what was drawn, and the sketches of a pass.

    A pass is `begin_pass`, `look` (or `read`) at every block, `end_look` (or `end_read`).

    Parameters
    ----------
    random : RandomBits
    seed : int
        Of the hash functions.
    ball : bool
    n_columns : int
    n_steps, batch_size : int
    eta, pace : float
        Of the dual and the primal step; the ball has no pace.
    scale : float
        Factor on the rows.
    sketch : tuple of int
        Width and depth of a sampler's sketch, its candidates, and the width of the norm's sketch.

    Attributes
    ----------
    n_done : int
        Steps whose coordinates are known.
    rows, signs : ndarray of shape (n_steps + 1, batch_size)
        The rows drawn, and their labels +1 or -1.
    coordinates, factors : ndarray of shape (n_steps, batch_size)
        The coordinates drawn and |x|^2 / x(j); 0 for none.
    squares, multiples : ndarray of shape (n_steps,)
        |x_s|^2, and what multiple of the sum of rows x_s is.
    accesses : int
        Values of rows read.
    extreme : float
        Of the mean v over the steps, by their weights: its least value in the last pass, the
        largest for the ball.
    """
    cdef readonly object rows, signs, coordinates, factors, squares, multiples
    cdef public Py_ssize_t n_done, n_chosen, accesses, n_passes, position, next_row
    cdef public double extreme, shift, largest, total
    cdef RandomBits random
    cdef uint64_t seed
    cdef bint ball
    cdef Py_ssize_t n_columns, batch_size
    cdef double eta, pace, scale
    cdef list samplers
    cdef CountSketch norm
    cdef Py_ssize_t[:, ::1] row, coordinate
    cdef double[:, ::1] sign, factor, square_of_row
    cdef double[::1] square, threshold, step_weight
    cdef Py_ssize_t[::1] chosen              # sorted rows drawn in earlier steps
    cdef double[::1] multiplicity            # how often, times their sign and the scale
    # draws of coordinates, first_draw[c] .. of column[c]: their steps, factors, and how many alike
    cdef Py_ssize_t[::1] column, first_draw, step_of
    cdef double[::1] factor_of, count_of
    cdef double[::1] parts                   # of a row, by step

    def __init__(
        self, RandomBits random, seed, *, bint ball, Py_ssize_t n_columns, Py_ssize_t n_steps,
        Py_ssize_t batch_size, double eta, double pace, double scale, sketch
    ):
        width, depth, n_candidates, norm_width = sketch
        self.random, self.seed, self.ball = random, seed, ball
        self.n_columns, self.batch_size = n_columns, batch_size
        self.eta, self.pace, self.scale = eta, pace, scale
        self.samplers = [SketchedL2Sampler(width, depth, n_candidates) for _ in range(batch_size)]
        self.norm = CountSketch(norm_width, depth)
        self.rows = np.zeros((n_steps + 1, batch_size), dtype=np.intp)
        self.signs = np.zeros((n_steps + 1, batch_size))
        self.coordinates = np.zeros((n_steps, batch_size), dtype=np.intp)
        self.factors = np.zeros((n_steps, batch_size))
        self.squares, self.multiples = np.zeros(n_steps), np.zeros(n_steps)
        self.row, self.sign = self.rows, self.signs
        self.coordinate, self.factor = self.coordinates, self.factors
        self.square = self.squares
        self.step_weight = weights_of(n_steps + 1)
        self.threshold = np.zeros(batch_size)
        self.square_of_row = np.zeros((n_steps + 1, batch_size))
        self.parts = np.zeros(n_steps)
        self._collect()
        self._sort_coordinates()

    @property
    def n_words(self):
        """Numbers held, those of the block of rows at hand left out."""
        arrays = (
            *self._arrays().values(), self.chosen, self.multiplicity, self.column,
            self.first_draw, self.step_of, self.factor_of, self.count_of, self.parts)
        return sum(np.asarray(array).size for array in arrays)

    def _collect(self):
        """Sort the rows of the steps so far, equal ones together."""
        n = self.n_chosen * self.batch_size
        rows, places = np.unique(self.rows.reshape(-1)[:n], return_inverse=True)
        weights = (self.scale * weights_of(len(self.signs))[:, np.newaxis] * self.signs).reshape(-1)
        self.chosen = rows
        self.multiplicity = np.bincount(places, weights[:n], minlength=len(rows)).astype(float)

    def _sort_coordinates(self):
        """Sort the draws of coordinates by column, equal ones of a step together."""
        drawn = np.flatnonzero(self.factors[:self.n_done])
        draws = np.empty(len(drawn), [("column", np.intp), ("step", np.intp), ("factor", float)])
        draws["column"] = self.coordinates.reshape(-1)[drawn]
        draws["step"], draws["factor"] = drawn // self.batch_size, self.factors.reshape(-1)[drawn]
        alike, counts = np.unique(draws, return_counts=True)
        self.step_of, self.factor_of = alike["step"].copy(), alike["factor"].copy()
        self.count_of = counts.astype(float)
        self.column, begins = np.unique(alike["column"], return_index=True)
        self.first_draw = np.append(begins, len(alike))

    def begin_pass(self):
        """Begin a pass that looks: new reservoirs, new sketches."""
        self.n_passes += 1
        self._restart_sketches()
        self.shift, self.largest = self.largest, -np.inf
        self.threshold[:] = 0
        self.total = 0
        self.extreme = -np.inf if self.ball else np.inf
        self.rewind()

    def _restart_sketches(self):
        cdef uint64_t seed = mix(self.seed + self.n_passes)
        for k, sampler in enumerate(self.samplers):
            sampler.restart(mix(seed + <uint64_t> (k + 1)))
        self.norm.restart(seed)

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        seeds = {"seed": self.seed, "random": json.dumps(self.random.state())}
        return self._arrays() | saved(self, NUMBERS) | seeds

    def set_state(self, state):
        """Go on from a `state()` of a solver made alike, but for its seeds."""
        restore(self, NUMBERS, state)
        with reading(state, "seed") as seed:
            self.seed = seed
        take_random(state, self.random)
        self._restart_sketches()
        fill(self._arrays(), state)
        self.position = max(0, self.position)
        columns = [self.coordinates, *(sampler.candidate for sampler in self.samplers)]
        n_steps = self.coordinate.shape[0]
        within = self.n_done <= n_steps and 0 <= self.n_done <= self.n_chosen <= n_steps + 1
        if not (within and all(
                np.all((0 <= np.asarray(j)) & (np.asarray(j) < self.n_columns)) for j in columns)):
            raise refusal(state, "coordinates", "are not those of these steps and columns")
        self._collect()
        self._sort_coordinates()

    def _arrays(self):
        """Return what is held but for single numbers, and what follows from it."""
        arrays = {
            "rows": self.rows,
            "signs": self.signs,
            "coordinates": self.coordinates,
            "factors": self.factors,
            "squares": self.squares,
            "multiples": self.multiples,
            "threshold": self.threshold,
            "square_of_row": self.square_of_row,
            "norm": self.norm.array,
        }
        for k, sampler in enumerate(self.samplers):
            arrays[f"sampler {k}"] = sampler.sketch.array
            for name in ("candidate", "value", "size"):
                arrays[f"{name} {k}"] = getattr(sampler, name)
        return {name: np.asarray(array) for name, array in arrays.items()}

    def rewind(self):
        """Begin to read the rows from the first one."""
        self.position = self.next_row = 0

    def look(self, Matrix matrix, const double[::1] signs, Py_ssize_t start, Py_ssize_t stop):
        """Rows [start, stop) of a block pass by: draw from them, sketch those drawn before."""
        cdef Py_ssize_t i = start
        cdef bint draws = self.n_chosen < self.row.shape[0], chosen = False
        cdef double sign, square
        cdef Line x
        cdef SketchedL2Sampler sampler
        while i < stop:
            with nogil:
                while i < stop and not chosen:
                    x = line_at(&matrix.rows, i)
                    sign = signs[i]
                    square = 0
                    if self.ball:
                        square = squared_norm(&x) * self.scale * self.scale
                        self.accesses += x.size
                    self._pass_by(&x, sign, square, draws)
                    chosen = self._was_chosen()
                    self.next_row += 1
                    i += 1
            if chosen:
                chosen = False
                for sampler in self.samplers:
                    sampler.add_line(&x, self.multiplicity[self.position - 1])
                self.norm.add_line(&x, self.multiplicity[self.position - 1])
                self.accesses += x.size

    cdef void _pass_by(self, const Line* x, double sign, double square, bint draws) noexcept nogil:
        """Weigh a row; it may replace rows of the reservoirs."""
        cdef double mean_v = 0, weight = self._log_weight(x, sign, square, &mean_v)
        cdef Py_ssize_t k
        if self.ball:
            self.extreme = max(self.extreme, mean_v)
        else:
            self.extreme = min(self.extreme, mean_v)
        self.largest = max(self.largest, weight)
        if not draws:
            return
        self.total += exp(weight - self.shift)
        for k in range(self.batch_size):
            if self.total > self.threshold[k]:
                # the sum at which the next one replaces it: P(none until S) = total / S
                self.threshold[k] = self.total / (1 - uniform(self.random.bits))
                self.row[self.n_chosen, k] = self.next_row
                self.sign[self.n_chosen, k] = sign
                self.square_of_row[self.n_chosen, k] = square

    cdef double _log_weight(
        self, const Line* x, double sign, double square, double* mean_v
    ) noexcept nogil:
        """log p(i) up to a constant, and the mean of v_s(i) over the steps so far."""
        cdef double limit = 1 / self.eta, mean = 0, total = 0, weights = 0, last = 0, v
        cdef Py_ssize_t s
        self._add_parts(x, sign * self.scale, limit)
        for s in range(self.n_done):
            v = self.parts[s] / self.batch_size
            if self.ball:
                v = square - 2 * v + self.square[s]
            mean += self.step_weight[s] * v
            weights += self.step_weight[s]
            last = min(limit, max(-limit, v))
            total += last
        self.accesses += self.n_done * self.batch_size
        mean_v[0] = mean / max(1, weights)
        total = self.eta * (total + LOOK_AHEAD * last)
        return total if self.ball else -total

    cdef void _add_parts(self, const Line* x, double scale, double limit) noexcept nogil:
        """parts[s] = sum over the draws (j, f) of step s of f scale x(j), each within the limit"""
        cdef Py_ssize_t n = self.column.shape[0], c = 0, k, j
        memset(&self.parts[0], 0, self.n_done * sizeof(double))
        if is_dense(x.storage):
            for c in range(n):
                self._add_value(c, scale * entry_value(x, self.column[c]), limit)
            return
        for k in range(x.size):
            j = entry_index(x, k)
            c = first_from(self.column, c, n, j)
            if c == n:
                return
            if self.column[c] == j:
                self._add_value(c, scale * entry_value(x, k), limit)

    @final
    cdef void _add_value(self, Py_ssize_t c, double value, double limit) noexcept nogil:
        cdef Py_ssize_t k
        cdef double part
        for k in range(self.first_draw[c], self.first_draw[c + 1]):
            part = min(limit, max(-limit, self.factor_of[k] * value))
            self.parts[self.step_of[k]] += self.count_of[k] * part

    cdef bint _was_chosen(self) noexcept nogil:
        """Tell whether the next row was drawn before; `position` is then one after its place."""
        if self.position < self.chosen.shape[0] and self.chosen[self.position] == self.next_row:
            self.position += 1
            return True
        return False

    def end_look(self):
        """All rows have passed by: those in the reservoirs are drawn; candidates are known."""
        for sampler in self.samplers:
            sampler.find(self.n_columns)

    def read(self, Matrix matrix, Py_ssize_t start, Py_ssize_t stop):
        """Rows [start, stop) of a block pass by once more: the candidates' values."""
        cdef Py_ssize_t i
        cdef Line x
        cdef SketchedL2Sampler sampler
        for i in range(start, stop):
            if self._was_chosen():
                x = line_at(&matrix.rows, i)
                for sampler in self.samplers:
                    sampler.add_candidates(&x, self.multiplicity[self.position - 1])
                    self.accesses += sampler.candidate.shape[0]
            self.next_row += 1

    def end_read(self):
        """Keep the coordinates that the samplers drew, and what their values mean."""
        cdef double square = squared_norm_estimate(&self.norm.counters), multiple
        cdef Py_ssize_t s = self.n_done, k, best
        cdef SketchedL2Sampler sampler
        if self.ball:
            multiple = 1.0 / (self.batch_size * weights_of(self.n_chosen).sum())
        else:
            multiple = self.pace / self.batch_size
            multiple /= max(1.0, multiple * sqrt(square))
        self.multiples[s] = multiple
        self.square[s] = multiple * multiple * square
        for k in range(self.batch_size):
            sampler = self.samplers[k]
            best = sampler.best()
            if best >= 0:
                self.coordinate[s, k] = sampler.candidate[best]
                self.factor[s, k] = self.square[s] / (multiple * sampler.value[best])
        self.n_done += 1
        self._sort_coordinates()

    def take_rows(self):
        """From now on the rows in the reservoirs count among those drawn."""
        self.n_chosen += 1
        self._collect()

    def drawn(self):
        """Return what is known of the mean of all rows drawn: its squared norm, theirs' mean."""
        weights = weights_of(self.n_chosen)
        squares = np.asarray(self.square_of_row)[:self.n_chosen].mean(axis=1)
        total = self.batch_size * weights.sum()
        mean = weights @ squares / weights.sum()
        return squared_norm_estimate(&self.norm.counters) / total**2, mean

    def combination(self):
        """Return rows and factors of a sum of scaled rows that is the mean of x_1, .., x_S."""
        n_steps = len(self.multiples)
        weights = weights_of(n_steps)
        later = np.cumsum((weights * self.multiples)[::-1])[::-1] / weights.sum()
        factors = self.scale * self.signs[:n_steps] * (weights * later)[:, np.newaxis]
        rows, places = np.unique(self.rows[:n_steps], return_inverse=True)
        return rows, np.bincount(places.reshape(-1), factors.reshape(-1), minlength=len(rows))
