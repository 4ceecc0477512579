"""Names of features that a source knows: kept by fit_stream, compared, saved."""

import numpy as np
import pytest
from sklearn.base import clone

import sublinear
from sublinear import PegasosClassifier, SDCAClassifier, SequencePegasos, StreamingSVRGClassifier
from sublinear import distributed as over_partitions
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import ArraySource, CSVSource, ParquetSource

MODELS = [
    PegasosClassifier(alpha=0.1, random_state=0),
    SDCAClassifier(alpha=0.1, random_state=0),
    StreamingSVRGClassifier(alpha=0.1),
]


@pytest.fixture
def table(tmp_path, binary):
    """A function that writes a CSV file whose header has these names before the label's."""
    X, y = binary

    def write(names, name="rows.csv"):
        path = tmp_path / name
        header = ",".join([*names, "label"])
        rows = np.column_stack([X[:, : len(names)], y])
        np.savetxt(path, rows, delimiter=",", header=header, comments="")
        return CSVSource(path, label_column="label", block_bytes=2000)

    return write


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_names_of_a_header_are_kept(model, table, tmp_path, binary):
    source = table(["age", "height", "weight"])
    assert source.feature_names == ["age", "height", "weight"]
    model = clone(model)
    model.fit_stream(source, classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["age", "height", "weight"]
    assert model.feature_names_in_.dtype == object
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(binary[0][:, :3])
    model.fit_stream(ArraySource(binary[0], binary[1]), classes=[0, 1])
    assert not hasattr(model, "feature_names_in_")


def test_names_are_saved(table, tmp_path):
    model = PegasosClassifier(alpha=0.1, random_state=0)
    model.fit_stream(table(["a", "b"]), classes=[0, 1])
    sublinear.save_model(model, tmp_path / "model.npz")
    assert sublinear.load_model(tmp_path / "model.npz").feature_names_in_.tolist() == ["a", "b"]


def test_a_model_goes_on_with_the_same_features_only(table):
    model = PegasosClassifier(alpha=0.1, random_state=0, warm_start=True)
    model.fit_stream(table(["a", "b"]), classes=[0, 1])
    with pytest.raises(ValueError, match="goes on from"):
        model.fit_stream(table(["a", "c"], "others.csv"), classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    model.fit_stream(table(["a", "b"]), classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_a_file_without_header_has_none(tmp_path):
    np.savetxt(tmp_path / "rows.csv", np.eye(3), delimiter=",")
    assert CSVSource(tmp_path / "rows.csv").feature_names is None


def test_names_of_parquet_columns(tmp_path, binary):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = binary
    for k, name in enumerate(["b", "b", "c"]):
        columns = {"a": X[:, 0], "label": y, name: X[:, 1]}
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{k}.parquet")
    paths = [tmp_path / f"{k}.parquet" for k in range(3)]
    model = StreamingSVRGClassifier(alpha=0.1)
    model.fit_stream(ParquetSource(paths[:2], label_column="label"), classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="its columns are"):
        list(ParquetSource(paths, label_column="label"))


class Frame:
    """What a data frame is to us: an array with named columns."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_names_of_frames_are_kept_and_compared(model, binary):
    X, y = binary[0][:, :2], binary[1]
    first, same, other = (Frame(X, names) for names in (["a", "b"], ["a", "b"], ["b", "a"]))
    model = clone(model).fit_stream([(first, y), (same, y)], classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"block 2 of the source: a column is named 'b', not 'a'"):
        model.fit_stream([(first, y), (other, y)], classes=[0, 1])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_names_of_a_frame_in_memory_are_kept(model, binary):
    X, y = binary[0][:, :2], binary[1]
    model = clone(model).fit_stream(ArraySource(Frame(X, ["a", "b"]), y), classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    expected = clone(model).fit_stream(ArraySource(X, y), classes=[0, 1])
    assert not hasattr(expected, "feature_names_in_")
    np.testing.assert_array_equal(model.coef_, expected.coef_)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_columns_of_a_frame_in_another_order_are_refused(name, binary):
    library = pytest.importorskip(name)
    X, y = binary[0][:, :2], binary[1]
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = clone(MODELS[0]).fit_stream(ArraySource(frame, y), classes=[0, 1])
    model.predict(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a"]])


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (over_partitions.SDCAClassifier(), {}),
        (over_partitions.PegasosClassifier(max_iter=2, tol=0), {}),
        (over_partitions.StreamingSVRGClassifier(), {"classes": [0, 1]}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_names_are_those_of_all_partitions(model, options, binary):
    X, y = binary[0][:, :2], binary[1]
    first, other = (Frame(X, names) for names in (["a", "b"], ["b", "a"]))
    sources = [[(first, y)], [(X, y)], ArraySource(first, y)]
    model = model.fit(sources, **options)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    predicted = model.predict_sources(sources)
    np.testing.assert_array_equal(predicted[0], predicted[1])
    model.score(sources)
    words = "a column is named 'b', not 'a' as before"
    for read in (model.predict_sources, model.score):
        for source in ([(other, y)], ArraySource(other, y)):
            with pytest.raises(ValueError, match=f"block 1 of partition 1: {words}"):
                read([[(first, y)], source])
    with pytest.raises(ValueError, match=f"partition 1: {words}"):
        model.fit([[(first, y)], [(other, y)]], **options)
    with pytest.raises(ValueError, match="partition 1: 3 columns, but those before have 2"):
        model.fit([[(X, y)], [(binary[0][:, :3], y)]], **options)
    with pytest.raises(ValueError, match=f"block 2 of partition 0: {words}"):
        model.fit([[(first, y), (other, y)]], **options)
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_names_of_sequences_are_kept_and_compared(binary):
    X, y = binary[0][:, :2], binary[1]
    first, other = (Frame(X, names) for names in (["a", "b"], ["b", "a"]))
    model = SequencePegasos().fit_stream([(first, y), (X, y)], classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="block 2 of the source: a column is named 'b', not 'a'"):
        model.fit_stream([(first, y), (other, y)], classes=[0, 1])


@pytest.mark.parametrize("kind", [list, ArraySource])
def test_names_of_arrow_tables_are_kept_and_compared(kind, binary):
    pyarrow = pytest.importorskip("pyarrow")
    X, y = binary[0][:, :2], binary[1]
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1]})
    source = ArraySource(table, y) if kind is ArraySource else [(table, y)]
    model = clone(MODELS[0]).fit_stream(source, classes=[0, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"block 2 .*: a column is named 'b', not 'a'"):
        model.fit_stream([(table, y), (table.select(["b", "a"]), y)], classes=[0, 1])


def test_names_only_some_of_which_are_text_are_refused(binary):
    X, y = binary[0][:, :2], binary[1]
    frame = Frame(X, ["a", 1])
    words = "the columns of X are named by int and str: name all of them by strings"
    with pytest.raises(TypeError, match=f"block 2 of the source: {words}"):
        clone(MODELS[0]).fit_stream([(X, y), (frame, y)], classes=[0, 1])
    with pytest.raises(TypeError, match=words):
        ArraySource(frame, y)


def test_names_that_are_numbers_are_none(binary):
    X, y = binary[0][:, :2], binary[1]
    frame = Frame(X, [0, 1])
    for source in (ArraySource(frame, y), [(frame, y)]):
        model = clone(MODELS[0]).fit_stream(source, classes=[0, 1])
        assert not hasattr(model, "feature_names_in_")


@pytest.fixture
def named():
    """A function that returns rows as a table whose columns have names."""
    pyarrow = pytest.importorskip("pyarrow", reason="no pyarrow")
    return lambda X, names: pyarrow.table({name: X[:, k] for k, name in enumerate(names)})


@pytest.mark.parametrize("name", over_partitions.__all__)
def test_a_fit_over_partitions_forgets_the_names_of_the_last_one(name, named, tmp_path, binary):
    X, y = binary
    model = getattr(over_partitions, name)(alpha=0.1)
    model.fit(named(X, "abc"), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="no sources"):
        model.fit([])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit([[(X[:, :5], y)]])
    assert not hasattr(model, "feature_names_in_")
    sublinear.save_model(model.to_local(), tmp_path / "model.npz")
    assert sublinear.load_model(tmp_path / "model.npz").n_features_in_ == 5


@pytest.mark.parametrize("kind", [SemiStreamingPerceptron, SemiStreamingEnclosingBall])
def test_semi_streaming_fits_have_the_names_of_their_rows(kind, named, table, binary):
    X, y = np.abs(binary[0]), binary[1]
    X[:, 0] = np.where(y, 1, -1)
    model = kind(0.5, random_state=0).fit(named(X, "abc"), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit_stream(ArraySource(X[:, :5], y))
    assert not hasattr(model, "feature_names_in_")
    model.fit_stream(table(["age", "height"]))
    assert model.feature_names_in_.tolist() == ["age", "height"]
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
