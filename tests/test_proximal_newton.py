"""The proximal Newton method over a source: its oracle's steps, and fits that creep without it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from reference.proximal_newton import proximal_newton
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import ConvergenceWarning

from sublinear import SDCAClassifier, SDCARegressor
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._drive import Limits
from sublinear._newton_passes import Certified, NewtonPlan, PassesDone
from sublinear._solvers.proximal_newton import ProximalNewton, expected_passes
from sublinear._stream import Block, Stream
from sublinear._streamed_sdca.ascent import StreamedAscent
from sublinear._streamed_sdca.newton import StreamedNewton
from sublinear._streamed_sdca.objective import extent_of
from sublinear.sources import ArraySource, GeneratorSource

LOSSES = MARGIN_LOSSES | REGRESSION_LOSSES
KINKS = ("hinge", "absolute", "epsilon_insensitive")
BLOCKS = (0, 31, 32, 60, 90)


def second_derivative(loss, compiled):
    if loss not in KINKS:
        return lambda z, y, a: compiled.second_derivatives(z, y)
    return lambda z, y, a: 1.0 * ((np.abs(a) < 1) & ((loss == "absolute") | (a != 0)))


def problem(loss, weighted, storage):
    random = np.random.default_rng(3)
    X = random.normal(size=(90, 4)) * [1, 3, 10, 0.2]
    z = X @ [1, 0.3, -0.1, 2] + 0.7 * random.normal(size=90)
    y = np.sign(z + 0.1) if loss in MARGIN_LOSSES else 5 * z + 3
    weights = random.integers(0, 3, size=90).astype(float) if weighted else None
    return storage(np.where(np.abs(X) > 0.1, X, 0)), y, weights


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, *REGRESSION_LOSSES])
def test_passes_over_blocks_are_the_oracle_s(loss, weighted, free, storage):
    X, y, weights = problem(loss, weighted, storage)
    compiled, alpha, constant = LOSSES[loss].loss(), 1e-3, 2.0
    n, d = X.shape
    total = n if weights is None else weights.sum()
    parts = [
        Objective(
            Matrix(X[i:j], constant=constant),
            y[i:j].copy(),
            compiled,
            alpha,
            None if weights is None else weights[i:j].copy(),
            intercept_penalty=float(not free),
            total_weight=total,
        )
        for i, j in itertools.pairwise(BLOCKS)
    ]
    penalty = np.append(np.full(d, alpha), 0.0 if free else alpha)
    start = np.linspace(-0.02, 0.05, d + 1)
    solver = ProximalNewton(compiled, penalty, start, 2.5, 0.0)
    centres = np.zeros(n)
    dense = np.column_stack([X.toarray() if sparse.issparse(X) else X, np.full(n, constant)])
    seen = np.full(n, True) if weights is None else weights > 0
    oracle = proximal_newton(
        dense[seen],
        y[seen],
        ORACLES[loss](),
        alpha,
        start,
        np.zeros(seen.sum()),
        2.5 if loss in KINKS else 0.0,
        second_derivative(loss, compiled),
        weights=None if weights is None else weights[seen],
        free=free,
    )
    for w, width, duals in itertools.islice(oracle, 12):
        solver.begin()
        for part, (i, j) in zip(parts, itertools.pairwise(BLOCKS), strict=True):
            solver.visit(part, centres[i:j])
        solver.end()
        np.testing.assert_allclose(solver.w, w, rtol=1e-6, atol=1e-9)
        assert solver.width == pytest.approx(width)
        found = [
            solver.duals(part, centres[i:j])
            for part, (i, j) in zip(parts, itertools.pairwise(BLOCKS), strict=True)
        ]
        np.testing.assert_allclose(np.concatenate(found)[seen], duals, rtol=1e-5, atol=1e-7)
    assert loss in KINKS or solver.gap < 1e-2 * solver.primal


def test_kinks_take_more_passes():
    passes = [
        expected_passes(LOSSES[loss].loss(), rows_per_weight)
        for loss, rows_per_weight in (("squared", 9), ("logistic", 9), ("hinge", 1e4), ("hinge", 9))
    ]
    assert passes == sorted(passes)


UNSCALED = {
    "cancer": (load_breast_cancer, SDCAClassifier, MARGIN_LOSSES),
    "diabetes": (lambda return_X_y: load_diabetes(return_X_y=True, scaled=False), SDCARegressor,
                 REGRESSION_LOSSES),
}  # fmt: skip


@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
@pytest.mark.parametrize(
    ("data", "loss"), [(name, loss) for name, case in UNSCALED.items() for loss in case[2]]
)
def test_unscaled_tables_converge_over_a_source(data, loss, alpha, penalize):
    load, kind, _ = UNSCALED[data]
    X, y = load(return_X_y=True)
    options = {"alpha": alpha, "random_state": 0, "penalize_intercept": penalize}
    in_memory = kind(loss, tol=1e-6, max_iter=5000, **options).fit(X, y)
    model = kind(loss, tol=1e-5, **options).fit_stream(ArraySource(X, y, block_rows=100))
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(in_memory.result_.primal, rel=2e-5)
    assert model.result_.dual <= in_memory.result_.primal * (1 + 1e-12)
    if penalize:  # the duals are those of the certificate
        oracle, ones = ORACLES[loss](), np.ones((len(y), 1))
        targets = np.where(y == model.classes_[1], 1.0, -1.0) if kind is SDCAClassifier else y
        dual = values.dual(np.hstack([X, ones]), targets, oracle, alpha, model.dual_coef_.ravel())
        assert dual == pytest.approx(model.result_.dual, rel=1e-6)


@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_classes_that_are_not_scaled(loss):
    X, y = load_wine(return_X_y=True)
    model = SDCAClassifier(loss, alpha=1e-3, random_state=0)
    model.fit_stream(ArraySource(X, y, block_rows=60))
    assert model.result_.status == "converged"
    assert model.score(X, y) > 0.97


@pytest.mark.parametrize("epsilon", [0.1, 1.35])
def test_an_intercept_beyond_all_kinks_is_found(epsilon):
    """Where no row is near its target the Hessian says nothing of the intercept."""
    random = np.random.default_rng(0)
    X, y = 0.1 * random.normal(size=(200, 2)), 1000 + random.normal(size=200)
    model = SDCARegressor(
        "huber", epsilon=epsilon, alpha=1.0, penalize_intercept=False, second_order=True
    ).fit_stream(ArraySource(X, y, block_rows=100))
    assert model.result_.status == "converged"
    assert model.result_.n_iter < 40


def test_only_where_it_is_wanted():
    X, y = load_breast_cancer(return_X_y=True)
    source = ArraySource(X, y)
    creeping = SDCAClassifier(alpha=1e-3, random_state=0, second_order=False, max_iter=300)
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        creeping.fit_stream(source)
    assert creeping.result_.relative_gap > 0.5
    at_once = SDCAClassifier("squared_hinge", alpha=1e-3, random_state=0, second_order=True)
    assert at_once.fit_stream(source).result_.n_iter < 20
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    fits = [
        SDCAClassifier(alpha=0.1, random_state=0, second_order=second_order)
        for second_order in ("auto", False)
    ]
    first, second = (model.fit_stream(ArraySource(scaled, y)) for model in fits)
    np.testing.assert_array_equal(first.coef_, second.coef_)  # single steps were enough


def test_weights_are_repetitions():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    options = {"alpha": 1e-3, "tol": 1e-12, "random_state": 0, "second_order": True}
    weighted = SDCARegressor("huber", **options)
    weighted.fit_stream(ArraySource(X, y, weights.astype(float), block_rows=70))
    repeated = SDCARegressor("huber", **options)
    repeated.fit_stream(ArraySource(np.repeat(X, weights, axis=0), np.repeat(y, weights)))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, rel=1e-6)


@pytest.mark.parametrize("least_rows", [1, 100, 1000])
@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_small_blocks_are_joined(kind, least_rows, monkeypatch):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    weights = np.random.default_rng(0).uniform(1, 2, size=len(y))
    weights[:20] = 1
    same = np.empty((20, X.shape[1])), np.empty(20), np.empty(20)

    def blocks():
        for start in range(0, len(y), 20):
            rows = slice(start, start + 20)
            count = len(y[rows])
            for array, whole in zip(same, (X, y, weights), strict=True):
                array[:count] = whole[rows]
            block = [array[:count] for array in same]
            if kind == "sparse" or (kind == "mixed" and start % 40):
                block[0] = sparse.csr_array(block[0])
            yield tuple(block if start else block[:2])  # the first one without weights

    sizes, visit = [], ProximalNewton.visit

    def watched(self, objective, centres):
        sizes.append(len(centres))
        return visit(self, objective, centres)

    monkeypatch.setattr(ProximalNewton, "visit", watched)
    monkeypatch.setattr(StreamedNewton, "least_rows", least_rows)
    options = {"alpha": 1e-3, "tol": 1e-12, "random_state": 0, "second_order": True}
    in_one = SDCARegressor("huber", **options).fit_stream(ArraySource(X, y, weights))
    sizes.clear()
    model = SDCARegressor("huber", **options).fit_stream(GeneratorSource(blocks), read_ahead=0)
    size = 20 * -(-least_rows // 20)
    expected = [min(size, len(y) - start) for start in range(0, len(y), size)]
    assert sizes == expected * (len(sizes) // len(expected))
    assert model.result_.status == "converged"
    np.testing.assert_allclose(model.coef_, in_one.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.dual_coef_, in_one.dual_coef_, rtol=1e-6, atol=1e-8)


class Read(ArraySource):
    """It counts how often it is read."""

    n_read = 0

    def __iter__(self):
        self.n_read += 1
        return super().__iter__()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge", "squared"])
def test_what_the_last_pass_has_measured_takes_no_other(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 6))
    y = X @ random.normal(size=6) + random.normal(size=900)
    cls, y = (SDCARegressor, y) if loss == "squared" else (SDCAClassifier, np.sign(y))
    options = {"alpha": 1e-4, "random_state": 0, "second_order": True}
    n_read, certified = {}, {}
    for dtype in (np.float64, np.float32):  # weights of the latter are rounded
        source = Read(X.astype(np.float32).astype(dtype), y, block_rows=300)
        model = cls(loss, **options).fit_stream(source)
        assert model.result_.status == "converged"
        n_read[dtype], certified[dtype] = source.n_read, model.result_.certificate_accesses
    assert n_read[np.float64] < n_read[np.float32]
    assert certified[np.float64] < certified[np.float32]

    model = cls(loss, **options).fit_stream(ArraySource(X, y, block_rows=300))
    rows = np.column_stack([X, np.ones(900)])
    w = np.append(model.coef_, model.intercept_)
    oracle, duals = ORACLES[loss](), np.ravel(model.dual_coef_)
    primal = values.primal(rows, y, oracle, 1e-4, w)
    dual = values.dual(rows, y, oracle, 1e-4, duals)
    assert model.result_.primal == pytest.approx(primal, rel=1e-12)
    assert model.result_.dual == pytest.approx(dual, rel=1e-10)


@pytest.mark.parametrize(("name", "limit"), [("max_iter", 7), ("max_accesses", 400_000)])
def test_limits_hold(name, limit, monkeypatch):
    monkeypatch.setattr(StreamedNewton, "least_rows", 100)
    X, y = load_breast_cancer(return_X_y=True)
    model = SDCAClassifier(alpha=1e-4, random_state=0, second_order=True, **{name: limit})
    with pytest.warns(ConvergenceWarning):
        model.fit_stream(ArraySource(X, y, block_rows=100))
    result = model.result_
    assert result.status == name and result.primal <= 1
    if name == "max_iter":
        assert result.n_iter == limit
    else:  # as many blocks as there is room for
        assert limit - ProximalNewton.n_passes * 100 * X.shape[1] < result.accesses <= limit


@pytest.mark.parametrize("rows", [30, 100, 569])
def test_a_budget_that_is_enough_changes_nothing(rows):
    X, y = load_breast_cancer(return_X_y=True)
    fits = [
        SDCAClassifier("logistic", random_state=0, max_accesses=budget)
        for budget in (None, 10_000_000)
    ]
    free, limited = (model.fit_stream(ArraySource(X, y, block_rows=rows)) for model in fits)
    assert limited.result_.status == "converged"
    np.testing.assert_array_equal(limited.coef_, free.coef_)


def test_every_class_keeps_to_its_budget(monkeypatch):
    X, y = load_wine(return_X_y=True)
    reads, visit = np.zeros(3), StreamedNewton.visit

    def watched(self, *arguments):
        goes_on = visit(self, *arguments)
        reads[:] = self.reads
        return goes_on

    monkeypatch.setattr(StreamedNewton, "visit", watched)
    # a smaller alpha or tolerance leaves the number of passes to the last bits of BLAS
    options = {"second_order": True, "alpha": 1e-4, "tol": 1e-8, "random_state": 0}
    SDCAClassifier("logistic", **options).fit_stream(ArraySource(X, y))
    budget = int(reads.max()) - 1
    model = SDCAClassifier("logistic", max_accesses=budget, **options)
    with pytest.warns(ConvergenceWarning):
        model.fit_stream(ArraySource(X, y))
    assert budget - 2 * ProximalNewton.n_passes * X.size < reads.max() <= budget
    assert reads.min() < reads.max()  # some class was done before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_it_begins_where_single_steps_have_ended(loss):
    X, y = load_breast_cancer(return_X_y=True)
    source = ArraySource(X / X.max(axis=0), y, block_rows=100)
    options = {"alpha": 1e-4, "random_state": 0}
    steps = SDCAClassifier(loss, second_order=False, max_iter=1, **options).fit_stream(source)
    model = SDCAClassifier(loss, second_order=True, max_iter=2, **options).fit_stream(source)
    assert model.result_.primal <= steps.result_.primal < 1


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge"])
def test_steps_that_are_quick_go_on(loss, alpha):
    random = np.random.default_rng(0)
    X = random.normal(size=(5000, 30))
    y = np.sign(X @ random.normal(size=30) + random.logistic(size=5000))
    source = ArraySource(X, y, block_rows=2000)
    options = {"alpha": alpha, "random_state": 0}
    first, second = (
        SDCAClassifier(loss, second_order=choice, **options).fit_stream(source)
        for choice in ("auto", False)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.result_.certificate_accesses <= second.result_.certificate_accesses + X.size


@pytest.mark.parametrize(
    ("n_passes", "n_read", "gap", "is_due"),
    [
        (30, 0, 0.9, True),
        (30, 0, np.inf, True),  # nothing is known of the pace
        (30, 0, 0.02, False),  # the rest takes hardly as long as these passes
        (140, 0, 0.02, False),  # still
        (160, 0, 0.02, True),  # they have taken longer than the methods
        (971, 0, 0.9, False),  # too late for max_iter,
        (30, 900_000, 0.9, False),  # for max_accesses
        (5, 0, 0.9, False),  # too early to tell
    ],
)
def test_when_it_is_time(n_passes, n_read, gap, is_due):
    limits = Limits(1e-2, max_iter=1000, max_accesses=1_000_000)
    plan = NewtonPlan(
        MARGIN_LOSSES["hinge"].loss(), np.ones(3), tol=1e-2, cost=90.0, overhead=10.0, n_read=4000,
        n_expected=60, limits=limits,
    )  # fmt: skip
    done = PassesDone(n_passes, 30.0 * n_passes, n_read)
    assert plan.is_due(done, gap, 1.0, at_start=lambda: 1.0) == is_due


@pytest.mark.parametrize(
    ("least_work", "max_iter", "is_due"), [(5999, 60, False), (6000, 60, True), (6000, 59, False)]
)
def test_what_is_known_before_the_first_pass(least_work, max_iter, is_due):
    plan = NewtonPlan(
        MARGIN_LOSSES["logistic"].loss(), np.ones(3), tol=1e-2, cost=90.0, overhead=10.0,
        n_read=4000, n_expected=60, least_work=least_work, limits=Limits(1e-2, max_iter, 10**6),
    )  # fmt: skip
    assert plan.is_due(PassesDone(0, 0.0, 0), np.inf, np.inf, at_start=None) == is_due
    in_any_case = replace(plan, n_expected=0)
    for n_passes in (0, 1):
        done = PassesDone(n_passes, 30.0 * n_passes, 0)
        assert in_any_case.is_due(done, np.inf, np.inf, at_start=None) == (n_passes > 0)


def test_the_best_of_certificates_is_kept():
    """A dual value above the least primal value is rounding, though below another one."""
    best = Certified(1, 2)
    assert best.note(0, [np.ones(2), np.zeros(2)], [2.0, 1.0], 0.5)
    assert not best.note(0, [np.ones(2)], [2.0], 1.5)
    assert (best.primal, best.gap) == (1.0, 0.5)
    np.testing.assert_array_equal(best.models, np.zeros((1, 2)))


@pytest.mark.parametrize("name", ["squared", "logistic"])
@pytest.mark.parametrize("penalize", [True, False])
def test_where_single_steps_would_take_long_none_is_taken(name, penalize, monkeypatch):
    X, y, _ = problem(name, False, np.asarray)
    model = SDCARegressor if name == "squared" else SDCAClassifier
    model = model(name, alpha=1e-6, penalize_intercept=penalize, random_state=0)
    source = ArraySource(X, y, block_rows=20)
    with monkeypatch.context() as patch:
        patch.delattr(StreamedAscent, "visit")
        assert model.fit_stream(source).result_.status == "converged"
    # where the last fit ended lengths of rows tell nothing
    model.set_params(warm_start=True)
    assert model.fit_stream(source).result_.status == "converged"
    assert model.n_iter_ == 1


def test_weights_and_lengths_of_some_rows():
    random = np.random.default_rng(0)
    X, weights = random.normal(size=(200, 3)), random.random(200)
    blocks = [Block(X[:130], np.ones(130), weights[:130]), Block(X[130:], np.ones(70), None)]
    stream = Stream(blocks, y_numeric=True, read_ahead=0)
    extent = extent_of(stream, 2.0, REGRESSION_LOSSES["squared"].loss(), False, lambda block: None)
    weights[130:] = 1
    np.testing.assert_allclose(extent.at_zeros, [weights.sum() / 2, 0.0], rtol=1e-12)  # y is 1
    lengths = weights * ((X**2).sum(axis=1) + 4)
    some = np.r_[0:130:3, 130:200:2]
    np.testing.assert_allclose(extent.moments, lengths[some], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_no_step_is_possible_single_steps_go_on():
    X, y = load_breast_cancer(return_X_y=True)
    model = SDCAClassifier(alpha=1e-5, tol=1e-15, random_state=0, second_order=True, max_iter=300)
    model.fit_stream(ArraySource(X.astype(np.float32), y))
    assert model.result_.n_iter == 300  # rounding to float32 keeps the gap open
    assert model.result_.relative_gap < 0.01


def test_a_mean_loss_that_few_rows_make_is_no_width():
    """Nearly all rows are fitted in the end, and weights are uneven."""
    random = np.random.default_rng(16)
    X = random.normal(size=(60, 10))
    z = X @ random.normal(size=10) + 0.1 * random.normal(size=60)
    source = ArraySource(X, np.sign(z), 10 ** random.uniform(0, 2.5, size=60), block_rows=40)
    model = SDCAClassifier(alpha=1e-8, random_state=0, max_iter=250, warm_start=True)
    for options in ({}, {"fit_intercept": False}):  # 167 and 151 passes; 386 and 320 as it was
        assert model.set_params(**options).fit_stream(source).result_.status == "converged"


def test_a_first_width_is_widened_once():
    X, y, _ = problem("hinge", False, np.asarray)
    objective = Objective(Matrix(X), y, LOSSES["hinge"].loss(), 1e-3)
    for first, expected in ((1e-6, 0.03), (0.5, 0.5)):
        method = ProximalNewton(objective.loss, np.full(4, 1e-3), np.zeros(4), first, 1e-6)
        method.begin()
        method.visit(objective, np.zeros(len(y)))
        method.end()
        assert method.width == method.first_width == pytest.approx(expected)
        assert (method.direction is None) == (first < expected)  # the next pass is with that width
