"""Mini-batched dual coordinate ascent: Takac et al. (2013), equation 15 and Algorithm 2.

Beyond the paper, as the package does it: any loss, sample weights s, and rows of any length, whose
own curvature takes the place of the bound |x_i| <= 1.
"""

import numpy as np

from reference import objective as values


def minibatch_sdca(
    X, y, loss, alpha, batches, rule, beta_b=1.0, *, gamma=0.95, weights=None, a=None
):
    """Yield (w, duals, beta) after every iteration; `batches` gives the examples of each."""
    n = len(y)
    s = np.ones(n) if weights is None else weights
    a = np.zeros(n) if a is None else a.copy()
    w = values.weights_of_dual(X, alpha, a, weights)
    beta = 1.0 if rule == "naive" else beta_b
    for A in batches:
        if rule == "aggressive":
            rho = interaction(X, alpha, s, A, steps(X, y, loss, alpha, s, A, a, w, beta))
            rho = np.clip(rho, 1, beta_b)
            delta = steps(X, y, loss, alpha, s, A, a, w, rho)
            beta = beta**gamma * rho ** (1 - gamma)
        else:
            delta = steps(X, y, loss, alpha, s, A, a, w, beta)
        moved = a.copy()
        moved[A] += delta
        if rule != "aggressive" or dual_rises(X, y, loss, alpha, weights, a, moved):
            a = moved
            w = w + changes(X, alpha, s, A, delta).sum(axis=0)
        yield w.copy(), a.copy(), beta


def steps(X, y, loss, alpha, s, A, a, w, beta):
    """Equation 15: the dual step of every example of A, its curvature multiplied by beta."""
    q = s * (X**2).sum(axis=1) / (alpha * s.sum())
    return np.array([loss.dual_step(a[i], X[i] @ w, y[i], beta * q[i]) - a[i] for i in A])


def changes(X, alpha, s, A, delta):
    """What each step adds to w."""
    return (s[A] * delta / (alpha * s.sum()))[:, np.newaxis] * X[A]


def interaction(X, alpha, s, A, delta):
    """|sum_i v_i|^2 / sum_i |v_i|^2 for the changes v_i of w."""
    v = changes(X, alpha, s, A, delta)
    separate = (v**2).sum()
    return (v.sum(axis=0) ** 2).sum() / separate if separate > 0 else 1.0


def dual_rises(X, y, loss, alpha, weights, a, moved):
    before, after = (values.dual(X, y, loss, alpha, duals, weights) for duals in (a, moved))
    return after >= before - 1e-15 * abs(before)


def separable_bound(X, y, loss, alpha, a, delta, beta_b, weights=None):
    """H(delta, a), equation 24: D(a + delta) as if the steps met beta_b times themselves only."""
    s = np.ones(len(a)) if weights is None else weights
    w = values.weights_of_dual(X, alpha, a, weights)
    v = changes(X, alpha, s, np.arange(len(a)), delta)
    squares = w @ w + beta_b * (v**2).sum() + 2 * v.sum(axis=0) @ w
    return -alpha / 2 * squares - np.average(loss.conjugate(a + delta, y), weights=weights)


def averaged(history, average, epoch_ends=()):
    """The average of duals a_0, a_1, .., a_T; `epoch_ends` holds the t at which epochs ended.

    "tail": the mean of a_t for T_0 < t <= T (equation 21, both ends one later), T_0 the end of
    epoch 2^k, the largest power of two that is at most half of those completed. "decaying": from
    a_0 on, 0.9 of what it was and 0.1 of the new duals.
    """
    T = len(history) - 1
    if average == "last" or T == 0:
        return history[-1]
    if average == "decaying":
        mean = history[0]
        for a in history[1:]:
            mean = 0.9 * mean + 0.1 * a
        return mean
    ended = len(epoch_ends)
    start = epoch_ends[2 ** int(np.log2(ended / 2)) - 1] if ended >= 2 else 0
    return np.mean(history[start + 1 :], axis=0)
