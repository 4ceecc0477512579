"""Primal and dual values of the saddle points: each pair brackets the optimum."""

import numpy as np


def margin(A, x, p):
    """max over |x| <= 1 of min_i <A_i, x>: a lower and an upper bound."""
    return (A @ x).min(), np.linalg.norm(A.T @ p)


def enclosing_ball(A, x, p):
    """min_x max_i |x - A_i|^2: an upper and a lower bound."""
    centre = A.T @ p
    return ((A - x) ** 2).sum(axis=1).max(), p @ (A**2).sum(axis=1) - centre @ centre


def simplex_qp(A, b, p, x=None):
    """min over the simplex of p'b + |A'p|^2: an upper and a lower bound; x = A'p by default."""
    mean = A.T @ p
    x = mean if x is None else x
    return p @ b + mean @ mean, (b + 2 * A @ x).min() - x @ x


def matrix_game(A, x, p):
    """min_x max_i (A x)_i, both mixed strategies: an upper and a lower bound."""
    return (A @ x).max(), (A.T @ p).min()


def slack_margin(margins, nu):
    """The largest min_i margins_i + xi_i over the slack of problem (3), by bisection."""
    low, high = margins.min(), margins.min() + 2
    for _ in range(100):
        middle = (low + high) / 2
        if np.maximum(0, middle - margins).sum() <= nu * len(margins):
            low = middle
        else:
            high = middle
    return low


def slack_mass(p, nu):
    """The maximum of <p, xi> over 0 <= xi_i <= 2, sum xi_i <= nu n."""
    return np.sort(p)[::-1] @ full_slack(len(p), nu)


def full_slack(n, nu):
    """Slack in order of importance: 2 for the first nu n / 2, what remains for the next."""
    return np.clip(nu * n - 2 * np.arange(n), 0, 2)


def simba(X, y, nu, w, b, p):
    """Problem (3) of SIMBA: a lower and an upper bound; |w| <= 1, |b| <= 1."""
    lower = slack_margin(y * (X @ w + b), nu)
    upper = np.linalg.norm(X.T @ (p * y)) + abs(p @ y) + slack_mass(p, nu)
    return lower, upper


def simba_without_bias(X, y, nu, w, p):
    """The same with b = 0."""
    return slack_margin(y * (X @ w), nu), np.linalg.norm(X.T @ (p * y)) + slack_mass(p, nu)
