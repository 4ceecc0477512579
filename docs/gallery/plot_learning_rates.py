"""Objective and test loss of Pegasos, NORMA and constant step sizes over the steps.

Shalev-Shwartz, Singer, Srebro, Cotter (2011), Figure 9: single steps by independent draws, the last
iterate; Pegasos and NORMA with projection. NORMA's p is the best of its theorem, sqrt(1/2).
"""

import matplotlib.pyplot as plt
import numpy as np
from common import command_line, follow_pegasos, plain_ticks, problem, write

ALPHA = 2e-4  # the paper's
STEPS = [round(10 ** (2 + k / 6)) for k in range(25)]
CONSTANTS = (0.001, 0.01, 0.1, 1.0, 10.0)


def main():
    arguments = command_line(__doc__.splitlines()[0])
    case = problem("news20-uni", alpha=ALPHA, reference_tol=1e-5)
    methods = {"Pegasos": {"projection": True}}
    methods["NORMA"] = {"projection": True, "learning_rate": "norma", "eta0": np.sqrt(0.5)}
    for eta in CONSTANTS:
        methods[f"constant {eta:g}"] = {"learning_rate": "constant", "eta0": eta}
    curves = {}
    for label, options in methods.items():
        curves[label] = follow_pegasos(case, STEPS, sampling="replacement", **options)
        print(label, curves[label][-1], flush=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
    for label, color in (("Pegasos", "#0072b2"), ("NORMA", "#d55e00")):
        steps, primals, losses, _ = zip(*curves[label], strict=True)
        left.loglog(steps, primals, color=color, label=f"{label}, objective")
        left.loglog(steps, losses, "--", color=color, label=f"{label}, test loss")
    shades = plt.get_cmap("viridis")(np.linspace(0.1, 0.9, len(CONSTANTS)))
    right.loglog(*zip(*[row[:2] for row in curves["Pegasos"]], strict=True), "k", label="Pegasos")
    for eta, shade in zip(CONSTANTS, shades, strict=True):
        points = [row[:2] for row in curves[f"constant {eta:g}"]]
        right.loglog(*zip(*points, strict=True), color=shade, label=f"$\\eta = {eta:g}$")
    for axes in (left, right):
        axes.axhline(case.reference.primal, color="0.6", linestyle=":", linewidth=1)
        axes.set_xlabel("steps")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8)
    plain_ticks(left.yaxis)
    left.set_ylabel("objective, test loss")
    left.set_title("Pegasos and NORMA  (dotted: the optimum)", fontsize=10)
    right.set_title(r"objective, Pegasos and constant steps $\eta$", fontsize=10)
    figure.suptitle(f"{case.label}, $\\lambda$ = {case.alpha:g}".replace("\n", " "), fontsize=10)
    columns = ["steps", "objective", "test_loss", "test_error"]
    numbers = {**case.description(), "columns": columns, "curves": curves}
    write(figure, numbers, arguments.output, "learning_rates")


if __name__ == "__main__":
    main()
