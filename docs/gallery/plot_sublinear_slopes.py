"""Feature values that the sublinear algorithms read, against n + d and against 1 / epsilon.

Clarkson, Hazan, Woodruff (2010), Table 1: (n + d) / epsilon^2 up to logarithms, for the perceptron,
balls, simplex QPs and games. `variant="plain"`, the fewest steps of a grid whose certificate closes
to epsilon (the certificate's pass is not counted), medians over seeds; dense, n = d.
"""

import statistics
import warnings

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, write
from sklearn.exceptions import ConvergenceWarning

from sublinear import (
    MinimumEnclosingBall,
    SublinearPerceptron,
    solve_matrix_game,
    solve_simplex_qp,
)
from sublinear.datasets import (
    make_enclosing_ball,
    make_matrix_game,
    make_planted_margin,
    make_simplex_qp,
)

SEEDS = 3
SIZES = (256, 512, 1024, 2048, 4096)
SIZE = 2048  # where epsilon varies
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def perceptron(n):
    data = make_planted_margin(n, n, margin=0.1, dtype=np.float32, random_state=0)
    return lambda **options: (
        SublinearPerceptron(fit_intercept=False, **options).fit(data.X, data.y).result_
    )


def ball(n):
    X = make_enclosing_ball(n, n, radius=1.0, dtype=np.float32, random_state=0).X
    return lambda **options: MinimumEnclosingBall(**options).fit(X).result_


def simplex_qp(n):
    data = make_simplex_qp(n, n, dtype=np.float32, random_state=0)
    return lambda epsilon, **options: solve_simplex_qp(data.A, data.b, epsilon, **options)


def game(n):
    A = make_matrix_game(n, n, dtype=np.float32, random_state=0).A
    return lambda epsilon, **options: solve_matrix_game(A, epsilon, **options)


# what is solved, epsilon where n varies, the epsilons where it varies
PROBLEMS = {
    "perceptron, margin 0.1": (perceptron, 0.04, (0.1, 0.07, 0.05, 0.035, 0.025)),
    "ball": (ball, 0.1, (0.2, 0.14, 0.1, 0.07, 0.05)),
    "simplex QP": (simplex_qp, 0.1, (0.2, 0.14, 0.1, 0.07, 0.05)),
    "game": (game, 0.1, (0.2, 0.14, 0.1, 0.07, 0.05)),
}


def values_read(solve, epsilon):
    """Return the median over seeds of the values read by the fewest steps that do."""
    found = []
    for seed in range(SEEDS):
        for k in range(40):
            result = solve(
                epsilon=epsilon / 4,  # a longer plan than max_iter, so that max_iter decides
                variant="plain",
                certify="exact",
                max_iter=round(128 * 2 ** (k / 3)),
                random_state=seed,
            )
            if result.gap <= epsilon:
                found.append(result.accesses)
                break
    return statistics.median(found) if len(found) == SEEDS else None


def slope(points):
    x, y = np.log(np.array([(x, y) for x, y in points if y is not None])).T
    return float(np.polyfit(x, y, 1)[0])


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    numbers = {"seeds": SEEDS, "size": SIZE, "problems": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for color, (name, (make, epsilon, epsilons)) in zip(COLORS, PROBLEMS.items(), strict=True):
            by_size = [(2 * n, values_read(make(n), epsilon)) for n in SIZES]
            solve = make(SIZE)
            by_epsilon = [(1 / e, values_read(solve, e)) for e in epsilons]
            slopes = slope(by_size), slope(by_epsilon)
            numbers["problems"][name] = {
                "epsilon": epsilon,
                "against n + d": by_size,
                "against 1 / epsilon": by_epsilon,
                "slopes": [round(one, 3) for one in slopes],
            }
            print(name, slopes, flush=True)
            for axes, points, one in zip(panels, (by_size, by_epsilon), slopes, strict=True):
                axes.loglog(
                    *zip(*points, strict=True), "o-", color=color, label=f"{name}: slope {one:.2f}"
                )
    panels[0].set_xlabel("n + d, n = d")
    panels[1].set_xlabel(f"1 / epsilon, n = d = {SIZE}")
    panels[0].set_ylabel("feature values read")
    for axes, ticks in zip(panels, ([2 * n for n in SIZES], (5, 10, 20, 40)), strict=True):
        axes.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.25)
        axes.legend()
    write(figure, numbers, arguments.output, "sublinear_slopes", uses_data=False)


if __name__ == "__main__":
    main()
