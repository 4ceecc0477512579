"""Numbers in plain CSV by Arrow, which takes a sixth of NumPy's time, where it is installed.

What Arrow takes for a number, NumPy takes for the same one, to the last bit. What Arrow refuses is
left to NumPy, to read or to refuse.
"""

import codecs
import sys

import numpy as np

WORTH_IMPORT = 2**20  # bytes, which NumPy reads in the time that the import takes
WORTH_CALL = 2**15  # likewise, once it is imported
WORTH_COLUMN = 2**10  # bytes of a column in a call, likewise
MOST_AT_ONCE = 2**24  # bytes; blocks of a source may be larger than Arrow's


def is_worthwhile(n_bytes, n_columns):
    """Tell whether text is long enough for Arrow to save time."""
    least = WORTH_CALL if "pyarrow.csv" in sys.modules else WORTH_IMPORT
    return n_bytes >= max(least, WORTH_COLUMN * n_columns)


def _arrow():
    """Return pyarrow, None where it is not installed."""
    try:
        import pyarrow.csv
    except ImportError:
        return None
    return pyarrow


def plain_table(text, n_columns, label, code_of):
    """Return the numbers in some lines, of shape (n_rows, n_columns); None if Arrow has none.

    Parameters
    ----------
    text : bytes
    n_columns : int
    label : int or None
        The column of labels that are text.
    code_of : callable
        Returns what takes the place of a label. It is called for each label once, in the order in
        which they come, and may raise ValueError.
    """
    pyarrow = _arrow() if _is_plain(text) else None
    if pyarrow is None:
        return None
    csv, names = pyarrow.csv, [str(k) for k in range(n_columns)]
    types = dict.fromkeys(names, pyarrow.float64())
    if label is not None:
        types[names[label]] = pyarrow.string()
    try:
        columns = csv.read_csv(
            pyarrow.BufferReader(text),
            csv.ReadOptions(
                use_threads=False, block_size=min(len(text), MOST_AT_ONCE), column_names=names
            ),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types=types, null_values=[]),
        ).columns
    except pyarrow.ArrowException:
        return None
    table = np.empty((len(columns[0]), n_columns))
    for k, column in enumerate(columns):
        table[:, k] = _codes(column, code_of) if k == label else column
    return table


def _is_plain(text):
    """Tell whether there are no quotes, nor what Arrow takes for a line's end, or for a mark."""
    if b'"' in text or text.startswith(codecs.BOM_UTF8):
        return False
    return b"\r" not in text or text.count(b"\r") == text.count(b"\r\n")


def _codes(column, code_of):
    encoded = column.combine_chunks().dictionary_encode()
    codes = np.array([code_of(text) for text in encoded.dictionary.to_pylist()])
    return codes[encoded.indices.to_numpy()]
