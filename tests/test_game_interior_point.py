"""Matrix games by the interior point method: steps, known values, limits, when it begins."""

import itertools

import numpy as np
import pytest
from reference.certificates import matrix_game
from reference.game_interior_point import game_interior_point
from scipy import sparse
from scipy.linalg import LinAlgError
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sublinear import solve_matrix_game
from sublinear._solvers import game_interior_point as solver_file
from sublinear.data import FeatureOracle

DENSE = np.random.default_rng(0).uniform(-1, 1, (40, 30))


def lp_value(A):
    n, d = A.shape
    return linprog(
        np.append(np.zeros(d), 1),
        A_ub=np.hstack([A, -np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=[np.append(np.ones(d), 0)],
        b_eq=[1],
        bounds=[(0, None)] * d + [(None, None)],
    ).fun


def degenerate_games():
    random = np.random.default_rng(1)
    A = random.uniform(-1, 1, (12, 9))
    square = random.normal(size=(15, 15))
    saddle = A.copy()
    saddle[3], saddle[:, 5] = np.abs(A[3]), -np.abs(A[:, 5])
    saddle[3, 5] = 0
    return {
        "random": A,
        "wide": A.T,
        "constant": np.full((4, 6), 3.0),
        "zeros": np.zeros((6, 4)),
        "one row": A[:1],
        "one column": A[:, :1],
        "one of each": A[:1, :1],
        "pure saddle point": saddle,
        "rows twice": np.vstack([A, A]),
        "columns three times": np.hstack([A, A, A]),
        "dominated rows": np.vstack([A, A - 0.1]),
        "dominated columns": np.hstack([A, A + 0.1, A]),
        "skew-symmetric": square - square.T,
        "signs": np.sign(square),
        "integers": np.round(2 * square),
        "rank 1": np.outer(square[0], A[0]),
        "identity": np.eye(7),
        "far from 0": A + 1e6,
        "few entries": np.where(random.random((30, 20)) < 0.1, 1.0, 0.0),
        "uneven columns": A * np.logspace(-8, 0, 9),
        "uneven rows": A * np.logspace(-8, 0, 12)[:, np.newaxis],
    }


GAMES = degenerate_games()


@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize("shape", ((9, 7), (30, 4), (8, 8), (5, 1), "diagonal"))
def test_steps_are_those_of_the_oracle(make, shape):
    if shape == "diagonal":
        T = np.diag(np.arange(1.0, 31) / 30)
    else:
        T = np.random.default_rng(shape[0]).uniform(-1, 1, shape)
    method, n_directions = solver_file.GameInteriorPoint(make(T)), []
    constants = (getattr(solver_file, name) for name in ("LEAST_MARGIN", "BOUNDARY", "SHORT"))
    for y, q, n in itertools.islice(game_interior_point(T, *constants), 5):
        assert method.iterate() == 2 + 2 * n
        np.testing.assert_allclose(method.y, y, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(method.q, q, rtol=1e-6, atol=1e-12)
        n_directions.append(n)
    if shape == "diagonal":
        assert max(n_directions) == 3


@pytest.mark.parametrize("epsilon", [0.05, 0.01, 1e-4])
@pytest.mark.parametrize("n", [50, 200])
def test_games_of_one_entry_a_row_take_few_iterations(n, epsilon):
    """Where corrections of a whole step lead nowhere."""
    result = solve_matrix_game(np.diag(np.arange(1.0, n + 1)), epsilon)
    assert result.status == "converged" and result.n_iter < 25
    assert result.dual <= 1 / np.sum(1 / np.arange(1, n + 1)) <= result.primal


@pytest.mark.parametrize("variant", ("auto", "interior_point"))
@pytest.mark.parametrize("name", GAMES)
def test_games_agree_with_the_linear_program(name, variant):
    """The optimistic method alone takes thousands of passes, or does not get there."""
    A = GAMES[name]
    epsilon, value = 1e-9 * np.ptp(A) or 1e-9, lp_value(A)
    for make in (np.asarray, np.asfortranarray, sparse.csr_matrix):
        if name == "far from 0":
            epsilon = 1e-7  # rounding is 2e-9
        result = solve_matrix_game(make(A), epsilon, variant=variant)
        assert result.status == "converged"
        assert result.n_iter <= 30
        rounding = 1e-7 * np.ptp(A) + 1e-12 * np.abs(A).max()  # of the linear program
        assert result.dual - rounding <= value <= result.primal + rounding
        x, p = result.column_strategy, result.row_strategy
        assert x.min() >= 0 and p.min() >= 0
        upper, lower = matrix_game(A, x, p)
        assert upper - lower <= epsilon + 1e-14 * np.abs(A).max()


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("shape", ((300, 7), (7, 300), (70, 60)))
def test_large_payoffs_at_the_default_epsilon(dtype, shape):
    """The optimistic method takes 300 to 4000 passes."""
    A = (100 * np.random.default_rng(2).uniform(-1, 1, shape)).astype(dtype)
    result = solve_matrix_game(A)
    assert result.status == "converged"
    assert result.n_iter <= 20
    upper, lower = matrix_game(A.astype(float), result.column_strategy, result.row_strategy)
    assert upper - lower <= 0.05
    assert upper == pytest.approx(result.primal) and lower == pytest.approx(result.dual)


@pytest.mark.parametrize("as_matrix", (sparse.csr_matrix, sparse.csr_array))
def test_rows_that_are_not_sorted(as_matrix):
    arrays = np.array([1.0, 2, 3, 4, 1]), np.array([1, 0, 1, 0, 1]), np.array([0, 2, 5])
    A = as_matrix(arrays, shape=(2, 2))  # and an entry in two parts
    result = solve_matrix_game(A, 1e-9, variant="interior_point")
    assert result.primal == pytest.approx(lp_value(np.array([[2.0, 1], [4, 4]])))


def test_the_scale_of_payoffs_changes_nothing():
    results = [
        solve_matrix_game(scale * DENSE, 1e-8 * scale) for scale in (1.0, 2.0**900, 2.0**-900)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result.row_strategy, results[0].row_strategy)
        assert result.n_iter == results[0].n_iter


def test_results_do_not_depend_on_the_threads_of_blas():
    A = np.random.default_rng(5).uniform(-1, 1, (300, 200))
    results = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            results.append(solve_matrix_game(A, 1e-6))
    np.testing.assert_array_equal(results[0].row_strategy, results[1].row_strategy)


def test_large_gaps_and_easy_games_are_left_to_passes():
    random = np.random.default_rng(3)
    saddle = random.uniform(-1, 1, (300, 300))
    saddle[7], saddle[:, 9] = np.abs(saddle[7]), -np.abs(saddle[:, 9])
    saddle[7, 9] = 0
    for A, epsilon in ((random.uniform(-1, 1, (300, 300)), 0.05), (saddle, 1e-6)):
        auto, passes = (solve_matrix_game(A, epsilon, variant=v) for v in ("auto", "optimistic"))
        assert auto.accesses == auto.n_iter * A.size
        np.testing.assert_array_equal(auto.row_strategy, passes.row_strategy)


@pytest.mark.parametrize("limit, value", (("MOST_LINES", 29), ("MOST_VALUES", 1199)))
def test_large_games_are_left_to_passes(monkeypatch, limit, value):
    monkeypatch.setattr(solver_file, limit, value)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        result = solve_matrix_game(DENSE, 1e-5, max_iter=200)
    assert result.accesses == 200 * DENSE.size


def test_what_is_counted():
    few = sparse.random_array((60, 40), density=0.1, rng=np.random.default_rng(4), format="csr")
    for A in (DENSE, few):
        n_stored = A.size
        result = solve_matrix_game(A, 1e-7, variant="interior_point")
        n_reads = result.accesses // n_stored
        assert result.accesses == n_reads * n_stored
        n_short = (n_reads - 1 - solver_file.N_PASSES * result.n_iter) // 2  # 1: the copy
        assert n_reads == 1 + solver_file.N_PASSES * result.n_iter + 2 * n_short
        assert 0 <= n_short < result.n_iter
        assert result.full_accesses == n_reads * A.shape[0] * A.shape[1]
        n_certificates = len(result.trace)
        assert 1 <= n_certificates < result.n_iter  # none is far from epsilon
        assert result.certificate_accesses == (1 + n_certificates) * n_stored  # the largest entry


@pytest.mark.parametrize("max_accesses", (1, 1199, 1200, 30_000, 80_000, 100_000, 10**7))
@pytest.mark.parametrize("variant", ("auto", "interior_point"))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_budgets_are_kept(variant, max_accesses):
    result = solve_matrix_game(DENSE, 1e-6, variant=variant, max_accesses=max_accesses)
    assert result.accesses <= max_accesses
    assert result.gap == pytest.approx(
        np.subtract(*matrix_game(DENSE, result.column_strategy, result.row_strategy)), abs=1e-12
    )
    assert result.status == ("max_accesses" if max_accesses <= 80_000 else "converged")
    if max_accesses <= 80_000:  # too little for the iterations expected: not begun
        assert result.accesses == result.n_iter * DENSE.size


@pytest.mark.parametrize("max_iter", (1, 5, 9, 20))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_more_iterations_than_max_iter(max_iter):
    for variant in ("auto", "interior_point"):
        result = solve_matrix_game(DENSE, 1e-9, variant=variant, max_iter=max_iter)
        assert result.n_iter <= max_iter
        assert result.status == ("converged" if max_iter == 20 else "max_iter")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_beyond_rounding_passes_go_on():
    result = solve_matrix_game(DENSE, 1e-16, max_iter=100)
    assert result.status in ("max_iter", "rounding")
    upper, lower = matrix_game(DENSE, result.column_strategy, result.row_strategy)
    assert upper - lower <= result.gap + 1e-15 <= 1e-10


@pytest.mark.parametrize("variant", ("auto", "interior_point"))
def test_passes_go_on_where_equations_have_no_solution(monkeypatch, variant):
    def fail(matrix):
        raise LinAlgError

    monkeypatch.setattr(solver_file, "upper_factor", fail)
    result = solve_matrix_game(DENSE, 0.005, variant=variant)
    assert result.status == "converged"
    passes = solve_matrix_game(DENSE, 0.005, variant="optimistic")
    assert result.n_iter <= passes.n_iter + 1
    if variant == "auto":
        np.testing.assert_array_equal(result.row_strategy, passes.row_strategy)


@pytest.mark.parametrize("failure", (KeyboardInterrupt, ValueError))
def test_an_interrupt_or_a_mistake_is_passed_on(monkeypatch, failure):
    def fail(self):
        raise failure

    monkeypatch.setattr(solver_file.GameInteriorPoint, "iterate", fail)
    with pytest.raises(failure):
        solve_matrix_game(DENSE, 1e-6)


def test_payoffs_that_a_program_computes():
    def oracle():
        return FeatureOracle(DENSE.shape, row=lambda i: DENSE[i], column=lambda j: DENSE[:, j])

    auto, passes = (
        solve_matrix_game(oracle(), 0.01, variant=variant) for variant in ("auto", "optimistic")
    )
    assert (auto.n_iter, auto.accesses) == (passes.n_iter, passes.accesses)
    with pytest.raises(ValueError, match='"interior_point" needs A in memory'):
        solve_matrix_game(oracle(), 0.01, variant="interior_point")


@pytest.mark.parametrize("variant", ("auto", "interior_point"))
@pytest.mark.parametrize("value", (np.nan, np.inf))
def test_payoffs_that_are_not_finite(variant, value):
    A = DENSE.copy()
    A[3, 4] = value
    for make in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            solve_matrix_game(make(A), 0.01, variant=variant)
