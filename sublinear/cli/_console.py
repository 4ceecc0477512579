"""Standard output and standard error, whose readers may go, or never have been."""

import contextlib
import errno
import os
import sys


class ReaderGone(Exception):
    """Whoever read the results has seen enough."""


@contextlib.contextmanager
def standard_streams():
    """Lend the process both streams; what is written to one that is closed goes nowhere."""
    with contextlib.ExitStack() as stack:

        def lent(stream):
            return stream or stack.enter_context(open(os.devnull, "w", encoding="utf-8"))

        stack.enter_context(contextlib.redirect_stdout(lent(sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(Progress(lent(sys.stderr))))
        yield


@contextlib.contextmanager
def results():
    """Lend standard output; if its reader has gone, nothing more is written.

    Raises ValueError for what its encoding does not have, and where it is full.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError as error:
        _discard(sys.stdout)
        raise ReaderGone from error
    except OSError as error:
        if error.errno != errno.ENOSPC:  # maybe of what is read meanwhile
            raise
        _discard(sys.stdout)
        raise ValueError(f"standard output: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise ValueError(
            f"standard output is {error.encoding}, which has no {error.object[error.start]!a}: set "
            "PYTHONIOENCODING=utf-8, or have predict write a file (-o)"
        ) from error


class Progress:
    """Standard error: the work goes on where it cannot be written how far it is."""

    def __init__(self, stream):
        self.stream, self.at_line_start = stream, True

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        with self._unheard():
            self.stream.write(text)
        self.at_line_start = text.endswith("\n") if text else self.at_line_start
        return len(text)

    def flush(self):
        with self._unheard():
            self.stream.flush()

    @contextlib.contextmanager
    def _unheard(self):
        try:
            yield
        except OSError:  # the reader has gone, or a disk is full
            _discard(self.stream)


def at_line_start():
    """Tell whether a message would not go on a line that shows how far the work is."""
    return getattr(sys.stderr, "at_line_start", True)


def _discard(stream):
    """Let what is written to a stream go nowhere, what waits in it to be written too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def one_line(message):
    return " ".join(str(message).split())
