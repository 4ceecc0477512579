"""Where an intercept without penalty begins in a regression, and what its steps are measured by.

Dual ascent moves it by bounded steps where losses have bounded slopes: from 0 it would creep to
targets that are far away.
"""

import math
from typing import NamedTuple

import numpy as np

MOST_ROWS = 4096  # of a sample
MOST_LENGTHS = 1024  # of rows in memory; of others those of one in so many, of every block
ROWS_OF_A_LENGTH = 64
WEIGHT_OF_SAMPLE = 0.5  # of its share, at least
NEAR = 0.9  # of the weight
WORSE = 2.0  # times the loss: then an intercept from elsewhere is no start


def weighted_quantile(values, weights, share=0.5):
    """Return the least value with such a share of the weight at or below it; 0 without weight."""
    order = np.argsort(values, kind="stable")
    masses = np.cumsum(weights[order])
    if len(values) == 0 or not masses[-1] > 0:
        return 0.0
    return float(values[order[np.searchsorted(masses, share * masses[-1])]])


def sampled(n_rows, weights):
    """Return the places of a sample of the rows that have weight, and their weights."""
    places = None if weights is None else np.flatnonzero(weights)
    count = n_rows if places is None else len(places)
    rows = np.arange(min(count, MOST_ROWS))
    if count > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).integers(count, size=MOST_ROWS))
    if places is not None:
        rows = places[rows]
    return rows.astype(np.uint32), np.ones(len(rows)) if weights is None else weights[rows]


def middle(targets, weights=None):
    """Return about the weighted median of targets.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,), default=None
    """
    rows, weights = sampled(len(targets), weights)
    return weighted_quantile(targets[rows], weights)


class Scales(NamedTuple):
    """What moves of an intercept without penalty are measured by.

    Attributes
    ----------
    length : float
        Of a typical row.
    spread : float
        Of targets that are numbers; 0 for labels.
    """

    length: float
    spread: float

    @classmethod
    def of(cls, norms, targets, weights):
        """Return those of some rows, by their squared norms; targets are None for labels.

        A few long rows leave the length as it is, and so do rows that are empty; a few far targets
        leave the spread as it is.
        """
        length = math.sqrt(weighted_quantile(norms, weights * (norms > 0)))
        return cls(length, 0.0 if targets is None else spread_of(targets, weights))

    @classmethod
    def of_sample(cls, matrix, targets, weights):
        """Return those of a Matrix's rows at equal distances, unless others have the weight."""
        weights, step = np.ones(matrix.n_rows) if weights is None else weights, 1
        every = matrix.n_rows // MOST_LENGTHS + 1
        if weights[::every].sum() >= WEIGHT_OF_SAMPLE * weights.sum() / every:
            step = every
        norms = matrix.squared_norms(with_constant=False, step=step)
        return cls.of(norms, None if targets is None else targets[::step], weights[::step])


def spread_of(targets, weights):
    """Return how far nine tenths of the targets are from their median; if that is 0, all of them.

    The latter in the mean.
    """
    distances = np.abs(targets - weighted_quantile(targets, weights))
    far = weighted_quantile(distances, weights, NEAR)
    return far if far or not weights.any() else float(np.average(distances, weights=weights))


def middle_of_parts(middles, weights):
    """Return about the weighted median of all numbers, from those of parts and their weights."""
    return weighted_quantile(np.array(middles), np.array(weights, dtype=np.float64))


def starting_intercept(objective, w, last=None):
    """Return about the weighted median of what the targets exceed the predictions by.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64
    last : float, default=None
        An intercept from elsewhere, which is returned unless its loss is far more.
    """
    rows, weights = sampled(objective.matrix.n_rows, objective.weights_array)
    targets = objective.targets_array[rows]
    predictions = np.zeros(len(rows))
    if w.any():
        w = w.copy()
        w[-1] = 0.0
        predictions = objective.matrix.row_dots(w, rows)
    found = weighted_quantile(targets - predictions, weights)

    def loss(intercept):
        return weights @ objective.loss.values(predictions + intercept, targets)

    return found if last is None or is_far_off(loss(last), loss(found)) else last


def is_far_off(loss, other):
    """Tell whether an intercept with such a loss is no start beside another one."""
    return loss > WORSE * other
