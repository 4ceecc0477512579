"""Print what some fits come to, bit for bit, so that builds can be compared."""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sublinear import (
    KernelSDCAClassifier,
    PegasosClassifier,
    SDCAClassifier,
    SDCARegressor,
    StreamingSVRGRegressor,
)
from sublinear.datasets import make_sparse_classification

COMMON = {"tol": 1e-4, "max_iter": 30, "random_state": 0, "n_jobs": 2}
FITS = {
    "hinge": SDCAClassifier(alpha=1e-3, **COMMON),
    "logistic, intercept without penalty": SDCAClassifier(
        "logistic", alpha=1e-3, penalize_intercept=False, **COMMON
    ),
    "safe batches": SDCAClassifier(alpha=1e-3, batch_size=16, **COMMON),
    "aggressive batches": SDCAClassifier(
        alpha=1e-3, batch_size=64, batch_rule="aggressive", **COMMON
    ),
    "packed": SDCAClassifier(alpha=1e-3, pack=True, **COMMON),
    "squared": SDCARegressor(alpha=1e-3, **COMMON),
    "Pegasos": PegasosClassifier(alpha=1e-3, batch_size=8, projection=True, **COMMON),
    "Streaming SVRG": StreamingSVRGRegressor(random_state=0),
    "kernel": KernelSDCAClassifier(tol=1e-3, random_state=0, n_jobs=2),
}


def short_rows():
    """Return rows on which two threads each take half of the rows."""
    random = np.random.default_rng(1)
    columns = random.integers(0, 50, size=(120_000, 20))
    offsets = np.arange(0, columns.size + 1, 20)
    values = random.integers(1, 9, size=columns.size) / 8
    X = sparse.csr_array((values, columns.ravel(), offsets), shape=(len(columns), 50))
    X.sum_duplicates()
    return X, np.where(X @ random.normal(size=50) > random.normal(size=len(columns)), 1, -1)


def print_numbers(name, model):
    for attribute in ("coef_", "intercept_", "dual_coef_"):
        if hasattr(model, attribute):
            values = np.ascontiguousarray(getattr(model, attribute), dtype=np.float64)
            # a sum of the bits in which order counts
            bits = values.view(np.uint64).ravel()
            places = np.arange(1, 2 * bits.size, 2, dtype=np.uint64)
            print(name, attribute, f"{int((bits * places).sum()):016x}")
    result = model.result_
    for number in ("primal", "dual", "accesses"):
        print(name, number, float(getattr(result, number, 0)).hex())


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = make_sparse_classification(3000, 2000, random_state=0)
    for name, model in FITS.items():
        print_numbers(name, model.fit(X, y))
    print_numbers("halves of the rows", SDCAClassifier(alpha=1e-4, **COMMON).fit(*short_rows()))
    X, y = make_sparse_classification(8000, 20_000, row_entries=300, random_state=0)
    print_numbers("halves of the columns", SDCAClassifier(alpha=1e-4, **COMMON).fit(X, y))


if __name__ == "__main__":
    main()
