"""Small quadratic programs over the simplex, by interior points.

Paper: Mehrotra, "On the implementation of a primal-dual interior point method" (1992).

Objective: min p'offsets + p'gram p over p in the simplex. With v = offsets + 2 gram p the optimum
has z = v - level = 0 wherever p is positive, and z >= 0 elsewhere. Every step solves

    (2 gram + diag(z / p)) change of p - change of level = right side,     sum of changes = 0

Steps that move weight from one entry to another creep where rows have columns of very different
scales; these do not. Cost per iteration: n^3 / 6 multiplications for n entries.
"""

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrs

from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import upper_factor

MOST_STEPS, MOST_IDLE = 60, 5  # in all, and without a smaller gap
BOUNDARY = 0.995  # of the way to the boundary
LEAST_MARGIN = 1e-3  # of what v differ by, at the start
WORTH = 0.1  # of the gap, that entries left out may cost together


@one_blas_thread()  # threads might change bits
def solved_program(gram, offsets, known, gap):
    """Return p of a small gap, entries that hardly count left out; as near as rounding allows.

    Parameters
    ----------
    gram : ndarray of shape (n, n), float64
        Symmetric and positive semidefinite.
    offsets : ndarray of shape (n,), float64
    known : ndarray of shape (n,), float64
        What other steps have come to; it is returned if nothing better is found.
    gap : float
        p'(v - min v) that is asked for.

    Returns
    -------
    p : ndarray of shape (n,), float64
    """
    with np.errstate(all="ignore"):
        found = without_trifles(_nearest(gram, offsets, gap), gram, offsets, WORTH * gap)
        return found if _gap(gram, offsets, found) < _gap(gram, offsets, known) else known


def _gap(gram, offsets, p):
    v = offsets + 2 * gram @ p
    return p @ (v - v.min())


def _nearest(gram, offsets, gap):
    """Return the p of least gap among the steps."""
    n = len(offsets)
    p = np.full(n, 1 / n)
    v = offsets + 2 * gram @ p
    z = v - v.min() + max(LEAST_MARGIN * np.ptp(v), gap)
    best, least, n_idle = p, np.inf, 0
    for _ in range(MOST_STEPS):
        found, n_idle = _gap(gram, offsets, p), n_idle + 1
        if found < least:
            best, least, n_idle = p, found, 0
        if least <= (1 - WORTH) * gap or n_idle == MOST_IDLE:
            break
        try:
            dp, dz = direction(gram, p, z)
        except LinAlgError:
            break
        step = min(1.0, BOUNDARY * longest_step(p, dp, z, dz))
        p, z = p + step * dp, z + step * dz
        p = p / p.sum()
    return best


def direction(gram, p, z):
    """Return the changes of p and z: to the optimum, as far as the boundary lets, and corrected."""
    system = 2 * gram
    system.flat[:: len(p) + 1] += z / p
    factor = upper_factor(system)
    of_ones = dpotrs(factor, np.ones(len(p)))[0]

    def solved(products):
        """The changes after which the products of p and z are less by these, to first order."""
        change = dpotrs(factor, -products / p)[0]
        change -= change.sum() / of_ones.sum() * of_ones
        return change, -(products + z * change) / p

    now = p @ z
    dp, dz = solved(p * z)
    step = min(1.0, longest_step(p, dp, z, dz))
    after = (p + step * dp) @ (z + step * dz)
    centre = now / len(p) * (after / now) ** 3
    return solved(p * z + dp * dz - centre)


def longest_step(p, dp, z, dz):
    """Return how far p and z stay positive; one length for both, as z follows p."""
    ratios = [(-values / changes)[changes < 0] for values, changes in ((p, dp), (z, dz))]
    return min((part.min() for part in ratios if len(part)), default=1.0)


def without_trifles(p, gram, offsets, cost):
    """Return p without the least entries, as far as that changes the gap by so much at the most."""
    lengths = np.sqrt(np.diagonal(gram))
    changes = p * (4 * lengths * lengths.max() + np.ptp(offsets))
    order = np.argsort(changes)
    left_out = order[np.cumsum(changes[order]) <= cost]
    kept = p.copy()
    kept[left_out] = 0.0
    return kept / kept.sum()
