"""Adjacent lines of dense data that cost what one of them costs: they share cache lines."""
from sublinear._core.line cimport CACHE_LINE, Lines, is_dense, value_bytes

cdef extern from "adjacent.h" nogil:
    void add_some32 "sublinear_add_some_float"(
        const float* values, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t count,
        const double* factors, double* w) noexcept
    void add_some64 "sublinear_add_some_double"(
        const double* values, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t count,
        const double* factors, double* w) noexcept
    void add_line32 "sublinear_add_line_float"(
        const float* values, Py_ssize_t stride, Py_ssize_t size, const double* factors, double* w
    ) noexcept
    void add_line64 "sublinear_add_line_double"(
        const double* values, Py_ssize_t stride, Py_ssize_t size, const double* factors, double* w
    ) noexcept

cdef enum:
    ADJACENT = 16             # lines at most whose entries may share a cache line


cdef inline Py_ssize_t lines_per_cache_line(const Lines* lines) noexcept nogil:
    """How many adjacent lines cost what one costs: dense ones whose entries are far apart."""
    if is_dense(lines.storage) and lines.line_stride == 1 and lines.count > 1 \
            and lines.stride != 1:
        return CACHE_LINE // value_bytes(lines.storage)
    return 1


cdef inline void add_adjacent(
    const Lines* lines, Py_ssize_t first, Py_ssize_t count, const double* factors, double* w
) noexcept nogil:
    """w += sum_c factors[c] * (line first + c), for dense lines"""
    cdef Py_ssize_t size = value_bytes(lines.storage), c
    cdef const char* values = lines.values + first * size
    cdef bint whole = count == CACHE_LINE // size
    if lines.constant != 0:
        for c in range(count):
            w[lines.length] += lines.constant * factors[c]
    if size == 4:
        if whole:
            add_line32(<const float*> values, lines.stride, lines.length, factors, w)
        else:
            add_some32(<const float*> values, lines.stride, lines.length, count, factors, w)
    elif whole:
        add_line64(<const double*> values, lines.stride, lines.length, factors, w)
    else:
        add_some64(<const double*> values, lines.stride, lines.length, count, factors, w)
