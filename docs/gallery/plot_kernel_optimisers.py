"""Suboptimality and test error of kernel machines against time: Pegasos, SDCA and libsvm.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Figure 5 and Tables 2 and 3. `--sets` runs some of
the data sets and takes the others from the numbers of the last run. Looks at a model are not timed.
"""

import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, write
from kernel_common import (
    COLORS,
    LABELS,
    MARKERS,
    SOURCES,
    UNLIMITED,
    KernelProblem,
    kernel_data,
    timed,
)
from scipy.sparse import csr_array

EPOCHS = 30
GROWTH = 1.6  # of steps between two looks
SDCA_GAP = 1e-5
SVC_ITERATIONS = (1 / 20, 1 / 5, -1)  # of the rows; -1: to its own end


def trace_of_solver(problem, method):
    """Return [{seconds, kernel values, suboptimality, test error}, ..]."""
    solver, seconds = problem.solver(method), 0.0
    trace, limit = [], problem.n * 30
    done = False
    while not done:
        if method == "sdca":
            _, spent = timed(solver.advance, UNLIMITED)
            done = solver.estimated_gap < SDCA_GAP
            coefficients, margins = solver.coefficients, solver.margins
        else:
            _, spent = timed(solver.advance, limit)
            while solver.accesses < limit / GROWTH and solver.n_iter < EPOCHS:  # an epoch ended
                spent += timed(solver.advance, limit)[1]
            limit = int(limit * GROWTH)
            done = solver.n_iter >= EPOCHS
            coefficients, margins = solver.model()[:-1], solver.margins()
        seconds += spent
        trace.append(
            {
                "seconds": seconds,
                "kernel_values": int(solver.accesses),
                "primal": float(problem.primal(coefficients, margins)),
                "test_error": problem.test_error(coefficients),
            }
        )
    return trace


def trace_of_svc(problem):
    """Return the same for fits of SVC that end early, but for kernel values, which it hides."""
    trace = []
    for share in SVC_ITERATIONS:
        limit = -1 if share == -1 else int(share * problem.n)
        model, seconds = timed(problem.svc(max_iter=limit).fit, problem.X, problem.y)
        coefficients = np.zeros(problem.n)
        coefficients[model.support_] = csr_array(model.dual_coef_).toarray()[0]
        intercept = float(model.intercept_[0])
        margins = problem.margins(coefficients, problem.rows)
        trace.append(
            {
                "seconds": seconds,
                "primal": float(problem.primal(coefficients, margins, intercept)),
                "test_error": problem.test_error(coefficients, intercept),
            }
        )
    return trace


def measure(name):
    problem = KernelProblem(SOURCES[name], kernel_data(name))
    problem.rows, problem.test_rows  # noqa: B018  (not timed, as loading is not in the paper)
    optima = {
        "": problem.optimum(),
        "free_intercept": problem.optimum(free_intercept=True, tol=1e-4),
    }
    traces = {method: trace_of_solver(problem, method) for method in ("pegasos", "sdca")}
    traces["svc"] = trace_of_svc(problem)
    for method, trace in traces.items():
        _, lower = optima["free_intercept" if method == "svc" else ""]
        for row in trace:
            row["suboptimality"] = row["primal"] - lower
    return {
        "label": problem.source.label,
        "rows": problem.n,
        "gamma": problem.source.gamma,
        "alpha": problem.alpha,
        "target": problem.source.target,
        "optima": optima,
        "traces": traces,
        "table": table(problem.source.target, traces),
    }


def table(target, traces):
    """Return Table 2 (first look at which the target is met) and Table 3 (relative throughput)."""
    rows = {}
    for method, trace in traces.items():
        met = [row for row in trace if row["suboptimality"] <= target]
        rows[method] = {"met": bool(met)}
        if met:
            rows[method] |= {key: met[0][key] for key in ("seconds", "test_error")}
        if "kernel_values" in trace[-1]:
            rows[method]["values_per_second"] = trace[-1]["kernel_values"] / trace[-1]["seconds"]
    reference = rows["pegasos"]["values_per_second"]
    for row in rows.values():
        if "values_per_second" in row:
            row["relative_throughput"] = row["values_per_second"] / reference
    return rows


def as_markdown(numbers):
    """Return both tables as one."""
    lines = [
        "| set | method | processor seconds to the suboptimality | test error there | "
        "kernel values per second, of Pegasos' |",
        "|---|---|---|---|---|",
    ]
    for found in numbers.values():
        for method, row in found["table"].items():
            met = f"{row['seconds']:.3g} | {row['test_error']:.2%}" if row["met"] else "not met | -"
            relative = f"{row['relative_throughput']:.2g}" if "relative_throughput" in row else "-"
            name = f"{found['label']}, {found['target']:g}"
            lines.append(f"| {name} | {LABELS[method]} | {met} | {relative} |")
    return "\n".join(lines) + "\n"


def draw(panels, found):
    for method, trace in found["traces"].items():
        style = {"color": COLORS[method], "marker": MARKERS[method], "markersize": 4}
        seconds = [row["seconds"] for row in trace]
        panels[0].loglog(
            seconds,
            [max(row["suboptimality"], 1e-8) for row in trace],
            label=LABELS[method],
            **style,
        )
        panels[1].semilogx(seconds, [100 * row["test_error"] for row in trace], **style)
    panels[0].axhline(found["target"], color="0.7", linewidth=1, linestyle="--")
    panels[0].set_title(f"{found['label']}\n$\\lambda$ = {found['alpha']:g}", fontsize=10)
    best = min(100 * row["test_error"] for trace in found["traces"].values() for row in trace)
    panels[1].set_ylim(0.9 * best, 2.5 * best)
    panels[1].set_xlabel("processor seconds")
    for axes in panels:
        axes.grid(alpha=0.25)


def add_sets(parser):
    parser.add_argument(
        "--sets",
        nargs="+",
        default=list(SOURCES),
        choices=list(SOURCES),
        help="data sets to run; the others keep the numbers of the last run",
    )


def main():
    arguments = command_line(__doc__.splitlines()[0], add_sets)
    stem = "kernel_optimisers"
    kept = arguments.output / f"{stem}.json"
    numbers = {}
    if os.environ.get("SUBLINEAR_DATA") and Path(kept).is_file():
        numbers = json.loads(kept.read_text(encoding="utf-8"))
    for name in arguments.sets:
        numbers[name] = measure(name)
    figure, panels = plt.subplots(
        2, len(numbers), figsize=(5 * len(numbers), 7), layout="constrained", squeeze=False
    )
    for column, found in zip(panels.T, numbers.values(), strict=True):
        draw(column, found)
    panels[0, 0].set_ylabel("primal suboptimality\n(dashed: the paper's)")
    panels[1, 0].set_ylabel("test error, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    write(figure, numbers, arguments.output, stem, text=as_markdown(numbers))


if __name__ == "__main__":
    main()
