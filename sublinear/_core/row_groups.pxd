"""Loops over the rows of a group, dense ones several at once."""
from libc.stdint cimport uint32_t

from sublinear._core.line cimport (
    DENSE_FLOAT64, PACKED, Line, Lines, add_constants, add_with_squares, dot, dot_rows, is_dense,
    line_at, takes_rows, value_bytes, values_of,
)
from sublinear._core.sparse_rows cimport add_sparse, dot_sparse

cdef extern from "row_groups.h" nogil:
    void add_group_float "sublinear_add_group_float"(
        const float* const* rows, const float* const* next, Py_ssize_t count,
        const double* factors, const double* weights, double* total, double* squares,
        Py_ssize_t size) noexcept
    void add_group_double "sublinear_add_group_double"(
        const double* const* rows, const double* const* next, Py_ssize_t count,
        const double* factors, const double* weights, double* total, double* squares,
        Py_ssize_t size) noexcept

cdef enum:
    MOST_TOGETHER = 64        # rows of a group
    VALUES_TOGETHER = 2048    # of its rows, so that they stay in the nearest cache


# Some lines of a matrix, `most` at most: where their values begin, and those of the lines that come
# next, if there are loops for that, else their numbers. The type of sparse lines is looked at once
# for all.
cdef struct Group:
    const Lines* lines
    bint together, sparse
    Py_ssize_t most, count
    uint32_t order[MOST_TOGETHER]
    const char* rows[MOST_TOGETHER]
    const char* next[MOST_TOGETHER]


cdef inline void set_group(Group* group, const Lines* lines) noexcept nogil:
    group.lines, group.together, group.count = lines, takes_rows(lines), 0
    group.sparse = \
        not is_dense(lines.storage) and lines.storage != PACKED and lines.slots == NULL
    group.most = MOST_TOGETHER // 4
    if is_dense(lines.storage):
        group.most = min(MOST_TOGETHER, max(4, VALUES_TOGETHER // max(1, lines.length)))


cdef inline void append_line(Group* group, Py_ssize_t i, Py_ssize_t later) noexcept nogil:
    """Let line i be of the group, and line `later` the one in its place of the next group."""
    if group.together:
        group.rows[group.count] = values_of(group.lines, i)
        group.next[group.count] = values_of(group.lines, later)
    else:
        group.order[group.count] = <uint32_t> i
    group.count += 1


cdef inline void take_lines(
    Group* group, Py_ssize_t first, Py_ssize_t count, Py_ssize_t ahead
) noexcept nogil:
    """Let the group be lines that follow each other; the next ones are `ahead` lines further on."""
    cdef Py_ssize_t r, stride = group.lines.line_stride * value_bytes(group.lines.storage)
    cdef const char* row = group.lines.values + first * stride
    group.count = count
    if group.together:
        for r in range(count):
            group.rows[r] = row + r * stride
            group.next[r] = row + (r + ahead) * stride
    else:
        for r in range(count):
            group.order[r] = <uint32_t> (first + r)


cdef inline void dot_group(const Group* group, const double* w, double* dots) noexcept nogil:
    """dots[r] = <row r, w>"""
    cdef const Lines* lines = group.lines
    cdef Py_ssize_t r
    cdef Line x
    if group.together:
        dot_rows(lines, group.rows, NULL, group.next, group.count, w, dots)
    elif group.sparse:
        dot_sparse(lines, group.order, 0, group.count, w, NULL, dots, NULL)
        add_constants(lines, group.count, w, dots)
    else:
        for r in range(group.count):
            x = line_at(lines, group.order[r])
            dots[r] = dot(&x, w)


cdef inline void add_group(
    const Group* group, const double* factors, const double* weights, double* total,
    double* squares
) noexcept nogil:
    """total += factors[r] x, squares += weights[r] x^2 for the rows x = r, one after the other

    No weights: all are 1.
    """
    cdef const Lines* lines = group.lines
    cdef Py_ssize_t r
    cdef double weight
    cdef Line x
    if group.sparse:
        add_sparse(lines, group.order, group.count, factors, weights, total, squares)
    elif not group.together:
        for r in range(group.count):
            x = line_at(lines, group.order[r])
            weight = 1 if weights == NULL else weights[r]
            add_with_squares(&x, factors[r], weight, total, squares)
        return
    elif lines.storage == DENSE_FLOAT64:
        add_group_double(
            <const double* const*> group.rows, <const double* const*> group.next, group.count,
            factors, weights, total, squares, lines.length)
    else:
        add_group_float(
            <const float* const*> group.rows, <const float* const*> group.next, group.count,
            factors, weights, total, squares, lines.length)
    if lines.constant != 0:
        for r in range(group.count):
            weight = 1 if weights == NULL else weights[r]
            total[lines.length] += factors[r] * lines.constant
            squares[lines.length] += weight * lines.constant * lines.constant
