"""Checkpoints: the state of a fit over a source, in a file of plain arrays (see _archive).

The header says which fit it was: class, version, parameters, classes and the data, all of it where
all is seen before the fit goes on, else the first block. A checkpoint of any other fit is refused.
"""

import hashlib
import json
import math
import os
import zlib

import numpy as np
from scipy import sparse

from sublinear._archive import (
    ArchiveError,
    plain_parameters,
    plain_scalar,
    read_archive,
    storable_labels,
    write_archive,
)
from sublinear._core.matrix import csr_structure
from sublinear._core.states import State, part_of, prefixed, reading, refusal, saved, take
from sublinear._files import check_writable
from sublinear._result import STATUSES, Result, array_of_trace, trace_of
from sublinear._validation import check_flag, check_number, seed_sequence
from sublinear._version import __version__

FORMAT = "sublinear checkpoint"
VERSION = 21
PIECE = 2**20  # values that are hashed at a time
NOT_COMPARED = ("verbose", "callback", "n_jobs", "client")
FITTED = (
    "coef_",
    "intercept_",
    "transition_",
    "start_",
    "n_features_in_",
    "n_iter_",
    "classes_",
    "dual_coef_",
)
# of a Result: entries like these, or None where it may be None
_ENTRIES = {
    "primal": math.nan,  # which is unknown in a stream
    "dual": math.nan,
    "gap": math.nan,
    "status": "",
    "n_iter": 0,
    "accesses": 0,
    "certificate_accesses": 0,
    "seconds": 0.0,
    "full_accesses": 0,
    "bytes_read": 0,
}


def open_checkpoint(path, every, resume, estimator, classes=None):
    """Return the Checkpoint of a fit, None without a path.

    Parameters
    ----------
    path : str, path-like or None
    every, resume, estimator, classes
        As those of a Checkpoint, not checked yet.
    """
    check_number("checkpoint_every", every, low=1, integer=True)
    check_flag("resume", resume)
    return None if path is None else Checkpoint(path, every, resume, estimator, classes)


class Checkpoint:
    """One fit's file.

    Parameters
    ----------
    path : str or path-like
    every : int
        Blocks between two saves.
    resume : bool
        Whether to load what the file holds.
    estimator : estimator
        Whose state is saved; the file holds what tells it from others.
    classes : array-like or None
        As `fit_stream` got them.
    """

    def __init__(self, path, every, resume, estimator, classes):
        check_writable(path)
        # a source may change the working directory
        self.path, self.every, self.resume = os.path.abspath(path), every, resume
        self.identity = {
            "class": type(estimator).__name__,
            "sublinear": __version__,
            "parameters": {
                name: value if _is_plain(value) else type(value).__qualname__
                for name, value in plain_parameters(estimator).items()
                if name not in NOT_COMPARED
            },
            "classes": None if classes is None else storable_labels(classes).tolist(),
        }
        self.last, self.seen = 0, ""
        self.cut = 0  # a hash of the numbers of rows of all blocks

    def identify(self, arrays):
        """Take the first Block, or other arrays, for the mark of a source."""
        self.identity["first block"] = fingerprint(arrays)

    def see(self, block):
        """Take a Block into the mark of a source that is read as a whole before the fit goes on."""
        self.cut = zlib.crc32(str(block.X.shape[0]).encode(), self.cut)
        self.seen = fingerprint(block, self.seen)

    def identify_partitions(self, marks):
        """Take the marks of partitions, a list of strings or None, for that of the data."""
        self.identity["partitions"] = marks

    def compare_partitions(self, marks, state):
        """Raise ValueError unless partitions have marks of what was read that a state has, too."""
        if list(marks) != np.asarray(state["marks"]).tolist():
            raise ValueError(f"{self.path}: {_of_another_fit(_difference('partitions'))}")

    def compare_counts(self, written, found):
        """Raise ValueError unless a source has as many blocks, and rows in these, as the file."""
        if found != written:
            difference = (
                f"it was written after {written[0]} blocks with {written[1]} rows, and the source "
                f"has {found[0]} with {found[1]}"
            )
            raise ValueError(f"{self.path}: {_of_another_fit(difference)}")

    def count_rows(self, n_rows):
        """Note how many rows have been seen, all that there are, and how blocks cut them."""
        self.identity["n_rows"] = int(n_rows)
        self.identity["cut"] = self.cut
        self.identity["rows"] = self.seen

    def load(self):
        """Return the state in the file, None if there is none to go on from.

        Raises
        ------
        ValueError
            If it is damaged, or of another fit.
        """
        if not self.resume or not os.path.exists(self.path):
            return None
        return read_archive(self.path, FORMAT, VERSION, self._checked_state)

    def _checked_state(self, header, arrays):
        # through JSON: its tuples are lists, its keys strings
        expected = json.loads(json.dumps(self.identity))
        for name, mine in expected.items():
            theirs = header["fit"].get(name)
            if theirs != mine:
                raise ArchiveError(_of_another_fit(_difference(name, theirs, mine)))
        arrays = {name: arrays[f"array.{name}"] for name in header["arrays"]}
        return State(header["state"] | arrays, self.path)

    def save(self, state):
        """Write a state: a flat dict of arrays, numbers, strings and None."""
        arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        header = {
            "format": FORMAT,
            "version": VERSION,
            "fit": self.identity,
            "state": {
                name: plain_scalar(value) for name, value in state.items() if name not in arrays
            },
            "arrays": list(arrays),
        }
        arrays = {f"array.{name}": value for name, value in arrays.items()}
        write_archive(self.path, header, arrays)

    def is_due(self, blocks):
        """Tell whether to save after so many blocks; counts them from the last time on."""
        if blocks - self.last < self.every:
            return False
        self.last = blocks
        return True


class RoundsCheckpoint:
    """The file of a fit over partitions: problems solved so far, and the rounds of others.

    Parameters
    ----------
    checkpoint : Checkpoint
        Its partitions are identified; it counts rounds.
    """

    def __init__(self, checkpoint):
        self.checkpoint = checkpoint
        self.state = checkpoint.load() or State()
        self.is_new = not self.state
        self.k = self.solver = None

    def beginning(self, state):
        """Return what the fit began with, a flat dict: that of the file's fit if there is one."""
        if self.is_new:
            self.state |= prefixed("beginning", state)
        return part_of(self.state, "beginning")

    def seeds(self, estimator, count):
        """Return seeds for the problems: those of the fit that the file is of."""
        sequence = seed_sequence(estimator.random_state)  # which may draw, as without a file
        if self.is_new:
            self.state["entropy"] = sequence.entropy
        with reading(self.state, "entropy") as entropy:
            if entropy is None:
                raise ValueError("it is None")
            return np.random.SeedSequence(entropy).spawn(count)

    def is_solved(self, k):
        """Tell whether the file has the model of problem k."""
        return bool(part_of(self.state, f"solved {k}"))

    def solved(self, k, n_weights):
        """Return the model of a solved problem, its Result and what was kept of its solver."""
        state = part_of(self.state, f"solved {k}")
        model = take(state, "model", np.zeros(n_weights))
        return model, result_of(part_of(state, "result")), part_of(state, "kept")

    def begin(self, k, solver):
        """Take the solver of problem k; return what `drive` needs to go on, or None."""
        self.k, self.solver = k, solver
        self.checkpoint.last = 0
        state = part_of(self.state, f"present {k}")
        if not state:
            return None
        solver.set_state(state)
        self.checkpoint.last = solver.n_iter
        return state

    def keep(self, state_of_run, stopped):
        """Save if it is time to, or the fit has been stopped: another call may go on."""
        if stopped or self.checkpoint.is_due(self.solver.n_iter):
            present = self.solver.state() | state_of_run()
            self._save(self.k, prefixed(f"present {self.k}", present))

    def end(self, k, model, result, kept):
        """Save what becomes of problem k, unless it was stopped; `kept` is a flat dict."""
        if result.status != "stopped":
            state = prefixed("result", state_of_result(result)) | prefixed("kept", kept)
            self._save(k, prefixed(f"solved {k}", state | {"model": model}))

    def _save(self, k, state):
        """Save a state of problem k in place of its last one."""
        for name in part_of(self.state, f"present {k}"):
            del self.state[f"present {k}.{name}"]
        self.state |= state
        self.checkpoint.save(self.state)


def fitted_state(estimator):
    """Return an estimator's own fitted attributes as a flat dict; properties are left out."""
    own, state = vars(estimator), {}
    for name in FITTED:
        state[name] = value = own.get(name)
        if value is not None:
            state[name] = storable_labels(value) if name == "classes_" else np.asarray(value)
    if "classes_" in own:
        state["object_classes"] = estimator.classes_.dtype == object
    return state | prefixed("result", state_of_result(own["result_"]) if "result_" in own else {})


def set_fitted_state(estimator, state, n_rows=None):
    """Set the attributes of a `fitted_state`."""
    _check_shapes(state, n_rows)
    for name in FITTED:
        if state[name] is not None:
            if hasattr(type(estimator), name):  # a property
                raise refusal(state, name, "holds what no fit has stored")
            setattr(estimator, name, _fitted(state, name))
    if "classes_" in vars(estimator) and take(state, "object_classes", False):
        estimator.classes_ = estimator.classes_.astype(object)
    if result := part_of(state, "result"):
        estimator.result_ = result_of(result)


def _check_shapes(state, n_rows):
    """Refuse fitted attributes that are not of one model, or duals of another number of rows."""
    shapes = {name: np.shape(state[name]) for name in FITTED if state[name] is not None}
    if "coef_" not in shapes:  # other entries have the model
        return
    *models, n_features = shapes["coef_"] or (0,)
    expected = {
        "intercept_": (*models,),
        "classes_": (max((2, *models)),),
        "dual_coef_": (*models, n_rows),
        "n_features_in_": (),
    }
    is_one = all(shapes[name] == expected[name] for name in shapes.keys() & expected.keys())
    if is_one and "n_features_in_" in shapes:
        is_one = take(state, "n_features_in_", 0) == n_features
    if not is_one:
        raise refusal(state, "coef_", f"and others are not of one model, of shapes {shapes}")


def _fitted(state, name):
    """Return one of the fitted attributes."""
    if name.startswith("n_"):
        return take(state, name, 0)
    value, is_sound = state[name], False
    if isinstance(value, np.ndarray) and name == "classes_":
        is_sound = value.dtype.kind in "biufU" and np.array_equal(np.unique(value), value)
    elif isinstance(value, np.ndarray):
        is_sound = value.dtype.kind == "f" and np.isfinite(value).all()
    if not is_sound:
        raise refusal(state, name, "holds what no fit has stored")
    return value[()]


def state_of_result(result):
    """Return a Result as a flat dict."""
    state = saved(result, _ENTRIES)
    state["trace"] = array_of_trace(result.trace)
    for k, part in enumerate(result.parts):
        state |= prefixed(f"part {k}", state_of_result(part))
    return state


def result_of(state):
    """Return the Result of a `state_of_result`."""
    entries, parts = {}, []
    for name, like in _ENTRIES.items():
        is_none = state[name] is None and name in ("full_accesses", "bytes_read")
        entries[name] = None if is_none else take(state, name, like)
    if entries["status"] not in STATUSES:
        raise refusal(state, "status", f"is none of {STATUSES}")
    while part := part_of(state, f"part {len(parts)}"):
        parts.append(result_of(part))
    return Result(**entries, trace=tuple(trace_of(state)), parts=tuple(parts))


def _of_another_fit(difference):
    return (
        f"the checkpoint is of another fit: {difference}; "
        "remove the file, give another one, or pass resume=False to begin anew"
    )


# of the data; other entries of an identity are shown
_DIFFERENCES = {
    "first block": "the first block of the data is another one",
    "rows": "the rows of the data were others",
    "cut": "its blocks had other numbers of rows",
    "partitions": "the rows of its partitions were others (what workers hold may change from fit "
    "to fit: n_partitions makes the same partitions every time)",
}


def _difference(name, theirs=None, mine=None):
    if name in _DIFFERENCES:
        return _DIFFERENCES[name]
    if name == "parameters":
        for key in sorted(mine.keys() | (theirs or {}).keys()):
            before, now = (theirs or {}).get(key), mine.get(key)
            if before != now:
                return f"it had {key}={before!r}, this one has {now!r}"
    return f"its {name} {'were' if name == 'classes' else 'was'} {theirs!r}, not {mine!r}"


def _is_plain(value):
    """Tell whether JSON knows a value."""
    return value is None or isinstance(value, (bool, int, float, str, list))


def fingerprint(arrays, before=""):
    """Return a hash of arrays, some of which may be sparse or None, and of another hash."""
    digest = hashlib.sha256(before.encode())
    for array in arrays:
        for part in _parts(array):
            part = storable_labels(part)
            digest.update(f"{part.dtype.str}{part.shape}{_checksum(part)}".encode())
    return digest.hexdigest()


def _checksum(array):
    """Return a checksum of all values; many times as fast as a hash that no malice could match."""
    array, checksum = np.atleast_1d(array), 0
    step = max(1, PIECE // max(1, array[:1].size))
    for start in range(0, len(array), step):
        piece = np.ascontiguousarray(array[start : start + step])
        checksum = zlib.crc32(piece.view(np.uint8), checksum)
    return checksum


def _parts(array):
    """Return what an array consists of; a sparse one in the order that all of its kind share."""
    if not sparse.issparse(array):
        return () if array is None else (array,)
    if array.format == "csr":
        csr_structure(array)  # scipy does not look whether the indices exist
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    narrow = np.int32 if max(*array.shape, array.nnz) < 2**31 else np.int64
    indices = (part.astype(narrow, copy=False) for part in (array.indices, array.indptr))
    return (np.array(array.shape), array.data, *indices)
