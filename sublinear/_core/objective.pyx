"""Objective: alpha / 2 |w|^2 + weighted mean loss, its dual, and the gap between them.

    P(w) = alpha / 2 |w|^2 + (1 / W) sum_i s_i l(<w, x_i>, y_i),      W = sum_i s_i
    D(a) = - alpha / 2 |w(a)|^2 - (1 / W) sum_i s_i l*(-a_i, y_i),
    w(a) = sum_i s_i a_i x_i / (alpha W)

A certificate takes one pass over the data. It uses

    D(a) = alpha / 2 |w|^2 - (1 / W) sum_i s_i (l*(-a_i, y_i) + a_i <w, x_i>)
           - alpha / 2 |w - w(a)|^2,

which holds for every w. Where w is w(a) but for the rounding of float64, the last term is the
square of that error and is left out; where solvers use values rounded to float32, a bound on it
stays.

With an `intercept_penalty` below 1 the weight v of the constant column c counts for less: |w|^2 has
intercept_penalty v^2 of it, and its part of w(a) is divided by intercept_penalty. Solvers see the
same column with a penalty of 1, and the method of multipliers (`_solvers.sdca`) makes up for it.
Their duals are first given the sum s_i a_i = alpha W intercept_penalty v / c, as at the optimum.
With 0 the intercept is free, and duals must have that sum, 0.

Sums are gathered in blocks of rows of fixed size, added in order: the result does not depend on the
number of threads.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport uint32_t
from libc.string cimport memset

import numpy as np

from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.line cimport CACHED_WEIGHTS, Line, add, dot, line_at, line_size
from sublinear._core.matrix cimport WORTH_THREADS, add_lines, dot_pairs, dots, squares
from sublinear._core.weighted_examples import sample_by_weight

# Places in Objective.sums, whose fields are those of BlockSums: first the losses of candidates.
CONJUGATE = MAX_CANDIDATES
REACH = CONJUGATE + 1
INNER = REACH + 1

# A row without entries does not move w: any tiny curvature gives it its best dual at once.
cdef double LEAST_CURVATURE = 1e-300

cdef enum:
    CACHED_ENTRIES = 1 << 14     # of rows that one reading is enough for
    SEEN = 16                    # an estimate reads one row in so many,
    LEAST_SEEN = 512             # but at least so many rows, and more where they are short:
    MOST_LEAST = 1024            # up to so many of them,
    WORTH_SEEING = 1 << 19       # or feature values

# Times P(0): around a worse model a dual value, the difference of what it costs, would lose digits.
MOST_OF_ZEROS = 16.0
# What methods of second order find is balanced where an intercept has less of the penalty: what the
# sum of duals costs is divided by that.
BALANCED = 1e-3
# What is less than this part of P(0) is mostly what rounding has made of predictions: values of a
# certificate are then summed up, not taken from a gradient.
LEAST_OF_ZEROS = 1e-12

# Duals from elsewhere stay as they are unless D(a) is below D(0) by more than WORSE times P(0), a
# bound on how far zeros are from the optimum. Those of a nearby alpha are often a little worse than
# zeros, but what they know of the optimum soon makes up for that.
cdef double WORSE = 10

cdef double NEAR = 1e-3            # of a bound: as good as there
cdef double MOST_BETWEEN = 0.01    # of the duals, that may still be on their way to an end

cdef double SMALL = 1e-280    # squares below have lost digits, or all

cdef double ONES[BLOCK]
cdef Py_ssize_t _k
for _k in range(BLOCK):
    ONES[_k] = 1


cdef double scaled_penalty(
    double alpha, const double* w, Py_ssize_t size, double last
) noexcept nogil:
    """alpha / 2 (|w|^2 + last^2) where the squares leave the range of numbers."""
    cdef double largest = fabs(last), total
    cdef Py_ssize_t k
    for k in range(size):
        largest = max(largest, fabs(w[k]))
    if largest == 0 or largest == INFINITY:
        return largest
    total = (last / largest) * (last / largest)
    for k in range(size):
        total += (w[k] / largest) * (w[k] / largest)
    return (alpha / 2 * largest) * (total * largest)


def penalized(w, intercept_penalty):
    """Return w(a) from one in which the constant column has a penalty of 1, w itself if it does.

    Without penalty its weight says nothing, and stays.
    """
    if not 0 < intercept_penalty < 1:
        return w
    w = np.array(w)
    w[-1] /= intercept_penalty
    return w


def mass_at(double last, double constant, double strength):
    """Return what sum_i s_i a_i is at an optimum.

    Parameters
    ----------
    last, constant : float
        The weight of the constant column there; the value of that column.
    strength : float
        alpha W intercept_penalty
    """
    return strength * last / constant if strength > 0 else 0.0


def is_out_of_balance(
    double last, double of_duals, double alpha, double intercept_penalty, double most
):
    """Tell whether the sum of duals costs more than `most`, or has to be 0.

    Beside a weight of the constant column, `last`, while that of `weights_of_dual` is `of_duals`.
    """
    cdef double off = intercept_penalty * last - of_duals
    return intercept_penalty == 0 or not alpha * off * off / (2 * intercept_penalty) <= most


def balance_masses(double[::1] duals, masses, double total=0):
    """Let the duals have a sum, in place: shrink the positive or the negative ones.

    A dual's domain holds the way from it to 0, so they stay feasible. Where that does not suffice
    those of one sign vanish.

    Parameters
    ----------
    duals : ndarray of shape (n_rows,), float64
    masses : tuple of two floats
        See Objective.masses.
    total : float, default=0.0
        What the first of these is to exceed the second by.
    """
    cdef double positive, negative
    cdef Py_ssize_t i
    positive, negative = masses
    with nogil:
        for i in range(duals.shape[0]):
            if duals[i] > 0 and positive > negative + total:
                duals[i] *= max(negative + total, 0) / positive
            elif duals[i] < 0 and negative > positive - total:
                duals[i] *= max(positive - total, 0) / negative


def best_multiple(double square, double gain, double at_zeros):
    """Return by what to multiply duals that come from elsewhere: 1 if they can stay.

    Those of another alpha, or of other data, may be so bad that a start from zeros is far better:
    which begins within P(0) of the optimum. Conjugates are convex, so

        D(t a) - D(0) >= t gain - t^2 square / 2

    and the t from 0 to 1 that maximises the right side is no worse than 1, nor than 0.

    Parameters
    ----------
    square : float
        alpha |w(a)|^2
    gain : float
        D(a) - D(0) but for the square: see Objective.shrinkage.
    at_zeros : float
        P(0)
    """
    cdef double missing = square / 2 - gain    # D(0) - D(a)
    if missing <= WORSE * at_zeros:
        return 1.0
    return gain / square if gain > 0 else 0.0


cdef class Objective(WeightedExamples):
    """A regularised loss over the rows of a matrix.

    Parameters
    ----------
    matrix : Matrix
    targets : ndarray of shape (n_rows,), float64
    loss : Loss
    alpha : float
        Strength of the penalty alpha / 2 |w|^2.
    weights : ndarray of shape (n_rows,), float64, default=None
        Sample weights s_i, not negative; None means 1 each.
    n_threads : int, default=1
    intercept_penalty : float, default=1.0
        What counts in |w|^2 of the square of the weight of the matrix's constant column, from 0,
        for an intercept without penalty, to 1.
    total_weight : float, default=None
        W, where the rows are a block of more; what the methods return is then the block's part.
        None means the sum of the weights.

    Attributes
    ----------
    accesses : int
        Feature values read by the methods below so far.
    """

    def __cinit__(
        self, Matrix matrix, targets, Loss loss, double alpha, weights=None, int n_threads=1,
        *, double intercept_penalty=1, total_weight=None
    ):
        cdef const double[::1] view = targets
        if view.shape[0] != matrix.n_rows:
            raise ValueError(f"{matrix.n_rows} rows, but {view.shape[0]} targets")
        self.matrix = matrix
        self.loss = loss
        self.alpha = alpha
        self.n_threads = n_threads
        self.intercept_penalty = intercept_penalty if matrix.constant != 0 else 1
        self.free_intercept = self.intercept_penalty == 0
        self.has_multiplier = self.intercept_penalty < 1
        self.targets_array = targets
        self.targets = &view[0]
        self._weigh(matrix.n_rows, weights, "rows")
        if total_weight is not None:
            self.total_weight = total_weight

    cdef int useful_threads(self) noexcept:
        """How many threads a pass over the rows shall have."""
        return self.threads_for(self.matrix.n_stored)

    cdef int threads_for(self, Py_ssize_t n_entries) noexcept nogil:
        """How many threads are worth while for so many feature values."""
        return self.n_threads if n_entries >= WORTH_THREADS else 1

    cdef BlockSums block_sums(
        self, Py_ssize_t start, Py_ssize_t stop, const Point* at
    ) noexcept nogil:
        """Sums over the rows [start, stop), or that part of the items."""
        cdef BlockSums sums
        cdef double predictions[MAX_CANDIDATES][BLOCK]
        cdef double duals[BLOCK]
        cdef double terms[BLOCK]
        cdef double gathered[BLOCK]
        cdef const double* targets = self.targets + start
        cdef const double* weights = ONES
        cdef Py_ssize_t size = stop - start, k
        cdef int c
        memset(&sums, 0, sizeof(sums))
        if at.weights != NULL:
            weights = at.weights + start
        if at.items != NULL:
            for k in range(size):
                gathered[k] = self.targets[at.items[start + k]]
            targets = gathered
        if at.together:
            dot_pairs(
                &self.matrix.rows, at.items, start, stop, at.candidate[0], at.candidate[1],
                predictions[0], predictions[1])
        else:
            for c in range(at.n_candidates):
                dots(&self.matrix.rows, at.items, start, stop, at.candidate[c], predictions[c])
        for c in range(at.n_candidates):
            self.loss.values_of(predictions[c], targets, terms, size)
            sums.loss[c] = dense_dot64(terms, weights, size)
        if at.duals == NULL:
            return sums
        for k in range(size):
            duals[k] = at.duals[
                (start + k if at.items == NULL else at.items[start + k]) * at.dual_stride]
        if at.wants_inner:
            for c in range(at.n_candidates):
                for k in range(size):
                    terms[k] = duals[k] * predictions[c][k]
                sums.inner[c] = dense_dot64(terms, weights, size)
        if at.w != at.candidate[0]:
            dots(&self.matrix.rows, at.items, start, stop, at.w, predictions[0])
        self.loss.conjugates_of(duals, targets, terms, size)
        for k in range(size):
            terms[k] += duals[k] * predictions[0][k]
        sums.conjugate = dense_dot64(terms, weights, size)
        if at.wants_reach:    # of all rows
            squares(&self.matrix.rows, start, stop, terms)
            for k in range(size):
                terms[k] = fabs(duals[k]) * sqrt(terms[k])
            sums.reach = dense_dot64(terms, weights, size)
        return sums

    cdef double total(self, Py_ssize_t start, Py_ssize_t stop, const double* terms) noexcept nogil:
        """sum s_i terms_i over at most a block of rows."""
        return dense_dot64(
            terms, &ONES[0] if self.weights == NULL else self.weights + start, stop - start)

    def sums(
        self, candidates, const double[::1] w=None, const double[:] duals=None,
        bint wants_reach=False, bint wants_inner=False, Py_ssize_t one_in=1,
        double[::1] of_duals=None
    ):
        """Return the BlockSums over all rows as an array (see `certificate`).

        Adds w(duals) to `of_duals`, in the same reading of rows that stay in the cache.
        With `one_in` above 1, estimates from one row in so many: some rows of each block or, where
        weights differ, rows drawn by these, so that none counts for much more than another.
        """
        cdef Py_ssize_t n = self.matrix.n_rows
        cdef bint short_rows = self.matrix.n_stored <= SHORT_ROW * n
        cdef Py_ssize_t length = BLOCK if short_rows and one_in == 1 else SMALL_BLOCK
        cdef Py_ssize_t part = length // one_in, n_blocks, first, last, block, step
        cdef int n_threads = self.useful_threads()
        cdef Point at = self._point(candidates, w, duals)
        at.wants_reach, at.wants_inner = wants_reach, wants_inner
        if one_in > 1 and self._drawn(n // one_in):
            n, part = self._restrict_to_sample(&at), length
        n_blocks = (n + length - 1) // length
        partial = np.empty((n_blocks, sizeof(BlockSums) // sizeof(double)))
        cdef double[:, ::1] sums = partial
        cdef BlockSums* result = <BlockSums*> &sums[0, 0]
        step = n_threads * max(1, self.matrix.rows_per_call() // length)    # one each at least
        if of_duals is not None and n_threads == 1:
            step = max(1, CACHED_ENTRIES * n // (length * max(1, self.matrix.n_stored)))
        for first in range(0, n_blocks, step):
            last = min(n_blocks, first + step)
            for block in prange(
                first, last, nogil=True, schedule="dynamic", num_threads=n_threads
            ):
                result[block] = self.block_sums(
                    block * length, min(n, block * length + part), &at)
            if of_duals is not None:
                with nogil:
                    self.add_duals(
                        first * length, min(n, last * length), &duals[0], at.dual_stride,
                        &of_duals[0])
            PyErr_CheckSignals()
        total = np.add.reduce(partial, axis=0)
        if one_in == 1:
            self.accesses += self.matrix.n_stored
            return total
        weight = self._weight_read(&at, n, length, part)
        return total * (self.total_weight / weight if weight > 0 else 0)

    cdef Point _point(self, candidates, const double[::1] w, const double[:] duals) except *:
        """What `block_sums` computes, over all rows."""
        cdef Py_ssize_t n_rows = self.matrix.n_rows, n_weights = self.matrix.n_weights
        cdef const double[::1] vector
        cdef Point at
        memset(&at, 0, sizeof(at))
        at.weights = self.weights
        for candidate in candidates:
            vector = candidate
            if vector.shape[0] != n_weights:
                raise ValueError(f"weights must have {n_weights} entries")
            at.candidate[at.n_candidates] = &vector[0]
            at.n_candidates += 1
        at.together = (
            at.n_candidates == 2 and self.matrix.is_sparse and n_weights <= CACHED_WEIGHTS)
        if duals is not None:
            if duals.shape[0] != n_rows or w.shape[0] != n_weights:
                raise ValueError(f"duals must have {n_rows} entries, weights {n_weights}")
            at.w, at.duals = &w[0], &duals[0]
            at.dual_stride = duals.strides[0] // <Py_ssize_t> sizeof(double)
        return at

    cdef Py_ssize_t _restrict_to_sample(self, Point* at):
        """Take the rows drawn by weight in place of all; return their number."""
        cdef const uint32_t[::1] items
        cdef const double[::1] masses
        items, masses = self.sample
        at.items, at.weights = &items[0], &masses[0]
        return items.shape[0]

    cdef double _weight_read(
        self, const Point* at, Py_ssize_t n, Py_ssize_t length, Py_ssize_t part
    ):
        """The weight of the first `part` rows of each block, whose entries it counts as read."""
        cdef double weight = 0
        cdef Py_ssize_t start, i
        for start in range(0, n, length):
            for i in range(start, min(n, start + part)):
                weight += 1 if at.weights == NULL else at.weights[i]
                self.accesses += line_size(
                    &self.matrix.rows, i if at.items == NULL else at.items[i])
        return weight

    def _drawn(self, Py_ssize_t size):
        """Return the `sample`, drawn once; what is false where all weights are the same."""
        if self.sample is None and self.weights != NULL:
            differ = self.weights_array.min() < self.weights_array.max()
            self.sample = sample_by_weight(self.weights_array, size) if differ else ()
        return self.sample

    def penalty(self, const double[::1] w):
        """Return alpha / 2 |w|^2, without the threads that a BLAS would start."""
        return self.penalty_of(&w[0])

    cdef double penalty_of(self, const double* w) noexcept nogil:
        """alpha / 2 |w|^2"""
        cdef Py_ssize_t size = self.matrix.n_columns
        cdef double last = 0
        if self.has_multiplier:
            last = sqrt(self.intercept_penalty) * w[size]
        elif self.matrix.constant != 0:
            size += 1
        cdef double square = dense_dot64(w, w, size) + last * last
        if square <= SMALL or square == INFINITY:
            return scaled_penalty(self.alpha, w, size, last)
        return self.alpha / 2 * square

    def primal(self, w):
        """Return P(w).

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
        """
        return self.penalty(w) + self.sums([w])[0] / self.total_weight

    def certificate(self, w, duals, candidates=None, double rounding=0):
        """Return the primal values of candidate models and the dual value of feasible duals.

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
            w(duals), up to rounding.
        duals : ndarray of shape (n_rows,), float64, any stride
        candidates : list of one or two ndarrays like w, default=None
            The weights whose primal values are wanted; None means [w].
        rounding : float, default=0
            If w is a sum over rounded rows: a bound on their relative rounding errors.

        Returns
        -------
        primals : list of float
        dual : float
        """
        candidates = [w] if candidates is None else candidates
        return self.certificate_of_sums(
            self.sums(candidates, w, duals, rounding > 0), w, candidates, w, rounding)

    def estimate(self, w, duals, candidates):
        """Return the gap and the primal value of the best candidate, guessed from some of the rows.

        The gap of v is sum_i s_i (l(z_i) + l*(-a_i) + a_i z_i) / W + alpha / 2 |v - w(a)|^2 with
        z = X v. No term is negative, and near the optimum all are small, so that a part of the rows
        tells what all do.

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
            w(duals), the first candidate.
        duals, candidates
            As for `certificate`.
        """
        cdef Py_ssize_t n = self.matrix.n_rows
        cdef Py_ssize_t least = min(
            MOST_LEAST, WORTH_SEEING * n // max(1, self.matrix.n_stored))
        one_in = max(1, min(SEEN, n // max(LEAST_SEEN, least)))
        sums = self.sums(candidates, w, duals, wants_inner=True, one_in=one_in) / self.total_weight
        conjugate, inner = sums[CONJUGATE], sums[INNER:]
        found = []
        for v, loss, product in zip(candidates, sums, inner):
            gap = loss + conjugate + product - inner[0]
            if v is not w:    # which may be long
                gap += self.penalty(v - w)
            found.append((gap, loss + self.penalty(v)))
        return min(found)

    def certificate_of_sums(self, sums, w, candidates, of_duals, double rounding=0):
        """Return what `certificate` does, given the sums over all rows, any w, and w(duals).

        The latter as `weights_of_dual` returns it.
        """
        primals = [
            self.penalty(v) + loss / self.total_weight
            for v, loss in zip(candidates, sums[:CONJUGATE])
        ]
        conjugate, reach = sums[CONJUGATE:REACH + 1] / self.total_weight
        error = rounding * reach / self.alpha
        dual = self.penalty(w) - self.alpha / 2 * error * error - conjugate
        if of_duals is not w or 0 < self.intercept_penalty < 1:
            dual -= self.distance(w, of_duals)
        return primals, dual

    def distance(self, const double[::1] w, const double[::1] of_duals):
        """Return alpha / 2 |w - w(a)|^2, the latter as `weights_of_dual` returns it."""
        cdef double differences[BLOCK]
        cdef double square = 0
        cdef Py_ssize_t size = self.matrix.n_weights - self.has_multiplier, start, k, count
        for start in range(0, size, BLOCK):
            count = min(BLOCK, size - start)
            for k in range(count):
                differences[k] = w[start + k] - of_duals[start + k]
            square += dense_dot64(differences, differences, count)
        if 0 < self.intercept_penalty < 1:
            differences[0] = w[size] - of_duals[size] / self.intercept_penalty
            square += self.intercept_penalty * differences[0] * differences[0]
        if square <= SMALL or square == INFINITY:
            return self.penalty(np.subtract(w, self.penalized(of_duals)))
        return self.alpha / 2 * square

    def penalized(self, w):
        """Return w(a) from what `weights_of_dual` returns, which knows a penalty of 1 alone."""
        return penalized(w, self.intercept_penalty)

    def is_out_of_balance(self, last, of_duals, most):
        """Return what the function of this name does."""
        return is_out_of_balance(last, of_duals, self.alpha, self.intercept_penalty, most)

    def mass(self, last):
        """Return what `mass_at` does for this weight of the constant column."""
        strength = self.alpha * self.total_weight * self.intercept_penalty
        return mass_at(last, self.matrix.constant, strength)

    def certificate_of(self, duals, candidates):
        """Return what `certificate` does, of duals alone; it balances them with little penalty.

        Parameters
        ----------
        duals : ndarray of shape (n_rows,), float64
        candidates : list of one or two ndarrays of shape (n_weights,), float64
        """
        if self.intercept_penalty < BALANCED:
            self.balance(duals, self.mass(candidates[0][self.matrix.n_columns]))
        of_duals = np.zeros(self.matrix.n_weights)
        sums = self.sums(candidates, candidates[0], duals, of_duals=of_duals)
        found = self.certificate_of_sums(sums, candidates[0], candidates, of_duals)
        if found[0][0] <= MOST_OF_ZEROS * self.values_of_zeros()[0]:
            return found
        if self.free_intercept:
            of_duals[self.matrix.n_columns] = 0
        around = self.penalized(of_duals)
        sums = self.sums(candidates, around, duals)
        return self.certificate_of_sums(sums, around, candidates, of_duals)

    def shrinkage(self, const double[::1] w, double cost, double offset=0, at_zeros=None):
        """Return by what to multiply duals that come from elsewhere, as `best_multiple` does.

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
            w(a).
        cost : float
            `cost_of` all duals.
        offset : float, default=0.0
            What predictions hold besides <w, x>: a free intercept but for its part in w.
        at_zeros : float, default=None
            P(0), where the rows are a block of more. None means that of these.
        """
        cdef double square = self.alpha * dense_dot64(&w[0], &w[0], w.shape[0])
        cdef double gain = -cost / self.total_weight
        if offset != 0:
            gain -= offset * self.alpha * w[self.matrix.n_columns] / self.matrix.constant
        at_zeros = self.values_of_zeros()[0] if at_zeros is None else at_zeros
        return best_multiple(square, gain, at_zeros)

    def cost_of(self, const double[:] duals):
        """Return sum_i s_i (l*(-a_i) - l*(0)), what the dual value is less for them but for w."""
        cdef double total = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.matrix.n_rows):
                if duals[i] != 0:
                    total += self.weight(i) * (
                        self.loss.conjugate(duals[i], self.targets[i])
                        - self.loss.conjugate(0, self.targets[i]))
        return total

    def conjugate_sum(self, const double[:] duals):
        """Return sum_i s_i l*(-a_i); reads no feature."""
        cdef double total = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.matrix.n_rows):
                total += self.weight(i) * self.loss.conjugate(duals[i], self.targets[i])
        return total

    def weights_of_dual(self, const double[:] duals):
        """Return w(a) = sum_i s_i a_i x_i / (alpha W) as a new array (float64).

        See `penalized`.
        """
        result = np.zeros(self.matrix.n_weights)
        cdef double[::1] w = result
        cdef Py_ssize_t n = self.matrix.n_rows, step = self.matrix.rows_per_call(), first
        if duals.shape[0] != n:
            raise ValueError(f"{n} rows, but {duals.shape[0]} duals")
        for first in range(0, n, step):
            with nogil:
                self.add_duals(
                    first, min(n, first + step), &duals[0],
                    duals.strides[0] // <Py_ssize_t> sizeof(double), &w[0])
            PyErr_CheckSignals()
        self.accesses += self.matrix.n_stored
        return result

    cdef void add_duals(
        self, Py_ssize_t start, Py_ssize_t stop, const double* duals, Py_ssize_t stride, double* w
    ) noexcept nogil:
        """w += s_i a_i x_i / (alpha W) for the rows [start, stop)."""
        cdef uint32_t order[BLOCK]
        cdef double factors[BLOCK]
        cdef double scale = 1 / (self.alpha * self.total_weight), factor
        cdef Py_ssize_t i = start, count
        while i < stop:
            count = 0
            while i < stop and count < BLOCK:
                factor = scale * self.weight(i) * duals[i * stride]
                if factor != 0:
                    order[count], factors[count] = <uint32_t> i, factor
                    count += 1
                i += 1
            add_lines(&self.matrix.rows, order, count, factors, w)

    def subgradient(self, const double[::1] w, const uint32_t[::1] rows, double[::1] pull):
        """Return sum_i s_i l'(<w, x_i>) x_i over the rows, and how many feature values it read.

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
        rows : ndarray of uint32
        pull : ndarray of shape (n_rows,), float64
            Gains -s_i l'(<w, x_i>) for every row of the sum.
        """
        result = np.zeros(self.matrix.n_weights)
        cdef double[::1] total = result
        cdef Py_ssize_t k, i, n_read = 0
        cdef double slope
        cdef Line x
        with nogil:
            for k in range(rows.shape[0]):
                i = rows[k]
                x = line_at(&self.matrix.rows, i)
                slope = self.weight(i) * self.loss.derivative(dot(&x, &w[0]), self.targets[i])
                add(&x, slope, &total[0])
                pull[i] -= slope
                n_read += x.size
        return result, n_read

    cdef double curvatures_of(
        self, Py_ssize_t start, Py_ssize_t stop, double* curvatures
    ) noexcept nogil:
        """Of the dual along coordinates, divided by s_i / W: s_i |x_i|^2 / (alpha W).

        Returns their sum, for `check_curvatures`.
        """
        cdef double scale = 1 / (self.alpha * self.total_weight), total = 0
        cdef Py_ssize_t i
        squares(&self.matrix.rows, start, stop, curvatures)
        for i in range(start, stop):
            curvatures[i - start] *= scale * self.weight(i)
            total += curvatures[i - start]
            curvatures[i - start] = max(LEAST_CURVATURE, curvatures[i - start])
        return total

    def check_curvatures(self, double total):
        """Raise ValueError if a dual step could not be computed, or X is not finite.

        The sum of all curvatures tells both: so X needs no look of its own.
        """
        if not total < 1e300:
            self.matrix.check_finite()
            raise ValueError(
                "the squared norm of a row of X, divided by alpha * n_samples, overflows: "
                "scale X down or raise alpha")

    def curvatures(self):
        """Return the curvature of the dual along every coordinate (float64)."""
        result = np.empty(self.matrix.n_rows)
        cdef double[::1] curvatures = result
        cdef Py_ssize_t n = self.matrix.n_rows, step = self.matrix.rows_per_call(), first, last
        cdef double total = 0
        for first in range(0, n, step):
            last = min(n, first + step)
            with nogil:
                total += self.curvatures_of(first, last, &curvatures[first])
            PyErr_CheckSignals()
        self.check_curvatures(total)
        return result

    def make_feasible(self, double[::1] duals):
        """Move every dual to the nearest point of its loss's domain, in place."""
        cdef Py_ssize_t i
        if duals.shape[0] != self.matrix.n_rows:
            raise ValueError(f"{self.matrix.n_rows} rows, but {duals.shape[0]} duals")
        with nogil:
            for i in range(duals.shape[0]):
                duals[i] = self.loss.nearest_dual(duals[i], self.targets[i])

    def masses(self, const double[::1] duals):
        """Return the sum of s_i a_i over positive duals, and of -s_i a_i over negative ones."""
        # what these differ by counts times the intercept, which may be large
        cdef long double positive = 0, negative = 0
        cdef double mass
        cdef Py_ssize_t i
        with nogil:
            for i in range(duals.shape[0]):
                mass = self.weight(i) * duals[i]
                positive += max(mass, 0)
                negative += max(-mass, 0)
        return <double> positive, <double> negative

    def masses_of_ends(self, const double[::1] duals):
        """Return what `masses` would be if all duals were at the nearest ends of their domain.

        Infinite if that has no ends, or more than a few are between them, or only zeros are beside
        one that is.
        """
        form = self.loss.dual_form()
        cdef double bound = INFINITY if form is None else form.bound
        cdef long double positive = 0, negative = 0
        cdef double size, mass
        cdef Py_ssize_t i, n_between = 0
        if bound == INFINITY:
            return INFINITY, INFINITY
        with nogil:
            for i in range(duals.shape[0]):
                size = fabs(duals[i])
                mass = self.weight(i) * bound if size > bound / 2 else 0
                n_between += fabs(size - (bound if size > bound / 2 else 0)) > NEAR * bound
                positive += mass if duals[i] > 0 else 0
                negative += mass if duals[i] < 0 else 0
        if n_between > (max(1, MOST_BETWEEN * duals.shape[0]) if positive + negative > 0 else 0):
            return INFINITY, INFINITY
        return <double> positive, <double> negative

    def balance(self, duals, total=0.0):
        """Give sum_i s_i a_i a value, in place, as `balance_masses` does."""
        balance_masses(duals, self.masses(duals), total)

    def values_of_zeros(self):
        """Return P(0), the mean loss of zero weights, and D(0); reads no feature."""
        cdef double zeros[BLOCK]
        cdef double terms[BLOCK]
        cdef double primal = 0, dual = 0
        cdef Py_ssize_t n = self.matrix.n_rows, start, stop
        if self.zeros is not None:
            return self.zeros
        memset(zeros, 0, sizeof(zeros))
        for start in range(0, n, BLOCK):
            stop = min(n, start + BLOCK)
            with nogil:
                self.loss.values_of(zeros, self.targets + start, terms, stop - start)
                primal += self.total(start, stop, terms)
                self.loss.conjugates_of(zeros, self.targets + start, terms, stop - start)
                dual -= self.total(start, stop, terms)
        self.zeros = primal / self.total_weight, dual / self.total_weight
        return self.zeros

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        return np.zeros(self.matrix.n_weights), *self.values_of_zeros()
