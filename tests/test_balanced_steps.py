"""Steps of all examples from the intercept at which their duals balance."""

import numpy as np
import pytest
from scipy import sparse

from sublinear import SDCARegressor
from sublinear._core.balanced_steps import balanced_steps
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES

LOSSES = MARGIN_LOSSES | REGRESSION_LOSSES
BOUNDED = ["huber", "absolute", "epsilon_insensitive"]
FREE = {"penalize_intercept": False, "alpha": 1e-2, "random_state": 0}


def examples(name, size=500, seed=0):
    """Return a loss, and duals, predictions, targets, curvatures and weights for it."""
    random = np.random.default_rng(seed)
    loss = LOSSES[name].loss()
    targets = random.normal(5, 3, size)
    if name in MARGIN_LOSSES:
        targets = np.where(random.random(size) < 0.8, 1.0, -1.0)
    predictions = random.normal(size=size)
    duals = loss.nearest_duals(random.normal(size=size), targets)
    curvatures, weights = random.random(size) + 1e-3, random.integers(0, 3, size).astype(float)
    return loss, duals, predictions, targets, curvatures, weights


@pytest.mark.parametrize("first", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("size", [500, 10_000])
@pytest.mark.parametrize("name", LOSSES)
def test_duals_balance_and_belong_to_the_shift(name, size, first):
    loss, *arrays = examples(name, size)
    duals, predictions, targets, curvatures, weights = arrays
    found, shift = balanced_steps(loss, *arrays, first)
    assert abs(weights @ found) <= 1e-9 * (weights @ np.abs(found))
    np.testing.assert_allclose(found, loss.nearest_duals(found, targets), rtol=1e-12, atol=1e-12)
    steps = loss.dual_steps(duals, predictions + shift, targets, curvatures)
    assert weights @ np.abs(found - steps) <= 0.02 * (weights @ np.abs(found))


@pytest.mark.parametrize("name", BOUNDED)
def test_few_examples_balance_where_all_are_at_their_bounds(name):
    loss = LOSSES[name].loss()
    targets = 1e5 * np.random.default_rng(0).normal(size=1001)
    predictions, ones = np.full(1001, 2e3), np.ones(1001)
    duals = loss.nearest_duals(9 * np.sign(targets - 2e3), targets)
    found, shift = balanced_steps(loss, duals, predictions, targets, 0.1 * ones, ones, 1.0)
    assert abs(2e3 + shift - np.median(targets)) < 1e3
    moved = np.abs(targets[np.abs(found - duals) > 1e-9])
    assert 0 < len(moved) < 50 and moved.max() < 1e4


def test_where_no_shift_balances_there_is_none():
    loss, *arrays = examples("squared")
    arrays[1][0] = np.nan
    assert balanced_steps(loss, *arrays, 1.0) == (None, None)


@pytest.fixture(scope="module")
def large():
    """Targets of large scale; more rows than those whose median the intercept begins with."""
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 5)) + 1
    return X, 1e5 * (X[:, 0] + random.standard_t(3, size=6000)) + 1e6


@pytest.mark.parametrize("second_order", ["auto", False])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("name", BOUNDED)
def test_intercepts_for_large_targets_take_few_epochs(name, tol, second_order, large):
    X, y = large
    model = SDCARegressor(name, tol=tol, second_order=second_order, max_iter=30, **FREE)
    result = model.fit(X, y).result_
    assert result.status == "converged" and result.n_iter <= 30
    again = model.set_params(n_jobs=2).fit(X, y).result_
    assert (again.primal, again.dual, again.n_iter) == (result.primal, result.dual, result.n_iter)


@pytest.mark.parametrize("pack", [False, True])
def test_storage_and_repetitions_do_not_matter(pack, large):
    X, y = large
    weights = np.random.default_rng(1).integers(0, 3, size=len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    model = SDCARegressor("huber", tol=1e-6, max_iter=30, **FREE)
    repeated = model.fit(X[rows], y[rows]).result_
    sparse_model = model.set_params(pack=pack).fit(sparse.csr_array(X), y, weights)
    weighted = sparse_model.result_
    assert repeated.status == weighted.status == "converged"
    assert abs(weighted.primal - repeated.primal) <= weighted.gap + repeated.gap + 1e-9 * y.max()
