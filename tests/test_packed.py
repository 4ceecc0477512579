"""PackedRows: the copies, records or short rows, the flag `exact`; steps over short rows."""

import numpy as np
import pytest
from scipy import sparse

from sublinear import PegasosClassifier, SDCAClassifier, SDCARegressor
from sublinear._core.matrix import Matrix
from sublinear._core.packed import PackedRows

HEADER = 24  # three float64: dual, curvature, target
CACHE_LINE = 64


def example(values=np.float32, indices=np.int32, n_rows=40, n_columns=25):
    random = np.random.default_rng(2)
    X = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    X[random.random(X.shape) < 0.7] = 0
    X[5] = 0
    X = sparse.csr_array(X.astype(values))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    return X


def short_example(values=np.float32, indices=np.int32, n_rows=300, n_columns=54, longest=12):
    """Rows of up to `longest` entries, nearly all of them with as many; some are empty."""
    random = np.random.default_rng(5)
    X = np.zeros((n_rows, n_columns), dtype=np.float32)
    for i, row in enumerate(X):
        size = 0 if i % 50 == 3 else longest - i % 2
        row[random.permutation(n_columns)[:size]] = random.normal(size=size)
    X[:, -1] = 1  # the last column is used
    X = sparse.csr_array(X.astype(values))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    return X


def is_short(X):
    return PackedRows(Matrix(X), np.ones(X.shape[0])).offsets is None


@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize(("longest", "n_columns"), [(11, 54), (24, 100), (45, 256)])
def test_short_rows_hold_the_rows(values, indices, longest, n_columns):
    X = short_example(values, indices, longest=longest, n_columns=n_columns)
    packed = PackedRows(Matrix(X), np.ones(300))
    assert packed.exact
    assert packed.offsets is None
    assert packed.buffer.shape[1] % CACHE_LINE == packed.buffer.ctypes.data % CACHE_LINE == 0
    assert packed.buffer.shape[1] <= 5 * np.diff(X.indptr).max() + CACHE_LINE
    for i, row in enumerate(packed.buffer):
        start, stop = X.indptr[i], X.indptr[i + 1]
        size = row[-1]
        assert size == stop - start
        np.testing.assert_array_equal(row[: 4 * size].view(np.float32), X.data[start:stop])
        np.testing.assert_array_equal(row[4 * size : 5 * size], X.indices[start:stop])


def test_rows_that_are_not_short():
    assert is_short(short_example(n_columns=256))
    assert not is_short(short_example(n_columns=257))  # a byte cannot tell the columns apart
    assert is_short(short_example(longest=49))
    assert not is_short(short_example(longest=50, n_columns=200))  # 51 with the last column
    one_long = sparse.vstack([short_example(longest=4), short_example(longest=40, n_rows=4)])
    assert not is_short(sparse.csr_array(one_long))  # records take less memory


@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_of_short_rows_are_those_of_rows_as_they_are(values, indices, n_jobs):
    X = short_example(values, indices)
    y = np.sign(X[:, [0]].toarray().ravel() + 0.1)
    kinds = (SDCAClassifier, SDCARegressor, PegasosClassifier)
    options = {"random_state": 0, "max_iter": 20, "tol": 0, "alpha": 1e-3}
    for kind in kinds:
        threads = {} if kind is PegasosClassifier else {"n_jobs": n_jobs}
        plain, packed = (kind(**options, **threads, pack=pack).fit(X, y) for pack in (False, True))
        np.testing.assert_array_equal(packed.coef_, plain.coef_)
        np.testing.assert_array_equal(packed.intercept_, plain.intercept_)


def test_fits_of_rounded_short_rows_are_certified():
    X = short_example(np.float64)
    X.data *= 1 / 3
    y = np.sign(X[:, [0]].toarray().ravel() + 0.01)
    model = SDCAClassifier(alpha=1e-3, tol=1e-4, random_state=0, pack=True, fit_intercept=False)
    model.fit(X, y)
    assert model.result_.status == "converged"
    w = model.coef_[0].astype(float)
    losses = np.maximum(0, 1 - y * (X @ w))
    primal = 0.5e-3 * w @ w + losses.mean()
    assert model.result_.primal == pytest.approx(primal, rel=1e-12)
    best = SDCAClassifier(alpha=1e-3, tol=1e-9, random_state=0, fit_intercept=False).fit(X, y)
    assert primal - best.result_.primal <= 1e-4 * primal


@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_records_hold_the_rows(values, indices):
    X = example(values, indices)
    targets = np.arange(40.0)
    packed = PackedRows(Matrix(X), targets)
    memory = packed.buffer.view(np.uint8)
    assert packed.exact
    assert memory.size == packed.offsets[-1] == HEADER * 40 + 8 * X.nnz
    for i in range(40):
        record = memory[packed.offsets[i] : packed.offsets[i + 1]]
        start, stop = X.indptr[i], X.indptr[i + 1]
        entries = record[HEADER:]
        np.testing.assert_array_equal(record[:HEADER].view(float), [0, 0, targets[i]])
        np.testing.assert_array_equal(
            entries[: len(entries) // 2].view(np.float32), X.data[start:stop]
        )
        np.testing.assert_array_equal(
            entries[len(entries) // 2 :].view(np.int32), X.indices[start:stop]
        )


@pytest.mark.parametrize("value", [0.1, 1 + 2.0**-30])
@pytest.mark.parametrize("make", [example, short_example])
def test_rounded_values_are_told(value, make):
    X = make(np.float64)
    X.data[7] = value
    assert not PackedRows(Matrix(X), np.ones(X.shape[0])).exact


def test_no_entries():
    for shape in ((1, 3), (3, 3)):
        packed = PackedRows(Matrix(sparse.csr_array(shape)), np.ones(shape[0]))
        assert packed.exact
        assert packed.offsets[-1] == HEADER * shape[0]


def test_dense_rows_and_too_many_columns_are_refused():
    many = (np.ones(1), np.array([2**31]), np.array([0, 1]))
    for X in (np.ones((1, 3)), sparse.csr_array(many, shape=(1, 2**31 + 1))):
        with pytest.raises(ValueError, match="sparse rows with fewer than"):
            PackedRows(Matrix(X), np.ones(1))


@pytest.mark.parametrize("value", [1e39, -1e39, 1e-60, 1.1e-42])
def test_values_beyond_float32_are_refused(value):
    short = short_example(np.float64)
    short.data[-1] = value
    assert is_short(short_example(np.float64))
    for X in (sparse.csr_array(np.array([[1.0, value], [0.1, 0.0]])), short):
        with pytest.raises(ValueError, match="float32"):
            PackedRows(Matrix(X), np.ones(X.shape[0]))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_change_nothing(n_threads):
    packed = [PackedRows(Matrix(example()), np.ones(40), threads) for threads in (1, n_threads)]
    np.testing.assert_array_equal(*(rows.buffer.view(np.uint8) for rows in packed))


def test_threads_change_no_short_row():
    X = short_example(n_rows=2000)
    one, two = (PackedRows(Matrix(X), np.ones(2000), threads).buffer for threads in (1, 2))
    used = 5 * np.diff(X.indptr)
    for mine, theirs, size in zip(one, two, used, strict=True):
        np.testing.assert_array_equal(mine[:size], theirs[:size])
    np.testing.assert_array_equal(one[:, -1], two[:, -1])
