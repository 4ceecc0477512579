"""The generic sublinear primal-dual algorithm: Clarkson, Hazan, Woodruff (2010), Figure 4.

max over x of min over i of c_i(x), with a low-regret step and a sampler handed in; the matrix game
of section IV-A is one instance.
"""

import numpy as np

from reference.sampling import draw_l2, reweighted


def primal_dual(n, T, eta, initial, regret_step, sample, draws):
    """Yield x_t, p_t and the row of every step.

    sample(x, draws) returns estimates of c_i(x) for all i; regret_step(x, i) the next x, given the
    gradient of c_i.
    """
    x, p = initial, np.full(n, 1 / n)
    for _ in range(T):
        p = reweighted(p, sample(x, draws), eta)
        i = draws.row(p)
        yield x, p, i
        x = regret_step(x, i)


def matrix_game(A, T, eta, draws):
    """min over strategies x of the columns of max over rows of (A x)_i, as max min of -A x."""
    n, d = A.shape
    return primal_dual(
        n,
        T,
        eta,
        initial=np.full(d, 1 / d),
        regret_step=lambda x, i: reweighted(x, A[i], eta),
        sample=lambda x, draws: -A[:, draws.column(x)],
        draws=draws,
    )


def lazy_perceptron(A, T, eta, draws, radius=1.0):
    """The perceptron with lazy projection, as Figure 3 has it, in a ball of any radius."""
    total = np.zeros(A.shape[1])
    step = radius / np.linalg.norm(A, axis=1).max() / np.sqrt(2 * T)

    def regret_step(x, i):
        total[:] += step * A[i]
        return total / max(1, np.linalg.norm(total) / radius)

    def sample(x, draws):
        return draw_l2(A, x, draws)

    return primal_dual(len(A), T, eta, np.zeros(A.shape[1]), regret_step, sample, draws)


def simplex_qp(A, b, T, eta, draws):
    """max over x of min over i of b_i + 2 <A_i, x> - |x|^2; x is the mean of the rows drawn."""
    drawn = []

    def regret_step(x, i):
        drawn.append(A[i])
        return np.mean(drawn, axis=0)

    def sample(x, draws):
        return b + 2 * draw_l2(A, x, draws) - x @ x

    return primal_dual(len(A), T, eta, np.zeros(A.shape[1]), regret_step, sample, draws)


def perceptron(A, T, eta, draws):
    """The perceptron as an instance: like Figure 3, but x is projected at every step."""

    def regret_step(x, i):
        x = x + A[i] / np.sqrt(2 * T)
        return x / max(1, np.linalg.norm(x))

    def sample(x, draws):
        return draw_l2(A, x, draws)

    return primal_dual(len(A), T, eta, np.zeros(A.shape[1]), regret_step, sample, draws)
