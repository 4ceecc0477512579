"""Several dense lines at once: adjacent ones share cache lines, others come side by side."""
from sublinear._core.line cimport CACHE_LINE, Line, Lines, is_dense, line_at, value_bytes

cdef extern from "adjacent.h" nogil:
    void add_some32 "sublinear_add_some_float"(
        const float* values, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t count,
        const double* factors, double* w) noexcept
    void add_some64 "sublinear_add_some_double"(
        const double* values, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t count,
        const double* factors, double* w) noexcept
    void add_rows32 "sublinear_add_rows_float"(
        const float* a, const float* b, const float* c, const float* d, const double* factors,
        double* w, Py_ssize_t size) noexcept
    void add_rows64 "sublinear_add_rows_double"(
        const double* a, const double* b, const double* c, const double* d,
        const double* factors, double* w, Py_ssize_t size) noexcept
    void add_line32 "sublinear_add_line_float"(
        const float* values, Py_ssize_t stride, Py_ssize_t size, const double* factors, double* w
    ) noexcept
    void add_line64 "sublinear_add_line_double"(
        const double* values, Py_ssize_t stride, Py_ssize_t size, const double* factors, double* w
    ) noexcept

cdef enum:
    ADJACENT = 16             # lines at most whose entries may share a cache line
    SIDE_BY_SIDE = 4          # lines that are far apart, read at the same time
    # Bytes after the beginning of a cache line where NumPy's large arrays begin, on Linux at least.
    # Groups of adjacent lines fit arrays that begin there, and do not depend on where others do.
    FIRST_BYTE = 16


cdef inline Py_ssize_t lines_per_cache_line(const Lines* lines) noexcept nogil:
    """How many adjacent lines cost what one costs: dense ones whose entries are far apart."""
    if is_dense(lines.storage) and lines.line_stride == 1 and lines.count > 1 \
            and lines.stride != 1:
        return CACHE_LINE // value_bytes(lines.storage)
    return 1


cdef inline bint lie_side_by_side(const Lines* lines) noexcept nogil:
    """Whether add_side_by_side takes these lines: dense ones whose entries are together."""
    return is_dense(lines.storage) and lines.stride == 1


cdef inline void add_side_by_side(
    const Lines* lines, const Py_ssize_t* order, const double* factors, double* w
) noexcept nogil:
    """w += sum_r factors[r] * (line order[r]), for SIDE_BY_SIDE lines"""
    cdef Py_ssize_t r
    cdef Line line[SIDE_BY_SIDE]
    for r in range(SIDE_BY_SIDE):
        line[r] = line_at(lines, order[r])
    if value_bytes(lines.storage) == 4:
        add_rows32(
            <const float*> line[0].values, <const float*> line[1].values,
            <const float*> line[2].values, <const float*> line[3].values, factors, w,
            lines.length)
    else:
        add_rows64(
            <const double*> line[0].values, <const double*> line[1].values,
            <const double*> line[2].values, <const double*> line[3].values, factors, w,
            lines.length)
    if lines.constant != 0:
        for r in range(SIDE_BY_SIDE):
            w[lines.length] += factors[r] * lines.constant


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
