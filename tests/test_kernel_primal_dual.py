"""The sublinear family with kernels: estimates, oracle, optima, predictions, bad input."""

import pickle
import warnings

import numpy as np
import pytest
from reference import kernel_primal_dual
from reference.sampling import Inverted
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from stepping import bits

from sublinear import (
    KernelSDCAClassifier,
    L2SVMClassifier,
    MinimumEnclosingBall,
    SublinearPerceptron,
    load_model,
    save_model,
    solve_simplex_qp,
)
from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_estimators import KernelEstimator
from sublinear._core.kernels import RBF, Linear, Poly, Sigmoid
from sublinear._core.matrix import Matrix
from sublinear._saddle_problems import Margin, SimplexQP, SquaredHinge
from sublinear._solvers.kernel_primal_dual import KernelPrimalDual, KernelRowCache
from sublinear.data import FeatureOracle

N, D, T = 24, 6, 40
NO_LIMIT = 2**62
RBF_OPTIONS = {"kernel": "rbf", "gamma": 0.8}
POLY_OPTIONS = {"kernel": "poly", "gamma": 1.0, "degree": 2, "coef0": 0.5}


@pytest.fixture(scope="module")
def A():
    random = np.random.default_rng(3)
    A = random.normal(size=(N, D))
    A[random.random(A.shape) < 0.3] = 0
    A[4] = 0
    return A / np.linalg.norm(A, axis=1).max()


@pytest.fixture(scope="module")
def rings():
    """Two classes that a circle separates."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = np.where(np.arange(60) % 2, 1, -1)
    return X * np.where(y > 0, 1.0, 0.4)[:, None], y


KERNELS = {
    "linear": (Linear(), lambda X: linear_kernel(X)),
    "poly": (Poly(1.0, 3, 0.0), lambda X: polynomial_kernel(X, degree=3, gamma=1.0, coef0=0.0)),
    "shifted poly": (
        Poly(0.7, 2, 0.4),
        lambda X: polynomial_kernel(X, degree=2, gamma=0.7, coef0=0.4),
    ),
    "constant": (Poly(0.7, 0, 0.4), lambda X: np.ones((len(X), len(X)))),
    "rbf": (RBF(0.9), lambda X: rbf_kernel(X, gamma=0.9)),
}


def estimates(kernel, X, i, count, seed=0):
    estimator = KernelEstimator(kernel, Matrix(X), np.asarray((X**2).sum(axis=1)).ravel())
    random, seen = bits(seed), np.zeros((count, X.shape[0]))
    for out in seen:
        estimator.add(i, 1.0, out, random)
    return seen, estimator


def second_moments(name, kernel, A, x):
    """Of the estimates of k(x, A_k); columns that are never drawn lack in |A_k|."""
    squares = (A[:, x != 0] ** 2).sum(axis=1)
    if name == "rbf":
        gamma, norms = kernel.gamma, (A**2).sum(axis=1)
        rate = 2 * gamma * np.sqrt(x @ x * norms.max())
        inner = 4 * gamma**2 * (x @ x) * squares
        return np.exp(rate + inner / rate - 2 * gamma * (x @ x + norms))
    gamma, degree, coef0 = kernel.gamma, kernel.degree, kernel.coef0
    if name == "linear":
        gamma, degree, coef0 = 1.0, 1, 0.0
    return (gamma**2 * (x @ x) * squares + 2 * gamma * coef0 * (A @ x) + coef0**2) ** degree


class TestEstimates:
    @pytest.mark.parametrize("make", (np.asarray, np.asfortranarray, sparse.csr_array))
    @pytest.mark.parametrize("name", KERNELS)
    def test_unbiased_with_the_moments_derived(self, A, name, make):
        kernel, exact = KERNELS[name]
        seen, _ = estimates(kernel, make(A), 0, 20_000)
        mean, second = exact(A)[0], second_moments(name, kernel, A, A[0])
        spread = np.sqrt(np.maximum(0, second - mean**2) / len(seen))
        assert (np.abs(seen.mean(axis=0) - mean) <= 5 * spread + 1e-9).all()
        if name not in ("poly", "constant"):  # means of the former's squares hang on rare columns
            np.testing.assert_allclose((seen**2).mean(axis=0), second, rtol=0.15, atol=0.01)

    @pytest.mark.parametrize("name", KERNELS)
    def test_of_a_zero_row_they_are_exact(self, A, name):
        kernel, exact = KERNELS[name]
        seen, estimator = estimates(kernel, A, 4, 3)
        np.testing.assert_allclose(seen, np.tile(exact(A)[4], (3, 1)), rtol=1e-12)
        assert estimator.full_accesses == D

    def test_moments_are_bounded(self, A):
        """On the unit ball, as the paper wants it; of rbf where lengths differ."""
        for i in (0, 1, 2):
            assert second_moments("poly", Poly(1.0, 3, 0.0), A, A[i]).max() <= 1
            radius = np.linalg.norm(A, axis=1).max()
            largest = second_moments("rbf", RBF(0.9), A, A[i]).max()
            assert largest <= np.exp(0.9 * radius**2 / 2)
        equal = A[A.any(axis=1)]
        equal /= np.linalg.norm(equal, axis=1)[:, None]
        assert second_moments("rbf", RBF(0.9), equal, equal[0]).max() <= 1 + 1e-12

    @pytest.mark.parametrize("name", ("linear", "poly", "shifted poly"))
    def test_estimate_of_given_columns(self, A, name):
        kernel, _ = KERNELS[name]
        shape = (name, kernel.gamma, kernel.coef0)
        seen, _ = estimates(kernel, A, 1, 1, seed=7)
        draws = Inverted(bits(7).doubles(10))
        columns = [draws.column(A[1] ** 2) for _ in range(3)]
        expected = kernel_primal_dual.estimate(
            shape, A, 1, columns[: kernel.degree if name != "linear" else 1]
        )
        np.testing.assert_allclose(seen[0], expected, rtol=1e-12)

    def test_counts(self, A):
        for make in (np.asarray, sparse.csr_array):
            X = make(A)
            _, estimator = estimates(Poly(1.0, 3, 0.0), X, 0, 50)
            assert estimator.full_accesses == D + 50 * 3 * N  # one row, held
            if make is np.asarray:
                assert estimator.accesses == estimator.full_accesses
            else:
                assert 0 < estimator.accesses < estimator.full_accesses
        _, estimator = estimates(RBF(0.9), A, 0, 2000)
        rate = 1.8 * np.linalg.norm(A[0]) * np.linalg.norm(A, axis=1).max()
        assert (estimator.accesses - D) / N / 2000 == pytest.approx(rate, rel=0.1)

    def test_what_cannot_be_estimated(self, A):
        squares = (A**2).sum(axis=1)
        with pytest.raises(ValueError, match="no estimates of a Sigmoid kernel"):
            KernelEstimator(Sigmoid(), Matrix(A), squares)
        with pytest.raises(ValueError, match="an estimate would read 2000 columns"):
            KernelEstimator(RBF(1000.0), Matrix(A), squares)
        estimator = KernelEstimator(RBF(1.0), Matrix(A), squares)
        with pytest.raises(ValueError, match="out must have 24 entries"):
            estimator.add(0, 1.0, np.zeros(3), bits())
        with pytest.raises(IndexError, match="out of range"):
            estimator.add(N, 1.0, np.zeros(N), bits())


def make_solver(problem, A, seed=0, estimator=None, **options):
    kernel = RBF(0.9)
    options = {
        "shift": 0.25,
        "unit": 1.0,
        "batch_size": 1,
        "round_steps": T,
        "growth": 1,
        "max_steps": 10**6,
        "primal_rate": 3.0,
        "dual_rate": 0.5,
        "capacity": 10,
    } | options
    if estimator:
        estimator = KernelEstimator(kernel, Matrix(A), (A**2).sum(axis=1))
    rows = kernel_rows(kernel, A)
    sizes = np.full(len(A), A.shape[1])
    return KernelPrimalDual(
        problem, rows, sizes, A.shape[1], bits(seed), estimator=estimator or None, **options
    )


SIGNS = np.where(np.random.default_rng(1).random(N) < 0.5, -1.0, 1.0)
B = np.random.default_rng(2).normal(size=N) / 4
PROBLEMS = {
    "ball": lambda: Margin(SIGNS, 1.0),
    "hull": lambda: SimplexQP(B, 1.0),
    "squared hinge": lambda: SquaredHinge(SIGNS, np.linspace(0.1, 1, N), 0.1),
}


@pytest.mark.parametrize(("name", "skips"), [*((name, False) for name in PROBLEMS), ("hull", True)])
@pytest.mark.parametrize("batch", (1, 4))
def test_exact_steps_follow_the_oracle(A, name, skips, batch):
    solver = make_solver(PROBLEMS[name](), A, batch_size=batch, skips=skips)
    while not solver.advance(solver.accesses + 4 * batch * A.size):
        pass
    K = rbf_kernel(A, gamma=0.9) + 0.25
    eta = 0.5 * np.sqrt(np.log(N) / T)
    problem = PROBLEMS[name]()
    y = np.ones(N) if problem.targets is None else problem.targets
    given = {"step": 3.0 / np.sqrt(2 * T)} if name == "ball" else {"offsets": problem.offsets}
    if name == "squared hinge":
        given["ridge"] = problem.ridge
    if skips:
        given["chance"] = np.log(T) / np.sqrt(T * np.log(N))
    steps = kernel_primal_dual.primal_dual(
        K, y, T, eta, Inverted(bits().doubles(1000)), batch, **given
    )
    mean = np.mean(list(steps), axis=0)
    np.testing.assert_allclose(solver.means()[0], mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(solver.model()[:-1], mean * y, rtol=1e-5, atol=1e-7)
    assert solver.n_iter == T * batch


@pytest.mark.parametrize("name", PROBLEMS)
def test_certificates_are_those_of_the_kernel_matrix(A, name):
    problem = PROBLEMS[name]()
    y = np.ones(N) if problem.targets is None else problem.targets
    K = y[:, None] * (rbf_kernel(A, gamma=0.9) + 0.25) * y
    for estimator in (False, True):
        solver = make_solver(problem, A, estimator=estimator)
        solver.advance(NO_LIMIT)
        model, primal, dual = solver.certify(None)
        w, p = model[:-1] * y, solver.best_p
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1)
        assert dual <= primal
        if name == "ball":
            assert np.sqrt(w @ K @ w) == pytest.approx(1, rel=1e-5)
            assert -primal == pytest.approx((K @ w).min(), abs=1e-5)
            assert -dual == pytest.approx(np.sqrt(p @ K @ p), rel=1e-5)
        elif name == "hull":
            assert primal == pytest.approx(w @ K @ w - (B + 2 * K @ w).min(), rel=1e-4)
            assert -dual == pytest.approx(p @ B + p @ K @ p, rel=1e-4)
        else:
            losses = np.maximum(0, 1 - K @ w) ** 2 / problem.ridge**2
            assert primal == pytest.approx(0.05 * (w @ K @ w + losses.sum()), rel=1e-4)
            square = p @ K @ p + ((problem.ridge * p) ** 2).sum()
            assert dual == pytest.approx(0.05 / square, rel=1e-4)


def test_estimates_of_the_present_point_are_unbiased(A):
    """What stands for <x, Psi_i> while p moves, and the square of x, which is exact."""
    solver = make_solver(Margin(SIGNS, 1.0), A, estimator=True, round_steps=15)
    solver.advance(NO_LIMIT)
    seen = np.array([solver._estimated() for _ in range(4000)])
    K = rbf_kernel(A, gamma=0.9)
    coefficients = solver.iterate()[0] * SIGNS
    spread = seen.std(axis=0) / np.sqrt(len(seen))
    assert (np.abs(seen.mean(axis=0) - K @ coefficients) <= 5 * spread + 1e-9).all()
    assert seen.var(axis=0).max() <= np.exp(0.45)  # that of one estimate of length 1
    length = np.sqrt(coefficients @ (K + 0.25) @ coefficients)
    assert length == pytest.approx(solver.iterate()[1], rel=1e-5)
    assert 0.5 < length <= 1 + 1e-9


def test_rows_of_the_kernel_are_kept_while_there_is_room(A):
    cache = KernelRowCache(kernel_rows(RBF(0.9), A), 3)
    K = rbf_kernel(A, gamma=0.9)
    for wanted in ([0, 1], [1, 2], [2, 5, 0], [1], [5, 0]):
        np.testing.assert_allclose(cache.of(wanted), K[wanted], rtol=1e-5)
    assert cache.n_computed == 5  # 0 twice: it had to go
    nothing = KernelRowCache(kernel_rows(RBF(0.9), A), 0)
    for _ in range(2):
        np.testing.assert_allclose(nothing.of([3]), K[[3]], rtol=1e-5)
    assert nothing.n_computed == 2


@pytest.mark.parametrize("estimator", (False, True))
def test_budgets_are_hard(A, estimator):
    for budget in (1, 2000, 20_000):
        solver = make_solver(Margin(SIGNS, 1.0), A, estimator=estimator, round_steps=500)
        for _ in range(20):
            solver.advance(budget)
        assert solver.accesses <= budget
        assert (solver.n_iter > 0) == (budget > 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("values", ("exact", "sampled"))
@pytest.mark.parametrize("budget", (1, 1000, 30_000))
def test_budgets_hold_for_the_first_rows_drawn(values, budget):
    X = np.random.default_rng(0).normal(size=(300, 10))
    y = np.where(X[:, 0] > 0, 1, -1)
    options = {"kernel_values": values, "max_accesses": budget, "random_state": 0}
    ball = MinimumEnclosingBall(0.1, variant="plain", **RBF_OPTIONS, **options).fit(X)
    machine = L2SVMClassifier(epsilon=0.1, **RBF_OPTIONS, **options).fit(X, y)
    found = solve_simplex_qp(X, epsilon=0.1, variant="plain", **RBF_OPTIONS, **options)
    for result in (ball.result_, machine.result_, found):
        assert result.accesses <= budget and result.status == "max_accesses"
    assert np.isfinite(ball.score_samples(X)).all()
    assert np.isfinite(machine.decision_function(X)).all()
    assert found.p.sum() == pytest.approx(1) and found.p.min() >= 0


def over_simplex(value, gradient, n):
    found = minimize(
        value,
        np.full(n, 1 / n),
        jac=gradient,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-11, "maxiter": 1000},
    )
    assert found.success
    return found.fun


def matrix_of(X, options):
    options = dict(options)
    kind = options.pop("kernel")
    return rbf_kernel(X, **options) if kind == "rbf" else polynomial_kernel(X, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("values", ("exact", "sampled"))
@pytest.mark.parametrize("options", (RBF_OPTIONS, POLY_OPTIONS), ids=("rbf", "poly"))
class TestBeforeTheFirstStep:
    """Where a budget leaves no room for a draw, the first row stands for the rows drawn."""

    def settings(self, options, values):
        return {"max_accesses": 1, "kernel_values": values, "random_state": 0, **options}

    def test_balls(self, rings, options, values):
        for X in (rings[0], np.ones((5, 2)), np.zeros((3, 2))):
            ball = MinimumEnclosingBall(**self.settings(options, values)).fit(X)
            K = matrix_of(X, options)
            squares = K.diagonal() - 2 * K[0] + K[0, 0]
            assert ball.result_.accesses == ball.result_.dual == 0
            assert ball.result_.primal == pytest.approx(squares.max(), abs=1e-5)
            assert ball.result_.status == ("converged" if np.ptp(X) == 0 else "max_accesses")
            assert ball.radius_**2 == pytest.approx(ball.result_.primal)
            np.testing.assert_array_equal(ball.center_coef_, [1.0])
            np.testing.assert_array_equal(ball.dual_coef_, np.eye(len(X))[0])
            np.testing.assert_array_equal(ball.predict(X), 1)

    def test_simplex_qps(self, rings, options, values):
        X, b = rings[0], np.linspace(0, 1, len(rings[0]))
        found = solve_simplex_qp(X, b, **self.settings(options, values))
        K = matrix_of(X, options)
        assert found.primal == pytest.approx(found.p @ b + found.p @ K @ found.p, rel=1e-6)
        assert found.dual == pytest.approx((b + 2 * K[0]).min() - K[0, 0], abs=1e-5)

    def test_margins(self, rings, options, values):
        X, y = rings
        for limit in ({"max_accesses": 1}, {"max_iter": 1}):
            settings = self.settings(options, values) | {"max_accesses": None} | limit
            model = SublinearPerceptron(fit_intercept=False, **settings).fit(X, y)
            w, k = model.dual_coef_[0], model.support_
            K = matrix_of(X, options)
            assert w @ K[np.ix_(k, k)] @ w == pytest.approx(1, abs=1e-5)
            assert (y * (K[:, k] @ w)).min() == pytest.approx(model.result_.primal, abs=1e-5)
            assert np.sqrt(K[k[0], k[0]]) == pytest.approx(model.result_.dual, abs=1e-5)


@pytest.mark.parametrize("values", ("exact", "sampled"))
@pytest.mark.parametrize("options", (RBF_OPTIONS, POLY_OPTIONS), ids=("rbf", "poly"))
class TestOptima:
    """Certified intervals hold the optimum of the exact quadratic programs."""

    def seeds(self, values):
        return range(4 if values == "exact" else 1)

    def variants(self, values):
        """Return seeds with the variants for balls and programs."""
        plain = [(seed, "plain") for seed in self.seeds(values)]
        return [*plain, (0, "active_set")] if values == "exact" else plain

    def test_margins(self, rings, options, values):
        X, y = rings
        K = y[:, None] * matrix_of(X, options) * y
        optimum = np.sqrt(over_simplex(lambda p: p @ K @ p, lambda p: 2 * K @ p, len(X)))
        epsilon = 0.05 if values == "exact" else 0.25
        for seed in self.seeds(values):
            model = SublinearPerceptron(
                epsilon, fit_intercept=False, kernel_values=values, random_state=seed, **options
            ).fit(X, y)
            result = model.result_
            assert result.gap <= epsilon
            assert result.primal - 1e-5 <= optimum <= result.dual + 1e-5
            assert model.dual_coef_.shape == (1, len(model.support_))
            np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
            scores = matrix_of(X, options)[:, model.support_] @ model.dual_coef_[0]
            np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-5)
            if result.primal > 0:
                assert (y * scores).min() == pytest.approx(result.primal, abs=1e-5)
                assert model.score(X, y) == 1
            assert all(row.gap >= 0 for row in result.trace)

    def test_balls(self, rings, options, values):
        X, _ = rings
        K = matrix_of(X, options)
        optimum = -over_simplex(
            lambda p: p @ K @ p - p @ K.diagonal(), lambda p: 2 * K @ p - K.diagonal(), len(X)
        )
        for seed, variant in self.variants(values):
            epsilon = 0.1 if values == "exact" else 0.2
            ball = MinimumEnclosingBall(
                epsilon, variant=variant, kernel_values=values, random_state=seed, **options
            ).fit(X)
            result = ball.result_
            assert result.relative_gap <= epsilon
            assert result.dual - 1e-5 <= optimum <= result.primal + 1e-5
            c = np.zeros(len(X))
            c[ball.support_] = ball.center_coef_
            assert c.sum() == pytest.approx(1)
            squares = K.diagonal() - 2 * K @ c + c @ K @ c
            np.testing.assert_allclose(ball.score_samples(X), -np.sqrt(squares), atol=1e-5)
            assert squares.max() == pytest.approx(ball.radius_**2, rel=1e-5)
            assert (ball.predict(X) == 1).all()
            if options["kernel"] == "rbf":
                assert (ball.predict(X + 100) == -1).all()
            p = ball.dual_coef_
            assert p @ K.diagonal() - p @ K @ p == pytest.approx(result.dual, rel=1e-5)

    def test_simplex_qps(self, rings, options, values):
        X, _ = rings
        K, b = matrix_of(X, options), np.random.default_rng(5).normal(size=len(X)) / 4
        optimum = over_simplex(lambda p: p @ b + p @ K @ p, lambda p: b + 2 * K @ p, len(X))
        for seed, variant in self.variants(values):
            settings = {"variant": variant, "kernel_values": values, "random_state": seed}
            result = solve_simplex_qp(X, b, 0.1, **settings, **options)
            assert result.gap <= 0.1
            assert result.dual - 1e-5 <= optimum <= result.primal + 1e-5
            p = result.p
            assert p @ b + p @ K @ p == pytest.approx(result.primal, abs=1e-5)

    def test_squared_hinge(self, rings, options, values):
        X, y = rings
        weights = np.random.default_rng(6).integers(0, 3, len(X)).astype(float)
        alpha = 0.5
        exact = KernelSDCAClassifier(
            "squared_hinge", C=1 / (alpha * weights.sum()), tol=1e-6, **options
        ).fit(X, y, sample_weight=weights)
        optimum = alpha * exact.result_.primal
        for seed in self.seeds(values):
            model = L2SVMClassifier(
                alpha, 0.1, kernel_values=values, random_state=seed, **options
            ).fit(X, y, sample_weight=weights)
            result = model.result_
            assert result.relative_gap <= 0.1
            assert result.dual - 1e-5 <= optimum <= result.primal + 1e-5


def test_weights_count_as_copies_for_gamma(rings):
    X, y = rings
    X = X * [1.0, 3.0, 1.0]
    far = np.abs(X[:, 1]) > 1
    copies = np.repeat(np.arange(len(y)), np.where(far, 5, 1))
    options = {"alpha": 0.1, "epsilon": 5e-3, "kernel": "rbf", "random_state": 0}
    expected = L2SVMClassifier(**options).fit(X[copies], y[copies]).result_
    found = L2SVMClassifier(**options).fit(X, y, np.where(far, 5.0, 1.0)).result_
    assert found.dual <= expected.primal
    assert expected.dual <= found.primal


def test_weights_that_are_no_part_of_a_problem_count_for_gamma(rings):
    X, y = rings
    X = X * [1.0, 3.0, 1.0]
    counts = np.where(np.abs(X[:, 1]) > 1, 5, 1)
    copies = np.repeat(np.arange(len(y)), counts)
    for model in (
        SublinearPerceptron(0.05, kernel="rbf", random_state=0),
        MinimumEnclosingBall(0.05, kernel="rbf", random_state=0),
    ):
        expected = clone(model).fit(X[copies], y[copies])._fitted_kernel.gamma
        found = clone(model).fit(X, y, sample_weight=counts)._fitted_kernel.gamma
        assert found == pytest.approx(expected, rel=1e-12)
        assert found != pytest.approx(clone(model).fit(X, y)._fitted_kernel.gamma, rel=1e-2)


def test_class_weight_leaves_gamma_as_it_is(rings):
    X, y = rings[:2]
    settings = {"alpha": 0.5, "epsilon": 0.5, "kernel": "rbf", "random_state": 0}
    weights = np.arange(len(y)) % 3.0
    for sample_weight in (None, weights):
        plain = L2SVMClassifier(**settings).fit(X, y, sample_weight=sample_weight)
        model = L2SVMClassifier(class_weight={y[0]: 5.0}, **settings)
        assert (
            model.fit(X, y, sample_weight=sample_weight)._fitted_kernel.gamma
            == plain._fitted_kernel.gamma
        )


@pytest.mark.parametrize("estimator", [SublinearPerceptron, L2SVMClassifier])
def test_an_intercept_whose_square_overflows_is_refused(rings, estimator):
    model = estimator(kernel="rbf", intercept_scaling=1e200, max_iter=100, random_state=0)
    with pytest.raises(ValueError, match=r"intercept_scaling must be .* at most"):
        model.fit(*rings)


def test_the_intercept_is_a_constant_kernel(rings):
    X, y = rings
    model = SublinearPerceptron(
        0.05, intercept_scaling=2.0, random_state=0, kernel="poly", degree=1, gamma=1.0
    ).fit(X + 0.5, y)
    K = linear_kernel(X + 0.5) + 4.0
    w = np.zeros(len(X))
    w[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(X + 0.5), K @ w, atol=1e-5)
    assert model.intercept_[0] == pytest.approx(4.0 * w.sum())


def test_a_polynomial_of_degree_one_is_the_linear_kernel(rings):
    X, y = rings
    X = X + y[:, None] * [0.5, 0.0, 0.0]
    options = {"epsilon": 0.03, "fit_intercept": False, "random_state": 0}
    plain = SublinearPerceptron(**options).fit(X, y).result_
    result = SublinearPerceptron(kernel="poly", degree=1, gamma=1.0, **options).fit(X, y).result_
    assert plain.primal <= result.dual + 1e-5
    assert result.primal <= plain.dual + 1e-5


@pytest.mark.parametrize("make", (sparse.csr_array, np.asfortranarray))
@pytest.mark.parametrize("values", ("exact", "sampled"))
def test_layouts_types_and_copies(rings, make, values):
    X, y = rings
    X = np.where(np.abs(X) < 0.2, 0, X)
    options = {"kernel_values": values, "max_iter": 200, "random_state": 0, **POLY_OPTIONS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SublinearPerceptron(0.01, **options).fit(X, y)
        other = clone(model).fit(make(X.astype(np.float32)).astype(np.float64), y)
        single = clone(model).fit(make(X.astype(np.float32)), y)
    scores = model.decision_function(X)
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_allclose(again.decision_function(make(X)), scores, atol=1e-3)
    np.testing.assert_allclose(single.decision_function(X.astype(np.float32)), scores, atol=1e-3)
    assert sparse.issparse(other.support_vectors_) == (make is sparse.csr_array)
    np.testing.assert_allclose(
        other.decision_function(X), other.decision_function(make(X)), atol=1e-5
    )


def test_classes_threads_budgets_and_callbacks(rings):
    X, _ = rings
    y = np.arange(len(X)) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = [
            SublinearPerceptron(0.2, max_iter=500, n_jobs=n, random_state=0, **RBF_OPTIONS)
            for n in (1, 2)
        ]
        for model in models:
            model.fit(X, y)
    assert models[0].dual_coef_.shape == (3, len(models[0].support_))
    assert models[0].decision_function(X).shape == (len(X), 3)
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        ball = MinimumEnclosingBall(1e-9, variant="plain", max_accesses=3000, **RBF_OPTIONS).fit(X)
    assert ball.result_.accesses <= 3000
    seen = []
    model = SublinearPerceptron(
        1e-9, callback=lambda s: seen.append(s) or True, random_state=0, **RBF_OPTIONS
    ).fit(X, y % 2)
    assert model.result_.status == "stopped"
    coefficients = np.zeros(len(X))
    coefficients[model.support_] = model.dual_coef_[0]
    np.testing.assert_array_equal(seen[0].coef, coefficients)
    assert seen[0].intercept == model.intercept_[0]


def test_uncertified_and_exact_and_theory(rings):
    X, y = rings
    for estimator in (
        SublinearPerceptron(0.3, certify=None, random_state=0, **RBF_OPTIONS),
        MinimumEnclosingBall(0.3, certify=None, random_state=0, **RBF_OPTIONS),
    ):
        estimator.fit(X, y)
        assert estimator.result_.status == "uncertified"
    assert np.isfinite(estimator.score_samples(X)).all()
    result = solve_simplex_qp(X, epsilon=0.3, certify=None, random_state=0, **RBF_OPTIONS)
    assert np.isnan(result.primal) and result.dual == -np.inf  # as Result says of the unknown
    assert result.p.sum() == pytest.approx(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SublinearPerceptron(
            0.3, certify="exact", constants="theory", max_iter=300, random_state=0, **RBF_OPTIONS
        ).fit(X, y)
    assert model.n_iter_ == 300
    assert len(model.result_.trace) == 1


def test_edges():
    plain = {"variant": "plain"}
    sampled = POLY_OPTIONS | {"kernel_values": "sampled"}
    for options in (RBF_OPTIONS, POLY_OPTIONS, RBF_OPTIONS | plain, POLY_OPTIONS | plain, sampled):
        for X in (np.zeros((4, 3)), np.ones((4, 1)), np.array([[1.0], [1.0], [2.0], [2.0]])):
            ball = MinimumEnclosingBall(0.1, random_state=0, **options).fit(X)
            assert ball.result_.status == "converged"
            assert (ball.predict(X) == 1).all()
        assert MinimumEnclosingBall(**options).fit([[3.0, 4.0]]).radius_ == pytest.approx(0)
    same = SublinearPerceptron(0.1, random_state=0, **RBF_OPTIONS).fit(
        np.ones((4, 2)), [0, 1, 0, 1]
    )
    assert same.result_.status == "not_separable"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:kernel values, which are float32:UserWarning")
@pytest.mark.parametrize("values", ("exact", "sampled"))
@pytest.mark.parametrize("options", (RBF_OPTIONS, POLY_OPTIONS), ids=("rbf", "poly"))
def test_images_that_cancel_have_a_model_of_norm_1_or_none(options, values):
    """Where |x|^2 is rounding, x at length 1 would be nothing else."""
    n_seeds, max_iter = (3, 2000) if values == "exact" else (1, 600)
    near = np.ones((7, 2))
    near[3, 0] += 1e-3
    y = np.array([0, 1, 0, 1, 0, 1, 1])
    models = []
    for X in (np.ones((7, 2)), near):
        for seed in range(n_seeds):
            model = SublinearPerceptron(
                1e-4,
                fit_intercept=False,
                kernel_values=values,
                max_iter=max_iter,
                random_state=seed,
                **options,
            ).fit(X, y)
            w = np.zeros(7)
            w[model.support_] = model.dual_coef_
            norm = np.sqrt(w @ matrix_of(X, options) @ w)
            assert norm == pytest.approx(1, abs=0.02) or not w.any()
            assert np.abs(w).sum() < 2000 / np.sqrt(matrix_of(X, options).max())
            models.append((model.result_.primal, w))
    assert any(primal == 0 and not w.any() for primal, w in models)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kernel": "sigmoid"}, "kernel must be one of"),
        ({"kernel_values": "guessed"}, "kernel_values must be one of"),
        ({"gamma": 0}, "gamma must be a number above 0"),
        ({"gamma": "wide"}, "gamma must be a number above 0, .scale. or .auto."),
        ({"degree": -1}, "degree must be an integer"),
        ({"coef0": np.nan}, "coef0 must be a number"),
        ({"kernel": "rbf", "variant": "variance_reduced"}, 'needs kernel="linear"'),
        ({"kernel": "rbf", "variant": "sideways"}, "variant must be one of"),
        ({"kernel": "poly", "coef0": -9.0, "degree": 1}, "choose a larger coef0"),
    ],
)
@pytest.mark.parametrize("estimator", (SublinearPerceptron, MinimumEnclosingBall, solve_simplex_qp))
def test_bad_parameters(rings, estimator, given, words):
    X, y = rings
    with pytest.raises(ValueError, match=words):
        if estimator is solve_simplex_qp:
            solve_simplex_qp(X, **given)
        else:
            estimator(**given).fit(X, y)


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("alpha", (1e-2, 1.0, 10.0, 100.0))
def test_squared_hinge_converges_where_alpha_is_large(alpha, weighted):
    """Steps for e too long kept p away from the optimum, for ever."""
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 5))
    weights = random.random(100) + 0.1 if weighted else None
    for seed in range(3):
        model = L2SVMClassifier(
            alpha, 0.05, kernel="rbf", gamma=0.5, max_iter=40_000, random_state=seed
        )
        result = model.fit(X, X[:, 0] > 0, sample_weight=weights).result_
        assert result.status == "converged"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", (30.0, 70.0))
def test_squared_hinge_counts_the_rounding_of_kernel_values(offset):
    """Far from the origin float32 values are off by up to a percent of their spread."""
    alpha, n_rows = 6e-3, 60
    for seed in (1, 10, 11):
        random = np.random.default_rng(seed)
        X = random.normal(size=(n_rows, 1))
        y = np.where(random.random(n_rows) < 0.5, 1.0, -1.0)
        options = {"kernel": "rbf", "gamma": 1.0, "fit_intercept": False, "random_state": 0}
        optimum = KernelSDCAClassifier(
            "squared_hinge", C=1 / (alpha * n_rows), tol=1e-5, **options
        ).fit(X, y)
        model = L2SVMClassifier(alpha, 2e-3, max_iter=150_000, **options)
        model.fit(sparse.csr_array(X + offset), y)
        assert model.result_.dual <= alpha * optimum.result_.primal
        w = np.zeros(n_rows)
        w[model.support_] = model.dual_coef_[0]
        margins = rbf_kernel(X, gamma=1.0) @ w
        primal = alpha / 2 * (w @ margins) + np.mean(np.maximum(0, 1 - y * margins) ** 2)
        assert primal <= model.result_.primal


@pytest.mark.parametrize("n_rows", (1, 5))
@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize("options", (RBF_OPTIONS, POLY_OPTIONS))
@pytest.mark.parametrize("variant", ("plain", "active_set"))
def test_a_ball_of_equal_rows_holds_them(n_rows, make, options, variant):
    X = np.tile([[31.3, -22.1, 10.7]], (n_rows, 1))
    ball = MinimumEnclosingBall(variant=variant, random_state=0, **options).fit(make(X))
    assert ball.result_.status == "converged"
    assert ball.radius_ == ball.result_.dual == 0
    for given in (X, sparse.csr_array(X)):
        np.testing.assert_array_equal(ball.predict(given), 1)


@pytest.mark.parametrize("gamma", (1e-4, 1e-2))
def test_a_ball_small_against_its_distance_from_the_origin_takes_long_steps(gamma):
    X = np.random.default_rng(0).normal(size=(100, 3))
    options = {"variant": "plain", "kernel": "rbf", "gamma": gamma, "random_state": 0}
    ball = MinimumEnclosingBall(0.01, **options).fit(X)
    assert ball.result_.status == "converged"
    assert ball.n_iter_ <= 200_000


def test_another_kernel_leaves_nothing_of_the_last_fit(rings):
    X, y = rings
    for model, linear in (
        (SublinearPerceptron(0.3), "coef_"),
        (L2SVMClassifier(0.5, 0.3), "coef_"),
        (MinimumEnclosingBall(0.3), "center_"),
    ):
        for kernel in ("linear", "rbf", "linear"):
            model.set_params(kernel=kernel).fit(X, y)
            assert hasattr(model, linear) == (kernel == "linear")
            assert hasattr(model, "support_vectors_") == (kernel == "rbf")
            assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("kernel", ("linear", "rbf", "poly"))
@pytest.mark.parametrize(
    "make", (lambda **k: SublinearPerceptron(0.3, **k), lambda **k: MinimumEnclosingBall(0.3, **k))
)
def test_predictions_are_those_of_the_kernel_that_was_fitted(rings, tmp_path, make, kernel):
    X, y = rings
    model = make(kernel=kernel, random_state=0).fit(X, y)
    expected = model.decision_function(X)
    for other in ("linear", "poly", "rbf"):
        model.set_params(kernel=other, gamma=7.0, degree=1, coef0=3.0)
        for present in (model, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(present.decision_function(X), expected)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.decision_function(X), expected)
    refitted = clone(model).fit(X, y)  # of another kernel
    assert not np.array_equal(refitted.decision_function(X), expected)


@pytest.mark.filterwarnings("ignore:gamma .* is so large:UserWarning")
def test_rows_of_a_fit_are_in_its_ball_where_exponents_are_large():
    """float32 tells such kernel values, and so distances, to fewer digits."""
    for seed in range(8):
        X = 10 * np.random.default_rng(seed).normal(size=(190, 50))
        ball = MinimumEnclosingBall(0.05, kernel="rbf", gamma=5.0, random_state=0).fit(X)
        assert (ball.predict(X) == 1).all()
        assert -ball.offset_ < ball.radius_ + 1e-3


def test_what_kernels_cannot_do(rings):
    X, y = rings
    broken = np.where(np.arange(len(X))[:, None] == 5, np.nan, X)
    with pytest.raises(ValueError, match="NaN"):
        SublinearPerceptron(certify=None, row_norm=1.0, kernel="rbf").fit(broken, y)
    with pytest.raises(ValueError, match='certify="sampled" needs kernel="linear"'):
        SublinearPerceptron(certify="sampled", kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match='nu needs kernel="linear"'):
        MinimumEnclosingBall(nu=0.1, kernel="rbf").fit(X)
    oracle = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j])
    with pytest.raises(ValueError, match="kernels need rows in memory"):
        MinimumEnclosingBall(kernel="rbf").fit(oracle)
    with pytest.raises(ValueError, match="centre or scale X"):
        SublinearPerceptron(kernel="rbf", gamma=1e4, kernel_values="sampled").fit(X, y)
