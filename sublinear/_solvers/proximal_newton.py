"""A proximal Newton method for rows that come block by block.

Papers: Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm in
convex programming" (1976); Yin and Li, "A semismooth Newton method for support vector
classification and regression" (2019).

Objective: that of sublinear._core.objective. Of losses with kinks only the duals a are kept of
every example, and the losses are made smooth around them (sublinear._core.envelope):

    for width = width_0, width_0 / 5, ..:
        w <- argmin of alpha / 2 |w|^2 + sum_i s_i / W envelope_i(<x_i, w>)     by Newton's method
        a_i <- minus the derivative of envelope_i

These a maximise the dual value minus the mean of width (a - before)^2 / 2, so they tend to the best
ones, the faster the smaller the width. Losses without kinks are minimised as they are.

A pass evaluates the objective's gradient and Hessian at the end of a step, and its values along the
step. If another length is far better, the next pass evaluates there. So an iteration takes one pass
or two. Where a Hessian says nothing, beyond all kinks, iteratively re-weighted least squares comes
in between.

Cost per pass: two products, a sum and the squares of the lengths of rows, n_weights^3 / 6.
"""

import numpy as np
from scipy.linalg import LinAlgError

from sublinear._core.envelope import Envelope
from sublinear._core.gram import solution, upper_factor, weighted_gram
from sublinear._core.normal_equations import NormalEquations
from sublinear._core.objective import BALANCED
from sublinear._core.states import refusal, restore, saved

SHRINK = 0.2  # of widths
NARROW = 0.03  # of how far predictions are off: no first width is less
SOLVED = 2.0  # times what the envelopes leave of the gap: all of it, where an inner problem ends
GOOD = 0.5  # of what the best length gains: then a step stays as it is
GROWTH = 4.0  # of a step's length from one to the next, at most
SHORT, SHORTEST = 1 / 8, 1e-4  # steps after which rows are re-weighted: without kinks, with them
ROUNDING = 1e-15  # of the objective: no gain
LEAST_SHRINKAGE = 1e-12  # from the first width to the last
FAR = 1e3  # times the length of weights: products with what led to them have lost digits
LENGTHS = np.array([0, 4, 2, 1, 1 / 2, 1 / 4, 1 / 8, *(4.0 ** -np.arange(2, 16))])
WIDTHS = "first_width", "width", "width_before"
FLAGS = "is_reweighted", "moves_centres", "is_resting"
STATE = "w", "tol", *WIDTHS, "length", *FLAGS, "primal", "gap"


class ProximalNewton:
    """One problem's part.

    Parameters
    ----------
    loss : Loss
    penalty : ndarray of shape (n_weights,), float64
        alpha, less for the weight of an intercept, 0 without penalty.
    w : ndarray of shape (n_weights,), float64
        Where to start.
    width : float
        The first one, for losses with kinks: about as far as predictions are from their targets.
        The first pass widens it where it is far less, as a mean loss is that few rows make.
    tol : float
        The relative gap that is wanted.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    sums : ndarray of shape (n_sums,), float64
        Over the rows that the pass has visited. Those of parts of the rows may be added up.
    primal, gap : float
        At w, and of the duals that the present derivatives are; estimates, as w is rounded yet.
    is_resting : bool
        Whether the gap is small enough, or no step is possible.
    is_measured : bool
        Whether primal and gap are those of just this w, as the last pass has evaluated it, and of
        the duals that its visits have returned.
    of_duals : ndarray of shape (n_weights,)
        Then, which takes a penalty on all weights: w of these duals, as `weights_of_dual` of
        Objective returns it.
    """

    # for sublinear._solvers.spaces: an iteration is a pass of a source
    n_passes, sweeps, factorises = 4, 100, True
    least_rows = 1024  # of a block, whose calls and Gram matrix cost as much as hundreds

    def __init__(self, loss, penalty, w, width, tol):
        self.loss, self.penalty, self.w, self.tol = loss, penalty, w, tol
        self.first_width = self.width = width if loss.n_kinks > 0 else 0.0
        self.width_before = self.width
        self.direction, self.length = None, 1.0
        self.is_reweighted = self.moves_centres = self.is_resting = False
        self.is_near = self.is_measured = False
        self.primal = self.gap = np.inf

    def begin(self):
        """Begin a pass."""
        self.is_near, self.is_measured = True, False
        n_weights = len(self.w)
        self.sums = np.zeros(len(LENGTHS) + 3 + n_weights + n_weights**2)

    def visit(self, objective, centres):
        """Go to a block: its Objective, whose total weight is that of all, and its duals.

        Returns the duals that belong to where it evaluates.
        """
        system, envelope = NormalEquations(objective), Envelope(self.loss, self.width)
        y, shares, rows = system.targets, system.shares, system.rows
        if len(rows) == 0:
            return np.zeros(len(centres))
        z = system.products(self.w)
        if self.moves_centres:
            centres[rows] = self._derived(system, z, centres)
        centre, values = centres[rows], np.zeros(len(LENGTHS))
        if self.direction is not None:
            change = system.products(self.direction)
            for k, length in enumerate(LENGTHS):
                values[k] = shares @ envelope.values(z + length * change, y, centre)
            z = z + self.length * change
        a = envelope.duals(z, y, centre)
        curvatures = envelope.curvatures(a, z, y)
        if self.is_reweighted:
            curvatures = np.maximum(curvatures, envelope.secants(a, z, y))
        losses = shares @ self.loss.values(z, y)
        missing = losses + shares @ (self.loss.conjugates(a, y) + a * z)
        gram = weighted_gram(system.matrix, rows, shares * curvatures)
        off = shares @ np.minimum(np.abs(z - y), np.abs(y))  # or as far as zeros would be
        parts = values, (losses, missing, off), system.combine(a), gram.ravel()
        for total, part in zip(self._split(), parts, strict=True):
            total += part
        return system.all_duals(a)

    def _split(self):
        """Return views of the sums.

        Values along the step; losses, what is missing, how far predictions are off; pull; Gram
        matrix.
        """
        stops = np.cumsum([len(LENGTHS), 3, len(self.w)])
        return np.split(self.sums, stops)

    def _derived(self, system, z, centres):
        """Return what the derivatives at z make of the centres of the rows that have weight."""
        envelope = Envelope(self.loss, self.width_before)
        return envelope.duals(z, system.targets, centres[system.rows])

    def duals(self, objective, centres):
        """Return the duals of a block's rows that belong to w."""
        system = NormalEquations(objective)
        if len(system.rows) == 0:
            return np.zeros(len(centres))
        return system.all_duals(self._derived(system, system.products(self.w), centres))

    def go_on(self):
        """Go on from where the method rests: the gap was not small enough."""
        self.tol, self.is_resting = SHRINK * self.tol, False
        self._stand()

    def _stand(self):
        self.direction, self.length = None, 1.0

    def end(self):
        """End a pass: take the step, or another length of it, and find the next direction."""
        values, (losses, missing, off), pull, gram = self._split()
        self.width_before, self.moves_centres = self.width, False
        if self.direction is not None and not self._is_at_end_of_step(values):
            return
        is_first = np.isinf(self.primal)
        self.primal = float(self.penalty @ self.w**2 / 2 + losses)
        if is_first and self._is_widened(NARROW * off):
            return
        gradient, gram = self.penalty * self.w - pull, gram.reshape(len(pull), len(pull))
        self.gap = self._gap(missing, gradient, gram.diagonal())
        self.is_measured = self.is_near and self.penalty[-1] >= BALANCED * self.penalty[0]
        if self.is_measured:
            self.of_duals = pull / self.penalty[0]
        if self.gap <= self.tol * self.primal:
            self.is_resting = True
        elif self._aim(gradient, gram) and self.width > 0 and self.gap <= SOLVED * missing:
            self._narrow()

    def _is_widened(self, least):
        """Widen the first width where it is less; tell whether that was so."""
        if not 0 < self.width < least:
            return False
        self.first_width = self.width = least
        return True

    def _gap(self, missing, gradient, curvatures):
        # an intercept without penalty has no gap to go by, but what a step of it would gain
        curvatures = np.where(self.penalty > 0, self.penalty, curvatures)
        gains = gradient[gradient != 0] ** 2 / (2 * curvatures[gradient != 0])
        return float(missing + gains.sum())

    def _aim(self, gradient, gram):
        """Find the next direction, `gram` is written to; tell whether there is one."""
        if not (np.isfinite(gram).all() and np.isfinite(gradient).all()):
            self.is_resting = True
            return False
        gram.flat[:: len(gram) + 1] += self.penalty  # the diagonal
        try:
            self.direction = -solution(upper_factor(gram), gradient)
        except LinAlgError:
            self._give_up()
            return False
        return True

    def _is_at_end_of_step(self, values):
        """Go along the direction; tell whether that leads to where the pass has evaluated."""
        w, direction = self.w, self.direction
        ends = w + LENGTHS[:, np.newaxis] * direction
        values = values + ends**2 @ self.penalty / 2
        gains = np.nan_to_num(values[0] - values, nan=-np.inf)
        best, evaluated = np.argmax(gains), np.flatnonzero(self.length == LENGTHS)[0]
        self._stand()
        if gains[best] <= ROUNDING * abs(values[0]):
            self._give_up()
            return False
        chosen = evaluated if gains[evaluated] >= GOOD * gains[best] else best
        self.w, self.length = ends[chosen], min(1.0, GROWTH * LENGTHS[chosen])
        self.is_near = np.abs(w).max() <= FAR * np.abs(self.w).max()
        self.is_reweighted = bool(LENGTHS[chosen] < (SHORTEST if self.width > 0 else SHORT))
        return chosen == evaluated

    def _give_up(self):
        """Go on where no step along the direction is better."""
        if not self.is_reweighted:
            self.is_reweighted = True
        elif self.width > LEAST_SHRINKAGE * self.first_width:
            self._narrow()
        else:
            self.is_resting = True

    def _narrow(self):
        """Let the next pass begin with the present derivatives as centres, and a smaller width."""
        self.moves_centres, self.width_before = True, self.width
        self.width *= SHRINK
        self.is_reweighted = False
        self._stand()

    def state(self):
        """Return what `set_state` needs to go on between two passes, a flat dict."""
        return saved(self, self._names())

    def set_state(self, state):
        """Go on from a `state()`."""
        self.direction = np.zeros_like(self.w) if "direction" in state else None
        restore(self, self._names(), state)
        if self.length not in LENGTHS:
            raise refusal(state, "length", f"is none of a step: {self.length}")

    def _names(self):
        return STATE if self.direction is None else (*STATE, "direction")


def expected_passes(loss, rows_per_weight):
    """Return how many passes over a source are to be expected."""
    if loss.quadratic:
        return 2
    return min(40, 10 + 1000 / rows_per_weight) if loss.n_kinks > 0 else 10
