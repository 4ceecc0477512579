"""Kernel values and products: every source of rows against scikit-learn's pairwise kernels."""

import signal
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels

from sublinear._core.equal_rows import equal_rows
from sublinear._core.kernel_choice import KeptColumns, kernel_rows, spread_out
from sublinear._core.kernel_objective import KernelObjective
from sublinear._core.kernel_rows import CallableRows, ExactRows, PrecomputedRows
from sublinear._core.kernels import (
    KERNELS,
    RBF,
    Linear,
    Poly,
    centred_size,
    root_mean_square,
)
from sublinear._core.losses import Hinge
from sublinear._core.matrix import Matrix
from sublinear._core.panel_rows import PanelRows, PostingRows
from sublinear._core.panels import use_lanes
from sublinear._core.random import RandomBits
from sublinear._solvers.kernel_sdca import KernelSDCA

PARAMETERS = {
    "rbf": [{"gamma": 0.1}, {"gamma": 3.0}],
    "poly": [
        {"gamma": 0.2, "degree": 3, "coef0": 1.0},
        {"gamma": 1.0, "degree": 0, "coef0": 0.0},
        {"gamma": 0.5, "degree": 6, "coef0": -0.5},
    ],
    "sigmoid": [{"gamma": 0.3, "coef0": 0.2}, {"gamma": 1e-3, "coef0": 0.0}],
    "linear": [{}],
}
CASES = [(name, parameters) for name, many in PARAMETERS.items() for parameters in many]
STORAGES = {
    "dense": np.asarray,
    "dense float32": np.float32,
    "columns": np.asfortranarray,
    "csr": sparse.csr_array,
    "csr int64": lambda X: with_int64(sparse.csr_array(X.astype(np.float32))),
}


def with_int64(X):
    return sparse.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )


def examples(n, d, seed=0, density=0.4):
    """Values that float32 holds exactly, rows of norm about 1."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < density) / np.sqrt(density * d)
    return X.astype(np.float32).astype(np.float64)


def expected(name, parameters, X, Y=None):
    if name in ("poly",) and parameters["degree"] == 0:
        return np.ones((len(X), len(X if Y is None else Y)))
    return pairwise_kernels(X, Y, metric=name, **parameters)


@pytest.fixture(autouse=True)
def widest():
    yield
    assert use_lanes(16) or use_lanes(8) or use_lanes(4)


@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
def test_rows_that_are_not_there_are_refused(make):
    """Loops look at no bounds; a user may have altered what a fit left."""
    X = np.zeros((4, 2000))
    X[:, :3] = np.random.default_rng(0).normal(size=(4, 3))
    rows = kernel_rows(RBF(0.5), make(X))
    for numbers in ([0, 4], [-1]):
        with pytest.raises(IndexError, match="there is no example"):
            rows.block(np.array(numbers))
        with pytest.raises(IndexError):
            rows.block(np.arange(2), np.array(numbers))
        with pytest.raises(IndexError, match="there is no example"):
            rows.add_product(np.array(numbers), np.ones((1, len(numbers))), np.zeros((1, 4)))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_values_are_those_of_scikit_learn(name, parameters, storage):
    X, Y = examples(70, 150), examples(90, 150, seed=1)
    make, kernel = STORAGES[storage], KERNELS[name](**parameters)
    truth = expected(name, parameters, X, Y)
    rows, columns = np.array([5, 0, 69, 5, 33]), np.array([80, 3, 64])
    for memory in (np.inf, 0):
        source = kernel_rows(kernel, make(X), make(Y), memory)
        assert isinstance(source, PanelRows)
        scale = max(1, np.abs(truth).max())
        values = source.block(rows)[:, :90]
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, truth[rows], rtol=1e-5, atol=1e-6 * scale)
        np.testing.assert_array_equal(source.block(rows, columns)[:, :3], values[:, columns])


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_lists_by_feature_give_the_values_of_panels(name, parameters):
    X, Y = (sparse.csr_array(examples(n, 40, seed=n)) for n in (30, 100))
    kernel = KERNELS[name](**parameters)
    panels = PanelRows(kernel, Matrix(X), Matrix(Y))
    postings = PostingRows(kernel, Matrix(X), Matrix(Y))
    rows, columns = np.array([3, 3, 29, 0]), np.array([99, 4])
    np.testing.assert_array_equal(postings.block(rows)[:, :100], panels.block(rows)[:, :100])
    np.testing.assert_array_equal(
        postings.block(rows, columns)[:, :2], panels.block(rows, columns)[:, :2]
    )


@pytest.mark.parametrize("kind", ["dense", "panels", "lists"])
def test_values_are_scaled_before_they_are_rounded(kind):
    """gamma makes up for a scale of X that float32 does not reach."""
    blocks = []
    for exponent in (0, -240):
        X = np.ldexp(examples(70, 30), exponent)
        kernel = RBF(np.ldexp(0.5, -2 * exponent))
        matrix = Matrix(X if kind == "dense" else sparse.csr_array(X))
        rows = (PostingRows if kind == "lists" else PanelRows)(kernel, matrix, matrix)
        blocks.append(rows.block(np.arange(70)))
    np.testing.assert_array_equal(*blocks)


def test_wide_sparse_data_takes_the_road_of_lists():
    random = np.random.default_rng(0)
    X = sparse.random_array((50, 1_000_000), density=2e-5, rng=random, format="csr")
    source = kernel_rows(KERNELS["rbf"](1.0), X)
    assert isinstance(source, PostingRows)
    np.testing.assert_allclose(
        source.block(np.arange(50))[:, :50], pairwise_kernels(X, metric="rbf", gamma=1.0), rtol=1e-5
    )


def sources(X, name="rbf", parameters=None):
    """Every source of the rows of one symmetric kernel matrix."""
    parameters = {"gamma": 0.7} if parameters is None else parameters
    kernel = KERNELS[name](**parameters)
    matrix = Matrix(sparse.csr_array(X))
    return {
        "panels": PanelRows(kernel, matrix, matrix),
        "panels built anew": PanelRows(kernel, matrix, matrix, False),
        "postings": PostingRows(kernel, matrix, matrix),
        "callable": CallableRows(lambda A, B: pairwise_kernels(A, B, metric=name, **parameters), X),
        "precomputed": PrecomputedRows(pairwise_kernels(X, metric=name, **parameters)),
    }


@pytest.mark.parametrize("source", sources(examples(5, 3)))
@pytest.mark.parametrize("n_rows", [1, 64, 150])
def test_blocks_are_symmetric_products_right_and_threads_change_nothing(source, n_rows):
    X = examples(n_rows, 30)
    rows = sources(X)[source]
    truth = pairwise_kernels(X, metric="rbf", gamma=0.7)
    np.testing.assert_allclose(rows.diagonal, np.ones(n_rows), rtol=1e-6)
    order = np.arange(n_rows)
    block = rows.block(order, order)
    assert block.shape[0] == n_rows and block.shape[1] % 64 == 0 and np.isfinite(block).all()
    np.testing.assert_array_equal(block[:, :n_rows], block[:, :n_rows].T)
    np.testing.assert_array_equal(block, rows.block(order, order, 2))
    np.testing.assert_array_equal(block[:, :n_rows], rows.block(order)[:, :n_rows])
    random = np.random.default_rng(0)
    chosen = random.integers(n_rows, size=130)
    changes = random.normal(size=(3, 130)).astype(np.float32)
    margins = random.normal(size=(3, n_rows))
    sums = margins.copy(), margins.copy()
    for threads, total in enumerate(sums, 1):
        rows.add_product(chosen, changes, total, threads)
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_allclose(sums[0], margins + changes.astype(float) @ truth[chosen], atol=2e-5)


@pytest.mark.parametrize("source", [*sources(examples(5, 3)), "exact", "dense"])
def test_equal_rows_are_known(source):
    distinct = examples(40, 30)
    numbers = np.random.default_rng(0).integers(40, size=100)
    for chosen, repeat in ((numbers, True), (np.arange(40), False)):
        X = distinct[chosen]
        if source in ("exact", "dense"):
            rows = kernel_rows(RBF(0.7), X)
            rows = ExactRows(rows) if source == "exact" else rows
        else:
            rows = sources(X)[source]
        assert (rows.groups is not None) == repeat
        if repeat:
            equal = np.equal.outer(numbers, numbers)
            np.testing.assert_array_equal(np.equal.outer(rows.groups, rows.groups), equal)


def test_rows_are_equal_where_kernel_values_cannot_tell_them():
    X = np.array([[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0], [0.0, 1.0, 2.0 + 1e-12], [1.0, 0.0, 2.0]])
    zeros = sparse.csr_array(([0.0, 1.0, 1.0], [0, 1, 1], [0, 2, 3, 3]), shape=(3, 2))
    for rows, expected in ((X, [True, True, True, False]), (zeros, [True, True, False])):
        groups = equal_rows(Matrix(rows))
        np.testing.assert_array_equal(groups == groups[0], expected)
    assert equal_rows(Matrix(np.eye(3))) is None
    assert equal_rows(Matrix(1e-60 * np.eye(3)), 1e60) is None


GROUPS = np.array([70, 70, 71, 150]), np.array([[3, 0], [1, 2], [0, 1], [2, 0]])


@pytest.mark.parametrize("source", [*sources(examples(5, 3)), "centred", "exact"])
def test_products_of_groups_are_those_of_each(source):
    X = examples(100, 30)
    if source == "centred":
        rows = kernel_rows(KERNELS["linear"](), X + 10, X[:90] + 10)
        assert rows.is_centred
    elif source == "exact":
        rows = ExactRows(kernel_rows(RBF(0.7), X))
    else:
        rows = sources(X)[source]
    random = np.random.default_rng(0)
    chosen, changes = random.integers(100, size=150), random.normal(size=(2, 150))
    every = random.normal(size=(4, 300))
    expected, margins = every.copy(), every[:, 17 : 17 + rows.n_columns]
    for (start, end), places in zip(pairwise([0, *GROUPS[0]]), GROUPS[1], strict=True):
        part = np.zeros((2, rows.n_columns))
        rows.add_product(chosen[start:end], changes[:, start:end], part)
        expected[places, 17 : 17 + rows.n_columns] += part
    rows.add_products(chosen, changes, margins, *GROUPS, 2)
    np.testing.assert_array_equal(every, expected)


@pytest.mark.parametrize("offset", [0, 10])
@pytest.mark.parametrize("name", ["rbf", "poly"])  # sigmoids are always measured
def test_few_rows_have_the_products_of_all_in_panels_that_stay(name, offset):
    kernel, X = KERNELS[name](gamma=0.07, degree=3, coef0=0.5), examples(150, 300)
    columns, others = X[:150] + offset, examples(16, 300) + offset
    random = np.random.default_rng(0)
    changes, margins = random.normal(size=(2, 150)), random.normal(size=(4, 16))
    found, kept = margins.copy(), KeptColumns(kernel, columns, np.inf)
    rows = kernel_rows(kernel, columns, others, memory=0)
    rows.add_products(np.arange(150), changes, margins, *GROUPS)
    for start in (0, 9):
        part = slice(start, start + 9)
        few = kept.rows(others[part], columns)
        few.add_column_products(changes, found[:, part], *GROUPS, 2)
        assert few.store is kept.panels.store
    np.testing.assert_array_equal(found, margins)


def test_kept_columns_leave_rows_to_others_where_their_errors_are_to_be_measured():
    X = examples(30, 5)
    kept = KeptColumns(RBF(0.7), X, 0.4)
    assert kept.rows(X, X) is not None
    assert kept.rows(np.vstack([X, 100 * X]), X) is None
    assert kept.rows(X[:2], X) is not None
    assert KeptColumns(RBF(0.7), X, 0.0).rows(X, X) is None


@pytest.mark.parametrize("n_columns", [1, 16, 17])
def test_groups_of_few_columns_are_added_without_a_call_for_each(n_columns):
    random = np.random.default_rng(0)
    values, changes = random.normal(size=(100, n_columns)), random.normal(size=(2, 150))
    chosen, margins = random.integers(100, size=150), random.normal(size=(4, n_columns))
    expected, calls = margins.copy(), []
    for (start, end), places in zip(pairwise([0, *GROUPS[0]]), GROUPS[1], strict=True):
        expected[places] += changes[:, start:end] @ values[chosen[start:end]]

    class Counted(ExactRows):
        def add_product(self, *arguments):
            calls.append(arguments)
            super().add_product(*arguments)

    Counted(PrecomputedRows(values, False)).add_products(chosen, changes, margins, *GROUPS)
    np.testing.assert_allclose(margins, expected, rtol=1e-12)
    assert len(calls) == (len(GROUPS[0]) if n_columns > 16 else 0)


@pytest.mark.parametrize("keeps_panels", [True, False])
@pytest.mark.parametrize("is_dense", [True, False])
def test_wide_rows_are_taken_in_parts(keeps_panels, is_dense):
    X = examples(200, 300)
    matrix = Matrix(X if is_dense else sparse.csr_array(X))
    whole, parts = (PanelRows(RBF(1e-3), matrix, matrix, keeps_panels) for _ in range(2))
    parts.most_packed = 70 * matrix.n_stored // 200
    random = np.random.default_rng(0)
    chosen, changes = random.integers(200, size=150), random.normal(size=(2, 150))
    np.testing.assert_array_equal(parts.block(chosen), whole.block(chosen))
    np.testing.assert_array_equal(parts.block(chosen, chosen[:3]), whole.block(chosen, chosen[:3]))
    found, expected = np.zeros((2, 4, 200))
    for rows, margins in ((parts, found), (whole, expected)):
        rows.add_products(chosen, changes, margins, *GROUPS, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)  # sums of other tiles


@pytest.mark.parametrize(
    ("ends", "outputs", "message"),
    [
        ([3, 2, 4], [[0, 1]] * 3, "groups that end"),
        ([3], [[0, 1]], "groups that end"),
        ([4], [[0, 1]] * 2, "groups that end"),
        ([4], [[0, 3]], "beyond"),
        ([4], [[-1, 1]], "beyond"),
        ([4], [[0, 1, 2]], "changes of shape"),
    ],
)
@pytest.mark.parametrize("is_exact", [False, True])
def test_groups_out_of_bounds_are_refused(ends, outputs, message, is_exact):
    rows = kernel_rows(RBF(), examples(9, 3))
    if is_exact:
        rows = ExactRows(PrecomputedRows(rows.block(np.arange(9))[:, :9]))
    ends, outputs = np.array(ends), np.array(outputs)
    with pytest.raises(ValueError, match=message):
        rows.add_products(np.arange(4), np.ones((2, 4)), np.zeros((3, 9)), ends, outputs)
    columns = kernel_rows(RBF(), examples(9, 3), examples(4, 3))
    with pytest.raises(ValueError, match=message):
        columns.add_column_products(np.ones((2, 4)), np.zeros((3, 9)), ends, outputs)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_vector_widths_give_the_same_bits(name, parameters):
    X = examples(100, 200)
    results = []
    for lanes in (4, 8, 16):
        if not use_lanes(lanes):
            continue
        source = kernel_rows(KERNELS[name](**parameters), X)
        margins = np.zeros((1, 100))
        source.add_product(np.arange(100), np.linspace(-1, 1, 100)[np.newaxis], margins)
        results.append((source.block(np.arange(100)), margins))
    for values, margins in results:
        np.testing.assert_array_equal(values, results[0][0])
        np.testing.assert_array_equal(margins, results[0][1])


@pytest.mark.parametrize("source", sources(examples(5, 3)))
def test_products_of_wrong_shapes_are_refused(source):
    rows = sources(examples(9, 3))[source]
    order = np.arange(4)
    for changes, margins in (
        (np.ones((2, 4)), np.zeros((3, 9))),
        (np.ones((3, 3)), np.zeros((3, 9))),
        (np.ones((3, 4)), np.zeros((3, 8))),
    ):
        with pytest.raises(ValueError, match="changes of shape"):
            rows.add_product(order, changes, margins)


def test_long_products_are_taken_in_parts():
    left, right = np.arange(1100.0), np.linspace(0, 1, 2**17 + 1)
    rows = PanelRows(Linear(), *(Matrix(X[:, np.newaxis]) for X in (left, right)))
    assert rows.rows_per_call == 512  # so that there are three parts
    changes = np.linspace(-1, 1, 2200).reshape(2, 1100)
    margins = np.ones((2, len(right)))
    rows.add_long_product(np.arange(1100), changes, margins)
    np.testing.assert_allclose(margins, 1 + np.outer(changes @ left, right), rtol=1e-5)


@contextmanager
def alarm_after(seconds):
    """Raise KeyboardInterrupt once this process has computed for so long."""
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of signals here")
@pytest.mark.parametrize("kind", ["panels", "lists"])
def test_an_interrupt_within_a_product_changes_nothing(kind):
    """It need not wait for the end, where the margins change."""
    X = examples(3000, 500, density=1.0 if kind == "panels" else 0.2)
    matrix = Matrix(X if kind == "panels" else sparse.csr_array(X))
    rows = (PanelRows if kind == "panels" else PostingRows)(RBF(1.0), matrix, matrix)
    order, margins = np.arange(3000), np.zeros((1, 3000))
    with alarm_after(1e-3), pytest.raises(KeyboardInterrupt):
        rows.add_product(order, np.ones((1, 3000)), margins)
    assert not margins.any()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of signals here")
def test_an_interrupt_within_a_block_is_heard_before_the_ascent():
    X = examples(4000, 1000, density=1.0)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    objective = KernelObjective(kernel_rows(RBF(1.0), X), y, Hinge(), np.ones(4000))
    bits = RandomBits(np.random.SeedSequence(0))
    solver = KernelSDCA(objective, bits, block_size=4000)
    with alarm_after(0.06), pytest.raises(KeyboardInterrupt):
        solver.advance(2**60)
    assert solver.accesses == solver.n_steps == 0


def test_a_function_may_answer_with_truth_values():
    X = np.arange(6.0)[:, np.newaxis]
    rows = CallableRows(lambda A, B: A == B.T, X)
    np.testing.assert_array_equal(rows.block(np.arange(6))[:, :6], np.eye(6))
    np.testing.assert_array_equal(rows.diagonal, np.ones(6))


def test_data_far_from_the_origin_keeps_its_distances():
    X = examples(40, 10) + 1000.0
    truth = pairwise_kernels(X, metric="rbf", gamma=1.0)
    source = kernel_rows(KERNELS["rbf"](1.0), X)
    np.testing.assert_allclose(source.block(np.arange(40))[:, :40], truth, rtol=1e-5)
    other = kernel_rows(KERNELS["rbf"](1.0), X, X[:7])
    np.testing.assert_allclose(other.block(np.arange(40))[:, :7], truth[:, :7], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "scale"), [("linear", 1e20), ("rbf", 1e20), ("poly", 1e15), ("sigmoid", 1e19)]
)
def test_values_beyond_float32_are_refused(name, scale):
    with pytest.raises(ValueError, match="range of float32"):
        kernel_rows(KERNELS[name](1.0), scale * examples(5, 3, density=1.0))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.ones(len(A)), r"lambda.* returned shape \(5,\)"),
        (lambda A, B: None, "returned a NoneType"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "nan, which is not finite"),
        (lambda A, B: np.full((len(A), len(B)), "a"), "not real numbers"),
        (lambda A, B: np.arange(len(A) * len(B)).reshape(len(A), -1), "not symmetric"),
    ],
)
def test_bad_functions_are_refused(function, message):
    with pytest.raises(ValueError, match=message):
        CallableRows(function, examples(5, 3))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((3, 4)), "square"),
        (np.arange(9.0).reshape(3, 3), "not symmetric"),
        (np.full((3, 3), np.inf), "not finite"),
    ],
)
def test_bad_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        PrecomputedRows(matrix)


@pytest.mark.parametrize("place", [(1, 0), (255, 3), (256, 255), (299, 0), (299, 298)])
def test_asymmetry_is_seen_wherever_it_is(place):
    """A matrix is looked at tile by tile, each beside its mirror image."""
    K = np.ones((300, 300))
    K[place] += 9e-6
    assert PrecomputedRows(K).asymmetry == pytest.approx(9e-6 * np.sqrt(2) / 300)
    for other in (place, place[::-1]):
        K = np.ones((300, 300))
        K[other] = 1.1
        with pytest.raises(ValueError, match="not symmetric"):
            PrecomputedRows(K)


@pytest.mark.parametrize("name", ["rbf", "poly", "linear", "sigmoid"])
@pytest.mark.parametrize("source", sources(examples(5, 3)))
@pytest.mark.parametrize("kept", [False, True])
def test_exact_rows_are_float64(source, name, kept):
    parameters = {} if name == "linear" else {"gamma": 0.7}
    if name in ("poly", "sigmoid"):
        parameters["coef0"] = 0.5
    X = examples(600, 30)
    truth = pairwise_kernels(X, metric=name, **parameters)
    rows = ExactRows(sources(X, name, parameters)[source], kept)
    order, few = np.arange(600), np.array([599, 3, 3])
    scale = np.abs(truth).max()
    np.testing.assert_allclose(rows.exact_block(order), truth, atol=1e-13 * scale)
    np.testing.assert_allclose(rows.exact_block(few, few), truth[few][:, few], atol=1e-13 * scale)
    assert rows.block(few).dtype == np.float32
    np.testing.assert_allclose(rows.block(few)[:, :600], truth[few], atol=1e-6 * scale)
    changes = np.random.default_rng(0).normal(size=(2, 600))
    margins = np.ones((2, 600))
    rows.add_product(order, changes, margins)
    expected = 1 + changes @ truth
    np.testing.assert_allclose(margins, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("make", [np.asarray, np.float32])
def test_exact_rows_of_centred_data_are_those_of_the_data(make):
    X = make(examples(100, 5) + 1000)
    rows = ExactRows(kernel_rows(KERNELS["linear"](), X))
    truth = X.astype(float) @ X.astype(float).T
    assert rows.is_centred
    few = np.array([5, 60])
    np.testing.assert_allclose(rows.block(few, few)[:, :2], truth[few][:, few], rtol=1e-6)
    changes, margins = np.array([[1.0, -1.0]]), np.zeros((1, 100))
    rows.add_product(few, changes, margins)
    np.testing.assert_allclose(margins[0], truth[5] - truth[60], atol=1e-6)
    centred = X.astype(float) - X.mean(axis=0, dtype=float)
    np.testing.assert_allclose(rows.exact_block(few, few), (centred @ centred.T)[few][:, few])


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("coef0", [0.0, 0.5])
def test_the_rank_of_polynomials_is_known(n_features, degree, coef0):
    X = np.random.default_rng(0).normal(size=(120, n_features))
    rank = np.linalg.matrix_rank((X @ X.T + coef0) ** degree)
    rows = kernel_rows(Poly(1.0, degree, coef0), X)
    assert rows.most_rank == ExactRows(rows).most_rank == rank
    assert kernel_rows(Poly(1.0, degree, coef0), sparse.csr_array(X)).most_rank == rank


def test_bounds_on_ranks_never_exceed_the_rows():
    assert Poly(1.0, 1000, 1.0).most_rank(10**6, 2048) == 2048
    assert kernel_rows(Poly(1.0, 9, 1.0), np.eye(30)).most_rank == 30
    assert kernel_rows(RBF(), np.eye(30, 2)).most_rank == 30
    assert kernel_rows(KERNELS["linear"](), np.eye(30, 2)).most_rank == 2


def test_sizes_of_values_are_those_of_numpy():
    values = 5 + np.random.default_rng(0).normal(size=(7, 4))
    centred = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    assert root_mean_square(values) == pytest.approx(np.sqrt(np.mean(values**2)), rel=1e-14)
    expected = values.mean(), np.sqrt(np.mean(centred**2))
    assert centred_size(values) == pytest.approx(expected, rel=1e-13)


def test_a_sample_goes_from_the_first_row_to_the_last():
    for n_rows in (1, 2, 31, 32, 33, 1000):
        numbers = spread_out(Matrix(np.ones((n_rows, 1))), 32)
        assert len(np.unique(numbers)) == len(numbers) == min(n_rows, 32)
        assert numbers[0] == 0 and numbers[-1] == n_rows - 1 and numbers.dtype == np.int64
