"""Time whole fits of sublinear against scikit-learn's, to the same suboptimality.

    python asv_bench/compare_peers.py FOLDER [--sets covtype news20] [--json compare_peers.json]

For each data set (all rows, none longer than 1, no intercept, L2-regularised hinge loss; one thread
where the name does not say otherwise; liblinear-official and Snap ML where they are installed):

1. a long SDCA fit brackets the optimum P* between its dual and its primal value;
2. for every solver the loosest setting is sought with which (P(w) - P*) / P* <= 1e-3 for all seeds;
3. those fits are timed in turns, and their medians and ratios are printed as a markdown table.

With `--held-out-seeds N` the fits of step 3 have N seeds that did not choose the setting, and the
table says how many of them reach the target, with the median and the largest suboptimality.

A set that is run again replaces its figures in the file, the others stay.
"""

import argparse
import statistics

from benchmarks.solvers import (
    installed_names,
    loosest_setting,
    optimum,
    stored_values,
    suboptimality,
    timed_fit,
)
from figures import ALPHAS, add_common_arguments, earlier, interleaved_medians, problems, report
from scipy import sparse
from threadpoolctl import threadpool_limits

BASELINE = "LinearSVC"
HEADER = ["set", "solver", "setting", "suboptimality", "seconds", f"{BASELINE} / this"]
HELD_OUT_HEADER = ["held-out seeds that reach it", "their median", "their worst"]
FIRST_HELD_OUT = 1000  # far from the seeds that settings are chosen by


def compare(problem, names, target, seeds, repetitions, held_out):
    """Return the figures of one data set, a JSON-ready dict."""
    X, y, alpha = problem.X, problem.y, problem.alpha
    lower, upper = optimum(X, y, alpha, tol=target * 1e-2)
    settings = {
        name: loosest_setting(name, X, y, alpha, lower, target=target, seeds=seeds)
        for name in names
        if sparse.issparse(X) or "pack=True" not in name
    }
    unseen = range(FIRST_HELD_OUT, FIRST_HELD_OUT + held_out)
    timed_seeds = unseen or seeds
    found = {name: setting for name, setting in settings.items() if setting is not None}
    tasks = {
        name: lambda repetition, make=setting.make: timed_fit(
            make(timed_seeds[repetition % len(timed_seeds)]), X, y
        )
        for name, setting in found.items()
    }
    medians = interleaved_medians(tasks, repetitions)
    reached = {
        name: [_suboptimality_of_fit(setting.make(seed), problem, lower) for seed in unseen]
        for name, setting in found.items()
    }
    return {
        "set": problem.name,
        "alpha": alpha,
        "rows": X.shape[0],
        "columns": X.shape[1],
        "entries": stored_values(X),
        "optimum": {"lower": lower, "upper": upper},
        "solvers": {
            name: _figures(setting, medians.get(name), medians.get(BASELINE), reached.get(name))
            for name, setting in settings.items()
        },
    }


def _suboptimality_of_fit(model, problem, lower):
    timed_fit(model, problem.X, problem.y)  # quietly
    return suboptimality(model, problem.X, problem.y, problem.alpha, lower)


def _figures(setting, seconds, baseline, held_out):
    if setting is None:
        return None
    return {
        "setting": setting.description,
        "suboptimality": setting.suboptimality,
        "seconds": seconds,
        "ratio": None if baseline is None else baseline / seconds,
        "held_out": held_out,
    }


def rows(figures, target, held_out):
    """Yield the table's rows for one data set; a solver that never arrives gets dashes."""
    title = f"{figures['set']}, alpha {figures['alpha']:g}"
    for name, found in figures["solvers"].items():
        if found is None:
            yield [title, name, "never reached", "-", "-", "-"] + ["-"] * len(
                HELD_OUT_HEADER
            ) * held_out
            continue
        ratio = "-" if found["ratio"] is None else f"{found['ratio']:.2f}"
        numbers = [f"{found['suboptimality']:.1e}", f"{found['seconds']:.3f}", ratio]
        yield [title, name, found["setting"], *numbers] + _held_out(found, target) * held_out


def _held_out(found, target):
    """Return the cells of HELD_OUT_HEADER."""
    reached = found.get("held_out")
    if not reached:
        return ["-"] * len(HELD_OUT_HEADER)
    count = sum(one <= target for one in reached)
    median, worst = statistics.median(reached), max(reached)
    return [f"{count} of {len(reached)}", f"{median:.2e}", f"{worst:.2e}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_peers.json")
    parser.add_argument("--target", type=float, default=1e-3, help="relative suboptimality")
    parser.add_argument("--solvers", nargs="+", default=list(installed_names()))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--held-out-seeds", type=int, default=0, metavar="N")
    options = parser.parse_args()
    kept = earlier(options.json)
    sets = {one["set"]: one for one in kept.get("sets", ()) if kept["target"] == options.target}
    with threadpool_limits(1, user_api="blas"):
        for problem in problems(options.data, options.sets):
            sets[problem.name] = compare(
                problem,
                options.solvers,
                options.target,
                range(options.seeds),
                options.repetitions,
                options.held_out_seeds,
            )
    figures = [sets[name] for name in ALPHAS if name in sets]
    held_out = options.held_out_seeds > 0
    table = [row for one in figures for row in rows(one, options.target, held_out)]
    report(
        HEADER + HELD_OUT_HEADER * held_out,
        table,
        options.json,
        {"target": options.target, "sets": figures},
    )


if __name__ == "__main__":
    main()
