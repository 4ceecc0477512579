"""LIBSVM / svmlight text, and the search for the line that its parser stumbled over."""

import re

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from sublinear._readers.dataset import LARGEST_FLOAT, Dataset
from sublinear._readers.fields import is_finite_to_python, shown
from sublinear._readers.files import chunks_of_lines, decompressed, open_behind_mark

_CHUNK_BYTES = 2**20
# What the parser understands, and no other reader: 1_0 as 10, a zero byte as the end of the line.
_ODD = re.compile(rb"^[^#\n]*[_\0]", re.MULTILINE)
_LARGEST_INDEX = 2**31 - 2  # the svmlight parser counts columns in a C int


@decompressed
def read_svmlight(path, index_base=None, n_features=None):
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
    with open_behind_mark(path) as stream:
        is_odd = any(map(has_odd_bytes, chunks_of_lines(stream, _CHUNK_BYTES)))
    with open_behind_mark(path) as stream:
        is_odd = is_odd or has_rounded_label(y, stream)
    if is_odd:
        raise ValueError(f"{path}{_svmlight_fault(path, base, n_features)}")
    index = np.int32 if X.nnz < 2**31 else np.int64
    parts = (X.data, (X.indices - base).astype(index), X.indptr.astype(index))
    X = sparse.csr_array(parts, shape=(X.shape[0], n_features))
    return Dataset(X, y, base)


def check_index_base(index_base):
    if index_base not in (None, 0, 1):
        raise ValueError(f"index_base must be 0, 1 or None, got {index_base!r}")


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


def has_odd_bytes(lines):
    """Tell whether lines, bytes, hold underscores or zero bytes that are in no comment."""
    return (b"_" in lines or b"\0" in lines) and _ODD.search(lines) is not None


def has_rounded_label(y, lines):
    """Tell whether labels are written as whole numbers that floats, y, do not hold."""
    if np.abs(y).max(initial=0) < LARGEST_FLOAT:
        return False
    labels = (line.partition(b"#")[0].split(None, 1)[:1] for line in lines)
    return any(_is_rounded(*label) for label in labels if label)


def _is_rounded(label):
    try:
        return int(label) != float(label)
    except ValueError:
        return False


def _svmlight_fault(path, index_base, n_features=None):
    """Return ', line 3: what is wrong' for the first line that is not svmlight text."""
    with open_behind_mark(path) as stream:
        for number, line in enumerate(stream, start=1):
            fault = svmlight_line_fault(line, index_base or 0, n_features)
            if fault:
                return f", line {number}: {fault}"
    return ""


def svmlight_line_fault(line, index_base, n_features=None):
    """Return what is wrong with a line, None if nothing is; n_features limits the indices.

    A line is bytes, as for the parser: text has spaces and digits that it does not know.
    """
    label, *entries = line.partition(b"#")[0].split() or [b"0"]
    if not _is_finite_number(label):
        return f"label {shown(label)} is not a finite number{_other_format(label)}"
    if _is_rounded(label):
        return (
            f"label {shown(label)} is a whole number that floats do not hold: number classes from "
            "0, or give them in CSV; write a target as 1.5e17"
        )
    if entries and entries[0].startswith(b"qid:"):
        query, *entries = entries
        if has_odd_bytes(query):
            return f"{shown(query)} holds an underscore or a zero byte"
    previous = index_base - 1
    for entry in entries:
        written, _, value = entry.partition(b":")
        index = _index_of(written)
        if index < 0 or not _is_finite_number(value):
            return f"{shown(entry)} is not index:value with a finite value"
        if index > _LARGEST_INDEX:
            return f"index {shown(written)} is too large"
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


def _other_format(label):
    """Return a hint, in brackets, if what should be a label is of a file in another format."""
    name = "Parquet" if label.startswith(b"PAR1") else "CSV" if b"," in label else ""
    hint = f" (read as svmlight text; if this is {name}, give the format {name.lower()})"
    return hint if name else ""


def _is_finite_number(written):
    return b"_" not in written and is_finite_to_python(written)


def _index_of(written):
    """Return the index that is written, -1 if none is."""
    try:
        return max(int(written), -1) if b"_" not in written else -1
    except ValueError:
        return -1
