"""What this build can do: run in parallel, check bounds."""
import numpy as np

from sublinear._core.portable cimport SUBLINEAR_OPENMP, omp_get_max_threads


def openmp_enabled():
    """Return True if this build of sublinear runs loops in parallel (OpenMP).

    Examples
    --------
    >>> from sublinear import openmp_enabled
    >>> n_jobs = -1 if openmp_enabled() else 1
    """
    return SUBLINEAR_OPENMP == 1


def max_threads():
    """Return the number of threads a parallel loop uses at most; 1 without OpenMP."""
    return omp_get_max_threads()


def bounds_checked():
    """Return True if compiled loops check their bounds (the build option `checked`)."""
    cdef double[::1] first = np.zeros(2)[:1]
    cdef Py_ssize_t beyond = 1    # the array's, not the memory's
    try:
        return first[beyond] != 0
    except IndexError:
        return True
