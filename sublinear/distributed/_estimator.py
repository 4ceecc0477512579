"""What estimators over partitions share: how data becomes partitions, words of their docstrings."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sublinear._documentation import with_parameters
from sublinear._fitted_parameters import fitted_with, note_parameters
from sublinear._stream import check_source
from sublinear._validation import (
    agreed_names,
    check_number,
    check_sample_weight,
    check_training_data,
    column_names,
)
from sublinear.distributed._cluster import (
    ClusterPartitions,
    chunks_of,
    contiguous_groups,
    is_dask,
)
from sublinear.distributed._partitions import LocalPartitions, columns_of

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
    penalize_intercept : bool, default=True
        False: the objective holds alpha / 2 |coef|^2 alone, and `intercept_scaling` has no effect.
        Certificates then take two rounds, and more rounds may be needed.
    second_order : bool or "auto", default="auto"
        Whether to go over to a proximal Newton method, whose rounds send n_weights^2 numbers, where
        there are at most 2048 weights. "auto": where more is left for rounds of dual ascent, at
        their pace, than that is expected to take, which happens where columns have very different
        scales, rows lie far from the origin, or alpha is small; True: after the first round; False:
        never. tol=0 does without it.
"""

_DUAL_WARM_START = """\
warm_start : bool, default=False
        Begin where the last fit ended, if there are as many rows and classes; partitions and alpha
        may be others. The duals are kept in this process as `dual_coef_`, 8 bytes a row for each
        class.
"""

_LARGE_BATCHES = """\
batch_size : int or "all", default="all"
        Examples per round, of all partitions together. Shares are rounded: a batch may be larger or
        smaller by one for each partition.
    average : {"tail", "mean", "last", "random"}, default="tail"
        As in :class:`sublinear.PegasosClassifier`.
    projection : bool, default=False
        Project w onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    bias : {"feature", "subgradient", "search"}, default="feature"
        How the intercept is found, as in :class:`sublinear.PegasosClassifier`. But for "feature" it
        is not penalised, and `intercept_scaling` has no effect.
    warm_start : bool, default=False
        Go on where the last fit ended, with its number of steps, if rows, targets and the
        parameters of the objective are the same; else begin anew, as steps that are small by now
        would not lead to another optimum. 8 bytes a row for each class are kept in this process for
        the certificates of the next fit.
"""

_ALPHA = """\
alpha : float, default=1e-4
        Strength of the penalty alpha / 2 |w|^2.
"""

_INTERCEPT = """\
fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row; its weight is penalised
        like the others.
    %(intercept_scaling)s
"""

_LIMITS = """\
tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on rounds.
    max_accesses : int, default=None
        Limit on feature values read by the solvers of each binary problem, never exceeded.
"""

_ORDER = """\
random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.
"""

_OVER_PARTITIONS = """\
n_lost_ : int
        Partitions that were lost with their worker, and made again.
    partitions_ : list of lists of int
        The chunks, or rows of arrays as [start, stop], of every partition.
    stream_ : StreamSummary
        Blocks and rows of all partitions, and malformed lines that their sources left out.
"""

_NOTES = """\
Notes
    -----
    `fit` takes dask arrays, or data frames and series of Dask; or a list of sources instead of X,
    and no y; or arrays, which are worked on in this process. A source is an iterable of blocks
    (X, y) or (X, y, sample_weight), or a function that returns one; it is read where its partition
    is, and kept there in memory. It may fill the arrays of a block again:
    blocks are copied, unless they come from a list, a tuple or a class of `sublinear.sources`.
"""

_WEIGHTS = """\
sample_weight : dask array or array-like of shape (n_samples,), default=None
        Not negative; a weight k counts like k copies of the example.
"""

documented = with_parameters(
    cluster=_CLUSTER,
    dual_ascent=_DUAL_ASCENT,
    dual_warm_start=_DUAL_WARM_START,
    large_batches=_LARGE_BATCHES,
    alpha=_ALPHA,
    intercept=_INTERCEPT,
    limits=_LIMITS,
    order=_ORDER,
    sample_weight=_WEIGHTS,
    partitions=_OVER_PARTITIONS,
    notes=_NOTES,
)


class OverPartitions:
    """What the estimators share: how data becomes partitions, and the model without a cluster.

    A subclass has `_kind`, the class of its partitions; `_numeric`, whether they hold numbers to be
    predicted; and `to_local()`.
    """

    _takes_stores = False
    n_jobs = None  # of the process that adds up; the workers are the threads
    warm_start = False

    def __sklearn_clone__(self):
        """Return a clone that shares the client."""
        without = object.__new__(type(self))
        vars(without).update(vars(self), client=None)
        copy = super(OverPartitions, without).__sklearn_clone__()
        copy.client = self.client
        return copy

    def __getstate__(self):
        """Return what is pickled: of a client its scheduler's address, of a closed one None."""
        state = dict(super().__getstate__())
        if hasattr(state["client"], "scheduler"):
            state["client"] = getattr(state["client"].scheduler, "address", None)
        return state

    def _check_cluster(self):
        check_number("n_partitions", self.n_partitions, low=1, integer=True, optional=True)

    def _partition(self, client, X, y, sample_weight):
        """Return the partitions of the data; set `partitions_`, and names that X has."""
        vars(self).pop("feature_names_in_", None)  # of the last fit
        if is_dask(X):
            return self._partition_chunks(client, X, y, sample_weight)
        if is_sources(X, y):
            return self._partition_sources(client, X, sample_weight)
        if is_stream(X):
            raise ValueError("a source is one partition: give a list of sources, fit([source])")
        if isinstance(X, (list, tuple)) and any(map(is_source, X)):
            raise ValueError("sources yield their labels, (X, y): leave out y, fit(sources)")
        return self._partition_arrays(X, y, sample_weight)

    def _partition_chunks(self, client, X, y, sample_weight):
        """Do as `_partition` with dask collections: neighbouring chunks go together."""
        self._name_features(column_names(X))
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
        return self._locally(([chunks[k].compute() for k in group] for group in groups), groups)

    def _partition_sources(self, client, sources, sample_weight):
        """Do as `_partition` with a list of sources: each is a partition."""
        self.partitions_ = [[k] for k in range(len(sources))]
        if not sources:
            raise ValueError("there are no sources: X is an empty list")
        refuse_weights(sample_weight)
        check_sources(sources, client)
        if client is not None:
            return ClusterPartitions(client, self._kind, self._numeric, sources=sources)
        return self._locally(sources)

    def _partition_arrays(self, X, y, sample_weight):
        """Do as `_partition` with arrays: it cuts them into parts alike, which stay here."""
        X, y = check_training_data(self, X, y, y_numeric=self._numeric)
        weights = check_sample_weight(sample_weight, X)
        count = min(self.n_partitions or 1, X.shape[0])
        cuts = np.linspace(0, X.shape[0], count + 1).astype(int).tolist()
        self.partitions_ = [list(pair) for pair in itertools.pairwise(cuts)]
        arrays = [X, y] if weights is None else [X, y, weights]
        return self._locally(
            [tuple(array[start:stop] for array in arrays)] for start, stop in self.partitions_
        )

    def _name_features(self, names):
        """Set the names of features, unless they are None."""
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _note_columns(self, found, known=None):
        """Set the number of columns, and their names, from what all partitions tell.

        Parameters
        ----------
        found : list
            What they tell, None from those without rows.
        known : list of str, default=None
            The names of the fit that goes on.
        """
        n_columns, names = columns_of(found)
        own = getattr(self, "feature_names_in_", None)
        self._name_features(functools.reduce(agreed_names, (known, own, names)))
        self.n_features_in_ = n_columns

    def _locally(self, parts, groups=None):
        return LocalPartitions(
            [self._kind(k, source, self._numeric) for k, source in enumerate(parts)], groups
        )

    def _local_copy(self):
        """Return the estimator of `sublinear` with the parameters and public attributes."""
        check_is_fitted(self)
        local = self._local_class()
        local.set_params(
            **{name: fitted_with(self, name) for name in local.get_params() if hasattr(self, name)}
        )
        for name, value in vars(self).items():
            if name.endswith("_") and name not in ("n_lost_", "partitions_", "stream_"):
                setattr(local, name, value)
        note_parameters(local)
        return local

    def _scorer(self):
        """Return a model of few parts that says the same of rows; chunks are shown to it."""
        return self.to_local().set_params(callback=None)


def is_sources(X, y):
    """Tell whether X is a list of sources."""
    return y is None and isinstance(X, (list, tuple))


def check_sources(sources, client):
    """Raise ValueError unless these are sources, which a client, if there is one, can send."""
    if not isinstance(sources, (list, tuple)):
        raise ValueError(f"sources must be a list of them, got {type(sources).__name__}")
    for source in sources:
        if not callable(source):
            check_source(source)
        if client is not None and isinstance(source, Iterator):
            raise ValueError(
                "a generator cannot be sent to a worker: give a function that returns it"
            )


def refuse_weights(sample_weight):
    """Raise ValueError for weights beside sources."""
    if sample_weight is not None:
        raise ValueError(
            "sources yield their weights, (X, y, sample_weight): leave out sample_weight"
        )


def is_stream(X):
    """Tell whether X can only be a source: a function, a name, an iterable without length."""
    return (
        callable(X)
        or isinstance(X, (str, Path))
        or (hasattr(X, "__iter__") and not hasattr(X, "__len__"))
    )


def is_source(X):
    """Tell whether an element of a list is a source, and not a row."""
    return is_stream(X) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], (list, tuple))
    )
