"""Dual steps of all examples at once, with the intercept at which the duals balance.

Where an intercept is not penalised, sum_i s_i a_i = 0. Shrinking the duals that prevail does that
at a price: all of them give up a part, those too whose loss is large. Steps with a shifted
intercept change those that are cheapest to change, few as they may be.
"""

import math

from sublinear._core.inner import inner

SAMPLED = 4096  # rows, about, which tell the order of magnitude of the shift
HALVINGS = 32  # of the shift that is tried first
DOUBLINGS = 200
MOST_STEPS = 12  # of all examples, between two shifts, to find it
LEFT = 1e-3  # of the imbalance: what lies between two shifts will do


class _Steps:
    """The steps of examples as a function of the shift: an Examples' part of all."""

    def __init__(self, loss, *arrays):
        self.loss, self.arrays = loss, arrays

    def part(self, rows):
        """Return those of some of the examples."""
        return _Steps(self.loss, *(array[rows] for array in self.arrays))

    def at(self, shift):
        """Return the shift, the duals there, and their sum, which falls as the shift grows."""
        duals, predictions, targets, curvatures, weights = self.arrays
        duals = self.loss.dual_steps(duals, predictions + shift, targets, curvatures)
        return shift, duals, inner(weights, duals)


def balanced_steps(loss, duals, predictions, targets, curvatures, weights, first):
    """Return duals whose weighted sum is 0, and by how much predictions were shifted for them.

    Every example takes a dual step, with the same shift for all; between the two nearest shifts
    that were tried duals are mixed. Both results are None where no shift does.

    Parameters
    ----------
    loss : Loss
    duals, predictions, targets, curvatures, weights : ndarrays of shape (n_rows,), float64
    first : float
        A shift to try, positive.
    """
    steps = _Steps(loss, duals, predictions, targets, curvatures, weights)
    bounds = _around(steps, _size(steps, first))
    if bounds is None:
        return None, None
    low, high = _narrowed(steps, *bounds)
    share = low[2] / (low[2] - high[2]) if low[2] > high[2] else 0.0
    return low[1] + share * (high[1] - low[1]), low[0] + share * (high[0] - low[0])


def _size(steps, first):
    """Return how far a shift has to go to change the sign of the sum over a sample."""
    sample = steps.part(slice(None, None, max(1, len(steps.arrays[0]) // SAMPLED)))
    total = sample.at(0.0)[2]

    def falls_short(size):
        return sample.at(math.copysign(size, total))[2] * total > 0

    for _ in range(HALVINGS):
        if falls_short(first):
            break
        first /= 2
    for _ in range(DOUBLINGS):
        if not falls_short(first):
            break
        first *= 2
    return first


def _around(steps, size):
    """Return what is known at two shifts with sums of different signs, None if there are none."""
    near = steps.at(0.0)
    sign = math.copysign(1.0, near[2])
    for _ in range(DOUBLINGS):
        far = steps.at(near[0] + sign * size)
        if not math.isfinite(far[2]):
            return None
        if not far[2] * sign > 0:
            return (near, far) if sign > 0 else (far, near)
        near, size = far, 4 * size
    return None


def _narrowed(steps, low, high):
    """Return nearer ones: false position, where an end that stays counts for half (Illinois)."""
    wanted = LEFT * max(low[2], -high[2])
    of_low, of_high = low[2], high[2]
    for _ in range(MOST_STEPS):
        if min(low[2], -high[2]) <= wanted:
            break
        between = steps.at(low[0] + of_low / (of_low - of_high) * (high[0] - low[0]))
        if between[2] > 0:
            low, of_low, of_high = between, between[2], of_high / 2
        else:
            high, of_high, of_low = between, between[2], of_low / 2
    return low, high
