"""The constant column behind an intercept, and what it is measured by: some of the rows."""

import math

import numpy as np

from sublinear._core.inner import inner
from sublinear._core.starting_intercept import weighted_quantile

SHORT = 0.25  # of the weight
MOST_LEFT_OUT = 64  # one of so many rows is looked at, but of few rows more
SHARE, LEAST_SHARE = 0.5, 1e-3  # of the length of rows
LEAST, LEAST_CURVED = 3.0, 30.0  # times sqrt(alpha)
OF_ROWS = 3.0  # times the length that the mean of n independent rows of mean 0 has
FAR_LESS = 2.0  # times


def some_rows(n_rows):
    """Return the slice of the rows that are looked at."""
    return slice(None, None, min(MOST_LEFT_OUT, n_rows // MOST_LEFT_OUT + 1))


def short_length(norms, weights):
    """Return a length that a quarter of the rows with weight have at the most, by squared norms.

    Of those that are not empty.
    """
    return math.sqrt(weighted_quantile(norms, weights * (norms > 0), SHORT))


class RowSample:
    """Lengths and the mean of some of the rows, which may come in parts.

    Parameters
    ----------
    n_columns : int

    Attributes
    ----------
    weights, norms : list of ndarrays
        Their weights and squared lengths, for every part.
    total : ndarray of shape (n_columns,), float64
        The weighted sum of these rows. Those of parts may be added up; so may `squares`.
    squares : ndarray of shape (3,), float64
        The sums of their weights, of the squares of these, and of those times squared lengths.
    """

    def __init__(self, n_columns):
        self.weights, self.norms = [], []
        self.total, self.squares = np.zeros(n_columns), np.zeros(3)

    def add(self, matrix, weights=None):
        """Look at some rows of a part.

        Parameters
        ----------
        matrix : Matrix
            Without a constant column.
        weights : ndarray of shape (n_rows,), default=None
            None means 1 each.
        """
        some = some_rows(matrix.n_rows)
        rows = np.arange(matrix.n_rows, dtype=np.uint32)[some]
        weights = np.ones(len(rows)) if weights is None else np.ascontiguousarray(weights[some])
        norms = matrix.squared_norms(step=some.step)
        matrix.add_rows(weights, rows, self.total)
        self.weights.append(weights)
        self.norms.append(norms)
        with np.errstate(all="ignore"):  # of rows that solvers refuse
            squares = weights * weights
            self.squares += weights.sum(), squares.sum(), np.sum(squares * norms)


def length_of_mean(total, squares):
    """Return about the length of the mean of all rows, from the sums of a RowSample.

    Without what some rows of mean 0 would show. Infinite where they do not tell.
    """
    weight, square, long_square = squares
    with np.errstate(all="ignore"):  # of rows that solvers refuse
        mean = (inner(total, total) - long_square) / (weight * weight - square)
    return math.sqrt(max(mean, 0.0)) if math.isfinite(mean) else math.inf


def column_constant(n_rows, length, mean, scaling, alpha, loss, spread, n_parts=1):
    """Return the value of the constant column behind an intercept.

    That is its scaling, unless far less is better. With the value c the method of multipliers moves
    the intercept as if it were held back by alpha / (2 c^2) times the square of the move: it takes
    about 1 + alpha / c^2 passes for a loss whose second derivative is near 1. Steps become shorter
    by 1 + (|x|^2 + c^2) / (alpha n), and each moves the intercept of all by c^2 / (alpha n) of its
    own, as it moves their predictions by |mean|^2 / (alpha n) or more through the other columns. If
    these can make up for an intercept their weights have a square of 1 / |mean|^2 or more, and a
    pass leaves about 1 / (1 + c^2 / |mean|^2) of the way. So c is the length of the mean, or what
    rows of mean 0 may have as well, unless few long rows make that, and at least what makes the
    first two equal; a power of two, so that no intercept is rounded. The logistic loss of rare
    labels has second derivatives far below 1: c is larger there. Where slopes jump at numbers,
    their spread, or the tube's width, takes the place of 1, and twice the passes are better than
    short steps: the intercept begins near its end. Where rows come in parts, each part takes the
    imbalance of all on itself: c is smaller then, but not so small that equations solved as a whole
    lose it.

    Parameters
    ----------
    n_rows : int
    length : float
        Of a row that is rather short.
    mean : float
        The length of the mean of all rows.
    scaling : float
        The value of a column whose weight has the penalty of all others; infinite for no penalty.
    alpha : float
    loss : Loss
    spread : callable
        Returns that of the targets.
    n_parts : int, default=1
        In which the rows are taken in turns.
    """
    form = loss.dual_form()
    if form is None or form.ridge > 0 or form.one_sided:
        least = LEAST_CURVED if form is None else LEAST
        value = math.sqrt(alpha) * max(least, n_rows**0.25 / n_parts**0.5)
    else:
        value = math.sqrt(alpha) * math.sqrt(max(spread(), form.epsilon))
    mean = math.hypot(mean, OF_ROWS * length / math.sqrt(n_rows)) / n_parts**0.25
    value = max(value, min(mean, SHARE * length), LEAST_SHARE * length)
    value = 2.0 ** round(math.log2(value)) if 0 < value < math.inf else 1.0
    return value if FAR_LESS * value <= scaling else scaling


def intercept_penalty(constant, scaling):
    """Return how much of the penalty of others the weight of the column has, as in Objective."""
    return (constant / scaling) ** 2 if constant != 0 else 1.0
