"""Inner products without the threads that a BLAS would start, whose number might change bits."""

import math

import numpy as np


def inner(u, v):
    """Return <u, v>."""
    return float(np.add.reduce(u * v))


def length(u):
    """Return |u|."""
    return math.sqrt(inner(u, u))
