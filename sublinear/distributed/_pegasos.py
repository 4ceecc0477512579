"""Pegasos over partitions, with large batches: PegasosClassifier and PegasosRegressor."""

import numpy as np

from sublinear import pegasos
from sublinear._certified_model import objective_parameters
from sublinear._core.iterates import AVERAGES
from sublinear._core.states import part_of, prefixed, take
from sublinear._linear_model import LinearClassifier, LinearRegressor
from sublinear._validation import (
    check_batch_fits,
    check_batch_size,
    check_choice,
    check_flag,
    examples_of_batch,
)
from sublinear.distributed._batch_steps import BatchPartition, BatchSteps
from sublinear.distributed._certified_rounds import CertifiedRounds, by_partition, in_order
from sublinear.distributed._estimator import documented
from sublinear.distributed._predictions import ChunkClassifier, ChunkRegressor

BIASES = ("feature", "subgradient", "search")


class _LargeBatches(pegasos.BiasTreatment, CertifiedRounds):
    """What the classifier and the regressor by Pegasos over partitions share."""

    _kind = BatchPartition

    def _check_parameters(self):
        super()._check_parameters()
        check_batch_size(self.batch_size)
        check_choice("average", self.average, AVERAGES)
        check_flag("projection", self.projection)
        check_choice("bias", self.bias, BIASES)
        self._check_slopes()

    def _beginning(self, training):
        """Where the last fit ended, if this one can go on from there."""
        states = getattr(self, "_states", None)
        if not (self.warm_start and states and self._fitted_as == self._kind_of_fit(training)):
            return {}
        beginning = {}
        for k, state in enumerate(states):
            beginning |= prefixed(k, state)
        return beginning

    def _kind_of_fit(self, training):
        """Return what fits must have in common for the one to go on from the other."""
        classes = None if self._numeric else self.classes_.tolist()
        return objective_parameters(self), training.whole.n_weights, classes

    def _start(self, training, k):
        state = part_of(training.plan, k)
        if not state or len(state["pulls"]) != training.whole.n_rows:
            return None
        return state | {"pulls": by_partition(training, state["pulls"])}

    def _next_start(self, solver):
        ending, pulls = solver.ending()
        return ending | {"pulls": pulls}

    def _store_starts(self, starts, training):
        self._states = []
        for start in starts:
            pulls = take(start, "pulls", np.zeros(training.whole.n_rows))
            self._states.append(start | {"pulls": in_order(training, pulls)})
        self._fitted_as = self._kind_of_fit(training)

    def _make_rounds(self, training, problem, k):
        whole = training.whole
        n_rows = sum(whole.sizes)
        check_batch_fits(self.batch_size, n_rows)
        return BatchSteps(
            training.partitions,
            problem,
            n_weights=whole.n_weights,
            n_stored=whole.n_stored,
            sizes=whole.sizes,
            widest=whole.widest,
            batch_size=examples_of_batch(self.batch_size, n_rows),
            average=self.average,
            projection=self.projection,
            bias=self._treatment(),
            start=self._start(training, k),
        )


@documented
class PegasosClassifier(ChunkClassifier, _LargeBatches, LinearClassifier):
    """Linear classification by sub-gradient steps with large batches, on many machines.

    Every partition adds the sub-gradient of its share of a batch; one vector of the length of the
    model travels to every partition in a round, and one comes back, added up on its way. The steps
    are those of Pegasos, 1 / (alpha t). For small gaps SDCAClassifier takes far fewer rounds.

    Parameters
    ----------
    loss : {"hinge", "smoothed_hinge", "logistic", "squared_hinge"}, default="hinge"
        As in :class:`sublinear.PegasosClassifier`. "squared_hinge", whose derivatives are not
        bounded, needs projection=True, and bias="feature" or "search".
    %(cluster)s
    %(large_batches)s
    %(alpha)s
    %(smoothing)s
    %(intercept)s
    %(class_weight)s
    %(limits)s
    %(order)s
    %(class_watchers)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
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

    _local_class = pegasos.PegasosClassifier

    def __init__(
        self,
        loss="hinge",
        *,
        client=None,
        n_partitions=None,
        batch_size="all",
        average="tail",
        projection=False,
        bias="feature",
        warm_start=False,
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
        self.bias = bias
        self.warm_start = warm_start
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


@documented
class PegasosRegressor(ChunkRegressor, _LargeBatches, LinearRegressor):
    """Linear regression by sub-gradient steps with large batches, on many machines.

    As the classifier beside it, with the losses of :class:`sublinear.PegasosRegressor`.

    Parameters
    ----------
    loss : {"epsilon_insensitive", "absolute", "huber", "squared"}, default="epsilon_insensitive"
        As in :class:`sublinear.PegasosRegressor`. "squared", whose derivatives are not bounded,
        needs projection=True, and bias="feature" or "search".
    %(cluster)s
    %(large_batches)s
    %(alpha)s
    %(zone)s
    %(intercept)s
    %(limits)s
    %(order)s
    %(watchers)s

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Rounds.
    n_features_in_ : int
    %(feature_names)s
    %(partitions)s
    result_ : Result

    %(notes)s

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, Figure 2 and sections 5 and 6.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sublinear.distributed import PegasosRegressor
    >>> X, y = make_regression(n_features=5, n_informative=5, random_state=0)
    >>> model = PegasosRegressor(alpha=0.1, n_partitions=2, tol=0.05, random_state=0).fit(X, y)
    >>> model.result_.status
    'converged'
    """

    _local_class = pegasos.PegasosRegressor

    def __init__(
        self,
        loss="epsilon_insensitive",
        *,
        client=None,
        n_partitions=None,
        batch_size="all",
        average="tail",
        projection=False,
        bias="feature",
        warm_start=False,
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
        self.batch_size = batch_size
        self.average = average
        self.projection = projection
        self.bias = bias
        self.warm_start = warm_start
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
