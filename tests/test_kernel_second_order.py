"""Kernel machines beyond float32: exact kernel values, and the method of second order on top."""

import re
import warnings
from itertools import islice

import numpy as np
import pytest
from reference.second_order import interior_point
from scipy import sparse
from scipy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC
from stepping import bits, interrupted, unchanged
from threadpoolctl import threadpool_limits

from sublinear import KernelSDCAClassifier, KernelSDCARegressor, kernel_path
from sublinear._core.gram import PIVOTS_AT_ONCE, factor_by_columns, pivoted_factor
from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_rows import ExactRows
from sublinear._core.kernels import RBF, Linear, Poly
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._second_order import takes_span
from sublinear._solvers.finisher import Finisher
from sublinear._solvers.interior_point import InteriorPoint
from sublinear._solvers.kernel_sdca import KernelSDCA
from sublinear._solvers.spaces import KernelSpan

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
WITH_FORM = [name for name, entry in REGISTRY.items() if entry.loss().dual_form() is not None]
PARAMETERS = {"smoothed_hinge": (1.0,), "epsilon_insensitive": (0.1,), "huber": (1.35,)}
SCALES = 10.0 ** np.array([3, 0, -1, 2, 1, -2])
FREE = {"penalize_intercept": False}
INTERCEPTS = [{}, FREE, {"fit_intercept": False}]


def make_data(name, n_rows=80, seed=0):
    """Rows with columns of very different scales, far from the origin."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, len(SCALES)))
    z = X @ random.normal(size=X.shape[1]) + random.normal(size=n_rows)
    return (X + 2) * SCALES, np.sign(z) if name in MARGIN_LOSSES else z


def make_objective(name, X, y, C=10.0, weights=None, free=False, kernel=None, memory=np.inf):
    rows = kernel_rows(kernel or RBF(0.3), X)
    scales = C * (np.ones(len(y)) if weights is None else weights)
    loss = REGISTRY[name].loss(*PARAMETERS.get(name, ()))
    shift = 0.0 if free else 1.0
    return KernelObjective(rows, y, loss, scales, shift=shift, free_intercept=free, memory=memory)


def finisher(objective, method=InteriorPoint, tol=1e-9, max_iter=100, at_once=True, **settings):
    first = KernelSDCA(objective, bits(0), **settings)
    return Finisher([KernelSpan(first, method)], tol, max_iter, at_once)


def estimator(name, **settings):
    cls = KernelSDCAClassifier if name in MARGIN_LOSSES else KernelSDCARegressor
    return cls(name, **{"random_state": 0, **settings})


def objective_of(model, X, y, **kernel):
    """The objective of a binary model or a regression, all in float64."""
    K = pairwise_kernels(X, **kernel)
    v = np.zeros(len(X))
    v[model.support_] = model.dual_coef_[0]
    norm = v @ K @ v
    if model.fit_intercept and model.penalize_intercept:
        norm += model.intercept_[0] ** 2
    loss = REGISTRY[model.loss].loss(*PARAMETERS.get(model.loss, ()))
    return norm / 2 + model.C * loss.values(K @ v + model.intercept_[0], y).sum()


# ---------------------------------------------------------------- factors of any rank


@pytest.mark.parametrize("n_columns", [1, 3, 40])
def test_a_pivoted_factor_has_as_many_columns_as_the_rank(n_columns):
    X = np.random.default_rng(0).normal(size=(40, n_columns)) * 10.0 ** np.arange(n_columns).clip(
        0, 3
    )
    products = X @ X.T
    factor, pivots = pivoted_factor(products)
    assert factor.shape == (40, n_columns) and pivots.shape == (n_columns,)
    np.testing.assert_allclose(factor @ factor.T, products, atol=1e-12 * products.max())
    triangle = factor[pivots]
    np.testing.assert_array_equal(triangle, np.tril(triangle))


@pytest.mark.parametrize("n_columns", [1, 3, 40, 200])
@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_a_factor_by_columns_is_one_of_the_matrix(n_columns, decay):
    X = np.random.default_rng(0).normal(size=(250, n_columns)) * decay ** np.arange(n_columns)
    X[:, -1] += 1e3
    products, read = X @ X.T, []

    def entries(rows, columns):
        read.append(len(rows) * len(columns))
        return products[np.ix_(rows, columns)]

    factor, pivots = factor_by_columns(entries, products.diagonal(), n_columns)
    rank = len(pivots)
    assert rank == n_columns or decay < 1  # columns that are rounding beside the largest
    assert factor.shape == (250, rank) and len(np.unique(pivots)) == rank
    np.testing.assert_allclose(factor @ factor.T, products, rtol=0, atol=1e-13 * products.max())
    triangle = factor[pivots]
    np.testing.assert_array_equal(triangle, np.tril(triangle))
    assert sum(read) <= rank * (250 + PIVOTS_AT_ONCE**2)


def test_a_factor_by_columns_ends_at_the_rank():
    X = np.random.default_rng(0).normal(size=(100, 4))[:, [0, 1, 1, 2, 3, 3]]
    products = X @ X.T
    factor, pivots = factor_by_columns(
        lambda rows, columns: products[np.ix_(rows, columns)], products.diagonal(), 100
    )
    assert len(pivots) < 10
    np.testing.assert_allclose(factor @ factor.T, products, rtol=0, atol=1e-13 * products.max())


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_what_has_no_factor_is_an_error(value):
    matrix = np.full((3, 3), value)
    with pytest.raises(LinAlgError), np.errstate(all="ignore"):
        pivoted_factor(matrix)
    with pytest.raises(LinAlgError), np.errstate(all="ignore"):
        factor_by_columns(lambda rows, columns: matrix[np.ix_(rows, columns)], matrix[0], 3)


# ---------------------------------------------------------------- more exact from some point on


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear()])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_refined_margins_are_those_of_float64(name, free, kernel, make):
    X, y = make_data(name)
    objective = make_objective(name, make(X), y, free=free, kernel=kernel)
    solver = KernelSDCA(objective, bits(0))
    for _ in range(3):
        solver.advance(2**60)
    reached = solver.coefficients.copy()
    assert solver.refine() and not solver.refine()
    solver.advance(2**60)
    K = pairwise_kernels(
        X,
        metric="linear" if isinstance(kernel, Linear) else "rbf",
        **({} if isinstance(kernel, Linear) else {"gamma": 0.3}),
    )
    np.testing.assert_allclose(solver.coefficients, reached, atol=1e-6 * np.abs(reached).max())
    expected = (K + objective.shift) @ solver.coefficients
    size = np.abs(K).max() * np.abs(reached).max()
    np.testing.assert_allclose(solver.margins, expected, atol=1e-13 * size)
    assert isinstance(objective.rows, ExactRows) and objective.rows.error < 1e-9


def test_no_budget_is_spent_on_what_it_is_too_small_for():
    X, y = make_data("hinge")
    solver = KernelSDCA(make_objective("hinge", X, y), bits(0), max_accesses=7_000)
    solver.advance(2**60)
    assert not solver.refine() and not solver.objective.is_exact


def test_exact_values_are_kept_where_memory_allows():
    X, y = make_data("hinge")
    found = []
    for memory in (np.inf, 8 * 80**2 - 1):
        rows = make_objective("hinge", X, y, memory=memory).exact_rows
        assert rows.keeps == np.isinf(memory)
        margins = np.zeros((1, 80))
        rows.add_product(np.arange(80), y[np.newaxis], margins)
        found.append(margins)
    np.testing.assert_allclose(*found, rtol=1e-13)


# ---------------------------------------------------------------- the iterations


@pytest.mark.parametrize("name", WITH_FORM)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_the_iterations_are_those_of_the_oracle(name, weighted, free):
    X, y = make_data(name, n_rows=30)
    X = X / SCALES - 2
    weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0 if weighted else None
    objective = make_objective(name, X, y, 0.3, weights, free)
    solver = finisher(objective)
    while solver.second is None:
        solver.advance(2**60)
    method = solver.second.method
    kept = slice(None) if weights is None else weights > 0
    K = pairwise_kernels(X, metric="rbf", gamma=0.3) + (not free)
    values, vectors = np.linalg.eigh(K)
    images = vectors * np.sqrt(values)
    rows = np.column_stack([images, np.ones(30)]) if free else images
    s = None if weights is None else weights[kept]
    alpha = 1 / objective.scales_array.sum()
    form = objective.loss.dual_form()
    for _, duals in islice(interior_point(rows[kept], y[kept], form, alpha, s, free), 6):
        solver.advance(2**60)
        found = method.system.all_duals(method.present_duals)
        np.testing.assert_allclose(found[kept], duals, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", WITH_FORM)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Poly(0.3, 2, 1.0)])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("room", [np.inf, 8 * 80**2 - 1])
def test_certificates_enclose_the_optimum_tightly(name, free, kernel, make, room):
    X, y = make_data(name)
    X = X / SCALES if isinstance(kernel, Poly) else X  # else squares lose what small columns tell
    solver = finisher(make_objective(name, make(X), y, free=free, kernel=kernel, memory=room))
    primal, dual = np.inf, -np.inf
    while solver.n_iter < 60 and not -np.inf < primal - dual <= 1e-8 * primal < np.inf:
        solver.advance(2**60)
        _, value, bound = solver.certify(unchanged)
        primal, dual = min(primal, value), max(dual, bound)
        assert bound <= (value + solver.objective.model_error) * (1 + 1e-9)
    assert primal - dual <= 1e-6 * primal < np.inf


def test_a_method_that_gets_stuck_is_left():
    class Stuck(InteriorPoint):
        def iterate(self):
            return False

    X, y = make_data("hinge")
    solver = finisher(make_objective("hinge", X / SCALES - 2, y), Stuck)
    for _ in range(30):
        solver.advance(2**60)
    assert solver.second is None and solver.space is None
    primal, dual = solver.certify(unchanged)[1:]
    assert primal - dual <= 1e-3 * primal


def test_a_kernel_that_is_not_positive_definite_is_left_alone():
    X, y = make_data("hinge")
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = 2 - unit @ unit.T
    with pytest.warns(ConvergenceWarning):
        model = estimator("hinge", kernel="precomputed", C=100.0, max_iter=200).fit(K, y)
    assert model.result_.status != "converged"
    assert np.isfinite(model.decision_function(K)).all()


# ---------------------------------------------------------------- estimators


@pytest.mark.parametrize("name", WITH_FORM)
@pytest.mark.parametrize("options", INTERCEPTS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_data_as_it_comes_converges(name, options, kernel, C):
    X, y = make_data(name)
    if name in ("epsilon_insensitive", "huber"):
        options = options | {"epsilon": PARAMETERS[name][0]}
    model = estimator(name, kernel=kernel, coef0=1.0, gamma=1e-6, C=C, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = model.fit(X, y).result_
    assert result.status == "converged" and result.relative_gap <= 1e-3
    parameters = {"linear": {}, "rbf": {"gamma": 1e-6}, "poly": {"gamma": 1e-6, "coef0": 1.0}}
    value = objective_of(model, X, y, metric=kernel, **parameters[kernel])
    assert value == pytest.approx(result.primal, rel=1e-4)
    assert result.dual <= value * (1 + 1e-6)


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4])
def test_the_optimum_is_that_of_libsvm(C):
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 4))
    y = np.sign(X[:, 0] + 0.5 * random.normal(size=150))
    model = KernelSDCAClassifier(C=C, tol=1e-7, random_state=0, **FREE).fit(X, y)
    peer = SVC(C=C, tol=1e-8).fit(X, y)
    v = np.zeros(150)
    v[peer.support_] = peer.dual_coef_[0]
    K = pairwise_kernels(X, metric="rbf", gamma=model._fitted_kernel.gamma)
    best = v @ K @ v / 2 + C * np.maximum(0, 1 - y * (K @ v + peer.intercept_[0])).sum()
    assert model.result_.status == "converged"
    assert model.result_.dual <= best * (1 + 1e-9)
    assert model.result_.primal <= best * (1 + 1e-7)  # libsvm's may be further from the optimum
    np.testing.assert_allclose(
        model.decision_function(X), peer.decision_function(X), atol=1e-3 * np.abs(K @ v).max()
    )


def test_duals_are_at_their_bounds_exactly():
    X, y = make_data("hinge")
    y[:20] *= -1
    model = estimator("hinge", kernel="linear", C=10.0, tol=1e-6, **FREE).fit(X, y)
    assert model.result_.status == "converged"
    at_bound = np.abs(model.dual_coef_) == 10
    assert np.count_nonzero(~at_bound) <= X.shape[1] + 1
    assert abs(model.dual_coef_.sum()) <= 1e-6 * np.abs(model.dual_coef_).sum()


def test_weights_are_repetitions():
    X, y = make_data("hinge")
    weights = np.random.default_rng(1).integers(0, 3, 80)
    settings = {"kernel": "linear", "C": 1e3, "tol": 1e-5}
    weighted = estimator("hinge", **settings).fit(X, y, weights)
    repeated = estimator("hinge", **settings).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    assert weighted.result_.primal == pytest.approx(repeated.result_.primal, rel=1e-5)
    scale = np.abs(weighted.decision_function(X)).max()
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-3 * scale
    )


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_results_do_not_depend_on_threads(multi_class):
    X, z = make_data("squared", n_rows=150)
    y = np.digitize(z, np.quantile(z, [1 / 3, 2 / 3]))
    found = []
    for n_jobs, threads in ((1, 1), (2, 2), (1, 2)):
        with threadpool_limits(threads, user_api="blas"):
            settings = {"kernel": "linear", "C": 100.0, "multi_class": multi_class}
            found.append(estimator("hinge", n_jobs=n_jobs, **settings).fit(X, y))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(found[0].intercept_, other.intercept_)
        np.testing.assert_array_equal(found[0].decision_function(X), other.decision_function(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("budget", [1, 5_000, 20_000, 50_000, 100_000, 1_000_000])
@pytest.mark.parametrize("options", INTERCEPTS)
def test_a_budget_is_never_exceeded(budget, options):
    X, y = make_data("hinge")
    settings = {"kernel": "linear", "C": 1e3, **options}
    model = estimator("hinge", max_accesses=budget, **settings).fit(X, y)
    assert model.result_.accesses <= budget
    value = objective_of(model, X, y, metric="linear")
    assert value == pytest.approx(model.result_.primal, rel=1e-3)
    assert model.result_.dual <= value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 2, 5, 10, 20, 30, 40])
def test_more_rounds_are_no_worse(max_iter):
    X, y = make_data("hinge")
    settings = {"kernel": "linear", "C": 1e3, "tol": 1e-6}
    fewer = estimator("hinge", max_iter=max_iter, **settings).fit(X, y).result_
    more = estimator("hinge", max_iter=max_iter + 7, **settings).fit(X, y).result_
    rounding = fewer.gap if fewer.status == "rounding" else 1e-3 * fewer.primal
    assert more.primal <= fewer.primal + rounding and more.dual >= fewer.dual - rounding
    assert fewer.n_iter <= max_iter


def test_without_memory_for_it_fits_are_exact_all_the_same():
    X, y = make_data("hinge", n_rows=700)
    X = X / SCALES
    assert not takes_span(make_objective("hinge", X, y, memory=8 * 700**2 - 1))
    assert takes_span(make_objective("hinge", X, y, memory=8 * 700**2))
    with pytest.warns(UserWarning, match="memory_limit"):
        model = estimator("hinge", C=1e4, gamma=1.0, memory_limit=2**20).fit(X, y)
    assert model.result_.status == "converged"
    value = objective_of(model, X, y, metric="rbf", gamma=1.0)
    assert value == pytest.approx(model.result_.primal, rel=1e-6)


def test_advice_names_the_memory_that_is_lacking():
    X, y = make_data("epsilon_insensitive", n_rows=300)
    X = X / SCALES
    settings = {"kernel": "poly", "degree": 2, "coef0": 1.0, "C": 1e4, "tol": 1e-5}
    model = estimator("epsilon_insensitive", max_iter=30, memory_limit=2 * 10**5, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    (advice,) = (w.message for w in caught if w.category is ConvergenceWarning)
    limit = int(re.search(r"lower C, or raise memory_limit to (\d+) bytes", str(advice))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        model.set_params(memory_limit=limit, max_iter=100).fit(X, y)
    assert model.result_.status == "converged"
    with pytest.warns(ConvergenceWarning) as caught:
        model.set_params(memory_limit=None, max_iter=1).fit(X, y)
    assert not any("memory_limit" in str(w.message) for w in caught)


def test_a_small_rank_makes_up_for_many_examples():
    X = np.random.default_rng(0).normal(size=(2100, 2))
    y = np.sign(X[:, 0] ** 2 - X[:, 1] + 0.1)
    poly, rbf = (make_objective("hinge", X, y, kernel=k) for k in (Poly(1.0, 2, 1.0), RBF(0.3)))
    assert takes_span(poly) and not takes_span(rbf)
    room = 8 * 2100 * 6  # a constant is a column of the linear model, not of the factor
    for free in (True, False):
        makes = [
            make_objective("hinge", X, y, free=free, kernel=Poly(1.0, 2, 1.0), memory=memory)
            for memory in (room, room - 1)
        ]
        assert [takes_span(objective) for objective in makes] == [True, False]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_many_examples_of_small_rank_take_no_square_of_memory(free, kernel):
    X = np.random.default_rng(0).normal(size=(2100, 3)) * [1, 10, 100]
    y = X[:, 0] + X[:, 1] ** 2 / 30
    settings = {"kernel": kernel, "degree": 2, "coef0": 1.0, "gamma": 0.01}
    model = estimator(
        "epsilon_insensitive",
        C=1e4,
        penalize_intercept=not free,
        memory_limit=5 * 10**6,  # the kernel matrix has 18 MB in float32
        max_iter=60,
        **settings,
    ).fit(X, y)
    assert model.result_.status == "converged"
    settings = {"gamma": 0.01, "degree": 2, "coef0": 1.0} if kernel == "poly" else {}
    value = objective_of(model, X, y, metric=kernel, **settings)
    assert value == pytest.approx(model.result_.primal, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_paths_go_on_where_kernels_have_no_factor(loss):
    y = np.arange(10) % 3 == 0
    path = kernel_path(np.zeros((10, 2)), y, [0.01, 1, 100], kernel="linear", loss=loss)
    assert {model.result_.status for model in path.models[0]} == {"converged"}


def test_paths_go_on_after_it():
    X, y = make_data("hinge")
    path = kernel_path(X, y, [0.1, 10.0, 1e3], kernel="linear", random_state=0)
    for model, result in zip(np.ravel(path.models), np.ravel(path.results), strict=True):
        assert result.status == "converged"
        value = objective_of(model, X, y, metric="linear")
        assert value == pytest.approx(result.primal, rel=1e-4)


@pytest.mark.parametrize("memory_limit", [None, 30_000_000], ids=["matrix", "columns"])
def test_paths_factor_once(monkeypatch, memory_limit):
    calls = {"explore": 0, "begin": 0}

    def counted(name, method):
        def call(self):
            calls[name] += 1
            return method(self)

        return call

    for name in calls:
        monkeypatch.setattr(KernelSpan, name, counted(name, getattr(KernelSpan, name)))
    X = np.random.default_rng(0).normal(size=(1200, 20))
    y = X[:, 0] + np.random.default_rng(1).normal(size=1200) > 0
    settings = {"kernel": "linear", "tol": 1e-6, "memory_limit": memory_limit, "random_state": 0}
    kernel_path(X, y, [1e2, 1e3, 1e4], **settings)
    assert calls == {"explore": 1, "begin": 3}


def test_a_warm_start_from_its_coefficients_is_near():
    X, y = make_data("hinge")
    model = estimator("hinge", kernel="linear", C=1e3, warm_start=True, **FREE).fit(X, y)
    first = model.result_
    model.fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.primal <= first.primal * (1 + 1e-3)


def test_an_interrupt_leaves_the_best_model(monkeypatch):
    X, y = make_data("hinge")
    method = interrupted(InteriorPoint, 5)
    monkeypatch.setattr("sublinear._second_order.InteriorPoint", method)
    model = estimator("hinge", kernel="linear", C=1e3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert method.count == 5 and model.result_.status == "interrupted"
    value = objective_of(model, X, y, metric="linear")
    assert model.result_.dual <= value <= model.result_.primal + model.result_.gap


def test_a_centred_kernel_gives_models_of_the_data_itself():
    """With a free intercept the equations are those of centred rows, also for the pivots alone."""
    X, y = make_data("hinge")
    objective = make_objective("hinge", X, y, free=True, kernel=Linear())
    assert objective.rows.is_centred
    solver = finisher(objective)
    while solver.second is None or solver.n_iterations < 8:
        solver.advance(2**60)
    best = solver.second.best
    model = solver.space.weights(best.coordinates)
    w, intercept = model[:-1] @ X, model[-1]
    value = w @ w / 2 + 10 * np.maximum(0, 1 - y * (X @ w + intercept)).sum()
    evaluated = solver.space._evaluated(best.coordinates)[1]
    assert value == pytest.approx(evaluated, rel=1e-6)
    assert value == pytest.approx(best.primal * objective.scales_array.sum(), rel=1e-3)
