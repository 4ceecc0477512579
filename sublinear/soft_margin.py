"""Soft margins without reading all of the data: SIMBAClassifier and its path over nu."""

import math

import numpy as np

from sublinear._core.sample_sizes import squared
from sublinear._documentation import with_parameters
from sublinear._drive import Limits
from sublinear._fit_method import fit_method
from sublinear._fitted_parameters import like
from sublinear._labels import find_classes
from sublinear._linear_model import LinearClassifier
from sublinear._saddle import CONSTANTS, named, of_margin, round_lengths, warn_of_gap
from sublinear._saddle_problems import SlackMargin
from sublinear._solvers.simba import SIMBA
from sublinear._validation import (
    LEAST_NORM,
    MOST_NORM,
    check_choice,
    check_flag,
    check_number,
    check_run_parameters,
    check_sample_weight,
    check_training_data,
    has_matrix,
)

__all__ = ["SIMBAClassifier", "simba_path"]

MOST_REPETITIONS = 10**6  # or so many for each row:
MOST_OF_A_ROW = 100
WHOLE = 2.0**53  # up to which float64 tells whole numbers
PRACTICAL = {"primal_rate": 3.0, "dual_rate": 1.0}
THEORY = {"primal_rate": 1.0, "dual_rate": 1.0}
THEORY_STEPS = 100.0**2  # T = this * log(n) / epsilon^2

_ROWS = """\
X : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_samples, n_features)
        Dense or CSR, float32 or float64, is used as it is; other types are converted. Sparse
        data also gets a copy in column order. Of a store or an oracle only what the fit asks
        for is read, given row_norm and certify=None."""

_WEIGHTS = """\
sample_weight : array-like of shape (n_samples,), default=None
        Whole numbers, or whole multiples of the least positive weight: a row is repeated as
        often, in lowest terms, one of weight 0 left out; its class stays."""


def repetitions(weights):
    """Return the rows that stand for whole-numbered weights, each as often as it counts."""
    if weights is None:
        return None
    unit = weights[weights > 0].min()
    if np.array_equal(weights, np.round(weights)) and weights.max() < WHOLE:
        unit = float(np.gcd.reduce(weights.astype(np.int64)))
    with np.errstate(over="ignore"):
        counts = np.round(weights / unit)
    if counts.sum() > max(MOST_REPETITIONS, MOST_OF_A_ROW * len(weights)):
        raise ValueError(
            f"sample_weight makes too many repetitions, {counts.sum():.3g} of {len(weights)} rows: "
            "leave out the examples of the smallest weights, or raise these"
        )
    if not np.allclose(counts * unit, weights, rtol=1e-9, atol=0):
        raise ValueError(
            "sample_weight must hold whole numbers, or whole multiples of its least positive "
            "weight: they count as repetitions, and slack cannot be shared by a part of a row"
        )
    return np.repeat(np.arange(len(weights)), counts.astype(np.intp))


@with_parameters()
class SIMBAClassifier(LinearClassifier):
    """Support vector machine that reads single rows and columns: SIMBA.

    Maximises min_i y_i (<w, x_i> + b) + xi_i over |w| <= 1, |b| <= 1 and slack 0 <= xi_i <= 2 of
    mean nu at most, with rows divided by the largest of their norms. That is the margin of a
    support vector machine whose hinge loss is nu times the norm of its weights; a certificate
    bounds how far the fitted one is from the largest. Where w = 0 is the best, the model is a
    constant, the more frequent class; without slack (nu=0) it has margin 0: the fit then ends with
    status "not_separable", and the last hyperplane is kept, with the negative margin it has.

    Parameters
    ----------
    nu : float, default=0.01
        Mean slack, between 0 and 1: larger values forgive more. Text classifies best with a few
        thousandths.
    epsilon : float, default=0.01
        How far from the largest margin the fit may end, absolute, where the longest row, or
        `row_norm`, has length 1. By Lemma 2.1 norm and loss are then at most
        1 / (1 - epsilon / margin) times their optimal values.
    fit_intercept : bool, default=True
        Whether there is a bias b.
    rates : {"adaptive", "constant"}, default="adaptive"
        Step sizes that fall with the steps taken, as in the paper's experiments, or those that
        belong to the length of the run, as in its Algorithm 1.
    certify : {"las_vegas", "exact"} or None, default="las_vegas"
        "las_vegas": go on, in rounds of doubling length, until a certificate proves epsilon.
        "exact": take as many steps as epsilon asks for and end with a certificate, which takes
        two passes. None: the same without one; `coef_` is then not rescaled: its norm is
        1 / row_norm at most.
    constants : {"practical", "theory"}, default="practical"
        Number of steps and step sizes, as experiments suggest or as the proof needs them, which
        is thousands of times more steps.
    max_iter : int, default=None
        Limit on steps; None: a thousand times what it takes to read X once, at least a million,
        with certify="las_vegas", else the number that epsilon asks for. Where no certificate ends
        the fit, a number given is taken in place of that one.
    max_accesses : int, default=None
        Limit on stored values read by the solver of each binary problem, never exceeded.
    row_norm : float, default=None
        The largest norm of a row, without the constant of the intercept, or a bound on it, in which
        epsilon and |b| are measured. None: it is computed, which takes a pass.
    n_jobs : int, default=None
        Threads over one-vs-rest problems. The result does not depend on them.
    %(draws)s
    %(class_watchers)s

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Rescaled by Lemma 2.1, unless the margin is 0 or certify=None: rows without slack have
        margin 1.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
        Steps.
    result_ : Result
        Margin, bound and gap; values read, as stored (`accesses`) and with every row charged
        n_features and every column n_samples (`full_accesses`).

    See Also
    --------
    SDCAClassifier : Small gaps; fewer accesses on text.

    References
    ----------
    Hazan, Koren, Srebro, "Beating SGD: learning SVMs in sublinear time", NIPS 2011, Algorithm 1.

    Examples
    --------
    >>> from sublinear import SIMBAClassifier
    >>> X, y = [[-1.0, 0.2], [-0.8, -0.1], [0.9, 0.0], [1.0, 0.3]], [0, 0, 1, 1]
    >>> model = SIMBAClassifier(nu=0.1, epsilon=0.1, random_state=0).fit(X, y)
    >>> model.predict([[0.5, 0.5]])
    array([1])
    >>> bool(model.result_.gap <= 0.1)
    True
    """

    _asks_for_lines = True
    _unit = "steps"

    def __init__(
        self,
        nu=0.01,
        *,
        epsilon=0.01,
        fit_intercept=True,
        rates="adaptive",
        certify="las_vegas",
        constants="practical",
        max_iter=None,
        max_accesses=None,
        row_norm=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.nu = nu
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.rates = rates
        self.certify = certify
        self.constants = constants
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.row_norm = row_norm
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _check_parameters(self):
        check_number("nu", self.nu, low=0, high=1)
        check_number("epsilon", self.epsilon, low=0, open_low=True)
        check_flag("fit_intercept", self.fit_intercept)
        check_choice("rates", self.rates, ("adaptive", "constant"))
        check_choice("constants", self.constants, CONSTANTS)
        check_choice("certify", self.certify, ("las_vegas", "exact"), optional=True)
        for name in ("max_iter", "max_accesses"):
            check_number(name, getattr(self, name), low=1, integer=True, optional=True)
        check_number("row_norm", self.row_norm, low=LEAST_NORM, high=MOST_NORM, optional=True)
        check_run_parameters(self)

    @fit_method
    @with_parameters(X=_ROWS, sample_weight=_WEIGHTS)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        %(X)s
        %(labels)s
        %(sample_weight)s

        Returns
        -------
        self : SIMBAClassifier

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the model reached so far.
        """
        try:
            return self._fit(X, y, sample_weight)
        finally:
            vars(self).pop("_states", None)  # of use in paths alone

    def _fit(self, X, y, sample_weight=None, starts=None):
        """Fit from the states of other solvers, one for each problem."""
        self._check_parameters()
        X, y = check_training_data(self, X, y)
        self.classes_ = find_classes(y)  # those without weight, too
        repeated = repetitions(check_sample_weight(sample_weight, X))
        if repeated is not None:
            if has_matrix(X):
                raise ValueError("sample_weight needs rows in memory: X is a store or an oracle")
            X, y = X[repeated], y[repeated]
        training = self._training(X, y, self._targets(y), None, None)
        training.matrix.transposed()  # once, before threads ask for it
        longest = self.row_norm or training.matrix.largest_norm(with_constant=False)
        unit = float(longest) or 1.0
        round_steps, steps = self._steps(len(y), training.matrix.n_stored)
        training.plan = {
            "unit": unit,
            "round_steps": round_steps,
            "max_steps": steps,
            "starts": starts,
        }
        return self._solve(
            training,
            Limits(
                self.epsilon,
                steps,
                self.max_accesses or math.inf,
                certify=self.certify is not None,
                absolute=True,
                maximise=True,
                by_tol=self.certify != "las_vegas" and self.max_iter is None,
            ),
        )

    def _steps(self, n_rows, n_stored):
        """The steps of the first round, and of all."""
        factor = THEORY_STEPS if self.constants == "theory" else 1.0
        asked = self.max_iter or factor * math.log(max(2, n_rows)) * squared(1 / self.epsilon)
        in_rounds = self.certify == "las_vegas"
        return round_lengths(asked, self.max_iter, in_rounds=in_rounds, usual=500 * n_stored)

    def _constant(self):
        return 1.0 if self.fit_intercept else 0.0

    def _solver(self, training, k, random, n_jobs):
        targets, plan = training.targets[k](), training.plan
        problem = SlackMargin(targets, self.nu, plan["unit"], self.fit_intercept)
        if self.row_norm is None and k == 0:
            problem.accesses = training.matrix.n_stored  # the pass that found it
        return SIMBA(
            problem,
            training.matrix,
            targets,
            random,
            nu=self.nu,
            bias=self.fit_intercept,
            unit=plan["unit"],
            round_steps=plan["round_steps"],
            growth=2 if self.certify == "las_vegas" else 1,
            max_steps=plan["max_steps"],
            adaptive=self.rates == "adaptive",
            start=None if plan["starts"] is None else plan["starts"][k],
            **(THEORY if self.constants == "theory" else PRACTICAL),
        )

    def _keep(self, solver):
        return solver.state()

    def _store(self, outcomes, training, seconds):
        self._states = [outcome.kept for outcome in outcomes]
        for outcome in outcomes:
            outcome.result = named(of_margin(outcome.result), training.X)
        super()._store(outcomes, training, seconds)

    def _warn_if_limited(self, limits):
        scales = [("row_norm", self.row_norm)]
        warn_of_gap(self, self.result_, limits, name=type(self).__name__, scales=scales)


@with_parameters(X=_ROWS, sample_weight=_WEIGHTS)
def simba_path(X, y, nus, *, sample_weight=None, **parameters):
    """Fit one SIMBAClassifier for each nu, each begun where the last one ended.

    Parameters
    ----------
    %(X)s
    %(labels)s
    nus : float or sequence of float
        Values of `nu`, each between 0 and 1, in the order of the fits.
    %(sample_weight)s
    **parameters
        Of SIMBAClassifier, except nu.

    Returns
    -------
    models : list of SIMBAClassifier
        In the order of nus.

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do.

    Examples
    --------
    >>> from sublinear import simba_path
    >>> X, y = [[-1.0, 0.2], [-0.8, -0.1], [0.9, 0.0], [1.0, 0.3]], [0, 0, 1, 1]
    >>> models = simba_path(X, y, [0.1, 0.3], epsilon=0.1, random_state=0)
    >>> [model.nu for model in models]
    [0.1, 0.3]
    """
    if "nu" in parameters:
        raise ValueError("simba_path does not take ['nu']")
    nus = [nus] if np.ndim(nus) == 0 else list(nus)
    if not nus:
        raise ValueError("nus must hold at least one number")
    model = SIMBAClassifier(**parameters)
    models, states = [], None
    for nu in nus:
        model = like(model, nu=nu)
        models.append(model._fit(X, y, sample_weight, states))
        states = vars(model).pop("_states")
    return models
