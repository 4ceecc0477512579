"""Streaming SVRG in NumPy: the paper's Algorithm 1, and the scheme that combines its stages."""

import numpy as np
from scipy.optimize import minimize


def paper_scheme(X, y, loss, *, alpha, rate, first_stage, draw_steps, growth, weights=None):
    """Run Algorithm 1 over the rows; draw_steps() is the number of inner steps of a stage.

    Rows count by their weight beside the mean one of the stage.
    """
    w, position, length = np.zeros(X.shape[1]), 0, first_stage
    weights = np.ones(len(y)) if weights is None else weights
    while position < len(y):
        anchor, size = w.copy(), int(np.ceil(length))
        rows = slice(position, position + size)
        if position + size > len(y):
            break
        slopes = weights[rows] * loss.derivative(X[rows] @ anchor, y[rows])
        mean = X[rows].T @ slopes / weights[rows].sum() + alpha * anchor
        position += size
        inner = slice(position, position + draw_steps())
        relative = weights[inner] / weights[rows].mean()
        for x, target, s in zip(X[inner], y[inner], relative, strict=True):
            change = loss.derivative(x @ w, target) - loss.derivative(x @ anchor, target)
            w = w - rate * (s * change * x + alpha * (w - anchor) + mean)
            position += 1
        length *= growth
    return w


def combined_scheme(
    X, y, loss, *, alpha, kept_rows, growth=2.0, counts=False, lag=0.06, lag_of_short=0.25
):
    """Run the combined scheme, its inner problems by a general minimiser.

    `rows` are those that stand for all, each for so many as `stand` says; with counts those of
    large masses, their targets, stand for themselves. A stage of many rows sees half of what its
    rows say otherwise of the last step, from `before` to w.
    """
    w, position, bound, before, assumed = np.zeros(X.shape[1]), 0, 0.0, None, None
    masses = y if counts else np.ones(len(y))
    size, rows = kept_rows, np.arange(0)

    def standing(light, heavy, n):
        rows = np.sort(np.append(light, heavy))
        each = (n - len(heavy)) / max(1, len(light))
        return rows, np.where(np.isin(rows, light), each, 1.0)

    while position < len(y):
        stage = np.arange(position, min(position + size, len(y)))
        n = stage[-1] + 1
        if position == 0:
            rows, stand = stage, np.ones(n)
        else:
            known = np.append(rows[(stand == stand.max()) | (masses[rows] > bound)], stage)
            for_others = known if len(stage) < kept_rows else stage[:kept_rows]
            light = for_others[masses[for_others] <= bound]
            rows, stand = standing(light, known[masses[known] > bound], n)
        share, weights = len(stage) / n, stand / stand.sum()
        prior = -alpha * w
        if before is not None and len(stage) >= kept_rows and not counts:
            z, z_before = X[rows] @ w, X[rows] @ before
            slopes = loss.derivative(z, y[rows]) - loss.derivative(z_before, y[rows])
            rises = weights * slopes * (z - z_before)
            if len(rises) * (rises @ rises) <= 8 * rises.sum() ** 2:
                prior += (X[rows].T @ (weights * slopes) - assumed) / 2
        of_stage = np.full(len(stage), 1 / len(stage))
        slope = share * mean_gradient(X, y, loss, stage, of_stage, w) + (1 - share) * prior
        last, w = w, inner_minimum(X, y, loss, alpha, w, n, rows, weights, slope, counts)
        if position > 0:
            before, assumed = last, -alpha * w - slope
        left = X.shape[1] / len(rows)
        if position > 0:
            light = rows[masses[rows] <= bound][-kept_rows:]
            rows, stand = standing(light, rows[masses[rows] > bound], n)
        pace, position = (1 - left) / left * n, n
        size = int(min((growth - 1) * n, lag * pace))
        if size < kept_rows:
            shorter = int(np.ceil(max(lag_of_short * pace, 0.1 * kept_rows)))
            size = kept_rows if n <= kept_rows else min(kept_rows, shorter)
        following = position + size
        bound = max(bound, following / position * (stand @ masses[rows]) / kept_rows)
    return w


def mean_gradient(X, y, loss, rows, weights, v):
    return X[rows].T @ (weights * loss.derivative(X[rows] @ v, y[rows]))


def inner_minimum(X, y, loss, alpha, anchor, n, sample, weights, slope, counts=False):
    """argmin over v of the mean over a sample of l(<v, x>) + <c, v> + alpha / 2 |v|^2, damped.

    So that its slope at the anchor is that of the first n rows.
    """
    is_all = len(sample) == n

    def gradient(v):
        return mean_gradient(X, y, loss, sample, weights, v)

    slope = slope - gradient(anchor)

    # the curvature that features have in the stream so far, but not in the sample; a quarter more
    # may be chance
    here = weights @ X[sample] ** 2
    missing = np.maximum(0, np.mean(X[:n] ** 2, axis=0) - 1.25 * here)
    scores, h = X[sample] @ anchor, 1e-6
    ends = [loss.derivative(scores + side, y[sample]) for side in (-h, h)]
    c = weights * np.subtract(*ends) / (-2 * h)
    own = c @ X[sample] ** 2
    damping = missing * (own + c.sum() * missing) / (here + missing)
    if is_all:
        damping = 0 * damping

    # a tenth of the quadratic model at the anchor, which moves no minimiser of a quadratic
    part = 0.0 if is_all or counts else 0.1
    first = gradient(anchor) + slope + alpha * anchor
    hessian = X[sample].T @ (c[:, None] * X[sample]) + np.diag(alpha + damping)

    def objective(v):
        away = v - anchor
        value = weights @ loss.value(X[sample] @ v, y[sample]) + slope @ v + alpha / 2 * v @ v
        value += damping @ away**2 / 2 + part * away @ (first + hessian @ away / 2)
        return value, (
            gradient(v) + slope + alpha * v + damping * away + part * (first + hessian @ away)
        )

    return minimize(objective, anchor, jac=True, method="BFGS", options={"gtol": 1e-10}).x
