"""A primal-dual interior point method for losses whose conjugate is quadratic on an interval.

Papers: Mehrotra, "On the implementation of a primal-dual interior point method" (1992); Ferris and
Munson, "Interior-point methods for massive support vector machines" (2002).

Objective: that of sublinear._core.objective. A dual is a sum of parts, a_i = sum_k sign_ik p_ik
with p_ik from `low` to `high`, two of them where l* has a kink at 0, and

    l*(-a_i) = sum_k ridge p_ik^2 / 2 + cost_ik p_ik

An iteration solves, to first order,

    alpha w = sum_i s_i / W a_i x_i
    ridge p_ik + cost_ik + sign_ik <x_i, w> = below_ik - above_ik
    below_ik (p_ik - low) = above_ik (high - p_ik) = centre scale_i

for all at once: first for centre 0, the predictor; then, the corrector, for what would be left of
the products if that step went as far as the bounds allow, with its error of second order taken off.
The scales are 1, so that a weight of k is k rows; but in proportion to 1 / sqrt(s_i) where weights
are very uneven. Otherwise rows of little weight would be pressed to the bounds and shorten the
steps; with 1 / s_i, those of large weight.

Parts and multipliers are eliminated, which leaves the equations of
sublinear._core.normal_equations with

    h_i = sum_k 1 / (ridge + below_ik / (p_ik - low) + above_ik / (high - p_ik))

Cost per iteration: six passes over the rows, the squares of their lengths, n_weights^3 / 6.
"""
from libc.math cimport INFINITY, fabs, isfinite

from functools import partial

import numpy as np

from sublinear._core.losses cimport Loss

from sublinear._core.gram import solution
from sublinear._core.normal_equations import NormalEquations

cdef double BOUNDARY = 0.99       # of the way to the end of an interval, at most
cdef double LEAST_SPREAD = 0.1    # of multipliers at first, in costs: parts may have no residuals

UNEVEN = 64                       # times the least weight: then the largest is far larger
LEAST_SHARE = 1e-12               # of a row, of the mean one, that counts for the centre
NEGLIGIBLE = 1e-3, 1e-6           # of a multiplier: a distance that vanishes with the centre


# A part of a dual, its multipliers and distances, and how they change.
cdef struct Part:
    double sign, slope, residual
    double below, above               # 0 where there is no bound
    double to_low, to_high            # infinite there
    double change, below_change, above_change


cdef inline void solve_part(
    Part* part, double prediction_change, double down, double up
) noexcept nogil:
    """Find the changes that bring the products with `below` to `down`, with `above` to `up`."""
    cdef double residual = part.residual - down / part.to_low + up / part.to_high
    part.change = -part.slope * (residual + part.sign * prediction_change)
    part.below_change = (down - part.below * part.change) / part.to_low - part.below
    part.above_change = (up + part.above * part.change) / part.to_high - part.above


cdef inline double pull_of(const Part* part, double down, double up) noexcept nogil:
    """What the part adds to the right side."""
    return part.sign * part.slope * (
        part.residual - down / part.to_low + up / part.to_high)


cdef inline double larger(double a, double b) noexcept nogil:
    """a if that is the larger one, never NaN, which 0 / 0 is where there is no bound."""
    return a if a > b else b


cdef inline double least_inverse(const Part* part, double inverse) noexcept nogil:
    """Return the larger of `inverse` and the inverse of the largest step of the part.

    That is the one which keeps its distances and multipliers positive (ratio test). Without
    branches, as those on the signs of changes are hard to foresee.
    """
    inverse = larger(-part.change / part.to_low, inverse)
    inverse = larger(part.change / part.to_high, inverse)
    inverse = larger(-part.below_change / part.below, inverse)
    return larger(-part.above_change / part.above, inverse)


cdef inline double length_of(double inverse) noexcept nogil:
    """The step length that has this inverse, infinite for 0."""
    return 1 / inverse if inverse > 0 else INFINITY


cdef inline double down_of(const Part* part, double centre) noexcept nogil:
    """What the product with `below` is to become in the corrector, after the predictor."""
    return centre - part.below_change * part.change


cdef inline double up_of(const Part* part, double centre) noexcept nogil:
    return centre + part.above_change * part.change


cdef inline double products_after(const Part* part, double length) noexcept nogil:
    """The products of multipliers and distances after a step of this length."""
    cdef double total = 0
    if part.below > 0:
        total += (part.below + length * part.below_change) * (part.to_low + length * part.change)
    if part.above > 0:
        total += (part.above + length * part.above_change) * (part.to_high - length * part.change)
    return total


def scales_of(shares):
    """Return the scales of rows that have these shares of the weight."""
    if shares.max() <= UNEVEN * shares.min():
        return np.ones(len(shares))
    scales = 1 / np.sqrt(np.maximum(len(shares) * shares, LEAST_SHARE))
    return scales / np.add.reduce(shares * scales)


cdef class InteriorPoint:
    """The method; see the top of the file.

    Class attributes are explained by sublinear._solvers.finisher.

    Parameters
    ----------
    objective : Objective
        The loss must have a `dual_form()`.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    gap, primal : float
        Between P(w) and the dual value.
    """
    n_passes_of_start, n_passes, sweeps, most_idle = 3, 6, 20, 8
    takes_start, factorises, is_measured = False, True, False
    cdef readonly object system, w
    cdef object state                 # parts, multipliers below and above
    cdef readonly double gap, primal
    cdef object residual              # alpha (w - w(a))
    cdef Loss loss
    cdef double ridge, epsilon, low, high
    cdef double size, width           # of costs and of intervals, on the average
    cdef bint one_sided
    cdef Py_ssize_t n, n_parts
    cdef double[::1] predictions, duals_of_rows, scales   # of products
    cdef const double[::1] targets, shares
    cdef double[:, ::1] parts, below, above

    @staticmethod
    def n_expected(loss):
        """As the finisher asks: kinks take more."""
        return 6 if loss.dual_form().ridge > 0 else 12

    def __init__(self, objective):
        self.system = NormalEquations(objective)
        self.loss = objective.loss
        self.targets, self.shares = self.system.targets, self.system.shares
        form = self.loss.dual_form()
        self.ridge, self.epsilon, self.one_sided = form.ridge, form.epsilon, form.one_sided
        self.n, self.n_parts = len(self.targets), 1 + (form.epsilon > 0 and not form.one_sided)
        self.scales = scales_of(self.system.shares)
        self.high = form.bound
        self.low = 0.0 if form.one_sided or form.epsilon > 0 else -form.bound
        self.w = np.zeros(objective.matrix.n_weights)
        self.predictions, self.duals_of_rows = np.zeros(self.n), np.empty(self.n)
        self.state = np.zeros((3, self.n_parts, self.n))
        self.parts, self.below, self.above = self.state
        self._begin()
        self._evaluate()

    cdef inline double _sign(self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
        return self.targets[i] if self.one_sided else 1.0 - 2.0 * k

    cdef inline Part _part(self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
        cdef Part part
        cdef double p = self.parts[k, i]
        part.change = part.below_change = part.above_change = 0
        part.sign = self._sign(i, k)
        part.below, part.above = self.below[k, i], self.above[k, i]
        part.to_low, part.to_high = p - self.low, self.high - p
        part.slope = 1 / (self.ridge + part.below / part.to_low + part.above / part.to_high)
        part.residual = (
            self.ridge * p + self.epsilon + part.sign * (self.predictions[i] - self.targets[i]))
        return part

    cdef void _begin(self) noexcept nogil:
        """Parts in the middle, multipliers that make up for the residuals and are not small."""
        cdef double middle = 0.0, spread = 0, residual
        cdef Py_ssize_t i, k
        if isfinite(self.high):
            middle = (self.low + self.high) / 2
        elif isfinite(self.low):
            middle = self.low + 1
        for k in range(self.n_parts):
            for i in range(self.n):
                self.parts[k, i] = middle
                spread += self.shares[i] * fabs(self._part(i, k).residual)
                self.size += self.shares[i] * fabs(
                    self.epsilon - self._sign(i, k) * self.targets[i])
        self.size = max(self.size / self.n_parts, 1e-300)
        spread = max(spread / self.n_parts, LEAST_SPREAD * self.size)
        self.width = self.high - self.low if isfinite(self.high) else self.size
        for k in range(self.n_parts):
            for i in range(self.n):
                residual = self._part(i, k).residual
                if isfinite(self.low):
                    self.below[k, i] = max(residual, 0) + spread
                if isfinite(self.high):
                    self.above[k, i] = max(-residual, 0) + spread

    def _evaluate(self):
        """Compute primal value and gap, whose terms are not negative."""
        cdef double loss, gap = 0, total = 0, dual, conjugate, p
        cdef Py_ssize_t i, k
        with nogil:
            for i in range(self.n):
                dual, conjugate = 0, 0
                for k in range(self.n_parts):
                    p = self.parts[k, i]
                    dual += self._sign(i, k) * p
                    conjugate += (
                        self.ridge * p / 2 + self.epsilon - self._sign(i, k) * self.targets[i]) * p
                loss = self.loss.value(self.predictions[i], self.targets[i])
                self.duals_of_rows[i] = dual
                total += self.shares[i] * loss
                gap += self.shares[i] * (loss + conjugate + dual * self.predictions[i])
        system = self.system
        self.residual = system.penalty * self.w - system.combine(self.duals_of_rows.base)
        self.primal = system.objective.penalty(self.w) + total
        self.gap = gap + system.distance(self.residual)

    def iterate(self):
        """Take a step; return False if none is possible."""
        system = self.system
        factor = system.factor(system.gram(self._slopes()))
        # predictor and corrector: the changes of the predictions by these steps
        predictor = self._solve(factor, self._predictor_pulls())[1]
        centre = self._centre_after(predictor)
        w, corrector = self._solve(factor, self._corrector_pulls(predictor, centre))
        length = min(1.0, BOUNDARY * self._corrector_reach(predictor, centre, corrector))
        if not length > 0:
            return False
        self._move(predictor, centre, corrector, length)
        self.w = self.w + length * w
        self._evaluate()
        return True

    def _solve(self, factor, pulls):
        """Return the changes of w and of the predictions."""
        w = -solution(factor, self.residual + self.system.combine(pulls))
        return w, self.system.products(w)

    def _slopes(self):
        """Return h_i."""
        slopes = np.zeros(self.n)
        cdef double[::1] total = slopes
        cdef Py_ssize_t i, k
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    total[i] += self._part(i, k).slope
        return slopes

    cdef inline Part _predicted(
        self, Py_ssize_t i, Py_ssize_t k, double predictor
    ) noexcept nogil:
        """The part and its changes in the predictor step."""
        cdef Part part = self._part(i, k)
        solve_part(&part, predictor, 0, 0)
        return part

    cdef inline Part _corrected(
        self, Py_ssize_t i, Py_ssize_t k, double predictor, double centre, double corrector
    ) noexcept nogil:
        """The part and its changes in the corrector step."""
        cdef Part part = self._predicted(i, k, predictor)
        centre *= self.scales[i]
        solve_part(&part, corrector, down_of(&part, centre), up_of(&part, centre))
        return part

    def _predictor_pulls(self):
        """Return the parts' right side in the predictor step."""
        pulls = np.zeros(self.n)
        cdef double[::1] total = pulls
        cdef Py_ssize_t i, k
        cdef Part part
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._part(i, k)
                    total[i] += pull_of(&part, 0, 0)
        return pulls

    def _corrector_pulls(self, const double[::1] predictor, double centre):
        """Return the parts' right side in the corrector step."""
        pulls = np.zeros(self.n)
        cdef double[::1] total = pulls
        cdef double aim
        cdef Py_ssize_t i, k
        cdef Part part
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._predicted(i, k, predictor[i])
                    aim = centre * self.scales[i]
                    total[i] += pull_of(&part, down_of(&part, aim), up_of(&part, aim))
        return pulls

    def _centre_after(self, const double[::1] predictor):
        """Return Mehrotra's centring parameter."""
        cdef double length = min(1.0, self._predictor_reach(predictor))
        cdef double before = 0, after = 0
        cdef Py_ssize_t i, k, n_bounds = isfinite(self.low) + isfinite(self.high)
        cdef Part part
        if n_bounds == 0:
            return 0.0
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._predicted(i, k, predictor[i])
                    before += self.shares[i] * products_after(&part, 0)
                    after += self.shares[i] * products_after(&part, length)
        before, after = max(before, 0), max(after, 0)
        if before == 0:
            return 0.0
        return before / (self.n_parts * n_bounds) * (after / before) ** 3

    def _predictor_reach(self, const double[::1] predictor):
        """Return the longest predictor step that keeps distances and multipliers positive."""
        cdef double inverse = 0
        cdef Py_ssize_t i, k
        cdef Part part
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._predicted(i, k, predictor[i])
                    inverse = least_inverse(&part, inverse)
        return length_of(inverse)

    def _corrector_reach(
        self, const double[::1] predictor, double centre, const double[::1] corrector
    ):
        """Return the longest corrector step that keeps distances and multipliers positive."""
        cdef double inverse = 0
        cdef Py_ssize_t i, k
        cdef Part part
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._corrected(i, k, predictor[i], centre, corrector[i])
                    inverse = least_inverse(&part, inverse)
        return length_of(inverse)

    def _move(
        self, const double[::1] predictor, double centre, const double[::1] corrector,
        double length
    ):
        """Take a step of this length."""
        cdef Py_ssize_t i, k
        cdef Part part
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    part = self._corrected(i, k, predictor[i], centre, corrector[i])
                    self.parts[k, i] += length * part.change
                    self.below[k, i] += length * part.below_change
                    self.above[k, i] += length * part.above_change
            for i in range(self.n):
                self.predictions[i] += length * corrector[i]

    @property
    def present_duals(self):
        """Of the rows that have weight, all of them inside their intervals."""
        return self.duals_of_rows.base

    def candidates(self):
        """Return functions of the present state that give what a certificate may take.

        Most duals at a bound, fewer, none.
        """
        state, present = self.state.copy(), self.present_duals.copy()
        return [
            *(partial(self.duals, negligible, state, self.w) for negligible in NEGLIGIBLE),
            partial(self.system.all_duals, present),
        ]

    def duals(self, double negligible, const double[:, :, ::1] state, w):
        """Return the duals of all rows (float64), at a bound where they only approach it.

        Where alpha is small, w(a) follows the least change of a dual. So those that are not at a
        bound are then changed a little, such that w(a) is w.

        Parameters
        ----------
        negligible : float
            A part is at a bound where its distance is less than so many times its multiplier, in
            units of width and size.
        state : ndarray of shape (3, n_parts, n), float64
            Parts, multipliers below and above.
        w : ndarray of shape (n_weights,), float64
        """
        cdef double p, start, end, sign
        cdef Py_ssize_t i, k
        duals, least, most = np.zeros((3, self.n))
        cdef double[::1] total = duals, low = least, high = most
        with nogil:
            for k in range(self.n_parts):
                for i in range(self.n):
                    p, start, end, sign = state[0, k, i], self.low, self.high, self._sign(i, k)
                    if (p - start) * self.size < negligible * state[1, k, i] * self.width:
                        p = end = start
                    elif (end - p) * self.size < negligible * state[2, k, i] * self.width:
                        p = start = end
                    total[i] += sign * p
                    low[i] += min(sign * start, sign * end)
                    high[i] += max(sign * start, sign * end)
        inside = least < most
        duals = self.system.adjusted(duals, w, inside)
        np.clip(duals, least, most, out=duals)
        return self.system.all_duals(duals)
