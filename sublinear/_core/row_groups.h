/* Loops over several dense rows, or many scores, at once. Every sum is gathered in the order of the
   rows, so that the bits are those of one row after the other. */
#ifndef SUBLINEAR_ROW_GROUPS_H
#define SUBLINEAR_ROW_GROUPS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "portable.h"

/* sum += factor_r * x_r, squares += weight_r * x_r^2 for four rows r */
#define SUBLINEAR_ADD_FOUR(name, real)                                                      \
    SUBLINEAR_WIDEST static void name(const real *restrict a, const real *restrict b,       \
                                      const real *restrict c, const real *restrict d,       \
                                      const double *factors, const double *weights,         \
                                      double *restrict sum, double *restrict squares,       \
                                      ptrdiff_t size)                                       \
    {                                                                                       \
        const double fa = factors[0], fb = factors[1], fc = factors[2], fd = factors[3];    \
        const double sa = weights[0], sb = weights[1], sc = weights[2], sd = weights[3];    \
        for (ptrdiff_t k = 0; k < size; k++) {                                              \
            const double va = a[k], vb = b[k], vc = c[k], vd = d[k];                        \
            sum[k] = (((sum[k] + fa * va) + fb * vb) + fc * vc) + fd * vd;                  \
            squares[k] = (((squares[k] + sa * va * va) + sb * vb * vb) + sc * vc * vc)      \
                         + sd * vd * vd;                                                    \
        }                                                                                   \
    }

SUBLINEAR_ADD_FOUR(sublinear_add_four32, float)
SUBLINEAR_ADD_FOUR(sublinear_add_four64, double)

/* slopes = l'(z) of the logistic loss, with targets y of +1 and -1 */
SUBLINEAR_WIDEST static void sublinear_logistic_slopes(const double *restrict z,
                                                       const double *restrict y,
                                                       double *restrict slopes, ptrdiff_t size)
{
    const double round = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to integers */
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k];
        double x = -fabs(margin), shifted, scale, r, p;
        int64_t bits;
        x = x < -708.0 ? -708.0 : x;
        shifted = x * 1.4426950408889634 + round;
        memcpy(&bits, &shifted, sizeof(bits));
        shifted -= round;
        r = x - shifted * 6.93147180369123816490e-01;
        r -= shifted * 1.90821492927058770002e-10;
        p = 1.6059043836821613e-10;
        p = p * r + 2.08767569878681e-09;
        p = p * r + 2.505210838544172e-08;
        p = p * r + 2.755731922398589e-07;
        p = p * r + 2.7557319223985893e-06;
        p = p * r + 2.48015873015873e-05;
        p = p * r + 1.984126984126984e-04;
        p = p * r + 1.388888888888889e-03;
        p = p * r + 8.333333333333333e-03;
        p = p * r + 4.1666666666666664e-02;
        p = p * r + 1.6666666666666666e-01;
        p = p * r + 0.5;
        p = p * r + 1.0;
        p = p * r + 1.0;
        bits = (int64_t)((uint64_t)(bits + 1023) << 52);
        memcpy(&scale, &bits, sizeof(scale));
        p *= scale;
        slopes[k] = -y[k] * (margin > 0 ? p : 1.0) / (1.0 + p);
    }
}

#endif
