"""SequencePegasos: label sequences by linear chains, compiled.

Minimises the regularised structured hinge loss over a feature map of a sequence and its labels:
Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM"
(2011), section 5.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sublinear._core.chain import ChainObjective, Chains
from sublinear._core.matrix import Matrix, check_before_csr, csr_structure
from sublinear._documentation import with_parameters
from sublinear._drive import Limits
from sublinear._fit_method import fit_method
from sublinear._labels import class_codes, declared_classes, find_classes
from sublinear._linear_model import LinearModel
from sublinear._solvers.chain_pegasos import ChainPegasos
from sublinear._stream import OneSolverStreamFit, checked_block, checked_weights, parts_of_block
from sublinear._validation import (
    check_batch_fits,
    check_flag,
    check_intercept_scaling,
    check_number,
    check_rows,
    check_run_parameters,
    check_sample_weight,
    check_step_parameters,
    check_training_data,
    column_names,
    examples_of_batch,
    sequence_offsets,
)

BLOCKS = "(X, y)", "(X, y, lengths)", "(X, y, lengths, sample_weight)"  # of a source
FRAMES = {"pandas": {}, "polars": {"how": "vertical_relaxed"}}  # how to stack those of a library


def _is_list(X):
    return isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype == object)


def _is_list_of_matrices(X):
    return _is_list(X) and len(X) > 0 and (sparse.issparse(X[0]) or np.ndim(X[0]) == 2)


def _stack(X, y, lengths):
    """Return X as one matrix, y as one array or None, and lengths, from any of their forms."""
    for name, given in (("X", X), ("y", y)):
        if isinstance(given, Iterator):
            raise ValueError(f"{name} is a {type(given).__name__}: pass a list, list({name})")
    if _is_list(X) and len(X) == 0:
        raise ValueError("X is an empty list: there are no sequences")
    if not _is_list_of_matrices(X):
        return X, y, lengths
    if lengths is not None:
        raise ValueError("lengths must be None where X is a list of matrices")
    lengths = [matrix.shape[0] for matrix in map(_matrix, X)]
    if y is not None:
        y = [np.asarray(labels) for labels in y]
        if [labels.shape[:1] for labels in y] != [(length,) for length in lengths]:
            raise ValueError(
                "where X is a list of matrices, y must be a list of as many label sequences, each "
                "as long as its matrix has rows"
            )
        y = np.concatenate(y)
    return _joined(list(X)), y, lengths


def _joined(matrices):
    """Return matrices as one; data frames as a data frame, whose columns keep their names."""
    columns = [list(names) for names in map(_columns, matrices) if names is not None]
    if any(names != columns[0] for names in columns):
        raise ValueError("the data frames of X must have the same columns in the same order")
    library = type(matrices[0]).__module__.partition(".")[0]
    if library in FRAMES and len(columns) == len(matrices):
        return import_module(library).concat(matrices, **FRAMES[library])
    widths = [matrix.shape[1:] for matrix in map(_matrix, matrices)]
    for number, width in enumerate(widths, start=1):
        if width != widths[0]:
            raise ValueError(
                "the matrices of X must have the same columns: matrix 1 has "
                f"{_described(widths[0])}, matrix {number} {_described(width)}"
            )
    if not any(map(sparse.issparse, matrices)):
        return np.vstack(matrices)
    return sparse.vstack(
        [_csr(matrix) if sparse.issparse(matrix) else matrix for matrix in matrices]
    )


def _csr(matrix):
    """Return a sparse matrix as CSR; ValueError for indices out of range, which SciPy follows."""
    check_before_csr(matrix)
    rows = matrix.tocsr()
    csr_structure(rows)
    return sparse.csr_array(rows)  # without what lies beyond the last row, which vstack would take


def _described(width):
    return f"{width[0]} columns" if len(width) == 1 else f"{1 + len(width)} dimensions"


def _columns(X):
    columns = getattr(X, "columns", None)  # those of Arrow's tables are data
    return getattr(X, "column_names", columns) if isinstance(columns, list) else columns


def _matrix(X):
    return X if sparse.issparse(X) else np.asarray(X)


_ROWS = """\
X : {array-like, sparse matrix} of shape (n_rows, n_features), or a list of such
        The rows of all sequences, one sequence after the other; or one matrix for each.
        Dense or CSR, float32 or float64, is used as it is; other types and lists are copied."""

_LABELS = """\
y : array-like of shape (n_rows,), or a list of such
        The label of every row; a list of sequences where X is a list."""

_LENGTHS = """\
lengths : array-like of shape (n_sequences,), default=None
        How many rows each sequence has. None: all rows are one sequence, or X is a list."""

_WEIGHTS = """\
sample_weight : array-like of shape (n_sequences,), default=None
        Of the sequences. Not negative; a weight k counts like k copies."""

_documented = with_parameters(X=_ROWS, y=_LABELS, lengths=_LENGTHS, sample_weight=_WEIGHTS)


class SequenceBlock(NamedTuple):
    """Rows of sequences, as a Block; the weights are those of the sequences."""

    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None
    offsets: np.ndarray | None


@with_parameters()
class SequencePegasos(OneSolverStreamFit, LinearModel):
    """Labels for the rows of sequences: a linear chain, learnt by Pegasos.

    The score of labels y_1, .., y_T for a sequence of rows x_1, .., x_T is

        start[y_1] + sum_t (<coef[y_t], x_t> + intercept[y_t])
                   + sum_{t > 1} transition[y_{t-1}, y_t]

    Minimises alpha / 2 times the sum of all squared weights + the weighted mean over the sequences
    of max_y (errors in y + score of y - score of the true labels).

    A source for `fit_stream` yields (X, y), (X, y, lengths) or (X, y, lengths, sample_weight), each
    as `fit` takes them; a sequence must not go on in the next block.

    Parameters
    ----------
    alpha : float, default=1e-4
        Strength of the penalty; the lambda of the paper.
    batch_size : int or "all", default=1
        Sequences per step.
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
        The order of the sequences, as in PegasosClassifier.
    average : {"tail", "mean", "last", "random"}, default="tail"
        Which iterates become the model, as in PegasosClassifier.
    fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row; its weights are
        penalised like the others.
    %(intercept_scaling)s
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=100
        Limit on epochs. An epoch looks at as many sequences as there are.
    max_accesses : int, default=None
        Limit on feature values read by the solver, never exceeded.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the sequences.
    %(watchers)s The
        Snapshot's coef and intercept are those of the features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Of the dtype of X, like the three below.
    intercept_ : ndarray of shape (n_classes,)
    transition_ : ndarray of shape (n_classes, n_classes)
        From the label of a row to that of the next one, a column.
    start_ : ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Epochs; after `fit_stream` one for every block.
    n_features_in_ : int
    %(feature_names)s
    result_ : Result
        After `partial_fit` it speaks of that block, and its gap is unknown (inf). After
        `fit_stream` so is the gap; n_iter, accesses and seconds are sums over the blocks of the
        call, and of those before a checkpoint that it went on from.
    %(stream_summary)s

    See Also
    --------
    PegasosStructured : the same steps for outputs of any kind, in Python.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, section 5, Example 5.

    Examples
    --------
    >>> from sublinear import SequencePegasos
    >>> from sublinear.datasets import make_tagged_sequences
    >>> X, y, lengths, _ = make_tagged_sequences(50, random_state=0)
    >>> model = SequencePegasos(alpha=0.01, max_iter=20, tol=0, random_state=0)
    >>> bool(model.fit(X, y, lengths).score(X, y, lengths) > 0.7)
    True
    """

    _takes_stores = False
    n_jobs = None  # one thread

    def __init__(
        self,
        *,
        alpha=1e-4,
        batch_size=1,
        sampling="shuffle",
        average="tail",
        fit_intercept=True,
        intercept_scaling=1.0,
        tol=1e-3,
        max_iter=100,
        max_accesses=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.alpha = alpha
        self.batch_size = batch_size
        self.sampling = sampling
        self.average = average
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        check_number("alpha", self.alpha, low=0, open_low=True)
        check_number("tol", self.tol, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_step_parameters(self)
        check_run_parameters(self)
        check_flag("fit_intercept", self.fit_intercept)
        check_intercept_scaling(self)
        check_number("max_accesses", self.max_accesses, low=1, integer=True, optional=True)

    @fit_method
    @_documented
    def fit(self, X, y, lengths=None, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(lengths)s
        %(sample_weight)s

        Returns
        -------
        self : SequencePegasos

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        self._check_parameters()
        X, y, lengths = _stack(X, y, lengths)
        X, y = check_training_data(self, X, y)
        self.classes_ = find_classes(y)
        self._state = self._stream_seeds = None
        training = self._sequences(X, y, lengths, sample_weight)
        check_batch_fits(self.batch_size, len(training.targets[0]()[1]) - 1)
        return self._solve(training, self._limits())

    @fit_method
    @_documented
    def partial_fit(self, X, y, lengths=None, classes=None, sample_weight=None):
        """Take one epoch over a block of sequences, going on from the present model.

        Step sizes go on falling over all calls: the model minimises the objective over the stream.
        No certificate is computed; `tol`, `max_iter` and `max_accesses` are for `fit`.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(lengths)s
        %(all_classes)s
        %(sample_weight)s

        Returns
        -------
        self : SequencePegasos

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._check_parameters()
        first = not self._goes_on()
        X, y, lengths = _stack(X, y, lengths)
        X, y = check_training_data(self, X, y, reset=first)
        self.classes_ = declared_classes(y, classes, None if first else self.classes_)
        if first:
            self._state = None
        self._seed_stream()
        training = self._sequences(X, y, lengths, sample_weight)
        training.earlier_dtype = None if first else self.coef_.dtype
        return self._solve(training, Limits(0, 1, certify=False))

    def _goes_on(self):
        goes_on = super()._goes_on()
        if goes_on and self._fitted_intercept != (self.fit_intercept, self.intercept_scaling):
            raise ValueError(
                "fit_intercept and intercept_scaling must not change between calls of partial_fit"
            )
        return goes_on

    def _takes_classes(self):
        return True

    def _check_block(self, block):
        """Return the SequenceBlock of what a source yields, and the names of its columns."""
        X, y, lengths, weights = [*parts_of_block(block, BLOCKS, ""), None, None][:4]
        X, y, lengths = _stack(X, y, lengths)
        names = column_names(X)
        X, y, _ = checked_block((X, y), y_numeric=False)
        if X.shape[0] == 0:
            return SequenceBlock(X, y, None, None), names
        offsets = sequence_offsets(lengths, X.shape[0])
        return SequenceBlock(X, y, checked_weights(weights, len(offsets) - 1), offsets), names

    def _learn_block(self, block, first, options):
        X, y, weights, offsets = block
        self.partial_fit(X, y, np.diff(offsets), sample_weight=weights, **options)

    def _set_stream_state(self, state):
        super()._set_stream_state(state)
        if state is not None:
            self._fitted_intercept = self.fit_intercept, self.intercept_scaling

    def _sequences(self, X, y, lengths, sample_weight):
        """Return the Training; its target is the pair of label codes and offsets."""
        offsets = sequence_offsets(lengths, X.shape[0])
        weights = check_sample_weight(sample_weight, offsets[1:])
        targets = [lambda: (class_codes(y, self.classes_), offsets)]
        return self._training(X, y, targets, weights, sample_weight)

    def _solver(self, training, k, random, n_jobs):
        codes, offsets = training.targets[k]()
        chains = Chains(training.matrix, offsets, len(self.classes_))
        solver = ChainPegasos(
            ChainObjective(chains, codes, self.alpha, training.weights),
            random,
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, chains.n_sequences),
            average=self.average,
        )
        if self._state is not None:
            solver.resume(self._state)
        return solver

    def _keep(self, solver):
        return solver.state()

    def _attributes_of(self, training, models):
        return None  # who watches has rows, and not where sequences begin

    def _set_model(self, models, training):
        super()._set_model(models, training)
        k, model = len(self.classes_), models[0].astype(training.dtype, copy=False)
        self.transition_, self.start_ = model[:k].copy(), model[k].copy()

    def _store(self, outcomes, training, seconds):
        self._state = outcomes[0].kept
        self._fitted_intercept = self.fit_intercept, self.intercept_scaling
        super()._store(outcomes, training, seconds)

    def _feature_weights(self, model):
        return model[model.shape[1] + 1 :].T

    def _coefficients(self, models, constant, dtype):
        return super()._coefficients(list(self._feature_weights(models[0])), constant, dtype)

    def _weights(self):
        """Return the fitted weights as the compiled code wants them (float64)."""
        rows = [
            self.transition_,
            self.start_[np.newaxis],
            self.coef_.T,
            self.intercept_[np.newaxis],
        ]
        return np.ascontiguousarray(np.vstack(rows), dtype=np.float64)

    @_documented
    def decode(self, X, lengths=None):
        """Return the best labels and their scores.

        Parameters
        ----------
        %(X)s
        %(lengths)s

        Returns
        -------
        labels : ndarray of shape (n_rows,), or a list of such where X is a list
        scores : ndarray of shape (n_sequences,)
            The score of every sequence's labels, see the class.
        """
        check_is_fitted(self)
        stacked, _, counted = _stack(X, None, lengths)
        stacked = check_rows(self, stacked)
        offsets = sequence_offsets(counted, stacked.shape[0])
        # intercept_ is the weight of the constant feature times its value, or 0
        matrix = Matrix(stacked, constant=1.0)
        codes, scores = Chains(matrix, offsets, len(self.classes_)).best_paths(self._weights())
        labels = self.classes_[codes]
        if _is_list_of_matrices(X):
            labels = np.split(labels, offsets[1:-1])
        return labels, scores

    @_documented
    def predict(self, X, lengths=None):
        """Return the best labels: those of `decode`.

        Parameters
        ----------
        %(X)s
        %(lengths)s

        Returns
        -------
        labels : ndarray of shape (n_rows,), or a list of such where X is a list
        """
        return self.decode(X, lengths)[0]

    @_documented
    def score(self, X, y, lengths=None, sample_weight=None):
        """Return the fraction of rows whose label is right.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(lengths)s
        %(sample_weight)s

        Returns
        -------
        accuracy : float
            A row has the weight of its sequence.
        """
        X, y, lengths = _stack(X, y, lengths)
        labels, y = self.predict(X, lengths), column_or_1d(y)
        check_consistent_length(labels, y)
        offsets = sequence_offsets(lengths, len(labels))
        weights = check_sample_weight(sample_weight, offsets[1:])
        if weights is not None:
            weights = np.repeat(weights, np.diff(offsets))
        return float(np.average(labels == y, weights=weights))
