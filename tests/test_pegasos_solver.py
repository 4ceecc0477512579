"""The Pegasos solver: step by step against its oracle, invariants, and the paper's bound."""

import itertools

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from reference.pegasos import PACES, averaged, pegasos
from scipy import sparse
from stepping import advance_to, batches, bits, run_epochs

from sublinear._core.iterates import AVERAGES
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.order import SAMPLINGS, Order
from sublinear._solvers.pegasos import BIASES, Pegasos, first_pace
from sublinear._solvers.sdca import SDCA

MEANS = ("last", "mean", "tail")
RATES = [("norma", 0.7), ("norma", 1.0), ("constant", 3.0), ("constant", 20.0)]
REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES


class Problem:
    def __init__(self, name="hinge", n_rows=24, alpha=0.05, weighted=False, seed=0):
        random = np.random.default_rng(seed)
        self.X = random.normal(size=(n_rows, 6))
        self.X[random.random(self.X.shape) < 0.4] = 0
        self.X[np.arange(n_rows), random.integers(6, size=n_rows)] = 1.5
        self.X /= np.linalg.norm(self.X, axis=1).max()
        self.y = np.sign(self.X @ random.normal(size=6) + random.normal(size=n_rows, scale=0.3))
        self.weights = random.integers(1, 5, n_rows) / 2 if weighted else None
        self.name, self.alpha, self.loss = name, alpha, ORACLES[name]()
        self.sizes = (self.X != 0).sum(axis=1)

    def objective(self, make=sparse.csr_array, bias="feature"):
        """A free bias has the weight of a column of ones twice as large."""
        loss, free = REGISTRY[self.name].loss(), bias != "feature"
        matrix = Matrix(make(self.X), constant=2.0 if free else 0.0)
        return Objective(
            matrix, self.y, loss, self.alpha, self.weights, 1, intercept_penalty=float(not free)
        )

    def primal(self, w):
        return values.primal(self.X, self.y, self.loss, self.alpha, w, self.weights)

    def radius(self):
        at_zero = np.average(self.loss.value(0.0, self.y), weights=self.weights)
        return np.sqrt(at_zero / self.alpha)

    def optimum(self):
        solver = SDCA(self.objective(), bits())
        for _ in range(3000):
            solver.advance(2**60)
        primal = self.primal(solver.w)
        dual = values.dual(self.X, self.y, self.loss, self.alpha, solver.duals(), self.weights)
        assert primal - dual < 1e-8
        return dual


def compare_steps(
    problem,
    n_steps,
    *,
    size=1,
    sampling="shuffle",
    projection=False,
    average="last",
    learning_rate="pegasos",
    eta0=None,
    bias="feature",
    pack=False,
):
    solver = Pegasos(
        problem.objective(bias=bias),
        bits(),
        sampling=sampling,
        batch_size=size,
        projection=projection,
        average=average,
        learning_rate=learning_rate,
        eta0=eta0,
        bias=bias,
        pack=pack,
    )
    n = len(problem.y)
    drawn, shown = itertools.tee(batches(n, sampling, size))
    radius = problem.radius() if projection else np.inf
    steps = pegasos(
        problem.X,
        problem.y,
        problem.loss,
        problem.alpha,
        drawn,
        problem.weights,
        radius,
        PACES[learning_rate](eta0, problem.alpha),
        bias,
        np.average(problem.y, weights=problem.weights),
    )
    iterates, accesses = [], 0
    for w, batch in zip(itertools.islice(steps, n_steps), shown, strict=False):
        iterates.append(w)
        accesses += problem.sizes[batch].sum()
        advance_to(solver, accesses)
        assert solver.n_steps == len(iterates)
        model = solver.model()
        if bias != "feature":
            model[-1] *= 2.0
        np.testing.assert_allclose(model, averaged(iterates, average), rtol=1e-9, atol=1e-11)
        if projection:
            assert np.linalg.norm(solver.weight_vector.to_array()) <= radius * (1 + 1e-9)


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("size", [1, 4, 7, 24])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("average", MEANS)
def test_step_by_step(average, sampling, size, projection):
    compare_steps(
        Problem(), 80, size=size, sampling=sampling, projection=projection, average=average
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_every_loss_step_by_step(name, weighted):
    problem = Problem(name, weighted=weighted, alpha=0.5)
    compare_steps(problem, 100, size=3, sampling="shuffle", projection=weighted, average="tail")


@pytest.mark.parametrize(("learning_rate", "eta0"), RATES)
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("average", ["last", "tail"])
def test_every_schedule_step_by_step(learning_rate, eta0, projection, average):
    compare_steps(
        Problem(weighted=True),
        80,
        size=2,
        projection=projection,
        average=average,
        learning_rate=learning_rate,
        eta0=eta0,
    )


@pytest.mark.parametrize("size", [1, 5, 24])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("average", MEANS)
@pytest.mark.parametrize("name", ["hinge", "logistic", "absolute", "huber"])
def test_steps_of_the_bias(name, average, projection, size):
    problem = Problem(name, weighted=True, alpha=0.5)
    options = {"size": size, "projection": projection, "average": average}
    compare_steps(problem, 60, bias="subgradient", **options)
    compare_steps(problem, 60, bias="subgradient", learning_rate="norma", eta0=0.5, **options)


@pytest.mark.parametrize("size", [4, 24])
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("average", MEANS)
@pytest.mark.parametrize("name", ["hinge", "absolute", "epsilon_insensitive"])
def test_the_best_bias_of_every_batch(name, average, projection, size):
    problem = Problem(name, weighted=True)
    if name != "hinge":
        problem.y = problem.y + np.random.default_rng(5).normal(size=24)
    compare_steps(problem, 60, size=size, projection=projection, average=average, bias="batch")


@pytest.mark.parametrize("average", MEANS)
def test_packed_rows_take_the_same_steps(average):
    problem = Problem(weighted=True)
    problem.X = problem.X.astype(np.float32).astype(float)
    compare_steps(problem, 60, size=3, average=average, pack=True)
    compare_steps(problem, 60, average=average, bias="subgradient", pack=True)


@pytest.mark.parametrize("average", MEANS)
def test_averages_where_every_early_step_is_projected(average):
    """Small alpha: the first steps leave the ball by far, and shrink w by large factors."""
    problem = Problem(n_rows=6, alpha=1e-5)
    problem.X, problem.sizes = np.eye(400), np.ones(400, dtype=int)
    problem.y = np.where(np.arange(400) % 3, 1.0, -1.0)
    compare_steps(problem, 400, size=1, sampling="shuffle", projection=True, average=average)


def test_the_first_step_forgets_the_start():
    problem = Problem()
    solver = Pegasos(problem.objective(), bits())
    solver.weight_vector.set(np.full(6, 1e6))
    solver.advance(int(problem.sizes.max()))
    assert np.abs(solver.model()).max() < 100


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("average", AVERAGES)
def test_slices_change_nothing(sampling, average):
    problem = Problem(n_rows=300)

    def make():
        return Pegasos(
            problem.objective(),
            bits(),
            sampling=sampling,
            batch_size=7,
            average=average,
            projection=True,
        )

    whole, sliced = run_epochs(make(), 4), make()
    random, limit = np.random.default_rng(0), 0
    while sliced.n_iter < 4:
        limit += int(random.integers(1, 200))
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.model(), whole.model())
    np.testing.assert_array_equal(sliced.duals(), whole.duals())
    assert (sliced.accesses, sliced.n_steps) == (whole.accesses, whole.n_steps)


@pytest.mark.parametrize("size", [1, 5, 24])
@pytest.mark.parametrize("sampling", ["shuffle", "fixed"])
def test_an_epoch_reads_every_value_once(sampling, size):
    problem = Problem()
    solver = Pegasos(problem.objective(), bits(), sampling=sampling, batch_size=size)
    for epoch in range(1, 4):
        run_epochs(solver, 1)
        assert solver.accesses == epoch * problem.sizes.sum()
        assert (solver.n_iter, solver.n_steps) == (epoch, epoch * -(-24 // size))
        assert solver.work == solver.accesses + 24 * epoch


def test_csr_types_give_the_same_bits():
    problem = Problem(n_rows=200)
    problem.X = problem.X.astype(np.float32).astype(float)
    models = []
    for values_type, index_type in itertools.product(
        (np.float32, np.float64), (np.int32, np.int64)
    ):
        X = sparse.csr_array(problem.X.astype(values_type))
        X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
        objective = problem.objective(lambda _, X=X: X)
        solver = Pegasos(objective, bits(), batch_size=3, projection=True, average="tail")
        models.append(run_epochs(solver, 5).model())
    for model in models[1:]:
        np.testing.assert_array_equal(model, models[0])


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_bound_of_theorem_1(projection, size):
    """Pegasos paper, Theorem 1, for the mean of T iterates, in expectation over i.i.d. batches.

    E P(mean) - P* <= c (1 + ln(T + 1)) / (2 alpha T), with rows of length R <= 1 and
    c = (sqrt(alpha) + R)^2 with projection, 4 R^2 without. (T + 1: the mean leaves out w_1 = 0.)
    """
    problem = Problem(n_rows=60)
    best = problem.optimum()
    c = (np.sqrt(problem.alpha) + 1) ** 2 if projection else 4
    solvers = [
        Pegasos(
            problem.objective(),
            bits(seed),
            sampling="replacement",
            batch_size=size,
            projection=projection,
            average="mean",
        )
        for seed in range(20)
    ]
    for _ in range(12):
        excess = [problem.primal(run_epochs(solver, 1).model()) - best for solver in solvers]
        T = solvers[0].n_steps
        assert -1e-8 <= np.mean(excess) <= c * (1 + np.log(T + 1)) / (2 * problem.alpha * T)


@pytest.mark.parametrize("name", ["hinge", "logistic", "squared_hinge"])
@pytest.mark.parametrize("average", MEANS)
def test_the_objective_comes_near_the_optimum(name, average):
    problem = Problem(name, n_rows=60)
    best = problem.optimum()
    model = run_epochs(Pegasos(problem.objective(), bits(), average=average), 500).model()
    assert best - 1e-8 <= problem.primal(model) <= best * 1.02


def test_random_iterates_are_iterates_and_the_better_one_is_returned():
    problem = Problem(n_rows=40)
    solver = Pegasos(problem.objective(), bits(), average="random", batch_size=2)
    drawn = batches(40, "shuffle", 2)
    iterates = [
        w
        for w, _ in zip(
            pegasos(problem.X, problem.y, problem.loss, problem.alpha, drawn),
            range(5 * 20),
            strict=False,
        )
    ]
    seen = set()
    for epoch in range(1, 6):
        run_epochs(solver, 1)
        model, primal, _ = solver.certify(lambda w: w)
        of_all = [problem.primal(w) for w in iterates[: 20 * epoch]]
        nearest = int(np.argmin([np.abs(model - w).max() for w in iterates[: 20 * epoch]]))
        np.testing.assert_allclose(model, iterates[nearest], rtol=1e-9, atol=1e-12)
        assert primal == pytest.approx(of_all[nearest], rel=1e-12)
        assert primal <= problem.primal(solver.model()) * (1 + 1e-12)
        seen.add(nearest)
    assert len(seen) > 1 and solver.keeps_best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", [name for name in BIASES if name != "feature"])
@pytest.mark.parametrize("name", ["hinge", "absolute", "epsilon_insensitive"])
def test_certificates_of_free_biases_are_bounds_at_any_time(name, bias, weighted):
    """The optimum over w and b lies between dual and primal value, whatever the budget."""
    problem = Problem(name, n_rows=40, weighted=weighted)
    exact = SDCA(problem.objective(bias=bias), bits())
    for _ in range(4000):
        exact.advance(2**60)
    _, above, best = exact.certify(lambda w: w)
    assert above - best < 1e-6
    solver = Pegasos(problem.objective(bias=bias), bits(), batch_size=8, average="tail", bias=bias)
    lowest, highest = np.inf, -np.inf
    for limit in range(40, 60_000, 997):
        solver.advance(limit)
        model, primal, dual = solver.certify(lambda w: w)
        z = problem.X @ model[:-1] + 2.0 * model[-1]
        mean = np.average(problem.loss.value(z, problem.y), weights=problem.weights)
        assert primal == pytest.approx(problem.alpha / 2 * np.sum(model[:-1] ** 2) + mean, rel=1e-9)
        assert dual <= above + 1e-12
        assert best <= primal + 1e-9
        lowest, highest = min(lowest, primal), max(highest, dual)
    assert lowest <= above * (1.05 if bias == "batch" else 1.02)
    assert highest >= best * (0.5 if bias == "batch" else 0.9)


def test_the_bias_of_a_certificate_is_best_for_all_examples():
    problem = Problem(n_rows=60)
    problem.weights = np.where(problem.y > 0, 9.0, 1.0)
    objective = problem.objective(bias="batch")
    solver = run_epochs(Pegasos(objective, bits(), batch_size=20, bias="batch"), 3)
    model, primal, _ = solver.certify(lambda w: w)
    for move in np.linspace(-1, 1, 81):
        other = model.copy()
        other[-1] += move
        assert primal <= objective.primal(other) + 1e-12


def test_the_search_takes_few_fits_and_starts_each_from_the_last():
    problem = Problem(n_rows=60)
    problem.y = np.where(problem.X[:, 0] > -0.2, 1.0, -1.0)
    solver = Pegasos(problem.objective(bias="search"), bits(), bias="search", average="tail")
    biases, duals = [], []
    for _ in range(14):
        biases.append(solver.bias)
        before = solver.weight_vector.to_array()
        run_epochs(solver, 60)
        assert before.any() or len(biases) == 1
        duals.append(solver.certify(lambda w: w)[2])
        solver.advance(solver.accesses)  # goes on with the next intercept
        if solver.bias != biases[-1]:
            assert solver.n_drawn <= 60
    assert 3 <= solver.n_fits <= 15
    assert np.ptp(biases[-3:]) < 0.1 * np.ptp(biases)
    assert duals == sorted(duals)


@pytest.mark.parametrize("converged", [False, True])
def test_a_search_that_pauses_goes_where_it_would_have_gone(converged):
    problem = Problem(n_rows=60)
    solvers = [Pegasos(problem.objective(bias="search"), bits(), bias="search") for _ in range(2)]
    for _ in range(2):
        run_epochs(solvers[0], 20)
        before = solvers[0].bias
        solvers[0].certify(lambda w: w)
    if converged:
        solvers[0].settle()
    solvers[1].resume(solvers[0].state())
    for solver in solvers:
        run_epochs(solver, 1)
        assert (solver.bias == before) == converged
        assert solver.n_fits == (2 if converged else 3)
    assert solvers[0].bias == solvers[1].bias


@pytest.mark.parametrize(("learning_rate", "eta0"), RATES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_certificates_hold_with_other_schedules(learning_rate, eta0, sampling):
    problem = Problem(n_rows=40, weighted=True)
    best = problem.optimum()
    solver = Pegasos(
        problem.objective(),
        bits(),
        sampling=sampling,
        average="tail",
        learning_rate=learning_rate,
        eta0=eta0,
    )
    gaps = []
    for limit in range(20, 20_000, 613):
        solver.advance(limit)
        _, primal, dual = solver.certify(lambda w: w)
        assert dual <= best + 1e-12 <= primal + 1e-8
        gaps.append(primal - dual)
    assert gaps[-1] < 0.7 * gaps[0]


@pytest.mark.parametrize(
    ("rate", "eta0"), [("norma", 1.1), ("norma", 0.0), ("constant", 21.0), ("constant", -1.0)]
)
def test_steps_that_would_turn_w_round_are_refused(rate, eta0):
    with pytest.raises(ValueError, match="eta0"):
        first_pace(rate, eta0, 0.05)


def test_what_free_biases_need():
    problem = Problem()
    with pytest.raises(ValueError, match="unpenalised constant"):
        Pegasos(problem.objective(), bits(), bias="search")
    smooth = Problem("logistic")
    with pytest.raises(ValueError, match="piecewise linear"):
        Pegasos(smooth.objective(bias="batch"), bits(), bias="batch", batch_size=4)


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 4, 24])
@pytest.mark.parametrize("name", ["hinge", "smoothed_hinge", "logistic", "squared_hinge"])
def test_whole_epochs_leave_feasible_duals(name, size, weighted, projection):
    """After whole epochs of permutations w is w(a) for feasible duals a."""
    problem = Problem(name, weighted=weighted)
    solver = Pegasos(problem.objective(), bits(), batch_size=size, projection=projection)
    for _ in range(5):
        run_epochs(solver, 1)
        duals = solver.duals()
        np.testing.assert_array_equal(REGISTRY[name].loss().nearest_duals(duals, problem.y), duals)
        np.testing.assert_allclose(
            values.weights_of_dual(problem.X, problem.alpha, duals, problem.weights),
            solver.weight_vector.to_array(),
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("learning_rate", "eta0"), [*RATES, ("constant", 10.0)])
def test_duals_follow_w_under_every_schedule(learning_rate, eta0, weighted):
    """With batches of all rows they are feasible.

    Where eta0 is 1 / alpha = 20, every step forgets w; where it is half of that, the scale of w
    soon is so small that it is folded into the values.
    """
    problem = Problem(weighted=weighted)
    options = {"batch_size": 24, "learning_rate": learning_rate, "eta0": eta0}
    solver = Pegasos(problem.objective(), bits(), **options)
    for _ in range(4):
        run_epochs(solver, 200)
        w = values.weights_of_dual(problem.X, problem.alpha, solver.duals(), problem.weights)
        np.testing.assert_allclose(w, solver.weight_vector.to_array(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("projection", [False, True])
def test_certificates_are_bounds_at_any_time(sampling, average, projection):
    problem = Problem(n_rows=40, weighted=True)
    best = problem.optimum()
    solver = Pegasos(
        problem.objective(),
        bits(),
        sampling=sampling,
        batch_size=3,
        average=average,
        projection=projection,
    )
    for limit in range(20, 3000, 61):
        solver.advance(limit)
        model, primal, dual = solver.certify(lambda w: w.astype(np.float32).astype(float))
        np.testing.assert_array_equal(model, model.astype(np.float32))
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        assert dual <= best + 1e-12 <= primal + 1e-8
    assert primal - dual < 0.5


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("epochs", [1, 3])
def test_resume_continues(average, projection, epochs):
    """A new solver that gets the state, and the other's future draws, makes the same steps."""
    problem = Problem(n_rows=50)

    def make(random):
        return Pegasos(
            problem.objective(),
            random,
            sampling="replacement",
            average=average,
            projection=projection,
        )

    # after whole epochs of independent draws nothing drawn is left over
    random, same = bits(1), bits(2)
    solver, resumed = run_epochs(make(random), epochs), make(same)
    same.bit_generator.state = random.bit_generator.state
    resumed.resume(solver.state())
    np.testing.assert_allclose(resumed.model(), solver.model(), rtol=1e-12)
    run_epochs(solver, 4)
    run_epochs(resumed, 4)
    assert resumed.n_steps == solver.n_steps == 50 * (epochs + 4)
    np.testing.assert_allclose(resumed.model(), solver.model(), rtol=1e-9)
    best = problem.optimum()
    _, primal, dual = resumed.certify(lambda w: w)
    assert dual <= best + 1e-9 <= primal + 1e-8


def test_resume_over_other_examples():
    """The stream goes on: the step sizes too."""
    one, other = Problem(seed=0), Problem(seed=1)
    first = run_epochs(Pegasos(one.objective(), bits(), sampling="fixed", average="mean"), 2)
    second = Pegasos(other.objective(), bits(), sampling="fixed", average="mean")
    second.resume(first.state())
    run_epochs(second, 3)
    both = Problem()
    both.X, both.y = np.vstack([one.X, other.X]), np.concatenate([one.y, other.y])
    permutation = Order(24, "fixed", bits()).take(24).astype(int)
    order = [[i] for i in [*permutation, *permutation, *(24 + np.tile(permutation, 3))]]
    iterates = list(pegasos(both.X, both.y, both.loss, both.alpha, order))
    np.testing.assert_allclose(second.model(), averaged(iterates, "mean"), rtol=1e-9)


def test_unknown_average():
    with pytest.raises(ValueError, match="average must be one of"):
        Pegasos(Problem().objective(), bits(), average="median")
