"""Parts of docstrings that several classes or functions have in common."""


def with_parameters(**texts):
    """Return a decorator that puts texts where a docstring has %(name)s."""

    def decorate(documented):
        for name, text in texts.items():
            if documented.__doc__:
                marked = f"%({name})s"
                documented.__doc__ = documented.__doc__.replace(marked, text.rstrip())
        return documented

    return decorate
