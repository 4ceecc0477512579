"""Over partitions: large-batch Pegasos, Streaming SVRG, and checkpoints of all."""

import itertools
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from reference.losses import LOSSES as ORACLES
from reference.pegasos import pegasos
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import sublinear
from sublinear._checkpoint import Checkpoint, RoundsCheckpoint, fingerprint
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._stream import Block
from sublinear.distributed import (
    PegasosClassifier,
    PegasosRegressor,
    SDCAClassifier,
    SDCARegressor,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
)
from sublinear.distributed._batch_steps import BatchPartition, BatchSteps
from sublinear.distributed._partitions import LocalPartitions, PartitionsLost, Problem
from sublinear.distributed._stage_sums import Plan, StagePartition, even_shares
from sublinear.sources._faults import EmptySource

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NO_LIMIT = 2**62
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def in_parts(X, y, n_parts, weight=None):
    """Sources of two blocks each."""
    arrays = [X, y] if weight is None else [X, y, weight]
    return [
        [tuple(a[rows] for a in arrays) for rows in np.array_split(part, 2)]
        for part in np.array_split(np.arange(len(y)), n_parts)
    ]


# Pegasos


def batch_steps(X, y, loss="smoothed_hinge", sizes=(30, 18, 12), batch_size=20, **options):
    """The solver over partitions of these sizes, two blocks each but for the last."""
    cuts = np.cumsum((0, *sizes))
    parts = []
    for k, (start, stop) in enumerate(itertools.pairwise(cuts)):
        middle = (start + stop) // 2
        rows = [slice(start, middle), slice(middle, stop)]
        parts.append(BatchPartition(k, [(X[r], y[r]) for r in rows if r.stop > r.start], False))
    entry = MARGIN_LOSSES[loss]
    problem = Problem(
        entry.maker(SimpleNamespace(smoothing=1.0)), 0.05, float(len(y)), 0.0,
        np.random.SeedSequence(3), label=1,
    )  # fmt: skip
    return BatchSteps(
        LocalPartitions(parts), problem, n_weights=X.shape[1], n_stored=X.size, sizes=list(sizes),
        widest=X.shape[1], batch_size=batch_size,
        **({"average": "last", "projection": False} | options),
    )  # fmt: skip


def batches_of(solver, n_rounds):
    """The rows of every round, in the numbering of the whole."""
    starts = np.cumsum((0, *solver.sizes))
    for number in range(n_rounds):
        firsts, lasts = solver._drawn(number), solver._drawn(number + 1)
        yield np.concatenate(
            [
                starts[k] + part._draws(firsts[k], lasts[k])
                for k, part in enumerate(solver.partitions.partitions)
            ]
        )


def test_a_generator_may_fill_its_arrays_again(binary):
    X, y = binary

    def blocks():
        rows = np.empty_like(X[:50])
        for start in range(0, 200, 50):
            rows[:] = X[start : start + 50]
            yield rows, y[start : start + 50]

    kept = BatchPartition(0, blocks, False).blocks
    np.testing.assert_array_equal(np.vstack([block.X for block in kept]), X)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "logistic"])
def test_steps_are_those_of_the_oracle(binary, loss):
    X, y = binary[0][:60], binary[1][:60]
    solver = batch_steps(X, y, loss)
    batches = list(batches_of(solver, 9))
    assert [len(batch) for batch in batches] == [20] * 9
    targets, oracle = 2.0 * y - 1, ORACLES[loss]()
    for w in pegasos(X, targets, oracle, 0.05, batches):
        assert solver.advance(NO_LIMIT)
        np.testing.assert_allclose(solver.w, w, rtol=1e-10, atol=1e-13)


def test_an_epoch_of_every_partition_is_a_permutation(binary):
    solver = batch_steps(binary[0][:60], binary[1][:60], batch_size=7)
    drawn = np.concatenate(list(batches_of(solver, 60)))
    assert len(drawn) == 7 * 60
    np.testing.assert_array_equal(np.bincount(drawn), np.full(60, 7))


def test_work_is_counted_and_limited(binary):
    X, y = binary[0][:60], binary[1][:60]
    solver = batch_steps(X, y)
    assert not solver.advance(20 * X.shape[1] - 1) and solver.n_iter == 0
    assert solver.advance(20 * X.shape[1]) and solver.accesses == 20 * X.shape[1]


@pytest.mark.parametrize("average", ["tail", "mean", "last", "random"])
def test_certificates_are_those_of_one_process(binary, average):
    X, y = binary
    model = PegasosClassifier(
        "logistic", n_partitions=3, alpha=0.05, batch_size=40, average=average, tol=1e-3,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    whole = sublinear.SDCAClassifier("logistic", alpha=0.05, tol=1e-10, random_state=0).fit(X, y)
    result = model.result_
    assert result.status == "converged"
    assert result.dual <= whole.result_.primal <= result.primal + 1e-12
    w = np.append(model.coef_, model.intercept_)
    z = X @ model.coef_[0] + model.intercept_
    primal = 0.025 * w @ w + np.logaddexp(0, -(2 * y - 1) * z).mean()
    assert result.primal == pytest.approx(primal, rel=1e-12)


def test_weights_classes_and_sparse_rows(multiclass):
    X, y = multiclass
    order = np.argsort(y, kind="stable")  # no partition has all classes
    X, y = sparse.csr_array(X[order]), y[order]
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {"alpha": 0.05, "class_weight": "balanced", "tol": 2e-2, "random_state": 0}
    model = PegasosClassifier("smoothed_hinge", n_partitions=3, **options).fit(X, y, weight)
    whole = sublinear.SDCAClassifier("smoothed_hinge", **options | {"tol": 1e-10}).fit(X, y, weight)
    for part, best in zip(model.result_.parts, whole.result_.parts, strict=True):
        assert part.status == "converged"
        assert part.dual <= best.primal * (1 + 1e-9) and best.primal <= part.primal * (1 + 1e-9)
    assert type(model.to_local()) is sublinear.PegasosClassifier


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "absolute", "huber", "squared"])
def test_regression_is_certified(regression, loss):
    X, y = regression
    options = {"alpha": 0.05, "random_state": 0}
    whole = sublinear.SDCARegressor(loss, tol=1e-8, **options).fit(X, y)
    model = PegasosRegressor(
        loss, n_partitions=3, batch_size=60, projection=loss == "squared", tol=0.02, **options
    ).fit(X, y)
    result, best = model.result_, whole.result_
    assert result.status == "converged"
    assert result.dual <= best.primal and best.dual <= result.primal
    assert model.coef_.shape == (X.shape[1],) and np.ndim(model.intercept_) == 0
    local = model.to_local()
    assert type(local) is sublinear.PegasosRegressor
    np.testing.assert_array_equal(local.predict(X), model.predict(X))


def test_losses_without_bounded_derivatives_are_projected(binary):
    with pytest.raises(ValueError, match="needs projection"):
        PegasosRegressor("squared").fit(*binary)
    with pytest.raises(ValueError, match="needs projection"):
        PegasosClassifier("squared_hinge").fit(*binary)
    model = PegasosClassifier(
        "squared_hinge", projection=True, n_partitions=2, alpha=0.1, tol=0.05, random_state=0
    ).fit(*binary)
    assert model.result_.status == "converged"


BIASES = ("feature", "subgradient", "search")


@pytest.mark.parametrize("n_partitions", [1, 3])
@pytest.mark.parametrize("average", ["last", "tail"])
@pytest.mark.parametrize("bias", BIASES)
def test_full_batches_are_those_of_one_process(binary, bias, average, n_partitions):
    X, y = binary
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {
        "alpha": 0.05, "batch_size": "all", "bias": bias, "average": average, "tol": 0,
        "max_iter": 60, "random_state": 0,
    }  # fmt: skip
    whole = sublinear.PegasosClassifier(**options).fit(X, y, weight)
    parts = PegasosClassifier(n_partitions=n_partitions, **options).fit(X, y, weight)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(parts.intercept_, whole.intercept_, rtol=1e-10)
    for name in ("primal", "dual"):
        found = getattr(parts.result_, name)
        assert found == pytest.approx(getattr(whole.result_, name), rel=1e-10)


@pytest.mark.parametrize("bias", BIASES)
def test_projected_full_batches_are_those_of_one_process(regression, bias):
    X, y = regression
    options = {
        "alpha": 0.05, "batch_size": "all", "bias": bias, "projection": True, "tol": 0,
        "max_iter": 40, "random_state": 0,
    }  # fmt: skip
    whole = sublinear.PegasosRegressor("huber", **options).fit(X, y + 3)
    parts = PegasosRegressor("huber", n_partitions=2, **options).fit(X, y + 3)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    assert parts.intercept_ == pytest.approx(whole.intercept_, rel=1e-10)


@pytest.mark.parametrize("batch_size", [60, "all"])
@pytest.mark.parametrize("bias", ["subgradient", "search"])
def test_a_free_intercept_is_certified(regression, bias, batch_size):
    X, y = regression
    best = sublinear.SDCARegressor(
        "huber", alpha=0.05, penalize_intercept=False, tol=1e-10, random_state=0
    ).fit(X, y + 3)
    model = PegasosRegressor(
        "huber", alpha=0.05, bias=bias, batch_size=batch_size, n_partitions=3, tol=5e-3,
        max_iter=5000, random_state=0,
    ).fit(X, y + 3)  # fmt: skip
    result = model.result_
    assert result.status == "converged"
    assert result.dual <= best.result_.primal * (1 + 1e-12)
    assert best.result_.dual <= result.primal * (1 + 1e-12)
    assert model.intercept_ == pytest.approx(best.intercept_, abs=0.3)


@pytest.mark.parametrize("limits", [{"tol": 5e-3, "max_iter": 5000}, {"tol": 0, "max_iter": 30}])
def test_a_search_moves_where_the_fit_goes_on_from_a_certificate(limits, regression):
    X, y = regression
    model = PegasosRegressor(
        "huber", alpha=0.05, bias="search", n_partitions=3, warm_start=True, random_state=0
    )
    model.set_params(**limits).fit(X, y + 3)
    (state,) = model._states
    stays = state["next_bias"] == state["w"][-1]
    assert stays == (model.result_.status == "converged") == (limits["tol"] > 0)
    model.set_params(tol=0, max_iter=1).fit(X, y + 3)
    assert model.intercept_ == pytest.approx(state["next_bias"], rel=1e-12)


class LossyBatches(LocalPartitions):
    """Loses a partition at every `every`-th question."""

    def __init__(self, partitions, make, every):
        super().__init__(partitions)
        self.make, self.every, self.asked, self.n_gone = make, every, 0, 0

    def _answers(self, method, arguments, asked):
        self.asked += 1
        if self.asked % self.every == 0 and method not in ("open", "begin"):
            gone = self.n_gone % len(self)
            self.n_gone += 1
            list(super()._answers(method, arguments, [k for k in range(len(self)) if k != gone]))
            self.partitions[gone] = None
            raise PartitionsLost({gone})
        return super()._answers(method, arguments, asked)

    def rebuild(self, lost):
        for k in lost:
            self.partitions[k] = self.make(k)


@pytest.mark.parametrize("make", [StreamingSVRGClassifier, SDCAClassifier, PegasosClassifier])
@pytest.mark.parametrize("lost_at", ["start", "labels", "describe"])
def test_partitions_lost_outside_of_rounds_are_counted(make, lost_at, binary, monkeypatch):
    asked, ask = [], LocalPartitions.ask

    def lossy(self, method, *arguments, only=None):
        asked.append(method)
        if method == lost_at and asked.count(method) == 1:
            raise PartitionsLost({0, 1})
        return ask(self, method, *arguments, only=only)

    monkeypatch.setattr(LocalPartitions, "ask", lossy)
    monkeypatch.setattr(LocalPartitions, "rebuild", lambda self, lost: None, raising=False)
    model = make(alpha=0.1).fit(in_parts(*binary, 2))
    assert model.n_lost_ == (2 if lost_at in asked else 0)
    assert model.stream_.rows == 200


@pytest.mark.parametrize("bias", BIASES)
def test_lost_partitions_cost_certificates_alone(regression, bias, monkeypatch):
    X, y = regression
    parts, made = in_parts(X, y, 3), []

    def lossy(model, client, *data):
        def make(k):
            return BatchPartition(k, parts[k], True)

        made.append(LossyBatches([make(k) for k in range(3)], make, 11))
        return made[-1]

    options = {
        "alpha": 0.05, "bias": bias, "batch_size": 60, "average": "last", "tol": 0,
        "max_iter": 40, "random_state": 0,
    }  # fmt: skip
    best = sublinear.SDCARegressor(
        "huber", alpha=0.05, penalize_intercept=bias == "feature", tol=1e-10, random_state=0
    ).fit(X, y)
    whole = PegasosRegressor("huber", **options).fit(parts)
    monkeypatch.setattr(PegasosRegressor, "_partition", lossy)
    model = PegasosRegressor("huber", **options).fit(parts)
    assert model.n_lost_ == made[0].n_gone > 3
    assert model.result_.dual <= best.result_.primal * (1 + 1e-12)
    if bias != "search":  # which goes where certificates say
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-10)


@pytest.mark.parametrize("batch_size", [50, "all"])
@pytest.mark.parametrize("bias", BIASES)
def test_a_warm_start_goes_on_with_the_steps(multiclass, bias, batch_size):
    X, y = multiclass
    options = {
        "alpha": 0.05, "bias": bias, "batch_size": batch_size, "tol": 0, "n_partitions": 3,
        "random_state": 0,
    }  # fmt: skip
    model = PegasosClassifier("logistic", max_iter=7, warm_start=True, **options).fit(X, y)
    whole = PegasosClassifier("logistic", max_iter=16, **options).fit(X, y)
    model.set_params(max_iter=9).fit(X, y)
    if bias == "search":  # whose lines begin anew
        cold = PegasosClassifier("logistic", max_iter=9, **options).fit(X, y)
        assert model.result_.primal < cold.result_.primal
        return
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.intercept_, whole.intercept_)
    assert model.result_.primal == whole.result_.primal
    # rates of partitions are those of their rows, but for rounding
    assert model.result_.dual == pytest.approx(whole.result_.dual, rel=1e-3)


@pytest.mark.parametrize("change", ["labels", "alpha"])
def test_a_warm_start_on_another_problem_begins_anew(change, binary):
    X, y = binary
    options = {"alpha": 1e-3, "batch_size": 20, "tol": 0, "random_state": 0, "n_partitions": 2}
    model = PegasosClassifier(warm_start=True, max_iter=500, **options).fit(X, y)
    if change == "labels":
        y = 1 - y
    else:
        options["alpha"] = 1e-2
    cold = PegasosClassifier(max_iter=30, **options).fit(X, y)
    model.set_params(max_iter=30, **options).fit(X, y)
    np.testing.assert_array_equal(model.coef_, cold.coef_)


def test_a_warm_start_with_other_partitions_or_rows(regression):
    X, y = regression
    options = {"alpha": 0.05, "tol": 1e-3, "random_state": 0, "max_iter": 10_000}
    model = PegasosRegressor("huber", n_partitions=3, warm_start=True, **options).fit(X, y)
    cold = model.n_iter_
    assert model.set_params(n_partitions=2).fit(X, y).n_iter_ < cold / 2
    assert model.fit(X[:150], y[:150]).result_.status == "converged"
    other = PegasosRegressor("huber", n_partitions=2, **options).fit(X[:, :5], y)
    model.fit(X[:, :5], y)  # another width: anew
    np.testing.assert_array_equal(model.coef_, other.coef_)
    model.set_params(bias="subgradient", max_iter=20, tol=0).fit(X[:, :5], y)
    other = PegasosRegressor(**model.get_params()).fit(X[:, :5], y)
    np.testing.assert_array_equal(model.coef_, other.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": "batch"}, "bias must be one of"),
        ({"bias": "subgradient", "loss": "squared_hinge", "projection": True}, "needs bias="),
        ({"warm_start": 1}, "warm_start"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 201}, "exceeds"),
        ({"average": "best"}, "average"),
        ({"projection": 1}, "projection"),
    ],
)
def test_bad_parameters_of_pegasos_are_refused(binary, options, message):
    with pytest.raises(ValueError, match=message):
        PegasosClassifier(**options).fit(*binary)


# Streaming SVRG


def noisy(n_rows, d=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, d))
    return X, X @ np.arange(1.0, d + 1) + random.normal(size=n_rows)


def order_of_stages(sizes, kept_rows, growth=2.0):
    """The rows of partitions of these sizes in the order in which the stages take them."""
    starts = np.cumsum((0, *sizes))[:-1]
    taken, order, total = [0] * len(sizes), [], sum(sizes)
    while len(order) < total:
        stage, n_kept = [], 0
        wanted = max(kept_rows, int((growth - 1) * len(order)))
        while len(stage) < wanted and len(order) + len(stage) < total:
            takers = {k for k, size in enumerate(sizes) if taken[k] < size}
            shares = even_shares(wanted - len(stage), takers, len(sizes))
            kept = even_shares(max(0, kept_rows - n_kept), takers, len(sizes))
            first, rest = [], []
            for k in sorted(takers):
                count = min(shares[k], sizes[k] - taken[k])
                rows = list(range(starts[k] + taken[k], starts[k] + taken[k] + count))
                first += rows[: kept[k]]
                rest += rows[kept[k] :]
                taken[k] += count
            n_kept += len(first)
            stage += first + rest
        order += stage
    return np.array(order)


@pytest.mark.parametrize("sizes", [(3000, 3000), (4001, 1500, 499)], ids=str)
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_stages_are_those_of_one_process(sizes, loss):
    X, y = noisy(6000)
    cuts = np.cumsum((0, *sizes))
    sources = [
        [(X[a:middle], y[a:middle]), (X[middle:b], y[middle:b])]
        for a, b in itertools.pairwise(cuts)
        for middle in [(2 * a + b) // 3]
    ]
    model = StreamingSVRGRegressor(loss, kept_rows=200).fit(sources)
    order = order_of_stages(sizes, 200)
    alone = sublinear.StreamingSVRGRegressor(loss, kept_rows=200, shuffle=False)
    alone.fit(X[order], y[order])
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-12)
    assert model.n_iter_ == alone.n_iter_
    assert model.result_.n_rows == 6000
    assert model.result_.accesses == alone.result_.accesses
    assert model.result_.excess_risk == pytest.approx(alone.result_.excess_risk, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_rows_of_large_weight_are_kept_from_every_partition(loss):
    X, y = noisy(6000)
    if loss == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(y / 10)).astype(float)
    weights = np.exp(1.5 * np.random.default_rng(1).normal(size=6000))
    model = StreamingSVRGRegressor(loss, kept_rows=400).fit(in_parts(X, y, 2, weights))
    order = order_of_stages((3000, 3000), 400)
    alone = sublinear.StreamingSVRGRegressor(loss, kept_rows=400, shuffle=False)
    alone.fit(X[order], y[order], weights[order])
    assert model.n_iter_ == alone.n_iter_ == 4  # of 400, 400, 800 and 1600 rows
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9, atol=1e-11)
    assert model.result_.excess_risk == pytest.approx(alone.result_.excess_risk, nan_ok=True)


def test_an_intercept_without_penalty_in_every_stage():
    X, y = noisy(6000)
    options = {"alpha": 0.5, "penalize_intercept": False, "kept_rows": 200}
    model = StreamingSVRGRegressor(**options).fit(in_parts(X, y + 50, 1))
    alone = sublinear.StreamingSVRGRegressor(**options, shuffle=False).fit(X, y + 50)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
    assert model.intercept_ == pytest.approx(alone.intercept_)
    assert model.intercept_ == pytest.approx(np.mean(y - X @ model.coef_) + 50, abs=0.1)


def test_a_warm_start_goes_on_with_the_stages():
    X, y = noisy(6400)
    first, second = in_parts(X[:3200], y[:3200], 2), in_parts(X[3200:], y[3200:], 2)
    model = StreamingSVRGRegressor(kept_rows=200, warm_start=True).fit(first)
    assert model.result_.n_rows == 3200  # the end of a stage
    model.fit(second)
    kept = np.r_[3200:3300, 4800:4900]  # half of them from each partition
    order = np.r_[order_of_stages((1600, 1600), 200), kept, 3300:4800, 4900:6400]
    alone = sublinear.StreamingSVRGRegressor(kept_rows=200, shuffle=False).fit(X[order], y[order])
    assert model.result_.n_rows == 6400 and model.n_iter_ == alone.n_iter_
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
    again = StreamingSVRGRegressor(kept_rows=200).fit(second)
    np.testing.assert_array_equal(again.coef_, model.set_params(warm_start=False).fit(second).coef_)
    model.set_params(warm_start=True)
    for data in ((in_parts(X[:, :4], y, 2),), (X[:, :4], y)):
        with pytest.raises(ValueError, match="4 columns; the model goes on from 5"):
            model.fit(*data)
        assert model.n_features_in_ == 5
    with pytest.raises(ValueError, match="fit_intercept must not change"):
        model.set_params(fit_intercept=False).fit(second)


def test_rows_without_weight_are_not_kept():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 4)), random.normal(size=300)
    weights = (np.arange(300) >= 100).astype(float)
    model = StreamingSVRGRegressor(kept_rows=50).fit([[(X, y, weights)]])
    alone = sublinear.StreamingSVRGRegressor(kept_rows=50).fit_stream([(X, y, weights)])
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)


def test_a_warm_start_keeps_the_classes(multiclass):
    X, y = multiclass
    model = StreamingSVRGClassifier(alpha=0.01, warm_start=True).fit(in_parts(X, y, 2))
    two = y < 2
    model.fit(in_parts(X[two], y[two], 2))  # labels may be missing
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.result_.n_rows == len(y) + two.sum()
    with pytest.raises(ValueError, match="not among the classes"):
        model.fit(in_parts(X, y + 1, 2))
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        model.fit(in_parts(X, y, 2), classes=[0, 1])


def test_classes_weights_and_sparse_rows():
    X, z = noisy(3000)
    y = np.array(["low", "middle", "high"])[np.digitize(z, (-3, 3))]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    options = {"kept_rows": 300, "alpha": 1e-3}
    dense = StreamingSVRGClassifier(**options).fit(in_parts(X, y, 3, weight))
    rows = sparse.csr_array(X)
    thin = StreamingSVRGClassifier(**options).fit(in_parts(rows, y, 3, weight))
    assert dense.classes_.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-8)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    best = sublinear.SDCAClassifier("logistic", alpha=1e-3, tol=1e-9).fit(X[repeated], y[repeated])
    assert dense.score(X, y, weight) == pytest.approx(best.score(X, y, weight), abs=0.01)
    local = dense.to_local()
    np.testing.assert_array_equal(local.predict_proba(X), dense.predict_proba(X))
    local.partial_fit(X[:500], y[:500])
    assert local.result_.n_rows == dense.result_.n_rows + 500
    local = dense.set_params(loss="squared_hinge").to_local()  # of the loss that was fitted
    np.testing.assert_array_equal(local.predict_proba(X), dense.predict_proba(X))


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_a_class_whose_stages_are_longer(n_partitions, monkeypatch):
    """The first class is nearly separable from the others, which are not from each other."""
    monkeypatch.setattr(sublinear.streaming, "LEAST_KEPT_ROWS", 100)
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 4))
    y = np.where(X[:, 0] > 0.02 * random.normal(size=6000), 0, 1 + (random.random(6000) < 0.5))
    model = StreamingSVRGClassifier().fit(in_parts(X, y, n_partitions))
    kept = [solver.kept_rows for solver in model.to_local()._solvers]
    assert kept[0] > max(kept[1:])
    alone = sublinear.StreamingSVRGClassifier(shuffle=False).fit(X, y)
    if n_partitions == 1:
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
        assert model.result_.accesses == alone.result_.accesses
    assert model.score(X, y) == pytest.approx(alone.score(X, y), abs=0.01)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.5}, {1: 0}], ids=str)
def test_class_weights_of_stages_are_sample_weights(class_weight):
    X, z = noisy(3000)
    y = np.digitize(z, (-3, 3))
    own = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    if class_weight == "balanced":
        masses = np.bincount(y, own)
        factors = masses.sum() / (3 * masses)
    else:
        factors = np.array([class_weight.get(k, 1.0) for k in range(3)])
    options = {"kept_rows": 300, "alpha": 1e-3}
    same = StreamingSVRGClassifier(**options)
    same.fit(in_parts(X, y, 3, own * factors[y]), classes=[0, 1, 2])
    for classes in (None, [0, 1, 2]):
        model = StreamingSVRGClassifier(**options, class_weight=class_weight)
        model.fit(in_parts(X, y, 3, own), classes=classes)
        np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-10)
        assert model.result_.n_rows == same.result_.n_rows
    assert model.to_local().class_weight == class_weight


def test_stages_pass_over_blocks_whose_class_has_no_weight():
    X, z = noisy(2000)
    y = (z > 0).astype(int)
    ones = [(X[y == 1], y[y == 1])]
    zeros = [(X[y == 0], y[y == 0])]
    options = {"kept_rows": 300, "alpha": 1e-2}
    model = StreamingSVRGClassifier(**options, class_weight={0: 0}).fit(
        [zeros + ones + zeros, zeros], classes=[0, 1]
    )
    alone = StreamingSVRGClassifier(**options).fit([ones], classes=[0, 1])
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
    for classes in (None, [0, 1]):
        with pytest.raises(ValueError, match="class_weight leaves no example"):
            StreamingSVRGClassifier(class_weight={0: 0, 1: 0}).fit([zeros + ones], classes=classes)
    with pytest.raises(ValueError, match=r"block 2 of partition 0: y holds labels that are not"):
        StreamingSVRGClassifier(class_weight={0: 2}).fit([[*ones, (X[:1], [7])]], classes=[0, 1])


@pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier, StreamingSVRGClassifier])
@pytest.mark.parametrize(("factor", "words"), [(0, "class_weight leaves"), (1e308, "outside the")])
def test_weights_of_classes_that_cannot_be_used(make, factor, words):
    X, z = noisy(200)
    with warnings.catch_warnings(), pytest.raises(ValueError, match=words):
        warnings.simplefilter("error")
        make(class_weight={0: factor, 1: factor}).fit(X, (z > 0).astype(int))


@pytest.mark.parametrize("model", [SDCAClassifier(random_state=0), StreamingSVRGClassifier()])
def test_columns_of_a_frame_may_have_any_name(model):
    pandas = pytest.importorskip("pandas")
    X, z = noisy(200)
    y = (z > 0).astype(int)
    names = ["to_dask_array", "matrix", "dtype", *map(str, range(3, X.shape[1]))]
    model.set_params(alpha=0.1)
    found = [clone(model).fit(rows, y).coef_ for rows in (X, pandas.DataFrame(X, columns=names))]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_stages_are_balanced_by_a_pass_of_their_own():
    X, z = noisy(1000)
    y = (z > 1).astype(int)
    model = StreamingSVRGClassifier(alpha=0.01, class_weight="balanced")
    with pytest.raises(ValueError, match="a generator can be read only once"):
        model.fit([(block for block in [(X, y)])], classes=[0, 1])
    coef = model.set_params(warm_start=True).fit([[(X, y)]]).coef_
    with pytest.raises(ValueError, match='class_weight="balanced" is for a new fit'):
        model.fit([[(X, y)]])
    assert model.coef_ is coef


def test_counts_and_bad_counts(da):
    X, z = noisy(2000)
    y = np.random.default_rng(0).poisson(np.exp(z / 10)).astype(float)
    model = StreamingSVRGRegressor("poisson", kept_rows=300).fit(in_parts(X, y, 2))
    alone = sublinear.StreamingSVRGRegressor("poisson", kept_rows=300).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=0.05)
    A, b = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
    for loss in ("poisson", "squared"):  # of the model, and as set since
        model.set_params(loss=loss)
        np.testing.assert_allclose(model.predict(A).compute(), model.predict(X))
        assert model.score(A, b) == pytest.approx(model.score(X, y))
    y[-1] = -1
    with pytest.raises(ValueError, match="must not be negative"):
        StreamingSVRGRegressor("poisson").fit(in_parts(X, y, 2))


def test_a_generator_needs_its_classes(binary):
    X, y = binary

    def sources():
        return [(block for block in part) for part in in_parts(X, y, 2)]

    with pytest.raises(ValueError, match="only once"):
        StreamingSVRGClassifier().fit(sources())
    model = StreamingSVRGClassifier(alpha=0.01).fit(sources(), classes=[0, 1])
    again = StreamingSVRGClassifier(alpha=0.01).fit(in_parts(X, y, 2))
    np.testing.assert_array_equal(model.coef_, again.coef_)
    with pytest.raises(ValueError, match="not among the classes"):
        StreamingSVRGClassifier().fit(sources(), classes=[0, 2])
    with pytest.raises(ValueError, match="a regressor has none"):
        StreamingSVRGRegressor().fit(sources(), classes=[0, 1])


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            [[(np.ones((4, 3)), [0, 1, 0, 1])], [(np.ones((4, 2)), [0, 1, 0, 1])]],
            "partition 1: 2 columns, but those before have 3",
        ),
        ([[(np.ones((2, 3)), [0, 1]), (np.ones((2, 2)), [0, 1])]], "first block has 3"),
        ([[(np.ones((4, 3)), [1, 1, 1, 1])]], "only one class"),
        ([], "no sources"),
        ([[]], "all partitions are empty"),
        ([[np.ones((4, 3))]], "must yield"),
        ([[(np.full((2, 3), np.nan), [0, 1])]], "NaN"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_sources_are_refused(sources, message):
    with pytest.raises(ValueError, match=message):
        StreamingSVRGClassifier().fit(sources)


def test_a_source_that_becomes_shorter_is_refused(tmp_path):
    X, y = noisy(400)
    state = tmp_path / "state"
    StreamingSVRGRegressor(kept_rows=50).fit(in_parts(X, y, 2), checkpoint=state)
    short = [part[:1] for part in in_parts(X, y, 2)]
    with pytest.raises(ValueError, match="become shorter"):
        StreamingSVRGRegressor(kept_rows=50).fit(short, checkpoint=state)


def test_a_partition_that_is_opened_again_begins_again():
    """As where another one is lost meanwhile, and rows were taken before."""
    X, y = noisy(100)
    plan = Plan(REGRESSION_LOSSES["squared"].loss, constant=0.0)
    sums = []
    for count in (1, 2):
        partition = StagePartition(0, in_parts(X, y, 1)[0], True)
        for _ in range(count):
            partition.open(plan, [60])
        sums.append(partition.round(1, [np.zeros(5)], [(10, 0.0)], [10], [0])[0])
    np.testing.assert_array_equal(*sums)


CHECKED = [
    PegasosClassifier("smoothed_hinge", n_partitions=2, alpha=0.1, max_iter=20),
    PegasosRegressor("huber", n_partitions=2, alpha=0.1, max_iter=20),
    StreamingSVRGRegressor(n_partitions=2),
    StreamingSVRGClassifier(n_partitions=2, alpha=1e-3),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Checkpoints

MODELS = {
    "dual ascent": SDCAClassifier("smoothed_hinge", alpha=0.01, tol=0, max_iter=12, random_state=0),
    "dual ascent, three classes": SDCAClassifier(alpha=0.01, tol=0, max_iter=12, random_state=0),
    "regression": SDCARegressor("huber", alpha=0.01, tol=0, max_iter=12, random_state=0),
    "regression, free intercept": SDCARegressor(
        "huber", alpha=0.01, penalize_intercept=False, tol=0, max_iter=12, random_state=0
    ),
    "second order, three classes": SDCAClassifier(
        second_order=True, alpha=0.01, tol=1e-12, max_iter=12, random_state=0
    ),
    "second order, regression": SDCARegressor(
        "absolute",
        second_order=True,
        penalize_intercept=False,
        alpha=0.01,
        tol=1e-12,
        max_iter=12,
        random_state=0,
    ),
    "pegasos": PegasosClassifier(alpha=0.05, batch_size=30, tol=0, max_iter=15, random_state=0),
    "pegasos, searched intercept": PegasosClassifier(
        alpha=0.05,
        batch_size=30,
        bias="search",
        average="random",
        projection=True,
        tol=0,
        max_iter=60,
        random_state=0,
    ),
    "stages": StreamingSVRGRegressor(kept_rows=10),
    "stages, three classes": StreamingSVRGClassifier(alpha=1e-3, kept_rows=20),
}


def data_for(case, request):
    name = "multiclass" if "three" in case else "binary"
    return request.getfixturevalue("regression" if "regression" in case else name)


@pytest.fixture
def interrupt_at_save(monkeypatch):
    """A function: the n-th checkpoint from now on is written, and then the fit interrupted."""

    def after(count):
        left = [count]

        def save(self, state):
            write(self, state)
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(Checkpoint, "save", save)

    write = Checkpoint.save
    return after


def assert_same(first, second):
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)
    assert first.n_iter_ == second.n_iter_ and first.result_.accesses == second.result_.accesses


@pytest.mark.parametrize("case", MODELS)
def test_an_interrupted_fit_goes_on_with_the_same_bits(case, request, tmp_path, interrupt_at_save):
    X, y = data_for(case, request)
    sources, file = in_parts(X, y, 3), tmp_path / "state"
    whole = clone(MODELS[case]).fit(sources)
    interrupt_at_save(2)
    with pytest.raises(KeyboardInterrupt):
        clone(MODELS[case]).fit(sources, checkpoint=file, checkpoint_every=2)
    resumed = clone(MODELS[case]).fit(sources, checkpoint=file, checkpoint_every=2)
    assert_same(resumed, whole)
    again = clone(MODELS[case]).fit(sources, checkpoint=file)
    assert_same(again, whole)


WARM = {
    "dual ascent": MODELS["dual ascent, three classes"],
    "dual ascent, free intercept": SDCAClassifier(
        alpha=0.01, penalize_intercept=False, tol=0, max_iter=12, random_state=0
    ),
    "pegasos": PegasosClassifier(alpha=0.05, batch_size=30, tol=0, max_iter=12, random_state=0),
    "pegasos, searched intercept": PegasosClassifier(
        alpha=0.05, bias="search", tol=0, max_iter=12, random_state=0
    ),
}


def assert_same_result(first, second):
    """Everything but the time."""
    assert len(first.parts) == len(second.parts)
    for a, b in zip((first, *first.parts), (second, *second.parts), strict=True):
        for name in ("primal", "dual", "gap", "status", "n_iter", "accesses"):
            np.testing.assert_equal(getattr(a, name), getattr(b, name))
        assert a.certificate_accesses == b.certificate_accesses
        timeless = [[row._replace(seconds=0) for row in result.trace] for result in (a, b)]
        assert timeless[0] == timeless[1]


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("case", WARM)
def test_solved_problems_are_as_if_there_had_been_no_pause(
    case, warm, multiclass, tmp_path, monkeypatch
):
    X, y = multiclass
    sources, file = in_parts(X, y, 2), tmp_path / "state"

    def fresh():
        model = clone(WARM[case]).set_params(warm_start=True)
        if warm:
            model.fit(sources).set_params(max_iter=6)
        return model

    def interrupted(self, *solved):
        end(self, *solved)
        raise KeyboardInterrupt

    whole = fresh().fit(sources)
    end, model = RoundsCheckpoint.end, fresh()
    monkeypatch.setattr(RoundsCheckpoint, "end", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            model.fit(sources, checkpoint=file, checkpoint_every=2)
        model = clone(model)  # a process that knows the file alone
    monkeypatch.undo()
    resumed = model.fit(sources, checkpoint=file)
    assert_same(resumed, whole)
    assert_same_result(resumed.result_, whole.result_)
    assert resumed.n_lost_ == 0
    if isinstance(whole, SDCAClassifier):
        np.testing.assert_array_equal(resumed.dual_coef_, whole.dual_coef_)
    assert_same(resumed.fit(sources), whole.fit(sources))  # a warm start
    assert_same_result(resumed.result_, whole.result_)


@pytest.mark.parametrize("max_iter", [1, 300])
@pytest.mark.parametrize("make", [SDCAClassifier, PegasosClassifier])
def test_problems_that_a_callback_stopped_go_on(make, max_iter, multiclass, tmp_path):
    """The first and the last of three, after rounds of their own, or at the limit."""
    sources, file = in_parts(*multiclass, 2), tmp_path / "state"
    model = make(alpha=1e-3, tol=1e-6, max_iter=max_iter, random_state=0)
    whole, n_seen = clone(model).fit(sources), []
    first = min(2, len(whole.result_.parts[0].trace))
    last = first + len(whole.result_.parts[1].trace) + 1

    def stop_some(snapshot):
        n_seen.append(snapshot.n_iter)
        return len(n_seen) in (first, last)

    stopped = clone(model).set_params(callback=stop_some).fit(sources, checkpoint=file)
    statuses = [part.status for part in stopped.result_.parts]
    assert statuses == ["stopped", whole.result_.parts[1].status, "stopped"]
    resumed = clone(model).fit(sources, checkpoint=file)
    assert_same(resumed, whole)
    assert_same_result(resumed.result_, whole.result_)


def test_a_warm_start_of_stages_goes_on_after_a_pause(tmp_path, interrupt_at_save):
    X, y = noisy(2400)
    first, second = in_parts(X[:1000], y[:1000], 2), in_parts(X[1000:], y[1000:], 2)

    def fresh():
        return StreamingSVRGRegressor(kept_rows=20, warm_start=True).fit(first)

    whole, file = fresh().fit(second), tmp_path / "state"
    interrupt_at_save(2)
    with pytest.raises(KeyboardInterrupt):
        fresh().fit(second, checkpoint=file)
    resumed = StreamingSVRGRegressor(kept_rows=20, warm_start=True)
    assert_same(resumed.fit(second, checkpoint=file), whole)
    np.testing.assert_equal(asdict(resumed.result_), asdict(whole.result_))


PROGRAM = """
import os, signal
import numpy as np
from sublinear.distributed import SDCAClassifier

data = np.load("data.npz")
parts = [[(data["X"][k::2], data["y"][k::2])] for k in range(2)]
left = [4]

def die(snapshot):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

SDCAClassifier(alpha=0.01, tol=0, max_iter=30, random_state=7, callback=die).fit(
    parts, checkpoint="state", checkpoint_every=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_fit_goes_on_with_the_same_bits(multiclass, tmp_path):
    X, y = multiclass
    np.savez(tmp_path / "data.npz", X=X, y=y)
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    options = {"alpha": 0.01, "tol": 0, "max_iter": 30, "random_state": 7}
    parts = [[(X[k::2], y[k::2])] for k in range(2)]
    whole = SDCAClassifier(**options).fit(parts)
    resumed = SDCAClassifier(**options)
    resumed.fit(parts, checkpoint=tmp_path / "state", checkpoint_every=2)
    assert_same(resumed, whole)


def test_a_checkpoint_of_another_fit_is_refused(binary, tmp_path):
    X, y = binary
    file = tmp_path / "state"
    options = {"alpha": 0.01, "tol": 0, "max_iter": 4, "random_state": 0}
    SDCAClassifier(**options).fit(in_parts(X, y, 2), checkpoint=file)
    with pytest.raises(ValueError, match="rows of its partitions"):
        SDCAClassifier(**options).fit(in_parts(X, y, 3), checkpoint=file)
    with pytest.raises(ValueError, match="rows of its partitions"):
        SDCAClassifier(**options).fit(in_parts(X + 1, y, 2), checkpoint=file)
    with pytest.raises(ValueError, match=r"alpha=0\.01"):
        SDCAClassifier(**options | {"alpha": 0.02}).fit(in_parts(X, y, 2), checkpoint=file)
    with pytest.raises(ValueError, match="class was"):
        PegasosClassifier().fit(in_parts(X, y, 2), checkpoint=file)
    SDCAClassifier(**options).fit(in_parts(X, y, 3), checkpoint=file, resume=False)
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(ValueError, match=str(file)):
        SDCAClassifier(**options).fit(in_parts(X, y, 3), checkpoint=file)


@pytest.mark.parametrize("change", ["values", "labels", "weights"])
@pytest.mark.parametrize("case", MODELS)
def test_a_checkpoint_of_other_last_rows_is_refused(case, change, request, tmp_path):
    X, y = data_for(case, request)
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    weights, file = np.ones(len(y)), tmp_path / "state"
    clone(MODELS[case]).fit(in_parts(X, y, 2, weights), checkpoint=file)
    if change == "values":
        X[-1, -1] += 1
    elif change == "labels":
        y[-1] = y[y != y[-1]][0]
    else:
        weights[-1] = 2
    model = clone(MODELS[case])
    with pytest.raises(ValueError, match=rf"{file}: .*rows of its partitions"):
        model.fit(in_parts(X, y, 2, weights), checkpoint=file)
    assert not hasattr(model, "coef_")


def test_stages_do_not_go_on_from_rows_that_were_taken_and_are_others(tmp_path, interrupt_at_save):
    """Of rows that were not read yet nothing is known."""
    X, y = noisy(400)
    source = [(X[k : k + 20], y[k : k + 20]) for k in range(0, 400, 20)]
    file, model = tmp_path / "state", StreamingSVRGRegressor(kept_rows=20)
    interrupt_at_save(2)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit([source], checkpoint=file)
    y[30] += 1  # in the second block
    with pytest.raises(ValueError, match="rows of its partitions"):
        clone(model).fit([source], checkpoint=file)
    y[30] -= 1
    y[-1] += 1
    assert_same(clone(model).fit([source], checkpoint=file), clone(model).fit([source]))


@pytest.mark.parametrize("damage", ["awake", "duals", "long"])
def test_a_damaged_checkpoint_is_refused(damage, binary, tmp_path):
    X, y = binary
    file, sources = tmp_path / "state", in_parts(X, y, 2)
    options = {"alpha": 1e-4, "tol": 1e-9, "random_state": 0}
    SDCAClassifier(callback=lambda snapshot: True, **options).fit(sources, checkpoint=file)
    arrays = dict(np.load(file))
    for name, array in arrays.items():
        if damage == "awake" and name.endswith("awake"):
            arrays[name] = array.astype(np.int64) + 3_000_000_000
        elif damage == "duals" and name.endswith("duals"):
            arrays[name] = array[:1]
        elif damage == "long" and name.endswith("awake"):
            arrays[name] = np.tile(array, 3)
    with open(file, "wb") as stream:
        np.savez(stream, **arrays)
    with pytest.raises(
        ValueError, match=rf"state: .*\.{damage if damage == 'duals' else 'awake'} "
    ):
        SDCAClassifier(**options).fit(sources, checkpoint=file)


def test_the_mark_of_wide_sparse_rows_takes_no_dense_ones():
    rows = sparse.csr_array((np.ones(5), (np.arange(5), np.arange(5))), shape=(5, 10**10))
    marks = []
    for first in (1.0, 2.0):
        rows.data[0] = first
        marks.append(fingerprint(Block(rows, np.arange(5), None)))
    assert marks[0] != marks[1]


# On a cluster


def in_chunks(da, *arrays, rows=40):
    return [da.from_array(a, chunks=(rows, *a.shape[1:])) for a in arrays]


def chunks_in_parts(model, X, y, rows=40):
    chunks = [(X[k : k + rows], y[k : k + rows]) for k in range(0, len(y), rows)]
    return [[chunks[k] for k in group] for group in model.partitions_]


def kill_a_worker(client):
    address = sorted(client.scheduler_info()["workers"])[0]
    os.kill(client.run(os.getpid, workers=[address])[address], KILL)


ON_CLUSTER = {
    "pegasos": lambda **o: PegasosClassifier(
        "logistic", alpha=0.05, batch_size=60, tol=0, max_iter=12, random_state=0, **o
    ),
    "pegasos, searched intercept": lambda **o: PegasosClassifier(
        "logistic", alpha=0.05, bias="search", tol=0, max_iter=40, random_state=0, **o
    ),
    "stages": lambda **o: StreamingSVRGClassifier(alpha=1e-3, kept_rows=20, **o),
}


def test_regression_on_a_cluster(client, da, regression):
    X, y = regression
    options = {
        "alpha": 0.05, "batch_size": 60, "bias": "subgradient", "tol": 0, "max_iter": 12,
        "random_state": 0,
    }  # fmt: skip
    model = PegasosRegressor("huber", client=client, n_partitions=2, **options)
    A, b = in_chunks(da, X, y)
    alone = PegasosRegressor("huber", **options).fit(chunks_in_parts(model.fit(A, b), X, y))
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-12)
    assert model.score(A, b) == pytest.approx(model.score(X, y))
    model.set_params(warm_start=True).fit(A, b)
    whole = PegasosRegressor("huber", **options | {"max_iter": 24})
    whole.fit(chunks_in_parts(model.fit(A, b), X, y))
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", ON_CLUSTER)
@pytest.mark.parametrize("n_partitions", [None, 3])
def test_a_cluster_finds_what_one_process_finds(client, da, multiclass, case, n_partitions):
    X, y = multiclass
    model = ON_CLUSTER[case](client=client, n_partitions=n_partitions)
    A, b = in_chunks(da, X, y)
    model.fit(A, b)
    alone = ON_CLUSTER[case]().fit(chunks_in_parts(model, X, y))
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-10)
    assert model.n_iter_ == alone.n_iter_
    np.testing.assert_array_equal(client.compute(model.predict(A)).result(), model.predict(X))
    probabilities = client.compute(model.predict_proba(A)).result()
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=1e-12)
    assert model.score(A, b) == pytest.approx(model.score(X, y))
    parts = in_parts(X, y, 2)
    assert model.score(parts) == pytest.approx(model.score(X, y))
    np.testing.assert_array_equal(np.concatenate(model.predict_sources(parts)), model.predict(X))


def test_counts_are_predicted_chunk_by_chunk(client, da, regression):
    X, y = regression[0], np.abs(regression[1]).round()
    A, b = in_chunks(da, X, y)
    model = StreamingSVRGRegressor("poisson", client=client, alpha=1e-3, kept_rows=50).fit(A, b)
    np.testing.assert_allclose(client.compute(model.predict(A)).result(), model.predict(X))
    assert model.score(A, b) == pytest.approx(model.score(X, y))
    assert model.score(in_parts(X, y, 2)) == pytest.approx(model.score(X, y))


def test_a_killed_worker_costs_pegasos_a_round(client, da, binary, monkeypatch):
    X, y = binary
    step = BatchSteps.advance

    def advance(solver, limit):
        if solver.n_iter == 5:
            kill_a_worker(client)
        return step(solver, limit)

    options = {"alpha": 0.05, "batch_size": 50, "tol": 0, "max_iter": 12, "random_state": 0}
    model = PegasosClassifier("logistic", client=client, n_partitions=2, **options)
    client.wait_for_workers(2)
    monkeypatch.setattr(BatchSteps, "advance", advance)
    model.fit(*in_chunks(da, X, y))
    monkeypatch.undo()
    assert model.n_lost_ >= 1 and model.n_iter_ == 12
    alone = PegasosClassifier("logistic", **options).fit(chunks_in_parts(model, X, y))
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10, atol=1e-12)


def deadly_source(blocks, flag):
    """A function whose blocks kill the process that reads the last one, where `flag` is missing."""

    def source(kill=KILL):
        import os

        for k, block in enumerate(blocks):
            if k == len(blocks) - 1 and not os.path.exists(flag):
                open(flag, "w").close()
                os.kill(os.getpid(), kill)
            yield block

    return source


def test_a_killed_worker_costs_a_stage(client, tmp_path):
    X, y = noisy(3000)
    flag = str(tmp_path / "died")
    parts = [
        [(X[k : k + 250], y[k : k + 250]) for k in range(start, start + 1500, 250)]
        for start in (0, 1500)
    ]
    sources = [deadly_source(parts[0], flag), parts[1]]
    client.wait_for_workers(2)
    model = StreamingSVRGRegressor(client=client, kept_rows=100).fit(sources)
    assert model.n_lost_ >= 1 and os.path.exists(flag)
    alone = StreamingSVRGRegressor(kept_rows=100).fit(parts)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-10)
    assert model.result_.n_rows == 3000


@pytest.mark.parametrize("case", ["dual ascent", "pegasos", "stages"])
def test_a_fit_over_a_cluster_goes_on(client, da, case, binary, tmp_path, interrupt_at_save):
    X, y = binary
    options = MODELS[case].get_params() | {"n_partitions": 2, "client": client}
    arrays, file = in_chunks(da, X, y.astype(float)), tmp_path / "state"
    make = MODELS[case].__class__
    whole = make(**options).fit(*arrays)
    interrupt_at_save(2)
    with pytest.raises(KeyboardInterrupt):
        make(**options).fit(*arrays, checkpoint=file, checkpoint_every=2)
    assert_same(make(**options).fit(*arrays, checkpoint=file), whole)


@pytest.mark.parametrize("kind", [PegasosClassifier, SDCARegressor])
def test_scores_of_chunks_of_unknown_size_and_of_other_cuts(da, client, binary, kind):
    X, y = binary
    weight = np.arange(len(y)) % 3.0
    model = kind(alpha=0.05, tol=0.1, client=client).fit([[(X, y)]])
    A, b, s = in_chunks(da, X, y, weight)
    expected, weighted = model.score(X, y), model.score(X, y, weight)
    unknown = da.from_delayed(A.to_delayed().ravel()[0], shape=(np.nan, X.shape[1]), dtype=X.dtype)
    assert model.score(unknown, b[:40].rechunk(-1)) == pytest.approx(model.score(X[:40], y[:40]))
    assert model.score(A[A[:, 0] > -np.inf], b) == pytest.approx(expected)
    assert model.score(A[A[:, 0] > np.median(X)], b[A[:, 0] > np.median(X)]) == pytest.approx(
        model.score(X[X[:, 0] > np.median(X)], y[X[:, 0] > np.median(X)])
    )
    assert model.score(A, y, weight) == pytest.approx(weighted)
    assert model.score(A, b.rechunk(17), s.rechunk(23)) == pytest.approx(weighted)


def test_scores_of_targets_far_from_zero(regression):
    X, y = regression
    model = SDCARegressor(alpha=0.05, tol=0.1).fit([[(X, y)]])
    model.intercept_ += 1e8
    far = y + 1e8
    assert model.score(in_parts(X, far, 2)) == pytest.approx(model.score(X, far), rel=1e-6)


@pytest.mark.parametrize("kind", [PegasosClassifier, SDCARegressor])
def test_blocks_without_rows_are_passed_over(binary, kind):
    X, y = binary
    sources = [[(X[:0], y[:0]), (X[:50], y[:50])], [], [(X[50:], y[50:]), ([], [])]]
    model = kind(alpha=0.05, tol=0.1).fit(sources[:2])
    predictions = model.predict_sources(sources)
    assert [len(part) for part in predictions] == [50, 0, len(y) - 50]
    np.testing.assert_allclose(np.concatenate(predictions), model.predict(X))
    whole = [[sources[0][1]], [(X[50:], y[50:])]]
    assert model.score([sources[0], sources[1], whole[1]]) == model.score(whole)
    with pytest.raises(EmptySource, match="the source is empty"):
        model.score([[], [(X[:0], y[:0])]])
    with pytest.raises(ValueError, match="weights of all rows are 0"):
        model.score([[(X, y, np.zeros(len(y)))]])


@pytest.mark.parametrize("wrong", ["text", "numbers"])
def test_scores_refuse_labels_of_another_kind(wrong):
    """They would be 0 without a word."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    model = SDCAClassifier(random_state=0).fit([[(X, y)]])
    assert model.score([[(X, y)]]) == model.score(X, y)
    labels = y.astype(str) if wrong == "text" else y + 0.5
    with pytest.raises(ValueError, match=r"block 1 of partition 0: .*[Mm]ix of"):
        model.score([[(X, labels)]])


def test_numbers_written_as_text_are_scored_as_they_are_fitted():
    X = np.random.default_rng(0).normal(size=(60, 3))
    sources = [[(X, X[:, 0].astype(str))]]
    assert SDCARegressor(random_state=0).fit(sources).score(sources) > 0.9


def test_predictions_for_a_source_without_rows_have_the_type_of_labels():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.arange(60) % 2
    model = SDCAClassifier(random_state=0).fit([[(X, y)]])
    none, some = model.predict_sources([[], [(X, y)]])
    assert none.dtype == some.dtype == y.dtype and len(none) == 0
    with pytest.raises(ValueError, match="sources must be a list of them, got ndarray"):
        model.predict_sources(X)
