"""Draws from a NumPy bit generator without the GIL."""
from libc.stdint cimport uint32_t, uint64_t
from numpy.random cimport bitgen_t


cdef class RandomBits:
    cdef readonly object bit_generator   # keeps `bits` alive
    cdef bitgen_t* bits


cdef inline double uniform(bitgen_t* bits) noexcept nogil:
    """A float64 from [0, 1)."""
    return bits.next_double(bits.state)


cdef inline uint32_t below(bitgen_t* bits, uint32_t n) noexcept nogil:
    """An integer from {0, .., n - 1}, n > 0, without bias (Lemire's multiplication)."""
    cdef uint64_t product = <uint64_t> bits.next_uint32(bits.state) * n
    cdef uint32_t low = <uint32_t> product
    cdef uint32_t least
    if low < n:
        least = (0 - n) % n
        while low < least:
            product = <uint64_t> bits.next_uint32(bits.state) * n
            low = <uint32_t> product
    return <uint32_t> (product >> 32)
