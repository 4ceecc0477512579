"""The primal-dual solvers: step by step against their oracles, estimates, counts, limits."""

import itertools

import numpy as np
import pytest
from reference.sampling import Inverted, reweighted
from reference.sublinear_perceptron import perceptron
from reference.sublinear_simplex_qp import simplex_qp
from scipy import sparse
from stepping import bits, unchanged

from sublinear._core.matrix import Matrix
from sublinear._saddle_problems import EnclosingBall, Game, Margin, SimplexQP
from sublinear._solvers.primal_dual import SublinearPrimalDual, VarianceReducedPrimalDual

N, D, T = 16, 7, 60
NO_LIMIT = 2**62


def uniforms():
    """Draws by inversion of the same uniform numbers as the solver's."""
    return Inverted(bits().doubles(100_000))


@pytest.fixture
def data():
    random = np.random.default_rng(5)
    A = random.normal(size=(N, D))
    A[random.random(A.shape) < 0.3] = 0
    A[:, 0] += 0.8
    # sums over sixteen rows of multiples of 1/64 are exact: x = A'p then stays where it is
    A = np.round(64 * A / np.linalg.norm(A, axis=1).max()) / 64
    signs = np.where(random.random(N) < 0.5, -1.0, 1.0)
    return A, signs, random.normal(size=N) / 4


def plain(problem, matrix, **changes):
    given = {"batch_size": 1, "round_steps": T, "growth": 1, "primal_rate": 1.0, "dual_rate": 0.5}
    return SublinearPrimalDual(problem, matrix, bits(), **(given | changes))


def means(steps):
    xs, ps, _ = zip(*itertools.islice(steps, T), strict=True)
    return np.mean(xs, axis=0), np.mean(ps, axis=0)


ETA = 0.5 * np.sqrt(np.log(N) / T)


def test_perceptron_follows_figure_3(data):
    A, signs, _ = data
    solver = plain(Margin(signs, 1.0), Matrix(sparse.csr_array(A * signs[:, None])))
    assert solver.advance(NO_LIMIT)
    for ours, theirs in zip(solver.means(), means(perceptron(A, T, ETA, uniforms())), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_enclosing_ball_and_simplex_qp_follow_section_iii(data):
    A, _, b = data
    solver = plain(SimplexQP(b, 1.0), Matrix(sparse.csr_array(A)))
    assert solver.advance(NO_LIMIT)
    chance = min(1, np.log(T) / np.sqrt(T * np.log(N)))
    theirs = means(simplex_qp(A, b, T, ETA, chance, uniforms()))
    for ours, other in zip(solver.means(), theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-12)


def simultaneous_game(A, etas, draws):
    """Section IV-A of the paper; row and column of a step are drawn before either player moves."""
    eta, column_eta = etas
    x, p = np.full(D, 1 / D), np.full(N, 1 / N)
    while True:
        i, j = draws.row(p), draws.column(x)
        yield x, p, i
        x, p = reweighted(x, A[i], column_eta), reweighted(p, -A[:, j], eta)


def test_game_follows_section_iv_in_slices_too(data):
    A, _, _ = data
    solver = plain(Game(1.0), Matrix(sparse.csr_array(A)))
    while not solver.advance(solver.accesses + N + D):
        pass
    etas = ETA, 0.5 * np.sqrt(np.log(D) / T)
    theirs = means(simultaneous_game(A, etas, uniforms()))
    for ours, other in zip(solver.means(), theirs, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9)


@pytest.mark.parametrize("make", (sparse.csr_array, np.array, np.asfortranarray))
def test_a_constant_added_to_a_game_leaves_steps_as_they_are(data, make):
    A, _, _ = data
    for method in (plain, reduced):
        found = []
        for middle in (0.0, 64.0):
            solver = method(Game(1.0, middle), Matrix(make(A + middle)))
            for _ in range(4):
                solver.advance(NO_LIMIT)
            found.append(solver.means())
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def reduced(problem, matrix, random=None, **changes):
    given = {"batch_size": 2, "stage_steps": 8, "primal_rate": 0.2, "dual_rate": 0.5}
    return VarianceReducedPrimalDual(problem, matrix, random or bits(), **(given | changes))


def nearly_exp(z):
    return (12 - 6 * z + z**2) / (12 + 6 * z + z**2)


def stage(A, x0, p0, move_x, rate, gain, known, centred, steps, batch, draws):
    """One stage of the variance-reduced method; returns the means of x and p."""
    x, p, xs, ps = x0, p0, [], []
    for _ in range(steps):
        xs.append(x)
        ps.append(p)
        dp, dx = p - p0, x - x0
        gradient, payoffs = A.T @ p0, np.zeros(len(A))
        if dp.any():
            for _ in range(batch):
                chances = abs(dp) / abs(dp).sum()
                i = draws.row(chances)
                row = A[i] - x0 if centred else A[i]
                gradient = gradient + row * dp[i] / chances[i] / batch
        chances = abs(dx) if move_x is move_simplex else dx**2
        if dx.any():
            chances = chances / chances.sum()
            for _ in range(batch):
                j = draws.column(chances)
                column = A[:, j] - x0[j] if centred else A[:, j]
                payoffs = payoffs + column * dx[j] / chances[j] / batch
        p = p * np.exp(-known) * nearly_exp(np.clip(gain * payoffs, -1, 1))
        p = p / p.sum()
        x = move_x(x, gradient, A.T @ p0, rate)
    return np.mean(xs, axis=0), np.mean(ps, axis=0)


def move_ball(x, gradient, *_):
    x = x + 0.2 * gradient
    return x / max(1, np.linalg.norm(x))


def move_hull(x, gradient, *_):
    return x + 0.2 * (gradient - x)


def move_simplex(x, gradient, known, rate):
    x = x * np.exp(-rate * known) * nearly_exp(np.clip(rate * (gradient - known), -1, 1))
    return x / x.sum()


@pytest.mark.parametrize("geometry", ("ball", "hull", "simplex"))
def test_variance_reduction_follows_its_oracle(data, geometry):
    A, signs, b = data
    mean, p = A.mean(axis=0), np.full(N, 1 / N)
    if geometry == "ball":
        problem, x = Margin(signs, 1.0), mean / np.linalg.norm(mean)
        X, move, factor, centred = A * signs[:, None], move_ball, 1, False
    elif geometry == "hull":
        problem, X, x, move, factor, centred = SimplexQP(b, 1.0), A, mean, move_hull, 2, True
    else:
        problem, X, x, move, factor, centred = Game(1.0), A, np.full(D, 1 / D), move_simplex, -1, 0
    solver = reduced(problem, Matrix(sparse.csr_array(X)))
    draws = uniforms()
    assert solver.advance(NO_LIMIT)  # the pass at the first anchor
    rate, gap_to_beat = 0.5, np.inf
    for _ in range(3):
        _, primal, dual = solver.certify(lambda x: x)
        if geometry != "ball":
            rate = 1.1 * rate if primal - dual < 0.999 * gap_to_beat else max(0.5, 0.7 * rate)
        gap_to_beat = min(gap_to_beat, primal - dual)
        gain = factor * rate
        known = gain * (A @ x) + (rate * b if geometry == "hull" else 0)
        x, p = stage(A, x, p, move, rate, gain, known, centred, 8, 2, draws)
        assert solver.advance(NO_LIMIT)
        np.testing.assert_allclose(solver.x_state["anchor"], x, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(solver.p_state["anchor"], p, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("layout", ("C", "F", "csr"))
@pytest.mark.parametrize("geometry", ("ball", "hull", "simplex"))
def test_estimates_are_unbiased(layout, geometry):
    """The mean of many estimates of A x and A'p, from single lines and from adjacent ones."""
    random = np.random.default_rng(1)
    A = random.normal(size=(40, 50))
    make = sparse.csr_array if layout == "csr" else lambda A: np.array(A, order=layout)
    problem = {"ball": Margin(np.ones(40), 1.0), "hull": SimplexQP(np.zeros(40), 1.0)}.get(
        geometry, Game(1.0)
    )
    matrix = Matrix(make(A))
    x0, x = random.dirichlet(np.ones(50), 2)
    p0, p = random.dirichlet(np.ones(40), 2)
    seen_p, seen_x = [], []
    for seed in range(400):
        solver = reduced(problem, matrix, random=bits(seed), batch_size=16, stage_steps=1)
        solver.advance(NO_LIMIT)
        solver.x_state["anchor"][:], solver.p_state["anchor"][:] = x0, p0
        solver.x_state["value"][:], solver.p_state["value"][:] = x, p
        solver.advance(NO_LIMIT)
        seen_p.append(solver.p_state["response"] - A @ (x - x0))
        seen_x.append(solver.x_state["response"] - A.T @ (p - p0))
    for seen in (np.array(seen_p), np.array(seen_x)):
        error = seen.mean(axis=0) / (seen.std(axis=0) / np.sqrt(len(seen)) + 1e-12)
        assert np.abs(error).max() < 5
        assert np.abs(seen).max() > 1e-6


@pytest.mark.parametrize("make", (sparse.csr_array, np.array, np.asfortranarray))
@pytest.mark.parametrize("method", (plain, reduced))
def test_budget_is_never_exceeded_and_used_to_the_last_step(data, make, method):
    A, signs, _ = data
    for budget in (0, 1, N * D - 1, 500):
        solver = method(Margin(signs, 1.0), Matrix(make(A)))
        for _ in range(50):
            solver.advance(budget)
        assert solver.accesses <= budget
        assert solver.accesses > budget - N * D - 2 * (N + D) * 16


def test_certificates_within_a_stage_take_a_pass_and_may_find_a_better_x(data):
    """At an anchor they are free; a budget may end a fit where they are not."""
    A, signs, _ = data
    A = A * signs[:, None]
    n_better = 0
    for seed in range(20):
        solver = reduced(Margin(np.ones(N), 1.0), Matrix(A), bits(seed))
        solver.advance(NO_LIMIT)
        _, at_anchor, dual = solver.certify(unchanged)
        assert solver.problem.accesses == 0
        assert not solver.advance(solver.accesses + 8 * (N + D))
        x, p = solver.means()
        primal = -(A @ x).min() / np.linalg.norm(x)
        model, value, bound = solver.certify(unchanged)
        assert solver.problem.accesses == A.size
        assert value == pytest.approx(min(at_anchor, primal))
        assert value == pytest.approx(-(A @ model).min())
        assert bound == pytest.approx(max(dual, -np.linalg.norm(A.T @ p)))
        n_better += primal < at_anchor
    assert 0 < n_better < 20


def test_accesses_are_those_of_the_lines_drawn(data):
    """Sparse lines cost their stored entries, and in the papers' accounting all of them."""
    A, signs, _ = data
    A = A * signs[:, None]
    solver = plain(Margin(signs, 1.0), Matrix(sparse.csr_array(A)))
    solver.advance(NO_LIMIT)
    draws, stored, full = uniforms(), 0, 0
    row, column = draws.row, draws.column

    def counted_row(chances):
        nonlocal stored, full
        i = row(chances)
        stored, full = stored + np.count_nonzero(A[i]), full + D
        return i

    def counted_column(chances):
        nonlocal stored, full
        j = column(chances)
        stored, full = stored + np.count_nonzero(A[:, j]), full + N
        return j

    draws.row, draws.column = counted_row, counted_column
    list(perceptron(A * signs[:, None], T, ETA, draws))
    assert (solver.accesses, solver.full_accesses) == (stored, full)
    assert solver.n_iter == T


def test_dense_and_sparse_passes_give_the_same_certificate(data):
    A, signs, _ = data
    values = [
        reduced(Margin(signs, 1.0), Matrix(make(A))).certify(unchanged)[1:]
        for make in (sparse.csr_array, np.array, np.asfortranarray)
    ]
    np.testing.assert_allclose(values, values[:1] * 3, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("method", (plain, reduced))
def test_what_is_read_and_not_finite_is_an_error(data, method):
    A, signs, _ = data
    for bad in (np.nan, np.inf):
        broken = A.copy()
        broken[3] = bad
        solver = method(Margin(signs, 1.0), Matrix(broken))
        with pytest.raises(ValueError, match="X holds NaN"):
            for _ in range(20):
                solver.advance(NO_LIMIT)
                solver.certify(unchanged)


@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_sampled_certificates_hold(constant):
    """Corollary II.9 on wide data, where it reads less than a pass."""
    random = np.random.default_rng(0)
    n, d = 5, 60_000
    A = random.normal(size=(n, d)) / np.sqrt(d) / 2 + 1 / np.sqrt(d)
    A *= np.sqrt(1 - constant**2) / np.linalg.norm(A, axis=1).max()
    for seed in range(10):
        solver = SublinearPrimalDual(
            Margin(np.ones(n), 1.0),
            Matrix(A, constant),
            bits(seed),
            batch_size=16,
            round_steps=30,
            growth=1,
            primal_rate=30.0,
            dual_rate=2.0,
            sampled=(0.05, 0.1),
        )
        solver.advance(NO_LIMIT)
        model, primal, dual = solver.certify(unchanged)
        exact = (A @ model[:d]).min() + constant * model[d:].sum()
        assert solver.problem.accesses < A.size
        assert -primal <= exact + 1e-12
        assert exact + primal <= 0.1 + 1e-12
        assert dual <= primal


def test_ball_of_one_point_and_of_equal_points():
    for X in (np.full((1, 3), 1e3), np.full((4, 2), -7.0), np.zeros((3, 1))):
        squares = (X**2).sum(axis=1)
        rounding = 1e-13 * squares.max()
        for zero in (rounding, -np.inf):  # whether the points are known to be equal
            solver = reduced(EnclosingBall(squares, zero=zero), Matrix(X))
            solver.advance(NO_LIMIT)
            x, primal, dual = solver.certify(unchanged)
            np.testing.assert_allclose(x, X[0])
            assert dual == 0
            assert primal <= rounding
            assert (primal == 0) == (zero == rounding or not X.any())
