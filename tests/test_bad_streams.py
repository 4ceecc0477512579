"""What a source can do wrong, for every estimator with `fit_stream` and for partitions."""

import functools
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from streamed import CASES, options_for, source_for

from sublinear import (
    PegasosClassifier,
    PegasosRegressor,
    SDCAClassifier,
    SDCARegressor,
    StreamingSVRGRegressor,
    distributed,
)
from sublinear._labels import join_labels
from sublinear.distributed import _cluster
from sublinear.semi_streaming import SemiStreamingPerceptron
from sublinear.sources import (
    CSVSource,
    GeneratorSource,
    ReadAhead,
    SvmlightSource,
    distinct_labels,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def other_columns(X, y, *rest):
    narrow = [x[1:] for x in X] if isinstance(X, list) else X[:, 1:]
    return narrow, y, *rest


def not_a_number(X, y, *rest):
    gaps = [x * np.nan for x in X] if isinstance(X, list) else X * np.nan
    return gaps, y, *rest


FAULTS = {
    "columns": (other_columns, r"block 2 of the source: .*first block has|length must not change"),
    "NaN": (not_a_number, "block 2 of the source: .*NaN"),
    "length": (lambda X, y, *rest: (X, y[1:], *rest), "block 2 of the source: .*inconsistent"),
    "no block": (lambda X, *rest: 7, "block 2 of the source: a source .*must yield .* got a int"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("case", CASES)
def test_a_bad_block_is_named(case, fault, request):
    spoil, message = FAULTS[fault]
    model, data, _ = CASES[case]
    if "ball" in case and fault in ("length", "no block"):
        pytest.skip("a ball has no labels, and takes bare arrays")
    first, second, *_ = source_for(data, request)
    with pytest.raises(ValueError, match=message):
        clone(model).fit_stream([first, spoil(*second)], **options_for(case, request))


@pytest.mark.parametrize("second", [["u", "v"], ["1", "u"]])
@pytest.mark.parametrize("regressor", [SDCARegressor, PegasosRegressor, StreamingSVRGRegressor])
def test_targets_that_are_no_numbers_are_named(regressor, second):
    X = np.arange(4.0).reshape(2, 2)
    with pytest.raises(ValueError, match=r"block 2 of the source: .*could not convert"):
        regressor().fit_stream([(X, X[:, 0]), (X, np.array(second))])


@pytest.mark.parametrize("case", CASES)
def test_an_empty_source_is_refused(case, request):
    model, data, _ = CASES[case]
    X, *rest = next(iter(source_for(data, request)))
    nothing = X[:0], *(column[:0] for column in rest)
    for source in ([], [nothing, nothing]):
        with pytest.raises(ValueError, match="the source is empty: it yields no rows"):
            clone(model).fit_stream(source, **options_for(case, request))


@pytest.mark.parametrize("case", CASES)
def test_labels_that_were_not_declared_are_refused(case, request):
    model, data, one_pass = CASES[case]
    options = options_for(case, request)
    if not options:
        return
    blocks = list(source_for(data, request))
    classes = options["classes"]
    with pytest.raises(ValueError, match="classes must hold all labels to come"):
        clone(model).fit_stream(blocks, classes=classes[:1])
    X, y, *rest = blocks[1]
    strange = [blocks[0], (X, y + 7, *rest)]
    with pytest.raises(ValueError, match=r"block 2 of the source: .*not among the classes \[0, 1"):
        clone(model).fit_stream(strange, classes=classes)
    if one_pass:
        with pytest.raises(ValueError, match="fit_stream needs classes, all labels to come"):
            clone(model).fit_stream(blocks)
        with pytest.raises(ValueError, match="first call of partial_fit needs classes"):
            clone(model).partial_fit(*blocks[0])


def test_many_strange_labels_are_not_all_shown(binary):
    X, _ = binary
    with pytest.raises(ValueError, match=r"\[0.0, 1.0, 2.0, 3.0, 4.0\] and 195 more"):
        PegasosClassifier().partial_fit(X, np.arange(200.0), classes=[-1, -2])


@pytest.mark.parametrize("more", [False, True], ids=["fewer", "more"])
@pytest.mark.parametrize("case", [case for case in CASES if not CASES[case][2]])
def test_a_source_that_changes_between_passes_is_refused(case, more, request):
    model, data, _ = CASES[case]
    blocks, passes = list(source_for(data, request)), []
    changed = blocks + blocks[:1] if more else blocks[:3]
    message = "(220|260) rows or more in" if more else r"60 rows in this pass and (200|240) in"

    def source():
        passes.append(None)
        return iter(blocks if len(passes) < 3 else changed)

    with pytest.raises(ValueError, match=message):
        clone(model).fit_stream(GeneratorSource(source), **options_for(case, request))


def test_the_rows_of_a_model_are_those_of_its_source(binary):
    X, y = binary
    model = SemiStreamingPerceptron(epsilon=0.5, random_state=0).fit_stream([(X, y)])
    with pytest.raises(ValueError, match="the source has 199 rows, but that of the fit had 200"):
        model.materialize([(X[1:], y[1:])])


@pytest.fixture
def faulty(tmp_path):
    """Two files, each with a malformed third line of data, and functions that open them."""
    svmlight, csv = tmp_path / "rows.svm", tmp_path / "rows.csv"
    svmlight.write_text("1 1:0.5 2:1\n-1 1:0.25\n1 1:x\n-1 2:3\n1 1:2 2:2\n")
    csv.write_text("a,b,label\n0.5,1,1\n0.25,0,-1\n3,oops,1\n0,3,-1\n2,2,1\n")
    return {
        r"rows\.svm, line 3": lambda **o: SvmlightSource(svmlight, n_features=2, index_base=1, **o),
        r"rows\.csv, line 4": lambda **o: CSVSource(csv, **o),
    }


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1] != "structured"])
def test_a_malformed_line_is_named_or_counted(case, faulty):
    model, data, _ = CASES[case]
    if data == "sequences":
        pytest.skip("no file format holds sequences")
    labelled = data != "regression" and "semi" not in case
    options = {"classes": [-1, 1]} if labelled else {}
    for place, source in faulty.items():
        with pytest.raises(ValueError, match=place):
            clone(model).fit_stream(source(), **options)
        fit = clone(model).fit_stream(source(on_error="skip"), **options)
        assert fit.stream_ == (1, 4, 1)


OVER_PARTITIONS = {
    "dual ascent": distributed.SDCAClassifier(alpha=0.1, max_iter=3, tol=0),
    "dual ascent, regression": distributed.SDCARegressor(alpha=0.1, max_iter=3, tol=0),
    "pegasos": distributed.PegasosClassifier(alpha=0.1, max_iter=3, tol=0),
    "pegasos, regression": distributed.PegasosRegressor(alpha=0.1, max_iter=3, tol=0),
    "stages": distributed.StreamingSVRGClassifier(alpha=0.1),
    "stages, regression": distributed.StreamingSVRGRegressor(alpha=0.1),
}
EVERYWHERE = pytest.mark.parametrize("case", OVER_PARTITIONS)


@EVERYWHERE
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_block_of_a_partition_is_named(case, fault, binary):
    X, y = binary
    spoil, message = FAULTS[fault]
    parts = [[(X[:60], y[:60])], [(X[60:100], y[60:100]), spoil(X[100:], y[100:])]]
    with pytest.raises(ValueError, match=message.replace("the source", "partition 1")):
        clone(OVER_PARTITIONS[case]).fit(parts)


@EVERYWHERE
def test_malformed_lines_of_partitions_are_named_or_counted(case, faulty):
    for place, source in faulty.items():
        with pytest.raises(ValueError, match=place):
            clone(OVER_PARTITIONS[case]).fit([source, source])
        part = source(on_error="skip")
        fit = clone(OVER_PARTITIONS[case]).fit([part, lambda part=part: part])
        assert fit.stream_ == (2, 8, 2)


@EVERYWHERE
@pytest.mark.parametrize("source", ["rows.svm", 7])
def test_what_is_no_source_of_a_partition(case, source):
    with pytest.raises(TypeError, match="open_source reads files"):
        clone(OVER_PARTITIONS[case]).fit([source])


@EVERYWHERE
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", ""])
def test_a_scheduler_that_cannot_be_reached(case, address, binary, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_cluster, "CONNECT_SECONDS", 0.1)
    model = clone(OVER_PARTITIONS[case]).set_params(client=address)
    words = rf"the scheduler at '{address}' cannot be reached \(.+\): start it"
    with pytest.raises(ValueError, match=words):
        model.fit(*binary)


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_checked_before_the_source(case, request):
    model = CASES[case][0]
    name = "epsilon" if "semi" in case else "alpha"
    with pytest.raises(ValueError, match=f"^{name} must be a number"):
        clone(model).set_params(**{name: -1}).fit_stream([], **options_for(case, request))


def test_a_searched_intercept_needs_all_rows(binary):
    with pytest.raises(ValueError, match='fit_stream needs another bias: bias="search"'):
        PegasosClassifier(bias="search").fit_stream([binary], classes=[0, 1])


def test_sources_that_fail_on_workers(client, binary):
    X, y = binary

    def source():
        yield X, y
        raise OSError("the disk is gone")

    model = clone(OVER_PARTITIONS["pegasos"]).set_params(client=client)
    with pytest.raises(RuntimeError, match=r"lost 5 times in a row.*the disk is gone"):
        model.fit([source, [binary]])
    with pytest.raises(ValueError, match="a generator cannot be sent to a worker"):
        model.fit([(block for block in [binary])])
    with pytest.raises(ValueError, match=r"block 1 of partition 1: .*NaN"):
        model.fit([[binary], [(X * np.nan, y)]])
    for _ in range(100):  # workers are told soon after, not at once
        held = client.run(lambda dask_worker: len(dask_worker.state.actors))
        if not any(held.values()):
            break
        time.sleep(0.1)
    assert set(held.values()) == {0}


def test_bad_chunks_are_named(client, da, binary):
    X, y = binary[0].copy(), binary[1]
    X[130] = np.nan
    with pytest.raises(ValueError, match=r"chunk 2 of the rows: .*NaN"):
        distributed.SDCAClassifier(client=client).fit(
            da.from_array(X, chunks=(50, 12)), da.from_array(y, chunks=50)
        )


def test_a_generator_is_no_source_for_several_passes(binary):
    with pytest.raises(ValueError, match="a generator can be read only once"):
        SDCAClassifier().fit_stream(iter([binary]))


class Changing:
    """Rows whose labels, or values, are others from the third pass on."""

    def __init__(self, X, y, change):
        self.X, self.y, self.change, self.passes = X, y, change, 0

    def __iter__(self):
        self.passes += 1
        change = self.change if self.passes > 2 else lambda rows, labels: (rows, labels)
        yield change(self.X[:50], self.y[:50])
        yield self.X[50:], self.y[50:]


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_labels_that_change_between_passes_are_noticed(binary, class_weight):
    """Also that of a row which is not among those that all passes compare."""
    X, y = binary
    model = SDCAClassifier(class_weight=class_weight)
    with pytest.raises(ValueError, match=r"block 1 of the source: .* the same rows"):
        model.fit_stream(Changing(X, y, lambda rows, labels: (rows, 2 * labels)))
    with pytest.raises(ValueError, match="block 1 of the source: y holds labels that are not"):
        model.fit_stream(Changing(X, y, lambda rows, y: (rows, np.r_[y[0], 2, y[2:]])))


def test_a_generator_that_is_wrapped_is_not_called_empty(binary):
    blocks = iter([binary])
    for source in (GeneratorSource(lambda: blocks), ReadAhead(iter([binary]))):
        with pytest.raises(ValueError, match="0 rows in this pass and 200 in the first one"):
            SDCAClassifier().fit_stream(source)


def test_text_and_numbers_have_no_common_order(binary):
    X, y = binary
    words = np.where(y > 0, "yes", "no")
    for source in ([(X, y), (X, words)], [(X, words), (X, y)]):
        with pytest.raises(ValueError, match="all numbers or all text"):
            SDCAClassifier().fit_stream(source)
        with pytest.raises(ValueError, match="all numbers or all text"):
            SemiStreamingPerceptron().fit_stream(source)
        with pytest.raises(ValueError, match="all numbers or all text"):
            distinct_labels(source)
    with pytest.raises(ValueError, match="all numbers or all text"):
        distinct_labels([(X, np.where(y > 0, "yes", None))])


@pytest.mark.parametrize("kind", ["SDCAClassifier", "PegasosClassifier", "StreamingSVRGClassifier"])
def test_text_beside_numbers_over_partitions(binary, kind):
    X, y = binary
    model = getattr(distributed, kind)()
    blocks = [(X[:100], y[:100]), (X[100:], y[100:].astype(str))]
    for sources in ([blocks], [blocks[:1], blocks[1:]]):
        with pytest.raises(ValueError, match="all numbers or all text"):
            model.fit(sources)


def test_text_that_looks_like_a_class_is_none(binary):
    X, classes = binary[0], np.arange(20)  # NumPy joins sets of some size and makes text of them
    y = np.resize(classes, len(X))
    for fit in (PegasosClassifier().fit_stream, distributed.StreamingSVRGClassifier().fit):
        blocks = [(X, y), (X, y.astype(str))]
        source = [blocks] if fit.__name__ == "fit" else blocks
        with pytest.raises(ValueError, match=r"not among the classes .*: \['0', '1', '10'"):
            fit(source, classes=classes)


def test_text_in_objects_stays_as_it_is(binary):
    X, y = binary[0], np.where(binary[1] > 0, "yes", "no").astype(object)
    blocks = [(X[:99], y[:99]), (X[99:], y[99:])]
    fits = [
        SDCAClassifier().fit_stream(blocks),
        SemiStreamingPerceptron(0.5).fit(X, y),
        SemiStreamingPerceptron(0.5).fit_stream([(X, y), (X, y.astype(str))]),
        distributed.SDCAClassifier(n_partitions=2).fit(X, y),
        distributed.StreamingSVRGClassifier().fit([blocks]),
    ]
    for found in (distinct_labels(blocks), *(model.classes_ for model in fits)):
        assert found.dtype == object and found.tolist() == ["no", "yes"]


def test_whole_numbers_of_all_types_are_joined():
    large = 2**53
    parts = [np.array([1.0, 3.0]), np.array([large, large + 1]), np.array([2**64 - 1], np.uint64)]
    joined = functools.reduce(join_labels, parts)
    assert joined.dtype == np.uint64
    assert joined.tolist() == [1, 3, large, large + 1, 2**64 - 1]
    with pytest.raises(ValueError, match="pass them as text"):
        join_labels(np.array([0.5]), parts[1])


def test_column_indices_out_of_range_are_named(binary):
    X, y = binary
    rows = sparse.csr_array(X)
    broken = rows.copy()
    broken.indices[3] = 10**6
    with pytest.raises(ValueError, match="block 2 of the source: X is not a valid CSR matrix"):
        SDCAClassifier().fit_stream([(rows, y), (broken, y)])


@pytest.mark.parametrize("estimator", [SDCAClassifier, PegasosClassifier, SDCARegressor])
def test_arrays_shorter_than_row_pointers_say_are_named(estimator, binary):
    X, y = binary
    X = sparse.csr_array(X)
    X.data, X.indices = X.data[:-200], X.indices[:-200]
    options = {"classes": [0, 1]} if estimator is PegasosClassifier else {}
    with pytest.raises(ValueError, match=r"not a valid CSR matrix: its row pointers"):
        estimator().fit_stream([(X, y)], **options)


@pytest.mark.parametrize("types", [("i2", "i2"), ("u4", "i4"), ("u4", "u4"), ("i4", "i8")])
def test_column_indices_may_have_any_type(types, binary):
    X, y = binary
    X = sparse.csr_array(X)
    models = []
    for indices, offsets in (("i4", "i4"), types):
        X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(offsets)
        models.append(SDCAClassifier(random_state=0).fit_stream([(X, y)]))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_blocks_of_big_endian_values_are_copied(binary):
    X, y = binary
    X = sparse.csr_array(X)
    plain = PegasosClassifier(random_state=0).fit_stream([(X, y)], classes=[0, 1])
    X.data = X.data.astype(">f8")
    source = GeneratorSource(lambda: iter([(X, y)]))
    swapped = PegasosClassifier(random_state=0).fit_stream(source, classes=[0, 1])
    np.testing.assert_array_equal(swapped.coef_, plain.coef_)


def test_blocks_without_rows_say_nothing_about_values(binary):
    X, y = binary
    nothing = X[:0].astype(np.float32), y[:0]
    model = StreamingSVRGRegressor().fit_stream([nothing, (X, y)])
    assert model.coef_.dtype == np.float64
    blocks = [(X.astype(np.float32), y), (1e300 * X, y)]
    with pytest.raises(ValueError, match="overflows"):  # not in float32, which block 1 is
        SDCAClassifier().fit_stream(blocks)


@pytest.mark.parametrize("make", [SDCAClassifier, SDCARegressor])
def test_weights_whose_sum_over_blocks_overflows_are_refused(make, binary):
    X, y = binary
    blocks = [(X[k::4], y[k::4], np.full(len(y[k::4]), 1e308 / len(y[k::4]))) for k in range(4)]
    model = make(random_state=0)
    with pytest.raises(ValueError, match="the sum of the weights of all blocks is outside"):
        model.fit_stream(blocks)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("factor", [1e307, 1e-310])
def test_class_weights_out_of_range_are_refused(factor, binary):
    X, y = binary
    model = SDCAClassifier(class_weight=dict.fromkeys(np.unique(y).tolist(), factor))
    with pytest.raises(ValueError, match="the sum of the weights of all blocks is outside"):
        model.fit_stream([(X, y)])


def test_feature_names_that_are_not_as_many_as_columns_are_refused(binary):
    X, y = binary
    source = GeneratorSource(lambda: iter([(X, y)]))
    source.feature_names = ["a", "b"]
    model = SDCAClassifier()
    with pytest.raises(ValueError, match=r"block 1 .* columns, but 2 feature_names"):
        model.fit_stream(source)
    assert not hasattr(model, "feature_names_in_")
