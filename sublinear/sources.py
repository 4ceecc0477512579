"""Sources: data as a run of row blocks, for fits over more rows than memory holds.

A source is any iterable of blocks (X, y) or (X, y, sample_weight). One that can be iterated again
from its beginning serves methods that need several passes; a generator serves one pass. The
classes below can all be iterated again. Whatever they read, they hold one block at a time.
"""

import contextlib
import csv
import io
import json
import queue
import threading
from functools import partial
from mmap import mmap
from numbers import Number
from pathlib import Path

import numpy as np
from joblib import cpu_count
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from sublinear import _readers
from sublinear._documentation import with_parameters
from sublinear._validation import (
    check_choice,
    check_flag,
    check_number,
    distinct_plain,
    join_labels,
)

__all__ = [
    "ArraySource",
    "CSVSource",
    "GeneratorSource",
    "NpySource",
    "NpzSource",
    "ParquetSource",
    "ReadAhead",
    "SvmlightSource",
    "distinct_labels",
    "open_source",
]

SHARDS = ("npz", "parquet")  # the endings of the files that a folder may hold
BLOCK_ROWS = 8192
ARRAY_BLOCK_ROWS = 2**15  # fewer cost time in the interpreter, more stay out of the cache
BLOCK_BYTES = 2**22
PATIENCE = 0.2  # seconds between two looks whether the other side of a queue has gone
NO_LABELS = "no labels to learn from: a .npy file needs a file of labels, a .npz file an array y"
GOODBYE = 2.0  # seconds for a reading thread to finish its block after the fit has ended


class EmptySource(ValueError):
    """There is nothing to learn from in a source."""

    def __init__(self):
        super().__init__("the source is empty: it yields no rows")


def open_source(path, *, format=None, **options):
    """Return the source that reads a file, or a folder or list of files.

    Parameters
    ----------
    path : str, path-like, or list of them
        One file; for .npz and .parquet also a folder or several files.
    format : {"svmlight", "csv", "npy", "npz", "parquet"}, default=None
        The format; None takes it from the (first) name, svmlight where that does not tell.
    **options
        Of the class: SvmlightSource, CSVSource, NpySource, NpzSource or ParquetSource.

    Returns
    -------
    source : iterable of (X, y)

    Raises
    ------
    OSError
        If a file is missing or cannot be read.
    ValueError
        For an unknown format, or options that make no sense.
    """
    if format is None:
        paths = _files(path, SHARDS)
        formats = sorted({_readers.format_of(one) for one in paths})
        if len(formats) > 1:
            raise ValueError(
                f"{path}: files of several formats, {' and '.join(formats)}; read each kind alone"
            )
        format = formats[0]
    check_choice("format", format, _FORMATS)
    kind = _FORMATS[format]
    if isinstance(path, (list, tuple)) and format not in SHARDS:
        raise ValueError(
            f"several files can only be read in the formats {' and '.join(SHARDS)}, "
            f"not {format}; chain the sources of single files in a GeneratorSource"
        )
    _readers.check_options(path, format, kind, options)
    return kind(path, **options)


def distinct_labels(source):
    """Return the sorted distinct labels of a source; takes one pass over it.

    Parameters
    ----------
    source : iterable of (X, y) or (X, y, sample_weight)
        One that can be iterated again, if it is to be fitted afterwards.

    Returns
    -------
    labels : ndarray of shape (n_labels,)
        Integers if all are whole numbers.
    """
    labels = None
    for _, y, *_ in source:
        if y is None:
            raise ValueError(NO_LABELS)
        # sequences have a list of labels each
        of_sequences = isinstance(y, list) and len(y) and np.ndim(y[0])
        found = distinct_plain(np.hstack(y) if of_sequences else y)
        labels = found if labels is None else join_labels(labels, found)
    if labels is None:
        raise EmptySource
    return _readers.whole_numbers_as_integers(labels)


class ArraySource:
    """Rows in memory, or in memory maps, in blocks that share their memory.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
        None where there is nothing to learn, only to predict.
    sample_weight : array-like of shape (n_samples,), or float, default=None
    block_rows : int, default=32768
        Rows of a block; the last one may have fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.sources import ArraySource
    >>> source = ArraySource(np.ones((5, 2)), np.arange(5), block_rows=2)
    >>> [X.shape for X, y in source]
    [(2, 2), (2, 2), (1, 2)]
    """

    def __init__(self, X, y=None, sample_weight=None, *, block_rows=ARRAY_BLOCK_ROWS):
        check_number("block_rows", block_rows, low=1, integer=True)
        self.X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if sample_weight is not None and np.ndim(sample_weight) == 0:
            sample_weight = np.full(self.X.shape[0], sample_weight)
        columns = [y] if sample_weight is None else [y, sample_weight]
        self.columns = [None if column is None else np.asarray(column) for column in columns]
        self.block_rows = block_rows
        for name, column in zip(("y", "sample_weight"), self.columns, strict=False):
            if column is not None and column.shape[:1] != self.X.shape[:1]:
                raise ValueError(f"X has {self.X.shape[0]} rows, but {name} {column.size}")

    def __iter__(self):
        return self.blocks_of(self.X, *self.columns)

    def blocks_of(self, X, *columns):
        """Yield the blocks of arrays that take the place of this source's own; None stays None."""
        for start in range(0, self.X.shape[0], self.block_rows):
            stop = min(start + self.block_rows, self.X.shape[0])
            parts = (column if column is None else column[start:stop] for column in columns)
            yield (_rows(X, start, stop), *parts)


def _rows(X, start, stop):
    """Return X[start:stop] without a copy; slices and constructors of scipy's matrices copy."""
    if not sparse.issparse(X):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    rows = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    rows.data, rows.indices = X.data[first:last], X.indices[first:last]
    rows.indptr = X.indptr[start : stop + 1] - first
    return rows


class GeneratorSource:
    """The blocks of a generator function, which is called anew for every pass.

    Parameters
    ----------
    function : callable
        Returns an iterator of (X, y) or (X, y, sample_weight), the same blocks at every call. It
        may fill the same arrays again: reading ahead copies blocks.

    Examples
    --------
    >>> from sublinear.sources import GeneratorSource
    >>> def blocks():
    ...     yield [[1.0, 0.0]], [1]
    ...     yield [[0.0, 1.0]], [-1]
    >>> len(list(GeneratorSource(blocks)))
    2
    """

    def __init__(self, function):
        if not callable(function):
            raise TypeError(
                f"GeneratorSource needs a function that returns an iterator, got {function!r}; "
                "pass the generator function itself, without calling it"
            )
        self.function = function

    def __iter__(self):
        return iter(self.function())


class _TextSource:
    """Text in chunks of whole lines: parsed at once, looked at line by line where that fails."""

    header_lines = 0

    def __init__(self, path, block_bytes, on_error):
        check_number("block_bytes", block_bytes, low=1, integer=True)
        check_choice("on_error", on_error, ("raise", "skip"))
        self.path = Path(path)
        self.block_bytes = block_bytes
        self.on_error = on_error
        self.skipped = 0
        _readers.check_readable(self.path)

    def __iter__(self):
        return self._blocks(self._parse, self._line_fault)

    def _blocks(self, parse, line_fault):
        """Yield what `parse` makes of every chunk, but for chunks without rows.

        `line_fault` tells what is wrong with a line, None if nothing is, where `parse` fails.
        """
        self.skipped = 0
        with _readers.undamaged(self.path), _readers.open_behind_mark(self.path) as stream:
            for _ in range(self.header_lines):
                stream.readline()
            line = self.header_lines + 1
            while chunk := stream.read(self.block_bytes):
                chunk += stream.readline()
                block = self._parsed(parse, line_fault, chunk, line)
                if block is not None and block[0].shape[0] > 0:
                    yield block
                line += chunk.count(b"\n")

    def _parsed(self, parse, line_fault, chunk, line):
        try:
            return parse(chunk)
        except (ValueError, OverflowError):
            sound = self._sound_lines(line_fault, chunk, line)
        try:
            return parse(sound) if sound else None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self.path}, line {line} or later: {error}") from error

    def _sound_lines(self, line_fault, chunk, first):
        """Return the chunk without its malformed lines, or raise the first one's fault."""
        sound = []
        for number, line in enumerate(io.BytesIO(chunk), start=first):
            fault = line_fault(line)
            if fault is None:
                sound.append(line)
            elif self.on_error == "raise":
                raise ValueError(f"{self.path}, line {number}: {fault}")
            else:
                self.skipped += 1
        return b"".join(sound)


_TEXT_PARAMETERS = """\
block_bytes : int, default=2**22
        Bytes of text in a block, about: it ends with a line.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a malformed line: raise a ValueError that names the file and the line, or
        leave it out and count it."""


@with_parameters(text=_TEXT_PARAMETERS)
class SvmlightSource(_TextSource):
    """LIBSVM / svmlight text: ``label index:value index:value ...``, compressed or not.

    Parameters
    ----------
    path : str or path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    n_features : int, default=None
        Columns. None finds out, by one more pass over the file.
    index_base : {0, 1}, default=None
        The index of the first feature. None finds out, by the same pass: 0 if the file uses index
        0 anywhere, else 1.
    %(text)s

    Attributes
    ----------
    skipped : int
        Lines left out in the last pass, or so far in this one.
    """

    def __init__(
        self, path, *, n_features=None, index_base=None, block_bytes=BLOCK_BYTES, on_error="raise"
    ):
        super().__init__(path, block_bytes, on_error)
        check_number("n_features", n_features, low=1, integer=True, optional=True)
        _readers.check_index_base(index_base)
        self.n_features = n_features
        self.index_base = index_base

    def __iter__(self):
        if not self.knows_columns:
            self.find_columns()
        return super().__iter__()

    @property
    def knows_columns(self):
        """Whether `n_features` and `index_base` were given or have been found."""
        return self.n_features is not None and self.index_base is not None

    def find_columns(self, watch=None):
        """Find `n_features` and `index_base` in a pass; the first iteration does it otherwise.

        Parameters
        ----------
        watch : callable, default=None
            Called with the number of rows of every block.
        """
        lowest, columns = 1, 0
        for X, _ in self._blocks(self._parse_unlimited, partial(self._fault_in, n_features=None)):
            lowest = min(lowest, X.indices.min(initial=1))
            columns = max(columns, X.shape[1])
            if watch:
                watch(X.shape[0])
        if self.index_base is None:
            self.index_base = int(lowest)
        if self.n_features is None:
            if columns - self.index_base < 1:
                raise ValueError(f"{self.path}: the file holds no feature columns")
            self.n_features = columns - self.index_base

    def _parse_unlimited(self, chunk):
        """Read indices as they are written."""
        X, y = load_svmlight_file(io.BytesIO(chunk), zero_based=True)
        return self._checked(X, y, lowest=self.index_base or 0)

    def _parse(self, chunk):
        X, y = load_svmlight_file(
            io.BytesIO(chunk), n_features=self.n_features, zero_based=self.index_base == 0
        )
        return self._checked(X, y, shift=self.index_base)

    def _checked(self, X, y, lowest=0, shift=0):
        if X.indices.min(initial=lowest) < lowest:
            raise ValueError("an index lies below the first one")
        if not _readers.is_sound_svmlight(X, y, shift):
            raise ValueError("a value is not finite, or an index is too large")
        return sparse.csr_array(X), y

    def _line_fault(self, line):
        return self._fault_in(line, self.n_features)

    def _fault_in(self, line, n_features):
        text = line.decode("utf-8", "replace")
        return _readers.svmlight_line_fault(text, self.index_base or 0, n_features)


@with_parameters(text=_TEXT_PARAMETERS)
class CSVSource(_TextSource):
    """Comma-separated numbers, with labels that are numbers or text, compressed or not.

    A quoted label must not hold a line break, and lines must not end with CR alone.

    Parameters
    ----------
    path : str or path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    label_column : {"last", "first"}, int, str or None, default="last"
        Where the labels are: a position (from 0, negative from the end), or a name in the header.
        None: there are no labels; the blocks (X, None) serve predictions, not fits.
        They are text if the first one that is not missing is no number. Whole numbers of up to 64
        bits keep all their digits; longer ones can only be text.
    header : bool, default=None
        Whether the file starts with a line of column names. None: it does if there is a name for a
        feature in its first line, or one for the label and the next label is a number. Names are
        neither numbers nor words for a missing value: nothing, ?, NA, NaN, null, none.
    text_labels : {True, None}, default=None
        True: labels are text, numbers among them too. None finds out.
    %(text)s

    Attributes
    ----------
    skipped : int
        Lines left out in the last pass, or so far in this one.
    feature_names : list of str or None
        Of the header, where there is one.
    """

    def __init__(
        self,
        path,
        *,
        label_column="last",
        header=None,
        text_labels=None,
        block_bytes=BLOCK_BYTES,
        on_error="raise",
    ):
        super().__init__(path, block_bytes, on_error)
        with _readers.undamaged(self.path):
            start = _readers.beginning_of(self.path, label_column, header, text_labels)
            if _readers.ends_with_return(self.path, start.lines + 1):  # chunks end with LF
                raise ValueError(f"{self.path}: lines end with CR alone: convert the file to LF")
        self.header_lines = start.lines
        self.feature_names = start.feature_names
        self._n_columns = start.n_columns
        self._column = start.column
        self._text_labels = start.text_labels

    def _parse(self, chunk):
        if not chunk.strip(b"\r\n"):
            return None
        names = {} if self._text_labels else None
        table = self._table(chunk, names)
        if self._column is None:
            return table, None
        y = table[:, self._column]
        if names is None and np.abs(y).max(initial=0) >= _readers.LARGEST_FLOAT:
            names = {}
            y = self._table(chunk, names)[:, self._column]
        if names is not None:
            y = _readers.labels_from(names, self._text_labels)[y.astype(np.intp)]
            if y.dtype.kind == "U" and not self._text_labels:
                raise ValueError("a label is a whole number of more than 64 bits; text_labels=True")
        return np.delete(table, self._column, axis=1), y

    def _table(self, chunk, names):
        """Parse numbers; `names`, unless None, gets the labels, codes of which take their place."""
        encode = {} if names is None else {self._column: partial(_readers.code_of, names)}
        table = np.loadtxt(
            io.BytesIO(chunk),
            delimiter=",",
            comments=None,
            quotechar='"',
            converters=encode,
            encoding="utf-8",
            ndmin=2,
        )
        sound = table.shape[1] == self._n_columns and np.isfinite(table).all()
        if not sound or not all(map(_readers.is_label, names or ())):
            raise ValueError("a line is not as the first one")
        return table

    def _line_fault(self, line):
        try:
            fields = next(csv.reader([line.decode("utf-8", "surrogateescape")]), [])
        except csv.Error as error:
            return str(error)
        return _readers.csv_row_fault(fields, self._column, self._n_columns, self._text_labels)


class NpySource:
    """A dense matrix in a .npy file, every block a memory map of its own.

    What has been read does not count as this process's memory once its block is gone. A file in
    Fortran order is mapped as a whole.

    Parameters
    ----------
    path : str or path-like
    labels : str, path-like or array-like, default=None
        A .npy file, or the array. None where there is nothing to learn, only to predict.
    sample_weight : array-like of shape (n_samples,), default=None
    block_rows : int, default=8192
    """

    def __init__(self, path, labels=None, sample_weight=None, *, block_rows=BLOCK_ROWS):
        _readers.check_readable(Path(path))
        self._map = _readers.map_npy(Path(path))
        if isinstance(labels, (str, Path)):
            labels = _readers.read_labels(labels)
        self._whole = ArraySource(self._map, labels, sample_weight, block_rows=block_rows)

    def __iter__(self):
        whole = self._map
        if not whole.flags.c_contiguous:
            yield from self._whole
            return
        offset = whole.offset
        for X, *columns in self._whole:
            yield (
                np.memmap(whole.filename, whole.dtype, "r", offset, X.shape) if X.size else X,
                *columns,
            )
            offset += X.nbytes


class NpzSource:
    """Shards: .npz files, each with some rows as a CSR matrix or an array X, and their labels y.

    A shard is what `scipy.sparse.save_npz` writes and an array ``y`` more, or ``numpy.savez(file,
    X=X, y=y)``. Without ``y`` there is nothing to learn, only to predict. One shard at a time is in
    memory.

    Parameters
    ----------
    path : str, path-like, or list of them
        A shard, several, or a folder with shards, which are read in the order of their names.
    labels : str or path-like, default=None
        A .npy file with the labels of the only shard.
    block_rows : int, default=None
        Cut shards into blocks of so many rows; None leaves them whole.
    """

    def __init__(self, path, *, labels=None, block_rows=None):
        check_number("block_rows", block_rows, low=1, integer=True, optional=True)
        self.paths = _files(path, ("npz",))
        if labels is not None and len(self.paths) > 1:
            raise ValueError(f"{path}: each of {len(self.paths)} shards needs labels y of its own")
        self.labels, self.block_rows = labels, block_rows

    def __iter__(self):
        for path in self.paths:
            X, y, *_ = _readers.read(path, format="npz", may_be_empty=True, labels=self.labels)
            if X.shape[0] > 0:
                yield from ArraySource(X, y, block_rows=self.block_rows or X.shape[0])


# Arrow would read all row groups ahead and keep them, or all of a column in a row group.
_LITTLE_MEMORY = {"pre_buffer": False, "buffer_size": 2**16}


class ParquetSource:
    """Columns of numbers in Parquet files; needs pyarrow (the extra ``parquet``).

    Decimals become floats; labels may also be text. Categories are read as what they stand for. The
    index of a pandas data frame is left out.

    Parameters
    ----------
    path : str, path-like, or list of them
        A file, several, or a folder with files, which are read in the order of their names.
    label_column : {"last", "first"}, int, str or None, default="last"
        Where the labels are: a position (from 0, negative from the end), or a name.
        None: there are no labels; the blocks (X, None) serve predictions, not fits.
    block_rows : int, default=8192
        Rows of a block at the most.
    use_threads : bool, default=None
        Let Arrow decode on threads of its own. None: if there are more than two processors; with
        two, one thread that decodes, beside the fit, is as fast.
    """

    def __init__(self, path, *, label_column="last", block_rows=BLOCK_ROWS, use_threads=None):
        check_number("block_rows", block_rows, low=1, integer=True)
        check_flag("use_threads", use_threads, optional=True)
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(
                'ParquetSource needs pyarrow: python -m pip install ".[parquet]"'
            ) from error
        self._open, self._arrow_error = pyarrow.parquet.ParquetFile, pyarrow.ArrowException
        self.paths = _files(path, ("parquet",))
        self.block_rows = block_rows
        self.label_column = label_column
        self.use_threads = cpu_count() > 2 if use_threads is None else use_threads

    @property
    def feature_names(self):
        """The names of the feature columns, a list."""
        with self._opened(self.paths[0]) as file:
            _, names = _columns_of(file.schema_arrow)
        column = _readers.label_index(self.paths[0], names, self.label_column, True)
        features = [name for k, name in enumerate(names) if k != column]
        return _readers.checked_names(self.paths[0], features)

    def __iter__(self):
        return map(self.block_of, self.raw_blocks())

    def raw_blocks(self):
        """Yield what `block_of` makes blocks of: decoded columns, and what is known of them."""
        first = None
        for path in self.paths:
            with self._opened(path) as file:
                places, names = _columns_of(file.schema_arrow)
                first = first or names
                if names != first:
                    raise ValueError(
                        f"{path}: its columns are {names}, those of {self.paths[0]} {first}"
                    )
                column = _readers.label_index(path, names, self.label_column, True)
                if len(names) == (column is not None):
                    raise ValueError(f"{path}: the file holds no feature columns")
                batches = file.iter_batches(self.block_rows, use_threads=self.use_threads)
                while (batch := self._decoded(path, batches)) is not None:
                    yield path, column, batch.select(places)

    @staticmethod
    def block_of(raw):
        """Return the (X, y) of one of the `raw_blocks`."""
        path, column, batch = raw
        columns = []
        for k, part in enumerate(batch.columns):
            with _naming_column(path, batch.schema.names[k]):
                columns.append(_labels_of(part) if k == column else _numbers_of(part))
        y = None if column is None else columns.pop(column)
        return np.column_stack(columns), y

    def _opened(self, path):
        _readers.check_readable(path)
        with self._naming_damage(path):
            return self._open(path, **_LITTLE_MEMORY)

    def _decoded(self, path, batches):
        """Return the next batch of rows, None at the end."""
        with self._naming_damage(path):
            return next(batches, None)

    @contextlib.contextmanager
    def _naming_damage(self, path):
        """Say in an error of Arrow which file it is about."""
        try:
            yield
        except (self._arrow_error, ValueError, OSError) as error:
            raise ValueError(f"{path}: damaged or not a Parquet file ({error})") from error


@contextlib.contextmanager
def _naming_column(path, name):
    """Say in a ValueError what file and column it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: column {name!r} {error}") from error


def _labels_of(part):
    """Return the labels in an Arrow array: numbers, or text."""
    from pyarrow import types

    if part.null_count:
        raise ValueError("has rows without a label")
    if types.is_dictionary(part.type):
        part = part.dictionary_decode()
    text = "string", "large_string", "string_view", "binary", "large_binary", "binary_view"
    if str(part.type) in text:  # not every version of Arrow knows views
        return part.cast("string").to_numpy(zero_copy_only=False).astype(str)
    return _numbers_of(part, "numbers or text")


def _numbers_of(part, wanted="numbers"):
    """Return the numbers in an Arrow array; those that are missing as NaN."""
    from pyarrow import types

    if types.is_dictionary(part.type):
        part = part.dictionary_decode()
    if types.is_decimal(part.type):
        part = part.cast("float64")
    # missing numbers become NaN, which is found later, missing booleans Python objects
    if part.null_count and (types.is_null(part.type) or types.is_boolean(part.type)):
        raise ValueError(f"has rows without a value, and is of type {part.type}")
    numeric = (types.is_boolean, types.is_integer, types.is_floating)
    if not any(is_numeric(part.type) for is_numeric in numeric):
        raise ValueError(f"does not hold {wanted}: it is of type {part.type}")
    return part.to_numpy(zero_copy_only=False)


def _columns_of(schema):
    """Return places and names of all columns but the index, which pandas writes beside the data."""
    notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}")) or {}
    index = notes.get("index_columns") or []
    places = [k for k, name in enumerate(schema.names) if name not in index]
    return places, [schema.names[k] for k in places]


_FORMATS = {
    "svmlight": SvmlightSource,
    "csv": CSVSource,
    "npy": NpySource,
    "npz": NpzSource,
    "parquet": ParquetSource,
}


def _files(path, endings):
    """Return the files that a name, a folder's name or a list of names stands for."""
    if isinstance(path, (list, tuple)):
        paths = [Path(one) for one in path]
    elif Path(path).is_dir():
        paths = sorted(one for one in Path(path).iterdir() if one.suffix.lower()[1:] in endings)
    else:
        paths = [Path(path)]
    if not paths:
        raise ValueError(f"{path}: no files to read (looked for {', '.join(endings)})")
    for one in paths:
        _readers.check_readable(one)
    return paths


class SourceAround:
    """What a source of another one's blocks passes on besides blocks."""

    def __init__(self, source):
        self.source = source

    @property
    def skipped(self):
        """Malformed lines that the source left out in the present pass."""
        return getattr(self.source, "skipped", 0)

    @property
    def feature_names(self):
        """The names of the source's features, None for none."""
        return getattr(self.source, "feature_names", None)


class ReadAhead(SourceAround):
    """Another source's blocks, read on a thread while the last ones are being used.

    Parameters
    ----------
    source : iterable
        An error that it raises reaches whoever asks for the next block. Of one that has
        `raw_blocks()` the thread reads those; `block_of(raw)` is called when their turn comes.
        Blocks are copied, as their arrays may be filled again, but for those of lists, tuples and
        the other classes here.
    blocks : int, default=2
        How many may wait; one more is being read.
    """

    def __init__(self, source, blocks=2):
        super().__init__(source)
        check_number("blocks", blocks, low=1, integer=True)
        self.blocks = blocks

    def __iter__(self):
        waiting = queue.Queue(self.blocks)
        ended = threading.Event()
        in_two_steps = hasattr(self.source, "raw_blocks")
        source = self.source.raw_blocks() if in_two_steps else lasting_blocks(self.source)
        reader = threading.Thread(
            target=_read, args=(source, waiting, ended), name="sublinear-reader", daemon=True
        )
        reader.start()
        try:
            while True:
                try:
                    what, item = waiting.get(timeout=PATIENCE)
                except queue.Empty:  # Ctrl-C gets its turn
                    continue
                if what == "error":
                    raise item
                if what == "end":
                    return
                yield self.source.block_of(item) if in_two_steps else item
                item = None  # while the next one is awaited, none is held
        finally:
            ended.set()
            reader.join(GOODBYE)


def lasting_blocks(source):
    """Yield the blocks of a source, or copies if it may fill their arrays again."""
    yield from source if type(source) in _LASTING else map(_copied, source)


# Only these: an __iter__ of anyone else, of a subclass too, may be a generator.
_LASTING = (list, tuple, *_FORMATS.values(), ArraySource, ReadAhead)


def _copied(block):
    """Return a block with arrays and lists of its own."""
    if isinstance(block, tuple):
        return tuple(map(_copied_part, block))
    return _copied_part(block)


def _copied_part(part):
    if part is None or isinstance(part, (str, bytes, Number)) or _is_constant(part):
        return part
    if isinstance(part, (list, tuple)):
        return (list if isinstance(part, list) else tuple)(map(_copied_part, part))
    if not (sparse.issparse(part) or hasattr(part, "__array__") or _is_buffer(part)):
        return part
    copy = getattr(part, "copy", None) or getattr(part, "clone", None)  # frames keep their names
    return copy() if copy else np.array(part)


def _is_constant(array):
    """Tell whether nobody writes into an array: neither through it nor through what it shows."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        if array.base is None:
            return True
        array = array.base
    return isinstance(array, (bytes, mmap)) and memoryview(array).readonly


def _is_buffer(part):
    with contextlib.suppress(TypeError):
        return memoryview(part).nbytes >= 0
    return False


def _read(source, waiting, ended):
    """Put ("block", block) for every block, then ("end", None) or ("error", what was raised)."""

    def put(*item):
        while not ended.is_set():
            with contextlib.suppress(queue.Full):
                return waiting.put(item, timeout=PATIENCE)

    try:
        for block in source:
            put("block", block)
            if ended.is_set():
                return
            block = None
        put("end", None)
    except BaseException as error:
        put("error", error)
