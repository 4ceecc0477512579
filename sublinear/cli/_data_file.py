"""The data file that the options name: reading it, judging its labels, never replacing it."""

import contextlib
import os
from pathlib import Path

import numpy as np

from sublinear._files import check_writable
from sublinear._readers import read
from sublinear._readers.csv_text import columns_of
from sublinear._readers.files import check_readable, format_of
from sublinear.sources import ParquetSource, open_source
from sublinear.sources._files import SHARDS

# More distinct labels than both of these, and they may not be classes at all.
_MANY_LABELS = 100
_LARGE_SHARE = 0.05


def read_data(options, **more):
    """Return the Dataset in the data file, or with --stream a source of its blocks."""
    given = {
        "labels": options.labels,
        "header": options.header,
        "index_base": options.index_base,
        "n_features": options.n_features,
        "text_labels": options.text_labels,
    }
    given = {name: value for name, value in given.items() if value is not None} | more
    if options.label_column is not None:
        given["label_column"] = as_column(options.label_column)
    if options.weight_column not in (None, "none"):
        given["weight_column"] = as_column(options.weight_column)
    path = Path(options.data)
    if options.stream:
        return open_source(path, format=options.format, **given)
    if path.is_dir() or format_of_data(options) == "parquet":
        raise ValueError(
            f"{path}: folders and Parquet files are read block by block: give fit or predict "
            "--stream"
        )
    return read(path, format=options.format, **given)


@contextlib.contextmanager
def naming_values(options):
    """Say of which file scikit-learn says that its values are not finite, without its advice."""
    try:
        yield
    except ValueError as error:
        first = str(error).partition("\n")[0]
        if not first.startswith("Input "):
            raise
        raise ValueError(f"{options.data}: {first}") from error


def as_column(option):
    """Return an option as readers take it: a position, a name, or None for no such column."""
    if not isinstance(option, str):
        return option
    if option == "none":
        return None
    return int(option) if option.removeprefix("-").isdecimal() else option


def format_of_data(options):
    """Return the format of the data file, None for a folder."""
    path = Path(options.data)
    return None if path.is_dir() else options.format or format_of(path)


def columns_of_table(options, header):
    """Return how many columns a CSV or Parquet file has, and their names; None: not known."""
    path, names = Path(options.data), None
    if format_of_data(options) == "csv":
        check_readable(path)
        return columns_of(path, header)
    source = open_source(path, format=options.format) if options.stream else None
    if isinstance(source, ParquetSource):
        source.label_column = None
        names = source.feature_names
    return names and len(names), names


def check_few_labels(options, y, n_rows, advice):
    if y.dtype.kind == "f":
        return
    n_labels = np.unique(y).size
    if n_labels > max(_MANY_LABELS, _LARGE_SHARE * n_rows):
        raise ValueError(f"{options.data}: {n_labels} distinct labels; {advice}")


def is_same_file(path, other):
    """Tell whether two resolved paths are one file, maybe as case is not told apart there."""
    if path == other:
        return True
    alike = path.casefold() == other.casefold() and os.path.exists(path) and os.path.exists(other)
    return alike and os.path.samefile(path, other)


def check_outputs(outputs, options, *inputs):
    """Raise ValueError if an output would replace a file that is read, or another output.

    Or become one that is read: a shard of the data.
    """
    others = [path for path in (options.data, options.labels, *inputs) if path is not None]
    for output in outputs:
        if str(output) == "-":
            raise ValueError("-o -: name a file; predict prints what it finds without -o")
        place = os.path.realpath(output)
        for other in others:
            if is_same_file(place, os.path.realpath(other)):
                raise ValueError(f"{output}: it would replace {other}; give it another name")
        if options.data is not None and Path(options.data).is_dir():
            within = os.path.dirname(place) == os.path.realpath(options.data)
            if within and Path(place).suffix.lower()[1:] in SHARDS:
                raise ValueError(
                    f"{output}: it would be read as a shard of {options.data}; give it another "
                    "folder"
                )
        check_writable(output)
        others.append(output)
