"""Fewer support vectors: the projection, its distance, its choice."""

import numpy as np
import pytest

from sublinear import KernelPegasosClassifier, KernelSDCAClassifier
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_rows import PrecomputedRows
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._kernel_machines.support import best_on_span, nearest_span


def problem(n=80, n_models=2, gamma=0.3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    return K, random.normal(size=(n_models, n))


def run(K, coefficients, size):
    """Return what is chosen, and the squared distances of the models to its span."""
    S = nearest_span(lambda rows: K[rows], K.diagonal(), coefficients, size)
    rest = coefficients.copy()
    rest[:, S] -= np.linalg.lstsq(K[np.ix_(S, S)], (coefficients @ K)[:, S].T, rcond=None)[0].T
    return S, np.einsum("ki,ij,kj->k", rest, K, rest)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_choice_is_the_one_that_gains_most(size, n_models):
    K, coefficients = problem(n=30, n_models=n_models)
    best = []
    for _ in range(size):
        squares = []
        for j in range(30):
            S = [*best, j]
            images = (coefficients @ K)[:, S]
            solved = np.linalg.lstsq(K[np.ix_(S, S)], images.T, rcond=None)[0]
            squares.append(0.0 if j in best else np.sum(images.T * solved))
        best.append(int(np.argmax(squares)))
    chosen, distances = run(K, coefficients, size)
    norms = np.einsum("ki,ij,kj->k", coefficients, K, coefficients)
    # one that is nearly the best may be taken in its place
    assert norms.sum() - distances.sum() >= 0.8 * max(squares)
    if size == 1:
        assert abs(max(squares) - (norms.sum() - distances.sum())) < 1e-9 * norms.sum()
    assert len(chosen) == size and (np.diff(chosen) > 0).all()


def test_one_more_comes_nearer_and_the_choice_beats_chance():
    K, coefficients = problem()
    total = [run(K, coefficients, size)[1].sum() for size in (5, 10, 20, 40)]
    assert np.all(np.diff(total) < 0)
    random, by_chance = np.random.default_rng(0), []
    for _ in range(20):
        S = random.permutation(80)[:20]
        images = (coefficients @ K)[:, S]
        kept = np.einsum("ki,ki->", images, np.linalg.solve(K[np.ix_(S, S)], images.T).T)
        by_chance.append(np.einsum("ki,ij,kj->", coefficients, K, coefficients) - kept)
    assert total[2] < min(by_chance)


def test_equal_vectors_are_chosen_once():
    K, coefficients = problem(n=10)
    K, coefficients = np.tile(K, (3, 3)), np.tile(coefficients, 3)
    chosen, distances = run(K, coefficients, 30)
    assert len(set(chosen % 10)) == len(chosen) <= 10
    assert distances.max() < 1e-6 * np.einsum("ki,ij,kj->k", coefficients, K, coefficients).max()


def test_a_model_of_zeros():
    K, coefficients = problem()
    assert len(run(K, 0 * coefficients, 10)[0]) == 0


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_no_other_coefficients_are_better(name, intercept):
    K, _ = problem()
    random = np.random.default_rng(1)
    y = np.where(K @ random.normal(size=80) > 0, 1.0, -1.0)
    objective = KernelObjective(
        PrecomputedRows(K),
        y,
        MARGIN_LOSSES[name].loss(),
        random.uniform(0.5, 2.0, 80),
        shift=0.25 if intercept == "penalised" else 0.0,
        free_intercept=intercept == "free",
    )
    S = np.arange(3, 80, 8)
    best, margins = best_on_span(objective, S, 1e-5)
    np.testing.assert_allclose(margins, K[S].T @ best + objective.shift * best.sum(), rtol=1e-9)

    def primal(values):
        coefficients = np.zeros(80)
        coefficients[S] = values
        margins = K @ coefficients + objective.shift * values.sum()
        return objective.values(coefficients, margins, objective.best_intercept(margins))[0]

    least = primal(best)
    assert least < primal(np.zeros(len(S)))
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            other = best * (1 + scale * random.normal(size=len(S)))
            assert least <= primal(other) * (1 + 1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of Pegasos
@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_a_span_that_holds_the_optimum_gives_it_with_a_large_C(loss, make):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = X[:, 0] + 0.5 * random.normal(size=200) > 0
    options = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 1.0, "C": 1e4}
    best = KernelSDCAClassifier(loss, **options, tol=1e-5).fit(X, y)
    options |= {"max_iter": 20, "max_support": 10}  # the kernel has rank 6
    small = make(loss, **options, tol=1e-3, random_state=0).fit(X, y)
    assert len(small.support_) <= 10
    assert small.result_.primal <= best.result_.primal * (1 + 1e-3)
