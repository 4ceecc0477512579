"""WeightVector: w = scale * v, so that shrinking w costs nothing; |w|^2; a lazy average.

The average of the iterates w_1, .., w_T is kept without touching more than a step touches: with
S = sum of the scales so far, a change of v by c x takes S c x from `correction`, and
sum_t w_t = S v + correction.
"""
from libc.math cimport fabs, sqrt

from sublinear._core.line cimport Line, add, dot, squared_norm

cdef struct ScaledVector:
    double* values          # v
    Py_ssize_t size
    double scale
    bint keeps_norm
    double squared_norm     # |w|^2, where it is kept
    double drift            # bound on what rounding did to it
    double* correction      # of the average; NULL when none is kept
    double sum_of_scales
    Py_ssize_t n_averaged


cdef void fold_scale(ScaledVector* w) noexcept nogil
cdef void clear(ScaledVector* w) noexcept nogil
cdef void settle_average(ScaledVector* w) noexcept nogil
cdef void refresh_norm(ScaledVector* w) noexcept nogil


cdef inline double weight_dot(const ScaledVector* w, const Line* x) noexcept nogil:
    """<w, x>"""
    return w.scale * dot(x, w.values)


cdef inline void count_in_norm(ScaledVector* w, double cross, double square) noexcept nogil:
    """w has grown by some u: cross = 2 <w, u>, with w from before, and square = |u|^2."""
    w.drift += 4e-16 * (w.squared_norm + fabs(cross) + square)
    w.squared_norm += cross + square
    if w.drift > 1e-11 * w.squared_norm:
        refresh_norm(w)


cdef inline double add_line(ScaledVector* w, const Line* x, double factor) noexcept nogil:
    """w += factor * x; returns the coefficient of x in the change of v."""
    cdef double change = factor / w.scale
    cdef double cross = 2 * factor * weight_dot(w, x) if w.keeps_norm else 0
    add(x, change, w.values)
    if w.correction != NULL and w.sum_of_scales != 0:
        add(x, -change * w.sum_of_scales, w.correction)
    if w.keeps_norm:
        count_in_norm(w, cross, factor * factor * squared_norm(x))
    return change


cdef inline void shrink(ScaledVector* w, double factor) noexcept nogil:
    """w *= factor, factor >= 0"""
    if factor == 0:
        clear(w)
        return
    w.scale *= factor
    w.squared_norm *= factor * factor
    w.drift *= factor * factor


cdef inline bint needs_folding(const ScaledVector* w) noexcept nogil:
    """True when the scale comes near the limits of float64: call fold_scale then."""
    return not 1e-100 < w.scale < 1e100


cdef inline bint project(ScaledVector* w, double radius) noexcept nogil:
    """w <- the nearest point with |w| <= radius, if the norm is kept; tells whether it became 0"""
    if not w.squared_norm > radius * radius:
        return False
    shrink(w, radius / sqrt(w.squared_norm))
    return radius == 0


cdef inline void count_in_average(ScaledVector* w) noexcept nogil:
    w.sum_of_scales += w.scale
    w.n_averaged += 1
    # S v and the correction cancel more and more when the scale falls fast
    if w.correction != NULL and w.sum_of_scales > 1e3 * w.scale * w.n_averaged:
        settle_average(w)


cdef class WeightVector:
    cdef ScaledVector vector
    cdef readonly object values
    cdef object correction
