"""Kernel machines: KernelSDCAClassifier, KernelSDCARegressor.

Both minimise

    1/2 |f|^2 + C sum_i s_i l(f(x_i) + intercept, y_i)

over functions f of the kernel's space, and report a certificate in ``result_``. Kernel values are
computed when they are needed, never stored: see sublinear._core.kernels.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sublinear._callbacks import with_callbacks
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernels import (
    KERNELS,
    CallableRows,
    KernelRows,
    PrecomputedRows,
    kernel_rows,
)
from sublinear._core.losses import REGRESSION_LOSSES
from sublinear._linear_model import (
    CertifiedModel,
    OneVsRestMixin,
    Training,
    caller_level,
    with_parameters,
)
from sublinear._solvers.kernel_sdca import KernelSDCA
from sublinear._validation import (
    check_choice,
    check_flag,
    check_number,
    check_sample_weight,
    check_training_data,
    find_classes,
)

DEFAULT_MEMORY = 2**30
PANEL = 64  # rows of a block are a multiple
SHORT_ROW = 64  # stored entries: kernel values are cheap beside the ascent's steps
ROWS_LOOKED_AT = 1000
LEAST_BLOCK = 512  # rows: below it a fit is markedly slower

_PARAMETERS = """\
kernel : {"rbf", "poly", "sigmoid", "linear", "precomputed"} or callable, default="rbf"
        exp(-gamma |x - z|^2); (gamma <x, z> + coef0)^degree; tanh(gamma <x, z> + coef0), which is
        not positive definite: the gap then certifies nothing; <x, z>. "precomputed": X is the
        kernel matrix, in `fit` between the training examples, in prediction between those of X
        and the training examples. A callable gets two sets of examples and returns the matrix
        between them; it is called for blocks of rows.
    C : float, default=1.0
        What the losses weigh against |f|^2, as in sklearn.svm.SVC; alpha of the linear models is
        1 / (C * sum of sample weights).
    gamma : {"scale", "auto"} or float, default="scale"
        Positive. "scale": 1 / (n_features * variance of the values of X); "auto":
        1 / n_features.
    degree : int, default=3
    coef0 : float, default=0.0"""

_FIT_PARAMETERS = """\
fit_intercept : bool, default=True
    penalize_intercept : bool, default=True
        True: the kernel gets the constant intercept_scaling^2, and the objective the term
        (intercept / intercept_scaling)^2 / 2. False: as in sklearn.svm.SVC; the dual
        coefficients then sum up to 0, and `intercept_scaling` has no effect.
    intercept_scaling : float, default=1.0
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on rounds. A round solves for a block of some thousands of examples.
    max_accesses : int, default=None
        Limit on kernel evaluations of each binary problem, never exceeded.
    memory_limit : int, default=None
        Bytes that a fit, or a prediction, may take besides X, the model and a few numbers per
        example; None means 1 GiB. With less, blocks are smaller and the training examples are
        rearranged again for every product, which is slower but gives a model as good.
    n_jobs : int, default=None
        Threads: over one-vs-rest problems, or inside a single one. None means 1, -1 all
        processors. The result does not depend on them.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the choice of blocks.
    warm_start : bool, default=False
        Start the next fit from the end of this one, if there are as many examples and problems.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate, after each round; stops the fit by returning
        True. Its `coef` holds the dual coefficients of all training examples."""

_ATTRIBUTES = """\
support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : ndarray or CSR matrix of shape (n_SV, n_features)
        Empty for kernel="precomputed".
    dual_coef_ : ndarray of shape (n_problems, n_SV), float64
        f = sum_j dual_coef_j k(support vector j, .). One problem, or one per class.
    intercept_ : ndarray of shape (n_problems,)"""

_parameters = with_parameters(kernel=_PARAMETERS, fit=_FIT_PARAMETERS, attributes=_ATTRIBUTES)


@dataclass
class KernelTraining(Training):
    """The Training of a kernel machine: `matrix` is None, there is a kernel matrix instead."""

    rows: KernelRows | None = None

    constant = 1.0
    dtype = np.dtype(np.float64)

    @property
    def n_weights(self):
        """The coefficients, and the intercept."""
        return self.rows.n_rows + 1


class KernelModel(CertifiedModel):
    """What kernel machines share: kernels, support vectors, prediction."""

    _unit = "rounds"
    _easier = "scale the features, or lower C"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    def _check_parameters(self):
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, (*KERNELS, "precomputed"))
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, ("scale", "auto"))
        else:
            check_number("gamma", self.gamma, low=0, open_low=True)
        check_number("degree", self.degree, low=0, high=1000, integer=True)
        check_number("coef0", self.coef0, low=-math.inf)
        check_number("C", self.C, low=0, open_low=True)
        check_flag("penalize_intercept", self.penalize_intercept)
        if self.memory_limit is not None:
            check_number("memory_limit", self.memory_limit, low=1, integer=True)

    def _check_data(self, X, y, **options):
        if self.kernel == "precomputed" and sp.issparse(X):
            raise ValueError('kernel="precomputed" needs a dense matrix: convert it by X.toarray()')
        return check_training_data(self, X, y, **options)

    def _memory(self):
        return DEFAULT_MEMORY if self.memory_limit is None else self.memory_limit

    def _kernel(self):
        return KERNELS[self.kernel](self._gamma, self.degree, self.coef0)

    def _training(self, X, y, targets, weights, sample_weight):
        """Return the KernelTraining for checked data."""
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._gamma = gamma_value(self.gamma, X, weights)
        if callable(self.kernel):
            rows = CallableRows(self.kernel, X)
        elif self.kernel == "precomputed":
            rows = PrecomputedRows(X)
        else:
            rows = kernel_rows(self._kernel(), X, memory=self._memory() / 2)
        return KernelTraining(X, y, metadata, None, targets, weights, rows=rows)

    def _block(self, training, n_problems_at_once):
        """Return the rows of a block, and how far its ascent goes."""
        n_rows = training.rows.n_rows
        some = training.X[:: max(1, n_rows // ROWS_LOOKED_AT)]
        stored = some.nnz if sp.issparse(some) else np.count_nonzero(some)
        short = stored <= SHORT_ROW * some.shape[0]
        size, inner_tol = (2048, 0.03) if short else (4096, 0.01)
        affordable = int(math.sqrt(self._memory() / (8 * n_problems_at_once))) // PANEL * PANEL
        if affordable < min(LEAST_BLOCK, n_rows):
            warnings.warn(
                f"memory_limit={self.memory_limit} leaves room for blocks of only "
                f"{max(PANEL, affordable)} examples: the fit will take more rounds and time. "
                f"{8 * LEAST_BLOCK**2 * n_problems_at_once} bytes would do.",
                UserWarning,
                stacklevel=caller_level(),
            )
        return max(PANEL, min(size, affordable)), inner_tol

    def _objective(self, training, k, n_jobs):
        """Return the KernelObjective of problem k."""
        n_rows = training.rows.n_rows
        weights = np.ones(n_rows) if training.weights is None else training.weights
        return KernelObjective(
            training.rows,
            training.targets[k](),
            self._make_loss(),
            float(self.C) * weights,
            constant=self.intercept_scaling
            if self.fit_intercept and self.penalize_intercept
            else 0,
            free_intercept=self.fit_intercept and not self.penalize_intercept,
            n_threads=n_jobs if len(training.targets) == 1 else 1,
        )

    def _keep(self, solver):
        return None

    def _starting_coefficients(self, training, k):
        """The coefficients of the last fit, if they can serve as a start."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        if self.shape_fit_[0] != training.rows.n_rows or len(self.dual_coef_) != len(
            training.targets
        ):
            return None
        coefficients = np.zeros(training.rows.n_rows)
        coefficients[self.support_] = self.dual_coef_[k]
        return coefficients

    def _store(self, outcomes, training, seconds):
        """Set the fitted attributes."""
        self._set_model(np.stack([outcome.model for outcome in outcomes]), training.X)
        self._report(outcomes, seconds)

    def _set_model(self, models, X):
        """Set the attributes that prediction needs; rows of models end with the intercept."""
        coefficients = models[:, :-1]
        self.support_ = np.flatnonzero(coefficients.any(axis=0))
        self.dual_coef_ = np.ascontiguousarray(coefficients[:, self.support_])
        self.intercept_ = models[:, -1].copy()
        precomputed = self.kernel == "precomputed"
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[self.support_]
        self.shape_fit_ = X.shape

    def _scores(self, X):
        """Return f(x_i) + intercept for every row and problem, (n_rows, n_problems)."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse=False if self.kernel == "precomputed" else "csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
        )
        n_rows, n_support = X.shape[0], len(self.support_)
        margins = np.zeros((len(self.intercept_), n_rows))
        if n_support == 0:
            return margins.T + self.intercept_
        support = None if self.kernel == "precomputed" else self._like(self.support_vectors_, X)
        per_row = 8 * max(1, X.nnz // n_rows if sp.issparse(X) else X.shape[1])
        step = max(PANEL, int(self._memory() / 4 / max(per_row, 8 * len(margins))))
        rows_step = max(PANEL, int(self._memory() / 4 / per_row) // PANEL * PANEL)
        order = np.arange(n_support)
        for start in range(0, n_rows, step):
            rows = self._prediction_rows(support, X[start : start + step])
            part = np.zeros((len(margins), rows.n_columns))
            for first in range(0, n_support, rows_step):
                chosen = slice(first, first + rows_step)
                rows.add_product(
                    order[chosen], self.dual_coef_[:, chosen], part, effective_n_jobs(self.n_jobs)
                )
            margins[:, start : start + step] = part
        return margins.T + self.intercept_

    def _like(self, support, X):
        """The support vectors, sparse or dense like X."""
        if sp.issparse(X) and not sp.issparse(support):
            return sp.csr_array(support)
        return support.toarray() if sp.issparse(support) and not sp.issparse(X) else support

    def _prediction_rows(self, support, X):
        """The KernelRows between the support vectors and the rows of X."""
        if self.kernel == "precomputed":
            return PrecomputedRows(X[:, self.support_].T, False)
        if callable(self.kernel):
            return CallableRows(self.kernel, support, X)
        return kernel_rows(self._kernel(), support, X, memory=0)


def gamma_value(gamma, X, weights=None):
    """Return gamma as a number."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return float(gamma)
    variance = weighted_variance(X, weights)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def weighted_variance(X, weights=None):
    """Return the variance of all values of X, rows counted by their weights, without a copy."""
    weights = np.ones(X.shape[0]) if weights is None else weights
    count = weights.sum() * X.shape[1]
    step = max(1, 2**20 // X.shape[1])
    blocks = [slice(start, start + step) for start in range(0, X.shape[0], step)]
    if sp.issparse(X):
        mean = weights @ np.asarray(X.sum(axis=1)).ravel() / count
        squares = sum(
            weights[b] @ np.asarray(X[b].multiply(X[b]).sum(axis=1)).ravel() for b in blocks
        )
        return max(0.0, squares / count - mean**2)
    mean = sum(weights[b] @ X[b].sum(axis=1, dtype=np.float64) for b in blocks) / count
    return (
        sum(weights[b] @ ((X[b] - mean) ** 2).sum(axis=1, dtype=np.float64) for b in blocks) / count
    )


class _KernelSDCAModel(KernelModel):
    """Kernel machines fitted by block dual ascent."""

    def _solver(self, training, k, random, n_jobs):
        block_size, inner_tol = self._block(training, min(n_jobs, len(training.targets)))
        return KernelSDCA(
            self._objective(training, k, n_jobs),
            random,
            block_size=block_size,
            inner_tol=inner_tol,
            coefficients=self._starting_coefficients(training, k),
            max_accesses=self.max_accesses or math.inf,
        )

    def _check_parameters(self):
        super()._check_parameters()
        if self._make_loss().dual_form() is None:
            quadratic = [
                name for name, entry in self._losses.items() if entry.loss().dual_form() is not None
            ]
            check_choice("loss", self.loss, quadratic)


@_parameters
class KernelSDCAClassifier(OneVsRestMixin, _KernelSDCAModel):
    """Kernel support vector machine by block dual ascent, with a duality gap.

    Minimises 1/2 |f|^2 + C times the weighted sum of the loss over functions f of the kernel's
    space. With more than two classes, one-vs-rest.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge"}, default="hinge"
        With m = y (f(x) + intercept), y = +1 or -1: max(0, 1 - m); its square; the hinge rounded
        off over [1 - smoothing, 1].
    %(kernel)s
    %(fit)s
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    %(attributes)s
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    result_ : Result
        Of the objective above; `accesses` are kernel evaluations.

    See Also
    --------
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
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        memory_limit=None,
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
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.memory_limit = memory_limit
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
            Dense or CSR, float32 or float64, is used as it is; other types are converted. With
            kernel="precomputed" the kernel matrix, of shape (n_samples, n_samples).
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

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
        self._check_parameters()
        X, y = self._check_data(X, y)
        self.classes_ = find_classes(y)
        return self._solve(self._class_training(X, y, sample_weight), self._limits())


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
    epsilon : float, default=0.1
        Width of the insensitive or quadratic zone, in the units of y.
    %(fit)s

    Attributes
    ----------
    %(attributes)s
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    result_ : Result
        Of the objective above; `accesses` are kernel evaluations.

    See Also
    --------
    SDCARegressor : linear models.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import KernelSDCARegressor
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = KernelSDCARegressor(C=10, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    _losses = REGRESSION_LOSSES

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
            As in KernelSDCAClassifier.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

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
        self._check_parameters()
        X, y = self._check_data(X, y, y_numeric=True)
        targets = np.ascontiguousarray(y, dtype=np.float64)
        weights = check_sample_weight(sample_weight, X)
        training = self._training(X, y, [lambda: targets], weights, sample_weight)
        return self._solve(training, self._limits())

    def predict(self, X):
        """Return f(x_i) + intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,), float64
        """
        return self._scores(X).ravel()
