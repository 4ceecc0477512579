"""Newton's method for kernel machines whose losses are quadratic by parts, with a line search.

Objective: that of sublinear._core.kernel_objective. The optimum has v_i = -c_i l'(z_i), with scores
z = K v + b. To first order, with h_i = c_i l''(z_i), examples without curvature go to that at once,
and the others solve

    (K + diag(1 / h_i)) change of v + change of b = right side,   sum v = b / shift

where the sum is 0 for an intercept without a penalty. The constant is no part of K, which it would
hide where it is large: two right sides take its place. Where the curvatures stay as they are, so
does the factor: steps then make up for what rounding has done to those before.

Cost per iteration: n^3 / 6 multiplications for n examples with curvature, three passes over the
kernel matrix.
"""

from functools import partial

import numpy as np

from sublinear._core.line_search import backtrack


class KernelNewton:
    """Newton's method in the coefficients of all examples.

    For the squared loss, the squared hinge and the Huber loss.

    Class attributes are explained by sublinear._solvers.finisher.

    Parameters
    ----------
    objective : KernelObjective
        Its margins must come from the square.
    square : KernelSquare
    coefficients : ndarray of shape (n_rows,), float64
        Where to start.

    Attributes
    ----------
    w : ndarray of shape (n_rows + 1,)
        Coefficients, which need not be duals, and last the intercept.
    gap, primal : float
        Between the primal and the dual value of the nearest duals.
    """

    n_passes, sweeps = 3, 8
    most_idle, takes_start, factorises, is_measured = 40, True, True, False

    @staticmethod
    def n_expected(loss):
        """As the finisher asks."""
        return 12

    def __init__(self, objective, square, coefficients):
        self.objective, self.square, self.loss = objective, square, objective.loss
        self.scales, self.targets = objective.scales_array, objective.targets_array
        self.has_intercept = objective.free_intercept or objective.shift > 0
        self.inverse_shift = 1 / objective.shift if objective.shift > 0 else 0.0
        self.curvatures, self.is_first = None, True  # those of the factor
        margins = square.product(coefficients)  # a free intercept is that of centred images
        if objective.free_intercept:
            intercept = objective.best_intercept(margins)
        else:
            intercept = objective.shift * np.sum(coefficients)
        self._move_to(*self._place(coefficients.copy(), margins, intercept))

    def _move_to(self, value, coefficients, margins, intercept):
        self.value, self.coefficients = value, coefficients
        self.margins, self.intercept = margins, intercept
        self.w = np.append(coefficients, intercept)
        self.slopes = self.scales * self.loss.derivatives(margins + intercept, self.targets)
        self._evaluate()

    def _evaluate(self):
        """Compute the gap: coefficients are duals themselves where curvatures stay as they are."""
        found = []
        for duals in (self.coefficients, -self.slopes):
            duals = duals.copy()
            _, primal, dual = self.objective.certificate_of(duals)
            found.append((dual, min(primal, self.value), duals))
        found.sort(key=lambda entry: -entry[0])
        dual, self.primal, _ = found[0]
        self.gap, self.duals = self.primal - dual, [duals for *_, duals in found]

    def _place(self, coefficients, margins, intercept):
        """Return the value there, and where that is."""
        losses = self.loss.values(margins + intercept, self.targets)
        penalty = np.add.reduce(coefficients * margins) + self.inverse_shift * intercept**2
        value = penalty / 2 + np.add.reduce(self.scales * losses)
        return value, coefficients, margins, intercept

    def iterate(self):
        """Take a step; return False if none is possible."""
        slopes, curvatures = self._expansion()
        curved = np.flatnonzero(curvatures)
        missing = -slopes - self.coefficients
        change = missing.copy()
        change[curved] = 0
        right = missing[curved] / curvatures[curved]
        right -= self.square.product(change)[curved]
        self.is_first = False
        self._factor(curved, curvatures)
        change[curved], constant = self._solved(right, np.sum(self.coefficients + change))
        return self._search(change, constant)

    def _expansion(self):
        """Return the slopes and curvatures that a step goes by.

        At first those of least squares where the loss has straight ends, whose slopes tell nothing
        of how far to go: with large C most examples end up between them.
        """
        scores = self.margins + self.intercept
        if self.is_first and np.isfinite(self.loss.dual_form().bound):
            return self.scales * (scores - self.targets), self.scales
        curvatures = self.loss.second_derivatives(scores, self.targets)
        return self.slopes, self.scales * curvatures

    def _factor(self, curved, curvatures):
        if self.curvatures is None or not np.array_equal(curvatures, self.curvatures):
            self.curvatures = None
            self.square.factor(curved, 1 / curvatures[curved])
            self.curvatures = curvatures

    def _solved(self, right, total):
        """Return the changes of coefficients and of the intercept; total: the sum of the others."""
        if not self.has_intercept:
            return self.square.solve(right), 0.0
        own, of_constant = self.square.solve(np.column_stack([right, np.ones_like(right)])).T
        missing = total + np.sum(own) - self.inverse_shift * self.intercept
        weight = np.sum(of_constant) + self.inverse_shift
        constant = missing / weight if weight > 0 else 0.0
        return own - constant * of_constant, constant

    def _search(self, change, constant):
        """Take a step in a direction; return False if none is possible."""
        margins = self.square.product(change)
        slope = np.add.reduce(change * self.margins + self.slopes * (margins + constant))
        slope += self.inverse_shift * self.intercept * constant

        def reach(step):
            return self._place(
                self.coefficients + step * change,
                self.margins + step * margins,
                self.intercept + step * constant,
            )

        _, place = backtrack(reach, self.value, slope)
        if place is None:
            return False
        self._move_to(*place)
        return True

    def candidates(self):
        """Return functions of the present state that give what a certificate may take."""
        weights = np.where(self.scales > 0, self.scales, 1)
        return [partial(np.divide, duals, weights) for duals in self.duals]
