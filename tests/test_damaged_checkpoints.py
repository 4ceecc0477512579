"""Checkpoints in which an entry is damaged: the error names the file and the entry."""

import contextlib
import json
import re

import numpy as np
import pytest
from sklearn.base import clone
from streamed import CASES, options_for, source_for

from sublinear._checkpoint import Checkpoint
from sublinear.distributed import PegasosClassifier, SDCAClassifier, SDCARegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHORT = {"alpha": 0.01, "tol": 1e-12, "max_iter": 12, "random_state": 0}
OVER_PARTITIONS = {
    "dual ascent": SDCAClassifier(**SHORT, second_order=False),
    "dual ascent, second order": SDCARegressor("absolute", second_order=True, **SHORT),
    "batches": PegasosClassifier(bias="search", average="random", **SHORT),
}
STREAMED = [
    "pegasos, three classes",
    "pegasos, classes at once",
    "pegasos, regression",
    "sdca, free intercepts",
    "sdca, second order",
    "semi-streaming perceptron",
    "semi-streaming ball",
]
# of any length; not needed by all; where any number may stand
FREE_LENGTH = re.compile(r"\.(awake|sigmas|lines|trace)$")
UNREAD = re.compile(r"\.(sum_of_iterates|direction)$")
ANY_NUMBER = re.compile(r"(primal|dual|gap|gap_before|bounds|least|entropy|trace)$")
ALIKE = re.compile(r"([1-9]\d*)\.|part \d| [1-9]\d*$")  # others of the same kind have been seen


class Stopped(Exception):
    pass


@pytest.fixture
def stop_at_save(monkeypatch):
    """A function: the n-th checkpoint from now on is written, and then the fit ended; 0: none."""
    write = Checkpoint.save

    def after(count):
        left = [count]

        def save(self, state):
            write(self, state)
            left[0] -= 1
            if left[0] == 0:
                raise Stopped

        monkeypatch.setattr(Checkpoint, "save", save)

    return after


def fit_of(case, request):
    """A function that fits a model with a checkpoint."""
    if case in CASES:
        model, data, _ = CASES[case]
        source, options = source_for(data, request), options_for(case, request)
        return lambda file: clone(model).fit_stream(
            source, checkpoint=file, checkpoint_every=3, **options
        )
    model = OVER_PARTITIONS[case]
    X, y = request.getfixturevalue("regression" if isinstance(model, SDCARegressor) else "binary")
    parts = [[(X[k::4], y[k::4]), (X[k + 2 :: 4], y[k + 2 :: 4])] for k in range(2)]
    return lambda file: clone(model).fit(parts, checkpoint=file, checkpoint_every=2)


def damages_of(name, value):
    """Yield what may stand in the place of an entry, None for nothing at all."""
    yield None
    kind, shape = np.asarray(value).dtype.kind, np.shape(value)
    if isinstance(value, np.ndarray):
        if not FREE_LENGTH.search(name):
            yield np.concatenate([value, value]) if value.ndim else np.stack([value, value])
        yield value[np.newaxis]
        yield np.full(shape, "a")
        yield np.full(shape, 1j)
    else:
        yield from ("?", {"a": 1})
    if name.endswith("correction"):
        yield from (0.0, -1.0)
    numbers = {"i": (-1, 0.5, 2**62), "f": (np.nan,)}.get(kind, ())
    if name != "classes_" and not ANY_NUMBER.search(name) and np.size(value):
        yield from (np.full(shape, number)[()] for number in numbers)


def entries_of(file):
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("header").tobytes())
    arrays = {name.removeprefix("array."): value for name, value in arrays.items()}
    return header, header["state"] | arrays


def write(file, header, entries):
    arrays = {name: value for name, value in entries.items() if isinstance(value, np.ndarray)}
    header["state"] = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in entries.items()
        if name not in arrays
    }
    header["arrays"] = list(arrays)
    plain = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with open(file, "wb") as stream:
        np.savez(stream, header=plain, **{f"array.{name}": arrays[name] for name in arrays})


@pytest.mark.parametrize("saves", [2, 0])
@pytest.mark.parametrize("case", [*STREAMED, *OVER_PARTITIONS])
def test_a_damaged_entry_is_named(case, saves, request, tmp_path, stop_at_save):
    fit, file = fit_of(case, request), tmp_path / "state"
    stop_at_save(saves)
    with contextlib.suppress(Stopped):
        fit(file)
    header, entries = entries_of(file)
    stop_at_save(0)
    missed, has_ended = [], saves == 0 and case in CASES
    for name, value in entries.items():
        is_for_more = has_ended and name[0].isdigit()  # blocks
        if value is None or is_for_more or ALIKE.search(name) or UNREAD.search(name):
            continue
        for damage in damages_of(name, value):
            changed = {key: own for key, own in entries.items() if key != name}
            if damage is not None:
                changed[name] = damage
            write(file, header, changed)
            try:
                fit(file)
                missed.append((name, damage, "accepted"))
            except Exception as error:
                said = str(error)
                if not (isinstance(error, ValueError) and str(file) in said and name in said):
                    missed.append((name, damage, error))
    assert not missed
