"""Proximal Newton methods over partitions: a round is a pass.

A pass sums values, a gradient and a Hessian over all rows (sublinear._solvers.proximal_newton), so
n_weights^2 numbers come back from every partition and are added up on their way. The duals that a
method keeps stay with their rows.

A pass may be asked for twice, where another partition was lost: its number tells, so that duals
move once. A lost partition begins with duals of zero then, and the method goes on from the same w.
"""

import numpy as np

from sublinear._core.blas import one_blas_thread
from sublinear._core.pace import relative_gap
from sublinear._core.states import restore, saved
from sublinear._newton_passes import NewtonPasses
from sublinear._solvers.proximal_newton import ProximalNewton

MESSAGES = 2**22  # feature values that could be looked at while those of a round travel
NUMBER = 16  # or while one number of a partition's matrix does
STATE = "number", "centres"


class NewtonPart:
    """A partition's part of a method.

    Parameters
    ----------
    problem : Problem
    n_weights : int
    duals : ndarray of shape (n_rows,), float64
        Of all its rows.
    """

    def __init__(self, problem, n_weights, duals):
        penalty = problem.penalty(n_weights)
        self.method = ProximalNewton(problem.make_loss(), penalty, np.zeros(n_weights), 1.0, 0.0)
        self.centres = duals
        self.number = 0  # of the last pass

    def visit(self, number, state, blocks):
        """Make a pass of a method in such a state; return its sums.

        `blocks` yields (slice of the rows, Objective).
        """
        method = self.method
        method.set_state(state)
        method.moves_centres &= number > self.number
        self.number = number
        method.begin()
        with np.errstate(all="ignore"), one_blas_thread():
            for where, objective in blocks:
                method.visit(objective, self.centres[where])
        sums, method.sums = method.sums, None  # which are large
        return sums

    def duals(self, state, blocks):
        """Return the duals of all rows that belong to the weights of a method."""
        self.method.set_state(state)
        duals = np.zeros_like(self.centres)
        with np.errstate(all="ignore"):
            for where, objective in blocks:
                duals[where] = self.method.duals(objective, self.centres[where])
        return duals

    def state(self):
        """Return what `set_state` needs to go on between two passes, a flat dict."""
        return saved(self, STATE)

    def set_state(self, state):
        """Go on from a `state()`."""
        restore(self, STATE, state)


class NewtonRounds(NewtonPasses):
    """The method of the one problem that partitions solve."""

    @property
    def method(self):
        """The ProximalNewton."""
        return self.methods[0]

    @property
    def relative_gap(self):
        """The gap at the last pass, an estimate."""
        ((gap, primal),) = self.estimates
        return relative_gap(primal, gap)

    def make(self, total):
        """Make a pass.

        `total(number, state)` returns the sum of what `NewtonPart.visit` returns everywhere.
        """
        self.begin()
        self.method.sums = total(self.n_passes + 1, self.method.state())
        self.end()
