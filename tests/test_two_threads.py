"""SDCA's schedules for two threads: fixed, whoever follows them, and as good as one thread's."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from reference.two_threads import column_halves, row_halves
from scipy import sparse

from sublinear import openmp_enabled
from sublinear._core.aligned import CACHE_LINES, PAGE, aligned, apart, touched
from sublinear._core.losses import Hinge, Logistic, Squared
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.order import Order
from sublinear._core.random import RandomBits
from sublinear._drive import Limits, drive
from sublinear._solvers.sdca import SDCA
from sublinear._solvers.two_threads import ColumnHalves, RowHalves, thread_schedule

SCHEDULES = [RowHalves, ColumnHalves]
UNLIMITED = 2**62


def problem(n_rows=301, n_columns=40, loss=None, alpha=1e-2, weights=None, constant=1.0):
    random = np.random.default_rng(1)
    X = sparse.random_array((n_rows, n_columns), density=0.3, format="csr", rng=random)
    X.data = X.data.astype(np.float32).astype(np.float64)
    noise = 0.3 * random.normal(size=n_rows)
    y = np.where(X @ random.normal(size=n_columns) + noise > 0, 1.0, -1.0)
    return Objective(Matrix(X, constant), y, loss or Hinge(), alpha, weights, 2)


def make(schedule, objective, seed=0, duals=None, pack=False):
    return schedule(objective, RandomBits(np.random.SeedSequence(seed)), duals, pack)


def counting(schedule, method):
    """Return the schedule with `calls`, which tells how often a method was called."""

    class Counting(schedule):
        calls = 0

    def counted(self):
        self.calls += 1
        getattr(schedule, method)(self)

    setattr(Counting, method, counted)
    return Counting


def unrounded(model):
    return model


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pack", [False, True])
def test_row_halves_against_the_oracle(loss, weighted, pack):
    weights = np.random.default_rng(3).integers(0, 4, 301).astype(float) if weighted else None
    objective = problem(loss=loss, weights=weights)
    solver = make(RowHalves, objective, pack=pack)
    seeds = np.random.SeedSequence(0).spawn(2)
    orders = [
        Order(151, "shuffle", RandomBits(seeds[0])),
        Order(150, "shuffle", RandomBits(seeds[1])),
    ]
    solver.advance(UNLIMITED)
    permutations = [151 * h + orders[h].take(151 - h).astype(int) for h in range(2)]
    w, duals = row_halves(objective, permutations, block=16)
    np.testing.assert_allclose(solver.duals(), duals, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()])
def test_column_halves_against_the_oracle(loss):
    objective = problem(loss=loss)
    solver = make(ColumnHalves, objective)
    order = Order(301, "shuffle", RandomBits(np.random.SeedSequence(0))).take(301)
    solver.advance(UNLIMITED)
    w, duals = column_halves(objective, order, group=4)
    np.testing.assert_allclose(solver.duals(), duals, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-12)


def test_vectors_of_two_threads_share_no_cache_line():
    vectors = apart(3, 2, 55)
    assert vectors.shape == (3, 2, 55) and not vectors.any()
    addresses = [vectors[k, h].ctypes.data for k in range(3) for h in range(2)]
    assert all(address % CACHE_LINES == 0 for address in addresses)
    assert len(set(addresses)) == 6 and min(np.diff(addresses)) >= 55 * 8
    assert aligned((2, 3), np.float32).ctypes.data % CACHE_LINES == 0


def test_every_page_of_an_array_is_touched():
    array = np.full((3, PAGE), 7, dtype=np.uint16)
    assert touched(array) is array
    assert all((page == 0).any() for page in np.split(array.reshape(-1).view(np.uint8), 6))
    assert touched(np.zeros(0)).size == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_optimum_is_that_of_one_thread(schedule):
    objective = problem(n_rows=2000)
    values = []
    for solver in (make(SDCA, objective), make(schedule, objective)):
        for n_iter in (100, 300, 1000, 2000):
            while solver.n_iter < n_iter:
                solver.advance(UNLIMITED)
            _, primal, dual = solver.certify(unrounded)
        assert 0 <= primal - dual < 1e-6 * primal
        np.testing.assert_allclose(
            solver.w, objective.weights_of_dual(solver.duals()), rtol=1e-9, atol=1e-11
        )
        values.append(primal)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_slices_and_repetition_change_nothing(schedule):
    objective = problem(n_rows=9001, n_columns=30)
    whole, sliced = make(schedule, objective), make(schedule, objective)
    for _ in range(6):
        whole.advance(UNLIMITED)
    step = 0
    while sliced.n_iter < 6:
        step += 20_000
        sliced.advance(step)
        assert sliced.accesses <= step
    np.testing.assert_array_equal(whole.w, sliced.w)
    np.testing.assert_array_equal(whole.duals(), sliced.duals())
    assert whole.accesses == sliced.accesses


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_budget_is_never_exceeded(schedule):
    objective = problem(n_rows=9001, n_columns=30)
    solver = make(schedule, objective)
    limit = 81_234
    for _ in range(3):
        solver.advance(limit)
    assert 0 < solver.accesses <= limit


def test_a_budget_is_not_exceeded_by_rows_of_equal_length():
    """Whether blocks fit is seen from the longest row alone if that is enough for both halves."""
    X = sparse.csr_array(np.random.default_rng(0).normal(size=(512, 8)))
    objective = Objective(Matrix(X), np.ones(512), Squared(), 1e-2, None, 2)
    for limit in range(1, X.nnz + 1, 97):
        solver = make(RowHalves, objective)
        solver.advance(limit)
        assert solver.accesses <= limit


PRINT_WEIGHTS = """
import numpy as np
import test_two_threads as here
for schedule in here.SCHEDULES:
    solver = here.make(schedule, here.problem(n_rows=5000))
    for _ in range(5):
        solver.advance(here.UNLIMITED)
    print(solver.w.tobytes().hex())
"""


@pytest.mark.skipif(not openmp_enabled(), reason="this build has no OpenMP to compare with")
def test_one_thread_that_follows_the_schedule_gets_the_same_bits():
    outputs = []
    for limit in ("1", "2"):
        environment = dict(
            os.environ,
            OMP_THREAD_LIMIT=limit,
            PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]),
        )
        outputs.append(
            subprocess.run(
                [sys.executable, "-c", PRINT_WEIGHTS],
                env=environment,
                capture_output=True,
                check=True,
                timeout=300,
            ).stdout
        )
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 1000


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_steps_that_do_not_see_each_other_are_noticed(schedule):
    """With equal rows and strong steps delays make the dual fall; the schedule then drops them."""
    X = np.ones((64, 4))
    y = np.where(np.arange(64) % 3 == 0, -1.0, 1.0)
    objective = Objective(Matrix(sparse.csr_array(X)), y, Squared(), 1e-2)
    solver = make(schedule, objective)
    for _ in range(100):
        solver.advance(UNLIMITED)
    _, primal, dual = solver.certify(unrounded)
    assert np.isfinite(solver.w).all()
    assert abs(primal - dual) < 1e-6 * primal


def test_both_threads_forget_what_steps_have_spoilt():
    y = np.where(np.arange(640) % 3 == 0, -1.0, 1.0)
    objective = Objective(Matrix(sparse.csr_array(np.ones((640, 4)))), y, Squared(), 1e-6)
    solver = make(counting(ColumnHalves, "_forget"), objective)
    for _ in range(5):
        solver.advance(UNLIMITED)
    assert solver.calls == 1
    w = objective.weights_of_dual(solver.duals())
    np.testing.assert_allclose(solver.w, w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_where_rows_share_nothing_delays_are_not_dropped(schedule):
    """Nor where |w|^2 falls, as after a restart: what is seen of it is that of each pass alone."""

    X, y = sparse.eye_array(2000, format="csr"), np.random.default_rng(0).normal(size=2000)
    solver = make(
        counting(schedule, "_drop_delays"), Objective(Matrix(X), y, Squared(), 1e-1, None, 2)
    )
    for _ in range(8):
        solver.advance(UNLIMITED)
    solver.restart(1e-4)
    for _ in range(12):
        solver.advance(UNLIMITED)
    assert solver.calls == 0


def passes_to(tol, solver):
    """Passes, by the rows read, until the driver has certified the relative gap."""
    _, result, _ = drive(solver, Limits(tol, 5000))
    assert result.status == "converged"
    return result.accesses / solver.objective.matrix.n_stored


@pytest.mark.parametrize("alpha", [1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_threads_need_hardly_more_passes(schedule, alpha):
    """Rows that are alike, by the constant feature and by others, and weak penalties."""
    random = np.random.default_rng(2)
    X = np.abs(random.normal(size=(5000, 20)))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ random.normal(size=20) + 0.3 * random.normal(size=5000) > 0, 1.0, -1.0)
    objective = Objective(Matrix(sparse.csr_array(X), 1.0), y, Hinge(), alpha, None, 2)
    one, two = (passes_to(1e-2, make(kind, objective)) for kind in (SDCA, schedule))
    assert two < 1.5 * one


def test_no_step_of_column_halves_waits_for_the_constant_feature():
    """Rows that share nothing else are as good as those of one thread."""
    X = sparse.eye_array(2000, format="csr")
    y = np.where(np.arange(2000) % 3 == 0, -1.0, 1.0)
    objective = Objective(Matrix(X, 1.0), y, Squared(), 1e-4, None, 2)
    solvers = [make(kind, objective) for kind in (SDCA, ColumnHalves)]
    for solver in solvers:
        for _ in range(5):
            solver.advance(UNLIMITED)
    np.testing.assert_allclose(solvers[1].w, solvers[0].w, rtol=1e-9, atol=1e-12)
    assert solvers[1].pass_gain == pytest.approx(solvers[0].pass_gain, rel=1e-9)


def test_warm_start_and_restart():
    objective = problem(n_rows=2000)
    for schedule in SCHEDULES:
        first = make(schedule, objective)
        for _ in range(50):
            first.advance(UNLIMITED)
        again = make(schedule, objective, duals=first.duals())
        np.testing.assert_allclose(again.w, first.w, rtol=1e-9, atol=1e-11)
        first.restart(objective.alpha / 3)
        np.testing.assert_allclose(
            first.w, objective.weights_of_dual(first.duals()), rtol=1e-9, atol=1e-11
        )
        first.advance(UNLIMITED)
        np.testing.assert_allclose(
            first.w, objective.weights_of_dual(first.duals()), rtol=1e-9, atol=1e-11
        )
        objective.alpha = 1e-2


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_both_threads_shrink_duals_that_come_from_elsewhere(schedule):
    objective = problem(loss=Squared(), alpha=1.0)
    random = np.random.default_rng(0)
    solver = make(schedule, objective, duals=10 * random.normal(size=301))
    solver.shrink()
    assert not solver.duals().any()
    solver.advance(UNLIMITED)
    assert solver.w.any()
    w = objective.weights_of_dual(solver.duals())
    np.testing.assert_allclose(solver.w, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_after_other_duals_the_watch_has_as_many_steps_to_judge(schedule):
    """Not only those of a pass, which may be few."""

    random = np.random.default_rng(0)
    X = sparse.random_array((500, 400), density=0.001, format="csr", rng=random)
    y = np.where(random.normal(size=500) > 0, 1.0, -1.0)
    solver = make(
        counting(schedule, "_watch"), Objective(Matrix(X, 1.0), y, Squared(), 1e-2, None, 2)
    )
    for _ in range(10):
        solver.advance(UNLIMITED)
    n_watches, n_read = solver.calls, solver.accesses
    assert 0 < n_watches < 10
    solver.adopt(solver.duals() / 2, 0.0)
    solver.advance(UNLIMITED)
    assert solver.accesses - n_read < 4 * 401 and solver.calls == n_watches


def test_which_schedule_pays():
    def stub(n_rows, n_stored, n_weights=55, is_sparse=True):
        return SimpleNamespace(
            n_rows=n_rows, n_stored=n_stored, n_weights=n_weights, is_sparse=is_sparse
        )

    assert thread_schedule(stub(500_000, 6_000_000)) is RowHalves
    assert thread_schedule(stub(500_000, 6_000_000, 10_000)) is SDCA
    assert thread_schedule(stub(18_000, 8_000_000)) is ColumnHalves
    assert thread_schedule(stub(18_000, 8_000_000, is_sparse=False)) is SDCA
    assert thread_schedule(stub(18_000, 2_500_000)) is SDCA
    assert thread_schedule(stub(48_000, 670_000)) is SDCA


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads as Linux does")
def test_small_batches_begin_no_thread():
    program = """if True:
        import os
        import numpy as np
        from sublinear import SDCAClassifier
        X = np.random.default_rng(0).normal(size=(200, 10))
        model = SDCAClassifier(batch_size=20, n_jobs=2, tol=0.1, sigma_squared=0.5)
        before = len(os.listdir("/proc/self/task"))
        model.fit(X, X[:, 0] > 0)
        assert len(os.listdir("/proc/self/task")) == before
    """
    subprocess.run([sys.executable, "-c", program], check=True)
