"""Streaming SVRG in NumPy: the paper's Algorithm 1, and the scheme that combines its stages."""

import numpy as np
from scipy.optimize import minimize


def paper_scheme(X, y, loss, *, alpha, rate, first_stage, draw_steps, growth):
    """Run Algorithm 1 over the rows; draw_steps() is the number of inner steps of a stage."""
    w, position, length = np.zeros(X.shape[1]), 0, first_stage
    while position < len(y):
        anchor, size = w.copy(), int(np.ceil(length))
        rows = slice(position, position + size)
        if position + size > len(y):
            break
        mean = X[rows].T @ loss.derivative(X[rows] @ anchor, y[rows]) / size + alpha * anchor
        position += size
        inner = slice(position, position + draw_steps())
        for x, target in zip(X[inner], y[inner], strict=True):
            change = loss.derivative(x @ w, target) - loss.derivative(x @ anchor, target)
            w = w - rate * (change * x + alpha * (w - anchor) + mean)
            position += 1
        length *= growth
    return w


def combined_scheme(X, y, loss, *, alpha, kept_rows, growth=2.0):
    """Run the combined scheme, its inner problems by a general minimiser."""
    w, total, position = np.zeros(X.shape[1]), 0, 0
    sample = None
    while position < len(y):
        size = max(kept_rows, int((growth - 1) * position))
        stage = slice(position, min(position + size, len(y)))
        count = stage.stop - stage.start
        if sample is None or count >= kept_rows:
            sample = slice(stage.start, min(stage.start + kept_rows, stage.stop))
        w = inner_minimum(X, y, loss, alpha, w, stage, sample, count / (total + count))
        total, position = total + count, stage.stop
    return w


def inner_minimum(X, y, loss, alpha, anchor, stage, sample, share):
    """argmin over v of mean_sample l(<v, x>) + <c, v> + alpha / 2 |v|^2, damped."""

    def mean_gradient(rows, v):
        return X[rows].T @ loss.derivative(X[rows] @ v, y[rows]) / len(y[rows])

    slope = share * mean_gradient(stage, anchor) - mean_gradient(sample, anchor)
    slope -= (1 - share) * alpha * anchor

    # the curvature that features have in the stream so far, but not in the sample; a quarter more
    # may be chance
    here = np.mean(X[sample] ** 2, axis=0)
    missing = np.maximum(0, np.mean(X[: stage.stop] ** 2, axis=0) - 1.25 * here)
    scores, h = X[sample] @ anchor, 1e-6
    ends = [loss.derivative(scores + side, y[sample]) for side in (-h, h)]
    c = np.subtract(*ends) / (-2 * h)
    own = c @ X[sample] ** 2 / len(c)
    damping = missing * (own + c.mean() * missing) / (here + missing)
    if share == 1:  # the sample is all there is
        damping = 0 * damping

    # a tenth of the quadratic model at the anchor, which moves no minimiser of a quadratic
    part = 0.1 if share < 1 else 0.0
    first = mean_gradient(sample, anchor) + slope + alpha * anchor
    hessian = X[sample].T @ (c[:, None] * X[sample]) / len(c) + np.diag(alpha + damping)

    def objective(v):
        away = v - anchor
        value = loss.value(X[sample] @ v, y[sample]).mean() + slope @ v + alpha / 2 * v @ v
        value += damping @ away**2 / 2 + part * away @ (first + hessian @ away / 2)
        return value, (
            mean_gradient(sample, v)
            + slope
            + alpha * v
            + damping * away
            + part * (first + hessian @ away)
        )

    return minimize(objective, anchor, jac=True, method="BFGS", options={"gtol": 1e-10}).x
