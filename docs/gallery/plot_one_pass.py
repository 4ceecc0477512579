"""Test loss of one pass over real data, on the way, beside that of the exact minimiser.

Frostig, Ge, Kakade, Sidford (2015): one pass as good as the empirical risk minimiser.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, plain_ticks, real_data, write
from sklearn.linear_model import SGDClassifier, SGDRegressor

from sublinear import SDCAClassifier, SDCARegressor, StreamingSVRGClassifier, StreamingSVRGRegressor

ALPHA = 1e-6
BLOCKS = 24
STYLES = {
    "StreamingSVRG": {"color": "#0072b2", "marker": "o"},
    "averaged SGD": {"color": "#009e73", "marker": "s"},
}


def squared_loss(score, y):
    return float(np.mean((score - y) ** 2) / 2)


def logistic_loss(score, y):
    return float(np.mean(np.logaddexp(0, -y * score)))


def housing():
    """Scaled features and target; least squares."""
    X, y, X_test, y_test = real_data("housing")
    return "California housing, least squares", (X, y), (X_test, y_test), squared_loss


def covtype():
    """Sparse rows as they are, class 2 against the rest; logistic loss."""
    X, y, X_test, y_test = real_data("covtype")
    return "covtype, logistic loss", (X, y), (X_test, y_test), logistic_loss


def methods(regression, smoothness):
    """Return {name: models} of one-pass methods; SGD with several steps, told the smoothness."""
    if regression:
        sgd, name, ours = SGDRegressor, "squared_error", StreamingSVRGRegressor(alpha=ALPHA)
    else:
        sgd, name, ours = SGDClassifier, "log_loss", StreamingSVRGClassifier(alpha=ALPHA)
    options = {"alpha": ALPHA, "average": True, "shuffle": False}
    steps = [("constant", part) for part in (0.05, 0.1, 0.25, 0.5, 1.0)]
    steps += [("invscaling", part) for part in (1, 4, 16, 64)]
    return {
        "StreamingSVRG": [ours],
        "averaged SGD": [
            sgd(name, learning_rate=kind, power_t=0.5, eta0=part / smoothness, **options)
            for kind, part in steps
        ],
    }


def follow(train, test, loss):
    """Return {name: [(rows, test loss)]} of one pass, for SGD with the best of its settings."""
    X, y = train
    regression = loss is squared_loss
    order = np.random.default_rng(0).permutation(len(y))
    squares = X.multiply(X).sum() if hasattr(X, "multiply") else np.sum(X**2)
    smoothness = (squares / len(y) + 1) * (1 if regression else 0.25)
    options = {} if regression else {"classes": np.unique(y)}
    ends = np.unique(np.geomspace(500, len(y), BLOCKS).astype(int))
    score = "predict" if regression else "decision_function"
    curves = {}
    for name, models in methods(regression, smoothness).items():
        found = []
        for model in models:
            curve, start = [], 0
            for end in ends:
                rows = order[start:end]
                model.partial_fit(X[rows], y[rows], **options)
                curve.append((int(end), loss(getattr(model, score)(test[0]), test[1])))
                start = end
            found.append(curve)
        curves[name] = min(found, key=lambda curve: curve[-1][1])
    exact = (
        SDCARegressor("squared", alpha=ALPHA, tol=1e-6, max_iter=5000, random_state=0)
        if regression
        else SDCAClassifier("logistic", alpha=ALPHA, tol=1e-6, max_iter=5000, random_state=0)
    ).fit(X, y)
    return curves, loss(getattr(exact, score)(test[0]), test[1])


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    numbers = {}
    for axes, problem in zip(panels, (housing, covtype), strict=True):
        title, train, test, loss = problem()
        curves, exact = follow(train, test, loss)
        for name, curve in curves.items():
            axes.loglog(*zip(*curve, strict=True), label=name, linewidth=1.5, **STYLES[name])
            print(title, name, curve[-1][1], "exact", exact)
        axes.axhline(exact, color="0.4", linestyle="--", label="exact minimiser")
        axes.set_title(title)
        axes.set_xlabel("rows read")
        axes.set_ylabel("test loss")
        plain_ticks(axes.yaxis)
        axes.grid(alpha=0.25)
        axes.legend()
        numbers[title] = {"curves": curves, "exact": exact, "alpha": ALPHA}
    write(figure, numbers, arguments.output, "one_pass")


if __name__ == "__main__":
    main()
