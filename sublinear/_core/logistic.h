/* The logistic loss and its derivatives for many scores z with targets y of +1 and -1, and those targets,
   in loops that compilers turn into vector instructions: every entry has the same bits wherever it
   stands. */
#ifndef SUBLINEAR_LOGISTIC_H
#define SUBLINEAR_LOGISTIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "portable.h"

/* exp(x) for x <= 0; what is below -708 is taken for it */
static inline double sublinear_small_exp(double x)
{
    const double round = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to integers */
    double shifted, scale, r, p;
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
    return p * scale;
}

/* log(1 + p) for 0 <= p <= 1, from the series of 2 artanh(p / (2 + p)) */
static inline double sublinear_small_log1p(double p)
{
    const double s = p / (2.0 + p), t = s * s;
    double sum = 1.0 / 33.0;
    sum = sum * t + 1.0 / 31.0;
    sum = sum * t + 1.0 / 29.0;
    sum = sum * t + 1.0 / 27.0;
    sum = sum * t + 1.0 / 25.0;
    sum = sum * t + 1.0 / 23.0;
    sum = sum * t + 1.0 / 21.0;
    sum = sum * t + 1.0 / 19.0;
    sum = sum * t + 1.0 / 17.0;
    sum = sum * t + 1.0 / 15.0;
    sum = sum * t + 1.0 / 13.0;
    sum = sum * t + 1.0 / 11.0;
    sum = sum * t + 1.0 / 9.0;
    sum = sum * t + 1.0 / 7.0;
    sum = sum * t + 1.0 / 5.0;
    sum = sum * t + 1.0 / 3.0;
    return 2.0 * s + 2.0 * s * (sum * t);
}

SUBLINEAR_WIDEST static void sublinear_logistic_values(
    const double *z, const double *y, double *restrict values, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k];
        values[k] = sublinear_small_log1p(sublinear_small_exp(-fabs(margin)))
                    - (margin < 0 ? margin : 0.0);
    }
}

SUBLINEAR_WIDEST static void sublinear_logistic_slopes(
    const double *z, const double *y, double *restrict slopes, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k], p = sublinear_small_exp(-fabs(margin));
        slopes[k] = -y[k] * (margin > 0 ? p : 1.0) / (1.0 + p);
    }
}

SUBLINEAR_WIDEST static void sublinear_logistic_curvatures(
    const double *z, double *restrict curvatures, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double p = sublinear_small_exp(-fabs(z[k]));
        curvatures[k] = p / ((1.0 + p) * (1.0 + p));
    }
}

/* signs of -1 and +1 for the labels of two classes; returns how many labels are one of them */
#define SUBLINEAR_SIGNS(label)                                                              \
    SUBLINEAR_WIDEST static ptrdiff_t sublinear_signs_##label(                              \
        const label *restrict labels, label negative, label positive,                       \
        double *restrict signs, ptrdiff_t size)                                             \
    {                                                                                       \
        int64_t known = 0;                                                                  \
        for (ptrdiff_t k = 0; k < size; k++) {                                              \
            signs[k] = labels[k] == positive ? 1.0 : -1.0;                                  \
            known += labels[k] == positive ? 1 : 0;                                         \
            known += labels[k] == negative ? 1 : 0;                                         \
        }                                                                                   \
        return (ptrdiff_t)known;                                                            \
    }

SUBLINEAR_SIGNS(int64_t)
SUBLINEAR_SIGNS(double)

#endif
