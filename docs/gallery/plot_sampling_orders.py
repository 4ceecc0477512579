"""Primal suboptimality of Pegasos by the order in which it sees the examples.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Figure 8: independent draws, one permutation, a new
one for every epoch. Single steps, last iterate; geometric means over seeds.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, follow_pegasos, problem, write

ALPHA = 5e-5  # the paper's for astro-ph
EPOCHS = 30
SEEDS = 5
ORDERS = {
    "replacement": ("independent draws", "#0072b2", "-"),
    "fixed": ("one permutation", "#d55e00", "-"),
    "shuffle": ("a new permutation every epoch", "#009e73", "--"),
}


def main():
    arguments = command_line(__doc__.splitlines()[0])
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    numbers = {"columns": ["epochs", "suboptimality"], "seeds": SEEDS, "problems": {}}
    for axes, name, alpha in zip(panels, ("news20-uni", "covtype"), (ALPHA, 1e-5), strict=True):
        case = problem(name, alpha=alpha, reference_tol=1e-5)
        n = case.n_rows
        epochs = EPOCHS if name == "news20-uni" else EPOCHS // 6
        curves = {}
        for order, (label, color, line) in ORDERS.items():
            steps = [round(n * epochs * 1.25**-k) for k in range(24)][::-1]
            runs = [follow_pegasos(case, steps, seed=seed, sampling=order) for seed in range(SEEDS)]
            above = np.array([[row[1] for row in rows] for rows in runs]) - case.reference.dual
            means = np.exp(np.log(above).mean(axis=0))
            curves[order] = [
                (row[0] / n, float(f"{mean:.6g}")) for row, mean in zip(runs[0], means, strict=True)
            ]
            axes.loglog(*zip(*curves[order], strict=True), line, color=color, label=label)
            print(name, order, curves[order][-1], flush=True)
        numbers["problems"][name] = {**case.description(), "curves": curves}
        axes.set_title(f"{case.label}\n$\\lambda$ = {case.alpha:g}", fontsize=10)
        axes.set_xlabel("epochs")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("primal suboptimality")
    panels[0].legend()
    write(figure, numbers, arguments.output, "sampling_orders")


if __name__ == "__main__":
    main()
