"""Test error against feature values read, in both ways of counting: SIMBA beside Pegasos.

Hazan, Koren, Srebro (2011), Figure 1, by the paper's protocol: 8 000 training rows, nu and lambda
chosen for the least test error at the end, ten repetitions, no bias. A step of SIMBA reads a row
and a column, one of Pegasos a row. Either the stored entries count, or, as in the paper, every row
costs d and every column n.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, problem, write

from sublinear import SIMBAClassifier
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._solvers.pegasos import Pegasos

SETS = ("news20-uni", "news20")
ROWS = 8000
REPETITIONS = 10
STEPS = [2**k for k in range(8, 18)]
NUS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LAMBDAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
COLORS = {"SIMBA": "#0072b2", "Pegasos": "#d55e00"}


class Task:
    """The first 8 000 training rows, and the test rows of a set."""

    def __init__(self, case):
        self.case = case
        self.X, self.y = case.X[:ROWS], np.asarray(case.y[:ROWS], dtype=float)
        self.n_rows, self.n_columns = self.X.shape

    def simba(self, nu, steps, seed):
        """Return (stored entries read, values read as the paper counts, test error)."""
        model = SIMBAClassifier(
            nu=nu, fit_intercept=False, certify=None, max_iter=steps, row_norm=1.0,
            random_state=seed,
        ).fit(self.X, self.y)  # fmt: skip
        result = model.result_
        return result.accesses, result.full_accesses, self.case.test_error(model.coef_[0])

    def simba_curve(self, nu, seed):
        return [self.simba(nu, steps, seed) for steps in STEPS]

    def pegasos_curve(self, alpha, seed):
        objective = Objective(Matrix(self.X), self.y, MARGIN_LOSSES["hinge"].loss(), alpha)
        random = RandomBits(np.random.SeedSequence(seed))
        solver = Pegasos(objective, random, sampling="replacement")
        rows = []
        for steps in STEPS:
            limit = steps * self.X.nnz // self.n_rows
            while solver.advance(limit):
                pass
            read = solver.accesses, solver.n_steps * self.n_columns
            rows.append((*read, self.case.test_error(solver.model())))
        return rows


def measure(task):
    """Return {method: its parameter, means and standard deviations of what its curve holds}."""
    found = {}
    for method, curve, grid in (
        ("SIMBA", task.simba_curve, NUS),
        ("Pegasos", task.pegasos_curve, LAMBDAS),
    ):
        last = {
            value: np.mean([curve(value, seed)[-1][2] for seed in (100, 101)]) for value in grid
        }
        best = min(last, key=last.get)
        curves = np.array([curve(best, seed) for seed in range(REPETITIONS)])
        found[method] = {
            "parameter": best,
            "error_by_parameter": {f"{value:g}": float(error) for value, error in last.items()},
            "means": curves.mean(axis=0).tolist(),
            "deviations": curves[:, :, 2].std(axis=0).tolist(),
        }
        print(task.case.name, method, best, found[method]["means"][-1], flush=True)
    return found


def values_to(means, column, error):
    """Return the values read when the mean error is first at most `error`, or None."""
    return next((row[column] for row in means if row[2] <= error), None)


def draw(axes, task, found, column):
    for method, curve in found.items():
        means = np.array(curve["means"])
        axes.errorbar(
            means[:, column], 100 * means[:, 2], 100 * np.array(curve["deviations"]),
            color=COLORS[method], marker="o", markersize=3, capsize=2, label=method,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.grid(alpha=0.25)
    counted = ("stored entries read", "values read, a row as d and a column as n")[column]
    axes.set_xlabel(counted)
    axes.set_title(f"{task.case.label}".replace("\n", " "), fontsize=9)


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, grid = plt.subplots(2, len(SETS), figsize=(11, 8), layout="constrained")
    numbers = {"columns": ["stored", "full", "test_error"], "steps": STEPS, "sets": {}}
    for k, name in enumerate(SETS):
        task = Task(problem(name))
        found = measure(task)
        for column in range(2):
            draw(grid[column, k], task, found, column)
        level = 1.1 * min(curve["means"][-1][2] for curve in found.values())
        numbers["sets"][name] = {
            "shape": [task.n_rows, task.n_columns],
            "error_reached": level,
            "read_until_then": {
                method: [values_to(curve["means"], column, level) for column in range(2)]
                for method, curve in found.items()
            },
            **found,
        }
        print(name, numbers["sets"][name]["read_until_then"], flush=True)
        grid[0, k].set_ylabel("test error, %")
        grid[1, k].set_ylabel("test error, %")
    grid[0, 0].legend()
    write(figure, numbers, arguments.output, "simba")


if __name__ == "__main__":
    main()
