"""BestConstant: the b that minimises sum_i s_i l(z_i + b, y_i) for a piecewise linear loss l.

The sum's slope begins negative and grows at the kinks b = y_i + kink - z_i alone, so b is a
weighted median of these, found by quickselect in O(k) for k examples. At b the sub-gradients of the
examples whose kink is there can be chosen so that all add up to zero.
"""
import numpy as np

from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES

PIECEWISE_LINEAR = tuple(
    name for name, entry in (MARGIN_LOSSES | REGRESSION_LOSSES).items() if entry.loss().n_kinks)


cdef class BestConstant:
    """See the top of this file.

    Parameters
    ----------
    loss : Loss
        Piecewise linear: one of PIECEWISE_LINEAR.
    capacity : int
        How many examples there are at most.

    Attributes
    ----------
    best : float
        The last b found, the least if there are several.
    """

    def __cinit__(self, Loss loss, Py_ssize_t capacity):
        if loss.n_kinks == 0:
            raise ValueError(f"the loss must be piecewise linear: one of {PIECEWISE_LINEAR}")
        self.loss = loss
        self.place = np.empty(max(1, capacity) * loss.n_kinks)
        self.mass = np.empty(max(1, capacity) * loss.n_kinks)

    cdef double lowest_slope(self, double target) noexcept nogil:
        """Of the loss, left of its kinks."""
        return self.loss.derivative(target + self.loss.kink[0] - 1, target)

    cdef double jump(self, double target) noexcept nogil:
        """What the slope of the loss gains at a kink; all of a loss gain the same."""
        cdef double highest = self.loss.derivative(
            target + self.loss.kink[self.loss.n_kinks - 1] + 1, target)
        return (highest - self.lowest_slope(target)) / self.loss.n_kinks

    cdef void clear(self) noexcept nogil:
        self.count = 0
        self.slope = 0

    cdef void add(self, double prediction, double target, double weight) noexcept nogil:
        cdef int k
        self.slope += weight * self.lowest_slope(target)
        for k in range(self.loss.n_kinks):
            self.place[self.count] = target + self.loss.kink[k] - prediction
            self.mass[self.count] = weight * self.jump(target)
            self.count += 1

    cdef void swap(self, Py_ssize_t j, Py_ssize_t k) noexcept nogil:
        self.place[j], self.place[k] = self.place[k], self.place[j]
        self.mass[j], self.mass[k] = self.mass[k], self.mass[j]

    cdef double find(self) noexcept nogil:
        """The least b where the slope is not negative; 0 without examples."""
        cdef Py_ssize_t low = 0, high = self.count, left, right, k
        cdef double below = self.slope, less, equal, pivot
        cdef unsigned long long state = 1
        self.best = self.share = 0
        while low < high:
            state = state * 6364136223846793005ULL + 1442695040888963407ULL
            pivot = self.place[low + <Py_ssize_t> ((state >> 33) % <size_t> (high - low))]
            left = k = low
            right = high
            less = equal = 0
            while k < right:    # [low, left) < pivot, [left, k) = pivot, [right, high) > pivot
                if self.place[k] < pivot:
                    less += self.mass[k]
                    self.swap(left, k)
                    left += 1
                    k += 1
                elif self.place[k] > pivot:
                    right -= 1
                    self.swap(k, right)
                else:
                    equal += self.mass[k]
                    k += 1
            if left > low and below + less >= 0:
                high = left
            elif below + less + equal >= 0 or right == high:
                self.best = pivot
                self.share = min(1, max(0, -(below + less) / equal)) if equal > 0 else 0
                break
            else:
                below += less + equal
                low = right
        return self.best

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        """The sub-gradient of an added example at the b found: weighted, they add up to zero."""
        cdef double gained = 0, place
        cdef int k
        for k in range(self.loss.n_kinks):
            place = target + self.loss.kink[k] - prediction
            gained += 1 if place < self.best else (self.share if place == self.best else 0)
        return self.lowest_slope(target) + gained * self.jump(target)

    def fit(self, const double[::1] predictions, const double[::1] targets, weights=None):
        """Return b and the sub-gradients there, for arrays of one shape."""
        cdef const double[::1] masses = np.ones(len(targets)) if weights is None else weights
        cdef Py_ssize_t i
        self.clear()
        for i in range(targets.shape[0]):
            self.add(predictions[i], targets[i], masses[i])
        self.find()
        return self.best, np.array([
            self.derivative(z, y) for z, y in zip(predictions, targets, strict=True)])
