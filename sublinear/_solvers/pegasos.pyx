"""Pegasos: projected stochastic sub-gradient descent.

Paper: Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for
SVM" (2011), Figures 1 and 2, with the biases of section 6 and the random stopping time of Lemma 3;
the tail average is that of Takac et al. (2013), Algorithm 1.

Objective: that of sublinear._core.objective.

    for t = 1, 2, ..:                              r_i = 1 where weights decide what is drawn, else
                                                         s_i n / W
        B = the next k examples
        w <- (1 - alpha eta_t) w - eta_t / k sum_{i in B} r_i l'(<w, x_i> + b) x_i
        w <- the nearest point with |w| <= radius                                    (optional)

The step sizes are eta_t = 1 / (alpha t), those of NORMA, p / (alpha sqrt(t)), or a constant, where
t is the number of examples drawn divided by k. A shorter batch, the last one of an epoch or a block
of a stream, takes a step that is shorter by as much (see sublinear._core.steps). There are four
treatments of b:

    feature       a constant feature in x_i takes its place; b = 0
    subgradient   b <- b - eta_t / k sum_{i in B} r_i l'(<w, x_i> + b), from the mean target on
    batch         b minimises the loss of the batch, and the l' of examples at a kink are chosen so
                  that all of the batch add up to zero, which makes it a sub-gradient in w of
                  alpha / 2 |w|^2 + min_b (loss of the batch)
    search        b stays for a while; then a search moves it to where the minimum over w may be
                  least, and w goes on from there; the mean target comes first

Cost per step: the stored entries of k rows, twice for those whose derivative is not 0.

w is a combination of rows. Its coefficients, clipped to the loss's domain, are feasible duals: they
give the certificate. With steps 1 / (alpha t), after whole epochs of a permutation, nothing needs
clipping. Where b is free the duals must be balanced too; the search instead takes the dual value,
which is linear in b, as a line below the minimum over w.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport uint32_t
from libc.string cimport memset

import math

import numpy as np

from sublinear._core.best_constant cimport BestConstant
from sublinear._core.line cimport LINE_AHEAD, Line, Lines, dot, drawn_line, line_at, line_size
from sublinear._core.losses cimport Loss
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws
from sublinear._core.packed cimport PackedRows
from sublinear._core.portable cimport prefetch
from sublinear._core.random cimport RandomBits
from sublinear._core.steps cimport Epochs
from sublinear._core.strata cimport Strata
from sublinear._core.weight_vector cimport (
    ScaledVector, add_line, count_in_average, fold_scale, needs_folding, project,
    shrink, weight_dot,
)

from sublinear._core.iterates import choose
from sublinear._core.minorants import BiasSearch
from sublinear._core.order import pools_pay
from sublinear._core.states import take


cdef enum Decay:
    INVERSE
    INVERSE_ROOT
    CONSTANT

LEARNING_RATES = {"pegasos": INVERSE, "norma": INVERSE_ROOT, "constant": CONSTANT}

cdef struct Schedule:
    Decay decay
    double first          # alpha eta_1


cdef inline double pace(
    const Schedule* schedule, double n_drawn, double size, double batch_size
) noexcept nogil:
    """alpha eta_t, by which w shrinks, for a whole batch; less for one that is not"""
    if schedule.decay == INVERSE:
        return schedule.first * size / n_drawn
    if schedule.decay == INVERSE_ROOT:
        return schedule.first * (size / batch_size) / sqrt(n_drawn / batch_size)
    return schedule.first * (size / batch_size)


cdef enum Treatment:
    FEATURE
    SUBGRADIENT
    BATCH
    SEARCH

BIASES = {
    "feature": FEATURE, "subgradient": SUBGRADIENT, "batch": BATCH, "search": SEARCH,
}


cdef class Pegasos(Epochs):
    """Pegasos with mini-batches.

    Parameters
    ----------
    objective : Objective
        Its matrix needs a constant column, and `free_intercept`, unless `bias` is "feature".
    random : RandomBits
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
    batch_size : int, default=1
    projection : bool, default=False
        Project onto the ball of radius sqrt(mean loss at 0 / alpha), which holds the optimum.
    average : {"last", "mean", "tail", "random"}, default="last"
        The model: the last iterate, the mean of all, the mean of those since step 2^k, where 2^k is
        the largest power of two that is at most half the number of steps, or the better one of two
        iterates drawn at random.
    learning_rate : {"pegasos", "norma", "constant"}, default="pegasos"
        eta_t = 1 / (alpha t), eta0 / (alpha sqrt(t)), eta0.
    eta0 : float, default=None
        For "norma" in (0, 1], for "constant" in (0, 1 / alpha].
    bias : {"feature", "subgradient", "batch", "search"}, default="feature"
        See the top of this file.
    pack : bool, default=False
        Work on a packed copy of the rows (see PackedRows), which must be sparse.
    strata : Strata, default=None
        Draw examples in proportion to their weights.

    Attributes
    ----------
    n_fits : int
        How many values of b the search has tried, those before `resume` included.
    """
    cdef readonly Objective objective
    cdef readonly Py_ssize_t n_fits
    cdef readonly object coefficients      # of the rows in v = w / scale
    cdef readonly double bias
    cdef Loss loss
    cdef PackedRows packed
    cdef Lines rows                        # without a constant entry unless it is a feature
    cdef Schedule schedule
    cdef Treatment treatment
    cdef BestConstant best_constant        # of a batch
    cdef object search                     # for the b where the minimum over w is least
    cdef double next_bias                  # where the search goes on from the last certificate
    cdef double sum_of_biases
    cdef double[::1] coefficient, prediction, derivative

    def __cinit__(
        self, Objective objective, RandomBits random, *, sampling="shuffle",
        Py_ssize_t batch_size=1, bint projection=False, average="last",
        learning_rate="pegasos", eta0=None, bias="feature", bint pack=False,
        Strata strata=None
    ):
        cdef Py_ssize_t n = objective.matrix.n_rows
        self.objective = objective
        self.loss = objective.loss
        self._begin(
            n, objective.matrix.n_weights, objective.alpha, random, sampling, batch_size, average,
            projection, strata, pools_pay(objective.matrix))
        self.schedule.decay = LEARNING_RATES[learning_rate]
        self.schedule.first = first_pace(learning_rate, eta0, objective.alpha)
        self.rows = objective.matrix.rows
        if pack:
            self.packed = PackedRows(
                objective.matrix, objective.targets_array, objective.n_threads)
            self.rows = self.packed.rows
        if projection:
            weight = objective.total_weight
            self._find_ball(weight * objective.values_of_zeros()[0], weight)
        self.coefficients = np.zeros(n)
        self.coefficient = self.coefficients
        self.prediction = np.empty(batch_size)
        self.derivative = np.empty(batch_size)
        self.treatment = BIASES[bias]
        if self.treatment != FEATURE:
            self._free_the_bias()

    def _free_the_bias(self):
        if not self.objective.free_intercept:
            raise ValueError("the objective needs an unpenalised constant column")
        weights, targets = self.objective.weights_array, self.objective.targets_array
        self.rows.constant = 0
        self.bias = np.average(targets, weights=weights)
        if self.treatment == BATCH:
            self.best_constant = BestConstant(self.loss, self.batch_size)
        elif self.treatment == SEARCH:
            away = targets - self.bias
            largest = float(np.abs(away).max()) or 1.0    # squares may overflow
            variance = np.average((away / largest)**2, weights=weights)
            self.search = BiasSearch(largest * math.sqrt(variance) or 1.0)
            self.next_bias = self.bias
            self.n_fits = 1
            self._find_radius()

    @property
    def keeps_best(self):
        """Whether one of several models is to be chosen by its objective."""
        return self.output.keeps_best or self.treatment == SEARCH

    def state(self):
        """As that of Epochs."""
        self.coefficients *= self.weight_vector.vector.scale
        state = {
            **Epochs.state(self), "bias": self.bias, "sum_of_biases": self.sum_of_biases,
            "coefficients": self.coefficients}
        if self.search is not None:
            state |= self.search.state() | {"next_bias": self.next_bias, "n_fits": self.n_fits}
        return state

    def resume(self, state):
        """Go on from the `state()` of a solver with as many weights and the same bias.

        The coefficients of the rows are taken over if there are as many rows as then: should they
        be other rows, certificates suffer, but hold; not those of a search, which is to have all
        rows as they were. Another output begins anew.
        """
        Epochs.resume(self, state)
        bias = take(state, "bias", 0.0)
        if self.treatment != FEATURE:
            self.bias = bias
        if self.treatment == SEARCH:
            self.search = BiasSearch.from_state(state)
            self.next_bias = take(state, "next_bias", 0.0)
            self.n_fits = take(state, "n_fits", 0)
            self._find_radius()
        sum_of_biases = take(state, "sum_of_biases", 0.0)
        if self.weight_vector.n_averaged > 0:
            self.sum_of_biases = sum_of_biases
        if state["coefficients"].shape[0] == self.coefficient.shape[0]:
            self.coefficients[:] = state["coefficients"]

    def advance(self, Py_ssize_t limit):
        """As that of Epochs; another b comes where the fit goes on from a certificate."""
        if self.treatment == SEARCH and self.next_bias != self.bias:
            self._move_to(self.next_bias)
        return Epochs.advance(self, limit)

    def settle(self):
        """As that of Solver: b stays."""
        self.next_bias = self.bias

    cdef Py_ssize_t entries(self, Py_ssize_t i) noexcept nogil:
        return line_size(&self.rows, i)

    cdef void _step(self, Py_ssize_t size) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef double shrinkage, rate, total = 0
        cdef const uint32_t* batch = draws.items + draws.position
        cdef Py_ssize_t i, k
        cdef Line x
        for k in range(size):
            self._look_ahead(draws, draws.position + k)
            x = drawn_line(&self.rows, draws.items, draws.position + k, draws.ready, w.values)
            self.prediction[k] = weight_dot(w, &x)
        self._differentiate(batch, size)
        shrinkage = pace(&self.schedule, self.n_drawn, size, self.batch_size)
        rate = shrinkage / (self.objective.alpha * size)
        shrink(w, 1 - shrinkage)
        if shrinkage == 1:
            memset(&self.coefficient[0], 0, self.rows.count * sizeof(double))
        for k in range(size):
            if self.derivative[k] != 0:
                i = batch[k]
                x = line_at(&self.rows, i)
                self.coefficient[i] += add_line(w, &x, -rate * self.derivative[k])
                total += self.derivative[k]
        if self.treatment == SUBGRADIENT:
            self.bias -= rate * total
        if project(w, self.radius):
            memset(&self.coefficient[0], 0, self.rows.count * sizeof(double))
        if needs_folding(w):
            for i in range(self.rows.count):
                self.coefficient[i] *= w.scale
            fold_scale(w)
        if self.counts:
            count_in_average(w)
            self.sum_of_biases += self.bias

    cdef inline void _differentiate(self, const uint32_t* batch, Py_ssize_t size) noexcept nogil:
        """derivative[k] = r_i l'(<w, x_i> + b) for the examples of the batch."""
        cdef bint by_weight = self.order.strata is not None
        cdef double target
        cdef Py_ssize_t k
        if self.treatment == BATCH:
            self.best_constant.clear()
            for k in range(size):
                self.best_constant.add(
                    self.prediction[k], self.objective.targets[batch[k]],
                    1 if by_weight else self.objective.weight(batch[k]))
            self.bias = self.best_constant.find()
        for k in range(size):
            target = self.objective.targets[batch[k]]
            if self.treatment == BATCH:
                self.derivative[k] = self.best_constant.derivative(self.prediction[k], target)
            else:
                self.derivative[k] = self.loss.derivative(self.prediction[k] + self.bias, target)
            self.derivative[k] *= self.ratio(self.objective, batch[k])

    cdef inline void _look_ahead(self, Draws* draws, Py_ssize_t position) noexcept nogil:
        """Ask for what the draws after `position` will read beside their rows."""
        cdef Py_ssize_t later = position + LINE_AHEAD
        if later < draws.ready:
            prefetch(&self.objective.targets[draws.items[later]])
            prefetch(&self.coefficient[draws.items[later]])

    def _with_bias(self, w, double bias):
        """Set the weight of the constant column, unless it is a feature."""
        if self.treatment != FEATURE:
            w[self.objective.matrix.n_columns] = bias / self.objective.matrix.constant
        return w

    def _iterates(self):
        """The outputs look at biases too."""
        return self

    @property
    def n_averaged(self):
        """How many iterates are counted since `restart_average`."""
        return self.weight_vector.n_averaged

    def to_array(self):
        """Return the present weights as a new array (float64)."""
        return self._with_bias(self.weight_vector.to_array(), self.bias)

    def sum_of_iterates(self):
        """Return the sum of the iterates counted so far (float64)."""
        return self._with_bias(self.weight_vector.sum_of_iterates(), self.sum_of_biases)

    def restart_average(self):
        """Forget the iterates counted so far."""
        self.weight_vector.restart_average()
        self.sum_of_biases = 0

    def model(self):
        """Return the weights chosen by the output as a new array (float64)."""
        return self.output.models(self)[0]

    def duals(self):
        """Return feasible duals near those of the last iterate (float64)."""
        return self._duals_of(self.objective, self.coefficients)

    def certify(self, rounded):
        """Return the model and its certificate, that of `duals()` (see `_drive`)."""
        models = self.output.models(self)
        if self.treatment == BATCH:
            models = [self._with_bias(w, self._best_bias(w)) for w in models]
        models = [rounded(model) for model in models]
        duals = self.duals()
        if self.treatment == SEARCH:
            primals, dual = self._search(duals, models)
        else:
            primals, dual = self.objective.certificate_of(duals, models)
        best = int(np.argmin(primals))
        return models[best], primals[best], dual

    def _best_bias(self, const double[::1] w):
        """Return the b that minimises the loss of all examples; reads the rows once."""
        cdef BestConstant all_rows = BestConstant(self.loss, self.rows.count)
        cdef Lines* rows = &self.objective.matrix.rows
        cdef double constant = w[rows.length] * rows.constant
        cdef Py_ssize_t first, i, step = self.objective.matrix.rows_per_call()
        cdef Line x
        all_rows.clear()
        for first in range(0, rows.count, step):
            with nogil:
                for i in range(first, min(rows.count, first + step)):
                    x = line_at(rows, i)
                    all_rows.add(
                        dot(&x, &w[0]) - constant, self.objective.targets[i],
                        self.objective.weight(i))
            PyErr_CheckSignals()
        with nogil:
            all_rows.find()
        self.objective.accesses += self.objective.matrix.n_stored
        return all_rows.best

    def _search(self, duals, models):
        """Certify the models of the present b, and choose another; the bound is that of all b."""
        objective = self.objective
        w = self._with_bias(objective.weights_of_dual(duals), self.bias)
        primals, dual = objective.certificate(w, duals, models)
        weights = objective.weights_array
        slope = -np.average(duals, weights=weights)
        self.next_bias = self.search.after(self.bias, dual, slope)
        return primals, self.search.bound

    def _move_to(self, double bias):
        """Go on from here with another b, and with the longer steps of the second epoch."""
        self.bias = bias
        self.n_fits += 1
        self.n_drawn = min(self.n_drawn, self.order.draws.n)
        self.output = choose(self.output.name, self.order.random.bit_generator.seed_seq)
        self.next_record = self.output.next_record
        self.restart_average()
        self._find_radius()

    def _find_radius(self):
        """Of the ball that holds the optimum for the present b."""
        if self.radius < INFINITY:
            w = self._with_bias(np.zeros(self.objective.matrix.n_weights), self.bias)
            self.radius = math.sqrt(self.objective.primal(w) / self.objective.alpha)


def first_pace(learning_rate, eta0, double alpha):
    """Return alpha eta_1; ValueError if w would not shrink by a factor from 0 to 1."""
    if learning_rate == "pegasos":
        return 1.0
    first = eta0 if learning_rate == "norma" else alpha * eta0
    if not 0 < first <= 1:
        highest = "1" if learning_rate == "norma" else f"1 / alpha = {1 / alpha:g}"
        raise ValueError(
            f'learning_rate="{learning_rate}" needs eta0 above 0 and at most {highest}, '
            f"got {eta0}")
    return first
