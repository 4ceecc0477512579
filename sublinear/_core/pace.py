"""How near a method is, how long it will take, and when another one is worth its work."""

import math

PATIENCE = 16  # times the work so far, that the other method may take where this one is slow
LATE = 3  # times its work, after which a method is left whatever its pace
FORECASTS = 1.5  # growth of the work between two of them


def relative_gap(primal, gap):
    """Return gap / max(|primal|, 1e-300)."""
    gap, primal = float(gap), float(primal)  # NumPy warns of a quotient that is out of range
    return gap / max(abs(primal), 1e-300)


def work_in_all(gap, at_start, wanted, most=math.inf, before=0.0):
    """Return how many times the work so far leads from the start to the gap that is wanted.

    All passes are to shrink the gap by the same factor. `at_start` is what it was; for zero weights
    their objective. The relative gap would not do: where the optimum is near 0 that stays near 1
    for long. `before` is the share of the work that had been done by then. Beyond `most`, where a
    limit comes first, it is infinite; so it is where the start, or what is wanted, is no number, as
    after a step that diverged.
    """
    if gap <= wanted:
        return 1.0
    if not 0 < gap < at_start or math.isnan(wanted):
        return math.inf
    rest = math.log(at_start / max(wanted, 1e-300)) / math.log(at_start / gap)
    times = before + (1 - before) * rest
    return times if times <= most else math.inf


def is_overruled(gap, wanted, certified_gap, has_multiplier):
    """Tell whether a certificate is to be believed, not a glance that finds the gap small enough.

    A glance misses how far a multiplier has to go, and may miss what few rows hold.
    """
    return gap <= wanted and (has_multiplier or certified_gap < math.inf)


def is_slow(spent, rest, due, late=LATE):
    """Tell whether the rest of a method is more than another one's work, or that is long past.

    `spent` is its work so far, `due` what the other one should take; `late` times that is too much
    whatever the pace.
    """
    return rest >= due or spent >= late * due
