"""The generic primal-dual method, and the sublinear methods in the space of a kernel."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sublinear import MinimumEnclosingBall, SublinearPerceptron, solve_primal_dual
from sublinear.datasets import make_planted_margin
from sublinear.primal_dual import BallStep, L1Sampler, L2Sampler, Sampler, SimplexStep

STEPS = 2000


class OwnSampler(Sampler):
    """L2Sampler in NumPy: what a user's own block costs."""

    def __init__(self, A):
        self.A, self.n_rows = A, len(A)
        self.scale = float(np.linalg.norm(A, axis=1).max())

    def sample(self, x, random):
        chances = np.cumsum(x * x)
        if chances[-1] == 0:
            return np.zeros(self.n_rows)
        j = min(np.searchsorted(chances, random.random() * chances[-1]), len(x) - 1)
        return self.A[:, j] * (chances[-1] / x[j])


class Generic:
    """Steps of the generic method over 1024 x 1024 values, without certificates."""

    blocks = {
        "ball, compiled": lambda A: (BallStep(A, row_norm=1.0), L2Sampler(A, scale=1.0)),
        "simplex, compiled": lambda A: (SimplexStep(A, largest=1.0), L1Sampler(A, scale=1.0)),
        "ball, own sampler": lambda A: (BallStep(A, row_norm=1.0), OwnSampler(A)),
    }
    params = list(blocks)
    param_names = ["blocks"]

    def setup(self, blocks):
        data = make_planted_margin(1024, 1024, margin=0.1, random_state=0)
        self.given = self.blocks[blocks](data.X * data.y[:, None])

    def time_steps(self, blocks):
        solve_primal_dual(*self.given, certify=None, max_iter=STEPS, random_state=0)


class Kernels:
    """Steps of section VI, by exact kernel rows and by estimates from single columns."""

    models = {"perceptron": SublinearPerceptron, "ball": MinimumEnclosingBall}
    params = [list(models), ["rbf", "poly"], ["exact", "sampled"]]
    param_names = ["problem", "kernel", "kernel values"]
    timeout = 120

    def setup(self, problem, kernel, values):
        data = make_planted_margin(1000, 200, margin=0.2, random_state=0)
        self.data = (data.X, data.y) if problem == "perceptron" else (data.X,)
        self.model = self.models[problem](
            0.05,
            variant="plain",
            certify=None,
            max_iter=256,
            kernel=kernel,
            kernel_values=values,
            gamma=1.0,
            degree=2,
            coef0=0.0,
            random_state=0,
        )

    def time_fit(self, problem, kernel, values):
        self._fit()

    def track_values_read(self, problem, kernel, values):
        self._fit()
        return self.model.result_.accesses

    track_values_read.unit = "feature values"

    def _fit(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.fit(*self.data)
