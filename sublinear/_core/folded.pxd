from libc.stdint cimport int32_t

from sublinear._core.matrix cimport Matrix


cdef class Folding:
    cdef readonly Matrix source, matrix
    cdef readonly Py_ssize_t n_shared
    cdef int n_threads
    cdef int32_t[::1] place     # of a column of the source among the shared ones, or -1
    cdef object alone           # of every entry, whether it is folded: the only one of its column
    cdef object norms           # of the folded entries of every row
