"""Enclosing balls and simplex QPs by working sets of the farthest rows, in whole passes.

Papers: Frank-Wolfe with all weights corrected in every round, Yildirim, "Two algorithms for the
minimum enclosing ball problem" (2008); pairwise steps in the working set, Lacoste-Julien, Jaggi,
"On the global linear convergence of Frank-Wolfe optimization variants" (2015).

Objective: max_x min_p p'(b + 2 A x) - |x|^2, p in the simplex; x = A'p.

    x = x0 = mean of some rows
    for k = 1, 2, ..:
        candidates = the rows of the least b_i + 2 <A_i, x>
        in the first round: working set = the means of groups of candidates, in order of b + 2 A x
        until the working set's problem is that of all candidates, nearly:
            add candidates of the least b_i + 2 <A_i, x> to the working set
            solve its problem: pairwise steps on the Gram matrix of the rows seen from x0, interior
                points where these take long
            drop rows of weight 0;  x = A'p
        one pass: A x, whose least b_i + 2 <A_i, x> certifies x, and p through |x|^2
    return the best x so far, x0 included

A ball within epsilon of the smallest is that of at most 2 / epsilon rows, whatever n and d are
(Badoiu, Clarkson 2003), so working sets stay small if the gap asked for is not. Where so many rows
are needed, most of them weigh about the same: a mean stands for its group at the price of one row.

Cost per round: the stored entries, those of the candidates some times, and m^2 products of rows for
m rows in the working set.
"""
from libc.math cimport fabs

import numpy as np
import scipy.sparse as sp

from sublinear._core.inner import inner
from sublinear._core.matrix cimport Matrix
from sublinear._core.pairwise import pairwise_steps
from sublinear._core.passes cimport Passes
from sublinear._core.saddle_solver cimport SaddleSolver
from sublinear._core.saddle_solver import as_is, gap_asked
from sublinear._core.simplex_program import solved_program

# gaps, relative to what is asked for or is there: of candidates that are left alone, and that are
# aimed at otherwise; of working sets, relative to the latter
ENOUGH, GAP, INNER_GAP = 0.9, 0.7, 0.2
START_ROWS = 256
GROWTH, CANDIDATES = 1, 8   # rows added at once, rows looked at: times sqrt(n)
LEAST_GROWTH = 32
MOST_EXTENSIONS = 10        # of the working set between two passes
MOST_SOLVED = 1024          # of its rows, where interior points may do what pairwise steps do not
COARSE = 1e-4               # relative gaps for which products in float32 do,
LEAST_SQUARE, MOST_SQUARE = 1e-30, 1e36    # and squares of distances that leave them in its range
# rows, and columns, of products that BLAS makes on one thread: threads might change bits
BLOCK, PART = 32, 256


def products(rows, others, columns):
    """Return rows times others', two dense arrays that have a multiple of so many columns."""
    result = np.empty((len(rows), len(others)))
    for i in range(0, len(rows), BLOCK):
        left = rows[i:i + BLOCK].reshape(-1, rows.shape[1] // columns, columns).transpose(1, 0, 2)
        for j in range(0, len(others), BLOCK):
            right = others[j:j + BLOCK].reshape(-1, *left.shape[::2]).transpose(1, 2, 0)
            result[i:i + BLOCK, j:j + BLOCK] = (left @ right).sum(axis=0, dtype=np.float64)
    return result


class Beginning:
    """Equal weights of some rows, their mean, and the pass that looks at all rows from there.

    Parameters
    ----------
    X : ndarray or CSR matrix
    matrix : Matrix
        The same.
    n_chosen : int, default=256
        Of how many rows, or somewhat more.

    Attributes
    ----------
    p, x, payoffs, norms : ndarray, float64
        The weights, their mean, A x, and |A_i|^2.
    passes : Passes
    n_read : int
        Stored entries read.
    """

    def __init__(self, X, Matrix matrix, Py_ssize_t n_chosen=START_ROWS):
        n_rows = matrix.n_rows
        chosen = np.arange(0, n_rows, max(1, n_rows // n_chosen), dtype=np.uint32)
        self.X, self.passes = X, Passes(matrix)
        self.p, self.x = np.zeros(n_rows), np.zeros(matrix.n_weights)
        self.p[chosen] = 1.0 / len(chosen)  # in C 1 / length is 0
        matrix.add_rows(self.p[chosen], chosen, self.x)
        self.payoffs, self.norms = self.passes.payoffs_and_norms(self.x)
        self.n_read = matrix.n_stored + matrix.n_stored * len(chosen) // n_rows


def rows_of_round(n_rows):
    """Return how many of so many rows are added at once, and how many are candidates."""
    growth = max(LEAST_GROWTH, round(GROWTH * n_rows**0.5))
    return growth, min(n_rows, max(growth, round(CANDIDATES * n_rows**0.5)))


def values_of_row(matrix):
    """Return how many values a row has, about."""
    return max(1, matrix.n_stored // matrix.n_rows)


def values_of_round(matrix):
    """Return how many feature values a round may read."""
    most = (MOST_EXTENSIONS + 2) * sum(rows_of_round(matrix.n_rows))
    return matrix.n_stored + most * values_of_row(matrix)


class ActiveSet(SaddleSolver):
    """The method, as `_drive` wants one.

    Parameters
    ----------
    problem : object
        Has `offsets`, b of the objective (float64); `primal`, `dual` and `accesses` as for
        PrimalDual.
    beginning : Beginning
    epsilon : float
        The gap that will be asked for, relative to the primal value if `relative`.
    relative : bool

    Attributes
    ----------
    n_iter : int
        Rounds, each of one pass.
    accesses, full_accesses : int
        Feature values read, those of candidates and working sets included; the same with rows
        charged in full.
    """

    def __init__(self, problem, beginning, *, epsilon, relative):
        cdef Passes passes = beginning.passes
        X, p, x, payoffs = beginning.X, beginning.p, beginning.x, beginning.payoffs
        n_rows = passes.matrix.n_rows
        super().__init__(problem)
        self.passes, self.matrix, self.X = passes, passes.matrix, X
        self.epsilon, self.relative = epsilon, relative
        self.x, self.payoffs = x, payoffs
        self.take_dual(problem.dual(p, x, passes.longest), p)
        self.best = x, payoffs  # of the least primal value: the first round's may be larger
        self.best_primal = problem.primal(x, payoffs, passes.longest, as_is)[1]
        # rows are seen from x0, but for sparse ones, which would be dense then
        self.sparse = not isinstance(X, np.ndarray)
        self.origin = np.zeros(len(x)) if self.sparse else x
        self.offsets = problem.offsets
        if not self.sparse:
            self.offsets = problem.offsets + 2 * payoffs - inner(x, x)
        # means of sparse rows, and so all products, are float64
        coarse = not self.sparse and X.dtype == np.float32 and relative and epsilon >= COARSE
        farthest = np.max(beginning.norms - 2 * payoffs) + inner(x, x)
        coarse = coarse and LEAST_SQUARE < farthest < MOST_SQUARE
        self.dtype = np.float32 if coarse else np.float64
        self.part = min(PART, max(1, len(x)))
        self.groups, self.members = [], np.empty(0, dtype=np.intp)
        self.growth, self.n_candidates = rows_of_round(n_rows)
        self.per_row = values_of_row(passes.matrix)
        self.tightness = 1.0
        self.n_iter = self.accesses = self.full_accesses = 0

    @property
    def work(self):
        return self.accesses

    @property
    def least_accesses(self):
        """Feature values that a round may read."""
        return values_of_round(self.matrix)

    def _begins_solved(self):
        gap = self.best_primal - self.best_dual
        return gap <= self.epsilon * (fabs(self.best_primal) if self.relative else 1.0)

    def model(self):
        """Return the x of the least primal value."""
        return self.best[0]

    def advance(self, limit):
        """Make a round, unless it might exceed the limit."""
        if self.n_iter == 0 and self._begins_solved():
            self.n_iter = 1
            return True
        if self.accesses + self.least_accesses > limit:
            return False
        values = self.problem.offsets + 2 * self.payoffs
        candidates = np.sort(np.argpartition(values, self.n_candidates - 1)[: self.n_candidates])
        values = values[candidates]
        n_extra = 0  # rows read besides those of the pass
        if not self.groups:
            self._begin_working_set(candidates, values)
            values = self._values(candidates)
            n_extra += 2 * len(candidates)
        for _ in range(MOST_EXTENSIONS):
            added = self._contradicting(candidates, values)
            if len(added) == 0 and n_extra > 0:
                break
            if len(added) == 0:
                self.tightness /= 4
            self._extend(added)
            self._solve_working_set()
            values = self._values(candidates)
            n_extra += len(added) + len(candidates)
        self.payoffs = self.passes.payoffs(self.x)
        self.accesses += self.matrix.n_stored + self.per_row * n_extra
        self.full_accesses += (self.matrix.n_rows + n_extra) * self.matrix.n_columns
        self.n_iter += 1
        return True

    def _asked(self):
        """The gap that a round is to bring about."""
        asked = gap_asked(self.epsilon, self.relative, self.best_primal)
        return self.tightness * min(asked, self.best_primal - self.best_dual)

    def _values(self, candidates):
        """Return b_i + 2 <A_i, x> of candidates, at the present x."""
        dots = self.matrix.row_dots(self.x, candidates.astype(np.uint32))
        return self.problem.offsets[candidates] + 2 * dots

    def _offsets_within(self, offsets):
        """Return the offsets of what is in the working set: means of groups, then rows."""
        return np.r_[[offsets[group].mean() for group in self.groups], offsets[self.members]]

    def _contradicting(self, candidates, values):
        """The candidates of the least values that the present p leaves too far below, if any."""
        level = inner(self.weights, self._offsets_within(self.problem.offsets))
        level += 2 * inner(self.x, self.x)
        if level - values.min() <= ENOUGH * self._asked():
            return candidates[:0]
        outside = values < level - GAP * self._asked()
        outside &= ~np.isin(candidates, self.members)
        found, values = candidates[outside], values[outside]
        if len(found) > self.growth:
            least = np.argpartition(values, self.growth - 1)[: self.growth]
            found, values = found[least], values[least]
        return found[np.lexsort((found, values))]

    def _begin_working_set(self, candidates, values):
        """Let the working set be the means of groups of candidates, those of like values."""
        order = candidates[np.lexsort((candidates, values))].astype(np.uint32)
        n_groups = -(-len(order) // self.growth)
        self.groups = [np.sort(group) for group in np.array_split(order, n_groups)]
        self.group_means = np.zeros((n_groups, len(self.x)))
        for group, mean in zip(self.groups, self.group_means):
            self.matrix.add_rows(np.full(len(group), 1.0 / len(group)), group, mean)
        if self.sparse:
            self.group_means = sp.csr_array(self.group_means)
        self.rows = self._seen(self.group_means)
        self.gram = self._products(self.rows)
        self.weights = np.full(n_groups, 1.0 / n_groups)
        self._solve_working_set()

    def _seen(self, rows):
        """Rows as they are multiplied with each other: dense ones from x0, in whole parts."""
        if self.sparse:
            return rows
        seen = np.zeros((len(rows), -(-len(self.x) // self.part) * self.part), self.dtype)
        np.subtract(rows, self.origin, out=seen[:, : len(self.x)], casting="same_kind")
        return seen

    def _products(self, rows):
        """Return the products of rows with those of the working set."""
        if self.sparse:
            return (rows @ self.rows.T).toarray()
        return products(rows, self.rows, self.part)

    def _extend(self, added):
        """Put rows into the working set."""
        rows, known = self._seen(self.X[added]), len(self.weights)
        self.rows = sp.vstack([self.rows, rows], "csr") if self.sparse else np.r_[self.rows, rows]
        self.members = np.r_[self.members, added]
        self.weights = np.r_[self.weights, np.zeros(len(added))]
        gram = np.empty((len(self.weights), len(self.weights)))
        gram[:known, :known] = self.gram
        gram[known:] = self._products(rows)
        gram[:known, known:] = gram[known:, :known].T
        self.gram = gram

    def _solve_working_set(self):
        n_groups, target = len(self.groups), INNER_GAP * GAP * self._asked()
        offsets = self._offsets_within(self.offsets)
        is_solved = pairwise_steps(
            self.gram, offsets, self.weights, target, by_gain=False,
            n_steps=1000 + 20 * len(self.weights)
        )
        if not is_solved and len(self.weights) <= MOST_SOLVED:
            self.weights = solved_program(self.gram, offsets, self.weights, target)
        kept = self.weights > 0
        kept[:n_groups] = True
        self.members, self.rows = self.members[kept[n_groups:]], self.rows[kept]
        self.weights = self.weights[kept] / self.weights.sum()
        self.gram = np.ascontiguousarray(self.gram[np.ix_(kept, kept)])
        shares = self.weights[:n_groups]
        # without BLAS, which might use threads
        means = self.group_means
        self.x = shares @ means if self.sparse else np.einsum("g,gd", shares, means)
        self.matrix.add_rows(self.weights[n_groups:], self.members.astype(np.uint32), self.x)

    def certify(self, rounded):
        """Return the best x, its primal value, and the best dual value."""
        p = self.best_p
        if self.groups:
            p = np.zeros(self.matrix.n_rows)
            p[self.members] = self.weights[len(self.groups):]
            for group, weight in zip(self.groups, self.weights):
                p[group] += weight / len(group)
        dual = self.problem.dual(p, self.x, self.passes.longest)
        self.take_dual(dual, p)
        model, primal = self.problem.primal(self.x, self.payoffs, self.passes.longest, rounded)
        if primal < self.best_primal:
            self.best, self.best_primal = (self.x, self.payoffs), primal
        else:
            model, primal = self.problem.primal(*self.best, self.passes.longest, rounded)
        return model, primal, self.best_dual
