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
from sublinear._core.objective import BALANCED

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
    at : Evaluation
        At w.
    gap, primal : float
        Between P(w) and the dual value of the first of the `candidates`.
    is_measured : bool
        Whether these are exact: not of predictions to which steps have added, nor of duals that are
        to be balanced.
    duals : list of ndarrays of shape (n_rows,), float64
        Those of the equations that led here, where they are good enough and slopes are not; else
        empty. A candidate that follows them is a_i = -l'(<x_i, w>), with the gap
        |P'(w)|^2 / (2 alpha).
    mismatch : float
        What is left of the gap after the last step if its equations were solved exactly: by how
        much slopes differ from the duals that they have solved for; inf if that is not known.
    beyond : ndarray of shape (n_rows,) or None
        The predictions to which the last step would have led, if it had to be shortened.
    """

    def __init__(self, objective, w=None, tol=0.0):
        self.tol = tol
        self.system, self.loss = NormalEquations(objective), objective.loss
        self.at, self.beyond, self.mismatch = None, None, np.inf
        self.secant_share = 0.0 if self.loss.is_curved else 1.0
        if w is not None and np.any(w):
            other = self._place(np.array(w), way=w)
            if other[0] <= objective.at_zeros()[1]:
                self._move_to(*other)
                return
        self._move_to(*self._at_zeros())

    def _at_zeros(self):
        """Return what `_place` does for zeros."""
        return self._place(np.zeros(self.system.matrix.n_weights))

    def _evaluate(self, **place):
        """Return an Evaluation of the rows, with the curvatures that a step goes by."""
        return self.system.evaluate(secant_share=self.secant_share, **place)

    def _place(self, w, **place):
        """Return the primal value there, where that is, and the Evaluation."""
        at = self._evaluate(**place)
        return self._primal(w, at.loss), w, at

    def _primal(self, w, loss):
        return self.system.objective.penalty(w) + loss

    def _move_to(self, primal, w, at, is_measured=True):
        self.primal, self.w, self.at = primal, w, at
        self.is_measured = is_measured and self.system.objective.intercept_penalty >= BALANCED
        self.gradient = self.system.penalty * w + at.pull
        self.gap, self.duals = self.system.distance(self.gradient), []

    def _search(self, direction, curvatures=None):
        """Take a step in a direction; return False if none is possible.

        It solves the equations that these curvatures make; None: other ones.
        """
        before, share, full = self.at, self.secant_share, None
        is_at_zeros = not self.w.any()
        if self.beyond is None:  # full steps mostly follow each other
            self.secant_share = SECANT * share
            full = self._place(self.w + direction, way=direction, predictions=before.predictions)
            change = full[2].change
        else:
            change = self.system.products(direction)

        def reach(step):
            if full and step == 1:
                return full
            w, predictions = self.w + step * direction, before.predictions + step * change
            losses = self.loss.values(predictions, self.system.targets)
            return self._primal(w, self.system.mean(losses)), w, predictions

        step, place = backtrack(reach, self.primal, inner(self.gradient, direction))
        self.beyond = None if step == 1 else before.predictions + change
        self.secant_share = min(1.0, share * (SECANT if step == 1 else 1 / SECANT))
        if place is None:
            return False
        if place is not full:
            _, w, predictions = place
            place = self._place(w, predictions=predictions)
        self._move_to(*place, is_measured=is_at_zeros and place is full)
        self.mismatch = np.inf
        if step == 1 and curvatures is not None and self.gap > self.tol * self.primal:
            change *= -curvatures  # in place: rows may be many
            change -= before.slopes
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
        losses = self.loss.values(self.at.predictions, targets)
        losses += self.loss.conjugates(duals, targets)
        losses += duals * self.at.predictions
        self.mismatch = gap = max(system.mean(losses), RESOLVED * self.primal)
        if gap > enough:
            return
        gap += system.distance(system.penalty * self.w - system.combine(duals))
        if gap <= enough:
            self.gap = gap
            self.duals.append(duals)

    def candidates(self):
        """Return functions of the present state that give what a certificate may take."""
        found = [partial(self.system.all_duals, duals) for duals in self.duals]
        return [*found, partial(self._duals_of, self.at.slopes)]

    def _duals_of(self, slopes):
        return self.system.all_duals(-slopes)
