"""Intercepts without penalty begin where targets are: a constant added to y costs nothing."""

import functools

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from sublinear import SDCAClassifier, SDCARegressor, distributed
from sublinear._core.losses import REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.starting_intercept import (
    middle,
    spread_of,
    starting_intercept,
    weighted_quantile,
)
from sublinear.sources import ArraySource

FREE = {"penalize_intercept": False, "alpha": 1e-2, "random_state": 0}


def in_memory(model, X, y, weight=None):
    return model.fit(X, y, weight)


def over_blocks(model, X, y, weight=None):
    return model.fit_stream(ArraySource(X, y, weight, block_rows=120))


def in_partitions(model, X, y, weight=None):
    names = model.get_params().keys() & distributed.SDCARegressor().get_params().keys()
    parameters = {name: getattr(model, name) for name in names}
    return distributed.SDCARegressor(n_partitions=3, **parameters).fit(X, y, weight)


WAYS = {"in memory": in_memory, "over a source": over_blocks, "over partitions": in_partitions}


@pytest.fixture(scope="module")
def prices():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    return X, 1e5 * (X[:, 0] + 0.1 * random.normal(size=300)) + 5e5


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_targets_far_from_zero_cost_nothing(loss, way, prices):
    X, y = prices
    near, far = (way(SDCARegressor(loss, **FREE), X, y + c) for c in (-5e5, 1e7))
    assert near.result_.status == far.result_.status == "converged"
    assert far.n_iter_ <= 1.2 * near.n_iter_ + 3
    gap = near.result_.gap + far.result_.gap
    assert abs(near.result_.primal - far.result_.primal) <= gap + 1e-12 * near.result_.primal


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_units_of_the_targets_change_nothing(loss, way, prices):
    X, y = prices
    y, found = (y - 5e5) / 1e5, []
    for unit in (1.0, 2.0**-20):
        model = SDCARegressor(loss, second_order=False, tol=0.01, **FREE | {"epsilon": 0.1 * unit})
        model.alpha *= 1.0 if loss in ("squared", "huber") else 1 / unit
        found.append(way(model, X, unit * y))
        assert found[-1].result_.status == "converged"
    np.testing.assert_allclose(found[1].coef_, 2.0**-20 * found[0].coef_, rtol=1e-9)
    assert found[0].n_iter_ == found[1].n_iter_


@pytest.mark.parametrize(
    ("targets", "expected"),
    [(np.arange(101), 45.0), (np.repeat([0, 4], [95, 5]), 0.2), (np.full(9, 7.0), 0.0)],
)
def test_spreads_are_of_most_targets_unless_these_are_equal(targets, expected):
    assert spread_of(targets) == pytest.approx(expected)
    assert spread_of(np.append(targets, 1e9), np.append(np.ones(len(targets)), 0)) == spread_of(
        targets
    )
    assert spread_of(targets, np.zeros(len(targets))) == 0


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("kind", ["zeros", "skewed"])
def test_intercepts_leave_the_median_where_that_is_far_from_the_best(way, scale, kind):
    random = np.random.default_rng(1)
    X = scale * random.normal(size=(5000, 5))
    y = random.lognormal(0, 1.5, 5000)
    if kind == "zeros":
        y = np.where(random.random(5000) < 0.6, 0, random.uniform(5, 10, 5000))
    free = FREE | {"alpha": 1.0, "epsilon": 4.0}
    model = SDCARegressor("epsilon_insensitive", second_order=False, max_iter=100, **free)
    assert way(model, X, y).result_.status == "converged"


@pytest.mark.parametrize("way", [in_memory, over_blocks], ids=list(WAYS)[:2])
@pytest.mark.parametrize("weight", [0.0, 1e-12, 1.0])
def test_a_few_long_rows_do_not_hold_back_the_intercept(way, weight):
    random = np.random.default_rng(0)
    X = sparse.random_array((3000, 3000), density=0.003, format="csr", rng=random)
    y = X @ random.normal(size=3000) + 0.5
    lengths, weights = np.ones(3000), np.ones(3000)
    lengths[::700], weights[::700] = 1e5, weight
    model = SDCARegressor("epsilon_insensitive", max_iter=200, tol=0.01, **FREE)
    assert way(model, sparse.diags_array(lengths) @ X, y, weights).result_.status == "converged"


def test_steps_that_creep_are_seen_where_the_look_is_blind(prices):
    X, y = prices
    random = np.random.default_rng(1)
    X, y = random.normal(size=(5000, 4)), np.repeat(y, 17)[:5000]
    y = y + 1e5 * X @ [3, 0, 1, -2]
    result = SDCARegressor("huber", **FREE).fit(X, y).result_
    assert result.status == "converged"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("loss", ["huber", "absolute", "epsilon_insensitive"])
def test_a_warm_start_leaves_an_intercept_that_is_far_off(loss, way, prices):
    X, y = prices
    model = SDCARegressor(loss, warm_start=True, second_order=False, **FREE)
    if way is in_partitions:
        model = in_partitions(model, X, y)
        again = model.fit
    else:
        way(model, X, y)
        again = functools.partial(way, model)
    assert again(X, X[:, 0]).result_.status == "converged"
    assert abs(model.intercept_) < 1


def test_medians():
    random = np.random.default_rng(0)
    y, weights = random.normal(size=101), random.integers(0, 4, size=101).astype(float)
    assert middle(y) == np.median(y)
    repeated = np.sort(np.repeat(y, weights.astype(int)))
    assert middle(y, weights) == repeated[(len(repeated) - 1) // 2]
    assert middle(y, np.zeros(101)) == weighted_quantile(np.empty(0), np.empty(0)) == 0
    assert middle(np.full(9000, 7.0), np.arange(9000.0) % 3 == 1) == 7
    assert 0 < middle(np.tile([0.0, 1.0, 2.0, 9.0], 5000)) < 9
    many = random.normal(size=100_000)
    assert abs(np.mean(many <= middle(many)) - 0.5) < 0.05


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_residuals_of_weights_decide(make, prices):
    X, y = prices
    loss = REGRESSION_LOSSES["absolute"].loss()
    objective = Objective(Matrix(make(X), constant=2.0), y, loss, 0.01, intercept_penalty=0.0)
    w = np.array([1e5, 0, 0, 0, 7.0])
    found = starting_intercept(objective, w)
    assert found == np.sort(y - 1e5 * X[:, 0])[149]
    assert starting_intercept(objective, w, found + 100) == found + 100
    assert starting_intercept(objective, w, 0.0) == found


@pytest.mark.parametrize(("n_blocks", "most"), [(1, 10), (10, 100)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_blocks_in_turns_move_an_intercept_without_penalty(loss, n_blocks, most):
    random = np.random.default_rng(0)
    X = sparse.random_array((3000, 3000), density=0.01, rng=random, data_sampler=random.normal)
    X = normalize(X.tocsr())
    y = X @ random.normal(size=3000) + 0.3 > 0.1 * random.normal(size=3000)
    model = SDCAClassifier(loss, alpha=1e-3, penalize_intercept=False, random_state=0)
    model.set_params(second_order=False, max_iter=most)
    assert model.fit_stream(ArraySource(X, y, block_rows=3000 // n_blocks)).n_iter_ <= most
    assert model.result_.status == "converged"
