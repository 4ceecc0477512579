"""min over the simplex of p'b + p'K p by working sets, on a whole kernel matrix."""

import numpy as np
from scipy.optimize import minimize


def kernel_active_set(K, b, n_candidates):
    """Yield p, -(p'b + p'K p) and p'K p - min(b + 2 K p) after every round.

    Working sets are solved to the end.

    Parameters
    ----------
    K, b : ndarray of shape (n, n), (n,)
    n_candidates : int
        At least as many as have weight.
    """
    n = len(K)
    p = np.eye(n)[0]
    candidates = np.linspace(0, n - 1, n_candidates).astype(int)
    while True:
        working = np.union1d(np.flatnonzero(p), candidates).astype(int)
        p = np.zeros(n)
        p[working] = over_simplex(K[np.ix_(working, working)], b[working])
        v = b + 2 * K @ p
        yield p, -(p @ b + p @ K @ p), p @ K @ p - v.min()
        outside = np.flatnonzero(p == 0)
        count = max(n_candidates, n - len(outside))
        candidates = outside[np.argsort(v[outside], kind="stable")[:count]]


def over_simplex(K, b, mass=1.0):
    """Return the q that minimises q'b + q'K q, not negative and of this sum."""
    found = minimize(
        lambda q: q @ b + q @ K @ q,
        np.full(len(K), mass / len(K)),
        jac=lambda q: b + 2 * K @ q,
        bounds=[(0, None)] * len(K),
        constraints={"type": "eq", "fun": lambda q: q.sum() - mass, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    q = np.where(found.x > 1e-9 * mass, found.x, 0)
    return q * (mass / q.sum())
