"""Why nothing can be learnt from a source."""

NO_LABELS = "no labels to learn from: a .npy file needs a file of labels, a .npz file an array y"


class EmptySource(ValueError):
    """There is nothing to learn from in a source."""

    def __init__(self, message="the source is empty: it yields no rows"):
        super().__init__(message)


def no_rows_in(paths):
    """Return the words of a source's `why_empty`."""
    others = f", nor do the {len(paths) - 1} others" if len(paths) > 1 else ""
    return f"{paths[0]}: the file holds no rows{others}"


def nothing_in(source):
    """Return the EmptySource of a pass over a source that yielded no rows."""
    why = getattr(source, "why_empty", None)
    return EmptySource() if why is None else EmptySource(why)
