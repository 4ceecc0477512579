"""The mini-batched SDCA solver: step by step against its oracle, averages, the paper's lemma."""

import itertools

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from reference.minibatch_sdca import averaged, minibatch_sdca, separable_bound, steps
from scipy import sparse
from stepping import advance_to, batches, bits, run_epochs, unchanged

from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._solvers.minibatch_sdca import AVERAGES, RULES, MiniBatchSDCA
from sublinear.theory import safe_beta, spectral_norm_squared

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
SAMPLINGS = ("shuffle", "fixed", "subsets")


class Problem:
    """A small sparse problem whose rows have different lengths and much in common."""

    def __init__(self, name="hinge", n_rows=26, alpha=0.05, weighted=False, seed=0):
        random = np.random.default_rng(seed)
        self.X = random.normal(size=(n_rows, 6)) + 0.5
        self.X[random.random(self.X.shape) < 0.4] = 0
        self.X[np.arange(n_rows), random.integers(6, size=n_rows)] = 1.5
        predictions = self.X @ random.normal(size=6) + random.normal(size=n_rows)
        self.y = np.sign(predictions) if name in MARGIN_LOSSES else predictions
        self.weights = random.integers(1, 5, n_rows) / 2 if weighted else None
        self.name, self.alpha, self.loss = name, alpha, ORACLES[name]()
        self.sizes = (self.X != 0).sum(axis=1)
        self.sigma_squared = spectral_norm_squared(self.X, tol=1e-12, max_iter=10_000)

    def objective(self, make=sparse.csr_array, n_threads=1):
        parameters = {"huber": (1.35,)}.get(self.name, ())
        loss = REGISTRY[self.name].loss(*parameters)
        return Objective(Matrix(make(self.X)), self.y, loss, self.alpha, self.weights, n_threads)

    def beta(self, batch_size):
        return safe_beta(len(self.y), batch_size, self.sigma_squared)

    def solver(self, rule="safe", batch_size=5, *, seed=0, n_threads=1, **options):
        return MiniBatchSDCA(
            self.objective(n_threads=n_threads), bits(seed), batch_size=batch_size, rule=rule,
            beta=self.beta(batch_size), **options,
        )  # fmt: skip

    def oracle(self, rule, batch_size, drawn, **options):
        return minibatch_sdca(
            self.X, self.y, self.loss, self.alpha, drawn, rule, self.beta(batch_size),
            weights=self.weights, **options,
        )  # fmt: skip

    def primal(self, w):
        return values.primal(self.X, self.y, self.loss, self.alpha, w, self.weights)

    def dual(self, duals):
        return values.dual(self.X, self.y, self.loss, self.alpha, duals, self.weights)

    def weights_of_dual(self, duals):
        return values.weights_of_dual(self.X, self.alpha, duals, self.weights)


def widened(X, n_columns):
    """X with its columns spread among so many: sums over all of them are taken by row if many."""
    wide = np.zeros((len(X), n_columns))
    wide[:, np.linspace(0, n_columns - 1, X.shape[1]).astype(int)] = X
    return wide


def nearly_one_line():
    """Rows on a line up to noise, to both sides: small steps cancel, large ones add up."""
    problem = Problem("hinge")
    random = np.random.default_rng(1)
    along = random.choice([-1, 1], size=(26, 1)) * (1 + 0.1 * random.normal(size=(26, 1)))
    problem.X = along * np.ones(6) + 0.03 * random.normal(size=(26, 6))
    problem.sizes = np.full(26, 6)
    problem.sigma_squared = spectral_norm_squared(problem.X)
    return problem


def compare_steps(problem, n_steps, rule, *, size, sampling="shuffle", average="last", **options):
    """Run solver and oracle on the same draws; compare everything after every iteration."""
    start = options.pop("duals", None)
    solver = problem.solver(
        rule, size, sampling=sampling, average=average, duals=start, **options
    )  # fmt: skip
    drawn, shown = itertools.tee(batches(len(problem.y), sampling, size))
    oracle = problem.oracle(rule, size, drawn, a=start, **options)
    history, epoch_ends = [np.zeros(len(problem.y)) if start is None else start], []
    accesses = seen = 0
    for (w, duals, beta), batch in zip(itertools.islice(oracle, n_steps), shown, strict=False):
        history.append(duals)
        accesses += problem.sizes[batch].sum()
        seen += len(batch)
        advance_to(solver, accesses)
        if seen // len(problem.y) > len(epoch_ends):
            epoch_ends.append(len(history) - 1)
        assert solver.n_steps == len(history) - 1
        assert solver.n_iter == len(epoch_ends)
        assert solver.work == accesses + seen
        np.testing.assert_allclose(solver.w, w, rtol=1e-8, atol=1e-10)
        assert solver.beta == pytest.approx(beta, rel=1e-7)
        expected = averaged(history, average, epoch_ends)
        for found in (solver.duals(), solver.release_duals()):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    return solver


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 5, 26])
@pytest.mark.parametrize("name", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("rule", RULES)
def test_step_by_step(rule, name, size, weighted):
    # the naive rule blows up the squared loss, and rounding errors with it
    n_steps = 12 if (rule, name) == ("naive", "squared") else 60
    compare_steps(Problem(name, weighted=weighted), n_steps, rule, size=size)


@pytest.mark.parametrize("n_columns", [6, 100])
@pytest.mark.parametrize("name", ORACLES)
def test_every_loss_step_by_step(name, n_columns):
    problem = Problem(name, weighted=True)
    problem.X = widened(problem.X, n_columns)
    compare_steps(problem, 40, "aggressive", size=4)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [1, 3, 7, 26])
@pytest.mark.parametrize("average", AVERAGES)
def test_averages_against_explicit_ones(average, size, sampling):
    compare_steps(Problem(), 130, "safe", size=size, sampling=sampling, average=average)


@pytest.mark.parametrize("average", AVERAGES)
def test_averages_where_steps_are_refused(average):
    solver = compare_steps(nearly_one_line(), 60, "aggressive", size=26, average=average)
    assert 0 < solver.n_refused < 60


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("average", AVERAGES)
def test_averages_from_given_duals(rule, average):
    problem = Problem("smoothed_hinge")
    duals = problem.y * np.random.default_rng(1).random(26)
    compare_steps(problem, 40, rule, size=6, average=average, duals=duals)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_gamma(gamma):
    compare_steps(Problem(), 60, "aggressive", size=8, gamma=gamma)


def test_beta_of_the_aggressive_rule_stays_in_its_range():
    problem = Problem()
    solver = problem.solver("aggressive", 13, gamma=0.5)
    assert solver.beta == problem.beta(13)
    for _ in range(50):
        run_epochs(solver, 1)
        assert 1 <= solver.beta <= problem.beta(13)
    assert solver.beta < 0.9 * problem.beta(13)


def test_infeasible_duals_are_clipped():
    problem = Problem()
    wild = np.random.default_rng(1).normal(scale=3, size=26)
    objective = problem.objective()
    solver = MiniBatchSDCA(objective, bits(), batch_size=4, rule="safe", beta=2.0, duals=wild)
    objective.make_feasible(wild)
    np.testing.assert_array_equal(solver.duals(), wild)
    np.testing.assert_allclose(solver.w, problem.weights_of_dual(wild), rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray])
def test_dense_rows_step_by_step(rule, make):
    problem = Problem("logistic", weighted=True)
    problem.X[problem.X == 0] = 1e-3  # dense rows count every value
    problem.sizes = np.full(26, 6)
    problem.objective = lambda **_: Objective(
        Matrix(make(problem.X)), problem.y, MARGIN_LOSSES["logistic"].loss(), problem.alpha,
        problem.weights,
    )  # fmt: skip
    compare_steps(problem, 40, rule, size=7)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_constant_column_is_a_column(rule, make):
    problem = Problem()
    extended = np.column_stack([problem.X, np.full(26, 2.0)])
    solvers = [
        MiniBatchSDCA(
            Objective(matrix, problem.y, MARGIN_LOSSES["hinge"].loss(), problem.alpha),
            bits(), batch_size=5, rule=rule, beta=3.0,
        )
        for matrix in (Matrix(make(problem.X), 2.0), Matrix(make(extended)))
    ]  # fmt: skip
    one, other = (run_epochs(solver, 10) for solver in solvers)
    np.testing.assert_allclose(one.w, other.w, rtol=1e-9, atol=1e-12)
    assert one.accesses < other.accesses  # the constant is not read


@pytest.mark.parametrize("size", [1, 5, 26])
@pytest.mark.parametrize("rule", RULES)
def test_an_epoch_reads_every_value_once(rule, size):
    problem = Problem()
    for sampling in ("shuffle", "fixed"):
        solver = problem.solver(rule, size, sampling=sampling)
        for epoch in range(1, 4):
            run_epochs(solver, 1)
            assert solver.accesses == epoch * problem.sizes.sum()
            assert (solver.n_iter, solver.n_steps) == (epoch, epoch * -(-26 // size))


def test_the_limit_is_used_up_to_the_next_batch():
    problem = Problem()
    largest_batch = np.sort(problem.sizes)[-5:].sum()
    for limit in range(0, int(problem.sizes.sum()), 7):
        solver = problem.solver("aggressive")
        solver.advance(limit)
        assert limit - largest_batch < solver.accesses <= limit
        before = solver.accesses, solver.n_steps
        solver.advance(limit)
        assert (solver.accesses, solver.n_steps) == before


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("rule", RULES)
def test_slices_change_nothing(rule, average, sampling):
    problem = Problem(n_rows=300)
    whole, sliced = (
        problem.solver(rule, 7, average=average, sampling=sampling) for _ in range(2)
    )  # fmt: skip
    run_epochs(whole, 6)
    random, limit = np.random.default_rng(0), 0
    while sliced.n_iter < 6:
        limit += int(random.integers(1, 400))
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.w, whole.w)
    np.testing.assert_array_equal(sliced.release_duals(), whole.release_duals())
    np.testing.assert_array_equal(sliced.duals(), whole.duals())
    assert (sliced.accesses, sliced.n_steps) == (whole.accesses, whole.n_steps)


@pytest.mark.parametrize("n_columns", [50, 3000])
@pytest.mark.parametrize("rule", RULES)
def test_a_large_batch_is_worked_on_in_pieces(rule, n_columns):
    """So that the driver can look for Ctrl-C; at any time w is that of the duals."""
    problem = Problem(n_rows=200)
    problem.X = widened(problem.X, n_columns)
    solver = problem.solver(rule, 200)
    solver.piece = 60
    oracle = problem.oracle(rule, 200, batches(200, "shuffle", 200))
    for iteration, (w, duals, beta) in enumerate(itertools.islice(oracle, 3)):
        calls = 0
        while solver.n_steps == iteration:
            assert solver.accesses == iteration * problem.sizes.sum()
            np.testing.assert_allclose(
                solver.w, problem.weights_of_dual(solver.release_duals()), atol=1e-12
            )
            work = solver.work
            at_end = solver.advance(2**60)
            assert solver.work > work
            assert at_end == (solver.n_steps > iteration)
            calls += 1
        assert calls >= 4
        np.testing.assert_allclose(solver.w, w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(solver.release_duals(), duals, rtol=1e-8, atol=1e-10)
        assert solver.beta == pytest.approx(beta, rel=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_threads_change_no_bit(rule):
    problem = Problem(n_rows=1200)
    problem.X = np.random.default_rng(3).normal(size=(1200, 1000))  # enough to be shared out
    one, two = (problem.solver(rule, 1200, n_threads=n_threads) for n_threads in (1, 2))
    for solver in (one, two):
        run_epochs(solver, 3)
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.duals(), two.duals())


@pytest.mark.parametrize("rule", RULES)
def test_looking_at_the_average_changes_nothing_that_matters(rule):
    problem = Problem()
    for average in AVERAGES:
        watched, alone = (problem.solver(rule, average=average) for _ in range(2))
        for limit in range(0, 1500, 20):
            watched.advance(limit)
            watched.duals()
            alone.advance(limit)
        np.testing.assert_array_equal(watched.w, alone.w)
        np.testing.assert_allclose(watched.duals(), alone.duals(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("rule", RULES)
def test_two_threads_give_the_same_bits(rule, name):
    problem = Problem(name, n_rows=300, weighted=True)
    one, two = (problem.solver(rule, 64, n_threads=n_threads) for n_threads in (1, 2))
    run_epochs(one, 8)
    run_epochs(two, 8)
    np.testing.assert_array_equal(one.w, two.w)
    np.testing.assert_array_equal(one.duals(), two.duals())


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_certificates_are_bounds_and_the_gap_closes(rule, average, name):
    problem = Problem(name, weighted=True)
    solver = problem.solver(rule, average=average)
    primals, bounds = [], []
    for _ in range(40):
        run_epochs(solver, 10)
        model, primal, dual = solver.certify(lambda w: w.astype(np.float32).astype(float))
        np.testing.assert_array_equal(model, model.astype(np.float32))
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        assert dual == pytest.approx(problem.dual(solver.duals()), rel=1e-9, abs=1e-12)
        primals.append(primal)
        bounds.append(dual)
    assert max(bounds) <= min(primals)
    assert min(primals) - max(bounds) < 0.02 * min(primals)
    assert not solver.diverged


def test_the_aggressive_rule_never_lowers_the_dual():
    for problem in (nearly_one_line(), Problem("squared", alpha=0.002), Problem("absolute")):
        solver = problem.solver("aggressive", 13, gamma=0.3)
        last = problem.dual(solver.duals())
        for limit in range(0, 8000, int(problem.sizes.max()) * 13):
            solver.advance(limit)
            dual = problem.dual(solver.duals())
            assert dual >= last - 1e-12 * abs(last)
            last = dual


def one_safe_step(problem, size, a, seed):
    """Return the dual value after one safe iteration from a, on a random subset."""
    solver = problem.solver("safe", size, seed=seed, sampling="subsets", duals=a)
    while solver.n_steps == 0:
        solver.advance(solver.accesses + int(np.sort(problem.sizes)[-size:].sum()))
    assert solver.n_steps == 1
    return problem.dual(solver.duals())


@pytest.mark.parametrize(
    ("name", "size", "weighted"),
    [("hinge", 4, False), ("hinge", 13, True), ("logistic", 8, False), ("squared", 20, True)],
)
def test_lemma_3_by_monte_carlo(name, size, weighted):
    """E D(a + d_A) >= (1 - b / n) D(a) + (b / n) H(d, a), over random subsets A of size b.

    The bound is on the rise of the dual by the safe rule's steps; it is at least 0. It needs no
    rows of length at most 1 and no equal weights, as each step is divided by its own |x_i|^2.
    """
    problem = Problem(name)
    random = np.random.default_rng(3)
    a = random.normal(size=26)
    if weighted:
        problem.weights = np.exp(random.normal(size=26))
    problem.objective().make_feasible(a)
    s = np.ones(26) if problem.weights is None else problem.weights
    n, w, everyone = 26, problem.weights_of_dual(a), np.arange(26)
    d = steps(
        problem.X, problem.y, problem.loss, problem.alpha, s, everyone, a, w, problem.beta(size)
    )
    H = separable_bound(
        problem.X, problem.y, problem.loss, problem.alpha, a, d, problem.beta(size), problem.weights
    )
    bound = (1 - size / n) * problem.dual(a) + size / n * H
    duals = [one_safe_step(problem, size, a, seed) for seed in range(1500)]
    error = np.std(duals) / np.sqrt(len(duals))
    assert bound >= problem.dual(a)
    assert np.mean(duals) >= bound - 4 * error


@pytest.mark.parametrize("size", [2, 5])
def test_lemma_3_is_exact_for_equal_rows(size):
    """With sigma^2 = 1 and equal steps the bound holds with equality: no smaller beta is safe."""
    problem = Problem(n_rows=8, alpha=2.0)
    problem.X[:] = problem.X[0]
    problem.y[:] = 1
    problem.sizes = (problem.X != 0).sum(axis=1)
    problem.sigma_squared = 1.0
    a = np.full(8, 0.1)
    w = problem.weights_of_dual(a)
    beta = problem.beta(size)
    assert beta == size
    arguments = problem.X, problem.y, problem.loss, problem.alpha
    d = steps(*arguments, np.ones(8), np.arange(8), a, w, beta)
    H = separable_bound(*arguments, a, d, beta)
    bound = (1 - size / 8) * problem.dual(a) + size / 8 * H
    for subset in itertools.combinations(range(8), size):
        moved = a.copy()
        moved[list(subset)] += d[list(subset)]
        assert problem.dual(moved) == pytest.approx(bound, rel=1e-12)
    assert one_safe_step(problem, size, a, seed=0) == pytest.approx(bound, rel=1e-12)


def identical_examples(rule, n=2, duals=None):
    """Section 4.1: n = b, Q_ij = 1, lambda = 1 / n."""
    loss, beta = MARGIN_LOSSES["hinge"].loss(), safe_beta(n, n, 1.0)
    objective = Objective(Matrix(np.ones((n, 1))), np.ones(n), loss, 1 / n)
    return MiniBatchSDCA(objective, bits(), batch_size=n, rule=rule, beta=beta, duals=duals)


def test_two_identical_examples_cycle_under_the_naive_rule():
    solver = identical_examples("naive")
    for _ in range(5):
        for duals in (1.0, 0.0):
            run_epochs(solver, 1)
            np.testing.assert_array_equal(solver.duals(), [duals, duals])
            assert solver.certify(unchanged)[2] == 0
    assert solver.diverged


def test_a_cycle_below_the_duals_it_began_with_is_divergence():
    """Of four examples w goes from 0 to 4 and back; the optimum is 1."""
    solver = identical_examples("naive", 4, np.full(4, 0.22))
    assert not solver.diverged
    for _ in range(12):
        run_epochs(solver, 1).certify(unchanged)
    assert set(solver.duals()) <= {0.0, 1.0} and solver.diverged
    run_epochs(solver, 1).certify(unchanged)
    assert solver.diverged


@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_two_identical_examples_converge_under_the_others(rule):
    solver = run_epochs(identical_examples(rule), 3)
    np.testing.assert_allclose(solver.duals(), [0.5, 0.5])
    _, primal, dual = solver.certify(unchanged)
    assert primal == pytest.approx(0.25)
    assert dual == pytest.approx(0.25)
    assert not solver.diverged


def test_what_is_not_finite_has_diverged():
    problem = Problem("squared", alpha=1e-6)
    solver = problem.solver("naive", 26)
    with np.errstate(all="ignore"):
        while np.isfinite(solver.w).all():
            assert solver.n_iter < 1000
            run_epochs(solver, 1)
        assert solver.diverged
        run_epochs(solver, 1)
    np.testing.assert_array_equal(solver.release_duals(), np.zeros(26))


def test_rows_without_entries_get_their_dual_at_once():
    problem = Problem("squared")
    problem.X[::2] = 0
    solver = run_epochs(problem.solver("safe", 5), 1)
    np.testing.assert_allclose(solver.duals()[::2], problem.y[::2], rtol=1e-12)


def test_rows_of_weight_zero_do_not_matter():
    problem, less = Problem("logistic"), Problem("logistic")
    problem.weights = (np.arange(26) % 3 > 0).astype(float)
    kept = problem.weights > 0
    less.X, less.y, less.sizes = less.X[kept], less.y[kept], less.sizes[kept]
    one, other = (run_epochs(case.solver("safe"), 400) for case in (problem, less))
    np.testing.assert_allclose(one.w, other.w, rtol=1e-7)


@pytest.mark.parametrize("size", [0, 27])
def test_impossible_batch_sizes(size):
    with pytest.raises(ValueError, match="batch_size must be from 1 to 26"):
        MiniBatchSDCA(Problem().objective(), bits(), batch_size=size, rule="safe", beta=1.0)
