"""Where an intercept without penalty begins in a regression, and what its steps are measured by.

Dual ascent moves it by bounded steps where losses have bounded slopes: from 0 it would creep to
targets that are far away.
"""

import math

import numpy as np

MOST_ROWS = 4096  # of a sample
MOST_LENGTHS = 1024
WORSE = 2.0  # times the loss: then an intercept from elsewhere is no start


def weighted_median(values, weights):
    """Return the least value with at least half of the weight at or below it; 0 without weight."""
    order = np.argsort(values, kind="stable")
    masses = np.cumsum(weights[order])
    if len(values) == 0 or not masses[-1] > 0:
        return 0.0
    return float(values[order[np.searchsorted(masses, masses[-1] / 2)]])


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
    return weighted_median(targets[rows], weights)


def typical_length(matrix, weights=None):
    """Return about the median length of a Matrix's rows, the constant column left out.

    As `median_length`, of rows at equal distances, unless these have no weight.
    """
    weights = np.ones(matrix.n_rows) if weights is None else weights
    step = matrix.n_rows // MOST_LENGTHS + 1
    if not weights[::step].any():
        step = 1
    norms = matrix.squared_norms(with_constant=False, step=step)
    return median_length(norms, weights[::step])


def median_length(norms, weights):
    """Return the weighted median length of rows that are not empty, by their squared norms.

    A few long rows leave it as it is.
    """
    return math.sqrt(weighted_median(norms, weights * (norms > 0)))


def middle_of_parts(middles, weights):
    """Return about the weighted median of all numbers, from those of parts and their weights."""
    return weighted_median(np.array(middles), np.array(weights, dtype=np.float64))


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
    found = weighted_median(targets - predictions, weights)

    def loss(intercept):
        return weights @ objective.loss.values(predictions + intercept, targets)

    return found if last is None or is_far_off(loss(last), loss(found)) else last


def is_far_off(loss, other):
    """Tell whether an intercept with such a loss is no start beside another one."""
    return loss > WORSE * other
