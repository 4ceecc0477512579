"""Partitions, their dual ascent and its estimators: in this process, and on a cluster of two."""

import contextlib
import functools
import importlib
import itertools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from reference import objective as values
from reference.cocoa import Part, cocoa
from reference.losses import LOSSES as ORACLES
from reference.orders import fisher_yates
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import sublinear
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective, balance_masses
from sublinear._core.random import RandomBits
from sublinear._drive import Limits, drive
from sublinear._newton_passes import NewtonPlan
from sublinear._solvers.proximal_newton import ProximalNewton
from sublinear.distributed import (
    PegasosClassifier,
    SDCAClassifier,
    SDCARegressor,
    StreamingSVRGClassifier,
    _cluster,
)
from sublinear.distributed._block_ascent import BlockDualAscent, DualPartition
from sublinear.distributed._certified_rounds import order_of_rows
from sublinear.distributed._cluster import contiguous_groups
from sublinear.distributed._partitions import (
    LocalPartitions,
    PartitionsLost,
    Problem,
    added_neighbours,
    sum_of,
)
from sublinear.sources import ArraySource

COMBINATIONS = ("safe", "adaptive")
EXACT = {"alpha": 0.05, "tol": 1e-12, "random_state": 0}
CLOSE = {"alpha": 0.05, "tol": 1e-4, "random_state": 0}
SHORT = {"alpha": 0.05, "tol": 0, "max_iter": 8, "random_state": 0}
NO_LIMIT = 2**62


def spawned(seed, *key):
    return RandomBits(np.random.SeedSequence(seed, spawn_key=key))


class Ridge:
    """A small problem in three partitions of different size; no dual of it ever rests."""

    alpha, seed, sizes = 0.05, 5, (30, 18, 12)

    def __init__(self, loss="squared", penalty=1.0, constant=1.5):
        free = penalty == 0
        random = np.random.default_rng(0)
        self.X = random.normal(size=(sum(self.sizes), 6))
        self.y = self.X @ random.normal(size=6) + random.normal(size=len(self.X)) + 2 * free
        self.loss, self.oracle, self.free = loss, ORACLES[loss](), free
        self.constant, self.penalty = constant, penalty
        self.rows_seen = np.hstack([self.X, np.full((60, 1), constant)])[:, : 6 + (constant > 0)]
        cuts = np.cumsum((0, *self.sizes))
        self.rows = [slice(a, b) for a, b in itertools.pairwise(cuts)]

    def partitions(self):
        return LocalPartitions(
            [DualPartition(k, [(self.X[r], self.y[r])], True) for k, r in enumerate(self.rows)]
        )

    def solver(self, combination, partitions=None, passes=1, **options):
        problem = Problem(
            REGRESSION_LOSSES[self.loss].loss,
            self.alpha,
            float(len(self.y)),
            self.constant,
            np.random.SeedSequence(self.seed),
            self.penalty,
        )
        return BlockDualAscent(
            partitions or self.partitions(),
            problem,
            n_weights=self.rows_seen.shape[1],
            n_stored=self.X.size,
            combination=combination,
            passes=passes,
            **options,
        )

    def rows_penalized(self):
        """The rows whose constant column has the penalty of others."""
        rows = self.rows_seen.copy()
        rows[:, 6:] /= self.penalty**0.5
        return rows

    def own_units(self, w):
        """Weights of the solver as weights of these rows."""
        return np.append(w[:6], self.penalty**0.5 * w[6:])

    def newton_plan(self):
        """Newton's method from the second round on."""
        penalty = np.full(self.rows_seen.shape[1], self.alpha)
        penalty[-1] *= self.penalty
        loss = REGRESSION_LOSSES[self.loss].loss()
        return NewtonPlan(loss, penalty, tol=1e-15, cost=1.0, overhead=0.0)

    def primal(self, w):
        if not self.free:
            rows, w = self.rows_penalized(), self.own_units(w)
            return values.primal(rows, self.y, self.oracle, self.alpha, w)
        intercept = self.constant * w[6]
        return values.primal(self.X, self.y - intercept, self.oracle, self.alpha, w[:6])

    def dual(self, a):
        """Where the intercept is free, the duals that count are balanced."""
        if not self.free:
            return values.dual(self.rows_penalized(), self.y, self.oracle, self.alpha, a)
        assert abs(a.sum()) < 1e-12 * abs(a).sum()
        return values.dual(self.X, self.y, self.oracle, self.alpha, a)

    def optimum(self):
        n, d = self.rows_seen.shape
        penalty = self.alpha * n * np.eye(d)
        penalty[6:, 6:] *= self.penalty
        return np.linalg.solve(
            self.rows_seen.T @ self.rows_seen + penalty, self.rows_seen.T @ self.y
        )


def settled_duals(solver):
    """The duals of all partitions, after a certificate."""
    return np.concatenate([a for part in solver.partitions.partitions for a in part.duals])


def certified_duals(solver, last):
    """Those behind the last certificate, which found such a weight of the constant column."""
    duals = settled_duals(solver).copy()
    if solver.problem.has_multiplier:
        masses = duals[duals > 0].sum(), -duals[duals < 0].sum()
        balance_masses(duals, masses, solver.problem.mass(last))
    return duals


INTERCEPTS = {"penalised": 1.0, "penalised less": 0.2, "free": 0.0}
PENALTY = pytest.mark.parametrize("penalty", INTERCEPTS.values(), ids=INTERCEPTS)


@pytest.mark.parametrize(
    ("constant", "penalty"),
    [(0.0, 1.0), *((1.5, penalty) for penalty in INTERCEPTS.values())],
    ids=["none", *INTERCEPTS],
)
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_rounds_are_those_of_the_oracle(combination, constant, penalty):
    problem = Ridge(constant=constant, penalty=penalty)
    X, parts = problem.rows_seen, []
    for k, rows in enumerate(problem.rows):
        random = spawned(problem.seed, k, 0)
        shuffled = fisher_yates(lambda n, random=random: int(random.integers(n, 1)[0]))
        parts.append(Part(X[rows], problem.y[rows], problem.oracle, problem.alpha, 60, shuffled))
    solver = problem.solver(combination)
    sigmas = set()
    rounds = cocoa(parts, problem.alpha, combination == "adaptive", penalty)
    for w, a in itertools.islice(rounds, 12):
        assert solver.advance(NO_LIMIT)
        np.testing.assert_allclose(solver.model(), w, rtol=1e-9, atol=1e-12)
        solver.certify(lambda w: w)
        np.testing.assert_allclose(settled_duals(solver), a, rtol=1e-9, atol=1e-12)
        sigmas.add(solver.sigma)
    assert (len(sigmas) > 1) == (combination == "adaptive")


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("passes", [1, 3])
def test_certificates_are_true_and_the_dual_never_falls(combination, passes):
    problem = Ridge()
    solver = problem.solver(combination, passes=passes)
    last = -np.inf
    for _ in range(10):
        solver.advance(NO_LIMIT)
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        assert dual == pytest.approx(problem.dual(settled_duals(solver)), rel=1e-10)
        assert dual >= last - 1e-12
        last = dual
    assert last > problem.dual(np.zeros(60))


@pytest.mark.parametrize("most_of_zeros", [16.0, 0.0])
@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_certificates_with_a_multiplier_are_true(penalty, most_of_zeros, monkeypatch):
    monkeypatch.setattr("sublinear.distributed._block_ascent.MOST_OF_ZEROS", most_of_zeros)
    problem = Ridge(penalty=penalty)
    solver = problem.solver("adaptive")
    for _ in range(10):
        solver.advance(NO_LIMIT)
        last = solver.model()[-1]
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        assert dual == pytest.approx(problem.dual(certified_duals(solver, last)), rel=1e-10)


@PENALTY
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_the_optimum_is_reached(combination, penalty):
    problem = Ridge(penalty=penalty)
    model, result, errors = drive(problem.solver(combination), Limits(1e-13, 1000))
    assert not errors and result.status == "converged"
    np.testing.assert_allclose(model, problem.optimum(), atol=1e-6)


@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_an_intercept_with_less_penalty_takes_few_more_rounds(penalty):
    rounds = [
        drive(Ridge(penalty=one).solver("adaptive"), Limits(1e-8, 1000))[1].n_iter
        for one in (1.0, penalty)
    ]
    assert rounds[1] <= 1.2 * rounds[0]


def test_the_mean_with_the_model_before_is_the_model_where_it_is_better():
    problem, better = Ridge(penalty=0.0), 0
    solver = problem.solver("adaptive", passes=3)
    for _ in range(10):
        solver.advance(NO_LIMIT)
        last, mean = solver.model(), (solver.model() + solver.previous) / 2
        model, primal, _ = solver.certify(lambda w: w)
        values = [problem.primal(last), problem.primal(mean)]
        assert primal == pytest.approx(min(values), rel=1e-12)
        np.testing.assert_array_equal(model, mean if values[1] < values[0] else last)
        better += values[1] < values[0]
    assert 0 < better < 10


def test_work_is_counted_and_limited():
    problem = Ridge()
    solver = problem.solver("safe")
    assert not solver.advance(problem.X.size - 1)
    assert solver.accesses == solver.n_iter == 0
    assert solver.advance(problem.X.size)
    assert solver.accesses == problem.X.size
    assert solver.objective.accesses == 0
    solver.certify(lambda w: w)
    assert solver.objective.accesses == problem.X.size


class LossyPartitions(LocalPartitions):
    """Loses partition k at the n-th call of a method, for every (method, n, k) given."""

    def __init__(self, problem, losses):
        super().__init__(problem.partitions().partitions)
        self.problem, self.losses, self.calls = problem, set(losses), {}

    def _answers(self, method, arguments, asked):
        self.calls[method] = self.calls.get(method, 0) + 1
        gone = {k for name, n, k in self.losses if (name, n) == (method, self.calls[method])}
        for k in gone:
            self.partitions[k] = None
        answers = list(super()._answers(method, arguments, [k for k in asked if k not in gone]))
        if gone & set(asked):
            raise PartitionsLost(gone & set(asked))
        return answers

    def rebuild(self, lost):
        for k in lost:
            rows = self.problem.rows[k]
            self.partitions[k] = DualPartition(
                k, [(self.problem.X[rows], self.problem.y[rows])], True
            )


@PENALTY
@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize(
    "losses",
    [
        [("round", 3, 1)],
        [("certify", 2, 0)],
        [("masses", 2, 1), ("certify_balanced", 4, 0), ("certify_balanced", 6, 2)],
        [("open", 1, 2)],
        [("round", 2, 0), ("restore", 1, 1)],
        [("round", 4, 2), ("catch_up", 1, 2)],
        [("round", 1, 0), ("round", 3, 0), ("round", 5, 1)],
        [("at_zeros", 1, 1), ("round", 6, 0), ("round", 6, 1), ("round", 6, 2)],
    ],
    ids=str,
)
def test_a_lost_partition_does_not_end_the_fit(combination, losses, penalty):
    problem = Ridge(penalty=penalty)
    partitions = LossyPartitions(problem, losses)
    solver = problem.solver(combination, partitions)
    for _ in range(12):
        solver.advance(NO_LIMIT)
        last = solver.model()[-1]
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        assert dual == pytest.approx(problem.dual(certified_duals(solver, last)), rel=1e-9)
    solver.objective.at_zeros()
    is_balanced = penalty < 1
    certifying = {
        "certify": not is_balanced,
        "masses": is_balanced,
        "certify_balanced": is_balanced,
    }
    assert solver.n_lost == sum(certifying.get(method, True) for method, _, _ in losses)
    result = drive(solver, Limits(1e-12, 1000))[1]
    assert result.status == "converged"


@PENALTY
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_rounds_of_newton_are_passes_over_all_rows(loss, penalty):
    problem = Ridge(loss, penalty)
    plan, X = problem.newton_plan(), problem.X
    solver = problem.solver("adaptive", plan=plan)
    solver.advance(NO_LIMIT)
    matrix = Matrix(X, constant=problem.constant)
    whole = Objective(
        matrix, problem.y, plan.loss, problem.alpha, None, 1, intercept_penalty=penalty
    )
    at_zeros = whole.at_zeros()[1]
    passes = ProximalNewton(plan.loss, plan.penalty, np.zeros(7), at_zeros, plan.tol)
    for _ in range(6 if loss == "huber" else 2):
        assert solver.advance(NO_LIMIT)
        passes.begin()
        passes.visit(whole, np.zeros(60))
        passes.end()
        np.testing.assert_allclose(solver.model(), passes.w, rtol=1e-9, atol=1e-12)
        last = solver.model()[-1]
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        if dual == solver.best.bounds[0]:  # else partitions do not keep those duals
            duals = certified_duals(solver, last) if penalty == 0 else settled_duals(solver)
            assert dual == pytest.approx(problem.dual(duals), rel=1e-9)
    assert dual == solver.best.bounds[0]
    assert solver.accesses == (1 + (solver.n_iter - 1) * ProximalNewton.n_passes) * X.size
    assert primal - dual < 1e-9 * primal


NEWTON = "newton"  # the request that finds duals


@PENALTY
@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize(
    "losses",
    [
        [("newton_pass", 1, 1)],
        [("newton_pass", 3, 1), (NEWTON, 2, 0)],
        [("newton_pass", 2, 0), ("newton_pass", 3, 2), (NEWTON, 1, 1)],
        [(NEWTON, 3, 2), ("certify", 1, 1), ("certify_balanced", 2, 1)],
    ],
    ids=str,
)
def test_a_partition_that_newton_s_method_loses(loss, losses, penalty):
    problem = Ridge(loss, penalty)
    certify = "certify_newton" if penalty > 0 else "newton_masses"
    losses = [(certify if method == NEWTON else method, *when) for method, *when in losses]
    partitions = LossyPartitions(problem, losses)
    solver = problem.solver("adaptive", partitions, plan=problem.newton_plan())
    duals = []
    for _ in range(8):
        solver.advance(NO_LIMIT)
        model, primal, dual = solver.certify(lambda w: w)
        assert primal == pytest.approx(problem.primal(model), rel=1e-12)
        duals.append(dual)
    reached = [partitions.calls.get(method, 0) >= n for method, n, _ in losses]
    assert solver.n_lost == sum(reached) > 0
    result = drive(solver, Limits(1e-9, 300))[1]
    assert result.status == "converged" and max(duals) <= result.primal * (1 + 1e-12)


def test_a_pass_of_newton_s_method_that_is_asked_for_twice():
    problem = Ridge("absolute")
    part = problem.partitions().partitions[0]
    solver = problem.solver("adaptive", LocalPartitions([part]), plan=problem.newton_plan())
    for _ in range(40):
        solver.advance(NO_LIMIT)
        method = solver.newton and solver.newton.method
        if method and method.moves_centres:
            break
    asked = (*solver._last_round(), solver.newton.n_passes + 1, method.state())
    before = part.newton.centres.copy()
    (first,) = part.newton_pass(*asked)
    (second,) = part.newton_pass(*asked)
    assert not np.array_equal(before, part.newton.centres)
    np.testing.assert_array_equal(first, second)


def test_a_loss_costs_about_a_round(monkeypatch):
    problem = Ridge()
    monkeypatch.setattr(BlockDualAscent, "certificate_growth", 1.0)  # certify after every round

    def rounds(losses):
        solver = problem.solver("adaptive", LossyPartitions(problem, losses))
        return drive(solver, Limits(1e-8, 500))[1].n_iter

    assert rounds([("round", 8, 0)]) <= rounds([]) + 10


def test_a_partition_that_is_always_lost_ends_the_fit():
    class Hopeless(LossyPartitions):
        def _answers(self, method, arguments, asked):
            if method == "round":
                raise PartitionsLost({1}) from OSError("the disk is gone")
            return super()._answers(method, arguments, asked)

    problem = Ridge()
    _, result, errors = drive(problem.solver("safe", Hopeless(problem, [])), Limits(1e-8))
    error = errors.pop()
    assert isinstance(error, RuntimeError) and "lost 5 times" in str(error)
    assert "the disk is gone" in str(error)
    assert result.status == "interrupted"


def assert_same_problem(first, second):
    """Both models are certified to be near the optimum of one and the same objective."""
    parts, whole = first.result_, second.result_
    assert parts.status == whole.status == "converged"
    assert abs(parts.primal - whole.primal) <= parts.gap + whole.gap + 1e-14 * whole.primal
    distance = np.linalg.norm(first.coef_ - second.coef_)
    gaps = np.maximum([parts.gap, whole.gap], 1e-14 * whole.primal)
    assert distance <= np.sqrt(2 * gaps / first.alpha).sum()
    assert max(parts.dual, whole.dual) <= min(parts.primal, whole.primal) * (1 + 1e-14)


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_classifier_finds_the_optimum_of_one_process(binary, loss, make, penalize_intercept):
    X, y = binary
    options = CLOSE | {"penalize_intercept": penalize_intercept}
    whole = sublinear.SDCAClassifier(loss, pack=False, **options).fit(make(X), y)
    parts = SDCAClassifier(loss, n_partitions=3, **options).fit(make(X), y)
    assert_same_problem(parts, whole)
    assert parts.partitions_ == [[0, 66], [66, 133], [133, 200]]


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_regressor_finds_the_optimum_of_one_process(regression, loss, penalize_intercept):
    X, y = regression
    options = CLOSE | {"penalize_intercept": penalize_intercept}
    whole = sublinear.SDCARegressor(loss, pack=False, **options).fit(X, y)
    parts = SDCARegressor(loss, n_partitions=2, **options).fit(X, y)
    assert_same_problem(parts, whole)
    assert parts.coef_.shape == (X.shape[1],)


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, *REGRESSION_LOSSES])
def test_tables_that_are_not_scaled_converge(loss, penalize_intercept):
    if loss in MARGIN_LOSSES:
        data, kinds = load_breast_cancer, (SDCAClassifier, sublinear.SDCAClassifier)
    else:
        data = functools.partial(load_diabetes, scaled=False)
        kinds = SDCARegressor, sublinear.SDCARegressor
    X, y = data(return_X_y=True)
    parts, whole = (
        kind(loss, alpha=1e-4, penalize_intercept=penalize_intercept, tol=tol, random_state=0)
        for kind, tol in zip(kinds, (1e-5, 1e-7), strict=True)
    )
    parts.set_params(n_partitions=3, warm_start=True).fit(X, y)
    assert_same_problem(parts, whole.fit(X, y))
    first, *_ = parts.fit(X, y).result_.trace
    assert first.gap <= 0.1 * first.primal  # the duals are those of the certificate


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 2, 5, 12, 20, 40, 60])
@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_duals_kept_by_newton_s_method_are_the_best_certified(loss, max_iter):
    X, y = load_diabetes(scaled=False, return_X_y=True)
    model = SDCARegressor(
        loss, alpha=1e-4, fit_intercept=False, second_order=True, n_partitions=4, max_iter=max_iter,
        tol=1e-6, warm_start=True, random_state=0,
    ).fit(X, y)  # fmt: skip
    kept = values.dual(X, y, ORACLES[loss](), 1e-4, model.dual_coef_)
    of_zeros = 0.0
    assert max(kept, of_zeros) == pytest.approx(model.result_.dual, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_newton_s_method_joins_small_blocks(kind, regression, monkeypatch):
    X, y = regression
    weights = np.random.default_rng(0).uniform(1, 2, size=len(y))
    weights[:7] = 1

    def block(rows):
        is_sparse = kind == "sparse" or (kind == "mixed" and rows.start % 2)
        first = sparse.csr_array(X[rows]) if is_sparse else X[rows]
        return (first, y[rows], weights[rows])[: 3 if rows.start else 2]

    parts = [
        [block(slice(k, min(k + 7, stop))) for k in range(start, stop, 7)]
        for start, stop in itertools.pairwise((0, 60, 60, 130, 200))
    ]
    sizes, visit = [], ProximalNewton.visit

    def watched(self, objective, centres):
        sizes.append(len(centres))
        return visit(self, objective, centres)

    monkeypatch.setattr(ProximalNewton, "visit", watched)
    monkeypatch.setattr(ProximalNewton, "least_rows", 20)
    options = {"alpha": 1e-3, "tol": 1e-12, "random_state": 0, "second_order": True}
    model = SDCARegressor("huber", warm_start=True, **options).fit(parts)
    a_round = [21, 21, 18, 21, 21, 21, 7, 21, 21, 21, 7]
    assert sizes == a_round * (len(sizes) // len(a_round)) != []
    in_one = sublinear.SDCARegressor("huber", **options).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, in_one.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.dual_coef_, in_one.dual_coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("budget", [5_000, 20_000])
def test_a_budget_without_room_for_newton_s_method_keeps_the_duals(budget):
    X, y = load_diabetes(scaled=False, return_X_y=True)
    options = {"alpha": 1e-4, "n_partitions": 4, "max_accesses": budget, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        result = SDCARegressor("absolute", second_order=True, **options).fit(X, y).result_
    assert 0 <= result.dual <= result.primal


def test_the_scale_of_targets_changes_no_certificate_of_newton_s_method():
    X, y = load_diabetes(scaled=False, return_X_y=True)
    traces = []
    for scale in (2.0**-20, 1.0, 2.0**20):
        model = SDCARegressor(
            "absolute", alpha=1e-4 / scale, penalize_intercept=False, n_partitions=4, tol=1e-4,
            random_state=0,
        ).fit(X, scale * y)  # fmt: skip
        traces.append([row.n_iter for row in model.result_.trace])
    assert traces[0] == traces[1] == traces[2]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounds_that_fit_a_budget_are_taken(fit_intercept):
    """An intercept is a constant feature, which is not read."""
    X = np.random.default_rng(0).normal(size=(100, 5))
    options = {"tol": 0, "n_partitions": 2, "random_state": 0, "fit_intercept": fit_intercept}
    for rounds in (1, 2):
        model = PegasosClassifier(max_accesses=rounds * X.size, **options).fit(X, X[:, 0] > 0)
        assert (model.n_iter_, model.result_.accesses) == (rounds, rounds * X.size)


@pytest.mark.parametrize("limit", [{"max_iter": 7}, {"max_accesses": 300_000}], ids=str)
def test_limits_hold_for_newton_s_method(limit):
    X, y = load_breast_cancer(return_X_y=True)
    model = SDCAClassifier(second_order=True, n_partitions=3, random_state=0, **limit)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert model.result_.status == next(iter(limit))
    assert model.n_iter_ == limit.get("max_iter", model.n_iter_)
    assert model.result_.accesses <= limit.get("max_accesses", np.inf)
    assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_newton_s_method_begins_where_dual_ascent_has_ended():
    X, y = load_breast_cancer(return_X_y=True)
    options = {"alpha": 1e-4, "n_partitions": 3, "random_state": 0}
    rounds, model = (
        SDCAClassifier("logistic", second_order=choice, max_iter=max_iter, **options)
        for choice, max_iter in ((False, 1), (True, 2))
    )
    X = X / X.max(axis=0)
    assert model.fit(X, y).result_.primal <= rounds.fit(X, y).result_.primal < np.log(2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_newton_s_method_ends_dual_ascent_goes_on():
    X, y = load_breast_cancer(return_X_y=True)
    options = {"alpha": 1e-5, "tol": 1e-15, "random_state": 0, "max_iter": 300}
    model = SDCAClassifier(second_order=True, n_partitions=3, **options)
    model.fit(X.astype(np.float32), y)
    assert model.result_.n_iter == 300  # rounding to float32 keeps the gap open
    assert model.result_.relative_gap < 0.01


def test_a_free_intercept_keeps_pace_with_a_large_alpha(regression):
    X, y = regression
    options = CLOSE | {"alpha": 1e4, "penalize_intercept": False, "max_iter": 50}
    model = SDCARegressor("huber", n_partitions=2, **options).fit(X, y + 2)
    assert model.result_.status == "converged"


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.5}], ids=str)
def test_weights_and_classes_are_those_of_the_whole(multiclass, class_weight, penalize_intercept):
    X, y = multiclass
    order = np.argsort(y, kind="stable")  # no partition has all classes
    X, y = X[order], y[order]
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    options = EXACT | {"class_weight": class_weight, "penalize_intercept": penalize_intercept}
    whole = sublinear.SDCAClassifier("smoothed_hinge", pack=False, **options).fit(X, y, weight)
    parts = SDCAClassifier("smoothed_hinge", n_partitions=3, **options).fit(X, y, weight)
    np.testing.assert_array_equal(parts.classes_, whole.classes_)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-5)
    assert parts.result_.primal == pytest.approx(whole.result_.primal, rel=1e-10)


WARM = {
    "alpha": 0.05, "tol": 1e-7, "random_state": 0, "second_order": False, "warm_start": True
}  # fmt: skip


def assert_weights_of_duals(model, X):
    """The model is w(duals), with the duals in the order of the rows of X."""
    w = np.atleast_2d(model.dual_coef_) @ X / (model.alpha * X.shape[0])
    np.testing.assert_allclose(w, np.atleast_2d(model.coef_), atol=1e-3)


@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_a_warm_start_goes_on_where_the_last_fit_ended(multiclass, penalize_intercept):
    X, y = multiclass
    options = WARM | {"penalize_intercept": penalize_intercept}
    model = SDCAClassifier("smoothed_hinge", n_partitions=3, **options).fit(X, y)
    cold = model.n_iter_
    assert_weights_of_duals(model, X)
    assert model.fit(X, y).n_iter_ <= cold / 5
    assert model.set_params(n_partitions=2).fit(X, y).n_iter_ <= cold / 5
    assert model.set_params(alpha=0.0501).fit(X, y).n_iter_ <= 1.2 * cold  # certificates are rare
    assert model.result_.status == "converged"


@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_the_local_twin_can_begin_where_the_partitions_ended(multiclass, penalize_intercept):
    X, y = multiclass
    options = WARM | {"penalize_intercept": penalize_intercept}
    model = SDCAClassifier("smoothed_hinge", n_partitions=3, **options).fit(X, y)
    local = model.to_local()
    np.testing.assert_array_equal(local.dual_coef_, model.dual_coef_)
    whole = sublinear.SDCAClassifier("smoothed_hinge", **options).fit(X, y)
    assert local.fit(X, y).n_iter_ <= whole.n_iter_ / 5
    np.testing.assert_allclose(local.coef_, whole.coef_, atol=1e-2)


@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_a_warm_start_from_another_alpha_is_no_worse_than_a_cold_one(
    sparse_problem, penalize_intercept
):
    """However far from the optimum the duals of the last fit are, as in one process."""
    X, _ = sparse_problem
    random = np.random.default_rng(0)
    targets = X @ random.normal(size=X.shape[1]) + 0.1 * random.normal(size=X.shape[0])
    options = WARM | {"tol": 1e-3, "penalize_intercept": penalize_intercept}
    model = SDCARegressor("squared", n_partitions=4, **options | {"alpha": 1.0})
    cold = clone(model).set_params(alpha=1e-4).fit(X, targets)
    warm = model.fit(X, targets).set_params(alpha=1e-4).fit(X, targets)
    assert cold.result_.status == warm.result_.status == "converged"
    assert warm.n_iter_ <= 1.5 * cold.n_iter_


@pytest.mark.parametrize(("times", "kind"), [(0.1, "kept"), (1.0, "scaled"), (9.0, "left")])
@PENALTY
def test_duals_from_elsewhere_are_scaled_as_in_one_process(times, kind, penalty):
    ridge, has_multiplier = Ridge(penalty=penalty), penalty < 1
    ridge.alpha = 1e-3
    duals = times * (ridge.y - 0.999 * has_multiplier * ridge.y.mean())  # out of balance a little
    intercept, other = 0.5, 2.0
    whole = Objective(
        Matrix(ridge.X, ridge.constant), ridge.y, REGRESSION_LOSSES["squared"].loss(), ridge.alpha,
        intercept_penalty=penalty,
    )  # fmt: skip
    w = whole.weights_of_dual(duals)
    offset = intercept - ridge.constant * w[-1] if has_multiplier else 0.0
    factor = whole.shrinkage(w, whole.cost_of(duals), offset)
    assert {"kept": factor == 1, "scaled": 0 < factor < 1, "left": factor == 0}[kind]
    parts = [duals[rows] for rows in ridge.rows]
    starts = intercept / ridge.constant, other / ridge.constant
    solver = ridge.solver("adaptive", start=(parts, *starts))
    np.testing.assert_allclose(settled_duals(solver), factor * duals, rtol=1e-12)
    np.testing.assert_allclose(solver.w, factor * w, rtol=1e-10, atol=1e-13)
    if has_multiplier and kind == "left":
        assert ridge.constant * solver.model()[-1] == pytest.approx(other)


def test_a_warm_start_needs_as_many_rows(regression):
    X, y = regression
    model = SDCARegressor("huber", n_partitions=3, **WARM).fit(X, y)
    assert model.dual_coef_.shape == y.shape
    shorter = SDCARegressor("huber", n_partitions=3, **WARM).fit(X[:150], y[:150])
    model.fit(X[:150], y[:150])
    np.testing.assert_array_equal(model.coef_, shorter.coef_)
    model.set_params(warm_start=False).fit(X, y)
    assert not hasattr(model, "dual_coef_")


def test_rows_of_partitions_in_the_order_of_the_data():
    np.testing.assert_array_equal(order_of_rows([[0, 2], [1]], [[2, 1], [3]]), [0, 1, 5, 2, 3, 4])
    assert order_of_rows([[], []], [[2, 1], [3]]) == order_of_rows(None, [[6]]) == slice(None)
    np.testing.assert_array_equal(order_of_rows([[0], [1], [2]], [[2], [], [1]]), [0, 1, 2])


@pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier])
def test_a_warm_start_of_chunks_with_an_empty_one_between(binary, make):
    da = pytest.importorskip("dask.array")
    X, y = binary
    sizes = (80, 0, 120)
    A, b = da.from_array(X, chunks=(sizes, X.shape[1])), da.from_array(y, chunks=(sizes,))
    model = make(alpha=1.0, max_iter=3, tol=0, warm_start=True, random_state=0, n_partitions=3)
    first = model.fit(A, b).result_.primal
    assert model.partitions_ == [[0], [1], [2]]
    assert model.fit(A, b).result_.primal <= first


CHECKED = [
    SDCAClassifier("smoothed_hinge", n_partitions=3, alpha=0.1, tol=1e-14, max_iter=5000),
    SDCARegressor("huber", n_partitions=2, alpha=0.1, tol=1e-14, max_iter=5000),
    SDCARegressor(
        "huber", n_partitions=2, alpha=0.1, tol=1e-14, max_iter=5000, penalize_intercept=False
    ),
]


def expected_failures(estimator):
    """The classifier's gap of 1e-14 leaves its scores apart by more than 1e-7."""
    if isinstance(estimator, SDCARegressor):
        return {}
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(checks, "other partitions, each solved to a gap of 1e-14")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def blocks_of_rows(X, y, n_blocks):
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(len(y)), n_blocks) if len(rows)]


def test_sources_of_several_blocks(binary):
    X, y = binary
    blocks = blocks_of_rows(X, y, 6)
    sources = [blocks[:2], lambda: iter(blocks[2:5]), (block for block in blocks[5:])]
    model = SDCAClassifier("smoothed_hinge", **EXACT).fit(sources)
    whole = sublinear.SDCAClassifier("smoothed_hinge", pack=False, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert model.partitions_ == [[0], [1], [2]] and model.n_lost_ == 0


def test_empty_blocks_and_partitions_are_passed_over(binary):
    X, y = binary
    empty = (X[:0], y[:0])
    with_empty = SDCAClassifier(**CLOSE).fit([[(X[:90], y[:90]), empty], [(X[90:], y[90:])]])
    without = SDCAClassifier(**CLOSE).fit([[(X[:90], y[:90])], [(X[90:], y[90:])]])
    np.testing.assert_array_equal(with_empty.coef_, without.coef_)
    with_partition = SDCAClassifier(**CLOSE).fit([[(X, y)], [empty]])
    assert with_partition.result_.status == "converged"


def test_an_interrupt_leaves_the_model_so_far(sparse_problem, interrupt_after):
    model = SDCAClassifier(n_partitions=2, alpha=1e-7, tol=0, max_iter=10**9, random_state=0)
    interrupt_after(0.3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*sparse_problem)
    assert model.result_.status == "interrupted" and model.coef_.any()
    assert model.predict(sparse_problem[0][:3]).shape == (3,)


def test_float32_blocks_make_a_float32_model(binary):
    X, y = binary
    single = X.astype(np.float32)
    model = SDCAClassifier(n_partitions=2, **CLOSE).fit(single, y)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    mixed = SDCAClassifier(**CLOSE).fit([[(single, y)], [(X, y)]])
    assert mixed.coef_.dtype == np.float64


def test_the_local_twin_predicts_the_same_and_can_be_saved(multiclass, tmp_path):
    X, y = multiclass
    model = SDCAClassifier("logistic", n_partitions=2, alpha=0.01, random_state=0).fit(X, y)
    local = model.to_local()
    assert type(local) is sublinear.SDCAClassifier and local.alpha == 0.01
    np.testing.assert_array_equal(local.predict_proba(X), model.predict_proba(X))
    local = model.set_params(loss="hinge").to_local()  # of the loss that was fitted
    np.testing.assert_array_equal(local.predict_proba(X), model.predict_proba(X))
    with pytest.raises(TypeError, match=r"save its to_local\(\)"):
        sublinear.save_model(model, tmp_path / "model.npz")
    sublinear.save_model(local, tmp_path / "model.npz")
    saved = sublinear.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(saved.decision_function(X), model.decision_function(X))


def test_groups_of_chunks_are_even_runs():
    assert contiguous_groups((10, 10, 10, 10), 2) == [[0, 1], [2, 3]]
    assert contiguous_groups((30, 10, 10, 10), 2) == [[0], [1, 2, 3]]
    assert contiguous_groups((np.nan,) * 3, 3) == [[0], [1], [2]]
    assert contiguous_groups((5, 5), 7) == [[0], [1]]


@pytest.mark.parametrize("source", [list, ArraySource, lambda *block: lambda: iter([block])])
def test_sources_hold_labels_and_weights_and_come_in_a_list(source, binary):
    X, y = binary
    one = [(X, y)] if source is list else source(X, y)
    model = SDCAClassifier(alpha=0.1)
    with pytest.raises(ValueError, match="leave out y"):
        model.fit([one, one], y)
    with pytest.raises(ValueError, match="leave out sample_weight"):
        model.fit([one, one], sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="open_source reads files"):
        model.fit([one, "rows.npz"])
    with pytest.raises(ValueError, match="give a list of sources"):
        model.fit("rows.npz")
    model.fit(X.tolist(), y.tolist())
    assert model.predict(X.tolist()).shape == y.shape
    if source is not list:
        with pytest.raises(ValueError, match="give a list of sources"):
            model.fit(one)
        for sources in (one, [one]):
            with pytest.raises(ValueError, match="predict_sources"):
                model.predict(sources)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            [[(np.ones((4, 3)), [0, 1, 0, 1])], [(np.ones((4, 2)), [0, 1, 0, 1])]],
            "partition 1: 2 columns, but those before have 3",
        ),
        ([[(np.ones((2, 3)), [0, 1]), (np.ones((2, 2)), [0, 1])]], "first block has 3"),
        ([[(np.ones((4, 3)), [1, 1, 1, 1])], [(np.ones((2, 3)), [1, 1])]], "only one class"),
        ([], "no sources"),
        ([[]], "all partitions are empty"),
        ([[np.ones((4, 3))]], "must yield"),
        ([[(np.ones((4, 3)), [0, 1, 1])]], "inconsistent numbers"),
        ([[(np.full((2, 3), np.nan), [0, 1])]], "NaN"),
        ([[(np.ones((2, 3)), [0, 1], [1, -1])]], "negative"),
        ([[(np.ones((2, 3)), [0, 1], [0, 0])]], "nothing to fit"),
        ([[(np.ones((2, 3)), [0.5, 1.5])]], "continuous"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_blocks_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        SDCAClassifier().fit(blocks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combination": "bold"}, "combination"),
        ({"passes": 0}, "passes"),
        ({"penalize_intercept": 1}, "penalize_intercept"),
        ({"warm_start": None}, "warm_start"),
        ({"n_partitions": 0}, "n_partitions"),
        ({"client": 3}, "client must be"),
        ({"loss": "squared"}, "loss"),
    ],
)
def test_bad_parameters_are_refused(binary, options, message):
    with pytest.raises(ValueError, match=message):
        SDCAClassifier(**options).fit(*binary)


def test_dask_is_not_imported_without_need():
    program = (
        "import sys, numpy as np; from sublinear.distributed import SDCARegressor; "
        "SDCARegressor(n_partitions=2).fit(np.eye(4), np.arange(4.0)); "
        "print(sorted({'dask', 'distributed'} & sys.modules.keys()))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


def in_chunks(da, *arrays, rows=40):
    return [da.from_array(a, chunks=(rows, *a.shape[1:])) for a in arrays]


def local_fit(model, X, y, rows=40):
    """Fit a clone without cluster on the same partitions."""
    chunks = [(X[k : k + rows], y[k : k + rows]) for k in range(0, len(y), rows)]
    sources = [[chunks[k] for k in group] for group in model.partitions_]
    return type(model)(**(model.get_params() | {"client": None})).fit(sources)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_partitions": 3},
        {"combination": "safe"},
        {"penalize_intercept": False},
        {"second_order": True, "tol": 1e-12},
    ],
    ids=str,
)
def test_a_cluster_finds_what_one_process_finds(client, da, multiclass, options):
    X, y = multiclass
    model = SDCAClassifier(client=client, **(SHORT | options))
    model.fit(*in_chunks(da, X, y))
    alone = local_fit(model, X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-10)
    assert model.result_.gap == pytest.approx(alone.result_.gap, rel=1e-10, abs=1e-13)
    assert model.n_iter_ == alone.n_iter_
    assert sorted(itertools.chain(*model.partitions_)) == list(range(6))


def test_a_warm_start_on_a_cluster(client, da, regression):
    X, y = regression
    model = SDCARegressor("huber", client=client, penalize_intercept=False, **WARM)
    cold = model.fit(*in_chunks(da, X, y)).n_iter_
    assert_weights_of_duals(model, X)
    assert model.set_params(n_partitions=3).fit(*in_chunks(da, X, y, rows=30)).n_iter_ <= cold / 5


def test_long_vectors_are_added_on_the_workers(client, da, multiclass, monkeypatch):
    X, y = multiclass
    few = SDCAClassifier(client=client, n_partitions=5, **SHORT).fit(*in_chunks(da, X, y))
    monkeypatch.setattr(_cluster, "MOST_VALUES", 25)  # two vectors
    many = SDCAClassifier(client=client, n_partitions=5, **SHORT).fit(*in_chunks(da, X, y))
    np.testing.assert_array_equal(few.coef_, many.coef_)


def test_sparse_chunks_weights_and_unknown_sizes(client, da, regression):
    X, y = regression
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    A, b, s = in_chunks(da, X, y, weight)
    A = A.map_blocks(sparse.csr_array)
    A._chunks = ((np.nan,) * A.numblocks[0], A.chunks[1])
    model = SDCARegressor("huber", client=client, **EXACT).fit(A, b, s)
    whole = sublinear.SDCARegressor("huber", pack=False, **EXACT).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)


def test_predictions_and_scores_chunk_by_chunk(client, da, multiclass, regression):
    X, y = multiclass
    A, b = in_chunks(da, X, y)
    model = SDCAClassifier(client=client, **SHORT).fit(A, b)
    np.testing.assert_array_equal(client.compute(model.predict(A)).result(), model.predict(X))
    scores = model.decision_function(A)
    assert scores.shape == (240, 3) and scores.dtype == model.coef_.dtype
    np.testing.assert_allclose(client.compute(scores).result(), model.decision_function(X))
    assert model.score(A, b) == pytest.approx(model.score(X, y))
    parts = A.rechunk({1: 2})  # of rows, too
    logistic = SDCAClassifier("logistic", client=client, **SHORT).fit(A, b)
    for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
        found = client.compute(getattr(logistic, method)(parts)).result()
        np.testing.assert_allclose(found, getattr(logistic, method)(X))
    X, y = regression
    A, b, s = in_chunks(da, X, y, np.arange(len(y), dtype=float))
    model = SDCARegressor(client=client, **SHORT).fit(A, b, s)
    assert model.score(A, b, s) == pytest.approx(model.score(X, y, np.arange(len(y))))
    assert model.score(A, b) == pytest.approx(model.score(X, y))


def test_predictions_where_chunks_have_no_rows(da, multiclass):
    X, y = multiclass
    model = SDCAClassifier("logistic", **SHORT).fit(X, y)
    A = da.from_array(X, chunks=((100, 0, 140), X.shape[1]))
    none = A[A[:, 0] > np.inf]  # of unknown sizes
    for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
        predict = getattr(model, method)
        expected = predict(X)
        np.testing.assert_array_equal(predict(A).compute(), expected)
        assert predict(none).compute().shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("make", [SDCAClassifier, StreamingSVRGClassifier])
def test_what_is_no_block_is_refused_by_predictions(make, binary):
    X, y = binary
    model = make(alpha=0.1).fit([[(X, y)]])
    for block in (sparse.csr_matrix(X), X, {"X": X}, "abc", (X, y, None, None)):
        for read in (model.predict_sources, model.score, model.fit):
            with pytest.raises(ValueError, match=r"block 1 of partition 0: a source must yield"):
                read([[block]])
    with pytest.raises(TypeError, match="partition 1: a source is an iterable"):
        model.fit([[(X, y)], lambda: None])


def test_labels_in_objects_are_scored(binary):
    X, y = binary
    model = SDCAClassifier(alpha=0.001).fit([[(X, y.astype(object))]])
    assert model.score([[(X, y.astype(object))]]) == model.score([[(X, y)]]) > 0.6


@pytest.mark.parametrize(
    "kind", [SDCAClassifier, PegasosClassifier, StreamingSVRGClassifier], ids=lambda k: k.__name__
)
def test_rows_of_blocks_without_weight_are_not_counted(kind, binary):
    X, y = binary
    blocks = [(X[:100], y[:100]), (X[100:130], y[100:130], 0 * X[100:130, 0]), (X[:0], y[:0])]
    found = kind(alpha=0.1).fit([blocks, [(X[130:], y[130:])]]).stream_
    assert (found.blocks, found.rows) == (4, len(y) - 30)


def test_sums_out_of_range_leave_the_model_before(binary):
    X, y = binary
    model = StreamingSVRGClassifier("squared_hinge", warm_start=True).fit([[(X, y)]])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="range of floating-point numbers"):
        model.fit([[(X * 1e200, y)]])
    np.testing.assert_array_equal(model.coef_, before)


def test_scores_of_sources_and_of_equal_targets(regression):
    X, y = regression
    model = SDCARegressor(**SHORT).fit([[(X, y)]])
    with pytest.raises(ValueError, match="leave out sample_weight"):
        model.score([[(X, y)]], sample_weight=np.ones(len(y)))
    ones = np.ones(len(y))
    assert model.score([[(X, ones)]]) == model.score(X, ones) == 0.0
    assert model.score([[(X, model.predict(X) * 0)]]) == 0.0
    for value in (0.1, 1e8 + 0.1):  # whose mean is rounded
        blocks = [[(X[:2], ones[:2] * value)], [(X[2:], ones[2:] * value)]]
        assert model.score(blocks) == 0.0
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(model.score([[(X[:1], y[:1])]]))


def test_an_address_of_something_else(da, monkeypatch):
    monkeypatch.setattr(_cluster, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"  # listens, and says nothing
        with pytest.raises(ValueError, match="cannot be reached"):
            SDCAClassifier(client=address).fit([[(np.eye(2), [0, 1])]])


def test_errors_of_a_source_are_no_lost_worker(client):
    def refused():
        raise PermissionError("not yours")
        yield

    with pytest.raises(PermissionError, match="not yours"):
        SDCAClassifier(client=client).fit([refused])


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(_cluster, "PATIENCE_SECONDS", 5)
    now = iter((0.0, 3.0, 6.0))
    monkeypatch.setattr(_cluster, "time", SimpleNamespace(monotonic=lambda: next(now)))
    partitions = _cluster.ClusterPartitions.__new__(_cluster.ClusterPartitions)
    with pytest.warns(RuntimeWarning, match="no workers any more"):
        since = partitions._wait_for_workers([], None)
    assert partitions._wait_for_workers([], since) == since == 0.0
    with pytest.raises(RuntimeError, match="no workers for 5 s"):
        partitions._wait_for_workers([], since)


def test_sources_are_read_on_the_workers(client, binary):
    X, y = binary
    sources = [blocks_of_rows(X[:80], y[:80], 2), blocks_of_rows(X[80:], y[80:], 3)]
    model = SDCAClassifier("smoothed_hinge", client=client, **EXACT).fit(sources)
    alone = SDCAClassifier("smoothed_hinge", **EXACT).fit(sources)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-12)


def test_workers_forget_the_rows_after_a_fit(client, binary):
    X, y = binary
    SDCAClassifier(client=client, **SHORT).fit([[(X[:80], y[:80])], [(X[80:], y[80:])]])
    held = client.run(lambda dask_worker: len(dask_worker.state.actors))
    assert set(held.values()) == {0}


def test_without_a_cluster_dask_arrays_are_fitted_here(da, binary):
    X, y = binary
    model = SDCAClassifier(n_partitions=2, **CLOSE).fit(*in_chunks(da, X, y, rows=50))
    assert model.partitions_ == [[0, 1], [2, 3]]
    assert model.result_.status == "converged"


@pytest.mark.parametrize(
    ("make", "options"),
    [(SDCAClassifier, CLOSE), (StreamingSVRGClassifier, {}), (PegasosClassifier, SHORT)],
)
def test_dask_data_frames_are_their_arrays(da, binary, make, options):
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = binary
    words = np.array(["no", "yes"])[y]
    rows = pandas.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    frame = frames.from_pandas(rows.assign(weight=1.0 + y, label=words), npartitions=4, sort=False)
    A, b, weights = frame[list(rows)], frame["label"], frame["weight"]
    model = make(n_partitions=2).set_params(**options).fit(A, b, weights)
    assert model.partitions_ == [[0, 1], [2, 3]]
    chunks = in_chunks(da, X, words, rows=50)
    same = clone(model).fit(*chunks, da.from_array(1.0 + y, chunks=50))
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)
    predicted = model.predict(A)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), same.predict(X))
    assert model.score(A, b) == same.score(*chunks)
    assert model.feature_names_in_.tolist() == list(rows)
    for use in (model.predict, lambda swapped: model.score(swapped, b)):
        with pytest.raises(ValueError, match="a column is named 'x11', not 'x0' as before"):
            use(A[list(rows)[::-1]])


@pytest.mark.filterwarnings("error:.*extension dtypes")
@pytest.mark.parametrize("kind", ["Int64", "string", "category", "boolean"])
def test_labels_of_types_that_are_pandas_own(da, binary, kind):
    frames, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    X, y = binary
    labels = pandas.Series(y.astype({"boolean": bool, "string": str}.get(kind, int)))
    rows = pandas.DataFrame(X).astype("Float64").assign(label=labels.astype(kind))
    rows.columns = rows.columns.astype(str)
    frame = frames.from_pandas(rows, npartitions=4, sort=False)
    A, b = frame.drop(columns="label"), frame["label"]
    model = SDCAClassifier(n_partitions=2, **CLOSE).fit(A, b)
    same = SDCAClassifier(n_partitions=2, **CLOSE).fit(*in_chunks(da, X, y, rows=50))
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)
    assert model.classes_.astype(str).tolist() == np.unique(labels).astype(str).tolist()
    assert model.score(A, b) == same.score(*in_chunks(da, X, y, rows=50))


def test_an_address_will_do_and_is_left_alone(client, da, binary):
    address = client.scheduler_info()["address"]
    model = SDCAClassifier(client=address, **CLOSE).fit(*in_chunks(da, *binary))
    assert model.result_.status == "converged"
    assert client.status == "running"


def test_a_worker_that_is_killed_in_mid_fit(client, da, binary):
    X, y = binary
    A, b = in_chunks(da, X, y)
    certificates = []

    def kill(snapshot):
        certificates.append(snapshot)
        if len(certificates) == 1:
            address = sorted(client.scheduler_info()["workers"])[0]
            pid = client.run(os.getpid, workers=[address])[address]
            os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)

    model = SDCAClassifier(
        "smoothed_hinge", client=client, callback=kill, n_partitions=2, **EXACT
    ).fit(A, b)
    assert len(certificates) > 1 and model.n_lost_ >= 1
    assert model.result_.status == "converged"
    whole = sublinear.SDCAClassifier("smoothed_hinge", pack=False, **EXACT).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert model.result_.primal == pytest.approx(whole.result_.primal, rel=1e-11)


def test_a_worker_that_is_killed_once_its_partition_is_made(client, da, binary, monkeypatch):
    X, y = binary
    A, b = in_chunks(da, X, y)
    killed, result_of = [], _cluster.ClusterPartitions._result_of

    def kill(partitions, k, answer):
        result = result_of(partitions, k, answer)
        if not killed:
            killed.append(partitions.places[k])
            pid = client.run(os.getpid, workers=killed)[killed[0]]
            os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
            time.sleep(0.5)
        return result

    monkeypatch.setattr(_cluster.ClusterPartitions, "_result_of", kill)
    model = SDCAClassifier(client=client, n_partitions=2, **CLOSE).fit(A, b)
    assert model.n_lost_ >= 1
    assert model.result_.status == "converged"


def test_a_source_whose_module_workers_do_not_have_is_an_error(
    client, binary, tmp_path, monkeypatch
):
    text = "class Source:\n    def __call__(self):\n        return iter([])\n"
    (tmp_path / "module_of_the_client.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    source = importlib.import_module("module_of_the_client").Source()
    with pytest.raises(ImportError, match=r"source 0 cannot be loaded .* its module has to be"):
        SDCAClassifier(client=client, **EXACT).fit([source, source])
    model = SDCAClassifier(client=client, **CLOSE).fit([[binary]])
    for ask in (model.predict_sources, model.score):
        with pytest.raises(ImportError, match="source 0 cannot be loaded"):
            ask([source])


class DeadlyOnce:
    """A source that kills the worker that reads it, unless a file says that it has done so."""

    def __init__(self, path, *block):
        self.path, self.block = path, block

    def __call__(self):
        if not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        return iter([self.block])


def test_the_only_worker_restarts_while_partitions_are_made(tmp_path, binary):
    distributed = pytest.importorskip("distributed", reason="no dask[distributed]")
    X, y = binary
    sources = [DeadlyOnce(tmp_path / "dead", X[:90], y[:90]), [(X[90:], y[90:])]]
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model = SDCAClassifier(client=client, **CLOSE).fit(sources)
    assert model.result_.status == "converged"
    assert model.stream_.rows == 200


def fitted_in_a_task(da, X, y, seceded=False):
    """Fit and score in the only thread of the only worker; tell whether it is the pool's after."""
    from distributed import get_worker, worker_client

    with worker_client() if seceded else contextlib.nullcontext():
        A, b = in_chunks(da, X, y)
        model = SDCAClassifier(n_partitions=2, **CLOSE).fit(A, b)
        assert model.score(A, b) == model.score(X, y)
        own = threading.current_thread() in get_worker().executor._threads
        return model.coef_, own


def test_a_fit_in_a_task_leaves_its_thread_to_the_partitions(binary):
    distributed = pytest.importorskip("distributed", reason="no dask[distributed]")
    da = pytest.importorskip("dask.array")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        coef, own = client.submit(fitted_in_a_task, da, *binary).result(timeout=120)
        assert own
        other, own = client.submit(fitted_in_a_task, da, *binary, True).result(timeout=120)
        assert not own
    here = SDCAClassifier(n_partitions=2, **CLOSE).fit(*in_chunks(da, *binary))
    np.testing.assert_array_equal(coef, other)
    np.testing.assert_allclose(coef, here.coef_)


def test_rows_that_cannot_be_computed_again_end_the_fit(client, da, binary):
    pytest.importorskip("distributed")
    X, y = binary
    client.wait_for_workers(2)
    workers = sorted(client.scheduler_info()["workers"])
    futures = [
        client.scatter(part, workers=[worker])
        for part, worker in zip((X[:100], X[100:]), workers, strict=True)
    ]
    A = da.concatenate([da.from_delayed(f, shape=(100, 12), dtype=float) for f in futures])
    b = da.from_array(y, chunks=100)

    def kill(snapshot):
        pid = client.run(os.getpid, workers=[workers[0]])[workers[0]]
        os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)

    with pytest.raises(RuntimeError, match="cannot compute again"):
        SDCAClassifier(client=client, callback=kill, **EXACT).fit(A, b)


def lose_connection(client):
    client.loop.add_callback(lambda: client.scheduler_comm.comm.abort())


@pytest.mark.parametrize("lose", [lose_connection, lambda client: client.close()])
def test_a_lost_connection_to_the_scheduler_ends_the_fit(client, da, binary, monkeypatch, lose):
    distributed = pytest.importorskip("distributed", reason="no dask[distributed]")
    monkeypatch.setattr(_cluster, "LOOK_SECONDS", 0.5)
    certificates = []

    def break_off(snapshot):
        certificates.append(snapshot)
        if len(certificates) == 1:
            lose(own)

    address = client.scheduler_info()["address"]
    with distributed.Client(address, set_as_default=False) as own:
        model = SDCAClassifier(client=own, callback=break_off, n_partitions=2, **EXACT)
        with pytest.raises(RuntimeError, match="lost its connection to the scheduler"):
            model.fit(*in_chunks(da, *binary))
    assert model.result_.status != "converged"


def cancel_all(client):
    from distributed import Future

    client.cancel([Future(key, client) for key in client.futures])


def fit_while_chunks_are_computed(client, da, binary, monkeypatch, at_a_look):
    """Fit; call at_a_look(client) when workers are looked for while chunks are on their way.

    What it returns, unless None, is taken for the workers.
    """
    distributed = pytest.importorskip("distributed", reason="no dask[distributed]")
    monkeypatch.setattr(_cluster, "LOOK_SECONDS", 0.05)
    workers_of, calls = _cluster.ClusterPartitions._workers, itertools.count()

    def looked(self):
        on_their_way = next(calls) > 0 and not hasattr(self, "blocks")
        found = at_a_look(own) if on_their_way else None
        return workers_of(self) if found is None else found

    monkeypatch.setattr(_cluster.ClusterPartitions, "_workers", looked)
    A, b = in_chunks(da, *binary)
    slow = A.map_blocks(lambda block: (time.sleep(0.5), block)[1], meta=A._meta)
    with distributed.Client(client.scheduler_info()["address"], set_as_default=False) as own:
        SDCAClassifier(client=own, **CLOSE).fit(slow, b)


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (lambda client: client.close(), "lost its connection to the scheduler"),
        (cancel_all, "tasks were cancelled"),
    ],
)
def test_a_cluster_that_is_lost_while_chunks_are_computed(
    client, da, binary, monkeypatch, lose, message
):
    with pytest.raises(RuntimeError, match=message):
        fit_while_chunks_are_computed(client, da, binary, monkeypatch, lose)


def test_workers_that_are_gone_while_chunks_are_computed(client, da, binary, monkeypatch):
    monkeypatch.setattr(_cluster, "PATIENCE_SECONDS", 0)
    with (
        pytest.warns(RuntimeWarning, match="no workers any more"),
        pytest.raises(RuntimeError, match="has had no workers for 0 s"),
    ):
        fit_while_chunks_are_computed(client, da, binary, monkeypatch, lambda client: [])


def test_blocks_that_nobody_holds_may_go_anywhere():
    partitions = _cluster.ClusterPartitions.__new__(_cluster.ClusterPartitions)
    partitions.blocks = [SimpleNamespace(key=key) for key in "abc"]
    partitions.client = SimpleNamespace(
        status="running",
        who_has=lambda blocks: {"a": ("tcp://1",), "b": (), "c": ("tcp://1",)},
        scheduler_info=lambda n_workers: {"workers": {}},
    )
    assert partitions._where_blocks_are() == (["tcp://1", None], [[0, 2], [1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A, b: (A.rechunk((40, 6)), b), "all columns"),
        (lambda A, b: (A, b.rechunk(50)), "the same chunks|different sizes"),
        (lambda A, b: (A, b.rechunk(((20, 60, 40, 40, 40),))), "different sizes"),
        (lambda A, b: (A, np.ones(200)), "must be one"),
        (lambda A, b: (A, A), "one-dimensional"),
        (lambda A, b: (A[A[:, 0] > 0], b.rechunk(50)), "compute_chunk_sizes"),
        (lambda A, b: (A[A[:, 0] > 0], b), "inconsistent numbers"),
        (lambda A, b: (A, 0 * b), "only one class"),
    ],
)
def test_bad_dask_arrays_are_refused(client, da, binary, change, message):
    A, b = in_chunks(da, *binary)
    with pytest.raises(ValueError, match=message):
        SDCAClassifier(client=client).fit(*change(A, b))


@pytest.mark.parametrize("make", [SDCAClassifier, StreamingSVRGClassifier, PegasosClassifier])
def test_a_client_is_shared_by_clones_and_an_address_in_pickles(client, binary, make):
    model = make(client=client, n_partitions=2).fit(*binary)
    copy = clone(model)
    assert copy.client is client and model.client is client
    assert copy.n_partitions == 2 and not hasattr(copy, "n_features_in_")
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.client == client.scheduler.address
    closed = clone(model).set_params(client=SimpleNamespace(scheduler=None))
    assert pickle.loads(pickle.dumps(closed)).client is None
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


@pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier])
def test_warm_starts_with_a_partition_without_rows(binary, make):
    X, y = binary
    model = make(alpha=1.0, max_iter=3, tol=0, warm_start=True, random_state=0)
    for nothing in ([], [(X[:0], y[:0])]):
        first = model.fit([[(X, y)], nothing]).result_.primal
        assert model.fit([[(X, y)], nothing]).result_.primal <= first


@pytest.mark.parametrize("count", range(1, 18))
def test_answers_that_come_one_by_one_are_added_by_the_same_tree(count):
    vectors = list(np.random.default_rng(0).normal(size=(count, 50)))
    (expected,) = added_neighbours(vectors, np.add)
    total, rests = sum_of((vector, k) for k, vector in enumerate(vectors))
    np.testing.assert_array_equal(total, expected)
    assert rests == [[k] for k in range(count)]


@pytest.mark.parametrize("on_cluster", [False, True])
def test_rows_and_targets_of_one_array_are_read_once(client, da, on_cluster):
    dask = pytest.importorskip("dask")

    def read():  # something else each time
        X = np.random.default_rng().normal(size=(50, 3))
        return np.column_stack([X, X.sum(axis=1), 1 + (X[:, 0] > 0)])

    parts = [dask.delayed(read, pure=False)() for _ in range(4)]
    table = da.concatenate([da.from_delayed(part, (50, 5), float) for part in parts])
    columns = table[:, :3], table[:, 3], table[:, 4]
    client = client if on_cluster else None
    model = SDCARegressor(client=client, n_partitions=2, alpha=1e-6, random_state=0)
    assert model.fit(*columns).score(*columns) > 0.999
    np.testing.assert_allclose(model.coef_, 1.0, atol=0.01)


@pytest.mark.parametrize("ask", ["score", "predict_sources"])
def test_bad_blocks_are_named_in_scores_and_predictions(regression, ask):
    X, y = regression
    model = SDCARegressor(alpha=0.1).fit(X, y)
    sources = [[(X, y)], [(X, y), (np.full_like(X, np.nan), y)]]
    with pytest.raises(ValueError, match="block 2 of partition 1: Input X contains NaN"):
        getattr(model, ask)(sources)


def test_bad_chunks_are_named_in_scores(da, regression):
    X, y = regression
    model = SDCARegressor(alpha=0.1).fit(X, y)
    rows = len(y) // 2 + 1
    X = np.vstack([X[:rows], np.full_like(X[rows:], np.nan)])
    with pytest.raises(ValueError, match="chunk 1 of the rows: Input X contains NaN"):
        model.score(*in_chunks(da, X, y, rows=rows))


def test_a_fit_that_fails_leaves_nothing_on_workers(client, da):
    """Dask keeps the error, and its traceback would keep the chunks that were sound."""
    X = np.ones((4000, 20))
    X[1500] = np.nan
    X = da.from_array(X, chunks=(1000, -1))
    y = da.from_array(np.arange(4000) % 2, chunks=1000)
    for _ in range(2):
        with pytest.raises(ValueError, match="chunk 1 of the rows: Input X contains NaN"):
            SDCAClassifier(client=client).fit(X, y)
    deadline = time.monotonic() + 10  # the scheduler's answer may still be on its way
    while client.futures and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not client.futures


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_predictions_have_the_type_that_they_declare(client, da, dtype):
    X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    chunks = da.from_array(X, chunks=(40, -1)), da.from_array(X[:, 0], chunks=40)
    model = SDCARegressor(client=client, random_state=0).fit(*chunks)
    predicted = model.predict(chunks[0].astype(dtype))
    assert predicted.dtype == predicted.compute().dtype
    with pytest.raises(ValueError, match="X must be two-dimensional"):
        model.predict(chunks[0][0])
