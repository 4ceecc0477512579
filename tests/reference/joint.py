"""Losses of all classes at once, their objective and Pegasos on it, in NumPy.

Shalev-Shwartz et al., "Pegasos" (2011), section 5, Examples 3 and 4.
"""

import numpy as np
from scipy.special import logsumexp, softmax, xlog1py, xlogy


class CostHinge:
    """max_r cost[y, r] + z_r - z_y"""

    def __init__(self, cost):
        self.cost = np.asarray(cost, dtype=float)

    def value(self, z, y):
        return np.max(self.cost[y] + z) - z[y]

    def subgradient(self, z, y):
        g = np.zeros(len(z))
        augmented = self.cost[y] + z
        rival = y if augmented[y] == augmented.max() else np.argmax(augmented)
        g[rival] += 1
        g[y] -= 1
        return g

    def conjugate(self, a, y):
        return self.cost[y] @ a


class MultinomialLogistic:
    """log sum_r exp(z_r - z_y)"""

    def value(self, z, y):
        return logsumexp(z) - z[y]

    def subgradient(self, z, y):
        return softmax(z) - np.eye(len(z))[y]

    def conjugate(self, a, y):
        others = -np.delete(a, y)
        return xlogy(others, others).sum() + xlog1py(1 - a[y], -a[y])


def shares(weights, n):
    return np.full(n, 1 / n) if weights is None else weights / weights.sum()


def primal(X, y, loss, alpha, W, weights=None):
    losses = [loss.value(z, label) for z, label in zip(X @ W, y, strict=True)]
    return alpha / 2 * np.sum(W**2) + shares(weights, len(y)) @ losses


def weights_of_dual(X, alpha, duals, weights=None):
    return X.T @ (shares(weights, len(X))[:, None] * duals) / alpha


def dual(X, y, loss, alpha, duals, weights=None):
    conjugates = [loss.conjugate(a, label) for a, label in zip(duals, y, strict=True)]
    W = weights_of_dual(X, alpha, duals, weights)
    return -alpha / 2 * np.sum(W**2) - shares(weights, len(y)) @ conjugates


def joint_pegasos(X, y, loss, n_classes, alpha, batches, weights=None, radius=np.inf):
    """Yield W after every step; `batches` gives the examples of each."""
    n = len(y)
    s = n * shares(weights, n)
    W = np.zeros((X.shape[1], n_classes))
    drawn = 0
    for batch in batches:
        gradient = sum(s[i] * np.outer(X[i], loss.subgradient(X[i] @ W, y[i])) for i in batch)
        drawn += len(batch)
        W = (1 - len(batch) / drawn) * W - gradient / (alpha * drawn)
        W = W * min(1, radius / max(np.linalg.norm(W), 1e-300))
        yield W
