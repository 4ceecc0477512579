"""The command line: ``sublinear compare | fit | predict``.

Every command checks its output paths before it works, writes a file beside its place and renames
it. Errors are one line on standard error and exit status 2; Ctrl-C ends with status 1. A reader who
closes standard output has seen enough, status 0; nobody has to read standard error.
"""

import sys
import warnings

from sublinear.cli._arguments import make_parser
from sublinear.cli._console import ReaderGone, at_line_start, one_line, standard_streams

__all__ = ["main"]


def main(argv=None):
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : list of str, optional
        The arguments; by default those of the process.

    Returns
    -------
    status : int
        0 for success, 1 after Ctrl-C, 2 for an error.
    """
    with standard_streams():
        return _status_of(make_parser().parse_args(argv))


def _status_of(options):
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _shows_each_warning_once()
            options.run(options)
    except KeyboardInterrupt:
        return _complain("interrupted", status=1)
    except ReaderGone:
        return 0
    except MemoryError as error:
        return _complain(f"error: not enough memory ({error})")
    except (OSError, ValueError, ImportError) as error:
        return _complain(f"error: {error}".replace("pass resume=False", "give --no-resume"))
    return 0


def _complain(message, status=2):
    print(f"sublinear: {one_line(message)}", file=sys.stderr)
    return status


def _shows_each_warning_once():
    """Return a `warnings.showwarning`: what holds for one fit holds for those that follow it."""
    shown = set()

    def show(message, *_):
        line = f"sublinear: warning: {one_line(message)}"
        if line not in shown:
            shown.add(line)
            print(line if at_line_start() else f"\n{line}", file=sys.stderr)

    return show
