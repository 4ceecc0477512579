"""Smallest enclosing balls by whole passes: what the sublinear method is compared with."""

import numpy as np


def badoiu_clarkson(A):
    """Yield the centre after every pass: Badoiu, Clarkson (2003), a step to the farthest point."""
    centre = A[0].astype(float)
    k = 0
    while True:
        yield centre
        k += 1
        farthest = A[((A - centre) ** 2).sum(axis=1).argmax()]
        centre = centre + (farthest - centre) / (k + 1)


def away_step_frank_wolfe(A):
    """Yield centre and weights after every pass: Yildirim (2008), Algorithm 4.1's away steps.

    Frank-Wolfe on max over the simplex of p'|A_i|^2 - |A'p|^2, with exact line searches.
    """
    squares = (A**2).sum(axis=1)
    p = np.zeros(len(A))
    p[squares.argmax()] = 1.0
    while True:
        centre = A.T @ p
        yield centre, p
        distances = squares - 2 * A @ centre + centre @ centre
        mean = p @ distances
        far, near = distances.argmax(), np.where(p > 0, distances, np.inf).argmin()
        if distances[far] <= mean:
            continue  # optimal
        if distances[far] - mean >= mean - distances[near]:
            direction, i, longest = A[far] - centre, far, 1.0
        else:
            direction, i = centre - A[near], near
            longest = p[near] / (1 - p[near]) if p[near] < 1 else 0.0
        slope = abs(distances[i] - mean)
        step = min(longest, slope / (2 * direction @ direction))
        signed = step if i == far else -step
        p = p * (1 - signed)
        p[i] += signed
        p[p < 1e-15] = 0.0
