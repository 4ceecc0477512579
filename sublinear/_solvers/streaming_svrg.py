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
        w~ <- w,  k_{s+1} <- b k_s, rounded up where rows are counted

CombinedSVRG, for use:

    for stage s = 0, 1, ..:
        g <- mean gradient of k_s rows at w~; keep the first and the heaviest of them: S
        w~ <- argmin over v of
              mean_{i in S} (psi_i(v) - <grad psi_i(w~), v>) + k_s / (K + k_s) <g, v>
        K <- K + k_s,  k_{s+1} <- (b - 1) K, or less where S has few rows for so many weights

Departures of the second: the inner problem, which the paper's steps approach with draws from the
stream, is solved on rows kept in memory by Newton's method, so neither L nor the strong convexity
nor a step has to be known. Near its minimiser w~ the loss of the K rows before is taken for that of
S, without the slope; so the new w~ minimises that of all K + k_s rows to first order: no stage is
thrown away, and the stream may end anywhere. What S has been wrong about on the way to w~ the S of
the next stage sees half of. Where few rows decide the model, as with classes that
are nearly separable, S cannot stand for other rows: the first stage goes on, and keeps all its
rows, until S can, or holds as many as it may. If these are too few for so many weights, w~ is held
back by a Restraint, where that is better on rows held out; g of the K rows is then that penalty's.
One that is the same for all features stays: K alpha is no smaller from then on, so that it fades
as rows come. Rare features, as words are, call for it.

Rows of S stand for K + k_s rows, but those of large weight, or with large counts, for themselves:
a stage keeps all of them. A step that makes the losses of the rows in memory larger than chance
explains is shortened; what is left of it stays in g.

Cost: a dot and two additions per row; a Newton system per stage; per stage the kept rows.
"""

import json
import math
from copy import copy
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from sublinear._core.anchored_gradient import AnchoredGradient, inner_steps
from sublinear._core.blas import one_blas_thread
from sublinear._core.excess_risk import (
    LEVERAGE_PROBES,
    MOST_LEVERAGE,
    TELLING_ROWS,
    UNKNOWN,
    are_as_long,
    estimate_risk,
    forms_at,
    stand_for_others,
)
from sublinear._core.frames import Centred, Occurring, Span, frame_of
from sublinear._core.inner_problem import (
    CHANCE,
    FREE,
    FirstStage,
    LaterStage,
    Restraint,
    Way,
    effective_rows,
)
from sublinear._core.kept_rows import Sample, joined
from sublinear._core.random import RandomBits
from sublinear._core.row_blocks import HeavyRows, is_of_counts, part_of_sample
from sublinear._core.states import fill, refusal, restore, saved, take, take_random

ENOUGH = 1e-3  # a stage's Newton decrement by the first one, which is of the size of its noise
ENOUGH_AT_FIRST = 1e-6  # the same of the first stage, which begins far away
LEAST_ROWS = 32  # of a stage, for a mean of their losses: those that are evaluated of its first 256
LEAST_GROWTH = 1.25  # of a first stage, that is worth another inner problem
STEPS_OF_MANY = 25  # of Newton's method; more are for classes that are separable, or nearly
MENDED = 1 / 2  # of what new kept rows say of a step: the old ones have said otherwise
LAG = 0.06  # behind the minimiser, in its excess risk, of steps that are kept short
LAG_OF_SHORT = 0.25  # the same, of stages of fewer rows than are kept
SHORTEST = 0.1  # a later stage, as a part of the kept rows
LEAST_DEGREES = 1 / 10  # of freedom that a first model is left, by the effective rows
OWN = Restraint(LEAST_DEGREES), Restraint(1 / 4)  # restraints of a first model, the strongest first
ALIKE = tuple(Restraint(degrees, alike=True) for degrees in (1 / 4, 1 / 2, 1, 2, 4))
HELD_OUT = 4  # one in so many kept rows judges which of them is best
JUDGES = 16384  # of far more kept rows, which try only what is best of these, and weaker ones
SPARSE_VALUES = 2  # of dense rows, which take as much memory as a stored entry of sparse ones
PROGRESS = "n_stages", "n_rows", "accesses", "stage_loss"
SUMS = "weight", "prior", "before", "assumed", "lags", "squares", "ridge"
COMBINED = *PROGRESS, *SUMS, "stage_rows", "kept_rows", "rows_needed", "converged"


class CombinedSVRG:
    """Streaming SVRG that combines its stages and solves the inner problem on kept rows.

    Parameters
    ----------
    loss : Loss
    n_weights : int
    alpha : float or ndarray of shape (n_weights,)
    kept_rows : int
        Rows kept of every stage, if these can stand for others.
    most_kept_values : int, default=0
        Otherwise more rows, up to so many values; a sparse one counts as SPARSE_VALUES.
    growth : float, default=2.0
        By what factor a stage multiplies the rows seen at the most.
    n_threads : int, default=1

    Attributes
    ----------
    n_stages, n_rows, accesses : int
    converged : bool
        Whether Newton's method had enough steps when it was used last.
    """

    tamed_by = "alpha"  # the parameter that keeps weights small
    has_stepped = True  # PaperSVRG has taken no step in its first stage

    def __init__(
        self, loss, n_weights, alpha, *, kept_rows, most_kept_values=0, growth=2.0, n_threads=1
    ):
        self.loss, self.alpha, self.kept_rows = loss, alpha, kept_rows
        self.most_kept_values = most_kept_values
        self.growth, self.n_threads = growth, n_threads
        self.anchor = np.zeros(n_weights)
        self.prior = np.zeros(n_weights)  # mean gradient of the K rows at the anchor
        self.before = np.zeros(n_weights)  # the anchor before the last step, which was assumed
        self.assumed = np.zeros(n_weights)  # to change the mean gradient by so much
        self.lags = np.zeros(3)  # see `_lags_after`
        self.ridge = np.zeros(n_weights)  # what alpha times all rows' weight is at the least
        self.weight = 0.0  # K
        self.squares = np.zeros(n_weights)  # of features, summed over all rows
        self.n_stages = self.n_rows = self.accesses = 0
        self.sample = None  # rows that stand for all at the end of the last stage,
        self.counts = None  # and for how many each of them
        self.rows_needed = 0.0  # for the degrees of freedom that were seen
        self.stage_loss = math.nan
        self.converged = True
        self._begin_stage()

    def _begin_stage(self, left=0.0):
        self.gradient = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        self.stage_rows = length_of_stage(left, self.n_rows, self.kept_rows, self.growth - 1)
        self.kept = []  # the first rows
        # of the others those that stand for themselves
        self.heavy = HeavyRows(is_of_counts(self.loss), self.kept_rows)
        self.found = None  # the model of the rows so far, once asked for

    def take(self, block, start=0, last=None, finite=False):
        """Take the rows start .. last - 1 of a RowBlock, or all from `start` on.

        `finite`: FloatingPointError if a sum is not finite.
        """
        last, self.found = block.n_rows if last is None else last, None
        while start < last:
            keep = self.kept_rows - self.gradient.n_rows
            room = min(keep, self.rows_left) if keep > 0 else self.rows_left
            stop = min(last, start + room)
            check_range(block.add_weights(self.total_weight, start, stop))
            if keep <= 0:
                block.sort(start, start + room)  # the rest of the stage is but summed
            self.gradient.add(block, start, stop)
            if finite and not np.isfinite(self.gradient.sums).all():
                raise FloatingPointError("the sums of a stage are not finite")
            if keep > 0:  # from the cache now
                self.kept.append(block.kept(start, stop))
            else:
                self.heavy.take(block, start, stop)
            self.n_rows += stop - start
            if self.gradient.n_rows == self.stage_rows:
                self._end_stage()
            start = stop

    def copy(self):
        """Return a solver that goes on in this one's place and leaves it as it is."""
        other = copy(self)
        other.gradient, other.heavy = self.gradient.copy(), self.heavy.copy()
        other.kept = list(self.kept)
        return other

    def take_sums(self, sums, n_rows, accesses, total_weight, kept, others=(), bound=0.0):
        """Take rows of this stage that were summed elsewhere; `kept` are Samples of the first ones.

        They may be as many as the stage still lacks at the most. `others` are Samples with all of
        the other rows that are beyond a bound.
        """
        check_range(self.total_weight + total_weight)
        self.found = None
        self.gradient.add_sums(sums, n_rows, accesses, total_weight)
        self.kept += kept
        self.heavy.rise_to(bound)
        for sample in others:
            self.heavy.add(sample)
        self.n_rows += n_rows
        if self.gradient.n_rows == self.stage_rows:
            self._end_stage()

    @property
    def total_weight(self):
        """Of all rows so far."""
        return self.weight + self.gradient.total_weight

    @property
    def _penalty(self):
        """Alpha, or more of it while rows are few."""
        if not self.ridge.any():
            return self.alpha
        return np.maximum(self.alpha, self.ridge / self.total_weight)

    @property
    def rows_left(self):
        """How many rows this stage lacks."""
        return self.stage_rows - self.gradient.n_rows

    @property
    def rows_wanted(self):
        """How many rows this stage lacks, and how many of them are to be kept."""
        n_kept = sum(len(sample.targets) for sample in self.kept)
        return self.rows_left, max(0, self.kept_rows - n_kept)

    @one_blas_thread()  # a second one would wait for work until the next stage
    def _end_stage(self):
        rows = self._in_memory()
        if self.n_stages == 0:
            restraint, found = self._first_solution(rows)
            if found is None:  # the stage goes on
                return
        else:
            restraint, found = FREE, self._solved_for_all(rows)
            self.lags = self._lags_after(found.inner)
        self._move_to(found, restraint)
        self._keep_newest(rows)
        self.stage_loss = self.gradient.mean_loss
        self.squares = self.squares + self.gradient.squares
        self.weight += self.gradient.total_weight
        self.accesses += self.gradient.accesses
        self.n_stages += 1
        masses = self.heavy.masses(self.sample.targets, self.sample.weights)
        bound, mean_mass = self.heavy.bound, float(self.counts @ masses) / self.n_rows
        self._begin_stage(found.inner.left)
        # as much as one of `kept_rows` rows has to stand for when this stage ends
        rows_by_then = self.n_rows + self.stage_rows
        self.heavy.bound = max(bound, mean_mass * rows_by_then / self.kept_rows)

    def _move_to(self, found, restraint):
        """Make a Solution the anchor, where the mean gradient is what the solution leaves of it."""
        weights, inner = found.weights, found.inner
        self.prior = -self._penalty * weights
        if inner.taken < 1:
            self.prior += (1 - inner.taken) * found.frame.gradient_of_weights(inner.slope_at_anchor)
        if inner.limit.any():  # which held weights back, not those of a span, nor an intercept
            limit = found.frame.limit(inner.limit)
            self.prior -= limit * (weights - self.anchor)
            if restraint.alike:
                self.ridge = self.total_weight * np.where(limit > 0, self.alpha + limit, 0)
        if self.n_stages > 0:
            slope = found.frame.gradient_of_weights(inner.gradient)
            self.before, self.assumed = self.anchor, self.prior - slope
        self.anchor = weights

    def _first_solution(self, rows):
        """Return the Restraint of the first stage and its Solution on the rows `_in_memory`.

        Where these are too few, make the stage longer if it may be, and return no Solution.
        """
        overfits, longer = self._would_overfit(), self._longer_first_stage()
        if not overfits:
            max_steps = STEPS_OF_MANY if longer else None
            found = self._solved(rows, ENOUGH_AT_FIRST, max_steps=max_steps)
            if stand_for_others(found.inner, found.inside):
                return FREE, found
        if longer:
            self.kept_rows = self.stage_rows = longer
            return FREE, None
        restraint = self._best_restraint()
        if overfits or restraint != FREE:
            found = self._solved(rows, ENOUGH_AT_FIRST, restraint)
        return restraint, found

    def _would_overfit(self):
        """Tell whether the first rows have too many degrees of freedom, before there is a model.

        At the anchor, that is, where more rows have curvature than at the model of most losses.
        More rows have no fewer degrees of freedom: they are a concave function of the Hessian. So
        they are estimated once, unless there may be rows enough.
        """
        sample = self._first_rows()
        n_rows = len(sample.targets)
        if n_rows >= self.rows_needed and len(self.anchor) > MOST_LEVERAGE * n_rows:
            frame = frame_of(sample, self.alpha)
            anchor = frame.coordinates(self.anchor)
            inner = FirstStage(self.loss, frame.sample, frame.alpha, anchor)
            probes = min(LEVERAGE_PROBES, max(1, LEVERAGE_PROBES * TELLING_ROWS // n_rows))
            degrees = inner.hessian(inner.first).degrees(probes)
            self.rows_needed = degrees / MOST_LEVERAGE
        return n_rows < self.rows_needed

    def _longer_first_stage(self):
        """Return how many rows the first stage may have if those so far are not enough, or 0."""
        most = int(self.kept_rows * self.most_kept_values / n_values(self._first_rows().rows))
        longer = 2 * self.kept_rows
        while longer < min(self.rows_needed, most):
            longer *= 2
        longer = min(longer, most)
        return longer if longer >= LEAST_GROWTH * self.kept_rows else 0

    def _best_restraint(self):
        """Return the Restraint that is best for kept rows that the weights do not rest on.

        One that does not depend on the units of features, unless another is better by more than
        chance.
        """
        sample = self._first_rows()
        n_rows = len(sample.targets)
        if n_rows < HELD_OUT or effective_rows(sample.weights) * LEAST_DEGREES >= len(self.anchor):
            return FREE
        are_many = n_rows > 2 * JUDGES
        judges = part_of_sample(sample, slice(JUDGES)) if are_many else sample
        losses = self._losses_held_out(judges)
        own = weakest_that_pays((*OWN, FREE), losses, CHANCE)
        alike = weakest_that_pays((*ALIKE, FREE), losses)
        best = weakest_that_pays((own, alike), losses, CHANCE)
        if best == FREE or not are_many:
            return best
        # more rows bear weaker ones
        restraints, chance = ((*ALIKE, FREE), 0.0) if best.alike else ((*OWN, FREE), CHANCE)
        weaker = restraints[restraints.index(best) :]
        return weakest_that_pays(weaker, self._losses_held_out(sample), chance)

    def _losses_held_out(self, sample):
        """Return a function of a Restraint: losses of some rows at the model of the others."""
        frame = frame_of(sample, self.alpha)
        anchor = frame.coordinates(self.anchor)
        held_out = np.arange(len(sample.targets)) % HELD_OUT == 0
        seen, unseen = (part_of_sample(frame.sample, chosen) for chosen in (~held_out, held_out))

        @cache
        def losses(restraint):
            inner = FirstStage(self.loss, seen, frame.alpha, anchor, restraint)
            with np.errstate(over="ignore", invalid="ignore"):
                scores = unseen.rows @ inner.minimise(ENOUGH, STEPS_OF_MANY)
                values = unseen.weights * self.loss.values(scores, unseen.targets)
            return np.nan_to_num(values, nan=np.inf)

        return losses

    def _first_rows(self):
        """The Sample of the first rows of this stage."""
        sample = joined(self.kept)
        self.kept = [sample.compact() if len(sample.targets) >= self.kept_rows else sample]
        return self.kept[0]

    def _in_memory(self):
        """Return a Sample of rows that stand for all, and for how many each of them does.

        Those of the first stage stand for themselves. Later the first ones of a stage stand for all
        others, together with earlier ones as long as they are fewer than `kept_rows`; but rows
        beyond the bound stand for themselves.
        """
        if not self.kept:
            return self.sample, self.counts
        fresh = self._first_rows()
        if self.sample is None:
            return fresh, np.ones(len(fresh.targets))
        still = self.heavy.beyond(*self.sample[1:])
        if self.gradient.n_rows < self.kept_rows:
            still |= self.counts == self.counts.max()  # no rows that were kept for their mass alone
        parts = [fresh, *self.heavy.samples]
        if still.any():
            parts.insert(0, self.sample if still.all() else part_of_sample(self.sample, still))
        sample = joined(parts)
        return sample, self._counts_of(sample)

    def _counts_of(self, sample):
        """Return for how many rows each of a Sample stands that stand for all."""
        counts = np.ones(len(sample.targets))
        light = ~self.heavy.beyond(*sample[1:])
        their_weight = sample.weights[light].sum()
        if their_weight > 0:
            rest = self.total_weight - (sample.weights.sum() - their_weight)
            counts[light] = max(1.0, rest / their_weight)
        return counts

    def _keep_newest(self, rows):
        """Keep of rows `_in_memory` the last `kept_rows` of those that stand for others."""
        self.sample, self.counts = rows
        light = np.flatnonzero(~self.heavy.beyond(*self.sample[1:]))
        if self.n_stages == 0 or len(light) <= self.kept_rows:
            return
        chosen = np.ones(len(self.counts), dtype=bool)
        chosen[light[: -self.kept_rows]] = False
        self.sample = part_of_sample(self.sample, chosen)
        self.counts = self._counts_of(self.sample)

    def model(self):
        """Return the weights if the stream ended here (float64)."""
        if self.gradient.total_weight == 0 and self.n_stages != 1:
            return self.anchor
        if self.found is None:
            solution = self._present_solution()
            lags = self.lags if self._has_all_rows else self._lags_after(solution.inner)
            self.found = Found(solution.weights, lags)
        return self.found.weights

    def _present_solution(self):
        if not self._has_all_rows:
            return self._solved_for_all(self._in_memory())
        overfits = self.n_stages == 0 and self.n_rows < self.rows_needed
        restraint = self._best_restraint() if overfits else FREE
        restraint = restraint if restraint.alike else FREE  # others are for steps
        return self._solved(self._in_memory(), 0.0, restraint)

    @property
    def _has_all_rows(self):
        """Whether those `_in_memory` are all rows, of the first stage."""
        return self.n_stages == 0 or (self.n_stages == 1 and self.gradient.total_weight == 0)

    @one_blas_thread()
    def _solved(self, rows, precision, restraint=FREE, max_steps=None):
        """Return the Solution, to some precision, on rows `_in_memory` that are all rows."""
        sample = weighed(*rows)
        frame = self._span(sample) if restraint == FREE else None
        frame = frame or frame_of(sample, self._penalty)
        anchor = frame.coordinates(self.anchor)
        inner = FirstStage(self.loss, frame.sample, frame.alpha, anchor, restraint)
        with np.errstate(over="ignore", invalid="ignore"):  # steps too long are halved
            inside = inner.minimise(precision, max_steps)
        return self._solution(inside, inner, frame)

    def _lags_after(self, inner):
        """Return what is added to the excess risk, in its own unit, by a step to all rows so far.

        First what the kept rows do not know of that step, then the same of earlier steps, last what
        was held back. The first two stay in the anchor, and only fade as rows come.
        """
        if self.weight == 0:
            return np.zeros(3)
        growth = self.gradient.total_weight / self.weight
        last, older = self.lags[:2]
        last *= (1 - MENDED) ** 2 + MENDED**2 if inner.mends else 1
        held_back = inner.left - inner.unknown
        return np.array([growth * inner.unknown, (last + older) / (1 + growth), growth * held_back])

    @one_blas_thread()
    def _solved_for_all(self, rows):
        """Return the Solution on rows `_in_memory` that stand for all rows."""
        gradient, total = self.gradient, self.total_weight
        share = gradient.total_weight / total
        slope = share * gradient.mean + (1 - share) * self.prior
        squares = (self.squares + gradient.squares) / total
        frame, way = Centred(weighed(*rows), self._penalty), None
        # the first step was that of all rows; slopes of counts do not level off after a long one
        if self.n_stages > 1 and gradient.n_rows >= self.kept_rows and not is_of_counts(self.loss):
            before, assumed = frame.coordinates(self.before), frame.gradient(self.assumed)
            way = Way(before, assumed, MENDED * (1 - share))
        inner = LaterStage(
            self.loss,
            frame.sample,
            frame.alpha,
            frame.coordinates(self.anchor),
            frame.gradient(slope),
            frame.squares(squares),
            way,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            inside = inner.held_back(inner.minimise(ENOUGH))
        return self._solution(inside, inner, frame)

    def _solution(self, inside, inner, frame):
        self.converged = inner.converged
        return Solution(frame.weights(inside), inside, inner, frame)

    def _span(self, sample):
        """Return the Span of a few wide rows that are all there are, else None."""
        if not self._has_all_rows or self.ridge.any():
            return None
        return Span.of(sample, self.alpha)

    def state(self):
        """Return what `resume` needs, a flat dict of arrays and numbers."""
        state = self.gradient.state() | saved(self, COMBINED)
        if self.kept:
            state |= joined(self.kept).to_state("kept")
        if self.heavy.samples:
            state |= joined(self.heavy.samples).to_state("heavy")
        state["bound"] = self.heavy.bound
        if self.sample is not None:
            state |= self.sample.to_state("sample") | {"sample.counts": self.counts}
        return state

    def resume(self, state):
        """Go on from the `state()` of a solver made alike."""
        restore(self, ("anchor",), state)
        self._begin_stage()
        self.gradient.resume(state)
        restore(self, COMBINED, state)
        if self.kept_rows < 1:
            raise refusal(state, "kept_rows", "is 0")
        if self.rows_left < 1:
            raise refusal(state, "stage_rows", "is less than the rows that the stage has")
        kept, heavy, self.sample = (
            Sample.from_state(state, name, len(self.anchor)) for name in ("kept", "heavy", "sample")
        )
        self.kept = [] if kept is None else [kept]
        self.heavy = HeavyRows(
            is_of_counts(self.loss), self.kept_rows, take(state, "bound", 0.0), heavy
        )
        if self.sample is not None:
            self.counts = take(state, "sample.counts", np.ones(len(self.sample.targets)))

    def risk(self):
        """Return a RiskEstimate of the model, UNKNOWN if it is not the minimiser.

        Nor is that of a penalty that has not faded yet, whose bias is not known, or one of rows far
        longer than those in memory.
        """
        model = self.model()
        if not self.converged or np.any(self._penalty > self.alpha):
            return UNKNOWN
        sample, counts = self._in_memory()
        squares, total_weight = self.squares + self.gradient.squares, self.total_weight
        if not are_as_long(sample, counts, squares.sum(), total_weight):
            return UNKNOWN
        frame = self._span(sample) or frame_of(sample, self._penalty)
        model = frame.coordinates(model)
        forms = forms_at(model, self.loss, frame.sample, counts, frame.alpha, total_weight)
        lags = self.lags if self.found is None else self.found.lags
        return estimate_risk(forms, total_weight, lags.sum())

    def progressive_loss(self):
        """Return the mean loss of a stage's rows at the model from before them."""
        if self.n_stages and self.gradient.n_rows >= LEAST_ROWS:
            return self.gradient.mean_loss
        return self.stage_loss


def check_range(total_weight):
    """Raise ValueError for a total weight that is not finite: sums divided by it would be 0."""
    if not math.isfinite(total_weight):
        raise ValueError(
            "the sum of sample_weight over all blocks is outside the range of floating-point "
            "numbers: scale the weights"
        )


def weighed(sample, counts):
    """Return a Sample with the weights of all rows that its rows stand for."""
    return sample._replace(weights=sample.weights * counts)


def length_of_stage(left, n_rows, kept_rows, growth):
    """Return how many rows a stage has: `growth` times those before at most, or `kept_rows`.

    While K rows become (1 + r) K, their minimiser moves by r times its excess risk; steps that
    leave a part of an excess risk stay behind it by r left / (1 - left) of that. The lag is LAG at
    most, but LAG_OF_SHORT in stages of fewer than `kept_rows`, which take as long to solve. The
    second stage is none of these: its rows are the first that no model was fitted to.
    """
    pace = (1 - left) / left if left > 0 else math.inf
    length = int(min(growth, LAG * pace) * n_rows)
    if length >= kept_rows:
        return length
    if n_rows <= kept_rows:
        return kept_rows
    shorter = min(LAG_OF_SHORT * pace * n_rows, kept_rows)
    return math.ceil(max(shorter, SHORTEST * kept_rows))


def n_values(rows):
    """Return what kept rows count as, in values of dense ones."""
    return max(1, SPARSE_VALUES * rows.nnz) if issparse(rows) else rows.size


def weakest_that_pays(restraints, losses, chance=0.0):
    """Return the one beyond which none is better; the strongest comes first.

    Better by more than `chance` standard errors of what it saves on the rows that are held out.
    """
    best, *weaker = restraints
    for restraint in weaker:
        with np.errstate(invalid="ignore"):
            saved = losses(best) - losses(restraint)
        if not saved.sum() > chance * np.linalg.norm(saved):
            break
        best = restraint
    return best


class Solution(NamedTuple):
    """What solves an InnerProblem.

    Attributes
    ----------
    weights : ndarray of shape (n_weights,)
    inside : ndarray of shape (n_coordinates,)
        The same in the coordinates of `inner`.
    inner : FirstStage or LaterStage
    frame : Span, Occurring or Centred
        These coordinates.
    """

    weights: np.ndarray
    inside: np.ndarray
    inner: FirstStage | LaterStage
    frame: Span | Occurring | Centred


class Found(NamedTuple):
    """The model of the rows so far, and what `_lags_after` says of it."""

    weights: np.ndarray
    lags: np.ndarray


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

    tamed_by = "smoothness"
    converged = True  # there is no Newton's method here

    def __init__(
        self,
        loss,
        n_weights,
        alpha,
        random,
        *,
        smoothness,
        step,
        first_stage,
        inner_steps,
        growth,
        n_threads=1,
    ):
        self.loss, self.random, self.n_threads = loss, random, n_threads
        self.alpha = np.full(n_weights, alpha, dtype=np.float64)
        self.rate, self.growth = step / smoothness, growth
        self.inner_steps, self.first_stage = inner_steps, first_stage
        self.weights = np.zeros(n_weights)
        self.n_stages = self.n_rows = self.accesses = 0
        self.stage_loss = math.nan
        self._begin_stage()

    def _begin_stage(self):
        self.anchor = self.weights.copy()
        self.gradient = AnchoredGradient(self.loss, self.anchor, self.n_threads)
        # from the first stage's: to round every time would leave short ones as they are
        n_rows = self.first_stage * self.growth**self.n_stages
        self.stage_rows = math.ceil(n_rows * (1 - 1e-12))  # what rounding adds is no row
        self.steps_left = 0

    def take(self, block, start=0, last=None, finite=False):
        """Take rows as a CombinedSVRG does; `finite` is for solvers whose sums tell."""
        last = block.n_rows if last is None else last
        while start < last:
            if self.steps_left == 0:
                room = self.rows_left
                stop = min(last, start + room)
                block.sort(start, start + room)  # they are but summed
                check_range(block.add_weights(self.gradient.total_weight, start, stop))
                self.gradient.add(block, start, stop)
                if self.gradient.n_rows == self.stage_rows:
                    self.steps_left = 1 + int(self.random.doubles(1)[0] * self.inner_steps)
            else:
                stop = min(last, start + self.steps_left)
                self.accesses += inner_steps(
                    block,
                    start,
                    stop,
                    self.loss,
                    self.rate,
                    self.alpha,
                    self.gradient,
                    self.weights,
                )
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
        self.n_stages += 1
        self._begin_stage()

    @property
    def rows_left(self):
        """How many rows this stage lacks before its inner steps."""
        return self.stage_rows - self.gradient.n_rows

    @property
    def has_stepped(self):
        """Whether the first stage has come to its inner steps."""
        return self.n_stages > 0 or self.steps_left > 0

    def model(self):
        """Return the present weights (float64)."""
        return self.weights.copy()

    def state(self):
        """Return what `resume` needs, a flat dict of arrays and numbers."""
        state = self.gradient.state() | saved(self, (*PROGRESS, "steps_left"))
        return state | {"w": self.weights, "random": json.dumps(self.random.state())}

    def resume(self, state):
        """Go on from the `state()` of a solver made alike."""
        restore(self, PROGRESS, state)
        fill({"anchor": self.weights}, state)
        self._begin_stage()
        self.gradient.resume(state)
        fill({"w": self.weights}, state)
        restore(self, ("steps_left",), state)
        if self.rows_left < 0 or (self.rows_left == 0) != (
            0 < self.steps_left <= 1 + self.inner_steps
        ):
            raise refusal(state, "steps_left", "does not go with the rows that the stage has")
        take_random(state, self.random)

    def risk(self):
        """The paper's scheme keeps no rows to estimate the risk from."""
        return UNKNOWN._replace(interval=(math.nan, math.nan))

    def progressive_loss(self):
        """Return the mean loss of a stage's rows at the model from before them."""
        return self.stage_loss
