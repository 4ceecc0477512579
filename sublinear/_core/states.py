"""States of solvers: flat dicts of arrays and numbers, which another one made alike can go on from.

A state may come from a file, and that from a stranger or a broken disk: what is taken from it has
the shape and the kind of numbers of what it takes the place of.
"""

import contextlib
import json

import numpy as np

DAMAGED = "the saved state is damaged, or of another fit"
LARGEST = 2**60  # whole number: some more can be added


class State(dict):
    """A state that knows where it comes from, for the messages of errors.

    Parameters
    ----------
    entries : dict
    file : str, default=""
    prefix : str, default=""
        Of its names in the file.
    """

    file = prefix = ""

    def __init__(self, entries=(), file="", prefix=""):
        super().__init__(entries)
        self.file, self.prefix = file, prefix

    def __missing__(self, name):
        raise refusal(self, name, "is missing")


def refusal(state, name, fault):
    """Return the ValueError that says what is wrong with an entry, or with the one not there."""
    if not isinstance(state, State):
        state = State()
    file = f"{state.file}: " if state.file else ""
    return ValueError(f"{file}{DAMAGED}: {state.prefix}{name} {fault}")


@contextlib.contextmanager
def reading(state, name):
    """Give an entry; what fails with it becomes its `refusal`."""
    entry = state[name]
    try:
        yield entry
    except Exception as error:  # damage can make anything fail
        raise refusal(state, name, f"cannot be used ({error})") from error


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
            setattr(owner, name, take(state, name, present))


def fill(arrays, state):
    """Copy the arrays of a state into those of the same names; ValueError as in `restore`."""
    for name, array in arrays.items():
        array[...] = take(state, name, array)


def take(state, name, like, *, any_length=False):
    """Return an entry of the same kind and shape as another value, a number of its type.

    Parameters
    ----------
    state : dict
    name : str
    like : ndarray, number or str
    any_length : bool, default=False
        The first axis may be of any length.

    Raises
    ------
    ValueError
        If it is of another kind or shape, a whole number that counts nothing, or, in a file, NaN
        where `like` is finite.
    """
    entry, present = state[name], np.asarray(like)
    value = np.asarray(entry, dtype=object if isinstance(entry, list) else None)
    shapes = [array.shape[any_length:] for array in (value, present)]
    is_text = [array.dtype.kind == "U" for array in (value, present)]
    is_alike = np.can_cast(value.dtype, present.dtype, "same_kind") and is_text[0] == is_text[1]
    if shapes[0] != shapes[1] or value.ndim != present.ndim or not is_alike:
        raise refusal(state, name, f"is {_described(value)} in place of {_described(present)}")
    if present.dtype.kind in "iu" and not np.all((value >= 0) & (value <= LARGEST)):
        raise refusal(state, name, f"is no count: {value}")
    if isinstance(state, State) and state.file:
        is_number = present.dtype.kind == "f" and np.isfinite(present).all()
        if is_number and np.isnan(value).any():
            raise refusal(state, name, "is not a number")
    if isinstance(like, np.ndarray):
        return value.astype(present.dtype, copy=False)
    return type(like)(value[()])


def take_random(state, random):
    """Let a RandomBits go on from the JSON of its state, the entry `random`."""
    with reading(state, "random") as text:
        random.set_state(json.loads(text))


def _described(array):
    return f"{array.dtype} of shape {array.shape}"


def part_of(state, name):
    """Return what a state holds under the names "name.other", by "other"."""
    prefix = f"{name}."
    place = (state.file, state.prefix + prefix) if isinstance(state, State) else ("", prefix)
    entries = (
        (key.removeprefix(prefix), value) for key, value in state.items() if key.startswith(prefix)
    )
    return State(entries, *place)


def parts_of(state):
    """Return what a state holds under 0, 1, .., a list."""
    parts = []
    while part := part_of(state, len(parts)):
        parts.append(part)
    return parts


def prefixed(name, state):
    """Return a state under names that `part_of` finds."""
    return {f"{name}.{key}": value for key, value in state.items()}
