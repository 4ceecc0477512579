"""The losses by their formulas, for arrays: z = prediction, y = target, a = dual.

The first four are functions of the margin m = y z, and their duals of b = y a.
"""

from collections import namedtuple

import numpy as np
from scipy.optimize import bisect
from scipy.special import expit, logit, xlog1py, xlogy

# value(z, y); derivative(z, y); conjugate(a, y) = sup_z(-a z - l(z));
# dual_step(a, z, y, q) = argmax_a' of -l*(-a') - z (a' - a) - q (a' - a)^2 / 2;
# far: |z - y| from which on a dual at its bound is expected to stay there
Loss = namedtuple("Loss", "value derivative conjugate dual_step far", defaults=[np.inf])
FAR = 0.25


def hinge():
    return Loss(
        lambda z, y: np.maximum(0, 1 - y * z),
        lambda z, y: -y * (y * z < 1),
        lambda a, y: -y * a,
        lambda a, z, y, q: y * np.clip(y * a + (1 - y * z) / q, 0, 1),
        FAR,
    )


def squared_hinge():
    return Loss(
        lambda z, y: np.maximum(0, 1 - y * z) ** 2,
        lambda z, y: -2 * y * np.maximum(0, 1 - y * z),
        lambda a, y: a**2 / 4 - y * a,
        lambda a, z, y, q: y * np.maximum(0, (q * y * a + 1 - y * z) / (q + 1 / 2)),
        FAR,
    )


def smoothed_hinge(smoothing=1.0):
    def value(z, y):
        slack = np.maximum(0, 1 - y * z)
        return np.where(slack < smoothing, slack**2 / (2 * smoothing), slack - smoothing / 2)

    return Loss(
        value,
        lambda z, y: -y * np.clip((1 - y * z) / smoothing, 0, 1),
        lambda a, y: smoothing * a**2 / 2 - y * a,
        lambda a, z, y, q: y * np.clip((q * y * a + 1 - y * z) / (q + smoothing), 0, 1),
        FAR,
    )


def logistic():
    def dual_step(a, z, y, q):
        return y * bisect(lambda b: logit(b) + y * z + q * (b - y * a), 0, 1, xtol=1e-17)

    return Loss(
        lambda z, y: np.logaddexp(0, -y * z),
        lambda z, y: -y * expit(-y * z),
        lambda a, y: xlogy(y * a, y * a) + xlog1py(1 - y * a, -y * a),
        dual_step,
    )


def squared():
    return Loss(
        lambda z, y: (z - y) ** 2 / 2,
        lambda z, y: z - y,
        lambda a, y: a**2 / 2 - a * y,
        lambda a, z, y, q: (q * a + y - z) / (q + 1),
    )


def absolute():
    return Loss(
        lambda z, y: np.abs(z - y),
        lambda z, y: np.sign(z - y),
        lambda a, y: -a * y,
        lambda a, z, y, q: np.clip(a + (y - z) / q, -1, 1),
    )


def epsilon_insensitive(epsilon=0.1):
    def dual_step(a, z, y, q):
        pull = q * a + y - z
        return np.clip(np.sign(pull) * np.maximum(0, np.abs(pull) - epsilon) / q, -1, 1)

    return Loss(
        lambda z, y: np.maximum(0, np.abs(z - y) - epsilon),
        lambda z, y: np.sign(z - y) * (np.abs(z - y) > epsilon),
        lambda a, y: epsilon * np.abs(a) - a * y,
        dual_step,
    )


def huber(epsilon=1.35):
    def value(z, y):
        size = np.abs(z - y)
        return np.where(size < epsilon, size**2 / 2, epsilon * (size - epsilon / 2))

    return Loss(
        value,
        lambda z, y: np.clip(z - y, -epsilon, epsilon),
        lambda a, y: a**2 / 2 - a * y,
        lambda a, z, y, q: np.clip((q * a + y - z) / (q + 1), -epsilon, epsilon),
    )


def poisson():
    def dual_step(a, z, y, q):
        ends = min(z, np.log(y - a)), max(z, np.log(y - a))
        return y - np.exp(bisect(lambda t: t - z + q * (np.exp(t) - (y - a)), *ends, xtol=1e-15))

    return Loss(
        lambda z, y: np.exp(z) - y * z + xlogy(y, y) - y,
        lambda z, y: np.exp(z) - y,
        lambda a, y: xlogy(y - a, y - a) - (y - a) - (xlogy(y, y) - y),
        dual_step,
    )


COUNT_LOSSES = {"poisson": poisson}
LOSSES = {
    "hinge": hinge,
    "squared_hinge": squared_hinge,
    "smoothed_hinge": smoothed_hinge,
    "logistic": logistic,
    "squared": squared,
    "absolute": absolute,
    "epsilon_insensitive": epsilon_insensitive,
    "huber": huber,
}
