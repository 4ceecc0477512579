"""Structured output: SequencePegasos for label sequences, PegasosStructured for anything.

Both minimise the regularised structured hinge loss

    alpha / 2 |w|^2 + (1 / S) sum_i s_i max_y (loss(y_i, y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>)

over a feature map phi of input and output together: Shalev-Shwartz, Singer, Srebro, Cotter,
"Pegasos: primal estimated sub-gradient solver for SVM" (2011), section 5, Example 5.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from sublinear._archive import part_of, plain_seeds, prefixed, seeds_of
from sublinear._certified_model import Outcome, check_finite
from sublinear._core.chain import ChainObjective, Chains
from sublinear._core.iterates import AVERAGES, certify_best, choose
from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS, Order
from sublinear._core.random import RandomBits
from sublinear._core.steps import shrunk_dual
from sublinear._core.weight_vector import WeightVector
from sublinear._drive import Limits, drive
from sublinear._fit_method import all_or_nothing, fit_method
from sublinear._linear_model import LinearModel
from sublinear._solvers.chain_pegasos import ChainPegasos
from sublinear._stream import StreamFit, checked_block, checked_weights, described
from sublinear._validation import (
    check_batch_fits,
    check_batch_size,
    check_choice,
    check_flag,
    check_number,
    check_run_parameters,
    check_sample_weight,
    check_training_data,
    class_codes,
    declared_classes,
    examples_of_batch,
    find_classes,
    seed_sequence,
)

__all__ = ["PegasosStructured", "SequencePegasos", "StructuredProblem"]


def _check_step_parameters(estimator):
    """Check what both estimators of this module have."""
    check_number("alpha", estimator.alpha, low=0, open_low=True)
    check_number("tol", estimator.tol, low=0)
    check_number("max_iter", estimator.max_iter, low=1, integer=True)
    check_choice("sampling", estimator.sampling, SAMPLINGS)
    check_choice("average", estimator.average, AVERAGES)
    check_batch_size(estimator.batch_size)
    check_run_parameters(estimator)


class _SeededSteps(StreamFit):
    """What `fit_stream` must know of both: seeds, the solver's state."""

    def _stream_state(self):
        return {"seeds": plain_seeds(self._stream_seeds)} | prefixed("solver", self._state)

    def _set_stream_state(self, state):
        self._state = self._stream_seeds = None
        if state is not None:
            self._stream_seeds = seeds_of(state["seeds"])
            self._state = part_of(state, "solver")


# ---------------------------------------------------------------- sequences


def _is_list_of_matrices(X):
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and (sparse.issparse(X[0]) or np.ndim(X[0]) == 2)
    )


def _stack(X, y, lengths):
    """Return X as one matrix, y as one array or None, and lengths, from any of their forms."""
    if not _is_list_of_matrices(X):
        return X, y, lengths
    if lengths is not None:
        raise ValueError("lengths must be None where X is a list of matrices")
    lengths = [matrix.shape[0] for matrix in map(_matrix, X)]
    if y is not None:
        if len(y) != len(X) or [len(labels) for labels in y] != lengths:
            raise ValueError(
                "where X is a list of matrices, y must be a list of as many label sequences, each "
                "as long as its matrix has rows"
            )
        y = np.concatenate([np.asarray(labels) for labels in y])
    stack = sparse.vstack if any(map(sparse.issparse, X)) else np.vstack
    return stack(list(X)), y, lengths


def _matrix(X):
    return X if sparse.issparse(X) else np.asarray(X)


def _offsets(lengths, n_rows):
    """Return where every sequence begins, and n_rows at the end (intp)."""
    if lengths is None:
        lengths = [n_rows]
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu":
        raise ValueError("lengths must be a list of whole numbers, one for each sequence")
    if lengths.min() < 1:
        raise ValueError(
            f"every sequence needs at least one row, but lengths[{lengths.argmin()}] is "
            f"{lengths.min()}: leave empty sequences out"
        )
    if lengths.sum() != n_rows:
        raise ValueError(f"lengths add up to {lengths.sum()}, but X has {n_rows} rows")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


class SequenceBlock(NamedTuple):
    """Rows of sequences, as a Block; the weights are those of the sequences."""

    X: object
    y: np.ndarray
    sample_weight: np.ndarray | None
    offsets: np.ndarray | None


class SequencePegasos(_SeededSteps, LinearModel):
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
    intercept_scaling : float, default=1.0
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=100
        Limit on epochs. An epoch looks at as many sequences as there are.
    max_accesses : int, default=None
        Limit on feature values read by the solver, never exceeded.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the sequences.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True. The
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
        Epochs.
    n_features_in_ : int
    result_ : Result
        After `partial_fit` its gap is unknown (inf).

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
        _check_step_parameters(self)
        check_flag("fit_intercept", self.fit_intercept)
        check_number("intercept_scaling", self.intercept_scaling, low=0, open_low=True)
        check_number("max_accesses", self.max_accesses, low=1, integer=True, optional=True)

    @fit_method
    def fit(self, X, y, lengths=None, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or a list of such
            The rows of all sequences, one sequence after the other; or one matrix for each.
            Dense or CSR, float32 or float64, is used as it is; other types and lists are copied.
        y : array-like of shape (n_rows,), or a list of such
            The label of every row; a list of sequences where X is a list.
        lengths : array-like of shape (n_sequences,), default=None
            How many rows each sequence has. None: all rows are one sequence, or X is a list.
        sample_weight : array-like of shape (n_sequences,), default=None
            Of the sequences. Not negative; a weight k counts like k copies.

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
    def partial_fit(self, X, y, lengths=None, classes=None, sample_weight=None):
        """Take one epoch over a block of sequences, going on from the present model.

        Step sizes go on falling over all calls: the model minimises the objective over the stream.
        No certificate is computed.

        Parameters
        ----------
        X, y, lengths, sample_weight
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.

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
        first = getattr(self, "_state", None) is None
        if "_state" not in vars(self) and hasattr(self, "coef_"):
            self._refuse_to_go_on()
        X, y, lengths = _stack(X, y, lengths)
        X, y = check_training_data(self, X, y, reset=first)
        self.classes_ = declared_classes(y, classes, None if first else self.classes_)
        if first:
            self._state = None
        elif self._fitted_intercept != (self.fit_intercept, self.intercept_scaling):
            raise ValueError(
                "fit_intercept and intercept_scaling must not change between calls of partial_fit"
            )
        self._seed_stream()
        limits = Limits(0, 1, certify=False)
        return self._solve(self._sequences(X, y, lengths, sample_weight), limits)

    def _takes_classes(self):
        return True

    def _check_block(self, block):
        """Return the SequenceBlock of what a source yields."""
        if not isinstance(block, (tuple, list)) or len(block) not in (2, 3, 4):
            raise ValueError(
                "a source of sequences must yield (X, y), (X, y, lengths) or "
                f"(X, y, lengths, sample_weight), got {described(block)}"
            )
        X, y, lengths, weights = [*block, None, None][:4]
        X, y, lengths = _stack(X, y, lengths)
        X, y, _ = checked_block((X, y), y_numeric=False)
        if X.shape[0] == 0:
            return SequenceBlock(X, y, None, None)
        offsets = _offsets(lengths, X.shape[0])
        return SequenceBlock(X, y, checked_weights(weights, len(offsets) - 1), offsets)

    def _learn_block(self, block, first, options):
        X, y, weights, offsets = block
        self.partial_fit(X, y, np.diff(offsets), sample_weight=weights, **options)

    def _stream_state(self):
        fit_intercept, scaling = self._fitted_intercept
        state = {"fit_intercept": fit_intercept, "intercept_scaling": scaling}
        return super()._stream_state() | state

    def _set_stream_state(self, state):
        super()._set_stream_state(state)
        if state is not None:
            self._fitted_intercept = state["fit_intercept"], state["intercept_scaling"]

    def _seeds(self, count):
        return super()._seeds(count) if self._stream_seeds is None else self._seeds_of_block(count)

    def _sequences(self, X, y, lengths, sample_weight):
        """Return the Training; its target is the pair of label codes and offsets."""
        offsets = _offsets(lengths, X.shape[0])
        weights = check_sample_weight(sample_weight, offsets[1:])
        targets = [lambda: (class_codes(y, self.classes_), offsets)]
        return self._training(X, y, targets, weights, sample_weight)

    def _make_objective(self, training, k, n_jobs):
        codes, offsets = training.targets[k]()
        chains = Chains(training.matrix, offsets, len(self.classes_))
        return ChainObjective(chains, codes, self.alpha, training.weights)

    def _make_solver(self, objective, random, k):
        solver = ChainPegasos(
            objective,
            random,
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, objective.chains.n_sequences),
            average=self.average,
        )
        if self._state is not None:
            solver.resume(self._state)
        return solver

    def _keep(self, solver):
        return solver.state()

    def _store(self, outcomes, training, seconds):
        super()._store(outcomes, training, seconds)
        k, model = len(self.classes_), outcomes[0].model.astype(training.matrix.dtype, copy=False)
        self.transition_, self.start_ = model[:k].copy(), model[k].copy()
        self._state = outcomes[0].kept
        self._fitted_intercept = self.fit_intercept, self.intercept_scaling

    def _feature_weights(self, model):
        return model[model.shape[1] + 1 :].T

    def _coefficients(self, models, constant, dtype):
        return super()._coefficients(list(self._feature_weights(models[0])), constant, dtype)

    def _weights(self):
        """Return the fitted weights as the compiled code wants them (float64)."""
        rows = [self.transition_, self.start_[np.newaxis], self.coef_.T]
        if self.fit_intercept:
            rows.append(self.intercept_[np.newaxis])
        return np.ascontiguousarray(np.vstack(rows), dtype=np.float64)

    def decode(self, X, lengths=None):
        """Return the best labels and their scores.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_rows,), or a list of such where X is a list
        scores : ndarray of shape (n_sequences,)
            The score of every sequence's labels, see the class.
        """
        check_is_fitted(self)
        stacked, _, counted = _stack(X, None, lengths)
        stacked = validate_data(
            self,
            stacked,
            reset=False,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
        )
        offsets = _offsets(counted, stacked.shape[0])
        # intercept_ is the weight of the constant feature times its value
        matrix = Matrix(stacked, constant=1.0 if self.fit_intercept else 0.0)
        codes, scores = Chains(matrix, offsets, len(self.classes_)).best_paths(self._weights())
        labels = self.classes_[codes]
        if _is_list_of_matrices(X):
            labels = np.split(labels, offsets[1:-1])
        return labels, scores

    def predict(self, X, lengths=None):
        """Return the best labels: those of `decode`.

        Parameters
        ----------
        X, lengths
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_rows,), or a list of such where X is a list
        """
        return self.decode(X, lengths)[0]

    def score(self, X, y, lengths=None):
        """Return the fraction of rows whose label is right.

        Parameters
        ----------
        X, y, lengths
            As in `fit`.

        Returns
        -------
        accuracy : float
        """
        X, y, lengths = _stack(X, y, lengths)
        labels = self.predict(X, lengths)
        check_consistent_length(labels, y)
        return float(np.mean(labels == np.asarray(y)))


# ---------------------------------------------------------------- anything


class StructuredProblem:
    """What PegasosStructured must be told: a base class to write your own from.

    Any object with these four methods will do. x and y are whatever your lists X and y hold.
    """

    def joint_features(self, x, y):
        """Return phi(x, y).

        Parameters
        ----------
        x, y : object

        Returns
        -------
        features : ndarray of shape (n_joint_features,), or sparse matrix of one row
            Always of the same length.
        """
        raise NotImplementedError("a StructuredProblem needs joint_features(x, y)")

    def loss(self, y, other):
        """Return what it costs to say `other` where y is right: a float, not negative.

        loss(y, y) is 0.
        """
        raise NotImplementedError("a StructuredProblem needs loss(y, other)")

    def loss_augmented_decode(self, weights, x, y):
        """Return the output for which its loss + <weights, phi(x, output)> is greatest.

        With an approximate maximum the steps are approximate, the dual value stays a bound, and
        the primal value may come out too small.

        Parameters
        ----------
        weights : ndarray of shape (n_joint_features,), float64
            Read-only.
        x, y : object
        """
        raise NotImplementedError("a StructuredProblem needs loss_augmented_decode(weights, x, y)")

    def decode(self, weights, x):
        """Return the output for which <weights, phi(x, output)> is greatest."""
        raise NotImplementedError("a StructuredProblem needs decode(weights, x)")


_METHODS = ("joint_features", "loss", "loss_augmented_decode", "decode")


@dataclass
class _Look:
    """What one example says at some weights."""

    difference: Matrix  # phi(x, y) - phi(x, other), its only row
    loss: float


class _StructuredObjective:
    """The examples, the problem that explains them, and the primal value."""

    def __init__(self, problem, X, y, alpha, weights, n_features=None):
        self.problem, self.X, self.y, self.alpha = problem, X, y, alpha
        n = len(X)
        self.ratios = np.ones(n) if weights is None else weights * (n / weights.sum())
        self.accesses = 0
        self.n_features = n_features
        self.n_features = self.features(X[0], y[0]).shape[1]

    def features(self, x, y):
        """Return phi(x, y) as one row, checked."""
        row = self.problem.joint_features(x, y)
        # before rows are subtracted: unsigned numbers and truth values have no negative ones
        sparsely = sparse.issparse(row)
        row = row.astype(np.float64) if sparsely else np.asarray(row, dtype=np.float64)
        if row.ndim == 1:
            row = row.reshape(1, -1)
        if row.ndim != 2 or row.shape[0] != 1 or row.shape[1] == 0:
            raise ValueError(f"joint_features must return one row of numbers, got {row.shape}")
        if self.n_features not in (None, row.shape[1]):
            raise ValueError(
                f"joint_features returned {row.shape[1]} numbers, but {self.n_features} before: "
                "its length must not change"
            )
        values = row.data if sparsely else row
        if not np.isfinite(values).all():
            raise ValueError("joint_features returned NaN or infinity")
        return row

    def look(self, weights, i):
        """Return the Look at example i."""
        x, y = self.X[i], self.y[i]
        other = self.problem.loss_augmented_decode(weights, x, y)
        loss = float(self.problem.loss(y, other))
        if not 0 <= loss < np.inf:
            raise ValueError(f"loss must be finite and not negative, got {loss}")
        difference = self.features(x, y) - self.features(x, other)
        if sparse.issparse(difference):
            difference = sparse.csr_array(difference)
        return _Look(Matrix(difference), loss)

    def primal(self, weights):
        """Return the primal value."""
        weights = _read_only(weights.view())
        total = 0.0
        for i, ratio in enumerate(self.ratios):
            look = self.look(weights, i)
            total += ratio * (look.loss - look.difference.row_dots(weights, [0])[0])
            self.accesses += look.difference.n_stored
        return self.alpha / 2 * float(weights @ weights) + total / len(self.ratios)

    def at_zeros(self):
        """Return zero weights, their primal value and the dual value of zero duals."""
        zeros = np.zeros(self.n_features)
        return zeros, self.primal(zeros), 0.0


def _read_only(array):
    array.flags.writeable = False
    return array


class _StructuredPegasos:
    """The steps of sublinear._core.steps in Python; its certificate is that of chain_pegasos.pyx.

    An access is a stored entry of phi(x, y) - phi(x, other).
    """

    estimated_gap = float("inf")
    certificate_growth = 1.5
    diverged = False

    def __init__(self, objective, random, *, sampling, batch_size, average):
        n = len(objective.X)
        self.objective, self.batch_size = objective, batch_size
        self.order = Order(n, sampling, random, batch_size)
        self.chunk = batch_size if sampling == "subsets" else n
        self.output = choose(average, random.bit_generator.seed_seq)
        self.weight_vector = WeightVector(
            objective.n_features, averaged=self.output.averages, keeps_norm=False
        )
        self.n_draws = np.zeros(n)
        self.n_iter = self.accesses = self.n_drawn = 0
        self.in_chunk = self.in_epoch = 0
        self.cost = 0.0
        self.is_resumed = False

    @property
    def keeps_best(self):
        """Whether one of several models is to be chosen by its objective."""
        return self.output.keeps_best

    @property
    def work(self):
        """Entries read, and one for every example looked at."""
        return self.accesses + self.n_iter * len(self.n_draws) + self.in_epoch

    def state(self):
        """Return what `resume` needs to go on over other examples; its arrays are this one's."""
        w, total = self.weight_vector.settle()
        return {
            "w": w,
            "n_drawn": self.n_drawn,
            **self.output.state(self.weight_vector.n_averaged, total),
        }

    def resume(self, state):
        """Go on from a `state()`; there is no certificate then."""
        self.weight_vector.set(state["w"])
        self.output.resume(self.weight_vector, state)
        self.n_drawn = state["n_drawn"]
        self.is_resumed = True

    def advance(self, limit):
        """Go on until the epoch ends, then return True, or `limit` is reached."""
        epoch = self.n_iter
        while self.n_iter == epoch and self.accesses < limit:
            self._step()
        return self.n_iter > epoch

    def _step(self):
        size = min(self.batch_size, self.chunk - self.in_chunk)
        batch = self.order.take(size)
        self.in_chunk = (self.in_chunk + size) % self.chunk
        weights = _read_only(self.weight_vector.to_array())
        looks = [self.objective.look(weights, i) for i in batch]
        self.n_drawn += size
        self.weight_vector.shrink(1 - size / self.n_drawn)
        for i, look in zip(batch, looks, strict=True):
            ratio = self.objective.ratios[i]
            rate = ratio / (self.objective.alpha * self.n_drawn)
            self.weight_vector.add_row(look.difference, 0, rate)
            self.cost += ratio * look.loss
            self.n_draws[i] += 1
            self.accesses += look.difference.n_stored
        if self.output.counts:
            self.weight_vector.count_in_average()
        if self.weight_vector.n_averaged == self.output.next_look:
            self.output.look(self.weight_vector)
        self.in_epoch += size
        if self.in_epoch >= len(self.n_draws):
            self.in_epoch -= len(self.n_draws)
            self.n_iter += 1

    def model(self):
        """Return the weights chosen by `average`."""
        return self.output.models(self.weight_vector)[0].copy()

    def dual(self):
        """Return the dual value of the outputs found so far, shrunk to be feasible."""
        if self.is_resumed or self.n_drawn == 0:
            return -np.inf
        last = self.weight_vector.to_array()
        reach = self.n_drawn / (len(self.n_draws) * self.n_draws.max())
        return shrunk_dual(
            self.cost / self.n_drawn, self.objective.alpha / 2 * float(last @ last), reach
        )

    def certify(self, rounded):
        """Return the model and its certificate (see `_drive`)."""
        models = self.output.models(self.weight_vector)
        model, primal = certify_best(models, rounded, self.objective.primal)
        return model, primal, self.dual()


class ExamplesBlock(NamedTuple):
    """Examples of any kind, as a Block: X and y are arrays of objects."""

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None


def _array_of_objects(examples):
    array = np.empty(len(examples), dtype=object)
    for k, example in enumerate(examples):
        array[k] = example
    return array


class PegasosStructured(_SeededSteps, BaseEstimator):
    """Pegasos for outputs of any kind, told by a problem of your own.

    Minimises alpha / 2 |w|^2 + the weighted mean over the examples of
    max_y (loss(y_i, y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>).

    A source for `fit_stream` yields (X, y) or (X, y, sample_weight), X and y sequences of as many
    inputs and outputs.

    Parameters
    ----------
    problem : StructuredProblem
        Feature map, loss and decoders; any object with the methods of StructuredProblem.
    alpha : float, default=1e-4
        Strength of the penalty; the lambda of the paper.
    batch_size : int or "all", default=1
        Examples per step.
    sampling : {"shuffle", "fixed", "replacement", "subsets"}, default="shuffle"
        The order of the examples, as in PegasosClassifier.
    average : {"tail", "mean", "last", "random"}, default="tail"
        Which iterates become the model, as in PegasosClassifier.
    tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to max_iter.
    max_iter : int, default=100
        Limit on epochs. An epoch looks at as many examples as there are.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.

    Attributes
    ----------
    coef_ : ndarray of shape (n_joint_features,), float64
    n_iter_ : int
        Epochs.
    result_ : Result
        Its accesses are stored entries of differences of joint features. The gap holds if
        `loss_augmented_decode` is exact. After `partial_fit` it is unknown (inf).

    See Also
    --------
    SequencePegasos : compiled, for label sequences.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter, "Pegasos: primal estimated sub-gradient solver for SVM",
    Mathematical Programming 127, 2011, section 5.

    Examples
    --------
    Multiclass classification, written as a structured problem:

    >>> import numpy as np
    >>> from sublinear import PegasosStructured, StructuredProblem
    >>> class ThreeClasses(StructuredProblem):
    ...     def joint_features(self, x, y):
    ...         return np.kron(np.eye(3)[y], x)
    ...     def loss(self, y, other):
    ...         return float(y != other)
    ...     def loss_augmented_decode(self, weights, x, y):
    ...         return int(np.argmax(weights.reshape(3, -1) @ x + (np.arange(3) != y)))
    ...     def decode(self, weights, x):
    ...         return int(np.argmax(weights.reshape(3, -1) @ x))
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = X.argmax(axis=1)
    >>> model = PegasosStructured(ThreeClasses(), alpha=0.01, random_state=0).fit(X, y)
    >>> model.score(X, y) > -0.1
    True
    """

    def __init__(
        self,
        problem,
        *,
        alpha=1e-4,
        batch_size=1,
        sampling="shuffle",
        average="tail",
        tol=1e-3,
        max_iter=100,
        random_state=None,
    ):
        self.problem = problem
        self.alpha = alpha
        self.batch_size = batch_size
        self.sampling = sampling
        self.average = average
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_block(self, block):
        """Return the ExamplesBlock of what a source yields."""
        if not isinstance(block, (tuple, list)) or len(block) not in (2, 3):
            raise ValueError(
                f"a source must yield (X, y) or (X, y, sample_weight), got {described(block)}"
            )
        X, y, weights = [*block, None][:3]
        for name, examples in (("X", X), ("y", y)):
            if not hasattr(examples, "__len__"):
                raise ValueError(
                    f"{name} must be a sequence of as many things as there are examples, got a "
                    f"{type(examples).__name__}"
                )
        check_consistent_length(X, y)
        return ExamplesBlock(
            _array_of_objects(X), _array_of_objects(y), checked_weights(weights, len(X))
        )

    def _learn_block(self, block, first, options):
        self.partial_fit(*block)

    def _numbers_of(self, block):
        rows = [self.problem.joint_features(x, y) for x, y in zip(block.X, block.y, strict=True)]
        return [*map(_matrix, rows), block.sample_weight]

    def _check_parameters(self):
        _check_step_parameters(self)
        missing = [name for name in _METHODS if not callable(getattr(self.problem, name, None))]
        if missing:
            raise ValueError(
                f"problem must have the methods {', '.join(_METHODS)}; no {missing[0]}"
            )

    def _check(self, X, y):
        self._check_parameters()
        check_consistent_length(X, y)
        if len(X) == 0:
            raise ValueError("there are no examples")

    @all_or_nothing
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : sequence of n_samples inputs
            Whatever `problem` understands.
        y : sequence of n_samples outputs
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; a weight k counts like k copies of the example.

        Returns
        -------
        self : PegasosStructured

        Raises
        ------
        ValueError
            For parameters, data or joint features that make no sense.
        KeyboardInterrupt
            After Ctrl-C; `coef_` holds the model reached so far. Errors in the methods of
            `problem` reach the caller in the same way.
        """
        self._check(X, y)
        check_batch_fits(self.batch_size, len(X))
        self._state = self._stream_seeds = None
        return self._run(X, y, sample_weight, Limits(self.tol, self.max_iter))

    @all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Take one epoch over a block of examples, going on from the present model.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        self : PegasosStructured

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was.
        """
        self._check(X, y)
        self._state = getattr(self, "_state", None)
        self._seed_stream()
        return self._run(X, y, sample_weight, Limits(0, 1, certify=False))

    def _run(self, X, y, sample_weight, limits):
        weights = check_sample_weight(sample_weight, np.empty(len(X)))
        n_features = None if self._state is None else len(self._state["w"])
        objective = _StructuredObjective(self.problem, X, y, self.alpha, weights, n_features)
        if self._stream_seeds is None:
            (seeds,) = seed_sequence(self.random_state).spawn(1)
        else:
            (seeds,) = self._seeds_of_block(1)
        solver = _StructuredPegasos(
            objective,
            RandomBits(seeds),
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, len(X)),
            average=self.average,
        )
        if self._state is not None:
            solver.resume(self._state)
        model, result, error = drive(solver, limits)
        check_finite([Outcome(model, result)], 1.0, np.float64)
        self.coef_, self.result_ = model, result
        self.n_iter_ = self.result_.n_iter
        self._state = solver.state()
        if error is not None:
            raise error
        return self

    def predict(self, X):
        """Return the output that scores highest for every input.

        Parameters
        ----------
        X : sequence of n_samples inputs

        Returns
        -------
        outputs : list
        """
        check_is_fitted(self)
        weights = _read_only(self.coef_.view())
        return [self.problem.decode(weights, x) for x in X]

    def score(self, X, y):
        """Return minus the mean loss of the predictions; 0 is best.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        score : float
        """
        check_consistent_length(X, y)
        pairs = zip(y, self.predict(X), strict=True)
        return -float(np.mean([self.problem.loss(label, output) for label, output in pairs]))
