"""The interior point method for matrix games, all equations of a step at once."""

import numpy as np


def direction(T, y, z, q, s, a, b):
    """Return dy, dz, dq, ds from one system for them, dt and du."""
    n, m = T.shape
    eye, ones = np.eye, np.ones
    none = np.zeros
    equations = np.block(
        [  # dy, dz, dq, ds, dt, du
            [T, none((n, m)), none((n, n)), eye(n), -ones((n, 1)), none((n, 1))],
            [none((m, m)), eye(m), -T.T, none((m, n)), none((m, 1)), ones((m, 1))],
            [np.diag(z), np.diag(y), none((m, n)), none((m, n)), none((m, 2))],
            [none((n, m)), none((n, m)), np.diag(s), np.diag(q), none((n, 2))],
            [ones((1, m)), none((1, m)), none((1, n)), none((1, n)), none((1, 2))],
            [none((1, m)), none((1, m)), ones((1, n)), none((1, n)), none((1, 2))],
        ]
    )
    right = np.concatenate([none(n + m), a, b, none(2)])
    return np.split(np.linalg.solve(equations, right)[:-2], np.cumsum([m, m, n]))


def share(*pairs):
    """Return the largest part of a step that leaves nothing negative, at most 1."""
    ends = [-u / du for us, dus in pairs for u, du in zip(us, dus, strict=True) if du < 0]
    return min([1.0, *ends])


def game_interior_point(T, least_margin, boundary, short):
    """Yield y, q and the number of directions after every iteration of min_y max_q q'Ty, for ever.

    A step of less than `short` gives way to that with a damped correction, if it is longer.
    """
    n, m = T.shape
    y, q = np.ones(m) / m, np.ones(n) / n
    s = (T @ y).max() - T @ y + np.ptp(T.T @ q) + least_margin
    z = T.T @ q - (T.T @ q).min() + np.ptp(T @ y) + least_margin
    while True:
        dy, dz, dq, ds = direction(T, y, z, q, s, -y * z, -q * s)
        primal, dual = share((y, dy), (s, ds)), share((q, dq), (z, dz))
        now = np.append(y * z, q * s).mean()
        after = np.append(
            (y + primal * dy) * (z + dual * dz), (q + dual * dq) * (s + primal * ds)
        ).mean()
        centre = now * (after / now) ** 3
        lengths, steps = [], []
        for part in (1.0, primal * dual):
            a, b = centre - y * z - part * dy * dz, centre - q * s - part * dq * ds
            step = direction(T, y, z, q, s, a, b)
            steps.append(step)
            lengths.append(share((y, step[0]), (s, step[3]), (q, step[2]), (z, step[1])))
            if lengths[0] >= short:
                break
        dy, dz, dq, ds = steps[np.argmax(lengths)]
        primal = min(1.0, boundary * share((y, dy), (s, ds)))
        dual = min(1.0, boundary * share((q, dq), (z, dz)))
        y, s, q, z = y + primal * dy, s + primal * ds, q + dual * dq, z + dual * dz
        yield y, q, 1 + len(steps)
