"""Iterations to a primal suboptimality of 1e-3 against the batch size, beside beta_b / b.

Takac, Bijral, Richtarik, Srebro (2013), Figure 1. A method that does not get there within a data
set's limit on epochs is marked by an open triangle at the limit: it needs more iterations than
that. Larger batches of that method, which need more epochs still, are then left out.
"""

import time

import matplotlib.pyplot as plt
from common import COLORS, LABELS, MARKERS, METHODS, command_line, growing, problem, write

TARGET = 1e-3
# an epoch is n examples, whatever the batch size
LIMITS = {"covtype": 130, "news20": 500, "news20-uni": 1000}
FIRST_LOOK = 1 / 100  # of an epoch


def batch_sizes(n_rows):
    """Powers of 4 up to 2^14, as far as there are rows."""
    return [4**k for k in range(8) if 4**k <= n_rows]


def iterations_needed(problem, solver, batch_size):
    """Return (iterations, whether they reached the target)."""
    limit = max(1, LIMITS[problem.name] * problem.n_rows // batch_size)
    for steps in growing(max(1, FIRST_LOOK * problem.n_rows / batch_size)):
        problem.advance(solver, batch_size, min(steps, limit))
        primal = problem.objective.primal(problem.model(solver))
        if primal - problem.reference.primal <= TARGET:
            return solver.n_steps, True
        if steps >= limit:
            return solver.n_steps, False


def measure(problem):
    """Return {method: [(batch size, iterations, reached), ..]}."""
    curves = {}
    for method in METHODS:
        curves[method] = []
        for batch_size in batch_sizes(problem.n_rows):
            started = time.perf_counter()
            needed = iterations_needed(problem, problem.solver(method, batch_size), batch_size)
            curves[method].append((batch_size, *needed))
            seconds = time.perf_counter() - started
            print(problem.name, method, batch_size, *needed, f"{seconds:.1f} s", flush=True)
            if not needed[1]:
                break
    return curves


def measure_averages(problem):
    """Return {average: (iterations, reached)} of dual coordinate ascent one example at a time."""
    return {
        average: iterations_needed(problem, problem.solver("safe", 1, average=average), 1)
        for average in ("last", "decaying", "tail")
    }


def draw(axes, problem, curves):
    for k, (method, points) in enumerate(curves.items()):
        style = {"color": COLORS[method], "marker": MARKERS[method], "markersize": 5}
        if method == "naive":  # crosses on top of what they coincide with
            style |= {"markersize": 9, "zorder": 3}
        reached = [(b, count) for b, count, found in points if found]
        axes.loglog(*zip(*reached, strict=True), label=LABELS[method], **style)
        for b, count, found in points:
            if not found:
                style = {"color": COLORS[method], "markerfacecolor": "white"}
                beside = b * 1.15 ** (k - 1)  # limits of several methods coincide
                axes.loglog(beside, count, "^", markersize=8, zorder=3, **style)
    axes.axvline(1 / problem.sigma_squared, color="0.8", linewidth=1, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_title(f"{problem.label}\n$\\lambda$ = {problem.alpha:g}", fontsize=10)
    axes.set_xlabel("batch size $b$")
    axes.grid(alpha=0.25)
    draw_ratio(axes, problem, curves["safe"][0][1])


def draw_ratio(axes, problem, iterations_of_one):
    """Draw beta_b / b on an axis of the same decades, 1 beside SDCA's iterations for b = 1."""
    right = axes.twinx()
    sizes = batch_sizes(problem.n_rows)
    ratios = [problem.beta(b) / b for b in sizes]
    right.semilogy(sizes, ratios, "--", color="0.45", linewidth=1.2)
    right.set_ylabel(r"$\beta_b / b$  (dashed)", color="0.35")
    right.tick_params(axis="y", colors="0.35")
    right.set_ylim(*(limit / iterations_of_one for limit in axes.get_ylim()))


def main():
    arguments = command_line(__doc__.splitlines()[0])
    numbers = {"target": TARGET, "epoch_limits": LIMITS, "problems": {}}
    figure, panels = plt.subplots(1, len(LIMITS), figsize=(15, 5), layout="constrained")
    for axes, name in zip(panels, LIMITS, strict=True):
        case = problem(name)
        curves = measure(case)
        draw(axes, case, curves)
        ratios = {b: case.beta(b) / b for b in batch_sizes(case.n_rows)}
        numbers["problems"][name] = {
            **case.description(),
            "beta_over_b": ratios,
            "iterations": curves,
            "iterations_of_averages_at_batch_size_1": measure_averages(case),
        }
    panels[0].set_ylabel(f"iterations to a primal suboptimality of {TARGET:g}")
    panels[0].plot([], [], "^", color="0.4", markerfacecolor="white", label="not reached")
    panels[0].plot([], [], color="0.8", label=r"$b = 1 / \sigma^2$")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    write(figure, numbers, arguments.output, "iterations_against_batch_size")


if __name__ == "__main__":
    main()
