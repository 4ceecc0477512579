"""Primal and dual suboptimality and test error over iterations; the naive rule fails.

Takac, Bijral, Richtarik, Srebro (2013), Figure 2.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import COLORS, LABELS, METHODS, command_line, growing, problem, write

BATCH_SIZES = {"covtype": 256, "news20-uni": 1024}
EPOCHS = {"covtype": 60, "news20-uni": 400}
LEAST = 1e-6  # of the suboptimalities shown: the optimum itself is known to about 1e-7


def follow(problem, method, batch_size, epochs):
    """Return rows of (iterations, primal, dual, test error) at growing checkpoints."""
    solver = problem.solver(method, batch_size)
    rows = []
    last = epochs * problem.n_rows // batch_size
    for steps in growing(max(1, last / 3000), 1.12):
        problem.advance(solver, batch_size, min(steps, last))
        w, primal, dual = solver.certify(np.copy)
        rows.append((solver.n_steps, *rounded(primal, dual, problem.test_error(w))))
        if steps >= last:
            return rows


def rounded(*values):
    return (float(f"{value:.9g}") for value in values)


def draw(panels, problem, runs):
    best, bound = problem.reference.primal, problem.reference.dual
    for method, rows in runs.items():
        steps, primals, duals, errors = map(np.array, zip(*rows, strict=True))
        style = {"color": COLORS[method], "linewidth": 1.6, "label": LABELS[method]}
        panels[0].loglog(steps, np.maximum(primals - best, LEAST / 10), **style)
        if method != "pegasos":
            panels[1].loglog(steps, np.maximum(bound - duals, LEAST / 10), **style)
        panels[2].semilogx(steps, 100 * errors, **style)
    panels[2].axhline(100 * problem.reference_error, color="0.6", linestyle="--", linewidth=1)
    panels[0].set_ylabel("primal suboptimality")
    panels[1].set_ylabel("dual suboptimality")
    panels[2].set_ylabel("test error, %  (dashed: the optimum's)")
    for axes in panels[:2]:
        axes.set_ylim(bottom=LEAST)
    for axes in panels:
        axes.set_xlabel("iterations")
        axes.grid(alpha=0.25)


def main():
    arguments = command_line(__doc__.splitlines()[0])
    numbers = {"columns": ["iterations", "primal", "dual", "test_error"], "problems": {}}
    figure, grid = plt.subplots(len(BATCH_SIZES), 3, figsize=(14, 8), layout="constrained")
    for panels, (name, batch_size) in zip(grid, BATCH_SIZES.items(), strict=True):
        case = problem(name)
        runs = {}
        for method in METHODS:
            runs[method] = follow(case, method, batch_size, EPOCHS[name])
            print(name, method, *runs[method][-1], flush=True)
        draw(panels, case, runs)
        title = case.label.replace("\n", " ")
        panels[1].set_title(f"{title}, $\\lambda$ = {case.alpha:g}, $b$ = {batch_size}")
        numbers["problems"][name] = {
            **case.description(),
            "batch_size": batch_size,
            "beta": case.beta(batch_size),
            "reference_test_error": case.reference_error,
            "runs": runs,
        }
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(METHODS))
    write(figure, numbers, arguments.output, "progress_of_rules")


if __name__ == "__main__":
    main()
