"""Enclosing balls and simplex QPs in the space of a kernel, by working sets of the farthest rows.

Paper: Frank-Wolfe with all weights corrected in every round, Yildirim, "Two algorithms for the
minimum enclosing ball problem" (2008).

Objective: min_p p'b + p'K p, p in the simplex.

    candidates = rows at equal distances
    for k = 1, 2, ..:
        working set = the candidates, and the rows with p > 0
        solve its problem by pairwise steps on its part of K
        v = b + 2 K p, whose least value certifies p
        candidates = rows without weight of the least v

Only K p takes all n rows, and p has few entries where the gap asked for is not small: a ball within
epsilon is that of 2 / epsilon rows (Badoiu, Clarkson 2003). So candidates may be many, and nothing
is kept from round to round but p and K p: to compute a kernel value costs about what to read it
would.

Kernel values are float32 until rounding is most of the gap, or all that keeps it from what is asked
for; then they are float64. Weights are float32 as long as those are, as products take them, but for
the factor that makes their sum 1.

A working set has a limit. Where more rows have weight, the others keep theirs for a round.

Cost per round: m^2 kernel values for m rows in the working set, and n for every row with weight.
"""

import math

import numpy as np

from sublinear._core.inner import inner
from sublinear._core.kernel_rows import ExactRows
from sublinear._core.pairwise import pairwise_steps
from sublinear._core.saddle_solver import SaddleSolver, as_is, dual_beside, gap_asked

# candidates: so many times sqrt(n), and as many as have weight, between these limits
CANDIDATES, LEAST_CANDIDATES, MOST_CANDIDATES = 4, 128, 2048
INNER_GAP = 0.1  # that of the working set's problem, of the one asked for
STEPS, TURNS = 10_000, 100  # pairwise steps between looks for Ctrl-C, and how often so many
CHUNK = 64  # rows of a product between looks at the limit
LARGEST_ERROR = 8.0  # of a kernel value, in those deviations that KernelRows measure
MOST_ROWS = 4096  # of a working set, 192 MB of kernel values
PARTIAL = 8  # float32 products that are added up as such


class KernelActiveSet(SaddleSolver):
    """The method, as `_drive` wants one.

    Parameters
    ----------
    problem : object
        As for ActiveSet; its `primal` gets x as an array that holds its length.
    rows : KernelRows
    row_sizes : ndarray of shape (n_rows,), int64
        Stored values of every row of the data.
    n_features : int
    epsilon : float
        The gap that will be asked for, relative to the primal value if `relative`.
    relative : bool

    Attributes
    ----------
    n_iter : int
        Rounds.
    accesses, full_accesses : int
        Feature values read for kernel values; the same with rows charged in full.
    """

    most_unresolved = 3  # rounds that end with a gap which is rounding

    def __init__(self, problem, rows, row_sizes, n_features, *, epsilon, relative):
        super().__init__(problem)
        self.rows, self.row_sizes, self.n_features = rows, row_sizes, n_features
        self.n_rows, self.n_stored = len(row_sizes), int(row_sizes.sum())
        self.epsilon, self.relative = epsilon, relative
        count = min(MOST_CANDIDATES, max(LEAST_CANDIDATES, round(CANDIDATES * self.n_rows**0.5)))
        self.n_candidates = min(self.n_rows, count)
        self.largest = max(0.0, float(rows.diagonal.max()))
        self.p, self.products = np.zeros(self.n_rows), None
        self.p[0] = 1.0  # until a round has ended
        # the round under way: its rows, their weights, K times these, rows that are not in there
        self.working = self.coming = self.sums = self.pending = None
        self.best_primal = math.inf
        self.n_iter = self.accesses = self.full_accesses = 0

    @property
    def work(self):
        return self.accesses

    def model(self):
        """Return the coefficients of the kernel functions, and no intercept."""
        return np.append(self.p, 0.0)

    def advance(self, limit):
        """Go on until a round ends, then return True, or until more might exceed the limit."""
        if self.working is None:
            self._refine()
            self.working = self._working_set()
        if self.pending is None and not self._solve_working_set(limit):
            return False
        while len(self.pending):
            rows = self.pending[:CHUNK]
            n_read = len(rows) * self.n_stored
            if self.accesses + n_read > limit:
                return False
            self._add_products(self.coming, rows, self.sums)
            self.pending = self.pending[CHUNK:]
            self.accesses += n_read
            self.full_accesses += len(rows) * self.n_rows * self.n_features
        self._finish(self.coming, self.sums[0])
        self.working = self.pending = None
        self.n_iter += 1
        return True

    def _solve_working_set(self, limit):
        """Find the weights of a round, unless that might exceed the limit."""
        working = self.working
        n_read = len(working) * int(self.row_sizes[working].sum())
        if self.accesses + n_read > limit:
            return False
        self.coming, self.sums = self.p.copy(), np.zeros((1, self.n_rows))
        self.coming[working] = self._solution(working)
        if not self.rows.is_exact:
            self.coming = self.coming.astype(np.float32).astype(np.float64)
        self.pending = np.flatnonzero(self.coming)
        self.accesses += n_read
        self.full_accesses += self.n_features * len(working) ** 2
        return True

    @property
    def gets_exact(self):
        """Whether more rounds have less rounding."""
        return not self.rows.is_exact

    def _asked(self):
        return gap_asked(self.epsilon, self.relative, self.best_primal)

    def _refine(self):
        """Go on in float64 once float32 is in the way."""
        gap, rounding = self.best_primal - self.best_dual, self.problem.rounding
        in_the_way = gap < math.inf and gap <= max(2 * rounding, self._asked() + rounding)
        if in_the_way and not self.rows.is_exact:
            self.rows = ExactRows(self.rows)

    def _working_set(self):
        """Return the numbers of its rows, in order."""
        support = np.flatnonzero(self.p)
        if self.products is None:
            candidates = np.linspace(0, self.n_rows - 1, self.n_candidates).astype(np.int64)
        else:
            values = self.problem.offsets + 2 * self.products
            count = max(self.n_candidates, min(MOST_CANDIDATES, len(support)))
            room = MOST_ROWS - count
            if len(support) > room:  # those nearest to the centre: the farthest are candidates
                support = support[np.argsort(-values[support], kind="stable")[:room]]
            else:
                values[support] = np.inf
            candidates = np.argpartition(values, count - 1)[:count]
        return np.union1d(support, candidates).astype(np.int64)

    def _solution(self, working):
        """Return the weights of these rows that solve their problem, those of others fixed."""
        gram, weights = self._block(working), self.p[working]
        offsets, mass = self.problem.offsets[working], weights.sum()
        if np.count_nonzero(weights) < np.count_nonzero(self.p):
            offsets = offsets + 2 * (self.products[working] - np.einsum("ij,j->i", gram, weights))
        relative = self.relative and self.products is None  # the radius is not known yet
        asked = self.epsilon if relative else max(self._asked(), self.problem.rounding)
        for _ in range(TURNS):
            if pairwise_steps(
                gram, offsets, weights, INNER_GAP * asked, relative=relative, n_steps=STEPS
            ):
                break
        return weights * (mass / weights.sum())

    def _block(self, numbers):
        """Return the kernel values between some rows."""
        if not self.rows.is_exact:
            block = self.rows.block(numbers, numbers)[:, : len(numbers)]
            return block.astype(np.float64, order="C")
        block = self.rows.exact_block(numbers, numbers)
        self.rows.add_offsets(block, numbers, numbers)
        return block

    def _add_products(self, weights, numbers, sums):
        """Add what these rows contribute to K times the weights."""
        self.rows.add_product(numbers, weights[numbers][np.newaxis], sums)

    def _finish(self, weights, sums):
        """Take weights, and their products, as the present ones."""
        total = float(weights.sum())
        self.p, self.products = weights / total, sums / total
        n_terms = np.count_nonzero(weights)
        if not self.rows.is_exact:
            n_terms = min(n_terms, PARTIAL)
        error = LARGEST_ERROR * self.rows.deviation + n_terms * self.rows.unit * self.largest
        self.problem.kernel_error, self.problem.kernel_rounding = error, 4 * error

    def certify(self, rounded):
        """Return the coefficients as `model` does, their value, and the best dual value."""
        if self.products is None:
            sums = np.zeros((1, self.n_rows))
            self._add_products(self.p, np.flatnonzero(self.p), sums)
            self._finish(self.p, sums[0])
            self.problem.accesses += self.n_stored
        x = np.array([math.sqrt(max(0.0, inner(self.p, self.products)))])
        longest = math.sqrt(self.largest)
        self.take_dual(self.problem.dual(self.p, x, longest), self.p)
        primal = self.problem.primal(x, self.products, longest, as_is)[1]
        self.best_primal = min(self.best_primal, primal)
        dual = dual_beside(primal, self.best_dual, self.problem.kernel_rounding)
        return self.model(), primal, dual
