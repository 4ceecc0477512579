"""What solvers of saddle point problems share: the problem, and the best dual value."""


from sublinear._core.solver cimport Solver


cdef class SaddleSolver(Solver):
    cdef readonly object problem, best_p
    cdef readonly double best_dual
