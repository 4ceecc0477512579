"""The sublinear perceptron: Clarkson, Hazan, Woodruff (2010), Figure 3."""

import numpy as np

from reference.sampling import draw_l2, reweighted


def constants(n, epsilon):
    """The number of steps and eta of line 2."""
    T = int(np.ceil(200**2 * epsilon**-2 * np.log(n)))
    return T, np.sqrt(np.log(n) / T) / 100


def perceptron(A, T, eta, draws, step=None):
    """Yield x_t, p_t and the row of every step; `step` is 1 / sqrt(2 T) by default."""
    n, d = A.shape
    step = 1 / np.sqrt(2 * T) if step is None else step
    y, p = np.zeros(d), np.full(n, 1 / n)
    for _ in range(T):
        x = y / max(1, np.linalg.norm(y))
        i = draws.row(p)
        yield x, p, i
        y = y + step * A[i]
        p = reweighted(p, draw_l2(A, x, draws), eta)


def means(steps, n):
    """Return the mean of x_t and the dual solution of Corollary II.8, the mean of e_{i_t}."""
    xs, _, rows = zip(*steps, strict=True)
    return np.mean(xs, axis=0), np.bincount(rows, minlength=n) / len(rows)
