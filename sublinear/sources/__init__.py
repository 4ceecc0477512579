"""Sources: data as a run of row blocks, for fits over more rows than memory holds.

A source is any iterable of blocks (X, y) or (X, y, sample_weight). One that can be iterated again
from its beginning serves methods that need several passes; a generator serves one pass. The
classes here can all be iterated again. Whatever they read, they hold one block at a time.
"""

import numpy as np

from sublinear._labels import distinct_plain, join_labels
from sublinear._readers.dataset import whole_numbers_as_integers
from sublinear._readers.files import check_options, format_of
from sublinear._validation import check_choice
from sublinear.sources._arrays import ArraySource, GeneratorSource, NpySource, NpzSource
from sublinear.sources._faults import NO_LABELS, nothing_in
from sublinear.sources._files import SHARDS, files_of
from sublinear.sources._parquet import ParquetSource
from sublinear.sources._read_ahead import ReadAhead
from sublinear.sources._text import CSVSource, SvmlightSource

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

_FORMATS = {
    "svmlight": SvmlightSource,
    "csv": CSVSource,
    "npy": NpySource,
    "npz": NpzSource,
    "parquet": ParquetSource,
}


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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sublinear.sources import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("1,2,a\\n3,4,b\\n")
    ...     [(X.tolist(), y.tolist()) for X, y in open_source(path)]
    [([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])]
    """
    if format is None:
        paths = files_of(path, SHARDS)
        formats = sorted({format_of(one) for one in paths})
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
    check_options(path, format, kind, options)
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

    Examples
    --------
    >>> from sublinear.sources import distinct_labels
    >>> distinct_labels([([[1.0], [2.0]], ["b", "a"]), ([[3.0]], ["c"])]).tolist()
    ['a', 'b', 'c']
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
        raise nothing_in(source)
    return whole_numbers_as_integers(labels)
