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
    Py_ssize_t width          # block k covers [k * width, (k + 1) * width)
    Py_ssize_t n_blocks
    bint whole                # blocks are drawn, not entries

cdef struct Draw:
    Py_ssize_t start, stop    # the entries drawn
    double share              # their part of the total


cdef double sum_blocks(FlatSums* sums) noexcept nogil

cdef Draw draw_entries(const FlatSums* sums, double u) noexcept nogil


cdef class FlatSampler:
    cdef FlatSums sums
    cdef readonly object chances, cumulative
