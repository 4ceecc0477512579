"""How many threads a fit may use."""

import os
from numbers import Integral

from joblib import cpu_count, effective_n_jobs

MOST = max(64, os.cpu_count() or 1)  # more do not help, and far too many end the process

_threads_were_used = _forked_after_use = False


def effective_threads(n_jobs):
    """Return the threads that n_jobs means, at most `MOST`.

    It is 1 in a process forked from one that had several: GNU's OpenMP would wait there for threads
    that the fork did not copy.
    """
    global _threads_were_used
    if not (n_jobs is None or isinstance(n_jobs, Integral)):
        raise ValueError(f"n_jobs must be None or an integer, got {n_jobs!r}")
    if _forked_after_use:
        return 1
    count = min(effective_n_jobs(n_jobs), MOST)
    _threads_were_used = _threads_were_used or count > 1
    return count


def asked_threads(n_jobs):
    """Return the threads that n_jobs means, also in a process that may use one alone.

    A schedule for several gives the same numbers where fewer follow it, so it is chosen by this.
    """
    if n_jobs is None:
        return effective_n_jobs(None)
    return int(n_jobs) if n_jobs > 0 else max(1, cpu_count() + 1 + n_jobs)


def _note_fork():
    global _forked_after_use
    _forked_after_use = _threads_were_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
