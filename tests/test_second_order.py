"""Methods of second order: against their oracles, in SDCA's estimators, and where they stay out."""

import math
import os
import threading
import tracemalloc
import warnings
from functools import partial
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from reference.losses import LOSSES as ORACLES
from reference.second_order import interior_point, newton
from scipy import sparse
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsyrk
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from stepping import bits, interrupted, run_epochs, unchanged
from threadpoolctl import threadpool_info, threadpool_limits

from sublinear import SDCAClassifier, SDCARegressor, sdca_path
from sublinear._core import blas
from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import row_factor, row_products, solution, upper_factor, weighted_gram
from sublinear._core.line_search import backtrack
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.schedule import Budget
from sublinear._drive import _Timing, as_stored
from sublinear._second_order import is_foretold, least_passes, linear_spaces
from sublinear._solvers import newton as newton_module
from sublinear._solvers.finisher import FIRST_CERTIFICATE, SELDOM, Finisher, Iterate
from sublinear._solvers.interior_point import InteriorPoint
from sublinear._solvers.least_squares import LeastSquares
from sublinear._solvers.newton import MOST_OF_PIECEWISE, Newton, spread_sample
from sublinear._solvers.sdca import SDCA
from sublinear._solvers.spaces import Columns, RowSpan
from sublinear._solvers.truncated_newton import TruncatedNewton
from sublinear._solvers.two_threads import ColumnHalves, RowHalves

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
WITH_FORM = [name for name, entry in REGISTRY.items() if entry.loss().dual_form() is not None]
PARAMETERS = {"smoothed_hinge": (1.0,), "epsilon_insensitive": (0.1,), "huber": (1.35,)}
SCALES = 10.0 ** np.array([3, 0, -1, 2, 1, -2])


def make_data(name, n_rows=80, seed=0):
    """Rows with columns of very different scales."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, len(SCALES)))
    X[random.random(X.shape) < 0.3] = 0
    z = X @ random.normal(size=X.shape[1]) + random.normal(size=n_rows)
    return X * SCALES, np.sign(z) if name in MARGIN_LOSSES else z


def make_objective(name, X, y, weights=None, free=False, constant=1.0, alpha=1e-3):
    loss = REGISTRY[name].loss(*PARAMETERS.get(name, ()))
    return Objective(
        Matrix(X, constant), y, loss, alpha, weights, 1, intercept_penalty=float(not free)
    )


def method_for(objective):
    if objective.loss.quadratic:
        return LeastSquares
    return Newton if objective.loss.dual_form() is None else InteriorPoint


def finisher(objective, method=None, space=Columns, tol=1e-3, at_once=False):
    first, method = SDCA(objective, bits(0)), method or method_for(objective)
    return Finisher([space(first, method)], tol, 100, at_once)


def estimator(name, **settings):
    cls = SDCAClassifier if name in MARGIN_LOSSES else SDCARegressor
    return cls(name, **{"random_state": 0, **settings})


# ---------------------------------------------------------------- the matrix of the equations


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_the_weighted_gram_matrix(dtype, make, constant):
    X = make_data("squared", n_rows=300)[0].astype(dtype)
    rows = np.arange(0, 300, 3, dtype=np.uint32)
    factors = np.random.default_rng(1).random(len(rows))
    factors[:2] = 0, 1e-310
    gram = weighted_gram(Matrix(make(X), constant), rows, factors)
    chosen = X[rows].astype(float)
    if constant:
        chosen = np.column_stack([chosen, np.full(len(rows), constant)])
    expected = chosen.T @ (factors[:, np.newaxis] * chosen)
    np.testing.assert_allclose(np.triu(gram), np.triu(expected), rtol=1e-12)
    column = np.random.default_rng(2).normal(size=len(rows))
    gram = weighted_gram(Matrix(make(X), constant), rows, factors, column)
    np.testing.assert_allclose(np.triu(gram[:-1, :-1]), np.triu(expected), rtol=1e-12)
    np.testing.assert_allclose(gram[:-1, -1], chosen.T @ (factors * column), rtol=1e-10)


def test_the_weighted_gram_matrix_of_many_blocks():
    X = np.random.default_rng(0).normal(size=(40_000, 30))
    factors = np.random.default_rng(1).random(len(X))
    rows = np.arange(len(X), dtype=np.uint32)
    expected = np.triu(X.T @ (factors[:, np.newaxis] * X))
    for make in (np.asarray, sparse.csr_array):
        gram = np.triu(weighted_gram(Matrix(make(X)), rows, factors))
        np.testing.assert_allclose(gram, expected, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 16, 17, 40, 127, 128, 129])
@pytest.mark.parametrize("n_rows", [1, 31, 32, 33, 700])
def test_the_weighted_gram_matrix_of_any_width(n_rows, width):
    random = np.random.default_rng(width)
    X, factors = random.normal(size=(n_rows, width)), random.random(n_rows)
    gram = weighted_gram(Matrix(X), np.arange(n_rows, dtype=np.uint32), factors)
    expected = np.triu(X.T @ (factors[:, np.newaxis] * X))
    np.testing.assert_allclose(np.triu(gram), expected, rtol=0, atol=1e-13 * n_rows)
    column, rows = random.normal(size=n_rows), np.arange(n_rows, dtype=np.uint32)
    gram = weighted_gram(Matrix(X), rows, factors, column)
    np.testing.assert_allclose(np.triu(gram[:-1, :-1]), expected, rtol=0, atol=1e-13 * n_rows)
    np.testing.assert_allclose(gram[:-1, -1], X.T @ (factors * column), rtol=0, atol=1e-12 * n_rows)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(300, 20_000), (3, 5), (1500, 30)])
def test_products_of_rows(make, shape):
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    X[:, ::3] = 0
    expected = X.astype(float) @ X.T.astype(float)
    products = np.triu(row_products(Matrix(make(X), 2.0)))
    np.testing.assert_allclose(products, np.triu(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("order", "dtype", "n_calls"), [("C", "f8", 1), ("F", "f8", 2), ("C", "f4", 2)]
)
def test_rows_as_a_blas_takes_them_are_not_copied(monkeypatch, order, dtype, n_calls):
    """Others come in parts, which bounds the memory of the copies."""
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments[1])
        return dsyrk(*arguments, **options)

    monkeypatch.setattr("sublinear._core.gram.dsyrk", counted)
    X = np.random.default_rng(0).normal(size=(600, 2000)).astype(dtype, order=order)
    products = row_products(Matrix(X))
    np.testing.assert_allclose(np.triu(products), np.triu(X.astype(float) @ X.T), atol=1e-9)
    assert len(calls) == n_calls
    assert all(np.shares_memory(part, X) for part in calls) == (dtype == "f8")


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("shape", [(40, 300), (40, 7)])
def test_the_factor_of_rows_has_their_products(make, constant, offset, shape):
    X = offset + np.random.default_rng(0).normal(size=shape)
    X[3] = X[4]
    factor = row_factor(Matrix(make(X)), constant)
    np.testing.assert_array_equal(factor, np.triu(factor))
    np.testing.assert_allclose(factor.T @ factor, X @ X.T + constant**2, rtol=1e-13, atol=1e-11)
    # what rows differ by is there to more digits than their products have
    differences = np.linalg.norm(factor - factor[:, :1], axis=0)
    expected = np.linalg.norm(X - X[0], axis=1)
    np.testing.assert_allclose(differences, expected, rtol=1e-8, atol=4e-9 * offset)


def test_the_factor_of_a_singular_matrix():
    rows = np.random.default_rng(0).normal(size=(3, 2))
    for matrix in (rows @ rows.T, np.zeros((3, 3))):
        factor = upper_factor(matrix.copy())
        np.testing.assert_allclose(factor.T @ factor, matrix, atol=1e-10)
    with pytest.raises(LinAlgError):
        upper_factor(-np.eye(3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [(1, 1), (0, 2)])
def test_what_is_not_finite_has_no_factor_and_no_solution(place, value):
    matrix, right = np.eye(3), np.ones(3)
    matrix[place] = right[1] = value
    with pytest.raises(LinAlgError), np.errstate(all="ignore"):
        upper_factor(matrix)
    with pytest.raises(LinAlgError):
        solution(np.eye(3), right)


# ---------------------------------------------------------------- the iterations


@pytest.mark.parametrize("name", WITH_FORM)
@pytest.mark.parametrize("weighted", [False, True, "unevenly"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_interior_point_method_is_that_of_the_oracle(name, weighted, free, make):
    X, y = make_data(name, n_rows=30)
    X = X / SCALES  # the oracle's systems are as large as they are ill-conditioned
    weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0 if weighted else None
    if weighted == "unevenly":
        weights *= np.geomspace(1, 1e3, len(y))
    objective = make_objective(name, make(X), y, weights, free)
    method = InteriorPoint(objective)
    kept = slice(None) if weights is None else weights > 0
    rows, s = (
        np.column_stack([X, np.ones(len(X))])[kept],
        None if weights is None else weights[kept],
    )
    form = objective.loss.dual_form()
    for w, duals in islice(interior_point(rows, y[kept], form, 1e-3, s, free), 6):
        assert method.iterate()
        np.testing.assert_allclose(method.w, w, rtol=1e-6, atol=1e-8)
        found = method.system.all_duals(method.present_duals)
        found = found if weights is None else found[weights > 0]
        np.testing.assert_allclose(found, duals, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "name, second_derivative",
    [
        ("logistic", lambda z, y: expit(z) * expit(-z)),
        ("squared", lambda z, y: np.ones(len(z))),
        ("squared_hinge", lambda z, y: (y * z < 1) * 2.0),
        ("smoothed_hinge", lambda z, y: (y * z > 0) * (y * z < 1) * 1.0),
        ("huber", lambda z, y: (np.abs(z - y) <= 0.3) * 1.0),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("free", [False, True])
def test_newtons_method_is_that_of_the_oracle(name, second_derivative, weighted, free):
    X, y = make_data(name)
    X = X / SCALES
    weights = np.random.default_rng(1).integers(1, 3, len(y)) / 2.0 if weighted else None
    epsilon = (0.3,) if name == "huber" else ()
    loss = REGISTRY[name].loss(*epsilon)
    objective = Objective(
        Matrix(X, 1.0), y, loss, 1e-3, weights, 1, intercept_penalty=float(not free)
    )
    method = LeastSquares(objective) if loss.quadratic else Newton(objective, tol=1e-3)
    steps = newton(
        np.column_stack([X, np.ones(len(X))]),
        y,
        ORACLES[name](*epsilon),
        second_derivative,
        1e-3,
        weights,
        free,
        is_straight=not loss.is_curved,
    )
    n_preferred = 0
    for w, duals, solved in islice(steps, 1 if name == "squared" else 5):
        assert method.iterate()
        np.testing.assert_allclose(method.w, w, rtol=1e-8, atol=1e-10)
        *preferred, of_slopes = (candidate() for candidate in method.candidates())
        np.testing.assert_allclose(of_slopes, duals, rtol=1e-8, atol=1e-10)
        for found in preferred if solved is not None else ():
            feasible = loss.nearest_duals(solved, y)
            np.testing.assert_allclose(found, feasible, rtol=1e-8, atol=1e-10)
        n_preferred += len(preferred)
    assert n_preferred > 0 or name != "logistic"


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_duals_of_the_equations_are_nearly_as_good_as_the_weights(free, tol):
    """Those of the slopes lack more by a factor of the condition."""
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 10))
    y = np.where(X[:, 0] + random.logistic(size=500) > 0, 1.0, -1.0)
    objective = make_objective("logistic", X, y, free=free, alpha=1e-6)
    best, method = Newton(objective), Newton(objective, tol=tol)
    while best.gap > 1e-12 * best.primal:
        assert best.iterate()
    while method.gap > tol * method.primal:
        assert method.iterate()
    assert method.gap <= 3 * (method.primal - best.primal)
    assert method.system.distance(method.gradient) > 1e3 * method.gap
    primals, dual = objective.certificate_of(method.candidates()[0](), [method.w])
    assert primals[0] - dual == pytest.approx(method.gap, rel=1e-4)


def ill_conditioned(seed, n_rows, width):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, width)) * 10.0 ** random.uniform(-3, 1, width)
    X = X @ random.normal(size=(width, width))
    return X, X @ random.normal(size=width) + random.normal(size=n_rows)


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_duals_of_equations_that_rounding_has_spoilt_are_not_preferred(seed):
    X, y = ill_conditioned(seed, 1000, 100)
    model = SDCARegressor("squared", alpha=1e-12, tol=1e-8, random_state=0).fit(X, y)
    assert model.result_.status == "converged" and model.n_iter_ <= 6


def test_duals_of_the_equations_do_not_make_a_method_idle_that_goes_on():
    X, z = ill_conditioned(0, 600, 80)
    options = {"loss": "logistic", "tol": 1e-6, "random_state": 0}
    path = sdca_path(X, np.where(z > 0, 1, -1), 10.0 ** -np.arange(12), **options)
    assert all(result.status == "converged" for result in path.results)
    assert sum(result.n_iter for result in path.results) <= 400


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("free", [False, True])
def test_its_gap_is_that_of_a_certificate(name, free):
    X, y = make_data(name)
    objective = make_objective(name, X, y, free=free, alpha=1e-6)
    method = method_for(objective)(objective)
    for _ in range(40):
        if method.gap <= 1e-9 * method.primal:
            break
        method.iterate()
    primals, dual = objective.certificate_of(method.candidates()[0](), [method.w])
    assert method.primal == pytest.approx(primals[0], rel=1e-12)
    assert -1e-12 <= primals[0] - dual <= 1e-6 * primals[0]


@pytest.mark.parametrize("name", ["hinge", "absolute", "epsilon_insensitive"])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_its_candidates_are_feasible(name, weighted):
    X, y = make_data(name, n_rows=24)
    weights = np.random.default_rng(1).integers(1, 4, len(y)) / 2.0 if weighted else None
    objective = make_objective(name, X / SCALES, y, weights)
    method = InteriorPoint(objective)
    for _ in range(8):
        assert method.iterate()
        for candidate in method.candidates():
            duals = candidate()
            feasible = duals.copy()
            objective.make_feasible(feasible)
            np.testing.assert_allclose(duals, feasible, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_its_duals_off_their_bounds_make_up_the_weights(weighted):
    """Where alpha is small, w(a) follows the least change of a dual."""
    X, y = make_data("hinge", n_rows=300)
    weights = np.random.default_rng(1).integers(1, 4, len(y)) / 2.0 if weighted else None
    objective = make_objective("hinge", X / SCALES, y, weights, alpha=1e-6)
    method = InteriorPoint(objective)
    while method.gap > 1e-9 * method.primal:
        assert method.iterate()
    w = objective.weights_of_dual(method.candidates()[0]())
    assert np.linalg.norm(w - method.w) < 1e-7 * np.linalg.norm(method.w)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_what_least_squares_have_measured_needs_no_certificate(free, weighted, make):
    X, y = make_data("squared", n_rows=400)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0 if weighted else None
    objective = make_objective("squared", make(X / SCALES), y, weights, free)
    space = Columns(SDCA(objective, bits(0)), LeastSquares)
    method = space.begin()
    assert method.iterate() and method.is_measured
    iterate = Iterate(method.w, method.gap, method.primal, method.candidates(), True)
    before = objective.accesses
    model, primal, dual, duals = space.certify(iterate, method.w, 1e-3, False, unchanged)
    assert model is method.w and objective.accesses == before
    if free:
        positive, negative = objective.masses(duals)
        assert positive == pytest.approx(negative, rel=1e-13)
    primals, certified = objective.certificate_of(duals.copy(), [model])
    assert primal == pytest.approx(primals[0], rel=1e-13)
    assert dual == pytest.approx(certified, rel=1e-13)
    # weights that are rounded are others
    rounded = partial(as_stored, dtype=np.float32)
    model, primal, dual, duals = space.certify(iterate, method.w, 1e-3, False, rounded)
    primals, certified = objective.certificate_of(duals, [model])
    assert (primal, dual) == (primals[0], pytest.approx(certified, rel=1e-13))
    assert primal > method.primal


def test_balanced_duals_of_least_squares_are_measured_where_the_intercept_is_far_off():
    X, y = make_data("squared", n_rows=400)
    objective = make_objective("squared", X / SCALES + 30, y, free=True, alpha=1e-6)
    method = LeastSquares(objective)
    method._search(np.append(np.full(6, 1e-3), 0.5))  # duals have a mean there
    duals = method.candidates()[-1]()
    positive, negative = objective.masses(duals)
    assert positive == pytest.approx(negative, rel=1e-12)
    assert abs(np.mean(method.at.slopes)) > 0.1
    primals, dual = objective.certificate_of(duals, [method.w])
    assert primals[0] - dual == pytest.approx(method.gap, rel=1e-9)


def test_steps_of_least_squares_go_on_from_what_rounding_has_left():
    X, y = ill_conditioned(0, 1000, 100)
    method, gaps = LeastSquares(make_objective("squared", X, y, alpha=1e-12), tol=1e-8), []
    while len(gaps) < 3 and method.iterate():
        gaps.append(method.gap / method.primal)
    assert gaps[0] > 1e-7 and min(gaps) < 1e-3 * gaps[0]
    assert not method.is_measured  # predictions have been added up


TAKE_PRODUCTS = ["squared", "squared_hinge", "logistic", "huber"]


@pytest.mark.parametrize(
    "name, methods",
    [
        ("squared", [TruncatedNewton, LeastSquares]),
        ("logistic", [TruncatedNewton, Newton]),
        *[(name, [TruncatedNewton, Newton, InteriorPoint]) for name in ("squared_hinge", "huber")],
        ("smoothed_hinge", [Newton, InteriorPoint]),
        *[(name, [InteriorPoint]) for name in ("hinge", "absolute", "epsilon_insensitive")],
    ],
)
def test_methods_of_a_loss_with_the_least_expected_work_first(name, methods):
    X, y = make_data(name)
    spaces = linear_spaces(SDCA(make_objective(name, X, y), bits(0)), 1e-3)
    assert {space.method for space in spaces} == set(methods)
    assert spaces == sorted(spaces, key=lambda space: space.expected_work)


@pytest.mark.parametrize("name, most", [("huber", 15), ("smoothed_hinge", 20)])
def test_secants_keep_steps_short_where_few_rows_are_curved(name, most, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 200))
    z = X @ random.normal(size=200)
    y = z / z.std() + 0.5 * random.standard_t(3, size=300)
    loss = REGISTRY[name].loss(0.1)
    y = np.sign(y) if name in MARGIN_LOSSES else y

    def n_iterations():
        method = Newton(Objective(Matrix(X), y, loss, 1e-2, None))
        method.n_left = 100
        n_iter = 0
        while method.gap > 1e-9 * method.primal:
            assert method.iterate()
            n_iter += 1
        return n_iter

    n_iter = n_iterations()
    assert n_iter <= most
    monkeypatch.setattr(Newton, "_evaluate", lambda self, **place: self.system.evaluate(**place))
    assert n_iterations() > 1.5 * n_iter


@pytest.mark.parametrize("name", TAKE_PRODUCTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_conjugate_gradients_find_newtons_step(name, weighted, free, make, monkeypatch):
    X, y = make_data(name)
    weights = np.random.default_rng(1).integers(1, 3, len(y)) / 2.0 if weighted else None
    objective = make_objective(name, make(X / SCALES), y, weights, free, constant=2.0)
    monkeypatch.setattr("sublinear._solvers.truncated_newton.FORCING", 1e-9)
    monkeypatch.setattr("sublinear._solvers.truncated_newton.KEPT", 0.0)
    exact, truncated = Newton(objective), TruncatedNewton(objective, tol=1e-12)
    for _ in range(3):
        exact.iterate()
        while truncated.n_passes == 1:
            assert truncated.iterate()
        assert truncated.n_inner <= 9  # in exact arithmetic one for each weight
        assert truncated.iterate()
        np.testing.assert_allclose(truncated.w, exact.w, rtol=1e-6, atol=1e-9)
        if name == "squared":
            break


@pytest.mark.parametrize("name", TAKE_PRODUCTS)
def test_conjugate_gradients_need_no_scaling_of_columns(name):
    X, y = make_data(name)
    objective = make_objective(name, X, y, alpha=1e-8)
    method = TruncatedNewton(objective, tol=1e-3)
    for _ in range(200):
        if method.gap <= 1e-3 * method.primal:
            break
        method.iterate()
    assert method.gap <= 1e-3 * method.primal


def zipf(random, exponent, shape):
    """The numbers that `random.zipf` draws from NumPy 2.1 on: 2.0 draws others.

    By rejection: Devroye, "Non-uniform random variate generation" (1986), section X.6.
    """
    largest, power = np.iinfo(np.int64).max, exponent - 1
    least, found = float(largest) ** -power, []
    while len(found) < np.prod(shape):
        share, height = random.random(), random.random()
        x = math.floor((share * least + (1 - share)) ** (-1 / power))
        if 1 <= x <= largest:
            t = (1 + 1 / x) ** power
            if height * x * (t - 1) / (2**power - 1) <= t / 2**power:
                found.append(x)
    return np.reshape(np.array(found, dtype=np.int64), shape)


def clicks(n_rows=4000, n_columns=5000, n_fields=10):
    """Sparse rows of rare categories, every other one with a count, and labels."""
    random = np.random.default_rng(0)
    columns = zipf(random, 1.3, (n_rows, n_fields)) * 97 % n_columns
    counts = np.minimum(zipf(random, 1.8, (n_rows, n_fields)), 1000).astype(np.float64)
    counts[:, ::2] = 1
    offsets = np.arange(0, n_rows * n_fields + 1, n_fields)
    X = sparse.csr_array((counts.ravel(), columns.ravel(), offsets), (n_rows, n_columns))
    X.sum_duplicates()
    z = X.sign() @ random.normal(size=n_columns) + random.normal(size=n_rows)
    return X, np.where(z > 1, 1.0, -1.0)


def test_long_rows_do_not_make_conjugate_gradients_creep():
    objective = make_objective("squared_hinge", *clicks(), alpha=1e-4)
    method, n_iterations = TruncatedNewton(objective, tol=1e-3), 0
    while method.gap > 1e-3 * method.primal:
        assert method.iterate()
        n_iterations += 1
    assert n_iterations < 400  # 476 where rows keep nothing of their curvature


@pytest.mark.parametrize("free", [False, True])
def test_conjugate_gradients_certify_the_duals_of_their_equations(free, tol=1e-3):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 100))
    y = np.where(random.random(2000) < expit(X @ random.normal(size=100) / 3), 1.0, -1.0)
    objective = make_objective("logistic", X, y, free=free, alpha=1e-5)
    method = TruncatedNewton(objective, tol=tol)
    assert not method.ascends
    while method.gap > tol * method.primal:
        assert method.iterate()
    duals, of_slopes = [candidate() for candidate in method.candidates()]
    (primal,), dual = objective.certificate_of(duals, [method.w])
    assert primal - dual <= 1.000001 * tol * primal
    assert primal == pytest.approx(method.primal, rel=1e-12)
    assert primal - dual == pytest.approx(method.gap, rel=1e-3)
    # those of the slopes would have needed more steps
    (primal,), dual = objective.certificate_of(of_slopes, [method.w])
    assert primal - dual > 2 * tol * primal


@pytest.mark.parametrize("name", TAKE_PRODUCTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_diagonal_of_conjugate_gradients(name, weighted):
    X, y = make_data(name)
    weights = np.random.default_rng(2).integers(0, 3, len(y)).astype(float) if weighted else None
    objective = make_objective(name, X, y, weights, alpha=1e-3)
    method = TruncatedNewton(objective, np.full(7, 1e-3))
    gram = method.system.gram(method.at.curvatures)
    np.testing.assert_allclose(method.diagonal, 1e-3 + gram.diagonal(), rtol=1e-12)


@pytest.mark.parametrize("free", [False, True])
def test_ascent_improves_the_duals_of_conjugate_gradients(free, monkeypatch):
    objective = make_objective("squared_hinge", *clicks(), free=free, alpha=1e-4)

    def solved():
        spaces = [Columns(SDCA(objective, bits(0)), TruncatedNewton, tol=1e-3)]
        solver = Finisher(spaces, 1e-3, 3000, at_once=True)
        while solver.look() > 1e-3:
            solver.advance(2**60)
            assert solver.n_iter < 3000
        return solver

    solver = solved()
    gap_before = solver.second.best.gap
    model, primal, dual = solver.certify(unchanged)
    assert primal - dual <= 1.2e-3 * primal < 0.5 * gap_before
    # the duals are those that have the certificate
    (again,), dual_again = objective.certificate_of(solver.release_duals(), [model])
    assert (again, dual_again) == pytest.approx((primal, dual), rel=1e-12)
    monkeypatch.setattr("sublinear._solvers.finisher.PROMISING", 0.0)
    assert solver.n_iter < 0.95 * solved().n_iter


@pytest.mark.parametrize("name", ["logistic", "squared"])
@pytest.mark.parametrize("n_columns", [3, 20])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_lengths_of_rows_foretell_how_long_ascent_will_take(name, n_columns, penalty):
    """At least as long, and not many times where rows have several columns."""
    random = np.random.default_rng(0)
    X = random.normal(size=(500, n_columns))
    z = X @ random.normal(size=n_columns) + random.normal(size=500)
    settings = {"alpha": penalty / 500, "fit_intercept": False}
    y = np.sign(z) if name == "logistic" else z
    objective = make_objective(name, X, y, constant=0.0, alpha=settings["alpha"])
    assert is_foretold(objective.loss, objective.matrix)
    foretold = least_passes(objective.loss, SDCA(objective, bits(0)).curvatures(), 1e-3)
    model = estimator(name, second_order=False, max_iter=5000, **settings).fit(X, y)
    assert foretold <= model.n_iter_
    assert n_columns == 3 or model.n_iter_ <= 1 + 4 * foretold


@pytest.mark.parametrize("name", REGISTRY)
def test_what_foretells_nothing(name):
    X, y = make_data(name)
    loss = make_objective(name, X, y).loss
    for n_rows, is_enough in ((14, True), (13, False)):
        extent = SimpleNamespace(n_rows=n_rows, n_weights=7)
        assert is_foretold(loss, extent) == (is_enough and name in ("logistic", "squared"))


def test_curvatures_of_some_examples():
    X, y = make_data("logistic")
    solver = SDCA(make_objective("logistic", X, y), bits(0))
    every = solver.curvatures()
    np.testing.assert_allclose(every, ((X**2).sum(axis=1) + 1) / (1e-3 * 80), rtol=1e-12)
    for step in (3, 79, 80):
        np.testing.assert_array_equal(solver.curvatures(step), every[::step])


def test_foretold_passes_of_extreme_curvatures():
    loss = REGISTRY["squared"].loss()
    assert least_passes(loss, np.zeros(3), 1e-3) == 0
    assert least_passes(loss, np.ones(3), 1.0) == least_passes(loss, np.ones(3), 0.0) == 0
    assert least_passes(loss, np.array([0.0, 1.0]), 1e-3) == pytest.approx(math.log(1000) / 2)
    assert 1e290 < least_passes(loss, np.full(3, np.inf), 1e-3) < math.inf


def test_early_iterations_without_a_matrix_are_certified_where_they_end_or_promise_enough():
    X, y = make_data("logistic", n_rows=2000)
    solver = finisher(make_objective("logistic", X, y, alpha=1e-8), TruncatedNewton, at_once=True)
    while solver.second is None:
        solver.advance(2**60)
    assert solver.certificate_growth == SELDOM
    solver.second.is_stuck = True
    assert solver.certificate_growth == 1
    solver.second.is_stuck, solver.n_iterations = False, FIRST_CERTIFICATE
    assert solver.certificate_growth == solver.first.certificate_growth


@pytest.mark.parametrize("name", ["logistic", "squared"])
def test_where_ascent_would_take_long_no_pass_comes_first(name):
    X, y = make_data(name, n_rows=2000)
    model = estimator(name, alpha=1e-6).fit(X, y)
    assert model.result_.status == "converged"
    assert model.n_iter_ == 1 if name == "squared" else model.n_iter_ < 12
    # a fit that goes on has duals that lengths of rows know nothing of
    again = clone(model).set_params(warm_start=True).fit(X, y)
    assert again.fit(X, y).result_.status == "converged"


def test_steps_are_halved_until_they_lead_down():
    assert backtrack(lambda step: ((step - 0.2) ** 2,), 0.04, -0.4)[0] == 0.25
    assert backtrack(lambda step: (step**2 - step,), 0.0, -1.0)[0] == 0.5
    assert backtrack(lambda step: (-step, "there"), 0.0, -1.0) == (1, (-1, "there"))
    assert backtrack(lambda step: (step,), 0.0, -1.0) == (0, None)
    assert backtrack(lambda step: (math.nan,), 0.0, -1.0) == (0, None)


def test_the_next_method_begins_where_one_gets_stuck():
    class Stuck(TruncatedNewton):
        def iterate(self):
            return False

    X, y = make_data("logistic")
    first = SDCA(make_objective("logistic", X, y, alpha=1e-6), bits(0))
    solver = Finisher([Columns(first, Stuck), Columns(first, Newton)], 1e-6, 300)
    while solver.estimated_gap > 1e-6 and solver.n_iter < 300:
        solver.advance(2**60)
    assert type(solver.second.method) is Newton
    primal, dual = solver.certify(unchanged)[1:]
    assert primal - dual <= 1e-6 * primal


@pytest.mark.parametrize("where", ["__init__", "iterate"])
def test_only_equations_without_a_solution_end_a_method(where):
    """Other errors are mistakes."""

    def mistaken(self, *arguments, **options):
        raise ValueError("shapes do not match")

    X, y = make_data("logistic")
    first = SDCA(make_objective("logistic", X, y), bits(0))
    method = type("Mistaken", (Newton,), {where: mistaken})
    solver = Finisher([Columns(first, method)], 1e-6, 300, at_once=True)
    with pytest.raises(ValueError, match="shapes"):
        while solver.n_iter < 300:
            solver.advance(2**60)


@pytest.mark.parametrize(
    "loss, alpha", [("hinge", 1e-8), ("logistic", 1e-8), ("squared_hinge", 1e-6)]
)
@pytest.mark.parametrize("shape", [(1500, 50), (300, 250)])
def test_classes_that_a_plane_tells_apart(loss, alpha, shape):
    random = np.random.default_rng(0)
    X = random.normal(size=shape) * 10 ** random.uniform(-2, 2, shape[1])
    model = SDCAClassifier(loss, alpha=alpha, random_state=0)
    result = model.fit(X, np.sign(X @ random.normal(size=shape[1]))).result_
    assert result.status == "converged"


@pytest.mark.parametrize("max_iter", [4, 40])
def test_few_iterations_are_left_to_the_method_that_takes_few(max_iter):
    random = np.random.default_rng(0)
    X = sparse.random_array((4000, 500), density=0.02, rng=random, format="csr")
    X = X @ sparse.diags_array(10 ** random.uniform(-2, 2, 500))
    y = X @ random.normal(size=500) + random.normal(size=4000)
    model = SDCARegressor(alpha=1e-7, max_iter=max_iter, second_order=True, random_state=0)
    assert model.fit(X, y).result_.status == "converged"


def test_newtons_method_begins_at_zeros_if_these_are_better():
    X, y = make_data("logistic")
    objective = make_objective("logistic", X, y)
    method = Newton(objective, np.full(7, 1e6))
    assert method.primal == pytest.approx(np.log(2))
    assert not method.w.any()


def count_products(monkeypatch):
    """Return a list that gets the number of rows of every matrix that Newton's method forms."""
    counts = []

    def counted(matrix, rows, factors):
        counts.append(len(rows))
        return weighted_gram(matrix, rows, factors)

    monkeypatch.setattr(newton_module, "weighted_gram", counted)
    return counts


def many_rows(name, n_rows=4000, width=8, rare=False, make=np.asarray):
    random = np.random.default_rng(4)
    X = random.normal(size=(n_rows, width))
    if rare:  # a column that some rows know, of which a sample has few or none
        X[:, 0] = 0.0
        X[1:40:4, 0] = 30.0
    y = X @ random.normal(size=width) + random.logistic(size=n_rows)
    y = y if name == "squared" else np.where(y > 0, 1.0, -1.0)
    return make_objective(name, make(X), y)


def test_of_many_rows_a_part_gives_the_matrix(monkeypatch):
    counts, objective = count_products(monkeypatch), many_rows("logistic")
    method = Newton(objective)
    gaps = [method.gap]
    while method.gap > 1e-12 * method.primal:
        assert method.iterate()
        gaps.append(method.gap)
    assert set(counts) == {500} and len(counts) <= 12
    assert (np.diff(np.log(gaps)) < np.log(1 / 4)).all()
    primals, dual = objective.certificate_of(method.candidates()[0](), [method.w])
    assert -1e-12 <= primals[0] - dual <= 1e-11 * primals[0]


@pytest.mark.parametrize("tol, n_samples", [(1e-3, 2), (1e-6, 4)])
def test_the_last_step_is_of_all_rows(monkeypatch, tol, n_samples):
    """Its duals are good enough, where those of another sample would not be."""
    counts, objective = count_products(monkeypatch), many_rows("logistic")
    method = Newton(objective, tol=tol)
    while method.gap > tol * method.primal:
        assert method.iterate()
    assert counts == [500] * n_samples + [4000]


def test_where_a_part_has_seen_too_little_it_takes_all_rows(monkeypatch):
    counts, objective = count_products(monkeypatch), many_rows("logistic", rare=True)
    method = Newton(objective)
    while method.gap > 1e-12 * method.primal:
        assert method.iterate()
    assert counts[0] == 500
    assert counts[-1] == 4000 and len(counts) <= 12


@pytest.mark.parametrize(
    "name, make",
    [("squared", np.asarray), ("squared_hinge", np.asarray), ("logistic", sparse.csr_array)],
)
def test_where_a_part_does_not_pay_it_takes_all_rows(name, make, monkeypatch):
    counts, objective = count_products(monkeypatch), many_rows(name, make=make)
    method = Newton(objective)
    method.iterate()
    assert counts == [4000]


def test_a_sample_is_spread_and_has_all_the_mass():
    rows, factors = np.arange(100, 1100, dtype=np.uint32), np.linspace(0.5, 2.0, 1000)
    chosen, scaled = spread_sample(rows, factors, 0.125)
    assert len(chosen) == 125 and (np.diff(chosen) > 0).all()
    assert (np.abs(chosen - 100 - 8 * np.arange(125)) < 8).all()
    assert scaled.sum() == pytest.approx(factors.sum())
    np.testing.assert_allclose(scaled / scaled[0], factors[chosen - 100] / factors[chosen[0] - 100])
    again, _ = spread_sample(rows, factors, 0.125)
    np.testing.assert_array_equal(chosen, again)


# ---------------------------------------------------------------- in an estimator


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("penalize", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_it_solves_what_single_steps_do_not(name, penalize, make):
    X, y = make_data(name)
    settings = {"alpha": 1e-7, "tol": 1e-8, "penalize_intercept": penalize, "max_iter": 100}
    with pytest.warns(match="max_iter"):
        slow = estimator(name, second_order=False, **settings).fit(make(X), y)
    model = estimator(name, second_order=True, **settings).fit(make(X), y)
    assert slow.result_.relative_gap > 1e-3
    assert model.result_.status == "converged" and model.n_iter_ < 50
    # certificates before bound the optimum as well
    assert model.result_.primal <= slow.result_.primal
    assert model.result_.dual >= slow.result_.dual
    assert all(row.dual <= model.result_.primal * (1 + 1e-12) for row in model.result_.trace)


@pytest.mark.parametrize("name", REGISTRY)
def test_sample_weights_are_repetition(name):
    X, y = make_data(name)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    settings = {"alpha": 1e-4, "tol": 1e-11, "second_order": True, "max_iter": 100}
    weighted = estimator(name, **settings).fit(X, y, sample_weight=weights)
    repeated = estimator(name, **settings).fit(X.repeat(weights, axis=0), y.repeat(weights))
    for model in (weighted, repeated):
        assert model.result_.status == "converged"
    assert weighted.result_.primal == pytest.approx(repeated.result_.primal, rel=1e-9)
    np.testing.assert_array_equal(np.ravel(weighted.dual_coef_)[weights == 0], 0)


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_few_rows_are_solved_in_their_span(name, free, make):
    X, y = make_data(name)
    X = 5 + np.tile(X / SCALES, (1, 30)) + np.random.default_rng(1).normal(size=(80, 180))
    weights = np.random.default_rng(2).integers(0, 3, 80) / 2.0
    # through fewer columns, which leave room for rounding
    objective = make_objective(name, make(X), y, weights, free, 2.0, alpha=0.1)
    models = []
    for space in (Columns, RowSpan):
        solver = finisher(objective, space=space, tol=1e-9, at_once=True)
        while solver.estimated_gap > 1e-12 and solver.n_iter < 50:
            solver.advance(2**60)
        model, primal, dual = solver.certify(unchanged)
        assert abs(primal - dual) <= 1e-9 * primal
        models.append(model)
    np.testing.assert_allclose(*models, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", REGISTRY)
def test_wide_rows_far_from_the_origin(name):
    X, y = make_data(name)
    X = (
        100
        + np.random.default_rng(1).normal(size=(80, 400))
        + np.tile(X / SCALES, (1, 400))[:, :400]
    )
    settings = {"alpha": 1e-4, "max_iter": 500}
    with pytest.warns(match="max_iter"):
        estimator(name, second_order=False, **settings).fit(X, y)
    model = estimator(name, **settings).fit(X, y)
    assert model.result_.status == "converged"


@pytest.mark.parametrize(("offset", "alpha"), [(300, 1e-6), (1000, 1e-7)])
def test_few_rows_very_far_from_the_origin(offset, alpha):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 600)) + offset * random.normal(size=600)
    y = X @ random.normal(size=600) / 25
    y = (y - y.mean()) / y.std() + random.normal(size=200)
    model = SDCARegressor("absolute", alpha=alpha, random_state=0).fit(X, y)
    assert model.result_.status == "converged"


def test_the_best_weights_are_kept_where_rounding_takes_over():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 100)) + 1e5 * random.normal(size=100)
    y = np.where(random.random(60) < 0.5, -1.0, 1.0)
    with pytest.warns(ConvergenceWarning):
        model = SDCARegressor("absolute", alpha=1e-8, random_state=0).fit(X, y)
    assert model.result_.primal < 3e-8  # the iterate of least gap is at 1e-2


def test_a_smaller_tol_is_no_worse():
    random = np.random.default_rng(3)
    X = random.normal(size=(60, 100)) + 100 * random.normal(size=100)
    y = np.where(random.random(60) < 0.5, -1, 1)
    gaps = []
    for tol in (1e-10, 1e-12, 1e-14):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SDCAClassifier(alpha=2e-7, fit_intercept=False, tol=tol, random_state=0)
            gaps.append(model.fit(X, y).result_.gap)
    assert max(gaps) <= 2 * gaps[0]


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
def test_duals_are_at_their_bounds_exactly(name):
    X, y = make_data(name)
    # one iterate before, a gap of 1e-9 may be met with a dual that is merely near its bound
    model = estimator(name, alpha=1e-5, tol=1e-12, second_order=True).fit(X, y)
    inside = np.count_nonzero(~np.isin(model.dual_coef_, (-1, 0, 1)))
    assert inside <= X.shape[1] + 1


@pytest.mark.parametrize("name", REGISTRY)
def test_the_certificate_is_that_of_the_fitted_attributes(name):
    X, y = make_data(name)
    settings = {"epsilon": PARAMETERS[name][0]} if name in ("epsilon_insensitive", "huber") else {}
    model = estimator(name, alpha=1e-5, second_order=True, **settings).fit(X, y)
    objective = make_objective(name, X, y, alpha=1e-5)
    duals = np.ravel(model.dual_coef_)
    w = np.append(model.coef_, model.intercept_)
    primals, dual = objective.certificate(objective.weights_of_dual(duals), duals, [w])
    assert model.result_.primal == pytest.approx(primals[0], rel=1e-12)
    assert model.result_.dual == pytest.approx(dual, rel=1e-9)


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("max_iter", [2, 4, 8])
@pytest.mark.parametrize("penalize", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_early_limit_leaves_the_best_duals_and_model(name, max_iter, penalize):
    X, y = make_data(name)
    settings = {"epsilon": PARAMETERS[name][0]} if name in ("epsilon_insensitive", "huber") else {}
    settings |= {"alpha": 1e-7, "penalize_intercept": penalize, "max_iter": max_iter}
    model = estimator(name, second_order=True, **settings).fit(X, y)
    objective = make_objective(name, X, y, alpha=1e-7, free=not penalize)
    dual = objective.certificate_of(np.array(model.dual_coef_).ravel(), [np.zeros(7)])[1]
    assert model.result_.dual == pytest.approx(dual, rel=1e-6)
    # conjugate gradients come last here, and do not begin for so few iterations
    n_passes = 2 if name in ("squared_hinge", "huber") and max_iter == 2 else 1
    steps = estimator(name, second_order=False, **settings | {"max_iter": n_passes}).fit(X, y)
    assert model.result_.primal <= steps.result_.primal * (1 + 1e-9)
    # a method may have begun at zeros, without a pass of steps
    dual = 0.0 if objective.loss.is_smooth else steps.result_.dual
    assert model.result_.dual >= dual - 1e-9 * steps.result_.primal


@pytest.mark.parametrize("name", ["absolute", "epsilon_insensitive", "hinge"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_rounding_ends_is_certified(name):
    X, y = make_data(name)
    model = estimator(name, alpha=1e-9, tol=1e-16, second_order=True, max_iter=200).fit(X, y)
    assert model.result_.relative_gap < 1e-8


def test_it_does_not_depend_on_the_threads_of_blas():
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 300)) * 10 ** random.uniform(-1, 1, size=300)
    y = np.sign(X[:, 0] + random.normal(size=1500))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(estimator("logistic", alpha=1e-5, second_order=True).fit(X, y))
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    np.testing.assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)


@pytest.mark.parametrize("name", ["hinge", "smoothed_hinge", "absolute"])
def test_uneven_weights_take_hardly_more_iterations(name):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 150))
    y = X @ random.normal(size=150)
    y = y if name == "absolute" else np.sign(y)
    for spread, most in ((0, 20), (4, 30), (15, 30)):
        weights = np.exp(spread * random.normal(size=300))
        method = InteriorPoint(make_objective(name, X, y, weights, alpha=1e-6))
        n_iter = 0
        while method.gap > 1e-3 * method.primal and n_iter < 100:
            method.iterate()
            n_iter += 1
        assert n_iter < most


def test_the_interior_point_method_is_next_where_newtons_creeps():
    X, digit = load_digits(return_X_y=True)
    alpha = 1e-10 * (X**2).sum(axis=1).mean()
    model = estimator("squared_hinge", alpha=alpha, second_order=True, max_iter=200)
    model.fit(X, digit == 2)
    assert model.result_.status == "converged"
    assert model.n_iter_ > MOST_OF_PIECEWISE


@pytest.mark.parametrize("smoothing", [1.99, 2.0, 2.01])  # no part has a residual at first
def test_smoothing_makes_no_method_creep(smoothing):
    X, y = make_data("smoothed_hinge")
    loss = REGISTRY["smoothed_hinge"].loss(smoothing)
    method = InteriorPoint(Objective(Matrix(X), y, loss, 1e-3, None))
    n_iter = 0
    while method.gap > 1e-8 * method.primal and n_iter < 100:
        method.iterate()
        n_iter += 1
    assert n_iter < 15


@pytest.mark.parametrize("name", ["hinge", "smoothed_hinge"])
def test_rows_of_large_weight_take_hardly_more_iterations(name):
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 10))
    z = X @ random.normal(size=10) + 3 * random.normal(size=2000)
    found = []
    for weights in (None, np.where(z > np.quantile(z, 0.98), 100.0, 1.0)):
        method = InteriorPoint(make_objective(name, X, np.sign(z), weights, alpha=1e-4))
        found.append(0)
        while method.gap > 1e-3 * method.primal and found[-1] < 100:
            method.iterate()
            found[-1] += 1
    assert found[1] < 1.5 * found[0]


@pytest.mark.parametrize("certified, gap", [(np.inf, 1e-5), (1e-2, 1e-2), (1.0, 1.0)])
def test_a_certificate_counts_where_a_glance_says_that_ascent_is_done(certified, gap):
    X, y = make_data("hinge")
    solver = finisher(make_objective("hinge", X, y))
    solver.first = SimpleNamespace(
        n_iter=10, work=10, accesses=10, glance=lambda: (1e-5, 1.0), objective=solver.objective
    )
    solver.certified_gap = certified
    assert solver._ascent_gap() == (gap, solver.objective.at_zeros()[1], 1e-3)


def of_spectrum(power, n_rows=2000, n_columns=100):
    """Return targets and rows whose singular values decay by this power."""
    random = np.random.default_rng(0)
    singular = (1.0 + np.arange(n_columns)) ** -power
    basis = np.linalg.qr(random.normal(size=(n_columns, n_columns)))[0]
    X = random.normal(size=(n_rows, n_columns)) * singular @ basis
    return X, X @ random.normal(size=n_columns) + random.normal(size=n_rows)


@pytest.mark.parametrize("power, is_paused", [(0.0, False), (2.0, True)])
def test_a_trial_ends_where_products_creep_and_goes_on_later(power, is_paused):
    X, y = of_spectrum(power)
    space = partial(Columns, tol=1e-6)
    solver = finisher(make_objective("squared", X, y, alpha=1e-6), TruncatedNewton, space, 1e-6)
    schedule = solver.schedule
    schedule.is_trial, schedule.budget = True, Budget(20.0, 10.0)
    solver._begin()
    method, begun = solver.second.method, solver.extra_work
    while solver.second is not None and not method.gap <= 1e-6 * method.primal:
        solver.extra_work += 1.0
        solver._iterate()
    assert (solver.paused is method) == is_paused
    if is_paused:
        assert solver.extra_work == begun + 21.0 and method.n_inner == 21
        assert solver.space is not None
        work = solver.work
        solver._begin()
        assert solver.work > work  # a fit that stands still within max_accesses would end
        assert solver.second.method is method and method.n_inner == 21
        assert solver.paused is None


def test_a_trial_that_cannot_go_on_later_takes_its_step():
    random = np.random.default_rng(0)
    scales = 10.0 ** -np.linspace(0, 3, 3000)
    X = sparse.random_array((3000, 3000), density=0.005, rng=random, format="csr") * scales
    X = sparse.csr_array(X)
    y = X @ random.normal(size=3000) + 0.01 * random.normal(size=3000)
    alpha = 1e-8 * X.multiply(X).sum() / 3000
    model = SDCARegressor(alpha=alpha, fit_intercept=False, max_iter=100, random_state=0)
    assert model.fit(X, y).result_.relative_gap < 0.5


def test_products_that_take_longer_than_expected_are_not_left_for_slower_ascent():
    random = np.random.default_rng(0)
    X = sparse.random(3000, 3000, 0.01, "csr", rng=random, data_rvs=random.standard_normal)
    y = X @ random.normal(size=3000)
    y = y / y.std() + 0.1 * random.normal(size=3000)
    alpha = 1e-4 * X.multiply(X).sum() / 3000**2
    model = SDCARegressor(alpha=alpha, penalize_intercept=False, tol=1e-4, random_state=0)
    assert model.fit(X, y).result_.status == "converged"


def test_products_leave_out_rows_that_no_longer_pull():
    X, y = make_data("squared_hinge")
    method = TruncatedNewton(make_objective("squared_hinge", X, y), tol=1e-9)
    assert len(method.curved[0]) == len(y)
    while not method.gap <= 1e-9 * method.primal:
        assert method.iterate()
    pulls = method.loss.second_derivatives(method.at.predictions, method.system.targets) > 0
    assert set(np.flatnonzero(pulls)) <= set(method.curved[0])
    assert len(method.curved[0]) < 0.9 * len(y)


def test_auto_waits_until_steps_have_taken_as_long():
    X, y = make_data("hinge")
    easy = estimator("hinge", alpha=0.1).fit(X / SCALES, y)
    plain = estimator("hinge", alpha=0.1, second_order=False).fit(X / SCALES, y)
    np.testing.assert_array_equal(easy.coef_, plain.coef_)
    hard = estimator("hinge", alpha=1e-7).fit(X, y)
    assert hard.result_.status == "converged"
    assert 50 < hard.n_iter_ < 1000


def test_auto_solves_least_squares_to_rounding():
    X, y = make_data("squared")
    model = estimator("squared", alpha=1e-7).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.solve(rows.T @ rows / len(y) + 1e-7 * np.eye(7), rows.T @ y / len(y))
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalize", [False, True])
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray])
def test_least_squares_of_many_rows_is_one_iteration(weighted, penalize, make):
    X, y = make_data("squared", 60_000)
    weights = np.random.default_rng(1).integers(0, 3, len(y)) / 2.0 if weighted else None
    model = estimator("squared", alpha=1e-7, penalize_intercept=penalize, tol=1e-12, max_iter=1)
    result = model.fit(make(X), y, weights).result_
    assert (result.status, result.n_iter) == ("converged", 1)
    repeated = model.fit(make(X), y, None if weights is None else 2 * weights).result_
    assert repeated.primal == pytest.approx(result.primal, rel=1e-12)


@pytest.mark.parametrize("budget", [1_000, 10_000, 30_000])
def test_the_limit_on_accesses_is_never_exceeded(budget):
    X, y = make_data("hinge")
    with pytest.warns(match="max_accesses"):
        model = estimator(
            "hinge", alpha=1e-7, tol=1e-12, max_accesses=budget, second_order=True, max_iter=10**6
        ).fit(X, y)
    assert model.result_.accesses <= budget


def test_iterations_count_against_max_iter():
    X, y = make_data("hinge")
    with pytest.warns(match="max_iter=5"):
        model = estimator("hinge", alpha=1e-7, second_order=True, max_iter=5).fit(X, y)
    assert model.n_iter_ == 5


def test_callbacks_see_its_certificates_and_may_stop_it():
    X, y = make_data("hinge")
    seen = []

    def stop(snapshot):
        seen.append(snapshot)
        return snapshot.n_iter > 1

    model = estimator(
        "hinge", alpha=1e-7, tol=1e-9, second_order=True, callback=stop, max_iter=200
    ).fit(X, y)
    assert seen and model.result_.status in ("stopped", "converged")


def test_an_interrupt_leaves_the_best_model(monkeypatch):
    X, y = make_data("hinge")
    method = interrupted(InteriorPoint, 5)
    monkeypatch.setattr("sublinear._second_order.InteriorPoint", method)
    model = estimator("hinge", alpha=1e-7, second_order=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.result_.status == "interrupted"
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("name", ["hinge", "logistic", "squared"])
def test_paths_go_on_after_it(name):
    X, y = make_data(name)
    alphas = np.geomspace(1e-2, 1e-7, 6)
    settings = {"second_order": True, "max_iter": 200, "random_state": 0}
    path = sdca_path(X, y, alphas, loss=name, **settings)
    for alpha, result in zip(path.alphas, path.results, strict=True):
        assert result.status == "converged"
        single = estimator(name, alpha=alpha, second_order=True, max_iter=200).fit(X, y)
        slack = 1e-3 * result.primal
        assert result.primal == pytest.approx(single.result_.primal, abs=slack)


def test_a_warm_start_after_it_needs_a_pass():
    X, y = make_data("hinge")
    model = estimator("hinge", alpha=1e-5, second_order=True, warm_start=True).fit(X, y)
    duals = model.dual_coef_
    model.fit(X, y)
    assert model.result_.status == "converged"
    assert model.dual_coef_.shape == duals.shape


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 2)),
        np.ones((4, 3)),
        np.array([[1.0], [2.0], [3.0], [4.0]]),
        np.eye(4) * 1e-150,
        np.eye(4) * 1e140,
        np.full((4, 3000), 1e145),
        np.zeros((4, 3000)),
    ],
)
@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_data(name, X):
    y = np.array([1.0, -1.0, 1.0, -1.0])
    for penalize in (True, False):
        model = estimator(name, second_order=True, penalize_intercept=penalize, max_iter=60)
        model.fit(X, y)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.result_.primal)
        assert model.result_.gap >= 0


@pytest.mark.parametrize("case", ["large", "tol=0"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_systems_and_tol_0_are_left_to_single_steps(case):
    X, y = make_data("hinge")
    settings = {"max_iter": 3, "alpha": 1e-7}
    if case == "large":
        X, y = sparse.csr_array(np.tile(X, (27, 400))), np.tile(y, 27)
        X.data[np.arange(X.nnz) % 3 > 0] = 0
        X.eliminate_zeros()
    tol = 1e-12 if case == "large" else 0
    model = estimator("hinge", second_order=True, tol=tol, **settings).fit(X, y)
    plain = estimator("hinge", second_order=False, tol=0, **settings).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("alpha", [1e-4, 1e-5])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("penalize", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_rows_and_columns_may_be_many(alpha, penalize, make):
    random = np.random.default_rng(0)
    X = np.zeros((2500, 2200))
    chosen = np.arange(2500)[:, np.newaxis], random.integers(0, 2200, (2500, 20))
    X[chosen] = random.normal(size=(2500, 20)) * 10 ** random.uniform(-1, 1, 2200)[chosen[1]] + 1
    y = X @ random.normal(size=2200) / 10 + random.normal(size=2500)
    settings = {"alpha": alpha, "penalize_intercept": penalize, "max_iter": 300}
    slow = estimator("squared", second_order=False, **settings).fit(make(X), y)
    model = estimator("squared", **settings).fit(make(X), y)
    assert model.result_.status == "converged"
    assert model.n_iter_ < 0.75 * slow.n_iter_


@pytest.mark.parametrize("value", ["always", 2, None])
def test_second_order_is_checked(value):
    X, y = make_data("hinge")
    with pytest.raises(ValueError, match='second_order must be True, False or "auto"'):
        estimator("hinge", second_order=value).fit(X, y)


def test_blas_is_limited_to_one_thread_until_the_last_one_leaves():
    def threads():
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    if not threads():
        pytest.skip("threadpoolctl knows no BLAS here")
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            with one_blas_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == {2}
        with pytest.raises(RuntimeError), one_blas_thread():
            raise RuntimeError
        assert threads() == {2}


@pytest.mark.parametrize("part", ["_enter", "_set_threads", "_leave"])
def test_an_interrupt_on_the_way_in_or_out_leaves_blas_no_limit(part, monkeypatch):
    def interrupted(*arguments):
        monkeypatch.setattr(blas, part, whole)
        raise KeyboardInterrupt

    whole, counts = getattr(blas, part), [one.num_threads for one in blas._libraries()]
    with threadpool_limits(2, user_api="blas"):
        before = [one.num_threads for one in blas._libraries()]
        monkeypatch.setattr(blas, part, interrupted)
        with pytest.raises(KeyboardInterrupt), one_blas_thread():
            pass
        assert [one.num_threads for one in blas._libraries()] == before
        assert not blas._inside and not blas._before
    assert [one.num_threads for one in blas._libraries()] == counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of its threads
def test_a_process_forked_while_another_thread_is_inside_has_no_limit():
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with one_blas_thread():
            inside.set()
            leave.wait()

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=stay)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            with one_blas_thread():
                pass
            os._exit(any(one.num_threads != 2 for one in blas._libraries()))
        leave.set()
        thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [("squared", 76), ("logistic", 108), ("hinge", 133), ("epsilon_insensitive", 204)],
)
def test_memory_is_what_the_documentation_says(name, n_bytes):
    """For each example, over what single steps take."""
    n_rows = 400_000
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    y = X @ [1.0, 2.0, 3.0] + X[::-1, 0]
    y = y if name in REGRESSION_LOSSES else np.sign(y)

    def peak(second_order):
        model = estimator(name, alpha=1e-4, max_iter=30, second_order=second_order)
        tracemalloc.start()
        try:
            model.fit(X, y)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(True) - peak(False)) / n_rows == pytest.approx(n_bytes, rel=0.05)


def test_batches_are_left_to_auto():
    X, y = make_data("hinge")
    for true in (True, np.True_):
        with pytest.raises(ValueError, match="second_order=True needs batch_size=1"):
            estimator("hinge", second_order=true, batch_size=4).fit(X, y)
    batches = {"alpha": 0.1, "batch_size": 4, "tol": 0.1}
    models = [estimator("hinge", second_order=which, **batches) for which in ("auto", False)]
    np.testing.assert_array_equal(*(model.fit(X / SCALES, y).coef_ for model in models))


# ---------------------------------------------------------------- the way back


@pytest.mark.parametrize("schedule", [SDCA, RowHalves, ColumnHalves])
@pytest.mark.parametrize("free", [False, True])
def test_coordinate_ascent_goes_on_from_duals_of_another_method(schedule, free):
    if free and schedule is not SDCA:
        pytest.skip("two threads need an intercept that is penalised")
    X, y = make_data("hinge")
    objective = make_objective("hinge", sparse.csr_array(X / SCALES), y, free=free)
    solver = schedule(objective, bits(0), pack=False)
    run_epochs(solver, 3)
    method = InteriorPoint(objective)
    for _ in range(8):
        method.iterate()
    duals = method.candidates()[0]()
    solver.adopt(duals, method.w[-1])
    np.testing.assert_array_equal(solver.duals(), duals)
    np.testing.assert_allclose(solver.w, objective.weights_of_dual(duals), rtol=1e-10, atol=1e-12)
    before = objective.certificate_of(duals.copy(), [solver.model()])[1]
    run_epochs(solver, 3)
    after = objective.certificate_of(solver.duals(), [solver.model()])[1]
    assert free or after >= before - 1e-9  # multipliers do not only climb
    expected = objective.weights_of_dual(solver.duals())
    np.testing.assert_allclose(solver.w, expected, rtol=1e-8, atol=1e-10)


def test_a_method_that_gets_stuck_is_left():
    class Stuck(InteriorPoint):
        def iterate(self):
            return False

    X, y = make_data("hinge")
    objective = make_objective("hinge", X / SCALES, y, alpha=0.1)
    solver = finisher(objective, Stuck, at_once=True)
    run_epochs(solver, 30)
    assert solver.second is None and solver.space is None
    primal, dual = solver.certify(unchanged)[1:]
    assert primal - dual <= 1e-3 * primal


def test_the_method_waits_where_a_budget_would_end_it():
    random = np.random.default_rng(96)
    X = random.standard_normal((10, 15)) * 10.0 ** random.uniform(-1, 3, 15)
    y = np.where(random.random(10) < 0.5, 1, -1)
    y[:2] = 1, -1
    model = SDCAClassifier("smoothed_hinge", alpha=0.04, tol=1e-5, random_state=0)
    model.set_params(max_iter=100, max_accesses=8000).fit(X, y)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge", "logistic"])
@pytest.mark.parametrize("max_iter", [50, 200])
def test_small_fits_do_not_wait_for_the_last_passes(loss, max_iter):
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 10)) * 10.0 ** random.uniform(-1, 3, 10)
    y = np.sign(X @ (random.normal(size=10) / np.abs(X).max(0)) + 0.1 * random.normal(size=30))
    model = SDCAClassifier(loss, max_iter=max_iter, random_state=0).fit(X, y)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("loss, share", [("hinge", 0.7), ("squared_hinge", 0.7), ("logistic", 1)])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
def test_ends_of_passes_that_are_passed_over_change_nothing(monkeypatch, loss, share, alpha):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 40)) * 10.0 ** -np.linspace(0, 2, 40)
    y = np.sign(X @ random.normal(size=40) + 0.3 * random.normal(size=300))
    found, calls = [], []
    advance = SDCA.advance

    def fit():
        model = SDCAClassifier(loss, alpha=alpha, random_state=0).fit(X, y)
        found.append(
            (model.coef_.tolist(), [row._replace(seconds=0) for row in model.result_.trace])
        )

    class Counted(SDCA):
        def advance(self, limit):
            calls.append(limit)
            return advance(self, limit)

    monkeypatch.setattr("sublinear.sdca.SDCA", Counted)
    fit()
    fewer = len(calls)
    monkeypatch.setattr(_Timing, "quiet", lambda self: (0.0, math.inf))
    fit()
    assert found[0] == found[1]
    assert fewer <= share * (len(calls) - fewer)
