"""Text, svmlight and CSV, in blocks of whole lines."""

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from sublinear._documentation import with_parameters
from sublinear._readers.csv_text import (
    beginning_of,
    csv_line_fault,
    labels_from,
    parsed_lines,
    parts_of,
)
from sublinear._readers.dataset import LARGEST_FLOAT
from sublinear._readers.files import (
    check_readable,
    chunks_of_lines,
    open_behind_mark,
    undamaged,
)
from sublinear._readers.svmlight_text import (
    check_index_base,
    has_odd_bytes,
    has_rounded_label,
    is_sound_svmlight,
    svmlight_line_fault,
)
from sublinear._validation import check_choice, check_number
from sublinear.sources._faults import nothing_in

BLOCK_BYTES = 2**21  # Ctrl-C waits for svmlight's parser, which takes 0.1 s for so many


@dataclass
class _LeftOut:
    """What a pass has left out. Those of several fits may overlap, so each has its own."""

    skipped: int = 0
    first: str | None = None
    why_empty: str | None = None  # in words, if there were no rows


class _Pass:
    """An iterator over blocks that has what was `left_out` of them."""

    def __init__(self, blocks, left_out):
        self._blocks, self.left_out = blocks, left_out

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._blocks)

    def close(self):
        self._blocks.close()


class _TextSource:
    """Text in chunks of whole lines: parsed at once, looked at line by line where that fails."""

    header_lines = 0

    def __init__(self, path, block_bytes, on_error):
        check_number("block_bytes", block_bytes, low=1, integer=True)
        check_choice("on_error", on_error, ("raise", "skip"))
        self.path = self.present = Path(path)
        self.block_bytes = block_bytes
        self.on_error = on_error
        self._left_out = _LeftOut()  # of the last pass
        check_readable(self.path)

    @property
    def skipped(self):
        return self._left_out.skipped

    @property
    def why_empty(self):
        return self._left_out.why_empty

    def __iter__(self):
        return self._pass(self._parse, self._line_fault)

    def _pass(self, parse, line_fault):
        """Return an iterator over what `parse` makes of every chunk, but for chunks without rows.

        `line_fault` tells what is wrong with a line, None if nothing is, where `parse` fails.
        """
        self._left_out = left_out = _LeftOut()
        return _Pass(self._blocks(parse, line_fault, left_out), left_out)

    def _blocks(self, parse, line_fault, left_out):
        is_empty = True
        with undamaged(self.path), open_behind_mark(self.path) as stream:
            for _ in range(self.header_lines):
                stream.readline()
            line = self.header_lines + 1
            for chunk in chunks_of_lines(stream, self.block_bytes):
                block = self._parsed(parse, line_fault, left_out, chunk, line)
                if block is not None and block[0].shape[0] > 0:
                    is_empty = False
                    yield block
                line += chunk.count(b"\n")
        if is_empty:
            why = _all(left_out) if left_out.skipped else "the file holds no rows"
            left_out.why_empty = f"{self.path}: {why}"

    def _parsed(self, parse, line_fault, left_out, chunk, line):
        try:
            return parse(chunk)
        except (ValueError, OverflowError):
            sound = self._sound_lines(line_fault, left_out, chunk, line)
        try:
            return parse(sound) if sound else None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self.path}, line {line} or later: {error}") from error

    def _sound_lines(self, line_fault, left_out, chunk, first):
        """Return the chunk without its malformed lines, or raise the first one's fault."""
        sound = []
        for number, line in enumerate(io.BytesIO(chunk), start=first):
            fault = line_fault(line)
            if fault is None:
                sound.append(line.rstrip(b"\r\n") + b"\n")  # some writers end lines with \r\r\n
            elif self.on_error == "raise":
                raise ValueError(f"{self.path}, line {number}: {fault}")
            else:
                left_out.first = left_out.first or f"line {number}: {fault}"
                left_out.skipped += 1
        return b"".join(sound)


def _all(left_out):
    """Return that all lines were left out, in words."""
    if left_out.skipped == 1:
        return f"the only line of data is malformed and was left out: {left_out.first}"
    return (
        f"all {left_out.skipped} lines are malformed and were left out; the first is "
        f"{left_out.first}"
    )


_TEXT_PARAMETERS = """\
block_bytes : int, default=2**21
        Bytes of text in a block, about: it ends with a line. Where the text is svmlight, Ctrl-C
        waits for the parser of a block.
    on_error : {"raise", "skip"}, default="raise"
        What to do with a malformed line: raise a ValueError that names the file and the line, or
        leave it out and count it."""


@with_parameters(text=_TEXT_PARAMETERS)
class SvmlightSource(_TextSource):
    """LIBSVM / svmlight text: ``label index:value index:value ...``, compressed or not.

    Parameters
    ----------
    path : str or path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    n_features : int, default=None
        Columns. None finds out, by one more pass over the file.
    index_base : {0, 1}, default=None
        The index of the first feature. None finds out, by the same pass: 0 if the file uses index
        0 anywhere, else 1.
    %(text)s

    Attributes
    ----------
    skipped : int
        Lines left out in the last pass, or so far in this one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sublinear.sources import SvmlightSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.svm"
    ...     _ = path.write_text("1 1:0.5 3:2\\n-1 2:1\\n")
    ...     [(X.toarray().tolist(), y.tolist()) for X, y in SvmlightSource(path)]
    [([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]], [1.0, -1.0])]
    """

    def __init__(
        self, path, *, n_features=None, index_base=None, block_bytes=BLOCK_BYTES, on_error="raise"
    ):
        super().__init__(path, block_bytes, on_error)
        check_number("n_features", n_features, low=1, integer=True, optional=True)
        check_index_base(index_base)
        self.n_features = n_features
        self.index_base = index_base

    def __iter__(self):
        if not self.knows_columns:
            self.find_columns()
        return super().__iter__()

    @property
    def knows_columns(self):
        """Whether `n_features` and `index_base` were given or have been found."""
        return self.n_features is not None and self.index_base is not None

    def find_columns(self, watch=None):
        """Find `n_features` and `index_base` in a pass; the first iteration does it otherwise.

        Parameters
        ----------
        watch : callable, default=None
            Called with the number of rows of every block.
        """
        lowest, columns, n_rows = 1, 0, 0
        for X, _ in self._pass(self._parse_unlimited, partial(self._fault_in, n_features=None)):
            lowest = min(lowest, X.indices.min(initial=1))
            columns = max(columns, int(X.indices.max(initial=-1)) + 1)  # of no entries 0
            n_rows += X.shape[0]
            if watch:
                watch(X.shape[0])
        if self.index_base is None:
            self.index_base = int(lowest)
        if self.n_features is None:
            if n_rows == 0:
                raise nothing_in(self)
            if columns - self.index_base < 1:
                raise ValueError(f"{self.path}: the file holds no feature columns")
            self.n_features = columns - self.index_base

    def _parse_unlimited(self, chunk):
        """Read indices as they are written."""
        X, y = load_svmlight_file(io.BytesIO(chunk), zero_based=True)
        return self._checked(X, y, chunk, lowest=self.index_base or 0)

    def _parse(self, chunk):
        X, y = load_svmlight_file(
            io.BytesIO(chunk), n_features=self.n_features, zero_based=self.index_base == 0
        )
        return self._checked(X, y, chunk, shift=self.index_base)

    def _checked(self, X, y, chunk, lowest=0, shift=0):
        if X.indices.min(initial=lowest) < lowest:
            raise ValueError("an index lies below the first one")
        if not is_sound_svmlight(X, y, shift):
            raise ValueError("a value is not finite, or an index is too large")
        if has_odd_bytes(chunk):
            raise ValueError("there is an underscore or a zero byte")
        if has_rounded_label(y, io.BytesIO(chunk)):
            raise ValueError("a label is a whole number that floats do not hold")
        return sparse.csr_array(X), y

    def _line_fault(self, line):
        return self._fault_in(line, self.n_features)

    def _fault_in(self, line, n_features):
        return svmlight_line_fault(line, self.index_base or 0, n_features)


@with_parameters(text=_TEXT_PARAMETERS)
class CSVSource(_TextSource):
    """Comma-separated numbers, with labels that are numbers or text, compressed or not.

    A quoted label must not hold a line break, and lines must not end with CR alone.

    Parameters
    ----------
    path : str or path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    label_column : {"last", "first"}, int, str or None, default="last"
        Where the labels are: a position (from 0, negative from the end), or a name in the header.
        None: there are no labels; the blocks (X, None) serve predictions, not fits.
        They are text if the first one that is not missing is no number. Whole numbers of up to 64
        bits keep all their digits; longer ones can only be text.
    weight_column : int, str or None, default=None
        Where the weights of the rows are, in the same words: no feature, but the `sample_weight` of
        the blocks, which then are (X, y, sample_weight). None: there are no weights.
    header : bool, default=None
        Whether the file starts with a line of column names. None: it does if there is a name for a
        feature in its first line, or one for the label and the next label is a number. Names are
        neither numbers nor words for a missing value: nothing, ?, NA, N/A, NaN, null, none.
    text_labels : {True, None}, default=None
        True: labels are text, numbers among them too. None finds out.
    %(text)s

    Attributes
    ----------
    skipped : int
        Lines left out in the last pass, or so far in this one.
    feature_names : list of str or None
        Of the header, where there is one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sublinear.sources import CSVSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("length,width,kind\\n1,2,a\\n3,4,b\\n")
    ...     source = CSVSource(path)
    ...     [(X.tolist(), y.tolist()) for X, y in source], source.feature_names
    ([([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])], ['length', 'width'])
    """

    def __init__(
        self,
        path,
        *,
        label_column="last",
        weight_column=None,
        header=None,
        text_labels=None,
        block_bytes=BLOCK_BYTES,
        on_error="raise",
    ):
        super().__init__(path, block_bytes, on_error)
        with undamaged(self.path):
            start = beginning_of(self.path, label_column, weight_column, header, text_labels)
        if start.ends_with_return:  # chunks end with LF
            raise ValueError(
                f"{self.path}: lines end with CR alone, or with CR CR LF: convert the file to LF"
            )
        self.header_lines, self.feature_names = start.lines, start.feature_names
        self._start = start

    def _parse(self, chunk):
        if not chunk.strip(b"\r\n"):
            return None
        special, text_labels = self._start.special, self._start.text_labels
        names = {} if text_labels else None
        X, y, weights = parts_of(parsed_lines(chunk, self._start, names), special)
        if y is not None:
            y = self._labels(chunk, y, names)
        return (X, y) if weights is None else (X, y, weights)

    def _labels(self, chunk, y, names):
        """Return the labels of a chunk that was parsed to numbers, or codes of `names`."""
        text_labels = self._start.text_labels
        if names is None and np.abs(y).max(initial=0) >= LARGEST_FLOAT:
            names = {}
            y = parsed_lines(chunk, self._start, names)[:, self._start.special.label]
        if names is not None:
            y = labels_from(names, text_labels)[y.astype(np.intp)]
            if y.dtype.kind == "U" and not text_labels:
                raise ValueError(
                    "a label is a whole number of more than 64 bits: text_labels=True "
                    "(--text-labels) takes all labels for text"
                )
        return y

    def _line_fault(self, line):
        return csv_line_fault(line, self._start, self._start.text_labels)
