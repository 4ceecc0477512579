"""Index streams: shuffled epochs, one fixed permutation, independent draws, random subsets."""
import numpy as np

SAMPLINGS = {
    "shuffle": SHUFFLE, "fixed": FIXED, "replacement": REPLACEMENT, "subsets": SUBSETS,
}


cdef class Order:
    """An endless stream of indices from {0, .., n - 1}.

    Parameters
    ----------
    n : int
    sampling : {"shuffle", "fixed", "replacement", "subsets"}
    random : RandomBits
    batch_size : int, default=1
        Size of the subsets; the other orders do not use it.
    """

    def __cinit__(self, Py_ssize_t n, str sampling, RandomBits random, Py_ssize_t batch_size=1):
        if not 1 <= n < 2**32 - 1:
            raise ValueError(f"the number of examples must lie in [1, 2**32 - 2], got {n}")
        if not 1 <= batch_size <= n:
            raise ValueError(f"batch_size must be from 1 to {n}, got {batch_size}")
        self.random = random
        self.items = np.arange(n, dtype=np.uint32)
        cdef uint32_t[::1] items = self.items
        self.draws.items = &items[0]
        self.draws.n = n
        self.draws.sampling = SAMPLINGS[sampling]
        self.draws.count = batch_size if self.draws.sampling == SUBSETS else n
        self.draws.bits = random.bits

    def take(self, Py_ssize_t count):
        """Return the next `count` indices (uint32), as compiled loops get them."""
        result = np.empty(count, dtype=np.uint32)
        cdef uint32_t[::1] taken = result
        cdef Py_ssize_t k
        for k in range(count):
            if self.draws.position == self.draws.count:
                next_chunk(&self.draws)
            make_ready(&self.draws, self.draws.position + 1)
            taken[k] = self.draws.items[self.draws.position]
            self.draws.position += 1
        return result
