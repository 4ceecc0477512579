"""One thread for BLAS and LAPACK, where theirs would only wait for each other."""

import os
import threading
from contextlib import contextmanager
from functools import cache
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = WeakSet()  # a Visit for each thread of ours that is inside
_before = []  # the threads that each library had; nothing: there is no limit


class Visit:
    """That of a thread which is inside.

    One that is interrupted twice on its way out vanishes with its frame, and does not hold up the
    next one that leaves.
    """

    def __init__(self):
        self.thread = threading.get_ident()


@cache
def _libraries():
    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread():
    """Let BLAS use one thread inside.

    Small matrices take it a hundred times as long with two where another program, or a fit beside
    this one, has the second processor. The limit is for the whole process: it is set by the first
    of our threads that comes in and taken off by the last one that leaves. What threadpoolctl would
    do besides, asking the libraries about themselves, takes longer than some of what is inside.
    """
    visit = Visit()
    try:
        _enter(visit)
        yield
    finally:
        try:
            _leave(visit)
        except BaseException:  # Ctrl-C in its midst
            _leave(visit)
            raise


def _enter(visit):
    with _lock:
        _inside.add(visit)
        if not _before:
            _before[:] = [library.num_threads for library in _libraries()]
            _set_threads([1] * len(_before))


def _leave(visit):
    with _lock:
        _inside.discard(visit)
        _lift_unless_needed()


def _lift_unless_needed():
    if not _inside and _before:
        _set_threads(_before)
        _before.clear()


def _set_threads(counts):
    for library, count in zip(_libraries(), counts, strict=True):
        library.set_num_threads(count)


def _start_in_child():
    """Forget the threads that a fork did not copy, and what they had set."""
    global _lock
    _lock = threading.Lock()
    for visit in list(_inside):
        if visit.thread != threading.get_ident():
            _inside.discard(visit)
    _lift_unless_needed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_start_in_child,
    )
