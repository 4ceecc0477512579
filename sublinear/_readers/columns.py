"""Columns of a table: those with the labels and the weights, and the names of the others."""

from numbers import Integral
from typing import NamedTuple

from sublinear._readers.fields import shown

SHOWN_COLUMNS = 10


class Special(NamedTuple):
    """Where the labels and the weights are among the columns, None for none of them."""

    label: int | None = None
    weight: int | None = None

    def features_of(self, columns):
        """Return what is given for each column, but for those of labels and weights."""
        return [column for k, column in enumerate(columns) if k not in self]

    @property
    def count(self):
        return sum(place is not None for place in self)


def special_columns(path, first, label_column, weight_column, named):
    """Return the Special columns; `first` are the names, if `named`, or the first row."""
    label = column_index(path, first, label_column, named)
    weight = column_index(path, first, weight_column, named, "weight")
    if weight is not None and weight == label:
        raise ValueError(
            f"{path}: column {label} would hold the labels and the weights; label_column "
            "(--label-column) and weight_column (--weight-column) say where they are"
        )
    return Special(label, weight)


def column_index(path, first, given, named, kind="label"):
    """Return the place of the column of labels, or of another kind; None for None."""
    if given is None:
        return None
    position = {"first": 0, "last": -1}.get(given, given)
    if isinstance(position, str):
        columns = [field.strip() for field in first] if named else []
        if columns.count(position) != 1:
            found = "more than one column" if position in columns else "no column"
            raise ValueError(f"{path}: {found} named {position!r}; {_listed(columns)}")
        return columns.index(position)
    if not isinstance(position, Integral):
        raise ValueError(
            f'{kind}_column must be "first", "last", a number, a name or None, got {given!r}'
        )
    if not -len(first) <= position < len(first):
        raise ValueError(f"{path}: {kind} column {position}, but there are {len(first)} columns")
    return position % len(first)


def _listed(columns):
    """Say what columns there are, some of them where they are many."""
    if not columns:
        return "columns have no names without a header"
    more = "" if len(columns) <= SHOWN_COLUMNS else f" and {len(columns) - SHOWN_COLUMNS} more"
    return f"the columns are {', '.join(map(shown, columns[:SHOWN_COLUMNS]))}{more}"


def checked_names(path, names):
    """Return the names of features; ValueError for one with NULs, which NumPy drops at the end."""
    for name in names:
        if "\0" in name:
            raise ValueError(f"{path}: the column name {shown(name)} has a NUL; remove it")
    return names
