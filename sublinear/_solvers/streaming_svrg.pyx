"""Streaming SVRG: one pass over a stream of rows, as good as the empirical risk minimiser.

Paper: Frostig, Ge, Kakade, Sidford, "Competing with the empirical risk minimizer in a single
pass" (COLT 2015), Algorithm 1.

Objective: P(w) = E_(x, y) l(<w, x>, y) + alpha / 2 |w|^2, rows drawn independently. There may be an
alpha for every weight, 0 for an intercept without penalty.

Both solvers proceed in stages. A stage begins with the mean gradient g of k fresh rows at the
anchor w~; then comes the inner problem.

PaperSVRG, the paper's scheme:

    for stage s = 0, 1, ..:
        g <- mean gradient of k_s rows at w~
        w <- w~
        repeat m~ times, m~ uniform in {1, .., m}, a row (x, y) each:
            w <- w - eta / L ((l'(<w, x>) - l'(<w~, x>)) x + alpha (w - w~) + g)
        w~ <- w,  k_{s+1} <- b k_s

CombinedSVRG, for use:

    for stage s = 0, 1, ..:
        g <- mean gradient of k_s rows at w~; keep the first rows of them: S
        w~ <- argmin over v of
              mean_{i in S} (psi_i(v) - <grad psi_i(w~), v>) + k_s / (K + k_s) <g, v>
        K <- K + k_s,  k_{s+1} <- (b - 1) K

Departures of the second: the inner problem, which the paper's steps approach with draws from the
stream, is solved on rows kept in memory by Newton's method, so neither L nor the strong convexity
nor a step has to be known. Near its minimiser w~ the loss of the K rows before is taken for that of
S, without the slope; so the new w~ minimises that of all K + k_s rows to first order: no stage is
thrown away, and the stream may end anywhere.

Cost: a dot and two additions per row; a Newton system per stage; per stage the kept rows.

Gradients are summed in lanes that the number of a row in the stream alone determines: the result
depends neither on how the stream is cut into blocks nor on the number of threads.
"""
from cython.parallel cimport prange
from libc.stdint cimport uint32_t

import json
import math
import warnings
from copy import copy
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import gammaincinv
from sklearn.exceptions import ConvergenceWarning

from sublinear._core.line cimport (
    Line, Lines, add, dot, is_dense, line_at, line_size, line_start, prefetch_ahead,
)
from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix
from sublinear._core.row_groups cimport (
    MOST_TOGETHER, Group, add_gram, add_group, append_line, copy_scaled, dot_group, set_group,
    take_lines,
)
from sublinear._core.sparse_rows cimport add_sparse_gram

from sublinear._core.random import RandomBits

cdef enum:
    LANES = 4
    GROUP = 256       # consecutive rows of a lane
    PADDING = 8
    SAMPLED = 32      # of those, the first ones: their losses are evaluated

# Newton's method on the kept rows
MAX_NEWTON_STEPS = 200
MAX_CORRECTED_STEPS = 50  # where a slope is added, which may have no minimiser
MAX_DOUBLINGS = 30
MAX_HALVINGS = 30
EXACT = 1e-15             # Newton decrement at which to stop, by the value
ENOUGH = 1e-3             # the same by the first one, which is of the size of a stage's noise
ENOUGH_AT_FIRST = 1e-6    # the same of the first stage, which begins far away
STALE = 0.1               # decrement left by a step that calls for another Hessian
SPARSE_COST = 10          # operations on dense values that take as long as one on a stored entry
FACTORISED = 512          # weights up to which Hessians are factorised
MAX_CG_STEPS = 100
CG_TOLERANCE = 1e-2      # leaves 1e-4 of a decrement: less than is enough
CONDITION = 15            # logarithm of a pivots' ratio beyond which directions are dropped
ROWS_PER_DEGREE = 10      # kept rows per degree of freedom, below which steps are damped
PROBES = 16               # random signs in the estimate of a trace


class Block:
    """Rows of a stream, in the form that solvers take.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_features)
    targets : ndarray of shape (n_rows,), float64
    weights : ndarray of shape (n_rows,), float64, or None for ones
    constant : float
        The value of the constant feature; 0 for none.
    order : ndarray of uint32, default=None
        The order of the rows; None: as they are.
    """

    def __init__(self, X, targets, weights, constant, order=None):
        self.X, self.constant, self.order = X, constant, order
        self.matrix = Matrix(X, constant=constant)
        self.targets, self.weights = targets, weights
        self._copies = {}

    @property
    def n_rows(self):
        """How many rows there are."""
        return self.matrix.n_rows if self.order is None else len(self.order)

    def part(self, start, stop):
        """Return those rows start .. stop - 1 of a Block with an order."""
        other = copy(self)
        other.order, other._copies = self.order[start:stop], {}
        return other

    def with_targets(self, targets):
        """Return the same rows with other targets; copies of rows are shared."""
        other = copy(self)
        other.targets = targets
        return other

    def chosen(self, start, stop):
        """Return what picks the rows start .. stop - 1 out of X."""
        return slice(start, stop) if self.order is None else self.order[start:stop]

    def total_weight(self, start, stop):
        """Return the sum of the weights of rows."""
        if self.weights is None:
            return stop - start
        return float(np.sum(self.weights[self.chosen(start, stop)]))

    def kept(self, start, stop):
        """Return a Sample of rows."""
        chosen = self.chosen(start, stop)
        if (start, stop) not in self._copies:
            rows = copied_rows(self.X, chosen)
            self._copies[start, stop] = with_column(rows, self.constant) if self.constant else rows
        weights = np.ones(stop - start) if self.weights is None else self.weights[chosen]
        return Sample(self._copies[start, stop], np.array(self.targets[chosen]), np.array(weights))


def copied_rows(X, chosen):
    """Return X[chosen] as float64; scipy looks at sparse slices more than they need."""
    if not sp.issparse(X):
        return X[chosen].astype(np.float64)
    if not isinstance(chosen, slice):
        return sp.csr_array(X[chosen].astype(np.float64))
    offsets = X.indptr[chosen.start:chosen.stop + 1]
    entries = slice(offsets[0], offsets[chosen.stop - chosen.start])
    return csr_of(
        X.data[entries].astype(np.float64), X.indices[entries].copy(), offsets - offsets[0],
        X.shape[1])


def with_column(rows, constant):
    """Return the rows with one column more, which holds a constant."""
    n_rows, n_columns = rows.shape
    if not sp.issparse(rows):
        return np.hstack([rows, np.full((n_rows, 1), constant)])
    ends = rows.indptr[1:]
    return csr_of(
        np.insert(rows.data, ends, constant), np.insert(rows.indices, ends, n_columns),
        rows.indptr + np.arange(n_rows + 1, dtype=rows.indptr.dtype), n_columns + 1)


def csr_of(data, indices, indptr, n_columns):
    """Return the CSR matrix of arrays that are known to be sound."""
    rows = sp.csr_array((len(indptr) - 1, n_columns), dtype=data.dtype)
    rows.data, rows.indices, rows.indptr = data, indices, indptr
    return rows


class Sample(NamedTuple):
    """Rows in memory, their constant feature with them."""

    rows: object
    targets: np.ndarray
    weights: np.ndarray

    def to_state(self, prefix):
        """Return a flat dict of arrays and numbers."""
        state = {"targets": self.targets, "weights": self.weights}
        if sp.issparse(self.rows):
            state |= {
                "data": self.rows.data, "indices": self.rows.indices, "indptr": self.rows.indptr,
                "width": self.rows.shape[1]}
        else:
            state["rows"] = self.rows
        return {f"{prefix}.{name}": value for name, value in state.items()}

    @classmethod
    def from_state(cls, state, prefix):
        """Return the Sample of a `to_state`, None if there is none."""
        if f"{prefix}.targets" not in state:
            return None
        targets, weights = state[f"{prefix}.targets"], state[f"{prefix}.weights"]
        if f"{prefix}.rows" in state:
            return cls(state[f"{prefix}.rows"], targets, weights)
        parts = tuple(state[f"{prefix}.{name}"] for name in ("data", "indices", "indptr"))
        shape = len(targets), int(state[f"{prefix}.width"])
        return cls(sp.csr_array(parts, shape=shape), targets, weights)

    def compact(self):
        """Return the Sample with dense rows where these are quicker."""
        if sp.issparse(self.rows):
            n_rows, n_columns = self.rows.shape
            share = self.rows.nnz / (n_rows * n_columns)
            if n_columns <= FACTORISED:    # a Hessian costs most: pairs of entries
                share *= share
            if share * SPARSE_COST >= 1:
                return self._replace(rows=self.rows.toarray())
        if sp.issparse(self.rows) or self.rows.flags.c_contiguous:
            return self
        return self._replace(rows=np.ascontiguousarray(self.rows))


def joined(samples):
    """Return the Sample of the rows of all samples."""
    if len(samples) == 1:
        return samples[0]
    rows, targets, weights = zip(*samples, strict=True)
    stacked = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.vstack(rows)
    return Sample(stacked, np.concatenate(targets), np.concatenate(weights))


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
        """Add the rows start .. stop - 1 of a Block."""
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
        self.total_weight += block.total_weight(start, stop)
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
        cdef Py_ssize_t first, last, stop, sampled
        cdef Group together
        set_group(&together, rows.lines)
        while group * GROUP < rows.stop + shift:
            first = max(rows.start, group * GROUP - shift)
            stop = min(rows.stop, (group + 1) * GROUP - shift)
            sampled = group * GROUP + SAMPLED - shift
            while first < stop:
                last = min(stop, first + together.most)
                self._add_rows(
                    &together, rows, first, last, min(sampled, last) - first,
                    &self.lanes[group % LANES, 0])
                first = last
            group += step

    cdef void _add_rows(
        self, Group* group, const Rows* rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t sampled, double* gradient
    ) noexcept nogil:
        """Add the rows first .. last - 1, as many as a Group takes at the most."""
        cdef double* squares = gradient + self.w.shape[0]
        cdef double* losses = squares + self.w.shape[0]
        cdef double[MOST_TOGETHER] z, slope, value, of_targets, of_weights
        cdef const double* y = of_targets
        cdef const double* s = NULL if rows.weights == NULL else of_weights
        cdef Py_ssize_t r, i, count = last - first
        if rows.order == NULL:
            take_lines(group, first, count)
            y = rows.targets + first
            if s != NULL:
                s = rows.weights + first
        else:
            group.count = 0
            for r in range(count):
                prefetch_ahead(rows.lines, rows.order, first + r, rows.stop, &self.w[0])
                i = rows.order[first + r]
                append_line(group, i)
                of_targets[r] = rows.targets[i]
                if s != NULL:
                    of_weights[r] = rows.weights[i]
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

    def copy(self):
        """Return a gradient that goes on in this one's place and leaves it as it is."""
        other = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        other.resume(self.state())
        return other

    def state(self):
        """Return what `resume` needs, a flat dict."""
        return {
            "anchor": self.anchor, "sums": self.sums, "stage.n_rows": self.n_rows,
            "stage.accesses": self.accesses, "stage.total_weight": self.total_weight}

    def resume(self, state):
        """Go on from a `state()` of a gradient at the same anchor."""
        self.sums[:] = state["sums"]
        self.n_rows, self.accesses = int(state["stage.n_rows"]), int(state["stage.accesses"])
        self.total_weight = float(state["stage.total_weight"])

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
    if rows.order == NULL and not is_dense(rows.lines.storage):
        return line_start(rows.lines, rows.stop) - line_start(rows.lines, rows.start)
    for k in range(rows.start, rows.stop):
        total += line_size(rows.lines, k if rows.order == NULL else rows.order[k])
    return total


class Look(NamedTuple):
    """What one look at a sample's rows x_i tells about weights v.

    Attributes
    ----------
    scores : ndarray of shape (n_rows,)
        z_i = <v, x_i>.
    gradient, squares : ndarray of shape (n_weights,)
        sum_i s_i l'(z_i) x_i and sum_i s_i x_i^2, s_i the shares.
    curvatures : ndarray of shape (n_rows,)
        c_i = s_i l''(z_i).
    gram : ndarray of shape (n_weights, n_weights) or None
        sum_i c_i x_i x_i', if asked for.
    """

    scores: np.ndarray
    gradient: np.ndarray
    squares: np.ndarray
    curvatures: np.ndarray
    gram: np.ndarray | None


cdef class Gram:
    """A sum of weighted squares of rows, which come in groups."""
    cdef Py_ssize_t n_weights, pitch, n_waiting
    cdef double[:, ::1] sum, rows, scaled    # of dense rows that wait until there are enough

    def __init__(self, Py_ssize_t n_weights):
        self.n_weights = n_weights
        self.pitch = (n_weights + PADDING - 1) // PADDING * PADDING
        self.sum = np.zeros((self.pitch, self.pitch))
        self.rows = np.zeros((MOST_TOGETHER, self.pitch))
        self.scaled = np.zeros((MOST_TOGETHER, self.pitch))

    cdef void add_rows(self, const Group* group, const double* weights) noexcept nogil:
        """Add weights[r] x x' for the rows x = r of a group."""
        if group.sparse:
            add_sparse_gram(
                group.lines, group.order, group.count, weights, self.pitch, &self.sum[0, 0])
            return
        if self.n_waiting + group.count > MOST_TOGETHER:
            self.add_waiting()
        copy_scaled(
            <const double* const*> group.rows, group.count, weights, self.n_weights, self.pitch,
            &self.rows[self.n_waiting, 0], &self.scaled[self.n_waiting, 0])
        self.n_waiting += group.count

    cdef void add_waiting(self) noexcept nogil:
        add_gram(
            &self.rows[0, 0], &self.scaled[0, 0], self.n_waiting, self.n_weights, self.pitch,
            &self.sum[0, 0])
        self.n_waiting = 0

    def whole(self):
        """Return the sum, a symmetric matrix."""
        cdef Py_ssize_t i, j
        self.add_waiting()
        for i in range(self.n_weights):
            for j in range(i):
                self.sum[i, j] = self.sum[j, i]
        return self.sum.base[:self.n_weights, :self.n_weights].copy()


cdef class KeptRows:
    """Rows in memory, and sums over all of them: on one thread, always in the same order.

    Parameters
    ----------
    rows : ndarray, C-contiguous, or CSR matrix of shape (n_rows, n_weights), float64
    """
    cdef readonly object rows
    cdef Matrix matrix

    def __init__(self, rows):
        self.rows, self.matrix = rows, Matrix(rows)

    @property
    def n_weights(self):
        """Length of a row."""
        return self.matrix.n_columns

    @property
    def norms(self):
        """|x_i|^2, shape (n_rows,)."""
        return self.matrix.squared_norms()

    def look(
        self, Loss loss, const double[::1] v, const double[::1] targets, const double[::1] shares,
        bint gram=False
    ):
        """Return a Look at the rows; it has no Gram matrix where there are too many weights."""
        cdef Py_ssize_t k = 0, r, count, n = self.matrix.n_rows, d = self.matrix.n_columns
        cdef double[:, ::1] sums = np.zeros((2, d)), of_rows = np.empty((2, n))
        cdef double[MOST_TOGETHER] slope
        cdef double* z = &of_rows[0, 0]
        cdef double* c = &of_rows[1, 0]
        cdef Gram square = None
        cdef Group group
        set_group(&group, &self.matrix.rows)
        gram = gram and d <= FACTORISED
        if gram:
            square = Gram(d)
        with nogil:
            while k < n:
                count = min(group.most, n - k)
                take_lines(&group, k, count)
                dot_group(&group, &v[0], z + k)
                loss.derivatives_of(z + k, &targets[k], slope, count)
                loss.second_derivatives_of(z + k, &targets[k], c + k, count)
                for r in range(count):
                    slope[r] *= shares[k + r]
                    c[k + r] *= shares[k + r]
                add_group(&group, slope, &shares[k], &sums[0, 0], &sums[1, 0])
                if gram:
                    square.add_rows(&group, c + k)
                k += count
        scores, curvatures = of_rows.base
        return Look(scores, *sums.base, curvatures, square.whole() if gram else None)

    def gram(self, const double[::1] c):
        """Return sum_i c_i x_i x_i', shape (n_weights, n_weights)."""
        cdef Py_ssize_t k = 0, count, n = self.matrix.n_rows
        cdef Gram square = Gram(self.matrix.n_columns)
        cdef Group group
        set_group(&group, &self.matrix.rows)
        with nogil:
            while k < n:
                count = min(group.most, n - k)
                take_lines(&group, k, count)
                square.add_rows(&group, &c[k])
                k += count
        return square.whole()

    def product(self, const double[::1] curvatures, const double[::1] v):
        """Return sum_i c_i <x_i, v> x_i, shape (n_weights,)."""
        cdef Py_ssize_t i
        cdef Line x
        cdef double[::1] result = np.zeros(self.matrix.n_columns)
        with nogil:
            for i in range(self.matrix.n_rows):
                x = line_at(&self.matrix.rows, i)
                add(&x, curvatures[i] * dot(&x, &v[0]), &result[0])
        return result.base


class InnerProblem:
    """mean over a sample of l(<v, x_i>) + <c, v> + alpha / 2 |v|^2 + <r, (v - w~)^2> / 2.

    With c the difference of a gradient at w~ and that of the sample, its minimiser is where the
    inner steps of SVRG with draws from the sample would lead, but for the damping r. That gives
    features which are rarer in the sample than in the stream the curvature they lack, and keeps
    steps short where a few rows say little about the curvature.
    """

    def __init__(self, loss, sample, alpha, anchor, gradient=None, squares=None):
        self.loss, self.alpha, self.anchor = loss, alpha, anchor
        rows, self.targets, weights = sample.compact()
        self.rows = KeptRows(rows)
        self.shares = weights / weights.sum()
        self.slope = self.damping = np.zeros(len(anchor))
        self.first = self.look(anchor, gram=True)
        seen = self.first.squares.sum() + self.first.gradient.sum()
        if not np.isfinite(seen if gradient is None else seen + gradient.sum()):
            raise ValueError(
                "sums over rows left the range of floating-point numbers: scale X, y or "
                "sample_weight down")
        self.corrected = gradient is not None
        if self.corrected:    # else the sample is all there is
            self.slope = gradient - self.first.gradient
            self.damping = self._damping(squares - self.first.squares)

    def look(self, v, gram=False):
        """Return a Look at the sample's rows with the weights v."""
        return self.rows.look(self.loss, v, self.targets, self.shares, gram)

    def value(self, v, scores):
        """Return the objective at v."""
        away = v - self.anchor
        return (
            self.shares @ self.loss.values(scores, self.targets)
            + self.slope @ v + v @ (self.alpha * v) / 2 + self.damping @ away**2 / 2)

    def gradient(self, v, look):
        """Return the gradient at v."""
        return (
            look.gradient + self.slope + self.alpha * v + self.damping * (v - self.anchor))

    def hessian(self, look, reweighted=False):
        """Return the Hessian, or that of iteratively re-weighted least squares."""
        curvatures, matrix = look.curvatures, look.gram
        if reweighted:
            slopes = self.loss.derivatives(look.scores, self.targets)
            away = np.maximum(np.abs(look.scores - self.targets), 1e-12)
            curvatures, matrix = self.shares * np.abs(slopes) / away, None
        return Hessian(self.rows, curvatures, self.alpha + self.damping, matrix)

    def _damping(self, missing):
        """Return r: curvature that the sample lacks, and what leaves it few degrees of freedom."""
        damping = np.sum(self.first.curvatures) * np.maximum(0, missing)
        allowed = len(self.targets) / ROWS_PER_DEGREE
        if len(self.anchor) > allowed:
            first = self.first
            hessian = Hessian(self.rows, first.curvatures, self.alpha + damping, first.gram)
            damping += hessian.shift_for_degrees(allowed)
        return damping

    def minimise(self, precision=0.0):
        """Return the minimiser by Newton's method; a Hessian is used as long as it serves.

        The last step's decrement is at most `precision` times the first one's; 0: by rounding.
        """
        v, look = self.anchor, self.first
        hessian, reweighted, first = self.hessian(look), False, 0.0
        gradient = self.gradient(v, look)
        direction = hessian.solve(gradient)
        for _ in range(MAX_CORRECTED_STEPS if self.corrected else MAX_NEWTON_STEPS):
            decrement = gradient @ direction
            first = max(first, decrement)
            found = None
            if reweighted or hessian.explains(gradient, direction):
                exact = self.loss.quadratic and hessian.matrix is not None
                if decrement < precision * first or (precision and exact):
                    return v - direction
                long = reweighted and not self.corrected
                step = self._lengthened if long else self._stepped
                found = step(v, look, direction, decrement, hessian)
            if found is None:
                if reweighted:
                    return v
                hessian, reweighted = self.hessian(look, True), True
                direction = hessian.solve(gradient)
                continue
            v, look, gradient, direction = found
            if not precision and decrement <= EXACT * abs(self.value(v, look.scores)):
                return v
            if direction is None:
                hessian, reweighted = self.hessian(look), False
                direction = hessian.solve(gradient)
        if not self.corrected:
            warnings.warn(
                f"Newton's method on the kept rows did not converge in {MAX_NEWTON_STEPS} steps: "
                "raise alpha, or make the loss smoother", ConvergenceWarning, stacklevel=2)
        return v

    def _stepped(self, v, look, direction, decrement, hessian):
        """Return a better v, the Look at it, its gradient and direction, or None.

        The direction is None where the Hessian has become stale. If it has not, the step has made
        the gradient smaller in its norm, and need not be shortened.
        """
        new = v - direction
        new_look = self.look(new)
        gradient = self.gradient(new, new_look)
        direction_there = hessian.solve(gradient)
        if gradient @ direction_there <= STALE * decrement:
            return new, new_look, gradient, direction_there
        found = self._shortened(v, direction, self.value(v, look.scores), decrement, new_look)
        return found and (*found, self.gradient(*found), None)

    def _lengthened(self, v, look, direction, decrement, hessian):
        """Do as `_stepped` where re-weighted rows make steps too short: they double while they pay.

        The next direction is always that of a new Hessian.
        """
        length, whole = 1.0, self.look(v - direction)
        found = self._shortened(v, direction, self.value(v, look.scores), decrement, whole)
        if found is None:
            return None
        least = self.value(found[0], found[1].scores)
        for _ in range(MAX_DOUBLINGS if found[1] is whole else 0):
            length *= 2
            new = v - length * direction
            new_look = self.look(new)
            after = self.value(new, new_look.scores)
            if not after < least:
                break
            found, least = (new, new_look), after
        return (*found, self.gradient(*found), None)

    def _shortened(self, v, direction, value, decrement, look):
        """Return the first of v - direction, v - direction / 2, .. that is better, or None.

        With the Look at it; `look` is that at the first one.
        """
        length = 1.0
        for _ in range(MAX_HALVINGS):
            new = v - length * direction
            after = self.value(new, look.scores)
            if after <= value - 1e-4 * length * decrement or (
                decrement <= 1e-12 * abs(value) and after <= value + 1e-12 * abs(value)
            ):
                return new, look
            length /= 2
            look = self.look(v - length * direction)
        return None


class Hessian:
    """sum_i c_i x_i x_i' + diag(shift), factorised where it is small.

    Parameters
    ----------
    rows : KeptRows
    curvatures : ndarray of shape (n_rows,)
    shift : float or ndarray of shape (n_weights,)
    matrix : ndarray, default=None
        The sum, if it is known.
    """

    def __init__(self, rows, curvatures, shift, matrix=None):
        self.rows, self.curvatures, self.shift = rows, curvatures, shift
        self.matrix, self.factor = matrix, None
        if matrix is None and rows.n_weights <= FACTORISED:
            self.matrix = rows.gram(curvatures)

    def product(self, v):
        """Return the matrix times v."""
        if self.matrix is not None:
            return self.matrix @ v + self.shift * v
        return self.rows.product(self.curvatures, v) + self.shift * v

    def solve(self, right):
        """Return the matrix's inverse, or pseudo-inverse, times a vector or a matrix."""
        if self.matrix is None:
            if right.ndim == 2:
                return np.column_stack([self.solve(column) for column in right.T])
            operator = LinearOperator(
                (len(right), len(right)), matvec=self.product, dtype=np.float64)
            return cg(operator, right, rtol=CG_TOLERANCE, maxiter=MAX_CG_STEPS)[0]
        if self.factor is None:
            shifted = self.matrix.copy()
            shifted.flat[::len(shifted) + 1] += self.shift
            self.factor = factorised(shifted)
        return self.factor(right)

    def explains(self, right, solution):
        """Tell whether a solution leaves less than half of the right side."""
        rest = self.product(solution) - right
        return rest @ rest <= right @ right / 4

    def shift_for_degrees(self, allowed):
        """Return s with sum_j h_j / (h_j + s) at most `allowed`, h_j the eigenvalues.

        It is the least such s where the matrix is factorised, their sum / allowed otherwise.
        """
        if self.matrix is None:
            return self.curvatures @ self.rows.norms / allowed
        eigenvalues = np.maximum(scipy.linalg.eigvalsh(self.matrix), 0)
        high = np.sum(eigenvalues) / allowed
        if np.count_nonzero(eigenvalues > 1e-12 * high) <= allowed:
            return 0.0
        return brentq(
            lambda shift: np.sum(eigenvalues / (eigenvalues + shift)) - allowed, 1e-12 * high, high)


def factorised(matrix):
    """Return a function that multiplies by the inverse, or the pseudo-inverse, of the matrix."""
    if not np.isfinite(matrix).all():
        return np.zeros_like
    factor, failed = dpotrf(matrix)
    if not failed and np.ptp(np.log(np.diag(factor))) < CONDITION:
        return lambda right: dpotrs(factor, right)[0]
    inverse = scipy.linalg.pinvh(matrix)
    return lambda right: inverse @ right


class CombinedSVRG:
    """Streaming SVRG that combines its stages and solves the inner problem on kept rows.

    Parameters
    ----------
    loss : Loss
    n_weights : int
    alpha : float or ndarray of shape (n_weights,)
    kept_rows : int
        Rows kept of every stage.
    growth : float, default=2.0
        By what factor a stage multiplies the rows seen.
    n_threads : int, default=1

    Attributes
    ----------
    n_stages, n_rows, accesses : int
    """

    def __init__(self, loss, n_weights, alpha, *, kept_rows, growth=2.0, n_threads=1):
        self.loss, self.alpha, self.kept_rows = loss, alpha, kept_rows
        self.growth, self.n_threads = growth, n_threads
        self.anchor = np.zeros(n_weights)
        self.weight = 0.0               # K
        self.squares = np.zeros(n_weights)    # of features, summed over all rows
        self.n_stages = self.n_rows = self.accesses = 0
        self.sample = None              # of the last stage
        self.stage_loss = math.nan
        self._begin_stage()

    def _begin_stage(self):
        self.gradient = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        self.stage_rows = max(self.kept_rows, int((self.growth - 1) * self.n_rows))
        self.kept = []

    def take(self, block, finite=False):
        """Take all rows of a Block; `finite`: raise FloatingPointError if a sum is not finite."""
        start, n_rows = 0, block.n_rows
        while start < n_rows:
            keep = self.kept_rows - self.gradient.n_rows
            room = keep if keep > 0 else self.stage_rows - self.gradient.n_rows
            stop = min(n_rows, start + room)
            if keep > 0:
                self.kept.append(block.kept(start, stop))
            self.gradient.add(block, start, stop)
            if finite and not np.isfinite(self.gradient.sums).all():
                raise FloatingPointError("the sums of a stage are not finite")
            self.n_rows += stop - start
            if self.gradient.n_rows == self.stage_rows:
                self._end_stage()
            start = stop

    def copy(self):
        """Return a solver that goes on in this one's place and leaves it as it is."""
        other = copy(self)
        other.gradient, other.kept = self.gradient.copy(), list(self.kept)
        return other

    def take_sums(self, sums, n_rows, accesses, total_weight, kept):
        """Take rows of this stage that were summed elsewhere; `kept` are Samples of some of them.

        They may be as many as the stage still lacks at the most.
        """
        self.gradient.add_sums(sums, n_rows, accesses, total_weight)
        self.kept += kept
        self.n_rows += n_rows
        if self.gradient.n_rows == self.stage_rows:
            self._end_stage()

    @property
    def rows_wanted(self):
        """How many rows this stage lacks, and how many of them are to be kept."""
        n_kept = sum(len(sample.targets) for sample in self.kept)
        return self.stage_rows - self.gradient.n_rows, max(0, self.kept_rows - n_kept)

    def _end_stage(self):
        self.anchor = self._minimiser(ENOUGH_AT_FIRST)
        self.sample = self._sample()
        self.stage_loss = self.gradient.mean_loss
        self.squares = self.squares + self.gradient.squares
        self.weight += self.gradient.total_weight
        self.accesses += self.gradient.accesses
        self.n_stages += 1
        self._begin_stage()

    def _sample(self):
        """The rows kept of this stage if there are enough, else those of the last one."""
        if self.kept and (self.sample is None or self.gradient.n_rows >= self.kept_rows):
            sample = joined(self.kept)
            self.kept = [sample.compact() if len(sample.targets) >= self.kept_rows else sample]
            return self.kept[0]
        return self.sample

    def model(self):
        """Return the weights if the stream ended here (float64)."""
        if self.gradient.total_weight == 0 and self.n_stages != 1:
            return self.anchor
        return self._minimiser(0.0)

    def _minimiser(self, precision):
        """Return the weights; to that precision where all rows are those of the first stage."""
        gradient, sample, corrections = self.gradient, self._sample(), ()
        if self.weight > 0 and gradient.total_weight > 0:
            total = self.weight + gradient.total_weight
            share = gradient.total_weight / total
            # that of the rows before is -alpha w~ at their minimiser
            slope = share * gradient.mean - (1 - share) * self.alpha * self.anchor
            corrections = slope, (self.squares + gradient.squares) / total
            precision = ENOUGH
        inner = InnerProblem(self.loss, sample, self.alpha, self.anchor, *corrections)
        with np.errstate(over="ignore", invalid="ignore"):    # steps too long are halved
            return inner.minimise(precision)

    def state(self):
        """Return what `resume` needs, a flat dict of arrays and numbers."""
        state = self.gradient.state() | {
            "weight": self.weight, "squares": self.squares,
            "n_stages": self.n_stages, "n_rows": self.n_rows,
            "accesses": self.accesses, "stage_loss": self.stage_loss,
            "stage_rows": self.stage_rows}
        if self.kept:
            state |= joined(self.kept).to_state("kept")
        return state if self.sample is None else state | self.sample.to_state("sample")

    def resume(self, state):
        """Go on from the `state()` of a solver made alike."""
        self.anchor = np.array(state["anchor"])
        self._begin_stage()
        self.gradient.resume(state)
        self.weight, self.stage_loss = float(state["weight"]), float(state["stage_loss"])
        self.squares = np.array(state["squares"])
        for name in ("n_stages", "n_rows", "accesses", "stage_rows"):
            setattr(self, name, int(state[name]))
        kept = Sample.from_state(state, "kept")
        self.kept = [] if kept is None else [kept]
        self.sample = Sample.from_state(state, "sample")

    def risk(self):
        """Return a RiskEstimate of the model."""
        return estimate_risk(
            self.loss, self._sample(), self.alpha, self.model(),
            self.weight + self.gradient.total_weight)

    def progressive_loss(self):
        """Return the mean loss of a stage's rows at the model from before them."""
        return self.gradient.mean_loss if self.n_stages and self.gradient.n_rows >= SAMPLED \
            else self.stage_loss


class RiskEstimate(NamedTuple):
    """How far the model is from the best one, to first order in 1 / rows.

    Attributes
    ----------
    sigma_squared : float
        E |grad psi(w*)|^2 / 2 in the norm of the inverse Hessian: the paper's sigma^2.
    excess_risk : float
        sigma^2 / rows: what the empirical risk minimiser's expected excess risk tends to.
    interval : tuple of two floats
        Holds the excess risk of the model with probability 0.95.
    """

    sigma_squared: float
    excess_risk: float
    interval: tuple


def estimate_risk(loss, sample, alpha, model, total_weight):
    """Return the RiskEstimate of a model of so many rows, from a sample of them.

    To first order the excess risk is z'z / (2 rows), z normal with the covariance
    A = H^-1/2 G H^-1/2, G that of the gradients. It has the mean tr A / (2 rows) and the variance
    2 tr A^2 / (2 rows)^2; the interval is that of the gamma distribution with these moments.
    """
    rows, targets, weights = sample.compact()
    kept, shares = KeptRows(rows), weights / weights.sum()
    look = kept.look(loss, model, targets, shares, gram=True)
    mean, hessian = look.gradient, Hessian(kept, look.curvatures, alpha, look.gram)
    # squared: the curvatures of G + mean mean'
    roots = np.sqrt(shares * weights) * loss.derivatives(look.scores, targets)
    if hessian.matrix is not None:
        gradients = kept.gram(roots**2) - np.outer(mean, mean)
        solved = hessian.solve(gradients)
        first, second = np.trace(solved), np.sum(solved * solved.T)
    else:                                          # traces by random signs
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(roots), PROBES))
        probes = rows.T @ (roots[:, np.newaxis] * signs)
        solved = hessian.solve(probes)
        along = roots[:, np.newaxis] * (rows @ solved)
        first = np.sum(probes * solved) / PROBES - mean @ hessian.solve(mean)
        second = (np.sum(along**2) - np.sum((mean @ solved) ** 2)) / PROBES
    first, second = max(first, 0.0), max(second, 0.0)
    excess = first / (2 * total_weight)
    interval = (excess, excess)
    if second > 0:
        shape = max(0.5, first * first / (2 * second))    # 0.5: of one square; less is rounding
        interval = tuple(
            float(end) for end in excess / shape * gammaincinv(shape, [0.025, 0.975]))
    return RiskEstimate(float(first) / 2, float(excess), interval)


class PaperSVRG:
    """Algorithm 1 of the paper.

    Parameters
    ----------
    loss : Loss
    n_weights : int
    alpha : float or ndarray of shape (n_weights,)
    random : RandomBits
        Draws the numbers of inner steps.
    smoothness : float
        L, of every loss as a function of w.
    step : float
        eta, in units of 1 / smoothness.
    first_stage, inner_steps : int
        k_0 and m.
    growth : float
        b: k_{s+1} = b k_s.
    n_threads : int, default=1

    Attributes
    ----------
    n_stages, n_rows, accesses : int
    """

    def __init__(
        self, loss, n_weights, alpha, random, *, smoothness, step, first_stage, inner_steps,
        growth, n_threads=1
    ):
        self.loss, self.random, self.n_threads = loss, random, n_threads
        self.alpha = np.full(n_weights, alpha, dtype=np.float64)
        self.rate, self.growth = step / smoothness, growth
        self.inner_steps, self.stage_rows = inner_steps, first_stage
        self.weights = np.zeros(n_weights)
        self.n_stages = self.n_rows = self.accesses = 0
        self.stage_loss = math.nan
        self._begin_stage()

    def _begin_stage(self):
        self.anchor = self.weights.copy()
        self.gradient = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        self.steps_left = 0

    def take(self, block, finite=False):
        """Take all rows of a Block; `finite` is for solvers whose sums tell."""
        start, n_rows = 0, block.n_rows
        while start < n_rows:
            if self.steps_left == 0:
                stop = min(n_rows, start + self.stage_rows - self.gradient.n_rows)
                self.gradient.add(block, start, stop)
                if self.gradient.n_rows == self.stage_rows:
                    self.steps_left = 1 + int(self.random.doubles(1)[0] * self.inner_steps)
            else:
                stop = min(n_rows, start + self.steps_left)
                mean = self.gradient.mean + self.alpha * self.anchor
                self.accesses += inner_steps(
                    block, start, stop, self.loss, self.rate, self.alpha, self.anchor, mean,
                    self.weights)
                self.steps_left -= stop - start
                if self.steps_left == 0:
                    self._end_stage()
            self.n_rows += stop - start
            start = stop

    def copy(self):
        """Return a solver that goes on in this one's place and leaves it as it is."""
        other = copy(self)
        other.gradient, other.weights = self.gradient.copy(), self.weights.copy()
        other.random = RandomBits(np.random.SeedSequence(0))
        other.random.set_state(self.random.state())
        return other

    def _end_stage(self):
        self.accesses += self.gradient.accesses
        self.stage_loss = self.gradient.mean_loss
        self.stage_rows = int(self.growth * self.stage_rows)
        self.n_stages += 1
        self._begin_stage()

    def model(self):
        """Return the present weights (float64)."""
        return self.weights.copy()

    def state(self):
        """Return what `resume` needs, a flat dict of arrays and numbers."""
        state = self.gradient.state() | {
            "w": self.weights, "n_stages": self.n_stages, "n_rows": self.n_rows,
            "accesses": self.accesses, "stage_loss": self.stage_loss,
            "stage_rows": self.stage_rows, "steps_left": self.steps_left}
        return state | {"random": json.dumps(self.random.state())}

    def resume(self, state):
        """Go on from the `state()` of a solver made alike."""
        self.weights = np.array(state["anchor"])
        self._begin_stage()
        self.gradient.resume(state)
        self.weights[:] = state["w"]
        self.stage_loss = float(state["stage_loss"])
        for name in ("n_stages", "n_rows", "accesses", "stage_rows", "steps_left"):
            setattr(self, name, int(state[name]))
        self.random.set_state(json.loads(str(state["random"])))

    def risk(self):
        """The paper's scheme keeps no rows to estimate the risk from."""
        return RiskEstimate(math.nan, math.nan, (math.nan, math.nan))

    def progressive_loss(self):
        """Return the mean loss of a stage's rows at the model from before them."""
        return self.stage_loss


def inner_steps(
    block, Py_ssize_t start, Py_ssize_t stop, Loss loss, double rate,
    const double[::1] alpha, const double[::1] anchor, const double[::1] mean, double[::1] w
):
    """Take an inner step of the paper's Algorithm 1 for every row; return the values read."""
    cdef Matrix matrix = block.matrix
    cdef const double[::1] targets = block.targets
    cdef const double[::1] weights = block.weights
    cdef const uint32_t[::1] order = block.order
    cdef Py_ssize_t k, i, j, n_read = 0
    cdef double change, s
    cdef Line x
    with nogil:
        for k in range(start, stop):
            i = k if order is None else order[k]
            x = line_at(&matrix.rows, i)
            s = 1.0 if weights is None else weights[i]
            change = s * (
                loss.derivative(dot(&x, &w[0]), targets[i])
                - loss.derivative(dot(&x, &anchor[0]), targets[i]))
            for j in range(w.shape[0]):
                w[j] -= rate * (mean[j] + alpha[j] * (w[j] - anchor[j]))
            add(&x, -rate * change, &w[0])
            n_read += x.size
    return n_read
