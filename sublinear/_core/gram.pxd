"""Sums of products of dense rows that are copied side by side."""

cdef extern from "gram.h" nogil:
    enum:
        GRAM_PITCH "SUBLINEAR_GRAM_PITCH"
        GRAM_VALUES "SUBLINEAR_GRAM_VALUES"
    void add_gram "sublinear_add_gram"(
        const double* rows, Py_ssize_t count, Py_ssize_t size, Py_ssize_t pitch, double* gram
    ) noexcept


cdef inline Py_ssize_t gram_pitch(Py_ssize_t size) noexcept nogil:
    """The distance between rows of a matrix of so many columns."""
    return (size + GRAM_PITCH - 1) // GRAM_PITCH * GRAM_PITCH
