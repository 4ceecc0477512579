"""SDCA over partitions: SDCAClassifier and SDCARegressor."""

import itertools
from functools import partial

import numpy as np

from sublinear import sdca
from sublinear._core.constant_column import column_constant, length_of_mean
from sublinear._core.starting_intercept import middle_of_parts, spread_of_parts
from sublinear._core.states import take
from sublinear._linear_model import LinearClassifier, LinearRegressor, duals_of_last_fit
from sublinear._newton_passes import NewtonPlan
from sublinear._validation import check_choice, check_flag, check_number
from sublinear.distributed._block_ascent import COMBINATIONS, BlockDualAscent, DualPartition
from sublinear.distributed._certified_rounds import CertifiedRounds, by_partition, in_order
from sublinear.distributed._estimator import documented
from sublinear.distributed._newton_rounds import MESSAGES, NUMBER
from sublinear.distributed._partitions import total_retrying
from sublinear.distributed._predictions import ChunkClassifier, ChunkRegressor


class _DualAscent(CertifiedRounds):
    """What the classifier and the regressor by SDCA over partitions share."""

    _kind = DualPartition

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("combination", self.combination, COMBINATIONS)
        check_number("passes", self.passes, low=1, integer=True)
        check_flag("penalize_intercept", self.penalize_intercept)
        check_flag("second_order", self.second_order, auto=True)

    def _penalizes_intercept(self):
        return self.penalize_intercept

    def _column(self, partitions, n_rows, n_columns):
        if not self.fit_intercept:
            return 0.0
        total, rests = total_retrying(partitions, "scales", n_columns)
        squares, blocks = zip(*rests, strict=True)
        lengths, weights, *targets = zip(*itertools.chain(*blocks), strict=True)
        return column_constant(
            n_rows,
            middle_of_parts(lengths, weights),
            length_of_mean(total, sum(squares)),
            self._scaling(),
            self.alpha,
            self._make_loss(),
            partial(spread_of_parts, *targets, weights),
            len(partitions),
        )

    def _make_rounds(self, training, problem, k):
        whole = training.whole
        plan = NewtonPlan.of(
            whole,
            1,
            problem.make_loss(),
            problem.penalty(whole.n_weights),
            self._limits(),
            self.second_order,
            extra=NUMBER * whole.n_weights**2,
            overhead=MESSAGES,
        )
        return BlockDualAscent(
            training.partitions,
            problem,
            n_weights=whole.n_weights,
            n_stored=whole.n_stored,
            combination=self.combination,
            passes=self.passes,
            start=self._start(training, k),
            plan=plan,
        )

    def _beginning(self, training):
        """The duals and intercepts of the last fit, if this one can begin there."""
        duals = duals_of_last_fit(self, len(training.labels), training.whole.n_rows)
        if duals is None:
            return {}
        return {"duals": duals, "intercepts": np.atleast_1d(self.intercept_)}

    def _start(self, training, k):
        """Return where problem k begins, as BlockDualAscent wants it."""
        middle, duals = training.whole.middle, None
        intercept, constant = middle, training.constant or 1.0
        if training.plan:
            n_problems = len(training.labels)
            intercept = take(training.plan, "intercepts", np.zeros(n_problems))[k]
            duals = np.zeros((n_problems, training.whole.n_rows))
            duals = by_partition(training, take(training.plan, "duals", duals)[k])
        return duals, float(intercept / constant), middle / constant

    def _next_start(self, solver):
        return {"duals": solver.duals()}

    def _store_starts(self, starts, training):
        vars(self).pop("dual_coef_", None)
        if starts:
            like = np.zeros(training.whole.n_rows)
            duals = np.stack([in_order(training, take(state, "duals", like)) for state in starts])
            self.dual_coef_ = duals[0] if self._numeric else duals


@documented
class SDCAClassifier(ChunkClassifier, _DualAscent, LinearClassifier):
    """Linear classification by dual coordinate ascent on many machines, with a duality gap.

    Each worker improves the duals of its rows by SDCA; one vector of the length of the model
    travels to every partition and back in a round (CoCoA+). The fit outlives its workers.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge", "logistic"}, default="hinge"
        As in :class:`sublinear.SDCAClassifier`.
    %(cluster)s
    %(dual_ascent)s
    %(alpha)s
    %(smoothing)s
    %(intercept)s
    %(class_weight)s
    %(limits)s
    %(order)s
    %(dual_warm_start)s
    %(class_watchers)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    dual_coef_ : ndarray of shape (1, n_samples) or (n_classes, n_samples), float64
        The dual variables that a certificate takes, in the order of the rows; with `warm_start`
        alone.
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(feature_names)s
    %(partitions)s
    result_ : Result

    %(notes)s

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
    optimization", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear.distributed import SDCAClassifier
    >>> X, y = make_classification(random_state=0)
    >>> halves = [[(X[:50], y[:50])], [(X[50:], y[50:])]]
    >>> model = SDCAClassifier(alpha=0.01, random_state=0).fit(halves)
    >>> bool(model.result_.relative_gap <= 1e-3)
    True
    """

    _local_class = sdca.SDCAClassifier

    def __init__(
        self,
        loss="hinge",
        *,
        client=None,
        n_partitions=None,
        combination="adaptive",
        passes=1,
        penalize_intercept=True,
        second_order="auto",
        alpha=1e-4,
        smoothing=1.0,
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.combination = combination
        self.passes = passes
        self.penalize_intercept = penalize_intercept
        self.second_order = second_order
        self.alpha = alpha
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback


@documented
class SDCARegressor(ChunkRegressor, _DualAscent, LinearRegressor):
    """Linear regression by dual coordinate ascent on many machines, with a duality gap.

    As the classifier beside it, with the losses of :class:`sublinear.SDCARegressor`.

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber"}, default="squared"
        As in :class:`sublinear.SDCARegressor`.
    %(cluster)s
    %(dual_ascent)s
    %(alpha)s
    %(zone)s
    %(intercept)s
    %(limits)s
    %(order)s
    %(dual_warm_start)s
    %(watchers)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    dual_coef_ : ndarray of shape (n_samples,), float64
        The dual variables that a certificate takes, in the order of the rows; with `warm_start`
        alone.
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(feature_names)s
    %(partitions)s
    result_ : Result

    %(notes)s

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
    optimization", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear.distributed import SDCARegressor
    >>> X, y = make_regression(random_state=0)
    >>> SDCARegressor(n_partitions=2, alpha=0.1, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _local_class = sdca.SDCARegressor

    def __init__(
        self,
        loss="squared",
        *,
        client=None,
        n_partitions=None,
        combination="adaptive",
        passes=1,
        penalize_intercept=True,
        second_order="auto",
        alpha=1e-4,
        epsilon=0.1,
        fit_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        random_state=None,
        warm_start=False,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.combination = combination
        self.passes = passes
        self.penalize_intercept = penalize_intercept
        self.second_order = second_order
        self.alpha = alpha
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback
