"""SumTree: totals after many updates, draws in proportion to the weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sublinear._core.sum_tree import SumTree

SIZES = (1, 2, 63, 64, 65, 4096, 4097)
weight = st.floats(0, 1e6, allow_subnormal=False) | st.just(0.0)


def relative_drift(tree):
    exact = float(np.sum(tree.weights))
    return abs(tree.total - exact) / exact if exact else abs(tree.total)


@pytest.mark.parametrize("size", SIZES)
def test_draw_splits_the_unit_interval(size):
    weights = np.random.default_rng(size).integers(0, 5, size).astype(float)
    weights[-1] = 3
    tree = SumTree(weights)
    assert len(tree) == size
    assert tree.total == weights.sum()
    np.testing.assert_array_equal(tree.weights, weights)
    ends = np.cumsum(weights)
    for i in np.flatnonzero(weights)[:200]:  # the middle of the share of i, and near its ends
        for mass in (ends[i] - weights[i] + 0.001, ends[i] - weights[i] / 2, ends[i] - 0.001):
            assert tree.draw(mass / tree.total) == i


@given(st.lists(weight, min_size=1, max_size=200), st.data())
@settings(deadline=None, derandomize=True)
def test_random_updates(weights, data):
    tree, model = SumTree(weights), np.array(weights)
    for _ in range(data.draw(st.integers(0, 20))):
        i = data.draw(st.integers(0, len(weights) - 1))
        model[i] = data.draw(weight)
        tree.set_weight(i, model[i])
        np.testing.assert_array_equal(tree.weights, model)
        assert relative_drift(tree) < 1e-9
        if model.any():
            assert model[tree.draw(data.draw(st.floats(0, 1, exclude_max=True)))] > 0
        else:
            assert tree.total == 0


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(SIZES), st.floats(0, 8), st.sampled_from([0, 0.3, 1])
)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_a_million_updates(seed, size, spread, zeros):
    """Ten times 10^5: weights of very different sizes, among them huge ones that go away again.

    With `zeros` 1 the weights go to nothing and come back by turns.
    """
    random = np.random.default_rng(seed)
    tree = SumTree(random.random(size))
    count = 100_000
    gone = random.random(count) < zeros
    if zeros == 1:
        gone = np.arange(count) // (2 * size) % 2 == 1
    weights = np.where(gone, 0, np.exp(random.normal(scale=spread, size=count))).tolist()
    indices = random.integers(size, size=count).tolist()
    draws = random.random(count)
    set_weight, held = tree.set_weight, tree.weights
    for step, (i, value) in enumerate(zip(indices, weights, strict=True)):
        set_weight(i, value)
        if step % 1000 == 999:
            assert relative_drift(tree) < 1e-9
            assert not held.any() or held[tree.draw(draws[step])] > 0


def test_weight_zero_is_never_drawn_though_sums_round():
    """Large weights leave rounding errors in the sums above them when they go."""
    random = np.random.default_rng(0)
    tree = SumTree(np.zeros(300))
    tree.set_weight(299, 1e-3)
    for i in random.integers(299, size=20_000).tolist():
        tree.set_weight(i, random.random() * 1e6)
        tree.set_weight(i, 0)
        assert tree.draw(random.random()) == 299
    assert tree.draw(0.0) == tree.draw(np.nextafter(1, 0)) == 299
    assert tree.total == pytest.approx(1e-3, rel=1e-9)


@pytest.mark.parametrize("size", [2, 64, 65, 200])
def test_distribution(size):
    random = np.random.default_rng(17)
    weights = random.integers(0, 6, size) + np.arange(size) % 2
    tree = SumTree(np.ones(size))
    for i in random.permutation(size):
        tree.set_weight(i, weights[i])
    count = 100 * size
    drawn = np.bincount([tree.draw(u) for u in random.random(count)], minlength=size)
    positive = weights > 0
    assert drawn[~positive].sum() == 0
    expected = count * weights / weights.sum()
    assert chisquare(drawn[positive], expected[positive]).pvalue > 1e-3


@pytest.mark.parametrize("size", SIZES)
def test_all_weights_zero(size):
    tree = SumTree(np.zeros(size))
    with pytest.raises(ValueError, match="nothing to draw"):
        tree.draw(0.5)
    tree.set_weight(size - 1, 2)
    assert tree.draw(0.999) == size - 1
    tree.set_weight(size - 1, 0)
    assert tree.total == 0


@pytest.mark.parametrize("weights", [[], [[1.0]], [-1.0], [np.nan], [np.inf]])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="weights must be"):
        SumTree(weights)


def test_bad_updates():
    tree = SumTree([1.0, 2.0])
    for i in (-1, 2):
        with pytest.raises(IndexError):
            tree.set_weight(i, 1)
    for value in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite and not negative"):
            tree.set_weight(0, value)
    with pytest.raises(ValueError, match="read-only"):
        tree.weights[0] = 5


def test_the_given_array_is_copied():
    weights = np.ones(3)
    SumTree(weights).set_weight(0, 5)
    assert weights[0] == 1
