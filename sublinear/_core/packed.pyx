"""PackedRows: a copy of sparse rows in which all that a dual step reads of an example is together.

One record per row: its Record, its values (float32), its column indices (int32). A step in random
order then waits for one place in memory instead of five. Costs 8 bytes per stored entry and 32 per
row. Values that float32 cannot hold are rounded; `exact` tells whether there were any, and
certificates are computed from the matrix itself.
"""
from libc.stdint cimport int32_t, int64_t
cimport numpy as cnp

import os

import numpy as np

from sublinear._core.line cimport (
    PACKED, RECORD_HEADER, SPARSE_FLOAT32_INT32, SPARSE_FLOAT64_INT32, SPARSE_FLOAT64_INT64, Line,
    Lines, index_t, line_at, line_size, real_t,
)
from sublinear._core.matrix cimport Matrix

cnp.import_array()

assert sizeof(Record) == RECORD_HEADER


cdef inline bint copy_entries(
    const real_t* values, const index_t* indices, Py_ssize_t size, float* to_values,
    int* to_indices
) noexcept nogil:
    """Copy a line's entries; tells whether no value was rounded."""
    cdef Py_ssize_t k
    cdef bint exact = True
    for k in range(size):
        to_values[k] = <float> values[k]
        exact &= to_values[k] == values[k]
        to_indices[k] = <int> indices[k]
    return exact


cdef inline bint copy_line(const Line* x, float* values, int* indices) noexcept nogil:
    if x.storage == SPARSE_FLOAT64_INT32:
        return copy_entries(
            <const double*> x.values, <const int32_t*> x.indices, x.size, values, indices)
    if x.storage == SPARSE_FLOAT32_INT32:
        return copy_entries(
            <const float*> x.values, <const int32_t*> x.indices, x.size, values, indices)
    if x.storage == SPARSE_FLOAT64_INT64:
        return copy_entries(
            <const double*> x.values, <const int64_t*> x.indices, x.size, values, indices)
    return copy_entries(
        <const float*> x.values, <const int64_t*> x.indices, x.size, values, indices)


cdef bint copy_rows(
    const Lines* rows, PackedRows packed, const double[::1] targets
) noexcept nogil:
    """Fill the records; tells whether no value was rounded."""
    cdef bint exact = True
    cdef Py_ssize_t i
    cdef Line x, copy
    cdef Record* record
    for i in range(rows.count):
        record = record_at(packed, i)
        record.dual = record.curvature = 0
        record.target = targets[i]
        x = line_at(rows, i)
        copy = line_at(&packed.rows, i)
        exact &= copy_line(&x, <float*> copy.values, <int*> copy.indices)
    return exact


def packing_pays(Matrix matrix):
    """Tell whether a packed copy is possible, useful and small beside the free memory.

    Dense rows lie together already; memory-mapped data may not fit into memory.
    """
    if len(matrix.arrays) == 1 or matrix.n_columns >= 2**31:
        return False
    if any(is_mapped(array) for array in matrix.arrays):
        return False
    needed = 8 * matrix.n_stored + 32 * matrix.n_rows
    return needed < 0.5 * free_memory()


def is_mapped(array):
    """Tell whether an array is, or is a view of, a memory map."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def free_memory():
    """Return the bytes of free physical memory, infinity where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return float("inf")


cdef class PackedRows:
    """Packed copies of the rows of a sparse matrix, their Records zero but for the targets.

    Parameters
    ----------
    matrix : Matrix
        Sparse, with fewer than 2**31 columns.
    targets : ndarray of shape (n_rows,), float64

    Attributes
    ----------
    exact : bool
        True if no value was rounded.
    """

    def __cinit__(self, Matrix matrix, const double[::1] targets):
        cdef Py_ssize_t n = matrix.n_rows, i
        cdef const Lines* rows = &matrix.rows
        self.offsets = np.empty(n + 1, dtype=np.int64)
        cdef int64_t[::1] offsets = self.offsets
        offsets[0] = 0
        for i in range(n):
            offsets[i + 1] = offsets[i] + RECORD_HEADER + 8 * line_size(rows, i)
        self.buffer = np.empty(offsets[n] // 8)
        self.records = <char*> cnp.PyArray_DATA(self.buffer)
        self.offset = <const long long*> &offsets[0]
        self.rows = matrix.rows
        self.rows.storage = PACKED
        self.rows.stride = 1
        self.rows.values = self.records
        self.rows.indices = NULL
        self.rows.offsets = <const char*> &offsets[0]
        with nogil:
            self.exact = copy_rows(rows, self, targets)
