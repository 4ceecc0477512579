"""SIMBA: soft margins by single rows and columns.

Paper: Hazan, Koren, Srebro, "Beating SGD: learning SVMs in sublinear time" (2011), Algorithm 1 with
the bias of section 4.

Objective: max over |w| <= 1, |b| <= 1, slack 0 <= xi_i <= 2 with sum xi_i <= nu n of
    min_i y_i (<w, x_i> + b) + xi_i

    for t = 1, 2, ..:
        draw row i by p;  u += y_i x_i * step
        xi = 2 for the nu n / 2 rows of the largest p, what remains for the next;  b = sign(p'y)
        w = u / max(1, |u|);  draw column j by w_j^2
        v_i = clip(y_i x_ij |w|^2 / w_j + xi_i + y_i b, 1 / eta)
        multiply every p_i by 1 - eta v_i + eta^2 v_i^2

Cost per step: the stored entries of one row and one column, each times the levels of a sum tree.
Rows that are not in the column have v_i = xi_i + y_i b, one of five values: two labels, with and
without slack, and the one row with what remains. Each of these groups has a tree and a factor that
belongs to all of its weights. The means of w and p are kept by what changes, too. Without slack
these are the steps of the sublinear perceptron, an intercept being a constant feature: its column
is one value for either label.

Departures: who has slack is found anew every `refresh` steps, by a selection in O(n) that then
costs about as much as the steps between; refresh=1 is the paper's algorithm. Rates follow t or the
length of the round; rounds of doubling length have means of their own, p goes on from the mean of
the last round, u from where it is.
"""
from cython cimport final
from libc.math cimport floor, log, sqrt

import numpy as np

from sublinear._core.line cimport (
    Line, entry_index, entry_value, line_at, line_size, prefetch_entry,
)
from sublinear._core.matrix cimport Matrix
from sublinear._core.matrix import NotFinite
from sublinear._core.random cimport RandomBits, uniform
from sublinear._core.rounds cimport Rounds, begin_longer, first_round, is_over
from sublinear._core.solver cimport Solver
from sublinear._core.sum_tree cimport (
    SumNodes, SumTree, draw_index, rebuild_sums, set_weight, total_weight,
)
from sublinear._core.sweeps cimport TINY, variance_bounded

cdef enum:
    GROUPS = 5               # without slack, with slack: labels +1, -1; the row with the rest
    LAST = 4
    MANY = 8                 # a column with one in so many rows: sums are made anew
    ENTRIES_AHEAD = 64

cdef double LARGEST_ETA = 1 / 6.0       # the analysis wants no more
cdef double SMALL_FACTOR = 2.0**-200
cdef double SMALL_SHARE = 2.0**-30      # of a sum: terms below it lose too many digits there


cdef inline bint comes_before(const double* p, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """The larger first, of equal ones that with the smaller number."""
    return p[i] > p[k] or (p[i] == p[k] and i < k)


cdef void select_first(
    const double* p, Py_ssize_t* order, Py_ssize_t n, Py_ssize_t count
) noexcept nogil:
    """Rearrange order so that its first `count` come before the others, the last of them last."""
    cdef Py_ssize_t low = 0, high = n - 1, i, k, pivot
    while low < high:
        pivot = order[low + (high - low) // 2]
        i, k = low, high
        while i <= k:
            while comes_before(p, order[i], pivot):
                i += 1
            while comes_before(p, pivot, order[k]):
                k -= 1
            if i <= k:
                order[i], order[k] = order[k], order[i]
                i += 1
                k -= 1
        if count - 1 <= k:
            high = k
        elif count - 1 >= i:
            low = i
        else:
            return


cdef class SIMBA(Solver):
    """SIMBA in rounds.

    Parameters
    ----------
    problem : object
        Has `certificate(matrix, w, b, p, rounded)`, which returns the model, its primal value and a
        dual value of a minimisation, and `accesses`, what certificates read.
    matrix : Matrix
        A constant column stands for the bias and is not read; without a bias it is a feature.
    targets : ndarray of shape (n_rows,), float64
        -1 and +1.
    random : RandomBits
    nu : float
        Mean slack, between 0 and 1.
    bias : bool
    unit : float, default=1.0
        The largest |x_i|; lines are divided by it.
    round_steps : int
        Steps of the first round.
    growth : int, default=2
        By what factor rounds grow; 1: there is one round only.
    max_steps : int, default=2**62
        A round ends there, whatever its length.
    adaptive : bool, default=True
        Rates follow the step's number, not the length of the round.
    primal_rate, dual_rate : float
        step is primal_rate / sqrt(2 t), eta dual_rate * sqrt(log(n) / t), at most 1 / 6.
    refresh : int, default=0
        Steps between two selections of the rows with slack; 0: as many as cost what one does, any
        number where no row has slack.
    start : tuple of ndarray, default=None
        u and p to begin with.

    Attributes
    ----------
    n_iter : int
        Steps.
    accesses, full_accesses : int
        Stored values read; the same with every line charged in full, as the paper counts.
    """
    cdef readonly Matrix matrix, columns
    cdef readonly object problem
    cdef readonly Py_ssize_t n_iter, accesses, full_accesses, refresh
    cdef RandomBits random
    cdef Rounds rounds
    cdef Py_ssize_t n, d, n_weights, n_full, longest_column
    cdef Py_ssize_t since_refresh
    cdef Py_ssize_t row                  # drawn for a step not yet taken, or -1
    cdef double remaining, primal_rate, dual_rate, log_n, unit, constant, sum_of_values
    cdef bint bias, adaptive, computed
    cdef list trees
    cdef SumTree u_tree
    cdef SumNodes* nodes[GROUPS]
    cdef SumNodes* u_nodes
    cdef double factor[GROUPS]
    cdef double seen[GROUPS]             # sum of factor / total over the steps since _select
    cdef double slack[GROUPS]
    cdef double label[GROUPS]
    cdef const double[::1] targets
    cdef double[::1] u, u_before, q, p_sum, seen_before
    cdef Py_ssize_t[::1] order
    cdef signed char[::1] group
    cdef double sum_of_scales, sum_of_bias, eta, column_scale

    def __init__(
        self, problem, Matrix matrix, const double[::1] targets, RandomBits random, *, double nu,
        bint bias, double unit=1.0, Py_ssize_t round_steps, Py_ssize_t growth=2,
        Py_ssize_t max_steps=2**62, bint adaptive=True, double primal_rate=1.0,
        double dual_rate=1.0, Py_ssize_t refresh=0, start=None
    ):
        cdef Py_ssize_t g
        cdef SumTree tree
        self.problem, self.matrix, self.columns = problem, matrix, matrix.transposed()
        self.computed = matrix.is_computed
        self.targets, self.random = targets, random
        self.bias, self.adaptive, self.unit = bias, adaptive, unit
        self.primal_rate, self.dual_rate = primal_rate, dual_rate
        self.rounds = first_round(round_steps, growth, max_steps)
        self.n, self.d, self.row = matrix.n_rows, matrix.n_columns, -1
        self.constant = 0 if bias else matrix.constant
        self.n_weights = self.d + (self.constant != 0)
        self.log_n = log(max(2.0, self.n))
        self.n_full = <Py_ssize_t> floor(nu * self.n / 2)
        self.remaining = nu * self.n - 2 * self.n_full
        if refresh == 0:
            per_step = <double> matrix.n_stored / self.n + <double> matrix.n_stored / self.d
            refresh = max(1, round(self.n / max(1.0, per_step)))
            if self.n_full == 0 and self.remaining == 0:
                refresh = 2**62
        self.refresh = refresh
        self.longest_column = self.columns.longest_row
        self.u = np.zeros(self.n_weights) if start is None else np.array(start[0], dtype=np.float64)
        self.u_before = np.zeros(self.n_weights)
        self.q = np.full(self.n, 1.0 / self.n) if start is None else np.array(start[1])
        self.p_sum, self.seen_before = np.zeros(self.n), np.zeros(self.n)
        self.group = np.zeros(self.n, np.int8)
        self.order = np.arange(self.n)
        self.u_tree = SumTree(np.square(self.u))
        self.u_nodes = &self.u_tree.nodes
        self.trees = [SumTree(np.zeros(self.n)) for _ in range(GROUPS)]
        for g in range(GROUPS):
            tree = self.trees[g]
            self.nodes[g] = &tree.nodes
            self.factor[g] = 1
            self.slack[g] = 2 if g in (2, 3) else 0
            self.label[g] = -1 if g in (1, 3) else 1
        self.slack[LAST] = self.remaining
        with nogil:
            self._select()

    @property
    def objective(self):
        """Where the driver finds what certificates read."""
        return self.problem

    @property
    def work(self):
        """Feature values read, and one for every step."""
        return self.accesses + self.n_iter

    def advance(self, Py_ssize_t limit):
        """Go on until the round ends, then return True, or until a step might exceed `limit`."""
        cdef bint ended
        if is_over(&self.rounds):
            if not begin_longer(&self.rounds):
                return True
            self._begin_round()
        with nogil:
            ended = self._take_steps(limit)
        return ended

    def _begin_round(self):
        """Begin new means, p at the last one: weights near 0 would not return by smaller steps."""
        self._settle_all()
        self.q = np.asarray(self.p_sum) / np.sum(self.p_sum)
        with nogil:
            self._place()
        self.p_sum[:] = 0
        self.u_before[:] = 0
        self.sum_of_scales = self.sum_of_bias = 0

    cdef int _take_steps(self, Py_ssize_t limit) except -1 nogil:
        """Steps to the end of the round, then True, or until one might exceed the limit."""
        while not is_over(&self.rounds):
            self._prepare_step()
            if self.accesses + line_size(&self.matrix.rows, self.row) + self.longest_column > limit:
                return False
            self._take_step()
        return True

    def step(self):
        """Take one step, whatever it reads; return the row and the column drawn (-1: none)."""
        cdef Py_ssize_t i
        self._prepare_step()
        i = self.row
        return i, self._take_step()

    cdef void _prepare_step(self) noexcept nogil:
        """Select the rows with slack where that is due, and draw a row."""
        if self.since_refresh >= self.refresh or self._leaves_range():
            self._select()
        if self.row < 0:
            self.row = self._draw_row()

    cdef Py_ssize_t _take_step(self) except -2 nogil:
        """Take the step of the row drawn; return the column drawn, -1 for none."""
        cdef Py_ssize_t j
        if self.computed:
            with gil:
                self.matrix.hold((self.row,))
        j = self._add_row(self.row)
        if self.computed and 0 <= j < self.d:
            with gil:
                self.columns.hold((j,))
        self._reweight(j)
        self.row = -1
        return j

    cdef double _total(self) noexcept nogil:
        cdef double total = 0
        cdef Py_ssize_t g
        for g in range(GROUPS):
            total += self.factor[g] * total_weight(self.nodes[g])
        return total

    cdef bint _leaves_range(self) noexcept nogil:
        """Whether weights or factors want to be scaled, or the sums of factors begun anew."""
        cdef double total = self._total()
        cdef Py_ssize_t g
        if total < SMALL_FACTOR or total > 1 / SMALL_FACTOR:
            return True
        for g in range(GROUPS):
            if self.factor[g] < SMALL_FACTOR or self.factor[g] > 1 / SMALL_FACTOR:
                return True
            if self.factor[g] < SMALL_SHARE * self.seen[g] * total \
                    and total_weight(self.nodes[g]) > 0:
                return True
        return False

    cdef Py_ssize_t _draw_row(self) noexcept nogil:
        """A row by p: its group by the groups' masses, then the row."""
        cdef double mass = uniform(self.random.bits) * self._total()
        cdef double weight
        cdef Py_ssize_t g, last = -1
        for g in range(GROUPS):
            weight = self.factor[g] * total_weight(self.nodes[g])
            if weight > 0:
                last = g
                if mass < weight:
                    break
                mass -= weight
        return draw_index(self.nodes[last], uniform(self.random.bits))

    cdef double _sign_of_bias(self) noexcept nogil:
        """sign(p'y)"""
        cdef double balance = 0
        cdef Py_ssize_t g
        for g in range(GROUPS):
            balance += self.label[g] * self.factor[g] * total_weight(self.nodes[g])
        return 1 if balance > 0 else -1 if balance < 0 else 0

    cdef Py_ssize_t _add_row(self, Py_ssize_t i) noexcept nogil:
        """u += step y_i x_i; return the column drawn by the new w, -1 if that is 0."""
        cdef double steps = self.n_iter + 1 if self.adaptive else self.rounds.length
        cdef double step = self.targets[i] * self.primal_rate / (sqrt(2 * steps) * self.unit)
        cdef double square, scale
        cdef Line x = line_at(&self.matrix.rows, i)
        cdef Py_ssize_t k, j
        self.eta = min(LARGEST_ETA, self.dual_rate * sqrt(self.log_n / steps))
        for k in range(x.size):
            self._add_entry(entry_index(&x, k), step * entry_value(&x, k))
        if self.constant != 0:
            self._add_entry(self.d, step * self.constant)
        self.accesses += x.size
        square = total_weight(self.u_nodes)
        scale = 1 / max(1.0, sqrt(square))
        self.sum_of_scales += scale
        if not square > 0:
            return -1
        j = draw_index(self.u_nodes, uniform(self.random.bits))
        self.column_scale = square * scale / (self.u[j] * self.unit)
        return j

    cdef void _add_entry(self, Py_ssize_t j, double change) noexcept nogil:
        self.u_before[j] += change * self.sum_of_scales  # what u was stays in the mean
        self.u[j] += change
        self.sum_of_values += change
        set_weight(self.u_nodes, j, self.u[j] * self.u[j])

    cdef void _reweight(self, Py_ssize_t j) noexcept nogil:
        """Multiply all weights by 1 - eta v + eta^2 v^2: what a group has in common, column j."""
        cdef double total = self._total(), bias = self._sign_of_bias() if self.bias else 0
        cdef double common[GROUPS]
        cdef double base[GROUPS]
        cdef double v, weight
        cdef Line x
        cdef Py_ssize_t g, k, i
        cdef bint at_once = False
        for g in range(GROUPS):
            base[g] = self.slack[g] + self.label[g] * bias
            if j == self.d:
                base[g] += self.label[g] * self.constant * self.column_scale
            common[g] = variance_bounded(self.eta * base[g])
            self.seen[g] += self.factor[g] / total
        if 0 <= j < self.d:
            x = line_at(&self.columns.rows, j)
            at_once = x.size * MANY >= self.n
            for k in range(x.size):
                prefetch_entry(&x, k + ENTRIES_AHEAD)
                i = entry_index(&x, k)
                g = self.group[i]
                self.sum_of_values += entry_value(&x, k)
                v = self.targets[i] * entry_value(&x, k) * self.column_scale + base[g]
                weight = self.nodes[g].level[0][i]
                self._settle(i, g, weight)
                weight *= variance_bounded(self.eta * v) / common[g]
                weight = weight if weight > TINY else TINY
                if at_once:
                    self.nodes[g].level[0][i] = weight
                else:
                    set_weight(self.nodes[g], i, weight)
            self.accesses += x.size
        if at_once:
            for g in range(GROUPS):
                rebuild_sums(self.nodes[g])
        for g in range(GROUPS):
            self.factor[g] *= common[g]
        self.sum_of_bias += bias
        self.full_accesses += self.n + self.d
        self.since_refresh += 1
        self.rounds.taken += 1
        self.n_iter += 1

    @final
    cdef void _settle(self, Py_ssize_t i, Py_ssize_t g, double weight) noexcept nogil:
        """Count in the mean of p what row i had since it was last looked at."""
        self.p_sum[i] += weight * (self.seen[g] - self.seen_before[i])
        self.seen_before[i] = self.seen[g]

    cdef void _settle_all(self) noexcept nogil:
        cdef Py_ssize_t i, g
        for i in range(self.n):
            g = self.group[i]
            self._settle(i, g, self.nodes[g].level[0][i])

    cdef void _gather(self) noexcept nogil:
        """q = p"""
        cdef double total = self._total()
        cdef Py_ssize_t i, g
        for i in range(self.n):
            g = self.group[i]
            self.q[i] = self.nodes[g].level[0][i] * self.factor[g] / total

    cdef void _select(self) noexcept nogil:
        """Give slack to the rows of the largest p."""
        if self.n_iter > 0:
            self._settle_all()
            self._gather()
        self._place()

    cdef void _place(self) noexcept nogil:
        """Let p be q, give slack to the rows where it is largest, and every group a factor of 1."""
        cdef Py_ssize_t n_slack = self.n_full + (self.remaining > 0), k, i, g
        if 0 < n_slack < self.n:
            select_first(&self.q[0], &self.order[0], self.n, n_slack)
        for i in range(self.n):
            self.nodes[self.group[i]].level[0][i] = 0
            self._join(i, self.targets[i] < 0)
        for k in range(n_slack):
            i = self.order[k]
            self.nodes[self.group[i]].level[0][i] = 0
            self._join(i, LAST if k == self.n_full else 2 + (self.targets[i] < 0))
        if self.remaining > 0:
            self.label[LAST] = self.targets[self.order[self.n_full]]
        for g in range(GROUPS):
            self.factor[g] = 1
            self.seen[g] = 0
            rebuild_sums(self.nodes[g])
        self.since_refresh = 0

    @final
    cdef void _join(self, Py_ssize_t i, Py_ssize_t g) noexcept nogil:
        """Let row i be of group g."""
        self.group[i] = <signed char> g
        self.nodes[g].level[0][i] = max(self.q[i], TINY)
        self.seen_before[i] = 0

    def means(self):
        """Return the means of w, of b and of p over this round (float64)."""
        if not np.isfinite(self.sum_of_values):
            raise NotFinite
        steps = self.rounds.taken
        if steps == 0:
            return self.iterate()
        self._settle_all()
        w = (self.sum_of_scales * np.asarray(self.u) - np.asarray(self.u_before)) / steps
        p = np.asarray(self.p_sum)
        return w, self.sum_of_bias / steps, p / p.sum()    # exactly a distribution: it must bound

    def iterate(self):
        """Return w, b and p as they are now (float64)."""
        u = np.array(self.u)
        self._gather()
        bias = self._sign_of_bias() if self.bias else 0.0
        return u / max(1.0, np.linalg.norm(u)), bias, np.array(self.q)

    def state(self):
        """Return u and p, for `start`."""
        self._gather()
        return np.array(self.u), np.array(self.q)

    def model(self):
        """Return the means of w, for rows as they are given, and of b if there is one."""
        w, b, _ = self.means()
        return np.append(w / self.unit, b) if self.bias else w / self.unit

    def certify(self, rounded):
        """Return the model, its primal value and the dual value of p, after one pass."""
        return self.problem.certificate(self.matrix, *self.means(), rounded)
