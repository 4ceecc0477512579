"""Linear models by dual coordinate ascent: SDCAClassifier and SDCARegressor.

Both minimise

    alpha / 2 |w|^2 + sum_i s_i l(<w, x_i>, y_i) / sum_i s_i

and report a certificate in ``result_``: the primal value of the returned model, a dual value, and
the gap between them, which bounds how far the model is from optimal.
"""

import math
from functools import partial

import numpy as np
from sklearn.base import is_regressor

from sublinear._core.constant_column import RowSample, column_constant, length_of_mean, short_length
from sublinear._core.starting_intercept import spread_of, starting_intercept
from sublinear._documentation import with_parameters
from sublinear._fit_method import fit_method
from sublinear._labels import find_classes
from sublinear._linear_model import (
    COMMON_PARAMETERS,
    LinearClassifier,
    LinearModel,
    LinearRegressor,
    duals_of_last_fit,
)
from sublinear._second_order import is_foretold, least_passes, linear_spaces
from sublinear._solvers.finisher import Finisher
from sublinear._solvers.minibatch_sdca import AVERAGES as DUAL_AVERAGES
from sublinear._solvers.minibatch_sdca import RULES, MiniBatchSDCA
from sublinear._solvers.sdca import SDCA
from sublinear._solvers.two_threads import thread_schedule
from sublinear._streamed_sdca.fit import DualStreamFit
from sublinear._threads import asked_threads, effective_threads
from sublinear._validation import (
    as_matrix,
    check_batch_fits,
    check_batch_size,
    check_choice,
    check_flag,
    check_number,
    check_training_data,
    examples_of_batch,
)
from sublinear._warnings import warn
from sublinear.theory import safe_beta, spectral_norm_of

ENOUGH_ROWS = 2**16  # whose lengths foretell how long steps on single duals will take
MOST_TIMES = 16.0  # that the column of an intercept is as long as it had better be
SIGMA_MARGIN = 1.02  # the Lanczos method approaches sigma^2 from below
SIGMA_TOL = 0.003


_DUAL_PARAMETERS = """\
penalize_intercept : bool, default=True
        False: the objective holds alpha / 2 |coef|^2 alone, and `intercept_scaling` has no effect.
        Of several intercepts that are best, `intercept_` is the middle one, once the dual variables
        tell. Only with batch_size=1.
    second_order : bool or "auto", default="auto"
        Whether to go over from steps on single duals to an interior point method on all of them, or
        to Newton's. "auto": where more is left for steps, at their pace, than that is expected to
        take, which happens where columns have very different scales, rows lie far from the origin,
        or alpha is small; from the start for least squares of few columns, and with the squared and
        the logistic loss where lengths of rows foretell slow steps. True: after the first epoch at
        the latest; False: never. It needs at most 2048 weights or at most 2048 rows, or up to 4096
        if X stores as many values as the square of that number. For the squared, squared hinge,
        Huber and logistic loss conjugate gradients serve X of any shape; until steps have proved
        slow they run on trial only. An epoch is then an iteration, which reads the rows up to six
        times. It takes 75 to 205 bytes per example. Batches and tol=0 do without it. `fit_stream`
        goes over to a proximal Newton method where n_classes * n_weights^2 is at most 2048^2.
    pack : bool or "auto", default="auto"
        True: work on a copy of the rows, which must be sparse, in which all that a step reads lies
        together: 8 bytes per stored entry and 32 per row. Values are rounded to float32,
        certificates are not. Short rows over at most 256 columns fill cache lines instead.
        "auto": copy dense X that lies column by column, as that of a data frame does, unless it is
        a mapped file; nothing else, as fits are as fast or faster without, since rows are
        prefetched. False: no copy. Batches, and two threads over long rows, do without packed rows.
    batch_size : int or "all", default=1
        Examples per iteration. More than 1 is for study, and for machines with many cores: see
        `batch_speedup` for what it can save.
    batch_rule : {"safe", "aggressive", "naive"}, default="safe"
        How much shorter than single steps those of a batch are: by beta_b, which the spectral norm
        of X yields; by what adapts to the batches seen; not at all, which may diverge.
    gamma : float, default=0.95
        How slowly batch_rule="aggressive" adapts, from 0 to 1.
    sigma_squared : float, default=None
        sigma^2 for beta_b, from 1 / n_samples to 1; None takes that of the data, the constant
        feature included, and 2 % more, as it is approached from below. The aggressive rule needs
        only a crude bound.
    average : {"last", "tail", "decaying"}, default="last"
        With batches: return the last iterate, the mean since at most half of the epochs (Theorem 2
        of the paper), or the decaying mean of its experiments.
"""


class _DualModel(DualStreamFit, LinearModel):
    """Estimators whose solver keeps one dual variable per example."""

    def _solver(self, training, k, random, n_jobs):
        solvers = training.solvers
        if solvers is None:
            return self._solver_of_fit(training, k, random, n_jobs)
        last = solvers.get(k)
        if last is not None and last.objective.matrix is training.matrix:
            last.restart(self.alpha)
            last.shrink()
        else:
            objective = self._make_objective(training, k, n_jobs)
            start = (None, 0.0) if last is None else (last.duals(), last.intercept)
            schedule = self._schedule(training)
            solvers[k] = self._make_sdca(objective, random, *start, schedule)
        return solvers[k]

    def _solver_of_fit(self, training, k, random, n_jobs):
        objective = self._make_objective(training, k, n_jobs)
        duals = duals_of_last_fit(self, len(training.targets), training.matrix.n_rows)
        duals = None if duals is None else duals[k]
        if self.batch_size == 1:
            intercept = 0.0 if duals is None else np.atleast_1d(self.intercept_)[k]
            return self._make_sdca(objective, random, duals, intercept, self._schedule(training))
        n_rows = objective.matrix.n_rows
        check_batch_fits(self.batch_size, n_rows)
        return MiniBatchSDCA(
            objective,
            random,
            batch_size=examples_of_batch(self.batch_size, n_rows),
            rule=self.batch_rule,
            beta=self._safe_beta(objective.matrix),
            gamma=self.gamma,
            average=self.average,
            duals=duals,
        )

    def _checked(self, X, y, **options):
        # curvatures tell whether X is finite, but not before batches and packed rows read it
        reads_before = self.batch_size != 1 or self._packs()
        return check_training_data(self, X, y, ensure_all_finite=reads_before, **options)

    def _schedule(self, training):
        """Return the class of the solver: one for two threads if a problem alone may have them."""
        if len(training.targets) == 1 and asked_threads(self.n_jobs) > 1:
            return thread_schedule(training.matrix)
        return SDCA

    def _make_sdca(self, objective, random, duals, intercept, schedule):
        solver = schedule(objective, random, duals, self._packs())
        if duals is not None:
            if objective.has_multiplier:
                solver.set_intercept(intercept)
            solver.shrink()
        if objective.has_multiplier and is_regressor(self):
            last = None if duals is None else solver.intercept
            solver.set_intercept(starting_intercept(objective, solver.w, last))
        if not self.second_order or self.tol == 0:
            return solver
        at_once, max_accesses = self.second_order != "auto", self.max_accesses or math.inf
        spaces = linear_spaces(solver, self.tol)
        if not spaces:
            return solver
        n_passes, loss = 0.0, objective.loss
        if duals is None and is_foretold(loss, objective.matrix):
            step = max(1, objective.matrix.n_rows // ENOUGH_ROWS)
            curvatures = solver.curvatures(step)
            n_passes = least_passes(loss, curvatures, self.tol, objective.has_multiplier)
        return Finisher(spaces, self.tol, self.max_iter, at_once, max_accesses, n_passes)

    def _penalizes_intercept(self):
        return self.penalize_intercept

    def _matrix(self, X, y, weights):
        if not self._measures_column():
            return super()._matrix(X, y, weights)
        matrix = as_matrix(X, n_threads=effective_threads(self.n_jobs))
        return matrix.with_constant(self._column(matrix, y, weights))

    def _measures_column(self):
        return self.fit_intercept and self.batch_size == 1

    def _column(self, matrix, y, weights):
        """Return the value of the constant column, from a matrix that has none."""
        sample = RowSample(matrix.n_columns)
        sample.add(matrix, weights)
        mean = length_of_mean(sample.total, sample.squares)
        return column_constant(
            len(y),
            short_length(sample.norms[0], sample.weights[0]),
            mean,
            self._scaling(),
            self.alpha,
            self._make_loss(),
            partial(spread_of, y, weights),
        )

    def _adopt(self, other, training):
        super()._adopt(other, training)
        if not self._measures_column():
            return
        matrix = training.matrix.with_constant(0.0)
        constant = self._column(matrix, training.y, training.weights)
        # the equations of least squares serve any alpha, but not another column
        most = MOST_TIMES if self._make_loss().quadratic else 1.0
        if not 1 / most <= constant / training.constant <= most:
            training.matrix = matrix.with_constant(constant)

    def _safe_beta(self, matrix):
        n_rows = matrix.n_rows
        batch_size = examples_of_batch(self.batch_size, n_rows)
        if self.batch_rule == "naive":
            return 1.0
        sigma_squared = self.sigma_squared
        if sigma_squared is None:
            sigma_squared = min(1.0, SIGMA_MARGIN * spectral_norm_of(matrix, SIGMA_TOL))
        return safe_beta(n_rows, batch_size, sigma_squared)

    def _check_parameters(self):
        super()._check_parameters()
        check_flag("penalize_intercept", self.penalize_intercept)
        check_flag("pack", self.pack, auto=True)
        check_flag("second_order", self.second_order, auto=True)
        check_batch_size(self.batch_size)
        if not self.penalize_intercept and self.fit_intercept and self.batch_size != 1:
            raise ValueError("penalize_intercept=False needs batch_size=1")
        if self.second_order != "auto" and self.second_order and self.batch_size != 1:
            raise ValueError('second_order=True needs batch_size=1; "auto" allows batches')
        check_choice("batch_rule", self.batch_rule, RULES)
        check_choice("average", self.average, DUAL_AVERAGES)
        check_number("gamma", self.gamma, low=0, high=1)
        check_number(
            "sigma_squared", self.sigma_squared, low=0, high=1, open_low=True, optional=True
        )

    def _store(self, outcomes, training, seconds):
        if training.solvers is None:
            self.dual_coef_ = self._laid_out(
                [
                    np.zeros(training.matrix.n_rows) if outcome.kept is None else outcome.kept
                    for outcome in outcomes
                ]
            )
        super()._store(outcomes, training, seconds)

    def _laid_out(self, duals):
        """Return `dual_coef_`, of the dual variables of all problems."""
        return duals[0][np.newaxis] if len(duals) == 1 else np.stack(duals)

    def _warn_if_limited(self, limits):
        result = self.result_
        if result.status == "diverged":
            warn(
                f"{type(self).__name__} diverged: batches of {self.batch_size} with "
                f'batch_rule="{self.batch_rule}" take steps that are too long, or so short that '
                "rounding swallows them. The best model seen was kept, with a relative duality gap "
                f'of {result.relative_gap:.2e}. Use smaller batches, batch_rule="safe" or a '
                "larger sigma_squared; or scale X, if its values are very large.",
            )
        super()._warn_if_limited(limits)

    def _keep(self, solver):
        return solver.release_duals()


@with_parameters(**COMMON_PARAMETERS, dual=_DUAL_PARAMETERS)
class SDCAClassifier(_DualModel, LinearClassifier):
    """Linear classification by stochastic dual coordinate ascent, with a duality gap.

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss. Needs no step size, and is the solver
    to begin with: it reaches small gaps fast and certifies them.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge", "logistic"}, default="hinge"
        With m = y (<w, x> + intercept), y = +1 or -1: max(0, 1 - m); its square; the hinge rounded
        off over [1 - smoothing, 1]; log(1 + exp(-m)).
    %(alpha)s
    %(smoothing)s
    %(intercept)s
    %(class_weight)s
    %(limits)s
    %(dual)s
    %(run)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_coef_ : ndarray of shape (1, n_samples) or (n_classes, n_samples), float64
        The dual variables that a certificate at the end of the fit takes: averaged as `average`
        says, balanced (sum_i s_i dual_coef_i = 0) if the intercept is not penalised. s_i is
        sample_weight_i times the factor of its class by `class_weight`. Examples whose dual is not
        0 are support vectors. The duals give w = sum_i s_i dual_coef_i x_i / (alpha sum(s));
        `coef_` is this w, or a model whose objective is within `result_.gap` of the optimum. After
        divergence they are those of the last iterate, not of `coef_`, and zeros if they are not
        finite. After `fit_stream` rows of blocks without weight have none; after Ctrl-C in
        mid-pass of it they may be out of balance.
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
    %(stream_summary)s

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
        second_order="auto",
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
        self.second_order = second_order
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

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(rows)s
        %(labels)s
        %(sample_weight)s

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
        return self._solve(self._prepare(X, y, sample_weight), self._limits())

    def _prepare(self, X, y, sample_weight):
        self._check_parameters()
        X, y = self._checked(X, y)
        self.classes_ = find_classes(y)
        return self._class_training(X, y, sample_weight)


@with_parameters(**COMMON_PARAMETERS, dual=_DUAL_PARAMETERS)
class SDCARegressor(_DualModel, LinearRegressor):
    """Linear regression by stochastic dual coordinate ascent, with a duality gap.

    Minimises alpha / 2 |w|^2 + the weighted mean of the loss: ridge regression, least absolute
    deviations, support vector regression or Huber regression.

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber"}, default="squared"
        With r = <w, x> + intercept - y: r^2 / 2; |r|; max(0, |r| - epsilon); r^2 / 2 up to
        |r| = epsilon and epsilon (|r| - epsilon / 2) beyond.
    %(alpha)s
    %(zone)s
    %(intercept)s
    %(limits)s
    %(dual)s
    %(run)s

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
    %(feature_names)s
    result_ : Result
    %(stream_summary)s

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
        second_order="auto",
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
        self.second_order = second_order
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

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(rows)s
        %(numbers)s
        %(sample_weight)s

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
        return self._solve(self._prepare(X, y, sample_weight), self._limits())

    def _prepare(self, X, y, sample_weight):
        self._check_parameters()
        X, y = self._checked(X, y, y_numeric=True)
        return self._number_training(X, y, sample_weight)

    def _laid_out(self, duals):
        return duals[0]
