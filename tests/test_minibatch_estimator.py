"""SDCAClassifier and SDCARegressor with batches, and with an intercept that is not penalised."""

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from sublinear import SDCAClassifier, SDCARegressor
from sublinear._core.losses import MARGIN_LOSSES
from sublinear.sources import ArraySource

RULES = ("naive", "safe", "aggressive")
SMOOTH = ("squared_hinge", "smoothed_hinge", "logistic", "squared", "huber")
ALPHA = 0.05
N_ROWS = 60


def data(name="hinge", scale=1.0, n_classes=2, seed=0):
    """Return X and y; classes are 0, 1, .. and the classes' sizes differ."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(N_ROWS, 5)) + 0.4
    X[random.random(X.shape) < 0.3] = 0
    if name in MARGIN_LOSSES:
        scores = X @ random.normal(size=(5, n_classes)) + random.normal(size=(N_ROWS, n_classes))
        y = scores.argmax(axis=1)
    else:
        y = 2 * X @ random.normal(size=5) + random.normal(size=N_ROWS) + 1
    return scale * X, y


def weights_of_rows(seed=2):
    return np.random.default_rng(seed).integers(1, 4, N_ROWS) / 2


def estimator(name="hinge", **options):
    parameters = {"alpha": ALPHA, "random_state": 0, "max_iter": 100_000, **options}
    if name in MARGIN_LOSSES:
        return SDCAClassifier(name, **parameters)
    return SDCARegressor(name, epsilon=1.35 if name == "huber" else 0.1, **parameters)


class Check:
    """The objective of a fit, in NumPy."""

    def __init__(self, name, X, y, weights=None, penalized=True):
        self.loss, self.weights, self.penalized = ORACLES[name](), weights, penalized
        self.X = np.column_stack([np.asarray(X, dtype=float), np.ones(len(y))])
        self.y = np.where(y == y.max(), 1.0, -1.0) if name in MARGIN_LOSSES else y
        self.s = np.ones(len(y)) if weights is None else weights

    def primal(self, w):
        """w holds the intercept at its end."""
        value = values.primal(self.X, self.y, self.loss, ALPHA, w, self.weights)
        return value if self.penalized else value - ALPHA / 2 * w[-1] ** 2

    def primal_of(self, model):
        return self.primal(np.append(model.coef_, model.intercept_))

    def dual(self, a):
        """Without penalty the duals must be balanced; shrinking those that prevail does that."""
        if not self.penalized:
            a = self.balanced(a)
            assert abs(self.s @ a) < 1e-12 * self.s.sum()
            return values.dual(self.X[:, :-1], self.y, self.loss, ALPHA, a, self.weights)
        return values.dual(self.X, self.y, self.loss, ALPHA, a, self.weights)

    def balanced(self, a):
        positive, negative = self.s @ np.maximum(a, 0), self.s @ np.maximum(-a, 0)
        less = min(positive, negative)
        return np.where(a > 0, a * less / max(positive, 1e-300), a * less / max(negative, 1e-300))

    def optimum(self):
        """The least objective of a smooth loss, by scipy."""
        scale = self.s / self.s.sum()
        kept = np.append(np.ones(5), float(self.penalized))

        def gradient(w):
            residual = scale * self.loss.derivative(self.X @ w, self.y)
            return ALPHA * kept * w + self.X.T @ residual

        options = {"gtol": 1e-12, "ftol": 0, "maxiter": 10_000, "maxcor": 50}
        return minimize(
            self.primal, np.zeros(6), jac=gradient, method="L-BFGS-B", options=options
        ).fun


# Batches


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_the_certificate_is_valid_for_every_loss(rule, name, weighted):
    X, y = data(name)
    weights = weights_of_rows() if weighted else None
    check = Check(name, X, y, weights)
    primals = []

    def watch(snapshot):
        primals.append(check.primal(np.append(snapshot.coef, snapshot.intercept)))

    model = estimator(
        name, batch_size=8, batch_rule=rule, tol=1e-4, callback=watch
    ).fit(X, y, weights)  # fmt: skip
    result = model.result_
    assert result.status == "converged"
    assert result.primal == pytest.approx(check.primal_of(model), rel=1e-12)
    np.testing.assert_allclose([row.primal for row in result.trace], primals, rtol=1e-12)
    duals = np.ravel(model.dual_coef_)
    assert check.dual(duals) <= result.dual + 1e-12
    for row in result.trace:
        assert row.dual <= min(primals) * (1 + 1e-12)
        assert row.gap == pytest.approx(row.primal - row.dual, abs=1e-15)


@pytest.mark.parametrize("penalized", [True, False])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_against_scipy(name, penalized):
    X, y = data(name)
    check = Check(name, X, y, weights_of_rows(), penalized)
    if penalized:
        options = {"batch_size": 8, "batch_rule": "aggressive"}
    else:
        options = {"penalize_intercept": False}
    model = estimator(name, tol=1e-10, **options).fit(X, y, weights_of_rows())
    assert model.result_.status == "converged"
    assert check.primal_of(model) == pytest.approx(check.optimum(), rel=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("average", ["last", "tail", "decaying"])
@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_rows_of_any_length_converge(rule, average, make):
    """No assumption |x_i| <= 1: rows of very different lengths, most of them far above 1."""
    X, y = data(scale=np.random.default_rng(3).lognormal(2, 1.5, size=(N_ROWS, 1)))
    assert np.median(np.linalg.norm(X, axis=1)) > 5
    options = {"alpha": 5.0, "batch_size": 8, "batch_rule": rule, "average": average}
    model = estimator(**options, tol=1e-3).fit(make(X), y)
    assert model.result_.status == "converged"
    exact = estimator(alpha=5.0, tol=1e-7).fit(X, y).result_
    assert exact.dual - 1e-12 <= model.result_.primal <= exact.primal * (1 + 1.1e-3)


@pytest.mark.parametrize("rule", RULES)
def test_the_whole_set_as_one_batch(rule):
    X, y = data()
    whole, counted = (
        estimator(batch_size=size, batch_rule=rule, tol=0, max_iter=20).fit(X, y)
        for size in ("all", N_ROWS)
    )
    np.testing.assert_array_equal(whole.coef_, counted.coef_)
    np.testing.assert_array_equal(whole.dual_coef_, counted.dual_coef_)


@pytest.mark.parametrize("rule", RULES)
def test_one_seed_gives_the_same_bits_with_any_number_of_threads(rule):
    X, y = data(n_classes=4)
    one, two = (
        estimator(batch_size=7, batch_rule=rule, tol=0, max_iter=30, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert [part.trace[-1].gap for part in one.result_.parts] == [
        part.trace[-1].gap for part in two.result_.parts
    ]


def test_a_given_sigma_squared_sets_the_pace():
    """The worst case, sigma^2 = 1, is safe and slow; the least, 1 / n, is the naive rule."""
    X, y = data()
    options = {"batch_size": 16, "tol": 0, "max_iter": 8}
    runs = {
        sigma_squared: estimator(sigma_squared=sigma_squared, **options).fit(X, y)
        for sigma_squared in (None, 1.0, 1 / N_ROWS)
    }
    naive = estimator(batch_rule="naive", **options).fit(X, y)
    np.testing.assert_allclose(runs[1 / N_ROWS].coef_, naive.coef_)
    assert runs[None].result_.dual > runs[1.0].result_.dual


def test_two_identical_examples():
    """Section 4.1, with one example's label and row turned round: the naive rule cycles."""
    X, y = np.array([[1.0], [-1.0]]), np.array([1, 0])
    options = {"alpha": 0.5, "fit_intercept": False, "batch_size": 2, "max_iter": 50}
    naive = estimator(**options, batch_rule="naive").fit(X, y)
    assert naive.result_.status == "diverged"
    assert naive.result_.primal >= 0.25
    for rule in ("safe", "aggressive"):
        model = estimator(**options, batch_rule=rule).fit(X, y)
        assert model.result_.status == "converged"
        np.testing.assert_allclose(model.coef_, [[0.5 / 0.5]], rtol=1e-3)
        np.testing.assert_allclose(model.dual_coef_, [[0.5, -0.5]], rtol=1e-3)


@pytest.mark.parametrize("average", ["last", "tail", "decaying"])
def test_divergence_keeps_the_best_finite_model(average):
    X, y = data("squared")
    options = {"batch_size": "all", "batch_rule": "naive", "average": average}
    model = estimator("squared", alpha=1e-6, **options).fit(X, y)
    result = model.result_
    assert result.status == "diverged"
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_)
    assert np.isfinite(model.dual_coef_).all()
    w = np.append(model.coef_, model.intercept_)
    at_zero = np.mean(y**2) / 2
    primal = 1e-6 / 2 * w @ w + np.mean((X @ w[:-1] + w[-1] - y) ** 2) / 2
    assert result.primal == pytest.approx(primal, rel=1e-12)
    assert result.primal <= at_zero
    assert 0 <= result.gap == pytest.approx(result.primal - result.dual)
    assert np.isfinite(model.predict(X)).all()


def test_an_overflow_is_no_certificate():
    random = np.random.default_rng(1610)
    X = random.standard_normal((20, 3))
    model = SDCAClassifier(
        "squared_hinge",
        alpha=1e-3,
        batch_size=20,
        batch_rule="naive",
        fit_intercept=False,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, X[:, 0] > 0)
    assert model.result_.status == "diverged" and model.result_.gap > 0.5


def test_zero_weights_that_are_good_enough_have_converged():
    random = np.random.default_rng(7)
    X = random.normal(size=(30, 2))
    y = np.r_[0, 1, random.integers(0, 2, 28)]
    model = SDCAClassifier(
        alpha=0.3, batch_size="all", batch_rule="naive", max_iter=2, tol=0.3, random_state=0
    ).fit(X, y)
    result = model.result_
    assert result.status == "converged" and not model.coef_.any()
    last = result.trace[-1]
    assert (last.primal, last.dual, last.gap) == (result.primal, result.dual, result.gap)
    assert (last.n_iter, last.accesses) == (result.n_iter, result.accesses)


def test_steps_that_rounding_swallows_are_told_from_long_ones():
    X, y = data("logistic")
    model = estimator("logistic", batch_size=8, batch_rule="aggressive")
    with pytest.warns(ConvergenceWarning, match="so short that rounding swallows .* scale X"):
        model.fit(1e60 * X, y)
    assert model.result_.status == "diverged"


def test_a_fit_can_go_on_with_the_safe_rule_after_divergence():
    X, y = data("squared")
    model = estimator("squared", batch_size="all", batch_rule="naive", warm_start=True, tol=1e-6)
    model.fit(X, y)
    assert model.result_.status == "diverged"
    model.set_params(batch_rule="safe", batch_size=4).fit(X, y)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("name", ["hinge", "squared"])
@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_a_warm_start_far_from_the_optimum_is_no_divergence(rule, name):
    """Duals of a large alpha are a bad start for a small one, below the dual value of zeros."""
    X, y = data(name)
    model = estimator(name, alpha=1.0, batch_size=4, batch_rule=rule, warm_start=True, tol=0.01)
    model.fit(X, y).set_params(alpha=1e-3).fit(X, y)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_warm_start_saves_epochs(rule):
    X, y = data()
    model = estimator(batch_size=8, batch_rule=rule, warm_start=True, tol=1e-4).fit(X, y)
    first = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < first
    assert model.result_.status == "converged"


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, 3.0, True, "some", None, np.nan])
@pytest.mark.parametrize("name", ["hinge", "squared"])
def test_batch_sizes_that_make_no_sense(name, batch_size):
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1"):
        estimator(name, batch_size=batch_size).fit(*data(name))


def test_a_batch_size_that_is_misspelt():
    with pytest.raises(ValueError, match=r"at least 1 or .all., got 'al'"):
        estimator("hinge", batch_size="al").fit(*data("hinge"))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["hinge", "squared"])
def test_a_batch_larger_than_the_data(name, rule):
    model = estimator(name, batch_size=N_ROWS + 1, batch_rule=rule)
    with pytest.raises(ValueError, match='batch_size=61 exceeds the 60 examples; use "all"'):
        model.fit(*data(name))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sigma_squared", [0, -0.1, 1.0001, np.nan, np.inf, "1", True])
def test_sigma_squared_that_makes_no_sense(sigma_squared, rule):
    model = estimator(batch_size=4, batch_rule=rule, sigma_squared=sigma_squared)
    with pytest.raises(ValueError, match="sigma_squared must be"):
        model.fit(*data())


@pytest.mark.parametrize("rule", ["safe", "aggressive"])
def test_sigma_squared_below_that_of_orthogonal_rows(rule):
    model = estimator(batch_size=4, batch_rule=rule, sigma_squared=0.9 / N_ROWS)
    with pytest.raises(ValueError, match=r"sigma_squared must be a number of at least 0\.0166"):
        model.fit(*data())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_rule": "brave"}, "batch_rule must be one of 'naive', 'safe', 'aggressive'"),
        ({"average": "median"}, "average must be one of 'last', 'tail', 'decaying'"),
        ({"gamma": 1.1}, "gamma must be"),
        ({"gamma": -0.1}, "gamma must be"),
        ({"penalize_intercept": False}, "penalize_intercept=False needs batch_size=1"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        estimator(batch_size=4, **options).fit(*data())


# An intercept that is not penalised


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ORACLES)
def test_the_gap_without_penalty_recomputed(name, weighted, make):
    X, y = data(name)
    weights = weights_of_rows() if weighted else None
    check = Check(name, X, y, weights, penalized=False)
    snapshots = []
    model = estimator(name, penalize_intercept=False, tol=1e-5, callback=snapshots.append)
    model.fit(make(X), y, weights)
    result = model.result_
    assert result.status == "converged"
    assert result.primal == pytest.approx(check.primal_of(model), rel=1e-12)
    # the duals are those of the last certificate, the bound is the best there was
    dual = check.dual(np.ravel(model.dual_coef_))
    assert dual <= result.dual + 1e-12
    assert result.primal - dual <= 2e-5 * result.primal
    for snapshot in snapshots:
        w = np.append(snapshot.coef, snapshot.intercept)
        assert snapshot.primal == pytest.approx(check.primal(w), rel=1e-12)
        slack = 1e-12 * snapshot.primal
        assert snapshot.dual - slack <= check.primal_of(model) <= snapshot.primal + slack


def svc(X, y, weights=None):
    """Return an SVC that solves the same problem; its intercept is not penalised."""
    total = len(y) if weights is None else weights.sum()
    model = SVC(kernel="linear", C=1 / (ALPHA * total), tol=1e-9, cache_size=20)
    return model.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("pack", [False, "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_agreement_with_svc(weighted, pack, make):
    if pack == "auto" and make is np.asarray:
        pytest.skip("dense rows are not packed")
    X, y = data()
    weights = weights_of_rows() if weighted else None
    peer = svc(X, y, weights)
    check = Check("hinge", X, y, weights, penalized=False)
    best = check.primal_of(peer)
    model = estimator(penalize_intercept=False, pack=pack, tol=1e-8).fit(make(X), y, weights)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-3, atol=1e-3)
    for row in model.result_.trace:
        assert row.dual <= best * (1 + 1e-9)
        assert best <= row.primal * (1 + 1e-7)


def test_agreement_with_svc_one_vs_rest():
    X, y = data(n_classes=4)
    model = estimator(penalize_intercept=False, tol=1e-6, n_jobs=2).fit(X, y)
    for label, part in enumerate(model.result_.parts):
        check = Check("hinge", X, (y == label).astype(int), penalized=False)
        best = check.primal_of(svc(X, y == label))
        found = check.primal(np.append(model.coef_[label], model.intercept_[label]))
        assert part.status == "converged"
        assert part.primal == pytest.approx(found, rel=1e-12)
        assert found == pytest.approx(best, rel=2e-6)
        for row in part.trace:
            assert row.dual <= best * (1 + 1e-9)
            assert best <= row.primal * (1 + 1e-7)


@pytest.mark.parametrize("name", [*MARGIN_LOSSES, "squared", "huber"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("limit", [{"max_iter": 7}, {"max_accesses": 1111}], ids=str)
def test_the_duals_of_a_free_intercept_are_those_of_the_certificate(name, streams, limit):
    X, y = data(name)
    weights = weights_of_rows()
    check = Check(name, X, y, weights, penalized=False)
    model = estimator(name, penalize_intercept=False, tol=0, **limit)
    if streams:
        model.fit_stream(ArraySource(X, y, weights, block_rows=50))
    else:
        model.fit(X, y, weights)
    duals = np.ravel(model.dual_coef_)
    assert abs(weights @ duals) <= 1e-12 * weights.sum()
    *earlier, last = model.result_.trace
    assert all(row.dual < last.dual for row in earlier)  # so that the result has the last one's
    assert check.dual(duals) == pytest.approx(model.result_.dual, rel=1e-10)


@pytest.mark.parametrize("average", ["tail", "decaying"])
def test_the_duals_of_an_average_are_those_of_the_certificate(average):
    X, y = data()
    model = estimator(batch_size=8, average=average, sigma_squared=1.0, tol=0, max_iter=1)
    model.fit(X, y)
    found = Check("hinge", X, y).dual(np.ravel(model.dual_coef_))
    assert found == pytest.approx(model.result_.dual, rel=1e-10)


def test_a_shift_of_targets_is_a_shift_of_the_intercept():
    """What tells an unpenalised intercept from a penalised one."""
    X, y = data("squared")
    one, other = (
        estimator("squared", penalize_intercept=False, tol=1e-10).fit(X, target)
        for target in (y, y + 1000)
    )
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-3)
    assert other.intercept_ == pytest.approx(one.intercept_ + 1000, abs=1e-3)


@pytest.mark.parametrize("name", ["hinge", "logistic"])
def test_one_class_almost_alone(name):
    """The intercept does nearly everything; the gap must close nevertheless."""
    X, y = data(name)
    y[:] = 1
    y[0] = 0
    check = Check(name, X, y, penalized=False)
    model = estimator(name, penalize_intercept=False, tol=1e-4).fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(check.primal_of(model), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_features_of_any_scale(scale):
    X, y = data(scale=scale)
    model = estimator(alpha=ALPHA * scale**2, penalize_intercept=False, tol=1e-4).fit(X, y)
    unit = estimator(penalize_intercept=False, tol=1e-4).fit(X / scale, y)
    assert model.result_.status == unit.result_.status == "converged"
    assert model.result_.primal == pytest.approx(unit.result_.primal, rel=2e-4)


@pytest.mark.parametrize("name", ["squared_hinge", "logistic", "huber"])
@pytest.mark.parametrize("scale", [1e-3, 1e-6])
def test_a_free_intercept_keeps_pace_with_a_large_alpha(name, scale):
    """Where the penalty keeps w near 0, the intercept is all that is left to find."""
    X, y = data(name, scale=scale)
    X, y = np.vstack([X, X[y == y[0]]]), np.concatenate([y, y[y == y[0]]])  # not balanced
    check = Check(name, X, y, penalized=False)
    model = estimator(name, penalize_intercept=False, max_iter=50).fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(check.primal_of(model), rel=1e-12)


def test_intercept_scaling_has_no_effect_without_penalty():
    X, y = data()
    one, other = (
        estimator(penalize_intercept=False, intercept_scaling=scale).fit(X, y)
        for scale in (1.0, 50.0)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.intercept_ == other.intercept_


def test_without_intercept_there_is_nothing_to_leave_out():
    X, y = data()
    one, other = (
        estimator(fit_intercept=False, penalize_intercept=penalized).fit(X, y)
        for penalized in (True, False)
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert other.intercept_ == 0


def test_warm_start_without_penalty():
    X, y = data()
    model = estimator(penalize_intercept=False, warm_start=True, tol=1e-4).fit(X, y)
    model.fit(X, y)
    assert model.result_.status == "converged"
    assert model.result_.primal == pytest.approx(
        Check("hinge", X, y, penalized=False).primal_of(model), rel=1e-12
    )
