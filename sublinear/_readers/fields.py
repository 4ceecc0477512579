"""Fields of text: the numbers that they hold, and how errors show them."""

import math


def is_finite_number(text):
    return "_" not in text and is_finite_to_python(text)


def is_finite_to_python(text):
    """Tell whether Python, as the svmlight parser, reads a finite number; it takes 1_0 for 10."""
    try:
        # float knows digits and signs of all scripts; parsers do not
        return text.isascii() and math.isfinite(float(text))
    except ValueError:
        return False


def shown(text, limit=40):
    """Return ``text`` quoted, and cut where it is long."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
