"""``sublinear predict``: apply a saved model, and score it where there are labels."""

import argparse
import codecs
import contextlib
import sys
from pathlib import Path

import numpy as np

from sublinear._files import replacing
from sublinear._model_file import read_model
from sublinear._readers.csv_text import columns_of
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear._readers.files import check_readable, format_of
from sublinear.cli._console import results
from sublinear.cli._data_file import check_outputs, read_data
from sublinear.sources import ParquetSource, open_source


def run_predict(options):
    if options.output is not None:
        check_outputs([options.output], options, options.model)
    estimator, notes = read_model(options.model)
    options = _with_what_is_known(options, estimator, notes)
    score = _ErrorRate(estimator.classes_) if hasattr(estimator, "classes_") else _Determination()
    with _text_output(options.output) as stream:
        for X, y in _rows_for(estimator, options):
            predicted = estimator.predict(X)
            stream.write("".join(f"{label}\n" for label in predicted.tolist()))
            if y is not None:
                score.add(predicted, whole_numbers_as_integers(y))
    if score.rows:
        print(score, file=sys.stderr)


def _with_what_is_known(options, estimator, notes):
    """Return the options with what a model tells of its data where they say nothing."""
    known, format = {}, _format(options)
    if format == "svmlight":  # which says neither by itself
        known = {"index_base": _index_base(notes), "n_features": estimator.n_features_in_}
    if options.label_column is None and _is_unlabelled(estimator, options):
        known["label_column"] = "none"
    classes = getattr(estimator, "classes_", ())
    if format == "csv" and any(isinstance(label, str) for label in classes):
        known["text_labels"] = True  # the labels of this file may all look like numbers
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**vars(options) | known | given)


def _format(options):
    """Return the format of the data file, None for a folder."""
    path = Path(options.data)
    return None if path.is_dir() else options.format or format_of(path)


def _is_unlabelled(estimator, options):
    """Tell whether the last column of a table is a feature of the model."""
    n_columns, names = _columns(options)
    known = getattr(estimator, "feature_names_in_", None)
    if names is None or known is None:
        return n_columns == estimator.n_features_in_
    return names[-1] in known


def _columns(options):
    """Return how many columns a CSV or Parquet file has, and their names; None: not known."""
    path, names = Path(options.data), None
    if _format(options) == "csv":
        check_readable(path)
        return columns_of(path, options.header)
    source = open_source(path, format=options.format) if options.stream else None
    if isinstance(source, ParquetSource):
        source.label_column = None
        names = source.feature_names
    return names and len(names), names


def _index_base(notes):
    base = notes.get("index_base")
    return base if base in (0, 1) else None


@contextlib.contextmanager
def _text_output(path):
    if path is None:
        with results() as stream:
            yield stream
    else:
        with replacing(path) as stream:
            yield codecs.getwriter("utf-8")(stream)


def _rows_for(estimator, options):
    """Yield the blocks of the data with the columns of the model."""
    data = read_data(options)
    n_features = estimator.n_features_in_
    # taken from the model: its warning would be of rows whose names are compared here
    model_names = vars(estimator).pop("feature_names_in_", None)
    order, n_rows = None, 0
    for number, (X, y) in enumerate(data if options.stream else [(data.X, data.y)]):
        n_rows += X.shape[0]
        if number == 0:
            names = getattr(data, "feature_names", None)
            order = _order(names, model_names, options.data)
        if order is None and X.shape[1] != n_features:
            hint = "" if y is None else "; if it has no labels, give --label-column none"
            raise ValueError(
                f"{options.data} has {X.shape[1]} features, the model {n_features}"
                f"{hint if _columns(options)[0] else ''}"
            )
        yield X if order is None else X[:, order], y
    if not n_rows:  # of a source; files that are read as a whole have been looked at
        kind = "folder" if Path(options.data).is_dir() else "file"
        raise ValueError(f"{options.data}: the {kind} holds no rows")


def _order(names, model_names, path):
    """Return the places of the model's features among a file's; None: as they are, or unknown."""
    if names is None or model_names is None or names == list(model_names):
        return None
    for name in model_names:
        if names.count(name) != 1:
            found = "several" if name in names else "no"
            raise ValueError(
                f"{path}: {found} feature columns named {name!r}, as in the model "
                "(the label's column is none of them; see --label-column)"
            )
    return [names.index(name) for name in model_names]


class _ErrorRate:
    """How many predictions are not the label of their row, which may be text or a number."""

    def __init__(self, classes):
        self.classes, self.rows, self.wrong, self.known = classes, 0, 0, False

    def add(self, predicted, y):
        classes = self.classes
        if y.dtype.kind == "U" or classes.dtype.kind in "OU":
            predicted, y, classes = (array.astype(str) for array in (predicted, y, classes))
        self.rows += y.size
        self.wrong += np.count_nonzero(predicted != y)
        self.known |= bool(np.isin(y, classes).any())

    def __str__(self):
        if not self.known:
            return "none of the labels is one of the model's classes"
        return f"error rate {self.wrong / self.rows:.4f} ({self.wrong} of {self.rows})"


class _Determination:
    """The coefficient of determination, R2."""

    def __init__(self):
        self.rows, self.first, self.sums, self.numeric = 0, None, np.zeros(3), True

    def add(self, predicted, y):
        self.rows += y.size
        self.numeric &= y.dtype.kind != "U"
        if self.numeric:
            y = y.astype(np.float64)
            self.first = y[0] if self.first is None else self.first
            offsets = y - self.first  # smaller than the labels, and 0 if all are equal
            self.sums += np.sum(offsets), np.sum(offsets**2), np.sum((y - predicted) ** 2)

    def __str__(self):
        if not self.numeric:
            return "the labels are not numbers"
        total, squares, errors = self.sums
        spread = squares - total**2 / self.rows
        if squares == 0:
            return "R2 is undefined: all labels are equal"
        return f"R2 {1 - errors / spread:.4f}"
