/* Loops over several dense rows at once. Every sum is gathered in the order of the rows, so that the
   bits are those of one row after the other. Each loop prefetches the `next` row in the place
   of the present one: memory would idle while rows in the cache are added. */
#ifndef SUBLINEAR_ROW_GROUPS_H
#define SUBLINEAR_ROW_GROUPS_H

#include "vectors.h"

/* sum += factor_r * x_r, squares += weight_r * x_r^2 for rows r = 0 .. count - 1, whose values are in
   the nearest cache: the sums of some columns stay in registers for all rows. No weights: all are 1. */
#if SUBLINEAR_VECTORS
enum { SUBLINEAR_ABREAST = 6 }; /* quads whose sums are in registers at the same time */

#define SUBLINEAR_ADD_ABREAST(real, quads, WEIGHTED)                                        \
    for (r = 0; r < count; r++) {                                                           \
        const real *const row = rows[r] + done, *const later = next[r] + done;              \
        for (i = 0; i < (quads); i += 2)                                                    \
            sublinear_prefetch(later + i * SUBLINEAR_QUAD);                                 \
        for (i = 0; i < (quads); i++) {                                                     \
            SUBLINEAR_QUAD_##real(x, row + i * SUBLINEAR_QUAD);                             \
            s[i] += factors[r] * x;                                                         \
            q[i] += WEIGHTED(x) * x;                                                        \
        }                                                                                   \
    }
#define SUBLINEAR_ONCE(x) (x)
#define SUBLINEAR_TIMES_WEIGHT(x) (weights[r] * (x))

#define SUBLINEAR_ADD_QUADS(real, quads)                                                    \
    {                                                                                       \
        sublinear_quad s[quads], q[quads], x;                                               \
        int i;                                                                              \
        for (i = 0; i < (quads); i++) {                                                     \
            SUBLINEAR_QUAD_double(s[i], sum + done + i * SUBLINEAR_QUAD);                   \
            SUBLINEAR_QUAD_double(q[i], squares + done + i * SUBLINEAR_QUAD);               \
        }                                                                                   \
        if (weights == NULL) {                                                              \
            SUBLINEAR_ADD_ABREAST(real, quads, SUBLINEAR_ONCE)                              \
        } else {                                                                            \
            SUBLINEAR_ADD_ABREAST(real, quads, SUBLINEAR_TIMES_WEIGHT)                      \
        }                                                                                   \
        for (i = 0; i < (quads); i++) {                                                     \
            memcpy(sum + done + i * SUBLINEAR_QUAD, &s[i], sizeof(s[i]));                   \
            memcpy(squares + done + i * SUBLINEAR_QUAD, &q[i], sizeof(q[i]));               \
        }                                                                                   \
        done += (quads) * SUBLINEAR_QUAD;                                                   \
    }

#define SUBLINEAR_ADD_WIDE(real)                                                            \
    while (done + SUBLINEAR_ABREAST * SUBLINEAR_QUAD <= size)                               \
        SUBLINEAR_ADD_QUADS(real, SUBLINEAR_ABREAST)                                        \
    switch ((size - done) / SUBLINEAR_QUAD) {                                               \
    case 5: SUBLINEAR_ADD_QUADS(real, 5) break;                                             \
    case 4: SUBLINEAR_ADD_QUADS(real, 4) break;                                             \
    case 3: SUBLINEAR_ADD_QUADS(real, 3) break;                                             \
    case 2: SUBLINEAR_ADD_QUADS(real, 2) break;                                             \
    case 1: SUBLINEAR_ADD_QUADS(real, 1) break;                                             \
    }                                                                                       \
    if (done < size && size >= SUBLINEAR_QUAD) {                                            \
        /* a quad that begins among columns that are done: these keep their sums */         \
        double sums[SUBLINEAR_QUAD - 1], of_squares[SUBLINEAR_QUAD - 1];                    \
        const ptrdiff_t start = size - SUBLINEAR_QUAD;                                      \
        const size_t again = (size_t)(done - start) * sizeof(double);                       \
        memcpy(sums, sum + start, again);                                                   \
        memcpy(of_squares, squares + start, again);                                         \
        done = start;                                                                       \
        SUBLINEAR_ADD_QUADS(real, 1)                                                        \
        memcpy(sum + start, sums, again);                                                   \
        memcpy(squares + start, of_squares, again);                                         \
    }
#else
#define SUBLINEAR_ADD_WIDE(real)
#endif

#define SUBLINEAR_ADD_GROUP(name, real)                                                     \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *const *rows, const real *const *next, ptrdiff_t count,                  \
        const double *factors, const double *weights, double *restrict sum,                 \
        double *restrict squares, ptrdiff_t size)                                           \
    {                                                                                       \
        ptrdiff_t done = 0, r, k;                                                           \
        SUBLINEAR_ADD_WIDE(real)                                                            \
        for (r = 0; r < count; r++)                                                         \
            for (k = done; k < size; k++) {                                                 \
                const double value = rows[r][k];                                            \
                sum[k] += factors[r] * value;                                               \
                squares[k] += (weights == NULL ? 1.0 : weights[r]) * value * value;         \
            }                                                                               \
    }

SUBLINEAR_ADD_GROUP(sublinear_add_group_float, float)
SUBLINEAR_ADD_GROUP(sublinear_add_group_double, double)

#endif
