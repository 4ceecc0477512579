"""Warnings that point to the caller of the package."""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning


def warn(message, category=ConvergenceWarning):
    """Warn at the line that called the package, however deep in it this is called."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("sublinear.", "sklearn.", "joblib.")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
