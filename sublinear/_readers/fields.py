"""Fields of text: the numbers that they hold, and how errors show them."""

import math


def is_finite_number(text):
    """Tell whether NumPy reads a finite number, as from a field of CSV: spaces may be of any kind.

    But not digits of other scripts, which Python knows, nor 1_0 for 10.
    """
    text = text.strip()
    return text.isascii() and "_" not in text and is_finite_to_python(text)


def is_finite_to_python(text):
    """Tell whether Python reads a finite number, the svmlight parser from bytes."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def shown(text, limit=40):
    """Return ``text``, which may be bytes, quoted, and cut where it is long."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return repr(text if len(text) <= limit else text[:limit] + "...")
