"""Working sets for balls and simplex QPs, against the oracle."""

import itertools

import numpy as np
import pytest
from reference.active_set import active_set
from scipy import sparse

from sublinear._core.matrix import Matrix
from sublinear._saddle_problems import EnclosingBall, SimplexQP
from sublinear._solvers import active_set as solver_file

PROBLEMS = (((3000, 12), 1e-6), ((400, 300), 1e-3), ((900, 40), 0.1))


@pytest.mark.parametrize("make", (np.ascontiguousarray, sparse.csr_array))
@pytest.mark.parametrize("ball", (True, False))
@pytest.mark.parametrize("shape, epsilon", PROBLEMS)
def test_rounds_are_those_of_the_oracle(monkeypatch, make, ball, shape, epsilon):
    """Working sets are solved to the end here: pairwise steps make ties, which rounding decides."""
    monkeypatch.setattr(solver_file, "INNER_GAP", 1e-9)
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
