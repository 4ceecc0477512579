"""Time one in-memory pass of Streaming SVRG against a bare pass of row dots over the same data.

python asv_bench/measure_streaming_svrg.py [FOLDER] [--json measure_streaming_svrg.json]
"""

import argparse

import numpy as np
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of

from sublinear import StreamingSVRGClassifier, StreamingSVRGRegressor
from sublinear._core.matrix import Matrix
from sublinear.sources import ArraySource

HEADER = ["data", "rows", "columns", "squared", "logistic"]
DENSE = ((1_000_000, 20), (1_000_000, 100), (400_000, 100), (40_000, 1000))
REPETITIONS = 7


def cases(folder, sets):
    """Yield (name, X, labels): generated dense rows, then real sets where there are any."""
    random = np.random.default_rng(0)
    for n, d in DENSE:
        X = random.normal(size=(n, d))
        yield "dense", X, np.where(X[:, 0] + random.normal(size=n) > 0, 1.0, -1.0)
    if folder:
        for problem in problems(folder, sets):
            yield problem.name, problem.X, problem.y


def measure(X, y):
    """Return {task: median seconds}."""
    order, w, source = np.arange(X.shape[0]), np.ones(X.shape[1]), ArraySource(X, y)
    matrix = Matrix(X)
    options = {"fit_intercept": False, "alpha": 1e-6}
    tasks = {
        "row dots": lambda: matrix.row_dots(w, order),
        "squared": lambda: StreamingSVRGRegressor(**options).fit_stream(source).coef_,
        "logistic": lambda: (
            StreamingSVRGClassifier(**options).fit_stream(source, classes=[-1, 1]).coef_
        ),
    }
    return interleaved_medians(
        {name: lambda _, task=task: seconds_of(task) for name, task in tasks.items()}, REPETITIONS
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "measure_streaming_svrg.json")
    parser.set_defaults(sets=["covtype", "news20-uni"])
    options = parser.parse_args()
    rows, figures = [], []
    for name, X, y in cases(options.data, options.sets):
        seconds = measure(X, y)
        shares = [seconds["row dots"] / seconds[task] for task in ("squared", "logistic")]
        rows.append([name, *X.shape, *(f"{share:.2f}" for share in shares)])
        figures.append({"data": name, "shape": X.shape, "seconds": seconds})
    report(HEADER, rows, options.json, {"passes": figures})


if __name__ == "__main__":
    main()
