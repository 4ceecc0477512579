"""A solver that begins with dual coordinate ascent and goes over to a method of second order.

It does so once ascent has taken as long as that method would. So a fit takes at most about twice
the time of the better of the two, whichever that is. The equations of the method are solved for the
weights or, where the rows are fewer, for weights in the span of the rows, so that one of these
numbers has to be small.
"""

import math

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import row_products, upper_factor
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective

LARGEST = 2048  # system: 32 MB a matrix
PATIENCE = 16  # times the work so far, where max_iter would end the fit otherwise
MOST_IDLE = 8  # iterations without a better gap
# Times, measured on one thread, in that of a feature value in a step of coordinate ascent
OUTER = 1 / 8  # of an entry of x x'
DENSE_OUTER = 1 / 64  # of one that a BLAS computes
FACTOR = 1 / 96  # of n^3, for a system of n equations
PASS = 1 / 4  # of a value in a pass over rows in their order
OVERHEAD = 2**16  # of the Python calls of an iteration


def is_small(matrix):
    """Tell whether a method of second order can solve its equations for this matrix."""
    return min(matrix.n_rows, matrix.n_weights) <= LARGEST


class Columns:
    """The problem as it is.

    Parameters
    ----------
    objective : Objective
    """

    def __init__(self, objective):
        self.objective = objective

    @staticmethod
    def costs(matrix, method):
        """Return the times of an iteration and of the start, in the unit of those above."""
        n_rows, width, n_stored = matrix.n_rows, matrix.n_weights, matrix.n_stored
        if matrix.is_sparse:
            outer = OUTER * n_stored * n_stored / n_rows
        else:
            outer = DENSE_OUTER * n_rows * width**2
        passes = method.n_passes * PASS * n_stored + method.sweeps * n_rows
        return outer + FACTOR * width**3 + passes + OVERHEAD, 0.0

    @staticmethod
    def passes(method):
        """Return how many passes over the rows an iteration takes."""
        return method.n_passes

    def coordinates(self, w):
        """Return those of w, None if they are not known."""
        return w

    def weights(self, coordinates):
        """Return the weights w that have these coordinates."""
        return coordinates


class RowSpan:
    """The problem in the span of few rows, where the best weights lie.

    With X X' = L L' the rows of L have the products of those of X with each other, and are as short
    as they are few: the duals of both problems are the same.

    Parameters, methods
    -------------------
    As of Columns.
    """

    def __init__(self, objective):
        matrix, free = objective.matrix, objective.free_intercept
        self.matrix, self.free_intercept = matrix, free
        products = row_products(matrix)
        if not free:
            products += matrix.constant**2
        self.factor = upper_factor(products)
        self.objective = Objective(
            Matrix(np.ascontiguousarray(self.factor.T), matrix.constant if free else 0.0),
            objective.targets_array,
            objective.loss,
            objective.alpha,
            objective.weights_array,
            objective.n_threads,
            free,
        )

    @staticmethod
    def costs(matrix, method):
        n_rows, n_stored = matrix.n_rows, matrix.n_stored
        products = n_rows * n_stored * (OUTER if matrix.is_sparse else DENSE_OUTER)
        system = (DENSE_OUTER + FACTOR) * n_rows**3 + method.sweeps * n_rows
        return system + OVERHEAD, products + PASS * n_stored

    @staticmethod
    def passes(method):
        return 0

    def coordinates(self, w):
        return None

    def weights(self, coordinates):
        n_rows = self.matrix.n_rows
        factors = solve_triangular(self.factor, coordinates[:n_rows])
        w = np.zeros(self.matrix.n_weights)
        self.matrix.add_rows(factors, np.arange(n_rows, dtype=np.uint32), w)
        if self.free_intercept:
            w[-1] = coordinates[-1]
        return w


class Finisher:
    """Dual coordinate ascent, then a method of second order if that is worth its cost by then.

    The interface is that of `_drive`, and of the solver that begins.

    Parameters
    ----------
    first : SDCA
    method : type
        Of second order; InteriorPoint says what it has to offer.
    tol : float
        The relative gap that is wanted.
    max_iter : int
        Passes and iterations after which the fit ends: the last ones are kept for the method of
        second order, if need be.
    at_once : bool, default=False
        Go over after the first pass, not when as much work has been done as is to be expected.

    Attributes
    ----------
    n_iter : int
        Passes, and iterations of the method of second order.
    """

    keeps_best = True
    diverged = False

    def __init__(self, first, method, tol, max_iter, at_once=False):
        self.first, self.objective = first, first.objective
        self.tol, self.at_once = tol, at_once
        loss, matrix = self.objective.loss, self.objective.matrix
        self.method = method
        self.space = RowSpan if matrix.n_rows < matrix.n_weights else Columns
        self.cost, cost_of_start = self.space.costs(matrix, self.method)
        n_expected = 1 if loss.quadratic else self.method.n_expected
        self.due = n_expected * self.cost + cost_of_start
        self.spare = 2 * self.method.n_expected
        self.last_start = max_iter - self.spare
        self._start_counts()

    def _start_counts(self):
        self.second = None
        self.is_over = False  # the method of second order, if it came to that
        self.n_iterations = self.n_read = self.n_idle = 0
        self.extra_work = 0.0

    @property
    def n_iter(self):
        return self.first.n_iter + self.n_iterations

    @property
    def accesses(self):
        """Feature values read."""
        return self.first.accesses + self.n_read

    @property
    def work(self):
        """As that of the first solver."""
        return self.first.work + self.extra_work

    @property
    def certificate_growth(self):
        return self.first.certificate_growth

    @property
    def estimated_gap(self):
        """The relative gap, estimated."""
        return self.first.estimated_gap if self.second is None else self.look()

    def look(self):
        """Return the relative gap: an estimate, or that of the method of second order."""
        if self.second is None:
            return self.first.look()
        return self.second.gap / max(self.second.primal, 1e-300)

    def advance(self, limit):
        """Go on to the end of a pass or an iteration, then return True, or to the limit."""
        if self.second is not None:
            return self._read(self.space.passes(self.method), limit) and self._iterate()
        if self._is_due():
            return self._read(2, limit) and self._begin()
        return self.first.advance(limit - self.n_read)

    def _is_due(self):
        """Tell whether to go over to the method of second order."""
        first, n_passes = self.first, self.first.n_iter
        if self.is_over or n_passes == 0:
            return False
        n_visited = first.work - first.accesses  # about
        spent = first.work + self.method.step * n_visited
        if self.at_once or spent >= self.due:
            return True
        is_last = n_passes >= max(self.last_start, self.spare)
        return is_last and PATIENCE * spent >= self.due and first.look() > self.tol

    def _read(self, n_passes, limit):
        """Count passes over the rows unless they would exceed the limit."""
        n_read = n_passes * self.objective.matrix.n_stored
        fits = self.accesses + n_read <= limit
        if fits:
            self.n_read += n_read
            self.extra_work += self.cost
        return fits

    def _begin(self):
        with np.errstate(all="ignore"), one_blas_thread():
            self.chosen = self.space(self.objective)
            if self.method.takes_start:
                start = self.chosen.coordinates(self.first.model())
                self.second = self.method(self.chosen.objective, start)
            else:
                self.second = self.method(self.chosen.objective)
        self.best_gap = math.inf
        return False

    def _iterate(self):
        self.n_iterations += 1
        self.n_idle += 1
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                goes_on = self.second.iterate()
            except (LinAlgError, ValueError):  # a matrix that is singular, or not finite
                goes_on = False
        if self.second.gap < self.best_gap:
            self.best_gap, self.n_idle = self.second.gap, 0
        if not goes_on or self.n_idle >= MOST_IDLE:
            self.is_over = True
            if self.look() < self.first.look():
                self._hand_over()
            self.second = None
        return True

    def _hand_over(self):
        """Give the duals of the method of second order to the first solver."""
        if self.second is not None:
            constant = self.objective.matrix.constant
            self.first.adopt(self.second.duals(), self.model()[-1] * constant)
            self.second = None

    def certify(self, rounded):
        """Return the model with its certificate (`_drive`)."""
        if self.second is None:
            return self.first.certify(rounded)
        model = rounded(self.model())
        primals, dual = self.objective.certificate_of(self.second.duals(), [model])
        return model, primals[0], dual

    def model(self):
        """Return the weights."""
        if self.second is None:
            return self.first.model()
        return self.chosen.weights(self.second.w)

    def duals(self):
        """Return the duals of a certificate as an array of its own (float64)."""
        self._hand_over()
        return self.first.duals()

    def release_duals(self):
        """Return the duals that a certificate takes, and end the solver's life."""
        self._hand_over()
        return self.first.release_duals()

    @property
    def intercept(self):
        """That of `model`, once `duals` are asked for."""
        return self.first.intercept

    def restart(self, alpha):
        """Go on from the present duals with another alpha; counts start at 0 again."""
        self._hand_over()
        self.first.restart(alpha)
        self._start_counts()

    def shrink(self):
        """Bring duals that come from elsewhere near enough to 0 to be no worse than zeros."""
        self.first.shrink()
