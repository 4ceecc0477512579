"""Primal suboptimality of Pegasos by batch size k, for equal numbers kT of examples looked at.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Figure 7: independent subsets, last iterate.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, follow_pegasos, problem, write

ALPHA = 5e-5  # the paper's for astro-ph
SIZES = [2**k for k in range(0, 13, 2)]
SHOWN = (1, 256, 1024, 4096)  # on the right
BUDGETS = [2**k for k in range(14, 21)]
LEFT = (2**14, 2**17, 2**20)
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SEEDS = 3


def main():
    arguments = command_line(__doc__.splitlines()[0])
    case = problem("news20-uni", alpha=ALPHA, reference_tol=1e-5)
    above = {}
    for k in SIZES:
        sizes = [max(1, budget // k) for budget in BUDGETS]
        runs = [
            follow_pegasos(case, sizes, k, seed=seed, sampling="subsets") for seed in range(SEEDS)
        ]
        values = np.array([[row[1] for row in rows] for rows in runs]) - case.reference.dual
        above[k] = [float(f"{value:.6g}") for value in np.exp(np.log(values).mean(axis=0))]
        print(k, above[k], flush=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for budget, color, marker in zip(LEFT, COLORS, "osD", strict=False):
        points = [above[k][BUDGETS.index(budget)] for k in SIZES]
        label = f"$kT = 2^{{{budget.bit_length() - 1}}}$"
        left.loglog(SIZES, points, color=color, marker=marker, label=label)
    for k, color, marker in zip(SHOWN, COLORS, "osD^", strict=True):
        size = 10 if k == SHOWN[0] else 5  # curves of small batches lie on one another
        style = {"color": color, "marker": marker, "markersize": size}
        right.loglog(BUDGETS, above[k], label=f"$k = {k}$", **style)
    left.set_xlabel("batch size $k$")
    right.set_xlabel("examples looked at, $kT$")
    left.set_ylabel("primal suboptimality")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.25)
        axes.legend()
    figure.suptitle(f"{case.label}, $\\lambda$ = {case.alpha:g}".replace("\n", " "), fontsize=10)
    numbers = {**case.description(), "budgets": BUDGETS, "seeds": SEEDS, "suboptimality": above}
    write(figure, numbers, arguments.output, "batch_size_of_pegasos")


if __name__ == "__main__":
    main()
