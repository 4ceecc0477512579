"""sdca_path: every model certified, each begun where the last one ended."""

import threading
from collections import Counter

import numpy as np
import pytest
from scipy import sparse

from sublinear import SDCAClassifier, SDCARegressor, kernel_path, sdca_path, simba_path
from sublinear._core import normal_equations
from sublinear._solvers import spaces

ALPHAS = [1e-2, 1.0, 1e-1, 1e-3]


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = sparse.random_array((400, 30), density=0.3, format="csr", rng=random)
    return X, X @ random.normal(size=30) + 0.1 * random.normal(size=400)


class Log:
    """A callback that cannot be copied."""

    def __init__(self):
        self.lock, self.gaps = threading.Lock(), []

    def __call__(self, snapshot):
        with self.lock:
            self.gaps.append(snapshot.gap)


def test_callbacks_and_kernels_need_not_be_copied(data):
    X, y = data[0].toarray(), np.sign(data[1]).astype(int)
    log = Log()
    sdca_path(X, y, [1.0, 0.1], callback=log)
    assert len(log.gaps) >= 2

    class Kernel(Log):
        def __call__(self, left, right):
            with self.lock:
                return left @ right.T

    models = kernel_path(X, y, [1.0, 2.0], kernel=Kernel(), callback=log).models
    assert len(models[0]) == 2
    simba_path(X, y, [0.1, 0.3], epsilon=0.2, callback=log, random_state=0)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_models_are_those_of_single_fits(data, loss, pack):
    X, target = data
    y = target if loss == "squared" else np.sign(target)
    estimator = SDCARegressor if loss == "squared" else SDCAClassifier
    options = {"tol": 1e-5, "pack": pack, "max_iter": 5000, "random_state": 0}
    path = sdca_path(X, y, ALPHAS, loss=loss, **options)
    np.testing.assert_array_equal(path.alphas, ALPHAS)
    for alpha, model, result in zip(ALPHAS, path.models, path.results, strict=True):
        single = estimator(loss, alpha=alpha, **options).fit(X, y)
        assert model.alpha == alpha and "np.float64" not in repr(model)
        assert result.status == "converged"
        assert result.primal == pytest.approx(single.result_.primal, rel=2e-5)
        assert result.dual <= single.result_.primal * (1 + 1e-15)  # both at the optimum: an ulp
        np.testing.assert_allclose(model.predict(X[:50]), single.predict(X[:50]), atol=0.05)
    assert path.coefs.shape == (4, *path.models[0].coef_.shape)


def test_a_path_takes_fewer_accesses_than_cold_fits(data):
    X, target = data
    y, alphas = np.sign(target), np.geomspace(1e-1, 1e-3, 12)
    path = sdca_path(X, y, alphas, tol=1e-3, random_state=0)
    assert not np.shares_memory(path.alphas, alphas)
    cold = [SDCAClassifier(alpha=a, tol=1e-3, random_state=0).fit(X, y) for a in alphas]
    ours = sum(result.accesses for result in path.results)
    assert ours < sum(model.result_.accesses for model in cold)
    for result in path.results:  # each counts its own certificates
        assert result.certificate_accesses <= (len(result.trace) + 2) * 2 * X.size


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_a_long_way_between_alphas_is_little_worse_than_a_cold_start(
    data, loss, penalize_intercept
):
    X, target = data
    y = target if loss == "squared" else np.sign(target)
    estimator = SDCARegressor if loss == "squared" else SDCAClassifier
    options = {
        "penalize_intercept": penalize_intercept,
        "tol": 0,
        "max_iter": 30,
        "random_state": 0,
    }
    path = sdca_path(X, y, [1e3, 1e-3], loss=loss, **options)
    cold = estimator(loss, alpha=1e-3, **options).fit(X, y)
    assert path.results[1].gap <= 5 * cold.result_.gap  # taken as they are, 170 times


def test_a_free_intercept_keeps_pace_along_a_path(data):
    X, target = data
    alphas = [1e6, 1.0, 1e-3]
    options = {"loss": "logistic", "penalize_intercept": False, "max_iter": 60, "random_state": 0}
    path = sdca_path(X, target > 0.5, alphas, **options)
    for alpha, model in zip(alphas, path.models, strict=True):
        assert model.result_.status == "converged"
        single = SDCAClassifier(alpha=alpha, **options).fit(X, target > 0.5)
        assert model.result_.primal == pytest.approx(single.result_.primal, rel=2e-3)
        np.testing.assert_allclose(model.intercept_, single.intercept_, atol=0.2)


def test_more_than_two_classes_and_labels(data):
    X, target = data
    y = np.array(["low", "middle", "high"])[np.digitize(target, [-0.3, 0.3])]
    path = sdca_path(X, y, [1e-1, 1e-2], random_state=0)
    for model in path.models:
        assert model.classes_.tolist() == ["high", "low", "middle"]
        assert model.coef_.shape == (3, 30)
        assert model.score(X, y) > 0.6
        assert len(model.result_.parts) == 3


def test_sample_weight_is_repetition(data):
    X, target = data
    y, weights = np.sign(target), np.random.default_rng(1).integers(0, 3, 400)
    repeated = np.repeat(np.arange(400), weights)
    options = {"tol": 1e-6, "max_iter": 20_000, "random_state": 0}
    weighted = sdca_path(X, y, [0.1, 0.01], sample_weight=weights, **options)
    copies = sdca_path(X[repeated], y[repeated], [0.1, 0.01], **options)
    for one, other in zip(weighted.results, copies.results, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=3e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alphas": [1.0, 0.0]}, r"alphas must be a number above 0, got 0\.0$"),
        ({"alphas": []}, "alphas must hold at least one number"),
        ({"alphas": [[1.0, 2.0]]}, "alphas must be a number above 0"),
        ({"alphas": [1.0], "loss": "best"}, "loss must be one of"),
        ({"alphas": [1.0], "batch_size": 2}, "does not take"),
        ({"alphas": [1.0], "batch_rule": "naive", "gamma": 0.5}, "does not take"),
        ({"alphas": [1.0], "tol": -1}, "tol must be"),
    ],
)
def test_bad_input(data, arguments, message):
    X, target = data
    with pytest.raises(ValueError, match=message):
        sdca_path(X, np.sign(target), **arguments)


@pytest.mark.parametrize("pack", [False, True])
def test_an_alpha_whose_steps_overflow_is_refused_wherever_it_stands(data, pack):
    X, target = data
    with pytest.raises(ValueError, match="overflows: scale X down or raise alpha"):
        sdca_path(X, np.sign(target), [1.0, 1e-307], pack=pack, max_iter=2, random_state=0)


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("shape", [(2000, 30), (40, 3000)])
def test_paths_of_least_squares_keep_what_does_not_depend_on_alpha(
    shape, penalize_intercept, monkeypatch
):
    random = np.random.default_rng(0)
    X = random.normal(size=shape) * np.linspace(0.1, 3, shape[1])
    y = X @ random.normal(size=shape[1]) + random.normal(size=shape[0]) + 1
    counts = Counter()

    def count(owner, function):
        original = getattr(owner, function)

        def counted(*arguments):
            counts[function] += 1
            return original(*arguments)

        monkeypatch.setattr(owner, function, counted)

    count(normal_equations, "weighted_gram")
    count(spaces, "row_factor")
    count(spaces._LinearSpace, "adopt_duals")
    alphas = np.logspace(-1, -6, 8)
    options = {"tol": 1e-9, "penalize_intercept": penalize_intercept, "random_state": 0}
    path = sdca_path(X, y, alphas, loss="squared", sample_weight=np.arange(len(y)) % 3, **options)
    assert counts["weighted_gram"] <= 2 and counts["row_factor"] <= 1
    assert counts["adopt_duals"] == 0  # ascent has no part in it
    for alpha, model in zip(alphas, path.models, strict=True):
        cold = SDCARegressor("squared", alpha=alpha, **options).fit(X, y, np.arange(len(y)) % 3)
        assert model.result_.status == "converged"
        np.testing.assert_allclose(model.predict(X), cold.predict(X), rtol=1e-4, atol=1e-4)
