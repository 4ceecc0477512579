/* Loops over several dense rows at once. Every sum is gathered in the order of the rows, so that the
   bits are those of one row after the other. */
#ifndef SUBLINEAR_ROW_GROUPS_H
#define SUBLINEAR_ROW_GROUPS_H

#include <string.h>

#include "portable.h"

/* dots_r = <x_r, w> for rows r = 0 .. count - 1, in eight partial sums that are added up by halves:
   quicker for short rows than the order of portable.h, and like it the same for any vectors. */
#if SUBLINEAR_VECTORS
typedef double sublinear_half __attribute__((vector_size(32)));

static inline sublinear_half sublinear_halved(const sublinear_lanes *lanes)
{
    sublinear_half low, high;
    memcpy(&low, lanes, sizeof(low));
    memcpy(&high, (const char *)lanes + sizeof(low), sizeof(high));
    return low + high;
}

static inline double sublinear_sum_of_lanes(const sublinear_lanes *lanes)
{
    const sublinear_half sum = sublinear_halved(lanes);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* the same of four rows, abreast */
static inline void sublinear_sums_of_lanes(const sublinear_lanes *lanes, double *sums)
{
    const sublinear_half a = sublinear_halved(lanes), b = sublinear_halved(lanes + 1);
    const sublinear_half c = sublinear_halved(lanes + 2), d = sublinear_halved(lanes + 3);
    const sublinear_half ab = (sublinear_half){a[0], a[1], b[0], b[1]}
                              + (sublinear_half){a[2], a[3], b[2], b[3]};
    const sublinear_half cd = (sublinear_half){c[0], c[1], d[0], d[1]}
                              + (sublinear_half){c[2], c[3], d[2], d[3]};
    const sublinear_half sum = (sublinear_half){ab[0], ab[2], cd[0], cd[2]}
                               + (sublinear_half){ab[1], ab[3], cd[1], cd[3]};
    memcpy(sums, &sum, sizeof(sum));
}

#define SUBLINEAR_DOT_GROUP(name, real)                                                     \
    SUBLINEAR_WIDEST static void name(const real *const *rows, ptrdiff_t count,             \
                                      const double *w, double *dots, ptrdiff_t size)        \
    {                                                                                       \
        const ptrdiff_t whole = size - size % SUBLINEAR_LANES;                              \
        const ptrdiff_t last = size - SUBLINEAR_LANES;                                      \
        sublinear_lanes end = {0}, sum[SUBLINEAR_ROWS], x, v;                               \
        ptrdiff_t k, r = 0;                                                                 \
        int i;                                                                              \
        for (k = whole; k < size && last >= 0; k++)                                         \
            end[k - last] = w[k];                                                           \
        for (; r + SUBLINEAR_ROWS <= count && last >= 0; r += SUBLINEAR_ROWS) {             \
            for (i = 0; i < SUBLINEAR_ROWS; i++) {                                          \
                SUBLINEAR_LOAD_##real(x, rows[r + i] + last);                               \
                sum[i] = x * end;                                                           \
            }                                                                               \
            for (k = 0; k < whole; k += SUBLINEAR_LANES) {                                  \
                SUBLINEAR_LOAD_double(v, w + k);                                            \
                for (i = 0; i < SUBLINEAR_ROWS; i++) {                                      \
                    SUBLINEAR_LOAD_##real(x, rows[r + i] + k);                              \
                    sum[i] += x * v;                                                        \
                }                                                                           \
            }                                                                               \
            sublinear_sums_of_lanes(sum, dots + r);                                         \
        }                                                                                   \
        for (; r < count; r++) {                                                            \
            sum[0] = end * 0.0;                                                             \
            if (last >= 0) {                                                                \
                SUBLINEAR_LOAD_##real(x, rows[r] + last);                                   \
                sum[0] = x * end;                                                           \
            }                                                                               \
            for (k = 0; k < whole; k += SUBLINEAR_LANES) {                                  \
                SUBLINEAR_LOAD_double(v, w + k);                                            \
                SUBLINEAR_LOAD_##real(x, rows[r] + k);                                      \
                sum[0] += x * v;                                                            \
            }                                                                               \
            dots[r] = sublinear_sum_of_lanes(&sum[0]);                                      \
            for (k = 0; k < size && last < 0; k++)                                          \
                dots[r] += rows[r][k] * w[k];                                               \
        }                                                                                   \
    }
#else
#define SUBLINEAR_DOT_GROUP(name, real)                                                     \
    static void name(const real *const *rows, ptrdiff_t count, const double *w,             \
                     double *dots, ptrdiff_t size)                                          \
    {                                                                                       \
        for (ptrdiff_t r = 0; r < count; r++)                                               \
            dots[r] = sublinear_dot_##real(rows[r], w, size);                               \
    }
#endif

SUBLINEAR_DOT_GROUP(sublinear_dot_group_float, float)
SUBLINEAR_DOT_GROUP(sublinear_dot_group_double, double)

/* sum += factor_r * x_r, squares += weight_r * x_r^2 for rows r = 0 .. count - 1, whose values are in
   the nearest cache: the sums of some columns stay in registers for all rows. No weights: all are 1. */
#if SUBLINEAR_VECTORS
enum { SUBLINEAR_ABREAST = 3 }; /* lanes whose sums are in registers at the same time */

#define SUBLINEAR_ADD_ABREAST(real, lanes, WEIGHTED)                                        \
    for (r = 0; r < count; r++)                                                             \
        for (i = 0; i < (lanes); i++) {                                                     \
            SUBLINEAR_LOAD_##real(x, rows[r] + at[i]);                                      \
            s[i] += factors[r] * x;                                                         \
            q[i] += WEIGHTED(x) * x;                                                        \
        }
#define SUBLINEAR_ONCE(x) (x)
#define SUBLINEAR_TIMES_WEIGHT(x) (weights[r] * (x))

#define SUBLINEAR_ADD_LANES(real, lanes)                                                    \
    if (weights == NULL) {                                                                  \
        SUBLINEAR_ADD_ABREAST(real, lanes, SUBLINEAR_ONCE)                                  \
    } else {                                                                                \
        SUBLINEAR_ADD_ABREAST(real, lanes, SUBLINEAR_TIMES_WEIGHT)                          \
    }

#define SUBLINEAR_ADD_WIDE(real)                                                            \
    sublinear_lanes s[SUBLINEAR_ABREAST], q[SUBLINEAR_ABREAST], x;                          \
    ptrdiff_t at[SUBLINEAR_ABREAST];                                                        \
    int i, lanes;                                                                           \
    while (done < size && size >= SUBLINEAR_LANES) {                                        \
        /* the last lanes may begin among columns that are done: these are not stored */    \
        for (lanes = 0; lanes < SUBLINEAR_ABREAST; lanes++) {                               \
            at[lanes] = done + lanes * SUBLINEAR_LANES;                                     \
            if (at[lanes] >= size)                                                          \
                break;                                                                      \
            if (at[lanes] > size - SUBLINEAR_LANES)                                         \
                at[lanes] = size - SUBLINEAR_LANES;                                         \
            SUBLINEAR_LOAD_double(s[lanes], sum + at[lanes]);                               \
            SUBLINEAR_LOAD_double(q[lanes], squares + at[lanes]);                           \
        }                                                                                   \
        if (lanes == 3) {                                                                   \
            SUBLINEAR_ADD_LANES(real, 3)                                                    \
        } else if (lanes == 2) {                                                            \
            SUBLINEAR_ADD_LANES(real, 2)                                                    \
        } else {                                                                            \
            SUBLINEAR_ADD_LANES(real, 1)                                                    \
        }                                                                                   \
        for (i = 0; i < lanes; i++)                                                         \
            for (; done < at[i] + SUBLINEAR_LANES; done++) {                                \
                sum[done] = s[i][done - at[i]];                                             \
                squares[done] = q[i][done - at[i]];                                         \
            }                                                                               \
    }
#else
#define SUBLINEAR_ADD_WIDE(real)
#endif

#define SUBLINEAR_ADD_GROUP(name, real)                                                     \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *const *rows, ptrdiff_t count, const double *factors,                    \
        const double *weights, double *restrict sum, double *restrict squares,              \
        ptrdiff_t size)                                                                     \
    {                                                                                       \
        ptrdiff_t done = 0, r, k;                                                           \
        SUBLINEAR_ADD_WIDE(real)                                                            \
        for (r = 0; r < count && done < size; r++)                                          \
            for (k = 0; k < size; k++) {                                                    \
                const double value = rows[r][k];                                            \
                sum[k] += factors[r] * value;                                               \
                squares[k] += (weights == NULL ? 1.0 : weights[r]) * value * value;         \
            }                                                                               \
    }

SUBLINEAR_ADD_GROUP(sublinear_add_group_float, float)
SUBLINEAR_ADD_GROUP(sublinear_add_group_double, double)

/* gram += sum over r of scaled_r x_r', in and above the diagonal. Rows and gram have a pitch that is a
   multiple of eight; the sums of some entries stay in registers for all rows. */
#if SUBLINEAR_VECTORS
enum { SUBLINEAR_TALL = 4 };

#define SUBLINEAR_GRAM_TILE(lanes)                                                          \
    {                                                                                       \
        sublinear_lanes s[SUBLINEAR_TALL][lanes], v[lanes];                                 \
        memcpy(s[0], gram + i * pitch + j, sizeof(s[0]));                                   \
        memcpy(s[1], gram + (i + 1) * pitch + j, sizeof(s[0]));                             \
        memcpy(s[2], gram + (i + 2) * pitch + j, sizeof(s[0]));                             \
        memcpy(s[3], gram + (i + 3) * pitch + j, sizeof(s[0]));                             \
        for (r = 0; r < count; r++) {                                                       \
            const double *x = rows + r * pitch + j, *y = scaled + r * pitch + i;            \
            for (b = 0; b < (lanes); b++)                                                   \
                SUBLINEAR_LOAD_double(v[b], x + b * SUBLINEAR_LANES);                       \
            for (a = 0; a < SUBLINEAR_TALL; a++)                                            \
                for (b = 0; b < (lanes); b++)                                               \
                    s[a][b] += y[a] * v[b];                                                 \
        }                                                                                   \
        for (a = 0; a < SUBLINEAR_TALL; a++)                                                \
            memcpy(gram + (i + a) * pitch + j, s[a], sizeof(s[a]));                         \
    }

SUBLINEAR_WIDEST static void sublinear_add_gram(
    const double *rows, const double *scaled, ptrdiff_t count, ptrdiff_t pitch,
    double *restrict gram)
{
    ptrdiff_t i, j, r;
    int a, b;
    for (i = 0; i < pitch; i += SUBLINEAR_TALL) {
        for (j = i - i % SUBLINEAR_LANES; j + 2 * SUBLINEAR_LANES <= pitch;
             j += 2 * SUBLINEAR_LANES)
            SUBLINEAR_GRAM_TILE(2)
        if (j < pitch)
            SUBLINEAR_GRAM_TILE(1)
    }
}
#else
static void sublinear_add_gram(
    const double *rows, const double *scaled, ptrdiff_t count, ptrdiff_t pitch, double *gram)
{
    for (ptrdiff_t r = 0; r < count; r++)
        for (ptrdiff_t i = 0; i < pitch; i++)
            for (ptrdiff_t j = i - i % SUBLINEAR_LANES; j < pitch; j++)
                gram[i * pitch + j] += scaled[r * pitch + i] * rows[r * pitch + j];
}
#endif

#endif
