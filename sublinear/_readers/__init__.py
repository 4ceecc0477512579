"""Data files that are read as a whole: one reader per format.

Text runs through a fast parser; only when that fails are the lines looked at one by one.
"""

from pathlib import Path

from sublinear._readers.csv_text import read_csv
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear._readers.files import check_options, check_readable, format_of
from sublinear._readers.numpy_files import read_npy, read_npz
from sublinear._readers.svmlight_text import read_svmlight

__all__ = ["FORMATS", "read"]

FORMATS = ("svmlight", "csv", "npz", "npy")


def read(path, *, format=None, may_be_empty=False, **options):
    """Read one data file; `sublinear.datasets.load` documents the parameters."""
    path = Path(path)
    format = format_of(path) if format is None else format
    if format == "parquet":
        raise ValueError(f"{path}: for Parquet files there is sublinear.sources.ParquetSource")
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    readers = {"svmlight": read_svmlight, "csv": read_csv, "npz": read_npz, "npy": read_npy}
    check_options(path, format, readers[format], options)
    check_readable(path)
    return _checked(path, readers[format](path, **options), may_be_empty)


def _checked(path, data, may_be_empty):
    if data.X.shape[0] == 0 and not may_be_empty:
        raise ValueError(f"{path}: the file holds no rows")
    if data.X.shape[1] == 0:
        raise ValueError(f"{path}: the file holds no feature columns")
    if data.y is None:
        return data
    if data.y.shape[0] != data.X.shape[0]:
        raise ValueError(f"{path}: {data.X.shape[0]} rows but {data.y.shape[0]} labels")
    return data._replace(y=whole_numbers_as_integers(data.y))
