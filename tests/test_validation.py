"""Bad input and the range of float64: a clear ValueError, never NaN, never a crash."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn import clone, config_context
from sklearn.metrics.pairwise import linear_kernel

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    L2SVMClassifier,
    MinimumEnclosingBall,
    PegasosClassifier,
    PegasosRegressor,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    SIMBAClassifier,
    StreamingSVRGClassifier,
    SublinearPerceptron,
    sdca_path,
    solve_matrix_game,
    solve_simplex_qp,
    spectral_norm_squared,
    suggest_solver,
)
from sublinear._labels import find_classes
from sublinear._validation import dense_product
from sublinear.data import DualStore, FourierFeatures
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource

CLASSIFIERS = (SDCAClassifier, PegasosClassifier)
ESTIMATORS = (*CLASSIFIERS, SDCARegressor)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# what an error about numbers that float64 or float32 cannot hold should speak of
RANGE = "(?i)overflow|too large|too small|scale|float32|finite"

X = np.random.default_rng(0).normal(size=(30, 4))
Y = (X[:, 0] > 0).astype(int)


def refused(model, match, X=X, y=Y, weights=None):
    with pytest.raises(ValueError, match=match):
        model.fit(X, y, sample_weight=weights)
    assert not hasattr(model, "coef_")


# ---------------------------------------------------------------- parameters


BAD = {
    "loss": ["nonsense", None, 1, ["hinge"], ""],
    "alpha": [0, -1.0, np.nan, np.inf, None, "1", [1.0], True, 1j],
    "fit_intercept": [None, "yes", 2, []],
    "intercept_scaling": [0, -1, np.nan, np.inf, "1", None],
    "tol": [-1e-3, np.nan, np.inf, None, "1e-3", True],
    "max_iter": [0, -1, 1.5, np.inf, np.nan, None, "10", True],
    "max_accesses": [0, -1, 1.5, np.inf, "10", True],
    "n_jobs": [0, 1.5, "2"],
    "random_state": [-1, 1.5, "seed", [1, 2], 2**32],
    "warm_start": [None, "yes", 2],
    "verbose": [-1, "yes", None],
    "callback": [1, "print", [print]],
}
BAD_FOR_CLASSIFIERS = {
    "class_weight": [
        "nonsense",
        3,
        [1.0, 2.0],
        {7: 1.0},
        {0: -1.0},
        {0: np.nan},
        {0: np.inf},
        {0: "1"},
        {0: 0, 1: 0},
    ],
}
BAD_FOR_SDCA = {
    "pack": ["yes", None, 1, 0],
    "penalize_intercept": [None, "yes", 2],
    "batch_size": [0, -1, 1.5, "some", None, 31, True],
    "batch_rule": ["nonsense", None],
    "gamma": [-0.1, 1.1, np.nan, None],
    "sigma_squared": [0, -1, 2, np.nan, "1"],
    "average": ["nonsense", None],
}
BAD_FOR_PEGASOS = {
    "batch_size": [0, -1, 1.5, "some", None, 31, True],
    "sampling": ["nonsense", None, 1],
    "projection": [None, "yes", 2],
    "average": ["nonsense", None, True],
}
CASES = [
    (estimator, name, value)
    for estimator in ESTIMATORS
    for table in (
        BAD,
        BAD_FOR_CLASSIFIERS if estimator in CLASSIFIERS else {},
        BAD_FOR_PEGASOS if estimator is PegasosClassifier else BAD_FOR_SDCA,
    )
    for name, bad in table.items()
    for value in bad
]


@pytest.mark.parametrize(("estimator", "name", "value"), CASES)
def test_parameters_that_make_no_sense(estimator, name, value):
    refused(estimator(**{name: value}), name)


@pytest.mark.parametrize("model", [SDCARegressor, PegasosRegressor, KernelSDCARegressor])
def test_a_loss_that_another_estimator_has(model):
    refused(model(loss="poisson"), r"no loss='poisson': StreamingSVRGRegressor \(--solver svrg\)")


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, None, "1"])
def test_smoothing_is_checked_where_it_is_used(value):
    for estimator in CLASSIFIERS:
        refused(estimator("smoothed_hinge", smoothing=value), "smoothing")


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
@pytest.mark.parametrize("value", [-1, np.nan, np.inf, None, "1"])
def test_epsilon_is_checked_where_it_is_used(loss, value):
    refused(SDCARegressor(loss, epsilon=value), "epsilon")


def test_epsilon_may_be_zero_where_that_makes_sense():
    zero = SDCARegressor("epsilon_insensitive", epsilon=0.0, alpha=0.1, random_state=0).fit(X, Y)
    absolute = SDCARegressor("absolute", alpha=0.1, random_state=0).fit(X, Y)
    assert zero.result_.primal == pytest.approx(absolute.result_.primal, rel=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_numpy_numbers_are_numbers(estimator):
    model = estimator(
        alpha=np.float32(0.5),
        tol=np.float64(0.1),
        max_iter=np.int64(20),
        max_accesses=np.int32(10_000),
        fit_intercept=np.True_,
        random_state=np.int64(0),
    ).fit(X, Y)
    assert np.isfinite(model.coef_).all()


def test_an_array_of_one_number_is_told_to_be_its_item():
    refused(SDCAClassifier(alpha=np.array(0.1)), r"alpha .* got array\(0.1\): take its item\(\)")


# ---------------------------------------------------------------- X


def broken_csr(change):
    S = sparse.csr_array(X)
    change(S)
    return S


BAD_X = {
    "one-dimensional": (X[0], "2D array|1D array"),
    "three-dimensional": (X[np.newaxis], "dim 3"),
    "no rows": (X[:0], "0 sample"),
    "no columns": (X[:, :0], "0 feature"),
    "NaN": (np.where(X > 1, np.nan, X), "NaN"),
    "inf": (np.where(X > 1, np.inf, X), "infinity"),
    "sparse NaN": (sparse.csr_array(np.where(X > 1, np.nan, X)), "NaN"),
    "sparse inf": (sparse.csr_array(np.where(X > 1, -np.inf, X)), "infinity"),
    "complex": (X * 1j, "[Cc]omplex"),
    "sparse complex": (sparse.csr_array(X * 1j), "[Cc]omplex"),
    "strings": (np.full(X.shape, "a"), "convert|string"),
    "objects": (np.full(X.shape, None), "NaN|None|convert"),
    "missing dates": (np.full(X.shape, "NaT", "M8[D]"), "X has missing dates"),
    "too large for float64": (X.astype(np.longdouble) * np.longdouble("1e400"), "infinity|large"),
    "fewer rows than y": (X[:20], "inconsistent"),
    "norms that overflow": (X * 1e200, RANGE),
    "sparse norms that overflow": (sparse.csr_array(X * 1e200), RANGE),
    "column index out of range": (
        broken_csr(lambda S: S.indices.__setitem__(5, 99)),
        "CSR|index|indices",
    ),
    "negative column index": (
        broken_csr(lambda S: S.indices.__setitem__(5, -1)),
        "CSR|index|indices",
    ),
    "row pointers that fall": (
        broken_csr(lambda S: S.indptr.__setitem__(5, 1000)),
        "CSR|index|indptr|indices",
    ),
}
if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
    del BAD_X["too large for float64"]


@pytest.mark.parametrize("kind", BAD_X)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_X(estimator, kind):
    data, match = BAD_X[kind]
    refused(estimator(alpha=0.1), match, X=data)


WAYS_TO_FIT = {
    "packed rows": {"pack": True},
    "batches": {"batch_size": 4},
    "all at once": {"batch_size": "all"},
    "two threads": {"n_jobs": 2},
    "an intercept without penalty": {"penalize_intercept": False},
    "no intercept": {"fit_intercept": False},
}


@pytest.mark.parametrize("way", WAYS_TO_FIT)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("y", [Y, np.arange(30) % 3], ids=["two classes", "three"])
def test_one_bad_value_is_found_whatever_the_solver(way, value, storage, y):
    data = X.copy()
    data[-1, -1] = value
    model = SDCAClassifier(alpha=0.1, **WAYS_TO_FIT[way])
    refused(model, "NaN" if np.isnan(value) else "infinity", X=storage(data), y=y)
    assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")


REFITTED = [
    *(estimator(alpha=0.1, random_state=0) for estimator in (*ESTIMATORS, PegasosRegressor)),
    KernelSDCAClassifier(),
    KernelSDCARegressor(),
    KernelPegasosClassifier(max_iter=3),
    SublinearPerceptron(epsilon=0.5, max_iter=100),
    L2SVMClassifier(alpha=0.5, max_iter=100),
    SIMBAClassifier(0.1, epsilon=0.2, max_iter=100),
    MinimumEnclosingBall(epsilon=0.5),
    SequencePegasos(max_iter=2),
]


@pytest.mark.parametrize("model", REFITTED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("scale", [np.nan, 1e200])
def test_a_refit_that_fails_leaves_the_model_as_it_was(model, scale):
    def fitted():
        return {name: value for name, value in vars(model).items() if name.endswith("_")}

    model.fit(X, Y)
    before, predicted = fitted(), model.predict(X)
    with pytest.raises(ValueError, match=f"{RANGE}|NaN"):
        model.fit(X[:, :3] * scale, 7 * Y)
    assert fitted().keys() == before.keys()
    assert all(value is before[name] for name, value in fitted().items())
    np.testing.assert_array_equal(model.predict(X), predicted)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_object_arrays_of_numbers_and_integers_are_converted(estimator):
    model = estimator(alpha=0.1, random_state=0).fit(X.astype(object), Y)
    np.testing.assert_array_equal(model.coef_, estimator(alpha=0.1, random_state=0).fit(X, Y).coef_)
    for dtype in (bool, np.int8, np.uint64, np.float16, np.longdouble):
        assert estimator(alpha=0.1).fit((X > 0).astype(dtype), Y).coef_.dtype == np.float64


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_X_when_predicting(estimator):
    model = estimator(alpha=0.1).fit(X, Y)
    for data, match in (
        (X[:, :3], "3 features"),
        (np.hstack([X, X]), "8 features"),
        (sparse.csr_array(X[:, :3]), "3 features"),
        (X[0], "2D array|1D array"),
        (np.where(X > 1, np.nan, X), "NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            model.predict(data)


@pytest.mark.parametrize("make", [SDCAClassifier, KernelSDCAClassifier, MinimumEnclosingBall])
def test_a_source_is_predicted_block_by_block(make):
    model = make().fit(X, Y)
    source = ArraySource(X, Y, block_rows=7)
    for blocks, name in ((source, "ArraySource"), (iter(source), "generator")):
        with pytest.raises(TypeError, match=f"got {name}: of a source take the blocks one by one"):
            model.predict(blocks)
    one_by_one = np.concatenate([model.predict(rows) for rows, _ in source])
    np.testing.assert_array_equal(one_by_one, model.predict(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("storage", [np.asarray, np.float32, sparse.csr_array])
@pytest.mark.parametrize("unused", [False, True])
def test_rows_to_predict_must_be_finite(value, storage, unused):
    model = SDCAClassifier(alpha=0.1, random_state=0).fit(X, Y)
    rows = X.copy()
    rows[7, 1] = value
    if unused:
        model.coef_[0, 1] = 0.0  # BLAS may leave that out of a product
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        model.decision_function(storage(rows))


@pytest.mark.filterwarnings("error")
def test_scores_of_finite_rows_may_overflow():
    model = SDCAClassifier(alpha=0.1, random_state=0).fit(X, Y)
    model.coef_ = np.full_like(model.coef_, 1e300)
    assert np.isinf(model.decision_function(np.full((1, X.shape[1]), 1e300)))


def test_assume_finite_skips_the_scan():
    with config_context(assume_finite=True):
        model = SDCAClassifier(alpha=0.1, random_state=0).fit(X, Y)
    assert (model.coef_ == SDCAClassifier(alpha=0.1, random_state=0).fit(X, Y).coef_).all()


# ---------------------------------------------------------------- y


BAD_LABELS = {
    "None": (None, "y"),
    "one class": (np.zeros(30), "one class"),
    "one string": (np.full(30, "a"), "one class"),
    "two columns": (np.column_stack([Y, Y]), "1d array|shape"),
    "continuous": (X[:, 0], "continuous|Unknown label type"),
    "half, then whole": (1 - Y / 2, "continuous|Unknown label type"),
    "whole, then half": (Y / 2 + 0.5, "continuous|Unknown label type"),
    "nearly integers": (Y + 0.5, "continuous|Unknown label type"),
    "huge": ((Y + 1) * 1e300, "continuous|Unknown label type"),
    "NaN": (np.where(Y, np.nan, 1.0), "NaN"),
    "inf": (np.where(Y, np.inf, 1.0), "infinity"),
    "too short": (Y[:29], "inconsistent"),
    "empty": (Y[:0], "inconsistent|0 sample|empty"),
    "mixed objects": (np.array([0, "a"] * 15, dtype=object), "(?i)label|type"),
}


@pytest.mark.parametrize("kind", BAD_LABELS)
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_bad_labels(estimator, kind):
    y, match = BAD_LABELS[kind]
    refused(estimator(alpha=0.1), match, y=y)


def test_frames_with_missing_dates():
    pandas = pytest.importorskip("pandas")
    dates = pandas.DataFrame({"day": np.full(30, "NaT", "M8[ns]")})
    refused(SDCARegressor(alpha=0.1), "X has missing dates", X=dates)


def test_a_frame_of_dask_is_an_array():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe", exc_type=ImportError)
    frame = frames.from_pandas(pandas.DataFrame(X), npartitions=2)
    model, expected = (SDCARegressor(random_state=0).fit(rows, X[:, 0]) for rows in (frame, X))
    np.testing.assert_array_equal(model.coef_, expected.coef_)


BAD_TARGETS = {
    "None": (None, "y"),
    "strings": (np.full(30, "a"), "convert|string"),
    "two columns": (np.column_stack([Y, Y]), "1d array|shape"),
    "NaN": (np.where(Y, np.nan, 1.0), "NaN"),
    "inf": (np.where(Y, np.inf, 1.0), "infinity"),
    "complex": (X[:, 0] * 1j, "[Cc]omplex"),
    "missing dates": (np.full(30, "NaT", "M8[D]"), "y has missing dates"),
    "too short": (Y[:29], "inconsistent"),
}


@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_bad_targets(kind):
    y, match = BAD_TARGETS[kind]
    refused(SDCARegressor(alpha=0.1), match, y=y)


@pytest.mark.parametrize("loss", ["squared", "absolute", "epsilon_insensitive", "huber"])
@pytest.mark.parametrize("size", [1e160, 1e308])
def test_targets_too_large_for_their_loss(loss, size):
    """Refused, or solved with a finite model and a true certificate."""
    model = SDCARegressor(loss, alpha=0.1, max_iter=50)
    try:
        model.fit(X, size * (1 + X[:, 0] / 10))
    except ValueError as error:
        assert re.search(RANGE, str(error))
    else:
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.result_.primal)


# ---------------------------------------------------------------- weights


BAD_WEIGHTS = {
    "negative": (np.where(Y, -1.0, 1.0), "negative"),
    "NaN": (np.where(Y, np.nan, 1.0), "NaN"),
    "inf": (np.where(Y, np.inf, 1.0), "infinity"),
    "all zero": (np.zeros(30), "zero"),
    "too short": (np.ones(29), "inconsistent"),
    "two columns": (np.ones((30, 2)), "one-dimensional|1D"),
    "one column": (np.ones((30, 1)), "one-dimensional|1D"),
    "strings": (np.full(30, "a"), "convert|string|number"),
    "complex": (np.ones(30) * (1 + 1j), "[Cc]omplex|number|real"),
    "a negative number": (-1.0, "negative"),
    "a sum that overflows": (np.full(30, 1e308), RANGE),
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_bad_weights(estimator, kind):
    weights, match = BAD_WEIGHTS[kind]
    refused(estimator(alpha=0.1), match, weights=weights)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-30, 1e30, 1e300])
def test_weights_of_every_size(estimator, size):
    model = estimator(alpha=0.1, random_state=0)
    try:
        model.fit(X, Y, np.full(30, size))
    except ValueError as error:
        assert re.search(RANGE, str(error))
        return
    plain = estimator(alpha=0.1, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("factor", [1e308, 1e-160, 1e-300])
def test_class_weights_of_every_size(factor):
    options = {"alpha": 0.1, "class_weight": {0: factor, 1: factor}}
    with pytest.raises(ValueError, match="class_weight included, is outside the range"):
        SDCAClassifier(**options).fit(X, Y)
    with pytest.raises(ValueError, match="class_weight included, is outside the range"):
        PegasosClassifier(**options).fit_stream([(X, Y)], classes=[0, 1])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_other_types(estimator):
    weights = 1 + Y
    plain = estimator(alpha=0.1, random_state=0).fit(X, Y, weights.astype(float))
    for other in (weights, weights.tolist(), weights.astype(np.float32), weights.astype(">f8")):
        model = estimator(alpha=0.1, random_state=0).fit(X, Y, sample_weight=other)
        np.testing.assert_array_equal(model.coef_, plain.coef_)


# ---------------------------------------------------------------- the range of float64


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("alpha", [1e-320, 1e-300, 1e-150, 1e-12, 1e12, 1e150, 1e300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_alpha_gives_a_finite_model_or_an_error(estimator, alpha, dtype):
    model = estimator(alpha=alpha, max_iter=20, random_state=0)
    try:
        model.fit(X.astype(dtype), Y)
    except ValueError as error:
        assert re.search(RANGE, str(error))
    else:
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert not np.isnan(model.result_.primal)
        assert not model.result_.dual > model.result_.primal


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scaling", [1e-200, 1e-60, 1e60, 1e200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_intercept_scaling_gives_a_finite_model_or_an_error(estimator, scaling, dtype):
    model = estimator(intercept_scaling=scaling, alpha=0.1, max_iter=20, random_state=0)
    try:
        model.fit(X.astype(dtype), Y)
    except ValueError as error:
        assert re.search(f"{RANGE}|at most", str(error))
    else:
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e100, 1e150, 1e307])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_scale_of_X_gives_a_finite_model_or_an_error(estimator, scale, storage):
    model = estimator(alpha=0.1, max_iter=20, random_state=0)
    try:
        model.fit(storage(X * scale), Y)
    except ValueError as error:
        assert re.search(RANGE, str(error))
    else:
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
        assert np.isfinite(model.result_.primal)


@pytest.mark.parametrize(
    "model",
    [
        MinimumEnclosingBall(),
        MinimumEnclosingBall(kernel="rbf", epsilon=0.1),
        SublinearPerceptron(epsilon=0.3, max_iter=300, kernel="rbf"),
        L2SVMClassifier(alpha=0.5, epsilon=0.1, kernel="rbf"),
    ],
)
def test_rows_without_weight_keep_their_numbers(model):
    weights = np.ones(30)
    weights[::2] = 0
    model.fit(X, Y, sample_weight=weights)
    if model.kernel == "rbf":
        np.testing.assert_array_equal(X[model.support_], model.support_vectors_)
    else:
        assert model.dual_coef_.shape == (30,) and not model.dual_coef_[::2].any()


@pytest.mark.parametrize(
    "model",
    [
        SDCAClassifier(alpha=0.1),
        PegasosClassifier(alpha=0.1, max_iter=20),
        PegasosClassifier(alpha=0.1, max_iter=20, multi_class="joint"),
        StreamingSVRGClassifier(),
        KernelSDCAClassifier(),
        KernelPegasosClassifier(max_iter=20),
        L2SVMClassifier(alpha=0.5, epsilon=0.1),
        SublinearPerceptron(epsilon=0.3, max_iter=300),
        SublinearPerceptron(epsilon=0.3, max_iter=300, kernel="rbf"),
        SIMBAClassifier(0.1, epsilon=0.3, max_iter=300),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_without_weight_are_classes(model, n_classes):
    y = np.arange(30) % n_classes
    for weights in (y != 1, y == 0):
        model.fit(X, y, sample_weight=weights)
        assert model.classes_.tolist() == list(range(n_classes))
        assert model.decision_function(X).shape == ((30,) if n_classes == 2 else (30, n_classes))


@pytest.mark.parametrize("name", ["verbose", "callback", "n_jobs"])
@pytest.mark.parametrize(
    "make",
    [
        SublinearPerceptron,
        SIMBAClassifier,
        MinimumEnclosingBall,
        StreamingSVRGClassifier,
        SequencePegasos,
        KernelSDCAClassifier,
    ],
)
def test_parameters_of_the_run_are_checked_everywhere(make, name):
    if name not in make().get_params():
        pytest.skip(f"{make.__name__} has no {name}")
    with pytest.raises(ValueError, match=f"{name} must be"):
        make(**{name: "x"}).fit(X, Y)


@pytest.mark.parametrize(
    "make",
    [
        SDCAClassifier,
        SDCARegressor,
        PegasosClassifier,
        StreamingSVRGClassifier,
        SublinearPerceptron,
        MinimumEnclosingBall,
        KernelSDCAClassifier,
    ],
)
def test_column_indices_out_of_range_are_refused_in_predictions(make):
    rows = sparse.csr_array(X)
    model = make().fit(X, Y)
    rows.indices[3] = 77
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        model.predict(rows)


def test_class_weights_of_classes_that_a_fold_lacks(binary):
    X, y = binary
    weights = {0: 1.0, 1: 2.0, 7: 20.0}
    model = SDCAClassifier(alpha=0.1, class_weight=weights, random_state=0).fit(X, y)
    same = SDCAClassifier(alpha=0.1, class_weight={0: 1.0, 1: 2.0}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    with pytest.raises(ValueError, match=r"does not have, \[7\], and not all that it has"):
        SDCAClassifier(class_weight={0: 1.0, 7: 20.0}).fit(X, y)


def test_stores_serve_fits_alone(tmp_path, binary):
    X, y = binary
    store = DualStore.build(tmp_path / "store", X)
    model = SDCAClassifier(alpha=0.1).fit(store, y)
    with pytest.raises(ValueError, match="predictions need rows in memory"):
        model.predict(store)
    with pytest.raises(ValueError, match="requires y"):
        SDCAClassifier().fit(store, None)


def test_targets_of_kernel_machines_that_are_text(binary):
    X, _ = binary
    text = X[:, 0].astype(str)
    found = KernelSDCARegressor().fit(X, text).predict(X)
    np.testing.assert_array_equal(
        found, KernelSDCARegressor().fit(X, text.astype(float)).predict(X)
    )


@pytest.mark.parametrize(("n_classes", "warns"), [(15, False), (16, True), (30, True)])
def test_many_classes_are_warned_of_as_by_scikit_learn(n_classes, warns):
    y = np.arange(30) % n_classes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(find_classes(y), np.arange(n_classes))
    assert bool(caught) == warns


@pytest.mark.parametrize("random_state", ["a", -1, 2**32, np.int64(-1), 1.5])
def test_seeds_are_checked_where_nothing_is_drawn(random_state):
    with pytest.raises(ValueError, match="random_state must be an integer from 0"):
        MinimumEnclosingBall(random_state=random_state).fit(np.eye(3))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SDCAClassifier(class_weight="Balanced"), 'must be a dict, "balanced" or None'),
        (SDCAClassifier(batch_size=0), 'an integer of at least 1 or "all"'),
        (SDCAClassifier(batch_size=np.array([1, 2])), 'an integer of at least 1 or "all"'),
        (L2SVMClassifier(batch_size=np.array([1, 2])), 'at most 16777216 or "auto"'),
        (SDCAClassifier(n_jobs="x"), "an integer of at most 2147483647 or None"),
        (KernelSDCAClassifier(gamma="x"), 'a number above 0, "scale" or "auto"'),
        (KernelSDCAClassifier(gamma=0), 'a number above 0, "scale" or "auto"'),
        (SDCAClassifier(smoothing="x"), "smoothing must be a number of at least 0"),
        (StreamingSVRGClassifier(smoothing=np.nan), "smoothing must be a number of at least 0"),
        (SDCAClassifier("smoothed_hinge", smoothing=0), "smoothing must be a number above 0"),
        (SDCARegressor(epsilon=np.array([1, 2])), "epsilon must be a number of at least 0"),
        (L2SVMClassifier(intercept_scaling=1e300), r"intercept_scaling must .* at most 1e\+150"),
        (SDCAClassifier(intercept_scaling=1e300), r"intercept_scaling must .* at most 1e\+150"),
        (SIMBAClassifier(row_norm=1e-320), "row_norm must be a number of at least 1e-150"),
    ],
)
def test_all_that_a_parameter_may_be_is_told(model, words):
    """Also of those that the chosen loss has no use for."""
    refused(model, words)


def test_numbers_may_be_fractions():
    model, same = (SIMBAClassifier(row_norm=c, random_state=0) for c in (Fraction(20), 20.0))
    np.testing.assert_array_equal(model.fit(X, Y).coef_, same.fit(X, Y).coef_)
    one, other = (
        solve_simplex_qp(X, row_norm=c, variant="plain", random_state=0)
        for c in (Fraction(20), 20.0)
    )
    np.testing.assert_array_equal(one.p, other.p)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_parameter_that_a_loss_has_no_use_for_may_be_0(loss):
    model, same = (SDCAClassifier(loss, smoothing=c, random_state=0) for c in (0, 1.0))
    np.testing.assert_array_equal(model.fit(X, Y).coef_, same.fit(X, Y).coef_)


def test_a_ball_whose_nu_is_next_to_0_is_hard():
    hard = MinimumEnclosingBall(0.01, variant="variance_reduced", random_state=0).fit(X)
    soft = MinimumEnclosingBall(0.01, nu=1e-320, random_state=0).fit(X)
    assert soft.radius_ == pytest.approx(hard.radius_, abs=0.02)


def test_functions_call_their_matrix_by_its_name():
    for A in (np.eye(3) * 1e200, np.full((3, 2), np.nan)):
        for variant in ("auto", "plain"):
            with pytest.raises(ValueError, match=r"\bA (holds|contains) NaN"):
                solve_simplex_qp(A, variant=variant)


@pytest.mark.parametrize("classes", [[0, 1, np.nan], [0.0, 0.5, 1.0]])
def test_classes_that_are_no_labels_are_shown(classes):
    with pytest.raises(ValueError, match=r"classes must be labels, got \[0"):
        PegasosClassifier().partial_fit(X, Y, classes=classes)


def test_sequences_in_an_array_of_matrices():
    matrices = [np.ones((2, 3)), np.zeros((4, 3))]
    array = np.empty(2, dtype=object)
    array[:] = matrices
    labels = [[0, 1], [1, 0, 1, 0]]
    first, second = (
        SequencePegasos(max_iter=2, tol=0, random_state=0).fit(X, labels).coef_
        for X in (matrices, array)
    )
    np.testing.assert_array_equal(first, second)


# ---------------------------------------------------------------- what is no number


NO_MATRICES = {
    "complex": ([[1, 2], [3, 4j]], TypeError, r"\[1, 1\] is .*4j.*: .*real number"),
    "an object": ([[{}, 2], [3, 4]], TypeError, r"\[0, 0\] is {}: .*real number"),
    "text": ([[1, "a"], [3, 4]], ValueError, r"\[0, 1\] is 'a': could not convert"),
    "beyond float64": ([[1, 2], [3, 10**400]], ValueError, r"\[1, 1\] is 1000.*too large"),
    "ragged": ([[1, 2], [3]], ValueError, "must have rows of one length"),
    "a generator": ((i for i in range(2)), TypeError, "is <generator|got generator"),
    "None": (None, ValueError, "is None: Expected 2D"),
}
TAKE_MATRICES = {
    "A": [solve_matrix_game],
    "X": [
        spectral_norm_squared,
        lambda A: SDCAClassifier().fit(A, [0, 1]),
        lambda A: SDCAClassifier().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]).predict(A),
        lambda A: SDCAClassifier().fit_stream([(A, [0, 1])]),
        lambda A: SemiStreamingEnclosingBall().fit_stream([(A, None)]),
        lambda A: FourierFeatures(A, 2),
    ],
}


@pytest.mark.parametrize("case", NO_MATRICES)
@pytest.mark.parametrize(
    "name, take", [(name, take) for name in TAKE_MATRICES for take in TAKE_MATRICES[name]]
)
def test_what_is_no_matrix_of_numbers_is_shown_where_it_is(case, name, take):
    A, error, message = NO_MATRICES[case]
    with pytest.raises(error, match=f"{name}.*{message}"):
        take(A)


def test_targets_and_weights_that_are_no_numbers_are_shown_where_they_are():
    with pytest.raises(ValueError, match=r"y\[2\] is 'a'"):
        SDCARegressor().fit(X[:3], np.array([1, 2, "a"], dtype=object))
    with pytest.raises(TypeError, match=r"sample_weight\[1\] is {}"):
        SDCAClassifier().fit(X[:2], [0, 1], sample_weight=[1, {}])
    with pytest.raises(ValueError, match="sample_weight must be dense"):
        SDCAClassifier().fit(X[:2], [0, 1], sample_weight=sparse.csr_array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match=r"alphas\[1\] is 'a'"):
        sdca_path(X, Y, [1, "a"])


def test_arrays_of_a_source_and_blocks_of_a_store_that_are_no_numbers(tmp_path):
    with pytest.raises(ValueError, match="X must be an array of rows, got"):
        ArraySource(None)
    with pytest.raises(ValueError, match=r"X\[0, 1\] is 1000.*too large"):
        DualStore.build(tmp_path / "store", [[1, 10**400]])


@pytest.mark.parametrize("labels", [["a", 1], [1, "a"], [None, "a"], [True, "a"]])
@pytest.mark.parametrize(
    "fit",
    [
        SDCAClassifier().fit,
        SublinearPerceptron().fit,
        SemiStreamingPerceptron().fit,
        suggest_solver,
    ],
)
def test_labels_of_several_kinds_are_refused_as_such(fit, labels):
    with pytest.raises(ValueError, match="labels must be all numbers or all text"):
        fit(X, np.array(labels * 15, dtype=object))


@pytest.mark.parametrize("y", [3, "text", None])
def test_targets_that_are_none_are_refused_by_suggestions(y):
    with pytest.raises(ValueError, match=r"1d array|y is missing"):
        suggest_solver(X, y)


@pytest.mark.parametrize(
    "model",
    [
        PegasosClassifier(sampling="replacement", average="tail", learning_rate="pegasos"),
        PegasosClassifier(multi_class="joint", average="tail"),
        PegasosRegressor(average="tail", bias="search"),
        KernelPegasosClassifier(sampling="shuffle"),
        SDCAClassifier(batch_size=4, average="tail"),
        SequencePegasos(average="tail"),
    ],
    ids=repr,
)
def test_words_may_be_numpy_s(model):
    """As those of a grid search over an array."""
    words = {key: np.str_(word) for key, word in model.get_params().items() if type(word) is str}
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    if isinstance(model, SequencePegasos):
        X, y = [X[:15], X[15:]], [y[:15], y[15:]]
    model.set_params(random_state=0, max_iter=3, tol=0)
    same = clone(model).set_params(**words)
    found = [np.concatenate(each.fit(X, y).predict(X), axis=None) for each in (model, same)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_rows", [1, 30, 3000])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_products_with_weights_of_several_problems(make, n_rows, order):
    """By problem where X stores few values, at once where it stores many."""
    random = np.random.default_rng(0)
    X = sparse.random_array((n_rows, 20_000), density=1e-3, format="csr", rng=random)
    X = make(X.toarray()) if n_rows < 3000 else X
    weights = np.asarray(random.normal(size=(3, 20_000)), order=order)
    expected = np.stack([X @ of_problem for of_problem in weights], axis=1)
    np.testing.assert_allclose(dense_product(X, weights.T), expected, atol=1e-12)
    np.testing.assert_allclose(dense_product(X, weights[0]), expected[:, 0], atol=1e-12)


def broken(kind, place):
    """A matrix with an index that does not exist."""
    X = sparse.random_array((30, 6), density=0.5, format=kind, rng=np.random.default_rng(0))
    indices = X.coords[0] if kind == "coo" else X.indices
    indices[3] = place
    return X


@pytest.mark.parametrize("kind", ["csc", "coo", "csr"])
@pytest.mark.parametrize("place", [-1, 30, 10**6])
@pytest.mark.parametrize(
    "use",
    [
        lambda X, y: SDCAClassifier().fit(X, y),
        lambda X, y: SDCAClassifier(random_state=0).fit(np.eye(30, 6), y).predict(X),
        lambda X, y: SDCAClassifier().fit_stream([(X, y)]),
        lambda X, y: SDCAClassifier().fit_stream(ArraySource(X, y)),
        lambda X, y: MinimumEnclosingBall().fit(X),
        lambda X, y: FourierFeatures(X, 5).row(0),
        lambda X, y: SequencePegasos().fit([X, np.zeros((2, 6))], [y, y[:2]]),
        lambda X, y: suggest_solver(X, y),
        lambda X, y: KernelSDCAClassifier(kernel=linear_kernel).fit(X, y),
        lambda X, y: (
            KernelSDCAClassifier(kernel=linear_kernel).fit(np.eye(30, 6), y).decision_function(X)
        ),
    ],
)
def test_sparse_matrices_whose_indices_do_not_exist(use, kind, place):
    with pytest.raises(ValueError, match=f"X is not a valid {kind.upper()} matrix"):
        use(broken(kind, place), np.arange(30) % 2)


def test_bsr_matrices_whose_indices_do_not_exist():
    X = sparse.bsr_array(np.eye(4), blocksize=(2, 2))
    X.indices[0] = 7
    with pytest.raises(ValueError, match="X is not a valid BSR matrix"):
        SDCAClassifier().fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "use",
    [
        lambda X, y: suggest_solver(X, y),
        lambda X, y: KernelSDCAClassifier(kernel=linear_kernel).fit(X, y),
    ],
)
@pytest.mark.parametrize(("row", "end"), [(3, 2**29), (3, -5), (-1, 2**29)])
def test_rows_of_which_parts_are_taken_are_looked_at_before(use, row, end):
    X = sparse.random_array((30, 6), density=0.5, format="csr", rng=np.random.default_rng(0))
    X.indptr[row] = end
    with pytest.raises(ValueError, match="X is not a valid CSR matrix"):
        use(X, np.arange(30) % 2)


def test_a_broken_block_of_a_fit_with_a_checkpoint(tmp_path):
    X = sparse.random_array((30, 6), density=0.5, format="csr", rng=np.random.default_rng(0))
    X.indptr[3] = 10**6
    with pytest.raises(ValueError, match="X is not a valid CSR matrix"):
        SDCAClassifier().fit_stream([(X, np.arange(30) % 2)], checkpoint=tmp_path / "state")
