/* What differs between compilers and processors, in one place: prefetching, one thread waiting for
   another, and functions for several vector widths: since the build forbids fused multiply-adds, every
   one gives the same bits where sums keep to lanes. Where the compiler can, the widest version that the
   processor knows is chosen when the module is loaded. */
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
/* From there into the first one, shortly before it is used. */
#define sublinear_prefetch_near(address)    \
    do {                                    \
        __builtin_prefetch(address, 0, 3);  \
        __asm__ volatile("");               \
    } while (0)
#define SUBLINEAR_VECTORS 1
#define sublinear_store(flag, value) __atomic_store_n(flag, value, __ATOMIC_RELEASE)
#define sublinear_load(flag) __atomic_load_n(flag, __ATOMIC_ACQUIRE)
#else
#define sublinear_prefetch(address) ((void)(address))
#define sublinear_prefetch_near(address) ((void)(address))
#define SUBLINEAR_VECTORS 0
#define sublinear_store(flag, value) WriteRelease64(flag, value)
#define sublinear_load(flag) ReadAcquire64(flag)
#endif

/* Lines in random order come from memory, not from the cache: what a line needs is prefetched some draws
   ahead. Its offset comes first, then its entries; those of dense lines once more. */
enum {
    SUBLINEAR_OFFSET_AHEAD = 32,
    SUBLINEAR_LINE_AHEAD = 16,
    SUBLINEAR_NEAR_AHEAD = 4,
    SUBLINEAR_CACHE_LINE = 64, /* bytes */
    SUBLINEAR_PREFETCHED = 64  /* cache lines of an array: the processor follows longer runs itself */
};

#define SUBLINEAR_PREFETCH_SPAN(name, PREFETCH)                                     \
    static inline void name(const void *start, const void *end)                     \
    {                                                                               \
        const char *at = (const char *)start, *last = (const char *)end - 1;        \
        PREFETCH(at);                                                               \
        if (last - at > SUBLINEAR_CACHE_LINE) {                                     \
            if (last - at >= SUBLINEAR_PREFETCHED * SUBLINEAR_CACHE_LINE)           \
                last = at + SUBLINEAR_PREFETCHED * SUBLINEAR_CACHE_LINE - 1;        \
            for (at += SUBLINEAR_CACHE_LINE; at < last; at += SUBLINEAR_CACHE_LINE) \
                PREFETCH(at);                                                       \
        }                                                                           \
        PREFETCH(last);                                                             \
    }

SUBLINEAR_PREFETCH_SPAN(sublinear_prefetch_span, sublinear_prefetch)
SUBLINEAR_PREFETCH_SPAN(sublinear_prefetch_near_span, sublinear_prefetch_near)

/* value, or the nearer end of [low, high], without branches: which end is hard to foresee. */
static inline double sublinear_clip(double value, double low, double high)
{
#if defined(__SSE2__) && defined(__x86_64__)
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
/* for functions that are called where the processor supports them */
#define SUBLINEAR_AVX512 __attribute__((target("avx512f")))
#define SUBLINEAR_FMA __attribute__((target("avx2,fma")))
#else
#define SUBLINEAR_WIDEST
#endif

#endif
