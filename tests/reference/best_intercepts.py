"""The intercepts b that minimise sum_i s_i l(z_i + b, y_i), by looking at the sum alone."""

import numpy as np

FLAT = 1e-11  # of the least sum: what rounding makes of it
STEPS = 200


def best_intercepts(value, scores, targets, weights=None):
    """Return the lowest and the highest of them, and the least sum.

    Parameters
    ----------
    value : callable
        value(z, y) -> losses
    scores, targets, weights : ndarrays of shape (n_rows,)
    """
    weights = np.ones(len(targets)) if weights is None else weights

    def total(intercept):
        return weights @ value(scores + intercept, targets)

    reach = 10 + np.abs(scores).max() + np.abs(targets).max()
    left, right = -reach, reach
    for _ in range(STEPS):
        third = (right - left) / 3
        if total(left + third) <= total(right - third):
            right -= third
        else:
            left += third
    best, least = (left + right) / 2, total((left + right) / 2)

    def end(far):
        near = best
        for _ in range(STEPS):
            between = (near + far) / 2
            if total(between) <= least * (1 + FLAT):
                near = between
            else:
                far = between
        return near

    return end(-reach), end(reach), least
