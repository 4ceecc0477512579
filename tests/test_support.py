"""Fewer support vectors: the projection, its distance, its choice."""

import numpy as np
import pytest

from sublinear._support import project


def problem(n=80, n_models=2, gamma=0.3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    return K, random.normal(size=(n_models, n))


def run(K, coefficients, size):
    return project(lambda rows: K[rows], K.diagonal(), coefficients, size)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("size", [1, 5, 40])
def test_it_is_the_projection(size, n_models):
    K, coefficients = problem(n_models=n_models)
    found = run(K, coefficients, size)
    S = found.chosen
    assert len(S) == size and (np.diff(S) > 0).all()
    best = np.linalg.lstsq(K[np.ix_(S, S)], (coefficients @ K)[:, S].T, rcond=None)[0].T
    np.testing.assert_allclose(found.coefficients @ K[S], best @ K[S], atol=1e-6)
    error = coefficients.copy()
    error[:, S] -= found.coefficients
    np.testing.assert_allclose(
        found.squared_distances, np.einsum("ki,ij,kj->k", error, K, error), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        found.squared_norms, np.einsum("ki,ij,kj->k", coefficients, K, coefficients)
    )


def test_one_more_comes_nearer_and_the_choice_beats_chance():
    K, coefficients = problem()
    total = [run(K, coefficients, size).squared_distances.sum() for size in (5, 10, 20, 40)]
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
    found = run(K, coefficients, 30)
    assert len(set(found.chosen % 10)) == len(found.chosen) <= 10
    assert found.squared_distances.max() < 1e-6 * found.squared_norms.max()


def test_a_model_of_zeros():
    K, coefficients = problem()
    found = run(K, 0 * coefficients, 10)
    assert len(found.chosen) == 0 and found.coefficients.shape == (2, 0)
    assert (found.squared_distances == 0).all()
