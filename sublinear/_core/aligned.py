"""Arrays by cache lines and pages, and those that are shown to others."""

import math

import numpy as np

CACHE_LINES = 128  # bytes: processors read lines of 64 in pairs
PAGE = 4096  # bytes: none is smaller


def aligned(shape, dtype=np.float64):
    """Return an array that begins at a cache line; its entries are not set."""
    size = math.prod(shape)
    itemsize = np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINES // itemsize, dtype=dtype)
    start = -raw.ctypes.data % CACHE_LINES // itemsize
    return raw[start : start + size].reshape(shape)


def apart(*shape):
    """Return zeros (float64) whose rows, those of the last axis, have cache lines of their own."""
    width = CACHE_LINES // 8
    zeros = aligned((*shape[:-1], -(-shape[-1] // width) * width))
    zeros[:] = 0
    return zeros[..., : shape[-1]]


def contiguous(array, dtype=None):
    """Return an array as compiled loops read it: C-contiguous, and aligned as not all files are.

    It is the same one if it is so already.
    """
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def read_only(array):
    """Return this array, which can no longer be written to."""
    array.flags.writeable = False
    return array


def touched(array):
    """Return a new array, C-contiguous, when this thread has set numbers in every page to 0.

    Systems make a page when it is first written to. Threads that write to new pages at the same
    time, or read them before, stop each other, for longer than one needs to make all of them.
    """
    array.reshape(-1).view(np.uint8)[::PAGE] = 0
    return array
