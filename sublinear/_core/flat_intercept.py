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
    """The intercepts that suit the duals of some examples, and the sum of the losses there.

    The sum is that for any of them, once all examples are added up.
    """

    low: float = -math.inf
    high: float = math.inf
    loss: float = 0.0

    def __add__(self, other):
        return Suited(max(self.low, other.low), min(self.high, other.high), self.loss + other.loss)


def _ends(form, duals):
    """Return the ends of the domain that are nearest to duals."""
    return np.where(np.abs(duals) > form.bound / 2, np.copysign(form.bound, duals), 0.0)


def are_balanced(masses):
    """Tell whether positive and negative duals weigh the same, and are at their ends."""
    positive, negative = masses
    return positive < math.inf and abs(positive - negative) <= UNBALANCED * positive


def suited(objective, duals, model):
    """Return what intercepts suit the ends at which duals are, beside the weights of a model.

    Parameters
    ----------
    objective : Objective
    duals : ndarray of shape (n_rows,), float64
        Those of all examples together have balanced `Objective.masses_of_ends`.
    model : ndarray of shape (n_weights,), float64
    """
    loss, targets, weights = objective.loss, objective.targets_array, objective.weights_array
    weights = np.ones(len(targets)) if weights is None else weights
    ends = _ends(loss.dual_form(), duals)
    w = model.copy()
    w[-1] = 0.0
    scores = objective.matrix.row_dots(w, np.arange(len(targets), dtype=np.uint32))
    objective.accesses += objective.matrix.n_stored
    low, high = (bounds - scores for bounds in _predictions(loss.dual_form(), ends, targets))
    # by Fenchel and Young; intercepts add up to nothing
    losses = -(ends * scores + loss.conjugates(ends, targets))
    counts = weights > 0
    return Suited(
        low.max(initial=-math.inf, where=counts),
        high.min(initial=math.inf, where=counts),
        float(np.sum(weights * losses)),
    )


def _predictions(form, duals, targets):
    """Return the lowest and the highest predictions at which -duals are slopes of the losses."""
    slopes = -duals
    centre = targets + form.ridge * slopes + form.epsilon * np.sign(slopes)
    width = np.where(slopes == 0, form.epsilon, 0.0)
    low, high = centre - width, centre + width
    is_easy = form.one_sided & (slopes == 0)
    low[(slopes == -form.bound) | (is_easy & (targets < 0))] = -math.inf
    high[(slopes == form.bound) | (is_easy & (targets > 0))] = math.inf
    return low, high


def centred(model, constant, found, rounded):
    """Return the model with the middle of the intercepts that suit it, None if there is none.

    Parameters
    ----------
    model : ndarray of shape (n_weights,), float64
    constant : float
        The value of the constant column.
    found : Suited
    rounded : callable
        Returns a model as it will be stored: there its intercept has to suit it, too.
    """
    if not (found.low <= found.high and math.isfinite(found.high - found.low)):
        return None
    model = model.copy()
    model[-1] = (found.low + (found.high - found.low) / 2) / constant
    model = rounded(model)
    return model if found.low <= constant * model[-1] <= found.high else None


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
    middle = centred(beside, objective.matrix.constant, found, rounded)
    if middle is None:
        return model, primal, dual
    primal = objective.penalty(middle) + found.loss / objective.total_weight
    return middle, primal, dual_beside(masses, primal, dual)


def weights_beside(masses, model):
    """Return the weights that intercepts are to suit: zeros where all duals are about to be.

    Those of a model that is as good would take forever to vanish.
    """
    return model if max(masses) > 0 else np.zeros_like(model)


def dual_beside(masses, primal, dual):
    """Return the dual value beside a model in the middle: where it is zeros, that of zeros."""
    return dual if max(masses) > 0 else primal
