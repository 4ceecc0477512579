"""FlatSampler: many draws from weights that all change between draws.

Where a step costs as much as a look at every weight anyway, a tree saves nothing: the sums of
blocks are gathered anew, and a draw is a binary search over blocks and a scan of one. Adjacent
entries may be drawn together: where they share a cache line, sixteen cost what one costs.
"""

cdef enum:
    SCANNED = 64              # entries of a block that is searched for one entry

cdef struct FlatSums:
    double* chance            # not negative
    double* cumulative        # cumulative[k]: the sum over blocks 0 .. k
    Py_ssize_t size
    Py_ssize_t width, lead    # block k covers [k * width - lead, (k + 1) * width - lead)
    Py_ssize_t n_blocks
    bint whole                # blocks are drawn, not entries

cdef struct Draw:
    Py_ssize_t start, stop    # the entries drawn
    double share              # their part of the total


cdef inline Py_ssize_t block_start(const FlatSums* sums, Py_ssize_t k) noexcept nogil:
    return max(0, k * sums.width - sums.lead)


cdef inline Py_ssize_t block_stop(const FlatSums* sums, Py_ssize_t k) noexcept nogil:
    return min(sums.size, (k + 1) * sums.width - sums.lead)


cdef inline double total_of(const FlatSums* sums) noexcept nogil:
    return sums.cumulative[sums.n_blocks - 1]


cdef void sum_some_blocks(
    FlatSums* sums, Py_ssize_t first, Py_ssize_t last, const double* chance
) noexcept nogil

cdef double sum_blocks(FlatSums* sums) noexcept nogil

cdef Draw draw_block(const FlatSums* sums, double u, double* rest) noexcept nogil

cdef Draw entry_of_block(
    const FlatSums* sums, Draw block, const double* chance, double rest
) noexcept nogil

cdef Draw draw_entries(const FlatSums* sums, double u) noexcept nogil


cdef class FlatSampler:
    cdef FlatSums sums
    cdef readonly object chances, cumulative
