"""SDCA over a source: the numbers of SDCA with that order of blocks, and a true certificate."""

import itertools

import numpy as np
import pytest
from reference import objective as values
from reference.losses import LOSSES as ORACLES
from reference.orders import fisher_yates
from reference.sdca import sdca
from scipy import sparse
from sklearn.linear_model import Ridge

from sublinear import SDCAClassifier, SDCARegressor
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.random import RandomBits
from sublinear._core.row_marks import RowMarks, stride_for
from sublinear._stream import checked_block
from sublinear.sources import ArraySource, GeneratorSource

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SAME_ROWS = "a source must yield the same rows in the same order in every pass"
OPTIONS = {"alpha": 0.05, "tol": 1e-4, "random_state": 5, "pack": False}


def model_of(loss, **options):
    kind = SDCAClassifier if loss in MARGIN_LOSSES else SDCARegressor
    return kind(loss, **(OPTIONS | options))


def data_of(loss, binary, regression):
    return binary if loss in MARGIN_LOSSES else regression


def alike(loss):
    """The epochs in which a source has the numbers of memory.

    Only in memory examples sleep longer where the loss says that they are far from moving, which
    begins to matter in the second epoch.
    """
    return 9 if np.isinf(ORACLES[loss]().far) else 1


def assert_same_fit(first, second):
    """In all but when certificates come: a source is only read in passes."""
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    for name in ("primal", "dual", "gap", "status", "n_iter", "accesses"):
        assert getattr(first.result_, name) == getattr(second.result_, name)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, *REGRESSION_LOSSES])
def test_one_block_is_a_fit_in_memory(binary, regression, loss, storage):
    X, y = data_of(loss, binary, regression)
    source = ArraySource(storage(X), y, block_rows=len(y))
    assert model_of(loss).fit_stream(source).result_.status == "converged"
    # with a multiplier sums are rounded in another order
    options = {"alpha": 1e-3, "tol": 0, "max_iter": alike(loss), "intercept_scaling": 0.01}
    in_memory = model_of(loss, **options).fit(storage(X), y)
    streamed = model_of(loss, **options).fit_stream(source)
    assert streamed.result_.n_iter == alike(loss)
    assert_same_fit(streamed, in_memory)


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, *REGRESSION_LOSSES])
def test_one_block_with_a_multiplier_is_a_fit_in_memory(
    binary, regression, loss, penalize_intercept
):
    X, y = data_of(loss, binary, regression)
    # sums over blocks are rounded in another order, which may decide who sleeps later on
    options = {"tol": 0, "max_iter": min(alike(loss), 5)}
    options |= {"penalize_intercept": penalize_intercept, "intercept_scaling": 10.0}
    in_memory = model_of(loss, **options).fit(X, y + 2 * (loss in REGRESSION_LOSSES))
    streamed = model_of(loss, **options)
    source = ArraySource(X, y + 2 * (loss in REGRESSION_LOSSES), block_rows=len(y))
    streamed.fit_stream(source)
    for name in ("coef_", "intercept_", "dual_coef_"):
        found = getattr(streamed, name)
        np.testing.assert_allclose(found, getattr(in_memory, name), rtol=1e-9, atol=1e-11)
    for name in ("primal", "dual"):
        found = getattr(streamed.result_, name)
        assert found == pytest.approx(getattr(in_memory.result_, name), rel=1e-10)
    assert streamed.result_.accesses == in_memory.result_.accesses


def test_a_free_intercept_keeps_pace_with_a_large_alpha(regression):
    X, y = regression
    model = model_of("huber", alpha=1e4, penalize_intercept=False, max_iter=50)
    model.fit_stream(ArraySource(X, y + 2, block_rows=40))
    assert model.result_.status == "converged"


@pytest.mark.parametrize("most_of_zeros", [16.0, 0.0])
@pytest.mark.parametrize("limit", [{}, {"max_accesses": 3333}], ids=["converged", "in mid-pass"])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_a_free_intercept_over_blocks_is_certified(
    regression, loss, limit, most_of_zeros, monkeypatch
):
    monkeypatch.setattr("sublinear._streamed_sdca.objective.MOST_OF_ZEROS", most_of_zeros)
    X, y = regression
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {"penalize_intercept": False, "tol": 1e-6, "max_iter": 3000} | limit
    best = model_of(loss, **options | {"tol": 1e-12, "max_accesses": None}).fit(X, y + 2, weights)
    model = model_of(loss, **options).fit_stream(ArraySource(X, y + 2, weights, block_rows=60))
    result, heavy = model.result_, weights > 0
    assert result.status == ("max_accesses" if limit else "converged")
    assert result.dual <= best.result_.primal * (1 + 1e-12) and result.gap < np.inf
    rest = (y + 2 - model.intercept_)[heavy]
    oracle = ORACLES[loss](*{"huber": (0.1,)}.get(loss, ()))
    primal = values.primal(X[heavy], rest, oracle, model.alpha, model.coef_, weights[heavy])
    assert result.primal == pytest.approx(primal, rel=1e-12)
    again = model.set_params(warm_start=True, max_accesses=None).fit_stream(
        ArraySource(X, y + 2, weights, block_rows=60)
    )
    assert again.result_.status == "converged"
    if not limit:
        assert again.n_iter_ == 1


def test_models_much_worse_than_zeros_take_a_pass_more_for_their_certificates(
    regression, monkeypatch
):
    X, y = regression
    model = model_of("absolute", penalize_intercept=False, max_iter=3)
    source, results = ArraySource(X, y, block_rows=60), []
    for most_of_zeros in (16.0, 0.0):
        monkeypatch.setattr("sublinear._streamed_sdca.objective.MOST_OF_ZEROS", most_of_zeros)
        results.append(model.fit_stream(source).result_)
    usual, exact = results
    assert exact.certificate_accesses == 2 * usual.certificate_accesses
    assert exact.primal == pytest.approx(usual.primal, rel=1e-12)
    assert exact.dual == pytest.approx(usual.dual, rel=1e-9)


def test_classes_with_free_intercepts(multiclass):
    X, y = multiclass
    options = {"penalize_intercept": False, "class_weight": "balanced", "max_iter": 3000}
    best = model_of("smoothed_hinge", **options | {"tol": 1e-10}).fit(X, y)
    model = model_of("smoothed_hinge", **options).fit_stream(ArraySource(X, y, block_rows=60))
    assert model.result_.status == "converged"
    assert model.result_.dual <= best.result_.primal * (1 + 1e-9)
    assert best.result_.dual <= model.result_.primal * (1 + 1e-9)
    np.testing.assert_allclose(model.intercept_, best.intercept_, atol=0.05)


@pytest.mark.parametrize("loss", [*MARGIN_LOSSES, *REGRESSION_LOSSES])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_step_is_the_oracle_s(binary, regression, loss, weighted):
    X, y = data_of(loss, binary, regression)
    weights = np.random.default_rng(0).integers(1, 4, len(y)) / 2.0 if weighted else None
    streamed = model_of(loss, tol=0, max_iter=4, fit_intercept=False)
    streamed.fit_stream(ArraySource(X, y, weights, block_rows=60))

    random = RandomBits(np.random.SeedSequence(5).spawn(1)[0])
    shuffle = fisher_yates(lambda n: int(random.integers(n, 1)[0]))
    targets = np.where(y == 1, 1.0, -1.0) if loss in MARGIN_LOSSES else y
    # the estimators' values of the losses' parameters
    parameters = {"huber": (0.1,), "epsilon_insensitive": (0.1,)}.get(loss, ())
    oracle = ORACLES[loss](*parameters)._replace(far=np.inf)

    def by_blocks(awake):
        return np.concatenate([shuffle(awake[awake // 60 == k]) for k in range(4)])

    for _, w, duals, n_passes in sdca(X, targets, oracle, 0.05, by_blocks, weights):
        if n_passes == 4:
            break
        last = w, duals
    np.testing.assert_allclose(np.ravel(streamed.dual_coef_), last[1], atol=1e-12)
    primal = values.primal(X, targets, oracle, 0.05, np.ravel(streamed.coef_), weights)
    dual = values.dual(X, targets, oracle, 0.05, last[1], weights)
    assert streamed.result_.primal == pytest.approx(primal, rel=1e-12)
    assert streamed.result_.trace[-1].dual == pytest.approx(
        max(dual, streamed.result_.trace[-1].dual), rel=1e-10
    )
    assert streamed.result_.dual >= dual - 1e-10


@pytest.mark.parametrize("read_ahead", [0, 2])
def test_it_converges_to_the_optimum_of_all_rows(binary, read_ahead):
    X, y = binary
    exact = SDCAClassifier("logistic", alpha=0.05, tol=1e-9).fit(X, y)
    source = GeneratorSource(lambda: ((X[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50)))
    streamed = model_of("logistic", tol=1e-6).fit_stream(source, read_ahead=read_ahead)
    assert streamed.result_.status == "converged"
    assert streamed.result_.dual <= exact.result_.primal <= streamed.result_.primal + 1e-9
    np.testing.assert_allclose(streamed.coef_, exact.coef_, atol=2e-2)
    assert streamed.stream_ == (4, 200, 0)


@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 3.0}])
def test_several_classes_share_the_passes(multiclass, class_weight):
    X, y = multiclass
    options = {"tol": 1e-5, "class_weight": class_weight}
    in_memory = model_of("hinge", **options).fit(X, y)
    passes = []

    def blocks():
        passes.append(1)
        yield from ArraySource(X, y, block_rows=50)

    streamed = model_of("hinge", **options).fit_stream(GeneratorSource(blocks))
    np.testing.assert_array_equal(streamed.classes_, [0, 1, 2])
    assert streamed.dual_coef_.shape == (3, 240)
    assert streamed.result_.primal == pytest.approx(in_memory.result_.primal, rel=5e-5)
    assert streamed.result_.relative_gap <= 1e-5
    # counting, epochs, certificates: each one pass for all classes
    assert len(passes) == 1 + streamed.n_iter_ + len(streamed.result_.trace)


def test_weights_are_repetitions_at_the_optimum(binary):
    X, y = binary
    weights = np.random.default_rng(1).integers(0, 3, 200)
    options = {"tol": 1e-10, "loss": "squared_hinge"}
    weighted = SDCAClassifier(**(OPTIONS | options))
    weighted.fit_stream(ArraySource(X, y, weights.astype(float), block_rows=70))
    repeated = SDCAClassifier(**(OPTIONS | options))
    repeated.fit_stream(ArraySource(np.repeat(X, weights, 0), np.repeat(y, weights), block_rows=90))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.result_.primal == pytest.approx(repeated.result_.primal, rel=1e-9)


@pytest.mark.parametrize("first", [0, 1])
def test_a_block_of_float32_does_not_round_the_others(first):
    random = np.random.default_rng(0)
    x = random.uniform(0, 5000, 800)
    X, y = np.c_[2.0**30 + x, random.normal(size=800)], x / 5000
    blocks = [(X[:400].astype(np.float32), y[:400]), (X[400:], y[400:])]
    model = SDCARegressor(alpha=1e-9, penalize_intercept=False, random_state=0)
    found = model.fit_stream([blocks[first], blocks[1 - first]]).result_
    rows = np.vstack([block for block, _ in blocks]) - [2.0**30, 0]
    w = Ridge(alpha=1e-9 * len(rows)).fit(rows, y)
    optimum = np.mean((w.predict(rows) - y) ** 2) / 2 + 1e-9 / 2 * w.coef_ @ w.coef_
    assert found.dual <= optimum <= found.primal * (1 + 1e-9)
    assert found.primal < 1.01 * optimum
    assert model.coef_.dtype == np.float64


def test_float32_words_and_warm_start(binary):
    X, y = binary
    words = np.array(["no", "yes"])[y]
    source = ArraySource(X.astype(np.float32), words, block_rows=64)
    model = model_of("hinge", warm_start=True).fit_stream(source)
    assert model.coef_.dtype == np.float32
    assert model.classes_.tolist() == ["no", "yes"]
    once = model.result_.n_iter
    again = model.fit_stream(source)
    assert again.result_.n_iter < once
    assert again.result_.status == "converged"


def test_labels_beyond_int64_stay_apart(multiclass):
    X, y = multiclass
    labels = np.array([1, 2**63 + 2, 2**63 + 4], dtype=np.uint64)
    model = model_of("hinge", tol=0.1).fit_stream(ArraySource(X, labels[y], block_rows=64))
    assert model.classes_.tolist() == labels.tolist()
    assert model.score(X, labels[y]) > 0.5


def test_limits_and_callback(binary):
    X, y = binary
    source = ArraySource(X, y, block_rows=64)
    model = model_of("hinge", tol=0, max_accesses=5000).fit_stream(source)
    assert model.result_.status == "max_accesses"
    assert 5000 - 12 <= model.result_.accesses <= 5000
    seen = []
    stopped = model_of("logistic", tol=0, callback=lambda s: seen.append(s) or True)
    stopped.fit_stream(source)
    assert stopped.result_.status == "stopped"
    assert seen[-1].coef.shape == (12,)
    np.testing.assert_array_equal(seen[-1].coef, stopped.coef_[0])


@pytest.mark.parametrize(
    "change", [{"alpha": 5.0}, {"fit_intercept": False}, {"penalize_intercept": False}]
)
def test_a_callback_that_sets_parameters_comes_too_late(binary, change):
    source = ArraySource(*binary, block_rows=64)
    plain = model_of("logistic", tol=1e-10).fit_stream(source)
    watched = model_of("logistic", tol=1e-10)
    watched.set_params(callback=lambda snapshot: watched.set_params(**change) and None)
    assert_same_fit(watched.fit_stream(source), plain)
    assert len(plain.result_.trace) > 1


def test_a_source_that_changes_is_refused(binary):
    X, y = binary
    passes = []

    def shorter():
        passes.append(1)
        yield X[: 200 - len(passes)], y[: 200 - len(passes)]

    with pytest.raises(ValueError, match=f"198 rows in this pass and 199 .* {SAME_ROWS}"):
        model_of("hinge").fit_stream(GeneratorSource(shorter))


def anew_in_every_pass(change, storage=np.asarray):
    """A source of blocks of 50 rows, which change(pass, X, y, weights) makes, and its passes."""
    passes = []

    def blocks():
        passes.append(0)
        X, y, weights = change(len(passes), *wide_problem())
        for start in range(0, len(y), 50):
            passes[-1] += 1
            rows = slice(start, start + 50)
            yield storage(X[rows]), y[rows], weights[rows]

    return GeneratorSource(blocks), passes


def wide_problem():
    random = np.random.default_rng(9)
    X = random.normal(size=(400, 12)) * (random.random((400, 12)) < 0.5)
    return X, (X[:, 0] > 0).astype(int), 1 + random.random(400)


def shuffled(number, *arrays):
    order = np.random.default_rng(number).permutation(400)
    return [array[order] for array in arrays]


def shuffled_in_blocks(number, *arrays):
    random = np.random.default_rng(number)
    order = np.concatenate([start + random.permutation(50) for start in range(0, 400, 50)])
    return [array[order] for array in arrays]


CHANGES = {
    "rows": (shuffled, 1),
    "rows in blocks": (shuffled_in_blocks, 1),
    "blocks": (lambda number, *arrays: [np.roll(array, 50 * number, 0) for array in arrays], 1),
    "two blocks": (
        lambda number, *arrays: [
            np.concatenate((array[:200], array[200:300][:: (-1) ** number], array[300:]))
            for array in arrays
        ],
        5,
    ),
    "labels": (lambda number, X, y, weights: (X, (y + number) % 2, weights), 1),
    "labels of a block": (
        lambda number, X, y, weights: (X, np.r_[y[:350], (y[350:] + number) % 2], weights), 8
    ),
    "text": (lambda number, X, y, weights: (X, np.array(["a", "b"])[y - number % 2], weights), 1),
    "weights": (lambda number, X, y, weights: (X, y, weights * number), 1),
    "noise": (lambda number, X, y, weights: (X * (1 + 1e-9 * number), y, weights), 1),
}  # fmt: skip


@pytest.mark.parametrize("read_ahead", [0, 2])
@pytest.mark.parametrize("storage", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("change", CHANGES)
def test_other_rows_or_another_order_are_refused_in_the_second_pass(change, storage, read_ahead):
    make, first_to_differ = CHANGES[change]
    source, passes = anew_in_every_pass(make, storage)
    with pytest.raises(ValueError, match=f"^block {first_to_differ} of the source: .* {SAME_ROWS}"):
        model_of("logistic").fit_stream(source, read_ahead=read_ahead)
    assert len(passes) == 2


def test_columns_that_change_places_are_refused():
    def change(number, X, y, weights):
        return np.roll(np.abs(X) > 0, number, axis=1).astype(float), y, weights

    for storage in (np.asarray, sparse.csr_array):
        source, passes = anew_in_every_pass(change, storage)
        with pytest.raises(ValueError, match=SAME_ROWS):
            model_of("logistic").fit_stream(source)
        assert len(passes) == 2


@pytest.mark.parametrize("options", [{"second_order": True}, {"penalize_intercept": False}])
def test_every_pass_is_compared(options):
    """Those of certificates and of a method of second order among them."""
    for last in range(1, 6):
        source, passes = anew_in_every_pass(
            lambda number, *arrays, last=last: shuffled(number > last, *arrays)
        )
        with pytest.raises(ValueError, match=SAME_ROWS):
            model_of("logistic", tol=0, **options).fit_stream(source)
        assert len(passes) == last + 1


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_pass_may_cut_the_same_rows_otherwise(storage):
    """And hold the same values in another type."""
    X, y, weights = wide_problem()
    X = X.astype(np.float32)
    passes = []

    def blocks():
        passes.append(1)
        sizes = np.random.default_rng(len(passes)).integers(1, 60, size=400).cumsum()
        cuts = [0, *sizes[sizes < 400], 400]
        dtype = (np.float32, np.float64)[len(passes) % 2]
        for start, stop in itertools.pairwise(cuts):
            rows = slice(start, stop)
            yield storage(X[rows].astype(dtype)), y[rows], weights[rows]

    streamed = model_of("logistic").fit_stream(GeneratorSource(blocks))
    assert streamed.result_.status == "converged"


def test_many_blocks_leave_few_marks():
    X, y, _ = wide_problem()
    first = RowMarks()
    for row in range(100_000):
        first.add(X[row % 400][np.newaxis], y[row % 400][np.newaxis], None)
    assert len(first.marks) < 32
    assert max(first.marks) == first.n_rows == 100_000
    later = RowMarks(first)
    later.add(np.tile(X, (250, 1)), np.tile(y, 250), None)
    later.end()
    with pytest.raises(ValueError, match=SAME_ROWS):
        RowMarks(first).add(np.tile(X, (250, 1)), 1 - np.tile(y, 250), None)


def test_blocks_may_be_cut_where_weights_begin_to_differ():
    X, y, _ = wide_problem()
    weights = np.repeat([1.0, 2.0], len(y) // 2)
    first = RowMarks()
    checked = (checked_block((X[rows], y[rows], weights[rows]), False) for rows in halves(len(y)))
    for block in checked:
        first.add(*block)
    later = RowMarks(first)
    later.add(X, y, weights)
    later.end()


def halves(n):
    return slice(0, n // 2), slice(n // 2, n)


def test_a_short_first_block_and_long_rows_make_marks_cheap():
    assert stride_for(np.ones((1, 10))) == 8
    assert stride_for(np.ones((8192, 100))) == 1024
    assert stride_for(np.ones((100, 5000))) == 100
    assert stride_for(sparse.csr_array((800, 10**6))) == 100


BAD = {
    "a generator": (lambda X, y: iter([(X, y)]), {}, "GeneratorSource"),
    "no rows": (lambda X, y: [], {}, "the source is empty"),
    "one class": (lambda X, y: [(X, 0 * y)], {}, "only one class"),
    "batches": (lambda X, y: [(X, y)], {"batch_size": 2}, "needs batch_size=1"),
    "class_weight": (lambda X, y: [(X, y)], {"class_weight": {0: 0, 1: 0}}, "leaves no example"),
    "unknown class": (lambda X, y: [(X, y)], {"class_weight": {7: 1}}, "y does not have"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted(binary, case):
    make, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        model_of("hinge", **options).fit_stream(make(*binary))


def test_labels_beyond_the_declared_classes(binary):
    X, y = binary
    with pytest.raises(ValueError, match=r"not among the classes \[0, 5\]: \[1\]"):
        model_of("hinge").fit_stream([(X, y)], classes=[0, 5])
    with pytest.raises(ValueError, match="a regressor has none"):
        SDCARegressor().fit_stream([(X, y)], classes=[0, 1])


def test_an_interrupt_leaves_what_was_reached(binary):
    X, y = binary
    passes = []

    def blocks():
        passes.append(1)
        for k, block in enumerate(ArraySource(X, y, block_rows=40)):
            if len(passes) == 4 and k == 2:
                raise KeyboardInterrupt
            yield block

    model = model_of("hinge", tol=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(GeneratorSource(blocks))
    assert model.result_.status == "interrupted"
    assert model.score(X, y) > 0.6


def test_progress(binary, capsys):
    model_of("hinge", verbose=1).fit_stream(ArraySource(*binary, block_rows=64))
    shown = capsys.readouterr().err
    assert "counting rows" in shown and "gap" in shown


@pytest.mark.parametrize("budget", [70, 173, 404, 1001])
def test_a_fit_that_ends_in_the_middle_of_a_block_certifies_its_duals(budget):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 4)), np.where(random.random(60) < 0.5, -1.0, 1.0)
    options = {"alpha": 0.1, "tol": 0, "fit_intercept": False, "random_state": 0}
    model = SDCAClassifier(max_accesses=budget, **options)
    model.fit_stream(ArraySource(X, y, block_rows=25))
    duals = model.dual_coef_.ravel()
    w = duals @ X / (0.1 * 60)
    assert model.result_.dual == pytest.approx((duals * y).mean() - 0.05 * w @ w, rel=1e-12)


@pytest.mark.parametrize("budget", [300, 1200, 2500])
def test_every_class_has_the_whole_budget(multiclass, budget):
    X, y = multiclass
    options = {"tol": 0, "max_accesses": budget}
    in_memory = model_of("hinge", **options).fit(X, y)
    whole = model_of("hinge", **options).fit_stream(ArraySource(X, y, block_rows=len(y)))
    np.testing.assert_array_equal(whole.dual_coef_, in_memory.dual_coef_)
    assert whole.result_.accesses == in_memory.result_.accesses
    parts = model_of("hinge", **options).fit_stream(ArraySource(X, y, block_rows=50))
    assert parts.result_.status == "max_accesses"
    assert parts.result_.accesses <= 3 * budget
    assert parts.dual_coef_.any(axis=1).all()


def test_a_checkpoint_of_another_number_of_rows_is_refused(binary, tmp_path):
    X, y = binary
    blocks = [(X[start : start + 20], y[start : start + 20]) for start in range(0, 200, 20)]
    path = tmp_path / "checkpoint"
    SDCAClassifier(random_state=0).fit_stream(blocks[:4], checkpoint=path)
    with pytest.raises(ValueError, match="its n_rows was 80, not 200"):
        SDCAClassifier(random_state=0).fit_stream(blocks, checkpoint=path)


def test_a_checkpoint_of_other_blocks_is_refused(binary, tmp_path):
    """Blocks are counted: others would be left out, or visited twice."""
    X, y = binary
    path = tmp_path / "checkpoint"

    def blocks(*at):
        return list(zip(np.split(X, at), np.split(y, at), strict=True))

    SDCAClassifier(random_state=0).fit_stream(blocks(50, 100, 150), checkpoint=path)
    for others in (blocks(50), blocks(50, 120, 150)):
        with pytest.raises(ValueError, match="its blocks had other numbers of rows"):
            SDCAClassifier(random_state=0).fit_stream(others, checkpoint=path)


def test_few_rows_take_few_passes():
    """Rows that sleep cost nothing, passes over a source do."""
    random = np.random.default_rng(0)
    X = random.standard_normal((40, 3))
    passes = []

    def blocks():
        passes.append(1)
        yield X, X[:, 0] > 0

    model = SDCAClassifier(alpha=0.1, random_state=0)
    model.fit_stream(GeneratorSource(blocks), classes=[False, True])
    assert model.result_.status == "converged" and len(passes) < 40


@pytest.mark.parametrize("block", [1, 2])
def test_the_summary_of_an_interrupted_fit_is_of_a_whole_pass(binary, block):
    X, y = binary
    passes = itertools.count(1)

    def blocks():
        is_last = next(passes) == 4
        for k, part in enumerate(ArraySource(X, y, block_rows=len(y) // 2), start=1):
            if is_last and k == block:
                raise KeyboardInterrupt
            yield part

    model = SDCAClassifier(alpha=1e-6, tol=0, max_iter=100, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(GeneratorSource(blocks))
    assert model.result_.accesses > 0
    assert model.stream_.rows == len(y) and model.stream_.blocks == 2
