"""Biases, schedules and regression of the Pegasos estimators, each against its own objective."""

import pickle

import numpy as np
import pytest
from reference.losses import LOSSES
from reference.objective import primal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import SGDRegressor
from sklearn.model_selection import GridSearchCV

from sublinear import PegasosClassifier, PegasosRegressor, SDCAClassifier, SDCARegressor

BIASES = ("feature", "subgradient", "batch", "search")
FREE = BIASES[1:]
REGRESSION = ("epsilon_insensitive", "absolute", "huber", "squared")
PIECEWISE_LINEAR = ("hinge", "absolute", "epsilon_insensitive")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def uneven():
    """Labels of which four in five are 1, and features that say little of that."""
    random = np.random.default_rng(4)
    X = random.normal(size=(300, 6)) / 3
    return X, (X @ random.normal(size=6) + 0.6 + 0.3 * random.normal(size=300) > 0).astype(int)


@pytest.fixture(scope="module")
def shifted(regression):
    X, y = regression
    return X, y + 5


def own_objective(model, X, y, weights=None):
    """The objective that the parameters name, by NumPy, from fitted attributes alone."""
    X = X.toarray() if sparse.issparse(X) else X
    parameters = (model.epsilon,) if model.loss in ("huber", "epsilon_insensitive") else ()
    loss = LOSSES[model.loss](*parameters)
    w, b = model.coef_.ravel(), np.ravel(model.intercept_)[0]
    if model.bias == "feature" and model.fit_intercept:
        scale = model.intercept_scaling
        X, w = np.column_stack([X, np.full(len(X), scale)]), np.append(w, b / scale)
        return primal(X, y, loss, model.alpha, w, weights)
    mean = np.average(loss.value(X @ w + b, y), weights=weights)
    return model.alpha / 2 * np.sum(w**2) + mean


def options(bias):
    """Batches of all examples where smaller ones would minimise something else."""
    return {"bias": bias} | ({"batch_size": "all"} if bias == "batch" else {})


# ---------------------------------------------------------------- biases


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_bias_solves_its_own_objective(uneven, bias, storage, weighted):
    X, y = uneven
    weights = np.arange(300) % 3 + 0.5 if weighted else None
    penalized = bias == "feature"
    exact = SDCAClassifier(alpha=0.05, penalize_intercept=penalized, tol=1e-7, random_state=0)
    best = exact.fit(X, y, weights).result_
    model = PegasosClassifier(alpha=0.05, tol=1e-2, random_state=0, **options(bias))
    result = model.fit(storage(X), y, weights).result_
    assert result.status == "converged"
    assert best.dual * (1 - 1e-9) <= result.primal <= best.primal * 1.01 / 0.99
    assert result.dual <= best.primal * (1 + 1e-9)
    expected = own_objective(model, X, np.where(y, 1.0, -1.0), weights)
    assert result.primal == pytest.approx(expected, rel=1e-9)
    assert model.intercept_[0] == pytest.approx(exact.intercept_[0], abs=0.1)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("loss", REGRESSION)
def test_each_bias_of_a_regression(shifted, loss, bias):
    if bias == "batch" and loss not in PIECEWISE_LINEAR:
        pytest.skip("needs a piecewise linear loss")
    if bias == "subgradient" and loss == "squared":
        pytest.skip("its derivatives are not bounded")
    X, y = shifted
    exact = SDCARegressor(loss, alpha=0.1, penalize_intercept=bias == "feature", tol=1e-7)
    best = exact.fit(X, y).result_
    model = PegasosRegressor(
        loss, alpha=0.1, tol=2e-2, projection=loss == "squared", random_state=0, **options(bias)
    )
    result = model.fit(X, y).result_
    assert result.status == "converged"
    assert best.dual * (1 - 1e-9) <= result.primal <= best.primal * 1.02 / 0.98
    assert result.dual <= best.primal * (1 + 1e-9)
    assert result.primal == pytest.approx(own_objective(model, X, y), rel=1e-9)


def test_batches_that_are_not_all_rows_are_reported_honestly(uneven):
    """Small batches minimise another function: the model is certified, the gap stays open."""
    X, y = uneven
    model = PegasosClassifier(
        alpha=0.01, bias="batch", batch_size=10, tol=1e-4, max_iter=200, random_state=0
    ).fit(X, y)
    best = SDCAClassifier(alpha=0.01, penalize_intercept=False, tol=1e-7).fit(X, y).result_
    assert model.result_.status == "max_iter"
    assert model.result_.dual <= best.primal
    assert best.dual <= model.result_.primal <= 1.1 * best.primal
    expected = own_objective(model, X, np.where(y, 1.0, -1.0))
    assert model.result_.primal == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("bias", FREE)
def test_a_shift_of_the_targets_moves_the_intercept_alone(shifted, bias):
    X, y = shifted
    model = PegasosRegressor("absolute", alpha=0.1, tol=1e-2, random_state=0, **options(bias))
    near, far = (clone(model).fit(X, y + shift) for shift in (0, 1000))
    assert far.intercept_ - near.intercept_ == pytest.approx(1000, abs=0.3)
    assert far.result_.status == "converged"


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_storage_and_precision_make_no_difference(binary, bias, dtype):
    X, y = binary
    settings = {"alpha": 0.01, "tol": 0, "max_iter": 9, "random_state": 0, "bias": bias}
    settings["batch_size"] = 16 if bias == "batch" else 1
    dense = PegasosClassifier(**settings).fit(X, y)
    other = PegasosClassifier(**settings).fit(sparse.csr_array(X.astype(dtype)), y)
    assert other.coef_.dtype == dtype
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-5)
    np.testing.assert_allclose(other.intercept_, dense.intercept_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("bias", BIASES)
def test_several_classes_threads_and_pickles(multiclass, bias):
    X, y = multiclass
    settings = {"alpha": 0.01, "tol": 0, "max_iter": 200, "random_state": 0, "bias": bias}
    settings["batch_size"] = 16 if bias == "batch" else 1
    models = [PegasosClassifier(n_jobs=n, **settings).fit(X, y) for n in (1, 3)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    np.testing.assert_array_equal(models[0].intercept_, models[1].intercept_)
    assert models[0].score(X, y) > 0.7
    copy = pickle.loads(pickle.dumps(models[0]))
    np.testing.assert_array_equal(copy.predict(X), models[0].predict(X))


@pytest.mark.parametrize("bias", BIASES)
def test_warm_starts_go_on(uneven, bias):
    X, y = uneven
    model = PegasosClassifier(
        alpha=0.05, tol=5e-3, random_state=0, warm_start=True, **options(bias)
    ).fit(X, y)
    first = model.result_
    again = model.fit(X, y).result_
    assert first.status == again.status == "converged"
    assert again.n_iter <= first.n_iter
    other = "search" if bias == "feature" else "feature"
    changed = model.set_params(bias=other, batch_size=1).fit(X, y)
    cold = clone(changed).fit(X, y)
    np.testing.assert_array_equal(changed.coef_, cold.coef_)


@pytest.mark.parametrize("bias", ["feature", "subgradient", "batch"])
def test_a_stream_with_every_bias(uneven, bias):
    X, y = uneven
    stream = PegasosClassifier(alpha=0.01, bias=bias, batch_size=30, random_state=0)
    for _ in range(20):
        for start in range(0, 300, 60):
            part = slice(start, start + 60)
            stream.partial_fit(X[part], y[part], classes=[0, 1])
    whole = PegasosClassifier(alpha=0.01, bias=bias, batch_size=30, max_iter=20, random_state=0)
    whole.fit(X, y)
    targets = np.where(y, 1.0, -1.0)
    assert own_objective(stream, X, targets) <= 1.1 * own_objective(whole, X, targets)
    with pytest.raises(ValueError, match="must not change"):
        stream.set_params(bias="feature" if bias != "feature" else "batch").partial_fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_search_that_has_seen_one_side_has_a_certificate(uneven, n_classes):
    X, y = uneven[0], uneven[1] + (uneven[0][:, 0] > 0.3) * (n_classes - 2)
    model = PegasosClassifier(bias="search", alpha=0.01, warm_start=True, random_state=0)
    for max_iter in (1, 1, 2, 3):  # a fit begins with a few values of the intercept, or one
        model.set_params(max_iter=max_iter).fit(X, y)
        for part in model.result_.parts or (model.result_,):
            assert 0 <= part.dual <= part.primal < np.inf


def test_short_fits_that_go_on_search_as_well(uneven):
    model = PegasosClassifier(bias="search", alpha=0.01, warm_start=True, random_state=0)
    model.set_params(max_iter=1, tol=0)
    intercepts = [float(model.fit(*uneven).intercept_[0]) for _ in range(6)]
    assert len(set(intercepts)) == 6


def test_a_stream_cannot_be_searched(uneven):
    X, y = uneven
    with pytest.raises(AttributeError) as caught:
        PegasosClassifier(bias="search").partial_fit(X, y, classes=[0, 1])
    assert "needs another bias" in str(caught.value.__cause__)


def test_without_intercept_every_bias_is_the_same(binary):
    X, y = binary
    settings = {"fit_intercept": False, "alpha": 0.1, "max_iter": 3, "tol": 0, "random_state": 0}
    models = [PegasosClassifier("logistic", bias=bias, **settings).fit(X, y) for bias in BIASES]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.intercept_ == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bias": "median"}, "bias must be one of"),
        ({"bias": "batch"}, "needs large batches"),
        ({"bias": "batch", "batch_size": 8, "loss": "logistic"}, "piecewise linear loss: 'hinge'"),
        ({"learning_rate": "optimal"}, "learning_rate must be one of"),
        ({"learning_rate": "constant"}, "needs eta0"),
        ({"learning_rate": "constant", "eta0": 2e4}, "at most 1 / alpha = 10000"),
        ({"learning_rate": "norma", "eta0": 1.5}, "at most 1, got 1.5"),
        ({"eta0": -1.0}, "eta0"),
        ({"eta0": "fast"}, "eta0"),
        ({"loss": "squared_hinge"}, "needs projection=True"),
        ({"loss": "squared_hinge", "projection": True, "bias": "subgradient"}, "bias="),
        ({"pack": "always"}, "pack must be"),
        ({"pack": True}, "only sparse rows"),
        ({"average": "best"}, "average must be one of"),
    ],
)
def test_what_makes_no_sense_is_refused(uneven, settings, message):
    with pytest.raises(ValueError, match=message):
        PegasosClassifier(**settings).fit(*uneven)


# ---------------------------------------------------------------- schedules, outputs, packing


@pytest.mark.parametrize(
    "schedule",
    [
        {"learning_rate": "norma"},
        {"learning_rate": "norma", "eta0": 0.2},
        {"learning_rate": "constant", "eta0": 0.05},
    ],
)
@pytest.mark.parametrize("projection", [False, True])
def test_other_schedules_come_near_the_optimum(binary, schedule, projection):
    X, y = binary
    best = SDCAClassifier(alpha=0.1, tol=1e-7, random_state=0).fit(X, y).result_.primal
    model = PegasosClassifier(
        alpha=0.1, tol=0, max_iter=400, random_state=0, projection=projection, **schedule
    ).fit(X, y)
    assert model.result_.dual <= best * (1 + 1e-9)
    assert best * (1 - 1e-7) <= model.result_.primal <= 1.03 * best


def test_squared_hinge_with_projection(binary):
    X, y = binary
    best = SDCAClassifier("squared_hinge", alpha=0.1, tol=1e-7).fit(X, y).result_.primal
    model = PegasosClassifier("squared_hinge", alpha=0.1, projection=True, tol=1e-2).fit(X, y)
    assert model.result_.status == "converged"
    assert best * (1 - 1e-7) <= model.result_.primal <= best / 0.99


def test_a_random_stopping_time_keeps_the_best_attempt(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1, average="random", tol=0, max_iter=50, random_state=0)
    model.fit(X, y)
    primals = [row.primal for row in model.result_.trace]
    assert primals == sorted(primals, reverse=True)
    assert model.result_.primal == primals[-1]
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    stream = PegasosClassifier(alpha=0.1, average="random", random_state=0)
    for _ in range(30):
        stream.partial_fit(X, y, classes=[0, 1])
    assert np.isfinite(stream.coef_).all()


def test_packed_rows_give_the_same_model(sparse_problem):
    X, y = sparse_problem
    X = X.astype(np.float32).astype(float)
    settings = {"alpha": 1e-3, "tol": 0, "max_iter": 3, "random_state": 0}
    plain = PegasosClassifier(pack=False, **settings).fit(X, y)
    packed = PegasosClassifier(pack=True, **settings).fit(X, y)
    np.testing.assert_array_equal(packed.coef_, plain.coef_)
    assert packed.result_.gap == plain.result_.gap


def test_values_that_do_not_fit_into_float32(sparse_problem):
    X, y = sparse_problem
    X = X.copy()
    X.data[0] = 1e-60
    with pytest.raises(ValueError, match="float32"):
        PegasosClassifier(pack=True).fit(X, y)
    PegasosClassifier(max_iter=1).fit(X, y)


# ---------------------------------------------------------------- regression


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "absolute", "huber"])
def test_regression_without_intercept_beside_sgd(regression, loss):
    X, y = regression
    settings = {"alpha": 0.01, "fit_intercept": False, "max_iter": 200, "random_state": 0}
    ours = PegasosRegressor(loss, tol=0, **settings).fit(X, y)
    if loss == "absolute":
        theirs = SGDRegressor("epsilon_insensitive", epsilon=0, tol=None, average=True, **settings)
    else:
        theirs = SGDRegressor(loss, epsilon=0.1, tol=None, average=True, **settings)
    theirs.fit(X, y)
    value = own_objective(ours, X, y)
    assert ours.result_.primal == pytest.approx(value, rel=1e-9)
    ours.coef_ = theirs.coef_
    assert value <= 1.01 * own_objective(ours, X, y)


def test_a_regression_stream(shifted):
    X, y = shifted
    model = PegasosRegressor("absolute", alpha=1e-2, random_state=0)
    for _ in range(40):
        for start in range(0, 200, 48):
            model.partial_fit(X[start : start + 48], y[start : start + 48])
    assert model.score(X, y) > 0.8
    assert model.result_.status == "partial_fit" and model.result_.gap == np.inf
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], y)


def test_regression_weights_equal_repetition(regression):
    X, y = regression
    weights = np.random.default_rng(0).integers(0, 4, size=200)
    settings = {"alpha": 0.05, "batch_size": "all", "tol": 0, "max_iter": 60}
    for bias in ("feature", "batch", "subgradient"):
        model = PegasosRegressor("absolute", bias=bias, **settings)
        weighted = clone(model).fit(X, y, weights)
        repeated = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)


def test_regression_grid_search(regression):
    grid = {"alpha": [1e-3, 1e-1], "loss": ["huber", "absolute"], "bias": ["feature", "search"]}
    model = PegasosRegressor(tol=1e-1, random_state=0)
    assert GridSearchCV(model, grid, cv=2).fit(*regression).best_score_ > 0.5


# ---------------------------------------------------------------- streams of blocks


@pytest.mark.parametrize("average", ["last", "mean", "tail", "random"])
@pytest.mark.parametrize("bias", ["feature", "subgradient", "batch"])
def test_a_stream_goes_on_from_its_saved_state(shifted, average, bias):
    X, y = shifted
    blocks = [(X[k : k + 40], y[k : k + 40]) for k in range(0, 200, 40)]
    model = PegasosRegressor(
        "absolute", alpha=0.01, average=average, bias=bias, batch_size=8, random_state=0
    )
    whole = clone(model).fit_stream(blocks)
    first = clone(model).fit_stream(blocks[:3])
    state = first._stream_state()
    plain = (np.ndarray, int, float, str, type(None))
    assert all(isinstance(value, plain) for value in state.values())
    first._set_stream_state(state)
    for block in blocks[3:]:
        first.partial_fit(*block)
    np.testing.assert_array_equal(first.coef_, whole.coef_)
    assert first.intercept_ == whole.intercept_


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_search_goes_on_from_its_bounds_where_all_rows_are_as_they_were(make):
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 5))
    y = np.sign(X @ random.normal(size=5) + random.normal(size=1000) + 0.8)
    options = {"alpha": 0.05, "bias": "search", "tol": 0.01, "random_state": 0}
    model = PegasosClassifier(**options, warm_start=True).fit(make(X), y)
    assert model.result_.status == "converged"
    before = model.n_iter_, model.result_.relative_gap
    model.fit(make(X), y)
    assert model.n_iter_ < before[0] / 4
    assert model.result_.relative_gap <= before[1]
    X[1] = 5.0  # bounds hold for no other rows
    model.fit(make(X), y)
    np.testing.assert_array_equal(model.coef_, PegasosClassifier(**options).fit(X, y).coef_)
