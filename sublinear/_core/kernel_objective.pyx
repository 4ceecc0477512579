"""The objective of a kernel machine, its dual, and the gap between them, from margins.

    P(f, b) = 1/2 |f|^2 + sum_i c_i l(f(x_i) + b, y_i),       c_i = C s_i
    D(v)    = - 1/2 v' K v - sum_i c_i l*(-v_i / c_i, y_i)

f lies in the space of the kernel and has the form f_v = sum_j v_j k(x_j, .) at the optimum. This
is the objective of sublinear._core.objective times C W, W = sum_i s_i, with alpha = 1 / (C W) and
v_i = c_i a_i. A solver keeps v and the margins K v, so that both values cost O(n).

Without an intercept b = 0. One that is penalised by b^2 / (2 shift) is that of the kernel
k + shift. One that is not, `free_intercept`, asks for sum_i v_i = 0; given f, the best b is that of
sublinear._core.free_intercept.

Kernel values are float32: margins are (K + E) v for a K that nobody has computed. Certificates are
for K all the same, as far as the entries of E are independent of each other and of v, with
deviations e sqrt(K_ii K_jj), e measured by the rows. Equal rows, which have the same errors, count
as one with the sum of their v. With |v|_K^2 = sum_j K_jj v_j^2 the margin of
i is then off by e sqrt(K_ii) |v|_K, and q'E v is e sqrt(2) |q|_K |v|_K. SAFE times what that does
to D is taken off D; what it does to P is `model_error`, which is taken off the best D as long as
that model is the best one. Products add errors of their own, of the rows' unit of rounding times
the changes they took. Where all that is too much, `refine` makes kernel values float64.

What centring takes off kernel values comes back in float64, o_i + o_j for the examples i and j. Far
from the origin these are large, though coefficients that nearly sum up to 0 leave little of them:
their rounding moves all margins together, by `offset_error`.
"""
from libc.math cimport INFINITY, NAN, fabs, isnan, sqrt

import numpy as np

from sublinear._core.free_intercept cimport FreeIntercept, weighted_slope

from sublinear._core.blas import one_blas_thread
from sublinear._core.gram import factor_by_columns, pivoted_factor
from sublinear._core.kernel_choice import SAMPLE, spread_out
from sublinear._core.kernel_rows import ExactRows
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective

cdef double UNBALANCED = 1e-9   # |sum v| / sum |v| that rounding may leave
cdef double SAFE = 10           # typical errors: entries are not quite independent
cdef double FAR = 4             # typical errors that a margin may be off by where a slope is taken
cdef double OF_OFFSETS = 2.0**-52   # of an offset times changes: what rounding does to a margin
cdef double ABOVE_ZEROS = 1e-6  # relative: how far a dual value may exceed that of zeros


cdef class KernelObjective(BaseObjective):
    """A regularised loss over the examples of a kernel matrix.

    Parameters
    ----------
    rows : KernelRows
        Square.
    targets : ndarray of shape (n_rows,), float64
    loss : Loss
    scales : ndarray of shape (n_rows,), float64
        c_i, not negative.
    shift : float, default=0.0
        The kernel is k + shift: a penalised intercept.
    free_intercept : bool, default=False
    n_threads : int, default=1
    memory : float, default=inf
        Bytes that a kernel matrix in float64, or a factor of it, may take.
    square_memory : float, default=inf
        The same where a matrix and a factor of it share the memory of one.

    Attributes
    ----------
    accesses : int
        Kernel evaluations for certificates: none where the solver keeps the margins of its model.
    model_error : float
        How far the last primal value may be below the model's, because of rounding.
    rounding, relative_rounding : float
        The part of the last certificate's gap that makes up for rounding; the same relative to P.
    """

    def __init__(
        self, KernelRows rows, targets, Loss loss, scales, *, double shift=0.0,
        bint free_intercept=False, int n_threads=1, double memory=INFINITY,
        double square_memory=INFINITY
    ):
        if rows.diagonal is None:
            raise ValueError("the rows and columns of the kernel matrix must be the same examples")
        self.rows, self.loss, self.n_rows = rows, loss, rows.n_rows
        self.targets = self.targets_array = targets
        self.scales = self.scales_array = scales
        if self.targets.shape[0] != self.n_rows or self.scales.shape[0] != self.n_rows:
            raise ValueError(f"{self.n_rows} rows, but {self.targets.shape[0]} targets and "
                             f"{self.scales.shape[0]} scales")
        self.shift, self.free_intercept, self.n_threads = shift, free_intercept, n_threads
        self.memory, self.square_memory = memory, square_memory
        self.value_of_zeros, self.factor_error = NAN, 0
        self.search = FreeIntercept(loss, targets, scales) if free_intercept else None

    @property
    def keeps_sum(self):
        """Whether steps are to keep sum v, but for what a penalised intercept takes up."""
        return self.free_intercept or self.shift > 0

    @property
    def has_multiplier(self):
        """As of Objective: whether a constraint ties the coefficients."""
        return self.free_intercept

    def diagonal(self):
        """Return the diagonal that belongs to `block` (float64)."""
        return self.rows.centred_diagonal if self.keeps_sum else self.rows.diagonal

    def block(self, rows):
        """Return the kernel between these rows as KernelRows.block.

        Where the sum of changes is kept it is the centred one. A penalised intercept then comes
        last, as an example that takes up what changes sum up to, with k(0, 0) = shift and what
        centring took off in k(0, i).
        """
        if not self.keeps_sum:
            return self.rows.block(rows, rows, self.n_threads)
        if self.free_intercept:
            return self.rows.centred_block(rows, self.n_threads)
        count = len(rows)
        values = self.rows.centred_block(np.concatenate([rows, rows[:1]]), self.n_threads)
        offsets = self.rows.offsets[rows] if self.rows.is_centred else 0
        values[count, :count] = values[:count, count] = -offsets
        values[count, count] = self.shift
        return values

    @property
    def is_exact(self):
        """Whether kernel values are float64."""
        return self.rows.is_exact

    @property
    def keeps_matrix(self):
        """Whether there is room for a kernel matrix in float64."""
        return 8.0 * self.n_rows**2 <= self.memory

    @property
    def exact_rows(self):
        """The kernel matrix in float64."""
        if self.is_exact:
            return self.rows
        if self.float64_rows is None:
            self.float64_rows = ExactRows(self.rows, self.keeps_matrix)
        return self.float64_rows

    def refine(self):
        """Let kernel values be float64 from now on."""
        self.rows = self.exact_rows

    @property
    def most_rank(self):
        """A bound on the rank of `products_of_images`."""
        return min(self.n_rows, self.rows.most_rank)

    @property
    def factor_bytes(self):
        """What a factor of `products_of_images` may take."""
        return 8.0 * self.n_rows * self.most_rank

    @property
    def keeps_factor(self):
        """Whether there is room for it."""
        return self.factor_bytes <= self.memory

    def products_of_images(self, rows, columns):
        """Return what examples have for products, up to terms a free intercept makes up for."""
        products = self.exact_rows.exact_block(rows, columns, self.n_threads)
        if not self.free_intercept:
            self.exact_rows.add_offsets(products, rows, columns)
        return products

    def factored(self):
        """Return a pivoted factor of the products of all images, and its pivots."""
        order = np.arange(self.n_rows)
        if self.keeps_matrix:
            return pivoted_factor(self.products_of_images(order, order))
        return factor_by_columns(self.products_of_images, self._squared_lengths(), self.most_rank)

    def _squared_lengths(self):
        """Return the products of the images with themselves."""
        if self.free_intercept:
            return self.rows.centred_diagonal
        return self.rows.diagonal

    def use_factor(self, factor):
        """Let margins come from a factor where there is no room for the kernel matrix.

        What rounding has done to it is measured, as for other kernel values.
        """
        if self.keeps_matrix:
            return
        numbers = spread_out(self, SAMPLE)
        off = factor[numbers] @ factor[numbers].T - self.products_of_images(numbers, numbers)
        size = np.mean(self.squared_sizes()[numbers])
        error = sqrt(np.mean(off**2)) / max(size, 1e-300)
        self.use_products(lambda coefficients: factor @ (coefficients @ factor), error)

    def use_products(self, products, double error=0.0):
        """Let margins come from a function that multiplies `products_of_images` by coefficients.

        None: from the rows again.
        """
        self.products, self.factor_error = products, error

    @property
    def has_products(self):
        """Whether there is such a function."""
        return self.products is not None

    def linear(self, features, bint has_shift=False):
        """Return the Objective of a linear model whose rows have the products of the examples.

        An intercept is a constant column, which rounding of products cannot hide, however little
        it is penalised.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_features)
            Contiguous.
        has_shift : bool
            Whether the products are those of the kernel with its shift: no column then.
        """
        scales = self.scales_array
        constant = 1.0 if self.free_intercept else 0.0 if has_shift else sqrt(self.shift)
        return Objective(
            Matrix(features, constant), self.targets_array, self.loss,
            1 / np.sum(scales), scales, self.n_threads,
            intercept_penalty=0.0 if self.free_intercept else 1.0)

    def of_images(self, coefficients):
        """Return coefficients of those images as coefficients of the examples."""
        # centred images sum up to 0, and coefficients that do have no use for a centre
        is_moved = self.free_intercept and self.rows.is_centred
        return coefficients - coefficients.mean() if is_moved else coefficients

    def squared_sizes(self):
        """Return K_ii as errors of kernel values scale with it, not negative (float64)."""
        return np.maximum(self.rows.centred_diagonal, 0.0)

    def make_feasible(self, double[::1] coefficients):
        """Move every v_i to the nearest point where the conjugate is finite, in place."""
        cdef Py_ssize_t i
        cdef double scale
        with nogil:
            for i in range(self.n_rows):
                scale = self.scales[i]
                if scale > 0:
                    coefficients[i] = scale * self.loss.nearest_dual(
                        coefficients[i] / scale, self.targets[i])
                else:
                    coefficients[i] = 0

    def balance(self, double[::1] coefficients):
        """Make sum_i v_i vanish, in place: shrink those of the sign that prevails.

        Only those inside their intervals, if that is enough.
        """
        values, form = np.asarray(coefficients), self.loss.dual_form()
        bound = np.inf if form is None else form.bound
        excess = np.sum(values)
        prevailing = values > 0 if excess > 0 else values < 0
        inside = np.abs(values) / bound < self.scales_array
        for chosen in (prevailing & inside, prevailing):
            total = np.abs(values[chosen]).sum()
            if total > 0 and total >= abs(excess):
                values[chosen] *= 1 - abs(excess) / total
                return

    def best_intercept(self, const double[::1] margins):
        """Return the intercept that is best for these margins: 0 unless it is free.

        The next search begins around it.
        """
        if not self.free_intercept:
            return 0.0
        self.search.start = self._best_intercept(margins)
        return self.search.start

    cdef double _best_intercept(self, const double[::1] margins):
        """The best free intercept; the next search begins where this one did."""
        cdef double best
        with nogil:
            best = self.search.best(margins)
        return best

    def values(self, const double[::1] coefficients, const double[::1] margins, double intercept):
        """Return P and D.

        Parameters
        ----------
        coefficients : ndarray of shape (n_rows,), float64
            v, feasible.
        margins : ndarray of shape (n_rows,), float64
            (K + shift) v.
        intercept : float
            b, not penalised; 0 unless it is free.

        Returns
        -------
        primal, dual : float
            dual is -inf where a free intercept finds v not balanced.
        """
        cdef double norm = 0, loss = 0, conjugate = 0, total = 0, size = 0, v, scale, y
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_rows):
                v, scale, y = coefficients[i], self.scales[i], self.targets[i]
                norm += v * margins[i]
                total += v
                size += fabs(v)
                if scale > 0:
                    loss += scale * self.loss.value(margins[i] + intercept, y)
                    conjugate += scale * self.loss.conjugate(v / scale, y)
        primal, dual = norm / 2 + loss, -norm / 2 - conjugate
        if self.free_intercept and fabs(total) > UNBALANCED * size:
            dual = -np.inf
        return primal, dual

    def errors(
        self, const double[::1] coefficients, const double[::1] margins, double intercept,
        double moved=0.0
    ):
        """Return what rounding of kernel values may have done to P and D.

        Parameters
        ----------
        coefficients, margins, intercept
            As for `values`.
        moved : float, default=0.0
            The sum of `square_of` all changes that products took, if it is more than that of the
            coefficients.

        Returns
        -------
        primal, dual : float
        """
        cdef const double[::1] sizes = self.squared_sizes()
        cdef double error = max(self.rows.error, self.factor_error), unit = self.rows.unit
        cdef double square = 0, own = 0, total = 0, deviation
        cdef double growth = 0, slopes = 0, raised = 0, lowered = 0
        cdef double e, z, y, scale, above, below, slope_above, slope_below, half
        cdef double typical, together, value
        cdef double[:, ::1] ends = np.empty((2, self.n_rows))    # of what slopes may be
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_rows):
                square += sizes[i] * coefficients[i] * coefficients[i]
                own += coefficients[i] * coefficients[i]
                total += coefficients[i]
        square = self._added_up(sizes, coefficients, square)
        own = self._added_up(np.ones(self.n_rows), coefficients, own)
        moved = max(moved, square)
        deviation = sqrt(error * error * square + unit * unit * moved)
        together = self.offset_error(own, moved)
        with nogil:
            for i in range(self.n_rows):
                scale, y, z = self.scales[i], self.targets[i], margins[i] + intercept
                e, half = deviation * sqrt(sizes[i]), coefficients[i] / 2
                if scale > 0 and e > 0:
                    above, below = self.loss.value(z + e, y), self.loss.value(z - e, y)
                    growth += scale * ((above + below) / 2 - self.loss.value(z, y))
                if scale > 0 and together > 0:
                    value = self.loss.value(z, y)
                    raised += scale * (self.loss.value(z + together, y) - value)
                    lowered += scale * (self.loss.value(z - together, y) - value)
                # a kink may be farther than a typical error
                slope_above = half + weighted_slope(self.loss, scale, z + FAR * e, y)
                slope_below = half + weighted_slope(self.loss, scale, z - FAR * e, y)
                slopes += sizes[i] * max(slope_above * slope_above, slope_below * slope_below)
                ends[0, i], ends[1, i] = slope_above, slope_below
        slopes = self._added_up(sizes, ends[0], self._added_up(sizes, ends[1], slopes))
        typical = sqrt(2 * error * error * square + unit * unit * moved)
        growth = max(0.0, growth) + max(0.0, raised, lowered)
        together *= fabs(total)    # what they do to v' K v
        return (
            growth + SAFE * typical * sqrt(slopes) + together,
            SAFE * typical * sqrt(square) / 2 + together)

    def square_of(self, changes, rows):
        """Return sum K_ii v_i^2 of the changes v of some rows, or that of sums of v if it is more.

        Sums of those of equal rows: they have the same errors.
        """
        sizes = self.squared_sizes()[rows]
        return self._added_up(sizes, changes, np.sum(sizes * changes**2), rows)

    def _added_up(self, sizes, values, double square, rows=slice(None)):
        """Return `square`, sum K_ii v_i^2, or that of sums of v over equal rows if it is more.

        Errors of coefficients that cancel are not quite the same.
        """
        if self.rows.groups is None:
            return square
        groups = self.rows.groups[rows]
        sums = np.bincount(groups, values)
        return max(square, np.sum(np.multiply(sizes, values) * sums[groups]))

    def offset_error(self, double own, double moved):
        """Return how far rounding of what centring took off may move all margins together.

        Parameters
        ----------
        own : float
            The sum of the squared coefficients, those of equal rows added up.
        moved : float
            As for `errors`.
        """
        if not self.rows.is_centred:
            return 0.0
        size = np.mean(self.squared_sizes())
        changes = max(own, moved / size) if size > 0 else own
        return OF_OFFSETS * np.abs(self.rows.offsets).max() * sqrt(changes)

    def certified(
        self, double primal, double dual, coefficients, margins, double intercept,
        double moved=0.0
    ):
        """Return a dual value so much lower that it makes up for rounding of kernel values.

        It is nan where it contradicts what is known: the optimum is not above P(0), and no norm is
        negative. The kernel is not positive definite then.

        Parameters
        ----------
        primal, dual : float
            What came out of margins.
        coefficients, margins, intercept, moved
            As for `errors`; dual values of other coefficients must not be larger than these.
        """
        self.model_error, dual_error = self.errors(coefficients, margins, intercept, moved)
        self.rounding = self.model_error + dual_error
        self.relative_rounding = self.rounding / max(fabs(primal), 1e-300)
        if isnan(self.value_of_zeros):
            self.value_of_zeros = self._primal_of_zeros()
        dual -= dual_error
        norm = np.einsum("i,i->", coefficients, margins)    # threads of BLAS would wait for more
        if (norm < -2 * self.rounding
                or dual > self.value_of_zeros + ABOVE_ZEROS * fabs(self.value_of_zeros)):
            dual = NAN
        return dual

    def _primal_of_zeros(self):
        """Return P(0), and leave alone where the next search for an intercept begins."""
        zeros = np.zeros(self.n_rows)
        intercept = self._best_intercept(zeros) if self.free_intercept else 0.0
        return self.values(zeros, zeros, intercept)[0]

    def margins_of(self, coefficients, bint with_constant=True):
        """Return (K + shift) v for coefficients v, as float64; or K v, without the constant."""
        constant = self.shift * np.sum(coefficients) if with_constant else 0.0
        if self.products is not None:
            return self._margins_of_images(coefficients) + constant
        support = np.flatnonzero(coefficients)
        margins = np.full((1, self.n_rows), constant)
        self.rows.add_long_product(
            support, coefficients[np.newaxis, support], margins, self.n_threads)
        return margins[0]

    def _margins_of_images(self, coefficients):
        with one_blas_thread():
            margins = self.products(coefficients)[np.newaxis]
        if self.free_intercept:
            order = np.arange(self.n_rows)
            self.rows.add_offset_products(order, coefficients[np.newaxis], margins)
        return margins[0]

    def evaluated(self, coefficients, margins=None):
        """Return the model of coefficients, feasible or not, and its primal value.

        Their margins are computed unless they are given.
        """
        margins = self.margins_of(coefficients) if margins is None else margins
        intercept = self.best_intercept(margins)
        primal, _ = self.values(coefficients, margins, intercept)
        self.model_error, _ = self.errors(coefficients, margins, intercept)
        return self.model(coefficients, intercept), primal

    def evaluated_with(self, coefficients, double intercept):
        """As `evaluated`, with a penalised intercept that need not follow from coefficients."""
        margins = self.margins_of(coefficients, False)
        primal, _ = self.values(coefficients, margins, intercept)
        primal += intercept * intercept / (2 * self.shift)
        self.model_error, _ = self.errors(coefficients, margins, intercept)
        return np.append(coefficients, intercept), primal

    def certificate_of(self, coefficients):
        """Return the model of the nearest feasible coefficients, its primal and dual value.

        The coefficients are changed in place.
        """
        self.make_feasible(coefficients)
        if self.free_intercept:
            self.balance(coefficients)
        margins = self.margins_of(coefficients)
        intercept = self.best_intercept(margins)
        primal, dual = self.values(coefficients, margins, intercept)
        dual = self.certified(primal, dual, coefficients, margins, intercept)
        return self.model(coefficients, intercept), primal, dual

    def model(self, const double[::1] coefficients, double intercept):
        """Return the coefficients and, last, the intercept as one array."""
        if not self.free_intercept:
            intercept = self.shift * np.sum(coefficients)
        return np.concatenate([coefficients, [intercept]])

    def at_zeros(self):
        """Return the model of zero coefficients, its primal value and their dual value."""
        zeros = np.zeros(self.n_rows)
        intercept = self.best_intercept(zeros)
        return (self.model(zeros, intercept), *self.values(zeros, zeros, intercept))
