"""Matrix games by a primal-dual interior point method, where another one would take longer.

Paper: Mehrotra, "On the implementation of a primal-dual interior point method" (1992).

Objective: min_y max_q q'Ty, both in the simplex; y is the strategy of the player who has fewer, T
the matrix of the game or minus its transpose. With s = t - T y and z = T'q - u, positive for a
large t and a small u, t - u = <y, z> + <q, s> bounds the gap.

    y, q uniform; s, z positive
    repeat:
        g = q / s, c = T'g / sum_k g_k
        U'U = sum_k g_k (T_k - c)(T_k - c)' + diag(z / y) + r 1 1'
        d = direction(-y z, -q s)                       all products to 0, to first order
        centre = mean product now * (mean product after d / now)^3
        d = direction(centre - y z - dy dz, centre - q s - dq ds); if it is short, with dy dz and
            dq ds times both lengths of the first d, if that leads further
        move y and s, q and z along d, each pair 0.99 of the way to where an entry would be 0

    direction(a, b):        y dz + z dy = a, q ds + s dq = b, sum_j dy_j = sum_k dq_k = 0
        dy = (U'U)^-1 (a / y - (T - 1 c')'(b / s) + du 1)
        ds = dt - T dy,  dz = (a - z dy) / y,  dq = (b - q ds) / s

What is added to all entries of a column of T, or to all of U'U, changes no direction. With c taken
off dt and du do not depend on each other, and squares do not cancel; with r, the mean diagonal
entry, U'U is far from singular along 1, or du would leave dy no digits near the optimum.

Certificates: those of y and q, from a pass over the matrix of the game, once the bound on the gap
is near epsilon.

Cost per iteration: six passes, or eight, the products of all pairs of columns of T, a third of the
cube of their number.
"""

import math

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrs  # SciPy's own functions take as long as a small iteration
from scipy.sparse import csr_array, issparse

from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import upper_factor, weighted_gram
from sublinear._core.matrix import Matrix
from sublinear._core.pace import FORECASTS, PATIENCE, is_slow
from sublinear._core.saddle_solver import SaddleSolver

BOUNDARY = 0.99  # of the way to where an entry would be 0
SHORT = 0.5  # steps before which, on that way, call for another correction
LEAST_MARGIN = 1e-3  # of the first s and z, for payoffs between -1 and 1
BLOCK = 2**16  # values that are copied at a time, and stay in a cache
N_PASSES, N_OF_DIRECTION = 6, 2  # of an iteration with two directions, and of another one
N_FOR_DIGIT = 1.5  # iterations for each digit of the payoffs, and one for each of the longer side
NEAR = 30  # times epsilon: a bound on the gap from which on certificates are worth a pass
MOST_IDLE = 6  # iterations without a better gap, after which it is rounding
MOST_LINES = 2000  # of the shorter side: more make equations that take seconds
MOST_VALUES = 2**27  # of the copy: a gibibyte

# Nanoseconds, measured on one thread: of the Python calls of a pass of another method, of a row or
# a column, of a stored value;
PASS_CALLS, PASS_LINE, PASS_VALUE = 6e4, 20, 0.3
# of an iteration, the same, of a product of two values, of the cube of the number of equations.
CALLS, LINE, VALUE, PRODUCT, FACTOR = 1.5e5, 60, 3, 0.025, 0.013
SPARSE_PRODUCT, SPARSE_TOTAL = 1, 6  # of sparse rows, and of an entry of their sum


class GameInteriorPoint:
    """The method for T, of no fewer rows than columns.

    Parameters
    ----------
    T : ndarray or CSR array of shape (n, m), float64
        Of entries from about -1 to 1.

    Attributes
    ----------
    y, q : ndarray of shape (m,), (n,), float64
        The strategies.
    """

    def __init__(self, T):
        n, m = T.shape
        self.T, self.transposed = T, T.T
        self.matrix = Matrix(T) if issparse(T) else None
        self.y, self.q = np.full(m, 1 / m), np.full(n, 1 / n)
        values, totals = T @ self.y, self.transposed @ self.q
        # margins by what the other player sees save up to half of the iterations where n >> m
        self.s = values.max() - values + np.ptp(totals) + LEAST_MARGIN
        self.z = totals - totals.min() + np.ptp(values) + LEAST_MARGIN

    def bound(self):
        """Return a bound on the gap."""
        return self.y @ self.z + self.q @ self.s

    def iterate(self):
        """Take a step, return how many passes it took; LinAlgError where rounding leaves none."""
        y, z, q, s, now = self.y, self.z, self.q, self.s, self.bound()
        n_passes = N_PASSES
        self._factor()
        dy, dz, dq, ds = self._direction(-y * z, -q * s)
        primal, dual = self._ways((dy, dz, dq, ds))
        after = (y + primal * dy) @ (z + dual * dz) + (q + dual * dq) @ (s + primal * ds)
        centre = now / (len(y) + len(q)) * (after / now) ** 3
        corrections, share = (dy * dz, dq * ds), primal * dual
        step = self._corrected(centre, *corrections)
        if min(self._ways(step)) < SHORT:
            other = self._corrected(centre, *(share * change for change in corrections))
            step = max(step, other, key=lambda step: min(self._ways(step)))
            n_passes += N_OF_DIRECTION
        dy, dz, dq, ds = step
        primal, dual = (min(1.0, BOUNDARY * way) for way in self._ways(step))
        self.y, self.s = distribution(y + primal * dy), s + primal * ds
        self.q, self.z = distribution(q + dual * dq), z + dual * dz
        return n_passes

    def _corrected(self, centre, of_pairs, of_others):
        return self._direction(
            centre - self.y * self.z - of_pairs, centre - self.q * self.s - of_others
        )

    def _ways(self, step):
        """Return how much of a step leaves no negative entry in y and s, and in q and z."""
        dy, dz, dq, ds = step
        return longest(self.y, dy, self.s, ds), longest(self.q, dq, self.z, dz)

    def _factor(self):
        """Find U, and what both directions need of it."""
        self.g = self.q / self.s
        self.total = np.add.reduce(self.g)
        self.c = self.transposed @ self.g / self.total
        system = self._gram()
        system += system.trace() / len(self.y)
        system.flat[:: len(self.y) + 1] += self.z / self.y
        self.U = upper_factor(system)
        self.of_ones = self._solved(np.ones(len(self.y)))

    def _gram(self):
        """Return sum_k g_k (T_k - c)(T_k - c)', in and above the diagonal."""
        n, m = self.T.shape
        if self.matrix is not None:
            gram = weighted_gram(self.matrix, np.arange(n, dtype=np.uint32), self.g)
            return gram - self.total * np.outer(self.c, self.c)
        gram, roots = np.zeros((m, m)), np.sqrt(self.g)[:, np.newaxis]
        step = max(m, BLOCK // m)
        for k in range(0, n, step):
            rows = (self.T[k : k + step] - self.c) * roots[k : k + step]
            gram += rows.T @ rows
        return gram

    def _solved(self, right):
        return dpotrs(self.U, right)[0]

    def _direction(self, a, b):
        weights = b / self.s
        pull = self.transposed @ weights - np.add.reduce(weights) * self.c
        dy = self._solved(a / self.y - pull)
        dy -= np.add.reduce(dy) / np.add.reduce(self.of_ones) * self.of_ones
        change = self.T @ dy
        ds = (np.add.reduce(weights) + self.g @ change) / self.total - change
        return dy, (a - self.z * dy) / self.y, weights - self.g * ds, ds


def longest(u, du, v, dv):
    """Return how much of a step leaves u and v without negative entries, at most 1."""
    return 1 / max(1.0, -np.minimum.reduce(du / u), -np.minimum.reduce(dv / v))


def distribution(weights):
    """Return weights of sum 1 but for rounding, without that."""
    return weights / np.add.reduce(weights)


def is_thin(A):
    """Tell whether a matrix is sparse, and worth keeping so."""
    return issparse(A) and 2 * A.size <= A.shape[0] * A.shape[1]


def is_small(A):
    """Tell whether a copy of a matrix, and its equations, are worth their memory."""
    n_copied = A.size if is_thin(A) else A.shape[0] * A.shape[1]
    return min(A.shape) <= MOST_LINES and n_copied <= MOST_VALUES


def scaled(A, middle, unit):
    """Return T for the matrix of a game: entries seen from the middle, unless most of them are 0.

    Where there are entries of 0 the middle is not far from them.
    """
    T, unit = (A, unit) if A.shape[0] >= A.shape[1] else (A.T, -unit)
    if is_thin(A):
        T = csr_array(T, dtype=np.float64, copy=True)
        T.data /= unit
        return T
    T = T.toarray() if issparse(A) else T
    T = np.subtract(T, middle, dtype=np.float64, order="C")
    T /= unit
    return T


class GameFinisher(SaddleSolver):
    """Another method, then the interior point method where what is left of the first takes longer.

    The interface is that of `_drive`. Where rounding leaves the interior point method no further
    steps the first one goes on from where it was.

    Parameters
    ----------
    first : OptimisticWeights
        Has `matrix`, `passes`, `means()` and `full_accesses` besides what `_drive` asks for.
    A : ndarray or CSR matrix
        That of the game, in memory; of it the interior point method makes a copy (float64).
    epsilon : float
        The gap that is wanted.
    max_iter, max_accesses : int or float, default=inf
        The interior point method is not begun where they would end it too early.
    at_once : bool, default=False
        Begin with it whatever time it takes, within these limits.

    Attributes
    ----------
    n_iter : int
        Passes of the first method, and iterations.
    accesses, full_accesses : int
        Feature values read; the same with rows charged in full.
    """

    def __init__(
        self, first, A, epsilon, *, max_iter=math.inf, max_accesses=math.inf, at_once=False
    ):
        super().__init__(first.problem)
        self.first, self.A, self.epsilon = first, A, epsilon
        self.max_iter, self.max_accesses, self.at_once = max_iter, max_accesses, at_once
        self.method = None  # GameInteriorPoint
        self.n_iterations = self.n_reads = self.n_idle = 0
        self.first_gap = self.lowest = self.gap = math.inf
        self.least_bound = self.least_gap = math.inf  # of the interior point method
        digits = max(0.0, math.log10(self.problem.unit) - math.log10(epsilon))
        self.n_expected = math.ceil(N_FOR_DIGIT * digits + math.log10(max(A.shape)))
        self.pass_cost, iteration_cost = costs(A)
        self.due = self.n_expected * iteration_cost
        self.next_forecast = 0.0 if at_once else self.due / PATIENCE
        self.is_due = self.is_over = False

    @property
    def n_iter(self):
        return self.first.n_iter + self.n_iterations

    @property
    def accesses(self):
        return self.first.accesses + self.n_reads * self.first.matrix.n_stored

    @property
    def work(self):
        return self.accesses

    @property
    def full_accesses(self):
        matrix = self.first.matrix
        return self.first.full_accesses + self.n_reads * matrix.n_rows * matrix.n_columns

    def advance(self, limit):
        """Go on to where a certificate makes sense, or to the limit."""
        self.is_due = self.is_due or self._is_time()
        if not self.is_due:
            return self.first.advance(limit - self.n_reads * self.first.matrix.n_stored)
        with np.errstate(all="ignore"), one_blas_thread():
            while self._has_room(limit):
                if self._iterate():
                    return True
        return False

    def _has_room(self, limit):
        """Tell whether the copy and an iteration of three directions keep within the limit."""
        n_reads = (self.method is None) + N_PASSES + N_OF_DIRECTION
        return self.accesses + n_reads * self.first.matrix.n_stored <= limit

    def _is_time(self):
        """Tell whether to go over to the interior point method."""
        spent = self.first.n_iter * self.pass_cost
        if spent < self.next_forecast or self.is_over or not self._fits():
            return False
        self.next_forecast = FORECASTS * spent
        return self.at_once or is_slow(spent, self._forecast() * spent - spent, self.due)

    def _forecast(self):
        """Return how many times as long as so far the first method takes in all.

        Its gap falls in proportion to passes, in easy games to a power of their number.
        """
        power = 1.0
        if self.first.n_iter > 1 and self.gap > 0:
            power = max(1.0, math.log(self.first_gap / self.gap) / math.log(self.first.n_iter))
        return (self.gap / self.epsilon) ** (1 / power)

    def _fits(self):
        """Tell whether as many iterations as expected will keep within the limits."""
        n_read = (1 + self.n_expected * N_PASSES) * self.first.matrix.n_stored
        within = self.accesses + n_read <= self.max_accesses
        return within and self.n_iter + self.n_expected <= self.max_iter

    def _iterate(self):
        """Take a step, and tell whether a certificate makes sense."""
        self.n_iterations += 1
        try:
            if self.method is None:
                self.method = GameInteriorPoint(
                    scaled(self.A, self.problem.middle, self.problem.unit)
                )
                self.n_reads += 1
            self.n_reads += self.method.iterate()
        except LinAlgError:  # a matrix that is singular, or not finite
            self.n_reads += N_PASSES + N_OF_DIRECTION  # at the most
            self._leave()
            return True
        bound = self.method.bound() * self.problem.unit
        is_near = bound <= NEAR * self.epsilon
        # near epsilon the gap itself has to fall
        self.n_idle = 0 if bound < self.least_bound and not is_near else self.n_idle + 1
        self.least_bound = min(bound, self.least_bound)
        return is_near or self.n_idle >= MOST_IDLE or self.n_iter >= self.max_iter

    def _leave(self):
        """Let the first method go on."""
        self.method, self.is_due, self.is_over = None, False, True

    def certify(self, rounded):
        """Return x, its value, and the best dual value."""
        if self.method is None:
            x, primal, dual = self.first.certify(rounded)
            self.take_dual(dual, self.first.best_p)
        else:
            x, primal = self._certify(rounded)
        self.lowest = min(self.lowest, primal)
        self.gap = self.lowest - self.best_dual
        if self.first_gap == math.inf:
            self.first_gap = self.gap
        return x, primal, self.best_dual

    def _certify(self, rounded):
        """Return x and its value, take p; leave the method where its gap falls no more."""
        x, p = self.means()
        payoffs, gradient = self.first.passes.products(x, p)
        self.problem.accesses += self.first.matrix.n_stored
        self.take_dual(self.problem.dual(p, gradient), p)
        gap = payoffs.max() - gradient.min()
        if gap < self.least_gap:
            self.least_gap, self.n_idle = gap, 0
        elif self.n_idle >= MOST_IDLE:
            self._leave()
        return self.problem.primal(x, payoffs, 0.0, rounded)

    def means(self):
        """Return x and p."""
        if self.method is None:
            return self.first.means()
        x, p = self.method.y, self.method.q
        return (x, p) if self.A.shape[0] >= self.A.shape[1] else (p, x)


def costs(A):
    """Return about how many nanoseconds a pass and an iteration take."""
    n_lines, n_stored, m = sum(A.shape), A.size, min(A.shape)
    products = n_stored * m * PRODUCT
    if is_thin(A):
        products = n_stored**2 / (n_lines - m) * SPARSE_PRODUCT + m**2 * SPARSE_TOTAL
    iteration = CALLS + LINE * n_lines + VALUE * n_stored + products + FACTOR * m**3
    return PASS_CALLS + PASS_LINE * n_lines + PASS_VALUE * n_stored, iteration
