"""One reader per data file format, and the search for the line a parser stumbled over."""

import bz2
import codecs
import contextlib
import csv
import functools
import gzip
import inspect
import io
import itertools
import lzma
import math
import os
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

__all__ = ["FORMATS", "Dataset", "read"]

FORMATS = ("svmlight", "csv", "npz", "npy")

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DECOMPRESSION_ERRORS = (EOFError, OSError, zlib.error, lzma.LZMAError)
LARGEST_FLOAT = 2**53  # up to here floats hold all whole numbers
_MISSING = ("", "?", "na", "n/a", "null", "none")  # "nan" is a number
_UNCLOSED = "a quote is not closed where the line ends"
_NOT_UTF8 = "the text is not UTF-8: convert the file"
_LARGEST_INDEX = 2**31 - 2  # the svmlight parser counts columns in a C int


class Dataset(NamedTuple):
    """Rows, labels, and what only some files have: None where this one has none."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray | None
    index_base: int | None = None  # the first index of svmlight text
    feature_names: list | None = None


def read(path, *, format=None, may_be_empty=False, **options):
    """Read one data file; `sublinear.datasets.load` documents the parameters."""
    path = Path(path)
    format = format_of(path) if format is None else format
    if format == "parquet":
        raise ValueError(f"{path}: for Parquet files there is sublinear.sources.ParquetSource")
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    readers = {"svmlight": _read_svmlight, "csv": _read_csv, "npz": _read_npz, "npy": _read_npy}
    check_options(path, format, readers[format], options)
    check_readable(path)
    return _checked(path, readers[format](path, **options), may_be_empty)


def check_options(path, format, reader, options):
    """Raise ValueError if what reads a format does not know one of the options."""
    unknown = sorted(options.keys() - inspect.signature(reader).parameters.keys())
    if unknown:
        hint = "; such files hold their own labels" if "labels" in unknown else ""
        raise ValueError(
            f"{path}: {', '.join(unknown)} do not apply to data in {format} format{hint}"
        )


def check_index_base(index_base):
    if index_base not in (None, 0, 1):
        raise ValueError(f"index_base must be 0, 1 or None, got {index_base!r}")


def format_of(path):
    """Return the format that a file's name announces; LIBSVM's sets have no ending of their own."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    ending = suffixes[-1][1:] if suffixes else ""
    return ending if ending in ("csv", "npz", "npy", "parquet") else "svmlight"


def check_readable(path):
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():
        raise OSError(f"{path}: not a regular file")
    try:
        with open(path, "rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise OSError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if empty:
        raise ValueError(f"{path}: the file is empty")


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


def whole_numbers_as_integers(y):
    """Turn labels 1.0 and -1.0 into 1 and -1, so that predictions print as the file has them."""
    if y.dtype.kind == "f" and np.all(np.abs(y) < LARGEST_FLOAT) and np.all(y == np.floor(y)):
        return y.astype(np.int64)
    return y


# Text formats: the parser runs first; only when it fails are the lines looked at one by one.


@contextlib.contextmanager
def undamaged(path):
    """Turn the errors of a damaged compressed file into one that names the file."""
    try:
        yield
    except _DECOMPRESSION_ERRORS as error:
        if getattr(error, "errno", None) is not None:  # of the system: the file is not to be read
            raise
        raise ValueError(f"{path}: damaged or not what its name says ({error})") from error


def _decompressed(reader):
    @functools.wraps(reader)
    def guarded(path, **options):
        with undamaged(path):
            return reader(path, **options)

    return guarded


def open_file(path, mode="rb", **options):
    return _OPENERS.get(path.suffix.lower(), open)(path, mode, **options)


@contextlib.contextmanager
def open_behind_mark(path):
    """Open a file of text to be read as bytes, behind its byte order mark if it has one."""
    with open_file(path) as stream:
        if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            stream.seek(0)
        yield stream


def is_finite_number(text):
    return "_" not in text and _is_finite_to_python(text)


def _is_finite_to_python(text):
    """Tell whether Python, as the svmlight parser, reads a finite number; it takes 1_0 for 10."""
    try:
        # float knows digits and signs of all scripts; parsers do not
        return text.isascii() and math.isfinite(float(text))
    except ValueError:
        return False


def _index_to_python(text):
    """Return the index that Python, as the svmlight parser, reads; -1 for none."""
    try:
        return max(int(text), -1) if text.isascii() else -1
    except ValueError:
        return -1


def _shown(text, limit=40):
    """Return ``text`` quoted, and cut where it is long."""
    return repr(text if len(text) <= limit else text[:limit] + "...")


@_decompressed
def _read_svmlight(path, index_base=None, n_features=None):
    check_index_base(index_base)
    try:
        with open_behind_mark(path) as stream:
            # Zero-based for the parser: no index is moved before the whole file is known.
            X, y = load_svmlight_file(stream, zero_based=True)
    except (ValueError, OverflowError) as error:
        fault = _svmlight_fault(path, index_base) or f": {error}"
        raise ValueError(f"{path}{fault}") from error
    lowest = X.indices.min() if X.nnz else 1
    base = min(int(lowest), 1) if index_base is None else index_base
    columns = max(int(X.indices.max(initial=-1)) + 1 - base, 0)
    n_features = columns if n_features is None else n_features
    if lowest < base or columns > n_features or not is_sound_svmlight(X, y):
        raise ValueError(f"{path}{_svmlight_fault(path, base, n_features)}")
    index = np.int32 if X.nnz < 2**31 else np.int64
    parts = (X.data, (X.indices - base).astype(index), X.indptr.astype(index))
    X = sparse.csr_array(parts, shape=(X.shape[0], n_features))
    return Dataset(X, y, base)


def is_sound_svmlight(X, y, shift=0):
    """Tell whether values are finite, and indices no larger than a line may hold.

    Parameters
    ----------
    X : CSR matrix
    y : ndarray
    shift : int
        What the parser has taken off the indices.
    """
    finite = np.isfinite(X.data).all() and np.isfinite(y).all()
    return finite and X.indices.max(initial=-1) <= _LARGEST_INDEX - shift


def _svmlight_fault(path, index_base, n_features=None):
    """Return ', line 3: what is wrong' for the first line that is not svmlight text."""
    with open_behind_mark(path) as stream:
        for number, line in enumerate(stream, start=1):
            text = line.decode("utf-8", "replace")
            fault = svmlight_line_fault(text, index_base or 0, n_features)
            if fault:
                return f", line {number}: {fault}"
    return ""


def svmlight_line_fault(line, index_base, n_features=None):
    """Return what is wrong with a line, None if nothing is; n_features limits the indices."""
    label, *entries = line.partition("#")[0].split() or ["0"]
    if not _is_finite_to_python(label):
        hint = (
            " (read as svmlight text; if this is CSV, give the format csv)" if "," in label else ""
        )
        return f"label {_shown(label)} is not a finite number{hint}"
    previous = index_base - 1
    for entry in entries[1:] if entries and entries[0].startswith("qid:") else entries:
        written, _, value = entry.partition(":")
        index = _index_to_python(written)
        if index < 0 or not _is_finite_to_python(value):
            return f"{_shown(entry)} is not index:value with a finite value"
        if index > _LARGEST_INDEX:
            return f"index {_shown(written)} is too large"
        if n_features is not None and index >= n_features + index_base:
            return (
                f"index {index} is beyond the {n_features} features declared; a model has as many "
                "as n_features (--n-features) said at its fit"
            )
        if index < index_base:
            return "index 0, but the indices were said to start at 1 (index base)"
        if index <= previous:
            return f"index {index} after {previous}: indices must ascend without repeats"
        previous = index
    return None


@_decompressed
def _read_csv(path, label_column="last", header=None, text_labels=None):
    start = beginning_of(path, label_column, header, text_labels)
    names = {}
    X = _parse_csv(path, start, names)
    if start.column is None:
        return Dataset(X, None, feature_names=start.feature_names)
    if not text_labels and _should_be_numbers(names, start):
        raise ValueError(f"{path}{_csv_fault(path, start, text_labels=False)}")
    y = labels_from(names, text_labels)[X[:, start.column].astype(np.int64)]
    return Dataset(np.delete(X, start.column, axis=1), y, feature_names=start.feature_names)


class Beginning(NamedTuple):
    """What the first lines of a CSV file tell."""

    lines: int  # before the first row
    feature_names: list | None
    n_columns: int
    column: int | None  # of the labels
    text_labels: bool
    header_by_label: bool  # whether its label alone made a header of the first line


def beginning_of(path, label_column, header, text_labels=None):
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
        column = label_index(path, first, label_column, header is not False)
        check_feature_columns(path, first, column)
        rows = _rows_after(reader)
        second = next(rows, None)
        following = _known_label(itertools.chain([second], rows), column, len(first))
    own = "" if column is None else first[column]
    header_by_label = False
    if header is None:
        header = _has_names(first, column, label_column)
        by_label = not header and not text_labels
        header_by_label = by_label and _is_name(own) and is_finite_number(following)
    header = header or header_by_label
    if any(map(_has_line_break, first)) and not (header and second):
        raise ValueError(f"{path}, line 1: {_UNCLOSED}")
    if header and second is None:
        raise ValueError(f"{path}: the file holds no rows")
    return Beginning(
        lines=number if header else number - 1,
        feature_names=checked_names(path, stripped(first, column)) if header else None,
        n_columns=len(first),
        column=column,
        text_labels=column is not None
        and (text_labels or _is_name(following if header or not _is_known(own) else own)),
        header_by_label=header_by_label,
    )


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
    if header or (header is None and _has_names(first, None, None)):
        return len(first), stripped(first)
    return len(first), None


def stripped(header, column=None):
    """Return the names in a header but for the one of the label's column, if there is one."""
    return [name.strip() for k, name in enumerate(header) if k != column]


def checked_names(path, names):
    """Return the names of features; ValueError for one with NULs, which NumPy drops at the end."""
    for name in names:
        if "\0" in name:
            raise ValueError(f"{path}: the column name {_shown(name)} has a NUL; remove it")
    return names


def open_csv(path):
    return open_file(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


def ends_with_return(path, count):
    """Tell whether one of the first lines of a CSV file ends with CR alone."""
    with open_csv(path) as stream:
        return any(line.endswith("\r") for line in itertools.islice(stream, count))


def _rows_after(reader):
    """Yield the rows to come, up to one that is no CSV: whoever parses it says so."""
    with contextlib.suppress(csv.Error):
        yield from (row for row in reader if row)


def _known_label(rows, column, n_columns):
    """Return the first label in a row as it should be that is a number or a name, "" for none."""
    if column is None:
        return ""
    sound = (row for row in rows if row and csv_row_fault(row, column, n_columns) is None)
    return next((row[column] for row in sound if _is_known(row[column])), "")


def _has_names(fields, column, label_column):
    """Return whether a first line has the name of a feature, or must have that of the label."""
    if isinstance(label_column, str) and label_column not in ("first", "last"):
        return True
    return any(_is_name(field) for k, field in enumerate(fields) if k != column)


def _is_utf8(text):
    return not any("\udc80" <= character <= "\udcff" for character in text)


def _is_known(text):
    return is_finite_number(text) or _is_name(text)


def _is_name(text):
    """Return whether a field is neither a number nor says that a value is missing."""
    try:
        float(text)
    except ValueError:
        return text.strip().lower() not in _MISSING
    return False


def label_index(path, first, label_column, named):
    if label_column is None:
        return None
    position = {"first": 0, "last": -1}.get(label_column, label_column)
    if isinstance(position, str):
        columns = [field.strip() for field in first] if named else []
        if columns.count(position) != 1:
            found = "more than one column" if position in columns else "no column"
            raise ValueError(f"{path}: {found} named {position!r} in the header")
        return columns.index(position)
    if not -len(first) <= position < len(first):
        raise ValueError(f"{path}: label column {position}, but there are {len(first)} columns")
    return position % len(first)


def check_feature_columns(path, fields, column):
    """Raise ValueError if a row of a CSV file holds no more than the label."""
    if column is not None and len(fields) == 1:
        raise ValueError(
            f"{path}: the file holds no feature columns; commas must separate the fields"
        )


def _parse_csv(path, start, names):
    """Parse numbers with NumPy; labels become codes, and ``names`` maps each label to its code."""
    encode = {}
    if start.column is not None:
        encode[start.column] = functools.partial(code_of, names)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            X = np.loadtxt(
                os.fspath(path.absolute()),
                delimiter=",",
                comments=None,
                quotechar='"',
                skiprows=start.lines,
                converters=encode,
                encoding="utf-8-sig",
                ndmin=2,
            )
    except ValueError as error:
        raise ValueError(f"{path}{_csv_fault(path, start) or f': {error}'}") from error
    if X.size == 0:
        raise ValueError(f"{path}: the file holds no rows")
    sound = X.shape[1] == start.n_columns and np.isfinite(X).all()
    if not sound or not all(map(is_label, names)):
        raise ValueError(f"{path}{_csv_fault(path, start)}")
    return X


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
        integers = [int(name) for name in names]
    except ValueError:  # not all whole: no classes, but targets of a regression
        return numbers
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= min(integers) and max(integers) <= np.iinfo(dtype).max:
            return np.array(integers, dtype=dtype)
    return np.array(names)


def _should_be_numbers(names, start):
    """Return whether labels that are no numbers are missing, or belie a header."""
    text = [name for name in names if not is_finite_number(name)]
    return bool(text) and (start.header_by_label or not any(map(_is_name, text)))


def _csv_fault(path, start, text_labels=True):
    """Return ', line 3: what is wrong' for the first row that is not as it should be."""
    with open_csv(path) as stream:
        reader = csv.reader(itertools.islice(stream, start.lines, None))
        number = start.lines + 1  # of the line where a row begins
        try:
            for fields in reader:
                fault = csv_row_fault(fields, start.column, start.n_columns, text_labels)
                if fault:
                    return f", line {number}: {fault}"
                number = start.lines + reader.line_num + 1
        except csv.Error as error:
            return f", line {start.lines + reader.line_num}: {error}"
    return ""


def csv_row_fault(fields, column, n_columns, text_labels=True):
    """Return what is wrong with a row, None if nothing is."""
    if not fields:
        return None
    if not all(map(_is_utf8, fields)):
        return _NOT_UTF8
    if any(map(_has_line_break, fields)):
        return _UNCLOSED
    if len(fields) != n_columns:
        return f"expected {n_columns} columns, found {len(fields)}"
    for number, field in enumerate(fields, start=1):
        if number - 1 == column and not is_label(field):
            return f"column {number}, the label, {'has a NUL' if field.strip() else 'is empty'}"
        if number - 1 == column and text_labels:
            continue
        if not is_finite_number(field):
            what = ", the label" if number - 1 == column else ""
            return f"column {number}{what}: {_shown(field)} is not a finite number"
    return None


# NumPy formats: pickled objects are never loaded.


def _read_npy(path, labels=None):
    return Dataset(map_npy(path), read_labels(labels))


def map_npy(path):
    """Return the 2-d array in a .npy file, memory-mapped."""
    X = _load_array(path, mmap_mode="r")
    if X.ndim != 2:
        raise ValueError(f"{path}: {X.ndim}-dimensional; the rows must form a 2-d array")
    _check_numeric(path, "X", X)
    return X


def _read_npz(path, labels=None):
    arrays = _load_arrays(path)
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2:
            raise ValueError(f"{path}: X is {X.ndim}-dimensional; it must be 2-d")
        _check_numeric(path, "X", X)
    else:
        X = _sparse_from(path, arrays)
    if labels is None and "y" in arrays:
        return Dataset(X, _as_labels(path, arrays["y"]))
    return Dataset(X, read_labels(labels))


def read_labels(labels):
    if labels is None:
        return None
    labels = Path(labels)
    check_readable(labels)
    return _as_labels(labels, _load_array(labels))


def _as_labels(path, y):
    y = np.asarray(y)
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.ndim != 1:
        raise ValueError(f"{path}: labels must form a 1-d array, not one of shape {y.shape}")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8")
    if y.dtype.kind not in "biufU":
        raise ValueError(f"{path}: labels must be numbers or strings, not {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"{path}: label {int(np.argmin(np.isfinite(y)))} is not finite")
    return y


def _check_numeric(path, name, array):
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {name} must hold real numbers, not {array.dtype}")


def _load_array(path, mmap_mode=None):
    array = _load_numpy(path, mmap_mode)
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path}: an archive of arrays (.npz) where one array (.npy) was expected")
    return array


def _load_arrays(path):
    archive = _load_numpy(path)
    if isinstance(archive, np.ndarray):
        raise ValueError(f"{path}: one array (.npy) where an archive of arrays (.npz) was expected")
    with archive:
        names = [name for name in archive.files if name in _NPZ_NAMES]
        return {name: _load_member(path, archive, name) for name in names}


_NPZ_NAMES = ("X", "y", "format", "shape", "data", "indices", "indptr")


def _load_numpy(path, mmap_mode=None):
    try:
        with open(path, "rb") as stream:
            if stream.peek(1)[:1] == np.lib.format.MAGIC_PREFIX[:1]:
                read_array_header(stream, os.path.getsize(path))
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except _ARRAY_ERRORS as error:
        raise ValueError(f"{path}: {_numpy_fault(error)}") from error


def _load_member(path, archive, name):
    try:
        return _array_in(archive.zip.read(f"{name}.npy"))
    except _ARRAY_ERRORS as error:
        raise ValueError(f"{path}, array {name!r}: {_numpy_fault(error)}") from error


def read_array_header(stream, size):
    """Return shape, order and dtype of the array in a .npy file of so many bytes; read no more.

    Raises
    ------
    ValueError
        If it holds Python objects, or an array larger than the file: NumPy would make room for it.
    """
    start = stream.tell()
    version = np.lib.format.read_magic(stream)
    read_header = _HEADERS.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of the format is for structured arrays")
    shape, in_columns, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("Python objects, which are never loaded")
    room = size - (stream.tell() - start)
    # entries of no size would be given one
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize > room:
        raise ValueError(f"no room for an array of shape {shape} and type {dtype}")
    return shape, "F" if in_columns else "C", dtype


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _array_in(data):
    """Return the array in the bytes of a .npy file, read-only; numpy copies it twice, in pieces."""
    stream = io.BytesIO(data)
    shape, order, dtype = read_array_header(stream, len(data))
    return np.ndarray(shape, dtype, data, stream.tell(), order=order)


_ARRAY_ERRORS = (
    *(ValueError, TypeError, KeyError, EOFError, OSError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def _numpy_fault(error):
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return "not an array file, or one that holds pickled objects, which are never loaded"
    return f"damaged or not an array file ({error})"


def _sparse_from(path, arrays):
    missing = [name for name in ("data", "indices", "indptr", "shape") if name not in arrays]
    if missing:
        raise ValueError(
            f"{path}: neither an array X nor a CSR matrix (no array {', '.join(missing)}); "
            "save the rows with scipy.sparse.save_npz, or with numpy.savez as X and y"
        )
    format = str(np.asarray(arrays.get("format", "csr")).astype("U"))
    build = {"csr": sparse.csr_array, "csc": sparse.csc_array}.get(format)
    if build is None:
        raise ValueError(f"{path}: sparse format {format!r}; save the matrix in CSR format")
    for name in ("indices", "indptr", "shape"):
        if arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1:
            raise ValueError(f"{path}: {name} must be a 1-d array of whole numbers")
    _check_numeric(path, "data", arrays["data"])
    try:
        parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        X = build(parts, shape=tuple(arrays["shape"].tolist()))
        # Out-of-range indices of a stranger's file must not reach compiled code.
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a valid sparse matrix ({error})") from error
    return X.tocsr()
