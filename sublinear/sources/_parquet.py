"""Columns of numbers in Parquet files, decoded by Arrow."""

import contextlib
import json
from functools import partial

import numpy as np
from joblib import cpu_count

from sublinear._readers.columns import checked_names, special_columns
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
    weight_column : int, str or None, default=None
        Where the weights of the rows are, in the same words: no feature, but the `sample_weight` of
        the blocks, which then are (X, y, sample_weight). None: there are no weights.
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

    def __init__(
        self,
        path,
        *,
        label_column="last",
        weight_column=None,
        block_rows=BLOCK_ROWS,
        use_threads=None,
    ):
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
        self.label_column, self.weight_column = label_column, weight_column
        self.present = None
        self.why_empty = no_rows_in(self.paths)
        self.use_threads = cpu_count() > 2 if use_threads is None else use_threads

    @property
    def feature_names(self):
        """The names of the feature columns, a list."""
        with self._opened(self.paths[0]) as file:
            _, names = _columns_of(file.schema_arrow)
        special = self._special(self.paths[0], names)
        return checked_names(self.paths[0], special.features_of(names))

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
                special = self._special(path, names)
                if len(names) == special.count:
                    raise ValueError(f"{path}: the file holds no feature columns")
                batches, start = file.iter_batches(self.block_rows, use_threads=self.use_threads), 0
                while (batch := self._decoded(path, batches)) is not None:
                    yield path, special, start, batch.select(places)
                    start += batch.num_rows

    def _special(self, path, names):
        return special_columns(path, names, self.label_column, self.weight_column, True)

    @staticmethod
    def block_of(raw):
        """Return the (X, y), or (X, y, sample_weight), of one of the `raw_blocks`."""
        path, special, start, batch = raw
        kinds = {special.label: _labels_of, special.weight: partial(_weights_of, start)}
        columns = []
        for k, part in enumerate(batch.columns):
            with _naming_column(path, batch.schema.names[k]):
                columns.append(kinds.get(k, _numbers_of)(part))
        y, weights = (None if place is None else columns[place] for place in special)
        X = np.column_stack(special.features_of(columns))
        return (X, y) if weights is None else (X, y, weights)

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


def _weights_of(start, part):
    """Return the weights in an Arrow array, whose first row is that of number `start`."""
    weights = _numbers_of(part)
    unfit = ~((weights >= 0) & np.isfinite(weights))  # also where they are missing
    if unfit.any():
        row = int(np.argmax(unfit))
        raise ValueError(
            f"has a weight that is negative or not finite, {weights[row]} in row {start + row} "
            "(the first one is row 0)"
        )
    return weights


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
