"""How a primal-dual method runs: parameters that estimators share, plans, rates, warnings."""

import contextlib
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

from sublinear._core.matrix import NotFinite
from sublinear._core.random import RandomBits
from sublinear._core.sample_sizes import squared
from sublinear._drive import LIMITS, Limits, drive
from sublinear._solvers.primal_dual import SublinearPrimalDual, VarianceReducedPrimalDual
from sublinear._solvers.simba import SIMBA
from sublinear._validation import (
    check_choice,
    check_matrix,
    check_number,
    check_run_parameters,
    check_seeds,
    has_matrix,
    seed_sequence,
)
from sublinear._warnings import warn

VARIANTS = ("auto", "plain", "variance_reduced")
WHOLE_PASSES = {"active_set", "optimistic", "interior_point"}  # variants that read X by passes
MAX_PASSES = 10_000
CERTIFY_EXACTLY = ("las_vegas", "exact")
CERTIFY = (*CERTIFY_EXACTLY, "sampled")
CONSTANTS = ("practical", "theory")
FIRST_ROUND = 1024  # steps, where nothing tells how many it will take
LEAST_MAX_ITER = 10**6
MOST_STEPS = 2.0**50

VARIANT = """\
variant : {%(variants)s}, default="auto"
        "plain": the algorithm of Clarkson et al. "variance_reduced": stages that begin with a pass
        over X, whose results the steps then correct; it closes small gaps faster.%(whole)s
        "auto": %(default)s
        with certify="las_vegas" and constants="practical", else "plain", which it also is where
        `max_accesses` would end variance reduction too early."""


STEPS = """\
batch_size : int or "auto", default="auto"
        Rows, and columns, drawn in one step. "auto": 16 for dense data, 32 with variance reduction;
        for sparse data as many as together store about what a dense row and a dense column do.
        Always 1 with constants="theory", and for SublinearPerceptron with variant="plain" where
        rows and columns store few values.
    certify : {%(certify)s} or None, default="las_vegas"
        "las_vegas": go on until a certificate proves epsilon. Variants other than "plain" certify
        as they go: with them "exact" means the same, and the others are refused. With "plain" these
        take the number of steps that epsilon asks for: "exact" ends with one certificate, which
        takes a pass, None without.%(sampled)s
    constants : {"practical", "theory"}, default="practical"
        Number of steps and step sizes: as experiments suggest, or those of the proofs, which take
        thousands of times more steps for margins; for balls, programs and games they take a
        quarter as many or fewer, and nothing but a certificate says whether that was enough.
    max_iter : int, default=None
        Limit on steps, counted in rows drawn. None: with certify="las_vegas" 1000 times what it
        takes to read the data once, at least a million; else the number of steps that epsilon
        asks for.
    max_accesses : int, default=None
        Limit on feature values read by the solver, never exceeded. What certificates read, and a
        pass that measures the data first, is counted apart."""


SAMPLED = """
        "sampled": a certificate that holds with probability 1 - `delta`, from single columns, where
        that reads less than a pass (Corollary II.9).
    delta : float, default=0.1
        With what probability certify="sampled" may be wrong.
"""


ACTIVE_SET = """
        "active_set": whole passes that find the farthest rows; the ball of these alone is solved
        in between; `max_iter` limits passes (None: 10000)."""
WHERE_ACTIVE = """\
"active_set" (for nu=0 and rows in memory; "variance_reduced" otherwise, with
        kernel_values="sampled" "plain")"""


def saddle_parameters(certify, variants=VARIANTS, whole="", default='"variance_reduced"'):
    """Return texts for `with_parameters`, for these ways to certify and variants."""
    return {
        "variant": VARIANT,
        "variants": ", ".join(f'"{variant}"' for variant in variants),
        "whole": whole,
        "default": default,
        "steps": STEPS,
        "certify": ", ".join(f'"{way}"' for way in certify),
        "sampled": SAMPLED if "sampled" in certify else "",
    }


def check_saddle_parameters(estimator, certify=CERTIFY, variants=VARIANTS):
    """Raise ValueError unless the `saddle_parameters` make sense."""
    check_number("epsilon", estimator.epsilon, low=0, open_low=True)
    check_choice("variant", estimator.variant, variants)
    check_choice("constants", estimator.constants, CONSTANTS)
    check_choice("certify", estimator.certify, certify, optional=True)
    check_number(
        "batch_size", estimator.batch_size, low=1, high=2**24, integer=True, words=("auto",)
    )
    for name in ("max_iter", "max_accesses"):
        check_number(name, getattr(estimator, name), low=1, integer=True, optional=True)
    check_run_parameters(estimator)
    check_seeds(estimator.random_state)  # some variants draw nothing
    variant = variant_of(estimator)
    if variant != "plain" and estimator.certify in (None, "sampled"):
        raise ValueError(
            f'variant="{variant}" certifies at every pass it makes: it needs '
            'certify="las_vegas" or "exact"'
        )
    if variant != "plain" and estimator.constants == "theory":
        raise ValueError('constants="theory" needs variant="plain"')


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


def variant_of(settings, default="variance_reduced"):
    """Return the variant that will run; `default` is what "auto" means where it is certified."""
    if settings.variant != "auto":
        return settings.variant
    certified = settings.certify == "las_vegas" and settings.constants == "practical"
    return default if certified else "plain"


def within_budget(variant, settings, geometry, matrix):
    """Return the variant of `variant_of`, or "plain" where that makes more of max_accesses.

    Variance reduction takes its first step after two passes. For margins the first of these finds
    the mean of the rows, which a few plain steps do not better. Many do, and are better than a
    stage that is not over after four passes.
    """
    budget = settings.max_accesses or math.inf
    if settings.variant != "auto" or variant != "variance_reduced":
        return variant
    n_passes = 2
    if geometry == "ball":
        many = MANY_DRAWS * math.log(max(2, matrix.n_rows)) * line_values(matrix)
        n_passes = 4 if budget >= many else 1
    return "plain" if budget < n_passes * matrix.n_stored else variant


def is_fixed(settings):
    """Tell whether epsilon, not a certificate, decides how many steps are taken."""
    sampled = getattr(settings, "variant", "plain") in ("auto", "plain")
    return settings.certify != "las_vegas" and sampled


@dataclass(frozen=True)
class Rates:
    """Steps and step sizes of a geometry, for lines of length 1.

    steps : T = steps * log(n) / epsilon^2, in the simplex with the larger one of n and d
    primal, dual : primal_rate and dual_rate of SublinearPrimalDual; in practice, with batches of b,
        dual_rate is sqrt(b) times that.
    stage_primal, stage_dual : the same of VarianceReducedPrimalDual, per b * sqrt(c / M).
    largest_primal, largest_dual : their limits.
    stage : values read by the steps of a stage, per stored value.
    batch : the largest b that counts in dual_rate, and for which fewer steps are enough.
    least : steps are at least least * log(n) / epsilon, however many draws they have: with eta at
        its limit p takes so many to get anywhere.
    """

    steps: float
    primal: float
    dual: float
    stage_primal: float = 1.0
    stage_dual: float = 4.0
    largest_primal: float = 1.0
    largest_dual: float = 3.0
    stage: float = 1.0
    batch: float = math.inf
    least: float = 0.0


# Tuned on certificates, on planted margins, points in balls and random games.
PRACTICAL = {
    "ball": Rates(4.0, 30.0, 0.5, least=4.0),
    "hull": Rates(4.0, 1.0, 1.0, math.inf, math.inf, 0.2, 2.0, least=7.0),
    "simplex": Rates(64.0, 1.0, 0.5, 0.25, 0.25, stage=8.0, batch=16),
}
# Figure 3, section III of the full version, section IV-A of the first paper.
THEORY = {
    "ball": Rates(200.0**2, 1.0, 0.01),
    "hull": Rates(1.0, 1.0, 1.0),
    "simplex": Rates(16.0, 1.0, 1.0),
}
LEAST_STAGE, LEAST_READ = 4, 2**12  # steps of a stage; values: it ends in a certificate
MOST_READ = 1 / 64  # of max_accesses, where that is not enough for many stages
MANY_DRAWS = 64  # per log n, with which plain steps for margins are better than the rows' mean
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
    return check_matrix(A, "A")


class RoundsPlan:
    """How many steps of what size a problem is going to take, in rounds.

    Parameters
    ----------
    settings : object
        Has the `saddle_parameters` as attributes.
    geometry : str

    Attributes
    ----------
    theory, fixed : bool
        Whether the constants are those of the proofs; whether epsilon decides the number of steps.
    rates : Rates
    batch, counted : int
        Draws of a step; how many of them its length is for.
    round_steps, max_steps : int
        Steps of the first round, and of all.
    max_iter : int
        Draws, or passes, after which to end.
    by_epsilon : bool
        Whether these are all that epsilon asks for.
    n_read : int
        Values that were read to find the unit, for the caller to set.
    least_accesses : int
        The max_accesses below which no step is taken, as far as is known.
    """

    def __init__(self, settings, geometry):
        self.theory = settings.constants == "theory"
        self.fixed = is_fixed(settings)
        self.rates = (THEORY if self.theory else PRACTICAL)[geometry]
        self.n_read = self.least_accesses = 0

    def _set_lengths(self, settings, batch, steps, n_weights, ratio, usual=0):
        """Set the lengths of rounds.

        `steps` is that of Rates, `n_weights` the most that a player has, `ratio` the unit over
        epsilon.
        """
        self.batch = batch if settings.max_iter is None else min(batch, settings.max_iter)
        self.counted = min(self.batch, self.rates.batch)
        least = 0.0 if self.theory else self.rates.least
        per_log = self.batch * max(steps * squared(ratio) / self.counted, least * ratio)
        asked = per_log * math.log(max(2, n_weights))
        self.round_steps, self.max_steps = round_lengths(
            asked,
            settings.max_iter,
            in_rounds=not self.fixed,
            usual=usual,
            theory=self.theory,
            batch=self.batch,
        )
        self.max_iter = self.max_steps * self.batch
        self.by_epsilon = self.fixed and self.max_iter >= asked

    def _rounds(self):
        """Return what all solvers in rounds are told of them and of the rates."""
        return {
            "round_steps": self.round_steps,
            "growth": 1 if self.fixed else 2,
            "max_steps": self.max_steps,
            "primal_rate": self.rates.primal,
            "dual_rate": self.rates.dual * (1 if self.theory else math.sqrt(self.counted)),
        }


class Plan(RoundsPlan):
    """How a problem is going to be solved.

    Parameters
    ----------
    settings, geometry
        As of a RoundsPlan.
    matrix : Matrix
    epsilon : float
    unit : float or None
        The lines' length, in the hull its square, which epsilon is measured against; None if the
        solver is going to find it, as the variance-reduced one does.
    variant : str
        What `variant_of` returned.
    """

    def __init__(self, settings, geometry, matrix, epsilon, unit=None, *, variant):
        super().__init__(settings, geometry)
        self.matrix, self.unit = matrix, unit
        self._max_accesses = settings.max_accesses or math.inf
        self.reduced = variant == "variance_reduced"
        self.values = max(1.0, line_values(matrix))
        pass_draws = matrix.n_stored / self.values  # that read as much as a pass
        self._stage_draws = self.rates.stage * pass_draws
        self.sampled = None
        if settings.certify == "sampled":
            self.sampled = settings.epsilon / 2, settings.delta  # the steps' error has the rest
        # steps that cost what they read, where there are such steps and it is little
        self.by_entries = (
            geometry == "ball"
            and variant == "plain"
            and settings.batch_size == "auto"
            and self.sampled is None
            and SPARSE * self.values < matrix.n_rows + matrix.n_columns
        )
        batch = 1 if self.by_entries else self._batch(settings.batch_size, matrix)
        ratio = (unit or 1) / epsilon
        n_weights = matrix.n_rows
        if geometry == "simplex":  # where x has weights too
            n_weights = max(n_weights, matrix.n_columns)
        self._set_lengths(
            settings, batch, self.rates.steps, n_weights, ratio, usual=1000 * pass_draws
        )
        if variant in WHOLE_PASSES:
            self.max_iter = settings.max_iter or MAX_PASSES
            self.least_accesses = matrix.n_stored
        elif self.reduced:  # where x is not known at first, there is a pass to begin with
            self.least_accesses = (1 if geometry == "simplex" else 2) * matrix.n_stored

    def _batch(self, batch_size, matrix):
        if batch_size != "auto":
            return batch_size
        if self.theory:
            return 1
        flat = round((matrix.n_rows + matrix.n_columns) / self.values)
        least = min(32, round(math.sqrt(matrix.n_stored / self.values))) if self.reduced else 16
        return max(1, least, min(flat, 4096))

    def _stage_steps(self):
        n_read = min(LEAST_READ, MOST_READ * self._max_accesses)
        least = max(LEAST_STAGE, round(n_read / (self.values * self.batch)))
        return max(least, round(self._stage_draws / self.batch))

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
                adaptive=False,
                **self._rounds(),
            )
        if self.reduced:
            per_batch = self.batch * math.sqrt(self.values / max(1, matrix.n_stored))
            return VarianceReducedPrimalDual(
                problem,
                matrix,
                random,
                batch_size=self.batch,
                stage_steps=self._stage_steps(),
                max_steps=self.max_steps,
                primal_rate=min(rates.largest_primal, rates.stage_primal * per_batch),
                dual_rate=min(rates.largest_dual, rates.stage_dual * per_batch),
            )
        return SublinearPrimalDual(
            problem,
            matrix,
            random,
            batch_size=self.batch,
            sampled=self.sampled,
            **self._rounds(),
        )


class EntrySteps(SIMBA):
    """SIMBA without slack and bias: the sublinear perceptron, at the cost of the entries read."""

    keeps_best = True

    def model(self):
        """Return the mean of x as the problem wants it."""
        return self.problem.model(self.means()[0])


def limits_of(settings, plan, *, absolute=False, maximise=False):
    """Return the Limits of a fit by a plan; `absolute` and `maximise` are theirs."""
    return Limits(
        settings.epsilon,
        plan.max_iter,
        settings.max_accesses or math.inf,
        certify=settings.certify is not None,
        absolute=absolute,
        maximise=maximise,
        by_tol=plan.by_epsilon,
        least_accesses=plan.least_accesses,
    )


def settings_of(arguments, variants):
    """Return the arguments of a function as checked settings of a plan."""
    settings = SimpleNamespace(**arguments)
    check_saddle_parameters(settings, CERTIFY_EXACTLY, variants)
    return settings


@contextlib.contextmanager
def calling_it_A():
    """Say A in the NotFinite of a solver, which calls the matrix X; it becomes a ValueError."""
    try:
        yield
    except NotFinite as error:
        raise ValueError(str(error).replace("X holds", "A holds", 1)) from None


def run_saddle(name, settings, solver, plan, A, *, scales=(), maximise=False):
    """Run a solver for a function; returns its model and the Result; warns if a limit was met.

    `scales` are those of `warn_of_gap`.
    """
    limits = limits_of(settings, plan, absolute=True, maximise=maximise)
    with calling_it_A():
        model, result, errors = drive(solver, limits)
    if errors:
        raise errors.pop()
    rounding = solver.objective.rounding
    advice = None
    # a scale that is far off makes steps slow, and this bound large
    may_be_scale = result.gap > rounding and any(scale is not None for _, scale in scales)
    if rounding > settings.epsilon and not (may_be_scale or solver.gets_exact):
        advice = "By rounding alone it may stay above epsilon: raise epsilon, or scale A down."
    warn_of_gap(settings, result, limits, name=name, advice=advice, scales=scales)
    return model, named(result, A)


def warn_of_gap(settings, result, limits, *, name, advice=None, instead="", scales=()):
    """Warn where a fit ended before epsilon was proved, and say what to do.

    Parameters
    ----------
    settings : object
        Has `certify`, and `variant` where there is one.
    result : Result
    limits : Limits
        Of the fit; its tol is epsilon.
    name : str
        Of the estimator or the function.
    advice : str, default=None
        None: by what ended the fit.
    instead : str, default=""
        What else helps where that is a limit.
    scales : iterable of (str, float or None)
        Parameters that steps were scaled by if they were given: no limit is high enough for one
        that is far off.
    """
    status = result.status
    if status not in LIMITS:
        return
    limited = [part for part in result.parts or (result,) if part.status == status]
    gap = max(part.gap if limits.absolute else part.relative_gap for part in limited)
    gap = f"with a {'' if limits.absolute else 'relative '}gap of {gap:.2e}"
    asked = f"epsilon={limits.tol:g}"
    if status == "max_iter" and limits.by_tol:
        happened = f"took the steps that {asked} asks for and ended {gap}"
        usual = (
            "They were not enough to prove it here: a smaller epsilon takes more of them, "
            'certify="las_vegas" goes on until epsilon is proved.'
        )
    else:
        happened = f"stopped at {status} {gap}, above {asked}"
        ways = [f"Raise epsilon or {status}"]
        if status == "max_iter" and is_fixed(settings):
            ways.append('use certify="las_vegas"')
        ways += [instead] if instead else []
        usual = f"{', or '.join(ways)}."
        if limits.max_accesses < limits.least_accesses:
            usual += f" No step is taken below max_accesses={limits.least_accesses}."
    given = " and ".join(f"{name}={float(scale):g}" for name, scale in scales if scale is not None)
    if given:
        usual += (
            f" But check {given} first: steps are scaled by that, and converge "
            "slowly, or not at all, where it is far off; None finds it by a pass."
        )
    warn(f"{name} {happened}. {usual if advice is None else advice}")
