"""Dots and sums of a Line with several vectors at once, say those of all classes.

They are the columns of W, an array of shape (length of w, n_classes) in row order. Each gets the
same bits whatever the others are: its sum takes the line's entries in their order.
"""
from sublinear._core.line cimport Line, index_bytes, is_dense, value_bytes

cdef extern from "classes.h" nogil:
    void dot_classes_of "sublinear_dot_classes"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        Py_ssize_t stride, Py_ssize_t size, const double* W, Py_ssize_t n_classes,
        double* scores) noexcept
    void add_classes_of "sublinear_add_classes"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        Py_ssize_t stride, Py_ssize_t size, const double* factors, Py_ssize_t n_classes,
        double* W) noexcept
    void add_pair_of "sublinear_add_pair"(
        int value_bytes, int index_bytes, const void* values, const void* indices,
        Py_ssize_t stride, Py_ssize_t size, double factor, Py_ssize_t n_classes, double* up,
        double* down) noexcept


cdef inline void dot_classes(
    const Line* x, const double* W, Py_ssize_t n_classes, double* scores
) noexcept nogil:
    """scores = W' x"""
    cdef Py_ssize_t c
    cdef bint dense = is_dense(x.storage)
    dot_classes_of(
        value_bytes(x.storage), index_bytes(x.storage), x.values, NULL if dense else x.indices,
        x.stride if dense else 1, x.size, W, n_classes, scores)
    if x.constant != 0:
        for c in range(n_classes):
            scores[c] += x.constant * W[x.length * n_classes + c]


cdef inline void add_classes(
    const Line* x, const double* factors, Py_ssize_t n_classes, double* W
) noexcept nogil:
    """W += x factors'"""
    cdef Py_ssize_t c
    cdef bint dense = is_dense(x.storage)
    add_classes_of(
        value_bytes(x.storage), index_bytes(x.storage), x.values, NULL if dense else x.indices,
        x.stride if dense else 1, x.size, factors, n_classes, W)
    if x.constant != 0:
        for c in range(n_classes):
            W[x.length * n_classes + c] += x.constant * factors[c]


cdef inline void add_pair(
    const Line* x, double factor, Py_ssize_t n_classes, Py_ssize_t plus, Py_ssize_t minus, double* W
) noexcept nogil:
    """W[:, plus] += factor * x, W[:, minus] -= factor * x"""
    cdef bint dense = is_dense(x.storage)
    add_pair_of(
        value_bytes(x.storage), index_bytes(x.storage), x.values, NULL if dense else x.indices,
        x.stride if dense else 1, x.size, factor, n_classes, W + plus, W + minus)
    if x.constant != 0:
        W[x.length * n_classes + plus] += factor * x.constant
        W[x.length * n_classes + minus] -= factor * x.constant
