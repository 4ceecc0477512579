"""Losses, each given by six functions of one example.

With prediction z = <w, x>, target y (+1 or -1 for losses of a margin m = y z) and dual a:

value        l(z)
derivative   a sub-gradient l'(z)
conjugate    l*(-a) = sup_z (-a z - l(z)), for a in its domain
nearest_dual the point nearest to a where l*(-a) is finite
dual_step    the a' that maximises -l*(-a') - z (a' - a) - q (a' - a)^2 / 2, q > 0
second_derivative   l''(z) where l' has no jumps; 0 for other losses

dual_step is the step of dual coordinate ascent, with q = |x|^2 weight / (alpha * total weight).
At the optimum a = -l'(z) and w = sum weight_i a_i x_i / (alpha * total weight).
A loss is added by writing its class and its line in a registry; tests take it from there.
"""
from libc.math cimport INFINITY, exp, fabs, log, log1p
from libc.stdint cimport int64_t

from functools import partial
from typing import NamedTuple

import numpy as np

from sublinear._core.aligned import contiguous
from sublinear._core.portable cimport clip

cdef double FAR = 0.25    # of a margin
cdef double SMALL_STEP = 1e-5    # its third power is rounding

cdef enum:
    UNGUARDED = 6         # steps, more than nearly all take

cdef extern from "logistic.h" nogil:
    void logistic_values "sublinear_logistic_values"(
        const double* z, const double* y, double* values, Py_ssize_t size) noexcept
    void logistic_slopes "sublinear_logistic_slopes"(
        const double* z, const double* y, double* slopes, Py_ssize_t size) noexcept
    void logistic_curvatures "sublinear_logistic_curvatures"(
        const double* z, double* curvatures, Py_ssize_t size) noexcept
    void logistic_conjugates "sublinear_logistic_conjugates"(
        const double* a, const double* y, double* conjugates, Py_ssize_t size) noexcept
    void logistic_evaluate "sublinear_logistic_evaluate"(
        const double* z, const double* y, double* values, double* slopes, double* curvatures,
        Py_ssize_t size) noexcept
    Py_ssize_t signs_of_integers "sublinear_signs_int64_t"(
        const int64_t* labels, int64_t negative, int64_t positive, double* signs,
        Py_ssize_t size) noexcept
    Py_ssize_t signs_of_numbers "sublinear_signs_double"(
        const double* labels, double negative, double positive, double* signs,
        Py_ssize_t size) noexcept


cdef class Loss:
    """Base of the losses; the public methods apply one of them to arrays."""

    quadratic = False    # whether l'' is 1 everywhere

    def __cinit__(self, *arguments):
        self.far = INFINITY    # where targets have no scale, nothing is

    cdef double value(self, double prediction, double target) noexcept nogil:
        return 0

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return 0

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return 0

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return dual

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        return dual

    def dual_form(self):
        """Return the DualForm of the conjugate, None if it has another form."""
        return None

    @property
    def is_piecewise(self):
        """Whether it consists of several parabolas and lines, between which curvatures jump."""
        return self.dual_form() is not None and not self.quadratic

    @property
    def greatest_curvature(self):
        """The greatest second derivative, inf where slopes jump."""
        ridge = self.dual_form().ridge
        return 1 / ridge if ridge > 0 else np.inf

    @property
    def is_smooth(self):
        """Whether its slopes have no jumps."""
        form = self.dual_form()
        return form is None or form.ridge > 0

    @property
    def is_curved(self):
        """Whether it has a curvature wherever it has a slope, so that every row that pulls does."""
        form = self.dual_form()
        return form is None or (form.ridge > 0 and form.bound == INFINITY)

    @property
    def has_quadratic_middle(self):
        """Whether it is quadratic where examples end up that are not easy."""
        form = self.dual_form()
        if form is None or form.ridge == 0:
            return False
        return not form.one_sided or form.bound == INFINITY

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        return 0

    cdef void values_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = self.value(z[k], y[k])

    cdef void conjugates_of(
        self, const double* a, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = self.conjugate(a[k], y[k])

    cdef void derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = self.derivative(z[k], y[k])

    cdef void second_derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = self.second_derivative(z[k], y[k])

    cdef void evaluate_of(
        self, const double* z, const double* y, double* values, double* slopes,
        double* curvatures, Py_ssize_t count
    ) noexcept nogil:
        self.values_of(z, y, values, count)
        self.derivatives_of(z, y, slopes, count)
        self.second_derivatives_of(z, y, curvatures, count)

    def values(self, predictions, targets):
        """Return l(z) for arrays of predictions and targets of one shape (n,)."""
        cdef const double[::1] z, y
        z, y = columns(predictions, targets)
        cdef double[::1] result = np.empty(z.shape[0])
        if z.shape[0]:
            self.values_of(&z[0], &y[0], &result[0], z.shape[0])
        return result.base

    def derivatives(self, predictions, targets):
        """Return l'(z) for arrays of predictions and targets of one shape (n,)."""
        cdef const double[::1] z, y
        z, y = columns(predictions, targets)
        cdef double[::1] result = np.empty(z.shape[0])
        if z.shape[0]:
            self.derivatives_of(&z[0], &y[0], &result[0], z.shape[0])
        return result.base

    def second_derivatives(self, predictions, targets):
        """Return l''(z) for arrays of predictions and targets of one shape (n,)."""
        cdef const double[::1] z, y
        z, y = columns(predictions, targets)
        cdef double[::1] result = np.empty(z.shape[0])
        if z.shape[0]:
            self.second_derivatives_of(&z[0], &y[0], &result[0], z.shape[0])
        return result.base

    def conjugates(self, duals, targets):
        """Return l*(-a) for arrays of duals and targets of one shape (n,)."""
        cdef const double[::1] a, y
        a, y = columns(duals, targets)
        cdef double[::1] result = np.empty(a.shape[0])
        if a.shape[0]:
            self.conjugates_of(&a[0], &y[0], &result[0], a.shape[0])
        return result.base

    def nearest_duals(self, duals, targets):
        """Return the feasible dual nearest to a, for arrays of duals and targets of one shape."""
        cdef const double[::1] a, y
        cdef Py_ssize_t k
        a, y = columns(duals, targets)
        cdef double[::1] result = np.empty(a.shape[0])
        with nogil:
            for k in range(a.shape[0]):
                result[k] = self.nearest_dual(a[k], y[k])
        return result.base

    def dual_steps(self, duals, predictions, targets, curvatures):
        """Return the dual coordinate step's result for arrays of one shape (n,)."""
        cdef const double[::1] a, z, y, q
        cdef Py_ssize_t k
        a, z, y, q = columns(duals, predictions, targets, curvatures)
        cdef double[::1] result = np.empty(a.shape[0])
        with nogil:
            for k in range(a.shape[0]):
                result[k] = self.dual_step(a[k], z[k], y[k], q[k])
        return result.base


def columns(*arrays):
    """Return arrays as float64 vectors of one length."""
    arrays = [contiguous(array, dtype=np.float64) for array in arrays]
    if any(array.shape != arrays[0].shape for array in arrays):
        raise ValueError(f"shapes differ: {[array.shape for array in arrays]}")
    return arrays


cdef class Hinge(Loss):
    """max(0, 1 - m); the dual b = y a lies in [0, 1] and l*(-a) = -b."""

    def __cinit__(self):
        self.n_kinks = 1    # at z = y
        self.kink[0] = 0
        self.far = FAR

    def dual_form(self):
        return DualForm(one_sided=True)

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double slack = 1 - target * prediction
        return slack if slack > 0 else 0

    cdef void values_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef double slack
        cdef Py_ssize_t k
        for k in range(count):
            slack = 1 - y[k] * z[k]
            out[k] = slack if slack > 0 else 0

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return -target if target * prediction < 1 else 0

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return -target * dual

    cdef void conjugates_of(
        self, const double* a, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = -y[k] * a[k]

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return target * clip(target * dual, 0, 1)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        return target * clip(
            target * dual + (1 - target * prediction) / curvature, 0, 1)


cdef class SquaredHinge(Loss):
    """max(0, 1 - m)^2; b = y a is not negative and l*(-a) = -b + b^2 / 4."""

    def __cinit__(self):
        self.far = FAR

    def dual_form(self):
        return DualForm(ridge=0.5, bound=INFINITY, one_sided=True)

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double slack = 1 - target * prediction
        return slack * slack if slack > 0 else 0

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        cdef double slack = 1 - target * prediction
        return -2 * target * slack if slack > 0 else 0

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        return 2 if target * prediction < 1 else 0

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return dual * dual / 4 - target * dual

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return dual if target * dual > 0 else 0

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        cdef double b = target * dual
        b += (1 - target * prediction - b / 2) / (curvature + 0.5)
        return target * b if b > 0 else 0


cdef class SmoothedHinge(Loss):
    """The hinge with its kink rounded off over [1 - smoothing, 1].

    b = y a lies in [0, 1] and l*(-a) = -b + smoothing b^2 / 2.
    """
    cdef readonly double smoothing

    def __init__(self, double smoothing=1.0):
        self.smoothing = smoothing
        self.far = FAR

    def dual_form(self):
        return DualForm(ridge=self.smoothing, one_sided=True)

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double slack = 1 - target * prediction
        if slack <= 0:
            return 0
        if slack >= self.smoothing:
            return slack - self.smoothing / 2
        return slack * slack / (2 * self.smoothing)

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return -target * clip((1 - target * prediction) / self.smoothing, 0, 1)

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        cdef double slack = 1 - target * prediction
        return 1 / self.smoothing if 0 < slack < self.smoothing else 0

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return self.smoothing * dual * dual / 2 - target * dual

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return target * clip(target * dual, 0, 1)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        cdef double b = target * dual
        b += (1 - target * prediction - self.smoothing * b) / (curvature + self.smoothing)
        return target * clip(b, 0, 1)


cdef inline double entropy_term(double b) noexcept nogil:
    return b * log(b) if b > 0 else 0


cdef class Logistic(Loss):
    """log(1 + exp(-m)); b = y a lies in [0, 1] and l*(-a) = b log b + (1 - b) log(1 - b)."""

    greatest_curvature = 0.25

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double margin = target * prediction
        return log1p(exp(-margin)) if margin > 0 else log1p(exp(margin)) - margin

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        cdef double margin = target * prediction
        cdef double small
        if margin > 0:
            small = exp(-margin)
            return -target * small / (1 + small)
        return -target / (1 + exp(margin))

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        cdef double small = exp(-fabs(prediction))
        return small / ((1 + small) * (1 + small))

    cdef void values_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        logistic_values(z, y, out, count)

    cdef void derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        logistic_slopes(z, y, out, count)

    cdef void second_derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        logistic_curvatures(z, out, count)

    cdef void evaluate_of(
        self, const double* z, const double* y, double* values, double* slopes,
        double* curvatures, Py_ssize_t count
    ) noexcept nogil:
        logistic_evaluate(z, y, values, slopes, curvatures, count)

    cdef void conjugates_of(
        self, const double* a, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        logistic_conjugates(a, y, out, count)

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        cdef double b = clip(target * dual, 0, 1)
        return entropy_term(b) + ((1 - b) * log1p(-b) if b < 1 else 0)    # 1 - b is rounded

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return target * clip(target * dual, 0, 1)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        """Halley's method, of third order, for the logit u of b = 1 / (1 + exp(-u)).

        The optimum solves u + margin + curvature (b(u) - b) = 0, which increases in u, by at least
        1: so it is no farther than the left side. A few steps are without safeguards, whose
        branches are hard to foresee.
        """
        cdef double b = clip(target * dual, 0, 1)
        cdef double margin = target * prediction
        cdef double low = -margin - curvature * (1 - b), high = -margin + curvature * b
        cdef double u, start, new, step, before = 1e308
        cdef int k
        # start at the current b or, where that has no logit, at 0: far out steps overshoot
        start = log(b / (1 - b)) if 0 < b < 1 else 0
        u = clip(start, low, high)
        new = b if u == start and 0 < b < 1 else logistic(u)
        for k in range(200):
            step = halley_step(u, new, margin, curvature, b)
            if fabs(step) <= SMALL_STEP:    # the logistic function's series is enough
                new *= 1 - step * (1 - new) * (1 - step * (0.5 - new))
                break
            if k >= UNGUARDED:
                if step > 0:
                    high = min(high, u)
                else:
                    low = max(low, u)
                if not low < u - step < high or fabs(step) > before / 2:
                    step = u - (low + high) / 2
                before = fabs(step)
            u -= step
            new = logistic(u)
        return target * clip(new, 0, 1)


cdef inline double halley_step(
    double u, double new, double margin, double curvature, double b
) noexcept nogil:
    cdef double residual = u + margin + curvature * (new - b)
    cdef double bend = curvature * new * (1 - new), slope = 1 + bend
    cdef double square = slope * slope
    return residual * slope / max(square / 2, square - residual * bend * (0.5 - new))


cdef inline double logistic(double u) noexcept nogil:
    return 1 / (1 + exp(-u)) if u > -700 else 0


cdef class Squared(Loss):
    """(z - y)^2 / 2; l*(-a) = a^2 / 2 - a y."""

    quadratic = True

    def dual_form(self):
        return DualForm(ridge=1.0, bound=INFINITY)

    cdef double value(self, double prediction, double target) noexcept nogil:
        return (prediction - target) * (prediction - target) / 2

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return prediction - target

    cdef void derivatives_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = z[k] - y[k]

    cdef void values_of(
        self, const double* z, const double* y, double* out, Py_ssize_t count
    ) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            out[k] = (z[k] - y[k]) * (z[k] - y[k]) / 2

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        return 1

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return dual * dual / 2 - dual * target

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        return dual + (target - prediction - dual) / (1 + curvature)


cdef class Absolute(Loss):
    """|z - y|; a lies in [-1, 1] and l*(-a) = -a y."""

    def __cinit__(self):
        self.n_kinks = 1
        self.kink[0] = 0

    def dual_form(self):
        return DualForm()

    cdef double value(self, double prediction, double target) noexcept nogil:
        return fabs(prediction - target)

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return 1 if prediction > target else (-1 if prediction < target else 0)

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return -dual * target

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return clip(dual, -1, 1)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        return clip(dual + (target - prediction) / curvature, -1, 1)


cdef class EpsilonInsensitive(Loss):
    """max(0, |z - y| - epsilon); a lies in [-1, 1] and l*(-a) = -a y + epsilon |a|."""
    cdef readonly double epsilon

    def __init__(self, double epsilon=0.1):
        self.epsilon = epsilon
        self.n_kinks = 2
        self.kink[0], self.kink[1] = -epsilon, epsilon

    def dual_form(self):
        return DualForm(epsilon=self.epsilon)

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double excess = fabs(prediction - target) - self.epsilon
        return excess if excess > 0 else 0

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        cdef double residual = prediction - target
        return 1 if residual > self.epsilon else (-1 if residual < -self.epsilon else 0)

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return self.epsilon * fabs(dual) - dual * target

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return clip(dual, -1, 1)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        cdef double residual = target - prediction + curvature * dual
        if residual > self.epsilon:
            residual -= self.epsilon
        elif residual < -self.epsilon:
            residual += self.epsilon
        else:
            return 0
        return clip(residual / curvature, -1, 1)


cdef class Huber(Loss):
    """Quadratic for |z - y| <= epsilon, linear beyond: the smoothed absolute error.

    r^2 / 2 inside and epsilon (|r| - epsilon / 2) outside; a lies in [-epsilon, epsilon] and
    l*(-a) = a^2 / 2 - a y.
    """
    cdef readonly double epsilon

    def __init__(self, double epsilon=1.35):
        self.epsilon = epsilon

    def dual_form(self):
        return DualForm(ridge=1.0, bound=self.epsilon)

    cdef double value(self, double prediction, double target) noexcept nogil:
        cdef double size = fabs(prediction - target)
        if size <= self.epsilon:
            return size * size / 2
        return self.epsilon * (size - self.epsilon / 2)

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return clip(prediction - target, -self.epsilon, self.epsilon)

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        return 1 if fabs(prediction - target) < self.epsilon else 0

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        return dual * dual / 2 - dual * target

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return clip(dual, -self.epsilon, self.epsilon)

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        return clip(
            dual + (target - prediction - dual) / (1 + curvature), -self.epsilon, self.epsilon)


class DualForm(NamedTuple):
    """l*(-a) = ridge a^2 / 2 + epsilon |a| - y a for |a| <= bound; one_sided: only for y a >= 0."""

    ridge: float = 0.0
    epsilon: float = 0.0
    bound: float = 1.0
    one_sided: bool = False


cdef class Poisson(Loss):
    """exp(z) - y z + y log y - y: half the deviance of a Poisson variable y of mean e^z.

    a is at most y; with u = y - a, l*(-a) = u log u - u - (y log y - y).
    """

    greatest_curvature = np.inf

    cdef double value(self, double prediction, double target) noexcept nogil:
        return exp(prediction) - target * prediction + entropy_term(target) - target

    cdef double derivative(self, double prediction, double target) noexcept nogil:
        return exp(prediction) - target

    cdef double second_derivative(self, double prediction, double target) noexcept nogil:
        return exp(prediction)

    cdef double conjugate(self, double dual, double target) noexcept nogil:
        cdef double u = target - dual
        return entropy_term(u) - u - (entropy_term(target) - target)

    cdef double nearest_dual(self, double dual, double target) noexcept nogil:
        return dual if dual < target else target

    cdef double dual_step(
        self, double dual, double prediction, double target, double curvature
    ) noexcept nogil:
        """Newton's method, safeguarded by bisection, on t = log u.

        The optimum solves t - prediction + curvature (e^t - u) = 0, which increases in t.
        """
        cdef double u = target - dual
        cdef double start = log(u) if u > 0 else min(prediction, -log(curvature)) - 1
        cdef double low = min(start, prediction), high = max(start, prediction)
        cdef double t = prediction, residual, step
        cdef int _
        for _ in range(200):
            residual = t - prediction + curvature * (exp(t) - u)
            if residual > 0:
                high = t
            else:
                low = t
            step = residual / (1 + curvature * exp(t))
            if fabs(step) <= 1e-15 * (1 + fabs(t)):
                break
            t -= step
            if not low < t < high:
                t = (low + high) / 2
        return target - exp(t)


class Entry(NamedTuple):
    """A registered loss: its class, its arguments (estimator parameters), bounded derivatives."""

    loss: type
    parameters: tuple
    lipschitz: bool

    def maker(self, settings):
        """Return what makes the loss, with an estimator's parameters; it can be pickled."""
        return partial(self.loss, *(getattr(settings, name) for name in self.parameters))


MARGIN_LOSSES = {
    "hinge": Entry(Hinge, (), True),
    "squared_hinge": Entry(SquaredHinge, (), False),
    "smoothed_hinge": Entry(SmoothedHinge, ("smoothing",), True),
    "logistic": Entry(Logistic, (), True),
}
REGRESSION_LOSSES = {
    "squared": Entry(Squared, (), False),
    "absolute": Entry(Absolute, (), True),
    "epsilon_insensitive": Entry(EpsilonInsensitive, ("epsilon",), True),
    "huber": Entry(Huber, ("epsilon",), True),
}
# of counts: targets that are not negative
COUNT_LOSSES = {"poisson": Entry(Poisson, (), False)}


def signs(labels, classes):
    """Return the targets of margin losses, in one look at the labels.

    Parameters
    ----------
    labels : ndarray of shape (n,)
    classes : ndarray of shape (2,)

    Returns
    -------
    targets : ndarray of shape (n,), float64, or None
        -1 for the first class, +1 for the second; the labels themselves if they are these. None if
        there are other labels, or if labels or classes are not of the usual types of numbers.
    """
    cdef Py_ssize_t n = len(labels), n_known = 0
    cdef const int64_t[::1] integers
    cdef const double[::1] numbers
    cdef double[::1] made
    cdef double* to_make = NULL
    if n == 0 or classes.dtype.kind not in "if":
        return None
    targets = labels = contiguous(labels)
    if labels.dtype != np.float64 or classes[0] != -1 or classes[1] != 1:
        targets = made = np.empty(n)
        to_make = &made[0]
    if labels.dtype == np.float64:
        numbers = labels
        n_known = signs_of_numbers(&numbers[0], classes[0], classes[1], to_make, n)
    elif labels.dtype == classes.dtype == np.int64:
        integers = labels
        n_known = signs_of_integers(&integers[0], classes[0], classes[1], to_make, n)
    return targets if n_known == n else None
