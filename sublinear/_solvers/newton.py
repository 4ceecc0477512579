"""Newton's method for a loss with slopes that have no jumps, with a line search.

Paper: Mangasarian, "A finite Newton method for classification" (2002), where curvatures jump.

Objective: that of sublinear._core.objective, with the curvatures of sublinear._core.newton_steps.

Departure: where dense rows are many times as many as weights, and curvatures do not jump, the
matrix of the equations is that of some rows, scaled up, as in Roosta-Khorasani and Mahoney,
"Sub-sampled Newton methods" (2019). Its error makes the gap shrink by a factor where the exact
matrix would make it shrink faster still, but steps take so much less time that more of them pay.
Gradients and gaps are those of all rows. Where a step has to be shortened, or the gap does not
shrink as it should, the next matrix is that of all rows, as all later ones; so it is where one step
is likely to be enough, as the equations of a sample give no duals.

Cost per iteration: three passes over the rows, the squares of their lengths, n_weights^3 / 6.
"""

import math

import numpy as np

from sublinear._core.gram import solution, weighted_gram
from sublinear._core.newton_steps import NewtonSteps
from sublinear._core.pace import relative_gap

ROWS_OF_SAMPLE = 40  # for every weight: errors of a sixth, by which the gap shrinks in square
LEAST_SHARE = 1 / 8  # of the rows: passes over all of them take longer than its products
MOST_SHARE = 1 / 2  # else all: their equations give duals as well
SHRINKS = 1 / 4  # the gap, by a step of a sample, or it has seen too little
LACK = 1 / 10  # of what a step of a sample has gained, that it leaves
BEND = 4  # times the square of what the primal value lacks: the gap after an exact step, relative
SEED = 0  # of samples, which do not depend on a random_state
MOST_OF_PIECEWISE = 18  # iterations, which creep where curvatures jump and a plane parts classes


def sampled_share(n_rows, n_weights):
    """Return the share of the rows whose products are enough for the equations."""
    share = max(LEAST_SHARE, ROWS_OF_SAMPLE * n_weights / max(n_rows, 1))
    return share if share < MOST_SHARE else 1.0


def _may_sample(objective):
    """Tell whether steps of samples pay.

    Exact ones end soon where curvatures are constant by parts; sparse rows have rare columns, which
    a sample misses.
    """
    return objective.loss.dual_form() is None and not objective.matrix.is_sparse


def spread_sample(rows, factors, share):
    """Return a row from each of equal runs, and their factors, scaled to the sum of all factors.

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


class Newton(NewtonSteps):
    """Newton's method for losses whose slopes have no jumps.

    Class attributes are explained by sublinear._solvers.finisher.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64, default=None
        Where to start, if that is better than zeros.
    tol : float, default=0.0
        The relative gap that is wanted.
    """

    n_passes_of_start, n_passes, sweeps = 3, 3, 4
    most_idle, takes_start, factorises = 8, True, True

    @staticmethod
    def n_expected(loss):
        """As the finisher asks."""
        return 6

    def __init__(self, objective, w=None, tol=0.0):
        super().__init__(objective, w, tol)
        self.samples = _may_sample(objective)
        self.n_left = MOST_OF_PIECEWISE if self.loss.is_piecewise else np.inf

    def iterate(self):
        """Take a step; return False if none is possible."""
        if self.n_left == 0:
            return False
        self.n_left -= 1
        before, primal = self.gap, self.primal
        curvatures = self.at.curvatures
        gram, is_exact = self._gram(curvatures)
        direction = -solution(self.system.factor(gram), self.gradient)
        goes_on = self._search(direction, curvatures if is_exact else None)
        if self.samples:
            has_failed = self.beyond is not None or self.gap > SHRINKS * before
            self.samples = not (has_failed or self._is_near(primal - self.primal))
            return goes_on or has_failed
        return goes_on

    def _is_near(self, gain):
        """Tell, by what a step of a sample has gained, whether the next may be the last."""
        lack = relative_gap(self.primal, LACK * gain)
        return BEND * lack * lack <= self.tol

    def _gram(self, curvatures):
        """Return the matrix of the equations but for the penalty; whether it has all rows."""
        system = self.system
        rows, factors = system.curved(curvatures)
        share = sampled_share(len(rows), len(self.w)) if self.samples else 1.0
        rows, factors = spread_sample(rows, factors, share)
        return weighted_gram(system.matrix, rows, factors), share == 1
