"""How near one pass comes to the empirical risk minimiser: the competitive ratio against rows.

Frostig, Ge, Kakade, Sidford (2015), equation 3: E[P(ERM) - P*] / E[P(w_N) - P*].
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, write
from scipy.special import expit
from sklearn.linear_model import SGDClassifier, SGDRegressor

from sublinear import StreamingSVRGClassifier, StreamingSVRGRegressor

N_FEATURES = 20
ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
REPETITIONS = 10
BLOCK = 10_000
QUADRATURE = np.polynomial.hermite_e.hermegauss(101)
STYLES = {
    "StreamingSVRG": {"color": "#0072b2", "marker": "o"},
    "paper's scheme": {"color": "#d55e00", "marker": "x"},
    "averaged SGD, constant step": {"color": "#009e73", "marker": "s"},
    "averaged SGD, falling step": {"color": "#cc79a7", "marker": "D"},
    "paper's bound": {"color": "0.5", "linestyle": ":"},
}


@dataclass(frozen=True)
class Distribution:
    """Rows x ~ N(0, diag(spectrum)) with targets of a known optimum.

    Least squares: y = <x, w> + noise; wrongly specified: a term that no linear model has, and noise
    that grows with a feature. Logistic: P(y = 1) = s(<x, w>); wrongly specified: every tenth label
    is drawn by a coin.
    """

    kind: str
    well_specified: bool
    spread: float

    @property
    def spectrum(self):
        return np.geomspace(1 / self.spread, 1, N_FEATURES)

    def truth(self, random):
        w = random.normal(size=N_FEATURES)
        return w if self.kind == "least squares" else 2 * w / np.sqrt(N_FEATURES)

    def draw(self, random, truth, n):
        X = random.normal(size=(n, N_FEATURES)) * np.sqrt(self.spectrum)
        score = X @ truth
        if self.kind == "least squares":
            y = score + random.normal(size=n) * self._noise(X)
            return X, y if self.well_specified else y + X[:, -1] ** 2 - 1
        return X, np.where(random.random(n) < self._probability(score), 1.0, -1.0)

    def _noise(self, X):
        return 1.0 if self.well_specified else 0.5 + np.abs(X[:, -2])

    def _probability(self, score):
        return expit(score) if self.well_specified else 0.05 + 0.9 * expit(score)

    def optimum(self, truth):
        """Return w* and the Hessian there, for logistic loss by quadrature over <x, truth>."""
        covariance = np.diag(self.spectrum)
        if self.kind == "least squares":
            return truth, covariance
        points, weights = QUADRATURE
        weights = weights / weights.sum()
        deviation = np.sqrt(truth @ covariance @ truth)
        score = deviation * points
        factor = 1.0
        for _ in range(50):  # Newton: along the truth, where by symmetry the optimum lies
            p = expit(factor * score)
            slope = weights @ (score * (p - self._probability(score)))
            factor -= slope / (weights @ (score**2 * p * (1 - p)))
        p = expit(factor * score)
        along = covariance @ truth / deviation
        mean = weights @ (p * (1 - p))
        second = weights @ (p * (1 - p) * points**2)
        return factor * truth, mean * covariance + (second - mean) * np.outer(along, along)

    @property
    def smoothness(self):
        """E|x|^2 times the loss's curvature: the step of SGD, and of the paper's scheme."""
        return self.spectrum.sum() * (1 if self.kind == "least squares" else 0.25)


def estimators(case, hessian):
    """Return the one-pass methods, those but the first told what they need to know."""
    regression = case.kind == "least squares"
    ours = StreamingSVRGRegressor if regression else StreamingSVRGClassifier
    sgd = SGDRegressor if regression else SGDClassifier
    loss = "squared_error" if regression else "log_loss"
    condition = case.smoothness / np.linalg.eigvalsh(hessian)[0]
    common = {"penalty": None, "average": True, "fit_intercept": False, "shuffle": False}
    paper = {
        "smoothness": case.smoothness,
        "strong_convexity": case.smoothness / condition,
        "step": 0.2,
        "first_stage": 1000,
        "inner_steps": int(20 * condition),
        "growth": 4.0,
    }
    step = 1 / case.smoothness
    return {
        "StreamingSVRG": [ours(fit_intercept=False)],
        "paper's scheme": [ours(fit_intercept=False, constants="theory", random_state=0, **paper)],
        "averaged SGD, constant step": [
            sgd(loss, learning_rate="constant", eta0=part * step, **common) for part in (0.1, 0.25)
        ],
        "averaged SGD, falling step": [
            sgd(loss, learning_rate="invscaling", power_t=0.5, eta0=part * step, **common)
            for part in (1, 4, 16)
        ],
    }


def excesses(case, seed):
    """Return {method: excess risks at ROWS} of one stream, the best setting of each method."""
    random = np.random.default_rng(seed)
    truth = case.truth(random)
    best, hessian = case.optimum(truth)

    def excess(w):
        return float((w - best) @ hessian @ (w - best) / 2)

    methods = {
        (name, k): model
        for name, models in estimators(case, hessian).items()
        for k, model in enumerate(models)
    }
    found = {key: [] for key in methods}
    found["ERM", 0] = []
    seen, options = [], {}
    if case.kind != "least squares":
        options["classes"] = np.array([-1.0, 1.0])
    for start in range(0, ROWS[-1], BLOCK):
        X, y = case.draw(random, truth, BLOCK)
        seen.append((X, y))
        for model in methods.values():
            model.partial_fit(X, y, **options)
        if start + BLOCK in ROWS:
            for key, model in methods.items():
                found[key].append(excess(model.coef_.ravel()))
            found["ERM", 0].append(excess(risk_minimiser(case, seen)))
    return found


def risk_minimiser(case, seen):
    X, y = np.vstack([X for X, _ in seen]), np.concatenate([y for _, y in seen])
    if case.kind == "least squares":
        return np.linalg.solve(X.T @ X, X.T @ y)
    w = np.zeros(N_FEATURES)
    for _ in range(8):
        p = expit(-y * (X @ w))
        w = w + np.linalg.solve((X * (p * (1 - p))[:, np.newaxis]).T @ X, X.T @ (y * p))
    return w


def ratios(case, repetitions):
    """Return {method: (ratio, its standard error)} at ROWS, averaged before dividing."""
    runs = [excesses(case, seed) for seed in range(repetitions)]
    risks = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    erm = risks.pop(("ERM", 0))
    result = {}
    for name in dict.fromkeys(name for name, _ in risks):
        settings = [risk for (other, _), risk in risks.items() if other == name]
        chosen = min(settings, key=lambda risk: risk[:, -1].mean())
        ratio = erm.mean(axis=0) / chosen.mean(axis=0)
        # of a ratio of means, by the delta method
        rest = erm / erm.mean(axis=0) - chosen / chosen.mean(axis=0)
        error = ratio * rest.std(axis=0, ddof=1) / np.sqrt(repetitions)
        result[name] = [ratio.tolist(), error.tolist()]
    return result


def bound(growth):
    """The paper's bound on the ratio once the initial error is gone, least squares."""
    return 1 / (1 + 4 / growth) ** 2


def draw(axes, case, result):
    for name, (ratio, error) in result.items():
        style = STYLES[name]
        axes.errorbar(ROWS, ratio, error, label=name, linewidth=1.5, capsize=3, **style)
    if case.kind == "least squares":
        axes.axhline(bound(4.0), label="paper's bound", **STYLES["paper's bound"])
    axes.set_xscale("log")
    axes.set_ylim(0, 1.1)
    axes.axhline(1, color="0.8", linewidth=1, zorder=0)
    specified = "well" if case.well_specified else "wrongly"
    axes.set_title(f"{case.kind}, {specified} specified, spread {case.spread:g}", fontsize=10)
    axes.grid(alpha=0.25)


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, grid = plt.subplots(2, 4, figsize=(16, 8), layout="constrained", sharey=True)
    numbers = {"rows": ROWS, "repetitions": REPETITIONS, "problems": []}
    cases = [
        Distribution(kind, well, spread)
        for kind in ("least squares", "logistic")
        for well in (True, False)
        for spread in (10.0, 100.0)
    ]
    for axes, case in zip(grid.ravel(), cases, strict=True):
        result = ratios(case, REPETITIONS)
        print(case, {name: np.round(ratio, 3).tolist() for name, (ratio, _) in result.items()})
        draw(axes, case, result)
        numbers["problems"].append(
            {
                "kind": case.kind,
                "well_specified": case.well_specified,
                "spread": case.spread,
                "ratio_and_standard_error": result,
            }
        )
    for axes in grid[1]:
        axes.set_xlabel("rows")
    for axes in grid[:, 0]:
        axes.set_ylabel("excess risk, ERM / method")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    write(figure, numbers, arguments.output, "competitive_ratio")


if __name__ == "__main__":
    main()
