"""Proximal Newton methods over a source."""

import numpy as np

from sublinear._core.blas import one_blas_thread
from sublinear._newton_passes import NewtonPasses
from sublinear._solvers.proximal_newton import ProximalNewton


class StreamedNewton(NewtonPasses):
    """Those of all problems, which share every pass, with a second dual for every example.

    It does what StreamedAscent does, by other steps.

    Parameters
    ----------
    plan, certified, at_zeros
        As in NewtonPasses.
    objective : StreamedObjective
    duals : ndarray of shape (n_problems, n_rows), float64
    reads : ndarray of shape (n_problems,), int
        Counts the feature values read for each problem.

    Attributes
    ----------
    centres : ndarray of shape (n_problems, n_rows), float64
        The methods' duals.
    """

    counts = "centres", *NewtonPasses.counts
    is_between_blocks = False  # the sums of a pass are not saved
    least_rows = ProximalNewton.least_rows

    def __init__(self, plan, certified, at_zeros, objective, duals, reads):
        super().__init__(plan, certified, at_zeros)
        self.objective, self.centres, self.reads = objective, duals.copy(), reads

    def visit(self, where, objectives, left, own):
        """Go through a block and return True, unless that would read more than is left."""
        active = [k for k, _ in self.active]
        reads = np.zeros_like(self.reads)
        reads[active] = ProximalNewton.n_passes * objectives[0].matrix.n_stored
        if reads.sum() > left or np.any(reads > own):
            return False
        self.reads += reads
        with np.errstate(all="ignore"), one_blas_thread():
            for k in active:
                self.methods[k].visit(objectives[k], self.centres[k, where])
        return True

    def found(self, at_end):
        """As StreamedAscent: the methods' weights, and the duals that belong to them.

        Takes a pass, which reads every row twice.
        """
        duals, self.gap_before = np.zeros_like(self.centres), self.gap
        ws, masses = np.zeros((len(duals), len(self.plan.penalty))), np.zeros((len(duals), 2))
        for where, objectives in self.objective.blocks(least_rows=self.least_rows):
            for k, (method, part) in enumerate(zip(self.methods, objectives, strict=True)):
                with np.errstate(all="ignore"):
                    own = duals[k, where] = method.duals(part, self.centres[k, where])
                ws[k] += part.weights_of_dual(own)
                masses[k] += part.masses(own)
                self.objective.accesses += part.accesses + part.matrix.n_stored
        return [[w] for w in self.weights], duals, ws, masses
