from libc.stdint cimport uint8_t, uint32_t

cdef struct Places:
    Py_ssize_t count         # of strata
    double width             # of a stratum
    Py_ssize_t last          # the last item
    const uint32_t* items    # examples along the line
    const double* ends       # of the items on it; NULL: each is 1 wide
    const uint32_t* edges    # the item in which a stratum begins


cdef inline uint32_t example_at(
    const Places* places, Py_ssize_t stratum, double offset
) noexcept nogil:
    """The example at a part `offset` of a stratum, from 0 to less than 1."""
    cdef double place = (stratum + offset) * places.width
    cdef Py_ssize_t first, last = places.last, middle
    if places.ends == NULL:
        return places.items[min(last, <Py_ssize_t> place)]
    first = places.edges[stratum]
    if stratum + 1 < places.count:
        last = places.edges[stratum + 1]
    while first < last:      # for the first item that ends beyond the place
        middle = (first + last) // 2
        if places.ends[middle] > place:
            last = middle
        else:
            first = middle + 1
    return places.items[first]


cdef class Strata:
    cdef readonly object items, ends
    cdef object edges
    cdef const uint8_t[::1] is_copy        # whether an item equals the one before it
    cdef Places places

    cdef Py_ssize_t _units(self, double unit, const double[::1] weights) noexcept
    cdef double _next_mass(self, Py_ssize_t* k, const double[::1] weights) noexcept
    cdef void _share(
        self, Py_ssize_t first, Py_ssize_t end, double[:, ::1] masses, const double[::1] weights
    ) noexcept nogil
