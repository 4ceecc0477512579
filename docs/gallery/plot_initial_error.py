"""How fast the error of the start is gone: excess risk of one pass, without and with noise.

Frostig, Ge, Kakade, Sidford (2015): the initial error falls faster than any power of the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, write
from sklearn.linear_model import SGDRegressor

from sublinear import StreamingSVRGRegressor

N_FEATURES, SPREAD = 20, 10.0
SPECTRUM = np.geomspace(1 / SPREAD, 1, N_FEATURES)
SMOOTHNESS = SPECTRUM.sum()
CONDITION = SMOOTHNESS / SPECTRUM[0]
ROWS = np.unique(np.geomspace(1000, 10**6, 25).astype(int))
REPETITIONS = 10
LEAST = 1e-24  # below it is rounding
ORDERS = (2, 3, 4)


def methods():
    """Return {name: models}; those but the first are told the smoothness and the condition."""
    paper = {
        "smoothness": SMOOTHNESS,
        "strong_convexity": SPECTRUM[0],
        "step": 0.2,
        "first_stage": 1000,
        "inner_steps": int(20 * CONDITION),
        "growth": 4.0,
    }
    common = {"penalty": None, "average": True, "fit_intercept": False, "shuffle": False}
    return {
        "StreamingSVRG": StreamingSVRGRegressor(fit_intercept=False),
        "paper's scheme": StreamingSVRGRegressor(
            fit_intercept=False, constants="theory", random_state=0, **paper
        ),
        "averaged SGD": SGDRegressor(learning_rate="constant", eta0=0.25 / SMOOTHNESS, **common),
    }


STYLES = {
    "StreamingSVRG": {"color": "#0072b2", "marker": "o"},
    "paper's scheme": {"color": "#d55e00", "marker": "x"},
    "averaged SGD": {"color": "#009e73", "marker": "s"},
}


def excesses(noise, distance, seed):
    """Return {method: excess risk / that of the start} after ROWS."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=N_FEATURES)
    truth *= distance / np.sqrt(truth**2 @ SPECTRUM / 2)
    found, models, before = {name: [] for name in methods()}, methods(), 0
    for stop in ROWS:
        X = random.normal(size=(stop - before, N_FEATURES)) * np.sqrt(SPECTRUM)
        y = X @ truth + noise * random.normal(size=stop - before)
        for name, model in models.items():
            model.partial_fit(X, y)
            found[name].append((model.coef_ - truth) ** 2 @ SPECTRUM / 2)
        before = stop
    return found


def averages(noise, distance):
    """Return {method: mean excess risk} over streams."""
    runs = [excesses(noise, distance, seed) for seed in range(REPETITIONS)]
    return {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}


def bound(order, sigma_squared, start):
    """The paper's bound with b = 3 and its own constants, for least squares."""
    noise = (1 + 4 / 3) * np.sqrt(sigma_squared / ROWS)
    return (noise + np.sqrt(start) * (CONDITION / ROWS) ** (order / 2)) ** 2


def draw(axes, result, sigma_squared, start, title):
    for name, excess in result.items():
        axes.plot(ROWS, np.maximum(excess, LEAST), label=name, markersize=4, **STYLES[name])
    for order in ORDERS:
        axes.plot(
            ROWS,
            bound(order, sigma_squared, start),
            color="0.5",
            linestyle=(0, (1, order - 1)),
            label=f"paper's bound, p = {order}",
        )
    if sigma_squared:
        axes.plot(ROWS, sigma_squared / ROWS, color="0.8", label="$\\sigma^2 / N$", zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="rows", title=title)
    axes.grid(alpha=0.25)


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, grid = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    numbers = {"rows": ROWS.tolist(), "repetitions": REPETITIONS, "problems": []}
    cases = ((0.0, 1.0, "no noise, initial error 1"), (1.0, 1e3, "noise 1, initial error $10^6$"))
    for axes, (noise, distance, title) in zip(grid, cases, strict=True):
        result = averages(noise, distance)
        sigma_squared = noise**2 * N_FEATURES / 2
        draw(axes, result, sigma_squared, distance**2, title)
        numbers["problems"].append(
            {
                "noise": noise,
                "initial_error": distance**2,
                "excess_risk": {name: excess.tolist() for name, excess in result.items()},
            }
        )
    grid[0].set_ylabel("excess risk")
    grid[0].set_ylim(LEAST / 10, 10)
    handles, labels = grid[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    write(figure, numbers, arguments.output, "initial_error")


if __name__ == "__main__":
    main()
