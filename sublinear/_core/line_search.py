"""How far to go along a direction."""

DECREASE = 1e-4  # of what the slope promises, at least
MOST_HALVINGS = 40


def backtrack(value_at, value, slope):
    """Return the first of 1, 1/2, 1/4, .. that meets Armijo's condition, None if none does.

    Parameters
    ----------
    value_at : callable
        Returns the value after a step of this size.
    value, slope : float
        Where the step begins: the value, and its derivative.

    Returns
    -------
    step : float or None
    """
    step = 1.0
    for _ in range(MOST_HALVINGS):
        if value_at(step) <= value + DECREASE * step * slope:
            return step
        step /= 2
    return None
