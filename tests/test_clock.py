"""How long a slice of a fit is depends on the clock; what comes out does not."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    L2SVMClassifier,
    MinimumEnclosingBall,
    PegasosClassifier,
    SDCAClassifier,
    SIMBAClassifier,
    SublinearPerceptron,
    _drive,
)

CASES = [
    SDCAClassifier(tol=0, max_iter=30),
    SDCAClassifier(tol=0, max_iter=30, batch_size=8),
    PegasosClassifier(max_iter=20, average="tail"),
    PegasosClassifier(max_iter=20, multi_class="joint"),
    KernelSDCAClassifier(tol=1e-6),
    KernelPegasosClassifier(max_iter=10),
    SublinearPerceptron(1e-6, variant="plain", max_iter=3001),
    SublinearPerceptron(1e-6, variant="plain", max_iter=3001, batch_size=1),
    SublinearPerceptron(1e-6, max_iter=3001),
    SublinearPerceptron(1e-4, max_iter=500, kernel="rbf"),
    L2SVMClassifier(epsilon=1e-6, max_iter=3001),
    SIMBAClassifier(0.1, epsilon=1e-4, max_iter=3001),
    MinimumEnclosingBall(1e-9, variant="plain", max_iter=3001),
    MinimumEnclosingBall(1e-9, variant="variance_reduced", max_iter=50),
]


class Leaps:
    """A clock that advances by 10 microseconds, a millisecond or a fifth of a second at a look."""

    def __init__(self, seed):
        self.random, self.seconds = np.random.default_rng(seed), 0.0

    def perf_counter(self):
        self.seconds += self.random.choice([1e-5, 1e-3, 0.2])
        return self.seconds


def fitted(model, X, y):
    model.set_params(random_state=0).fit(X, y)
    numbers = [model.result_.n_iter, model.result_.accesses, model.result_.primal]
    return np.array(numbers), model.decision_function(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", CASES, ids=lambda model: str(model)[:80])
def test_the_clock_decides_nothing(model, monkeypatch):
    X, y = make_classification(120, 8, flip_y=0.1, random_state=0)
    expected = fitted(model, X, y)
    for seed in range(4):
        monkeypatch.setattr(_drive, "time", Leaps(seed))
        for found, known in zip(fitted(model, X, y), expected, strict=True):
            np.testing.assert_array_equal(found, known)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("batch_size", [1, 16])
def test_max_iter_is_a_number_of_draws(batch_size):
    """Rounds double, the last one ends with the last whole batch within max_iter."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = MinimumEnclosingBall(
        1e-9, variant="plain", max_iter=3001, batch_size=batch_size, random_state=0
    ).fit(X)
    assert model.result_.status == "max_iter"
    assert model.result_.n_iter == 3001 // batch_size * batch_size
