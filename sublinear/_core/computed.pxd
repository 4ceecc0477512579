from sublinear._core.matrix cimport Matrix


cdef class ComputedMatrix(Matrix):
    cdef object compute              # called with a row's number, returns its values
    cdef object buffer
    cdef Py_ssize_t[::1] slots       # of every row: its place in the buffer; the last one if none
    cdef Py_ssize_t[::1] owners      # of every place: its row, or -1
    cdef long long[::1] turns        # of every place: when its row was last asked for
    cdef Py_ssize_t capacity, place
    cdef long long turn
