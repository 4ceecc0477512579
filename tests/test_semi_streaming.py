"""Sketches and their distribution; the semi-streaming perceptron and ball."""

import itertools

import numpy as np
import pytest
from reference import semi_streaming as oracle
from scipy import optimize, sparse, stats
from sklearn.utils.estimator_checks import parametrize_with_checks

from sublinear import MinimumEnclosingBall
from sublinear._core.matrix import Matrix
from sublinear._core.random import RandomBits
from sublinear._core.sketch import CountSketch, SketchedL2Sampler
from sublinear._solvers.semi_streaming import SemiStreaming
from sublinear.data import FeatureOracle
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource, GeneratorSource

LAYOUTS = {
    "dense": np.asarray,
    "dense by columns": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_array,
    "sparse float32": lambda X: sparse.csr_array(X.astype(np.float32)),
}
SMALL = (64, 3, 4, 128)  # width, depth, candidates, width of the norm's sketch


def vector(d=40, seed=0):
    return np.random.default_rng(seed).normal(size=d) ** 3


def sketch_of(x, seed, width, depth):
    sketch = CountSketch(width, depth)
    sketch.restart(seed)
    for j, value in enumerate(x):
        sketch.add(j, value)
    return sketch


def test_a_sketch_is_that_of_the_oracle():
    x = vector()
    sketch, expected = sketch_of(x, 7, 16, 5), oracle.CountSketch(7, 16, 5, x)
    np.testing.assert_allclose(np.reshape(sketch.array, (5, 16)), expected.count, atol=1e-12)
    estimates = [sketch.estimate(j) for j in range(len(x))]
    np.testing.assert_allclose(estimates, expected.estimates(), atol=1e-12)
    assert sketch.squared_norm() == pytest.approx(expected.squared_norm(), rel=1e-12)


def test_a_sketch_is_unbiased_and_as_accurate_as_its_theory():
    x, width = vector(200), 32
    norms, first = [], []
    for seed in range(800):
        sketch = sketch_of(x, seed * 1_000_003, width, 1)
        norms.append(sketch.squared_norm())
        first.append(sketch.estimate(3))
    square = x @ x
    rest = square - x[3] ** 2
    for found, mean, variance in (
        (norms, square, 2 * (square**2 - (x**4).sum()) / width),
        (first, x[3], rest / width),
    ):
        assert abs(np.mean(found) - mean) < 4 * np.sqrt(variance / len(found))
        assert 0.6 < np.var(found) / variance < 1.6


@pytest.mark.parametrize("width", [3, 0])
def test_widths_are_powers_of_two(width):
    with pytest.raises(ValueError, match="power of two"):
        CountSketch(width, 3)


def draws_of(x, count, width=64, depth=5, n_candidates=4):
    matrix, one = Matrix(x[np.newaxis]), np.ones(1)
    sampler = SketchedL2Sampler(width, depth, n_candidates)
    for seed in range(count):
        sampler.restart(seed)
        sampler.add_rows(matrix, one)
        sampler.find(len(x))
        sampler.read_rows(matrix, one)
        yield sampler.drawn()


def test_samples_have_the_l2_distribution():
    x = np.array([3.0, -2.0, 1.0, 0.0, 1.5, -0.5, 0.7, 2.5] * 4)
    drawn = list(draws_of(x, 4000))
    assert all(value == x[j] for j, value in drawn)
    counts = np.bincount([j for j, _ in drawn], minlength=len(x))
    assert not counts[x == 0].any()
    expected = 4000 * x**2 / (x @ x)
    assert stats.chisquare(counts[x != 0], expected[x != 0]).pvalue > 1e-3


def test_samples_are_those_of_the_oracle_and_none_of_zeros():
    x = vector()
    for seed, (j, value) in enumerate(draws_of(x, 30, 32, 3, 4)):
        assert j == oracle.draw_coordinate(seed, 32, 3, 4, x)
        assert value == x[j]
    assert list(draws_of(np.zeros(5), 2)) == [None, None]


@pytest.mark.parametrize("make", [SemiStreamingPerceptron, SemiStreamingEnclosingBall])
def test_rows_whose_squares_underflow_are_refused(make):
    X = np.random.default_rng(0).normal(size=(20, 3)) * 1e-170
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="squared norms of all rows underflow: scale the data up"):
        make(0.3, random_state=0).fit(X, y)
    X[-1] = 1.0  # which tells the length of the longest
    make(0.3, random_state=0).fit(X, y)


class Problem:
    """Rows of norm at most 1 with a margin, and what streams over them in blocks."""

    def __init__(self, n=60, d=12, seed=0):
        random = np.random.default_rng(seed)
        X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.5)
        X[:, 0] += np.sign(X[:, 0]) + (X[:, 0] == 0)
        X = (X / np.linalg.norm(X, axis=1).max()).astype(np.float32).astype(float)
        self.X, self.y = X, np.where(X[:, 0] > 0, 1.0, -1.0)

    def solver(self, ball, n_steps=5, batch_size=3, eta=0.3, pace=10.0, seed=11):
        return SemiStreaming(
            RandomBits(np.random.SeedSequence(1)),
            seed,
            ball=ball,
            n_columns=self.X.shape[1],
            n_steps=n_steps,
            batch_size=batch_size,
            eta=eta,
            pace=pace,
            scale=1.0,
            sketch=SMALL,
        )

    def run(self, solver, n_steps, layout=np.asarray, block=25):
        starts = range(0, len(self.y), block)
        blocks = [(Matrix(layout(self.X[k : k + block])), self.y[k : k + block]) for k in starts]

        def look():
            solver.begin_pass()
            for matrix, signs in blocks:
                solver.look(matrix, signs, 0, matrix.n_rows)

        look()
        for _ in range(n_steps):
            solver.take_rows()
            look()
            solver.end_look()
            solver.rewind()
            for matrix, _ in blocks:
                solver.read(matrix, 0, matrix.n_rows)
            solver.end_read()
        solver.take_rows()
        look()


def test_states_of_other_columns_are_refused():
    problem = Problem()
    solver = problem.solver(False)
    problem.run(solver, 5)
    state = solver.state()
    state["coordinates"][0] = 12
    with pytest.raises(ValueError, match=r"saved state is damaged.*: coordinates are not those of"):
        problem.solver(False).set_state(state)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("ball", [False, True], ids=["perceptron", "ball"])
def test_steps_are_those_of_the_oracle(ball, layout):
    problem, n_steps = Problem(), 5
    solver = problem.solver(ball, n_steps)
    problem.y = np.ones(60) if ball else problem.y
    problem.run(solver, n_steps, layout)
    random = RandomBits(np.random.SeedSequence(1))
    A = problem.y[:, np.newaxis] * problem.X
    steps = list(
        oracle.semi_streaming(
            A, ball, n_steps, 3, 0.3, 10.0, SMALL, 11, lambda: random.doubles(1)[0]
        )
    )
    for s, (_, chosen, _, _) in enumerate(steps):
        np.testing.assert_array_equal(solver.rows[s], chosen)
    weights = np.arange(1, n_steps + 1)
    mean = np.average([x for x, *_ in steps], axis=0, weights=weights)
    rows, factors = solver.combination()
    np.testing.assert_allclose(factors @ problem.X[rows], mean, atol=1e-12)
    v = np.average([v for *_, v in steps], axis=0, weights=weights)
    assert solver.extreme == pytest.approx(v.max() if ball else v.min(), abs=1e-10)


def test_rows_are_drawn_by_their_weight():
    """The first batch is uniform; chi-square over many solvers' reservoirs."""
    problem = Problem(n=20)
    counts = np.zeros(20)
    solver = problem.solver(False, 1, batch_size=1500)
    matrix = Matrix(problem.X)
    solver.begin_pass()
    solver.look(matrix, problem.y, 0, 20)
    counts = np.bincount(solver.rows[0], minlength=20)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_reservoirs_of_the_oracle_follow_p():
    p = np.arange(1, 9.0)
    uniform = np.random.default_rng(0).random
    counts = np.bincount(oracle.reservoirs(p, 4000, uniform), minlength=8)
    assert stats.chisquare(counts, 4000 * p / p.sum()).pvalue > 1e-3


def planted(n=1500, d=30, margin=0.3, seed=0):
    """Unit rows with labels and the margin that the first axis has, nearly the best one."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    X[:, 0] = 0
    X *= np.sqrt(1 - margin**2) / np.linalg.norm(X, axis=1, keepdims=True)
    y = random.integers(0, 2, n)
    X[:, 0] = np.where(y, margin, -margin)
    return X, y


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_large_margin_is_found(make):
    X, y = planted()
    source = ArraySource(5 * make(X), y, block_rows=400)
    model = SemiStreamingPerceptron(epsilon=0.1, random_state=0).fit_stream(source)
    assert not hasattr(model, "coef_")
    model.materialize(source)
    assert np.linalg.norm(model.coef_) <= 1 + 1e-9
    margins = np.where(y, 1, -1) * (5 * X @ model.coef_[0])
    assert 5 * (0.3 - 0.1) <= margins.min() <= 5 * 0.35
    assert model.score(X, y) == 1.0
    assert abs(model.margin_estimate_ - margins.min()) < 5 * 0.1
    assert model.margin_bound_ >= 5 * 0.3 * 0.95


@pytest.mark.parametrize("make", [SemiStreamingPerceptron, SemiStreamingEnclosingBall])
def test_models_are_materialized_from_a_generator(make):
    X, y = planted()
    source = ArraySource(X, y, block_rows=400)
    model = make(epsilon=0.2, random_state=0).fit_stream(source)
    name = "coef_" if make is SemiStreamingPerceptron else "center_"
    expected = getattr(model.materialize(source), name)
    delattr(model, name)
    model.materialize(block for block in source)
    np.testing.assert_array_equal(getattr(model, name), expected)


@pytest.mark.parametrize("make", [SemiStreamingPerceptron, SemiStreamingEnclosingBall])
def test_a_block_of_nothing_is_named(make):
    with pytest.raises(ValueError, match="block 1 of the source"):
        make(epsilon=0.2).fit_stream([()])


def test_a_small_ball_is_found():
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X = 2 * X + 1  # radius at most 2, norms up to about 7.5
    largest = np.linalg.norm(X, axis=1).max()
    ball = SemiStreamingEnclosingBall(epsilon=0.1, random_state=0).fit(X)
    radius = np.linalg.norm(X - ball.center_, axis=1).max()
    assert radius**2 <= 4 + 0.1 * largest**2
    assert ball.radius_bound_ <= 2 + 0.1 * largest
    assert abs(ball.radius_estimate_**2 - radius**2) <= 0.2 * largest**2


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "batch_size"),
    [(500, 30, 0.1, 16), (200, 8, 0.1, 16), (200, 8, 0.1, 64), (50, 1, 0.2, 16), (2, 1, 0.2, 1)],
)
def test_balls_are_within_epsilon(n, d, epsilon, batch_size):
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(n, d))
        ball = SemiStreamingEnclosingBall(epsilon, batch_size=batch_size, random_state=seed).fit(X)
        square = ((X - ball.center_) ** 2).sum(axis=1).max()
        least = MinimumEnclosingBall(1e-6, random_state=0).fit(X).result_.dual
        assert square - least <= epsilon * (X**2).sum(axis=1).max()


def outlier(n, other, d=5):
    """Rows near one place, and a first one that decides as much as all others."""
    X = np.random.default_rng(0).normal(size=(n, d)) * 1e-2
    X[:, 0] += other
    X[0] = np.eye(d)[0]
    return X


@pytest.mark.parametrize("other", [0.0, -1.0])
@pytest.mark.parametrize(
    ("n", "epsilon", "batch_size"), [(9, 0.1, 16), (1000, 0.3, 16), (1000, 0.1, 16), (9, 0.05, 64)]
)
def test_balls_with_an_outlier_are_within_epsilon(n, epsilon, batch_size, other):
    X = outlier(n, other)
    least = MinimumEnclosingBall(1e-6, random_state=0).fit(X).result_.dual
    largest = (X**2).sum(axis=1).max()
    for seed in range(4):
        ball = SemiStreamingEnclosingBall(epsilon, batch_size=batch_size, random_state=seed).fit(X)
        square = ((X - ball.center_) ** 2).sum(axis=1).max()
        assert square - least <= epsilon * largest
        assert ball.radius_bound_**2 <= least + 0.1 * epsilon * largest


def largest_margin(A):
    """Largest least product with a unit vector: the point of the rows' hull nearest to 0."""
    system, one = np.vstack([A.T, np.ones(len(A))]), np.eye(A.shape[1] + 1)[-1]
    rest = system @ optimize.nnls(system, one)[0] - one
    return -rest[-1] / np.linalg.norm(rest[:-1])


@pytest.mark.parametrize("sine", [0.2, 0.6])
def test_a_row_that_turns_the_margin_is_found(sine):
    A = outlier(1000, np.sqrt(1 - sine**2))
    A[0] = -np.sqrt(1 - sine**2) * A[0]
    A[:, 1] += sine
    A /= np.linalg.norm(A, axis=1).max()
    y = np.where(np.arange(1000) % 2, 1, -1)
    best = largest_margin(A)
    for seed in range(3):
        model = SemiStreamingPerceptron(0.2, random_state=seed).fit(y[:, np.newaxis] * A, y)
        assert best - (A @ model.coef_[0]).min() <= 0.2


def test_small_margins_are_mostly_within_epsilon():
    errors = []
    for seed in range(25):
        X = np.random.default_rng(seed).normal(size=(22, 4))
        y = np.where(X.sum(axis=1) > 0, 1, -1)
        A = y[:, np.newaxis] * X / np.linalg.norm(X, axis=1).max()
        model = SemiStreamingPerceptron(0.1, random_state=seed).fit(X, y)
        errors.append(largest_margin(A) - (A @ model.coef_[0]).min())
    assert np.median(errors) <= 0.05
    assert np.quantile(errors, 0.9) <= 0.1


@pytest.mark.parametrize("estimator", [SemiStreamingPerceptron, SemiStreamingEnclosingBall])
def test_blocks_do_not_matter_and_neither_n_nor_d_is_in_memory(estimator):
    X, y = planted(n=600, d=8)
    fits = [
        estimator(epsilon=0.3, random_state=0).fit_stream(ArraySource(X, y, block_rows=rows))
        for rows in (7, 600)
    ]
    np.testing.assert_array_equal(fits[0].rows_, fits[1].rows_)
    np.testing.assert_array_equal(fits[0].row_weights_, fits[1].row_weights_)
    wide = np.hstack([np.repeat(X, 5, axis=0), np.zeros((3000, 500))])
    other = estimator(epsilon=0.3, random_state=0).fit_stream(
        ArraySource(wide, np.repeat(y, 5), block_rows=500)
    )
    assert other.result_.words == pytest.approx(fits[0].result_.words, rel=0.05)
    assert other.result_.passes == 2 * other.result_.n_steps + 3


def test_the_ball_of_zeros_is_a_point():
    ball = SemiStreamingEnclosingBall(0.5, random_state=0).fit(np.zeros((5, 2)))
    np.testing.assert_array_equal(ball.center_, [0.0, 0.0])
    assert ball.radius_estimate_ == ball.radius_bound_ == 0


def test_the_passes_are_counted_rightly():
    X, y = planted(n=100)
    passes = itertools.count(1)

    def blocks():
        counted.append(next(passes))
        yield X, y

    counted = []
    model = SemiStreamingPerceptron(0.5, random_state=0).fit_stream(GeneratorSource(blocks))
    assert model.result_.passes == len(counted)


def test_another_order_in_the_second_pass_is_refused():
    X, y = planted(n=100)
    shuffle = np.random.default_rng(0)

    def blocks():
        order = shuffle.permutation(100)
        yield X[order], y[order]

    for estimator in (SemiStreamingPerceptron, SemiStreamingEnclosingBall):
        with pytest.raises(ValueError, match="must yield the same rows in the same order"):
            estimator(0.5, random_state=0).fit_stream(GeneratorSource(blocks))


@pytest.mark.parametrize(
    ("make", "weights"),
    [(SemiStreamingPerceptron, "coef_"), (SemiStreamingEnclosingBall, "center_")],
)
def test_a_fit_forgets_the_weights_of_the_last_one(make, weights):
    X, y = planted(n=100, d=4)
    model = make(0.5, random_state=0).fit(X, y)
    assert hasattr(model, weights)
    assert not hasattr(model.fit_stream(ArraySource(-X, y)), weights)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (lambda X, y: iter([(X, y)]), "several passes"),
        (lambda X, y: [(X, y), (X[:, :3], y)], "columns"),
        (lambda X, y: [(X, 0 * y)], "only one class"),
        (lambda X, y: [(X, y), (X, y + 1)], "Only binary"),
        (lambda X, y: [(X, y, y + 1.0)], "sample weights have no meaning"),
        (lambda X, y: [(0 * X, y)], "all rows are zero"),
        (lambda X, y: [], "empty"),
    ],
)
def test_bad_sources_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        SemiStreamingPerceptron().fit_stream(blocks(*planted(n=50)))


@pytest.mark.parametrize("make", (SemiStreamingPerceptron, SemiStreamingEnclosingBall))
def test_fits_of_arrays_refuse_an_oracle(make):
    oracle = FeatureOracle((4, 2), row=lambda i: np.ones(2), column=lambda j: np.ones(4))
    with pytest.raises(ValueError, match=f"{make.__name__} needs rows in memory"):
        make().fit(oracle, [0, 1, 0, 1])


@pytest.mark.parametrize(
    "options", [{"epsilon": 0}, {"epsilon": 1e-200}, {"epsilon": 2}, {"batch_size": 0}], ids=str
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SemiStreamingEnclosingBall(**options).fit(np.ones((3, 2)))


@parametrize_with_checks([SemiStreamingPerceptron(0.3), SemiStreamingEnclosingBall(0.3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
