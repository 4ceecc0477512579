"""PackedRows: the copies, the flag `exact`."""

import numpy as np
import pytest
from scipy import sparse

from sublinear._core.matrix import Matrix
from sublinear._core.packed import PackedRows

HEADER = 24  # three float64: dual, curvature, target


def example(values=np.float32, indices=np.int32, n_rows=40, n_columns=25):
    random = np.random.default_rng(2)
    X = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    X[random.random(X.shape) < 0.7] = 0
    X[5] = 0
    X = sparse.csr_array(X.astype(values))
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    return X


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
def test_rounded_values_are_told(value):
    X = example(np.float64)
    X.data[7] = value
    assert not PackedRows(Matrix(X), np.ones(40)).exact


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
    X = sparse.csr_array(np.array([[1.0, value], [0.1, 0.0]]))
    with pytest.raises(ValueError, match="float32"):
        PackedRows(Matrix(X), np.ones(2))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_change_nothing(n_threads):
    packed = [PackedRows(Matrix(example()), np.ones(40), threads) for threads in (1, n_threads)]
    np.testing.assert_array_equal(*(rows.buffer.view(np.uint8) for rows in packed))
