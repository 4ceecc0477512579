"""Order: which example a solver looks at next.

A chunk is a run of draws (an epoch; for subsets, one batch). Draws are made a little ahead of their
use, so that lines can be prefetched, and never depend on how a fit is cut into slices.

Permutations in pools keep passes over short rows near the order of memory: runs of neighbours come
in random order, and the draws of a pool of many runs are shuffled among themselves. What is
shuffled at a time is in the cache.

Draws are uniform, but for one thing: items at the end that fill no whole run come last in every
permutation in pools. With strata, what is drawn in these orders are strata; each gives the example
at a place in it that all share, another one in every chunk. So examples are drawn in proportion to
their weights (see sublinear._core.strata).
"""
from libc.stdint cimport uint32_t

from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits, below, bitgen_t, uniform
from sublinear._core.strata cimport Places, Strata, example_at

cdef enum Sampling:
    SHUFFLE        # a new permutation for every epoch
    FIXED          # one permutation, used for every epoch
    REPLACEMENT    # independent draws
    SUBSETS        # a new subset for every batch

cdef enum:
    BLOCK_OF_DRAWS = 256
    RUN = 64               # neighbours that share a pool
    POOL = 4096            # draws
    EXCHANGES = 64         # at once

cdef struct Draws:
    uint32_t* items        # what is drawn, by position
    uint32_t* choices      # the strata; without them the items
    Py_ssize_t n           # choices are from {0, .., n - 1}, or from the n items given
    Py_ssize_t count       # draws in this chunk
    Py_ssize_t position    # the next one to use
    Py_ssize_t ready       # draws made so far in this chunk
    Sampling sampling
    bint in_pools
    const Places* places   # of strata; NULL: none
    double offset          # where in them this chunk takes its items
    bitgen_t* bits


cdef void next_pool(Draws* draws) noexcept nogil


cdef inline void shuffle(
    Draws* draws, Py_ssize_t first, Py_ssize_t last, Py_ssize_t end
) noexcept nogil:
    """Draw the choices of [first, last) from those of [first, end).

    Some are drawn and asked for before they are exchanged: where they lie is beyond the cache.
    """
    cdef Py_ssize_t k, count
    cdef Py_ssize_t others[EXCHANGES]
    cdef uint32_t choice
    while first < last:
        count = min(EXCHANGES, last - first)
        for k in range(count):
            others[k] = first + k + below(draws.bits, <uint32_t> (end - first - k))
            prefetch(draws.choices + others[k])
        for k in range(count):
            choice = draws.choices[first + k]
            draws.choices[first + k] = draws.choices[others[k]]
            draws.choices[others[k]] = choice
        first += count


cdef inline void take_items(Draws* draws, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Take the items of [first, last) from the strata chosen."""
    cdef Py_ssize_t k
    for k in range(first, last):
        draws.items[k] = example_at(draws.places, draws.choices[k], draws.offset)


cdef inline void make_ready(Draws* draws, Py_ssize_t position) noexcept nogil:
    """Make the draws before `position`, and some more."""
    cdef Py_ssize_t k, last
    if position <= draws.ready or draws.ready == draws.count:
        return
    if draws.in_pools:
        while draws.ready < min(position, draws.count):
            next_pool(draws)
        return
    last = min(draws.count, position + BLOCK_OF_DRAWS)
    if draws.sampling == REPLACEMENT:
        for k in range(draws.ready, last):
            draws.choices[k] = below(draws.bits, <uint32_t> draws.n)
            if draws.places != NULL:
                draws.offset = uniform(draws.bits)
                take_items(draws, k, k + 1)
    else:
        shuffle(draws, draws.ready, last, draws.n)
        if draws.places != NULL:
            take_items(draws, draws.ready, last)
    draws.ready = last


cdef inline void restart(Draws* draws) noexcept nogil:
    """Begin a chunk of new draws from the items as they lie; for pools, in the order of memory."""
    draws.position = draws.ready = 0


cdef inline void next_chunk(Draws* draws) noexcept nogil:
    cdef Py_ssize_t k
    if draws.places != NULL:    # multiples of the golden ratio are spread evenly
        draws.offset = (draws.offset + 0.6180339887498949) % 1
    if draws.sampling == FIXED:
        draws.position = 0
        if draws.places != NULL:
            take_items(draws, 0, draws.count)
        return
    restart(draws)
    if draws.in_pools:
        for k in range(draws.n):
            draws.items[k] = <uint32_t> k


cdef class Order:
    cdef Draws draws
    cdef readonly object items, choices
    cdef readonly RandomBits random
    cdef readonly Strata strata

    cdef _choose_from(self, Strata strata)
