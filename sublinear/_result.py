"""What a fit reports."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sublinear._core.pace import relative_gap
from sublinear._core.states import reading, take


class TraceRow(NamedTuple):
    """One certificate on the way.

    Attributes
    ----------
    n_iter : int
        Epochs completed; draws, steps, rounds or passes where the estimator's `n_iter_` says so.
    accesses : int
        Feature values the solver had read; kernel evaluations for kernel machines.
    seconds : float
        Wall clock since the solver started, certificates included.
    primal, dual, gap : float

    Examples
    --------
    >>> from sublinear import SDCAClassifier
    >>> model = SDCAClassifier(random_state=0).fit([[1.0], [-1.0]], [1, 0])
    >>> row = model.result_.trace[-1]
    >>> row.gap == row.primal - row.dual
    True
    """

    n_iter: int
    accesses: int
    seconds: float
    primal: float
    dual: float
    gap: float


@dataclass(frozen=True)
class Result:
    """How a fit ended, with the certificate of the model it returned.

    Attributes
    ----------
    primal : float
        The objective at the returned model; NaN if the fit was cut short before it was known.
    dual : float
        A lower bound on the optimal objective, an upper one where it is maximised (margins);
        -inf or inf if unknown.
    gap : float
        |primal - dual|: the returned model is at most this far from optimal; inf if unknown.
    status : str
        "converged"; "max_iter" or "max_accesses", the limit reached, "max_iter" also where epsilon
        decides how many steps there are; "rounding", if rounding errors are most of the gap, which
        is above the tolerance; "stopped" by a callback; "interrupted" by Ctrl-C or by an error in a
        callback; "diverged", the best model kept; "partial_fit" and
        "uncertified", not certified; "reduced", by `max_support`, to a gap above the tolerance;
        "not_separable": no hyperplane has a margin above `dual`, which is at most epsilon.
    n_iter : int
        Epochs completed; draws, steps, rounds or passes where the estimator's `n_iter_` says so.
    accesses : int
        Feature values read by the solver; kernel evaluations for kernel machines.
    certificate_accesses : int
        The same for certificates, counted apart.
    seconds : float
        Wall clock of the solver and its certificates.
    trace : tuple of TraceRow
        One row per certificate; ``pandas.DataFrame(result.trace)`` makes a table of it. Empty where
        classes are fitted apart: ``for part in result.parts: part.trace``.
    full_accesses : int or None
        `accesses` with every row charged n_features and every column n_samples, whatever they
        store, where lines of both kinds are read.
    bytes_read : int or None
        Bytes of a `DualStore` that solver and certificates asked for, values and, where sparse,
        their indices; the system reads whole pages, and keeps them. None for other data.
    parts : tuple of Result
        Of several problems: the result of every class, or pair of classes. Values, gaps, accesses
        and bytes are summed above, `n_iter` is the largest, `status` the worst, `seconds` that of
        the whole fit. Empty otherwise.

    Examples
    --------
    >>> from sublinear import SDCAClassifier
    >>> model = SDCAClassifier(alpha=0.1, random_state=0).fit([[1.0], [-1.0]], [1, 0])
    >>> result = model.result_
    >>> result.status, result.gap == result.primal - result.dual
    ('converged', True)
    """

    primal: float
    dual: float
    gap: float
    status: str
    n_iter: int
    accesses: int
    certificate_accesses: int
    seconds: float
    trace: tuple[TraceRow, ...] = ()
    full_accesses: int | None = None
    bytes_read: int | None = None
    parts: tuple["Result", ...] = ()

    @property
    def relative_gap(self):
        """gap / |primal|, what `tol` is compared with; a |primal| below 1e-300 counts as that."""
        return relative_gap(self.primal, self.gap)

    def __repr__(self):
        return (
            f"{type(self).__name__}(status={self.status!r}, primal={self.primal:.6g}, "
            f"gap={self.gap:.3g}, n_iter={self.n_iter}, accesses={self.accesses:.4g}, "
            f"seconds={self.seconds:.3g})"
        )


def array_of_trace(trace):
    """Return TraceRows as an array."""
    return np.array(trace, dtype=np.float64).reshape(-1, len(TraceRow._fields))


def trace_of(state):
    """Return the list of TraceRows of an `array_of_trace`, the entry `trace` of a state."""
    like = np.full((1, len(TraceRow._fields)), np.nan)
    rows = take(state, "trace", like, any_length=True).tolist()
    with reading(state, "trace"):
        return [TraceRow(int(row[0]), int(row[1]), *row[2:]) for row in rows]


# from the best end of a fit to the worst
STATUSES = (
    "converged",
    "partial_fit",
    "uncertified",
    "not_separable",
    "stopped",
    "reduced",
    "max_accesses",
    "max_iter",
    "rounding",
    "diverged",
    "interrupted",
)


def not_begun(maximise):
    """Return the Result of a problem that an interrupt kept from starting: nothing is known."""
    bound = math.inf if maximise else -math.inf
    return Result(math.nan, bound, math.inf, "interrupted", 0, 0, 0, 0.0)


def combine(parts, seconds):
    """Return the Result of independent problems: sums, the longest run and the worst status."""
    return Result(
        primal=sum(part.primal for part in parts),
        dual=sum(part.dual for part in parts),
        gap=sum(part.gap for part in parts),
        status=max((part.status for part in parts), key=STATUSES.index),
        n_iter=max(part.n_iter for part in parts),
        accesses=sum(part.accesses for part in parts),
        certificate_accesses=sum(part.certificate_accesses for part in parts),
        seconds=seconds,
        full_accesses=_total("full_accesses", parts),
        bytes_read=_total("bytes_read", parts),
        parts=tuple(parts),
    )


def with_earlier(earlier, last):
    """Return the Result of a block of a stream with what those before it took added to it."""
    names = "n_iter", "accesses", "certificate_accesses", "seconds", "full_accesses", "bytes_read"
    parts = (with_earlier(*pair) for pair in zip(earlier.parts, last.parts, strict=True))
    totals = {name: _total(name, (earlier, last)) for name in names}
    return replace(last, **totals, parts=tuple(parts))


def _total(name, results):
    """Return the sum of a figure, None where one of the results does not know it."""
    values = [getattr(result, name) for result in results]
    return None if None in values else sum(values)
