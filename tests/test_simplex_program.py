"""Small quadratic programs over the simplex by interior points."""

import numpy as np
import pytest
from scipy.optimize import nnls

from sublinear import MinimumEnclosingBall, solve_simplex_qp
from sublinear._core.simplex_program import solved_program, without_trifles


def unscaled(seed, n_rows, width, moved=0.0):
    """Rows whose columns have scales from 0.01 to 1000."""
    random = np.random.default_rng(seed)
    scales = 10.0 ** random.uniform(-2, 3, width)
    rows = random.normal(size=(n_rows, width)) * scales
    return rows + moved * scales * random.normal(size=width), random.normal(size=n_rows)


def at_first(n):
    return np.eye(n)[0]


def gap_of(gram, offsets, p):
    v = offsets + 2 * gram @ p
    return p @ (v - v.min())


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (40, 8), (100, 300), (300, 30)])
@pytest.mark.parametrize("with_offsets", [False, True])
def test_the_gap_is_what_was_asked_for(shape, with_offsets):
    for seed in range(5):
        rows, offsets = unscaled(seed, *shape, moved=seed % 2)
        offsets *= with_offsets
        gram = rows @ rows.T
        p = solved_program(gram, offsets, at_first(len(rows)), 1e-3)
        assert (p >= 0).all() and p.sum() == pytest.approx(1, abs=1e-12)
        assert gap_of(gram, offsets, p) <= 1e-3


@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_it_finds_the_point_of_the_hull_that_is_nearest_to_the_origin(moved):
    """As by non-negative least squares (Lawson, Hanson), whose p is not scaled to 1."""
    rows, _ = unscaled(0, 60, 12, moved)
    unit = np.abs(rows).max()
    weights, _ = nnls(np.vstack([rows.T / unit, np.ones(60)]), np.append(np.zeros(12), 1.0))
    nearest = rows.T @ weights / weights.sum()
    p = solved_program(rows @ rows.T, np.zeros(60), at_first(60), 1e-6)
    assert nearest @ nearest <= np.sum((rows.T @ p) ** 2) <= nearest @ nearest + 1e-6


def test_entries_that_hardly_count_are_left_out():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    p = without_trifles(np.array([0.5, 0.5 - 1e-9, 1e-9]), rows @ rows.T, np.zeros(3), 1e-8)
    assert p[2] == 0 and p.sum() == 1
    everything = np.array([0.5, 0.4, 0.1])
    np.testing.assert_array_equal(
        without_trifles(everything, rows @ rows.T, np.zeros(3), 0.3), everything
    )


def test_what_is_known_stays_where_nothing_is_better():
    known = np.array([0.5, 0.5, 0.0])
    assert solved_program(np.full((3, 3), np.inf), np.zeros(3), known, 1e-3) is known
    best = np.array([0.0, 1.0, 0.0])
    assert solved_program(np.eye(3), np.array([5.0, 0.0, 5.0]), best, 1e-3) is best


@pytest.mark.parametrize("shape", [(40, 8), (300, 30), (2000, 50)])
@pytest.mark.parametrize("seed", range(4))
def test_programs_of_unscaled_columns_take_few_rounds(shape, seed):
    rows, offsets = unscaled(seed, *shape, moved=seed % 2)
    result = solve_simplex_qp(rows, offsets if seed > 1 else None)
    assert result.status == "converged" and result.n_iter <= 6
    offsets = offsets if seed > 1 else np.zeros(len(rows))
    x = rows.T @ result.p
    value = result.p @ offsets + x @ x  # of the p: the least one is between the bounds
    assert result.primal - result.gap - 1e-9 <= value <= result.primal + result.gap + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_balls_of_unscaled_columns(seed):
    rows, _ = unscaled(seed, 300, 30)
    ball = MinimumEnclosingBall(1e-6).fit(rows)
    assert ball.result_.status == "converged" and ball.n_iter_ <= 6
    distances = np.linalg.norm(rows - ball.center_, axis=1)
    assert distances.max() == pytest.approx(ball.radius_, rel=1e-6)
