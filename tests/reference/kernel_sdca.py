"""Block dual ascent for kernel machines, as sublinear._solvers.kernel_sdca does it, on a matrix.

Everything in float64, losses by their DualForm: l*(-a) = ridge a^2 / 2 + epsilon |a| - y a within a
box. Working sets are given from outside.
"""

import numpy as np


def box(form, y, scales):
    """The coefficients' lower and upper ends, and their ridge."""
    high = np.where(scales > 0, form.bound * np.where(scales > 0, scales, 1), 0)
    low = -high
    if form.one_sided:
        low, high = np.where(y > 0, 0, low), np.where(y < 0, 0, high)
    ridge = np.where(scales > 0, form.ridge / np.where(scales > 0, scales, 1), 0)
    return low, high, ridge


def gains(v, g, q, low, high, epsilon):
    """What the best step of each coefficient alone adds to the dual value, and its target."""
    u = g + q * v
    target = np.clip((u - np.clip(u, -epsilon, epsilon)) / q, low, high)
    d = target - v
    return d * (g - q * d / 2) - epsilon * (np.abs(target) - np.abs(v)), target


def ascend(K, v, g, low, high, epsilon, inner_tol, most):
    """Greedy ascent over all of v, in place."""
    q = np.diag(K)
    gain, target = gains(v, g, q, low, high, epsilon)
    least = inner_tol * gain.max()
    for _ in range(most):
        j = gain.argmax()
        if not gain[j] > least:
            return
        step = target[j] - v[j]
        v[j] = target[j]
        g -= step * K[:, j]
        gain, target = gains(v, g, q, low, high, epsilon)


def ascend_pairs(K, v, g, low, high, epsilon, inner_tol, most):
    """Ascent along pairs that keep sum v, in place; v has no kink where epsilon, an array, is 0."""
    q, least = np.diag(K), None
    for _ in range(most):
        rising = np.where(v < high, g + np.where(v < 0, epsilon, -epsilon), -np.inf)
        falling = np.where(v > low, g + np.where(v > 0, -epsilon, epsilon), np.inf)
        i = rising.argmax()
        rise = np.maximum(rising[i] - falling, 0)
        rise[i] = 0
        if least is None:
            least = np.sqrt(inner_tol) * rise.max()
        bend = np.maximum(q[i] + q - 2 * K[i], 1e-6 * q[i])
        room = np.where((v > 0) & (epsilon > 0), v, v - low)
        room = np.minimum(room, -v[i] if v[i] < 0 and epsilon[i] > 0 else high[i] - v[i])
        step = np.minimum(rise / bend, room)
        gain = step * (rise - bend * step / 2)
        j = gain.argmax()
        if not (rise.max() > least and gain[j] > 0):
            return
        v[i] += step[j]
        v[j] -= step[j]
        g -= step[j] * (K[:, i] - K[:, j])


def kernel_sdca(K, y, form, scales, working_sets, inner_tol=0.01, shift=0.0, free=False):
    """Yield the coefficients after every round, one round per working set.

    With `shift` the kernel is K + shift: a penalised intercept, whose own example comes last.
    """
    low, high, ridge = box(form, y, scales)
    v, margins = np.zeros(len(y)), np.zeros(len(y))
    for rows in working_sets:
        count, most = len(rows), 20 * len(rows)
        block = K[np.ix_(rows, rows)] + np.diag(ridge[rows])
        g = (y - margins - shift * v.sum() - ridge * v)[rows]
        if free or shift:
            extra = int(shift > 0)
            block = np.pad(block, (0, extra))
            block[count:, count:] = shift
            part, g = np.append(v[rows], np.zeros(extra)), np.append(g, np.zeros(extra))
            ends = (
                np.append(low[rows], [-np.inf] * extra),
                np.append(high[rows], [np.inf] * extra),
            )
            epsilon = np.append(np.full(count, form.epsilon), np.zeros(extra))
            ascend_pairs(block, part, g, *ends, epsilon, inner_tol, most)
            part = part[:count]
        else:
            part = v[rows]
            ascend(block, part, g, low[rows], high[rows], form.epsilon, inner_tol, most)
        margins += K[:, rows] @ (part - v[rows])
        v[rows] = part
        yield v.copy()


def values(K, y, loss, scales, v, intercept=0.0):
    """P and D of the coefficients v."""
    margins = K @ v
    a = np.divide(v, scales, out=np.zeros_like(v), where=scales > 0)
    primal = v @ margins / 2 + scales @ loss.value(margins + intercept, y)
    return primal, -v @ margins / 2 - scales @ loss.conjugate(a, y)
