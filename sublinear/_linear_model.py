"""What estimators share: the fit of all problems, one-vs-rest; and what linear models share."""

import copy
import math
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sublinear._callbacks import CallbackSupportMixin, Observers, drive_shown
from sublinear._core.computed import ComputedMatrix
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._drive import Limits, as_stored
from sublinear._result import Result, combine, not_begun
from sublinear._threads import effective_threads
from sublinear._validation import (
    check_choice,
    check_flag,
    check_number,
    check_rows,
    check_run_parameters,
    check_sample_weight,
    combine_weights,
    has_matrix,
    margin_targets,
    positive_classes,
    seed_sequence,
)
from sublinear._warnings import warn

_COMMON_PARAMETERS = """\
alpha : float, default=1e-4
        Strength of the penalty alpha / 2 |w|^2; the lambda of the papers.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row. Its weight is
        penalised like the others: the objective holds
        alpha / 2 (|coef|^2 + (intercept / intercept_scaling)^2).
    intercept_scaling : float, default=1.0
        Value of the constant feature; the larger, the less the intercept is penalised.
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on epochs. An epoch looks at as many examples as there are.
    max_accesses : int, default=None
        Limit on feature values read by the solver of each binary problem, never exceeded. What
        certificates read is counted apart.
    n_jobs : int, default=None
        Threads: over one-vs-rest problems, or inside a single one. None means 1, -1 all
        processors. The result does not depend on them, but for one large problem of an SDCA
        estimator: there two threads share the steps, by a fixed schedule whose result is another
        one than that of one thread, and the same for any number above 1.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.
    warm_start : bool, default=False
        Start the next fit from the end of this one, if the data has the same shape.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True.
"""


def with_parameters(**parts):
    """Return a decorator that fills %(common)s, and other parts, into a class's docstring."""
    parts = {"common": _COMMON_PARAMETERS} | parts

    def decorate(cls):
        for name, text in parts.items():
            if cls.__doc__:
                cls.__doc__ = cls.__doc__.replace(f"%({name})s", text.rstrip())
        return cls

    return decorate


@dataclass
class Outcome:
    """What became of one binary or regression problem."""

    model: np.ndarray
    result: Result
    error: BaseException | None = None
    kept: object = None  # of the solver, for the next start


def solve_all(problems, n_threads):
    """Call every problem with one stop event, in threads.

    Ctrl-C, or an error in one of them, makes the others stop at once with what they have.

    Returns
    -------
    outcomes : list of Outcome
    error : BaseException or None
        The first of them, or what interrupted the wait for them.
    """
    stop = threading.Event()
    errors = []

    def guarded(problem):
        try:
            outcome = problem(stop)
        except BaseException:
            stop.set()
            raise
        if outcome.error is not None:
            errors.append(outcome.error)
            stop.set()
        return outcome

    if n_threads == 1 or len(problems) == 1:
        outcomes = [guarded(problem) for problem in problems]
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            futures = [pool.submit(guarded, problem) for problem in problems]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt as interrupt:
                errors.insert(0, interrupt)
                stop.set()
            outcomes = [future.result() for future in futures]
    return outcomes, errors[0] if errors else None


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
    given : GivenRows or None
        Where rows without weight are left out.
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
        return self.matrix.dtype


def as_matrix(X, constant=0.0, n_threads=1):
    """Return the Matrix of checked data, of a store or of an oracle."""
    return X.matrix(constant) if has_matrix(X) else Matrix(X, constant, n_threads=n_threads)


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


class CertifiedModel(CallbackSupportMixin, BaseEstimator):
    """What the estimators share: parameters, and the run over all problems.

    A subclass has the registry `_losses`, `_solver(training, k, random, n_jobs)`, which returns the
    solver of problem k, and `_store(outcomes, training, seconds)`, which sets fitted attributes.
    """

    _unit = "epochs"
    _easier = "scale the features, or raise alpha"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self):
        check_choice("loss", self.loss, self._losses)
        check_number("intercept_scaling", self.intercept_scaling, low=0, open_low=True)
        check_number("tol", self.tol, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        if self.max_accesses is not None:
            check_number("max_accesses", self.max_accesses, low=1, integer=True)
        for name in ("fit_intercept", "warm_start"):
            check_flag(name, getattr(self, name))
        check_run_parameters(self)
        for name in self._losses[self.loss].parameters:
            check_number(name, getattr(self, name), low=0, open_low=name != "epsilon")

    def _make_loss(self):
        entry = self._losses[self.loss]
        return entry.loss(*(getattr(self, name) for name in entry.parameters))

    def _limits(self):
        return Limits(self.tol, self.max_iter, self.max_accesses or np.inf)

    def _solve(self, training, limits, checkpoint=None):
        """Solve every problem; store the models; raise what interrupted them.

        A `checkpoint` is a RoundsCheckpoint or the like; the problems are solved one after another.
        """
        started = time.perf_counter()
        n_problems, constant = len(training.targets), training.constant
        n_jobs = effective_threads(self.n_jobs)
        if isinstance(training.matrix, ComputedMatrix):  # its lines are held for one at a time
            n_jobs = 1
        planned = copy.copy(self)  # what a callback sets is for the next fit
        observers = Observers(self, training, n_problems, constant, self._attributes_of_one)
        seeds = self._seeds(n_problems)
        if checkpoint:
            seeds = checkpoint.seeds(seed_sequence(self.random_state), n_problems)

        def problem(k, stop):
            if stop.is_set():
                return Outcome(np.zeros(training.n_weights), not_begun(limits.maximise))
            if checkpoint and checkpoint.is_solved(k):
                model, result, kept = checkpoint.solved(k)
                return Outcome(model, result, kept=kept)
            try:
                solver = planned._solver(training, k, RandomBits(seeds[k]), n_jobs)
                start = checkpoint and checkpoint.begin(solver)
            except KeyboardInterrupt as interrupt:
                if n_problems == 1:  # no model
                    raise
                unknown = not_begun(limits.maximise)
                return Outcome(np.zeros(training.n_weights), unknown, interrupt)
            model, result, error = drive_shown(
                self.verbose and limits.certify,  # not every block of a stream
                self._problem_name(k),
                self._unit,
                solver,
                limits,
                observe=observers.of_problem(k),
                stop=stop,
                rounded=partial(as_stored, dtype=training.dtype, constant=constant),
                keep=checkpoint and checkpoint.keep,
                start=start,
            )
            kept = None if training.solvers is not None else self._keep(solver)
            if checkpoint and error is None:
                checkpoint.end(k, model, result, kept)
            return Outcome(model, result, error, kept)

        problems = [lambda stop, k=k: problem(k, stop) for k in range(n_problems)]
        outcomes, error = solve_all(problems, min(n_jobs, self._most_at_once(training)))
        if error is not None and n_problems > 1 and not limits.certify:
            raise error  # some classes have not seen this block: none is to have seen it
        check_finite(outcomes, constant, training.dtype)
        self._store(outcomes, training, time.perf_counter() - started)
        observers.close()
        if error is not None:
            raise error
        self._warn_if_limited(limits)
        return self

    def _adopt(self, other):
        """Take over what another estimator learned of the same data before solving."""
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

    def _attributes_of_one(self, model, constant):
        """Fitted attributes of a model on its way, None where one problem is not the whole."""
        return None

    def _report(self, outcomes, seconds):
        """Set what is known of the fit itself."""
        results = [outcome.result for outcome in outcomes]
        self.result_ = results[0] if len(results) == 1 else combine(results, seconds)
        self.n_iter_ = self.result_.n_iter

    def _warn_if_limited(self, limits):
        result = self.result_
        if limits.tol == 0 or result.status not in ("max_iter", "max_accesses", "rounding"):
            return
        limited = [part for part in result.parts or (result,) if part.status == result.status]
        worst = max(limited, key=lambda part: part.relative_gap)
        by_rounding = result.status == "rounding"
        limit = "" if by_rounding else f"={getattr(self, result.status)}"
        name = f"{type(self).__name__} stopped at {result.status}{limit}"
        if result.parts:
            name += f" in {len(limited)} of {len(result.parts)} problems, the worst of them"
        if math.isinf(worst.gap):
            warn(
                f"{name} without a certificate: rounding has spoilt the dual value, since numbers "
                f"are too large, too small or too far apart. Try to {self._easier}."
            )
            return
        warn(
            f"{name} with a relative duality gap of {worst.relative_gap:.2e}, above "
            f"tol={self.tol:g}. The objective is certified to be within {worst.gap:.2e} of the "
            f"optimum. Raise {'' if by_rounding else f'{result.status} or '}tol, {self._easier}.",
        )


class LinearModel(CertifiedModel):
    """What linear models share: the penalty, their data, coefficients and intercept."""

    _takes_stores = True  # whether X may be one, or an oracle
    _asks_for_lines = False  # whether the solver can work with computed lines

    def _check_parameters(self):
        super()._check_parameters()
        check_number("alpha", self.alpha, low=0, open_low=True)

    def _penalizes_intercept(self):
        return True

    def _packs(self):
        """Tell whether to copy sparse rows into records; no fit measured is faster for it."""
        return self.pack != "auto" and bool(self.pack)

    def _constant(self, X):
        """The value of the constant column."""
        return self.intercept_scaling if self.fit_intercept else 0.0

    def _training(self, X, y, targets, weights, sample_weight):
        """Return the Training for checked data."""
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        matrix = as_matrix(X, self._constant(X), effective_threads(self.n_jobs))
        if isinstance(matrix, ComputedMatrix) and not self._asks_for_lines:
            raise ValueError(
                f"{type(self).__name__} does not take a FeatureOracle: it reads every row; "
                "SIMBAClassifier and SublinearPerceptron ask for single rows and columns"
            )
        return Training(X, y, metadata, matrix, targets, weights)

    def _solver(self, training, k, random, n_jobs):
        """Return the solver of problem k, a new one unless one is there to go on from."""
        if training.solvers is not None and k in training.solvers:
            training.solvers[k].restart(self.alpha)
            return training.solvers[k]
        objective = self._make_objective(training, k, n_jobs)
        solver = self._make_solver(objective, random, k)
        if training.solvers is not None:
            training.solvers[k] = solver
        return solver

    def _make_objective(self, training, k, n_jobs):
        return Objective(
            training.matrix,
            training.targets[k](),
            self._make_loss(),
            self.alpha,
            training.weights,
            n_jobs if len(training.targets) == 1 else 1,
            not self._penalizes_intercept(),
        )

    def _store(self, outcomes, training, seconds):
        """Set the fitted attributes."""
        matrix = training.matrix
        models = [outcome.model for outcome in outcomes]
        self.coef_, self.intercept_ = self._coefficients(models, matrix.constant, matrix.dtype)
        self._report(outcomes, seconds)

    def _coefficients(self, models, constant, dtype):
        """Split models into coef (n_problems, n_features) and intercept (n_problems,)."""
        stacked = models[0][np.newaxis] if len(models) == 1 else np.stack(models)
        stacked = stacked.astype(dtype, copy=False)
        if constant == 0:
            return stacked, np.zeros(len(models), dtype=dtype)
        intercept = np.array([model[-1] * constant for model in models])
        return stacked[:, :-1], intercept.astype(dtype)

    def _scores(self, X):
        """Return <x_i, coef> + intercept for every row and problem."""
        check_is_fitted(self)
        X = check_rows(self, X)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_


class OneVsRestMixin(ClassifierMixin):
    """One-vs-rest over binary problems with targets +1 and -1."""

    _losses = MARGIN_LOSSES

    def _class_training(self, X, y, sample_weight):
        """Return the Training of a binary problem, or of one per class."""
        weights = combine_weights(
            self.class_weight, self.classes_, y, check_sample_weight(sample_weight, X)
        )
        return self._training(X, y, self._targets(y), weights, sample_weight)

    def _targets(self, y):
        """Return a function for each problem, which makes its targets."""
        if y.dtype == np.float64 and np.array_equal(self.classes_, [-1, 1]):
            return [lambda: np.ascontiguousarray(y)]  # they are targets
        labels = positive_classes(self.classes_)
        return [lambda label=label: margin_targets(y, label) for label in labels]

    def _problem_name(self, k):
        name = super()._problem_name(k)
        return name if len(self.classes_) == 2 else f"{name}, class {self.classes_[k]}"

    def decision_function(self, X):
        """Return the score of every example.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Binary: positive means ``classes_[1]``. Else one column per class.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Return the label with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]


class LinearRegressor(RegressorMixin, LinearModel):
    """One problem whose targets are numbers."""

    _losses = REGRESSION_LOSSES

    def _number_training(self, X, y, sample_weight):
        """Return the Training of the problem."""
        targets = np.ascontiguousarray(y, dtype=np.float64)
        weights = check_sample_weight(sample_weight, X)
        return self._training(X, y, [lambda: targets], weights, sample_weight)

    def _store(self, outcomes, training, seconds):
        super()._store(outcomes, training, seconds)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def _attributes_of_one(self, model, constant):
        coef, intercept = self._coefficients([model], constant, model.dtype)
        return {"coef_": coef[0], "intercept_": intercept[0]}

    def predict(self, X):
        """Return <x_i, coef> + intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return self._scores(X)


def has_probabilities(model):
    """Raise AttributeError, which tells what to do, unless the loss is one of probabilities."""
    if model.loss != "logistic":
        raise AttributeError(
            f'predict_proba needs loss="logistic", and this {type(model).__name__} has '
            f"loss={model.loss!r}: fit it with that, or wrap it in "
            "sklearn.calibration.CalibratedClassifierCV"
        )
    return True


class ProbabilityMixin:
    """Class probabilities of models with logistic loss, from their scores."""

    @available_if(has_probabilities)
    def predict_proba(self, X):
        """Return class probabilities; only with loss="logistic".

        Where there is one model for each of more than two classes, their probabilities are divided
        by their sum; a model of all classes at once has a softmax.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1 - positive, positive])
        return self._probabilities(scores)

    def _probabilities(self, scores):
        """Return probabilities from the scores of more than two classes."""
        probabilities = expit(scores)
        total = probabilities.sum(axis=1, keepdims=True)
        return np.where(
            total > 0, probabilities / np.where(total > 0, total, 1), 1 / probabilities.shape[1]
        )


class LinearClassifier(ProbabilityMixin, OneVsRestMixin, LinearModel):
    """One-vs-rest over linear models."""

    def _attributes_of_one(self, model, constant):
        if len(self.classes_) > 2:
            return None
        coef, intercept = self._coefficients([model], constant, model.dtype)
        return {"coef_": coef, "intercept_": intercept, "classes_": self.classes_}
