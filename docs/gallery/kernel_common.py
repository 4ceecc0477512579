"""What the gallery's scripts on kernel machines share: data sets, solvers, values of models."""

import os
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from common import real_data
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernels import KERNELS
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.random import RandomBits
from sublinear._solvers.kernel_pegasos import KernelPegasos
from sublinear._solvers.kernel_sdca import KernelSDCA

UNLIMITED = 2**62
LABELS = {"pegasos": "Pegasos", "sdca": "SDCA (blocks)", "svc": "SVC (libsvm)"}
COLORS = {"pegasos": "#0072b2", "sdca": "#009e73", "svc": "#d55e00"}
MARKERS = {"pegasos": "s", "sdca": "o", "svc": "x"}


@dataclass(frozen=True)
class Source:
    """A data set of the paper: gamma, lambda, the suboptimality of its Table 2, our blocks."""

    label: str
    gamma: float
    alpha: float
    target: float
    block_size: int


SOURCES = {
    "adult": Source("Adult", 0.05, 3.07e-5, 0.0445, 2048),
    "mnist8": Source("MNIST, 8 against the rest", 0.02, 1.67e-5, 0.00144, 4096),
}


class KernelProblem:
    """A data set with a Gaussian kernel and the hinge loss, as in the paper: no intercept.

    Values of objectives are those of the paper, lambda / 2 |w|^2 + mean loss.
    """

    def __init__(self, source, data, alpha=None):
        self.source, self.alpha = source, source.alpha if alpha is None else alpha
        self.X, self.y, self.X_test, self.y_test = data
        self.n = self.X.shape[0]
        self.kernel = KERNELS["rbf"](source.gamma)

    @cached_property
    def rows(self):
        return kernel_rows(self.kernel, self.X)

    @cached_property
    def test_rows(self):
        return kernel_rows(self.kernel, self.X, self.X_test)

    @property
    def C(self):
        return 1 / (self.alpha * self.n)

    def objective(self, free_intercept=False):
        return KernelObjective(
            self.rows,
            self.y,
            MARGIN_LOSSES["hinge"].loss(),
            np.full(self.n, self.C),
            free_intercept=free_intercept,
        )

    def solver(self, method, *, free_intercept=False, seed=0):
        random = RandomBits(np.random.SeedSequence(seed))
        objective = self.objective(free_intercept)
        if method == "pegasos":
            return KernelPegasos(objective, random, sampling="replacement")
        return KernelSDCA(
            objective,
            random,
            block_size=self.source.block_size,
        )

    def svc(self, **options):
        return SVC(kernel="rbf", gamma=self.source.gamma, C=self.C, **options)

    def optimum(self, *, free_intercept=False, tol=1e-5, rounds=400):
        """Return (primal, dual) of a long run: the optimum is between them."""
        solver = self.solver("sdca", free_intercept=free_intercept)
        before = -1
        while solver.estimated_gap > tol and solver.n_iter < rounds and solver.accesses > before:
            before = solver.accesses
            solver.advance(UNLIMITED)
        _, primal, dual = solver.certify(lambda model: model)
        return primal * self.alpha, dual * self.alpha

    def primal(self, coefficients, margins, intercept=0.0):
        """Return the objective of coefficients whose margins are known."""
        value, _ = self.objective().values(coefficients, margins + intercept, 0.0)
        # `values` takes the norm from the margins, to which the intercept was added
        return self.alpha * (value - intercept * coefficients.sum() / 2)

    def margins(self, coefficients, rows):
        support = np.flatnonzero(coefficients)
        margins = np.zeros((1, rows.n_columns))
        rows.add_product(support, coefficients[np.newaxis, support], margins)
        return margins[0]

    def test_error(self, coefficients, intercept=0.0):
        scores = self.margins(coefficients, self.test_rows) + intercept
        return float(np.mean((scores > 0) != (self.y_test > 0)))


def kernel_data(name):
    """Return the named set from the folder SUBLINEAR_DATA, else generated rows."""
    if os.environ.get("SUBLINEAR_DATA"):
        data = real_data(name)
        for part in data[::2]:
            if sp.issparse(part):  # SVC takes no others
                part.indices = part.indices.astype(np.int32, copy=False)
                part.indptr = part.indptr.astype(np.int32, copy=False)
        return data
    X, y = make_classification(4000, 20, n_informative=8, flip_y=0.1, random_state=0)
    X, y = X / 10, np.where(y, 1.0, -1.0)
    return X[:3000], y[:3000], X[3000:], y[3000:]


def timed(function, *arguments):
    """Return what the function returns, and processor seconds: everything here has one thread."""
    started = time.process_time()
    return function(*arguments), time.process_time() - started
