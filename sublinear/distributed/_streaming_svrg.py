"""Streaming SVRG over partitions: StreamingSVRGRegressor and StreamingSVRGClassifier."""

import dataclasses
from contextlib import closing

import numpy as np

from sublinear import sdca, streaming
from sublinear._checkpoint import open_checkpoint
from sublinear._fit_method import all_or_nothing
from sublinear._fitted_parameters import fitted_with
from sublinear._labels import (
    WEIGHTLESS,
    LabelWeights,
    class_factors,
    declared_classes,
    find_classes,
    given_classes,
    positive_classes,
)
from sublinear.distributed._cluster import connected
from sublinear.distributed._estimator import OverPartitions, documented
from sublinear.distributed._partitions import ask_retrying, summary_of
from sublinear.distributed._predictions import ChunkClassifier, ChunkRegressor
from sublinear.distributed._stage_sums import Plan, StagePartition, Stages


class _StreamedStages(OverPartitions):
    """What the estimators by Streaming SVRG share: the pass over partitions."""

    _kind = StagePartition
    _may_change = frozenset({"client", "n_partitions", "verbose", "warm_start"})
    constants, order, shuffle, random_state = "practical", 2.0, False, None
    hessian_ratio = 1.0
    smoothness = strong_convexity = step = first_stage = inner_steps = None

    @all_or_nothing
    @documented
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        classes=None,
        checkpoint=None,
        checkpoint_every=1,
        resume=True,
    ):
        """Fit the model in one pass.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
            Chunks may be dense or CSR; each holds all columns of its rows. A list without y: one
            source per partition, which is read block by block and not kept.
        y : dask array or array-like of shape (n_samples,), default=None
            Cut as X is.
        %(sample_weight)s
        classes : array-like of shape (n_classes,), default=None
            Classifiers: all labels. None, or class_weight="balanced": sources are read twice, the
            first time for them.
        checkpoint : str or path-like, default=None
            A file of this process for the state of the fit, replaced every `checkpoint_every`
            rounds and at the end. None: no file.
        checkpoint_every : int, default=1
            Rounds: stages, or parts of one where a partition ends.
        resume : bool, default=True
            Go on from the checkpoint if the file is there; partitions pass over the rows that they
            had taken. The result is that of a fit without a pause, bit for bit.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For parameters or data that make no sense, a scheduler that cannot be reached, a
            checkpoint of another fit; the message says what to do.
        RuntimeError
            If workers die again and again, or with rows that cannot be computed again; if the
            connection to the scheduler is lost.
        OSError
            If the checkpoint cannot be written.
        """
        self._check_parameters()
        self._check_cluster()
        if classes is not None and self._numeric:
            raise ValueError("classes are the labels of a classifier; a regressor has none")
        checkpoint = open_checkpoint(checkpoint, checkpoint_every, resume, self, classes)
        warm = self.warm_start and self.__sklearn_is_fitted__()
        expected = self.n_features_in_ if warm else None  # arrays replace it
        known = getattr(self, "feature_names_in_", None) if warm else None
        with (
            connected(self.client) as client,
            closing(self._partition(client, X, y, sample_weight)) as partitions,
        ):
            starts = ask_retrying(partitions, "start")
            self._note_columns(starts, known)
            if warm and self.n_features_in_ != expected:
                raise ValueError(
                    f"there are {self.n_features_in_} columns; the model goes on from {expected}"
                )
            plan = self._plan(partitions, classes, warm, checkpoint is not None)
            stages = self._begun_stages(partitions, plan, warm, checkpoint)

            def after():
                self._dtype = np.promote_types(self._dtype, stages.dtype)
                if checkpoint is not None and checkpoint.is_due(stages.n_rounds):
                    checkpoint.save(self._stream_state() | stages.state())

            vars(self).pop("stream_", None)  # workers would not answer before a round ends
            try:
                stages.run(after)
                self.stream_ = summary_of(stages.ask("summary"))
            finally:
                self.n_lost_ = stages.n_lost
            if not self._solvers[0].n_rows:
                raise ValueError(WEIGHTLESS)
            self._find_models()
            if checkpoint is not None:
                checkpoint.save(self._stream_state() | stages.state())
        return self

    def _begun_stages(self, partitions, plan, warm, checkpoint):
        """Return the Stages, which begin behind the rows that the checkpoint has."""
        state = None
        if checkpoint is not None:
            checkpoint.identify_partitions(ask_retrying(partitions, "first_mark"))
            state = checkpoint.load()
        if warm:
            self._copy_solvers()
        else:
            self._begin(1 if plan.classes is None else len(positive_classes(plan.classes)))
        self._known = {}
        stages = Stages(partitions, plan, self._solvers)
        if state:
            stages.set_state(state)
        stages.n_lost += partitions.n_lost
        stages.open()
        if state:
            checkpoint.compare_partitions(stages.ask("mark"), state)
            self._set_stream_state(state)
            stages.solvers = self._solvers
            checkpoint.last = stages.n_rounds
        return stages

    def _plan(self, partitions, classes, warm, marked):
        """Return the Plan, and set the classes."""
        plan = Plan(
            make_loss=self._losses[self.loss].maker(self),
            constant=self.intercept_scaling if self.fit_intercept else 0.0,
            counts=self.loss == "poisson",
            marked=marked,
        )
        if warm:
            self._check_same_problem()
        if self._numeric:
            return plan
        if warm:
            self._refuse_to_balance()
            classes = declared_classes(self.classes_, classes, self.classes_)
        known = LabelWeights()
        if classes is None or self._is_balanced():
            for labels in ask_retrying(partitions, "labels"):
                if labels is not None:
                    known.add_all(labels)
        self.classes_ = find_classes(known.labels) if classes is None else given_classes(classes)
        factors = class_factors(self.class_weight, self.classes_, known.of(self.classes_))
        return dataclasses.replace(plan, classes=self.classes_, factors=factors)

    def to_local(self):
        """Return the fitted estimator of `sublinear` with this model, which needs no cluster.

        It can be pickled, and can go on with `partial_fit`.

        Returns
        -------
        local : estimator
        """
        local = self._local_copy()
        local._set_stream_state(self._stream_state())
        return local

    def _scorer(self):
        scorer = self._scorer_class(fitted_with(self, "loss"))
        for name in ("coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(scorer, name, getattr(self, name))
        return scorer


@documented
class StreamingSVRGRegressor(ChunkRegressor, _StreamedStages, streaming.StreamingSVRGRegressor):
    """Linear regression in one pass over partitions, by Streaming SVRG.

    The stages of :class:`sublinear.StreamingSVRGRegressor`, of which every partition takes an equal
    share: it sums the gradients of its rows, and sums are added up on their way. A few rows of
    every stage, `kept_rows`, are sent along. Rows are taken as they come, and should be independent
    draws in every partition. `fit_stream` and `partial_fit` go on in this process.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"}, default="squared"
        As in :class:`sublinear.StreamingSVRGRegressor`.
    %(cluster)s
    alpha : float, default=0.0
        Strength of the penalty alpha / 2 |w|^2.
    epsilon : float, default=1.35
        Where loss="huber" becomes linear, in the units of y. (That of the other regressors is 0.1
        by default.)
    kept_rows : int, default=None
        Rows kept of a stage. None: 20 for every feature, 4096 at the least, and at the most as many
        as hold 2^23 values if dense; so many where few of them decide the model.
    growth : float, default=None
        By what factor a stage multiplies the rows seen; None: 2.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row, penalised like the
        others.
    %(intercept_scaling)s
    penalize_intercept : bool, default=True
        False: the penalty is alpha / 2 |coef|^2 alone, whatever `intercept_scaling` is.
    warm_start : bool, default=False
        Let `fit` and `fit_stream` go on from the rows seen so far, as `partial_fit` does.
    verbose : int, default=0
        1: show progress of `fit_stream` on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_features_in_ : int
    %(feature_names)s
    n_iter_ : int
        Stages completed.
    %(partitions)s
    result_ : StreamResult

    References
    ----------
    Frostig, Ge, Kakade, Sidford, "Competing with the empirical risk minimizer in a single pass",
    COLT 2015, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear.distributed import StreamingSVRGRegressor
    >>> X, y = make_regression(1000, random_state=0)
    >>> halves = [[(X[:500], y[:500])], [(X[500:], y[500:])]]
    >>> StreamingSVRGRegressor().fit(halves).score(X, y) > 0.99
    True
    """

    _local_class = streaming.StreamingSVRGRegressor

    def __init__(
        self,
        loss="squared",
        *,
        client=None,
        n_partitions=None,
        alpha=0.0,
        epsilon=1.35,
        kept_rows=None,
        growth=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        penalize_intercept=True,
        warm_start=False,
        verbose=0,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.alpha = alpha
        self.epsilon = epsilon
        self.kept_rows = kept_rows
        self.growth = growth
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.warm_start = warm_start
        self.verbose = verbose

    def _scorer(self):
        is_of_counts = fitted_with(self, "loss") == "poisson"
        return self.to_local() if is_of_counts else super()._scorer()

    _scorer_class = sdca.SDCARegressor


@documented
class StreamingSVRGClassifier(ChunkClassifier, _StreamedStages, streaming.StreamingSVRGClassifier):
    """Linear classification in one pass over partitions, by Streaming SVRG.

    See the regressor beside it; with more than two classes one model per class (one-vs-rest), all
    of the same pass.

    Parameters
    ----------
    loss : {"logistic", "smoothed_hinge", "squared_hinge"}, default="logistic"
        As in :class:`sublinear.StreamingSVRGClassifier`.
    %(cluster)s
    alpha : float, default=0.0
        Strength of the penalty alpha / 2 |w|^2.
    smoothing : float, default=1.0
        Width of the rounded part of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced", for a new `fit` alone, gives
        all the same total.
    kept_rows : int, default=None
        Rows kept of a stage. None: 20 for every feature, 4096 at the least, and at the most as many
        as hold 2^23 values if dense; so many where few of them decide the model.
    growth : float, default=None
        By what factor a stage multiplies the rows seen; None: 2.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row, penalised like the
        others.
    %(intercept_scaling)s
    penalize_intercept : bool, default=True
        False: the penalty is alpha / 2 |coef|^2 alone, whatever `intercept_scaling` is.
    warm_start : bool, default=False
        Let `fit` and `fit_stream` go on from the rows seen so far, as `partial_fit` does.
    verbose : int, default=0
        1: show progress of `fit_stream` on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    %(feature_names)s
    n_iter_ : int
        Stages completed.
    %(partitions)s
    result_ : StreamResult

    References
    ----------
    Frostig, Ge, Kakade, Sidford, "Competing with the empirical risk minimizer in a single pass",
    COLT 2015, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear.distributed import StreamingSVRGClassifier
    >>> X, y = make_classification(1000, random_state=0)
    >>> model = StreamingSVRGClassifier(n_partitions=2, alpha=1e-3).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _local_class = streaming.StreamingSVRGClassifier
    _scorer_class = sdca.SDCAClassifier

    def __init__(
        self,
        loss="logistic",
        *,
        client=None,
        n_partitions=None,
        alpha=0.0,
        smoothing=1.0,
        class_weight=None,
        kept_rows=None,
        growth=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        penalize_intercept=True,
        warm_start=False,
        verbose=0,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.alpha = alpha
        self.smoothing = smoothing
        self.class_weight = class_weight
        self.kept_rows = kept_rows
        self.growth = growth
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.warm_start = warm_start
        self.verbose = verbose
