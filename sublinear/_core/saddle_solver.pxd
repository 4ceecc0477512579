"""What solvers of saddle point problems share: the problem, and the best dual value."""


cdef class SaddleSolver:
    cdef readonly object problem, best_p
    cdef readonly double best_dual
