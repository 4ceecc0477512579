"""The state of dual coordinate ascent, apart from w."""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange

import numpy as np

from sublinear._core.aligned import apart, touched
from sublinear._core.dense_lines cimport dense_add64
from sublinear._core.line cimport Line, line_at, add as add_row
from sublinear._core.objective cimport SMALL_BLOCK
from sublinear._core.states import fill, take

cdef enum:
    MEANS_PER_PASS = 256  # the mean of w is kept where it can take so many of them into account
    WARM_UP = 16          # it leaves out those of the first of so many parts of the pass

FLOAT32_ROUNDING = 2.0**-24


cdef class Examples:
    """Duals, curvatures and sleep of the examples of an objective.

    Parameters
    ----------
    objective : Objective
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; moved into the loss's domain. None means zeros.
    pack : bool, default=False
        Keep them in a packed copy of the rows (see PackedRows), which must be sparse.
    sleep : ndarray of shape (n_rows,), uint8, default=None
        To be gone on with, in place. None: all are awake.
    like : Examples, default=None
        Of the same objective, not packed, whose duals and curvatures these begin with.
    """

    def __cinit__(
        self, Objective objective, duals=None, bint pack=False, sleep=None, Examples like=None
    ):
        cdef double[:, ::1] view
        cdef Py_ssize_t n = objective.matrix.n_rows
        self.objective = objective
        self.loss = objective.loss
        self.per_far = 1 / self.loss.far
        self.heavy = HEAVY * objective.mean_weight
        self.rows = &objective.matrix.rows
        self.sleep = touched(np.zeros(n, dtype=np.uint8)) if sleep is None else sleep
        if pack:
            self.packed = PackedRows(
                objective.matrix, objective.targets_array, objective.n_threads)
            self.rows = &self.packed.rows
        if not pack or self.packed.offset == NULL:
            self.buffer = touched(np.zeros((n, sizeof(Example) // sizeof(double))))
            view = self.buffer
            self.example = <Example*> &view[0, 0]
        if like is None:
            self._start(duals)
        else:
            self.buffer[:] = like.buffer

    def _start(self, duals):
        cdef const double[::1] view = duals
        cdef const double* start = NULL
        cdef Py_ssize_t n = self.rows.count, n_blocks = (n + SMALL_BLOCK - 1) // SMALL_BLOCK
        cdef Py_ssize_t first, last, block
        cdef int n_threads = self.objective.useful_threads()
        cdef Py_ssize_t step = n_threads * max(
            1, self.objective.matrix.rows_per_call() // SMALL_BLOCK)
        if view is not None:
            if view.shape[0] != n:
                raise ValueError(f"{n} rows, but {view.shape[0]} duals")
            start = &view[0]
        totals = np.empty(n_blocks)
        cdef double[::1] of_block = totals
        for first in range(0, n_blocks, step):
            last = min(n_blocks, first + step)
            for block in prange(first, last, nogil=True, num_threads=n_threads):
                of_block[block] = self._start_block(
                    block * SMALL_BLOCK, min(n, (block + 1) * SMALL_BLOCK), start)
            PyErr_CheckSignals()
        with np.errstate(over="ignore", invalid="ignore"):
            self.objective.check_curvatures(totals.sum())

    cdef double _start_block(
        self, Py_ssize_t first, Py_ssize_t last, const double* start
    ) noexcept nogil:
        """Begin with the rows [first, last); returns the sum of their curvatures."""
        cdef double curvatures[SMALL_BLOCK]
        cdef double total = self.objective.curvatures_of(first, last, curvatures)
        cdef Py_ssize_t i
        cdef Example* example
        for i in range(first, last):
            example = self.at(i)
            example.curvature = curvatures[i - first]
            if start != NULL:
                example.dual = self.loss.nearest_dual(start[i], self.objective.targets[i])
        return total

    def weights(self):
        """Return w(duals), the sum over the rows as they are kept here (float64)."""
        result = np.zeros(self.objective.matrix.n_weights)
        cdef double[::1] w = result
        cdef double scale = 1 / (self.objective.alpha * self.objective.total_weight), dual
        cdef Py_ssize_t first, i, step = self.objective.matrix.rows_per_call()
        cdef Line x
        for first in range(0, self.rows.count, step):
            with nogil:
                for i in range(first, min(self.rows.count, first + step)):
                    dual = self.at(i).dual
                    if dual != 0:
                        x = line_at(self.rows, i)
                        add_row(&x, scale * self.objective.weight(i) * dual, &w[0])
            PyErr_CheckSignals()
        return result

    def rescale(self, double ratio):
        """Multiply the curvatures, wake everybody up; ValueError where they overflow."""
        cdef double total = 0
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.rows.count):
                self.at(i).curvature *= ratio
                total += self.at(i).curvature
        self.objective.check_curvatures(total)
        self.sleep[:] = 0

    def cost(self):
        """Return sum_i s_i (l*(-a_i) - l*(0)), what the dual value is less for them but for w."""
        return self.objective.cost_of(self._present_duals())

    def scale(self, double factor):
        """Multiply the duals, by a factor from 0 to 1."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.rows.count):
                self.at(i).dual *= factor

    def forget(self):
        """Set all duals to zero, wake everybody up."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.rows.count):
                self.at(i).dual = 0
        self.sleep[:] = 0

    def set_duals(self, const double[::1] duals):
        """Give every dual a new, feasible value."""
        cdef Py_ssize_t i
        if duals.shape[0] != self.rows.count:
            raise ValueError(f"{self.rows.count} rows, but {duals.shape[0]} duals")
        with nogil:
            for i in range(self.rows.count):
                self.at(i).dual = duals[i]

    def duals(self):
        """Return the duals as an array of its own (float64)."""
        result = np.empty(self.rows.count)
        cdef double[::1] duals = result
        cdef Py_ssize_t i
        with nogil:
            for i in range(duals.shape[0]):
                duals[i] = self.at(i).dual
        return result

    def curvatures(self, Py_ssize_t step=1):
        """Return the curvature of the dual along coordinates, one in `step` (float64)."""
        result = np.empty((self.rows.count + step - 1) // step)
        cdef double[::1] curvatures = result
        cdef Py_ssize_t i
        with nogil:
            for i in range(curvatures.shape[0]):
                curvatures[i] = self.at(i * step).curvature
        return result

    def _present_duals(self):
        """Return the duals, a view of them where they lie together."""
        return self.duals() if self.example == NULL else self.buffer[:, 0]

    def release_duals(self):
        """Return the duals, without more memory where they lie together; ends all other use."""
        cdef Py_ssize_t i, n = self.rows.count
        cdef double* duals
        self.sleep = None
        if self.example == NULL:
            return self.duals()
        duals = <double*> self.example     # dual i moves to a place that was read before
        with nogil:
            for i in range(n):
                duals[i] = self.example[i].dual
        self.example = NULL
        result, self.buffer = self.buffer, None
        result.resize(n, refcheck=False)
        return result

    def certificate(self, w, models, most=0.0):
        """Return the primal values of the models and the dual value of the duals (see Objective).

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
            w(duals), as the solver keeps it.
        models : list of ndarrays like w
        most : float, default=0.0
            Where there is a multiplier: what the sum of the duals may cost, else they are balanced.
        """
        objective, around = self.objective, w
        if objective.has_multiplier:
            around = models[0]
            if objective.is_out_of_balance(around[-1], w[-1], most):
                duals = self.duals()
                objective.balance(duals, objective.mass(around[-1]))
                return objective.certificate_of(duals, models)
        duals = self._present_duals()
        rounding = 0.0 if self.packed is None or self.packed.exact else FLOAT32_ROUNDING
        sums = objective.sums(models, around, duals, rounding > 0)
        return objective.certificate_of_sums(sums, around, models, w, rounding)

    def estimate(self, w, models):
        """Return the gap and the primal value of the best model, guessed from some of the rows."""
        return self.objective.estimate(w, self._present_duals(), models)


cdef Py_ssize_t collect_awake(
    uint8_t* sleep, Py_ssize_t count, uint32_t* items, uint32_t first
) noexcept nogil:
    """items <- first + k for the k that are awake in the next pass; returns their number."""
    cdef Py_ssize_t k, n_awake = 0
    cdef int asleep
    for k in range(count):    # without branches: who sleeps is hard to foresee
        asleep = sleep[k] >> LEVEL_BITS != 0
        sleep[k] -= <uint8_t> (asleep << LEVEL_BITS)
        items[n_awake] = first + <uint32_t> k
        n_awake += 1 - asleep
    return n_awake


def count_awake(const uint8_t[::1] sleep):
    """Return how many examples are awake in the next pass."""
    cdef Py_ssize_t k, n_awake = 0
    with nogil:
        for k in range(sleep.shape[0]):
            n_awake += sleep[k] >> LEVEL_BITS == 0
    return n_awake


cdef class PassMean:
    """The mean of w over a pass, kept where its additions do not slow the pass down.

    Parameters
    ----------
    n_weights, n_rows, n_stored : int
        Of the matrix.
    """

    def __cinit__(self, n_weights, n_rows, n_stored):
        interval = max(1, 4 * n_weights * n_rows // max(1, n_stored))
        if interval * MEANS_PER_PASS <= n_rows:
            self.interval = interval
            self.total = apart(n_weights)

    cdef void restart(self, Py_ssize_t pass_length) noexcept nogil:
        """Begin a pass; until its own mean begins, that of the last one stays."""
        self.next = pass_length // WARM_UP + 1 if self.interval > 0 else 0
        self.is_over = True

    cdef void add(self, const double* w) noexcept nogil:
        if self.is_over:
            self.is_over, self.count = False, 0
            self.total[:] = 0
        dense_add64(w, 1, &self.total[0], self.total.shape[0])
        self.count += 1
        self.next += self.interval

    def state(self):
        """Return the numbers of this pass so far, for `set_state`; none where there is no mean."""
        if self.interval == 0:
            return {}
        return {
            "mean_total": np.array(self.total), "mean_count": self.count, "mean_next": self.next,
            "mean_is_over": self.is_over}

    def set_state(self, state):
        """Go on with the pass of a `state()`."""
        if self.interval == 0:
            return
        fill({"mean_total": np.asarray(self.total)}, state)
        self.count, self.next = take(state, "mean_count", 0), take(state, "mean_next", 0)
        self.is_over = take(state, "mean_is_over", False)

    def models(self):
        """Return the mean in a list, or an empty list."""
        return [np.asarray(self.total) / self.count] if self.count > 0 else []
