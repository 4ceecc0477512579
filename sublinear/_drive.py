"""The one outer loop: clock, budget, trace, callbacks, certificate, stop.

What it asks of a solver, and of its objective, `_core/solver.pyx` says.

Everything here happens between two calls of `advance`. When certificates are computed depends on
the solver's work alone, never on the clock, so a fit is reproducible; the clock only sets how often
Python looks for Ctrl-C.
"""

import math
import time
from dataclasses import dataclass, field

import numpy as np

from sublinear._core.matrix import NotFinite
from sublinear._core.pace import relative_gap
from sublinear._core.states import part_of, prefixed, refusal, restore, saved, take
from sublinear._result import Result, TraceRow, array_of_trace, trace_of

SLICE_SECONDS = 0.03
GROWTH = 4  # of a slice: few of them are too short
# The next certificate comes when the solver's estimate of the gap, corrected by what it was off at
# the last one, is within tol; where the solver can look, when what a look sees is. At the latest it
# comes when the work has grown by the solver's own factor. A look comes when the estimate is near
# tol, and half way to where the gap would be within tol at the pace so far.
FIRST_CORRECTION = 1 / 3  # estimates gather terms over an epoch, in which the gap shrinks
DOUBT = 2.0  # times tol
LOOK_ERROR = 1.1  # a needless certificate costs less than a needless epoch
LEAST_LOOK_ERROR = 0.5  # at first: of few rows that matter, a look may have seen none
LEAST_WORK = 2**17  # between two certificates or looks, which cost a few Python calls
LIMITS = "max_iter", "max_accesses", "rounding"  # what ends a fit that has not converged
CONTRADICTION = 1e-6  # of the primal value, or tol: a dual value above it by more is no bound


@dataclass(frozen=True)
class Limits:
    """When to stop: a relative gap, iterations, feature values read; whether to certify.

    With `absolute` tol bounds the gap itself. With `maximise` minus the solver's values are
    reported: a lower bound, reached by the model, as primal value, and an upper one as dual value.
    With `by_tol` max_iter is what tol asks for, and nobody's limit. Below `least_accesses` a
    max_accesses leaves no room for a step, as far as is known.
    """

    tol: float
    max_iter: float = math.inf
    max_accesses: float = math.inf
    certify: bool = True
    absolute: bool = False
    maximise: bool = False
    by_tol: bool = False
    least_accesses: int = 0

    def measured(self, primal, gap):
        """Return a gap as it is compared with tol: relative to the primal value, or as it is."""
        return gap if self.absolute else relative_gap(primal, gap)


@dataclass(frozen=True)
class Snapshot:
    """What a callback gets at every certificate.

    Attributes
    ----------
    n_iter, accesses, seconds, primal, dual, gap
        As in TraceRow.
    class_index : int
        The problem: with one model against the rest, the place of the class in `classes_`; with
        pairs, that of the pair among (0, 1), (0, 2), .., (1, 2), ..; 0 for a single one.

    Examples
    --------
    >>> from sublinear import SDCAClassifier
    >>> def near_enough(snapshot):
    ...     return snapshot.gap < 0.1 * snapshot.primal
    >>> model = SDCAClassifier(tol=0, callback=near_enough, random_state=0)
    >>> model.fit([[1.0, 0.5], [-1.0, 0.0], [0.5, 1.0]], [1, 0, 0]).result_.status
    'stopped'
    """

    n_iter: int
    accesses: int
    seconds: float
    primal: float
    dual: float
    gap: float
    class_index: int
    _model: np.ndarray = field(repr=False)
    _constant: float = field(repr=False)

    @property
    def coef(self):
        """The weights of the features, an array of shape (n_features,) of its own.

        Its shape is (n_classes, n_features) where problems are solved together: joint models and
        several classes in `fit_stream`. With a kernel it has a coefficient for every example that
        has weight.
        """
        return np.array(self._model[..., :-1] if self._constant else self._model)

    @property
    def intercept(self):
        """The intercept, a float; an array where problems are solved together."""
        if not self._constant:
            return 0.0
        intercept = self._model[..., -1] * self._constant
        return float(intercept) if intercept.ndim == 0 else intercept


def no_observer(row, model):
    """Observe nothing and let the fit go on."""
    return False


def as_stored(model, dtype, constant=1.0):
    """Return a model as attributes of a type will hold it (float64).

    They hold the intercept: `constant` times the last row, which is rounded as such.
    """
    if dtype == np.float64:
        return model
    stored = model.astype(dtype).astype(np.float64)
    if constant not in (0, 1):
        stored[-1] = np.float64(np.asarray(constant * model[-1]).astype(dtype)) / constant
    return stored


def drive(
    solver,
    limits,
    *,
    observe=no_observer,
    tick=None,
    stop=None,
    rounded=None,
    keep=None,
    start=None,
):
    """Run a solver until it has converged or reached a limit.

    Parameters
    ----------
    solver : Solver
    limits : Limits
    observe : callable
        Called with (TraceRow, model) at every certificate; stops the fit by returning True.
    tick : callable, default=None
        Called with the solver between slices, for progress displays.
    stop : threading.Event, default=None
        Set from another thread, it interrupts the fit.
    rounded : callable, default=None
        Returns a model as it will be stored: what is certified is that. None: as it is.
    keep : callable, default=None
        keep(state, stopped), called between slices while the fit goes on, and when it was stopped
        by `observe`; state() is that of this run, a flat dict.
    start : dict, default=None
        Such a state, to go on from; the solver has to be in its own of the same moment.

    Returns
    -------
    model : ndarray, float64
    result : Result
    errors : list of BaseException
        What interrupted the fit, if anything did; to be raised, by pop(), once the caller has
        stored the model. A frame that holds an error it raises waits for the garbage collector,
        with the solver.

    Raises
    ------
    NotFinite
        If the solver met values that are not finite: there is no model.
    """
    run = _Run(solver, limits, observe, rounded or (lambda model: model))
    if start is not None:
        run.set_state(start)
    errors = []
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks at what comes out
        try:
            for _ in run.slices():
                if tick is not None:
                    tick(solver)
                if keep is not None and run.status in (None, "stopped"):
                    keep(run.state, run.status == "stopped")
                if run.status is None and stop is not None and stop.is_set():
                    run.status = "interrupted"
                    break
        except NotFinite:
            raise
        except BaseException as caught:
            run.status = "interrupted"
            errors.append(caught)
    return run.model(), run.result(), errors


class _Bounds:
    """The best so far: every dual value is a bound, every model may be returned."""

    STATE = "primal", "dual", "error"

    def __init__(self, limits):
        self.limits = limits
        self.best = None  # the model
        self.primal, self.dual = math.inf, -math.inf
        self.error = 0.0  # how far rounding may have brought that primal value below the model's

    def state(self):
        """Return what `set_state` needs, a flat dict."""
        return saved(self, self.STATE) | {"best": self.best}

    def set_state(self, state, model):
        """Go on from a `state()`, of models like this one."""
        restore(self, self.STATE, state)
        if state["best"] is not None:  # there was a certificate
            self.best = take(state, "best", model)

    def note(self, model, primal, dual, error, is_wanted):
        """Take a certificate into account; its model takes the place of a better one if wanted."""
        if is_wanted or primal + error <= self.primal + self.error:
            self.primal, self.error, self.best = primal, error, model
        self.dual = self._bound(max(self.dual, dual), self.dual, dual)

    def forget_dual(self):
        """Take no dual value from before for a bound: there was more rounding in it."""
        self.dual = -math.inf

    def _bound(self, *duals):
        """Return the first finite dual value that the primal value does not contradict, or -inf."""
        slack = CONTRADICTION * abs(self.primal)
        slack = max(slack, self.limits.tol * (1 if self.limits.absolute else abs(self.primal)))
        highest = self.primal + self.error + slack
        return next((dual for dual in duals if dual <= highest and dual < math.inf), -math.inf)

    def note_zeros(self, model, primal, dual, has_diverged):
        """Take zero weights if no certified model is better; return whether that changes anything.

        So with their dual value, unless no dual value is a bound.
        """
        if self.primal > primal or (has_diverged and not self.primal <= primal):
            self.primal, self.error, self.best = primal, 0.0, model
        elif not -math.inf < self.dual < dual:
            return False
        self.dual = max(self.dual, dual)
        return True

    def values(self):
        """Return the primal value, the dual one and the gap, as reported."""
        dual = min(self.dual - self.error, self.primal)  # rounding must not make the gap negative
        if not dual > -math.inf:  # nor where errors that are not finite have made it NaN
            dual = -math.inf
        gap = self.primal - dual
        sign = -1 if self.limits.maximise else 1
        return sign * self.primal, sign * dual, gap

    def is_within_tol(self, attained=math.inf):
        """Tell whether the model, or a value known beforehand, is as near as was asked for."""
        known = (self.primal, self.values()[2]), (attained, attained - self.dual)
        return any(self.limits.measured(*pair) <= self.limits.tol for pair in known)


class _Timing:
    """When the next certificate is due, and the next look: by the solver's work."""

    STATE = "last_work", "next_allowed", "correction", "look_error", "next_look", "seen"

    def __init__(self, solver, limits):
        self.solver, self.tol, self.certifies = solver, limits.tol, limits.certify
        self.look = solver.look if limits.tol > 0 else None
        self.last_work = 0.0  # at the last certificate, or the end of the first epoch
        self.next_allowed = 0.0  # of work, before which neither comes
        self.next_look = float(LEAST_WORK)  # of work, too
        self.correction = FIRST_CORRECTION
        self.look_error = LOOK_ERROR
        self.seen = np.array([0.0, 1.0])  # work and relative gap; with zero weights that is 1

    def state(self):
        """Return what `set_state` needs, a flat dict."""
        return saved(self, self.STATE)

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, self.STATE, state)
        if not self.correction > 0:
            raise refusal(state, "correction", "is not positive")

    def is_due(self):
        """Tell whether to certify at the end of this epoch; looks, if that helps to decide."""
        work = self.solver.work
        if self.last_work == 0:  # the first epoch: a measure of the work
            self.last_work = work
        growth = self.solver.certificate_growth
        if not self.certifies or (work < self.next_allowed and growth > 1):
            return False
        if work >= growth * self.last_work:
            return True
        hope = self.solver.estimated_gap * self.correction
        if self.look is None:
            return hope <= self.tol
        if work < self.next_look and hope > DOUBT * self.tol:
            return False
        gap = self.look()
        self._learn(gap)
        return gap <= self.look_error * self.tol

    def quiet(self):
        """Return the work and the estimated gap before both of which no certificate is due."""
        growth = self.solver.certificate_growth
        if growth == 1 or not self.certifies:
            return 0.0, math.inf
        if self.solver.work < self.next_allowed:
            return self.next_allowed, -math.inf
        due = growth * self.last_work
        if self.look is None:
            return due, self.tol / self.correction
        return min(due, self.next_look), DOUBT * self.tol / self.correction

    def certified(self, gap):
        """Learn from a certificate, which tells the relative gap of now."""
        self.last_work = self.solver.work
        looked_at, seen = self.seen
        if looked_at == self.solver.work and gap > 0:  # the next look sees the same rows
            least = LEAST_LOOK_ERROR * min(1.0, self.look_error) ** 2  # less each time
            self.look_error = max(least, seen / gap)
        self._learn(gap)

    def _learn(self, gap):
        """Correct the solver's estimate and plan the next look, by the relative gap of now."""
        estimate, work = self.solver.estimated_gap, self.solver.work
        if 0 < estimate < math.inf:
            self.correction = gap / estimate
        before, gap_before = self.seen
        distance = work - before
        if 0 < self.tol < gap < gap_before:
            distance *= math.log(gap / self.tol) / math.log(gap_before / gap) / 2
        self.seen[:] = work, gap
        self.next_look = work + distance
        self.next_allowed = work + LEAST_WORK


class _Run:
    """The state of one run of `drive`."""

    def __init__(self, solver, limits, observe, rounded):
        self.solver, self.limits, self.observe, self.rounded = solver, limits, observe, rounded
        self.bounds, self.timing = _Bounds(limits), _Timing(solver, limits)
        self.started = time.perf_counter()
        self.trace = []
        self.status = None
        self.n_unresolved = 0
        self.is_exact = True  # whether the last certificate had the solver's least rounding
        self.reached = ""  # the limit at which the last certificate was taken

    def state(self):
        """Return what `set_state` needs, a flat dict of arrays and numbers."""
        own = {"trace": array_of_trace(self.trace), "seconds": time.perf_counter() - self.started}
        own |= saved(self, ("reached",))
        return prefixed("run", self.bounds.state() | self.timing.state() | own)

    def set_state(self, state):
        """Go on from a `state()`."""
        state = part_of(state, "run")
        self.bounds.set_state(state, self.solver.model())
        self.timing.set_state(state)
        self.trace = trace_of(state)
        self.started -= take(state, "seconds", 0.0)
        restore(self, ("reached",), state)
        if self.reached and self.reached not in LIMITS:
            raise refusal(state, "reached", f"is none of {LIMITS}")
        self.status = self.reached or None  # where it was stopped

    def slices(self):
        """Advance the solver; yield after every slice, until there is a status."""
        solver, limits = self.solver, self.limits
        size = solver.first_slice
        while self.status is None:
            before, work, began = solver.accesses, solver.work, time.perf_counter()
            solver.be_quiet_until(*self.timing.quiet(), limits.max_iter)
            at_end = solver.advance(int(min(before + size, limits.max_accesses, 2**62)))
            seconds = time.perf_counter() - began
            moved = at_end or solver.work > work or solver.accesses > before
            if solver.diverged:
                self.status = "diverged"
            elif not moved and before + size >= limits.max_accesses:
                self.stop_at("max_accesses")
            elif at_end and solver.n_iter >= limits.max_iter:
                self.stop_at("max_iter")
            elif at_end and self.timing.is_due():
                self.certify()
            # one that an epoch's end cut short tells nothing of how long a full one takes
            is_full = solver.accesses - before >= size / GROWTH
            if not moved or (is_full and seconds < SLICE_SECONDS / GROWTH):
                size *= GROWTH
            elif seconds > 2 * SLICE_SECONDS:
                size = max(1, size // GROWTH)
            yield
        if solver.keeps_best and self.status != "converged" and self.limits.certify:
            self.compare_with_zeros()

    def certify(self):
        """Add a row to the trace; set the status if the fit is done."""
        self.note_certificate()
        row = self.row()
        self.trace.append(row)
        self.timing.certified(relative_gap(self.bounds.primal, row.gap))
        self.note_rounding(row.gap)
        if self.bounds.is_within_tol(self.solver.objective.attained):
            self.status = "converged"
            self.solver.settle()
        elif self.is_stuck_by_rounding() and not self.refine():
            self.status = "rounding"
        if self.solver.diverged:
            self.status = "diverged"
        # without a best model none was finite: there is nothing to show
        best = self.bounds.best
        if best is not None and self.observe(row, best) and self.status is None:
            self.status = "stopped"

    def note_certificate(self):
        """Compute a certificate and take it into account."""
        objective = self.solver.objective
        model, primal, dual = self.solver.certify(self.rounded)
        was_exact, self.is_exact = self.is_exact, objective.is_exact
        is_refined = self.is_exact and not was_exact
        if is_refined:
            self.bounds.forget_dual()
        is_wanted = is_refined or not self.solver.keeps_best
        self.bounds.note(model, float(primal), float(dual), objective.model_error, is_wanted)

    def row(self):
        """Return the row of the trace that says what is known now."""
        seconds = time.perf_counter() - self.started
        return TraceRow(self.solver.n_iter, self.solver.accesses, seconds, *self.bounds.values())

    def note_rounding(self, gap):
        """Count a certificate whose gap is mostly rounding, and more than was asked for."""
        rounding = self.solver.objective.rounding
        error = self.limits.measured(self.bounds.primal, rounding)
        if 0 < self.limits.tol < error and gap <= 2 * rounding:
            self.n_unresolved += 1

    def is_stuck_by_rounding(self):
        """Tell whether rounding keeps the gap above what was asked for."""
        return self.n_unresolved >= self.solver.most_unresolved

    def refine(self):
        """Let the solver go on with less rounding; return whether it can."""
        self.n_unresolved = 0
        return self.solver.refine()

    def compare_with_zeros(self):
        """Keep zero weights if no certified model is better: a solver may have diverged."""
        zeros = self.solver.objective.at_zeros()
        if not self.bounds.note_zeros(*zeros, has_diverged=self.status == "diverged"):
            return
        row = self.row()
        if self.trace and self.trace[-1].accesses == row.accesses:
            self.trace.pop()
        self.trace.append(row)
        if self.status in LIMITS and self.bounds.is_within_tol():
            self.status = "converged"

    def stop_at(self, limit):
        """A limit is reached: certify what there is."""
        if not self.limits.certify:
            self.status = "partial_fit"
            return
        self.reached = limit
        self.certify()
        if self.status is None:
            self.status = limit

    def model(self):
        """Return the certified model, or the present one if there is none."""
        best = self.bounds.best
        return self.rounded(self.solver.model()) if best is None else best

    def result(self):
        """Return the Result with the certificate of `model()`."""
        primal, dual, gap = self.bounds.values()
        return Result(
            primal=math.nan if self.bounds.best is None else primal,
            dual=dual,
            gap=gap,
            status=self.status,
            n_iter=self.solver.n_iter,
            accesses=self.solver.accesses,
            certificate_accesses=self.solver.objective.accesses,
            full_accesses=self.solver.full_accesses,
            seconds=time.perf_counter() - self.started,
            trace=tuple(self.trace),
        )
