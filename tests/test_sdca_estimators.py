"""SDCAClassifier and SDCARegressor as their users see them."""

import itertools
import multiprocessing
import pickle
import sys
import threading
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from layouts import csr
from reference import objective as values
from reference.losses import LOSSES
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC, LinearSVR

from sublinear import (
    L2SVMClassifier,
    PegasosClassifier,
    SDCAClassifier,
    SDCARegressor,
    StreamingSVRGClassifier,
)
from sublinear._linear_model import by_rows
from sublinear.datasets import make_sparse_classification
from sublinear.sources import ArraySource

MARGIN = ("hinge", "squared_hinge", "smoothed_hinge", "logistic")
REGRESSION = ("squared", "absolute", "epsilon_insensitive", "huber")
TIGHT = {"alpha": 0.05, "tol": 1e-12, "max_iter": 100_000, "random_state": 0}


def exact_loss(model):
    if model.loss == "smoothed_hinge":
        return LOSSES[model.loss](model.smoothing)
    if model.loss in ("epsilon_insensitive", "huber"):
        return LOSSES[model.loss](model.epsilon)
    return LOSSES[model.loss]()


def dense(X):
    return np.asarray(X.todense() if sparse.issparse(X) else X, dtype=np.float64)


def certificate(model, X, y, weights=None, k=0):
    """Primal and dual of problem k by NumPy, from fitted attributes alone; y holds targets."""
    X = dense(X)
    w = np.atleast_2d(model.coef_)[k].astype(np.float64)
    if model.fit_intercept:
        X = np.column_stack([X, np.full(len(X), model.intercept_scaling)])
        w = np.append(w, np.ravel(model.intercept_)[k] / model.intercept_scaling)
    loss, a = exact_loss(model), np.atleast_2d(model.dual_coef_)[k]
    return (
        values.primal(X, y, loss, model.alpha, w, weights),
        values.dual(X, y, loss, model.alpha, a, weights),
    )


def same(model, other, exact=True):
    """Assert that two models are the same, to the bit or to rounding."""
    pairs = [(model.coef_, other.coef_), (model.intercept_, other.intercept_)]
    for ours, theirs in pairs:
        if exact:
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def make(loss, **parameters):
    return (SDCAClassifier if loss in MARGIN else SDCARegressor)(loss, **parameters)


@pytest.fixture
def problem(binary, regression):
    """problem(loss): X, y as users pass it, and the solver's targets."""

    def of(loss):
        X, y = binary if loss in MARGIN else regression
        return X, y, (np.where(y, 1.0, -1.0) if loss in MARGIN else y)

    return of


# ---------------------------------------------------------------- one answer for every storage


FEW_EPOCHS = {"alpha": 1e-3, "tol": 0, "max_iter": 7, "random_state": 0}


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
@pytest.mark.parametrize("pack", [True, False])
def test_every_csr_type_gives_the_same_bits(problem, loss, pack):
    X, y, _ = problem(loss)
    models = {
        (dtype, index): make(loss, pack=pack, **FEW_EPOCHS).fit(csr(X, dtype, index), y)
        for dtype in (np.float32, np.float64)
        for index in (np.int32, np.int64)
    }
    first = models[np.float64, np.int32]
    same(first, models[np.float64, np.int64])
    same(models[np.float32, np.int32], models[np.float32, np.int64])
    narrow = models[np.float32, np.int32]
    assert narrow.coef_.dtype == np.float32
    np.testing.assert_array_equal(narrow.dual_coef_, first.dual_coef_)
    np.testing.assert_array_equal(narrow.coef_, first.coef_.astype(np.float32))


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
def test_packed_rows_give_the_same_bits(problem, loss):
    X, y, _ = problem(loss)
    S = sparse.csr_array(X)
    same(*(make(loss, pack=pack, **FEW_EPOCHS).fit(S, y) for pack in (True, False)))


def test_what_cannot_be_packed_is_told_to_do_without(binary):
    X, y = binary
    with pytest.raises(ValueError, match='use pack="auto"'):
        SDCAClassifier(pack=True, **FEW_EPOCHS).fit(X, y)
    with pytest.raises(ValueError, match='use pack="auto"'):
        SDCAClassifier(pack=True, **FEW_EPOCHS).fit(1e60 * sparse.csr_array(X), y)


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
def test_dense_equals_sparse(problem, loss):
    X, y, _ = problem(loss)
    model = make(loss, **FEW_EPOCHS).fit(X, y)
    same(model, make(loss, **FEW_EPOCHS).fit(sparse.csr_array(X), y), exact=False)


def test_values_that_float32_cannot_hold(binary):
    X, y = binary
    X = X * np.pi
    model = SDCAClassifier(pack=False, **TIGHT).fit(X, y)
    packed = SDCAClassifier(pack=True, **TIGHT | {"tol": 1e-7}).fit(sparse.csr_array(X), y)
    assert packed.result_.status == "converged"
    assert packed.result_.primal <= model.result_.primal * (1 + 1e-7)
    np.testing.assert_allclose(packed.coef_, model.coef_, atol=1e-3)


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
def test_values_that_float32_cannot_hold_are_solved_to_any_tolerance(problem, loss):
    X, y, _ = problem(loss)
    model = make(loss, **TIGHT | {"max_iter": 20_000}).fit(sparse.csr_array(X * np.pi), y)
    assert model.result_.status == "converged"
    unpacked = make(loss, pack=False, **TIGHT).fit(X * np.pi, y)
    np.testing.assert_allclose(model.coef_, unpacked.coef_, atol=1e-5)


@pytest.mark.parametrize("options", [{"second_order": False}, {}, {"batch_size": 5}])
@pytest.mark.parametrize("scales", [(1e-5, 1e150, 1e-13), (1e102, 1e-60, 1e204)])
def test_certificates_where_the_square_of_the_weights_has_no_number(scales, options):
    of_x, of_y, alpha = scales
    random = np.random.default_rng(0)
    x = random.normal(size=40)
    y = of_y * (3 * x + random.normal(size=40))
    x *= of_x
    model = SDCARegressor("squared", alpha=alpha, fit_intercept=False, random_state=0, **options)
    result = model.fit(x[:, np.newaxis], y).result_
    exact = [(Fraction(a), Fraction(b)) for a, b in zip(x, y, strict=True)]
    products, squares = (sum(a * b for a, b in exact), sum(a * a for a, _ in exact))
    n, alpha = len(exact), Fraction(alpha)

    def objective(w):
        return alpha / 2 * w * w + sum((w * a - b) ** 2 for a, b in exact) / (2 * n)

    best = objective(products / (n * alpha + squares))
    assert result.status == "converged"
    assert float(objective(Fraction(model.coef_[0])) / best) <= 1 + 1e-3
    assert result.dual <= float(best) * (1 + 1e-12) and float(best) <= result.primal * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e39, 1e-46])
def test_values_out_of_the_range_of_float32(binary, scale):
    """Scaling X by c and alpha by c^2 scales the optimum by 1 / c and nothing else."""
    X, y = binary
    settings = {"fit_intercept": False, "random_state": 0}
    plain = SDCAClassifier(alpha=1e-2, **settings).fit(X, y).result_
    scaled = SDCAClassifier(alpha=1e-2 * scale**2, **settings).fit(sparse.csr_array(X * scale), y)
    assert scaled.result_.status == "converged"
    assert scaled.result_.primal == pytest.approx(plain.primal, rel=2e-3)


def unaligned(X):
    buffer = np.zeros(X.nbytes + 1, dtype=np.uint8)
    result = buffer[1:].view(X.dtype).reshape(X.shape)
    result[:] = X
    assert not result.flags.aligned
    return result


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def inside_a_larger_array(X):
    larger = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    larger[::2, ::3] = X
    return larger[::2, ::3]


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "read-only": read_only,
    "unaligned": unaligned,
    "big-endian": lambda X: X.astype(">f8"),
    "big-endian float32": lambda X: X.astype(">f4"),
    "strided": inside_a_larger_array,
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "list": lambda X: X.tolist(),
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_array,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_model(binary, layout):
    X, y = binary
    model = SDCAClassifier(**FEW_EPOCHS).fit(X, y)
    other = SDCAClassifier(**FEW_EPOCHS).fit(LAYOUTS[layout](X), y)
    if other.coef_.dtype == np.float32:
        np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-6)
    else:
        same(model, other, exact=False)
    np.testing.assert_array_equal(other.predict(LAYOUTS[layout](X)), model.predict(X))


def by_columns(tmp_path=None):
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(2000, 50)))
    if tmp_path is None:
        return X
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def extra_memory(model, X):
    y = np.where(np.arange(len(X)) % 3, 1, -1)
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cls", [SDCAClassifier, PegasosClassifier])
def test_columns_are_copied_row_by_row_unless_pack_forbids_it(cls, tmp_path):
    X, settings = by_columns(), {"max_iter": 2, "tol": 0, "random_state": 0}
    y = np.where(np.arange(len(X)) % 3, 1, -1)
    by_rows = cls(**settings).fit(np.ascontiguousarray(X), y)
    np.testing.assert_array_equal(cls(**settings).fit(X, y).coef_, by_rows.coef_)
    assert extra_memory(cls(**settings), X) > X.nbytes
    assert extra_memory(cls(**settings, pack=False), X) < X.nbytes / 2
    assert extra_memory(cls(**settings), np.ascontiguousarray(X)) < X.nbytes / 2
    mapped = by_columns(tmp_path)
    assert extra_memory(cls(**settings), mapped) < X.nbytes / 2
    assert extra_memory(cls(**settings), mapped[:1500]) < X.nbytes / 2


def test_columns_stay_as_they_are_where_memory_is_short(monkeypatch):
    def full(array):
        raise MemoryError

    X = by_columns()
    monkeypatch.setattr(np, "ascontiguousarray", full)
    assert by_rows(X) is X


def test_memory_maps(binary, tmp_path):
    X, y = binary
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    same(SDCAClassifier(**FEW_EPOCHS).fit(mapped, y), SDCAClassifier(**FEW_EPOCHS).fit(X, y))
    S = sparse.csr_array(X)
    parts = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(S, name))
        parts.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    mapped = sparse.csr_array(tuple(parts), shape=S.shape)
    same(SDCAClassifier(**FEW_EPOCHS).fit(mapped, y), SDCAClassifier(**FEW_EPOCHS).fit(S, y))


def test_read_only_unaligned_and_foreign_csr_arrays(binary):
    X, y = binary
    model = SDCAClassifier(**FEW_EPOCHS).fit(sparse.csr_array(X), y)
    for change in (read_only, unaligned, lambda part: part.astype(part.dtype.newbyteorder(">"))):
        S = sparse.csr_array(X)
        S.data, S.indices, S.indptr = change(S.data), change(S.indices), change(S.indptr)
        same(SDCAClassifier(**FEW_EPOCHS).fit(S, y), model)


def test_unsorted_and_repeated_entries(binary):
    X, y = binary
    S = sparse.csr_array(X)
    data = np.concatenate([S.data, S.data]) / 2
    indices = np.concatenate([S.indices, S.indices])
    order = np.argsort(np.tile(np.repeat(np.arange(200), np.diff(S.indptr)), 2), kind="stable")
    messy = sparse.csr_array((data[order], indices[order], 2 * S.indptr), shape=S.shape)
    assert not messy.has_canonical_format
    before = messy.data.copy(), messy.indices.copy()
    model = SDCAClassifier(**FEW_EPOCHS).fit(messy, y)
    same(model, SDCAClassifier(**FEW_EPOCHS).fit(S, y))
    np.testing.assert_array_equal(messy.data, before[0])
    np.testing.assert_array_equal(messy.indices, before[1])


def test_pandas(binary):
    pandas = pytest.importorskip("pandas")
    X, y = binary
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    labels = pandas.Series(np.array(["no", "yes"])[y])
    model = SDCAClassifier(**FEW_EPOCHS).fit(frame, labels)
    same(model, SDCAClassifier(**FEW_EPOCHS).fit(X, y), exact=False)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert set(model.predict(frame)) == {"no", "yes"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_the_input_is_left_alone(binary):
    X, y = binary
    for data in (X.copy(), sparse.csr_array(X)):
        y, weights = y.copy(), np.arange(200.0)
        kept = pickle.dumps((data, y, weights))
        SDCAClassifier(class_weight="balanced", **FEW_EPOCHS).fit(data, y, weights)
        assert pickle.dumps((data, y, weights)) == kept


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
@pytest.mark.parametrize("intercept", [True, False])
def test_weights_equal_repetition_and_zero_equals_removal(problem, loss, intercept):
    X, y, _ = problem(loss)
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    settings = TIGHT | {"fit_intercept": intercept}
    weighted = make(loss, **settings).fit(X, y, sample_weight=weights)
    repeated = make(loss, **settings).fit(X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.result_.status == repeated.result_.status == "converged"
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-5)
    assert weighted.result_.primal == pytest.approx(repeated.result_.primal, rel=1e-11)


@pytest.mark.parametrize("loss", ["huber", "absolute", "hinge"])
@pytest.mark.parametrize("penalized", [True, False])
def test_few_certificates_whatever_the_weights(loss, penalized):
    random, n = np.random.default_rng(0), 20_000
    X = random.normal(size=(n, 20))
    y = X @ random.normal(size=20) + random.normal(size=n)
    weights = random.pareto(1.0, size=n) + 1
    model = make(loss, alpha=1e-3, penalize_intercept=penalized, random_state=0)
    result = model.fit(X, np.sign(y) if loss == "hinge" else y, sample_weight=weights).result_
    assert result.status == "converged"
    assert len(result.trace) <= 5


def test_the_scale_of_weights_has_no_effect(binary):
    X, y = binary
    weights = np.random.default_rng(0).random(200)
    models = [
        SDCAClassifier(**TIGHT).fit(X, y, sample_weight=scale * weights) for scale in (1, 1e-9, 1e9)
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, atol=1e-5)


def test_one_number_as_weight(binary):
    X, y = binary
    model = SDCAClassifier(**FEW_EPOCHS).fit(X, y)
    same(SDCAClassifier(**FEW_EPOCHS).fit(X, y, sample_weight=3.0), model, exact=False)


def test_class_weight_equals_sample_weight(binary, multiclass):
    for X, y in (binary, multiclass):
        factors = {label: 1.0 + 2 * label for label in np.unique(y)}
        by_class = SDCAClassifier(class_weight=factors, **FEW_EPOCHS).fit(X, y)
        by_example = SDCAClassifier(**FEW_EPOCHS).fit(X, y, sample_weight=1.0 + 2 * y)
        same(by_class, by_example)
        both = SDCAClassifier(class_weight=factors, **FEW_EPOCHS).fit(X, y, 1.0 + y)
        same(both, SDCAClassifier(**FEW_EPOCHS).fit(X, y, (1.0 + y) * (1.0 + 2 * y)))


@pytest.mark.parametrize("heavier", [0.0, 2.0])
def test_balanced_class_weight(multiclass, heavier):
    """Rows count by their weights."""
    X, y = multiclass
    weights = 1 + heavier * y
    masses = np.bincount(y, weights)
    balanced = SDCAClassifier(class_weight="balanced", **FEW_EPOCHS).fit(X, y, weights)
    by_example = SDCAClassifier(**FEW_EPOCHS).fit(X, y, weights * masses.sum() / (3 * masses[y]))
    same(balanced, by_example, exact=False)


def test_classes_without_a_factor_keep_theirs(multiclass):
    X, y = multiclass
    some = SDCAClassifier(class_weight={1: 4.0}, **FEW_EPOCHS).fit(X, y)
    same(some, SDCAClassifier(**FEW_EPOCHS).fit(X, y, np.where(y == 1, 4.0, 1.0)))


# ---------------------------------------------------------------- the optimum


def objective(model, X, y, loss, alpha):
    """P of any linear model of scikit-learn, its intercept penalised like a weight."""
    z = X @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0]
    square = np.sum(np.square(model.coef_)) + np.sum(np.square(model.intercept_))
    return alpha / 2 * square + np.mean(loss.value(z, y))


def liblinear(loss, C):
    if loss == "logistic":
        return LogisticRegression(solver="liblinear", C=C, tol=1e-12, max_iter=100_000)
    if loss == "epsilon_insensitive":
        return LinearSVR(epsilon=0.1, C=C, tol=1e-10, max_iter=1_000_000)
    return LinearSVC(loss=loss, C=C, tol=1e-10, max_iter=1_000_000)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "epsilon_insensitive"])
def test_the_optimum_is_that_of_liblinear(problem, loss):
    X, y, targets = problem(loss)
    alpha = 0.01
    model = make(loss, alpha=alpha, tol=1e-9, max_iter=100_000, random_state=0).fit(X, y)
    theirs = liblinear(loss, 1 / (alpha * len(y))).fit(X, y)
    ours = objective(model, X, targets, exact_loss(model), alpha)
    best = objective(theirs, X, targets, exact_loss(model), alpha)
    assert ours == pytest.approx(best, rel=1e-6)
    assert ours <= best * (1 + 1e-8)
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(theirs.coef_), atol=1e-3)


def test_the_squared_loss_gives_ridge(regression):
    X, y = regression
    model = SDCARegressor(fit_intercept=False, **TIGHT).fit(X, y)
    ridge = Ridge(alpha=0.05 * len(y), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, ridge.coef_, rtol=1e-6)


def test_an_intercept_without_penalty_gives_ridge(regression):
    X, y = regression
    model = SDCARegressor(penalize_intercept=False, **TIGHT | {"tol": 1e-9}).fit(X, y)
    ridge = Ridge(alpha=0.05 * len(y)).fit(X, y)
    assert model.result_.status == "converged"
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, atol=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_an_intercept_without_penalty_does_not_feel_a_shift(problem, loss):
    X, y, _ = problem(loss)
    settings = TIGHT | {"tol": 1e-8}
    model = make(loss, penalize_intercept=False, **settings).fit(X, y)
    shifted = make(loss, penalize_intercept=False, **settings).fit(X + 0.5, y)
    assert model.result_.primal == pytest.approx(shifted.result_.primal, rel=1e-6)
    np.testing.assert_allclose(model.coef_, shifted.coef_, atol=1e-3)


def test_a_large_intercept_scaling_frees_the_intercept(regression):
    X, y = regression
    y = y + 10
    gaps = []
    for scaling in (1.0, 10.0, 100.0):
        settings = TIGHT | {"tol": 1e-9}
        model = SDCARegressor(intercept_scaling=scaling, **settings).fit(X, y)
        gaps.append(abs(np.mean(model.predict(X) - y)))
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]


# ---------------------------------------------------------------- the certificate


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_the_gap_is_that_of_the_fitted_attributes(
    problem, loss, weighted, intercept, dtype, storage
):
    X, y, targets = problem(loss)
    weights = np.random.default_rng(0).integers(0, 3, size=len(y)) if weighted else None
    model = make(
        loss, alpha=1e-2, fit_intercept=intercept, intercept_scaling=2.0, random_state=0, n_jobs=2
    )
    X = storage(X.astype(dtype))
    model.fit(X, y, sample_weight=weights)
    primal, dual = certificate(model, X, targets, weights)
    result = model.result_
    assert result.primal == pytest.approx(primal, rel=1e-12)
    assert result.dual == pytest.approx(dual, rel=1e-10)
    assert result.gap == pytest.approx(primal - dual, rel=1e-6, abs=1e-13)
    assert result.status == "converged"
    assert result.relative_gap == result.gap / result.primal <= 1e-3


@pytest.mark.parametrize("loss", MARGIN)
def test_every_class_has_its_certificate(multiclass, loss):
    X, y = multiclass
    model = SDCAClassifier(loss, alpha=1e-3, random_state=0).fit(X, y)
    assert model.dual_coef_.shape == (3, len(y))
    assert model.coef_.shape == (3, X.shape[1]) and model.intercept_.shape == (3,)
    parts = model.result_.parts
    assert len(parts) == 3
    for k, part in enumerate(parts):
        primal, dual = certificate(model, X, np.where(y == k, 1.0, -1.0), k=k)
        assert part.primal == pytest.approx(primal, rel=1e-12)
        assert part.dual == pytest.approx(dual, rel=1e-10)
        assert part.parts == () and part.trace
    for name in ("primal", "dual", "gap", "accesses", "certificate_accesses"):
        total = sum(getattr(part, name) for part in parts)
        assert getattr(model.result_, name) == pytest.approx(total, rel=1e-15)
    assert model.n_iter_ == model.result_.n_iter == max(part.n_iter for part in parts)


@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
def test_weak_duality_in_every_row_of_the_trace(sparse_problem, loss):
    X, y = sparse_problem
    X, y = X[:5000], y[:5000]
    options = {"alpha": 1e-4, "second_order": False}
    optimum = make(loss, tol=1e-7, random_state=1, **options).fit(X, y).result_
    model = make(loss, tol=1e-6, random_state=0, **options).fit(X, y)
    trace = model.result_.trace
    assert len(trace) >= 2
    for row in trace:
        assert row.gap == max(0.0, row.primal - row.dual)
        assert row.primal >= optimum.dual * (1 - 1e-12)
        assert row.dual <= optimum.primal * (1 + 1e-12)
    for earlier, later in itertools.pairwise(trace):
        assert earlier.n_iter < later.n_iter
        assert earlier.accesses < later.accesses
        assert earlier.seconds <= later.seconds
        assert earlier.gap >= later.gap
    last, result = trace[-1], model.result_
    assert (last.n_iter, last.accesses) == (result.n_iter, result.accesses)
    assert (last.primal, last.dual, last.gap) == (result.primal, result.dual, result.gap)
    assert last.seconds <= result.seconds


def test_huge_and_tiny_alpha_keep_the_certificate_true(binary):
    X, y = binary
    for alpha in (1e-12, 1e12):
        model = SDCAClassifier(alpha=alpha, random_state=0, max_iter=50, tol=0).fit(X, y)
        primal, dual = certificate(model, X, np.where(y, 1.0, -1.0))
        assert np.isfinite(model.coef_).all()
        assert model.result_.primal == pytest.approx(primal, rel=1e-9)
        assert model.result_.dual == pytest.approx(dual, rel=1e-6, abs=1e-9)


def test_large_targets(regression):
    X, y = regression
    small = SDCARegressor(alpha=0.01, random_state=0).fit(X, y)
    large = SDCARegressor(alpha=0.01, random_state=0).fit(X, 2.0**34 * y)
    np.testing.assert_allclose(large.coef_, 2.0**34 * small.coef_, rtol=1e-9)
    assert large.result_.relative_gap == pytest.approx(small.result_.relative_gap, rel=1e-6)


# ---------------------------------------------------------------- limits and counts


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_the_first_epoch_reads_every_stored_value_once(binary, storage):
    X, y = binary
    X = storage(X)
    with pytest.warns(ConvergenceWarning):
        model = SDCAClassifier(alpha=1e-3, max_iter=1, tol=1e-9).fit(X, y)
    stored = X.nnz if sparse.issparse(X) else X.size
    assert model.result_.accesses == stored
    assert model.result_.n_iter == model.n_iter_ == 1
    assert model.result_.status == "max_iter"


@pytest.mark.parametrize("budget", [1, 5, 100, 2399, 2400, 2401, 10_000, 54_321])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_the_budget_is_never_exceeded_and_used(binary, budget, storage):
    X, y = binary
    X = storage(X)
    model = SDCAClassifier(alpha=1e-4, max_accesses=budget, tol=1e-14, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"max_accesses={budget}"):
        model.fit(X, y)
    result = model.result_
    assert result.status == "max_accesses"
    assert budget - X.shape[1] < result.accesses <= budget
    primal, dual = certificate(model, X, np.where(y, 1.0, -1.0))
    assert result.primal == pytest.approx(primal, rel=1e-12)
    assert result.dual == pytest.approx(dual, rel=1e-9, abs=1e-12)


def test_the_budget_holds_for_every_class(multiclass):
    X, y = multiclass
    model = SDCAClassifier(alpha=1e-4, max_accesses=5000, tol=0).fit(X, y)
    assert all(4990 < part.accesses <= 5000 for part in model.result_.parts)


@pytest.mark.parametrize("max_iter", [1, 2, 17])
def test_max_iter(binary, max_iter):
    X, y = binary
    model = SDCAClassifier(alpha=1e-4, max_iter=max_iter, tol=0).fit(X, y)
    assert model.n_iter_ == model.result_.n_iter == max_iter
    assert model.result_.status == "max_iter"


def test_tol_zero_does_not_warn(binary):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SDCAClassifier(alpha=1e-4, max_iter=2, tol=0).fit(*binary)
    assert model.result_.status == "max_iter"


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_the_warning_has_numbers_and_points_at_the_call(request, kind):
    data = request.getfixturevalue(kind)
    cls = SDCARegressor if kind == "regression" else SDCAClassifier
    model = cls(alpha=1e-5, max_iter=1, second_order=False)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert len(caught) == 1
    text = str(caught[0].message)
    parts = model.result_.parts or (model.result_,)
    limited = [part for part in parts if part.status == "max_iter"]
    worst = max(limited, key=lambda part: part.relative_gap)
    for part in (
        type(model).__name__,
        "max_iter=1" + f" in {len(limited)} of 3 problems" * (kind == "multiclass"),
        f"{worst.relative_gap:.2e}",
        f"{worst.gap:.2e}",
        "tol=0.001",
    ):
        assert part in text
    assert caught[0].filename == __file__


# ---------------------------------------------------------------- seeds, threads, processes


def test_the_same_seed_gives_the_same_bits(binary):
    X, y = binary
    settings = FEW_EPOCHS | {"random_state": 5}
    model = SDCAClassifier(**settings).fit(X, y)
    same(model, SDCAClassifier(**settings).fit(X, y))
    same(model, model.fit(X, y))
    other = SDCAClassifier(**settings | {"random_state": 6}).fit(X, y)
    assert (other.coef_ != model.coef_).any()


def test_every_kind_of_random_state(binary):
    X, y = binary
    for make_state in (np.random.RandomState, np.random.default_rng):
        first, second = (
            SDCAClassifier(**FEW_EPOCHS | {"random_state": make_state(3)}).fit(X, y)
            for _ in range(2)
        )
        same(first, second)
        again = first.fit(X, y).coef_.copy()  # the state has moved on
        assert (again != second.coef_).any()
    SDCAClassifier(**FEW_EPOCHS | {"random_state": None}).fit(X, y)
    SDCAClassifier(**FEW_EPOCHS | {"random_state": np.int64(3)}).fit(X, y)


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_n_jobs_has_no_effect_on_the_bits(request, kind):
    X, y = request.getfixturevalue(kind)
    models = [
        SDCAClassifier(alpha=1e-3, random_state=0, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (None, 1, 2, -1, 1000)
    ]
    for model in models[1:]:
        same(models[0], model)
        assert model.result_.primal == models[0].result_.primal
        assert model.result_.accesses == models[0].result_.accesses


def test_two_threads_where_there_is_no_intercept():
    """Whether it would be penalised does not matter."""
    X = np.random.default_rng(0).normal(size=(100_000, 20))
    options = {"alpha": 1e-3, "max_iter": 1, "tol": 0, "random_state": 0, "fit_intercept": False}
    fits = [
        SDCAClassifier(n_jobs=n_jobs, penalize_intercept=penalized, **options)
        for n_jobs, penalized in ((2, True), (2, False), (1, False))
    ]
    one, other, by_one_thread = (model.fit(X, X[:, 0] > 0).coef_ for model in fits)
    np.testing.assert_array_equal(one, other)
    assert (one != by_one_thread).any()


def test_two_fits_in_two_threads(sparse_problem):
    X, y = sparse_problem
    models = [SDCAClassifier(alpha=1e-4, random_state=k, n_jobs=2) for k in range(2)]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    for k, model in enumerate(models):
        same(model, SDCAClassifier(alpha=1e-4, random_state=k).fit(X, y))


def fit_and_send(queue, X, y, n_jobs):
    queue.put(SDCAClassifier(alpha=1e-3, random_state=0, n_jobs=n_jobs).fit(X, y).coef_)


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe to try on Linux alone")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("n_jobs", [2, -1])
def test_a_fork_after_use(multiclass, binary, n_jobs):
    context = multiprocessing.get_context("fork")
    long = np.random.default_rng(0).normal(size=(100_000, 20))  # a schedule for two threads
    for X, y in (binary, multiclass, (long, long[:, 0] > 0)):
        here = SDCAClassifier(alpha=1e-3, random_state=0, n_jobs=n_jobs).fit(X, y)
        queue = context.Queue()
        child = context.Process(target=fit_and_send, args=(queue, X, y, n_jobs), daemon=True)
        child.start()
        try:
            np.testing.assert_array_equal(queue.get(timeout=60), here.coef_)
        finally:
            child.kill()
            child.join(60)


def fit_and_report(queue, stream, X, y):
    batches = SDCAClassifier(batch_size=64, alpha=1e-2, n_jobs=2, random_state=0)
    statuses = [model.fit(X, y).result_.status for model in (batches, SDCAClassifier(n_jobs=2))]
    queue.put([*statuses, stream.partial_fit(X, y).result_.n_rows])


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe to try on Linux alone")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_after_threads_were_used():
    """The child would wait for OpenMP's threads, which a fork does not copy."""
    X, y = make_sparse_classification(2000, 3000, random_state=0)
    for model in (SDCAClassifier(batch_size=64, alpha=1e-2, n_jobs=2), SDCAClassifier(n_jobs=2)):
        model.fit(X, y)
    stream = StreamingSVRGClassifier(n_jobs=2).partial_fit(X, y, classes=np.unique(y))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=fit_and_report, args=(queue, stream, X, y), daemon=True)
    child.start()
    try:
        assert queue.get(timeout=60) == ["converged", "converged", 4000]
    finally:
        child.kill()
        child.join(60)


def test_grid_search_in_processes(binary):
    X, y = binary
    here = SDCAClassifier(alpha=1e-3, random_state=0, n_jobs=2).fit(X, y)
    search = GridSearchCV(
        make_pipeline(MaxAbsScaler(), SDCAClassifier(random_state=0, n_jobs=2, tol=1e-2)),
        {"sdcaclassifier__alpha": [1e-3, 1e-1], "sdcaclassifier__loss": ["hinge", "logistic"]},
        cv=2,
        n_jobs=2,
    )
    search.fit(sparse.csr_array(X), y)
    assert search.best_score_ > 0.7
    assert here.score(X, y) > 0.7


def test_pickle_and_clone(multiclass, regression):
    for model, data in ((SDCAClassifier(), multiclass), (SDCARegressor(), regression)):
        model.set_params(alpha=1e-2, random_state=0).fit(*data)
        copy = pickle.loads(pickle.dumps(model))
        same(model, copy)
        np.testing.assert_array_equal(copy.predict(data[0]), model.predict(data[0]))
        assert copy.result_ == model.result_
        fresh = clone(model)
        assert fresh.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            fresh.predict(data[0])


def test_set_params(binary):
    X, y = binary
    model = SDCAClassifier().set_params(**FEW_EPOCHS, loss="logistic")
    same(model.fit(X, y), SDCAClassifier("logistic", **FEW_EPOCHS).fit(X, y))
    with pytest.raises(ValueError, match="nonsense"):
        model.set_params(nonsense=1)


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("loss", MARGIN)
def test_a_warm_start_saves_accesses(sparse_problem, loss):
    X, y = sparse_problem
    X, y = X[:5000], y[:5000]
    settings = {"tol": 1e-5, "random_state": 0}
    cold = SDCAClassifier(loss, alpha=1.1e-2, **settings).fit(X, y)
    warm = SDCAClassifier(loss, alpha=1e-2, warm_start=True, **settings).fit(X, y)
    warm.set_params(alpha=1.1e-2).fit(X, y)
    assert warm.result_.accesses < cold.result_.accesses
    assert warm.result_.status == cold.result_.status == "converged"
    assert warm.result_.primal == pytest.approx(cold.result_.primal, rel=2e-5)
    again = warm.fit(X, y).result_
    assert again.n_iter <= 2


@pytest.mark.parametrize("loss", ["smoothed_hinge", "logistic"])
def test_a_warm_start_takes_over_a_free_intercept(multiclass, loss):
    X, y = multiclass
    model = SDCAClassifier(
        loss, alpha=0.05, tol=1e-6, penalize_intercept=False, warm_start=True, random_state=0
    ).fit(X, y)
    intercept = model.intercept_
    model.set_params(tol=0, max_iter=2).fit(X, y)
    assert all(part.relative_gap <= 1e-5 for part in model.result_.parts or (model.result_,))
    np.testing.assert_allclose(model.intercept_, intercept, atol=1e-2)


@pytest.mark.parametrize("options", [{}, {"batch_size": 4, "batch_rule": "aggressive"}], ids=str)
@pytest.mark.parametrize("streams", [False, True])
def test_a_warm_start_is_no_worse_than_a_cold_one(regression, options, streams):
    """However far from the optimum the duals of the last fit are."""
    if streams and options:
        pytest.skip("fit_stream takes no batches")
    X, y = regression

    def fit(model, X):
        if streams:
            return model.fit_stream(ArraySource(X, y, block_rows=50))
        return model.fit(X, y)

    model = SDCARegressor(alpha=1.0, warm_start=True, random_state=0, max_iter=2000, **options)
    model.set_params(second_order=False)  # which would end both fits, each in its own time
    cold = fit(clone(model).set_params(alpha=0.1), 30 * X)
    warm = fit(fit(model, X).set_params(alpha=0.1), 30 * X)
    assert cold.result_.status == warm.result_.status == "converged"
    assert warm.n_iter_ <= 1.5 * cold.n_iter_


def test_a_warm_start_from_other_data(binary, multiclass, regression):
    X, y = binary
    other, labels = multiclass
    model = SDCAClassifier(alpha=1e-2, warm_start=True, random_state=0, tol=1e-6)
    model.set_params(max_iter=10_000)
    for data in ((X, y), (X[:70], y[:70]), (X[:70, :5], y[:70]), (other, labels), (X, y)):
        model.fit(*data)
        cold = clone(model).fit(*data)
        assert model.result_.status == "converged"
        assert model.result_.primal == pytest.approx(cold.result_.primal, rel=2e-6)
    for loss in MARGIN:
        model.set_params(loss=loss).fit(X, y)
        assert model.result_.primal == pytest.approx(
            clone(model).fit(X, y).result_.primal, rel=2e-6
        )
    model = SDCARegressor(alpha=1e-2, warm_start=True, random_state=0, tol=1e-6, max_iter=10_000)
    for loss in REGRESSION:
        model.set_params(loss=loss).fit(*regression)
        cold = clone(model).fit(*regression)
        assert model.result_.primal == pytest.approx(cold.result_.primal, rel=2e-6)


def test_a_warm_start_does_not_take_the_duals_of_other_problems(multiclass):
    """Two labels after three, and three after two, with as many rows."""
    X, y = multiclass
    model = SDCAClassifier(alpha=1e-2, warm_start=True, random_state=0)
    for labels in (y, y < 2, y):
        model.fit(X, labels)
        cold = clone(model).fit(X, labels)
        np.testing.assert_array_equal(model.dual_coef_, cold.dual_coef_)


def test_a_warm_start_with_other_weights_and_intercept(binary):
    X, y = binary
    model = SDCAClassifier(alpha=1e-2, warm_start=True, random_state=0, tol=1e-6).fit(X, y)
    model.set_params(max_iter=10_000, fit_intercept=False)
    for weights in (None, np.arange(200.0), np.where(y, 0.0, 1.0) + (np.arange(200) < 100)):
        model.fit(X, y, sample_weight=weights)
        cold = clone(model).fit(X, y, sample_weight=weights)
        assert model.result_.primal == pytest.approx(cold.result_.primal, rel=2e-6)


# ---------------------------------------------------------------- classes and predictions


def test_labels_of_every_kind(multiclass):
    X, y = multiclass
    model = SDCAClassifier(**FEW_EPOCHS).fit(X, y)
    for labels in (
        np.array(["a", "b", "c"]),
        np.array([-5, 0, 7]),
        np.array([0.0, 1.0, 2.0]),
        np.array(["x", "yy", "zzz"], dtype=object),
    ):
        other = SDCAClassifier(**FEW_EPOCHS).fit(X, labels[y])
        same(model, other)
        np.testing.assert_array_equal(other.classes_, labels)
        np.testing.assert_array_equal(other.predict(X), labels[model.predict(X)])


def test_the_second_label_is_the_positive_one(binary):
    X, y = binary
    model = SDCAClassifier(**FEW_EPOCHS).fit(X, y)
    assert model.decision_function(X).shape == (200,)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    assert model.score(X, y) > 0.8
    for pair in ([True, False], ["b", "a"], [3, -3], [0.0, -1.0]):
        labels = np.array(pair)[y]
        mirrored = SDCAClassifier(**FEW_EPOCHS).fit(X, labels)
        np.testing.assert_array_equal(mirrored.classes_, np.unique(labels))
        np.testing.assert_allclose(mirrored.coef_, -model.coef_, rtol=1e-9)
        assert mirrored.score(X, labels) > 0.8


def test_one_vs_rest_is_binary_problems(multiclass):
    X, y = multiclass
    model = SDCAClassifier("logistic", alpha=1e-2, tol=1e-8, random_state=0).fit(X, y)
    for k in range(3):
        one = SDCAClassifier("logistic", alpha=1e-2, tol=1e-8, random_state=0).fit(X, y == k)
        np.testing.assert_allclose(model.coef_[k], one.coef_[0], atol=1e-3)
    scores = model.decision_function(X)
    assert scores.shape == (240, 3)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


def test_probabilities(binary, multiclass):
    for (X, y), n_classes in ((binary, 2), (multiclass, 3)):
        model = SDCAClassifier("logistic", alpha=1e-3, random_state=0).fit(X, y)
        probabilities = model.predict_proba(X)
        assert probabilities.shape == (len(y), n_classes)
        assert (probabilities >= 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_array_equal(model.classes_[probabilities.argmax(1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-12)
        far = model.predict_proba(-1e6 * X)
        np.testing.assert_allclose(far.sum(axis=1), 1, rtol=1e-12)
        assert np.isfinite(model.predict_log_proba(-1e3 * X)).all()
    scores = np.array([[-800.0, -900.0, -1000.0]])  # of each of which the probability is 0
    np.testing.assert_array_equal(model._log_probabilities(scores), scores + 800)
    both = np.vstack([scores, [[3.0, 0.0, -3.0]]])
    expected = np.exp(model._log_probabilities(both))
    np.testing.assert_allclose(model._probabilities(both), expected, rtol=1e-14)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge"])
def test_no_probabilities_without_the_logistic_loss(binary, loss):
    model = SDCAClassifier(loss, alpha=0.1).fit(*binary)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        model.predict_proba(binary[0])
    advice = str(error.value.__cause__)
    assert 'needs loss="logistic"' in advice and "CalibratedClassifierCV" in advice


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier, StreamingSVRGClassifier])
def test_probabilities_are_of_the_loss_that_was_fitted(binary, make, streams):
    X, y = binary

    def fit(loss):
        model.set_params(loss=loss)
        return model.fit_stream(ArraySource(X, y), classes=[0, 1]) if streams else model.fit(X, y)

    model = make("squared_hinge", alpha=0.1, random_state=0)
    if make is PegasosClassifier:
        model.set_params(max_iter=5, tol=0, projection=True)
    expected = fit("logistic").predict_proba(X)
    np.testing.assert_array_equal(model.set_params(loss="hinge").predict_proba(X), expected)
    fit("squared_hinge").set_params(loss="logistic")
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    assert hasattr(clone(model), "predict_proba")
    fit("logistic")
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_no_probabilities_without_a_loss(binary):
    model = L2SVMClassifier(max_iter=100).fit(*binary)
    with pytest.raises(AttributeError) as error:
        model.predict_proba(binary[0])
    assert "L2SVMClassifier has no probabilities: wrap it in" in str(error.value.__cause__)


def test_warnings_point_to_the_caller_through_joblib(binary):
    model = SDCAClassifier(max_iter=1, tol=1e-12)
    with pytest.warns(ConvergenceWarning) as caught:
        GridSearchCV(model, {"alpha": [1e-6]}, cv=2).fit(*binary)
    assert {warning.filename for warning in caught} == {__file__}


def test_dtypes_of_the_model(binary, regression):
    for dtype in (np.float32, np.float64):
        model = SDCAClassifier(**FEW_EPOCHS).fit(binary[0].astype(dtype), binary[1])
        assert model.coef_.dtype == model.intercept_.dtype == dtype
        assert model.dual_coef_.dtype == np.float64
        model = SDCARegressor(**FEW_EPOCHS).fit(regression[0].astype(dtype), regression[1])
        assert model.coef_.dtype == dtype and np.ndim(model.intercept_) == 0
    assert SDCAClassifier(**FEW_EPOCHS).fit(*binary).coef_.flags.writeable
    integers = np.round(100 * binary[0]).astype(np.int8)
    assert SDCAClassifier(**FEW_EPOCHS).fit(integers, binary[1]).coef_.dtype == np.float64


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("batch_size", [2, 7, "all"])
@pytest.mark.parametrize("rule", ["safe", "aggressive"])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_batches_reach_the_same_optimum(problem, loss, rule, batch_size):
    X, y, targets = problem(loss)
    settings = {"alpha": 0.05, "tol": 1e-4, "max_iter": 20_000, "random_state": 0}
    single = make(loss, **settings).fit(X, y)
    model = make(loss, batch_size=batch_size, batch_rule=rule, **settings).fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(single.result_.primal, rel=2e-4)
    primal, dual = certificate(model, X, targets)
    assert model.result_.primal == pytest.approx(primal, rel=1e-12)
    # averaged duals may bound from farther above than those of the model, never beyond the optimum
    assert model.result_.dual == pytest.approx(dual, rel=1e-9) or model.result_.dual > dual
    assert model.result_.dual <= single.result_.primal * (1 + 1e-15)  # both at the optimum: an ulp


def test_a_batch_larger_than_the_data_is_refused(binary):
    with pytest.raises(ValueError, match="batch_size"):
        SDCAClassifier(batch_size=201).fit(*binary)


# ---------------------------------------------------------------- edges


EDGES = {
    "empty rows": lambda X: np.where(np.arange(len(X))[:, None] % 3 == 0, 0.0, X),
    "all zero": lambda X: np.zeros_like(X),
    "one column": lambda X: X[:, :1],
    "one constant column": lambda X: np.ones((len(X), 1)),
    "all rows the same": lambda X: np.tile(X[0], (len(X), 1)),
    "duplicated columns": lambda X: np.hstack([X, X]),
    "a huge column": lambda X: np.column_stack([1e8 * X[:, 0], X]),
    "a tiny column": lambda X: np.column_stack([1e-30 * X[:, 0], X]),
    "more columns than rows": lambda X: np.hstack([X] * 20),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("loss", MARGIN + REGRESSION)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_edges(problem, edge, loss, intercept, storage):
    X, y, targets = problem(loss)
    X = storage(EDGES[edge](X))
    model = make(loss, alpha=0.01, fit_intercept=intercept, max_iter=5000, random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert np.isfinite(model.predict(X)).all()
    primal, dual = certificate(model, X, targets)
    assert model.result_.primal == pytest.approx(primal, rel=1e-9)
    assert model.result_.dual <= dual + 1e-7 * abs(primal)
    if edge not in ("a huge column",):
        assert model.result_.status == "converged"


@pytest.mark.parametrize("loss", REGRESSION)
def test_one_example(loss):
    model = SDCARegressor(loss, alpha=1e-6, tol=1e-6).fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(3.0, abs=0.15)
    assert model.dual_coef_.shape == (1,)


def test_two_examples():
    model = SDCAClassifier(alpha=1e-3, tol=1e-6).fit([[1.0], [2.0]], ["a", "b"])
    assert model.predict([[0.0], [3.0]]).tolist() == ["a", "b"]


@pytest.mark.parametrize("loss", REGRESSION)
@pytest.mark.parametrize("constant", [0.0, 1.0, -1e10])
def test_constant_targets(regression, loss, constant):
    X, _ = regression
    y = np.full(len(X), constant)
    model = SDCARegressor(loss, alpha=1e-6, max_iter=5000, random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    if loss == "squared":
        np.testing.assert_allclose(model.predict(X), y, atol=1e-2 * abs(constant))


def test_separable_data_reach_a_tiny_objective():
    X, y = make_classification(60, 100, n_informative=20, class_sep=3, random_state=0)
    for loss in MARGIN:
        model = SDCAClassifier(loss, alpha=1e-9, random_state=0, max_iter=20_000).fit(X, y)
        assert model.score(X, y) == 1.0
        assert model.result_.primal < 1e-5


def test_fewer_rows_than_threads():
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 1, 1]
    models = [SDCAClassifier(alpha=0.1, random_state=0, n_jobs=n).fit(X, y) for n in (1, 64)]
    same(*models)


@pytest.mark.parametrize("options", [{"penalize_intercept": False}, {"intercept_scaling": 5.0}])
def test_the_certificate_is_that_of_the_rounded_intercept(options):
    random = np.random.default_rng(277)
    X = random.normal(size=(9, 1)).astype(np.float32)
    y = 800 + 0.05 * random.normal(size=9)
    model = SDCARegressor("absolute", alpha=1e-2, tol=1e-6, max_iter=20_000, random_state=0)
    result = model.set_params(**options).fit(X, y).result_
    w, b = float(model.coef_[0]), float(model.intercept_)
    square = w * w + (0 if "penalize_intercept" in options else (b / 5) ** 2)
    primal = 0.005 * square + np.abs(X[:, 0].astype(float) * w + b - y).mean()
    assert model.intercept_.dtype == np.float32
    assert result.primal == pytest.approx(primal, rel=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_equal_targets_are_met_to_the_last_bit(loss):
    """The best loss is 0, to which no rounded intercept comes within a relative gap."""
    random = np.random.default_rng(0)
    for target in (0.06, -28.3497, 7.370138, *random.normal(size=30)):
        X = random.normal(size=(20, 3)) * random.lognormal(0, 2, size=3)
        model = SDCARegressor(loss, penalize_intercept=False, max_iter=50, random_state=0)
        model.fit(X, np.full(20, target))
        assert (model.result_.status, model.intercept_) == ("converged", target)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_scores_out_of_range_are_refused(make):
    X = np.float32([[1, 2], [2, 1], [-1, -2], [-2, -1.5]])
    model = SDCAClassifier(alpha=1e-6, random_state=0).fit(X, [1, 1, 0, 0])
    far = make(np.float32([[3e38, 3e38]]))
    model.coef_ = np.float32([[2.0, -2.0]])
    with pytest.raises(ValueError, match="scores leave the range"):
        model.predict(far)
    assert np.isfinite(model.decision_function(far.astype(np.float64))).all()


@pytest.mark.parametrize("seed", range(6))
def test_values_whose_squares_leave_the_range_are_no_interrupts(seed):
    random = np.random.default_rng(seed)
    X = random.normal(size=(80, 8)) * 10.0 ** np.array([82, 84, 83, 78, 83, 85, 82, 83])
    model = SDCARegressor(alpha=1.0, random_state=0, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, X @ random.normal(size=8))
    assert model.result_.status != "interrupted"
    assert np.isfinite(model.coef_).all()
