"""Simplex QPs and balls by working sets: max over x of min over i of b_i + 2 <A_i, x> - |x|^2.

A working set is a matrix B of distributions over the rows: means of groups, then single rows. With
weights q of its lines, p = B'q and x = A'p.
"""

import numpy as np


def active_set(A, b, epsilon, relative, settings):
    """Yield x, p, the least primal value and the best dual value so far after every round.

    Parameters
    ----------
    A : ndarray of shape (n, d)
    b : ndarray of shape (n,)
    epsilon, relative : float, bool
        The gap that is asked for, relative to the primal value or not.
    settings : object
        Has the constants at the top of the solver's file.
    """
    n = len(A)
    growth = max(settings.LEAST_GROWTH, round(settings.GROWTH * n**0.5))
    n_candidates = min(n, max(growth, round(settings.CANDIDATES * n**0.5)))
    p = np.zeros(n)
    p[:: max(1, n // settings.START_ROWS)] = 1
    p /= p.sum()
    x = A.T @ p
    primal, dual = primal_value(A, b, x), dual_value(A, b, p)
    B, n_groups, tightness = None, 0, 1.0

    def asked():
        return tightness * min(epsilon * (primal if relative else 1.0), primal - dual)

    while True:
        candidates = np.argsort(b + 2 * A @ x, kind="stable")[:n_candidates]
        changed = B is None
        if B is None:
            groups = np.array_split(candidates, -(-n_candidates // growth))
            n_groups = len(groups)
            B = np.array([np.isin(np.arange(n), group) / len(group) for group in groups])
            q = np.full(n_groups, 1 / n_groups)
            B, q = solved(A, b, B, q, n_groups, settings.INNER_GAP * settings.GAP * asked())
            p, x = B.T @ q, A.T @ (B.T @ q)
        for _ in range(settings.MOST_EXTENSIONS):
            gaps = p @ b + 2 * x @ x - (b + 2 * A @ x)[candidates]
            if gaps.max() <= settings.ENOUGH * asked():
                gaps[:] = -np.inf
            inside = (B[n_groups:] > 0).any(axis=0)[candidates]
            gaps[inside | (gaps <= settings.GAP * asked())] = -np.inf
            added = candidates[np.lexsort((candidates, -gaps))][: (gaps > 0).sum()][:growth]
            if len(added) == 0 and changed:
                break
            tightness /= 1 if len(added) else 4
            B, q, changed = np.vstack([B, np.eye(n)[added]]), np.append(q, 0 * added), True
            B, q = solved(A, b, B, q, n_groups, settings.INNER_GAP * settings.GAP * asked())
            p, x = B.T @ q, A.T @ (B.T @ q)
        primal, dual = min(primal, primal_value(A, b, x)), max(dual, dual_value(A, b, p))
        yield x, p, primal, dual


def primal_value(A, b, x):
    return x @ x - (b + 2 * A @ x).min()


def dual_value(A, b, p):
    return -(p @ b + np.sum((A.T @ p) ** 2))


def solved(A, b, B, q, n_groups, target):
    """Return B and q after pairwise steps, without the rows of weight 0."""
    K = B @ A @ A.T @ B.T
    v = B @ b + 2 * K @ q
    for _ in range(1000 + 20 * len(q)):
        i, j = v.argmin(), np.where(q > 0, v, -np.inf).argmax()
        if q @ v - v[i] <= target:
            break
        curvature = K[i, i] + K[j, j] - 2 * K[i, j]
        step = min(q[j], (v[j] - v[i]) / (2 * curvature)) if curvature > 0 else q[j]
        q[[i, j]] += step, -step
        v += 2 * step * (K[i] - K[j])
    kept = (q > 0) | (np.arange(len(q)) < n_groups)
    return B[kept], q[kept] / q.sum()
