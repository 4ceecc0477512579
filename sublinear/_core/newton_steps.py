"""Newton's steps for a loss with slopes that have no jumps: where they are, and how far they go.

Objective: that of sublinear._core.objective, by the equations of sublinear._core.normal_equations
with a_i = -l'(z_i) and h_i = l''(z_i).

Departure: where a loss is straight h_i is a share of l'(z_i) / (z_i - y_i), the curvature of the
parabola that touches the loss there and is least at the target: as in iteratively reweighted least
squares, whose steps always descend. The share falls with every full step, so that the last steps
are Newton's. Else a step to where few rows keep their curvature is far too long.
"""

from functools import partial

import numpy as np

from sublinear._core.inner import inner
from sublinear._core.line_search import backtrack
from sublinear._core.normal_equations import NormalEquations

RESOLVED = 1e-14  # of the primal value; below that the gradient tells how near it is
SECANT = 1 / 4  # of the share of secants, after a full step; after a shorter one that grows again


class NewtonSteps:
    """What methods share that take such steps; how they find directions is their own.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64, default=None
        Where to start, if that is better than zeros.
    tol : float, default=0.0
        The relative gap that is wanted.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    gap, primal : float
        Between P(w) and the dual value of the first of `duals`.
    duals : list of ndarrays of shape (n_rows,), float64
        Those of the equations that led here, where they are good enough and others are not, then
        a_i = -l'(<x_i, w>), whose gap is |P'(w)|^2 / (2 alpha).
    mismatch : float
        What is left of the gap after the last step if its equations were solved exactly: by how
        much slopes differ from the duals that they have solved for; inf if that is not known.
    beyond : ndarray of shape (n_rows,) or None
        The predictions to which the last step would have led, if it had to be shortened.
    """

    def __init__(self, objective, w=None, tol=0.0):
        self.tol = tol
        self.system, self.loss, self.beyond = NormalEquations(objective), objective.loss, None
        self.secant_share, self.mismatch = 1.0, np.inf
        start = self._place(np.zeros(objective.matrix.n_weights), np.zeros(len(self.system.rows)))
        if w is not None and np.any(w):
            other = self._place(np.array(w), self.system.products(w))
            start = other if other[0] <= start[0] else start
        self._move_to(*start)

    def _place(self, w, predictions):
        """Return the primal value there, and where that is."""
        return self.system.primal(w, predictions), w, predictions

    def _move_to(self, primal, w, predictions):
        system = self.system
        self.primal, self.w, self.predictions = primal, w, predictions
        self.slopes = self.loss.derivatives(predictions, system.targets)
        self.gradient = system.penalty * w + self._pull()
        self.gap, self.duals = system.distance(self.gradient), [-self.slopes]

    def _pull(self):
        """Return the gradient of the losses."""
        return self.system.combine(self.slopes)

    def _curvatures(self):
        """Return those that a step goes by: where a loss is straight, a share of the secants'."""
        curvatures = self.loss.second_derivatives(self.predictions, self.system.targets)
        if self.loss.is_curved:
            return curvatures
        return np.maximum(curvatures, self.secant_share * self._secants())

    def _secants(self):
        """Return the curvatures of parabolas that touch the loss and are least at the target."""
        distances = self.predictions - self.system.targets
        pulls = self.slopes != 0
        return np.divide(self.slopes, distances, out=np.zeros(len(pulls)), where=pulls)

    def _search(self, direction, curvatures=None):
        """Take a step in a direction; return False if none is possible.

        It solves the equations that these curvatures make; None: other ones.
        """
        change, slopes = self.system.products(direction), self.slopes

        def reach(step):
            return self._place(self.w + step * direction, self.predictions + step * change)

        step, place = backtrack(reach, self.primal, inner(self.gradient, direction))
        self.beyond = None if step == 1 else self.predictions + change
        if place is None:
            return False
        self.secant_share = min(1.0, self.secant_share * (SECANT if step == 1 else 1 / SECANT))
        self._move_to(*place)
        self.mismatch = np.inf
        if step == 1 and curvatures is not None and self.gap > self.tol * self.primal:
            change *= -curvatures  # in place: rows may be many
            change -= slopes
            self._note_duals(change)
        return True

    def _note_duals(self, duals):
        """Prefer the duals that the equations have solved for, if they are good enough.

        But for rounding w(a) of a_i = -l'(z_i) - h_i <x_i, change of w> is where the step leads to.
        So what slopes there differ from these costs a sum of squares, while their own w(a) is off
        by a sum, whose square counts 1 / alpha times.
        """
        system, targets, enough = self.system, self.system.targets, self.tol * self.primal
        duals = self.loss.nearest_duals(duals, targets)
        losses = self.loss.values(self.predictions, targets)
        losses += self.loss.conjugates(duals, targets)
        losses += duals * self.predictions
        self.mismatch = gap = max(system.mean(losses), RESOLVED * self.primal)
        if gap > enough:
            return
        gap += system.distance(system.penalty * self.w - system.combine(duals))
        if gap <= enough:
            self.gap = gap
            self.duals.insert(0, duals)

    def candidates(self):
        """Return functions of the present state that give what a certificate may take."""
        return [partial(self.system.all_duals, duals) for duals in self.duals]
