"""Pairwise steps: quadratic programs over the simplex whose matrix is in memory."""
import numpy as np

cdef double FLAT = 1e-12            # of the diagonal: curvature up to that is rounding
cdef double ROUNDING = 2.0**-51     # of the largest values: a gap up to that


cdef struct Pair:
    Py_ssize_t least, other         # of v; of p > 0, from where weight is to move, -1: none gains
    double gap, value               # p'(v - min v); (p'v + p'offsets) / 2, the objective


cdef double curvature(double square, double other, double product) noexcept nogil:
    """Half of the objective's on the way from one entry to another, as far as it can be told."""
    return max(square + other - 2 * product, FLAT * (square + other))


cdef Pair find_largest(const double[::1] v, const double[::1] p) noexcept nogil:
    """The pair with the largest v; its value is not computed."""
    cdef Pair found
    cdef Py_ssize_t k
    cdef double total = 0, mass = 0
    found.least, found.other, found.value = 0, -1, 0
    for k in range(v.shape[0]):
        total += p[k] * v[k]
        mass += p[k]
        if v[k] < v[found.least]:
            found.least = k
        if p[k] > 0 and (found.other < 0 or v[k] > v[found.other]):
            found.other = k
    found.gap = total - mass * v[found.least]
    return found


cdef Pair find_gaining(
    const double[:, ::1] gram, const double[::1] squares, const double[::1] offsets,
    const double[::1] v, const double[::1] p
) noexcept nogil:
    cdef Pair found
    cdef Py_ssize_t k
    cdef double gap = 0, value = 0, rise, curved, best_rise = 0, best_curved = 1
    found.least, found.other = 0, -1
    for k in range(v.shape[0]):
        if v[k] < v[found.least]:
            found.least = k
    for k in range(v.shape[0]):
        if p[k] == 0:
            continue
        rise = v[k] - v[found.least]
        gap += p[k] * rise
        value += p[k] * (v[k] + offsets[k]) / 2
        if rise > 0:
            curved = curvature(squares[found.least], squares[k], gram[found.least, k])
            # the gain, rise^2 / curved, which may be infinite
            if found.other < 0 or rise * rise * best_curved > best_rise * best_rise * curved:
                found.other, best_rise, best_curved = k, rise, curved
    found.gap, found.value = gap, value
    return found


cdef void move(
    const double[:, ::1] gram, const double[::1] squares, double[::1] v, double[::1] p,
    Py_ssize_t i, Py_ssize_t j
) noexcept nogil:
    """Move weight from j to i, as much as is best."""
    cdef double curved = 2 * curvature(squares[i], squares[j], gram[i, j]), step = p[j]
    cdef Py_ssize_t k
    if v[j] - v[i] < curved * step:
        step = (v[j] - v[i]) / curved
    p[i] += step
    p[j] -= step
    for k in range(v.shape[0]):
        v[k] += 2 * step * (gram[i, k] - gram[j, k])


def pairwise_steps(
    const double[:, ::1] gram, const double[::1] offsets, double[::1] p, double epsilon, *,
    bint relative=False, bint by_gain=True, Py_ssize_t n_steps
):
    """Minimise p'offsets + p'gram p over p that are not negative and keep their sum.

    With v = offsets + 2 gram p a step moves weight to the least v: from where it gains most if it
    has room, a choice of second order (Fan, Chen, Lin, JMLR 6, 2005), or from the largest v. The
    gap is p'(v - min v).

    Parameters
    ----------
    gram : ndarray of shape (n, n), float64
        Symmetric.
    offsets : ndarray of shape (n,), float64
    p : ndarray of shape (n,), float64
        Where to begin; it is changed.
    epsilon : float
        The gap asked for; with `relative` in units of minus the objective, where that is positive,
        which needs `by_gain`.
    by_gain : bool, default=True
        False: from the largest v, for which a step reads the matrix only where it changes v. Steps
        are up to twice as cheap then, but more of them may be needed.
    n_steps : int
        The most steps.

    Returns
    -------
    within : bool
        Whether the gap is, but for rounding.
    """
    cdef double[::1] v = np.array(offsets)
    cdef const double[::1] squares = np.array(np.diagonal(gram))  # side by side
    cdef Py_ssize_t i, k, _
    cdef Pair pair
    cdef double least = ROUNDING * (np.abs(offsets).max() + np.abs(squares).max())
    cdef bint within = False
    with nogil:
        for i in range(v.shape[0]):
            for k in range(v.shape[0] if p[i] > 0 else 0):
                v[k] += 2 * p[i] * gram[i, k]
        for _ in range(n_steps):
            if by_gain:
                pair = find_gaining(gram, squares, offsets, v, p)
            else:
                pair = find_largest(v, p)
            within = not pair.gap > max(least, epsilon * (-pair.value if relative else 1.0))
            if within or pair.other < 0:
                break
            move(gram, squares, v, p, pair.least, pair.other)
    return within
