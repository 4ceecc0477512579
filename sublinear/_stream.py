"""Fits over a source: the check of its blocks, and the one loop over them.

An estimator with `partial_fit` gets `fit_stream` from StreamFit. It has to say

    _check_parameters()       raises ValueError for parameters that make no sense
    _stream_state()           what the next block needs of the ones before, a flat dict of arrays,
                              numbers, strings and None, without the fitted attributes
    _set_stream_state(state)  go on from there; None forgets all blocks, so that the next
                              `partial_fit` is the first one

An estimator that takes several passes overrides `_fit_source`; one whose blocks are of another kind
overrides `_check_block`, `_learn_block` and `_takes_classes`.
"""

import contextlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import is_classifier
from sklearn.utils.validation import assert_all_finite, check_array, check_X_y

from sublinear._archive import copied_seeds, plain_seeds, seeds_of
from sublinear._callbacks import rows_shown
from sublinear._checkpoint import fitted_state, open_checkpoint, set_fitted_state
from sublinear._core.matrix import check_before_csr
from sublinear._core.row_marks import RowMarks
from sublinear._core.states import part_of, prefixed, take
from sublinear._fit_method import all_or_nothing
from sublinear._labels import WEIGHTLESS
from sublinear._result import with_earlier
from sublinear._validation import (
    NO_WEIGHT,
    agreed_names,
    check_names_fit,
    check_number,
    check_sample_weight,
    column_names,
    naming_entries,
    seed_sequence,
    weights_of_rows,
)
from sublinear.sources import ArraySource, ReadAhead
from sublinear.sources._faults import NO_LABELS, EmptySource, nothing_in
from sublinear.sources._read_ahead import SourceAround, present_file

FOR_ARRAYS = "; for arrays there is sublinear.sources.ArraySource(X, y)"


class Block(NamedTuple):
    """Validated rows; weights are None where all are 1."""

    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None

    is_checked = True

    def after(self, n_rows):
        """Return the Block without its first rows."""
        if n_rows == 0:
            return self
        return type(self)(*(None if part is None else part[n_rows:] for part in self))

    def checked(self):
        """Return a Block whose X is finite; ValueError if a value of it is not."""
        return self


class UncheckedBlock(Block):
    """Rows validated but for the values of X, which may not be finite."""

    is_checked = False

    def checked(self):
        """As that of Block."""
        X = self.X
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.add.reduce(X.data if sparse.issparse(X) else X, axis=None)
        if not np.isfinite(total):
            check_array(X, accept_sparse="csr", accept_large_sparse=True, input_name="X")
        return Block(*self)


def rest_of(stream, row):
    """Yield the blocks of a stream from a row on; the one that it lies in begins there."""
    for block in stream:
        n_rows = block.X.shape[0]
        if row == 0 or row < n_rows:
            yield block.after(row)
        row = max(0, row - n_rows)


def checked_block(block, y_numeric, check_values=True):
    """Return the Block of what a source yields; weights may all be 0, rows may be missing.

    Without `check_values` it is an UncheckedBlock, whose y may hold what is not finite as well.

    Raises
    ------
    ValueError
        If it is no (X, y) or (X, y, sample_weight) that solvers can read.
    """
    if isinstance(block, Block):
        return block
    X, y, *weights = parts_of_block(block)
    if y is None:
        raise ValueError(NO_LABELS)
    check_before_csr(X)
    with (
        naming_entries(X=X, y=y if y_numeric else ()),
        config_context(assume_finite=None if check_values else True),  # of y
    ):
        X, y = check_X_y(
            X,
            y,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            y_numeric=y_numeric,
            ensure_min_samples=0,
            ensure_all_finite=check_values,
        )
    kind = Block if check_values else UncheckedBlock
    return kind(X, y, checked_weights(weights[0] if weights else None, X.shape[0]))


def parts_of_block(block, forms=("(X, y)", "(X, y, sample_weight)"), hint=FOR_ARRAYS):
    """Return the tuple or list that a source yields; ValueError if it has none of the forms."""
    if isinstance(block, (tuple, list)):
        if any(len(block) == form.count(",") + 1 for form in forms):
            return block
        found = f"a {type(block).__name__} of {len(block)}"
    else:
        found = f"a {type(block).__name__}"
    *others, last = forms
    raise ValueError(f"a source must yield {', '.join(others)} or {last}, got {found}{hint}")


def checked_weights(weights, count):
    """Return the weights of a block of so many examples; None for 1 each, or without examples."""
    if weights is None or count == 0:
        return None
    X = np.empty(count)
    checked = weights_of_rows(weights, X)
    if np.ndim(weights) and not checked.any():
        return checked
    return check_sample_weight(checked, X)


def names_of_block(block):
    """Return the names of the columns of what a source yields, as `column_names` does."""
    return column_names(block[0]) if isinstance(block, (tuple, list)) and len(block) else None


def check_source(source):
    """Raise TypeError for what is no iterable of blocks."""
    if isinstance(source, (str, bytes)) or not hasattr(source, "__iter__"):
        hint = "open_source reads files"
        if callable(source):
            hint = "GeneratorSource calls a function that yields them"
        raise TypeError(
            "a source is an iterable of (X, y) or (X, y, sample_weight) blocks, got "
            f"{type(source).__name__}; sublinear.sources.{hint}"
        )


@contextlib.contextmanager
def naming(place):
    """Say in a ValueError or TypeError what it is about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}: {error}") from error


class Stream:
    """A source whose blocks are checked on their way in.

    Parameters
    ----------
    source : iterable of (X, y) or (X, y, sample_weight)
    y_numeric : bool
        Whether y must hold numbers.
    read_ahead : int
        Blocks that a thread reads ahead; 0 for none.
    check_values : bool, default=True
        False: yield an UncheckedBlock where only the values of X are left to be checked.
    check : callable, default=None
        Makes a Block, or the like, of what the source yields, and a list of the names of its
        columns or None; or raises ValueError. None: it yields rows.
    name : str, default="the source"
        What errors call it.

    Attributes
    ----------
    n_features : int or None
        Columns of the first block; None where examples are no rows.
    feature_names : ndarray of str or None
        Names of these columns, by the source or the first block that is a data frame.
    dtype : numpy.dtype
        That holds the values of all blocks so far that have rows with weight; they keep their own.
    blocks, rows : int
        Of the present pass so far; rows of blocks without weight are left out.
    """

    def __init__(
        self,
        source,
        *,
        y_numeric,
        read_ahead,
        check_values=True,
        check=None,
        name="the source",
    ):
        check_number("read_ahead", read_ahead, low=0, integer=True)
        check_source(source)
        self.name = name
        self.source, self.y_numeric = source, y_numeric
        self.check_values, self.check = check_values, check
        self.is_array = type(source) is ArraySource  # an __iter__ of a subclass yields other blocks
        self.read_ahead = 0 if self.is_array else read_ahead
        self.n_features = self.dtype = self.feature_names = None
        self.note_names(getattr(source, "feature_names", None))
        self.reading = None  # what yields the blocks of the present pass
        self.blocks = self.rows = self.weightless = 0
        self.is_repeated = False  # whether passes are compared
        self.last_pass = None  # the StreamSummary of the last whole one
        self.first_pass = None  # the RowMarks of the first one, once it has ended
        self.whole = None  # the UncheckedBlock of all rows, if they could be checked at once

    @property
    def skipped(self):
        """Malformed lines that the source left out in the present pass."""
        return self.reading.skipped if self.reading else 0

    @property
    def summary(self):
        """The StreamSummary of the last whole pass, of the present one before that."""
        return self.last_pass or self._present_pass()

    def _present_pass(self):
        return StreamSummary(self.blocks, self.rows, self.skipped)

    def require_repeatable(self):
        """Compare the rows of all passes; raise ValueError if there can be only one."""
        if isinstance(self.source, Iterator):
            raise ValueError(
                "this fit takes several passes, and a generator can be read only once: pass its "
                "function in a sublinear.sources.GeneratorSource, or a source that reads files"
            )
        self.is_repeated = True

    def __iter__(self):
        """Yield the Blocks of one pass."""
        self.blocks = self.rows = self.weightless = 0
        marks = RowMarks(self.first_pass)
        source = self._checked_whole() or self.source
        ahead = self.read_ahead
        self.reading = ReadAhead(source, ahead) if ahead else SourceAround(source)
        with contextlib.closing(iter(self.reading)) as blocks:
            for block in blocks:
                self.blocks += 1
                with self.naming_block():
                    block = self._checked(block)
                    if block is not None and self.is_repeated:
                        marks.add(*block)
                if block is not None:
                    self.rows += block.X.shape[0]
                    yield block
        if self.is_repeated:
            with naming(self.name):
                marks.end()
            self.first_pass = self.first_pass or marks
        if not self.rows:
            raise EmptySource(NO_WEIGHT) if self.weightless else nothing_in(self.reading)
        self.last_pass = self._present_pass()

    def _checked_whole(self):
        """Return Blocks of arrays that need no copy, or None: only values are left to be checked.

        Those of a block are when its turn comes, which brings it into the cache.
        """
        source = self.source
        if (
            self.check is not None
            or not self.is_array
            or source.X.dtype not in (np.float32, np.float64)
        ):
            return None
        if self.whole is None:
            # what is wrong is said of the block where it is
            with contextlib.suppress(ValueError, TypeError):
                self.whole = checked_block((source.X, *source.columns), self.y_numeric, False)
        return self.whole and (UncheckedBlock(*part) for part in source.blocks_of(*self.whole))

    def naming_block(self):
        """Say in a ValueError or TypeError that it is about the present block."""
        file = present_file(self.reading)
        return naming(f"block {self.blocks} of {self.name}{f' ({file})' if file else ''}")

    def _checked(self, block):
        """Return the Block, or None if it holds nothing."""
        if self.check:
            block, names = self.check(block)
            self.note_names(names)
        else:
            self.note_names(names_of_block(block))
            block = checked_block(block, self.y_numeric, check_values=False)
            if self.check_values or self.y_numeric:  # else labels are looked up
                assert_all_finite(block.y, input_name="y")
        X, weights = block.X, block.sample_weight
        n_features = X.shape[1] if X.ndim == 2 else None
        if self.n_features is None:
            self.n_features = n_features
            if n_features is not None:
                check_names_fit(self.feature_names, n_features)
        if n_features != self.n_features:
            raise ValueError(f"{n_features} columns, but the first block has {self.n_features}")
        if X.shape[0] == 0:
            return None
        if weights is not None and not weights.any():
            self.weightless += X.shape[0]
            return None
        self.dtype = X.dtype if self.dtype is None else np.promote_types(self.dtype, X.dtype)
        return block.checked() if self.check_values and self.check is None else block

    def note_names(self, names):
        """Take names of columns, None for none; ValueError if they differ from those before."""
        names = agreed_names(self.feature_names, names)
        self.feature_names = None if names is None else np.array(names, dtype=object)


class StreamSummary(NamedTuple):
    """What a fit read from its source, in its last whole pass.

    Or what it had read by then, if it was ended in its first.

    Attributes
    ----------
    blocks, rows : int
        Rows of blocks without weight are left out.
    skipped : int
        Malformed lines left out by a source with on_error="skip".

    Examples
    --------
    >>> from sublinear import SDCAClassifier
    >>> blocks = [([[1.0], [-1.0]], [1, 0]), ([[2.0]], [1])]
    >>> SDCAClassifier(random_state=0).fit_stream(blocks).stream_
    StreamSummary(blocks=2, rows=3, skipped=0)
    """

    blocks: int
    rows: int
    skipped: int


class StreamFit:
    """Gives an estimator `fit_stream`."""

    _stream_seeds = None  # of the blocks to come, once there is a stream
    _kept_as = "_states"  # the attribute with what the next block needs of a model, besides
    _checks_values = False  # whether `_learn_block` takes an UncheckedBlock, and checks it
    _check_block = None  # makes a Block, and names, of what a source yields; None for rows

    @all_or_nothing
    def fit_stream(
        self,
        source,
        *,
        classes=None,
        checkpoint=None,
        checkpoint_every=100,
        resume=True,
        read_ahead=2,
    ):
        """Fit the model to blocks of rows that need not fit into memory together.

        A new fit, unless there is a `warm_start` and it is set.

        Parameters
        ----------
        source : iterable of (X, y) or (X, y, sample_weight)
            Blocks of rows as `fit` takes them, all with the same columns: an object of
            `sublinear.sources`, a generator, a list. Estimators that take several passes need one
            that can be iterated again, and yields the same rows in the same order every time.
            Weights count as in `partial_fit`, where there is one.
        classes : array-like of shape (n_classes,), default=None
            All labels that the source will yield, for classifiers. Those that take one pass need
            them, others find them out.
        checkpoint : str or path-like, default=None
            A file for the state of the fit, replaced every `checkpoint_every` blocks, when a
            callback stops the fit, and at the end. None: no file.
        checkpoint_every : int, default=100
            Blocks.
        resume : bool, default=True
            Go on from the checkpoint if the file is there; the source has to begin at its
            beginning again. The result is that of a fit without a pause, bit for bit, also if
            `warm_start` would go on from another model. False: begin anew and replace the file.
        read_ahead : int, default=2
            Blocks that a thread reads while the last one is being used; 0 for no thread. A source
            may fill the arrays of a block again: blocks that wait are copies, unless they come from
            a list, a tuple or a class of `sublinear.sources`, GeneratorSource aside.

        Returns
        -------
        self : estimator
            With an attribute `stream_`, a StreamSummary, and `feature_names_in_` if the source has
            `feature_names`, or blocks are data frames.

        Raises
        ------
        ValueError
            For parameters, a source or blocks that make no sense, or hold no numbers, the message
            names the block; for a checkpoint of another fit: other data, parameters, or version of
            this package.
        TypeError
            For what is no source; for entries that are neither numbers nor text; for data frames
            only some of whose columns are named by strings.
        OSError
            If the checkpoint cannot be written.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        if classes is not None and not self._takes_classes():
            raise ValueError("classes are the labels of a classifier; a regressor has none")
        stream = Stream(
            source,
            y_numeric=not is_classifier(self),
            read_ahead=read_ahead,
            check_values=not self._checks_values,
            check=self._check_block,
        )
        checkpoint = open_checkpoint(checkpoint, checkpoint_every, resume, self, classes)
        known = vars(self).pop("feature_names_in_", None)  # blocks come without names
        if getattr(self, "warm_start", False):
            with naming("the model that the fit goes on from"):
                stream.note_names(known)
        try:
            self._fit_source(stream, classes, checkpoint)
        finally:
            self.stream_ = stream.summary
            if stream.feature_names is not None:
                self.feature_names_in_ = stream.feature_names
        return self

    def _takes_classes(self):
        """Tell whether `partial_fit` takes the labels to come."""
        return is_classifier(self)

    def _fit_source(self, stream, classes, checkpoint):
        """Take one pass, a `partial_fit` for every block."""
        options = self._options_of_blocks(classes)
        if not getattr(self, "warm_start", False):
            self._set_stream_state(None)
        learned = False
        with (
            rows_shown(getattr(self, "verbose", 0), type(self).__name__) as count,
            contextlib.closing(iter(stream)) as blocks,
        ):
            first = next(blocks)
            done, rows = self._resumed(first, checkpoint)
            is_behind = done > 0  # at blocks that the checkpoint has
            for block in itertools.chain([first], blocks):
                if is_behind and stream.blocks > done:
                    checkpoint.compare_counts((done, rows), (done, stream.rows - len(block.y)))
                    is_behind = False
                if not is_behind:
                    learned |= self._take_block(stream, block, learned, done > 0, options)
                    if checkpoint and (learned or done) and checkpoint.is_due(stream.blocks):
                        self._save(checkpoint, stream)
                count(len(block.y))
        if is_behind:  # beyond the checkpoint's blocks there are none with rows
            checkpoint.compare_counts((done, rows), (min(done, stream.blocks), stream.rows))
        if not learned and not done:
            raise ValueError(WEIGHTLESS)
        if checkpoint and done < stream.blocks:
            self._save(checkpoint, stream)

    def _options_of_blocks(self, classes):
        """Return the options of `partial_fit`: the labels to come, where it takes them."""
        if not self._takes_classes():
            return {}
        if classes is None:
            raise ValueError(
                "fit_stream needs classes, all labels to come; "
                "sublinear.sources.distinct_labels(source) finds them in a pass of its own"
            )
        return {"classes": classes}

    def _take_block(self, stream, block, learned, resumed, options):
        """Learn from a Block, unless class_weight leaves nothing of it; return whether it did.

        `learned`: from one of this call before; `resumed`: from those of a checkpoint.
        """
        if self._is_weightless(block):
            return False
        with stream.naming_block(), self._adding_to_result(learned or resumed):
            self._learn_block(block, not learned, options)
        return True

    def _seed_stream(self):
        """Seed the blocks to come, unless the stream has begun."""
        if self._stream_seeds is None:
            self._stream_seeds = seed_sequence(self.random_state)

    def _seeds(self, count):
        """Return seeds for the solvers of a fit or a block; a failure brings the old ones back."""
        if self._stream_seeds is None:
            return seed_sequence(self.random_state).spawn(count)
        self._stream_seeds = copied_seeds(self._stream_seeds)
        return self._stream_seeds.spawn(count)

    def _goes_on(self):
        """Tell whether there are blocks to go on from; ValueError for a restored model."""
        if self._kept_as not in vars(self) and hasattr(self, "coef_"):
            self._refuse_to_go_on()
        return getattr(self, self._kept_as, None) is not None

    def _refuse_to_go_on(self):
        """Raise the error of a model without the state that the next block needs."""
        raise ValueError(
            f"this {type(self).__name__} has coefficients and nothing of the stream that they come "
            "from, as model files and to_local() leave it: fit a new one, or go on from a "
            "checkpoint or a pickle"
        )

    @contextlib.contextmanager
    def _adding_to_result(self, goes_on):
        """Let `result_`, if a block stores one, count the blocks before, too; Ctrl-C may end it."""
        before = vars(self).get("result_")
        try:
            yield
        finally:
            last = vars(self).get("result_")
            if goes_on and last is not before:
                self.result_ = with_earlier(before, last)
                self.n_iter_ = self.result_.n_iter

    def _learn_block(self, block, first, options):
        """Learn from a Block; `first`: no other one was learned from in this call."""
        with config_context(assume_finite=True):  # the Stream has checked that
            self.partial_fit(block.X, block.y, sample_weight=block.sample_weight, **options)

    def _is_weightless(self, block):
        """Tell whether class_weight leaves nothing of a Block."""
        factors, labels = getattr(self, "class_weight", None), block.y
        if not isinstance(factors, dict):
            return False
        if block.sample_weight is not None:
            labels = labels[block.sample_weight > 0]
        return all(factors.get(label, 1) == 0 for label in set(labels.tolist()))

    def _numbers_of(self, block):
        """Return arrays of numbers or labels, or None, that tell a Block from others."""
        return block

    def _resumed(self, block, checkpoint):
        """Restore the state that some blocks led to; return how many they are, and their rows."""
        if checkpoint is None:
            return 0, 0
        checkpoint.identify(self._numbers_of(block))
        state = checkpoint.load()
        if state is None:
            return 0, 0
        set_fitted_state(self, state)
        self._set_stream_state(state)
        checkpoint.last = take(state, "n_blocks", 0)
        return checkpoint.last, take(state, "n_rows", 0)

    def _save(self, checkpoint, stream):
        counts = {"n_blocks": stream.blocks, "n_rows": stream.rows}
        checkpoint.save(self._stream_state() | fitted_state(self) | counts)


class OneSolverStreamFit(StreamFit):
    """A StreamFit whose state is that of one solver, `_state`, and the seeds of blocks to come."""

    _kept_as = "_state"

    def _stream_state(self):
        return {"seeds": plain_seeds(self._stream_seeds)} | prefixed("solver", self._state)

    def _set_stream_state(self, state):
        self._state = self._stream_seeds = None
        if state is not None:
            self._stream_seeds = seeds_of(state)
            self._state = part_of(state, "solver")
