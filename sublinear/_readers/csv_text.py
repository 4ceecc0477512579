"""CSV: what is a header, a label, a weight, and the search for the row that is not as others."""

import contextlib
import csv
import functools
import io
import itertools
import os
from typing import NamedTuple

import numpy as np

from sublinear._readers.arrow_csv import is_worthwhile, plain_table
from sublinear._readers.columns import Special, checked_names, special_columns
from sublinear._readers.dataset import LARGEST_FLOAT, Dataset
from sublinear._readers.fields import is_finite_number, shown
from sublinear._readers.files import (
    chunks_of_lines,
    decompressed,
    open_behind_mark,
    open_file,
    undamaged,
)
from sublinear._warnings import warn

CHUNK = 2**22  # bytes of text
_MISSING = ("", "?", "-", "na", "#na", "<na>", "n/a", "#n/a", "null", "none")  # "nan" is a number
_UNCLOSED = "a quote is not closed where the line ends"
_NOT_UTF8 = "the text is not UTF-8: convert the file"


@decompressed
def read_csv(path, label_column="last", weight_column=None, header=None, text_labels=None):
    start = beginning_of(path, label_column, weight_column, header, text_labels)
    names = {}
    X, y, weights = parts_of(_parse_csv(path, start, names), start.special)
    if y is not None:
        if not text_labels and _should_be_numbers(names, start):
            raise ValueError(f"{path}{_csv_fault(path, start, text_labels=False)}")
        y = labels_from(names, text_labels)[y.astype(np.int64)]
    return Dataset(X, y, feature_names=start.feature_names, sample_weight=weights)


def parts_of(table, special):
    """Return the features, and copies of the labels and the weights; None for what is not there."""
    y, weights = (None if place is None else table[:, place].copy() for place in special)
    if special.count:
        table = table.take(special.features_of(range(table.shape[1])), axis=1)
    return table, y, weights


class Beginning(NamedTuple):
    """What the first lines of a CSV file tell."""

    lines: int  # before the first row
    ends_with_return: bool  # whether one of them, or the next line, ends with CR alone
    feature_names: list | None
    n_columns: int
    special: Special  # the columns that are no features
    text_labels: bool
    header_by_label: bool  # whether its label alone made a header of the first line


def beginning_of(path, label_column, weight_column, header, text_labels=None):
    """Return the Beginning of a CSV file; here it is decided what a header is.

    Unless `header` tells, it is a first line with a name for a feature, or with a name for the
    label where the next label is a number. Labels are text if `text_labels` or the first one is a
    name.
    """
    if text_labels not in (True, None):
        raise ValueError(f"text_labels must be True or None, got {text_labels!r}")
    with open_csv(path) as stream:
        reader = csv.reader(stream)
        first, number = _first_row(path, reader), reader.line_num
        special = special_columns(path, first, label_column, weight_column, header is not False)
        _check_feature_columns(path, first, special)
        rows = _rows_after(reader)
        second = next(rows, None)
        following = _known_label(itertools.chain([second], rows), special, len(first))
    column, is_header, by_label = special.label, header, False
    if header is None:
        given = label_column, weight_column
        is_header, by_label = _header_of(first, following, column, given, text_labels)
        if not is_header and _may_be_places(first, column):
            warn(
                f"{path}: line 1 looks like the names 0, 1, .. of columns and is read as a row: "
                "say header=True (--header) if they are names, header=False (--no-header) if not",
                UserWarning,
            )
    _check_first_line(path, first, second, is_header, is_guess=header is None)
    own = "" if column is None else first[column]
    label = following if is_header or not _is_known(own) else own  # the first one that is known
    lines = number if is_header else number - 1
    names = checked_names(path, special.features_of(stripped(first))) if is_header else None
    return Beginning(
        lines=lines,
        ends_with_return=_ends_with_return(path, lines + 1),
        feature_names=names,
        n_columns=len(first),
        special=special,
        text_labels=column is not None and (text_labels or _is_name(label)),
        header_by_label=by_label,
    )


def _header_of(first, following, column, given, text_labels):
    """Return whether a first line is a header, and whether it is one by its label alone.

    `following` is the first label behind it, `column` that of labels; `given` are the columns as
    they were asked for.
    """
    if _has_names(first, column, *given):
        return True, False
    if column is None or text_labels:
        return False, False
    by_label = _is_name(first[column]) and is_finite_number(following)
    return by_label, by_label


def _check_first_line(path, first, second, is_header, is_guess):
    """Raise ValueError for a quote that is open in it, or a header without rows."""
    if any(map(_has_line_break, first)):
        looks_like_rows = is_guess and any(map(_holds_a_row, first))
        if looks_like_rows or not (is_header and second):
            raise ValueError(f"{path}, line 1: {_UNCLOSED}")
    if is_header and second is None:
        raise ValueError(f"{path}: the file holds no rows")


def _first_row(path, reader):
    try:
        first = next((row for row in reader if row), None)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
    if first is not None and not all(map(_is_utf8, first)):
        raise ValueError(f"{path}, line {reader.line_num}: {_NOT_UTF8}")
    if first is None:
        raise ValueError(f"{path}: the file holds no rows")
    return first


def columns_of(path, header):
    """Return how many columns a CSV file has, and their names if there is a header, else None.

    Whoever reads the file says what is wrong with it.
    """
    with undamaged(path), open_csv(path) as stream:
        first = _first_row(path, csv.reader(stream))
    if header or (header is None and _has_names(first, None)):
        return len(first), stripped(first)
    return len(first), None


def stripped(header):
    return [name.strip() for name in header]


def open_csv(path):
    return open_file(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


def _ends_with_return(path, count):
    """Tell whether one of the first lines of a CSV file ends with CR alone."""
    with open_csv(path) as stream:
        return any(line.endswith("\r") for line in itertools.islice(stream, count))


def _rows_after(reader):
    """Yield the rows to come, up to one that is no CSV: whoever parses it says so."""
    with contextlib.suppress(csv.Error):
        yield from (row for row in reader if row)


def _known_label(rows, special, n_columns):
    """Return the first label in a row as it should be that is a number or a name, "" for none."""
    column = special.label
    if column is None:
        return ""
    sound = (row for row in rows if row and csv_row_fault(row, special, n_columns) is None)
    return next((row[column] for row in sound if _is_known(row[column])), "")


def _has_names(fields, column, *given):
    """Return whether a first line has a name for numbers, or must have one that was given."""
    if any(isinstance(name, str) and name not in ("first", "last") for name in given):
        return True
    return any(_is_name(field) for k, field in enumerate(fields) if k != column)


def _may_be_places(fields, column):
    """Tell whether a first line has places for names: of all columns, or a name for the label."""
    if column is None or len(fields) < 3:
        return False
    features = [field for k, field in enumerate(fields) if k != column]
    if _is_name(fields[column]):
        return features == [str(k) for k in range(len(features))]
    return fields == [str(k) for k in range(len(fields))]


def _is_utf8(text):
    return not any("\udc80" <= character <= "\udcff" for character in text)


def _holds_a_row(field):
    """Tell whether a field of several lines goes on as a row of numbers would."""
    later_lines = field.partition("\n")[2]
    return any(map(is_finite_number, later_lines.split(",")))


def _is_known(text):
    return is_finite_number(text) or _is_name(text)


def _is_name(text):
    """Return whether a field is neither a number nor says that a value is missing."""
    text = text.strip()
    try:
        float(text)
    except ValueError:
        return text.lower() not in _MISSING
    return False


def _check_feature_columns(path, fields, special):
    """Raise ValueError if a row of a CSV file holds no more than the label and the weight."""
    if special.count and len(fields) == special.count:
        raise ValueError(
            f"{path}: the file holds no feature columns; commas must separate the fields"
        )


def parsed_lines(text, start, names):
    """Return the numbers in whole lines, bytes, that are not all empty.

    `names`, unless None, gets the labels, codes of which take their place.

    Raises
    ------
    ValueError
        If a row is not as the Beginning tells, or has what is no finite number, or no label, or a
        negative weight.
    """
    table = _by_arrow(text, start, names) if is_worthwhile(len(text), start.n_columns) else None
    if table is None:
        _check_closed(_last_line(text), start)
        # behind the mark of the file, and each line is decoded by itself
        table = _by_numpy(io.BytesIO(text), start, names, encoding="utf-8")
    return _checked(table, start, names)


def _by_arrow(text, start, names):
    """Return the numbers in whole lines, None if Arrow has none."""
    label = None if names is None else start.special.label
    return plain_table(text, start.n_columns, label, functools.partial(code_of, names))


def _by_numpy(source, start, names, encoding, skiprows=0):
    """Return the numbers in a stream, or the file of a name; see np.loadtxt."""
    label = start.special.label
    has_names = names is not None and label is not None
    return np.loadtxt(
        source,
        delimiter=",",
        comments=None,
        quotechar='"',
        skiprows=skiprows,
        converters={label: functools.partial(code_of, names)} if has_names else None,
        encoding=encoding,
        ndmin=2,
    )


def _check_closed(last_line, start):
    """Raise ValueError for a quote that is open at the end of the text, where NumPy closes it."""
    if b'"' in last_line and csv_line_fault(last_line, start):
        raise ValueError(_UNCLOSED)


def _checked(table, start, names):
    """Return the table, or raise the ValueError of `parsed_lines`."""
    weight = start.special.weight
    if table.size == 0:
        raise ValueError("the file holds no rows")
    sound = table.shape[1] == start.n_columns and np.isfinite(table).all()
    if not sound or not all(map(is_label, names or ())):
        raise ValueError("a line is not as the first one")
    if weight is not None and (table[:, weight] < 0).any():
        raise ValueError("a weight is negative")
    return table


def _parse_csv(path, start, names):
    """Parse a file; `names` maps each label to its code."""
    try:
        table = _file_by_arrow(path, start, names)
        if table is None:
            name = os.fspath(path.absolute())
            table = _by_numpy(name, start, names, encoding="utf-8-sig", skiprows=start.lines)
            _check_closed(_last_line_of_file(path), start)
        return _checked(table, start, names)
    except ValueError as error:
        raise ValueError(f"{path}{_csv_fault(path, start) or f': {error}'}") from error


def _file_by_arrow(path, start, names):
    """Return the numbers in a file, None if it is short or Arrow has none of some chunk."""
    if start.ends_with_return:
        return None
    parts = []
    with open_behind_mark(path) as stream:
        for _ in range(start.lines):
            stream.readline()
        for text in chunks_of_lines(stream, CHUNK):
            # the last chunk may be short
            if not parts and not is_worthwhile(len(text), start.n_columns):
                return None
            parts.append(_by_arrow(text, start, names))
            if parts[-1] is None:
                return None
    return np.concatenate(parts) if parts else None


def _last_line(text):
    """Return the last line that is not empty, as bytes."""
    return text.rstrip(b"\r\n").rpartition(b"\n")[2]


def _last_line_of_file(path):
    """Return the last line that is not empty, as bytes; it may begin behind CR alone."""
    last = b""
    with open_behind_mark(path) as stream:
        for text in chunks_of_lines(stream, CHUNK):
            last = _last_line(text) or last
    return last.rpartition(b"\r")[2]


def code_of(names, text):
    """Return the code of a label; it gets the next one if it is new.

    Raises ValueError for a label that goes on in the next line: a stray quote swallows lines.
    """
    if _has_line_break(text):
        raise ValueError(_UNCLOSED)
    return names.setdefault(text.strip(), len(names))


def _has_line_break(text):
    return "\n" in text or "\r" in text


def is_label(text):
    """Tell whether there is a label; one with NULs is none: NumPy drops them at the end."""
    return bool(text.strip()) and "\0" not in text


def labels_from(names, text_labels=None):
    """Return distinct labels as numbers where all are numbers, else as text.

    Whole numbers that floats do not hold are integers, or text where 64 bits do not hold them.
    """
    names = list(names)
    if text_labels or not all(map(is_finite_number, names)):
        return np.array(names)
    numbers = np.array([float(name) for name in names])
    if np.abs(numbers).max(initial=0) < LARGEST_FLOAT:
        return numbers
    try:
        integers = list(map(_whole, names))
    except ValueError:  # not all whole: no classes, but targets of a regression
        return numbers
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= min(integers) and max(integers) <= np.iinfo(dtype).max:
            return np.array(integers, dtype=dtype)
    return np.array(names)


def _whole(name):
    """Return a whole number, written with all its digits or as 1.0 or 1e3; else ValueError."""
    number = float(name)
    is_small = abs(number) < LARGEST_FLOAT and number.is_integer()
    return int(number) if is_small else int(name)


def _should_be_numbers(names, start):
    """Return whether labels that are no numbers are missing, or belie a header."""
    text = [name for name in names if not is_finite_number(name)]
    return bool(text) and (start.header_by_label or not any(map(_is_name, text)))


def _csv_fault(path, start, text_labels=True):
    """Return ', line 3: what is wrong' for the first row that is not as it should be."""
    with open_csv(path) as stream:
        reader = csv.reader(map(_ended, itertools.islice(stream, start.lines, None)))
        number = start.lines + 1  # of the line where a row begins
        try:
            for fields in reader:
                fault = csv_row_fault(
                    fields, start.special, start.n_columns, text_labels, start.feature_names
                )
                if fault:
                    return f", line {number}: {fault}"
                number = start.lines + reader.line_num + 1
        except csv.Error as error:
            return f", line {start.lines + reader.line_num}: {error}"
    return ""


def csv_line_fault(line, start, text_labels=True):
    """Return what is wrong with a line, bytes, that is a row; None if nothing is."""
    try:
        fields = next(csv.reader([_ended(line.decode("utf-8", "surrogateescape"))]), [])
    except csv.Error as error:
        return str(error)
    return csv_row_fault(fields, start.special, start.n_columns, text_labels, start.feature_names)


def _ended(line):
    """Return a line with a line break, which an open quote takes in."""
    return line if line.endswith(("\n", "\r")) else line + "\n"


def csv_row_fault(fields, special, n_columns, text_labels=True, names=None):
    """Return what is wrong with a row, None if nothing is; `names` are those of the features."""
    if not fields:
        return None
    if not all(map(_is_utf8, fields)):
        return _NOT_UTF8
    if any(map(_has_line_break, fields)):
        return _UNCLOSED
    if len(fields) != n_columns:
        return f"expected {n_columns} columns, found {len(fields)}"
    faults = (_field_fault(k, field, special, text_labels, names) for k, field in enumerate(fields))
    return next(filter(None, faults), None)


def _field_fault(k, field, special, text_labels, names):
    where = f"column {k + 1}"
    if k == special.label:
        if not is_label(field):
            return f"{where}, the label, {'has a NUL' if field.strip() else 'is empty'}"
        if text_labels or is_finite_number(field):
            return None
        hint = "text_labels=True (--text-labels) takes numbers, too, for text"
        return f"{where}, the label: {shown(field)} is not a finite number; {hint}"
    if k == special.weight:
        where += ", the weight"
    elif names:
        where += f" ({shown(names[special.features_of(range(k + 1)).index(k)])})"
    if not is_finite_number(field):
        return f"{where}: {shown(field)} is not a finite number"
    if k == special.weight and float(field) < 0:
        return f"{where}: {shown(field)} is negative"
    return None
