"""Pegasos: Shalev-Shwartz et al. (2011), Figure 2; averages as in Takac et al. (2013)."""

import numpy as np


def pegasos(X, y, loss, alpha, batches, weights=None, radius=np.inf):
    """Yield w after every step; `batches` gives the examples of each."""
    n = len(y)
    s = np.ones(n) if weights is None else weights * n / weights.sum()
    w = np.zeros(X.shape[1])
    for t, batch in enumerate(batches, start=1):
        subgradient = (s[batch] * loss.derivative(X[batch] @ w, y[batch])) @ X[batch] / len(batch)
        w = (1 - 1 / t) * w - subgradient / (alpha * t)
        w = w * min(1, radius / max(np.linalg.norm(w), 1e-300))
        yield w


def averaged(iterates, average):
    """The model of w_1, .., w_T: the last, the mean, or the mean of those after step 2^k.

    2^k is the largest power of two that is at most T / 2.
    """
    T = len(iterates)
    if average == "last":
        return iterates[-1]
    if average == "mean" or T == 1:
        return np.mean(iterates, axis=0)
    return np.mean(iterates[2 ** int(np.log2(T / 2)) :], axis=0)
