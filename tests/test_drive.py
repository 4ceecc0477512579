"""The outer loop with a solver in plain Python: limits, schedule, trace, stopping, interrupts."""

import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from sublinear import _certified_model, _drive
from sublinear._certified_model import solve_all
from sublinear._core.pace import relative_gap
from sublinear._core.solver import BaseObjective, Solver
from sublinear._drive import LEAST_WORK, Limits, Snapshot, as_stored, drive
from sublinear._result import TraceRow, combine


class FakeObjective(BaseObjective):
    accesses = 0

    def at_zeros(self):
        return np.zeros(2), 3.0, 0.0


class FakeSolver(Solver):
    """Its gap falls by half every epoch: primal 2 + 2^-k, dual 2 - 2^-k after epoch k.

    An epoch reads `rows` rows of `row` values each. `estimate` times the true relative gap is the
    estimate; `primals` replaces the primal values of the certificates.
    """

    certificate_growth = 2.0

    def __init__(self, rows=10, row=20_000, estimate=math.inf, primals=(), keeps_best=True):
        self.rows, self.row, self.estimate, self.keeps_best = rows, row, estimate, keeps_best
        self.primals = list(primals)
        self.accesses = self.n_visited = self.n_certificates = 0
        self.limits = []
        self.objective = FakeObjective()
        self.w = np.array([1.0, 0.1])

    @property
    def n_iter(self):
        return self.n_visited // self.rows

    @property
    def work(self):
        return self.accesses + self.n_visited

    @property
    def gap(self):
        return 2 * 0.5**self.n_iter

    @property
    def estimated_gap(self):
        return self.estimate * self.gap / 2 if self.n_iter else math.inf

    def advance(self, limit):
        self.limits.append(limit)
        epoch = self.n_iter
        while self.n_iter == epoch and self.accesses + self.row <= limit:
            self.accesses += self.row
            self.n_visited += 1
            self.w = np.array([1.0, 0.1]) * (1 + self.n_visited)
        return self.n_iter > epoch

    def certify(self, rounded):
        self.objective.accesses += self.rows * self.row
        self.n_certificates += 1
        primal = self.primals.pop(0) if self.primals else 2 + self.gap / 2
        return rounded(self.w), primal, 2 - self.gap / 2

    def model(self):
        return self.w


def run(solver, limits, **options):
    model, result, errors = drive(solver, limits, **options)
    assert not errors
    return model, result


def without_seconds(trace):
    return [row._replace(seconds=0) for row in trace]


def test_it_stops_at_the_gap():
    solver = FakeSolver()
    model, result = run(solver, Limits(tol=1e-3))
    assert result.status == "converged"
    assert result.relative_gap <= 1e-3
    assert result.gap == result.primal - result.dual
    assert (result.n_iter, result.accesses) == (solver.n_iter, solver.accesses)
    assert result.certificate_accesses == solver.objective.accesses
    last = result.trace[-1]
    assert (last.primal, last.dual, last.gap) == (result.primal, result.dual, result.gap)
    assert (last.n_iter, last.accesses) == (result.n_iter, result.accesses)
    assert all(relative_gap(row.primal, row.gap) > 1e-3 for row in result.trace[:-1])
    np.testing.assert_array_equal(model, solver.w)


def test_a_value_known_beforehand_ends_a_fit_that_reports_its_own():
    solver = FakeSolver()
    solver.objective.attained = 2.001
    _, result = run(solver, Limits(tol=0.1, absolute=True))
    assert result.status == "converged"
    assert result.n_iter == 4 and result.gap > 0.1


def test_the_trace_rises():
    _, result = run(FakeSolver(), Limits(tol=1e-6))
    trace = np.array(result.trace)
    assert trace.shape[1] == len(TraceRow._fields)
    for column in ("n_iter", "accesses", "seconds", "dual"):
        assert (np.diff(trace[:, TraceRow._fields.index(column)]) >= 0).all()
    assert result.seconds >= result.trace[-1].seconds >= 0


def looking(estimate):
    """Return a solver that can look, and the epochs at whose ends it will have looked."""
    solver, epochs = FakeSolver(estimate=estimate), []
    solver.certificate_growth = 1e9

    def look():
        epochs.append(solver.n_iter)
        return solver.gap / 2  # the relative one, nearly

    solver.look = look
    return solver, epochs


def test_a_look_decides_where_a_solver_can_look():
    """A rough estimate that promises too much costs looks, not certificates."""
    solver, looked_at = looking(estimate=1.0)
    _, result = run(solver, Limits(tol=1e-3))
    assert result.status == "converged"
    assert solver.n_certificates == 1
    assert len(looked_at) > 1 and looked_at[-1] == result.n_iter


def test_looks_that_miss_nearly_all_are_believed_less_and_less():
    solver, _ = looking(estimate=1.0)
    solver.look = lambda: 1e-4 * solver.gap / 2
    _, result = run(solver, Limits(tol=2.0**-40, max_iter=100))
    assert result.status == "converged"
    assert solver.n_certificates <= 6
    assert result.n_iter == 40  # where the gap is within tol


def test_looks_come_without_hope_too_and_correct_the_estimate():
    """One comes after the first epoch, however little the estimate promises."""
    solver, looked_at = looking(estimate=1e6)
    _, result = run(solver, Limits(tol=2.0**-12, max_iter=100))
    assert looked_at[0] == 1
    # from then on the estimate is right; looks come half way, and where it is near tol
    assert (looked_at[-1], solver.n_certificates) == (result.n_iter, 1)
    assert result.n_iter == 12
    assert len(looked_at) <= 6


class PassingSolver(FakeSolver):
    """A FakeSolver that passes over the ends of epochs it need not return at."""

    quiet = 0.0, math.inf, 0.0

    def be_quiet_until(self, *quiet):
        self.quiet = quiet

    def advance(self, limit):
        work, gap, n_iter = self.quiet
        while super().advance(limit):
            if not (self.work < work and self.estimated_gap > gap and self.n_iter < n_iter):
                return True
        return False


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("estimate", [math.inf, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("rows, row", [(1, 100), (10, 1000), (10, 20_000)])
@pytest.mark.parametrize("limits", [{}, {"max_iter": 13}, {"max_accesses": 123_456}])
def test_ends_that_are_passed_over_would_have_changed_nothing(looks, estimate, rows, row, limits):
    found = []
    for kind in FakeSolver, PassingSolver:
        solver = kind(rows, row, estimate)
        if looks:
            solver.look = lambda solver=solver: solver.gap / 2
        model, result = run(solver, Limits(tol=1e-9, **limits))
        found.append((model.tolist(), result.status, without_seconds(result.trace)))
    assert found[0] == found[1]


@pytest.mark.parametrize("epochs", [1, 2, 7])
def test_max_epochs(epochs):
    _, result = run(FakeSolver(), Limits(tol=0, max_iter=epochs))
    assert (result.status, result.n_iter) == ("max_iter", epochs)
    assert result.trace[-1].n_iter == epochs
    assert result.gap == 2 * 0.5**epochs


@pytest.mark.parametrize("budget", [1, 19_999, 20_000, 150_000, 200_000, 1_234_567])
def test_the_budget_is_never_exceeded(budget):
    solver = FakeSolver()
    _, result = run(solver, Limits(tol=0, max_accesses=budget))
    assert result.status == "max_accesses"
    assert max(solver.limits) <= budget
    assert result.accesses == budget - budget % 20_000  # up to the last row that fits
    assert result.trace[-1].accesses == result.accesses
    assert math.isfinite(result.primal)


def test_convergence_wins_over_a_limit_at_the_same_place():
    _, result = run(FakeSolver(), Limits(tol=0.13, max_iter=3))
    assert result.status == "converged"
    assert result.n_iter == 3


def test_a_row_longer_than_the_first_slice():
    """Slices grow until a row fits."""
    solver = FakeSolver(rows=2, row=50 * LEAST_WORK)
    _, result = run(solver, Limits(tol=1e-2))
    assert result.status == "converged"


def test_the_first_slice_is_short_unless_the_solver_says_how_long():
    solver = FakeSolver(rows=100, row=100)
    run(solver, Limits(tol=0, max_iter=1))
    assert solver.limits[0] == 1
    solver = FakeSolver(rows=100, row=100)
    solver.first_slice = 100 * 100
    _, result = run(solver, Limits(tol=0, max_iter=1))
    assert (result.n_iter, solver.limits) == (1, [100 * 100])


def test_rows_without_entries():
    solver = FakeSolver(row=0)
    _, result = run(solver, Limits(tol=0, max_iter=50))
    assert (result.status, result.n_iter, result.accesses) == ("max_iter", 50, 0)


@pytest.mark.parametrize("rows", [10, 1000])
@pytest.mark.parametrize("estimate", [math.inf, 1e6])
def test_certificates_become_rare(estimate, rows):
    """They come on a geometric schedule of the solver's work."""
    solver = FakeSolver(rows=rows, row=2000, estimate=estimate)
    _, result = run(solver, Limits(tol=0, max_iter=500))
    work = np.array([row.accesses for row in result.trace], dtype=float)
    assert 3 <= solver.n_certificates == len(work) <= 30
    assert (np.diff(work)[:-1] >= 0.9 * LEAST_WORK).all()
    growth = work[1:-1] / work[:-2]
    late = work[1:-1] > 20 * max(LEAST_WORK, rows * 2000)
    assert (growth[late] < 4).all()
    assert (growth[late] > 1.3).all()


def test_an_estimate_brings_the_certificate_at_once():
    """A solver that knows its gap is certified in the epoch after it reached tol."""
    blind, knowing = FakeSolver(row=100_000), FakeSolver(row=100_000, estimate=1.0)
    _, late = run(blind, Limits(tol=2**-30))
    _, early = run(knowing, Limits(tol=2**-30))
    assert early.status == late.status == "converged"
    assert early.n_iter <= 31 < late.n_iter
    assert knowing.n_certificates <= 8


def test_an_estimate_that_is_far_off_is_corrected():
    """Too low by 10^5 it would ask for a certificate in every epoch."""
    solver = FakeSolver(row=100_000, estimate=1e-5)
    _, result = run(solver, Limits(tol=2**-40))
    assert result.status == "converged"
    assert result.n_iter <= 45
    assert solver.n_certificates <= 10


def test_the_clock_decides_nothing(monkeypatch):
    """Slow and fast machines get the same trace, only the size of the slices differs."""
    traces, slices = [], []
    for seconds in (1e-6, 0.01, 10.0):
        clock = itertools.count()
        monkeypatch.setattr(
            _drive, "time", SimpleNamespace(perf_counter=lambda c=clock, s=seconds: next(c) * s)
        )
        solver = FakeSolver(rows=1000, row=5000)
        _, result = run(solver, Limits(tol=1e-7, max_accesses=10**9))
        traces.append(without_seconds(result.trace))
        slices.append(len(solver.limits))
    assert traces[0] == traces[1] == traces[2]
    assert slices[0] < slices[2]


def test_slices_that_epochs_cut_short_do_not_grow():
    """A solver that is quiet later on would not hear an interrupt for as long."""
    granted = []

    class Short(FakeSolver):
        def advance(self, limit):
            granted.append(limit - self.accesses)
            return super().advance(limit)

    run(Short(rows=10, row=100), Limits(tol=0, max_iter=100))
    assert max(granted) <= 1000 * _drive.GROWTH**2


@pytest.mark.parametrize("count", [1, 3])
def test_the_observer_stops_the_run(count):
    seen = []

    def observe(row, model):
        seen.append((row, model))
        return len(seen) == count

    model, result = run(FakeSolver(), Limits(tol=0), observe=observe)
    assert result.status == "stopped"
    assert [row for row, _ in seen] == list(result.trace)
    assert len(seen) == count
    np.testing.assert_array_equal(seen[-1][1], model)
    assert result.primal == seen[-1][0].primal


def test_stopping_at_the_gap_is_convergence():
    _, result = run(FakeSolver(), Limits(tol=1.0), observe=lambda row, model: True)
    assert result.status == "converged"


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_errors_of_the_observer_leave_a_result(kind):
    def observe(row, model):
        if row.n_iter >= 3:
            raise kind("enough")

    model, result, errors = drive(FakeSolver(), Limits(tol=0), observe=observe)
    assert isinstance(errors.pop(), kind)
    assert result.status == "interrupted"
    assert result.trace
    assert result.primal == min(row.primal for row in result.trace)
    assert np.isfinite(model).all()


@pytest.mark.parametrize("call", [1, 2, 5])
def test_an_interrupt_between_slices(call):
    """Ctrl-C before or after the first certificate: what there is comes back, with the error."""
    calls = itertools.count(1)

    def tick(solver):
        if next(calls) == call:
            raise KeyboardInterrupt

    solver = FakeSolver(row=1)
    model, result, errors = drive(solver, Limits(tol=0), tick=tick)
    assert isinstance(errors.pop(), KeyboardInterrupt)
    assert result.status == "interrupted"
    assert result.accesses == solver.accesses > 0
    if result.trace:
        assert result.gap == pytest.approx(result.primal - result.dual)
    else:
        assert math.isnan(result.primal)
        assert (result.dual, result.gap) == (-math.inf, math.inf)
        np.testing.assert_array_equal(model, solver.model())


def test_an_interrupt_inside_a_certificate():
    solver = FakeSolver()
    certify = solver.certify

    def interrupted(rounded):
        if solver.n_certificates == 2:
            raise KeyboardInterrupt
        return certify(rounded)

    solver.certify = interrupted
    _, result, errors = drive(solver, Limits(tol=0))
    assert isinstance(errors.pop(), KeyboardInterrupt)
    assert (result.status, len(result.trace)) == ("interrupted", 2)
    assert result.primal == result.trace[-1].primal


# Ctrl-C, a handler of SIGTERM that ends the process, one of SIGALRM that ends the fit
INTERRUPTS = [KeyboardInterrupt, SystemExit, TimeoutError]


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_an_interrupt_while_threads_are_being_started(monkeypatch, interrupt):
    """Before the second problem has a thread: the first stops, the others never begin."""
    submit, calls = ThreadPoolExecutor.submit, itertools.count(1)

    def interrupted(self, *arguments):
        if next(calls) == 2:
            raise interrupt
        return submit(self, *arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    problems = [lambda stop: SimpleNamespace(stopped=stop.wait(timeout=60), errors=[])] * 3
    outcomes, errors = solve_all(problems, 2)
    assert isinstance(errors.pop(), interrupt)
    assert [outcome.stopped for outcome in outcomes] == [True] * 3


@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_an_interrupt_of_the_wait_for_threads(monkeypatch, interrupt):
    def interrupted(futures, **options):
        raise interrupt

    monkeypatch.setattr(_certified_model, "wait", interrupted)
    problems = [lambda stop: SimpleNamespace(stopped=stop.wait(timeout=60), errors=[])] * 3
    outcomes, errors = solve_all(problems, 2)
    assert isinstance(errors.pop(), interrupt)
    assert [outcome.stopped for outcome in outcomes] == [True] * 3


def test_the_stop_event():
    stop = threading.Event()
    stop.set()
    solver = FakeSolver()
    _, result = run(solver, Limits(tol=0), stop=stop)
    assert result.status == "interrupted"
    assert len(solver.limits) == 1


def test_tick_sees_every_slice():
    solver, seen = FakeSolver(), []
    run(solver, Limits(tol=1e-3), tick=lambda s: seen.append(s.accesses))
    assert len(seen) == len(solver.limits)
    assert seen == sorted(seen)


def test_without_certificates():
    solver = FakeSolver()
    model, result = run(solver, Limits(0, 1, certify=False))
    assert (result.status, result.n_iter, result.trace) == ("partial_fit", 1, ())
    assert math.isnan(result.primal)
    assert solver.n_certificates == 0
    np.testing.assert_array_equal(model, solver.w)


@pytest.mark.parametrize("certify", [True, False])
def test_the_model_is_rounded_to_the_type_it_is_stored_in(certify):
    models = []
    model, _ = run(
        FakeSolver(),
        Limits(0, 3, certify=certify),
        rounded=lambda model: as_stored(model, np.float32),
        observe=lambda row, model: models.append(model),
    )
    assert model.dtype == np.float64
    for each in [model, *models]:
        np.testing.assert_array_equal(each, each.astype(np.float32))
    assert bool(models) == certify
    assert model[1] != 0.1 * 31


@pytest.mark.parametrize("shape", [(5,), (5, 3)])
def test_the_intercept_is_what_is_rounded(shape):
    model, constant = 100 * np.random.default_rng(0).normal(size=shape), 0.3
    stored = as_stored(model, np.float32, constant)
    np.testing.assert_array_equal(stored[:-1], model[:-1].astype(np.float32))
    intercept = (constant * model[-1]).astype(np.float32)
    np.testing.assert_array_equal((constant * stored[-1]).astype(np.float32), intercept)
    np.testing.assert_allclose(constant * stored[-1], intercept.astype(float), rtol=1e-15)
    assert as_stored(model, np.float64, constant) is model


@pytest.mark.parametrize("keeps_best", [True, False])
def test_the_best_model_or_the_last(keeps_best):
    """Dual values are bounds whenever they were found; the best primal is kept if wanted."""
    solver = FakeSolver(primals=[2.5, 2.1, 2.3, 2.2], keeps_best=keeps_best)
    models = []
    model, result = run(
        solver, Limits(tol=1e-9), observe=lambda row, w: models.append(w) or len(models) == 4
    )
    primals = [row.primal for row in result.trace]
    assert primals == ([2.5, 2.1, 2.1, 2.1] if keeps_best else [2.5, 2.1, 2.3, 2.2])
    assert result.primal == primals[-1]
    np.testing.assert_array_equal(model, models[1] if keeps_best else models[3])


def test_a_gap_is_never_negative():
    _, result = run(FakeSolver(primals=[1.5 - 1e-9]), Limits(tol=0, max_iter=1))
    assert result.gap == 0 and result.dual == result.primal == 1.5 - 1e-9


def test_errors_beyond_all_numbers_leave_no_bound():
    solver = FakeSolver()
    solver.certify = lambda rounded: (solver.w, 2.0, math.inf)
    solver.objective.model_error = math.inf
    _, result = run(solver, Limits(tol=1e-3, max_iter=3))
    assert (result.status, result.dual, result.gap) == ("max_iter", -math.inf, math.inf)


@pytest.mark.parametrize("dual", [2.0, math.inf, math.nan])
@pytest.mark.parametrize("maximise", [False, True])
def test_a_dual_value_above_the_primal_one_is_no_bound(dual, maximise):
    class Rounding(FakeSolver):
        certificate_growth = 1.0

        def certify(self, rounded):
            model, primal, bound = super().certify(rounded)
            return model, primal, dual if self.n_iter == 2 else bound

    sign = -1 if maximise else 1
    _, result = run(Rounding(primals=[1.9, 1.8]), Limits(tol=0, max_iter=2, maximise=maximise))
    assert [row.dual for row in result.trace] == [sign * 1.5] * 2  # that of the first one stays
    assert result.status == "max_iter" and result.primal == sign * 1.8
    assert result.gap == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("tol", "rounding", "status"),
    [(1e-6, 1e-3, "rounding"), (0, 1e-3, "max_iter"), (1e-6, 1e-9, "converged")],
)
def test_a_gap_of_rounding_ends_the_run(tol, rounding, status):
    class Rounding(FakeSolver):
        certificate_growth = 1.0

        def certify(self, rounded):
            model, primal, dual = super().certify(rounded)
            return model, primal, dual - rounding

    solver = Rounding()
    solver.objective.rounding = rounding
    _, result = run(solver, Limits(tol=tol, max_iter=100))
    assert result.status == status
    assert len(result.trace) < 60 or tol == 0


def test_a_bound_that_a_later_model_contradicts_is_given_up():
    solver = FakeSolver(primals=[1.8, 1.3])
    solver.certificate_growth = 1.0
    _, result = run(solver, Limits(tol=0, max_iter=2))
    assert [row.dual for row in result.trace] == [1.5, -math.inf]
    assert result.gap == math.inf


def test_a_dual_value_that_is_infinite_is_no_bound():
    class Infinite(FakeSolver):
        def certify(self, rounded):
            return super().certify(rounded)[0], math.inf, math.inf

    _, result = run(Infinite(), Limits(tol=0, max_iter=2))
    assert result.gap == math.inf or result.dual < math.inf
    assert all(row.dual < math.inf for row in result.trace)


def test_bounds_from_before_rounding_is_refined_are_given_up():
    class Refining(FakeSolver):
        certificate_growth = 1.0
        most_unresolved = 1

        def certify(self, rounded):
            model, primal, _ = super().certify(rounded)
            return model, primal, 1.5 if self.objective.is_exact else 1.9

        def refine(self):
            self.objective.is_exact, self.objective.rounding = True, 0.0
            return True

    solver = Refining(primals=[2.0, 2.0, 2.0])
    solver.objective.is_exact, solver.objective.rounding = False, 1.0
    _, result = run(solver, Limits(tol=1e-6, max_iter=3))
    assert [row.dual for row in result.trace] == [1.9, 1.5, 1.5]


def test_the_dual_value_of_zeros_is_a_bound_too():
    class Low(FakeSolver):
        def certify(self, rounded):
            model, primal, _ = super().certify(rounded)
            return model, primal, -5.0

    _, result = run(Low(primals=[1.8]), Limits(tol=0, max_iter=1))
    assert result.dual == 0 and result.gap == result.primal == 1.8
    assert result.trace[-1].dual == 0


@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_divergence_ends_the_run(epochs):
    """Zero weights, of objective 2.4, are the model unless a certified one is better."""

    class Diverging(FakeSolver):
        diverged = property(lambda self: self.n_iter > epochs)

        def certify(self, rounded):
            model, primal, dual = super().certify(rounded)
            return model, math.inf if self.diverged else primal, dual

    solver = Diverging()
    solver.objective.at_zeros = lambda: (np.zeros(2), 2.4, 0.0)
    model, result = run(solver, Limits(tol=0, max_iter=100))
    assert (result.status, result.n_iter) == ("diverged", epochs + 1)
    before = [row.primal for row in result.trace if row.n_iter <= epochs]
    assert result.primal == min([2.4, *before])
    assert model.any() == (result.primal < 2.4)
    assert result.gap == result.primal - result.dual


@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_snapshot_splits_the_model(constant):
    model = np.array([1.0, 2.0, 3.0])
    row = TraceRow(4, 100, 0.5, 2.0, 1.0, 1.0)
    snapshot = Snapshot(*row, class_index=1, _model=model, _constant=constant)
    assert (snapshot.n_iter, snapshot.accesses, snapshot.gap, snapshot.class_index) == (
        4,
        100,
        1,
        1,
    )
    assert snapshot.coef.tolist() == ([1, 2] if constant else [1, 2, 3])
    assert snapshot.intercept == (6.0 if constant else 0.0)
    snapshot.coef[:] = 0
    assert model.all()


def test_combined_results():
    parts = [
        run(FakeSolver(), limits)[1]
        for limits in (Limits(1e-3), Limits(0, max_iter=2), Limits(0, max_accesses=300_000))
    ]
    whole = combine(parts, seconds=3.0)
    assert whole.status == "max_iter"
    assert whole.n_iter == max(part.n_iter for part in parts)
    for name in ("primal", "dual", "gap", "accesses", "certificate_accesses"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert whole.parts == tuple(parts)
    assert (whole.seconds, whole.trace) == (3.0, ())


def test_result_shows_itself():
    _, result = run(FakeSolver(), Limits(tol=1e-3))
    assert "status='converged'" in repr(result)
    with pytest.raises(AttributeError):
        result.gap = 0
