"""Index streams: shuffled epochs, one fixed permutation, independent draws, random subsets."""
from libc.stdint cimport uint8_t

import numpy as np

SAMPLINGS = {
    "shuffle": SHUFFLE, "fixed": FIXED, "replacement": REPLACEMENT, "subsets": SUBSETS,
}

SHORT_ROW = 64              # entries
BEYOND_CACHE = 1_500_000    # entries, some 16 MiB


def pools_pay(matrix):
    """Tell whether passes in pools are faster: over short rows that together exceed the cache.

    A long row is read in the order of memory anyway.
    """
    return matrix.n_stored <= SHORT_ROW * matrix.n_rows and matrix.n_stored >= BEYOND_CACHE


def sort_indices(uint32_t[::1] items, Py_ssize_t n):
    """Sort different indices from {0, .., n - 1} in place."""
    cdef Py_ssize_t k, index, count = items.shape[0]
    cdef uint8_t[::1] marks = np.zeros(n, dtype=np.uint8)
    with nogil:
        for k in range(count):
            marks[items[k]] = 1
        k = 0
        for index in range(n):
            if k == count:
                break
            items[k] = <uint32_t> index    # the next one stays, unless there is another
            k += marks[index]


cdef void next_pool(Draws* draws) noexcept nogil:
    """Choose the runs of the next pool and shuffle its draws."""
    cdef Py_ssize_t last = min(draws.count, draws.ready + POOL), first = draws.ready
    cdef Py_ssize_t n_left = (draws.count - first) // RUN, other, k
    cdef uint32_t item
    while first < last and n_left > 0:    # a rest that is less than a run stays where it is
        other = first + RUN * <Py_ssize_t> below(draws.bits, <uint32_t> n_left)
        for k in range(RUN):
            item = draws.items[first + k]
            draws.items[first + k] = draws.items[other + k]
            draws.items[other + k] = item
        first += RUN
        n_left -= 1
    shuffle(draws, draws.ready, last, last)
    draws.ready = last


cdef class Order:
    """An endless stream of indices from {0, .., n - 1}.

    Parameters
    ----------
    n : int
    sampling : {"shuffle", "fixed", "replacement", "subsets"}
    random : RandomBits
    batch_size : int, default=1
        Size of the subsets; the other orders do not use it.
    in_pools : bool, default=False
        Keep permutations near the order of memory (see above; `pools_pay`).
    strata : Strata, default=None
        Of the n examples, at least batch_size: draw in proportion to their weights.
    """

    def __cinit__(
        self, Py_ssize_t n, sampling, RandomBits random, Py_ssize_t batch_size=1,
        bint in_pools=False, Strata strata=None
    ):
        if not 1 <= n < 2**32 - 1:
            raise ValueError(f"the number of examples must lie in [1, 2**32 - 2], got {n}")
        if not 1 <= batch_size <= n:
            raise ValueError(f"batch_size must be from 1 to {n}, got {batch_size}")
        self.random = random
        self.draws.bits = random.bits
        self.draws.sampling = SAMPLINGS[sampling]
        self.draws.n = n if strata is None else strata.places.count
        self.draws.count = batch_size if self.draws.sampling == SUBSETS else self.draws.n
        if strata is None:
            self.choices = self.items = np.arange(n, dtype=np.uint32)
            self.draws.in_pools = in_pools and self.draws.sampling in (SHUFFLE, FIXED)
        else:
            self._choose_from(strata)
        cdef uint32_t[::1] items = self.items, choices = self.choices
        self.draws.items, self.draws.choices = &items[0], &choices[0]

    cdef _choose_from(self, Strata strata):
        """Let choices be strata; or items, where each stratum is one."""
        self.strata = strata
        self.draws.offset = uniform(self.random.bits)
        if strata.are_items and self.draws.sampling != REPLACEMENT:
            self.choices = self.items = strata.items.copy()
        else:
            self.draws.places = &strata.places
            self.choices = np.arange(self.draws.n, dtype=np.uint32)
            self.items = np.empty_like(self.choices)

    def take(self, Py_ssize_t count):
        """Return the next `count` indices (uint32), as compiled loops get them."""
        result = np.empty(count, dtype=np.uint32)
        cdef uint32_t[::1] taken = result
        cdef Py_ssize_t k
        for k in range(count):
            if self.draws.position == self.draws.count:
                next_chunk(&self.draws)
            make_ready(&self.draws, self.draws.position + 1)
            taken[k] = self.draws.items[self.draws.position]
            self.draws.position += 1
        return result
