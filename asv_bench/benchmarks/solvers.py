"""The solvers that are compared, how to set each, and how to judge what it returns.

All minimise the same objective: P(w) = alpha / 2 |w|^2 + mean hinge loss, without an intercept.
A solver is compared at its *loosest sufficient setting*: the largest tolerance or the fewest passes
with which it reaches a relative suboptimality (P(w) - P*) / P* of a given target.
"""

import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from sublinear import PegasosClassifier, SDCAClassifier

TOLERANCES = tuple(f / 10.0**k for k in range(6) for f in (1.0, 0.5, 0.3, 0.2))
FEW_PASSES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 30, 50, 70, 100)
MANY_PASSES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100)
BUDGETS = tuple(k / 8 for k in range(4, 160))  # feature values, by the stored ones
NEVER = 1e-14  # a tolerance of LinearSVC, which does not take 0
MOST_TURNS = 9  # of settings timed against each other


def sdca(alpha, seed, tol=0.0, max_iter=1000, max_accesses=None, pack="auto", n_jobs=1):
    return SDCAClassifier(
        loss="hinge",
        alpha=alpha,
        fit_intercept=False,
        n_jobs=n_jobs,
        random_state=seed,
        tol=tol,
        max_iter=max_iter,
        max_accesses=max_accesses,
        pack=pack,
    )


def pegasos(alpha, seed, max_iter, average="tail"):
    return PegasosClassifier(
        loss="hinge",
        alpha=alpha,
        fit_intercept=False,
        n_jobs=1,
        random_state=seed,
        tol=0.0,
        max_iter=max_iter,
        average=average,
    )


def linear_svc(n_rows, alpha, seed, tol=NEVER, max_iter=1000):
    return LinearSVC(
        loss="hinge",
        C=1.0 / (alpha * n_rows),
        fit_intercept=False,
        random_state=seed,
        tol=tol,
        max_iter=max_iter,
    )


def sgd(alpha, seed, max_iter, average):
    return SGDClassifier(
        loss="hinge",
        alpha=alpha,
        fit_intercept=False,
        random_state=seed,
        tol=None,
        max_iter=max_iter,
        average=average,
    )


class LiblinearOfficial:
    """LIBLINEAR's own Python package, dual coordinate descent for the hinge loss."""

    def __init__(self, n_rows, alpha, seed, tol):
        self.options = f"-s 3 -c {1.0 / (alpha * n_rows)!r} -e {tol} -B -1 -q"

    def fit(self, X, y):
        from liblinear.liblinearutil import parameter, problem, train

        model = train(problem(y, X), parameter(self.options))
        weights = np.array(model.w[: X.shape[1]])
        self.coef_ = weights if model.get_labels()[0] == 1 else -weights
        return self


class SnapML:
    """Snap ML's SVM, whose objective is that of the others times the number of rows."""

    def __init__(self, n_rows, alpha, seed, max_iter, n_jobs=1):
        from snapml import SupportVectorMachine

        self.model = SupportVectorMachine(
            regularizer=alpha * n_rows,
            max_iter=max_iter,
            tol=NEVER,
            fit_intercept=False,
            normalize=False,
            n_jobs=n_jobs,
            random_state=seed,
        )

    def fit(self, X, y):
        self.coef_ = np.asarray(self.model.fit(X, y).coef_)
        return self


def stored_values(X):
    """Return how many values a sparse matrix or an array stores."""
    return int(X.nnz if hasattr(X, "nnz") else X.size)


def settings(name, X, alpha):
    """Return lists of (description, function of a seed), each ordered from loose to strict."""
    n_rows = X.shape[0]
    n_stored = stored_values(X)

    def family(make, parameter, values, **fixed):
        return [
            (
                ", ".join(f"{key}={value}" for key, value in {parameter: v, **fixed}.items()),
                lambda seed, v=v: make(alpha=alpha, seed=seed, **{parameter: v}, **fixed),
            )
            for v in values
        ]

    def svc(**options):
        return linear_svc(n_rows, **options)

    def official(**options):
        return LiblinearOfficial(n_rows, **options)

    def snap(**options):
        return SnapML(n_rows, **options)

    if name in SDCA_OPTIONS:
        options = SDCA_OPTIONS[name]
        return [
            family(sdca, "tol", TOLERANCES, **options),
            family(sdca, "max_iter", FEW_PASSES, **options),
            family(sdca, "max_accesses", [int(b * n_stored) for b in BUDGETS], **options),
        ]
    if name == "liblinear-official":
        return [family(official, "tol", TOLERANCES)]
    if name == "Snap ML":
        return [family(snap, "max_iter", FEW_PASSES)]
    if name == "Snap ML, n_jobs=2":
        return [family(snap, "max_iter", FEW_PASSES, n_jobs=2)]
    if name == "LinearSVC":
        return [family(svc, "tol", TOLERANCES), family(svc, "max_iter", FEW_PASSES)]
    if name == "PegasosClassifier":
        return [family(pegasos, "max_iter", MANY_PASSES, average=a) for a in ("tail", "last")]
    if name == "SGDClassifier":
        return [family(sgd, "max_iter", MANY_PASSES, average=a) for a in (True, False)]
    raise ValueError(f"unknown solver {name!r}; known: {', '.join(NAMES)}")


SDCA_OPTIONS = {
    "SDCAClassifier": {},
    "SDCAClassifier, pack=True": {"pack": True},
    "SDCAClassifier, pack=False": {"pack": False},
    "SDCAClassifier, n_jobs=2": {"n_jobs": 2},
}
DEFAULTS = ("SDCAClassifier", "PegasosClassifier", "LinearSVC", "SGDClassifier")
NAMES = (*SDCA_OPTIONS, *DEFAULTS[1:])
PEERS = {"liblinear-official": "liblinear", "Snap ML": "snapml", "Snap ML, n_jobs=2": "snapml"}


def installed_names():
    """Return NAMES and the optional peers that are installed."""
    return NAMES + tuple(name for name, module in PEERS.items() if find_spec(module))


def timed_fit(model, X, y):
    """Fit `model` and return the seconds of the whole call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start


def objective(model, X, y, alpha):
    """Return P(w) of a fitted linear classifier without intercept, for labels -1 and 1."""
    weights = model.coef_.ravel()
    losses = np.maximum(0.0, 1.0 - y * (X @ weights))
    return 0.5 * alpha * float(weights @ weights) + float(losses.mean())


def suboptimality(model, X, y, alpha, lower_bound):
    """Return (P(w) - P*) / P* of a fitted model, never flattered: measured from a lower bound."""
    return (objective(model, X, y, alpha) - lower_bound) / lower_bound


def optimum(X, y, alpha, tol=1e-6):
    """Return certified bounds (lower, upper) of P*, at most `tol` apart relative to the upper."""
    model = sdca(alpha, seed=0, tol=tol, max_iter=100_000).fit(X, y)
    if model.result_.status != "converged":
        raise RuntimeError(f"no optimum to compare with: {model.result_}")
    return model.result_.dual, objective(model, X, y, alpha)


@dataclass(frozen=True)
class Setting:
    """A solver at one setting. `make` takes a seed; `seconds` is the median over those tried."""

    description: str
    make: object
    seconds: float
    suboptimality: float


def loosest_setting(name, X, y, alpha, lower_bound, target=1e-3, seeds=(0, 1, 2), patience=30.0):
    """Return the fastest of the loosest settings of solver `name` that reach `target`, or None.

    The suboptimality is measured from `lower_bound`, so it is never flattered, and must be reached
    with every seed. A family of settings is left once a fit took more than `patience` seconds.
    """
    found = []
    for family in settings(name, X, alpha):
        for description, make in family:
            models = [make(seed) for seed in seeds]
            seconds = []
            worst = 0.0
            for model in models:
                seconds.append(timed_fit(model, X, y))
                worst = max(worst, suboptimality(model, X, y, alpha, lower_bound))
                if worst > target:
                    break
            if worst <= target:
                found.append(Setting(description, make, float(np.median(seconds)), worst))
                break
            if max(seconds) > patience:
                break
    return _fastest(found, X, y, seeds)


def _fastest(found, X, y, seeds):
    """Return the fastest of some settings; short fits, whose times vary, are repeated in turns."""
    if len(found) < 2:
        return found[0] if found else None
    turns = min(MOST_TURNS, int(1 / max(setting.seconds for setting in found)) + 1)
    seconds = [[] for _ in found]
    for turn in range(turns):
        for setting, times in zip(found, seconds, strict=True):
            times.append(timed_fit(setting.make(seeds[turn % len(seeds)]), X, y))
    return found[int(np.argmin([np.median(times) for times in seconds]))]


def values_read(model, X):
    """Return the feature values that a fit read, certificates with them.

    For peers: passes times stored values.
    """
    result = getattr(model, "result_", None)
    if result is not None:
        return result.accesses + result.certificate_accesses
    return int(np.max(model.n_iter_)) * stored_values(X)
