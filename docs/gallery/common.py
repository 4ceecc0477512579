"""What the gallery's scripts share: data sets, solvers, checkpoints, files."""

import argparse
import importlib.util
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sublinear import SDCAClassifier, spectral_norm_squared
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._solvers.minibatch_sdca import MiniBatchSDCA
from sublinear._solvers.pegasos import Pegasos
from sublinear.datasets import make_sparse_classification
from sublinear.theory import safe_beta

METHODS = ("pegasos", "naive", "safe", "aggressive")
LABELS = {
    "pegasos": "Pegasos",
    "naive": "naive SDCA",
    "safe": "safe SDCA",
    "aggressive": "aggressive SDCA",
}
# readable in print and by colour-blind eyes
COLORS = {"pegasos": "#0072b2", "naive": "#d55e00", "safe": "#009e73", "aggressive": "#cc79a7"}
MARKERS = {"pegasos": "s", "naive": "x", "safe": "o", "aggressive": "D"}
SIGMA_MARGIN = 1.01  # the Lanczos method approaches sigma^2 from below


@dataclass(frozen=True)
class Source:
    """What a data set is called in figures, its lambda, and what takes its place."""

    label: str
    alpha: float
    generated: dict  # arguments of make_sparse_classification, where the data is absent


SOURCES = {
    "covtype": Source(
        "covtype (the paper's cov)",
        1e-5,
        {"n_samples": 20_000, "n_features": 54, "row_entries": 12, "exponent": 0.5},
    ),
    "news20": Source(
        "20 newsgroups, bigrams\n(stand-in for news20)",
        1.25e-4,
        {"n_samples": 6_000, "n_features": 100_000, "row_entries": 200},
    ),
    "news20-uni": Source(
        "20 newsgroups, unigrams\n(stand-in for astro-ph and rcv1)",
        1e-4,
        {"n_samples": 6_000, "n_features": 20_000, "row_entries": 60},
    ),
}


class Problem:
    """A data set with its lambda; hinge loss and no intercept, as in the paper."""

    def __init__(self, name, label, data, alpha, reference_tol):
        self.name, self.label, self.alpha = name, label, alpha
        self.reference_tol = reference_tol
        self.X, self.y, self.X_test, self.y_test = data
        self.n_rows = self.X.shape[0]
        self.objective = Objective(
            Matrix(self.X), np.asarray(self.y, dtype=float), MARGIN_LOSSES["hinge"].loss(), alpha
        )

    @cached_property
    def sigma_squared(self):
        return min(1.0, SIGMA_MARGIN * spectral_norm_squared(self.X))

    def beta(self, batch_size):
        return safe_beta(self.n_rows, batch_size, self.sigma_squared)

    @cached_property
    def _reference_model(self):
        model = SDCAClassifier(
            alpha=self.alpha,
            fit_intercept=False,
            tol=self.reference_tol,
            max_iter=3000,
            random_state=0,
        )
        return model.fit(self.X, self.y)

    @property
    def reference(self):
        """The Result of a long fit: the optimum lies between its dual and its primal value."""
        return self._reference_model.result_

    @property
    def reference_error(self):
        """The test error of the optimum."""
        return self.test_error(self._reference_model.coef_[0])

    def solver(self, method, batch_size, seed=0, average="decaying"):
        """Return a solver for the method, with the paper's sampling and averages.

        `average` is that of dual coordinate ascent; Pegasos has the tail average of Theorem 1.
        """
        random = RandomBits(np.random.SeedSequence(seed))
        if method == "pegasos":
            return Pegasos(
                self.objective, random, batch_size=batch_size, sampling="subsets", average="tail"
            )
        return MiniBatchSDCA(
            self.objective,
            random,
            batch_size=batch_size,
            rule=method,
            beta=self.beta(batch_size),
            sampling="subsets",
            average=average,
        )

    def model(self, solver):
        """Return the weights that the solver would return now."""
        if isinstance(solver, Pegasos):
            return solver.model()
        return self.objective.weights_of_dual(solver.duals())

    def advance(self, solver, batch_size, steps):
        """Let the solver make steps until it has made `steps` of them, or a few more."""
        entries = batch_size * self.X.nnz / self.n_rows
        slack = 1.0
        while solver.n_steps < steps:
            before = solver.n_steps
            budget = max(1.0, (steps - before) * entries) * slack
            solver.advance(solver.accesses + int(budget))
            slack = 2 * slack if solver.n_steps == before else 1.0

    def test_error(self, w):
        return float(np.mean((self.X_test @ w > 0) != (self.y_test > 0)))

    def description(self):
        """What JSON files say about the problem."""
        return {
            "label": self.label.replace("\n", " "),
            "shape": list(self.X.shape),
            "stored": int(self.X.nnz),
            "alpha": self.alpha,
            "sigma_squared": self.sigma_squared,
            "least_primal": self.reference.primal,
            "dual_bound": self.reference.dual,
        }


def problem(name, alpha=None, reference_tol=1e-7):
    """Return the named problem from the folder SUBLINEAR_DATA, else a generated one."""
    source = SOURCES[name]
    alpha = alpha or source.alpha
    folder = os.environ.get("SUBLINEAR_DATA")
    if folder:
        return Problem(name, source.label, real_data(name), alpha, reference_tol)
    X, y = make_sparse_classification(random_state=0, **source.generated)
    n = X.shape[0] * 4 // 5
    data = X[:n], y[:n], X[n:], y[n:]
    return Problem(name, f"generated data\nin place of {name}", data, alpha, reference_tol)


def follow_pegasos(problem, steps, batch_size=1, seed=0, **options):
    """Return rows of (steps, objective, test loss, test error) of the last iterate on the way."""
    random = RandomBits(np.random.SeedSequence(seed))
    solver = Pegasos(problem.objective, random, batch_size=batch_size, **options)
    rows = []
    for count in steps:
        problem.advance(solver, batch_size, count)
        w = solver.model()
        loss = np.mean(np.maximum(0, 1 - problem.y_test * (problem.X_test @ w)))
        values = (problem.objective.primal(w), loss, problem.test_error(w))
        rows.append((solver.n_steps, *(float(f"{value:.6g}") for value in values)))
    return rows


def real_data(name):
    """Return X, y, X_test, y_test of a set in the folder SUBLINEAR_DATA."""
    folder = os.environ.get("SUBLINEAR_DATA")
    if not folder:
        raise SystemExit("this script needs real data: set SUBLINEAR_DATA")
    script = Path(folder) / "load.py"
    spec = importlib.util.spec_from_file_location("data_sets", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(name)


def growing(first, factor=1.15):
    """Yield whole numbers from `first` on that grow by about the factor."""
    while True:
        yield round(first)
        first = max(first * factor, first + 1)


def command_line(description, add_options=None):
    """Read the option that the scripts share, and those that `add_options(parser)` adds."""
    parser = argparse.ArgumentParser(description=description)
    if add_options is not None:
        add_options(parser)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "figures",
        help="folder for the figure and its numbers",
    )
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    return arguments


def plain_ticks(axis):
    """Label a short logarithmic axis 0.2, 0.3, 0.4, not 2 x 10^-1."""
    axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _short_lists_on_one_line(text):
    """Lay out lists of numbers and words, which json.dumps spreads over lines."""
    flat = re.compile(r"\[\s*([^\[\]{}]*?)\s*\]")
    return flat.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def write(figure, numbers, folder, stem, *, uses_data=True, text=None):
    """Write the figure, its numbers and, if there is a text, that: beside and then renamed."""
    if uses_data and not os.environ.get("SUBLINEAR_DATA"):
        stem += "-generated"  # the figures in the docs show real data
    beside = folder / f"{stem}.part"
    figure.savefig(beside, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
    os.replace(beside, folder / f"{stem}.png")
    texts = {"json": _short_lists_on_one_line(json.dumps(numbers, indent=1)), "md": text}
    for suffix, content in texts.items():
        if content is not None:
            beside.write_text(content, encoding="utf-8")
            os.replace(beside, folder / f"{stem}.{suffix}")
    print("wrote", folder / f"{stem}.png")
