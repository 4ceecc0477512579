"""The compiled peers of MinimumEnclosingBall, built on demand with the system's C compiler."""

import ctypes
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

METHODS = {"Badoiu-Clarkson": 0, "away-step Frank-Wolfe": 1}
# the best that the machine has: the package itself is built without -march and -ffast-math
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


@cache
def library():
    """Compile enclosing_ball.c and load it."""
    folder = tempfile.mkdtemp()
    target = Path(folder) / "enclosing_ball.so"
    source = Path(__file__).with_name("enclosing_ball.c")
    subprocess.run(
        [os.environ.get("CC", "cc"), *FLAGS, str(source), "-o", str(target), "-lm"], check=True
    )
    loaded = ctypes.CDLL(str(target))
    target.unlink()
    os.rmdir(folder)
    loaded.enclosing_ball.restype = ctypes.c_long
    return loaded


def enclosing_ball(A, method, target, max_passes=100_000):
    """Return centre, weights, passes, and the best primal and dual value (radius squared).

    Parameters
    ----------
    A : ndarray of shape (n, d), float32, C order
    method : one of METHODS
    target : float
        Relative gap of the squared radius at which to stop.
    """
    A = np.require(A, np.float32, "C")
    centre, weights = np.empty(A.shape[1]), np.empty(A.shape[0])
    primal, dual = ctypes.c_double(), ctypes.c_double()
    passes = library().enclosing_ball(
        A.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_long(A.shape[0]),
        ctypes.c_long(A.shape[1]),
        METHODS[method],
        ctypes.c_double(target),
        ctypes.c_long(max_passes),
        centre.ctypes.data_as(ctypes.c_void_p),
        weights.ctypes.data_as(ctypes.c_void_p),
        ctypes.byref(primal),
        ctypes.byref(dual),
    )
    if passes < 0:
        raise MemoryError
    return centre, weights, passes, primal.value, dual.value
