from sublinear._core.solver cimport BaseObjective


cdef class WeightedExamples(BaseObjective):
    cdef readonly double total_weight, mean_weight
    cdef readonly object weights_array
    cdef const double* weights          # NULL: all are 1

    cdef inline double weight(self, Py_ssize_t i) noexcept nogil:
        return 1.0 if self.weights == NULL else self.weights[i]
