"""Least squares by its equations, which are the same everywhere.

Objective: that of sublinear._core.objective with the squared loss, whose gradient vanishes where

    (alpha I + sum_i s_i / W x_i x_i') w = sum_i s_i / W y_i x_i

One reading of the rows finds both sides, which hold for any alpha, and the first step leads from
zeros to the solution. Others make up for what rounding has left of the gradient (iterative
refinement), and their equations give duals that are less rounded than the slopes. Where an
intercept is not penalised, duals are moved by what their mean lacks: all numbers are feasible.

Cost: the squares of the lengths of rows, and n_weights^3 / 6, once; two passes over the rows per
iteration.
"""

import numpy as np

from sublinear._core.evaluation import Evaluation
from sublinear._core.gram import solution
from sublinear._core.newton_steps import NewtonSteps


class LeastSquares(NewtonSteps):
    """Steps of the equations of least squares.

    Class attributes are explained by sublinear._solvers.finisher.

    Parameters
    ----------
    objective : Objective
    tol : float, default=0.0
        The relative gap that is wanted.
    equations : tuple of ndarrays of shapes (n_weights, n_weights) and (n_weights,), default=None
        What `NormalEquations.of_least_squares` returns, if it is known.
    """

    n_passes_of_start, n_passes, sweeps = 1, 2, 4
    most_idle, takes_start, factorises = 8, False, True

    @staticmethod
    def n_expected(loss):
        """As the finisher asks."""
        return 1

    def __init__(self, objective, tol=0.0, equations=None):
        self.equations, self.factor = equations, None
        super().__init__(objective, tol=tol)

    def _at_zeros(self):
        system, loss = self.system, self.loss
        if self.equations is None:
            self.equations = system.of_least_squares()
        zeros, targets = np.zeros(len(system.rows)), system.targets
        w, primal, _ = system.objective.at_zeros()
        slopes, curvatures = loss.derivatives(zeros, targets), np.ones_like(zeros)
        pull = -self.equations[1]
        return primal, w, Evaluation(primal, zeros, None, slopes, curvatures, pull, None)

    def _move_to(self, primal, w, at, is_measured=True):
        super()._move_to(primal, w, at, is_measured)
        if self.system.objective.free_intercept:
            constant, sums = self.system.matrix.constant, self.equations[0][:, -1]
            mean = -self.gradient[-1] / constant  # of the duals that the slopes are
            self.gap = self.system.distance(self.gradient + mean / constant * sums) + mean**2 / 2
            self.is_measured = is_measured

    def iterate(self):
        """Take a step; return False if none is possible."""
        if self.factor is None:
            self.factor = self.system.factor(self.equations[0].copy())
        goes_on = self._search(-solution(self.factor, self.gradient), self.at.curvatures)
        self.is_measured &= not self.duals  # which do not balance
        return goes_on

    def _duals_of(self, slopes):
        duals = -slopes
        if self.system.objective.free_intercept:
            duals -= self.system.mean(duals)
        return self.system.all_duals(duals)
