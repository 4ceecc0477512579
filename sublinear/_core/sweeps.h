/* Sweeps over the weights of a player. What is done to every entry vectorises by itself; sums keep
   eight partial ones in fixed lanes, so that every vector width gives the same bits. */
#ifndef SUBLINEAR_SWEEPS_H
#define SUBLINEAR_SWEEPS_H

#include <math.h>

#include "vectors.h"

/* weights stay above the one and their total near 1, so that they neither vanish nor overflow */
#define SUBLINEAR_TINY 0x1p-900
#define SUBLINEAR_SMALL_TOTAL 0x1p-100

#if SUBLINEAR_VECTORS
SUBLINEAR_WIDEST static double sublinear_sum(const double *v, ptrdiff_t size)
{
    sublinear_lanes lanes = {0}, a;
    double total = 0;
    ptrdiff_t k = 0;
    for (; k + SUBLINEAR_LANES <= size; k += SUBLINEAR_LANES) {
        memcpy(&a, v + k, sizeof(a));
        lanes += a;
    }
    for (; k < size; k++)
        total += v[k];
    for (k = 0; k < SUBLINEAR_LANES; k++)
        total += lanes[k];
    return total;
}
#else
static double sublinear_sum(const double *v, ptrdiff_t size)
{
    double lanes[SUBLINEAR_LANES] = {0}, total = 0;
    ptrdiff_t k = 0, lane;
    for (; k + SUBLINEAR_LANES <= size; k += SUBLINEAR_LANES)
        for (lane = 0; lane < SUBLINEAR_LANES; lane++)
            lanes[lane] += v[k + lane];
    for (; k < size; k++)
        total += v[k];
    for (lane = 0; lane < SUBLINEAR_LANES; lane++)
        total += lanes[lane];
    return total;
}
#endif

/* difference = scale * value - anchor, an anchor of NULL being 0 */
SUBLINEAR_WIDEST static void sublinear_differences(const double *restrict value, double scale,
                                                   const double *restrict anchor,
                                                   double *restrict difference, ptrdiff_t size)
{
    ptrdiff_t k;
    if (anchor == NULL)
        for (k = 0; k < size; k++)
            difference[k] = scale * value[k];
    else
        for (k = 0; k < size; k++)
            difference[k] = scale * value[k] - anchor[k];
}

/* z = |z|, or its square */
SUBLINEAR_WIDEST static void sublinear_chances(double *z, int squared, ptrdiff_t size)
{
    ptrdiff_t k;
    if (squared)
        for (k = 0; k < size; k++)
            z[k] *= z[k];
    else
        for (k = 0; k < size; k++)
            z[k] = fabs(z[k]);
}

/* z = rate * signs * response + extra - shift, clipped to 1; NULL for signs of 1 and extra of 0 */
SUBLINEAR_WIDEST static void sublinear_exponents(const double *restrict response, double rate,
                                                 const double *restrict signs,
                                                 const double *restrict extra, double shift,
                                                 double *restrict z, ptrdiff_t size)
{
    ptrdiff_t k;
    if (signs == NULL)
        for (k = 0; k < size; k++)
            z[k] = rate * response[k];
    else
        for (k = 0; k < size; k++)
            z[k] = rate * signs[k] * response[k];
    if (extra != NULL)
        for (k = 0; k < size; k++)
            z[k] += extra[k];
    for (k = 0; k < size; k++) {
        const double exponent = z[k] - shift, above = exponent < -1 ? -1 : exponent;
        z[k] = above > 1 ? 1 : above;
    }
}

/* value *= 1 - z + z^2 */
SUBLINEAR_WIDEST static void sublinear_multiply(double *restrict value, const double *restrict z,
                                                double least, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double weight = value[k] * (1 - z[k] + z[k] * z[k]);
        value[k] = weight > least ? weight : least;
    }
}

/* value *= factor * exp(-z), to 0.2 % for |z| <= 1 */
SUBLINEAR_WIDEST static void sublinear_multiply_exp(double *restrict value,
                                                    const double *restrict factor,
                                                    const double *restrict z, double least,
                                                    ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double even = 12 + z[k] * z[k], odd = 6 * z[k];
        const double weight = value[k] * factor[k] * ((even - odd) / (even + odd));
        value[k] = weight > least ? weight : least;
    }
}

#endif
