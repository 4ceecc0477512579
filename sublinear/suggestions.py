"""Which solver for which data: suggest_solver, which follows the map of the gallery.

Sources: the costs of docs/gallery/plot_who_wins.py, and of asv_bench/compare_sublinear.py for
margins.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length

from sublinear._core.matrix import Matrix, check_before_csr, csr_structure
from sublinear._labels import distinct, find_classes, margin_targets
from sublinear._validation import (
    MOST_NORM,
    check_choice,
    check_matrix,
    check_squared_norms,
    generator,
    has_matrix,
    naming_entries,
)
from sublinear._warnings import muted
from sublinear.data import FeatureOracle
from sublinear.margin import SublinearPerceptron
from sublinear.pegasos import PegasosClassifier
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.semi_streaming import SemiStreamingPerceptron
from sublinear.soft_margin import SIMBAClassifier
from sublinear.sources._faults import nothing_in
from sublinear.streaming import StreamingSVRGClassifier, StreamingSVRGRegressor

__all__ = ["SolverSuggestion", "suggest_solver"]

GOALS = ("prediction", "optimum", "margin")
COSTS = ("seconds", "values")
TASKS = ("classification", "regression")

SAMPLE_ROWS, SAMPLE_VALUES = 2048, 2**20
MEMBERS = 8  # of every class, at least, where there are as many
HELD_OUT = 4  # every fourth row of the sample tells alphas apart, of a small one each in its turn
FEWEST_ROWS = 32  # of a sample that says anything
ALPHAS = tuple(10.0**-k for k in range(2, 11))  # for rows of length 1
LEAST_GAIN = 1e-3  # of the error before
SURE_ALPHAS, WORSE_ALPHAS = 4, 2  # are tried at least; in a row end the trials
TRIAL_TOL, TRIAL_PASSES = 0.02, (10, 100)
TRIAL_VALUES, STEP_VALUES = 2**23, 185  # of a small fit; what a step costs besides those it reads
SMALL_SAMPLE = 2**19  # values, steps included, of all turns
FEW_CLASSES = 10  # are told apart by the small fits; others count as one
# What calls for a scaler: columns of that many times the scale of others, rows that many times as
# long as most, rows that many times as far from 0 as from their centre.
APART, LONG, FAR = 100.0, 30.0, 10.0
AMOUNTS = 20  # different whole numbers, which may be counts rather than classes
# Errors differ by that many standard deviations, and by that part of the lesser one, as on the map.
SURE, NEAR = 2.0, 0.1
SEEN = 1e-6  # of the errors of a constant: where two models have next to none, neither is better
LARGEST_NORM = 130.0  # |w| on the map
PRESUMED_NORM = 10.0  # |w| where no sample tells
CERTIFICATE_GROWTH = 1.5  # of the epochs of Pegasos between two certificates
CACHED_COLUMNS = 2**16  # a weight each, in the second cache


def far(values, n_columns):
    """Return how many of the values read have a weight that is not in the cache."""
    return values if n_columns > CACHED_COLUMNS else 0.0


class Microseconds(NamedTuple):
    """What a fit takes, by what it does."""

    fit: float  # any
    stored: float  # for each stored value of X
    step: float
    value: float  # for each value read
    far_value: float  # for each whose weight is far, besides


@dataclass(frozen=True)
class Cost:
    """What a solver needs until the test error is near the least, as the map has it.

    Attributes
    ----------
    steps : float
        Rows, or draws of a row and a column, per |w|^2 for rows of length 1 at most; of one pass
        over a stream per column.
    passes : int
        What a fit of its estimator reads besides, for norms and for certificates: see `passes_for`.
    microseconds : Microseconds
    by_lines : bool, default=False
        Whether a step reads a row and a column rather than a row.
    """

    steps: float
    passes: int
    microseconds: Microseconds
    by_lines: bool = False

    def steps_for(self, n_columns, norm):
        """Return how many steps it takes for a model of this norm."""
        return self.steps * norm**2

    def passes_for(self, epochs):
        """Return how many passes a fit of so many epochs reads besides."""
        return self.passes

    def allows(self, steps, n_rows):
        """Tell whether a fit to so many rows can take so many steps."""
        return True

    def values_of_steps(self, steps, n_rows, n_columns, stored):
        """Return how many stored values so many steps read."""
        return steps * (stored / n_rows + (stored / n_columns if self.by_lines else 0.0))

    def values_for(self, steps, n_rows, n_columns, stored):
        """Return how many stored values a fit of so many steps reads."""
        values = self.values_of_steps(steps, n_rows, n_columns, stored)
        return values + self.passes_for(steps / n_rows) * stored

    def seconds_for(self, steps, n_rows, n_columns, stored):
        """Return the seconds of a fit of so many steps."""
        each, values = self.microseconds, self.values_of_steps(steps, n_rows, n_columns, stored)
        total = each.fit + each.stored * stored + each.step * steps + each.value * values
        return 1e-6 * (total + each.far_value * far(values, n_columns))


class PegasosCost(Cost):
    """The cost of epochs with certificates on the way, ever rarer ones; `passes` are for one."""

    def passes_for(self, epochs):
        """Return what all certificates read: one at the end, the others since the first epoch."""
        certificates, last = 1, 1
        while (last := math.ceil(CERTIFICATE_GROWTH * last)) < epochs:
            certificates += 1
        return certificates * self.passes


class StreamCost(Cost):
    """The cost of one pass, which depends on the number of columns."""

    def steps_for(self, n_columns, norm):
        return self.steps * n_columns

    def allows(self, steps, n_rows):
        return steps <= n_rows

    def values_for(self, steps, n_rows, n_columns, stored):
        return stored  # a fit takes all rows it is given


# Those that came near the least test error wherever they were tried.
RELIABLE = {SDCAClassifier, PegasosClassifier}
# L2SVMClassifier got there in 19 of 57 problems and was never first.
MEASURED = {
    SDCAClassifier: Cost(1.17, 2, Microseconds(792, 0.000146, 0.115, 0.000622, 0.00317)),
    PegasosClassifier: PegasosCost(1.26, 1, Microseconds(715, 8.59e-07, 0.0804, 0.000528, 0.00516)),
    SublinearPerceptron: Cost(
        1.1, 0, Microseconds(780, 1.25e-06, 0.222, 0.000347, 0), by_lines=True
    ),
    SIMBAClassifier: Cost(0.65, 0, Microseconds(554, 4.16e-06, 10, 0.0128, 0), by_lines=True),
    StreamingSVRGClassifier: StreamCost(5.54, 0, Microseconds(790, 0, 0.0255, 0.00121, 0)),
}
BY_LINES = {make for make, cost in MEASURED.items() if cost.by_lines}
# A margin of nine tenths of the largest takes so many draws per 1 / margin^2 for rows of length 1;
# from where a pass buys as many draws on, they are faster than passes.
MARGIN_DRAWS = 12.0
# Of SDCA with certificates, to such a relative gap, which mostly brings nine tenths of the margin.
MARGIN_TOL, MARGIN_PASSES = 0.1, 10.0
OPTIMUM_PASSES = 10.0  # the same to a relative gap of 1e-3; of rows of very different scales more
EPOCHS, FEW_STEPS = 10, 2**15  # of Pegasos at least, whichever is less: they cost next to nothing
MORE = 16.0  # times the estimated steps are taken: a sample has smaller norms, problems differ


@dataclass(frozen=True)
class SolverSuggestion:
    """What `suggest_solver` returns.

    Attributes
    ----------
    estimator : estimator
        Not fitted; `fit` it to X and y, or `fit_stream` it to a source.
    reason : str
        Why this one, and what it is going to cost.
    values : float
        Rough estimate of the stored values that its fit reads, certificates included; NaN where X
        does not tell how large it is.
    passes : float
        The same as a multiple of what X stores; of several classes those of all their problems.
    estimates : dict of str to dict of str to float
        Of every solver compared, until the test error of a binary problem is near the least:
        `steps`, `values`, and `seconds` on the machine where the map was made, of which only the
        ratios mean anything elsewhere. Empty where nothing is compared.
    sample_rows : int
        Rows that were looked at.

    Examples
    --------
    >>> from sublinear import suggest_solver
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(200, 100, random_state=0)
    >>> suggestion = suggest_solver(X, y, random_state=0)
    >>> model = suggestion.estimator.fit(X, y)
    >>> suggestion.sample_rows
    200
    """

    estimator: BaseEstimator
    reason: str
    values: float = math.nan
    passes: float = math.nan
    estimates: dict = field(default_factory=dict, repr=False)
    sample_rows: int = 0


def suggest_solver(X, y=None, *, goal="prediction", cost=None, task=None, random_state=None):
    """Suggest an estimator of this package for data, from a sample of the rows.

    It looks at the shape and density of X, at the labels, and at a sample of at most 2048 rows and
    about a million values, on which small fits tell a penalty and the norm of a good model; with
    those, and the costs that were measured on the map of who wins, :doc:`/which_solver`, it
    estimates what every solver will cost.

    The estimator comes with the parameters that follow from the sample: `alpha` and
    `intercept_scaling` for rows as long as most, `row_norm`, `nu`, and limits, `max_iter` and
    `max_accesses`, at a multiple of the estimated steps. A regressor's intercept is not penalised,
    since targets may lie far from 0.

    The reason says what to do to X first: to scale columns whose scales differ by a factor of 100
    or more (StandardScaler; MaxAbsScaler for sparse data), and to centre columns if rows are 10
    times as far from 0 as from their centre, unless that predicts worse on the sample; to scale
    rows some of which are 30 times as long as most, but only if that predicts better. Suggest
    again for the new data; for X as it is the suggestion is SDCA, which has methods of second
    order. It says so, too, where no penalty predicts rows held out better than a constant does.

    Parameters
    ----------
    X : {array-like, sparse matrix, DualStore, FeatureOracle} or iterable of blocks
        Of shape (n_samples, n_features). Of a FeatureOracle nothing is computed. Blocks are those
        that `fit_stream` takes: a source that can be iterated again is asked for its first block;
        of an iterator, which can be read once, nothing is taken.
    y : array-like of shape (n_samples,), default=None
        Labels or numbers; None for blocks, which have their own. Whole numbers, of integer or
        float type, are taken for labels: see `task`.
    goal : {"prediction", "optimum", "margin"}, default="prediction"
        "prediction": a test error near the least, soon. "optimum": a small, certified gap of a
        penalised loss. "margin": the hyperplane of the largest margin, for rows that one separates.
    cost : {"seconds", "values"}, default=None
        What is to be saved where solvers are compared, goal="prediction" for classes: time, or
        values read by the whole fit. None: values for a DualStore, seconds for other data.
    task : {"classification", "regression"}, default=None
        None: classification if y holds text, or whole numbers; else regression. The reason says
        which of the two was taken for granted of numbers. Say "regression" for counts and other
        amounts that are whole. Iterators need it.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the sample; the same seed gives the same suggestion. It is not that of the estimator.

    Returns
    -------
    suggestion : SolverSuggestion
        `estimator`, not fitted, `reason`, and estimated costs.

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do. Only the rows of
        the sample are looked at: NaN in others are found by `fit`.

    Notes
    -----
    The norm of a good model grows with the number of rows, so estimates from a sample are rather
    low. With more than two classes they are those of one class against the rest, in the mean,
    times the number of classes.

    Examples
    --------
    >>> from sublinear import suggest_solver
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(2000, 5000, random_state=0)
    >>> suggestion = suggest_solver(X, y, random_state=0)
    >>> suggestion.estimator.fit(X, y).score(X, y) > 0.9
    True
    >>> type(suggest_solver(X, y, goal="optimum", random_state=0).estimator).__name__
    'SDCAClassifier'
    """
    check_choice("goal", goal, GOALS)
    for name, value, choices in (("cost", cost, COSTS), ("task", task, TASKS)):
        check_choice(name, value, choices, optional=True)
    if not hasattr(X, "shape") and (y is None or isinstance(X, Iterator)):
        if y is not None:
            raise ValueError("X is an iterator: let it yield blocks (X, y), and leave y out")
        return _for_blocks(X, goal, task)
    if y is None:
        raise ValueError("y is missing: what to use depends on the targets")
    data = _Data(X, y, task)
    if data.task == "regression" and goal == "margin":
        raise ValueError('goal="margin" is for labels, y holds numbers')
    if isinstance(data.X, FeatureOracle):
        return _for_oracle(data, goal)
    sample = _Sample(data, *_drawn(data, generator(random_state)))
    advice = _advice_for(data, sample)
    if data.task == "regression":
        found = _optimum(data, sample, "The map is of classifiers. ")
    elif goal == "optimum":
        found = _optimum(data, sample)
    elif goal == "margin":
        found = _margin(data, sample)
    elif advice or sample.norm > LARGEST_NORM:
        found = _optimum(data, sample, "Nothing like this is on the map. ")
    else:
        found = _prediction(data, sample, cost or ("values" if data.is_store else "seconds"))
    return replace(found, reason=found.reason + advice)


class _Data:
    """X as it may be indexed, and what is known of it without a look at its values."""

    def __init__(self, X, y, task):
        self.is_store = has_matrix(X)
        if sparse.issparse(X):
            check_before_csr(X)
            X = X.tocsr()
        elif not self.is_store and not hasattr(X, "iloc"):
            with naming_entries(X=X):
                X = np.asarray(X)
        if len(X.shape) != 2 or 0 in X.shape:
            raise ValueError(f"X must have rows and columns, got shape {X.shape}")
        if sparse.issparse(X):
            csr_structure(X)  # SciPy takes rows without a look at it
        self.X = X
        self.y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None)
        check_consistent_length(X, self.y)
        self.n_rows, self.n_columns = X.shape
        stored = X.nnz if sparse.issparse(X) else self.n_rows * self.n_columns
        if self.is_store:
            stored = getattr(X, "n_stored", stored)
        self.stored = max(1, stored)  # costs are multiples of it
        self.task, self.is_guess = (_task_of(self.y), True) if task is None else (task, False)

    @functools.cached_property
    def classes(self):
        """The labels; None for regression."""
        return find_classes(self.y) if self.task == "classification" else None

    @property
    def n_problems(self):
        """How many binary problems one-vs-rest makes of the classes."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def most_rows(self):
        """How many rows a sample has at the most."""
        per_row = max(1, self.stored // self.n_rows)
        return min(self.n_rows, SAMPLE_ROWS, max(2 * FEWEST_ROWS, SAMPLE_VALUES // per_row))

    @property
    def size(self):
        """How many rows, columns and stored values X has."""
        return self.n_rows, self.n_columns, self.stored

    @property
    def is_dense(self):
        return self.stored == self.n_rows * self.n_columns

    @property
    def description(self):
        kind = "dense" if self.is_dense else "sparse"
        size = f"{self.n_rows} x {self.n_columns}, {kind}"
        if not self.is_guess or self.y.dtype.kind not in "iuf":
            return size
        if self.task == "regression":
            return f"{size}; y holds fractions, taken for amounts"
        n_labels = len(distinct(self.y))
        if n_labels < AMOUNTS:
            return f"{size}; y holds whole numbers, taken for classes"
        return (
            f"{size}; y holds {n_labels} different whole numbers, taken for classes: for "
            'amounts, pass task="regression"'
        )

    def rows(self, numbers):
        """Return these rows, checked: an array, or CSR where zeros are not stored."""
        if self.is_store:
            rows = self._stored_rows(numbers)
        else:
            rows = self.X.iloc[numbers] if hasattr(self.X, "iloc") else self.X[numbers]
            rows = check_matrix(rows)
        return rows.toarray() if self.is_dense and sparse.issparse(rows) else rows

    def _stored_rows(self, numbers):
        matrix, rows = self.X.matrix(), []
        for i in numbers:
            row = np.zeros(self.n_columns)
            matrix.add_rows(np.ones(1), np.array([i]), row)
            rows.append(sparse.csr_array(row[np.newaxis]))
        return sparse.vstack(rows, format="csr")


def _task_of(y):
    if y.dtype == object:
        distinct(y)  # type_of_target does not say what mixed labels are
    with np.errstate(invalid="ignore"):  # of floats that are no int64
        kind = type_of_target(y)
    if kind.startswith("continuous"):
        return "regression"
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"y must hold one label or number per row, got {kind} targets")
    return "classification"


class _Sample:
    """What small fits on some rows tell: a penalty, and the model that it brings.

    Attributes
    ----------
    row_norm : float
        The longest row's.
    length, spread : float
        Of most rows, whatever a few long ones are: the length, and the distance from their centre,
        on which predictions depend wherever 0 is.
    soft, hard : dict
        Parameters for such rows: with the alpha of the least error on rows held out, made smaller
        as for a model of all rows by the root of the number of rows; with a small one.
    norm, largest_norm : float
        |w| of its model, for rows divided by the longest; of several classes, root mean square and
        the largest.
    slack : float
        Its hinge loss, per norm: nu of SIMBA by Lemma 2.1.
    predicts : bool
        Whether a penalty was found that predicts rows held out better than a constant does.
    errors : ndarray, or None if the sample says too little
        Of the best that was tried, a constant or a model, on rows held out.
    """

    def __init__(self, data, X, y):
        self.classifies = data.task == "classification"
        self.sdca = SDCAClassifier if self.classifies else SDCARegressor
        self.X, self.y = X, y
        self.n_rows = self.X.shape[0]
        stored = self.X.nnz if sparse.issparse(self.X) else self.X.size
        work = stored + STEP_VALUES * self.n_rows
        self.turns = int(np.clip(SMALL_SAMPLE / work, 1, HELD_OUT))
        work *= self.turns * min(data.n_problems, FEW_CLASSES)
        self.passes = int(np.clip(TRIAL_VALUES / work, *TRIAL_PASSES))
        self._measure()
        self.soft = self.hard = self._scaled(1e-4)
        self.norm = self.largest_norm = PRESUMED_NORM
        self.slack = 0.01
        parts = np.arange(self.n_rows) % HELD_OUT
        self.is_telling = self.n_rows >= FEWEST_ROWS and all(
            len(np.unique(self.y[parts != turn])) > 1 for turn in range(self.turns)
        )
        self.predicts, self.errors, self.of_constant = False, None, 0.0
        if self.is_telling:
            self._try_alphas(parts, math.sqrt((parts > 0).sum() / data.n_rows))

    def _measure(self):
        """Find how long most rows are, how far from their centre, and how much each counts."""
        matrix = Matrix(self.X)
        squares = matrix.squared_norms()  # float64, of whatever type X is
        check_squared_norms(squares)
        matrix.check_underflow(squares.max())
        self.row_norm = _rounded(math.sqrt(squares.max())) or 1.0
        filled = squares > 0
        usual = np.median(squares[filled]) if filled.any() else 1.0
        # none counts more than a row of usual length, in means of squares either
        self.weights = np.sqrt(usual / np.maximum(squares, usual))
        self.centre = self.X.T @ (self.weights / self.weights.sum())
        apart = squares - 2 * (self.X @ self.centre) + self.centre @ self.centre
        apart = apart @ self.weights**2 / (self.weights @ self.weights)
        self.length = _rounded(math.sqrt(usual))
        # all rows may be the same; of less than this rounding leaves nothing
        self.spread = math.sqrt(max(apart, 1e-14 * usual)) if filled.any() else 1.0
        if self.n_rows == 1:  # there is nothing that it could be far from
            self.spread = self.length

    def _scaled(self, alpha):
        """Return what alpha, and the intercept, are for rows like most."""
        scaled = {"alpha": _rounded(alpha * self.spread**2)}
        if self.classifies:
            return scaled | {"intercept_scaling": min(self.length, MOST_NORM)}
        return scaled | {"penalize_intercept": False}  # targets may be far from 0

    @property
    def description(self):
        """What a reason says of it."""
        if not self.is_telling:
            rows = "row" if self.n_rows == 1 else "rows"
            return f"A sample of {self.n_rows} {rows} says too little."
        found = f"On a sample of {self.n_rows} rows "
        if not self.predicts:
            return found + "no penalty predicts better than a constant."
        if not self.classifies:
            return found + f"an alpha of {self.soft['alpha']:.3g} predicts best of those tried."
        return found + f"a good model has norm {self.norm:.3g}, where the longest row has length 1."

    def _fit(self, rows, y, scaled):
        """Return SDCA's model of some rows."""
        model = self.sdca(tol=TRIAL_TOL, max_iter=self.passes, random_state=0, **scaled)
        with muted(ConvergenceWarning):
            return model.fit(self.X[rows], y[rows])

    def _try_alphas(self, parts, smaller):
        """Try smaller and smaller alphas while that pays, the first one against a constant."""
        y = self._targets()
        turns = [
            (np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in range(self.turns)
        ]
        constants = [_constant(y[rows], self.classifies) for rows, _ in turns]
        held = np.concatenate([y[out] for _, out in turns])
        least = self._errors(np.repeat(constants, [len(out) for _, out in turns]), held)
        self.of_constant, worse = least.mean(), 0
        for tried, alpha in enumerate(ALPHAS, 1):
            models = [self._fit(rows, y, self._scaled(alpha)) for rows, _ in turns]
            predicted = [m.predict(self.X[out]) for m, (_, out) in zip(models, turns, strict=True)]
            errors = self._errors(np.concatenate(predicted), held)
            if _pays(least, errors):
                least, worse, self.predicts = errors, 0, True
                self.soft = self._scaled(alpha * smaller)
                if self.classifies:
                    self._describe(models[0], turns[0][0], y)
            elif self.predicts:  # alphas before the first good one do not count
                worse += 1
            if tried >= SURE_ALPHAS and worse >= WORSE_ALPHAS:
                break
        self.errors = least

    def _targets(self):
        """Return the targets: few classes at most, numbers from -1 to 1."""
        if not self.classifies:
            y = self.y.astype(np.float64)
            return y / (np.abs(y).max() or 1.0)
        _, codes, counts = np.unique(self.y, return_inverse=True, return_counts=True)
        ranks = np.argsort(np.argsort(-counts, kind="stable"))
        return np.minimum(ranks[codes], FEW_CLASSES)

    def _errors(self, predicted, y):
        return (predicted != y).astype(float) if self.classifies else (predicted - y) ** 2

    def _describe(self, model, rows, y):
        """Note the norm and the hinge loss of a model, the mean of its problems."""
        squares = (model.coef_.astype(np.float64) ** 2).sum(axis=1)
        self.norm = max(1.0, math.sqrt(squares.mean()) * self.row_norm)
        self.largest_norm = max(1.0, math.sqrt(squares.max()) * self.row_norm)
        scores = model.decision_function(self.X[rows])
        labels = model.classes_ if scores.ndim > 1 else model.classes_[1:]
        signs = np.where(y[rows, np.newaxis] == labels, 1.0, -1.0).reshape(scores.shape)
        losses = np.maximum(0, 1 - signs * scores)
        self.slack = _rounded(float(np.clip(losses.mean() / self.norm, 1e-4, 0.5)))

    def margin(self):
        """Return the least margin of a nearly hard fit, in units of row_norm; 0: none found."""
        if not self.is_telling:
            return 0.0
        y = margin_targets(self.y, _most_frequent(self.y))
        model = self._fit(np.arange(self.n_rows), y, self.hard)
        length = math.hypot(_length(model.coef_), model.intercept_[0] / self.row_norm)
        least = (y * model.decision_function(self.X)).min()
        return max(0.0, float(least) / max(length * self.row_norm, 1e-300))

    def factor_of_columns(self):
        """Return how far the scales of columns lie apart.

        The scale of a column is the root mean square of its entries that are not 0: rare words
        are not small.
        """
        X = self.X.astype(np.float64)  # whose squares float32 may not hold
        squares = X.multiply(X).tocsc() if sparse.issparse(X) else X**2
        counts = (squares > 0).T @ self.weights**2
        sums = squares.T @ self.weights**2
        means = sums[counts > 0] / counts[counts > 0]
        return math.sqrt(means.max()) / math.sqrt(means.min()) if means.size else 1.0


def _drawn(data, random):
    """Draw rows and their targets, some of every class where classes are not too many."""
    size = data.most_rows
    numbers = random.choice(data.n_rows, size, replace=False)
    is_part = size < data.n_rows
    if is_part and data.classes is not None and len(data.classes) * MEMBERS <= size // 2:
        members = [np.flatnonzero(data.y == label) for label in data.classes]
        members = [random.choice(of, min(MEMBERS, len(of)), replace=False) for of in members]
        numbers = np.concatenate([numbers[: size - sum(map(len, members))], *members])
    numbers = random.permutation(np.unique(numbers))
    return data.rows(numbers), data.y[numbers]


def _advice_for(data, sample):
    """Return what to do first to scales that lie far apart, or to rows far from 0, "" if nothing.

    The same trials on a scaled sample have a say. Scaled columns make fits short, so they must not
    predict worse. Rows of length 1 lose what lengths and an intercept say, so they must predict
    better.
    """
    if sample.n_rows < 2:
        return ""  # a row has no scales to compare
    found = {}  # what to do, by the fact that calls for it
    scaler = StandardScaler() if data.is_dense else MaxAbsScaler()
    factor = sample.factor_of_columns()
    if factor >= APART:
        fact = f"The scales of columns differ by a factor of {factor:.2g}"
        found[fact] = f"scale columns first ({type(scaler).__name__})"
    factor = _length(sample.centre) / sample.spread
    if factor >= FAR:
        fact = f"Rows are {factor:.2g} times as far from 0 as from their centre"
        found[fact] = "centre columns first (StandardScaler)"
    scales = bool(found)
    if found and _predicts_better(sample, _scaled_sample(data, sample, scaler)):
        found, scales = dict.fromkeys(found, "leave columns, which predict worse if scaled"), False
    factor = sample.row_norm / sample.length
    if factor >= LONG and not scales:  # in scaled columns other rows may be long
        fact = f"The longest row is {factor:.2g} times as long as most"
        if _predicts_better(_scaled_sample(data, sample, Normalizer()), sample):
            found[fact] = "scale rows to a length of 1 first (Normalizer), which predicts better"
        else:
            found[fact] = "leave rows as they are, unless only their directions matter"
    return "".join(f" {fact}: {what}." for fact, what in found.items())


def _scaled_sample(data, sample, scaler):
    """Return the same rows, scaled."""
    return _Sample(data, scaler.fit_transform(sample.X.astype(np.float64)), sample.y)


def _predicts_better(one, other):
    """Tell whether one sample's trials were better: on most rows, whose errors may vary, and all.

    On most rows by the test of signs, which for labels is McNemar's.
    """
    if one.errors is None:
        return False
    gains = other.errors - one.errors
    on_most = np.sign(gains).sum() > SURE * math.sqrt(np.count_nonzero(gains))
    least = max(NEAR * one.errors.mean(), SEEN * one.of_constant)
    return bool(on_most and gains.mean() > least)


def _most_frequent(y):
    labels, counts = np.unique(y, return_counts=True)
    return labels[counts.argmax()]


def _constant(y, classifies):
    """Return what predicts best of all that is the same for all rows."""
    return _most_frequent(y) if classifies else y.mean()


def _pays(least, errors):
    """Tell whether errors on rows held out are less by more than chance and rounding bring."""
    gains = least - errors
    return gains.mean() > max(gains.std() / math.sqrt(len(gains)), LEAST_GAIN * least.mean())


def _length(coef):
    """Return |coef|, whose square float32 may not hold."""
    return float(np.linalg.norm(coef.astype(np.float64)))


def _rounded(value):
    """Three digits of a parameter say as much as sixteen."""
    return float(f"{value:.3g}")


def estimates_for(n_rows, n_columns, stored, norm, largest_norm=None):
    """Return {estimator: steps, values and seconds until the test error is near the least}.

    Values are those of the steps, and of the passes that the estimator makes besides.

    Parameters
    ----------
    norm : float
        |w| of a good model, for rows of length 1 at most.
    largest_norm : float, default=None
        Of several problems, whose norms have the mean `norm`. SDCA ends each by its certificate,
        others take as many steps for all of them as for this one.
    """
    found = {}
    for make, cost in MEASURED.items():
        ends_each = make is SDCAClassifier or largest_norm is None
        steps = cost.steps_for(n_columns, norm if ends_each else largest_norm)
        if cost.allows(steps, n_rows):
            found[make] = {
                "steps": steps,
                "values": cost.values_for(steps, n_rows, n_columns, stored),
                "seconds": cost.seconds_for(steps, n_rows, n_columns, stored),
            }
    return found


def candidates(n_rows, n_columns, norm, cost):
    """Return the estimators that the map lets choose from.

    In seconds nobody who was given all rows was faster than the better one of RELIABLE by more than
    a hundredth. Of values, methods of single rows and columns need few on the far side of the
    theory's border, where a pass buys more than |w|^2 log n draws.
    """
    if cost == "seconds":
        return RELIABLE
    beyond = draws_of_pass(n_rows, n_columns) >= norm**2 * math.log(max(2, n_rows))
    return BY_LINES if beyond else set(MEASURED) - BY_LINES


def pays_by_lines(n_rows, n_columns, margin):
    """Tell whether draws of rows and columns reach a large margin sooner than passes do."""
    return draws_of_pass(n_rows, n_columns) >= MARGIN_DRAWS / margin**2


def draws_of_pass(n_rows, n_columns):
    """Return how many draws of a row and a column read as much as a pass."""
    return n_rows * n_columns / (n_rows + n_columns)


def _prediction(data, sample, cost):
    found = estimates_for(*data.size, sample.norm, sample.largest_norm)
    ranked = sorted(found, key=lambda make: found[make][cost])
    allowed = candidates(data.n_rows, data.n_columns, sample.norm, cost)
    if data.is_store:
        allowed = allowed - {StreamingSVRGClassifier}  # it takes no store
    best = next(make for make in ranked if make in allowed)
    others = ", ".join(
        f"{make.__name__} {found[make][cost] / found[best][cost]:.2g}"
        for make in ranked
        if make is not best and make in allowed
    )
    whole = "" if cost == "seconds" else ", passes for norms and certificates included"
    reason = (
        f"{sample.description} {best.__name__} should come near the least test error for the "
        f"fewest {cost}{whole}, of those that get there in problems like this"
        f"{f'; estimates of the others, as multiples: {others}' if others else ''}."
    )
    steps = math.ceil(MORE * found[best]["steps"])
    if best is PegasosClassifier:
        steps = max(steps, min(EPOCHS * data.n_rows, FEW_STEPS))
    values = MEASURED[best].values_for(steps, *data.size)
    estimates = {make.__name__: found[make] for make in ranked}
    return _suggestion(_set_up(best, data, sample, steps), data, values, reason, sample, estimates)


def _set_up(make, data, sample, steps):
    """Return the estimator with what the sample tells, to end after so many steps if at all."""
    by_lines = {"certify": None, "max_iter": steps, "row_norm": sample.row_norm}
    if make is SublinearPerceptron:
        return make(intercept_scaling=sample.row_norm, **by_lines)
    if make is SIMBAClassifier:
        return make(sample.slack, **by_lines)
    if make is PegasosClassifier:
        limits = {
            "tol": 0.0,
            "max_iter": math.ceil(steps / data.n_rows),
            "max_accesses": math.ceil(steps * data.stored / data.n_rows),
        }
        return make(**sample.soft, **limits)
    return make(**sample.soft, **({"tol": 0.1} if make is SDCAClassifier else {}))


def _optimum(data, sample, why=""):
    model = sample.sdca(**sample.soft)
    reason = (
        f"{sample.description} {why}{type(model).__name__} has no step size and certifies its gap, "
        "which it closes in some ten passes, more for a small penalty."
    )
    return _suggestion(model, data, OPTIMUM_PASSES * data.stored, reason, sample)


def _margin(data, sample):
    margin = sample.margin()
    if margin == 0:
        return _optimum(data, sample, "No hyperplane was found that separates its rows. ")
    shape = data.n_rows, data.n_columns
    draws = math.ceil(MARGIN_DRAWS / margin**2)
    reason = (
        f"{sample.description} Its margin is {margin:.2g} of the longest row, so about {draws} "
        "draws of a row and a column bring nine tenths of the largest, if not too many rows lie "
        f"near it, and a pass costs as much as {draws_of_pass(*shape):.0f}."
    )
    if not pays_by_lines(*shape, margin):
        reason += (
            " SDCAClassifier with a small alpha gets there in some ten passes, more for a small "
            "margin."
        )
        model, values = SDCAClassifier(tol=MARGIN_TOL, **sample.hard), MARGIN_PASSES * data.stored
        return _suggestion(model, data, values, reason, sample)
    model = SublinearPerceptron(
        _rounded(0.1 * margin * sample.row_norm),
        intercept_scaling=sample.row_norm,
        certify=None,
        max_iter=draws,
        row_norm=sample.row_norm,
    )
    reason += ' With certify="exact" a pass more proves what was reached.'
    values = MEASURED[SublinearPerceptron].values_for(draws, *data.size)
    return _suggestion(model, data, values, reason, sample)


def _for_oracle(data, goal):
    if data.task == "regression":
        raise ValueError("no regressor takes a FeatureOracle: compute the rows, or build a store")
    make, to_set = SIMBAClassifier, ", and nu by the share of labels that may be wrong"
    steps = MORE * MEASURED[make].steps_for(data.n_columns, PRESUMED_NORM)
    if goal == "margin":
        make, to_set, steps = SublinearPerceptron, "", MARGIN_DRAWS * PRESUMED_NORM**2
    certify = "las_vegas" if goal == "optimum" else None
    model = make(certify=certify, max_iter=None if certify else math.ceil(steps))
    reason = (
        "Nothing was computed: the number of steps is that of a margin of 0.1 of the longest row. "
        "Methods of single rows and columns are the only ones for a FeatureOracle. Set row_norm, "
        f"or a pass finds it{to_set}."
    )
    values = MEASURED[make].values_for(steps, *data.size)
    return _suggestion(model, data, values, reason)


def _for_blocks(source, goal, task):
    """Suggest for what `fit_stream` takes."""
    reads_once, found = isinstance(source, Iterator), "The blocks can be read once: none was taken."
    if not reads_once:
        first = _Data(*_first_rows(source), task)
        task, found = first.task, f"The first block is {first.description}."
    if task is None:
        raise ValueError(
            'blocks that can be read once are not looked at: pass task="classification"'
            ' or task="regression"'
        )
    classifies, after = task == "classification", ""
    if goal == "prediction" or (goal == "optimum" and reads_once):
        model = StreamingSVRGClassifier() if classifies else StreamingSVRGRegressor()
        why = "One pass, as good as the minimiser over all rows to some per cent."
    elif goal == "optimum":
        model = SDCAClassifier() if classifies else SDCARegressor()
        why = "Passes over the blocks with their duals in memory, nine bytes a row; certified."
    elif reads_once or not classifies:
        raise ValueError('goal="margin" takes labels, and many passes over the blocks')
    else:
        model, after = SemiStreamingPerceptron(), " and materialize, which finds the weights"
        why = "Passes in memory that knows neither the rows nor the columns."
    return SolverSuggestion(model, f"{found} {why} Call fit_stream{after}.")


def _first_rows(source):
    """Return X and y of the first block that has rows."""
    try:
        blocks = iter(source)
    except TypeError:
        raise ValueError(
            "X must be an array, a sparse matrix, a store, an oracle, or iterable blocks "
            f"(X, y), got {type(source).__name__}"
        ) from None
    for block in blocks:
        if not isinstance(block, (tuple, list)) or len(block) < 2:
            raise ValueError("without y, X must yield blocks (X, y): its first one is none")
        if not hasattr(block[1], "__len__"):
            raise ValueError("y is missing: blocks must be (X, y), and an array X comes with its y")
        if len(block[1]):
            return block[:2]
    raise nothing_in(source)


def _suggestion(estimator, data, values, reason, sample=None, estimates=None):
    values = float(values * data.n_problems)
    return SolverSuggestion(
        estimator,
        f"X is {data.description}. {reason}",
        values,
        values / data.stored,
        estimates or {},
        0 if sample is None else sample.n_rows,
    )
