"""Rows and columns computed on demand: held while they are read, counted, checked."""

import contextlib
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from sublinear import SIMBAClassifier
from sublinear._core.computed import ComputedMatrix
from sublinear._core.matrix import Matrix
from sublinear.data import AccessBudgetError, FeatureOracle, FourierFeatures


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(30, 7))


def oracle(X, **options):
    return FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j], **options)


class TestComputedMatrix:
    def matrix(self, X, capacity, **options):
        self.asked = []

        def compute(i):
            self.asked.append(i)
            return X[i]

        return ComputedMatrix(compute, X.shape, X.dtype, capacity, **options)

    def test_every_row_is_read_as_it_is(self, X):
        matrix, w = self.matrix(X, 4), np.arange(7.0)
        order = np.random.default_rng(1).integers(30, size=100)
        np.testing.assert_array_equal(matrix.row_dots(w, order), Matrix(X).row_dots(w, order))
        np.testing.assert_array_equal(matrix.squared_norms(), Matrix(X).squared_norms())
        assert (matrix.n_rows, matrix.n_columns, matrix.n_stored) == (30, 7, 210)

    def test_constant_column(self, X):
        matrix, w = self.matrix(X, 4, constant=2.0), np.arange(8.0)
        expected = Matrix(X, constant=2.0)
        np.testing.assert_array_equal(
            matrix.row_dots(w, np.arange(30)), expected.row_dots(w, np.arange(30))
        )
        np.testing.assert_array_equal(matrix.squared_norms(), expected.squared_norms())

    def test_what_is_held_is_not_computed_again(self, X):
        matrix = self.matrix(X, 4)
        for lines in ([0, 1], [1, 2, 1], [3], [0, 3]):
            matrix.hold(lines)
        assert self.asked == [0, 1, 2, 3]
        matrix.hold([4])  # in place of one of them
        matrix.hold([0, 1, 2, 3])
        assert len(self.asked) == 6

    def test_lines_asked_for_together_stay_together(self, X):
        matrix, w = self.matrix(X, 3), np.ones(7)
        random = np.random.default_rng(2)
        for _ in range(200):
            lines = random.integers(30, size=3)
            matrix.hold(lines)
            np.testing.assert_array_equal(
                Matrix.row_dots(matrix, w, lines), Matrix(X).row_dots(w, lines)
            )

    def test_too_many_at_once(self, X):
        with pytest.raises(ValueError, match=r"4 lines are needed at once.*room for 3"):
            self.matrix(X, 3).hold([1, 2, 3, 4])

    def test_what_is_not_held_is_nan(self, X):
        matrix = self.matrix(X, 3)
        matrix.hold([1])
        assert np.isnan(Matrix.row_dots(matrix, np.ones(7), np.array([2]))).all()

    def test_a_computation_that_fails_leaves_the_others(self, X):
        def compute(i):
            if i == 5:
                raise ArithmeticError("five")
            return X[i]

        matrix = ComputedMatrix(compute, X.shape, X.dtype, 2)
        matrix.hold([1, 2])
        with pytest.raises(ArithmeticError, match="five"):
            matrix.hold([5, 2])
        np.testing.assert_array_equal(
            matrix.row_dots(np.ones(7), [1, 2]), Matrix(X).row_dots(np.ones(7), [1, 2])
        )
        with pytest.raises(IndexError, match="out of range"):
            matrix.hold([30])


class TestFeatureOracle:
    def test_counts(self, X):
        source = oracle(X)
        np.testing.assert_array_equal(source.row(3), X[3])
        np.testing.assert_array_equal(source.column(2), X[:, 2])
        assert source.accesses == 37
        assert (source.n_rows_computed, source.n_columns_computed) == (1, 1)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_matrix(self, X, dtype):
        source = oracle(X, dtype=dtype, cache=0)
        matrix = source.matrix(constant=1.0)
        assert matrix.dtype == dtype
        w = np.arange(8.0)
        np.testing.assert_array_equal(
            matrix.row_dots(w, np.arange(30)),
            Matrix(X.astype(dtype), constant=1.0).row_dots(w, np.arange(30)),
        )
        columns, w = matrix.transposed(), np.arange(30.0)
        assert (columns.n_rows, columns.n_columns, columns.constant) == (7, 30, 0.0)
        np.testing.assert_allclose(
            columns.row_dots(w, np.arange(7)), X.astype(dtype).T @ w, rtol=1e-6
        )

    def test_budget(self, X):
        source = oracle(X, budget=40)
        source.column(0)
        source.row(0)
        with pytest.raises(
            AccessBudgetError, match=r"row 1 has 7 values, but only 3 of the budget of 40"
        ):
            source.row(1)
        assert source.accesses == 37

    @pytest.mark.parametrize(
        "values, words",
        [
            (np.ones(6), r"row 4 has shape \(6,\), it must have \(7,\)"),
            (np.ones((1, 7)), r"row 4 has shape \(1, 7\)"),
            (np.full(7, np.nan), "row 4 holds NaN"),
            (np.full(7, -np.inf), "row 4 holds NaN or infinity"),
            (np.full(7, 1e39), "row 4 holds what float32 cannot hold"),
            (np.full(7, 1j), "no real numbers"),
            (list("abcdefg"), "no real numbers"),
        ],
    )
    def test_what_makes_no_line_is_refused(self, values, words):
        source = FeatureOracle((30, 7), lambda i: values, lambda j: values, dtype=np.float32)
        with pytest.raises(ValueError, match=words):
            source.matrix().hold([4])
        assert source.accesses == 0

    @pytest.mark.parametrize(
        "options, words",
        [
            ({"shape": (0, 3)}, "number of rows"),
            ({"shape": (3, 0.5)}, "number of columns"),
            ({"shape": (3,)}, "shape must be two numbers"),
            ({"row": None}, "row must be callable, got None"),
            ({"column": 3}, "column must be callable, got 3"),
            ({"dtype": np.int64}, "dtype"),
            ({"budget": -1}, "budget"),
            ({"cache": 0.5}, "cache"),
        ],
    )
    def test_unusable_parameters(self, options, words):
        options = {"shape": (3, 3), "row": np.ones, "column": np.ones, **options}
        with pytest.raises(ValueError, match=words):
            FeatureOracle(**options)


def test_the_largest_norm_is_found_in_rows_that_are_kept():
    rows = np.random.default_rng(0).normal(size=(20, 6))
    y = np.arange(20) % 2
    source = FeatureOracle(
        rows.shape, lambda i: rows[i], lambda j: rows[:, j], budget=2 * rows.size
    )
    SIMBAClassifier(0.1, epsilon=0.1, random_state=0).fit(source, y)
    assert source.n_rows_computed <= 20 and source.n_columns_computed <= 6


class TestFourierFeatures:
    def test_rows_to_transform_are_checked(self):
        features = FourierFeatures(np.eye(3), 7, random_state=0)
        assert features.transform([[0, 0, 1]]).shape == (1, 7)
        for rows, words in (
            ([[0.0, np.nan, 1.0]], "NaN"),
            ([[1.0, 2.0]], "2 columns"),
            ([1.0], "2D"),
        ):
            with pytest.raises(ValueError, match=words):
                features.transform(rows)

    def test_inner_products_approach_the_kernel(self, X):
        features = FourierFeatures(X, 20_000, gamma=0.1, random_state=0)
        rows = np.array([features.row(i) for i in range(10)])
        np.testing.assert_allclose(rows @ rows.T, rbf_kernel(X[:10], gamma=0.1), atol=0.04)

    def test_rows_and_columns_agree(self, X):
        features = FourierFeatures(X, 40, gamma=0.5, random_state=1)
        whole = features.transform(X)
        np.testing.assert_allclose(features.row(5), whole[5], rtol=1e-12)
        np.testing.assert_allclose(features.column(11), whole[:, 11], rtol=1e-12)

    def test_sparse_rows(self, X):
        dense, thin = (
            FourierFeatures(kind, 40, random_state=1) for kind in (X, sparse.csr_array(X))
        )
        np.testing.assert_allclose(dense.row(2), thin.row(2), rtol=1e-12)
        np.testing.assert_allclose(dense.column(2), thin.column(2), rtol=1e-12)

    @pytest.mark.parametrize("options", [{"gamma": 0}, {"n_components": 0}])
    def test_unusable_parameters(self, X, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            FourierFeatures(X, **options)


@pytest.mark.parametrize(
    ("kind", "number"), [("row", -1), ("row", 30), ("row", 1.5), ("column", 7)]
)
def test_lines_that_are_not_there(X, kind, number):
    lines = oracle(X)
    with pytest.raises(IndexError, match=f"{kind} {number} is not there: the last of"):
        getattr(lines, kind)(number)
    assert lines.accesses == 0


def test_sizes_of_any_integer_type(X):
    lines = FeatureOracle(
        np.array(X.shape, np.int8), lambda i: X[i], lambda j: X[:, j], budget=10**4
    )
    for i in range(60):
        lines.row(i % 30)
    assert lines.accesses == 420 and lines.shape == (30, 7)
    assert all(type(size) is int for size in (*lines.shape, lines.accesses))


def test_threads_share_a_budget(X):
    started = threading.Barrier(8)

    def row(i):
        time.sleep(1e-3)
        return X[i]

    lines = FeatureOracle(X.shape, row, lambda j: X[:, j], budget=70)

    def ask():
        started.wait()
        with contextlib.suppress(AccessBudgetError):
            for i in range(10):
                lines.row(i)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lines.accesses == 70
    with pytest.raises(AccessBudgetError, match="only 0 of the budget of 70"):
        lines.row(0)


def test_values_that_were_not_computed_do_not_count(X):
    def fails(i):
        raise RuntimeError("no row")

    lines = FeatureOracle(X.shape, fails, lambda j: X[:, j], budget=7)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="no row"):
            lines.row(0)
    assert lines.accesses == 0
