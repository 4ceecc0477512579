"""Measure Pegasos's time per step beside SGDClassifier's, on one thread.

    python asv_bench/measure_steps.py FOLDER [--sets covtype news20-uni] [--json measure_steps.json]

The hinge loss, no intercept, single steps over shuffled epochs, of which the second and those after
it are timed. SGDClassifier keeps no average and has tol=None; its time per step is the difference
between fits of many epochs and of one, so that what it does before and after its loop does not
count. What packing costs is given apart, and what it costs to lay the rows out in strata.
"""

import argparse
import time
import warnings

import numpy as np
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.packed import PackedRows
from sublinear._core.random import RandomBits
from sublinear._core.strata import Strata
from sublinear._solvers.pegasos import Pegasos

HEADER = ["set", "what", "ns per step", "ratio to SGDClassifier"]
EPOCHS = 4
OURS = {
    "Pegasos, last iterate, packed rows": {"pack": True},
    "Pegasos, last iterate": {},
    "Pegasos, tail average, packed rows": {"pack": True, "average": "tail"},
    "Pegasos, tail average": {"average": "tail"},
}


def our_seconds(problem, seed, options):
    """Return the seconds of EPOCHS epochs of steps after the first."""
    objective = Objective(
        Matrix(problem.X),
        np.asarray(problem.y, dtype=float),
        MARGIN_LOSSES["hinge"].loss(),
        problem.alpha,
    )
    strata = Strata(objective.matrix, objective.targets_array)
    random = RandomBits(np.random.SeedSequence(seed))
    solver = Pegasos(objective, random, strata=strata, **options)
    solver.advance(2**60)
    started = time.perf_counter()
    while solver.n_iter < 1 + EPOCHS:
        solver.advance(2**60)
    return time.perf_counter() - started


def sgd_seconds(problem, seed):
    """Return the seconds that EPOCHS more epochs take."""

    def fit(epochs):
        settings = {"alpha": problem.alpha, "fit_intercept": False, "random_state": seed}
        model = SGDClassifier(tol=None, max_iter=epochs, **settings)
        return seconds_of(lambda: model.fit(problem.X, problem.y))

    return fit(1 + EPOCHS) - fit(1)


def packing_seconds(problem):
    matrix, targets = Matrix(problem.X), np.asarray(problem.y, dtype=float)
    return seconds_of(lambda: PackedRows(matrix, targets))


def strata_seconds(problem):
    matrix, targets = Matrix(problem.X), np.asarray(problem.y, dtype=float)
    return seconds_of(lambda: Strata(matrix, targets))


def measure(problem, repetitions):
    """Return {what: median ns per step}; of packing and of strata, ns per row."""
    tasks = {"SGDClassifier": lambda seed: sgd_seconds(problem, seed)}
    for name, options in OURS.items():
        tasks[name] = lambda seed, options=options: our_seconds(problem, seed, options)
    tasks["packing, once"] = lambda _: packing_seconds(problem) * EPOCHS
    tasks["strata, once"] = lambda _: strata_seconds(problem) * EPOCHS
    medians = interleaved_medians(tasks, repetitions)
    steps = EPOCHS * problem.X.shape[0]
    return {name: seconds / steps * 1e9 for name, seconds in medians.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "measure_steps.json")
    parser.set_defaults(sets=["covtype", "news20-uni"])
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    figures = {}
    with threadpool_limits(1):
        for problem in problems(options.data, options.sets):
            figures[problem.name] = measure(problem, options.repetitions)
    table = [
        [name, what, f"{ns:.0f}", f"{ns / found['SGDClassifier']:.2f}"]
        for name, found in figures.items()
        for what, ns in found.items()
    ]
    report(HEADER, table, options.json, {"ns_per_step": figures})


if __name__ == "__main__":
    main()
