"""A solver that begins with dual coordinate ascent and goes over to a method of second order.

A Schedule decides when. The equations of the method are solved in a space: see
sublinear._solvers.spaces. There may be several, each with a method, which are tried in turn.

Where a method takes many steps, its duals follow from slopes at weights that are not quite the best
ones: the gap is a hundred times what the weights lack. So ascent improves those duals now and then,
by a pass or two, and the gap between its dual value and the method's primal one counts.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from sublinear._core.blas import one_blas_thread
from sublinear._core.pace import is_overruled, relative_gap
from sublinear._core.schedule import AscentGap, Done, Schedule
from sublinear._core.solver import NOT_QUIET, Solver

INNER_ITERATIONS = 30  # times a feature value: to find a dual that has no formula
FIRST_CERTIFICATE = 16  # iterations that form no matrix, before any but one that promises enough
SELDOM = 2.0**60  # growth of the work between two certificates that none reaches
GROWTH = 2.0  # of the work between two certificates of the method of second order, at least
PROMISING = 300.0  # times the gap that is wanted: passes of ascent may make it so much smaller
NEWS = 0.7  # of the gap from which ascent began, where it does so again
PROGRESS = 0.5  # of a pass of ascent, in the gap, that is worth another pass
FINE = 1e-6  # a relative gap of the method below which rounding may spoil the iterates to come


@dataclass(frozen=True)
class Iterate:
    """Where a method of second order has been.

    Attributes
    ----------
    coordinates : ndarray
        Of the weights.
    gap, primal : float
    candidates : list of callables
        Each returns duals that a certificate may take, an array of shape (n_rows,); others than the
        first where that is not good enough.
    is_measured : bool
        Whether gap and primal are those of just these weights and the first candidate.
    """

    coordinates: np.ndarray
    gap: float
    primal: float
    candidates: list
    is_measured: bool

    @property
    def relative_gap(self):
        return relative_gap(self.primal, self.gap)


class _MethodAtWork:
    """A method at work: the best Iterate, and what ascent has made of its duals.

    Parameters
    ----------
    method : object
        See Finisher.
    is_compared : bool
        Whether its certificates are no worse than where the solver that begins has been.

    Attributes
    ----------
    is_stuck : bool
        Whether the method has come to its end.
    best : Iterate
        That of least gap.
    lowest : ndarray or None
        The coordinates that have the least primal value.
    is_ascending : bool
        Whether ascent improves the duals of the best Iterate.
    ascended_gap : float
        Relative, the estimate of what it came to; inf once that is certified.
    """

    def __init__(self, method, is_compared):
        self.method, self.is_compared = method, is_compared
        self.is_stuck = self.is_ascending = False
        self.lowest_primal, self.lowest = math.inf, None
        self.ascent_began = self.ascended_gap = math.inf  # at this relative gap of the method
        self._note_iterate()
        self._note_weights()

    def _note_iterate(self):
        method = self.method
        self.best = Iterate(
            method.w, method.gap, method.primal, method.candidates(), method.is_measured
        )
        self.n_idle = 0  # iterations since then

    def _note_weights(self):
        if self.method.primal < self.lowest_primal:
            self.lowest_primal, self.lowest = self.method.primal, self.method.w

    def iterate(self):
        """Let the method take an iteration, and note what it has found."""
        self.n_idle += 1
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                goes_on = self.method.iterate()
            except LinAlgError:  # a matrix that is singular, or not finite
                goes_on = False
            if self.method.gap < self.best.gap:
                self._note_iterate()
            self._note_weights()
        self.is_stuck = not goes_on or self.n_idle >= self.method.most_idle

    def look(self):
        """Return the relative gap of the best Iterate, or the estimate where ascent was better."""
        return min(self.best.relative_gap, self.ascended_gap)

    def begin_ascent(self, tol):
        """Begin to ascend where that may be enough for a gap of tol; tell whether it is so."""
        gap = self.best.relative_gap
        self.is_ascending = tol < gap <= min(PROMISING * tol, NEWS * self.ascent_began)
        if self.is_ascending:
            self.ascent_began = self.ascended_gap = gap
        return self.is_ascending

    def note_ascent(self, gap, tol):
        """Note the relative gap after a pass of ascent; end where another one is not worth it."""
        self.is_ascending = tol < gap <= PROGRESS * self.ascended_gap
        self.ascended_gap = gap
        self.is_compared = False


class Finisher(Solver):
    """Dual coordinate ascent, then a method of second order if that is worth its cost by then.

    Besides it has the interface of the solver that begins. A method is a class whose
    objects have `iterate()`, which returns False where no step is possible, `w`, `gap`, `primal`,
    `candidates()` and `is_measured`, those of an Iterate. Its attributes say what to expect:

    n_expected    function of the loss: iterations
    n_passes_of_start    over the rows before the first iteration, at most
    n_passes      over the rows, an iteration; of an object: its next one
    sweeps        times, in that of a feature value in a step of coordinate ascent: of an iteration
                  for every example, besides its passes
    most_idle     iterations without a better gap, after which it is given up
    takes_start   whether there may be weights to start from
    factorises    whether it forms the matrix of its equations, not products with it; otherwise it
                  has `hurry()`: take the step that is prepared, False if there is none; `outlook`,
                  the gap and the primal value to be expected of it; and `ascends`, whether passes
                  of ascent improve its duals

    Parameters
    ----------
    spaces : list of Columns, RowSpan, KernelSpan or KernelImages
        Each has the solver that begins, and a method. Where one gets stuck it is the next one's
        turn.
    tol : float
        The relative gap that is wanted.
    max_iter : int
        Passes and iterations after which the fit ends: the last ones are kept for the method of
        second order, if need be.
    at_once : bool, default=False
        Go over after the first pass, but to products of rows only on trial or where ascent is slow.
    max_accesses : float, default=inf
        After which the fit ends, too.
    least_passes : float, default=0
        That the solver that begins takes at least, as far as that is known.

    Attributes
    ----------
    n_iter : int
        Passes, and iterations of the method of second order.
    """

    def __init__(
        self, spaces, tol, max_iter, at_once=False, max_accesses=math.inf, least_passes=0.0
    ):
        if at_once:  # those first whose work is known
            spaces = sorted(spaces, key=lambda space: not space.method.factorises)
        self.first, self.spaces = spaces[0].first, spaces
        self.tol, self.max_iter, self.at_once = tol, max_iter, at_once
        self.max_accesses = max_accesses
        self.step_cost = 0 if self.objective.loss.dual_form() else INNER_ITERATIONS
        self._start_counts(least_passes)

    def _start_counts(self, least_passes=0.0):
        self.second = None  # the _MethodAtWork; None: ascent is
        self.paused = None  # a method that a trial found slow, until it goes on
        self.is_due = False
        self.schedule = Schedule(
            self.tol,
            self.max_iter,
            self.max_accesses,
            self.at_once,
            self.objective.loss.is_curved,
            self._work_of(min(least_passes, self.max_iter)),
        )
        self.left = list(self.spaces)  # the present one, and those after it
        self.is_at_end = True  # of a pass of the first solver
        self.n_checked = -1  # such passes, when `is_due` was decided
        self.quiet = NOT_QUIET
        self.dual, self.found = -math.inf, None  # the best certified; its duals, if not the first's
        self.certified_gap = math.inf  # of the first solver, relative
        self.n_iterations = self.n_read = 0
        self.extra_work = 0.0

    @property
    def objective(self):
        """That of the first solver."""
        return self.first.objective

    @property
    def space(self):
        """The present one, None once all have been tried."""
        return self.left[0] if self.left else None

    @property
    def keeps_best(self):
        """As that of the first solver."""
        return self.first.keeps_best

    @property
    def first_slice(self):
        """As that of the first solver."""
        return self.first.first_slice

    @property
    def most_unresolved(self):
        """As that of the first solver."""
        return self.first.most_unresolved

    def refine(self):
        """As the first solver, while that is at work."""
        return self.second is None and self.first.refine()

    @property
    def n_iter(self):
        return self.first.n_iter + self.n_iterations

    @property
    def accesses(self):
        """Feature values read."""
        return self.first.accesses + self.n_read

    @property
    def work(self):
        """As that of the first solver."""
        return self.first.work + self.extra_work

    @property
    def certificate_growth(self):
        """1 where what the method has found needs a certificate: it may find nothing better."""
        growth = self.first.certificate_growth
        if self.second is None:
            return growth
        is_fine = self.second.best.relative_gap <= FINE and not self.space.estimates_rounding
        if self.second.is_stuck or is_fine:
            return 1.0
        is_early = self.n_iterations < FIRST_CERTIFICATE and not self.second.method.factorises
        return SELDOM if is_early else max(growth, GROWTH)

    @property
    def estimated_gap(self):
        """The relative gap, estimated."""
        return self.first.estimated_gap if self.second is None else self.second.look()

    def look(self):
        """Return the relative gap: an estimate, or that of the method of second order."""
        return self.first.look() if self.second is None else self.second.look()

    def be_quiet_until(self, work, gap, n_iter):
        """As that of the first solver, but for decisions before."""
        self.quiet = work, gap, n_iter

    def _quieten_first(self):
        """Let the first solver be quiet until something is to be decided, here or elsewhere."""
        work, gap, n_iter = self.quiet
        work, n_iter = work - self.extra_work, n_iter - self.n_iterations
        if self.left:
            done = self._done()
            decided, most = self.schedule.next_decision(done, self.left)
            # a feature value may be more than one for `_spent`
            decided = self.first.work + (decided - done.ascent_work) / (1 + self.step_cost)
            work, n_iter = min(work, decided), min(n_iter, most)
        self.first.be_quiet_until(work, gap, n_iter)

    def advance(self, limit):
        """Go on to the end of a pass or an iteration, then return True, or to the limit."""
        if self.second is not None and self.second.is_stuck:
            self._end_method()
        if self.second is not None:
            return self._ascend(limit) if self.second.is_ascending else self._go_on(limit)
        if self.is_at_end and self.first.n_iter > self.n_checked and self.left:
            if self._is_time_to_explore():
                if self._read_at_start(limit):
                    self._tried(self.space.explore)
                return False
            self.n_checked, self.is_due = self.first.n_iter, self._decide()
        if self.is_due:
            if self.paused is not None or self._read_at_start(limit):
                self._begin()
            return False
        self._quieten_first()
        self.is_at_end = self.first.advance(limit - self.n_read)
        return self.is_at_end

    def _is_time_to_explore(self):
        return not self.space.is_explored and self._spent() >= self.space.cost_of_start

    def _spent(self):
        """Return the work so far, in the unit of what the method of second order would take."""
        n_visited = self.first.work - self.first.accesses  # about
        return self.first.work + self.step_cost * n_visited

    def _work_of(self, n_passes):
        if n_passes == 0:
            return 0.0
        matrix = self.objective.matrix
        return n_passes * (matrix.n_stored + (1 + self.step_cost) * matrix.n_rows)

    def _done(self):
        return Done(
            self.first.n_iter, self.n_iterations, self.accesses, self._spent(), self.extra_work
        )

    def _decide(self):
        """Decide at the end of a pass whether to go over; leave spaces that limits rule out."""
        done = self._done()
        while self.schedule.is_ruled_out(done, self.left):
            self._leave_space()
        return self.schedule.decide(done, self.left, self._ascent_gap)

    def _ascent_gap(self):
        (gap, primal), at_zeros = self.first.glance(), self.objective.at_zeros()[1]
        wanted = self.tol * primal
        if is_overruled(gap, wanted, self.certified_gap, self.objective.has_multiplier):
            gap = self.certified_gap * primal
        return AscentGap(gap, at_zeros if self.space.is_cautious else primal, wanted)

    def _read_at_start(self, limit):
        return self._read(self.space.n_read_at_start, self.space.cost_of_start, limit)

    def _read(self, n_read, cost, limit):
        """Count so many accesses and their cost unless they would exceed the limit."""
        fits = self.accesses + n_read <= limit
        if fits:
            self.n_read += n_read
            self.extra_work += cost
        return fits

    def _begin(self):
        self.is_due = False
        self.extra_work += 1  # progress, though a method that goes on reads nothing here
        method, self.paused = self.paused or self._tried(self.space.begin), None
        if method is not None:
            if not method.factorises:
                self.schedule.begin(self._done(), method.outlook[0])
            self.second = _MethodAtWork(method, self.space.is_compared)

    def _tried(self, prepare):
        """Return what a part of the start returns; give the method up where it has no space."""
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                return prepare()
            except LinAlgError:  # products of rows that are not finite
                self._leave_space()
                return None

    def _leave_space(self):
        self.paused = None
        self.left.pop(0).close()

    def _go_on(self, limit):
        """Take an iteration of the method, then return True, unless it would exceed the limit."""
        space = self.space
        share = self.second.method.n_passes / space.method.n_passes
        if not self._read(int(share * space.n_read), share * space.cost, limit):
            return False
        self._iterate()
        return True

    def _iterate(self):
        second = self.second
        self.n_iterations += 1
        second.iterate()
        if second.method.factorises:
            return
        if not second.is_stuck and self._is_late():
            if self._make_room():
                return
            second.is_stuck = not second.method.hurry()
        ascends = second.method.ascends and not second.is_stuck
        if ascends and second.begin_ascent(self.tol):
            self._adopt_duals()

    def _is_late(self):
        outlook = self.second.method.outlook
        return self.schedule.is_late(self._done(), self.left, outlook)

    def _make_room(self):
        """Let the first solver go on, until a pause is over or the next method comes, if it may."""
        done, schedule, later = self._done(), self.schedule, self.left[1:]
        if not (schedule.may_pause(done, self.space) or (schedule.is_trial and later)):
            return False
        if later and schedule.is_next_due(done, later[0], self._ascent_gap):
            self._end_method()
        else:
            schedule.pause(done)
            self.paused = self.second.method
            self._return_to_first()
        return True

    def _adopt_duals(self):
        """Let the first solver have the method's duals; keep its own if they are certified best."""
        if self.found is None and self.dual > -math.inf:
            self.found = self.first.duals()
        best = self.second.best
        self.space.adopt_duals(best.candidates[0](), best)

    def _ascend(self, limit):
        """Take a pass of ascent from the duals of the method, or go on with it to the limit."""
        self.first.be_quiet_until(*NOT_QUIET)
        if not self.first.advance(limit - self.n_read):
            return False
        gap, primal = self.first.glance(self.space.weights(self.second.best.coordinates))
        self.second.note_ascent(relative_gap(primal, gap), self.tol)
        return True

    def _end_method(self):
        """Leave the method for good."""
        if self.second is not None:
            self._return_to_first()
            self._leave_space()

    def _return_to_first(self):
        """Let the first solver go on, from the duals of the method if they are the best."""
        if self.found is not None:
            self.space.adopt_duals(self.found, self.second.best)
            self.found = None  # they are the first solver's now
        self.second = None

    def certify(self, rounded):
        """Return the model with its certificate (`_drive`)."""
        second = self.second
        if second is None:
            return self._certify_first(rounded)
        with np.errstate(all="ignore"), one_blas_thread():
            model, primal, dual, duals = self.space.certify(
                second.best, second.lowest, self.tol, second.is_stuck, rounded
            )
        self._note_dual(dual, duals)
        if second.is_compared or primal - dual <= self.tol * primal:
            return model, primal, dual
        # a limit may come before the method has caught up, or ascent has better duals
        second.is_compared, second.ascended_gap = True, math.inf
        before, primal_before, dual_before = self._certify_first(rounded)
        if not primal <= primal_before:
            model, primal = before, primal_before
        return model, primal, max(dual, dual_before)

    def _certify_first(self, rounded):
        model, primal, dual = self.first.certify(rounded)
        self._note_dual(dual, None)
        self.certified_gap = relative_gap(primal, primal - dual)
        return model, primal, dual

    def _note_dual(self, dual, duals):
        """Keep the duals of the method, None for those of the first solver, if they are better."""
        if self.dual < dual < math.inf:
            self.dual, self.found = dual, duals

    def model(self):
        """Return the weights."""
        if self.second is None or not self.second.best.relative_gap < self.first.look():
            return self.first.model()
        return self.space.weights(self.second.best.coordinates)

    def duals(self):
        """Return the best certified duals as an array of its own (float64)."""
        self._end_method()
        return self.first.duals()

    def release_duals(self):
        """Return the duals that a certificate takes, and end the solver's life."""
        found, duals = self.found, self.first.release_duals()
        return duals if found is None else found

    @property
    def intercept(self):
        """That of `model`, once `duals` are asked for."""
        return self.first.intercept

    def restart(self, problem):
        """Go on from the present duals with another alpha, or a kernel machine's other scales.

        Counts start at 0 again.
        """
        if self.second is not None and self.space.comes_first:
            self.second = self.found = None  # what the first solver had will do for it
        self._end_method()
        self.first.restart(problem)
        for space in self.spaces:
            space.restart()
        self._start_counts()

    def shrink(self):
        """Bring duals that come from elsewhere near enough to 0 to be no worse than zeros."""
        self.first.shrink()
