"""Checkpoints: a fit that was killed goes on, with the bits of one that was not."""

import contextlib
import inspect
import itertools
import json
import signal
import subprocess
import sys
from dataclasses import is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from streamed import CASES, options_for, source_for

import sublinear
from sublinear import PegasosClassifier, Result, SDCAClassifier
from sublinear._checkpoint import fingerprint
from sublinear.semi_streaming import SemiStreamingPerceptron
from sublinear.sources import ArraySource, GeneratorSource

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PROGRAM = """
import os, signal, sys
import numpy as np
import sublinear
from sublinear.sources import ArraySource, GeneratorSource

data = np.load("data.npz")
left = [int(sys.argv[1])]

def blocks():
    for block in ArraySource(data["X"], data["y"], block_rows=20):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        yield block

model = eval("sublinear." + sys.argv[2])
model.fit_stream(GeneratorSource(blocks), classes=np.unique(data["y"]), checkpoint="state",
                 checkpoint_every=3, read_ahead=0)
"""


def fitted(case, request, *, cut=None, **options):
    model, data, _ = CASES[case]
    source = source_for(data, request)
    options |= options_for(case, request) | {"checkpoint_every": 3}
    if cut is not None:
        source = cut_source(source, cut)
    if "semi" in case:
        options.pop("read_ahead", None)
    return clone(model).fit_stream(source, **options)


def timeless(value):
    """What a result says, as plain values, without its times."""
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in value.items() if name != "seconds"}
    return [timeless(part) for part in value] if isinstance(value, tuple) else value


def assert_same(first, second):
    """All fitted attributes but for times and the last pass over the source."""
    names = [
        {name for name in dir(model) if name.endswith("_") and name[0] != "_"}
        for model in (first, second)
    ]
    found = {name for name in names[0] | names[1] if hasattr(first, name) or hasattr(second, name)}
    assert {"result_", "n_iter_"} < found
    for name in found - {"stream_"}:
        a, b = getattr(first, name), getattr(second, name)
        if name == "result_":
            a, b = timeless(a), timeless(b)
        assert type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None), name
        np.testing.assert_equal(a, b, err_msg=name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
@pytest.mark.parametrize("case", [case for case in CASES if "three" in case])
def test_a_killed_fit_goes_on_with_the_same_bits(case, request, tmp_path):
    model, data, one_pass = CASES[case]
    X, y = request.getfixturevalue(data)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    # SDCA counts for a pass first; the second kill comes after a resumption
    for blocks in (8, 7) if one_pass else (27, 33):
        command = [sys.executable, "-c", PROGRAM, str(blocks), repr(model)]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert [path.name for path in tmp_path.glob("*state*")] == ["state"]
    resumed = fitted(case, request, checkpoint=tmp_path / "state")
    assert_same(resumed, fitted(case, request))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_a_fit_that_goes_on_removes_what_it_left_when_it_was_killed(binary, tmp_path):
    X, y = binary
    np.savez(tmp_path / "data.npz", X=X, y=y)
    model = PegasosClassifier(alpha=0.1, random_state=0)
    saving_kills = "import os, signal; os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
    command = [sys.executable, "-c", saving_kills + PROGRAM, "-1", repr(model)]
    for _ in range(2):
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert len(list(tmp_path.glob("*state*"))) == 1
    source = ArraySource(X, y, block_rows=20)
    model.fit_stream(source, classes=[0, 1], checkpoint=tmp_path / "state")
    assert [path.name for path in tmp_path.glob("*state*")] == ["state"]


class Cut(Exception):
    pass


def cut_source(source, blocks):
    left = [blocks]

    def run():
        for block in source:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            yield block

    return GeneratorSource(run)


@pytest.mark.parametrize("case", CASES)
def test_wherever_it_stops(case, request, tmp_path):
    expected = fitted(case, request)
    path = tmp_path / "state"
    for blocks in (1, 4, 6, 7) if CASES[case][2] else (3, 14, 15, 24, 31, 47, 64):
        with contextlib.suppress(Cut):
            fitted(case, request, checkpoint=path, cut=blocks, read_ahead=0)
    assert path.exists()
    assert_same(fitted(case, request, checkpoint=path), expected)
    # complete: nothing more to do, the same again
    assert_same(fitted(case, request, checkpoint=path), expected)


class CutAnew:
    """Rows in blocks of another size in every pass; the pass `last` ends after so many blocks."""

    def __init__(self, X, y, sizes, last=None, n_blocks=0):
        self.X, self.y, self.sizes = X, y, sizes
        self.last, self.n_blocks, self.n_passes = last, n_blocks, 0

    def __iter__(self):
        size = self.sizes[self.n_passes % len(self.sizes)]
        self.n_passes += 1
        for k, start in enumerate(range(0, len(self.y), size)):
            if (self.n_passes, k) == (self.last, self.n_blocks):
                raise Cut
            yield self.X[start : start + size], self.y[start : start + size]


@pytest.mark.parametrize(("last", "n_blocks"), [(2, 3), (3, 1), (4, 9), (6, 2)])
def test_rows_count_where_later_passes_have_other_blocks(last, n_blocks, binary, tmp_path):
    X, y = binary
    options = {"checkpoint": tmp_path / "state", "checkpoint_every": 1}

    def resumed(model, **more):
        with contextlib.suppress(Cut):
            source = CutAnew(X, y, [50, 10, 7], last, n_blocks)
            clone(model).fit_stream(source, **options, **more)
        return clone(model).fit_stream(CutAnew(X, y, [50, 30]), **options, **more)

    model = SemiStreamingPerceptron(0.5, random_state=0)
    whole = clone(model).fit_stream(CutAnew(X, y, [50, 10]))
    np.testing.assert_array_equal(resumed(model).rows_, whole.rows_)
    model = SDCAClassifier(alpha=1e-2, random_state=0, second_order=False)
    options["checkpoint"] = tmp_path / "other"
    result = resumed(model, read_ahead=0).result_
    assert result.status == "converged"


@pytest.mark.parametrize("case", CASES)
def test_a_fit_with_a_checkpoint_is_a_fit(case, request, tmp_path):
    with_one = fitted(case, request, checkpoint=tmp_path / "state")
    assert_same(with_one, fitted(case, request))


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][2]])
def test_it_goes_on_learning_after_a_resumption(case, request, tmp_path):
    path, model = tmp_path / "state", None
    whole = fitted(case, request)
    with contextlib.suppress(Cut):
        fitted(case, request, checkpoint=path, cut=5, read_ahead=0)
    model = fitted(case, request, checkpoint=path)
    block = next(iter(source_for(CASES[case][1], request)))
    assert_same(model.partial_fit(*block), whole.partial_fit(*block))


def estimators():
    modules = (sublinear, sublinear.semi_streaming, sublinear.distributed)
    names = {getattr(module, name) for module in modules for name in module.__all__}
    return {
        thing for thing in names if isinstance(thing, type) and issubclass(thing, BaseEstimator)
    }


def test_every_estimator_that_learns_block_by_block_takes_a_source_and_a_checkpoint():
    learners = {kind for kind in estimators() if hasattr(kind, "partial_fit")}
    streamed = {kind for kind in estimators() if hasattr(kind, "fit_stream")}
    assert len(learners) >= 8 and learners <= streamed
    assert streamed == {type(model) for model, _, _ in CASES.values()}
    for kind in streamed:
        options = {"checkpoint", "checkpoint_every", "resume"}
        assert options < inspect.signature(kind.fit_stream).parameters.keys()


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][2]])
def test_a_source_is_partial_fit_block_by_block(case, request):
    whole = fitted(case, request)
    model, data, _ = CASES[case]
    model, options = clone(model), {}
    if hasattr(whole, "classes_"):
        options["classes"] = whole.classes_
    n_iter = accesses = 0
    for block in source_for(data, request):
        model.partial_fit(*block, **options)
        n_iter, accesses = n_iter + model.n_iter_, accesses + model.result_.accesses
    if isinstance(model.result_, Result):  # of the last block
        model.result_ = replace(whole.result_, n_iter=n_iter, accesses=accesses)
        model.n_iter_ = n_iter
    assert_same(whole, model)


def test_resume_false_begins_anew(request, binary, tmp_path):
    path = tmp_path / "state"
    fitted("pegasos", request, checkpoint=path)
    X, y = binary
    other = PegasosClassifier(alpha=0.5, random_state=7)
    other.fit_stream(
        ArraySource(X, y, block_rows=50), classes=[0, 1], checkpoint=path, resume=False
    )
    assert other.coef_.shape == (1, 12)


@pytest.mark.parametrize("labels", [[1, 2], ["no", "yes"]], ids=str)
def test_labels_in_an_object_array(labels, binary, tmp_path):
    X, y = binary
    y = np.array(labels, dtype=object)[y]
    source, path = ArraySource(X, y, block_rows=50), tmp_path / "state"
    model = PegasosClassifier(alpha=0.5, random_state=7)
    whole = clone(model).fit_stream(source, classes=labels, checkpoint=path)
    again = clone(model).fit_stream(source, classes=labels, checkpoint=path)
    assert_same(whole, again)
    assert again.predict(X[:1])[0] in labels


@pytest.mark.parametrize("nothing", [20, 0], ids=["no weight", "no rows"])
def test_rows_are_counted_where_the_last_block_held_nothing(nothing, binary, tmp_path):
    X, y = binary

    def fit(*sizes):
        places = np.cumsum([0, *sizes])
        blocks = [
            (X[a:b], y[a:b], np.full(b - a, 1.0 * (k != 2)))
            for k, (a, b) in enumerate(itertools.pairwise(places))
        ]
        model = PegasosClassifier(alpha=0.01, random_state=0)
        return model.fit_stream(blocks, classes=[0, 1], checkpoint=tmp_path / "state")

    fit(20, 20)
    fit(20, 20, nothing)
    with pytest.raises(ValueError, match=r"after 3 blocks with 40 rows.* has 3 with 35"):
        fit(20, 15, nothing, 20)
    with pytest.raises(ValueError, match=r"after 3 blocks with 40 rows.* has 2 with 40"):
        fit(20, 20)
    assert fit(20, 20, nothing, 20).stream_.rows == 60


def test_rows_that_were_appended_are_taken_in(binary, tmp_path):
    X, y = binary
    options = {"alpha": 0.01, "random_state": 0}

    def fit(n_rows, **more):
        source = ArraySource(X[:n_rows], y[:n_rows], block_rows=20)
        return PegasosClassifier(**options).fit_stream(source, classes=[0, 1], **more)

    fit(100, checkpoint=tmp_path / "state")
    assert_same(fit(200, checkpoint=tmp_path / "state"), fit(200))


def damaged(path, **changes):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    for name, value in changes.items():
        target = header["fit"] if name in header["fit"] else header
        target[name] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with open(path, "wb") as stream:
        np.savez(stream, **arrays)


def refit(binary, path, block_rows=20, **options):
    X, y = binary
    options = {"alpha": 0.01, "random_state": 7} | options
    PegasosClassifier(**options).fit_stream(
        ArraySource(X, y, block_rows=block_rows), classes=[0, 1], checkpoint=path
    )


@pytest.fixture
def checkpoint(request, tmp_path):
    fitted("pegasos", request, checkpoint=tmp_path / "state")
    return tmp_path / "state"


def test_a_checkpoint_of_another_fit_is_refused(binary, checkpoint):
    X, y = binary
    with pytest.raises(ValueError, match=r"it had alpha=0\.01, this one has 0\.02"):
        refit(binary, checkpoint, alpha=0.02)
    with pytest.raises(ValueError, match="it had random_state=7, this one has 8"):
        refit(binary, checkpoint, random_state=8)
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit((X + 1, y), checkpoint)
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit((X, 1 - y), checkpoint)
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit(binary, checkpoint, block_rows=40)
    with pytest.raises(
        ValueError, match=r"state: .* written after 10 blocks with 200 rows.* has 3 with 60"
    ):
        refit((X[:60], y[:60]), checkpoint)
    with pytest.raises(
        ValueError, match=r"written after 10 blocks with 200 rows.* has 10 with 190"
    ):
        refit((X[:190], y[:190]), checkpoint)
    with pytest.raises(ValueError, match="its class was 'PegasosClassifier'"):
        SDCAClassifier().fit_stream([(X, y)], checkpoint=checkpoint)
    with pytest.raises(ValueError, match="its classes were"):
        PegasosClassifier(alpha=0.01, random_state=7).fit_stream(
            ArraySource(X, y, block_rows=20), classes=[0, 1, 2], checkpoint=checkpoint
        )
    refit(binary, checkpoint, verbose=0, n_jobs=2)


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_of_other_data_parameters_or_version_is_refused(case, request, tmp_path):
    path, (model, data, one_pass) = tmp_path / "state", CASES[case]
    fitted(case, request, checkpoint=path)
    options, whole = {"checkpoint": path, **options_for(case, request)}, path.read_bytes()
    blocks, message = list(source_for(data, request)), "the first block of the data is another one"
    if not one_pass:  # which sees all of them first
        blocks[1], message = (-blocks[0][0], *blocks[0][1:]), "the rows of the data were others"
    with pytest.raises(ValueError, match=message):
        clone(model).fit_stream(blocks[1:] if one_pass else blocks, **options)
    name = "epsilon" if "semi" in case else "alpha"
    other = clone(model).set_params(**{name: 0.03})
    with pytest.raises(ValueError, match=rf"it had {name}=0\.\d+, this one has 0\.03"):
        other.fit_stream(source_for(data, request), **options)
    damaged(path, sublinear="0.0.1")
    with pytest.raises(ValueError, match=r"its sublinear was '0\.0\.1'"):
        clone(model).fit_stream(source_for(data, request), **options)
    for content in (whole[: len(whole) // 2], b"no archive"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="state: not a sublinear checkpoint file"):
            clone(model).fit_stream(source_for(data, request), **options)
    path.unlink()
    clone(model).fit_stream(source_for(data, request), **options, resume=False)
    assert path.exists()


def test_another_version_or_damage_is_refused(binary, checkpoint, tmp_path):
    whole = checkpoint.read_bytes()
    damaged(checkpoint, sublinear="0.0.1")
    with pytest.raises(
        ValueError, match=rf"its sublinear was '0\.0\.1', not '{sublinear.__version__}'"
    ):
        refit(binary, checkpoint)
    checkpoint.write_bytes(whole)
    damaged(checkpoint, version=99)
    with pytest.raises(ValueError, match="checkpoint format 99 is newer"):
        refit(binary, checkpoint)
    checkpoint.write_bytes(whole)
    damaged(checkpoint, arrays=["nothing"])
    with pytest.raises(ValueError, match="state: damaged checkpoint file"):
        refit(binary, checkpoint)
    for content in (whole[: len(whole) // 2], b"no archive"):
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match="not a sublinear checkpoint file"):
            refit(binary, checkpoint)
    model = tmp_path / "model.npz"
    sublinear.save_model(SDCAClassifier().fit(*binary), model)
    with pytest.raises(ValueError, match="not a sublinear checkpoint file"):
        refit(binary, model)


@pytest.mark.parametrize(
    ("case", "array", "number"),
    [
        ("sdca, free intercepts", "2.w", "run.look_error"),
        ("sdca, second order", "certified.models", "newton_work"),
        ("streaming svrg", "0.sample.rows", "0.stage.n_rows"),
        ("streaming svrg, theory", "0.sums", "0.steps_left"),
        ("semi-streaming ball", "sampler 3", "next_row"),
    ],
)
def test_what_is_damaged_in_a_state_is_named(case, array, number, request, tmp_path):
    path = tmp_path / "state"
    with contextlib.suppress(Cut):
        fitted(case, request, checkpoint=path, cut=6 if CASES[case][2] else 47, read_ahead=0)
    arrays = dict(np.load(path))
    header = json.loads(arrays["header"].tobytes())
    del header["state"][number]
    without = {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
    longer = {f"array.{array}": np.repeat(arrays[f"array.{array}"], 2, axis=0)}
    for change, message in (
        (without, rf"state: .* another fit: {number} is missing"),
        (longer, rf"state: .* another fit: {array} is .* of shape"),
    ):
        with open(path, "wb") as stream:
            np.savez(stream, **arrays | change)
        with pytest.raises(ValueError, match=message):
            fitted(case, request, checkpoint=path)


@pytest.mark.parametrize(
    ("case", "name", "count", "message"),
    [
        ("streaming svrg", "0.stage.n_rows", 10**6, "stage_rows is less than the rows that the"),
        ("streaming svrg", "0.kept_rows", 0, "kept_rows is 0"),
        ("streaming svrg, theory", "0.stage.n_rows", 10**6, "does not go with the rows that the"),
    ],
)
def test_counts_that_do_not_go_together_are_refused(case, name, count, message, request, tmp_path):
    path = tmp_path / "state"
    with contextlib.suppress(Cut):
        fitted(case, request, checkpoint=path, cut=47, read_ahead=0)
    arrays = dict(np.load(path))
    header = json.loads(arrays["header"].tobytes())
    assert header["state"][name] != count
    header["state"][name] = count
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with open(path, "wb") as stream:
        np.savez(stream, **arrays)
    with pytest.raises(ValueError, match=f"state: .*{message}"):
        fitted(case, request, checkpoint=path)


def test_the_place_is_checked_before_the_work(binary, tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        refit(binary, Path(tmp_path, "missing", "state"))
    X, y = binary
    with pytest.raises(ValueError, match="checkpoint_every must be an integer"):
        PegasosClassifier().fit_stream([(X, y)], classes=[0, 1], checkpoint_every=0)
    with pytest.raises(ValueError, match="resume must be True or False"):
        PegasosClassifier().fit_stream([(X, y)], classes=[0, 1], resume="yes")


def test_a_relative_path_is_that_of_the_beginning(binary, tmp_path, monkeypatch):
    X, y = binary
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def blocks():
        for k in range(6):
            if k == 2:
                monkeypatch.chdir(tmp_path / "elsewhere")
            yield X[k::6], y[k::6]

    PegasosClassifier().fit_stream(
        blocks(), classes=[0, 1], checkpoint="state", checkpoint_every=1, read_ahead=0
    )
    assert (tmp_path / "state").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_hash_of_sparse_rows_is_that_of_their_entries_in_order():
    rows = sparse.random_array((5, 1000), density=0.01, format="csr", random_state=0)
    indices = rows.indices.copy()
    shuffled = sparse.csr_array((rows.data.copy(), indices, rows.indptr), shape=rows.shape)
    for first, last in zip(rows.indptr, rows.indptr[1:], strict=False):
        shuffled.indices[first:last] = rows.indices[first:last][::-1]
        shuffled.data[first:last] = rows.data[first:last][::-1]
    shuffled.has_sorted_indices = shuffled.has_canonical_format = False
    wide = rows.copy()
    wide.indices, wide.indptr = (part.astype(np.int64) for part in (rows.indices, rows.indptr))
    assert fingerprint([rows]) == fingerprint([shuffled]) == fingerprint([wide])
    assert fingerprint([rows]) != fingerprint(
        [sparse.csr_array((rows.data, indices, rows.indptr), shape=(5, 1001))]
    )
    other = rows.copy()
    other.data[0] += 1
    assert fingerprint([rows]) != fingerprint([other])


@pytest.mark.parametrize("y", ["binary", "three"])
def test_a_fit_that_a_callback_stopped_goes_on(y, binary, tmp_path):
    X, labels = binary
    labels = labels if y == "binary" else np.arange(len(labels)) % 3
    model = SDCAClassifier(alpha=1e-3, tol=1e-9, random_state=0)
    blocks, file = [(X[:50], labels[:50]), (X[50:], labels[50:])], tmp_path / "state"
    stopping = clone(model).set_params(callback=lambda snapshot: snapshot.n_iter >= 3)
    stopped = stopping.fit_stream(blocks, checkpoint=file)
    assert stopped.result_.status == "stopped"
    whole = clone(model).fit_stream(blocks)
    resumed = clone(model).fit_stream(blocks, checkpoint=file)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.result_.n_iter == whole.result_.n_iter > stopped.result_.n_iter
    assert resumed.result_.status == whole.result_.status == "converged"


@pytest.mark.parametrize("limit", [{"max_iter": 9}, {"max_accesses": 9000}])
def test_a_fit_that_a_callback_stopped_at_its_limit_is_at_its_end(limit, binary, tmp_path):
    model = SDCAClassifier(alpha=1e-6, tol=1e-12, random_state=0, second_order=False, **limit)
    whole, seen = clone(model).fit_stream([binary]).result_, []

    def stops_at_the_end(snapshot):
        seen.append(snapshot)
        return len(seen) == len(whole.trace)

    file = tmp_path / "state"
    stopping = clone(model).set_params(callback=stops_at_the_end)
    assert stopping.fit_stream([binary], checkpoint=file).result_.status == "stopped"
    resumed = clone(model).fit_stream([binary], checkpoint=file).result_
    assert (resumed.status, len(resumed.trace)) == (*limit, len(whole.trace))
    assert resumed.certificate_accesses == whole.certificate_accesses


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_limit_that_was_met_is_told_again(binary, tmp_path):
    model = SDCAClassifier(alpha=1e-6, tol=1e-12, max_iter=2, random_state=0)
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit_stream([binary], checkpoint=tmp_path / "state")


@pytest.mark.parametrize(
    "model",
    [SemiStreamingPerceptron(0.3, random_state=0), SDCAClassifier(alpha=0.01, random_state=0)],
)
def test_the_same_rows_in_other_blocks_are_said_to_be_that(model, binary, tmp_path):
    X, y = binary
    sources = [ArraySource(X, y, block_rows=rows) for rows in (20, 30)]
    clone(model).fit_stream(sources[0], checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="its blocks had other numbers of rows"):
        clone(model).fit_stream(sources[1], checkpoint=tmp_path / "state")


def test_duals_balance_after_a_resumption_while_newton_s_method_ends_in_mid_pass(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    y = X[:, 0] + random.normal(size=200) > 0.8
    model = SDCAClassifier(
        "logistic",
        alpha=1e-5,
        penalize_intercept=False,
        second_order=True,
        tol=1e-6,
        max_accesses=4000,
        random_state=0,
    )
    source, file = ArraySource(X, y, block_rows=50), tmp_path / "state"
    whole = clone(model).fit_stream(source, read_ahead=0)
    assert abs(whole.dual_coef_.sum()) < 1e-15 * len(y)
    for cut in range(1, 100):
        with contextlib.suppress(Cut):
            again = clone(model).fit_stream(
                cut_source(source, cut), read_ahead=0, checkpoint=file, checkpoint_every=1
            )
            break
    assert cut > 10
    np.testing.assert_array_equal(again.dual_coef_, whole.dual_coef_)
