"""Linear models: SDCAClassifier, SDCARegressor, PegasosClassifier.

All of them minimise

    alpha / 2 |w|^2 + sum_i s_i l(<w, x_i>, y_i) / sum_i s_i

and report a certificate in ``result_``: the primal value of the returned model, a dual value, and
the gap between them, which bounds how far the model is from optimal.
"""

import threading
import time
import warnings
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from sublinear._callbacks import CallbackSupportMixin, Observers, Progress, with_callbacks
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.order import SAMPLINGS
from sublinear._core.packed import packing_pays
from sublinear._core.random import RandomBits
from sublinear._drive import Limits, drive
from sublinear._result import NOT_BEGUN, Result, combine
from sublinear._solvers.minibatch_sdca import AVERAGES as DUAL_AVERAGES
from sublinear._solvers.minibatch_sdca import RULES, MiniBatchSDCA
from sublinear._solvers.pegasos import AVERAGES, Pegasos
from sublinear._solvers.sdca import SDCA
from sublinear._validation import (
    check_batch_size,
    check_choice,
    check_number,
    check_sample_weight,
    check_training_data,
    combine_weights,
    find_classes,
    margin_targets,
    seed_sequence,
)
from sublinear.theory import safe_beta, spectral_norm_of

SIGMA_MARGIN = 1.01  # power iteration approaches sigma^2 from below

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
        Threads for one-vs-rest problems; with one problem, for its certificates. None means 1, -1
        all processors. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.
    warm_start : bool, default=False
        Start the next fit from the end of this one, if the data has the same shape.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True.
"""


def _with_common_parameters(cls):
    """Fill the parameters that all estimators share into the docstring."""
    if cls.__doc__:
        cls.__doc__ = cls.__doc__.replace("%(common)s", _COMMON_PARAMETERS.rstrip())
    return cls


@dataclass
class _Outcome:
    """What became of one binary or regression problem."""

    model: np.ndarray
    result: Result
    error: BaseException | None = None
    kept: object = None  # of the solver, for the next start


def _solve_all(problems, n_threads):
    """Call every problem with one stop event, in threads.

    Ctrl-C, or an error in one of them, makes the others stop at once with what they have.

    Returns
    -------
    outcomes : list of _Outcome
    error : BaseException or None
        The first of them, or what interrupted the wait for them.
    """
    stop = threading.Event()
    errors = []

    def guarded(problem):
        outcome = problem(stop)
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


class _LinearModel(CallbackSupportMixin, BaseEstimator):
    """What the estimators share: parameters, the run over all problems, fitted attributes."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self):
        check_choice("loss", self.loss, self._losses)
        check_number("alpha", self.alpha, low=0, open_low=True)
        check_number("intercept_scaling", self.intercept_scaling, low=0, open_low=True)
        check_number("tol", self.tol, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        if self.max_accesses is not None:
            check_number("max_accesses", self.max_accesses, low=1, integer=True)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable or None, got {self.callback!r}")
        for name in self._losses[self.loss].parameters:
            check_number(name, getattr(self, name), low=0, open_low=name != "epsilon")

    def _make_loss(self):
        entry = self._losses[self.loss]
        return entry.loss(*(getattr(self, name) for name in entry.parameters))

    def _penalizes_intercept(self):
        return True

    def _constant(self, X):
        """The value of the constant column."""
        return self.intercept_scaling if self.fit_intercept else 0.0

    def _limits(self):
        return Limits(self.tol, self.max_iter, self.max_accesses or np.inf)

    def _run(self, X, y, targets, weights, limits, metadata=None):
        """Solve one problem per function in `targets`; store the models; raise what interrupted.

        Parameters
        ----------
        targets : list of callables
            Each returns the targets of a problem: they are made when their turn comes.
        """
        started = time.perf_counter()
        matrix = Matrix(X, constant=self._constant(X))
        n_jobs = effective_n_jobs(self.n_jobs)
        observers = Observers(
            self, X, y, metadata, len(targets), matrix.constant, self._attributes_of_one
        )
        seeds = self._seeds(len(targets))

        def problem(k, stop):
            if stop.is_set():
                return _Outcome(np.zeros(matrix.n_weights), NOT_BEGUN)
            objective = Objective(
                matrix,
                targets[k](),
                self._make_loss(),
                self.alpha,
                weights,
                n_jobs if len(targets) == 1 else 1,
                not self._penalizes_intercept(),
            )
            solver = self._make_solver(objective, RandomBits(seeds[k]), k)
            progress = Progress(self._problem_name(k), limits) if self.verbose else None
            model, result, error = drive(
                solver,
                limits,
                observe=_with_progress(observers.of_problem(k), progress),
                tick=progress and progress.tick,
                stop=stop,
                dtype=matrix.dtype,
            )
            if progress:
                progress.close()
            return _Outcome(model, result, error, self._keep(solver))

        problems = [lambda stop, k=k: problem(k, stop) for k in range(len(targets))]
        outcomes, error = _solve_all(problems, min(n_jobs, len(targets)))
        self._store(outcomes, matrix, time.perf_counter() - started)
        observers.close()
        if error is not None:
            raise error
        self._warn_if_limited(limits)
        return self

    def _seeds(self, count):
        return seed_sequence(self.random_state).spawn(count)

    def _problem_name(self, k):
        return type(self).__name__

    def _store(self, outcomes, matrix, seconds):
        """Set the fitted attributes."""
        models = [outcome.model for outcome in outcomes]
        self.coef_, self.intercept_ = self._coefficients(models, matrix.constant, matrix.dtype)
        results = [outcome.result for outcome in outcomes]
        self.result_ = results[0] if len(results) == 1 else combine(results, seconds)
        self.n_iter_ = self.result_.n_iter

    def _coefficients(self, models, constant, dtype):
        """Split models into coef (n_problems, n_features) and intercept (n_problems,)."""
        stacked = models[0][np.newaxis] if len(models) == 1 else np.stack(models)
        stacked = stacked.astype(dtype, copy=False)
        if not self.fit_intercept:
            return stacked, np.zeros(len(models), dtype=dtype)
        return stacked[:, :-1], stacked[:, -1] * dtype.type(constant)

    def _attributes_of_one(self, class_index, model, constant):
        """Fitted attributes of a model on its way, None where one problem is not the whole."""
        return None

    def _warn_if_limited(self, limits):
        result = self.result_
        if limits.tol == 0 or result.status not in ("max_iter", "max_accesses"):
            return
        warnings.warn(
            f"{type(self).__name__} stopped at {result.status}={getattr(self, result.status)} "
            f"with a relative duality gap of {result.relative_gap:.2e}, above "
            f"tol={self.tol:g}. The objective is certified to be within {result.gap:.2e} of the "
            f"optimum. Raise {result.status} or tol, scale the features, or raise alpha.",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _scores(self, X):
        """Return <x_i, coef> + intercept for every row and problem."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
        )
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_


def _with_progress(observe, progress):
    """Let the progress display see what `observe` sees."""
    if progress is None:
        return observe

    def both(row, model):
        progress.certificate(row)
        return observe(row, model)

    return both


class _LinearClassifier(ClassifierMixin, _LinearModel):
    """One-vs-rest over binary problems with targets +1 and -1."""

    _losses = MARGIN_LOSSES

    def _run_classes(self, X, y, sample_weight, limits):
        """Solve a binary problem, or one per class."""
        weights = combine_weights(
            self.class_weight, self.classes_, y, check_sample_weight(sample_weight, X)
        )
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        targets = [lambda label=label: margin_targets(y, label) for label in positive]
        return self._run(X, y, targets, weights, limits, _metadata(sample_weight))

    def _problem_name(self, k):
        name = super()._problem_name(k)
        return name if len(self.classes_) == 2 else f"{name}, class {self.classes_[k]}"

    def _attributes_of_one(self, class_index, model, constant):
        if len(self.classes_) > 2:
            return None
        coef, intercept = self._coefficients([model], constant, model.dtype)
        return {"coef_": coef, "intercept_": intercept, "classes_": self.classes_}

    def decision_function(self, X):
        """Return <x_i, coef> + intercept.

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

    @available_if(lambda self: self.loss == "logistic")
    def predict_proba(self, X):
        """Return class probabilities; only with loss="logistic".

        With more than two classes the one-vs-rest probabilities are divided by their sum.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        probabilities = expit(self.decision_function(X))
        if probabilities.ndim == 1:
            return np.column_stack([1 - probabilities, probabilities])
        total = probabilities.sum(axis=1, keepdims=True)
        return np.where(
            total > 0, probabilities / np.where(total > 0, total, 1), 1 / probabilities.shape[1]
        )


def _metadata(sample_weight):
    """What scikit-learn's callbacks get besides X and y."""
    return None if sample_weight is None else {"sample_weight": sample_weight}


class _DualModel(_LinearModel):
    """Estimators whose solver keeps one dual variable per example."""

    def _make_solver(self, objective, random, k):
        duals = self._starting_duals(objective, k)
        if self.batch_size == 1:
            pack = packing_pays(objective.matrix) if self.pack == "auto" else self.pack
            return SDCA(objective, random, duals, pack)
        n_rows = objective.matrix.n_rows
        check_batch_size(self.batch_size, n_rows)
        return MiniBatchSDCA(
            objective,
            random,
            batch_size=n_rows if self.batch_size == "all" else self.batch_size,
            rule=self.batch_rule,
            beta=self._safe_beta(objective.matrix),
            gamma=self.gamma,
            average=self.average,
            duals=duals,
        )

    def _penalizes_intercept(self):
        return self.penalize_intercept

    def _constant(self, X):
        if self.penalize_intercept or not self.fit_intercept:
            return super()._constant(X)
        # it only sets the pace of the intercept: that of the other columns together
        return float(np.sqrt(Matrix(X).squared_norms().mean())) or 1.0

    def _safe_beta(self, matrix):
        n_rows = matrix.n_rows
        batch_size = n_rows if self.batch_size == "all" else self.batch_size
        if self.batch_rule == "naive":
            return 1.0
        sigma_squared = self.sigma_squared
        if sigma_squared is None:
            sigma_squared = min(1.0, SIGMA_MARGIN * spectral_norm_of(matrix))
        return safe_beta(n_rows, batch_size, sigma_squared)

    def _check_parameters(self):
        super()._check_parameters()
        if self.pack != "auto" and not isinstance(self.pack, (bool, np.bool_)):
            raise ValueError(f'pack must be True, False or "auto", got {self.pack!r}')
        if self.batch_size != "all":
            check_number("batch_size", self.batch_size, low=1, integer=True)
        if not self.penalize_intercept and self.fit_intercept and self.batch_size != 1:
            raise ValueError("penalize_intercept=False needs batch_size=1")
        check_choice("batch_rule", self.batch_rule, RULES)
        check_choice("average", self.average, DUAL_AVERAGES)
        check_number("gamma", self.gamma, low=0, high=1)
        if self.sigma_squared is not None:
            check_number("sigma_squared", self.sigma_squared, low=0, high=1, open_low=True)

    def _starting_duals(self, objective, k):
        """The duals of the last fit, if they can serve as a start."""
        duals = getattr(self, "dual_coef_", None)
        if not self.warm_start or duals is None:
            return None
        duals = np.atleast_2d(duals)
        if duals.shape[1] != objective.matrix.n_rows or k >= len(duals):
            return None
        return duals[k]

    def _store(self, outcomes, matrix, seconds):
        super()._store(outcomes, matrix, seconds)
        duals = [
            np.zeros(matrix.n_rows) if outcome.kept is None else outcome.kept
            for outcome in outcomes
        ]
        self.dual_coef_ = duals[0][np.newaxis] if len(duals) == 1 else np.stack(duals)

    def _keep(self, solver):
        return solver.release_duals()


@_with_common_parameters
class SDCAClassifier(_DualModel, _LinearClassifier):
    """Linear classification by stochastic dual coordinate ascent, with a duality gap.

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss. Needs no step size, and is the solver
    to begin with: it reaches small gaps fast and certifies them.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge", "logistic"}, default="hinge"
        With m = y (<w, x> + intercept), y = +1 or -1: max(0, 1 - m); its square; the hinge rounded
        off over [1 - smoothing, 1]; log(1 + exp(-m)).
    %(common)s
    penalize_intercept : bool, default=True
        False: the objective holds alpha / 2 |coef|^2 alone, and `intercept_scaling` has no effect.
        Certificates then cost two passes, and more epochs may be needed.
    pack : bool or "auto", default="auto"
        Work on a copy of sparse rows in which all that a step reads lies together: 8 bytes per
        stored entry and about 50 per row, and several times faster where the data exceeds the
        cache. "auto": for sparse data that is not memory-mapped, if the copy takes less than half
        of the free memory. False: no copy. Batches do not use it.
    batch_size : int or "all", default=1
        Examples per iteration. More than 1 is for study, and for machines with many cores: see
        `batch_speedup` for what it can save.
    batch_rule : {"safe", "aggressive", "naive"}, default="safe"
        How much shorter than single steps those of a batch are: by beta_b, which the spectral norm
        of X yields; by what adapts to the batches seen; not at all, which may diverge.
    gamma : float, default=0.95
        How slowly batch_rule="aggressive" adapts, from 0 to 1.
    sigma_squared : float, default=None
        sigma^2 for beta_b, from 1 / n_samples to 1; None computes `spectral_norm_squared` of the
        data, the constant feature included. The aggressive rule needs only a crude bound.
    average : {"last", "tail", "decaying"}, default="last"
        With batches: return the last iterate, the mean since at most half of the epochs (Theorem 2
        of the paper), or the decaying mean of its experiments.
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_coef_ : ndarray of shape (1, n_samples) or (n_classes, n_samples), float64
        The dual variables behind the certificate. Examples whose dual is not 0 are the support
        vectors of w = sum_i sample_weight_i dual_coef_i x_i / (alpha sum(sample_weight)), which
        `coef_` equals or improves on.
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    result_ : Result

    See Also
    --------
    PegasosClassifier : primal sub-gradient descent on the same objective.

    References
    ----------
    Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs", ICML 2013,
    section 4. Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent methods for
    regularized loss minimization", JMLR 14, 2013.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import SDCAClassifier
    >>> X, y = make_classification(random_state=0)
    >>> model = SDCAClassifier(alpha=0.01, random_state=0).fit(X, y)
    >>> bool(model.result_.relative_gap <= 1e-3)
    True
    """

    def __init__(
        self,
        loss="hinge",
        *,
        alpha=1e-4,
        smoothing=1.0,
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        penalize_intercept=True,
        pack="auto",
        batch_size=1,
        batch_rule="safe",
        gamma=0.95,
        sigma_squared=None,
        average="last",
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.alpha = alpha
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.penalize_intercept = penalize_intercept
        self.pack = pack
        self.batch_size = batch_size
        self.batch_rule = batch_rule
        self.gamma = gamma
        self.sigma_squared = sigma_squared
        self.average = average
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is; other types are converted.
        y : array-like of shape (n_samples,)
            Labels; with more than two classes, one-vs-rest.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

        Returns
        -------
        self : SDCAClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y)
        self.classes_ = find_classes(y)
        return self._run_classes(X, y, sample_weight, self._limits())


@_with_common_parameters
class SDCARegressor(RegressorMixin, _DualModel):
    """Linear regression by stochastic dual coordinate ascent, with a duality gap.

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss: ridge regression, least absolute
    deviations, support vector regression or Huber regression.

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber"}, default="squared"
        With r = <w, x> + intercept - y: r^2 / 2; |r|; max(0, |r| - epsilon); r^2 / 2 up to
        |r| = epsilon and epsilon (|r| - epsilon / 2) beyond.
    %(common)s
    penalize_intercept : bool, default=True
        False: the objective holds alpha / 2 |coef|^2 alone, and `intercept_scaling` has no effect.
        Certificates then cost two passes, and more epochs may be needed.
    pack : bool or "auto", default="auto"
        Work on a copy of sparse rows in which all that a step reads lies together: 8 bytes per
        stored entry and about 50 per row, and several times faster where the data exceeds the
        cache. "auto": for sparse data that is not memory-mapped, if the copy takes less than half
        of the free memory. False: no copy. Batches do not use it.
    batch_size : int or "all", default=1
        Examples per iteration. More than 1 is for study, and for machines with many cores: see
        `batch_speedup` for what it can save.
    batch_rule : {"safe", "aggressive", "naive"}, default="safe"
        How much shorter than single steps those of a batch are: by beta_b, which the spectral norm
        of X yields; by what adapts to the batches seen; not at all, which may diverge.
    gamma : float, default=0.95
        How slowly batch_rule="aggressive" adapts, from 0 to 1.
    sigma_squared : float, default=None
        sigma^2 for beta_b, from 1 / n_samples to 1; None computes `spectral_norm_squared` of the
        data, the constant feature included. The aggressive rule needs only a crude bound.
    average : {"last", "tail", "decaying"}, default="last"
        With batches: return the last iterate, the mean since at most half of the epochs (Theorem 2
        of the paper), or the decaying mean of its experiments.
    epsilon : float, default=0.1
        Width of the insensitive or quadratic zone, in the units of y.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Of the dtype of X.
    intercept_ : float
    dual_coef_ : ndarray of shape (n_samples,), float64
        The dual variables behind the certificate, as in SDCAClassifier.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    result_ : Result

    References
    ----------
    Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent methods for regularized loss
    minimization", JMLR 14, 2013.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear import SDCARegressor
    >>> X, y = make_regression(random_state=0)
    >>> SDCARegressor(alpha=0.1, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _losses = REGRESSION_LOSSES

    def __init__(
        self,
        loss="squared",
        *,
        alpha=1e-4,
        epsilon=0.1,
        fit_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        penalize_intercept=True,
        pack="auto",
        batch_size=1,
        batch_rule="safe",
        gamma=0.95,
        sigma_squared=None,
        average="last",
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.alpha = alpha
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.penalize_intercept = penalize_intercept
        self.pack = pack
        self.batch_size = batch_size
        self.batch_rule = batch_rule
        self.gamma = gamma
        self.sigma_squared = sigma_squared
        self.average = average
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is; other types are converted.
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

        Returns
        -------
        self : SDCARegressor

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y, y_numeric=True)
        targets = np.ascontiguousarray(y, dtype=np.float64)
        weights = check_sample_weight(sample_weight, X)
        return self._run(X, y, [lambda: targets], weights, self._limits(), _metadata(sample_weight))

    def _store(self, outcomes, matrix, seconds):
        super()._store(outcomes, matrix, seconds)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        self.dual_coef_ = self.dual_coef_[0]

    def _attributes_of_one(self, class_index, model, constant):
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


@_with_common_parameters
class PegasosClassifier(_LinearClassifier):
    """Linear classification by Pegasos: stochastic sub-gradient descent with steps 1 / (alpha t).

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss. The cost of a given accuracy does not
    depend on the number of examples; for small gaps SDCAClassifier is faster.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "logistic"}, default="hinge"
        As in SDCAClassifier; those with bounded derivatives, which its step sizes need.
    %(common)s
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    batch_size : int or "all", default=1
        Examples per step; "all" makes it a sub-gradient method without randomness.
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
        A new permutation of the examples for every epoch; one permutation for all; independent
        draws; an independent subset for every batch. The first two take fewer epochs.
    projection : bool, default=False
        Project w onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    average : {"tail", "mean", "last"}, default="tail"
        Which iterates the model is the mean of: those since step 2^k, the largest power of two that
        is at most half the number of steps; all of them; the last one alone.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    result_ : Result
        After `partial_fit` its gap is unknown (inf).

    See Also
    --------
    SDCAClassifier : dual coordinate ascent on the same objective.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, Figures 1 and 2. The tail average: Takac, Bijral, Richtarik,
    Srebro, "Mini-batch primal and dual methods for SVMs", ICML 2013, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import PegasosClassifier
    >>> X, y = make_classification(random_state=0)
    >>> model = PegasosClassifier(alpha=0.1, tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    """

    _losses = {name: entry for name, entry in MARGIN_LOSSES.items() if entry.lipschitz}

    def __init__(
        self,
        loss="hinge",
        *,
        alpha=1e-4,
        smoothing=1.0,
        batch_size=1,
        sampling="shuffle",
        projection=False,
        average="tail",
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.alpha = alpha
        self.smoothing = smoothing
        self.batch_size = batch_size
        self.sampling = sampling
        self.projection = projection
        self.average = average
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_choice("average", self.average, AVERAGES)
        if self.batch_size != "all":
            check_number("batch_size", self.batch_size, low=1, integer=True)

    def _make_solver(self, objective, random, k):
        n_rows = objective.matrix.n_rows
        solver = Pegasos(
            objective,
            random,
            sampling=self.sampling,
            batch_size=n_rows if self.batch_size == "all" else self.batch_size,
            projection=self.projection,
            average=self.average,
        )
        if self._states is not None and self._states[k] is not None:
            solver.resume(self._states[k])
        return solver

    def _store(self, outcomes, matrix, seconds):
        super()._store(outcomes, matrix, seconds)
        self._states = [outcome.kept for outcome in outcomes]

    def _keep(self, solver):
        return solver.state()

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is; other types are converted.
        y : array-like of shape (n_samples,)
            Labels; with more than two classes, one-vs-rest.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

        Returns
        -------
        self : PegasosClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y)
        check_batch_size(self.batch_size, X.shape[0])
        classes = find_classes(y)
        if not self._can_resume(classes, X.shape[1]):
            self._states = None
        self._stream_seeds = None
        self.classes_ = classes
        return self._run_classes(X, y, sample_weight, self._limits())

    def _can_resume(self, classes, n_features):
        return (
            self.warm_start
            and getattr(self, "_states", None) is not None
            and np.array_equal(classes, self.classes_)
            and self.coef_.shape[1] == n_features
        )

    @with_callbacks
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Take one epoch over a batch of examples, going on from the present model.

        Step sizes go on falling as 1 / (alpha t) over all calls: the model minimises the objective
        over the stream of examples. No certificate is computed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : PegasosClassifier
        """
        self._check_parameters()
        first = getattr(self, "_states", None) is None
        X, y = check_training_data(self, X, y, reset=first)
        check_batch_size(self.batch_size, X.shape[0])
        self._set_stream_classes(y, classes, first)
        if first:
            self._states = None
        return self._run_classes(X, y, sample_weight, Limits(0, 1, certify=False))

    def _set_stream_classes(self, y, classes, first):
        if classes is None and first:
            raise ValueError("the first call of partial_fit needs classes: all labels to come")
        if classes is not None:
            classes = find_classes(np.asarray(classes))
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes differ from those of the first call, {self.classes_.tolist()}"
                )
            self.classes_ = classes
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(
                f"y holds labels that are not among the classes {self.classes_.tolist()}: "
                f"{unknown.tolist()}"
            )
        if getattr(self, "_stream_seeds", None) is None:
            self._stream_seeds = seed_sequence(self.random_state)

    def _seeds(self, count):
        stream = getattr(self, "_stream_seeds", None)
        return super()._seeds(count) if stream is None else stream.spawn(count)
