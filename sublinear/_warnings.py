"""Warnings that point to the caller of the package."""

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

from sklearn.exceptions import ConvergenceWarning

_muted = ContextVar("muted", default=())


@contextmanager
def muted(category):
    """Leave out the package's warnings of a category in this thread.

    The filters of `warnings` are those of all threads: changed by two at once, they stay changed.
    """
    token = _muted.set((*_muted.get(), category))
    try:
        yield
    finally:
        _muted.reset(token)


def warn(message, category=ConvergenceWarning):
    """Warn at the line that called the package, however deep in it this is called."""
    if issubclass(category, _muted.get()):
        return
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("sublinear.", "sklearn.", "joblib.")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
