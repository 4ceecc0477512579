"""Where the equations of a method of second order are solved: spaces of few dimensions.

A space is made for the solver that begins and for a method. It has

    first, method          these: an object, and a class
    expected_work, least_work, most_work    of all iterations and the start: expected, what may be
                           enough, what it may well take; least_ascent: before them, in any case
    solves_once            whether one iteration leads to the optimum
    comes_first            whether it takes no longer than what ascent does in any case
    least_expected, spare  iterations for which there should be room, and those kept at the end
    cost, cost_of_start    expected work of an iteration, and before the first one, in the unit in
                           which the solver that begins counts
    n_read, n_read_at_start    accesses
    is_explored            whether the cost of an iteration is known, not a bound on it
    explore()              where it is not: find it, with the work and the accesses of the start
    begin()                return the method's object; both raise LinAlgError
    certify(iterate, lowest, tol, every_dual, rounded)    return a model with its primal value, a
                           dual value and the duals that have it; lowest: the coordinates that the
                           method found best, or None
    is_compared            whether these are no worse than where the solver that begins has been
    estimates_rounding     whether an estimate of rounding is part of it: the best of many would be
                           the one of the worst estimate
    weights(coordinates)   return the model that an Iterate stands for
    adopt_duals(duals, iterate)    let the solver that begins go on from such duals
    is_cautious            whether forecasts of ascent allow for an optimum near 0, where a relative
                           gap tells little; its gaps are then measured by the objective of zeros
    close()                give back the memory, as the method is left
    restart()              the solver that begins goes on with another alpha, or scales
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from sublinear._core.flat_intercept import in_the_middle
from sublinear._core.gram import DENSE_OUTER, OUTER, PIVOTS_AT_ONCE, row_factor
from sublinear._core.kernel_square import KernelSquare
from sublinear._core.matrix import Matrix
from sublinear._core.objective import LEAST_OF_ZEROS, Objective

LARGEST = 2048  # equations, 32 MB; more only if their matrix has no more entries than the rows
LEAST_PASSES = 2  # of ascent, and certificates: an exact solution that takes no longer comes first
BEST_CASE = 5  # the expected work of a method without a matrix, by what may be enough
WORST_CASE = 3  # what it may well take, by that: conditions decide
SHARP = 1e-3  # of tol: then duals of a kernel machine are as good as they get
N_MATRICES = 5  # of the size of a kernel matrix, or its factor, that a kernel's span takes at most
# Times, measured on one thread, in that of a feature value in a step of coordinate ascent
COPY = 1 / 2  # of a value of dense rows on its way to a BLAS
FACTOR = 1 / 96  # of n^3, for a system of n equations
CURVED = 1 / 4  # of that, in the mean over iterations, where examples lose their curvature
PIVOTED = 1 / 16  # of n r^2, for a factor of n rows and r columns
PASS = 1 / 4  # of a value in a pass over rows in their order
VECTORS = 12  # of all weights, read or written in an iteration that forms no matrix
OVERHEAD = 2**16  # of the Python calls of an iteration
EVALUATION = 8  # of a kernel's value in float64
KERNEL_WORK = 8  # what a kernel machine counts as its work in that time


class _Space:
    """What all spaces share."""

    least_ascent = 0  # work that the solver that begins takes in any case
    is_cautious = True

    @cached_property
    def solves_once(self):
        """Whether one iteration leads to the optimum."""
        return self.method.factorises and self.first.objective.loss.quadratic

    @property
    def comes_first(self):
        """Whether the iteration that leads to the optimum takes no longer than ascent must."""
        return self.solves_once and self.expected_work <= self.least_ascent

    @cached_property
    def n_expected(self):
        """Iterations to be expected."""
        return 1 if self.solves_once else self.method.n_expected(self.first.objective.loss)

    @cached_property
    def least_expected(self):
        """Iterations for which there should be room."""
        return (self.n_expected + 1) // 2

    @cached_property
    def spare(self):
        """Iterations that are kept for the method, if need be."""
        return 4 * self.method.n_expected(self.first.objective.loss)

    @property
    def expected_work(self):
        """Of the start and all iterations."""
        return self.cost * self.n_expected + self.cost_of_start

    @property
    def most_work(self):
        """That it may well take."""
        return self.expected_work * (1 if self.method.factorises else WORST_CASE)

    @property
    def least_work(self):
        """That may be enough."""
        return self.expected_work / (1 if self.method.factorises else BEST_CASE)

    def close(self):
        """Give back the memory."""

    def restart(self):
        """Keep what does not depend on the penalty."""


class _LinearSpace(_Space):
    """What the spaces for linear models share.

    Parameters
    ----------
    first : SDCA
    method : type
        See sublinear._solvers.finisher.
    **options
        Further arguments of the method.
    """

    is_explored, is_compared, estimates_rounding = True, False, False

    def __init__(self, first, method, **options):
        self.first, self.method, self.options = first, method, options
        matrix = first.objective.matrix
        self.cost, self.cost_of_start = self.costs(matrix, method)
        self.least_ascent = LEAST_PASSES * (matrix.n_stored + matrix.n_rows)
        self.n_read = self.n_passes * matrix.n_stored
        self.n_read_at_start = method.n_passes_of_start * matrix.n_stored

    def begin(self):
        start = dict(self.options)
        if self.method.takes_start:
            start["w"] = self._coordinates(self.first.model())
        method = self.method(self._enter(), **start)
        if self.solves_once:
            self._keep(method.equations)
        return method

    def _keep(self, equations):
        """Keep the equations of least squares for other penalties."""
        self.options["equations"] = equations
        matrix = self.first.objective.matrix
        self.cost, self.cost_of_start = self.costs(matrix, self.method, is_formed=True)
        self.n_read_at_start = 0

    def certify(self, iterate, lowest, tol, every_dual, rounded):
        objective = self.first.objective
        places = [iterate.coordinates]
        if lowest is not None and lowest is not iterate.coordinates:
            places.append(lowest)
        models = [rounded(self.weights(coordinates)) for coordinates in places]
        best, found = -np.inf, None
        for candidate in iterate.candidates:
            duals = candidate()
            primals, dual = objective.certificate_of(duals, models)
            primal, k = min(zip(primals, range(len(models)), strict=True))
            if dual > best:
                best, found = dual, duals
            # others are for a method that does not come nearer, or takes itself to be near enough
            is_enough = primal - dual <= tol * primal
            if is_enough or not (every_dual or iterate.relative_gap <= tol):
                break
        if found is None:
            return models[k], primal, best, None
        return *in_the_middle(objective, found, models[k], primal, best, rounded), found

    def adopt_duals(self, duals, iterate):
        constant = self.first.objective.matrix.constant
        self.first.adopt(duals, self.weights(iterate.coordinates)[-1] * constant)


class Columns(_LinearSpace):
    """The weights as they are, where columns are few or the method forms no matrix."""

    @property
    def n_passes(self):
        return self.method.n_passes

    @staticmethod
    def costs(matrix, method, is_formed=False):
        """Return the times of an iteration and of the start, in the unit of those above.

        `is_formed`: the matrix of its equations is there, but for the penalty.
        """
        n_rows, width, n_stored = matrix.n_rows, matrix.n_weights, matrix.n_stored
        cost = method.sweeps * n_rows + OVERHEAD
        if not method.factorises:
            product = n_stored if matrix.is_sparse else 3 * PASS * n_stored
            return cost + product + VECTORS * width, 0.0
        outer = OUTER * n_stored / n_rows if matrix.is_sparse else COPY + DENSE_OUTER * width
        if is_formed:
            outer = 0.0
        return cost + (method.n_passes * PASS + outer) * n_stored + FACTOR * width**3, 0.0

    def _enter(self):
        return self.first.objective

    def _coordinates(self, w):
        return w

    def weights(self, coordinates):
        """Return the weights w that have these coordinates."""
        return coordinates

    def certify(self, iterate, lowest, tol, every_dual, rounded):
        """As all spaces; what the method has measured need not be measured again."""
        model, at_zeros = rounded(iterate.coordinates), self.first.objective.values_of_zeros()[0]
        is_model = model is iterate.coordinates is lowest
        if is_model and iterate.is_measured and iterate.primal > LEAST_OF_ZEROS * at_zeros:
            return model, iterate.primal, iterate.primal - iterate.gap, iterate.candidates[0]()
        return super().certify(iterate, lowest, tol, every_dual, rounded)


class RowSpan(_LinearSpace):
    """The span of few rows, where the best weights lie.

    With X X' = L L' the rows of L have the products of those of X with each other, and are as short
    as they are few: the duals of both problems are the same.
    """

    n_passes, factor = 0, None

    @staticmethod
    def costs(matrix, method, is_formed=False):
        """As Columns.costs."""
        n_rows, n_stored = matrix.n_rows, matrix.n_stored
        cost = method.sweeps * n_rows + FACTOR * n_rows**3 + OVERHEAD
        if is_formed:
            return cost, 0.0
        products = n_rows * DENSE_OUTER * n_rows * matrix.n_columns
        if matrix.is_sparse:
            products = min(products, n_rows * n_stored * OUTER)
        return cost + DENSE_OUTER * n_rows**3, products + PASS * n_stored

    def restart(self):
        """As of all spaces; the factor is that of the rows alone."""
        if self.factor is not None:
            self.cost_of_start = 0.0

    def _enter(self):
        objective = self.first.objective
        matrix, free = objective.matrix, objective.free_intercept
        if self.factor is None:
            of_intercept = 0.0 if free else matrix.constant / objective.intercept_penalty**0.5
            self.factor = row_factor(matrix, of_intercept)
        return Objective(
            Matrix(np.ascontiguousarray(self.factor.T), matrix.constant if free else 0.0),
            objective.targets_array,
            objective.loss,
            objective.alpha,
            objective.weights_array,
            objective.n_threads,
            intercept_penalty=objective.intercept_penalty,
        )

    def _coordinates(self, w):
        return None

    def weights(self, coordinates):
        """As Columns.weights."""
        objective = self.first.objective
        n_rows = objective.matrix.n_rows
        factors = solve_triangular(self.factor, coordinates[:n_rows])
        w = np.zeros(objective.matrix.n_weights)
        objective.matrix.add_rows(factors, np.arange(n_rows, dtype=np.uint32), w)
        if objective.free_intercept:
            w[-1] = coordinates[-1]
        return objective.penalized(w)


class Evaluated(NamedTuple):
    """A kernel machine with its primal value, and by how much rounding may have made that less."""

    model: np.ndarray
    primal: float
    error: float

    def or_better(self, other):
        """Return the other one if its primal value is surely less."""
        return min(self, other, key=lambda entry: entry.primal + entry.error)

    def is_within(self, tol, dual):
        """Tell whether the relative gap to a dual value is at most tol, rounding included."""
        return self.primal + self.error - dual <= tol * self.primal


class _KernelSpace(_Space):
    """What the spaces for kernel machines share.

    `begin` sets `objective`, that of the solver that begins, and `before`, what `_certified` says
    of where that is.
    """

    is_compared, estimates_rounding = True, True

    def certify(self, iterate, lowest, tol, every_dual, rounded):
        best, dual, found = self.before
        for candidate in iterate.candidates:
            other, other_dual, duals = self._certified(self.objective.scales_array * candidate())
            best = best.or_better(other)
            if other_dual > dual:
                dual, found = other_dual, duals
            if best.is_within(tol, dual) or not every_dual:
                break
        # the weights of the method: a better model, but all examples are support vectors
        is_sharp = every_dual or iterate.relative_gap <= SHARP * tol
        if is_sharp and not best.is_within(tol, dual):
            coordinates = iterate.coordinates if lowest is None else lowest
            best = best.or_better(self._evaluated(coordinates))
        self.objective.model_error = best.error
        return best.model, best.primal, dual, found

    def weights(self, coordinates):
        return self._evaluated(coordinates).model

    def adopt_duals(self, duals, iterate):
        self.first.adopt(duals)

    def _certified(self, coefficients):
        """Return the model of feasible coefficients, Evaluated, a dual value, and them."""
        coefficients = coefficients.copy()
        model, primal, dual = self.objective.certificate_of(coefficients)
        return Evaluated(model, primal, self.objective.model_error), dual, coefficients

    def _evaluated(self, coordinates):
        """Return the model that an Iterate stands for, Evaluated."""
        return Evaluated(*self._evaluate(coordinates), self.objective.model_error)


class KernelSpan(_KernelSpace):
    """The span of the images of all examples of a kernel machine.

    With K = L L' the rows of L are examples of a linear model with the same duals. L has as many
    columns as float64 can tell to be independent: few for a linear kernel. Where there is no room
    for K it is made of as many of its columns. L stays when the method is left: the next C of a
    path takes it up again, and there is room for it beside the matrix of KernelImages.

    Parameters
    ----------
    first : KernelSDCA
    method : type
        See sublinear._solvers.finisher.
    """

    is_explored = False

    def __init__(self, first, method):
        self.first, self.method = first, method
        objective = first.objective
        n_rows, rank = objective.n_rows, objective.most_rank
        self.cost = self._cost(rank)
        # besides columns: products among those that may be the next pivots
        n_read = n_rows**2 if objective.keeps_matrix else rank * (n_rows + PIVOTS_AT_ONCE**2)
        self.cost_of_start = KERNEL_WORK * (EVALUATION * n_read + PIVOTED * n_rows * rank**2)
        self.n_read, self.n_read_at_start = 0, n_read

    def _cost(self, rank):
        objective, method = self.first.objective, self.method
        n_rows, width = objective.n_rows, objective.n_rows if objective.keeps_matrix else 2 * rank
        system = DENSE_OUTER * n_rows * rank**2 + FACTOR * rank**3
        passes = PASS * n_rows * (method.n_passes * rank + 4 * width) + method.sweeps * n_rows
        return KERNEL_WORK * (system + passes + OVERHEAD)

    def explore(self):
        self.factor, self.pivots = self.first.objective.factored()
        self.is_explored = True
        self.cost, self.cost_of_start, self.n_read_at_start = self._cost(len(self.pivots)), 0, 0

    def begin(self):
        if not self.is_explored:
            self.explore()
        first, reached = self.first, self.first.coefficients
        objective = self.objective = first.objective
        if not objective.is_exact and not first.refine():
            raise LinAlgError("the budget has no room for margins in float64")
        objective.use_factor(self.factor)
        self.before = self._certified(reached)
        return self.method(objective.linear(self.factor))

    def _evaluate(self, coordinates):
        """Return the model of the pivots, whose images are a basis, and its primal value."""
        pivots = self.pivots
        coefficients = np.zeros(self.objective.n_rows)
        coefficients[pivots] = solve_triangular(
            self.factor[pivots], coordinates[: len(pivots)], lower=True, trans="T"
        )
        objective = self.objective
        if objective.shift > 0:
            return objective.evaluated_with(coefficients, objective.shift**0.5 * coordinates[-1])
        return objective.evaluated(objective.of_images(coefficients))


class KernelImages(_KernelSpace):
    """The images of all examples as they are, with an equation for each that has curvature.

    Parameters
    ----------
    first : KernelSDCA
    method : type
        See sublinear._solvers.finisher.
    """

    is_explored, n_read = True, 0

    def __init__(self, first, method):
        self.first, self.method = first, method
        n_rows = first.objective.n_rows
        share = 1 if first.objective.loss.quadratic else CURVED
        passes = PASS * method.n_passes * n_rows**2 + method.sweeps * n_rows
        self.cost = KERNEL_WORK * (share * FACTOR * n_rows**3 + passes + OVERHEAD)
        self.n_read_at_start = n_rows * (n_rows + 1) // 2
        self.cost_of_start = KERNEL_WORK * EVALUATION * self.n_read_at_start

    @property
    def is_cautious(self):
        return not self.solves_once

    def begin(self):
        first, objective = self.first, self.first.objective
        self.objective = objective
        first.forget_block()
        square = KernelSquare(objective.products_of_images, objective.n_rows)
        objective.use_products(square.product)
        if not objective.is_exact:
            first.refine()
        self.before = self._certified(first.coefficients)
        return self.method(objective, square, first.coefficients)

    def close(self):
        self.first.objective.use_products(None)

    def _evaluate(self, coordinates):
        """Return the model of coefficients and an intercept, and its primal value."""
        objective, coefficients = self.objective, coordinates[:-1]
        if objective.shift > 0:
            return objective.evaluated_with(coefficients, coordinates[-1])
        return objective.evaluated(coefficients)
