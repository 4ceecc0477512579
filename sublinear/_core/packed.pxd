from sublinear._core.line cimport Lines


# What dual coordinate ascent knows of an example; in a packed row its entries follow.
cdef struct Record:
    double dual
    double curvature      # s_i |x_i|^2 / (alpha W)
    double target


cdef class PackedRows:
    cdef Lines rows
    cdef char* records
    cdef const long long* offset           # NULL: short rows, which are entries alone
    cdef readonly bint exact
    cdef readonly object buffer, offsets   # no offsets of short rows


cdef inline Record* record_at(PackedRows packed, Py_ssize_t i) noexcept nogil:
    return <Record*> (packed.records + packed.offset[i])
