"""Regularisation paths: one model for each of many values of alpha, each from the last one."""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._validation import check_choice, check_number
from sublinear.linear import SDCAClassifier, SDCARegressor


@dataclass(frozen=True)
class Path:
    """What `sdca_path` returns, in the order of the alphas given.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    models : tuple of SDCAClassifier or SDCARegressor
        Fitted, without `dual_coef_`.
    seconds : float
        Wall clock of the whole path.
    """

    alphas: np.ndarray
    models: tuple
    seconds: float

    @property
    def results(self):
        """The Result of every model: its gap, its trace."""
        return tuple(model.result_ for model in self.models)

    @property
    def coefs(self):
        """Coefficients, an array of shape (n_alphas, ..., n_features)."""
        return np.stack([model.coef_ for model in self.models])


def sdca_path(X, y, alphas, *, loss="hinge", sample_weight=None, **parameters):
    """Fit SDCA models along values of alpha, each starting from the duals of the last one.

    The data is checked, copied into packed rows and seeded once.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    alphas : array-like of shape (n_alphas,)
        Positive. They are worked through from the largest to the smallest.
    loss : str, default="hinge"
        A loss of SDCAClassifier or of SDCARegressor, which decides between the two.
    sample_weight : array-like of shape (n_samples,), default=None
    **parameters
        Other parameters of the estimator, but for `alpha`, `warm_start` and those of batches.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import sdca_path
    >>> X, y = make_classification(random_state=0)
    >>> path = sdca_path(X, y, [1e-1, 1e-2, 1e-3], random_state=0)
    >>> [model.result_.status for model in path.models]
    ['converged', 'converged', 'converged']
    """
    started = time.perf_counter()
    check_choice("loss", loss, (*MARGIN_LOSSES, *REGRESSION_LOSSES))
    alphas = np.array(alphas, dtype=np.float64, ndmin=1)
    for alpha in alphas:
        check_number("alphas", alpha, low=0, open_low=True)
    refused = {"alpha", "warm_start", "batch_size"} & set(parameters)
    if refused:
        raise ValueError(f"sdca_path does not take {sorted(refused)}")
    estimator = SDCAClassifier if loss in MARGIN_LOSSES else SDCARegressor
    order = np.argsort(-alphas, kind="stable")
    first = estimator(loss, alpha=alphas[order[0]], **parameters)
    training = first._prepare(X, y, sample_weight)
    training.solvers = {}
    models = [None] * len(alphas)
    for k in order:
        model = clone(first).set_params(alpha=alphas[k])
        model._adopt(first)
        models[k] = model._solve(training, model._limits())
    return Path(alphas, tuple(models), time.perf_counter() - started)
