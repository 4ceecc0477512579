"""Kernel machines by equations in all coefficients, in the memory of one square."""

import re
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from stepping import bits, interrupted, unchanged

from sublinear import KernelSDCAClassifier, KernelSDCARegressor, kernel_path
from sublinear._core import kernel_square
from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_square import BLOCK, WORK_PER_CALL, KernelSquare, square_bytes
from sublinear._core.kernels import RBF, Linear
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._second_order import kernel_spaces, takes_square
from sublinear._solvers.finisher import Finisher, Iterate
from sublinear._solvers.interior_point import InteriorPoint
from sublinear._solvers.kernel_newton import KernelNewton
from sublinear._solvers.kernel_sdca import KernelSDCA
from sublinear._solvers.spaces import KernelImages

LOSSES = {
    "squared": REGRESSION_LOSSES["squared"].loss(),
    "huber": REGRESSION_LOSSES["huber"].loss(0.3),
    "squared_hinge": MARGIN_LOSSES["squared_hinge"].loss(),
}
FREE = {"penalize_intercept": False}
INTERCEPTS = [{}, FREE, {"fit_intercept": False}, {"intercept_scaling": 1000.0}]


@pytest.fixture
def few(monkeypatch):
    """Let a few hundred examples be too many for other methods of second order."""
    monkeypatch.setattr("sublinear._second_order.LARGEST", 50)


@pytest.fixture
def small_blocks(monkeypatch):
    for name, size in (("TILE", 32), ("STRIP", 8), ("BLOCK", 16), ("WORK_PER_CALL", 2**13)):
        monkeypatch.setattr(kernel_square, name, size)


def make_data(name, n_rows=90, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 4))
    z = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * random.normal(size=n_rows)
    return X, np.sign(z) if name == "squared_hinge" else z


def make_objective(name, X, y, C=1e4, weights=None, shift=1.0, kernel=None, **settings):
    rows = kernel_rows(kernel or RBF(0.1), X)
    scales = C * (np.ones(len(y)) if weights is None else weights)
    free = shift is None
    return KernelObjective(
        rows, y, LOSSES[name], scales, shift=shift or 0.0, free_intercept=free, **settings
    )


def finisher(objective, method=KernelNewton, tol=1e-9, max_iter=100, at_once=True):
    return Finisher([KernelImages(KernelSDCA(objective, bits(0)), method)], tol, max_iter, at_once)


def gap_after(solver, n_iter):
    """Return the least relative gap certified in so many iterations."""
    primal, dual, gap = np.inf, -np.inf, np.inf
    while solver.n_iter < n_iter and gap > 1e-9:
        solver.advance(2**60)
        _, value, bound = solver.certify(unchanged)
        primal, dual = min(primal, value), max(dual, bound)
        gap = (primal - dual) / primal
        assert bound <= value * (1 + 1e-9)
    return gap


# ---------------------------------------------------------------- the square


@pytest.mark.parametrize("n_rows", [1, 16, 90])
def test_a_square_holds_a_matrix_and_a_factor(n_rows, small_blocks):
    random = np.random.default_rng(0)
    values = random.normal(size=(n_rows, n_rows))
    matrix = values @ values.T
    square = KernelSquare(lambda rows, columns: matrix[np.ix_(rows, columns)], n_rows)
    v = random.normal(size=n_rows)
    some = np.sort(random.choice(n_rows, (n_rows + 1) // 2, replace=False))
    for chosen in (np.arange(n_rows), some, np.arange(n_rows)):
        ridge = 0.1 + random.random(len(chosen))
        square.factor(chosen, ridge)
        np.testing.assert_allclose(square.product(v), matrix @ v, rtol=1e-9, atol=1e-9)
        for right in (v[: len(chosen)], random.normal(size=(len(chosen), 2))):
            system = matrix[np.ix_(chosen, chosen)] + np.diag(ridge)
            np.testing.assert_allclose(system @ square.solve(right), right, atol=1e-9)


def test_what_is_not_positive_definite_is_an_error(small_blocks):
    matrix = np.ones((40, 40)) - 2 * np.eye(40)
    square = KernelSquare(lambda rows, columns: matrix[np.ix_(rows, columns)], 40)
    with pytest.raises(LinAlgError):
        square.factor(np.arange(40), np.full(40, 0.5))
    np.testing.assert_allclose(square.product(np.ones(40)), matrix.sum(axis=1))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [3, 30])
def test_what_is_not_finite_is_an_error(place, value, small_blocks):
    matrix, right = np.eye(40), np.ones(40)
    square = KernelSquare(lambda rows, columns: matrix[np.ix_(rows, columns)], 40)
    square.factor(np.arange(40), np.ones(40))
    right[place] = value
    with pytest.raises(LinAlgError), np.errstate(all="ignore"):
        square.solve(right)
    matrix[place, 35] = matrix[35, place] = value
    square = KernelSquare(lambda rows, columns: matrix[np.ix_(rows, columns)], 40)
    with pytest.raises(LinAlgError), np.errstate(all="ignore"):
        square.factor(np.arange(40), np.ones(40))


def test_calls_of_a_blas_are_short():
    """The 0.1 s that Ctrl-C may wait: of a factor of many thousands of rows as well."""
    square = KernelSquare.__new__(KernelSquare)
    square.chosen = np.arange(20_000)
    for block in square._blocks():
        reached = block.stop
        for strip in square._strips(block):
            assert strip.start == reached
            assert (strip.stop - strip.start) * block.start * BLOCK <= WORK_PER_CALL
            reached = strip.stop
        assert reached == 20_000


# ---------------------------------------------------------------- the method


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e6, None])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.1), Linear()])
def test_certificates_close_in_a_few_iterations(name, shift, weighted, kernel):
    X, y = make_data(name)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0 if weighted else None
    objective = make_objective(name, X + 3, y, 1e3, weights, shift, kernel)
    assert gap_after(finisher(objective), 40) <= 1e-8


@pytest.mark.parametrize("shift", [0.0, 1.0, None])
def test_least_squares_take_one_iteration(shift):
    X, y = make_data("squared")
    weights = 0.1 + np.random.default_rng(1).random(len(y))
    objective = make_objective("squared", X, y, weights=weights, shift=shift)
    solver = finisher(objective)
    while solver.n_iterations < 1:
        solver.advance(2**60)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    system = np.ones((len(y) + 1, len(y) + 1))
    system[:-1, :-1] = K + np.diag(1 / (1e4 * weights))
    system[-1, -1] = 0.0 if shift is None else -1 / shift if shift > 0 else -1e300
    expected = np.linalg.solve(system, np.append(y, 0.0))
    np.testing.assert_allclose(solver.certify(unchanged)[0], expected, rtol=1e-6, atol=1e-6)


def test_a_factor_serves_as_long_as_curvatures_stay(monkeypatch):
    X, y = make_data("squared")
    solver, factored = finisher(make_objective("squared", X, y), tol=0), []
    factor = KernelSquare.factor
    monkeypatch.setattr(
        KernelSquare, "factor", lambda self, *args: factored.append(1) or factor(self, *args)
    )
    while solver.n_iterations < 4:
        solver.advance(2**60)
    assert len(factored) == 1


@pytest.mark.parametrize("name", ["squared", "huber"])
def test_forecasts_of_least_squares_go_by_the_relative_gap(name):
    """Measured by the objective of zeros, far above the optimum, slow ascent looks fast."""
    X, y = make_data(name)
    solver = finisher(make_objective(name, X, y, 1e6), at_once=False)
    solver.first.advance(2**60)
    gap, primal = solver.first.glance()
    at_start = primal if name == "squared" else solver.objective.at_zeros()[1]
    assert solver._ascent_gap() == (gap, at_start, 1e-9 * primal)


def test_a_huber_loss_begins_with_the_step_of_least_squares():
    X, y = make_data("huber", 300)
    solver = finisher(make_objective("huber", X, 10 * y, 1e6))
    assert gap_after(solver, 100) <= 1e-8
    assert solver.n_iterations <= 40


def test_a_matrix_that_cannot_be_factored_is_left_and_forgotten():
    X, y = make_data("squared")
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = KernelSDCARegressor("squared", kernel="precomputed", C=100.0, max_iter=3)
    training = model._prepare(2 - unit @ unit.T, y, None)
    solver = finisher(model._objective(training, 0, 1))
    for _ in range(5):
        solver.advance(2**60)
    assert solver.second is None and solver.space is None
    assert not solver.objective.has_products


def test_the_error_is_that_of_the_model_where_the_method_began_if_it_is_better():
    X, y = make_data("squared")
    objective = make_objective("squared", X, y, C=1.0)
    space = KernelImages(KernelSDCA(objective, bits(0)), KernelNewton)
    space.first.advance(2**60)
    space.begin()
    before, _, _ = space.before
    worse = Iterate(None, 1.0, np.inf, [lambda: np.zeros(len(y))], True)
    model, *_ = space.certify(worse, None, 1e-3, False, unchanged)
    assert model is before.model
    assert objective.model_error == before.error > 0


# ---------------------------------------------------------------- estimators


def objective_of(model, K, y, loss):
    """The objective in float64."""
    v = np.zeros(len(y))
    v[model.support_] = model.dual_coef_[0]
    norm = v @ K @ v
    if model.fit_intercept and model.penalize_intercept:
        norm += (model.intercept_[0] / model.intercept_scaling) ** 2
    return norm / 2 + model.C * loss.values(K @ v + model.intercept_[0], y).sum()


def fitted(name, X, y, sample_weight=None, **settings):
    make = KernelSDCAClassifier if name == "squared_hinge" else KernelSDCARegressor
    if name == "huber":
        settings["epsilon"] = 0.3
    settings = {"C": 1e6, "gamma": 0.1, "random_state": 0, **settings}
    return make(name, **settings).fit(X, y, sample_weight)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("options", INTERCEPTS)
def test_fits_with_large_C_converge(name, options, few):
    X, y = make_data(name, 400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(name, X, y, **options)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    result = model.result_
    # 39 to 150 with squared_hinge and X times 1 + k 1e-9: it is a matter of rounding
    assert result.status == "converged" and model.n_iter_ <= 160
    value = objective_of(model, K, y, LOSSES[name])
    assert value == pytest.approx(result.primal, rel=1e-5)
    assert result.dual <= value * (1 + 1e-6)


@pytest.mark.parametrize("given", ["dense", "sparse", "callable", "precomputed"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_kernel_ridge_regression(given, weighted, few):
    X, y = make_data("squared", 400)
    weights = 0.1 + np.random.default_rng(1).random(400) if weighted else None
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    kernel, data = {
        "dense": ("rbf", X),
        "sparse": ("rbf", sparse.csr_array(X)),
        "callable": (lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=0.1), X),
        "precomputed": ("precomputed", K),
    }[given]
    model = fitted("squared", data, y, weights, kernel=kernel, fit_intercept=False)
    assert model.result_.status == "converged" and model.n_iter_ <= 20
    ridge = KernelRidge(alpha=1e-6, kernel="precomputed").fit(K, y, weights)
    np.testing.assert_allclose(model.predict(data), ridge.predict(K), atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("budget", [1, 50_000, 200_000, 10**6])
def test_a_budget_is_never_exceeded(budget, few):
    X, y = make_data("squared", 400)
    result = fitted("squared", X, y, max_accesses=budget, max_iter=30).result_
    assert result.accesses <= budget
    assert result.dual <= result.primal


def test_room_decides():
    X, y = make_data("squared", 2100)
    objectives = [
        make_objective("squared", X, y, square_memory=square_bytes(2100) - less) for less in (0, 1)
    ]
    assert [takes_square(objective) for objective in objectives] == [True, False]


@pytest.mark.parametrize(
    "name, kernel, n_rows, methods",
    [
        ("squared", RBF(0.3), 300, [KernelNewton, InteriorPoint]),
        ("squared_hinge", RBF(0.3), 300, [KernelNewton, InteriorPoint]),
        ("squared", RBF(0.3), 3000, [KernelNewton]),
        ("squared", Linear(), 3000, [InteriorPoint, KernelNewton]),  # of rank four
    ],
)
def test_the_least_work_comes_first(name, kernel, n_rows, methods):
    X, y = make_data(name, n_rows)
    first = KernelSDCA(make_objective(name, X, y, kernel=kernel), bits(0))
    assert [space.method for space in kernel_spaces(first)] == methods


def test_memory_stays_within_its_limit(few):
    X, y = make_data("squared", 1500)
    limit = int(2 * square_bytes(1500)) + 1
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        model = fitted("squared", X, y, memory_limit=limit)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert model.result_.status == "converged" and model.n_iter_ <= 20
    assert square_bytes(1500) / 2 < peak < limit


def test_advice_names_the_memory_that_is_lacking(few):
    X, y = make_data("squared", 1500)
    with pytest.warns(ConvergenceWarning, match="raise memory_limit to") as caught:
        fitted("squared", X, y, memory_limit=2**24, max_iter=5)
    (message,) = (str(w.message) for w in caught if w.category is ConvergenceWarning)
    limit = int(re.search(r"raise memory_limit to (\d+)", message)[1])
    assert fitted("squared", X, y, memory_limit=limit, max_iter=20).result_.status == "converged"


def test_advice_of_few_examples_is_the_least_memory():
    X, y = make_data("squared", 1500)
    with pytest.warns(ConvergenceWarning, match="raise memory_limit to") as caught:
        fitted("squared", X, y, memory_limit=2**24, max_iter=5)
    (message,) = (str(w.message) for w in caught if w.category is ConvergenceWarning)
    limit = int(re.search(r"raise memory_limit to (\d+)", message)[1])
    assert limit == pytest.approx(2 * square_bytes(1500), rel=1e-6)


def test_problems_of_several_classes_do_without(few):
    """They may be solved in threads, which do not hear Ctrl-C amid an iteration."""
    X, z = make_data("squared", 400)
    y = np.digitize(z, np.quantile(z, [1 / 3, 2 / 3]))
    model = KernelSDCAClassifier("squared_hinge", multi_class="ovr", random_state=0)
    training = model._prepare(X, y, None)
    assert not takes_square(model._objective(training, 0, 1))


def test_paths_go_on_after_it(few):
    X, y = make_data("squared", 400)
    settings = {"kernel": "rbf", "random_state": 0}
    path = kernel_path(X, y, [1e2, 1e4, 1e6], [0.1], loss="squared", **settings)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    for model, result in zip(np.ravel(path.models), np.ravel(path.results), strict=True):
        assert result.status == "converged"
        value = objective_of(model, K, y, LOSSES["squared"])
        assert value == pytest.approx(result.primal, rel=1e-4)


def test_an_interrupt_leaves_the_best_model(few, monkeypatch):
    X, y = make_data("squared", 400)
    method = interrupted(KernelNewton, 1)
    monkeypatch.setattr("sublinear._second_order.KernelNewton", method)
    model = KernelSDCARegressor("squared", C=1e6, gamma=0.1, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert method.count == 1 and model.result_.status == "interrupted"
    value = objective_of(model, pairwise_kernels(X, metric="rbf", gamma=0.1), y, LOSSES["squared"])
    assert model.result_.dual <= value <= model.result_.primal + model.result_.gap
