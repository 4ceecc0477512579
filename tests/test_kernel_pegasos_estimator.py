"""KernelPegasosClassifier as its users see it."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV

from sublinear import KernelPegasosClassifier, KernelSDCAClassifier, PegasosClassifier

LOSSES = ("hinge", "smoothed_hinge", "logistic")
SAMPLINGS = ("shuffle", "fixed", "replacement", "subsets")
FEW = {"gamma": 1.0, "tol": 0, "max_iter": 5, "random_state": 0}


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.2, random_state=0)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_it_converges_to_the_optimum_of_sdca(moons, loss, fit_intercept):
    settings = {"gamma": 1.0, "C": 0.1, "fit_intercept": fit_intercept, "random_state": 0}
    best = KernelSDCAClassifier(loss, tol=1e-7, **settings).fit(*moons).result_
    model = KernelPegasosClassifier(loss, tol=0.02, **settings).fit(*moons)
    result = model.result_
    assert result.status == "converged"
    assert best.primal * (1 - 1e-6) <= result.primal <= best.primal * 1.021
    assert result.dual <= best.primal * (1 + 1e-6)


def test_logistic_regression_has_a_small_gap(moons):
    model = KernelPegasosClassifier("logistic", gamma=1.0, tol=0.02, random_state=0).fit(*moons)
    assert model.result_.status == "converged" and len(model.support_) == 200
    assert model.score(*moons) > 0.85


@pytest.mark.parametrize("batch_size", [1, 10, "all"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_order_and_batch_size_learns(moons, sampling, batch_size):
    make = KernelPegasosClassifier(sampling=sampling, batch_size=batch_size, **FEW)
    model = make.set_params(max_iter=60).fit(*moons)
    assert model.score(*moons) > 0.9
    assert 0 < model.result_.gap < model.result_.primal
    steps = {1: 12_000, 10: 1_200, "all": 60}[batch_size]
    assert model.n_iter_ == 60 and model.n_steps_ == [steps]


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "precomputed", "callable"])
def test_every_kernel_is_that_of_scikit_learn(moons, kernel):
    """The objective that is reported is that of the fitted attributes."""
    X, y = moons
    name = {"precomputed": "rbf", "callable": "rbf"}.get(kernel, kernel)
    options = {"gamma": 1.0}
    if name in ("poly", "sigmoid"):
        options |= {"coef0": 0.5}
    if name == "poly":
        options |= {"degree": 2}

    def values(A, B):
        return pairwise_kernels(A, B, name, filter_params=True, **options)

    given = {"precomputed": "precomputed", "callable": values}.get(kernel, kernel)
    model = KernelPegasosClassifier(kernel=given, **{**FEW, **options})
    if kernel == "precomputed":
        scores = model.fit(values(X, X), y).decision_function(values(X, X))
    else:
        scores = model.fit(X, y).decision_function(X)
    S, v = X[model.support_], model.dual_coef_[0]
    expected = values(X, S) @ v + model.intercept_
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)
    norm = v @ values(S, S) @ v + model.intercept_[0] ** 2
    losses = np.maximum(0, 1 - np.where(y == 1, 1, -1) * expected).sum()
    assert model.result_.primal == pytest.approx(norm / 2 + losses, rel=1e-4)


def test_a_linear_kernel_is_linear_pegasos(moons, as_stored):
    """The same draws make the same steps."""
    X, y = moons
    settings = {"tol": 0, "max_iter": 7, "random_state": 0}
    kernel = KernelPegasosClassifier(kernel="linear", C=0.5, **settings).fit(X, y)
    linear = PegasosClassifier(alpha=1 / (0.5 * 200), average="last", **settings).fit(X, y)
    coef = kernel.dual_coef_ @ kernel.support_vectors_
    np.testing.assert_allclose(coef, linear.coef_, rtol=1e-4)
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, rtol=1e-3, atol=1e-4)


def test_storages_and_threads_change_nothing(moons):
    X, y = moons
    model = KernelPegasosClassifier(**FEW).fit(X, y)
    np.testing.assert_array_equal(
        clone(model).set_params(n_jobs=2).fit(X, y).dual_coef_, model.dual_coef_
    )
    for other in (sparse.csr_array(X), X.astype(np.float32), np.asfortranarray(X)):
        scores = clone(model).fit(other, y).decision_function(other)
        np.testing.assert_allclose(scores, model.decision_function(X), atol=0.05)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_the_budget_of_kernel_values_is_kept(moons):
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        model = KernelPegasosClassifier(gamma=1.0, max_accesses=20_000, random_state=0).fit(*moons)
    assert model.result_.status == "max_accesses"
    assert 14_000 < model.result_.accesses <= 20_000  # a block's kernel values come at once
    assert model.score(*moons) > 0.7


def test_a_warm_start_goes_on(moons):
    settings = {**FEW, "sampling": "fixed"}
    whole = KernelPegasosClassifier(**{**settings, "max_iter": 10}).fit(*moons)
    halves = KernelPegasosClassifier(warm_start=True, **settings).fit(*moons).fit(*moons)
    assert halves.n_steps_ == whole.n_steps_ == [2000]
    np.testing.assert_allclose(
        halves.decision_function(moons[0]), whole.decision_function(moons[0]), atol=1e-4
    )


def test_callbacks_and_interrupts(moons):
    seen = []

    def stop(snapshot):
        seen.append((snapshot.gap, snapshot.coef, snapshot.intercept))
        return len(seen) == 3

    model = KernelPegasosClassifier(gamma=1.0, callback=stop, random_state=0).fit(*moons)
    assert model.result_.status == "stopped" and len(seen) == len(model.result_.trace) == 3
    np.testing.assert_array_equal(seen[-1][1][model.support_], model.dual_coef_[0])
    assert seen[-1][2] == model.intercept_[0]

    def interrupt(snapshot):
        raise KeyboardInterrupt

    model = KernelPegasosClassifier(gamma=1.0, callback=interrupt, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*moons)
    assert model.result_.status == "interrupted" and model.score(*moons) > 0.7


def test_grid_search(moons):
    search = GridSearchCV(
        KernelPegasosClassifier(tol=0.1, random_state=0), {"gamma": [0.01, 1.0]}, cv=3
    ).fit(*moons)
    assert search.best_params_ == {"gamma": 1.0} and search.best_score_ > 0.9


@pytest.mark.parametrize(
    "bad",
    [
        {"loss": "squared_hinge"},
        {"batch_size": 0},
        {"sampling": "random"},
        {"gamma": 0.0},
        {"C": -1.0},
        {"kernel": "cosine"},
        {"max_support": 0},
    ],
)
def test_bad_parameters(moons, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        KernelPegasosClassifier(**bad).fit(*moons)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
def test_coefficients_beyond_float32_are_refused(moons, loss):
    with pytest.raises(ValueError, match="range of float32"):
        KernelPegasosClassifier(loss, C=1e40, **FEW).fit(*moons)
