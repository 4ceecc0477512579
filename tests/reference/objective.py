"""P(w) = alpha / 2 |w|^2 + weighted mean loss, its dual, and the weights of a dual."""

import numpy as np


def primal(X, y, loss, alpha, w, weights=None):
    return alpha / 2 * w @ w + np.average(loss.value(X @ w, y), weights=weights)


def dual(X, y, loss, alpha, a, weights=None):
    w = weights_of_dual(X, alpha, a, weights)
    return -alpha / 2 * w @ w - np.average(loss.conjugate(a, y), weights=weights)


def weights_of_dual(X, alpha, a, weights=None):
    s = np.ones(len(a)) if weights is None else weights
    return X.T @ (s * a) / (alpha * s.sum())
