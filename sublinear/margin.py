"""Classifiers of large margin by primal-dual methods: SublinearPerceptron, L2SVMClassifier."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sublinear._certified_model import metadata_of
from sublinear._documentation import with_parameters
from sublinear._fit_method import fit_method, forget
from sublinear._kernel_machines.saddle import (
    KERNEL_PARAMETERS,
    KernelPlan,
    KernelSpace,
    check_kernel_parameters,
    is_linear,
    kernel_sum,
)
from sublinear._kernel_machines.training import KernelTraining
from sublinear._labels import combine_weights, find_classes
from sublinear._linear_model import LinearClassifier
from sublinear._saddle import (
    CERTIFY,
    Plan,
    check_saddle_parameters,
    limits_of,
    named,
    of_margin,
    saddle_parameters,
    variant_of,
    warn_of_gap,
    within_budget,
)
from sublinear._saddle_problems import Margin, SquaredHinge
from sublinear._validation import (
    LEAST_NORM,
    MOST_NORM,
    RowNumbers,
    check_flag,
    check_intercept_scaling,
    check_number,
    check_rows,
    check_sample_weight,
    check_training_data,
    drop_weightless,
)


class _SaddleClassifier(LinearClassifier):
    """What the classifiers here share."""

    _asks_for_lines = True
    _unit = "steps"
    _instead = ""  # what warnings advise
    _fitted_kernel = None  # of a linear model

    def _check_parameters(self):
        check_saddle_parameters(self)
        check_intercept_scaling(self)
        check_flag("fit_intercept", self.fit_intercept)

    def _class_training(self, X, y, weights, counts=None):
        targets = self._targets(y)
        if is_linear(self):
            training = self._training(X, y, targets, weights, counts)
            training.matrix.transposed()  # once, before threads ask for it
            training.plan = self._plan(training.matrix)
            return training
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0
        space = KernelSpace(self, X, scaling * scaling, counts)
        plan = self._kernel_plan(space)
        metadata = metadata_of(counts)
        return KernelTraining(X, y, metadata, None, targets, weights, plan=plan, rows=space.rows)

    def _store(self, outcomes, training, seconds):
        for outcome in outcomes:
            outcome.result = named(outcome.result, training.X)
        super()._store(outcomes, training, seconds)

    def _set_model(self, models, training):
        if is_linear(self):
            forget(self, ("support_", "support_vectors_", "dual_coef_"))
            super()._set_model(models, training)
            self._fitted_kernel = None
            return
        forget(self, ("coef_",))
        models = np.stack(models)
        support = np.flatnonzero(models[:, :-1].any(axis=0))
        self.support_ = training.given.numbers(support)
        self.support_vectors_ = training.X[support]
        self.dual_coef_ = np.ascontiguousarray(models[:, support])
        self.intercept_ = models[:, -1]
        self._fitted_kernel = training.plan.space.fitted

    def _scores(self, X):
        check_is_fitted(self)
        if self._fitted_kernel is None:  # as of the fit, whatever `kernel` is by now
            return super()._scores(X)
        X = check_rows(self, X)
        parts = self._fitted_kernel, self.support_vectors_, self.dual_coef_
        return kernel_sum(*parts, X, self.n_jobs).T + self.intercept_

    def _warn_if_limited(self, limits):
        is_rounding = self.result_.status == "rounding"
        warn_of_gap(
            self,
            self.result_,
            limits,
            name=type(self).__name__,
            advice="Raise epsilon, or centre X." if is_rounding else None,
            instead=self._instead if is_linear(self) else "",
            scales=[("row_norm", self.row_norm)] if is_linear(self) else [],
        )


@with_parameters(**saddle_parameters(CERTIFY), kernel=KERNEL_PARAMETERS)
class SublinearPerceptron(_SaddleClassifier):
    """The hyperplane of the largest margin, by reading single rows and columns.

    Maximises min_i y_i (<w, x_i> + intercept) over |w|^2 + (intercept / intercept_scaling)^2 <= 1
    to within `epsilon`, with a certificate: `result_.primal` is the margin of the fitted model,
    `result_.dual` a bound that no model exceeds. Data that no hyperplane separates has margin 0,
    that of the zero model: the fit then ends with status "not_separable", `result_.dual` is at most
    epsilon, and the hyperplane of the largest margin found is kept, though that is negative.

    Parameters
    ----------
    epsilon : float, default=0.01
        How far from the largest margin the fit may end, absolute, in the units of X.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row. Its weight counts in
        the norm like the others.
    intercept_scaling : float, default=1.0
        Value of the constant feature.
    %(variant)s
    %(steps)s
    row_norm : float, default=None
        The largest norm of a row, the constant feature included, or a bound on it. None: it is
        computed, which takes a pass. With it, and certify=None or "sampled", X is not scanned
        before the fit, and what the fit does not read stays unread.
    n_jobs : int, default=None
        Threads over one-vs-rest problems. The result does not depend on them.
    %(draws)s
    %(class_watchers)s
    %(kernel)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X. With the intercept, of norm 1; zeros, of margin 0, where `max_accesses`
        leaves no room for a step, and where the rows drawn are zeros or cancel. With
        kernel="linear" only.
    support_, support_vectors_, dual_coef_
        With another kernel: indices of the rows drawn, the rows, and their coefficients, an array
        of shape (n_problems, n_support): f = sum_j dual_coef_j k(support vector j, .). None, of
        margin 0, where the images of the rows drawn cancel but for rounding.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
        Rows, and columns, drawn.
    result_ : Result
        Margin, bound and gap; feature values read. With more than two classes, `parts` has the
        result of every class.

    See Also
    --------
    SDCAClassifier : Soft margins, and small gaps.

    Notes
    -----
    A sample weight of 0 removes an example; other weights do not change a hard margin.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, Figure 3.

    Carmon, Jin, Sidford, Tian, "Variance reduction for matrix games", NeurIPS 2019.

    Examples
    --------
    >>> from sublinear import SublinearPerceptron
    >>> X, y = [[-1.0, 0.2], [-0.8, -0.1], [0.9, 0.0], [1.0, 0.3]], [0, 0, 1, 1]
    >>> model = SublinearPerceptron(epsilon=0.01, random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5]])
    array([1])
    >>> bool(model.result_.gap <= 0.01)
    True
    """

    def __init__(
        self,
        epsilon=0.01,
        *,
        fit_intercept=True,
        intercept_scaling=1.0,
        variant="auto",
        batch_size="auto",
        certify="las_vegas",
        delta=0.1,
        constants="practical",
        max_iter=None,
        max_accesses=None,
        row_norm=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
        kernel="linear",
        kernel_values="exact",
        gamma="scale",
        degree=3,
        coef0=0.0,
    ):
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.variant = variant
        self.batch_size = batch_size
        self.certify = certify
        self.delta = delta
        self.constants = constants
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.row_norm = row_norm
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.kernel = kernel
        self.kernel_values = kernel_values
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def _check_parameters(self):
        super()._check_parameters()
        check_number("delta", self.delta, low=0, high=1, open_low=True)
        check_number("row_norm", self.row_norm, low=LEAST_NORM, high=MOST_NORM, optional=True)

    def _reads_all(self):
        """Whether a fit reads all of X anyway."""
        by_lines = self.certify in (None, "sampled") and self.row_norm is not None
        return not by_lines or self.kernel != "linear"

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is; other types are converted. Sparse
            data also gets a copy in column order. Kernels need rows in memory. Of a store or an
            oracle only what the fit draws is asked for, given row_norm and certify=None.
        %(labels)s
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; examples of weight 0 are left out, but not their classes. Other weights
            count for gamma="scale" alone.

        Returns
        -------
        self : SublinearPerceptron

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        check_kernel_parameters(self, X)
        X, y = check_training_data(self, X, y, ensure_all_finite=self._reads_all())
        self.classes_ = find_classes(y)  # those without weight, too
        weights = check_sample_weight(sample_weight, X)
        given = RowNumbers(weights)
        X, y, weights = drop_weightless(X, y, weights)
        training = self._class_training(X, y, None, weights)
        training.given = given
        limits = limits_of(self, training.plan, absolute=True, maximise=True)
        return self._solve(training, limits)

    def _plan(self, matrix):
        variant, unit = within_budget(variant_of(self), self, "ball", matrix), self.row_norm
        finds = unit is None and variant == "plain"  # the other's first pass tells
        if finds:
            unit = matrix.largest_norm() or 1.0
        plan = Plan(self, "ball", matrix, self.epsilon, unit, variant=variant)
        plan.n_read = matrix.n_stored if finds else 0
        return plan

    def _kernel_plan(self, space):
        return KernelPlan(self, "ball", space, self.epsilon, space.longest)

    def _solver(self, training, k, random, n_jobs):
        plan = training.plan
        problem = Margin(training.targets[k](), plan.unit)
        problem.accesses = plan.n_read if k == 0 else 0
        return plan.solver(problem, random)

    def _store(self, outcomes, training, seconds):
        for outcome in outcomes:
            outcome.result = of_margin(outcome.result)
        super()._store(outcomes, training, seconds)


@with_parameters(kernel=KERNEL_PARAMETERS)
class L2SVMClassifier(_SaddleClassifier):
    """Linear classification with the squared hinge loss, as a margin with implicit coordinates.

    Minimises alpha / 2 (|coef|^2 + (intercept / intercept_scaling)^2) + the weighted mean of
    max(0, 1 - y (<w, x> + intercept))^2, as SDCAClassifier(loss="squared_hinge") does, by
    primal-dual steps over single rows and columns.

    Parameters
    ----------
    alpha : float, default=0.01
        Strength of the penalty.
    epsilon : float, default=0.01
        Stop when the duality gap is at most epsilon times the objective.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row.
    %(intercept_scaling)s
    batch_size : int or "auto", default="auto"
        Rows, and columns, drawn in one step.
    max_iter : int, default=None
        Limit on steps, counted in rows drawn. None: 1000 times what it takes to read X once, at
        least a million.
    max_accesses : int, default=None
        Limit on feature values read by the solver of each binary problem, never exceeded.
    %(class_weight)s
    n_jobs : int, default=None
        Threads over one-vs-rest problems. The result does not depend on them.
    %(draws)s
    %(class_watchers)s
    %(kernel)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of the dtype of X; with kernel="linear" only.
    support_, support_vectors_, dual_coef_
        With another kernel: indices of the rows drawn, the rows, and their coefficients, an array
        of shape (n_problems, n_support): f = sum_j dual_coef_j k(support vector j, .).
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
        Rows, and columns, drawn.
    result_ : Result
        The objective, a lower bound, their gap, feature values read.

    See Also
    --------
    SDCAClassifier : The same objective by dual coordinate ascent, faster for small gaps, for small
        alpha, below 0.1 for rows of length 1, and for features that are not centred.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, section
    III-C.

    Carmon, Jin, Sidford, Tian, "Variance reduction for matrix games", NeurIPS 2019.

    Examples
    --------
    >>> from sublinear import L2SVMClassifier
    >>> model = L2SVMClassifier(random_state=0).fit([[-1.0], [-0.5], [0.5], [1.0]], [0, 0, 1, 1])
    >>> model.predict([[0.7]])
    array([1])
    """

    certify, variant, constants, row_norm = "las_vegas", "auto", "practical", None
    _instead = 'centre X, or use SDCAClassifier(loss="squared_hinge")'

    def __init__(
        self,
        alpha=0.01,
        epsilon=0.01,
        *,
        fit_intercept=True,
        intercept_scaling=1.0,
        batch_size="auto",
        max_iter=None,
        max_accesses=None,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
        kernel="linear",
        kernel_values="exact",
        gamma="scale",
        degree=3,
        coef0=0.0,
    ):
        self.alpha = alpha
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.kernel = kernel
        self.kernel_values = kernel_values
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    @fit_method
    @with_parameters()
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is; other types are converted. Sparse
            data also gets a copy in column order. Kernels need rows in memory. A store or an oracle
            is read as a whole, once in every stage.
        %(labels)s
        %(sample_weight)s

        Returns
        -------
        self : L2SVMClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        check_kernel_parameters(self, X)
        X, y = check_training_data(self, X, y)
        self.classes_ = find_classes(y)
        counts = check_sample_weight(sample_weight, X)
        weights = combine_weights(self.class_weight, self.classes_, y, counts)
        given = RowNumbers(weights)
        X, y, weights = drop_weightless(X, y, weights)
        weights = np.ones(len(y)) if weights is None else weights
        # class_weight leaves the kernel as it is
        training = self._class_training(X, y, weights, given.part(counts))
        training.given = given
        return self._solve(training, limits_of(self, training.plan))

    def _check_parameters(self):
        super()._check_parameters()
        check_number("alpha", self.alpha, low=0, open_low=True)

    def _plan(self, matrix):
        return Plan(self, "hull", matrix, self.epsilon, variant=variant_of(self))

    def _kernel_plan(self, space):
        return KernelPlan(self, "hull", space, self.epsilon, 1.0)

    def _solver(self, training, k, random, n_jobs):
        weights = training.weights
        ridge = np.sqrt(self.alpha * weights.sum() / (2 * weights))
        problem = SquaredHinge(training.targets[k](), ridge, self.alpha, self.epsilon)
        return training.plan.solver(problem, random)
