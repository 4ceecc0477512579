"""How many samples an accuracy takes."""

import math


def squared(ratio):
    """Return a ratio's square, within the range of numbers: samples for an error close to 0."""
    return min(float(ratio), 1e150) ** 2  # float32 ends below 1e150


def samples_for(deviation, error, failure, n_values):
    """Return how many samples a mean takes, and how many means a median.

    Corollary II.9 of Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning"
    (2010): by Chebyshev a mean of m samples, m = 8 (deviation / error)^2, is off by more than
    `error` with probability 1/8 at the most, and so is the median of k such means with probability
    (7/16)^(k/2), which for `n_values` of them is to be `failure` in all.
    """
    error = max(float(error), 1e-300)  # half of the least epsilon is 0
    size = math.floor(8 * squared(deviation / error)) + 1
    ratio = math.log(n_values) - math.log(failure)  # of numbers whose quotient may be out of range
    return size, int(2 * ratio / math.log(16 / 7)) | 1
