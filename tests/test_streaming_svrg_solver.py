"""Streaming SVRG's solvers against their NumPy twins, and what they promise about streams."""

import itertools

import numpy as np
import pytest
from reference import losses as reference
from reference.streaming_svrg import combined_scheme, paper_scheme
from scipy import sparse
from scipy.special import expit

from sublinear import SDCAClassifier, StreamingSVRGClassifier
from sublinear._core import excess_risk, frames, inner_problem
from sublinear._core.anchored_gradient import AnchoredGradient
from sublinear._core.inner_problem import FREE, InnerProblem, LaterStage, Restraint
from sublinear._core.kept_rows import KeptRows, Sample, copied_sparse
from sublinear._core.losses import COUNT_LOSSES, MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.random import RandomBits
from sublinear._core.row_blocks import HeavyRows, RowBlock, copied_dense
from sublinear._solvers import streaming_svrg
from sublinear._solvers.streaming_svrg import ALIKE, OWN, SPARSE_VALUES, CombinedSVRG, PaperSVRG

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES | COUNT_LOSSES
ORACLES = reference.LOSSES | reference.COUNT_LOSSES
SMOOTH = ("squared", "huber", "poisson", "logistic", "smoothed_hinge", "squared_hinge")


def problem(loss, n=900, d=5, seed=0):
    """Rows, targets that suit the loss, the loss and its oracle."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * np.linspace(0.3, 1, d)
    score = X @ random.normal(size=d)
    if loss in MARGIN_LOSSES:
        y = np.sign(score + 3 * random.normal(size=n))
    elif loss in COUNT_LOSSES:
        y = random.poisson(np.exp(0.3 * score)).astype(float)
    else:
        y = score + random.normal(size=n)
    return X, y, REGISTRY[loss].loss(), ORACLES[loss]()


def fed(solver, X, y, cuts=(), weights=None, constant=0.0, order=None):
    """Give the rows to a solver, cut into blocks at the places given."""
    places = [0, *cuts, X.shape[0]]
    for start, stop in itertools.pairwise(places):
        part = slice(start, stop)
        solver.take(
            RowBlock(X[part], y[part], None if weights is None else weights[part], constant)
        )
    return solver


def uneven(n, spread):
    """Weights, some of them far larger than others."""
    return np.exp(spread * np.random.default_rng(1).normal(size=n))


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize(
    ("n", "kept_rows"), [(60, 100), (100, 100), (333, 100), (900, 100), (900, 60)]
)
def test_combined_scheme_agrees_with_its_oracle(loss, alpha, n, kept_rows):
    X, y, compiled, oracle = problem(loss, n)
    solver = fed(CombinedSVRG(compiled, 5, alpha, kept_rows=kept_rows), X, y, cuts=(7, 50))
    counts = loss in COUNT_LOSSES
    expected = combined_scheme(X, y, oracle, alpha=alpha, kept_rows=kept_rows, counts=counts)
    np.testing.assert_allclose(solver.model(), expected, atol=2e-3, rtol=2e-3)
    assert solver.n_rows == n


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("n", [200, 201, 215, 333, 700])
def test_short_stages_agree_with_their_oracle(loss, n, monkeypatch):
    monkeypatch.setattr(streaming_svrg, "LAG", 0.002)
    monkeypatch.setattr(streaming_svrg, "LAG_OF_SHORT", 0.004)
    monkeypatch.setattr(streaming_svrg, "ENOUGH", 1e-9)
    X, y, compiled, oracle = problem(loss, n)
    solver = fed(CombinedSVRG(compiled, 5, 0.01, kept_rows=100), X, y, cuts=(7, 50, 150))
    options = {"counts": loss in COUNT_LOSSES, "lag": 0.002, "lag_of_short": 0.004}
    expected = combined_scheme(X, y, oracle, alpha=0.01, kept_rows=100, **options)
    np.testing.assert_allclose(solver.model(), expected, atol=2e-3, rtol=2e-3)
    assert solver.n_stages >= n // 100 and solver.stage_rows < 100


def test_the_newest_rows_stand_for_others_after_short_stages():
    """And heavy ones for themselves; all of them together for all rows."""
    n, kept = 3000, 100
    X, y, loss, _ = problem("squared", n, d=40)
    weights = np.where(np.arange(n) % 500 == 3, 1e4, 1.0)
    solver = fed(CombinedSVRG(loss, 40, 0.0, kept_rows=kept), X, y, weights=weights)
    alone = solver.sample.weights > 1
    last = solver.n_rows - solver.gradient.n_rows
    light = np.flatnonzero(weights[:last] == 1)
    assert solver.n_stages > n // kept
    np.testing.assert_array_equal(solver.sample.rows[~alone], X[light[-kept:]])
    assert alone.sum() == np.sum(weights[:last] > 1)
    assert (solver.counts[alone] == 1).all() and np.ptp(solver.counts[~alone]) == 0
    assert solver.counts @ solver.sample.weights == pytest.approx(weights[:last].sum())


@pytest.mark.parametrize("loss", SMOOTH)
def test_a_single_stage_is_the_empirical_risk_minimiser(loss):
    X, y, compiled, oracle = problem(loss, 400)
    model = fed(CombinedSVRG(compiled, 5, 0.01, kept_rows=400), X, y).model()
    gradient = X.T @ oracle.derivative(X @ model, y) / len(y) + 0.01 * model
    assert np.abs(gradient).max() < 1e-8


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("alpha", [0.0, 0.2, np.array([0.1, 0.2, 0.3, 0.0, 0.0])], ids=str)
@pytest.mark.parametrize("scheme", [(40, 2.0), (1, 1.5), (3, 1.25)])
@pytest.mark.parametrize("weight", [None, 1e-9, 7.0])
def test_paper_scheme_agrees_with_its_oracle(loss, alpha, scheme, weight):
    X, y, compiled, oracle = problem(loss)
    weights = weight and weight * np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    scheme = dict(zip(("first_stage", "growth"), scheme, strict=True))
    solver = PaperSVRG(
        compiled,
        5,
        alpha,
        RandomBits(np.random.SeedSequence(5)),
        smoothness=4.0,
        step=0.2,
        inner_steps=30,
        **scheme,
    )
    random = RandomBits(np.random.SeedSequence(5))
    expected = paper_scheme(
        X,
        y,
        oracle,
        alpha=alpha,
        rate=0.05,
        draw_steps=lambda: 1 + int(30 * random.doubles(1)[0]),
        weights=weights,
        **scheme,
    )
    fed(solver, X, y, cuts=(11, 12, 300), weights=weights)
    np.testing.assert_allclose(solver.model(), expected, atol=1e-12)
    assert solver.n_stages >= 3


def test_short_stages_of_the_paper_scheme_grow():
    X, y, loss, _ = problem("squared")
    random = RandomBits(np.random.SeedSequence(0))
    given = {"smoothness": 4.0, "step": 0.2, "inner_steps": 1}
    solver, lengths = PaperSVRG(loss, 5, 0.0, random, first_stage=1, growth=1.5, **given), []
    for k in range(60):
        if solver.n_stages == len(lengths):
            lengths.append(solver.stage_rows)
        solver.take(RowBlock(X[k : k + 1], y[k : k + 1], None, 0.0))
    assert lengths == [1, 2, 3, 4, 6, 8, 12, 18]


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (256, 512), (100, 101, 640, 899)])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("spread", [0, 2])
def test_neither_blocks_nor_threads_change_a_bit(cuts, n_threads, loss, spread):
    X, y, loss, _ = problem(loss)
    weights = uneven(len(y), spread) if spread else None
    options = {"constant": 1.0, "weights": weights}
    whole = fed(CombinedSVRG(loss, 6, 0.01, kept_rows=128), X, y, **options)
    cut = CombinedSVRG(loss, 6, 0.01, kept_rows=128, n_threads=n_threads)
    fed(cut, X, y, cuts, **options)
    np.testing.assert_array_equal(cut.model(), whole.model())
    assert cut.risk() == whole.risk()
    assert cut.accesses == whole.accesses


@pytest.mark.parametrize("layout", ["csr", "fortran", "float32"])
def test_storage_makes_no_difference(layout):
    X, y, loss, _ = problem("huber")
    X = np.where(np.abs(X) > 0.3, X, 0).astype(np.float32).astype(np.float64)
    same = {"csr": sparse.csr_array, "fortran": np.asfortranarray}.get(layout, np.float32)(X)
    first, second = (
        fed(CombinedSVRG(loss, 6, 0.0, kept_rows=128), rows, y, (300,), constant=2.0).model()
        for rows in (X, same)
    )
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)


def test_weights_count_like_repetition():
    X, y, loss, _ = problem("logistic", 300)
    weights = np.random.default_rng(1).integers(0, 3, size=300).astype(float)
    weighted = fed(CombinedSVRG(loss, 5, 0.1, kept_rows=1000), X, y, weights=weights)
    rows = np.repeat(np.arange(300), weights.astype(int))
    repeated = fed(CombinedSVRG(loss, 5, 0.1, kept_rows=1000), X[rows], y[rows])
    np.testing.assert_allclose(weighted.model(), repeated.model(), atol=1e-8)


def in_random_order(n):
    return np.random.default_rng(0).permutation(n).astype(np.uint32)


def fed_in_order(solvers, X, targets, order, length, **options):
    """Give solvers the rows of one block in an order, `length` at a time."""
    weights, constant = options.get("weights"), options.get("constant", 0.0)
    blocks = RowBlock(X, targets[0], weights, constant, order).with_all(targets)
    for start in range(0, len(order), length):
        for solver, block in zip(solvers, blocks, strict=True):
            solver.take(block, start, min(start + length, len(order)))
    return solvers


@pytest.mark.parametrize("length", [1, 250, 900])
def test_an_order_is_followed_but_for_rows_that_are_summed(length):
    X, y, loss, _ = problem("squared")
    order = in_random_order(len(y))
    (solver,) = fed_in_order(
        [CombinedSVRG(loss, 5, 0.0, kept_rows=128)], X, [y], order.copy(), length
    )
    for stop, start in ((512, 384), (900, 640)):  # what stages of 256 and 512 rows do not keep
        order[start:stop] = np.sort(order[start:stop])
    expected = fed(CombinedSVRG(loss, 5, 0.0, kept_rows=128), X[order], y[order])
    np.testing.assert_array_equal(solver.model(), expected.model())
    np.testing.assert_array_equal(solver.sample.rows, expected.sample.rows)
    assert solver.risk() == expected.risk()


def test_an_order_is_followed_by_inner_steps():
    X, y, loss, _ = problem("squared")
    order, scheme = in_random_order(len(y)), {"smoothness": 5.0, "step": 0.1, "growth": 2.0}
    first, second = (
        PaperSVRG(
            loss,
            5,
            0.01,
            RandomBits(np.random.SeedSequence(0)),
            first_stage=100,
            inner_steps=150,
            **scheme,
        )
        for _ in range(2)
    )
    fed_in_order([first], X, [y], order.copy(), 70)
    fed(second, X[order], y[order])
    assert first.n_stages == second.n_stages > 1
    np.testing.assert_allclose(first.model(), second.model(), rtol=1e-12)


def test_problems_whose_stages_differ_follow_one_order():
    X, y, loss, _ = problem("logistic", 2000)
    separable = np.sign(X[:, 0])  # whose first stage goes on
    options = {"kept_rows": 64, "most_kept_values": 2000}
    solvers = [CombinedSVRG(loss, 5, 1e-4, **options) for _ in range(2)]
    order = in_random_order(len(y))
    fed_in_order(solvers, X, [y, separable], order, 300)
    assert solvers[0].kept_rows < solvers[1].kept_rows
    for solver, targets in zip(solvers, [y, separable], strict=True):
        alone = fed(CombinedSVRG(loss, 5, 1e-4, **options), X[order], targets[order])
        np.testing.assert_array_equal(solver.model(), alone.model())


def paper_solver(loss):
    random = RandomBits(np.random.SeedSequence(1))
    scheme = {"first_stage": 50, "inner_steps": 40, "growth": 2.0}
    return PaperSVRG(loss, 5, 0.01, random, smoothness=2.0, step=0.1, **scheme)


@pytest.mark.parametrize("stop", [5, 128, 200, 300, 700])
@pytest.mark.parametrize("kind", ["combined", "heavy", "fading", "lengthened", "paper"])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_a_resumed_solver_goes_on_with_the_same_bits(stop, kind, sparse_rows):
    X, y, loss, _ = problem("poisson" if kind == "heavy" else "logistic")
    weights = uneven(len(y), 2) if kind == "heavy" else np.ones(len(y))
    if kind == "fading":
        X[150:, 4] = 0  # only sums tell of this column when later rows are kept
    X = sparse.csr_array(X) if sparse_rows else X

    def make():
        if kind in ("combined", "heavy", "fading"):
            return CombinedSVRG(loss, 5, 0.01, kept_rows=128)
        if kind == "lengthened":
            return CombinedSVRG(loss, 5, 0.0, kept_rows=32, most_kept_values=250 * 5)
        return paper_solver(loss)

    whole = fed(make(), X, y, (stop,), weights)
    first, second = fed(make(), X[:stop], y[:stop], (), weights[:stop]), make()
    second.resume(first.state())
    fed(second, X[stop:], y[stop:], (), weights[stop:])
    np.testing.assert_array_equal(second.model(), whole.model())
    assert second.accesses == whole.accesses
    assert second.risk() == whole.risk()
    if kind == "lengthened":
        assert whole.kept_rows > 32


def test_a_resumed_solver_knows_that_newton_s_method_did_not_converge():
    X, y, loss, _ = problem("smoothed_hinge", 500, 8)
    whole = CombinedSVRG(loss, 8, 0.01, kept_rows=100)
    while whole.n_stages < 3:
        part = slice(whole.n_rows, whole.n_rows + whole.rows_left)
        fed(whole, X[part], y[part])
    assert whole.converged
    whole.converged = False
    resumed = CombinedSVRG(loss, 8, 0.01, kept_rows=100)
    resumed.resume(whole.state())
    assert not resumed.converged
    assert resumed.risk() == whole.risk() == excess_risk.UNKNOWN


@pytest.mark.parametrize("d", [1, 7, 8, 9, 16, 17, 20, 24, 25, 33, 48, 54, 600])
@pytest.mark.parametrize("layout", [np.float64, np.float32, np.asfortranarray, sparse.csr_array])
def test_sums_of_rows_of_any_width(d, layout):
    random = np.random.default_rng(d)
    X, y = random.normal(size=(150, d)).astype(np.float32), np.where(np.arange(150) % 3, 1.0, -1.0)
    w, weights = random.normal(size=d + 1) / np.sqrt(d), random.integers(0, 4, 150).astype(float)
    rows = np.column_stack([X, np.full(150, 2.0)]).astype(float)
    loss = REGISTRY["logistic"].loss()
    gradient = AnchoredGradient(loss, w)
    if layout in (np.float64, np.float32):
        padded = np.full((150, d + 3), np.nan)  # values beside the rows are not read
        padded[:, 1 : d + 1] = X
        block = RowBlock(padded.astype(layout)[:, 1 : d + 1], y, weights, 2.0)
    else:
        block = RowBlock(layout(X.astype(float)), y, weights, 2.0)
    for start, stop in itertools.pairwise([0, 3, 77, 150]):
        gradient.add(block, start, stop)
    slopes = weights * loss.derivatives(rows @ w, y)
    np.testing.assert_allclose(gradient.mean, slopes @ rows / weights.sum(), rtol=0, atol=1e-13)
    np.testing.assert_allclose(gradient.squares, weights @ rows**2, rtol=1e-13)
    losses = loss.values(rows[:32] @ w, y[:32])
    assert gradient.mean_loss == pytest.approx(np.average(losses, weights=weights[:32]))


@pytest.mark.parametrize("d", [1, 7, 8, 9, 16, 20, 54, 130])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_gram_of_kept_rows(n, d):
    random = np.random.default_rng(d)
    rows, weights = random.normal(size=(n, d)), random.random(n)
    found = KeptRows(rows).gram(weights)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, rows.T * weights @ rows, rtol=0, atol=1e-13 * n)


def test_a_single_column_may_have_any_stride():
    x = np.arange(1.0, 101.0)
    assert x[:, np.newaxis].strides == (8, 0)
    found = KeptRows(x[:, np.newaxis]).gram(np.ones(100))
    np.testing.assert_allclose(found, [[x @ x]])


@pytest.mark.parametrize("layout", [np.ascontiguousarray, sparse.csr_array])
@pytest.mark.parametrize("d", [1, 3, 4, 5, 20, 54])
def test_an_evaluation_of_kept_rows(layout, d):
    random = np.random.default_rng(d)
    X = np.where(random.random((150, d)) < 0.7, random.normal(size=(150, d)), 0)
    v, shares = random.normal(size=d), random.random(150)
    y, loss = np.sign(random.normal(size=150)), MARGIN_LOSSES["logistic"].loss()
    kept = KeptRows(layout(X))
    evaluation = kept.evaluate(loss, v, y, shares, gram=True)
    curvatures = shares * loss.second_derivatives(X @ v, y)
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(evaluation.scores, X @ v, **close)
    np.testing.assert_allclose(evaluation.losses, np.logaddexp(0, -y * (X @ v)), **close)
    np.testing.assert_allclose(evaluation.slopes, -y * expit(-y * (X @ v)), **close)
    np.testing.assert_allclose(
        evaluation.gradient, (shares * loss.derivatives(X @ v, y)) @ X, **close
    )
    np.testing.assert_allclose(evaluation.squares, shares @ X**2, **close)
    np.testing.assert_allclose(evaluation.curvatures, curvatures, **close)
    np.testing.assert_allclose(evaluation.gram, X.T * curvatures @ X, **close)
    product = kept.products(curvatures, v[:, np.newaxis])[:, 0]
    np.testing.assert_allclose(product, evaluation.gram @ v, **close)
    assert kept.evaluate(loss, v, y, shares).gram is None


@pytest.mark.parametrize("layout", [np.ascontiguousarray, sparse.csr_array])
@pytest.mark.parametrize("n_vectors", [1, 3, 4, 16, 21])
def test_products_of_kept_rows_with_several_vectors(layout, n_vectors):
    random = np.random.default_rng(n_vectors)
    X = np.where(random.random((90, 30)) < 0.2, random.normal(size=(90, 30)), 0)
    vectors, curvatures = random.normal(size=(30, n_vectors)), random.random(90)
    found = KeptRows(layout(X)).products(curvatures, vectors)
    np.testing.assert_allclose(found, X.T * curvatures @ X @ vectors, rtol=0, atol=1e-12)


def test_probes_are_solved_in_groups(monkeypatch):
    """Of many weights they would take more memory than the rows; the estimate stays the same."""
    random = np.random.default_rng(0)
    d = inner_problem.MOST_WEIGHTS + 1
    rows = KeptRows(random.normal(size=(2 * d, d)))
    hessian = inner_problem.Hessian(rows, np.ones(2 * d), 0.5)
    degrees = hessian.degrees(5)
    exact = np.trace(
        rows.rows @ np.linalg.solve(rows.rows.T @ rows.rows + 0.5 * np.eye(d), rows.rows.T)
    )
    assert degrees == pytest.approx(exact, rel=0.05)
    monkeypatch.setattr(inner_problem, "MOST_PROBED", 2 * d)
    assert hessian.degrees(5) == pytest.approx(degrees, rel=1e-6)


def test_curvatures_whose_products_would_be_subnormal_are_0():
    scores = np.array([600.0, 680.0, 740.0])
    loss = MARGIN_LOSSES["logistic"].loss()
    evaluation = KeptRows(scores[:, np.newaxis]).evaluate(loss, np.ones(1), np.ones(3), np.ones(3))
    assert (loss.second_derivatives(scores, np.ones(3)) > 0).all()
    np.testing.assert_array_equal(evaluation.curvatures > 0, [True, False, False])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("chosen", [slice(0, 0), slice(3, 9), np.array([7, 2, 2])])
def test_sparse_rows_are_kept_as_dense_ones(chosen, index, dtype):
    random = np.random.default_rng(0)
    X = np.where(random.random((12, 6)) < 0.4, random.normal(size=(12, 6)), 0).astype(dtype)
    expected = np.column_stack([X[chosen], np.full(len(X[chosen]), 2.5)])
    sparse_X = sparse.csr_array(X)
    sparse_X.indices, sparse_X.indptr = (
        a.astype(index) for a in (sparse_X.indices, sparse_X.indptr)
    )
    rows = copied_sparse(Matrix(sparse_X, constant=2.5), chosen)
    rows.check_format(full_check=True)
    assert rows.dtype == np.float64 and rows.has_sorted_indices and rows.indices.dtype == np.int32
    np.testing.assert_array_equal(rows.toarray(), expected)
    np.testing.assert_array_equal(copied_dense(X, chosen, 2.5), expected)


def test_problems_share_copies_of_rows():
    X, y, *_ = problem("logistic", 40)
    whole = RowBlock(X, y, None, 1.0, np.arange(40, dtype=np.uint32))
    first, second = whole.with_all([y, -y])
    ours, theirs = first.kept(10, 15), second.kept(10, 15)
    assert ours.rows is theirs.rows
    np.testing.assert_array_equal(ours.rows[:, :-1], X[10:15])
    np.testing.assert_array_equal(ours.targets, -theirs.targets)


@pytest.mark.parametrize("kept", [100, 300, None], ids=["100", "300", "paper"])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_copy_leaves_its_original_as_it_is(kept, loss):
    X, y, loss, _ = problem(loss)

    def make():
        return CombinedSVRG(loss, 5, 0.01, kept_rows=kept) if kept else paper_solver(loss)

    solver = fed(make(), X[:250], y[:250])
    before = solver.model()
    other = fed(solver.copy(), X[250:], y[250:])
    np.testing.assert_array_equal(solver.model(), before)
    assert (solver.n_rows, other.n_rows) == (250, 900)
    whole = fed(make(), X, y)
    for one in (other, fed(solver, X[250:], y[250:])):
        np.testing.assert_array_equal(one.model(), whole.model())


def test_accesses_are_counted_when_a_stage_ends():
    X, y, loss, _ = problem("squared", 500)
    X = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    solver = fed(CombinedSVRG(loss, 5, 0.1, kept_rows=100), X, y, (10, 333))
    assert solver.n_stages == 3  # of 100, 100 and 200 rows
    assert solver.accesses == X[:400].nnz


def test_intervals_count_what_kept_rows_do_not_know():
    """20 of them for every weight: the model's excess risk is 1.08 times the minimiser's."""
    d, n, loss = 20, 10_000, REGISTRY["squared"].loss()
    best, ratios, inside = np.ones(d) / np.sqrt(d), [], 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        X = random.normal(size=(n, d))
        solver = CombinedSVRG(loss, d, 0.0, kept_rows=400)
        fed(solver, X, X @ best + random.normal(size=n))
        excess, risk = np.sum((solver.model() - best) ** 2) / 2, solver.risk()
        assert risk.excess_risk > 1.04 * risk.sigma_squared / n
        ratios.append(excess / risk.excess_risk)
        inside += risk.interval[0] <= excess <= risk.interval[1]
    assert abs(np.mean(ratios) - 1) < 0.05  # three standard errors
    assert inside >= 0.93 * len(ratios)


def test_in_mid_stage_the_risk_counts_what_the_last_step_does_not_know():
    X, y, loss, _ = problem("logistic", 1500)
    solver = fed(CombinedSVRG(loss, 5, 0.01, kept_rows=200), X, y)
    risk, lag = solver.risk(), solver.found.lags.sum()
    assert lag > solver.lags.sum()
    assert risk.excess_risk == pytest.approx((1 + lag) * risk.sigma_squared / 1500)


@pytest.mark.parametrize(("degrees", "seed"), [(1.5, 14), (2, 4), (3, 32)])
def test_few_rows_of_heavy_tails_do_not_mend_a_step(degrees, seed):
    """With all that kept rows say these had up to 60 times the excess risk."""
    random, loss = np.random.default_rng(seed), REGISTRY["squared"].loss()
    X = random.standard_t(degrees, size=(4000, 10))
    y = X @ np.ones(10) / np.sqrt(10) + random.normal(size=4000)
    model = fed(CombinedSVRG(loss, 10, 0.0, kept_rows=200), X, y).model()
    assert mean_loss(loss, X, y, None, model) < 1.1 * loss_of_all(loss, X, y)


def test_nothing_is_known_of_a_penalty_that_has_not_faded():
    X, y, loss, _ = problem("squared", 3000)
    solver = fed(CombinedSVRG(loss, 5, 1e-3, kept_rows=1000), X, y)
    assert np.isfinite(solver.risk().excess_risk)
    solver.ridge = np.full(5, 2e-3 * 3000)
    assert np.isnan(solver.risk().excess_risk) and solver.risk().interval == (0, np.inf)
    solver.ridge /= 4
    assert np.isfinite(solver.risk().excess_risk)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_excess_risk_is_near_that_of_the_empirical_risk_minimiser(kind):
    """Over 40 streams of 6 000 rows; the interval covers the excess risk nearly always."""
    d, n, kept = 8, 6_000, 600
    scales = np.geomspace(0.1, 1, d)
    ours, erm, inside = [], [], 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        best = random.normal(size=d) / 2
        X = random.normal(size=(n, d)) * scales
        if kind == "squared":
            y = X @ best + random.normal(size=n)
            curvature, loss = np.ones(n), REGISTRY["squared"].loss()
        else:
            p = 1 / (1 + np.exp(-X @ best))
            y, curvature = np.where(random.random(n) < p, 1.0, -1.0), p * (1 - p)
            loss = REGISTRY["logistic"].loss()
        hessian = (X * curvature[:, np.newaxis]).T @ X / n

        def excess(w, hessian=hessian, best=best):
            return (w - best) @ hessian @ (w - best) / 2

        solver = fed(CombinedSVRG(loss, d, 0.0, kept_rows=kept), X, y, range(1000, n, 1000))
        ours.append(excess(solver.model()))
        erm.append(excess(fed(CombinedSVRG(loss, d, 0.0, kept_rows=n), X, y).model()))
        low, high = solver.risk().interval
        inside += low <= ours[-1] <= high
    assert np.mean(erm) / np.mean(ours) > 0.9
    assert inside >= 34  # of 40; 38 expected
    assert solver.risk().excess_risk == pytest.approx(np.mean(ours), rel=0.4)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_the_stream_may_end_anywhere(loss):
    """At every length, around the ends of stages too, the risk is near that of the minimiser."""
    d, kept, alpha, repetitions = 5, 100, 0.1, 12
    lengths = [1, 2, 3, 10, 50]
    lengths += [end + k for end in (kept, 2 * kept, 4 * kept) for k in (-2, -1, 0, 1, 2, 10, 50)]
    X, y, compiled, oracle = problem(loss, 20_000 + repetitions * lengths[-1], d)
    tests, targets = X[:20_000], y[:20_000]

    def risk(w):
        return oracle.value(tests @ w, targets).mean() + alpha / 2 * w @ w

    best = risk(fed(CombinedSVRG(compiled, d, alpha, kept_rows=20_000), tests, targets).model())
    ours, erm = np.zeros(len(lengths)), np.zeros(len(lengths))
    for start in range(20_000, len(y), lengths[-1]):
        solver = CombinedSVRG(compiled, d, alpha, kept_rows=kept)
        for k, (before, n) in enumerate(itertools.pairwise([0, *lengths])):
            fed(solver, X[start + before : start + n], y[start + before : start + n])
            rows = slice(start, start + n)
            whole = fed(CombinedSVRG(compiled, d, alpha, kept_rows=n), X[rows], y[rows])
            ours[k] += risk(solver.model()) - best
            erm[k] += risk(whole.model()) - best
        assert solver.n_stages == 3
    assert (ours < 1.2 * erm).all(), (ours / erm).round(3)


def hard_classes(n, d):
    """Rows of one value each, in columns of very different scales; labels nearly without noise."""
    random = np.random.default_rng(0)
    places = (d * random.random(n) ** 2).astype(int)
    X = np.zeros((n, d))
    X[np.arange(n), places] = np.geomspace(1e-3, 1e2, d)[places] * random.uniform(0.5, 2, n)
    return X, np.sign(random.normal(size=d)[places] + 0.01 * random.logistic(size=n))


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "squared_hinge"])
@pytest.mark.parametrize("n", [401, 450, 600, 799, 800, 801, 1200, 1600, 1601, 3000])
def test_the_stream_may_end_anywhere_where_hessians_say_little(loss, n):
    """A last step of Newton's method that nobody looks at would end far off on these rows."""
    d, alpha = 20, 0.01
    X, y = (part[:n] for part in hard_classes(3000, d))
    compiled, oracle = REGISTRY[loss].loss(), ORACLES[loss]()

    def objective(kept):
        w = fed(CombinedSVRG(compiled, d, alpha, kept_rows=kept), X, y).model()
        return oracle.value(X @ w, y).mean() + alpha / 2 * w @ w

    assert objective(400) - objective(n) <= 0.01 * (oracle.value(0 * y, y).mean() - objective(n))


def moved(X, origins, units):
    """The same rows with other origins and units, and a constant column."""
    return np.column_stack([(X + origins) * units, np.ones(len(X))])


@pytest.mark.parametrize(("origin", "unit"), [(1e4, 1.0), (150.0, 1e3), (-1e3, 1e5)])
@pytest.mark.parametrize("loss", SMOOTH)
def test_origins_and_units_of_columns_make_no_difference(loss, origin, unit):
    X, y, compiled, oracle = problem(loss)

    def risk(rows):
        model = fed(CombinedSVRG(compiled, 6, 0.0, kept_rows=900), rows, y).model()
        return oracle.value(rows @ model, y).mean()

    assert risk(moved(X, origin, unit)) == pytest.approx(risk(moved(X, 0, 1)), rel=1e-9)


@pytest.mark.parametrize("loss", SMOOTH)
def test_stages_far_from_the_origin_are_not_held_back(loss):
    """There the squares of a sample and a stream differ, by chance, by more than the variance."""
    compiled, n = REGISTRY[loss].loss(), 12_800
    ours, erm = [], []
    for seed in range(10):
        X, y, _, oracle = problem(loss, 2 * n, seed=seed)
        origins = 100 * np.random.default_rng(seed).normal(size=5)
        far = moved(X, origins, np.geomspace(1e-3, 1e3, 5))
        (rows, others), (targets, unseen) = np.split(far, 2), np.split(y, 2)

        def risk(kept, rows=rows, targets=targets, others=others, unseen=unseen, oracle=oracle):
            model = fed(CombinedSVRG(compiled, 6, 0.0, kept_rows=kept), rows, targets).model()
            return oracle.value(others @ model, unseen).mean()

        best = fed(CombinedSVRG(compiled, 6, 0.0, kept_rows=n), others, unseen).model()
        least = oracle.value(others @ best, unseen).mean()
        ours.append(risk(400) - least)
        erm.append(risk(n) - least)
    assert np.mean(erm) > 0.8 * np.mean(ours)


@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "squared_hinge"])
def test_more_rows_are_kept_of_classes_that_are_nearly_separable(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 8))
    y = np.sign(X[:, 0] + 0.05 * random.normal(size=3000))
    compiled, oracle = REGISTRY[loss].loss(), ORACLES[loss]()

    def solver(n, kept_rows, most_kept_rows=0):
        limits = {"kept_rows": kept_rows, "most_kept_values": 8 * most_kept_rows}
        return fed(CombinedSVRG(compiled, 8, 1e-6, **limits), X[:n], y[:n], (50, 150))

    def risk(solver):
        return oracle.value(X @ solver.model(), y).mean()

    np.testing.assert_allclose(
        solver(400, 100, 5000).model(), solver(400, 400).model(), rtol=1e-6, atol=1e-9
    )
    assert risk(solver(3000, 100, 5000)) < 1.1 * risk(solver(3000, 3000))
    assert risk(solver(3000, 100)) > 2 * risk(solver(3000, 3000))
    limited = solver(3000, 100, 300)
    assert limited.kept_rows == 300  # 100, 200, and no more than this
    assert limited.n_stages == 4  # that end at 300, 600, 1200 and 2400 rows
    assert solver(3000, 100, 210).kept_rows == 200  # ten more are not worth an inner problem


def mean_loss(loss, X, y, weights, model):
    return np.average(loss.values(X @ model, y), weights=weights)


def loss_of_all(loss, X, y, weights=None):
    """The least weighted mean loss."""
    alone = fed(CombinedSVRG(loss, X.shape[1], 0.0, kept_rows=len(y)), X, y, weights=weights)
    return mean_loss(loss, X, y, weights, alone.model())


@pytest.mark.parametrize("seed", range(3))
def test_counts_with_heavy_tails_move_no_anchor_away(seed):
    random, loss = np.random.default_rng(seed), REGISTRY["poisson"].loss()
    X = random.standard_t(3, size=(20_000, 5))
    score = X @ random.normal(size=5)
    y = random.poisson(np.exp(6 / score.max() * score)).astype(float)
    model = fed(CombinedSVRG(loss, 5, 0.0, kept_rows=1000), X, y, (2500, 11_000)).model()
    none = mean_loss(loss, X, y, None, np.zeros(5))
    least = loss_of_all(loss, X, y)
    assert mean_loss(loss, X, y, None, model) < least + 0.01 * (none - least)


@pytest.mark.parametrize("kept_rows", [250, 500])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_few_rows_of_large_weight_are_all_taken_into_account(kept_rows, seed, loss):
    random = np.random.default_rng(seed)
    X, weights = random.normal(size=(5000, 10)), np.exp(3 * random.normal(size=5000))
    y = X @ random.normal(size=10) / 2 + random.logistic(size=5000)
    y = np.sign(y) if loss == "logistic" else y
    loss = REGISTRY[loss].loss()
    solver = CombinedSVRG(loss, 10, 0.0, kept_rows=kept_rows)
    model = fed(solver, X, y, (600, 3000), weights).model()
    none, least = mean_loss(loss, X, y, weights, np.zeros(10)), loss_of_all(loss, X, y, weights)
    assert mean_loss(loss, X, y, weights, model) < least + 0.1 * (none - least)


@pytest.mark.parametrize("cuts", [(), range(50, 3000, 50)], ids=["whole", "cut"])
def test_memory_is_bounded_where_weights_grow(cuts):
    X, y, loss, _ = problem("logistic", 3000)
    solver = CombinedSVRG(loss, 5, 0.0, kept_rows=100)
    fed(solver, X, y, cuts, weights=1.01 ** np.arange(3000))
    assert len(solver.sample.targets) <= 300
    assert sum(len(sample.targets) for sample in solver.heavy.samples) <= 100
    assert np.isfinite(solver.model()).all()


def test_heavy_rows_are_the_heaviest_wherever_blocks_are_cut():
    random = np.random.default_rng(0)
    X, y, weights = random.normal(size=(200, 2)), np.zeros(200), random.integers(1, 40, 200) + 0.0
    for cuts in ((), (1, 2, 3), range(0, 200, 7)):
        heavy = HeavyRows(False, 10, bound=5.0)
        for start, stop in itertools.pairwise((0, *cuts, 200)):
            heavy.take(RowBlock(X, y, weights, 0.0), start, stop)
        expected = np.sort(weights)[-11]  # of equal weights all or none
        assert heavy.bound == expected
        np.testing.assert_array_equal(
            np.concatenate([sample.rows for sample in heavy.samples]), X[weights > expected]
        )


def test_rows_below_a_bound_that_rises_are_heavy_no_more():
    heavy = HeavyRows(False, 10, bound=1.0)
    for weights in ([2.0, 3.0, 0.5], [4.0], [5.0, 6.0]):
        n = len(weights)
        heavy.add(Sample(np.zeros((n, 1)), np.zeros(n), np.array(weights)))
    for bound, left in ((0.5, [2, 3, 4, 5, 6]), (3.0, [4, 5, 6]), (4.0, [5, 6])):
        heavy.rise_to(bound)
        assert np.concatenate([sample.weights for sample in heavy.samples]).tolist() == left
    assert heavy.bound == 4


def test_steps_are_shortened_where_losses_grow():
    random, loss = np.random.default_rng(0), REGISTRY["poisson"].loss()
    X = random.normal(size=(500, 2))
    y = random.poisson(np.exp(X[:, 0])).astype(float)
    anchor = np.array([1.0, 0.0])
    sample = Sample(X, y, np.ones(500))
    inner = LaterStage(loss, sample, 0.0, anchor, np.array([-30.0, 0.0]), np.ones(2))
    far = inner.minimise()
    near = inner.held_back(far)
    values = [loss.values(X @ v, y).mean() for v in (anchor, near, far)]
    assert 0 < inner.taken < 1
    assert values[2] > 5 > values[1]
    np.testing.assert_allclose(near, anchor + inner.taken * (far - anchor))


def test_steps_that_run_out_are_not_said_to_be_enough(monkeypatch):
    X, y, loss, _ = problem("logistic", 200)
    sample = Sample(X, y, np.ones(200))
    for most, enough in ((1, False), (50, True)):
        monkeypatch.setattr(inner_problem, "MAX_CORRECTED_STEPS", most)
        inner = LaterStage(loss, sample, 0.1, np.zeros(5), np.full(5, 0.1), np.ones(5))
        inner.minimise()
        assert inner.converged == enough


def test_a_model_is_solved_once_for_the_same_rows(monkeypatch):
    calls, minimise = [], inner_problem.InnerProblem.minimise

    def counted(self, *limits):
        calls.append(limits)
        return minimise(self, *limits)

    monkeypatch.setattr(inner_problem.InnerProblem, "minimise", counted)
    X, y, loss, _ = problem("logistic")
    solver = fed(CombinedSVRG(loss, 5, 0.01, kept_rows=700), X[:600], y[:600])
    model, _ = solver.model(), solver.risk()
    assert solver.model() is model and len(calls) == 1
    fed(solver, X[600:650], y[600:650])
    assert not np.array_equal(solver.model(), model) and len(calls) == 2


@pytest.mark.parametrize("loss", SMOOTH)
def test_few_rows_are_kept_where_they_stand_for_others(loss):
    X, y, compiled, _ = problem(loss, 3000)
    solver = fed(CombinedSVRG(compiled, 5, 0.0, kept_rows=400, most_kept_values=5 * 3000), X, y)
    assert solver.kept_rows == 400


def test_rows_that_the_weights_would_follow_are_not_solved_for(monkeypatch):
    """Where more rows can be kept, these come first: 600 weights need nine thousand."""
    sizes, minimise = [], InnerProblem.minimise

    def counted(self, *limits):
        sizes.append(len(self.targets))
        return minimise(self, *limits)

    monkeypatch.setattr(InnerProblem, "minimise", counted)
    X, y = wide_problem("squared", 40_000)
    solver = CombinedSVRG(
        REGISTRY["squared"].loss(), 600, 0.0, kept_rows=700, most_kept_values=SPARSE_VALUES * X.nnz
    )
    fed(solver, X, y)
    assert solver.n_stages == 1
    assert sizes[-1] == solver.kept_rows and min(sizes) >= 9000


def test_first_rows_tell_how_many_more_are_needed():
    """Fifteen for each degree of freedom: nearly as many as there are rows, so 2^4 as many."""
    X, y = wide_problem("squared", 4000)
    loss, values = REGISTRY["squared"].loss(), SPARSE_VALUES * X.nnz
    solver = CombinedSVRG(loss, 600, 0.0, kept_rows=100, most_kept_values=values)
    fed(solver, X[:100], y[:100])
    assert solver.n_stages == 0 and solver.kept_rows == 1600
    few = CombinedSVRG(loss, 600, 0.0, kept_rows=100, most_kept_values=values / 5)
    fed(few, X[:100], y[:100])
    assert few.n_stages == 0 and few.kept_rows == pytest.approx(800, rel=0.1)


def wide_problem(loss, n, d=600, seed=0):
    """Sparse rows of about six values, and targets with much noise."""
    random = np.random.default_rng(seed)
    draw = {"density": 6 / d, "rng": random, "data_sampler": lambda size: random.normal(size=size)}
    X = sparse.random_array((n, d), format="csr", **draw)
    score = X @ random.normal(size=d) / 2
    if loss in MARGIN_LOSSES:
        return X, np.where(score + random.logistic(size=n) > 0, 1.0, -1.0)
    if loss in COUNT_LOSSES:
        return X, random.poisson(np.exp(np.minimum(score, 3))).astype(float)
    return X, score + random.normal(size=n)


@pytest.mark.parametrize("origin", [0.0, 30.0])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_units_of_wide_rows_make_no_difference(loss, origin, monkeypatch):
    monkeypatch.setattr(inner_problem, "MAX_NEWTON_STEPS", 60)
    random = np.random.default_rng(0)
    n, d = 3000, inner_problem.MOST_WEIGHTS + 8
    X = random.normal(size=(n, d)) + origin * random.normal(size=d)
    score = (X - X.mean(axis=0)) @ random.normal(size=d) / np.sqrt(d)
    y = score + random.logistic(size=n)
    y = np.sign(y) if loss in MARGIN_LOSSES else y
    compiled, oracle = REGISTRY[loss].loss(), ORACLES[loss]()

    def risk(units):
        rows = np.column_stack([X * units, np.ones(n)])
        solver = fed(CombinedSVRG(compiled, d + 1, 0.0, kept_rows=n), rows, y)
        model = solver.model()
        assert solver.converged
        return oracle.value(rows @ model, y).mean()

    assert risk(np.geomspace(1e-3, 1e3, d)) == pytest.approx(risk(np.ones(d)), rel=1e-6)


@pytest.mark.parametrize("loss", SMOOTH)
def test_first_rows_that_are_too_few_make_no_model_worse_than_none(loss):
    """Their minimiser is: it follows every row, and later stages would begin far off."""
    n, kept = 3000, 700
    X, y = wide_problem(loss, 2 * n)
    compiled, oracle = REGISTRY[loss].loss(), ORACLES[loss]()

    def risk(w):
        return oracle.value(X[n:] @ w, y[n:]).mean()

    solver = fed(CombinedSVRG(compiled, 600, 0.0, kept_rows=kept), X[:kept], y[:kept])
    assert solver.n_stages == 1
    assert risk(solver.model()) > 1.05 * risk(0 * solver.anchor)  # of these rows alone
    resumed = CombinedSVRG(compiled, 600, 0.0, kept_rows=kept)
    resumed.resume(solver.state())
    for one in (solver, resumed):
        fed(one, X[kept:n], y[kept:n])
    assert risk(solver.model()) < risk(0 * solver.anchor)
    np.testing.assert_array_equal(resumed.model(), solver.model())


@pytest.mark.parametrize("small", [0.0, 1e-13, 1.4e-12, 1e-11, 1e-6, 0.5])
@pytest.mark.parametrize("allowed", [3.0, 5.9, 6.1, 10.5])
def test_a_shift_leaves_the_degrees_of_freedom_that_are_allowed(small, allowed):
    """Six eigenvalues are small; just above rounding, they count half there, and no root exists."""
    pairs = np.kron(np.eye(6), [[1.0, 1 - small], [1 - small, 1.0]])
    none = KeptRows(np.zeros((1, 12)))
    shift = inner_problem.Hessian(none, np.zeros(1), np.zeros(12), pairs).shift_for_degrees(allowed)
    shift += 5e-12  # what is less is rounding
    assert 6 * ((2 - small) / (2 - small + shift) + small / (small + shift)) <= allowed


@pytest.mark.parametrize(("kept", "least"), [(1200, 0.8), (4000, 0.9)])
def test_a_long_stream_makes_up_for_few_kept_rows(kept, least):
    """The minimiser's excess risk by the model's: with stages as long as all before .05 and .52."""
    random = np.random.default_rng(0)
    d, n = 600, 60_000
    X = sparse.random_array((n, d), density=0.02, rng=random, format="csr")
    X.data = random.normal(size=X.nnz)
    best = random.normal(size=d)
    y = X @ best + random.normal(size=n)
    solver = fed(CombinedSVRG(REGISTRY["squared"].loss(), d, 0.0, kept_rows=kept), X, y)
    minimiser = np.linalg.solve((X.T @ X).toarray(), X.T @ y)
    excess = [np.sum((v - best) ** 2) for v in (minimiser, solver.model())]  # features are alike
    assert excess[0] >= least * excess[1]


@pytest.mark.parametrize("judges", [1500, 600])
@pytest.mark.parametrize(
    ("noise", "good"), [(0.0, FREE), (1.0, Restraint(1 / 4)), (4.0, Restraint(1 / 10))]
)
def test_a_first_model_has_a_restraint_that_is_good_for_others(noise, good, judges, monkeypatch):
    monkeypatch.setattr(streaming_svrg, "JUDGES", judges)
    random = np.random.default_rng(0)
    d, kept, n = 600, 1500, 6000
    X = sparse.random_array((n, d), density=0.02, rng=random, format="csr")
    X.data = random.normal(size=X.nnz)
    scores = X @ random.normal(size=d)
    y = scores + noise * scores.std() * random.normal(size=n)

    def risk(restraint=None):
        if restraint is not None:
            monkeypatch.setattr(CombinedSVRG, "_best_restraint", lambda _: restraint)
        solver = CombinedSVRG(REGISTRY["squared"].loss(), d, 0.0, kept_rows=kept)
        anchor = fed(solver, X[:kept], y[:kept]).anchor
        return np.mean((X[kept:] @ anchor - y[kept:]) ** 2)

    chosen, risks = risk(), {restraint: risk(restraint) for restraint in (FREE, *OWN, *ALIKE)}
    assert chosen < 1.03 * min(risks.values())
    assert chosen == risks[good] or judges < kept  # fewer rows bear others
    assert max(risks.values()) > 1.2 * chosen


def rare_columns(n, d, per_row=10, seed=0):
    """Rows of words by Zipf's law, and classes by a logistic model of all of them."""
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, d + 1) ** 1.1
    words = random.choice(d, n * per_row, p=frequency / frequency.sum()).astype(np.int32)
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((np.full(n * per_row, per_row**-0.5), words, starts), shape=(n, d))
    X.sum_duplicates()
    score = 3 * X @ random.normal(size=d)
    return X, np.where(score + random.logistic(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ["logistic", "smoothed_hinge", "squared_hinge"])
def test_weights_of_rare_columns_stay_where_their_rows_are_flat(loss, seed):
    """Kept rows with such a column are few, and have no curvature once they are far away."""
    d, n, kept = 3000, 8000, 1000
    X, y = rare_columns(2 * n, d, seed=seed)
    compiled, oracle = REGISTRY[loss].loss(), ORACLES[loss]()
    model = fed(CombinedSVRG(compiled, d, 0.0, kept_rows=kept), X[:n], y[:n]).model()
    losses = [oracle.value(X[n:] @ v, y[n:]).mean() for v in (model, 0 * model)]
    assert losses[0] < 0.8 * losses[1]


@pytest.mark.parametrize("last", [None, 0.0], ids=["alike", "free intercept"])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_columns_that_kept_rows_lack_change_nothing(alpha, last, monkeypatch):
    d, n, kept = 3000, 5000, 1000
    X, y = rare_columns(n, d)
    assert 0 < np.count_nonzero(X[:kept].sum(axis=0)) < d / 2 < np.count_nonzero(X.sum(axis=0))
    constant = 0.0 if last is None else 1.0
    alphas = alpha if last is None else np.append(np.full(d, alpha), last)

    def solved():
        solver = CombinedSVRG(
            REGISTRY["logistic"].loss(), d + (last is not None), alphas, kept_rows=kept
        )
        for start, stop in ((0, kept // 2), (kept // 2, kept), (kept, n)):  # within, at the end of
            fed(solver, X[start:stop], y[start:stop], constant=constant)  # a stage, and beyond
            yield solver.model(), np.broadcast_to(solver.ridge, solver.prior.shape), solver.prior

    found = list(solved())
    monkeypatch.setattr(streaming_svrg, "frame_of", frames.Centred)
    for some, all_columns in zip(found, solved(), strict=True):
        for values, expected in zip(some, all_columns, strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-7 * scale)


def test_a_limit_is_no_less_than_that_of_rows_of_mean_curvature():
    random, n, d = np.random.default_rng(0), 300, 100
    X, y = random.choice([-1.0, 1.0], size=(n, d)), random.choice([-1.0, 1.0], n)
    X[:, 0] = 0.0
    X[:3, 0], anchor = 1.0, np.zeros(d)
    anchor[0] = 40.0  # where the column's rows are flat
    sample, loss = Sample(X, y, np.ones(n)), REGISTRY["logistic"].loss()
    inner = LaterStage(loss, sample, 0.0, anchor, np.zeros(d), np.mean(X**2, axis=0))
    assert inner.first.gram[0, 0] < 1e-10
    assert inner.limit[0] == pytest.approx(inner.limit[1] * 3 / n, rel=0.02)


def test_a_penalty_alike_in_all_columns_fades():
    d, n, kept = 3000, 8000, 1000
    X, y = rare_columns(n, d)
    loss, alpha = REGISTRY["logistic"].loss(), 1e-9
    solver = fed(CombinedSVRG(loss, d, alpha, kept_rows=kept), X[:kept], y[:kept])
    (ridge,) = np.unique(solver.ridge)  # no column is constant
    assert ridge > 100 * kept * alpha
    # the mean gradient of the rows so far is that of a minimiser with the penalty
    np.testing.assert_allclose(solver.prior, -ridge / kept * solver.anchor, rtol=1e-6)
    resumed = CombinedSVRG(loss, d, alpha, kept_rows=kept)
    resumed.resume(solver.state())
    for one in (solver, resumed):
        fed(one, X[kept:], y[kept:])
        np.testing.assert_array_equal(one.ridge, ridge)
        np.testing.assert_array_equal(one._penalty, ridge / n)
    np.testing.assert_array_equal(resumed.model(), solver.model())
    solver.ridge[:] = alpha * n / 2
    np.testing.assert_array_equal(solver._penalty, alpha)


def test_a_stream_of_rare_columns_may_end_in_its_first_stage():
    """Where its rows leave too much freedom, the model has a penalty that suits rows held out."""
    d, n, kept = 4000, 1500, 500
    X, y = rare_columns(3 * n, d)
    compiled, oracle = REGISTRY["logistic"].loss(), ORACLES["logistic"]()

    def solver():
        return CombinedSVRG(compiled, d, 0.0, kept_rows=kept, most_kept_values=10**6)

    def risk(weights):
        return oracle.value(X[n:] @ weights, y[n:]).mean()

    asked, whole = solver(), fed(solver(), X[:n], y[:n])
    for start in range(0, n, 300):
        fed(asked, X[start : start + 300], y[start : start + 300])
        asked.model()  # makes no difference
    assert whole.n_stages == 0
    np.testing.assert_array_equal(asked.model(), whole.model())
    whole.rows_needed, whole.found = 0.0, None
    assert risk(asked.model()) < np.log(2) < risk(whole.model())  # the latter without a penalty


@pytest.mark.parametrize("allowed", [3, 10, 29, 31, 500])
def test_a_shift_by_mean_eigenvalues_is_large_enough(allowed):
    """Of 600 features 30 are in the rows; the shift is no larger than their mean asks for."""
    random = np.random.default_rng(0)
    X = np.zeros((200, 600))
    X[:, :30] = random.normal(size=(200, 30)) @ random.normal(size=(30, 30))
    hessian = inner_problem.Hessian(KeptRows(sparse.csr_array(X)), np.full(200, 0.005), 0.0)
    assert hessian.matrix is None
    shift = hessian.shift_for_degrees(allowed)
    scaled = (X.T * 0.005 @ X) / hessian.units / hessian.units[:, np.newaxis]
    eigenvalues = np.linalg.eigvalsh(scaled)[-30:]
    assert np.sum(eigenvalues / (eigenvalues + shift)) <= allowed * (1 + 1e-9)
    assert shift == pytest.approx(
        max(0, np.sum(hessian.squares / hessian.units**2) * (1 / allowed - 1 / 30))
    )


@pytest.mark.parametrize("n", [1000, 95_403, 200_000])
def test_a_constant_feature_is_told_from_what_rounding_leaves_of_it(n):
    """With an error of the sums of many rows for its unit it would be all that is solved for."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=n) + 1e4, np.ones(n), np.zeros(n)])
    shares = np.full(n, 0.25 / n)
    squares, variances = KeptRows(X).variances(shares)
    np.testing.assert_allclose(squares, shares @ X**2)
    assert variances[0] == pytest.approx(0.25, rel=0.1)
    assert list(variances[1:]) == [0, 0]


def test_a_step_whose_problem_was_not_solved_is_not_made(monkeypatch):
    X, y, loss, _ = problem("logistic", 600)
    solver = fed(CombinedSVRG(loss, 5, 0.0, kept_rows=300), X[:300], y[:300])
    anchor = solver.anchor
    monkeypatch.setattr(inner_problem, "MAX_CORRECTED_STEPS", 0)
    monkeypatch.setattr(inner_problem, "EXACT", 0.0)
    fed(solver, X[300:], y[300:])
    assert solver.n_stages == 2
    np.testing.assert_array_equal(solver.model(), anchor)
    # what the rows say is not lost
    slope = X.T @ loss.derivatives(X @ anchor, y) / 600
    np.testing.assert_allclose(solver.prior, slope, atol=1e-5)


@pytest.mark.parametrize("kept", [100, 300, 700])
def test_an_intercept_is_not_held_back(kept):
    n = 3000
    X, y = wide_problem("squared", 2 * n)

    def error(offset):
        solver = CombinedSVRG(REGISTRY["squared"].loss(), 601, 0.0, kept_rows=kept)
        weights = fed(solver, X[:n], y[:n] + offset, constant=1.0).model()
        return np.mean((X[n:] @ weights[:-1] + weights[-1] - offset - y[n:]) ** 2)

    assert error(1000.0) == pytest.approx(error(0.0), rel=1e-4)


def test_of_sparse_rows_so_many_are_kept_as_their_entries_allow():
    X, y = wide_problem("logistic", 3000)
    loss = REGISTRY["logistic"].loss()
    most = SPARSE_VALUES * X[:2500].nnz
    solver = fed(CombinedSVRG(loss, 600, 1e-6, kept_rows=400, most_kept_values=most), X, y)
    assert 2300 < solver.kept_rows < 2700


def test_wide_rows_are_solved_by_conjugate_gradients_with_damping():
    random = np.random.default_rng(0)
    d, n = 1500, 4000
    X = sparse.random_array((n, d), density=0.01, rng=random, format="csr")
    best = random.normal(size=d)
    y = X @ best + 0.1 * random.normal(size=n)
    solver = fed(CombinedSVRG(REGISTRY["squared"].loss(), d, 1e-4, kept_rows=800), X, y)
    model = solver.model()
    assert np.mean((X @ model - y) ** 2) < 0.5 * np.mean(y**2)
    assert solver.risk().interval == (0, np.inf)  # 800 kept rows do not tell of 1500 weights


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("alpha", [0.1, np.r_[np.full(600, 0.1), 0.0]])
@pytest.mark.parametrize("loss", SMOOTH)
def test_a_few_wide_rows_are_fitted_in_their_span(loss, alpha, layout):
    X, y, compiled, oracle = problem(loss, 40, 600)
    X[np.random.default_rng(1).random(X.shape) < 0.9] = 0
    solver = fed(CombinedSVRG(compiled, 601, alpha, kept_rows=50), layout(X), y, constant=0.5)
    v = solver.model()
    rows = np.column_stack([X, np.full(40, 0.5)])

    def gradient(v):
        return rows.T @ oracle.derivative(rows @ v, y) / 40 + alpha * v

    assert np.abs(gradient(v)).max() <= 1e-7 * np.abs(gradient(0 * v)).max()
    assert solver.converged
    assert solver.risk().interval == (0, np.inf)  # 40 rows do not tell of 600 weights


def test_rows_in_a_span_are_judged_by_their_scores(monkeypatch):
    """Whether they can stand for others: at the model, not at its first coordinates."""
    scores, estimate = [], excess_risk.forms_of

    def seen(kept, evaluation, *rest):
        scores.append(evaluation.scores)
        return estimate(kept, evaluation, *rest)

    monkeypatch.setattr(excess_risk, "forms_of", seen)
    X, y, loss, _ = problem("squared", 50, 600)
    solver = fed(CombinedSVRG(loss, 600, 100.0, kept_rows=50), X, y)
    np.testing.assert_allclose(scores[0], X @ solver.anchor, atol=1e-12)


@pytest.mark.parametrize("n", [100, 700])
def test_wide_separable_rows_are_fitted_in_a_few_steps(n, monkeypatch):
    """Without alpha there is no minimiser; the loss falls until it is nothing."""
    monkeypatch.setattr("sublinear._core.inner_problem.MAX_NEWTON_STEPS", 60)
    random = np.random.default_rng(0)
    X = sparse.random_array((n, 5000), density=0.004, rng=random, format="csr")
    y = random.choice([-1.0, 1.0], n)
    solver = fed(
        CombinedSVRG(REGISTRY["logistic"].loss(), 5001, 0.0, kept_rows=n), X, y, (), None, 1
    )
    v = solver.model()
    assert solver.converged
    assert (y * (X @ v[:-1] + v[-1]) > 10).all()


@pytest.mark.parametrize(("noise", "is_known"), [(1.0, True), (0.0, False)])
def test_risk_by_signs_is_near_that_of_a_factorised_hessian(noise, is_known, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 30))
    y = np.where(X[:, 0] + noise * random.normal(size=3000) > 0, 1.0, -1.0)
    solver = fed(CombinedSVRG(REGISTRY["logistic"].loss(), 30, 1e-8, kept_rows=3000), X, y)
    exact = solver.risk()
    for module in ("inner_problem", "kept_rows"):
        monkeypatch.setattr(f"sublinear._core.{module}.MOST_WEIGHTS", 10)
    signs = solver.risk()
    assert np.isfinite(exact.interval[1]) == np.isfinite(signs.interval[1]) == is_known
    if is_known:
        assert signs.excess_risk == pytest.approx(exact.excess_risk, rel=0.1)


@pytest.mark.parametrize("loss", SMOOTH)
def test_degenerate_rows(loss):
    X, y, compiled, _ = problem(loss, 50)
    for rows in (np.zeros_like(X), np.ones_like(X), X[:1], X * 1e-150):
        targets = y[: len(rows)]
        solver = fed(
            CombinedSVRG(compiled, 5, 0.0, kept_rows=20), rows, targets, (1,)[: len(rows) - 1]
        )
        assert np.isfinite(solver.model()).all()


def test_losses_with_flat_parts_are_minimised():
    """Their Hessians say nothing of a weight without penalty; re-weighted steps are short."""
    random, n = np.random.default_rng(0), 400
    X = random.normal(size=(n, 2)) * 0.1
    y = np.r_[np.ones(204), -np.ones(196)]
    options = {"alpha": 1.0, "smoothing": 0.1, "penalize_intercept": False, "random_state": 0}
    one_pass = StreamingSVRGClassifier("smoothed_hinge", **options).fit(X, y)
    best = SDCAClassifier("smoothed_hinge", tol=1e-9, max_iter=10**5, **options).fit(X, y)
    np.testing.assert_allclose(one_pass.intercept_, best.intercept_, rtol=1e-5)
    np.testing.assert_allclose(one_pass.coef_, best.coef_, rtol=1e-4)
