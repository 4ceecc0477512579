"""The generic sublinear primal-dual method: solve_primal_dual, low-regret steps, samplers."""

import math
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np

from sublinear._callbacks import call_back
from sublinear._core.aligned import contiguous, read_only
from sublinear._core.random import RandomBits
from sublinear._core.sample_sizes import samples_for, squared
from sublinear._core.solver import BaseObjective
from sublinear._documentation import with_parameters
from sublinear._drive import Limits, drive
from sublinear._result import Result
from sublinear._saddle import (
    CERTIFY,
    CONSTANTS,
    MOST_STEPS,
    checked_data,
    named,
    round_lengths,
    warn_of_gap,
)
from sublinear._solvers import generic_primal_dual as compiled
from sublinear._validation import (
    as_matrix,
    as_real,
    check_choice,
    check_flag,
    check_number,
    check_run_parameters,
    seed_sequence,
)

__all__ = [
    "BallStep",
    "L1Sampler",
    "L2Sampler",
    "LowRegretStep",
    "MeanStep",
    "PrimalDualResult",
    "Sampler",
    "SimplexStep",
    "solve_primal_dual",
]

DUAL_RATES = {"practical": 0.5, "theory": 0.01}
# Of epsilon, what each player's regret may be, and steps over log(n) (scale / that)^2
SHARES = {"practical": (0.5, 8), "theory": (1, 1)}


class LowRegretStep(compiled.LowRegretStep):
    """Base of low-regret steps: what a user's own has to offer.

    A subclass holds a point x and moves it so that the sum of the c_i(x) it was shown falls short
    of the best fixed point's by o(T). `start` and `step` and the attribute `x` are needed, the
    others have defaults.

    Attributes
    ----------
    x : ndarray of shape (n,), float64
        The present point, for the subclass to set: read after `start`, `go_on` and every `step`.
    accesses, full_accesses : int
        Values of the data read so far, and the same with every line charged in full. They begin
        at 0; add to them what a call reads.
    most_accesses : int, default=-1
        The most that one `step` reads; -1 if that is not known. `max_accesses` needs it.

    Examples
    --------
    Follow the perturbed leader over two actions:

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import L1Sampler, LowRegretStep
    >>> A = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> class Leader(LowRegretStep):
    ...     def start(self, n_steps):
    ...         self.random = np.random.default_rng(0)
    ...         self.total, self.spread = np.zeros(2), np.sqrt(n_steps)
    ...         self.step(None)
    ...
    ...     def step(self, i):
    ...         if i is not None:
    ...             self.total = self.total + A[i]
    ...         noise = self.random.exponential(self.spread, 2)
    ...         self.x = np.eye(2)[np.argmax(self.total + noise)]
    ...
    ...     def bound(self, p):
    ...         return (A.T @ p).max()
    >>> result = solve_primal_dual(Leader(), L1Sampler(A), epsilon=0.1, random_state=0)
    >>> result.status, bool(result.gap <= 0.1)
    ('converged', True)
    """

    def start(self, n_steps):
        """Go to the first point; a round of so many steps begins.

        Parameters
        ----------
        n_steps : int
            Steps of the round, unless a limit or a callback ends it before.
        """
        return super().start(n_steps)

    def go_on(self, n_steps):
        """Begin a further round, of so many steps, from about the present point or the last mean.

        Parameters
        ----------
        n_steps : int
            Steps of the round, as in `start`.
        """
        return super().go_on(n_steps)

    def step(self, i):
        """See c_i at x, and move x.

        Parameters
        ----------
        i : int
            The row drawn, from 0 to n_rows - 1.
        """
        return super().step(i)

    def bound(self, p):
        """Return the maximum of sum_i p_i c_i(x) over all x allowed; inf: it is not known.

        Parameters
        ----------
        p : ndarray of shape (n_rows,), float64
            Not negative, of sum 1. Read-only.

        Returns
        -------
        bound : float
        """
        return super().bound(p)

    def n_steps(self, epsilon):
        """Return after how many steps the regret per step is at most epsilon; 0: not known.

        Parameters
        ----------
        epsilon : float
            Half of the epsilon of `solve_primal_dual`; all of it with constants="theory".

        Returns
        -------
        n_steps : int
        """
        return super().n_steps(epsilon)


class Sampler(compiled.Sampler):
    """Base of samplers: what a user's own has to offer.

    `n_rows` and `sample` are needed, the others have defaults.

    Attributes
    ----------
    n_rows : int
        How many functions c_i there are, for the subclass to set.
    scale : float, default=1.0
        What |c_i(x)|, and the standard deviation of its estimates, are at most, or about.
    accesses, full_accesses, most_accesses : int
        As in LowRegretStep, for one `sample`.

    Examples
    --------
    Values that are measured with noise:

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import BallStep, Sampler
    >>> A = np.array([[1.0, 0.2], [0.8, -0.1], [0.9, 0.0], [1.0, -0.3]])
    >>> class Noisy(Sampler):
    ...     n_rows = 4
    ...
    ...     def sample(self, x, random):
    ...         return A @ x + random.normal(0, 0.1, 4)
    ...
    ...     def values(self, x):
    ...         return A @ x
    >>> result = solve_primal_dual(BallStep(A), Noisy(), epsilon=0.05, random_state=0)
    >>> result.status, bool(result.gap <= 0.05)
    ('converged', True)
    """

    def start(self):
        """Prepare: called once, before the first sample."""
        return super().start()

    def sample(self, x, random):
        """Return unbiased estimates of all c_i(x), an array of shape (n_rows,).

        Parameters
        ----------
        x : ndarray of shape (n,), float64
            The present point of the low-regret step; for certify="sampled" that of a certificate.
            Read-only.
        random : numpy.random.Generator
            For all that is random here; seeded by the `random_state` of `solve_primal_dual`.
        """
        return super().sample(x, random)

    def values(self, x):
        """Return all c_i(x) exactly, for certificates; None: they are not known.

        Parameters
        ----------
        x : ndarray of shape (n,), float64
            The point of a certificate: a mean of those of the low-regret step. Read-only.

        Returns
        -------
        values : ndarray of shape (n_rows,) or None
        """
        return super().values(x)

    def deviation(self, x):
        """Return what the standard deviations of estimates at x are at most; by default `scale`.

        certify="sampled" rests on it.

        Parameters
        ----------
        x : ndarray of shape (n,), float64
            The point of a certificate, as in `values`.

        Returns
        -------
        deviation : float
            Finite, not negative.
        """
        return super().deviation(x)


def _checked_offsets(offsets, n_rows):
    if offsets is None:
        return None
    offsets = contiguous(as_real("offsets", offsets))
    if offsets.shape != (n_rows,) or not np.isfinite(offsets).all():
        raise ValueError(f"offsets must be {n_rows} finite numbers, one per row of A")
    return offsets


def _checked_step(A, offsets, rate, unit, name):
    """Check what the compiled steps share; returns their first arguments."""
    check_number("rate", rate, low=0, open_low=True)
    check_number(name, unit, low=0, open_low=True, optional=True)
    matrix = as_matrix(checked_data(A))
    return matrix, _checked_offsets(offsets, matrix.n_rows), rate, unit


class BallStep(compiled.BallStep):
    """Low-regret step: online gradient ascent in a ball, with lazy projection.

    For c_i(x) = offsets_i + <A_i, x> over |x| <= radius: y moves by multiples of the rows, and x is
    y, shortened to the radius.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is.
    offsets : array-like of shape (n_rows,), default=None
        None means zeros.
    radius : float, default=1.0
        Of the ball, whose centre is the origin.
    rate : float, default=1.0
        Factor on the step radius / (row_norm sqrt(2 T)) of the theory, for which `n_steps` is.
        Larger ones, up to 30, are often better.
    row_norm : float, default=None
        The largest norm of a row. None: found by a pass when a solution begins.

    Examples
    --------
    The point of the unit ball whose least product with two rows is largest:

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import BallStep, L2Sampler
    >>> A = np.eye(2)
    >>> step = BallStep(A, rate=10.0, row_norm=1.0)
    >>> result = solve_primal_dual(step, L2Sampler(A), epsilon=0.05, random_state=0)
    >>> bool(abs(result.x - np.sqrt(0.5)).max() < 0.1)
    True
    """

    def __init__(self, A, offsets=None, *, radius=1.0, rate=1.0, row_norm=None):
        check_number("radius", radius, low=0, open_low=True)
        super().__init__(*_checked_step(A, offsets, rate, row_norm, "row_norm"), radius)
        self.source, self.scales = A, [("row_norm", row_norm)]


class SimplexStep(compiled.SimplexStep):
    """Low-regret step: multiplicative weights over the simplex.

    For c_i(x) = offsets_i + <A_i, x>, x not negative and of sum 1.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is.
    offsets : array-like of shape (n_rows,), default=None
        None means zeros.
    rate : float, default=1.0
        Factor on the rate sqrt(log(n_columns) / T) / largest of the theory, for which `n_steps` is.
    largest : float, default=None
        The largest absolute entry of A. None: found by a pass when a solution begins.

    Examples
    --------
    Rock, paper, scissors: the best mixture is even, and wins nothing against any.

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import L1Sampler, SimplexStep
    >>> A = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
    >>> step = SimplexStep(A, largest=1.0)
    >>> result = solve_primal_dual(step, L1Sampler(A), epsilon=0.1, random_state=0)
    >>> bool(-0.1 <= result.primal <= 0), bool(abs(result.x - 1 / 3).max() < 0.15)
    (True, True)
    """

    def __init__(self, A, offsets=None, *, rate=1.0, largest=None):
        super().__init__(*_checked_step(A, offsets, rate, largest, "largest"))
        self.source, self.scales = A, [("largest", largest)]


class MeanStep(compiled.MeanStep):
    """Low-regret step for strongly concave functions: the mean of the rows seen.

    For c_i(x) = offsets_i + 2 <A_i, x> - |x|^2 over all x, as in enclosing balls, whose offsets are
    -|A_i|^2, and simplex QPs. The mean is the best fixed point in hindsight: follow the leader.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is.
    offsets : array-like of shape (n_rows,), default=None
        None means zeros.
    row_norm : float, default=None
        The largest norm of a row. None: found by a pass if `n_steps` is asked.

    Examples
    --------
    The smallest ball around three points, minus whose squared radius is the maximum:

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import L2Sampler, MeanStep
    >>> A = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5]])
    >>> offsets = -np.sum(A**2, axis=1)
    >>> step, sampler = MeanStep(A, offsets), L2Sampler(A, offsets, quadratic=True)
    >>> result = solve_primal_dual(step, sampler, epsilon=0.1, random_state=0)
    >>> bool(-1.1 <= result.primal <= -1), bool(abs(result.x).max() < 0.4)
    (True, True)
    """

    def __init__(self, A, offsets=None, *, row_norm=None):
        super().__init__(*_checked_step(A, offsets, 1.0, row_norm, "row_norm"))
        self.source = A


class _ColumnSampler(compiled.CompiledSampler):
    """What the compiled samplers share."""

    _squared = True

    def __init__(self, A, offsets=None, *, quadratic=False, scale=None):
        check_flag("quadratic", quadratic)
        check_number("scale", scale, low=0, open_low=True, optional=True)
        matrix = as_matrix(checked_data(A))
        offsets = _checked_offsets(offsets, matrix.n_rows)
        super().__init__(matrix, offsets, quadratic, self._squared, scale)
        self.source, self.scales = A, [("scale", scale)]
        self.is_quadratic = bool(quadratic)


class L2Sampler(_ColumnSampler):
    """Sampler: one column, drawn by x_j^2.

    Estimates <A_i, x> by A_ij |x|^2 / x_j, of variance at most |A_i|^2 |x|^2.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is; sparse data also gets a copy in column
        order.
    offsets : array-like of shape (n_rows,), default=None
        None means zeros.
    quadratic : bool, default=False
        Whether c_i(x) is offsets_i + 2 <A_i, x> - |x|^2, not offsets_i + <A_i, x>.
    scale : float, default=None
        About the largest |c_i(x)|. None: the larger of the largest |offsets_i| and the largest
        |A_i|, its square if quadratic, found by a pass when a solution begins.

    Examples
    --------
    Estimates are right on average:

    >>> import numpy as np
    >>> from sublinear.primal_dual import L2Sampler
    >>> A, x = np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([0.6, 0.8])
    >>> sampler, random = L2Sampler(A), np.random.default_rng(0)
    >>> sampler.start()
    >>> estimates = np.mean([sampler.sample(x, random) for _ in range(10_000)], axis=0)
    >>> bool(abs(estimates - A @ x).max() < 0.1)
    True
    """


class L1Sampler(_ColumnSampler):
    """Sampler: one column, drawn by |x_j|.

    Estimates <A_i, x> by A_ij |x|_1 sign(x_j); for x in the simplex these are entries of A.

    Parameters
    ----------
    A : {array-like, sparse matrix, DualStore, FeatureOracle} of shape (n_rows, n_columns)
        Dense or CSR, float32 or float64, is used as it is; sparse data also gets a copy in column
        order.
    offsets : array-like of shape (n_rows,), default=None
        None means zeros.
    quadratic : bool, default=False
        Whether c_i(x) is offsets_i + 2 <A_i, x> - |x|^2, not offsets_i + <A_i, x>.
    scale : float, default=None
        About the largest |c_i(x)|. None: the larger of the largest |offsets_i| and the largest
        |A_ij|, if quadratic the largest |A_i|^2, found by a pass when a solution begins.

    Examples
    --------
    Estimates at a point of the simplex are columns of A:

    >>> import numpy as np
    >>> from sublinear.primal_dual import L1Sampler
    >>> A, x = np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([0.25, 0.75])
    >>> sampler, random = L1Sampler(A), np.random.default_rng(0)
    >>> sampler.start()
    >>> sampler.sample(x, random).tolist() in A.T.tolist()
    True
    """

    _squared = False


@dataclass(frozen=True, repr=False)
class PrimalDualResult(Result):
    """What `solve_primal_dual` found: a Result with both players.

    Attributes
    ----------
    x : ndarray of shape (n,), float64
        The point that reaches `primal`.
    p : ndarray of shape (n_rows,), float64
        Not negative, of sum 1: the weights that prove `dual`.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import BallStep, L2Sampler
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    >>> result = solve_primal_dual(BallStep(A), L2Sampler(A), epsilon=0.1, random_state=0)
    >>> bool(np.isclose(result.primal, (A @ result.x).min()))
    True
    >>> bool(np.isclose(result.dual, np.linalg.norm(A.T @ result.p)))  # the maximum over the ball
    True
    """

    x: np.ndarray = field(default=None, repr=False)
    p: np.ndarray = field(default=None, repr=False)


def _is_number(value):
    """Tell whether a user's object returned one real number, which may be infinite or NaN."""
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf"


class _Certificates(BaseObjective):
    """The problem as the solver wants it: minus the values of c, and what they cost."""

    def __init__(self, low_regret, sampler, needs_bound):
        self.low_regret, self.sampler, self.needs_bound = low_regret, sampler, needs_bound
        self.accesses = self.full_accesses = 0
        self.has_bound = False

    def counted(self, call, *arguments):
        """Call; what the blocks read meanwhile is counted here."""
        before = self._read()
        result = call(*arguments)
        read = self._read()
        self.accesses += read[0] - before[0]
        self.full_accesses += read[1] - before[1]
        return result

    def _read(self):
        one, other = self.low_regret, self.sampler
        return one.accesses + other.accesses, one.full_accesses + other.full_accesses

    def least(self, x):
        """Return min_i c_i(x)."""
        values = self.counted(self.sampler.values, x)
        if values is None:
            raise ValueError(
                "the sampler has no values(x), which certificates need: add it, or use "
                'certify="sampled" or None'
            )
        n_rows = self.sampler.n_rows
        return compiled.checked(values, n_rows, "what the sampler's values() returns").min()

    def certificate(self, x, p):
        # whoever keeps or changes what they are shown must not change what is returned
        x, p = read_only(x.view()), read_only(p.view())
        bound = self.counted(self.low_regret.bound, p)
        if not (_is_number(bound) and bound > -math.inf):
            raise ValueError(f"bound(p) of the low-regret step must be a number, got {bound!r}")
        self.has_bound = self.has_bound or bound < math.inf
        if bound == math.inf and isinstance(self.low_regret, compiled.CompiledStep):
            raise ValueError("sums of A left the range of floating-point numbers: scale A down")
        if bound == math.inf and self.needs_bound:
            raise ValueError(
                'the low-regret step has no bound(p), which certify="las_vegas" needs: add it, or '
                'use certify="exact" or None'
            )
        return -self.least(x), -float(bound)


class _SampledCertificates(_Certificates):
    """The same from estimates: Corollary II.9 for any sampler."""

    def __init__(self, low_regret, sampler, error, failure, random):
        super().__init__(low_regret, sampler, False)
        self.error, self.failure, self.random = error, failure, random

    def least(self, x):
        """Return a bound below min_i c_i(x); min_i c_i(x) itself if it costs less."""
        sampler = self.sampler
        deviation = self.counted(sampler.deviation, x)
        if not (_is_number(deviation) and 0 <= deviation < math.inf):
            raise ValueError(
                "deviation(x) of the sampler must be a finite number, not negative, got "
                f"{deviation!r}"
            )
        size, groups = samples_for(float(deviation), self.error, self.failure, sampler.n_rows)
        columns = isinstance(sampler, compiled.CompiledSampler)
        if columns and size * groups >= sampler.matrix.n_columns:
            return super().least(x)
        if size * groups > MOST_STEPS:
            raise ValueError(
                f"a certificate would take {size * groups:.1g} samples of deviation {deviation:g}: "
                "raise epsilon"
            )
        means = np.zeros((groups, sampler.n_rows))
        for mean in means:
            for _ in range(size):
                estimates = self.counted(sampler.sample, x, self.random)
                mean += compiled.checked(
                    estimates, sampler.n_rows, "what the sampler's sample() returns"
                )
        return np.median(means / size, axis=0).min() - self.error


@with_parameters()
def solve_primal_dual(
    low_regret,
    sampler,
    epsilon=0.05,
    *,
    certify="las_vegas",
    delta=0.1,
    constants="practical",
    max_iter=None,
    max_accesses=None,
    random_state=None,
    callback=None,
):
    """Maximise min_i c_i(x), from a low-regret step and a sampler.

    The generic sublinear primal-dual method: in each step the sampler estimates all c_i(x), weights
    p of the low ones grow, a row i is drawn by p, and the low-regret step sees c_i. The mean of x
    solves the problem.

    Parameters
    ----------
    low_regret : LowRegretStep
        `BallStep`, `SimplexStep` or `MeanStep` of `sublinear.primal_dual`, or a user's own subclass
        of `LowRegretStep`.
    sampler : Sampler
        `L2Sampler`, `L1Sampler`, or a user's own subclass of `Sampler`.
    epsilon : float, default=0.05
        How far from the maximum the mean of x may be, absolute.
    certify : {"las_vegas", "exact", "sampled"} or None, default="las_vegas"
        "las_vegas": go on, in rounds of doubling length, until a certificate proves epsilon; it
        needs `sampler.values` and `low_regret.bound`. "exact": the number of steps that epsilon
        asks for, and one certificate. None: the same without. "sampled": a certificate without
        `sampler.values`. `primal` is a bound that holds with probability 1 - `delta`: the least of
        medians of means of about 80 (deviation / epsilon)^2 log(n / delta) samples, less
        epsilon / 2 (Corollary II.9), and that of `values` where compiled samplers need no more
        columns for them. `dual` always holds; it is that of the rows drawn, the only ones
        read for it.
    delta : float, default=0.1
        With what probability certify="sampled" may be wrong.
    constants : {"practical", "theory"}, default="practical"
        eta = c sqrt(log(n) / T) with c = 1/2, or 1/100 and fewer steps, as in the paper: for
        study, since in so few steps p hardly moves, and hard problems of practical size end 3 to 20
        epsilon off.
    max_iter : int, default=None
        Limit on steps. None: with certify="las_vegas" a hundred times the number that epsilon asks
        for, at least a million; else that number, the larger of low_regret.n_steps(epsilon / 2)
        and 32 log(n) (scale / epsilon)^2, or, with constants="theory", of
        low_regret.n_steps(epsilon) and log(n) (scale / epsilon)^2.
    max_accesses : int, default=None
        Limit on values read by the steps, never exceeded; both blocks must know `most_accesses`.
    %(draws)s
    callback : callable, default=None
        Called with a Snapshot at every certificate, whose `coef` is x; stops by returning True.

    Returns
    -------
    result : PrimalDualResult
        A `Result` with x and p. `primal` is min_i c_i(x), `dual`, max_x sum_i p_i c_i(x), bounds
        the maximum from above, and `gap` is their difference.

    Raises
    ------
    ValueError
        For parameters, data or blocks that make no sense; the message says what to do.

    Notes
    -----
    Figure 4 of Clarkson, Hazan, Woodruff, "Sublinear optimization for machine learning" (2010).
    Compiled blocks run together without the interpreter; with a user's own a step takes some tens
    of microseconds more.

    Examples
    --------
    The largest margin of four points, as the perceptron finds it:

    >>> import numpy as np
    >>> from sublinear import solve_primal_dual
    >>> from sublinear.primal_dual import BallStep, L2Sampler
    >>> A = np.array([[1.0, 0.2], [0.8, -0.1], [0.9, 0.0], [1.0, -0.3]])
    >>> result = solve_primal_dual(BallStep(A), L2Sampler(A), epsilon=0.05, random_state=0)
    >>> result.status, bool(result.primal >= 0.74)
    ('converged', True)
    """
    settings = SimpleNamespace(**locals())
    _check_parameters(settings)
    epsilon = float(epsilon)  # blocks square numbers that would leave the range of float32
    in_rounds = certify == "las_vegas"
    seeds = seed_sequence(random_state)
    problem = _Certificates(low_regret, sampler, in_rounds)
    if certify == "sampled":
        random = np.random.default_rng(seeds.spawn(1)[0])
        problem = _SampledCertificates(low_regret, sampler, epsilon / 2, delta, random)
    asked = _steps_asked(problem, epsilon, constants)
    first, max_steps = round_lengths(
        asked,
        max_iter,
        in_rounds=in_rounds,
        usual=100 * asked,
        theory=constants == "theory",
    )
    solver = _started(
        problem,
        RandomBits(seeds),
        dual_rate=DUAL_RATES[constants],
        round_steps=first,
        growth=2 if in_rounds else 1,
        max_steps=max_steps,
        by_draws=certify == "sampled",
    )
    limits = Limits(
        epsilon,
        max_steps,
        max_accesses or math.inf,
        certify=certify is not None,
        absolute=True,
        maximise=True,
        by_tol=not in_rounds and max_steps >= asked,
    )
    observe = partial(call_back, callback)
    x, result, errors = drive(solver, limits, observe=observe)
    if errors:
        raise errors.pop()
    _warn_of_gap(problem, settings, result, limits)
    p = solver.best_distribution()
    sources = [getattr(block, "source", None) for block in (low_regret, sampler)]
    result = named(result, sources[0] if sources[0] is sources[1] else None)
    return PrimalDualResult(**vars(result), x=x, p=p / p.sum())


def _steps_asked(problem, epsilon, constants):
    """Start the sampler; return the number of steps that epsilon asks for."""
    sampler = problem.sampler
    problem.counted(sampler.start)
    check_number("the sampler's n_rows", getattr(sampler, "n_rows", None), low=1, integer=True)
    check_number("the sampler's scale", sampler.scale, low=0, open_low=True)
    share, factor = SHARES[constants]
    regret = share * epsilon
    n_steps = problem.counted(problem.low_regret.n_steps, regret)
    if not (_is_number(n_steps) and n_steps >= 0):
        raise ValueError(
            "n_steps(epsilon) of the low-regret step must be a number, not negative, got "
            f"{n_steps!r}"
        )
    return max(
        n_steps,
        factor * math.log(max(2, sampler.n_rows)) * squared(sampler.scale / regret),
    )


def _started(problem, random, *, round_steps, **settings):
    """Start the low-regret step; return the solver."""
    low_regret = problem.low_regret
    problem.counted(low_regret.start, round_steps)
    if not hasattr(low_regret, "x"):
        raise ValueError("the low-regret step has no point: start(n_steps) must set x")
    return compiled.GenericPrimalDual(
        problem, low_regret, problem.sampler, random, round_steps=round_steps, **settings
    )


def _warn_of_gap(problem, settings, result, limits):
    """Warn where a run ended before epsilon was proved, and say what to do."""
    advice = None
    if result.status == "max_iter" and math.isinf(result.dual):
        advice = "The low-regret step has no bound(p), without which nothing is proved."
        if problem.has_bound:
            advice = (
                "bound(p) of the low-regret step was below the least of the sampler's values: are "
                "both for the same functions?"
            )
    blocks = problem.low_regret, problem.sampler
    scales = [scale for block in blocks for scale in getattr(block, "scales", ())]
    warn_of_gap(settings, result, limits, name="solve_primal_dual", advice=advice, scales=scales)


def _check_parameters(settings):
    for name, kind in (("low_regret", compiled.LowRegretStep), ("sampler", compiled.Sampler)):
        block = getattr(settings, name)
        if not isinstance(block, kind):
            raise ValueError(
                f"{name} must be an instance of a subclass of "
                f"sublinear.primal_dual.{kind.__name__}, got {block!r}"
            )
        compiled.check_made(block)
        if settings.max_accesses is not None and block.most_accesses < 0:
            raise ValueError(
                f"max_accesses needs {name}.most_accesses, the most that one call reads: set it"
            )
    _check_same_functions(settings.low_regret, settings.sampler)
    check_number("epsilon", settings.epsilon, low=0, open_low=True)
    check_choice("constants", settings.constants, CONSTANTS)
    check_choice("certify", settings.certify, CERTIFY, optional=True)
    for name in ("max_iter", "max_accesses"):
        check_number(name, getattr(settings, name), low=1, integer=True, optional=True)
    check_number("delta", settings.delta, low=0, high=1, open_low=True)
    check_run_parameters(settings)


def _check_same_functions(low_regret, sampler):
    """Raise ValueError where compiled blocks are known to be for different c_i.

    One's values and the other's bound would prove nothing then.
    """
    blocks = isinstance(low_regret, compiled.CompiledStep), isinstance(sampler, _ColumnSampler)
    if not all(blocks) or low_regret.matrix.n_rows != sampler.n_rows:  # refused by the solver
        return
    quadratic = isinstance(low_regret, compiled.MeanStep)
    if quadratic != sampler.is_quadratic:
        raise ValueError(
            f"{type(low_regret).__name__} needs a sampler with quadratic={quadratic}: "
            "both have to be for the same functions"
        )
    zero = np.zeros(sampler.n_rows)
    offsets = [zero if block.offsets is None else block.offsets for block in (low_regret, sampler)]
    if not np.array_equal(*offsets):
        raise ValueError("low_regret and sampler must have the same offsets")
