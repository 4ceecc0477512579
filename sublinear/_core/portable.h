/* What differs between compilers and processors, in one place: prefetching, one thread waiting for
   another, and long dense lines.

   The dense loops keep sixteen partial sums in fixed lanes and, since the build forbids fused
   multiply-adds, every vector width gives the same bits. Where the compiler can, the widest
   version that the processor knows is chosen when the module is loaded. */
#ifndef SUBLINEAR_PORTABLE_H
#define SUBLINEAR_PORTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#define SUBLINEAR_OPENMP 1
#else
#define SUBLINEAR_OPENMP 0
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_num_threads(void) { return 1; }
#endif

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
/* what is left of 16 bits: attributes have such names, which would vanish */
#undef far
#undef near
#undef FAR
#undef NEAR
#define FAR
#define NEAR
#define sublinear_yield() SwitchToThread()
#else
#include <sched.h>
#define sublinear_yield() sched_yield()
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define sublinear_pause() _mm_pause()
#else
#define sublinear_pause() ((void)0)
#endif

#if defined(__GNUC__)
/* Into the second cache: it takes several times as many requests at once as the first one, and
   what is asked for early does not fit there. The empty asm keeps compilers from dropping functions
   that do nothing but prefetch. */
#define sublinear_prefetch(address)         \
    do {                                    \
        __builtin_prefetch(address, 0, 2);  \
        __asm__ volatile("");               \
    } while (0)
/* Into the first one, for what is read in order and used next. */
#define sublinear_prefetch_next(address) __builtin_prefetch(address, 0, 3)
#define SUBLINEAR_VECTORS 1
#define sublinear_store(flag, value) __atomic_store_n(flag, value, __ATOMIC_RELEASE)
#define sublinear_load(flag) __atomic_load_n(flag, __ATOMIC_ACQUIRE)
#else
#define sublinear_prefetch(address) ((void)(address))
#define SUBLINEAR_VECTORS 0
#define sublinear_store(flag, value) WriteRelease64(flag, value)
#define sublinear_load(flag) ReadAcquire64(flag)
#endif

/* Lines in random order come from memory, not from the cache: what a line needs is asked for some draws
   ahead. Its offset comes first, then its entries. */
enum {
    SUBLINEAR_OFFSET_AHEAD = 32,
    SUBLINEAR_LINE_AHEAD = 16,
    SUBLINEAR_CACHE_LINE = 64, /* bytes */
    SUBLINEAR_PREFETCHED = 64  /* cache lines of an array: the processor follows longer runs itself */
};

static inline void sublinear_prefetch_span(const void *start, const void *end)
{
    const char *at = (const char *)start, *last = (const char *)end - 1;
    if (last - at >= SUBLINEAR_PREFETCHED * SUBLINEAR_CACHE_LINE)
        last = at + SUBLINEAR_PREFETCHED * SUBLINEAR_CACHE_LINE - 1;
    if (last < at)
        return;
    for (; at < last; at += SUBLINEAR_CACHE_LINE)
        sublinear_prefetch(at);
    sublinear_prefetch(last);
}

/* value, or the nearer end of [low, high], without branches: which end is hard to foresee. */
static inline double sublinear_clip(double value, double low, double high)
{
#if defined(__SSE2__)
    __m128d clipped = _mm_max_sd(_mm_set_sd(value), _mm_set_sd(low));
    return _mm_cvtsd_f64(_mm_min_sd(clipped, _mm_set_sd(high)));
#else
    value = value > low ? value : low;
    return value < high ? value : high;
#endif
}

/* Seconds of a clock that does not go back. */
static inline double sublinear_clock(void)
{
#if defined(_WIN32)
    LARGE_INTEGER ticks, frequency;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&frequency);
    return (double)ticks.QuadPart / (double)frequency.QuadPart;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}

enum { SUBLINEAR_PATIENCE = 4000 };

/* What was written before publish is seen after wait_for. */
static inline void sublinear_publish(long long *flag, long long value)
{
    sublinear_store(flag, value);
}

static inline void sublinear_wait_for(const long long *flag, long long value)
{
    int spins = 0;
    while (sublinear_load(flag) < value) {
        sublinear_pause();
        if (++spins > SUBLINEAR_PATIENCE) {
            sublinear_yield();
            spins = 0;
        }
    }
}

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && \
    (!defined(__clang__) || __clang_major__ >= 14)
#define SUBLINEAR_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#define SUBLINEAR_AVX512 __attribute__((target("avx512f"))) /* where the processor supports it */
#else
#define SUBLINEAR_WIDEST
#endif

enum { SUBLINEAR_LANES = 8 };

#if SUBLINEAR_VECTORS
typedef double sublinear_lanes __attribute__((vector_size(64)));
typedef float sublinear_lanes32 __attribute__((vector_size(32)));

#define SUBLINEAR_LOAD_double(target, source) memcpy(&(target), (source), sizeof(target))
#define SUBLINEAR_LOAD_float(target, source)                  \
    do {                                                      \
        sublinear_lanes32 narrow_;                            \
        memcpy(&narrow_, (source), sizeof(narrow_));          \
        (target) = __builtin_convertvector(narrow_, sublinear_lanes); \
    } while (0)

#define SUBLINEAR_DENSE_DOT(name, real)                                                     \
    SUBLINEAR_WIDEST static double name(const real *x, const double *w, ptrdiff_t size)     \
    {                                                                                       \
        sublinear_lanes even = {0}, odd = {0}, a, b;                                        \
        double total = 0.0;                                                                 \
        ptrdiff_t k = 0;                                                                    \
        for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES) {                 \
            SUBLINEAR_LOAD_##real(a, x + k);                                                \
            SUBLINEAR_LOAD_double(b, w + k);                                                \
            even += a * b;                                                                  \
            SUBLINEAR_LOAD_##real(a, x + k + SUBLINEAR_LANES);                              \
            SUBLINEAR_LOAD_double(b, w + k + SUBLINEAR_LANES);                              \
            odd += a * b;                                                                   \
        }                                                                                   \
        even += odd;                                                                        \
        for (; k < size; k++)                                                               \
            total += (double)x[k] * w[k];                                                   \
        for (k = 0; k < SUBLINEAR_LANES; k++)                                               \
            total += even[k];                                                               \
        return total;                                                                       \
    }
#else
#define SUBLINEAR_DENSE_DOT(name, real)                                                     \
    static double name(const real *x, const double *w, ptrdiff_t size)                      \
    {                                                                                       \
        double lanes[2 * SUBLINEAR_LANES] = {0}, total = 0.0;                               \
        ptrdiff_t k = 0, lane;                                                              \
        for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES)                   \
            for (lane = 0; lane < 2 * SUBLINEAR_LANES; lane++)                              \
                lanes[lane] += (double)x[k + lane] * w[k + lane];                           \
        for (; k < size; k++)                                                               \
            total += (double)x[k] * w[k];                                                   \
        for (lane = 0; lane < SUBLINEAR_LANES; lane++)                                      \
            total += lanes[lane] + lanes[lane + SUBLINEAR_LANES];                           \
        return total;                                                                       \
    }
#endif

/* |x|^2, and what a pass needs of four lines at once, each in the order of the loops above: their dot
   products with x, and their squares or w += sum of factors * lines. Those that are `next`, unless it
   is NULL, are asked for meanwhile. */
enum { SUBLINEAR_ROWS = 4 };

#if SUBLINEAR_VECTORS
#define SUBLINEAR_DENSE_SQUARES(name, real)                                                 \
    SUBLINEAR_WIDEST static double name(const real *x, ptrdiff_t size)                      \
    {                                                                                       \
        sublinear_lanes even = {0}, odd = {0}, a;                                           \
        double total = 0.0;                                                                 \
        ptrdiff_t k = 0;                                                                    \
        for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES) {                 \
            SUBLINEAR_LOAD_##real(a, x + k);                                                \
            even += a * a;                                                                  \
            SUBLINEAR_LOAD_##real(a, x + k + SUBLINEAR_LANES);                              \
            odd += a * a;                                                                   \
        }                                                                                   \
        even += odd;                                                                        \
        for (; k < size; k++)                                                               \
            total += (double)x[k] * (double)x[k];                                           \
        for (k = 0; k < SUBLINEAR_LANES; k++)                                               \
            total += even[k];                                                               \
        return total;                                                                       \
    }

#define SUBLINEAR_ROWS_LOOP(real, EACH_GROUP, asks)                                         \
    for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES)                       \
        for (half = 0; half < 2; half++) {                                                  \
            ptrdiff_t at = k + half * SUBLINEAR_LANES;                                      \
            for (r = 0; r < SUBLINEAR_ROWS && (asks); r++)                                  \
                sublinear_prefetch_next(next[r] + at);                                      \
            SUBLINEAR_LOAD_double(b, x + at);                                               \
            EACH_GROUP(real)                                                                \
        }

#define SUBLINEAR_ROWS_BODY(real, EACH_GROUP, EACH_ENTRY)                                   \
    sublinear_lanes sum[SUBLINEAR_ROWS][2] = {{{0}}}, a, b, g;                              \
    double rest[SUBLINEAR_ROWS] = {0}, entry;                                               \
    ptrdiff_t k = 0, lane;                                                                  \
    int r, half;                                                                            \
    (void)g;                                                                                \
    if (next != NULL)                                                                       \
        SUBLINEAR_ROWS_LOOP(real, EACH_GROUP, 1)                                            \
    else                                                                                    \
        SUBLINEAR_ROWS_LOOP(real, EACH_GROUP, 0)                                            \
    for (; k < size; k++)                                                                   \
        for (r = 0; r < SUBLINEAR_ROWS; r++) {                                              \
            entry = (double)rows[r][k];                                                     \
            rest[r] += entry * x[k];                                                        \
            EACH_ENTRY                                                                      \
        }                                                                                   \
    for (r = 0; r < SUBLINEAR_ROWS; r++) {                                                  \
        sum[r][0] += sum[r][1];                                                             \
        for (lane = 0; lane < SUBLINEAR_LANES; lane++)                                      \
            rest[r] += sum[r][0][lane];                                                     \
        dots[r] = rest[r];                                                                  \
    }

#define SUBLINEAR_GROUP_DOT(real)                                                           \
    for (r = 0; r < SUBLINEAR_ROWS; r++) {                                                  \
        SUBLINEAR_LOAD_##real(a, rows[r] + at);                                             \
        sum[r][half] += a * b;                                                              \
    }
#define SUBLINEAR_GROUP_DOT_ADD(real)                                                       \
    SUBLINEAR_LOAD_double(g, w + at);                                                       \
    for (r = 0; r < SUBLINEAR_ROWS; r++) {                                                  \
        SUBLINEAR_LOAD_##real(a, rows[r] + at);                                             \
        sum[r][half] += a * b;                                                              \
        g += factors[r] * a;                                                                \
    }                                                                                       \
    memcpy(w + at, &g, sizeof(g));

#define SUBLINEAR_GROUP_DOT_SQUARE(real)                                                    \
    for (r = 0; r < SUBLINEAR_ROWS; r++) {                                                  \
        SUBLINEAR_LOAD_##real(a, rows[r] + at);                                             \
        sum[r][half] += a * b;                                                              \
        square[r][half] += a * a;                                                           \
    }

#define SUBLINEAR_DENSE_ROWS(real)                                                          \
    SUBLINEAR_WIDEST static void sublinear_dots_##real(                                     \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots)                                                                       \
    {                                                                                       \
        SUBLINEAR_ROWS_BODY(real, SUBLINEAR_GROUP_DOT, )                                    \
    }                                                                                       \
    SUBLINEAR_WIDEST static void sublinear_dots_squares_##real(                             \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots, double *squares)                                                      \
    {                                                                                       \
        sublinear_lanes square[SUBLINEAR_ROWS][2] = {{{0}}};                                \
        for (int i = 0; i < SUBLINEAR_ROWS; i++)                                            \
            squares[i] = 0;                                                                 \
        SUBLINEAR_ROWS_BODY(real, SUBLINEAR_GROUP_DOT_SQUARE, squares[r] += entry * entry;) \
        for (r = 0; r < SUBLINEAR_ROWS; r++) {                                              \
            square[r][0] += square[r][1];                                                   \
            for (lane = 0; lane < SUBLINEAR_LANES; lane++)                                  \
                squares[r] += square[r][0][lane];                                           \
        }                                                                                   \
    }                                                                                       \
    SUBLINEAR_WIDEST static void sublinear_dots_add_##real(                                 \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots, const double *factors, double *w)                                     \
    {                                                                                       \
        SUBLINEAR_ROWS_BODY(real, SUBLINEAR_GROUP_DOT_ADD, w[k] += factors[r] * entry;)     \
    }
#else
#define SUBLINEAR_DENSE_SQUARES(name, real)                                                 \
    static double name(const real *x, ptrdiff_t size)                                       \
    {                                                                                       \
        double lanes[2 * SUBLINEAR_LANES] = {0}, total = 0.0;                               \
        ptrdiff_t k = 0, lane;                                                              \
        for (; k + 2 * SUBLINEAR_LANES <= size; k += 2 * SUBLINEAR_LANES)                   \
            for (lane = 0; lane < 2 * SUBLINEAR_LANES; lane++)                              \
                lanes[lane] += (double)x[k + lane] * (double)x[k + lane];                   \
        for (; k < size; k++)                                                               \
            total += (double)x[k] * (double)x[k];                                           \
        for (lane = 0; lane < SUBLINEAR_LANES; lane++)                                      \
            total += lanes[lane] + lanes[lane + SUBLINEAR_LANES];                           \
        return total;                                                                       \
    }

#define SUBLINEAR_DENSE_ROWS(real)                                                          \
    static void sublinear_dots_##real(                                                      \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots)                                                                       \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r++)                                            \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
    }                                                                                       \
    static void sublinear_dots_squares_##real(                                              \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots, double *squares)                                                      \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r++) {                                          \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
            squares[r] = sublinear_squares_##real(rows[r], size);                           \
        }                                                                                   \
    }                                                                                       \
    static void sublinear_dots_add_##real(                                                  \
        const real *const *rows, const real *const *next, ptrdiff_t size, const double *x,  \
        double *dots, const double *factors, double *w)                                     \
    {                                                                                       \
        for (int r = 0; r < SUBLINEAR_ROWS; r++) {                                          \
            dots[r] = sublinear_dot_##real(rows[r], x, size);                               \
            sublinear_add_##real(rows[r], factors[r], w, size);                             \
        }                                                                                   \
    }
#endif

/* w += factor * x */
#define SUBLINEAR_DENSE_ADD(name, real)                                                     \
    SUBLINEAR_WIDEST static void name(const real *restrict x, double factor,                \
                                      double *restrict w, ptrdiff_t size)                   \
    {                                                                                       \
        for (ptrdiff_t k = 0; k < size; k++)                                                \
            w[k] += factor * (double)x[k];                                                  \
    }

SUBLINEAR_DENSE_DOT(sublinear_dot_float, float)
SUBLINEAR_DENSE_DOT(sublinear_dot_double, double)
SUBLINEAR_DENSE_ADD(sublinear_add_float, float)
SUBLINEAR_DENSE_ADD(sublinear_add_double, double)
SUBLINEAR_DENSE_SQUARES(sublinear_squares_float, float)
SUBLINEAR_DENSE_SQUARES(sublinear_squares_double, double)
SUBLINEAR_DENSE_ROWS(float)
SUBLINEAR_DENSE_ROWS(double)

#endif
