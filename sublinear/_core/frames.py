"""Coordinates in which a stage's problem on kept rows is solved: its frames."""

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse import issparse

from sublinear._core.kept_rows import MOST_WEIGHTS

BY_CHANCE = 1.25  # a stream's squares by the sample's, up to which nothing is missing
FAR, SMALLEST_RANGE = 0.1, 1e-14  # of a feature by its largest value: centred between them
FEW_ROWS = 64  # that tell, mostly, that no feature is
SMALLEST = 1e-13  # eigenvalue of a span by the largest; less is rounding
WORTH_LEAVING = 0.1  # of the columns, that do not occur


def frame_of(sample, alpha):
    """Return the frame of a Sample of all rows: without columns they lack, or else Centred."""
    return Occurring.of(sample, alpha) or Centred(sample, alpha)


class Occurring:
    """The weights u of the columns that occur in sparse rows; the others are 0, and stay so.

    Attributes
    ----------
    sample : Sample
        The rows in these coordinates.
    alpha : float or ndarray of shape (n_coordinates,)
    """

    def __init__(self, sample, alpha, columns):
        rows, self.columns = sample.rows, columns
        self.n_weights = rows.shape[1]
        place = np.zeros(self.n_weights, dtype=rows.indices.dtype)
        place[columns] = np.arange(len(columns))
        parts, shape = (rows.data, place[rows.indices], rows.indptr), (rows.shape[0], len(columns))
        self.sample = sample._replace(rows=sp.csr_array(parts, shape=shape))
        self.alpha = alpha if np.ndim(alpha) == 0 else alpha[columns]

    @classmethod
    def of(cls, sample, alpha):
        """Return the frame of a Sample; None for dense or short rows, or nine tenths of columns."""
        rows = sample.rows
        if not issparse(rows) or rows.shape[1] <= MOST_WEIGHTS:
            return None
        occurs = np.zeros(rows.shape[1], dtype=bool)
        occurs[rows.indices] = True
        columns = np.flatnonzero(occurs)
        if not 0 < len(columns) <= (1 - WORTH_LEAVING) * rows.shape[1]:
            return None
        return cls(sample, alpha, columns)

    def weights(self, u):
        """Return v."""
        return self._whole(u, 0.0)

    def coordinates(self, v):
        """Return u."""
        return v[self.columns]

    def limit(self, limit):
        """Return the limit of all weights; columns that are yet to occur get the largest one."""
        return self._whole(limit, limit.max())

    def _whole(self, u, others):
        whole = np.full(self.n_weights, others)
        whole[self.columns] = u
        return whole


class Span:
    """Coordinates u in the span of a few rows, where the weights v that minimise their losses lie.

    The rows become as short as they are few, |v| = |u|. A last column whose alpha is another one,
    the constant feature, stays as it is.

    Attributes
    ----------
    sample : Sample
        The rows in these coordinates.
    alpha : ndarray of shape (n_coordinates,)
    """

    def __init__(self, sample, alpha, values, vectors):
        n_columns = self.n_columns = _n_alike(alpha)
        self.features = sample.rows[:, :n_columns]
        roots = np.sqrt(values)
        self.to_rows = vectors / roots
        last = sample.rows[:, n_columns:]
        last = last.toarray() if issparse(last) else last
        self.sample = sample._replace(rows=np.hstack([vectors * roots, last]))
        self.alpha = np.append(np.full(len(roots), alpha[0]), alpha[n_columns:])

    @classmethod
    def of(cls, sample, alpha):
        """Return the Span of a Sample's rows; None where they are many, short, or all zero."""
        n_rows, n_columns = sample.rows.shape
        if n_rows >= MOST_WEIGHTS or n_columns <= MOST_WEIGHTS:
            return None
        alpha = np.broadcast_to(alpha, n_columns)
        features = sample.rows[:, : _n_alike(alpha)]
        products = features @ features.T
        products = products.toarray() if issparse(products) else products
        if not (np.isfinite(products).all() and products.any()):
            return None
        values, vectors = scipy.linalg.eigh(products)
        kept = values > SMALLEST * values[-1]
        return cls(sample, alpha, values[kept], vectors[:, kept])

    def weights(self, u):
        """Return v."""
        n = self.to_rows.shape[1]
        return np.append(self.features.T @ (self.to_rows @ u[:n]), u[n:])

    def coordinates(self, v):
        """Return u of weights in the span."""
        inside = self.to_rows.T @ (self.features @ v[: self.n_columns])
        return np.append(inside, v[self.n_columns :])


class Centred:
    """Coordinates u in which columns of dense rows that lie far from 0 are centred.

    Their squares say little, or nothing, of their spreads. Scores are the same: the weight of the
    last column, if that is a constant one without a penalty, takes up <v, centre>. The difference
    of numbers that are so near each other is exact.

    Attributes
    ----------
    sample : Sample
        The rows in these coordinates.
    alpha : float or ndarray of shape (n_weights,)
    centre : ndarray of shape (n_weights,)
        By the constant; 0 of columns that stay as they are.
    lost : float or ndarray of shape (n_weights,)
        Of the mean squares of the features.
    """

    def __init__(self, sample, alpha):
        self.sample, self.alpha, self.lost = sample, alpha, 0.0
        middle = middles_far_from_0(sample.rows, alpha)
        self.centre = middle
        if middle.any():
            self.centre = middle.astype(np.float64) / sample.rows[0, -1]
            self.sample = sample._replace(rows=sample.rows - middle)
            self.lost = mean_squares(sample) - mean_squares(self.sample)

    def weights(self, u):
        """Return v."""
        return self._moved(u, -self.centre)

    def coordinates(self, v):
        """Return u."""
        return self._moved(v, self.centre)

    def _moved(self, v, centre):
        moved = v.copy()
        moved[-1] += centre @ v
        return moved

    def gradient(self, of_weights):
        """Return the gradient by u from that by v."""
        return of_weights - self.centre * of_weights[-1]

    def gradient_of_weights(self, gradient):
        """Return the gradient by v from that by u."""
        return gradient + self.centre * gradient[-1]

    def limit(self, limit):
        """Return the limit of the weights, which is that of the coordinates."""
        return limit

    def squares(self, squares):
        """Return the mean squares of a stream's features, as far above the sample's as they are."""
        return squares - BY_CHANCE * self.lost


def middles_far_from_0(rows, alpha):
    """Return the middles of columns that are to be centred, 0 for the others, in their dtype.

    There are none unless the last column is a constant without a penalty.
    """
    none = np.zeros(rows.shape[1], rows.dtype)
    if issparse(rows) or np.ndim(alpha) == 0 or alpha[-1] != 0:
        return none
    if not is_far(*extremes(rows[:FEW_ROWS]), 2 * FAR).any():  # then it is not so of all rows
        return none
    low, high = extremes(rows)
    if low[-1] != high[-1] or low[-1] == 0:
        return none
    return np.where(is_far(low, high, FAR), high / 2 + low / 2, 0.0).astype(rows.dtype)


def extremes(rows):
    """Return the least and the largest value of every column (float64)."""
    return rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)


def is_far(low, high, far):
    """Tell which columns have a range that is small beside their largest value, but not 0."""
    largest, half = np.maximum(high, -low), high / 2 - low / 2
    return (half < far / 2 * largest) & (half > SMALLEST_RANGE / 2 * largest)


def mean_squares(sample):
    """Return the weighted mean square of every feature of dense rows."""
    return np.einsum("i,ij,ij->j", sample.weights / sample.weights.sum(), sample.rows, sample.rows)


def _n_alike(alpha):
    """Return how many weights have the alpha of the first one: all, or all but the last."""
    return len(alpha) - int(alpha[-1] != alpha[0])
