"""Archives: an uncompressed .npz of plain arrays with a JSON header, safe to read from a stranger.

The array `header` holds UTF-8 bytes of JSON: the format's name and version, and what its writer
adds. The other arrays are numeric or strings. Nothing in it is code.
"""

import contextlib
import errno
import json
import numbers
import os
import zipfile
from pathlib import Path

import numpy as np

from sublinear._core.states import reading
from sublinear._files import replacing
from sublinear._readers.numpy_files import read_array_header


class ArchiveError(ValueError):
    """What is wrong with a file, in words for its user."""


def write_archive(path, header, arrays):
    """Write a header, a JSON-ready dict with `format` and `version`, and arrays by name."""
    header = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(path) as stream:
        try:
            np.savez(stream, **arrays, header=header)
        except ValueError as error:  # of closing the archive that Ctrl-C has cut
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise


def read_archive(path, format, version, build, *, known=None):
    """Return what build(header, arrays) makes of an archive.

    Parameters
    ----------
    path : str or path-like
    format : str
        What the header calls itself, and errors the file.
    version : int
        The newest one that can be read.
    build : callable
        Its ArchiveErrors, and errors that damage causes, become a ValueError that names the file.
    known : iterable of str, default=None
        Arrays that may be there; None for any.
    """
    path = Path(path)
    _check_members(path, format, known)
    try:
        with np.load(path, allow_pickle=False) as archive:
            for member in archive.zip.infolist():  # of all, before one is read
                with archive.zip.open(member) as stream:
                    read_array_header(stream, member.file_size)
            arrays = {name: archive[name] for name in archive.files}
        header = _checked_header(json.loads(arrays.pop("header").tobytes()), format, version)
        return build(header, arrays)
    except ArchiveError as error:
        raise ValueError(f"{path}: {error}") from error
    except MemoryError as error:
        raise MemoryError(f"{path} does not fit into memory") from error
    except Exception as error:  # damage can make anything fail
        # of the system, but for places before the file's beginning
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise _naming_file(error, path) from error
        name = format.removeprefix("sublinear ")
        raise ValueError(f"{path}: damaged {name} file ({error})") from error


def storable_labels(labels):
    """Return labels as an array that needs no pickling."""
    labels = np.asarray(labels)
    if labels.dtype == object:
        with contextlib.suppress(ValueError):  # lists of different length
            plain = np.array(labels.tolist())
            # numbers beside text would become text
            labels = plain if plain.tolist() == labels.tolist() else labels
    if labels.dtype.kind not in "biufU":
        raise TypeError(f"class labels must be numbers or strings to be saved, not {labels.dtype}")
    return labels


def plain_scalar(value):
    """Return a number of any kind as Python's own, which JSON knows; other values as they are."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def plain_seeds(seeds):
    """Return a SeedSequence, with what it has spawned so far, as text."""
    return json.dumps([seeds.entropy, seeds.n_children_spawned])


def seeds_of(state):
    """Return the SeedSequence of a `plain_seeds`, the entry `seeds` of a state."""
    with reading(state, "seeds") as text:
        entropy, spawned = json.loads(text)
        return np.random.SeedSequence(entropy, n_children_spawned=spawned)


def copied_seeds(seeds):
    """Return a SeedSequence that can spawn in another's place and leaves it as it is."""
    return np.random.SeedSequence(
        seeds.entropy,
        spawn_key=seeds.spawn_key,
        pool_size=seeds.pool_size,
        n_children_spawned=seeds.n_children_spawned,
    )


def plain_parameters(estimator):
    """Return an estimator's parameters as JSON knows them; callbacks and generators are None."""
    parameters = estimator.get_params(deep=False)
    for name in ("callback", "client"):
        if name in parameters:
            parameters[name] = None
    if not isinstance(parameters.get("random_state"), numbers.Integral):
        parameters["random_state"] = None
    if parameters.get("cost") is not None:
        parameters["cost"] = np.asarray(parameters["cost"], dtype=np.float64).tolist()
    if isinstance(parameters.get("class_weight"), dict):
        # JSON keys are strings, labels need not be.
        pairs = parameters["class_weight"].items()
        parameters["class_weight"] = [
            [plain_scalar(label), plain_scalar(weight)] for label, weight in pairs
        ]
    return {name: plain_scalar(value) for name, value in parameters.items()}


def _check_members(path, format, known):
    """Refuse what is no such archive before any of it is read into memory."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():  # of a pipe nothing may ever come
        raise OSError(f"{path}: not a regular file")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a {format} file ({error})") from error
    except OSError as error:
        raise _naming_file(error, path) from error
    names = {member.filename for member in members}
    if "header.npy" not in names or (
        known is not None and not names <= {f"{name}.npy" for name in ("header", *known)}
    ):
        raise ValueError(f"{path}: not a {format} file (its arrays are other ones)")
    # Stored, not deflated: a small file cannot unfold into a huge one.
    if any(member.compress_type != zipfile.ZIP_STORED for member in members) or sum(
        member.file_size for member in members
    ) > os.path.getsize(path):
        raise ValueError(f"{path}: not a {format} file (it is compressed)")


def _naming_file(error, path):
    return OSError(f"{path}: {(error.strerror or str(error)).lower()}")


def _checked_header(header, format, newest):
    if not isinstance(header, dict) or header.get("format") != format:
        raise ArchiveError(f"not a {format} file")
    name = format.removeprefix("sublinear ")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise ArchiveError(f"damaged {name} file (no version)")
    if version > newest:
        raise ArchiveError(
            f"{name} format {version} is newer than this version of sublinear reads ({newest}); "
            "upgrade sublinear"
        )
    return header
