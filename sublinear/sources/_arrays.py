"""Rows in memory, rows that a generator makes, and the arrays of .npy and .npz files."""

import os
import weakref
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

from sublinear._core.matrix import check_before_csr
from sublinear._readers import read
from sublinear._readers.files import check_readable
from sublinear._readers.numpy_files import map_npy, read_labels
from sublinear._validation import check_number, column_names
from sublinear.sources._faults import no_rows_in
from sublinear.sources._files import BLOCK_ROWS, files_of

# Of a block of an array: fewer rows cost time in the interpreter. Ctrl-C waits for a block.
LEAST_ROWS, MOST_ROWS = 2**15, 2**17
ENOUGH_VALUES = 2**21


class ArraySource:
    """Rows in memory, or in memory maps, in blocks that share their memory.

    Parameters
    ----------
    X : ndarray, CSR matrix or data frame of shape (n_samples, n_features)
        The rows. Other sparse formats are converted to CSR, a data frame to an array.
    y : array-like of shape (n_samples,), default=None
        None where there is nothing to learn, only to predict.
    sample_weight : array-like of shape (n_samples,), or float, default=None
        Weights of the rows, or one for all; None: blocks have none.
    block_rows : int, default=None
        Rows of a block; the last one may have fewer. None: 32768, or up to 131072 short ones, as
        long as they hold no more than 2^21 values.

    Attributes
    ----------
    feature_names : list of str or None
        Of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.sources import ArraySource
    >>> source = ArraySource(np.ones((5, 2)), np.arange(5), block_rows=2)
    >>> [X.shape for X, y in source]
    [(2, 2), (2, 2), (1, 2)]
    """

    def __init__(self, X, y=None, sample_weight=None, *, block_rows=None):
        check_number("block_rows", block_rows, low=1, integer=True, optional=True)
        self.feature_names = column_names(X)
        check_before_csr(X)
        self.X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if self.X.ndim == 0:
            raise ValueError(f"X must be an array of rows, got {X!r}")
        if sample_weight is not None and np.ndim(sample_weight) == 0:
            sample_weight = np.full(self.X.shape[0], sample_weight)
        columns = [y] if sample_weight is None else [y, sample_weight]
        self.columns = [None if column is None else np.asarray(column) for column in columns]
        self.block_rows = block_rows or rows_of_a_block(self.X)
        for name, column in zip(("y", "sample_weight"), self.columns, strict=False):
            if column is not None and column.shape[:1] != self.X.shape[:1]:
                raise ValueError(
                    f"X has {self.X.shape[0]} rows, but {name} is of shape {column.shape}"
                )

    def __iter__(self):
        return self.blocks_of(self.X, *self.columns)

    def blocks_of(self, X, *columns):
        """Yield the blocks of arrays that take the place of this source's own; None stays None."""
        for start in range(0, self.X.shape[0], self.block_rows):
            stop = min(start + self.block_rows, self.X.shape[0])
            parts = (column if column is None else column[start:stop] for column in columns)
            yield (_rows(X, start, stop), *parts)


def rows_of_a_block(X):
    """Return how many rows of a matrix a block has unless one says."""
    values_of_a_row = (X.nnz if sparse.issparse(X) else X.size) / max(1, X.shape[0])
    return int(np.clip(ENOUGH_VALUES / max(1.0, values_of_a_row), LEAST_ROWS, MOST_ROWS))


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
        Returns an iterator of (X, y) or (X, y, sample_weight), with the same rows in the same
        order at every call: one that shuffles needs a fixed seed. It may fill the same arrays
        again: reading ahead copies blocks.

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


class NpySource:
    """A dense matrix in a .npy file, every block a memory map of its own.

    What has been read does not count as this process's memory once its block is gone. A file in
    Fortran order is mapped as a whole. While a fit reads it the file must not be written to, by
    `numpy.save` for one, which ends the process: write a new one beside it, and rename that.

    Parameters
    ----------
    path : str or path-like
        The file.
    labels : str, path-like or array-like, default=None
        A .npy file, or the array. None where there is nothing to learn, only to predict.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows; None: blocks have none.
    block_rows : int, default=8192
        Rows of a block; the last one may have fewer. None: the default.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sublinear.sources import NpySource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "X.npy"
    ...     np.save(path, np.ones((5, 2)))
    ...     [X.shape for X, y in NpySource(path, labels=np.arange(5), block_rows=2)]
    [(2, 2), (2, 2), (1, 2)]
    """

    def __init__(self, path, labels=None, sample_weight=None, *, block_rows=BLOCK_ROWS):
        path = Path(path)
        check_readable(path)
        check_number("block_rows", block_rows, low=1, integer=True, optional=True)
        self._given = path, labels, sample_weight
        if isinstance(labels, (str, os.PathLike)):
            labels = read_labels(labels)
        self._map, self.present = map_npy(path), path
        self._file = path.open("rb")  # blocks are of this file, whatever has its name by then
        weakref.finalize(self, self._file.close)
        self.why_empty = no_rows_in([path])
        block_rows = BLOCK_ROWS if block_rows is None else block_rows
        try:
            self._whole = ArraySource(self._map, labels, sample_weight, block_rows=block_rows)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def __reduce__(self):
        """Pickle the names of the files; whoever unpickles it maps them again."""
        return partial(type(self), block_rows=self._whole.block_rows), self._given

    def __iter__(self):
        whole = self._map
        if not whole.flags.c_contiguous:
            yield from self._whole
            return
        offset = whole.offset
        for X, *columns in self._whole:
            yield (
                np.memmap(self._file, whole.dtype, "r", offset, X.shape) if X.size else X,
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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sublinear.sources import NpzSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(2):
    ...         np.savez(Path(folder) / f"part{k}.npz", X=np.ones((3, 2)), y=np.arange(3))
    ...     [X.shape for X, y in NpzSource(folder)]
    [(3, 2), (3, 2)]
    """

    def __init__(self, path, *, labels=None, block_rows=None):
        check_number("block_rows", block_rows, low=1, integer=True, optional=True)
        self.paths = files_of(path, ("npz",))
        if labels is not None and len(self.paths) > 1:
            raise ValueError(f"{path}: each of {len(self.paths)} shards needs labels y of its own")
        self.labels, self.block_rows = labels, block_rows
        self.present, self.why_empty = None, no_rows_in(self.paths)

    def __iter__(self):
        for path in self.paths:
            self.present = path
            X, y, *_ = read(path, format="npz", may_be_empty=True, labels=self.labels)
            if X.shape[0] > 0:
                yield from ArraySource(X, y, block_rows=self.block_rows or X.shape[0])
