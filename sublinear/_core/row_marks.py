"""Marks by which a pass over a stream tells whether its rows are those of the first pass.

A mark is made of checksums of a few rows, their labels and their weights. It is compared with that
of the first pass where a block of that ended. Rows are taken by their numbers in the stream, so
blocks may be cut otherwise; float32 and float64 that hold the same values have the same mark.
"""

import zlib

import numpy as np
import scipy.sparse as sp

from sublinear._core.matrix import csr_structure

MOST_ROWS = 8  # of a block, to be looked at
MOST_VALUES = 2**10  # of these rows together, or there are fewer; of longer dense rows, every k-th
LEAST_STRIDE = 8  # of rows, however few a block has
MOST_MARKS = 32  # an even number: so the last one stays where every second one goes
NOTHING = b""
SAME = (
    "a source must yield the same rows in the same order in every pass: shuffle them once, before "
    "the fit, or give the generator a fixed seed"
)


class RowMarks:
    """The marks of a pass.

    Parameters
    ----------
    first : RowMarks, default=None
        Of the first pass, which has ended. None: this is the first pass.

    Attributes
    ----------
    n_rows : int
        Seen so far.
    mark : list of int
        Of these: checksums of values, columns of sparse rows, labels and weights.
    marks : dict of int to list
        In the first pass, the mark by the number of rows at the ends of blocks. Of many blocks only
        some of the earlier ones are kept: memory does not grow with the stream.
    """

    def __init__(self, first=None):
        self.first, self.n_rows, self.mark, self.marks = first, 0, [0, 0, 0, 0], {}
        self.stride = first and first.stride

    def add(self, X, y, weights):
        """Take a block; raise ValueError if the rows so far are not those of the first pass.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
        y : ndarray of shape (n_rows,)
        weights : ndarray of shape (n_rows,), or None
        """
        self.stride = self.stride or stride_for(X)
        start, n_rows = -self.n_rows % self.stride, len(y)
        if start < n_rows:
            parts = _parts(X, y, weights, slice(start, None, self.stride))
            # a list: the interpreter would keep two thousand tuples that came from an iterator
            self.mark = [zlib.crc32(*pair) for pair in zip(parts, self.mark, strict=True)]
        self.n_rows += n_rows
        if self.first is None:
            self._keep()
        else:
            self._compare()

    def end(self):
        """End the pass; raise ValueError if it has fewer rows than the first."""
        if self.first is not None and self.n_rows < self.first.n_rows:
            raise ValueError(self._other_length())

    def _keep(self):
        self.marks[self.n_rows] = self.mark
        if len(self.marks) == MOST_MARKS:
            self.marks = dict(list(self.marks.items())[1::2])

    def _compare(self):
        if self.n_rows > self.first.n_rows:
            raise ValueError(self._other_length(" or more"))
        if self.first.marks.get(self.n_rows, self.mark) != self.mark:
            raise ValueError(f"these rows, or some before, are not those of the first pass; {SAME}")

    def _other_length(self, more=""):
        return (
            f"there are {self.n_rows} rows{more} in this pass and {self.first.n_rows} in the first "
            f"one; {SAME}"
        )


def stride_for(X):
    """Return how far apart the rows are that are looked at, where blocks are like X."""
    n_rows, n_stored = X.shape[0], X.nnz if sp.issparse(X) else X.size
    wanted = MOST_VALUES * n_rows // max(1, n_stored)
    return max(LEAST_STRIDE, n_rows // min(max(wanted, 1), MOST_ROWS))


def _parts(X, y, weights, rows):
    """Return the values, columns, labels and weights of some rows, in types that all share."""
    if sp.issparse(X):
        values, columns = _entries(X, rows)
    else:
        step = 1 + X.shape[1] // MOST_VALUES
        values, columns = X[rows, ::step].astype(np.float64, order="C"), NOTHING
    labels = _numbers(y[rows])
    # the same rows may lie in a block whose weights are all 1 and in one of others
    weights = np.ones(len(labels)) if weights is None else _numbers(weights[rows])
    return values, columns, labels, weights


def _entries(X, rows):
    """Return the values and columns of some rows of a CSR matrix, which slices slowly."""
    starts, ends = X.indptr[:-1][rows], X.indptr[1:][rows]
    sizes = ends - starts
    try:
        places = np.repeat(ends - sizes.cumsum(), sizes)
        places += np.arange(len(places), dtype=places.dtype)
        return X.data[places].astype(np.float64), X.indices[places].astype(np.int64)
    except (IndexError, ValueError, MemoryError):
        csr_structure(X)  # says that row pointers are out of range
        raise


def _numbers(y):
    """Return labels or weights as float64, in an array of their own, and text as hashes."""
    if y.dtype.kind in "biuf":
        return y.astype(np.float64)
    return np.array([hash(label) for label in y.tolist()], dtype=np.int64)
