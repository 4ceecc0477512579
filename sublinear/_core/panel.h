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

/* A kernel of scaled examples: see panel_finish below for what the numbers mean. */
typedef struct {
    int kind, degree;
    float shift;
} panel_kernel;

/* The concave piecewise quadratic function of changes d that a working set maximises,

       <g, d> - 1/2 <d, K d> - sum above max(0, d - kink) + below max(0, kink - d),

   low <= d <= high, with size, a multiple of 64, entries in each array: padded by low = high = 0.
   low, high and kink are kept relative to the present d, so that d is at one of them where it is
   0. g is the slope on the side of the kink where a change begins, so that it goes to 0, and
   float32 resolves it, however wide the tube is. */
typedef struct {
    ptrdiff_t size;
    int has_kinks;          /* else above and below are zeros */
    const float *values;    /* K, size by size; its diagonal is 1 for panel_ascend */
    const float *curvature; /* the diagonal, for panel_ascend_pairs */
    const float *above, *below;
    float *low, *high, *kink;
    float *change, *gradient; /* d, g - K d */
} panel_problem;

/* The largest values of each lane so far, and the blocks of 64 entries where they are. */
typedef struct {
    float value[PANEL];
    int32_t block[PANEL];
} panel_largest;

typedef struct {
    void (*dots)(const panel_entry *, const int64_t *, ptrdiff_t, ptrdiff_t, const float *,
                 const float *, const float *, float *);
    void (*finish)(const panel_kernel *, float *, ptrdiff_t);
    void (*product)(const float *, ptrdiff_t, const float *, ptrdiff_t, double *);
    ptrdiff_t (*ascend)(panel_problem *, ptrdiff_t, float, float *);
    ptrdiff_t (*ascend_pairs)(panel_problem *, ptrdiff_t, float, float *);
} panel_functions;

static inline float panel_clip(float value, float low, float high)
{
    value = value > low ? value : low;
    return value < high ? value : high;
}

/* Where the curvature is 1: the best step of a change alone, by its slope, and what it gains. */
static inline float panel_step(
    float slope, float low, float high, float kink, float above, float below, int has_kinks)
{
    float step = has_kinks ? panel_clip(kink, slope - above, slope + below) : slope;
    return panel_clip(step, low, high);
}

static inline float panel_gain(
    float step, float slope, float kink, float above, float below, int has_kinks)
{
    const float gain = step * (slope - 0.5f * step);
    const float under = kink < 0.0f ? kink : 0.0f, over = kink > 0.0f ? kink : 0.0f;
    const float rise = step - over, fall = under - step; /* exact on one side of the kink */
    return has_kinks ? gain - (above * (rise > under ? rise : under) +
                               below * (fall > -over ? fall : -over))
                     : gain;
}

/* Moves a change: exactly onto its kink or its end if the step leads there. */
static inline void panel_move(panel_problem *p, ptrdiff_t k, float step)
{
    p->change[k] += step;
    p->low[k] -= step;
    p->high[k] -= step;
    p->kink[k] -= step;
}

/* How fast the objective rises as a change grows, and as it falls; -inf, and inf, at an end. */
static inline float panel_rising(
    float slope, float high, float kink, float above, float below, int has_kinks)
{
    if (has_kinks)
        slope += kink > 0.0f ? below : -above;
    return high > 0.0f ? slope : -INFINITY;
}

static inline float panel_falling(
    float slope, float low, float kink, float above, float below, int has_kinks)
{
    if (has_kinks)
        slope += kink < 0.0f ? -above : below;
    return low < 0.0f ? slope : INFINITY;
}

/* How far a change can grow, or fall, until it meets its kink or its end. */
static inline float panel_room(float high, float kink, int has_kinks)
{
    return has_kinks && kink > 0.0f ? kink : high;
}

static inline float panel_room_below(float low, float kink, int has_kinks)
{
    return has_kinks && kink < 0.0f ? -kink : -low;
}

/* The entry of a pair that grows. */
typedef struct {
    float slope, curvature, room;
} panel_grower;

static inline float panel_bend(const panel_grower *i, float curvature, float value)
{
    const float bend = i->curvature + curvature - 2.0f * value, flattest = 1e-6f * i->curvature;
    return bend > flattest ? bend : flattest;
}

static inline float panel_pair_step(const panel_grower *i, float rise, float bend, float room)
{
    float step = rise / bend;
    step = step < room ? step : room;
    return step < i->room ? step : i->room;
}

/* first if chosen, which is 0 or 1, else second: bits that compilers turn into no branch */
static inline int32_t panel_pick(int32_t chosen, int32_t first, int32_t second)
{
    return second ^ ((first ^ second) & -chosen);
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

/* out[l * stride + r] = tile[r * PANEL + l]: a tile's columns as rows, four by four. */
static void panel_transpose(const float *tile, float *out, ptrdiff_t stride)
{
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
    typedef float four __attribute__((vector_size(16)));
    for (int l = 0; l < PANEL; l += 4)
        for (int r = 0; r < PANEL; r += 4) {
            four in[4], low[2], high[2], columns[4];
            for (int k = 0; k < 4; k++)
                memcpy(&in[k], tile + (r + k) * PANEL + l, sizeof in[k]);
            for (int k = 0; k < 2; k++) {
                low[k] = __builtin_shufflevector(in[2 * k], in[2 * k + 1], 0, 4, 1, 5);
                high[k] = __builtin_shufflevector(in[2 * k], in[2 * k + 1], 2, 6, 3, 7);
            }
            columns[0] = __builtin_shufflevector(low[0], low[1], 0, 1, 4, 5);
            columns[1] = __builtin_shufflevector(low[0], low[1], 2, 3, 6, 7);
            columns[2] = __builtin_shufflevector(high[0], high[1], 0, 1, 4, 5);
            columns[3] = __builtin_shufflevector(high[0], high[1], 2, 3, 6, 7);
            for (int k = 0; k < 4; k++)
                memcpy(out + (l + k) * stride + r, &columns[k], sizeof columns[k]);
        }
#else
    for (int l = 0; l < PANEL; l++)
        for (int r = 0; r < PANEL; r++)
            out[l * stride + r] = tile[r * PANEL + l];
#endif
}

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

/* Adds the inner products of a panel's examples with the features of one chunk of row r to tile[r],
   or to shift + row_shift[r] for the first chunk, where row_shift is NULL for later ones.

   Row r's entries of the chunk are entries[starts[r * stride]] to entries[starts[r * stride + 1]],
   a multiple of four of them. */
PANEL_TARGET static void PANEL_FUNCTION(panel_dots)(
    const panel_entry *entries, const int64_t *starts, ptrdiff_t stride, ptrdiff_t n_rows,
    const float *panel, const float *row_shift, const float *shift, float *tile)
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
                memcpy(&sums[j], (row_shift ? shift : out) + part + j * PANEL_LANES, sizeof values);
                if (row_shift)
                    sums[j] += row_shift[r];
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
        if (row_shift)
            for (int l = 0; l < PANEL; l++)
                out[l] = shift[l] + row_shift[r];
        for (const panel_entry *e = first; e < last; e++)
            for (int l = 0; l < PANEL; l++)
                out[l] += e->value * panel[e->offset + l];
#endif
    }
}

/* x[l] = 2^max(-126, x[l]), for x[l] <= 126: minimax polynomial, relative error 1e-7 and rounding.
   With the bits of -0.0 for `highest`, positive numbers count as 0; with 0 they do not.

   Loops over 64 numbers without branches, which compilers turn into vectors. The bits of negative
   numbers grow as unsigned integers with what they stand for: their minimum is one operation where
   compilers take several to compare numbers that might be NaN. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_exp2)(float *restrict x, uint32_t highest)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const uint32_t lowest = 0xC2FC0000u; /* -126.0f */
    float shifted[PANEL];
    uint32_t exponent[PANEL], bits[PANEL];
    memcpy(bits, x, sizeof bits);
    for (int l = 0; l < PANEL; l++)
        bits[l] = bits[l] > highest ? bits[l] : highest;
    for (int l = 0; l < PANEL; l++)
        bits[l] = bits[l] < lowest ? bits[l] : lowest;
    memcpy(x, bits, sizeof bits);
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
    for (int l = 0; l < PANEL; l++) {
        power[l] = 2.88539008f * x[l];
        power[l] = power[l] < 126.0f ? power[l] : 126.0f;
    }
    PANEL_FUNCTION(panel_exp2)(power, 0);
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

/* Kernel values from what panel_dots has summed, in place.

   linear: sum; poly: (sum + shift)^degree; sigmoid: tanh(sum + shift); rbf: 2^sum, the shift of x in
   panel_dots being -gamma log2(e) |x|^2, and x scaled by the root of 2 gamma log2(e). */
PANEL_TARGET static void PANEL_FUNCTION(panel_finish)(
    const panel_kernel *kernel, float *restrict tile, ptrdiff_t n_rows)
{
    const float shift = kernel->shift;
    if (kernel->kind == PANEL_RBF)
        for (ptrdiff_t r = 0; r < n_rows; r++)
            PANEL_FUNCTION(panel_exp2)(tile + r * PANEL, 0x80000000u); /* above 0 is rounding */
    else if (kernel->kind == PANEL_SIGMOID)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float *restrict value = tile + r * PANEL;
            for (int l = 0; l < PANEL; l++)
                value[l] += shift;
            PANEL_FUNCTION(panel_tanh)(value);
        }
    else if (kernel->kind == PANEL_POLY)
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float base[PANEL], *power = tile + r * PANEL;
            int degree = kernel->degree;
            for (int l = 0; l < PANEL; l++) {
                base[l] = power[l] + shift;
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

/* Begins a search for the largest value, lane by lane. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_search)(panel_largest *best, float least)
{
    for (int l = 0; l < PANEL; l++) {
        best->value[l] = least;
        best->block[l] = 0;
    }
}

/* Ends it: where the largest value is, which is best->value[0] then. */
PANEL_TARGET static inline ptrdiff_t PANEL_FUNCTION(panel_found)(panel_largest *best)
{
    float *value = best->value;
    int32_t *place = best->block;
    for (int l = 0; l < PANEL; l++)
        place[l] = place[l] * PANEL + l;
    for (int width = PANEL / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) {
            const float left = value[l], right = value[l + width];
            place[l] = panel_pick(right > left, place[l + width], place[l]);
            value[l] = right > left ? right : left;
        }
    return place[0];
}

/* Follows a change of one entry, whose row of K is `row`, in a block of 64, and searches there. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_follow)(
    float change, const float *restrict row, float *restrict g, const float *restrict low,
    const float *restrict high, const float *restrict kink, const float *restrict above,
    const float *restrict below, float *restrict best, int32_t *restrict place, int32_t block,
    const int has_kinks)
{
    for (int l = 0; l < PANEL; l++) {
        const float slope = g[l] - change * row[l];
        const float step = panel_step(
            slope, low[l], high[l], kink[l], above[l], below[l], has_kinks);
        const float gain = panel_gain(step, slope, kink[l], above[l], below[l], has_kinks);
        const float most = best[l];
        g[l] = slope;
        best[l] = gain > most ? gain : most;
        place[l] = panel_pick(gain > most, block, place[l]);
    }
}

/* Greedy coordinate ascent where all curvatures are 1: at most `limit` steps, until no gain
   exceeds `least`; tells how many, and the largest gain left. */
PANEL_TARGET static inline ptrdiff_t PANEL_FUNCTION(panel_singles)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest, const int has_kinks)
{
    const float *row = p->values;
    float change = 0.0f;
    for (ptrdiff_t taken = 0;; taken++) {
        panel_largest best;
        PANEL_FUNCTION(panel_search)(&best, 0.0f);
        for (ptrdiff_t k = 0; k < p->size; k += PANEL)
            PANEL_FUNCTION(panel_follow)(
                change, row + k, p->gradient + k, p->low + k, p->high + k, p->kink + k,
                p->above + k, p->below + k, best.value, best.block, (int32_t)(k / PANEL),
                has_kinks);
        const ptrdiff_t j = PANEL_FUNCTION(panel_found)(&best);
        *largest = best.value[0];
        if (taken == limit || !(*largest > least))
            return taken;
        change = panel_step(
            p->gradient[j], p->low[j], p->high[j], p->kink[j], p->above[j], p->below[j], has_kinks);
        panel_move(p, j, change);
        row = p->values + j * p->size;
    }
}

PANEL_TARGET static ptrdiff_t PANEL_FUNCTION(panel_ascend)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest)
{
    return p->has_kinks ? PANEL_FUNCTION(panel_singles)(p, limit, least, largest, 1)
                        : PANEL_FUNCTION(panel_singles)(p, limit, least, largest, 0);
}

/* Follows changes of a pair of entries in a block of 64, and searches for the one to grow. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_follow_pair)(
    float change, const float *restrict row, const float *restrict other, float *restrict g,
    const float *restrict high, const float *restrict kink, const float *restrict above,
    const float *restrict below, float *restrict best, int32_t *restrict place, int32_t block,
    const int has_kinks)
{
    for (int l = 0; l < PANEL; l++) {
        const float slope = g[l] - change * (row[l] - other[l]);
        const float rising = panel_rising(slope, high[l], kink[l], above[l], below[l], has_kinks);
        const float most = best[l];
        g[l] = slope;
        best[l] = rising > most ? rising : most;
        place[l] = panel_pick(rising > most, block, place[l]);
    }
}

/* Searches in a block of 64 for the best entry to fall when i grows, whose row of K is `row`; keeps
   the largest slopes too. */
PANEL_TARGET static inline void PANEL_FUNCTION(panel_partners)(
    const panel_grower *i, const float *restrict row, const float *restrict g,
    const float *restrict curvature, const float *restrict low, const float *restrict kink,
    const float *restrict above, const float *restrict below, float *restrict steepest,
    float *restrict best, int32_t *restrict place, int32_t block, const int has_kinks)
{
    for (int l = 0; l < PANEL; l++) {
        const float falling = panel_falling(g[l], low[l], kink[l], above[l], below[l], has_kinks);
        const float room = panel_room_below(low[l], kink[l], has_kinks);
        const float bend = panel_bend(i, curvature[l], row[l]);
        float rise = i->slope - falling;
        rise = rise > 0.0f ? rise : 0.0f;
        const float step = panel_pair_step(i, rise, bend, room);
        const float gain = step * (rise - 0.5f * bend * step);
        const float most = best[l], top = steepest[l];
        steepest[l] = rise > top ? rise : top;
        best[l] = gain > most ? gain : most;
        place[l] = panel_pick(gain > most, block, place[l]);
    }
}

/* Steps along pairs of changes that keep their sum: the first by the largest slope, the
   second by the largest gain. A step ends where a change meets its kink or its end. As panel_ascend
   else, but `least` and `largest` are slopes along a pair: the gain of a step that meets an end
   at once is next to nothing, whatever others would gain. */
PANEL_TARGET static inline ptrdiff_t PANEL_FUNCTION(panel_pairs)(
    panel_problem *p, ptrdiff_t limit, float least, float *largest, const int has_kinks)
{
    const float *row = p->values, *other = p->values;
    float change = 0.0f;
    for (ptrdiff_t taken = 0;; taken++) {
        panel_largest best;
        float steepest[PANEL] = {0};
        PANEL_FUNCTION(panel_search)(&best, -INFINITY);
        for (ptrdiff_t k = 0; k < p->size; k += PANEL)
            PANEL_FUNCTION(panel_follow_pair)(
                change, row + k, other + k, p->gradient + k, p->high + k, p->kink + k,
                p->above + k, p->below + k, best.value, best.block, (int32_t)(k / PANEL),
                has_kinks);
        const ptrdiff_t i = PANEL_FUNCTION(panel_found)(&best);
        const panel_grower grower = {
            best.value[0], p->curvature[i],
            panel_room(p->high[i], p->kink[i], has_kinks)};
        row = p->values + i * p->size;
        PANEL_FUNCTION(panel_search)(&best, 0.0f);
        const float low = p->low[i];
        p->low[i] = 0.0f; /* it cannot fall: rounding must not pair it with itself */
        if (grower.slope > -INFINITY)
            for (ptrdiff_t k = 0; k < p->size; k += PANEL)
                PANEL_FUNCTION(panel_partners)(
                    &grower, row + k, p->gradient + k, p->curvature + k, p->low + k, p->kink + k,
                    p->above + k, p->below + k, steepest, best.value, best.block,
                    (int32_t)(k / PANEL), has_kinks);
        p->low[i] = low;
        const ptrdiff_t j = PANEL_FUNCTION(panel_found)(&best);
        *largest = 0.0f;
        for (int l = 0; l < PANEL; l++)
            *largest = *largest > steepest[l] ? *largest : steepest[l];
        if (taken == limit || !(*largest > least) || !(best.value[0] > 0.0f))
            return taken;
        const float falling = panel_falling(
            p->gradient[j], p->low[j], p->kink[j], p->above[j], p->below[j], has_kinks);
        change = panel_pair_step(
            &grower, grower.slope - falling,
            panel_bend(&grower, p->curvature[j], row[j]),
            panel_room_below(p->low[j], p->kink[j], has_kinks));
        panel_move(p, i, change);
        panel_move(p, j, -change);
        other = p->values + j * p->size;
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
