"""Objective: values, certificates and weights of a dual, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import objective as oracle
from reference.losses import LOSSES as ORACLES
from scipy import sparse

from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.weighted_examples import sample_by_weight

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
ALPHA = 0.05


class Problem:
    """A problem small enough for NumPy, with more than one block of rows."""

    def __init__(self, name="hinge", n_rows=1300, weighted=False, constant=0.0, make=np.asarray):
        random = np.random.default_rng(11)
        X = random.normal(size=(n_rows, 7)) * (random.random((n_rows, 7)) < 0.6)
        self.X = np.column_stack([X, np.full(n_rows, constant)]) if constant else X
        self.y = np.where(random.random(n_rows) < 0.4, 1.0, -1.0)
        self.weights = random.integers(0, 4, n_rows).astype(float) if weighted else None
        self.loss = ORACLES[name]()
        self.matrix = Matrix(make(X), constant)
        self.w = random.normal(size=self.X.shape[1])
        self.duals = random.normal(size=n_rows)
        self.name = name
        self.objective().make_feasible(self.duals)

    def objective(self, n_threads=1, alpha=ALPHA):
        loss = REGISTRY[self.name].loss()
        return Objective(self.matrix, self.y, loss, alpha, self.weights, n_threads)

    def primal(self, w):
        return oracle.primal(self.X, self.y, self.loss, ALPHA, w, self.weights)

    def dual(self, duals):
        return oracle.dual(self.X, self.y, self.loss, ALPHA, duals, self.weights)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_values_are_those_of_numpy(name, weighted, constant, make):
    problem = Problem(name, 600, weighted, constant, make)
    objective = problem.objective()
    w = objective.weights_of_dual(problem.duals)
    expected = oracle.weights_of_dual(problem.X, ALPHA, problem.duals, problem.weights)
    np.testing.assert_allclose(w, expected, rtol=1e-11, atol=1e-13)
    assert objective.primal(problem.w) == pytest.approx(problem.primal(problem.w), rel=1e-12)
    primals, dual = objective.certificate(w, problem.duals)
    assert primals == pytest.approx([problem.primal(w)], rel=1e-12)
    assert dual == pytest.approx(problem.dual(problem.duals), rel=1e-11, abs=1e-12)
    assert objective.total_weight == (600 if not weighted else problem.weights.sum())


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("far", [1.0, 1e9])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_a_certificate_around_another_model_is_that_of_the_duals(name, weighted, far, n_threads):
    """Around one that is far off the difference of large numbers would have no digits left."""
    problem = Problem(name, weighted=weighted, constant=2.0)
    objective = problem.objective(n_threads)
    models = [far * problem.w, problem.w]
    primals, dual = objective.certificate_of(problem.duals, models)
    assert primals == pytest.approx([problem.primal(model) for model in models], rel=1e-12)
    assert dual == pytest.approx(problem.dual(problem.duals), rel=1e-12, abs=1e-13)
    assert objective.accesses == problem.matrix.n_stored * (1 if far == 1 else 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_two_candidates(weighted):
    problem = Problem("logistic", weighted=weighted)
    objective = problem.objective()
    w, other = objective.weights_of_dual(problem.duals), problem.w
    (first, second), dual = objective.certificate(w, problem.duals, [w, other])
    (swapped_second, swapped_first), same = objective.certificate(w, problem.duals, [other, w])
    assert (first, second, dual) == (swapped_first, swapped_second, same)
    assert first == pytest.approx(problem.primal(w), rel=1e-12)
    assert second == pytest.approx(problem.primal(other), rel=1e-12)
    (alone,), same = objective.certificate(w, problem.duals, [other])
    assert (alone, same) == (second, dual)


@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_two_candidates_at_once_give_the_bits_of_each(indices, values, constant):
    """Over sparse rows their products are computed together."""

    def make(X):
        X = sparse.csr_array(X.astype(np.float32).astype(values))
        return sparse.csr_array((X.data, X.indices.astype(indices), X.indptr.astype(indices)))

    problem = Problem(constant=constant, make=make)
    objective = problem.objective()
    w = objective.weights_of_dual(problem.duals)
    both, _ = objective.certificate(w, problem.duals, [w, problem.w])
    assert both == [objective.primal(w), objective.primal(problem.w)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows, one_in", [(1300, 1), (3300, 3), (20_000, 16)])
def test_an_estimate_comes_from_some_rows_or_those_drawn_by_weight(n_rows, one_in, weighted):
    problem = Problem(n_rows=n_rows, weighted=weighted, make=sparse.csr_array)
    objective = problem.objective()
    w = objective.weights_of_dual(problem.duals)
    before = objective.accesses
    gap, primal = objective.estimate(w, problem.duals, [w, problem.w])
    weights = (np.arange(n_rows) % 512 < 512 // one_in).astype(float)
    if weighted and one_in > 1:
        drawn, masses = sample_by_weight(problem.weights, n_rows // one_in)
        weights = np.zeros(n_rows)
        weights[drawn] = masses
    elif weighted:
        weights = problem.weights
    seen = weights > 0 if one_in > 1 else slice(None)
    assert objective.accesses - before == np.count_nonzero(problem.X[seen])

    def penalty(v):
        return ALPHA / 2 * v @ v

    def expected(v):
        z, a = problem.X @ v, problem.duals
        losses = problem.loss.value(z, problem.y)
        terms = losses + problem.loss.conjugate(a, problem.y) + a * z
        assert terms.min() > -1e-12
        return (
            np.average(terms, weights=weights) + penalty(v - w),
            np.average(losses, weights=weights) + penalty(v),
        )

    found = [expected(w), expected(problem.w)]
    assert (gap, primal) == pytest.approx(min(found), rel=1e-9)
    best_first = objective.estimate(w, problem.duals, [w])
    assert best_first == pytest.approx(found[0], rel=1e-9)


def test_an_estimate_is_the_same_whatever_all_weigh():
    problem, found = Problem(n_rows=5000), []
    for problem.weights in (None, np.ones(5000)):
        objective = problem.objective()
        w = objective.weights_of_dual(problem.duals)
        found.append((objective.estimate(w, problem.duals, [w]), objective.accesses))
    assert found[0] == found[1]


UNEVEN = {
    "pareto": lambda random, n: random.pareto(1.0, n),
    "three sigma": lambda random, n: np.exp(3 * random.normal(size=n)),
    "classes": lambda random, n: np.where(np.arange(n) % 8 == 0, 7.0, 1.0),
    "most are 0": lambda random, n: (np.arange(n) % 50 == 7) * 1e-9,
    "one": lambda random, n: np.where(np.arange(n) == 4711, 1e12, 1.0),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_examples_drawn_by_weight_stand_for_all(name):
    random, n, size = np.random.default_rng(0), 20_000, 1250
    weights = UNEVEN[name](random, n)
    drawn, masses = sample_by_weight(weights, size)
    assert (np.diff(drawn.astype(int)) > 0).all()
    assert len(drawn) <= size + 1
    assert weights[drawn].min() > 0
    assert masses.sum() == pytest.approx(weights.sum(), rel=2e-3)
    # as exact as a draw of so many examples of equal weights, whatever the order of the rows
    for values in (random.random(n), np.arange(n) / n, (np.arange(n) % 16 == 0) * 1.0):
        expected = np.average(values, weights=weights)
        found = np.average(values[drawn], weights=masses)
        assert abs(found - expected) < 4 * 0.5 / np.sqrt(size)


def test_uneven_weights_give_the_same_estimate_in_all_threads():
    problem = Problem("logistic", 200_000, make=sparse.csr_array)
    problem.weights = np.random.default_rng(0).pareto(1.0, 200_000)
    found = []
    for n_threads in (1, 2, 3):
        objective = problem.objective(n_threads)
        w = objective.weights_of_dual(problem.duals)
        found.append(objective.estimate(w, problem.duals, [w, problem.w]))
    assert found[0] == found[1] == found[2]


def test_an_estimate_from_all_rows_is_the_gap():
    problem = Problem(n_rows=900)
    objective = problem.objective()
    w = objective.weights_of_dual(problem.duals)
    for v in (w, w + 1e-3, 0.9 * w):
        (_, primal), dual = objective.certificate(w, problem.duals, [w, v])
        gaps = [objective.estimate(w, problem.duals, [w])[0], primal - dual]
        assert objective.estimate(w, problem.duals, [w, v])[0] == pytest.approx(min(gaps), rel=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_rows", [2600, 3072])
def test_the_number_of_threads_changes_no_bit(make, n_rows):
    problem = Problem("logistic", n_rows, make=lambda X: make(np.tile(X, 100)))
    assert problem.matrix.n_stored >= 2**20  # fewer are left to one thread
    problem.w = np.tile(problem.w, 100)
    results = []
    for n_threads in (1, 2, 3):
        objective = problem.objective(n_threads)
        w = objective.weights_of_dual(problem.duals)
        results.append(
            (objective.primal(problem.w), *objective.certificate(w, problem.duals), w.tolist())
        )
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("name", ["hinge", "squared"])
def test_a_weight_is_a_repetition(name):
    problem = Problem(name, weighted=True)
    times = problem.weights.astype(int)
    repeated = Objective(
        Matrix(np.repeat(problem.X, times, axis=0)),
        np.repeat(problem.y, times),
        REGISTRY[name].loss(),
        ALPHA,
    )
    objective, duals = problem.objective(), np.repeat(problem.duals, times)
    w = objective.weights_of_dual(problem.duals)
    np.testing.assert_allclose(w, repeated.weights_of_dual(duals), rtol=1e-11)
    assert objective.primal(problem.w) == pytest.approx(repeated.primal(problem.w), rel=1e-12)
    assert objective.values_of_zeros() == pytest.approx(repeated.values_of_zeros(), rel=1e-12)
    (primal,), dual = objective.certificate(w, problem.duals)
    (same_primal,), same_dual = repeated.certificate(w, duals)
    assert (primal, dual) == pytest.approx((same_primal, same_dual), rel=1e-11)


@pytest.mark.parametrize("name", ORACLES)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 1e3]))
@settings(deadline=None, derandomize=True, max_examples=25)
def test_weak_duality(name, seed, scale):
    """No feasible dual has a value above the objective of any weights."""
    random = np.random.default_rng(seed)
    n_rows = int(random.integers(1, 30))
    X, y = random.normal(size=(n_rows, 3)), np.where(random.random(n_rows) < 0.5, 1.0, -1.0)
    objective = Objective(Matrix(X), y, REGISTRY[name].loss(), 10 ** random.uniform(-3, 1))
    duals = random.normal(size=n_rows, scale=scale)
    objective.make_feasible(duals)
    w = objective.weights_of_dual(duals)
    other = random.normal(size=3)
    primals, dual = objective.certificate(w, duals, [w, other])
    loss = ORACLES[name]()
    exact = oracle.dual(X, y, loss, objective.alpha, duals)
    assert dual <= min(primals)
    assert exact <= min(primals) * (1 + 1e-9) + 1e-9
    assert dual == pytest.approx(min(exact, *primals), rel=1e-9, abs=1e-9 * max(1, *primals))


def test_the_dual_is_the_same_at_any_stride():
    problem = Problem()
    records = np.zeros(1300, dtype=[("dual", "f8"), ("other", "f8"), ("third", "f8")])
    records["dual"] = problem.duals
    objective = problem.objective()
    w = objective.weights_of_dual(problem.duals)
    np.testing.assert_array_equal(objective.weights_of_dual(records["dual"]), w)
    assert objective.certificate(w, problem.duals) == objective.certificate(w, records["dual"])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_rounding_bound_covers_weights_of_rounded_rows(weighted):
    """w is summed from float32 rows: the dual value stays below that of the exact w(a)."""
    for seed in range(20):
        problem = Problem("hinge", 300, weighted)
        random = np.random.default_rng(seed)
        problem.duals[:] = random.normal(size=300)
        objective = problem.objective()
        objective.make_feasible(problem.duals)
        rounded = problem.X.astype(np.float32).astype(float)
        w = oracle.weights_of_dual(rounded, ALPHA, problem.duals, problem.weights)
        longest = np.linalg.norm(problem.X - rounded, axis=1).max()
        _, without = objective.certificate(w, problem.duals)
        _, bounded = objective.certificate(w, problem.duals, rounding=longest)
        exact = problem.dual(problem.duals)
        assert bounded <= exact + 1e-15
        assert bounded < without
        assert bounded == pytest.approx(exact, rel=1e-9)


def test_accesses_are_counted():
    problem = Problem(make=sparse.csr_array)
    objective = problem.objective()
    stored = problem.matrix.n_stored
    objective.primal(problem.w)
    w = objective.weights_of_dual(problem.duals)
    objective.certificate(w, problem.duals, [w, problem.w])
    assert objective.accesses == 3 * stored


@pytest.mark.parametrize("name", ORACLES)
def test_values_of_zeros(name):
    problem = Problem(name, 50, weighted=True)
    at_zero = np.average(problem.loss.value(0.0, problem.y), weights=problem.weights)
    primal, dual = problem.objective().values_of_zeros()
    assert primal == pytest.approx(at_zero, rel=1e-12) and dual <= primal


def test_duals_out_of_balance_gain_by_an_offset_before_they_are_shrunk():
    """D(t a) - D(0) is at least t gain - t^2 square / 2, which is greatest at gain / square."""
    random = np.random.default_rng(0)
    X, y, offset = random.normal(size=(200, 5)), random.normal(size=200), -1e3
    loss = REGISTRY["squared"].loss()
    objective = Objective(Matrix(X, 2.0), y, loss, ALPHA, intercept_penalty=0.0)
    duals = 100 + random.normal(size=200)
    w = objective.weights_of_dual(duals)
    gain = -np.mean(duals**2 / 2 - y * duals) - offset * np.mean(duals)
    factor = objective.shrinkage(w, objective.cost_of(duals), offset)
    assert factor == pytest.approx(gain / (ALPHA * w @ w), rel=1e-9) and 0 < factor < 1


def test_make_feasible_works_in_place():
    problem = Problem("hinge", 4)
    problem.y[:] = [1, -1, 1, -1]
    duals = np.array([5.0, -0.25, -3.0, 2.0])
    problem.objective().make_feasible(duals)
    np.testing.assert_array_equal(duals, [1, -0.25, 0, 0])


def test_shapes_are_checked():
    problem = Problem(n_rows=10)
    objective = problem.objective()
    loss = REGISTRY["hinge"].loss()
    with pytest.raises(ValueError, match="targets"):
        Objective(problem.matrix, np.ones(9), loss, 1.0)
    with pytest.raises(ValueError, match="weights"):
        Objective(problem.matrix, np.ones(10), loss, 1.0, np.ones(11))
    with pytest.raises(ValueError, match="7 entries"):
        objective.primal(np.zeros(8))
    for w, duals in ((np.zeros(7), np.zeros(9)), (np.zeros(6), np.zeros(10))):
        with pytest.raises(ValueError, match="entries"):
            objective.certificate(w, duals)
    with pytest.raises(ValueError, match="9 duals"):
        objective.weights_of_dual(np.zeros(9))
    with pytest.raises(ValueError, match="9 duals"):
        objective.make_feasible(np.zeros(9))
