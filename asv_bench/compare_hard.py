"""Fits as they come, where features have very different scales or the penalty is weak.

    python asv_bench/compare_hard.py FOLDER [--json compare_hard.json]

Every estimator has its default tolerance and at most 1000 iterations, no intercept, one thread.
Suboptimality is relative, by the dual value of a certified fit to 1e-9. Sets of scikit-learn come
as they are, not scaled; of digits, eights against the rest. `far` has 200 rows of 3000 columns,
normal with mean 100, whose classes a twentieth of the columns tell apart.
"""

import argparse
import warnings

import numpy as np
from benchmarks.solvers import timed_fit
from figures import add_common_arguments, interleaved_medians, problems, report
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from sublinear import SDCAClassifier, SDCARegressor

REPETITIONS = 3
HEADER = ["set", "loss", "alpha", "solver", "seconds", "suboptimality"]
COMMON = {"fit_intercept": False, "max_iter": 1000}


def generated():
    """Yield (name, X, y, losses, alphas) of the sets that need no folder."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, 2.0 * y - 1, ("hinge", "logistic"), (1e-4,)
    X, y = load_digits(return_X_y=True)
    yield "digits", X, np.where(y == 8, 1.0, -1.0), ("hinge", "logistic"), (1e-4,)
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, y - y.mean(), ("squared",), (1e-4, 1e-6)
    random = np.random.default_rng(0)
    X = 100 + random.normal(size=(200, 3000))
    scores = X[:, :150] @ random.normal(size=150)
    yield "far", X, np.where(scores > np.median(scores), 1.0, -1.0), ("hinge", "logistic"), (1e-4,)


def ours(loss, alpha, **settings):
    cls = SDCARegressor if loss == "squared" else SDCAClassifier
    return cls(loss, alpha=alpha, random_state=0, **COMMON | settings)


def estimators(loss, alpha, n_rows):
    """Return {name: estimator} with the same objective."""
    C = 1 / (alpha * n_rows)
    peers = {
        "hinge": lambda: {"LinearSVC": LinearSVC(loss="hinge", C=C, random_state=0, **COMMON)},
        "logistic": lambda: {
            "LogisticRegression (lbfgs)": LogisticRegression(C=C, **COMMON),
            "LogisticRegression (newton-cholesky)": LogisticRegression(
                C=C, solver="newton-cholesky", **COMMON
            ),
        },
        "squared": lambda: {"Ridge": Ridge(alpha=alpha * n_rows, fit_intercept=False)},
    }
    return {
        "SDCA": ours(loss, alpha),
        "SDCA, second_order=False": ours(loss, alpha, second_order=False),
        **peers[loss](),
    }


def losses_of(loss, z, y):
    if loss == "squared":
        return (z - y) ** 2 / 2
    return np.maximum(0, 1 - y * z) if loss == "hinge" else np.logaddexp(0, -y * z)


def compare(name, X, y, loss, alpha):
    """Return the figures of one problem."""
    certified = ours(loss, alpha, tol=1e-9, second_order=True).fit(X, y).result_
    figures = {}
    models = estimators(loss, alpha, len(y))
    if not isinstance(X, np.ndarray):  # it makes the rows an array: not its ground
        models.pop("LogisticRegression (newton-cholesky)", None)
    tasks = {
        solver: lambda _, model=model: timed_fit(model, X, y) for solver, model in models.items()
    }
    medians = interleaved_medians(tasks, REPETITIONS)
    for solver, model in models.items():
        w = np.ravel(model.coef_)
        primal = alpha / 2 * w @ w + losses_of(loss, X @ w, y).mean()
        figures[solver] = {
            "seconds": medians[solver],
            "suboptimality": max(0.0, primal / certified.dual - 1),
        }
    gap = certified.relative_gap
    return {"set": name, "loss": loss, "alpha": alpha, "gap": gap, "solvers": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_hard.json", sets=False)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = list(generated())
    if options.data:
        for problem in problems(options.data, ["adult", "covtype"]):
            sets.append((problem.name, problem.X, problem.y, ("hinge", "logistic"), (1e-8,)))
    with threadpool_limits(1):
        figures = [
            compare(name, X, y, loss, alpha)
            for name, X, y, losses, alphas in sets
            for loss in losses
            for alpha in alphas
        ]
    rows = [
        [one["set"], one["loss"], f"{one['alpha']:g}", solver, *_cells(found)]
        for one in figures
        for solver, found in one["solvers"].items()
    ]
    report(HEADER, rows, options.json, {"fits": figures})


def _cells(found):
    return f"{found['seconds']:.4f}", f"{found['suboptimality']:.1e}"


if __name__ == "__main__":
    main()
