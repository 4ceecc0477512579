"""Linear models over the machines of a Dask cluster: rows stay where they are.

The estimators minimise what those of `sublinear.linear` do, and certify it with a duality gap over
all rows. They need the extra "dask" (dask[distributed]) for dask arrays and clusters; without it
they fit partitions one after the other in this process, with the same numbers.
"""

import dataclasses
import itertools

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sublinear import linear
from sublinear._block_ascent import COMBINATIONS, BlockDualAscent
from sublinear._cluster import (
    ClusterPartitions,
    blocks_of,
    chunks_of,
    connected,
    contiguous_groups,
    is_dask_array,
)
from sublinear._core.losses import REGRESSION_LOSSES
from sublinear._linear_model import LinearClassifier, LinearModel, Training
from sublinear._partitions import LocalPartitions, Partition, Problem
from sublinear._validation import (
    check_choice,
    check_number,
    check_sample_weight,
    check_training_data,
    class_factors,
)

__all__ = ["SDCAClassifier", "SDCARegressor"]

_PARAMETERS = """\
client : dask.distributed.Client, str or None, default=None
        The cluster: a client, or the address of a scheduler. None: the current client, if there is
        one; else the partitions are worked on in this process, one after the other.
    n_partitions : int, default=None
        Parts of the rows that are worked on at the same time. None: with dask arrays on a cluster,
        what each worker holds when the fit begins; else one. A number: runs of chunks of about
        equal size, which does not depend on the cluster, but may move rows to other workers.
        Sources are one partition each.
    combination : {"adaptive", "safe"}, default="adaptive"
        How the changes of the partitions are added up: with a caution that follows what they turn
        out to be worth together, or, as in the paper, with one that their number alone determines.
        The dual value falls with neither.
    passes : int, default=1
        Of every partition over its rows in a round. More of them save rounds where messages are
        slow, at the price of work.
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

_ATTRIBUTES = """\
n_iter_ : int
        Rounds.
    n_features_in_ : int
    n_lost_ : int
        Partitions that were lost with their worker, and made again.
    partitions_ : list of lists of int
        The chunks, or rows of arrays as [start, stop], of every partition.
    result_ : Result

    Notes
    -----
    `fit` takes dask arrays; or a list of sources instead of X, and no y; or arrays, which are
    worked on in this process. A source is an iterable of blocks (X, y) or (X, y, sample_weight), or
    a function that returns one; it is read where its partition is, and kept there in memory.

    References
    ----------
    Ma, Smith, Jaggi, Jordan, Richtarik, Takac, "Adding vs. averaging in distributed primal-dual
    optimization", ICML 2015.
"""


def _documented(cls):
    """Fill what the estimators share into a class's docstring."""
    cls.__doc__ = cls.__doc__.replace("%(parameters)s", _PARAMETERS.rstrip())
    cls.__doc__ = cls.__doc__.replace("%(attributes)s", _ATTRIBUTES.rstrip())
    return cls


@dataclasses.dataclass
class Whole:
    """All rows together, as far as what follows must know them."""

    n_columns: int
    n_stored: int
    dtype: np.dtype
    constant: float
    total_weight: float
    class_factors: dict | None

    @property
    def n_weights(self):
        """Length of a weight vector."""
        return self.n_columns + (self.constant != 0)


def describe(partitions):
    """Return the Descriptions of the partitions that have rows.

    Raises
    ------
    ValueError
        If they have no rows, or differ in columns.
    """
    found = [description for description in partitions.ask("describe") if description is not None]
    if not found:
        raise ValueError("there are no rows to learn from: all partitions are empty")
    widths = sorted({description.n_columns for description in found})
    if len(widths) > 1:
        raise ValueError(f"the partitions differ in their number of columns: {widths}")
    return found


def masses_of_labels(descriptions):
    """Return the sorted labels of all partitions and the weight of each."""
    labels = np.unique(np.concatenate([found.labels for found in descriptions]))
    masses = np.zeros(len(labels))
    for found in descriptions:
        masses[np.searchsorted(labels, found.labels)] += found.masses
    return labels, masses


class _DistributedModel(LinearModel):
    """What the estimators share: partitions, the fit over them, predictions chunk by chunk."""

    n_jobs = None  # of the process that adds up; the workers are the threads
    warm_start = False

    def fit(self, X, y=None, sample_weight=None):
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

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For parameters or data that make no sense, a scheduler that cannot be reached; the
            message says what to do.
        RuntimeError
            If workers die again and again, or with rows that cannot be computed again.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        with connected(self.client) as client:
            partitions = self._partition(client, X, y, sample_weight)
            found = describe(partitions)
            self.n_features_in_ = found[0].n_columns
            return self._solve(self._gather(partitions, found), self._limits())

    def _partition(self, client, X, y, sample_weight):
        """Return the partitions of the data, and set `partitions_`."""
        if is_dask_array(X):
            chunks, sizes = chunks_of(X, y, sample_weight)
            count = self.n_partitions or (None if client is not None else 1)
            groups = None if count is None else contiguous_groups(sizes, count)
            if client is not None:
                partitions = ClusterPartitions(client, self._numeric, chunks=chunks, groups=groups)
                self.partitions_ = partitions.groups
                return partitions
            self.partitions_ = groups
            return self._locally(
                [[chunk.compute() for chunk in chunks[k]] for k in group] for group in groups
            )
        if y is None and isinstance(X, (list, tuple)):
            self.partitions_ = [[k] for k in range(len(X))]
            if not X:
                raise ValueError("there are no sources: X is an empty list")
            if client is not None:
                return ClusterPartitions(client, self._numeric, sources=X)
            return self._locally(blocks_of(source) for source in X)
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
            [Partition(k, blocks, self._numeric) for k, blocks in enumerate(parts)]
        )

    def _gather(self, partitions, found):
        """Return the Training of described partitions, labels in place of targets."""
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
        whole = Whole(
            n_columns=found[0].n_columns,
            n_stored=sum(description.n_stored for description in found),
            dtype=np.result_type(*(description.dtype for description in found)),
            constant=self._constant(None),
            total_weight=total_weight,
            class_factors=factors,
        )
        return Training(partitions, None, None, whole, labels, None)

    def _labels(self, found):
        """Return the label of the positive class of every problem, and the factors by label."""
        return [None], None

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
        return BlockDualAscent(
            training.X,
            problem,
            n_weights=whole.n_weights,
            n_stored=whole.n_stored,
            combination=self.combination,
            passes=self.passes,
        )

    def _keep(self, solver):
        return solver.n_lost

    def _store(self, outcomes, training, seconds):
        super()._store(outcomes, training, seconds)
        self.n_lost_ = sum(outcome.kept or 0 for outcome in outcomes)

    def _check_parameters(self):
        super()._check_parameters()
        check_choice("combination", self.combination, COMBINATIONS)
        check_number("passes", self.passes, low=1, integer=True)
        if self.n_partitions is not None:
            check_number("n_partitions", self.n_partitions, low=1, integer=True)

    def to_local(self):
        """Return the fitted estimator of `sublinear` with this model, which needs no cluster.

        It can be pickled and saved with `save_model`.
        """
        check_is_fitted(self)
        local = self._local_class()
        local.set_params(
            **{name: getattr(self, name) for name in local.get_params() if hasattr(self, name)}
        )
        for name, value in vars(self).items():
            if name.endswith("_") and name not in ("n_lost_", "partitions_"):
                setattr(local, name, value)
        return local

    def _by_chunks(self, method, X, dtype, n_columns=None):
        """Return what a method of the local model says of a dask array, lazily."""
        shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
        meta = np.empty((0,) if n_columns is None else (0, 0), dtype=dtype)
        local = self.to_local().set_params(callback=None)
        return X.map_blocks(apply_to_chunk, local, method, meta, dtype=dtype, meta=meta, **shape)

    def _compute(self, value):
        with connected(self.client) as client:
            return value.compute() if client is None else client.compute(value).result()


def apply_to_chunk(chunk, model, method, empty):
    """Return what a method of a model says of a chunk; `empty` for one without rows."""
    return getattr(model, method)(chunk) if chunk.shape[0] > 0 else empty


@_documented
class SDCAClassifier(_DistributedModel, LinearClassifier):
    """Linear classification by dual coordinate ascent on many machines, with a duality gap.

    Each worker improves the duals of its rows by SDCA; one vector of the length of the model
    travels to every partition and back in a round (CoCoA+). The fit outlives its workers.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge", "smoothed_hinge", "logistic"}, default="hinge"
        As in :class:`sublinear.SDCAClassifier`.
    %(parameters)s
    smoothing : float, default=1.0
        Width of the rounding of loss="smoothed_hinge".
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the examples by class; "balanced" gives all the same total.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    %(attributes)s

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

    _numeric = False
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

    def _labels(self, found):
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

    def score(self, X, y, sample_weight=None):
        """Return the accuracy, chunk by chunk for dask arrays.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)
        y : dask array or array-like of shape (n_samples,)
        sample_weight : dask array or array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        if not is_dask_array(X):
            return super().score(X, y, sample_weight)
        right = self.predict(X) == y
        if sample_weight is None:
            return float(self._compute(right.mean()))
        return float(self._compute((sample_weight * right).sum() / sample_weight.sum()))


@_documented
class SDCARegressor(RegressorMixin, _DistributedModel):
    """Linear regression by dual coordinate ascent on many machines, with a duality gap.

    As the classifier beside it, with the losses of :class:`sublinear.SDCARegressor`.

    Parameters
    ----------
    loss : {"squared", "absolute", "epsilon_insensitive", "huber"}, default="squared"
        As in :class:`sublinear.SDCARegressor`.
    %(parameters)s
    epsilon : float, default=0.1
        Width of the insensitive or quadratic zone, in the units of y.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    %(attributes)s

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear.distributed import SDCARegressor
    >>> X, y = make_regression(random_state=0)
    >>> SDCARegressor(n_partitions=2, alpha=0.1, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _losses = REGRESSION_LOSSES
    _numeric = True
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

    def _store(self, outcomes, training, seconds):
        super()._store(outcomes, training, seconds)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    def predict(self, X):
        """Return <x_i, coef> + intercept; a dask array for one.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray or dask array of shape (n_samples,)
        """
        if not is_dask_array(X):
            return self._scores(X)
        check_is_fitted(self)
        return self._by_chunks("predict", X, self.coef_.dtype)

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination R^2, chunk by chunk for dask arrays.

        Parameters
        ----------
        X : dask array, array-like or sparse matrix of shape (n_samples, n_features)
        y : dask array or array-like of shape (n_samples,)
        sample_weight : dask array or array-like of shape (n_samples,), default=None

        Returns
        -------
        r_squared : float
        """
        if not is_dask_array(X):
            return super().score(X, y, sample_weight)
        weight = 1.0 + 0.0 * y if sample_weight is None else sample_weight
        mean = (weight * y).sum() / weight.sum()
        unexplained = (weight * (y - self.predict(X)) ** 2).sum()
        return 1.0 - float(self._compute(unexplained / (weight * (y - mean) ** 2).sum()))
