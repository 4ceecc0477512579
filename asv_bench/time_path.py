"""Time a regularisation path of 20 alphas against 20 cold fits.

python asv_bench/time_path.py FOLDER [--sets covtype] [--json time_path.json]
"""

import argparse

import numpy as np
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of

from sublinear import SDCAClassifier, sdca_path

ALPHAS = np.geomspace(1e-3, 1e-7, 20)
REPETITIONS = 3
HEADER = ["set", "tol", "path, s", "cold fits, s", "ratio"]


def compare(problem, tol):
    """Return the median seconds of the path and of the cold fits, in turns, one thread."""
    options = {"tol": tol, "fit_intercept": False, "random_state": 0}

    def path(_):
        return seconds_of(lambda: sdca_path(problem.X, problem.y, ALPHAS, **options))

    def cold_fits(_):
        models = [SDCAClassifier(alpha=alpha, **options) for alpha in ALPHAS]
        return seconds_of(lambda: [model.fit(problem.X, problem.y) for model in models])

    medians = interleaved_medians({"path": path, "cold fits": cold_fits}, REPETITIONS)
    return medians["path"], medians["cold fits"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "time_path.json")
    parser.set_defaults(sets=["covtype"])
    options = parser.parse_args()
    figures = [
        {"set": problem.name, "tol": tol, "seconds": compare(problem, tol)}
        for problem in problems(options.data, options.sets)
        for tol in (1e-2, 1e-3)
    ]
    rows = [
        [
            one["set"],
            f"{one['tol']:g}",
            *(f"{s:.2f}" for s in one["seconds"]),
            f"{one['seconds'][1] / one['seconds'][0]:.2f}",
        ]
        for one in figures
    ]
    report(HEADER, rows, options.json, {"paths": figures})


if __name__ == "__main__":
    main()
