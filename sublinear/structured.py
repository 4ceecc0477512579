"""Structured output: SequencePegasos for label sequences, PegasosStructured for anything.

Both minimise the regularised structured hinge loss

    alpha / 2 |w|^2 + (1 / S) sum_i s_i max_y (loss(y_i, y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>)

over a feature map phi of input and output together: Shalev-Shwartz, Singer, Srebro, Cotter,
"Pegasos: primal estimated sub-gradient solver for SVM" (2011), section 5, Example 5.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sublinear._certified_model import Outcome, check_finite, warn_if_limited
from sublinear._core.aligned import read_only
from sublinear._core.random import RandomBits
from sublinear._documentation import with_parameters
from sublinear._drive import Limits, drive
from sublinear._fit_method import all_or_nothing
from sublinear._sequence_pegasos import SequencePegasos
from sublinear._solvers.structured_pegasos import (
    StructuredObjective,
    StructuredPegasos,
    checked_loss,
)
from sublinear._stream import OneSolverStreamFit, checked_weights, parts_of_block
from sublinear._validation import (
    check_batch_fits,
    check_number,
    check_sample_weight,
    check_step_parameters,
    examples_of_batch,
)

__all__ = ["PegasosStructured", "SequencePegasos", "StructuredProblem"]


class StructuredProblem:
    """What PegasosStructured must be told: a base class to write your own from.

    Any object with these four methods will do. x and y are whatever your lists X and y hold.

    Examples
    --------
    Two classes, as a structured problem:

    >>> import numpy as np
    >>> from sublinear import PegasosStructured, StructuredProblem
    >>> class TwoClasses(StructuredProblem):
    ...     def joint_features(self, x, y):
    ...         return y * x
    ...
    ...     def loss(self, y, other):
    ...         return float(y != other)
    ...
    ...     def loss_augmented_decode(self, weights, x, y):
    ...         return max((-1, 1), key=lambda other: self.loss(y, other) + other * (weights @ x))
    ...
    ...     def decode(self, weights, x):
    ...         return max((-1, 1), key=lambda y: y * (weights @ x))
    >>> X, y = [np.array([1.0, 0.2]), np.array([-1.0, 0.1])], [1, -1]
    >>> model = PegasosStructured(TwoClasses(), alpha=0.1, tol=0.1, max_iter=1000, random_state=0)
    >>> model.fit(X, y).predict(X)
    [1, -1]
    """

    def joint_features(self, x, y):
        """Return phi(x, y).

        Parameters
        ----------
        x : object
            An input, one of X.
        y : object
            An output: one of y, or what a decoder returned.

        Returns
        -------
        features : ndarray of shape (n_joint_features,), or sparse matrix of one row
            Always of the same length.
        """
        raise NotImplementedError("a StructuredProblem needs joint_features(x, y)")

    def loss(self, y, other):
        """Return what it costs to say `other` where y is right: a float, not negative.

        loss(y, y) is 0.

        Parameters
        ----------
        y : object
            The right output of an input, one of y.
        other : object
            What is said instead: an output that a decoder returned, which may be the right one.

        Returns
        -------
        loss : float
        """
        raise NotImplementedError("a StructuredProblem needs loss(y, other)")

    def loss_augmented_decode(self, weights, x, y):
        """Return the output for which its loss + <weights, phi(x, output)> is greatest.

        With an approximate maximum the steps are approximate, the dual value stays a bound, and
        the primal value may come out too small.

        Parameters
        ----------
        weights : ndarray of shape (n_joint_features,), float64
            Those of a model during the fit. Read-only.
        x : object
            An input, one of X.
        y : object
            Its right output.

        Returns
        -------
        output : object
        """
        raise NotImplementedError("a StructuredProblem needs loss_augmented_decode(weights, x, y)")

    def decode(self, weights, x):
        """Return the output for which <weights, phi(x, output)> is greatest.

        Parameters
        ----------
        weights : ndarray of shape (n_joint_features,), float64
            Those of the fitted model, `coef_`. Read-only.
        x : object
            An input, one of the X of `predict`.

        Returns
        -------
        output : object
        """
        raise NotImplementedError("a StructuredProblem needs decode(weights, x)")


_INPUTS = """\
X : sequence of n_samples inputs
        Whatever `problem` understands."""

_OUTPUTS = """\
y : sequence of n_samples outputs
        The right output of every input."""

_METHODS = ("joint_features", "loss", "loss_augmented_decode", "decode")


class ExamplesBlock(NamedTuple):
    """Examples of any kind, as a Block: X and y are arrays of objects."""

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None


def _array_of_objects(examples):
    """Return examples by their positions, whatever a data frame or series names them."""
    array, by_position = np.empty(len(examples), dtype=object), getattr(examples, "iloc", examples)
    for k in range(len(array)):
        array[k] = by_position[k]
    return array


def _check_sequence(name, examples):
    if sparse.issparse(examples):
        raise ValueError(
            f"{name} is one sparse matrix: pass a list, of its rows if these are the examples"
        )
    if hasattr(examples, "column_names"):  # whose items are columns
        raise ValueError(f"{name} is a table of Arrow: pass a list of the examples")
    if not hasattr(examples, "__len__") or isinstance(examples, (Set, Mapping)):
        raise ValueError(
            f"{name} must be a sequence of as many things as there are examples, got a "
            f"{type(examples).__name__}"
        )


def _check_examples(X, y):
    for name, examples in (("X", X), ("y", y)):
        _check_sequence(name, examples)
    check_consistent_length(X, y)
    if len(X) == 0:
        raise ValueError("there are no examples")


@with_parameters()
class PegasosStructured(OneSolverStreamFit, BaseEstimator):
    """Pegasos for outputs of any kind, told by a problem of your own.

    Minimises alpha / 2 |w|^2 + the weighted mean over the examples of
    max_y (loss(y_i, y) + <w, phi(x_i, y)> - <w, phi(x_i, y_i)>).

    A source for `fit_stream` yields (X, y) or (X, y, sample_weight), X and y sequences of as many
    inputs and outputs.

    Parameters
    ----------
    problem : StructuredProblem
        Feature map, loss and decoders; any object with the methods of StructuredProblem. A
        checkpoint knows its class and the features of the first block: a problem that differs from
        it in something else is not told apart.
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
        Epochs; after `fit_stream` one for every block.
    result_ : Result
        Its accesses are stored entries of differences of joint features. The gap holds if
        `loss_augmented_decode` is exact. After `partial_fit`, which it speaks of alone, and after
        `fit_stream` it is unknown (inf). After `fit_stream` n_iter, accesses and seconds are sums
        over the blocks of the call, and of those before a checkpoint that it went on from.
    %(stream_summary)s

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
    >>> model = PegasosStructured(ThreeClasses(), alpha=0.01, max_iter=20, tol=0, random_state=0)
    >>> model.fit(X, y).score(X, y) > -0.1
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
        """Return the ExamplesBlock of what a source yields, which has no columns."""
        X, y, weights = [*parts_of_block(block, hint=""), None][:3]
        for name, examples in (("X", X), ("y", y)):
            _check_sequence(name, examples)
        check_consistent_length(X, y)
        weights = checked_weights(weights, len(X))
        return ExamplesBlock(_array_of_objects(X), _array_of_objects(y), weights), None

    def _learn_block(self, block, first, options):
        self.partial_fit(*block)

    def _numbers_of(self, block):
        rows = [self.problem.joint_features(x, y) for x, y in zip(block.X, block.y, strict=True)]
        arrays = [row if sparse.issparse(row) else np.asarray(row) for row in rows]
        return [*arrays, block.sample_weight]

    def _check_parameters(self):
        check_number("alpha", self.alpha, low=0, open_low=True)
        check_number("tol", self.tol, low=0)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        check_step_parameters(self)
        if isinstance(self.problem, type):
            raise ValueError(f"problem is a class: pass an object, {self.problem.__name__}()")
        missing = [name for name in _METHODS if not callable(getattr(self.problem, name, None))]
        if missing:
            raise ValueError(
                f"problem must have the methods {', '.join(_METHODS)}; no {missing[0]}"
            )

    def _check(self, X, y):
        self._check_parameters()
        _check_examples(X, y)

    @all_or_nothing
    @with_parameters(X=_INPUTS, y=_OUTPUTS)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(sample_weight)s

        Returns
        -------
        self : PegasosStructured

        Raises
        ------
        ValueError
            For parameters, data or joint features that make no sense.
        KeyboardInterrupt
            After Ctrl-C; `coef_` holds the model reached so far. It does so, too, after errors in
            the methods of `problem`, and after a ValueError for what they return.
        """
        self._check(X, y)
        check_batch_fits(self.batch_size, len(X))
        self._state = self._stream_seeds = None
        return self._run(X, y, sample_weight, Limits(self.tol, self.max_iter))

    @all_or_nothing
    @with_parameters(X=_INPUTS, y=_OUTPUTS)
    def partial_fit(self, X, y, sample_weight=None):
        """Take one epoch over a block of examples, going on from the present model.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(sample_weight)s

        Returns
        -------
        self : PegasosStructured

        Raises
        ------
        ValueError
            For parameters or data that make no sense, or rows that do not continue those before;
            the message says what to do. The estimator is left as it was, after errors in the
            methods of `problem` too: give it the same block again once they are mended.
        KeyboardInterrupt
            After Ctrl-C; the model has seen a part of the block.
        """
        self._check(X, y)
        self._state = getattr(self, "_state", None)
        self._seed_stream()
        return self._run(X, y, sample_weight, Limits(0, 1, certify=False))

    def _run(self, X, y, sample_weight, limits):
        X, y = _array_of_objects(X), _array_of_objects(y)
        weights = check_sample_weight(sample_weight, np.empty(len(X)))
        n_features = None if self._state is None else len(self._state["w"])
        objective = StructuredObjective(self.problem, X, y, self.alpha, weights, n_features)
        (seeds,) = self._seeds(1)
        solver = StructuredPegasos(
            objective,
            RandomBits(seeds),
            sampling=self.sampling,
            batch_size=examples_of_batch(self.batch_size, len(X)),
            average=self.average,
        )
        if self._state is not None:
            solver.resume(self._state)
        model, result, errors = drive(solver, limits)
        if errors and isinstance(errors[0], Exception) and not limits.certify:
            raise errors.pop()  # a block of partial_fit can be given again
        check_finite([Outcome(model, result)], 1.0, np.float64)
        self.coef_, self.n_iter_, self._state = model, result.n_iter, solver.state()
        self.result_ = result  # last: now there is a new model
        if errors:
            raise errors.pop()
        warn_if_limited(self, limits, "raise alpha")
        return self

    @with_parameters(X=_INPUTS)
    def predict(self, X):
        """Return the output that scores highest for every input.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        outputs : list
        """
        check_is_fitted(self)
        _check_sequence("X", X)
        weights = read_only(self.coef_.view())
        return [self.problem.decode(weights, x) for x in _array_of_objects(X)]

    @with_parameters(X=_INPUTS, y=_OUTPUTS)
    def score(self, X, y, sample_weight=None):
        """Return minus the weighted mean loss of the predictions; 0 is best.

        Parameters
        ----------
        %(X)s
        %(y)s
        %(sample_weight)s

        Returns
        -------
        score : float
        """
        _check_examples(X, y)
        pairs = zip(_array_of_objects(y), self.predict(X), strict=True)
        losses = [checked_loss(self.problem.loss(label, output)) for label, output in pairs]
        weights = check_sample_weight(sample_weight, np.empty(len(losses)))
        return -float(np.average(losses, weights=weights))
