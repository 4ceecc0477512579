"""One thread for BLAS and LAPACK, where theirs would only wait for each other."""

import threading
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = []  # one entry for each thread of ours that is inside
_before = []  # the threads that each library had


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
    with _lock:
        if not _inside:
            _before[:] = [library.num_threads for library in _libraries()]
            _set_threads([1] * len(_before))
        _inside.append(None)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                _set_threads(_before)


def _set_threads(counts):
    for library, count in zip(_libraries(), counts, strict=True):
        library.set_num_threads(count)
