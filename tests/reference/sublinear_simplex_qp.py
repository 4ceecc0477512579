"""Sublinear minimum enclosing balls and simplex QPs: Clarkson, Hazan, Woodruff, section III.

The algorithm is that of the full version of the paper (Journal of the ACM, 2012), Algorithm
Sublinear MEB. With v_i = b_i + 2 <A_i, x> - |x|^2, max over x of min over i of v_i is the simplex
QP; b_i = -|A_i|^2 turns it into minus the squared radius of the smallest ball.
"""

import numpy as np

from reference.sampling import draw_l2, reweighted


def constants(n, epsilon):
    """The number of steps, eta, and the probability of a primal step."""
    T = int(np.ceil(np.log(n) / epsilon**2))
    return T, np.sqrt(np.log(n) / T), min(1, np.log(T) / np.sqrt(T * np.log(n)))


def simplex_qp(A, b, T, eta, probability, draws):
    """Yield x_t, p_t and the row of every step; x is the mean of the rows drawn at heads."""
    n, d = A.shape
    total, heads, p = np.zeros(d), 0, np.full(n, 1 / n)
    for _ in range(T):
        x = total / max(1, heads)
        i = draws.row(p)
        yield x, p, i
        if draws.coin(probability) or heads == 0:
            total, heads = total + A[i], heads + 1
        p = reweighted(p, b + 2 * draw_l2(A, x, draws) - x @ x, eta)


def enclosing_ball(A, T, eta, probability, draws):
    """The same for the smallest ball."""
    yield from simplex_qp(A, -(A**2).sum(axis=1), T, eta, probability, draws)
