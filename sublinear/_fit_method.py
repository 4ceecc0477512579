"""What decorates the methods that fit: one that fails leaves the estimator as it was."""

import contextlib
import functools

from sublinear._callbacks import with_callbacks


@contextlib.contextmanager
def restored_after_errors(estimator, is_stored=None):
    """Give an estimator its attributes back after an error, Ctrl-C included.

    `is_stored(before)`, with the attributes from before, tells whether there is a new model to be
    kept instead; None: there is none.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        if is_stored is None or not is_stored(before):
            vars(estimator).clear()
            vars(estimator).update(before)
        raise


def all_or_nothing(method):
    """Decorate a method that fits: an error before there is a model changes nothing.

    A model is there when `result_` is a new one, or `_is_stored(before)` of the estimator says so.
    """

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        def has_result(before):
            return vars(self).get("result_") is not before.get("result_")

        with restored_after_errors(self, getattr(self, "_is_stored", has_result)):
            return method(self, *args, **kwargs)

    return guarded


def fit_method(method):
    """Decorate `fit` or `partial_fit`: `all_or_nothing`, and scikit-learn's callbacks take part.

    They end before the attributes from before come back, without those they need for it.
    """
    return all_or_nothing(with_callbacks(method))


def forget(estimator, names):
    """Drop fitted attributes that an earlier fit with other parameters may have left."""
    for name in names:
        vars(estimator).pop(name, None)
