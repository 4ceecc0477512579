"""Order: which example a solver looks at next.

A chunk is a run of draws (an epoch; for subsets, one batch). Draws are made a little ahead of their
use, so that lines can be prefetched, and never depend on how a fit is cut into slices.
"""
from libc.stdint cimport uint8_t, uint32_t

from sublinear._core.random cimport RandomBits, below, bitgen_t

cdef enum Sampling:
    SHUFFLE        # a new permutation for every epoch
    FIXED          # one permutation, used for every epoch
    REPLACEMENT    # independent uniform draws
    SUBSETS        # a new uniform subset for every batch

cdef enum:
    BLOCK_OF_DRAWS = 256

cdef struct Draws:
    uint32_t* items
    Py_ssize_t n           # draws are from {0, .., n - 1}, or from the n items given
    Py_ssize_t count       # draws in this chunk
    Py_ssize_t position    # the next one to use
    Py_ssize_t ready       # draws made so far in this chunk
    Sampling sampling
    bitgen_t* bits


cdef inline void make_ready(Draws* draws, Py_ssize_t position) noexcept nogil:
    """Make the draws before `position`, and some more."""
    cdef Py_ssize_t k, other, last
    cdef uint32_t item
    if position <= draws.ready or draws.ready == draws.count:
        return
    last = min(draws.count, position + BLOCK_OF_DRAWS)
    for k in range(draws.ready, last):
        if draws.sampling == REPLACEMENT:
            draws.items[k] = below(draws.bits, <uint32_t> draws.n)
        else:
            other = k + below(draws.bits, <uint32_t> (draws.n - k))
            item = draws.items[k]
            draws.items[k] = draws.items[other]
            draws.items[other] = item
    draws.ready = last


cdef inline void next_chunk(Draws* draws) noexcept nogil:
    draws.position = 0
    if draws.sampling != FIXED:
        draws.ready = 0


cdef class Order:
    cdef Draws draws
    cdef readonly object items
    cdef readonly RandomBits random
