"""Which solver first reaches a test error, over rows, columns, density, margin and label noise.

    python plot_who_wins.py --measure [--budget 100] [--cells NAME ...]
    python plot_who_wins.py

The error to reach is 1.1 times the least that dual coordinate ascent comes to in twenty passes over
the training rows, and half a point. Every solver runs as its estimator sets it up, with the best of
a small grid of alpha or nu for each measure, and stops where the error is reached. Seconds are
those of the processor, one thread, from the call of `fit` on, without the check for NaN,
certificates and predictions; values are stored entries read by steps. Rows are of length 1 at most,
which solvers that ask for it are told. Medians of three seeds.

Planted rows have margins of at least m under w = (u + v) / sqrt 2: those alike are
y (2 sqrt 2 m u + noise), the rare ones, where there are any, y (sqrt 2 m (2 v - u) + noise), which
the mean of all rows gets wrong. Test rows have the labels that nobody flipped.

`--measure` goes on where the JSON file ends, for about so many seconds, and is what needs a quiet
machine; without it the table and the figure are made.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from common import real_data, write
from scipy import sparse
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import sublinear._callbacks as outer_loop
from sublinear import (
    L2SVMClassifier,
    PegasosClassifier,
    Result,
    SDCAClassifier,
    SIMBAClassifier,
    StreamingSVRGClassifier,
    SublinearPerceptron,
)
from sublinear.datasets import make_sparse_classification
from sublinear.suggestions import MEASURED, far

SEEDS = (0, 1, 2)
TEST_ROWS = 2000
FACTOR, POINTS = 1.1, 0.005
MOST_PASSES = 20  # what a solver may read
HOPELESS = 8  # times the best in both measures: a fit is left
MOST_SECONDS = 4.0
FIRST_LOOK, LOOKS = 4, 1.2  # the error is looked at after 4 rows, then after 1.2 times the values
ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5)
NUS = (3e-3, 1e-2, 3e-2, 1e-1)
MEASURES = ("values", "seconds")
STREAM = "StreamingSVRGClassifier"
BY_LINES = ("SublinearPerceptron", "SIMBAClassifier", "L2SVMClassifier")
SOLVERS = ("SDCAClassifier", "PegasosClassifier", *BY_LINES, STREAM)

SHAPES = ((1024, 1024), (4096, 4096), (16384, 16384), (1024, 16384), (65536, 256))
SHARES = (0.0, 0.02)  # of the rare rows
NOISES = (0.0, 0.05)  # labels flipped
REAL = ("covtype", "news20-uni", "news20", "adult", "mnist8")


def estimators(seed):
    """Yield (solver, setting, estimator), those that read whole rows first."""
    common = {"fit_intercept": False, "random_state": seed}
    for make in (SDCAClassifier, PegasosClassifier):
        for alpha in ALPHAS:
            yield make.__name__, f"alpha={alpha:g}", make(alpha=alpha, **common)
    for variant, given in (("plain", {"row_norm": 1.0}), ("variance_reduced", {})):
        model = SublinearPerceptron(variant=variant, **given, **common)
        yield "SublinearPerceptron", variant, model
    for nu in NUS:
        yield "SIMBAClassifier", f"nu={nu:g}", SIMBAClassifier(nu=nu, row_norm=1.0, **common)
    for alpha in ALPHAS[:3]:
        yield "L2SVMClassifier", f"alpha={alpha:g}", L2SVMClassifier(alpha=alpha, **common)
    for alpha in ALPHAS[:3]:
        model = StreamingSVRGClassifier(alpha=alpha, **common)
        yield STREAM, f"alpha={alpha:g}", model


class Cell:
    """One problem: training rows and test rows."""

    def __init__(self, X, y, X_test, y_test):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test[:TEST_ROWS], y_test[:TEST_ROWS]
        self.n_stored = X.nnz if sparse.issparse(X) else X.size

    def test_error(self, w):
        return float(np.mean((self.X_test @ w.astype(self.X.dtype) > 0) != (self.y_test > 0)))

    def looks(self, solver, estimator, target=-1.0, best=(math.inf, math.inf)):
        """Return [values read, seconds, error] of every look, until the error is reached.

        `best` are the fewest values and seconds with which others reached it.
        """
        began = time.process_time()
        if solver == STREAM:
            return self._stream_looks(estimator, target, best)
        found = []

        def advance(solver, limits, **given):
            seconds = time.process_time() - began
            limit = FIRST_LOOK * max(1, self.n_stored // len(self.y))
            while True:
                start = time.process_time()
                solver.advance(int(limit))
                seconds += time.process_time() - start
                if solver.accesses:
                    found.append([solver.accesses, seconds, self.test_error(solver.model())])
                limit = LOOKS * max(limit, solver.accesses)
                if self._ends(found, target) or self._hopeless(limit, seconds, best):
                    break
            result = Result(math.nan, -math.inf, math.inf, "partial_fit", 0, 0, 0, 0.0)
            return solver.model(), result, None

        usual, outer_loop.drive = outer_loop.drive, advance
        try:
            estimator.fit(self.X, self.y)
        finally:
            outer_loop.drive = usual
        return found

    def _stream_looks(self, estimator, target, best):
        """The same for one pass over more and more of the rows; none where rows are few."""
        found, n_rows = [], 4 * self.X.shape[1]
        while n_rows <= len(self.y):
            start = time.process_time()
            estimator.fit(self.X[:n_rows], self.y[:n_rows])
            seconds = time.process_time() - start
            read = max(estimator.result_.accesses, self.n_stored * n_rows // len(self.y))
            found.append([read, seconds, self.test_error(estimator.coef_[0])])
            n_rows = math.ceil(LOOKS**2 * n_rows)
            if self._ends(found, target) or self._hopeless(LOOKS * read, seconds, best):
                break
        return found

    def _ends(self, found, target):
        return bool(found) and found[-1][2] <= target

    def _hopeless(self, values, seconds, best):
        slower = values > HOPELESS * best[0] and seconds > HOPELESS * best[1]
        return slower or seconds > MOST_SECONDS or values > MOST_PASSES * self.n_stored


def planted(n, d, margin, share, noise, density=1.0):
    """Return training and test rows of a planted problem, float32."""
    random = np.random.default_rng(0)
    u, v = (random.choice(np.array([-1, 1], np.float32), d) / np.float32(d**0.5) for _ in range(2))
    n_all, width = n + TEST_ROWS, round(density * d)
    y = random.choice([-1, 1], n_all)
    rare = random.random(n_all) < share
    along = math.sqrt(2) * margin / density * np.where(rare[:, None], [-1, 2], [2, 0])
    bins = np.linspace(0, d, width + 1).astype(np.int32)
    rows, columns = np.empty((n_all, width), np.float32), None
    if density < 1:
        columns = np.empty((n_all, width), np.int32)
    for start in range(0, n_all, 512):
        block = slice(start, min(start + 512, n_all))
        place = np.arange(d)
        if density < 1:  # a column out of each of equal parts
            place = columns[block] = random.integers(bins[:-1], bins[1:], (len(y[block]), width))
        one, two = np.broadcast_to(u[place], rows[block].shape), v[place]
        two = np.broadcast_to(two, rows[block].shape)
        part = random.standard_normal(one.shape, dtype=np.float32)
        for other in (one, two):
            part -= (np.einsum("ij,ij->i", part, other) / (other**2).sum(axis=1))[:, None] * other
        signal = along[block, :1] * one + along[block, 1:] * two
        left = 1 - np.einsum("ij,ij->i", signal, signal)
        part *= np.sqrt(left / np.einsum("ij,ij->i", part, part))[:, None]
        rows[block] = y[block, None] * (part + signal)
    if density < 1:
        offsets = np.arange(n_all + 1, dtype=np.int64) * width
        parts = rows.ravel(), columns.ravel(), offsets
        rows = sparse.csr_array(parts, shape=(n_all, d))
    flipped = np.where(random.random(n) < noise, -y[:n], y[:n])
    return rows[:n], flipped, rows[n:], y[n:]


def text(n, d, noise):
    """Return training and test rows that look like short texts, float64."""
    X, y, coef = make_sparse_classification(
        n + TEST_ROWS, d, noise=noise, random_state=0, return_coef=True
    )
    scores = X @ coef
    return X[:n], y[:n], X[n:], np.where(scores > np.median(scores), 1, -1)[n:]


def real(name):
    X, y, X_test, y_test = real_data(name)
    squares = X.multiply(X) if sparse.issparse(X) else X**2
    longest = math.sqrt(squares.sum(axis=1).max())
    shuffled = np.random.default_rng(0).permutation(len(y_test))
    return X / longest, np.asarray(y), (X_test / longest)[shuffled], np.asarray(y_test)[shuffled]


def cells():
    """Return {name: (facts, function that makes the data)}."""
    found = {}

    def add(name, make, *arguments, **facts):
        found[name] = facts, lambda: Cell(*make(*arguments))

    for (n, d), share, noise, margin in itertools.product(SHAPES, SHARES, NOISES, (0.1, 0.05)):
        name = f"{n} x {d}, margin {margin}, rare {share:g}, noise {noise:g}"
        facts = {"n": n, "d": d, "density": 1.0, "margin": margin, "rare": share, "noise": noise}
        add(name, planted, n, d, margin, share, noise, **facts)
    for n, share, noise in itertools.product((4096, 16384), SHARES, NOISES):
        name = f"{n} x {n}, density 0.1, margin 0.05, rare {share:g}, noise {noise:g}"
        facts = {"n": n, "d": n, "density": 0.1, "margin": 0.05, "rare": share, "noise": noise}
        add(name, planted, n, n, 0.05, share, noise, 0.1, **facts)
    for (n, d), noise in itertools.product(((8192, 32768), (32768, 8192)), NOISES):
        facts = {"n": n, "d": d, "density": 60 / d, "margin": None, "rare": None, "noise": noise}
        add(f"text {n} x {d}, noise {noise:g}", text, n, d, noise, **facts)
    for name in REAL:
        add(name, real, name, margin=None, rare=None, noise=None)
    return found


def measure(cell):
    """Return what is known of a cell: the error to reach, and how every solver reached it."""
    errors, norms = {}, {}
    for solver, setting, model in itertools.islice(estimators(SEEDS[0]), len(ALPHAS)):
        looks = cell.looks(solver, model)
        errors[setting], norms[setting] = (
            min(look[2] for look in looks),
            np.linalg.norm(model.coef_),
        )
    least = min(errors, key=errors.get)
    target = FACTOR * errors[least] + POINTS
    runs, best = {}, [math.inf, math.inf]
    for seed in SEEDS:
        for solver, setting, model in estimators(seed):
            if seed != SEEDS[0] and (solver, setting) not in runs:
                continue
            looks = cell.looks(solver, model, target, best)
            if looks and looks[-1][2] <= target:
                runs.setdefault((solver, setting), []).append(looks[-1][:2])
                best = [min(pair) for pair in zip(best, looks[-1], strict=False)]
    solvers = {}
    for k, measure in enumerate(MEASURES):
        for (solver, setting), reached in runs.items():
            missed = [math.inf] * (len(SEEDS) - len(reached))
            median = statistics.median([one[k] for one in reached] + missed)
            known = solvers.setdefault(solver, {}).get(measure)
            if math.isfinite(median) and (known is None or median < known):
                solvers[solver] |= {measure: median, f"for {measure}": setting}
    solvers = {solver: found for solver, found in solvers.items() if found}
    return {
        "n": cell.X.shape[0],
        "d": cell.X.shape[1],
        "stored": int(cell.n_stored),
        "least_error": errors[least],
        "target": target,
        "norm": float(norms[least]),
        "solvers": solvers,
    }


def steps_of(solver, cell, values):
    """Return how many rows, or draws of a row and a column, read so many values."""
    per_step = cell["stored"] / cell["n"]
    if solver in BY_LINES:
        per_step += cell["stored"] / cell["d"]
    return values / per_step


def costs(known):
    """Return {solver: steps per |w|^2 or, of a stream, per column; microseconds}.

    Steps are geometric means over cells, where a solver that did not get there counts with HOPELESS
    times the fewest values; seconds are fitted, by the least squares of relative errors, by what a
    fit, a stored value, a step, a value read, and one whose weight is not in the cache cost.
    """
    found = {}
    for solver in SOLVERS:
        ratios, terms = [], []
        for cell in known["cells"].values():
            run = cell["solvers"].get(solver, {})
            if solver == STREAM and not run:  # rows are too few for it
                continue
            fewest = best_of(cell, "values")[0]
            values = run.get("values") or HOPELESS * fewest
            steps = steps_of(solver, cell, values)
            ratios.append(steps / (cell["d"] if solver == STREAM else cell["norm"] ** 2))
            if run.get("values") and run.get("seconds"):
                parts = [1.0, cell["stored"], steps, values, far(values, cell["d"])]
                terms.append(1e-6 * np.array(parts) / run["seconds"])
        fitted = nnls(np.array(terms), np.ones(len(terms)))[0]
        found[solver] = {
            "cells": len(terms),
            "steps": float(f"{np.exp(np.mean(np.log(ratios))):.3g}"),
            "microseconds": [float(f"{value:.3g}") for value in fitted],
        }
    return found


def best_of(cell, measure, solvers=SOLVERS):
    """Return the least of a measure and who needed it; inf and None if nobody got there."""
    reached = [
        (run[measure], solver)
        for solver, run in cell["solvers"].items()
        if solver in solvers and measure in run
    ]
    return min(reached, default=(math.inf, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(__file__).parent / "figures"
    parser.add_argument("--output", type=Path, default=folder)
    parser.add_argument("--measure", action="store_true", help="measure cells that are missing")
    parser.add_argument("--budget", type=float, default=100, help="begin no cell after seconds")
    parser.add_argument("--cells", nargs="+", help="only those whose names contain one of these")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "who_wins.json"
    known = json.loads(path.read_text()) if path.is_file() else {"cells": {}}
    if not options.measure:
        if not known["cells"]:
            parser.error(f"nothing was measured in {options.output}: add --measure")
        return draw(known, options.output)
    began = time.perf_counter()
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        sklearn.config_context(assume_finite=True),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, (facts, make) in cells().items():
            wanted = not options.cells or any(part in name for part in options.cells)
            if name in known["cells"] or not wanted:
                continue
            if time.perf_counter() - began > options.budget:
                break
            start = time.perf_counter()
            known["cells"][name] = measure(make()) | facts
            beside = path.with_suffix(".part")
            beside.write_text(json.dumps(known, indent=1))
            os.replace(beside, path)
            print(name, f"{time.perf_counter() - start:.1f} s", flush=True)
    missing = len(cells()) - len(known["cells"])
    print(f"{missing} cells to go")


COLORS = {
    "SDCAClassifier": "#0072b2",
    "PegasosClassifier": "#d55e00",
    "SublinearPerceptron": "#009e73",
    "SIMBAClassifier": "#cc79a7",
    "L2SVMClassifier": "#56b4e9",
    STREAM: "#e69f00",
}
MARKERS = dict(zip(COLORS, "osD^vP", strict=True))
WHOLE = ("SDCAClassifier", "PegasosClassifier", STREAM)
COSTS = {make.__name__: cost for make, cost in MEASURED.items()}
COLUMNS = (
    ("all rows alike", lambda cell: cell["rare"] == 0 and cell["noise"] == 0),
    ("all alike, 5 % of labels flipped", lambda cell: cell["rare"] == 0 and cell["noise"] > 0),
    ("2 % of rows decide", lambda cell: cell["rare"] and cell["noise"] == 0),
    ("2 % decide, 5 % flipped", lambda cell: cell["rare"] and cell["noise"] > 0),
    ("texts and real sets", lambda cell: cell["rare"] is None),
)
ROWS = ("seconds", "values of steps", "values of whole fits")


def costs_of_fits(cell, row):
    """Return {solver: what the row of the figure compares}."""
    measure = "seconds" if row == "seconds" else "values"
    found = {s: run[measure] for s, run in cell["solvers"].items() if measure in run}
    if row == "values of whole fits":
        for solver in found.keys() & COSTS.keys():  # norms and certificates
            epochs = found[solver] / cell["stored"]
            found[solver] += COSTS[solver].passes_for(epochs) * cell["stored"]
        if STREAM in found:  # all rows that it is given
            found[STREAM] = cell["stored"]
    return found


def compared(cell, row):
    """Return the winner, and how many times more whole rows cost than rows and columns, at best."""
    found = costs_of_fits(cell, row)
    winner = min(found, key=found.get)
    sides = [
        min((found[solver] for solver in side if solver in found), default=math.inf)
        for side in (WHOLE, BY_LINES)
    ]
    return winner, sides[0] / sides[1] if sides[1] < math.inf else 0.0


def predicted(cell):
    """The same by theory, from |w|: 1 / margin^2 rows, or draws times log n; up to a constant."""
    draws = math.log(cell["n"]) * cell["norm"] ** 2
    return cell["n"] * cell["d"] / (cell["n"] + cell["d"]) / draws


def draw(known, folder):
    cells_of = list(known["cells"].values())
    figure, grid = plt.subplots(
        len(ROWS), len(COLUMNS), figsize=(17, 9), layout="constrained", sharex=True, sharey=True
    )
    floor, winners = 1 / 64, set()
    for row, line in zip(ROWS, grid, strict=True):
        for (title, belongs), axes in zip(COLUMNS, line, strict=True):
            axes.axvline(1, color="gray", linestyle="--", linewidth=1)
            axes.axhline(1, color="black", linewidth=0.8)
            for cell in filter(belongs, cells_of):
                winner, ratio = compared(cell, row)
                winners.add(winner)
                axes.plot(predicted(cell), max(ratio, floor), MARKERS[winner], color=COLORS[winner])
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.grid(alpha=0.25)
            if row == ROWS[0]:
                axes.set_title(title, fontsize=10)
        line[0].set_ylabel(f"{row}\nwhole rows / rows and columns", fontsize=9)
    figure.supxlabel("theory: a pass of one row each, n d, over its border, (n + d) |w|² log n")
    handles = [
        plt.Line2D([], [], marker=MARKERS[name], color=COLORS[name], linestyle="", label=name)
        for name in COLORS
        if name in winners
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=6, title="who needs least")
    known["costs"] = costs(known)
    write(figure, known, folder, "who_wins", uses_data=False, text=table(known))


def table(known):
    header = ["problem", "error reached", *ROWS]
    lines = [header, ["---"] * len(header)]
    for name, cell in known["cells"].items():
        found = [name, f"{100 * cell['target']:.1f} %"]
        for row in ROWS:
            ranked = sorted(costs_of_fits(cell, row).items(), key=lambda one: one[1])
            others = [f"{short(solver)} {cost / ranked[0][1]:.2g}" for solver, cost in ranked[1:3]]
            found.append(", ".join([f"**{short(ranked[0][0])}**", *others]))
        lines.append(found)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def short(solver):
    return solver.removesuffix("Classifier").removeprefix("Sublinear")


if __name__ == "__main__":
    main()
