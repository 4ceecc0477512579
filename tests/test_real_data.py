"""Agreement with LIBLINEAR on real data, where a folder of it is at hand (see conftest.load)."""

import numpy as np
import pytest
from reference.losses import LOSSES
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from sublinear import PegasosClassifier, SDCAClassifier, SDCARegressor


@pytest.fixture(scope="module")
def adult(load):
    return load("adult")


def objective(coef, intercept, X, y, loss, alpha):
    z = X @ np.ravel(coef) + np.ravel(intercept)[0]
    square = np.sum(np.square(coef)) + np.sum(np.square(intercept))
    return alpha / 2 * square + np.mean(LOSSES[loss]().value(z, y))


def liblinear(loss, C):
    if loss == "logistic":
        return LogisticRegression(solver="liblinear", C=C, tol=1e-8, max_iter=10_000)
    if loss == "squared_hinge":  # in the primal, where Newton's method is exact
        return LinearSVC(C=C, dual=False, tol=1e-8, max_iter=10_000)
    return LinearSVC(loss="hinge", C=C, tol=1e-5, max_iter=100_000, random_state=0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_the_optimum_on_adult_is_that_of_liblinear(adult, loss):
    X, y, X_test, y_test = adult
    alpha = 1e-3
    model = SDCAClassifier(loss, alpha=alpha, tol=2e-7, random_state=0).fit(X, y)
    narrow = sparse.csr_matrix(X)
    narrow.indices, narrow.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    theirs = liblinear(loss, 1 / (alpha * len(y))).fit(narrow, y)
    ours = objective(model.coef_, model.intercept_, X, y, loss, alpha)
    best = objective(theirs.coef_, theirs.intercept_, X, y, loss, alpha)
    assert ours == pytest.approx(model.result_.primal, rel=1e-12)
    assert ours == pytest.approx(best, rel=1e-6)
    assert model.score(X_test, y_test) == pytest.approx(theirs.score(X_test, y_test), abs=2e-3)


def test_every_csr_type_gives_the_same_bits_on_adult(adult):
    X, y, _, _ = adult  # ones and zeros: exact in float32
    settings = {"alpha": 1e-4, "max_iter": 3, "tol": 0, "random_state": 0}
    models = []
    for dtype in (np.float32, np.float64):
        for index in (np.int32, np.int64):
            S = sparse.csr_matrix(X, dtype=dtype)
            S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
            models += [SDCAClassifier(pack=pack, **settings).fit(S, y) for pack in (True, False)]
    for model in models:
        np.testing.assert_array_equal(model.dual_coef_, models[0].dual_coef_)
        np.testing.assert_array_equal(
            model.coef_.astype(np.float32), models[0].coef_.astype(np.float32)
        )


def test_pegasos_on_adult(adult):
    X, y, X_test, y_test = adult
    best = SDCAClassifier(alpha=1e-3, tol=1e-4, random_state=0).fit(X, y)
    model = PegasosClassifier(alpha=1e-3, tol=1e-2, random_state=0).fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.dual <= best.result_.primal
    assert model.result_.primal <= best.result_.primal * 1.011
    assert model.score(X_test, y_test) > 0.83


def test_ridge_regression_on_housing(load):
    X, y, _, _ = load("housing")
    model = SDCARegressor(alpha=1e-3, fit_intercept=False, tol=1e-9, random_state=0).fit(X, y)
    ridge = Ridge(alpha=1e-3 * len(y), fit_intercept=False).fit(X, y)
    assert model.result_.status == "converged"
    np.testing.assert_allclose(model.coef_, ridge.coef_, atol=1e-3)
