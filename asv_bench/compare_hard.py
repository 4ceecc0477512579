"""Fits as they come, where features have very different scales or the penalty is weak.

    python asv_bench/compare_hard.py FOLDER [--json compare_hard.json]

Every estimator has its default tolerance and at most 1000 iterations, no intercept, one thread;
medians of three fits, but single ones where rows are many.
Suboptimality is relative, by the dual value of a certified fit to 1e-9. Sets of scikit-learn come
as they are, not scaled; of digits, eights against the rest. `far` has 200 rows of 3000 columns,
normal with mean 100, whose classes a twentieth of the columns tell apart. `oblique` has 5000 rows
of 3000 columns with singular values from 1 to 1/1000, `clicks` 100000 of 2^18, in each of which 20
fields are hashed, three of ten of them with counts of many sizes.
"""

import argparse
import warnings

import numpy as np
from benchmarks.solvers import timed_fit
from figures import add_common_arguments, interleaved_medians, problems, report
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from sublinear import SDCAClassifier, SDCARegressor

REPETITIONS = 3
LARGE = 3000  # rows: peers take minutes
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
    X, scores = oblique(random)
    yield "oblique", X, scores, ("squared",), (1e-2, 1e-4)
    yield "oblique", X, np.where(scores > 0, 1.0, -1.0), ("logistic",), (1e-2, 1e-4)
    X, scores = clicks(random)
    yield "clicks", X, scores + random.normal(size=len(scores)), ("squared",), (1e-3, 1e-5)
    is_click = random.random(len(scores)) < expit(scores - np.quantile(scores, 0.9))
    yield "clicks", X, np.where(is_click, 1.0, -1.0), ("logistic",), (1e-3, 1e-5)


def oblique(random, n_rows=5000, n_columns=3000, n_signals=30):
    """Return dense rows of an ill-conditioned matrix, and scores by its largest directions."""
    directions = np.linalg.qr(random.normal(size=(n_columns, n_columns)))[0]
    coordinates = random.normal(size=(n_rows, n_columns))
    X = coordinates * np.geomspace(1, 1e-3, n_columns) @ directions
    X *= np.sqrt(n_columns / np.mean(np.einsum("ij,ij->i", X, X)))
    scores = coordinates[:, :n_signals] @ random.normal(size=n_signals) / np.sqrt(n_signals)
    return X, scores + 0.5 * random.normal(size=n_rows)


def clicks(random, n_rows=100_000, n_columns=2**18, n_fields=20):
    """Return sparse rows of hashed categories, and their scores."""
    columns, values = np.empty((2, n_rows, n_fields))
    for field in range(n_fields):
        size = 10 ** random.uniform(0.5, 5.5)
        category = np.minimum(random.zipf(1.2, n_rows), size).astype(np.int64)
        columns[:, field] = (category * 2654435761 + field * 97531) % n_columns
        counts = np.minimum(random.zipf(1.8, n_rows), 1000)
        values[:, field] = counts if field % 10 in (0, 3, 6) else 1
    offsets = np.arange(0, n_rows * n_fields + 1, n_fields)
    parts = values.ravel(), columns.ravel().astype(np.int32), offsets
    X = sparse.csr_array(parts, shape=(n_rows, n_columns))
    X.sum_duplicates()
    weights = 0.7 * random.normal(size=n_columns)
    small = sparse.csr_array((np.log1p(X.data), X.indices, X.indptr), shape=X.shape)
    return X, small @ weights


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
            "LogisticRegression (newton-cg)": LogisticRegression(C=C, solver="newton-cg", **COMMON),
            "LogisticRegression (newton-cholesky)": LogisticRegression(
                C=C, solver="newton-cholesky", **COMMON
            ),
        },
        "squared": lambda: {
            "Ridge": Ridge(alpha=alpha * n_rows, fit_intercept=False),
            "Ridge (lsqr)": Ridge(alpha=alpha * n_rows, fit_intercept=False, solver="lsqr"),
        },
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
        models.pop("Ridge", None)  # gives up after many times as long as lsqr
    tasks = {
        solver: lambda _, model=model: timed_fit(model, X, y) for solver, model in models.items()
    }
    medians = interleaved_medians(tasks, REPETITIONS if len(y) < LARGE else 1)
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
