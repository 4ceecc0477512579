"""A sampler for weights that all change between draws."""
import numpy as np


cdef inline Py_ssize_t block_start(const FlatSums* sums, Py_ssize_t k) noexcept nogil:
    return k * sums.width


cdef inline Py_ssize_t block_stop(const FlatSums* sums, Py_ssize_t k) noexcept nogil:
    return min(sums.size, (k + 1) * sums.width)


cdef double sum_blocks(FlatSums* sums) noexcept nogil:
    """Gather the sums of the blocks; returns the total."""
    cdef double total = 0, a, b, c, d
    cdef Py_ssize_t k, i, stop
    for k in range(sums.n_blocks):
        a = b = c = d = 0
        i = block_start(sums, k)
        stop = block_stop(sums, k)
        while i + 4 <= stop:
            a += sums.chance[i]
            b += sums.chance[i + 1]
            c += sums.chance[i + 2]
            d += sums.chance[i + 3]
            i += 4
        while i < stop:
            a += sums.chance[i]
            i += 1
        total += (a + b) + (c + d)
        sums.cumulative[k] = total
    return total


cdef Draw draw_entries(const FlatSums* sums, double u) noexcept nogil:
    """Draw an entry, or a block where blocks are whole, by its weight; the total is positive."""
    cdef Draw draw
    cdef Py_ssize_t low = 0, high = sums.n_blocks - 1, middle, i, last
    cdef double total = sums.cumulative[high], mass = u * total, before
    while low < high:
        middle = (low + high) // 2
        if sums.cumulative[middle] > mass:
            high = middle
        else:
            low = middle + 1
    while low > 0 and sums.cumulative[low] == sums.cumulative[low - 1]:
        low -= 1                       # u * total was rounded up to the total
    before = sums.cumulative[low - 1] if low > 0 else 0
    draw.start = block_start(sums, low)
    draw.stop = block_stop(sums, low)
    draw.share = (sums.cumulative[low] - before) / total
    if sums.whole:
        return draw
    mass -= before
    last = -1
    for i in range(draw.start, draw.stop):
        if sums.chance[i] > 0:
            last = i
            if mass < sums.chance[i]:
                break
            mass -= sums.chance[i]
    draw.start = last
    draw.stop = last + 1
    draw.share = sums.chance[last] / total
    return draw


cdef class FlatSampler:
    """Draw entries, or blocks of adjacent entries, by their weights.

    Parameters
    ----------
    size : int
        Number of weights.
    width : int, default=1
        Entries drawn together.

    Attributes
    ----------
    chances : ndarray of shape (size,), float64
        The weights, finite and not negative; `update` after changing them.
    """

    def __cinit__(self, Py_ssize_t size, Py_ssize_t width=1):
        if size < 1 or width < 1:
            raise ValueError("size and width must be at least 1")
        cdef FlatSums* sums = &self.sums
        cdef double[::1] chances, cumulative
        sums.size = size
        sums.whole = width > 1
        sums.width = width if sums.whole else SCANNED
        sums.n_blocks = (size + sums.width - 1) // sums.width
        self.chances, self.cumulative = np.zeros(size), np.zeros(sums.n_blocks)
        chances, cumulative = self.chances, self.cumulative
        sums.chance = &chances[0]
        sums.cumulative = &cumulative[0]

    def update(self):
        """Take note of changed weights; returns their sum."""
        return sum_blocks(&self.sums)

    def draw(self, double u):
        """Return (start, stop, share) of the entries drawn with a uniform u from [0, 1)."""
        if not self.sums.cumulative[self.sums.n_blocks - 1] > 0:
            raise ValueError("every weight is zero: there is nothing to draw")
        cdef Draw draw = draw_entries(&self.sums, u)
        return draw.start, draw.stop, draw.share
