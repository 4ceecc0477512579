"""Linear models over the machines of a Dask cluster: rows stay where they are.

The estimators minimise what those of `sublinear.linear` and `sublinear.streaming` do. They need the
extra "dask" (dask[distributed]) for dask arrays and clusters; without it they fit partitions one
after the other in this process, with the same numbers.
"""

import dataclasses
import itertools
from functools import partial

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sublinear import linear, streaming
from sublinear._batch_steps import BatchPartition, BatchSteps
from sublinear._block_ascent import COMBINATIONS, BlockDualAscent, DualPartition
from sublinear._checkpoint import Checkpoint, RoundsCheckpoint
from sublinear._cluster import (
    ClusterPartitions,
    chunks_of,
    connected,
    contiguous_groups,
    is_dask_array,
)
from sublinear._core.iterates import AVERAGES
from sublinear._linear_model import (
    LinearClassifier,
    LinearModel,
    LinearRegressor,
    Training,
    with_parameters,
)
from sublinear._partitions import LocalPartitions, Problem, blocks_of, insist
from sublinear._stage_sums import Plan, StagePartition, Stages
from sublinear._stream import checked_block
from sublinear._validation import (
    check_batch_size,
    check_choice,
    check_flag,
    check_number,
    check_sample_weight,
    check_training_data,
    class_factors,
    find_classes,
)

__all__ = [
    "PegasosClassifier",
    "SDCAClassifier",
    "SDCARegressor",
    "StreamingSVRGClassifier",
    "StreamingSVRGRegressor",
]

_CLUSTER = """\
client : dask.distributed.Client, str or None, default=None
        The cluster: a client, or the address of a scheduler. None: the current client, if there is
        one; else the partitions are worked on in this process, one after the other.
    n_partitions : int, default=None
        Parts of the rows that are worked on at the same time. None: with dask arrays on a cluster,
        what each worker holds when the fit begins; else one. A number: runs of chunks of about
        equal size, which does not depend on the cluster, but may move rows to other workers.
        Sources are one partition each.
"""

_DUAL_ASCENT = """\
combination : {"adaptive", "safe"}, default="adaptive"
        How the changes of the partitions are added up: with a caution that follows what they turn
        out to be worth together, or, as in the paper, with one that their number alone determines.
        The dual value falls with neither.
    passes : int, default=1
        Of every partition over its rows in a round. More of them save rounds where messages are
        slow, at the price of work.
"""

_COMMON = """\
alpha : float, default=1e-4
        Strength of the penalty alpha / 2 |w|^2.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row; its weight is penalised
        like the others.
    intercept_scaling : float, default=1.0
        Value of the constant feature.
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on rounds.
    max_accesses : int, default=None
        Limit on feature values read by the solvers of each binary problem, never exceeded.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True.
"""

_OVER_PARTITIONS = """\
n_lost_ : int
        Partitions that were lost with their worker, and made again.
    partitions_ : list of lists of int
        The chunks, or rows of arrays as [start, stop], of every partition.
"""

_NOTES = """\
Notes
    -----
    `fit` takes dask arrays; or a list of sources instead of X, and no y; or arrays, which are
    worked on in this process. A source is an iterable of blocks (X, y) or (X, y, sample_weight), or
    a function that returns one; it is read where its partition is, and kept there in memory.
"""

_documented = with_parameters(
    cluster=_CLUSTER,
    dual_ascent=_DUAL_ASCENT,
    rounds=_COMMON,
    partitions=_OVER_PARTITIONS,
    notes=_NOTES,
)


@dataclasses.dataclass
class Whole:
    """All rows together, as far as what follows must know them."""

    sizes: list
    n_columns: int
    n_stored: int
    widest: int
    dtype: np.dtype
    constant: float
    total_weight: float
    class_factors: dict | None

    @property
    def n_weights(self):
        """Length of a weight vector."""
        return self.n_columns + (self.constant != 0)


def ask_steadily(partitions, method):
    """Return what partitions answer, making those again that are lost meanwhile."""
    return insist(partitions, lambda: partitions.ask(method), lambda lost: None)


def check_same_columns(widths):
    """Raise ValueError unless there is one width, and no more."""
    if not widths:
        raise ValueError("there are no rows to learn from: all partitions are empty")
    if len(set(widths)) > 1:
        raise ValueError(f"the partitions differ in their number of columns: {sorted(set(widths))}")


def masses_of_labels(descriptions):
    """Return the sorted labels of all partitions and the weight of each."""
    labels = np.unique(np.concatenate([found.labels for found in descriptions]))
    masses = np.zeros(len(labels))
    for found in descriptions:
        masses[np.searchsorted(labels, found.labels)] += found.masses
    return labels, masses


class _OverPartitions:
    """What the estimators share: how data becomes partitions, predictions chunk by chunk.

    A subclass has `_kind`, the class of its partitions; `_numeric`, whether they hold numbers to be
    predicted; and `to_local()`.
    """

    n_jobs = None  # of the process that adds up; the workers are the threads
    warm_start = False

    def _check_cluster(self):
        if self.n_partitions is not None:
            check_number("n_partitions", self.n_partitions, low=1, integer=True)

    def _partition(self, client, X, y, sample_weight):
        """Return the partitions of the data, and set `partitions_`."""
        if is_dask_array(X):
            chunks, sizes = chunks_of(X, y, sample_weight)
            count = self.n_partitions or (None if client is not None else 1)
            groups = None if count is None else contiguous_groups(sizes, count)
            if client is not None:
                partitions = ClusterPartitions(
                    client, self._kind, self._numeric, chunks=chunks, groups=groups
                )
                self.partitions_ = partitions.groups
                return partitions
            self.partitions_ = groups
            return self._locally(
                [[chunk.compute() for chunk in chunks[k]] for k in group] for group in groups
            )
        if is_sources(X, y):
            self.partitions_ = [[k] for k in range(len(X))]
            if not X:
                raise ValueError("there are no sources: X is an empty list")
            if client is not None:
                return ClusterPartitions(client, self._kind, self._numeric, sources=X)
            return self._locally(X)
        X, y = check_training_data(self, X, y, y_numeric=self._numeric)
        weights = check_sample_weight(sample_weight, X)
        count = min(self.n_partitions or 1, X.shape[0])
        cuts = np.linspace(0, X.shape[0], count + 1).astype(int).tolist()
        self.partitions_ = [list(pair) for pair in itertools.pairwise(cuts)]
        arrays = [X, y] if weights is None else [X, y, weights]
        return self._locally(
            [tuple(array[start:stop] for array in arrays)] for start, stop in self.partitions_
        )

    def _locally(self, parts):
        return LocalPartitions(
            [self._kind(k, source, self._numeric) for k, source in enumerate(parts)]
        )

    def _local_copy(self):
        """Return the estimator of `sublinear` with the same parameters and public attributes."""
        check_is_fitted(self)
        local = self._local_class()
        local.set_params(
            **{name: getattr(self, name) for name in local.get_params() if hasattr(self, name)}
        )
        for name, value in vars(self).items():
            if name.endswith("_") and name not in ("n_lost_", "partitions_"):
                setattr(local, name, value)
        return local

    def _scorer(self):
        """Return a model of few parts that says the same of rows; chunks are shown to it."""
        return self.to_local().set_params(callback=None)

    def _by_chunks(self, method, X, dtype, n_columns=None):
        """Return what a method of the local model says of a dask array, lazily."""
        shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
        meta = np.empty((0,) if n_columns is None else (0, 0), dtype=dtype)
        return X.map_blocks(
            apply_to_chunk, self._scorer(), method, meta, dtype=dtype, meta=meta, **shape
        )

    def _compute(self, value):
        with connected(self.client) as client:
            return value.compute() if client is None else client.compute(value).result()

    def _of_sources(self, function, sources):
        """Return function(source, model) for every source, computed on the workers."""
        model = self._scorer()
        with connected(self.client) as client:
            if client is None:
                return [function(source, model) for source in sources]
            futures = [client.submit(function, source, model, pure=False) for source in sources]
            return client.gather(futures)

    def predict_sources(self, sources):
        """Return what `predict` does, for the rows of sources, which are read on the workers.

        Parameters
        ----------
        sources : list
            As `fit` takes them.

        Returns
        -------
        predictions : list of ndarrays
            One for each source.
        """
        check_is_fitted(self)
        return self._of_sources(predictions_of, sources)


def is_sources(X, y):
    """Tell whether X is a list of sources."""
    return y is None and isinstance(X, (list, tuple))


def apply_to_chunk(chunk, model, method, empty):
    """Return what a method of a model says of a chunk; `empty` for one without rows."""
    return getattr(model, method)(chunk) if chunk.shape[0] > 0 else empty


def predictions_of(source, model):
    """Return the predictions for the rows of a source."""
    blocks = [np.asarray(model.predict(block[0])) for block in blocks_of(source)]
    return np.concatenate(blocks) if blocks else np.empty(0)


def evaluation_of(source, model, right):
    """Return sums over a source: weights; those of right labels, or of y, y^2, squared errors."""
    total = 0.0
    for block in blocks_of(source):
        X, y, weight = checked_block(block, not right)
        if X.shape[0] == 0:
            continue
        weight = np.ones(X.shape[0]) if weight is None else weight
        predicted = model.predict(X)
        of_rows = [predicted == y] if right else [y, np.square(y), (y - predicted) ** 2]
        total = total + np.array([weight.sum(), *(weight @ values for values in of_rows)])
    return total


class _ChunkClassifier:
    """Labels and accuracy, chunk by chunk for dask arrays."""

    _numeric = False

    def decision_function(self, X):
        """Return <x_i, coef> + intercept; a dask array for one.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray or dask array of shape (n_samples,) or (n_samples, n_classes)
        """
        if not is_dask_array(X):
            return super().decision_function(X)
        check_is_fitted(self)
        n_columns = None if len(self.classes_) == 2 else len(self.classes_)
        return self._by_chunks("decision_function", X, self.coef_.dtype, n_columns)

    def predict(self, X):
        """Return the label with the largest score; a dask array for one.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray or dask array of shape (n_samples,)
        """
        if not is_dask_array(X):
            return super().predict(X)
        check_is_fitted(self)
        return self._by_chunks("predict", X, self.classes_.dtype)

    @available_if(lambda self: self.loss == "logistic")
    def predict_proba(self, X):
        """Return class probabilities; only with loss="logistic". A dask array for one.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray or dask array of shape (n_samples, n_classes)
        """
        if not is_dask_array(X):
            return super().predict_proba(X)
        check_is_fitted(self)
        return self._by_chunks("predict_proba", X, self.coef_.dtype, len(self.classes_))

    def score(self, X, y=None, sample_weight=None):
        """Return the accuracy, where the rows are for dask arrays and sources.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
            A list of sources, and no y.
        y : dask array or array-like of shape (n_samples,)
        sample_weight : dask array or array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        if is_sources(X, y):
            mass, right = sum(self._of_sources(partial(evaluation_of, right=True), X))
            return float(right / mass)
        if not is_dask_array(X):
            return super().score(X, y, sample_weight)
        right = self.predict(X) == y
        if sample_weight is None:
            return float(self._compute(right.mean()))
        return float(self._compute((sample_weight * right).sum() / sample_weight.sum()))


class _ChunkRegressor:
    """Predictions and R^2, chunk by chunk for dask arrays."""

    _numeric = True

    def predict(self, X):
        """Return <x_i, coef> + intercept, or its exponential for counts; a dask array for one.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray or dask array of shape (n_samples,)
        """
        if not is_dask_array(X):
            return super().predict(X)
        check_is_fitted(self)
        return self._by_chunks("predict", X, self.coef_.dtype)

    def score(self, X, y=None, sample_weight=None):
        """Return the coefficient of determination R^2, where the rows are.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
            A list of sources, and no y.
        y : dask array or array-like of shape (n_samples,)
        sample_weight : dask array or array-like of shape (n_samples,), default=None

        Returns
        -------
        r_squared : float
        """
        if is_sources(X, y):
            found = sum(self._of_sources(partial(evaluation_of, right=False), X))
            mass, first, second, unexplained = found
            return float(1 - unexplained / (second - first * first / mass))
        if not is_dask_array(X):
            return super().score(X, y, sample_weight)
        weight = 1.0 + 0.0 * y if sample_weight is None else sample_weight
        mean = (weight * y).sum() / weight.sum()
        unexplained = (weight * (y - self.predict(X)) ** 2).sum()
        return 1.0 - float(self._compute(unexplained / (weight * (y - mean) ** 2).sum()))


class _CertifiedRounds(_OverPartitions, LinearModel):
    """What the estimators with a duality gap share: the fit, a problem after the other."""

    def fit(
        self, X, y=None, sample_weight=None, *, checkpoint=None, checkpoint_every=10, resume=True
    ):
        """Fit the model.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
            Chunks may be dense or CSR; each holds all columns of its rows. A list without y: one
            source per partition.
        y : dask array or array-like of shape (n_samples,), default=None
            Cut as X is.
        sample_weight : dask array or array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.
        checkpoint : str or path-like, default=None
            A file of this process for the state of the fit, that of the partitions with it;
            replaced every `checkpoint_every` rounds and at the end. None: no file.
        checkpoint_every : int, default=10
            Rounds.
        resume : bool, default=True
            Go on from the checkpoint if the file is there. The result is that of a fit without a
            pause, bit for bit, on however many workers; the partitions must be the same. False:
            begin anew and replace the file.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For parameters or data that make no sense, a scheduler that cannot be reached, a
            checkpoint of another fit; the message says what to do.
        RuntimeError
            If workers die again and again, or with rows that cannot be computed again.
        OSError
            If the checkpoint cannot be written.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        check_number("checkpoint_every", checkpoint_every, low=1, integer=True)
        check_flag("resume", resume)
        if checkpoint is not None:
            checkpoint = Checkpoint(checkpoint, checkpoint_every, resume, self, None)
        with connected(self.client) as client:
            partitions = self._partition(client, X, y, sample_weight)
            found = ask_steadily(partitions, "describe")
            check_same_columns([part.n_columns for part in found if part is not None])
            training = self._gather(partitions, found)
            self.n_features_in_ = training.matrix.n_columns
            if checkpoint is not None:
                checkpoint.identify_partitions(ask_steadily(partitions, "mark"))
                checkpoint = RoundsCheckpoint(checkpoint)
            return self._solve(training, self._limits(), checkpoint)

    def _gather(self, partitions, found):
        """Return the Training of described partitions, labels in place of targets."""
        sizes = [0 if part is None else part.n_rows for part in found]
        found = [part for part in found if part is not None]
        labels, factors = self._labels(found)
        masses = np.array([sum(description.masses.sum() for description in found)])
        if factors is not None:
            classes, masses = masses_of_labels(found)
            masses = [
                mass * factors.get(label, 1.0) for label, mass in zip(classes, masses, strict=True)
            ]
        total_weight = float(np.sum(masses))
        if not 1e-290 < total_weight < np.inf:
            raise ValueError(
                "the weights of the examples sum to zero, or to more than a floating-point number "
                "holds: there is nothing to fit"
            )
        constant = self._constant(None)
        whole = Whole(
            sizes=sizes,
            n_columns=found[0].n_columns,
            n_stored=sum(description.n_stored for description in found),
            widest=max(description.widest for description in found) + (constant != 0),
            dtype=np.result_type(*(description.dtype for description in found)),
            constant=constant,
            total_weight=total_weight,
            class_factors=factors,
        )
        return Training(partitions, None, None, whole, labels, None)

    def _labels(self, found):
        """Return the label of the positive class of every problem, and the factors by label."""
        if self._numeric:
            return [None], None
        self.classes_, masses = masses_of_labels(found)
        if len(self.classes_) < 2:
            raise ValueError(
                "y holds only one class; a classifier needs examples of at least two classes, "
                f"got {self.classes_.tolist()}"
            )
        factors = None
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, self.classes_, masses)
            factors = dict(zip(self.classes_.tolist(), factors.tolist(), strict=True))
        return list(self.classes_[1:] if len(self.classes_) == 2 else self.classes_), factors

    def _solver(self, training, k, random, n_jobs):
        entry, whole = self._losses[self.loss], training.matrix
        problem = Problem(
            loss=entry.loss,
            loss_parameters=tuple(getattr(self, name) for name in entry.parameters),
            alpha=self.alpha,
            total_weight=whole.total_weight,
            constant=whole.constant,
            seed=random.bit_generator.seed_seq,
            label=training.targets[k],
            class_factors=whole.class_factors,
        )
        return self._make_rounds(training.X, problem, whole)

    def _keep(self, solver):
        return solver.n_lost

    def _store(self, outcomes, training, seconds):
        super()._store(outcomes, training, seconds)
        self.n_lost_ = sum(outcome.kept or 0 for outcome in outcomes)

    def _check_parameters(self):
        super()._check_parameters()
        self._check_cluster()

    def to_local(self):
        """Return the fitted estimator of `sublinear` with this model, which needs no cluster.

        It can be pickled and saved with `save_model`.
        """
        return self._local_copy()


class _DualAscent(_CertifiedRounds):
    """Those by SDCA."""

    _kind = DualPartition

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("combination", self.combination, COMBINATIONS)
        check_number("passes", self.passes, low=1, integer=True)

    def _make_rounds(self, partitions, problem, whole):
        return BlockDualAscent(
            partitions,
            problem,
            n_weights=whole.n_weights,
            n_stored=whole.n_stored,
            combination=self.combination,
            passes=self.passes,
        )


@_documented
class SDCAClassifier(_ChunkClassifier, _DualAscent, LinearClassifier):
    """Linear classification by dual coordinate ascent on many machines, with a duality gap.

    Each worker improves the duals of its rows by SDCA; one vector of the length of the model
    travels to every partition and back in a round (CoCoA+). The fit outlives its workers.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge", "logistic"}, default="hinge"
        As in :class:`sublinear.SDCAClassifier`.
    %(cluster)s
    %(dual_ascent)s
    %(rounds)s
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Rounds.
    n_features_in_ : int
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

    _local_class = linear.SDCAClassifier

    def __init__(
        self,
        loss="hinge",
        *,
        client=None,
        n_partitions=None,
        combination="adaptive",
        passes=1,
        alpha=1e-4,
        smoothing=1.0,
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.combination = combination
        self.passes = passes
        self.alpha = alpha
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback


@_documented
class SDCARegressor(_ChunkRegressor, _DualAscent, LinearRegressor):
    """Linear regression by dual coordinate ascent on many machines, with a duality gap.

    As the classifier beside it, with the losses of :class:`sublinear.SDCARegressor`.

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber"}, default="squared"
        As in :class:`sublinear.SDCARegressor`.
    %(cluster)s
    %(dual_ascent)s
    %(rounds)s
    epsilon : float, default=0.1
        Width of the insensitive or quadratic zone, in the units of y.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Rounds.
    n_features_in_ : int
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

    _local_class = linear.SDCARegressor

    def __init__(
        self,
        loss="squared",
        *,
        client=None,
        n_partitions=None,
        combination="adaptive",
        passes=1,
        alpha=1e-4,
        epsilon=0.1,
        fit_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.combination = combination
        self.passes = passes
        self.alpha = alpha
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback


@_documented
class PegasosClassifier(_ChunkClassifier, _CertifiedRounds, LinearClassifier):
    """Linear classification by sub-gradient steps with large batches, on many machines.

    Every partition adds the sub-gradient of its share of a batch; one vector of the length of the
    model travels to every partition in a round, and one comes back, added up on its way. The steps
    are those of Pegasos, 1 / (alpha t). For small gaps SDCAClassifier takes far fewer rounds.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "logistic", "squared_hinge"}, default="hinge"
        As in :class:`sublinear.PegasosClassifier`. "squared_hinge", whose derivatives are not
        bounded, needs projection.
    %(cluster)s
    batch_size : int or "all", default="all"
        Examples per round, of all partitions together. Shares are rounded: a batch may be larger or
        smaller by one for each partition.
    average : {"tail", "mean", "last", "random"}, default="tail"
        As in :class:`sublinear.PegasosClassifier`.
    projection : bool, default=False
        Project w onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    %(rounds)s
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(partitions)s
    result_ : Result

    %(notes)s
    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, Figure 2.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear.distributed import PegasosClassifier
    >>> X, y = make_classification(random_state=0)
    >>> model = PegasosClassifier(alpha=0.1, n_partitions=2, tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    """

    _kind = BatchPartition
    _local_class = linear.PegasosClassifier

    def __init__(
        self,
        loss="hinge",
        *,
        client=None,
        n_partitions=None,
        batch_size="all",
        average="tail",
        projection=False,
        alpha=1e-4,
        smoothing=1.0,
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        tol=1e-3,
        max_iter=1000,
        max_accesses=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.batch_size = batch_size
        self.average = average
        self.projection = projection
        self.alpha = alpha
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        super()._check_parameters()
        if self.batch_size != "all":
            check_number("batch_size", self.batch_size, low=1, integer=True)
        check_choice("average", self.average, AVERAGES)
        check_flag("projection", self.projection)
        if not self._losses[self.loss].lipschitz and not self.projection:
            raise ValueError(
                f"the derivatives of loss={self.loss!r} are not bounded: it needs projection=True"
            )

    def _make_rounds(self, partitions, problem, whole):
        n_rows = sum(whole.sizes)
        check_batch_size(self.batch_size, n_rows)
        return BatchSteps(
            partitions,
            problem,
            n_weights=whole.n_weights,
            n_stored=whole.n_stored,
            sizes=whole.sizes,
            widest=whole.widest,
            batch_size=n_rows if self.batch_size == "all" else self.batch_size,
            average=self.average,
            projection=self.projection,
        )


class _StreamedStages(_OverPartitions):
    """What the estimators by Streaming SVRG share: the pass over partitions."""

    _kind = StagePartition
    constants, order, shuffle, random_state = "practical", 2.0, False, None
    smoothness = strong_convexity = step = first_stage = inner_steps = None

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
        sample_weight : dask array or array-like of shape (n_samples,), default=None
        classes : array-like of shape (n_classes,), default=None
            Classifiers: all labels. None: sources are read twice, the first time for them.
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
            If workers die again and again, or with rows that cannot be computed again.
        """
        self._check_parameters()
        self._check_cluster()
        check_number("checkpoint_every", checkpoint_every, low=1, integer=True)
        check_flag("resume", resume)
        if classes is not None and self._numeric:
            raise ValueError("classes are the labels of a classifier; a regressor has none")
        if checkpoint is not None:
            checkpoint = Checkpoint(checkpoint, checkpoint_every, resume, self, classes)
        with connected(self.client) as client:
            partitions = self._partition(client, X, y, sample_weight)
            starts = ask_steadily(partitions, "start")
            found = [start for start in starts if start is not None]
            check_same_columns([start.n_columns for start in found])
            self.n_features_in_ = found[0].n_columns
            plan = self._plan(partitions, classes)
            state = None
            if checkpoint is not None:
                checkpoint.identify_partitions([start and start.mark for start in starts])
                state = checkpoint.load()
            self._begin(1 if plan.positive is None else len(plan.positive))
            self._dtype = np.result_type(*(start.dtype for start in found))
            self._known = {}
            stages = Stages(partitions, plan, self._solvers)
            if state:
                self._set_stream_state(state)
                stages.solvers = self._solvers
                stages.set_state(state)
                checkpoint.last = stages.n_rounds

            def after():
                if checkpoint is not None and checkpoint.is_due(stages.n_rounds):
                    checkpoint.save(self._stream_state() | stages.state())

            try:
                stages.run(after)
            finally:
                self.n_lost_ = stages.n_lost
            if checkpoint is not None:
                checkpoint.save(self._stream_state() | stages.state())
        return self

    def _plan(self, partitions, classes):
        """Return the Plan, and set the classes."""
        entry = self._losses[self.loss]
        plan = Plan(
            loss=entry.loss,
            loss_parameters=tuple(getattr(self, name) for name in entry.parameters),
            constant=self.intercept_scaling if self.fit_intercept else 0.0,
            counts=self.loss == "poisson",
        )
        if self._numeric:
            return plan
        if classes is None:
            found = [labels for labels in ask_steadily(partitions, "labels") if labels is not None]
            classes = np.unique(np.concatenate(found))
        self.classes_ = find_classes(np.asarray(classes))
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return dataclasses.replace(plan, classes=self.classes_, positive=positive)

    def to_local(self):
        """Return the fitted estimator of `sublinear` with this model, which needs no cluster.

        It can be pickled, and can go on with `partial_fit`.
        """
        local = self._local_copy()
        local._set_stream_state(self._stream_state())
        return local

    def _scorer(self):
        scorer = self._scorer_class(self.loss)
        for name in ("coef_", "intercept_", "classes_", "n_features_in_"):
            if hasattr(self, name):
                setattr(scorer, name, getattr(self, name))
        return scorer


@_documented
class StreamingSVRGRegressor(_ChunkRegressor, _StreamedStages, streaming.StreamingSVRGRegressor):
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
        Where loss="huber" becomes linear.
    kept_rows : int, default=None
        Rows kept of a stage. None: 20 for every feature, 4096 at the least, and at the most as many
        as hold 2^23 values if dense.
    growth : float, default=None
        By what factor a stage multiplies the rows seen; None: 2.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row, penalised like the
        others.
    intercept_scaling : float, default=1.0
    verbose : int, default=0
        1: show progress of `fit_stream` on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_features_in_ : int
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
        self.verbose = verbose

    def _scorer(self):
        return super()._scorer() if self.loss != "poisson" else self.to_local()

    _scorer_class = linear.SDCARegressor


@_documented
class StreamingSVRGClassifier(_ChunkClassifier, _StreamedStages, streaming.StreamingSVRGClassifier):
    """Linear classification in one pass over partitions, by Streaming SVRG.

    See the regressor beside it; with more than two classes one model per class (one-vs-rest), all
    of the same pass.

    Parameters
    ----------
    loss : {"logistic", "smoothed_hinge", "squared_hinge"}, default="logistic"
    %(cluster)s
    alpha : float, default=0.0
        Strength of the penalty alpha / 2 |w|^2.
    smoothing : float, default=1.0
        Width of the rounded part of loss="smoothed_hinge".
    kept_rows : int, default=None
        Rows kept of a stage. None: 20 for every feature, 4096 at the least, and at the most as many
        as hold 2^23 values if dense.
    growth : float, default=None
        By what factor a stage multiplies the rows seen; None: 2.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row, penalised like the
        others.
    intercept_scaling : float, default=1.0
    verbose : int, default=0
        1: show progress of `fit_stream` on stderr.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
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
    _scorer_class = linear.SDCAClassifier

    def __init__(
        self,
        loss="logistic",
        *,
        client=None,
        n_partitions=None,
        alpha=0.0,
        smoothing=1.0,
        kept_rows=None,
        growth=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        verbose=0,
    ):
        self.loss = loss
        self.client = client
        self.n_partitions = n_partitions
        self.alpha = alpha
        self.smoothing = smoothing
        self.kept_rows = kept_rows
        self.growth = growth
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.verbose = verbose
