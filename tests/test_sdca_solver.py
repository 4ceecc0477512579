"""The SDCA solver: step by step against its oracle, invariants, and known optima."""

import math
from functools import partial
from itertools import islice

import numpy as np
import pytest
from layouts import csr
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from reference.orders import fisher_yates, in_pools
from reference.sdca import sdca
from scipy import sparse
from scipy.optimize import minimize
from stepping import advance_to, bits, run_epochs, unchanged

from sublinear._core import order
from sublinear._core.examples import count_awake
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES, Hinge
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._solvers.sdca import SDCA, BlockwiseSDCA
from sublinear._solvers.two_threads import RowHalves

PASS_COST = 1000  # what a pass counts for in `work`, in feature values
REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
SMOOTH = ("squared_hinge", "smoothed_hinge", "logistic", "squared", "huber")


PACKING = (False, True)


class Problem:
    """A small sparse problem; its values are float32-representable, every row has an entry."""

    def __init__(self, name, n_rows=40, n_columns=6, alpha=0.02, weighted=False, seed=0):
        random = np.random.default_rng(seed)
        self.X = random.normal(size=(n_rows, n_columns)).astype(np.float32).astype(float)
        self.X[random.random(self.X.shape) < 0.5] = 0
        self.X[np.arange(n_rows), random.integers(n_columns, size=n_rows)] = 1.5
        predictions = self.X @ random.normal(size=n_columns) + random.normal(size=n_rows)
        self.y = np.sign(predictions) if name in MARGIN_LOSSES else predictions
        self.weights = random.integers(1, 4, n_rows) / 2 if weighted else None
        self.name, self.alpha, self.loss = name, alpha, ORACLES[name]()

    def objective(self, make=sparse.csr_array, constant=0.0, n_threads=1):
        loss, matrix = REGISTRY[self.name].loss(*self._parameters()), Matrix(make(self.X), constant)
        return Objective(matrix, self.y, loss, self.alpha, self.weights, n_threads)

    def _parameters(self):
        # those that the oracles have by default
        return {"smoothed_hinge": (1.0,), "epsilon_insensitive": (0.1,), "huber": (1.35,)}.get(
            self.name, ()
        )

    def primal(self, w):
        return values.primal(self.X, self.y, self.loss, self.alpha, w, self.weights)

    def dual(self, duals):
        return values.dual(self.X, self.y, self.loss, self.alpha, duals, self.weights)

    def steps(self, seed=0, start=None, shuffle=fisher_yates):
        random = bits(seed)
        shuffled = shuffle(lambda n: int(random.integers(n, 1)[0]))
        return sdca(self.X, self.y, self.loss, self.alpha, shuffled, self.weights, start)

    def optimum(self):
        """The least objective of a smooth loss, by scipy."""
        scale = np.ones(len(self.y)) if self.weights is None else self.weights
        scale = scale / scale.sum()

        def gradient(w):
            return self.alpha * w + self.X.T @ (scale * self.loss.derivative(self.X @ w, self.y))

        start = np.zeros(self.X.shape[1])
        options = {"gtol": 1e-12, "ftol": 0, "maxiter": 10_000, "maxcor": 50}
        return minimize(self.primal, start, jac=gradient, method="L-BFGS-B", options=options)

    def optimum_of_program(self):
        """The minimiser for a piecewise linear loss, by scipy: weights and a slack per row."""
        n_rows, n_columns = self.X.shape
        scale = np.ones(n_rows) if self.weights is None else self.weights
        scale = scale / scale.sum()
        if self.name == "hinge":
            lines = [(-self.y, np.ones(n_rows))]
        else:
            epsilon = 0.1 if self.name == "epsilon_insensitive" else 0.0
            lines = [(sign * np.ones(n_rows), -sign * self.y - epsilon) for sign in (1, -1)]
        # slack >= slope * <w, x> + offset for every line of the loss, and slack >= 0
        rows = np.vstack([slope[:, np.newaxis] * self.X for slope, _ in lines])
        offsets = np.concatenate([offset for _, offset in lines])
        slacks = np.tile(np.eye(n_rows), (len(lines), 1))
        start = np.append(np.zeros(n_columns), np.max(np.split(offsets, len(lines)), axis=0))
        solution = minimize(
            lambda u: self.alpha / 2 * u[:n_columns] @ u[:n_columns] + scale @ u[n_columns:],
            np.maximum(start, 0),
            jac=lambda u: np.append(self.alpha * u[:n_columns], scale),
            bounds=[(None, None)] * n_columns + [(0, None)] * n_rows,
            constraints={
                "type": "ineq",
                "fun": lambda u: u[n_columns:] @ slacks.T - rows @ u[:n_columns] - offsets,
                "jac": lambda u: np.hstack([-rows, slacks]),
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        return solution.x[:n_columns]


@pytest.mark.parametrize("pack", PACKING)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_step_by_step(name, weighted, pack):
    """The same examples in the same order, with their sleep, give the same w and duals."""
    problem = Problem(name, weighted=weighted)
    solver = SDCA(problem.objective(), bits(), None, pack)
    sizes = (problem.X != 0).sum(axis=1)
    accesses = 0
    for visited, (i, w, duals, passes) in enumerate(problem.steps(), start=1):
        if passes == 9:
            break
        accesses += sizes[i]
        advance_to(solver, accesses)
        np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(solver.duals(), duals, rtol=1e-9, atol=1e-11)
        assert solver.work == accesses + visited + PASS_COST * solver.n_iter
    assert solver.n_iter == 9


def test_step_by_step_in_pools(monkeypatch):
    """Short rows beyond the cache; some of the examples sleep."""
    monkeypatch.setattr(order, "BEYOND_CACHE", 0)
    problem = Problem("hinge", n_rows=5000)
    solver = SDCA(problem.objective(), bits())
    sizes = (problem.X != 0).sum(axis=1)
    accesses = 0
    steps = problem.steps(shuffle=partial(in_pools, run=64, pool=4096))
    for visited, (i, w, duals, passes) in enumerate(steps):
        if passes == 3:
            break
        accesses += sizes[i]
        if visited % 500 == 0:
            advance_to(solver, accesses)
            np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(solver.duals(), duals, rtol=1e-9, atol=1e-11)
    assert visited < 3 * 5000


def test_sleep_saves_visits():
    """While its dual stays, an example is looked at in passes 0, 1, 3, 7, 15, 31, 63 only."""
    problem = Problem("hinge", n_rows=2)
    problem.X[:] = 100 * np.eye(2, 6)
    problem.y[:] = 1
    duals = problem.loss.dual_step(0.0, 0.0, 1.0, 1e4 / (2 * problem.alpha))
    solver = SDCA(problem.objective(), bits(), np.full(2, duals))
    visits = np.diff([0] + [run_epochs(solver, 1).accesses for _ in range(70)])
    passes = np.flatnonzero(visits)
    # the first visits may still correct the last bit of the dual
    assert len(passes) <= 10
    assert {1, 2, 4, 8, 16} <= set(np.diff(passes))


@pytest.mark.parametrize("margin, passes", [(1.2, [0, 1, 3, 7]), (1.4, [0, 2, 10]), (9, [0, 4])])
def test_far_from_the_margin_sleep_is_longer(margin, passes):
    """Row 0 keeps its margin of 1; row 1, of two entries, has another one and a dual of zero."""
    X = sparse.csr_array([[1.0, 0.0], [margin, 1e-9]])
    objective = Objective(Matrix(X), np.ones(2), Hinge(), alpha=0.5)  # w = a_0 x_0 / (alpha n)
    solver = SDCA(objective, bits(), np.array([1.0, 0.0]))
    visits = np.diff([0] + [run_epochs(solver, 1).accesses for _ in range(12)])
    assert np.flatnonzero(visits >= 2).tolist() == passes
    assert solver.w[0] == 1.0


@pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, partial(csr, values=np.float32, indices=np.int64)]
)
def test_other_storages_step_by_step(make):
    problem = Problem("smoothed_hinge")
    solver = SDCA(problem.objective(make), bits())
    for _, w, duals, passes in problem.steps():
        if passes == 4:
            break
        last = w, duals
    run_epochs(solver, 4)
    np.testing.assert_allclose(solver.w, last[0], rtol=1e-11)
    np.testing.assert_allclose(solver.duals(), last[1], rtol=1e-11, atol=1e-13)


def test_constant_column():
    problem, extended = Problem("logistic"), Problem("logistic")
    extended.X = np.column_stack([extended.X, np.full(40, 2.0)])
    for make in (np.asarray, sparse.csr_array):
        solver = run_epochs(SDCA(problem.objective(make, constant=2.0), bits()), 3)
        explicit = run_epochs(SDCA(extended.objective(make), bits()), 3)
        np.testing.assert_allclose(solver.w, explicit.w, rtol=1e-11)
        assert solver.accesses < explicit.accesses  # the constant is not read


@pytest.mark.parametrize("name", ORACLES)
def test_packed_and_all_csr_types_give_the_same_bits(name):
    problem = Problem(name, n_rows=300, weighted=True)
    runs = [
        run_epochs(
            SDCA(
                problem.objective(partial(csr, values=values, indices=indices), 1.0),
                bits(),
                None,
                pack,
            ),
            7,
        )
        for values in (np.float32, np.float64)
        for indices in (np.int32, np.int64)
        for pack in PACKING
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.w, runs[0].w)
        np.testing.assert_array_equal(run.duals(), runs[0].duals())
        assert run.accesses == runs[0].accesses
        assert run.estimated_gap == runs[0].estimated_gap


@pytest.mark.parametrize("pack", PACKING)
def test_slices_change_nothing(pack):
    problem = Problem("hinge", n_rows=700, alpha=1e-3)
    whole = SDCA(problem.objective(), bits(), None, pack)
    sliced = SDCA(problem.objective(), bits(), None, pack)
    run_epochs(whole, 6)
    random = np.random.default_rng(0)
    limit = 0
    while sliced.n_iter < 6:
        limit += int(random.integers(1, 400))
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.w, whole.w)
    np.testing.assert_array_equal(sliced.duals(), whole.duals())
    assert sliced.accesses == whole.accesses
    assert sliced.estimated_gap == whole.estimated_gap
    assert sliced.certify(unchanged)[1:] == whole.certify(unchanged)[1:]


@pytest.mark.parametrize("pack", PACKING)
def test_passes_whose_ends_are_passed_over_are_the_same(pack):
    problem = Problem("hinge", n_rows=300, alpha=1e-3)
    each, over = (SDCA(problem.objective(), bits(), None, pack) for _ in range(2))
    over.be_quiet_until(math.inf, -math.inf, 7)
    assert over.advance(2**60)
    run_epochs(each, 7)
    assert over.n_iter == 7
    np.testing.assert_array_equal(over.w, each.w)
    over.be_quiet_until(each.work + 1, -math.inf, math.inf)
    assert over.advance(2**60) and over.n_iter == 8
    gaps = [each.estimated_gap]
    while gaps[-1] > gaps[0] / 2:
        gaps.append(run_epochs(each, 1).estimated_gap)
    over.be_quiet_until(math.inf, gaps[0] / 2, math.inf)
    assert over.advance(2**60) and over.n_iter == each.n_iter > 9
    assert over.estimated_gap == each.estimated_gap
    assert not over.advance(over.accesses + 10)  # not the end of a pass


def test_few_passes_over_many_examples_are_passed_over():
    """Examples that are awake are looked for among all, which takes time though nothing is read."""
    solver = SDCA(Problem("hinge", n_rows=200_000, alpha=1.0).objective(), bits())
    solver.be_quiet_until(math.inf, -math.inf, math.inf)
    assert solver.advance(2**60) and solver.n_iter == 5


def test_the_limit_is_used_up_to_the_next_row():
    problem = Problem("squared", n_rows=50)
    sizes = (problem.X != 0).sum(axis=1)
    for limit in range(0, int(sizes.sum()), 7):
        solver = SDCA(problem.objective(), bits())
        solver.advance(limit)
        assert limit - sizes.max() < solver.accesses <= limit
        before = solver.accesses
        solver.advance(limit)
        assert solver.accesses == before


def test_the_first_pass_reads_every_value_once():
    problem = Problem("hinge", n_rows=50)
    solver = run_epochs(SDCA(problem.objective(), bits()), 1)
    assert solver.n_iter == 1
    assert solver.accesses == np.count_nonzero(problem.X)
    assert solver.work == solver.accesses + 50 + PASS_COST


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-4, 0.02, 3.0])
@pytest.mark.parametrize("name", ORACLES)
def test_the_dual_never_falls_and_w_follows_it(name, alpha, weighted):
    problem = Problem(name, n_rows=60, alpha=alpha, weighted=weighted)
    objective = problem.objective()
    solver = SDCA(objective, bits())
    value = problem.dual(np.zeros(60))
    for limit in range(5, 1500, 5):
        solver.advance(limit)
        duals = solver.duals()
        np.testing.assert_array_equal(REGISTRY[name].loss().nearest_duals(duals, problem.y), duals)
        w = objective.weights_of_dual(duals)
        np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-11 * (1 + np.abs(w).max()))
        after = problem.dual(duals)
        assert after >= value - 1e-10 * (1 + abs(value))
        value = after


@pytest.mark.parametrize("pack", PACKING)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_reach_the_optimum(name, weighted, pack):
    problem = Problem(name, n_rows=60, weighted=weighted)
    solver = run_epochs(SDCA(problem.objective(), bits(), None, pack), 400)
    best = problem.optimum()
    model, primal, dual = solver.certify(unchanged)
    assert primal == pytest.approx(problem.primal(model), rel=1e-12)
    assert abs(primal - best.fun) <= 1e-8 * best.fun
    assert -1e-15 * primal <= primal - dual <= 1e-8 * primal
    np.testing.assert_allclose(model, best.x, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", sorted(ORACLES.keys() - set(SMOOTH)))
def test_other_losses_reach_the_optimum(name, weighted):
    """Against SLSQP on the quadratic program, and by weak duality; both values are NumPy's."""
    problem = Problem(name, weighted=weighted)
    solver = run_epochs(SDCA(problem.objective(), bits()), 50_000)
    primal, dual = problem.primal(solver.w), problem.dual(solver.duals())
    assert -1e-12 <= primal - dual <= 1e-8 * primal
    assert primal == pytest.approx(problem.primal(problem.optimum_of_program()), rel=1e-8)


def test_the_estimate_is_of_the_size_of_the_gap():
    problem = Problem("hinge", n_rows=4000, alpha=1e-2)
    solver = SDCA(problem.objective(), bits())
    assert solver.estimated_gap == np.inf
    for _ in range(6):
        run_epochs(solver, 1)
        primal, dual = problem.primal(solver.w), problem.dual(solver.duals())
        assert 0.1 < solver.estimated_gap / ((primal - dual) / primal) < 100


def test_heavy_examples_are_in_every_estimate():
    """Near zero weights every hinge loss is 1, so that their weights are what is estimated."""
    problem, heavy = Problem("hinge", n_rows=4000, alpha=1e6, weighted=True), [17, 170, 1700]
    problem.weights[heavy] = 1e4
    for seed in range(4):
        for solver in (
            SDCA(problem.objective(), bits(seed)),
            RowHalves(problem.objective(), bits(seed)),
        ):
            run_epochs(solver, 1)
            assert solver.pass_loss == pytest.approx(1, abs=0.05)


def passes_over_blocks(problem, blocks, count, seed=0, stops=False):
    """Return the solver after so many passes; between blocks a new one goes on if it stops."""
    (n, d), weights = problem.X.shape, problem.weights
    loss, total = problem.objective().loss, n if weights is None else weights.sum()
    solver = BlockwiseSDCA(bits(seed), np.zeros(d), n, problem.X.size)
    duals, sleep = np.zeros(n), np.zeros(n, dtype=np.uint8)
    for _ in range(count):
        solver.begin(count_awake(sleep))
        for rows in blocks:
            matrix, own = Matrix(problem.X[rows]), None if weights is None else weights[rows]
            objective = Objective(
                matrix, problem.y[rows], loss, problem.alpha, own, 1, total_weight=total
            )
            solver.enter(objective, duals[rows].copy(), sleep[rows])
            assert solver.advance(solver.accesses + problem.X.size)
            duals[rows] = solver.leave()
            if stops and rows is not blocks[-1]:
                state = solver.state()
                solver = BlockwiseSDCA(bits(seed + 1), np.zeros(d), n, problem.X.size)
                solver.set_state(state)
        solver.end()
    return solver


def test_examples_are_heavy_beside_those_of_all_blocks():
    problem = Problem("hinge", n_rows=4000, alpha=1e6, weighted=True)
    problem.weights[:20] = 1e4
    for seed in range(4):
        solver = passes_over_blocks(problem, (slice(20), slice(20, 4000)), 1, seed)
        assert solver.pass_loss == pytest.approx(1, abs=0.05)


def test_the_mean_of_the_pass_is_a_candidate():
    """Where w is short, certify also looks at the mean of w over the pass, and takes the better."""
    problem = Problem("hinge", n_rows=6000, n_columns=3, alpha=1e-4)
    solver = SDCA(problem.objective(np.asarray), bits())
    iterates = []
    interval = 4  # as many additions to the mean as there are feature values read, over 4
    for position, (_, w, _, passes) in enumerate(problem.steps(), start=1):
        if passes == 1:
            break
        if position % interval == 0 and position >= 6000 // 16:
            iterates.append(w)
    run_epochs(solver, 1)
    candidates = []
    model, primal, dual = solver.certify(lambda w: candidates.append(w) or w)
    np.testing.assert_allclose(candidates[0], solver.w)
    np.testing.assert_allclose(candidates[1], np.mean(iterates, axis=0), rtol=1e-9)
    primals = [problem.primal(w) for w in candidates]
    assert primal == pytest.approx(min(primals), rel=1e-12)
    assert primals[1] < primals[0]
    np.testing.assert_array_equal(model, candidates[1])
    assert dual == pytest.approx(problem.dual(solver.duals()), rel=1e-9)

    # a budget that ends where the next pass begins does not lose it
    for budget in (solver.accesses, solver.accesses + 60):
        solver.advance(budget)
        np.testing.assert_array_equal(solver.candidates()[1], candidates[1])
    solver.advance(solver.accesses + 2000)
    assert not np.array_equal(solver.candidates()[1], candidates[1])


BLOCKS = slice(300), slice(300, 3100), slice(3100, 6000)  # the mean begins after 375 rows


def in_blocks(below):
    """Return the shuffle of a first pass over the blocks."""
    shuffled = fisher_yates(below)
    return lambda examples: np.concatenate([shuffled(examples[rows]) for rows in BLOCKS])


def test_the_mean_of_a_pass_over_blocks():
    problem = Problem("hinge", n_rows=6000, n_columns=3, alpha=1e-4)
    iterates = [w for _, w, _, _ in islice(problem.steps(shuffle=in_blocks), 6000)]
    w, mean = passes_over_blocks(problem, BLOCKS, 1).candidates()
    np.testing.assert_allclose(w, iterates[-1], rtol=1e-9)
    np.testing.assert_allclose(mean, np.mean(iterates[6000 // 16 :: 4], axis=0), rtol=1e-9)


def test_a_pass_over_blocks_goes_on_from_its_state():
    problem = Problem("hinge", n_rows=6000, n_columns=3, alpha=1e-4)
    whole, stopped = (
        passes_over_blocks(problem, BLOCKS, 3, stops=stops) for stops in (False, True)
    )
    np.testing.assert_array_equal(stopped.candidates(), whole.candidates())
    assert stopped.estimate() == whole.estimate()


def rounded_sum(problem, duals):
    """Return w(duals) over rows rounded to float32."""
    return problem.X.astype(np.float32).T.astype(float) @ duals / (problem.alpha * len(duals))


@pytest.mark.parametrize("start", [None, 0.3])
def test_certificates_stand_when_packing_rounds(start):
    """Values that float32 cannot hold: the dual value stays below the true optimum.

    What is certified rests on w being the sum over the rounded rows from the beginning.
    """
    problem = Problem("logistic", n_rows=200)
    problem.X *= 1 + np.random.default_rng(1).normal(size=problem.X.shape) * 1e-6
    best = problem.optimum().fun
    start = None if start is None else start * problem.y
    solver = run_epochs(SDCA(problem.objective(), bits(), start, True), 2)
    np.testing.assert_allclose(
        solver.w, rounded_sum(problem, solver.duals()), rtol=1e-12, atol=1e-13
    )
    for _ in range(60):
        run_epochs(solver, 5)
        model, primal, dual = solver.certify(unchanged)
        assert primal == pytest.approx(problem.primal(model), rel=1e-13)
        assert dual <= best + 1e-14
        assert dual <= problem.dual(solver.duals()) + 1e-14
    assert primal - dual < 1e-6 * primal


def test_rows_that_cannot_be_packed():
    problem = Problem("hinge")
    problem.X *= 1e-60
    with pytest.raises(ValueError):
        SDCA(problem.objective(), bits(), None, True)


@pytest.mark.parametrize("pack", PACKING)
@pytest.mark.parametrize("weighted", [False, True])
def test_start_from_given_duals(weighted, pack):
    problem = Problem("hinge", weighted=weighted)
    start = np.random.default_rng(2).normal(size=40)
    objective = problem.objective()
    solver = SDCA(objective, bits(), start, pack)
    clipped = start.copy()
    objective.make_feasible(clipped)
    np.testing.assert_array_equal(solver.duals(), clipped)
    np.testing.assert_array_equal(solver.w, objective.weights_of_dual(clipped))
    for _, w, duals, passes in problem.steps(start=clipped):
        if passes == 3:
            break
        last = w, duals
    run_epochs(solver, 3)
    np.testing.assert_allclose(solver.w, last[0], rtol=1e-10)
    np.testing.assert_allclose(solver.release_duals(), last[1], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ORACLES)
def test_rows_without_entries_get_their_dual_at_once(name, make):
    problem = Problem(name, n_rows=30)
    problem.X[::2] = 0
    solver = run_epochs(SDCA(problem.objective(make), bits()), 1)
    at_zero = -REGISTRY[name].loss().derivatives(np.zeros(30), problem.y)
    if name != "absolute":
        np.testing.assert_allclose(solver.duals()[::2], at_zero[::2], atol=1e-12)
    problem.X[:] = 0
    solver = run_epochs(SDCA(problem.objective(make), bits()), 2)
    assert not solver.w.any()
    _, primal, dual = solver.certify(unchanged)
    assert primal == pytest.approx(problem.primal(solver.w))
    assert dual == pytest.approx(primal, rel=1e-9)


def test_one_example():
    problem = Problem("hinge", n_rows=1, alpha=0.5)
    solver = run_epochs(SDCA(problem.objective(), bits()), 2)
    assert solver.certify(unchanged)[1] == pytest.approx(solver.certify(unchanged)[2], rel=1e-12)


def test_rows_of_weight_zero_do_not_matter():
    problem, less = Problem("logistic"), Problem("logistic")
    problem.weights = (np.arange(40) % 3 > 0).astype(float)
    kept = problem.weights > 0
    less.X, less.y = less.X[kept], less.y[kept]
    one = run_epochs(SDCA(problem.objective(), bits()), 100)
    other = run_epochs(SDCA(less.objective(), bits()), 100)
    np.testing.assert_allclose(one.w, other.w, rtol=1e-7)


def test_rows_too_long_for_float64():
    problem = Problem("hinge")
    problem.X[3, 0] = 1e160
    with pytest.raises(ValueError, match="overflows: scale X down or raise alpha"):
        SDCA(problem.objective(), bits())


@pytest.mark.parametrize("awake", [[0, 1, 8], [2**32 - 1], range(9)], ids=str)
def test_states_of_examples_that_are_none_are_refused(awake):
    objective = Problem("hinge", n_rows=8).objective()
    state = SDCA(objective, bits()).state() | {"awake": np.array(awake, dtype=np.uint32)}
    with pytest.raises(ValueError, match="awake holds examples that are none of 8 rows"):
        SDCA(objective, bits()).set_state(state)


@pytest.mark.parametrize("pack", PACKING)
def test_what_is_certified_and_released_is_the_callers(pack):
    problem = Problem("hinge")
    solver = SDCA(problem.objective(), bits(), None, pack)
    solver.advance(2**62)
    model, _, _ = solver.certify(lambda w: w)
    before = model.copy()
    solver.advance(2**62)
    np.testing.assert_array_equal(model, before)
    expected = solver.duals()
    released = solver.release_duals()
    np.testing.assert_array_equal(released, expected)
    assert released.shape == (40,)
