"""The middle of the best intercepts, where several are optimal and none is penalised."""

import numpy as np
import pytest
from reference.best_intercepts import best_intercepts
from reference.losses import LOSSES as ORACLES
from scipy import sparse

from sublinear import KernelSDCAClassifier, SDCAClassifier, SDCARegressor
from sublinear._core.flat_intercept import are_balanced, centred, suited
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear.distributed import SDCAClassifier as PartitionedClassifier
from sublinear.distributed import SDCARegressor as PartitionedRegressor
from sublinear.sources import ArraySource

LOSSES = MARGIN_LOSSES | REGRESSION_LOSSES
# how near the oracle comes to the ends: less where the objective bends there, and has no kink
CLOSE = {
    "hinge": 1e-8,
    "smoothed_hinge": 1e-4,
    "absolute": 1e-8,
    "epsilon_insensitive": 1e-8,
    "huber": 1e-4,
}
BOUNDED = list(CLOSE)
OPTIONS = {"smoothed_hinge": {"smoothing": 0.1}, "huber": {"epsilon": 1.35}}
STRONG = {"alpha": 5.0, "tol": 1e-6, "penalize_intercept": False}
SEEDS = range(4)


def classes_of_equal_weight(n_rows=200):
    random = np.random.default_rng(2)
    y = np.arange(n_rows) % 2
    return random.normal(size=(n_rows, 2)) + 1.5 * y[:, np.newaxis], 2 * y - 1


def even_targets(n_rows=60):
    """Return rows and targets whose medians are far apart."""
    random = np.random.default_rng(3)
    side = np.where(np.arange(n_rows) % 2, 1.0, -1.0)
    return random.normal(size=(n_rows, 2)), 20 + side * random.uniform(5, 9, n_rows)


def examples(name, n_rows=40, seed=0):
    """Return an objective with balanced duals at the ends of their domain, and a model.

    The model has a best intercept of 0 in the midst of others.
    """
    random = np.random.default_rng(seed)
    loss = LOSSES[name].loss()
    w = np.append(random.normal(size=3), 0.0)
    X = random.normal(size=(n_rows, 3))
    signs = np.where(np.arange(n_rows) % 2, 1.0, -1.0)
    bound = loss.dual_form().bound
    far = random.uniform(2, 4, n_rows)  # the prediction is as far from any kink
    if name in MARGIN_LOSSES:
        X *= ((-signs * far) / (X @ w[:3]))[:, np.newaxis]
        targets = signs
    else:
        targets = X @ w[:3] + signs * far
    objective = Objective(Matrix(X, constant=0.5), targets, loss, 0.1, intercept_penalty=0.0)
    return objective, bound * signs, w


def oracle_interval(name, objective, w, weights=None):
    scores = objective.matrix.row_dots(w, np.arange(objective.matrix.n_rows, dtype=np.uint32))
    return best_intercepts(ORACLES[name]().value, scores, objective.targets_array, weights)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BOUNDED)
def test_what_suits_the_duals_is_best(name, seed):
    objective, duals, w = examples(name, seed=seed)
    found = suited(objective, duals, w)
    low, high, least = oracle_interval(name, objective, w)
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=CLOSE[name])
    np.testing.assert_allclose(found.loss, least, rtol=1e-12)
    model, loss = centred(w, 0.5, found, lambda model: model)
    np.testing.assert_allclose(loss, least, rtol=1e-12)
    np.testing.assert_allclose(0.5 * model[-1], (low + high) / 2, atol=CLOSE[name])
    np.testing.assert_array_equal(model[:-1], w[:-1])


@pytest.mark.parametrize("name", BOUNDED)
def test_parts_add_up(name):
    objective, duals, w = examples(name)
    X, targets = objective.matrix.arrays[0], objective.targets_array
    parts = [
        suited(
            Objective(Matrix(X[rows], constant=0.5), targets[rows], objective.loss, 0.1),
            duals[rows],
            w,
        )
        for rows in (slice(0, 7), slice(7, 40))
    ]
    np.testing.assert_allclose(parts[0] + parts[1], suited(objective, duals, w), rtol=1e-12)


def test_rows_without_weight_do_not_count():
    objective, duals, w = examples("hinge")
    weights = np.ones(40)
    weights[:2] = 0.0  # one of each class
    weighted = Objective(
        objective.matrix,
        objective.targets_array,
        objective.loss,
        0.1,
        weights,
        intercept_penalty=0.0,
    )
    low, high, least = oracle_interval("hinge", objective, w, weights)
    found = suited(weighted, duals, w)
    np.testing.assert_allclose(found, (low, high, least, 0), atol=1e-8)


@pytest.mark.parametrize("name", BOUNDED)
def test_few_duals_on_their_way_count_as_ends(name):
    objective, duals, w = examples(name, n_rows=200)
    ends = objective.masses_of_ends(duals)
    assert are_balanced(ends)
    found = suited(objective, duals, w)
    duals[5] *= 0.9
    np.testing.assert_array_equal(objective.masses_of_ends(duals), ends)
    assert suited(objective, duals, w) == found
    duals[:10] *= 0.9
    assert not are_balanced(objective.masses_of_ends(duals))


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in BOUNDED])
def test_without_bounds_there_are_no_ends(name):
    loss, ones = LOSSES[name].loss(), np.ones(4)
    objective = Objective(Matrix(np.ones((4, 1)), constant=1.0), ones, loss, 0.1)
    assert not are_balanced(objective.masses_of_ends(loss.nearest_duals(ones, ones)))


def test_no_middle_where_nothing_suits_or_no_end_is_known():
    objective, duals, w = examples("hinge")
    found = suited(objective, duals, w)
    as_it_is = lambda model: model  # noqa: E731
    assert centred(w, 0.5, found._replace(low=found.high + 1e-9), as_it_is) == (None, None)
    assert centred(w, 0.5, found._replace(high=np.inf), as_it_is) == (None, None)
    assert centred(w, 0.5, found._replace(low=-np.inf), as_it_is) == (None, None)
    assert centred(w, 0.5, found, lambda model: model + 100) == (None, None)


def fits(kind, name, X, y, seed, sample_weight=None, **parameters):
    options = {"loss": name, "random_state": seed} | STRONG | parameters
    is_classifier = name in MARGIN_LOSSES
    if kind == "partitions":
        model = (PartitionedClassifier if is_classifier else PartitionedRegressor)(
            n_partitions=3, **options
        )
        return model.fit(X, y, sample_weight)
    model = (SDCAClassifier if is_classifier else SDCARegressor)(**options)
    if kind == "stream":
        return model.fit_stream(ArraySource(X, y, sample_weight, block_rows=33))
    return model.fit(X, y, sample_weight)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
def test_models_have_the_middle_whatever_the_seed(kind, name, seed):
    X, y = classes_of_equal_weight() if name in MARGIN_LOSSES else even_targets()
    options = OPTIONS.get(name, {})
    model = fits(kind, name, X, y, seed, **options)
    w = model.coef_.ravel()
    oracle = ORACLES[name](**options)
    low, high, least = best_intercepts(oracle.value, X @ w, y.astype(float))
    assert high - low > 0.1
    np.testing.assert_allclose(model.intercept_, (low + high) / 2, atol=CLOSE[name])
    primal = 2.5 * w @ w + least / len(y)
    np.testing.assert_allclose(model.result_.primal, primal, rtol=1e-12)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("name", ["hinge", "huber"])
@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
def test_methods_of_second_order_end_there_too(kind, name):
    X, y = classes_of_equal_weight() if name in MARGIN_LOSSES else even_targets()
    options = OPTIONS.get(name, {})
    for seed in SEEDS:
        model = fits(kind, name, X, y, seed, second_order=True, **options)
        scores = X @ model.coef_.ravel()
        low, high, _ = best_intercepts(ORACLES[name](**options).value, scores, y.astype(float))
        np.testing.assert_allclose(model.intercept_, (low + high) / 2, atol=1e-3)


def test_machines_with_a_linear_kernel_agree():
    X, y = classes_of_equal_weight()
    machine = KernelSDCAClassifier(
        kernel="linear", C=1 / (5 * len(y)), penalize_intercept=False
    ).fit(X, y)
    model = fits("memory", "hinge", X, y, 0)
    np.testing.assert_allclose(model.intercept_, machine.intercept_, atol=1e-6)


@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_classes_balanced_by_weights(kind):
    X, y = classes_of_equal_weight()
    y[:40] = -1
    model = fits(kind, "hinge", X, y, 0, class_weight="balanced")
    weights = len(y) / (2 * np.where(y > 0, np.sum(y > 0), np.sum(y < 0)))
    scores = X @ model.coef_[0]
    low, high, _ = best_intercepts(ORACLES["hinge"]().value, scores, y.astype(float), weights)
    np.testing.assert_allclose(model.intercept_[0], (low + high) / 2, atol=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", ["memory", "stream"])
def test_middle_of_stored_types(kind, layout):
    X, y = classes_of_equal_weight()
    model = fits(kind, "hinge", layout(X.astype(np.float32)), y, 0)
    assert model.intercept_.dtype == np.float32
    exact = fits(kind, "hinge", X, y, 0)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-5)
    assert exact.result_.primal <= model.result_.primal * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
def test_several_classes(kind):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 2], 30)  # 2 weighs as much as the rest
    X = random.normal(size=(120, 3)) + y[:, np.newaxis]
    model = fits(kind, "hinge", X, y, 0)
    low, high, _ = best_intercepts(
        ORACLES["hinge"]().value, X @ model.coef_[2], np.where(y == 2, 1.0, -1.0)
    )
    assert high - low > 0.05
    np.testing.assert_allclose(model.intercept_[2], (low + high) / 2, atol=1e-6)


@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
def test_targets_within_the_tube_need_no_weights(kind):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = random.beta(1, 4, size=400) * 0.19 + 7  # most of them far below the middle
    model = fits(kind, "epsilon_insensitive", X, y, 0, epsilon=0.1, alpha=1e-4)
    assert model.result_.status == "converged"
    assert model.result_.primal == model.result_.dual == 0
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx((y.min() + y.max()) / 2, abs=1e-9)
    assert model.n_iter_ <= 200


@pytest.mark.parametrize("off", [0.0, -9e-13, 5e-13])
@pytest.mark.parametrize("far", [0.0, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("kind", ["memory", "stream", "partitions"])
def test_targets_far_from_zero_cost_no_digits(kind, far, off):
    """Nor do masses that are not quite the same, times an intercept that is far from 0."""
    X, y = even_targets()
    y += far
    weights = np.where(np.arange(len(y)) % 2, 0.1, 0.1 * (1 + off))
    model = fits(kind, "absolute", X, y, 0, weights, max_iter=60, tol=1e-8 + 1e-15 * far)
    assert model.result_.status == "converged"
    residuals = np.abs(X @ model.coef_ + model.intercept_ - y)
    primal = 2.5 * model.coef_ @ model.coef_ + np.average(residuals, weights=weights)
    assert model.result_.primal == pytest.approx(primal, rel=1e-11 + 1e-15 * far)
    assert model.result_.dual <= primal * (1 + 1e-11 + 1e-15 * far)


@pytest.mark.parametrize("name", BOUNDED)
def test_few_duals_that_are_not_zero_are_no_ends(name):
    """Beside some at a bound they may be on their way there; alone they are where they belong."""
    objective, duals, _ = examples(name, n_rows=200)
    bound = np.abs(duals).max()
    duals[:] = 0
    assert are_balanced(objective.masses_of_ends(duals))
    duals[7] = 0.3 * bound
    assert not are_balanced(objective.masses_of_ends(duals))
    duals[:2] = bound, -bound
    assert are_balanced(objective.masses_of_ends(duals))
