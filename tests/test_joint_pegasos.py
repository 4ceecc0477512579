"""Joint multiclass Pegasos: losses, solver against its oracle, estimator, bad input."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from layouts import csr
from reference import joint
from reference.pegasos import averaged
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from stepping import batches, bits, run_epochs

from sublinear import PegasosClassifier, load_model, save_model
from sublinear._core.joint_losses import JOINT_LOSSES
from sublinear._core.joint_objective import JointObjective
from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS
from sublinear._solvers.joint_pegasos import JointPegasos

COST = np.array([[0, 1, 2.5, 0.5], [0.25, 0, 1, 1], [3, 1, 0, 2], [1, 0, 1.5, 0]])
ORACLES = {"hinge": joint.CostHinge(COST), "logistic": joint.MultinomialLogistic()}
LOSSES = {"hinge": JOINT_LOSSES["hinge"](4, COST), "logistic": JOINT_LOSSES["logistic"](4)}
AVERAGES = ("last", "mean", "tail")
JOINT = {"multi_class": "joint", "alpha": 0.05, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Problem:
    def __init__(self, name="hinge", n_rows=30, alpha=0.05, weighted=False):
        random = np.random.default_rng(0)
        X = random.normal(size=(n_rows, 5)) * (random.random((n_rows, 5)) < 0.6)
        self.X = X / np.linalg.norm(X, axis=1).max()
        scores = self.X @ random.normal(size=(5, 4)) + random.normal(size=(n_rows, 4), scale=0.2)
        self.y = scores.argmax(axis=1).astype(np.intc)
        self.weights = random.integers(0, 5, n_rows) / 2 if weighted else None
        self.name, self.alpha, self.oracle = name, alpha, ORACLES[name]
        self.sizes = (self.X != 0).sum(axis=1)

    def objective(self, make=sparse.csr_array):
        matrix = Matrix(make(self.X))
        return JointObjective(matrix, self.y, LOSSES[self.name], self.alpha, self.weights)

    def primal(self, W):
        return joint.primal(self.X, self.y, self.oracle, self.alpha, W, self.weights)


SMALL = 12


def small(name, weighted):
    return Problem(name, n_rows=SMALL, weighted=weighted)


@functools.cache
def optimum(name, weighted):
    """The least primal value of small(name, weighted), by scipy.

    The dual of the hinge is smooth: its variables are points p_i = e_y - a_i of the simplex.
    """
    problem = small(name, weighted)
    X, y, alpha, weights = problem.X, problem.y, problem.alpha, problem.weights
    if name == "logistic":
        start = np.zeros(5 * 4)
        return minimize(lambda w: problem.primal(w.reshape(5, 4)), start, method="BFGS").fun
    ones, shares = np.eye(4)[y], joint.shares(weights, SMALL)

    def minus_dual(p):
        return -joint.dual(X, y, problem.oracle, alpha, ones - p.reshape(SMALL, 4), weights)

    def gradient(p):
        W = joint.weights_of_dual(X, alpha, ones - p.reshape(SMALL, 4), weights)
        return -(shares[:, None] * (X @ W + COST[y])).ravel()

    sums = np.kron(np.eye(SMALL), np.ones(4))
    found = minimize(
        minus_dual,
        ones.ravel(),
        jac=gradient,
        method="SLSQP",
        bounds=[(0, 1)] * (4 * SMALL),
        constraints={"type": "eq", "fun": lambda p: sums @ p - 1, "jac": lambda p: sums},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return -found.fun


# ---------------------------------------------------------------- losses


def examples_of_losses():
    random = np.random.default_rng(0)
    return random.normal(size=(40, 4), scale=2), random.integers(0, 4, 40)


@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_losses_are_those_of_the_oracle(name):
    Z, y = examples_of_losses()
    loss, oracle = LOSSES[name], ORACLES[name]
    pairs = list(zip(Z, y, strict=True))
    np.testing.assert_allclose(loss.values(Z, y), [oracle.value(*pair) for pair in pairs])
    np.testing.assert_allclose(
        loss.subgradients(Z, y), [oracle.subgradient(*pair) for pair in pairs], atol=1e-15
    )
    duals = -loss.subgradients(Z, y)
    expected = [oracle.conjugate(a, label) for a, label in zip(duals, y, strict=True)]
    np.testing.assert_allclose(loss.conjugates(duals, y), expected)


@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_subgradients_by_finite_differences(name):
    Z, y = examples_of_losses()
    loss, step = LOSSES[name], 1e-6
    for c in range(4):
        shift = step * np.eye(4)[c]
        slopes = (loss.values(Z + shift, y) - loss.values(Z - shift, y)) / (2 * step)
        np.testing.assert_allclose(loss.subgradients(Z, y)[:, c], slopes, atol=1e-8)


@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_conjugates_by_fenchel_young(name):
    """l(z) + l*(-a) >= -<a, z> for feasible a, with equality where -a is a sub-gradient."""
    Z, y = examples_of_losses()
    loss = LOSSES[name]
    duals = -loss.subgradients(Z, y)
    slack = loss.values(Z, y) + loss.conjugates(duals, y) + np.sum(duals * Z, axis=1)
    np.testing.assert_allclose(slack, 0, atol=1e-12)
    random = np.random.default_rng(1)
    others = loss.feasible_duals(random.normal(size=Z.shape), y)
    slack = loss.values(Z, y) + loss.conjugates(others, y) + np.sum(others * Z, axis=1)
    assert slack.min() > -1e-12 and slack.max() > 0.1


@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_feasible_duals(name):
    random = np.random.default_rng(2)
    y = random.integers(0, 4, 50)
    duals = LOSSES[name].feasible_duals(random.normal(size=(50, 4)), y)
    p = np.eye(4)[y] - duals
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(LOSSES[name].feasible_duals(duals, y), duals, atol=1e-15)


def test_large_scores_do_not_overflow():
    Z = np.array([[1e4, 0, -1e4, 5.0], [-1e300, 1e300, 0, 0]])
    values = LOSSES["logistic"].values(Z, [2, 1])
    assert values[0] == pytest.approx(2e4) and values[1] == 0
    assert np.isfinite(LOSSES["logistic"].subgradients(Z, [2, 1])).all()


LAYOUTS = [
    *(
        functools.partial(csr, values=values, indices=indices)
        for values in (np.float32, np.float64)
        for indices in (np.int32, np.int64)
    ),
    np.ascontiguousarray,
    np.asfortranarray,
    lambda X: X.astype(np.float32),
]


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 7, 16, 17, 20, 39])
def test_sums_over_rows_for_any_number_of_classes(n_classes):
    """Loops take sixteen classes at once, then four, then one; storages give the same bits."""
    random = np.random.default_rng(0)
    X = random.integers(-8, 9, size=(30, 6)) / 8 * (random.random((30, 6)) < 0.6)
    y = random.integers(0, n_classes, 30).astype(np.intc)
    loss, W = JOINT_LOSSES["logistic"](n_classes), random.normal(size=(6, n_classes))
    objectives = [JointObjective(Matrix(make(X)), y, loss, 0.5) for make in LAYOUTS]
    values = [objective.primal(W) for objective in objectives]
    duals = loss.feasible_duals(random.normal(size=(30, n_classes)), y)
    weights = np.stack([objective.weights_of_dual(duals) for objective in objectives])
    expected = joint.primal(X, y, joint.MultinomialLogistic(), 0.5, W)
    assert values[0] == pytest.approx(expected, rel=1e-12) and set(values) == {values[0]}
    np.testing.assert_allclose(weights[0], X.T @ duals / (0.5 * 30), atol=1e-14)
    np.testing.assert_array_equal(weights, weights[:1].repeat(len(LAYOUTS), axis=0))


def test_probabilities_are_those_of_the_fitted_model(multiclass):
    X, y = multiclass
    model = PegasosClassifier("logistic", max_iter=5, **JOINT).fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(multi_class="ovr")
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_tiny_logistic_losses_keep_their_digits():
    """exp(-40) is below what 1 - p can tell."""
    z, loss = np.array([[40.0, 0.0, 0.0, -1.0]]), LOSSES["logistic"]
    small = np.exp(np.array([-40.0, -40.0, -41.0]))
    assert loss.values(z, [0])[0] == pytest.approx(small.sum(), rel=1e-12)
    gradient = loss.subgradients(z, [0])
    np.testing.assert_allclose(gradient[0], [-small.sum(), *small], rtol=1e-12)
    expected = small @ np.log(small) - small.sum()
    assert loss.conjugates(-gradient, [0])[0] == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- solver


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("size", [1, 4, 7, 30])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_step_by_step(name, sampling, size, projection):
    problem = Problem(name, weighted=size == 4)
    average = AVERAGES[size % 3]
    solver = JointPegasos(
        problem.objective(),
        bits(),
        sampling=sampling,
        batch_size=size,
        projection=projection,
        average=average,
    )
    zeros = [problem.oracle.value(np.zeros(4), label) for label in problem.y]
    at_zero = joint.shares(problem.weights, 30) @ zeros
    radius = np.sqrt(at_zero / problem.alpha) if projection else np.inf
    drawn, shown = itertools.tee(batches(30, sampling, size))
    steps = joint.joint_pegasos(
        problem.X, problem.y, problem.oracle, 4, problem.alpha, drawn, problem.weights, radius
    )
    iterates, accesses = [], 0
    for W, batch in zip(itertools.islice(steps, 60), shown, strict=False):
        iterates.append(W)
        accesses += problem.sizes[batch].sum()
        while solver.accesses < accesses:
            solver.advance(accesses)
        assert (solver.n_steps, solver.accesses) == (len(iterates), accesses)
        np.testing.assert_allclose(
            solver.model(), averaged(iterates, average), rtol=1e-8, atol=1e-10
        )


@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_storage_does_not_matter(name):
    problem = Problem(name, n_rows=100)
    problem.X = problem.X.astype(np.float32).astype(float)
    X = sparse.csr_array(problem.X)
    wide = sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)))
    variants = (
        X,
        X.astype(np.float32),
        wide,
        wide.astype(np.float32),
        problem.X,
        problem.X.astype(np.float32),
        np.asfortranarray(problem.X),
    )
    models = []
    for data in variants:
        objective = problem.objective(lambda _, data=data: data)
        models.append(run_epochs(JointPegasos(objective, bits(), batch_size=3), 4).model())
    for model in models[1:]:
        np.testing.assert_array_equal(model, models[0])


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_whole_epochs_leave_feasible_duals(name, weighted, size):
    problem = Problem(name, weighted=weighted)
    solver = JointPegasos(problem.objective(), bits(), batch_size=size)
    for _ in range(4):
        run_epochs(solver, 1)
        duals = solver.duals()
        W = joint.weights_of_dual(problem.X, problem.alpha, duals, problem.weights)
        np.testing.assert_allclose(W, solver.model(), rtol=1e-9, atol=1e-12)
        value = joint.dual(
            problem.X, problem.y, problem.oracle, problem.alpha, duals, problem.weights
        )
        assert problem.objective().dual(duals) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_the_optimum_is_that_of_scipy(name, weighted):
    problem = small(name, weighted)
    best = optimum(name, weighted)
    solver = JointPegasos(problem.objective(), bits(), average="tail")
    model, primal, dual = run_epochs(solver, 3000).certify(np.copy)
    assert primal == pytest.approx(problem.primal(model), rel=1e-12)
    assert dual - 1e-7 <= best <= primal + 1e-7
    assert primal - best < 2e-3 * best and best - dual < 5e-3 * best


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("name", JOINT_LOSSES)
def test_certificates_are_bounds_at_any_time(name, sampling, projection):
    problem = small(name, True)
    best = optimum(name, True)
    solver = JointPegasos(
        problem.objective(),
        bits(),
        sampling=sampling,
        batch_size=4,
        projection=projection,
        average="mean",
    )
    for limit in range(10, 2000, 97):
        solver.advance(limit)
        _, primal, dual = solver.certify(lambda W: W.astype(np.float32).astype(float))
        assert dual <= best + 1e-7 and best <= primal + 1e-7


def test_slices_change_nothing():
    problem = Problem(n_rows=200)

    def make():
        return JointPegasos(problem.objective(), bits(), batch_size=7, average="tail")

    whole, sliced = run_epochs(make(), 4), make()
    limit = 0
    while sliced.n_iter < 4:
        limit += 37
        sliced.advance(limit)
        assert sliced.accesses <= limit
    np.testing.assert_array_equal(sliced.model(), whole.model())
    np.testing.assert_array_equal(sliced.duals(), whole.duals())


# ---------------------------------------------------------------- estimator


def objective_of(model, X, y, weights=None):
    """The primal value by NumPy, from fitted attributes alone (more than two classes)."""
    X = np.column_stack([X, np.ones(len(X))])
    W = np.vstack([model.coef_.T, model.intercept_]).astype(float)
    k = len(model.classes_)
    cost = 1 - np.eye(k) if model.cost is None else model.cost
    oracle = joint.CostHinge(cost) if model.loss == "hinge" else joint.MultinomialLogistic()
    codes = np.searchsorted(model.classes_, y)
    return joint.primal(X, codes, oracle, model.alpha, W, weights)


@pytest.mark.parametrize("loss", JOINT_LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_primal_is_that_of_the_fitted_attributes(multiclass, loss, dtype):
    X, y = multiclass
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    names = np.array(["c", "a", "b"])[y]
    settings = JOINT | {"alpha": 0.02, "tol": 0.05}
    model = PegasosClassifier(loss, **settings).fit(X.astype(dtype), names, weights)
    assert model.coef_.shape == (3, 10) and model.coef_.dtype == dtype
    assert model.result_.status == "converged"
    assert model.result_.relative_gap <= 0.05
    expected = objective_of(model, X.astype(dtype), names, weights.astype(float))
    assert model.result_.primal == pytest.approx(expected, rel=1e-12)
    assert model.score(X, names) > 0.6


def test_one_model_of_all_classes(multiclass):
    X, y = multiclass
    model = PegasosClassifier("logistic", max_iter=30, **JOINT).fit(X, y)
    assert model.result_.parts == ()
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-12)
    P = model.predict_proba(X)
    scores = model.decision_function(X)
    np.testing.assert_allclose(P, np.exp(scores) / np.exp(scores).sum(1, keepdims=True))
    assert not hasattr(PegasosClassifier(**JOINT), "predict_proba")


def test_two_classes(binary):
    """W has opposite columns, so alpha / 2 |W|^2 = alpha / 4 |coef|^2: half of alpha."""
    X, y = binary
    model = PegasosClassifier("logistic", tol=0, max_iter=400, average="tail", **JOINT).fit(X, y)
    half = PegasosClassifier("logistic", alpha=0.025, tol=0, max_iter=400, random_state=0)
    half.fit(X, y)
    assert model.coef_.shape == (1, X.shape[1])
    np.testing.assert_allclose(model.coef_, half.coef_, atol=0.02)
    assert model.result_.primal == pytest.approx(half.result_.primal, rel=1e-4)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_costs_decide_which_errors_are_made(multiclass):
    X, y = multiclass
    settings = JOINT | {"alpha": 0.01, "max_iter": 50, "tol": 0}
    plain = PegasosClassifier(**settings).fit(X, y)
    cost = 1 - np.eye(3)
    cost[0, 1:] = 20  # never miss class 0
    careful = PegasosClassifier(cost=cost, **settings).fit(X, y)
    missed = [np.mean(model.predict(X[y == 0]) != 0) for model in (plain, careful)]
    assert missed[1] < missed[0] and missed[1] < 0.05
    assert careful.result_.primal == pytest.approx(objective_of(careful, X, y), rel=1e-12)
    ones = PegasosClassifier(cost=1 - np.eye(3), **settings).fit(X, y)
    np.testing.assert_array_equal(ones.coef_, plain.coef_)


def test_weights_equal_repetition(multiclass):
    X, y = multiclass
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    settings = JOINT | {"batch_size": "all", "max_iter": 40, "tol": 0}
    weighted = PegasosClassifier(**settings).fit(X, y, weights)
    repeated = PegasosClassifier(**settings).fit(X.repeat(weights, 0), y.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-12)
    by_class = PegasosClassifier(class_weight={1: 3}, **settings).fit(X, y)
    by_example = PegasosClassifier(**settings).fit(X, y, np.where(y == 1, 3.0, 1.0))
    np.testing.assert_array_equal(by_class.coef_, by_example.coef_)


@pytest.mark.parametrize("loss", JOINT_LOSSES)
@pytest.mark.parametrize("average", AVERAGES)
def test_streams_and_warm_starts(multiclass, loss, average):
    X, y = multiclass
    settings = JOINT | {"average": average, "batch_size": "all", "tol": 0}
    whole = PegasosClassifier(loss, max_iter=12, **settings).fit(X, y)
    stream = PegasosClassifier(loss, **settings)
    warm = PegasosClassifier(loss, max_iter=4, warm_start=True, **settings)
    for _ in range(12):
        stream.partial_fit(X, y, classes=[0, 1, 2])
    for _ in range(3):
        warm.fit(X, y)
    np.testing.assert_allclose(stream.coef_, whole.coef_, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(warm.coef_, whole.coef_, rtol=1e-9, atol=1e-13)
    assert warm.result_.gap == pytest.approx(whole.result_.gap, rel=1e-6)
    assert stream.result_.status == "partial_fit"


@pytest.mark.parametrize("average", AVERAGES)
def test_sources_and_the_state_of_a_stream(multiclass, average):
    X, y = multiclass
    blocks = [(X[:100], y[:100]), (X[100:], y[100:])]
    settings = JOINT | {"average": average}
    by_hand = PegasosClassifier(**settings)
    for part, labels in blocks:
        by_hand.partial_fit(part, labels, classes=[0, 1, 2])
    streamed = PegasosClassifier(**settings).fit_stream(blocks, classes=[0, 1, 2])
    np.testing.assert_array_equal(streamed.coef_, by_hand.coef_)
    copy, state = pickle.loads(pickle.dumps(by_hand)), by_hand._stream_state()
    copy._set_stream_state(state)
    np.testing.assert_array_equal(copy.partial_fit(X, y).coef_, by_hand.partial_fit(X, y).coef_)


def test_blocks_of_any_size_weigh_every_example_alike(multiclass):
    X, y = multiclass
    model = PegasosClassifier(batch_size=50, **JOINT | {"alpha": 1e-2})
    for start, stop in 30 * [(0, 90), (90, 91), (91, 240)]:
        model.partial_fit(X[start:stop], y[start:stop], classes=[0, 1, 2])
    assert model.score(X, y) > 0.75


def test_snapshots_pickles_files_and_grids(multiclass, tmp_path):
    X, y = multiclass
    seen = []
    cost = 2 * (1 - np.eye(3))
    model = PegasosClassifier(cost=cost, callback=seen.append, max_iter=5, **JOINT).fit(X, y)
    assert seen[-1].coef.shape == (3, 10) and seen[-1].intercept.shape == (3,)
    np.testing.assert_array_equal(seen[-1].coef, model.coef_)
    np.testing.assert_array_equal(seen[-1].intercept, model.intercept_)
    model.callback = None
    save_model(model, tmp_path / "model.npz")
    for copy in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.npz")):
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        np.testing.assert_array_equal(copy.cost, cost)
    grid = {"multi_class": ["ovr", "joint"], "loss": ["hinge", "logistic"]}
    search = GridSearchCV(PegasosClassifier(alpha=0.05, max_iter=20), grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.6


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (np.ones(3), "row and a column for each of the 3"),
        (1 - np.eye(4), "row and a column for each of the 3"),
        (np.eye(3) - 1, "not negative"),
        (np.ones((3, 3)), "0 on its diagonal"),
        (np.zeros((3, 3)), "zero everywhere"),
        (np.full((3, 3), np.nan), "finite"),
        ("high", "matrix of numbers"),
    ],
)
def test_bad_costs(multiclass, cost, words):
    with pytest.raises(ValueError, match=words):
        PegasosClassifier(cost=cost, **JOINT).fit(*multiclass)


def test_bad_combinations(multiclass):
    X, y = multiclass
    cost = 1 - np.eye(3)
    for parameters, words in (
        ({"multi_class": "all"}, "multi_class must be one of"),
        ({"multi_class": "joint", "loss": "smoothed_hinge"}, "loss must be one of"),
        ({"cost": cost}, "cost needs"),
        ({"cost": cost, "multi_class": "joint", "loss": "logistic"}, "cost needs"),
    ):
        with pytest.raises(ValueError, match=words):
            PegasosClassifier(**parameters).fit(X, y)
    model = PegasosClassifier(**JOINT).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:1], [7])
    with pytest.raises(ValueError, match="multi_class must not change"):
        model.set_params(multi_class="ovr").partial_fit(X, y)


def test_budget_and_warning(multiclass):
    X, y = multiclass
    model = PegasosClassifier(max_accesses=1234, tol=1e-9, **JOINT)
    with pytest.warns(ConvergenceWarning, match="max_accesses=1234"):
        model.fit(X, y)
    assert 1234 - X.shape[1] < model.result_.accesses <= 1234


def test_news20_as_good_as_crammer_singer(load):
    """LinearSVC(multi_class="crammer_singer", C=1) has 14.18 % test errors, and takes a minute."""
    X, y, X_test, y_test = load("news20-multi")
    model = PegasosClassifier(
        multi_class="joint", alpha=1 / len(y), max_iter=15, tol=0, random_state=0
    )
    assert 1 - model.fit(X, y).score(X_test, y_test) <= 0.1418


def test_an_interrupt_leaves_the_model_so_far(multiclass, interrupt_after):
    X, y = multiclass
    model = PegasosClassifier(**JOINT | {"tol": 0, "max_iter": 10**9})
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.result_.status == "interrupted" and model.n_iter_ > 0
    assert model.score(X, y) > 0.5


def test_an_overflow_is_an_error_or_leaves_zero_weights():
    X, y = 1e160 * np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    model = PegasosClassifier(multi_class="joint", max_iter=5, random_state=0)
    with pytest.raises(ValueError, match="left the range of floating-point numbers"):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning):  # the best of several, of which none is finite
        model.set_params(average="random").fit(X, y)
    assert not model.coef_.any() and model.result_.primal == 1
