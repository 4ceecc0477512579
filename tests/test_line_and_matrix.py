"""Matrix and Line: every storage against NumPy, what is used as it is, what is refused."""

import itertools

import numpy as np
import pytest
from layouts import csr
from scipy import sparse

from sublinear import PegasosRegressor, SDCARegressor
from sublinear._core.aligned import contiguous
from sublinear._core.losses import Squared
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.passes import Passes

VALUE_TYPES = (np.float32, np.float64)
INDEX_TYPES = (np.int32, np.int64)


def example(n_rows=23, n_columns=37, density=0.4, seed=0):
    """A float32-representable array with an empty row, a full row and rows of many lengths."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns)).astype(np.float32).astype(np.float64)
    X[random.random(X.shape) > density * 2 * np.linspace(0, 1, n_rows)[:, np.newaxis]] = 0
    X[-1] = np.arange(1, n_columns + 1)
    return X


def unaligned(array):
    """Return a copy at an odd address."""
    buffer = np.empty(array.nbytes + 1, dtype=np.uint8)[1:]
    copy = buffer.view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert not copy.flags.aligned
    return copy


def every_other(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def field(X):
    records = np.zeros(X.shape, dtype=[("before", X.dtype), ("value", X.dtype)])
    records["value"] = X
    return records["value"]


DENSE = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "negative strides": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "every other": every_other,
    "transposed twice": lambda X: every_other(X.T).T,
    "field of records": field,
}
STORAGES = {
    f"{name} {values.__name__}": lambda X, make=make, values=values: make(X.astype(values))
    for (name, make), values in itertools.product(DENSE.items(), VALUE_TYPES)
} | {
    f"CSR {values.__name__} {indices.__name__}": lambda X, v=values, i=indices: csr(X, v, i)
    for values, indices in itertools.product(VALUE_TYPES, INDEX_TYPES)
}


@pytest.fixture(params=STORAGES.values(), ids=STORAGES.keys())
def store(request):
    return request.param


def bare(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def check_against_numpy(matrix, X, constant=0.0):
    """Compare dots, additions and norms of all rows with NumPy's, in a random order."""
    random = np.random.default_rng(1)
    X = np.column_stack([X, np.full(len(X), constant)]) if constant else X
    w = random.normal(size=X.shape[1])
    order = random.integers(max(1, len(X)), size=3 * len(X))
    factors = random.normal(size=len(order))

    assert matrix.n_weights == X.shape[1]
    np.testing.assert_allclose(matrix.row_dots(w, order), (X @ w)[order], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(matrix.squared_norms(), (X**2).sum(axis=1), rtol=1e-13)
    changed = w.copy()
    matrix.add_rows(factors, order, changed)
    np.testing.assert_allclose(changed, w + factors @ X[order], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 2.5])
@pytest.mark.parametrize("n_columns", [1, 7, 16, 37, 130])
def test_primitives(store, n_columns, constant):
    X = example(n_columns=n_columns)
    matrix = Matrix(store(X), constant)
    assert (matrix.n_rows, matrix.n_columns, matrix.constant) == (*X.shape, constant)
    check_against_numpy(matrix, X, constant)


def test_wide_rows_prefetch_their_weights(store):
    """Beyond 2^16 columns weights are prefetched too."""
    X = np.zeros((16, 70_000), dtype=np.float32)
    X[np.arange(16), np.arange(16) * 4300] = np.arange(1, 17)
    check_against_numpy(Matrix(store(X)), X.astype(np.float64))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_matrices_are_refused(store, shape):
    with pytest.raises(ValueError, match="rows and columns"):
        Matrix(store(np.ones(shape)))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_edge_shapes(store, shape, constant):
    X = np.ones(shape)
    matrix = Matrix(store(X), constant)
    assert matrix.n_stored == X.size
    assert matrix.transposed().n_rows == shape[1]
    check_against_numpy(matrix, X, constant)


def test_usable_input_is_not_copied(store):
    X = store(example())
    matrix = Matrix(X)
    arrays = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    for own, given in zip(matrix.arrays, arrays, strict=True):
        assert np.shares_memory(own, given)
    assert matrix.dtype == X.dtype
    assert matrix.n_stored == (X.nnz if sparse.issparse(X) else X.size)


def test_dense_and_sparse_agree(store):
    X = example()
    w = np.random.default_rng(2).normal(size=X.shape[1])
    order = np.arange(len(X))
    expected = Matrix(X).row_dots(w, order)
    np.testing.assert_allclose(
        Matrix(store(X)).row_dots(w, order), expected, rtol=1e-13, atol=1e-13
    )


def test_csr_types_give_the_same_bits():
    X = example()
    w = np.random.default_rng(3).normal(size=X.shape[1] + 1)
    order = np.random.default_rng(4).integers(len(X), size=100)
    results = []
    for values, indices in itertools.product(VALUE_TYPES, INDEX_TYPES):
        matrix = Matrix(csr(X, values, indices), constant=1.5)
        changed = w.copy()
        matrix.add_rows(np.linspace(-1, 1, 100), order, changed)
        results.append((matrix.row_dots(w, order), matrix.squared_norms(), changed))
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("layout", ["C", "Fortran", "every other"])
def test_dense_types_give_the_same_bits(layout):
    X = example(n_columns=133)
    w = np.random.default_rng(3).normal(size=133)
    order = np.arange(len(X))
    one, other = (Matrix(DENSE[layout](X.astype(values))) for values in VALUE_TYPES)
    np.testing.assert_array_equal(one.row_dots(w, order), other.row_dots(w, order))
    np.testing.assert_array_equal(one.squared_norms(), other.squared_norms())


def arrays_of(X):
    return (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)


def with_arrays(X, change):
    """Apply a change to the arrays of X, dense or CSR."""
    if isinstance(X, np.ndarray):
        return change(X)
    X.data, X.indices, X.indptr = (change(array) for array in arrays_of(X))
    return X


def read_only(array):
    array.flags.writeable = False
    return array


def test_read_only_input(store):
    X = example()
    stored = with_arrays(store(X), read_only)
    matrix = Matrix(stored)
    check_against_numpy(matrix, X)
    assert all(map(np.shares_memory, matrix.arrays, arrays_of(stored)))


@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_memory_mapped_input(kind, values, tmp_path):
    X, count = example(), itertools.count()

    def mapped(array):
        path = tmp_path / f"{next(count)}.npy"
        np.save(path, array)
        return np.load(path, mmap_mode="r")

    stored = with_arrays(X.astype(values) if kind == "dense" else csr(X, values), mapped)
    matrix = Matrix(stored)
    assert all(map(np.shares_memory, matrix.arrays, arrays_of(stored)))
    check_against_numpy(matrix, X)


@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("change", [unaligned, lambda a: a.astype(a.dtype.newbyteorder(">"))])
def test_input_that_is_converted(kind, values, change):
    X = example()
    matrix = Matrix(with_arrays(X.astype(values) if kind == "dense" else csr(X, values), change))
    assert matrix.dtype == values
    check_against_numpy(matrix, X)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.longdouble])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_other_types_become_float64(make, dtype):
    X = (example() > 0).astype(dtype)
    matrix = Matrix(make(X))
    assert matrix.dtype == np.float64
    check_against_numpy(matrix, X.astype(np.float64))


def test_broadcast_rows():
    X = np.broadcast_to(np.arange(5.0), (7, 5))
    check_against_numpy(Matrix(X), np.array(X))


@pytest.mark.parametrize("indices", INDEX_TYPES)
@pytest.mark.parametrize("row", [0, 511, 512, 70_000, 79_999])
@pytest.mark.parametrize("wrong", [[3, 2], [3, 3], [-1, 2], [2, 40]])
def test_many_rows_are_looked_at_by_all_threads(indices, row, wrong):
    n_rows, n_columns, per_row = 80_000, 40, 14
    columns = np.tile(np.arange(0, 2 * per_row, 2, dtype=indices), (n_rows, 1))
    columns[1::2] += 1
    offsets = np.arange(0, columns.size + 1, per_row, dtype=indices)
    first = 0 if wrong[0] < 0 else per_row - 2
    columns[row, first : first + 2] = wrong
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), offsets), (n_rows, n_columns))
    X.indices, X.indptr = columns.ravel(), offsets
    if min(wrong) < 0 or max(wrong) >= n_columns:
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            Matrix(X, n_threads=2)
        return
    expected = np.full(n_rows, float(per_row))
    np.testing.assert_array_equal(
        Matrix(X, n_threads=2).row_dots(np.ones(n_columns), range(n_rows)), expected
    )
    assert Matrix(X, n_threads=2).arrays[1] is not X.indices


@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("indices", INDEX_TYPES)
def test_unsorted_and_repeated_columns(values, indices):
    data = np.array([3, 1, 2, 5, 7], dtype=values)
    columns, offsets = np.array([2, 0, 2, 1, 1], indices), np.array([0, 3, 3, 5], indices)
    X = sparse.csr_array((data, columns, offsets), shape=(3, 4))
    matrix = Matrix(X)
    assert matrix.n_stored == 3
    check_against_numpy(matrix, np.array([[1.0, 0, 5, 0], [0, 0, 0, 0], [0, 12, 0, 0]]))
    assert (X.data.tolist(), X.indices.tolist()) == ([3, 1, 2, 5, 7], [2, 0, 2, 1, 1])


def test_stored_zeros_are_kept():
    X = sparse.csr_array((np.array([0.0, 2.0]), [0, 1], [0, 2]), shape=(1, 2))
    assert Matrix(X).n_stored == 2


@pytest.mark.parametrize("types", [(np.int32, np.int64), (np.int64, np.int32)])
def test_indices_and_offsets_of_two_types(types):
    X = example()
    stored = csr(X)
    stored.indices, stored.indptr = stored.indices.astype(types[0]), stored.indptr.astype(types[1])
    check_against_numpy(Matrix(stored), X)


def spoiled(name, position, value):
    X = csr(example())
    getattr(X, name)[position] = value
    return X


@pytest.mark.parametrize(
    "X",
    [
        spoiled("indices", 3, 37),
        spoiled("indices", 0, -1),
        spoiled("indptr", 2, 10**6),
        spoiled("indptr", 5, 0),
        spoiled("indptr", 0, 1),
        spoiled("indptr", 1, -1),
        spoiled("indptr", -1, 10**6),
    ],
    ids=["column", "negative column", "offset", "decreasing", "start", "negative", "end"],
)
def test_invalid_csr_is_refused(X):
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        Matrix(X)


def test_short_csr_arrays_are_refused():
    for name in ("data", "indices", "indptr"):
        X = csr(example())
        setattr(X, name, getattr(X, name)[:-1])
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            Matrix(X)


def test_other_shapes_and_formats_are_refused():
    with pytest.raises(ValueError, match="two-dimensional"):
        Matrix(np.ones(3))
    with pytest.raises(ValueError, match="two-dimensional"):
        Matrix(np.ones((3, 2, 2)))
    with pytest.raises(TypeError, match="tocsr"):
        Matrix(sparse.csc_array(np.eye(3)))


def test_transposed(store):
    X = example()
    matrix = Matrix(store(X), constant=2.0)
    transposed = matrix.transposed()
    assert (transposed.n_rows, transposed.n_columns) == X.shape[::-1]
    check_against_numpy(transposed, X.T)
    assert matrix.transposed() is transposed
    if not matrix.is_sparse:
        assert np.shares_memory(transposed.arrays[0], matrix.arrays[0])


def test_wrong_arguments():
    matrix = Matrix(example())
    w = np.zeros(37)
    for order in ([23], [-1], [0, 100]):
        with pytest.raises(IndexError):
            matrix.row_dots(w, order)
    with pytest.raises(ValueError, match="37"):
        matrix.row_dots(np.zeros(38), [0])
    with pytest.raises(ValueError, match="factors"):
        matrix.add_rows(np.zeros(2), [0], w)


def test_nothing_is_written_to_the_input(store):
    X = store(example())
    before = bare(X).copy()
    matrix = Matrix(X, constant=1.0)
    objective = Objective(matrix, np.zeros(len(before)), Squared(), 0.1)
    objective.primal(np.ones(38))
    matrix.transposed()
    np.testing.assert_array_equal(bare(X), before)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("n_columns", (1, 4, 8, 15, 16, 29, 37, 64, 1040))
@pytest.mark.parametrize("constant", (0.0, 2.0))
def test_passes_give_what_single_rows_give(dtype, n_columns, constant):
    """Bit for bit: rows taken several at once are summed in the same order."""
    random = np.random.default_rng(n_columns)
    X = random.normal(size=(11, n_columns)).astype(dtype)
    matrix = Matrix(X, constant)
    x, p = random.normal(size=matrix.n_weights), random.random(11)
    p[4:8] = 0
    targets = random.choice([-1.0, 1.0], 11)
    singly = np.array([matrix.row_dots(x, [i])[0] for i in range(11)])
    gradient = np.zeros(matrix.n_weights)
    matrix.add_rows(targets * p, np.arange(11), gradient)
    passes = Passes(matrix, targets)
    for _ in range(2):  # norms come with the first pass
        payoffs, slope = passes.products(x, p)
        np.testing.assert_array_equal(payoffs, targets * singly)
        np.testing.assert_array_equal(slope, gradient)
    payoffs, norms = Passes(matrix, targets).payoffs_and_norms(x)
    np.testing.assert_array_equal(payoffs, targets * singly)
    np.testing.assert_array_equal(norms, matrix.squared_norms())
    np.testing.assert_allclose(norms, (X.astype(float) ** 2).sum(axis=1) + constant**2)
    assert passes.longest == np.sqrt(norms.max())
    np.testing.assert_array_equal(passes.payoffs(x), targets * singly)
    order, factors = np.arange(11)[::-1], random.normal(size=11)
    np.testing.assert_array_equal(matrix.row_dots(x, order), singly[order])
    total, one_by_one = np.zeros((2, matrix.n_weights))
    matrix.add_gram_product(x, factors, order, total)
    for i, factor in zip(order, factors, strict=True):
        matrix.add_gram_product(x, np.array([factor]), [i], one_by_one)
    np.testing.assert_array_equal(total, one_by_one)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_halves_of_rows(indices):
    X = sparse.random_array((40, 30), density=0.3, format="csr", rng=np.random.default_rng(0))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    halves = Matrix(X, 2.0).halves()
    data, columns, offsets = halves.arrays
    assert (data is X.data, columns is X.indices, halves.constant) == (True, True, 2.0)
    first = np.concatenate([columns[offsets[k] : offsets[k + 1]] for k in range(0, 80, 2)])
    second = np.concatenate([columns[offsets[k] : offsets[k + 1]] for k in range(1, 80, 2)])
    assert first.max() < second.min()
    assert abs(len(first) - len(second)) <= 2 * np.diff(X.tocsc().indptr).max()
    np.testing.assert_array_equal(offsets[::2], X.indptr)


@pytest.mark.parametrize("length", [1, 3, 39, 40])
def test_halves_of_rows_of_equal_length(length):
    """Whatever entries are looked at, not all may be the first of their rows."""
    columns = np.tile(np.arange(length, dtype=np.int32) * 1000, 2**15)
    offsets = np.arange(0, columns.size + 1, length, dtype=np.int32)
    X = sparse.csr_array((np.ones(columns.size), columns, offsets), shape=(2**15, 1000 * length))
    offsets = Matrix(X).halves().arrays[2]
    assert abs(offsets[1] - offsets[0] - length / 2) <= 1


def test_halves_where_the_rows_looked_at_are_empty():
    X = sparse.lil_array((1000, 10))
    X[1, [2, 5, 7]] = 1.0
    offsets = Matrix(X.tocsr()).halves().arrays[2]
    assert (offsets[2], offsets[3], offsets[4]) == (0, 1, 3)


def test_what_compiled_loops_read_is_aligned():
    array = np.arange(6.0).reshape(2, 3)
    assert contiguous(array) is array
    for given in (unaligned(array), array[:, ::-1], np.asfortranarray(array)):
        copy = contiguous(given)
        assert copy.flags.aligned and copy.flags.c_contiguous
        np.testing.assert_array_equal(copy, given)
    assert contiguous(unaligned(array), np.float32).dtype == np.float32


@pytest.mark.parametrize(
    "model", [SDCARegressor(random_state=0), PegasosRegressor(tol=0, max_iter=5, random_state=0)]
)
def test_unaligned_targets_and_weights(model):
    random = np.random.default_rng(0)
    X, y, weights = random.normal(size=(40, 3)), random.normal(size=40), random.uniform(1, 2, 40)
    expected = model.fit(X, y, sample_weight=weights).coef_
    given = unaligned(y), unaligned(weights)
    np.testing.assert_array_equal(model.fit(X, given[0], sample_weight=given[1]).coef_, expected)
