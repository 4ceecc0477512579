"""``sublinear predict``: apply a saved model, and score it where there are labels."""

import argparse
import codecs
import contextlib
import csv
import io
import sys
from pathlib import Path

import numpy as np
from sklearn.base import is_regressor

from sublinear._files import replacing
from sublinear._model_file import read_model
from sublinear._readers.columns import column_index
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear.cli._console import results
from sublinear.cli._data_file import (
    as_column,
    check_outputs,
    columns_of_table,
    format_of_data,
    naming_values,
    read_data,
)


def run_predict(options):
    if options.output is not None:
        check_outputs([options.output], options, options.model)
    estimator, notes = read_model(options.model)
    if not hasattr(estimator, "predict"):
        kind = type(estimator).__name__
        raise ValueError(
            f"{options.model}: a {kind} predicts nothing; load its center_ from Python"
        )
    _check_one_line_each(getattr(estimator, "classes_", ()), options.model)
    scores = _scores_of(estimator, options)
    options = _with_what_is_known(options, estimator, notes)
    score = _score_of(estimator)
    with _text_output(options.output) as stream:
        for X, y in _rows_for(estimator, options):
            with naming_values(options):
                predicted = None if scores and y is None else estimator.predict(X)
                lines = scores.lines(X) if scores else map("{}\n".format, predicted.tolist())
            stream.write("".join(lines))
            if y is not None and score is not None:
                score.add(predicted, whole_numbers_as_integers(y))
    if score is not None and score.rows:
        print(score, file=sys.stderr)


def _score_of(estimator):
    """Return what compares predictions with labels, None if they are not of one kind."""
    if hasattr(estimator, "classes_"):
        return _ErrorRate(estimator.classes_)
    return _Determination() if is_regressor(estimator) else None


def _check_one_line_each(classes, model):
    for label in classes:
        if isinstance(label, str) and f"{label}\n".splitlines() != [label]:
            raise ValueError(
                f"{model}: its label {str(label)!r} is not one line, as predictions are; predict "
                "from Python"
            )


def _scores_of(estimator, options):
    """Return the _Scores that the options ask for, None for none; ValueError if it has none."""
    if not (options.probabilities or options.decision):
        return None
    name = "predict_proba" if options.probabilities else "decision_function"
    kind, loss = type(estimator).__name__, getattr(estimator, "loss", None)
    if not hasattr(estimator, "classes_"):
        raise ValueError(f"{options.model}: a {kind} has no classes to give scores of")
    if not hasattr(estimator, "decision_function"):
        raise ValueError(f"{options.model}: a {kind} has no scores of single rows")
    if hasattr(estimator, "decision_function_shape"):
        estimator.decision_function_shape = "ovr"  # a column for each class, not for each pair
    if hasattr(estimator, name):
        return _Scores(getattr(estimator, name), estimator.classes_)
    found = f" with the loss {loss}" if loss else ""
    raise ValueError(
        f"{options.model}: a {kind}{found} has no probabilities: fit a linear model with "
        "--loss logistic, or ask for --decision"
    )


class _Scores:
    """Lines with numbers for every class, behind one that names the classes."""

    def __init__(self, compute, classes):
        self.compute, self.classes, self.begun = compute, classes, False

    def lines(self, X):
        scores = self.compute(X)
        scores = scores.reshape(len(scores), -1)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.begun:
            writer.writerow(self.classes[-scores.shape[1] :].tolist())
            self.begun = True
        writer.writerows(scores.tolist())
        return text.getvalue()


def _with_what_is_known(options, estimator, notes):
    """Return the options with what a model tells of its data where they say nothing."""
    known, format = {}, format_of_data(options)
    if format == "svmlight":  # which says neither by itself
        known = {"index_base": _index_base(notes), "n_features": estimator.n_features_in_}
    known |= _special_columns(estimator, notes, options)
    classes = getattr(estimator, "classes_", ())
    if format == "csv" and any(isinstance(label, str) for label in classes):
        known["text_labels"] = True  # the labels of this file may all look like numbers
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**vars(options) | known | given)


def _special_columns(estimator, notes, options):
    """Return the options that say in which columns of a table the labels and the weights are."""
    n_columns, names = columns_of_table(options, options.header)
    if n_columns is None:
        return {}
    weight = _where_weights_are(estimator, notes, options, n_columns, names)
    if None not in (weight, options.label_column) and options.weight_column is None:
        given, shown = as_column(options.label_column), names or [""] * n_columns
        if column_index(options.data, shown, given, names is not None) == weight:
            weight = None  # what is given counts more than what the model knows
    known, rest = {"weight_column": weight}, [k for k in range(n_columns) if k != weight]
    if options.label_column is None and rest:
        names = names and [names[k] for k in rest]
        known |= _where_labels_are(estimator, notes, options, len(rest), names)
        if known["label_column"] != "none":
            known["label_column"] = rest[known["label_column"]]
    return known


def _where_weights_are(estimator, notes, options, n_columns, names):
    """Return the column that the options name, or that of the fit; None if there are no weights.

    It is the column of the same name as at the fit or, without names, that in the same place of as
    many columns.
    """
    if options.weight_column is not None:
        given, shown = as_column(options.weight_column), names or [""] * n_columns
        return column_index(options.data, shown, given, names is not None, "weight")
    features = getattr(estimator, "feature_names_in_", None)
    place, name = notes.get("weight_column"), notes.get("weight_name")
    if names is not None and features is not None:
        if name in names and name not in features:
            return names.index(name)
        if set(features) <= set(names):  # text labels make names of a first row
            return None
    as_many = n_columns == estimator.n_features_in_ + 2
    return place if as_many and type(place) is int and 0 <= place < n_columns else None


def _where_labels_are(estimator, notes, options, n_columns, names):
    """Return the options that say in which column the labels are, or that none are.

    It is the column of the same name as at the fit; else that in the same place, or the last one
    where there are more columns than at the fit, unless that is a feature. Weights do not count.
    """
    n_features, features = estimator.n_features_in_, getattr(estimator, "feature_names_in_", None)
    place, name = _label_column(notes, n_features)
    by_name = names is not None and features is not None and name not in features
    if by_name and {name, *features} <= set(names):
        header = {"header": True} if format_of_data(options) == "csv" else {}
        return {"label_column": names.index(name)} | header
    place = place if n_columns == n_features + 1 else -1
    if names is None or features is None:
        is_feature = n_columns == n_features
    else:
        is_feature = names[place] in features
    return {"label_column": "none" if is_feature else place}


def _index_base(notes):
    base = notes.get("index_base")
    return base if base in (0, 1) else None


def _label_column(notes, n_features):
    """Return the place of the labels at the fit, by default the last, and their name or None."""
    place, name = notes.get("label_column"), notes.get("label_name")
    is_place = type(place) is int and 0 <= place <= n_features
    return place if is_place else -1, name if isinstance(name, str) else None


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
    for number, (X, y, *_) in enumerate(data if options.stream else [(data.X, data.y)]):
        n_rows += X.shape[0]
        if number == 0:
            names = getattr(data, "feature_names", None)
            order = _order(names, model_names, options.data)
        if order is None and X.shape[1] != n_features:
            hint = "" if y is None else "; if it has no labels, give --label-column none"
            raise ValueError(
                f"{options.data} has {X.shape[1]} features, the model {n_features}"
                f"{hint if columns_of_table(options, options.header)[0] else ''}"
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
