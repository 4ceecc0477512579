"""Pegasos: Shalev-Shwartz et al. (2011), Figure 2, section 6; averages as in Takac et al. (2013).

`pace(t)` is alpha eta_t. The models have b as a last entry where it is not a feature. Batches
that are shorter than the first one count by their size.
"""

import numpy as np

PACES = {
    "pegasos": lambda eta0, alpha: lambda t: 1 / t,
    "norma": lambda eta0, alpha: lambda t: eta0 / np.sqrt(t),
    "constant": lambda eta0, alpha: lambda t: alpha * eta0,
}


def pegasos(
    X, y, loss, alpha, batches, weights=None, radius=np.inf, pace=None, bias="feature", b=0.0
):
    """Yield the model after every step; `batches` gives the examples of each.

    b is where the bias begins; bias="search" keeps it there.
    """
    n = len(y)
    s = np.ones(n) if weights is None else weights * n / weights.sum()
    pace = pace or PACES["pegasos"](None, alpha)
    w, n_drawn, size = np.zeros(X.shape[1]), 0, None
    for batch in batches:
        size = size or len(batch)
        n_drawn += len(batch)
        step = pace(n_drawn / size) * len(batch) / size
        z = X[batch] @ w
        if bias == "batch":
            b, derivatives = best_constant(z, y[batch], loss, s[batch])
        else:
            derivatives = loss.derivative(z + b * (bias != "feature"), y[batch])
        derivatives = s[batch] * derivatives
        w = (1 - step) * w - step / alpha * derivatives @ X[batch] / len(batch)
        if bias == "subgradient":
            b -= step / alpha * derivatives.mean()
        w = w * min(1, radius / max(np.linalg.norm(w), 1e-300))
        yield w if bias == "feature" else np.append(w, b)


def best_constant(z, y, loss, weights, kinks=(0.0, 0.1, -0.1), apart=1e-7):
    """The least b of least weighted loss, and sub-gradients there that add up to zero.

    By trying all places where the sum may have a kink; these must lie further apart than `apart`.
    """

    def slopes(b):
        return np.sum(weights * loss.derivative(z + b, y))

    places = np.sort((y[:, np.newaxis] + np.array(kinks) - z[:, np.newaxis]).ravel())
    places = np.array([b for b in places if slopes(b + apart) > slopes(b - apart)])
    totals = np.array([np.sum(weights * loss.value(z + b, y)) for b in places])
    b = places[np.argmax(totals <= totals.min() + 1e-12 * max(1, abs(totals.min())))]
    left, right = loss.derivative(z + b - apart, y), loss.derivative(z + b + apart, y)
    before, after = np.sum(weights * left), np.sum(weights * right)
    share = np.clip(-before / (after - before), 0, 1) if after > before else 0.0
    return b, left + share * (right - left)


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
