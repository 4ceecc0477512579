"""The intercept where several are optimal: the middle of them.

An intercept that is not penalised ties the duals, sum_i s_i a_i = 0, and suits them if -a_i is a
slope of l(z_i + b, y_i) for every example i: such a b minimises the objective, whatever w the
scores z come from. Duals that are all at ends of their domain suit a whole interval: those of two
classes that weigh as much, say, under a strong penalty. Where ascent ends in it is chance, and the
ends favour one class. A few duals may still be on their way, or kept from it by rounding: what
counts is whether the ends are balanced, and some intercept suits them.
"""

import math
from typing import NamedTuple

import numpy as np

UNBALANCED = 1e-12  # of all masses: what rounding leaves of balanced ones


class Suited(NamedTuple):
    """By how much an intercept may move and suit the duals of some examples.

    `loss` is the sum of their losses, and `pull` that of their duals, by which it falls with every
    move: both count once all examples are added up. Beside the intercept as it is no sum cancels
    targets that are far from 0.
    """

    low: float = -math.inf
    high: float = math.inf
    loss: float = 0.0
    pull: float = 0.0

    def __add__(self, other):
        return Suited(
            max(self.low, other.low),
            min(self.high, other.high),
            self.loss + other.loss,
            self.pull + other.pull,
        )

    @property
    def middle(self):
        """The move to the middle, None if there is none."""
        width = self.high - self.low
        return self.low + width / 2 if 0 <= width < math.inf else None

    def loss_after(self, move):
        """Return the sum of the losses after a move within the bounds."""
        return self.loss - move * self.pull


def _ends(form, duals):
    """Return the ends of the domain that are nearest to duals."""
    return np.where(np.abs(duals) > form.bound / 2, np.copysign(form.bound, duals), 0.0)


def are_balanced(masses):
    """Tell whether positive and negative duals weigh the same, and are at their ends."""
    positive, negative = masses
    return positive < math.inf and abs(positive - negative) <= UNBALANCED * positive


def suited(objective, duals, model):
    """Return what moves of a model's intercept suit the ends at which duals are.

    Parameters
    ----------
    objective : Objective
    duals : ndarray of shape (n_rows,), float64
        Those of all examples together have balanced `Objective.masses_of_ends`.
    model : ndarray of shape (n_weights,), float64
    """
    loss, targets, weights = objective.loss, objective.targets_array, objective.weights_array
    weights = np.ones(len(targets)) if weights is None else weights
    form = loss.dual_form()
    ends = _ends(form, duals)
    scores = objective.matrix.row_dots(model, np.arange(len(targets), dtype=np.uint32))
    objective.accesses += objective.matrix.n_stored
    residuals = targets - scores
    low, high = (bounds + residuals for bounds in _distances(form, ends, targets))
    # by Fenchel and Young
    losses = ends * residuals - form.ridge * ends**2 / 2 - form.epsilon * np.abs(ends)
    counts = weights > 0
    return Suited(
        low.max(initial=-math.inf, where=counts),
        high.min(initial=math.inf, where=counts),
        float(np.sum(weights * losses)),
        float(np.sum(weights * ends)),
    )


def _distances(form, duals, targets):
    """Return how far above targets predictions are, at least and at most, with slopes -duals."""
    slopes = -duals
    centre = form.ridge * slopes + form.epsilon * np.sign(slopes)
    width = np.where(slopes == 0, form.epsilon, 0.0)
    low, high = centre - width, centre + width
    is_easy = form.one_sided & (slopes == 0)
    low[(slopes == -form.bound) | (is_easy & (targets < 0))] = -math.inf
    high[(slopes == form.bound) | (is_easy & (targets > 0))] = math.inf
    return low, high


def centred(model, constant, found, rounded):
    """Return the model with the middle of the intercepts that suit it, and the sum of its losses.

    None twice if there is no middle.

    Parameters
    ----------
    model : ndarray of shape (n_weights,), float64
    constant : float
        The value of the constant column.
    found : Suited
    rounded : callable
        Returns a model as it will be stored: there its intercept has to suit it, too.
    """
    if found.middle is None:
        return None, None
    middle = model.copy()
    middle[-1] += found.middle / constant
    middle = rounded(middle)
    move = constant * (middle[-1] - model[-1])
    return (middle, found.loss_after(move)) if found.low <= move <= found.high else (None, None)


def in_the_middle(objective, duals, model, primal, dual, rounded):
    """Return a model with the middle of its best intercepts, its primal value, a dual value.

    All as they are unless the duals tell that there are several.

    Parameters
    ----------
    objective : Objective
        Of all examples.
    duals : ndarray of shape (n_rows,), float64
    model : ndarray of shape (n_weights,), float64
    primal, dual : float
    rounded : callable
        As for `centred`.
    """
    masses = objective.masses_of_ends(duals)
    if not (objective.free_intercept and are_balanced(masses)):
        return model, primal, dual
    beside = weights_beside(masses, model)
    found = suited(objective, duals, beside)
    middle, loss = centred(beside, objective.matrix.constant, found, rounded)
    if middle is None:
        return model, primal, dual
    value = objective.penalty(middle) + loss / objective.total_weight
    return middle, *values_beside(masses, value, primal, dual)


def weights_beside(masses, model):
    """Return the weights that intercepts are to suit: zeros where all duals are about to be.

    Those of a model that is as good would take forever to vanish. The intercept stays.
    """
    if max(masses) > 0:
        return model
    return np.append(np.zeros(len(model) - 1), model[-1])


def values_beside(masses, value, primal, dual):
    """Return the primal value of a model in the middle, and a dual value: that of zeros there.

    No other intercept has less, but for rounding.
    """
    return min(value, primal), dual if max(masses) > 0 else value
