"""Sweeps over the weights of a player, a few thousand at a time so that they stay in the cache."""

from libc.math cimport log, sqrt


cdef extern from "sweeps.h" nogil:
    double TINY "SUBLINEAR_TINY"
    double SMALL_TOTAL "SUBLINEAR_SMALL_TOTAL"
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


cdef inline double dual_step(double rate, double n_rows, double n_steps) noexcept nogil:
    """eta for so many steps: rate * sqrt(log(n) / T), at most 0.3"""
    return min(0.3, rate * sqrt(log(max(2.0, n_rows)) / n_steps))


cdef inline double chance_to_move(double n_rows, double n_steps) noexcept nogil:
    """How likely the x of a ball or a hull moves in a step: log(T) / sqrt(T log(n)), at most 1"""
    n_rows, n_steps = max(2.0, n_rows), max(2.0, n_steps)
    return min(1.0, log(n_steps) / sqrt(n_steps * log(n_rows)))


cdef inline double variance_bounded(double z) noexcept nogil:
    """1 - z + z^2 for z clipped to +-1"""
    z = min(1.0, max(-1.0, z))
    return 1 - z + z * z


cdef inline double in_range(double* weight, double total, Py_ssize_t size) noexcept nogil:
    """Divide weights by their total if it leaves the range; return what the total is then."""
    cdef Py_ssize_t k
    if SMALL_TOTAL <= total <= 1 / SMALL_TOTAL:
        return total
    for k in range(size):
        weight[k] /= total
    return 1


cdef inline double multiply_weights(
    double* weight, const double* payoff, double rate, Py_ssize_t size
) noexcept nogil:
    """weight *= 1 - z + z^2, z = rate * payoff; return the total."""
    cdef double z[SWEPT]
    cdef double total = 0
    cdef Py_ssize_t start = 0, count
    while start < size:
        count = min(SWEPT, size - start)
        exponents(payoff + start, rate, NULL, NULL, 0, z, count)
        multiply(weight + start, z, TINY, count)
        total += sum_of(weight + start, count)
        start += count
    return in_range(weight, total, size)


cdef inline void look_at(
    const double* value, double scale, const double* anchor, bint squared, double* chance,
    Py_ssize_t size
) noexcept nogil:
    """chance = |scale * value - anchor|, or its square"""
    differences(value, scale, anchor, chance, size)
    chances(chance, squared, size)
