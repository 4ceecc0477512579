"""Section VI of Clarkson, Hazan, Woodruff (2010) with exact kernel rows, on a whole kernel matrix.

x = scale * sum_k a_k y_k Psi_k. K has the constant of an intercept; ridge is r of the hull.
"""

import numpy as np

from reference.sampling import reweighted


def primal_dual(K, y, T, eta, draws, batch=1, *, step=None, offsets=None, ridge=0.0, chance=None):
    """Yield the coefficients of x_t: in the ball, with steps of length `step`; else in the hull.

    chance: that x moves in a step, section III-A; None: it always does.
    """
    n = len(K)
    G = y[:, None] * K * y + np.diag(np.broadcast_to(ridge, n) ** 2)
    hull = step is None
    a, p = np.zeros(n), np.full(n, 1 / n)
    if np.any(ridge):
        p = ridge**-2.0 / (ridge**-2.0).sum()
    if hull:
        a += drawn(p, draws, batch)
    for _ in range(T):
        norm = np.sqrt(a @ G @ a)
        x = a / a.sum() if hull else step * a / max(1, step * norm)
        yield x
        v = G @ x
        if hull:
            v = offsets + 2 * v - x @ G @ x
        p = reweighted(p, v, eta)
        if chance is None or draws.coin(chance):
            a = a + drawn(p, draws, batch)


def drawn(p, draws, batch):
    """Return batch draws as a distribution."""
    a = np.zeros(len(p))
    for _ in range(batch):
        a[draws.row(p)] += 1 / batch
    return a


def estimate(kernel, A, i, columns):
    """One estimate of row i of a kernel matrix from given columns, of linear and poly kernels."""
    name, gamma, coef0 = kernel
    x = A[i]
    inner = [A[:, j] * (x @ x) / x[j] for j in columns]
    if name == "linear":
        return inner[0]
    return np.prod([gamma * s + coef0 for s in inner], axis=0).reshape(len(A))
