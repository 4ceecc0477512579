"""Newton's method whose equations conjugate gradients solve, only as far as that pays.

Papers: Dembo and Steihaug, "Truncated-Newton algorithms for large-scale unconstrained optimization"
(1983); Lin, Weng and Keerthi, "Trust region Newton method for large-scale logistic regression"
(2008), with a line search instead of the region.

Objective: that of sublinear._core.objective, with the curvatures of sublinear._core.newton_steps.
No matrix is formed: the equations of sublinear._core.normal_equations are solved by products with
the rows, preconditioned by their diagonal. An intercept that is not penalised is eliminated: it
follows the other weights.

Departure: where curvatures jump, or a step was too long, rows keep a part of what they had in the
equations before, and take on what they have where such a step would have ended. Else rows that pull
only there are left out of the next equations, which lead there again: where some rows are long,
steps become tiny.

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
MORE_INNER = 2  # times those that are enough for a step, if it is likely to be the last one
PASSES_OF_STEP = 3  # products, the next gradient, and duals or an intercept's equation
KEPT = 0.5  # of a row's curvature, from one step to the next, down to a part of the largest one
LEAST_KEPT = 1e-3


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

    n_passes_of_start, n_passes, sweeps = 4, 1, 4
    most_idle, takes_start, factorises = np.inf, True, False

    @staticmethod
    def n_expected(loss):
        """As the finisher asks; most are of conjugate gradients."""
        return 50

    def __init__(self, objective, w=None, tol=0.0):
        loss = objective.loss
        self.ascends = loss.is_piecewise
        self.forcing, self.most_inner = FORCING, MOST_INNER
        if loss.quadratic:
            self.forcing, self.most_inner = 0.0, MOST_ROUNDED
        self.gained = 0.0
        super().__init__(objective, w, tol)
        self._begin_equations()

    def _evaluate(self, **place):
        """As all such methods; with curvatures that are kept, and the equations' diagonal."""
        kept = self._kept_curvatures()
        return super()._evaluate(wants_squares=True, least_curvatures=kept, **place)

    def _kept_curvatures(self):
        """Return those that rows keep, or None."""
        was_too_long = self.beyond is not None
        if self.at is None or not (was_too_long or self.loss.is_piecewise):
            return None
        kept = KEPT * self.at.curvatures
        kept[kept < LEAST_KEPT * kept.max(initial=0.0)] = 0.0
        if not was_too_long:
            return kept
        return np.maximum(kept, self.loss.second_derivatives(self.beyond, self.system.targets))

    def _begin_equations(self):
        system, curvatures = self.system, self.at.curvatures
        self.curved = system.curved(curvatures)
        self.diagonal = system.penalty + self.at.squares
        if system.objective.free_intercept:
            self.column = system.combine(curvatures)
        self.direction, self.conjugate = np.zeros_like(self.w), np.zeros_like(self.w)
        self.residual = -self._without_intercept(self.gradient)
        self._measure()
        self.square_at_start, self.square_before = self.square, np.inf
        self.promised, self.n_inner, self.n_passes = self.primal, 0, 1
        self.n_forced = 0  # iterations until the residual was small enough for a step

    def _is_enough(self):
        """Tell whether the equations are solved well enough.

        Where the step is likely to be the last one, that is for their duals.
        """
        enough = ENOUGH * self.tol * self.promised
        if self.left <= enough or self.n_inner == self.most_inner:
            return True
        if self.square > self.forcing**2 * self.square_at_start:
            return False
        self.n_forced = self.n_forced or self.n_inner
        # near the optimum a mismatch shrinks like the square of what a step gains
        gain = self.primal - self.promised
        is_last = self.mismatch * (gain * gain) <= enough * (self.gained * self.gained)
        return not is_last or self.n_inner > MORE_INNER * (self.n_forced + 1)

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
        if self._is_enough():
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
        direction, system = self.direction, self.system
        if system.objective.free_intercept:
            constant = system.matrix.constant
            pull = self.gradient[-1] / constant + inner(self.column, direction)
            direction[-1] = -pull / self.column[-1]
        self.gained = self.primal - self.promised
        are_exact = self.beyond is None and not self.loss.is_piecewise
        gives_duals = are_exact and not self.loss.quadratic
        goes_on = self._search(direction, self.at.curvatures if gives_duals else None)
        if goes_on:
            self._begin_equations()
        return goes_on
