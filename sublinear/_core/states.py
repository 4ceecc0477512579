"""States of solvers: flat dicts of arrays and numbers, which another one made alike can go on from.

A state may come from a file, and that from a stranger or a broken disk: what is taken from it has
the shape and the kind of numbers of what it takes the place of.
"""

import numpy as np

DAMAGED = "the saved state is damaged, or of another fit"


class State(dict):
    """A state whose missing entries are named by a ValueError."""

    def __missing__(self, name):
        raise ValueError(f"{DAMAGED}: {name} is missing")


def saved(owner, names):
    """Return attributes as a state; its arrays are the owner's."""
    return {name: getattr(owner, name) for name in names}


def restore(owner, names, state):
    """Set attributes to what `saved` returned; arrays keep their memory, which others may share.

    Raises
    ------
    ValueError
        If one is of another shape or kind than the attribute is now.
    """
    for name in names:
        present = getattr(owner, name)
        if isinstance(present, np.ndarray):
            fill({name: present}, state)
        else:
            setattr(owner, name, type(present)(_alike(present, state, name)))


def fill(arrays, state):
    """Copy the arrays of a state into those of the same names; ValueError as in `restore`."""
    for name, array in arrays.items():
        array[...] = _alike(array, state, name)


def _alike(present, state, name):
    """Return what takes the place of a present value, an array."""
    present, value = np.asarray(present), np.asarray(state[name])
    if value.shape != present.shape or not np.can_cast(value.dtype, present.dtype, "same_kind"):
        raise ValueError(
            f"{DAMAGED}: {name} is {_described(value)} in place of {_described(present)}"
        )
    return value


def _described(array):
    return f"{array.dtype} of shape {array.shape}"


def part_of(state, name):
    """Return what a state holds under the names "name.other", by "other"."""
    prefix = f"{name}."
    return State(
        (key.removeprefix(prefix), value) for key, value in state.items() if key.startswith(prefix)
    )


def prefixed(name, state):
    """Return a state under names that `part_of` finds."""
    return {f"{name}.{key}": value for key, value in state.items()}
