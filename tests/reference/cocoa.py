"""CoCoA+: Ma et al. (2015), Algorithm 1, with SDCA as the local solver.

Beyond the paper: the step gamma and the caution sigma of the adaptive combination; an intercept
with less penalty than its column, by the method of multipliers.
"""

import numpy as np


class Part:
    """A partition with its duals and its examples' order."""

    def __init__(self, X, y, loss, alpha, total, shuffled):
        self.X, self.y, self.loss, self.alpha, self.total = X, y, loss, alpha, total
        self.shuffled = shuffled
        self.a = np.zeros(len(y))

    def improve(self, w, sigma):
        """One pass around w; returns the new duals and what w gains.

        The local problem is SDCA with alpha / sigma, seen from w: predictions start at w.
        """
        scale = 1 / (self.alpha * self.total)
        a, v = self.a.copy(), w.copy()
        for i in self.shuffled(np.arange(len(a))):
            q = sigma * scale * self.X[i] @ self.X[i]
            new = self.loss.dual_step(a[i], self.X[i] @ v, self.y[i], q)
            v += sigma * scale * (new - a[i]) * self.X[i]
            a[i] = new
        return a, (v - w) / sigma

    def conjugate(self, a):
        return self.loss.conjugate(a, self.y).sum()


def cocoa(parts, alpha, adaptive, penalty=1.0):
    """Yield the model and the duals of all parts after every round, for ever.

    With a `penalty` below 1 the last column is constant, and its weight has so much of the penalty
    of others. Its part of w(a) is that of a column smaller by the root of n_parts / sigma, in units
    of this one.
    """
    n_parts = len(parts)
    offset, overlap = np.zeros(parts[0].X.shape[1]), np.ones(parts[0].X.shape[1])
    w, sigma = np.zeros(parts[0].X.shape[1]), float(n_parts)
    total = sum(len(part.y) for part in parts)
    while True:
        trials = [part.improve(w + offset, sigma) for part in parts]
        c = sum(change for _, change in trials)
        gamma, before = 1.0, sigma
        overlap[-1] = n_parts / sigma if penalty < 1 else 1.0
        c /= overlap
        if adaptive and c @ (overlap * c) > 0:
            gained = sum(
                part.conjugate(a) - part.conjugate(part.a)
                for part, (a, _) in zip(parts, trials, strict=True)
            )
            best = (-gained / total - alpha * (w + offset) @ (overlap * c)) / (
                alpha * c @ (overlap * c)
            )
            gamma = np.clip(best, 0, 1)
            if best < 1:
                sigma = min(sigma * min(4, 1 / max(best, 1 / 4)), n_parts)
            elif best > 1.2:
                sigma = max(sigma * 0.8, 1)
        for part, (a, _) in zip(parts, trials, strict=True):
            part.a = part.a + gamma * (a - part.a)
        w = w + gamma * c
        if penalty < 1:
            offset[-1] = (1 - penalty * sigma / n_parts) * (offset[-1] + w[-1])
            w[-1] *= sigma / before
        yield w + offset, np.concatenate([part.a for part in parts])
