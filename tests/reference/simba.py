"""SIMBA: Hazan, Koren, Srebro (2011), Algorithm 1, with the bias term of section 4."""

import numpy as np

from reference.certificates import full_slack
from reference.sampling import draw_l2, reweighted


def constants(n, epsilon):
    """The number of steps and eta of line 2."""
    T = int(np.ceil(100**2 * epsilon**-2 * np.log(n)))
    return T, np.sqrt(np.log(n) / T)


def slack(p, nu):
    """The xi of line 5: 2 for the largest p, until the mass nu n is spent."""
    xi = np.empty(len(p))
    xi[np.argsort(-p, kind="stable")] = full_slack(len(p), nu)
    return xi


def simba(X, y, nu, T, draws, *, bias=True, adaptive=False, eta=None, refresh=1):
    """Yield w_t, b_t, xi_t, p_t and the row of every step.

    `adaptive` has the rates of the paper's experiments, t in place of T; the analysis wants rates
    of at most 1 / 6. With `refresh` the slack stays where it is for so many steps.
    """
    n, d = X.shape
    A = y[:, None] * X
    u, p = np.zeros(d), np.full(n, 1 / n)
    for t in range(1, T + 1):
        horizon = t if adaptive else T
        rate = min(1 / 6, np.sqrt(np.log(n) / horizon)) if eta is None else eta
        i = draws.row(p)
        u = u + A[i] / np.sqrt(2 * horizon)
        if (t - 1) % refresh == 0:
            xi = slack(p, nu)
        b = np.sign(p @ y) if bias else 0.0
        w = u / max(1, np.linalg.norm(u))
        yield w, b, xi, p, i
        p = reweighted(p, draw_l2(A, w, draws) + xi + b * y, rate)


def means(steps, n):
    """Return the means of w_t, of b_t and of p_t."""
    ws, bs, _, ps, _ = zip(*steps, strict=True)
    return np.mean(ws, axis=0), np.mean(bs), np.mean(ps, axis=0)


def rescaled(w, b, value):
    """The solution of problem (1) that Lemma 2.1 makes of one of problem (3) of that value."""
    return w / value, b / value
