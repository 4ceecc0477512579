"""When a method of second order takes the place of dual coordinate ascent, and when it gives way.

It takes over where what is left of ascent, at its pace so far, is more than that method may well
take, and at the latest once ascent has taken three times as long. So a fit mostly takes little more
time than by the better of the two; longer only where max_iter would end it without the gap that is
wanted.

There may be several methods, which are tried in turn. One that forms no matrix may take far less
than expected, or more. It is tried earlier, and goes on while its own pace is good enough;
otherwise it waits until the work of ascent has doubled, or is left for the next one.

A method's space tells what it should take: see sublinear._solvers.spaces. The first of the spaces
that a decision is handed is that of the present method; the others come after it.
"""

import math
from typing import NamedTuple

from sublinear._core.pace import FORECASTS, PATIENCE, is_slow, work_in_all

CHEAP = 2.0**23  # feature values, some milliseconds: less need not wait for the last passes
TRIAL = 0.5  # of the work of ascent, for a method that may take little work or much
FORESEEN = 1 / 2  # of work that is known to come: it allows for a trial as if it were done
PAUSE = 2  # times the work of ascent, until a method that was found slow goes on
MOST_SLOWER = 4  # times the mean work: a recent pace is not taken for slower, as a gap may rest


class Done(NamedTuple):
    """What a fit has done so far.

    Attributes
    ----------
    n_passes, n_iterations : int
        Of ascent, of methods of second order.
    accesses : int
        Feature values read.
    ascent_work, other_work : float
        Work of ascent, and of methods of second order in its unit.
    """

    n_passes: int
    n_iterations: int
    accesses: int
    ascent_work: float
    other_work: float

    @property
    def n_iter(self):
        """Passes and iterations."""
        return self.n_passes + self.n_iterations


class Budget:
    """Work for a method that forms no matrix: more of it while its pace is good enough.

    Parameters
    ----------
    allowed : float
        Before its pace is looked at.
    more : float
        What is added then, if it is enough at that pace.
    """

    def __init__(self, allowed, more):
        self.allowed, self.more = allowed, more

    def begin(self, gap, work):
        """Begin where the method has done so much work, and has a gap in its outlook."""
        self.gap, self.work, self.end = gap, work, work + self.allowed

    def is_spent(self, gap, work, wanted):
        """Tell whether to leave the method; extend the budget where it is enough after all."""
        if work <= self.end:
            return False
        times = work_in_all(gap, self.gap, wanted)
        if (times - 1) * (work - self.work) > self.more:
            return True
        self.gap, self.work, self.end = gap, work, work + self.more
        return False


class AscentGap(NamedTuple):
    """The gap of ascent, what it was at the start, and the one that is wanted."""

    gap: float
    at_start: float
    wanted: float


class Schedule:
    """The decisions, between two passes of ascent and between two iterations of a method.

    Parameters
    ----------
    tol : float
        The relative gap that is wanted.
    max_iter, max_accesses : float
        Passes and iterations, and feature values read, after which the fit ends.
    at_once : bool
        Go over after the first pass, but to products of rows only on trial or where ascent is slow.
    is_curved : bool
        Whether all examples that pull are curved: then ascent does not speed up.
    least_work : float, default=0
        Of ascent in all, as far as that is known before the first pass.

    Attributes
    ----------
    is_trial : bool
        Whether the method at work was begun though it may prove slower than ascent.
    """

    def __init__(self, tol, max_iter, max_accesses, at_once, is_curved, least_work=0.0):
        self.tol, self.max_iter, self.max_accesses = tol, max_iter, max_accesses
        self.at_once, self.is_curved, self.least_work = at_once, is_curved, least_work
        self.is_trial = False
        self.budget = Budget(math.inf, math.inf)
        self.next_forecast = 0.0  # at this work of ascent
        self.seen = []  # the work and the gap of ascent, at forecasts

    def fits(self, done, space, n_iterations):
        """Tell whether so many iterations in a space will keep within the limits."""
        n_read = space.n_read_at_start + n_iterations * space.n_read
        within = done.accesses + n_read <= self.max_accesses
        return within and done.n_iter + n_iterations <= self.max_iter

    def decide(self, done, spaces, ascent_gap):
        """Decide at the end of a pass whether to go over to the first of the spaces.

        Parameters
        ----------
        done : Done
        spaces : list
        ascent_gap : callable
            Returns the AscentGap.

        Returns
        -------
        goes_over : bool
        """
        space = spaces[0]
        if self.at_once and space.method.factorises and done.n_passes > 0:
            return True
        work = max(done.ascent_work, space.least_ascent) + done.other_work
        if space.solves_once and work >= space.expected_work:
            return self.fits(done, space, space.least_expected)
        if done.n_passes == 0:
            return self._begins_at_start(done, spaces, ascent_gap)
        if not self._is_time_to_forecast(done, spaces):
            return False
        self.next_forecast = FORECASTS * done.ascent_work
        spent, times = done.ascent_work, self.forecast(done, ascent_gap())
        return self._begins(spaces, spent, (times - 1) * spent)

    def _begins_at_start(self, done, spaces, ascent_gap):
        foreseen, space = FORESEEN * self.least_work, spaces[0]
        # ascent has found no duals yet that a limit would leave
        n_least = space.least_expected if space.solves_once else space.spare
        if foreseen == 0 or not self.fits(done, space, n_least):
            return False
        gap, _, wanted = ascent_gap()  # a starting intercept may be all that is needed
        return gap > wanted and self._begins(spaces, foreseen, self.least_work)

    def _is_time_to_forecast(self, done, spaces):
        """Tell whether what is left of ascent may decide."""
        is_last = done.n_iter >= self._last_passes(spaces)
        if done.ascent_work < self.next_forecast and not is_last:
            return False
        space, work = spaces[0], done.ascent_work + done.other_work
        is_cheap = space.expected_work <= (PATIENCE if is_last else 1) * CHEAP
        is_worth = PATIENCE * work >= space.expected_work
        is_worth |= is_cheap and self._is_half_time(done)
        return is_worth and self.fits(done, space, space.least_expected)

    def is_ruled_out(self, done, spaces):
        """Tell whether limits leave no room for the first of several spaces."""
        return len(spaces) > 1 and not self.fits(done, spaces[0], spaces[0].least_expected)

    def next_decision(self, done, spaces):
        """Return a work of ascent and a number of passes before which nothing is decided.

        `decide` says no before, and `is_ruled_out` as well. Neither number is more than it may be,
        but they may be less.
        """
        space = spaces[0]
        if self.at_once or space.solves_once or self.max_accesses < math.inf:
            return 0.0, 0
        n_iter, work = self._last_passes(spaces), self.next_forecast
        if not self._is_half_time(done):
            n_iter = min(n_iter, self.max_iter / 2)
            work = max(work, space.expected_work / PATIENCE - done.other_work)
        if len(spaces) > 1:
            n_iter = min(n_iter, self.max_iter - space.least_expected + 1)
        return work, n_iter - done.n_iterations

    def _last_passes(self, spaces):
        """Return the passes and iterations from which on the rest is kept for the methods."""
        return max(self.max_iter - _spare(spaces), spaces[0].spare)

    def _is_half_time(self, done):
        return 2 * done.n_iter >= self.max_iter or 2 * done.accesses >= self.max_accesses

    def _begins(self, spaces, spent, rest):
        """Tell whether to begin, where ascent has spent so much work and the rest is to come.

        It sets the budget of a trial, or of a method that is to stay.
        """
        space, *later = spaces
        has_surer = bool(later) and later[0].most_work < space.most_work
        slow = is_slow(spent, rest, space.most_work)
        self.is_trial = has_surer or not slow
        if not self.is_trial:
            most = max(rest, space.most_work)
            self.budget = Budget(most, most)
            return True
        allowed = TRIAL * min(spent, later[0].most_work) if later else TRIAL * spent
        # a slow ascent is left for the surer one in any case
        is_left_anyway = slow and has_surer and space.least_work <= later[0].expected_work
        if is_left_anyway:
            allowed = max(allowed, space.least_work)
        self.budget = Budget(allowed, min(rest, later[0].expected_work) if later else rest)
        return is_left_anyway or min(spent, rest) >= space.least_work

    def forecast(self, done, ascent_gap):
        """Return how many times as long as so far ascent takes, inf beyond max_iter; note the gap.

        At its mean pace. Where it does not speed up, the first passes have often shrunk the gap
        much: then it is the pace of late, if that is slower.
        """
        gap, at_start, wanted = ascent_gap
        most = (self.max_iter - done.n_iterations) / done.n_passes
        times = work_in_all(gap, at_start, wanted, most)
        if self.is_curved:
            late = self._times_of_late(done.ascent_work, gap, wanted)
            times = max(times, min(late, MOST_SLOWER * times))
        if gap < math.inf:
            self.seen.append((done.ascent_work, gap))
        return times if times <= most else math.inf

    def _times_of_late(self, spent, gap, wanted):
        """Return that at the pace since the last forecast with a larger gap, 1 if there is none."""
        for before, above in reversed(self.seen):
            if FORECASTS * before <= spent and above > gap:
                return work_in_all(gap, above, wanted, before=before / spent)
        return 1.0

    def begin(self, done, gap):
        """Begin or go on with a method that has this gap in view."""
        self.budget.begin(gap, done.other_work)

    def is_late(self, done, spaces, outlook):
        """Tell whether the method takes far too long, or the next ones need the rest."""
        if done.n_iter >= self.max_iter - max(_spare(spaces[1:]), 1):
            return True
        gap, primal = outlook
        return self.budget.is_spent(gap, done.other_work, self.tol * primal)

    def may_pause(self, done, space):
        """Tell whether there is room for a pause: work that doubles, and the method after it."""
        return self.fits(done, space, done.n_passes + space.least_expected)

    def pause(self, done):
        """Let the method wait."""
        self.next_forecast = PAUSE * (done.ascent_work or done.other_work)

    def is_next_due(self, done, following, ascent_gap):
        """Tell whether the space that follows will have its turn before a pause is over."""
        if PAUSE * done.ascent_work >= following.least_work:
            return True
        if done.n_passes == 0:
            return is_slow(0.0, self.least_work, following.most_work)
        spent, times = done.ascent_work, self.forecast(done, ascent_gap())
        return is_slow(spent, (times - 1) * spent, following.most_work)


def _spare(spaces):
    """Return the iterations that are kept for all of them."""
    return sum(space.spare for space in spaces)
