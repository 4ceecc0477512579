"""Suboptimality after fixed numbers of kernel values, for values of lambda: Pegasos and SDCA.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Figure 6, on other data: USPS was not at hand.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
from common import command_line, write
from kernel_common import LABELS, SOURCES, KernelProblem, kernel_data

ROWS = 4000
ALPHAS = tuple(10.0**-k for k in range(2, 8))
BUDGETS = (2 * 10**7, 10**8, 5 * 10**8)  # kernel values; all pairs of rows are 1.6e7
BLOCK = 1024  # fewer than the rows, so that a small budget suffices for a few rounds
COLORS = ("#56b4e9", "#0072b2", "#000000")
STYLES = {"pegasos": "-", "sdca": "--"}


def suboptimalities(problem, method, lower):
    """Return the suboptimality after each of the budgets."""
    solver, found = problem.solver(method), []
    for budget in BUDGETS:
        before = -1
        while solver.advance(budget) and solver.accesses > before:  # else there is nothing to gain
            before = solver.accesses
        _, primal, _ = solver.certify(lambda model: model)
        found.append(max(0.0, float(primal) * problem.alpha - lower))
    return found


def main():
    arguments = command_line(__doc__.splitlines()[0])
    data = kernel_data("mnist8")
    data = tuple(part[:ROWS] for part in data)
    source = replace(SOURCES["mnist8"], block_size=BLOCK)
    numbers = {"rows": len(data[1]), "gamma": source.gamma, "budgets": BUDGETS, "alphas": {}}
    for alpha in ALPHAS:
        problem = KernelProblem(source, data, alpha)
        primal, lower = problem.optimum(tol=1e-6)
        numbers["alphas"][alpha] = {
            "optimum": [lower, primal],
            **{method: suboptimalities(problem, method, lower) for method in STYLES},
        }
        print(alpha, numbers["alphas"][alpha], flush=True)
    write(drawn(numbers), numbers, arguments.output, "kernel_regularisation")


def drawn(numbers):
    figure, axes = plt.subplots(figsize=(9.5, 4.5), layout="constrained")
    for method, style in STYLES.items():
        for k, (budget, color) in enumerate(zip(BUDGETS, COLORS, strict=True)):
            values = [max(one[method][k], 1e-9) for one in numbers["alphas"].values()]
            label = f"{LABELS[method]}, {budget:.0e} kernel values"
            size = 9 - 2.5 * k  # points may lie on one another
            axes.loglog(
                ALPHAS, values, style, color=color, marker="o", markersize=size, label=label
            )
    axes.set_title(f"MNIST, 8 against the rest, {numbers['rows']} rows", fontsize=10)
    axes.set_xlabel(r"$\lambda$")
    axes.set_ylabel("primal suboptimality  (less than 1e-9: 1e-9)")
    axes.grid(alpha=0.25)
    figure.legend(fontsize=8, loc="outside right upper", handlelength=4)
    return figure


if __name__ == "__main__":
    main()
