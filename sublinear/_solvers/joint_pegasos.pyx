"""Pegasos for all classes at once: W has one column for each class.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figure 2 with the losses of section 5, Examples 3 and 4.

Objective: that of sublinear._core.joint_objective.

    for each batch B, N the number of examples drawn so far:
        W <- (1 - |B| / N) W - 1/(alpha N) sum_{i in B} r_i x_i g_i',    r_i as in Pegasos
        W <- the nearest point with |W| <= radius                        (optional)

where g_i is a sub-gradient of the loss at the scores W' x_i: for the hinge e_r - e_y with r the
class of the maximum, for the logistic loss p - e_y.

Cost per step: the stored entries of b rows times the number of classes; once more with the
logistic loss, and for two classes only with the hinge. W is stored by features, so an entry of a
row reads one run of memory.

Departures: those of sublinear._core.steps. Certificates come from the rows' coefficients in W,
n_classes of them, moved to where the loss's conjugate is finite; after whole epochs of a
permutation they are there.
"""
import numpy as np

from sublinear._core.classes cimport add_classes, add_pair, dot_classes
from sublinear._core.dense_lines cimport dense_dot64
from sublinear._core.joint_losses cimport ALL_CLASSES, JointLoss
from sublinear._core.joint_objective cimport JointObjective
from sublinear._core.line cimport (
    LINE_AHEAD, Line, line_at, line_size, prefetch_lines_ahead, squared_norm,
)
from sublinear._core.order cimport Draws
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits
from sublinear._core.steps cimport SubgradientSteps
from sublinear._core.strata cimport Strata
from sublinear._core.weight_vector cimport ScaledVector, count_in_norm


cdef class JointPegasos(SubgradientSteps):
    """Pegasos with mini-batches, for all classes at once.

    Parameters
    ----------
    objective : JointObjective
    random : RandomBits
    projection : bool, default=False
        Project onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    sampling, batch_size, average, strata
        Of SubgradientSteps.
    """
    cdef readonly JointObjective objective
    cdef readonly object coefficients      # of the rows in v = W / scale: (n_rows, n_classes)
    cdef JointLoss loss
    cdef Py_ssize_t n_classes
    cdef double[:, ::1] coefficient
    cdef double[:, ::1] gradient           # of the batch's examples
    cdef double[::1] scores
    cdef Py_ssize_t[::1] rival             # the class r of a gradient e_r - e_y, or ALL_CLASSES

    def __init__(
        self, JointObjective objective, RandomBits random, *, sampling="shuffle",
        Py_ssize_t batch_size=1, bint projection=False, average="last", Strata strata=None
    ):
        n, k = objective.matrix.n_rows, objective.n_classes
        super().__init__(
            n, objective.matrix.n_weights * k, objective.alpha, random, sampling, batch_size,
            average, projection, strata)
        self.objective = objective
        self.loss = objective.loss
        self.n_classes = k
        self.coefficients = np.zeros((n, k))
        self.coefficient = self.coefficients
        self.gradient = np.empty((batch_size, k))
        self.rival = np.empty(batch_size, dtype=np.intp)
        self.scores = np.empty(k)
        if projection:
            weight = objective.total_weight
            self._find_ball(weight * objective.primal_of_zeros(), weight)

    def state(self):
        """Return what `resume` needs to go on, perhaps over other examples."""
        coefficients = self.coefficients * self.weight_vector.vector.scale
        return {**SubgradientSteps.state(self), "coefficients": coefficients}

    def resume(self, state):
        """Go on from a `state()` of as many weights.

        The coefficients of the rows are taken over if there are as many rows as then: should they
        be other rows, certificates suffer, but hold.
        """
        SubgradientSteps.resume(self, state)
        if state["coefficients"].shape == self.coefficients.shape:
            self.coefficients[:] = state["coefficients"]

    cdef Py_ssize_t entries(self, Py_ssize_t i) noexcept nogil:
        return line_size(&self.objective.matrix.rows, i)

    cdef void look_ahead(self, Py_ssize_t position) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t later = position + LINE_AHEAD
        prefetch_lines_ahead(&self.objective.matrix.rows, draws.items, position, draws.ready)
        if later < draws.ready:
            prefetch(&self.objective.labels[draws.items[later]])
            prefetch(&self.coefficient[draws.items[later], 0])

    cdef void look_at(self, Py_ssize_t i, Py_ssize_t place) noexcept nogil:
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef double* scores = &self.gradient[place, 0]
        cdef Line x = line_at(&self.objective.matrix.rows, i)
        cdef Py_ssize_t c
        dot_classes(&x, w.values, self.n_classes, scores)
        for c in range(self.n_classes):
            scores[c] *= w.scale
        self.rival[place] = self.loss.subgradient(scores, self.objective.labels[i])

    cdef void learn_from(self, Py_ssize_t i, Py_ssize_t place, double rate) noexcept nogil:
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef Py_ssize_t label = self.objective.labels[i], rival = self.rival[place]
        cdef double factor = -rate * self.ratio(self.objective, i)
        cdef double cross = 0, square = 0
        cdef Line x
        if rival == label:
            return
        x = line_at(&self.objective.matrix.rows, i)
        if w.keeps_norm:
            cross = 2 * factor * self._inner_product(&x, place, label)
            square = factor * factor * squared_norm(&x) * self._squared_gradient(place)
        if rival == ALL_CLASSES:
            self._add_gradient(w, &x, i, place, factor / w.scale)
        else:
            self._add_pair(w, &x, i, rival, label, factor / w.scale)
        if w.keeps_norm:
            count_in_norm(w, cross, square)

    cdef inline void _add_pair(
        self, ScaledVector* w, const Line* x, Py_ssize_t i, Py_ssize_t rival, Py_ssize_t label,
        double change
    ) noexcept nogil:
        """V += change * x (e_rival - e_label)'"""
        cdef Py_ssize_t k = self.n_classes
        add_pair(x, change, k, rival, label, w.values)
        if w.correction != NULL and w.sum_of_scales != 0:
            add_pair(x, -change * w.sum_of_scales, k, rival, label, w.correction)
        self.coefficient[i, rival] += change
        self.coefficient[i, label] -= change

    cdef inline void _add_gradient(
        self, ScaledVector* w, const Line* x, Py_ssize_t i, Py_ssize_t place, double change
    ) noexcept nogil:
        """V += change * x g', g that of the place, which is used up"""
        cdef double* factors = &self.gradient[place, 0]
        cdef Py_ssize_t c
        for c in range(self.n_classes):
            factors[c] *= change
            self.coefficient[i, c] += factors[c]
        add_classes(x, factors, self.n_classes, w.values)
        if w.correction != NULL and w.sum_of_scales != 0:
            for c in range(self.n_classes):
                factors[c] *= -w.sum_of_scales
            add_classes(x, factors, self.n_classes, w.correction)

    cdef double _inner_product(
        self, const Line* x, Py_ssize_t place, Py_ssize_t label
    ) noexcept nogil:
        """<W, x g'>"""
        cdef double* scores = &self.scores[0]
        cdef Py_ssize_t rival = self.rival[place]
        dot_classes(x, self.weight_vector.vector.values, self.n_classes, scores)
        return self.weight_vector.vector.scale * (
            dense_dot64(scores, &self.gradient[place, 0], self.n_classes)
            if rival == ALL_CLASSES else scores[rival] - scores[label])

    cdef double _squared_gradient(self, Py_ssize_t place) noexcept nogil:
        cdef double* gradient = &self.gradient[place, 0]
        if self.rival[place] == ALL_CLASSES:
            return dense_dot64(gradient, gradient, self.n_classes)
        return 2

    cdef void rescale(self, double factor) noexcept nogil:
        cdef double* coefficient = &self.coefficient[0, 0]
        cdef Py_ssize_t k
        for k in range(self.n_examples * self.n_classes):
            coefficient[k] *= factor

    def shaped(self, model):
        """Return the weights as an array (n_weights, n_classes)."""
        return model.reshape(-1, self.n_classes)

    def duals(self):
        """Return feasible duals near those of the last iterate, (n_rows, n_classes), float64."""
        return self._duals_of(self.objective, self.coefficients)

    def dual(self):
        """Return the dual value of `duals()`."""
        return self.objective.dual(self.duals())
