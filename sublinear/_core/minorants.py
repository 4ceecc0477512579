"""Minorants: the least value that a convex function of one number can have, from lines below it.

BiasSearch looks for the intercept where the minimum over all other weights is least.
"""

import math

import numpy as np

from sublinear._core.states import take


class Minorants:
    """Lines that lie nowhere above a convex function f.

    Attributes
    ----------
    bound : float
        A lower bound on f: the least value of the greatest of the lines, -inf as long as all of
        them fall, or all rise.
    lowest : float or None
        Where the greatest of the lines has that value.
    """

    def __init__(self):
        self.lines = []  # (value at 0, slope)
        self.bound, self.lowest = -math.inf, None

    def add(self, point, value, slope):
        """Take into account the line with a value and a slope at a point."""
        self.lines.append((value - slope * point, slope))
        heights, slopes = np.array(self.lines).T
        falling, rising = slopes < 0, slopes > 0
        # the greatest line's least value: the highest crossing of a falling and a rising line
        down, up = slopes[falling][:, np.newaxis], slopes[rising]
        crossings = (heights[falling][:, np.newaxis] * up - heights[rising] * down) / (up - down)
        levels = heights[~falling & ~rising]
        self.bound = max(crossings.max(initial=-math.inf), levels.max(initial=-math.inf))
        if self.bound > -math.inf:
            low = ((self.bound - heights[falling]) / slopes[falling]).max(initial=-math.inf)
            high = ((self.bound - heights[rising]) / slopes[rising]).min(initial=math.inf)
            ends = [end for end in (low, high) if math.isfinite(end)]
            self.lowest = sum(ends) / len(ends) if ends else point


class BiasSearch(Minorants):
    """Where to evaluate a convex function of the intercept next, which is nowhere negative.

    So its `bound` is 0 where lines know no better.

    Parameters
    ----------
    stride : float
        The first step while all lines fall, or all rise: it doubles until the other side is found.
    lines : ndarray of shape (n_lines, 2), default=()
        Those of a search to go on with.
    """

    def __init__(self, stride, lines=()):
        super().__init__()
        self.stride = stride
        for height, slope in lines:
            self.add(0.0, height, slope)

    def state(self):
        """Return what `from_state` needs, a flat dict."""
        return {"lines": np.array(self.lines).reshape(-1, 2), "stride": self.stride}

    @classmethod
    def from_state(cls, state):
        """Return the search of a `state()`: of the same function, as its lines are below it."""
        lines = take(state, "lines", np.empty((0, 2)), any_length=True)
        return cls(take(state, "stride", 0.0), lines.tolist())

    def add(self, point, value, slope):
        """As Minorants.add; what 0 bounds does not tell where the function is least."""
        super().add(point, value, slope)
        self.bound = max(self.bound, 0.0)  # of losses and a penalty

    def after(self, bias, value, slope):
        """Return the next point, from a lower bound of the function at `bias` and its slope."""
        self.add(bias, value, slope)
        if self.lowest is not None:
            return self.lowest
        step, self.stride = self.stride, 2 * self.stride
        return bias + math.copysign(step, -slope)
