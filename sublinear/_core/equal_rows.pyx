"""Which rows of a matrix are equal.

Rows are compared by sums of 64 bits over their non-zeros, each of which is mixed with its column.
Sums of different rows are equal by chance with a probability of 2^-64 or so.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from sublinear._core.line cimport Line, line_at, line_size, nonzeros
from sublinear._core.matrix cimport Matrix

cdef uint64_t MIXER = 0xD6E8FEB86659FD93    # odd


def equal_rows(Matrix matrix, double scale=1.0):
    """Return numbers of rows, equal ones for rows that are equal, or None if none are.

    Parameters
    ----------
    matrix : Matrix
    scale : float, default=1.0
        Rows are compared as kernel values see them: times this, rounded to float32.

    Returns
    -------
    groups : ndarray of shape (n_rows,), int64, or None
    """
    cdef uint64_t[::1] sums = np.empty(matrix.n_rows, dtype=np.uint64)
    cdef Py_ssize_t i, count, longest = 0, first, step = matrix.rows_per_call()
    cdef Line x
    for i in range(matrix.n_rows):
        longest = max(longest, line_size(&matrix.rows, i))
    cdef float[::1] values = np.empty(longest + 1, dtype=np.float32)
    cdef int32_t[::1] columns = np.empty(longest + 1, dtype=np.int32)
    for first in range(0, matrix.n_rows, step):
        with nogil:
            for i in range(first, min(matrix.n_rows, first + step)):
                x = line_at(&matrix.rows, i)
                count = nonzeros(&x, scale, &values[0], &columns[0])
                sums[i] = mixed_sum(&values[0], &columns[0], count)
        PyErr_CheckSignals()
    different, groups = np.unique(sums, return_inverse=True)
    return groups if len(different) < matrix.n_rows else None


cdef uint64_t mixed_sum(
    const float* values, const int32_t* columns, Py_ssize_t count
) noexcept nogil:
    cdef uint64_t total = 0
    cdef uint32_t bits
    cdef Py_ssize_t k
    for k in range(count):
        memcpy(&bits, &values[k], sizeof(bits))
        total += mixed(<uint64_t> <uint32_t> columns[k] << 32 | bits)
    return total


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    x = (x ^ x >> 32) * MIXER
    x = (x ^ x >> 32) * MIXER
    return x ^ x >> 32
