/* Vectors of eight and of four values, where the compiler has them. */
#ifndef SUBLINEAR_VECTORS_H
#define SUBLINEAR_VECTORS_H

#include <string.h>

#include "portable.h"

enum { SUBLINEAR_LANES = 8, SUBLINEAR_QUAD = 4 };

#if SUBLINEAR_VECTORS
typedef double sublinear_lanes __attribute__((vector_size(64)));
typedef float sublinear_lanes32 __attribute__((vector_size(32)));

/* Compilers keep vectors of four in registers whatever the processor knows. Of eight, all that is held
   over several rows goes to memory where the widest registers hold four. */
typedef double sublinear_quad __attribute__((vector_size(32)));
typedef float sublinear_quad32 __attribute__((vector_size(16)));

#define SUBLINEAR_LOAD_double(target, source) memcpy(&(target), (source), sizeof(target))
#define SUBLINEAR_LOAD_float(target, source)                          \
    do {                                                              \
        sublinear_lanes32 narrow_;                                    \
        memcpy(&narrow_, (source), sizeof(narrow_));                  \
        (target) = __builtin_convertvector(narrow_, sublinear_lanes); \
    } while (0)

#define SUBLINEAR_QUAD_double(target, source) memcpy(&(target), (source), sizeof(target))
#define SUBLINEAR_QUAD_float(target, source)                         \
    do {                                                             \
        sublinear_quad32 narrow_;                                    \
        memcpy(&narrow_, (source), sizeof(narrow_));                 \
        (target) = __builtin_convertvector(narrow_, sublinear_quad); \
    } while (0)

/* quad += its two halves */
static inline void sublinear_add_halves(const sublinear_lanes *lanes, sublinear_quad *quad)
{
    sublinear_quad low, high;
    memcpy(&low, lanes, sizeof(low));
    memcpy(&high, (const char *)lanes + sizeof(low), sizeof(high));
    *quad += low + high;
}

static inline double sublinear_sum_of_quad(const sublinear_quad *quad)
{
    const sublinear_quad sum = *quad;
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
#endif

#endif
