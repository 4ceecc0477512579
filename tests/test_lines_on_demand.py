"""Fits of the sublinear family over stores and oracles: what they ask for, what they report."""

import numpy as np
import pytest
from scipy import sparse

from sublinear import (
    L2SVMClassifier,
    MinimumEnclosingBall,
    SIMBAClassifier,
    SublinearPerceptron,
    solve_matrix_game,
    solve_primal_dual,
    solve_simplex_qp,
)
from sublinear.data import AccessBudgetError, DualStore, FeatureOracle
from sublinear.primal_dual import L1Sampler, SimplexStep

N, D = 200, 150
STEPS = 96


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(N, D))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 3 * y
    return X / np.linalg.norm(X, axis=1).max(), y


UNSURE = {"certify": None, "max_iter": STEPS, "batch_size": 8, "random_state": 0}
NORMS = np.ones(N)

# name, fit without any pass, fit with certificates, what they found
FITS = {
    "perceptron": (
        lambda X, y: SublinearPerceptron(0.1, row_norm=1.0, **UNSURE).fit(X, y),
        lambda X, y: SublinearPerceptron(0.1, random_state=0).fit(X, y),
        lambda model: (model.result_, model.coef_, model.intercept_),
    ),
    "ball": (
        lambda X, y: MinimumEnclosingBall(0.1, **UNSURE).fit(X, row_norms=NORMS),
        lambda X, y: MinimumEnclosingBall(0.05, variant="variance_reduced", random_state=0).fit(X),
        lambda model: (model.result_, model.center_, model.radius_),
    ),
    "soft ball": (
        lambda X, y: MinimumEnclosingBall(0.1, nu=0.1, **UNSURE).fit(X, row_norms=NORMS),
        lambda X, y: MinimumEnclosingBall(0.05, nu=0.1, random_state=0).fit(X),
        lambda model: (model.result_, model.center_, model.radius_),
    ),
    "l2 svm": (
        None,
        lambda X, y: L2SVMClassifier(0.1, 0.1, random_state=0).fit(X, y),
        lambda model: (model.result_, model.coef_, model.intercept_),
    ),
    "qp": (
        lambda X, y: solve_simplex_qp(X, row_norm=1.0, **UNSURE),
        lambda X, y: solve_simplex_qp(X, epsilon=0.1, variant="variance_reduced", random_state=0),
        lambda result: (result, result.p),
    ),
    "game": (
        lambda X, y: solve_matrix_game(X, largest=1.0, **UNSURE),
        lambda X, y: solve_matrix_game(X, 0.1, random_state=0),
        lambda result: (result, result.row_strategy, result.column_strategy),
    ),
}
SINGLE = [name for name, fits in FITS.items() if fits[0] is not None]


def recorded(X, **options):
    """An oracle of X, and the lines it was asked for, again and again if it had to forget them."""
    asked = []

    def line(kind, values):
        return lambda k: (asked.append((kind, k)), values(k))[1]

    oracle = FeatureOracle(
        X.shape, line("row", lambda i: X[i]), line("column", lambda j: X[:, j]), **options
    )
    return oracle, asked


def assert_same(found, expected):
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-14)  # dense sums have lanes
    for name in ("accesses", "full_accesses", "certificate_accesses", "n_iter", "status"):
        assert getattr(found[0], name) == getattr(expected[0], name)


@pytest.mark.parametrize("name", SINGLE)
def test_an_oracle_is_asked_for_drawn_lines_alone(data, name):
    """Sparse data draws single lines as well: the same fit, so the counts have to be the same."""
    X, y = data
    fit, _, of = FITS[name]
    oracle, asked = recorded(X)
    found = of(fit(oracle, y))
    assert_same(found, of(fit(sparse.csr_array(X), y)))
    rows = {k for kind, k in asked if kind == "row"}
    columns = {k for kind, k in asked if kind == "column"}
    assert len(asked) == len(rows) + len(columns)  # nothing twice
    assert oracle.accesses == len(rows) * D + len(columns) * N
    assert (oracle.n_rows_computed, oracle.n_columns_computed) == (len(rows), len(columns))
    result = found[0]
    assert result.certificate_accesses == 0
    assert oracle.accesses <= result.accesses <= result.full_accesses  # a constant is not read
    assert 0 < len(rows) <= STEPS
    assert 0 < len(columns) <= STEPS


@pytest.mark.parametrize("name", FITS)
def test_certified_fits_over_an_oracle_that_keeps_few_lines(data, name):
    X, y = data
    _, fit, of = FITS[name]
    oracle, _ = recorded(X, cache=0)
    found = of(fit(oracle, y))
    assert_same(found, of(fit(sparse.csr_array(X), y)))
    total = found[0].accesses + found[0].certificate_accesses
    assert X.size <= oracle.accesses <= total
    assert found[0].status == "converged"


@pytest.mark.parametrize("make", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize("name", FITS)
def test_stores_give_what_memory_gives(data, name, make, tmp_path):
    X, y = data
    if make is sparse.csr_array:
        X = np.where(np.abs(X) > 0.05, X, 0)
    store = DualStore.build(tmp_path / "store", make(X))
    # lines of a dense store are drawn one by one, as those of an oracle are
    given = make(X) if make is sparse.csr_array else recorded(X)[0]
    for fit in FITS[name][:2]:
        if fit is None:
            continue
        of = FITS[name][2]
        found = of(fit(store, y))
        assert_same(found, of(fit(given, y)))
        read = found[0].accesses + found[0].certificate_accesses
        assert found[0].bytes_read == read * (8 if make is np.asarray else 12)
        assert of(fit(X, y))[0].bytes_read is None


def test_simba_and_several_classes_report_bytes(data, tmp_path):
    X, _ = data
    store = DualStore.build(tmp_path / "store", X.astype(np.float32))
    y = np.arange(N) % 3
    for model in (
        SIMBAClassifier(0.3, certify=None, max_iter=50, row_norm=1.0),
        SublinearPerceptron(0.1, certify=None, max_iter=64, row_norm=1.0),
    ):
        result = model.fit(store, y).result_
        assert result.bytes_read == 4 * result.accesses > 0
        assert result.bytes_read == sum(part.bytes_read for part in result.parts)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda k: np.ones(3), "has shape"),
        (lambda k: np.full(N, np.nan), "(has shape|holds NaN)"),
        (lambda k: None, "has shape"),
    ],
)
def test_lines_that_are_none_are_refused(data, name, broken, words):
    X, y = data
    for row, column in ((broken, lambda j: X[:, j]), (lambda i: X[i], broken)):
        oracle = FeatureOracle(X.shape, row, column)
        with pytest.raises(ValueError, match=f"the oracle's .* {words}"):
            FITS[name][0 if name in SINGLE else 1](oracle, y)


def test_an_error_of_the_oracle_and_its_budget_end_the_fit(data):
    X, y = data
    oracle, _ = recorded(X, budget=1000)
    with pytest.raises(AccessBudgetError, match="budget of 1000"):
        FITS["perceptron"][0](oracle, y)
    assert oracle.accesses <= 1000

    def fails(k):
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        FITS["game"][0](FeatureOracle(X.shape, lambda i: X[i], fails), y)


def test_a_batch_that_the_cache_does_not_hold(data):
    X, y = data
    oracle, _ = recorded(X, cache=0)
    with pytest.raises(ValueError, match="lines are needed at once, the cache has room for 32"):
        SublinearPerceptron(0.1, batch_size=64, random_state=0).fit(oracle, y)


def test_rows_of_a_store_cannot_be_left_out(data, tmp_path):
    X, y = data
    store = DualStore.build(tmp_path / "store", X)
    weights = (np.arange(N) % 2).astype(float)
    for model in (SublinearPerceptron(), MinimumEnclosingBall(), L2SVMClassifier()):
        with pytest.raises(ValueError, match="sample_weight may be 0 for rows in memory only"):
            model.fit(store, y, sample_weight=weights)


@pytest.mark.parametrize("norms", (np.ones(3), np.full(N, -1.0), np.full(N, np.nan)))
def test_bad_row_norms(data, norms):
    with pytest.raises(ValueError, match="row_norms must be 200 finite numbers"):
        MinimumEnclosingBall().fit(data[0], row_norms=norms)


def test_row_norms_are_no_norms_of_images(data):
    with pytest.raises(ValueError, match='row_norms needs kernel="linear"'):
        MinimumEnclosingBall(kernel="rbf", certify=None).fit(data[0], row_norms=NORMS)


@pytest.mark.parametrize(
    "options", ({"variant": "plain"}, {"variant": "variance_reduced"}, {"nu": 0.1})
)
def test_certificates_do_not_rest_on_given_row_norms(data, options):
    X, _ = data
    for rows in (X, recorded(X)[0]):
        ball = MinimumEnclosingBall(0.1, random_state=0, **options)
        expected = ball.fit(rows).result_
        found = ball.fit(rows, row_norms=0.5 * np.linalg.norm(X, axis=1)).result_
        assert (found.primal, found.dual) == (expected.primal, expected.dual)


def test_bad_bounds(data):
    with pytest.raises(ValueError, match="largest must be a number above 0"):
        solve_matrix_game(data[0], largest=0)
    with pytest.raises(ValueError, match="row_norm must be a number of at least 1e-150"):
        solve_simplex_qp(data[0], row_norm=-1)


@pytest.mark.parametrize(
    "fit",
    (
        lambda X, y: solve_matrix_game(X, 1e-3, variant="optimistic", largest=1e-4, max_iter=50),
        lambda X, y: solve_simplex_qp(X, epsilon=1e-4, variant="plain", row_norm=1e-2, max_iter=50),
        lambda X, y: SIMBAClassifier(epsilon=1e-3, row_norm=1e-2, max_iter=50).fit(X, y),
        lambda X, y: SublinearPerceptron(1e-3, row_norm=1e-3, max_iter=50).fit(X, y),
        lambda X, y: SublinearPerceptron(0.01, row_norm=1e-3, certify="exact").fit(X, y),
        lambda X, y: solve_primal_dual(
            SimplexStep(X, largest=1e-4), L1Sampler(X), 1e-3, max_iter=50
        ),
    ),
)
def test_a_limit_names_the_bound_that_steps_were_scaled_by(data, fit):
    with pytest.warns(match=r"check (largest|row_norm)=0\.\d+ first"):
        fit(*data)


def test_a_limit_names_no_bound_that_is_of_no_use(data):
    with pytest.warns(match="Raise epsilon or max_iter.$"):
        solve_simplex_qp(
            data[0], epsilon=1e-6, variant="variance_reduced", row_norm=1e-2, max_iter=50
        )
    with pytest.warns(match="Raise epsilon or max_iter.$"):
        SublinearPerceptron(1e-6, row_norm=1e-2, kernel="rbf", max_iter=50).fit(*data)


@pytest.mark.parametrize("make", [SublinearPerceptron, lambda **o: SIMBAClassifier(0.1, **o)])
def test_threads_do_not_hold_lines_of_an_oracle_at_once(make):
    X = np.random.default_rng(0).normal(size=(60, 80))
    y = np.argmax(X[:, :3], axis=1)
    options = {"epsilon": 0.3, "max_iter": 300, "random_state": 0}
    models = [
        make(n_jobs=n_jobs, **options).fit(
            FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j], cache=0), y
        )
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
