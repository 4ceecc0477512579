"""Problems of the primal-dual method: certificates, rates, parameters that estimators share."""

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
from sklearn.utils.validation import check_array

from sublinear._core.inner import inner, length
from sublinear._core.passes import Passes
from sublinear._core.random import RandomBits
from sublinear._drive import Limits, drive
from sublinear._result import Result
from sublinear._solvers.primal_dual import SublinearPrimalDual, VarianceReducedPrimalDual
from sublinear._solvers.simba import SIMBA
from sublinear._validation import (
    check_choice,
    check_number,
    check_run_parameters,
    has_matrix,
    seed_sequence,
)
from sublinear._warnings import warn

VARIANTS = ("auto", "plain", "variance_reduced")
WHOLE_PASSES = {"active_set", "optimistic"}  # variants that read X in whole passes
MAX_PASSES = 10_000
CERTIFY = ("las_vegas", "exact", "sampled")
CONSTANTS = ("practical", "theory")

SADDLE_PARAMETERS = """\
variant : {%(variants)s}, default="auto"
        "plain": the algorithm of Clarkson et al. "variance_reduced": stages that begin with a pass
        over X, whose results the steps then correct; it closes small gaps faster.%(whole)s "auto":
        "%(default)s" with certify="las_vegas", else "plain".
    batch_size : int or "auto", default="auto"
        Rows, and columns, drawn in one step. "auto": 16 for dense data, 32 with variance reduction;
        for sparse data as many as store about n_samples + n_features values, but 1 with
        variant="plain" for margins of short lines, at the cost of their stored entries; 1 with
        constants="theory".
    certify : {%(certify)s} or None, default="las_vegas"
        "las_vegas": go on until a certificate proves epsilon. The others take the number of steps
        that epsilon asks for: "exact" ends with one certificate, which takes a pass, None without.
        %(sampled)s
    constants : {"practical", "theory"}, default="practical"
        Number of steps and step sizes: as experiments suggest, or as the proofs need them, which is
        thousands of times more steps.
    max_iter : int, default=None
        Limit on steps, counted in rows drawn. None: with certify="las_vegas" 1000 times what it
        takes to read X once, at least a million; else the number of steps that epsilon asks for.
    max_accesses : int, default=None
        Limit on feature values read by the solver, never exceeded. What certificates read, and a
        pass for the norms of the rows, is counted apart.
    random_state : int, RandomState, Generator or None, default=None
        Seeds the draws.
    verbose : int, default=0
        1: show progress and the gap on stderr.
    callback : callable, default=None
        Called with a Snapshot at every certificate; stops the fit by returning True.
"""


SAMPLED = """\
"sampled": a certificate that holds with probability 1 - `delta`, from single columns, where
        that reads less than a pass (Corollary II.9).
    delta : float, default=0.1
        With what probability certify="sampled" may be wrong.
"""


ACTIVE_SET = """
        "active_set": whole passes that find the farthest rows; the ball of these alone is solved
        in between."""


def saddle_parameters(certify, variants=VARIANTS, whole="", default="variance_reduced"):
    """Return the documentation of the parameters, for these ways to certify and variants."""
    text = SADDLE_PARAMETERS.replace("%(certify)s", ", ".join(f'"{way}"' for way in certify))
    text = text.replace("%(variants)s", ", ".join(f'"{variant}"' for variant in variants))
    text = text.replace("%(whole)s", whole).replace("%(default)s", default)
    if "sampled" in certify:
        return text.replace("%(sampled)s", SAMPLED.rstrip())
    return text.replace("        %(sampled)s\n", "")


def check_saddle_parameters(estimator, certify=CERTIFY, variants=VARIANTS):
    """Raise ValueError unless the parameters of SADDLE_PARAMETERS make sense."""
    check_number("epsilon", estimator.epsilon, low=0, open_low=True)
    check_choice("variant", estimator.variant, variants)
    check_choice("constants", estimator.constants, CONSTANTS)
    check_choice("certify", estimator.certify, certify, optional=True)
    if estimator.batch_size != "auto":
        check_number("batch_size", estimator.batch_size, low=1, integer=True)
    for name in ("max_iter", "max_accesses"):
        check_number(name, getattr(estimator, name), low=1, integer=True, optional=True)
    check_run_parameters(estimator)
    variant = variant_of(estimator)
    if variant != "plain" and estimator.certify in (None, "sampled"):
        raise ValueError(
            f'variant="{variant}" certifies at every pass it makes: it needs '
            'certify="las_vegas" or "exact"'
        )
    if variant != "plain" and estimator.constants == "theory":
        raise ValueError('constants="theory" needs variant="plain"')


def squared(ratio):
    """Return a ratio's square, within the range of numbers: steps for an epsilon close to 0."""
    return min(ratio, 1e150) ** 2


def round_lengths(asked, max_iter, *, in_rounds, usual=0, theory=False, batch=1):
    """Return the steps of the first round and of all rounds together.

    Parameters
    ----------
    asked : float
        How many draws epsilon asks for.
    max_iter : int or None
        Limit on draws.
    in_rounds : bool
        Whether a certificate ends them, not their number.
    usual : float, default=0
        The limit in rounds where max_iter is None, if it is not less than LEAST_MAX_ITER.
    theory : bool, default=False
        The first round takes what epsilon asks for.
    batch : int, default=1
        Draws of a step, at most max_iter.
    """
    most = max(LEAST_MAX_ITER, usual) if in_rounds else asked
    if max_iter is not None:
        most = max_iter if in_rounds else min(asked, max_iter)
    most = min(most, MOST_STEPS)
    first = FIRST_ROUND if in_rounds and not theory else asked
    steps = math.ceil(most / batch)
    if max_iter is not None:
        steps = min(steps, max_iter // batch)
    return min(steps, math.ceil(min(first, most) / batch)), steps


def batch_within(batch, max_iter):
    """Return the draws of a step: no more than all steps together may take."""
    return batch if max_iter is None else min(batch, max_iter)


def variant_of(settings, default="variance_reduced"):
    """Return the variant that will run; `default` is what "auto" means where it is certified."""
    if settings.variant != "auto":
        return settings.variant
    certified = settings.certify == "las_vegas" and settings.constants == "practical"
    return default if certified else "plain"


def is_fixed(settings):
    """Tell whether epsilon, not a certificate, decides how many steps are taken."""
    sampled = getattr(settings, "variant", "plain") in ("auto", "plain")
    return settings.certify != "las_vegas" and sampled


@dataclass(frozen=True)
class Rates:
    """Steps and step sizes of a geometry, for lines of length 1.

    steps : T = steps * log(n) / epsilon^2
    primal, dual : primal_rate and dual_rate of SublinearPrimalDual; in practice, with batches of b,
        dual_rate is sqrt(b) times that.
    stage_primal, stage_dual : the same of VarianceReducedPrimalDual, per b * sqrt(c / M).
    largest_primal, largest_dual : their limits.
    stage : values read by the steps of a stage, per stored value.
    """

    steps: float
    primal: float
    dual: float
    stage_primal: float = 1.0
    stage_dual: float = 4.0
    largest_primal: float = 1.0
    largest_dual: float = 3.0
    stage: float = 1.0


# Tuned on certificates, on planted margins, points in balls and random games.
PRACTICAL = {
    "ball": Rates(2.0, 30.0, 0.5),
    "hull": Rates(4.0, 1.0, 1.0, math.inf, math.inf, 0.2, 2.0),
    "simplex": Rates(8.0, 1.0, 0.5, 0.25, 0.25, stage=8.0),
}
# Figure 3, section III of the full version, section IV-A of the first paper.
THEORY = {
    "ball": Rates(200.0**2, 1.0, 0.01),
    "hull": Rates(1.0, 1.0, 1.0),
    "simplex": Rates(4.0, 1.0, 1.0),
}
FIRST_ROUND = 1024  # steps, where nothing tells how many it will take
LEAST_MAX_ITER = 10**6
MOST_STEPS = 2.0**50
LEAST_STAGE = 4  # steps
ROUND_OFF = 2.0**-53
# rounding is left out of certificates up to these parts of the gap asked for and, where that is
# relative, of the value
UNNOTICED, UNNOTICED_DIGITS = 1e-4, 1e-9
SPARSE = 8  # lines with fewer than (n + d) / SPARSE stored values are worth a tree


def line_values(matrix):
    """Stored values of an average row and an average column together."""
    return matrix.n_stored / matrix.n_rows + matrix.n_stored / matrix.n_columns


def random_of(settings):
    """Return the source of a solver's draws."""
    return RandomBits(seed_sequence(settings.random_state))


def named(result, X):
    """Return a result with the status that its numbers mean, and what it read of a store."""
    if result.status == "partial_fit":
        result = replace(result, status="uncertified")
    if not hasattr(X, "bytes_of"):
        return result
    read = X.bytes_of(result.accesses + result.certificate_accesses)
    return replace(result, bytes_read=read)


def of_margin(result):
    """Return the result of a largest margin with a status of its own where that may be 0."""
    if result.status == "converged" and result.primal <= 0:
        return replace(result, status="not_separable")
    return result


def checked_data(A):
    """Return a user's A as `as_matrix` takes it: an array, CSR, a store or an oracle."""
    if has_matrix(A):
        return A
    return check_array(A, accept_sparse="csr", dtype=[np.float64, np.float32])


class Plan:
    """How a problem is going to be solved.

    Parameters
    ----------
    settings : object
        Has the attributes of SADDLE_PARAMETERS.
    geometry : str
    matrix : Matrix
    epsilon : float
    unit : float or None
        The lines' length, in the hull its square, which epsilon is measured against; None if the
        solver is going to find it, as the variance-reduced one does.
    variant : str
        What `variant_of` returned.

    Attributes
    ----------
    max_iter : int
        Draws, or passes, after which to end.
    n_read : int
        Values that were read to find the unit, for the caller to set.
    """

    def __init__(self, settings, geometry, matrix, epsilon, unit=None, *, variant):
        self.matrix, self.unit, self.n_read = matrix, unit, 0
        self.reduced = variant == "variance_reduced"
        self.theory = settings.constants == "theory"
        self.fixed = is_fixed(settings)
        self.rates = (THEORY if self.theory else PRACTICAL)[geometry]
        self.values = max(1.0, line_values(matrix))
        self._stage_draws = self.rates.stage * matrix.n_stored / self.values
        self.batch = batch_within(self._batch(settings.batch_size, matrix), settings.max_iter)
        self.sampled = None
        if settings.certify == "sampled":
            self.sampled = settings.epsilon / 2, settings.delta  # the steps' error has the rest
        steps = self.rates.steps * math.log(max(2, matrix.n_rows)) * squared((unit or 1) / epsilon)
        # steps that cost what they read, where there are such steps and it is little
        self.by_entries = (
            geometry == "ball"
            and variant == "plain"
            and settings.batch_size == "auto"
            and self.sampled is None
            and SPARSE * self.values < matrix.n_rows + matrix.n_columns
        )
        if self.by_entries:
            self.batch = 1
        self.round_steps, self.max_steps = round_lengths(
            steps,
            settings.max_iter,
            in_rounds=not self.fixed,
            usual=1000 * matrix.n_stored / self.values,
            theory=self.theory,
            batch=self.batch,
        )
        self.max_iter = self.max_steps * self.batch
        if variant in WHOLE_PASSES:
            self.max_iter = settings.max_iter or MAX_PASSES

    def _batch(self, batch_size, matrix):
        if batch_size != "auto":
            return batch_size
        if self.theory:
            return 1
        flat = round((matrix.n_rows + matrix.n_columns) / self.values)
        least = min(32, round(math.sqrt(matrix.n_stored / self.values))) if self.reduced else 16
        return max(1, least, min(flat, 4096))

    def solver(self, problem, random):
        """Return the solver of a problem."""
        matrix, rates = self.matrix, self.rates
        if self.by_entries:
            return EntrySteps(
                problem,
                matrix,
                problem.targets,
                random,
                nu=0.0,
                bias=False,
                unit=self.unit,
                round_steps=self.round_steps,
                growth=1 if self.fixed else 2,
                max_steps=self.max_steps,
                adaptive=False,
                primal_rate=rates.primal,
                dual_rate=rates.dual,
            )
        if self.reduced:
            per_batch = self.batch * math.sqrt(self.values / max(1, matrix.n_stored))
            return VarianceReducedPrimalDual(
                problem,
                matrix,
                random,
                batch_size=self.batch,
                stage_steps=max(LEAST_STAGE, round(self._stage_draws / self.batch)),
                max_steps=self.max_steps,
                primal_rate=min(rates.largest_primal, rates.stage_primal * per_batch),
                dual_rate=min(rates.largest_dual, rates.stage_dual * per_batch),
            )
        return SublinearPrimalDual(
            problem,
            matrix,
            random,
            batch_size=self.batch,
            round_steps=self.round_steps,
            growth=1 if self.fixed else 2,
            max_steps=self.max_steps,
            primal_rate=rates.primal,
            dual_rate=rates.dual * (1 if self.theory else math.sqrt(self.batch)),
            sampled=self.sampled,
        )


class EntrySteps(SIMBA):
    """SIMBA without slack and bias: the sublinear perceptron, at the cost of the entries read."""

    keeps_best = True

    def model(self):
        """Return the mean of x."""
        return self.means()[0]


@dataclass(frozen=True, repr=False)
class GameResult(Result):
    """What `solve_matrix_game` found: a Result with strategies.

    Attributes
    ----------
    row_strategy, column_strategy : ndarray, float64
        Not negative, of sum 1.
    """

    row_strategy: np.ndarray = field(default=None, repr=False)
    column_strategy: np.ndarray = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class SimplexResult(Result):
    """What `solve_simplex_qp` found: a Result with p.

    Attributes
    ----------
    p : ndarray of shape (n_rows,), float64
        Not negative, of sum 1.
    """

    p: np.ndarray = field(default=None, repr=False)


def settings_of(arguments, variants):
    """Return the arguments of a function as checked settings of a plan."""
    settings = SimpleNamespace(**arguments)
    check_saddle_parameters(settings, CERTIFY[:2], variants)
    return settings


def run_saddle(settings, solver, max_iter, A, *, absolute, maximise=False):
    """Run a solver; returns its model and the Result; warns if a limit was met."""
    limits = Limits(
        settings.epsilon,
        max_iter,
        settings.max_accesses or math.inf,
        certify=settings.certify is not None,
        absolute=absolute,
        maximise=maximise,
    )
    model, result, error = drive(solver, limits)
    if error is not None:
        raise error
    is_rounding = solver.objective.rounding > settings.epsilon
    advice = "That is rounding: raise epsilon, or scale A down." if is_rounding else None
    warn_of_gap(settings, result, absolute=absolute, advice=advice)
    return model, named(result, A)


def warn_of_gap(settings, result, *, absolute, name="", advice=None, instead=""):
    """Warn where a limit ended a fit before epsilon was proved, and say what to do.

    Parameters
    ----------
    settings : object
        Has `epsilon`, `max_iter` and `certify`, and `variant` and `constants` where there are any.
    result : Result
    absolute : bool
        Whether epsilon bounds the gap itself.
    name : str, default=""
        Of the estimator.
    advice : str, default=None
        None: that of the limits.
    instead : str, default=""
        What else that advice has to offer.
    """
    status = result.status
    if status not in ("max_iter", "max_accesses", "rounding"):
        return
    limited = [part for part in result.parts or (result,) if part.status == status]
    gap = max(part.gap if absolute else part.relative_gap for part in limited)
    if advice is None:
        ways, most = ["raise epsilon"], settings.max_iter
        # max_iter ends a fit where less than a batch is left of it, which is less than half
        if status != "max_iter" or not is_fixed(settings) or (most and 2 * result.n_iter > most):
            ways = [f"raise epsilon or {status}"]
        if status == "max_iter" and is_fixed(settings):
            ways.append('use certify="las_vegas"')
        ways += [instead] if instead else []
        advice = f"{', or '.join(ways)}."
        advice = advice[0].upper() + advice[1:]
    warn(
        f"{name} stopped at {status} with a {'' if absolute else 'relative '}gap of {gap:.2e}, "
        f"above epsilon={settings.epsilon:g}. {advice}".lstrip()
    )


class Saddle:
    """A problem for `_solvers.primal_dual`, as it wants one.

    Values are those of a minimisation: `primal` bounds what the model achieves from above, `dual`
    the optimum from below.
    """

    geometry = ""
    targets = offsets = ridge = caps = None
    rounding = 0.0
    kernel_rounding = 0.0  # of a value, where kernel values are float32
    attained = math.inf  # a primal value known beforehand, of a model that is not wanted

    def __init__(self, unit=None):
        self.unit = unit
        self.accesses = 0

    def measure(self, x, payoffs, longest):
        """Return the unit once a pass has found the largest |A_i| and the payoffs of x."""
        return longest

    def at_zeros(self):
        """No model is known beforehand."""
        return None, math.inf, -math.inf


class Margin(Saddle):
    """Minimise -min_i y_i <A_i, x> over |x| <= 1.

    Parameters
    ----------
    targets : ndarray of shape (n_rows,), float64
    unit : float or None
        About the largest |A_i|.
    """

    geometry = "ball"
    attained = 0.0

    def __init__(self, targets, unit=None):
        super().__init__(unit)
        self.targets = targets
        self._passes = None

    def certificate(self, matrix, x, _, p, rounded):
        """Return the model of x, its primal value and the dual value of p, after one pass."""
        self._passes = self._passes or Passes(matrix, self.targets)
        payoffs, gradient = self._passes.products(x, p)
        self.accesses += matrix.n_stored
        return *self.primal(x, payoffs, self._passes.longest, rounded), self.dual(p, gradient)

    def primal(self, x, payoffs, longest, rounded):
        """Return x at length 1, as it will be stored, and minus its margin."""
        scale = length(x)
        if scale == 0:
            return x, 0.0
        x = x / scale
        model = rounded(x)
        margin = payoffs.min() / scale - longest * length(model - x)
        return model, -margin / max(1.0, length(model))

    def dual(self, p, gradient, longest=0.0):
        """Return -|A'Yp|."""
        return -length(gradient)


def distance_error(n_columns, square):
    """Return a bound on the rounding of |A_i|^2 - 2 <A_i, x> + |x|^2, where |A_i|^2 <= square.

    A sum of d products is off by at most d 2^-53 times the product of the lengths. Here are four
    such sums, <A_i, x> counts twice, and they are added up.
    """
    return 4 * (n_columns + 1) * ROUND_OFF * square


class SimplexQP(Saddle):
    """Minimise max_i |x|^2 + |e|^2 - b_i - 2 <A_i, x> - 2 r_i e_i over x and e.

    That is minus the simplex QP min p'b + p'(A A' + diag r^2) p, whose p the dual value belongs to.

    Where rows are long compared with the value, its terms cancel. What their rounding may amount to
    is added to the primal value and taken off the dual one, if it can be noticed.

    Parameters
    ----------
    offsets : ndarray of shape (n_rows,), float64
    unit : float or None
        About the largest distance of a row from x.
    epsilon : float, default=1.0
        The gap that will be asked for.

    Attributes
    ----------
    rounding : float
        What rounding adds to the gap of the last primal value and the last dual value.
    """

    geometry = "hull"
    relative = False  # epsilon, to the value
    n_sums = 1  # additions one after another that make a value of the products, inner's up to 24

    def __init__(self, offsets, unit=None, epsilon=1.0):
        super().__init__(unit)
        self.offsets, self.epsilon = offsets, epsilon
        self.largest_offset = np.abs(offsets).max()
        self._primal_rounding = self._dual_rounding = 0.0

    @property
    def rounding(self):
        return self._primal_rounding + self._dual_rounding

    def noticed(self, bound, value):
        """Return a bound on the rounding of a value, 0 if it does not matter."""
        unnoticed = UNNOTICED * self.epsilon
        if self.relative:
            unnoticed = min(unnoticed, UNNOTICED_DIGITS) * abs(value)
        return bound if bound > unnoticed else 0.0

    def primal_error(self, x, longest):
        """Return a bound on the rounding of |x|^2 - b_i - 2 <A_i, x>.

        `n_sums` additions follow the products.
        """
        square = max(longest, length(x)) ** 2 + self._own_offset()
        return distance_error(len(x) + self.n_sums - 1, square)

    def dual_error(self, p, n_columns, longest):
        """Return a bound on the rounding of p'b + |A'p|^2.

        A'p adds m rows and enters twice; |A'p|^2 and p'b, whose b has d products for balls, add at
        most 30 numbers one after another; the sum of p is not 1.
        """
        square = longest**2 + self._own_offset()
        n_terms = 2 * (np.count_nonzero(p) + n_columns + 40)
        return (n_terms * ROUND_OFF + 2 * abs(1.0 - float(np.add.reduce(p)))) * square

    def _own_offset(self):
        """The largest offset, where it is not that of a row's length."""
        return self.largest_offset

    def measure(self, x, payoffs, longest):
        payoffs = self.offsets + 2 * payoffs
        return math.sqrt(max(payoffs.max() - payoffs.min(), (longest + length(x)) ** 2))

    def primal(self, x, payoffs, longest, rounded):
        model = rounded(x)
        value = inner(x, x) + self._largest(-self.offsets - 2 * payoffs)
        # what rounding x can add to |x|^2 - 2 <A_i, x>
        change = length(model - x)
        stored = change * (change + 2 * length(x) + 2 * longest)
        computed = self.noticed(self.primal_error(x, longest), value)
        self._primal_rounding = stored + computed
        return model, value + stored + computed

    def _largest(self, values):
        """Return the largest p'values over all p allowed."""
        return values.max()

    def dual(self, p, gradient, longest=0.0):
        value = -(inner(p, self.offsets) + inner(gradient, gradient))
        error = self.dual_error(p, len(gradient), longest)
        self._dual_rounding = self.noticed(error, value)
        return value - self._dual_rounding


class EnclosingBall(SimplexQP):
    """Minimise max_i |A_i - x|^2.

    Parameters
    ----------
    squared_norms : ndarray of shape (n_rows,), float64
        |A_i|^2.
    unit : float or None
    epsilon : float, default=1.0
        The gap that will be asked for, relative to the primal value.
    zero : float, default=-inf
        A primal value up to this, of rows that are known to be equal, is rounding.
    """

    relative = True

    def __init__(self, squared_norms, unit=None, epsilon=1.0, zero=-math.inf):
        super().__init__(-squared_norms, unit, epsilon)
        self.zero = zero

    def _own_offset(self):
        return 0.0

    def measure(self, x, payoffs, longest):
        return math.sqrt(max(0.0, inner(x, x) - (self.offsets + 2 * payoffs).min()))

    def primal(self, x, payoffs, longest, rounded):
        """Return the centre and a squared radius that holds all rows."""
        model, value = super().primal(x, payoffs, longest, rounded)
        if value - self._primal_rounding <= self.zero:
            self._primal_rounding = value = 0.0
        return model, max(0.0, value)

    def dual(self, p, gradient, longest=0.0):
        return max(0.0, super().dual(p, gradient, longest))


class SoftBall(EnclosingBall):
    """Minimise R2 + sum_i caps_i max(0, |A_i - x|^2 - R2) over x and R2.

    For given x that is the largest sum_i p_i |A_i - x|^2 with p_i <= caps_i, sum 1: the mean of the
    largest squared distances, until the caps add up to 1.

    Parameters
    ----------
    squared_norms : ndarray of shape (n_rows,), float64
        |A_i|^2.
    caps : ndarray of shape (n_rows,), float64
        Of sum 1 at least.
    unit, epsilon, zero
        As in EnclosingBall.
    """

    n_sums = 25

    def __init__(self, squared_norms, caps, unit=None, epsilon=1.0, zero=-math.inf):
        super().__init__(squared_norms, unit, epsilon, zero)
        self.caps = caps

    def _largest(self, values):
        return mean_of_largest(values, self.caps)[0]


def mean_of_largest(values, caps):
    """Return the largest p'values with p <= caps of sum 1, and the least value that p needs."""
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(caps[order]) - caps[order]
    p = np.clip(1 - before, 0, caps[order])
    needed = int(np.searchsorted(before, 1 - 1e-12)) - 1
    return inner(p, values[order]) / float(p.sum()), float(values[order[needed]])


class SquaredHinge(SimplexQP):
    """Minimise alpha / 2 |w|^2 + sum_i alpha c_i / 2 max(0, 1 - y_i <A_i, w>)^2, c_i = 1 / r_i^2.

    That is a hard margin over the rows [y_i A_i, r_i e_i]: the shortest vector of their hull, of
    squared length q, is the optimal w but for its scale, and alpha / 2 / q is the optimum.

    Parameters
    ----------
    targets, ridge : ndarray of shape (n_rows,), float64
        y and r.
    alpha : float
    epsilon : float, default=1.0
        The gap that will be asked for, relative to the primal value.
    """

    relative = True

    def __init__(self, targets, ridge, alpha, epsilon=1.0):
        super().__init__(np.zeros(len(targets)), epsilon=epsilon)
        self.targets, self.ridge, self.alpha = targets, ridge, alpha

    def primal(self, x, payoffs, longest, rounded):
        """Return x at its best scale and the objective there."""
        weights, square = self.ridge**-2, inner(x, x)
        scale, best, error = 0.0, (x * 0.0, weights.sum() / 2), 0.0
        for _ in range(30):  # Newton's method on a piecewise linear derivative
            active = scale * payoffs < 1
            curvature = square + (weights * payoffs**2)[active].sum()
            if curvature == 0:
                break
            scale = max(0.0, (weights * payoffs)[active].sum() / curvature)
            model = rounded(scale * x)
            margins = scale * payoffs - longest * length(model - scale * x)
            losses = inner(weights, np.maximum(0, 1 - margins) ** 2)
            value = (inner(model, model) + losses) / 2
            if not value < best[1]:
                break
            best = model, value
            # a margin adds so many products, none of their sums is above this
            error = 2 * (len(x) + 1) * ROUND_OFF * longest * length(model)
            error *= inner(weights, 2 * np.maximum(0, 1 - margins) + error) / 2
        self._primal_rounding = self.alpha * self.noticed(error, best[1])
        return best[0], self.alpha * best[1] + self._primal_rounding

    def dual(self, p, gradient, longest=0.0):
        square = inner(gradient, gradient) + ((self.ridge * p) ** 2).sum()
        # A'Yp adds so many rows, of which none is longer
        error = (np.count_nonzero(p) + 1) * ROUND_OFF * longest
        error = self.noticed(error * (error + 2 * length(gradient)), square)
        if square <= 0:
            return -math.inf
        value = self.alpha / (2 * (square + error))
        self._dual_rounding = value * error / square
        return value


class Game(Saddle):
    """Minimise max_i <A_i, x> over x in the simplex.

    Parameters
    ----------
    unit : float
        About the largest |A_ij|.
    """

    geometry = "simplex"

    def primal(self, x, payoffs, longest, rounded):
        return x, payoffs.max()

    def dual(self, p, gradient, longest=0.0):
        return gradient.min()
