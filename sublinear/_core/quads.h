/* Vectors of four values: compilers keep them in registers whatever the processor knows. Of eight, all
   that is held over several rows goes to memory where the widest registers hold four. */
#ifndef SUBLINEAR_QUADS_H
#define SUBLINEAR_QUADS_H

#include <string.h>

#include "portable.h"

#if SUBLINEAR_VECTORS
enum { SUBLINEAR_QUAD = 4 };
typedef double sublinear_quad __attribute__((vector_size(32)));
typedef float sublinear_quad32 __attribute__((vector_size(16)));

#define SUBLINEAR_QUAD_double(target, source) memcpy(&(target), (source), sizeof(target))
#define SUBLINEAR_QUAD_float(target, source)                         \
    do {                                                             \
        sublinear_quad32 narrow_;                                    \
        memcpy(&narrow_, (source), sizeof(narrow_));                 \
        (target) = __builtin_convertvector(narrow_, sublinear_quad); \
    } while (0)
#endif

#endif
