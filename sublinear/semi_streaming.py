"""Semi-streaming: a separating hyperplane, a smallest ball, in memory that knows neither n nor d.

The data is a source that can be read again and again (see `sublinear.sources`). The model is a list
of rows with weights; `materialize` adds them up in one more pass.
"""

import math
import time
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sublinear._checkpoint import open_checkpoint
from sublinear._core.matrix import LEAST_SQUARE, Matrix, Underflow
from sublinear._core.random import RandomBits
from sublinear._core.states import take
from sublinear._documentation import with_parameters
from sublinear._fit_method import all_or_nothing, forget, restored_after_errors
from sublinear._labels import (
    check_two_classes,
    distinct_plain,
    join_labels,
    margin_targets,
)
from sublinear._solvers.semi_streaming import SemiStreaming
from sublinear._stream import Stream, rest_of
from sublinear._validation import (
    check_number,
    check_rows,
    check_squared_norms,
    check_training_data,
    products_with,
    seed_sequence,
)
from sublinear.sources import ArraySource
from sublinear.sources._read_ahead import SourceAround

__all__ = ["SemiStreamingEnclosingBall", "SemiStreamingPerceptron", "SemiStreamingResult"]

LEAST_EPSILON = 1e-6  # whose square no memory has room for
ROWS_PER_CALL = 4096  # between two looks at Ctrl-C
PACE = 30.0  # of the perceptron's primal steps, 1 / sqrt(2 S) in the paper
# tuned until errors were within epsilon; weights need steps to move, not only draws
LEAST_ROWS, LEAST_STEPS, LEAST_LOGS, LOGS_BY_EPSILON, DUAL_RATE = 8, 20, 3, 0.6, 2.0
SKETCH_WIDTH, SKETCH_DEPTH, CANDIDATES = 256, 5, 8


class SemiStreamingResult(NamedTuple):
    """What a fit took.

    Attributes
    ----------
    passes : int
        Over the source.
    words : int
        Numbers in working memory, blocks of the source left out.
    accesses : int
        Values of rows looked at; a source may read more.
    seconds : float
    n_steps : int

    Examples
    --------
    >>> from sublinear.semi_streaming import SemiStreamingEnclosingBall
    >>> model = SemiStreamingEnclosingBall(epsilon=0.5, random_state=0)
    >>> result = model.fit([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).result_
    >>> result.n_steps, result.passes == 2 * result.n_steps + 3  # two in a step
    (20, True)
    """

    passes: int
    words: int
    accesses: int
    seconds: float
    n_steps: int


class _Unlabelled(SourceAround):
    """A source of blocks X, or (X, ..), as one of blocks (X, y)."""

    def __iter__(self):
        for block in super().__iter__():
            # a list may be [X, y], or rows
            is_pair = isinstance(block, tuple) or (
                isinstance(block, list) and block and np.ndim(block[0]) == 2
            )
            X = block[0] if is_pair and block else block
            yield X, np.zeros(_n_rows(X))


def _unlabelled(source):
    """Return the Stream of a source that needs no labels."""
    return Stream(_Unlabelled(source), y_numeric=True, read_ahead=0)


def _n_rows(X):
    """Return the length of X, 0 for what has none: whoever checks the block says what it is."""
    if sparse.issparse(X):
        return X.shape[0]
    return len(X) if hasattr(X, "__len__") else 0


class _SemiStreaming(BaseEstimator):
    """Passes over a source, common to both."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self):
        check_number("epsilon", self.epsilon, low=LEAST_EPSILON, high=1)
        check_number("batch_size", self.batch_size, low=1, integer=True)

    def _plan(self, n_rows):
        """Return how many steps epsilon asks for, and of what size those of the dual are."""
        log_n = math.log(max(LEAST_ROWS, n_rows))
        by_draws = self._draws / (self.epsilon**2 * self.batch_size)
        logs = max(by_draws, LOGS_BY_EPSILON / self.epsilon, LEAST_LOGS)
        n_steps = max(LEAST_STEPS, math.ceil(logs * log_n))
        return n_steps, min(1.0, DUAL_RATE * math.sqrt(log_n / n_steps))

    def _fit_stream(self, stream, checkpoint):
        """Run the solver over a checked stream; set the attributes that both have."""
        started = time.perf_counter()
        stream.require_repeatable()
        n_rows, largest = self._first_pass(stream, checkpoint)
        if checkpoint:
            checkpoint.count_rows(n_rows)
        if largest == 0 and not self._ball:
            raise ValueError("all rows are zero: there is no direction to find")
        n_steps, eta = self._plan(n_rows)
        seeds = seed_sequence(self.random_state)
        solver = SemiStreaming(
            RandomBits(seeds),
            int(seeds.generate_state(1, np.uint64)[0]),
            ball=self._ball,
            n_columns=stream.n_features,
            n_steps=n_steps,
            batch_size=self.batch_size,
            eta=eta,
            pace=PACE / math.sqrt(2 * n_steps),
            scale=1 / (largest or 1.0),
            sketch=(SKETCH_WIDTH, SKETCH_DEPTH, CANDIDATES, self._norm_width()),
        )
        self._run(stream, solver, 2 * n_steps + 2, checkpoint)
        self._largest_norm = largest
        self._note_features(stream)
        self.rows_, self.row_weights_ = solver.combination()
        if self._ball:  # the perceptron's weights have norm 1 for rows of any length
            self.row_weights_ *= largest
        self.n_iter_ = n_steps
        self.stream_ = stream.summary
        self.result_ = SemiStreamingResult(
            passes=2 * n_steps + 3,
            words=solver.n_words,
            accesses=solver.accesses,
            seconds=time.perf_counter() - started,
            n_steps=n_steps,
        )
        return solver

    def _named(self, source):
        """Let a source of rows that were checked have the names of their features."""
        source.feature_names = vars(self).get("feature_names_in_")
        return source

    def _note_features(self, stream):
        """Set the number of features, and their names where the source has any."""
        self.n_features_in_ = stream.n_features
        vars(self).pop("feature_names_in_", None)
        if stream.feature_names is not None:
            self.feature_names_in_ = stream.feature_names

    def _run(self, stream, solver, n_passes, checkpoint):
        """Make the passes: one that draws the first rows; a look and a read for each step; a look.

        A look begins with the rows that the last one drew, a read with the candidates it found.
        """
        first_pass = row = n_blocks = 0
        state = checkpoint and checkpoint.load()
        if state:
            solver.set_state(state)
            first_pass, row, n_blocks = (
                take(state, name, 0) for name in ("pass", "row", "n_blocks")
            )
            checkpoint.last = n_blocks
        for number in range(first_pass, n_passes):
            reads = number > 0 and number % 2 == 0
            if row == 0:
                self._begin_pass(solver, number, reads)
            for block in rest_of(stream, row):
                self._show(block, solver, reads)
                n_blocks, row = n_blocks + 1, row + block.X.shape[0]
                if checkpoint and checkpoint.is_due(n_blocks):
                    here = {"pass": number, "row": row, "n_blocks": n_blocks}
                    checkpoint.save(solver.state() | here)
            row = 0
            if reads:
                solver.end_read()
        if checkpoint:
            checkpoint.save(solver.state() | {"pass": n_passes, "row": 0, "n_blocks": n_blocks})

    def _begin_pass(self, solver, number, reads):
        if reads:
            solver.end_look()
            solver.rewind()
            return
        if number > 0:
            solver.take_rows()
        solver.begin_pass()

    def _show(self, block, solver, reads):
        """Let a block pass by, with looks at Ctrl-C between."""
        matrix, signs = Matrix(block.X), self._signs(block)
        for start in range(0, matrix.n_rows, ROWS_PER_CALL):
            stop = min(matrix.n_rows, start + ROWS_PER_CALL)
            if reads:
                solver.read(matrix, start, stop)
            else:
                solver.look(matrix, signs, start, stop)

    def _norm_width(self):
        """Counters that tell a squared norm to about epsilon."""
        return 2 ** max(6, math.ceil(math.log2(4 / self.epsilon**2)))

    def _first_pass(self, stream, checkpoint):
        """Return the number of rows and their largest norm."""
        largest = entry = 0.0  # squared norm; value, where squares may have underflowed
        for block in stream:
            if checkpoint:
                checkpoint.see(block)
            if block.sample_weight is not None:
                raise ValueError("sample weights have no meaning here: let the source yield (X, y)")
            self._meet(block)
            matrix = Matrix(block.X)
            largest = max(largest, float(matrix.squared_norms().max()))
            if largest < LEAST_SQUARE:
                entry = max(entry, matrix.largest_entry())
        check_squared_norms(largest, 1e300)
        if largest < LEAST_SQUARE and entry > 0:
            raise Underflow
        return stream.rows, math.sqrt(largest)

    def _combine(self, stream):
        """Return the sum of the rows of the model, in one pass."""
        check_is_fitted(self, "rows_")
        total, first = None, 0
        for block in stream:
            if block.X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"the source has {block.X.shape[1]} columns, but the fit had "
                    f"{self.n_features_in_}"
                )
            if total is None:  # not before: a model of a file may have any number of columns
                total = np.zeros(self.n_features_in_)
            last = first + block.X.shape[0]
            mine = slice(*np.searchsorted(self.rows_, (first, last)))
            Matrix(block.X).add_rows(self.row_weights_[mine], self.rows_[mine] - first, total)
            first = last
        if first != self.stream_.rows:
            raise ValueError(
                f"the source has {first} rows, but that of the fit had {self.stream_.rows}"
            )
        return total


@with_parameters()
class SemiStreamingPerceptron(ClassifierMixin, _SemiStreaming):
    """A hyperplane through the origin with a large margin, by passes over a source.

    Finds weights of norm at most 1 whose least margin, over rows scaled so that the longest has
    norm 1, is within about `epsilon` of the largest possible one (1.6 `epsilon` where few rows
    decide), which is measured and not certified; for data that a hyperplane through the origin
    separates. The working memory depends on `epsilon` and, by the logarithm, on the number of rows,
    not on their length. The time of a step grows with the number of columns, also where rows are
    sparse.

    Parameters
    ----------
    epsilon : float, default=0.1
        Accuracy, as a part of the norm of the longest row, from 1e-6 to 1. 2 log(n) / epsilon^2
        draws are made, in 0.6 log(n) / epsilon, 3 log(n) and 20 steps at the least.
    batch_size : int, default=16
        Draws in a step, which takes two passes.
    %(draws)s

    Attributes
    ----------
    rows_ : ndarray of shape (n_chosen,), int
        Numbers of the rows that the model is made of, in the order of the source.
    row_weights_ : ndarray of shape (n_chosen,)
        Their factors in ``coef_``.
    margin_estimate_ : float
        Of the least margin, in the units of X: the least mean of the estimates made on the way.
    margin_bound_ : float
        Estimate of an upper bound on any margin: the norm of the mean of the rows drawn.
    classes_ : ndarray of shape (2,)
    coef_ : ndarray of shape (1, n_features)
        Once `materialize`, or `fit`, has been called.
    n_iter_ : int
        Steps.
    n_features_in_ : int
    %(feature_names)s
    result_ : SemiStreamingResult
        Passes, words, accesses, time.
    stream_ : StreamSummary
        Blocks and rows of a pass, and malformed lines left out.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, section V.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.semi_streaming import SemiStreamingPerceptron
    >>> from sublinear.sources import ArraySource
    >>> X = np.random.default_rng(0).normal(size=(500, 10))
    >>> X = X[abs(X[:, 0]) > 0.5]
    >>> source = ArraySource(X, X[:, 0] > 0)
    >>> model = SemiStreamingPerceptron(epsilon=0.2, random_state=0).fit_stream(source)
    >>> model.materialize(source).score(X, X[:, 0] > 0) > 0.95
    True
    """

    _ball = False
    _draws = 2

    def __init__(self, epsilon=0.1, *, batch_size=16, random_state=None):
        self.epsilon = epsilon
        self.batch_size = batch_size
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # no intercept; made for data with a margin
        return tags

    @all_or_nothing
    def fit_stream(self, source, *, checkpoint=None, checkpoint_every=100, resume=True):
        """Find the rows and weights of the model.

        Parameters
        ----------
        source : iterable of (X, y)
            Blocks, dense or CSR, with labels of two classes; iterated many times.
        checkpoint : str or path-like, default=None
            A file for the state of the fit, replaced every `checkpoint_every` blocks and at the
            end. None: no file.
        checkpoint_every : int, default=100
            Blocks, of all passes.
        resume : bool, default=True
            Go on from the checkpoint if the file is there, after one pass that counts. The result
            is that of a fit without a pause, bit for bit. False: begin anew and replace the file.

        Returns
        -------
        self : SemiStreamingPerceptron

        Raises
        ------
        ValueError
            For parameters that make no sense, an empty source, or a block that cannot be used; the
            message says which.
        TypeError
            If the source is no iterable of blocks.
        """
        self._check_parameters()
        self.classes_ = None
        checkpoint = open_checkpoint(checkpoint, checkpoint_every, resume, self)
        solver = self._fit_stream(Stream(source, y_numeric=False, read_ahead=0), checkpoint)
        self.margin_estimate_ = solver.extreme * self._largest_norm
        self.margin_bound_ = math.sqrt(solver.drawn()[0]) * self._largest_norm
        forget(self, ("coef_",))  # until rows are added up
        return self

    @all_or_nothing
    @with_parameters()
    def fit(self, X, y):
        """Fit arrays: `fit_stream` and `materialize`.

        Parameters
        ----------
        %(rows)s
        y : array-like of shape (n_samples,)
            Labels of two classes.

        Returns
        -------
        self : SemiStreamingPerceptron

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do. The estimator is
            left as it was.
        """
        X, y = check_training_data(self, X, y)
        source = self._named(ArraySource(X, y))
        with restored_after_errors(self):  # a model without coordinates is not what `fit` leaves
            return self.fit_stream(source).materialize(source)

    def materialize(self, source):
        """Compute `coef_`, in one pass over the source of the fit.

        Parameters
        ----------
        source : iterable of (X, y)
            That of the fit, or one of the same rows in the same order.

        Returns
        -------
        self : SemiStreamingPerceptron
        """
        w = self._combine(Stream(source, y_numeric=False, read_ahead=0))
        self.coef_ = w[np.newaxis] / max(1.0, np.linalg.norm(w))  # a sketch told the norm before
        return self

    def _meet(self, block):
        found = distinct_plain(block.y)  # first: scikit-learn does not say what mixed labels are
        check_classification_targets(block.y)
        self.classes_ = found if self.classes_ is None else join_labels(self.classes_, found)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The source has at least the labels "
                f"{self.classes_.tolist()}"
            )

    def _first_pass(self, stream, checkpoint):
        found = super()._first_pass(stream, checkpoint)
        check_two_classes(self.classes_)
        return found

    def _signs(self, block):
        return margin_targets(block.y, self.classes_[1])

    @with_parameters()
    def decision_function(self, X):
        """Return <x_i, coef>.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        check_is_fitted(
            self,
            "coef_",
            msg="%(name)s has no weights yet: call fit, or, after fit_stream, materialize(source)",
        )
        return products_with(self, X, self.coef_[0])

    @with_parameters()
    def predict(self, X):
        """Return the label of the side on which a row lies.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        chosen = (self.decision_function(X) > 0).astype(int)
        return self.classes_[chosen]


@with_parameters()
class SemiStreamingEnclosingBall(_SemiStreaming):
    """The smallest ball around the rows, by passes over a source.

    Finds a centre from which no row is much farther than from the best one: the squared radius, for
    rows scaled so that the longest has norm 1, is within `epsilon` of the least. That is measured,
    on random points and with outliers, and not certified. The working memory depends on `epsilon`
    and, by the logarithm, on the number of rows, not on their length.

    Parameters
    ----------
    epsilon : float, default=0.1
        Accuracy, as a part of the squared norm of the longest row, from 1e-6 to 1. log(n) /
        epsilon^2 draws are made, in 0.6 log(n) / epsilon, 3 log(n) and 20 steps at the least.
    batch_size : int, default=16
        Draws in a step, which takes two passes.
    %(draws)s

    Attributes
    ----------
    rows_ : ndarray of shape (n_chosen,), int
        Numbers of the rows whose weighted sum is the centre, in the order of the source.
    row_weights_ : ndarray of shape (n_chosen,)
    radius_estimate_ : float
        In the units of X: from the largest mean of the squared distances estimated on the way.
    radius_bound_ : float
        Estimate of a lower bound on the radius of any ball, from the rows drawn.
    center_ : ndarray of shape (n_features,)
        Once `materialize`, or `fit`, has been called.
    n_iter_ : int
        Steps.
    n_features_in_ : int
    %(feature_names)s
    result_ : SemiStreamingResult
        Passes, words, accesses, time.
    stream_ : StreamSummary
        Blocks and rows of a pass, and malformed lines left out.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, section V.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.semi_streaming import SemiStreamingEnclosingBall
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> ball = SemiStreamingEnclosingBall(random_state=0).fit(X + 5)
    >>> bool(abs(ball.center_ - 5).max() < 0.5)
    True
    """

    _ball = True
    _draws = 1

    def __init__(self, epsilon=0.1, *, batch_size=16, random_state=None):
        self.epsilon = epsilon
        self.batch_size = batch_size
        self.random_state = random_state

    @all_or_nothing
    def fit_stream(self, source, *, checkpoint=None, checkpoint_every=100, resume=True):
        """Find the rows and weights of the centre.

        Parameters
        ----------
        source : iterable of X, or of (X, ..)
            Blocks, dense or CSR; iterated many times. What comes after X is not used.
        checkpoint : str or path-like, default=None
            A file for the state of the fit, replaced every `checkpoint_every` blocks and at the
            end. None: no file.
        checkpoint_every : int, default=100
            Blocks, of all passes.
        resume : bool, default=True
            Go on from the checkpoint if the file is there, after one pass that counts. The result
            is that of a fit without a pause, bit for bit. False: begin anew and replace the file.

        Returns
        -------
        self : SemiStreamingEnclosingBall

        Raises
        ------
        ValueError
            For parameters that make no sense, an empty source, or a block that cannot be used; the
            message says which.
        TypeError
            If the source is no iterable of blocks.
        """
        self._check_parameters()
        checkpoint = open_checkpoint(checkpoint, checkpoint_every, resume, self)
        Stream(source, y_numeric=True, read_ahead=0).require_repeatable()
        solver = self._fit_stream(_unlabelled(source), checkpoint)
        square, mean = solver.drawn()
        self.radius_estimate_ = math.sqrt(max(0.0, solver.extreme)) * self._largest_norm
        self.radius_bound_ = math.sqrt(max(0.0, mean - square)) * self._largest_norm
        forget(self, ("center_",))  # until rows are added up
        return self

    @all_or_nothing
    @with_parameters()
    def fit(self, X, y=None):
        """Fit an array: `fit_stream` and `materialize`.

        Parameters
        ----------
        %(rows)s
        y : None
            Not used.

        Returns
        -------
        self : SemiStreamingEnclosingBall

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do. The estimator is
            left as it was.
        """
        X = check_rows(self, X, reset=True)
        source = self._named(ArraySource(X, np.zeros(X.shape[0])))
        with restored_after_errors(self):  # a model without coordinates is not what `fit` leaves
            return self.fit_stream(source).materialize(source)

    def materialize(self, source):
        """Compute `center_`, in one pass over the source of the fit.

        Parameters
        ----------
        source : iterable of X, or of (X, ..)
            That of the fit, or one of the same rows in the same order.

        Returns
        -------
        self : SemiStreamingEnclosingBall
        """
        self.center_ = self._combine(_unlabelled(source))
        return self

    def _meet(self, block):
        pass

    def _signs(self, block):
        return np.ones(block.X.shape[0])
