"""WeightVector against a plain array with a plain list of its past values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sublinear._core.iterates import mean_with
from sublinear._core.matrix import Matrix
from sublinear._core.weight_vector import WeightVector

ROWS = np.array(
    [[1.0, 0, -2, 0, 0.5], [0, 0, 0, 0, 0], [0, 3, 0, 0, 0], [-1, 1, 1, 2, 4], [0, 0, 0, 0, 1]]
)
MATRICES = {"dense": Matrix(ROWS, 1.0), "sparse": Matrix(sparse.csr_array(ROWS), 1.0)}
EXTENDED = np.column_stack([ROWS, np.ones(len(ROWS))])
SIZE = EXTENDED.shape[1]

row = st.integers(0, len(ROWS) - 1)
factor = st.floats(-10, 10, allow_subnormal=False).filter(lambda c: c == 0 or abs(c) > 1e-6)
operation = st.one_of(
    st.tuples(st.just("add"), row, factor),
    st.tuples(st.just("shrink"), st.just(0.0) | st.floats(0.3, 2)),
    st.tuples(st.just("project"), st.floats(0.1, 50)),
    st.tuples(st.just("count")),
    st.tuples(st.just("set"), st.lists(factor, min_size=SIZE, max_size=SIZE)),
)


class Model:
    """What WeightVector promises, in plain NumPy."""

    def __init__(self):
        self.w, self.counted = np.zeros(SIZE), []

    def add(self, i, factor):
        self.w = self.w + factor * EXTENDED[i]

    def shrink(self, factor):
        self.w = self.w * factor

    def project(self, radius):
        self.w = self.w * min(1, radius / max(np.linalg.norm(self.w), 1e-300))

    def count(self):
        self.counted.append(self.w)

    def set(self, w):
        self.w, self.counted = np.array(w), []

    def average(self):
        return np.mean(self.counted, axis=0) if self.counted else self.w


def average(vector):
    """The mean of the iterates counted so far, or w if there is none."""
    return mean_with(vector, 0, 0.0)


def apply(vector, matrix, name, *arguments):
    if name == "add":
        vector.add_row(matrix, *arguments)
    elif name == "count":
        vector.count_in_average()
    else:
        getattr(vector, name)(*arguments)


@given(st.lists(operation, max_size=40), st.sampled_from(list(MATRICES)))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_random_operations(operations, storage):
    matrix = MATRICES[storage]
    vector, model = WeightVector(SIZE, averaged=True), Model()
    largest = 1.0
    for name, *arguments in operations:
        apply(vector, matrix, name, *arguments)
        getattr(model, name)(*arguments)
        largest = max(largest, np.abs(model.w).max())
        w = vector.to_array()
        np.testing.assert_allclose(w, model.w, atol=1e-13 * largest * len(operations))
        # the cached norm is that of the vector as it is, rounding included
        np.testing.assert_allclose(vector.squared_norm, w @ w, rtol=1e-9, atol=1e-300)
        assert vector.n_averaged == len(model.counted)
        np.testing.assert_allclose(average(vector), model.average(), atol=1e-9 * largest)
    for i in range(len(ROWS)):
        np.testing.assert_allclose(
            vector.dot_row(matrix, i), EXTENDED[i] @ model.w, atol=1e-11 * largest
        )


@given(
    st.integers(0, 2**32 - 1),
    st.floats(-6, 6),
    st.sampled_from([0.3, 0.999, 1.0]),
    st.sampled_from([0.1, 5.0, 1e9]),
    st.sampled_from(list(MATRICES)),
)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_a_million_operations(seed, exponent, shrinking, radius, storage):
    """Ten times 10^5: w and its norm drift by less than 1e-9 of what the errors come from."""
    random = np.random.default_rng(seed)
    matrix, vector = MATRICES[storage], WeightVector(SIZE)
    count = 100_000
    kinds = random.choice(3, p=[0.5, 0.4, 0.1], size=count).tolist()
    rows = random.integers(len(ROWS), size=count).tolist()
    additions = (10**exponent * random.normal(size=count)).tolist()
    factors = random.uniform(shrinking, 1, size=count).tolist()
    w, size = np.zeros(SIZE), 0.0  # size: of the largest w so far, shrunk as its errors are
    for t, (kind, i) in enumerate(zip(kinds, rows, strict=True)):
        if kind == 0:
            vector.add_row(matrix, i, additions[t])
            w += additions[t] * EXTENDED[i]
            size = max(size, np.sqrt(w @ w))
        else:
            factor = factors[t] if kind == 1 else min(1, radius / max(np.sqrt(w @ w), 1e-300))
            vector.shrink(factor) if kind == 1 else vector.project(radius)
            w *= factor
            size *= factor
        if t % 500 == 499:
            present = vector.to_array()
            np.testing.assert_allclose(present, w, atol=1e-9 * size, rtol=0)
            assert vector.squared_norm == pytest.approx(present @ present, rel=1e-9)


@pytest.mark.parametrize("projected", [True, False])
def test_a_stream_of_pegasos_keeps_the_norm(projected):
    """400 000 times shrinking, adding and perhaps projecting; the norm is checked throughout."""
    random = np.random.default_rng(5)
    vector = WeightVector(SIZE)
    matrix = MATRICES["sparse"]
    add, shrink, project = vector.add_row, vector.shrink, vector.project
    rows = random.integers(len(ROWS), size=400_000).tolist()
    factors = random.normal(size=400_000).tolist()
    for t, (i, change) in enumerate(zip(rows, factors, strict=True), start=2):
        shrink(1 - 1 / t)
        add(matrix, i, change / (1e-2 * t))
        if projected:
            project(5.0)
        if t % 500 == 0:
            w = vector.to_array()
            assert vector.squared_norm == pytest.approx(w @ w, rel=1e-9)
            assert not projected or w @ w <= 25 * (1 + 1e-9)


def test_cancellation_does_not_leave_a_wrong_norm():
    """What is added and taken away again leaves nothing in the cached norm either."""
    random = np.random.default_rng(6)
    matrix, vector = MATRICES["dense"], WeightVector(SIZE)
    vector.set(1e-6 * np.ones(SIZE))
    for size in 10.0 ** random.uniform(-8, 6, 2000):
        vector.add_row(matrix, 3, size)
        vector.add_row(matrix, 3, -size)
        w = vector.to_array()
        assert vector.squared_norm == pytest.approx(w @ w, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_scale_is_folded_before_it_leaves_float64(factor):
    matrix, vector = MATRICES["dense"], WeightVector(SIZE)
    w = np.arange(1.0, SIZE + 1)
    vector.set(w)
    for k in range(450):
        vector.shrink(factor if k % 90 < 45 else 1 / factor)
        w *= factor if k % 90 < 45 else 1 / factor
        size = 1e-3 * np.sqrt(vector.squared_norm)
        vector.add_row(matrix, k % 5, size)
        w += size * EXTENDED[k % 5]
        np.testing.assert_allclose(vector.to_array(), w, rtol=1e-10)
        assert vector.squared_norm == pytest.approx(w @ w, rel=1e-9)


def test_average_of_a_strongly_shrinking_vector():
    """The average must not drown in the rounding of a scale far below those of earlier iterates."""
    matrix, vector = MATRICES["dense"], WeightVector(SIZE, averaged=True)
    iterates = []
    for k in range(300):
        vector.shrink(0.3)
        vector.add_row(matrix, k % 5, 1.0)
        vector.count_in_average()
        iterates.append(vector.to_array())
    np.testing.assert_allclose(average(vector), np.mean(iterates, axis=0), atol=1e-9)


def test_set_average_continues_a_sum():
    matrix = MATRICES["dense"]
    one, other = WeightVector(SIZE, averaged=True), WeightVector(SIZE, averaged=True)
    for k in range(10):
        one.shrink(0.9)
        one.add_row(matrix, k % 5, 0.5)
        one.count_in_average()
    other.set(one.to_array())
    other.set_average(one.sum_of_iterates(), one.n_averaged)
    for vector in (one, other):
        for k in range(10):
            vector.shrink(0.8)
            vector.add_row(matrix, k % 3, -1.5)
            vector.count_in_average()
    assert one.n_averaged == other.n_averaged == 20
    np.testing.assert_allclose(average(one), average(other), rtol=1e-12)


def test_settled_vectors_are_the_vectors_own_memory_and_it_goes_on():
    matrix, vector = MATRICES["dense"], WeightVector(SIZE, averaged=True)
    for k in range(10):
        vector.shrink(0.7)
        vector.add_row(matrix, k % 5, 0.5)
        vector.count_in_average()
    w, total = vector.to_array(), vector.sum_of_iterates()
    own_w, own_total = vector.settle()
    np.testing.assert_allclose(own_w, w, rtol=1e-14)
    np.testing.assert_allclose(own_total, total, rtol=1e-13, atol=1e-14)
    vector.shrink(0.5)
    vector.count_in_average()
    np.testing.assert_allclose(vector.sum_of_iterates(), total + w / 2, rtol=1e-13, atol=1e-14)
    vector.restart_average()
    assert vector.n_averaged == 0 and not own_total.any()
    last, nothing = WeightVector(SIZE).settle()
    assert last.shape == (SIZE,) and nothing == 0.0


def test_without_norm_or_average():
    vector = WeightVector(SIZE, keeps_norm=False)
    vector.add_row(MATRICES["sparse"], 3, 2.0)
    vector.shrink(0.5)
    np.testing.assert_array_equal(vector.to_array(), EXTENDED[3])
    np.testing.assert_array_equal(average(vector), EXTENDED[3])
    with pytest.raises(ValueError, match="keeps_norm"):
        vector.project(1.0)
    with pytest.raises(ValueError, match="averaged"):
        vector.sum_of_iterates()


def test_bad_arguments():
    vector = WeightVector(SIZE)
    for i in (-1, len(ROWS)):
        with pytest.raises(IndexError):
            vector.add_row(MATRICES["dense"], i, 1.0)
        with pytest.raises(IndexError):
            vector.dot_row(MATRICES["dense"], i)
    for factor in (-0.5, np.nan):
        with pytest.raises(ValueError, match="negative"):
            vector.shrink(factor)
