"""Minorants: the least value that a convex function of one number can have, from lines below it.

BiasSearch looks for the intercept where the minimum over all other weights is least.
"""

import math

import numpy as np

from sublinear._core.states import take


def greatest(lines):
    """Return those of the lines, (value at 0, slope), that are the greatest one somewhere."""
    kept = []
    for height, slope in sorted(lines, key=lambda line: line[::-1]):
        if kept and kept[-1][1] == slope:  # and no higher
            kept.pop()
        while len(kept) > 1 and _is_below(kept[-1], kept[-2], (height, slope)):
            kept.pop()
        kept.append((height, slope))
    return kept


def _is_below(line, flatter, steeper):
    """Tell whether a line is nowhere above both of two others, whose slopes are around its own."""
    (height, slope), (first, low), (last, high) = line, flatter, steeper
    return (height - first) * (high - low) <= (slope - low) * (last - first)


class Minorants:
    """Lines that lie nowhere above a convex function f; those below others are dropped.

    Parameters
    ----------
    lines : iterable of (value at 0, slope), default=()

    Attributes
    ----------
    bound : float
        A lower bound on f: the least value of the greatest of the lines, -inf as long as all of
        them fall, or all rise.
    lowest : float or None
        Where the greatest of the lines has that value.
    """

    floor = -math.inf  # that f is known to have

    def __init__(self, lines=()):
        self.lines = greatest(lines)
        self._find_lowest(0.0)

    def add(self, point, value, slope):
        """Take into account the line with a value and a slope at a point."""
        self.lines = greatest([*self.lines, (value - slope * point, slope)])
        self._find_lowest(point)

    def _find_lowest(self, point):
        """Find where the greatest line is least: `point`, where that is everywhere so."""
        self.bound, self.lowest = self.floor, None
        falling = [line for line in self.lines if line[1] < 0][-1:]
        rising = [line for line in self.lines if line[1] > 0][:1]
        levels = [height for height, slope in self.lines if slope == 0]
        if falling and rising and not levels:
            (height, down), (other, up) = falling + rising
            levels = [(height * up - other * down) / (up - down)]
        if levels:
            (level,) = levels
            ends = [(level - height) / slope for height, slope in falling + rising]
            self.lowest = sum(ends) / len(ends) if ends else point
            self.bound = max(level, self.floor)


class BiasSearch(Minorants):
    """Where to evaluate a convex function of the intercept next, which is nowhere negative.

    Parameters
    ----------
    stride : float
        The first step while all lines fall, or all rise: it doubles until the other side is found.
    lines : iterable, default=()
        Those of a search to go on with.
    """

    floor = 0.0  # of losses and a penalty; it does not tell where they are least

    def __init__(self, stride, lines=()):
        super().__init__(lines)
        self.stride = stride

    def state(self):
        """Return what `from_state` needs, a flat dict."""
        return {"lines": np.array(self.lines).reshape(-1, 2), "stride": self.stride}

    @classmethod
    def from_state(cls, state):
        """Return the search of a `state()`: of the same function, as its lines are below it."""
        lines = take(state, "lines", np.empty((0, 2)), any_length=True)
        return cls(take(state, "stride", 0.0), lines.tolist())

    def after(self, bias, value, slope):
        """Return the next point, from a lower bound of the function at `bias` and its slope."""
        self.add(bias, value, slope)
        if self.lowest is not None:
            return self.lowest
        step, self.stride = self.stride, 2 * self.stride
        return bias + math.copysign(step, -slope)
