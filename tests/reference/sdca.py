"""Stochastic dual coordinate ascent: Takac et al. (2013), section 4 with b = 1.

Beyond the paper, as the package does it: shuffled passes, any loss, sample weights, and examples
that sleep for 0, 1, 3, 7, 15, 31 passes while their dual does not move, or, where the loss says
that they are far from moving, for what comes one or two places later.
"""

import numpy as np


def sdca(X, y, loss, alpha, shuffled, weights=None, a=None):
    """Yield (example, w, duals, pass) after every step, for ever.

    shuffled(examples) gives the order in which a pass visits the examples that are awake.
    """
    n = len(y)
    s = np.ones(n) if weights is None else weights
    scale = 1 / (alpha * s.sum())
    a = np.zeros(n) if a is None else a.copy()
    w = scale * X.T @ (s * a)
    q = scale * s * (X**2).sum(axis=1)
    wakes, level = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    passes = 0
    while True:
        for i in shuffled(np.flatnonzero(wakes <= passes)):
            prediction = X[i] @ w
            distance = abs(prediction - y[i])
            step = loss.dual_step(a[i], prediction, y[i], q[i]) - a[i]
            a[i] += step
            w += scale * s[i] * step * X[i]
            if step == 0:
                far = loss.far if level[i] else 1.5 * loss.far
                level[i] = min(level[i] + sum(distance > k * far for k in (1, 2)), 5)
                wakes[i] = passes + 2 ** level[i]
                level[i] = min(level[i] + 1, 5)
            else:
                level[i] = 0
            yield i, w.copy(), a.copy(), passes
        passes += 1
