"""Loops over the rows of a group, dense ones several at once."""
from libc.stdint cimport int32_t, int64_t

from sublinear._core.line cimport (
    DENSE_FLOAT64, PACKED, SPARSE_FLOAT32_INT32, SPARSE_FLOAT32_INT64, SPARSE_FLOAT64_INT32,
    SPARSE_FLOAT64_INT64, Line, Lines, add_with_squares, dot, is_dense, line_at,
    line_start, takes_rows, value_bytes,
)

cdef extern from "row_groups.h" nogil:
    void dot_group_float "sublinear_dot_group_float"(
        const float* const* rows, Py_ssize_t count, const double* w, double* dots,
        Py_ssize_t size) noexcept
    void dot_group_double "sublinear_dot_group_double"(
        const double* const* rows, Py_ssize_t count, const double* w, double* dots,
        Py_ssize_t size) noexcept
    void add_group_float "sublinear_add_group_float"(
        const float* const* rows, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares, Py_ssize_t size) noexcept
    void add_group_double "sublinear_add_group_double"(
        const double* const* rows, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares, Py_ssize_t size) noexcept
    void dot_sparse_double_int32 "sublinear_dot_sparse_double_int32"(
        const double* values, const int32_t* indices, const int32_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* w, double* dots) noexcept
    void dot_sparse_double_int64 "sublinear_dot_sparse_double_int64"(
        const double* values, const int64_t* indices, const int64_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* w, double* dots) noexcept
    void dot_sparse_float_int32 "sublinear_dot_sparse_float_int32"(
        const float* values, const int32_t* indices, const int32_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* w, double* dots) noexcept
    void dot_sparse_float_int64 "sublinear_dot_sparse_float_int64"(
        const float* values, const int64_t* indices, const int64_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* w, double* dots) noexcept
    void add_sparse_double_int32 "sublinear_add_sparse_double_int32"(
        const double* values, const int32_t* indices, const int32_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares) noexcept
    void add_sparse_double_int64 "sublinear_add_sparse_double_int64"(
        const double* values, const int64_t* indices, const int64_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares) noexcept
    void add_sparse_float_int32 "sublinear_add_sparse_float_int32"(
        const float* values, const int32_t* indices, const int32_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares) noexcept
    void add_sparse_float_int64 "sublinear_add_sparse_float_int64"(
        const float* values, const int64_t* indices, const int64_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* factors, const double* weights,
        double* total, double* squares) noexcept
    void add_sparse_gram_int32 "sublinear_add_sparse_gram_int32"(
        const double* values, const int32_t* indices, const int32_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* weights, Py_ssize_t pitch,
        double* gram) noexcept
    void add_sparse_gram_int64 "sublinear_add_sparse_gram_int64"(
        const double* values, const int64_t* indices, const int64_t* offsets,
        const Py_ssize_t* order, Py_ssize_t count, const double* weights, Py_ssize_t pitch,
        double* gram) noexcept
    void copy_scaled "sublinear_copy_scaled"(
        const double* const* rows, Py_ssize_t count, const double* weights, Py_ssize_t size,
        Py_ssize_t pitch, double* copies, double* scaled) noexcept
    void add_gram "sublinear_add_gram"(
        const double* rows, const double* scaled, Py_ssize_t count, Py_ssize_t pitch,
        double* gram) noexcept

cdef enum:
    MOST_TOGETHER = 64        # rows of a group
    VALUES_TOGETHER = 2048    # of its rows, so that they stay in the nearest cache


# Some lines of a matrix, `most` at most: their numbers, and where their values begin if there are
# loops for that. The type of sparse lines is looked at once for all.
cdef struct Group:
    const Lines* lines
    bint together, sparse
    Py_ssize_t most, count
    Py_ssize_t order[MOST_TOGETHER]
    const char* rows[MOST_TOGETHER]


cdef inline void set_group(Group* group, const Lines* lines) noexcept nogil:
    group.lines, group.together, group.count = lines, takes_rows(lines), 0
    group.sparse = \
        not is_dense(lines.storage) and lines.storage != PACKED and lines.slots == NULL
    group.most = MOST_TOGETHER // 4
    if is_dense(lines.storage):
        group.most = min(MOST_TOGETHER, max(4, VALUES_TOGETHER // max(1, lines.length)))


cdef inline void append_line(Group* group, Py_ssize_t i) noexcept nogil:
    if group.together:
        group.rows[group.count] = group.lines.values + \
            line_start(group.lines, i) * value_bytes(group.lines.storage)
    group.order[group.count] = i
    group.count += 1


cdef inline void take_lines(Group* group, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    """Let the group be lines that follow each other."""
    cdef Py_ssize_t r, stride = group.lines.line_stride * value_bytes(group.lines.storage)
    cdef const char* row = group.lines.values + first * stride
    group.count = count
    for r in range(count):
        if group.together:
            group.rows[r] = row + r * stride
        group.order[r] = first + r


cdef inline void dot_group(const Group* group, const double* w, double* dots) noexcept nogil:
    """dots[r] = <row r, w>"""
    cdef const Lines* lines = group.lines
    cdef const char* values = lines.values
    cdef const char* indices = lines.indices
    cdef Py_ssize_t r
    cdef Line x
    if group.sparse:
        if lines.storage == SPARSE_FLOAT64_INT32:
            dot_sparse_double_int32(
                <const double*> values, <const int32_t*> indices, <const int32_t*> lines.offsets,
                group.order, group.count, w, dots)
        elif lines.storage == SPARSE_FLOAT32_INT32:
            dot_sparse_float_int32(
                <const float*> values, <const int32_t*> indices, <const int32_t*> lines.offsets,
                group.order, group.count, w, dots)
        elif lines.storage == SPARSE_FLOAT64_INT64:
            dot_sparse_double_int64(
                <const double*> values, <const int64_t*> indices, <const int64_t*> lines.offsets,
                group.order, group.count, w, dots)
        else:
            dot_sparse_float_int64(
                <const float*> values, <const int64_t*> indices, <const int64_t*> lines.offsets,
                group.order, group.count, w, dots)
    elif not group.together:
        for r in range(group.count):
            x = line_at(lines, group.order[r])
            dots[r] = dot(&x, w)
        return
    elif lines.storage == DENSE_FLOAT64:
        dot_group_double(
            <const double* const*> group.rows, group.count, w, dots, lines.length)
    else:
        dot_group_float(
            <const float* const*> group.rows, group.count, w, dots, lines.length)
    if lines.constant != 0:
        for r in range(group.count):
            dots[r] += lines.constant * w[lines.length]


cdef inline void add_group(
    const Group* group, const double* factors, const double* weights, double* total,
    double* squares
) noexcept nogil:
    """total += factors[r] x, squares += weights[r] x^2 for the rows x = r, one after the other

    No weights: all are 1.
    """
    cdef const Lines* lines = group.lines
    cdef const char* values = lines.values
    cdef const char* indices = lines.indices
    cdef Py_ssize_t r
    cdef double weight
    cdef Line x
    if group.sparse:
        if lines.storage == SPARSE_FLOAT64_INT32:
            add_sparse_double_int32(
                <const double*> values, <const int32_t*> indices, <const int32_t*> lines.offsets,
                group.order, group.count, factors, weights, total, squares)
        elif lines.storage == SPARSE_FLOAT32_INT32:
            add_sparse_float_int32(
                <const float*> values, <const int32_t*> indices, <const int32_t*> lines.offsets,
                group.order, group.count, factors, weights, total, squares)
        elif lines.storage == SPARSE_FLOAT64_INT64:
            add_sparse_double_int64(
                <const double*> values, <const int64_t*> indices, <const int64_t*> lines.offsets,
                group.order, group.count, factors, weights, total, squares)
        else:
            add_sparse_float_int64(
                <const float*> values, <const int64_t*> indices, <const int64_t*> lines.offsets,
                group.order, group.count, factors, weights, total, squares)
    elif not group.together:
        for r in range(group.count):
            x = line_at(lines, group.order[r])
            weight = 1 if weights == NULL else weights[r]
            add_with_squares(&x, factors[r], weight, total, squares)
        return
    elif lines.storage == DENSE_FLOAT64:
        add_group_double(
            <const double* const*> group.rows, group.count, factors, weights, total, squares,
            lines.length)
    else:
        add_group_float(
            <const float* const*> group.rows, group.count, factors, weights, total, squares,
            lines.length)
    if lines.constant != 0:
        for r in range(group.count):
            weight = 1 if weights == NULL else weights[r]
            total[lines.length] += factors[r] * lines.constant
            squares[lines.length] += weight * lines.constant * lines.constant


cdef inline void add_gram_of_sparse(
    const Group* group, const double* weights, Py_ssize_t pitch, double* gram
) noexcept nogil:
    """gram += weights[r] x x' for sparse float64 rows x = r, in and above the diagonal"""
    cdef const Lines* lines = group.lines
    cdef const double* values = <const double*> lines.values
    if lines.storage == SPARSE_FLOAT64_INT32:
        add_sparse_gram_int32(
            values, <const int32_t*> lines.indices, <const int32_t*> lines.offsets, group.order,
            group.count, weights, pitch, gram)
    else:
        add_sparse_gram_int64(
            values, <const int64_t*> lines.indices, <const int64_t*> lines.offsets, group.order,
            group.count, weights, pitch, gram)
