"""SumTree: draw an index with probability proportional to its weight; change a weight.

A node holds the sum of its 64 children, so an update is three or four additions and a draw three or
four short scans. Additions round; the tree bounds what they may have cost it and sums itself anew
before that reaches one part in 10^10.
"""

cdef enum:
    FAN_OUT = 64
    MAX_LEVELS = 8

cdef struct SumNodes:
    double* level[MAX_LEVELS]        # level 0: the weights; the last level: the total
    Py_ssize_t size[MAX_LEVELS]
    int n_levels
    double drift                     # bound on the total's rounding error


cdef void rebuild_sums(SumNodes* tree) noexcept nogil

cdef Py_ssize_t draw_index(SumNodes* tree, double u) noexcept nogil


cdef inline double total_weight(const SumNodes* tree) noexcept nogil:
    return tree.level[tree.n_levels - 1][0]


cdef inline void set_weight(SumNodes* tree, Py_ssize_t i, double weight) noexcept nogil:
    cdef double before = total_weight(tree)
    cdef double change = weight - tree.level[0][i]
    cdef int level
    tree.level[0][i] = weight
    for level in range(1, tree.n_levels):
        i //= FAN_OUT
        tree.level[level][i] += change
    tree.drift += 2.3e-16 * tree.n_levels * (before + weight)
    if tree.drift > 1e-10 * total_weight(tree):
        rebuild_sums(tree)


cdef class SumTree:
    cdef SumNodes nodes
    cdef object levels
