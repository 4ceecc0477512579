"""A solver that begins with dual coordinate ascent and goes over to a method of second order.

It does so once ascent has taken as long as that method would. So a fit takes at most about twice
the time of the better of the two, whichever that is; longer only where max_iter would end it soon
without the gap that is wanted. The equations of the method are solved for the
weights or, where the rows are fewer, for weights in the span of the rows, so that one of these
numbers has to be small.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import row_products, upper_factor
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective

LARGEST = 2048  # system: 32 MB a matrix
MUCH = 4  # cheaper: then the span of the rows is worth its rounding
PATIENCE = 16  # times the work so far, where max_iter would end the fit otherwise
PASSES_OF_START = 3  # at most
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


def space_for(matrix, method):
    """Return RowSpan where it is much cheaper: products of rows are rounded more than rows."""
    if matrix.n_weights > LARGEST:
        return RowSpan
    if matrix.n_rows > LARGEST:
        return Columns
    of_columns, of_span = (space.costs(matrix, method)[0] for space in (Columns, RowSpan))
    return RowSpan if of_columns > MUCH * of_span else Columns


@dataclass(frozen=True)
class Iterate:
    """Where a method of second order has been.

    Attributes
    ----------
    coordinates : ndarray
        Of the weights.
    gap, primal : float
    duals : list of ndarrays of shape (n_rows,)
        What a certificate may take; others than the first where that is not good enough.
    """

    coordinates: np.ndarray
    gap: float
    primal: float
    duals: list

    @property
    def relative_gap(self):
        return self.gap / max(self.primal, 1e-300)


class Finisher:
    """Dual coordinate ascent, then a method of second order if that is worth its cost by then.

    The interface is that of `_drive`, and of the solver that begins. A method is a class whose
    objects have `iterate()`, which returns False where no step is possible, `w`, `gap`, `primal`
    and `candidates()`, the duals of an Iterate. Its attributes say what to expect:

    n_expected    iterations
    n_passes      over the rows, an iteration
    sweeps, step  times, in that of a feature value in a step of coordinate ascent: of an iteration
                  for every example, besides its passes; of such a step besides its feature values
    takes_start   whether there may be weights to start from

    Parameters
    ----------
    first : SDCA
    method : type
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
        self.first, self.objective, self.method = first, first.objective, method
        self.tol, self.max_iter, self.at_once = tol, max_iter, at_once
        loss, matrix = self.objective.loss, self.objective.matrix
        self.space = space_for(matrix, method)
        self.cost, cost_of_start = self.space.costs(matrix, method)
        self.due = self.cost * (1 if loss.quadratic else method.n_expected) + cost_of_start
        self.spare = 2 * method.n_expected
        self._start_counts()

    def _start_counts(self):
        self.second = self.best = None  # the method of second order, its Iterate of least gap
        self.is_due = self.is_stuck = self.is_over = self.is_compared = False
        self.n_checked = 0  # passes of the first solver, when `is_due` was decided
        self.dual, self.found = -math.inf, None  # the best certified; its duals, if not the first's
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
        """1 once the method can go no further: what it has found needs a certificate."""
        return 1.0 if self.is_stuck else self.first.certificate_growth

    @property
    def estimated_gap(self):
        """The relative gap, estimated."""
        return self.first.estimated_gap if self.second is None else self.best.relative_gap

    def look(self):
        """Return the relative gap: an estimate, or that of the method of second order."""
        return self.first.look() if self.second is None else self.best.relative_gap

    def advance(self, limit):
        """Go on to the end of a pass or an iteration, then return True, or to the limit."""
        if self.is_stuck:
            self._hand_over()
        if self.second is not None:
            return self._read(self.space.passes(self.method), limit) and self._iterate()
        n_passes = self.first.n_iter
        if n_passes > self.n_checked and not self.is_over:
            self.n_checked, self.is_due = n_passes, self._is_time()
        if self.is_due:
            return self._read(PASSES_OF_START, limit) and self._begin()
        return self.first.advance(limit - self.n_read)

    def _is_time(self):
        """Tell at the end of a pass whether to go over to the method of second order."""
        first = self.first
        n_visited = first.work - first.accesses  # about
        spent = first.work + self.method.step * n_visited
        if self.at_once or spent >= self.due:
            return True
        is_last = first.n_iter >= max(self.max_iter - self.spare, self.spare)
        return is_last and PATIENCE * spent >= self.due and self._is_slow()

    def _is_slow(self):
        """Tell whether coordinate ascent, at its pace so far, needs more passes than max_iter."""
        gap, tol = self.first.look(), self.tol
        return gap > tol and self.max_iter * math.log(gap) > self.first.n_iter * math.log(tol)

    def _read(self, n_passes, limit):
        """Count passes over the rows unless they would exceed the limit."""
        n_read = n_passes * self.objective.matrix.n_stored
        fits = self.accesses + n_read <= limit
        if fits:
            self.n_read += n_read
            self.extra_work += self.cost
        return fits

    def _begin(self):
        self.is_due = False
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                self.chosen = self.space(self.objective)
            except (LinAlgError, ValueError):  # products of rows that are not finite
                self.is_over = True
                return False
            start = {}
            if self.method.takes_start:
                start["w"] = self.chosen.coordinates(self.first.model())
            second = self.method(self.chosen.objective, **start)
            self._note_iterate(second)
        self.second = second
        return False

    def _note_iterate(self, method):
        self.best = Iterate(method.w, method.gap, method.primal, method.candidates())
        self.n_idle = 0

    def _iterate(self):
        self.n_iterations += 1
        self.n_idle += 1
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                goes_on = self.second.iterate()
            except (LinAlgError, ValueError):  # a matrix that is singular, or not finite
                goes_on = False
            if self.second.gap < self.best.gap:
                self._note_iterate(self.second)
        self.is_stuck = not goes_on or self.n_idle >= MOST_IDLE
        return True

    def _hand_over(self):
        """Leave the method; the first solver goes on from its duals if they are the best."""
        if self.second is None:
            return
        if self.found is not None:
            constant = self.objective.matrix.constant
            self.first.adopt(self.found, self._weights()[-1] * constant)
        self.second = self.best = None
        self.is_stuck, self.is_over = False, True

    def certify(self, rounded):
        """Return the model with its certificate (`_drive`)."""
        if self.second is None:
            return self._certify_first(rounded)
        model, primal, dual = self._certify_best(rounded)
        if self.is_compared or primal - dual <= self.tol * primal:
            return model, primal, dual
        # a limit may come before the method has caught up
        self.is_compared = True
        before, primal_before, dual_before = self._certify_first(rounded)
        if not primal <= primal_before:
            model, primal = before, primal_before
        return model, primal, max(dual, dual_before)

    def _certify_first(self, rounded):
        certified = self.first.certify(rounded)
        self._note_dual(certified[-1], None)
        return certified

    def _certify_best(self, rounded):
        model, best = rounded(self._weights()), -math.inf
        for duals in self.best.duals:
            (primal,), dual = self.objective.certificate_of(duals, [model])
            self._note_dual(dual, duals)
            best = max(best, dual)
            # others are for a method that does not come nearer
            if primal - dual <= self.tol * primal or not self.is_stuck:
                break
        return model, primal, best

    def _note_dual(self, dual, duals):
        """Keep the duals of the method, None for those of the first solver, if they are better."""
        if self.dual < dual < math.inf:
            self.dual, self.found = dual, duals

    def _weights(self):
        return self.chosen.weights(self.best.coordinates)

    def model(self):
        """Return the weights."""
        if self.second is None or not self.best.relative_gap < self.first.look():
            return self.first.model()
        return self._weights()

    def duals(self):
        """Return the best certified duals as an array of its own (float64)."""
        self._hand_over()
        return self.first.duals()

    def release_duals(self):
        """Return the duals that a certificate takes, and end the solver's life."""
        found, duals = self.found, self.first.release_duals()
        return duals if found is None else found

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
