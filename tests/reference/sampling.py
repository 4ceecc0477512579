"""Draws and estimates of the sublinear methods: Clarkson, Hazan, Woodruff (2010), section II."""

import numpy as np


class Draws:
    """Rows and columns drawn by their probabilities; `rows` and `columns` record them."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.rows, self.columns = [], []

    def row(self, probabilities):
        self.rows.append(self.random.choice(len(probabilities), p=probabilities))
        return self.rows[-1]

    def column(self, probabilities):
        self.columns.append(self.random.choice(len(probabilities), p=probabilities))
        return self.columns[-1]

    def coin(self, probability):
        return self.random.random() < probability


class Inverted:
    """Draws by inversion of a stream of uniform numbers: those of a compiled solver, say."""

    def __init__(self, uniforms):
        self.stream = iter(uniforms)

    def row(self, probabilities):
        ends = np.cumsum(probabilities)
        return min(np.searchsorted(ends, next(self.stream) * ends[-1], "right"), len(ends) - 1)

    column = row

    def coin(self, probability):
        return next(self.stream) < probability


class Replayed:
    """Draws made elsewhere: one row, one column and one coin for every step that asks for them."""

    def __init__(self, rows, columns, coins=()):
        self._rows, self._columns, self._coins = iter(rows), iter(columns), iter(coins)

    def row(self, probabilities):
        return next(self._rows)

    def column(self, probabilities):
        return next(self._columns)

    def coin(self, probability):
        return next(self._coins)


def clip(z, bound):
    """Return min(bound, max(-bound, z))."""
    return np.minimum(bound, np.maximum(-bound, z))


def l2_estimates(columns, x, j):
    """Return what column j, drawn with probability x_j^2 / |x|^2, says of every row's <A_i, x>."""
    return columns[:, j] * (x @ x) / x[j]


def draw_l2(A, x, draws):
    """Return unbiased estimates of A x, of variance at most |A_i|^2 |x|^2; zeros at x = 0."""
    if not x.any():
        return np.zeros(len(A))
    return l2_estimates(A, x, draws.column(x**2 / (x @ x)))


def reweighted(p, v, eta):
    """One step of variance-bounded multiplicative weights (Definition II.2): low v gains.

    Negative v makes high values gain.
    """
    v = clip(v, 1 / eta)
    p = p * (1 - eta * v + eta**2 * v**2)
    return p / p.sum()


def median_of_means(estimates, groups):
    """Return the median of `groups` means; estimates has one line per sample (section II-B)."""
    return np.median(
        [np.mean(group, axis=0) for group in np.array_split(estimates, groups)], axis=0
    )
