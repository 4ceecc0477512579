"""Newton's method on all duals at once, for where steps on single ones creep.

Papers: Mehrotra, "On the implementation of a primal-dual interior point method" (1992); Ferris and
Munson, "Interior-point methods for massive support vector machines" (2002).

Objective: that of sublinear._core.objective. A step of dual coordinate ascent is blind to all
other examples, and where the largest eigenvalue of X'X is far above alpha W, thousands of passes
see little progress. Where w is short, the whole system of equations fits into a matrix of its
length squared:

    (alpha I + sum_i s_i / W h_i x_i x_i') change of w = right side

with h_i = -da_i / dz_i, how far a dual follows its prediction. Two methods come down to that:

- InteriorPoint, for losses whose conjugate is a quadratic function on an interval: duals stay
  inside, kept away from the ends by multipliers whose products with the distances shrink together;
- Newton, for smooth losses: a_i = -l'(z_i), h_i = l''(z_i), with a line search.

Both converge within some tens of iterations, whatever the data's scale.

Cost per iteration: some passes over the rows, the squares of their lengths, n_weights^3 / 6.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from sublinear._core.gram import upper_factor, weighted_gram

SLICE = 2**23  # stored values between two looks for Ctrl-C
BOUNDARY = 0.99  # of the way to the end of an interval, at most
NEGLIGIBLE = 1e-3  # of a multiplier: a distance that is 0 but for rounding
DECREASE = 1e-4  # of what the slope promises, at least
MOST_HALVINGS = 40


class System:
    """The rows that have weight, and the equations for the change of w.

    Parameters
    ----------
    objective : Objective
    """

    def __init__(self, objective):
        self.objective, self.matrix = objective, objective.matrix
        weights = objective.weights_array
        if weights is None:
            self.rows = np.arange(self.matrix.n_rows, dtype=np.uint32)
            self.shares = np.full(len(self.rows), 1 / objective.total_weight)
        else:
            self.rows = np.flatnonzero(weights).astype(np.uint32)
            self.shares = weights[self.rows] / objective.total_weight
        self.targets = np.asarray(objective.targets_array)[self.rows]
        step = max(1, SLICE // max(1, self.matrix.n_stored // self.matrix.n_rows))
        self.slices = [slice(k, k + step) for k in range(0, len(self.rows), step)]
        self.penalty = np.full(self.matrix.n_weights, objective.alpha)
        if objective.free_intercept:
            self.penalty[-1] = 0.0

    def products(self, w):
        """Return <x_i, w>."""
        return np.concatenate([self.matrix.row_dots(w, self.rows[part]) for part in self.slices])

    def combine(self, factors):
        """Return sum_i s_i / W factors_i x_i."""
        total = np.zeros(self.matrix.n_weights)
        factors = self.shares * factors
        for part in self.slices:
            self.matrix.add_rows(factors[part], self.rows[part], total)
        return total

    def factor(self, slopes):
        """Factor the matrix of the equations; raises LinAlgError."""
        gram = weighted_gram(self.matrix, self.rows, self.shares * slopes)
        gram[np.diag_indices_from(gram)] += self.penalty
        return upper_factor(gram), False  # for cho_solve

    def distance(self, residual):
        """Return alpha / 2 |w - w(a)|^2, of alpha (w - w(a))."""
        penalized = residual[: len(residual) - self.objective.free_intercept]
        return float(np.add.reduce(penalized**2)) / (2 * self.objective.alpha)

    def primal(self, w, predictions):
        """Return P(w)."""
        losses = self.objective.loss.values(predictions, self.targets)
        return self.objective.penalty(w) + float(np.add.reduce(self.shares * losses))

    def all_duals(self, duals):
        """Return the duals of all rows: those without weight are 0."""
        everywhere = np.zeros(self.matrix.n_rows)
        everywhere[self.rows] = duals
        return everywhere


@dataclass(frozen=True)
class Change:
    """What an iteration of an interior point method adds."""

    w: np.ndarray
    predictions: np.ndarray
    parts: np.ndarray
    multipliers: list


def longest_step(bounds, change):
    """Return the largest multiple of a change that leaves multipliers and distances positive."""
    longest = math.inf
    for (multipliers, distances, sign), dm in zip(bounds, change.multipliers, strict=True):
        for values, changes in ((multipliers, dm), (distances, sign * change.parts)):
            shrinks = changes < 0
            if shrinks.any():
                longest = min(longest, float((values[shrinks] / -changes[shrinks]).min()))
    return longest


class Newton:
    """Newton's method for smooth losses.

    Class attributes as of InteriorPoint.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64, default=None
        Where to start, if that is better than zeros.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    gap, primal : float
        Between P(w) and the dual value of a_i = -l'(<x_i, w>), which is |P'(w)|^2 / (2 alpha).
    """

    n_expected, n_passes, sweeps, step = 10, 4, 4, 30
    takes_start = True

    def __init__(self, objective, w=None):
        self.system, self.loss = System(objective), objective.loss
        self.w = np.zeros(objective.matrix.n_weights) if w is None else np.array(w)
        self._look()
        if not self.primal <= objective.values_of_zeros()[0]:
            self.w = np.zeros_like(self.w)
            self._look()

    def _look(self):
        system = self.system
        self.predictions = system.products(self.w)
        self.primal = system.primal(self.w, self.predictions)
        self.slopes = self.loss.derivatives(self.predictions, system.targets)
        self.gradient = system.penalty * self.w + system.combine(self.slopes)
        self.gap = system.distance(self.gradient)

    def iterate(self):
        """Take a step; return False if none is possible."""
        system = self.system
        factor = system.factor(self.loss.second_derivatives(self.predictions, system.targets))
        direction = -cho_solve(factor, self.gradient)
        change = system.products(direction)
        promise = float(np.add.reduce(self.gradient * direction))
        step = 1.0
        for _ in range(MOST_HALVINGS):
            w = self.w + step * direction
            primal = system.primal(w, self.predictions + step * change)
            if primal <= self.primal + DECREASE * step * promise:
                self.w = w
                self._look()
                return True
            step /= 2
        return False

    def duals(self):
        """Return the duals of all rows (float64)."""
        return self.system.all_duals(-self.slopes)


class InteriorPoint:
    """A primal-dual interior point method with predictor and corrector.

    A dual is a sum of parts, a_i = sum_k sign_ik p_ik with p_ik from `low` to `high`, and

        l*(-a_i) = sum_k ridge p_ik^2 / 2 + cost_ik p_ik

    There are two parts where l* has a kink at 0. An iteration solves, to first order,

        alpha w = sum_i s_i / W a_i x_i
        ridge p_ik + cost_ik + sign_ik <x_i, w> = below_ik - above_ik
        below_ik (p_ik - low) = above_ik (high - p_ik) = centre

    for all at once: for centre 0 at first, then for what is left of the products if that step went
    as far as the bounds allow, with its error of second order taken off.

    Parameters
    ----------
    objective : Objective
        The loss must have a `dual_form()`.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    gap, primal : float
        Between P(w) and the dual value.
    n_expected : int
        Iterations.
    n_passes : int
        Over the rows, an iteration.
    sweeps, step : int
        Times, in that of a feature value in a step of coordinate ascent: of an iteration for every
        example, besides what the rows take; of a step for this loss, besides its feature values.
    takes_start : bool
        Whether weights to start from may be given.
    """

    n_expected, n_passes, sweeps, step = 25, 6, 45, 0
    takes_start = False

    def __init__(self, objective):
        self.system = system = System(objective)
        form = objective.loss.dual_form()
        y = system.targets
        if form.one_sided:
            signs = y[np.newaxis]
        elif form.epsilon > 0:
            signs = np.stack([np.ones_like(y), -np.ones_like(y)])
        else:
            signs = np.ones((1, len(y)))
        self.ridge, self.signs = form.ridge, signs
        self.costs = form.epsilon - signs * y
        self.high = form.bound
        self.low = 0.0 if form.one_sided or form.epsilon > 0 else -form.bound
        self.shares = system.shares / len(signs)
        self.w = np.zeros(objective.matrix.n_weights)
        self.predictions = np.zeros(len(y))
        self.parts = np.full(signs.shape, self._middle())
        residuals = self._residuals()
        spread = max(float(np.add.reduce(np.abs(residuals) @ self.shares)), 1e-300)
        # no multipliers where there is no bound
        self.below = self.above = None
        if math.isfinite(self.low):
            self.below = np.maximum(residuals, 0) + spread
        if math.isfinite(self.high):
            self.above = np.maximum(-residuals, 0) + spread
        self._look()

    def _middle(self):
        if math.isfinite(self.high):
            return (self.low + self.high) / 2
        return 0.0 if math.isinf(self.low) else 1.0

    def _residuals(self):
        """By how much the multipliers would have to differ."""
        return self.ridge * self.parts + self.costs + self.signs * self.predictions

    def _look(self):
        system, parts = self.system, self.parts
        self.residual = system.penalty * self.w - system.combine((self.signs * parts).sum(axis=0))
        self.primal = system.primal(self.w, self.predictions)
        conjugates = (self.ridge * parts / 2 + self.costs + self.signs * self.predictions) * parts
        self.gap = (
            self.primal
            - system.objective.penalty(self.w)
            + float(np.add.reduce(conjugates.sum(axis=0) * system.shares))
            + system.distance(self.residual)
        )

    def _bounds(self):
        """Return pairs of multipliers and distances, and the sign by which parts enter these."""
        if self.below is not None:
            yield self.below, self.parts - self.low, 1.0
        if self.above is not None:
            yield self.above, self.high - self.parts, -1.0

    def _centre(self, multipliers_and_distances):
        """Return the mean of the products of multipliers and distances."""
        products = [
            float(np.add.reduce((multipliers * distances) @ self.shares))
            for multipliers, distances in multipliers_and_distances
        ]
        return max(0.0, sum(products) / len(products))

    def iterate(self):
        """Take a step; return False if none is possible."""
        bounds = list(self._bounds())
        curvatures = np.full(self.parts.shape, self.ridge)
        for multipliers, distances, _ in bounds:
            curvatures += multipliers / distances
        slopes = 1 / curvatures
        factor = self.system.factor(slopes.sum(axis=0))
        change = self._solve(factor, slopes, bounds, [0.0] * len(bounds))
        if bounds:
            length = min(1.0, longest_step(bounds, change))
            centre = self._centre([(m, distances) for m, distances, _ in bounds])
            after = self._centre(
                [
                    (m + length * dm, distances + length * sign * change.parts)
                    for (m, distances, sign), dm in zip(bounds, change.multipliers, strict=True)
                ]
            )
            centre *= (after / centre) ** 3 if centre > 0 else 0.0
            products = [
                centre - sign * dm * change.parts
                for (_, _, sign), dm in zip(bounds, change.multipliers, strict=True)
            ]
            change = self._solve(factor, slopes, bounds, products)
        length = min(1.0, BOUNDARY * longest_step(bounds, change))
        if not length > 0:
            return False
        self.w = self.w + length * change.w
        self.predictions += length * change.predictions
        self.parts += length * change.parts
        for (multipliers, _, _), dm in zip(bounds, change.multipliers, strict=True):
            multipliers += length * dm
        self._look()
        return True

    def _solve(self, factor, slopes, bounds, products):
        """Return the Change that brings the products of multipliers and distances to these."""
        residuals = self._residuals()
        for (_, distances, sign), product in zip(bounds, products, strict=True):
            residuals -= sign * product / distances
        pull = (self.signs * slopes * residuals).sum(axis=0)
        w = -cho_solve(factor, self.residual + self.system.combine(pull))
        predictions = self.system.products(w)
        parts = -slopes * (residuals + self.signs * predictions)
        multipliers = [
            (product - sign * m * parts) / distances - m
            for (m, distances, sign), product in zip(bounds, products, strict=True)
        ]
        return Change(w, predictions, parts, multipliers)

    def duals(self):
        """Return the duals of all rows (float64), those at a bound but for rounding there."""
        parts = self.parts.copy()
        for multipliers, distances, sign in self._bounds():
            bound = self.low if sign > 0 else self.high
            parts[self._is_at_bound(multipliers, distances)] = bound
        return self.system.all_duals((self.signs * parts).sum(axis=0))

    def _is_at_bound(self, multipliers, distances):
        """Tell which distances vanish, not their multipliers: both have a common product."""
        size = max(1e-300, float(np.add.reduce(np.abs(self.costs) @ self.shares)))
        width = self.high - self.low if math.isfinite(self.high) else size
        return distances / width < NEGLIGIBLE * multipliers / size
