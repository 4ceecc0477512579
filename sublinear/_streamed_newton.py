"""Proximal Newton methods over a source."""

import numpy as np

from sublinear._core.blas import one_blas_thread
from sublinear._newton_passes import NewtonPasses
from sublinear._solvers.proximal_newton import ProximalNewton


class StreamedNewton(NewtonPasses):
    """Those of all problems, which share every pass, with a second dual for every example.

    Parameters
    ----------
    plan, certified, at_zeros
        As in NewtonPasses.
    duals : ndarray of shape (n_problems, n_rows), float64

    Attributes
    ----------
    centres : ndarray of shape (n_problems, n_rows), float64
        The methods' duals.
    """

    counts = "centres", *NewtonPasses.counts

    def __init__(self, plan, certified, at_zeros, duals):
        super().__init__(plan, certified, at_zeros)
        self.centres = duals.copy()

    def n_read(self, objectives):
        """Return how many feature values `visit` will read for each problem that is at work."""
        return ProximalNewton.n_passes * objectives[0].matrix.n_stored

    def visit(self, where, objectives):
        """Go through a block: its slice of the examples, the problems' Objectives."""
        with np.errstate(all="ignore"), one_blas_thread():
            for k, method in self.active:
                method.visit(objectives[k], self.centres[k, where])

    def duals_of(self, objective):
        """Return the duals that belong to the methods' weights, w of them, and their masses.

        Takes a pass over a StreamedObjective, which reads every row twice.
        """
        duals, self.gap_before = np.zeros_like(self.centres), self._gap()
        ws, masses = np.zeros((len(duals), len(self.plan.penalty))), np.zeros((len(duals), 2))
        for where, objectives in objective.blocks():
            for k, (method, part) in enumerate(zip(self.methods, objectives, strict=True)):
                with np.errstate(all="ignore"):
                    own = duals[k, where] = method.duals(part, self.centres[k, where])
                ws[k] += part.weights_of_dual(own)
                masses[k] += part.masses(own)
                objective.accesses += part.accesses + part.matrix.n_stored
        return duals, ws, masses
