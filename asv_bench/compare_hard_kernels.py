"""Kernel machines on data as it comes, and with large C, beside scikit-learn's SVC and SVR.

    python asv_bench/compare_hard_kernels.py [--json compare_hard_kernels.json]

Both solve the same problem, with an intercept that is not penalised, at default tolerances and on
one thread; libsvm ends after a million steps. Suboptimality is relative, by the dual value of a
certified fit to 1e-7. Sets of scikit-learn come as they are, not scaled; of digits, eights against
the rest. `informative` has 1500 rows of 20 normal columns, 10 of which tell two classes apart, with
a tenth of the labels turned.
"""

import argparse
import warnings

import numpy as np
from benchmarks.solvers import timed_fit
from figures import add_common_arguments, interleaved_medians, report
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    make_classification,
    make_moons,
)
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from sublinear import KernelSDCAClassifier, KernelSDCARegressor

REPETITIONS = 3
MOST_STEPS = 10**6
HEADER = ["set", "kernel", "C", "solver", "seconds", "suboptimality", "support vectors"]
EPSILON = 0.1  # of SVR
CASES = {
    "breast cancer": [("linear", 1.0), ("linear", 100.0), ("rbf", 1e4), ("poly", 1e4)],
    "digits": [("linear", 1.0), ("rbf", 1e4)],
    "diabetes": [("linear", 100.0), ("rbf", 1e4)],
    "moons": [("rbf", 1e4), ("poly", 1e4)],
    "informative": [("linear", 1.0), ("linear", 100.0), ("rbf", 1e4)],
}


def examples(name):
    """Return X and y: labels of -1 and 1, or numbers."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    if name == "moons":
        X, y = make_moons(1500, noise=0.3, random_state=0)
    elif name == "informative":
        X, y = make_classification(1500, 20, n_informative=10, flip_y=0.1, random_state=0)
    else:
        X, y = {"breast cancer": load_breast_cancer, "digits": load_digits}[name](return_X_y=True)
        y = y == (8 if name == "digits" else 1)
    return X, np.where(y, 1.0, -1.0)


def estimators(is_regression, **settings):
    """Return {name: estimator} with the same objective."""
    if is_regression:
        ours, peer = KernelSDCARegressor("epsilon_insensitive", epsilon=EPSILON), SVR
    else:
        ours, peer = KernelSDCAClassifier(), SVC
    ours.set_params(penalize_intercept=False, random_state=0, **settings)
    return {
        type(ours).__name__: ours,
        peer.__name__: peer(max_iter=MOST_STEPS, **settings),
    }


def primal_value(model, K, y, is_regression):
    """Return the objective of a fitted model, in float64."""
    v = np.zeros(len(y))
    v[model.support_] = model.dual_coef_[0]
    scores = K @ v + model.intercept_[0]
    losses = np.abs(scores - y) - EPSILON if is_regression else 1 - y * scores
    return v @ K @ v / 2 + model.C * np.maximum(0, losses).sum()


def compare(name, kernel, C):
    """Return the figures of one problem."""
    X, y = examples(name)
    is_regression = name == "diabetes"
    models = estimators(is_regression, kernel=kernel, C=C)
    certified = next(iter(estimators(is_regression, kernel=kernel, C=C).values()))
    bound = certified.set_params(tol=1e-7).fit(X, y).result_
    gamma = {} if kernel == "linear" else {"gamma": 1 / (X.shape[1] * X.var())}
    K = pairwise_kernels(X, metric=kernel, **gamma, **({"coef0": 0.0} if kernel == "poly" else {}))
    tasks = {
        solver: lambda _, model=model: timed_fit(model, X, y) for solver, model in models.items()
    }
    seconds = interleaved_medians(tasks, REPETITIONS)
    figures = {
        solver: {
            "seconds": seconds[solver],
            "suboptimality": max(0.0, primal_value(model, K, y, is_regression) / bound.dual - 1),
            "support vectors": len(model.support_),
        }
        for solver, model in models.items()
    }
    return {"set": name, "kernel": kernel, "C": C, "gap": bound.relative_gap, "solvers": figures}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_hard_kernels.json", sets=False)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        figures = [compare(name, *case) for name, cases in CASES.items() for case in cases]
    rows = [
        [one["set"], one["kernel"], f"{one['C']:g}", solver, *_cells(found)]
        for one in figures
        for solver, found in one["solvers"].items()
    ]
    report(HEADER, rows, options.json, {"fits": figures})


def _cells(found):
    suboptimality, count = found["suboptimality"], found["support vectors"]
    return f"{found['seconds']:.4f}", f"{suboptimality:.1e}", str(count)


if __name__ == "__main__":
    main()
