"""Newton's method and a primal-dual interior point method, with the whole linear systems solved.

Losses of the interior point method by their DualForm, l*(-a) = ridge a^2 / 2 + epsilon |a| - y a on
an interval; where epsilon is above 0, a dual is the difference of two parts.
"""

import numpy as np


def shares(y, weights):
    s = np.ones(len(y)) if weights is None else weights
    return s / s.sum()


def penalties(d, alpha, free):
    return np.append(np.full(d - 1, alpha), 0.0 if free else alpha)


def newton(X, y, loss, second_derivative, alpha, weights=None, free=False, *, is_straight=False):
    """Yield w, the duals of its slopes and those of the equations after every step, for ever.

    The last are None where the step had to be shortened. With secants where the loss `is_straight`.
    """
    c, penalty = shares(y, weights), penalties(X.shape[1], alpha, free)
    w, share = np.zeros(X.shape[1]), 1.0

    def primal(w):
        return penalty @ w**2 / 2 + c @ loss.value(X @ w, y)

    while True:
        z = X @ w
        slopes, curvatures = loss.derivative(z, y), second_derivative(z, y)
        if is_straight:
            secants = np.where(slopes == 0, 0.0, slopes / np.where(z == y, 1.0, z - y))
            curvatures = np.maximum(curvatures, share * secants)
        gradient = penalty * w + X.T @ (c * slopes)
        hessian = np.diag(penalty) + X.T @ ((c * curvatures)[:, None] * X)
        step = np.linalg.solve(hessian, -gradient)
        size = 1.0
        while primal(w + size * step) > primal(w) + 1e-4 * size * gradient @ step:
            size /= 2
        share = share / 4 if size == 1 else min(4 * share, 1.0)
        w = w + size * step
        solved = -slopes - curvatures * (X @ step) if size == 1 else None
        yield w, -loss.derivative(X @ w, y), solved


def interior_point(X, y, form, alpha, weights=None, free=False):
    """Yield (w, duals) after every iteration, for ever."""
    two_parts = form.epsilon > 0
    signs = np.concatenate([np.ones_like(y), -np.ones_like(y)]) if two_parts else np.ones_like(y)
    if form.one_sided:
        signs = y
    n_parts = 2 if two_parts else 1
    X2, c = np.tile(X, (n_parts, 1)), np.tile(shares(y, weights), n_parts)
    scales = np.ones(len(c))
    if c.max() > 64 * c.min():
        scales = 1 / np.sqrt(c)
        scales *= n_parts / (c @ scales)
    cost = form.epsilon - signs * np.tile(y, n_parts)
    low, high = (0.0 if form.one_sided or two_parts else -form.bound), form.bound
    bounds = [(sign, bound) for sign, bound in ((1, low), (-1, high)) if np.isfinite(bound)]
    penalty = penalties(X.shape[1], alpha, free)

    def residuals():
        return form.ridge * p + cost + signs * (X2 @ w)

    w = np.zeros(X.shape[1])
    p = np.full(len(cost), {2: (low + high) / 2, 1: 1.0, 0: 0.0}[len(bounds)])
    spread = max(c @ np.abs(residuals()), 0.1 * c @ np.abs(cost)) / n_parts
    m = [np.maximum(sign * residuals(), 0) + spread for sign, _ in bounds]

    def centre(m, p):
        return np.mean(
            [c @ (mk * s * (p - b)) / n_parts for mk, (s, b) in zip(m, bounds, strict=True)]
        )

    def solve(products):
        d, k = len(w), len(p)
        rows = [
            np.hstack([np.diag(penalty), -X2.T * (c * signs)] + [np.zeros((d, k)) for _ in m]),
            np.hstack(
                [signs[:, None] * X2, form.ridge * np.eye(k)] + [-s * np.eye(k) for s, _ in bounds]
            ),
        ]
        right = [
            X2.T @ (c * signs * p) - penalty * w,
            -residuals() + sum(s * mk for mk, (s, _) in zip(m, bounds, strict=True)),
        ]
        for j, (mk, (s, b)) in enumerate(zip(m, bounds, strict=True)):
            others = [np.zeros((k, k)) for _ in m]
            others[j] = np.diag(s * (p - b))
            rows.append(np.hstack([np.zeros((k, d)), np.diag(s * mk), *others]))
            right.append(products[j] - mk * s * (p - b))
        x = np.linalg.solve(np.vstack(rows), np.concatenate(right))
        return x[:d], x[d : d + k], [x[d + (j + 1) * k : d + (j + 2) * k] for j in range(len(m))]

    def longest(dp, dm):
        values = [v for mk, (s, b) in zip(m, bounds, strict=True) for v in (mk, s * (p - b))]
        changes = [v for dk, (s, _) in zip(dm, bounds, strict=True) for v in (dk, s * dp)]
        steps = [
            v[dv < 0] / -dv[dv < 0] for v, dv in zip(values, changes, strict=True) if (dv < 0).any()
        ]
        return min((s.min() for s in steps), default=np.inf)

    while True:
        dw, dp, dm = solve([0.0] * len(m))
        if bounds:
            t, before = min(1, longest(dp, dm)), centre(m, p)
            after = centre([mk + t * dk for mk, dk in zip(m, dm, strict=True)], p + t * dp)
            aim = scales * before * (after / before) ** 3
            dw, dp, dm = solve([aim - s * dk * dp for dk, (s, _) in zip(dm, bounds, strict=True)])
        t = min(1, 0.99 * longest(dp, dm))
        w, p, m = w + t * dw, p + t * dp, [mk + t * dk for mk, dk in zip(m, dm, strict=True)]
        yield w, (signs * p).reshape(n_parts, -1).sum(axis=0)
