"""Loops over many sparse lines, those of a Matrix, whose types are looked at once for all."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from sublinear._core.line cimport Lines, index_bytes, index_t, value_bytes

cdef extern from "sparse_rows.h" nogil:
    void dot_rows_of "sublinear_dot_sparse"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        const void* offsets, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop,
        const double* w, const double* v, double* dots, double* seconds) noexcept
    void add_rows_of "sublinear_add_sparse"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        const void* offsets, const uint32_t* order, Py_ssize_t count, const double* factors,
        const double* weights, double* total, double* squares) noexcept
    void add_gram_of "sublinear_add_sparse_gram"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        const void* offsets, const uint32_t* order, Py_ssize_t count, const double* weights,
        Py_ssize_t pitch, double* gram) noexcept
    Py_ssize_t longest_row32 "sublinear_longest_row_int32"(
        const int32_t* offsets, Py_ssize_t n_rows) noexcept
    Py_ssize_t longest_row64 "sublinear_longest_row_int64"(
        const int64_t* offsets, Py_ssize_t n_rows) noexcept
    int check_columns32 "sublinear_check_columns_int32"(
        const int32_t* indices, const int32_t* offsets, Py_ssize_t start, Py_ssize_t stop,
        Py_ssize_t n_columns) noexcept
    int check_columns64 "sublinear_check_columns_int64"(
        const int64_t* indices, const int64_t* offsets, Py_ssize_t start, Py_ssize_t stop,
        Py_ssize_t n_columns) noexcept


cdef inline Py_ssize_t longest_row(
    const index_t* offsets, Py_ssize_t n_rows
) noexcept nogil:
    """The entries of the longest row; -1 if the offsets are not those of rows."""
    if index_t is int32_t:
        return longest_row32(offsets, n_rows)
    return longest_row64(offsets, n_rows)


cdef inline int check_columns(
    const index_t* indices, const index_t* offsets, Py_ssize_t start, Py_ssize_t stop,
    Py_ssize_t n_columns
) noexcept nogil:
    """Of rows [start, stop): 0: they ascend; 1: they do not, or repeat; 2: out of range."""
    if index_t is int32_t:
        return check_columns32(indices, offsets, start, stop, n_columns)
    return check_columns64(indices, offsets, start, stop, n_columns)


cdef inline void dot_sparse(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop, const double* w,
    const double* v, double* dots, double* seconds
) noexcept nogil:
    """<line i, w> for i in [start, stop) or, unless it is NULL, of that part of `order`.

    Unless v is NULL, <line i, v> in the same reading. Without constant entries.
    """
    dot_rows_of(
        value_bytes(lines.storage), index_bytes(lines.storage), lines.values, lines.indices,
        lines.offsets, order, start, stop, w, v, dots, seconds)


cdef inline void add_sparse(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    const double* weights, double* total, double* squares
) noexcept nogil:
    """total += factors[r] x, squares += weights[r] x^2 for the lines x = order[r]

    No weights: all are 1. Without constant entries.
    """
    add_rows_of(
        value_bytes(lines.storage), index_bytes(lines.storage), lines.values, lines.indices,
        lines.offsets, order, count, factors, weights, total, squares)


cdef inline void add_sparse_gram(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* weights,
    Py_ssize_t pitch, double* gram
) noexcept nogil:
    """gram += weights[r] x x' for the lines x = order[r], in and above the diagonal"""
    add_gram_of(
        value_bytes(lines.storage), index_bytes(lines.storage), lines.values, lines.indices,
        lines.offsets, order, count, weights, pitch, gram)
