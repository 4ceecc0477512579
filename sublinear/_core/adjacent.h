/* Adjacent columns of dense data in row order: every row has them in one or two cache lines, and rows
   are far apart, so what counts is how many rows are on their way from memory at the same time. */
#ifndef SUBLINEAR_ADJACENT_H
#define SUBLINEAR_ADJACENT_H

#include "portable.h"

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

#if SUBLINEAR_VECTORS
static inline double sublinear_lane_sum(const sublinear_lanes *v)
{
    return (((*v)[0] + (*v)[4]) + ((*v)[1] + (*v)[5])) + (((*v)[2] + (*v)[6]) + ((*v)[3] + (*v)[7]));
}

/* The same for a whole cache line of columns: 16 floats, 8 doubles. */
SUBLINEAR_WIDEST static void sublinear_add_line_float(
    const float *values, ptrdiff_t stride, ptrdiff_t size, const double *factors, double *w)
{
    sublinear_lanes low, high, a, b;
    memcpy(&low, factors, sizeof(low));
    memcpy(&high, factors + SUBLINEAR_LANES, sizeof(high));
    for (ptrdiff_t k = 0; k < size; k++, values += stride) {
        if (k + SUBLINEAR_ROWS_AHEAD < size) {
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride);
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride + 15);
        }
        SUBLINEAR_LOAD_float(a, values);
        SUBLINEAR_LOAD_float(b, values + SUBLINEAR_LANES);
        a = a * low + b * high;
        w[k] += sublinear_lane_sum(&a);
    }
}

SUBLINEAR_WIDEST static void sublinear_add_line_double(
    const double *values, ptrdiff_t stride, ptrdiff_t size, const double *factors, double *w)
{
    sublinear_lanes low, a;
    memcpy(&low, factors, sizeof(low));
    for (ptrdiff_t k = 0; k < size; k++, values += stride) {
        if (k + SUBLINEAR_ROWS_AHEAD < size) {
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride);
            sublinear_prefetch(values + SUBLINEAR_ROWS_AHEAD * stride + 7);
        }
        memcpy(&a, values, sizeof(a));
        a *= low;
        w[k] += sublinear_lane_sum(&a);
    }
}
#else
#define sublinear_add_line_float(values, stride, size, factors, w) \
    sublinear_add_some_float(values, stride, size, 16, factors, w)
#define sublinear_add_line_double(values, stride, size, factors, w) \
    sublinear_add_some_double(values, stride, size, 8, factors, w)
#endif

#endif
