"""The proximal Newton method for rows in passes, with all rows at once."""

import numpy as np

from reference.second_order import penalties, shares

LENGTHS = [0, 4, 2, 1, 1 / 2, 1 / 4, 1 / 8, *(4.0**-k for k in range(2, 16))]


def proximal_newton(X, y, loss, alpha, w, centre, width, second_derivative, *, weights=None, free):
    """Yield (w, width, duals at w) after every pass, for ever; width 0: the loss is smooth.

    second_derivative(z, y, a) is that of the loss or, where there is a width, its width times that
    of the envelope with derivative -a.
    """
    c, penalty = shares(y, weights), penalties(X.shape[1], alpha, free)
    start = width

    def derived(z):
        if not width:
            return -loss.derivative(z, y)
        return np.array([loss.dual_step(*row, width) for row in zip(centre, z, y, strict=True)])

    def smooth(w):
        z = X @ w
        if not width:
            return penalty @ w**2 / 2 + c @ loss.value(z, y)
        a = derived(z)
        envelope = -loss.conjugate(a, y) - a * z - width / 2 * (a - centre) ** 2
        return penalty @ w**2 / 2 + c @ envelope

    step, length, reweighted = None, 1.0, False
    while True:
        z = X @ (w if step is None else w + length * step)
        a = derived(z)
        curvature = second_derivative(z, y, a) / (width or 1)
        if reweighted:
            curvature = np.maximum(curvature, np.abs(a) / np.abs(z - y))
        narrows = False
        if step is not None:
            values = np.array([smooth(w + t * step) for t in LENGTHS])
            gains, evaluated = values[0] - values, LENGTHS.index(length)
            best, tried = int(np.argmax(gains)), length
            step_before, step, length = step, None, 1.0
            if gains[best] <= 1e-15 * abs(values[0]):
                narrows = reweighted and width > 1e-12 * start > 0
                reweighted = True
                best = None
            else:
                if gains[evaluated] >= 0.5 * gains[best]:
                    best = evaluated
                w = w + LENGTHS[best] * step_before
                length = min(1.0, 4 * LENGTHS[best])
                reweighted = LENGTHS[best] < (1e-4 if width else 1 / 8)
            reaches = best is not None and LENGTHS[best] == tried
        else:
            reaches = True
        if reaches:
            gradient = penalty * w - X.T @ (c * a)
            missing = c @ (loss.value(z, y) + loss.conjugate(a, y) + a * z)
            hessian = np.diag(penalty) + X.T @ ((c * curvature)[:, None] * X)
            step = -np.linalg.solve(hessian, gradient)
            w_of_a = X.T @ (c * a) / alpha
            apart = alpha / 2 * np.sum(((w - w_of_a) ** 2)[penalty > 0])
            narrows = bool(width) and apart <= missing
        duals = derived(X @ w)
        if narrows:
            centre, width, step, length, reweighted = duals, 0.2 * width, None, 1.0, False
        yield w, width, duals
