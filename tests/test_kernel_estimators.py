"""The kernel estimators: optima against libsvm, storage, memory, bad input."""

import gc
import os
import pickle
import tracemalloc
import warnings
import weakref
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    PegasosRegressor,
    SDCARegressor,
    _threads,
)
from sublinear._kernel_machines.training import gamma_value

KERNEL_PARAMETERS = {
    "rbf": {"gamma": 0.5},
    "poly": {"gamma": 0.1, "degree": 2, "coef0": 1.0},
    "sigmoid": {"gamma": 0.01, "coef0": 0.0},
    "linear": {},
}
ESTIMATORS = [KernelSDCAClassifier, KernelSDCARegressor, KernelPegasosClassifier]
EXACT = {"tol": 0, "max_iter": 60, "random_state": 0}  # as near as float32 lets it come


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(160, 5)).astype(np.float32).astype(float)
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * random.normal(size=160)
    return X, np.where(score > 0.4, "yes", "no"), score, random.integers(1, 4, 160).astype(float)


def svm_objective(K, y, coefficients, intercept, C, weights, epsilon=None):
    margins = K @ coefficients + intercept
    loss = np.maximum(0, 1 - y * margins if epsilon is None else abs(margins - y) - epsilon)
    return coefficients @ K @ coefficients / 2 + C * weights @ loss


def all_coefficients(model, n, row=0):
    coefficients = np.zeros(n)
    coefficients[model.support_] = model.dual_coef_[row]
    return coefficients


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("kernel", KERNEL_PARAMETERS)
def test_the_optimum_is_that_of_libsvm(data, kernel, intercept, weighted):
    """libsvm has only the free intercept. Without one, or with a penalised one, the dual value of
    our coefficients, computed in float64, bounds the optimum from below."""
    X, labels, _, weights = data
    y = np.where(labels == "yes", 1.0, -1.0)
    s = weights if weighted else np.ones(len(y))
    parameters = KERNEL_PARAMETERS[kernel]
    model = KernelSDCAClassifier(
        kernel=kernel,
        fit_intercept=intercept != "none",
        penalize_intercept=intercept != "free",
        intercept_scaling=2.0,
        **parameters,
        **EXACT,
    ).fit(X, labels, s)
    K = pairwise_kernels(X, metric=kernel, **parameters)
    coefficients = all_coefficients(model, len(y))
    if intercept == "free":
        peer = SVC(kernel=kernel, tol=1e-9, **parameters).fit(X, labels, s)
        best = svm_objective(K, y, all_coefficients(peer, len(y)), peer.intercept_[0], 1.0, s)
        ours = svm_objective(K, y, coefficients, model.intercept_[0], 1.0, s)
    else:
        K = K + (4.0 if intercept == "penalised" else 0.0)
        ours = svm_objective(K, y, coefficients, 0.0, 1.0, s)
        best = y @ coefficients - coefficients @ K @ coefficients / 2
        assert (y * coefficients >= 0).all() and (y * coefficients <= s).all()
    assert ours == pytest.approx(best, rel=1e-6)
    assert model.result_.primal == pytest.approx(ours, rel=1e-6)
    assert model.result_.dual <= best * (1 + 1e-6)
    np.testing.assert_allclose(
        model.decision_function(X),
        pairwise_kernels(X, metric=kernel, **parameters) @ coefficients + model.intercept_,
        atol=2e-5,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_support_vector_regression_is_that_of_libsvm(data, kernel, intercept, weighted):
    """As above: where libsvm has no such intercept, by the dual value in float64."""
    X, _, y, weights = data
    s = weights if weighted else np.ones(len(y))
    parameters = KERNEL_PARAMETERS[kernel]
    model = KernelSDCARegressor(
        kernel=kernel,
        epsilon=0.2,
        fit_intercept=intercept != "none",
        penalize_intercept=intercept != "free",
        intercept_scaling=2.0,
        **parameters,
        **EXACT,
    ).fit(X, y, s)
    K = pairwise_kernels(X, metric=kernel, **parameters)
    v = all_coefficients(model, len(y))
    if intercept == "free":
        peer = SVR(kernel=kernel, epsilon=0.2, tol=1e-9, **parameters).fit(X, y, s)
        best = svm_objective(K, y, all_coefficients(peer, len(y)), peer.intercept_[0], 1.0, s, 0.2)
        ours = svm_objective(K, y, v, model.intercept_[0], 1.0, s, 0.2)
    else:
        K = K + (4.0 if intercept == "penalised" else 0.0)
        ours = svm_objective(K, y, v, 0.0, 1.0, s, 0.2)
        best = y @ v - 0.2 * np.abs(v).sum() - v @ K @ v / 2
        assert (np.abs(v) <= s).all()
    assert ours == pytest.approx(best, rel=1e-6)
    assert model.result_.primal == pytest.approx(ours, rel=1e-6)


def test_squared_loss_is_kernel_ridge_regression(data):
    X, _, y, weights = data
    model = KernelSDCARegressor("squared", C=2.0, gamma=0.5, fit_intercept=False, **EXACT)
    peer = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.5)
    for s in (None, weights):
        expected = peer.fit(X, y, s).predict(X)
        np.testing.assert_allclose(model.fit(X, y, s).predict(X), expected, atol=1e-3)


@pytest.mark.parametrize("make", [np.float32, np.asfortranarray, sparse.csr_array])
def test_storage_does_not_matter(data, make):
    X, y, _, _ = data
    model = KernelSDCAClassifier(gamma=0.5, random_state=0).fit(X, y)
    other = clone(model).fit(make(X), y)
    np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(
        model.decision_function(make(X)), model.decision_function(X), atol=1e-6
    )
    assert sparse.issparse(other.support_vectors_) == sparse.issparse(make(X))


def test_precomputed_and_callable_kernels_give_the_same_model(data):
    X, y, _, _ = data

    def rbf(A, B):
        return pairwise_kernels(A, B, metric="rbf", gamma=0.5)

    model = KernelSDCAClassifier(gamma=0.5, **EXACT).fit(X, y)
    called = clone(model).set_params(kernel=rbf).fit(X, y)
    given = clone(model).set_params(kernel="precomputed").fit(rbf(X, X), y)
    expected = model.decision_function(X[:50])
    np.testing.assert_allclose(called.decision_function(X[:50]), expected, atol=1e-3)
    np.testing.assert_allclose(given.decision_function(rbf(X[:50], X)), expected, atol=1e-3)
    assert given.support_vectors_.shape == (0, 0)


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_memory_and_threads_change_nothing(multiclass, name):
    X, y = multiclass
    X = sparse.csr_array(X) if name == "sparse" else X
    model = KernelSDCAClassifier(gamma=1.0, C=5.0, random_state=0, max_iter=20).fit(X, y)
    expected = model.decision_function(X)
    assert expected.shape == (240, 3)
    assert model.score(X, y) > 0.8
    for limit, n_jobs in ((None, 2), (200_000, 1), (200_000, 3)):
        predicted = clone(model).set_params(memory_limit=limit, n_jobs=n_jobs)
        predicted.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_")})
        predicted._adopt(model, None)
        np.testing.assert_allclose(predicted.decision_function(X), expected, atol=1e-5)
    threads = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(threads.dual_coef_, model.dual_coef_)
    for n_jobs in (1e-320, 1.5, "2"):
        with pytest.raises(ValueError, match="n_jobs must be None or an integer"):
            model.set_params(n_jobs=n_jobs).decision_function(X)
    for limit in ("1e9", 1e9, np.inf, 0):  # as a forged model file may have it
        with pytest.raises(ValueError, match="memory_limit must be"):
            model.set_params(n_jobs=1, memory_limit=limit).decision_function(X)


@pytest.mark.parametrize("n_jobs", [10**5, 10**30])
def test_no_more_threads_than_a_process_may_have(monkeypatch, n_jobs):
    monkeypatch.setattr(_threads, "_threads_were_used", False)
    assert _threads.effective_threads(n_jobs) == max(64, os.cpu_count())


def test_too_little_memory_works_and_says_so(binary):
    X, y = binary
    with pytest.warns(UserWarning, match=r"memory_limit \(1000 bytes\)"):
        model = KernelSDCAClassifier(memory_limit=1000, random_state=0).fit(X, y)
    assert model.result_.status == "converged"


def peak_of(function):
    """The peak of what Python and NumPy hold while the function runs, above what they held."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("limit", [2**22, 2**24, 2**26])
def test_memory_stays_within_its_limit(make, limit):
    """The panels of X, 9.6 MB, fit into half of the largest limit alone."""
    random = np.random.default_rng(0)
    X = make(random.normal(size=(12_000, 200)).astype(np.float32))
    y = random.integers(0, 2, 12_000)
    model = KernelSDCAClassifier(memory_limit=limit, max_iter=2, tol=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = peak_of(lambda: model.fit(X, y))
    few_numbers = 300 * X.shape[0]
    of_model = 4 * 200 * len(model.support_) * (1 if make is np.asarray else 3)
    assert fit < limit + few_numbers + of_model
    if limit == 2**22:
        prediction = peak_of(lambda: model.decision_function(X))
        assert prediction < limit + few_numbers + of_model


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n_rows", [1, 60, 200])
def test_memory_of_few_predictions_stays_within_its_limit(n_rows, kernel, make):
    """Support vectors in float64 would take 10 MB at the least."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(1000, 2000)), random.integers(0, 2, 1000)
    X = make(np.where(random.random(X.shape) < 0.5, X, 0).astype(np.float32))
    model = KernelSDCAClassifier(kernel=kernel, gamma=1e-3, max_iter=1, tol=0.1, random_state=0)
    model.fit(X, y).set_params(memory_limit=2**22)
    assert len(model.support_) > 600
    few_numbers = 300 * len(X.indptr if sparse.issparse(X) else X)
    assert peak_of(lambda: model.decision_function(X[:n_rows])) < 2**22 + few_numbers


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_of_few_dense_rows_keep_panels_of_the_support_vectors(data, kernel, dtype):
    X, y, _, _ = data
    X = X.astype(dtype)
    model = KernelSDCAClassifier(kernel=kernel, gamma=0.1, coef0=1.0, random_state=0).fit(X, y)
    expected = model.decision_function(X[:40])
    assert model._panels.kept is None
    np.testing.assert_array_equal(model.decision_function(X[:3]), expected[:3])
    kept = model._panels.kept.panels
    assert kept is not None
    np.testing.assert_array_equal(model.decision_function(X[3:19]), expected[3:19])
    assert model._panels.kept.panels is kept
    for copy in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert copy._panels.kept is None
        np.testing.assert_array_equal(copy.decision_function(X[:3]), expected[:3])
    with pytest.raises(ValueError, match="read-only"):
        model.support_vectors_ += 1
    model.support_vectors_ = model.support_vectors_ + dtype(1)
    moved = model.decision_function(X[:40])
    np.testing.assert_array_equal(model.decision_function(X[:3]), moved[:3])
    model.fit(X[:50], y[:50])
    assert model._panels.kept is None


def test_memory_of_a_given_matrix_stays_within_its_limit(data):
    X = np.random.default_rng(0).normal(size=(3000, 3))
    K, y = pairwise_kernels(X, metric="rbf"), np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    model = KernelSDCAClassifier(kernel="precomputed", memory_limit=2**23, max_iter=3, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert peak_of(lambda: model.fit(K, y)) < 2**23 + 300 * 3000


def test_one_thread_or_two_give_the_same_bits(data):
    X, y, _, _ = data
    models = [KernelSDCAClassifier(n_jobs=n, random_state=0).fit(X, y) for n in (1, 2)]
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)


def test_gamma_scale_counts_weights_as_repetition(data):
    X, y, _, weights = data
    counts = weights.astype(int)
    repeated = KernelSDCAClassifier(random_state=0).fit(
        np.repeat(X, counts, 0), np.repeat(y, counts)
    )
    weighted = KernelSDCAClassifier(random_state=0).fit(X, y, weights)
    assert weighted._fitted_kernel.gamma == pytest.approx(repeated._fitted_kernel.gamma, rel=1e-12)
    assert KernelSDCAClassifier().fit(X, y)._fitted_kernel.gamma == pytest.approx(
        1 / (5 * X.var()), rel=1e-12
    )
    in_rows = KernelSDCAClassifier().fit(sparse.csr_array(X), y)
    assert in_rows._fitted_kernel.gamma == pytest.approx(1 / (5 * X.var()), rel=1e-9)
    assert KernelSDCAClassifier(gamma="auto").fit(X, y)._fitted_kernel.gamma == 0.2


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_gamma_scale_counts_zeros_by_the_weights_of_their_rows(make):
    random, weights = np.random.default_rng(0), np.repeat([1.0, 4.0], 20)
    X = random.normal(size=(40, 5))
    X[20:] *= random.random((20, 5)) < 0.3  # the heavy rows have most of them
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert gamma_value("scale", make(X), weights) == pytest.approx(
        1 / (5 * repeated.var()), rel=1e-12
    )


@pytest.mark.parametrize("centre", [0, 20_000])
def test_gamma_scale_knows_neither_type_nor_storage(centre):
    dense = np.random.default_rng(0).normal(size=(3000, 20)) + centre
    dense[::3, ::2] = 0
    X = dense.astype(np.float32)
    exact = 1 / (20 * X.var(dtype=np.float64))
    in_rows = sparse.csr_array(X)
    assert gamma_value("scale", X) == gamma_value("scale", X.astype(np.float64))
    assert gamma_value("scale", in_rows) == gamma_value("scale", in_rows.astype(np.float64))
    for layout in (X, np.asfortranarray(X), in_rows):
        assert gamma_value("scale", layout) == pytest.approx(exact, rel=1e-12)


def test_gamma_scale_far_from_0_does_not_cancel():
    X = np.random.default_rng(0).normal(size=(300, 20)) + 1e8
    full = sparse.csr_array(X)
    assert gamma_value("scale", full) == pytest.approx(gamma_value("scale", X), rel=1e-12)
    weights = np.arange(300.0)
    assert gamma_value("scale", full, weights) == pytest.approx(
        gamma_value("scale", X, weights), rel=1e-12
    )


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e6 / 3, np.float32(0.1)])
def test_gamma_scale_of_one_value_is_1(layout, value):
    """The mean of many equal numbers is off by roundings, of which nothing may be divided."""
    X = np.full((30_001, 7), value)
    weights = np.random.default_rng(0).uniform(size=len(X))
    for given in (None, weights):
        assert gamma_value("scale", layout(X), given) == 1.0
    X = X.astype(np.float64)
    X[::2] *= 1 + np.finfo(np.float64).eps
    assert gamma_value("scale", layout(X)) == 1.0


def test_gamma_scale_of_values_that_differ_little():
    X = 1 + 1e-12 * np.random.default_rng(0).normal(size=(300, 20))
    assert gamma_value("scale", X) == pytest.approx(1 / (20 * (X - 1).var()), rel=1e-9)


def callable_kernel(x, z):
    return (x @ z.T + 1) ** 2


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize(
    "kernel", ["rbf", "poly", "precomputed", pytest.param(callable_kernel, id="callable")]
)
def test_predictions_are_those_of_the_kernel_that_was_fitted(data, kernel, multi_class):
    X, _, score, _ = data
    y = np.digitize(score, [-0.5, 0.5])
    model = KernelSDCAClassifier(kernel=kernel, multi_class=multi_class, tol=0.01, random_state=0)
    given = X @ X.T + 5 * np.eye(len(X)) if kernel == "precomputed" else X
    scores = model.fit(given, y).decision_function(given)
    others = {"gamma": 3.0, "degree": 1, "coef0": 2.0, "memory_limit": 10_000}
    for other in ("rbf", "poly", "linear", "precomputed", callable_kernel):
        model.set_params(kernel=other, **others)
        np.testing.assert_allclose(model.decision_function(given), scores, rtol=1e-5, atol=1e-5)


def test_predictions_of_other_machines_are_those_of_the_kernel_that_was_fitted(data):
    X, y, score, _ = data
    pegasos = KernelPegasosClassifier(kernel="rbf", tol=0.1, random_state=0).fit(X, y)
    expected = pegasos.decision_function(X)
    pegasos.set_params(kernel="poly", degree=2)
    np.testing.assert_array_equal(pegasos.decision_function(X), expected)
    again = pickle.loads(pickle.dumps(pegasos))
    np.testing.assert_array_equal(again.decision_function(X), expected)
    assert clone(pegasos).fit(X, y)._fitted_kernel.name == "poly"
    regressor = KernelSDCARegressor(kernel="poly", random_state=0, tol=0.1).fit(X, score)
    expected = regressor.predict(X)
    np.testing.assert_array_equal(regressor.set_params(kernel="rbf").predict(X), expected)


def test_class_weights_are_sample_weights(data):
    X, y, _, _ = data
    factors = {"yes": 3.0, "no": 0.5}
    by_class = KernelSDCAClassifier(gamma=0.5, class_weight=factors, random_state=0).fit(X, y)
    by_sample = KernelSDCAClassifier(gamma=0.5, random_state=0)
    by_sample.fit(X, y, np.array([factors[label] for label in y]))
    np.testing.assert_array_equal(by_class.dual_coef_, by_sample.dual_coef_)


def test_warm_start_goes_on(data):
    X, y, _, _ = data
    for free in (False, True):
        model = KernelSDCAClassifier(
            gamma=0.5, C=10.0, penalize_intercept=free, warm_start=True, random_state=0
        ).fit(X, y)
        first = model.result_
        again = model.set_params(tol=1e-4).fit(X, y).result_
        assert again.trace[0].primal == pytest.approx(first.primal, rel=1e-5)
        assert model.set_params(C=5.0).fit(X, y).result_.status == "converged"
        assert model.fit(X[:100], y[:100]).support_.max() < 100


def test_budgets_and_callbacks(data):
    X, y, _, _ = data
    with pytest.warns(UserWarning, match="max_accesses"):
        model = KernelSDCAClassifier(max_accesses=5000, C=100.0, random_state=0).fit(X, y)
    assert 0 < model.result_.accesses <= 5000 and model.result_.gap < np.inf
    seen = []
    model = KernelSDCAClassifier(C=100.0, callback=lambda s: seen.append(s) or len(seen) == 2)
    model.set_params(tol=1e-6)
    assert model.fit(X, y).result_.status == "stopped"
    assert seen[0].coef.shape == (160,) and len(seen) == 2


@pytest.mark.parametrize("penalised", [True, False])
def test_an_interrupt_leaves_a_model(sparse_problem, interrupt_after, penalised):
    X, y = sparse_problem
    model = KernelSDCAClassifier(
        C=1e3, tol=0, max_iter=10**9, penalize_intercept=penalised, random_state=0
    )
    interrupt_after(1.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.result_.status == "interrupted"
    assert len(model.support_) > 0
    assert model.score(X[:2000], y[:2000]) > 0.6


def test_the_model_survives_pickling_cloning_and_searching(data):
    X, y, _, _ = data
    X = X.copy()
    X.flags.writeable = False
    model = KernelSDCAClassifier(random_state=0).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))
    search = GridSearchCV(clone(model), {"C": [0.1, 1.0], "kernel": ["rbf", "linear"]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.5


@pytest.mark.parametrize("kernel", KERNEL_PARAMETERS)
def test_all_rows_equal(kernel):
    X, y = np.ones((50, 3)), np.arange(50) % 2
    makers = [
        KernelSDCAClassifier(),
        KernelSDCAClassifier(penalize_intercept=False),
        KernelSDCARegressor(),
        KernelPegasosClassifier(),
    ]
    for model in makers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(kernel=kernel, max_iter=50).fit(X, y)
        assert np.isfinite(model.dual_coef_).all() and np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0}, "gamma must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"gamma": np.inf}, "gamma must be"),
        ({"gamma": "wide"}, "gamma must be"),
        ({"kernel": "cosine"}, "kernel must be"),
        ({"kernel": 3}, "kernel must be"),
        ({"degree": -1}, "degree must be"),
        ({"coef0": np.nan}, "coef0 must be"),
        ({"C": 0}, "C must be"),
        ({"memory_limit": 0}, "memory_limit must be"),
        ({"loss": "squared_log"}, "loss must be"),
        ({"kernel": "precomputed"}, "square"),
        ({"kernel": lambda A, B: np.ones(3)}, "returned shape"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "not finite"),
        ({"kernel": "poly", "gamma": 1e30}, "range of float32"),
    ],
)
@pytest.mark.parametrize("make", ESTIMATORS)
def test_bad_parameters_are_refused(data, make, parameters, message):
    X, labels, scores, _ = data
    with pytest.raises(ValueError, match=message):
        make(**parameters).fit(X, scores if make is KernelSDCARegressor else labels)


@pytest.mark.parametrize("loss", ["logistic", "foo"])
def test_a_refused_loss_is_told_those_that_are_accepted(data, loss):
    accepted = "must be one of 'hinge', 'squared_hinge', 'smoothed_hinge'; got"
    with pytest.raises(ValueError, match=accepted):
        KernelSDCAClassifier(loss).fit(data[0], data[1])


def test_bad_kernel_values_in_prediction_are_refused(data):
    X, y, _, _ = data
    answer = {"of": lambda A, B: A @ B.T}
    model = KernelSDCAClassifier(kernel=lambda A, B: answer["of"](A, B)).fit(X, y)
    answer["of"] = lambda A, B: np.full((len(A), len(B)), np.nan)
    with pytest.raises(ValueError, match="not finite"):
        model.predict(X)
    answer["of"] = lambda A, B: np.ones((len(B), len(A)))
    with pytest.raises(ValueError, match="returned shape"):
        model.predict(X[:3])
    model = KernelSDCAClassifier(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="features"):
        model.predict((X @ X.T)[:, :7])


def test_bad_data_is_refused(data):
    X, y, _, _ = data
    for make in (KernelSDCAClassifier, KernelPegasosClassifier):
        with pytest.raises(ValueError, match="one class"):
            make().fit(X, np.ones(160))
    with pytest.raises(ValueError, match="dense"):
        KernelSDCAClassifier(kernel="precomputed").fit(sparse.eye_array(160).tocsr(), y)
    with pytest.raises(ValueError, match="not symmetric"):
        KernelSDCAClassifier(kernel="precomputed").fit(X @ X.T + np.arange(160), y)
    with pytest.raises(ValueError, match="NaN"):
        KernelSDCAClassifier().fit(np.full_like(X, np.nan), y)
    model = KernelSDCAClassifier().fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])


def gap_without_rounding(model):
    """The relative gap of a fit but for what makes up for rounding of kernel values."""
    return model.result_.relative_gap - model._rounding


@pytest.mark.parametrize("penalised", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_wide_tube_costs_no_accuracy(epsilon, penalised):
    """Slopes on the side of a coefficient go to 0, those of the loss without its tube to epsilon,
    next to which float32 resolves less."""
    X, y = make_friedman1(n_samples=300, noise=0.5, random_state=0)
    model = KernelSDCARegressor(
        C=30, epsilon=epsilon, penalize_intercept=penalised, tol=0, max_iter=100, random_state=0
    )
    assert gap_without_rounding(model.fit(X, y)) <= 2e-8


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "absolute"])
@pytest.mark.parametrize("C", [30, 300])
def test_a_free_intercept_far_from_zero_costs_no_accuracy(C, loss):
    X, y = make_friedman1(n_samples=150, random_state=0)
    model = KernelSDCARegressor(
        C=C, loss=loss, penalize_intercept=False, tol=0, max_iter=40, random_state=0
    )
    assert gap_without_rounding(model.fit(X, y + 100)) <= 3e-6


def test_warm_starts_of_pairs_and_of_rests_do_not_mix():
    X = np.random.default_rng(0).normal(size=(90, 5))
    y = np.digitize(X[:, 0], [-0.7, 0.7])
    model = KernelSDCAClassifier(warm_start=True).fit(X, y)
    again = model.set_params(multi_class="ovr").fit(X, y)
    fresh = KernelSDCAClassifier(multi_class="ovr").fit(X, y)
    np.testing.assert_array_equal(again.predict(X), fresh.predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("budget", [50, 300, 1000, 3000, 20_000])
def test_small_budgets_with_a_free_intercept(budget):
    """A working set needs a row to rise and one to fall; where it has none the fit ends."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(600, 3)), np.where(random.random(600) > 0.5, 1, -1)
    options = {"penalize_intercept": False, "random_state": 0}
    result = KernelSDCAClassifier(max_accesses=budget, **options).fit(X, y).result_
    assert result.accesses <= budget and result.status == "max_accesses"
    assert result.primal <= 600 and result.dual <= result.primal
    assert (result.n_iter > 0) == (budget >= 3000)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_free_intercept_is_the_middle_of_the_best(data, loss, weighted):
    """With a small C all coefficients are at their bounds, and any of many intercepts is best."""
    X, y, _, _ = data
    sizes = [40, 20] if weighted else [30, 30]
    rows = np.concatenate(
        [np.flatnonzero(y == c)[:n] for c, n in zip(["no", "yes"], sizes, strict=True)]
    )
    parameters = {"C": 1e-3, "class_weight": "balanced"}
    model = KernelSDCAClassifier(
        loss, smoothing=1e-3, penalize_intercept=False, random_state=0, **parameters
    ).fit(X[rows], y[rows])
    usual = SVC(**parameters).fit(X[rows], y[rows])
    np.testing.assert_allclose(
        model.intercept_, usual.intercept_, atol=1e-6 if loss == "hinge" else 2e-3
    )


def test_a_free_intercept_where_one_class_has_no_weight(data):
    """The best intercepts have one end only, and the objective is 0 there."""
    X, y, _, _ = data
    model = KernelSDCAClassifier(penalize_intercept=False, class_weight={"no": 0, "yes": 1})
    assert model.fit(X, y).result_.status == "converged"
    assert model.result_.primal == 0 and np.all(model.predict(X) == "yes")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_nothing_left_to_gain(fit_intercept):
    """With so small a C every coefficient is at its end after a round."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(3000, 3)), np.where(random.random(3000) > 0.5, 1, -1)
    options = {"fit_intercept": fit_intercept, "tol": 0, "max_iter": 30, "random_state": 0}
    model = KernelSDCAClassifier(C=1e-5, gamma=0.5, **options)
    result = model.fit(X, y, sample_weight=random.random(3000)).result_
    assert result.gap <= 1e-11 * result.primal


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
def test_blocks_do_not_depend_on_threads(make):
    X = np.random.default_rng(0).normal(size=(1200, 6))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    options = {"memory_limit": 2**21, "tol": 0.05, "max_iter": 20, "random_state": 0}
    models = []
    for n_jobs in (1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append(make(n_jobs=n_jobs, **options).fit(X, y))
    np.testing.assert_array_equal(*(model.dual_coef_ for model in models))


def test_data_far_from_the_origin_is_not_warned_of(data):
    X, labels, *_ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelSDCAClassifier(gamma=1.0).fit(X + 1e4, labels)  # centred first


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 100.0}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_class_weight_leaves_the_kernel_as_it_is(class_weight, n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % n_classes
    X[y == 0] *= 0.1
    rare = np.flatnonzero((y > 0) | (np.arange(60) < 20))
    model = KernelSDCAClassifier(class_weight=class_weight).fit(X[rare], y[rare])
    assert (
        model._fitted_kernel.gamma
        == KernelSDCAClassifier().fit(X[rare], y[rare])._fitted_kernel.gamma
    )


def test_a_variance_that_underflows_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 2)) * 1e-160
    with pytest.raises(ValueError, match="scale X up"):
        KernelSDCAClassifier().fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_targets_beyond_float32_are_refused(scale):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="scale y"):
        KernelSDCARegressor("squared").fit(X, X[:, 0] * scale)


def test_a_reduction_that_costs_the_gap_says_so():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = (X**2).sum(axis=1) > 1.5
    assert KernelSDCAClassifier(max_support=1).fit(X, y).result_.status == "reduced"
    assert KernelSDCAClassifier(max_support=200).fit(X, y).result_.status == "converged"


def test_a_reduction_that_closes_the_gap_says_so():
    random = np.random.default_rng(32)
    X = random.normal(size=(60, 2))
    y = X[:, 0] + random.normal(size=60) > 0
    model = KernelPegasosClassifier(
        "smoothed_hinge", C=0.01, max_iter=2, max_support=20, random_state=32
    ).fit(X, y)
    assert model.reduction_ is not None
    assert model.result_.relative_gap <= model.tol
    assert model.result_.status == "converged"


@pytest.mark.parametrize("seed", range(12))
def test_the_objective_of_a_reduced_model_is_its_own(seed):
    """Where float32 kernel values would make it look below the optimum."""
    random = np.random.default_rng(seed)
    x = 30 + 9 * random.normal(size=60)
    y, C = 70 * x + 10 * random.normal(size=60), 1e4
    shape = {"kernel": "poly", "gamma": 1.0, "degree": 2, "coef0": 1.0}
    model = KernelSDCARegressor(**shape, C=C, max_support=7, random_state=0).fit(x[:, None], y)
    K = np.square(np.multiply.outer(x, x).astype(np.longdouble) + 1)
    v = np.zeros(60)
    v[model.support_] = model.dual_coef_[0]
    loss = np.maximum(0, abs(K @ v + model.intercept_ - y) - 0.1)
    objective = float(v @ K @ v / 2 + model.intercept_[0] ** 2 / 2 + C * loss.sum())
    assert model.result_.primal == pytest.approx(objective, rel=1e-6)
    assert model.result_.dual <= objective * (1 + 1e-9)
    assert model.result_.status == (
        "converged" if model.result_.relative_gap <= 1e-3 else "reduced"
    )


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 7])
def test_support_vectors_whose_images_nearly_coincide_are_reduced(seed):
    random = np.random.default_rng(seed)
    X = 10 * random.normal(size=(120, 1))
    y = np.sign(X[:, 0] + 3 * random.normal(size=120))
    model = KernelSDCAClassifier(gamma=1.0, C=100.0, max_support=50, random_state=0).fit(X, y)
    assert len(model.support_) <= 50
    assert model.reduction_.n_support > 50


@pytest.mark.parametrize("offset", [0.0, 3.0])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_a_free_intercept_does_not_depend_on_the_unit_of_the_targets(data, loss, unit, offset):
    X, _, y, _ = data
    options = {"penalize_intercept": False, "tol": 1e-6, "max_iter": 200, "random_state": 0}
    usual = KernelSDCARegressor(loss, epsilon=0.1, **options).fit(X, y)
    C = unit if loss == "epsilon_insensitive" else 1.0
    model = KernelSDCARegressor(loss, epsilon=0.1 * unit, C=C, **options)
    model.fit(X, unit * (y + offset))
    assert model.result_.status == "converged"
    np.testing.assert_allclose(
        model.predict(X) / unit - offset, usual.predict(X), atol=2e-3 * y.std()
    )


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "epsilon_insensitive"])
@pytest.mark.parametrize("target", [0.0, 0.1, 1e-9, 123456.7])
def test_equal_targets_are_fitted_at_once(data, loss, target):
    X = data[0]
    y, weights = np.full(len(X), target), np.ones(len(X))
    y[3], weights[3] = 1e6, 0
    model = KernelSDCARegressor(loss, penalize_intercept=False, random_state=0)
    model.fit(X, y, sample_weight=weights)
    assert model.result_.status == "converged" and model.n_iter_ == 1
    # the middle of the intercepts without loss, whose ends are as far off as epsilon
    np.testing.assert_allclose(model.predict(X), target, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("C", [1e8, 1e10])
@pytest.mark.parametrize(
    "model", [KernelSDCARegressor("squared"), KernelSDCAClassifier("squared_hinge")], ids=repr
)
def test_a_kernel_matrix_that_float32_makes_indefinite(model, C):
    """Rows that are nearly one, and next to no penalty: nothing bounds steps in float32."""
    X = 1 + 1e-3 * np.random.default_rng(0).normal(size=(60, 1))
    y = np.where(np.arange(60) % 2, 1.0, -1.0)
    model = clone(model).set_params(gamma=0.1, C=C, random_state=0).fit(X, y)
    assert model.result_.status == "converged"
    assert 0 <= model.result_.gap <= 1e-3 * model.result_.primal


def test_a_large_kernel_matrix_of_rank_one():
    random = np.random.default_rng(0)
    x = 1 + 1e-3 * random.normal(size=60)
    y = -385 + 0.1 * random.normal(size=60)
    given = KernelSDCARegressor("squared", kernel="precomputed", random_state=0)
    linear = KernelSDCARegressor("squared", kernel="linear", random_state=0)
    given.fit(1e10 * np.outer(x, x), y)
    linear.fit(1e5 * x[:, np.newaxis], y)
    assert given.result_.status == linear.result_.status == "converged"
    assert given.result_.primal == pytest.approx(linear.result_.primal, rel=2e-3)


@pytest.mark.parametrize(
    ("kernel", "offset"), [("linear", 300.0), ("linear", 100.0), ("rbf", 50.0)]
)
def test_sparse_rows_far_from_0_are_seen_as_the_dense_ones_of_the_fit(kernel, offset):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4)) + offset
    y = X[:, 0] - offset + 0.3 * random.normal(size=300) > 0
    model = KernelSDCAClassifier(kernel=kernel, gamma=0.5, degree=2, random_state=0).fit(X, y)
    sparse_scores, scores = (model.decision_function(rows) for rows in (sparse.csr_array(X), X))
    np.testing.assert_allclose(sparse_scores, scores, atol=1e-12, rtol=0)


@pytest.mark.parametrize("asymmetry", [1e-7, 5e-6])
def test_gaps_count_what_predictions_see_of_a_matrix_that_is_not_quite_symmetric(asymmetry):
    random = np.random.default_rng(0)
    half = random.normal(size=(20, 30))
    K = half @ half.T * (1 + asymmetry * random.normal(size=(20, 20)))
    y, C = random.normal(size=20), 1e5
    model = KernelSDCARegressor("absolute", kernel="precomputed", C=C, random_state=0).fit(K, y)
    v = np.zeros(20)
    v[model.support_] = model.dual_coef_[0]
    objective = C * np.abs(model.predict(K) - y).sum() + v @ K @ v / 2
    assert objective - model.result_.primal <= model.result_.gap


@pytest.mark.parametrize("make", [KernelSDCARegressor, SDCARegressor, PegasosRegressor])
def test_a_zone_of_no_width_makes_no_huber_loss(make):
    with pytest.raises(ValueError, match="epsilon must be a number above 0"):
        make("huber", epsilon=0.0).fit(np.eye(4), np.arange(4.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["huber", "epsilon_insensitive", "squared"])
@pytest.mark.parametrize("scaling", [1e3, 1e5])
def test_a_large_constant_feature_makes_no_false_objective(loss, scaling):
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 5))
    y = X[:, 0] + random.normal(size=150)
    options = {"epsilon": 1.0 if loss == "huber" else 0.1, "gamma": 0.2, "C": 1e6}
    model = KernelSDCARegressor(loss, intercept_scaling=scaling, max_iter=200, **options).fit(X, y)
    assert model.result_.status == "converged"
    v = np.zeros(150)
    v[model.support_] = model.dual_coef_[0]
    margins = pairwise_kernels(X, metric="rbf", gamma=0.2) @ v
    error = np.abs(margins + model.intercept_ - y)
    losses = {
        "huber": np.where(error <= 1, error**2 / 2, error - 0.5),
        "epsilon_insensitive": np.maximum(0, error - 0.1),
        "squared": error**2 / 2,
    }[loss]
    primal = v @ margins / 2 + (model.intercept_[0] / scaling) ** 2 / 2 + 1e6 * losses.sum()
    assert primal == pytest.approx(model.result_.primal, rel=1e-6)
    begun = clone(model).set_params(max_iter=1).fit(X, y)
    begun.set_params(warm_start=True, max_iter=1000).fit(X, y)
    model.set_params(warm_start=True, max_iter=1000).fit(X, y)
    for again in (begun, model):
        assert again.result_.status == "converged"
        assert again.result_.primal == pytest.approx(primal, rel=1e-2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [KernelSDCARegressor, KernelSDCAClassifier])
def test_a_rounded_kernel_matrix_leads_no_ascent_astray(kind):
    """Without ends of intervals, and with a ridge below what float32 makes of eigenvalues."""
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, size=(2500, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * random.normal(size=2500)
    if kind is KernelSDCARegressor:
        model = kind("squared", C=1e5, max_iter=20, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9
    else:
        y = np.sign(y)
        model = kind("squared_hinge", C=1e6, gamma=1.0, max_iter=20, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9
    assert 0 < model.result_.gap <= model.result_.primal


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
@pytest.mark.parametrize("C", [1e-140, 1e-165, 1e-250])
def test_tiny_coefficients_are_balanced(loss, C):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 2)), np.where(np.arange(12) < 4, 1, -1)
    model = KernelSDCAClassifier(loss, C=C, penalize_intercept=False, random_state=0).fit(X, y)
    assert model.result_.status == "converged"
    assert abs(model.dual_coef_.sum()) <= 1e-9 * C


@pytest.mark.parametrize("max_support", [None, 15])
@pytest.mark.parametrize(
    "make",
    [
        KernelSDCAClassifier,
        partial(KernelSDCAClassifier, multi_class="ovr"),
        KernelSDCARegressor,
        KernelPegasosClassifier,
    ],
)
def test_rows_without_weight_have_no_part_in_the_fit(data, make, max_support):
    X, _, score, weights = data
    weights = np.where(np.arange(len(X)) % 3 == 1, 0, weights)
    kept = np.flatnonzero(weights)
    model = make(max_support=max_support, max_iter=50, tol=0.01, random_state=0)
    y = score if make is KernelSDCARegressor else np.digitize(score, [-0.4, 0.6])
    expected = clone(model).fit(X[kept], y[kept], weights[kept])
    model.fit(X, y, weights)
    np.testing.assert_array_equal(model.support_, kept[expected.support_])
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.result_.accesses == expected.result_.accesses


def test_a_warm_start_takes_what_has_weight_still(data):
    X, _, score, _ = data
    model = KernelSDCARegressor(warm_start=True, random_state=0)
    first, second = (np.where(np.arange(len(X)) % 4 == k, 0.0, 1.0) for k in (0, 1))
    model.fit(X, score, first)
    kept = np.flatnonzero(second)
    start = np.zeros(len(X))
    start[model.support_] = model.dual_coef_[0]
    training = model._prepare(X, score, second)
    np.testing.assert_array_equal(model._starting_coefficients(training, 0), start[kept])
    model.fit(X, score, second)
    assert model.result_.relative_gap <= model.tol
    assert second[model.support_].all()


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_classes_without_weight_are_classes(data, multi_class, kernel):
    X, _, score, _ = data
    y, K = np.digitize(score, [-0.4, 0.6]), X if kernel == "rbf" else X @ X.T + 1
    model = KernelSDCAClassifier(kernel=kernel, multi_class=multi_class, random_state=0)
    model.fit(K, y, (y != 1).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.decision_function(K).shape == (len(X), 3)
    assert not (y[model.support_] == 1).any()


def test_models_keep_nothing_of_the_rows_that_they_predict(data):
    X, y, _, _ = data
    model = KernelSDCAClassifier(gamma=0.1, random_state=0).fit(X, y)
    rows = np.vstack([X, X])
    base = weakref.ref(rows)
    model.decision_function(rows[:3])
    assert model._panels.kept.panels is not None
    del rows
    gc.collect()
    assert base() is None


def test_few_rows_of_many_classes_are_predicted_as_many_are():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 5)), np.arange(300) % 30
    model = KernelSDCAClassifier(multi_class="ovr", gamma=0.1, random_state=0).fit(X, y)
    expected = model.decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X[:16]), expected[:16])
    assert model._panels.kept is None
    np.testing.assert_array_equal(model.decision_function(X[:1]), expected[:1])
    assert model._panels.kept.panels is not None


def test_rows_without_weight_stay_where_there_is_no_room_for_a_copy(data):
    X, y, _, _ = data
    weights = np.where(np.arange(len(X)) % 3 == 1, 0.0, 1.0)
    model = KernelSDCAClassifier(random_state=0)
    wide = np.hstack([X, np.zeros((len(X), 10_000))])
    for limit, n_rows in ((2**22, len(X)), (2**26, np.count_nonzero(weights))):
        training = model.set_params(memory_limit=limit)._prepare(wide, y, weights)
        assert training.n_rows == n_rows
        assert training.n_given == len(X)
