"""What a reader returns: rows, labels, and what only some files have."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

LARGEST_FLOAT = 2**53  # up to here floats hold all whole numbers


class Dataset(NamedTuple):
    """Rows, labels, and what only some files have: None where this one has none."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray | None
    index_base: int | None = None  # the first index of svmlight text
    feature_names: list | None = None
    sample_weight: np.ndarray | None = None  # of a table with a column of weights


def whole_numbers_as_integers(y):
    """Turn labels 1.0 and -1.0 into 1 and -1, so that predictions print as the file has them."""
    if y.dtype.kind == "f" and np.all(np.abs(y) < LARGEST_FLOAT) and np.all(y == np.floor(y)):
        return y.astype(np.int64)
    return y
