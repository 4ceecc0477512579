/* Loops over many rows of CSR arrays, whose types are looked at once. Columns ascend, but where that is
   checked. Rows may begin with entries in adjacent columns, as where the first columns of a table are
   always filled: these go four at a time. Later ones do not, as processors cannot foresee where they come. */
#ifndef SUBLINEAR_SPARSE_ROWS_H
#define SUBLINEAR_SPARSE_ROWS_H

#include "vectors.h"

/* Defines NAME for all types, and a function that calls the right one. */
#define SUBLINEAR_SPARSE_TYPES(MAKE, name)                                                  \
    MAKE(name##_double_int32, double, int32_t)                                              \
    MAKE(name##_double_int64, double, int64_t)                                              \
    MAKE(name##_float_int32, float, int32_t)                                                \
    MAKE(name##_float_int64, float, int64_t)

#define SUBLINEAR_CALL_SPARSE(name, ...)                                                    \
    do {                                                                                    \
        if (value_bytes == 8 && index_bytes == 4)                                           \
            name##_double_int32(values, indices, __VA_ARGS__);                     \
        else if (value_bytes == 8)                                                          \
            name##_double_int64(values, indices, __VA_ARGS__);                     \
        else if (index_bytes == 4)                                                          \
            name##_float_int32(values, indices, __VA_ARGS__);                      \
        else                                                                                \
            name##_float_int64(values, indices, __VA_ARGS__);                      \
    } while (0)

/* How many rows ahead products prefetch offsets and entries: they follow each other faster than steps do.
   Entries are prefetched once more, into the first cache, as loads that span two cache lines wait long
   for the second one. */
enum { SUBLINEAR_OFFSETS = 48, SUBLINEAR_ENTRIES = 32, SUBLINEAR_ENTRIES_NEAR = 4 };

/* The first two cache lines, or the only one and its end. */
static inline void sublinear_prefetch_near_start(const void *start, const void *end)
{
    const char *at = (const char *)start, *last = (const char *)end - 1;
    sublinear_prefetch_near(at);
    at += SUBLINEAR_CACHE_LINE;
    sublinear_prefetch_near(at < last ? at : last);
}

/* Whether the next four entries are in adjacent columns. */
#define SUBLINEAR_ADJACENT_ENTRIES (k + 4 <= end && indices[k + 3] - indices[k] == 3)

/* Products, summed in the order of line.pxd: in vectors at the beginning of a row, and those of long rows
   until few are left, for which gathering weights in vectors does not pay. */
#if SUBLINEAR_VECTORS
enum { SUBLINEAR_FEW = 16 };

#define SUBLINEAR_AT_ONCE(target, w) SUBLINEAR_QUAD_double(target, (w) + indices[k])
#define SUBLINEAR_GATHERED(target, w)                                                       \
    (target) = (sublinear_quad){(w)[indices[k]], (w)[indices[k + 1]], (w)[indices[k + 2]],  \
                                (w)[indices[k + 3]]}
#define SUBLINEAR_ADD_WHILE(condition, LOAD, real, SECOND)                                  \
    for (; condition; k += 4) {                                                             \
        SUBLINEAR_QUAD_##real(x, values + k);                                               \
        LOAD(a, w);                                                                         \
        sums += x * a;                                                                      \
        if (SECOND) {                                                                       \
            LOAD(a, v);                                                                     \
            seconds += x * a;                                                               \
        }                                                                                   \
    }
#define SUBLINEAR_ADD_IN_VECTORS(real, SECOND)                                              \
    {                                                                                       \
        sublinear_quad x, a, sums = {0}, seconds = {0};                                     \
        SUBLINEAR_ADD_WHILE(SUBLINEAR_ADJACENT_ENTRIES, SUBLINEAR_AT_ONCE, real, SECOND)    \
        SUBLINEAR_ADD_WHILE(k + SUBLINEAR_FEW < end, SUBLINEAR_GATHERED, real, SECOND)      \
        for (int i = 0; i < 4; i++) {                                                       \
            sum[i] = sums[i];                                                               \
            second[i] = seconds[i];                                                         \
        }                                                                                   \
    }
#else
#define SUBLINEAR_ADD_IN_VECTORS(real, SECOND)
#endif

#define SUBLINEAR_DOT_SPARSE_ROWS(real, integer, SECOND)                                    \
    for (ptrdiff_t r = start; r < stop; r++) {                                              \
        const ptrdiff_t row = order == NULL ? r : (ptrdiff_t)order[r];                      \
        const ptrdiff_t end = offsets[row + 1];                                             \
        ptrdiff_t k = offsets[row];                                                         \
        double sum[4] = {0}, second[4] = {0};                                               \
        if (order != NULL && r + SUBLINEAR_OFFSETS < stop) {                                \
            const integer *later = offsets + order[r + SUBLINEAR_ENTRIES];                  \
            const integer *soon = offsets + order[r + SUBLINEAR_ENTRIES_NEAR];              \
            sublinear_prefetch(offsets + order[r + SUBLINEAR_OFFSETS]);                     \
            sublinear_prefetch_span(values + later[0], values + later[1]);                  \
            sublinear_prefetch_span(indices + later[0], indices + later[1]);                \
            sublinear_prefetch_near_start(values + soon[0], values + soon[1]);              \
            sublinear_prefetch_near_start(indices + soon[0], indices + soon[1]);            \
        }                                                                                   \
        SUBLINEAR_ADD_IN_VECTORS(real, SECOND)                                              \
        for (; k + 4 <= end; k += 4)                                                        \
            for (int i = 0; i < 4; i++) {                                                   \
                sum[i] += values[k + i] * w[indices[k + i]];                                \
                if (SECOND)                                                                 \
                    second[i] += values[k + i] * v[indices[k + i]];                         \
            }                                                                               \
        for (; k < end; k++) {                                                              \
            sum[0] += values[k] * w[indices[k]];                                            \
            if (SECOND)                                                                     \
                second[0] += values[k] * v[indices[k]];                                     \
        }                                                                                   \
        dots[r - start] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                            \
        if (SECOND)                                                                         \
            seconds[r - start] = (second[0] + second[1]) + (second[2] + second[3]);         \
    }

#define SUBLINEAR_DOT_SPARSE(name, real, integer)                                           \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *values, const integer *indices, const integer *offsets,                 \
        const uint32_t *order, ptrdiff_t start, ptrdiff_t stop, const double *w,            \
        const double *v, double *dots, double *seconds)                                     \
    {                                                                                       \
        if (v == NULL) {                                                                    \
            SUBLINEAR_DOT_SPARSE_ROWS(real, integer, 0)                                     \
        } else {                                                                            \
            SUBLINEAR_DOT_SPARSE_ROWS(real, integer, 1)                                     \
        }                                                                                   \
    }

SUBLINEAR_SPARSE_TYPES(SUBLINEAR_DOT_SPARSE, sublinear_dot_sparse)

/* dots_r = <x_i, w> and, unless v is NULL, seconds_r = <x_i, v> for the rows i = start .. stop - 1 or, where
   there is an order, those of order[start] .. order[stop - 1], which are prefetched. */
static inline void sublinear_dot_sparse(
    int value_bytes, int index_bytes, const void *values, const void *indices,
    const void *offsets, const uint32_t *order, ptrdiff_t start, ptrdiff_t stop,
    const double *w, const double *v, double *dots, double *seconds)
{
    SUBLINEAR_CALL_SPARSE(sublinear_dot_sparse, offsets, order, start, stop, w, v, dots, seconds);
}

/* The entries of the longest row; -1 if the offsets are not those of rows. */
#define SUBLINEAR_LONGEST_ROW(name, integer)                                                \
    SUBLINEAR_WIDEST static ptrdiff_t name(const integer *offsets, ptrdiff_t n_rows)        \
    {                                                                                       \
        integer longest = 0;                                                                \
        int broken = 0;                                                                     \
        for (ptrdiff_t r = 0; r < n_rows; r++)                                              \
            broken |= offsets[r + 1] < offsets[r];                                          \
        if (broken || offsets[0] != 0)                                                      \
            return -1;                                                                      \
        for (ptrdiff_t r = 0; r < n_rows; r++) {                                            \
            const integer size = offsets[r + 1] - offsets[r];                               \
            longest = size > longest ? size : longest;                                      \
        }                                                                                   \
        return longest;                                                                     \
    }

SUBLINEAR_LONGEST_ROW(sublinear_longest_row_int32, int32_t)
SUBLINEAR_LONGEST_ROW(sublinear_longest_row_int64, int64_t)

/* 0: the columns of the rows start .. stop - 1 ascend; 1: they do not, or some are repeated; 2: some are
   outside the matrix. Falls, indices that do not exceed the one before, are counted without regard to
   rows, so that vectors of them can be; each has to begin a row. */
#define SUBLINEAR_CHECK_COLUMNS(name, integer, natural, most)                               \
    SUBLINEAR_WIDEST static int name(const integer *indices, const integer *offsets,        \
                                     ptrdiff_t start, ptrdiff_t stop, ptrdiff_t n_columns)  \
    {                                                                                       \
        const ptrdiff_t first = offsets[start], end = offsets[stop];                        \
        const natural limit = n_columns > (most) ? (natural)(most) + 1 : (natural)n_columns;\
        integer n_falls = 0;                                                                \
        int outside = first < end && (natural)indices[first] >= limit;                      \
        for (ptrdiff_t k = first + 1; k < end; k++) {                                       \
            n_falls += indices[k] <= indices[k - 1];                                        \
            outside |= (natural)indices[k] >= limit;                                        \
        }                                                                                   \
        for (ptrdiff_t r = start; r < stop; r++) {                                          \
            const ptrdiff_t k = offsets[r];                                                 \
            if (first < k && k < offsets[r + 1])                                            \
                n_falls -= indices[k] <= indices[k - 1];                                    \
        }                                                                                   \
        return outside ? 2 : n_falls > 0;                                                   \
    }

SUBLINEAR_CHECK_COLUMNS(sublinear_check_columns_int32, int32_t, uint32_t, INT32_MAX)
SUBLINEAR_CHECK_COLUMNS(sublinear_check_columns_int64, int64_t, uint64_t, INT64_MAX)

/* sum += factor * x and, WITH_SQUARES, squares += weight * x^2 for entries k .. end - 1 of a sparse row,
   columns ascending. */
#if SUBLINEAR_VECTORS
#define SUBLINEAR_ADD_BEGINNING(real, WITH_SQUARES)                                         \
    for (; SUBLINEAR_ADJACENT_ENTRIES; k += 4) {                                            \
        sublinear_quad x, s, q;                                                             \
        SUBLINEAR_QUAD_##real(x, values + k);                                               \
        SUBLINEAR_QUAD_double(s, sum + indices[k]);                                         \
        s += factor * x;                                                                    \
        memcpy(sum + indices[k], &s, sizeof(s));                                            \
        if (WITH_SQUARES) {                                                                 \
            SUBLINEAR_QUAD_double(q, squares + indices[k]);                                 \
            q += weight * x * x;                                                            \
            memcpy(squares + indices[k], &q, sizeof(q));                                    \
        }                                                                                   \
    }
#else
#define SUBLINEAR_ADD_BEGINNING(real, WITH_SQUARES)
#endif

#define SUBLINEAR_ADD_ENTRIES(real, WITH_SQUARES)                                           \
    SUBLINEAR_ADD_BEGINNING(real, WITH_SQUARES)                                             \
    for (; k < end; k++) {                                                                  \
        const double x = values[k];                                                         \
        sum[indices[k]] += factor * x;                                                      \
        if (WITH_SQUARES)                                                                   \
            squares[indices[k]] += weight * x * x;                                          \
    }

/* the same for all entries of the rows order[r]. No weights: all are 1; no squares: they are not asked for. */
#define SUBLINEAR_ADD_SPARSE(name, real, integer)                                           \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *values, const integer *indices, const integer *offsets,                 \
        const uint32_t *order, ptrdiff_t count, const double *factors,                      \
        const double *weights, double *restrict sum, double *restrict squares)              \
    {                                                                                       \
        for (ptrdiff_t r = 0; r < count; r++) {                                             \
            const double factor = factors[r], weight = weights == NULL ? 1.0 : weights[r];  \
            const ptrdiff_t end = offsets[order[r] + 1];                                    \
            ptrdiff_t k = offsets[order[r]];                                                \
            if (squares == NULL) {                                                          \
                SUBLINEAR_ADD_ENTRIES(real, 0)                                              \
            } else {                                                                        \
                SUBLINEAR_ADD_ENTRIES(real, 1)                                              \
            }                                                                               \
        }                                                                                   \
    }

SUBLINEAR_SPARSE_TYPES(SUBLINEAR_ADD_SPARSE, sublinear_add_sparse)

static inline void sublinear_add_sparse(
    int value_bytes, int index_bytes, const void *values, const void *indices,
    const void *offsets, const uint32_t *order, ptrdiff_t count, const double *factors,
    const double *weights, double *sum, double *squares)
{
    SUBLINEAR_CALL_SPARSE(
        sublinear_add_sparse, offsets, order, count, factors, weights, sum, squares);
}

/* gram += sum over the sparse rows x = order[r] of weights_r x x', in and above the diagonal. */
#define SUBLINEAR_ADD_SPARSE_GRAM(name, real, integer)                                      \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *values, const integer *indices, const integer *offsets,                 \
        const uint32_t *order, ptrdiff_t count, const double *weights, ptrdiff_t pitch,     \
        double *restrict gram)                                                              \
    {                                                                                       \
        for (ptrdiff_t r = 0; r < count; r++) {                                             \
            const ptrdiff_t end = offsets[order[r] + 1];                                    \
            for (ptrdiff_t i = offsets[order[r]]; i < end; i++) {                           \
                const double factor = weights[r] * values[i], weight = 0.0;                 \
                double *restrict sum = gram + indices[i] * pitch, *squares = NULL;          \
                ptrdiff_t k = i;                                                            \
                SUBLINEAR_ADD_ENTRIES(real, 0)                                              \
            }                                                                               \
        }                                                                                   \
    }

SUBLINEAR_SPARSE_TYPES(SUBLINEAR_ADD_SPARSE_GRAM, sublinear_add_sparse_gram)

static inline void sublinear_add_sparse_gram(
    int value_bytes, int index_bytes, const void *values, const void *indices,
    const void *offsets, const uint32_t *order, ptrdiff_t count, const double *weights,
    ptrdiff_t pitch, double *gram)
{
    SUBLINEAR_CALL_SPARSE(sublinear_add_sparse_gram, offsets, order, count, weights, pitch, gram);
}

#endif
