"""SIMBAClassifier: what it finds and proves, its parameters, its path."""

import numpy as np
import pytest
from reference import certificates
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from sublinear import (
    PegasosClassifier,
    SDCAClassifier,
    SIMBAClassifier,
    SublinearPerceptron,
    simba_path,
)
from sublinear._core.matrix import Matrix
from sublinear._saddle_problems import SlackMargin, best_scale, slack_margin, slack_mass
from sublinear.data import AccessBudgetError, DualStore, FeatureOracle, FourierFeatures


@pytest.fixture(scope="module")
def data():
    """120 rows in R^8 that no hyperplane separates; the longest has length 1."""
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 8)) * (random.random((120, 8)) < 0.7)
    y = X @ random.normal(size=8) + 0.5 + 0.5 * random.normal(size=120) > 0
    return X / np.linalg.norm(X, axis=1).max(), np.where(y, 1, -1)


@pytest.mark.parametrize("nu", [0.0, 0.1, 0.5, 1.0])
def test_certificate_formulas_are_the_oracles(nu):
    random = np.random.default_rng(1)
    margins, p = random.normal(size=40), random.dirichlet(np.ones(40))
    for scale in (1.0, 5.0):
        expected = certificates.slack_margin(scale * margins, nu)
        assert slack_margin(scale * margins, nu) == pytest.approx(expected, abs=1e-12)
    assert slack_mass(p, nu) == certificates.slack_mass(p, nu)


@pytest.mark.parametrize("nu", [0.0, 0.01, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("shift", [-2.0, -0.3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [3, 60])
def test_the_best_scale_is_that_of_a_search(nu, shift, n):
    margins = shift + np.random.default_rng(2).normal(size=n) * np.array([0.1, 1.0, 9.0])[n % 3]
    best = best_scale(margins, nu)
    assert 0 <= best <= 1
    tried = max(slack_margin(t * margins, nu) for t in np.linspace(0, 1, 2001))
    assert tried <= slack_margin(best * margins, nu) + 1e-12


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rates", ["adaptive", "constant"])
def test_the_margin_is_that_of_the_exact_machine(data, bias, rates):
    """LinearSVC's solution has margin 1 / |w| at nu = hinge loss / |w| (Lemma 2.1)."""
    X, y = data
    exact = LinearSVC(loss="hinge", C=3.0, fit_intercept=False, tol=1e-10, max_iter=10**6)
    w = exact.fit(X, y).coef_[0]
    nu = np.maximum(0, 1 - y * (X @ w)).mean() / np.linalg.norm(w)
    options = {"nu": nu, "fit_intercept": bias, "rates": rates, "random_state": 0}
    model = SIMBAClassifier(epsilon=0.05, **options).fit(X, y)
    result = model.result_
    assert result.status == "converged"
    assert result.primal <= result.dual
    assert result.gap == pytest.approx(result.dual - result.primal)
    assert result.gap <= 0.05
    if bias:  # b may only add to the margin
        assert result.dual >= 1 / np.linalg.norm(w) - 1e-9
    else:
        assert result.primal - 1e-9 <= 1 / np.linalg.norm(w) <= result.dual + 1e-9
    # what Lemma 2.1 promises of the rescaled solution
    slack = np.maximum(0, 1 - y * (X @ model.coef_[0] + model.intercept_[0]))
    assert slack.mean() <= nu / result.primal * (1 + 1e-9)
    assert np.linalg.norm(model.coef_) == pytest.approx(1 / result.primal)


def test_no_model_is_worse_than_a_constant():
    """The best constant has margin nu n / (2 * the rarer ones)."""
    X = np.tile([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], (20, 1))
    y = np.tile([1, 1, -1, -1, -1], 20)
    model = SIMBAClassifier(0.1, epsilon=0.01, random_state=0).fit(X, y)
    assert model.result_.status == "converged"
    assert 0.115 <= model.result_.primal <= 0.125 + 1e-12
    losses = np.maximum(0, 1 - y * model.decision_function(X))
    assert losses.mean() <= 0.1 / model.result_.primal + 1e-9


def test_a_direction_that_only_loses_gives_way_to_the_frequent_class():
    matrix, targets = Matrix(np.array([[1.0], [0.5], [-1.0]]), 1.0), np.array([1.0, 1.0, -1.0])
    problem = SlackMargin(targets, 0.1, 1.0, True)
    w, p = np.array([-0.5]), np.full(3, 1 / 3)
    model, primal, _ = problem.certificate(matrix, w, -0.5, p, lambda model: model)
    np.testing.assert_array_equal(model, [0.0, 1.0])
    assert primal == pytest.approx(-0.15)


def test_a_margin_is_that_of_the_rounded_weights(data):
    X, y = data
    problem, p = SlackMargin(y.astype(float), 0.0, 1.0, False), np.full(120, 1 / 120)
    for w in np.random.default_rng(0).normal(size=(10, 8)):
        model, primal, _ = problem.certificate(Matrix(X), w, 0.0, p, lambda model: model.round(2))
        assert -primal <= (y * (X @ model)).min()


@pytest.mark.parametrize("bias", [True, False])
def test_without_slack_rows_that_are_not_separable_have_margin_zero(data, bias):
    X, y = data
    model = SIMBAClassifier(0.0, epsilon=0.1, fit_intercept=bias, random_state=0).fit(X, y)
    result = model.result_
    assert result.status == "not_separable"
    assert 0 <= result.dual <= 0.1
    assert result.primal == pytest.approx((y * model.decision_function(X)).min())
    assert result.primal < 0 and result.gap == result.dual - result.primal


def test_gap_is_proved_in_every_row_of_the_trace(data):
    result = SIMBAClassifier(0.1, epsilon=0.03, random_state=0).fit(*data).result_
    assert len(result.trace) > 1
    for row in result.trace:
        assert row.primal <= row.dual
        assert row.gap >= 0
    assert [row.n_iter for row in result.trace][:2] == [1024, 3 * 1024]


def test_dense_sparse_and_float32_agree(data):
    X, y = data
    X = X.astype(np.float32).astype(np.float64)
    options = {"nu": 0.1, "certify": "exact", "max_iter": 500, "random_state": 0}
    dense = SIMBAClassifier(**options).fit(X, y)
    thin = SIMBAClassifier(**options).fit(sparse.csr_array(X), y)
    single = SIMBAClassifier(**options).fit(sparse.csr_array(X.astype(np.float32)), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(thin.coef_, single.coef_, rtol=1e-5)
    assert single.result_.primal <= thin.result_.primal
    assert single.result_.primal == pytest.approx(thin.result_.primal, abs=1e-6)
    # zeros are stored in dense data, so slack is found anew at other steps
    assert dense.score(X, y) == pytest.approx(thin.score(X, y), abs=0.1)


def test_same_seed_same_model(data):
    options = {"nu": 0.1, "certify": None, "max_iter": 300}
    models = [SIMBAClassifier(random_state=3, **options).fit(*data) for _ in range(2)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    other = SIMBAClassifier(random_state=4, **options).fit(*data)
    assert not np.array_equal(models[0].coef_, other.coef_)


def test_without_a_certificate(data):
    model = SIMBAClassifier(0.1, certify=None, max_iter=2000, random_state=0).fit(*data)
    assert model.result_.status == "uncertified"
    assert np.isnan(model.result_.primal)
    assert model.result_.certificate_accesses == data[0].size  # the rows' norms
    assert model.score(*data) > 0.75
    length = np.linalg.norm(model.coef_) * np.linalg.norm(data[0], axis=1).max()
    assert 0.5 < length < 1  # the mean of w, which is not stretched
    given = SIMBAClassifier(0.1, certify=None, max_iter=2000, random_state=0, row_norm=1.0).fit(
        *data
    )
    assert given.result_.certificate_accesses == 0


def test_number_of_steps_by_epsilon(data):
    model = SIMBAClassifier(0.1, epsilon=0.1, certify="exact", random_state=0).fit(*data)
    assert model.n_iter_ == np.ceil(np.log(120) / 0.01)
    theory = SIMBAClassifier(
        0.1, epsilon=8.0, certify="exact", constants="theory", rates="constant", random_state=0
    ).fit(*data)
    assert theory.n_iter_ == np.ceil(100**2 * np.log(120) / 64)


def test_budget_is_hard_and_both_accountings_are_reported(data):
    X, y = data
    X = sparse.csr_array(X)
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        model = SIMBAClassifier(0.1, epsilon=1e-4, max_accesses=5000, random_state=0).fit(X, y)
    assert 4000 < model.result_.accesses <= 5000
    assert model.result_.full_accesses == model.n_iter_ * sum(X.shape)
    with pytest.warns(ConvergenceWarning, match="max_accesses"):
        nothing = SIMBAClassifier(0.1, max_accesses=1, random_state=0).fit(X, y)
    assert nothing.n_iter_ == 0
    assert np.isfinite(nothing.coef_).all()


def test_three_classes():
    random = np.random.default_rng(2)
    y = np.repeat(["a", "b", "c"], 60)
    X = random.normal(size=(180, 3)) * 0.1 + np.repeat(np.eye(3), 60, axis=0)
    model = SIMBAClassifier(0.2, epsilon=0.05, random_state=0, n_jobs=2).fit(X, y)
    assert model.coef_.shape == (3, 3)
    assert model.score(X, y) > 0.95
    single = clone(model).set_params(n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(single.coef_, model.coef_)


def test_weights_are_repetitions(data):
    X, y = data
    weights = np.arange(len(y)) % 3 * 0.5
    repeated = np.repeat(np.arange(len(y)), np.arange(len(y)) % 3)
    options = {"nu": 0.1, "certify": "exact", "max_iter": 200, "random_state": 0}
    weighted = SIMBAClassifier(**options).fit(X, y, sample_weight=weights)
    expected = SIMBAClassifier(**options).fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(weighted.coef_, expected.coef_)
    twos, copies = np.array([2, 3] * len(y))[: len(y)], SIMBAClassifier(**options)
    weighted.fit(X, y, sample_weight=2 * twos)
    copies.fit(np.repeat(X, twos, axis=0), np.repeat(y, twos))
    np.testing.assert_array_equal(weighted.coef_, copies.coef_)
    with pytest.raises(ValueError, match="whole multiples"):
        SIMBAClassifier().fit(X, y, sample_weight=weights + 0.3)


def test_a_budget_that_ends_an_exact_fit_warns(data):
    model = SIMBAClassifier(0.1, certify="exact", max_accesses=2000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped at max_accesses with a gap"):
        model.fit(*data)


def test_weights_that_make_too_many_repetitions_are_refused(data):
    X, y = data
    weights = np.ones(len(y))
    for least in (1e-12, 1e-5):
        weights[0] = least
        with pytest.raises(ValueError, match="too many repetitions"):
            SIMBAClassifier(0.1).fit(X, y, sample_weight=weights)


def test_paths_take_weights(data):
    X, y = data
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    options = {"epsilon": 0.1, "random_state": 0}
    (model,) = simba_path(X, y, 0.2, sample_weight=weights, **options)
    expected = SIMBAClassifier(0.2, **options).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_the_clock_does_not_decide_where_a_fit_ends(data, monkeypatch):
    fits = []
    for seconds in (1e-9, 1.0):
        monkeypatch.setattr("sublinear._drive.SLICE_SECONDS", seconds)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            fits.append(
                SIMBAClassifier(0.1, epsilon=1e-6, max_iter=5000, random_state=0).fit(*data)
            )
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].n_iter_ == fits[1].n_iter_ == 5000


def test_an_interrupt_leaves_no_states(data):
    def stop(snapshot):
        raise KeyboardInterrupt

    model = SIMBAClassifier(0.1, random_state=0, callback=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert hasattr(model, "coef_") and not hasattr(model, "_states")


def test_path_goes_on_from_the_last_model(data):
    nus = [0.05, 0.1]
    options = {"certify": "exact", "max_iter": 1000, "random_state": 0}
    models = simba_path(*data, nus, **options)
    assert [model.nu for model in models] == nus
    cold = [SIMBAClassifier(nu, **options).fit(*data) for nu in nus]
    np.testing.assert_array_equal(models[0].coef_, cold[0].coef_)
    assert not np.array_equal(models[1].coef_, cold[1].coef_)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"nu": 1.5}, "nu must be a number of at least 0 and at most 1"),
        ({"nu": -0.1}, "nu"),
        ({"epsilon": 0.0}, "epsilon must be a number above 0"),
        ({"rates": "fast"}, "rates must be one of"),
        ({"certify": "sampled"}, "certify must be one of"),
        ({"constants": "best"}, "constants must be one of"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_accesses": 0.5}, "max_accesses"),
        ({"row_norm": 0}, "row_norm"),
        ({"callback": 3}, "callback"),
        ({"fit_intercept": "no"}, "fit_intercept"),
    ],
)
def test_unusable_parameters(data, options, words):
    with pytest.raises(ValueError, match=words):
        SIMBAClassifier(**options).fit(*data)


def test_rows_of_zeros_and_single_features():
    X = np.array([[0.0], [1.0], [-1.0], [0.8]])
    y = np.array([1, 1, -1, 1])
    model = SIMBAClassifier(0.2, epsilon=0.05, random_state=0).fit(X, y)
    assert model.predict([[1.0], [-1.0]]).tolist() == [1, -1]
    zeros = SIMBAClassifier(0.2, epsilon=0.1, random_state=0).fit(np.zeros((4, 2)), y)
    assert np.isfinite(zeros.coef_).all()
    result = SIMBAClassifier(0.0, fit_intercept=False).fit(np.zeros((4, 2)), y).result_
    assert (result.primal, result.status) == (0.0, "not_separable")


class TestDataThatIsDearToRead:
    options = {"nu": 0.1, "certify": "exact", "max_iter": 300, "random_state": 0}

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_a_store_gives_what_memory_gives(self, data, tmp_path, kind):
        X, y = data
        store = DualStore.build(tmp_path / "store", kind(X))
        expected = SIMBAClassifier(**self.options).fit(kind(X), y)
        found = SIMBAClassifier(**self.options).fit(store, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.n_features_in_ == 8
        assert found.result_.accesses == expected.result_.accesses
        with pytest.raises(ValueError, match="needs rows in memory"):
            SIMBAClassifier().fit(store, y, sample_weight=np.arange(len(y)) % 2.0)
        with pytest.raises(ValueError, match="inconsistent"):
            SIMBAClassifier().fit(store, y[:-1])

    @pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier])
    def test_other_models_take_stores_too(self, data, tmp_path, make):
        X, y = data
        store = DualStore.build(tmp_path / "store", sparse.csr_array(X))
        model = make(alpha=0.1, random_state=0)
        expected = clone(model).fit(sparse.csr_array(X), y)
        np.testing.assert_array_equal(model.fit(store, y).coef_, expected.coef_)

    def test_an_oracle_is_asked_for_what_is_read(self, data):
        X, y = data
        oracle = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j], cache=0)
        expected = SIMBAClassifier(**self.options, row_norm=1.0).fit(X, y)
        found = SIMBAClassifier(**self.options, row_norm=1.0).fit(oracle, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        few = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j])
        options = self.options | {"certify": None, "max_iter": 10, "row_norm": 1.0}
        result = SIMBAClassifier(**options).fit(few, y).result_
        assert few.n_rows_computed <= 10
        assert few.n_columns_computed <= 8
        assert few.accesses <= result.accesses == 10 * sum(X.shape)

    def test_an_oracle_with_a_budget(self, data):
        X, y = data
        oracle = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j], budget=700)
        options = self.options | {"certify": None, "row_norm": 1.0}
        model = SIMBAClassifier(**options)
        with pytest.raises(AccessBudgetError, match="budget of 700"):
            model.fit(oracle, y)
        assert oracle.accesses <= 700
        assert model.result_.status == "interrupted"
        assert np.isfinite(model.coef_).all() and model.coef_.any()

    def test_an_oracle_that_fails(self, data):
        X, y = data
        oracle = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:-1, j])
        with pytest.raises(ValueError, match=r"column \d has shape \(119,\)"):
            SIMBAClassifier(**self.options, row_norm=1.0).fit(oracle, y)

    def test_who_reads_everything_refuses_an_oracle(self, data):
        X, y = data
        oracle = FeatureOracle(X.shape, lambda i: X[i], lambda j: X[:, j])
        with pytest.raises(ValueError, match="SDCAClassifier does not take a FeatureOracle"):
            SDCAClassifier().fit(oracle, y)

    def test_fourier_features_separate_what_no_hyperplane_does(self):
        random = np.random.default_rng(0)
        X = random.uniform(-1, 1, size=(400, 2))
        y = np.where(np.linalg.norm(X, axis=1) < 0.7, 1, -1)
        features = FourierFeatures(X, 300, gamma=2.0, random_state=0)
        model = SIMBAClassifier(0.02, certify=None, max_iter=4000, row_norm=1.5, random_state=0)
        model.fit(features, y)
        assert model.score(features.transform(X), y) > 0.9


@pytest.mark.parametrize("make", [SIMBAClassifier, SublinearPerceptron])
def test_the_bound_holds_where_weights_range_widely(make):
    """A large margin lets weights of rows, and sums of their factors, range over powers of 2."""
    random, n, k = np.random.default_rng(0), 2000, 5
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    columns = [1 + random.choice(n - 1, k, replace=False) for _ in range(n)]
    values = np.c_[0.8 * signs, 0.6 / np.sqrt(k) * random.choice([-1, 1], (n, k))].ravel()
    places = np.repeat(np.arange(n), k + 1), np.c_[np.zeros(n, int), columns].ravel()
    X = sparse.csr_array((values, places), shape=(n, n))  # the first column's margin is 0.8
    given = {"nu": 0.0} if make is SIMBAClassifier else {"variant": "plain"}
    result = make(epsilon=0.01, random_state=0, **given).fit(X, signs).result_
    assert result.status == "converged"
    assert result.dual >= 0.8 and result.primal >= 0.79
