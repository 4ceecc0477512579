"""Strata: draws in proportion to weights, whatever the order in which examples are stored."""

import numpy as np
import pytest
from reference.orders import systematic
from scipy import sparse
from scipy.stats import chisquare
from stepping import bits

from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS, Order
from sublinear._core.strata import Strata

GOLDEN = (5**0.5 - 1) / 2


def examples(n, seed=0, columns=3):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, columns)), random.choice([-1.0, 1.0], n)


def strata_of(X, y, weights=None, least=1):
    return Strata(Matrix(X), y, weights, least)


def epoch_of(strata, sampling="shuffle", seed=0, epochs=1, n=10**6):
    order = Order(n, sampling, bits(seed), strata=strata)
    return order.take(epochs * strata.count).reshape(epochs, -1)


def test_different_examples_come_once_an_epoch():
    X, y = examples(500)
    strata = strata_of(X, y)
    assert strata.count == 500
    for sampling in ("shuffle", "fixed"):
        for epoch in epoch_of(strata, sampling, epochs=4):
            np.testing.assert_array_equal(np.sort(epoch), np.arange(500))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_whole_weights_are_repetitions(sampling):
    X, y = examples(60)
    weights = np.random.default_rng(1).integers(0, 5, 60)
    permutation = np.random.default_rng(2).permutation(weights.sum())
    copies = np.repeat(np.arange(60), weights)[permutation]
    strata = strata_of(X, y, weights.astype(float))
    repeated = strata_of(X[copies], y[copies])
    assert strata.count == repeated.count == weights.sum()
    orders = [Order(300, sampling, bits(3), 7, strata=s) for s in (strata, repeated)]
    one, other = (order.take(700) for order in orders)
    np.testing.assert_array_equal(one, copies[other])


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
@pytest.mark.parametrize("sampling", ["shuffle", "fixed", "subsets"])
def test_draws_are_those_of_the_oracle(sampling, scale):
    X, y = examples(40)
    weights = np.random.default_rng(5).exponential(size=40) ** 3
    weights[::7] = 0
    strata = strata_of(X, y, scale * weights)
    order, random = Order(40, sampling, bits(), strata.count, strata=strata), bits()
    offset = random.doubles(1)[0]
    for _ in range(5):
        drawn = np.sort(order.take(strata.count))
        expected = strata.items[systematic(weights[strata.items], strata.count, offset)]
        np.testing.assert_array_equal(drawn, np.sort(expected))
        offset = (offset + GOLDEN) % 1


def test_equal_examples_come_as_often_as_others():
    X, y = (values[np.arange(300) // 3 * 2 % 100] for values in examples(100))
    strata = strata_of(X, y, least=80)
    assert strata.count == 80
    counts = np.bincount(epoch_of(strata, epochs=375).ravel(), minlength=300)
    np.testing.assert_allclose(counts, 100, atol=5)


@pytest.mark.parametrize(
    ("weights", "copies", "expected"),
    [
        ([1, 1, 1, 1], 1, 4),
        ([1, 1, 1, 1], 3, 4),
        ([1, 2, 0, 4], 2, 7),
        ([6, 9, 3, 3], 1, 7),
        ([1, 1, 1, 1000], 1, 1003),
        ([1, 1, 1, 1e7], 1, 4 * (2**16 // 4)),
        ([0.5, 1, 1, 2], 1, 9),
        ([0.1, 0.1, 0.1, 0.1], 3, 4),
        ([0.3, 0.1, 0.2, 0.3], 1, 9),
        ([0.5, 0.7, 1, 1], 3, 12),
    ],
)
def test_the_length_of_an_epoch(weights, copies, expected):
    X, y = (np.repeat(values, copies, axis=0) for values in examples(4))
    assert strata_of(X, y, np.repeat(np.array(weights, float), copies)).count == expected


def test_equal_examples_share_masses():
    X, y = np.eye(3)[[0, 1, 0, 2, 0]], np.ones(5)
    masses = np.arange(10.0).reshape(5, 2)
    expected = masses.copy()
    expected[[0, 2, 4]] = masses[[0, 2, 4]].mean(axis=0)
    strata_of(X, y).share(masses, None)
    np.testing.assert_allclose(masses, expected)
    weights = np.array([1.0, 2.0, 3.0, 4.0, 0.0])
    masses[[0, 2]] = [[1.0, 3.0], [7.0, 5.0]]
    strata_of(X, y, weights).share(masses, weights)
    np.testing.assert_allclose(masses[[0, 2]], [[2.0, 2.0], [6.0, 6.0]])


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_draws_are_in_proportion_to_weights(sampling):
    X, y = examples(30)
    weights = np.random.default_rng(5).exponential(size=30)
    order = Order(30, sampling, bits(), 5, strata=strata_of(X, y, weights))
    counts = np.bincount(order.take(30_000), minlength=30)
    shares = weights / weights.sum()
    if sampling == "replacement":
        assert chisquare(counts, 30_000 * shares).pvalue > 1e-3
    elif sampling == "subsets":
        assert chisquare(counts, 30_000 * shares).pvalue > 0.01
    else:  # systematic: within the rounding of a few epochs
        np.testing.assert_allclose(counts, 30_000 * shares, atol=5)


def test_the_line_is_that_of_any_storage():
    X, y = examples(200, columns=8)
    X = X.astype(np.float32)
    X[np.abs(X) < 0.7] = 0
    X[150:] = X[:50]
    csr = sparse.csr_array(X)
    wide = sparse.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)))
    lines = [strata_of(form, y).items for form in (X, X.astype(float), X.copy("F"), csr, wide)]
    for line in lines[1:]:
        np.testing.assert_array_equal(X[line], X[lines[0]])
        np.testing.assert_array_equal(y[line], y[lines[0]])
    permutation = np.random.default_rng(0).permutation(200)
    line = permutation[strata_of(X[permutation], y[permutation]).items]
    np.testing.assert_array_equal(X[line], X[lines[0]])


@pytest.mark.parametrize("least", [1, 2, 5, 12])
def test_equal_examples_share_strata(least):
    X, y = np.zeros((12, 2)), np.repeat([-1.0, 1.0], 6)
    strata = strata_of(X, y, least=least)  # two of the same weight
    assert strata.count == max(2, least)
    for epoch in epoch_of(strata, epochs=3):
        assert abs(np.mean(y[epoch])) <= 1 / strata.count


def test_rows_beyond_range_still_have_places():
    """Their products are infinite, or no numbers."""
    X = 1.5e308 * np.array([[1.0, 1, 1, 1], [-1, 1, -1, 1], [1, -1, 1, -1], [0, 0, 0, 0]])
    strata = strata_of(X, np.ones(4))
    for epoch in epoch_of(strata, epochs=3):
        assert sorted(epoch) == [0, 1, 2, 3]
