"""Sweeps over the weights of a player, a few thousand at a time so that they stay in the cache."""

cdef extern from "sweeps.h" nogil:
    double sum_of "sublinear_sum"(const double* values, Py_ssize_t size) noexcept
    void differences "sublinear_differences"(
        const double* value, double scale, const double* anchor, double* difference,
        Py_ssize_t size) noexcept
    void chances "sublinear_chances"(double* z, int squared, Py_ssize_t size) noexcept
    void exponents "sublinear_exponents"(
        const double* response, double rate, const double* signs, const double* extra,
        double shift, double* z, Py_ssize_t size) noexcept
    void multiply "sublinear_multiply"(
        double* value, const double* z, double least, Py_ssize_t size) noexcept
    void multiply_exp "sublinear_multiply_exp"(
        double* value, const double* factor, const double* z, double least, Py_ssize_t size
    ) noexcept

cdef enum:
    SWEPT = 1024              # entries at a time: what one sweep leaves is in the first cache


cdef inline void look_at(
    const double* value, double scale, const double* anchor, bint squared, double* chance,
    Py_ssize_t size
) noexcept nogil:
    """chance = |scale * value - anchor|, or its square"""
    differences(value, scale, anchor, chance, size)
    chances(chance, squared, size)
