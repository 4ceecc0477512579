"""Measure what permutations in pools do to SDCA: to its convergence and to its time.

    python asv_bench/measure_orders.py FOLDER [--sets covtype] [--json measure_orders.json]

The model after one pass, two and eight, from rows as
they are loaded, sorted by label, and sorted by the values of the first column, so that neighbours
are alike.
"""

import argparse
import statistics

import numpy as np
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of

from sublinear import SDCAClassifier
from sublinear._core import order

BEYOND_CACHE = {"uniform": float("inf"), "in pools": order.BEYOND_CACHE}
PASSES = (1, 2, 8)
SEEDS = 3
REPETITIONS = 9
HEADER = [
    "set",
    "rows",
    "permutations",
    *(f"suboptimality after {k}" for k in PASSES[:2]),
    *(f"time of {k} passes" for k in PASSES),
]


def fit(problem, rows, how, n_passes, seed):
    """Return a model fitted to the rows in their order, by uniform permutations or in pools."""
    X, y = rows
    order.BEYOND_CACHE = BEYOND_CACHE[how]
    model = SDCAClassifier(
        alpha=problem.alpha, max_iter=n_passes, tol=0.0, fit_intercept=False, random_state=seed
    )
    return model.fit(X, y)


def arranged(problem):
    """Return {name: (X, y)} for every arrangement of the rows."""
    first = problem.X[:, [0]].toarray().ravel()
    arrangements = {
        "as loaded": np.arange(len(problem.y)),
        "sorted by label": np.argsort(problem.y, kind="stable"),
        "sorted by a column": np.argsort(first, kind="stable"),
    }
    return {name: (problem.X[rows], problem.y[rows]) for name, rows in arrangements.items()}


def measure(problem):
    """Yield the figures of every arrangement and way to permute."""
    best = fit(problem, (problem.X, problem.y), "uniform", 100, 0).result_.dual
    for name, rows in arranged(problem).items():
        tasks = {
            (how, k): lambda r, how=how, k=k, rows=rows: seconds_of(
                lambda: fit(problem, rows, how, k, r)
            )
            for how in BEYOND_CACHE
            for k in PASSES
        }
        seconds = interleaved_medians(tasks, REPETITIONS)
        for how in BEYOND_CACHE:
            values = [
                statistics.median(
                    fit(problem, rows, how, k, s).result_.primal / best - 1 for s in range(SEEDS)
                )
                for k in PASSES
            ]
            yield {
                "set": problem.name,
                "rows": name,
                "permutations": how,
                "passes": PASSES,
                "suboptimality": values,
                "seconds": [seconds[how, k] for k in PASSES],
                "of uniform": [seconds[how, k] / seconds["uniform", k] for k in PASSES],
            }


def table_row(one):
    return [
        one["set"],
        one["rows"],
        one["permutations"],
        *(f"{value:.1e}" for value in one["suboptimality"][:2]),
        *(f"{ratio:.2f}" for ratio in one["of uniform"]),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "measure_orders.json")
    parser.set_defaults(sets=["covtype"])
    options = parser.parse_args()
    figures = [one for p in problems(options.data, options.sets) for one in measure(p)]
    report(HEADER, map(table_row, figures), options.json, {"orders": figures})


if __name__ == "__main__":
    main()
