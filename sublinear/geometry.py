"""Enclosing balls and quadratic programs over the simplex."""

import math
import sys
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.extmath import row_norms as norms_of
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from sublinear._callbacks import CallbackSupportMixin, Observers, drive_shown
from sublinear._certified_model import Training
from sublinear._core.matrix import Matrix
from sublinear._core.pace import relative_gap
from sublinear._documentation import with_parameters
from sublinear._drive import as_stored
from sublinear._fit_method import fit_method, forget
from sublinear._kernel_machines.saddle import (
    KERNEL_PARAMETERS,
    ROUNDING,
    KernelPlan,
    KernelSpace,
    check_kernel_parameters,
    is_linear,
    kernel_sum,
    kernel_variant,
    self_values,
)
from sublinear._kernel_machines.training import MOST_ROUNDING, KernelTraining
from sublinear._result import Result
from sublinear._saddle import (
    ACTIVE_SET,
    CERTIFY_EXACTLY,
    WHERE_ACTIVE,
    Plan,
    calling_it_A,
    check_saddle_parameters,
    checked_data,
    limits_of,
    named,
    random_of,
    run_saddle,
    saddle_parameters,
    settings_of,
    variant_of,
    warn_of_gap,
    within_budget,
)
from sublinear._saddle import VARIANTS as SAMPLED_VARIANTS
from sublinear._saddle_problems import (
    EnclosingBall,
    SimplexQP,
    SoftBall,
    distance_error,
    mean_of_largest,
)
from sublinear._solvers.active_set import ActiveSet, Beginning, values_of_round
from sublinear._solvers.kernel_active_set import KernelActiveSet
from sublinear._validation import (
    LEAST_NORM,
    MOST_NORM,
    RowNumbers,
    as_matrix,
    as_real,
    check_number,
    check_rows,
    check_sample_weight,
    check_squared_norms,
    drop_weightless,
    has_matrix,
    note_features,
)

MOST_SQUARE = sys.float_info.max / 8  # of a norm: squared distances are four times that at the most
# Dense rows are copied, as seen from the first one, where they are so many times as long as they
# are far from each other, and rounding takes more than these parts of the gap asked for: what sums
# are off by, and a centre of float32.
FAR = 10.0
SUM_SHARE, CENTER_SHARE = 1e-3, 0.1
ROWS_LOOKED_AT = 16
MOST_LOST = 1e-7  # of a squared distance, by rounding: offset_ allows for it
DENSE_VALUES = 2**20  # of a copy of rows at a time
# Rows with weight, and their products, for which a program takes working sets by default: the
# latter where they are no more than the entries of the rows
MOST_MEMBERS, MOST_PRODUCTS = 4096, 2**28
VARIANTS = (*SAMPLED_VARIANTS, "active_set")
UNITS = {ActiveSet: "passes", KernelActiveSet: "rounds"}


@with_parameters(
    **saddle_parameters(CERTIFY_EXACTLY, VARIANTS, ACTIVE_SET, WHERE_ACTIVE),
    kernel=KERNEL_PARAMETERS,
)
class MinimumEnclosingBall(CallbackSupportMixin, OutlierMixin, BaseEstimator):
    """The smallest ball that holds all rows of X, or nearly all, to a certified accuracy.

    Minimises max_i |x_i - center|^2 to within epsilon times the optimum, reading single rows and
    columns between a few passes. With nu > 0 the ball is soft (support vector data description): it
    minimises radius^2 + mean_i max(0, |x_i - center|^2 - radius^2) / nu, and less than nu of the
    rows lie outside.

    Parameters
    ----------
    epsilon : float, default=0.01
        How far from the smallest objective the fit may end, relative to that of the ball found.
    nu : float, default=0.0
        Between 0 and 1: what part of the rows may lie outside. Rows on the sphere and outside are
        at least that part. 0: all rows lie in the ball. Only with kernel="linear".
    %(variant)s
    %(steps)s
    %(draws)s
    %(watchers)s
    %(kernel)s

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        Of the dtype of X; with kernel="linear" only.
    support_, support_vectors_, center_coef_
        With another kernel: indices of the rows that make up the centre, the rows, and their
        coefficients, not negative and of sum 1: center = sum_j center_coef_j k(row j, .).
    radius_ : float
        Every row of X is within it, but for rounding behind the ninth digit of its square; with
        nu > 0 all but less than nu of them. NaN where none is proved: with certify=None, or if
        the fit was interrupted before its first certificate.
    dual_coef_ : ndarray of shape (n_samples,), float64
        Not negative, of sum 1, with nu > 0 at most sample_weight_i / (nu * their sum): the p of the
        bound `result_.dual` = sum_i p_i |x_i|^2 - |sum_i p_i x_i|^2. Absent with certify=None.
    offset_ : float
        Minus the radius, and what rounding may add to distances: decision_function is score_samples
        minus this, and not negative for rows in the ball.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    n_iter_ : int
        Passes of variant="active_set", with a kernel over the rows that its ball needs; rows, and
        columns, drawn by the others.
    result_ : Result
        Squared radius of the ball, with nu > 0 the objective, a bound that no ball goes below, and
        the gap between them; feature values read.

    Notes
    -----
    Variance-reduced steps see the rows from the present centre. variant="plain" sees them from the
    origin, as the paper does, and needs more steps the longer they are. The p of a soft ball are
    projected onto their caps in every step.

    Where dense rows are ten times as long as they are far from each other, as a few of them tell,
    and rounding would matter for epsilon or variant="plain", the fit sees them from the first one,
    in a copy of X, float64. Other storage is not copied: a bound on the rounding error is added to
    the gap, and a fit that cannot reach epsilon because of it warns, as does one whose centre
    float32 cannot represent. Centre X in these cases.

    With a kernel variant="active_set" takes kernel values in float32, and in float64 once rounding
    is in the way of epsilon. The others take them in float32.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, section
    III.

    Carmon, Jin, Sidford, Tian, "Variance reduction for matrix games", NeurIPS 2019.

    Tax, Duin, "Support vector data description", Machine Learning 54, 2004, on the soft ball.

    Examples
    --------
    >>> from sublinear import MinimumEnclosingBall
    >>> ball = MinimumEnclosingBall(epsilon=1e-6, random_state=0)
    >>> ball = ball.fit([[0.0, 1.0], [0.0, -1.0], [0.5, 0.0]])
    >>> round(ball.radius_, 3)
    1.0
    >>> ball.predict([[0.0, 0.5], [3.0, 0.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        epsilon=0.01,
        *,
        nu=0.0,
        variant="auto",
        batch_size="auto",
        certify="las_vegas",
        constants="practical",
        max_iter=None,
        max_accesses=None,
        random_state=None,
        verbose=0,
        callback=None,
        kernel="linear",
        kernel_values="exact",
        gamma="scale",
        degree=3,
        coef0=0.0,
    ):
        self.epsilon = epsilon
        self.nu = nu
        self.variant = variant
        self.batch_size = batch_size
        self.certify = certify
        self.constants = constants
        self.max_iter = max_iter
        self.max_accesses = max_accesses
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.kernel = kernel
        self.kernel_values = kernel_values
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _feature_weights(self, model):
        """Return what a callback sees: the centre."""
        return model

    @fit_method
    def fit(self, X, y=None, sample_weight=None, row_norms=None):
        """Find the ball.

        Parameters
        ----------
        X : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_samples, n_features)
            Dense or CSR, float32 or float64, is used as it is, but for dense rows far from the
            origin; other types are converted. Sparse data also gets a copy in column order. Kernels
            need rows in memory. Of a store or an oracle only what the fit draws is asked for, given
            row_norms and certify=None.
        y : None
            Not used.
        sample_weight : array-like of shape (n_samples,), default=None
            Not negative; rows of weight 0 are left out. With nu > 0 a weight k counts like k copies
            of the row; without it other weights count for gamma="scale" alone.
        row_norms : array-like of shape (n_samples,), default=None
            The norms of the rows, for certify=None and kernel="linear". None: they are computed,
            which takes a pass; certificates always rest on computed ones.

        Returns
        -------
        self : MinimumEnclosingBall

        Raises
        ------
        ValueError
            For parameters or data that make no sense; the message says what to do.
        KeyboardInterrupt
            After Ctrl-C; the fitted attributes hold the ball reached so far.
        """
        variant = self._checked_variant(X)
        if has_matrix(X):
            X = note_features(self, X)
        else:  # where norms are computed, they tell
            told = is_linear(self) and (row_norms is None or self.certify is not None)
            X = check_rows(self, X, reset=True, ensure_all_finite=not told)
        weights = check_sample_weight(sample_weight, X)
        if row_norms is not None:
            if not is_linear(self):
                raise ValueError('row_norms needs kernel="linear"')
            row_norms = check_row_norms(row_norms, X.shape[0])
        given = RowNumbers(weights)
        X, row_norms, weights = drop_weightless(X, row_norms, weights)
        if not is_linear(self):
            return self._fit_kernel(X, y, weights, variant, given)
        if self.certify is not None:
            row_norms = None  # what is proved rests on them
        return self._fit_rows(X, y, row_norms, weights, variant, given)

    def _checked_variant(self, X):
        """Check the parameters; return the variant that will run."""
        check_saddle_parameters(self, CERTIFY_EXACTLY, VARIANTS)
        check_number("nu", self.nu, low=0, high=1)
        check_kernel_parameters(self, X)
        if self.nu > 0 and not is_linear(self):
            raise ValueError('nu needs kernel="linear"')
        if not is_linear(self):
            return kernel_variant(self)
        whole = self.nu == 0 and not has_matrix(X)
        variant = variant_of(self, "active_set" if whole else "variance_reduced")
        if variant == "active_set" and not whole:
            raise ValueError('variant="active_set" needs nu=0 and rows in memory')
        return variant

    def _fit_rows(self, X, y, row_norms, weights, variant, given):
        """The ball of the rows themselves."""
        rows = as_matrix(X)
        variant = within_budget(variant, self, "hull", rows)
        seen = SeenRows(X, rows, row_norms, variant, self.epsilon)
        matrix, norms = seen.matrix, seen.squared_norms
        unit = np.sqrt(norms.max()) or 1.0 if variant == "plain" else None
        zero = seen.rounding if seen.are_equal() else -math.inf
        if self.nu > 0:
            weights = np.ones(len(norms)) if weights is None else weights
            caps = weights / np.maximum(self.nu * weights.sum(), weights)  # at most 1
            problem = SoftBall(norms, caps, unit, self.epsilon, zero)
        else:
            problem = EnclosingBall(norms, unit, self.epsilon, zero)
        problem.accesses = seen.n_read
        plan = Plan(self, "hull", matrix, self.epsilon, 1.0, variant=variant)
        if seen.beginning is not None:
            solver = ActiveSet(problem, seen.beginning, epsilon=self.epsilon, relative=True)
            plan.least_accesses = solver.least_accesses
        else:
            solver = plan.solver(problem, random_of(self))
        training = Training(X, y, None, seen.given, [None], weights)
        limits = limits_of(self, plan)
        center, result, errors = self._run(solver, limits, training, 0.0, seen.origin)
        forget(self, ("support_", "support_vectors_", "center_coef_", "_fitted_kernel"))
        if sp.issparse(X) and result.primal == 0:  # rows are equal
            center = X[[0]].toarray()[0]
        self.center_ = center.astype(seen.given.dtype, copy=False)
        radius = np.sqrt(result.primal)
        if self.nu > 0 and 0 < radius < np.inf:
            radius = self._soft_radius(seen, problem.caps)
            read = result.certificate_accesses + matrix.n_stored
            result = replace(result, certificate_accesses=read)
        tolerance = np.sqrt(radius**2 + seen.rounding) - radius
        return self._finish(solver, limits, given, named(result, X), radius, tolerance, errors)

    def _soft_radius(self, seen, caps):
        """Return the radius that a soft ball has at its centre; reads the rows once."""
        center, norms = self.center_.astype(np.float64) - seen.origin, seen.squared_norms
        squares = norms + center @ center - 2 * seen.matrix.row_dots(center, np.arange(len(norms)))
        return np.sqrt(max(0.0, mean_of_largest(squares, caps)[1]))

    def _run(self, solver, limits, training, constant, origin=0.0):
        """Drive a solver that sees rows from `origin`; its model, the result, what interrupted."""
        observers = Observers(self, training, 1, constant, lambda models: None)
        observe = observers.of_problem(0)
        model, result, errors = drive_shown(
            self.verbose,
            type(self).__name__,
            UNITS.get(type(solver), "steps"),
            solver,
            limits,
            observe=lambda row, model: observe(row, model + origin),
            rounded=lambda model: as_stored(model + origin, training.dtype) - origin,
        )
        try:
            observers.close()
        except Exception as error:  # of a callback; the result is there
            errors = [*errors, error]
        return model + origin, result, errors

    def _fit_kernel(self, X, y, weights, variant, given):
        """The ball in the space of a kernel."""
        space = KernelSpace(self, X, weights=weights, variant=variant)
        # kernel values hold to their rounding
        zero = math.inf if rows_are_equal(X, space.squares) else 1e-14 * space.diagonal.max()
        problem = EnclosingBall(space.diagonal, space.longest, self.epsilon, zero)
        plan = KernelPlan(self, "hull", space, self.epsilon, 1.0, variant)
        if not (plan.sampled or plan.theory or plan.is_whole):
            # payoffs are squared distances: a ball small against k(x, x) may take longer steps
            problem.unit, problem.accesses = space.farthest_from_first(), space.matrix.n_stored
        solver, limits = plan.solver(problem, random_of(self)), limits_of(self, plan)
        training = KernelTraining(X, y, None, None, [None], None, rows=space.rows)
        model, result, errors = self._run(solver, limits, training, 1.0)
        forget(self, ("center_",))
        self._fitted_kernel = space.fitted
        support = np.flatnonzero(model[:-1])
        self.support_ = given.numbers(support)
        self.support_vectors_, self.center_coef_ = X[support], model[support]
        self._center_square = float(self._products(self.support_vectors_) @ self.center_coef_)
        radius = np.sqrt(result.primal)
        # near the sphere <x, c> is about |c|^2: squared distances hold kernel values that amount to
        # three times that, in the fit and in a prediction
        values = 6 * min(space.rounding, MOST_ROUNDING) * self._center_square
        rounding = ROUNDING * space.longest**2 + values
        tolerance = np.sqrt(radius**2 + rounding) - radius
        return self._finish(solver, limits, given, named(result, X), radius, tolerance, errors)

    def _finish(self, solver, limits, given, result, radius, tolerance, errors):
        """Store what a fit found, then raise what interrupted it."""
        self.radius_ = float(radius)
        # a row on the sphere is in the ball, whatever rounding says
        self.offset_ = -(self.radius_ * (1 + MOST_LOST) + tolerance)
        forget(self, ("dual_coef_",))
        if solver.best_p is not None:
            self.dual_coef_ = given.spread(solver.best_p)
        self.n_iter_, self.result_ = result.n_iter, result  # last: now there is a new model
        if errors:
            raise errors.pop(0)
        advice = None
        rounding = relative_gap(result.primal, solver.objective.rounding)
        if rounding > self.epsilon and not solver.gets_exact:
            advice = "That is rounding: centre X, take float64, or raise epsilon."
        warn_of_gap(self, result, limits, name="MinimumEnclosingBall", advice=advice)
        return self

    @with_parameters()
    def score_samples(self, X):
        """Return minus the distance of every row from the centre.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        scores : ndarray of shape (n_samples,), float64
        """
        check_is_fitted(self)
        if hasattr(self, "center_"):  # as of the fit, whatever `kernel` is by now
            return -np.sqrt(self._squared_distances(X))
        X = check_rows(self, X)
        squares = self_values(self._fitted_kernel, X) - 2 * self._products(X)
        return -np.sqrt(np.maximum(squares + self._center_square, 0))

    def _squared_distances(self, X):
        """Return those of rows from the centre; they tell whether X is finite."""
        rows = check_rows(self, X, ensure_all_finite=False)
        with np.errstate(invalid="ignore"):
            squares = squared_distances(rows, self.center_.astype(np.float64))
        if not np.isfinite(squares).all():
            check_rows(self, X)
        return squares

    def _products(self, X):
        """Return <image of x, centre> in the space of the kernel."""
        return kernel_sum(self._fitted_kernel, self.support_vectors_, self.center_coef_[None], X)[0]

    @with_parameters()
    def decision_function(self, X):
        """Return the radius minus the distance from the centre, but for rounding.

        It is negative outside of the ball, and nowhere else.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        scores : ndarray of shape (n_samples,), float64

        Raises
        ------
        ValueError
            If no radius is proved (see `radius_`).
        """
        scores = self.score_samples(X)
        if math.isnan(self.offset_):
            raise ValueError(
                "no radius is proved: certify=None proves none, nor does a fit interrupted before "
                "its first certificate; score_samples tells how far rows are from the centre"
            )
        return scores - self.offset_

    @with_parameters()
    def predict(self, X):
        """Return +1 for rows in the ball, -1 for rows outside.

        Parameters
        ----------
        %(new_rows)s

        Returns
        -------
        labels : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If no radius is proved (see `radius_`).
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)


class SeenRows:
    """The rows of a ball as a solver sees them: from the origin, or from the first of them.

    Parameters
    ----------
    X : ndarray, CSR matrix, DualStore or FeatureOracle
    matrix : Matrix
        The same.
    row_norms : ndarray of shape (n_rows,) or None
        Their lengths, if they are known.
    variant : str
        The solver that will see them.
    epsilon : float
        Decides whether rounding matters.

    Attributes
    ----------
    given, matrix : Matrix
        X, and the rows as they are seen.
    origin : ndarray of shape (n_columns,) or 0.0
        Where they are seen from.
    squared_norms : ndarray of shape (n_rows,), float64
        Of the rows as they are seen.
    beginning : Beginning or None
        For the variant that wants one.
    rounding : float
        What a squared distance computed from squared norms may be off by.
    n_read : int
        Feature values read.
    """

    def __init__(self, X, matrix, row_norms, variant, epsilon):
        self.X, self.origin, self.n_read = X, 0.0, 0
        self.given = self.matrix = matrix
        begins = variant == "active_set"
        self._measure(X, row_norms, begins)
        if isinstance(X, np.ndarray) and self._are_far(variant, epsilon):
            self.origin = X[0].astype(np.float64)
            X = np.subtract(X, self.origin, dtype=np.float64)
            self.matrix = as_matrix(X)
            self.n_read += self.matrix.n_stored
            self._measure(X, None, begins)

    def _measure(self, X, row_norms, begins):
        """Find the squared norms; ValueError if they, or squared distances, are not finite."""
        self.beginning = Beginning(X, self.matrix) if begins else None
        if begins:
            self.squared_norms = self.beginning.norms
            self.n_read += self.beginning.n_read
        elif row_norms is None:
            self.squared_norms = self.matrix.squared_norms()
            self.n_read += self.matrix.n_stored
        else:
            self.squared_norms = row_norms**2
        if not self.squared_norms.max() <= MOST_SQUARE:
            assert_all_finite(X, estimator_name="MinimumEnclosingBall", input_name="X")
            check_squared_norms(self.squared_norms, MOST_SQUARE)
        if row_norms is None or row_norms.any():
            self.matrix.check_underflow(self.squared_norms.max())
        self.rounding = distance_error(self.matrix.n_columns, self.squared_norms.max())

    def _are_far(self, variant, epsilon):
        """Tell whether the origin matters to a ball that is as large as a few rows say."""
        few = self.X[:: -(-len(self.X) // ROWS_LOOKED_AT)].astype(np.float64)
        with np.errstate(over="ignore"):
            spread = norms_of(few - few[0], squared=True).mean()
        longest, asked, stored = self.squared_norms.max(), epsilon * spread, 0.0
        if self.given.dtype == np.float32:  # the centre, times 2 |x| + 2 |A_i|
            stored = 4 * 2.0**-24 * longest
        matters = self.rounding > SUM_SHARE * asked or stored > CENTER_SHARE * asked
        # plain steps are the shorter the longer the rows
        return (matters or variant == "plain") and longest > FAR**2 * spread

    def are_equal(self):
        """Tell whether all rows are known to be the same."""
        if sp.issparse(self.X):
            return rows_are_equal(self.X, self.squared_norms)
        # dense rows that are equal are seen from the first one, so that all norms are 0
        return self.matrix.n_rows == 1 or not self.squared_norms.any()


def rows_are_equal(X, norms):
    """Tell whether all rows of X, of these squared norms, are known to be the same."""
    n_rows = len(norms)
    if n_rows == 1 or not norms.any():
        return True
    if (norms != norms[0]).any():
        return False
    if not sp.issparse(X):
        return bool((X[0] == X).all())
    if np.ptp(np.diff(X.indptr)) > 0:
        return False
    values, columns = X.data.reshape(n_rows, -1), X.indices.reshape(n_rows, -1)
    return bool((values == values[0]).all() and (columns == columns[0]).all())


def squared_distances(X, center):
    """Return |x - center|^2 for the rows x of an array or CSR (float64).

    Sparse rows that are near the centre, for what rounding may do to the difference of long ones,
    are made dense.
    """
    at_once = max(1, DENSE_VALUES // len(center))
    if not sp.issparse(X):
        starts = range(0, len(X), at_once)
        away = (np.subtract(X[k : k + at_once], center, dtype=np.float64) for k in starts)
        return np.concatenate([norms_of(rows, squared=True) for rows in away])
    norms, square = Matrix(X).squared_norms(), center @ center  # entries may stand twice
    squares = norms + square - 2 * safe_sparse_dot(X, center)
    errors = distance_error(len(center), np.maximum(norms, square))
    rounded = np.flatnonzero(errors > MOST_LOST * squares)
    for start in range(0, len(rounded), at_once):
        numbers = rounded[start : start + at_once]
        squares[numbers] = squared_distances(X[numbers].toarray(), center)
    return squares


def check_row_norms(norms, n_rows):
    """Return norms as float64; ValueError unless there is one for every row."""
    norms = as_real("row_norms", norms)
    if norms.shape != (n_rows,) or not np.isfinite(norms).all() or (norms < 0).any():
        raise ValueError(f"row_norms must be {n_rows} finite numbers, not negative, one per row")
    return norms


@dataclass(frozen=True, repr=False)
class SimplexResult(Result):
    """What `solve_simplex_qp` found: a Result with p.

    Attributes
    ----------
    p : ndarray of shape (n_rows,), float64
        Not negative, of sum 1.

    Examples
    --------
    >>> from sublinear import solve_simplex_qp
    >>> result = solve_simplex_qp([[1.0, 0.0], [3.0, 0.0]], epsilon=1e-6)
    >>> result.p.round(3).tolist(), round(result.primal, 3)
    ([1.0, 0.0], 1.0)
    """

    p: np.ndarray = field(default=None, repr=False)


@with_parameters(**saddle_parameters(CERTIFY_EXACTLY), kernel=KERNEL_PARAMETERS)
def solve_simplex_qp(
    A,
    b=None,
    epsilon=0.01,
    *,
    variant="auto",
    batch_size="auto",
    certify="las_vegas",
    constants="practical",
    max_iter=None,
    max_accesses=None,
    row_norm=None,
    random_state=None,
    kernel="linear",
    kernel_values="exact",
    gamma="scale",
    degree=3,
    coef0=0.0,
):
    """Minimise p'b + |A'p|^2, or p'b + p'K p with a kernel matrix, over the simplex.

    With a kernel K_ij = k(A_i, A_j).

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is. Kernels need rows in memory. Of a store
        or an oracle only what is drawn is asked for, given `row_norm` and certify=None.
    b : array-like of shape (n_rows,), default=None
        None means zeros: the shortest vector in the convex hull of the rows.
    epsilon : float, default=0.01
        How far from the minimum the objective may be, absolute.
    variant : {"auto", "plain", "variance_reduced", "active_set"}, default="auto"
        As in `MinimumEnclosingBall`, but with kernel="linear" "auto" is "variance_reduced" in place
        of "active_set" for more than 16384 rows and columns, and for more than 4096 where A stores
        fewer values than the square of the smaller number: "active_set" suits a p with few entries,
        and keeps the products of their rows.
    %(steps)s
    row_norm : float, default=None
        The largest norm of a row, or a bound on it. None: it is computed, which takes a pass with
        variant="plain"; the other variants do not need it.
    %(draws)s
    %(kernel)s

    Returns
    -------
    result : SimplexResult
        A `Result` with `p`, of shape (n_rows,), float64. `primal` is the objective at p, `dual`
        a bound from below, min_i b_i + 2 <A_i, x> - |x|^2 at the x found; `gap` is their
        difference.

    Raises
    ------
    ValueError
        For parameters or data that make no sense; the message says what to do.

    References
    ----------
    Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning", FOCS 2010, section
    III-C.

    Examples
    --------
    >>> from sublinear import solve_simplex_qp
    >>> result = solve_simplex_qp([[2.0, 0.0], [0.0, 2.0]], epsilon=1e-4, random_state=0)
    >>> result.p.round(2).tolist(), round(result.primal, 2)
    ([0.5, 0.5], 2.0)
    """
    settings = settings_of(locals(), VARIANTS)
    check_kernel_parameters(settings, A)
    check_number("row_norm", row_norm, low=LEAST_NORM, high=MOST_NORM, optional=True)
    A = checked_data(A)
    matrix = as_matrix(A)
    b = np.zeros(matrix.n_rows) if b is None else as_real("b", b)
    if b.shape != (matrix.n_rows,) or not np.isfinite(b).all():
        raise ValueError(f"b must be {matrix.n_rows} finite numbers, one per row of A")
    variant = _qp_variant(settings, A, matrix)
    if variant == "active_set" and has_matrix(A):
        raise ValueError('variant="active_set" needs rows in memory')
    scales = []
    if not is_linear(settings):
        solver, plan = _qp_of_kernel(settings, A, b, variant)
    elif variant == "active_set":
        solver, plan = _qp_by_working_sets(settings, A, matrix, b)
    else:
        solver, plan = _qp_of_rows(settings, matrix, b, variant)
        scales = [("row_norm", row_norm)] if variant == "plain" else []
    name = "solve_simplex_qp"
    _, result = run_saddle(name, settings, solver, plan, A, scales=scales, maximise=True)
    p = solver.best_distribution()
    # the solver's model is x, its dual variable p: here it is the other way round
    trace = tuple(row._replace(primal=row.dual, dual=row.primal) for row in result.trace)
    swapped = vars(result) | {"primal": result.dual, "dual": result.primal, "trace": trace}
    if certify is None:
        swapped |= {"primal": math.nan, "dual": -math.inf}
    return SimplexResult(**swapped, p=p / p.sum())


def _qp_variant(settings, A, matrix):
    """Return the variant that will run: working sets where few rows can have weight.

    And where max_accesses has room for a round of them.
    """
    if not is_linear(settings):
        return kernel_variant(settings)
    most = min(matrix.n_rows, matrix.n_columns)  # the rows that an optimum needs, about
    suits = most <= MOST_MEMBERS or most**2 <= min(matrix.n_stored, MOST_PRODUCTS)
    suits &= not has_matrix(A) and (settings.max_accesses or math.inf) >= values_of_round(matrix)
    variant = variant_of(settings, "active_set" if suits else "variance_reduced")
    return within_budget(variant, settings, "hull", matrix)


def _qp_by_working_sets(settings, A, matrix, b):
    """Return the solver and the plan."""
    with calling_it_A():
        beginning = Beginning(A, matrix, matrix.n_rows)  # p may be wide
        check_squared_norms(beginning.norms, MOST_SQUARE, "A")
    problem = SimplexQP(b, None, settings.epsilon)
    problem.accesses = beginning.n_read
    solver = ActiveSet(problem, beginning, epsilon=settings.epsilon, relative=False)
    plan = Plan(settings, "hull", matrix, settings.epsilon, 1.0, variant="active_set")
    plan.least_accesses = solver.least_accesses
    return solver, plan


def _qp_of_rows(settings, matrix, b, variant):
    """Return the solver and the plan."""
    unit, n_read = None, 0
    if variant == "plain":
        if settings.row_norm is None:
            square, n_read = matrix.squared_norms().max(), matrix.n_stored
        else:
            square = float(settings.row_norm) ** 2
        unit = float(np.sqrt(max(square, np.ptp(b)))) or 1.0
    problem = SimplexQP(b, unit, settings.epsilon)
    problem.accesses = n_read
    plan = Plan(settings, "hull", matrix, settings.epsilon, (unit or 1.0) ** 2, variant=variant)
    return plan.solver(problem, random_of(settings)), plan


def _qp_of_kernel(settings, A, b, variant):
    """Return the solver and the plan."""
    space = KernelSpace(settings, A, variant=variant)
    unit = float(np.sqrt(max(space.longest**2, np.ptp(b))))
    plan = KernelPlan(settings, "hull", space, settings.epsilon, unit**2, variant)
    return plan.solver(SimplexQP(b, unit, settings.epsilon), random_of(settings)), plan
