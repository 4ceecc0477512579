"""Where an intercept with a multiplier begins in a regression, and how far targets spread.

Dual ascent moves it by bounded steps where losses have bounded slopes: from 0 it would creep to
targets that are far away.
"""

import numpy as np

MOST_ROWS = 4096  # of a sample
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


def spread_of(targets, weights=None):
    """Return about how far nine tenths of the targets are from their median at the most.

    If that is 0, how far they are in the mean.
    """
    rows, weights = sampled(len(targets), weights)
    targets = targets[rows]
    distances = np.abs(targets - weighted_quantile(targets, weights))
    far = weighted_quantile(distances, weights, NEAR)
    return far if far or not weights.any() else float(np.average(distances, weights=weights))


def middle_of_parts(middles, weights):
    """Return about the weighted median of all numbers, from those of parts and their weights."""
    return weighted_quantile(np.array(middles), np.array(weights, dtype=np.float64))


def spread_of_parts(middles, spreads, weights):
    """Return about `spread_of` all targets, by the middles and the spreads of parts of them."""
    apart = spread_of(np.array(middles), np.array(weights, dtype=np.float64))
    return max(middle_of_parts(spreads, weights), apart)


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

    penalty = objective.alpha * objective.intercept_penalty
    found = allowed(found, objective.loss, penalty, objective.matrix.constant, loss(0.0))
    return found if last is None or is_far_off(loss(last), loss(found)) else last


def allowed(intercept, loss, penalty, constant, at_zeros):
    """Return the nearest intercept that a penalty allows; 0 where the losses vanish at zeros.

    An optimum has a penalty whose slope is a mean of those of losses, which may be bounded.

    Parameters
    ----------
    intercept : float
    loss : Loss
    penalty, constant : float
        alpha intercept_penalty, and the value of the constant column.
    at_zeros : float
        The loss of zeros.
    """
    form = loss.dual_form()
    if at_zeros == 0:
        return 0.0
    if form is None or not penalty > 0:
        return intercept
    most = form.bound * constant * constant / penalty
    return min(max(intercept, -most), most)


def is_far_off(loss, other):
    """Tell whether an intercept with such a loss is no start beside another one."""
    return loss > WORSE * other
