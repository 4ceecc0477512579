"""Regularisation paths: one model for each of many values of alpha or C, each from the last one."""

import time
from dataclasses import dataclass

import numpy as np

from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._documentation import with_parameters
from sublinear._fitted_parameters import like
from sublinear._validation import as_real, check_choice, check_number
from sublinear.kernel import KernelSDCAClassifier, KernelSDCARegressor
from sublinear.sdca import SDCAClassifier, SDCARegressor

NOT_OF_PATHS = {
    "alpha",
    "warm_start",
    "batch_size",
    "batch_rule",
    "gamma",
    "sigma_squared",
    "average",
}


@dataclass(frozen=True)
class SDCAPath:
    """What `sdca_path` returns, in the order of the alphas given.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
    models : tuple of SDCAClassifier or SDCARegressor
        Fitted, without `dual_coef_`.
    seconds : float
        Wall clock of the whole path.

    Examples
    --------
    >>> from sublinear import sdca_path
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(200, 100, random_state=0)
    >>> path = sdca_path(X, y, [0.1, 0.01], random_state=0)
    >>> [model.result_.status for model in path.models]
    ['converged', 'converged']
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


def _positive_numbers(name, values):
    """Return values as a new array of shape (n,), n > 0."""
    values = np.array(as_real(name, values), ndmin=1)
    if values.size == 0:
        raise ValueError(f"{name} must hold at least one number")
    for value in values.tolist():  # errors show numbers as they are written
        check_number(name, value, low=0, open_low=True)
    return values


def _fitted_in_order(first, training, name, values, order):
    """Return a model for every value of a parameter; each goes on from the solvers of the last."""
    training.solvers = {}
    models = [None] * len(values)
    for k in order:
        model = like(first, **{name: float(values[k])})
        model._adopt(first, training)
        models[k] = model._solve(training, model._limits())
    return tuple(models)


@with_parameters()
def sdca_path(X, y, alphas, *, loss="hinge", sample_weight=None, **parameters):
    """Fit SDCA models along values of alpha, each starting from the duals of the last one.

    The data is checked and seeded once.

    Parameters
    ----------
    %(rows)s
    y : array-like of shape (n_samples,)
        Labels, or numbers where `loss` is one of SDCARegressor.
    alphas : array-like of shape (n_alphas,)
        Positive. They are worked through from the largest to the smallest.
    loss : str, default="hinge"
        A loss of SDCAClassifier or of SDCARegressor, which decides between the two.
    %(sample_weight)s
    **parameters
        Other parameters of the estimator, but for `alpha`, `warm_start` and those of batches.

    Returns
    -------
    path : SDCAPath

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do.

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
    alphas = _positive_numbers("alphas", alphas)
    refused = NOT_OF_PATHS & set(parameters)
    if refused:
        raise ValueError(f"sdca_path does not take {sorted(refused)}")
    estimator = SDCAClassifier if loss in MARGIN_LOSSES else SDCARegressor
    order = np.argsort(-alphas, kind="stable")
    first = estimator(loss, alpha=float(alphas[order[0]]), **parameters)
    training = first._prepare(X, y, sample_weight)
    models = _fitted_in_order(first, training, "alpha", alphas, order)
    return SDCAPath(alphas, models, time.perf_counter() - started)


@dataclass(frozen=True)
class KernelPath:
    """What `kernel_path` returns, in the order of the values given.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
    gammas : tuple of length n_gammas
    models : tuple of tuples of KernelSDCAClassifier or KernelSDCARegressor
        models[g][c] is fitted with gammas[g] and Cs[c].
    seconds : float
        Wall clock of the whole path.

    Examples
    --------
    >>> from sublinear import kernel_path
    >>> from sublinear.datasets import make_sparse_classification
    >>> X, y = make_sparse_classification(100, 100, random_state=0)
    >>> path = kernel_path(X, y, [1, 10], [0.1], random_state=0)
    >>> [len(models) for models in path.models], path.models[0][1].C
    ([2], 10.0)
    """

    Cs: np.ndarray
    gammas: tuple
    models: tuple
    seconds: float

    @property
    def results(self):
        """The Result of every model, as `models`."""
        return tuple(tuple(model.result_ for model in row) for row in self.models)


@with_parameters()
def kernel_path(X, y, Cs, gammas=("scale",), *, loss="hinge", sample_weight=None, **parameters):
    """Fit kernel machines for values of C and gamma, each from the last one of the same gamma.

    The data is checked and laid out once per gamma. Along C the solver goes on from its
    coefficients and margins: no kernel value is needed to begin.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        As in `KernelSDCAClassifier.fit`.
    y : array-like of shape (n_samples,)
        Labels, or numbers where `loss` is one of KernelSDCARegressor.
    Cs : array-like of shape (n_Cs,)
        Positive. They are worked through from the smallest to the largest.
    gammas : sequence of floats, "scale" or "auto", or one of them, default=("scale",)
        Values of `gamma`, worked through in this order.
    loss : str, default="hinge"
        A loss of KernelSDCAClassifier or of KernelSDCARegressor, which decides between the two.
    %(sample_weight)s
    **parameters
        Other parameters of the estimator, but for `C`, `gamma` and `warm_start`.

    Returns
    -------
    path : KernelPath

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sublinear import kernel_path
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> path = kernel_path(X, y, [1, 10, 100], [0.5, 2], random_state=0)
    >>> [[model.result_.status for model in row] for row in path.models]
    [['converged', 'converged', 'converged'], ['converged', 'converged', 'converged']]
    """
    started = time.perf_counter()
    check_choice("loss", loss, (*MARGIN_LOSSES, *REGRESSION_LOSSES))
    Cs = _positive_numbers("Cs", Cs)
    refused = {"C", "gamma", "warm_start"} & set(parameters)
    if refused:
        raise ValueError(f"kernel_path does not take {sorted(refused)}")
    estimator = KernelSDCAClassifier if loss in MARGIN_LOSSES else KernelSDCARegressor
    gammas = (gammas,) if np.ndim(gammas) == 0 else tuple(gammas)
    if not gammas:
        raise ValueError("gammas must hold at least one number")
    order = np.argsort(Cs, kind="stable")
    rows = []
    for gamma in gammas:
        first = estimator(loss, C=float(Cs[order[0]]), gamma=gamma, **parameters)
        training = first._prepare(X, y, sample_weight)
        rows.append(_fitted_in_order(first, training, "C", Cs, order))
    return KernelPath(Cs, gammas, tuple(rows), time.perf_counter() - started)
