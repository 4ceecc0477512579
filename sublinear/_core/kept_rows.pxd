from sublinear._core.matrix cimport Matrix


cdef class KeptRows:
    cdef readonly object rows
    cdef Matrix matrix
    cdef bint sparse
    cdef int add_products(self, const double[::1] curvatures, const double[:, ::1] V,
                          double[:, ::1] result, double[::1] factors) except -1 nogil
