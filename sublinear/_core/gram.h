/* Sums of products x x' of dense rows, as matrices that second-order methods factorise. Here alone
   multiplications and additions are fused where the processor can, as in a BLAS: so these sums may differ
   between processors by what rounding leaves, as the solutions of systems do anyway. */
#ifndef SUBLINEAR_GRAM_H
#define SUBLINEAR_GRAM_H

#include "vectors.h"

enum {
    SUBLINEAR_GRAM_PITCH = 8,    /* rows begin at multiples of it: no tile ends behind them */
    SUBLINEAR_GRAM_VALUES = 4096 /* of the rows whose products are added together: the nearest cache */
};

#if SUBLINEAR_VECTORS
/* Products of `lanes` columns with up to twice as many: the sums stay in registers for all rows. */
#define SUBLINEAR_GRAM_TILE(vector, ADD, abreast)                                           \
    {                                                                                       \
        vector s[lanes][abreast], v[abreast];                                               \
        double *const corner = gram + i * pitch + j;                                        \
        int a, b;                                                                           \
        for (a = 0; a < lanes; a++)                                                         \
            for (b = 0; b < (abreast); b++)                                                 \
                memcpy(&s[a][b], corner + a * pitch + b * lanes, sizeof(vector));           \
        for (r = 0; r < count; r++) {                                                       \
            const double *const row = rows + r * pitch;                                     \
            for (b = 0; b < (abreast); b++)                                                 \
                memcpy(&v[b], row + j + b * lanes, sizeof(vector));                         \
            for (a = 0; a < lanes; a++)                                                     \
                for (b = 0; b < (abreast); b++)                                             \
                    ADD(s[a][b], row[i + a], v[b]);                                         \
        }                                                                                   \
        for (a = 0; a < lanes; a++)                                                         \
            for (b = 0; b < (abreast); b++)                                                 \
                memcpy(corner + a * pitch + b * lanes, &s[a][b], sizeof(vector));           \
    }
#define SUBLINEAR_GRAM(name, vector, ADD)                                                   \
    static void name(const double *rows, ptrdiff_t count, ptrdiff_t size, ptrdiff_t pitch,  \
                     double *restrict gram)                                                 \
    {                                                                                       \
        enum { lanes = sizeof(vector) / sizeof(double) };                                   \
        ptrdiff_t i, j, r;                                                                  \
        for (i = 0; i < size; i += lanes) {                                                 \
            for (j = i; j + lanes < size; j += 2 * lanes)                                   \
                SUBLINEAR_GRAM_TILE(vector, ADD, 2)                                         \
            if (j < size)                                                                   \
                SUBLINEAR_GRAM_TILE(vector, ADD, 1)                                         \
        }                                                                                   \
    }

#define SUBLINEAR_ADD(sum, factor, values) ((sum) += (factor) * (values))
SUBLINEAR_WIDEST SUBLINEAR_GRAM(sublinear_add_gram_quads, sublinear_quad, SUBLINEAR_ADD)
#ifdef SUBLINEAR_AVX512
#define SUBLINEAR_ADD_LANES(sum, factor, values) \
    ((sum) = (sublinear_lanes)_mm512_fmadd_pd(_mm512_set1_pd(factor), (__m512d)(values), (__m512d)(sum)))
#define SUBLINEAR_ADD_QUAD(sum, factor, values) \
    ((sum) = (sublinear_quad)_mm256_fmadd_pd(_mm256_set1_pd(factor), (__m256d)(values), (__m256d)(sum)))
SUBLINEAR_AVX512 SUBLINEAR_GRAM(sublinear_add_gram_lanes, sublinear_lanes, SUBLINEAR_ADD_LANES)
SUBLINEAR_FMA SUBLINEAR_GRAM(sublinear_add_gram_fused, sublinear_quad, SUBLINEAR_ADD_QUAD)
#endif

static void sublinear_add_gram_at_once(
    const double *rows, ptrdiff_t count, ptrdiff_t size, ptrdiff_t pitch, double *gram)
{
#ifdef SUBLINEAR_AVX512
    if (__builtin_cpu_supports("avx512f")) {
        sublinear_add_gram_lanes(rows, count, size, pitch, gram);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sublinear_add_gram_fused(rows, count, size, pitch, gram);
        return;
    }
#endif
    sublinear_add_gram_quads(rows, count, size, pitch, gram);
}
#else
static void sublinear_add_gram_at_once(
    const double *rows, ptrdiff_t count, ptrdiff_t size, ptrdiff_t pitch, double *gram)
{
    for (ptrdiff_t r = 0; r < count; r++)
        for (ptrdiff_t i = 0; i < size; i++)
            for (ptrdiff_t j = i; j < size; j++)
                gram[i * pitch + j] += rows[r * pitch + i] * rows[r * pitch + j];
}
#endif

/* gram += sum over r of x_r x_r', in and above the diagonal; its rows have the same pitch. */
static inline void sublinear_add_gram(
    const double *rows, ptrdiff_t count, ptrdiff_t size, ptrdiff_t pitch, double *gram)
{
    ptrdiff_t most = SUBLINEAR_GRAM_VALUES / pitch, r;
    if (most < SUBLINEAR_GRAM_PITCH)
        most = SUBLINEAR_GRAM_PITCH;
    for (r = 0; r < count; r += most)
        sublinear_add_gram_at_once(
            rows + r * pitch, count - r < most ? count - r : most, size, pitch, gram);
}

#endif
