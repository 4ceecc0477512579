"""Newton's method for a loss with slopes that have no jumps, with a line search.

Paper: Mangasarian, "A finite Newton method for classification" (2002), where curvatures jump.

Objective: that of sublinear._core.objective, by the equations of sublinear._core.normal_equations
with a_i = -l'(z_i) and h_i = l''(z_i).

Departure: where a loss is straight h_i is a share of l'(z_i) / (z_i - y_i), the curvature of the
parabola that touches the loss there and is least at the target: as in iteratively reweighted least
squares, whose steps always descend. The share falls with every full step, so that the last steps
are Newton's. Else a step to where few rows keep their curvature is far too long.

Departure: where dense rows are many times as many as weights, and curvatures do not jump, the
matrix of the equations is that of some rows, scaled up, as in Roosta-Khorasani and Mahoney,
"Sub-sampled Newton methods" (2019). Its error makes the gap shrink by a factor where the exact
matrix would make it shrink faster still, but steps take so much less time that more of them pay.
Gradients and gaps are those of all rows. Where a step has to be shortened, or the gap does not
shrink as it should, the next matrix is that of all rows, as all later ones.

Cost per iteration: three passes over the rows, the squares of their lengths, n_weights^3 / 6.
"""

import math
from functools import partial

import numpy as np
from scipy.linalg import cho_solve

from sublinear._core.gram import weighted_gram
from sublinear._core.inner import inner
from sublinear._core.line_search import backtrack
from sublinear._core.normal_equations import NormalEquations

SECANT = 1 / 4  # of the share of secants, after a full step; after a shorter one that grows again
ROWS_OF_SAMPLE = 40  # for every weight: errors of a sixth, by which the gap shrinks in square
LEAST_SHARE = 1 / 8  # of the rows: passes over all of them take longer than its products
SHRINKS = 1 / 4  # the gap, by a step of a sample, or it has seen too little
SEED = 0  # of samples, which do not depend on a random_state
MOST_OF_PIECEWISE = 18  # iterations, which creep where curvatures jump and a plane parts classes


def sampled_share(n_rows, n_weights):
    """Return the share of the rows whose products are enough for the equations."""
    return min(1.0, max(LEAST_SHARE, ROWS_OF_SAMPLE * n_weights / max(n_rows, 1)))


def _may_sample(objective):
    """Tell whether steps of samples pay.

    Exact ones end soon where curvatures are constant by parts; sparse rows have rare columns, which
    a sample misses.
    """
    return objective.loss.dual_form() is None and not objective.matrix.is_sparse


def spread_sample(rows, factors, share):
    """Return a share of the rows, one of each of so many equal parts; their factors, scaled up.

    Parameters
    ----------
    rows : ndarray of shape (n,)
    factors : ndarray of shape (n,), float64
    share : float
    """
    size = math.ceil(share * len(rows))
    if size == len(rows):
        return rows, factors
    places = (np.arange(size) + np.random.default_rng(SEED).random(size)) * (len(rows) / size)
    places = np.minimum(places.astype(np.intp), len(rows) - 1)
    sampled = factors[places]
    return rows[places], sampled * (np.add.reduce(factors) / np.add.reduce(sampled))


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
        self.samples = _may_sample(objective)
        self.n_left = MOST_OF_PIECEWISE if self.loss.is_piecewise else np.inf
        self.secant_share = 1.0
        start, predictions = np.zeros(objective.matrix.n_weights), np.zeros(len(self.system.rows))
        if w is not None:
            products = self.system.products(w)
            if self.system.primal(w, products) <= self.system.primal(start, predictions):
                start, predictions = np.array(w), products
        self._move_to(start, predictions)

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
        before = self.gap
        factor = self.system.factor(self._gram())
        goes_on = self._search(-cho_solve(factor, self.gradient))
        if self.samples and (self.beyond is not None or self.gap > SHRINKS * before):
            self.samples, goes_on = False, True
        return goes_on

    def _gram(self):
        """Return the matrix of the equations but for the penalty, to be written to."""
        if self.known_gram is not None:
            return self.known_gram.copy()
        system = self.system
        rows, factors = system.curved(self._curvatures())
        if self.samples:
            rows, factors = spread_sample(rows, factors, sampled_share(len(rows), len(self.w)))
        return weighted_gram(system.matrix, rows, factors)

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
        system, change = self.system, self.system.products(direction)

        def reached(step):
            return self.w + step * direction, self.predictions + step * change

        step = backtrack(
            lambda step: system.primal(*reached(step)),
            self.primal,
            inner(self.gradient, direction),
        )
        self.beyond = None if step == 1 else self.predictions + change
        if step is None:
            return False
        self._move_to(*reached(step))
        self.secant_share = min(1.0, self.secant_share * (SECANT if step == 1 else 1 / SECANT))
        return True

    def candidates(self):
        """Return functions of the present state that give what a certificate may take."""
        return [partial(self.system.all_duals, -self.slopes)]
