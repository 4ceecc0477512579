"""Checkpoints: a fit that was killed goes on, with the bits of one that was not."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sublinear
from sublinear import PegasosClassifier, SDCAClassifier, SDCARegressor
from sublinear.sources import ArraySource, GeneratorSource

SHORT = {"tol": 0, "max_iter": 6}
CASES = {
    "pegasos": (PegasosClassifier, "binary", {}),
    "pegasos, last iterate": (PegasosClassifier, "binary", {"average": "last"}),
    "pegasos, three classes": (PegasosClassifier, "multiclass", {"loss": "logistic"}),
    "sdca": (SDCAClassifier, "binary", SHORT),
    "sdca, three classes": (SDCAClassifier, "multiclass", SHORT),
    "sdca, regression": (SDCARegressor, "regression", SHORT),
}
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

model = getattr(sublinear, sys.argv[2])(alpha=0.01, random_state=7, **eval(sys.argv[3]))
classes = None if sys.argv[2] == "SDCARegressor" else np.unique(data["y"])
model.fit_stream(GeneratorSource(blocks), classes=classes, checkpoint="state",
                 checkpoint_every=3, read_ahead=0)
"""


def fitted(case, request, **options):
    kind, data, more = CASES[case]
    X, y = request.getfixturevalue(data)
    classes = None if kind is SDCARegressor else np.unique(y)
    model = kind(alpha=0.01, random_state=7, **more)
    source = options.pop("source", None) or ArraySource(X, y, block_rows=20)
    return model.fit_stream(source, classes=classes, checkpoint_every=3, **options)


def assert_same(first, second):
    for name in ("coef_", "intercept_", "dual_coef_", "classes_"):
        assert hasattr(first, name) == hasattr(second, name)
        if hasattr(first, name):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
            assert getattr(first, name).dtype == getattr(second, name).dtype
    for name in ("primal", "dual", "gap", "status", "n_iter", "accesses", "certificate_accesses"):
        np.testing.assert_equal(getattr(first.result_, name), getattr(second.result_, name))
    assert first.n_features_in_ == second.n_features_in_


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
@pytest.mark.parametrize("case", [case for case in CASES if "three" in case])
def test_a_killed_fit_goes_on_with_the_same_bits(case, request, tmp_path):
    kind, data, more = CASES[case]
    X, y = request.getfixturevalue(data)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    # SDCA counts for a pass first; the second kill comes after a resumption
    for blocks in (8, 7) if kind is PegasosClassifier else (27, 33):
        command = [sys.executable, "-c", PROGRAM, str(blocks), kind.__name__, repr(more)]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert [path.name for path in tmp_path.glob("*state*")] == ["state"]
    resumed = fitted(case, request, checkpoint=tmp_path / "state")
    assert_same(resumed, fitted(case, request))


class Cut(Exception):
    pass


def cut_source(X, y, blocks):
    left = [blocks]

    def run():
        for block in ArraySource(X, y, block_rows=20):
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            yield block

    return GeneratorSource(run)


@pytest.mark.parametrize("case", CASES)
def test_wherever_it_stops(case, request, tmp_path):
    X, y = request.getfixturevalue(CASES[case][1])
    expected = fitted(case, request)
    path = tmp_path / "state"
    pegasos = case.startswith("pegasos")
    for blocks in (1, 4, 6, 7) if pegasos else (3, 14, 15, 24, 31, 47, 64):
        with contextlib.suppress(Cut):
            fitted(case, request, checkpoint=path, source=cut_source(X, y, blocks), read_ahead=0)
    assert path.exists()
    assert_same(fitted(case, request, checkpoint=path), expected)
    # complete: nothing more to do, the same again
    assert_same(fitted(case, request, checkpoint=path), expected)


@pytest.mark.parametrize("case", CASES)
def test_a_fit_with_a_checkpoint_is_a_fit(case, request, tmp_path):
    with_one = fitted(case, request, checkpoint=tmp_path / "state")
    assert_same(with_one, fitted(case, request))


def test_resume_false_begins_anew(request, binary, tmp_path):
    path = tmp_path / "state"
    fitted("pegasos", request, checkpoint=path)
    X, y = binary
    other = PegasosClassifier(alpha=0.5, random_state=7)
    other.fit_stream(
        ArraySource(X, y, block_rows=50), classes=[0, 1], checkpoint=path, resume=False
    )
    assert other.coef_.shape == (1, 12)


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
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit((X + 1, y), checkpoint)
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit((X, 1 - y), checkpoint)
    with pytest.raises(ValueError, match="the first block of the data is another one"):
        refit(binary, checkpoint, block_rows=40)
    with pytest.raises(ValueError, match=r"written after 10 blocks with 200 rows.* has 3 with 60"):
        refit((X[:60], y[:60]), checkpoint)
    with pytest.raises(
        ValueError, match=r"written after 10 blocks with 200 rows.* has 10 with 190"
    ):
        refit((X[:190], y[:190]), checkpoint)
    with pytest.raises(ValueError, match="its class was 'PegasosClassifier'"):
        SDCAClassifier().fit_stream([(X, y)], checkpoint=checkpoint)
    with pytest.raises(ValueError, match="its classes was"):
        PegasosClassifier(alpha=0.01, random_state=7).fit_stream(
            ArraySource(X, y, block_rows=20), classes=[0, 1, 2], checkpoint=checkpoint
        )
    refit(binary, checkpoint, verbose=0, n_jobs=2)


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


def test_the_place_is_checked_before_the_work(binary, tmp_path):
    with pytest.raises(OSError, match="there is no folder"):
        refit(binary, Path(tmp_path, "missing", "state"))
    X, y = binary
    with pytest.raises(ValueError, match="checkpoint_every must be an integer"):
        PegasosClassifier().fit_stream([(X, y)], classes=[0, 1], checkpoint_every=0)
    with pytest.raises(ValueError, match="resume must be True or False"):
        PegasosClassifier().fit_stream([(X, y)], classes=[0, 1], resume="yes")
