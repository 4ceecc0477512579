"""Enclosing balls and simplex QPs by working sets of the farthest rows, in whole passes.

Papers: Frank-Wolfe with all weights corrected in every round, Yildirim, "Two algorithms for the
minimum enclosing ball problem" (2008); pairwise steps in the working set, Lacoste-Julien, Jaggi,
"On the global linear convergence of Frank-Wolfe optimization variants" (2015).

Objective: max_x min_p p'(b + 2 A x) - |x|^2, p in the simplex; x = A'p.

    x = x0 = mean of some rows
    for k = 1, 2, ..:
        candidates = the rows of the least b_i + 2 <A_i, x>
        until the working set's problem is that of all candidates, nearly:
            add candidates of the least b_i + 2 <A_i, x> to the working set
            solve its problem: pairwise steps on the Gram matrix of the rows seen from x0
            drop rows of weight 0;  x = A'p
        one pass: A x, whose least b_i + 2 <A_i, x> certifies x, and p through |x|^2

A ball within epsilon of the smallest is that of at most 2 / epsilon rows, whatever n and d are
(Badoiu, Clarkson 2003), so working sets stay small if the gap asked for is not.

Cost per round: the stored entries, those of the candidates some times, and m^2 products of rows for
m rows in the working set.
"""
import numpy as np
import scipy.sparse as sp

from sublinear._core.matrix cimport Matrix
from sublinear._core.passes cimport Passes

# gaps within candidates and within working sets, relative to what is asked for or is there
GAP, INNER_GAP = 0.7, 0.2
START_ROWS = 256
GROWTH, CANDIDATES = 1, 8   # rows added at once, rows looked at: times sqrt(n)
LEAST_GROWTH = 32
MOST_EXTENSIONS = 10        # of the working set between two passes
COARSE = 1e-4               # relative gaps for which products in float32 do


cdef struct Worst:
    Py_ssize_t least, largest          # of v; largest where p > 0
    double gap                         # p'v - min v


cdef Worst find_worst(const double[::1] v, const double[::1] p) noexcept nogil:
    cdef Worst found
    cdef Py_ssize_t k
    cdef double mean = 0
    found.least = 0
    found.largest = -1
    for k in range(v.shape[0]):
        mean += p[k] * v[k]
        if v[k] < v[found.least]:
            found.least = k
        if p[k] > 0 and (found.largest < 0 or v[k] > v[found.largest]):
            found.largest = k
    found.gap = mean - v[found.least]
    return found


cdef void pairwise_steps(
    const double[:, ::1] gram, double[::1] v, double[::1] p, double target, Py_ssize_t n_steps
) noexcept nogil:
    """Move weight from the largest v = b + 2 K p to the least, until the gap is within target."""
    cdef Py_ssize_t k, _, i, j
    cdef double curvature, step
    cdef Worst worst
    for _ in range(n_steps):
        worst = find_worst(v, p)
        if not worst.gap > target:
            return
        i, j = worst.least, worst.largest
        curvature = gram[i, i] + gram[j, j] - 2 * gram[i, j]
        step = p[j]
        if v[j] - v[i] < 2 * curvature * step:
            step = (v[j] - v[i]) / (2 * curvature)
        p[i] += step
        p[j] -= step
        for k in range(v.shape[0]):
            v[k] += 2 * step * (gram[i, k] - gram[j, k])


class Beginning:
    """Equal weights of some rows, their mean, and the pass that looks at all rows from there.

    Parameters
    ----------
    X : ndarray or CSR matrix
    matrix : Matrix
        The same.

    Attributes
    ----------
    p, x, payoffs, norms : ndarray, float64
        The weights, their mean, A x, and |A_i|^2.
    passes : Passes
    n_read : int
        Stored entries read.
    """

    def __init__(self, X, Matrix matrix):
        n_rows = matrix.n_rows
        chosen = np.arange(0, n_rows, max(1, n_rows // START_ROWS), dtype=np.uint32)
        self.X, self.passes = X, Passes(matrix)
        self.p, self.x = np.zeros(n_rows), np.zeros(matrix.n_weights)
        self.p[chosen] = 1.0 / len(chosen)  # in C 1 / length is 0
        matrix.add_rows(self.p[chosen], chosen, self.x)
        self.payoffs, self.norms = self.passes.payoffs_and_norms(self.x)
        self.n_read = matrix.n_stored + matrix.n_stored * len(chosen) // n_rows


class ActiveSet:
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
    best_p : ndarray of shape (n_rows,)
    """

    estimated_gap = float("inf")
    certificate_growth = 1.0
    keeps_best = True
    diverged = False

    def __init__(self, problem, beginning, *, epsilon, relative):
        cdef Passes passes = beginning.passes
        X, p, x, payoffs = beginning.X, beginning.p, beginning.x, beginning.payoffs
        n_rows = passes.matrix.n_rows
        self.objective, self.passes, self.matrix, self.X = problem, passes, passes.matrix, X
        self.epsilon, self.relative = epsilon, relative
        self.x, self.payoffs, self.best_p = x, payoffs, p
        self.best_dual = problem.dual(p, x)
        self.best_primal = problem.primal(x, payoffs, passes.longest, lambda x: x)[1]
        # rows are seen from x0, but for sparse ones, which would be dense then
        self.sparse = not isinstance(X, np.ndarray)
        self.origin = np.zeros(len(x)) if self.sparse else x
        self.offsets = problem.offsets
        if not self.sparse:
            self.offsets = problem.offsets + 2 * payoffs - x @ x
        coarse = X.dtype == np.float32 and relative and epsilon >= COARSE
        self.dtype = np.float32 if coarse else np.float64
        self.members = np.empty(0, dtype=np.intp)
        self.rows = self._seen(self.members)
        self.weights, self.gram = np.empty(0), np.empty((0, 0))
        self.growth = max(LEAST_GROWTH, round(GROWTH * n_rows**0.5))
        self.n_candidates = min(n_rows, max(self.growth, round(CANDIDATES * n_rows**0.5)))
        self.tightness = 1.0
        self.n_iter = self.accesses = self.full_accesses = 0

    @property
    def work(self):
        return self.accesses

    def means(self):
        """Return x and p."""
        return self.x, self.best_p

    def best_distribution(self):
        """Return the p of the best dual value."""
        return self.best_p

    def model(self):
        return self.x

    def advance(self, limit):
        """Make a round, unless it might exceed the limit."""
        per_row = max(1, self.matrix.n_stored // self.matrix.n_rows)
        most = self.n_candidates + self.growth
        if self.accesses + self.matrix.n_stored + MOST_EXTENSIONS * most * per_row > limit:
            return False
        values = self.objective.offsets + 2 * self.payoffs
        candidates = np.sort(np.argpartition(values, self.n_candidates - 1)[: self.n_candidates])
        values = values[candidates]
        n_read = self.matrix.n_rows
        for _ in range(MOST_EXTENSIONS):
            added = self._contradicting(candidates, values)
            if len(added) == 0 and n_read > self.matrix.n_rows:
                break
            if len(added) == 0:
                self.tightness /= 4
            self._extend(added)
            self._solve_working_set()
            values = self.matrix.row_dots(self.x, candidates.astype(np.uint32))
            values = self.objective.offsets[candidates] + 2 * values
            n_read += len(added) + len(candidates)
        self.payoffs = self.passes.payoffs(self.x)
        self.accesses += self.matrix.n_stored + per_row * (n_read - self.matrix.n_rows)
        self.full_accesses += n_read * self.matrix.n_columns
        self.n_iter += 1
        return True

    def _target(self):
        """The gap that ends a round."""
        asked = self.epsilon * (max(self.best_primal, 0.0) if self.relative else 1.0)
        return GAP * self.tightness * min(asked, self.best_primal - self.best_dual)

    def _contradicting(self, candidates, values):
        """The candidates of the least values that the present p leaves too far below, if any."""
        level = self.x @ self.x - self.best_dual
        if len(self.members):
            p = self.weights
            level = p @ (self.objective.offsets[self.members]) + 2 * (self.x @ self.x)
        level -= self._target()
        if len(self.members) == 0:
            level = max(level, np.nextafter(values.min(), np.inf))
        outside = ~np.isin(candidates, self.members) & (values < level)
        found, values = candidates[outside], values[outside]
        if len(found) > self.growth:
            least = np.argpartition(values, self.growth - 1)[: self.growth]
            found, values = found[least], values[least]
        return found[np.lexsort((found, values))]

    def _seen(self, members):
        """Rows as they are multiplied with each other."""
        rows = self.X[members]
        return rows if self.sparse else (rows - self.origin).astype(self.dtype)

    def _extend(self, added):
        """Put rows into the working set."""
        rows, known = self._seen(added), len(self.members)
        self.rows = sp.vstack([self.rows, rows], "csr") if self.sparse else np.r_[self.rows, rows]
        self.members = np.r_[self.members, added]
        self.weights = np.r_[self.weights, np.zeros(len(added))]
        if self.weights.sum() == 0:
            self.weights[0] = 1
        gram = np.empty((len(self.members), len(self.members)))
        gram[:known, :known] = self.gram
        products = rows @ self.rows.T
        gram[known:] = products.toarray() if self.sparse else products
        gram[:known, known:] = gram[known:, :known].T
        self.gram = gram

    def _solve_working_set(self):
        cdef double[::1] values = self.offsets[self.members] + 2 * self.gram @ self.weights
        cdef double[::1] p = self.weights
        cdef const double[:, ::1] gram = self.gram
        cdef double target = INNER_GAP * self._target()
        cdef Py_ssize_t n_steps = 1000 + 20 * len(self.members)
        with nogil:
            pairwise_steps(gram, values, p, target, n_steps)
        kept = self.weights > 0
        self.members, self.rows = self.members[kept], self.rows[kept]
        self.weights = self.weights[kept] / self.weights.sum()
        self.gram = np.ascontiguousarray(self.gram[np.ix_(kept, kept)])
        self.x = np.zeros(len(self.x))
        self.matrix.add_rows(self.weights, self.members.astype(np.uint32), self.x)

    def certify(self, rounded):
        """Return x, its value, and the best dual value."""
        p = self.best_p
        if len(self.members):
            p = np.zeros(self.matrix.n_rows)
            p[self.members] = self.weights
        dual = self.objective.dual(p, self.x)
        if dual > self.best_dual:
            self.best_dual, self.best_p = dual, p
        model, primal = self.objective.primal(
            self.x, self.payoffs, self.passes.longest, rounded)
        self.best_primal = min(self.best_primal, primal)
        return model, primal, self.best_dual
