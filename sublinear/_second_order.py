"""Which methods of second order may finish a linear model's dual ascent, and where."""

from sublinear._solvers.interior_point import InteriorPoint
from sublinear._solvers.newton import Newton
from sublinear._solvers.spaces import LARGEST, Columns, RowSpan, has_quadratic_middle
from sublinear._solvers.truncated_newton import TruncatedNewton

MOST_ENTRIES = 2**24  # of a system: 128 MB a matrix
MUCH = 4  # cheaper: then the span of the rows is worth its rounding


def linear_spaces(first, tol):
    """Return where methods of second order may finish an SDCA, the least expected work first."""
    matrix, loss = first.objective.matrix, first.objective.loss
    spaces = [Columns(first, TruncatedNewton, tol=tol)] if _takes_products(loss) else []
    if _may_form(matrix.n_weights, matrix) or _may_form(matrix.n_rows, matrix):
        spaces += [_least_space(first, method) for method in _methods(loss)]
    return sorted(spaces, key=lambda space: space.expected_work)


def _takes_products(loss):
    """Tell whether conjugate gradients converge: not where most rows lose all curvature."""
    return loss.dual_form() is None or has_quadratic_middle(loss)


def _may_form(size, matrix):
    """Tell whether a system of this size is small, or not larger than the rows."""
    return size <= LARGEST or size**2 <= min(matrix.n_stored, MOST_ENTRIES)


def _methods(loss):
    """Return the methods that form a matrix; the last one does not depend on conditions."""
    methods = [Newton] if loss.is_smooth else []
    return [*methods, InteriorPoint] if loss.is_piecewise else methods


def _least_space(first, method):
    """Return RowSpan where it is much cheaper: products of rows are rounded more than rows."""
    matrix = first.objective.matrix
    of_columns, of_span = Columns(first, method), RowSpan(first, method)
    takes_columns = _may_form(matrix.n_weights, matrix)
    takes_span = _may_form(matrix.n_rows, matrix)
    if takes_span and (not takes_columns or of_columns.cost > MUCH * of_span.cost):
        return of_span
    return of_columns
