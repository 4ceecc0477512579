"""Proximal Newton methods over a source."""

import numpy as np

from sublinear._core.blas import one_blas_thread
from sublinear._core.flat_intercept import are_balanced
from sublinear._core.objective import LEAST_OF_ZEROS, MOST_OF_ZEROS, balance_masses
from sublinear._newton_passes import NewtonPasses
from sublinear._solvers.proximal_newton import ProximalNewton


class StreamedNewton(NewtonPasses):
    """Those of all problems, which share every pass, with a second dual for every example.

    And a third one, of its certificates.

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
    duals : ndarray like them
        Those of where the last pass has evaluated, or that the last certificate has taken.
    masses : ndarray of shape (n_problems, 2)
        By which these were balanced, where an intercept has no penalty.
    of_ends : ndarray of shape (n_problems, 2)
        As in StreamedAscent.
    """

    counts = "centres", *NewtonPasses.counts
    is_between_blocks = False  # the sums of a pass are not saved
    least_rows = ProximalNewton.least_rows

    def __init__(self, plan, certified, at_zeros, objective, duals, reads):
        super().__init__(plan, certified, at_zeros)
        self.objective, self.centres, self.reads = objective, duals.copy(), reads
        self.duals, self.masses, self.of_ends = np.zeros_like(self.centres), None, None

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
                self.duals[k, where] = self.methods[k].visit(objectives[k], self.centres[k, where])
        return True

    def measured(self, rounded):
        """As StreamedAscent: what the last pass has found of the weights that it has led to."""
        at_zeros, found = self.objective.zeros[0], []
        least, most = LEAST_OF_ZEROS * at_zeros, MOST_OF_ZEROS * at_zeros
        for method in self.methods:
            is_model = np.array_equal(rounded(method.w), method.w)
            if not (method.is_measured and is_model and least < method.primal <= most):
                return None
            bound = method.primal - method.gap
            found.append(([method.w], [method.primal], bound, method.of_duals))
        self.n_certified, self.masses = self.n_passes, None
        return found

    def found(self, at_end):
        """As StreamedAscent; masses always take a pass."""
        self.n_certified, self.masses = self.n_passes, None
        if self.plan.balances:
            masses, self.of_ends = np.zeros((2, len(self.duals), 2))
            for where, objectives in self.objective.blocks(least_rows=self.least_rows):
                for k, part in enumerate(objectives):
                    duals = self.feasible_duals(k, where, part)
                    masses[k] += part.masses(duals)
                    self.of_ends[k] += part.masses_of_ends(duals)
            self.masses = masses
        return [[w] for w in self.weights], None

    def flat_problems(self, at_end):
        """As StreamedAscent, once `found`."""
        return [pair for pair in enumerate(self.of_ends) if are_balanced(pair[1])]

    def feasible_duals(self, k, where, part):
        """As StreamedAscent: those that belong to the method's weights."""
        duals = self.duals[k, where]
        if self.masses is not None:
            balance_masses(duals, self.masses[k], self.objective.mass(self.methods[k].w[-1]))
            return duals
        with np.errstate(all="ignore"):
            duals[:] = self.methods[k].duals(part, self.centres[k, where])
        self.objective.accesses += part.matrix.n_stored
        return duals

    def hand_over(self, k, w, ascent):
        """Let dual ascent go on from the duals that a certificate has taken, and their w."""
        ascent.adopt(k, self.duals[k], w, self.methods[k].w[-1])
