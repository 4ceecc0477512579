"""Folding: fewer columns, the same inner products, the same fits."""

import numpy as np
import pytest
from scipy import sparse

from sublinear import SDCAClassifier, sdca_path
from sublinear._core import folded
from sublinear._core.matrix import Matrix

N_ROWS, N_COLUMNS = 60, 70_000


def text(dtype=np.float64, indices=np.int32, seed=0):
    """Rows with entries in 30 columns that are shared, and in others that are hardly."""
    random = np.random.default_rng(seed)
    shared = sparse.random_array((N_ROWS, 30), density=0.3, rng=random)
    rare = sparse.random_array((N_ROWS, N_COLUMNS - 30), density=2e-4, rng=random)
    X = sparse.hstack([shared, rare], format="csr")
    X = X[:, random.permutation(N_COLUMNS)].tocsr()
    X.sort_indices()
    X.data = random.normal(size=X.nnz).astype(dtype)
    X.data[X.indptr[7] : X.indptr[8]] = 0
    X.eliminate_zeros()
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    return X


def labels(X, seed=1):
    return np.where(X @ np.random.default_rng(seed).normal(size=X.shape[1]) > 0, 1, -1)


def dense(matrix):
    data, columns, offsets = matrix.arrays
    X = sparse.csr_array((data, columns, offsets), shape=(matrix.n_rows, matrix.n_columns))
    X.sum_duplicates()
    return X.toarray()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_inner_products_stay(dtype, indices, constant):
    X = text(dtype, indices)
    folding = folded.fold(Matrix(X, constant))
    rows = dense(folding.matrix)
    exact = X.astype(np.float64).toarray()
    assert rows.shape[1] == folding.n_shared + N_ROWS < N_COLUMNS / 2
    np.testing.assert_allclose(rows @ rows.T, exact @ exact.T, rtol=1e-12, atol=1e-12)
    assert folding.matrix.constant == constant


@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_weights_and_back(constant):
    X = text()
    matrix = Matrix(X, constant)
    folding = folded.fold(matrix)
    duals = np.random.default_rng(2).normal(size=N_ROWS)
    w = np.zeros(matrix.n_weights)
    matrix.add_rows(duals, np.arange(N_ROWS), w)
    short = np.zeros(folding.matrix.n_weights)
    folding.matrix.add_rows(duals, np.arange(N_ROWS), short)
    np.testing.assert_allclose(folding.expand(short), w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(folding.contract(w), short, rtol=1e-12, atol=1e-12)
    assert short @ short == pytest.approx(w @ w, rel=1e-12)
    anything = np.random.default_rng(3).normal(size=matrix.n_weights)
    np.testing.assert_allclose(
        folding.matrix.row_dots(folding.contract(anything), np.arange(N_ROWS)),
        matrix.row_dots(anything, np.arange(N_ROWS)),
        rtol=1e-12,
        atol=1e-12,
    )


def test_columns_by_frequency_in_two_halves():
    X = text()
    folding = folded.fold(Matrix(X))
    counts = np.diff(sparse.csc_array(dense(folding.matrix)).indptr)
    middle = (folding.n_shared + 1) // 2
    for part in (counts[:middle], counts[middle : folding.n_shared]):
        assert (np.diff(part) <= 0).all()
        assert part.min() >= 2
    assert counts[folding.n_shared :].max() == 1
    halves = folding.matrix.halves()
    _, columns, offsets = halves.arrays
    for k in range(2 * N_ROWS):
        part = columns[offsets[k] : offsets[k + 1]]
        assert ((part < middle) == (k % 2 == 0)).all()


def test_what_is_not_folded():
    assert folded.fold(Matrix(np.ones((3, 4)))) is None  # dense
    assert folded.fold(Matrix(text()[:, :1000].tocsr())) is None  # few columns
    same = sparse.csr_array(np.ones((2, 70_000)))
    assert folded.fold(Matrix(same)) is None  # all shared
    for scale in (1e-140, 1e140):
        assert folded.fold(Matrix(scale * text())) is None  # squares lose their precision


def folds(monkeypatch):
    """Count the matrices that are folded."""
    found = []

    def fold(matrix, n_threads):
        found.append(folded.fold(matrix, n_threads))
        return found[-1]

    monkeypatch.setattr("sublinear.sdca.fold", fold)
    return found


@pytest.mark.filterwarnings("ignore:SDCAClassifier stopped at max_iter")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [{}, {"fit_intercept": False}, {"penalize_intercept": False}, {"pack": True}, {"n_jobs": 2}],
)
def test_classes_are_fitted_as_on_unfolded_rows(monkeypatch, dtype, options):
    X = text(dtype)
    y = labels(X) + labels(X, seed=9)
    found = folds(monkeypatch)
    settings = {"alpha": 0.1, "tol": 1e-9, "max_iter": 15, "random_state": 0, **options}
    model = SDCAClassifier(**settings).fit(X, y)
    plain = SDCAClassifier(**{**settings, "pack": False}).fit(X, y)
    assert len(found) == 1  # for all classes
    assert found[0] is not None
    rounding = 1e-5 if dtype == np.float32 or "pack" in options else 1e-9
    assert model.coef_.dtype == dtype
    assert model.coef_.shape == (3, N_COLUMNS)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, rtol=rounding, atol=rounding)
    assert model.result_.gap == pytest.approx(plain.result_.gap, rel=1e-3)


def test_a_single_fit_is_not_worth_a_copy(monkeypatch):
    X = text()
    found = folds(monkeypatch)
    SDCAClassifier(alpha=0.1, random_state=0).fit(X, labels(X))
    assert found == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_certificate_is_that_of_the_stored_model(monkeypatch, dtype):
    X = text(dtype)
    y = labels(X)
    seen, found = [], folds(monkeypatch)
    path = sdca_path(
        X, y, [0.1], fit_intercept=False, tol=1e-6, random_state=0, callback=seen.append
    )
    assert found[0] is not None
    model, exact = path.models[0], X.astype(np.float64)

    def primal(w):
        return 0.05 * w @ w + np.maximum(0, 1 - y * (exact @ w)).mean()

    assert model.result_.primal == pytest.approx(
        primal(model.coef_[0].astype(np.float64)), rel=1e-13
    )
    for snapshot in seen:
        assert snapshot.coef.shape == (N_COLUMNS,)
    assert seen[-1].primal == pytest.approx(primal(seen[-1].coef), rel=1e-13)


def test_paths_and_warm_starts(monkeypatch):
    X = text()
    y = labels(X)
    found = folds(monkeypatch)
    path = sdca_path(X, y, [1.0, 0.1], random_state=0)
    plain = sdca_path(X, y, [1.0, 0.1], random_state=0, pack=False)
    assert len(found) == 1
    for one, other in zip(path.models, plain.models, strict=True):
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9, atol=1e-12)
        assert one.result_.status == "converged"
    classes = np.random.default_rng(5).integers(0, 3, N_ROWS)
    model = SDCAClassifier(alpha=0.1, random_state=0, warm_start=True).fit(X, classes)
    before = model.n_iter_
    assert model.fit(X, classes).n_iter_ < before


def test_regression():
    X = text()
    y = X @ np.random.default_rng(6).normal(size=N_COLUMNS)
    one, other = (
        sdca_path(X, y, [0.1], loss="squared", random_state=0, pack=pack).models[0]
        for pack in ("auto", False)
    )
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9, atol=1e-9)


def test_ten_thousand_copies_of_a_value_are_one_column():
    """A row whose entries are all its own has a single one left."""
    X = sparse.block_array(
        [[np.full((1, 40_000), 0.01), None], [None, np.full((1, 40_000), -0.01)]]
    )
    folding = folded.fold(Matrix(sparse.csr_array(X)))
    assert (folding.n_shared, folding.matrix.n_columns) == (0, 2)
    np.testing.assert_allclose(dense(folding.matrix), 2 * np.eye(2))
