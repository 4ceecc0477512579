"""What all estimators with a certificate share: the fit of all their problems."""

import copy
import math
import threading
import time
import zlib
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator

from sublinear._callbacks import CallbackSupportMixin, Observers, drive_shown
from sublinear._core.computed import ComputedMatrix
from sublinear._core.matrix import Matrix
from sublinear._core.random import RandomBits
from sublinear._drive import LIMITS, Limits, as_stored
from sublinear._fitted_parameters import note_parameters
from sublinear._result import Result, combine, not_begun
from sublinear._threads import effective_threads
from sublinear._validation import (
    check_flag,
    check_intercept_scaling,
    check_loss,
    check_number,
    check_run_parameters,
    seed_sequence,
)
from sublinear._warnings import warn

NOT_OF_THE_OBJECTIVE = (  # parameters
    "average",
    "batch_size",
    "callback",
    "client",
    "max_accesses",
    "max_iter",
    "max_support",
    "memory_limit",
    "n_jobs",
    "n_partitions",
    "pack",
    "projection",
    "random_state",
    "sampling",
    "tol",
    "verbose",
    "warm_start",
)
SPOILT = (
    "rounding has spoilt the dual value, since numbers are too large, too small or too far apart"
)
MARKED_ROWS = 256  # a look at all of them would be a pass


@dataclass
class Outcome:
    """What became of one binary or regression problem."""

    model: np.ndarray
    result: Result
    errors: list[BaseException] = field(default_factory=list)  # as `drive` returns them
    kept: object = None  # of the solver, for the next start

    @classmethod
    def not_begun(cls, training, limits, *errors):
        """Return that of a problem which an interrupt kept from starting."""
        return cls(np.zeros(training.n_weights), not_begun(limits.maximise), list(errors))


def solve_all(problems, n_threads):
    """Call every problem with one stop event, in threads.

    Ctrl-C, another signal whose handler raises, or an error in one of them makes the others stop at
    once with what they have.

    Returns
    -------
    outcomes : list of Outcome
    errors : list of BaseException
        The first error, if any: of the wait, or moved out of the outcome that it interrupted.
    """
    stop = threading.Event()
    errors = []

    def guarded(problem):
        try:
            outcome = problem(stop)
        except BaseException:
            stop.set()
            raise
        if outcome.errors:
            errors.append(outcome.errors.pop())
            stop.set()
        return outcome

    if n_threads == 1 or len(problems) == 1:
        outcomes = [guarded(problem) for problem in problems]
    else:
        futures = []
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                for problem in problems:
                    futures.append(pool.submit(guarded, problem))
                wait(futures, return_when=FIRST_EXCEPTION)
            except BaseException as interrupt:  # Ctrl-C, or what any signal handler raises
                errors.insert(0, interrupt)
                stop.set()
        outcomes = []
        while futures:  # none is to stay where its error passes
            outcomes.append(futures.pop(0).result())
        # those that no thread was given find that they are to stop
        outcomes += [guarded(problem) for problem in problems[len(outcomes) :]]
    del errors[1:]  # the first one is raised
    return outcomes, errors


def metadata_of(sample_weight):
    """Return what scores take besides X and y, None for nothing."""
    return None if sample_weight is None else {"sample_weight": sample_weight}


@dataclass
class Training:
    """The data of a fit, ready for solvers.

    Attributes
    ----------
    X, y, metadata
        What scikit-learn's callbacks may ask for.
    matrix : Matrix
    targets : list of callables
        Each returns the targets of a problem: they are made when their turn comes.
    weights : ndarray or None
    solvers : dict or None
        Solvers by problem, where fits with other values of alpha are to go on from them.
    plan : object
        What else the estimator's solvers have in common.
    given : RowNumbers or None
        Where rows without weight are left out.
    earlier_dtype : numpy.dtype or None
        Of the model that an earlier part of the data made.
    """

    X: object
    y: np.ndarray
    metadata: dict | None
    matrix: Matrix
    targets: list
    weights: np.ndarray | None
    solvers: dict | None = None
    plan: object = None
    given: object = None
    earlier_dtype: np.dtype | None = None

    @property
    def n_weights(self):
        """Length of a model."""
        return self.matrix.n_weights

    @property
    def constant(self):
        """What the last entry of a model is multiplied by to give the intercept; 0 without one."""
        return self.matrix.constant

    @property
    def dtype(self):
        """The type in which a model is stored."""
        if self.earlier_dtype is None:
            return self.matrix.dtype
        return np.promote_types(self.matrix.dtype, self.earlier_dtype)


def check_finite(outcomes, constant, dtype):
    """Raise ValueError if a model, its intercept or its certified objective is not finite."""
    for outcome in outcomes:
        with np.errstate(over="ignore", invalid="ignore"):
            intercept = (outcome.model[-1:] * constant).astype(dtype)
        known = outcome.result.status not in ("interrupted", "partial_fit")
        finite = np.isfinite(outcome.model).all() and np.isfinite(intercept).all()
        if not finite or (known and not np.isfinite(outcome.result.primal)):
            raise ValueError(
                "the fit left the range of floating-point numbers: scale X, y, sample_weight or "
                "intercept_scaling down, or penalise more"
            )


class _NoCheckpoint:
    """Stands in for a RoundsCheckpoint where a fit has none."""

    keep = None  # `drive` has nothing to call

    def seeds(self, estimator, count):
        return estimator._seeds(count)

    def is_solved(self, k):
        return False

    def begin(self, k, solver):
        return None

    def end(self, k, model, result, kept):
        pass


NO_CHECKPOINT = _NoCheckpoint()


class _Fit:
    """One fit of an estimator: what its problems share while they are solved.

    Parameters
    ----------
    estimator, training, limits, checkpoint
        As those of `_solve`.
    n_jobs : int
        Threads.
    """

    def __init__(self, estimator, training, limits, n_jobs, checkpoint):
        self.estimator, self.training, self.limits = estimator, training, limits
        self.n_jobs, self.checkpoint = n_jobs, checkpoint
        self.planned = copy.copy(estimator)  # what a callback sets is for the next fit
        n_problems = len(training.targets)
        attributes = partial(self.planned._attributes_of, training)
        self.observers = Observers(estimator, training, n_problems, training.constant, attributes)
        self.seeds = checkpoint.seeds(estimator, n_problems)

    def solve(self, k, stop):
        """Return the Outcome of problem k; an event tells when to `stop`."""
        if stop.is_set():
            return Outcome.not_begun(self.training, self.limits)
        if self.checkpoint.is_solved(k):
            model, result, kept = self.checkpoint.solved(k, self.training.n_weights)
            return Outcome(model, result, kept=kept)
        try:
            random = RandomBits(self.seeds[k])
            solver = self.planned._solver(self.training, k, random, self.n_jobs)
            start = self.checkpoint.begin(k, solver)
        except BaseException as interrupt:
            if len(self.seeds) == 1 or isinstance(interrupt, Exception):  # no model, or an error
                raise
            return Outcome.not_begun(self.training, self.limits, interrupt)
        return self._drive(k, solver, start, stop)

    def _drive(self, k, solver, start, stop):
        """Return the Outcome of a solver, which may `start` from a state."""
        planned, training, limits = self.planned, self.training, self.limits
        model, result, errors = drive_shown(
            planned.verbose and limits.certify,  # not every block of a stream
            planned._problem_name(k),
            planned._unit,
            solver,
            limits,
            observe=self.observers.of_problem(k),
            stop=stop,
            rounded=partial(as_stored, dtype=training.dtype, constant=training.constant),
            keep=self.checkpoint.keep,
            start=start,
        )
        kept = None if training.solvers is not None else planned._keep(solver)
        if not errors:
            self.checkpoint.end(k, model, result, kept)
        return Outcome(model, result, errors, kept)


class CertifiedModel(CallbackSupportMixin, BaseEstimator):
    """What the estimators share: parameters, and the run over all problems.

    A subclass has the registry `_losses`, `_solver(training, k, random, n_jobs)`, which returns the
    solver of problem k, and `_set_model(models, training)`, which sets the attributes that predict.
    `_easier` says what else helps where a limit has ended a fit.
    What its `_keep(solver)` returns is `kept` of the outcomes.
    """

    _unit = "epochs"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self):
        check_loss(self, self._losses)
        check_intercept_scaling(self)
        check_number("tol", self.tol, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_number("max_accesses", self.max_accesses, low=1, integer=True, optional=True)
        for name in ("fit_intercept", "warm_start"):
            check_flag(name, getattr(self, name))
        check_run_parameters(self)

    def _make_loss(self):
        return self._losses[self.loss].maker(self)()

    def _limits(self):
        return Limits(self.tol, self.max_iter, self.max_accesses or np.inf)

    def _solve(self, training, limits, checkpoint=NO_CHECKPOINT):
        """Solve every problem; store the models; raise what interrupted them.

        With a RoundsCheckpoint the problems are solved one after another.
        """
        started = time.perf_counter()
        n_problems, n_jobs = len(training.targets), effective_threads(self.n_jobs)
        if isinstance(training.matrix, ComputedMatrix):  # its lines are held for one at a time
            n_jobs = 1
        note_parameters(self)
        fit = _Fit(self, training, limits, n_jobs, checkpoint)
        problems = [partial(fit.solve, k) for k in range(n_problems)]
        outcomes, errors = solve_all(problems, min(n_jobs, self._most_at_once(training)))
        if errors and n_problems > 1 and not limits.certify:
            raise errors.pop(0)  # some classes have not seen this block: none is to have seen it
        check_finite(outcomes, training.constant, training.dtype)
        self._store(outcomes, training, time.perf_counter() - started)
        fit.observers.close()
        if errors:
            raise errors.pop(0)
        self._warn_if_limited(limits)
        return self

    def _adopt(self, other, training):
        """Take over what another estimator learned of the data before solving; let it suit this."""
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

    def _most_at_once(self, training):
        """How many problems may be solved at the same time."""
        return len(training.targets)

    def _seeds(self, count):
        return seed_sequence(self.random_state).spawn(count)

    def _problem_name(self, k):
        return type(self).__name__

    def _feature_weights(self, model):
        """Return the part of a model that belongs to features and the constant."""
        return model

    def _attributes_of(self, training, models):
        """Return the attributes of an estimator with models on their way, None if it has none."""
        seen = copy.copy(self)
        seen._set_model(models, training)
        return vars(seen)

    def _store(self, outcomes, training, seconds):
        """Set the fitted attributes, `result_` last: an error before brings the old ones back."""
        self._set_model([outcome.model for outcome in outcomes], training)
        self._report(outcomes, seconds)

    def _report(self, outcomes, seconds):
        """Set what is known of the fit itself."""
        results = [outcome.result for outcome in outcomes]
        result = results[0] if len(results) == 1 else combine(results, seconds)
        self.n_iter_, self.result_ = result.n_iter, result

    def _keep(self, solver):
        return None

    def _warn_if_limited(self, limits):
        warn_if_limited(self, limits, self._easier)


def objective_parameters(estimator):
    """Return the parameters of an estimator's objective, as text."""
    parameters = estimator.get_params(deep=False)
    return repr(
        [
            # as a list, whose text has all entries
            (name, np.asarray(p).tolist() if hasattr(p, "__array__") else p)
            for name, p in parameters.items()
            if name not in NOT_OF_THE_OBJECTIVE
        ]
    )


def problem_mark(estimator, matrix, y, sample_weight, every_row=False):
    """Return a hash of what a fit minimises: parameters, targets, weights, rows of X."""
    shape = matrix.n_rows, matrix.n_columns, matrix.n_stored
    mark = zlib.crc32(f"{objective_parameters(estimator)} {shape}".encode())
    rows = np.arange(matrix.n_rows)
    if not every_row:
        rows = np.unique(np.linspace(0, matrix.n_rows - 1, MARKED_ROWS).astype(int))
    for start in range(0, len(rows), MARKED_ROWS):
        for values in _entries(matrix, rows[start : start + MARKED_ROWS]):
            mark = _marked(mark, values.astype(np.float64))  # whatever type they are stored as
    for values in (y, sample_weight):
        mark = _marked(mark, np.asarray(values))
    return mark


def _entries(matrix, rows):
    """Return the entries of some rows as arrays, sparse ones with their places."""
    if not matrix.is_sparse:
        return (matrix.arrays[0][rows],)
    some = matrix.csr()[rows].tocoo()
    return some.data, *some.coords


def _marked(mark, values):
    """Return a hash that goes on with an array."""
    plain = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
    return zlib.crc32(plain, zlib.crc32(f"{values.dtype} {values.shape}".encode(), mark))


def warn_if_limited(estimator, limits, easier, no_certificate=(SPOILT, None)):
    """Warn where a limit has ended a fit above tol; `easier` says what else might help.

    That is one thing to do, or a list with an "or". `no_certificate` is why there may be none, and
    what helps then if it is not `easier`.
    """
    result = estimator.result_
    if limits.tol == 0 or result.status not in LIMITS:
        return
    limited = [part for part in result.parts or (result,) if part.status == result.status]
    worst = max(limited, key=lambda part: part.relative_gap)
    by_rounding = result.status == "rounding"
    limit = "" if by_rounding else f"={getattr(estimator, result.status)}"
    name = f"{type(estimator).__name__} stopped at {result.status}{limit}"
    if result.parts:
        name += f" in {len(limited)} of {len(result.parts)} problems, the worst of them"
    if math.isinf(worst.gap):
        why, remedy = no_certificate
        warn(f"{name} without a certificate: {why}. Try to {remedy or easier}.")
        return
    or_ = "" if " or " in easier else "or "
    warn(
        f"{name} with a relative duality gap of {worst.relative_gap:.2e}, above "
        f"tol={estimator.tol:g}. The objective is certified to be within {worst.gap:.2e} of the "
        f"optimum. Raise {'' if by_rounding else f'{result.status} or '}tol, {or_}{easier}.",
    )
