"""Nanoseconds per step of Pegasos, beside scikit-learn's plain stochastic gradient descent."""

import time

import numpy as np

from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.random import RandomBits
from sublinear._solvers.pegasos import Pegasos

from .problems import make_sparse
from .solvers import sgd, timed_fit

ALPHA = 1e-4
EPOCHS = 3
OPTIONS = {
    "last": {},
    "last, packed": {"pack": True},
    "tail": {"average": "tail"},
    "tail, packed": {"average": "tail", "pack": True},
    "batches of 32": {"batch_size": 32},
}


class Steps:
    """Epochs of single steps over rows that exceed the cache."""

    params = [*OPTIONS, "SGDClassifier"]
    param_names = ["method"]
    unit = "ns per example"
    timeout = 120

    def setup(self, method):
        self.X, self.y = make_sparse(50_000, 50_000, entries_per_row=60)

    def track_step(self, method):
        seconds = self._peer() if method == "SGDClassifier" else self._ours(OPTIONS[method])
        return seconds / (EPOCHS * self.X.shape[0]) * 1e9

    def _ours(self, options):
        loss = MARGIN_LOSSES["hinge"].loss()
        objective = Objective(Matrix(self.X), self.y, loss, ALPHA)
        solver = Pegasos(objective, RandomBits(np.random.SeedSequence(0)), **options)
        started = time.perf_counter()
        while solver.n_iter < EPOCHS:
            solver.advance(2**60)
        return time.perf_counter() - started

    def _peer(self):
        def fit(epochs):
            return timed_fit(sgd(ALPHA, 0, epochs, average=False), self.X, self.y)

        return fit(1 + EPOCHS) - fit(1)


Steps.track_step.unit = Steps.unit
