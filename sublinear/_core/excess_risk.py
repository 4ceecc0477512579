"""What kept rows tell of a model: its excess risk, and whether they can stand for other rows.

Both rest on A = H^-1/2 G H^-1/2: H is the Hessian at the model, G the covariance of the rows'
gradients there.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import gammaincinv

from sublinear._core.blas import one_blas_thread
from sublinear._core.inner_problem import Hessian
from sublinear._core.kept_rows import KeptRows

PROBES = 16  # random signs in the estimate of a trace
LEVERAGE_PROBES = 4  # of leverages, over which a mean is taken anyway
MOST_OF_A_ROW = 0.9  # leverage, so that a slope becomes at most ten times as large
MOST_LEVERAGE = 1 / 15  # mean one of the kept rows, beyond which the model fits them too well
LOST, CONSTANT = 3e-6, 1e-14  # the range of a feature, of its largest value
LONGER = 3  # mean square of rows, times that of the kept ones, for which these do not stand
ROWS_PER_DEGREE = 3  # of freedom, at least, on which G rests
TELLING_ROWS, TELLING_VALUES = 1024, 2**17  # of kept rows, at least, that tell if they are enough


class RiskEstimate(NamedTuple):
    """How far the model is from the best one, to first order in 1 / rows.

    Attributes
    ----------
    sigma_squared : float
        E |grad psi(w*)|^2 / 2 in the norm of the inverse Hessian: the paper's sigma^2.
    excess_risk : float
        sigma^2 / rows, which the empirical risk minimiser's expected excess risk tends to, and by
        how much the model's is larger.
    interval : tuple of two floats
        Holds the excess risk of the model with probability 0.95.
    """

    sigma_squared: float
    excess_risk: float
    interval: tuple


UNKNOWN = RiskEstimate(math.nan, math.nan, (0.0, math.inf))


@one_blas_thread()
def estimate_risk(forms, total_weight, lag=0.0):
    """Return the RiskEstimate of a model of so many rows, from the QuadraticForms of some of them.

    To first order the excess risk is z'z / (2 rows), z normal with the covariance
    A = H^-1/2 G H^-1/2, G that of the gradients. It has the mean tr A / (2 rows) and the variance
    2 tr A^2 / (2 rows)^2; the interval is that of the gamma distribution with these moments. The
    `lag` of steps makes all of it larger by this part.
    """
    if not forms.are_telling() or has_lost_features(forms.kept.rows):
        return UNKNOWN
    first, second = (max(trace, 0.0) for trace in forms.traces())
    sigma_squared = float(first) / 2 * forms.unit * forms.unit
    excess = (1 + lag) * sigma_squared / total_weight
    interval = (excess, excess)
    if second > 0:
        shape = float(max(0.5, first * first / (2 * second)))  # 0.5: of one square; or rounding
        interval = tuple(excess / shape * gammaincinv(shape, end) for end in (0.025, 0.975))
    return RiskEstimate(sigma_squared, excess, tuple(map(float, interval)))


def has_lost_features(rows):
    """Tell whether features of dense rows lie so far from 0 that squares say nothing of them.

    What the inverse of a Hessian drops is neither fitted nor seen in the forms.
    """
    if issparse(rows):
        return False
    high, low = rows.max(axis=0), rows.min(axis=0)
    largest = np.maximum(high, -low)
    shares = (high / 2 - low / 2) / np.where(largest > 0, largest / 2, 1.0)
    return bool(((shares > CONSTANT) & (shares < LOST)).any())


def are_as_long(sample, counts, squares, total_weight):
    """Tell whether kept rows are about as long as all rows, by the sum of the squares of these."""
    rows, _, weights = sample
    norms = rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("ij,ij->i", rows, rows)
    shares = weights * counts
    with np.errstate(all="ignore"):  # of squares out of range
        return bool(squares / total_weight <= LONGER * (shares @ norms) / shares.sum())


def forms_at(model, loss, sample, counts, alpha, total_weight):
    """Return the QuadraticForms of a sample's rows at a model of rows of so much weight."""
    rows, targets, weights = sample.compact()
    weight_in_memory = weights @ counts
    kept, shares = KeptRows(rows), weights * counts / weight_in_memory
    evaluation = kept.evaluate(loss, model, targets, shares, gram=True)
    hessian = Hessian(kept, evaluation.curvatures, alpha, evaluation.gram)
    # squared: the curvatures of G + mean mean', which both have a weight besides their share
    roots = np.sqrt(shares * weights) * evaluation.slopes
    mean_weight = weight_in_memory / np.sum(counts)
    evaluation = evaluation._replace(gradient=math.sqrt(mean_weight) * evaluation.gradient)
    return forms_of(kept, evaluation, hessian, roots, weight_in_memory / total_weight / counts)


def stand_for_others(inner, weights):
    """Tell whether the rows of an InnerProblem can stand for other rows, from a part of them.

    `weights` are its minimiser. They cannot where Newton's method did not converge.
    """
    if not inner.converged:
        return False
    part = slice(0, max(TELLING_ROWS, TELLING_VALUES // len(weights)))
    kept, targets, shares = KeptRows(inner.rows.rows[part]), inner.targets[part], inner.shares[part]
    evaluation = kept.evaluate(inner.loss, weights, targets, shares)
    roots = shares * evaluation.slopes
    return forms_of(kept, evaluation, inner.latest, roots).are_telling()


def forms_of(kept, evaluation, hessian, roots, fitted=0.0):
    """Return the QuadraticForms of rows with a Hessian."""
    make = EstimatedForms if hessian.matrix is None else ExactForms
    return make(kept, evaluation, hessian, roots, fitted)


class QuadraticForms:
    """What is known of A = H^-1/2 G H^-1/2, and of the kept rows x_i that it comes from.

    All of A in squares of `unit`, so that it stays in the range of numbers.

    Parameters
    ----------
    kept : KeptRows
    evaluation : Evaluation
        Of them, at the model.
    hessian : Hessian
    roots : ndarray of shape (n_rows,)
        Their slopes, times the roots of their shares in G.
    fitted : float or ndarray of shape (n_rows,)
        Their shares in what the model was fitted to, over those in H. Slopes become those at a
        model that has not seen the row: to first order 1 / (1 - leverage) times as large.

    Attributes
    ----------
    unit : float
    terms, same_terms : ndarray of shape (n_rows,)
        What each row adds to tr A, the mean gradient left out; two estimates where it is estimated,
        and none for too many degrees of freedom.
    leverages : ndarray of shape (n_rows,)
        c_i x_i' H^-1 x_i, c_i the curvatures: 1 for a row that the model can follow anywhere. Their
        sum is the effective number of degrees of freedom.
    """

    def __init__(self, kept, evaluation, hessian, roots, fitted):
        self.kept, self.hessian, self.fitted = kept, hessian, fitted
        self.curvatures = evaluation.curvatures
        largest = np.abs(roots).max(initial=0.0)
        # a power of two, which changes no bit; tr A^2 has the fourth power of the slopes
        self.unit = math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0
        self.roots, self.mean = roots / self.unit, evaluation.gradient / self.unit
        self._weigh_rows()

    def _leave_out(self, leverages):
        """Make slopes those at a model that has not seen the row."""
        self.roots = self.roots / (1 - np.clip(self.fitted * leverages, 0, MOST_OF_A_ROW))

    @property
    def has_too_many_degrees(self):
        """Whether G would have too many directions even if all rows told as much of it."""
        return ROWS_PER_DEGREE * self.leverages.sum() > len(self.leverages)

    def are_telling(self):
        """Tell whether the kept rows say what G and H are for other rows.

        Of rows that the model follows, the slopes are too small, and H is that of a few of them;
        so it is where classes are nearly separable, and alpha is small. And G is not known by
        fewer rows than it has directions, as where a few are on the wrong side.
        """
        if self.has_too_many_degrees:
            return False
        degrees, total = self.leverages.sum(), self.terms.sum()
        if total == 0:  # no row has a slope
            return bool(0 < degrees <= MOST_LEVERAGE * len(self.terms))
        return bool(
            self.terms @ self.leverages <= MOST_LEVERAGE * total
            and ROWS_PER_DEGREE * degrees * (self.terms @ self.same_terms) <= total**2
        )


class ExactForms(QuadraticForms):
    """Those of a Hessian that is factorised."""

    def _weigh_rows(self):
        rows = self.kept.rows
        products = rows @ self.hessian.solve(np.eye(len(self.mean)))
        if issparse(rows):
            squares = np.asarray(rows.multiply(products).sum(axis=1)).ravel()  # x_i' H^-1 x_i
        else:
            squares = np.einsum("ij,ij->i", rows, products)
        self.leverages = self.curvatures * squares
        self._leave_out(self.leverages)
        self.terms = self.same_terms = self.roots**2 * squares

    def traces(self):
        """Return tr A and tr A^2."""
        gradients = self.kept.gram(self.roots**2) - np.outer(self.mean, self.mean)
        solved = self.hessian.solve(gradients)
        return np.trace(solved), np.sum(solved * solved.T)


class EstimatedForms(QuadraticForms):
    """Those of a Hessian that is not factorised, by random signs."""

    def _weigh_rows(self):
        random = np.random.default_rng(0)
        leverages, _ = self._probed(np.sqrt(self.curvatures), LEVERAGE_PROBES, random)
        self.leverages = leverages.mean(axis=1)
        if self.has_too_many_degrees:
            return
        self._leave_out(self.leverages.mean())  # that of a single row is mostly chance
        terms, (self.first, self.second) = self._probed(self.roots, PROBES, random)
        self.terms = terms[:, : PROBES // 2].mean(axis=1)
        self.same_terms = terms[:, PROBES // 2 :].mean(axis=1)

    def _probed(self, roots, n_probes, random):
        """Return what each row adds to tr A for every probe, and the means of both traces.

        With random signs s and p = X' (roots * s), these are s * roots * X H^-1 p, p' H^-1 p, and
        |roots * X H^-1 p|^2 less what is due to the mean gradient.
        """
        terms, traces = [], np.zeros(2)
        for signs, probes, solved in self.hessian.probed(self.kept.rows, roots, n_probes, random):
            along = roots[:, np.newaxis] * (self.kept.rows @ solved)
            terms.append(signs * along)
            of_mean = np.sum((self.mean @ solved) ** 2)
            traces += np.sum(probes * solved), np.sum(along**2) - of_mean
        return np.hstack(terms), traces / n_probes

    def traces(self):
        """Return estimates of tr A and tr A^2."""
        return self.first - self.mean @ self.hessian.solve(self.mean), self.second
