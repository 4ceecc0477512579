"""The equations of methods of second order: for the change of w, all duals with it.

    (alpha I + sum_i s_i / W h_i x_i x_i') change of w = right side,     h_i = -da_i / dz_i

h_i tells how far the dual of an example follows its prediction z_i.
"""

import numpy as np
from scipy.linalg import lstsq

from sublinear._core.evaluation import evaluate
from sublinear._core.gram import dense_rows, upper_factor, weighted_gram, weighted_sum

MOST_WORK = 2**28  # of a least squares problem that adjusts duals: some tens of milliseconds
MOST_ROWS = 4  # times n_weights: near the optimum hardly more duals are inside their intervals


class NormalEquations:
    """The rows that have weight, and the equations for the change of w.

    Parameters
    ----------
    objective : Objective
    """

    def __init__(self, objective):
        self.objective, self.matrix = objective, objective.matrix
        weights = objective.weights_array
        if weights is None:
            self.rows = np.arange(self.matrix.n_rows, dtype=np.uint32)
            self.shares = np.full(len(self.rows), 1 / objective.total_weight)
        else:
            self.rows = np.flatnonzero(weights).astype(np.uint32)
            self.shares = weights[self.rows] / objective.total_weight
        self.targets = np.asarray(objective.targets_array)[self.rows]
        self.penalty = np.full(self.matrix.n_weights, objective.alpha)
        if objective.has_multiplier:
            self.penalty[-1] *= objective.intercept_penalty

    def products(self, w):
        """Return <x_i, w>."""
        return self.matrix.row_dots(w, self.rows)

    def combine(self, factors):
        """Return sum_i s_i / W factors_i x_i."""
        return weighted_sum(self.matrix, self.rows, self.shares * factors)

    def curved(self, slopes):
        """Return the rows whose h_i is not 0, and s_i / W h_i: no others are in the equations."""
        if slopes.all():
            return self.rows, self.shares * slopes
        places = np.flatnonzero(slopes)
        return self.rows[places], (self.shares * slopes)[places]

    def evaluate(self, **place):
        """Return the Evaluation of these rows; what tells the place is explained there."""
        loss = self.objective.loss
        return evaluate(self.matrix, loss, self.rows, self.targets, self.shares, **place)

    def product(self, rows, factors, direction):
        """Return the matrix of the equations times a direction, by `curved`."""
        total = self.penalty * direction
        self.matrix.add_gram_product(direction, factors, rows, total)
        return total

    def gram(self, slopes):
        """Return the matrix of the equations but for the penalty."""
        return weighted_gram(self.matrix, *self.curved(slopes))

    def of_least_squares(self):
        """Return matrix and right side of least squares, but for the penalty; reads rows once."""
        whole = weighted_gram(self.matrix, self.rows, self.shares, self.targets)
        return whole[:-1, :-1], whole[:-1, -1]

    def factor(self, gram):
        """Factor the matrix of the equations, from a `gram` that is written to.

        Raises LinAlgError as `upper_factor`, whose factor it is.
        """
        gram.flat[:: len(gram) + 1] += self.penalty  # the diagonal
        return upper_factor(gram)

    def adjusted(self, duals, w, chosen):
        """Return duals of which those of the chosen rows differ by as little as gives w(a) = w.

        Parameters
        ----------
        duals : ndarray of shape (n,), float64
            Of the rows that have weight.
        w : ndarray of shape (n_weights,), float64
        chosen : ndarray of shape (n,), bool
            Where they are too many, the duals come back as they are.
        """
        count, width = np.count_nonzero(chosen), self.matrix.n_weights
        is_much = count > MOST_ROWS * width or count * width * min(count, width) > MOST_WORK
        if is_much or count == 0:
            return duals
        shares = self.shares[chosen]
        rows = dense_rows(self.matrix, self.rows[chosen])
        rows *= shares[:, np.newaxis]
        missing = self.penalty * w - self.combine(duals)
        changed = duals.copy()
        changed[chosen] += lstsq(rows.T, missing, lapack_driver="gelsy", check_finite=False)[0]
        return changed

    def distance(self, residual):
        """Return the penalty of w - w(a), of its products with the penalties of its weights."""
        objective = self.objective
        if not objective.has_multiplier:
            return float(np.add.reduce(residual**2)) / (2 * objective.alpha)
        square = float(np.add.reduce(residual[:-1] ** 2))
        if not objective.free_intercept:
            square += residual[-1] ** 2 / objective.intercept_penalty
        return square / (2 * objective.alpha)

    def mean(self, values):
        """Return sum_i s_i / W values_i."""
        return float(np.add.reduce(self.shares * values))

    def all_duals(self, duals):
        """Return the duals of all rows: those without weight are 0."""
        if len(duals) == self.matrix.n_rows:
            return duals.copy()
        everywhere = np.zeros(self.matrix.n_rows)
        everywhere[self.rows] = duals
        return everywhere
