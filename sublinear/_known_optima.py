"""Generated problems whose optimum is known, with the primal and dual solutions that prove it."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import helmert

from sublinear._documentation import with_parameters
from sublinear._validation import (
    check_flag,
    check_float_dtype,
    check_number,
    check_sizes,
    generator,
)

FARTHEST = 0.9  # how much of a row's length its margin may take up
LARGEST_LEAN = 1e6  # beyond it rounding is all that is left beside it
LARGEST_SIMPLEX = 64  # corners: all of them are needed to prove the optimum


class PlantedMargin(NamedTuple):
    """What `make_planted_margin` returns.

    Examples
    --------
    >>> from sublinear.datasets import make_planted_margin
    >>> X, y, coef, dual, margin = make_planted_margin(60, 40, margin=0.1, random_state=0)
    >>> X.shape, coef.shape, dual.shape, margin
    ((60, 40), (40,), (60,), 0.1)
    """

    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    coef: np.ndarray
    dual: np.ndarray
    margin: float


class KnownEnclosingBall(NamedTuple):
    """What `make_enclosing_ball` returns.

    Examples
    --------
    >>> from sublinear.datasets import make_enclosing_ball
    >>> X, center, radius, dual = make_enclosing_ball(50, 8, radius=0.5, random_state=0)
    >>> X.shape, center.shape, radius, dual.shape
    ((50, 8), (8,), 0.5, (50,))
    """

    X: np.ndarray
    center: np.ndarray
    radius: float
    dual: np.ndarray


class KnownMatrixGame(NamedTuple):
    """What `make_matrix_game` returns.

    Examples
    --------
    >>> from sublinear.datasets import make_matrix_game
    >>> A, value, row_strategy, column_strategy = make_matrix_game(6, 5, value=0.1, random_state=0)
    >>> A.shape, value, row_strategy.shape, column_strategy.shape
    ((6, 5), 0.1, (6,), (5,))
    """

    A: np.ndarray
    value: float
    row_strategy: np.ndarray
    column_strategy: np.ndarray


class KnownSimplexQP(NamedTuple):
    """What `make_simplex_qp` returns.

    Examples
    --------
    >>> from sublinear.datasets import make_simplex_qp
    >>> A, b, value, p = make_simplex_qp(30, 20, random_state=0)
    >>> A.shape, b.shape, p.shape
    ((30, 20), (30,), (30,))
    """

    A: np.ndarray
    b: np.ndarray
    value: float
    p: np.ndarray


class LowerBoundInstance(NamedTuple):
    """What `make_lower_bound_instance` returns.

    Examples
    --------
    >>> from sublinear.datasets import make_lower_bound_instance
    >>> X, answer, margin, entry = make_lower_bound_instance(8, 4, answer=True, random_state=0)
    >>> X.shape, answer
    ((8, 4), True)
    """

    X: np.ndarray
    answer: bool
    margin: float
    entry: tuple[int, int]


@with_parameters()
def make_planted_margin(
    n_samples,
    n_features,
    *,
    margin=0.1,
    row_entries=None,
    support=0.1,
    lean=0.0,
    dtype=np.float64,
    random_state=None,
):
    """Generate separable rows of length 1 whose largest margin is known.

    With a planted unit vector w, every row lies on a set S of columns and is
    m w_S / |w_S|^2 + z with z orthogonal to w_S, so that its margin under w is m. The columns are
    cut into sets, again and again. In some of these rounds m is the planted margin and the z of a
    set's rows are the corners of a regular simplex (of 64 corners where rows and columns allow),
    so that a mean of these rows is margin * w: no other vector of length 1 has a larger least
    margin, and fewer rows do not show that. The remaining rows have larger m (margin times one
    plus an exponential variable, at most 0.9 |w_S|).

    Parameters
    ----------
    n_samples, n_features : int
        Number of rows and columns.
    margin : float, default=0.1
        The planted margin; less than 0.9 * sqrt(row_entries / n_features).
    row_entries : int, default=None
        Least number of stored entries of a row, at least 2; None for dense rows.
    support : float, default=0.1
        Share of the rows whose margin is the least one; there is one round of them at least.
    lean : float, default=0.0
        How far the other rows lean to one common direction that is orthogonal to w and says
        nothing: the length of that part against the random part of z. The larger, the farther is
        the mean of all rows from w.
    dtype : {float64, float32}, default=float64
        The type of X.
    %(random_draws)s

    Returns
    -------
    PlantedMargin
        A named tuple: ``X`` of shape (n_samples, n_features), an ndarray, or a csr_array where
        row_entries is given; ``y``, -1 and +1; ``coef``, the unit vector w; ``dual``, weights p
        in the simplex with |sum p_i y_i x_i| = margin; ``margin``.

    Raises
    ------
    ValueError
        If a parameter is out of range, or rows are too few for one round.

    Examples
    --------
    >>> from sublinear.datasets import make_planted_margin
    >>> data = make_planted_margin(60, 40, margin=0.1, random_state=0)
    >>> float((data.y * (data.X @ data.coef)).min().round(12))
    0.1
    """
    n_samples, n_features = check_sizes(2, n_samples=n_samples, n_features=n_features)
    width = n_features if row_entries is None else row_entries
    check_number("row_entries", width, low=2, high=n_features, integer=True)
    check_number("support", support, low=0, high=1)
    check_number("lean", lean, low=0, high=LARGEST_LEAN)
    check_float_dtype(dtype)
    n_sets = n_features // width
    largest = FARTHEST * math.sqrt(width / n_features)
    check_number("margin", margin, low=0, high=largest, open_low=True)
    if n_samples < 2 * n_sets:
        raise ValueError(
            f"n_samples must be at least {2 * n_sets}, two rows for each of the sets of columns, "
            f"got {n_samples}"
        )
    rng = generator(random_state)
    coef = rng.choice([-1.0, 1.0], n_features) / math.sqrt(n_features)
    aside = lean * rng.standard_normal(n_features)
    bounds = np.linspace(0, n_features, n_sets + 1).astype(int)
    n_corners = min(LARGEST_SIMPLEX, width, n_samples // n_sets)
    size = n_corners * n_sets  # rows of a round of supports
    n_support = size * max(1, min(round(support * n_samples / size), n_samples // size))
    place = rng.permutation(n_samples)
    y = rng.choice([-1, 1], n_samples)
    dual = np.zeros(n_samples)
    keep = _DenseRows if row_entries is None else _SparseRows
    kept = keep(n_samples, n_features, dtype)

    def drawn_columns():
        return np.arange(n_features) if n_sets == 1 else rng.permutation(n_features)

    def put(first, columns, margins, across):
        rows = place[first : first + n_sets]
        kept.put(rows, y[rows], columns, _unit_rows(margins, coef[columns], across, bounds), bounds)

    masses = np.diff(bounds) * n_sets / (n_support * n_features)  # of a row for each set
    dual[place[:n_support]] = np.tile(masses, n_support // n_sets)
    for first in range(0, n_support, size):
        columns = drawn_columns()
        for k, across in enumerate(_corners_across(rng, n_corners, coef[columns], bounds)):
            put(first + k * n_sets, columns, np.full(n_sets, margin), across)
    for first in range(n_support, n_samples, n_sets):
        columns = drawn_columns()
        margins = np.minimum(margin * (1 + rng.exponential(size=n_sets)), largest)
        put(first, columns, margins, rng.standard_normal(n_features) + aside[columns])
    return PlantedMargin(kept.matrix(), y, coef, dual, margin)


def _simplex(frame):
    """Return the corners, of length 1, of a regular simplex in the space of the frame's rows."""
    n_corners = len(frame) + 1
    orthonormal = np.linalg.qr(frame.T)[0].T
    return helmert(n_corners).T @ orthonormal / math.sqrt(1 - 1 / n_corners)


def _corners_across(rng, n_corners, coef, bounds):
    """Return a simplex for each set of columns, side by side, orthogonal to coef there."""
    corners = np.empty((n_corners, len(coef)))
    for start, stop in itertools.pairwise(bounds):
        along = coef[start:stop] / np.linalg.norm(coef[start:stop])
        frame = rng.standard_normal((n_corners - 1, stop - start))
        frame -= np.outer(frame @ along, along)
        corners[:, start:stop] = _simplex(frame)
    return corners


def _unit_rows(margins, coef, across, bounds):
    """Return rows of length 1, end to end, with these margins under coef."""
    sizes, starts = np.diff(bounds), bounds[:-1]

    def spread(sums):
        return np.repeat(sums, sizes)

    squares = np.add.reduceat(coef**2, starts)
    across = across - coef * spread(np.add.reduceat(coef * across, starts) / squares)
    lengths = np.sqrt(np.add.reduceat(across**2, starts))
    return coef * spread(margins / squares) + across * spread(
        np.sqrt(1 - margins**2 / squares) / lengths
    )


class _DenseRows:
    def __init__(self, n_rows, n_columns, dtype):
        self.X = np.empty((n_rows, n_columns), dtype)

    def put(self, rows, signs, columns, values, bounds):
        for row, sign in zip(rows, signs, strict=True):
            self.X[row] = sign * values

    def matrix(self):
        return self.X


class _SparseRows:
    def __init__(self, n_rows, n_columns, dtype):
        self.shape, self.dtype = (n_rows, n_columns), dtype
        self.entries = []

    def put(self, rows, signs, columns, values, bounds):
        sizes = np.diff(bounds)[: len(rows)]
        stop = bounds[len(rows)]
        values = (np.repeat(signs, sizes) * values[:stop]).astype(self.dtype)
        self.entries.append((values, np.repeat(rows, sizes), columns[:stop]))

    def matrix(self):
        values, rows, columns = map(np.concatenate, zip(*self.entries, strict=True))
        return sparse.coo_array((values, (rows, columns)), shape=self.shape).tocsr()


@with_parameters()
def make_enclosing_ball(
    n_samples,
    n_features,
    *,
    radius=0.5,
    rank=None,
    noise=0.3,
    support=0.1,
    lean=0.0,
    dtype=np.float64,
    random_state=None,
):
    """Generate points whose smallest enclosing ball is known.

    Some points are the corners of regular simplices on the sphere (of 64 corners where the numbers
    allow), so that their mean is the centre and fewer of them have a smaller ball; the others lie
    inside. All have length 1 at most.

    Parameters
    ----------
    n_samples, n_features : int
        Number of points, at least 2, and of coordinates.
    radius : float, default=0.5
        The radius of the smallest ball, at most 1.
    rank : int, default=None
        Directions from the centre are combinations of so many vectors, plus noise; by default
        they are drawn uniformly.
    noise : float, default=0.3
        With rank: standard deviation of the noise against that of the combinations.
    support : float, default=0.1
        Share of the points that lie on the sphere; one simplex at least.
    lean : float, default=0.0
        How far the other points lean to one common direction: the larger, the farther is the mean
        of all points from the centre.
    dtype : {float64, float32}, default=float64
        The type of X.
    %(random_draws)s

    Returns
    -------
    KnownEnclosingBall
        A named tuple: ``X`` of shape (n_samples, n_features); ``center``; ``radius``; ``dual``,
        weights p in the simplex with sum p_i x_i = center.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.datasets import make_enclosing_ball
    >>> data = make_enclosing_ball(50, 8, radius=0.5, random_state=0)
    >>> float(np.linalg.norm(data.X - data.center, axis=1).max().round(12))
    0.5
    """
    n_samples, n_features = check_sizes(2, n_samples=n_samples, n_features=n_features)
    check_number("radius", radius, low=0, high=1, open_low=True)
    check_number("support", support, low=0, high=1)
    check_number("noise", noise, low=0)
    check_number("lean", lean, low=0, high=LARGEST_LEAN)
    check_float_dtype(dtype)
    check_number("rank", rank, low=1, integer=True, optional=True)
    rng = generator(random_state)
    vectors = None if rank is None else rng.standard_normal((rank, n_features)) / math.sqrt(rank)
    aside = lean * rng.standard_normal(n_features)

    def directions(count):
        found = rng.standard_normal((count, n_features))
        if vectors is not None:
            found = rng.standard_normal((count, rank)) @ vectors + noise * found
        return found

    center = rng.standard_normal(n_features)
    center *= (1 - radius) / np.linalg.norm(center)
    n_corners = min(LARGEST_SIMPLEX, n_samples, n_features + 1)
    n_simplices = min(max(1, round(support * n_samples / n_corners)), n_samples // n_corners)
    n_support = n_simplices * n_corners
    place = rng.permutation(n_samples)
    X = np.empty((n_samples, n_features), dtype)
    for corners in place[:n_support].reshape(n_simplices, n_corners):
        X[corners] = center + radius * _simplex(directions(n_corners - 1))
    for inside in np.array_split(place[n_support:], max(1, n_samples // 256)):
        outward = directions(len(inside)) + aside
        lengths = rng.uniform(0.3, 1, len(inside)) * radius / np.linalg.norm(outward, axis=1)
        X[inside] = center + lengths[:, None] * outward
    dual = np.zeros(n_samples)
    dual[place[:n_support]] = 1 / n_support
    return KnownEnclosingBall(X, center, radius, dual)


@with_parameters()
def make_matrix_game(
    n_rows, n_columns, *, value=0.1, support=0.5, dtype=np.float64, random_state=None
):
    """Generate a zero-sum game min over x of max over i of (A x)_i with a known equilibrium.

    A is value + (I - 1 p') G (I - x 1') with random G, scaled to payoffs in [-1, 1], so that both
    equilibrium strategies p and x make the other player indifferent; then rows outside the support
    of p lose some payoff and columns outside that of x gain some.

    Parameters
    ----------
    n_rows, n_columns : int
        Strategies of the maximising and of the minimising player.
    value : float, default=0.1
        The value of the game, between -0.9 and 0.9.
    support : float, default=0.5
        Share of the strategies that the equilibrium uses; one at least.
    dtype : {float64, float32}, default=float64
        The type of A.
    %(random_draws)s

    Returns
    -------
    KnownMatrixGame
        A named tuple: ``A`` of shape (n_rows, n_columns); ``value``; ``row_strategy``;
        ``column_strategy``.

    Examples
    --------
    >>> from sublinear.datasets import make_matrix_game
    >>> game = make_matrix_game(6, 5, value=0.1, random_state=0)
    >>> float((game.A @ game.column_strategy).max().round(12))
    0.1
    """
    n_rows, n_columns = check_sizes(1, n_rows=n_rows, n_columns=n_columns)
    check_number("value", value, low=-0.9, high=0.9)
    check_number("support", support, low=0, high=1)
    check_float_dtype(dtype)
    rng = generator(random_state)
    p, x = (_sparse_strategy(rng, n, support) for n in (n_rows, n_columns))
    A = rng.uniform(-1, 1, (n_rows, n_columns))
    A -= p @ A
    A -= (A @ x)[:, None]
    A -= np.where(p > 0, 0.0, rng.uniform(0, 0.5, n_rows))[:, None]
    A += np.where(x > 0, 0.0, rng.uniform(0, 0.5, n_columns))
    largest = np.abs(A).max()
    # where a player has one strategy nothing is left but rounding
    A *= (1 - abs(value)) / largest if largest > 1e-9 else 0.0
    A += value
    return KnownMatrixGame(A.astype(dtype, copy=False), value, p, x)


@with_parameters()
def make_simplex_qp(n_rows, n_columns, *, support=0.1, dtype=np.float64, random_state=None):
    """Generate min over the simplex of p'b + p'AA'p with a known solution.

    b is chosen so that p fulfils the conditions of optimality: b + 2 A A'p is 0 where p > 0 and
    positive elsewhere.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of A, whose rows have length 1.
    support : float, default=0.1
        Share of the entries of p that are not 0; one at least.
    dtype : {float64, float32}, default=float64
        The type of A.
    %(random_draws)s

    Returns
    -------
    KnownSimplexQP
        A named tuple: ``A`` of shape (n_rows, n_columns); ``b`` of shape (n_rows,); ``value``, the
        minimum; ``p``, a solution.

    Examples
    --------
    >>> from sublinear.datasets import make_simplex_qp
    >>> A, b, value, p = make_simplex_qp(30, 20, random_state=0)
    >>> bool(abs(p @ b + (p @ A) @ (p @ A) - value) < 1e-12)
    True
    """
    n_rows, n_columns = check_sizes(1, n_rows=n_rows, n_columns=n_columns)
    check_number("support", support, low=0, high=1)
    check_float_dtype(dtype)
    rng = generator(random_state)
    p = _sparse_strategy(rng, n_rows, support)
    A = rng.standard_normal((n_rows, n_columns))
    A /= np.linalg.norm(A, axis=1)[:, None]
    A = A.astype(dtype, copy=False)
    mean = A.T @ p
    b = np.where(p > 0, 0.0, rng.uniform(0, 0.5, n_rows)) - 2 * A @ mean
    return KnownSimplexQP(A, b, float(p @ b + mean @ mean), p)


@with_parameters()
def make_lower_bound_instance(n_samples, n_features, *, answer=None, width=None, random_state=None):
    """Generate an instance of the lower bounds of Clarkson, Hazan and Woodruff (section VII).

    Row i + n / 2 repeats row i, which has a = 1 - 1 / width in one random column and equal
    entries elsewhere, and length 1. That is a YES instance. In a NO instance one entry a of the
    second half has its sign changed. Whoever wants to tell them apart must find that entry, and
    nothing else in the matrix says where it is.

    Parameters
    ----------
    n_samples : int
        Number of rows, even.
    n_features : int
        Number of columns, at least 2.
    answer : bool, default=None
        True for YES, False for NO; drawn by default. The rest of the matrix does not depend on it.
    width : float, default=None
        W of the paper, at least n_features, or 2 + sqrt(2) for two columns: so much by default. The
        larger, the smaller is the margin of a NO instance.
    %(random_draws)s

    Returns
    -------
    LowerBoundInstance
        A named tuple: ``X`` of shape (n_samples, n_features), labels folded in; ``answer``;
        ``margin``, the largest over vectors of length 1; ``entry``, row and column of the entry
        that is -a in NO instances.

    Examples
    --------
    >>> from sublinear.datasets import make_lower_bound_instance
    >>> yes, no = (make_lower_bound_instance(8, 4, answer=a, random_state=0) for a in (True, False))
    >>> int((yes.X != no.X).sum()), yes.margin > no.margin
    (1, True)
    """
    n_samples, n_features = check_sizes(2, n_samples=n_samples, n_features=n_features)
    if n_samples % 2:
        raise ValueError(f"n_samples must be even, got {n_samples}")
    check_flag("answer", answer, optional=True)
    least = n_features if n_features > 2 else 2 + math.sqrt(2)  # that the margin be as below
    width = least if width is None else width
    check_number("width", width, low=least)
    rng = generator(random_state)
    large = 1 - 1 / width
    rest = math.sqrt(1 - large**2)  # length of the other entries
    small = rest / math.sqrt(n_features - 1)
    columns = rng.integers(n_features, size=n_samples // 2)
    X = np.full((n_samples, n_features), small)
    X[np.arange(n_samples), np.tile(columns, 2)] = large
    row = int(rng.integers(n_samples // 2))
    entry = (row + n_samples // 2, int(columns[row]))
    answer = bool(rng.integers(2)) if answer is None else bool(answer)
    if answer:
        # the mean of one row for each column in use is the point of their hull nearest to 0
        n_used = len(np.unique(columns))
        used = small + (large - small) / n_used
        margin = math.sqrt(n_used * used**2 + (n_features - n_used) * small**2)
    else:
        X[entry] = -large
        margin = rest  # of the mean of the two rows that differ
    return LowerBoundInstance(X, answer, margin, entry)


def _sparse_strategy(rng, n, support):
    """Return a random distribution over n strategies, zero outside its support."""
    used = rng.permutation(n)[: max(1, round(support * n))]
    strategy = np.zeros(n)
    strategy[used] = rng.dirichlet(np.full(len(used), 2.0))
    return strategy
