"""Dual coordinate ascent over a source: the duals stay in memory, the rows come block by block.

The first pass counts; each further pass is an epoch or a certificate. All one-vs-rest problems
share every pass. Per example, 8 bytes for the dual and one for its sleep are kept for each problem.
Where steps of single duals creep, a proximal Newton method takes their place, a pass a step; it
keeps another 8 bytes.

An intercept without penalty is dealt with as in `_solvers.sdca`, by the method of multipliers. The
multiplier is part of w here, so that solvers need not know of it. How far from balance the duals
are is found during an epoch; then a certificate takes two passes, one for w of balanced duals.
"""

import time
import zlib
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from sklearn.base import is_classifier

from sublinear._archive import part_of, prefixed
from sublinear._callbacks import call_back, drive_shown, rows_shown
from sublinear._certified_model import Outcome, Training, check_finite
from sublinear._checkpoint import fitted_state, set_fitted_state
from sublinear._core.examples import count_awake
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective, balance
from sublinear._core.random import RandomBits
from sublinear._core.starting_intercept import middle, weighted_median
from sublinear._drive import as_stored
from sublinear._newton_passes import Certified, NewtonPlan
from sublinear._readers import whole_numbers_as_integers
from sublinear._result import relative_gap
from sublinear._solvers.sdca import BlockwiseSDCA, intercept_pace
from sublinear._stream import StreamFit
from sublinear._streamed_newton import StreamedNewton
from sublinear._threads import effective_threads
from sublinear._validation import (
    WEIGHTLESS,
    LabelWeights,
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


@dataclass
class Extent:
    """What the counting pass finds.

    Attributes
    ----------
    n_rows, n_features, n_stored : int
    cut : int
        A hash of the numbers of rows of all blocks.
    is_sparse : bool
        Whether the blocks are.
    weight : float
        The sum of the sample weights.
    labels : LabelWeights
        Of all blocks, where labels are wanted.
    dtype : numpy.dtype
    constant : float
        The value of the constant column.
    middle : float
        About the weighted median of all targets, where labels are not wanted.
    """

    n_rows: int = 0
    n_features: int = 0
    n_stored: int = 0
    cut: int = 0
    is_sparse: bool = False
    weight: float = 0.0
    labels: LabelWeights = field(default_factory=LabelWeights)
    dtype: np.dtype | None = None
    constant: float = 0.0
    middle: float = 0.0

    @property
    def n_weights(self):
        """The constant column's included."""
        return self.n_features + (self.constant != 0)


def extent_of(stream, constant, wants_labels, watch):
    """Return the Extent of a stream; calls watch(block) for every block of this pass.

    `constant` is the value of the constant column, or finds it from the sum of the squares of all
    values and the number of rows.
    """
    extent, squares, middles = Extent(), 0.0, []
    for block in stream:
        with stream.naming_block():
            watch(block)
            n_rows, matrix = block.X.shape[0], Matrix(block.X)
        weights = np.ones(n_rows) if block.sample_weight is None else block.sample_weight
        extent.n_rows += n_rows
        extent.cut = zlib.crc32(str(n_rows).encode(), extent.cut)
        extent.n_stored += matrix.n_stored
        extent.is_sparse = matrix.is_sparse
        if callable(constant):
            squares += float(matrix.squared_norms().sum())
        extent.weight += float(weights.sum())
        if wants_labels:
            with stream.naming_block():
                extent.labels.add(block.y, weights)
        else:
            middles.append((middle(block.y, weights), weights.sum()))
    extent.n_features, extent.dtype = stream.n_features, stream.dtype
    extent.constant = constant(squares, extent.n_rows) if callable(constant) else constant
    if middles:
        extent.middle = weighted_median(*np.transpose(middles))
    return extent


class StreamedObjective:
    """The objectives of all problems, a block at a time.

    Parameters
    ----------
    stream : iterable of blocks
        With attributes X, y and sample_weight.
    n_rows : int
    problems : list of callables
        Each makes an array of targets of a block's y.
    make : callable
        make(matrix, targets, weights) -> the Objective of a problem, as part of the whole.
    weigh : callable
        weigh(block) -> the weights of its rows, or None; ValueError for a block of other labels.
    constant : float
    """

    def __init__(self, stream, n_rows, problems, make, weigh, constant):
        self.stream, self.n_rows, self.problems = stream, n_rows, problems
        self.make, self.weigh, self.constant = make, weigh, constant
        self.accesses = 0
        self.zeros = None

    @property
    def n_weights(self):
        """The constant column's included."""
        return self.stream.n_features + (self.constant != 0)

    def blocks(self, first=0):
        """Yield (slice of the examples, Objectives of the problems) for the blocks from `first`."""
        stop = 0
        for number, block in enumerate(self.stream):
            start, stop = stop, stop + block.X.shape[0]
            if number >= first:
                with self.stream.naming_block():
                    matrix, weights = Matrix(block.X, constant=self.constant), self.weigh(block)
                    targets = [make_targets(block.y) for make_targets in self.problems]
                yield slice(start, stop), [self.make(matrix, one, weights) for one in targets]

    def masses(self, duals):
        """Return the masses of each problem's positive and of its negative duals; one pass."""
        masses = np.zeros((len(self.problems), 2))
        for where, objectives in self.blocks():
            for k, objective in enumerate(objectives):
                masses[k] += objective.masses(duals[k, where])
        return masses

    def weights_of_balanced(self, duals, masses):
        """Return w of each problem's duals, balanced by their masses; one pass."""
        ws = [0.0] * len(self.problems)
        for where, objectives in self.blocks():
            for k, objective in enumerate(objectives):
                own = balanced(objective, duals[k, where], masses[k])
                ws[k] = ws[k] + objective.weights_of_dual(own)
                self.accesses += objective.accesses
        for w in ws:
            w[-1] = 0.0  # but for rounding
        return ws

    def certificate(self, ws, duals, candidates, masses=None):
        """Return the primal values of each problem's candidates, and the dual values; one pass.

        With `masses` of the duals once they are balanced, whose w must be given.
        """
        sums, zeros = [0.0] * len(ws), np.zeros(2)
        for where, objectives in self.blocks():
            for k, objective in enumerate(objectives):
                own = duals[k, where]
                if masses is not None:
                    own = balanced(objective, own, masses[k])
                sums[k] = sums[k] + objective.sums(candidates[k], ws[k], own)
                self.accesses += objective.accesses
                if self.zeros is None:
                    zeros += objective.values_of_zeros()
        if self.zeros is None:
            self.zeros = zeros.tolist()
        # any block's objective has the total weight and alpha
        certificates = [
            objective.certificate_of_sums(sums[k], ws[k], candidates[k])
            for k, objective in enumerate(objectives)
        ]
        return [primals for primals, _ in certificates], [dual for _, dual in certificates]

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        if self.zeros is None:
            self.zeros = np.zeros(2)
            for _, objectives in self.blocks():
                for objective in objectives:
                    self.zeros += objective.values_of_zeros()
        return _stacked(np.zeros((len(self.problems), self.n_weights))), *self.zeros


def balanced(objective, duals, masses):
    """Return a copy of a block's duals, balanced by the masses of all."""
    duals = duals.copy()
    objective.balance(duals, masses)
    return duals


def feasible_start(objective, duals, intercepts, other):
    """Return the nearest duals that are feasible, shrunk where that is better, and their w.

    Takes a pass over a StreamedObjective. Where no duals are better than zeros, an intercept
    without penalty becomes the other one.
    """
    duals, ws = np.array(duals), np.zeros((len(duals), objective.n_weights))
    costs, at_zeros = np.zeros((2, len(duals)))
    for where, objectives in objective.blocks():
        for k, part in enumerate(objectives):
            part.make_feasible(duals[k, where])
            ws[k] += part.weights_of_dual(duals[k, where])
            costs[k] += part.cost_of(duals[k, where])
            at_zeros[k] += part.values_of_zeros()[0]
            objective.accesses += part.accesses
    for k, part in enumerate(objectives):
        offset = 0.0
        if intercepts is not None:
            offset = intercepts[k] - objective.constant * ws[k, -1]
        factor = part.shrinkage(ws[k], costs[k], offset, at_zeros[k])
        duals[k] *= factor
        ws[k] *= factor
        if factor == 0 and intercepts is not None:
            intercepts[k] = other
    return duals, ws


class StreamedSDCA:
    """The solver that `_drive` runs: all problems of a source.

    Parameters
    ----------
    objective : StreamedObjective
    extent : Extent
    seeds : list of SeedSequence
        One for each problem.
    start : tuple of ndarrays, default=None
        As `feasible_start` returns; None means zeros.
    intercepts : ndarray of shape (n_problems,), default=None
        Where intercepts without penalty start; None: they are penalised.
    max_accesses : float, default=inf
        Limit on the feature values read for each problem. The block in which one of them reaches it
        is the last one for all, and every problem has its turn in it.
    plan : NewtonPlan, default=None
        None: there are only steps of single duals.

    Attributes
    ----------
    n_iter : int
        Passes completed.
    n_blocks : int
        Blocks visited in all passes.
    """

    keeps_best = True
    diverged = False

    def __init__(
        self,
        objective,
        extent,
        seeds,
        start=None,
        intercepts=None,
        max_accesses=np.inf,
        plan=None,
    ):
        self.objective, self.max_accesses, self.plan = objective, max_accesses, plan
        self.extent = extent
        shape = (len(seeds), extent.n_rows)
        if start is None:
            start = np.zeros(shape), np.zeros((len(seeds), extent.n_weights))
        self.duals, ws = start
        self.sleep = np.zeros(shape, dtype=np.uint8)
        self.free_intercept = intercepts is not None
        # of each problem: what the last weight exceeds that of w(duals) by; how much that grew at
        # the end of the last pass; the masses of the duals of the blocks visited in the pass
        self.shifts, self.moves = np.zeros((2, len(seeds)))
        self.masses = np.zeros((len(seeds), 2))
        self.certified = self.masses  # the masses of the last certificate
        if self.free_intercept:
            for k, w in enumerate(ws):
                self.shifts[k] = intercepts[k] / objective.constant - w[-1]
                w[-1] = intercepts[k] / objective.constant
        self.solvers = [
            BlockwiseSDCA(RandomBits(seed), w, extent.n_rows, extent.n_stored)
            for seed, w in zip(seeds, ws, strict=True)
        ]
        self.n_iter = self.n_blocks = 0
        self.blocks = self.block = None  # what is left of the pass; the present block of it
        self.position = 0  # of the present block
        self.problem, self.inside = 0, False  # the one whose turn it is; has it entered the block
        self.spent = False  # whether a problem has reached its limit
        self.newton = None  # StreamedNewton, while its methods are at work
        self.newton_work = 0.0  # theirs, once they are over
        self.n_read = np.zeros(len(seeds), dtype=np.int64)  # by them
        self.best = Certified(len(seeds), extent.n_weights)

    @property
    def accesses(self):
        """Feature values read."""
        return sum(solver.accesses for solver in self.solvers) + int(self.n_read.sum())

    @property
    def progress(self):
        """Passes completed, and the part of the present one."""
        done = 0 if self.block is None else self.block[0].start / self.objective.n_rows
        return round(self.n_iter + done, 2)

    @property
    def work(self):
        """As SDCA counts it, and what it costs to read the source again, little as it may hold."""
        work = sum(solver.work for solver in self.solvers) + READ_COST * self.n_iter
        return work + (self.newton.work if self.newton else self.newton_work)

    @property
    def certificate_growth(self):
        """As SDCA's."""
        return (self.newton or self.solvers[0]).certificate_growth

    @property
    def estimated_gap(self):
        """The relative gap of all problems together, estimated from a part of the last pass."""
        gaps, primals = zip(*self._estimates(), strict=True)
        return relative_gap(sum(primals), sum(gaps))

    def _estimates(self):
        """Return the gap and the primal value of every problem."""
        if self.newton:
            return self.newton.estimates
        return [solver.estimate() for solver in self.solvers]

    @property
    def between_blocks(self):
        """Whether the state can be saved."""
        if self.newton:  # whose sums of a pass are not saved
            return self.blocks is None
        return self.problem == 0 and not self.inside

    def advance(self, limit):
        """Go on until the pass ends, then return True; or until a block does, or the limit."""
        before = self.accesses
        if self.blocks is None:
            self._begin_pass()
        while self.accesses == before:
            if not (self._visit(limit) if self.newton else self._advance_in_block(limit)):
                return False
            self.n_blocks += 1
            self.position += 1
            self.block = next(self.blocks, None)
            if self.block is None:
                self._end_pass()
                return True
        return False

    def _advance_in_block(self, limit):
        """Go on with the problems; True when all are done with this block and may go on."""
        where, objectives = self.block
        while self.problem < len(self.solvers):
            k, solver = self.problem, self.solvers[self.problem]
            if not self.inside:
                solver.enter(objectives[k], self.duals[k, where], self.sleep[k, where])
                self.inside = True
            left = limit - (self.accesses - solver.accesses)
            own = self.max_accesses - self.n_read[k]
            if not solver.advance(min(left, own)):
                if left < own:
                    return False
                self.spent = True
            self.duals[k, where] = solver.leave()
            if self.free_intercept:
                self.masses[k] += objectives[k].masses(self.duals[k, where])
            self.problem, self.inside = k + 1, False
        if self.spent:
            return False
        self.problem = 0
        return True

    def _begin_pass(self):
        if self.newton and self.newton.is_over:
            self.newton_work = self.newton.work
            self.newton = self.plan = None
        elif self._is_time_for_newton():
            self._begin_newton()
        self.blocks = self.objective.blocks(self.position)
        self.block = next(self.blocks)
        if self.newton:
            self.newton.begin()
        elif self.position == 0:
            self.masses[:] = 0
            for solver, sleep in zip(self.solvers, self.sleep, strict=True):
                solver.begin(count_awake(sleep))

    def _end_pass(self):
        self.blocks, self.position = None, 0
        self.n_iter += 1
        if self.newton:
            self.newton.end()
            return
        for solver in self.solvers:
            solver.end()
        if self.free_intercept:
            for k, solver in enumerate(self.solvers):
                self.moves[k] = solver.w[-1] - self.shifts[k]
                self.shifts[k] += self.moves[k]
                solver.w[-1] += self.moves[k]

    def _is_time_for_newton(self):
        if self.plan is None or self.newton or self.position > 0 or self.n_iter == 0:
            return False
        return self.plan.is_due(self.n_iter, self.work, self.best.gap)

    def _begin_newton(self):
        """Go over to proximal Newton methods, from certified models if zeros are not better."""
        self._make_newton(self.objective.at_zeros()[1])
        self.certified = self.masses.copy()

    def _make_newton(self, at_zeros):
        self.newton = StreamedNewton(self.plan, self.best, at_zeros, self.duals)

    def _visit(self, limit):
        """Let the proximal Newton methods go through the block, within the limits of accesses."""
        where, objectives = self.block
        reads = np.zeros_like(self.n_read)
        reads[[k for k, _ in self.newton.active]] = self.newton.n_read(objectives)
        left = [self.max_accesses - solver.accesses for solver in self.solvers] - self.n_read
        self.spent = bool(np.any(reads > left))
        if self.spent or self.accesses + reads.sum() > limit:
            return False
        self.n_read += reads
        self.newton.visit(where, objectives)
        return True

    def model(self):
        """Return the weights, of shape (n_problems, n_weights) or (n_weights,) for one."""
        return _stacked(self._newton_weights() if self.newton else [s.w for s in self.solvers])

    def certify(self, rounded):
        """Return the better of w and the pass mean for every problem, and the sums (`_drive`)."""
        if self.newton:
            return self._certify_newton(rounded)
        if self.inside:
            where, _ = self.block
            self.duals[self.problem, where] = self.solvers[self.problem].duals()
        candidates = [
            [rounded(v) for v in self._candidates(*pair)]
            for pair in zip(self.solvers, self.moves, strict=True)
        ]
        ws, masses = [solver.w for solver in self.solvers], None
        if self.free_intercept:
            between_passes = self.blocks is None
            masses = self.masses if between_passes else self.objective.masses(self.duals)
            ws = self.objective.weights_of_balanced(self.duals, masses)
            self.certified = masses.copy()
        primals, duals = self.objective.certificate(ws, self.duals, candidates, masses)
        for k, noted in enumerate(zip(candidates, primals, duals, strict=True)):
            self.best.note(k, *noted)
        return self._certificate()

    def _certificate(self):
        return _stacked(self.best.models), self.best.least.sum(), self.best.bounds.sum()

    def _certify_newton(self, rounded):
        """As `certify`, of the weights of the proximal Newton methods, and their duals."""
        found, ws, masses = self.newton.duals_of(self.objective)
        candidates, of_duals, balances = [[rounded(w)] for w in self._newton_weights()], ws, None
        if self.free_intercept:
            balances, of_duals = masses, self.objective.weights_of_balanced(found, masses)
        primals, duals = self.objective.certificate(of_duals, found, candidates, balances)
        for k, noted in enumerate(zip(candidates, primals, duals, strict=True)):
            if self.best.note(k, *noted):
                self._adopt(k, found[k], ws[k], masses[k])
        return self._certificate()

    def _newton_weights(self):
        return [method.w for method in self.newton.methods]

    def _adopt(self, k, duals, w, masses):
        """Take duals of a problem, and their w: dual ascent would go on from there."""
        self.duals[k], self.sleep[k] = duals, 0
        self.masses[k] = self.certified[k] = masses
        solver = self.solvers[k]
        solver.w[:] = w
        if self.free_intercept:
            solver.w[-1] = self.newton.methods[k].w[-1]
            self.shifts[k], self.moves[k] = solver.w[-1] - w[-1], 0.0

    def _candidates(self, solver, move):
        """Return w and, where it is kept, the mean of the pass, with the present multiplier."""
        w, *means = solver.candidates()
        for mean in means:
            if self.free_intercept and self.blocks is None:
                mean[-1] += move
        return [w, *means]

    def release_duals(self):
        """Return the duals of each problem that a certificate takes; ends all other use."""
        if self.free_intercept:
            masses = self.masses if self.blocks is None else self.certified
            for duals, of_problem in zip(self.duals, masses, strict=True):
                balance(duals, of_problem)
        return self.duals

    def close(self):
        """Stop reading."""
        if self.blocks is not None:
            self.blocks.close()
            self.blocks = None

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        state = {
            "duals": self.duals,
            "sleep": self.sleep,
            "n_iter": self.n_iter,
            "n_blocks": self.n_blocks,
            "position": self.position,
            "certificate_accesses": self.objective.accesses,
            "shifts": self.shifts,
            "moves": self.moves,
            "masses": self.masses,
            "n_read": self.n_read,
            "newton_work": self.newton_work,
            "has_plan": self.plan is not None,
        }
        for k, solver in enumerate(self.solvers):
            state |= prefixed(k, solver.state())
        state |= self.best.state()
        return state | self.newton.state() if self.newton else state

    def set_state(self, state):
        """Go on from a `state()`."""
        self.duals[:], self.sleep[:] = state["duals"], state["sleep"]
        self.n_iter, self.n_blocks = state["n_iter"], state["n_blocks"]
        self.position = state["position"]
        self.objective.accesses = state["certificate_accesses"]
        self.newton_work = state["newton_work"]
        self.best.set_state(state)
        for name in ("shifts", "moves", "masses", "n_read"):
            getattr(self, name)[:] = state[name]
        for k, solver in enumerate(self.solvers):
            solver.set_state(part_of(state, k))
        if not state["has_plan"]:
            self.plan = None
        elif "newton.centres" in state:
            self._make_newton(np.inf)
            self.newton.set_state(state)


def _stacked(models):
    return models[0].copy() if len(models) == 1 else np.stack(models)


class DualStreamFit(StreamFit):
    """fit_stream for estimators whose solver is SDCA."""

    def _fit_source(self, stream, classes, checkpoint):
        if self.batch_size != 1:
            raise ValueError("fit_stream needs batch_size=1")
        stream.require_repeatable()
        started = time.perf_counter()
        if classes is not None:
            classes = given_classes(classes)
        extent = self._extent(stream, classes, checkpoint)
        targets, weigh, weight = self._problems(extent, classes)
        check_total_weight(weight, "the weights of all blocks")
        if checkpoint:
            checkpoint.count_rows(extent.n_rows, extent.cut)
        state = checkpoint and checkpoint.load()
        if state and state["complete"]:
            set_fitted_state(self, state)
            self._warn_if_limited(self._limits())
            return
        loss = self._make_loss()
        make = self._objective_maker(weight, loss)
        objective = StreamedObjective(stream, extent.n_rows, targets, make, weigh, extent.constant)
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
        return StreamedSDCA(
            objective,
            extent,
            self._seeds(n_problems),
            start=start,
            intercepts=intercepts,
            max_accesses=limits.max_accesses,
            plan=plan,
        )

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
        limits = replace(limits, max_accesses=limits.max_accesses * len(solver.solvers))

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
