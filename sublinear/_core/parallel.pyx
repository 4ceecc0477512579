"""What this build can run in parallel."""
from sublinear._core.portable cimport SUBLINEAR_OPENMP, omp_get_max_threads


def openmp_enabled():
    """Return True if this build of sublinear runs loops in parallel (OpenMP)."""
    return SUBLINEAR_OPENMP == 1


def max_threads():
    """Return the number of threads a parallel loop uses at most; 1 without OpenMP."""
    return omp_get_max_threads()
