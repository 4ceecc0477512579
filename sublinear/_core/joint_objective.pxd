from sublinear._core.joint_losses cimport JointLoss
from sublinear._core.matrix cimport Matrix


cdef class JointObjective:
    cdef readonly Matrix matrix
    cdef readonly JointLoss loss
    cdef readonly double alpha, total_weight
    cdef readonly Py_ssize_t n_classes, accesses
    cdef readonly object labels_array, weights_array
    cdef const int* labels
    cdef const double* weights          # NULL: all are 1

    cdef inline double weight(self, Py_ssize_t i) noexcept nogil:
        return 1.0 if self.weights == NULL else self.weights[i]
