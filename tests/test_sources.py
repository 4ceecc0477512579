"""Sources: every format yields the rows of `datasets.load`, in blocks, and says what is wrong."""

import array
import bz2
import copy
import gzip
import io
import json
import lzma
import os
import pickle
import threading
import warnings
import zipfile
from datetime import date
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from sublinear import (
    PegasosClassifier,
    PegasosStructured,
    SDCAClassifier,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    StructuredProblem,
    suggest_solver,
)
from sublinear._stream import Stream
from sublinear.datasets import load
from sublinear.distributed._partitions import Partition
from sublinear.sources import (
    ArraySource,
    CSVSource,
    GeneratorSource,
    NpySource,
    NpzSource,
    ParquetSource,
    ReadAhead,
    SvmlightSource,
    _text,
    distinct_labels,
    open_source,
)
from sublinear.sources._read_ahead import SourceAround

COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}


def joined(source):
    """Return all rows of a source (dense), their labels, and the number of blocks."""
    blocks = list(source)
    dense = [X.toarray() if sparse.issparse(X) else np.asarray(X) for X, *_ in blocks]
    return np.vstack(dense), np.concatenate([y for _, y, *_ in blocks]), len(blocks)


def same_twice(source, X, y):
    for _ in range(2):
        rows, labels, n_blocks = joined(source)
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(labels, y)
    return n_blocks


@pytest.fixture
def svmlight(tmp_path, binary):
    X, y = binary
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, 2 * y - 1, str(path), zero_based=False)
    return path


def write_csv(path, X, y, header=""):
    lines = [
        ",".join([*(repr(float(value)) for value in row), str(label)])
        for row, label in zip(X, y, strict=True)
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


# In memory


@pytest.mark.parametrize("block_rows", [1, 7, 200, 1000])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_arrays_come_in_blocks(binary, storage, block_rows):
    X, y = binary
    n_blocks = same_twice(ArraySource(storage(X), y, block_rows=block_rows), X, y)
    assert n_blocks == -(-200 // block_rows)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_blocks_of_arrays_share_their_memory(binary, storage):
    X, y = storage(binary[0]), binary[1]
    values = X.data if sparse.issparse(X) else X
    for block, labels in ArraySource(X, y, block_rows=64):
        assert np.shares_memory(block.data if sparse.issparse(block) else block, values)
        assert np.shares_memory(labels, y)


@pytest.mark.parametrize(
    ("shape", "n_rows"),
    [((10, 5000), 32768), ((10, 32), 65536), ((10, 2), 131072), ((0, 3), 131072)],
)
def test_blocks_of_short_rows_are_longer(shape, n_rows):
    X = np.ones(shape)
    for rows in (X, sparse.csr_array(X)):
        assert ArraySource(rows).block_rows == n_rows
    assert ArraySource(sparse.csr_array(shape)).block_rows == 131072


def test_weights_come_with_their_rows(binary):
    X, y = binary
    weights = np.arange(200.0)
    parts = [part for *_, part in ArraySource(X, y, weights, block_rows=33)]
    np.testing.assert_array_equal(np.concatenate(parts), weights)


def test_columns_of_other_length_are_refused(binary):
    X, y = binary
    with pytest.raises(ValueError, match=r"X has 200 rows, but y is of shape \(199,\)"):
        ArraySource(X, y[1:])
    with pytest.raises(ValueError, match=r"X has 200 rows, but sample_weight is of shape \(3,\)"):
        ArraySource(X, y, [1, 2, 3])
    with pytest.raises(ValueError, match="block_rows must be an integer of at least 1"):
        ArraySource(X, y, block_rows=0)


def test_one_weight_for_all_rows(binary):
    (*_, weights), *_ = ArraySource(*binary, 2.0, block_rows=7)
    assert weights.tolist() == [2.0] * 7


def test_a_generator_function_is_called_for_every_pass(binary):
    X, y = binary
    same_twice(
        GeneratorSource(lambda: ((X[i : i + 9], y[i : i + 9]) for i in range(0, 200, 9))), X, y
    )
    with pytest.raises(TypeError, match="without calling it"):
        GeneratorSource(iter([(X, y)]))


# Svmlight


@pytest.mark.parametrize("ending", COMPRESS)
def test_svmlight_text_is_what_load_reads(tmp_path, svmlight, ending):
    path = tmp_path / f"packed.svm{ending}"
    path.write_bytes(COMPRESS[ending](svmlight.read_bytes()))
    X, y = load(path)
    assert same_twice(open_source(path, block_bytes=1000), X.toarray(), y) > 10
    assert same_twice(SvmlightSource(path, n_features=12, index_base=1), X.toarray(), y) == 1


def test_columns_and_index_base_are_found(tmp_path):
    path = tmp_path / "zero.svm"
    path.write_text("1 1:2\n-1 2:1\n1 0:3\n")
    source = SvmlightSource(path, block_bytes=1)
    assert same_twice(source, [[0, 2, 0], [0, 0, 1], [3, 0, 0]], [1, -1, 1]) == 3
    assert (source.n_features, source.index_base) == (3, 0)
    one_based = SvmlightSource(path, n_features=4, index_base=0)
    assert [X.shape for X, _ in one_based] == [(3, 4)]


def test_comments_blank_lines_and_no_last_line_break(tmp_path):
    path = tmp_path / "odd.svm"
    path.write_text("# all\n\n1 1:2 # first_row\0 1_0\n\n# none_\n-1 2:1")
    assert same_twice(SvmlightSource(path, block_bytes=1), [[2, 0], [0, 1]], [1, -1]) == 2


FAULTS = {
    "x 1:1": "label 'x' is not a finite number",
    "1 1:nan": "not index:value with a finite value",
    "1 one:1": "not index:value with a finite value",
    "1 2:1 1:1": "indices must ascend",
    "1 0:1": "index 0, but the indices were said to start at 1",
    "1 9:1": "index 9 is beyond the 2 features declared",
    "inf 1:1": "label 'inf' is not a finite number",
    "1 1:\u0663": "'1:\u0663' is not index:value",
    "1 \u0661:3": "'\u0661:3' is not index:value",
    "1 qid:1_0 1:1": "'qid:1_0' holds an underscore",
    "1_0 1:1": "label '1_0' is not a finite number",
    "1 0_2:1": "'0_2:1' is not index:value",
    "1 1:1_0": "'1:1_0' is not index:value",
    "1 1:1\0 # 2:5": "'1:1.x00' is not index:value",
    "1\0 1:1": "label '1.x00' is not a finite number",
}


@pytest.mark.parametrize("block_bytes", [1, 2**20])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_malformed_line_is_named_or_counted(tmp_path, fault, block_bytes):
    path = tmp_path / "faulty.svm"
    path.write_text(f"1 1:1\n-1 2:1\n{fault}\n1 1:3 2:4\n{fault}\n")
    options = {"n_features": 2, "index_base": 1, "block_bytes": block_bytes}
    with pytest.raises(ValueError, match=rf"faulty\.svm, line 3: .*{FAULTS[fault]}"):
        list(SvmlightSource(path, **options))
    source = SvmlightSource(path, on_error="skip", **options)
    same_twice(source, [[1, 0], [0, 1], [3, 4]], [1, -1, 1])
    assert source.skipped == 2


def test_the_line_that_is_malformed_is_named_while_columns_are_found(tmp_path):
    path = tmp_path / "faulty.svm"
    path.write_text("1 1:1 3:1\n-1 2:1\n1 1:x\n")
    with pytest.raises(ValueError, match="line 3: '1:x' is not index:value"):
        list(SvmlightSource(path, n_features=3))


@pytest.mark.parametrize(
    "options, found", [({"n_features": 3}, (3, 0)), ({"index_base": 1}, (2, 1)), ({}, (10, 0))]
)
@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_what_is_found_does_not_depend_on_the_blocks(tmp_path, options, found, block_bytes):
    path = tmp_path / "odd.svm"
    path.write_text("1 0:1 9:1\n-1 1:1\n1 2:2\n1 1:x\n")
    source = SvmlightSource(path, on_error="skip", block_bytes=block_bytes, **options)
    source.find_columns()
    assert (source.n_features, source.index_base) == found


@pytest.mark.parametrize("block_bytes", [1, 8, 2**20])
def test_numbers_are_those_of_the_parser_beside_malformed_lines_too(tmp_path, block_bytes):
    path = tmp_path / "odd.svm"
    path.write_text("+10 +1:1e1\n1. 02:2.\n-1 -2:1\n")
    source = SvmlightSource(path, on_error="skip", block_bytes=block_bytes)
    same_twice(source, [[10, 0], [0, 2]], [10, 1])
    assert source.skipped == 1


@pytest.mark.parametrize("block_bytes", [1, 2**20])
@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\x1c", "\x85"])
def test_spaces_that_the_parser_does_not_know_are_malformed(tmp_path, space, block_bytes):
    path = tmp_path / "spaces.svm"
    path.write_bytes(f"1 1:1.5 2:2\n-1 1:0.5{space}2:1\n-1{space} 1:1\n1 2:3\n".encode())
    options = {"n_features": 2, "index_base": 1, "block_bytes": block_bytes}
    source = SvmlightSource(path, on_error="skip", **options)
    same_twice(source, [[1.5, 2], [0, 3]], [1, 1])
    assert source.skipped == 2
    for read in (load, lambda path: list(SvmlightSource(path, **options))):
        with pytest.raises(ValueError, match=r"line 2: '1:0\.5"):
            read(path)


@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_whole_numbers_that_floats_do_not_hold_are_no_labels(tmp_path, block_bytes):
    path = tmp_path / "large.svm"
    options = {"n_features": 1, "block_bytes": block_bytes}
    path.write_text("9007199254740992 1:1\n\n-1e300 1:2\n12345678901234567890123. 1:3\n")
    for X, y in (load(path), joined(SvmlightSource(path, **options))[:2]):
        assert X.shape == (3, 1)
        assert y.tolist() == [2**53, -1e300, 12345678901234567890123.0]
    path.write_text("9007199254740992 1:1\n# no row\n-9007199254740993# 1\n1 1:3\n")
    for read in (load, lambda path: list(SvmlightSource(path, **options))):
        with pytest.raises(ValueError, match="line 3: label '-9007199254740993' is a whole"):
            read(path)
    source = SvmlightSource(path, on_error="skip", **options)
    same_twice(source, [[1], [3]], [2**53, 1])
    assert source.skipped == 1


def test_a_cut_compressed_file_is_an_error(tmp_path, svmlight):
    path = tmp_path / "cut.svm.gz"
    path.write_bytes(gzip.compress(svmlight.read_bytes())[:-200])
    with pytest.raises(ValueError, match=r"cut\.svm\.gz: damaged"):
        list(SvmlightSource(path, n_features=12, index_base=1, block_bytes=100))


@pytest.mark.parametrize("name", ["rows.svm", "rows.svm.gz"])
def test_a_file_that_has_vanished_is_not_called_damaged(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(COMPRESS[path.suffix if path.suffix == ".gz" else ""](b"1 1:1\n-1 1:2\n"))
    source = SvmlightSource(path)
    assert len(list(source)) == 1
    path.unlink()
    with pytest.raises(FileNotFoundError, match="No such file"):
        list(source)


def test_rows_without_entries_have_the_columns_given(tmp_path):
    path = tmp_path / "zeros.svm"
    path.write_text("1\n-1\n")
    same_twice(SvmlightSource(path, n_features=3), np.zeros((2, 3)), [1, -1])
    for index_base in (None, 0, 1):
        with pytest.raises(ValueError, match="no feature columns"):
            list(SvmlightSource(path, index_base=index_base))


@pytest.mark.parametrize("block_bytes", [1, 2**20])
def test_a_byte_order_mark_is_passed_over(tmp_path, block_bytes):
    path = tmp_path / "marked.svm.gz"
    path.write_bytes(gzip.compress("\ufeff1 1:2\n-1 2:3\n".encode()))
    source = SvmlightSource(path, block_bytes=block_bytes, on_error="skip")
    same_twice(source, [[2, 0], [0, 3]], [1, -1])
    assert source.skipped == 0


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_what_no_line_explains_has_path_and_line(tmp_path, on_error, monkeypatch):
    path = tmp_path / "odd.svm"
    path.write_text("1 1:1\nx 1:1\ny 1:nan\n")
    fault = _text.svmlight_line_fault

    def blind(line, *rest):
        return None if line[:1] == b"x" else fault(line, *rest)

    monkeypatch.setattr(_text, "svmlight_line_fault", blind)
    options = {"n_features": 1, "index_base": 1, "on_error": on_error}
    words = "line 3: label 'y'" if on_error == "raise" else "line 1 or later: "
    with pytest.raises(ValueError, match=rf"odd\.svm, {words}"):
        list(SvmlightSource(path, **options))


def test_only_whole_lines_are_parsed(tmp_path, svmlight):
    X, y = load(svmlight)
    for block_bytes in (1, 13, 64, 1023):
        source = SvmlightSource(svmlight, n_features=12, index_base=1, block_bytes=block_bytes)
        same_twice(source, X.toarray(), y)


# CSV


@pytest.mark.parametrize("header", ["", "a,b,c,d,e,f,g,h,i,j,k,l,label\n", "\ufeff"])
@pytest.mark.parametrize("names", [(0, 1), ("no", "yes")])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_csv_is_what_load_reads(tmp_path, binary, header, names, ending):
    X, y = binary
    plain = write_csv(tmp_path / "rows.csv", X, np.array(names)[y], header)
    path = tmp_path / f"packed.csv{ending}"
    path.write_bytes(COMPRESS[ending](plain.read_bytes()))
    rows, labels = load(path)
    assert same_twice(open_source(path, block_bytes=500), rows, labels) > 3
    assert set(labels) == set(names)


def test_csv_label_columns(tmp_path):
    path = tmp_path / "columns.csv"
    path.write_text("first,label,last\n1,5,2\n3,6,4\n")
    for column in ("label", 1, -2):
        same_twice(CSVSource(path, label_column=column), [[1, 2], [3, 4]], [5, 6])
    same_twice(CSVSource(path, label_column="first"), [[5, 2], [6, 4]], [1, 3])
    with pytest.raises(ValueError, match="no column named 'missing'"):
        CSVSource(path, label_column="missing")
    with pytest.raises(ValueError, match="label column 3, but there are 3 columns"):
        CSVSource(path, label_column=3)
    with pytest.raises(ValueError, match=r"label_column must be .*, got 1\.0"):
        CSVSource(path, label_column=1.0)
    source = CSVSource(path, label_column=None)
    assert [(X.tolist(), y) for X, y in source] == [([[1, 5, 2], [3, 6, 4]], None)]
    with pytest.raises(ValueError, match=r"block 1 of the source \(.*\): no labels"):
        SDCAClassifier().fit_stream(source)
    with pytest.raises(ValueError, match="no labels"):
        distinct_labels(source)


def test_a_header_whose_label_alone_is_text(tmp_path):
    path = tmp_path / "years.csv"
    path.write_text("2001,2002,label\n1,2,0\n3,4,1\n")
    same_twice(CSVSource(path), [[1, 2], [3, 4]], [0, 1])
    same_twice(CSVSource(path, header=True), [[1, 2], [3, 4]], [0, 1])


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("block_bytes", [1, 2**21])
def test_lines_that_end_twice(on_error, block_bytes, tmp_path):
    path = tmp_path / "twice.csv"
    path.write_bytes(b"1,2,0\r\n3,4,1\r\r\n\r\r\n5,6,1\n")
    source = CSVSource(path, on_error=on_error, block_bytes=block_bytes)
    X, y = (np.concatenate(parts) for parts in zip(*source, strict=True))
    np.testing.assert_array_equal(X, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(y, [0, 1, 1])
    assert source.skipped == 0
    np.testing.assert_array_equal(load(path)[0], X)


@pytest.mark.parametrize("label", ["NA", "nan", "", "?", "None"])
def test_a_first_row_without_label_is_no_header(tmp_path, label):
    path = tmp_path / "gap.csv"
    path.write_text(f"\n1,2,{label}\n3,4,1\n5,6,0\n")
    for read in (load, lambda path: list(CSVSource(path))):
        with pytest.raises(ValueError, match=r"gap\.csv, line 2: column 3, the label"):
            read(path)
    source = CSVSource(path, on_error="skip")
    same_twice(source, [[3, 4], [5, 6]], [1, 0])
    assert source.skipped == 1


@pytest.mark.parametrize("value", ["NA", "nan", ""])
def test_a_first_row_without_a_feature_is_no_header(tmp_path, value):
    path = tmp_path / "gap.csv"
    path.write_text(f"1,{value},0\n3,4,1\n")
    for read in (load, lambda path: list(CSVSource(path))):
        with pytest.raises(ValueError, match=r"gap\.csv, line 1: column 2: '.*' is not a finite"):
            read(path)
    same_twice(CSVSource(path, on_error="skip"), [[3, 4]], [1])


@pytest.mark.parametrize("read", [load, lambda path: next(iter(CSVSource(path)))])
def test_what_a_header_and_a_label_is(tmp_path, read):
    path = tmp_path / "rows.csv"
    for text, X, y in (
        (",na,y\n1,2,0\n", [[1, 2]], [0]),
        (",a,\n1,2,0\n", [[1, 2]], [0]),
        ("1,2,NA\n3,4,EU\n", [[1, 2], [3, 4]], ["NA", "EU"]),
        ("1,2,none\n3,4,some\n", [[1, 2], [3, 4]], ["none", "some"]),
        ("1,2,a\n3,4,b\n", [[1, 2], [3, 4]], ["a", "b"]),
        ("1,2,a\n", [[1, 2]], ["a"]),
        ("a,b,y\n1,2,NA\n3,4,EU\n", [[1, 2], [3, 4]], ["NA", "EU"]),
    ):
        path.write_text(text)
        found, labels = read(path)
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("mark", ["", "?", "-", "NA", "#N/A", "<NA>", "null"])
def test_a_value_that_is_missing_is_no_name_of_a_column(tmp_path, mark):
    path = tmp_path / "rows.csv"
    path.write_text(f"1,{mark},0\n3,4,1\n5,6,0\n")
    for read in (load, lambda path: list(CSVSource(path))):
        with pytest.raises(ValueError, match="line 1: column 2"):
            read(path)


@pytest.mark.parametrize("block_bytes", [1, 2**20])
@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\x1c", "\x85"])
def test_spaces_beside_numbers_do_not_matter(tmp_path, space, block_bytes):
    path = tmp_path / "spaces.csv"
    path.write_bytes((f"1{space},{space}2,a\n" * 3 + "3,4,b\noops\n5,6,a\n").encode())
    source = CSVSource(path, on_error="skip", block_bytes=block_bytes)
    same_twice(source, [[1, 2]] * 3 + [[3, 4], [5, 6]], ["a", "a", "a", "b", "a"])
    assert source.skipped == 1
    for read in (load, lambda path: list(CSVSource(path, block_bytes=block_bytes))):
        with pytest.raises(ValueError, match="line 5: expected 3 columns"):
            read(path)


@pytest.mark.parametrize("read", [load, lambda path, **more: next(iter(CSVSource(path, **more)))])
@pytest.mark.parametrize("label_column", ["first", "last"])
def test_a_first_line_of_places_may_be_a_header(tmp_path, read, label_column):
    path = tmp_path / "frame.csv"
    rows = [["0", "1", "2"], ["5", "6", "7"], ["3", "4", "5"]]
    for fields, label in zip(rows, ["kind", "a", "b"], strict=True):
        fields.insert(0 if label_column == "first" else 3, label)
    path.write_text("\n".join(map(",".join, rows)))
    options = {"label_column": label_column}
    with pytest.warns(UserWarning, match="line 1 looks like the names 0, 1, .. of columns"):
        assert read(path, **options)[1].tolist() == ["kind", "a", "b"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, header=True, **options)[1].tolist() == ["a", "b"]
        assert read(path, header=False, **options)[1].tolist() == ["kind", "a", "b"]


@pytest.mark.parametrize("read", [load, lambda path, **more: next(iter(CSVSource(path, **more)))])
@pytest.mark.parametrize("label_column", ["first", "last"])
@pytest.mark.parametrize("labels", [("a", "b"), ("1", "7")])
def test_places_may_name_the_label_too(tmp_path, read, label_column, labels):
    path = tmp_path / "frame.csv"
    rows = [["5", "6"], ["3", "4"]]
    for fields, label in zip(rows, labels, strict=True):
        fields.insert(0 if label_column == "first" else 2, label)
    path.write_text("\n".join(map(",".join, [["0", "1", "2"], *rows])))
    options = {"label_column": label_column, "text_labels": True}
    with pytest.warns(UserWarning, match="line 1 looks like the names 0, 1, .. of columns"):
        assert len(read(path, **options)[1]) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, header=True, **options)[1].tolist() == list(labels)


def test_labels_that_belie_a_header_are_an_error(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("1,2,x\n3,4,1\n5,6,x\n")
    for read in (load, lambda path: list(CSVSource(path))):
        with pytest.raises(ValueError, match=r"line 3: column 3, the label: 'x' is not a finite"):
            read(path)
    assert load(path, header=False)[1].tolist() == ["x", "1", "x"]


def test_a_first_row_that_is_short(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("a,b,y\n1,2\n3,4,yes\n5,6,no\n")
    with pytest.raises(ValueError, match=r"r\.csv, line 2: expected 3 columns, found 2"):
        list(CSVSource(path))
    source = CSVSource(path, on_error="skip")
    same_twice(source, [[3, 4], [5, 6]], ["yes", "no"])
    assert source.skipped == 1
    path.write_text("a,b,y\n1,2\n")
    source = CSVSource(path, on_error="skip")
    assert list(source) == [] and source.skipped == 1


def all_malformed(path, n_lines):
    """A source that leaves out all lines of a file, and the beginning of why it is empty."""
    if path.suffix == ".csv":
        path.write_text("a,b,y\n" + "1,x,0\n" * n_lines)
        return CSVSource(path, on_error="skip"), "line 2: column 2 .*'x' is not a finite"
    path.write_text("# nothing\n" + "1 2:x\n" * n_lines)
    return SvmlightSource(path, on_error="skip"), "line 2: "


@pytest.mark.parametrize("around", [lambda source: source, ReadAhead])
@pytest.mark.parametrize("name", ["bad.csv", "bad.svm"])
def test_a_source_that_leaves_out_all_lines_says_so(tmp_path, name, around):
    source, first = all_malformed(tmp_path / name, 2)
    model = SDCAClassifier()
    for read in (distinct_labels, model.fit_stream, suggest_solver):
        with pytest.raises(
            ValueError,
            match=rf"{name}: all 2 lines are malformed and were left out; the first is {first}",
        ):
            read(around(source))
    source, first = all_malformed(tmp_path / name, 1)
    with pytest.raises(
        ValueError, match=rf"{name}: the only line of data is malformed and was left out: {first}"
    ):
        model.fit_stream(around(source))


def test_a_source_with_a_sound_line_or_none_does_not_say_that_all_were_left_out(tmp_path):
    source, _ = all_malformed(tmp_path / "rows.csv", 2)
    with pytest.raises(ValueError, match="all 2 lines"):
        distinct_labels(source)
    (tmp_path / "rows.csv").write_text("a,b,y\n1,x,0\n1,2,0\n")
    assert distinct_labels(source).tolist() == [0] and source.why_empty is None
    (tmp_path / "rows.csv").write_text("a,b,y\n")
    with pytest.raises(ValueError, match=r"rows\.csv: the file holds no rows"):
        distinct_labels(source)


CSV_FAULTS = {
    "1,2": "expected 3 columns, found 2",
    "1,2,3,4": "expected 3 columns, found 4",
    "1,x,0": r"column 2 \('b'\): 'x' is not a finite number",
    "1,nan,0": r"column 2 \('b'\): 'nan' is not a finite number",
    "1,2,": "the label, is empty",
    "1,2,red": r"label: 'red' is not a finite number; text_labels=True \(--text-labels\)",
}


@pytest.mark.parametrize("block_bytes", [1, 2**20])
@pytest.mark.parametrize("fault", CSV_FAULTS)
def test_a_malformed_csv_line_is_named_or_counted(tmp_path, fault, block_bytes):
    path = tmp_path / "faulty.csv"
    path.write_text(f"a,b,y\n1,2,0\n\n{fault}\n3,4,1\n")
    with pytest.raises(ValueError, match=rf"faulty\.csv, line 4: .*{CSV_FAULTS[fault]}"):
        list(CSVSource(path, block_bytes=block_bytes))
    source = CSVSource(path, block_bytes=block_bytes, on_error="skip")
    same_twice(source, [[1, 2], [3, 4]], [0, 1])
    assert source.skipped == 1


# Arrays on disk


@pytest.mark.parametrize("block_bytes", [1, 4, 2**20])
def test_a_csv_line_of_blanks_is_malformed_in_a_block_of_its_own_too(tmp_path, block_bytes):
    path = tmp_path / "blank.csv"
    path.write_text("1,0\n2,1\n \n\n3,1\n")
    with pytest.raises(ValueError, match="line 3: expected 2 columns, found 1"):
        list(CSVSource(path, block_bytes=block_bytes))
    source = CSVSource(path, on_error="skip", block_bytes=block_bytes)
    same_twice(source, [[1], [2], [3]], [0, 1, 1])
    assert source.skipped == 1


@pytest.mark.parametrize("text", ["a,b,y\r1,2,0\r3,4,1\r", "1,2,0\r3,4,1\r", "a,b,y\r1,2,0\n"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_csv_lines_that_end_with_carriage_returns_alone(tmp_path, text, on_error):
    path = tmp_path / "old.csv"
    path.write_bytes(text.encode())
    with pytest.raises(
        ValueError, match=r"old\.csv: lines end with CR alone, or with CR CR LF: convert"
    ):
        CSVSource(path, on_error=on_error)
    path.write_bytes(text.replace("\r", "\r\n").encode())
    assert sum(len(y) for _, y in CSVSource(path)) == text.count("\r") - ("a" in text) + (
        "\n" in text
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_npy_blocks_are_memory_maps(tmp_path, binary, order, dtype):
    X, y = np.asarray(100 * binary[0], dtype=dtype, order=order), binary[1]
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    source = NpySource(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=30)
    assert same_twice(source, X, y) == 7
    assert same_twice(open_source(tmp_path / "X.npy", labels=y), X, y) == 1
    for block, _ in source:
        assert block.dtype == dtype
        assert isinstance(block, np.memmap) or order == "F"


def test_npy_files_have_as_many_rows_in_a_block_where_none_are_given(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((10_000, 2)))
    blocks = (list(NpySource(tmp_path / "X.npy", **given)) for given in ({}, {"block_rows": None}))
    assert [[len(X) for X, _ in found] for found in blocks] == [[8192, 1808]] * 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_are_mapped_again_where_a_source_is_unpickled(tmp_path, order):
    X, y, weights = np.ones((500, 40), order=order), np.arange(500), np.full(500, 2.0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    pickled = pickle.dumps(NpySource(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=30))
    assert len(pickled) < 1000
    assert same_twice(pickle.loads(pickled), X, y) == 17
    source = copy.deepcopy(NpySource(str(tmp_path / "X.npy"), y, weights))
    assert [part.tolist() for part in next(iter(source))[1:]] == [y.tolist(), weights.tolist()]


@pytest.mark.parametrize("block_rows", [None, 15])
def test_shards_are_read_in_the_order_of_their_names(tmp_path, binary, block_rows):
    X, y = binary
    S = sparse.csr_array(X)
    for k, start in enumerate(range(0, 200, 40)):
        part, labels = S[start : start + 40], y[start : start + 40]
        names = ("data", "indices", "indptr", "shape")
        np.savez(tmp_path / f"{k}.npz", y=labels, **{name: getattr(part, name) for name in names})
    (tmp_path / "notes.txt").write_text("no shard")
    assert same_twice(NpzSource(tmp_path, block_rows=block_rows), X, y) == (15 if block_rows else 5)
    shards = sorted(tmp_path.glob("*.npz"))
    assert same_twice(open_source(shards[:2]), X[:80], y[:80]) == 2
    assert same_twice(open_source(tmp_path), X, y) == 5


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_files_without_labels_are_for_prediction(tmp_path, binary, form):
    path = tmp_path / f"x.{form}"
    if form == "npy":
        np.save(path, binary[0])
    else:
        np.savez(path, X=binary[0])
    source = open_source(path)
    assert np.array_equal(np.vstack([X for X, _ in source]), binary[0])
    assert all(y is None for _, y in source)
    with pytest.raises(ValueError, match="no labels"):
        distinct_labels(source)
    with pytest.raises(ValueError, match=r"block 1 of the source \(.*\): no labels"):
        StreamingSVRGRegressor().fit_stream(source)


def test_missing_shards_and_files(tmp_path):
    with pytest.raises(ValueError, match="no files to read"):
        NpzSource(tmp_path)
    with pytest.raises(FileNotFoundError, match="missing"):
        open_source(tmp_path / "missing.svm")
    with pytest.raises(ValueError, match="format must be one of"):
        open_source(tmp_path / "x.npz", format="hdf5")


@pytest.mark.parametrize("names", [(0, 1), ("no", "yes")])
def test_parquet_columns(tmp_path, binary, names):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = binary
    labels = np.array(names)[y]
    columns = {f"x{j}": X[:, j] for j in range(12)} | {"label": labels}
    table = pyarrow.table(columns)
    parquet.write_table(table.slice(0, 150), tmp_path / "0.parquet")
    parquet.write_table(table.slice(150), tmp_path / "1.parquet")
    assert same_twice(ParquetSource(tmp_path, block_rows=70), X, labels) >= 4
    source = open_source(tmp_path / "1.parquet", label_column="x0")
    if names == (0, 1):
        same_twice(source, np.column_stack([X[150:, 1:], y[150:]]), X[150:, 0])
    else:
        with pytest.raises(ValueError, match="column 'label' does not hold numbers"):
            list(source)
    with pytest.raises(ValueError, match=r"named 'x'; the columns are 'x0', .* and 3 more$"):
        list(open_source(tmp_path / "1.parquet", label_column="x"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(ValueError, match="not a Parquet file"):
        list(ParquetSource(tmp_path / "bad.parquet"))


@pytest.mark.parametrize("use_threads", [False, True])
def test_parquet_files_are_not_kept_in_memory(tmp_path, use_threads):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({f"x{j}": np.random.default_rng(j).random(80_000) for j in range(10)})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=2000)
    source = ParquetSource(tmp_path / "rows.parquet", block_rows=500, use_threads=use_threads)
    size = table.nbytes
    del table
    before = pyarrow.total_allocated_bytes()
    assert max(pyarrow.total_allocated_bytes() - before for _ in source) < size / 8


@pytest.mark.parametrize(
    ("index", "features"), [("unnamed", ["x"]), ({"kind": "range"}, ["x", "label"])]
)
def test_the_index_of_a_data_frame_is_no_column(tmp_path, index, features):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"x": [1.0, 2.0], "label": [5, 6], "unnamed": [3, 7]})
    metadata = {"pandas": json.dumps({"index_columns": [index]})}
    parquet.write_table(table.replace_schema_metadata(metadata), tmp_path / "frame.parquet")
    source = ParquetSource(tmp_path / "frame.parquet")
    assert source.feature_names == features
    X, y = ([[1], [2]], [5, 6]) if features == ["x"] else ([[1, 5], [2, 6]], [3, 7])
    same_twice(source, X, y)


@pytest.fixture
def parquet_of(tmp_path):
    """A function that writes a Parquet file with these columns and returns its source."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(**columns):
        parquet.write_table(pyarrow.table(columns), tmp_path / "types.parquet")
        return ParquetSource(tmp_path / "types.parquet")

    return write


def test_decimals_are_numbers(parquet_of):
    x, y = [Decimal("1.25"), Decimal("-3.00")], [Decimal("10.50"), Decimal("0.25")]
    source = parquet_of(x=x, z=[1, 2], y=y)
    same_twice(source, [[1.25, 1], [-3, 2]], [10.5, 0.25])
    assert next(iter(source))[1].dtype == np.float64


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["no", "yes"], "string"),
        (["no", "yes"], "large_string"),
        ([b"no", b"yes"], "binary"),
        ([True, False], "bool"),
        ([3, 1], "uint8"),
        ([0.5, 1.5], "float"),
    ],
)
@pytest.mark.parametrize("category", [False, True])
def test_types_of_parquet_labels(parquet_of, labels, kind, category):
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.array(labels, kind)
    if category and kind != "bool":
        column = column.dictionary_encode()
    expected = ["no", "yes"] if kind in ("string", "large_string", "binary") else labels
    same_twice(parquet_of(x=[1.0, 2.0], y=column), [[1], [2]], expected)


def test_parquet_labels_with_a_nul(parquet_of):
    """NumPy would take them for those without."""
    with pytest.raises(ValueError, match="column 'y' has a label with a NUL"):
        list(parquet_of(x=[1.0, 2.0], y=["a", "a\0"]))


@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_parquet_labels_that_are_views_of_text(parquet_of, kind):
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.array([b"no", b"yes"], getattr(pyarrow, kind)())
    try:
        source = parquet_of(x=[1.0, 2.0], y=column)
    except pyarrow.ArrowNotImplementedError:
        pytest.skip(f"this pyarrow writes no {kind}")
    same_twice(source, [[1], [2]], ["no", "yes"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"x": [1, 2], "y": [date(2026, 1, 1)] * 2},
            "'y' does not hold numbers or text: .* date32",
        ),
        ({"x": [1, 2], "y": [[1], [2]]}, "'y' does not hold numbers or text: .* list<"),
        ({"x": [1, 2], "y": ["a", None]}, "column 'y' has rows without a label"),
        ({"x": [1, 2], "y": [None, None]}, "column 'y' has rows without a label"),
        ({"x": [True, None], "y": [1, 2]}, "'x' has rows without a value, and is of type bool"),
        ({"x": [None, None], "y": [1, 2]}, "'x' has rows without a value, and is of type null"),
        ({"x": ["1", "2"], "y": [1, 2]}, "'x' does not hold numbers: it is of type string"),
        ({"x": [date(2026, 1, 1)] * 2, "y": [1, 2]}, "'x' does not hold numbers: .* date32"),
        ({"y": [1, 2]}, "the file holds no feature columns"),
    ],
)
def test_parquet_columns_that_are_refused(parquet_of, columns, message):
    with pytest.raises(ValueError, match=rf"types\.parquet: .*{message}"):
        list(parquet_of(**columns))


def test_parquet_weights(parquet_of):
    path = parquet_of(x=[1, 2, 3], w=[0.5, 0, 2], z=[4, 5, 6], y=["a", "b", "a"]).paths[0]
    for column in ("w", 1, -3):
        source = open_source(path, weight_column=column, block_rows=2)
        assert source.feature_names == ["x", "z"]
        blocks = [(X.tolist(), y.tolist(), weights.tolist()) for X, y, weights in source]
        assert blocks == [([[1, 4], [2, 5]], ["a", "b"], [0.5, 0]), ([[3, 6]], ["a"], [2])]
    path = parquet_of(x=[1, 2, 3], w=[0.5, 0, 2]).paths[0]
    ((_, y, weights),) = ParquetSource(path, label_column=None, weight_column="w")
    assert y is None and weights.tolist() == [0.5, 0, 2]


@pytest.mark.parametrize("unfit", [-1.0, np.inf, np.nan, None])
def test_unfit_parquet_weights_are_named(parquet_of, unfit):
    path = parquet_of(x=[1, 2, 3, 4], w=[1, 2, 3, unfit], y=[0, 1, 0, 1]).paths[0]
    found = rf"types\.parquet: column 'w' has a weight .*, {unfit or np.nan} in row 3 "
    with pytest.raises(ValueError, match=found):
        list(ParquetSource(path, weight_column="w", block_rows=2))


def test_unfit_parquet_weight_columns(parquet_of):
    path = parquet_of(w=[1, 2], y=[0, 1]).paths[0]
    for column, words in (
        ("v", "no column named 'v'"),
        ("y", "would hold the labels and the weights"),
        ("w", "no feature columns"),
    ):
        with pytest.raises(ValueError, match=words):
            list(ParquetSource(path, weight_column=column))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fits_take_the_weights_of_a_table(tmp_path, binary, kind):
    X, y = binary
    weights = np.random.default_rng(0).integers(0, 4, y.size)
    if kind == "csv":
        path = write_csv(tmp_path / "rows.csv", np.column_stack([weights, X]), y)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {"w": weights} | {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
        parquet.write_table(pyarrow.table(columns), path := tmp_path / "rows.parquet")
    model = SDCAClassifier(alpha=0.1, random_state=0)
    coef = model.fit_stream(open_source(path, weight_column=0)).coef_
    np.testing.assert_array_equal(model.fit_stream([(X, y, weights)]).coef_, coef)
    assert not np.array_equal(model.fit_stream([(X, y)]).coef_, coef)


def test_missing_numbers_in_parquet_are_not_finite(parquet_of):
    source = parquet_of(x=[1, None], y=[1, 2])
    np.testing.assert_array_equal(next(iter(source))[0], [[1], [np.nan]])
    with pytest.raises(ValueError, match="NaN"):
        SDCAClassifier().fit_stream(source)


def test_parquet_threads_are_a_choice(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"x": [1.0], "y": [1]}), tmp_path / "a.parquet")
    assert ParquetSource(tmp_path / "a.parquet").use_threads in (True, False)
    with pytest.raises(ValueError, match="use_threads must be True or False"):
        ParquetSource(tmp_path / "a.parquet", use_threads=2)


# Labels, and reading ahead


def test_distinct_labels(binary, svmlight):
    assert distinct_labels(SvmlightSource(svmlight)).tolist() == [-1, 1]
    assert distinct_labels(SvmlightSource(svmlight)).dtype == np.int64
    words = [([[1.0]], ["b"]), ([[1.0], [2.0]], ["c", "a"])]
    assert distinct_labels(words).tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="empty"):
        distinct_labels([])


class InTwoSteps:
    """A source whose blocks are made of something else."""

    def __init__(self, X, y):
        self.whole = ArraySource(X, y, block_rows=11)
        self.readers, self.makers = set(), set()

    def raw_blocks(self):
        for block in self.whole:
            self.readers.add(threading.current_thread())
            yield [block]

    def block_of(self, raw):
        self.makers.add(threading.current_thread())
        if raw is None:
            raise ValueError("no block")
        return raw[0]


def test_blocks_are_made_of_what_is_read_when_their_turn_comes(binary):
    source = InTwoSteps(*binary)
    same_twice(ReadAhead(source), *binary)
    assert len(source.readers) == 2  # one in every pass
    assert threading.current_thread() not in source.readers
    assert source.makers == {threading.current_thread()}
    source.raw_blocks = lambda: iter([None])
    with pytest.raises(ValueError, match="no block"):
        list(ReadAhead(source))
    assert not any(thread.is_alive() for thread in source.readers)


def test_columns_are_found_where_an_interrupt_is_heard(tmp_path, binary, monkeypatch):
    """Python raises KeyboardInterrupt in the main thread, and nothing would end the pass."""
    dump_svmlight_file(*binary, str(tmp_path / "data.svm"))
    finders = []
    find = SvmlightSource.find_columns

    def noted(self):
        finders.append(threading.current_thread())
        find(self)

    monkeypatch.setattr(SvmlightSource, "find_columns", noted)
    assert len(list(ReadAhead(SvmlightSource(tmp_path / "data.svm")))) == 1
    assert finders == [threading.current_thread()]


def test_a_source_is_begun_by_the_thread_that_reads_it(binary):
    """A connection to a database, for one, belongs to the thread that opened it."""
    threads = []

    class Source:
        def __iter__(self):
            threads.append(threading.current_thread())
            return self

        def __next__(self):
            threads.append(threading.current_thread())
            if len(threads) > 2:
                raise StopIteration
            return binary

    assert len(list(ReadAhead(Source()))) == 1
    assert len(set(threads)) == 1 and threads[0] is not threading.current_thread()


def test_reading_ahead_changes_nothing_and_reads_ahead(binary):
    X, y = binary
    same_twice(ReadAhead(ArraySource(X, y, block_rows=11)), X, y)
    read = []
    asked = threading.Event()

    def blocks():
        for k in range(10):
            read.append(k)
            if len(read) == 4:
                asked.set()
            yield k

    reader = iter(ReadAhead(blocks(), 2))
    assert next(reader) == 0
    assert asked.wait(10)  # one is used, two wait, the fourth is in the reader's hand
    assert len(read) == 4
    assert list(reader) == list(range(1, 10))


class OfOneself:
    """A source as users write it: every pass is a new generator."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        yield from self.blocks()


class OfArrays(ArraySource):
    """A source of this package whose blocks are made by the user."""

    def __init__(self, blocks):
        super().__init__(np.zeros((1, 1)))
        self.own = blocks

    def __iter__(self):
        return self.own()


REFILLED = {
    "generator": lambda blocks: blocks(),
    "function": GeneratorSource,
    "class": OfOneself,
    "subclass": OfArrays,
    "map": lambda blocks: map(tuple, OfOneself(blocks)),
    "read ahead": lambda blocks: ReadAhead(OfOneself(blocks)),
}


def refilled(X, y, storage=np.asarray):
    """Return a generator function that fills the same arrays with blocks of ten rows."""

    def blocks():
        rows, labels = storage(np.ones_like(X[:10])), np.empty_like(y[:10])
        values = rows.data if sparse.issparse(rows) else rows
        for start in range(0, len(y), 10):
            values.flat[:] = X[start : start + 10].flat
            labels[:] = y[start : start + 10]
            yield rows, labels

    return blocks


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", REFILLED)
def test_a_source_may_fill_its_arrays_again(binary, storage, kind):
    X, y = binary
    source = REFILLED[kind](refilled(X, y, storage))
    rows, labels, _ = joined(ReadAhead(source))
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("kind", REFILLED)
def test_partitions_keep_blocks_of_arrays_that_are_filled_again(binary, kind):
    X, y = binary
    kept = Partition(0, REFILLED[kind](refilled(X, y)), False).blocks
    np.testing.assert_array_equal(np.vstack([block.X for block in kept]), X)


@pytest.mark.parametrize("kind", ["function", "class", "read ahead"])
def test_fits_of_a_source_that_fills_its_arrays_again(binary, kind):
    X, y = binary
    model = SDCAClassifier(alpha=0.01, random_state=0)
    expected = clone(model).fit_stream(ArraySource(X, y, block_rows=10)).coef_
    source = REFILLED[kind](refilled(X, y))
    np.testing.assert_array_equal(clone(model).fit_stream(source).coef_, expected)


@pytest.mark.parametrize("kind", [list, tuple, lambda blocks: OfOneself(blocks.__iter__)])
def test_blocks_that_are_held_elsewhere(binary, kind):
    blocks = [binary, binary]
    (X, y), _ = ReadAhead(kind(blocks))
    assert (X is binary[0] and y is binary[1]) == (kind in (list, tuple))


def test_copies_of_a_generator_s_blocks_have_their_form(binary):
    X, y = (part.copy() for part in binary)
    for block in ((X, y), [X, y], X, [[1.0, 2.0], [3.0, 4.0]], ([X, X[:3]], [y, y[:3]])):
        (copied,) = ReadAhead(iter([block]))
        assert type(copied) is type(block) and len(copied) == len(block)
        assert copied is not block
    assert copied[0][1] is not block[0][1]
    np.testing.assert_array_equal(copied[0][1], X[:3])


def test_what_is_read_ahead_of_files_and_memory_maps_is_no_copy(tmp_path, binary):
    X, y = binary
    np.save(tmp_path / "X.npy", X)
    for block in ReadAhead(NpySource(tmp_path / "X.npy", y)):
        assert isinstance(block[0], np.memmap)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    (block,) = ReadAhead(iter([(mapped, y)]))
    assert block[0] is mapped and block[1] is not y


def test_reading_ahead_hides_neither_names_nor_lines_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n1,2,0\nx,2,1\n3,4,1\n")
    source = ReadAhead(CSVSource(path, on_error="skip"))
    assert sum(len(y) for _, y in source) == 2 and source.skipped == 1
    assert source.feature_names == ["a", "b"]
    assert ReadAhead([]).feature_names is None and ReadAhead([]).skipped == 0


@pytest.mark.parametrize("read_ahead", [0, 1])
@pytest.mark.parametrize("around", [lambda source: source, SourceAround])
def test_passes_of_two_fits_over_one_source_count_their_own_lines(tmp_path, around, read_ahead):
    path = tmp_path / "data.csv"
    path.write_text("0,1\n" + "x,1\n2,1\n" * 9)
    source = CSVSource(path, header=False, on_error="skip", block_bytes=8)
    streams = [Stream(around(source), y_numeric=True, read_ahead=read_ahead) for _ in range(2)]
    first, second = map(iter, streams)
    next(first), next(second)
    assert len(list(first)) > 2
    next(iter(source))
    assert streams[0].summary.rows == 10 and streams[0].summary.skipped == 9
    list(second)
    assert streams[1].summary == streams[0].summary


@pytest.mark.parametrize("read_ahead", [0, 2])
def test_a_pass_without_rows_says_why_whoever_begins_another(tmp_path, read_ahead):
    path = tmp_path / "data.svm"
    path.write_text("bad\n")
    source = SvmlightSource(path, n_features=1, index_base=1, on_error="skip")
    stream = Stream(source, y_numeric=True, read_ahead=read_ahead)
    blocks = iter(stream)
    with pytest.raises(ValueError, match="the only line of data is malformed"):
        next(blocks)
    iter(source)
    assert "only line" in stream.reading.why_empty and source.why_empty is None


def test_an_error_of_the_source_reaches_the_reader():
    def blocks():
        yield 1
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        for block in ReadAhead(blocks()):
            seen.append(block)
    assert seen == [1]


def test_the_thread_ends_with_the_reader():
    def endless():
        while True:
            yield 0

    reader = iter(ReadAhead(endless()))
    next(reader)
    reader.close()
    assert not [t for t in threading.enumerate() if t.name == "sublinear-reader"]


@pytest.mark.parametrize("has_begun", [True, False])
def test_an_interrupt_while_the_thread_is_being_started(monkeypatch, has_begun):
    start, readers = threading.Thread.start, []

    def interrupted(self):
        if has_begun:
            start(self)
            readers.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(ReadAhead([0] * 9)))
    monkeypatch.undo()
    assert len(readers) == has_begun and not any(reader.is_alive() for reader in readers)


@pytest.mark.parametrize(
    "X",
    [
        np.eye(3, 5),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(6, dtype=">i2").reshape(3, 2),
        np.eye(3, dtype=np.float32),
    ],
    ids=["C", "F", "byte order", "float32"],
)
def test_shards_of_any_layout(tmp_path, X):
    y = np.array(["no", "yes", "no"])
    np.savez(tmp_path / "a.npz", X=X, y=y)
    ((found, labels),) = NpzSource(tmp_path / "a.npz")
    assert found.dtype == X.dtype and found.flags.f_contiguous == X.flags.f_contiguous
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)


def test_unsorted_shards_are_fitted(tmp_path):
    parts = {"data": np.arange(1.0, 9), "indices": np.array([1, 0] * 4), "indptr": [0, 2, 4, 6, 8]}
    np.savez(tmp_path / "a.npz", **parts, shape=(4, 2), y=[0, 1, 0, 1])
    source = NpzSource(tmp_path / "a.npz")
    dense = [(X.toarray(), y) for X, y in source]
    for kind in (StreamingSVRGClassifier, SDCAClassifier):
        models = [kind(alpha=1.0).set_params(random_state=0) for _ in range(2)]
        models[0].fit_stream(source, classes=[0, 1])
        models[1].fit_stream(dense, classes=[0, 1])
        np.testing.assert_allclose(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("place", range(46))
def test_a_flipped_bit_in_the_directory_of_a_shard(tmp_path, place):
    """zipfile has several kinds of errors for it."""
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(2), y=[0, 1])
    sound = path.read_bytes()
    for bit in range(8):
        data = bytearray(sound)
        data[sound.index(b"PK\1\2") + place] ^= 1 << bit
        path.write_bytes(data)
        try:
            assert len(list(NpzSource(path))) == 1
        except ValueError as error:
            assert "a.npz" in str(error)


def test_a_flipped_bit_in_the_header_of_an_array(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.eye(2))
    path.write_bytes(path.read_bytes().replace(b"<f8", b",f8"))
    with pytest.raises(ValueError, match=r"x\.npy: damaged or not an array file"):
        list(NpySource(path))


@pytest.mark.parametrize("name", ["X", "X.npy"])
def test_shards_of_something_else(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(name, b"no array")
    with pytest.raises(ValueError, match=r"a\.npz, array 'X': damaged or not an array file"):
        list(NpzSource(tmp_path / "a.npz"))


@pytest.mark.parametrize("name", ["X.npy", "X.npz"])
@pytest.mark.parametrize("kind", ["<U0", "<f8"])
def test_arrays_larger_than_their_file_are_refused(tmp_path, name, kind):
    content = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": (2 * 10**15,)}
    np.lib.format.write_array_header_1_0(content, header)
    (tmp_path / "X.npy").write_bytes(content.getvalue())
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.write(tmp_path / "X.npy", "X.npy")
    with pytest.raises(ValueError, match="no room for an array"):
        load(tmp_path / name)
    with pytest.raises(ValueError, match="no room for an array"):
        NpySource(tmp_path / "X.npy")


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "shown",
    [
        lambda values: read_only(values.view()),
        lambda values: np.lib.stride_tricks.sliding_window_view(values, 5),
        memoryview,
        lambda values: array.array("d", values),
        lambda values: (values, values),
        lambda values: [read_only(values[:2]), read_only(values[2:])],
    ],
    ids=["view", "windows", "memoryview", "array", "tuple", "list"],
)
def test_what_shows_memory_that_is_filled_again_is_copied(shown):
    values = np.zeros(10)
    part = shown(values)

    def blocks():
        for k in range(4):
            values[:] = k
            if isinstance(part, array.array):
                part[:] = array.array("d", values)
            yield part, k

    for X, k in ReadAhead(blocks(), blocks=4):
        for one in X if isinstance(X, list | tuple) else [X]:
            assert (np.asarray(one) == k).all()


def test_what_nobody_can_fill_is_no_copy():
    rows = read_only(np.array([[0.0, 1.0], [2.0, 3.0]]))
    bits = np.frombuffer(bytes(16))
    ((first, second),) = ReadAhead(iter([(rows[1:], bits)]))
    assert first.base is rows and second is bits


@pytest.mark.parametrize("index_base", [0, 1])
@pytest.mark.parametrize("block_bytes", [1, 2**22])
def test_the_largest_index_of_a_line_is_that_of_the_parser(tmp_path, index_base, block_bytes):
    path, options = tmp_path / "a.svm", {"n_features": 2**31 - 1, "index_base": index_base}
    path.write_text(f"1 1:1\n1 {2**31 - 2}:1\n-1 {2**31 - 1}:1\n-1 2:1\n")
    for more in (options, {}):
        source = SvmlightSource(path, on_error="skip", block_bytes=block_bytes, **more)
        assert sum(X.shape[0] for X, _ in source) == 3 and source.skipped == 1
    for read in (lambda: list(SvmlightSource(path, **options)), lambda: load(path)):
        with pytest.raises(ValueError, match=f"line 3: index '{2**31 - 1}' is too large"):
            read()


@pytest.mark.parametrize(
    "labels, dtype",
    [
        (["9007199254740992", "9007199254740993", "-1"], np.int64),
        (["9223372036854775807", "9223372036854775806", "0"], np.int64),
        (["18446744073709551615", "18446744073709551614", "0"], np.uint64),
        (["9007199254740993.0", "0.5", "1"], np.float64),
        (["9007199254740992", "9007199254740993", "1.0"], np.int64),
        (["9007199254740992", "9007199254740993", "1e3"], np.int64),
    ],
)
def test_whole_numbers_keep_their_digits(tmp_path, labels, dtype):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{k}.5,{label}\n" for k, label in enumerate(labels)))
    ((_, y),) = CSVSource(path)
    found = load(path)[1]
    assert found.dtype == y.dtype == dtype
    are_whole = dtype is not np.float64
    expected = [
        int(label) if are_whole and label.lstrip("-").isdigit() else float(label)
        for label in labels
    ]
    assert found.tolist() == y.tolist() == expected
    parts = CSVSource(path, block_bytes=1)
    np.testing.assert_array_equal(distinct_labels(parts), np.unique(found))


def test_whole_numbers_beyond_64_bits_are_text(tmp_path):
    path, labels = tmp_path / "a.csv", [str(10**20), str(10**20 + 1)]
    path.write_text("".join(f"0.5,{label}\n" for label in labels))
    assert load(path)[1].tolist() == labels
    with pytest.raises(ValueError, match="more than 64 bits: text_labels=True"):
        list(CSVSource(path))
    ((_, y),) = CSVSource(path, text_labels=True)
    assert y.tolist() == labels


@pytest.mark.parametrize("first", ["01", "x", "id"])
def test_labels_that_are_said_to_be_text(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"1,2,{first}\n3,4,02\n5,6,1e3\n")
    for read in (load, lambda path, **more: next(iter(CSVSource(path, **more)))):
        assert read(path, text_labels=True)[1].tolist() == [first, "02", "1e3"]
        with pytest.raises(ValueError, match="text_labels must be True or None"):
            read(path, text_labels=False)


def test_labels_with_nuls(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2,a\n3,4,a\0\n")
    for read in (load, lambda path: list(CSVSource(path))):
        with pytest.raises(ValueError, match="line 2: column 3, the label, has a NUL"):
            read(path)


def test_names_with_nuls(tmp_path):
    """NumPy drops them at the end of text; the model would look for another name."""
    path = tmp_path / "a.csv"
    for name in ("x\0", "x\0z"):
        path.write_bytes(f"{name},y\n1,2\n3,4\n".encode())
        for read in (load, CSVSource):
            with pytest.raises(ValueError, match=rf"a\.csv: the column name '{name[0]}.x00.* NUL"):
                read(path)


def test_names_with_nuls_in_parquet(parquet_of):
    source = parquet_of(**{"x\0": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(ValueError, match=r"column name 'x.x00' has a NUL"):
        SDCAClassifier().fit_stream(source)


def test_a_header_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,y\n1,2\n".encode("latin-1"))
    for read in (load, CSVSource):
        with pytest.raises(ValueError, match="line 1: the text is not UTF-8"):
            read(path)


def test_files_of_several_formats_in_a_folder_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    for name in ("a.npz", "b.parquet"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ValueError, match="several formats, npz and parquet"):
        open_source(tmp_path)


def test_several_files_of_text_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,2,0\n2,1,1\n")
    with pytest.raises(ValueError, match=r"several files .* not csv; .* GeneratorSource"):
        open_source([path, path])


def test_a_shard_with_labels_in_a_file_of_their_own(tmp_path, binary):
    X, y = binary
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(X))
    np.save(tmp_path / "y.npy", y)
    ((rows, labels),) = open_source(tmp_path / "a.npz", labels=tmp_path / "y.npy")
    np.testing.assert_array_equal(rows.toarray(), X)
    np.testing.assert_array_equal(labels, y)
    sparse.save_npz(tmp_path / "b.npz", sparse.csr_array(X))
    with pytest.raises(ValueError, match="each of 2 shards needs labels"):
        NpzSource(tmp_path, labels=tmp_path / "y.npy")


def test_a_header_without_an_end_is_damage(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((3, 2)))
    path.write_bytes(path.read_bytes().replace(b"}", b" ", 1))
    with pytest.raises(ValueError, match=r"rows\.npy: damaged"):
        load(path)


def test_damaged_parquet_is_named(tmp_path):
    """Wherever a byte of the end of the file, which describes the rest, is another one."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path, random = tmp_path / "rows.parquet", np.random.default_rng(0)
    columns = {"a": random.normal(size=60), "b": random.normal(size=60), "y": np.arange(60) % 2}
    parquet.write_table(pa.table(columns), path)
    whole, n_refused = path.read_bytes(), 0
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole) - 700, len(whole) - 8)] = random.integers(256)
        path.write_bytes(damaged)
        try:
            list(ParquetSource(path))
        except ValueError as error:
            assert str(error).startswith(str(path))
            n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize("block_bytes", [1, 2**22])
def test_a_stray_quote_swallows_no_lines(tmp_path, block_bytes):
    lines = [f"{k}.0,1.5,{'ab'[k % 2]}\n" for k in range(40)]
    lines[10] = '10.0,1.5,"a\n'
    path = tmp_path / "data.csv"
    path.write_text("".join(lines))
    with pytest.raises(ValueError, match=r"data\.csv, line 11: a quote is not closed"):
        list(CSVSource(path, block_bytes=block_bytes))
    source = CSVSource(path, block_bytes=block_bytes, on_error="skip")
    assert sum(len(y) for _, y in source) == 39 and source.skipped == 1
    with pytest.raises(ValueError, match=r"data\.csv, line 11: a quote is not closed"):
        load(path)
    for text in ('1,2,"a\n3,4,b\n5,6,c\n', '1,"2,3\n4,5",6\n7,8,9\n10,11,12\n'):
        path.write_text(text)
        for read in (CSVSource, load):
            with pytest.raises(ValueError, match="line 1: a quote is not closed"):
                read(path)
    path.write_text('id,"long\nname",2020,y\n1,2,3,4\n5,6,7,8\n')
    assert CSVSource(path).feature_names == ["id", "long\nname", "2020"]


@pytest.mark.parametrize("block_bytes", [1, 2**22])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n", ""])
@pytest.mark.parametrize("last", ['2,"1', '"2,1', '"2', '"2","1', '"2"",1'])
def test_a_quote_that_is_open_where_a_block_ends(tmp_path, block_bytes, ending, last):
    """NumPy would take the end of the text for the end of the quote."""
    path = tmp_path / "data.csv"
    path.write_text(f"x,y\n1,0\n4,1\n{last}{ending}", newline="")
    for read in (lambda: list(CSVSource(path, block_bytes=block_bytes)), lambda: load(path)):
        with pytest.raises(ValueError, match=r"data\.csv, line 4: a quote is not closed"):
            read()
    source = CSVSource(path, block_bytes=block_bytes, on_error="skip")
    assert sum(len(y) for _, y in source) == 2 and source.skipped == 1


def test_what_a_source_of_others_calls_present_is_not_asked_for():
    class Source(list):
        @property
        def present(self):
            raise RuntimeError("mine")

    blocks = Source([(np.eye(2), [0, 1]), (np.full((2, 2), np.nan), [0, 1])])
    for read_ahead in (0, 2):
        with pytest.raises(ValueError, match="block 2 of the source: Input X contains NaN"):
            SDCAClassifier().fit_stream(blocks, read_ahead=read_ahead)


def test_block_rows_are_not_the_fault_of_the_file(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(ValueError, match=r"^block_rows must be"):
        NpySource(tmp_path / "x.npy", block_rows=0)
    with pytest.raises(ValueError, match=r"x\.npy: X has 3 rows, but y is of shape \(2,\)"):
        NpySource(tmp_path / "x.npy", [0, 1])


@pytest.mark.parametrize("read_ahead", [0, 2])
def test_tables_of_arrow_keep_the_names_of_their_columns(read_ahead):
    arrow = pytest.importorskip("pyarrow", reason="no pyarrow")
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.arange(20) % 2
    table = arrow.table({"a": X[:, 0], "b": X[:, 1]})
    fit = partial(PegasosClassifier().fit_stream, classes=[0, 1], read_ahead=read_ahead)
    model = fit(block for block in [(table, y), (table, y)])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="block 2 of the source: a column is named 'b', not 'a'"):
        fit(block for block in [(table, y), (table.select(["b", "a"]), y)])
    with pytest.raises(ValueError, match="X is a table of Arrow"):
        PegasosStructured(StructuredProblem()).fit(table, y)


def test_copies_of_blocks_that_are_read_ahead_keep_the_order_of_their_values():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(20, 3)))
    source = GeneratorSource(lambda: iter([(X, X[:, 0])]))
    ((copied, _),) = list(ReadAhead(source, 2))
    assert copied is not X and copied.flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_renamed_over_a_npy_file_is_not_read_in_its_place(tmp_path, order):
    X = np.arange(40.0).reshape(10, 4)
    np.save(tmp_path / "X.npy", np.asarray(X, order=order))
    source = NpySource(tmp_path / "X.npy", labels=np.arange(10), block_rows=3)
    blocks = iter(source)
    first, _ = next(blocks)
    np.save(tmp_path / "other.npy", -X[:2])
    os.replace(tmp_path / "other.npy", tmp_path / "X.npy")
    np.testing.assert_array_equal(np.vstack([first, *(block for block, _ in blocks)]), X)
    np.testing.assert_array_equal(np.vstack([block for block, _ in source]), X)
