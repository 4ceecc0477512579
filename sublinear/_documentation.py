"""Parts of docstrings that several classes or functions have in common."""

import inspect


def with_parameters(**texts):
    """Return a decorator that puts texts where the docstring of a class has %(name)s.

    The texts are indented as it is in the source; Python takes that off from 3.13 on.
    """

    def decorate(documented):
        if documented.__doc__:
            whole = inspect.cleandoc(documented.__doc__)
            for name, text in texts.items():
                whole = whole.replace(f"%({name})s", text.rstrip().replace("\n    ", "\n"))
            documented.__doc__ = whole
        return documented

    return decorate
