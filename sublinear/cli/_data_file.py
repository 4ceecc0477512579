"""The data file that the options name: reading it, judging its labels, never replacing it."""

import os
from pathlib import Path

import numpy as np

from sublinear._files import check_writable
from sublinear._readers import read
from sublinear._readers.files import format_of
from sublinear.sources import open_source
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
    if options.label_column not in (None, "last"):
        given["label_column"] = _label_column(options)
    path = Path(options.data)
    if options.stream:
        return open_source(path, format=options.format, **given)
    if path.is_dir() or (options.format is None and format_of(path) == "parquet"):
        raise ValueError(
            f"{path}: folders and Parquet files are read block by block: give fit or predict "
            "--stream"
        )
    return read(path, format=options.format, **given)


def _label_column(options):
    column = options.label_column
    if column == "none":
        return None
    return int(column) if column.removeprefix("-").isdecimal() else column


def check_few_labels(options, y, n_rows, advice):
    if y.dtype.kind == "f":
        return
    n_labels = np.unique(y).size
    if n_labels > max(_MANY_LABELS, _LARGE_SHARE * n_rows):
        raise ValueError(f"{options.data}: {n_labels} distinct labels; {advice}")


def check_outputs(outputs, options, *inputs):
    """Raise ValueError if an output would replace a file that is read, or another output.

    Or become one that is read: a shard of the data.
    """
    others = [path for path in (options.data, options.labels, *inputs) if path is not None]
    for output in outputs:
        place = os.path.realpath(output)
        for other in others:
            if os.path.realpath(other) == place:
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
