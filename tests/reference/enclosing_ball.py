"""Smallest enclosing balls, by whole passes, and exactly in low dimensions."""

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


def least_ball(A):
    """Return centre and squared radius of the smallest ball, exactly; for few columns.

    Gaertner (1999): Welzl's method for the points that mattered so far, to which the farthest of
    all is added until none lies outside.
    """
    known = [0]
    while True:
        centre, square = _move_to_front(A, known, [])
        distances = ((A - centre) ** 2).sum(axis=1)
        farthest = int(distances.argmax())
        if not _outside(distances[farthest], square):
            return centre, square
        known.insert(0, farthest)


def _move_to_front(A, inside, boundary):
    """The least ball of the points `inside` that has those of `boundary` on its sphere."""
    centre, square = _through(A[boundary]) if boundary else (A[inside[0]], 0.0)
    if len(boundary) > A.shape[1]:
        return centre, square
    for k in range(len(inside)):
        i = inside[k]
        if _outside(((A[i] - centre) ** 2).sum(), square):
            centre, square = _move_to_front(A, inside[:k], [*boundary, i])
            inside.insert(0, inside.pop(k))
    return centre, square


def _through(points):
    """The least ball that has the points on its sphere."""
    edges = points[1:] - points[0]
    radius = edges.T @ np.linalg.solve(2 * edges @ edges.T, (edges**2).sum(axis=1))
    return points[0] + radius, radius @ radius


def _outside(distance, square):
    return distance > square * (1 + 1e-12) + 1e-300
