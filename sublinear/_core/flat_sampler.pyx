"""A sampler for weights that all change between draws."""
import numpy as np

from sublinear._core.sweeps cimport sum_of


cdef void sum_some_blocks(
    FlatSums* sums, Py_ssize_t first, Py_ssize_t last, const double* chance
) noexcept nogil:
    """The sums of blocks first .. last - 1, the earlier ones being known; chance is theirs."""
    cdef double total = sums.cumulative[first - 1] if first > 0 else 0
    cdef Py_ssize_t k, size
    for k in range(first, last):
        size = block_stop(sums, k) - block_start(sums, k)
        total += sum_of(chance, size)
        sums.cumulative[k] = total
        chance += size


cdef double sum_blocks(FlatSums* sums) noexcept nogil:
    """Gather the sums of the blocks; returns the total."""
    sum_some_blocks(sums, 0, sums.n_blocks, sums.chance)
    return total_of(sums)


cdef Draw draw_block(const FlatSums* sums, double u, double* rest) noexcept nogil:
    """Draw a block by its sum, the total being positive; rest: what is left of u * total in it."""
    cdef Draw draw
    cdef Py_ssize_t low = 0, high = sums.n_blocks - 1, middle
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
    rest[0] = mass - before
    return draw


cdef Draw entry_of_block(
    const FlatSums* sums, Draw block, const double* chance, double rest
) noexcept nogil:
    """The entry of a block that `rest` leads to; chance is the block's."""
    cdef Draw draw
    cdef Py_ssize_t i, last = -1
    for i in range(block.stop - block.start):
        if chance[i] > 0:
            last = i
            if rest < chance[i]:
                break
            rest -= chance[i]
    draw.start = block.start + last
    draw.stop = draw.start + 1
    draw.share = chance[last] / total_of(sums)
    return draw


cdef Draw draw_entries(const FlatSums* sums, double u) noexcept nogil:
    """Draw an entry, or a block where blocks are whole, by its weight; the total is positive."""
    cdef double rest
    cdef Draw block = draw_block(sums, u, &rest)
    if sums.whole:
        return block
    return entry_of_block(sums, block, sums.chance + block.start, rest)


cdef class FlatSampler:
    """Draw entries, or blocks of adjacent entries, by their weights.

    Parameters
    ----------
    size : int
        Number of weights.
    width : int, default=1
        Entries drawn together.
    lead : int, default=0
        By how many entries the first block is shorter than the others.

    Attributes
    ----------
    chances : ndarray of shape (size,), float64
        The weights, finite and not negative; `update` after changing them.
    """

    def __cinit__(self, Py_ssize_t size, Py_ssize_t width=1, Py_ssize_t lead=0):
        if size < 1 or width < 1 or not 0 <= lead < width:
            raise ValueError("size and width must be at least 1, lead from 0 to width - 1")
        cdef FlatSums* sums = &self.sums
        cdef double[::1] chances, cumulative
        sums.size = size
        sums.whole = width > 1
        sums.width = width if sums.whole else SCANNED
        sums.lead = lead
        sums.n_blocks = (size + lead + sums.width - 1) // sums.width
        self.chances, self.cumulative = np.zeros(size), np.zeros(sums.n_blocks)
        chances, cumulative = self.chances, self.cumulative
        sums.chance = &chances[0]
        sums.cumulative = &cumulative[0]

    def update(self):
        """Take note of changed weights; returns their sum."""
        return sum_blocks(&self.sums)

    def draw(self, double u):
        """Return (start, stop, share) of the entries drawn with a uniform u from [0, 1)."""
        if not total_of(&self.sums) > 0:
            raise ValueError("every weight is zero: there is nothing to draw")
        cdef Draw draw = draw_entries(&self.sums, u)
        return draw.start, draw.stop, draw.share
