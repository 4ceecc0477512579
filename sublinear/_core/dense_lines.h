/* Loops over long dense lines. Sums are gathered in an order that depends on the number of entries alone:
   sixteen at a time in lanes, then eight, then four, the rest one after the other. */
#ifndef SUBLINEAR_DENSE_LINES_H
#define SUBLINEAR_DENSE_LINES_H

#include "vectors.h"

/* w += factor * x */
#define SUBLINEAR_DENSE_ADD(name, real)                                                     \
    SUBLINEAR_WIDEST static void name(const real *restrict x, double factor,                \
                                      double *restrict w, ptrdiff_t size)                   \
    {                                                                                       \
        for (ptrdiff_t k = 0; k < size; k++)                                                \
            w[k] += factor * (double)x[k];                                                  \
    }

SUBLINEAR_DENSE_ADD(sublinear_add_float, float)
SUBLINEAR_DENSE_ADD(sublinear_add_double, double)

/* <x, w> and |x|^2; a `later` line is prefetched meanwhile, unless it is NULL */
#if SUBLINEAR_VECTORS
#define SUBLINEAR_TIMES_W(LOAD, vector, at)                                                 \
    {                                                                                       \
        vector b_;                                                                          \
        LOAD(b_, w + (at));                                                                 \
        a *= b_;                                                                            \
    }
#define SUBLINEAR_TIMES_ITSELF(LOAD, vector, at) a *= a;

#define SUBLINEAR_ADD_TIMES(real, kind, vector, sum, at, TIMES)                             \
    {                                                                                       \
        vector a;                                                                           \
        SUBLINEAR_##kind##_##real(a, x + (at));                                             \
        TIMES(SUBLINEAR_##kind##_double, vector, at)                                        \
        sum += a;                                                                           \
    }

#define SUBLINEAR_DENSE_SUM(real, TIMES, FACTOR)                                            \
    sublinear_lanes even = {0}, odd = {0};                                                  \
    sublinear_quad quad = {0};                                                              \
    double rest = 0.0;                                                                      \
    ptrdiff_t k = 0;                                                                        \
    for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES) {                     \
        if (later != NULL) {                                                                \
            sublinear_prefetch(later + k);                                                  \
            sublinear_prefetch(later + k + SUBLINEAR_LANES);                                \
        }                                                                                   \
        SUBLINEAR_ADD_TIMES(real, LOAD, sublinear_lanes, even, k, TIMES)                    \
        SUBLINEAR_ADD_TIMES(real, LOAD, sublinear_lanes, odd, k + SUBLINEAR_LANES, TIMES)   \
    }                                                                                       \
    if (later != NULL) {                                                                    \
        sublinear_prefetch(later + k);                                                      \
        sublinear_prefetch(later + size - 1);                                               \
    }                                                                                       \
    if (k + SUBLINEAR_LANES <= size) {                                                      \
        SUBLINEAR_ADD_TIMES(real, LOAD, sublinear_lanes, even, k, TIMES)                    \
        k += SUBLINEAR_LANES;                                                               \
    }                                                                                       \
    if (k + SUBLINEAR_QUAD <= size) {                                                       \
        SUBLINEAR_ADD_TIMES(real, QUAD, sublinear_quad, quad, k, TIMES)                     \
        k += SUBLINEAR_QUAD;                                                                \
    }                                                                                       \
    for (; k < size; k++)                                                                   \
        rest += (double)x[k] * FACTOR;                                                      \
    even += odd;                                                                            \
    sublinear_add_halves(&even, &quad);                                                     \
    return sublinear_sum_of_quad(&quad) + rest;

#define SUBLINEAR_DENSE_SUMS(real)                                                          \
    SUBLINEAR_WIDEST static double sublinear_dot_asking_##real(                             \
        const real *x, const double *w, ptrdiff_t size, const real *later)                  \
    {                                                                                       \
        SUBLINEAR_DENSE_SUM(real, SUBLINEAR_TIMES_W, w[k])                                  \
    }                                                                                       \
    SUBLINEAR_WIDEST static double sublinear_squares_##real(const real *x, ptrdiff_t size)  \
    {                                                                                       \
        const real *const later = NULL;                                                     \
        SUBLINEAR_DENSE_SUM(real, SUBLINEAR_TIMES_ITSELF, (double)x[k])                     \
    }
#else
#define SUBLINEAR_DENSE_SUM(FACTOR)                                                         \
    double lanes[2 * SUBLINEAR_LANES] = {0}, rest = 0.0;                                    \
    ptrdiff_t k = 0, at, lane;                                                              \
    for (at = 0; at + 2 * SUBLINEAR_LANES <= size; at += 2 * SUBLINEAR_LANES)               \
        for (lane = 0; lane < 2 * SUBLINEAR_LANES; lane++) {                                \
            k = at + lane;                                                                  \
            lanes[lane] += (double)x[k] * FACTOR;                                           \
        }                                                                                   \
    if (at + SUBLINEAR_LANES <= size)                                                       \
        for (lane = 0; lane < SUBLINEAR_LANES; lane++) {                                    \
            k = at++;                                                                       \
            lanes[lane] += (double)x[k] * FACTOR;                                           \
        }                                                                                   \
    for (lane = 0; lane < SUBLINEAR_LANES; lane++)                                          \
        lanes[lane] += lanes[lane + SUBLINEAR_LANES];                                       \
    for (lane = 0; lane < SUBLINEAR_QUAD; lane++)                                           \
        lanes[lane] += lanes[lane + SUBLINEAR_QUAD];                                        \
    if (at + SUBLINEAR_QUAD <= size)                                                        \
        for (lane = 0; lane < SUBLINEAR_QUAD; lane++) {                                     \
            k = at++;                                                                       \
            lanes[lane] += (double)x[k] * FACTOR;                                           \
        }                                                                                   \
    for (k = at; k < size; k++)                                                             \
        rest += (double)x[k] * FACTOR;                                                      \
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest;

#define SUBLINEAR_DENSE_SUMS(real)                                                          \
    static double sublinear_dot_asking_##real(                                              \
        const real *x, const double *w, ptrdiff_t size, const real *later)                  \
    {                                                                                       \
        (void)later;                                                                        \
        SUBLINEAR_DENSE_SUM(w[k])                                                           \
    }                                                                                       \
    static double sublinear_squares_##real(const real *x, ptrdiff_t size)                   \
    {                                                                                       \
        SUBLINEAR_DENSE_SUM((double)x[k])                                                   \
    }
#endif

SUBLINEAR_DENSE_SUMS(float)
SUBLINEAR_DENSE_SUMS(double)

#define SUBLINEAR_DENSE_DOT(real)                                                           \
    static inline double sublinear_dot_##real(                                              \
        const real *x, const double *w, ptrdiff_t size)                                     \
    {                                                                                       \
        return sublinear_dot_asking_##real(x, w, size, NULL);                               \
    }

SUBLINEAR_DENSE_DOT(float)
SUBLINEAR_DENSE_DOT(double)

/* What a pass needs of several lines at once, each in the order of the loops above: their dot products
   with x, and their squares or w += sum of factors * lines. Those that are `next` are asked for
   meanwhile and, unless it is NULL, those that are `near`, which were next: loads that span two cache
   lines wait long for the second cache. */
enum { SUBLINEAR_ROWS = 4 };

#if SUBLINEAR_VECTORS
/* Two lines and a quad of columns. Sums have names, as compilers keep arrays of them in memory. */
#define SUBLINEAR_TWO_QUADS(real, at, i)                                                    \
    {                                                                                       \
        sublinear_quad a, b, v;                                                             \
        SUBLINEAR_QUAD_##real(a, first + (at));                                             \
        SUBLINEAR_QUAD_##real(b, second + (at));                                            \
        SUBLINEAR_QUAD_double(v, x + (at));                                                 \
        s##i += a * v;                                                                      \
        t##i += b * v;                                                                      \
        if (squared) {                                                                      \
            p##i += a * a;                                                                  \
            q##i += b * b;                                                                  \
        }                                                                                   \
        if (added) {                                                                        \
            SUBLINEAR_QUAD_double(v, w + (at));                                             \
            v = (v + factors[0] * a) + factors[1] * b;                                      \
            memcpy(w + (at), &v, sizeof(v));                                                \
        }                                                                                   \
    }
#define SUBLINEAR_TWO_LANES(real, at, i, j)                                                 \
    sublinear_prefetch(next[0] + (at));                                                     \
    sublinear_prefetch(next[1] + (at));                                                     \
    if (near != NULL) {                                                                     \
        sublinear_prefetch_near(near[0] + (at));                                            \
        sublinear_prefetch_near(near[1] + (at));                                            \
    }                                                                                       \
    SUBLINEAR_TWO_QUADS(real, at, i)                                                        \
    SUBLINEAR_TWO_QUADS(real, (at) + SUBLINEAR_QUAD, j)

#define SUBLINEAR_TWO_LINES(real)                                                           \
    static inline __attribute__((always_inline)) void sublinear_two_lines_##real(           \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t size, const double *x, double *dots, int squared, double *squares,        \
        int added, const double *factors, double *w)                                        \
    {                                                                                       \
        const real *const first = rows[0], *const second = rows[1];                         \
        sublinear_quad s0 = {0}, s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0;      \
        sublinear_quad t3 = s0, p0 = s0, p1 = s0, p2 = s0, p3 = s0, q0 = s0, q1 = s0;       \
        sublinear_quad q2 = s0, q3 = s0;                                                    \
        double rests[4] = {0};                                                              \
        ptrdiff_t k = 0;                                                                    \
        for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES) {                 \
            SUBLINEAR_TWO_LANES(real, k, 0, 1)                                              \
            SUBLINEAR_TWO_LANES(real, k + SUBLINEAR_LANES, 2, 3)                            \
        }                                                                                   \
        if (k + SUBLINEAR_LANES <= size) {                                                  \
            SUBLINEAR_TWO_LANES(real, k, 0, 1)                                              \
            k += SUBLINEAR_LANES;                                                           \
        }                                                                                   \
        s0 = (s0 + s2) + (s1 + s3);                                                         \
        t0 = (t0 + t2) + (t1 + t3);                                                         \
        p0 = (p0 + p2) + (p1 + p3);                                                         \
        q0 = (q0 + q2) + (q1 + q3);                                                         \
        if (k + SUBLINEAR_QUAD <= size) {                                                   \
            SUBLINEAR_TWO_QUADS(real, k, 0)                                                 \
            k += SUBLINEAR_QUAD;                                                            \
        }                                                                                   \
        sublinear_prefetch(next[0] + size - 1);                                             \
        sublinear_prefetch(next[1] + size - 1);                                             \
        if (near != NULL) {                                                                 \
            sublinear_prefetch_near(near[0] + size - 1);                                    \
            sublinear_prefetch_near(near[1] + size - 1);                                    \
        }                                                                                   \
        for (; k < size; k++) {                                                             \
            const double a = first[k], b = second[k];                                       \
            rests[0] += a * x[k];                                                           \
            rests[1] += b * x[k];                                                           \
            rests[2] += a * a;                                                              \
            rests[3] += b * b;                                                              \
            if (added)                                                                      \
                w[k] = (w[k] + factors[0] * a) + factors[1] * b;                            \
        }                                                                                   \
        dots[0] = sublinear_sum_of_quad(&s0) + rests[0];                                    \
        dots[1] = sublinear_sum_of_quad(&t0) + rests[1];                                    \
        if (squared) {                                                                      \
            squares[0] = sublinear_sum_of_quad(&p0) + rests[2];                             \
            squares[1] = sublinear_sum_of_quad(&q0) + rests[3];                             \
        }                                                                                   \
    }

#define SUBLINEAR_DENSE_LINES(real)                                                         \
    SUBLINEAR_TWO_LINES(real)                                                               \
    SUBLINEAR_WIDEST static void sublinear_dots_##real(                                     \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t count, ptrdiff_t size, const double *x, double *dots)                     \
    {                                                                                       \
        ptrdiff_t r = 0;                                                                    \
        for (; r + 2 <= count; r += 2)                                                      \
            sublinear_two_lines_##real(                                                     \
                rows + r, near == NULL ? NULL : near + r, next + r, size, x, dots + r, 0,   \
                NULL, 0, NULL, NULL);                                                       \
        if (r < count)                                                                      \
            dots[r] = sublinear_dot_asking_##real(rows[r], x, size, next[r]);               \
    }                                                                                       \
    SUBLINEAR_WIDEST static void sublinear_dots_squares_##real(                             \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t size, const double *x, double *dots, double *squares)                     \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r += 2)                                         \
            sublinear_two_lines_##real(                                                     \
                rows + r, near + r, next + r, size, x, dots + r, 1, squares + r, 0, NULL,   \
                NULL);                                                                      \
    }                                                                                       \
    SUBLINEAR_WIDEST static void sublinear_dots_add_##real(                                 \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t size, const double *x, double *dots, const double *factors, double *w)    \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r += 2)                                         \
            sublinear_two_lines_##real(                                                     \
                rows + r, near + r, next + r, size, x, dots + r, 0, NULL, 1, factors + r,   \
                w);                                                                         \
    }
#else
#define SUBLINEAR_DENSE_LINES(real)                                                         \
    static void sublinear_dots_##real(                                                      \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t count, ptrdiff_t size, const double *x, double *dots)                     \
    {                                                                                       \
        for (ptrdiff_t r = 0; r < count; r++)                                               \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
    }                                                                                       \
    static void sublinear_dots_squares_##real(                                              \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t size, const double *x, double *dots, double *squares)                     \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r++) {                                          \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
            squares[r] = sublinear_squares_##real(rows[r], size);                           \
        }                                                                                   \
    }                                                                                       \
    static void sublinear_dots_add_##real(                                                  \
        const real *const *rows, const real *const *near, const real *const *next,          \
        ptrdiff_t size, const double *x, double *dots, const double *factors, double *w)    \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r++) {                                          \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
            sublinear_add_##real(rows[r], factors[r], w, size);                             \
        }                                                                                   \
    }
#endif

SUBLINEAR_DENSE_LINES(float)
SUBLINEAR_DENSE_LINES(double)

#endif
