"""When methods of second order take over from ascent: decisions on counts and recorded gaps."""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest

from sublinear._core.pace import FORECASTS, PATIENCE, work_in_all
from sublinear._core.schedule import CHEAP, AscentGap, Budget, Done, Schedule
from sublinear._solvers.spaces import BEST_CASE, WORST_CASE

TOL = 1e-3


def space(due=1000.0, factorises=True, n_expected=20, **options):
    """Return the expectations of a method that reads a row of a thousand in an iteration."""
    expected = {
        "method": SimpleNamespace(factorises=factorises),
        "expected_work": due,
        "most_work": due * (1 if factorises else WORST_CASE),
        "least_work": due / (1 if factorises else BEST_CASE),
        "least_ascent": 0.0,
        "least_expected": (n_expected + 1) // 2,
        "spare": 2 * n_expected,
        "solves_once": False,
        "n_read_at_start": 0,
        "n_read": 1000,
    }
    return SimpleNamespace(**expected | options)


def schedule(
    tol=TOL, max_iter=100, max_accesses=math.inf, at_once=False, is_curved=False, least_work=0.0
):
    return Schedule(tol, max_iter, max_accesses, at_once, is_curved, least_work)


def done(ascent, n_passes=20, n_iterations=0, accesses=0, others=0.0):
    return Done(n_passes, n_iterations, accesses, ascent, others)


def gap_of(gap, tol=TOL):
    """Return what tells that ascent has come to such a share of the gap at its start."""
    return lambda: AscentGap(gap, 1.0, tol)


def unasked():
    raise AssertionError("a forecast takes a pass, and is not needed here")


@pytest.mark.parametrize(
    "n_passes, share, gap, is_time",
    [
        (50, 1 / 4, 2e-3, False),  # the rest takes hardly as long as these passes
        (50, 1 / 4, 5e-2, True),  # more than max_iter
        (70, 1 / 4, 1.5e-3, False),
        (68, 1 / 4, 2.0, True),
        (95, 1 / 4, 2.0, False),  # too late
        (5, 1 / 8, 0.3, False),  # six times as long: less than the method
        (5, 1 / 8, 0.7, True),
        (5, 1 / 32, 0.99, False),  # too early to tell
        (40, 1.5, 2e-3, False),  # longer than the method, but nearly done
        (40, 3.0, 2e-3, True),  # three times as long
    ],
)
def test_ascent_goes_on_where_what_is_left_takes_less_than_the_method(
    n_passes, share, gap, is_time
):
    plan = space(due=2 * CHEAP)
    standing = done(share * plan.expected_work, n_passes)
    assert schedule().decide(standing, [plan], gap_of(gap)) == is_time


AT_START = done(0.0, n_passes=0)


@pytest.mark.parametrize("least_work, begins", [(0.0, False), (999.0, False), (1000.0, True)])
def test_what_is_known_before_the_first_pass_decides(least_work, begins):
    plan = [space(due=1000.0)]
    assert schedule(least_work=least_work).decide(AT_START, plan, gap_of(1.0)) == begins


def test_nothing_begins_at_the_start_where_limits_are_near():
    for limit in ({"max_iter": 39}, {"max_accesses": 39_999}):
        decisions = schedule(least_work=1e6, **limit)
        assert not decisions.decide(AT_START, [space()], unasked)
    for limit in ({"max_iter": 40}, {"max_accesses": 40_000}):
        assert schedule(least_work=1e6, **limit).decide(AT_START, [space()], gap_of(1.0))
    once = space(n_expected=2, solves_once=True)
    assert schedule(least_work=1e6, max_iter=1).decide(AT_START, [once], gap_of(1.0))


def test_nothing_begins_where_the_start_is_the_end():
    assert not schedule(least_work=1e6).decide(AT_START, [space()], gap_of(0.0, tol=0.0))


def test_products_are_tried_at_the_start_for_a_quarter_of_what_is_known():
    plan = [space(factorises=False)]
    decisions = schedule(least_work=400.0)
    assert decisions.decide(AT_START, plan, gap_of(1.0)) and decisions.is_trial
    assert decisions.budget.allowed == 100.0
    assert not schedule(least_work=399.0).decide(AT_START, plan, gap_of(1.0))
    decisions = schedule(least_work=WORST_CASE * 1000.0)
    assert decisions.decide(AT_START, plan, gap_of(1.0)) and not decisions.is_trial


def test_a_trial_takes_half_of_what_the_surer_method_may_take_at_most():
    plan = [space(factorises=False), space(due=600.0)]
    decisions = schedule(least_work=1e20)
    assert decisions.decide(AT_START, plan, gap_of(1.0)) and decisions.is_trial
    assert decisions.budget.allowed == 300.0


def test_a_trial_at_the_start_gives_way_until_ascent_has_done_as_much_twice():
    decisions = schedule(least_work=800.0)
    decisions.pause(done(0.0, n_passes=0, others=100.0))
    assert decisions.next_forecast == 200.0
    standing = done(0.0, n_passes=0, others=100.0)
    for due, is_next in ((800.0, True), (801.0, False)):
        assert decisions.is_next_due(standing, space(due), unasked) == is_next


@pytest.mark.parametrize("n_passes, is_time", [(49, False), (50, True)])
def test_what_is_cheap_is_tried_after_half_of_the_passes(n_passes, is_time):
    standing = done(CHEAP / 100, n_passes)
    assert schedule().decide(standing, [space(CHEAP)], gap_of(0.5)) == is_time


@pytest.mark.parametrize("ascent, others, is_time", [(600, 300, False), (600, 400, True)])
def test_what_is_solved_once_waits_for_as_much_work(ascent, others, is_time):
    plan = space(solves_once=True, n_expected=1)
    assert schedule().decide(done(ascent, others=others), [plan], gap_of(2e-3)) == is_time
    sooner = space(solves_once=True, n_expected=1, least_ascent=700)
    assert schedule().decide(done(0.0, 0, others=300), [sooner], unasked)


def test_at_once_is_after_the_first_pass_where_the_work_is_known():
    plans = [space(1e6)]
    assert not schedule(at_once=True).decide(done(0.0, 0), plans, unasked)
    assert schedule(at_once=True).decide(done(1.0, 1), plans, unasked)
    products = [space(1e6, factorises=False)]
    assert not schedule(at_once=True).decide(done(1.0, 1), products, unasked)


@pytest.mark.parametrize("limits", [{"max_iter": 29}, {"max_accesses": 14_999}])
def test_nothing_begins_that_the_limits_would_end(limits):
    standing = done(3000.0, n_passes=20, accesses=5_000)
    enough = {"max_iter": 30} if "max_iter" in limits else {"max_accesses": 15_000}
    assert not schedule(**limits).decide(standing, [space()], gap_of(0.5))
    assert schedule(**enough).decide(standing, [space()], gap_of(0.5))


def test_forecasts_come_ever_more_rarely_but_for_the_last_passes():
    decisions, plan, asked = schedule(), space(1e9), []

    def nearly_done():
        asked.append(n_passes)
        return AscentGap(TOL, 1.0, TOL)

    for n_passes in range(1, 90):
        assert not decisions.decide(done(2e7 * n_passes, n_passes), [plan], nearly_done)
    early = [n_passes for n_passes in asked if n_passes < 60]
    assert asked[len(early) :] == list(range(60, 90))
    assert 6 <= len(early) <= 9
    assert all(later >= FORECASTS * sooner for sooner, later in pairwise(early))


def end_of_ascent(spaces, pass_work, max_iter, sees_all):
    """Return the pass at which a method begins, and which; not all ends need be seen."""
    decisions, spaces, quiet, n_quiet = schedule(max_iter=max_iter), list(spaces), (0.0, 0), 0
    for n_passes in range(1, max_iter):
        standing = done(n_passes * pass_work, n_passes, others=1e4)
        if standing.ascent_work < quiet[0] and n_passes < quiet[1] and not sees_all:
            n_quiet += 1
            continue
        while decisions.is_ruled_out(standing, spaces):
            spaces.pop(0)
        if decisions.decide(standing, spaces, gap_of(0.9)):
            return (n_passes, spaces[0].expected_work), n_quiet
        quiet = decisions.next_decision(standing, spaces)
    return None, n_quiet


@pytest.mark.parametrize("due", [1e4, CHEAP / 2, 3 * CHEAP, 1e9])
@pytest.mark.parametrize("following", [None, 1e3, 1e10])
@pytest.mark.parametrize("pass_work", [1e3, 1e6])
@pytest.mark.parametrize("options", [{}, {"factorises": False}, {"n_expected": 50}])
@pytest.mark.parametrize("max_iter", [60, 100, 300])
def test_nothing_is_decided_before_the_next_decision(due, following, pass_work, options, max_iter):
    spaces = [space(due, **options)]
    if following is not None:
        spaces.append(space(following, n_expected=10))
    end, n_quiet = end_of_ascent(spaces, pass_work, max_iter, sees_all=False)
    assert end_of_ascent(spaces, pass_work, max_iter, sees_all=True) == (end, 0)
    assert n_quiet > 0 or end[0] <= 2 or due <= PATIENCE * 1e4 + CHEAP


def test_nothing_is_passed_over_where_one_solution_is_enough():
    spaces = [space(solves_once=True)]
    assert schedule().next_decision(done(1.0), spaces) == (0.0, 0)


@pytest.mark.parametrize(
    "share, gap, is_time",
    [
        (0.9, 0.1, False),  # hardly worth a trial
        (1.1, 0.02, False),  # nearly done
        (1.1, 0.1, True),  # twice as much again
        (1.1, 0.9, True),  # more than max_iter
    ],
)
def test_products_are_tried_where_ascent_has_more_left_than_they_may_take(share, gap, is_time):
    decisions, plan = schedule(), space(2 * CHEAP, factorises=False)
    assert decisions.decide(done(share * plan.least_work), [plan], gap_of(gap)) == is_time
    assert decisions.is_trial == (gap < 0.9)


@pytest.mark.parametrize("due, is_time", [(0.5, True), (0.1, False)])
def test_products_are_tried_at_once_where_ascent_is_hopeless(due, is_time):
    """Unless the next method takes less than the trial."""
    decisions, plan = schedule(), space(2 * CHEAP, factorises=False)
    plans, standing = [plan, space(due * plan.expected_work)], done(0.1 * plan.expected_work)
    assert decisions.decide(standing, plans, gap_of(0.99)) == is_time
    assert decisions.is_trial
    assert (decisions.budget.allowed == plan.least_work) == is_time


@pytest.mark.parametrize(
    "is_curved, before, times",
    [
        (False, [(1.0, 1e-2)], 4 / 3),  # where ascent takes on speed
        (True, [], 4 / 3),
        (True, [(1.0, 1e-2)], 0.1 + 0.9 * 2),  # the first tenth did most of it
        (True, [(4.0, 1e-2), (8.0, 1.01e-3)], 0.4 + 0.6 * 2),  # the last one is too near
        (True, [(2.0, 1e-2), (5.0, 0.9e-3)], 0.2 + 0.8 * 2),  # the gap rests
        (True, [(5.0, 1.001e-3)], 4 * 4 / 3),
    ],
)
def test_forecasts_know_the_pace_of_late(is_curved, before, times):
    standing, ascent = done(10.0, n_passes=10), AscentGap(1e-3, 1.0, 1e-4)
    for max_iter, expected in ((10**6, times), (10 * times - 1, math.inf)):
        decisions = schedule(1e-4, max_iter, is_curved=is_curved)
        decisions.seen = list(before)
        assert decisions.forecast(standing, ascent) == pytest.approx(expected)
        assert decisions.seen[-1] == (10.0, 1e-3)


@pytest.mark.parametrize(
    "gap, is_late",
    [
        (1e-2, False),  # two thirds of the way: half as much again
        (0.11, True),  # a third: twice as much
        (1.0, True),
        (5e-4, False),
    ],
)
def test_products_get_more_work_where_that_is_enough_at_their_pace(gap, is_late):
    decisions, plan = schedule(), space(factorises=False)
    decisions.budget = Budget(plan.most_work, plan.most_work)
    decisions.begin(done(100.0, others=7.0), 1.0)
    standing = done(100.0, n_iterations=3, others=7.0 + plan.most_work)
    assert not decisions.is_late(standing, [plan], (gap, 1.0))
    standing = standing._replace(other_work=standing.other_work + 1)
    assert decisions.is_late(standing, [plan], (gap, 1.0)) == is_late
    # also at the next iteration, unless that is better
    assert decisions.is_late(standing, [plan], (gap, 1.0)) == is_late


@pytest.mark.parametrize("n_iterations, is_late", [(49, False), (50, True)])
def test_products_leave_the_next_methods_their_iterations(n_iterations, is_late):
    decisions = schedule()
    plans = [space(factorises=False), space(n_expected=10), space(n_expected=5)]
    decisions.begin(done(100.0), 1.0)
    assert decisions.is_late(done(100.0, 20, n_iterations), plans, (1e-2, 1.0)) == is_late


@pytest.mark.parametrize("n_passes, is_time", [(49, False), (50, True)])
def test_the_last_passes_are_kept_for_all_methods(n_passes, is_time):
    decisions, plans = schedule(), [space(), space(n_expected=5)]
    decisions.next_forecast = math.inf
    standing = done(1000.0, n_passes)
    assert decisions.decide(standing, plans, gap_of(0.5) if is_time else unasked) == is_time


def test_a_pause_lasts_until_the_work_of_ascent_has_doubled():
    decisions, plan = schedule(), space(factorises=False)
    decisions.pause(done(1000.0))
    assert not decisions.decide(done(1999.0), [plan], unasked)
    assert decisions.decide(done(2000.0), [plan], gap_of(0.9))


@pytest.mark.parametrize("n_passes, may_pause", [(45, True), (46, False)])
def test_a_pause_needs_room_for_as_many_passes_and_the_method(n_passes, may_pause):
    assert schedule().may_pause(done(1000.0, n_passes), space()) == may_pause


@pytest.mark.parametrize(
    "due, gap, is_next",
    [
        (2000.0, 1e-2, True),  # its turn comes before the pause is over
        (2001.0, 1e-2, False),  # half as much again
        (2001.0, 0.2, True),  # more than its work
    ],
)
def test_the_next_method_has_its_turn_where_a_pause_would_outlast_ascent(due, gap, is_next):
    assert schedule().is_next_due(done(1000.0), space(due), gap_of(gap)) == is_next


@pytest.mark.parametrize(
    "gap, at_start, wanted, times",
    [
        (1e-2, 1, 1e-4, 2),
        (1, 1, 0.1, math.inf),
        (math.nan, 1, 0.1, math.inf),
        (0.1, 5, 0.1, 1),
        (0.0, 1, math.nan, math.inf),
    ],
)
def test_gaps_shrink_by_the_same_factor(gap, at_start, wanted, times):
    assert work_in_all(gap, at_start, wanted) == pytest.approx(times)
    assert work_in_all(gap, at_start, 0.0) >= 0
