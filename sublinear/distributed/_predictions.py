"""Predictions and scores where the rows are: chunk by chunk, source by source."""

import functools
import math
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sublinear._classification import has_probabilities
from sublinear._core.aligned import contiguous
from sublinear._documentation import with_parameters
from sublinear._labels import unboxed
from sublinear._stream import checked_block, names_of_block, naming, parts_of_block
from sublinear._validation import agreed_names, column_names
from sublinear._warnings import warn
from sublinear.distributed._cluster import (
    PLACE_OF_CHUNK,
    as_dask_array,
    chunks_like,
    connected,
    gathered,
    is_dask,
    of_chunks,
    pickled,
    told_of_source,
)
from sublinear.distributed._estimator import (
    check_sources,
    is_sources,
    is_stream,
    refuse_weights,
)
from sublinear.distributed._partitions import blocks_of
from sublinear.sources._faults import EmptySource

_documented = with_parameters(
    X="""\
X : dask array, array-like or sparse matrix of shape (n_samples, n_features)
        Rows with the features of the fit.""",
    X_or_sources="""\
X : dask array, array-like or sparse matrix of shape (n_samples, n_features), or list
        Rows with the features of the fit. A list of sources, and no y.""",
    sample_weight="""\
sample_weight : dask array or array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. Sources yield their own.""",
)


class _Predictions:
    """What classifiers and regressors share: a model that is shown chunks or sources.

    A subclass is an OverPartitions too, for its `_scorer()`.
    """

    def _by_chunks(self, method, X, dtype, n_columns=None):
        """Return what a method of the local model says of a dask array, lazily.

        `dtype` None: scores, which have the type of the weights or of X, whichever holds both.
        """
        self._compare_names(column_names(X))
        X = as_dask_array(X)
        if X.ndim != 2:
            raise ValueError(f"X must be two-dimensional, got {X.ndim} dimensions")
        X = X.rechunk({1: -1})  # whole rows
        if dtype is None:
            own = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
            dtype = np.result_type(self.coef_.dtype, own)
        shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
        empty = np.empty((0,) if n_columns is None else (0, n_columns), dtype=dtype)
        model = without_names(self._scorer())
        return X.map_blocks(apply_to_chunk, model, method, empty, dtype=dtype, meta=empty, **shape)

    def _compare_names(self, names):
        """Raise ValueError if columns have other names than those of the fit."""
        agreed_names(getattr(self, "feature_names_in_", None), names)

    def _of_sources(self, function, sources):
        """Return function(source, model, place) for every source, computed on the workers."""
        model = self._scorer()
        places = [f"block {{}} of partition {k}" for k in range(len(sources))]
        with connected(self.client) as client:
            check_sources(sources, client)
            if client is None:
                pairs = zip(sources, places, strict=True)
                return [function(source, model, place) for source, place in pairs]
            asked = [
                client.submit(
                    told_of_source, function, pickled(source), k, model, places[k], pure=False
                )
                for k, source in enumerate(sources)
            ]
            return gathered(client, asked)

    def _evaluation(self, X, y, sample_weight):
        """Return the Evaluation of all rows of a list of sources or of dask arrays."""
        check_is_fitted(self)
        function = partial(evaluation_of, right=not self._numeric)
        self._compare_names(column_names(X))
        if is_sources(X, y):
            refuse_weights(sample_weight)
            parts = self._of_sources(function, X)
        else:
            with connected(self.client) as client:
                parts = of_chunks(
                    client, function, chunks_like(X, y, sample_weight), self._scorer()
                )
        whole = functools.reduce(added, parts, NOTHING)
        if whole.rows == 0:
            raise EmptySource
        if whole.weight == 0:
            raise ValueError("the weights of all rows are 0: there is nothing to score")
        return whole

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


def apply_to_chunk(chunk, model, method, empty, block_id=(0,)):
    """Return what a method of a model says of a chunk; `empty` for one without rows."""
    with naming(PLACE_OF_CHUNK % block_id[0]):
        return getattr(model, method)(chunk) if chunk.shape[0] > 0 else empty


def without_names(model):
    """Return a model that takes rows without names as a matter of course."""
    model = copy(model)
    vars(model).pop("feature_names_in_", None)
    return model


def check_names(model, source, block):
    """Raise ValueError if a source's columns have other names than those of the model's fit."""
    names = getattr(model, "feature_names_in_", None)
    for given in (getattr(source, "feature_names", None), names_of_block(block)):
        agreed_names(names, given)


def predictions_of(source, model, place):
    """Return the predictions for the rows of a source; `place` names a block in errors."""
    source, nameless, found = blocks_of(source), without_names(model), []
    for number, block in enumerate(source, start=1):
        with naming(place.format(number)):
            X, *_ = parts_of_block(block)
            check_names(model, source, block)
            if number_of(X) > 0:
                reader = nameless if names_of_block(block) is None else model
                found.append(np.asarray(reader.predict(X)))
    kind = getattr(model, "classes_", model.coef_).dtype
    return np.concatenate(found) if found else np.empty(0, kind)


def number_of(X):
    """Return the number of rows."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


class Evaluation(NamedTuple):
    """What is known of predictions for some rows.

    Attributes
    ----------
    rows : int
    weight : float
        The sum of the weights.
    score : float
        Of the rows that are predicted right; of the squared errors.
    mean, spread : float
        Of the targets: their mean, and the weighted sum of their squared distances to it.
    """

    rows: int
    weight: float
    score: float
    mean: float = 0.0
    spread: float = 0.0


NOTHING = Evaluation(0, 0.0, 0.0)


def added(first, second):
    """Return the Evaluation of the rows of two."""
    weight = first.weight + second.weight
    share = second.weight / weight if weight else 0.0
    move = second.mean - first.mean
    return Evaluation(
        rows=first.rows + second.rows,
        weight=weight,
        score=first.score + second.score,
        mean=first.mean + share * move,
        spread=first.spread + second.spread + first.weight * share * move * move,
    )


def evaluation_of(source, model, place, right):
    """Return the Evaluation of the rows of a source; `place` names a block in errors."""
    source, nameless, total = blocks_of(source), without_names(model), NOTHING
    for number, block in enumerate(source, start=1):
        with naming(place.format(number)):
            check_names(model, source, block)
            checked = checked_block(block, not right)
            total = added(total, evaluation_of_block(checked, nameless, right))
    return total


def evaluation_of_block(block, model, right):
    """Return the Evaluation of a Block: of right labels, or of squared errors."""
    X, y, weight = block
    if X.shape[0] == 0:
        return NOTHING
    weight = np.ones(X.shape[0]) if weight is None else weight
    predicted, mass = model.predict(X), float(weight.sum())
    if right:
        y = unboxed(y)
        hits = accuracy_score(y, predicted, normalize=False, sample_weight=weight) if mass else 0
        return Evaluation(len(y), mass, float(hits))
    y = contiguous(y, np.float64)
    first = y[np.argmax(weight > 0)]  # from which on equal targets have a mean without rounding
    mean = float(first + weight @ (y - first) / mass) if mass else 0.0
    errors, spread = (float(weight @ (y - other) ** 2) for other in (predicted, mean))
    return Evaluation(len(y), mass, errors, mean, spread)


def r_squared(whole):
    """Return R^2 from an Evaluation, as scikit-learn defines it: 1 or 0 for equal targets."""
    if whole.rows < 2:
        warn("R^2 of a single row is not defined", UndefinedMetricWarning)
        return math.nan
    if whole.spread == 0:
        return float(whole.score == 0)
    return float(1 - whole.score / whole.spread)


def is_chunked(X):
    """Tell whether X is of Dask; raise ValueError for sources, whose rows are not here."""
    if is_stream(X) or (isinstance(X, (list, tuple)) and any(map(is_stream, X))):
        raise ValueError("predict_sources([source, ..]) returns the predictions for sources")
    return is_dask(X)


class ChunkClassifier(_Predictions):
    """Labels and accuracy, chunk by chunk for dask arrays."""

    _numeric = False

    @_documented
    def decision_function(self, X):
        """Return <x_i, coef> + intercept; a dask array for one.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        scores : ndarray or dask array of shape (n_samples,) or (n_samples, n_classes)
        """
        if not is_chunked(X):
            return super().decision_function(X)
        check_is_fitted(self)
        n_columns = None if len(self.classes_) == 2 else len(self.classes_)
        return self._by_chunks("decision_function", X, None, n_columns)

    @_documented
    def predict(self, X):
        """Return the label with the largest score; a dask array for one.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        labels : ndarray or dask array of shape (n_samples,)
        """
        if not is_chunked(X):
            return super().predict(X)
        check_is_fitted(self)
        return self._by_chunks("predict", X, self.classes_.dtype)

    @available_if(has_probabilities)
    @_documented
    def predict_proba(self, X):
        """Return class probabilities; only with loss="logistic". A dask array for one.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        probabilities : ndarray or dask array of shape (n_samples, n_classes)
        """
        if not is_chunked(X):
            return super().predict_proba(X)
        check_is_fitted(self)
        return self._by_chunks("predict_proba", X, None, len(self.classes_))

    @available_if(has_probabilities)
    @_documented
    def predict_log_proba(self, X):
        """Return the logarithms of class probabilities; only with loss="logistic".

        Parameters
        ----------
        %(X)s

        Returns
        -------
        log_probabilities : ndarray or dask array of shape (n_samples, n_classes)
            A dask array for one.
        """
        if not is_chunked(X):
            return super().predict_log_proba(X)
        check_is_fitted(self)
        return self._by_chunks("predict_log_proba", X, None, len(self.classes_))

    @_documented
    def score(self, X, y=None, sample_weight=None):
        """Return the accuracy, where the rows are for dask arrays and sources.

        Parameters
        ----------
        %(X_or_sources)s
        y : dask array or array-like of shape (n_samples,), default=None
            True labels. Sources yield their own.
        %(sample_weight)s

        Returns
        -------
        accuracy : float
        """
        if not is_sources(X, y) and not is_dask(X):
            return super().score(X, y, sample_weight)
        whole = self._evaluation(X, y, sample_weight)
        return whole.score / whole.weight


class ChunkRegressor(_Predictions):
    """Predictions and R^2, chunk by chunk for dask arrays."""

    _numeric = True

    @_documented
    def predict(self, X):
        """Return <x_i, coef> + intercept, or its exponential for counts; a dask array for one.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        predictions : ndarray or dask array of shape (n_samples,)
        """
        if not is_chunked(X):
            return super().predict(X)
        check_is_fitted(self)
        return self._by_chunks("predict", X, None)

    @_documented
    def score(self, X, y=None, sample_weight=None):
        """Return the coefficient of determination R^2, where the rows are.

        Parameters
        ----------
        %(X_or_sources)s
        y : dask array or array-like of shape (n_samples,), default=None
            True numbers. Sources yield their own.
        %(sample_weight)s

        Returns
        -------
        r_squared : float
        """
        if not is_sources(X, y) and not is_dask(X):
            return super().score(X, y, sample_weight)
        whole = self._evaluation(X, y, sample_weight)
        return r_squared(whole)
