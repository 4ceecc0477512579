from sublinear._core.order cimport Order
from sublinear._core.random cimport RandomBits
from sublinear._core.solver cimport Solver
from sublinear._core.strata cimport Strata
from sublinear._core.weight_vector cimport WeightVector
from sublinear._core.weighted_examples cimport WeightedExamples


cdef class Epochs(Solver):
    cdef readonly Order order
    cdef readonly WeightVector weight_vector
    cdef readonly object output            # which iterates become the model
    cdef bint counts                       # iterates, for the output
    cdef Py_ssize_t next_record
    cdef readonly Py_ssize_t n_steps, n_iter, accesses
    cdef Py_ssize_t n_examples, batch_size, n_seen    # n_seen: draws of the present epoch
    cdef double alpha
    cdef double radius                     # of the ball to project onto; infinite: none
    cdef double losses_at_zeros, weights_seen    # sums over all whose optimum the ball is to hold
    cdef readonly double n_drawn           # examples of all steps

    cdef inline double ratio(self, WeightedExamples examples, Py_ssize_t i) noexcept nogil:
        """r_i: 1 where weights decide what is drawn, else the weight over the mean of all."""
        if self.order.strata is not None:
            return 1
        return examples.weight(i) * (self.n_examples / examples.total_weight)

    cdef double _work(self) noexcept nogil
    cdef bint _end_epoch(self, Py_ssize_t limit)
    cdef void _run(self, Py_ssize_t limit) noexcept nogil
    cdef void _step(self, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t entries(self, Py_ssize_t i) noexcept nogil
    cdef _begin(
        self, Py_ssize_t n_examples, Py_ssize_t n_weights, double alpha, RandomBits random,
        sampling, Py_ssize_t batch_size, average, bint projection, Strata strata,
        bint in_pools)
    cdef _find_ball(self, double loss, double weight)


cdef class SubgradientSteps(Epochs):
    cdef void look_ahead(self, Py_ssize_t position) noexcept nogil
    cdef void look_at(self, Py_ssize_t i, Py_ssize_t place) noexcept nogil
    cdef void learn_from(self, Py_ssize_t i, Py_ssize_t place, double rate) noexcept nogil
    cdef void rescale(self, double factor) noexcept nogil
