"""Time to the paper's suboptimality thresholds: Pegasos, SDCA and scikit-learn's solvers.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Table 1 and Figure 4, with the paper's lambda and
threshold (for the stand-in those of astro-ph). One thread, no intercept. Time is counted in
products X @ w of SciPy, timed in the same run, and is that of a fit without its certificates:
scikit-learn's check of X and y, which every fit begins with, then the solver. Models are evaluated
off the clock. Peers cannot be watched, so they are fitted anew for every number of passes.
"""

import statistics
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, problem, write
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import check_X_y
from threadpoolctl import threadpool_limits

from sublinear._core.random import RandomBits
from sublinear._solvers.pegasos import Pegasos
from sublinear._solvers.sdca import SDCA

CASES = {"covtype": (1e-6, 0.0449), "news20-uni": (5e-5, 0.0275)}
PASSES = (1, 2, 4, 8, 16, 32)
FIRST_LOOK, GROWTH = 1 / 64, 2**0.5  # in passes
SEEDS = 3
COLORS = {
    "Pegasos, as in the paper": "#0072b2",
    "Pegasos, default": "#56b4e9",
    "SDCA": "#009e73",
    "LinearSVC": "#d55e00",
    "SGDClassifier": "#cc79a7",
}


def seconds_of(task):
    started = time.perf_counter()
    result = task()
    return time.perf_counter() - started, result


def product_seconds(case):
    """Return the median time of X @ w."""
    w = np.ones(case.X.shape[1])
    return statistics.median(seconds_of(lambda: case.X @ w)[0] for _ in range(15))


def checking_seconds(case):
    """Return the median time of the checks that a fit begins with."""
    checks = (seconds_of(lambda: check_X_y(case.X, case.y, accept_sparse="csr")) for _ in range(5))
    return statistics.median(seconds for seconds, _ in checks)


def solvers(case, seed):
    random = RandomBits(np.random.SeedSequence(seed))
    return {
        "Pegasos, as in the paper": lambda: Pegasos(
            case.objective, random, sampling="replacement", projection=True
        ),
        "Pegasos, default": lambda: Pegasos(case.objective, random, average="tail"),
        "SDCA": lambda: SDCA(case.objective, random),
    }


def follow(case, make, seconds):
    """Yield (seconds, weights) at growing points of a fit that began `seconds` ago."""
    took, solver = seconds_of(make)
    seconds += took
    limit = FIRST_LOOK * case.X.nnz
    while solver.accesses < PASSES[-1] * case.X.nnz:
        started = time.perf_counter()
        while solver.advance(int(limit)):
            pass
        seconds += time.perf_counter() - started
        yield seconds, solver.model()
        limit *= GROWTH


def peers(case, seed):
    settings = {"fit_intercept": False, "random_state": seed}
    C = 1 / (case.alpha * case.n_rows)
    return {
        "LinearSVC": lambda k: LinearSVC(loss="hinge", C=C, tol=1e-14, max_iter=k, **settings),
        "SGDClassifier": lambda k: SGDClassifier(
            alpha=case.alpha, tol=None, max_iter=k, **settings
        ),
    }


def refit(case, make):
    """Yield (seconds, weights) of fits of more and more passes."""
    for passes in PASSES:
        seconds, model = seconds_of(lambda k=passes: make(k).fit(case.X, case.y))
        yield seconds, model.coef_[0]


def measure(case, seed):
    """Return {method: rows of (products, suboptimality, test error)}."""
    product, checking = product_seconds(case), checking_seconds(case)
    runs = {name: follow(case, make, checking) for name, make in solvers(case, seed).items()}
    runs |= {name: refit(case, make) for name, make in peers(case, seed).items()}
    curves = {}
    for name, run in runs.items():
        curves[name] = []
        for seconds, w in run:
            above = case.objective.primal(np.asarray(w, dtype=float)) - case.reference.dual
            row = (seconds / product, above, case.test_error(w))
            curves[name].append([float(f"{value:.5g}") for value in row])
        print(case.name, seed, name, curves[name][-1], flush=True)
    return curves


def time_to(rows, threshold):
    """Return the first row whose suboptimality is at most the threshold, or None."""
    return next((row for row in rows if row[1] <= threshold), None)


def summary(runs, threshold):
    """Return {method: medians over the seeds of time and test error at the threshold, or None}."""
    reached = {name: [time_to(run[name], threshold) for run in runs] for name in COLORS}
    return {
        name: None if None in rows else [statistics.median(k) for k in zip(*rows, strict=True)]
        for name, rows in reached.items()
    }


def table(problems):
    lines = [["set", "threshold", *COLORS, "the optimum's error"], ["---"] * (3 + len(COLORS))]
    for found in problems.values():
        cells = (
            f"not in {PASSES[-1]} passes" if row is None else f"{row[0]:.1f} ({100 * row[2]:.2f} %)"
            for row in found["at_threshold"].values()
        )
        error = f"{100 * found['optimum_test_error']:.2f} %"
        lines.append([found["label"], f"{found['threshold']:g}", *cells, error])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def draw(top, bottom, case, curves, threshold):
    for name, rows in curves.items():
        products, above, errors = zip(*rows, strict=True)
        style = {"color": COLORS[name], "marker": "o", "markersize": 3, "label": name}
        top.loglog(products, above, **style)
        bottom.semilogx(products, 100 * np.array(errors), **style)
    top.axhline(threshold, color="0.6", linestyle="--", linewidth=1)
    optimum = 100 * case.reference_error
    bottom.axhline(optimum, color="0.6", linestyle="--", linewidth=1)
    bottom.set_ylim(optimum * 0.9, optimum * 1.6)
    top.set_title(f"{case.label}\n$\\lambda$ = {case.alpha:g}", fontsize=10)
    bottom.set_xlabel("time, in products $X w$")
    for axes in (top, bottom):
        axes.grid(alpha=0.25)


def main():
    warnings.simplefilter("ignore")
    arguments = command_line(__doc__.splitlines()[0])
    figure, grid = plt.subplots(2, len(CASES), figsize=(11, 7), layout="constrained")
    problems = {}
    for column, (name, (alpha, threshold)) in enumerate(CASES.items()):
        case = problem(name, alpha=alpha, reference_tol=1e-3)
        with threadpool_limits(1):
            runs = [measure(case, seed) for seed in range(SEEDS)]
        draw(grid[0, column], grid[1, column], case, runs[0], threshold)
        problems[name] = {
            **case.description(),
            "threshold": threshold,
            "optimum_test_error": case.reference_error,
            "at_threshold": summary(runs, threshold),
            "curves": runs[0],
        }
    grid[0, 0].set_ylabel("primal suboptimality  (dashed: threshold)")
    grid[1, 0].set_ylabel("test error, %  (dashed: the optimum's)")
    grid[0, 1].legend(fontsize=8)
    columns = ["products", "suboptimality", "test_error"]
    numbers = {"columns": columns, "problems": problems}
    write(figure, numbers, arguments.output, "time_to_accuracy", text=table(problems))


if __name__ == "__main__":
    main()
