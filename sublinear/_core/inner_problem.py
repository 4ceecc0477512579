"""The inner problem of a stage of Streaming SVRG on kept rows, and Newton's method for it."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from sublinear._core.conjugate_gradients import MOST_STEPS, conjugate_gradients
from sublinear._core.frames import BY_CHANCE
from sublinear._core.kept_rows import MOST_WEIGHTS, Evaluation, KeptRows
from sublinear._core.row_blocks import is_of_counts

MAX_NEWTON_STEPS = 200
MAX_CORRECTED_STEPS = 20  # where a slope is added, which may have no minimiser
MAX_DOUBLINGS = 30
MAX_HALVINGS = 60
EXACT = 1e-15  # Newton decrement at which to stop, by the value
ROUNDING = 1e-12  # of a value
MODEL_SHARE = 0.1  # of the quadratic model at the anchor, beside the rows' losses
CHANCE = 3.0  # standard errors by which the rows' losses may grow in a stage
MOST_UNEVEN = 8.0  # mean square of what rows say of a way, by the square of their mean
STALE = 0.1  # decrement left by a step that calls for another Hessian
CG_TOLERANCE = 1e-2  # leaves 1e-4 of a decrement: less than is enough
PROBE_TOLERANCE = 5e-2  # leaves less of a trace than chance does
CONDITION = 15  # logarithm of a pivots' ratio beyond which directions are dropped
MOST_PROBED = 1 << 20  # values of probes that are solved together
SMALLEST_UNIT = 1e-150  # smaller features count as zeros: their squares end below 1e-300
SMALLEST_SHARE = 1e-8  # of a probe, beside the mean, that is told from rounding
ROWS_PER_DEGREE = 10  # kept rows per degree of freedom, below which steps are damped,
EFFECTIVE_PER_DEGREE = 2  # and effective ones: heavy rows do not err in what they stand for


class Restraint(NamedTuple):
    """What keeps the weights of a first model near 0.

    Attributes
    ----------
    degrees : float or None
        Of freedom, by the effective rows, at the most.
    alike : bool
        Whether the penalty is the same for all features, not in units of their own. That is what
        features which are rare, and not small, call for.
    """

    degrees: float | None = None
    alike: bool = False


FREE = Restraint()


class InnerProblem:
    """mean over a sample of l(<v, x_i>) + <c, v> + alpha / 2 |v|^2 + <r, (v - w~)^2> / 2.

    That of a FirstStage or a LaterStage, which say what c and r are.

    Parameters
    ----------
    loss : Loss
    sample : Sample
    alpha : float or ndarray of shape (n_weights,)
    anchor : ndarray of shape (n_weights,)
        w~, where the search for the minimiser begins.
    most_steps : int
        Of Newton's method.

    Attributes
    ----------
    slope, damping : ndarray of shape (n_weights,)
        c and r.
    limit : ndarray of shape (n_weights,)
        The part of r that keeps steps short.
    latest : Hessian
        That of `minimise`, of the minimiser or a place near by.
    left, unknown : float
        What a step leaves of an excess risk, and the part of it that comes of the sample's
        curvature, which is not that of all rows.
    taken : float
        The part of a step that is made.
    converged : bool
        Whether there were steps enough.
    """

    def __init__(self, loss, sample, alpha, anchor, most_steps):
        self.loss, self.alpha, self.anchor, self.most_steps = loss, alpha, anchor, most_steps
        rows, self.targets, weights = sample.compact()
        self.rows = KeptRows(rows)
        self.shares = weights / weights.sum()
        self.n_effective = effective_rows(weights)
        self.slope = self.damping = self.limit = np.zeros(len(anchor))
        self.first = self.evaluate(anchor, gram=True)
        self.converged = True
        self.taken = 1.0
        self.left = self.unknown = min(1.0, len(anchor) / len(self.targets))
        self.model_slope = 0.0  # at the anchor, of a quadratic model beside the rows' losses

    def evaluate(self, v, gram=False):
        """Return the Evaluation of the sample's rows at v."""
        return self.rows.evaluate(self.loss, v, self.targets, self.shares, gram)

    def _value(self, v, losses, pull):
        """Return the objective at v, of the rows' losses and the model's gradient there."""
        away = v - self.anchor
        return (
            self.shares @ losses
            + self.slope @ v
            + v @ (self.alpha * v) / 2
            + away @ (self.damping * away + self.model_slope + pull) / 2
        )

    def _value_at(self, v):
        losses = self.loss.values(self.rows.rows @ v, self.targets)
        return self._value(v, losses, self._pull(v - self.anchor))

    def _gradient(self, place):
        """Return the gradient at a Place."""
        v, away = place.weights, place.weights - self.anchor
        slope = place.evaluation.gradient + self.slope + place.pull
        return slope + self.alpha * v + self.damping * away

    def _pull(self, away):
        """Return the model's gradient so far away from the anchor."""
        return self.model_slope

    def hessian(self, evaluation):
        """Return the Hessian at an Evaluation."""
        return self._hessian(evaluation.curvatures, evaluation.gram)

    def reweighted_hessian(self, evaluation):
        """Return that of iteratively re-weighted least squares."""
        away = np.maximum(np.abs(evaluation.scores - self.targets), 1e-12)
        return self._hessian(self.shares * np.abs(evaluation.slopes) / away, None)

    def _hessian(self, curvatures, matrix):
        return Hessian(self.rows, curvatures, self.alpha + self.damping, matrix)

    def _limit(self, hessian, allowed):
        """Return curvature that leaves the sample so few degrees of freedom.

        It is in the features' own units, but no less than in those that they would have if all
        rows had the curvature of their mean: where a feature's few rows are flat, steps would have
        no end.
        """
        if len(self.anchor) <= allowed:
            return np.zeros(len(self.anchor))
        squares, variances = self.rows.variances(self.shares)
        shift = hessian.shift_for_degrees(allowed)
        made = 1 / (1 + shift)
        self.unknown = made**2 * allowed / len(self.targets)
        self.left = (1 - made) ** 2 + self.unknown
        alike = hessian.curvatures.sum() * np.where(variances > 0, variances, squares)
        units = np.maximum(hessian.units**2, alike)
        return np.where(is_varied(squares, variances), units * shift, 0.0)

    def minimise(self, precision=0.0, max_steps=None):
        """Return the minimiser by Newton's method; a Hessian is used as long as it serves.

        What the last step is expected to leave is at most `precision` times twice what a step
        gained; 0: by rounding.
        """
        here = self._place(self.anchor, self.first)
        beginning, most_gained = abs(here.value), 0.0
        step = self._newton_step(here)
        self._check_range(here, step)
        for _ in range(max_steps or self.most_steps):
            there = following = None
            if step.is_reweighted or step.is_solved():
                if precision and self._is_last(here, step, precision * most_gained):
                    return here.weights - step.direction
                there, following = self._moved(here, step)
            if there is None and step.is_reweighted:
                return here.weights
            if there is None:
                step = self._reweighted_step(here, step.gradient)
                continue
            most_gained = max(most_gained, 2 * (here.value - there.value))
            here = there
            # of separable classes no value is left in the end
            if step.decrement <= EXACT * max(abs(here.value), beginning):
                return here.weights
            step = following or self._next_step(here, step, precision, most_gained)
        self.converged = False
        return here.weights

    def _newton_step(self, here, gained=0.0):
        gradient, self.latest = self._gradient(here), self.hessian(here.evaluation)
        return Step(gradient, self.latest, self.latest.solve(gradient, gained=gained))

    def _reweighted_step(self, here, gradient):
        hessian = self.reweighted_hessian(here.evaluation)
        return Step(gradient, hessian, hessian.solve(gradient), is_reweighted=True)

    def _next_step(self, here, before, precision, most_gained):
        """Return the Step with a new Hessian after another one; see `minimise` for its limits."""
        return self._newton_step(here)

    def _check_range(self, here, step):
        """Raise ValueError where sums have left the range of floating-point numbers."""
        if self.loss.quadratic:  # in its squares; other losses take numbers that overflow there
            in_units = step.gradient / step.hessian.units
            check_sum(here.value + step.decrement + in_units @ in_units)

    def _is_last(self, here, step, enough):
        """Tell whether a whole step ends the search.

        It does where the Hessian is exact, or where the step leaves less than is `enough` and the
        value does not rise: a Hessian says nothing of the values beyond a kink.
        """
        if self.loss.quadratic and step.hessian.matrix is not None:
            return True
        is_near = step.shrink * step.decrement < enough
        return is_near and self._value_at(here.weights - step.direction) <= here.value

    def _place(self, v, evaluation=None):
        evaluation = evaluation or self.evaluate(v)
        pull = self._pull(v - self.anchor)
        return Place(v, evaluation, self._value(v, evaluation.losses, pull), pull)

    def _moved(self, here, step):
        """Return a better Place, None if none is found, and the Step from there with this Hessian.

        There is no such Step where the Hessian has become stale. If it has not, the step has made
        the gradient smaller in its norm, and need not be shortened. One that is not factorised
        costs as much as a new one, and is not kept.
        """
        there = self._place(here.weights - step.direction)
        if step.hessian.matrix is not None:
            following = step.with_gradient(self._gradient(there))
            fell = there.value <= here.value + ROUNDING * abs(here.value)
            if fell and following.decrement <= STALE * step.decrement:
                return there, following
        return self._shortened(here, step, there), None

    def _shortened(self, here, step, there):
        """Return the first Place of v - direction, v - direction / 2, .. that is better, or None.

        `there` is the first one.
        """
        length, slack, decrement = 1.0, ROUNDING * abs(here.value), step.decrement
        for _ in range(MAX_HALVINGS):
            if there.value <= here.value - 1e-4 * length * decrement or (
                decrement <= slack and there.value <= here.value + slack
            ):
                return there
            length /= 2
            there = self._place(here.weights - length * step.direction)
        return None


class FirstStage(InnerProblem):
    """The InnerProblem of a sample that is all there is: c is 0, and r what a Restraint makes it.

    Parameters
    ----------
    loss, sample, alpha, anchor
        See InnerProblem.
    restraint : Restraint
    """

    def __init__(self, loss, sample, alpha, anchor, restraint=FREE):
        super().__init__(loss, sample, alpha, anchor, MAX_NEWTON_STEPS)
        check_sum(self.first.squares.sum() + self.first.gradient.sum())
        if restraint.degrees is not None:
            is_flat = not self.first.curvatures.any()
            hessian = self.reweighted_hessian(self.first) if is_flat else self.hessian(self.first)
            limit = self._limit_alike if restraint.alike else self._limit
            self.damping = self.limit = limit(hessian, restraint.degrees * self.n_effective)

    def _limit_alike(self, hessian, allowed):
        """Return curvature alike in all features that leaves no more degrees of freedom."""
        varied = is_varied(*self.rows.variances(self.shares))
        return np.where(varied, hessian.squares[varied].sum() / allowed, 0.0)

    def _check_range(self, here, step):
        super()._check_range(here, step)
        check_sum(here.value)  # not that of later rows, which may be few, at an old anchor

    def _moved(self, here, step):
        """Do as in any stage; but re-weighted rows make steps too short: they double while it pays.

        The next direction is then that of a new Hessian.
        """
        if not step.is_reweighted:
            return super()._moved(here, step)
        length, whole = 1.0, self._place(here.weights - step.direction)
        best = self._shortened(here, step, whole)
        for _ in range(MAX_DOUBLINGS if best is whole else 0):
            length *= 2
            there = self._place(here.weights - length * step.direction)
            if not there.value < best.value:
                break
            best = there
        return best, None


class LaterStage(InnerProblem):
    """The InnerProblem of a sample that stands for all rows.

    With c the difference of a gradient at w~ and that of the sample, its minimiser is where the
    inner steps of SVRG with draws from the sample would lead, but for the damping r. That gives
    features which are rarer in the sample than in the stream the curvature they lack, and keeps
    steps short where a few rows say little about the curvature.

    But for counts, a part of its own quadratic model at w~ is added: that leaves the minimiser of a
    quadratic objective where it is, and brings v back from where the rows are flat, but <c, v> is
    not.

    Parameters
    ----------
    loss, sample, alpha, anchor
        See InnerProblem.
    gradient, squares : ndarray of shape (n_weights,)
        Means over all rows, of gradients at the anchor and of squares of the features.
    way : Way, default=None
        To the anchor, if this sample tells of it.

    Attributes
    ----------
    gradient : ndarray of shape (n_weights,)
        That given, by what the sample says of the way as well.
    mends : bool
        Whether it says anything.
    """

    def __init__(self, loss, sample, alpha, anchor, gradient, squares, way=None):
        super().__init__(loss, sample, alpha, anchor, MAX_CORRECTED_STEPS)
        self.mends, self.gradient = False, gradient
        if way is not None:
            self._mend(way)
            gradient = self.gradient
        check_sum(self.first.squares.sum() + self.first.gradient.sum() + gradient.sum())
        self.slope = gradient - self.first.gradient
        self.damping = self._damping(squares - BY_CHANCE * self.first.squares)
        self.model = None  # the Hessian at the anchor
        # slopes of counts do not level off: their curvature far away would be one of huge rows
        if not (loss.quadratic or is_of_counts(loss)):
            self.model_slope = MODEL_SHARE * self.slope_at_anchor
            self.model = self.hessian(self.first)

    def _mend(self, way):
        """Let the sample say what the way has changed, unless few of its rows make that up."""
        first, other = self.first, self.evaluate(way.before)
        rises = self.shares * (first.slopes - other.slopes) * (first.scores - other.scores)
        total = rises.sum()
        if total > 0 and len(rises) * (rises @ rises) <= MOST_UNEVEN * total**2:
            change = first.gradient - other.gradient
            self.gradient = self.gradient + way.share * (change - way.assumed)
            self.mends = True

    @property
    def slope_at_anchor(self):
        """The gradient there."""
        return self.first.gradient + self.slope + self.alpha * self.anchor

    def _damping(self, missing):
        """Return r: curvature that the sample lacks, and what leaves it few degrees of freedom."""
        first, missing = self.first, np.maximum(0, missing)
        mean = np.sum(first.curvatures)
        own = mean * first.squares if first.gram is None else np.diag(first.gram)
        with np.errstate(invalid="ignore"):
            # a feature's own curvature as far as the sample has the feature
            damping = missing * np.nan_to_num((own + mean * missing) / (first.squares + missing))
        hessian = Hessian(self.rows, first.curvatures, self.alpha + damping, first.gram)
        degrees = len(self.targets) / ROWS_PER_DEGREE
        self.limit = self._limit(hessian, min(degrees, self.n_effective / EFFECTIVE_PER_DEGREE))
        return damping + self.limit

    def _pull(self, away):
        if self.model is None or not away.any():
            return self.model_slope
        return self.model_slope + MODEL_SHARE * self.model.product(away)

    def _hessian(self, curvatures, matrix):
        if self.model is None:
            return super()._hessian(curvatures, matrix)
        curvatures = curvatures + MODEL_SHARE * self.first.curvatures
        shift = (1 + MODEL_SHARE) * (self.alpha + self.damping)
        if matrix is not None:
            matrix = matrix + MODEL_SHARE * self.first.gram
        return Hessian(self.rows, curvatures, shift, matrix)

    def _next_step(self, here, before, precision, most_gained):
        # a first stage may gain far more than features have to explain, as by an intercept
        step = self._newton_step(here, precision / MOST_STEPS * most_gained)
        if step.hessian.matrix is not None:
            return step
        # decrements go on to shrink as they did: with new Hessians they do so ever faster
        return step._replace(shrink=min(1.0, step.decrement / before.decrement))

    def held_back(self, weights):
        """Return weights between w~ and those given; the nearer, the more the rows' losses grow.

        They may grow as much as is chance, a few standard errors to first order. They grow further
        where the slope comes from rows whose curvature the sample lacks. Weights that are still on
        their way, as where classes are separable, may be anywhere.
        """
        if not self.converged:
            self.taken = 0.0
            return self.anchor
        step, start, before = weights - self.anchor, self.first.scores, self.first.losses
        along = self.rows.rows @ step
        slopes = self.first.slopes * along
        error = np.sqrt(self.shares**2 @ (slopes - self.shares @ slopes) ** 2)
        slack = ROUNDING * (self.shares @ np.abs(before))
        for halvings in range(MAX_HALVINGS + 1):
            length = 0.5**halvings if halvings < MAX_HALVINGS else 0.0
            v = self.anchor + length * step
            rise = self.shares @ (self.loss.values(start + length * along, self.targets) - before)
            rise += (v + self.anchor) @ (self.alpha * length * step) / 2
            if rise <= CHANCE * length * error + slack:
                break
        self.taken = length
        return weights if length == 1 else v


def is_varied(squares, variances):
    """Tell which features are no intercepts; those that no row has are none."""
    return (squares == 0) | (variances > 0)


def effective_rows(weights):
    """Return how many rows of equal weights would tell as much: all, if theirs are equal."""
    relative = weights / weights.max()
    return relative.sum() ** 2 / (relative @ relative)


def check_sum(number):
    """Raise ValueError for a sum over rows that is not finite."""
    if not np.isfinite(number):
        raise ValueError(
            "sums over rows left the range of floating-point numbers: scale X, y or sample_weight "
            "down, or, where they are not large, raise kept_rows or alpha"
        )


class Way(NamedTuple):
    """The last step to an anchor.

    Attributes
    ----------
    before : ndarray of shape (n_weights,)
        Where it began.
    assumed : ndarray of shape (n_weights,)
        By what it was taken to change the mean gradient.
    share : float
        Of the difference, if another sample says otherwise, that the mean gradient is changed by.
    """

    before: np.ndarray
    assumed: np.ndarray
    share: float


class Place(NamedTuple):
    """Weights, their Evaluation, the objective there, and the gradient of the anchor's model."""

    weights: np.ndarray
    evaluation: Evaluation
    value: float
    pull: np.ndarray | float


class Hessian:
    """sum_i c_i x_i x_i' + diag(shift), factorised where it is small.

    Systems are solved in units of the features' own, as those of X may be far apart: that looks
    like a singular matrix, and keeps conjugate gradients from coming anywhere.

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
        self.rest = None  # what the last solution of conjugate gradients left, in `units`
        if matrix is None and rows.n_weights <= MOST_WEIGHTS:
            self.matrix = rows.gram(curvatures)

    def product(self, v):
        """Return the matrix times a vector."""
        if self.matrix is not None:
            return self.matrix @ v + self.shift * v
        return self.rows.products(self.curvatures, v[:, np.newaxis])[:, 0] + self.shift * v

    @cached_property
    def squares(self):
        """The sum's diagonal; without what is due to means where there are conjugate gradients.

        Means make one large eigenvalue, which costs these one step.
        """
        if self.matrix is not None:
            return np.maximum(np.diag(self.matrix), 0)
        squares, variances = self.rows.variances(self.curvatures)
        return np.where(variances > 0, variances, squares)

    @cached_property
    def units(self):
        """Of the features, shape (n_weights,)."""
        units = np.sqrt(self.squares + self.shift)
        return np.where(units > SMALLEST_UNIT, units, 1.0)

    def solve(self, right, tolerance=CG_TOLERANCE, gained=0.0):
        """Return the matrix's inverse, or a pseudo-inverse, times a vector or a matrix.

        Not factorised, it is worked out until `tolerance` is left of the right side, or no more
        than half of it and a step adds no more than `gained` to right @ solution.
        """
        units = self._units_of(right)
        return self._solve_scaled(right / units, tolerance, gained) / units

    def _solve_scaled(self, right, tolerance, gained):
        if self.matrix is None:
            solution, self.rest = conjugate_gradients(
                self.rows, self.curvatures, self.shift, self.units, right, tolerance, gained
            )
            return solution
        if self.factor is None:
            shifted = self.matrix.copy()
            shifted.flat[:: len(shifted) + 1] += self.shift
            self.factor = factorised(shifted / self.units / self.units[:, np.newaxis])
        return self.factor(right)

    def _units_of(self, v):
        """The units in the shape of a vector or a matrix."""
        return self.units if v.ndim == 1 else self.units[:, np.newaxis]

    def explains(self, right, solution):
        """Tell whether the last solution, that for `right`, leaves less than half of it."""
        right = right / self.units
        if self.matrix is None:
            rest = self.rest
        else:
            rest = self.product(solution) / self.units - right
        return rest @ rest <= right @ right / 4

    def probed(self, rows, roots, n_probes, random):
        """Yield random signs s, p = X' (roots * s) and the inverse times p, some columns each."""
        signs = random.choice([-1.0, 1.0], size=(len(roots), n_probes))
        together = max(1, MOST_PROBED // len(self.units))
        # where columns lie far from 0 probes are nearly all along the mean, which says nothing
        mean = rows.T @ roots**2 / self.units
        mean = (mean / (np.linalg.norm(mean) or 1.0))[:, np.newaxis]
        for start in range(0, n_probes, together):
            some = signs[:, start : start + together]
            probes = rows.T @ (roots[:, np.newaxis] * some)
            scaled = probes / self.units[:, np.newaxis]
            beside = np.linalg.norm(scaled - mean * (mean.T @ scaled), axis=0)
            share = np.min(beside / np.maximum(np.linalg.norm(scaled, axis=0), SMALLEST_UNIT))
            # what lies beside the mean is to be solved that well
            yield some, probes, self.solve(probes, PROBE_TOLERANCE * max(share, SMALLEST_SHARE))

    def degrees(self, n_probes):
        """Return an estimate of the effective number of degrees of freedom."""
        roots, random = np.sqrt(self.curvatures), np.random.default_rng(0)
        found = self.probed(self.rows.rows, roots, n_probes, random)
        return sum(np.sum(probes * solved) for _, probes, solved in found) / n_probes

    def shift_for_degrees(self, allowed):
        """Return s with sum_j h_j / (h_j + s) at most `allowed`, h_j the eigenvalues in `units`.

        It is the least such s where the matrix is factorised, and otherwise the one for their mean
        in place of each of them, which is no smaller; but for what is due to means.
        """
        if self.matrix is None:
            eigenvalues = self.squares / self.units**2
            spread = max(1, np.count_nonzero(eigenvalues))
            return max(0.0, np.sum(eigenvalues) * (1 / allowed - 1 / spread))
        scaled = self.matrix / self.units / self.units[:, np.newaxis]
        eigenvalues = scipy.linalg.eigvalsh(scaled)
        eigenvalues = eigenvalues[eigenvalues > 0]
        high = np.sum(eigenvalues) / allowed
        low = ROUNDING * high

        def beyond(shift):
            return np.sum(eigenvalues / (eigenvalues + shift)) - allowed

        return brentq(beyond, low, high) if beyond(low) > 0 else 0.0


class Step(NamedTuple):
    """A step from a Place, to its weights minus a direction.

    Attributes
    ----------
    gradient : ndarray of shape (n_weights,)
        Of the Place.
    hessian : Hessian
        Of it, or of one before.
    direction : ndarray of shape (n_weights,)
        The gradient times the inverse of the Hessian.
    shrink : float
        The part of its decrement that the step is expected to leave, at the most.
    is_reweighted : bool
        Whether the Hessian is that of iteratively re-weighted least squares.
    """

    gradient: np.ndarray
    hessian: Hessian
    direction: np.ndarray
    shrink: float = 1.0
    is_reweighted: bool = False

    @property
    def decrement(self):
        """Twice what the step gains of a quadratic model."""
        return self.gradient @ self.direction

    def is_solved(self):
        """Tell whether the direction, if its Hessian has solved for none since, is a solution."""
        return self.hessian.explains(self.gradient, self.direction)

    def with_gradient(self, gradient):
        """Return the Step with the same Hessian from another place."""
        return self._replace(gradient=gradient, direction=self.hessian.solve(gradient))


def factorised(matrix):
    """Return a function that multiplies by the inverse, or the pseudo-inverse, of the matrix."""
    if not np.isfinite(matrix).all():
        return np.zeros_like
    factor, failed = dpotrf(matrix)
    if not failed and np.ptp(np.log(np.diag(factor))) < CONDITION:
        return lambda right: dpotrs(factor, right)[0]
    inverse = scipy.linalg.pinvh(matrix)
    return lambda right: inverse @ right
