"""One pass of Streaming SVRG over long streams of many weights, beside the ERM.

    python asv_bench/compare_wide_streams.py [--json compare_wide_streams.json]

Rows have 30 entries in random columns, normal; the targets have noise of the variance 1, or the
classes the probabilities of a logistic model whose scores have a standard deviation of about 1.5.
The efficiency is the excess risk of the empirical risk minimiser by that of the model, both on
50 000 other rows whose distribution is known; blocks of 5000 rows are in memory, without a penalty
or an intercept. The minimisers are those of LSMR and of scikit-learn's LogisticRegression.
"""

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from figures import add_common_arguments, report
from scipy.sparse.linalg import lsmr
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sublinear import StreamingSVRGClassifier, StreamingSVRGRegressor

COLUMNS = 1000, 5000, 30_000
ROWS = 60_000, 250_000, 1_000_000
ENTRIES, BLOCK, TESTS = 30, 5000, 50_000
LEAST_ROWS = 6  # per column, or there is no minimiser worth the name
HEADER = ["weights", "rows", "squared: efficiency", "seconds", "logistic: efficiency", "seconds"]


def rows_of(random, n_rows, n_columns):
    X = sp.csr_array(
        (
            random.normal(size=n_rows * ENTRIES),
            random.integers(n_columns, size=n_rows * ENTRIES),
            np.arange(n_rows + 1) * ENTRIES,
        ),
        shape=(n_rows, n_columns),
    )
    X.sum_duplicates()
    return X


def streamed(model, X, y, block=BLOCK, **options):
    """Return the weights of a model of one pass, and the seconds it took."""
    blocks = [(X[k : k + block], y[k : k + block]) for k in range(0, len(y), block)]
    start = time.perf_counter()
    model.fit_stream(blocks, **options)
    return np.ravel(model.coef_), time.perf_counter() - start


def squared(random, X, test, best):
    """Return the efficiency and seconds of a pass with the squared loss."""
    y = X @ best + random.normal(size=X.shape[0])
    ours, seconds = streamed(StreamingSVRGRegressor(fit_intercept=False), X, y)
    erm = lsmr(X, y, atol=1e-10, btol=1e-10)[0]
    excess_erm, excess = (np.mean((test @ (v - best)) ** 2) for v in (erm, ours))
    return excess_erm / excess, seconds


def logistic(random, X, test, best):
    """Return the efficiency and seconds of a pass with the logistic loss."""
    y = np.where(random.random(X.shape[0]) < expit(X @ best), 1.0, -1.0)
    model = StreamingSVRGClassifier(fit_intercept=False)
    ours, seconds = streamed(model, X, y, classes=[-1.0, 1.0])
    erm = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-7, max_iter=1000).fit(X, y).coef_

    def risk(v):
        scores, p = test @ np.ravel(v), expit(test @ best)
        return np.mean(p * np.logaddexp(0, -scores) + (1 - p) * np.logaddexp(0, scores))

    return (risk(erm) - risk(best)) / (risk(ours) - risk(best)), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_wide_streams.json", sets=False)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of excess risks that are not known
    rows, figures = [], []
    for n_columns in COLUMNS:
        random = np.random.default_rng(n_columns)
        best = 1.5 * random.normal(size=n_columns) / np.sqrt(ENTRIES)
        test = rows_of(random, TESTS, n_columns)
        for n_rows in ROWS:
            if n_rows < LEAST_ROWS * n_columns:
                continue
            X = rows_of(random, n_rows, n_columns)
            numbers = *squared(random, X, test, best), *logistic(random, X, test, best)
            rows.append([n_columns, n_rows, *(f"{number:.2f}" for number in numbers)])
            figures.append({"columns": n_columns, "rows": n_rows, "figures": numbers})
    report(HEADER, rows, options.json, {"streams": figures})


if __name__ == "__main__":
    main()
