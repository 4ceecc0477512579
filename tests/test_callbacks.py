"""Who watches a fit: the callback, scikit-learn's callbacks, the progress display."""

import builtins
import re
import sys
import threading
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import linear_kernel

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCAClassifier,
    KernelSDCARegressor,
    L2SVMClassifier,
    MinimumEnclosingBall,
    PegasosClassifier,
    SDCAClassifier,
    SDCARegressor,
    SequencePegasos,
    Snapshot,
    SublinearPerceptron,
    TraceRow,
)
from sublinear import distributed as over_partitions
from sublinear._core.matrix import NotFinite

try:
    import sklearn.callback  # noqa: F401  (is it there?)
except ImportError:
    HAS_CALLBACKS = False
else:
    HAS_CALLBACKS = True

KINDS = [(SDCAClassifier, "binary"), (PegasosClassifier, "binary"), (SDCARegressor, "regression")]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0].__name__)
def case(request):
    """An estimator whose fit computes several certificates, X and y."""
    estimator, data = request.param
    X, y = request.getfixturevalue(data)
    model = estimator(alpha=1e-6, tol=1e-9, max_iter=1000, random_state=0)
    if estimator is not PegasosClassifier:
        model.set_params(second_order=False)  # which would need one certificate
    return model, X, y


def test_a_snapshot_for_every_row_of_the_trace(case):
    model, X, y = case
    snapshots = []
    model.set_params(callback=snapshots.append).fit(X, y)
    assert len(snapshots) == len(model.result_.trace) >= 3
    for snapshot, row in zip(snapshots, model.result_.trace, strict=True):
        assert isinstance(snapshot, Snapshot)
        for name in TraceRow._fields:
            assert getattr(snapshot, name) == getattr(row, name)
        assert snapshot.class_index == 0
        assert snapshot.coef.shape == (X.shape[1],)
        assert isinstance(snapshot.intercept, float)
    last = snapshots[-1]
    np.testing.assert_array_equal(last.coef, model.coef_.ravel())
    assert last.intercept == np.ravel(model.intercept_)[0]


def test_a_snapshot_is_a_copy(case):
    model, X, y = case
    untouched = model.fit(X, y).coef_.copy()

    def scribble(snapshot):
        snapshot.coef[:] = np.nan
        np.asarray(snapshot._model)[:] = np.nan

    np.testing.assert_array_equal(model.set_params(callback=scribble).fit(X, y).coef_, untouched)


def test_the_snapshot_is_the_model_of_that_moment(case):
    model, X, y = case
    snapshots = []
    model.set_params(callback=snapshots.append).fit(X, y)
    early = snapshots[1]
    model.set_params(callback=None, max_iter=early.n_iter).fit(X, y)
    np.testing.assert_array_equal(model.coef_.ravel(), early.coef)
    assert model.result_.primal == early.primal


@pytest.mark.parametrize("intercept", [True, False])
def test_snapshots_of_float32_models(binary, intercept):
    X, y = binary
    snapshots = []
    model = SDCAClassifier(
        alpha=1e-4,
        fit_intercept=intercept,
        intercept_scaling=2.0,
        callback=snapshots.append,
        random_state=0,
    ).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(snapshots[-1].coef, model.coef_[0])
    assert snapshots[-1].intercept == model.intercept_[0]


@pytest.mark.parametrize("count", [1, 2])
def test_a_callback_stops_the_fit(case, count):
    model, X, y = case
    snapshots = []

    def stop(snapshot):
        snapshots.append(snapshot)
        return len(snapshots) == count

    model.set_params(callback=stop).fit(X, y)
    assert len(snapshots) == count
    assert model.result_.status == "stopped"
    assert model.result_.n_iter == model.n_iter_ == snapshots[-1].n_iter
    assert model.result_.gap == snapshots[-1].gap
    np.testing.assert_array_equal(model.coef_.ravel(), snapshots[-1].coef)


def test_only_true_stops(case):
    model, X, y = case
    for answer in (None, False, 0):
        model.set_params(callback=lambda snapshot, answer=answer: answer).fit(X, y)
        assert model.result_.status == "max_iter"
    model.set_params(callback=lambda snapshot: np.True_).fit(X, y)
    assert model.result_.status == "stopped"


def test_stopping_does_not_warn(binary, recwarn):
    SDCAClassifier(alpha=1e-6, callback=lambda snapshot: True).fit(*binary)
    assert not recwarn.list


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_in_a_callback_leaves_a_fitted_estimator(case, kind):
    model, X, y = case
    snapshots = []

    def fail(snapshot):
        snapshots.append(snapshot)
        if len(snapshots) == 2:
            raise kind("from the callback")

    with pytest.raises(kind, match="from the callback"):
        model.set_params(callback=fail).fit(X, y)
    assert model.result_.status == "interrupted"
    np.testing.assert_array_equal(model.coef_.ravel(), snapshots[-1].coef)
    assert model.predict(X).shape == (len(X),)
    assert model.n_iter_ == snapshots[-1].n_iter
    model.set_params(callback=None).fit(X, y)
    assert model.result_.status == "max_iter"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_classes_are_told_apart(multiclass, n_jobs):
    X, y = multiclass
    snapshots = []
    inside = threading.Lock()

    def record(snapshot):
        assert inside.acquire(blocking=False), "two calls at the same time"
        snapshots.append(snapshot)
        inside.release()

    model = SDCAClassifier(alpha=1e-4, callback=record, random_state=0, n_jobs=n_jobs).fit(X, y)
    assert {snapshot.class_index for snapshot in snapshots} == {0, 1, 2}
    for k, part in enumerate(model.result_.parts):
        mine = [snapshot for snapshot in snapshots if snapshot.class_index == k]
        assert [s.n_iter for s in mine] == [row.n_iter for row in part.trace]
        np.testing.assert_array_equal(mine[-1].coef, model.coef_[k])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_one_class_leaves_a_fitted_estimator(multiclass, n_jobs):
    X, y = multiclass

    def fail(snapshot):
        if snapshot.class_index == 1:
            raise RuntimeError("in class 1")

    model = SDCAClassifier(alpha=1e-4, callback=fail, random_state=0, n_jobs=n_jobs)
    with pytest.raises(RuntimeError, match="in class 1"):
        model.fit(X, y)
    assert model.result_.status == "interrupted"
    assert model.coef_.shape == (3, X.shape[1]) and np.isfinite(model.coef_).all()
    assert model.dual_coef_.shape == (3, len(y))
    assert set(model.predict(X)) <= {0, 1, 2}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_stops_one_class_alone(multiclass, n_jobs):
    X, y = multiclass
    model = SDCAClassifier(
        alpha=1e-4, callback=lambda s: s.class_index == 1, random_state=0, n_jobs=n_jobs
    ).fit(X, y)
    assert [part.status for part in model.result_.parts] == ["converged", "stopped", "converged"]
    assert model.result_.status == "stopped"


def test_snapshots_of_a_pair_of_classes_are_of_its_examples(multiclass):
    X, y = multiclass
    snapshots = {}
    model = KernelSDCAClassifier(
        callback=lambda s: snapshots.update({s.class_index: s}), max_iter=2, random_state=0
    ).fit(X, y)
    for k, pair in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = np.flatnonzero(np.isin(y, pair))
        assert snapshots[k].coef.shape == rows.shape
        signs = np.sign(snapshots[k].coef)
        assert set(y[rows[signs > 0]]) == {pair[0]} and set(y[rows[signs < 0]]) == {pair[1]}
    assert len(model.result_.parts) == len(snapshots) == 3


def test_what_a_callback_sets_is_for_the_next_fit(multiclass):
    model = SDCAClassifier(alpha=1e-2, random_state=0).fit(*multiclass)
    changed = SDCAClassifier(alpha=1e-2, random_state=0)
    changed.callback = lambda snapshot: changed.set_params(alpha=10.0, loss="logistic") and None
    changed.fit(*multiclass)
    np.testing.assert_array_equal(changed.coef_, model.coef_)
    assert changed.result_.primal == model.result_.primal


@pytest.mark.parametrize("ways", [("joint", "ovr"), ("ovr", "joint")])
def test_a_callback_that_sets_multi_class_comes_too_late(ways, multiclass):
    options = {"alpha": 0.1, "tol": 0, "max_iter": 5, "random_state": 0}
    plain = PegasosClassifier(multi_class=ways[0], **options).fit(*multiclass)
    model, shapes = PegasosClassifier(multi_class=ways[0], **options), set()

    def change(snapshot):
        shapes.add(snapshot.coef.shape)
        model.set_params(multi_class=ways[1])

    model.set_params(callback=change).fit(*multiclass)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert shapes == {plain.coef_.shape if ways[0] == "joint" else plain.coef_.shape[1:]}


def test_a_display_that_a_callback_asks_for_comes_with_the_next_fit(multiclass, capfd):
    model = SDCAClassifier(alpha=1e-2, random_state=0)
    model.callback = lambda snapshot: model.set_params(verbose=1) and None
    model.fit(*multiclass)  # of three classes, one after the other
    assert capfd.readouterr().err == ""
    model.fit(*multiclass)
    assert capfd.readouterr().err != ""


@pytest.mark.parametrize("name", ["SDCAClassifier", "PegasosClassifier"])
def test_a_callback_asks_too_late_for_a_warm_start_over_partitions(name, multiclass):
    make = getattr(over_partitions, name)
    options = {"alpha": 0.1, "tol": 0, "max_iter": 3, "random_state": 0, "n_partitions": 2}
    plain = make(**options).fit(*multiclass)
    model = make(**options)
    model.callback = lambda snapshot: model.set_params(warm_start=True) and None
    for _ in range(2):  # the second one has nothing to go on from
        model.fit(*multiclass)
        np.testing.assert_array_equal(model.coef_, plain.coef_)
    model.fit(*multiclass)
    assert model.result_.primal < plain.result_.primal


def test_partial_fit_needs_no_certificates(binary):
    calls = []
    model = PegasosClassifier(alpha=0.1, callback=calls.append)
    model.partial_fit(*binary, classes=[0, 1])
    assert calls == [] and model.result_.certificate_accesses == 0


def test_a_callback_does_not_change_the_fit(case):
    model, X, y = case
    plain = model.fit(X, y).coef_.copy()
    watched = model.set_params(callback=lambda snapshot: None).fit(X, y)
    np.testing.assert_array_equal(watched.coef_, plain)


def test_a_callback_that_sets_fit_intercept_comes_too_late(case):
    model, X, y = case
    plain = model.fit(X, y).coef_.copy()
    model.set_params(callback=lambda snapshot: model.set_params(fit_intercept=False) and None)
    np.testing.assert_array_equal(model.fit(X, y).coef_, plain)


# ---------------------------------------------------------------- progress


def hide(monkeypatch, hidden):
    """Make `import hidden` fail."""
    real = builtins.__import__

    def fake(name, *arguments, **options):
        if name.split(".")[0] == hidden:
            raise ImportError(name)
        return real(name, *arguments, **options)

    for name in [name for name in sys.modules if name.split(".")[0] == hidden]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", fake)


def test_progress_without_tqdm(case, monkeypatch, capfd):
    model, X, y = case
    hide(monkeypatch, "tqdm")
    model.set_params(verbose=1).fit(X, y)
    output = capfd.readouterr()
    assert output.out == ""
    lines = output.err.strip().splitlines()
    assert len(lines) == len(model.result_.trace)
    for line, row in zip(lines, model.result_.trace, strict=True):
        assert type(model).__name__ in line
        assert f"{row.n_iter}" in line
        assert re.search(r"gap \d\.\d\de[+-]\d\d", line)


def test_progress_without_tqdm_names_the_classes(multiclass, monkeypatch, capfd):
    X, y = multiclass
    hide(monkeypatch, "tqdm")
    SDCAClassifier(alpha=1e-4, verbose=1, n_jobs=2).fit(X, np.array(["red", "green", "blue"])[y])
    shown = capfd.readouterr().err
    for name in ("red", "green", "blue"):
        assert name in shown


def test_progress_with_tqdm(case, capfd):
    pytest.importorskip("tqdm")
    model, X, y = case
    model.set_params(verbose=1).fit(X, y)
    output = capfd.readouterr()
    assert output.out == ""
    assert type(model).__name__ in output.err
    assert "gap" in output.err and "epochs" in output.err
    assert f"{model.n_iter_} epochs" in output.err


def test_the_display_shows_the_epochs_of_the_gap_beside_them(case, monkeypatch):
    """Also where one takes longer than a second."""
    tqdm = pytest.importorskip("tqdm.auto")
    shown, texts = [], []

    class Bar(tqdm.tqdm):
        def set_postfix_str(self, text="", refresh=True):
            shown.append((self.n, text))
            texts.append(self.format_meter(**self.format_dict | {"rate": 0.5}))

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    model, X, y = case
    model.set_params(verbose=1).fit(X, y)
    found = [n for n, text in shown if "unknown" not in text]
    assert found == [row.n_iter for row in model.result_.trace]
    for n, text in zip(found, texts[1:], strict=True):
        assert "2.00s/epochs" in text and f"{n} epochs [" in text


@pytest.mark.parametrize(
    ("make", "unit"),
    [
        (partial(MinimumEnclosingBall, variant="active_set"), "passes"),
        (partial(MinimumEnclosingBall, variant="plain"), "steps"),
        (over_partitions.SDCAClassifier, "rounds"),
    ],
)
def test_what_is_counted_has_its_name(make, unit, binary, monkeypatch, capfd):
    hide(monkeypatch, "tqdm")
    rows = [binary] if unit == "rounds" else binary[0]
    model = make(verbose=1).fit([rows] if unit == "rounds" else rows)
    assert f": {model.result_.trace[-1].n_iter} {unit}, gap" in capfd.readouterr().err


def test_silence(case, capfd):
    model, X, y = case
    model.set_params(verbose=0).fit(X, y)
    output = capfd.readouterr()
    assert output.out == output.err == ""


def test_progress_survives_an_error(binary, capfd):
    def fail(snapshot):
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        SDCAClassifier(verbose=1, callback=fail).fit(*binary)


def test_progress_ends_where_there_is_no_model(binary, monkeypatch):
    def fail(*args, **kwargs):
        raise NotFinite

    closed = []
    monkeypatch.setattr("sublinear._callbacks.drive", fail)
    monkeypatch.setattr("sublinear._callbacks.Progress.close", lambda self: closed.append(self))
    with pytest.raises(NotFinite):
        SDCAClassifier(verbose=1).fit(*binary)
    assert len(closed) == 1


# ---------------------------------------------------------------- scikit-learn's callbacks


needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn has callbacks from 1.9 on"
)


class Recorder:
    """Follows scikit-learn's protocol; `stop_at`: certificates until it asks to stop."""

    def __init__(self, stop_at=None, fail=None):
        self.calls, self.scores, self.stop_at, self.fail = [], [], stop_at, fail

    def setup(self, estimator, context):
        self.calls.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.calls.append(("begin", context.task_name))
        assert X is not None and y is not None

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.calls.append(("end", context.task_name))
        if context.task_name == "certificate":
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            if self.fail:
                raise self.fail
        return self.stop_at is not None and self.count("certificate") >= self.stop_at

    def teardown(self, estimator, context):
        self.calls.append(("teardown", context.task_name))

    def count(self, task, hook="end"):
        return self.calls.count((hook, task))


class Propagated(Recorder):
    max_propagation_depth = None


@needs_callbacks
def test_hooks_are_called_in_order(case):
    model, X, y = case
    recorder = Recorder()
    assert model.set_callbacks(recorder).fit(X, y) is model
    calls = recorder.calls
    assert calls[0] == ("setup", "fit") and calls[-1] == ("teardown", "fit")
    assert calls[1] == ("begin", "fit") and calls[-2] == ("end", "fit")
    assert recorder.count("certificate") == len(model.result_.trace)
    for task in {name for _, name in calls}:
        assert recorder.count(task, "begin") == recorder.count(task, "end")
    assert len(recorder.scores) == len(model.result_.trace)
    assert recorder.scores[-1] == model.score(X, y)


@needs_callbacks
def test_a_hook_stops_the_fit(case):
    model, X, y = case
    recorder = Recorder(stop_at=2)
    model.set_callbacks(recorder).fit(X, y)
    assert model.result_.status == "stopped"
    assert len(model.result_.trace) == 2
    assert recorder.calls[-1] == ("teardown", "fit")


@needs_callbacks
def test_an_error_in_a_hook_leaves_a_fitted_estimator(case):
    model, X, y = case
    recorder = Recorder(fail=RuntimeError("from the hook"))
    with pytest.raises(RuntimeError, match="from the hook"):
        model.set_callbacks(recorder).fit(X, y)
    assert model.result_.status == "interrupted"
    assert model.predict(X).shape == (len(X),)
    assert recorder.calls[-1] == ("teardown", "fit")


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_hooks_with_several_classes(multiclass, n_jobs):
    X, y = multiclass
    recorder = Recorder()
    model = SDCAClassifier(alpha=1e-4, n_jobs=n_jobs, random_state=0).set_callbacks(recorder)
    model.fit(sparse.csr_array(X), y)
    total = sum(len(part.trace) for part in model.result_.parts)
    assert recorder.count("certificate") == total
    for task in {name for _, name in recorder.calls}:
        assert recorder.count(task, "begin") == recorder.count(task, "end")


@needs_callbacks
def test_both_kinds_of_callbacks(case):
    model, X, y = case
    recorder, snapshots = Recorder(), []
    model.set_params(callback=snapshots.append).set_callbacks(recorder).fit(X, y)
    assert len(snapshots) == recorder.count("certificate") == len(model.result_.trace)


@needs_callbacks
def test_partial_fit_with_callbacks(binary):
    recorder = Recorder()
    model = PegasosClassifier(alpha=0.1).set_callbacks(recorder)
    for _ in range(2):
        model.partial_fit(*binary, classes=[0, 1])
    assert recorder.count("fit", "setup") == recorder.count("fit", "teardown") == 2


@needs_callbacks
def test_callbacks_may_be_taken_away(case):
    model, X, y = case
    recorder = Recorder()
    model.set_callbacks(recorder).fit(X, y)
    count = len(recorder.calls)
    model.set_callbacks().fit(X, y)
    assert len(recorder.calls) == count


class Balanced:
    """Counts what is set up and torn down; fails when a task of this name begins."""

    def __init__(self, fails_at=None):
        self.open = self.seen = 0
        self.fails_at = fails_at

    def setup(self, estimator, context):
        self.open += 1
        self.seen += 1

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == self.fails_at:
            raise RuntimeError("from the hook")

    def on_fit_task_end(self, estimator, context):
        return False

    def teardown(self, estimator, context):
        self.open -= 1


@needs_callbacks
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_ball_is_kept_where_a_hook_fails_at_its_end(kernel):
    class FailsAtTheEnd(Balanced):
        def on_fit_task_end(self, estimator, context):
            if context.task_name == "problem":
                raise RuntimeError("from the hook")

    X = np.random.default_rng(0).normal(size=(100, 4))
    ball = MinimumEnclosingBall(kernel=kernel).set_callbacks(FailsAtTheEnd())
    with pytest.raises(RuntimeError, match="from the hook"):
        ball.fit(X)
    assert ball.result_.status == "converged"


@needs_callbacks
@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        (SDCAClassifier, np.nan),
        (PegasosClassifier, np.nan),
        (KernelSDCAClassifier, np.nan),
        (SDCAClassifier, 1e200),
        (L2SVMClassifier, 1e200),
    ],
)
def test_a_fit_to_bad_rows_still_tears_down(kind, entry, binary):
    X, y = binary
    X = X.copy()
    X[3, 3] = entry
    balanced = Balanced()
    model = kind().set_callbacks(balanced)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"NaN|range|X|scale"):
        model.fit(X, y)
    assert balanced.open == 0
    assert vars(model) == before
    model.fit(*binary)
    assert balanced.open == 0 and balanced.seen > 0


@needs_callbacks
@pytest.mark.parametrize("task", ["fit", "problem"])
def test_a_hook_that_fails_at_the_beginning_still_tears_down(case, task):
    model, X, y = case
    balanced = Balanced(task)
    with pytest.raises(RuntimeError, match="from the hook"):
        model.set_callbacks(balanced).fit(X, y)
    assert (balanced.open, balanced.seen) == (0, 1)


@needs_callbacks
@pytest.mark.parametrize("kind", [PegasosClassifier, SequencePegasos])
def test_every_block_of_a_stream_tears_down(kind, binary):
    balanced = Balanced()
    model = kind(max_iter=2).set_callbacks(balanced)
    model.fit_stream([binary] * 3, classes=[0, 1])
    assert (balanced.open, balanced.seen) == (0, 3)
    assert not [name for name in vars(model) if "ctx" in name or "teardown" in name]


@needs_callbacks
def test_fits_over_partitions_tear_down(binary):
    balanced = Balanced()
    over_partitions.SDCAClassifier(alpha=0.1).set_callbacks(balanced).fit(*binary)
    assert (balanced.open, balanced.seen) == (0, 1)


@needs_callbacks
def test_balls_may_be_watched(binary):
    recorder = Recorder()
    MinimumEnclosingBall().set_callbacks(recorder).fit(*binary)
    assert recorder.count("certificate") > 0 and recorder.scores == []


@needs_callbacks
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", [SublinearPerceptron, L2SVMClassifier])
def test_the_monitor_scores_with_the_weights_of_the_fit(kind, kernel, binary):
    from sklearn.callback import ScoringMonitor

    X, y = binary
    weights = np.where(y == 1, 5.0, 1.0)
    weights[:20] = 0
    monitor = ScoringMonitor(scoring="accuracy")
    model = kind(kernel=kernel, epsilon=0.05, random_state=0).set_callbacks(monitor)
    model.fit(X, y, sample_weight=weights)
    expected = model.score(X, y, sample_weight=weights)
    assert monitor.get_logs().data[-1]["accuracy"] == pytest.approx(expected)


@needs_callbacks
def test_the_monitor_of_scikit_learn(case):
    from sklearn.callback import ScoringMonitor

    model, X, y = case
    scoring = "r2" if isinstance(model, SDCARegressor) else "accuracy"
    monitor = ScoringMonitor(scoring=scoring)
    model.set_callbacks(monitor).fit(X, y)
    scores = [row[scoring] for row in monitor.get_logs().data if row["task_name"] == "certificate"]
    assert len(scores) == len(model.result_.trace)
    assert scores[-1] == model.score(X, y)


@needs_callbacks
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", [SublinearPerceptron, L2SVMClassifier])
def test_the_monitor_of_scikit_learn_on_saddle_problems(binary, kind, kernel):
    from sklearn.callback import ScoringMonitor

    X, y = binary
    other = "linear" if kernel == "rbf" else "rbf"
    model = kind(epsilon=0.3, kernel=other, max_iter=2000, random_state=0).fit(X, 1 - y)
    monitor = ScoringMonitor(scoring="accuracy")
    model.set_params(kernel=kernel).set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data]
    assert len(scores) == len(model.result_.trace)
    assert scores[-1] == model.score(X, y)


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        SDCAClassifier(alpha=1e-4),
        PegasosClassifier(alpha=1e-2, max_iter=20),
        PegasosClassifier(alpha=1e-2, max_iter=20, multi_class="joint"),
        KernelSDCAClassifier(),
        KernelSDCAClassifier(kernel=linear_kernel, multi_class="ovr"),
        KernelPegasosClassifier(max_iter=20),
    ],
)
def test_the_monitor_of_scikit_learn_on_several_classes(multiclass, model, n_jobs):
    """It scores once every problem has a model."""
    from sklearn.callback import ScoringMonitor

    X, y = multiclass
    model = clone(model).set_params(random_state=0, n_jobs=n_jobs).fit(X, y[::-1])
    monitor = ScoringMonitor(scoring="accuracy")
    model.set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data]
    parts = model.result_.parts or (model.result_,)
    total = sum(len(part.trace) for part in parts)
    assert 0 < len(scores) <= total - len(parts) + 1
    last = scores if n_jobs == 2 else scores[-1:]  # the log is in the order of the problems
    assert model.score(X, y) in last


@needs_callbacks
def test_the_monitor_of_scikit_learn_on_kernel_regression(regression):
    from sklearn.callback import ScoringMonitor

    X, y = regression
    model, monitor = KernelSDCARegressor(max_support=10), ScoringMonitor(scoring="r2")
    model.set_callbacks(monitor).fit(X, y)
    full = clone(model).set_params(max_support=None).fit(X, y)
    scores = [row["r2"] for row in monitor.get_logs().data]
    assert scores[-1] == pytest.approx(full.score(X, y), rel=1e-4)
    assert len(model.support_vectors_) == 10


@needs_callbacks
def test_inside_a_meta_estimator_that_propagates(binary):
    from sklearn.base import BaseEstimator
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    class Twice(CallbackSupportMixin, BaseEstimator):
        @with_callbacks
        def fit(self, X, y):
            context = self._init_callback_context(max_subtasks=2)
            context.call_on_fit_task_begin(estimator=self, X=X, y=y)
            for alpha in (0.1, 0.01):
                model = SDCAClassifier(alpha=alpha)
                inner = context.subcontext(task_name="one of two")
                inner.call_on_fit_task_begin(estimator=self, X=X, y=y)
                with inner.propagate_callback_context(sub_estimator=model):
                    model.fit(X, y)
                inner.call_on_fit_task_end(estimator=self, X=X, y=y)
            context.call_on_fit_task_end(estimator=self, X=X, y=y)
            return self

    recorder = Propagated()
    Twice().set_callbacks(recorder).fit(*binary)
    assert recorder.count("certificate") >= 2
    assert recorder.calls.count(("setup", "fit")) == 1


@pytest.mark.parametrize("make", [SDCAClassifier, SublinearPerceptron])
def test_no_progress_is_shown_where_there_is_no_standard_error(monkeypatch, make):
    """As under pythonw, or for a daemon."""
    monkeypatch.setattr(sys, "stderr", None)
    X, y = make_classification(60, 5, random_state=0)
    assert make(verbose=1, random_state=0).fit(X, y).result_.n_iter > 0
    model = SDCAClassifier(verbose=1, random_state=0).fit_stream([(X, y)])
    assert model.result_.n_iter > 0
