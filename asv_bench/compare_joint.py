"""Time whole fits of joint multiclass models: test errors against seconds.

    python asv_bench/compare_joint.py FOLDER [--json compare_joint.json]

Joint Pegasos for some numbers of epochs, LinearSVC(multi_class="crammer_singer"), which solves the
same problem, and LinearSVC one against the rest, all with an intercept; multinomial logistic
regression by joint Pegasos and by L-BFGS. Every peer at its default tolerance. Seconds are medians
of interleaved fits; crammer_singer is fitted once for each C: it takes too long for more.
"""

import argparse
import os
import warnings
from pathlib import Path

from figures import interleaved_medians, loader, report, seconds_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from sublinear import PegasosClassifier

HEADER = ["loss", "solver", "C", "test error", "seconds", "times joint Pegasos, 10 epochs"]
CS = (0.3, 1.0)
EPOCHS = (5, 10, 40)
OURS = "PegasosClassifier joint, {} epochs"


def pegasos(loss, C, n_rows, epochs):
    return PegasosClassifier(
        loss,
        multi_class="joint",
        alpha=1 / (C * n_rows),
        max_iter=epochs,
        tol=0,
        random_state=0,
    )


def solvers(n_rows, C):
    """Return {(loss, name): estimator}."""
    ours = {
        (loss, OURS.format(epochs)): pegasos(loss, C, n_rows, epochs)
        for loss in ("hinge", "logistic")
        for epochs in EPOCHS
    }
    return ours | {
        ("hinge", "LinearSVC crammer_singer"): LinearSVC(
            multi_class="crammer_singer", C=C, random_state=0
        ),
        ("hinge", "LinearSVC one-vs-rest"): LinearSVC(loss="hinge", C=C, random_state=0),
        ("logistic", "LogisticRegression"): LogisticRegression(C=C),
    }


def measure(data, C, repetitions):
    """Return the figures for one C, a list of JSON-ready dicts."""
    X, y, X_test, y_test = data
    models = solvers(X.shape[0], C)
    slow = [key for key in models if "crammer_singer" in key[1]]
    seconds = interleaved_medians(
        {
            key: lambda _, model=model: seconds_of(lambda: model.fit(X, y))
            for key, model in models.items()
            if key not in slow
        },
        repetitions,
    )
    for key in slow:
        seconds[key] = seconds_of(lambda key=key: models[key].fit(X, y))
    return [
        {
            "loss": loss,
            "solver": name,
            "C": C,
            "test_error": 1 - model.score(X_test, y_test),
            "seconds": seconds[loss, name],
            "ratio": seconds[loss, name] / seconds[loss, OURS.format(10)],
        }
        for (loss, name), model in models.items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", nargs="?", default=os.environ.get("SUBLINEAR_DATA"))
    parser.add_argument("--json", type=Path, default=Path("compare_joint.json"))
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = loader(options.data)("news20-multi")
    with threadpool_limits(1):
        figures = [row for C in CS for row in measure(data, C, options.repetitions)]
    table = [
        [
            row["loss"],
            row["solver"],
            row["C"],
            f"{100 * row['test_error']:.2f} %",
            f"{row['seconds']:.2f}",
            f"{row['ratio']:.1f}",
        ]
        for row in figures
    ]
    report(HEADER, table, options.json, {"set": "news20-multi", "fits": figures})


if __name__ == "__main__":
    main()
