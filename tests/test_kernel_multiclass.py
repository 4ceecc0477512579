"""Kernel machines for many classes, fewer support vectors, paths."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_friedman1
from sklearn.svm import SVC

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    kernel_path,
)
from sublinear._core.pair_votes import scores_of_classes
from sublinear._kernel_machines import multiclass

EXACT = {"gamma": 0.3, "C": 2.0, "tol": 0, "max_iter": 60, "random_state": 0}
LIKE_SVC = {**EXACT, "penalize_intercept": False}


@pytest.fixture(scope="module")
def classes():
    X, y = make_blobs(240, 3, centers=4, cluster_std=3.0, random_state=1)
    return X, np.array(["a", "b", "c", "d"])[y]


@pytest.fixture(scope="module")
def svc(classes):
    return SVC(gamma=0.3, C=2.0, tol=1e-8, decision_function_shape="ovo").fit(*classes)


# ---------------------------------------------------------------- one-vs-one


def test_pairs_are_those_of_svc(classes, svc):
    X, y = classes
    model = KernelSDCAClassifier(decision_function_shape="ovo", **LIKE_SVC).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=2e-3)
    assert model.decision_function(X).shape == (240, 6)
    assert model.dual_coef_.shape == (3, len(model.support_)) and model.intercept_.shape == (6,)
    np.testing.assert_array_equal(np.sort(model.support_), np.sort(svc.support_))
    np.testing.assert_array_equal(model.n_support_, svc.n_support_)
    np.testing.assert_allclose(np.abs(model.dual_coef_), np.abs(svc.dual_coef_), atol=5e-3)


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_parameters_set_after_a_fit_change_no_prediction(classes, make, ways):
    X, y = classes
    model = make(gamma=0.3, multi_class=ways, tol=0.05, max_iter=500, random_state=0).fit(X, y)
    scores, labels = model.decision_function(X), model.predict(X)
    model.set_params(multi_class="ovr" if ways == "ovo" else "ovo")
    np.testing.assert_array_equal(model.decision_function(X), scores)
    np.testing.assert_array_equal(model.predict(X), labels)


def test_support_vectors_are_counted_by_class_for_pairs_alone(classes):
    X, y = classes
    model = KernelSDCAClassifier(gamma=0.3, random_state=0).fit(X, y)
    assert model.n_support_.sum() == len(model.support_)
    model.set_params(multi_class="ovr").fit(X, y)
    assert not hasattr(model, "n_support_")
    model.set_params(multi_class="ovo").fit(X, y)
    assert len(model.n_support_) == 4
    model.fit(X, y == "a")
    assert not hasattr(model, "n_support_")
    assert model.decision_function(X).shape == (240,)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("max_support", [None, 9])
@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_linear_kernels_have_weights_of_features(classes, ways, max_support, make, monkeypatch):
    X, y = classes
    options = {"multi_class": ways, "decision_function_shape": "ovo", "max_support": max_support}
    model = KernelSDCAClassifier(kernel="linear", random_state=0, **options).fit(make(X), y)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-9)
    monkeypatch.setattr(KernelSDCAClassifier, "_weights_pay", False)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-3)
    model.set_params(kernel="rbf")  # changes no model
    assert model.coef_.shape == (6 if ways == "ovo" else 4, X.shape[1])
    assert not hasattr(model.fit(X, y), "coef_")
    assert not hasattr(KernelSDCAClassifier(kernel="linear"), "coef_")


def test_weights_are_put_together_where_that_is_quick_and_has_room():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 20)), np.arange(300) % 40
    model = KernelSDCAClassifier(kernel="linear", max_iter=1, tol=0.9, random_state=0).fit(X, y < 9)
    assert len(model.support_) > 1
    assert model._weights_pay
    assert not model.set_params(memory_limit=500)._weights_pay
    many = KernelSDCAClassifier(kernel="linear", max_iter=1, tol=0.9, random_state=0)
    many.set_params(multi_class="ovr").fit(X, y)
    assert not many._weights_pay  # of 40 classes
    assert many.fit(X, y % 20)._weights_pay
    wide = sparse.random_array((300, 50_000), density=2e-4, format="csr", rng=random)
    assert not model.set_params(memory_limit=None).fit(wide, y < 9)._weights_pay


def test_scores_out_of_range_are_refused(classes):
    X, _ = classes
    model = KernelSDCARegressor(kernel="linear", C=1e6, random_state=0).fit(X, 100 * X[:, 0])
    with pytest.raises(ValueError, match="scores leave the range"):
        model.predict(np.full((2, 3), 1.7e308))


def test_linear_weights_are_those_of_svc(classes):
    X, y = classes
    ours = KernelSDCAClassifier(kernel="linear", **LIKE_SVC).fit(X, y)
    theirs = SVC(kernel="linear", C=LIKE_SVC["C"], tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3 * np.abs(theirs.coef_).max())


def test_votes_are_those_of_svc(classes, svc):
    X, y = classes
    model = KernelSDCAClassifier(**LIKE_SVC).fit(X, y)
    svc = clone(svc).set_params(decision_function_shape="ovr").fit(X, y)
    clear = np.abs(clone(svc).set_params(decision_function_shape="ovo").fit(X, y)
                   .decision_function(X)).min(axis=1) > 1e-2  # fmt: skip
    assert clear.sum() > 200
    theirs, ours = svc.decision_function(X), model.decision_function(X)
    np.testing.assert_allclose(ours[clear], theirs[clear], atol=1e-3)
    np.testing.assert_array_equal(model.predict(X)[clear], svc.predict(X)[clear])


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_every_problem_is_that_of_a_binary_fit(classes, make, ways):
    """Pair (first, second) is the binary problem of these two classes; so is class against rest."""
    X, y = classes
    settings = {"gamma": 0.3, "C": 2.0, "tol": 1e-4, "max_iter": 20_000, "random_state": 0}
    if make is KernelPegasosClassifier:
        settings |= {"tol": 0.02, "C": 0.1}
    model = make(multi_class=ways, decision_function_shape="ovo", **settings).fit(X, y)
    scores = model.decision_function(X)
    assert len(model.result_.parts) == scores.shape[1] == {"ovo": 6, "ovr": 4}[ways]
    if ways == "ovo":
        rows = np.isin(y, ["b", "d"])  # the fifth pair, positive for "b"
        single, k = make(**settings).fit(X[rows], y[rows] == "b"), 4
    else:
        single, k = make(**settings).fit(X, y == "c"), 2
    tol = settings["tol"]
    assert model.result_.parts[k].primal == pytest.approx(single.result_.primal, rel=2 * tol)
    # |f - g|^2 / 2 is at most the sum of both gaps
    near = 2 * np.sqrt(2 * tol * single.result_.primal)
    np.testing.assert_allclose(scores[:, k], single.decision_function(X), atol=near)


def test_storages_threads_and_memory_change_nothing(classes):
    X, y = classes
    model = KernelSDCAClassifier(**EXACT).fit(X, y)
    np.testing.assert_array_equal(
        clone(model).set_params(n_jobs=2).fit(X, y).decision_function(X), model.decision_function(X)
    )
    for other in (sparse.csr_array(X), X.astype(np.float32)):
        scores = clone(model).fit(other, y).decision_function(other)
        np.testing.assert_allclose(scores, model.decision_function(X), atol=5e-3)
    limited = clone(model).set_params(memory_limit=10**6).fit(X, y)
    np.testing.assert_allclose(limited.decision_function(X), model.decision_function(X), atol=5e-3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("kernel", ["precomputed", "callable"])
def test_other_kernels_by_pairs(classes, kernel):
    X, y = classes

    def values(A, B):
        return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(-1))

    usual = KernelSDCAClassifier(**EXACT).fit(X, y)
    if kernel == "precomputed":
        model = clone(usual).set_params(kernel=kernel).fit(values(X, X), y)
        scores = model.decision_function(values(X[:50], X))
    else:
        model = clone(usual).set_params(kernel=values).fit(X, y)
        scores = model.decision_function(X[:50])
    np.testing.assert_allclose(scores, usual.decision_function(X[:50]), atol=5e-3)


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("shape", [(240, 200), (240, 241), (240, 1)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_precomputed_matrix_that_is_not_square_is_refused(classes, make, shape, n_classes):
    y = np.arange(240) % n_classes
    with pytest.raises(ValueError, match=rf"square matrix.*\({shape[0]}, {shape[1]}\)"):
        make(kernel="precomputed").fit(np.ones(shape), y)


@pytest.mark.parametrize("n_rows", [1, 9])
def test_scores_of_classes_are_votes_and_squeezed_sums(n_rows):
    scores = np.random.default_rng(0).integers(-2, 3, size=(n_rows, 10)) / 7.0
    votes, sums = np.zeros((2, n_rows, 5))
    for score, (first, second) in zip(scores.T, combinations(range(5), 2), strict=True):
        votes[:, first] += score >= 0
        votes[:, second] += score < 0
        sums[:, first] += score
        sums[:, second] -= score
    expected = votes + sums / (3 * (np.abs(sums) + 1))
    for layout in (np.ascontiguousarray, np.asfortranarray):
        np.testing.assert_array_equal(scores_of_classes(layout(scores), 5), expected)
    with pytest.raises(ValueError, match="10 pairs of 6 classes"):
        scores_of_classes(scores, 6)


def test_pairs_are_listed_once_a_fit(classes, monkeypatch):
    """Their number grows with the square of that of the classes."""
    lists = []

    def counted(*arguments):
        lists.append(arguments)
        return combinations(*arguments)

    monkeypatch.setattr(multiclass, "combinations", counted)
    model = KernelSDCAClassifier(gamma=0.3, random_state=0).fit(*classes)
    model.predict(classes[0])
    assert len(lists) == 1


def test_weights_are_repetitions_by_pairs(classes):
    X, y = classes
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = KernelSDCAClassifier(**EXACT).fit(X, y, weights)
    repeated = KernelSDCAClassifier(**EXACT).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=5e-3
    )


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_warm_starts_begin_at_the_end(classes, make, ways):
    X, y = classes
    model = make(
        gamma=0.3, C=0.5, tol=0.02, multi_class=ways, warm_start=True, max_iter=5000, random_state=0
    ).fit(X, y)
    first, cold = model.result_, model.n_iter_
    model.fit(X, y)
    assert model.result_.status == "converged" and model.n_iter_ <= max(1, cold)
    assert model.result_.primal <= first.primal * 1.02
    if make is KernelPegasosClassifier:
        assert (model.n_steps_ > 0).all() and model.n_iter_ * 240 < model.n_steps_.max()


def test_an_interrupt_leaves_a_model_of_all_pairs(classes):
    X, y = classes
    calls = []

    def stop(snapshot):
        calls.append(snapshot.class_index)
        if snapshot.class_index == 2:
            raise KeyboardInterrupt

    model = KernelSDCAClassifier(callback=stop, **EXACT)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert set(calls) == {0, 1, 2} and model.result_.status == "interrupted"
    assert model.predict(X).shape == (240,) and (model.decision_function(X) != 0).any()


@pytest.mark.parametrize("name", ["multi_class", "decision_function_shape"])
def test_unknown_ways(classes, name):
    with pytest.raises(ValueError, match=name):
        KernelSDCAClassifier(**{name: "all"}).fit(*classes)


# ---------------------------------------------------------------- fewer support vectors


def primal(model, X, y, k=0):
    """The objective by NumPy, of a binary model with the Gaussian kernel, from its attributes."""

    def values(A, B):
        return np.exp(-model.gamma * ((A[:, None] - B[None]) ** 2).sum(-1))

    v, S = model.dual_coef_[k], model.support_vectors_
    scores = values(X, S) @ v + model.intercept_[k]
    norm = v @ values(S, S) @ v
    if model.penalize_intercept:
        norm += (model.intercept_[k] / model.intercept_scaling) ** 2
    return norm / 2 + model.C * np.maximum(0, 1 - y * scores).sum()


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
@pytest.mark.parametrize("options", [{}, {"penalize_intercept": False}, {"fit_intercept": False}])
def test_values_are_those_of_the_smaller_model(classes, make, options):
    if make is KernelPegasosClassifier and "penalize_intercept" in options:
        pytest.skip("kernel Pegasos penalises its intercept")
    X, y = classes
    y = np.where(y < "c", -1.0, 1.0)
    model = make(gamma=0.3, C=0.5, tol=0.01, max_iter=5000, max_support=12, random_state=0)
    model.set_params(**options).fit(X, y)
    assert len(model.support_) == len(model.support_vectors_) == model.dual_coef_.shape[1] == 12
    assert model.reduction_.n_support > 12
    result = model.result_
    assert result.primal == pytest.approx(primal(model, X, y), rel=1e-5)
    assert result.gap == pytest.approx(result.primal - result.dual)
    full = clone(model).set_params(max_support=None).fit(X, y)
    assert model.reduction_.primal == full.result_.primal < result.primal
    assert full.reduction_ is None and len(full.support_) == model.reduction_.n_support


@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_the_price_falls_with_the_number(classes, ways):
    X, y = classes
    make = KernelSDCAClassifier(multi_class=ways, **EXACT)
    primals = []
    for count in (10, 30, 90, 200):
        model = clone(make).set_params(max_support=count).fit(X, y)
        assert len(model.support_) <= count
        assert model.decision_function(X).shape == (240, 4)
        primals.append(model.result_.primal)
        if ways == "ovo":
            assert model.n_support_.sum() == len(model.support_)
    full = make.fit(X, y)
    assert np.all(np.diff(primals) <= 0) and primals[-1] <= 1.1 * full.result_.primal
    assert model.score(X, y) >= full.score(X, y) - 0.01


def test_a_smaller_regression():
    X, y = make_friedman1(300, random_state=0)
    make = KernelSDCARegressor(gamma=0.5, C=10.0, random_state=0)
    full, small = make.fit(X, y), clone(make).set_params(max_support=150).fit(X, y)
    assert len(full.support_) > 200 and len(small.support_) == 150
    assert small.score(X, y) > full.score(X, y) - 0.02


def test_a_precomputed_kernel_with_fewer_support_vectors(classes):
    X, y = classes
    K = np.exp(-0.01 * ((X[:, None] - X[None]) ** 2).sum(-1))
    settings = EXACT | {"gamma": 0.01, "max_support": 40}  # enough: no choice is a close one
    usual = KernelSDCAClassifier(**settings).fit(X, y)
    model = KernelSDCAClassifier(kernel="precomputed", **settings).fit(K, y)
    assert len(model.support_) <= 40
    assert np.mean(model.predict(K) == usual.predict(X)) > 0.95


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
def test_a_warm_start_does_not_begin_with_what_is_left(classes, make):
    X, y = classes
    settings = {"C": 100.0, "tol": 1e-3, "max_iter": 2, "max_support": 10, "random_state": 0}
    model = make(warm_start=True, **settings).fit(X, y)
    first = model.dual_coef_, model.result_
    model.fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, first[0])
    assert model.result_.dual == first[1].dual


@pytest.mark.parametrize("max_support", [0, -1, 2.5])
def test_bad_max_support(classes, max_support):
    with pytest.raises(ValueError, match="max_support"):
        KernelSDCAClassifier(max_support=max_support).fit(*classes)


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("ways", ["ovo", "ovr"])
def test_a_path_is_as_good_as_its_fits(classes, ways, penalize_intercept):
    X, y = classes
    settings = {"multi_class": ways, "tol": 1e-3, "random_state": 0}
    settings["penalize_intercept"] = penalize_intercept
    path = kernel_path(X, y, [10.0, 0.1, 1.0], [0.1, 1.0], **settings)
    assert [len(row) for row in path.models] == [3, 3] and path.gammas == (0.1, 1.0)
    warm = cold = 0
    for gamma, row in zip(path.gammas, path.models, strict=True):
        for C, model in zip(path.Cs, row, strict=True):
            single = KernelSDCAClassifier(C=C, gamma=gamma, **settings).fit(X, y)
            assert (model.C, model.gamma, model.result_.status) == (C, gamma, "converged")
            assert model.result_.primal == pytest.approx(single.result_.primal, rel=2e-3)
            assert model.score(X, y) == pytest.approx(single.score(X, y), abs=0.01)
            warm, cold = warm + model.result_.accesses, cold + single.result_.accesses
    assert warm < cold
    assert path.results[1][2] is path.models[1][2].result_


def test_a_path_along_one_gamma(classes):
    path = kernel_path(*classes, [1.0], 0.5, random_state=0)
    assert path.gammas == (0.5,) and path.models[0][0].gamma == 0.5


def test_a_path_of_regressions():
    X, y = make_friedman1(150, random_state=0)
    path = kernel_path(X, y, [1.0, 30.0], loss="epsilon_insensitive", tol=1e-4, random_state=0)
    for C, model in zip(path.Cs, path.models[0], strict=True):
        single = KernelSDCARegressor(C=C, tol=1e-4, random_state=0).fit(X, y)
        assert model.result_.primal == pytest.approx(single.result_.primal, rel=2e-4)


@pytest.mark.parametrize("name", ["C", "gamma", "warm_start"])
def test_a_path_has_parameters_of_its_own(classes, name):
    with pytest.raises(ValueError, match=name):
        kernel_path(*classes, [1.0], **{name: 1})


def test_a_path_checks_its_values(classes):
    with pytest.raises(ValueError, match=r"Cs must be a number above 0, got -1\.0$"):
        kernel_path(*classes, [1.0, -1.0])
    with pytest.raises(ValueError, match="gamma"):
        kernel_path(*classes, [1.0], [0.0])


@pytest.mark.parametrize("loss", ["squared_hinge", "smoothed_hinge", "squared"])
def test_a_path_of_losses_with_curved_conjugates(loss):
    """Their curvatures depend on C, and with them what the last working set was scaled by."""
    X, y = make_friedman1(150, random_state=0)
    y = np.sign(y - np.median(y)) if loss != "squared" else y
    options = {"loss": loss, "random_state": 0}
    for model in kernel_path(X, y, [0.01, 1.0, 100.0], [0.05], **options).models[0]:
        estimator = type(model)(C=model.C, gamma=0.05, **options)
        assert model.result_.status == "converged"
        assert model.result_.n_iter <= 3 * estimator.fit(X, y).result_.n_iter


def test_classes_without_support_vectors_or_weight():
    X = [[10.0], [10.2], [10.4], [10.6], [-12.0], [-13.0]]
    y = [0, 0, 1, 1, 2, 2]
    options = {"kernel": "linear", "C": 100, "fit_intercept": False, "random_state": 0}
    model = KernelSDCAClassifier(max_support=3, **options).fit(X, y)
    assert model.n_support_.sum() <= 3 and model.n_support_[2] == 0
    X = np.random.default_rng(0).normal(size=(6, 2))
    pegasos = KernelPegasosClassifier(class_weight={1: 0, 2: 0}, tol=0.1, random_state=0)
    assert pegasos.fit(X, y).predict(X).tolist() == [0] * 6
