"""Randomness: one private bit generator per work item, seeded through NumPy's SeedSequence."""
from cpython.pycapsule cimport PyCapsule_GetPointer

import numpy as np


cdef class RandomBits:
    """A private SFC64 bit generator whose draws compiled code makes without the GIL.

    Parameters
    ----------
    seed_sequence : numpy.random.SeedSequence
    """

    def __cinit__(self, seed_sequence):
        self.bit_generator = np.random.SFC64(seed_sequence)
        self.bits = <bitgen_t*> PyCapsule_GetPointer(self.bit_generator.capsule, "BitGenerator")

    def state(self):
        """Return the generator's state, ready for JSON."""
        state = self.bit_generator.state
        words = [int(word) for word in state["state"]["state"]]
        return [words, state["has_uint32"], state["uinteger"]]

    def set_state(self, state):
        """Go on from a `state()`."""
        words, has_uint32, uinteger = state
        self.bit_generator.state = {
            "bit_generator": "SFC64",
            "state": {"state": np.array(words, dtype=np.uint64)},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }

    def integers(self, uint32_t n, Py_ssize_t size):
        """Draw `size` integers from {0, .., n - 1} (uint32), as compiled loops do."""
        if n == 0:
            raise ValueError("n must be at least 1")
        result = np.empty(size, dtype=np.uint32)
        cdef uint32_t[::1] drawn = result
        cdef Py_ssize_t k
        for k in range(size):
            drawn[k] = below(self.bits, n)
        return result

    def doubles(self, Py_ssize_t size):
        """Draw `size` float64 values from [0, 1), as compiled loops do."""
        result = np.empty(size)
        cdef double[::1] drawn = result
        cdef Py_ssize_t k
        for k in range(size):
            drawn[k] = uniform(self.bits)
        return result
