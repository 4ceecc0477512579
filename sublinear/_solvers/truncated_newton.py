"""Newton's method whose equations conjugate gradients solve, only as far as that pays.

Papers: Dembo and Steihaug, "Truncated-Newton algorithms for large-scale unconstrained optimization"
(1983); Lin, Weng and Keerthi, "Trust region Newton method for large-scale logistic regression"
(2008), with a line search instead of the region.

Objective: that of sublinear._core.objective, with the curvatures of sublinear._core.newton_steps.
No matrix is formed: the equations of sublinear._core.normal_equations are solved by products with
the rows, preconditioned by their diagonal. An intercept that is not penalised is eliminated: it
follows the other weights.

Departure: rows keep a part of the curvature that they had in the equations before, and take on what
they have where a step that was too long would have ended. Else rows that pull only there are left
out of the next equations, which lead there again: where some rows are long, steps become tiny.

Cost per iteration: two products with every row that pulls, which is read once; counted as if all
rows did. A step at the end of some iterations takes another one, of three passes over the rows.
"""

import numpy as np

from sublinear._core.inner import inner
from sublinear._core.newton_steps import NewtonSteps

FORCING = 0.5  # of the gradient, in the norm of CG, that equations leave but for the last ones
ENOUGH = 0.5  # of the gap that is wanted, that the last ones leave
MOST_INNER = 100  # iterations between two steps
MOST_ROUNDED = 1000  # the same for least squares, which rounding alone keeps from one step
PASSES_OF_STEP = 3
KEPT = 0.5  # of a row's curvature, from one step to the next, down to a part of the largest one
LEAST_KEPT = 1e-3
MORE = 2


class TruncatedNewton(NewtonSteps):
    """Newton's method by iterations of which each is one of conjugate gradients, or a step.

    Class attributes are explained by sublinear._solvers.finisher; `n_passes` is that of the next
    iteration.

    Parameters
    ----------
    objective : Objective
    w : ndarray of shape (n_weights,), float64, default=None
        Where to start, if that is better than zeros.
    tol : float, default=0
        The relative gap that is wanted.
    """

    n_passes, sweeps = 1, 4
    most_idle, takes_start, factorises = np.inf, True, False

    @staticmethod
    def n_expected(loss):
        """As the finisher asks; most are of conjugate gradients."""
        return 50

    def __init__(self, objective, w=None, tol=0.0):
        self.curvatures, self.gained = np.zeros(1), 0.0
        self.forcing, self.most_inner = FORCING, MOST_INNER
        if objective.loss.quadratic:
            self.forcing, self.most_inner = 0.0, MOST_ROUNDED
        self.ascends = objective.loss.is_piecewise
        super().__init__(objective, w, tol)
        self._begin_equations()

    def _pull(self):
        """As in NewtonSteps; the next equations begin in the same pass."""
        system = self.system
        curvatures = self._curvatures()
        keeps = self.loss.is_piecewise or self.beyond is not None
        kept = keeps * KEPT * self.curvatures
        kept[kept < LEAST_KEPT * kept.max(initial=0.0)] = 0.0
        self.curvatures = np.maximum(curvatures, kept)
        if self.beyond is not None:
            at_end = self.loss.second_derivatives(self.beyond, system.targets)
            self.curvatures = np.maximum(self.curvatures, at_end)
        self.keeps = keeps
        pull, squares = system.moments(self.slopes, self.curvatures)
        self.diagonal = system.penalty + squares
        return pull

    def _begin_equations(self):
        system = self.system
        self.curved = system.curved(self.curvatures)
        if system.objective.free_intercept:
            self.column = system.combine(self.curvatures)
        self.direction, self.conjugate = np.zeros_like(self.w), np.zeros_like(self.w)
        self.residual = -self._without_intercept(self.gradient)
        self._measure()
        self.square_at_start, self.square_before = self.square, np.inf
        self.promised, self.n_inner, self.n_passes = self.primal, 0, 1
        self.n_coarse = 0

    def _is_enough(self):
        """Tell whether the equations are solved well enough."""
        enough = ENOUGH * self.tol * self.promised
        if self.left <= enough:
            return True
        if self.square > self.forcing**2 * self.square_at_start:
            return False
        if self.n_coarse == 0:
            self.n_coarse = self.n_inner
        gain = self.primal - self.promised
        is_near = self.mismatch * gain**2 <= enough * self.gained**2
        return not is_near or self.n_inner >= MORE * self.n_coarse + 4

    def _measure(self):
        """Note the residual in the norm of the preconditioner, and the gap that it would leave."""
        self.scaled = self.residual / self.diagonal
        self.square = inner(self.residual, self.scaled)
        self.left = self.system.distance(self.residual)

    def _without_intercept(self, side):
        """Return a side of the equations with the intercept eliminated."""
        if not self.system.objective.free_intercept:
            return side
        rest = side - side[-1] / self.column[-1] * self.column
        rest[-1] = 0.0
        return rest

    def iterate(self):
        """Improve the direction or take the step; return False if neither is possible."""
        if self.n_passes == PASSES_OF_STEP:
            return self._step()
        if not self._improve():
            return False
        if self._is_enough() or self.n_inner == self.most_inner:
            self.n_passes = PASSES_OF_STEP
        return True

    @property
    def outlook(self):
        """The gap and the primal value after the step, where it is known what it leads to."""
        return (self.left, self.promised) if self.loss.quadratic else (self.gap, self.primal)

    def hurry(self):
        """Let the next iteration be the step; return False if no direction is there yet."""
        self.n_passes = PASSES_OF_STEP if self.n_inner else 1
        return self.n_inner > 0

    def _improve(self):
        """Take an iteration of conjugate gradients; return False if none is possible."""
        self.conjugate = self.scaled + self.square / self.square_before * self.conjugate
        product = self.system.product(*self.curved, self.conjugate)
        product = self._without_intercept(product)
        curvature = inner(self.conjugate, product)
        if not curvature > 0:  # the gradient is 0, or the intercept has none
            return False
        size = self.square / curvature
        self.direction += size * self.conjugate
        self.residual -= size * product
        self.promised -= size * self.square / 2
        self.n_inner += 1
        self.square_before = self.square
        self._measure()
        return True

    def _step(self):
        direction, system, keeps, curvatures = self.direction, self.system, self.keeps, self.curvatures
        if system.objective.free_intercept:
            constant = system.matrix.constant
            pull = self.gradient[-1] / constant + inner(self.column, direction)
            direction[-1] = -pull / self.column[-1]
        self.gained = self.primal - self.promised
        goes_on = self._search(direction, None if keeps or self.loss.quadratic else curvatures)
        if goes_on:
            self._begin_equations()
        return goes_on
