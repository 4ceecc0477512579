"""Working sets in the space of a kernel: steps, oracle, optima, rounding, limits, parameters."""

import itertools
import warnings

import numpy as np
import pytest
from reference.kernel_active_set import kernel_active_set, over_simplex
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import OneClassSVM

from sublinear import MinimumEnclosingBall, solve_simplex_qp
from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_rows import ExactRows
from sublinear._core.kernels import RBF, Poly
from sublinear._core.pairwise import pairwise_steps
from sublinear._saddle_problems import EnclosingBall, SimplexQP
from sublinear._solvers import kernel_active_set as solver_file

RBF_OPTIONS = {"kernel": "rbf", "gamma": 0.3}
POLY_OPTIONS = {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(400, 3))


def matrix_of(X, options):
    options = dict(options)
    kernel = {"rbf": rbf_kernel, "poly": polynomial_kernel}[options.pop("kernel")]
    return kernel(X, **options)


def make_solver(X, problem, epsilon, kernel=None):
    rows = kernel_rows(kernel or RBF(0.3), X)
    sizes = np.diff(X.indptr) if sparse.issparse(X) else np.full(len(X), X.shape[1])
    return solver_file.KernelActiveSet(
        problem, rows, sizes, X.shape[1], epsilon=epsilon, relative=problem.relative
    )


def certified_rounds(solver, count):
    for _ in range(count):
        assert solver.advance(2**62)
        solver.certify(None)
    return solver


def is_within(solver, epsilon):
    gap = solver.best_primal - solver.best_dual
    return gap < np.inf and gap <= epsilon * solver.best_primal


class TestPairwiseSteps:
    @pytest.mark.parametrize("by_gain", (True, False))
    @pytest.mark.parametrize("mass", (1.0, 0.3))
    def test_they_find_the_optimum(self, mass, by_gain):
        random = np.random.default_rng(1)
        A, b = random.normal(size=(30, 5)), random.normal(size=30)
        K, p = A @ A.T, np.full(30, mass / 30)
        assert pairwise_steps(K, b, p, 1e-10, by_gain=by_gain, n_steps=10**6)
        v = b + 2 * K @ p
        assert p.min() >= 0 and p.sum() == pytest.approx(mass)
        assert p @ (v - v.min()) <= 1e-9
        best = over_simplex(K, b, mass)
        assert p @ b + p @ K @ p == pytest.approx(best @ b + best @ K @ best, abs=1e-8)

    def test_a_relative_gap(self):
        K = 1e6 * np.eye(4)
        b, p = -np.diagonal(K), np.array([0.7, 0.3, 0, 0])
        assert pairwise_steps(K, b, p, 0.1, relative=True, n_steps=100)
        v, value = b + 2 * K @ p, p @ b + p @ K @ p
        assert 1e4 < p @ (v - v.min()) <= 0.1 * -value

    def test_they_end_by_their_number_and_where_nothing_is_gained(self):
        p = np.array([1.0, 0, 0])
        assert not pairwise_steps(np.eye(3), np.zeros(3), p, 0.0, n_steps=1)
        np.testing.assert_array_equal(p, [0.5, 0.5, 0])
        assert pairwise_steps(np.eye(3), np.zeros(3), p, 0.0, n_steps=100)
        np.testing.assert_allclose(p, 1 / 3, atol=1e-7)
        for K in (np.ones((3, 3)), np.zeros((3, 3))):
            p = np.array([1.0, 0, 0])
            assert pairwise_steps(K, np.zeros(3), p, 0.0, relative=True, n_steps=1)
            np.testing.assert_array_equal(p, [1, 0, 0])

    def test_flat_directions_take_all_that_there_is(self):
        p = np.array([1.0, 0, 0])
        assert pairwise_steps(np.zeros((3, 3)), np.array([0, -1.0, -2.0]), p, 0.0, n_steps=9)
        np.testing.assert_array_equal(p, [0, 0, 1])


@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize("ball", (True, False))
@pytest.mark.parametrize("kernel", (RBF(3.0), Poly(0.5, 2, 1.0)))
def test_rounds_are_those_of_the_oracle(X, monkeypatch, kernel, ball, make):
    """Working sets are solved to the end: pairwise steps make ties, which rounding decides."""
    monkeypatch.setattr(solver_file, "INNER_GAP", 1e-9)
    A = X[:150]
    name = "rbf" if isinstance(kernel, RBF) else "poly"
    K = matrix_of(A, {"rbf": {"kernel": name, "gamma": 3.0}, "poly": POLY_OPTIONS}[name])
    b = np.random.default_rng(1).normal(size=150) / 10
    problem = EnclosingBall(K.diagonal()) if ball else SimplexQP(b)
    solver = make_solver(make(A), problem, 1e-3, kernel)
    solver.rows, solver.n_candidates = ExactRows(solver.rows), 20
    for p, dual, primal in itertools.islice(kernel_active_set(K, problem.offsets, 20), 4):
        model, *values = certified_rounds(solver, 1).certify(None)
        np.testing.assert_allclose(model, np.append(p, 0), atol=2e-4)
        assert values == pytest.approx([primal, dual], rel=1e-4)
        if primal - dual < 1e-4 * abs(primal):
            break


@pytest.mark.parametrize("epsilon", (1e-3, 1e-9))
def test_working_sets_have_a_limit(X, monkeypatch, epsilon):
    """Beyond it the weights of some rows stay as they are for a round."""
    monkeypatch.setattr(solver_file, "MOST_ROWS", 45)
    monkeypatch.setattr(solver_file, "MOST_CANDIDATES", 20)
    A, sizes = X[:150], []
    K = rbf_kernel(A, gamma=3.0)
    solver = make_solver(A, EnclosingBall(np.ones(150), None, epsilon), epsilon, RBF(3.0))
    solver.n_candidates = 20
    block = solver._block
    monkeypatch.setattr(solver, "_block", lambda rows: sizes.append(len(rows)) or block(rows))
    duals = []
    while not is_within(solver, epsilon):  # for ever, if rows with weight got no more
        _, _, dual = certified_rounds(solver, 1).certify(None)
        duals.append(dual)
        assert solver.n_iter < 300
    assert 40 < max(sizes) <= 45 < np.count_nonzero(solver.p)
    assert (np.diff(duals) >= 0).all()
    best = over_simplex(K, -np.ones(150))
    assert dual - 1e-9 <= 1 - best @ K @ best <= solver.best_primal + 1e-9


@pytest.mark.parametrize("gamma", (0.02, 0.3, 5.0))
@pytest.mark.parametrize("epsilon", (0.01, 1e-4, 1e-7))
def test_optima_are_those_of_the_one_class_machine(X, gamma, epsilon):
    """With nu = 1 / n its problem is p'K p over the simplex: the ball's, where k(x, x) is 1."""
    machine = OneClassSVM(nu=1 / len(X), gamma=gamma, tol=1e-9).fit(X)
    alpha = machine.dual_coef_[0] / machine.dual_coef_.sum()
    square = alpha @ rbf_kernel(X[machine.support_], gamma=gamma) @ alpha
    options = {"kernel": "rbf", "gamma": gamma}
    found = solve_simplex_qp(X, None, epsilon, **options)
    assert found.status == "converged" and found.gap <= epsilon
    assert found.dual - 1e-12 <= square <= found.primal + 1e-9
    K = rbf_kernel(X, gamma=gamma)
    assert found.p @ K @ found.p == pytest.approx(found.primal, abs=max(3e-6, epsilon / 10))
    ball = MinimumEnclosingBall(epsilon, **options).fit(X)
    result = ball.result_
    assert result.status == "converged" and result.relative_gap <= epsilon
    assert result.dual - 1e-9 <= 1 - square <= result.primal + 1e-9
    c = np.zeros(len(X))
    c[ball.support_] = ball.center_coef_
    assert (1 - 2 * K @ c + c @ K @ c).max() <= result.primal + 1e-12
    assert ball.dual_coef_.sum() == pytest.approx(1)
    assert 1 - ball.dual_coef_ @ K @ ball.dual_coef_ >= result.dual - 1e-12
    assert (ball.predict(X) == 1).all()
    assert ball.n_iter_ == len(result.trace) <= 10


@pytest.mark.parametrize("make", (np.asarray, np.asfortranarray, sparse.csr_array))
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_kernels_and_storage(X, make, dtype):
    X = X.astype(dtype)
    for options in (RBF_OPTIONS, POLY_OPTIONS):
        ball = MinimumEnclosingBall(1e-3, **options).fit(make(X))
        expected = MinimumEnclosingBall(1e-3, **options).fit(X.astype(float))
        assert ball.radius_ == pytest.approx(expected.radius_, rel=1e-3)
        assert sparse.issparse(ball.support_vectors_) == (make is sparse.csr_array)
        assert (ball.predict(make(X)) == 1).all()
    linear = MinimumEnclosingBall(1e-6).fit(X)
    ball = MinimumEnclosingBall(1e-6, kernel="poly", gamma=1.0, degree=1).fit(make(X))
    assert ball.radius_ == pytest.approx(linear.radius_, rel=1e-6)
    np.testing.assert_allclose(ball.center_coef_ @ X[ball.support_], linear.center_, atol=1e-2)


def test_copies_and_weights(X):
    options = {"epsilon": 1e-3, **RBF_OPTIONS}
    ball = MinimumEnclosingBall(**options).fit(X)
    twice = MinimumEnclosingBall(**options).fit(np.vstack([X, X]))
    assert twice.radius_ == pytest.approx(ball.radius_, rel=1e-3)
    weights = np.where(np.arange(len(X)) % 3, 2.0, 0.0)
    weighted = MinimumEnclosingBall(**options).fit(X, sample_weight=weights)
    kept = MinimumEnclosingBall(**options).fit(X[weights > 0])
    assert weighted.radius_ == kept.radius_
    np.testing.assert_array_equal(weighted.dual_coef_[weights > 0], kept.dual_coef_)
    np.testing.assert_array_equal(weighted.dual_coef_[weights == 0], 0)


@pytest.mark.parametrize("gamma", (0.5, 100.0))
def test_a_row_and_rows_that_are_equal(gamma):
    """The square of a long row has a rounding that is all there is of this ball."""
    for X in ([[30.0, -20.0, 31.7]], np.ones((6, 2)), np.full((300, 1), 0.1)):
        for rows in (np.asarray(X), sparse.csr_array(np.asarray(X))):
            ball = MinimumEnclosingBall(kernel="rbf", gamma=gamma).fit(rows)
            assert ball.result_.status == "converged" and ball.n_iter_ == 1
            assert ball.radius_ == ball.result_.gap == 0
            found = solve_simplex_qp(rows, epsilon=1e-4, kernel="rbf", gamma=gamma)
            assert found.status == "converged" and found.primal == pytest.approx(1, abs=1e-5)
            assert found.p.sum() == pytest.approx(1)


class TestRounding:
    def test_float32_goes_on_until_it_is_in_the_way(self, X):
        for epsilon, exact in ((0.01, False), (1e-4, False), (1e-8, True)):
            solver = make_solver(X, EnclosingBall(np.ones(400), None, epsilon), epsilon)
            while not is_within(solver, epsilon):
                assert solver.n_iter < 9
                certified_rounds(solver, 1)
            assert isinstance(solver.rows, ExactRows) == exact

    def test_float32_weights_are_used_as_they_are(self, X):
        solver = certified_rounds(make_solver(X, SimplexQP(np.zeros(400)), 1e-3), 2)
        products = rbf_kernel(X, gamma=0.3) @ solver.p
        np.testing.assert_allclose(solver.products, products, atol=1e-7)
        assert solver.p.sum() == pytest.approx(1, abs=1e-15)

    @pytest.mark.parametrize("offset", (0.0, 10.0, 100.0))
    @pytest.mark.parametrize("gamma", (1e-5, 1e-3, 1.0))
    def test_intervals_hold_for_the_kernel_itself(self, gamma, offset):
        """Sparse rows are not centred; balls of small gamma are small against k(x, x) = 1."""
        X = np.random.default_rng(3).normal(size=(60, 2)) + offset
        K = np.exp(-gamma * ((X[:, None] - X).astype(np.longdouble) ** 2).sum(axis=2))
        for epsilon in (0.1, 1e-3):
            ball = MinimumEnclosingBall(epsilon, kernel="rbf", gamma=gamma)
            ball.fit(sparse.csr_array(X))
            assert ball.result_.status == "converged"
            c = np.zeros(60, dtype=np.longdouble)
            c[ball.support_] = ball.center_coef_
            p = ball.dual_coef_.astype(np.longdouble)
            slack = 1e-4 * epsilon * ball.result_.primal  # goes unnoticed
            assert (1 - 2 * K @ c + c @ K @ c).max() <= ball.result_.primal + slack
            assert ball.result_.dual <= 1 - p @ K @ p + slack


class TestLimits:
    @pytest.mark.parametrize("budget", (1, 1000, 60_000, 120_000))
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_no_fit_reads_more(self, X, budget):
        options = {"max_accesses": budget, **RBF_OPTIONS}
        ball = MinimumEnclosingBall(1e-9, **options).fit(X)
        found = solve_simplex_qp(X, epsilon=1e-9, **options)
        for result in (ball.result_, found):
            assert result.accesses <= budget and result.status == "max_accesses"
            assert np.isfinite(result.gap)
        assert (ball.predict(X) == 1).all()
        assert found.p.sum() == pytest.approx(1) and found.p.min() >= 0
        if budget == 1:
            np.testing.assert_array_equal(ball.dual_coef_, np.eye(400)[0])
            assert found.accesses == 0 and found.certificate_accesses == X.size

    def test_what_is_read(self, X):
        solver = certified_rounds(make_solver(X, SimplexQP(np.zeros(400)), 0.1), 1)
        held = np.count_nonzero(solver.p)
        assert solver.accesses == solver.full_accesses == 128**2 * 3 + held * X.size
        made = sparse.csr_array(np.where(X > 0, X, 0))
        solver = certified_rounds(make_solver(made, SimplexQP(np.zeros(400)), 0.1), 1)
        held = np.count_nonzero(solver.p)
        assert solver.full_accesses == 128**2 * 3 + held * X.size
        assert held * made.nnz < solver.accesses < solver.full_accesses

    def test_slices_change_nothing(self, X, monkeypatch):
        monkeypatch.setattr(solver_file, "CHUNK", 16)
        solvers = [make_solver(X, SimplexQP(np.zeros(400)), 1e-8) for _ in range(2)]
        for limit in itertools.count(1, 5000):
            if solvers[0].advance(limit):
                break
            assert solvers[0].accesses <= limit
        certified_rounds(solvers[1], 1)
        assert limit > 70_000 and solvers[0].n_iter == 1
        np.testing.assert_array_equal(solvers[0].p, solvers[1].p)
        np.testing.assert_array_equal(solvers[0].products, solvers[1].products)

    def test_rounds_are_counted(self, X):
        for max_iter in (1, 2):
            with pytest.warns(ConvergenceWarning, match="stopped at max_iter"):
                ball = MinimumEnclosingBall(1e-9, max_iter=max_iter, **RBF_OPTIONS).fit(X)
            assert ball.n_iter_ == max_iter

    def test_callbacks_stop_and_interrupt(self, X):
        seen = []
        ball = MinimumEnclosingBall(
            1e-9, callback=lambda snapshot: seen.append(snapshot) or True, **RBF_OPTIONS
        ).fit(X)
        assert ball.result_.status == "stopped" and len(seen) == ball.n_iter_ == 1
        coefficients = np.zeros(len(X))
        coefficients[ball.support_] = ball.center_coef_
        np.testing.assert_array_equal(seen[0].coef, coefficients)

        def interrupt(snapshot):
            raise KeyboardInterrupt

        ball.callback = interrupt
        with pytest.raises(KeyboardInterrupt):
            ball.fit(X)
        assert ball.result_.status == "interrupted"
        assert (ball.predict(X) == 1).all()

    def test_an_interrupt_before_the_first_certificate(self, X, monkeypatch):
        def interrupt(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(solver_file, "pairwise_steps", interrupt)
        ball = MinimumEnclosingBall(**RBF_OPTIONS)
        with pytest.raises(KeyboardInterrupt):
            ball.fit(X)
        assert ball.result_.status == "interrupted"
        np.testing.assert_array_equal(ball.center_coef_, [1.0])
        assert np.isfinite(ball.score_samples(X)).all()


def test_fits_draw_nothing(X):
    for options in (RBF_OPTIONS, POLY_OPTIONS):
        balls = [
            MinimumEnclosingBall(1e-5, random_state=seed, **options).fit(X) for seed in (0, 0, 1)
        ]
        for ball in balls[1:]:
            np.testing.assert_array_equal(ball.dual_coef_, balls[0].dual_coef_)
            assert ball.result_.primal == balls[0].result_.primal


def test_which_fits_take_it(X):
    X = X[:100]
    taken, options = {"epsilon": 0.1, "random_state": 0}, RBF_OPTIONS
    given = (
        ({}, True),
        ({"variant": "active_set"}, True),
        ({"variant": "active_set", "certify": "exact"}, True),
        ({"variant": "plain"}, False),
        ({"certify": "exact"}, False),
        ({"certify": None}, False),
        ({"kernel_values": "sampled"}, False),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for settings, by_working_sets in given:
            ball = MinimumEnclosingBall(max_iter=300, **taken, **options, **settings).fit(X)
            found = solve_simplex_qp(X, max_iter=300, **taken, **options, **settings)
            assert (ball.n_iter_ < 16) == (found.n_iter < 16) == by_working_sets
    for settings, words in (
        ({"kernel_values": "sampled"}, 'variant="active_set" needs kernel_values="exact"'),
        ({"certify": None}, "certifies at every pass"),
        ({"constants": "theory"}, 'needs variant="plain"'),
    ):
        with pytest.raises(ValueError, match=words):
            MinimumEnclosingBall(variant="active_set", **options, **settings).fit(X)
        with pytest.raises(ValueError, match=words):
            solve_simplex_qp(X, variant="active_set", **options, **settings)
