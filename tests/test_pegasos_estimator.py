"""PegasosClassifier as its users see it: fit, streams, averages, warm starts."""

import math
import pickle

import numpy as np
import pytest
from reference.losses import LOSSES
from reference.objective import primal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

from sublinear import (
    KernelPegasosClassifier,
    PegasosClassifier,
    PegasosRegressor,
    SDCAClassifier,
)
from sublinear._certified_model import problem_mark
from sublinear._core.matrix import Matrix
from sublinear._drive import _Timing

LOSSES_OF_PEGASOS = ("hinge", "smoothed_hinge", "logistic")
FEW_EPOCHS = {"alpha": 1e-2, "tol": 0, "max_iter": 7, "random_state": 0}
AVERAGES = ("last", "mean", "tail")
SAMPLINGS = ("shuffle", "fixed", "replacement", "subsets")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def objective(model, X, y, weights=None, k=0):
    """The primal value by NumPy, from fitted attributes alone; y holds targets."""
    X = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=np.float64)
    w = model.coef_[k].astype(np.float64)
    if model.fit_intercept:
        X = np.column_stack([X, np.full(len(X), model.intercept_scaling)])
        w = np.append(w, model.intercept_[k] / model.intercept_scaling)
    loss = LOSSES[model.loss]()
    return primal(X, y, loss, model.alpha, w, weights)


def signs(y):
    return np.where(y, 1.0, -1.0)


def chunks(n, size):
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


# ---------------------------------------------------------------- fit


@pytest.mark.parametrize("loss", LOSSES_OF_PEGASOS)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("projection", [False, True])
def test_it_converges_to_the_optimum_of_sdca(binary, loss, average, projection):
    X, y = binary
    best = SDCAClassifier(loss, alpha=0.1, tol=1e-8, random_state=0).fit(X, y).result_.primal
    model = PegasosClassifier(
        loss, alpha=0.1, tol=1e-2, average=average, projection=projection, random_state=0
    ).fit(X, y)
    result = model.result_
    assert result.status == "converged"
    assert best * (1 - 1e-7) <= result.primal <= best * 1.01 / 0.99
    assert result.dual <= best * (1 + 1e-12)
    assert result.primal == pytest.approx(objective(model, X, signs(y)), rel=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("alpha", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_projection_helps_at_any_alpha(binary, average, alpha, scale):
    X, y = binary
    X = X * scale
    settings = {"alpha": alpha, "average": average, "max_iter": 50, "tol": 0, "random_state": 0}
    free = PegasosClassifier(**settings).fit(X, y)
    projected = PegasosClassifier(projection=True, **settings).fit(X, y)
    length = np.sqrt(np.sum(projected.coef_**2) + projected.intercept_[0] ** 2)
    assert length <= np.sqrt(1 / alpha) * (1 + 1e-9)
    assert projected.result_.primal == pytest.approx(objective(projected, X, signs(y)), rel=1e-9)
    assert projected.result_.primal <= 2 * free.result_.primal + 1


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("batch_size", [1, 3, 64, "all"])
def test_every_order_and_batch_size_learns(binary, sampling, batch_size):
    X, y = binary
    model = PegasosClassifier(
        alpha=0.05, sampling=sampling, batch_size=batch_size, random_state=0, tol=0, max_iter=300
    ).fit(X, y)
    best = SDCAClassifier(alpha=0.05, tol=1e-6, random_state=0).fit(X, y).result_.primal
    assert model.result_.primal <= 1.1 * best
    assert model.result_.dual <= best <= model.result_.primal * (1 + 1e-6)


@pytest.mark.parametrize("batch_size", [1, 16, "all"])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("projection", [False, True])
def test_every_csr_type_gives_the_same_bits(binary, batch_size, average, projection):
    X, y = binary
    models = {}
    for dtype in (np.float32, np.float64):
        for index in (np.int32, np.int64):
            S = sparse.csr_array(X.astype(dtype))
            S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
            models[dtype, index] = PegasosClassifier(
                batch_size=batch_size, average=average, projection=projection, **FEW_EPOCHS
            ).fit(S, y)
    first = models[np.float64, np.int32]
    np.testing.assert_array_equal(first.coef_, models[np.float64, np.int64].coef_)
    for index in (np.int32, np.int64):
        coef = models[np.float32, index].coef_
        assert coef.dtype == np.float32
        np.testing.assert_array_equal(coef, first.coef_.astype(np.float32))
    dense = PegasosClassifier(
        batch_size=batch_size, average=average, projection=projection, **FEW_EPOCHS
    ).fit(X, y)
    np.testing.assert_allclose(dense.coef_, first.coef_, rtol=1e-9, atol=1e-12)


def test_batch_size_all_needs_no_randomness_and_weights_equal_repetition(binary):
    X, y = binary
    weights = np.random.default_rng(0).integers(0, 4, size=200)
    settings = {"alpha": 0.01, "batch_size": "all", "tol": 0, "max_iter": 50, "random_state": 1}
    weighted = PegasosClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = PegasosClassifier(**settings | {"random_state": 2}).fit(
        X.repeat(weights, axis=0), y.repeat(weights)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    by_class = PegasosClassifier(class_weight={1: 3}, **settings).fit(X, y)
    by_example = PegasosClassifier(**settings).fit(X, y, np.where(y, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_example.coef_)
    balanced = PegasosClassifier(class_weight="balanced", **settings).fit(X, y)
    by_example = PegasosClassifier(**settings).fit(X, y, 200 / (2 * np.bincount(y)[y]))
    np.testing.assert_allclose(balanced.coef_, by_example.coef_, rtol=1e-9)


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("multi_class", ["ovr", "joint"])
def test_weights_are_repetitions_in_any_order(multiclass, multi_class, sampling, batch_size):
    X, y = multiclass
    random = np.random.default_rng(0)
    weights = random.integers(0, 4, size=len(y))
    copies = random.permutation(np.repeat(np.arange(len(y)), weights))
    model = PegasosClassifier(
        multi_class=multi_class, sampling=sampling, batch_size=batch_size, **FEW_EPOCHS
    )
    coef = model.fit(X, y, weights).coef_
    np.testing.assert_allclose(model.fit(X[copies], y[copies]).coef_, coef, rtol=1e-10)
    order = random.permutation(len(y))
    model.fit(sparse.csr_array(X[order]), y[order], 1000 * weights[order])
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bias", ["subgradient", "batch", "search"])
def test_weights_are_repetitions_for_every_bias(binary, bias):
    X, y = binary
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    model = PegasosClassifier(bias=bias, batch_size=8, alpha=0.05, max_iter=40, random_state=0)
    coef = model.fit(X, y, weights).coef_
    repeated = model.fit(X.repeat(weights, axis=0), y.repeat(weights)).coef_
    np.testing.assert_allclose(repeated, coef, rtol=1e-9)


def test_tables_of_few_different_rows():
    """An epoch is over all rows, not over the different ones alone."""
    X = np.repeat(np.eye(2), 2000, axis=0)
    chances = np.repeat([0.8, 0.3], 2000)
    y = np.random.default_rng(0).random(4000) < chances
    for weights in (None, np.full(4000, 0.3)):
        model = PegasosClassifier(alpha=1e-2, random_state=0).fit(X, y, weights)
        assert model.result_.status == "converged"
        assert model.result_.accesses >= 2 * 4000


def test_weights_in_stochastic_steps(binary):
    X, y = binary
    weights = np.random.default_rng(0).integers(0, 4, size=200)
    model = PegasosClassifier(alpha=0.1, tol=1e-2, random_state=0).fit(X, y, weights)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(objective(model, X, signs(y), weights), rel=1e-12)
    exact = SDCAClassifier(alpha=0.1, tol=1e-8, random_state=0).fit(X, y, weights)
    assert model.result_.dual <= exact.result_.primal <= model.result_.primal * (1 + 1e-7)


def test_zero_weights_do_not_matter(binary):
    X, y = binary
    weights = (np.arange(200) % 4 > 0).astype(float)
    flipped = np.where(weights > 0, y, 1 - y)
    models = [PegasosClassifier(**FEW_EPOCHS).fit(X, labels, weights) for labels in (y, flipped)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES_OF_PEGASOS)
def test_the_primal_is_that_of_the_fitted_attributes(binary, dtype, storage, intercept, loss):
    X, y = binary
    X = storage(X.astype(dtype))
    model = PegasosClassifier(
        loss, alpha=1e-2, fit_intercept=intercept, intercept_scaling=2.0, max_iter=30
    ).fit(X, y)
    result = model.result_
    assert result.primal == pytest.approx(objective(model, X, signs(y)), rel=1e-12)
    assert result.gap == max(0, result.primal - result.dual)
    for row in result.trace:
        assert row.primal >= row.dual
    assert result.trace[-1].gap == result.gap


@pytest.mark.parametrize("budget", [1, 100, 2399, 2400, 2401, 54_321])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_the_budget_is_never_exceeded_and_used(binary, budget, batch_size):
    X, y = binary
    model = PegasosClassifier(
        alpha=1e-4, max_accesses=budget, tol=1e-12, batch_size=batch_size, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=f"max_accesses={budget}"):
        model.fit(X, y)
    assert model.result_.status == "max_accesses"
    assert budget - batch_size * X.shape[1] < model.result_.accesses <= budget
    assert np.isfinite(model.coef_).all()


def test_the_first_epoch_reads_every_stored_value_once(binary):
    X, y = binary
    for data, stored in ((X, X.size), (sparse.csr_array(X), np.count_nonzero(X))):
        model = PegasosClassifier(max_iter=1, tol=0).fit(data, y)
        assert model.result_.accesses == stored
        assert model.n_iter_ == 1


def test_seeds_and_threads(multiclass):
    X, y = multiclass
    models = [PegasosClassifier(n_jobs=n, **FEW_EPOCHS).fit(X, y) for n in (None, 1, 2, 64)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.intercept_, models[0].intercept_)
    other = PegasosClassifier(**FEW_EPOCHS | {"random_state": 1}).fit(X, y)
    assert (other.coef_ != models[0].coef_).any()
    for state in (np.random.RandomState, np.random.default_rng):
        first, second = (
            PegasosClassifier(**FEW_EPOCHS | {"random_state": state(0)}).fit(X, y) for _ in range(2)
        )
        np.testing.assert_array_equal(first.coef_, second.coef_)


def test_multiclass(multiclass):
    X, y = multiclass
    names = np.array(["c", "a", "b"])
    model = PegasosClassifier("logistic", alpha=1e-2, max_iter=50, random_state=0).fit(X, names[y])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, names[y]) > 0.7
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    assert len(model.result_.parts) == 3
    for k, part in enumerate(model.result_.parts):
        targets = np.where(names[y] == model.classes_[k], 1.0, -1.0)
        assert part.primal == pytest.approx(objective(model, X, targets, k=k), rel=1e-12)
    assert model.result_.primal == pytest.approx(sum(p.primal for p in model.result_.parts))


def test_squared_hinge_is_refused_without_projection(binary):
    with pytest.raises(ValueError, match="needs projection=True"):
        PegasosClassifier("squared_hinge").fit(*binary)


# ---------------------------------------------------------------- projection in streams


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("rows", [1, 50])
def test_the_ball_is_that_of_all_blocks(loss, rows):
    random = np.random.default_rng(0)
    X = random.standard_normal((4000, 3))
    y = X @ [3.0, -2.0, 1.0] + 0.1 * random.standard_normal(4000)
    model = PegasosRegressor(loss, alpha=1e-2, projection=True, random_state=0)
    for k in range(0, len(X), rows):
        model.partial_fit(X[k : k + rows], y[k : k + rows])
    assert np.mean((model.predict(X) - y) ** 2) < 0.05


@pytest.mark.parametrize("average", AVERAGES)
def test_targets_of_zero_leave_the_ball_alone(average):
    X = np.random.default_rng(0).standard_normal((120, 5))
    y = X[:, 0]
    settings = {"alpha": 1e-3, "projection": True, "average": average, "random_state": 0}
    stream = PegasosRegressor("squared", **settings).partial_fit(X[:100], y[:100])
    stream.partial_fit(X[100:], np.zeros(20))
    assert np.linalg.norm(stream.coef_) < 30
    again = PegasosRegressor("squared", warm_start=True, max_iter=2, tol=0, **settings)
    again.fit(X, y).fit(X[100:], np.zeros(20))
    assert np.linalg.norm(again.coef_) < 30
    zeros = PegasosRegressor("squared", **settings).fit(X, np.zeros(120))
    assert not zeros.coef_.any() and zeros.result_.status == "converged"


def test_the_ball_of_classes_that_cost_more(multiclass):
    X, y = multiclass
    cost = np.array([[0, 1, 9], [1, 0, 9], [1, 1, 0]])
    settings = {"cost": cost, "multi_class": "joint", "alpha": 1e-2, "random_state": 0}
    models = [PegasosClassifier(projection=p, **settings) for p in (False, True)]
    for k in range(len(X)):
        for model in models:
            model.partial_fit(X[k : k + 1], y[k : k + 1], classes=np.unique(y))
    free, projected = (np.linalg.norm(model.coef_) for model in models)
    assert projected > 0.5 * free


def test_pickle_clone_and_grid_search(binary):
    X, y = binary
    model = PegasosClassifier(**FEW_EPOCHS).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)
    grid = {"alpha": [1e-3, 1e-1], "average": list(AVERAGES)}
    assert GridSearchCV(clone(model), grid, cv=2).fit(X, y).best_score_ > 0.7


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("average", AVERAGES)
def test_a_warm_start_goes_on(binary, average):
    X, y = binary
    settings = FEW_EPOCHS | {"max_iter": 5, "average": average, "batch_size": "all"}
    model = PegasosClassifier(warm_start=True, **settings).fit(X, y)
    first = model.result_.primal
    for _ in range(3):
        model.fit(X, y)
    straight = PegasosClassifier(**settings | {"max_iter": 20}).fit(X, y)
    np.testing.assert_allclose(model.coef_, straight.coef_, rtol=1e-9)
    assert model.result_.primal < first
    cold = model.set_params(warm_start=False).fit(X, y)
    assert cold.result_.primal == first


def test_a_warm_start_keeps_the_certificate(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.05, warm_start=True, random_state=0, tol=1e-2).fit(X, y)
    first = model.result_
    again = model.fit(X, y).result_
    assert first.status == again.status == "converged"
    assert again.n_iter <= first.n_iter


@pytest.mark.parametrize("before", AVERAGES)
@pytest.mark.parametrize("after", AVERAGES)
@pytest.mark.parametrize("stream", [False, True])
def test_the_average_may_change_between_starts(binary, before, after, stream):
    X, y = binary
    model = PegasosClassifier(average=before, warm_start=True, **FEW_EPOCHS)
    for average in (before, after):
        model.set_params(average=average)
        model = model.partial_fit(X, y, classes=[0, 1]) if stream else model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("change", [{"fit_intercept": False}, {"intercept_scaling": 2.0}])
def test_a_warm_start_with_another_intercept(binary, change):
    X, y = binary
    model = PegasosClassifier(alpha=0.05, warm_start=True, random_state=0, tol=1e-2).fit(X, y)
    model.set_params(**change).fit(X, y)
    assert model.result_.status == "converged"
    back = model.set_params(fit_intercept=True, intercept_scaling=1.0).fit(X, y)
    assert back.result_.status == "converged"


def test_a_warm_start_from_other_data_starts_anew(binary, multiclass):
    X, y = binary
    model = PegasosClassifier(warm_start=True, **FEW_EPOCHS)
    for data in ((X, y), (X[:, :5], y), (X, y), multiclass, (X, y + 5), (X[:50], y[:50] + 5)):
        model.fit(*data)
        assert model.coef_.shape[1] == data[0].shape[1]
        assert model.score(*data) > 0.6
    anew = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, anew.coef_)


@pytest.mark.parametrize("make", [PegasosClassifier, KernelPegasosClassifier])
def test_a_warm_start_of_another_problem_starts_anew(binary, make):
    """Steps that have become small do not lead to another optimum."""
    X, y = binary
    strength = {"C": 0.01} if make is KernelPegasosClassifier else {"alpha": 10.0}
    weights = np.arange(len(y)) % 3.0
    changes = [
        (strength, X, y, None),
        ({}, X, 1 - y, None),
        ({}, X, y, weights),
        ({}, X * np.r_[2.0, np.ones(X.shape[1] - 1)], y, None),
        ({}, np.roll(X, 1, axis=1), y, None),
        ({}, X[:-1], y[:-1], None),
        ({"loss": "logistic"}, X, y, None),
    ]
    for change, rows, labels, sample_weight in changes:
        model = make(tol=1e-2, max_iter=50, warm_start=True, random_state=0).fit(X, y)
        model.set_params(**change).fit(rows, labels, sample_weight)
        cold = clone(model).fit(rows, labels, sample_weight)
        np.testing.assert_array_equal(model.decision_function(X), cold.decision_function(X))


def test_a_warm_start_after_blocks_of_another_problem_starts_anew(binary):
    X, y = binary
    model = PegasosClassifier(warm_start=True, **FEW_EPOCHS).fit(X, y)
    first = model.coef_.copy()
    model.partial_fit(-X, y).fit(X, y)
    np.testing.assert_array_equal(model.coef_, first)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_mark_tells_matrices_apart(storage):
    """Of many rows, some; whatever their number type."""
    X, y = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32), np.arange(1000)
    others = [X.astype(float), 2 * X, X[::-1], X[:, ::-1], X + np.eye(3, dtype=int)[1], X[:999]]
    marks = [problem_mark(PegasosRegressor(), Matrix(storage(A)), y, None) for A in (X, *others)]
    assert marks[0] == marks[1] and len(set(marks)) == len(others)


# ---------------------------------------------------------------- partial_fit


def test_the_first_call_needs_classes(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1)
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1]).partial_fit(X, y).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes differ"):
        model.partial_fit(X, y, classes=[0, 1, 2])


@pytest.mark.parametrize("labels", [[7], ["a"], [0.5]])
def test_labels_that_were_not_announced(binary, labels):
    X, y = binary
    model = PegasosClassifier(alpha=0.1)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:1], labels, classes=[0, 1])
    model.partial_fit(X, y, classes=[0, 1])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:1], labels)
    np.testing.assert_array_equal(model.coef_, before)


def test_partial_fit_goes_on(binary):
    X, y = binary
    model = PegasosClassifier(alpha=1e-2, random_state=0, average="last")
    errors = []
    for _ in range(60):
        model.partial_fit(X, y, classes=[0, 1])
        errors.append(objective(model, X, signs(y)))
    assert np.mean(errors[-5:]) < np.mean(errors[:5])
    best = SDCAClassifier(alpha=1e-2, tol=1e-6, random_state=0).fit(X, y).result_.primal
    assert errors[-1] < 1.2 * best
    assert model.result_.status == "partial_fit"
    assert model.n_iter_ == 1
    assert model.result_.gap == np.inf and np.isnan(model.result_.primal)


@pytest.mark.parametrize("average", AVERAGES)
def test_a_stream_is_as_good_as_one_fit(sparse_problem, average):
    X, y = sparse_problem
    order = np.random.default_rng(0).permutation(len(y))
    stream = PegasosClassifier(alpha=1e-3, random_state=0, average=average)
    for part in chunks(len(y), 250):
        stream.partial_fit(X[order[part]], y[order[part]], classes=[0, 1])
    settings = {"alpha": 1e-3, "random_state": 0, "average": average, "max_iter": 1, "tol": 0}
    whole = PegasosClassifier(**settings).fit(X, y)
    assert objective_of(stream, X, y) <= 1.05 * objective_of(whole, X, y)
    assert stream.score(X, y) >= whole.score(X, y) - 0.02


def objective_of(model, X, y):
    margins = signs(y) * model.decision_function(X)
    square = np.sum(model.coef_**2) + model.intercept_[0] ** 2
    return model.alpha / 2 * square + np.mean(np.maximum(0, 1 - margins))


def test_the_average_is_kept_over_calls(binary):
    """Batches of all examples take one known step per call: the same as one fit."""
    X, y = binary
    for average in AVERAGES:
        settings = {"alpha": 1e-2, "batch_size": "all", "average": average}
        stream = PegasosClassifier(**settings)
        for _ in range(12):
            stream.partial_fit(X, y, classes=[0, 1])
        whole = PegasosClassifier(max_iter=12, tol=0, **settings).fit(X, y)
        np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9)


def test_partial_fit_of_a_last_short_chunk(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1, batch_size=32, random_state=0)
    for part in 20 * chunks(200, 48):  # the last one has 8 examples
        model.partial_fit(X[part], y[part], classes=[0, 1])
    best = SDCAClassifier(alpha=0.1, tol=1e-9, random_state=0).fit(X, y)
    distance = np.linalg.norm(model.coef_ - best.coef_)
    assert distance < 0.05 * np.linalg.norm(best.coef_)


@pytest.mark.parametrize("learning_rate", ["pegasos", "norma"])
@pytest.mark.parametrize("sampling", ["shuffle", "fixed"])
@pytest.mark.parametrize("batch_size", [66, 199])
def test_a_short_batch_counts_by_its_size(batch_size, sampling, learning_rate, binary):
    X, y = binary
    options = {"sampling": sampling, "learning_rate": learning_rate}
    if learning_rate == "norma":
        options["eta0"] = 0.5
    model = PegasosClassifier(
        "logistic", alpha=0.1, batch_size=batch_size, max_iter=3000, tol=0, random_state=0,
        **options,
    )  # fmt: skip
    model.fit(X, y)
    best = SDCAClassifier("logistic", alpha=0.1, tol=1e-9, random_state=0).fit(X, y)
    assert model.result_.primal <= (1 + 1e-4) * best.result_.primal


def test_partial_fit_of_single_examples(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1, random_state=0)
    for i in range(200):
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.7


def test_partial_fit_multiclass_in_any_order(multiclass):
    X, y = multiclass
    names = np.array(["x", "y", "z"])[y]
    model = PegasosClassifier("logistic", alpha=1e-2, random_state=0, n_jobs=2)
    for part in [names == "z", names == "x", names == "y"] + 20 * chunks(240, 40):
        model.partial_fit(X[part], names[part], classes=["z", "x", "y"])
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert model.coef_.shape == (3, X.shape[1])
    assert model.score(X, names) > 0.7
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)


def test_partial_fit_weights(binary):
    X, y = binary
    settings = {"alpha": 1e-2, "random_state": 0}
    flipped = np.where(np.arange(200) < 100, y, 1 - y)
    weights = np.where(np.arange(200) < 100, 1.0, 0.0)
    models = []
    for labels in (y, flipped):
        model = PegasosClassifier(**settings)
        for _ in range(3):
            model.partial_fit(X, labels, classes=[0, 1], sample_weight=weights)
        models.append(model)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_partial_fit_is_reproducible_and_survives_pickling(binary):
    X, y = binary
    models = [PegasosClassifier(alpha=1e-2, random_state=3) for _ in range(2)]
    for model in models:
        model.partial_fit(X, y, classes=[0, 1]).partial_fit(X, y)
    models[1] = pickle.loads(pickle.dumps(models[1]))
    for model in models:
        model.partial_fit(X, y)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_partial_fit_goes_on_from_fit(binary):
    X, y = binary
    model = PegasosClassifier(alpha=1e-2, max_iter=50, random_state=0).fit(X, y)
    fitted = objective(model, X, signs(y))
    model.partial_fit(X, y)
    assert objective(model, X, signs(y)) < 1.1 * fitted
    fresh = clone(model).fit(X, y).coef_
    np.testing.assert_array_equal(model.fit(X, y).coef_, fresh)


def test_partial_fit_checks_the_number_of_features(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :5], y)


def test_a_failed_first_call_leaves_no_trace(binary):
    X, y = binary
    model = PegasosClassifier(alpha=0.1, random_state=0)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:, :3], y + 5, classes=[0, 1])
    model.partial_fit(X, y, classes=[0, 1])
    assert model.score(X, y) > 0.7


def test_a_warm_start_sees_all_costs():
    y, cost = np.arange(400) % 40, 1.0 - np.eye(40)
    other = cost.copy()
    other[20, 30] = 50.0
    marks = []
    for matrix in (cost, other, cost.copy()):
        model = PegasosClassifier(multi_class="joint", cost=matrix, max_iter=2, tol=0)
        marks.append(problem_mark(model, Matrix(np.ones((400, 1))), y, None))
    assert marks[0] != marks[1] and marks[0] == marks[2]


@pytest.mark.parametrize("average", ["last", "mean", "tail", "random"])
@pytest.mark.parametrize("options", [{}, {"max_accesses": 12_345}, {"batch_size": 7, "tol": 0.05}])
def test_ends_of_epochs_that_are_passed_over_change_nothing(monkeypatch, average, options):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    y = np.sign(X @ random.normal(size=4) + 0.3 * random.normal(size=60))
    found = []
    for _ in range(2):
        model = PegasosClassifier(average=average, max_iter=700, random_state=0, **options)
        model.fit(X, y)
        trace = [row._replace(seconds=0) for row in model.result_.trace]
        found.append((model.coef_.tolist(), model.n_iter_, model.result_.status, trace))
        monkeypatch.setattr(_Timing, "quiet", lambda self: (0.0, math.inf))
    assert found[0] == found[1]
