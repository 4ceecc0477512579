/* Several dense lines at once. Adjacent columns of data in row order: every row has them in one or two
   cache lines, and rows are far apart, so what counts is how many rows are on their way from memory
   at the same time. */
#ifndef SUBLINEAR_ADJACENT_H
#define SUBLINEAR_ADJACENT_H

#include "vectors.h"

/* More would push each other out where rows are a power of two apart, and wait for page tables in data
   of some gigabytes. */
enum { SUBLINEAR_ROWS_AHEAD = 16 };

/* w[k] += sum_c factors[c] * values[k * stride + c] */
#define SUBLINEAR_ADD_SOME(name, real)                                                      \
    static void name(const real *values, ptrdiff_t stride, ptrdiff_t size, ptrdiff_t count, \
                     const double *factors, double *w)                                      \
    {                                                                                       \
        for (ptrdiff_t k = 0; k < size; k++, values += stride) {                            \
            double total = 0;                                                               \
            for (ptrdiff_t c = 0; c < count; c++)                                           \
                total += factors[c] * (double)values[c];                                    \
            w[k] += total;                                                                  \
        }                                                                                   \
    }

SUBLINEAR_ADD_SOME(sublinear_add_some_float, float)
SUBLINEAR_ADD_SOME(sublinear_add_some_double, double)

/* w += sum_r factors[r] * rows[r] for four dense lines: w is read and written once, and the lines come
   from memory side by side, at twice the speed of one after the other. */
#define SUBLINEAR_ADD_ROWS(name, real)                                                      \
    SUBLINEAR_WIDEST static void name(const real *restrict a, const real *restrict b,       \
                                      const real *restrict c, const real *restrict d,       \
                                      const double *factors, double *restrict w,            \
                                      ptrdiff_t size)                                       \
    {                                                                                       \
        const double fa = factors[0], fb = factors[1], fc = factors[2], fd = factors[3];    \
        for (ptrdiff_t k = 0; k < size; k++)                                                \
            w[k] = (((w[k] + fa * a[k]) + fb * b[k]) + fc * c[k]) + fd * d[k];              \
    }

SUBLINEAR_ADD_ROWS(sublinear_add_rows_float, float)
SUBLINEAR_ADD_ROWS(sublinear_add_rows_double, double)

#if SUBLINEAR_VECTORS
static inline double sublinear_sum_of_lanes(const sublinear_lanes *lanes)
{
    sublinear_quad quad = {0};
    sublinear_add_halves(lanes, &quad);
    return sublinear_sum_of_quad(&quad);
}

/* Whether some of the rows have their 64 bytes in two cache lines. */
static inline int sublinear_spans_two_lines(const void *values, size_t stride_bytes)
{
    return (uintptr_t)values % 64 != 0 || stride_bytes % 64 != 0;
}

/* The same for a whole cache line of columns: 16 floats, 8 doubles. */
SUBLINEAR_WIDEST static void sublinear_add_line_float(
    const float *values, ptrdiff_t stride, ptrdiff_t size, const double *factors, double *w)
{
    const int two_lines = sublinear_spans_two_lines(values, stride * sizeof(float));
    sublinear_lanes low, high, a, b;
    memcpy(&low, factors, sizeof(low));
    memcpy(&high, factors + SUBLINEAR_LANES, sizeof(high));
    for (ptrdiff_t k = 0; k < size; k++, values += stride) {
        if (k + SUBLINEAR_ROWS_AHEAD < size) {
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride);
            if (two_lines)
                sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride + 15);
        }
        SUBLINEAR_LOAD_float(a, values);
        SUBLINEAR_LOAD_float(b, values + SUBLINEAR_LANES);
        a = a * low + b * high;
        w[k] += sublinear_sum_of_lanes(&a);
    }
}

SUBLINEAR_WIDEST static void sublinear_add_line_double(
    const double *values, ptrdiff_t stride, ptrdiff_t size, const double *factors, double *w)
{
    const int two_lines = sublinear_spans_two_lines(values, stride * sizeof(double));
    sublinear_lanes low, a;
    memcpy(&low, factors, sizeof(low));
    for (ptrdiff_t k = 0; k < size; k++, values += stride) {
        if (k + SUBLINEAR_ROWS_AHEAD < size) {
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride);
            if (two_lines)
                sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride + 7);
        }
        memcpy(&a, values, sizeof(a));
        a *= low;
        w[k] += sublinear_sum_of_lanes(&a);
    }
}
#else
#define sublinear_add_line_float(values, stride, size, factors, w) \
    sublinear_add_some_float(values, stride, size, 16, factors, w)
#define sublinear_add_line_double(values, stride, size, factors, w) \
    sublinear_add_some_double(values, stride, size, 8, factors, w)
#endif

#endif
