"""A fit that fails, or is interrupted before there is a model, leaves the estimator as it was."""

import pickle

import numpy as np
import pytest
from test_structured import Classes

import sublinear
from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    MinimumEnclosingBall,
    PegasosClassifier,
    PegasosStructured,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    distributed,
)
from sublinear._core.matrix import NotFinite, Underflow
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources._faults import EmptySource

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 5))
Y = (X[:, 0] > 0).astype(int)
Y3 = np.digitize(X[:, 0], [-0.7, 0.7])


def same_predictions(model, fail, X=X, error=ValueError):
    """Check that `fail(model)` raises and changes nothing."""
    before, predicted = dict(vars(model)), model.predict(X)
    with pytest.raises(error):
        fail(model)
    after = vars(model)
    assert after.keys() == before.keys()
    for name in after:
        if name.endswith("_") and name != "stream_":
            assert after[name] is before[name], name
    np.testing.assert_array_equal(model.predict(X), predicted)


STREAMED = [
    StreamingSVRGClassifier(alpha=0.1),
    PegasosClassifier(alpha=0.1, random_state=0),
    SDCAClassifier(alpha=0.1, random_state=0),
    SequencePegasos(max_iter=2, random_state=0),
]
FAILURES = {
    "one class": lambda model: model.fit(X[:, :3], 0 * Y),
    "negative weights": lambda model: model.fit(X[:, :3], Y3, sample_weight=-np.ones(90)),
    "empty source": lambda model: model.fit_stream([], classes=[0, 1]),
    "unknown label": lambda model: model.fit_stream([(X[:, :3], Y + 5)], classes=[0, 1]),
    "one known class": lambda model: model.fit_stream([(X[:, :3], 0 * Y)], classes=[0]),
}


@pytest.mark.parametrize("model", STREAMED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failed_fit_of_a_stream_changes_nothing(model, kind):
    same_predictions(model.fit(X, Y), FAILURES[kind])


def test_a_first_failure_leaves_nothing():
    model = StreamingSVRGClassifier()
    with pytest.raises(ValueError, match="negative"):
        model.partial_fit(X, Y, classes=[0, 1], sample_weight=-np.ones(90))
    assert not model.__sklearn_is_fitted__() and not hasattr(model, "n_features_in_")
    model.partial_fit(X[:, :3], Y, classes=[0, 1])
    assert model.coef_.shape == (1, 3)


def test_semi_streaming_and_structured_fits():
    model = SemiStreamingPerceptron(epsilon=0.5, random_state=0).fit(X, Y)
    same_predictions(model, lambda model: model.fit(X[:, :3], 0 * Y))
    same_predictions(model, lambda model: model.fit_stream([(X, Y + 5), (X, Y + 7)]))
    model = PegasosStructured(Classes(3), max_iter=2, random_state=0).fit(list(X), list(Y3))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="negative"):
        model.fit(list(X), list(Y3), sample_weight=-np.ones(90))
    assert vars(model) == before
    assert model.coef_.flags.writeable


def test_a_structured_fit_that_leaves_the_numbers_is_refused():
    with pytest.raises(ValueError, match="floating-point"), np.errstate(all="ignore"):
        PegasosStructured(Classes(3), max_iter=2).fit(list(X * 1e307), list(Y3))


def interrupting(monkeypatch, name):
    """Make a function of sublinear raise KeyboardInterrupt."""

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(name, interrupt)


@pytest.mark.parametrize(
    "model",
    [
        SDCAClassifier(alpha=0.1),
        PegasosClassifier(alpha=0.1),
        PegasosClassifier(alpha=0.1, multi_class="joint"),
        SequencePegasos(max_iter=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_interrupt_before_there_is_a_model(model, monkeypatch):
    model.fit(X, Y)
    interrupting(monkeypatch, "sublinear._certified_model.RandomBits")
    same_predictions(model, lambda model: model.fit(X[:, :3], Y), error=KeyboardInterrupt)


@pytest.mark.parametrize(
    ("error", "is_kept"), [(KeyboardInterrupt, True), (SystemExit, True), (ValueError, False)]
)
def test_an_interrupt_while_the_solver_of_a_second_class_is_made(monkeypatch, error, is_kept):
    make_solver = SDCAClassifier._solver

    def interrupted(self, training, k, *args):
        if k == 1:
            raise error
        return make_solver(self, training, k, *args)

    monkeypatch.setattr(SDCAClassifier, "_solver", interrupted)
    model = SDCAClassifier(alpha=0.1, random_state=0)
    with pytest.raises(error):
        model.fit(X, Y3)
    assert hasattr(model, "result_") == is_kept
    if is_kept:
        statuses = [part.status for part in model.result_.parts]
        assert statuses == ["converged", "interrupted", "interrupted"]


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_reduction_leaves_the_model_as_it_was_fitted(monkeypatch, again):
    model = KernelSDCAClassifier(max_support=5)
    if again:
        model.fit(X[:60], Y[:60])
    interrupting(monkeypatch, "sublinear._kernel_machines.model.nearest_span")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y3)
    whole = KernelSDCAClassifier().fit(X, Y3)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    np.testing.assert_array_equal(model.support_, whole.support_)


@pytest.mark.parametrize(
    "model",
    [PegasosClassifier(alpha=0.1, random_state=0), StreamingSVRGClassifier(alpha=0.1)],
    ids=lambda model: type(model).__name__,
)
def test_an_interrupted_block_is_seen_by_no_class(model, monkeypatch):
    model.partial_fit(X, Y3, classes=[0, 1, 2])
    before = model.coef_.copy()
    count = []

    def interrupted(function):
        def wrapped(*args, **kwargs):
            count.append(1)
            if len(count) == 2:  # of the second class
                raise KeyboardInterrupt
            return function(*args, **kwargs)

        return wrapped

    for owner, name in (
        (sublinear._certified_model, "drive_shown"),
        (sublinear._solvers.streaming_svrg.CombinedSVRG, "take"),
    ):
        monkeypatch.setattr(owner, name, interrupted(getattr(owner, name)))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, Y3)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.coef_, before)
    other = type(model)(**model.get_params()).partial_fit(X, Y3, classes=[0, 1, 2])
    np.testing.assert_array_equal(model.partial_fit(X, Y3).coef_, other.partial_fit(X, Y3).coef_)


def test_a_refused_block_uses_up_no_seed():
    model, other = (PegasosClassifier(alpha=0.1, random_state=0, pack=True) for _ in range(2))
    from scipy import sparse

    S = sparse.csr_array(X)
    for one in (model, other):
        one.partial_fit(S, Y, classes=[0, 1])
    with pytest.raises(ValueError):
        model.partial_fit(S * 1e200, Y)
    np.testing.assert_array_equal(model.partial_fit(S, Y).coef_, other.partial_fit(S, Y).coef_)


def test_rows_without_weight_are_not_among_those_kept():
    weights = np.ones(300)
    weights[:60] = 0
    A = rng.normal(size=(300, 5))
    targets = A @ np.arange(5.0) + rng.normal(size=300)
    model, other = StreamingSVRGRegressor(kept_rows=20), StreamingSVRGRegressor(kept_rows=20)
    model.partial_fit(A, targets, sample_weight=weights)
    other.partial_fit(A[60:], targets[60:])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9)
    assert model.result_.n_rows == 240


def test_an_interrupt_after_some_classes_were_reduced(monkeypatch):
    model = KernelSDCAClassifier(max_support=5)
    refit, count = KernelSDCAClassifier._refit, []

    def interrupted(self, *args):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        return refit(self, *args)

    monkeypatch.setattr(KernelSDCAClassifier, "_refit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y3)
    whole = KernelSDCAClassifier().fit(X, Y3)
    np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [distributed.SDCAClassifier(random_state=0), distributed.StreamingSVRGClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_failed_fits_over_partitions(model):
    same_predictions(model.fit(X, Y), lambda model: model.fit(X[:, :3], 0 * Y))


def test_a_failed_warm_fit_over_partitions():
    model = distributed.StreamingSVRGClassifier(warm_start=True).fit(X, Y)
    same_predictions(model, lambda model: model.fit(X, Y + 5))


def test_a_refused_fit_draws_no_seeds():
    models = [
        StreamingSVRGClassifier(kept_rows=10, warm_start=True, random_state=0).fit(X, Y)
        for _ in range(2)
    ]
    with pytest.raises(ValueError, match="negative"):
        models[0].fit(X, Y, sample_weight=-np.ones(90))
    first, second = (model.fit(X, Y).coef_ for model in models)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", [NotFinite, Underflow, EmptySource])
def test_other_processes_see_the_same_error(kind):
    error = pickle.loads(pickle.dumps(kind()))
    assert type(error) is kind and str(error) == str(kind())


def broken_setting(name):
    """Return an estimator's `__setattr__` by which one attribute is Ctrl-C."""

    def setting(self, key, value):
        if key == name:
            raise KeyboardInterrupt
        object.__setattr__(self, key, value)

    return setting


STORED = [
    (SDCAClassifier(), "dual_coef_"),
    (SDCAClassifier(), "n_iter_"),
    (SDCARegressor(), "dual_coef_"),
    (PegasosClassifier(max_iter=5, tol=0), "_fitted_treatment"),
    (KernelPegasosClassifier(max_iter=2, tol=0), "n_steps_"),
    (KernelSDCAClassifier(), "n_iter_"),
    (MinimumEnclosingBall(), "offset_"),
    (SemiStreamingPerceptron(), "coef_"),
    (SemiStreamingEnclosingBall(), "center_"),
]


@pytest.mark.parametrize(
    "model, name", STORED, ids=lambda part: part if isinstance(part, str) else type(part).__name__
)
def test_an_interrupt_while_attributes_are_stored_leaves_the_old_ones(monkeypatch, model, name):
    separable = X[:, 0] > 0
    model.fit(X, separable)
    before = dict(vars(model))
    monkeypatch.setattr(type(model), "__setattr__", broken_setting(name), raising=False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:90, :3], separable[:90])
    assert vars(model).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(model).items())
