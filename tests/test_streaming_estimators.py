"""StreamingSVRGRegressor and StreamingSVRGClassifier as users meet them."""

import pickle
import re
import warnings
from copy import copy as copied
from dataclasses import asdict

import joblib
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV

from sublinear import (
    SDCAClassifier,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    load_model,
    save_model,
)
from sublinear.sources import ArraySource
from sublinear.theory import streaming_svrg_parameters

THEORY = {
    "constants": "theory",
    "smoothness": 2.0,
    "strong_convexity": 0.5,
    "step": 0.1,
    "first_stage": 50,
    "inner_steps": 20,
}


def cases(**options):
    return [
        StreamingSVRGRegressor(random_state=0, **options),
        StreamingSVRGRegressor("huber", random_state=0, **options),
        StreamingSVRGClassifier(random_state=0, **options),
        StreamingSVRGClassifier("smoothed_hinge", smoothing=0.5, random_state=0, **options),
    ]


def data_of(model, request):
    name = "regression" if isinstance(model, StreamingSVRGRegressor) else "binary"
    return request.getfixturevalue(name)


def classes_of(model, y):
    return {} if isinstance(model, StreamingSVRGRegressor) else {"classes": np.unique(y)}


def far_off(scale, place=slice(None)):
    """4000 rows, and targets some of which are so many times larger."""
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 3))
    y = X @ [1.0, 2.0, 3.0] + random.normal(size=4000)
    y[place] *= scale
    return X, y


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("place", [slice(None), 7, 3900])
@pytest.mark.parametrize("kept_rows", [100, 5000])
def test_targets_whose_squares_overflow_are_refused(place, kept_rows):
    model = StreamingSVRGRegressor(alpha=1e-4, kept_rows=kept_rows, shuffle=False)
    for scale in (1e160, 1e300):
        X, y = far_off(scale, place)
        with pytest.raises(ValueError, match="left the range of floating-point numbers: scale"):
            model.fit(X, y)
        with pytest.raises(ValueError, match="left the range of floating-point numbers: scale"):
            clone(model).fit_stream(ArraySource(X, y)).coef_  # noqa: B018
    assert vars(model) == model.get_params()
    assert np.isfinite(model.set_params(loss="huber").fit(X, y).coef_).all()


def test_a_first_stage_whose_losses_overflow_is_refused():
    X, y = far_off(1e160)
    with pytest.raises(ValueError, match="left the range of floating-point numbers: scale"):
        StreamingSVRGRegressor("huber", epsilon=1e160).fit(X, y)


@pytest.mark.parametrize("n_columns", [900, 1500])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_refused_block_leaves_the_model_as_it_was(loss, n_columns):
    random = np.random.default_rng(0)
    X, options = random.normal(size=(200, n_columns)), {"alpha": 0.01, "kept_rows": 20}
    y, bad = np.where(X[:, 0] > 0, 1.0, -1.0), X[:50].copy()
    bad[0, 0] = 1e200
    model = (StreamingSVRGRegressor if loss == "squared" else StreamingSVRGClassifier)(**options)
    classes = {} if loss == "squared" else {"classes": [-1, 1]}
    other = clone(model)
    for start in range(0, 200, 50):
        rows = slice(start, start + 50)
        model.partial_fit(X[rows], y[rows], **classes)
        other.partial_fit(X[rows], y[rows], **classes)
        if start:
            with pytest.raises(ValueError, match="scale X"):
                model.partial_fit(bad, y[:50])
    np.testing.assert_array_equal(model.coef_, other.coef_)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("options", [{"kept_rows": 5000}, {**THEORY, "random_state": 0}])
def test_large_targets_scale_the_model_and_its_risk(options):
    model, scale = StreamingSVRGRegressor(alpha=1e-4, shuffle=False, **options), 2.0**480
    X, y = far_off(1.0)
    ours, larger = clone(model).fit(X, y), clone(model).fit(X, y * scale)
    np.testing.assert_array_equal(larger.coef_, ours.coef_ * scale)
    if "kept_rows" in options:
        small, large = (np.array(m.result_.excess_risk_interval) for m in (ours, larger))
        np.testing.assert_array_equal(large, small * scale**2)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, THEORY])
def test_a_model_that_float32_does_not_hold_is_refused(options):
    X, y = far_off(1e60)
    model = StreamingSVRGRegressor(**options)
    with pytest.raises(ValueError, match="left the range of floating-point numbers"):
        model.fit(X.astype(np.float32), y)
    assert vars(model) == model.get_params()


@pytest.mark.parametrize("model", cases(alpha=0.1), ids=repr)
def test_small_data_is_minimised_exactly(model, request):
    X, y = data_of(model, request)
    model.fit(X, y)

    def objective(w):
        other = clone(model).fit(X, y)
        scores = X @ w[:-1] + w[-1]
        loss = other._solvers[0].loss
        target = y if isinstance(model, StreamingSVRGRegressor) else 2.0 * y - 1
        return loss.values(scores, target).mean() + 0.05 * w @ w

    start = np.append(model.coef_.ravel(), model.intercept_)
    best = minimize(objective, start, method="BFGS", options={"gtol": 1e-9})
    assert objective(start) <= best.fun + 1e-9


def test_ridge_is_that_of_scikit_learn(regression):
    X, y = regression
    ours = StreamingSVRGRegressor(alpha=0.05, fit_intercept=False).fit(X, y)
    theirs = Ridge(alpha=0.05 * len(y), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)


@pytest.mark.parametrize("scaling", [1.0, 30.0])
def test_an_intercept_without_penalty_is_that_of_scikit_learn(scaling, regression, binary):
    options = {"alpha": 0.5, "penalize_intercept": False, "intercept_scaling": scaling}
    X, y = regression
    model = StreamingSVRGRegressor(**options).fit(X + 1, y + 100)
    expected = Ridge(alpha=0.5 * len(y)).fit(X + 1, y + 100)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)
    assert model.intercept_ == pytest.approx(expected.intercept_)
    X, y = binary
    model = StreamingSVRGClassifier(**options).fit(X + 1, y)
    expected = LogisticRegression(C=1 / (0.5 * len(y)), tol=1e-10).fit(X + 1, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-6)


def test_stages_leave_an_intercept_without_penalty():
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 4)) + 1
    y = X @ [1, 2, 3, 4] + 50 + random.normal(size=20_000)
    model = StreamingSVRGRegressor(alpha=0.5, penalize_intercept=False, kept_rows=500).fit(X, y)
    expected = Ridge(alpha=0.5 * len(y)).fit(X, y)
    assert model.n_iter_ > 4
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=0.02)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.1)


def test_poisson_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 4))
    y = random.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.0] + 0.4))
    ours = StreamingSVRGRegressor("poisson").fit(X, y)
    theirs = PoissonRegressor(alpha=0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    with pytest.raises(ValueError, match="must not be negative"):
        ours.fit(X, y - 1)


@pytest.mark.parametrize("options", [{"kept_rows": 40}, THEORY], ids=["practical", "theory"])
@pytest.mark.parametrize("stop", [1, 30, 100])
def test_partial_fit_in_any_blocks(options, stop, request):
    for model in cases(alpha=0.1, **options):
        X, y = data_of(model, request)
        once = clone(model).partial_fit(X, y, **classes_of(model, y))
        model.partial_fit(X[:stop], y[:stop], **classes_of(model, y))
        model.coef_  # noqa: B018  looking at the model must not change it
        model.partial_fit(X[stop:], y[stop:])
        np.testing.assert_array_equal(model.coef_, once.coef_)
        np.testing.assert_array_equal(model.intercept_, once.intercept_)


@pytest.mark.parametrize("first", ["dense", "sparse"])
def test_dense_and_sparse_blocks_of_one_stream(first, regression):
    X, y = regression
    X = np.where(np.abs(X) > 1, X, 0.0)
    expected = StreamingSVRGRegressor(alpha=0.1).partial_fit(X, y).coef_
    kinds = [np.asarray, sparse.csr_array]
    model = StreamingSVRGRegressor(alpha=0.1)
    for k, make in enumerate(kinds if first == "dense" else kinds[::-1]):
        part = slice(100 * k, 100 * k + 100) if k == 0 else slice(100, None)
        model.partial_fit(make(X[part]), y[part])
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-8)


def test_fit_stream_is_partial_fit(regression):
    X, y = regression
    model = StreamingSVRGRegressor(kept_rows=50)
    model.fit_stream((X[k : k + 30], y[k : k + 30]) for k in range(0, 200, 30))
    np.testing.assert_array_equal(
        model.coef_, StreamingSVRGRegressor(kept_rows=50).partial_fit(X, y).coef_
    )
    assert model.result_.n_rows == 200
    assert model.n_iter_ == model.result_.n_stages == 4  # too few rows for longer ones


@pytest.mark.parametrize("first", [0, 1])
def test_blocks_of_one_stream_keep_their_types(regression, first):
    X, y = regression
    blocks = [(X[:60].astype(np.float32), y[:60]), (X[60:], y[60:])]
    blocks = [blocks[first], blocks[1 - first]]
    streamed = StreamingSVRGRegressor(random_state=0).fit_stream(blocks)
    wide = StreamingSVRGRegressor(random_state=0)
    wide.fit_stream([(rows.astype(np.float64), targets) for rows, targets in blocks])
    np.testing.assert_array_equal(streamed.coef_, wide.coef_)


@pytest.mark.parametrize("model", cases(kept_rows=64), ids=repr)
def test_layouts_and_threads(model, request):
    X, y = data_of(model, request)
    first = clone(model).fit(X, y)
    for rows in (sparse.csr_array(X), np.asfortranarray(X), sparse.csc_array(X)):
        other = clone(model).set_params(n_jobs=2).fit(rows, y)
        np.testing.assert_allclose(other.coef_, first.coef_, rtol=1e-7, atol=1e-10)
    narrow = clone(model).fit(X.astype(np.float32), y)
    assert narrow.coef_.dtype == np.float32
    assert narrow.intercept_.dtype == np.float32
    np.testing.assert_allclose(narrow.coef_, first.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
@pytest.mark.parametrize("options", [{}, THEORY], ids=["practical", "theory"])
def test_a_copy_draws_as_the_original_does(make, options, regression):
    X, y = regression
    model = StreamingSVRGRegressor(**options, random_state=make(0)).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    copied(model)
    np.testing.assert_array_equal(twin.fit(X, y).coef_, model.fit(X, y).coef_)


def test_predictions_change_no_pickle(multiclass):
    X, y = multiclass
    model = StreamingSVRGClassifier("logistic", alpha=0.1).fit(X, y)
    before, mark = pickle.dumps(model), joblib.hash(model)
    assert model.predict_proba(X).shape == (240, 3) and model.result_.n_rows == 240
    assert joblib.hash(model) == mark and pickle.dumps(model) == before
    np.testing.assert_array_equal(pickle.loads(before).coef_, model.coef_)


def test_bad_parameters_after_a_fit_are_no_matter_for_pickles(regression):
    model = StreamingSVRGRegressor().fit(*regression).set_params(n_jobs=0, random_state="none")
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.coef_, model.coef_)
    assert (twin.n_jobs, twin.random_state) == (0, "none")


@pytest.mark.parametrize("options", [{"kept_rows": 40}, THEORY], ids=["practical", "theory"])
def test_a_pickled_model_goes_on(options, binary):
    X, y = binary
    model = StreamingSVRGClassifier(random_state=3, **options)
    model.partial_fit(X[:90], y[:90], classes=[0, 1])
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X[90:], y[90:])
    np.testing.assert_array_equal(copy.coef_, model.coef_)


def test_several_classes(multiclass):
    X, y = multiclass
    model = StreamingSVRGClassifier(kept_rows=120, alpha=1e-3, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 10) and model.intercept_.shape == (3,)
    assert len(model.result_.parts) == 3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    exact = SDCAClassifier("logistic", alpha=1e-3, random_state=0).fit(X, y)
    assert model.score(X, y) > exact.score(X, y) - 0.05


@pytest.mark.parametrize("data", ["binary", "multiclass"])
def test_class_weights_are_sample_weights(data, request):
    X, y = request.getfixturevalue(data)
    classes = np.unique(y)
    counts = np.bincount(y)
    own = np.random.default_rng(0).uniform(0, 2, y.size)
    for given, factors in (
        ("balanced", y.size / (len(counts) * counts)),
        ({0: 3.0}, np.where(np.arange(len(counts)) == 0, 3.0, 1.0)),
        ({1: 0}, np.where(np.arange(len(counts)) == 1, 0.0, 1.0)),
    ):
        model = StreamingSVRGClassifier(alpha=0.1, class_weight=given, random_state=0).fit(X, y)
        same = StreamingSVRGClassifier(alpha=0.1, random_state=0).fit(X, y, factors[y])
        np.testing.assert_array_equal(model.coef_, same.coef_)
        assert model.result_.n_rows == np.count_nonzero(factors[y])
    model.fit(X, y, own)
    np.testing.assert_array_equal(model.coef_, same.fit(X, y, factors[y] * own).coef_)
    blocks = [(X[k::3], y[k::3], own[k::3]) for k in range(3)]
    model.fit_stream(blocks, classes=classes)
    weighed = [(rows, labels, weights * factors[labels]) for rows, labels, weights in blocks]
    np.testing.assert_array_equal(model.coef_, same.fit_stream(weighed, classes=classes).coef_)
    model = StreamingSVRGClassifier(alpha=0.1, class_weight=given)
    for rows, labels, weights in blocks:
        model.partial_fit(rows, labels, classes, weights)
    np.testing.assert_array_equal(model.coef_, same.coef_)


def test_a_stream_may_have_blocks_of_a_class_without_weight(binary):
    X, y = binary
    blocks = [(X[y == 0], y[y == 0]), (X, y), (X[y == 0], y[y == 0])]
    model = StreamingSVRGClassifier(alpha=0.1, class_weight={0: 0}).fit_stream(
        blocks, classes=[0, 1]
    )
    ones = StreamingSVRGClassifier(alpha=0.1).partial_fit(X[y == 1], y[y == 1], [0, 1])
    np.testing.assert_array_equal(model.coef_, ones.coef_)
    with pytest.raises(ValueError, match="class_weight leaves no example"):
        model.partial_fit(*blocks[0])
    with pytest.raises(ValueError, match="class_weight leaves no example"):
        model.fit_stream(blocks[:1], classes=[0, 1])
    np.testing.assert_array_equal(model.coef_, ones.coef_)


def test_streams_are_not_balanced(binary):
    X, y = binary

    def blocks():
        pytest.fail("the stream is read")
        yield X, y

    said = 'class_weight="balanced" is for a new fit.*compute_class_weight'
    model = StreamingSVRGClassifier(alpha=0.1, class_weight="balanced", random_state=0)
    with pytest.raises(ValueError, match=said):
        model.partial_fit(X, y, [0, 1])
    with pytest.raises(ValueError, match=said):
        model.fit_stream(blocks(), classes=[0, 1])
    model.set_params(warm_start=True).fit(X, y)  # the first rows
    coef = model.coef_
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=said):
            go_on(X, y)
    model.set_params(class_weight={0: 1.0})
    with pytest.raises(ValueError, match="class_weight must not change"):
        model.partial_fit(X, y)
    assert model.coef_ is coef
    for wrong, words in (("heavy", "must be a dict"), (3, "must be a dict")):
        with pytest.raises(ValueError, match=words):
            StreamingSVRGClassifier(class_weight=wrong).fit(X, y)


def test_sorted_labels_are_shuffled(binary):
    X, y = binary
    order = np.argsort(y)
    model = StreamingSVRGClassifier(kept_rows=50, alpha=0.01, random_state=0)
    assert model.fit(X[order], y[order]).score(X, y) > 0.8


def test_result_tells_sigma_squared_of_a_known_model():
    """Least squares with unit noise: sigma^2 = d / 2 with this half of the squared error."""
    random = np.random.default_rng(0)
    X = random.normal(size=(40_000, 6))
    y = X @ np.arange(6.0) + random.normal(size=40_000)
    result = StreamingSVRGRegressor(fit_intercept=False, random_state=0).fit(X, y).result_
    assert result.sigma_squared == pytest.approx(3, rel=0.1)
    assert result.excess_risk == pytest.approx(3 / 40_000, rel=0.1)
    assert result.progressive_loss == pytest.approx(0.5, rel=0.15)  # of 904 rows: three errors
    low, high = result.excess_risk_interval
    assert 0 < low < result.excess_risk < high
    assert repr(result).startswith("StreamResult(n_rows=40000, n_stages=4, ")
    shown = re.findall(r"(\w+)=", repr(result))
    assert all(hasattr(result, name) for name in shown) and shown[-1] == "excess_risk_interval"
    assert len(repr(result)) < 160


@pytest.mark.parametrize(("n_rows", "n_columns", "n_streams"), ((1600, 100, 40), (12_000, 600, 5)))
def test_excess_risk_of_models_with_few_rows_for_a_weight(n_rows, n_columns, n_streams):
    """Residuals of the rows that a model has seen are too small: it came out at 0.88."""
    found, told = [], []
    for seed in range(n_streams):
        random = np.random.default_rng(seed)
        X = random.normal(size=(n_rows, n_columns))
        y = X.sum(axis=1) + random.normal(size=n_rows)
        model = StreamingSVRGRegressor(fit_intercept=False).fit(X, y)
        found.append(((model.coef_ - 1) ** 2).sum() / 2)
        told.append(model.result_.excess_risk)
    assert np.mean(told) == pytest.approx(np.mean(found), rel=0.06)


def test_excess_risk_of_separable_classes_is_not_known_where_the_penalty_is_small():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 20))
    y = X @ random.normal(size=20) > 0
    model = StreamingSVRGClassifier(alpha=1e-2, random_state=0).fit(X, y)
    assert np.isfinite(model.result_.excess_risk_interval).all()
    for alpha in (1e-6, 1e-8, 0):
        model.set_params(alpha=alpha).fit(X, y)
        with pytest.warns(ConvergenceWarning, match=r"separable.*raise alpha"):
            assert np.isnan(model.result_.excess_risk)
        assert model.result_.excess_risk_interval == (0, np.inf)


def test_excess_risk_of_classes_is_not_known_if_that_of_one_is_not():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 5))
    y = np.where(X[:, 0] > 0, 2, random.integers(0, 2, size=3000))
    model = StreamingSVRGClassifier(alpha=1e-8, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="excess risk is not known"):
        result = model.result_
    known = [np.isfinite(part.excess_risk) for part in result.parts]
    assert known == [True, True, False]
    assert np.isnan(result.excess_risk) and result.excess_risk_interval[1] == np.inf


def test_class_weights_that_change_in_place_are_noticed():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = StreamingSVRGClassifier(alpha=0.1, class_weight={0: 1.0, 1: 2.0})
    model.partial_fit(X, y, classes=[0, 1])
    model.class_weight[1] = 50.0
    with pytest.raises(ValueError, match="class_weight must not change"):
        model.partial_fit(X, y)


def test_names_are_listed_without_a_look_at_the_model():
    """That of so few rows warns."""
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    computed = {"coef_", "intercept_", "n_iter_", "result_"}
    model = StreamingSVRGClassifier(random_state=0)
    assert computed.isdisjoint(dir(model))
    model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert computed < set(dir(model))
    with pytest.warns(ConvergenceWarning, match="the excess risk is not known"):
        model.result_  # noqa: B018  the warning comes with the first look


def test_warm_start_goes_on(regression):
    X, y = regression
    model = StreamingSVRGRegressor(warm_start=True, shuffle=False, kept_rows=50)
    model.fit(X[:100], y[:100]).fit(X[100:], y[100:])
    assert model.result_.n_rows == 200
    assert clone(model).set_params(warm_start=False).fit(X, y).result_.n_rows == 200


@pytest.mark.parametrize("d", [20, 1500])  # of many weights no copies are made for every block
class TestAFailureAfterAWarmStart:
    def parts(self, d):
        random = np.random.default_rng(0)
        return [
            (random.normal(size=(n, d)) / np.sqrt(d), random.normal(size=n)) for n in (300, 20, 5)
        ]

    def test_of_a_fit_changes_nothing(self, d):
        first, second, _ = self.parts(d)
        model = StreamingSVRGRegressor(warm_start=True, alpha=0.1, shuffle=False).fit(*first)
        before, same = model.coef_.copy(), pickle.loads(pickle.dumps(model))
        with pytest.raises(ValueError, match="range of floating-point numbers"):
            model.fit(second[0] * 1e160, second[1])
        assert model.result_.n_rows == 300
        np.testing.assert_array_equal(model.coef_, before)
        found = model.partial_fit(*second).coef_
        np.testing.assert_array_equal(found, same.partial_fit(*second).coef_)

    @pytest.mark.parametrize("is_looked_at", [False, True])
    def test_of_a_stream_keeps_whole_blocks(self, d, is_looked_at):
        first, second, third = self.parts(d)
        model = StreamingSVRGRegressor(warm_start=True, alpha=0.1).fit_stream([first])
        if is_looked_at:
            model.coef_  # noqa: B018  keeps it
        expected = clone(model).fit_stream([first, second]).coef_
        with pytest.raises(ValueError, match="NaN"):
            model.fit_stream([second, (np.full_like(third[0], np.nan), third[1])])
        assert model.result_.n_rows == 320
        np.testing.assert_array_equal(model.coef_, expected)
        with pytest.raises(ValueError, match="NaN"):
            model.fit_stream([(np.full_like(third[0], np.nan), third[1])])
        assert model.result_.n_rows == 320
        np.testing.assert_array_equal(model.coef_, expected)


def test_grid_search(binary):
    X, y = binary
    search = GridSearchCV(StreamingSVRGClassifier(random_state=0), {"alpha": [1e-3, 1e-1]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"alpha": -1}, "alpha must be"),
        ({"constants": "practice"}, "constants must be one of"),
        ({"constants": "theory"}, "needs smoothness and strong_convexity"),
        ({"hessian_ratio": 0.5}, "hessian_ratio must be"),
        ({"kept_rows": 0}, "kept_rows must be"),
        ({"growth": 1.0}, "growth must be"),
        ({"shuffle": "yes"}, "shuffle must be"),
        ({"smoothness": 0.0}, "smoothness must be"),
        ({"n_jobs": 1.5}, "n_jobs must be"),
    ],
)
def test_bad_parameters(options, message, binary):
    with pytest.raises(ValueError, match=message):
        StreamingSVRGClassifier(**options).fit(*binary)


def test_bad_blocks(binary):
    X, y = binary
    model = StreamingSVRGClassifier()
    with pytest.raises(ValueError, match="needs classes"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1])
    before = model.coef_
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X * np.nan, y)
    with pytest.raises(ValueError, match="fit_intercept must not change"):
        model.set_params(fit_intercept=False).partial_fit(X, y)
    model.set_params(fit_intercept=True)
    np.testing.assert_array_equal(model.coef_, before)  # nothing was lost


def test_counts_may_be_text_and_stay_counts():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.random.default_rng(1).poisson(np.exp(X[:, 0]))
    model = StreamingSVRGRegressor("poisson").fit(X, y)
    counts = model.predict(X)
    np.testing.assert_array_equal(model.set_params(loss="squared").predict(X), counts)
    text = StreamingSVRGRegressor("poisson").fit(X, y.astype(str))
    np.testing.assert_allclose(text.predict(X), counts, rtol=1e-12)


@pytest.mark.parametrize("model", [*cases(), StreamingSVRGRegressor("poisson")], ids=repr)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 30, 31, 32, 59, 60, 61, 75])
def test_the_source_may_end_anywhere(model, n_rows, request):
    """After one row, rows of one class, around and in the midst of stages of 30, 30 and others."""
    X, y = data_of(model, request)
    y = np.abs(np.round(y)) if model.loss == "poisson" else np.sort(y)
    blocks = [(X[k : k + 7][: n_rows - k], y[k : k + 7][: n_rows - k]) for k in range(0, n_rows, 7)]
    model = clone(model).set_params(kept_rows=30).fit_stream(blocks, **classes_of(model, y))
    with pytest.warns(ConvergenceWarning, match="excess risk is not known: few of the kept rows"):
        result = model.result_
    assert result.n_rows == n_rows
    stages = (n_rows >= 30) + (n_rows >= 60)
    assert model.n_iter_ == stages or (n_rows == 75 and stages < model.n_iter_ <= 7)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.predict(X)).all()
    assert np.isnan([result.sigma_squared, result.excess_risk]).all()
    assert result.excess_risk_interval == (0, np.inf)


def test_parameters_of_the_theory():
    theory = streaming_svrg_parameters(10.0, growth=3.0, order=2.0)
    assert theory.step == pytest.approx(1 / 540)
    assert theory.inner_steps == 540 * 10 * 540
    assert theory.first_stage == 10 * 540
    curved = {"constants": "theory", "smoothness": 5.0, "strong_convexity": 0.5}
    model = StreamingSVRGRegressor("huber", hessian_ratio=4.0, alpha=0.5, **curved)
    with pytest.warns(ConvergenceWarning):
        model.fit(np.eye(3), np.arange(3.0))
    assert model._solvers[0].first_stage == 4 * theory.first_stage
    # the stage bound of the paper contracts the error by 1 / (4 b^(p + 1))
    eta, m = theory.step, theory.inner_steps
    contraction = (10 / (m * eta) + 4 * eta) / (1 - 4 * eta)
    assert contraction == pytest.approx(1 / (4 * 27), rel=0.02)
    for bad in ({"growth": 2.0}, {"order": 1.0}, {"hessian_ratio": 0.5}):
        with pytest.raises(ValueError, match="must be a number"):
            streaming_svrg_parameters(10.0, **bad)
    with pytest.raises(ValueError, match="condition"):
        streaming_svrg_parameters(0.5)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("layout", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("options", [{"kept_rows": 100}, {"kept_rows": 350}, THEORY], ids=str)
def test_a_block_that_is_not_finite_is_not_taken(value, layout, options):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(1000, 4)), random.normal(size=1000)
    model = StreamingSVRGRegressor(random_state=0, **options)
    expected = clone(model).fit_stream(ArraySource(layout(X[:600]), y[:600], block_rows=200))
    X[777, 2] = value
    with pytest.raises(ValueError, match=r"block 4 .*X contains (NaN|infinity)"):
        model.fit_stream(ArraySource(layout(X), y, block_rows=200))
    np.testing.assert_equal(asdict(model.result_), asdict(expected.result_))
    np.testing.assert_array_equal(model.coef_, expected.coef_)


@pytest.mark.parametrize("n", [200, 40_000])
def test_a_first_block_that_is_not_finite_changes_nothing(n):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(n, 3)), np.where(random.random(n) < 0.5, -1, 1)
    X[n // 2, 1] = np.nan
    model, fitted = StreamingSVRGClassifier(), StreamingSVRGClassifier().fit(X[:50], y[:50])
    before = fitted.coef_.copy()
    for one in (model, fitted):
        with pytest.raises(ValueError, match=r"block 1 .*X contains NaN"):
            one.fit_stream(ArraySource(X, y), classes=[-1, 1])
    assert vars(model) == model.get_params()
    np.testing.assert_array_equal(fitted.coef_, before)


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("options", [{}, {"alpha": 1e-3, **THEORY}], ids=["practical", "theory"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_fit_to_rows_that_are_not_finite_changes_nothing(n, shuffle, options, layout):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(n, 3)), random.normal(size=n)
    X[n - 3, 1] = np.nan
    model = StreamingSVRGRegressor(shuffle=shuffle, random_state=0, **options)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(layout(X), y)
    assert vars(model) == model.get_params()


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_fit_in_order_is_a_stream(storage, monkeypatch):
    random = np.random.default_rng(0)
    X, y = storage(random.normal(size=(5000, 3))), random.normal(size=5000)
    whole = StreamingSVRGRegressor(shuffle=False, kept_rows=300).fit(X, y)
    stream = clone(whole).fit_stream(ArraySource(X, y, block_rows=700))
    np.testing.assert_array_equal(whole.coef_, stream.coef_)
    monkeypatch.setattr("sublinear.streaming.rows_of_a_block", lambda X: 900)
    np.testing.assert_array_equal(clone(whole).fit(X, y).coef_, whole.coef_)


def test_numbers_whose_squares_overflow_are_taken():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(1000, 4)), np.where(random.random(1000) < 0.5, -1, 1)
    X[777, 2] = 1e200
    model = StreamingSVRGClassifier("smoothed_hinge", kept_rows=100)
    model.fit_stream(ArraySource(X, y, block_rows=200), classes=[-1, 1])
    blocks = clone(model)
    for start in range(0, 1000, 200):
        rows = slice(start, start + 200)
        blocks.partial_fit(X[rows], y[rows], classes=[-1, 1])
    assert model.stream_.rows == blocks.result_.n_rows == model.result_.n_rows == 1000


@pytest.mark.parametrize("scale", [1e-154, 1e-160, 1e-200, 1e-300])
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_features_whose_squares_underflow_count_as_zeros(loss, scale):
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 3))
    scores = X @ np.array([1.0, -2.0, 3.0]) + random.normal(size=6000)
    if loss == "logistic":
        model, y = StreamingSVRGClassifier(loss), scores > 0
    else:
        model, y = StreamingSVRGRegressor(loss), scores
    expected = np.ravel(clone(model).fit(X * [1, 1, 0], y).coef_)
    found = np.ravel(model.fit(X * [1, 1, scale], y).coef_)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"constants": "theory", "smoothness": 1.0, "strong_convexity": 0.1}]
)
def test_weights_whose_sum_over_blocks_overflows_are_refused(regression, options):
    X, y = regression
    weights = np.full(len(y), 1e308 / len(y))
    model = StreamingSVRGRegressor(random_state=0, **options).partial_fit(X, y, weights)
    coef = model.coef_
    with pytest.raises(ValueError, match="the sum of sample_weight over all blocks"):
        model.partial_fit(X, y, weights)
    assert model.coef_ is coef


def test_newtons_method_that_has_too_few_steps_says_so_once(monkeypatch):
    monkeypatch.setattr("sublinear._core.inner_problem.MAX_NEWTON_STEPS", 2)
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 5)), np.where(random.random(300) < 0.5, -1, 1)
    with pytest.warns(ConvergenceWarning, match="Newton's method .* raise alpha") as found:
        model = StreamingSVRGClassifier(alpha=1e-3).fit(X, y)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert model.predict(X).shape == y.shape
    assert [warning.filename for warning in found] == [__file__]
    with pytest.warns(ConvergenceWarning, match="excess risk is not known"):
        assert model.result_.excess_risk_interval == (0, np.inf)


def test_looking_at_models_that_are_lazy(tmp_path):
    """scikit-learn's dir() asks for every attribute; so does the picture of a model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    model = StreamingSVRGRegressor().fit(X, X[:, 0] + random.normal(size=300))
    save_model(model, tmp_path / "model")
    for seen in (model, load_model(tmp_path / "model")):
        assert "coef_" in dir(seen)
        assert "StreamingSVRGRegressor" in seen._repr_html_()
    with pytest.raises(ValueError, match="scale X"):
        StreamingSVRGRegressor().fit(X * 1e160, X[:, 0] * 1e160)


def test_steps_that_are_too_long_call_for_more_smoothness():
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 4))
    options = {"smoothness": 0.5, "step": 1.0, "first_stage": 200, "inner_steps": 500}
    model = StreamingSVRGRegressor(**THEORY | options, random_state=0)
    with pytest.raises(ValueError, match="raise smoothness"):
        model.fit(X, X[:, 0])


def test_a_first_stage_without_a_step_says_so(regression):
    X, y = regression
    model = StreamingSVRGRegressor(**THEORY | {"first_stage": len(y) + 1}, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"no step after {len(y)} rows.* {len(y) + 1} rows"):
        assert not model.fit(X, y).coef_.any()


def test_theory_with_all_constants_given(regression):
    X, y = regression
    known = {"smoothness": 50.0, "strong_convexity": 0.1, "constants": "theory"}
    steps = {"step": 0.05, "first_stage": 20, "inner_steps": 20}
    model = StreamingSVRGRegressor(growth=2.0, **known, **steps).fit(X, y)
    assert model.n_iter_ > 1 and np.isfinite(model.coef_).all()
    with pytest.raises(ValueError, match="growth"):
        StreamingSVRGRegressor(growth=2.0, **known).fit(X, y)
    with pytest.raises(ValueError, match="smoothness must be at least strong_convexity"):
        StreamingSVRGRegressor(**(known | {"smoothness": 0.01})).fit(X, y)


@pytest.mark.parametrize("scale", [1e10, 1e15])
def test_large_counts(scale):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    y = random.poisson(scale * np.exp(0.5 * X[:, 0])).astype(float)
    model = StreamingSVRGRegressor("poisson").fit(X, y)
    np.testing.assert_allclose(model.coef_, [0.5, 0, 0], atol=1e-5)
    assert model.intercept_ == pytest.approx(np.log(scale), abs=1e-5)


@pytest.mark.parametrize("learn", ["fit", "partial_fit", "fit_stream"])
def test_values_that_are_not_finite_are_refused_in_rows_of_weight_zero_too(learn):
    random = np.random.default_rng(0)
    X, y, weights = random.normal(size=(500, 3)), random.normal(size=500), np.ones(500)
    X[77, 1], weights[77] = np.nan, 0.0
    model = StreamingSVRGRegressor()
    with pytest.raises(ValueError, match="X contains NaN"):
        if learn == "fit_stream":
            model.fit_stream([(X, y, weights)])
        else:
            getattr(model, learn)(X, y, weights)


@pytest.mark.parametrize(
    ("offset", "options", "is_known"),
    [
        (0.0, {}, True),
        (1e5, {}, True),
        (1e9, {}, True),
        (1e9, {"alpha": 1e-6, "penalize_intercept": False}, True),
        (5e6, {"alpha": 1e-6}, False),
        (1e8, {"alpha": 1e-6}, False),
    ],
)
def test_columns_far_from_0_have_no_false_interval(offset, options, is_known):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 4))
    y = X @ [1, 2, 3, 4.0] + random.normal(size=3000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = StreamingSVRGRegressor(shuffle=False, **options).fit(X + offset, y)
        result = model.result_
    if is_known:
        residual = model.predict(X + offset) - y
        assert result.excess_risk_interval[1] < 0.01 and (residual**2).mean() < 1.1
    else:
        assert np.isnan(result.excess_risk) and result.excess_risk_interval == (0, np.inf)
        assert any("centre them" in str(one.message) for one in caught)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_origins_do_not_matter_where_columns_are_centred(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 5))
    y = X @ np.arange(5.0) + random.normal(size=20_000)
    make = StreamingSVRGClassifier if loss == "logistic" else StreamingSVRGRegressor
    y = np.sign(y) if loss == "logistic" else y
    offsets = 1e7 * np.array([0, 1, 0, -1, 10])
    here, there = (make(loss, kept_rows=512, shuffle=False).fit(Z, y) for Z in (X, X + offsets))
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-3, atol=1e-4)
    assert there.result_.excess_risk == pytest.approx(here.result_.excess_risk, rel=0.05)


def test_many_columns_away_from_0_have_no_false_interval():
    random = np.random.default_rng(0)
    n, d = 9000, 600
    X, w = random.normal(size=(n, d)), random.normal(size=d) / d**0.5
    y = X @ w + random.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = StreamingSVRGRegressor(alpha=1e-9, shuffle=False).fit(X + 100, y)
    error = model.coef_ - w
    risk = (error @ error + (model.intercept_ + 100 * model.coef_.sum()) ** 2) / 2
    low, high = model.result_.excess_risk_interval
    assert low / 1.5 <= risk <= 1.5 * high  # before it was told to be a fourteenth of that


@pytest.mark.parametrize("n_features", [20, 1500])
def test_the_excess_risk_does_not_depend_on_the_unit_of_weights(n_features):
    random = np.random.default_rng(0)
    n_rows, X = 6000, random.normal(size=(6000, n_features))
    if n_features > 100:
        n_rows = 20_000
        X = sparse.random_array((n_rows, n_features), density=0.003, format="csr", rng=random)
    y = X @ random.normal(size=n_features) + 0.1 * random.normal(size=n_rows)
    found = []
    for weight in (1.0, 2.0**-10, 2.0**-40, 2.0**20):
        model = StreamingSVRGRegressor(alpha=0.01).fit(X, y, np.full(n_rows, weight))
        found.append((model.result_.excess_risk, *model.result_.excess_risk_interval))
    assert found[0][0] > 0
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=0.1)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_excess_risk_is_not_known_where_a_few_rows_are_far_longer(make):
    random = np.random.default_rng(0)
    X = random.normal(size=(40_000, 10))
    y = X @ random.normal(size=10) + random.normal(size=40_000)
    assert StreamingSVRGRegressor().fit(make(X), y).result_.excess_risk > 0
    X[39_990:39_993] *= 1000
    model = StreamingSVRGRegressor(shuffle=False).fit(make(X), y)
    with pytest.warns(ConvergenceWarning, match="far longer than the kept ones"):
        assert model.result_.excess_risk_interval == (0, np.inf)
