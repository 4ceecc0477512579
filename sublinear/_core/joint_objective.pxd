from sublinear._core.joint_losses cimport JointLoss
from sublinear._core.matrix cimport Matrix
from sublinear._core.weighted_examples cimport WeightedExamples


cdef class JointObjective(WeightedExamples):
    cdef readonly Matrix matrix
    cdef readonly JointLoss loss
    cdef readonly double alpha
    cdef readonly Py_ssize_t n_classes, accesses
    cdef readonly object labels_array
    cdef const int* labels
