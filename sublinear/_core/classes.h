/* Loops over W, whose entries for one column of the data, one for each class, lie together. Sums, or
   factors, of some classes stay in registers for a whole line. */
#ifndef SUBLINEAR_CLASSES_H
#define SUBLINEAR_CLASSES_H

#include "sparse_rows.h"

/* Where W has the entries of the line's k-th column; lines without indices have all columns. */
#define SUBLINEAR_CLASSES_OF(k) \
    (W + (indices == NULL ? (k) : (ptrdiff_t)indices[k]) * n_classes + done)

#if SUBLINEAR_VECTORS
#define SUBLINEAR_DOT_QUADS(quads)                                                          \
    for (; done + (quads) * SUBLINEAR_QUAD <= n_classes; done += (quads) * SUBLINEAR_QUAD) { \
        sublinear_quad sums[quads] = {{0}}, w;                                              \
        for (ptrdiff_t k = 0; k < size; k++)                                                \
            for (int i = 0; i < (quads); i++) {                                             \
                SUBLINEAR_QUAD_double(w, SUBLINEAR_CLASSES_OF(k) + i * SUBLINEAR_QUAD);     \
                sums[i] += (double)values[k * stride] * w;                                  \
            }                                                                               \
        memcpy(scores + done, sums, sizeof(sums));                                          \
    }
#define SUBLINEAR_ADD_FACTORS(quads)                                                        \
    for (; done + (quads) * SUBLINEAR_QUAD <= n_classes; done += (quads) * SUBLINEAR_QUAD) { \
        sublinear_quad of_line[quads], w;                                                   \
        memcpy(of_line, factors + done, sizeof(of_line));                                   \
        for (ptrdiff_t k = 0; k < size; k++)                                                \
            for (int i = 0; i < (quads); i++) {                                             \
                double *const at = SUBLINEAR_CLASSES_OF(k) + i * SUBLINEAR_QUAD;            \
                SUBLINEAR_QUAD_double(w, at);                                               \
                w += (double)values[k * stride] * of_line[i];                               \
                memcpy(at, &w, sizeof(w));                                                  \
            }                                                                               \
    }
#else
#define SUBLINEAR_DOT_QUADS(quads)
#define SUBLINEAR_ADD_FACTORS(quads)
#endif

#define SUBLINEAR_DOT_CLASSES(name, real, integer)                                          \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *values, const integer *indices, ptrdiff_t stride, ptrdiff_t size,       \
        const double *W, ptrdiff_t n_classes, double *restrict scores)                      \
    {                                                                                       \
        ptrdiff_t done = 0;                                                                 \
        SUBLINEAR_DOT_QUADS(4)                                                              \
        SUBLINEAR_DOT_QUADS(1)                                                              \
        for (; done < n_classes; done++) {                                                  \
            double sum = 0;                                                                 \
            for (ptrdiff_t k = 0; k < size; k++)                                            \
                sum += values[k * stride] * *SUBLINEAR_CLASSES_OF(k);                       \
            scores[done] = sum;                                                             \
        }                                                                                   \
    }

#define SUBLINEAR_ADD_CLASSES(name, real, integer)                                          \
    SUBLINEAR_WIDEST static void name(                                                      \
        const real *values, const integer *indices, ptrdiff_t stride, ptrdiff_t size,       \
        const double *restrict factors, ptrdiff_t n_classes, double *W)                     \
    {                                                                                       \
        ptrdiff_t done = 0;                                                                 \
        SUBLINEAR_ADD_FACTORS(4)                                                            \
        SUBLINEAR_ADD_FACTORS(1)                                                            \
        for (; done < n_classes; done++)                                                    \
            for (ptrdiff_t k = 0; k < size; k++)                                            \
                *SUBLINEAR_CLASSES_OF(k) += values[k * stride] * factors[done];             \
    }

SUBLINEAR_SPARSE_TYPES(SUBLINEAR_DOT_CLASSES, sublinear_dot_classes)
SUBLINEAR_SPARSE_TYPES(SUBLINEAR_ADD_CLASSES, sublinear_add_classes)

/* scores = W' x for a line x; its indices may be NULL. */
static inline void sublinear_dot_classes(
    int value_bytes, int index_bytes, const void *values, const void *indices, ptrdiff_t stride,
    ptrdiff_t size, const double *W, ptrdiff_t n_classes, double *scores)
{
    SUBLINEAR_CALL_SPARSE(sublinear_dot_classes, stride, size, W, n_classes, scores);
}

/* W += x factors' */
static inline void sublinear_add_classes(
    int value_bytes, int index_bytes, const void *values, const void *indices, ptrdiff_t stride,
    ptrdiff_t size, const double *factors, ptrdiff_t n_classes, double *W)
{
    SUBLINEAR_CALL_SPARSE(sublinear_add_classes, stride, size, factors, n_classes, W);
}

/* up += factor * x, down -= factor * x for two columns of W */
#define SUBLINEAR_ADD_PAIR(name, real, integer)                                             \
    static void name(const real *values, const integer *indices, ptrdiff_t stride,          \
                     ptrdiff_t size, double factor, ptrdiff_t n_classes, double *up,        \
                     double *down)                                                          \
    {                                                                                       \
        for (ptrdiff_t k = 0; k < size; k++) {                                              \
            const ptrdiff_t at = (indices == NULL ? k : (ptrdiff_t)indices[k]) * n_classes; \
            const double change = factor * values[k * stride];                              \
            up[at] += change;                                                               \
            down[at] -= change;                                                             \
        }                                                                                   \
    }

SUBLINEAR_SPARSE_TYPES(SUBLINEAR_ADD_PAIR, sublinear_add_pair)

static inline void sublinear_add_pair(
    int value_bytes, int index_bytes, const void *values, const void *indices, ptrdiff_t stride,
    ptrdiff_t size, double factor, ptrdiff_t n_classes, double *up, double *down)
{
    SUBLINEAR_CALL_SPARSE(sublinear_add_pair, stride, size, factor, n_classes, up, down);
}

#endif
