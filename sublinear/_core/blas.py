"""One thread for BLAS and LAPACK, where theirs would only wait for each other."""

import threading
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = []  # one entry for each thread of ours that is inside
_limits = []  # what takes the limit off again


@cache
def _controller():
    return ThreadpoolController()


@contextmanager
def one_blas_thread():
    """Let BLAS use one thread inside.

    Small matrices take it a hundred times as long with two where another program, or a fit beside
    this one, has the second processor. The limit is for the whole process: it is set by the first
    of our threads that comes in and taken off by the last one that leaves.
    """
    with _lock:
        if not _inside:
            _limits.append(_controller().limit(limits=1, user_api="blas"))
        _inside.append(None)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                _limits.pop().restore_original_limits()
