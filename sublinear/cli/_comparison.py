"""Every linear classifier: on one objective, alpha/2 |w|^2 + mean hinge loss, or on its own.

No intercept; means and errors are weighted where rows have weights. Solvers of this package are
watched by a callback during a single fit. SDCA, which hardly certifies before it is done, and
scikit-learn's peers, which cannot be watched, have curves of refits with a growing number of
passes, each timed whole. Fits too short to be timed once are repeated, and the fastest counts.
"""

import math
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, Normalizer
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from sublinear._validation import drop_weightless
from sublinear.margin import L2SVMClassifier, SublinearPerceptron
from sublinear.pegasos import PegasosClassifier
from sublinear.sdca import SDCAClassifier
from sublinear.soft_margin import SIMBAClassifier
from sublinear.streaming import StreamingSVRGClassifier

__all__ = ["Comparison", "Limits", "Point", "Problem", "Run", "compare", "make_problem"]

SHORT = 0.2  # seconds; a fit shorter than this is timed REPEATS times
REPEATS = 3
KEPT_BYTES = 2**27  # of models waiting to be evaluated


@dataclass(frozen=True)
class Problem:
    """Training and test rows of two classes, labelled -1 and +1, and the objective's alpha."""

    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    X_test: np.ndarray | sparse.csr_array
    y_test: np.ndarray
    alpha: float
    classes: str  # what -1 and +1 stand for
    scale: str  # "none", "rows" or "columns"
    intercept: bool  # whether the last column is constant
    weights: np.ndarray | None = None  # of the training rows, 1 on average
    test_weights: np.ndarray | None = None

    @property
    def n_entries(self):
        return self.X.nnz if sparse.issparse(self.X) else self.X.size

    def objective(self, coef):
        losses = np.maximum(0.0, 1.0 - self.y * (self.X @ coef))
        return 0.5 * self.alpha * float(coef @ coef) + float(_mean(losses, self.weights))

    def test_error(self, coef):
        predicted = np.where(self.X_test @ coef > 0, 1, -1)
        return float(_mean(predicted != self.y_test, self.test_weights))


def _mean(values, weights):
    return values.mean() if weights is None else np.average(values, weights=weights)


@dataclass(frozen=True)
class Limits:
    """When a solver stops: at a gap of tol * objective, or at the first limit it meets."""

    tol: float
    max_iter: int
    max_seconds: float


@dataclass(frozen=True)
class Point:
    """One model on the way: ``dual`` is None for solvers that have no dual value."""

    passes: float
    accesses: int
    seconds: float
    objective: float | None
    dual: float | None
    test_error: float
    gap: float = math.nan


@dataclass(frozen=True)
class Run:
    """One solver's curve, of which the last point is its result."""

    solver: str
    library: str
    parameters: dict
    curve: tuple[Point, ...]
    accesses_counted: bool  # False: passes times stored entries
    certificate_accesses: int = 0
    solves: str | None = None  # what it optimises, where not the common objective

    @property
    def last(self):
        return self.curve[-1]

    @property
    def certified(self):
        return self.last.dual is not None


@dataclass(frozen=True)
class Comparison:
    """All runs on one problem, and the best dual value that any of them reached.

    ``others`` are those of solvers that optimise something else. Some of these cannot learn from
    every problem: ``left_out`` has their names and the reasons.
    """

    problem: Problem
    limits: Limits
    seed: int
    best_dual: float
    runs: tuple[Run, ...]
    others: tuple[Run, ...]
    left_out: dict


def make_problem(
    X, y, weights=None, *, alpha, scale="none", intercept=False, test_size=0.25, seed=0
):
    """Split the rows; several classes become the most frequent one against the rest.

    Rows of weight 0 are left out.

    ``scale`` makes rows unit vectors or divides columns by their largest absolute value.
    An intercept is the weight of a constant column, penalised as the others, for every solver.
    """
    X, y, weights = drop_weightless(X, y, weights)
    y, classes = _two_classes(y)
    n_test = math.ceil(test_size * len(y))
    if min(n_test, len(y) - n_test) < 2:
        raise ValueError(
            f"--test-size {test_size:g} makes {n_test} of {len(y)} rows the test set: it and the "
            "training set need two rows at least, one of each class"
        )
    X = _for_all_solvers(X)
    split = partial(train_test_split, test_size=test_size, random_state=seed, stratify=y)
    X_train, X_test, y_train, y_test = split(X, y)
    if scale != "none":
        scaler = (Normalizer() if scale == "rows" else MaxAbsScaler()).fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    if intercept:
        X_train, X_test = _with_constant(X_train), _with_constant(X_test)
    problem = Problem(X_train, y_train, X_test, y_test, alpha, classes, scale, intercept)
    if weights is None:
        return problem
    weights, test_weights = split(weights)
    return replace(problem, weights=weights / weights.mean(), test_weights=test_weights)


def compare(problem, limits, *, seed, progress):
    """Train every solver in turn, in one thread; ``progress(solver)`` lends a run's display."""
    with threadpool_limits(limits=1):
        return _compare_in_one_thread(problem, limits, seed, progress)


def _compare_in_one_thread(problem, limits, seed, progress):
    # Peers are judged by a dual value ten times closer to the optimum than tol asks for.
    sharp = replace(limits, tol=limits.tol / 10)
    with progress("reference dual value") as show:
        make = partial(_hinge_solver, SDCAClassifier, problem, sharp, seed)
        reference = _watched_fit(make, problem, sharp, show)
    runs = []
    for kind in (SDCAClassifier, PegasosClassifier):
        make = partial(_hinge_solver, kind, problem, limits, seed)
        runs.append(_watched_run(make, kind.__name__, problem, limits, progress))
    with progress("shorter SDCA fits") as show:
        runs[0] = _with_shorter_fits(runs[0], problem, limits, seed, show)
    best_dual = _best_dual([reference, *runs])
    for solver, make in (("LinearSVC", _linear_svc), ("SGDClassifier", _sgd_classifier)):
        with progress(solver) as show:
            runs.append(_refitted_run(make, problem, limits, best_dual, seed, show))
    others, left_out = [], {}
    for solver, solves, make in _other_solvers(problem, limits, seed):
        try:
            others.append(_watched_run(make, solver, problem, limits, progress, solves))
        except ValueError as error:
            left_out[solver] = str(error)
    runs = tuple(_with_gaps(run, best_dual) for run in runs)
    return Comparison(problem, limits, seed, best_dual, runs, tuple(others), left_out)


def _hinge_solver(kind, problem, limits, seed):
    """Return an estimator of the common objective."""
    return kind(
        loss="hinge",
        alpha=problem.alpha,
        fit_intercept=False,
        tol=limits.tol,
        max_iter=limits.max_iter,
        n_jobs=1,
        random_state=seed,
    )


def _other_solvers(problem, limits, seed):
    """Return (name, what it optimises, a function that makes it) of those with another objective.

    Their parameters are the default ones, but for alpha and the limit on what they read.
    """
    common = {"fit_intercept": False, "random_state": seed, "n_jobs": 1}
    budget = {"max_accesses": limits.max_iter * problem.n_entries}
    alpha = {"alpha": problem.alpha}
    solvers = (
        (L2SVMClassifier, "alpha/2 |w|^2 + mean squared hinge loss", budget | alpha),
        (SIMBAClassifier, "largest margin, with slack", budget),
        (SublinearPerceptron, "largest margin, without slack", budget),
        (StreamingSVRGClassifier, "expected logistic loss, one pass", alpha),
    )
    return [
        (kind.__name__, solves, partial(kind, **common, **own)) for kind, solves, own in solvers
    ]


def _two_classes(y):
    """Return labels -1 and +1, and what they stand for."""
    if y is None:
        raise ValueError("the data has no labels to compare classifiers on")
    if y.dtype.kind == "f":
        raise ValueError("the labels are not whole numbers or names: compare trains classifiers")
    labels, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if labels.size < 2:
        raise ValueError(f"the data has one class only ({labels[0]})")
    positive = labels.size - 1 if labels.size == 2 else int(np.argmax(counts))
    others = f"class {labels[0]}" if labels.size == 2 else f"the other {labels.size - 1} classes"
    if min(counts[positive], y.size - counts[positive]) < 2:
        raise ValueError("each class needs two rows at least, one to train on and one to test")
    return np.where(codes == positive, 1, -1), f"class {labels[positive]} against {others}"


def _for_all_solvers(X):
    """Return X as all solvers take it: LIBLINEAR knows 32-bit indices only."""
    if not sparse.issparse(X):
        return np.asarray(X, dtype=None if X.dtype.kind == "f" else np.float64)
    X = sparse.csr_array(X, dtype=None if X.dtype.kind == "f" else np.float64)
    X.sum_duplicates()
    if X.nnz < 2**31:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def _with_constant(X):
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


class _Watcher:
    """A callback that keeps every certified model, and a clock that stops while it works.

    Models are evaluated after the fit, or when they would take much memory: evaluating them
    between two passes would push the solver's data out of the processor's cache.
    """

    def __init__(self, problem, limits, show, solves):
        self.problem, self.limits, self.show, self.solves = problem, limits, show, solves
        self.points, self.waiting = [], []
        self.started = time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self.started

    def __call__(self, snapshot):
        seconds = self.seconds()
        self.waiting.append((snapshot, snapshot.coef, seconds))
        self.show(self.passes(snapshot), snapshot.gap)
        if len(self.waiting) * self.waiting[0][1].nbytes > KEPT_BYTES:
            self.evaluate()
        self.started = time.perf_counter() - seconds
        return seconds > self.limits.max_seconds

    def evaluate(self):
        self.points += [self.point(*kept) for kept in self.waiting]
        self.waiting.clear()

    def passes(self, state):
        """Return epochs, or values read where other solvers count steps in `n_iter`."""
        return state.n_iter if self.solves is None else state.accesses / self.problem.n_entries

    def point(self, state, coef, seconds):
        common = {
            "passes": self.passes(state),
            "accesses": state.accesses,
            "seconds": seconds,
            "test_error": self.problem.test_error(coef),
        }
        if self.solves is None:
            return Point(
                objective=self.problem.objective(coef),
                dual=_finite(state.dual),
                **common,
            )
        return Point(
            objective=_finite(getattr(state, "primal", math.nan)),
            dual=_finite(getattr(state, "dual", math.nan)),
            gap=getattr(state, "gap", math.nan),
            **common,
        )

    def curve(self, estimator, seconds):
        """Return all points, of which the last is the fitted estimator's."""
        self.evaluate()
        last = self.point(estimator.result_, estimator.coef_[0], seconds)
        earlier = [point for point in self.points if point.accesses < last.accesses]
        return (*earlier, last)


def _fastest(fit, seconds):
    """Call ``fit``, a few times if it is short; return the outcome that took the least time."""
    outcomes = [fit()]
    while len(outcomes) < REPEATS and seconds(outcomes[-1]) < SHORT:
        outcomes.append(fit())
    return min(outcomes, key=seconds)


def _watched_run(make, solver, problem, limits, progress, solves=None):
    with progress(solver) as show:
        fit = partial(_watched_fit, make, problem, limits, show, solves)
        return _fastest(fit, attrgetter("last.seconds"))


def _with_shorter_fits(run, problem, limits, seed, show):
    """Return the run of SDCA with the ends of fits of fewer passes before its own."""
    shorter, spent = [], run.last.seconds
    for length in _growing_lengths(run.last.passes):
        if length >= run.last.passes or spent > limits.max_seconds:
            break
        make = partial(
            _hinge_solver, SDCAClassifier, problem, replace(limits, max_iter=length), seed
        )
        fit = partial(_watched_fit, make, problem, limits, show)
        shorter.append(_fastest(fit, attrgetter("last.seconds")).last)
        spent += shorter[-1].seconds
    return replace(run, curve=(*shorter, run.last))


def _watched_fit(make, problem, limits, show, solves=None):
    """Fit a solver of this package once, noting a point at each of its certificates."""
    watcher = _Watcher(problem, limits, show, solves)
    estimator = make()
    parameters = estimator.get_params()
    if "callback" in parameters:
        estimator.set_params(callback=watcher)
    _fit_quietly(estimator, problem)
    _ = estimator.coef_  # that of a stream is computed when it is asked for
    curve = watcher.curve(estimator, watcher.seconds())
    show(curve[-1].passes, getattr(estimator.result_, "gap", math.nan))
    return Run(
        solver=type(estimator).__name__,
        library="sublinear",
        parameters=parameters,
        curve=curve,
        accesses_counted=True,
        certificate_accesses=getattr(estimator.result_, "certificate_accesses", 0),
        solves=solves,
    )


def _finite(value):
    """Return the value, or None where it is not known."""
    return value if math.isfinite(value) else None


def _refitted_run(make, problem, limits, best_dual, seed, show):
    """Fit a peer again and again with more passes, until it is as good as ``tol`` asks."""
    curve, spent = [], 0.0
    for length in _growing_lengths(limits.max_iter):
        fit = partial(_timed_fit, make, problem, length, seed)
        estimator, seconds = _fastest(fit, itemgetter(1))
        curve.append(_refitted_point(problem, estimator, seconds))
        gap = _gap(curve[-1], best_dual)
        show(curve[-1].passes, gap)
        spent += seconds
        converged = gap <= limits.tol * curve[-1].objective or estimator.n_iter_ < length
        if converged or spent + 1.5 * seconds > limits.max_seconds:
            break
    return Run(
        solver=type(estimator).__name__,
        library="scikit-learn",
        parameters=estimator.get_params(),
        curve=tuple(curve),
        accesses_counted=False,
    )


def _timed_fit(make, problem, max_iter, seed):
    estimator = make(problem, max_iter, seed)
    started = time.perf_counter()
    _fit_quietly(estimator, problem)
    return estimator, time.perf_counter() - started


def _refitted_point(problem, estimator, seconds):
    coef, passes = estimator.coef_[0], int(estimator.n_iter_)
    return Point(
        passes=passes,
        accesses=passes * problem.n_entries,
        seconds=seconds,
        objective=problem.objective(coef),
        dual=None,
        test_error=problem.test_error(coef),
    )


def _growing_lengths(limit):
    """Yield 1, 2, 3, 4, 6, 9, 13, ... and last ``limit``: refits cost 3.5 times the last one."""
    length = 1
    while length < limit:
        yield length
        length = max(length + 1, round(1.41 * length))
    yield limit


def _linear_svc(problem, max_iter, seed):
    return LinearSVC(
        loss="hinge",
        C=1.0 / (problem.alpha * problem.y.size),
        fit_intercept=False,
        max_iter=max_iter,
        tol=1e-12,  # max_iter alone decides when it stops
        random_state=seed,
    )


def _sgd_classifier(problem, max_iter, seed):
    return SGDClassifier(
        loss="hinge",
        alpha=problem.alpha,
        fit_intercept=False,
        max_iter=max_iter,
        tol=None,
        random_state=seed,
    )


def _fit_quietly(estimator, problem):
    with warnings.catch_warnings():
        # The table says which gap each solver reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(problem.X, problem.y, sample_weight=problem.weights)


def _best_dual(runs):
    return max(point.dual for run in runs for point in run.curve if point.dual is not None)


def _gap(point, best_dual):
    """Return the objective minus the point's own dual value or, without one, the best of all."""
    lower = best_dual if point.dual is None else point.dual
    return max(point.objective - lower, 0.0)


def _with_gaps(run, best_dual):
    curve = tuple(replace(point, gap=_gap(point, best_dual)) for point in run.curve)
    return replace(run, curve=curve)
