"""The constant column behind an intercept: how large it is, and that it changes no objective."""

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from scipy import sparse
from sklearn.preprocessing import normalize

from sublinear import SDCAClassifier, SDCARegressor, distributed
from sublinear._core.constant_column import (
    RowSample,
    column_constant,
    intercept_penalty,
    length_of_mean,
    short_length,
    some_rows,
)
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective, balance_masses
from sublinear._core.random import RandomBits
from sublinear._solvers.sdca import SDCA
from sublinear.sources import ArraySource

LOSSES = MARGIN_LOSSES | REGRESSION_LOSSES
ALPHA = 0.05


def over_blocks(model, X, y, n_blocks=4):
    return model.fit_stream(ArraySource(X, y, block_rows=-(-X.shape[0] // n_blocks)))


def in_partitions(model, X, y, n_partitions=4):
    kind = getattr(distributed, type(model).__name__)
    parameters = {name: getattr(model, name) for name in model.get_params() if name in vars(kind())}
    parameters |= {"n_partitions": n_partitions, "warm_start": True}  # which keeps the duals
    return kind(**parameters).fit(X, y)


WAYS = {
    "in memory": lambda model, X, y: model.fit(X, y),
    "by two threads": lambda model, X, y: model.set_params(n_jobs=2).fit(X, y),
    "over a source": over_blocks,
    "over partitions": in_partitions,
}


@pytest.mark.parametrize(
    ("weights", "expected"), [(None, 1.0), ([1, 0, 0, 0, 0, 0], 0.0), ([0, 0, 0, 0, 0, 5], 3.0)]
)
def test_short_lengths_are_those_of_rows_with_weight_that_are_not_empty(weights, expected):
    norms = np.array([0, 0, 1, 4, 1e18, 9])
    weights = np.ones(6) if weights is None else np.array(weights, dtype=float)
    assert short_length(norms, weights) == expected


@pytest.mark.parametrize(("n_rows", "step"), [(1, 1), (63, 1), (200, 4), (10**6, 64)])
def test_some_rows_are_many_of_few(n_rows, step):
    assert some_rows(n_rows).step == step


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_length_of_the_mean_is_that_of_all_rows(weighted, make):
    random = np.random.default_rng(0)
    X, weights = random.normal(size=(6000, 40)) + 0.2, None
    if weighted:
        weights = random.integers(0, 3, 6000).astype(float)
        X[weights == 0] = 1e6
    sample = RowSample(40)
    for rows in np.split(np.arange(6000), [1000, 1001, 4000]):
        sample.add(Matrix(make(X[rows])), None if weights is None else weights[rows])
    expected = np.linalg.norm(np.average(X, axis=0, weights=weights))
    assert length_of_mean(sample.total, sample.squares) == pytest.approx(expected, rel=0.3)
    centred = RowSample(40)
    centred.add(Matrix(make(X - X.mean(axis=0))))
    assert length_of_mean(centred.total, centred.squares) < 0.4 * expected


@pytest.mark.parametrize("value", [1e200, np.inf, np.nan])
def test_rows_that_do_not_tell_their_mean(value):
    sample = RowSample(2)
    sample.add(Matrix(np.full((3, 2), value)))
    assert length_of_mean(sample.total, sample.squares) == np.inf
    one = RowSample(2)
    one.add(Matrix(np.ones((1, 2))))
    assert length_of_mean(one.total, one.squares) == np.inf


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0.25),  # the mean
        ({"mean": np.inf}, 0.5),  # no more than half of a row
        ({"mean": 0.0}, 0.125),  # sqrt(alpha) n^(1/4)
        ({"mean": 0.0, "n_parts": 16}, 2**-5),
        ({"mean": 0.0, "alpha": 1e-30}, 2**-5),  # as rows of mean 0 may have
        ({"mean": 0.0, "alpha": 1e-30, "length": 1e3, "n_parts": 10**9}, 1.0),
        ({"n_parts": 16}, 0.125),
        ({"scaling": 0.3}, 0.3),
        ({"scaling": np.inf, "alpha": 1e4}, 1024.0),
        ({"alpha": 1e4}, 2.0),
        ({"scaling": np.inf, "length": 0.0, "mean": 0.0, "alpha": 0.0}, 1.0),
    ],
    ids=str,
)
def test_the_column_is_the_scaling_unless_far_less_is_better(given, expected):
    usual = {"length": 1.0, "mean": 0.25, "scaling": 2.0, "alpha": 1e-4}
    loss = MARGIN_LOSSES["hinge"].loss()
    assert column_constant(10**4, loss=loss, spread=None, **usual | given) == expected
    penalty = intercept_penalty(expected, (usual | given)["scaling"])
    assert penalty == (expected / (usual | given)["scaling"]) ** 2 <= 1.0
    assert intercept_penalty(0.0, np.inf) == 1.0


def test_losses_that_are_hardly_curved_have_a_longer_column():
    given = {"length": 1.0, "mean": 0.0, "scaling": np.inf, "alpha": 1e-4, "spread": None}
    found = [
        column_constant(10**4, loss=MARGIN_LOSSES[name].loss(), **given)
        for name in ("hinge", "logistic")
    ]
    assert found == [0.125, 0.25]


@pytest.mark.parametrize("total", [0.0, 0.7, -0.7, 50.0, -50.0])
def test_duals_get_the_sum_they_are_to_have(total):
    duals = np.random.default_rng(0).normal(size=20)
    masses = duals[duals > 0].sum(), -duals[duals < 0].sum()
    found = duals.copy()
    balance_masses(found, masses, total)
    reach = np.clip(total, -masses[1], masses[0])  # by shrinking alone
    assert found.sum() == pytest.approx(reach, abs=1e-12)
    assert np.all(found * duals >= 0) and np.all(abs(found) <= abs(duals))
    assert np.array_equal(found[duals > 0], duals[duals > 0]) or np.array_equal(
        found[duals < 0], duals[duals < 0]
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_another_column_has_the_same_values(name, weighted):
    """With the penalty that makes up for it, and for the weights and duals that belong together."""
    random = np.random.default_rng(1)
    X, scaling, constant = random.normal(size=(300, 5)), 2.0, 0.5
    y = np.where(random.random(300) < 0.4, 1.0, -1.0)
    weights = random.integers(0, 4, 300).astype(float) if weighted else None
    whole = Objective(Matrix(X, scaling), y, LOSSES[name].loss(), ALPHA, weights)
    less = Objective(
        Matrix(X, constant), y, LOSSES[name].loss(), ALPHA, weights,
        intercept_penalty=intercept_penalty(constant, scaling),
    )  # fmt: skip
    w = random.normal(size=6)
    v = np.append(w[:-1], w[-1] * scaling / constant)
    assert less.primal(v) == pytest.approx(whole.primal(w), rel=1e-12)
    assert less.penalty(1e-160 * v) == pytest.approx(whole.penalty(1e-160 * w), rel=1e-12)
    duals = random.normal(size=300)
    whole.make_feasible(duals)
    of_duals = whole.weights_of_dual(duals)
    (primal, _), dual = whole.certificate(of_duals, duals, [w, of_duals])
    last = of_duals[-1] * scaling / constant  # of which the duals are the best
    assert less.mass(last) == pytest.approx(
        np.dot(duals, np.ones(300) if weights is None else weights)
    )
    around = np.append(v[:-1], last)
    found = less.certificate_of(duals.copy(), [around])[1]
    assert found == pytest.approx(dual, rel=1e-10)
    other = duals.copy()
    assert less.certificate_of(other, [v])[0][0] == pytest.approx(primal, rel=1e-12)
    found = less.certificate_of(other, [1e3 * v])[1]  # balanced otherwise; evaluated elsewhere
    assert found == pytest.approx(whole.certificate_of(other, [w])[1], rel=1e-9)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("second_order", [False, "auto", True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_objective_is_the_one_of_the_docs(name, second_order, way):
    random = np.random.default_rng(2)
    X, scaling = 0.1 * random.normal(size=(160, 4)) + 0.02, 3.0
    z = X @ [4.0, -8.0, 1.0, 0.0] + 0.3 * random.normal(size=160) + 0.2
    kind, y = SDCARegressor, z
    if name in MARGIN_LOSSES:
        kind, y = SDCAClassifier, np.where(z > 0, 1.0, -1.0)
    model = kind(name, alpha=1e-3, tol=1e-7, intercept_scaling=scaling, max_iter=20000)
    model = way(model.set_params(second_order=second_order, random_state=0), X, y)
    result = model.result_
    assert result.status == "converged"
    rows = np.column_stack([X, np.full(160, scaling)])
    w = np.append(np.ravel(model.coef_), model.intercept_ / scaling)
    loss = ORACLES[name](*{"huber": (0.1,), "epsilon_insensitive": (0.1,)}.get(name, ()))
    assert result.primal == pytest.approx(values.primal(rows, y, loss, 1e-3, w), rel=1e-10)
    duals = np.ravel(model.dual_coef_)
    dual = values.dual(rows, y, loss, 1e-3, duals)
    assert result.primal - dual <= 1e-6 * result.primal


def hard(n=3000, d=3000, seed=0):
    random = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.01, rng=random, data_sampler=random.normal)
    X = normalize(X.tocsr())
    return X, X @ random.normal(size=d) + 0.3 > 0.1 * random.normal(size=n)


@pytest.mark.parametrize("n_parts", [2, 4, 20])
@pytest.mark.parametrize(("loss", "most"), [("hinge", 100), ("squared_hinge", 35)])
@pytest.mark.parametrize("way", [over_blocks, in_partitions])
def test_parts_move_an_intercept_in_few_passes(way, loss, most, n_parts):
    model = SDCAClassifier(loss, second_order=False, max_iter=most, random_state=0)
    assert way(model, *hard(), n_parts).result_.status == "converged"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e2])
def test_units_of_the_features_hold_back_no_intercept(unit, way):
    X, y = hard(1000, 1000)
    model = SDCAClassifier(alpha=1e-3 * unit**2, second_order=False, max_iter=60, random_state=0)
    assert way(model, unit * X, y).result_.status == "converged"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_features_that_can_stand_in_for_an_intercept(way):
    random = np.random.default_rng(0)
    kinds = random.integers(8, size=(2000, 3))
    X = np.hstack([np.eye(8)[kind] for kind in kinds.T])
    y = np.where(random.random(2000) < 0.1 + 0.1 * kinds[:, 0], 1, -1)
    passes = []
    for scaling in (1.0, 1e3):
        model = SDCAClassifier("logistic", alpha=1e-4, intercept_scaling=scaling, random_state=0)
        model = way(model.set_params(second_order=False, max_iter=1000), X, y)
        assert model.result_.status == "converged"
        passes.append(model.n_iter_)
    assert max(passes) <= 2 * min(passes) + 2


def test_warm_starts_take_over_the_intercept():
    X, y = hard()
    options = {"second_order": False, "warm_start": True, "random_state": 0}
    for way in (WAYS["in memory"], over_blocks):
        model = way(SDCAClassifier("squared_hinge", **options), X, y)
        first, coef = model.n_iter_, model.coef_.copy()
        assert way(model, X, y).n_iter_ <= 2 < first
        np.testing.assert_allclose(model.coef_, coef, atol=0.05 * abs(coef).max())


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_rows_less_their_mean_that_any_labels_suit(loss, penalize_intercept, way):
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 400))
    X -= X.mean(axis=0)
    y = X[:, 0] + 0.3 * random.normal(size=100) > 0.3
    model = SDCAClassifier(loss, penalize_intercept=penalize_intercept, max_iter=200)
    model.set_params(second_order=False, random_state=0)
    assert way(model, X, y).result_.status == "converged"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_labels_that_are_rare(way):
    random = np.random.default_rng(0)
    X = normalize(sparse.random_array((5000, 1000), density=0.02, rng=random, format="csr"))
    y = random.random(5000) < 1e-3
    model = SDCAClassifier("logistic", alpha=1e-4, max_iter=30, random_state=0)
    assert way(model, X, y).result_.status == "converged"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", ["absolute", "epsilon_insensitive", "huber"])
def test_targets_that_the_penalty_keeps_out_of_reach(name, way):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), 1e6 + random.normal(size=200)
    model = SDCARegressor(name, alpha=1e-2, second_order=False, max_iter=20, random_state=0)
    model = way(model, X, y)
    assert model.result_.status == "converged"
    assert abs(model.intercept_) < 1e3


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_targets_within_the_tube_around_0(way):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), 0.2 + 0.1 * random.random(200)
    model = SDCARegressor("epsilon_insensitive", epsilon=1.0, second_order=False, random_state=0)
    model = way(model, X, y)
    assert model.n_iter_ <= 2 and model.result_.primal == 0
    assert not model.coef_.any() and model.intercept_ == 0


def test_another_alpha_leaves_the_intercept_where_it_is():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    objective = Objective(
        Matrix(X, 0.25), X[:, 0] + 2, REGRESSION_LOSSES["squared"].loss(), 1e-2,
        intercept_penalty=0.0625,
    )  # fmt: skip
    solver = SDCA(objective, RandomBits(np.random.SeedSequence(0)))
    solver.advance(10**9)
    before = solver.intercept
    solver.restart(1e-3)
    assert solver.intercept == pytest.approx(before, rel=1e-12) and before != 0
