/* Loops over panels of kernel values, compiled for three vector widths.

   A panel holds 64 examples, feature by feature: panel[feature * 64 + example]. A tile holds the
   values of some rows with a panel's examples: tile[row * 64 + example]. The file includes itself
   once for every width; the widest one that the processor knows is chosen at run time. A lane's
   operations and their order are the same for all of them and the build forbids fused
   multiply-adds, so every width gives the same bits. */
#ifndef PANEL_NAME

#ifndef SUBLINEAR_PANEL_H
#define SUBLINEAR_PANEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PANEL = 64 };
enum { PANEL_LINEAR, PANEL_RBF, PANEL_POLY, PANEL_SIGMOID };

/* A stored entry of a row: where its feature begins in a panel, and its value. */
typedef struct {
    int32_t offset;
    float value;
} panel_entry;

/* A kernel of the inner product: see panel_finish below for what the numbers mean. */
typedef struct {
    int kind, degree;
    float scale, shift;
} panel_kernel;

/* The concave piecewise quadratic function of changes d that a working set maximises,

       <g, d> - 1/2 <d, K d> - sum above max(0, d - kink) + below max(0, kink - d),

   low <= d <= high, with size, a multiple of 64, entries in each array: padded by low = high = 0.
   g is the slope on the side of the kink where a change begins, so that it goes to 0, and float32
   resolves it, however wide the tube is. */
typedef struct {
    ptrdiff_t size;
    int has_kinks;                      /* else above and below are zeros */
    const float *values;                /* K, size by size */
    const float *curvature, *inverse;   /* its diagonal, and 1 / diagonal */
    const float *low, *high, *kink, *above, *below;
    float *change, *gradient;           /* d, g - K d */
    float *best;                        /* per 64 entries: the largest gain, or slope */
} panel_problem;

typedef struct {
    void (*dots)(const panel_entry *, const int64_t *, ptrdiff_t, ptrdiff_t, const float *,
                 float *, int);
    void (*finish)(const panel_kernel *, const float *, const float *, float *, ptrdiff_t);
    void (*product)(const float *, ptrdiff_t, const float *, ptrdiff_t, double *);
    ptrdiff_t (*ascend)(panel_problem *, ptrdiff_t, float, float *);
    ptrdiff_t (*ascend_pairs)(panel_problem *, ptrdiff_t, float, float *);
} panel_functions;

static inline float panel_clip(float value, float low, float high)
{
    value = value > low ? value : low;
    return value < high ? value : high;
}

#define PANEL_JOIN_(name, suffix) name##_##suffix
#define PANEL_JOIN(name, suffix) PANEL_JOIN_(name, suffix)
#define PANEL_FUNCTION(name) PANEL_JOIN(name, PANEL_NAME)

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define PANEL_X86 1
#define PANEL_NAME avx512
#define PANEL_LANES 16
#define PANEL_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#include "panel.h"
#define PANEL_NAME avx2
#define PANEL_LANES 8
#define PANEL_TARGET __attribute__((target("avx2")))
#include "panel.h"
#else
#define PANEL_X86 0
#endif
#define PANEL_NAME baseline
#define PANEL_LANES 4
#define PANEL_TARGET
#include "panel.h"

/* The functions of a width: 16, 8 or 4 lanes; NULL if the processor or the build lacks it. */
static const panel_functions *panel_choose(int lanes)
{
#if PANEL_X86
    __builtin_cpu_init();
    if (lanes == 16)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")
                   ? &panel_functions_avx512
                   : NULL;
    if (lanes == 8)
        return __builtin_cpu_supports("avx2") ? &panel_functions_avx2 : NULL;
#endif
    return lanes == 4 ? &panel_functions_baseline : NULL;
}

#endif /* SUBLINEAR_PANEL_H */

#else /* the part for one width */

#if defined(__GNUC__)
typedef float PANEL_FUNCTION(panel_lanes) __attribute__((vector_size(4 * PANEL_LANES)));
#define LANES PANEL_FUNCTION(panel_lanes)
enum { PANEL_FUNCTION(panel_together) = PANEL_LANES == 4 ? 8 : PANEL / PANEL_LANES };
#define TOGETHER PANEL_FUNCTION(panel_together)
#endif

/* tile[r] (+)= the inner products of a panel's examples with the features of one chunk of row r.

   Row r's entries of the chunk are entries[starts[r * stride]] to entries[starts[r * stride + 1]],
   a multiple of four of them. */
PANEL_TARGET static void PANEL_FUNCTION(panel_dots)(
    const panel_entry *entries, const int64_t *starts, ptrdiff_t stride, ptrdiff_t n_rows,
    const float *panel, float *tile, int adds)
{
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        const panel_entry *first = entries + starts[r * stride];
        const panel_entry *last = entries + starts[r * stride + 1];
        float *out = tile + r * PANEL;
#if defined(__GNUC__)
        for (int part = 0; part < PANEL; part += TOGETHER * PANEL_LANES) {
            LANES sums[TOGETHER], values;
#pragma GCC unroll 8
            for (int j = 0; j < TOGETHER; j++) {
                sums[j] = (LANES){0};
                if (adds)
                    memcpy(&sums[j], out + part + j * PANEL_LANES, sizeof values);
            }
            for (const panel_entry *e = first; e < last; e += 4)
#pragma GCC unroll 4
                for (int u = 0; u < 4; u++) {
                    const float *source = panel + e[u].offset + part;
#pragma GCC unroll 8
                    for (int j = 0; j < TOGETHER; j++) {
                        memcpy(&values, source + j * PANEL_LANES, sizeof values);
                        sums[j] += e[u].value * values;
                    }
                }
#pragma GCC unroll 8
            for (int j = 0; j < TOGETHER; j++)
                memcpy(out + part + j * PANEL_LANES, &sums[j], sizeof values);
        }
#else
        if (!adds)
            memset(out, 0, PANEL * sizeof(float));
        for (const panel_entry *e = first; e < last; e++)
            for (int l = 0; l < PANEL; l++)
                out[l] += e->value * panel[e->offset + l];
#endif
    }
}

/* x[l] = 2^x[l], for -126 <= x <= 126: minimax polynomial, relative error 1e-7 and rounding.

   Loops over 64 numbers without branches, which compilers turn into vectors. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_exp2)(float *restrict x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted[PANEL];
    uint32_t exponent[PANEL], bits[PANEL];
    for (int l = 0; l < PANEL; l++) {
        shifted[l] = x[l] + magic;
        float r = x[l] - (shifted[l] - magic), p = 1.32647296e-3f;
        p = p * r + 9.67151299e-3f;
        p = p * r + 5.55073358e-2f;
        p = p * r + 2.40222424e-1f;
        p = p * r + 6.93147004e-1f;
        x[l] = p * r + 1.0f;
    }
    memcpy(exponent, shifted, sizeof exponent);
    memcpy(bits, x, sizeof bits);
    for (int l = 0; l < PANEL; l++)
        bits[l] += exponent[l] << 23;
    memcpy(x, bits, sizeof bits);
}

/* x[l] = tanh x[l]: minimax polynomial near 0, where 1 - 2 / (1 + e^(2 x)) would cancel. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_tanh)(float *restrict x)
{
    float power[PANEL];
    for (int l = 0; l < PANEL; l++)
        power[l] = panel_clip(2.88539008f * x[l], -126.0f, 126.0f);
    PANEL_FUNCTION(panel_exp2)(power);
    for (int l = 0; l < PANEL; l++) {
        float square = x[l] * x[l], p = -5.70497895e-3f;
        float far = 1.0f - 2.0f / (1.0f + power[l]);
        p = p * square + 2.06390806e-2f;
        p = p * square - 5.37397117e-2f;
        p = p * square + 1.33314416e-1f;
        p = p * square - 3.33332807e-1f;
        x[l] = square < 0.390625f ? x[l] + x[l] * square * p : far;
    }
}

/* Kernel values from inner products, in place.

   linear: <x, z>; poly: (scale <x, z> + shift)^degree; sigmoid: tanh(scale <x, z> + shift);
   rbf: 2^(scale <x, z> - norm of x - norm of z), norms being gamma log2(e) |x|^2 and scale
   2 gamma log2(e). */
PANEL_TARGET static void PANEL_FUNCTION(panel_finish)(
    const panel_kernel *kernel, const float *restrict row_norm, const float *restrict norm,
    float *restrict tile, ptrdiff_t n_rows)
{
    const float scale = kernel->scale, shift = kernel->shift;
    if (kernel->kind == PANEL_RBF)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float *restrict value = tile + r * PANEL;
            for (int l = 0; l < PANEL; l++)
                value[l] = panel_clip(
                    scale * value[l] - (row_norm[r] + norm[l]), -126.0f, 0.0f);
            PANEL_FUNCTION(panel_exp2)(value);
        }
    else if (kernel->kind == PANEL_SIGMOID)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float *restrict value = tile + r * PANEL;
            for (int l = 0; l < PANEL; l++)
                value[l] = scale * value[l] + shift;
            PANEL_FUNCTION(panel_tanh)(value);
        }
    else if (kernel->kind == PANEL_POLY)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float base[PANEL], *power = tile + r * PANEL;
            int degree = kernel->degree;
            for (int l = 0; l < PANEL; l++) {
                base[l] = scale * power[l] + shift;
                power[l] = degree & 1 ? base[l] : 1.0f;
            }
            while (degree >>= 1) {
                for (int l = 0; l < PANEL; l++)
                    base[l] *= base[l];
                if (degree & 1)
                    for (int l = 0; l < PANEL; l++)
                        power[l] *= base[l];
            }
        }
}

/* sums[l] += sum over the rows of change[r] * tile[r * stride + l], eight rows in
   float32 at a time. */
PANEL_TARGET static void PANEL_FUNCTION(panel_product)(
    const float *restrict tile, ptrdiff_t stride, const float *restrict change, ptrdiff_t n_rows,
    double *restrict sums)
{
    for (ptrdiff_t first = 0; first < n_rows; first += 8) {
        const ptrdiff_t last = first + 8 < n_rows ? first + 8 : n_rows;
        float partial[PANEL] = {0};
        for (ptrdiff_t r = first; r < last; r++)
            for (int l = 0; l < PANEL; l++)
                partial[l] += change[r] * tile[r * stride + l];
        for (int l = 0; l < PANEL; l++)
            sums[l] += partial[l];
    }
}

/* The largest of 64 values. */
PANEL_TARGET static inline float PANEL_FUNCTION(panel_largest)(float *values)
{
    for (int width = PANEL / 2; width >= PANEL_LANES; width /= 2)
        for (int l = 0; l < width; l++)
            values[l] = values[l] > values[l + width] ? values[l] : values[l + width];
    for (int l = 1; l < PANEL_LANES; l++)
        values[0] = values[0] > values[l] ? values[0] : values[l];
    return values[0];
}

/* Where the best step of each of 64 changes alone ends, what it gains, and the largest gain. */
PANEL_TARGET static inline float PANEL_FUNCTION(panel_gains)(
    const panel_problem *p, ptrdiff_t start, float *restrict target, float *restrict gains)
{
    const float *restrict d = p->change + start, *restrict g = p->gradient + start;
    const float *restrict q = p->curvature + start, *restrict inverse = p->inverse + start;
    const float *restrict low = p->low + start, *restrict high = p->high + start;
    const float *restrict kink = p->kink + start;
    const float *restrict above = p->above + start, *restrict below = p->below + start;
    if (!p->has_kinks)
        for (int l = 0; l < PANEL; l++) {
            target[l] = panel_clip(d[l] + g[l] * inverse[l], low[l], high[l]);
            float step = target[l] - d[l];
            gains[l] = step * (g[l] - 0.5f * q[l] * step);
        }
    else
        for (int l = 0; l < PANEL; l++) {
            float least = d[l] + (g[l] - above[l]) * inverse[l];
            float most = d[l] + (g[l] + below[l]) * inverse[l];
            target[l] = panel_clip(panel_clip(kink[l], least, most), low[l], high[l]);
            float step = target[l] - d[l], from = d[l] - kink[l], to = target[l] - kink[l];
            float rise = (to > 0.0f ? to : 0.0f) - (from > 0.0f ? from : 0.0f);
            float fall = rise - step;
            rise = from >= 0.0f && to >= 0.0f ? step : rise; /* exact on one side */
            fall = from >= 0.0f && to >= 0.0f ? 0.0f : fall;
            gains[l] = step * (g[l] - 0.5f * q[l] * step) - above[l] * rise - below[l] * fall;
        }
    float copy[PANEL];
    memcpy(copy, gains, sizeof copy);
    return PANEL_FUNCTION(panel_largest)(copy);
}

static inline ptrdiff_t PANEL_FUNCTION(panel_place)(const float *values, ptrdiff_t size)
{
    ptrdiff_t place = 0;
    for (ptrdiff_t k = 1; k < size; k++)
        if (values[k] > values[place])
            place = k;
    return place;
}

/* Greedy coordinate ascent: at most `limit` steps, until no gain exceeds `least`; tells how many,
   and the largest gain left. */
PANEL_TARGET static ptrdiff_t PANEL_FUNCTION(panel_ascend)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest)
{
    float target[PANEL], gains[PANEL];
    ptrdiff_t n_blocks = p->size / PANEL, step;
    for (ptrdiff_t block = 0; block < n_blocks; block++)
        p->best[block] = PANEL_FUNCTION(panel_gains)(p, block * PANEL, target, gains);
    for (step = 0;; step++) {
        ptrdiff_t j = PANEL_FUNCTION(panel_place)(p->best, n_blocks);
        *largest = p->best[j];
        if (step == limit || !(*largest > least))
            return step;
        j *= PANEL;
        PANEL_FUNCTION(panel_gains)(p, j, target, gains);
        ptrdiff_t lane = PANEL_FUNCTION(panel_place)(gains, PANEL);
        j += lane;
        float change = target[lane] - p->change[j];
        p->change[j] = target[lane];
        for (ptrdiff_t block = 0; block < n_blocks; block++) {
            float *restrict g = p->gradient + block * PANEL;
            const float *restrict k = p->values + j * p->size + block * PANEL;
            for (int l = 0; l < PANEL; l++)
                g[l] -= change * k[l];
            p->best[block] = PANEL_FUNCTION(panel_gains)(p, block * PANEL, target, gains);
        }
    }
}

/* How fast the objective rises as change k grows, and as it falls; -inf, and inf, at an end. */
PANEL_TARGET static inline float PANEL_FUNCTION(panel_rising)(
    const panel_problem *p, ptrdiff_t k, int has_kinks)
{
    float slope = p->gradient[k];
    if (has_kinks)
        slope += p->change[k] >= p->kink[k] ? -p->above[k] : p->below[k];
    return p->change[k] < p->high[k] ? slope : -INFINITY;
}

PANEL_TARGET static inline float PANEL_FUNCTION(panel_falling)(
    const panel_problem *p, ptrdiff_t k, int has_kinks)
{
    float slope = p->gradient[k];
    if (has_kinks)
        slope += p->change[k] > p->kink[k] ? -p->above[k] : p->below[k];
    return p->change[k] > p->low[k] ? slope : INFINITY;
}

/* Where a change that grows, or falls, meets its kink or its end. */
PANEL_TARGET static inline float PANEL_FUNCTION(panel_top)(
    const panel_problem *p, ptrdiff_t k, int has_kinks)
{
    return has_kinks && p->change[k] < p->kink[k] ? p->kink[k] : p->high[k];
}

PANEL_TARGET static inline float PANEL_FUNCTION(panel_bottom)(
    const panel_problem *p, ptrdiff_t k, int has_kinks)
{
    return has_kinks && p->change[k] > p->kink[k] ? p->kink[k] : p->low[k];
}

/* The largest slope of each 64 changes that can grow. */
PANEL_TARGET static inline float PANEL_FUNCTION(panel_steepest)(
    const panel_problem *p, ptrdiff_t start, float *restrict slopes, int has_kinks)
{
    float copy[PANEL];
    for (int l = 0; l < PANEL; l++)
        copy[l] = slopes[l] = PANEL_FUNCTION(panel_rising)(p, start + l, has_kinks);
    return PANEL_FUNCTION(panel_largest)(copy);
}

/* Steps along pairs of changes that keep their sum: the first by the largest slope, the
   second by the largest gain. A step ends where a change meets its kink or its end. As panel_ascend
   else, but `least` and `largest` are slopes along a pair: the gain of a step that meets an end
   at once is next to nothing, whatever others would gain. */
PANEL_TARGET static inline ptrdiff_t PANEL_FUNCTION(panel_pairs)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest, const int has_kinks)
{
    float values[PANEL];
    ptrdiff_t n_blocks = p->size / PANEL, step;
    float *d = p->change, *g = p->gradient;
    for (ptrdiff_t block = 0; block < n_blocks; block++)
        p->best[block] = PANEL_FUNCTION(panel_steepest)(p, block * PANEL, values, has_kinks);
    for (step = 0;; step++) {
        ptrdiff_t i = PANEL_FUNCTION(panel_place)(p->best, n_blocks) * PANEL, j = 0;
        PANEL_FUNCTION(panel_steepest)(p, i, values, has_kinks);
        i += PANEL_FUNCTION(panel_place)(values, PANEL);
        const float slope = PANEL_FUNCTION(panel_rising)(p, i, has_kinks);
        const float *restrict row = p->values + i * p->size;
        const float flattest = 1e-6f * p->curvature[i];
        const float top = PANEL_FUNCTION(panel_top)(p, i, has_kinks), room_up = top - d[i];
        float steepest[PANEL] = {0}, gain = 0.0f;
        if (d[i] < p->high[i])
            for (ptrdiff_t block = 0; block < n_blocks; block++) {
                float copy[PANEL];
                for (int l = 0; l < PANEL; l++) {
                    ptrdiff_t k = block * PANEL + l;
                    float rise = slope - PANEL_FUNCTION(panel_falling)(p, k, has_kinks);
                    float room = d[k] - PANEL_FUNCTION(panel_bottom)(p, k, has_kinks);
                    float bend = p->curvature[i] + p->curvature[k] - 2.0f * row[k], change;
                    rise = rise > 0.0f ? rise : 0.0f;
                    steepest[l] = steepest[l] > rise ? steepest[l] : rise;
                    bend = bend > flattest ? bend : flattest;
                    change = rise / bend;
                    change = change < room ? change : room;
                    change = change < room_up ? change : room_up;
                    values[l] = change * (rise - 0.5f * bend * change);
                }
                if (i / PANEL == block)
                    values[i % PANEL] = 0.0f; /* rounding must not pair it with itself */
                memcpy(copy, values, sizeof copy);
                float most = PANEL_FUNCTION(panel_largest)(copy);
                if (most > gain) {
                    gain = most;
                    j = block * PANEL + PANEL_FUNCTION(panel_place)(values, PANEL);
                }
            }
        *largest = PANEL_FUNCTION(panel_largest)(steepest);
        if (step == limit || !(*largest > least) || !(gain > 0.0f))
            return step;
        const float *restrict other = p->values + j * p->size;
        float bend = p->curvature[i] + p->curvature[j] - 2.0f * row[j];
        float change = (slope - PANEL_FUNCTION(panel_falling)(p, j, has_kinks)) /
                       (bend > flattest ? bend : flattest);
        const float bottom = PANEL_FUNCTION(panel_bottom)(p, j, has_kinks);
        const float room_down = d[j] - bottom;
        if (change >= room_up && room_up <= room_down) {
            change = room_up;
            d[i] = top;
            d[j] -= change;
        } else if (change >= room_down) {
            change = room_down;
            d[i] += change;
            d[j] = bottom;
        } else {
            d[i] += change;
            d[j] -= change;
        }
        for (ptrdiff_t block = 0; block < n_blocks; block++) {
            ptrdiff_t start = block * PANEL;
            for (int l = 0; l < PANEL; l++)
                g[start + l] -= change * (row[start + l] - other[start + l]);
            p->best[block] = PANEL_FUNCTION(panel_steepest)(p, start, values, has_kinks);
        }
    }
}

PANEL_TARGET static ptrdiff_t PANEL_FUNCTION(panel_ascend_pairs)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest)
{
    return p->has_kinks ? PANEL_FUNCTION(panel_pairs)(p, limit, least, largest, 1)
                        : PANEL_FUNCTION(panel_pairs)(p, limit, least, largest, 0);
}

static const panel_functions PANEL_FUNCTION(panel_functions) = {
    PANEL_FUNCTION(panel_dots),   PANEL_FUNCTION(panel_finish),
    PANEL_FUNCTION(panel_product), PANEL_FUNCTION(panel_ascend),
    PANEL_FUNCTION(panel_ascend_pairs),
};

#undef LANES
#undef TOGETHER
#undef PANEL_NAME
#undef PANEL_LANES
#undef PANEL_TARGET
#endif
