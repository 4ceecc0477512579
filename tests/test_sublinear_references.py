"""The oracles of the sublinear family: their certificates bracket the optimum and close on it."""

import numpy as np
import pytest
from reference import (
    certificates,
    enclosing_ball,
    simba,
    sublinear_generic,
    sublinear_perceptron,
    sublinear_simplex_qp,
)
from reference.sampling import (
    Draws,
    Replayed,
    clip,
    draw_l2,
    l2_estimates,
    median_of_means,
    reweighted,
)
from scipy.optimize import linprog, minimize


@pytest.fixture(scope="module")
def separable():
    """24 rows of length at most one in R^4, labels folded in, with a margin above 0.1."""
    random = np.random.default_rng(0)
    A = random.normal(size=(24, 4))
    A[:, 0] = np.abs(A[:, 0]) + 0.5
    return A / np.linalg.norm(A, axis=1).max()


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(1)
    A = random.normal(size=(30, 5))
    return A / np.linalg.norm(A, axis=1).max()


def nearest_to_origin(A):
    """The margin by quadratic programming over the simplex."""
    return np.sqrt(
        minimise_over_simplex(lambda p: (A.T @ p) @ (A.T @ p), lambda p: 2 * A @ (A.T @ p), len(A))
    )


def minimise_over_simplex(value, gradient, n):
    found = minimize(
        value,
        np.full(n, 1 / n),
        jac=gradient,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success
    return found.fun


class TestSampling:
    def test_l2_estimates_are_unbiased_with_bounded_second_moment(self, points):
        x = np.array([0.6, -0.2, 0.1, 0.0, 0.4])
        chances = x**2 / (x @ x)
        drawn = np.flatnonzero(chances)
        estimates = np.array([l2_estimates(points, x, j) for j in drawn])
        np.testing.assert_allclose(chances[drawn] @ estimates, points @ x, atol=1e-15)
        seconds = chances[drawn] @ estimates**2
        assert (seconds <= (points**2).sum(axis=1) * (x @ x) + 1e-15).all()

    def test_nothing_is_drawn_at_zero(self, points):
        np.testing.assert_array_equal(draw_l2(points, np.zeros(5), Replayed([], [])), np.zeros(30))

    def test_replayed_draws_repeat_a_run(self, separable):
        draws = Draws(0)
        first = [x for x, *_ in sublinear_perceptron.perceptron(separable, 50, 0.1, draws)]
        again = Replayed(draws.rows, draws.columns)
        second = [x for x, *_ in sublinear_perceptron.perceptron(separable, 50, 0.1, again)]
        np.testing.assert_array_equal(first, second)

    def test_clip(self):
        np.testing.assert_array_equal(clip(np.array([-5, -1, 0, 3]), 2), [-2, -1, 0, 2])

    def test_reweighting_keeps_a_distribution_and_prefers_low_values(self):
        p = reweighted(np.full(3, 1 / 3), np.array([1.0, 0.0, -50.0]), 0.1)
        assert p.sum() == pytest.approx(1)
        np.testing.assert_allclose(p / p[1], [0.91, 1.0, 3.0])

    def test_median_of_means_forgets_outliers(self):
        samples = np.array([[1.0], [1.0], [1.0], [1.0], [1e9]])
        assert median_of_means(samples, 5) == 1.0


class TestCertificates:
    @pytest.mark.parametrize("nu", [0.0, 0.1, 0.37, 0.9, 1.0])
    @pytest.mark.parametrize("spread", [1.0, 5.0])
    def test_slack_margin_is_the_value_of_a_linear_program(self, nu, spread):
        margins = np.random.default_rng(2).normal(size=15) * spread
        # maximise g with g - xi_i <= margins_i
        found = linprog(
            np.r_[-1, np.zeros(15)],
            A_ub=np.vstack([np.c_[np.ones(15), -np.eye(15)], np.r_[0, np.ones(15)]]),
            b_ub=np.r_[margins, nu * 15],
            bounds=[(None, None)] + [(0, 2)] * 15,
        )
        assert certificates.slack_margin(margins, nu) == pytest.approx(-found.fun)

    @pytest.mark.parametrize("nu", [0.0, 0.2, 0.5, 1.0])
    def test_slack_mass_is_the_value_of_a_linear_program(self, nu):
        p = np.random.default_rng(3).dirichlet(np.ones(9))
        found = linprog(-p, A_ub=np.ones((1, 9)), b_ub=[nu * 9], bounds=(0, 2))
        assert certificates.slack_mass(p, nu) == pytest.approx(-found.fun)
        assert p @ simba.slack(p, nu) == pytest.approx(-found.fun)

    def test_ball_is_the_quadratic_program_of_its_rows(self, points):
        random = np.random.default_rng(4)
        p, b = random.dirichlet(np.ones(30)), -(points**2).sum(axis=1)
        ball = certificates.enclosing_ball(points, points.T @ p, p)
        np.testing.assert_allclose(ball, -np.array(certificates.simplex_qp(points, b, p))[::-1])

    def test_every_pair_brackets(self, separable, points):
        random = np.random.default_rng(5)
        y = np.sign(random.normal(size=30))
        for _ in range(50):
            x, p = random.normal(size=4), random.dirichlet(np.ones(24))
            lower, upper = certificates.margin(separable, x / np.linalg.norm(x), p)
            assert lower <= upper
            x, p = random.normal(size=5), random.dirichlet(np.ones(30))
            upper, lower = certificates.enclosing_ball(points, x, p)
            assert lower <= upper
            upper, lower = certificates.simplex_qp(points, random.normal(size=30), p, x)
            assert lower <= upper
            upper, lower = certificates.matrix_game(points, random.dirichlet(np.ones(5)), p)
            assert lower <= upper
            w, b = x / np.linalg.norm(x), random.uniform(-1, 1)
            lower, upper = certificates.simba(points, y, 0.3, w, b, p)
            assert lower <= upper
            lower, upper = certificates.simba_without_bias(points, y, 0.3, w, p)
            assert lower <= upper


class TestAlgorithms:
    """Four times the steps halve the gap; the optimum found otherwise lies between the values."""

    def check(self, gaps, optimum, brackets):
        for lower, upper in brackets:
            assert lower - 1e-7 <= optimum <= upper + 1e-7
        assert gaps[1] < 0.75 * gaps[0]

    @pytest.mark.parametrize("make", [sublinear_perceptron, sublinear_generic])
    def test_perceptron(self, separable, make):
        brackets = []
        for T in (1000, 8000):
            steps = make.perceptron(separable, T, np.sqrt(np.log(24) / T), Draws(0))
            x, p = sublinear_perceptron.means(steps, 24)
            brackets.append(certificates.margin(separable, x, p))
        gaps = [upper - lower for lower, upper in brackets]
        self.check(gaps, nearest_to_origin(separable), brackets)
        assert gaps[1] < 0.1

    def test_constants_of_the_papers(self):
        assert sublinear_perceptron.constants(100, 0.1)[0] == np.ceil(200**2 * 100 * np.log(100))
        T, eta = simba.constants(100, 0.1)
        assert np.ceil(100**2 * 100 * np.log(100)) == T
        assert eta == pytest.approx(np.sqrt(np.log(100) / T))
        _, _, probability = sublinear_simplex_qp.constants(100, 0.1)
        assert 0 < probability < 1

    def test_enclosing_ball(self, points):
        squares = (points**2).sum(axis=1)

        def value(p):
            return (points.T @ p) @ (points.T @ p) - p @ squares

        def gradient(p):
            return 2 * points @ (points.T @ p) - squares

        optimum = -minimise_over_simplex(value, gradient, 30)
        brackets = []
        for epsilon in (0.1, 0.025):
            steps = sublinear_simplex_qp.enclosing_ball(
                points, *sublinear_simplex_qp.constants(30, epsilon), Draws(1)
            )
            x, p = sublinear_perceptron.means(steps, 30)
            brackets.append(certificates.enclosing_ball(points, x, p)[::-1])
        self.check([upper - lower for lower, upper in brackets], optimum, brackets)

    def test_simplex_qp(self, points):
        b = np.random.default_rng(6).uniform(-0.5, 0.5, size=30)

        def value(p):
            return p @ b + (points.T @ p) @ (points.T @ p)

        optimum = minimise_over_simplex(value, lambda p: b + 2 * points @ (points.T @ p), 30)
        brackets = []
        for epsilon in (0.1, 0.025):
            steps = sublinear_simplex_qp.simplex_qp(
                points, b, *sublinear_simplex_qp.constants(30, epsilon), Draws(2)
            )
            x, p = sublinear_perceptron.means(steps, 30)
            brackets.append(certificates.simplex_qp(points, b, p, x)[::-1])
        self.check([upper - lower for lower, upper in brackets], optimum, brackets)

    def test_matrix_game(self):
        A = np.random.default_rng(7).choice([-1.0, 1.0], size=(12, 9))
        unbounded = [(0, None)] * 9 + [(None, None)]
        optimum = linprog(
            np.r_[np.zeros(9), 1],
            A_ub=np.c_[A, -np.ones(12)],
            b_ub=np.zeros(12),
            A_eq=np.r_[np.ones(9), 0][None],
            b_eq=[1],
            bounds=unbounded,
        ).fun
        brackets = []
        for T in (500, 4000):
            steps = sublinear_generic.matrix_game(A, T, np.sqrt(np.log(12) / T), Draws(3))
            x, p = sublinear_perceptron.means(steps, 12)
            brackets.append(certificates.matrix_game(A, x, p)[::-1])
        self.check([upper - lower for lower, upper in brackets], optimum, brackets)

    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_simba(self, bias, adaptive):
        random = np.random.default_rng(8)
        n, nu = 40, 0.1
        X = random.normal(size=(n, 3))
        y = np.sign(X[:, 0] + 0.3 + 0.4 * random.normal(size=n))
        X /= np.linalg.norm(X, axis=1).max()
        gaps = []
        for T in (1000, 8000):
            steps = simba.simba(X, y, nu, T, Draws(9), bias=bias, adaptive=adaptive)
            w, b, p = simba.means(steps, n)
            if bias:
                lower, upper = certificates.simba(X, y, nu, w, b, p)
            else:
                lower, upper = certificates.simba_without_bias(X, y, nu, w, p)
            gaps.append(upper - lower)
        assert 0 <= gaps[1] < 0.75 * gaps[0]
        # Lemma 2.1: the rescaled solution spends at most nu / value of hinge loss
        w, b = simba.rescaled(w, b, lower)
        assert np.maximum(0, 1 - y * (X @ w + b)).mean() <= nu / lower + 1e-12

    @pytest.mark.parametrize("passes, tolerance", [(100, 0.05), (400, 0.012)])
    def test_badoiu_clarkson(self, points, passes, tolerance):
        centres = enclosing_ball.badoiu_clarkson(points)
        centre = [next(centres) for _ in range(passes)][-1]
        _, optimum = certificates.enclosing_ball(points, *solved(points))
        assert ((points - centre) ** 2).sum(axis=1).max() <= optimum * (1 + tolerance)

    def test_away_step_frank_wolfe_reaches_the_optimum(self, points):
        centre, p = solved(points)
        upper, lower = certificates.enclosing_ball(points, centre, p)
        assert 0 <= upper - lower < 1e-9
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1)


def solved(points, passes=400):
    steps = enclosing_ball.away_step_frank_wolfe(points)
    return [next(steps) for _ in range(passes)][-1]
