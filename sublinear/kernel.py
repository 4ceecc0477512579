"""Kernel machines: KernelSDCAClassifier, KernelSDCARegressor, KernelPegasosClassifier.

All minimise

    1/2 |f|^2 + C sum_i s_i l(f(x_i) + intercept, y_i)

over functions f of the kernel's space, and report a certificate in ``result_``. Kernel values are
computed when they are needed, never stored: see sublinear._core.kernel_rows.
"""

import math

import numpy as np
from sklearn.base import RegressorMixin

from sublinear._certified_model import problem_mark
from sublinear._core.aligned import contiguous
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS
from sublinear._documentation import with_parameters
from sublinear._fit_method import fit_method
from sublinear._kernel_machines.model import KernelModel
from sublinear._kernel_machines.multiclass import KernelClassifierMixin
from sublinear._kernel_machines.training import check_targets
from sublinear._second_order import kernel_spaces, memory_lacking
from sublinear._solvers.finisher import Finisher
from sublinear._solvers.kernel_pegasos import KernelPegasos
from sublinear._solvers.kernel_sdca import KernelSDCA
from sublinear._validation import (
    check_batch_fits,
    check_batch_size,
    check_choice,
    check_sample_weight,
    examples_of_batch,
)

LARGEST_PEGASOS_BLOCK = 2048  # its kernel values fit into a large cache

_PARAMETERS = """\
kernel : {"rbf", "poly", "sigmoid", "linear", "precomputed"} or callable, default="rbf"
        exp(-gamma |x - z|^2); (gamma <x, z> + coef0)^degree; tanh(gamma <x, z> + coef0); <x, z>.
        "precomputed": X is the kernel matrix, in `fit` between the training examples, in
        prediction between those of X and the training examples. A callable gets two sets of
        examples and returns the matrix between them; it is called for blocks of rows.
        Certificates hold for positive definite kernels: "rbf", "linear", "poly" with coef0 >= 0,
        and what you know to be one; not "sigmoid", nor "poly" with coef0 < 0. If a negative
        k(x, x) shows that a kernel is not positive definite, `fit` raises ValueError; if only a
        dual value or a norm shows it, the result has no certificate.
    C : float, default=1.0
        What the losses weigh against |f|^2, as in sklearn.svm.SVC; alpha of the linear models is
        1 / (C * sum of sample weights).
    gamma : {"scale", "auto"} or float, default="scale"
        Positive. "scale": 1 / (n_features * variance of the values of X), weighted by
        `sample_weight`, as rows that are repeated would be, not by weights of classes;
        sklearn.svm.SVC does not weight it. "auto": 1 / n_features.
    %(degree)s
    %(coef0)s"""

_INTERCEPT_PARAMETERS = """\
fit_intercept : bool, default=True
        Whether there is an intercept; without, it is 0.
    penalize_intercept : bool, default=True
        True: the kernel gets the constant intercept_scaling^2, and the objective the term
        (intercept / intercept_scaling)^2 / 2. False: as in sklearn.svm.SVC; the dual
        variables then sum up to 0, and `intercept_scaling` has no effect. (`dual_coef_` holds
        them unless other coefficients make a better model: after `max_support`, and after the
        method of second order at times.)
    %(scaling)s"""

_SCALING = """\
intercept_scaling : float, default=1.0
        The larger, the less the intercept is penalised."""

_LIMITS = """\
tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on rounds. A round solves for a block of some thousands of examples; an iteration of
        the method of second order, which ends hard fits of few examples or of a kernel of small
        rank, counts as one."""

_RUN_PARAMETERS = """\
max_accesses : int, default=None
        Limit on kernel evaluations of each binary problem, never exceeded.
    memory_limit : int, default=None
        Bytes that a fit, or a prediction, may take besides X, the model and a few numbers per
        example, and per feature where X is wide and sparse; None means 1 GiB. With less, blocks are
        smaller and the training examples are rearranged again for every product, which is slower,
        and SDCA may have no room for the method of second order, without which hard fits end at
        `max_iter`.
    max_support : int, default=None
        Keep at most so many support vectors, for fast predictions: those whose span comes nearest
        to the model in the kernel's space, with the coefficients that are then best. `result_` has
        the values of what is left, `reduction_` those before; the status is "reduced" if the gap is
        above `tol` then. It takes n_SV^2 + 2 n_samples
        max_support kernel evaluations and some 24 n_samples max_support bytes, which neither
        `max_accesses` nor `memory_limit` limit, nor `result_.accesses` counts.
    n_jobs : int, default=None
        Threads: over the problems of several classes, as many as `memory_limit` has room for, or
        inside a single one. None means 1, -1 all processors. The result does not depend on them.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the choice of blocks, with Pegasos the order of the examples.
    warm_start : bool, default=False
        Start the next fit from the end of this one, if there are as many examples and problems,
        and `max_support` has taken nothing away. Pegasos does so only if objective, X (256 rows of
        it), y and weights are the same, and begins anew otherwise.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate, with SDCA after each round; stops the fit
        by returning True. Where every class, or pair, is fitted on its own, it stops that one
        alone. The Snapshot's `coef` holds the dual coefficients of the examples of that problem in
        the order of X: of all, for a pair of classes of those of the two."""

_ATTRIBUTES = """\
support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Empty for kernel="precomputed".
    dual_coef_ : ndarray of shape (1, n_SV), float64
        f = sum_j dual_coef_j k(support vector j, .).
    coef_ : ndarray of shape (1, n_features), float64
        With kernel="linear" alone: the weights of the features.
    intercept_ : ndarray of shape (1,)
    reduction_ : Reduction or None
        What `max_support` took away."""

_MULTICLASS_PARAMETERS = """\
multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: one problem for every pair of classes, as in sklearn.svm.SVC, or
        one for every class against the rest, which takes longer unless classes are many and small.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for multi_class="ovo": votes per class, or the score of
        every pair. As in sklearn.svm.SVC.
    %(class_weight)s"""

_CLASS_ATTRIBUTES = """\
support_ : ndarray of shape (n_SV,)
        Indices of the support vectors, with multi_class="ovo" and more than two classes sorted by
        class.
    n_support_ : ndarray of shape (n_classes,)
        With multi_class="ovo" and more than two classes: support vectors of each class.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Empty for kernel="precomputed".
    dual_coef_ : ndarray of shape (1, n_SV), (n_classes, n_SV) or (n_classes - 1, n_SV), float64
        f = sum_j dual_coef_j k(support vector j, .), one row per problem. With multi_class="ovo" as
        in sklearn.svm.SVC: one row per other class, in order.
    coef_ : ndarray of shape (n_problems, n_features), float64
        With kernel="linear" alone: the weights of the features.
    intercept_ : ndarray of shape (n_problems,)
    reduction_ : Reduction or None
        What `max_support` took away.
    classes_ : ndarray of shape (n_classes,)"""

_DATA = """\
X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Dense or CSR, float32 or float64, is used as it is; other types are converted. With
        kernel="precomputed" the kernel matrix, of shape (n_samples, n_samples)."""

_parameters = with_parameters(
    multiclass=_MULTICLASS_PARAMETERS,
    class_attributes=_CLASS_ATTRIBUTES,
    kernel=_PARAMETERS,
    intercept=_INTERCEPT_PARAMETERS,
    scaling=_SCALING,
    limits=_LIMITS,
    run=_RUN_PARAMETERS,
    attributes=_ATTRIBUTES,
    X=_DATA,
)


def _with_quadratic_dual(losses):
    """Return the registered losses whose duals the steps of a block can take."""
    return {name: entry for name, entry in losses.items() if entry.loss().dual_form() is not None}


class _KernelSDCAModel(KernelModel):
    """Kernel machines fitted by block dual ascent."""

    def _solver(self, training, k, random, n_jobs):
        """Return the solver of problem k, a new one unless one is there to go on from."""
        if training.solvers is not None and k in training.solvers:
            solver = training.solvers[k]
            solver.restart(self._objective(training, k, n_jobs, solver.objective.rows))
            return solver
        solver = KernelSDCA(
            self._objective(training, k, n_jobs),
            random,
            block_size=training.block_size,
            coefficients=self._starting_coefficients(training, k),
            max_accesses=self.max_accesses or math.inf,
        )
        if self.tol > 0 and (spaces := kernel_spaces(solver)):
            solver = Finisher(
                spaces, self.tol, self.max_iter, max_accesses=self.max_accesses or math.inf
            )
        if training.solvers is not None:
            training.solvers[k] = solver
        return solver

    def _keep(self, solver):
        return super()._keep(solver) | {"lacking": memory_lacking(solver.objective)}


@_parameters
class KernelSDCAClassifier(KernelClassifierMixin, _KernelSDCAModel):
    """Kernel support vector machine by block dual ascent, with a duality gap.

    Minimises 1/2 |f|^2 + C times the weighted sum of the loss over functions f of the kernel's
    space, for every pair of classes or for every class.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge"}, default="hinge"
        With m = y (f(x) + intercept), y = +1 or -1: max(0, 1 - m); its square; the hinge rounded
        off over [1 - smoothing, 1].
    %(kernel)s
    %(smoothing)s
    %(intercept)s
    %(multiclass)s
    %(limits)s
    %(run)s

    Attributes
    ----------
    %(class_attributes)s
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        Of the objective above; `accesses` are kernel evaluations.

    See Also
    --------
    KernelPegasosClassifier : stochastic sub-gradient descent on the same objective.
    SDCAClassifier : linear models.

    References
    ----------
    Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent methods for regularized loss
    minimization", JMLR 14, 2013, on the dual; the blocks are this package's own.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sublinear import KernelSDCAClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = KernelSDCAClassifier(C=10, random_state=0).fit(X, y)
    >>> bool(model.result_.relative_gap <= 1e-3)
    True
    >>> model.score(X, y) > 0.95
    True
    """

    _losses = _with_quadratic_dual(MARGIN_LOSSES)

    def __init__(
        self,
        loss="hinge",
        *,
        kernel="rbf",
        C=1.0,
        gamma="scale",
        degree=3,
        coef0=0.0,
        smoothing=1.0,
        fit_intercept=True,
        penalize_intercept=True,
        intercept_scaling=1.0,
        multi_class="ovo",
        decision_function_shape="ovr",
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        memory_limit=None,
        max_support=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.memory_limit = memory_limit
        self.max_support = max_support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @fit_method
    @_parameters
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(multiclass_labels)s
        %(sample_weight)s

        Returns
        -------
        self : KernelSDCAClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        return self._solve(self._prepare(X, y, sample_weight), self._limits())


@_parameters
class KernelSDCARegressor(RegressorMixin, _KernelSDCAModel):
    """Kernel regression by block dual ascent, with a duality gap.

    Support vector regression, kernel ridge regression and their relatives: minimises
    1/2 |f|^2 + C times the weighted sum of the loss over functions f of the kernel's space.

    Parameters
    ----------
    loss : {"epsilon_insensitive", "squared", "absolute", "huber"}, default="epsilon_insensitive"
        With r = f(x) + intercept - y: max(0, |r| - epsilon); r^2 / 2; |r|; r^2 / 2 up to
        |r| = epsilon and epsilon (|r| - epsilon / 2) beyond.
    %(kernel)s
    %(zone)s
    %(intercept)s
    %(limits)s
    %(run)s

    Attributes
    ----------
    %(attributes)s
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        Of the objective above; `accesses` are kernel evaluations.

    See Also
    --------
    SDCARegressor : linear models.

    References
    ----------
    Shalev-Shwartz, Zhang, "Stochastic dual coordinate ascent methods for regularized loss
    minimization", JMLR 14, 2013, on the dual; the blocks are this package's own.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import KernelSDCARegressor
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelSDCARegressor(C=10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    _losses = _with_quadratic_dual(REGRESSION_LOSSES)

    def __init__(
        self,
        loss="epsilon_insensitive",
        *,
        kernel="rbf",
        C=1.0,
        gamma="scale",
        degree=3,
        coef0=0.0,
        epsilon=0.1,
        fit_intercept=True,
        penalize_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        memory_limit=None,
        max_support=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.memory_limit = memory_limit
        self.max_support = max_support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    @fit_method
    @_parameters
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(numbers)s
        %(sample_weight)s

        Returns
        -------
        self : KernelSDCARegressor

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
        X, y = self._check_data(X, y, y_numeric=True)
        targets = contiguous(y, dtype=np.float64)
        check_targets(targets)
        weights = check_sample_weight(sample_weight, X)
        given = self._row_numbers(X, weights)
        X, y, targets, weights = map(given.part, (X, y, targets, weights))
        training = self._training(X, y, [lambda: targets], weights, weights)
        training.given = given
        return training

    def _size_of_scores(self, training):
        return float(np.std(training.targets[0]())) or 1.0

    @with_parameters()
    def predict(self, X):
        """Return f(x_i) + intercept.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        predictions : ndarray of shape (n_samples,), float64
        """
        return self._scores(X).ravel()


@_parameters
class KernelPegasosClassifier(KernelClassifierMixin, KernelModel):
    """Kernel machine by Pegasos: stochastic sub-gradient descent with steps 1 / t.

    Minimises 1/2 |f|^2 + C times the weighted sum of the loss over functions f of the kernel's
    space, for every pair of classes or for every class. KernelSDCAClassifier is faster; this is the
    simple method of the paper, and does logistic regression too.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "logistic"}, default="hinge"
        With m = y (f(x) + intercept), y = +1 or -1: max(0, 1 - m); the hinge rounded off over
        [1 - smoothing, 1]; log(1 + exp(-m)), for which all examples become support vectors.
        For probabilities see sklearn.calibration.CalibratedClassifierCV: there is no
        `predict_proba`.
    %(kernel)s
    %(smoothing)s
    batch_size : int or "all", default=1
        Examples per step.
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
        A new permutation of the examples for every epoch; one permutation for all; independent
        draws, as in the paper; an independent subset for every batch.
    fit_intercept : bool, default=True
        The kernel gets the constant intercept_scaling^2, and the objective the term
        (intercept / intercept_scaling)^2 / 2.
    %(scaling)s
    %(multiclass)s
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective, which takes many epochs if
        tol is small. 0: run to the limits.
    max_iter : int, default=1000
        Limit on epochs. An epoch looks at as many examples as there are.
    %(run)s

    Attributes
    ----------
    %(class_attributes)s
    n_steps_ : ndarray of shape (n_problems,)
        Steps taken, those before a warm start included.
    n_iter_ : int
        Epochs.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        Of the objective above; `accesses` are kernel evaluations.

    See Also
    --------
    KernelSDCAClassifier : block dual ascent on the same objective.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, Figure 3.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sublinear import KernelPegasosClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = KernelPegasosClassifier(tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    >>> model.score(X, y) > 0.85
    True
    """

    _losses = {name: entry for name, entry in MARGIN_LOSSES.items() if entry.lipschitz}
    _unit = "epochs"
    penalize_intercept = True  # or none

    def __init__(
        self,
        loss="hinge",
        *,
        kernel="rbf",
        C=1.0,
        gamma="scale",
        degree=3,
        coef0=0.0,
        smoothing=1.0,
        batch_size=1,
        sampling="shuffle",
        fit_intercept=True,
        intercept_scaling=1.0,
        multi_class="ovo",
        decision_function_shape="ovr",
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        memory_limit=None,
        max_support=None,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.smoothing = smoothing
        self.batch_size = batch_size
        self.sampling = sampling
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.memory_limit = memory_limit
        self.max_support = max_support
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_batch_size(self.batch_size)

    def _solver(self, training, k, random, n_jobs):
        objective = self._objective(training, k, n_jobs)
        check_batch_fits(self.batch_size, training.n_given)
        solver = KernelPegasos(
            objective,
            random,
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, objective.n_rows),
            block_size=min(training.block_size, LARGEST_PEGASOS_BLOCK),
        )
        start = self._starting_coefficients(training, k) if self._is_same_problem else None
        if start is not None:
            solver.resume(start, self.n_steps_[k], self._n_drawn[k])
        return solver

    def _keep(self, solver):
        return super()._keep(solver) | {"n_steps": solver.n_steps, "n_drawn": solver.n_drawn}

    def _store(self, outcomes, training, seconds):
        kept = [outcome.kept or {"n_steps": 0, "n_drawn": 0.0} for outcome in outcomes]
        self.n_steps_ = np.array([counts["n_steps"] for counts in kept])
        self._n_drawn = np.array([counts["n_drawn"] for counts in kept])
        super()._store(outcomes, training, seconds)

    @fit_method
    @_parameters
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(multiclass_labels)s
        %(sample_weight)s

        Returns
        -------
        self : KernelPegasosClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        training = self._prepare(X, y, sample_weight)
        before = getattr(self, "_mark", None)
        self._mark = problem_mark(self, Matrix(training.X), training.y, sample_weight)
        self._is_same_problem = self._mark == before  # small steps would not lead to another one
        return self._solve(training, self._limits())
