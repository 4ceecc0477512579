"""The sublinear primal-dual method in the space of a kernel.

Paper: Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010), section VI.

Objective: max_x min_p over p in the simplex, with Psi_i the image of row i, of

    ball    sum_i p_i y_i <Psi_i, x>                                   |x| <= 1
    hull    sum_i p_i (b_i + 2 y_i <Psi_i, x> + 2 r_i e_i) - |x|^2 - |e|^2

x = scale * sum_k a_k y_k Psi_k, e_k = scale * a_k r_k is known by the numbers a of rows drawn:

    for t = 1, 2, ..:
        v_i = <y_i Psi_i, x>, or an estimate;  multiply p(i) by 1 - eta v(i) + eta^2 v(i)^2
        draw rows i by p, add 1 / batch to a_i;  scale as in the ball and the hull of primal_dual

The x of a hull moves in a part of the steps only if that is asked for, as section III-A has it.

exact    v from the kernel rows of the rows drawn, whose sum is kept: n kernel values a new row.
sampled  v from estimates of the kernel rows of a few rows drawn by a, as many as make the variance
         about that of one (R = (scale * sum a)^2); |x|^2 from kernel values between rows drawn.

The mean of x over a round has coefficients that are a distribution but for a factor: it gives the
primal value and a dual value, in exact mode at no cost. The shares of the rows drawn give another.

Cost per step: exact d n for every row not drawn before; sampled R (d + q n), q columns for one
estimate, and d for every row drawn before.

Departures: mini-batches; kernel rows are kept while there is room; rounds of doubling length go on
from the last iterate; before a row is drawn, the first one is what x is made of; no estimate of
|x|^2, which section VI offers too. Kernel values are float32, as everywhere: a certificate holds to
their rounding.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport ceil, sqrt

import numpy as np

from sublinear._core.flat_sampler cimport FlatSampler, draw_entries, sum_blocks
from sublinear._core.kernel_estimators cimport KernelEstimator
from sublinear._core.kernel_rows cimport KernelRows
from sublinear._core.random cimport RandomBits, uniform
from sublinear._core.rounds cimport Rounds, begin_longer, first_round, is_over
from sublinear._core.saddle_solver cimport SaddleSolver
from sublinear._core.saddle_solver import as_is, dual_beside
from sublinear._core.sweeps cimport chance_to_move, dual_step, multiply_weights

cdef int MOST_ESTIMATES = 1024           # of kernel rows in one step


class KernelRowCache:
    """Rows of a kernel matrix, kept while there is room.

    Parameters
    ----------
    rows : KernelRows
    capacity : int
        How many rows are kept; those computed first go first.
    """

    def __init__(self, rows, capacity):
        self.rows, self.capacity, self.kept, self.n_computed = rows, capacity, {}, 0

    def of(self, wanted):
        """Return the rows of these different numbers (float32), in order."""
        missing = np.array([i for i in wanted if i not in self.kept], dtype=np.int64)
        found = {i: self.kept[i] for i in wanted if i in self.kept}
        if len(missing):
            block = self.rows.block(missing)[:, :self.rows.n_columns]
            self.n_computed += len(missing)
            found.update((i, np.array(row)) for i, row in zip(missing.tolist(), block, strict=True))
        for i in missing.tolist():
            if self.capacity > 0:
                if len(self.kept) >= self.capacity:
                    del self.kept[next(iter(self.kept))]
                self.kept[i] = found[i]
        return [found[i] for i in wanted]


cdef class KernelPrimalDual(SaddleSolver):
    """The method in rounds.

    Parameters
    ----------
    problem : object
        As for `primal_dual`, with `geometry` "ball" or "hull" and without caps; its `primal` gets
        x as an array that holds its length.
    rows : KernelRows
    row_sizes : ndarray of shape (n_rows,), int64
        Stored values of every row of the data.
    n_features : int
    random : RandomBits
    shift : float
        What is added to the kernel, for an intercept.
    unit : float
        About the largest length of an image.
    batch_size : int
        Rows drawn in one step.
    round_steps, growth, max_steps : int
        As for SIMBA, in steps of a batch.
    primal_rate, dual_rate : float
        x moves by primal_rate / sqrt(2 T), in the ball; eta is dual_rate * sqrt(log(n) / T), at
        most 0.3.
    estimator : KernelEstimator or None
        None: exact kernel rows.
    capacity : int
        How many kernel rows are kept.
    skips : bool, default=False
        Whether x moves in log(T) / sqrt(T log(n)) of the steps only, in the hull.

    Attributes
    ----------
    n_iter : int
        Steps, counted in rows drawn.
    accesses, full_accesses : int
        Feature values read for kernel values and estimates.
    """
    cdef readonly object rows, cache
    cdef readonly Py_ssize_t n_iter, accesses, full_accesses
    cdef RandomBits random
    cdef KernelEstimator estimator
    cdef FlatSampler weights, drawn_rows
    cdef object row_sizes, targets, offsets, ridge2, a, f, a_sum, f_sum
    cdef double[::1] payoffs
    cdef bint hull, has_begun, skips
    cdef Py_ssize_t n, d, n_stored, batch_size, longest
    cdef Rounds rounds
    cdef double shift, unit, primal_rate, dual_rate, eta, step, scale, square, balance
    cdef double balance_sum, move_chance

    most_unresolved = 3          # rounds double

    def __init__(
        self, problem, KernelRows rows, row_sizes, Py_ssize_t n_features, RandomBits random, *,
        double shift, double unit, Py_ssize_t batch_size, Py_ssize_t round_steps,
        Py_ssize_t growth, Py_ssize_t max_steps, double primal_rate, double dual_rate,
        KernelEstimator estimator=None, Py_ssize_t capacity=0, bint skips=False
    ):
        super().__init__(problem)
        self.rows, self.random, self.estimator = rows, random, estimator
        self.cache = KernelRowCache(rows, capacity)
        self.row_sizes, self.n_stored = row_sizes, row_sizes.sum()
        self.longest = row_sizes.max()
        self.n, self.d = rows.n_rows, n_features
        self.shift, self.unit, self.hull = shift, unit, problem.geometry == "hull"
        ones = np.ones(self.n)
        self.targets = ones if problem.targets is None else problem.targets
        self.offsets = 0 * ones if problem.offsets is None else problem.offsets
        self.ridge2 = 0 * ones if problem.ridge is None else problem.ridge**2
        self.batch_size, self.skips = batch_size, skips
        self.rounds = first_round(round_steps, growth, max_steps)
        self.primal_rate, self.dual_rate = primal_rate, dual_rate
        self.weights, self.drawn_rows = FlatSampler(self.n), FlatSampler(self.n)
        self.weights.chances[:] = self.first_distribution(self.n)
        self.weights.update()
        self.a, self.f, self.payoffs = np.zeros(self.n), np.zeros(self.n), np.zeros(self.n)
        self.a_sum, self.f_sum = np.zeros(self.n), np.zeros(self.n)
        self.has_begun = not self.hull    # the hull begins at rows drawn, the ball at 0
        self._begin_round()

    def _begin_round(self):
        """Begin new means."""
        self.a_sum[:] = 0
        self.f_sum[:] = 0
        self.balance_sum = 0
        self.eta = dual_step(self.dual_rate, self.n, self.rounds.length)
        self.move_chance = chance_to_move(self.n, self.rounds.length)
        self.step = self.primal_rate / (sqrt(2.0 * self.rounds.length) * self.unit)
        self._rescale()

    @property
    def work(self):
        """Feature values read, and n for every step."""
        return self.accesses + self.n * (self.n_iter // self.batch_size)

    def advance(self, Py_ssize_t limit):
        """Go on until the round ends, then return True, or until a step might exceed `limit`."""
        if is_over(&self.rounds):
            if not begin_longer(&self.rounds):
                return True
            self._begin_round()
        while not is_over(&self.rounds):
            if self.accesses + self._most() > limit:
                return False
            PyErr_CheckSignals()
            if not self.has_begun:
                self._add_drawn()
                self.has_begun = True
                continue
            self._evaluate()
            self._reweight()
            if not self.skips or uniform(self.random.bits) < self.move_chance:
                self._add_drawn()
        return True

    def _most(self):
        """The most feature values that the next step may read."""
        if self.estimator is None:
            return self.batch_size * self.n_stored
        support = np.count_nonzero(self.a) + self.batch_size
        draws = self.estimator.most_draws()
        return self._n_estimates() * (self.longest + draws * self.n) + (
            self.batch_size * self.longest * (support + 1))

    def _n_estimates(self):
        """Estimates of kernel rows whose mean, times the sum of coefficients, has variance 1."""
        return int(max(1, min(MOST_ESTIMATES, ceil((self.scale * self.a.sum()) ** 2))))

    def _exact(self, a, f, balance):
        """<y_i Psi_i, x> + r_i e_i for coefficients a, whose kernel products are f."""
        return self.targets * (f + self.shift * balance) + self.ridge2 * a

    def _evaluate(self):
        """Payoffs of x, or estimates of them; add x to the means."""
        if self.estimator is None:
            payoffs = self.scale * self._exact(self.a, self.f, self.balance)
        else:
            f = self._estimated() if self.a.any() else np.zeros(self.n)
            payoffs = self._exact(self.scale * self.a, f, self.scale * self.balance)
        if self.hull:
            payoffs = self.offsets + 2 * payoffs - self.scale**2 * self.square
        self.payoffs = payoffs
        self.a_sum += self.scale * self.a
        self.f_sum += self.scale * self.f
        self.balance_sum += self.scale * self.balance
        self.rounds.taken += 1
        self.n_iter += self.batch_size

    def _estimated(self):
        """An estimate of scale * sum_k a_k y_k k(k, .)."""
        cdef Py_ssize_t before = self.estimator.accesses, before_full = self.estimator.full_accesses
        cdef Py_ssize_t count = self._n_estimates(), k, _
        f = np.zeros(self.n)
        self.drawn_rows.chances[:] = self.a
        share = self.scale * self.drawn_rows.update() / count
        for _ in range(count):
            k = draw_entries(&self.drawn_rows.sums, uniform(self.random.bits)).start
            self.estimator.add(k, share * self.targets[k], f, self.random)
        self.accesses += self.estimator.accesses - before
        self.full_accesses += self.estimator.full_accesses - before_full
        return f

    cdef void _reweight(self) noexcept:
        cdef double rate = self.eta / (self.unit * self.unit if self.hull else self.unit)
        multiply_weights(self.weights.sums.chance, &self.payoffs[0], rate, self.n)
        sum_blocks(&self.weights.sums)

    def _add_drawn(self):
        """Draw a batch of rows by p and add them to x."""
        cdef Py_ssize_t _
        drawn = [
            draw_entries(&self.weights.sums, uniform(self.random.bits)).start
            for _ in range(self.batch_size)
        ]
        numbers, counts = np.unique(drawn, return_counts=True)
        parts = counts / self.batch_size
        self.balance += parts @ self.targets[numbers]
        if self.estimator is None:
            self._add_kernel_rows(numbers.tolist(), parts)
        else:
            self._add_by_square(numbers, parts)
        self._rescale()

    def _add_kernel_rows(self, numbers, parts):
        before = self.cache.n_computed
        for k, part, row in zip(numbers, parts, self.cache.of(numbers), strict=True):
            self.f += (part * self.targets[k]) * row
        computed = self.cache.n_computed - before
        self.accesses += computed * self.n_stored
        self.full_accesses += computed * self.n * self.d
        self.a[numbers] += parts
        self.square = self.a @ self._exact(self.a, self.f, self.balance)

    def _add_by_square(self, numbers, parts):
        """|x + new|^2 = |x|^2 + 2 <x, new> + |new|^2, by kernel values between rows drawn."""
        support = np.flatnonzero(self.a)
        known = np.union1d(support, numbers).astype(np.int64)
        values = self.rows.block(numbers.astype(np.int64), known)[:, :len(known)] + self.shift
        values = values * self.targets[numbers][:, None] * self.targets[known]
        values += (numbers[:, None] == known) * self.ridge2[known]
        after = self.a[known]
        after[np.searchsorted(known, numbers)] += parts
        self.square += parts @ (values @ (self.a[known] + after))
        self.a[numbers] += parts
        self.accesses += int(self.row_sizes[known].sum())
        self.full_accesses += len(known) * self.d

    def _rescale(self):
        """x in the ball, or the mean of the rows drawn."""
        if self.hull:
            self.scale = 1 / max(1e-300, self.a.sum())
        else:
            self.scale = self.step / max(1.0, self.step * sqrt(max(0.0, self.square)))

    def means(self):
        """Return the mean of x over this round: coefficients, kernel products, their balance.

        Where that is 0, x as it is now; before a row is drawn the first one stands for it. Products
        that are not known are None.
        """
        cdef Py_ssize_t steps = self.rounds.taken
        exact = self.estimator is None
        if steps > 0 and self.a_sum.any():
            f = self.f_sum / steps if exact else None
            return self.a_sum / steps, f, self.balance_sum / steps
        if self.a.any():
            f = self.scale * self.f if exact else None
            return self.scale * self.a, f, self.scale * self.balance
        first = np.zeros(self.n)
        first[0] = 1
        return first, None, self.targets[0]

    def iterate(self):
        """Return the coefficients of x as it is now, and its length."""
        return self.scale * self.a, self.scale * sqrt(max(0.0, self.square))

    def best_distribution(self):
        """Return the p of the best dual value, else the shares of the rows drawn."""
        if self.best_p is not None:
            return self.best_p
        a = self.a if self.a.any() else self.means()[0]
        return a / a.sum()

    def model(self):
        """Return the coefficients of the kernel functions, and the intercept."""
        a, _, balance = self.means()
        return np.append(a * self.targets, self.shift * balance)

    def certify(self, rounded):
        """Return the mean of x as `model` does, its primal value, the best dual value so far."""
        (a, payoffs, length, balance), *rest = self._distributions()
        x = np.array([length])
        self.take_dual(self.problem.dual(a, x), a)
        for p, _, other, _ in rest:
            self.take_dual(self.problem.dual(p, np.array([other])), p)
        model, primal = self.problem.primal(x, payoffs, 0.0, as_is)
        factor = model[0] / length if length > 0 else float(self.hull)
        model = factor * np.append(a * self.targets, self.shift * balance)
        dual = dual_beside(primal, self.best_dual, self.problem.kernel_rounding)
        return model, primal, dual

    def _distributions(self):
        """Return the mean of x and the rows drawn as distributions.

        Of each p, y_i <Psi_i, sum_k p_k y_k Psi_k>, the length of that sum, p'y. The mean of x
        weighs rows the more the earlier they were drawn: where p has far to go, that is behind.
        """
        found = [self.means()]
        if self.a.any():
            f = self.f if self.estimator is None else None
            found.append((self.a, f, self.balance))
        totals = [a.sum() for a, _, _ in found]
        shares = [a / total for (a, _, _), total in zip(found, totals, strict=True)]
        if any(f is None for _, f, _ in found):
            products = self._products(shares)
        else:
            products = [f / total for (_, f, _), total in zip(found, totals, strict=True)]
        result = []
        for p, f, (_, _, balance), total in zip(shares, products, found, totals, strict=True):
            payoffs = self.targets * (f + self.shift * (balance / total))
            if not np.isfinite(payoffs).all():
                raise ValueError(
                    "kernel values leave the range of floating-point numbers: scale X")
            result.append((p, payoffs, sqrt(max(0.0, p @ payoffs)), balance / total))
        return result

    def _products(self, distributions):
        """sum_k p_k y_k k(k, .) for each p, by exact kernel rows."""
        support = np.flatnonzero(np.sum(distributions, axis=0))
        f = np.zeros((len(distributions), self.n))
        self.rows.add_long_product(
            support, (np.array(distributions) * self.targets)[:, support], f)
        self.problem.accesses += len(support) * self.n_stored
        return f
