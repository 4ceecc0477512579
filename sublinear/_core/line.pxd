"""Line: one row or one column of a matrix, and every loop over its stored entries.

This file, and what it shares with groups of rows (dense_lines.h, sparse_rows.h), knows value type x
index type x storage. A primitive branches on the storage once per line and calls a loop over typed
pointers, so solvers are compiled once and no call is made per entry. Sums are gathered in float64
whatever the values' type, in an order that depends on the stored entries alone: float32 and float64
storage of the same values, with int32 or int64 indices, give the same bits.

Lines may carry a constant entry, as if the matrix had one more column (row) of equal values: it is
never stored, and its weight is the last one of ``w``.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from sublinear._core.dense_lines cimport (
    dense_add32, dense_add64, dense_dot_asking32, dense_dot_asking64, dense_dots32, dense_dots64,
    dense_dots_add32, dense_dots_add64, dense_dots_squares32, dense_dots_squares64,
    dense_squares32, dense_squares64,
)
from sublinear._core.portable cimport prefetch, prefetch_near_span, prefetch_span

ctypedef fused real_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t

ctypedef fused column_t:     # of all lines, those of packed rows too
    int32_t
    int64_t
    uint8_t

cdef enum Storage:
    DENSE_FLOAT32
    DENSE_FLOAT64
    SPARSE_FLOAT32_INT32
    SPARSE_FLOAT32_INT64
    SPARSE_FLOAT64_INT32
    SPARSE_FLOAT64_INT64
    SPARSE_FLOAT32_UINT8     # lines of PACKED_SHORT; only `dot`, `add` and single entries read them
    PACKED                   # rows of sublinear._core.packed; their lines are sparse
    PACKED_SHORT

cdef enum:
    RECORD_HEADER = 24       # bytes before a record's float32 values and then int32 indices

cdef struct Line:
    Storage storage
    Py_ssize_t size        # stored entries
    Py_ssize_t stride      # distance of a dense line's entries, in entries
    const char* values
    const char* indices
    const char* later      # values of a dense line that `dot` prefetches meanwhile; NULL: none
    double constant        # the constant entry; 0 when there is none
    Py_ssize_t length      # the number of stored columns: where w has the weight of the constant

# The lines of a matrix. Offsets of sparse lines have the type of the indices; those of packed lines
# are int64 and count bytes. Short ones have none, but equal length; the last byte tells their size.
cdef struct Lines:
    Storage storage
    Py_ssize_t count
    Py_ssize_t length
    Py_ssize_t line_stride  # distance of dense lines, in entries; of short packed ones, in bytes
    Py_ssize_t stride
    const char* values
    const char* indices
    const char* offsets
    const Py_ssize_t* slots  # dense lines computed on demand: their places; else NULL
    double constant


cdef inline bint is_dense(Storage storage) noexcept nogil:
    return storage <= DENSE_FLOAT64


cdef inline Py_ssize_t value_bytes(Storage storage) noexcept nogil:
    if storage == DENSE_FLOAT32 or storage == SPARSE_FLOAT32_INT32 \
            or storage == SPARSE_FLOAT32_INT64 or storage == SPARSE_FLOAT32_UINT8:
        return 4
    return 8


cdef inline bint has_int32(Storage storage) noexcept nogil:
    return storage == SPARSE_FLOAT32_INT32 or storage == SPARSE_FLOAT64_INT32


cdef inline Py_ssize_t index_bytes(Storage storage) noexcept nogil:
    """Of indices and offsets, but for those of packed lines."""
    return 4 if has_int32(storage) else 8


cdef inline Py_ssize_t line_start(const Lines* lines, Py_ssize_t i) noexcept nogil:
    """Position of line i's first entry among the stored values."""
    if is_dense(lines.storage):
        return (i if lines.slots == NULL else lines.slots[i]) * lines.line_stride
    if has_int32(lines.storage):
        return (<const int32_t*> lines.offsets)[i]
    return (<const int64_t*> lines.offsets)[i]


cdef inline const char* values_of(const Lines* lines, Py_ssize_t i) noexcept nogil:
    """Where the values of line i begin, unless it is packed."""
    return lines.values + line_start(lines, i) * value_bytes(lines.storage)


cdef inline const char* short_line(const Lines* lines, Py_ssize_t i) noexcept nogil:
    """Where line i of PACKED_SHORT begins."""
    return lines.values + i * lines.line_stride


cdef inline Py_ssize_t line_size(const Lines* lines, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t size
    if is_dense(lines.storage):
        return lines.length
    if lines.storage == PACKED_SHORT:
        return (<const uint8_t*> short_line(lines, i))[lines.line_stride - 1]
    size = line_start(lines, i + 1) - line_start(lines, i)
    return (size - RECORD_HEADER) // 8 if lines.storage == PACKED else size


cdef inline Line line_at(const Lines* lines, Py_ssize_t i) noexcept nogil:
    cdef Line line
    cdef Py_ssize_t start
    line.size = line_size(lines, i)
    line.stride = lines.stride
    line.later = NULL
    line.constant = lines.constant
    line.length = lines.length
    if lines.storage == PACKED_SHORT:
        line.storage = SPARSE_FLOAT32_UINT8
        line.values = short_line(lines, i)
        line.indices = line.values + 4 * line.size
        return line
    start = line_start(lines, i)
    if lines.storage == PACKED:
        line.storage = SPARSE_FLOAT32_INT32
        line.values = lines.values + start + RECORD_HEADER
        line.indices = line.values + 4 * line.size
    else:
        line.storage = lines.storage
        line.values = lines.values + start * value_bytes(lines.storage)
        if not is_dense(lines.storage):
            line.indices = lines.indices + start * index_bytes(lines.storage)
    return line


# Prefetching: offsets of lines, their entries and, where w does not fit into the cache, weights.
cdef extern from "portable.h" nogil:
    enum:
        OFFSET_AHEAD "SUBLINEAR_OFFSET_AHEAD"
        LINE_AHEAD "SUBLINEAR_LINE_AHEAD"
        NEAR_AHEAD "SUBLINEAR_NEAR_AHEAD"
        CACHE_LINE "SUBLINEAR_CACHE_LINE"

cdef enum:
    WEIGHTS_AHEAD = 2
    CACHED_WEIGHTS = 1 << 16
    SHORT_AHEAD = 64            # where no offset has to come before
    SHORT_NEAR_AHEAD = 8


cdef inline void prefetch_line(const Lines* lines, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t start = line_start(lines, i), stop, width = value_bytes(lines.storage)
    if is_dense(lines.storage):
        if lines.stride == 1:
            stop = start + lines.length
            prefetch_span(lines.values + start * width, lines.values + stop * width)
        return
    stop = line_start(lines, i + 1)
    if lines.storage == PACKED:    # whose offsets count bytes
        prefetch_span(lines.values + start, lines.values + stop)
        return
    prefetch_span(lines.values + start * width, lines.values + stop * width)
    width = index_bytes(lines.storage)
    prefetch_span(lines.indices + start * width, lines.indices + stop * width)


cdef inline void prefetch_weights(const Line* x, const double* w) noexcept nogil:
    cdef Py_ssize_t k
    if is_dense(x.storage):
        return
    if has_int32(x.storage):
        for k in range(x.size):
            prefetch(w + (<const int32_t*> x.indices)[k])
    else:
        for k in range(x.size):
            prefetch(w + (<const int64_t*> x.indices)[k])


cdef inline bint takes_rows(const Lines* lines) noexcept nogil:
    """Whether `dot_rows` and its like can read the lines."""
    return is_dense(lines.storage) and lines.stride == 1 and lines.slots == NULL


cdef inline void prefetch_near_line(const Lines* lines, Py_ssize_t i) noexcept nogil:
    """Prefetch a dense line again, now into the first cache; see dense_lines.h."""
    cdef const char* values = values_of(lines, i)
    if lines.stride == 1:
        prefetch_near_span(values, values + lines.length * value_bytes(lines.storage))


cdef inline void prefetch_lines_ahead(
    const Lines* lines, const uint32_t* draws, Py_ssize_t position, Py_ssize_t ready
) noexcept nogil:
    """Prefetch the lines of the draws after `position`, up to `ready`."""
    cdef const char* line
    if is_dense(lines.storage):
        if position + LINE_AHEAD < ready:
            prefetch_line(lines, draws[position + LINE_AHEAD])
            prefetch_near_line(lines, draws[position + NEAR_AHEAD])
    elif lines.storage == PACKED_SHORT:
        if position + SHORT_AHEAD < ready:
            line = short_line(lines, draws[position + SHORT_AHEAD])
            prefetch_span(line, line + lines.line_stride)
            line = short_line(lines, draws[position + SHORT_NEAR_AHEAD])
            prefetch_near_span(line, line + lines.line_stride)
    elif position + OFFSET_AHEAD < ready:
        prefetch(lines.offsets + draws[position + OFFSET_AHEAD] * index_bytes(lines.storage))
        prefetch_line(lines, draws[position + LINE_AHEAD])


cdef inline void prefetch_ahead(
    const Lines* lines, const uint32_t* draws, Py_ssize_t position, Py_ssize_t ready,
    const double* w
) noexcept nogil:
    """Prefetch what the draws after `position`, up to `ready`, will read."""
    cdef Line line
    prefetch_lines_ahead(lines, draws, position, ready)
    if lines.length > CACHED_WEIGHTS and position + OFFSET_AHEAD < ready:
        line = line_at(lines, draws[position + WEIGHTS_AHEAD])
        prefetch_weights(&line, w)


cdef inline Line drawn_line(
    const Lines* lines, const uint32_t* draws, Py_ssize_t position, Py_ssize_t ready,
    const double* w
) noexcept nogil:
    """The line of the draw at `position`, of which a dot product is wanted, and `prefetch_ahead`.

    The dot product prefetches dense lines, entry by entry: all at once they would delay it.
    """
    cdef Line line = line_at(lines, draws[position])
    if not takes_rows(lines):
        prefetch_ahead(lines, draws, position, ready, w)
    elif position + LINE_AHEAD < ready:
        line.later = values_of(lines, draws[position + LINE_AHEAD])
        prefetch_near_line(lines, draws[position + NEAR_AHEAD])
    return line


# Loops over typed pointers. Four partial sums hide the latency of the additions.

cdef inline double sparse_dot(
    const real_t* values, const column_t* indices, Py_ssize_t size, const double* w
) noexcept nogil:
    cdef double a = 0, b = 0, c = 0, d = 0
    cdef Py_ssize_t k = 0
    while k + 4 <= size:
        a += values[k] * w[indices[k]]
        b += values[k + 1] * w[indices[k + 1]]
        c += values[k + 2] * w[indices[k + 2]]
        d += values[k + 3] * w[indices[k + 3]]
        k += 4
    while k < size:
        a += values[k] * w[indices[k]]
        k += 1
    return (a + b) + (c + d)


cdef inline void sparse_add(
    const real_t* values, const column_t* indices, Py_ssize_t size, double factor, double* w
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        w[indices[k]] += factor * values[k]


cdef inline double strided_dot(
    const real_t* values, Py_ssize_t stride, Py_ssize_t size, const double* w
) noexcept nogil:
    cdef double a = 0, b = 0
    cdef Py_ssize_t k = 0
    while k + 2 <= size:
        a += values[k * stride] * w[k]
        b += values[(k + 1) * stride] * w[k + 1]
        k += 2
    if k < size:
        a += values[k * stride] * w[k]
    return a + b


cdef inline void strided_add(
    const real_t* values, Py_ssize_t stride, Py_ssize_t size, double factor, double* w
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        w[k] += factor * values[k * stride]


cdef inline void scatter_values(
    const real_t* values, const index_t* indices, Py_ssize_t size, double scale, float* out,
    Py_ssize_t stride
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        out[indices[k] * stride] = <float> (scale * values[k])


cdef inline void scatter_strided(
    const real_t* values, Py_ssize_t value_stride, Py_ssize_t size, double scale, float* out,
    Py_ssize_t stride
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        out[k * stride] = <float> (scale * values[k * value_stride])


cdef inline Py_ssize_t gather_nonzeros(
    const real_t* values, Py_ssize_t stride, const index_t* indices, Py_ssize_t size,
    double scale, float* kept, int32_t* columns
) noexcept nogil:
    cdef Py_ssize_t k, n_kept = 0
    for k in range(size):
        kept[n_kept] = <float> (scale * values[k * stride])
        columns[n_kept] = <int32_t> k if indices == NULL else <int32_t> indices[k]
        n_kept += kept[n_kept] != 0
    return n_kept


cdef inline double sum_of_squares(
    const real_t* values, Py_ssize_t stride, Py_ssize_t size
) noexcept nogil:
    cdef double a = 0, b = 0, c = 0, d = 0
    cdef Py_ssize_t k = 0
    while k + 4 <= size:
        a += <double> values[k * stride] * values[k * stride]
        b += <double> values[(k + 1) * stride] * values[(k + 1) * stride]
        c += <double> values[(k + 2) * stride] * values[(k + 2) * stride]
        d += <double> values[(k + 3) * stride] * values[(k + 3) * stride]
        k += 4
    while k < size:
        a += <double> values[k * stride] * values[k * stride]
        k += 1
    return (a + b) + (c + d)


# The primitives.

cdef inline double dot(const Line* x, const double* w) noexcept nogil:
    """<x, w>"""
    cdef double total
    if x.storage == SPARSE_FLOAT64_INT32:
        total = sparse_dot(<const double*> x.values, <const int32_t*> x.indices, x.size, w)
    elif x.storage == SPARSE_FLOAT32_INT32:
        total = sparse_dot(<const float*> x.values, <const int32_t*> x.indices, x.size, w)
    elif x.storage == SPARSE_FLOAT64_INT64:
        total = sparse_dot(<const double*> x.values, <const int64_t*> x.indices, x.size, w)
    elif x.storage == SPARSE_FLOAT32_INT64:
        total = sparse_dot(<const float*> x.values, <const int64_t*> x.indices, x.size, w)
    elif x.storage == SPARSE_FLOAT32_UINT8:
        total = sparse_dot(<const float*> x.values, <const uint8_t*> x.indices, x.size, w)
    elif x.storage == DENSE_FLOAT64:
        if x.stride == 1:
            total = dense_dot_asking64(
                <const double*> x.values, w, x.size, <const double*> x.later)
        else:
            total = strided_dot(<const double*> x.values, x.stride, x.size, w)
    else:
        if x.stride == 1:
            total = dense_dot_asking32(
                <const float*> x.values, w, x.size, <const float*> x.later)
        else:
            total = strided_dot(<const float*> x.values, x.stride, x.size, w)
    if x.constant != 0:
        total += x.constant * w[x.length]
    return total


cdef inline void add(const Line* x, double factor, double* w) noexcept nogil:
    """w += factor * x"""
    if x.storage == SPARSE_FLOAT64_INT32:
        sparse_add(<const double*> x.values, <const int32_t*> x.indices, x.size, factor, w)
    elif x.storage == SPARSE_FLOAT32_INT32:
        sparse_add(<const float*> x.values, <const int32_t*> x.indices, x.size, factor, w)
    elif x.storage == SPARSE_FLOAT64_INT64:
        sparse_add(<const double*> x.values, <const int64_t*> x.indices, x.size, factor, w)
    elif x.storage == SPARSE_FLOAT32_INT64:
        sparse_add(<const float*> x.values, <const int64_t*> x.indices, x.size, factor, w)
    elif x.storage == SPARSE_FLOAT32_UINT8:
        sparse_add(<const float*> x.values, <const uint8_t*> x.indices, x.size, factor, w)
    elif x.storage == DENSE_FLOAT64:
        if x.stride == 1:
            dense_add64(<const double*> x.values, factor, w, x.size)
        else:
            strided_add(<const double*> x.values, x.stride, x.size, factor, w)
    else:
        if x.stride == 1:
            dense_add32(<const float*> x.values, factor, w, x.size)
        else:
            strided_add(<const float*> x.values, x.stride, x.size, factor, w)
    if x.constant != 0:
        w[x.length] += factor * x.constant


cdef inline void strided_add_with_squares(
    const real_t* values, Py_ssize_t stride, Py_ssize_t size, double factor, double weight,
    double* w, double* squares
) noexcept nogil:
    cdef Py_ssize_t k
    cdef double value
    for k in range(size):
        value = values[k * stride]
        w[k] += factor * value
        squares[k] += weight * value * value


cdef inline void sparse_add_with_squares(
    const real_t* values, const index_t* indices, Py_ssize_t size, double factor, double weight,
    double* w, double* squares
) noexcept nogil:
    cdef Py_ssize_t k, j
    cdef double value
    for k in range(size):
        value, j = values[k], indices[k]
        w[j] += factor * value
        squares[j] += weight * value * value


cdef inline void add_with_squares(
    const Line* x, double factor, double weight, double* w, double* squares
) noexcept nogil:
    """w += factor * x, squares_j += weight * x_j^2"""
    if x.storage == SPARSE_FLOAT64_INT32:
        sparse_add_with_squares(<const double*> x.values, <const int32_t*> x.indices, x.size,
                                factor, weight, w, squares)
    elif x.storage == SPARSE_FLOAT32_INT32:
        sparse_add_with_squares(<const float*> x.values, <const int32_t*> x.indices, x.size,
                                factor, weight, w, squares)
    elif x.storage == SPARSE_FLOAT64_INT64:
        sparse_add_with_squares(<const double*> x.values, <const int64_t*> x.indices, x.size,
                                factor, weight, w, squares)
    elif x.storage == SPARSE_FLOAT32_INT64:
        sparse_add_with_squares(<const float*> x.values, <const int64_t*> x.indices, x.size,
                                factor, weight, w, squares)
    elif x.storage == DENSE_FLOAT64:
        strided_add_with_squares(
            <const double*> x.values, x.stride, x.size, factor, weight, w, squares)
    else:
        strided_add_with_squares(
            <const float*> x.values, x.stride, x.size, factor, weight, w, squares)
    if x.constant != 0:
        w[x.length] += factor * x.constant
        squares[x.length] += weight * x.constant * x.constant


cdef inline void zero_entries(const Line* x, double* w) noexcept nogil:
    """w = 0 wherever x has an entry"""
    cdef Py_ssize_t k
    if is_dense(x.storage):
        for k in range(x.size):
            w[k] = 0
    elif has_int32(x.storage):
        for k in range(x.size):
            w[(<const int32_t*> x.indices)[k]] = 0
    else:
        for k in range(x.size):
            w[(<const int64_t*> x.indices)[k]] = 0
    if x.constant != 0:
        w[x.length] = 0


cdef inline void cut(Line* x, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    """Let a dense line be a part of itself."""
    x.values += start * x.stride * value_bytes(x.storage)
    x.size = size


cdef inline void scatter(
    const Line* x, double scale, float* out, Py_ssize_t stride
) noexcept nogil:
    """out[j * stride] = scale times entry j of x, as float32, wherever x has an entry"""
    if x.storage == SPARSE_FLOAT64_INT32:
        scatter_values(
            <const double*> x.values, <const int32_t*> x.indices, x.size, scale, out, stride)
    elif x.storage == SPARSE_FLOAT32_INT32:
        scatter_values(
            <const float*> x.values, <const int32_t*> x.indices, x.size, scale, out, stride)
    elif x.storage == SPARSE_FLOAT64_INT64:
        scatter_values(
            <const double*> x.values, <const int64_t*> x.indices, x.size, scale, out, stride)
    elif x.storage == SPARSE_FLOAT32_INT64:
        scatter_values(
            <const float*> x.values, <const int64_t*> x.indices, x.size, scale, out, stride)
    elif x.storage == DENSE_FLOAT64:
        scatter_strided(<const double*> x.values, x.stride, x.size, scale, out, stride)
    else:
        scatter_strided(<const float*> x.values, x.stride, x.size, scale, out, stride)


cdef inline Py_ssize_t nonzeros(
    const Line* x, double scale, float* values, int32_t* columns
) noexcept nogil:
    """Copy the entries of scale * x that are not 0 as float32; tells how many.

    Room for x.size + 1.
    """
    if x.storage == SPARSE_FLOAT64_INT32:
        return gather_nonzeros(
            <const double*> x.values, 1, <const int32_t*> x.indices, x.size, scale, values,
            columns)
    if x.storage == SPARSE_FLOAT32_INT32:
        return gather_nonzeros(
            <const float*> x.values, 1, <const int32_t*> x.indices, x.size, scale, values, columns)
    if x.storage == SPARSE_FLOAT64_INT64:
        return gather_nonzeros(
            <const double*> x.values, 1, <const int64_t*> x.indices, x.size, scale, values,
            columns)
    if x.storage == SPARSE_FLOAT32_INT64:
        return gather_nonzeros(
            <const float*> x.values, 1, <const int64_t*> x.indices, x.size, scale, values, columns)
    if x.storage == DENSE_FLOAT64:
        return gather_nonzeros(
            <const double*> x.values, x.stride, <const int32_t*> NULL, x.size, scale, values,
            columns)
    return gather_nonzeros(
        <const float*> x.values, x.stride, <const int32_t*> NULL, x.size, scale, values, columns)


cdef inline void copy_arrays(
    const real_t* values, const column_t* indices, Py_ssize_t size, double* copies,
    index_t* columns
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(size):
        copies[k] = values[k]
        columns[k] = <index_t> indices[k]


cdef inline void copy_strided(
    const real_t* values, Py_ssize_t stride, Py_ssize_t size, double factor, double* copy
) noexcept nogil:
    cdef Py_ssize_t k
    if stride == 1:    # a loop that compilers turn into one over vectors
        for k in range(size):
            copy[k] = factor * values[k]
    else:
        for k in range(size):
            copy[k] = factor * values[k * stride]


cdef inline void copy_dense(const Line* x, double factor, double* copy) noexcept nogil:
    """copy = factor * x for a dense line; there may be no constant entry"""
    if x.storage == DENSE_FLOAT64:
        copy_strided(<const double*> x.values, x.stride, x.size, factor, copy)
    else:
        copy_strided(<const float*> x.values, x.stride, x.size, factor, copy)
    if x.constant != 0:
        copy[x.length] = factor * x.constant


cdef inline void copy_entries(const Line* x, double* values, index_t* columns) noexcept nogil:
    """Copy the entries of a sparse line that is not packed."""
    if x.storage == SPARSE_FLOAT64_INT32:
        copy_arrays(<const double*> x.values, <const int32_t*> x.indices, x.size, values, columns)
    elif x.storage == SPARSE_FLOAT32_INT32:
        copy_arrays(<const float*> x.values, <const int32_t*> x.indices, x.size, values, columns)
    elif x.storage == SPARSE_FLOAT64_INT64:
        copy_arrays(<const double*> x.values, <const int64_t*> x.indices, x.size, values, columns)
    else:
        copy_arrays(<const float*> x.values, <const int64_t*> x.indices, x.size, values, columns)


cdef enum:
    LANES = 16                # of dense loops, which add fewer entries one after another


cdef inline double squared_norm(const Line* x) noexcept nogil:
    """|x|^2"""
    cdef Py_ssize_t stride = x.stride if is_dense(x.storage) else 1
    cdef bint narrow = stride != 1 or (x.size < LANES and not is_dense(x.storage))
    cdef double total
    if value_bytes(x.storage) == 4:
        if narrow:
            total = sum_of_squares(<const float*> x.values, stride, x.size)
        else:
            total = dense_squares32(<const float*> x.values, x.size)
    elif narrow:
        total = sum_of_squares(<const double*> x.values, stride, x.size)
    else:
        total = dense_squares64(<const double*> x.values, x.size)
    return total + x.constant * x.constant


# Several dense lines at once, summed as single ones are, so that they give the same bits. Later
# lines are prefetched meanwhile: where a pass does more than read, or rows end in the midst of a
# cache line, the processor's own prefetching comes too late.

cdef enum:
    ROWS = 4                  # as many as SUBLINEAR_ROWS
    BYTES_AHEAD = 1 << 14     # how far ahead lines are prefetched into the second cache
    BYTES_NEAR = 1 << 12      # and, later, from there into the first one

# Where lines begin: those read now, and those prefetched into the first and the second cache.
cdef struct Several:
    const char* rows[ROWS]
    const char* near[ROWS]
    const char* next[ROWS]
    Py_ssize_t near_ahead, next_ahead    # by so many lines


cdef inline Py_ssize_t rows_within(const Lines* lines, Py_ssize_t n_bytes) noexcept nogil:
    """How many pairs of dense lines there are in so many bytes, counted in lines."""
    cdef Py_ssize_t line_bytes = lines.length * value_bytes(lines.storage)
    return n_bytes // max(1, line_bytes) // 2 * 2


cdef inline void set_several(Several* several, const Lines* lines) noexcept nogil:
    several.near_ahead = rows_within(lines, BYTES_NEAR)
    several.next_ahead = max(2, rows_within(lines, BYTES_AHEAD))


cdef inline void row_addresses(
    const Lines* lines, const uint32_t* order, Py_ssize_t first, Py_ssize_t last, const char** rows
) noexcept nogil:
    """Of ROWS lines from the place `first` on, or of the last one."""
    cdef Py_ssize_t line_bytes = lines.line_stride * value_bytes(lines.storage), k, place
    for k in range(ROWS):
        place = min(first + k, last)
        rows[k] = lines.values + (place if order == NULL else order[place]) * line_bytes


cdef inline void take_several(
    Several* several, const Lines* lines, const uint32_t* order, Py_ssize_t first, Py_ssize_t stop
) noexcept nogil:
    """Take the lines from `first` on or, unless it is NULL, of that place of `order`."""
    row_addresses(lines, order, first, stop - 1, several.rows)
    row_addresses(lines, order, first + several.near_ahead, stop - 1, several.near)
    row_addresses(lines, order, first + several.next_ahead, stop - 1, several.next)


cdef inline void add_constants(
    const Lines* lines, Py_ssize_t count, const double* x, double* dots
) noexcept nogil:
    cdef Py_ssize_t k
    if lines.constant != 0:
        for k in range(count):
            dots[k] += lines.constant * x[lines.length]


cdef inline void dot_rows(
    const Lines* lines, const char* const* rows, const char* const* near, const char* const* next,
    Py_ssize_t count, const double* x, double* dots
) noexcept nogil:
    """dots[k] = <line at rows[k], x>; `near` may be NULL"""
    if lines.storage == DENSE_FLOAT32:
        dense_dots32(
            <const float* const*> rows, <const float* const*> near, <const float* const*> next,
            count, lines.length, x, dots)
    else:
        dense_dots64(
            <const double* const*> rows, <const double* const*> near, <const double* const*> next,
            count, lines.length, x, dots)
    add_constants(lines, count, x, dots)


cdef inline void dot_and_square_rows(
    const Lines* lines, const Several* several, const double* x, double* dots, double* squares
) noexcept nogil:
    """What `dot_rows` does, and squares[k] = |line k|^2"""
    cdef Py_ssize_t k
    if lines.storage == DENSE_FLOAT32:
        dense_dots_squares32(
            <const float* const*> several.rows, <const float* const*> several.near,
            <const float* const*> several.next, lines.length, x, dots, squares)
    else:
        dense_dots_squares64(
            <const double* const*> several.rows, <const double* const*> several.near,
            <const double* const*> several.next, lines.length, x, dots, squares)
    add_constants(lines, ROWS, x, dots)
    for k in range(ROWS):
        squares[k] += lines.constant * lines.constant


cdef inline void dot_and_add_rows(
    const Lines* lines, const Several* several, const double* x, double* dots,
    const double* factors, double* w
) noexcept nogil:
    """What `dot_rows` does, and w += sum_k factors[k] * line k"""
    cdef Py_ssize_t k
    if lines.storage == DENSE_FLOAT32:
        dense_dots_add32(
            <const float* const*> several.rows, <const float* const*> several.near,
            <const float* const*> several.next, lines.length, x, dots, factors, w)
    else:
        dense_dots_add64(
            <const double* const*> several.rows, <const double* const*> several.near,
            <const double* const*> several.next, lines.length, x, dots, factors, w)
    add_constants(lines, ROWS, x, dots)
    if lines.constant != 0:
        for k in range(ROWS):
            w[lines.length] += factors[k] * lines.constant


# Single entries, for what cannot go through a line at once.

cdef inline Py_ssize_t entry_index(const Line* x, Py_ssize_t k) noexcept nogil:
    """The place of stored entry k"""
    if is_dense(x.storage):
        return k
    if has_int32(x.storage):
        return (<const int32_t*> x.indices)[k]
    if x.storage == SPARSE_FLOAT32_UINT8:
        return (<const uint8_t*> x.indices)[k]
    return (<const int64_t*> x.indices)[k]


cdef inline double entry_value(const Line* x, Py_ssize_t k) noexcept nogil:
    """The value of stored entry k"""
    cdef Py_ssize_t place = k * x.stride if is_dense(x.storage) else k
    if value_bytes(x.storage) == 4:
        return (<const float*> x.values)[place]
    return (<const double*> x.values)[place]


cdef inline void prefetch_entry(const Line* x, Py_ssize_t k) noexcept nogil:
    """Ask for entry k, or for what would be there, if entries of a dense line lie apart."""
    if is_dense(x.storage) and x.stride != 1:
        prefetch(x.values + k * x.stride * value_bytes(x.storage))


cdef inline double value_at(const Line* x, Py_ssize_t j) noexcept nogil:
    """x_j, found by bisection where x is sparse"""
    cdef Py_ssize_t low = 0, high = x.size, middle
    if is_dense(x.storage):
        return entry_value(x, j)
    while low < high:
        middle = (low + high) // 2
        if entry_index(x, middle) < j:
            low = middle + 1
        else:
            high = middle
    return entry_value(x, low) if low < x.size and entry_index(x, low) == j else 0
