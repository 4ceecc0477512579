"""What linear models share: penalty, data, coefficients, intercept, prediction."""

import math

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sublinear._certified_model import CertifiedModel, Training, metadata_of
from sublinear._classification import OneVsRestMixin, ProbabilityMixin
from sublinear._core.aligned import contiguous
from sublinear._core.constant_column import intercept_penalty
from sublinear._core.losses import REGRESSION_LOSSES
from sublinear._core.objective import Objective
from sublinear._documentation import with_parameters
from sublinear._threads import effective_threads
from sublinear._validation import (
    as_matrix,
    check_number,
    check_sample_weight,
    has_matrix,
    products_with,
)

COMMON_PARAMETERS = {
    "alpha": """\
alpha : float, default=1e-4
        Strength of the penalty alpha / 2 |w|^2; the lambda of the papers.""",
    "intercept": """\
fit_intercept : bool, default=True
        Append a constant feature of value `intercept_scaling` to every row. Its weight is
        penalised like the others: the objective holds
        alpha / 2 (|coef|^2 + (intercept / intercept_scaling)^2).
    %(intercept_scaling)s""",
    "limits": """\
tol : float, default=1e-3
        Stop when the duality gap is at most tol times the objective. 0: run to the limits.
    max_iter : int, default=1000
        Limit on epochs. An epoch looks at as many examples as there are; SDCA's at those whose
        duals have moved lately, Pegasos' at more where sample weights differ.
    max_accesses : int, default=None
        Limit on feature values read by the solver of each binary problem, never exceeded. What
        certificates read is counted apart.""",
    "run": """\
n_jobs : int, default=None
        Threads: over one-vs-rest problems, or inside a single one. None means 1, -1 all
        processors. The result does not depend on n_jobs, with one exception: on one large problem
        two threads of an SDCA estimator share the steps by a fixed schedule. Its result differs
        from that of one thread, and is the same for every n_jobs above 1. Within parallel work of
        joblib, and in forked processes, there may be one thread all the same.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the order of the examples.
    warm_start : bool, default=False
        Start the next fit from the end of this one, if the data has the same shape and as many
        classes. Pegasos, whose steps go on shrinking, does so only if objective, X, y and weights
        are the same, and begins anew otherwise; of X it compares 256 rows, not to read it all.
    %(class_watchers)s""",
}


def duals_of_last_fit(estimator, n_problems, n_rows):
    """Return the duals with which a warm start begins; None for a cold one.

    Those of as many problems and rows: a problem more or less, and they belong to others.
    """
    duals = getattr(estimator, "dual_coef_", None)
    if not estimator.warm_start or duals is None:
        return None
    duals = np.atleast_2d(duals)
    return duals if duals.shape == (n_problems, n_rows) else None


def by_rows(X):
    """Return dense X that lies column by column as a copy, row by row; all else as it is.

    Every value of such a row has a cache line of its own, and passes over rows take up to 10 times
    as long. Files that are mapped are not copied, as they may be larger than memory.
    """
    if not isinstance(X, np.ndarray) or abs(X.strides[1]) <= abs(X.strides[0]) or _is_mapped(X):
        return X
    try:
        return np.ascontiguousarray(X)
    except MemoryError:
        return X


def _is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


class LinearModel(CertifiedModel):
    """What linear models share: the penalty, their data, coefficients and intercept."""

    _takes_stores = True  # whether X may be one, or an oracle
    _asks_for_lines = False  # whether the solver can work with computed lines

    @property
    def _easier(self):
        if self.coef_.dtype == np.float32:
            return "scale the features, raise alpha, or give X in float64"
        return "scale the features, or raise alpha"

    def _check_parameters(self):
        super()._check_parameters()
        check_number("alpha", self.alpha, low=0, open_low=True)

    def _penalizes_intercept(self):
        return True

    def _scaling(self):
        """The value of a constant column whose weight is penalised as all others are."""
        return self.intercept_scaling if self._penalizes_intercept() else math.inf

    def _packs(self):
        """Tell whether to copy sparse rows into records; no fit measured is faster for it."""
        return self.pack != "auto" and bool(self.pack)

    def _constant(self):
        """The value of the constant column."""
        return self.intercept_scaling if self.fit_intercept else 0.0

    def _training(self, X, y, targets, weights, sample_weight):
        """Return the Training for checked data."""
        X = by_rows(X) if getattr(self, "pack", None) == "auto" else X
        if not self._asks_for_lines and has_matrix(X) and as_matrix(X).is_computed:
            raise ValueError(
                f"{type(self).__name__} does not take a FeatureOracle: it reads every row; "
                "SIMBAClassifier and SublinearPerceptron ask for single rows and columns"
            )
        matrix = self._matrix(X, y, weights)
        return Training(X, y, metadata_of(sample_weight), matrix, targets, weights)

    def _matrix(self, X, y, weights):
        return as_matrix(X, self._constant(), effective_threads(self.n_jobs))

    def _make_objective(self, training, k, n_jobs):
        return Objective(
            training.matrix,
            training.targets[k](),
            self._make_loss(),
            self.alpha,
            training.weights,
            n_jobs if len(training.targets) == 1 else 1,
            intercept_penalty=intercept_penalty(training.constant, self._scaling()),
        )

    def _set_model(self, models, training):
        self.coef_, self.intercept_ = self._coefficients(models, training.constant, training.dtype)

    def _coefficients(self, models, constant, dtype):
        """Split models into coef (n_problems, n_features) and intercept (n_problems,)."""
        stacked = models[0][np.newaxis] if len(models) == 1 else np.stack(models)
        stacked = stacked.astype(dtype, copy=False)
        if constant == 0:
            return stacked, np.zeros(len(models), dtype=dtype)
        intercept = np.array([model[-1] * constant for model in models])
        return stacked[:, :-1], intercept.astype(dtype)

    def _scores(self, X):
        """Return <x_i, coef> + intercept for every row and problem."""
        check_is_fitted(self)
        return products_with(self, X, self.coef_.T) + self.intercept_


class LinearRegressor(RegressorMixin, LinearModel):
    """One problem whose targets are numbers."""

    _losses = REGRESSION_LOSSES

    def _number_training(self, X, y, sample_weight):
        """Return the Training of the problem."""
        targets = contiguous(y, dtype=np.float64)
        weights = check_sample_weight(sample_weight, X)
        return self._training(X, y, [lambda: targets], weights, sample_weight)

    def _set_model(self, models, training):
        super()._set_model(models, training)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    @with_parameters()
    def predict(self, X):
        """Return <x_i, coef> + intercept.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return self._scores(X)


class LinearClassifier(ProbabilityMixin, OneVsRestMixin, LinearModel):
    """One-vs-rest over linear models."""
