"""Margins, balls, QPs and games by primal-dual steps: optima, certificates, bad input."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from reference.enclosing_ball import least_ball
from scipy import sparse
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from sublinear import (
    L2SVMClassifier,
    MinimumEnclosingBall,
    SDCAClassifier,
    SIMBAClassifier,
    SublinearPerceptron,
    solve_matrix_game,
    solve_simplex_qp,
)
from sublinear._saddle_problems import Game, SquaredHinge
from sublinear._validation import as_matrix
from sublinear.data import FeatureOracle
from sublinear.datasets import make_enclosing_ball, make_matrix_game, make_planted_margin
from sublinear.geometry import SeenRows


def separable(n=60, d=5, seed=0):
    random = np.random.default_rng(seed)
    normal = random.normal(size=d)
    normal /= np.linalg.norm(normal)
    X = random.normal(size=(n, d))
    y = np.where(X @ normal > 0, 1, -1)
    X += 0.5 * y[:, None] * normal
    return X / np.linalg.norm(X, axis=1).max(), y


def largest_margin(X, y):
    """Without intercept, from libsvm's hard margin on the rows and their mirror images."""
    both, labels = np.vstack([X, -X]), np.append(y, -y)
    w = SVC(kernel="linear", C=1e8, tol=1e-8).fit(both, labels).coef_.ravel()
    return (y * (X @ w)).min() / np.linalg.norm(w)


def soft_ball(X, nu, weights=None):
    """The least R2 + sum caps_i max(0, |x_i - c|^2 - R2) from its dual, by SciPy; the p of it."""
    weights = np.ones(len(X)) if weights is None else weights
    caps, squares = weights / (nu * weights.sum()), (X**2).sum(axis=1)
    found = minimize(
        lambda p: ((X.T @ p) ** 2).sum() - p @ squares,
        weights / weights.sum(),
        jac=lambda p: 2 * X @ (X.T @ p) - squares,
        bounds=[(0, cap) for cap in caps],
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-11, "maxiter": 1000},
    )
    assert found.success
    return -found.fun, found.x


X60, Y60 = separable()
MARGIN = largest_margin(X60, Y60)
POINTS = np.random.default_rng(1).normal(size=(40, 4)) + 3.0
RADIUS2 = least_ball(POINTS)[1]


@pytest.mark.parametrize("variant", ("plain", "variance_reduced"))
def test_margin_is_within_epsilon_for_a_hundred_seeds(variant):
    """The certificate proves epsilon; the optimum lies between margin and bound."""
    for seed in range(100):
        model = SublinearPerceptron(
            0.02, fit_intercept=False, variant=variant, random_state=seed
        ).fit(X60, Y60)
        result = model.result_
        assert result.status == "converged"
        assert result.gap <= 0.02
        assert result.primal <= MARGIN + 1e-6
        assert result.dual + 1e-6 >= MARGIN
        margin = (Y60 * (X60 @ model.coef_.ravel())).min()
        assert margin == pytest.approx(result.primal, abs=1e-9)
        assert np.linalg.norm(model.coef_) == pytest.approx(1)


def test_the_steps_epsilon_asks_for_bring_the_margin_within_epsilon():
    """certify=None: nothing is proven, yet at least 95 of 100 seeds get there."""
    reached = 0
    for seed in range(100):
        model = SublinearPerceptron(0.05, fit_intercept=False, certify=None, random_state=seed).fit(
            X60, Y60
        )
        assert model.result_.status == "uncertified"
        w = model.coef_.ravel() / np.linalg.norm(model.coef_)
        reached += (Y60 * (X60 @ w)).min() >= MARGIN - 0.05
    assert reached >= 95


@pytest.mark.parametrize("variant", ("plain", "variance_reduced", "active_set"))
def test_ball_is_within_epsilon_for_a_hundred_seeds(variant):
    epsilon = 0.1 if variant == "plain" else 0.01
    X = POINTS - 3.0 if variant == "plain" else POINTS
    for seed in range(100):
        ball = MinimumEnclosingBall(epsilon, variant=variant, random_state=seed).fit(X)
        result = ball.result_
        assert result.status == "converged"
        assert result.relative_gap <= epsilon
        assert result.dual - 1e-6 <= RADIUS2 <= result.primal + 1e-6
        squares = ((X - ball.center_) ** 2).sum(axis=1)
        assert squares.max() <= ball.radius_**2 * (1 + 1e-12)
        assert (ball.predict(X) == 1).all()
        p = ball.dual_coef_
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1)


@pytest.mark.parametrize("nu", (0.06, 0.25, 0.8, 1.0))
@pytest.mark.parametrize("variant", ("plain", "variance_reduced"))
def test_soft_ball_is_within_epsilon(nu, variant):
    """Of the exact quadratic program, whose value lies between those of the certificate."""
    epsilon = 1e-3 if variant == "variance_reduced" else 0.05
    X = POINTS if variant == "variance_reduced" else POINTS - 3.0
    optimum, p = soft_ball(X, nu)
    cap = 1 / (nu * len(X))
    for seed in range(20):
        ball = MinimumEnclosingBall(epsilon, nu=nu, variant=variant, random_state=seed).fit(X)
        result = ball.result_
        assert result.status == "converged"
        assert result.relative_gap <= epsilon
        assert result.dual - 1e-6 <= optimum <= result.primal + 1e-6
        p = ball.dual_coef_
        assert p.min() >= -1e-15 and p.max() <= cap * (1 + 1e-9)
        assert p.sum() == pytest.approx(1)
        squares = ((X - ball.center_) ** 2).sum(axis=1)
        radius2 = ball.radius_**2
        excess = np.maximum(0, squares - radius2).sum() * cap
        assert radius2 + excess == pytest.approx(result.primal)
        outside = (ball.predict(X) == -1).mean()
        assert outside < nu <= (squares >= radius2 * (1 - 1e-9)).mean() + 1e-12
        assert outside >= nu - 1.001 / len(X)
        np.testing.assert_allclose(ball.score_samples(X), -np.sqrt(squares))
        assert all(row.gap >= 0 for row in result.trace)
    if nu == 1:
        np.testing.assert_allclose(p, 1 / len(X))
        off = ball.center_ - X.mean(axis=0)
        assert off @ off <= result.gap + 1e-12


def test_a_tiny_nu_is_the_hard_ball():
    hard = MinimumEnclosingBall(1e-3, random_state=0).fit(POINTS)
    soft = MinimumEnclosingBall(1e-3, nu=1e-6, random_state=0).fit(POINTS)
    assert soft.radius_ == pytest.approx(hard.radius_, rel=2e-3)
    assert (soft.predict(POINTS) == 1).all()


def test_weights_of_a_soft_ball_are_repetitions():
    weights = np.random.default_rng(7).integers(0, 4, size=len(POINTS)).astype(float)
    optimum, _ = soft_ball(POINTS[weights > 0], 0.3, weights[weights > 0])
    repeated, _ = soft_ball(np.repeat(POINTS, weights.astype(int), axis=0), 0.3)
    assert optimum == pytest.approx(repeated)
    ball = MinimumEnclosingBall(1e-3, nu=0.3, random_state=0).fit(POINTS, sample_weight=weights)
    assert ball.result_.dual - 1e-6 <= optimum <= ball.result_.primal + 1e-6
    assert ball.result_.relative_gap <= 1e-3
    outside = ball.predict(POINTS) == -1
    assert weights[outside].sum() < 0.3 * weights.sum()


@pytest.mark.parametrize("certify", ("las_vegas", "sampled"))
def test_epsilon_of_another_type(certify):
    options = {"certify": certify, "max_iter": 10**6 if certify == "las_vegas" else None}
    model, other = (
        SublinearPerceptron(epsilon, random_state=0, **options).fit(X60, Y60)
        for epsilon in (np.float32(0.1), float(np.float32(0.1)))
    )
    np.testing.assert_array_equal(model.coef_, other.coef_)


@pytest.mark.parametrize("seed", range(3))
def test_a_game_of_signs_does_not_stall(seed):
    """Weights that one round has brought near 0 return in the next, whose steps are shorter."""
    signs = np.sign(np.random.default_rng(seed).normal(size=(64, 64)))
    result = solve_matrix_game(signs, 0.05, variant="plain", random_state=seed, max_iter=200_000)
    assert result.status == "converged"


@pytest.mark.parametrize("as_matrix", (sparse.csr_matrix, sparse.csr_array))
def test_games_leave_unsorted_rows_as_they_are(as_matrix):
    arrays = np.array([1.0, 2, 3, 4]), np.array([1, 0, 1, 0]), np.array([0, 2, 4])
    A = as_matrix(arrays, shape=(2, 2))
    sorted_one = solve_matrix_game(A.toarray(), 0.01, random_state=0)
    for array in (A.data, A.indices, A.indptr):
        array.flags.writeable = False
    result = solve_matrix_game(A, 0.01, random_state=0)
    assert repr(result).startswith("GameResult(status='converged'")
    np.testing.assert_array_equal(A.indices, [1, 0, 1, 0])
    assert result.primal == pytest.approx(sorted_one.primal, abs=0.01)


def test_payoffs_whose_differences_are_rounding():
    payoffs = np.random.default_rng(0).uniform(-1, 1, (40, 30)) + 1e12
    with pytest.warns(ConvergenceWarning):
        result = solve_matrix_game(payoffs, 1e-3, random_state=0)
    assert result.status == "rounding"
    exact = np.longdouble(payoffs)
    x, p = np.longdouble(result.column_strategy), np.longdouble(result.row_strategy)
    assert (exact @ (x / x.sum())).max() - ((p / p.sum()) @ exact).min() <= result.gap
    assert solve_matrix_game(payoffs, 0.1, random_state=0).status == "converged"


def test_means_of_zeros_are_not_rounded():
    result = solve_matrix_game(np.zeros((30, 20)), 1e-300)
    assert result.status == "converged" and result.primal == result.dual == 0


def test_a_gap_far_above_rounding_is_not_called_that():
    payoffs = np.random.default_rng(0).uniform(-1, 1, (50, 40))
    with pytest.warns(ConvergenceWarning, match="check largest"):
        solve_matrix_game(payoffs, 1e-2, largest=1e13, max_iter=10_000, random_state=0)


@pytest.mark.parametrize("make", (sparse.csr_array, np.asfortranarray, np.array))
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_layouts_and_types(make, dtype):
    X = make(X60.astype(dtype))
    model = SublinearPerceptron(0.02, random_state=0).fit(X, Y60)
    assert model.coef_.dtype == dtype
    assert model.result_.gap <= 0.02
    extended = np.column_stack([X60, np.ones(len(X60))])
    w = np.append(model.coef_.ravel(), model.intercept_).astype(np.float64)
    assert (Y60 * (extended @ w)).min() >= model.result_.primal - 1e-6
    ball = MinimumEnclosingBall(0.01, random_state=0).fit(make(POINTS.astype(dtype)))
    assert ball.center_.dtype == dtype
    squares = ((POINTS.astype(dtype).astype(float) - ball.center_.astype(float)) ** 2).sum(axis=1)
    assert squares.max() <= ball.result_.primal * (1 + 1e-12)
    assert ball.result_.dual <= RADIUS2 * (1 + 1e-5)


def test_a_ball_far_from_the_origin_takes_no_more_steps():
    near = MinimumEnclosingBall(0.001, random_state=0).fit(POINTS)
    far = MinimumEnclosingBall(0.001, random_state=0).fit(POINTS + 1e4)
    assert far.radius_ == pytest.approx(near.radius_, rel=1e-3)
    assert far.n_iter_ <= 10 * near.n_iter_


OFFSETS = (0.0, 1e4, 1e7, 1e8, 1.7e9)


def moved(offset, make=np.array):
    """POINTS, which fractions of 1 / 1024 hold, elsewhere; and as seen from the first of them."""
    points = np.round(1024 * POINTS) / 1024
    return make(points + offset), points - points[0]


def assert_encloses(ball, X, seen, epsilon):
    """The certificate holds for the rows as `seen` from their first row, without rounding."""
    result = ball.result_
    squares = ((np.longdouble(X) - np.longdouble(ball.center_)) ** 2).sum(axis=1)
    optimum = soft_ball(seen, ball.nu)[0] if ball.nu > 0 else least_ball(seen)[1]
    assert result.dual <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= result.primal
    assert ball.nu > 0 or squares.max() <= ball.radius_**2 * (1 + 1e-9)
    assert (result.status == "converged") == (result.relative_gap <= epsilon)
    np.testing.assert_array_equal(ball.predict(X), np.where(squares <= ball.offset_**2, 1, -1))
    assert ball.dual_coef_.sum() == pytest.approx(1)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(
    ("variant", "nu", "epsilon"),
    [
        ("active_set", 0, 0.01),
        ("active_set", 0, 1e-5),
        ("variance_reduced", 0, 0.01),
        ("variance_reduced", 0.25, 0.01),
        ("plain", 0, 0.05),
        ("plain", 0.25, 0.05),
    ],
)
def test_balls_far_from_the_origin_are_certified_as_seen_from_nearby(offset, variant, nu, epsilon):
    X, seen = moved(offset)
    ball = MinimumEnclosingBall(epsilon, nu=nu, variant=variant, random_state=0).fit(X)
    assert ball.result_.status == "converged"
    assert_encloses(ball, X, seen, epsilon)
    outside = (ball.predict(X) == -1).mean()
    assert outside < nu if nu > 0 else outside == 0
    direction = np.array([1.0, 0, 0, 0])
    around = ball.center_ + ball.radius_ * np.outer([0.99, 1.01], direction)
    assert ball.predict(around).tolist() == [1, -1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_margins_of_float32_that_are_negative_are_not_too_large():
    for seed in range(60):
        random = np.random.default_rng(seed)
        X = random.normal(size=(10, 2)).astype(np.float32)
        y = np.append([1, -1], np.where(random.random(8) < 0.5, 1, -1))
        model = SublinearPerceptron(0.01, intercept_scaling=100.0, max_iter=100, random_state=0)
        model.fit(X, y)
        w, b = model.coef_[0].astype(np.longdouble), np.longdouble(model.intercept_[0])
        assert model.result_.primal <= (y * (X.astype(np.longdouble) @ w + b)).min()


@pytest.mark.parametrize("offset", OFFSETS)
def test_far_balls_of_float32_are_those_that_float32_can_hold(offset):
    X = moved(offset)[0].astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ball = MinimumEnclosingBall(0.01).fit(X)
    assert ball.center_.dtype == np.float32
    exact = X.astype(np.float64)
    assert_encloses(ball, exact, exact - exact[0], 0.01)
    assert ball.result_.status == "converged" or offset >= 1e7
    assert (ball.predict(X) == 1).all()


@pytest.mark.parametrize("nu", (0.0, 0.25))
@pytest.mark.parametrize("offset", (*OFFSETS, 1e6))
def test_sparse_balls_far_from_the_origin_count_rounding(offset, nu):
    """It is part of the gap; where it is more than epsilon the fit ends soon, and says so."""
    X, seen = moved(offset, sparse.csr_array)
    ball = MinimumEnclosingBall(0.05, nu=nu, random_state=0)
    if offset < 1e7:
        ball.fit(X)
    else:
        with pytest.warns(ConvergenceWarning, match="rounding.* centre X"):
            ball.fit(X)
        assert ball.result_.status == "rounding"
        assert len(ball.result_.trace) <= 40
    assert ball.result_.relative_gap <= 0.05 or offset >= 1e7
    optimum = soft_ball(seen, nu)[0] if nu > 0 else least_ball(seen)[1]
    assert ball.result_.dual <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= ball.result_.primal
    outside = (ball.predict(X) == -1).mean()
    assert outside < nu if nu > 0 else outside == 0


def test_far_balls_of_an_oracle_count_rounding():
    for offset in (1e4, 1e8):
        X, seen = moved(offset)
        oracle = FeatureOracle(X.shape, lambda i, X=X: X[i], lambda j, X=X: X[:, j])
        ball = MinimumEnclosingBall(0.05, variant="variance_reduced", random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            result = ball.fit(oracle).result_
        assert (result.status == "converged") == (offset == 1e4) == (not caught)
        assert result.dual <= least_ball(seen)[1] * (1 + 1e-6) <= result.primal * (1 + 2e-6)


@pytest.mark.parametrize("kernel", ("linear", "rbf"))
def test_a_ball_without_a_proved_radius_does_not_judge(kernel):
    X = np.random.default_rng(0).normal(size=(60, 5))
    ball = MinimumEnclosingBall(0.1, certify=None, kernel=kernel, random_state=0).fit(X)
    assert np.isnan(ball.radius_) and np.isfinite(ball.score_samples(X)).all()
    for judge in (ball.predict, ball.decision_function):
        with pytest.raises(ValueError, match="no radius is proved: certify=None"):
            judge(X)


def test_a_ball_around_one_tiny_row_has_it_inside():
    X = np.array([[1e-73, 2e-73]])  # the default gamma makes up for what float32 cannot hold
    ball = MinimumEnclosingBall(0.05, kernel="rbf", random_state=0).fit(X)
    assert ball.predict(X) == [1]


@pytest.mark.parametrize("scale", (1e-30, 1e-22, 1e19, 1e36))
def test_balls_of_float32_whose_squares_leave_its_range(scale):
    X = np.random.default_rng(0).normal(size=(60, 5))
    ball = MinimumEnclosingBall(random_state=0).fit((X * scale).astype(np.float32))
    assert ball.result_.status == "converged" and ball.n_iter_ <= 3
    radius = MinimumEnclosingBall(random_state=0).fit(X).radius_
    assert ball.radius_ == pytest.approx(scale * radius, rel=2e-3)


@pytest.mark.parametrize("dtype", (np.float64, np.float32))
@pytest.mark.parametrize("offset", OFFSETS)
def test_predictions_of_sparse_rows_far_from_the_origin(offset, dtype):
    X = moved(offset)[0]
    ball = MinimumEnclosingBall(1e-6, random_state=0).fit(X)
    rows = np.vstack([X, X + 0.1, np.zeros((1, X.shape[1]))]).astype(dtype)
    scores, thin = ball.score_samples(rows), ball.score_samples(sparse.csr_array(rows))
    np.testing.assert_allclose(thin, scores, rtol=1e-6, atol=1e-12)
    assert (ball.predict(sparse.csr_array(X)) == 1).all()


def test_predictions_around_far_balls():
    random = np.random.default_rng(0)
    stamps = 1.7e9 + random.uniform(0, 60, size=(1000, 2))
    ball = MinimumEnclosingBall().fit(stamps)
    assert 40 < ball.radius_ < 45
    assert (ball.predict(stamps) == 1).all()
    assert ball.predict(stamps[:1] + 100).tolist() == [-1]
    narrow = 3 + 1e-7 * random.standard_normal((50, 100))
    ball = MinimumEnclosingBall().fit(narrow)
    assert (ball.predict(narrow) == 1).all()
    opposite = ball.center_ + 1.1 * (narrow - ball.center_)
    assert (ball.predict(opposite) == 1).mean() < 0.2


@pytest.mark.parametrize("make", (np.array, sparse.csr_array))
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("nu", (0.0, 0.5))
def test_equal_rows_are_a_ball_of_radius_0(make, dtype, nu):
    row = 1e5 * np.random.default_rng(0).standard_normal(2000)
    X = make(np.tile(row.astype(dtype), (20, 1)))
    ball = MinimumEnclosingBall(nu=nu, random_state=0).fit(X)
    assert ball.radius_ == ball.result_.primal == ball.result_.dual == 0
    np.testing.assert_array_equal(ball.center_, row.astype(dtype))
    assert ball.result_.status == "converged"
    assert (ball.predict(X) == 1).all()
    assert (ball.predict(1.001 * X) == -1).all()


def test_rows_are_copied_only_far_from_the_origin():
    for X in (POINTS, POINTS.astype(np.float32), POINTS + 100, np.zeros((3, 2))):
        seen = SeenRows(X, as_matrix(X), None, "active_set", 0.01)
        assert seen.matrix is seen.given
        assert seen.matrix.arrays[0] is X
    for X in (POINTS + 1e7, (POINTS + 1e3).astype(np.float32)):
        seen = SeenRows(X, as_matrix(X), None, "active_set", 0.01)
        np.testing.assert_array_equal(seen.origin, X[0])
        np.testing.assert_allclose(seen.squared_norms, ((X - X[0]) ** 2).sum(axis=1), rtol=1e-4)
    X = POINTS + 100
    assert SeenRows(X, as_matrix(X), None, "plain", 0.01).matrix.n_rows == len(POINTS)


def test_callbacks_see_the_centre_where_it_is():
    seen = []
    ball = MinimumEnclosingBall(1e-6, callback=seen.append).fit(POINTS + 1e8)
    np.testing.assert_array_equal(seen[-1].coef, ball.center_)


def test_gaps_are_never_negative_and_values_never_cross():
    for model in (
        SublinearPerceptron(1e-3, random_state=0),
        SublinearPerceptron(0.01, variant="plain", random_state=0),
    ):
        trace = model.fit(X60, Y60).result_.trace
        assert all(row.gap >= 0 for row in trace)
        assert all(row.primal <= row.dual + 1e-12 for row in trace)
    trace = MinimumEnclosingBall(1e-4, random_state=0).fit(POINTS).result_.trace
    assert all(row.dual <= row.primal and row.gap >= 0 for row in trace)


def test_data_that_no_hyperplane_separates():
    X = np.array([[1.0, 0.1], [-1.0, 0.1], [0.9, -0.3], [-0.9, -0.3]])
    for variant in ("plain", "variance_reduced"):
        model = SublinearPerceptron(0.05, variant=variant, random_state=0)
        result = model.fit(X, [0, 0, 0, 1]).result_
        if result.status == "converged":
            continue
        assert result.status == "not_separable"
    y = np.array([0, 0, 1, 1, 0, 1])
    X = np.vstack([X, [[0.0, 0.0], [0.0, 0.0]]])
    result = SublinearPerceptron(0.05, random_state=0).fit(X, y).result_
    assert result.status == "not_separable"
    assert 0 <= result.dual <= 0.05
    assert result.primal == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "plain"},
        {"variant": "plain", "thin": True},  # steps at the cost of the entries
        {"certify": "exact"},
        {"callback": lambda snapshot: True},
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 1, "kernel_values": "sampled"},
    ],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_primal_is_the_margin_of_the_model_where_that_is_negative(options):
    random = np.random.default_rng(0)
    X = random.standard_normal((100, 5))
    y = np.where(X[:, 0] + 0.5 > 0, 1, -1)
    if options.get("kernel") == "rbf":
        X, y = np.vstack([X, X[:2]]), np.append(y, -y[:2])
    options = options.copy()
    if options.pop("thin", False):
        X = sparse.csr_array(sparse.hstack([X, sparse.csr_array((len(y), 3000))]))
    seen = []
    options = {"callback": seen.append, "max_iter": 100, "random_state": 0} | options
    model = SublinearPerceptron(fit_intercept=False, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = model.fit(X, y).result_
    margin = (y * model.decision_function(X)).min()
    assert margin < 0
    assert result.primal == pytest.approx(margin, abs=1e-4)
    assert result.gap == result.dual - result.primal
    last = result.trace[-1]
    assert (last.primal, last.dual, last.gap) == (result.primal, result.dual, result.gap)
    if result.status != "stopped":
        assert f"with a gap of {result.gap:.2e}" in str(caught[-1].message)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("variant", "certify"),
    [
        *(("plain", way) for way in ("las_vegas", "exact", "sampled", None)),
        *(("variance_reduced", way) for way in ("las_vegas", "exact")),
    ],
)
def test_models_of_a_few_steps_have_norm_1(variant, certify):
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 5))
    y = X[:, 0] > 0
    few = [{"max_iter": n} for n in (1, 2, 10, 200)] + [{"max_accesses": n} for n in (320, 2000)]
    model = SublinearPerceptron(variant=variant, certify=certify, random_state=0)
    for limit in few:
        # 320 values: the first of the variance-reduced passes, which finds the mean of the rows
        fitted = clone(model).set_params(**limit).fit(X, y)
        w = np.append(fitted.coef_, fitted.intercept_)
        assert np.linalg.norm(w) == pytest.approx(1)
        if certify is not None:
            margin = (np.where(y, 1, -1) * fitted.decision_function(X)).min()
            assert fitted.result_.primal <= margin + 1e-12
    nothing = clone(model).set_params(max_accesses=1).fit(X, y)
    assert not nothing.coef_.any() and nothing.n_iter_ == 0
    assert not nothing.result_.primal > 0


def test_certify_sampled_and_exact_and_theory():
    for certify in ("sampled", "exact"):
        model = SublinearPerceptron(0.1, certify=certify, fit_intercept=False, random_state=0).fit(
            X60, Y60
        )
        assert model.result_.primal <= MARGIN + 1e-9 <= model.result_.dual + 1e-6
        assert len(model.result_.trace) == 1
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter"):
        model = SublinearPerceptron(0.001, constants="theory", max_iter=2000, random_state=0)
        model.fit(X60, Y60)
    assert model.n_iter_ == 2000


LAS_VEGAS = 'use certify="las_vegas"'
ENOUGH = "took the steps that epsilon=0.1 asks for"  # 5168


@pytest.mark.parametrize(
    "model, has, lacks",
    (
        (SublinearPerceptron(1e-9, max_iter=100), "epsilon or max_iter.", LAS_VEGAS),
        (SublinearPerceptron(1e-9, max_accesses=9000), "epsilon or max_accesses.", LAS_VEGAS),
        (SublinearPerceptron(1e-3, certify="exact", max_iter=9), LAS_VEGAS, "max_accesses"),
        (SublinearPerceptron(1e-9, variant="variance_reduced", certify="exact", max_iter=9),
         "epsilon or max_iter.", LAS_VEGAS),
        (MinimumEnclosingBall(0.1, certify="exact"), ENOUGH, "max_iter"),
        (MinimumEnclosingBall(0.1, certify="exact", max_iter=6000), ENOUGH, "max_iter"),
        (MinimumEnclosingBall(0.1, certify="exact", max_iter=5000),
         f"epsilon or max_iter, or {LAS_VEGAS}", ENOUGH),
        (L2SVMClassifier(max_iter=1), 'SDCAClassifier(loss="squared_hinge")', LAS_VEGAS),
        (L2SVMClassifier(max_iter=1, kernel="rbf"), "epsilon or max_iter.", LAS_VEGAS),
        (SIMBAClassifier(certify="exact", max_iter=5), LAS_VEGAS, "max_accesses"),
        (SIMBAClassifier(1e-9, epsilon=1e-9, max_iter=5), "epsilon or max_iter.", LAS_VEGAS),
        (MinimumEnclosingBall(1e-9, variant="plain", max_iter=16), "or max_iter.", LAS_VEGAS),
    ),
    ids=str,
)  # fmt: skip
def test_warnings_of_a_gap_advise_what_helps(model, has, lacks):
    X = np.random.default_rng(0).standard_normal((100, 5)) * [1, 1, 1, 10, 10]
    y = np.where(X[:, 0] + 0.5 > 0, 1, -1)
    if isinstance(model, MinimumEnclosingBall):
        X += 30  # plain steps see it from the origin
    with pytest.warns(ConvergenceWarning, match="with a (relative )?gap of") as caught:
        clone(model).set_params(random_state=0).fit(X, y)
    (message,) = (str(warning.message) for warning in caught)
    assert has in message and lacks not in message


def test_the_gap_of_a_warning_is_that_of_the_worst_class():
    model = SublinearPerceptron(1e-9, max_iter=100, random_state=0)
    with pytest.warns(ConvergenceWarning) as caught:
        result = model.fit(X60, np.arange(60) % 3).result_
    worst = max(part.gap for part in result.parts)
    assert f"with a gap of {worst:.2e}" in str(caught[0].message)


def test_sampled_certificates_of_no_steps_bound_nothing():
    options = {"certify": "sampled", "row_norm": 10.0, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        result = SublinearPerceptron(0.1, max_accesses=1, **options).fit(X60, Y60).result_
    assert (result.status, result.dual) == ("max_accesses", np.inf)


def test_sampled_certificates_reach_epsilon():
    random, n, d = np.random.default_rng(5), 20, 40_000
    direction = random.choice([-1, 1], d) / np.sqrt(d)
    y = random.choice([-1, 1], n)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    X += np.outer(y - X @ direction, direction)
    options = {"epsilon": 0.5, "row_norm": float(np.linalg.norm(X, axis=1).max() + 0.3)}
    model = SublinearPerceptron(certify="sampled", random_state=0, **options).fit(X, y)
    assert model.result_.certificate_accesses < X.size
    assert model.result_.status == "converged"


def test_budgets_are_hard():
    for estimator, variants in (
        (SublinearPerceptron, ("plain", "variance_reduced")),
        (MinimumEnclosingBall, ("plain", "variance_reduced", "active_set")),
    ):
        for variant in variants:
            for budget in (1, 700):
                with pytest.warns(ConvergenceWarning, match="max_accesses"):
                    model = estimator(1e-9, variant=variant, max_accesses=budget)
                    model.fit(X60, Y60)
                assert model.result_.accesses <= budget
                assert model.result_.status == "max_accesses"
                assert np.isfinite(model.result_.gap)


WIDE = make_planted_margin(600, 600, margin=0.2, random_state=0)[:2]
NORMAL = np.random.default_rng(0).normal(size=(300, 200)) / 20 + 0.1


def margin_within(budget, X=WIDE[0], y=WIDE[1], **options):
    return SublinearPerceptron(1e-9, max_accesses=budget, random_state=0, **options).fit(X, y)


def ball_within(budget, **options):
    ball = MinimumEnclosingBall(1e-9, nu=0.1, max_accesses=budget, random_state=0, **options)
    return ball.fit(NORMAL)


def program_within(budget, **options):
    return solve_simplex_qp(NORMAL, None, 1e-9, max_accesses=budget, random_state=0, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("fit", "size", "passes_of_plain", "passes_of_others"),
    (
        (margin_within, WIDE[0].size, (0.5, 1.9, 2.9), (4.5,)),
        (lambda budget, **options: margin_within(budget, X60, Y60, **options), 300, (0.9,), (2.5,)),
        (ball_within, NORMAL.size, (0.5, 1.9), (2.5,)),
        (program_within, NORMAL.size, (0.5, 1.9), (2.5,)),
    ),
    ids=("wide margin", "narrow margin", "ball", "program"),
)
def test_a_small_budget_takes_plain_steps(
    fit, size, passes_of_plain, passes_of_others, monkeypatch
):
    for limit in ("MOST_MEMBERS", "MOST_PRODUCTS"):  # no program takes working sets
        monkeypatch.setattr(f"sublinear.geometry.{limit}", 0)

    def trace(passes, **options):
        result = fit(int(passes * size), **options)
        trace = getattr(result, "result_", result).trace
        return [row._replace(seconds=0) for row in trace]

    for passes in passes_of_plain:
        assert trace(passes) == trace(passes, variant="plain")
    for passes in passes_of_others:
        assert trace(passes) == trace(passes, variant="variance_reduced")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("fit", "size", "n_passes"),
    (
        (lambda budget: margin_within(budget, variant="variance_reduced"), WIDE[0].size, 1),
        (lambda budget: L2SVMClassifier(max_accesses=budget, random_state=0).fit(*WIDE),
         WIDE[0].size, 1),
        (ball_within, NORMAL.size, 3),  # for norms and for the radius
    ),
    ids=("margin", "squared hinge", "ball"),
)  # fmt: skip
@pytest.mark.parametrize("passes", (2.3, 2.9))
def test_the_steps_of_a_stage_that_a_budget_ends_count(fit, size, n_passes, passes):
    """They were charged, and the model was still that of the stage's beginning."""
    result = fit(int(passes * size)).result_
    begun, ended = result.trace
    assert (begun.n_iter, ended.n_iter) == (0, result.n_iter)
    assert result.accesses > 2.2 * size
    assert result.certificate_accesses == n_passes * size
    assert ended.gap == result.gap < 0.8 * begun.gap


@pytest.mark.parametrize(
    ("fit", "least"),
    (
        (lambda budget: margin_within(budget, variant="variance_reduced"), 2 * WIDE[0].size),
        (lambda budget: L2SVMClassifier(max_accesses=budget, random_state=0).fit(*WIDE),
         2 * WIDE[0].size),
        (lambda budget: solve_matrix_game(NORMAL, 1e-9, max_accesses=budget), NORMAL.size),
        (lambda budget: MinimumEnclosingBall(max_accesses=budget).fit(NORMAL),
         NORMAL.size + 12 * (139 + 32) * 200),
    ),
    ids=("margin", "squared hinge", "game", "ball"),
)  # fmt: skip
def test_warnings_say_which_budget_would_do_for_a_step(fit, least):
    with pytest.warns(ConvergenceWarning, match=f"No step is taken below max_accesses={least}."):
        fit(least - 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fit(least)
    assert not any("No step" in str(warning.message) for warning in caught)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_ball_of_few_passes_is_not_worse_than_its_beginning():
    """The first working set's was, and the mean that rounds begin at was forgotten."""
    X = WIDE[0]
    beginning = MinimumEnclosingBall(max_accesses=1).fit(X)
    later = [MinimumEnclosingBall(max_accesses=budget).fit(X) for budget in (2_100_000, 2_900_000)]
    later.append(MinimumEnclosingBall(max_iter=1).fit(X))
    seen = []
    later.append(MinimumEnclosingBall(callback=lambda now: seen.append(now) or True).fit(X))
    for ball in later:
        assert ball.n_iter_ >= 1
        assert ball.radius_ <= beginning.radius_
        assert ball.radius_ == pytest.approx(np.sqrt(ball.result_.primal))
        distances = np.linalg.norm(X - ball.center_, axis=1)
        assert distances.max() == pytest.approx(ball.radius_, rel=1e-6)
    assert seen[0].primal <= beginning.result_.primal


def test_accesses_of_a_fit_without_certificate():
    """With row_norm given nothing but the lines drawn is read."""
    model = SublinearPerceptron(
        0.1, certify=None, row_norm=1.0, max_iter=160, fit_intercept=False, random_state=0
    ).fit(np.asfortranarray(np.tile(X60, (1, 10))), Y60)
    result = model.result_
    assert result.certificate_accesses == 0
    assert 0 < result.accesses == result.full_accesses
    broken = X60.copy()
    broken[7, 2] = np.nan
    model.set_params(row_norm=None)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, Y60)


def test_reproducible_and_independent_of_threads():
    y = np.arange(60) % 3
    fits = [
        SublinearPerceptron(0.2, max_iter=5000, random_state=3, n_jobs=n_jobs)
        for n_jobs in (1, 2, 1)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        coefs = [model.fit(X60, y).coef_ for model in fits]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    np.testing.assert_array_equal(coefs[0], coefs[2])
    assert len(fits[0].result_.parts) == 3


@pytest.mark.parametrize("make", (np.array, sparse.csr_array))
def test_working_sets_smaller_than_the_data_find_known_balls(make):
    """Also to gaps that products in float32 would not allow."""
    for epsilon, dtype in ((0.01, np.float32), (1e-5, np.float32), (1e-9, np.float64)):
        data = make_enclosing_ball(1500, 40, rank=10, dtype=dtype, random_state=1)
        ball = MinimumEnclosingBall(epsilon).fit(make(data.X))
        result = ball.result_
        assert result.status == "converged"
        assert result.relative_gap <= epsilon
        assert result.dual <= data.radius**2 * (1 + 1e-6) <= result.primal * (1 + 2e-6)
        assert np.count_nonzero(ball.dual_coef_) < 200
        assert result.accesses % 1 == 0 < result.accesses
        assert result.full_accesses >= result.n_iter * data.X.size


@pytest.mark.parametrize("epsilon", (0.01, 1e-6))
@pytest.mark.parametrize("n_features", (1, 2, 3, 5, 8))
def test_balls_in_low_dimensions_are_the_exact_ones(n_features, epsilon):
    random = np.random.default_rng(n_features)
    for X in (random.normal(size=(2000, n_features)), 5 + random.random(size=(50, n_features))):
        center, square = least_ball(X)
        ball = MinimumEnclosingBall(epsilon, random_state=0).fit(X)
        assert square * (1 - 1e-9) <= ball.radius_**2 <= square * (1 + epsilon) * (1 + 1e-9)
        # |x - c|^2 <= R^2(x) - R^2: the objective is strongly convex
        assert ((ball.center_ - center) ** 2).sum() <= epsilon * ball.radius_**2 + 1e-9


def test_balls_are_those_of_miniball():
    miniball = pytest.importorskip("miniball")
    X = np.random.default_rng(0).normal(size=(300, 3))
    _, square = miniball.get_bounding_ball(X)
    assert least_ball(X)[1] == pytest.approx(square)
    assert MinimumEnclosingBall(1e-6).fit(X).radius_ ** 2 == pytest.approx(square, rel=2e-6)


@pytest.mark.parametrize("shape", ({}, {"lean": 1.0}, {"rank": 20}, {"support": 0.02}))
@pytest.mark.parametrize("make", (np.array, sparse.csr_array))
def test_groups_of_rows_stand_for_most_of_a_working_set(make, shape):
    """Two passes, and candidates between them, where one by one hundreds of rows were needed."""
    data = make_enclosing_ball(1000, 300, dtype=np.float32, random_state=0, **shape)
    ball = MinimumEnclosingBall(0.02).fit(make(data.X))
    result, p = ball.result_, ball.dual_coef_
    assert result.relative_gap <= 0.02
    assert result.n_iter == 1
    assert result.accesses + result.certificate_accesses < 3.5 * data.X.size
    center = data.X.astype(np.float64).T @ p
    squares = ((data.X - center) ** 2).sum(axis=1)
    assert p.sum() == pytest.approx(1)
    assert p @ squares == pytest.approx(result.dual)


@pytest.mark.parametrize("offset", (0, 1e3))
@pytest.mark.parametrize("n_samples, n_features", ((300, 30000), (30000, 20)))
def test_a_ball_does_not_depend_on_the_threads_of_blas(n_samples, n_features, offset):
    X = np.random.default_rng(0).standard_normal((n_samples, n_features)).astype(np.float32)
    X += offset
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(MinimumEnclosingBall(1e-3).fit(X))
    assert found[0].result_.primal == found[1].result_.primal
    assert found[0].result_.dual == found[1].result_.dual
    np.testing.assert_array_equal(found[0].center_, found[1].center_)
    np.testing.assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)


def test_optimistic_games_of_known_value():
    game = make_matrix_game(60, 90, random_state=2)
    for scale in (1.0, 1e6, 1e-6):
        result = solve_matrix_game(scale * game.A, 0.01 * scale, variant="optimistic")
        assert result.status == "converged"
        assert result.accesses == result.n_iter * game.A.size
        assert abs(result.primal / scale - game.value) <= 0.01
        assert abs(result.dual / scale - game.value) <= 0.01


def random_games(n_seeds):
    """Games of many kinds, 1 x 1 to 60 x 60, on scales from 1e-300 to 1e290."""
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(1, 61, 2)
        normal, few = rng.normal(size=(n, d)), rng.random((n, d)) < 0.2
        small, square = normal[:5, :5], rng.normal(size=(n, n))
        dominated = np.vstack([normal, normal.max(axis=0) + 0.1])
        kinds = normal, few * normal, small, square - square.T, normal[:, :1] * normal[0], dominated
        scales = np.array([1.0, 1e-150, 1e150, 1e-300, 1e290, 1e6])
        yield from zip(kinds, np.roll(scales, seed), strict=True)


@pytest.mark.parametrize(
    "variant, epsilon, max_iter",
    (("optimistic", 2e-3, 5000), ("auto", 1e-8, 40), ("interior_point", 1e-8, 40)),
)
def test_games_of_many_kinds_converge(variant, epsilon, max_iter):
    """Optimistic steps judged one by one fail where softmax is saturated."""
    for A, scale in random_games(20):
        A, largest = A * scale, np.abs(A).max() * scale or 1.0
        result = solve_matrix_game(A, epsilon * largest, variant=variant, max_iter=max_iter)
        assert result.status == "converged"
        x, p = result.column_strategy, result.row_strategy
        assert x.min() >= 0 and p.min() >= 0
        assert x.sum() == pytest.approx(1) and p.sum() == pytest.approx(1)
        assert (A @ x).max() / largest - (A.T @ p).min() / largest <= epsilon + 1e-12


@pytest.mark.parametrize("seed, scale", ((120, 1.0), (77, 1e-150)))
def test_an_optimistic_game_is_certified_by_strategies_alone(seed, scale):
    """Rates beyond all numbers made strategies of 0, and certificates of these."""
    rng = np.random.default_rng(seed)
    A = scale * (rng.random((12, 10)) < 0.2) * rng.normal(size=(12, 10))
    result = solve_matrix_game(A, 1e-3 * scale, variant="optimistic", max_iter=60000)
    assert result.status == "converged"
    assert result.n_iter < 1000
    gap = (A @ result.column_strategy).max() - (A.T @ result.row_strategy).min()
    assert gap <= 1e-3 * scale
    game = Game(1.0)
    assert game.primal(np.zeros(2), np.zeros(2), 0.0, None)[1] == np.inf
    assert game.dual(np.zeros(2), np.zeros(2)) == -np.inf


@pytest.mark.parametrize("variant", ("plain", "variance_reduced", "optimistic", "interior_point"))
@pytest.mark.parametrize("scale", (1e-200, 1e200))
def test_games_need_no_norms(variant, scale):
    A = np.array([[1.0, 2.0], [0.0, 3.0]]) * scale
    result = solve_matrix_game(A, 0.01 * scale, variant=variant, random_state=0)
    assert result.status == "converged"
    assert result.primal == pytest.approx(scale, rel=0.02)


def test_variance_reduced_programs_do_not_creep():
    """Steps that slowed down too far once took the gap down by a thousandth a stage."""
    random = np.random.default_rng(116)
    n, d = random.integers(5, 100, 2)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.3)
    for seed in range(6):
        result = solve_simplex_qp(X, None, 0.0114, variant="variance_reduced", random_state=seed)
        assert result.status == "converged"
        assert result.n_iter < 200_000


def test_programs_take_working_sets_where_few_rows_can_have_weight():
    rows = 10 * (np.random.default_rng(0).normal(size=(3000, 5)) + 3)
    narrow = solve_simplex_qp(rows, random_state=0)
    assert narrow.status == "converged"
    assert narrow.n_iter <= 3
    assert vars(narrow) | {"seconds": 0, "p": 0, "trace": ()} == vars(
        solve_simplex_qp(rows, variant="active_set")
    ) | {"seconds": 0, "p": 0, "trace": ()}
    wide = solve_simplex_qp(sparse.eye_array(5000, format="csr"), epsilon=1e-5, random_state=0)
    assert wide.n_iter == 0  # no pass but the anchor, of equal weights


def test_programs_end_at_equal_weights_if_these_are_enough():
    result = solve_simplex_qp(np.eye(400), epsilon=1e-6)
    assert result.n_iter == 1
    assert result.primal == pytest.approx(1 / 400)
    np.testing.assert_allclose(result.p, 1 / 400)
    assert result.accesses <= 2 * 400**2


def test_rows_of_weight_zero_are_left_out():
    X = np.vstack([X60, 100 * X60[:3]])
    weights = np.append(np.full(60, 2.0), np.zeros(3))
    ball = MinimumEnclosingBall(random_state=0).fit(X, sample_weight=weights)
    assert ball.radius_ == MinimumEnclosingBall(random_state=0).fit(X60).radius_
    model = SublinearPerceptron(0.05, random_state=0)
    y = np.append(Y60, -Y60[:3])
    weighted = model.fit(X, y, sample_weight=weights).coef_.copy()
    np.testing.assert_array_equal(weighted, model.fit(X60, Y60).coef_)


def test_edges():
    assert MinimumEnclosingBall().fit([[3.0, 4.0]]).radius_ == 0
    assert MinimumEnclosingBall().fit([[1.0], [3.0]]).radius_ == pytest.approx(1.0, rel=0.01)
    assert MinimumEnclosingBall().fit(np.zeros((5, 3))).radius_ == 0
    model = SublinearPerceptron(0.01, fit_intercept=False).fit([[-1.0], [2.0]], [0, 1])
    assert model.result_.primal == pytest.approx(1.0)
    zeros = SublinearPerceptron(0.01, fit_intercept=False).fit(np.zeros((4, 3)), [0, 1, 0, 1])
    assert zeros.result_.status == "not_separable"
    columns = X60.copy()
    columns[:, 2] = 0
    for make in (np.array, sparse.csr_array):
        model = SublinearPerceptron(0.05, random_state=0).fit(make(columns), Y60)
        assert np.isfinite(model.result_.gap)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a number above 0"),
        ({"epsilon": -1}, "epsilon must be a number above 0"),
        ({"variant": "fast"}, "variant must be one of"),
        ({"certify": "maybe"}, "certify must be one of"),
        ({"constants": "lucky"}, "constants must be one of"),
        ({"batch_size": 0}, "batch_size must be an integer"),
        ({"max_accesses": 0}, "max_accesses must be an integer"),
        ({"variant": "variance_reduced", "certify": None}, "needs certify="),
        ({"variant": "variance_reduced", "constants": "theory"}, "needs variant="),
        ({"variant": "optimistic"}, "variant must be one of"),
    ],
)
@pytest.mark.parametrize("estimator", (SublinearPerceptron, MinimumEnclosingBall))
def test_bad_parameters(estimator, parameters, message):
    with pytest.raises(ValueError, match=message):
        estimator(**parameters).fit(X60, Y60)


@pytest.mark.parametrize("nu", (-0.1, 1.1, np.nan, "half"))
def test_bad_nu(nu):
    with pytest.raises(ValueError, match="nu must be a number of at least 0 and at most 1"):
        MinimumEnclosingBall(nu=nu).fit(POINTS)


def test_bad_parameters_of_the_perceptron():
    with pytest.raises(ValueError, match="delta"):
        SublinearPerceptron(delta=0).fit(X60, Y60)
    with pytest.raises(ValueError, match="row_norm"):
        SublinearPerceptron(row_norm=0).fit(X60, Y60)
    with pytest.raises(ValueError, match="certify must be one of"):
        MinimumEnclosingBall(certify="sampled").fit(X60)


def test_callback_stops_and_snapshots_have_the_margin():
    seen = []

    def callback(snapshot):
        seen.append(snapshot)
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SublinearPerceptron(1e-9, random_state=0, callback=callback).fit(X60, Y60)
    assert model.result_.status == "stopped"
    assert seen[0].primal <= MARGIN + 0.2
    assert seen[0].primal <= seen[0].dual
    MinimumEnclosingBall(1e-12, callback=callback).fit(POINTS)
    assert seen[1].coef.shape == (4,)


def lp_value(A):
    """The value of a matrix game, from HiGHS."""
    n, d = A.shape
    found = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=np.column_stack([A, -np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[[1.0] * d + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * d + [(None, None)],
    )
    return found.fun


@pytest.mark.parametrize("variant", ("plain", "variance_reduced", "optimistic"))
def test_games_bracket_the_value_of_the_linear_program(variant):
    A = np.random.default_rng(3).uniform(-1, 1, (15, 20))
    value = lp_value(A)
    for seed in range(100):
        result = solve_matrix_game(A, 0.1, variant=variant, random_state=seed)
        assert result.status == "converged"
        assert result.gap <= 0.1
        assert result.dual - 1e-9 <= value <= result.primal + 1e-9
        x, p = result.column_strategy, result.row_strategy
        assert x.min() >= 0 and p.min() >= 0
        assert x.sum() == pytest.approx(1) and p.sum() == pytest.approx(1)
        assert (A @ x).max() == pytest.approx(result.primal, abs=1e-9)
        assert (A.T @ p).min() == pytest.approx(result.dual, abs=1e-9)


def test_games_of_extreme_shapes():
    for A in (
        np.zeros((3, 2)),
        np.array([[2.0]]),
        np.array([[1.0, -3.0]]),
        np.array([[1.0], [4.0]]),
    ):
        for make in (np.asarray, sparse.csr_array):
            result = solve_matrix_game(make(A), 0.05, random_state=0)
            assert result.gap <= 0.05
            assert abs(result.primal - lp_value(A)) <= 0.05
    uncertified = solve_matrix_game(np.eye(4), 0.5, certify=None, random_state=0)
    assert uncertified.status == "uncertified"
    assert uncertified.row_strategy.sum() == pytest.approx(1)


def qp_value(A, b):
    """min p'b + |A'p|^2 over the simplex, from SciPy."""
    found = minimize(
        lambda p: p @ b + ((A.T @ p) ** 2).sum(),
        np.full(len(b), 1 / len(b)),
        jac=lambda p: b + 2 * A @ (A.T @ p),
        bounds=[(0, 1)] * len(b),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success
    return found.fun


@pytest.mark.parametrize("variant", ("plain", "variance_reduced", "active_set"))
def test_simplex_qps_are_within_epsilon_for_a_hundred_seeds(variant):
    random = np.random.default_rng(4)
    A, b = random.normal(size=(20, 6)) / 3 + 0.3, random.normal(size=20) / 5
    value = qp_value(A, b)
    epsilon = 0.1 if variant == "plain" else 0.01
    for seed in range(100):
        result = solve_simplex_qp(A, b, epsilon, variant=variant, random_state=seed)
        assert result.status == "converged"
        assert result.gap <= epsilon
        assert result.dual - 1e-9 <= value <= result.primal + 1e-9
        p = result.p
        assert p @ b + ((A.T @ p) ** 2).sum() == pytest.approx(result.primal, abs=1e-9)
        assert all(row.gap >= 0 and row.primal >= row.dual for row in result.trace)


@pytest.mark.parametrize("variant", ("plain", "variance_reduced", "active_set"))
@pytest.mark.parametrize("offset", (1e3, 1e8))
def test_simplex_qps_of_long_rows_count_rounding(variant, offset):
    A = np.random.default_rng(4).normal(size=(20, 6)) + offset
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = solve_simplex_qp(A, epsilon=0.1, variant=variant, max_iter=20_000, random_state=0)
    if offset == 1e8:
        assert result.status in ("max_iter", "rounding")
        assert result.gap > 0.1
        assert variant == "plain" or "rounding" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve_simplex_qp(A, epsilon=1e-9, variant="active_set", max_iter=50)
    values = [((np.longdouble(A).T @ found.p) ** 2).sum() for found in (result, best)]
    assert result.dual <= min(values) + 1e-6
    assert values[0] <= result.primal + 1e-6


def test_errors_of_steps_name_the_parameter():
    message = "^A holds NaN, infinity or values whose sums leave the range"
    large = np.random.default_rng(0).normal(size=(20, 15)) * 1e305
    with pytest.raises(ValueError, match=message):
        solve_matrix_game(large, 1e300, variant="plain", max_iter=20_000, random_state=0)


def test_bad_games_and_qps():
    for solve in (solve_matrix_game, solve_simplex_qp):
        with pytest.raises(ValueError, match="NaN"):
            solve(np.array([[np.nan, 1.0]]))
        with pytest.raises(ValueError, match="epsilon"):
            solve(np.eye(2), epsilon=0)
        with pytest.raises(ValueError, match="certify must be one of"):
            solve(np.eye(2), certify="sampled")
        with pytest.warns(ConvergenceWarning, match="max_accesses"):
            solve(np.random.default_rng(0).normal(size=(5, 5)), epsilon=1e-9, max_accesses=1)
    with pytest.raises(ValueError, match="b must be 2 finite numbers"):
        solve_simplex_qp(np.eye(2), [1.0])
    with pytest.raises(ValueError, match="b must be real, got complex numbers"):
        solve_simplex_qp(np.eye(2), [1j, 1.0])
    with pytest.raises(
        ValueError, match=r"row_norm must be a number of at least 1e-150 and at most 1e\+150"
    ):
        solve_simplex_qp(np.eye(2), variant="plain", row_norm=1e200)


@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize(
    "model",
    (
        SublinearPerceptron(1e-171, fit_intercept=False),
        SublinearPerceptron(1e-171, fit_intercept=False, variant="plain", max_iter=100),
        SIMBAClassifier(max_iter=100),
        MinimumEnclosingBall(),
        MinimumEnclosingBall(variant="variance_reduced"),
        MinimumEnclosingBall(variant="plain"),
    ),
    ids=str,
)
def test_rows_whose_squares_underflow_are_refused(model, make):
    with pytest.raises(ValueError, match="squared norms of all rows underflow: scale the data up"):
        model.fit(make(X60 * 1e-170), Y60)
    assert not hasattr(model, "result_")


@pytest.mark.parametrize("options", ({}, {"kernel": "rbf"}))
def test_classes_that_an_interrupt_kept_from_starting_have_no_bound(options):
    def stop(snapshot):
        raise KeyboardInterrupt

    model = SublinearPerceptron(callback=stop, random_state=0, **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X60, np.arange(60) % 3)
    assert [part.dual for part in model.result_.parts[1:]] == [np.inf, np.inf]
    assert model.result_.dual == np.inf


@pytest.mark.parametrize("estimator", (SublinearPerceptron, MinimumEnclosingBall))
def test_stages_end_at_max_iter(estimator):
    X, y = np.repeat(X60, 50, axis=0), np.repeat(Y60, 50)
    for max_iter in (1, 40):
        model = estimator(1e-9, variant="variance_reduced", batch_size=4, max_iter=max_iter)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(X, y)
        assert model.n_iter_ == max_iter
        assert np.isfinite(model.result_.gap)


@pytest.mark.parametrize("max_iter", (1, 50, 100))
@pytest.mark.parametrize(
    "fit",
    (
        lambda A, y, **given: SublinearPerceptron(1e-9, **given).fit(A, y).result_,
        lambda A, y, **given: SublinearPerceptron(1e-9, variant="plain", **given).fit(A, y).result_,
        lambda A, y, **given: SublinearPerceptron(1e-9, kernel="rbf", **given).fit(A, y).result_,
        lambda A, y, **given: SublinearPerceptron(1e-3, certify="exact", **given).fit(A, y).result_,
        lambda A, y, **given: L2SVMClassifier(epsilon=1e-9, **given).fit(A, y).result_,
        lambda A, y, **given: (
            MinimumEnclosingBall(1e-9, variant="variance_reduced", **given).fit(A).result_
        ),
        lambda A, y, **given: solve_simplex_qp(
            A, epsilon=1e-9, variant="variance_reduced", batch_size=64, **given
        ),
        lambda A, y, **given: solve_matrix_game(A, 1e-9, variant="plain", **given),
    ),
)
def test_no_fit_draws_more_rows_than_max_iter(fit, max_iter):
    random = np.random.default_rng(0)
    wide = sparse.random_array((100, 5000), density=0.002, rng=random, format="csr")
    for A in (random.normal(size=(100, 20)), wide):
        with pytest.warns(ConvergenceWarning):
            result = fit(A, random.choice([-1, 1], 100), max_iter=max_iter, random_state=0)
        assert (result.status, max_iter // 2 < result.n_iter <= max_iter) == ("max_iter", True)


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("alpha", (0.5, 0.01))
def test_squared_hinge_agrees_with_dual_coordinate_ascent(weighted, alpha):
    random = np.random.default_rng(0)
    y = np.where(random.random(60) < 0.2, -Y60, Y60)
    weights = random.integers(0, 3, 60) if weighted else None
    exact = SDCAClassifier("squared_hinge", alpha=alpha, tol=1e-9, max_iter=10_000)
    optimum = exact.fit(X60, y, sample_weight=weights).result_
    for make in (np.asarray, sparse.csr_array):
        model = L2SVMClassifier(alpha, 0.01, random_state=0)
        result = model.fit(make(X60), y, sample_weight=weights).result_
        assert result.status == "converged"
        assert result.relative_gap <= 0.01
        assert result.dual - 1e-9 <= optimum.primal <= result.primal + 1e-9
        margins = y * model.decision_function(X60)
        losses = np.maximum(0, 1 - margins) ** 2
        square = (model.coef_**2).sum() + model.intercept_[0] ** 2
        value = alpha / 2 * square + np.average(losses, weights=weights)
        assert value == pytest.approx(result.primal, rel=1e-9)


def test_a_constant_added_to_a_game_costs_no_steps():
    A, epsilon = np.random.default_rng(0).uniform(-1, 1, size=(30, 20)), 0.1
    for certify, variant in ((None, "plain"), ("las_vegas", "variance_reduced")):
        given = {"certify": certify, "variant": variant, "random_state": 0}
        here, there = (solve_matrix_game(A + c, epsilon, **given) for c in (0, 1000))
        gap = (A @ there.column_strategy).max() - (there.row_strategy @ A).min()
        assert gap <= epsilon
        assert there.n_iter <= 1.1 * here.n_iter
    assert solve_matrix_game(np.full((3, 4), 7.0), certify="exact").gap <= 1e-9


@pytest.mark.parametrize("kernel", ("linear", "rbf"))
@pytest.mark.parametrize("alpha", (1.0, 1e3, 1e8))
def test_l2_svm_with_uneven_weights_takes_as_few_steps_as_with_copies(alpha, kernel):
    counts = np.arange(60) % 3 + 1
    weighted, copies = (L2SVMClassifier(alpha, kernel=kernel, random_state=0) for _ in range(2))
    weighted.fit(X60, Y60, sample_weight=counts)
    copies.fit(np.repeat(X60, counts, axis=0), np.repeat(Y60, counts))
    assert weighted.result_.status == copies.result_.status == "converged"
    assert weighted.n_iter_ <= 2 * copies.n_iter_ + 1000
    assert weighted.result_.primal == pytest.approx(copies.result_.primal, rel=0.02)


def test_squared_hinge_of_long_rows_counts_rounding():
    """Sums of rows of both classes cancel; exact ones are made of fractions."""
    random = np.random.default_rng(0)
    for _ in range(20):
        A = random.normal(size=(60, 3)) + 1e9
        y = np.where(np.arange(60) % 2, 1.0, -1.0)
        p = np.repeat(random.dirichlet(np.ones(30)), 2) / 2
        problem = SquaredHinge(y, np.full(60, 1e-6), 1.0, 0.01)
        longest = np.linalg.norm(A, axis=1).max()
        exact = [
            sum(Fraction(float(v)) * Fraction(float(u)) for v, u in zip(y * p, column, strict=True))
            for column in A.T
        ]
        square = sum(value**2 for value in exact) + sum(Fraction(1e-6 * q) ** 2 for q in p)
        assert problem.dual(p, (y * p) @ A, longest) <= float(1 / (2 * square)) * (1 + 1e-12)
        assert problem.rounding > 0
        x = random.normal(size=3)
        payoffs = y * (A @ x)
        margins = [
            Fraction(float(sign))
            * sum(Fraction(u) * Fraction(v) for u, v in zip(row, x, strict=True))
            for sign, row in zip(y, A, strict=True)
        ]
        model, primal = problem.primal(x, payoffs, longest, lambda x: x)
        scale = Fraction(model[0]) / Fraction(x[0])
        losses = sum(max(0, 1 - scale * margin) ** 2 for margin in margins)
        value = (sum(Fraction(v) ** 2 for v in model) + losses * 10**12) / 2
        assert float(value) <= primal * (1 + 1e-12)


@pytest.mark.parametrize("scale", (1e-130, 1e80, 1e140))
def test_squared_hinge_on_extreme_scales(scale):
    """Squares of payoffs, which are squares themselves, left the range of numbers."""
    model = L2SVMClassifier(0.1 * scale**2, fit_intercept=False, random_state=0)
    result = model.fit(X60 * scale, Y60).result_
    expected = L2SVMClassifier(0.1, fit_intercept=False, random_state=0).fit(X60, Y60).result_
    assert result.status == "converged"
    assert result.primal == pytest.approx(expected.primal, rel=0.02)


def test_l2_svm_edges():
    model = L2SVMClassifier(random_state=0).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert model.result_.primal == pytest.approx(1.0, rel=0.01)
    multi = L2SVMClassifier(0.1, random_state=0).fit(X60, np.arange(60) % 3)
    assert multi.coef_.shape == (3, 5)
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        L2SVMClassifier(1e-6, 1e-12, max_accesses=10).fit(X60, Y60)
    with pytest.raises(ValueError, match="alpha"):
        L2SVMClassifier(0).fit(X60, Y60)


def wide(n=400, d=3000, per_row=5, seed=0):
    """Sparse rows of which a plane through the origin separates two classes."""
    random = np.random.default_rng(seed)
    columns = random.integers(d, size=(n, per_row))
    columns[:, 0] = random.integers(10, size=n)
    X = np.zeros((n, d))
    np.put_along_axis(X, columns, random.random((n, per_row)) / 4, axis=1)
    y = random.choice([-1, 1], n)
    X[np.arange(n), columns[:, 0]] = np.where(columns[:, 0] < 5, y, -y)
    return sparse.csr_array(X), y


@pytest.mark.parametrize("fit_intercept", (False, True))
def test_plain_steps_over_wide_sparse_rows_read_lines_alone(fit_intercept):
    X, y = wide()
    model = SublinearPerceptron(
        0.05, variant="plain", fit_intercept=fit_intercept, random_state=0
    ).fit(X, y)
    assert model.result_.status == "converged"
    scores = y * (X @ model.coef_[0] + model.intercept_[0])
    assert scores.min() == pytest.approx(model.result_.primal, abs=1e-9)
    assert model.result_.dual - 0.05 <= model.result_.primal <= model.result_.dual
    reduced = SublinearPerceptron(0.01, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    assert model.result_.primal <= reduced.result_.dual
    assert reduced.result_.primal <= model.result_.dual
    batches = SublinearPerceptron(
        0.05, variant="plain", fit_intercept=fit_intercept, batch_size=64, random_state=0
    ).fit(X, y)
    assert batches.result_.primal <= model.result_.dual


def test_distances_of_rows_whose_entries_stand_twice():
    X = np.array([[3.0, 0], [0, 1], [-3, 0]])
    twice = sparse.csr_array(([5.0, -2, 1, -3], [0, 0, 1, 0], [0, 2, 3, 4]), shape=(3, 2))
    model = MinimumEnclosingBall(epsilon=1e-6).fit(twice)
    np.testing.assert_allclose(model.score_samples(twice), model.score_samples(X))
    assert model.predict(twice).tolist() == [1, 1, 1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        SublinearPerceptron(epsilon=1e-160, max_iter=500),
        SublinearPerceptron(epsilon=1e-160, max_iter=500, variant="plain"),
        MinimumEnclosingBall(epsilon=1e-160, max_iter=500),
        L2SVMClassifier(epsilon=1e-160, max_iter=500),
    ],
)
def test_an_epsilon_close_to_zero(model):
    model.fit(np.eye(3), [0, 1, 0])
    assert model.result_.status in ("converged", "max_iter", "rounding") and model.n_iter_ < 600


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_theory_takes_the_steps_of_the_ball_in_the_space_of_a_kernel_too():
    """A linear kernel by another name has the same inner products; few steps read a kernel row."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    options = {"certify": "exact", "constants": "theory", "max_iter": 300_000, "random_state": 0}
    linear = MinimumEnclosingBall(0.5, variant="plain", **options).fit(X)
    kernel = MinimumEnclosingBall(0.5, kernel="poly", degree=1, gamma=1.0, coef0=0.0, **options)
    assert kernel.fit(X).n_iter_ <= 4 * linear.n_iter_
    X = np.random.default_rng(0).normal(size=(500, 3))
    result = kernel.set_params(epsilon=0.2).fit(X).result_
    assert result.accesses / X.size < result.n_iter / 2


def test_stages_of_few_rows_are_long_enough_for_their_certificates():
    X = np.random.default_rng(0).normal(size=(4, 4)) + 100
    result = L2SVMClassifier(alpha=0.01, random_state=0).fit(X, [0, 1, 0, 1]).result_
    assert result.status == "converged"
    assert len(result.trace) < 2000


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("variant", ["auto", "plain", "variance_reduced"])
def test_squared_distances_out_of_range_are_refused(variant, make):
    """They may be four times as large as squared norms, which are in range."""
    X = 1.3e154 * np.array([[1.0, 0.1], [1.0, -0.1], [1.0, 0.0], [0.9, 0.0]])
    assert np.isfinite((X**2).sum(axis=1)).all()
    with pytest.raises(ValueError, match="squared norm of a row overflows: scale X down"):
        MinimumEnclosingBall(variant=variant).fit(make(X))
    if variant == "auto":
        with pytest.raises(ValueError, match="squared norm of a row overflows: scale A down"):
            solve_simplex_qp(make(X))
