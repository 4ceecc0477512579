"""Values that the sublinear algorithms read, and seconds, against n + d and against 1 / epsilon.

    python plot_sublinear_slopes.py [--problems perceptron ball QP game]

Clarkson, Hazan, Woodruff (2010), up to logarithms: (n + d) / epsilon^2 for the perceptron (Figure
1) and games (Corollary IV.2), n / epsilon^2 + d / epsilon for balls and simplex QPs (Figure 1).
`variant="plain"`, the fewest steps of a grid whose certificate closes
to epsilon, medians over seeds; dense, n = d. Certificates are left out of both: seconds are those
of the steps alone, again without a certificate, and want a quiet machine. Problems that are not
named keep the figures they have.
"""

import argparse
import json
import os
import statistics
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import write
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


def cost(solve, epsilon):
    """Return medians over seeds of the values and seconds of the fewest steps that do, or Nones."""
    found = []
    for seed in range(SEEDS):
        for k in range(40):
            given = {
                "epsilon": epsilon / 4,  # a longer plan than max_iter, so that max_iter decides
                "variant": "plain",
                "max_iter": round(128 * 2 ** (k / 3)),
                "random_state": seed,
            }
            if solve(certify="exact", **given).gap <= epsilon:
                result = solve(certify=None, **given)
                found.append((result.accesses, result.seconds))
                break
    if len(found) < SEEDS:
        return None, None
    return tuple(statistics.median(column) for column in zip(*found, strict=True))


def slope(points):
    x, y = np.log(np.array([(x, y) for x, y in points if y is not None])).T
    return float(np.polyfit(x, y, 1)[0])


def measure(name):
    """Return the points and slopes of a problem, in values and in seconds."""
    make, epsilon, epsilons = PROBLEMS[name]
    by_size = [(2 * n, *cost(make(n), epsilon)) for n in SIZES]
    solve = make(SIZE)
    by_epsilon = [(1 / e, *cost(solve, e)) for e in epsilons]
    found = {"epsilon": epsilon}
    for k, unit in enumerate(UNITS):
        lines = [[(row[0], row[k + 1]) for row in rows] for rows in (by_size, by_epsilon)]
        slopes = [round(slope(line), 3) for line in lines]
        found[unit] = dict(zip(AXES, lines, strict=True)) | {"slopes": slopes}
        print(name, unit, slopes, flush=True)
    return found


UNITS = ("feature values read", "seconds")
AXES = ("against n + d", "against 1 / epsilon")


def draw(problems):
    figure, grid = plt.subplots(2, 2, figsize=(11, 8), layout="constrained", sharex="col")
    for unit, panels in zip(UNITS, grid, strict=True):
        for color, name in zip(COLORS, PROBLEMS, strict=True):
            found = problems[name][unit]
            for axes, axis, one in zip(panels, AXES, found["slopes"], strict=True):
                points = [point for point in found[axis] if point[1] is not None]
                axes.loglog(
                    *zip(*points, strict=True), "o-", color=color, label=f"{name}: slope {one:.2f}"
                )
        panels[0].set_ylabel(unit)
        for axes in panels:
            axes.grid(alpha=0.25)
            axes.legend(fontsize=8)
    grid[1, 0].set_xlabel("n + d, n = d")
    grid[1, 1].set_xlabel(f"1 / epsilon, n = d = {SIZE}")
    for axes, ticks in zip(grid[1], ([2 * n for n in SIZES], (5, 10, 20, 40)), strict=True):
        axes.set_xticks(ticks, [str(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "figures")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), metavar="NAME")
    arguments = parser.parse_args()
    for part in arguments.problems:
        if not any(part in name for name in PROBLEMS):
            parser.error(f"no problem {part}; there are {', '.join(PROBLEMS)}")
    path = arguments.output / "sublinear_slopes.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    problems = known.get("problems", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in PROBLEMS:
            if any(part in name for part in arguments.problems):
                problems[name] = measure(name)
                save(path, problems)
    if problems.keys() == PROBLEMS.keys():
        numbers = {"seeds": SEEDS, "size": SIZE, "problems": problems}
        write(draw(problems), numbers, arguments.output, "sublinear_slopes", uses_data=False)


def save(path, problems):
    """Keep what was measured if the rest takes too long."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({"problems": problems}), encoding="utf-8")
    os.replace(beside, path)


if __name__ == "__main__":
    main()
