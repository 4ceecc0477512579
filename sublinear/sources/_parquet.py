"""Columns of numbers in Parquet files, decoded by Arrow."""

import contextlib
import json

import numpy as np
from joblib import cpu_count

from sublinear._readers.columns import checked_names, label_index
from sublinear._readers.files import check_readable
from sublinear._validation import check_flag, check_number
from sublinear.sources._faults import no_rows_in
from sublinear.sources._files import BLOCK_ROWS, files_of

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

    Examples
    --------
    >>> from sublinear import SDCAClassifier
    >>> from sublinear.sources import ParquetSource
    >>> source = ParquetSource("clicks/", label_column="clicked")  # doctest: +SKIP
    >>> model = SDCAClassifier().fit_stream(source)  # doctest: +SKIP
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
        self.paths = files_of(path, ("parquet",))
        self.block_rows = block_rows
        self.label_column, self.present = label_column, None
        self.why_empty = no_rows_in(self.paths)
        self.use_threads = cpu_count() > 2 if use_threads is None else use_threads

    @property
    def feature_names(self):
        """The names of the feature columns, a list."""
        with self._opened(self.paths[0]) as file:
            _, names = _columns_of(file.schema_arrow)
        column = label_index(self.paths[0], names, self.label_column, True)
        features = [name for k, name in enumerate(names) if k != column]
        return checked_names(self.paths[0], features)

    def __iter__(self):
        return map(self.block_of, self.raw_blocks())

    def raw_blocks(self):
        """Yield what `block_of` makes blocks of: decoded columns, and what is known of them."""
        first = None
        for path in self.paths:
            self.present = path
            with self._opened(path) as file:
                places, names = _columns_of(file.schema_arrow)
                first = first or names
                if names != first:
                    raise ValueError(
                        f"{path}: its columns are {names}, those of {self.paths[0]} {first}"
                    )
                column = label_index(path, names, self.label_column, True)
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
        check_readable(path)
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
        labels = part.cast("string").to_numpy(zero_copy_only=False)
        if any("\0" in label for label in labels):  # NumPy drops them at the end of a text
            raise ValueError("has a label with a NUL")
        return labels.astype(str)
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
