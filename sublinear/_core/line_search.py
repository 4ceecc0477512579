"""How far to go along a direction."""

DECREASE = 1e-4  # of what the slope promises, at least
MOST_HALVINGS = 40


def backtrack(reach, value, slope):
    """Find the first step of 1, 1/2, 1/4, .. that meets Armijo's condition.

    Parameters
    ----------
    reach : callable
        Returns what a step of this size leads to: a tuple, first the value.
    value, slope : float
        Where the step begins: the value, and its derivative.

    Returns
    -------
    step : float
        0 if none does.
    place : tuple or None
        What it leads to.
    """
    step = 1.0
    for _ in range(MOST_HALVINGS):
        place = reach(step)
        if place[0] <= value + DECREASE * step * slope:
            return step, place
        step /= 2
    return 0.0, None
