"""fit_stream: what partial_fit does, block by block, with checks in front of it."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sublinear import (
    PegasosClassifier,
    PegasosRegressor,
    SequencePegasos,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    load_model,
    save_model,
)
from sublinear.datasets import make_tagged_sequences
from sublinear.sources import ArraySource, GeneratorSource

OPTIONS = {"alpha": 0.01, "random_state": 3}


def blocks_of(X, y, size=37):
    return ((X[i : i + size], y[i : i + size]) for i in range(0, len(y), size))


def by_hand(X, y, classes, size=37, **options):
    model = PegasosClassifier(**(OPTIONS | options))
    for rows, labels in blocks_of(X, y, size):
        model.partial_fit(rows, labels, classes=classes)
    return model


def assert_same(first, second):
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)
    np.testing.assert_array_equal(first.classes_, second.classes_)


@pytest.mark.parametrize("read_ahead", [0, 1, 3])
@pytest.mark.parametrize("average", ["tail", "last"])
def test_it_is_partial_fit_over_the_blocks(binary, read_ahead, average):
    X, y = binary
    expected = by_hand(X, y, [0, 1], average=average)
    sources = {
        "arrays": ArraySource(X, y, block_rows=37),
        "sparse": ArraySource(sparse.csr_array(X), y, block_rows=37),
        "generator": blocks_of(X, y),
        "function": GeneratorSource(lambda: blocks_of(X, y)),
        "list": list(blocks_of(X, y)),
    }
    for name, source in sources.items():
        model = PegasosClassifier(average=average, **OPTIONS)
        model.fit_stream(source, classes=[0, 1], read_ahead=read_ahead)
        assert_same(model, expected)
        assert model.stream_ == (6, 200, 0), name


def test_several_classes_float32_and_labels_that_are_words(multiclass):
    X, y = multiclass
    words = np.array(["ash", "birch", "cedar"])
    X = X.astype(np.float32)
    model = PegasosClassifier(**OPTIONS)
    model.fit_stream(blocks_of(X, words[y]), classes=words)
    assert_same(model, by_hand(X, words[y], words))
    assert model.coef_.dtype == np.float32
    assert set(model.predict(X)) <= set(words)


def test_a_fit_starts_anew_unless_warm(binary):
    X, y = binary
    source = ArraySource(X, y, block_rows=37)
    model = PegasosClassifier(**OPTIONS)
    model.fit(X, y)
    once = model.fit_stream(source, classes=[0, 1]).coef_.copy()
    np.testing.assert_array_equal(model.fit_stream(source, classes=[0, 1]).coef_, once)
    warm = PegasosClassifier(warm_start=True, **OPTIONS)
    warm.fit_stream(source, classes=[0, 1]).fit_stream(source, classes=[0, 1])
    twice = by_hand(np.vstack([X[:185], X[185:]]), y, [0, 1])
    for rows, labels in blocks_of(X, y):
        twice.partial_fit(rows, labels)
    assert_same(warm, twice)


def test_blocks_without_rows_or_weight_are_left_out(binary):
    X, y = binary
    blocks = [
        (X[:0], y[:0]),
        (X[:100], y[:100]),
        (X[:50], y[:50], np.zeros(50)),
        (X[100:], y[100:], np.full(100, 2.0)),
    ]
    for make in (lambda: PegasosClassifier(**OPTIONS), StreamingSVRGClassifier):
        model = make().fit_stream(blocks, classes=[0, 1])
        hand = make().partial_fit(X[:100], y[:100], classes=[0, 1])
        assert_same(model, hand.partial_fit(X[100:], y[100:], sample_weight=np.full(100, 2.0)))
        assert model.stream_ == (4, 200, 0)


BAD = {
    "no tuple": (lambda X, y: [X], "block 1 .* a ndarray"),
    "four": (lambda X, y: [(X, y, y, y)], "block 1 .* a tuple of 4"),
    "columns": (
        lambda X, y: [(X, y), (X[:, 1:], y)],
        "block 2 .*11 columns, .* first block has 12",
    ),
    "NaN": (lambda X, y: [(X, y), (X * np.nan, y)], "block 2 .*NaN"),
    "NaN in arrays": (
        lambda X, y: ArraySource(np.r_[X, X * np.nan], np.r_[y, y], block_rows=len(X)),
        "block 2 .*NaN",
    ),
    "NaN in sparse arrays": (
        lambda X, y: ArraySource(
            sparse.csr_array(np.r_[X, X * np.nan]), np.r_[y, y], block_rows=200
        ),
        "block 2 .*NaN",
    ),
    "lengths": (lambda X, y: [(X, y[1:])], "block 1 .*inconsistent"),
    "label": (
        lambda X, y: [(X, y), (X, y + 1)],
        r"block 2 .*not among the classes \[0, 1\]: \[2\]",
    ),
    "weights": (lambda X, y: [(X, y, -np.ones(200))], "block 1 .*must not be negative"),
    "zeros of other length": (lambda X, y: [(X, y), (X, y, np.zeros(3))], "block 2 .*inconsistent"),
    "zeros in two dimensions": (
        lambda X, y: [(X, y), (X, y, np.zeros((200, 1)))],
        "block 2 .*must be one-dimensional",
    ),
    "weights that are text": (
        lambda X, y: [(X, y), (X, y, np.full(200, ""))],
        "block 2 .*could not convert string",
    ),
    "one dimension": (lambda X, y: [(X[0], y)], "block 1 .*Expected 2D"),
    "empty": (lambda X, y: [], "the source is empty"),
    "no rows": (lambda X, y: [(X[:0], y[:0])], "the source is empty"),
    "no weight": (lambda X, y: [(X, y, np.zeros(200))] * 2, "sample_weight is zero for every"),
    "used up": (lambda X, y: iter(()), "the source is empty"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("read_ahead", [0, 2])
def test_bad_blocks_are_named(binary, case, read_ahead):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        PegasosClassifier().fit_stream(make(*binary), classes=[0, 1], read_ahead=read_ahead)


def test_what_is_no_source(binary):
    with pytest.raises(TypeError, match="open_source reads files"):
        PegasosClassifier().fit_stream("rows.svm", classes=[0, 1])
    with pytest.raises(TypeError, match="GeneratorSource calls a function"):
        PegasosClassifier().fit_stream(lambda: [binary], classes=[0, 1])
    with pytest.raises(ValueError, match="ArraySource"):
        PegasosClassifier().fit_stream(binary, classes=[0, 1])
    with pytest.raises(ValueError, match="needs classes"):
        PegasosClassifier().fit_stream([binary])
    with pytest.raises(ValueError, match="read_ahead must be an integer"):
        PegasosClassifier().fit_stream([binary], classes=[0, 1], read_ahead=-1)


@pytest.mark.parametrize("read_ahead", [0, 2])
def test_an_interrupt_leaves_what_was_reached(binary, read_ahead):
    X, y = binary

    def blocks():
        yield from blocks_of(X[:74], y[:74])
        raise KeyboardInterrupt

    model = PegasosClassifier(**OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(blocks(), classes=[0, 1], read_ahead=read_ahead)
    assert_same(model, by_hand(X[:74], y[:74], [0, 1]))
    assert model.stream_.rows == 74
    model.partial_fit(X, y)


def sums_of(results):
    names = ("n_iter", "accesses", "certificate_accesses", "seconds")
    return {name: sum(getattr(result, name) for result in results) for name in names}


def assert_totals(result, blocks):
    """A result counts what the results of several blocks do; times are not the same twice."""
    expected = sums_of(blocks)
    assert sums_of([result]) | {"seconds": 0} == expected | {"seconds": 0}
    assert result.seconds > 0 and result.status == "partial_fit" and result.gap == np.inf


@pytest.mark.parametrize("model", [PegasosClassifier, PegasosRegressor])
def test_the_result_of_a_stream_counts_all_of_its_blocks(multiclass, model):
    X, y = multiclass
    options = {"classes": [0, 1, 2]} if model is PegasosClassifier else {}
    one_by_one, found = model(**OPTIONS), []
    for rows, labels in blocks_of(X, y):
        found.append(one_by_one.partial_fit(rows, labels, **options).result_)
    stream = model(**OPTIONS, warm_start=True)
    for _ in range(2):  # each call counts its own blocks
        stream.fit_stream(blocks_of(X, y), **options)
        assert_totals(stream.result_, found)
        assert stream.n_iter_ == len(found) > 2
    for k, part in enumerate(stream.result_.parts):
        assert_totals(part, [result.parts[k] for result in found])
    last = stream.partial_fit(X[:5], y[:5]).result_
    assert (last.n_iter, stream.n_iter_) == (1, 1)  # a block alone
    assert sum(part.accesses for part in last.parts or [last]) <= 5 * X.shape[1] * 3


def test_the_result_of_a_stream_of_sequences_counts_all_of_its_blocks():
    X, y, lengths, _ = make_tagged_sequences(30, random_state=0)
    ends = np.cumsum(lengths)[:-1]
    sequences = list(zip(np.split(X.toarray(), ends), np.split(y, ends), strict=True))
    blocks = [tuple(map(list, zip(*sequences[i : i + 10], strict=True))) for i in (0, 10, 20)]
    one_by_one, found, classes = SequencePegasos(random_state=0), [], np.unique(y)
    for block in blocks:
        found.append(one_by_one.partial_fit(*block, classes=classes).result_)
    stream = SequencePegasos(random_state=0).fit_stream(blocks, classes=classes)
    assert_totals(stream.result_, found)
    assert stream.n_iter_ == 3


@pytest.mark.parametrize("stored", [False, True])
def test_an_interrupt_leaves_the_sums_of_what_was_learned(binary, stored, monkeypatch):
    X, y = binary
    left = [3]

    def interrupt(model, limits):  # behind the model of the third block
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    def blocks():
        yield from blocks_of(X[:74], y[:74])
        raise KeyboardInterrupt

    if stored:
        monkeypatch.setattr(PegasosClassifier, "_warn_if_limited", interrupt)
    source = blocks_of(X, y) if stored else blocks()
    model = PegasosClassifier(**OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        model.fit_stream(source, classes=[0, 1], read_ahead=0)
    assert model.result_.n_iter == model.n_iter_ == (3 if stored else 2)
    assert model.result_.accesses == model.n_iter_ * 37 * X.shape[1]


def test_progress_shows_rows_once(binary, capsys):
    X, y = binary
    PegasosClassifier(verbose=1, **OPTIONS).fit_stream(blocks_of(X, y), classes=[0, 1])
    shown = capsys.readouterr().err
    assert "rows/s" in shown and "gap" not in shown
    assert shown.count("\n") == 1


def test_a_class_of_weight_zero_may_have_blocks_of_its_own(binary):
    X, y = binary
    blocks = [(X[y == 0], y[y == 0]), (X, y), (X[y == 0][:1], y[y == 0][:1])]
    options = OPTIONS | {"class_weight": {0: 0.0}}
    model = PegasosClassifier(**options).fit_stream(blocks, classes=[0, 1])
    hand = PegasosClassifier(**options).partial_fit(X, y, classes=[0, 1])
    assert_same(model, hand)


def test_weights_and_class_weights_may_leave_nothing_of_a_block_together(binary):
    X, y = binary
    options = OPTIONS | {"class_weight": {0: 0.0}}
    blocks = [(X, y), (X, y, np.where(y == 0, 1.0, 0.0))]
    model = PegasosClassifier(**options).fit_stream(blocks, classes=[0, 1])
    assert_same(model, PegasosClassifier(**options).partial_fit(X, y, classes=[0, 1]))


def test_a_checkpoint_needs_a_block_with_weight(binary, tmp_path):
    X, y = binary
    options = OPTIONS | {"class_weight": {0: 0.0}}
    blocks = [(X[y == 0], y[y == 0]), (X, y)]
    model = PegasosClassifier(**options)
    model.fit_stream(blocks, classes=[0, 1], checkpoint=tmp_path / "first", checkpoint_every=1)
    assert_same(model, PegasosClassifier(**options).partial_fit(X, y, classes=[0, 1]))
    again = model.fit_stream(
        blocks, classes=[0, 1], checkpoint=tmp_path / "again", checkpoint_every=1
    )
    assert_same(again, PegasosClassifier(**options).partial_fit(X, y, classes=[0, 1]))


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_stream_without_weight_is_refused(binary, warm_start):
    X, y = binary
    weightless = [(X[y == 0], y[y == 0])]
    model = PegasosClassifier(**OPTIONS, class_weight={0: 0.0}, warm_start=warm_start)
    with pytest.raises(ValueError, match="class_weight leaves no example"):
        model.fit_stream(weightless, classes=[0, 1])
    assert not hasattr(model, "n_features_in_")
    coef = model.fit_stream([(X, y)], classes=[0, 1]).coef_
    with pytest.raises(ValueError, match="class_weight leaves no example"):
        model.fit_stream(weightless, classes=[0, 1])
    assert model.coef_ is coef and model.stream_.rows == len(y)


def test_a_last_block_of_one_row_may_choose_the_bias(binary):
    X, y = binary
    model = PegasosClassifier(bias="batch", batch_size=16, random_state=0)
    model.fit_stream([(X[:-1], y[:-1]), (X[-1:], y[-1:])], classes=[0, 1])
    assert np.isfinite(model.coef_).all()


def test_a_model_file_has_nothing_to_go_on_from(binary, tmp_path):
    X, y = binary
    PegasosClassifier(**OPTIONS).fit(X, y)
    save_model(PegasosClassifier(**OPTIONS).fit(X, y), tmp_path / "model")
    with pytest.raises(ValueError, match="nothing of the stream"):
        load_model(tmp_path / "model").partial_fit(X, y)


def test_copies_of_a_stream_keep_the_parameters_it_was_fitted_with(binary):
    X, y = binary
    model = StreamingSVRGClassifier().partial_fit(X, y, classes=[0, 1])
    model.set_params(alpha=3.0, fit_intercept=False, intercept_scaling=5.0, constants="theory")
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    assert other.get_params() == model.get_params()


def test_values_beyond_the_range_leave_no_model_of_a_stream(binary):
    X, y = binary
    with (
        pytest.raises(ValueError, match="range of floating-point numbers"),
        np.errstate(all="ignore"),
    ):
        _ = StreamingSVRGClassifier().fit(X * 1e200, y).coef_


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        (StreamingSVRGRegressor(), {"intercept_scaling": 10.0}, "intercept_scaling must not"),
        (StreamingSVRGRegressor(), {"loss": "huber", "alpha": 1.0}, "alpha, loss must not"),
        (PegasosRegressor(), {"intercept_scaling": 10.0}, "intercept_scaling and bias must not"),
        (PegasosRegressor(), {"fit_intercept": False}, "fit_intercept, .* must not"),
    ],
)
def test_the_problem_stays_the_same_from_block_to_block(model, change, words):
    X, y = np.random.default_rng(0).normal(size=(2, 40, 1))
    model = clone(model).partial_fit(X, y[:, 0])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=words):
        model.set_params(**change).partial_fit(X, y[:, 0])
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize(
    "model",
    [PegasosClassifier(), SequencePegasos(), StreamingSVRGClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_a_model_from_a_file_cannot_go_on(binary, model, tmp_path):
    X, y = binary
    save_model(model.fit(X, y), tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    with pytest.raises(ValueError, match="nothing of the stream"):
        loaded.partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("model", [PegasosClassifier(), SequencePegasos()])
def test_models_of_mixed_types_hold_all_of_them(model, binary):
    X, y = binary
    blocks = [(X, y), (X.astype(np.float32), y)]
    assert clone(model).fit_stream(blocks, classes=[0, 1]).coef_.dtype == np.float64
    assert clone(model).fit_stream(blocks[1:], classes=[0, 1]).coef_.dtype == np.float32
