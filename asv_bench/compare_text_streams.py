"""One pass of Streaming SVRG over streams like texts, beside averaged SGD and the ERM.

    python asv_bench/compare_text_streams.py [--json compare_text_streams.json]

Rows hold 60 words of 2^18, drawn by Zipf's law, as tf-idf of norm 1, so that most columns are in
few rows. Classes have the probabilities of a logistic model with normal weights, scores with a
standard deviation of 3. All models have the same penalty alpha / 2 |w|^2; without one there is but
Streaming SVRG, as classes are separable. Losses and errors are those expected on 30 000 other rows,
whose probabilities are known; the pass is over blocks of 10 000 rows in memory.
"""

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from compare_wide_streams import streamed
from figures import add_common_arguments, report
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import normalize

from sublinear import PegasosClassifier, StreamingSVRGClassifier

COLUMNS, WORDS = 2**18, 60
ZIPF = 1.1  # exponent of the law
ROWS, ALPHAS = (200_000, 400_000), (0.0, 1e-5, 1e-6, 1e-7)
BLOCK, TESTS = 10_000, 30_000
HEADER = ["rows", "alpha", "model", "test loss", "test error", "seconds"]
CLASSES = [-1, 1]


class Texts:
    """Rows of words, and the probabilities of their classes."""

    def __init__(self, random):
        self.random = random
        law = 1 / np.arange(1, COLUMNS + 1) ** ZIPF
        self.law = np.cumsum(law / law.sum())
        self.column = random.permutation(COLUMNS).astype(np.int32)  # of a word
        self.idf = np.empty(COLUMNS)
        self.idf[self.column] = 1 - np.log(np.minimum(1, WORDS * law / law.sum()))
        self.best = random.normal(size=COLUMNS)
        self.best *= 3 / np.std(self.rows(TESTS) @ self.best)

    def rows(self, n):
        words = np.searchsorted(self.law, self.random.random(n * WORDS)).clip(0, COLUMNS - 1)
        offsets = np.arange(n + 1, dtype=np.int32) * WORDS
        X = sp.csr_array((np.ones(n * WORDS), self.column[words], offsets), shape=(n, COLUMNS))
        X.sum_duplicates()
        X.data = (1 + np.log(X.data)) * self.idf[X.indices]
        return normalize(X, copy=False)

    def probabilities(self, X):
        return expit(X @ self.best)


def fitted(model, X, y):
    """Return the weights and the intercept of a model, and the seconds of its fit."""
    start = time.perf_counter()
    model.fit(X, y)
    return np.ravel(model.coef_), model.intercept_, time.perf_counter() - start


def models(alpha, X, y):
    """Yield the name, weights, intercept and seconds of every model."""
    ours = {"Streaming SVRG": StreamingSVRGClassifier(alpha=alpha)}
    if alpha > 0:
        ours["Pegasos"] = PegasosClassifier("logistic", alpha=alpha, random_state=0)
    for name, model in ours.items():
        weights, seconds = streamed(model, X, y, BLOCK, classes=CLASSES)
        yield name, weights, model.intercept_, seconds
    if alpha == 0:
        return
    options = {"alpha": alpha, "average": True, "max_iter": 1, "tol": None, "random_state": 0}
    yield "averaged SGD", *fitted(SGDClassifier(loss="log_loss", **options), X, y)
    erm = LogisticRegression(C=1 / (alpha * len(y)), max_iter=1000)
    yield "ERM", *fitted(erm, X, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_text_streams.json", sets=False)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of excess risks that are not known
    random, rows = np.random.default_rng(0), []
    texts = Texts(random)
    test = texts.rows(TESTS)
    p = texts.probabilities(test)

    def figures(weights, intercept):
        scores = test @ weights + intercept
        loss = p * np.logaddexp(0, -scores) + (1 - p) * np.logaddexp(0, scores)
        return f"{np.mean(loss):.4f}", f"{np.mean(np.where(scores > 0, 1 - p, p)):.4f}"

    rows.append(["", "", "the best weights", *figures(texts.best, 0.0), ""])
    for n_rows in ROWS:
        X = texts.rows(n_rows)
        y = np.where(random.random(n_rows) < texts.probabilities(X), 1, -1)
        for alpha in ALPHAS:
            for name, weights, intercept, seconds in models(alpha, X, y):
                found = figures(weights, intercept)
                rows.append([n_rows, alpha, name, *found, f"{seconds:.1f}"])
    report(HEADER, rows, options.json, {"models": rows})


if __name__ == "__main__":
    main()
