"""A solver that begins with dual coordinate ascent and goes over to a method of second order.

It does so once ascent has taken as long as that method would. So a fit takes at most about twice
the time of the better of the two, whichever that is; longer only where max_iter would end it
without the gap that is wanted. The equations of the method are solved in a space of few dimensions:
see sublinear._solvers.spaces.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from sublinear._core.blas import one_blas_thread

PATIENCE = 16  # times the work so far, where max_iter would end the fit otherwise
CHEAP = 2.0**23  # feature values, some milliseconds: less need not wait for the last passes
MOST_IDLE = 8  # iterations without a better gap
GROWTH = 2.0  # of the work between two certificates of the method of second order, at most


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
    """

    coordinates: np.ndarray
    gap: float
    primal: float
    candidates: list

    @property
    def relative_gap(self):
        return self.gap / max(self.primal, 1e-300)


class Finisher:
    """Dual coordinate ascent, then a method of second order if that is worth its cost by then.

    The interface is that of `_drive`, and of the solver that begins. A method is a class whose
    objects have `iterate()`, which returns False where no step is possible, `w`, `gap`, `primal`
    and `candidates()`, those of an Iterate. Its attributes say what to expect:

    n_expected    iterations
    n_passes      over the rows, an iteration
    sweeps, step  times, in that of a feature value in a step of coordinate ascent: of an iteration
                  for every example, besides its passes; of such a step besides its feature values
    takes_start   whether there may be weights to start from

    Parameters
    ----------
    space : Columns, RowSpan or KernelSpan
        It has the solver that begins, and the method.
    tol : float
        The relative gap that is wanted.
    max_iter : int
        Passes and iterations after which the fit ends: the last ones are kept for the method of
        second order, if need be.
    at_once : bool, default=False
        Go over after the first pass, not when as much work has been done as is to be expected.
    max_accesses : float, default=inf
        After which the fit ends, too.

    Attributes
    ----------
    n_iter : int
        Passes, and iterations of the method of second order.
    """

    diverged = False

    def __init__(self, space, tol, max_iter, at_once=False, max_accesses=math.inf):
        self.first, self.method, self.space = space.first, space.method, space
        self.tol, self.max_iter, self.at_once = tol, max_iter, at_once
        self.max_accesses = max_accesses
        self.spare = 2 * self.method.n_expected
        self._start_counts()

    def _start_counts(self):
        self.second = self.best = None  # the method of second order, its Iterate of least gap
        self.is_due = self.is_stuck = self.is_over = self.is_compared = False
        self.n_checked = 0  # passes of the first solver, when `is_due` was decided
        self.dual, self.found = -math.inf, None  # the best certified; its duals, if not the first's
        self.certified_gap = math.inf  # of the first solver, relative
        self.n_iterations = self.n_read = self.n_idle = 0
        self.extra_work = 0.0

    @property
    def objective(self):
        """That of the first solver."""
        return self.first.objective

    @property
    def keeps_best(self):
        """As that of the first solver."""
        return self.first.keeps_best

    @property
    def most_unresolved(self):
        """As that of the first solver."""
        return getattr(self.first, "most_unresolved", math.inf)

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
        """1 once the method can go no further: what it has found needs a certificate."""
        if self.is_stuck:
            return 1.0
        growth = self.first.certificate_growth
        return growth if self.second is None else max(growth, GROWTH)

    @property
    def estimated_gap(self):
        """The relative gap, estimated."""
        return self.first.estimated_gap if self.second is None else self.best.relative_gap

    def look(self):
        """Return the relative gap: an estimate, or that of the method of second order."""
        return self.first.look() if self.second is None else self.best.relative_gap

    def advance(self, limit):
        """Go on to the end of a pass or an iteration, then return True, or to the limit."""
        if self.is_stuck:
            self._hand_over()
        if self.second is not None:
            return self._read(self.space.n_read, self.space.cost, limit) and self._iterate()
        n_passes = self.first.n_iter
        if n_passes > self.n_checked and not self.is_over:
            if not self.space.is_explored and self._spent() >= self.space.cost_of_start:
                return self._read_at_start(limit) and self._explore()
            self.n_checked, self.is_due = n_passes, self._is_time()
        if self.is_due:
            return self._read_at_start(limit) and self._begin()
        return self.first.advance(limit - self.n_read)

    def _spent(self):
        """Return the work so far, in the unit of what the method of second order would take."""
        n_visited = self.first.work - self.first.accesses  # about
        return self.first.work + self.method.step * n_visited

    def _is_time(self):
        """Tell at the end of a pass whether to go over to the method of second order."""
        first, space, spent = self.first, self.space, self._spent()
        n_expected = 1 if self.objective.loss.quadratic else self.method.n_expected
        due = space.cost * n_expected + space.cost_of_start
        if self.at_once or spent >= due:
            return True
        if due <= CHEAP and self._is_half_time() and self._fits(n_expected):
            return self._is_slow()
        is_last = first.n_iter >= max(self.max_iter - self.spare, self.spare)
        return is_last and PATIENCE * spent >= due and self._is_slow()

    def _is_half_time(self):
        return 2 * self.n_iter >= self.max_iter or 2 * self.accesses >= self.max_accesses

    def _fits(self, n_iterations):
        """Tell whether so many iterations of the method will keep within the limits."""
        n_read = self.space.n_read_at_start + n_iterations * self.space.n_read
        within = self.accesses + n_read <= self.max_accesses
        return within and self.n_iter + n_iterations <= self.max_iter

    def _is_slow(self):
        """Tell whether coordinate ascent, at its pace so far, needs more passes than max_iter."""
        # a look does not see how far an intercept without penalty has to go
        gap = self.certified_gap if self.objective.free_intercept else self.first.look()
        tol = self.tol
        return gap > tol and self.max_iter * math.log(gap) > self.first.n_iter * math.log(tol)

    def _read_at_start(self, limit):
        return self._read(self.space.n_read_at_start, self.space.cost_of_start, limit)

    def _read(self, n_read, cost, limit):
        """Count so many accesses and their cost unless they would exceed the limit."""
        fits = self.accesses + n_read <= limit
        if fits:
            self.n_read += n_read
            self.extra_work += cost
        return fits

    def _explore(self):
        self._tried(self.space.explore)
        return False

    def _begin(self):
        self.is_due = False
        second = self._tried(self.space.begin)
        if second is not None:
            self._note_iterate(second)
            self.second, self.is_compared = second, self.space.is_compared
        return False

    def _tried(self, prepare):
        """Return what a part of the start returns; give the method up where it has no space."""
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                return prepare()
            except (LinAlgError, ValueError):  # products of rows that are not finite
                self.is_over = True
                return None

    def _note_iterate(self, method):
        self.best = Iterate(method.w, method.gap, method.primal, method.candidates())
        self.n_idle = 0

    def _iterate(self):
        self.n_iterations += 1
        self.n_idle += 1
        with np.errstate(all="ignore"), one_blas_thread():
            try:
                goes_on = self.second.iterate()
            except (LinAlgError, ValueError):  # a matrix that is singular, or not finite
                goes_on = False
            if self.second.gap < self.best.gap:
                self._note_iterate(self.second)
        self.is_stuck = not goes_on or self.n_idle >= MOST_IDLE
        return True

    def _hand_over(self):
        """Leave the method; the first solver goes on from its duals if they are the best."""
        if self.second is None:
            return
        if self.found is not None:
            self.space.hand_over(self.found, self.best)
        self.second = self.best = None
        self.is_stuck, self.is_over = False, True

    def certify(self, rounded):
        """Return the model with its certificate (`_drive`)."""
        if self.second is None:
            return self._certify_first(rounded)
        with np.errstate(all="ignore"), one_blas_thread():
            model, primal, dual, duals = self.space.certify(
                self.best, self.tol, self.is_stuck, rounded
            )
        self._note_dual(dual, duals)
        if self.is_compared or primal - dual <= self.tol * primal:
            return model, primal, dual
        # a limit may come before the method has caught up
        self.is_compared = True
        before, primal_before, dual_before = self._certify_first(rounded)
        if not primal <= primal_before:
            model, primal = before, primal_before
        return model, primal, max(dual, dual_before)

    def _certify_first(self, rounded):
        model, primal, dual = self.first.certify(rounded)
        self._note_dual(dual, None)
        self.certified_gap = (primal - dual) / max(primal, 1e-300)
        return model, primal, dual

    def _note_dual(self, dual, duals):
        """Keep the duals of the method, None for those of the first solver, if they are better."""
        if self.dual < dual < math.inf:
            self.dual, self.found = dual, duals

    def model(self):
        """Return the weights."""
        if self.second is None or not self.best.relative_gap < self.first.look():
            return self.first.model()
        return self.space.weights(self.best.coordinates)

    def duals(self):
        """Return the best certified duals as an array of its own (float64)."""
        self._hand_over()
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
        self._hand_over()
        self.first.restart(problem)
        self._start_counts()

    def shrink(self):
        """Bring duals that come from elsewhere near enough to 0 to be no worse than zeros."""
        self.first.shrink()
