"""CSV read by Arrow is what NumPy reads, faults included."""

import gzip
import sys

import numpy as np
import pytest

from sublinear._readers import arrow_csv, csv_text
from sublinear._readers.arrow_csv import plain_table
from sublinear.datasets import load
from sublinear.sources import CSVSource

pytest.importorskip("pyarrow")

FORMATS = [repr, "{:.17g}".format, "{:.5e}".format, "{:.25e}".format, "{:.3g}".format]


@pytest.fixture(autouse=True)
def for_short_texts(monkeypatch):
    for name in ("WORTH_IMPORT", "WORTH_CALL", "WORTH_COLUMN"):
        monkeypatch.setattr(arrow_csv, name, 0)


@pytest.fixture
def made(monkeypatch):
    """Return the tables that Arrow makes, None where it makes none."""
    tables = []
    monkeypatch.setattr(
        csv_text, "plain_table", lambda *args: tables.append(plain_table(*args)) or tables[-1]
    )
    return tables


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_have_the_same_bits(format):
    random = np.random.default_rng(0)
    numbers = random.integers(0, 2**64, 6000, dtype=np.uint64).view(float)
    numbers = numbers[np.isfinite(numbers)][:5000].tolist()
    text = "".join(f"{format(number)},1\n" for number in numbers)
    expected = np.array([float(format(number)) for number in numbers])
    table = plain_table(text.encode(), 2, None, None)
    if np.isfinite(expected).all():
        np.testing.assert_array_equal(table[:, 0], expected)
    else:  # a number of few digits may round to infinity
        assert format is FORMATS[-1] and np.isinf(table[:, 0]).any()


@pytest.mark.parametrize(
    "text",
    [
        '"1",2\n',
        "1,2\r3,4\r",
        "1,2\n3,4\r5,6\n",
        "1,a\n",
        "1,\n",
        "1\n",
        "1,2,3\n",
        "1,1_0\n",
        "\ufeff1,2\n",
    ],
)
def test_what_is_not_plain_is_left_to_numpy(text):
    assert plain_table(text.encode(), 2, None, None) is None


@pytest.mark.parametrize("is_imported", [False, True])
@pytest.mark.parametrize("is_short", [False, True])
def test_arrow_is_neither_called_nor_imported_for_little(
    monkeypatch, tmp_path, made, is_imported, is_short
):
    monkeypatch.setattr(arrow_csv, "WORTH_IMPORT", 2**14)
    monkeypatch.setattr(arrow_csv, "WORTH_CALL", 2**10)
    monkeypatch.delitem(sys.modules, "pyarrow.csv", raising=False)
    if is_imported:
        import pyarrow.csv  # noqa: F401  (a program that uses Arrow has it)
    path = tmp_path / "rows.csv"
    path.write_text("1,2\n" * ((2**10 if is_imported else 2**14) // 4 - is_short))
    for read in load, lambda path: list(CSVSource(path)):
        read(path)
        assert len(made) == (not is_short)
        made.clear()


@pytest.mark.parametrize("n_rows, is_many", [(99, False), (100, True)])
def test_arrow_is_not_called_for_few_rows_of_many_columns(
    monkeypatch, tmp_path, made, n_rows, is_many
):
    monkeypatch.setattr(arrow_csv, "WORTH_COLUMN", 200)
    path = tmp_path / "rows.csv"
    path.write_text(("1," * 499 + "2\n") * n_rows)
    for read in load, lambda path: list(CSVSource(path)):
        read(path)
        assert len(made) == is_many
        made.clear()


@pytest.mark.parametrize("is_worth", [0, 2**60])
def test_a_mark_behind_the_first_line_is_a_part_of_its_field(monkeypatch, tmp_path, is_worth):
    """As where files with marks were joined; whatever reads them, with whatever else."""
    monkeypatch.setattr(arrow_csv, "WORTH_CALL", is_worth)
    path = tmp_path / "rows.csv"
    path.write_text("\ufeffa,1\nb,2\n\ufeffa,3\nb,4\n", encoding="utf-8")
    for _, y in (load(path, label_column="first"), *CSVSource(path, label_column="first")):
        assert y.tolist() == ["a", "b", "\ufeffa", "b"]
    for more in ("", "x,a\n"):
        path.write_text("1,a\n2,b\n\ufeff3,a\n4,b\n" + more, encoding="utf-8")
        source = CSVSource(path, on_error="skip")
        assert [X.ravel().tolist() for X, _ in source] == [[1, 2, 4]]
        assert source.skipped == 1 + bool(more)
        for read in load, lambda path: list(CSVSource(path)):
            with pytest.raises(ValueError, match=r"line 3: .* is not a finite number"):
                read(path)


@pytest.mark.parametrize("rest", ["1,2\n", "1,2", "\n\n", "\r\n\n1,2\n\n"])
def test_the_last_part_of_a_file_may_be_short_or_empty(monkeypatch, tmp_path, made, rest):
    monkeypatch.setattr(csv_text, "CHUNK", 40)
    monkeypatch.setattr(arrow_csv, "WORTH_CALL", 40)
    monkeypatch.setattr(arrow_csv, "WORTH_IMPORT", 40)
    path = tmp_path / "rows.csv"
    path.write_bytes(b"3,44\n1,22\n" * 4 * 2 + b"\n" + rest.encode())
    monkeypatch.setattr(csv_text, "_by_numpy", None)
    X, _ = load(path)
    assert X.ravel().tolist() == [3, 1] * 8 + [1] * ("1" in rest)
    assert all(table is not None for table in made)


def test_without_arrow_numpy_reads(monkeypatch, tmp_path, made):
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    path = tmp_path / "rows.csv"
    path.write_text("1,2,0\n3,4,1\n")
    np.testing.assert_array_equal(load(path)[0], [[1, 2], [3, 4]])
    assert made == [None]


FIELDS = ["1", "-2.5", "+.5", "1e3", " 7 ", "0", "-0", "123456789012345678901"]
ODD_FIELDS = ["", "nan", "inf", "a", "?", '"3"', "1_0", "0x1", "1 2", "\x0b1", "٣", "-1"]
LABELS = ["0", "1", "a", "b ", "Ärger", "10", "9007199254740993", "1.5"]
ODD_LABELS = ["", " ", '"a"', '"a', "x\0"]


def table_of_text(random, n_faults):
    """Return lines of a table and the options to read it with."""
    n_columns, n_rows = random.integers(2, 5), random.integers(1, 30)
    kinds = [LABELS[:2], LABELS[2:5], LABELS]
    labels = kinds[random.integers(len(kinds))]
    rows = [
        [str(random.choice(FIELDS)) for _ in range(n_columns - 1)] + [str(random.choice(labels))]
        for _ in range(n_rows)
    ]
    for _ in range(n_faults):
        row, place = rows[random.integers(n_rows)], random.integers(n_columns)
        odd = ODD_LABELS if place == n_columns - 1 else ODD_FIELDS
        row[place] = odd[random.integers(len(odd))]
        if random.random() < 0.2:
            row.append("1")
    lines = [",".join(row) for row in rows]
    if random.random() < 0.3:
        lines.insert(0, ",".join(f"name{k}" for k in range(n_columns)))
    if random.random() < 0.3:
        lines.insert(random.integers(len(lines) + 1), "")
    ends = ["\n"] * len(lines)
    if random.random() < 0.3:
        ends = ["\r\n"] * len(lines)
    if random.random() < 0.1:
        ends[random.integers(len(lines))] = "\r"
    if random.random() < 0.3:
        ends[-1] = ""
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    options = {"weight_column": 0} if n_columns > 2 and random.random() < 0.2 else {}
    if random.random() < 0.2:
        options["text_labels"] = True
    return text.encode(), options


def outcome(read):
    """Return what is read, with the types of arrays, or the error in words."""
    try:
        return [
            (part.dtype.str, part.tolist()) if isinstance(part, np.ndarray) else part
            for part in read()
        ]
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("n_faults", [0, 1, 2])
@pytest.mark.parametrize("seed", range(80))
def test_files_and_blocks_are_read_alike(monkeypatch, tmp_path, made, seed, n_faults):
    text, options = table_of_text(np.random.default_rng([seed, n_faults]), n_faults)
    packed = seed % 4 == 0
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    monkeypatch.setattr(csv_text, "CHUNK", 40)

    def blocks(on_error):
        source = CSVSource(path, block_bytes=60, on_error=on_error, **options)
        return [part for block in source for part in block] + [source.skipped]

    def outcomes():
        return [
            outcome(lambda: load(path, **options)),
            outcome(lambda: blocks("raise")),
            outcome(lambda: blocks("skip")),
        ]

    by_arrow = outcomes()
    monkeypatch.setattr(csv_text, "plain_table", lambda *args: None)
    assert by_arrow == outcomes()


def test_arrow_reads_large_blocks_in_parts(monkeypatch):
    text = b"1,b\n3,a\n5,b\n" * 20
    names = {}
    whole = plain_table(text, 2, 1, lambda name: names.setdefault(name, len(names)))
    monkeypatch.setattr(arrow_csv, "MOST_AT_ONCE", 16)
    parts = plain_table(text, 2, 1, names.__getitem__)
    assert whole[:3].tolist() == [[1, 0], [3, 1], [5, 0]]
    np.testing.assert_array_equal(parts, whole)


def test_plain_files_and_blocks_are_read_by_arrow(monkeypatch, tmp_path, made):
    path = tmp_path / "rows.csv"
    path.write_text("length,width,kind\r\n" + "1,2,b\r\n3,4,a\r\n\r\n5,6,b\r\n" * 3)
    monkeypatch.setattr(csv_text, "CHUNK", 30)
    X, y = load(path)
    assert y.tolist() == ["b", "a", "b"] * 3
    assert len(made) > 1 and all(table is not None for table in made)
    made.clear()
    blocks = list(CSVSource(path, block_bytes=30))
    np.testing.assert_array_equal(np.concatenate([part for part, _ in blocks]), X)
    assert len(made) > 1 and all(table is not None for table in made)


def test_a_header_that_ends_with_a_return_swallows_no_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"length,kind\r1,0\n2,1\n")
    with pytest.raises(ValueError, match="line"):
        CSVSource(path)
    assert load(path)[0].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("chunk", [1, 7, 2**22])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n" + 9 * b"\n"])
def test_a_quote_that_is_open_in_the_last_line_of_a_file(tmp_path, monkeypatch, chunk, end):
    monkeypatch.setattr(csv_text, "CHUNK", chunk)
    path = tmp_path / "rows.csv"
    path.write_bytes(b'1,"a"\n2,"b"\n3,"b' + end)
    with pytest.raises(ValueError, match="line 3: a quote is not closed"):
        load(path)


def test_quotes_where_lines_end_with_a_return(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b'length,kind\r1,"a"\r2,"b"\r\r')
    assert load(path)[1].tolist() == ["a", "b"]
    path.write_bytes(b'length,kind\r1,"a"\r2,"b\r')
    with pytest.raises(ValueError, match="line 3: a quote is not closed"):
        load(path)
