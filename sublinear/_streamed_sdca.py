"""Dual coordinate ascent over a source: the duals stay in memory, the rows come block by block.

The first pass counts; each further pass is an epoch or a certificate. All one-vs-rest problems
share every pass. Per example, 8 bytes for the dual and one for its sleep are kept for each problem.
Where steps of single duals creep, a proximal Newton method takes their place, a pass a step; it
keeps another 8 bytes.

With an intercept without penalty a certificate takes two passes, one for w of balanced duals.
"""

import time
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import is_classifier

from sublinear._callbacks import call_back, drive_shown, rows_shown
from sublinear._certified_model import Outcome, Training, check_finite
from sublinear._checkpoint import fitted_state, set_fitted_state
from sublinear._core.objective import Objective
from sublinear._core.states import part_of, restore, saved, take
from sublinear._drive import as_stored
from sublinear._fitted_parameters import note_parameters
from sublinear._newton_passes import Certified, NewtonPlan
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear._result import relative_gap
from sublinear._solvers.sdca import intercept_pace
from sublinear._stream import StreamFit
from sublinear._streamed_ascent import StreamedAscent, feasible_start
from sublinear._streamed_newton import StreamedNewton
from sublinear._streamed_objective import StreamedObjective, extent_of, stacked
from sublinear._threads import effective_threads
from sublinear._validation import (
    WEIGHTLESS,
    check_known_labels,
    check_total_weight,
    class_codes,
    class_factors,
    find_classes,
    given_classes,
    margin_targets,
    positive_classes,
)

READ_COST = 2**15  # feature values that could be looked at while a source begins another pass
READ_SHARE = 8  # or while it reads a value
STATE = "n_iter", "position", "newton_reads", "newton_work"


class StreamedSDCA:
    """The solver that `_drive` runs: all problems of a source.

    Parameters
    ----------
    objective : StreamedObjective
    ascent : StreamedAscent
    max_accesses : float, default=inf
        Limit on the feature values read for each problem. The block in which one of them reaches it
        is the last one for all.
    plan : NewtonPlan, default=None
        None: there are only steps of single duals.

    Attributes
    ----------
    n_iter : int
        Passes completed.
    """

    keeps_best = True
    diverged = False

    def __init__(self, objective, ascent, max_accesses=np.inf, plan=None):
        self.objective, self.ascent = objective, ascent
        self.max_accesses, self.plan = max_accesses, plan
        self.free_intercept = ascent.free_intercept
        self.n_iter = 0
        self.blocks = self.block = None  # what is left of the pass; the present block of it
        self.position = 0  # of the present block
        self.newton = None  # StreamedNewton, while its methods are at work
        self.newton_work, self.newton_reads = 0.0, np.zeros(self.n_problems, dtype=np.int64)
        self.best = Certified(self.n_problems, objective.n_weights)

    @property
    def n_blocks(self):
        """Blocks of the source that were visited in all passes; of a pass that joins them, less."""
        return self.n_iter * self.objective.n_blocks + self.position

    @property
    def n_problems(self):
        """How many there are."""
        return len(self.objective.problems)

    @property
    def phase(self):
        """What is at work."""
        return self.newton or self.ascent

    @property
    def accesses(self):
        """Feature values read."""
        return int((self.ascent.reads + self.newton_reads).sum())

    @property
    def progress(self):
        """Passes completed, and the part of the present one."""
        done = 0 if self.block is None else self.block[0].start / self.objective.n_rows
        return round(self.n_iter + done, 2)

    @property
    def work(self):
        """As SDCA counts it, and what it costs to read the source again, little as it may hold."""
        return self.ascent.work + self.newton_work + READ_COST * self.n_iter

    @property
    def certificate_growth(self):
        """As SDCA's."""
        return self.phase.certificate_growth

    @property
    def estimated_gap(self):
        """The relative gap of all problems together, estimated from a part of the last pass."""
        gaps, primals = zip(*self.phase.estimates, strict=True)
        return relative_gap(sum(primals), sum(gaps))

    @property
    def between_blocks(self):
        """Whether the state can be saved."""
        return self.blocks is None or self.phase.is_between_blocks

    def advance(self, limit):
        """Go on until the pass ends, then return True; or until a block does, or the limit."""
        before = self.accesses
        if self.blocks is None:
            self._begin_pass()
        while self.accesses == before:
            own = self.max_accesses - self.ascent.reads - self.newton_reads
            if not self.phase.visit(*self.block, limit - self.accesses, own):
                return False
            self.position += 1
            self.block = next(self.blocks, None)
            if self.block is None:
                self._end_pass()
                return True
        return False

    def _begin_pass(self):
        if self.newton and self.newton.is_over:
            self.newton = self.plan = None
        elif self._is_time_for_newton():
            self._make_newton(self.objective.at_zeros()[1])
            self.ascent.certified = self.ascent.masses.copy()
        self.blocks = self.objective.blocks(self.position, self.phase.least_rows)
        self.block = next(self.blocks)
        if self.position == 0:
            self.phase.begin()

    def _end_pass(self):
        self.blocks, self.position = None, 0
        self.n_iter += 1
        self.newton_work += self.phase.cost
        self.phase.end()

    def _is_time_for_newton(self):
        if self.plan is None or self.newton or self.position > 0 or self.n_iter == 0:
            return False
        return self.plan.is_due(self.n_iter, self.work, self.best, self.objective)

    def _make_newton(self, at_zeros):
        self.newton = StreamedNewton(
            self.plan, self.best, at_zeros, self.objective, self.ascent.duals, self.newton_reads
        )

    def model(self):
        """Return the weights, of shape (n_problems, n_weights) or (n_weights,) for one."""
        return stacked(self.phase.weights)

    def certify(self, rounded):
        """Return the best models so far, and the sums of their values and of bounds (`_drive`)."""
        models, duals, ws, masses = self.phase.found(self.blocks is None)
        candidates = [[rounded(w) for w in of_problem] for of_problem in models]
        of_duals, balances = ws, None
        if self.free_intercept:
            of_duals, balances = self.objective.weights_of_balanced(duals, masses), masses
        primals, values = self.objective.certificate(of_duals, duals, candidates, balances)
        for k, noted in enumerate(zip(candidates, primals, values, strict=True)):
            if self.best.note(k, *noted) and self.newton:  # dual ascent would go on from there
                self.ascent.adopt(k, duals[k], ws[k], masses[k], self.newton.weights[k][-1])
        return stacked(self.best.models), self.best.least.sum(), self.best.bounds.sum()

    def release_duals(self):
        """Return the duals of each problem that a certificate takes; ends all other use."""
        return self.ascent.release_duals(self.blocks is None)

    def close(self):
        """Stop reading."""
        if self.blocks is not None:
            self.blocks.close()
            self.blocks = None

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        state = saved(self, STATE) | self.ascent.state() | self.best.state()
        state |= {
            "certificate_accesses": self.objective.accesses,
            "has_plan": self.plan is not None,
        }
        return state | self.newton.state() if self.newton else state

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, STATE, state)
        self.objective.accesses = take(state, "certificate_accesses", 0)
        self.ascent.set_state(state)
        self.best.set_state(state)
        if not take(state, "has_plan", False):
            self.plan = None
        elif part_of(state, "newton"):
            self._make_newton(np.inf)
            self.newton.set_state(state)


class DualStreamFit(StreamFit):
    """fit_stream for estimators whose solver is SDCA."""

    def _fit_source(self, stream, classes, checkpoint):
        if self.batch_size != 1:
            raise ValueError("fit_stream needs batch_size=1")
        stream.require_repeatable()
        note_parameters(self)
        started = time.perf_counter()
        if classes is not None:
            classes = given_classes(classes)
        extent = self._extent(stream, classes, checkpoint)
        targets, weigh, weight = self._problems(extent, classes)
        check_total_weight(weight, "the weights of all blocks")
        if checkpoint:
            checkpoint.count_rows(extent.n_rows, extent.cut)
        state = checkpoint and checkpoint.load()
        if state and take(state, "complete", False):
            set_fitted_state(self, state, extent.n_rows)
            self._warn_if_limited(self._limits())
            return
        loss = self._make_loss()
        make = self._objective_maker(weight, loss)
        objective = StreamedObjective(stream, extent, targets, make, weigh)
        solver = self._make_streamed_solver(objective, extent, loss, cold=state is not None)
        if state:
            solver.set_state(state)
            checkpoint.last = solver.n_blocks
        self._drive_streamed(solver, extent, checkpoint, state, started)

    def _make_streamed_solver(self, objective, extent, loss, cold):
        """Return the StreamedSDCA; not `cold` it begins where the last fit ended, if it can."""
        n_problems, limits = len(objective.problems), self._limits()
        duals = None if cold else self._streamed_duals(objective)
        intercepts, penalty = None, np.full(extent.n_weights, float(self.alpha))
        if self._has_free_intercept():
            penalty[-1] = 0.0
            intercepts = np.full(n_problems, extent.middle)
            if duals is not None:
                intercepts[:] = self.intercept_
        plan = NewtonPlan.of(
            extent,
            n_problems,
            loss,
            penalty,
            limits,
            self.second_order,
            extra=READ_COST,
            overhead=READ_SHARE * extent.n_stored,
        )
        start = None
        if duals is not None:
            start = feasible_start(objective, duals, intercepts, extent.middle)
        ascent = StreamedAscent(objective, extent, self._seeds(n_problems), start, intercepts)
        return StreamedSDCA(objective, ascent, limits.max_accesses, plan)

    def _extent(self, stream, classes, checkpoint):
        """Take the counting pass."""
        constant = self.intercept_scaling if self.fit_intercept else 0.0
        if self._has_free_intercept():
            constant = partial(intercept_pace, alpha=self.alpha)
        name = f"{type(self).__name__}, counting rows"

        def watch(block):
            if classes is not None:
                check_known_labels(block.y, classes)
            if checkpoint:
                checkpoint.identify(block)
            count(block.X.shape[0])

        with rows_shown(self.verbose, name) as count:
            extent = extent_of(stream, constant, is_classifier(self), watch)
        self.n_features_in_ = extent.n_features
        return extent

    def _problems(self, extent, classes):
        """Return what makes targets, for every problem; what weighs a block; the total weight."""
        if not is_classifier(self):
            targets = [partial(np.ascontiguousarray, dtype=np.float64)]
            return targets, lambda block: block.sample_weight, extent.weight
        self.classes_ = classes
        if classes is None:
            self.classes_ = whole_numbers_as_integers(find_classes(extent.labels.labels))
        labels = positive_classes(self.classes_)
        targets = [partial(margin_targets, label=label) for label in labels]
        factors, total = None, extent.weight
        if self.class_weight is not None:
            masses = extent.labels.of(self.classes_)
            factors = class_factors(self.class_weight, self.classes_, masses)
            with np.errstate(over="ignore"):
                total = float(masses @ factors)
            if total == 0:
                raise ValueError(WEIGHTLESS)

        def weigh(block):
            check_known_labels(block.y, self.classes_)
            if factors is None:
                return block.sample_weight
            weights = factors[class_codes(block.y, self.classes_)]
            return weights if block.sample_weight is None else weights * block.sample_weight

        return targets, weigh, total

    def _objective_maker(self, total_weight, loss):
        """Return what makes a block's Objective; a callback that sets parameters comes too late."""
        alpha, free_intercept = self.alpha, self._has_free_intercept()
        n_threads = effective_threads(self.n_jobs)

        def make(matrix, targets, weights):
            return Objective(
                matrix, targets, loss, alpha, weights, n_threads, free_intercept, total_weight
            )

        return make

    def _has_free_intercept(self):
        return self.fit_intercept and not self.penalize_intercept

    def _streamed_duals(self, objective):
        """The duals of the last fit, if they can serve as a start."""
        duals = getattr(self, "dual_coef_", None)
        shape = (len(objective.problems), objective.n_rows)
        if not self.warm_start or duals is None or np.atleast_2d(duals).shape != shape:
            return None
        return np.atleast_2d(duals)

    def _drive_streamed(self, solver, extent, checkpoint, start, started):
        constant, limits = extent.constant, self._limits()
        limits = replace(limits, max_accesses=limits.max_accesses * solver.n_problems)

        def keep(state_of_run, stopped):
            if not (checkpoint and solver.between_blocks):
                return
            if stopped or checkpoint.is_due(solver.n_blocks):
                checkpoint.save(solver.state() | state_of_run() | {"complete": False})

        model, result, error = drive_shown(
            self.verbose,
            type(self).__name__,
            "epochs",
            solver,
            limits,
            observe=lambda row, model: call_back(self.callback, row, model, constant),
            rounded=lambda model: as_stored(model.T, extent.dtype, constant).T,
            keep=keep,
            start=start,
        )
        kept = solver.release_duals()
        solver.close()
        outcomes = [
            Outcome(one, result, kept=duals)
            for one, duals in zip(np.atleast_2d(model), kept, strict=True)
        ]
        check_finite(outcomes, constant, extent.dtype)
        training = Training(None, None, None, extent, [], None)
        self._store(outcomes, training, time.perf_counter() - started)
        self.result_ = result  # all problems shared the passes, and stopped together
        if error is not None:
            raise error
        if checkpoint and result.status != "stopped":  # else another call goes on
            checkpoint.save(fitted_state(self) | {"complete": True})
        self._warn_if_limited(limits)
