/* The logistic loss, its derivatives and conjugate for many scores z, or duals, with targets y of +1
   and -1, and those targets, in loops that compilers turn into vector instructions: every entry has
   the same bits wherever it stands. */
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
    double shifted, scale, r, square, fourth, p;
    int64_t bits;
    x = x < -708.0 ? -708.0 : x;
    shifted = x * 1.4426950408889634 + round;
    memcpy(&bits, &shifted, sizeof(bits));
    shifted -= round;
    r = x - shifted * 6.93147180369123816490e-01;
    r -= shifted * 1.90821492927058770002e-10;
    square = r * r;
    fourth = square * square;
    /* 1 + r + r^2 times the polynomial nearest to the rest: 4e-18 of exp(r) */
    p = (0.5000000000000011 + 0.16666666666666413 * r)
        + square * (0.041666666666530267 + 0.008333333333494335 * r)
        + fourth * ((0.0013888888943597957 + 0.00019841269506776788 * r)
                    + square * (2.480149313592624e-05 + 2.7557586268204463e-06 * r)
                    + fourth * (2.7630234008822597e-07 + 2.5000071881863764e-08 * r));
    p = 1.0 + (r + square * p);
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

/* 2 artanh(s) for |s| <= 1/3, by the odd polynomial nearest to it, whose error is 2e-18 of it */
static inline double sublinear_twice_artanh(double s)
{
    const double t = s * s, square = t * t, fourth = square * square;
    const double sum = (0.3333333333333321 + 0.20000000000062232 * t)
                       + square * (0.14285714275667086 + 0.11111111890565661 * t)
                       + fourth * ((0.09090874928731713 + 0.07693222603187874 * t)
                                   + square * (0.0665117882886398 + 0.06047964070325248 * t)
                                   + fourth * (0.041907999680503086 + 0.08473102319104124 * t));
    return 2.0 * s + 2.0 * s * (sum * t);
}

/* log(1 + p) for -1/2 <= p <= 1 */
static inline double sublinear_small_log1p(double p)
{
    return sublinear_twice_artanh(p / (2.0 + p));
}

/* log(x) for 0 <= x <= 1/2; what is below the least normal number is taken for it */
static inline double sublinear_small_log(double x)
{
    const uint64_t bias = 1023, root_half = 0x3fe6a09e667f3bcdULL, two52 = 0x4330000000000000ULL;
    uint64_t bits, power;
    double part, exponent;
    x = x < 2.2250738585072014e-308 ? 2.2250738585072014e-308 : x;
    memcpy(&bits, &x, sizeof(bits));
    power = (bits - root_half + (bias << 52)) >> 52; /* the rest: from sqrt(1/2) to sqrt(2) */
    bits -= (power - bias) << 52;
    memcpy(&part, &bits, sizeof(part));
    power |= two52;
    memcpy(&exponent, &power, sizeof(exponent)); /* 2^52 + power */
    exponent -= 4503599627370496.0 + 1023.0;
    part = sublinear_twice_artanh((part - 1.0) / (part + 1.0));
    part += exponent * 1.90821492927058770002e-10;
    return exponent * 6.93147180369123816490e-01 + part;
}

/* of a margin, with p = exp(-|margin|) */
static inline double sublinear_logistic_value(double margin, double p)
{
    return sublinear_small_log1p(p) - (margin < 0 ? margin : 0.0);
}

/* the derivative by the margin, with `part` = 1 / (1 + p) */
static inline double sublinear_logistic_slope(double margin, double p, double part)
{
    return -(margin > 0 ? p : 1.0) * part;
}

SUBLINEAR_WIDEST static void sublinear_logistic_values(
    const double *z, const double *y, double *restrict values, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k];
        values[k] = sublinear_logistic_value(margin, sublinear_small_exp(-fabs(margin)));
    }
}

/* b log b + (1 - b) log(1 - b) of duals a with b = y a, clipped to [0, 1] */
SUBLINEAR_WIDEST static void sublinear_logistic_conjugates(
    const double *a, const double *y, double *restrict conjugates, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double b = y[k] * a[k], other = 1.0 - b; /* exact where it is the smaller one */
        double less = b < other ? b : other;
        less = less < 0.0 ? 0.0 : less;
        conjugates[k] = less * sublinear_small_log(less);
        conjugates[k] += (1.0 - less) * sublinear_small_log1p(-less);
    }
}

SUBLINEAR_WIDEST static void sublinear_logistic_slopes(
    const double *z, const double *y, double *restrict slopes, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k], p = sublinear_small_exp(-fabs(margin));
        slopes[k] = y[k] * sublinear_logistic_slope(margin, p, 1.0 / (1.0 + p));
    }
}

SUBLINEAR_WIDEST static void sublinear_logistic_curvatures(
    const double *z, double *restrict curvatures, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double p = sublinear_small_exp(-fabs(z[k])), part = 1.0 / (1.0 + p);
        curvatures[k] = p * part * part;
    }
}

/* the three at once, of one exponential */
SUBLINEAR_WIDEST static void sublinear_logistic_evaluate(
    const double *z, const double *y, double *restrict values, double *restrict slopes,
    double *restrict curvatures, ptrdiff_t size)
{
    for (ptrdiff_t k = 0; k < size; k++) {
        const double margin = y[k] * z[k], p = sublinear_small_exp(-fabs(margin));
        const double part = 1.0 / (1.0 + p);
        values[k] = sublinear_logistic_value(margin, p);
        slopes[k] = y[k] * sublinear_logistic_slope(margin, p, part);
        curvatures[k] = p * part * part;
    }
}

/* signs of -1 and +1 for the labels of two classes, if wanted; returns how many labels are one of
   them */
#define SUBLINEAR_SIGNS(label)                                                              \
    SUBLINEAR_WIDEST static ptrdiff_t sublinear_signs_##label(                              \
        const label *restrict labels, label negative, label positive,                       \
        double *restrict signs, ptrdiff_t size)                                             \
    {                                                                                       \
        int64_t known = 0;                                                                  \
        for (ptrdiff_t k = 0; k < size; k++) {                                              \
            if (signs)                                                                      \
                signs[k] = labels[k] == positive ? 1.0 : -1.0;                              \
            known += labels[k] == positive ? 1 : 0;                                         \
            known += labels[k] == negative ? 1 : 0;                                         \
        }                                                                                   \
        return (ptrdiff_t)known;                                                            \
    }

SUBLINEAR_SIGNS(int64_t)
SUBLINEAR_SIGNS(double)

#endif
