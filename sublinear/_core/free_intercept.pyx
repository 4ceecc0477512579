"""FreeIntercept: the b that minimises sum_i c_i l(z_i + b, y_i), for scores z without it.

The slope of the sum grows with b: bisection. An example whose derivative is the same at both ends
of an interval has that derivative between them too, and is not looked at again.
"""
import numpy as np

from sublinear._core.starting_intercept import middle as middle_of

cdef enum:            # rows of `slopes`
    LOW
    HIGH
    BETWEEN
    N_PLACES

cdef enum:
    MOST_HALVINGS = 100

cdef double FIRST_WIDTH = 1e-3  # of the spread of the targets: where the intercept is looked for
cdef double LEAST_WIDTH = 1e-12
cdef double MOST_WIDTH = 1e300
cdef double FARTHEST = 1e290    # ends of best intercepts; beyond: none, as all are one class
cdef double NARROW = 1e-6       # of the spread: an interval whose middle does not matter
cdef double FLAT = 1e-12        # a slope, per unit of weight, that is rounding


cdef class FreeIntercept:
    """See the top of this file.

    Parameters
    ----------
    loss : Loss
    targets : ndarray of shape (n_rows,), float64
    scales : ndarray of shape (n_rows,), float64
        c_i, not negative.

    Attributes
    ----------
    start : float
        Where a search begins: at first in the middle of the targets.
    """

    def __init__(self, Loss loss, targets, scales):
        self.loss, self.targets, self.scales = loss, targets, scales
        self.start = middle_of(targets, scales)
        off = np.abs(targets - self.start)[scales > 0]
        self.spread = off.max(initial=0.0) or 1.0
        self.flat = FLAT * np.sum(scales)
        self.undecided = np.empty(len(targets), dtype=np.intp)
        self.slopes = np.empty((N_PLACES, len(targets)))

    cdef double best(self, const double[::1] margins) noexcept nogil:
        """The best intercept.

        The middle of the best ones, where the objective is flat: if all coefficients are at their
        bounds and the classes weigh as much, its ends would favour one of them.
        """
        cdef double best = self._where_slope_is(0, self.start, margins), low, high
        if self._is_flat_around(best, margins):
            low = self._where_slope_is(-self.flat, best, margins)
            high = self._where_slope_is(self.flat, best, margins)
            if high - low < FARTHEST:
                return low + (high - low) / 2
        return best

    cdef bint _is_flat_around(self, double best, const double[::1] margins) noexcept nogil:
        cdef double narrow = NARROW * self.spread
        self._undecide()
        return (
            self._slope(best - narrow, margins, BETWEEN) >= -self.flat
            or self._slope(best + narrow, margins, BETWEEN) <= self.flat)

    cdef double _where_slope_is(
        self, double level, double start, const double[::1] margins
    ) noexcept nogil:
        """The intercept at which the slope reaches a level, searched for around `start`."""
        cdef double low, high
        low, high = self._bracket(level, start, margins)
        return self._bisect(level, low, high, margins)

    cdef (double, double) _bracket(
        self, double level, double start, const double[::1] margins
    ) noexcept nogil:
        """The ends of an interval where the slope reaches the level; their `slopes` are set."""
        cdef double low = start, high = start, width = FIRST_WIDTH * self.spread
        self._undecide()
        while self._slope(low, margins, LOW) > level and width < MOST_WIDTH:
            low -= width
            width *= 4
        width = FIRST_WIDTH * self.spread
        while self._slope(high, margins, HIGH) < level and width < MOST_WIDTH:
            high += width
            width *= 4
        return low, high

    cdef double _bisect(
        self, double level, double low, double high, const double[::1] margins
    ) noexcept nogil:
        """The intercept between the ends at which the slope reaches the level."""
        cdef double between
        cdef int _
        self._decide(LOW, HIGH)
        for _ in range(MOST_HALVINGS):
            between = low + (high - low) / 2
            if high - low <= LEAST_WIDTH * self.spread or not low < between < high:
                break
            if self._slope(between, margins, BETWEEN) > level:
                high = between
                self._decide(LOW, BETWEEN)
            else:
                low = between
                self._decide(BETWEEN, HIGH)
        return low + (high - low) / 2

    cdef void _undecide(self) noexcept nogil:
        """Let all examples be undecided."""
        cdef Py_ssize_t i
        self.decided, self.n_undecided = 0, self.undecided.shape[0]
        for i in range(self.n_undecided):
            self.undecided[i] = i

    cdef void _decide(self, int low, int high) noexcept nogil:
        """Let these places be the ends, and leave out the examples that they decide."""
        cdef Py_ssize_t k, left = 0
        for k in range(self.n_undecided):
            self.undecided[left] = self.undecided[k]
            self.slopes[LOW, left] = self.slopes[low, k]
            self.slopes[HIGH, left] = self.slopes[high, k]
            if self.slopes[LOW, left] == self.slopes[HIGH, left]:
                self.decided += self.slopes[LOW, left]
            else:
                left += 1
        self.n_undecided = left

    cdef double _slope(
        self, double intercept, const double[::1] margins, int place
    ) noexcept nogil:
        """The derivative of the objective; `slopes` keeps that of the undecided for this place."""
        cdef double total = self.decided, slope
        cdef Py_ssize_t i, k
        for k in range(self.n_undecided):
            i = self.undecided[k]
            slope = weighted_slope(
                self.loss, self.scales[i], margins[i] + intercept, self.targets[i])
            self.slopes[place, k] = slope
            total += slope
        return total
