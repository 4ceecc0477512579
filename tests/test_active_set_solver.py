"""Working sets for balls and simplex QPs, against the oracle."""

import itertools

import numpy as np
import pytest
from reference.active_set import active_set
from scipy import sparse

from sublinear._core.matrix import Matrix
from sublinear._saddle_problems import EnclosingBall, SimplexQP
from sublinear._solvers import active_set as solver_file
from sublinear.datasets import make_planted_margin

PROBLEMS = (((3000, 12), 1e-6), ((400, 300), 1e-3), ((900, 40), 0.1))


@pytest.mark.parametrize("make", (np.ascontiguousarray, sparse.csr_array))
@pytest.mark.parametrize("ball", (True, False))
@pytest.mark.parametrize("shape, epsilon", PROBLEMS)
def test_rounds_are_those_of_the_oracle(monkeypatch, make, ball, shape, epsilon):
    """Working sets are solved to the end here: pairwise steps make ties, which rounding decides."""
    monkeypatch.setattr(solver_file, "INNER_GAP", 1e-9)
    monkeypatch.setattr(solver_file, "MOST_SOLVED", 0)  # interior points keep all entries
    random = np.random.default_rng(shape[0])
    A = random.normal(size=shape)
    b = -(A**2).sum(axis=1) if ball else random.normal(size=shape[0])
    problem = EnclosingBall(-b) if ball else SimplexQP(b)
    X = make(A)
    beginning = solver_file.Beginning(X, Matrix(X))
    solver = solver_file.ActiveSet(problem, beginning, epsilon=epsilon, relative=ball)
    rounds = itertools.islice(active_set(A, b, epsilon, ball, solver_file), 4)
    for x, _, primal, dual in rounds:
        assert solver.advance(2**62)
        found = solver.certify(lambda model: model)
        np.testing.assert_allclose(solver.x, x, atol=1e-4)
        assert found[1] == pytest.approx(primal, rel=1e-3)
        assert found[2] == pytest.approx(dual, rel=1e-6)  # dual values are flat where x is best
        if primal - dual <= epsilon * (primal if ball else 1):
            break


def test_the_beginning_stands_until_a_round_is_better():
    X = make_planted_margin(1000, 800, margin=0.2, random_state=0)[0]
    beginning = solver_file.Beginning(X, Matrix(X))
    problem = EnclosingBall(beginning.norms)
    solver = solver_file.ActiveSet(problem, beginning, epsilon=0.01, relative=True)
    radius = ((X - beginning.x) ** 2).sum(axis=1).max()
    n_worse = 0
    for _ in range(4):
        value = ((X - solver.x) ** 2).sum(axis=1).max()
        n_worse += value > radius * (1 + 1e-9)
        radius = min(radius, value)
        model, primal, _ = solver.certify(lambda model: model)
        assert primal == pytest.approx(radius)
        assert ((X - model) ** 2).sum(axis=1).max() == pytest.approx(radius)
        np.testing.assert_array_equal(solver.model(), model)
        assert solver.advance(2**62)
        np.testing.assert_array_equal(solver.model(), model)  # until it is certified
    assert n_worse == 1
