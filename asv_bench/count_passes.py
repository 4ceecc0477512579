"""Count passes of SDCA over a source, and rounds over partitions, on tables that are not scaled.

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

import sublinear
import sublinear.distributed
from sublinear.sources import ArraySource

ALPHAS = (1e-2, 1e-4, 1e-6)
MOST = 1000  # passes, or rounds
BLOCKS = 4  # or partitions
CLASSES = ("logistic", "squared_hinge", "smoothed_hinge", "hinge")
NUMBERS = ("squared", "huber", "absolute", "epsilon_insensitive")
HEADER = [
    "loss", "fits", "converged by single steps", "converged", "median passes", "most passes",
    "converged in partitions by dual ascent", "converged", "median rounds", "most rounds",
]  # fmt: skip


def tables(loss):
    """Return the name of the estimator for a loss and its (name, X, y)."""
    if loss in CLASSES:
        loaders = datasets.load_breast_cancer, datasets.load_wine, datasets.load_digits
        return "SDCAClassifier", [(f.__name__, *f(return_X_y=True)) for f in loaders]
    return "SDCARegressor", [("diabetes", *datasets.load_diabetes(return_X_y=True, scaled=False))]


def over_source(kind, X, y, **options):
    source = ArraySource(X, y, block_rows=-(-len(y) // BLOCKS))
    return getattr(sublinear, kind)(**options).fit_stream(source)


def over_partitions(kind, X, y, **options):
    return getattr(sublinear.distributed, kind)(n_partitions=BLOCKS, **options).fit(X, y)


COUNTED = {"passes": over_source, "rounds": over_partitions}


def counts(loss, tol):
    """Return passes and rounds with and without the method of second order; None: not enough."""
    kind, data = tables(loss)
    found = []
    for (name, X, y), alpha, penalize in itertools.product(data, ALPHAS, (True, False)):
        options = {"alpha": alpha, "penalize_intercept": penalize}
        entry = options | {"set": name}
        for (unit, fit), choice in itertools.product(COUNTED.items(), ("auto", False)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = fit(
                    kind, X, y, loss=loss, tol=tol, max_iter=MOST, random_state=0,
                    second_order=choice, **options,
                )  # fmt: skip
            enough = model.result_.status == "converged"
            entry[unit if choice else f"{unit}, first order"] = model.n_iter_ if enough else None
        found.append(entry)
    return {"loss": loss, "fits": found}


def row(entry):
    fits = entry["fits"]
    cells = [entry["loss"], len(fits)]
    for unit in COUNTED:
        enough = sorted(fit[unit] for fit in fits if fit[unit] is not None)
        by_steps = sum(fit[f"{unit}, first order"] is not None for fit in fits)
        most = enough[-1] if len(enough) == len(fits) else f"over {MOST}"
        cells += [by_steps, len(enough), int(np.median(enough)), most]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--json", type=Path, default=Path("count_passes.json"))
    options = parser.parse_args()
    found = [counts(loss, options.tol) for loss in (*CLASSES, *NUMBERS)]
    report(HEADER, [row(entry) for entry in found], options.json, {"losses": found})


if __name__ == "__main__":
    main()
