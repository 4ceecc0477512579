cdef class Solver:
    pass


cdef class BaseObjective:
    pass
