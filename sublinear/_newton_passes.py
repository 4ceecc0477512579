"""Proximal Newton methods over rows that come in passes: when, and for all problems together.

They take the place of steps of single duals where these creep. Each problem keeps a matrix of
n_weights^2 numbers.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sublinear._core.blas import one_blas_thread
from sublinear._core.losses import Loss
from sublinear._core.objective import BALANCED
from sublinear._core.pace import FORECASTS, PATIENCE, is_overruled, is_slow, work_in_all
from sublinear._core.states import part_of, prefixed, restore, saved, take
from sublinear._drive import CONTRADICTION, Limits
from sublinear._solvers.proximal_newton import ProximalNewton, expected_passes
from sublinear._solvers.spaces import LARGEST, Columns

LEAST_PASSES, LEAST_GROWTH = 8, 2.0  # to the first certificate; of their number, to the next one
MOST = 2.0  # times that, if the gap has not become a good deal smaller
FAR = 0.25  # of the certified gap is so
NEAR = 10.0  # times tol: with kinks duals of several certificates may be enough
MARGIN = 0.5  # of tol, for what rounding the weights to the type of X may change
MOST_RESTS = 2  # times that the methods go on, where what they have come to was not enough
LEAST_WIDTH = 1e-100
CROSSING = "is_near", "next_look", "first_primal"


@dataclass(frozen=True)
class NewtonPlan:
    """What the methods solve, what they take, and when they begin: between two passes.

    Attributes
    ----------
    loss : Loss
    penalty : ndarray of shape (n_weights,)
    tol : float
        The relative gap that is wanted.
    cost : float
        Of their pass, in the unit of work.
    overhead : float
        Of any pass, beside its work.
    n_read : int, default=0
        Feature values that their pass reads for a problem.
    n_expected : float, default=0
        Passes that they are expected to take; 0: they begin after the first pass in any case.
    least_work : float, default=0
        That steps of single duals take in all, as far as it is known before the first pass.
    limits : Limits, default=None
        Of the fit.
    """

    loss: Loss
    penalty: np.ndarray
    tol: float
    cost: float
    overhead: float
    n_read: int = 0
    n_expected: float = 0.0
    least_work: float = 0.0
    limits: Limits | None = None

    @classmethod
    def of(
        cls,
        extent,
        n_problems,
        loss,
        penalty,
        limits,
        second_order,
        *,
        overhead,
        extra=0.0,
        least_passes=0.0,
    ):
        """Return the plan, None where the methods are not wanted, or their matrices are large.

        `extent` is a Matrix of all rows, or the like; `extra` what a pass of the methods costs
        beside their work on these; steps of single duals take `least_passes`, if that is known.
        """
        is_small = n_problems * extent.n_weights**2 <= LARGEST**2
        if not (second_order and limits.tol > 0 and is_small):
            return None
        tol = MARGIN * limits.tol
        cost = n_problems * Columns.costs(extent, ProximalNewton)[0] + extra
        n_read = ProximalNewton.n_passes * extent.n_stored
        n_expected = 0
        if second_order == "auto":
            n_expected = expected_passes(loss, extent.n_rows / extent.n_weights)
        of_pass = n_problems * (extent.n_stored + extent.n_rows) + overhead
        least_work = least_passes * of_pass
        return cls(loss, penalty, tol, cost, overhead, n_read, n_expected, least_work, limits)

    @property
    def balances(self):
        """Whether duals are balanced, as the last weight is hardly penalised, if at all."""
        return self.penalty[-1] < BALANCED * self.penalty[0]

    @property
    def has_multiplier(self):
        """Whether it is penalised less than the others."""
        return self.penalty[-1] < self.penalty[0]

    def is_due(self, done, gap, primal, at_start):
        """Tell whether it is time.

        Parameters
        ----------
        done : PassesDone
        gap, primal : float
            Of all problems together.
        at_start : callable
            Returns what the gap was, where the pace decides.
        """
        if not self.n_expected:
            return done.n_passes > 0
        spent, due = self.spent(done), self.n_expected * (self.cost + self.overhead)
        if done.n_passes == 0:
            return self.least_work >= due and self._fits(done)
        if PATIENCE * spent < due or not self._fits(done):
            return False
        times = math.inf
        if gap < math.inf:
            most = self.limits.max_iter / done.n_passes
            times = work_in_all(gap, at_start(), self.tol * primal, most)
        return is_slow(spent, (times - 1) * spent, due, late=1)

    def spent(self, done):
        """Return the work so far, with the overhead."""
        return done.work + done.n_passes * self.overhead

    def _fits(self, done):
        """Tell whether half of the passes, or two, which a step takes, keep within the limits.

        All of them at the start, where single steps have found no duals yet.
        """
        n_least = int(self.n_expected)
        if done.n_passes > 0:
            n_least = max(2, n_least // 2)
        within = done.n_read + n_least * self.n_read <= self.limits.max_accesses
        return within and done.n_passes + n_least <= self.limits.max_iter


class PassesDone(NamedTuple):
    """Passes of single steps so far: their number, their work, what they read for a problem."""

    n_passes: int
    work: float
    n_read: int


class Crossing:
    """Where single steps end: what they seem to leave calls for a certificate, and that decides.

    The methods begin at the models that have been certified.

    Parameters
    ----------
    plan : NewtonPlan or None
        None: nowhere.

    Attributes
    ----------
    is_near : bool
        Whether a certificate is wanted.
    """

    def __init__(self, plan):
        self.plan, self.next_look = plan, 0.0
        self.is_near = plan is not None and plan.least_work > 0
        self.first_primal = 0.0  # as the first pass has seen it

    def look(self, done, gap, primal, best, objective):
        """At the end of a pass, by what it has seen of the gap.

        Parameters
        ----------
        done, gap, primal
            As in NewtonPlan.is_due.
        best : Certified
        objective : object
        """
        if done.n_passes == 1:
            self.first_primal = primal
        if self.plan is None or self.plan.spent(done) < self.next_look:
            return
        if is_overruled(gap, self.plan.tol * primal, best.gap, self.plan.has_multiplier):
            gap, primal = best.gap, best.primal
        self.is_near = self.plan.is_due(done, gap, primal, self._at_start(objective))

    def turn(self, done, best, objective, newton, make):
        """Return, before a pass, the methods that are to make it, None for single steps.

        Parameters
        ----------
        done, best, objective
            As in `look`.
        newton : NewtonPasses or None
            The methods at work. Where they are over there will be no others.
        make : callable
            make(at_zeros) returns new ones.
        """
        if newton is None and self._is_reached(done, best, objective):
            return make(objective.at_zeros()[1])
        if newton is not None and newton.is_over:
            self.plan = newton = None
        return newton

    def _is_reached(self, done, best, objective):
        """Tell, by what is certified, whether to go over."""
        if not self.is_near:
            return False
        self.is_near, self.next_look = False, FORECASTS * self.plan.spent(done)
        return self.plan.is_due(done, best.gap, best.primal, self._at_start(objective))

    def _at_start(self, objective):
        """Return what tells the gap of the start: with a multiplier it begins where targets are."""
        if self.plan.has_multiplier:
            return lambda: self.first_primal
        return lambda: objective.at_zeros()[1]

    def state(self):
        """Return what `set_state` needs, a flat dict."""
        state = saved(self, CROSSING) | {"is_open": self.plan is not None}
        return prefixed("crossing", state)

    def set_state(self, state):
        """Take a `state()`."""
        state = part_of(state, "crossing")
        restore(self, CROSSING, state)
        if not take(state, "is_open", False):
            self.plan = None


class Certified:
    """The best that certificates have found.

    Attributes
    ----------
    bounds : ndarray of shape (n_problems,), float64
        The largest dual values.
    least : ndarray of shape (n_problems,), float64
        The least primal values.
    models : ndarray of shape (n_problems, n_weights), float64
        They have these.
    """

    def __init__(self, n_problems, n_weights):
        self.bounds, self.least = np.full(n_problems, -np.inf), np.full(n_problems, np.inf)
        self.models = np.zeros((n_problems, n_weights))

    @property
    def primal(self):
        """That of all problems together, infinite before the first certificate."""
        return self.least.sum()

    @property
    def gap(self):
        """As `primal`."""
        return self.primal - self.bounds.sum()

    def note(self, k, models, primals, dual):
        """Keep the best of some models of problem k, and a dual value if it is the largest.

        Returns whether it is. One that rounding has made too large is not.
        """
        choice = int(np.argmin(primals))
        if primals[choice] < self.least[k]:
            self.least[k], self.models[k] = primals[choice], models[choice]
        if not self.bounds[k] < dual <= self.least[k] + CONTRADICTION * abs(self.least[k]):
            return False
        self.bounds[k] = dual
        return True

    def start(self, at_zeros):
        """Return models to begin at, and their primal values: zeros if these are better.

        `at_zeros` is the sum of the primal values of zeros.
        """
        if self.least.sum() <= at_zeros:
            return self.models.copy(), self.least
        return np.zeros_like(self.models), np.full_like(self.least, at_zeros / len(self.least))

    def state(self):
        """Return what `set_state` needs, a flat dict."""
        return prefixed("certified", vars(self))

    def set_state(self, state):
        """Take a `state()`."""
        restore(self, vars(self), part_of(state, "certified"))


class NewtonPasses:
    """A ProximalNewton for every problem.

    Parameters
    ----------
    plan : NewtonPlan
    certified : Certified
    at_zeros : float
        As in `Certified.start`.

    Attributes
    ----------
    n_passes, n_certified : int
        How many there were, and at the last certificate.
    n_rests : int
        How often all methods had come to an end, and had to go on.
    """

    counts = "n_passes", "n_rests", "n_certified"

    def __init__(self, plan, certified, at_zeros):
        self.plan, self.bounds = plan, certified.bounds
        self.n_passes = self.n_rests = self.n_certified = 0
        self.methods = [
            ProximalNewton(plan.loss, plan.penalty, w, max(primal, LEAST_WIDTH), plan.tol)
            for w, primal in zip(*certified.start(at_zeros), strict=True)
        ]

    @property
    def active(self):
        """The problems whose methods are at work, and these."""
        return [(k, method) for k, method in enumerate(self.methods) if not method.is_resting]

    @property
    def is_over(self):
        """Whether the methods have led as far as they can."""
        return self.n_rests == MOST_RESTS and not self.active

    @property
    def certificate_growth(self):
        """1 where all methods rest, or after many passes; else a gap is known without certificate.

        It is what a pass has found for the present weights. Later duals may be worse.
        """
        ripeness = self.n_passes / max(LEAST_PASSES, LEAST_GROWTH * self.n_certified)
        is_near = self.plan.loss.n_kinks > 0 and self.gap <= NEAR * self._enough
        is_due = (ripeness >= 1 or is_near) and self.gap <= FAR * self._certified_gap
        return 1.0 if is_due or ripeness >= MOST or not self.active else np.inf

    @property
    def gap(self):
        """Of all problems together."""
        return sum(gap for gap, _ in self.estimates)

    @property
    def _certified_gap(self):
        return sum(method.primal for method in self.methods) - self.bounds.sum()

    @property
    def _enough(self):
        return self.methods[0].tol * sum(primal for _, primal in self.estimates)

    @property
    def estimates(self):
        """The gap and the primal value of every problem."""
        primals = [method.primal for method in self.methods]
        gaps = [
            min(method.gap, method.primal - bound)
            for method, bound in zip(self.methods, self.bounds, strict=True)
        ]
        return list(zip(gaps, primals, strict=True))

    @property
    def weights(self):
        """Those of every problem."""
        return [method.w for method in self.methods]

    @property
    def cost(self):
        """Of a pass, in the unit of work."""
        return self.plan.cost

    def begin(self):
        """Begin a pass; where all have come to an end, that was not enough."""
        if not self.active:
            self.n_rests += 1
            for method in self.methods:
                method.go_on()
        for _, method in self.active:
            method.begin()

    def end(self):
        """End a pass."""
        self.n_passes += 1
        with np.errstate(all="ignore"), one_blas_thread():
            for _, method in self.active:
                method.end()
        if self.gap <= self._enough:
            for method in self.methods:
                method.is_resting = True

    def state(self):
        """Return what `set_state` needs to go on between two passes, a flat dict."""
        state = prefixed("newton", saved(self, self.counts))
        for k, method in enumerate(self.methods):
            state |= prefixed(f"newton{k}", method.state())
        return state

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, self.counts, part_of(state, "newton"))
        for k, method in enumerate(self.methods):
            method.set_state(part_of(state, f"newton{k}"))
