"""Which methods of second order may finish dual ascent, and where."""

import math

from sublinear._core.kernel_square import square_bytes
from sublinear._solvers.interior_point import InteriorPoint
from sublinear._solvers.kernel_newton import KernelNewton
from sublinear._solvers.least_squares import LeastSquares
from sublinear._solvers.newton import Newton
from sublinear._solvers.spaces import (
    LARGEST,
    N_MATRICES,
    Columns,
    KernelImages,
    KernelSpan,
    RowSpan,
)
from sublinear._solvers.truncated_newton import TruncatedNewton

MOST_ENTRIES = 2**24  # of a system: 128 MB a matrix
MANY_ROWS = 2  # for each weight: then changes of duals that leave w as it is decide the pace
FEWER = 1 / 2  # of the passes that follow from this pace: logistic losses lose curvature
BALANCING = 1.6  # of curvatures: so much slower passes are where duals have to balance, about
LEAST_SHRINKAGE = 1e-300  # by a pass, lest curvatures that are infinite divide by 0
MUCH = 4  # cheaper: then the span of the rows is worth its rounding


def linear_spaces(first, tol):
    """Return where methods of second order may finish an SDCA, the least expected work first."""
    matrix, loss = first.objective.matrix, first.objective.loss
    spaces = [Columns(first, TruncatedNewton, tol=tol)] if _takes_products(loss) else []
    if _may_form(matrix.n_weights, matrix) or _may_form(matrix.n_rows, matrix):
        spaces += [_least_space(first, *choice) for choice in _methods(loss, tol)]
    return sorted(spaces, key=lambda space: space.expected_work)


def is_foretold(loss, extent):
    """Tell whether lengths of rows foretell how many passes coordinate ascent takes from zeros.

    Where rows are more than weights, most changes of duals leave w as it is. Each pass shrinks
    those by a factor that only lengths of rows and the penalty decide. Not so for losses of pieces:
    examples come to rest, and passes over the others take less and less time.
    """
    return not loss.is_piecewise and extent.n_rows >= MANY_ROWS * extent.n_weights


def least_passes(loss, curvatures, tol, has_multiplier=False):
    """Return how many passes it takes at least, where that `is_foretold`.

    Parameters
    ----------
    loss : Loss
    curvatures : ndarray
        Of the dual along coordinates. Where they are 0 an example has no weight.
    tol : float
        The relative gap that is wanted.
    has_multiplier : bool, default=False
        Whether duals have to balance, which takes passes too.
    """
    greatest = loss.greatest_curvature * (BALANCING if has_multiplier else 1)
    shrinkages = 1 / (1 + greatest * curvatures[curvatures > 0])
    if not len(shrinkages) or not 0 < tol < 1:
        return 0.0
    return FEWER * math.log(1 / tol) / (2 * max(shrinkages.mean(), LEAST_SHRINKAGE))


def _takes_products(loss):
    """Tell whether conjugate gradients converge: not where most rows lose all curvature."""
    return loss.dual_form() is None or loss.has_quadratic_middle


def _may_form(size, matrix):
    """Tell whether a system of this size is small, or not larger than the rows."""
    return size <= LARGEST or size**2 <= min(matrix.n_stored, MOST_ENTRIES)


def _methods(loss, tol):
    """Return the methods that form a matrix, and options; the last depends on no conditions."""
    if loss.quadratic:
        return [(LeastSquares, {"tol": tol})]
    methods = [(Newton, {"tol": tol})] if loss.is_smooth else []
    return [*methods, (InteriorPoint, {})] if loss.is_piecewise else methods


def _least_space(first, method, options):
    """Return RowSpan where it is much cheaper: products of rows are rounded more than rows."""
    matrix = first.objective.matrix
    of_columns, of_span = Columns(first, method, **options), RowSpan(first, method, **options)
    may_form_columns = _may_form(matrix.n_weights, matrix)
    may_form_span = _may_form(matrix.n_rows, matrix)
    if may_form_span and (not may_form_columns or of_columns.cost > MUCH * of_span.cost):
        return of_span
    return of_columns


def kernel_spaces(first):
    """Return where methods of second order may finish a KernelSDCA, the least work first."""
    spaces = [KernelSpan(first, InteriorPoint)] if takes_span(first.objective) else []
    if takes_square(first.objective):
        spaces.append(KernelImages(first, KernelNewton))
    return sorted(spaces, key=lambda space: space.expected_work)


def takes_span(objective):
    """Tell whether equations in the span of a KernelObjective's images can be solved."""
    return objective.keeps_factor and _is_narrow(objective)


def takes_square(objective):
    """Tell whether equations in all coefficients of a KernelObjective can be solved."""
    has_room = square_bytes(objective.n_rows) <= objective.square_memory
    return objective.loss.has_quadratic_middle and has_room


def memory_lacking(objective):
    """Return what a KernelObjective's `memory` lacks where only that rules all spaces out."""
    if takes_span(objective) or takes_square(objective):
        return 0.0
    needed = [objective.factor_bytes] if _is_narrow(objective) else []
    if objective.loss.has_quadratic_middle and objective.square_memory > 0:
        needed.append(square_bytes(objective.n_rows) / N_MATRICES)
    return min(needed, default=0.0)


def _is_narrow(objective):
    return objective.most_rank <= LARGEST
