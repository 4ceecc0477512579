"""Where the intercept of a regression begins, if it is not penalised.

Dual ascent moves it by bounded steps where losses have bounded slopes: from 0 it would creep to
targets that are far away.
"""

import numpy as np

MOST_ROWS = 4096  # of a sample
WORSE = 2.0  # times the loss: then an intercept from elsewhere is no start


def weighted_median(values, weights):
    """Return the least value with at least half of the weight at or below it; 0 without weight."""
    order = np.argsort(values, kind="stable")
    masses = np.cumsum(weights[order])
    if len(values) == 0 or not masses[-1] > 0:
        return 0.0
    return float(values[order[np.searchsorted(masses, masses[-1] / 2)]])


def sampled(n_rows):
    """Return the places of a sample at equal distances."""
    return np.arange(0, n_rows, -(-n_rows // MOST_ROWS) or 1, dtype=np.uint32)


def middle(targets, weights=None):
    """Return about the weighted median of targets.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,), default=None
    """
    rows = sampled(len(targets))
    return weighted_median(targets[rows], np.ones(len(rows)) if weights is None else weights[rows])


def starting_intercept(objective, w, last=None):
    """Return about the weighted median of what the targets exceed the predictions by.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64
    last : float, default=None
        An intercept from elsewhere, which is returned unless its loss is far more.
    """
    rows = sampled(objective.matrix.n_rows)
    targets, weights = objective.targets_array[rows], objective.weights_array
    weights = np.ones(len(rows)) if weights is None else weights[rows]
    predictions = np.zeros(len(rows))
    if w.any():
        w = w.copy()
        w[-1] = 0.0
        predictions = objective.matrix.row_dots(w, rows)
    found = weighted_median(targets - predictions, weights)

    def loss(intercept):
        return weights @ objective.loss.values(predictions + intercept, targets)

    return found if last is None or loss(last) > WORSE * loss(found) else last
