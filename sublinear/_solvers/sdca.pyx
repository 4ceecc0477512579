"""Stochastic dual coordinate ascent.

Papers: Takac, Bijral, Richtarik, Srebro, "Mini-batch primal and dual methods for SVMs" (2013),
section 4 with b = 1; Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods" (2013)
for losses other than the hinge.

Objective: that of sublinear._core.objective, whose dual it maximises one coordinate at a time:

    for i in a random order of the examples:
        z = <w, x_i>
        a = the maximiser of the dual over a_i                       (Loss.dual_step)
        w += s_i (a - a_i) / (alpha W) x_i;  a_i = a

Cost per step: the stored entries of one row, twice if its dual moves.

Departures from the paper:

- examples are visited in shuffled passes, not drawn independently, which takes fewer of them;
- rows need no scaling: each step uses the |x_i|^2 of its row;
- an example whose dual did not move sleeps for 0, 1, 3, 7, 15, then 31 passes, longer where its
  margin is far from 1. It costs nothing meanwhile; certificates look at every example;
- an intercept that is not penalised ties the duals: sum_i s_i a_i = 0. The method of multipliers
  deals with that: w keeps a penalised constant column, and after each pass its part of the
  predictions moves into `offset`, the multiplier, until nothing is left to move. Of an intercept
  whose penalty is less than that of the column a part moves: `intercept_penalty` of both stays
  behind. Certificates balance the duals first, unless little is wrong with the sum that a penalised
  one asks for. Where that is what most of the gap comes from without a penalty, all examples take a
  step from the offset at which they balance (`_core/balanced_steps`). Where several intercepts are
  best the model has the middle one (`_core/flat_intercept`);
- where w is short, its mean over the last pass is kept: its objective is often far below that of w,
  and the better of the two is the model.

The steps are in sdca.pxd, where the schedules of `two_threads`, which extend this solver, inline
them.
"""
from libc.math cimport INFINITY

import json

import numpy as np

from sublinear._core.examples cimport (
    HEAVY, SAMPLED, VISITS, Examples, PassMean, Visits, clear, collect_awake,
)
from sublinear._core.matrix cimport Matrix
from sublinear._core.objective cimport Objective
from sublinear._core.order cimport Draws, Order, restart
from sublinear._core.random cimport RandomBits
from sublinear._core.solver cimport FIRST_SLICE, LOOKED_THROUGH

from sublinear._core.aligned import touched
from sublinear._core.balanced_steps import balanced_steps
from sublinear._core.flat_intercept import in_the_middle
from sublinear._core.inner import inner
from sublinear._core.order import pools_pay
from sublinear._core.pace import relative_gap
from sublinear._core.states import fill, refusal, take, take_random

cdef enum:
    PASS_COST = 1000      # of the calls that a pass may take, in feature values

cdef double LITTLE = 0.05   # of the gap
cdef double LOPSIDED = 4    # a gap so many times what a glance sees comes from the balance


cdef class SDCA(Solver):
    """Dual coordinate ascent over shuffled passes.

    Parameters
    ----------
    objective : Objective
    random : RandomBits
    duals : ndarray of shape (n_rows,), float64, default=None
        Where to start; moved into the loss's domain. None means zeros.
    pack : bool, default=False
        Work on a packed copy of the rows (see PackedRows), which must be sparse.
    w : ndarray of shape (n_weights,), float64, default=None
        Weights that the solver shares with others, who see to it that they belong to the duals of
        all. None means weights of its own, those of `duals`.

    Attributes
    ----------
    w : ndarray of shape (n_weights,), float64
    n_iter : int
        Completed passes.
    accesses : int
        Feature values read.
    """
    keeps_best = True
    certificate_growth = 8.0
    first_slice = FIRST_SLICE

    def __init__(self, Objective objective, RandomBits random, duals=None, pack=False, w=None):
        self._set_objective(objective)
        self.examples = self._make_examples(duals, pack)
        if w is not None:
            self.w = w
            # no extra sleep far from the margin: it saves work, but costs rounds
            self.examples.per_far = 0
        elif duals is None:
            self.w = touched(np.zeros(objective.matrix.n_weights))
        else:
            self.w = self._weights_of_duals()
        cdef double[::1] view = self.w
        self.weights = &view[0]
        self.order = Order(
            objective.matrix.n_rows, "shuffle", random, in_pools=pools_pay(objective.matrix))
        matrix = objective.matrix
        self.mean = PassMean(matrix.n_weights, matrix.n_rows, matrix.n_stored)
        self.pass_gap = float("inf")

    cdef _set_objective(self, Objective objective):
        self.objective = objective
        self.loss = objective.loss
        self.step_scale = 1 / (objective.alpha * objective.total_weight)

    def _make_examples(self, duals, pack):
        return Examples(self.objective, duals, pack)

    def _weights_of_duals(self):
        """w(duals); over rounded rows where steps see those, as their certificates suppose."""
        if self.examples.packed is None:
            return self.objective.weights_of_dual(self.examples.duals())
        return self.examples.weights()

    def restart(self, double alpha):
        """Go on from the present duals with another alpha; counts start at 0 again.

        Every dual keeps its value: those at a bound stay there, and w, which is proportional to
        1 / alpha, follows.
        """
        cdef double ratio = self.objective.alpha / alpha, intercept = self.intercept
        self.objective.alpha = alpha
        self.step_scale *= ratio
        self.w *= ratio
        if self.objective.has_multiplier:
            self.set_intercept(intercept)
        self._rescale(ratio)
        self._next_pass()
        self.n_iter = self.accesses = self.n_visited = self.objective.accesses = 0
        self.pass_gap = float("inf")
        self.certified_gap = 0
        self._follow()

    def _rescale(self, ratio):
        self.examples.rescale(ratio)

    def shrink(self):
        """Bring duals that come from elsewhere near enough to 0 to be no worse than zeros."""
        cdef double factor = self.objective.shrinkage(self.w, self.examples.cost(), self.offset)
        intercept = self.intercept
        if factor == 1:
            return
        self._scale(factor)
        if self.objective.has_multiplier:
            self.set_intercept(intercept if factor > 0 else 0.0)

    def _scale(self, factor):
        self.examples.scale(factor)
        self.w *= factor
        self._follow()

    def _follow(self):
        """Bring what depends on `w` up to date after a change from outside."""

    def adopt(self, duals, double intercept):
        """Go on from feasible duals that another method has found, with all examples awake.

        Parameters
        ----------
        duals : ndarray of shape (n_rows,), float64
        intercept : float
            Where it is not penalised.
        """
        self.set_duals(duals)
        self.w[:] = self._weights_of_duals()
        if self.objective.has_multiplier:
            self.set_intercept(intercept)
        self._follow()
        self.examples.sleep[:] = 0
        self._next_pass()

    @property
    def work(self):
        """Feature values read, one for every example looked at, and some for every pass."""
        return self._work()

    cdef double _work(self) noexcept nogil:
        return self.accesses + self.n_visited + PASS_COST * self.n_iter

    @property
    def estimated_gap(self):
        """The relative gap, estimated from a part of the last pass; a hint, no certificate."""
        return self._estimated_gap()

    @property
    def little(self):
        """What the sum of duals may cost in a certificate: a small part of the gap, if known."""
        return LITTLE * self.pass_gap if self.pass_gap < INFINITY else 0.0

    def estimate(self):
        """Return the gap and the primal value, estimated from a part of the last pass."""
        return self.pass_gap, self.pass_loss + self.objective.penalty_of(self.weights)

    cdef double _estimated_gap(self) noexcept nogil:
        cdef double primal = self.pass_loss + self.objective.penalty_of(self.weights)
        return self.pass_gap / max(primal, 1e-300)

    def advance(self, Py_ssize_t limit):
        """Go on until a pass ends, then return True, or another row would exceed `limit`."""
        cdef Py_ssize_t before = self.n_iter
        cdef Py_ssize_t most = before + LOOKED_THROUGH // self.examples.rows.count
        if self.certified_gap > 0:    # and the fit goes on
            self._step_to_balance()
        with nogil:
            self._run(limit)
            while before < self.n_iter < most and self._goes_on():
                before = self.n_iter
                self._run(limit)
        return self.n_iter > before

    cdef bint _goes_on(self) noexcept nogil:
        """Whether nothing is to be decided at this end of a pass."""
        if not self.is_quiet(self._work(), self.n_iter):
            return False
        return self.quiet_gap < 0 or self._estimated_gap() > self.quiet_gap

    cdef void _run(self, Py_ssize_t limit) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t first, stop
        cdef Visits visits
        if draws.position == 0:
            self._begin_pass()
        while draws.position < draws.count:
            first, stop = draws.position, min(draws.count, draws.position + VISITS)
            self.accesses += visit(
                self, draws, stop, self.weights, limit - self.accesses, True, &self.sample,
                &visits)
            self.n_visited += draws.position - first
            if draws.position < stop:
                return
        self._end_pass()

    cdef void _begin_pass(self) noexcept nogil:
        self.mean.restart(self.order.draws.count)

    cdef void _close_sample(self) noexcept nogil:
        """Make the estimates of the pass from its sample."""
        cdef double share = SAMPLED / self.objective.total_weight
        self.pass_gap = share * self.sample.gap
        self.pass_loss = share * self.sample.loss
        self.pass_gain = share * self.sample.gain

    cdef void _end_pass(self) noexcept nogil:
        self._close_sample()
        self.n_iter += 1
        if self.objective.has_multiplier:
            self.offset += self.objective.matrix.constant * self.weights[
                self.objective.matrix.n_columns]
            self.offset *= 1 - self.objective.intercept_penalty
        self._next_pass()

    cdef void _next_pass(self) noexcept nogil:
        clear(&self.sample)
        self._draw_awake()

    cdef void _draw_awake(self) noexcept nogil:
        cdef Draws* draws = &self.order.draws
        draws.n = draws.count = collect_awake(
            &self.examples.sleep[0], self.examples.rows.count, draws.items, 0)
        restart(draws)

    def duals(self):
        """Return the duals as an array of its own (float64)."""
        return self.examples.duals()

    def curvatures(self, step=1):
        """Return the curvature of the dual along coordinates, one in `step` (float64)."""
        return self.examples.curvatures(step)

    def set_duals(self, duals):
        """Give every dual a new, feasible value; `w` is left to who shares it."""
        self.examples.set_duals(duals)

    @property
    def intercept(self):
        """That of `model`."""
        return self.offset + self._of_constant()

    def set_intercept(self, double intercept):
        """Begin with an intercept that has a multiplier."""
        self.offset = intercept - self._of_constant()

    def _of_constant(self):
        """What the constant feature adds to every score; without one it has no weight."""
        cdef Matrix matrix = self.objective.matrix
        return matrix.constant * self.weights[matrix.n_columns] if matrix.constant != 0 else 0.0

    def _step_to_balance(self):
        """Let all examples step where the intercept balances them, if balance is what is missing.

        The next duals are the best between those that a certificate took and those after the step,
        by a parabola below D; they have to be better by much of the gap, as all examples wake up.
        """
        objective, gap = self.objective, self.certified_gap
        self.certified_gap = 0
        if not LOPSIDED * self.glance()[0] <= gap:
            return
        found, intercept = self._balanced_steps()
        if found is None:
            return
        duals = self.duals()
        objective.balance(duals)
        w, value = self._balanced_value(duals)
        w_found, value_found = self._balanced_value(found)
        w_found -= w
        square, gain = objective.alpha * inner(w_found, w_found), value_found - value
        share = min(1.0, max(0.0, 0.5 + gain / square)) if square > 0 else 1.0
        if LOPSIDED * share * (gain + (1 - share) * square / 2) >= gap:
            duals += share * (found - duals)
            objective.make_feasible(duals)    # but for rounding they are
            self.adopt(duals, self.intercept + share * (intercept - self.intercept))

    def _balanced_steps(self):
        """Return duals and an intercept that suit each other, or None twice."""
        objective = self.objective
        matrix, weights, intercept = objective.matrix, objective.weights_array, self.intercept
        rows = np.arange(matrix.n_rows, dtype=np.uint32)
        predictions = matrix.row_dots(self._with_offset(self.w), rows)
        moved = abs(matrix.constant * self.weights[matrix.n_columns])    # by the last pass
        found, shift = balanced_steps(
            objective.loss, self.examples.duals(), predictions, objective.targets_array,
            self.examples.curvatures(), np.ones(matrix.n_rows) if weights is None else weights,
            moved if moved > 0 else 1.0)
        if found is None or not np.isfinite(shift):
            return None, None
        objective.balance(found)    # what rounding has left
        return found, intercept + shift

    def _balanced_value(self, duals):
        """Return w(a) but for the constant column, and the dual value of balanced duals."""
        objective = self.objective
        w = objective.weights_of_dual(duals)
        w[objective.matrix.n_columns] = 0
        return w, -objective.penalty(w) - objective.conjugate_sum(duals) / objective.total_weight

    def release_duals(self):
        """Return the duals that a certificate takes, and end the solver's life.

        So both need less memory.
        """
        self.order = None
        objective, duals = self.objective, self.examples.release_duals()
        if objective.has_multiplier:
            last = self.intercept / objective.matrix.constant
            if objective.is_out_of_balance(last, self.w[-1], self.little):
                objective.balance(duals, objective.mass(last))
        return duals

    def state(self):
        """Return what `set_state` needs to go on between two passes, a flat dict; without `w`."""
        return {
            "duals": self.duals(), "sleep": np.array(self.examples.sleep),
            "awake": np.array(self.order.items[:self.order.draws.count]),
            **self._progress(self.order.random)}

    def set_state(self, state):
        """Go on from a `state()`, with an objective of the same alpha."""
        cdef Draws* draws = &self.order.draws
        cdef Py_ssize_t n_rows = self.examples.rows.count
        awake = take(state, "awake", np.empty(0, dtype=np.uint32), any_length=True)
        if len(awake) > n_rows or not np.all(awake < n_rows):
            raise refusal(state, "awake", f"holds examples that are none of {n_rows} rows")
        self.set_duals(take(state, "duals", self.duals()))
        fill({"sleep": np.asarray(self.examples.sleep)}, state)
        self.order.items[:len(awake)] = awake
        draws.n = draws.count = len(awake)
        restart(draws)
        self._set_progress(self.order.random, state)

    def _progress(self, RandomBits random):
        return {
            "random": json.dumps(random.state()), "n_iter": self.n_iter,
            "accesses": self.accesses, "n_visited": self.n_visited,
            "sample_gap": self.sample.gap, "sample_loss": self.sample.loss,
            "pass_gap": self.pass_gap, "pass_loss": self.pass_loss}

    def _set_progress(self, RandomBits random, state):
        take_random(state, random)
        self.n_iter, self.accesses = take(state, "n_iter", 0), take(state, "accesses", 0)
        self.n_visited = take(state, "n_visited", 0)
        self.sample.gap = take(state, "sample_gap", 0.0)
        self.sample.loss = take(state, "sample_loss", 0.0)
        self.pass_gap, self.pass_loss = take(state, "pass_gap", 0.0), take(state, "pass_loss", 0.0)

    def model(self):
        """Return the weights."""
        return self._with_offset(self.w) if self.objective.has_multiplier else self.w

    def _with_offset(self, w):
        """Return the weights whose constant column makes up for the offset."""
        w = np.array(w)
        w[self.objective.matrix.n_columns] += self.offset / self.objective.matrix.constant
        return w

    def candidates(self):
        """Return w, itself, and the mean of the pass where it is kept."""
        return [self.w, *self.mean.models()]

    def look(self):
        """Return the relative gap that `certify` would find, estimated from a part of the rows."""
        gap, primal = self.glance()
        return relative_gap(primal, gap)

    def glance(self, model=None):
        """Return the gap and the primal value, estimated as by `look`; or as if with that model."""
        models = self._models()
        if model is not None:
            models[1:] = [model]
        return self.examples.estimate(models[0], models)

    def _models(self):
        models = self.candidates()
        if self.objective.has_multiplier:
            models = [self._with_offset(model) for model in models]
        return models

    def certify(self, rounded):
        """Return a copy of the better of w and the pass mean, with its certificate (`_drive`)."""
        models = [rounded(model) for model in self._models()]
        primals, dual = self.examples.certificate(self.w, models, self.little)
        best = int(np.argmin(primals))
        model, primal = models[best], primals[best]
        if self.objective.free_intercept:
            model, primal, dual = in_the_middle(
                self.objective, self.duals(), model, primal, dual, rounded)
            self.certified_gap = primal - dual
        return model.copy() if model is self.w else model, primal, dual


cdef class BlockwiseSDCA(SDCA):
    """SDCA over examples of which one block at a time is there.

    Every pass goes through the blocks in their order, and through each block in a random one. A
    pass reads all rows, so none sleeps longer for being far from the margin, which costs passes.
    But for that, with a single block the numbers are those of SDCA. An iteration, `n_iter`, is a
    block here.

    Parameters
    ----------
    random : RandomBits
    w : ndarray of shape (n_weights,), float64
        w(duals); it is changed in place.
    n_rows, n_stored : int
        Of all blocks together.
    """
    cdef RandomBits random
    cdef Py_ssize_t n_rows

    def __init__(self, RandomBits random, w, Py_ssize_t n_rows, n_stored):
        cdef double[::1] weights = w
        self.w, self.weights, self.random, self.n_rows = w, &weights[0], random, n_rows
        self.mean = PassMean(weights.shape[0], n_rows, n_stored)
        self.pass_gap = float("inf")

    @property
    def certificate_growth(self):
        """Less where the mean of a pass may be far better than the estimate, which is for w."""
        return 3.0 if self.mean.interval > 0 else SDCA.certificate_growth

    def begin(self, Py_ssize_t n_awake):
        """Begin a pass in which so many examples are awake."""
        self.mean.restart(n_awake)
        clear(&self.sample)

    def enter(self, Objective objective, duals, sleep):
        """Go to a block: its objective, whose total weight is that of all, its duals and sleep."""
        self._set_objective(objective)
        self.examples = Examples(objective, duals, sleep=sleep)
        self.examples.per_far = 0
        self.examples.heavy = HEAVY * objective.total_weight / self.n_rows
        self.order = Order(objective.matrix.n_rows, "shuffle", self.random)
        self._draw_awake()

    cdef void _begin_pass(self) noexcept nogil:
        pass

    cdef void _end_pass(self) noexcept nogil:
        self.mean.next -= self.order.draws.count
        self.n_iter += 1

    def leave(self):
        """Return the duals of the block."""
        duals, self.examples = self.examples.release_duals(), None
        return duals

    def end(self):
        """End a pass."""
        self._close_sample()

    def state(self):
        """Return what `set_state` needs to go on between two blocks, a flat dict."""
        return {"w": self.w, **self._progress(self.random), **self.mean.state()}

    def set_state(self, state):
        """Go on from a `state()`."""
        fill({"w": self.w}, state)
        self._set_progress(self.random, state)
        self.mean.set_state(state)
