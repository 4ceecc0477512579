"""Blocks read ahead on a thread, and what a source around another one passes on."""

import contextlib
import queue
import threading
from copy import deepcopy
from mmap import mmap
from numbers import Number

import numpy as np
from scipy import sparse

from sublinear._validation import check_number
from sublinear.sources._arrays import ArraySource, NpySource, NpzSource
from sublinear.sources._parquet import ParquetSource
from sublinear.sources._text import CSVSource, SvmlightSource

PATIENCE = 0.2  # seconds between two looks whether the other side of a queue has gone
GOODBYE = 2.0  # seconds for a reading thread to finish its block after the fit has ended


class SourceAround:
    """A source of another one's blocks: what it passes on besides blocks."""

    def __init__(self, source):
        self.source = self._told_by = source

    def __iter__(self):
        yield from self._noted(iter(self.source))

    def _noted(self, blocks):
        """Return the blocks of a pass, and note who tells what was left out of them.

        The source tells it of the pass that was begun last, perhaps for another fit.
        """
        self._told_by = getattr(blocks, "left_out", self.source)
        return blocks

    @property
    def skipped(self):
        """Malformed lines that the source left out in the present pass."""
        return getattr(self._told_by, "skipped", 0)

    @property
    def why_empty(self):
        """Why the last pass yielded no rows, in words, if the source knows."""
        return getattr(self._told_by, "why_empty", None)

    @property
    def feature_names(self):
        """The names of the source's features, None for none."""
        return getattr(self.source, "feature_names", None)

    @property
    def present(self):
        """The file that the present block is from, None if the source has none."""
        return present_file(self.source)


class ReadAhead(SourceAround):
    """Another source's blocks, read on a thread while the last ones are being used.

    Parameters
    ----------
    source : iterable
        An error that it raises reaches whoever asks for the next block. Of one that has
        `raw_blocks()` the thread reads those; `block_of(raw)` is called when their turn comes.
        Blocks are copied, as their arrays may be filled again, but for those of lists, tuples and
        the other classes here.
    blocks : int, default=2
        How many may wait; one more is being read.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.sources import ArraySource, ReadAhead
    >>> source = ReadAhead(ArraySource(np.ones((5, 2)), np.arange(5), block_rows=2))
    >>> [X.shape for X, y in source]
    [(2, 2), (2, 2), (1, 2)]
    """

    def __init__(self, source, blocks=2):
        super().__init__(source)
        check_number("blocks", blocks, low=1, integer=True)
        self.blocks, self._present = blocks, None

    @property
    def present(self):
        return self._present  # the source itself is ahead

    def __iter__(self):
        waiting = queue.Queue(self.blocks)
        ended = threading.Event()
        in_two_steps = hasattr(self.source, "raw_blocks")
        source = self.source.raw_blocks() if in_two_steps else lasting_blocks(self.source)
        self._noted(source)
        reader = threading.Thread(
            target=self._read, args=(source, waiting, ended), name="sublinear-reader", daemon=True
        )
        try:
            reader.start()
            while True:
                try:
                    what, item, self._present = waiting.get(timeout=PATIENCE)
                except queue.Empty:  # Ctrl-C gets its turn
                    continue
                if what == "error":
                    raise item
                if what == "end":
                    return
                yield self.source.block_of(item) if in_two_steps else item
                item = None  # while the next one is awaited, none is held
        finally:
            item = None  # an error is not to be held where it passes
            ended.set()
            if reader.is_alive():  # not if Ctrl-C came before it was
                reader.join(GOODBYE)

    def _read(self, source, waiting, ended):
        """Put every block, then the end or what was raised, each with the file it is from."""

        def put(*item):
            while not ended.is_set():
                with contextlib.suppress(queue.Full):
                    return waiting.put((*item, present_file(self.source)), timeout=PATIENCE)

        try:
            for block in source:
                put("block", block)
                if ended.is_set():
                    return
                block = None
            put("end", None)
        except BaseException as error:
            put("error", error)


def present_file(source):
    """Return the file that the present block of one of the sources here is from, or None."""
    return source.present if isinstance(source, _WITH_FILES) else None


def lasting_blocks(source):
    """Return an iterator over the blocks of a source, or copies if it may fill their arrays again.

    What those of this package do before their first block is done here: they find the columns of
    text, in a pass that Ctrl-C is to end. Others may open what only the thread that reads may use.
    """
    return iter(source) if type(source) in _LASTING else _copies(source)


def _copies(source):
    yield from map(_copied, source)


_WITH_FILES = (NpySource, NpzSource, SvmlightSource, CSVSource, ParquetSource, SourceAround)

# Only these: an __iter__ of anyone else, of a subclass too, may be a generator.
_LASTING = (
    *(list, tuple, ArraySource, NpySource, NpzSource),
    *(SvmlightSource, CSVSource, ParquetSource, ReadAhead),
)


def _copied(block):
    """Return a block with arrays and lists of its own."""
    if isinstance(block, tuple):
        return tuple(map(_copied_part, block))
    return _copied_part(block)


def _copied_part(part):
    if part is None or isinstance(part, (str, bytes, Number)) or _is_constant(part):
        return part
    if isinstance(part, (list, tuple)):
        return (list if isinstance(part, list) else tuple)(map(_copied_part, part))
    if not (sparse.issparse(part) or hasattr(part, "__array__") or _is_buffer(part)):
        return part
    if type(part).__module__.partition(".")[0] == "pyarrow":  # nobody writes into them
        return part
    if isinstance(part, np.ndarray):
        return part.copy(order="K")  # sums depend on it, in the last bits
    if sparse.issparse(part):
        return deepcopy(part)  # its own `copy` knows no big-endian values
    copy = getattr(part, "copy", None) or getattr(part, "clone", None)  # frames keep their names
    return copy() if copy else np.array(part)


def _is_constant(array):
    """Tell whether nobody writes into an array: neither through it nor through what it shows."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        if array.base is None:
            return True
        array = array.base
    return isinstance(array, (bytes, mmap)) and memoryview(array).readonly


def _is_buffer(part):
    with contextlib.suppress(TypeError):
        return memoryview(part).nbytes >= 0
    return False
