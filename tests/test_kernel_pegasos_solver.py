"""The kernel Pegasos solver and its oracle: step by step, against linear Pegasos, certificates."""

import itertools

import numpy as np
import pytest
from reference.kernel_pegasos import kernel_pegasos, kernel_pegasos_of_loss, predict
from reference.losses import LOSSES as ORACLES
from reference.pegasos import pegasos
from stepping import batches, bits

from sublinear._core.kernel_choice import kernel_rows
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernels import KERNELS
from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.order import SAMPLINGS
from sublinear._solvers.kernel_pegasos import KernelPegasos

LOSSES = ("hinge", "smoothed_hinge", "logistic")


def data(n_rows=30, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 5))
    y = np.where(X @ random.normal(size=5) + random.normal(size=n_rows, scale=0.3) > 0, 1.0, -1.0)
    return X, y


def draws(n_rows, count, size=1, seed=0):
    random = np.random.default_rng(seed)
    return [random.permutation(n_rows)[:size] for _ in range(count)]


@pytest.mark.parametrize("size", [1, 3])
def test_oracle_with_linear_kernel_is_linear_pegasos(size):
    """Equation (13): with K = X X' the counts of Figure 3 make the w of Figures 1 and 2."""
    X, y = data()
    K, batches, alpha = X @ X.T, draws(30, 200, size), 0.05
    linear = pegasos(X, y, ORACLES["hinge"](), alpha, batches)
    for t, (w, counts) in enumerate(
        zip(linear, kernel_pegasos(K, y, alpha, batches), strict=True), start=1
    ):
        np.testing.assert_allclose(predict(K, y, counts, alpha, t * size), X @ w, atol=1e-9)
    assert counts.max() > 3 and (counts == 0).any()


@pytest.mark.parametrize("name", ["hinge", "smoothed_hinge", "logistic"])
def test_oracle_of_losses_is_linear_pegasos(name):
    X, y = data()
    weights = np.random.default_rng(1).integers(1, 4, 30) / 2
    batches, loss = draws(30, 100, 2), ORACLES[name]()
    linear = pegasos(X, y, loss, 0.1, batches, weights)
    kernel = kernel_pegasos_of_loss(X @ X.T, y, loss, 0.1, batches, weights)
    for w, coefficients in itertools.islice(zip(linear, kernel, strict=True), 100):
        np.testing.assert_allclose(coefficients @ X, w, atol=1e-9)


def test_both_oracles_agree():
    X, y = data()
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(-1))
    batches, alpha = draws(30, 100), 0.02
    counts = list(kernel_pegasos(K, y, alpha, batches))
    general = list(kernel_pegasos_of_loss(K, y, ORACLES["hinge"](), alpha, batches))
    for t in (1, 10, 100):
        np.testing.assert_allclose(
            counts[t - 1] * y / (alpha * t), general[t - 1], rtol=1e-9, atol=1e-12
        )


class Problem:
    """A Gaussian kernel, and the oracle's view of it."""

    def __init__(self, name="hinge", n_rows=150, C=2.0, weighted=False, shift=0.0, seed=0):
        self.X, self.y = data(n_rows, seed)
        self.X = self.X.astype(np.float32).astype(float)
        distances = ((self.X[:, None] - self.X[None]) ** 2).sum(-1)
        self.K = np.exp(-0.3 * distances) + shift
        self.name, self.shift, self.loss = name, shift, ORACLES[name]()
        random = np.random.default_rng(1)
        self.weights = random.integers(1, 5, n_rows) / 2 if weighted else np.ones(n_rows)
        self.scales = C * self.weights
        self.alpha = 1 / self.scales.sum()

    def solver(self, seed=0, *, n_threads=1, **options):
        rows = kernel_rows(KERNELS["rbf"](0.3), self.X)
        loss = MARGIN_LOSSES[self.name].loss()
        objective = KernelObjective(
            rows, self.y, loss, self.scales, shift=self.shift, n_threads=n_threads
        )
        return KernelPegasos(objective, bits(seed), **options)

    def oracle(self, batches):
        return kernel_pegasos_of_loss(self.K, self.y, self.loss, self.alpha, batches, self.weights)

    def primal(self, coefficients):
        margins = self.K @ coefficients
        return coefficients @ margins / 2 + self.scales @ self.loss.value(margins, self.y)

    def dual(self, coefficients):
        conjugates = self.loss.conjugate(coefficients / self.scales, self.y)
        return -coefficients @ self.K @ coefficients / 2 - self.scales @ conjugates


def after(iterates, count):
    """Return the iterate after `count` more steps."""
    return next(itertools.islice(iterates, count - 1, None))


def epochs(solver, count):
    for _ in range(count):
        assert solver.advance(2**60)
    return solver


@pytest.mark.parametrize("size", [1, 7, 150])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_steps_are_those_of_the_oracle(sampling, size):
    problem = Problem()
    solver = problem.solver(sampling=sampling, batch_size=size)
    steps = 0
    iterates = problem.oracle(batches(150, sampling, size))
    for _ in range(6):
        epochs(solver, 1)
        coefficients = after(iterates, solver.n_steps - steps)
        steps = solver.n_steps
        np.testing.assert_allclose(solver.model()[:-1], coefficients, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(solver.margins(), problem.K @ coefficients, atol=1e-4)
    assert solver.n_iter == 6 and solver.n_steps >= 6


def test_the_counts_of_figure_3():
    problem = Problem(n_rows=300)
    solver = epochs(problem.solver(), 8)
    shown = batches(300, "replacement", 1)
    counts = after(kernel_pegasos(problem.K, problem.y, problem.alpha, shown), 2400)
    np.testing.assert_array_equal(solver.coefficients * problem.y, counts)


@pytest.mark.parametrize("shift", [0.0, 0.49])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_weights_and_intercept(name, weighted, shift):
    problem = Problem(name, weighted=weighted, shift=shift, n_rows=80)
    solver = epochs(problem.solver(batch_size=3, sampling="shuffle"), 5)
    coefficients = after(problem.oracle(batches(80, "shuffle", 3)), solver.n_steps)
    model = solver.model()
    np.testing.assert_allclose(model[:-1], coefficients, rtol=1e-4, atol=1e-6)
    assert model[-1] == pytest.approx(shift * model[:-1].sum())


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("size", [1, 5])
def test_slices_and_threads_change_nothing(size, n_threads):
    problem = Problem(n_rows=700)
    whole = epochs(problem.solver(batch_size=size), 4)
    sliced, limit = problem.solver(batch_size=size, n_threads=n_threads), 0
    random = np.random.default_rng(0)
    while sliced.n_iter < 4:
        limit += int(random.integers(1, 60_000))
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.model(), whole.model())
    np.testing.assert_array_equal(sliced.margins(), whole.margins())
    assert (sliced.accesses, sliced.n_steps) == (whole.accesses, whole.n_steps)


def test_accesses_are_the_kernel_values():
    problem = Problem(n_rows=64)
    solver = epochs(problem.solver(sampling="shuffle"), 1)
    changes = np.count_nonzero(solver.coefficients)
    assert solver.accesses == 64 * 65 // 2 + 64 * changes
    assert solver.work == solver.accesses + 64 + 2**14  # the calls of an epoch
    whole = epochs(problem.solver(batch_size=64, sampling="shuffle"), 1)
    assert whole.accesses == 64 * 64  # at w = 0 every example changes, and a block is a batch


@pytest.mark.parametrize("shift", [0.0, 0.49])
@pytest.mark.parametrize("sampling", ["replacement", "shuffle"])
@pytest.mark.parametrize("name", LOSSES)
def test_certificates_are_those_of_the_model(name, sampling, shift):
    problem = Problem(name, weighted=True, shift=shift)
    solver = problem.solver(sampling=sampling, batch_size=2)
    for limit in range(20_000, 500_000, 60_000):
        solver.advance(limit)
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model[:-1]), rel=1e-5)
        expected = problem.dual(solver.duals())
        assert dual <= expected and dual <= primal
        computed = dual + solver.objective.rounding - solver.objective.model_error
        assert computed == pytest.approx(expected, rel=1e-5, abs=1e-4)
    assert solver.n_iter > 2


def test_whole_epochs_of_permutations_clip_nothing():
    solver = epochs(Problem(n_rows=300).solver(sampling="shuffle"), 10)
    solver.certify(lambda w: w)
    assert solver.objective.accesses == 0
    np.testing.assert_array_equal(solver.duals(), solver.model()[:-1])


def test_the_gap_closes():
    solver = epochs(Problem(n_rows=300, C=0.5).solver(sampling="shuffle"), 300)
    _, primal, dual = solver.certify(lambda w: w)
    assert 0 <= primal - dual <= 0.02 * primal


def test_resume_goes_on():
    problem = Problem()
    first = epochs(problem.solver(sampling="fixed"), 3)
    second = problem.solver(sampling="fixed")
    second.resume(first.model()[:-1], first.n_steps, first.n_drawn)
    epochs(second, 2), epochs(first, 2)
    np.testing.assert_allclose(second.model(), first.model(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(second.margins(), first.margins(), atol=1e-4)


def test_resume_within_a_budget():
    """What of the start has not been brought to the sums is not part of the model yet."""
    problem = Problem(n_rows=700, C=0.01)
    first = epochs(problem.solver(sampling="shuffle"), 3)
    assert np.count_nonzero(first.coefficients) > 520
    second = problem.solver()
    second.resume(first.model()[:-1], first.n_steps, first.n_drawn)
    assert not second.advance(512 * 700) and second.accesses == 512 * 700
    model, primal, dual = second.certify(lambda w: w)
    assert np.count_nonzero(model[:-1]) == 512
    assert primal == pytest.approx(problem.primal(model[:-1]), rel=1e-5) and dual <= primal


def test_small_budgets_suffice_for_steps():
    problem = Problem(n_rows=700)
    solver = problem.solver()
    assert not solver.advance(2079)
    assert solver.n_steps == solver.accesses == 0  # the first block takes 64 * 65 / 2
    solver.advance(2080 + 5 * 700)
    assert solver.n_steps >= 5 and np.count_nonzero(solver.coefficients) <= 5


def test_a_free_intercept_is_refused():
    problem = Problem()
    rows = kernel_rows(KERNELS["rbf"](0.3), problem.X)
    loss = MARGIN_LOSSES["hinge"].loss()
    objective = KernelObjective(rows, problem.y, loss, problem.scales, free_intercept=True)
    with pytest.raises(ValueError, match="penalised"):
        KernelPegasos(objective, bits())


def test_a_short_batch_counts_by_its_size():
    """300 examples by 299 with one permutation: one of them is always alone."""
    problem = Problem("logistic", n_rows=300)
    values = []
    for size in (299, 300):
        solver = epochs(problem.solver(sampling="fixed", batch_size=size), 2000)
        values.append(solver.certify(lambda w: w)[1])
    assert values[0] == pytest.approx(values[1], rel=1e-4)
