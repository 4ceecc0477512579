"""`fit_stream` of the estimators whose solver is SDCA."""

import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import is_classifier

from sublinear._callbacks import call_back, drive_shown, rows_shown
from sublinear._certified_model import Outcome, Training, check_finite
from sublinear._checkpoint import fitted_state, set_fitted_state
from sublinear._core.aligned import contiguous
from sublinear._core.constant_column import column_constant, intercept_penalty
from sublinear._core.objective import Objective
from sublinear._core.starting_intercept import allowed
from sublinear._core.states import take
from sublinear._drive import as_stored
from sublinear._fitted_parameters import note_parameters
from sublinear._labels import (
    WEIGHTLESS,
    check_known_labels,
    class_factors,
    find_classes,
    given_classes,
    margin_targets,
    positive_classes,
    weights_by_class,
)
from sublinear._linear_model import duals_of_last_fit
from sublinear._newton_passes import NewtonPlan
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear._second_order import is_foretold, least_passes
from sublinear._stream import StreamFit
from sublinear._streamed_sdca.ascent import StreamedAscent, feasible_start
from sublinear._streamed_sdca.objective import StreamedObjective, extent_of, values_at_zeros
from sublinear._streamed_sdca.solver import READ_COST, READ_SHARE, StreamedSDCA
from sublinear._threads import effective_threads
from sublinear._validation import check_total_weight


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
        loss = self._make_loss()
        extent = self._extent(stream, classes, loss, checkpoint)
        targets, weigh, weight, zeros = self._problems(extent, classes, loss)
        check_total_weight(weight, "the weights of all blocks")
        if checkpoint:
            checkpoint.count_rows(extent.n_rows)
        state = checkpoint and checkpoint.load()
        if state and take(state, "complete", False):
            set_fitted_state(self, state, extent.n_rows)
            self._warn_if_limited(self._limits())
            return
        penalty = intercept_penalty(extent.constant, self._scaling())
        make = self._objective_maker(weight, loss, penalty)
        objective = StreamedObjective(
            stream,
            extent,
            targets,
            make,
            weigh,
            zeros / weight,
            alpha=self.alpha,
            total_weight=weight,
            intercept_penalty=penalty,
        )
        solver = self._make_streamed_solver(objective, extent, loss, cold=state is not None)
        if state:
            solver.set_state(state)
            checkpoint.last = solver.n_blocks
        self._drive_streamed(solver, extent, checkpoint, state, started)

    def _make_streamed_solver(self, objective, extent, loss, cold):
        """Return the StreamedSDCA; not `cold` it begins where the last fit ended, if it can."""
        n_problems, limits = len(objective.problems), self._limits()
        duals = None if cold else duals_of_last_fit(self, n_problems, objective.n_rows)
        intercepts, middle, penalty = None, 0.0, np.full(extent.n_weights, float(self.alpha))
        has_multiplier = objective.intercept_penalty < 1
        if has_multiplier:
            penalty[-1] *= objective.intercept_penalty
            middle = allowed(
                extent.middle, loss, float(penalty[-1]), extent.constant, objective.zeros[0]
            )
            intercepts = np.full(n_problems, middle)
            if duals is not None:
                intercepts[:] = self.intercept_
        n_passes = 0.0
        if duals is None and is_foretold(loss, extent):
            with np.errstate(all="ignore"):
                curvatures = extent.moments / (self.alpha * extent.weight)
            n_passes = least_passes(loss, curvatures, limits.tol, has_multiplier)
        plan = NewtonPlan.of(
            extent,
            n_problems,
            loss,
            penalty,
            limits,
            self.second_order,
            overhead=READ_COST + READ_SHARE * extent.n_stored,
            least_passes=n_passes,
        )
        start = None
        if duals is not None:
            start = feasible_start(objective, duals, intercepts, middle)
        ascent = StreamedAscent(objective, extent, self._seeds(n_problems), start, intercepts)
        return StreamedSDCA(objective, ascent, limits.max_accesses, plan)

    def _extent(self, stream, classes, loss, checkpoint):
        """Take the counting pass."""
        constant = 0.0
        if self.fit_intercept:
            constant = partial(
                column_constant, scaling=self._scaling(), alpha=self.alpha, loss=loss
            )
        name = f"{type(self).__name__}, counting rows"

        def watch(block):
            if classes is not None:
                check_known_labels(block.y, classes)
            if checkpoint:
                checkpoint.see(block)
            count(block.X.shape[0])

        with rows_shown(self.verbose, name) as count:
            extent = extent_of(stream, constant, loss, is_classifier(self), watch)
        self.n_features_in_ = extent.n_features
        return extent

    def _problems(self, extent, classes, loss):
        """Return what makes targets, for every problem; what weighs a block; sums over all rows.

        These are the total weight, and `values_at_zeros` of all problems.
        """
        if not is_classifier(self):
            targets = [partial(contiguous, dtype=np.float64)]
            return targets, lambda block: block.sample_weight, extent.weight, extent.at_zeros
        self.classes_ = classes
        if classes is None:
            self.classes_ = whole_numbers_as_integers(find_classes(extent.labels.labels))
        labels = positive_classes(self.classes_)
        targets = [partial(margin_targets, label=label) for label in labels]
        factors, total, masses = None, extent.weight, extent.labels.of(self.classes_)
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, self.classes_, masses)
            with np.errstate(over="ignore"):
                total, masses = float(masses @ factors), masses * factors
            if total == 0:
                raise ValueError(WEIGHTLESS)

        def weigh(block):
            check_known_labels(block.y, self.classes_)
            return weights_by_class(block.y, block.sample_weight, self.classes_, factors)

        zeros = sum(values_at_zeros(loss, make(self.classes_), masses) for make in targets)
        return targets, weigh, total, zeros

    def _objective_maker(self, total_weight, loss, penalty):
        """Return what makes a block's Objective; a callback that sets parameters comes too late."""
        alpha, n_threads = self.alpha, effective_threads(self.n_jobs)

        def make(matrix, targets, weights):
            return Objective(
                matrix,
                targets,
                loss,
                alpha,
                weights,
                n_threads,
                intercept_penalty=penalty,
                total_weight=total_weight,
            )

        return make

    def _drive_streamed(self, solver, extent, checkpoint, start, started):
        constant, limits = extent.constant, self._limits()
        limits = replace(limits, max_accesses=limits.max_accesses * solver.n_problems)

        def keep(state_of_run, stopped):
            if not (checkpoint and solver.between_blocks):
                return
            if stopped or checkpoint.is_due(solver.n_blocks):
                checkpoint.save(solver.state() | state_of_run() | {"complete": False})

        with closing(solver):
            model, result, errors = drive_shown(
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
        outcomes = [
            Outcome(one, result, kept=duals)
            for one, duals in zip(np.atleast_2d(model), kept, strict=True)
        ]
        check_finite(outcomes, constant, extent.dtype)
        training = Training(None, None, None, extent, [], None)
        self._store(outcomes, training, time.perf_counter() - started)
        self.result_ = result  # all problems shared the passes, and stopped together
        if errors:
            raise errors.pop()
        if checkpoint and result.status != "stopped":  # else another call goes on
            checkpoint.save(fitted_state(self) | {"complete": True})
        self._warn_if_limited(limits)
