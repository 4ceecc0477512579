"""Solvers step by step: random bits, the draws of their batches, how far to let them go."""

import numpy as np

from sublinear._core.order import Order
from sublinear._core.random import RandomBits


def bits(seed=0):
    return RandomBits(np.random.SeedSequence(seed))


def batches(n, sampling, size, seed=0):
    """Yield the examples of every step; a chunk's last batch holds what is left of it."""
    order = Order(n, sampling, bits(seed), size)
    while True:
        left = size if sampling == "subsets" else n
        while left:
            yield order.take(min(size, left)).astype(int)
            left -= min(size, left)


def advance_to(solver, accesses):
    """Let the solver read exactly so many feature values; a call ends at the end of an epoch."""
    for _ in range(100):
        if solver.accesses == accesses:
            return
        solver.advance(accesses)
    raise AssertionError(f"{solver.accesses} values read, not {accesses}")


def run_epochs(solver, count):
    """Let the solver finish so many epochs; returns it."""
    for _ in range(count):
        solver.advance(2**60)
    return solver


def unchanged(w):
    """What `certify` wants: a model as it will be stored."""
    return w


def interrupted(method, at):
    """Return a class like the method of second order whose objects are interrupted on the way."""

    class Interrupted(method):
        count = 0

        def iterate(self):
            Interrupted.count += 1
            if Interrupted.count == at:
                raise KeyboardInterrupt
            return super().iterate()

    return Interrupted
