"""PackedRows: a copy of sparse rows in which all that a dual step reads of an example is together.

One record per row: its Record, its values (float32), its column indices (int32). A step in random
order then waits for one place in memory instead of five. Costs 8 bytes per stored entry and 32 per
row. Values that float32 cannot hold are rounded; `exact` tells whether there were any, and
certificates are computed from the matrix itself.

Short rows over few columns, none much longer than the others, are copied without a Record, to
entries of equal length that fill cache lines: values (float32), column indices (uint8) and, in the
last byte, their number, where that takes no more memory than records do. No offset says where a
row is, so it can be asked for so early that random order costs hardly more than that of memory.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
cimport numpy as cnp

import numpy as np

from sublinear._core.line cimport (
    CACHE_LINE, PACKED, PACKED_SHORT, RECORD_HEADER, SPARSE_FLOAT32_INT32,
    SPARSE_FLOAT64_INT32, SPARSE_FLOAT64_INT64, Line, Lines, index_t, line_at, line_size, real_t,
)
from sublinear._core.matrix cimport Matrix

from sublinear._core.aligned import aligned

cnp.import_array()

assert sizeof(Record) == RECORD_HEADER

cdef enum:
    SHORT_COLUMNS = 1 << 8       # as many as a byte tells apart
    SHORT_ROW = 50               # entries: they and their number take four cache lines


# What becomes of values in float32: LOST ones are beyond its range, or below it.
cdef enum:
    EXACT
    ROUNDED
    LOST

cdef double RELATIVE_ROUNDING = 2.0**-24


ctypedef fused packed_index_t:
    int32_t
    uint8_t


cdef inline int round_entries(
    const real_t* values, const index_t* indices, Py_ssize_t size, float* to_values,
    packed_index_t* to_indices
) noexcept nogil:
    """Copy a line's entries; tells what became of the values."""
    cdef Py_ssize_t k
    cdef int fate = EXACT
    cdef double error
    for k in range(size):
        to_values[k] = <float> values[k]
        to_indices[k] = <packed_index_t> indices[k]
        error = fabs(to_values[k] - values[k])
        if not error == 0:
            fate = max(fate, ROUNDED if error <= RELATIVE_ROUNDING * fabs(values[k]) else LOST)
    return fate


cdef inline int round_line(
    const Line* x, float* values, packed_index_t* indices
) noexcept nogil:
    if x.storage == SPARSE_FLOAT64_INT32:
        return round_entries(
            <const double*> x.values, <const int32_t*> x.indices, x.size, values, indices)
    if x.storage == SPARSE_FLOAT32_INT32:
        return round_entries(
            <const float*> x.values, <const int32_t*> x.indices, x.size, values, indices)
    if x.storage == SPARSE_FLOAT64_INT64:
        return round_entries(
            <const double*> x.values, <const int64_t*> x.indices, x.size, values, indices)
    return round_entries(
        <const float*> x.values, <const int64_t*> x.indices, x.size, values, indices)


def short_row_bytes(Matrix matrix):
    """Return the bytes of a short row, a whole number of cache lines; 0 if rows are none."""
    longest = matrix.longest_row
    if matrix.n_columns > SHORT_COLUMNS or longest > SHORT_ROW:
        return 0
    size = -(-(5 * longest + 1) // CACHE_LINE) * CACHE_LINE
    return size if matrix.n_rows * size <= 8 * matrix.n_stored + 32 * matrix.n_rows else 0


cdef class PackedRows:
    """Packed copies of the rows of a sparse matrix; Records are zero but for the targets.

    Parameters
    ----------
    matrix : Matrix
        Sparse, with fewer than 2**31 columns.
    targets : ndarray of shape (n_rows,), float64
    n_threads : int, default=1

    Attributes
    ----------
    exact : bool
        True if no value was rounded.

    Raises
    ------
    ValueError
        If a value is beyond or below the range of float32.
    """

    def __cinit__(self, Matrix matrix, const double[::1] targets, int n_threads=1):
        cdef Py_ssize_t n = matrix.n_rows, i
        cdef Py_ssize_t step = matrix.rows_per_call(), first, last, n_rounded = 0, n_lost = 0
        cdef int fate
        if not matrix.is_sparse or matrix.n_columns >= 2**31:
            raise ValueError(
                "only sparse rows with fewer than 2**31 columns can be packed: use pack=\"auto\"")
        self.rows = matrix.rows
        self.rows.stride = 1
        self.rows.indices = self.rows.offsets = NULL
        self.rows.line_stride = short_row_bytes(matrix)
        if self.rows.line_stride > 0:
            self._make_short_rows()
        else:
            self._make_records(matrix)
        for first in range(0, n, step):
            last = min(n, first + step)
            for i in prange(
                first, last, nogil=True, schedule="static", num_threads=n_threads
            ):
                fate = copy_row(&matrix.rows, i, self, targets[i])
                n_rounded += fate != EXACT
                n_lost += fate == LOST
            PyErr_CheckSignals()
        self.exact = n_rounded == 0
        if n_lost > 0:
            raise ValueError(
                "X holds values beyond the range of float32, which packing needs: use "
                "pack=\"auto\", or scale X")

    def _make_records(self, Matrix matrix):
        cdef Py_ssize_t n = matrix.n_rows, i
        self.offsets = np.empty(n + 1, dtype=np.int64)
        cdef int64_t[::1] offsets = self.offsets
        offsets[0] = 0
        for i in range(n):
            offsets[i + 1] = offsets[i] + RECORD_HEADER + 8 * line_size(&matrix.rows, i)
        self.buffer = np.empty(offsets[n] // 8)
        self.records = <char*> cnp.PyArray_DATA(self.buffer)
        self.offset = <const long long*> &offsets[0]
        self.rows.storage = PACKED
        self.rows.values = self.records
        self.rows.offsets = <const char*> &offsets[0]

    def _make_short_rows(self):
        self.buffer = aligned((self.rows.count, self.rows.line_stride), np.uint8)
        self.rows.storage = PACKED_SHORT
        self.rows.values = <const char*> cnp.PyArray_DATA(self.buffer)


cdef int copy_row(
    const Lines* rows, Py_ssize_t i, PackedRows packed, double target
) noexcept nogil:
    """Fill a packed row; tells what became of its values."""
    cdef Line x = line_at(rows, i)
    cdef Line copy
    cdef Record* record
    if packed.offset == NULL:
        (<uint8_t*> packed.rows.values)[(i + 1) * packed.rows.line_stride - 1] = <uint8_t> x.size
        copy = line_at(&packed.rows, i)
        return round_line(&x, <float*> copy.values, <uint8_t*> copy.indices)
    record = record_at(packed, i)
    record.dual = record.curvature = 0
    record.target = target
    copy = line_at(&packed.rows, i)
    return round_line(&x, <float*> copy.values, <int32_t*> copy.indices)
