"""Count the passes of SDCA over a source to a gap, on tables that are not scaled.

    python asv_bench/count_passes.py [--tol 1e-3] [--json count_passes.json]

The tables come with scikit-learn: breast cancer, wine and digits for classes, diabetes for numbers.
Counts depend on nothing but the seed.
"""

import argparse
import itertools
import warnings
from pathlib import Path

import numpy as np
from figures import report
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning

from sublinear import SDCAClassifier, SDCARegressor
from sublinear.sources import ArraySource

ALPHAS = (1e-2, 1e-4, 1e-6)
MOST = 1000  # passes
BLOCKS = 4
CLASSES = ("logistic", "squared_hinge", "smoothed_hinge", "hinge")
NUMBERS = ("squared", "huber", "absolute", "epsilon_insensitive")
HEADER = [
    "loss", "fits", "converged by single steps", "converged", "median passes", "most passes",
]  # fmt: skip


def tables(loss):
    """Return the estimator for a loss and its (name, X, y)."""
    if loss in CLASSES:
        loaders = datasets.load_breast_cancer, datasets.load_wine, datasets.load_digits
        return SDCAClassifier, [(f.__name__, *f(return_X_y=True)) for f in loaders]
    return SDCARegressor, [("diabetes", *datasets.load_diabetes(return_X_y=True, scaled=False))]


def passes(kind, loss, X, y, tol, **options):
    """Return the passes of a fit, None where MOST are not enough."""
    model = kind(loss, tol=tol, max_iter=MOST, random_state=0, **options)
    source = ArraySource(X, y, block_rows=-(-len(y) // BLOCKS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_stream(source)
    return model.n_iter_ if model.result_.status == "converged" else None


def counts(loss, tol):
    """Return the passes of all fits with a loss, with and without the method of second order."""
    kind, data = tables(loss)
    found = []
    for (name, X, y), alpha, penalize in itertools.product(data, ALPHAS, (True, False)):
        options = {"alpha": alpha, "penalize_intercept": penalize}
        both = [
            passes(kind, loss, X, y, tol, second_order=choice, **options)
            for choice in ("auto", False)
        ]
        found.append(options | {"set": name, "passes": both[0], "passes of single steps": both[1]})
    return {"loss": loss, "fits": found}


def row(entry):
    fits = entry["fits"]
    enough = sorted(fit["passes"] for fit in fits if fit["passes"] is not None)
    by_steps = sum(fit["passes of single steps"] is not None for fit in fits)
    most = enough[-1] if len(enough) == len(fits) else f"over {MOST}"
    return [entry["loss"], len(fits), by_steps, len(enough), int(np.median(enough)), most]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, default=Path("count_passes.json"))
    options = parser.parse_args()
    found = [counts(loss, options.tol) for loss in (*CLASSES, *NUMBERS)]
    report(HEADER, [row(entry) for entry in found], options.json, {"losses": found})


if __name__ == "__main__":
    main()
