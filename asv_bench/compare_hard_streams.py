"""One pass of Streaming SVRG over random streams of hard rows, beside the empirical risk minimiser.

    python asv_bench/compare_hard_streams.py [--json compare_hard_streams.json]

Every stream has 20 000 rows of 2, 5, 20 or 60 columns: normal, of Student's t distribution with
three degrees of freedom, normal with 95 % zeros, or with one entry a row; often with means far from
zero or with scales from 1e-3 to 1e3, and targets nearly without noise, or with much. alpha is 0,
1e-8, 1e-5 or 1e-2. The efficiency is the excess risk of the minimiser by that of the model, both on
60 000 other rows; differences of 1e-5 of what there is to gain do not count. Minimisers are those
of one stage that holds all rows; L-BFGS on standardised columns looks for better ones.
"""

import argparse
import warnings

import numpy as np
from figures import add_common_arguments, report
from scipy.optimize import minimize
from scipy.special import expit

from sublinear import StreamingSVRGClassifier, StreamingSVRGRegressor
from sublinear._core.losses import COUNT_LOSSES, MARGIN_LOSSES, REGRESSION_LOSSES

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES | COUNT_LOSSES
LOSSES = ("squared", "huber", "poisson", "logistic", "smoothed_hinge", "squared_hinge")
N_STREAMS = 40  # of every loss
N_ROWS, N_TESTS = 20_000, 60_000
NEGLIGIBLE = 1e-5
HEADER = ["loss", "streams", "median efficiency", "least", "below 0.5", "worse than no model"]


def features(random, n):
    """Return rows, those of the same columns before scaling that the targets come from."""
    d = random.choice([2, 5, 20, 60])
    kind = random.choice(["normal", "t", "sparse", "one entry"])
    if kind == "one entry":
        X = np.zeros((n, d))
        X[np.arange(n), (d * random.random(n) ** 2).astype(int)] = 1.0
    else:
        X = random.standard_t(3, size=(n, d)) if kind == "t" else random.normal(size=(n, d))
    if kind == "sparse":
        X *= random.random((n, d)) < 0.05
    elif kind != "one entry":
        X += random.choice([0, 0, 3, 100]) * random.normal(size=d)
    scales = 10 ** random.uniform(-3, 3, d) if random.random() < 0.3 else np.ones(d)
    return X * scales, X - X.mean(axis=0)


def stream(loss, seed):
    """Return rows, targets and alpha."""
    random = np.random.default_rng([seed, LOSSES.index(loss)])
    X, centred = features(random, N_ROWS + N_TESTS)
    n, d = X.shape
    if loss == "poisson":
        centred = np.clip(centred, -3, 3)
        X = np.clip(X, *np.quantile(X, [0.001, 0.999], axis=0))  # or exp(<w, x>) has no mean
    score = centred @ random.normal(size=d) * random.choice([0.1, 1, 3]) / np.sqrt(d)
    noise, alpha = random.choice([0.01, 0.3, 3]), random.choice([0, 1e-8, 1e-5, 1e-2])
    if loss in COUNT_LOSSES:
        y = random.poisson(np.exp(np.clip(score - 1, -20, 3))).astype(float)
    elif loss in REGRESSION_LOSSES:
        y = score + noise * random.standard_t(3, size=n) + random.choice([0, 50])
    else:
        score -= np.quantile(score, random.choice([0.1, 0.5]))
        y = np.where(random.random(n) < expit(score / noise), 1.0, -1.0)
    return X, y, alpha


def estimator(loss, alpha, kept_rows=None):
    make = StreamingSVRGClassifier if loss in MARGIN_LOSSES else StreamingSVRGRegressor
    return make(loss, alpha=alpha, kept_rows=kept_rows, shuffle=False)


def fitted(loss, alpha, X, y, kept_rows=None):
    """Return the weights of a model, the intercept last."""
    model = estimator(loss, alpha, kept_rows).fit(X, y)
    return np.append(model.coef_, model.intercept_)


def minimiser(loss, alpha, X, y):
    """Return the weights of least risk on the rows."""
    compiled, sizes = REGISTRY[loss].loss(), X.std(axis=0)
    to_weights = np.diag(np.append(1 / np.where(sizes > 0, sizes, 1), 1.0))
    to_weights[-1, :-1] = -X.mean(axis=0) * np.diag(to_weights)[:-1]
    standardised = np.column_stack([X, np.ones(len(X))]) @ to_weights

    def risk(u):
        scores, weights = standardised @ u, to_weights @ u
        value = compiled.values(scores, y).mean() + alpha / 2 * weights @ weights
        slopes = compiled.derivatives(scores, y) / len(y)
        return value, slopes @ standardised + alpha * weights @ to_weights

    start = np.linalg.solve(to_weights, fitted(loss, alpha, X, y, len(y)))
    return to_weights @ minimize(risk, start, jac=True, method="L-BFGS-B").x


def excess(loss, seed):
    """Return the excess risks of the model and of the minimiser, by that of no model."""
    X, y, alpha = stream(loss, seed)
    rows, others = slice(N_ROWS), slice(N_ROWS, None)
    values = REGISTRY[loss].loss().values

    def risk(weights):
        scores = X[others] @ weights[:-1] + weights[-1]
        return np.mean(values(scores, y[others])) + alpha / 2 * weights @ weights

    ours = risk(fitted(loss, alpha, X[rows], y[rows]))
    erm = risk(minimiser(loss, alpha, X[rows], y[rows]))
    best = risk(minimiser(loss, alpha, X[others], y[others]))
    to_gain = np.mean(values(np.zeros(N_TESTS), y[others])) - best
    return np.maximum([ours - best, erm - best], 0) / to_gain


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_hard_streams.json", sets=False)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of excess risks that are not known
    rows, figures = [], {}
    for loss in LOSSES:
        risks = np.array([excess(loss, seed) for seed in range(N_STREAMS)])
        ours, erm = risks.T
        efficiency = (erm + NEGLIGIBLE) / (ours + NEGLIGIBLE)
        figures[loss] = {"ours": ours.tolist(), "erm": erm.tolist()}
        numbers = np.median(efficiency), efficiency.min()
        counts = np.sum(efficiency < 0.5), np.sum((ours > 1) & (erm < 1))
        rows.append([loss, N_STREAMS, *(f"{x:.2g}" for x in numbers), *counts])
    report(HEADER, rows, options.json, {"excess": figures})


if __name__ == "__main__":
    main()
