"""Kernel values are float32: certificates hold for the kernel itself, or there is none."""

import operator
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    L2SVMClassifier,
    MinimumEnclosingBall,
    solve_simplex_qp,
)
from sublinear._core import kernel_choice
from sublinear._core.kernel_choice import SURE, kernel_rows, least_spread
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernels import KERNELS, RBF, Linear, Poly, exact_values
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.random import RandomBits
from sublinear._kernel_machines.training import MOST_ROUNDING
from sublinear._solvers.kernel_sdca import KernelSDCA

FREE = {"penalize_intercept": False, "random_state": 0}


@pytest.fixture(scope="module")
def halves():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    scores = X[:, 0] + 0.5 * X[:, 1] + 0.3 * random.normal(size=300)
    return X, np.where(scores > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def waves():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def hinge(y, scores):
    return np.maximum(0, 1 - y * scores)


def exact_value(model, X, y, loss, **kernel):
    """The objective of a model, with a kernel matrix in float64."""
    K = pairwise_kernels(X, **kernel)
    v = np.zeros(len(X))
    v[model.support_] = model.dual_coef_[0]
    norm = v @ K @ v
    if model.penalize_intercept:
        norm += model.intercept_[0] ** 2
    return norm / 2 + model.C * loss(y, K @ v + model.intercept_[0]).sum()


# ---------------------------------------------------------------- weights of very different size

HEAVY = [*range(300), 514, 865, 1896, 2114, 2999, 3360, 3565]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("tol", [1e-3, 0])
def test_heavy_examples_at_their_kinks_have_no_false_certificate(tol):
    for seed in HEAVY:
        random = np.random.default_rng(seed)
        n = random.integers(3, 6)
        X = random.integers(-20, 21, size=(n, 2)) / 10.0
        y = np.where(random.random(n) < 0.5, 1.0, -1.0)
        y[:2] = 1, -1
        weight = np.where(random.random(n) < 0.5, 1e4, 1.0)
        model = KernelSDCAClassifier(gamma=1.0, C=100.0, tol=tol, max_iter=20, random_state=0)
        result = model.fit(X, y, weight).result_
        value = exact_value(
            model, X, y, lambda y, z, s=weight: s * hinge(y, z), metric="rbf", gamma=1.0
        )
        assert result.dual <= value <= result.primal + result.gap + 1e-12


# ---------------------------------------------------------------- data far from the origin


@pytest.mark.parametrize("make", [np.asarray, np.float64, np.asfortranarray])
@pytest.mark.parametrize("offset", [1e3, 1e4, 1e5])
def test_a_linear_kernel_with_a_free_intercept_does_not_mind_an_offset(halves, offset, make):
    X, y = halves
    near = KernelSDCAClassifier(kernel="linear", **FREE).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = KernelSDCAClassifier(kernel="linear", **FREE).fit(make(X + offset), y)
        scores = far.decision_function(make(X + offset))
    assert far.result_.status == "converged"
    assert far.result_.primal == pytest.approx(near.result_.primal, rel=2e-3)
    w = far.dual_coef_ @ (X + offset)[far.support_]
    exact = (X + offset) @ w[0] + far.intercept_[0]
    np.testing.assert_allclose(scores, exact, atol=1e-5 + 1e-9 * offset)
    np.testing.assert_allclose(scores[:1], far.decision_function((X + offset)[:1]), rtol=1e-9)
    value = exact_value(far, X, y, hinge, metric="linear")  # v sums up to 0
    shift = far.intercept_[0] + offset * w.sum()
    moved = far.dual_coef_ @ X[far.support_] @ X.T
    exact_primal = (w @ w.T).item() / 2 + hinge(y, moved[0] + shift).sum()
    assert np.isfinite(value) and exact_primal == pytest.approx(far.result_.primal, rel=1e-5)
    assert near.score(X, y) == pytest.approx(far.score(X + offset, y), abs=0.01)


def objective_of_fitted_attributes(model, X, y, loss):
    """The objective in rational arithmetic, which makes no difference of what is far off."""
    v = [Fraction(value) for value in model.dual_coef_[0].tolist()]
    intercept = Fraction(model.intercept_[0].item())
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    support = [rows[i] for i in model.support_]
    w = [sum(a * row[j] for a, row in zip(v, support, strict=True)) for j in range(X.shape[1])]
    scores = [float(sum(map(operator.mul, w, row)) + intercept) for row in rows]
    square = sum(entry * entry for entry in w)
    if model.penalize_intercept:
        square += intercept * intercept
    return float(square) / 2 + model.C * loss(y, np.array(scores)).sum()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("offset", [300.0, 3e4, 1e6, 1.7e9])
def test_gaps_make_up_for_offsets_that_rounding_leaves(halves, offset, penalize_intercept):
    X, y = halves[0][:, :2] + offset, halves[1]
    options = {"penalize_intercept": penalize_intercept, "random_state": 0, "kernel": "linear"}
    classifier = KernelSDCAClassifier(C=100.0, max_iter=30, **options).fit(X, y)
    regressor = KernelSDCARegressor("absolute", C=300.0, max_iter=30, tol=1e-8, **options)
    targets = halves[0][:, 0] + 0.1 * halves[0][:, 1]
    regressor.fit(X, targets)
    for model, goals, loss in (
        (classifier, y, hinge),
        (regressor, targets, lambda goals, scores: np.abs(goals - scores)),
    ):
        result, value = model.result_, objective_of_fitted_attributes(model, X, goals, loss)
        assert result.dual <= value <= result.primal + result.gap + 1e-9 * abs(value)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_features_that_are_constant_and_large_are_not_certified(halves, offset):
    y = halves[1]
    X = np.full((len(y), 2), offset)
    with pytest.warns(ConvergenceWarning, match="stopped at rounding"):
        model = KernelSDCAClassifier(kernel="linear", random_state=0).fit(X, y)
    assert hinge(y, model.decision_function(X)).sum() <= model.result_.primal + model.result_.gap


def test_linear_kernels_of_centred_data_are_those_of_the_data(halves):
    X = halves[0] + 1000
    kernel, truth = KERNELS["linear"](), X @ X.T
    rows = kernel_rows(kernel, X)
    np.testing.assert_allclose(rows.diagonal, truth.diagonal(), rtol=1e-12)
    order = np.arange(300)
    np.testing.assert_allclose(rows.block(order)[:, :300], truth, rtol=1e-7)
    block = rows.block(order, order)
    np.testing.assert_array_equal(block[:, :300], block[:, :300].T)
    few = np.array([3, 200])
    np.testing.assert_allclose(rows.block(few, few[:1])[:, :1], truth[few][:, few[:1]], rtol=1e-7)
    moved = X - X.mean(axis=0)
    np.testing.assert_allclose(rows.centred_block(order)[:, :300], moved @ moved.T, atol=1e-5)
    np.testing.assert_allclose(rows.centred_diagonal, (moved**2).sum(axis=1), rtol=1e-9)
    changes = np.random.default_rng(0).normal(size=(2, 300)).astype(np.float32)
    for right in (None, X[:70]):
        rows = kernel_rows(kernel, X, right)
        sums = np.zeros((2, rows.n_columns))
        rows.add_product(order, changes, sums)
        expected = changes.astype(float) @ truth[:, : rows.n_columns]
        np.testing.assert_allclose(sums, expected, atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("parameters", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2}])
def test_a_penalised_intercept_far_from_the_origin_has_no_false_certificate(halves, parameters):
    X, y = halves[0] + 1000, halves[1]
    kernel = {"metric": parameters["kernel"]}
    if "degree" in parameters:
        X -= 900
        kernel |= {"degree": 2, "gamma": 0.2, "coef0": 1.0}
    model = KernelSDCAClassifier(
        gamma=0.2, coef0=1.0, max_iter=50, random_state=0, **parameters
    ).fit(X, y)
    result, value = model.result_, exact_value(model, X, y, hinge, **kernel)
    assert result.dual <= value <= result.primal + result.gap


@pytest.mark.parametrize(
    ("offset", "parameters"),
    [
        (0, {"kernel": "poly", "degree": 3, "gamma": 1e-9, "coef0": 1.0}),
        (0, {"kernel": "sigmoid", "gamma": 1e-9, "coef0": 1.0}),
        (0, {"kernel": "rbf", "gamma": 1e-9}),
    ],
)
def exact_scores(model, X, **kernel):
    K = pairwise_kernels(X, X[model.support_], **kernel)
    return K @ model.dual_coef_[0] + model.intercept_[0]


LOST_IN_THEIR_SPREAD = [
    (0, {"kernel": "poly", "degree": 3, "gamma": 1e-9, "coef0": 1.0}),
    (0, {"kernel": "sigmoid", "gamma": 1e-9, "coef0": 1.0}),
    (0, {"kernel": "rbf", "gamma": 1e-9}),
    (1000, {"kernel": "linear"}),  # sparse rows are not centred: they would be sparse no longer
    (0, {"kernel": "rbf", "gamma": 1e4}),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(("offset", "parameters"), LOST_IN_THEIR_SPREAD)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_values_lost_in_their_spread_are_float64(halves, offset, parameters, make):
    X, y = halves[0] + offset, halves[1]
    model = KernelSDCAClassifier(max_iter=3, **parameters, **FREE).fit(make(X), y)
    kernel = {"metric": parameters["kernel"], **parameters}
    del kernel["kernel"]
    expected = exact_scores(model, X, **kernel)
    np.testing.assert_allclose(model.decision_function(make(X)), expected, rtol=1e-6, atol=1e-4)
    assert len(np.unique(np.round(expected, 9))) > 1


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_values_that_float64_cannot_tell_are_warned_of(halves, make):
    X, y = make(halves[0]), halves[1]
    model = KernelSDCAClassifier(kernel="rbf", gamma=1e14, max_iter=3, tol=0, **FREE)
    with pytest.warns(UserWarning, match="which are float64, are off by about"):
        model.fit(X, y)
    with pytest.warns(UserWarning, match="which are float64, are off by about"):
        model.decision_function(X)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_values_lost_beside_coefficients_are_float64(halves, make):
    """The spread of the values is that along the offset: what matters is far smaller."""
    X, y = halves[0] + 20, halves[1]
    parameters = {"kernel": "poly", "degree": 2, "gamma": 0.2, "coef0": 1.0}
    model = KernelSDCAClassifier(**parameters, **FREE).fit(make(X), y)
    assert model.result_.status == "converged"
    kernel = {"metric": "poly", "degree": 2, "gamma": 0.2, "coef0": 1.0}
    value = exact_value(model, X, y, hinge, **kernel)
    assert model.result_.dual <= value * (1 + 1e-9)
    assert value == pytest.approx(model.result_.primal, rel=1e-6)
    scores = model.decision_function(make(X))
    np.testing.assert_allclose(scores, exact_scores(model, X, **kernel), atol=1e-5)


def test_balls_are_warned_of_lost_values_that_are_not_float64(halves):
    X = halves[0] + 1000
    options = {"kernel": "poly", "degree": 2, "random_state": 0}
    with pytest.warns(UserWarning, match="which are float32, are off by about"):
        MinimumEnclosingBall(0.3, variant="plain", **options).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ball = MinimumEnclosingBall(1e-3, **options).fit(X)
    c, K = np.zeros(len(X)), (X @ X.T / (X.shape[1] * X.var())) ** 2
    c[ball.support_] = ball.center_coef_
    squares = K.diagonal() - 2 * K @ c + c @ K @ c
    assert squares.max() == pytest.approx(ball.result_.primal, rel=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ordinary_data_is_not_warned_of(halves, kernel):
    X, y = halves
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for rows in (X, np.float32(X), sparse.csr_array(X), X + 3):
            model = KernelSDCAClassifier(kernel=kernel, max_iter=5, random_state=0).fit(rows, y)
            model.predict(rows[:1])


@pytest.mark.parametrize("name", KERNELS)
def test_errors_of_values_are_measured(halves, name):
    X = halves[0]
    kernel = KERNELS[name](0.2, 3, 1.0)
    for make in (np.asarray, np.float32, sparse.csr_array):
        rows = kernel_rows(kernel, make(X))
        order = np.arange(300)
        truth = pairwise_kernels(
            np.float32(X).astype(float) if make is np.float32 else X,
            metric=name,
            **({} if name == "linear" else {"gamma": 0.2}),
            **({"coef0": 1.0} if name in ("poly", "sigmoid") else {}),
        )
        off = rows.block(order)[:, :300] - truth
        size = np.sqrt(np.mean(off**2)) / truth.diagonal().mean()
        assert size / 3 < rows.error < 3 * size


@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("offset", [0, 10, 100, 1e8])
@pytest.mark.parametrize("make", [np.asarray, np.float32, sparse.csr_array])
def test_rounding_that_is_not_measured_is_surely_small(halves, name, offset, make):
    X, kernel = halves[0][:200], KERNELS[name](0.1, 3, 1.0)
    if name == "poly" and offset == 1e8:
        pytest.skip("values leave the range of float32")
    left, taken = make(X + offset), []
    spread = least_spread(kernel, left)
    for others in (X[:1], X[::7], 3 * X[:20], np.full((1, 5), 90.0), -1000 * X):
        right = make(others + offset)
        found = kernel_rows(kernel, left, right)
        largest = max(side.squared_norms().max() for side in (found.left, found.right))
        assert found.deviation <= kernel.most_error(5, largest)
        told = kernel_rows(kernel, left, right, spread=spread)
        taken.append(told.deviation == 0 and told.rounding > 0)
        assert told.rounding <= SURE if taken[-1] else told.rounding == found.rounding
        assert found.rounding <= told.rounding
    assert taken[0] or offset > 0


def test_no_rounding_is_warned_of_or_mended_that_is_not_measured():
    assert 2 * SURE <= MOST_ROUNDING


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_predictions_measure_rounding_where_it_may_matter(halves, monkeypatch, name, make):
    X, y = halves
    samples = []

    def counted(*arguments):
        samples.append(arguments)
        return exact_values(*arguments)

    monkeypatch.setattr(kernel_choice, "exact_values", counted)
    # as of more problems of more features, whose weights are not put together
    monkeypatch.setattr(KernelSDCAClassifier, "_weights_pay", False)
    model = KernelSDCAClassifier(kernel=name, gamma=0.1, coef0=1.0, random_state=0).fit(X, y)
    rows, far, expected = make(X[:5]), make(X[:5] + 1e5), model.decision_function(X[:5])
    samples.clear()
    np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-4)
    assert bool(samples) == (name == "sigmoid")  # is not definite
    model.decision_function(far)
    assert samples
    samples.clear()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    again._spread = 0.0  # as in a model that knows of none
    np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
    assert samples


# ---------------------------------------------------------------- large C


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({"loss": "absolute", "C": 1e4}, lambda y, z: np.abs(z - y)),
        (
            {"loss": "epsilon_insensitive", "epsilon": 0.01, "C": 1e5},
            lambda y, z: np.maximum(0, np.abs(z - y) - 0.01),
        ),
        ({"loss": "squared", "C": 1e7}, lambda y, z: (z - y) ** 2 / 2),
    ],
)
def test_certificates_of_large_C_hold_for_the_kernel_itself(waves, options, loss):
    X, y = waves
    model = KernelSDCARegressor(gamma=2.0, **options, **FREE)
    result = model.fit(X, y).result_
    value = exact_value(model, X, y, loss, metric="rbf", gamma=2.0)
    assert result.status == "converged"
    assert result.dual <= value <= result.primal + result.gap
    assert value == pytest.approx(result.primal, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_certificate_of_huge_C_holds(halves):
    X, y = halves
    y = np.where(np.random.default_rng(1).random(300) < 0.1, -y, y)
    model = KernelSDCAClassifier("squared_hinge", C=1e8, gamma=0.5, max_iter=60, **FREE).fit(X, y)
    value = exact_value(model, X, y, lambda y, z: hinge(y, z) ** 2, metric="rbf", gamma=0.5)
    assert model.result_.dual <= value <= model.result_.primal + model.result_.gap


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
def test_ordinary_fits_converge_and_are_those_of_float64(halves, C, kernel):
    X, y = halves
    model = KernelSDCAClassifier(kernel=kernel, gamma=0.2, coef0=1.0, C=C, **FREE).fit(X, y)
    peer = SVC(kernel=kernel, gamma=0.2, coef0=1.0, C=C, tol=1e-6).fit(X, y)
    v = np.zeros(300)
    v[peer.support_] = peer.dual_coef_[0]
    parameters = {} if kernel == "linear" else {"gamma": 0.2}
    if kernel == "poly":
        parameters["coef0"] = 1.0
    K = pairwise_kernels(X, metric=kernel, **parameters)
    best = v @ K @ v / 2 + C * hinge(y, K @ v + peer.intercept_[0]).sum()
    result = model.result_
    assert result.status == "converged"
    assert result.dual <= best * (1 + 1e-9)
    value = exact_value(model, X, y, hinge, metric=kernel, **parameters)
    assert value - best <= result.gap + 1e-9 * best
    assert result.primal == pytest.approx(value, rel=1e-4)


REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES
REGRESSIONS = [
    ("absolute", RBF(1.5)),
    ("epsilon_insensitive", RBF(1.5)),
    ("squared", RBF(1.5)),
    ("absolute", Poly(0.5, 3, 1.0)),
]
CLASSIFICATIONS = [
    ("hinge", RBF(0.2)),
    ("squared_hinge", RBF(0.5)),
    ("hinge", Linear()),
    ("hinge", RBF(0.001)),
]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("C", [1.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("name_and_kernel", REGRESSIONS + CLASSIFICATIONS)
def test_errors_cover_what_rounding_does(halves, waves, name_and_kernel, C, free):
    name, kernel = name_and_kernel
    X, y = waves if name_and_kernel in REGRESSIONS else halves
    K = exact_values(kernel, Matrix(X), Matrix(X))
    objective = KernelObjective(
        kernel_rows(kernel, X), y, REGISTRY[name].loss(), np.full(len(X), C), free_intercept=free
    )
    solver = KernelSDCA(objective, RandomBits(np.random.SeedSequence(0)))
    for _ in range(40):
        while not solver.advance(2**60):
            pass
        v, margins = solver.coefficients, solver.margins
        intercept = objective.best_intercept(margins)
        computed = np.array(objective.values(v, margins, intercept))
        exact = np.array(objective.values(v, K @ v, intercept))
        errors = np.array(objective.errors(v, margins, intercept))
        assert (np.abs(computed - exact) <= 0.6 * errors + 1e-13 * np.abs(exact)).all()


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("name_and_kernel", REGRESSIONS + CLASSIFICATIONS)
def test_errors_of_equal_rows_add_up(halves, waves, name_and_kernel, shift):
    name, kernel = name_and_kernel
    X, y = waves if name_and_kernel in REGRESSIONS else halves
    X, y = np.repeat(X[:4], 500, axis=0), np.repeat(y[:4], 500)
    K = exact_values(kernel, Matrix(X), Matrix(X)) + shift
    objective = KernelObjective(
        kernel_rows(kernel, X), y, REGISTRY[name].loss(), np.full(2000, 1.0), shift=shift
    )
    solver = KernelSDCA(objective, RandomBits(np.random.SeedSequence(0)))
    for _ in range(10):
        while not solver.advance(2**60):
            pass
        v, margins = solver.coefficients, solver.margins
        computed = np.array(objective.values(v, margins, 0.0))
        exact = np.array(objective.values(v, K @ v, 0.0))
        errors = np.array(objective.errors(v, margins, 0.0))
        assert (np.abs(computed - exact) <= 0.6 * errors + 1e-13 * np.abs(exact)).all()


def test_errors_count_offsets_that_move_all_margins(halves):
    """What centring took off is rounded: it changes v'Kv / 2 by sum v / 2 times the offset."""
    X, y = halves[0] + 1e4, halves[1]
    rows = kernel_rows(Linear(), X)
    assert rows.is_centred
    loss, v = REGISTRY["hinge"].loss(), np.full(300, 0.5)
    objective = KernelObjective(rows, y, loss, np.ones(300), shift=1.0)
    objective.refine()
    moved = np.sum(objective.squared_sizes() * v**2)
    together = objective.offset_error(np.sum(v**2), moved)
    _, dual = objective.errors(v, objective.margins_of(v), 0.0)
    assert dual >= together * v.sum() / 2 > 0


@pytest.mark.parametrize(
    ("power", "n_distinct", "C", "kernel"),
    [
        (1, 2, 100.0, {"metric": "rbf", "gamma": 1e-4}),
        (2, 5, 1e4, {"metric": "poly", "gamma": 3.3e-5, "degree": 3, "coef0": 1.0}),
    ],
)
def test_certificates_hold_where_rows_repeat(power, n_distinct, C, kernel):
    """The same problem with weights in place of equal rows says what the optimum is."""
    X, y = np.eye(n_distinct), np.where(np.arange(n_distinct) == 0, 1.0, -1.0)
    numbers = np.random.default_rng(0).integers(n_distinct, size=6000)
    counts = np.bincount(numbers)
    options = {"kernel": kernel["metric"], **kernel, "C": C, "random_state": 0}
    del options["metric"]
    loss = ("hinge", "squared_hinge")[power - 1]
    model = KernelSDCAClassifier(loss, **options).fit(X[numbers], y[numbers])
    merged = KernelSDCAClassifier(loss, tol=1e-8, **options).fit(X, y, sample_weight=counts)
    assert model.result_.status == merged.result_.status == "converged"
    assert model.result_.dual <= merged.result_.primal
    v = np.bincount(numbers[model.support_], model.dual_coef_[0], minlength=n_distinct)
    K, b = pairwise_kernels(X, **kernel), model.intercept_[0]
    value = (v @ K @ v + b**2) / 2 + C * counts @ hinge(y, K @ v + b) ** power
    assert value - merged.result_.dual <= (model.tol + 2e-8) * value


# ---------------------------------------------------------------- no positive definite kernel


@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
def test_negative_squares_are_refused(halves, make):
    X, y = halves
    with pytest.raises(ValueError, match="is negative for an example"):
        make(kernel="precomputed").fit(-(X @ X.T), y)
    with pytest.raises(ValueError, match="is negative for an example"):
        make(kernel="poly", degree=1, coef0=-3.0, gamma=0.5).fit(X, y)
    with pytest.raises(ValueError, match="is negative for an example"):
        make(kernel=lambda A, B: -(A @ B.T)).fit(X, y)
    with pytest.raises(ValueError, match="is negative for an example"):
        MinimumEnclosingBall(kernel="poly", degree=1, coef0=-3.0, gamma=0.5).fit(X)
    K = X @ X.T
    K[0], K[:, 0] = 0, 0
    K[0, 0] = -1e-12  # what rounding may leave
    KernelSDCAClassifier(kernel="precomputed").fit(K, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("intercept", [{}, FREE, {"fit_intercept": False}])
@pytest.mark.parametrize("make", [KernelSDCAClassifier, KernelPegasosClassifier])
def test_kernels_with_negative_norms_certify_nothing(halves, make, intercept):
    """k(x, x) is 1, but the norm of differences is negative."""
    X, y = halves
    if make is KernelPegasosClassifier and intercept is FREE:
        intercept = {}
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = 2 - unit @ unit.T
    model = make(kernel="precomputed", C=10.0, max_iter=20, **intercept).fit(K, y)
    assert model.result_.status != "converged"


def test_a_kernel_that_is_not_definite_is_blamed_where_rounding_is_not_the_cause(halves):
    X, y = halves
    model = KernelSDCAClassifier(kernel="sigmoid", gamma=0.5, coef0=1.0, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="without a certificate.*not positive semi-def"):
        model.fit(X, y)
    assert model.result_.dual == -np.inf
    K = np.tanh(0.5 * X @ X.T + 1)
    with pytest.warns(ConvergenceWarning, match="without a certificate.*not positive semi-def"):
        model.set_params(kernel="precomputed").fit(K, y)


@pytest.mark.parametrize("offset", [0, 10, 30, 50])
def test_sublinear_certificates_count_what_rounding_does_to_kernel_values(offset):
    """Sparse rows cannot be centred; their values, and sums of these, are off."""
    X = np.random.default_rng(0).normal(size=(40, 3)) + offset
    K = pairwise_kernels(X, metric="rbf", gamma=0.5)
    options = {"kernel": "rbf", "gamma": 0.5}
    for seed, variant in enumerate(("plain", "plain", "plain", "active_set")):
        options |= {"variant": variant, "random_state": seed}
        ball = MinimumEnclosingBall(0.01, **options).fit(sparse.csr_array(X))
        c = np.zeros(40)
        c[ball.support_] = ball.center_coef_
        assert ball.result_.status == "converged"
        assert (1 - 2 * K @ c + c @ K @ c).max() <= ball.result_.primal * (1 + 1e-9)
        p = ball.dual_coef_
        assert ball.result_.dual <= 1 - p @ K @ p
        found = solve_simplex_qp(sparse.csr_array(X), None, 0.01, **options)
        assert found.status == "converged"
        assert found.p @ K @ found.p <= found.primal + 1e-6  # 1e-4 of epsilon goes unnoticed


def test_a_sublinear_fit_ends_where_rounding_is_most_of_the_gap():
    X = sparse.csr_array(np.random.default_rng(0).normal(size=(40, 3)) + 60)
    options = {"kernel": "rbf", "gamma": 0.5, "random_state": 0}
    for epsilon, variant in ((2e-3, "plain"), (1e-12, "active_set")):
        ball = MinimumEnclosingBall(epsilon, variant=variant, **options)
        with pytest.warns(ConvergenceWarning, match="That is rounding"):
            ball.fit(X)
        assert ball.result_.status == "rounding"
        with pytest.warns(ConvergenceWarning, match="By rounding alone"):
            found = solve_simplex_qp(X, None, epsilon / 10, variant=variant, **options)
        assert found.status == "rounding"
    assert ball.result_.relative_gap < 1e-8  # in float64


@pytest.mark.parametrize("gamma, status", [(100.0, "converged"), (1e4, "rounding")])
def test_rows_that_are_all_far_apart_have_the_identity_for_a_matrix(gamma, status):
    """In float32 the exponent of a row with itself is off by more than 1, and may be positive."""
    X = np.random.default_rng(0).normal(size=(60, 3)) * 1000
    y = np.where(X[:, 0] > 0, 1, -1)
    order = np.arange(len(X))
    assert kernel_rows(RBF(gamma), X).block(order, order).max() <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if status == "rounding":  # rows near these might have values that are off by 1e-5
            warnings.simplefilter("ignore", category=ConvergenceWarning)
        model = KernelSDCAClassifier(C=1e3, gamma=gamma, random_state=0).fit(X, y)
    assert model.result_.status == status
    assert model.score(X, y) == 1


@pytest.mark.parametrize("far", [1e2, 1e3, 1e5])
@pytest.mark.parametrize("make", [KernelSDCAClassifier, L2SVMClassifier])
def test_a_row_far_from_others_does_not_spoil_predictions(halves, make, far):
    X, y = halves
    model = make(kernel="rbf", gamma=0.5, random_state=0).fit(X, y)
    rows = X[:20].copy()
    rows[0] = far
    K = pairwise_kernels(rows, X[model.support_], metric="rbf", gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = model.decision_function(rows)
    np.testing.assert_allclose(scores, K @ model.dual_coef_[0] + model.intercept_, atol=1e-9)


@pytest.mark.parametrize("gamma, width", [(50.0, 6e4), (100.0, 4e4), (700.0, 6e4)])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_values_at_their_bounds_hide_no_errors_from_certificates(gamma, width, C):
    """Float32 exponents are wrong by more than 1 here: values show little of it."""
    random = np.random.default_rng(0)
    X = random.normal(size=(8, 3)) * width
    X = np.vstack([X, X + 0.05 * random.normal(size=X.shape) / np.sqrt(gamma)])
    y = np.repeat([1.0, -1.0], 8) + 0.1 * random.normal(size=16)
    squares = ((X[:, None].astype(np.longdouble) - X[None]) ** 2).sum(axis=-1)
    K = np.exp(-gamma * squares).astype(np.float64)
    optimum = C / 2 * y @ np.linalg.solve(np.eye(16) + C * K, y)
    model = KernelSDCARegressor("squared", gamma=gamma, C=C, fit_intercept=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=ConvergenceWarning)
        warnings.filterwarnings("ignore", "kernel values, which are float64")
        result = model.fit(X, y).result_
    assert result.dual <= optimum * (1 + 1e-9)
    assert result.gap > 0
