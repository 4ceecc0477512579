"""Output files: what writers that were killed leave is removed, what others write is not."""

import os
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from sublinear import _files
from sublinear._archive import write_archive
from sublinear._files import check_writable, replacing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
PROGRAM = """
import os, signal
from sublinear._files import replacing

with replacing("state") as stream:
    stream.write(b"new" * 100_000)
    stream.flush()
    {ending}
"""
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
WAITING = "print(flush=True); input()"


def write(path, content):
    with replacing(path) as stream:
        stream.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def kill_a_writer(folder):
    command = [sys.executable, "-c", PROGRAM.format(ending=KILLED)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_what_killed_writers_leave_is_removed(tmp_path):
    path = tmp_path / "state"
    write(path, b"old")
    for _ in range(3):
        kill_a_writer(tmp_path)
        assert len(names(tmp_path)) == 2 and path.read_bytes() == b"old"
    write(path, b"next")
    assert names(tmp_path) == ["state"] and path.read_bytes() == b"next"


def test_what_another_process_writes_is_kept(tmp_path):
    path = tmp_path / "state"
    command = [sys.executable, "-c", PROGRAM.format(ending=WAITING)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as other:
        other.stdout.readline()
        write(path, b"mine")
        assert len(names(tmp_path)) == 2 and path.read_bytes() == b"mine"
        other.communicate(b"\n")
    assert other.returncode == 0
    assert names(tmp_path) == ["state"] and path.read_bytes() == b"new" * 100_000


def test_what_is_about_to_be_renamed_is_kept(tmp_path, monkeypatch):
    path, replace = tmp_path / "state", os.replace

    def interfered(source, target):
        _files._remove_leftovers(path)  # as another process may
        replace(source, target)

    monkeypatch.setattr(os, "replace", interfered)
    write(path, b"new")
    assert path.read_bytes() == b"new"


def test_what_is_created_and_not_yet_locked_is_kept(tmp_path):
    beside = _files.place_beside(tmp_path / "state")
    beside.touch()
    write(tmp_path / "state", b"new")
    assert beside.exists()


def test_what_was_created_long_ago_and_never_locked_is_removed(tmp_path):
    beside = _files.place_beside(tmp_path / "state")
    beside.touch()
    os.utime(beside, (0, 0))
    _files._remove_leftovers(tmp_path / "state")
    assert not beside.exists()


def test_files_of_other_names_are_kept(tmp_path):
    others = [".state.20240101", ".state.bak.partial", ".state2.0123abcd.partial", "state.partial"]
    for name in others:
        (tmp_path / name).write_text("kept")
    (tmp_path / ".state.0123abcd.partial").mkdir()
    (tmp_path / ".state.01234567.partial").symlink_to(tmp_path / "state.partial")
    before = names(tmp_path)
    write(tmp_path / "state", b"new")
    assert names(tmp_path) == sorted([*before, "state"])


def test_without_locks_nothing_is_removed(tmp_path, monkeypatch):
    kill_a_writer(tmp_path)
    before = names(tmp_path)

    def refused(*_):
        raise OSError("no locks available")

    monkeypatch.setattr(_files.fcntl, "flock", refused)
    write(tmp_path / "state", b"new")
    assert names(tmp_path) == [*before, "state"]
    monkeypatch.setattr(_files, "fcntl", None)
    write(tmp_path / "state", b"newer")
    assert (tmp_path / "state").read_bytes() == b"newer"
    assert names(tmp_path) == [*before, "state"]


def test_no_folder_is_said_by_the_writer(tmp_path):
    path = tmp_path / "missing" / "state"
    for attempt in (check_writable, lambda path: write(path, b"new")):
        with pytest.raises(OSError, match=f"cannot write {path}: there is no folder"):
            attempt(path)


def test_ctrl_c_that_cuts_an_archive_is_no_other_error(tmp_path, monkeypatch):
    write(tmp_path / "state", b"old")
    opened, held = zipfile.ZipFile.open, []

    def cut(self, *arguments, **options):
        held.extend([self, opened(self, *arguments, **options)])
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", cut)
    with pytest.raises(KeyboardInterrupt):
        write_archive(tmp_path / "state", {"format": "any", "version": 1}, {"a": np.ones(9)})
    archive, handle = held
    archive.fp, handle.close = None, lambda: None  # they have nothing to close any more
    assert names(tmp_path) == ["state"]
    assert (tmp_path / "state").read_bytes() == b"old"


def test_ctrl_c_right_after_a_file_was_made_leaves_nothing(tmp_path, monkeypatch):
    class Cut(_files.NamedFile):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            raise KeyboardInterrupt

    monkeypatch.setattr(_files, "NamedFile", Cut)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "state", b"new")
    assert names(tmp_path) == []
