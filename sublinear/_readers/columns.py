"""Columns of a table: the one with the labels, and the names of the others."""

from numbers import Integral

from sublinear._readers.fields import shown

SHOWN_COLUMNS = 10


def label_index(path, first, label_column, named):
    if label_column is None:
        return None
    position = {"first": 0, "last": -1}.get(label_column, label_column)
    if isinstance(position, str):
        columns = [field.strip() for field in first] if named else []
        if columns.count(position) != 1:
            found = "more than one column" if position in columns else "no column"
            raise ValueError(f"{path}: {found} named {position!r}; {_listed(columns)}")
        return columns.index(position)
    if not isinstance(position, Integral):
        raise ValueError(
            f'label_column must be "first", "last", a number, a name or None, got {label_column!r}'
        )
    if not -len(first) <= position < len(first):
        raise ValueError(f"{path}: label column {position}, but there are {len(first)} columns")
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
