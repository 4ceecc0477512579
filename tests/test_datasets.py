"""Generated data, every file format, and what a malformed file is told."""

import bz2
import gzip
import itertools
import lzma

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from sublinear._readers import read, svmlight_text
from sublinear.datasets import load, make_sparse_classification, make_tagged_sequences
from sublinear.sources import CSVSource

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.fixture
def rows():
    """Six rows with integer labels; the last column and the third row are in use and empty."""
    X = np.array(
        [[1.5, 0, 2, 0], [0, -1, 0, 3], [0, 0, 0, 0], [4, 0, 0, 1], [0, 0, 0.25, 0], [7, 0, 0, 1]]
    )
    return X, np.array([1, -1, 1, -1, 1, -1])


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text, compressed as the file's name says."""

    def write(name, text):
        path = tmp_path / name
        content = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(COMPRESS.get(path.suffix, bytes)(content))
        return path

    return write


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def assert_same(found, expected):
    X, y = found
    np.testing.assert_array_equal(dense(X), expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert y.dtype == expected[1].dtype


class TestMakeSparseClassification:
    def test_shape_and_norms(self):
        X, y = make_sparse_classification(300, 500, row_entries=20, random_state=0)
        assert isinstance(X, sparse.csr_array)
        assert X.shape == (300, 500)
        assert X.indices.dtype == np.int32
        assert X.has_sorted_indices
        np.testing.assert_allclose(sparse.linalg.norm(X, axis=1), 1.0)
        assert set(y.tolist()) == {-1, 1}
        assert y.dtype == np.int64

    def test_row_entries_is_the_mean_number_of_stored_entries(self):
        X, _ = make_sparse_classification(2000, 1000, row_entries=30, random_state=1)
        assert X.nnz / X.shape[0] == pytest.approx(30, rel=0.03)

    def test_columns_follow_a_power_law(self):
        X, _ = make_sparse_classification(2000, 1000, row_entries=30, random_state=1)
        filled = np.sort(np.bincount(X.indices, minlength=1000))[::-1]
        assert filled[0] > 10 * filled[100] > 0

    def test_planted_vector_separates_up_to_noise(self):
        options = {"row_entries": 20, "random_state": 2, "return_coef": True}
        X, y, coef = make_sparse_classification(2000, 500, noise=0.1, **options)
        margins = X @ coef
        flipped = np.mean(np.where(margins > np.median(margins), 1, -1) != y)
        assert flipped == pytest.approx(0.1, abs=0.03)
        _, y, _ = make_sparse_classification(2000, 500, noise=0.0, **options)
        assert y.sum() == 0

    @pytest.mark.parametrize("source", [lambda: 7, lambda: np.random.default_rng(7)])
    def test_same_seed_same_data(self, source):
        first, second = (
            make_sparse_classification(50, 60, row_entries=5, random_state=source())
            for _ in range(2)
        )
        np.testing.assert_array_equal(first[0].toarray(), second[0].toarray())
        np.testing.assert_array_equal(first[1], second[1])

    def test_takes_a_random_state_object(self):
        X, _ = make_sparse_classification(
            20, 30, row_entries=5, random_state=np.random.RandomState(0)
        )
        assert X.shape == (20, 30)

    @pytest.mark.parametrize(
        "options, name",
        [
            ({"n_samples": 1}, "n_samples"),
            ({"n_features": 2.5}, "n_features"),
            ({"row_entries": 0}, "row_entries"),
            ({"n_features": 50, "row_entries": 50}, "row_entries"),
            ({"noise": 0.6}, "noise"),
            ({"exponent": np.nan}, "exponent"),
            ({"exponent": "steep"}, "exponent"),
            ({"n_features": 50, "row_entries": 30, "exponent": 5.0}, "lower row_entries"),
            ({"n_features": 50, "row_entries": 30, "exponent": 1e3}, "lower row_entries"),
        ],
    )
    def test_unusable_parameters(self, options, name):
        with pytest.raises(ValueError, match=name):
            make_sparse_classification(**{"n_samples": 10, **options})


class TestSvmlight:
    @pytest.mark.parametrize("compression", COMPRESS)
    @pytest.mark.parametrize("name", ["a.svm", "a.txt", "news20.binary", "a9a", "a9a.t"])
    def test_round_trip(self, rows, tmp_path, write, name, compression):
        dump_svmlight_file(*rows, str(tmp_path / "plain"), zero_based=False)
        path = write(name + compression, (tmp_path / "plain").read_bytes())
        assert_same(load(path), rows)

    def test_index_base_is_found_or_given(self, write):
        assert read(write("a", "1 1:5\n")).index_base == 1
        assert read(write("a", "1 0:5\n")).index_base == 0
        assert load(write("a", "1 1:5 3:1\n"))[0].shape == (1, 3)
        assert load(write("a", "1 1:5 3:1\n"), index_base=0)[0].shape == (1, 4)

    def test_comments_blank_lines_and_query_ids(self, write):
        path = write("a", "# a comment\n\n+1 qid:3 1:2 # the_rest \0\r\n-1\n")
        assert_same(load(path), (np.array([[2.0], [0.0]]), np.array([1, -1])))

    def test_labels_that_are_not_whole_stay_floats(self, write):
        assert load(write("a", "0.5 1:1\n2 1:1\n"))[1].tolist() == [0.5, 2.0]

    def test_arrays_are_as_all_solvers_take_them(self, write):
        X, _ = load(write("a", "1 1:5\n"))
        assert isinstance(X, sparse.csr_array)
        assert X.dtype == np.float64
        assert X.indices.dtype == X.indptr.dtype == np.int32

    @pytest.mark.parametrize(
        "bad, words",
        [
            ("x 1:1", "label 'x'"),
            ("1,2 1:1", "label '1,2'.*svmlight"),
            ("nan 1:1", "label 'nan'"),
            ("1 1", "'1' is not index:value"),
            ("1 1:", "'1:' is not index:value"),
            ("1 a:1", "'a:1' is not index:value"),
            ("1 -4:1", "'-4:1' is not index:value"),
            ("1 1:two", "'1:two' is not index:value"),
            ("1 1:inf", "'1:inf' is not index:value"),
            ("1 1:nan", "'1:nan' is not index:value"),
            ("1_0 1:1", "label '1_0'"),
            ("1 0_2:1", "'0_2:1' is not index:value"),
            ("1 1:1_0", "'1:1_0' is not index:value"),
            ("1 1:1\0 # 2:5", "'1:1.x00' is not index:value"),
            ("1 3:1 2:1", "index 2 after 3"),
            ("1 3:1 3:1", "index 3 after 3"),
            ("1 99999999999:1", "index '99999999999' is too large"),
        ],
    )
    @pytest.mark.parametrize("compression", ["", ".gz"])
    def test_malformed_line_is_named(self, write, bad, words, compression):
        path = write("bad.svm" + compression, f"# head\n1 1:1\n\n{bad}\n1 1:x\n")
        with pytest.raises(ValueError, match=rf"bad\.svm{compression}, line 4: .*{words}"):
            load(path)

    def test_index_zero_where_the_first_is_one(self, write):
        path = write("a", "1 1:1\n1 0:1\n")
        with pytest.raises(ValueError, match="line 2: index 0"):
            load(path, index_base=1)

    def test_index_base_is_zero_or_one(self, write):
        with pytest.raises(ValueError, match="index_base must be 0, 1 or None, got 2"):
            load(write("a", "1 1:1\n"), index_base=2)

    def test_long_tokens_are_cut(self, write):
        with pytest.raises(ValueError) as caught:
            load(write("a", "1 " + "x" * 10_000))
        assert len(str(caught.value)) < 500

    def test_binary_content(self, write):
        with pytest.raises(ValueError, match="line 1: label"):
            load(write("a", bytes(range(256))))


class TestCsv:
    @pytest.mark.parametrize("compression", COMPRESS)
    def test_round_trip(self, rows, write, compression):
        X, y = rows
        lines = [",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)]
        assert_same(load(write("a.csv" + compression, "\n".join(lines))), rows)

    @pytest.mark.parametrize(
        "text, column, X, y",
        [
            ("1,2,7\n3,4,8\n", "last", [[1, 2], [3, 4]], [7, 8]),
            ("7,1,2\n8,3,4\n", "first", [[1, 2], [3, 4]], [7, 8]),
            ("1,7,2\n3,8,4\n", 1, [[1, 2], [3, 4]], [7, 8]),
            ("1,7,2\n3,8,4\n", -2, [[1, 2], [3, 4]], [7, 8]),
            ("a,b,c\n1,7,2\n3,8,4\n", "b", [[1, 2], [3, 4]], [7, 8]),
            ("0,1,2\n1,7,2\n3,8,4\n", "1", [[1, 2], [3, 4]], [7, 8]),
            ("1,2,cat\n3,4,dog\n", "last", [[1, 2], [3, 4]], ["cat", "dog"]),
            ("a,b,y\n1,2,cat\n3,4,dog\n", "last", [[1, 2], [3, 4]], ["cat", "dog"]),
            ("1,2,0.5\n3,4,8\n", "last", [[1, 2], [3, 4]], [0.5, 8.0]),
            ("0,1,label\n1,2,7\n3,4,8\n", "last", [[1, 2], [3, 4]], [7, 8]),
            ('"x, y",b,c\r\n1,"2", 7\r\n\r\n3,4,8\r\n', "last", [[1, 2], [3, 4]], [7, 8]),
            ("\ufeffa,b,c\n1,2,ähre\n3,4,日本\n", "last", [[1, 2], [3, 4]], ["ähre", "日本"]),
            ("1,2,#1\n3,4,#2\n", "last", [[1, 2], [3, 4]], ["#1", "#2"]),
        ],
    )
    def test_layouts(self, write, text, column, X, y):
        assert_same(load(write("a.csv", text), label_column=column), (X, np.array(y)))

    def test_no_labels(self, write):
        X, y = load(write("a.csv", "1,2\n3,4\n"), label_column=None)
        np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
        assert y is None

    def test_header_by_decree(self, write):
        path = write("a.csv", "1,2\n3,4\n")
        assert_same(load(path, header=True), ([[3]], np.array([4])))
        assert_same(load(path, header=False), ([[1], [3]], np.array([2, 4])))

    @pytest.mark.parametrize(
        "bad, words",
        [
            ("1,x,2", r"column 2( \('b'\))?: 'x'"),
            ("1,,2", r"column 2( \('b'\))?: ''"),
            ("1,nan,2", r"column 2( \('b'\))?: 'nan'"),
            ("1,2", "expected 3 columns, found 2"),
            ("1,2,3,4", "expected 3 columns, found 4"),
            ("1,2,", "column 3, the label, is empty"),
            ("1;2;3", "expected 3 columns, found 1"),
        ],
    )
    @pytest.mark.parametrize("head", ["a,b,c\n1,2,3\n\n", "1,2,3\n1,2,3\n\n"])
    def test_malformed_line_is_named(self, write, bad, words, head):
        path = write("bad.csv", f"{head}{bad}\n1,y,3\n")
        with pytest.raises(ValueError, match=rf"bad\.csv, line 4: {words}"):
            load(path)

    def test_text_in_another_encoding(self, write):
        with pytest.raises(ValueError, match="line 2: the text is not UTF-8"):
            load(write("a.csv", "1,2,a\n3,4,ä\n".encode("latin-1")))

    @pytest.mark.parametrize("column", [3, -4])
    def test_label_column_out_of_range(self, write, column):
        with pytest.raises(ValueError, match=f"label column {column}, but there are 3 columns"):
            load(write("a.csv", "1,2,3\n"), label_column=column)

    def test_unknown_label_name(self, write):
        with pytest.raises(ValueError, match=r"no column named 'z'; the columns are 'a', 'b'$"):
            load(write("a.csv", "a,b\n1,2\n"), label_column="z")
        path = write("a.csv", ",".join(f"x{k}" for k in range(13)) + "\n" + ",".join("1" * 13))
        with pytest.raises(ValueError, match=r"'x8', 'x9' and 3 more$"):
            load(path, label_column="z")
        with pytest.raises(ValueError, match=r"columns have no names without a header$"):
            load(path, label_column="z", header=False)

    def test_another_name_for_the_column_of_the_labels(self, write):
        said = r"label does not apply to data in csv format; label_column \(--label-column\) says"
        with pytest.raises(ValueError, match=said):
            read(write("a.csv", "a,b\n1,2\n"), label="b")
        with pytest.raises(ValueError, match=r"index_base, label_names do not apply to .* says"):
            read(write("a.csv", "a,b\n1,2\n"), label_names="b", index_base=0)
        with pytest.raises(ValueError, match=r"label does not apply to data in svmlight format$"):
            read(write("a.svm", "1 1:1\n"), label="b")

    @pytest.mark.parametrize("column", ["first", "b", "last", None])
    def test_a_fault_names_its_column(self, write, column):
        path = write("a.csv", "a,b,c,d\n1,2,3,4\n1,2,s29,4\n")
        with pytest.raises(ValueError, match="line 3: column 3 \\('c'\\): 's29' is not a finite"):
            load(path, label_column=column)
        with pytest.raises(ValueError, match="line 3: column 3 \\('c'\\): 's29' is not a finite"):
            list(CSVSource(path, label_column=column))
        with pytest.raises(ValueError, match="line 1: column 1: 's29' is not a finite"):
            load(write("a.csv", "s29,2\n"), header=False)

    @pytest.mark.parametrize("text", ["\n\n", "a,b,c\n"])
    def test_no_rows(self, write, text):
        with pytest.raises(ValueError, match="no rows"):
            load(write("a.csv", text))

    @pytest.mark.parametrize(
        ("text", "label", "weight", "X", "y"),
        [
            ("1,2,7,0.5\n3,4,8,2\n", 2, "last", [[1, 2], [3, 4]], [7, 8]),
            ("0.5,1,2,7\n2,3,4,8\n", "last", "first", [[1, 2], [3, 4]], [7, 8]),
            ("1,0.5,2,a\n3,2,4,b\n", -1, -3, [[1, 2], [3, 4]], ["a", "b"]),
            ("x,w,z,y\n1,0.5,2,7\n3,2,4,8\n", "y", "w", [[1, 2], [3, 4]], [7, 8]),
            ("0,1,2,3\n1,0.5,2,7\n3,2,4,8\n", "last", "1", [[1, 2], [3, 4]], [7, 8]),
            ("0,w,2,3\n1,0.5,2,7\n3,2,4,8\n", "last", 1, [[1, 2], [3, 4]], [7, 8]),
        ],
    )
    def test_weights(self, write, text, label, weight, X, y):
        path = write("a.csv", text)
        options = {"label_column": label, "weight_column": weight}
        for parts in (load(path, **options), next(iter(CSVSource(path, **options)))):
            assert (parts[0].tolist(), parts[1].tolist()) == (X, y)
            assert parts[0].flags.c_contiguous
            assert parts[2].tolist() == [0.5, 2]

    def test_weights_without_labels(self, write):
        path, options = write("a.csv", "1,2\n3,0\n"), {"label_column": None, "weight_column": 1}
        for X, y, weights in (load(path, **options), next(iter(CSVSource(path, **options)))):
            assert (X.tolist(), y, weights.tolist()) == ([[1], [3]], None, [2, 0])

    @pytest.mark.parametrize(
        ("weight", "words"),
        [
            ("-1", "'-1' is negative"),
            ("inf", "'inf' is not a finite number"),
            ("", "'' is not a finite number"),
            ("heavy", "'heavy' is not a finite number"),
        ],
    )
    def test_unfit_weights_are_named(self, write, weight, words):
        path = write("bad.csv", f"a,w,y\n1,2,0\n1,{weight},1\n3,4,1\n")
        words = rf"bad\.csv, line 3: column 2, the weight: {words}"
        with pytest.raises(ValueError, match=words):
            load(path, weight_column="w")
        with pytest.raises(ValueError, match=words):
            list(CSVSource(path, weight_column="w"))
        source = CSVSource(path, weight_column="w", on_error="skip")
        ((X, y, weights),) = source
        assert (X.tolist(), y.tolist(), weights.tolist()) == ([[1], [3]], [0, 1], [2, 4])
        assert source.skipped == 1

    @pytest.mark.parametrize(
        ("column", "words"),
        [
            ("v", "no column named 'v'; the columns are 'a', 'w', 'y'$"),
            (3, "weight column 3, but there are 3 columns"),
            (0.5, 'weight_column must be "first", "last", a number, a name or None, got 0.5'),
            ("y", r"column 2 would hold the labels and the weights; label_column"),
        ],
    )
    def test_unfit_weight_columns(self, write, column, words):
        path = write("a.csv", "a,w,y\n1,2,0\n")
        for reader in (load, CSVSource):
            with pytest.raises(ValueError, match=words):
                reader(path, weight_column=column)
        with pytest.raises(ValueError, match="no feature columns"):
            load(write("b.csv", "w,y\n1,2\n"), weight_column=0)

    def test_a_fault_beside_weights_names_its_column(self, write):
        path = write("a.csv", "a,w,b,y,c\n1,2,3,4,5\n1,2,3,4,s29\n")
        with pytest.raises(ValueError, match="line 3: column 5 \\('c'\\): 's29' is not a finite"):
            load(path, label_column="y", weight_column="w")

    def test_weights_are_of_tables(self, write):
        with pytest.raises(ValueError, match="weight_column does not apply to data in svmlight"):
            load(write("a.svm", "1 1:1\n"), weight_column=0)

    def test_nothing_but_labels(self, write):
        with pytest.raises(ValueError, match="no feature columns"):
            load(write("a.csv", "1\n2\n"))


class TestNumpy:
    def test_pair_is_memory_mapped(self, rows, tmp_path):
        np.save(tmp_path / "X.npy", rows[0])
        np.save(tmp_path / "y.npy", rows[1])
        found = load(tmp_path / "X.npy", labels=tmp_path / "y.npy")
        assert isinstance(found[0], np.memmap)
        assert_same(found, rows)

    def test_without_labels(self, rows, tmp_path):
        np.save(tmp_path / "X.npy", rows[0])
        assert load(tmp_path / "X.npy")[1] is None

    @pytest.mark.parametrize(
        "y, expected",
        [
            (np.array([1.0, -1.0] * 3), [1, -1] * 3),
            (np.array([[1], [2]] * 3), [1, 2] * 3),
            (np.array([True, False] * 3), [True, False] * 3),
            (np.array([b"a", b"b"] * 3), ["a", "b"] * 3),
            (np.array(["ä", "日本"] * 3), ["ä", "日本"] * 3),
        ],
    )
    def test_kinds_of_labels(self, rows, tmp_path, y, expected):
        np.savez(tmp_path / "a.npz", X=rows[0], y=y)
        assert load(tmp_path / "a.npz")[1].tolist() == expected

    def test_labels_of_bytes_are_utf8(self, rows, tmp_path):
        np.savez(tmp_path / "a.npz", X=rows[0], y=np.array([b"\xe4", b"b"] * 3))
        with pytest.raises(ValueError, match=r"a\.npz: labels must be UTF-8 text"):
            load(tmp_path / "a.npz")

    @pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
    @pytest.mark.parametrize("compressed", [True, False])
    def test_scipy_archive(self, rows, tmp_path, build, compressed):
        sparse.save_npz(tmp_path / "X.npz", build(rows[0]), compressed=compressed)
        np.save(tmp_path / "y.npy", rows[1])
        assert load(tmp_path / "X.npz")[1] is None
        found = load(tmp_path / "X.npz", labels=tmp_path / "y.npy")
        assert isinstance(found[0], sparse.csr_array)
        assert_same(found, rows)

    def test_csr_parts_with_labels(self, rows, tmp_path):
        X = sparse.csr_array(rows[0])
        parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(tmp_path / "a.npz", **parts, y=rows[1])
        assert_same(load(tmp_path / "a.npz"), rows)

    def test_given_labels_go_before_the_archive_s(self, rows, tmp_path):
        np.savez(tmp_path / "a.npz", X=rows[0], y=rows[1])
        np.save(tmp_path / "y.npy", -rows[1])
        found = load(tmp_path / "a.npz", labels=tmp_path / "y.npy")
        assert_same(found, (rows[0], -rows[1]))

    def test_dtype_stays(self, rows, tmp_path):
        np.savez(tmp_path / "a.npz", X=rows[0].astype(np.float32), y=rows[1])
        assert load(tmp_path / "a.npz")[0].dtype == np.float32

    @pytest.mark.parametrize(
        "change, words",
        [
            ({"indices": np.array([0, 9, 1])}, "not a valid sparse matrix"),
            ({"indices": np.array([0, -1, 1])}, "not a valid sparse matrix"),
            ({"indptr": np.array([0, 3, 2, 3])}, "not a valid sparse matrix"),
            ({"indptr": np.array([0, 1, 2, 99])}, "not a valid sparse matrix"),
            ({"shape": np.array([3])}, "not a valid sparse matrix"),
            ({"shape": np.array([-3, 3])}, "not a valid sparse matrix"),
            ({"indices": np.array([0.0, 1, 2])}, "indices must be"),
            ({"data": np.array(["a", "b", "c"])}, "data must hold real numbers"),
            ({"format": np.array(b"coo")}, "format 'coo'"),
            ({"y": np.array([1, 2])}, "3 rows but 2 labels"),
            ({"y": np.array([1, 2, np.nan])}, "label 2 is not finite"),
            ({"y": np.zeros((3, 2))}, "1-d"),
            ({"y": np.array([1j, 2, 3])}, "complex"),
        ],
    )
    def test_damaged_csr(self, tmp_path, change, words):
        X = sparse.csr_array(np.eye(3))
        parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(tmp_path / "a.npz", **(parts | change))
        with pytest.raises(ValueError, match=rf"a\.npz.*{words}"):
            load(tmp_path / "a.npz")

    def test_pickled_objects_are_refused(self, tmp_path):
        objects = np.array([{"a": 1}, None], dtype=object)
        np.savez(tmp_path / "a.npz", X=np.eye(2), y=objects)
        np.save(tmp_path / "y.npy", objects)
        np.save(tmp_path / "X.npy", np.eye(2))
        for path, options in (
            ("a.npz", {}),
            ("y.npy", {}),
            ("X.npy", {"labels": tmp_path / "y.npy"}),
        ):
            with pytest.raises(ValueError, match="pickled objects, which are never loaded"):
                load(tmp_path / path, **options)

    def test_truncated(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones((100, 10)))
        np.savez(tmp_path / "X.npz", X=np.ones((100, 10)))
        for name in ("X.npy", "X.npz"):
            path = tmp_path / name
            path.write_bytes(path.read_bytes()[:-500])
            with pytest.raises(ValueError, match=rf"{name}.*(damaged|not an array file)"):
                load(path)

    def test_one_kind_under_the_name_of_the_other(self, tmp_path):
        np.save(tmp_path / "X.npy", np.eye(2))
        (tmp_path / "X.npy").rename(tmp_path / "a.npz")
        with pytest.raises(ValueError, match="one array"):
            load(tmp_path / "a.npz")
        np.savez(tmp_path / "b.npz", X=np.eye(2))
        (tmp_path / "b.npz").rename(tmp_path / "b.npy")
        with pytest.raises(ValueError, match="archive"):
            load(tmp_path / "b.npy")

    def test_wrong_shapes_and_names(self, tmp_path):
        np.save(tmp_path / "X.npy", np.ones(3))
        np.savez(tmp_path / "a.npz", X=np.ones(3))
        np.savez(tmp_path / "b.npz", rows=np.eye(3))
        for name, words in (("X.npy", "2-d"), ("a.npz", "2-d"), ("b.npz", "neither an array X")):
            with pytest.raises(ValueError, match=words):
                load(tmp_path / name)


class TestAnyFile:
    @pytest.mark.parametrize("name", ["a.svm", "a.csv", "a.npz", "a.npy", "a.csv.gz"])
    def test_missing_empty_or_folder(self, tmp_path, name):
        path = tmp_path / name
        with pytest.raises(FileNotFoundError, match=rf"{name}: no such file"):
            load(path)
        path.touch()
        with pytest.raises(ValueError, match=rf"{name}: the file is empty"):
            load(path)
        path.unlink()
        path.mkdir()
        with pytest.raises(OSError, match=rf"{name}: not a regular file"):
            load(path)

    @pytest.mark.parametrize("name", ["a.svm", "a.csv"])
    @pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz"])
    def test_damaged_compression(self, tmp_path, name, compression):
        path = tmp_path / (name + compression)
        text = b"".join(b"1 %d:%d\n" % (i + 1, i * i) for i in range(5000))
        if name == "a.csv":
            text = text.replace(b" ", b",").replace(b":", b",")
        whole = COMPRESS[compression](text)
        for content in (b"1 1:1\n" * 20, whole[: len(whole) // 2]):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=rf"{path.name}: damaged"):
                load(path)

    def test_format_against_the_name(self, write):
        path = write("data.data", "1,2,3\n4,5,6\n")
        with pytest.raises(ValueError, match=r"line 1: label '1,2,3'.*format"):
            load(path)
        assert load(path, format="csv")[0].shape == (2, 2)
        with pytest.raises(ValueError, match="unknown format 'arff'"):
            load(path, format="arff")

    @pytest.mark.parametrize("name", ["a.svm", "a.csv"])
    def test_text_holds_its_own_labels(self, write, name):
        with pytest.raises(ValueError, match="such files hold their own labels"):
            load(write(name, "1"), labels="y.npy")

    def test_comments_only(self, write):
        with pytest.raises(ValueError, match="no rows"):
            load(write("a.svm", "# nothing\n"))

    def test_labels_only(self, write):
        path = write("a.svm", "1\n-1\n")
        with pytest.raises(ValueError, match="no feature columns"):
            load(path)
        assert load(path, n_features=3)[0].shape == (2, 3)

    def test_byte_order_mark(self, write):
        path = write("a.svm", "\ufeff1 1:2\n-1 2:3\n")
        X, y = load(path)
        assert_same((X.toarray(), y), ([[2, 0], [0, 3]], np.array([1, -1])))
        with pytest.raises(ValueError, match=r"a\.svm, line 1: index 2 is beyond"):
            load(write("a.svm", "\ufeff1 2:2\n"), n_features=1)

    def test_what_no_line_explains_has_path_and_colon(self, write, monkeypatch):
        monkeypatch.setattr(svmlight_text, "svmlight_line_fault", lambda *_: None)
        with pytest.raises(ValueError, match=r"a\.svm: .*x"):
            load(write("a.svm", "x 1:1\n"))


class TestTaggedSequences:
    def test_posteriors_are_those_of_brute_force(self):
        X, _, lengths, model = make_tagged_sequences(
            6, n_tags=3, n_symbols=7, mean_length=3, random_state=1
        )
        found = model.posteriors(X, lengths)
        emitted = np.exp(model.log_emissions(X))
        first = 0
        for length in lengths:
            expected = np.zeros((length, 3))
            for tags in itertools.product(range(3), repeat=int(length)):
                chance = model.start[tags[0]]
                for before, after in itertools.pairwise(tags):
                    chance *= model.transition[before, after]
                rows = np.arange(length)
                chance *= emitted[first + rows, tags].prod()
                expected[rows, tags] += chance
            expected /= expected.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(found[first : first + length], expected, rtol=1e-9)
            first += length

    def test_the_least_error_is_what_decoding_makes(self):
        X, y, lengths, model = make_tagged_sequences(3000, n_symbols=100, random_state=0)
        error = np.mean(model.decode(X, lengths) != y)
        assert model.least_error(X, lengths) == pytest.approx(error, abs=0.01)
        assert 0.05 < error < 0.5

    def test_frequencies_are_those_of_the_model(self):
        X, y, lengths, model = make_tagged_sequences(
            5000, n_tags=3, n_symbols=6, symbols_per_row=2, mean_length=10, random_state=0
        )
        counts = np.stack([X[y == tag].sum(axis=0) for tag in range(3)])
        shares = counts / counts.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, model.emission, atol=0.02)
        first = np.cumsum(lengths) - lengths
        np.testing.assert_allclose(np.bincount(y[first]) / 5000, model.start, atol=0.03)
        inner = np.setdiff1d(np.arange(1, len(y)), first)
        steps = np.zeros((3, 3))
        np.add.at(steps, (y[inner - 1], y[inner]), 1)
        np.testing.assert_allclose(
            steps / steps.sum(axis=1, keepdims=True), model.transition, atol=0.03
        )
        np.testing.assert_array_equal(X.sum(axis=1), 2)

    def test_seeds_and_a_given_model(self):
        first = make_tagged_sequences(10, random_state=0)
        again = make_tagged_sequences(10, random_state=0)
        np.testing.assert_array_equal(first[1], again[1])
        other = make_tagged_sequences(10, random_state=1, model=first[3])
        assert other[3] is first[3]
        assert len(other[1]) != len(first[1]) or (other[1] != first[1]).any()

    @pytest.mark.parametrize(
        "wrong",
        [
            {"n_sequences": 0},
            {"n_tags": 1},
            {"symbols_per_row": 1.5},
            {"persistence": 2},
            {"clarity": -1},
            {"mean_length": 0},
            {"model": 3},
        ],
    )
    def test_bad_parameters(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            make_tagged_sequences(**{"n_sequences": 5, **wrong})

    def test_parameters_of_a_new_model_have_no_effect_on_a_given_one(self):
        model = make_tagged_sequences(2, random_state=0)[3]
        assert (
            make_tagged_sequences(2, n_tags=1, clarity=9, random_state=0, model=model)[3] is model
        )

    @pytest.mark.parametrize("lengths", [[3], [0, 20], [1.5], []])
    def test_lengths_that_are_not_those_of_the_rows(self, lengths):
        X, _, _, model = make_tagged_sequences(4, random_state=0)
        for method in (model.posteriors, model.decode, model.least_error):
            with pytest.raises(ValueError, match="lengths"):
                method(X, lengths)
