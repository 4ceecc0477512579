"""Output files and folders: written beside their place, then renamed into it."""

import contextlib
import io
import os
import re
import secrets
import shutil
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows, where what a killed process leaves stays
    fcntl = None

STARTING = 60.0  # seconds, by far, from making a file to its lock

__all__ = [
    "NamedFile",
    "check_writable",
    "locked_folder",
    "naming_unwritten",
    "place_beside",
    "remove_left_folders",
    "replacing",
]


def check_writable(path):
    """Raise OSError, with the reason, unless a file could be written at ``path`` now."""
    target = _resolved(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a directory")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe is in no folder
        raise OSError(f"cannot write {path}: it is not a regular file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"cannot write {path}: permission denied")
    beside = place_beside(target)
    with naming_unwritten(path, target):
        beside.touch(exist_ok=False)
        beside.unlink()


@contextlib.contextmanager
def replacing(path):
    """Lend a new binary file that takes the place of ``path`` when the block succeeds.

    When the block fails, the new file is removed and whatever was at ``path`` stays as it was. What
    killed processes have left of such files is removed first.
    """
    target = _resolved(path)
    _remove_leftovers(target)
    beside = place_beside(target)
    try:
        with naming_unwritten(path, target):
            raw = NamedFile(path, beside)
        with _locked(raw):
            with io.BufferedWriter(raw) as stream:
                yield stream
                stream.flush()
                with naming_unwritten(path, target):
                    os.fsync(stream.fileno())
            with naming_unwritten(path, target):
                if target.exists():
                    shutil.copymode(target, beside)
                os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


class NamedFile(io.FileIO):
    """A file whose errors, that of a full disk for one, name the path that it is written for."""

    def __init__(self, path, beside, mode="xb"):
        super().__init__(beside, mode)
        self.path = path

    def write(self, data):
        with naming_unwritten(self.path, Path(self.name)):
            return super().write(data)


def _resolved(path):
    """Follow symbolic links, so that a link keeps pointing at the file that is replaced."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a path must be a str or path-like, got {path!r}")
    return Path(os.path.realpath(path))


def place_beside(target):
    """Return a path beside a target for what shall take its place."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")


def _left_beside(target, ending):
    """Yield what writers of a target may have left beside it when they were killed."""
    if fcntl is None:
        return
    name = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.{ending}")
    with contextlib.suppress(OSError):  # there may be no folder: whoever writes will say so
        for path in target.parent.iterdir():
            if name.fullmatch(path.name) and not path.is_symlink():
                yield path


def _remove_leftovers(target):
    """Remove the files beside a target whose writers were killed."""
    for path in _left_beside(target, "partial"):
        if path.is_file():
            _remove_leftover(path)


def _remove_leftover(beside):
    # Another process may be writing to the same target. A writer locks its file before the first
    # byte, and the system unlocks it when the process dies: what holds bytes and no lock is left,
    # and what has been empty for longer than it takes to lock it.
    with contextlib.suppress(OSError), open(beside, "r+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(stream.fileno())
        if status.st_size or time.time() - status.st_mtime > STARTING:
            beside.unlink()


@contextlib.contextmanager
def _locked(file):
    """Lock a new file until the block ends, even if the file is closed before."""
    if fcntl is None:
        yield
        return
    lock = os.dup(file.fileno())
    try:
        with contextlib.suppress(OSError):  # where there are no locks, nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def remove_left_folders(target, ending="partial"):
    """Remove the folders beside a target whose writers were killed; they hold locks as files do."""
    for path in _left_beside(target, ending):
        with contextlib.suppress(OSError), _opened_folder(path) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(path.iterdir()):
                shutil.rmtree(path)


@contextlib.contextmanager
def locked_folder(path):
    """Lock a folder until the block ends, under whatever name it has by then."""
    if fcntl is None:
        yield
        return
    with _opened_folder(path) as folder:
        with contextlib.suppress(OSError):  # where there are no locks, nothing is removed
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _opened_folder(path):
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def naming_unwritten(path, target):
    """Say in an OSError what cannot be written: the file beside is nobody's business."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path}: {_reason(error, target)}") from error


def _reason(error, target):
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    return (error.strerror or str(error)).lower()
