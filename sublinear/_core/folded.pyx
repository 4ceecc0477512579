"""Folding: sparse rows over fewer columns, with the same inner products.

Text has most of its columns in few rows. A column with a single entry matters to no other row: all
such entries of a row act like one, their norm, in a column of its own. The columns that are shared
are put in the order of how many entries they have, so that weights which are used often lie
together. A method that sees rows through their inner products, and whose w is a combination of
them, takes the same steps on the folded rows, in less time: w is several times shorter.

Shared columns of even and of odd rank lie apart: two threads that have half of the columns each
then have as much to do.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

from sublinear._core.line cimport index_t, real_t
from sublinear._core.portable cimport prefetch

from sublinear._core.packed import can_pack

cdef enum:
    COUNTED = 255                # entries of a column, at the most
    ENTRIES_PER_CALL = 1 << 22   # between two looks at pending signals
    ROWS_PER_CALL = 1 << 16
    AHEAD = 64                   # entries whose places are asked for

FEW_COLUMNS = 1 << 16     # their weights are in the cache as they are
LEAST_FOLD = 2            # w has to become so many times shorter

# A sum of squares that keeps its precision.
cdef double LEAST_SQUARE = 1e-250
cdef double LARGEST_SQUARE = 1e250


def fold(Matrix matrix, n_threads=1):
    """Return the Folding of a matrix, or None where there is little to gain.

    It pays for several fits where w is long and gets at least twice shorter. The copy takes 12
    bytes for each entry that is kept and one for each stored entry; no more is spent than 10 for
    each stored entry and 16 for each column.
    """
    if matrix.n_columns < FEW_COLUMNS or matrix.n_stored == 0 or not can_pack(matrix):
        return None
    counts = column_counts(matrix)
    of_each_count = histogram(counts)
    n_folded = of_each_count[2:].sum() + matrix.n_rows
    n_kept = matrix.n_stored - of_each_count[1] + min(of_each_count[1], matrix.n_rows)
    bytes_needed = 12 * n_kept + matrix.n_stored + 8 * n_folded + 4 * matrix.n_columns
    bytes_allowed = 10 * matrix.n_stored + 16 * matrix.n_columns
    if (
        LEAST_FOLD * n_folded > matrix.n_columns
        or bytes_needed > bytes_allowed
        or n_kept >= 2**31
    ):
        return None
    try:
        return Folding(matrix, counts, of_each_count, n_threads)
    except OverflowError:
        return None


def column_counts(Matrix matrix):
    """Return how many entries every column has, at most COUNTED (uint8)."""
    result = np.zeros(matrix.n_columns, dtype=np.uint8)
    cdef uint8_t[::1] counts = result
    cdef Py_ssize_t first
    indices = matrix.arrays[1]
    for first in range(0, matrix.n_stored, ENTRIES_PER_CALL):
        part = indices[first:min(matrix.n_stored, first + ENTRIES_PER_CALL)]
        if indices.dtype == np.int32:
            count_entries[int32_t](part, &counts[0])
        else:
            count_entries[int64_t](part, &counts[0])
        PyErr_CheckSignals()
    return result


cdef void count_entries(const index_t[::1] columns, uint8_t* counts) noexcept nogil:
    cdef const index_t* column = &columns[0]
    cdef Py_ssize_t n = columns.shape[0], k
    for k in range(n):
        counts[column[k]] += counts[column[k]] < COUNTED


def histogram(const uint8_t[::1] counts):
    """Return how many columns have each count (int64)."""
    result = np.zeros((2, COUNTED + 1), dtype=np.int64)    # neighbours are often equal
    cdef int64_t[:, ::1] columns = result
    cdef Py_ssize_t j
    with nogil:
        for j in range(counts.shape[0]):
            columns[j % 2, counts[j]] += 1
    return result.sum(axis=0)


cdef class Folding:
    """Folded rows of a sparse matrix, and the way between its columns and theirs.

    Parameters
    ----------
    source : Matrix
        Sparse.
    counts : ndarray of shape (n_columns,), uint8
        See `column_counts`.
    of_each_count : ndarray of shape (256,), int64
        How many columns have it.
    n_threads : int, default=1

    Attributes
    ----------
    matrix : Matrix
        The folded rows, float64; see `Matrix.of_canonical` for the order of their entries.

    Raises
    ------
    OverflowError
        If squares of entries leave the range of floating-point numbers.
    """

    def __init__(self, Matrix source, const uint8_t[::1] counts, of_each_count, int n_threads=1):
        cdef Py_ssize_t n = source.n_rows
        self.source = source
        self.n_threads = n_threads
        self.n_shared = of_each_count[2:].sum()
        self._place_columns(counts, of_each_count)
        self.alone = np.empty(source.n_stored, dtype=np.uint8)
        self.norms = np.empty(n)
        offsets = np.zeros(n + 1, dtype=np.int32)
        find_alone(*source.arrays, counts, self.alone, offsets, n_threads)
        values, indices = np.empty(offsets[n]), np.empty(offsets[n], dtype=np.int32)
        middle = (self.n_shared + 1) // 2
        if not fold_rows(
            *source.arrays, self.place, middle, self.n_shared, offsets, values, indices,
            self.norms, n_threads
        ):
            raise OverflowError("squares of X leave the range of floating-point numbers")
        self.matrix = Matrix.of_canonical(
            values, indices, offsets, self.n_shared + n, source.constant, middle=middle)

    def _place_columns(self, const uint8_t[::1] counts, of_each_count):
        """Sort the shared columns by their counts; even ranks first, then odd ones."""
        cdef int32_t[::1] place = np.empty(counts.shape[0], dtype=np.int32)
        cdef Py_ssize_t next_rank[COUNTED + 1]
        cdef Py_ssize_t n_even = (self.n_shared + 1) // 2, rank = 0, j
        cdef int c
        for c in range(COUNTED, -1, -1):
            next_rank[c] = rank
            rank += of_each_count[c]
        with nogil:
            for j in range(counts.shape[0]):
                c = counts[j]
                place[j] = -1
                if c > 1:
                    rank = next_rank[c]
                    next_rank[c] += 1
                    place[j] = <int32_t> (rank // 2 + (rank % 2) * n_even)
        self.place = place

    def expand(self, const double[::1] folded):
        """Return the weights of the source's columns that act like those of the folded ones.

        Parameters
        ----------
        folded : ndarray of shape (matrix.n_weights,), float64

        Returns
        -------
        w : ndarray of shape (source.n_weights,), float64
        """
        result = np.empty(self.source.n_weights)
        cdef double[::1] w = result
        cdef Py_ssize_t j
        for j in prange(
            self.place.shape[0], nogil=True, schedule="static", num_threads=self.n_threads
        ):
            w[j] = folded[self.place[j]] if self.place[j] >= 0 else 0
        private = np.asarray(folded)[self.n_shared:self.matrix.n_columns]
        factors = np.divide(private, self.norms, out=np.zeros_like(self.norms), where=private != 0)
        expand_rows(*self.source.arrays, self.alone, factors, w, self.n_threads)
        if self.source.constant != 0:
            w[self.source.n_columns] = folded[self.matrix.n_columns]
        return result

    def contract(self, const double[::1] w):
        """Return the folded weights that act on the rows like `w`.

        Parameters
        ----------
        w : ndarray of shape (source.n_weights,), float64

        Returns
        -------
        folded : ndarray of shape (matrix.n_weights,), float64
        """
        result = np.zeros(self.matrix.n_weights)
        cdef double[::1] folded = result
        cdef Py_ssize_t j
        with nogil:
            for j in range(self.place.shape[0]):
                if self.place[j] >= 0:
                    folded[self.place[j]] = w[j]
        private = result[self.n_shared:self.matrix.n_columns]
        contract_rows(*self.source.arrays, self.alone, w, private)
        np.divide(private, self.norms, out=private, where=self.norms != 0)
        if self.source.constant != 0:
            folded[self.matrix.n_columns] = w[self.source.n_columns]
        return result


# What walks through the entries of the source, for every type of values and indices.

def find_alone(
    const real_t[::1] data, const index_t[::1] columns, const index_t[::1] offsets,
    const uint8_t[::1] counts, uint8_t[::1] alone, int32_t[::1] folded_offsets, int n_threads
):
    """Mark the entries that are the only ones of their columns; set where folded rows begin."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    for i in prange(n, nogil=True, schedule="static", num_threads=n_threads):
        folded_offsets[i + 1] = folded_size(
            &columns[0], offsets[i], offsets[i + 1], columns.shape[0] - 1, &counts[0], &alone[0])
    np.cumsum(folded_offsets, out=np.asarray(folded_offsets))
    PyErr_CheckSignals()


cdef int32_t folded_size(
    const index_t* columns, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t last,
    const uint8_t* counts, uint8_t* alone
) noexcept nogil:
    cdef Py_ssize_t k, n_alone = 0
    for k in range(start, stop):
        prefetch(&counts[columns[min(k + AHEAD, last)]])
        alone[k] = counts[columns[k]] == 1
        n_alone += alone[k]
    return <int32_t> (stop - start - n_alone + (n_alone > 0))


def fold_rows(
    const real_t[::1] data, const index_t[::1] columns, const index_t[::1] offsets,
    const int32_t[::1] place, Py_ssize_t middle, Py_ssize_t n_shared,
    const int32_t[::1] folded_offsets, double[::1] values, int32_t[::1] indices,
    double[::1] norms, int n_threads
):
    """Fill values, indices and norms; returns False if a norm would lose its precision."""
    cdef Py_ssize_t n = norms.shape[0], n_lost = 0, first, last, i
    for first in range(0, n, ROWS_PER_CALL):
        last = min(n, first + ROWS_PER_CALL)
        for i in prange(first, last, nogil=True, schedule="static", num_threads=n_threads):
            n_lost += fold_row(
                &data[0], &columns[0], offsets[i], offsets[i + 1], columns.shape[0] - 1, &place[0],
                middle, n_shared + i, folded_offsets[i], folded_offsets[i + 1], &values[0],
                &indices[0], &norms[i])
        PyErr_CheckSignals()
    return n_lost == 0


cdef bint fold_row(
    const real_t* data, const index_t* columns, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t last,
    const int32_t* place, Py_ssize_t middle, Py_ssize_t own_column, Py_ssize_t front,
    Py_ssize_t back, double* values, int32_t* indices, double* norm
) noexcept nogil:
    """Entries before the middle go to the front, others to the back, the norm of the rest between.

    Returns True if that would lose its precision. As long as entries are left, there is a place
    which is free, so that no branch is needed.
    """
    cdef Py_ssize_t k
    cdef double value, size = 0, square = 0
    cdef int32_t column
    back -= 1
    for k in range(start, stop):
        prefetch(&place[columns[min(k + AHEAD, last)]])
        value, column = data[k], place[columns[k]]
        values[front] = values[back] = value
        indices[front] = indices[back] = column
        front += (column >= 0) & (column < middle)
        back -= column >= middle
        value *= column < 0
        size += fabs(value)
        square += value * value
    norm[0] = sqrt(square)
    if front == back:
        values[front] = norm[0]
        indices[front] = <int32_t> own_column
    return size > 0 and not LEAST_SQUARE <= square <= LARGEST_SQUARE


def expand_rows(
    const real_t[::1] data, const index_t[::1] columns, const index_t[::1] offsets,
    const uint8_t[::1] alone, const double[::1] factors, double[::1] w, int n_threads
):
    """w_j = factors[i] x_ij for the folded entries."""
    cdef Py_ssize_t i, k
    for i in prange(factors.shape[0], nogil=True, schedule="static", num_threads=n_threads):
        if factors[i] != 0:
            for k in range(offsets[i], offsets[i + 1]):
                if alone[k]:
                    w[columns[k]] = factors[i] * data[k]


def contract_rows(
    const real_t[::1] data, const index_t[::1] columns, const index_t[::1] offsets,
    const uint8_t[::1] alone, const double[::1] w, double[::1] sums
):
    """sums[i] = the sum of w_j x_ij over the folded entries."""
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(sums.shape[0]):
            for k in range(offsets[i], offsets[i + 1]):
                if alone[k]:
                    sums[i] += w[columns[k]] * data[k]
