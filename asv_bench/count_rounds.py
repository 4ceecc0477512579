"""Count the rounds of SDCA over partitions to a gap of 1e-3, and the passes of one process.

    python asv_bench/count_rounds.py FOLDER [--sets adult covtype] [--json count_rounds.json]

The partitions are random ones, in this process: how many rounds they take depends on nothing else.
"""

import argparse
import warnings

import numpy as np
from figures import add_common_arguments, problems, report
from sklearn.exceptions import ConvergenceWarning

import sublinear
from sublinear.distributed import SDCAClassifier

PARTITIONS = (2, 4, 8)
COMBINATIONS = ("adaptive", "safe")
MOST_ROUNDS = 400
HEADER = ["set", "intercept", "passes, one process", *(f"{k} partitions" for k in PARTITIONS)]


def counts(problem, penalize_intercept):
    """Return passes and rounds; None where MOST_ROUNDS are not enough."""
    X, y = problem.X.tocsr(), np.asarray(problem.y)
    order = np.random.default_rng(0).permutation(len(y))
    options = {
        "alpha": problem.alpha,
        "penalize_intercept": penalize_intercept,
        "max_iter": MOST_ROUNDS,
        "random_state": 0,
    }

    def taken(model, *data):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*data)
        return model.n_iter_ if model.result_.status == "converged" else None

    parts = {n: [[(X[rows], y[rows])] for rows in np.array_split(order, n)] for n in PARTITIONS}
    return {
        "set": problem.name,
        "intercept": "penalised" if penalize_intercept else "free",
        "passes": taken(sublinear.SDCAClassifier(**options), X, y),
        "rounds": {
            combination: [
                taken(SDCAClassifier(combination=combination, **options), parts[n])
                for n in PARTITIONS
            ]
            for combination in COMBINATIONS
        },
    }


def row(found):
    """Return a row of the table: rounds of both combinations, adaptive first."""
    pairs = zip(*(found["rounds"][combination] for combination in COMBINATIONS), strict=True)
    shown = [[f"over {MOST_ROUNDS}" if n is None else str(n) for n in pair] for pair in pairs]
    return [found["set"], found["intercept"], found["passes"], *map(" / ".join, shown)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "count_rounds.json")
    parser.set_defaults(sets=["adult", "covtype"])
    options = parser.parse_args()
    found = [
        counts(problem, penalize_intercept)
        for problem in problems(options.data, options.sets)
        for penalize_intercept in (True, False)
    ]
    report(HEADER, [row(one) for one in found], options.json, {"counts": found})


if __name__ == "__main__":
    main()
