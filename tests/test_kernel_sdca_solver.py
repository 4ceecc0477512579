"""The block solver of kernel machines: against its oracle, and its certificate in float64."""

import numpy as np
import pytest
from reference import kernel_sdca as oracle
from reference.losses import LOSSES as ORACLES
from sklearn.metrics.pairwise import rbf_kernel

from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_rows import PrecomputedRows
from sublinear._core.kernels import KERNELS
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.panels import use_lanes
from sublinear._core.random import RandomBits
from sublinear._solvers.kernel_sdca import KernelSDCA

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
LOSSES = [name for name, entry in REGISTRY.items() if entry.loss().dual_form() is not None]


class Problem:
    def __init__(self, name="hinge", n=150, weighted=False, C=2.0, **options):
        random = np.random.default_rng(0)
        self.X = random.normal(size=(n, 4)).astype(np.float32).astype(float)
        self.y = self.X[:, 0] * self.X[:, 1] + 0.3 * random.normal(size=n)
        if name in MARGIN_LOSSES:
            self.y = np.where(self.y > 0.5, 1.0, -1.0)
        self.K = rbf_kernel(self.X, gamma=0.5) + options.get("shift", 0)
        self.scales = C * (random.integers(0, 3, n) if weighted else np.ones(n))
        self.loss, self.reference = REGISTRY[name].loss(), ORACLES[name]()
        rows = kernel_rows(KERNELS["rbf"](0.5), self.X)
        self.objective = KernelObjective(rows, self.y, self.loss, self.scales, **options)

    def solver(self, **options):
        return KernelSDCA(self.objective, RandomBits(np.random.SeedSequence(0)), **options)

    def values(self, model):
        free = self.objective.free_intercept
        return oracle.values(
            self.K, self.y, self.reference, self.scales, model[:-1], model[-1] if free else 0.0
        )


def closed(solver, tol, primal):
    """Return what a gap may be besides what makes up for rounding."""
    return (tol + solver.objective.relative_rounding) * primal


INTERCEPTS = [{}, {"shift": 2.25}, {"free_intercept": True}]


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("block_size", [40, 64, 1000])
@pytest.mark.parametrize("name", LOSSES)
def test_a_round_is_that_of_the_oracle(name, block_size, intercept):
    """The same working set gives nearly the same coefficients: float32 may turn the greedy choice
    where two gains are close."""
    problem = Problem(name, **intercept)
    solver = problem.solver(block_size=block_size)
    start = np.zeros(150)
    assert solver.advance(2**60)
    rows = solver.rows
    assert len(rows) == min(block_size, 150) and len(np.unique(rows)) == len(rows)
    shift, free = problem.objective.shift, problem.objective.free_intercept
    (v,) = oracle.kernel_sdca(
        problem.K - shift,
        problem.y,
        problem.loss.dual_form(),
        problem.scales,
        [rows],
        inner_tol=1e-7 if len(rows) == 150 else 0.01,
        shift=shift,
        free=free,
    )
    expected = oracle.values(problem.K, problem.y, problem.reference, problem.scales, v)[1]
    got = problem.values(solver.model())[1]
    zero = oracle.values(problem.K, problem.y, problem.reference, problem.scales, start)[1]
    assert zero < got
    assert got - zero == pytest.approx(expected - zero, rel=2e-2)
    outside = np.setdiff1d(np.arange(150), rows)
    assert not solver.coefficients[outside].any()


@pytest.mark.parametrize("name", LOSSES)
def test_far_from_the_origin_a_penalised_intercept_takes_up_what_centring_took_off(name):
    problem = Problem(name)
    X = problem.X + 30
    objective = KernelObjective(
        kernel_rows(KERNELS["linear"](), X), problem.y, problem.loss, problem.scales, shift=4.0
    )
    assert objective.rows.is_centred
    block = objective.block(np.array([3, 5, 100])).astype(float)
    changes = np.array([0.3, -1.2, 0.4])
    K = (X @ X.T + 4.0)[np.ix_([3, 5, 100], [3, 5, 100])]
    whole = np.append(changes, -changes.sum())
    assert whole @ block[:4, :4] @ whole == pytest.approx(changes @ K @ changes, rel=1e-4)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize(("noise", "block_size"), [(0, 1024), (3, 1024), (3, 2000), (3, 300)])
def test_working_sets_are_small_as_long_as_few_rows_matter(intercept, noise, block_size):
    random = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 750)
    X = y[:, np.newaxis] + (0.2 + noise) * random.normal(size=(1500, 2))
    rows = kernel_rows(KERNELS["rbf"](0.5), X)
    objective = KernelObjective(rows, y, REGISTRY["hinge"].loss(), np.ones(1500), **intercept)
    solver = KernelSDCA(
        objective, RandomBits(np.random.SeedSequence(0)), block_size=block_size, inner_tol=1e-4
    )
    sizes = []
    for _ in range(3):
        while not solver.advance(2**60):
            pass
        sizes.append(len(solver.rows))
    assert sizes[0] == {1024: 512, 2000: 1500, 300: 300}[block_size]
    assert (max(sizes) > sizes[0]) == (noise > 0 and block_size == 1024)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block_size", [64, 2048])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gap_closes_and_holds_in_float64(name, block_size, weighted, intercept):
    problem = Problem(name, weighted=weighted, **intercept)
    solver = problem.solver(block_size=block_size)
    for _ in range(60):
        while not solver.advance(2**60):
            pass
        model, primal, dual = solver.certify(None)
        if primal - dual < closed(solver, 1e-5, primal):
            break
    assert primal - dual < closed(solver, 1e-5, primal)
    exact_primal, exact_dual = problem.values(model)
    assert dual <= exact_dual and exact_primal <= primal + solver.objective.rounding
    best = problem.objective.best_intercept(solver.margins)
    computed = problem.objective.values(solver.coefficients, solver.margins, best)
    np.testing.assert_allclose((exact_primal, exact_dual), computed, rtol=2e-6)
    low, high, _ = oracle.box(problem.loss.dual_form(), problem.y, problem.scales)
    assert (low <= model[:-1]).all() and (model[:-1] <= high).all()
    if "free_intercept" in intercept:
        assert abs(model[:-1].sum()) <= 1e-9 * np.abs(model[:-1]).sum()


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("C", [30.0, 300.0, 3000.0])
def test_the_gap_closes_where_coefficients_are_large(C, intercept):
    """Steps far below what float32 resolves next to the largest coefficients still count."""
    problem = Problem(C=C, **intercept)
    solver = problem.solver()
    for _ in range(60):
        while not solver.advance(2**60):
            pass
        _, primal, dual = solver.certify(None)
        if primal - dual < closed(solver, 1e-6, primal):
            break
    assert primal - dual < closed(solver, 1e-6, primal)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "epsilon_insensitive"])
def test_vector_widths_and_threads_change_no_bit(name, intercept):
    reached = []
    try:
        for lanes, threads in ((4, 1), (8, 1), (16, 1), (4, 2)):
            if not use_lanes(lanes):
                continue
            solver = Problem(name, **intercept, n_threads=threads).solver(block_size=100)
            for _ in range(3):
                while not solver.advance(2**60):
                    pass
            reached.append((solver.coefficients, solver.margins))
    finally:
        assert use_lanes(16) or use_lanes(8) or use_lanes(4)
    assert len(reached) > 1
    for coefficients, margins in reached:
        np.testing.assert_array_equal(coefficients, reached[0][0])
        np.testing.assert_array_equal(margins, reached[0][1])


@pytest.mark.parametrize("intercept", [{"shift": 2.25}, {"free_intercept": True}])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_where_all_rows_are_in_the_block_no_kernel_value_is_computed_twice(kernel, name, intercept):
    """Its diagonal has the curvature of the losses, which is none of the kernel's."""
    problem = Problem(name, C=0.5)
    X = problem.X + (30 if kernel == "linear" else 0)  # centred: products lack the offsets
    K = X @ X.T if kernel == "linear" else problem.K
    objective = KernelObjective(
        kernel_rows(KERNELS[kernel](0.5), X), problem.y, problem.loss, problem.scales, **intercept
    )
    assert objective.rows.is_centred == (kernel == "linear")
    solver = KernelSDCA(objective, RandomBits(np.random.SeedSequence(0)))
    assert solver.advance(2**60) and solver.n_steps > 0
    size = 150 + bool(objective.shift)
    changed = np.count_nonzero(solver.coefficients)
    assert solver.accesses == size * (size + 1) // 2 + (0 if changed >= 75 else changed * 150)
    expected = (K + objective.shift) @ solver.coefficients
    scale = np.abs(K).max() * np.abs(solver.coefficients).max()
    np.testing.assert_allclose(solver.margins, expected, atol=2e-6 * scale)


def test_the_block_serves_however_few_rows_a_product_takes_at_once():
    class ShortProducts(PrecomputedRows):
        rows_per_call = 40

    problem = Problem(C=0.5)
    rows = ShortProducts(problem.K.astype(np.float32))
    objective = KernelObjective(rows, problem.y, problem.loss, problem.scales, free_intercept=True)
    solver = KernelSDCA(objective, RandomBits(np.random.SeedSequence(0)))
    assert solver.advance(2**60)
    assert np.count_nonzero(solver.coefficients) > 75
    assert solver.accesses == 150 * 151 // 2
    np.testing.assert_allclose(solver.margins, problem.K @ solver.coefficients, atol=1e-5)


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_few_rows_need_few_rounds(intercept):
    """The ascent goes on as long as the calls of another round would take."""
    gaps, steps = [], []
    for inner_tol in (None, 1e-4):
        solver = Problem(n=100, **intercept).solver(inner_tol=inner_tol)
        assert solver.advance(2**60)
        gaps.append(solver.estimated_gap)
        steps.append(solver.n_steps)
    assert gaps[0] <= 1e-3 < gaps[1]
    assert steps[1] < steps[0] <= steps[1] + 2**18 / 128


def test_margins_stay_those_of_the_coefficients():
    problem = Problem(shift=0.25)
    solver = problem.solver(block_size=32)
    for _ in range(20):
        solver.advance(2**60)
    np.testing.assert_allclose(solver.margins, problem.K @ solver.coefficients, atol=2e-5)


def test_margins_of_a_known_product_are_gone_on_from():
    problem = Problem("squared", shift=2.25)
    solver = problem.solver(block_size=32)
    for _ in range(3):
        solver.advance(2**60)
    problem.objective.use_products(lambda v: (problem.K - 2.25) @ v)
    assert solver.refine()
    for _ in range(5):
        solver.advance(2**60)
    np.testing.assert_allclose(solver.margins, problem.K @ solver.coefficients, atol=1e-4)


def test_an_ascent_that_went_astray_is_undone_with_its_intercept():
    class Astray(KernelObjective):
        n_values = 0

        def values(self, *arguments):
            self.n_values += 1
            primal, dual = super().values(*arguments)
            return primal, 1e9 if self.n_values % 5 == 0 else dual

    problem = Problem("squared", shift=2.25)
    rows = problem.objective.rows
    problem.objective = Astray(rows, problem.y, problem.loss, problem.scales, shift=2.25)
    solver = problem.solver(block_size=32)
    for _ in range(24):
        solver.advance(2**60)
    np.testing.assert_allclose(solver.margins, problem.K @ solver.coefficients, atol=1e-4)


@pytest.mark.parametrize("budget", [100, 151, 1000, 20_000])
def test_a_budget_is_never_exceeded_and_used(budget):
    solver = Problem().solver(max_accesses=budget)
    while True:
        before = solver.accesses
        if not solver.advance(budget) and solver.accesses == before:
            break
    assert solver.accesses <= budget
    assert solver.accesses > 0 or budget < 2 * 150
    assert solver.coefficients.any() == (budget >= 1000)
    primal, dual = solver.certify(None)[1:]
    assert dual <= primal


def test_small_slices_change_nothing():
    whole, sliced = Problem().solver(block_size=48), Problem().solver(block_size=48)
    for _ in range(5):
        whole.advance(2**60)
        while not sliced.advance(sliced.accesses + 48 * 150):
            pass
    np.testing.assert_array_equal(whole.coefficients, sliced.coefficients)
    np.testing.assert_array_equal(whole.margins, sliced.margins)


def test_a_refused_working_set_is_not_drawn_again():
    """How often a limit is in the way depends on the clock."""
    whole, refused = Problem().solver(block_size=48), Problem().solver(block_size=48)
    for _ in range(5):
        whole.advance(2**60)
        limit = refused.accesses
        while not refused.advance(limit):
            limit += 300
    np.testing.assert_array_equal(whole.coefficients, refused.coefficients)


def test_a_start_is_made_feasible_and_gone_on_from():
    problem = Problem()
    solver = problem.solver()
    for _ in range(10):
        solver.advance(2**60)
    again = problem.solver(coefficients=solver.coefficients)
    again.advance(2**60)
    np.testing.assert_array_equal(again.coefficients, solver.coefficients)
    assert again.certify(None)[1] == pytest.approx(solver.certify(None)[1], rel=1e-6)
    wild = Problem(free_intercept=True).solver(coefficients=np.linspace(-9, 5, 150))
    wild.advance(2**60)
    assert abs(wild.coefficients.sum()) < 1e-9 * np.abs(wild.coefficients).sum()


def test_a_restart_with_other_scales_has_other_curvatures():
    """The block holds curvatures, so that of the same rows serves no longer."""
    problem = Problem("squared_hinge", C=1e-2)
    solver, rows = problem.solver(), problem.objective.rows
    for _ in range(10):
        solver.advance(2**60)
    solver.restart(KernelObjective(rows, problem.y, problem.loss, 1e4 * problem.scales))
    for _ in range(8):
        solver.advance(2**60)
    _, primal, dual = solver.certify(None)
    assert primal - dual <= 1e-3 * primal


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_best_intercept_is_best(name, weighted):
    problem = Problem(name, weighted=weighted, free_intercept=True)
    random = np.random.default_rng(1)
    zeros = np.zeros(150)
    for shift in (0.0, 0.01, 5.0, -300.0):
        margins = random.normal(size=150) + shift
        best = problem.objective.best_intercept(margins)
        least = problem.objective.values(zeros, margins, best)[0]
        for step in (-1e-3, 1e-3, 1.0, -1.0):
            value = problem.objective.values(zeros, margins, best + step)[0]
            assert least <= value + 1e-9 * abs(value)


def test_coefficients_out_of_balance_prove_nothing():
    """With a free intercept, whose optimum has none."""
    balanced = np.arange(150) % 2 - 0.5
    for free, is_bound in ((True, False), (False, True)):
        objective = Problem(free_intercept=free).objective
        for v, expected in ((balanced, True), (np.maximum(balanced, 0), is_bound)):
            margins = objective.margins_of(v)
            _, dual = objective.values(v, margins, objective.best_intercept(margins))
            assert np.isfinite(dual) == expected


def test_no_intercept_is_0():
    assert Problem().objective.best_intercept(np.ones(150)) == 0


def test_losses_without_a_quadratic_conjugate_are_refused():
    with pytest.raises(ValueError, match="quadratic"):
        Problem("logistic").solver()


def test_dual_forms_are_the_conjugates():
    for name in LOSSES:
        loss = REGISTRY[name].loss()
        form = loss.dual_form()
        for y in (1.0, -1.0):
            a = np.linspace(0 if form.one_sided else -1, 1, 21) * min(form.bound, 3.0) * y
            expected = form.ridge * a**2 / 2 + form.epsilon * np.abs(a) - y * a
            np.testing.assert_allclose(loss.conjugates(a, np.full(21, y)), expected, atol=1e-12)
            beyond = 1.01 * form.bound * y
            if np.isfinite(beyond):
                assert abs(loss.nearest_duals([beyond], [y])[0]) == pytest.approx(form.bound)
