"""Two identical examples: the naive rule goes to and fro, the others reach the optimum.

Takac, Bijral, Richtarik, Srebro (2013), section 4.1: n = b = 2, lambda = 1 / n.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import COLORS, LABELS, MARKERS, command_line, write

from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._solvers.minibatch_sdca import MiniBatchSDCA
from sublinear.theory import safe_beta

ITERATIONS = 10
OPTIMUM = 0.25


def run(rule):
    """Return the duals and the primal and dual value after every iteration."""
    objective = Objective(
        Matrix(np.ones((2, 1))), np.ones(2), MARGIN_LOSSES["hinge"].loss(), alpha=0.5
    )
    random = RandomBits(np.random.SeedSequence(0))
    beta = safe_beta(2, 2, sigma_squared=1.0)
    solver = MiniBatchSDCA(objective, random, batch_size=2, rule=rule, beta=beta)
    rows = []
    for _ in range(ITERATIONS + 1):
        _, primal, dual = solver.certify(np.copy)
        rows.append({"duals": solver.duals().tolist(), "primal": primal, "dual": dual})
        solver.advance(2**60)  # an epoch is one iteration
    return rows


def main():
    arguments = command_line(__doc__.splitlines()[0])
    rules = ("naive", "safe", "aggressive")
    runs = {rule: run(rule) for rule in rules}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    sizes = {"naive": 8, "safe": 9, "aggressive": 4}
    for rule in rules:
        style = {"color": COLORS[rule], "marker": MARKERS[rule], "markersize": sizes[rule]}
        left.plot([row["duals"][0] for row in runs[rule]], label=LABELS[rule], **style)
        right.plot([row["dual"] for row in runs[rule]], **style)
    left.axhline(0.5, color="0.6", linestyle="--", label="optimum")
    right.axhline(OPTIMUM, color="0.6", linestyle="--")
    left.set_ylabel(r"$\alpha_1 = \alpha_2$")
    right.set_ylabel(r"dual objective $D(\alpha)$")
    for axes in (left, right):
        axes.set_xlabel("iteration")
        axes.set_xticks(range(0, ITERATIONS + 1, 2))
        axes.grid(alpha=0.25)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    numbers = {"alpha": 0.5, "optimum": OPTIMUM, "runs": runs}
    write(figure, numbers, arguments.output, "two_identical_examples", uses_data=False)


if __name__ == "__main__":
    main()
