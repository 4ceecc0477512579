"""The one outer loop: clock, budget, trace, callbacks, certificate, stop.

A solver is an object that holds its state and has

    advance(limit)      go on until an epoch ends or `accesses` would exceed `limit`
    n_epochs, accesses  what it did so far; `work` counts examples as well as feature values
    model()             the weights it would return now
    certificate(model)  their primal value and a dual value

Everything here happens between two calls of `advance`. When certificates are computed depends on the
solver's work alone, never on the clock, so a fit is reproducible; the clock only sets how often
Python looks for Ctrl-C.
"""

import math
import time
from dataclasses import dataclass, field

import numpy as np

from sublinear._result import Result, TraceRow, relative_gap

SLICE_SECONDS = 0.03
CERTIFICATE_GROWTH = 1.25  # the next certificate comes after this many times the work so far
LEAST_WORK = 2**17  # between two certificates: a certificate costs a few Python calls


@dataclass(frozen=True)
class Limits:
    """When to stop: a relative gap, epochs, feature values read. `certify`: compute certificates."""

    tol: float
    max_epochs: float = math.inf
    max_accesses: float = math.inf
    certify: bool = True


@dataclass(frozen=True)
class Snapshot:
    """What a callback gets at every certificate.

    Attributes
    ----------
    n_iter, accesses, seconds, primal, dual, gap
        As in TraceRow.
    class_index : int
        The one-vs-rest problem; 0 for a single one.
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
        """The weights of the features, an array of shape (n_features,) of its own."""
        return np.array(self._model[:-1] if self._constant else self._model)

    @property
    def intercept(self):
        """The intercept, a float."""
        return float(self._model[-1] * self._constant) if self._constant else 0.0


def no_observer(row, model):
    """Observe nothing and let the fit go on."""
    return False


def drive(solver, limits, *, observe=no_observer, tick=None, stop=None, dtype=np.float64):
    """Run a solver until it has converged or reached a limit.

    Parameters
    ----------
    solver : object
        See the top of this module.
    limits : Limits
    observe : callable
        Called with (TraceRow, model) at every certificate; stops the fit by returning True.
    tick : callable, default=None
        Called with the solver between slices, for progress displays.
    stop : threading.Event, default=None
        Set from another thread, it interrupts the fit.
    dtype : numpy dtype
        The type in which the model will be stored: its primal value is that of the rounded model.

    Returns
    -------
    model : ndarray, float64
    result : Result
    error : BaseException or None
        What interrupted the fit; to be raised once the caller has stored the model.
    """
    run = _Run(solver, limits, observe, dtype)
    try:
        for _ in run.slices():
            if tick is not None:
                tick(solver)
            if stop is not None and stop.is_set():
                run.status = "interrupted"
                break
    except BaseException as error:
        run.status = "interrupted"
        return run.model(), run.result(), error
    return run.model(), run.result(), None


class _Run:
    """The state of one run of `drive`."""

    def __init__(self, solver, limits, observe, dtype):
        self.solver, self.limits, self.observe, self.dtype = solver, limits, observe, dtype
        self.started = time.perf_counter()
        self.trace = []
        self.status = None
        self.next_certificate = 0

    def slices(self):
        """Advance the solver; yield after every slice, until there is a status."""
        solver, limits = self.solver, self.limits
        size = LEAST_WORK
        while self.status is None:
            before, epochs, began = solver.accesses, solver.n_epochs, time.perf_counter()
            solver.advance(int(min(before + size, limits.max_accesses, 2**62)))
            seconds = time.perf_counter() - began
            moved = solver.accesses > before or solver.n_epochs > epochs
            if not moved and before + size >= limits.max_accesses:
                self.stop_at("max_accesses")
            elif solver.n_epochs >= limits.max_epochs:
                self.stop_at("max_iter")
            elif (
                limits.certify
                and solver.n_epochs > epochs
                and solver.work >= self.next_certificate
            ):
                self.certify()
            if not moved or seconds < SLICE_SECONDS / 2:
                size *= 2
            elif seconds > 2 * SLICE_SECONDS:
                size = max(1, size // 2)
            yield

    def certify(self):
        """Add a row to the trace; set the status if the fit is done."""
        model = self.model()
        primal, dual = self.solver.certificate(model)
        row = TraceRow(
            self.solver.n_epochs,
            self.solver.accesses,
            time.perf_counter() - self.started,
            primal,
            dual,
            primal - dual,
        )
        self.trace.append(row)
        work = self.solver.work
        self.next_certificate = max(CERTIFICATE_GROWTH * work, work + LEAST_WORK)
        if relative_gap(primal, row.gap) <= self.limits.tol:
            self.status = "converged"
        if self.observe(row, model) and self.status is None:
            self.status = "stopped"

    def stop_at(self, limit):
        """A limit is reached: certify what there is."""
        if not self.limits.certify:
            self.status = "partial_fit"
            return
        self.certify()
        if self.status is None:
            self.status = limit

    def model(self):
        """The solver's model as it will be stored."""
        model = self.solver.model()
        return model if self.dtype == np.float64 else model.astype(self.dtype).astype(np.float64)

    def result(self):
        """The Result, certified unless the run was interrupted."""
        last = self.trace[-1] if self.trace else None
        known = last is not None and last.accesses == self.solver.accesses
        return Result(
            primal=last.primal if known else math.nan,
            dual=last.dual if known else -math.inf,
            gap=last.gap if known else math.inf,
            status=self.status,
            n_iter=self.solver.n_epochs,
            accesses=self.solver.accesses,
            certificate_accesses=self.solver.objective.accesses,
            seconds=time.perf_counter() - self.started,
            trace=tuple(self.trace),
        )
