"""Newton's method for a loss with slopes that have no jumps, with a line search.

Paper: Mangasarian, "A finite Newton method for classification" (2002), where curvatures jump.

Objective: that of sublinear._core.objective, by the equations of sublinear._core.normal_equations
with a_i = -l'(z_i) and h_i = l''(z_i).

Departure: where a loss is straight h_i is a share of l'(z_i) / (z_i - y_i), the curvature of the
parabola that touches the loss there and is least at the target: as in iteratively reweighted least
squares, whose steps always descend. The share falls with every full step, so that the last steps
are Newton's. Else a step to where few rows keep their curvature is far too long.

Cost per iteration: three passes over the rows, the squares of their lengths, n_weights^3 / 6.
"""

from functools import partial

import numpy as np
from scipy.linalg import cho_solve

from sublinear._core.normal_equations import NormalEquations

DECREASE = 1e-4  # of what the slope promises, at least
MOST_HALVINGS = 40
SECANT = 1 / 4  # of the share of secants, after a full step; after a shorter one that grows again
MOST_OF_PIECEWISE = 18  # iterations, which creep where curvatures jump and a plane parts classes


class Newton:
    """Newton's method for losses whose slopes have no jumps.

    Class attributes are explained by sublinear._solvers.finisher.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64, default=None
        Where to start, if that is better than zeros.
    gram : ndarray of shape (n_weights, n_weights), float64, default=None
        That of least squares (NormalEquations), where it is known.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    gap, primal : float
        Between P(w) and the dual value of a_i = -l'(<x_i, w>), which is |P'(w)|^2 / (2 alpha).
    beyond : ndarray of shape (n_rows,) or None
        The predictions to which the last step would have led, if it had to be shortened.
    """

    n_passes, sweeps = 3, 4
    most_idle, takes_start, factorises = 8, True, True

    @staticmethod
    def n_expected(loss):
        """As the finisher asks."""
        return 6

    def __init__(self, objective, w=None, gram=None):
        self.system, self.loss, self.beyond = NormalEquations(objective), objective.loss, None
        self.known_gram = gram
        self.n_left = MOST_OF_PIECEWISE if self.loss.is_piecewise else np.inf
        self.secant_share = 1.0
        zeros = np.zeros(objective.matrix.n_weights)
        self._move_to(zeros, np.zeros(len(self.system.targets)))
        if w is not None:
            predictions = self.system.products(w)
            if self.system.primal(w, predictions) <= self.primal:
                self._move_to(np.array(w), predictions)

    def _move_to(self, w, predictions):
        system = self.system
        self.w, self.predictions = w, predictions
        self.primal = system.primal(w, predictions)
        self.slopes = self.loss.derivatives(predictions, system.targets)
        self.gradient = system.penalty * w + system.combine(self.slopes)
        self.gap = system.distance(self.gradient)

    def iterate(self):
        """Take a step; return False if none is possible."""
        if self.n_left == 0:
            return False
        self.n_left -= 1
        system = self.system
        if self.known_gram is None:
            gram = system.gram(self._curvatures())
        else:
            gram = self.known_gram.copy()
        factor = system.factor(gram)
        return self._search(-cho_solve(factor, self.gradient))

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

    def _search(self, direction):
        """Take a step in a direction; return False if none is possible."""
        system = self.system
        change = system.products(direction)
        promise = float(np.add.reduce(self.gradient * direction))
        step, self.beyond = 1.0, None
        for _ in range(MOST_HALVINGS):
            w, predictions = self.w + step * direction, self.predictions + step * change
            if system.primal(w, predictions) <= self.primal + DECREASE * step * promise:
                self._move_to(w, predictions)
                grown = self.secant_share * (SECANT if step == 1.0 else 1 / SECANT)
                self.secant_share = min(grown, 1.0)
                return True
            if self.beyond is None:
                self.beyond = predictions
            step /= 2
        return False

    def candidates(self):
        """Return functions of the present state that give what a certificate may take."""
        return [partial(self.system.all_duals, -self.slopes)]
