"""Epochs, the loop over batches of linear Pegasos; SubgradientSteps, its steps with any examples.

    for each batch B, N the number of examples of it and all batches before it:
        w <- (1 - |B| / N) w - 1 / (alpha N) sum_{i in B} g_i
        w <- the nearest point with |w| <= radius                                    (optional)

Batches of b examples make this step t = N / b of Shalev-Shwartz et al., "Pegasos" (2011), Figure 2,
since then |B| / N = 1 / t. A shorter batch, the last one of an epoch or a block of a stream, counts
by its size: every example drawn has the same coefficient in w, whose sum over whole epochs is the
same for all.

A subclass of Epochs knows what a step is, and what an example costs:

    _step(size)                  takes a step with the next `size` draws
    entries(i)                   feature values that a look at example i reads

One of SubgradientSteps knows what an example is:

    look_ahead(position)         prefetches what the draws after `position` will read
    look_at(i, place)            keeps at `place`, 0 .. b - 1, what a sub-gradient at w needs
    learn_from(i, place, rate)   w -= rate * g_i
    rescale(factor)              w.values are about to be multiplied by the factor
"""
from libc.math cimport INFINITY, sqrt
from libc.stdint cimport uint32_t

import numpy as np

from sublinear._core.order cimport Draws, make_ready, next_chunk
from sublinear._core.line cimport OFFSET_AHEAD
from sublinear._core.random cimport RandomBits
from sublinear._core.solver cimport FIRST_SLICE, LOOKED_THROUGH
from sublinear._core.strata cimport Strata
from sublinear._core.weight_vector cimport (
    ScaledVector, count_in_average, fold_scale, needs_folding, project, shrink,
)

from sublinear._core.iterates import certify_best, choose
from sublinear._core.states import take


def dual_of_draws(double cost, double penalty, n_draws, double n_drawn):
    """Return the greatest c cost / n_drawn - c^2 penalty over factors c that make duals feasible.

    Parameters
    ----------
    cost : float
        Sum of the costs of what all draws found.
    penalty : float
        alpha / 2 |w|^2 of the last iterate.
    n_draws : array of shape (n_examples,)
    n_drawn : float
        Of all examples: the sum of n_draws.
    """
    cdef double mean, factor, most = len(n_draws) * float(np.max(n_draws))
    if n_drawn == 0:
        return 0.0
    mean, factor = cost / n_drawn, n_drawn / most
    if 2 * penalty * factor > mean:
        factor = mean / (2 * penalty)
    return factor * mean - factor * factor * penalty


cdef class Epochs(Solver):
    """Batches of examples, epoch by epoch.

    Attributes
    ----------
    n_steps, n_iter, accesses : int
        Steps taken, epochs completed, feature values read.
    n_drawn : float
        Examples of all steps.
    """

    certificate_growth = 1.5
    first_slice = FIRST_SLICE

    def __cinit__(self, *args, **kwargs):
        self.radius = INFINITY

    cdef _begin(
        self, Py_ssize_t n_examples, Py_ssize_t n_weights, double alpha, RandomBits random,
        sampling, Py_ssize_t batch_size, average, bint projection, Strata strata,
        bint in_pools
    ):
        """Begin at w = 0; the parameters are those of SubgradientSteps, and Order's `in_pools`."""
        self.n_examples, self.alpha, self.batch_size = n_examples, alpha, batch_size
        self.order = Order(n_examples, sampling, random, batch_size, in_pools, strata)
        self.output = choose(average, random.bit_generator.seed_seq)
        self.counts, self.next_record = self.output.counts, self.output.next_record
        self.weight_vector = WeightVector(
            n_weights, averaged=self.output.averages, keeps_norm=projection)

    @property
    def keeps_best(self):
        """Whether one of several models is to be chosen by its objective."""
        return self.output.keeps_best

    def state(self):
        """Return what `resume` needs to go on, perhaps over other examples.

        Its arrays are this solver's own, and good until it goes on.
        """
        w, total = self.weight_vector.settle()
        return {
            "w": w,
            "n_steps": self.n_steps,
            "n_drawn": self.n_drawn,
            **self._ball(),
            **self.output.state(self.weight_vector.n_averaged, total),
        }

    def resume(self, state):
        """Go on from a `state()` of as many weights."""
        self.weight_vector.set(take(state, "w", self.weight_vector.values))
        self.n_steps, self.n_drawn = take(state, "n_steps", 0), take(state, "n_drawn", 0.0)
        self._resume_ball(state)
        self.output.resume(self.weight_vector, state, self.weight_vector.values)
        self.next_record = self.output.next_record

    cdef _find_ball(self, double loss, double weight):
        """Take a ball that holds the optimum: |w|^2 <= the mean loss of zero weights / alpha.

        It is to hold that of these examples, whose losses and weights are summed up here, and that
        of all before them, which a stream's blocks may be few of.
        """
        self.losses_at_zeros += loss
        self.weights_seen += weight
        mean = max(loss / weight, self.losses_at_zeros / self.weights_seen)
        self.radius = sqrt(mean / self.alpha)

    def _ball(self):
        """Return what `_resume_ball` needs, a dict."""
        return {"losses_at_zeros": self.losses_at_zeros, "weights_seen": self.weights_seen}

    def _resume_ball(self, state):
        """Let the ball serve the examples of a state as well."""
        losses, weights = take(state, "losses_at_zeros", 0.0), take(state, "weights_seen", 0.0)
        if self.radius < INFINITY:
            loss, weight = self.losses_at_zeros, self.weights_seen
            self.losses_at_zeros, self.weights_seen = losses, weights
            self._find_ball(loss, weight)

    @property
    def work(self):
        """Feature values read, and one for every example looked at."""
        return self._work()

    cdef double _work(self) noexcept nogil:
        return self.accesses + self.n_iter * self.order.draws.n + self.n_seen

    def advance(self, Py_ssize_t limit):
        """Go on until an epoch ends, then return True, or a step would exceed `limit`."""
        cdef Py_ssize_t most = self.n_iter + LOOKED_THROUGH // self.order.draws.n
        while self._end_epoch(limit):
            if self.n_iter >= most or not self.is_quiet(self._work(), self.n_iter):
                return True
        return False

    cdef bint _end_epoch(self, Py_ssize_t limit):
        """Go on to the end of the epoch; tells whether it came before the limit."""
        cdef Py_ssize_t epoch = self.n_iter, before = -1
        while self.n_iter == epoch and self.n_steps != before:
            before = self.n_steps
            with nogil:
                self._run(limit)
            if self.counts and self.weight_vector.vector.n_averaged == self.next_record:
                self.output.record(self._iterates())
                self.next_record = self.output.next_record
        return self.n_iter > epoch

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        """Steps until the epoch or the budget ends, or the output wants to look."""
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t k, size, total
        while True:
            make_ready(draws, min(draws.count, draws.position + self.batch_size + OFFSET_AHEAD))
            size = min(self.batch_size, draws.count - draws.position)
            total = 0
            for k in range(draws.position, draws.position + size):
                total += self.entries(draws.items[k])
            if self.accesses + total > limit:
                return
            self.n_steps += 1
            self.n_drawn += size
            self._step(size)
            self.accesses += total
            draws.position += size
            if draws.position == draws.count:
                next_chunk(draws)
            self.n_seen += size
            if self.n_seen >= draws.n:
                self.n_seen -= draws.n
                self.n_iter += 1
                return
            if self.counts and self.weight_vector.vector.n_averaged == self.next_record:
                return

    cdef void _step(self, Py_ssize_t size) noexcept nogil:
        """Take a step with the next `size` draws, which are counted already."""

    cdef Py_ssize_t entries(self, Py_ssize_t i) noexcept nogil:
        return 0

    def _duals_of(self, objective, coefficients):
        """Return feasible duals near those of w / scale, a combination of rows."""
        masses = coefficients * (
            self.weight_vector.vector.scale * objective.alpha * objective.total_weight)
        if self.order.strata is not None:
            self.order.strata.share(masses.reshape(len(masses), -1), objective.weights_array)
        return objective.duals_of(masses)

    def _iterates(self):
        """What the output looks at."""
        return self.weight_vector


cdef class SubgradientSteps(Epochs):
    """The steps; what an example is comes from the subclass.

    Parameters
    ----------
    n_examples, n_weights : int
    alpha : float
    random : RandomBits
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
    batch_size : int, default=1
    average : {"last", "mean", "tail", "random"}, default="last"
        Which iterates become the model: see sublinear._core.iterates.
    projection : bool, default=False
        Keep the norm of w; a subclass says by `_find_ball` what to project onto.
    strata : Strata, default=None
        Draw examples in proportion to their weights.
    """

    def __init__(
        self, Py_ssize_t n_examples, Py_ssize_t n_weights, double alpha, RandomBits random,
        sampling="shuffle", Py_ssize_t batch_size=1, average="last", bint projection=False,
        Strata strata=None
    ):
        self._begin(
            n_examples, n_weights, alpha, random, sampling, batch_size, average, projection,
            strata, False)

    def state(self):
        """As that of Epochs."""
        self.rescale(self.weight_vector.vector.scale)
        return Epochs.state(self)

    cdef void _step(self, Py_ssize_t size) noexcept nogil:
        cdef ScaledVector* w = &self.weight_vector.vector
        cdef Py_ssize_t k, position = self.order.draws.position
        cdef const uint32_t* batch = self.order.draws.items + position
        for k in range(size):
            self.look_ahead(position + k)
            self.look_at(batch[k], k)
        shrink(w, 1 - size / self.n_drawn)
        for k in range(size):
            self.learn_from(batch[k], k, 1 / (self.alpha * self.n_drawn))
        if project(w, self.radius):
            self.rescale(0)
        if needs_folding(w):
            self.rescale(w.scale)
            fold_scale(w)
        if self.counts:
            count_in_average(w)

    cdef void look_ahead(self, Py_ssize_t position) noexcept nogil:
        pass

    cdef void look_at(self, Py_ssize_t i, Py_ssize_t place) noexcept nogil:
        pass

    cdef void learn_from(self, Py_ssize_t i, Py_ssize_t place, double rate) noexcept nogil:
        pass

    cdef void rescale(self, double factor) noexcept nogil:
        pass

    def shaped(self, model):
        """Return the weights in the shape that the objective wants."""
        return model

    def dual(self):
        """Return the dual value of what the steps have found, a lower bound on the optimum."""
        raise NotImplementedError("a subclass knows its dual")

    def model(self):
        """Return the weights chosen by `average` as a new array (float64)."""
        return self.shaped(self.output.models(self.weight_vector)[0])

    def certify(self, rounded):
        """Return the model and its certificate (see `_drive`)."""
        models = [self.shaped(model) for model in self.output.models(self.weight_vector)]
        model, primal = certify_best(models, rounded, self.objective.primal)
        return model, primal, self.dual()
