"""DualStore: the same rows and columns as in memory, bounded memory, damage noticed."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
from scipy import sparse

from sublinear import (
    KernelPegasosClassifier,
    KernelSDCARegressor,
    PegasosRegressor,
    SDCAClassifier,
    SequencePegasos,
    StreamingSVRGRegressor,
    SublinearPerceptron,
)
from sublinear import _dual_store_build as building
from sublinear._core.matrix import Matrix
from sublinear.data import DualStore
from sublinear.sources import ArraySource

BUILDER = """
import os, signal
import numpy as np
from sublinear.data import DualStore

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def stream():
    yield np.zeros((50, 4))
    {during}

rename = os.rename
def once(source, target):
    rename(source, target)
    {between}

os.rename = once
DualStore.build("store", stream(), overwrite=True)
"""


def make(n=60, d=37, density=0.3, seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < density)
    X[n // 2] = 0  # an empty row, an empty column
    X[:, d // 3] = 0
    return X.astype(dtype)


class Frame:
    """A data frame as polars has them: an array with a shape that yields its columns."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __iter__(self):
        return iter(self.values.T)


def assert_lines(store, X):
    """Rows and columns of the store are those of X, to the bit."""
    matrix = store.matrix()
    random = np.random.default_rng(1)
    for lines, dense in ((matrix, X), (matrix.transposed(), X.T)):
        expected = Matrix(sparse.csr_array(dense) if store.is_sparse else dense.copy())
        w = random.normal(size=dense.shape[1])
        order = random.permutation(dense.shape[0])
        assert (lines.n_rows, lines.n_columns) == dense.shape
        assert lines.n_stored == expected.n_stored
        assert lines.dtype == X.dtype
        np.testing.assert_array_equal(lines.row_dots(w, order), expected.row_dots(w, order))
        np.testing.assert_array_equal(lines.squared_norms(), expected.squared_norms())


@pytest.fixture(params=["dense", "sparse"])
def stored(request, tmp_path):
    """A store and the matrix in it."""
    X = make()
    kind = X if request.param == "dense" else sparse.csr_array(X)
    return DualStore.build(tmp_path / "store", kind), X


class TestBuild:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("memory", [2**12, 2**28])
    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
    def test_lines_are_those_of_the_matrix(self, tmp_path, dtype, memory, kind):
        X = make(300, 50, dtype=dtype)
        store = DualStore.build(tmp_path / "store", kind(X), memory=memory)
        assert store.shape == X.shape
        assert store.dtype == dtype
        assert store.n_stored == (X.size if kind is np.asarray else np.count_nonzero(X))
        assert store.is_sparse == (kind is not np.asarray)
        assert store.nbytes == sum(path.stat().st_size for path in store.path.glob("*s.*"))
        assert_lines(store, X)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.coo_array])
    def test_from_a_stream(self, tmp_path, kind):
        X = make(100, 20)
        stream = (kind(X[k : k + 7]) for k in range(0, 100, 7))
        assert_lines(DualStore.build(tmp_path / "store", stream, memory=2**12), X)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_blocks_without_rows_anywhere(self, tmp_path, kind):
        X = kind(make())
        blocks = [X[:0], X[:0], X[:20], X[20:20], X[20:], X[:0]]
        assert_lines(DualStore.build(tmp_path / "store", blocks), make())

    def test_integers_and_unsorted_columns(self, tmp_path):
        X = np.arange(12).reshape(4, 3)
        assert_lines(DualStore.build(tmp_path / "a", X), X.astype(float))
        entries = ([1.0, 2.0, 3.0], [2, 0, 2], [0, 3])
        store = DualStore.build(tmp_path / "b", sparse.csr_array(entries, shape=(1, 3)))
        assert_lines(store, np.array([[2.0, 0.0, 4.0]]))

    def test_dtype_is_converted(self, tmp_path):
        X = make()
        store = DualStore.build(tmp_path / "store", X, dtype=np.float32)
        assert_lines(store, X.astype(np.float32))

    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
    def test_single_lines(self, tmp_path, shape):
        X = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        assert_lines(DualStore.build(tmp_path / "a", X), X)
        assert_lines(DualStore.build(tmp_path / "b", sparse.csr_array(X)), X)

    def test_nothing_stored(self, tmp_path):
        store = DualStore.build(tmp_path / "store", sparse.csr_array((4, 3)))
        assert store.n_stored == 0
        assert_lines(store, np.zeros((4, 3)))

    def test_more_entries_than_int32_can_number(self, tmp_path, monkeypatch):
        monkeypatch.setattr(building, "INT32_ENTRIES", 100)
        X = make(80, 30)
        store = DualStore.build(tmp_path / "store", sparse.csr_array(X), memory=2**12)
        assert store.matrix().arrays[1].dtype == np.int64
        assert_lines(store, X)

    def test_columns_are_not_made_again(self, stored):
        matrix = stored[0].matrix(constant=1.0)
        assert matrix.constant == 1.0
        columns = matrix.transposed()
        assert columns is matrix.transposed()
        assert isinstance(columns.arrays[0].base, np.memmap) or isinstance(
            columns.arrays[0], np.memmap
        )

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_what_is_not_finite_is_refused(self, tmp_path, kind, bad):
        X = make()
        X[3, 4] = bad
        with pytest.raises(ValueError, match="rows 0 to 59 hold NaN or infinity"):
            DualStore.build(tmp_path / "store", kind(X))
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "blocks, words",
        [
            ([np.ones((2, 3)), np.ones((2, 4))], "rows 2 and after have 4 columns"),
            ([np.ones((2, 3)), sparse.csr_array((2, 3))], "all sparse or all dense"),
            ([np.ones((2, 3)), np.ones(3)], "two-dimensional"),
            (map(np.ones, [3]), "two-dimensional"),
            ([1.0, 2.0], "two-dimensional"),
            ([], "rows and columns"),
            (np.empty((0, 3)), "rows and columns"),
            (np.empty((3, 0)), "rows and columns"),
            (sparse.csr_array((0, 3)), "rows and columns"),
            (np.ones(3), "two-dimensional"),
            (np.eye(3) * 1j, "real numbers"),
            (sparse.csr_array(np.eye(3) * 1j), "real numbers"),
            ([["1", "2"]], "a store holds real numbers, got <U1"),
            ([[1.0, 2.0], [3.0]], "inhomogeneous"),
        ],
    )
    def test_blocks_that_do_not_fit(self, tmp_path, blocks, words):
        with pytest.raises(ValueError, match=words):
            DualStore.build(tmp_path / "store", blocks)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("row, pointer", [(4, -(10**8)), (7, 10**8), (-1, 10**8), (5, 2)])
    @pytest.mark.parametrize("lay_out", [lambda X: X, lambda X: [X]])
    def test_row_pointers_out_of_range(self, tmp_path, row, pointer, lay_out):
        X = sparse.random_array((40, 9), density=0.4, rng=np.random.default_rng(1), format="csr")
        X.indptr[row] = pointer
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            DualStore.build(tmp_path / "store", lay_out(X))
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("rows", [list, tuple, lambda X: X.tolist()])
    def test_lists_of_rows(self, tmp_path, rows):
        X = make(20, 7)
        assert_lines(DualStore.build(tmp_path / "store", rows(X), memory=2**12), X)

    @pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist])
    def test_lists_of_blocks(self, tmp_path, kind):
        X = make(20, 7)
        blocks = [kind(X[:10]), kind(X[10:])]  # which would make an array of three dimensions
        assert_lines(DualStore.build(tmp_path / "store", blocks), X)

    def test_a_frame_that_yields_columns(self, tmp_path):
        X = make(20, 7)
        for name, frame in (("rows", Frame(X)), ("blocks", [Frame(X[:9]), Frame(X[9:])])):
            assert_lines(DualStore.build(tmp_path / name, frame, memory=2**12), X)

    @pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
    def test_frames(self, tmp_path, name):
        library, X = pytest.importorskip(name), make(200, 7)
        columns = {f"x{k}": X[:, k] for k in range(7)}
        frame = (library.table if name == "pyarrow" else library.DataFrame)(columns)
        assert_lines(DualStore.build(tmp_path / "store", frame, memory=2**12), X)

    def test_rows_of_a_frame_are_found_by_their_places(self, tmp_path):
        class Labelled(Frame):  # as those of pandas 2, whose index may hold numbers
            ndim = 2

            def __init__(self, values):
                super().__init__(values)
                self.iloc = values

            def __len__(self):
                return len(self.values)

            def __getitem__(self, labels):
                raise KeyError(labels)

        X = make(200, 7)
        assert_lines(DualStore.build(tmp_path / "store", Labelled(X), memory=2**12), X)

    def test_what_is_no_matrix(self, tmp_path):
        store = DualStore.build(tmp_path / "store", np.eye(3))
        for other in (None, store):
            with pytest.raises(TypeError, match="X must be an array"):
                DualStore.build(tmp_path / "other", other)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_a_value_too_large_for_the_type_is_said(self, tmp_path, kind):
        X = kind(np.full((3, 2), 1e300))
        with pytest.raises(ValueError, match=r"rows 0 to 2 hold .* too large for float32"):
            DualStore.build(tmp_path / "store", X, dtype=np.float32)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_a_source_of_more_than_rows_is_refused(self, tmp_path, kind):
        X = make()
        source = ArraySource(kind(X), X[:, 0], block_rows=20)
        with pytest.raises(TypeError, match=r"got a tuple of 2; .*: \(X for X, y in source\)"):
            DualStore.build(tmp_path / "store", source)
        assert not list(tmp_path.iterdir())
        assert_lines(DualStore.build(tmp_path / "store", (X for X, y in source)), X)

    def test_a_stream_that_fails_leaves_nothing(self, tmp_path):
        def stream():
            yield np.ones((2, 3))
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            DualStore.build(tmp_path / "store", stream())
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("memory", [2**12, 2**28])
    @pytest.mark.parametrize("limit", [4000, 15_000])
    def test_what_cannot_be_written_names_the_store(self, tmp_path, kind, memory, limit):
        resource = pytest.importorskip("resource")
        path, before = tmp_path / "store", resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(OSError, match=f"cannot write {path}: file too large"):
                DualStore.build(path, kind(np.ones((1000, 2))), memory=memory)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not list(tmp_path.iterdir())

    def test_what_is_there_is_kept_or_replaced(self, tmp_path):
        path = tmp_path / "store"
        DualStore.build(path, np.eye(3))
        with pytest.raises(FileExistsError, match="overwrite=True"):
            DualStore.build(path, np.eye(4))
        with pytest.raises(ValueError, match="NaN"):
            DualStore.build(path, np.full((4, 4), np.nan), overwrite=True)
        assert DualStore(path).shape == (3, 3)
        assert DualStore.build(path, np.eye(4), overwrite=True).shape == (4, 4)
        assert [entry.name for entry in tmp_path.iterdir()] == ["store"]

    def test_an_interrupt_between_two_renames_leaves_what_was_there(self, tmp_path, monkeypatch):
        path, rename, calls = tmp_path / "store", os.rename, []
        DualStore.build(path, np.eye(3))

        def interrupted(source, target):
            calls.append(source)
            if len(calls) == 2:
                raise KeyboardInterrupt
            rename(source, target)

        monkeypatch.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            DualStore.build(path, np.eye(4), overwrite=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["store"]
        assert DualStore(path).shape == (3, 3)

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
    @pytest.mark.parametrize("when", ["during", "between"])
    def test_what_a_killed_build_leaves_is_removed_by_the_next(self, tmp_path, when):
        path = tmp_path / "store"
        DualStore.build(path, np.eye(3))
        program = BUILDER.format(**({"during": "", "between": ""} | {when: "killed()"}))
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
        left = [entry for entry in tmp_path.iterdir() if entry != path]
        if when == "during":
            assert len(left) == 1 and DualStore(path).shape == (3, 3)
        else:
            assert len(left) == 2 and not path.exists()
            with pytest.raises(ValueError, match="NaN"):
                DualStore.build(path, np.full((4, 4), np.nan))
            (old,) = tmp_path.iterdir()  # the only store there is
            assert DualStore(old).shape == (3, 3)
        DualStore.build(path, np.eye(4), overwrite=True)
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(sys.platform == "win32", reason="nothing is removed on Windows")
    def test_what_another_process_builds_is_kept(self, tmp_path):
        path = tmp_path / "store"
        program = BUILDER.format(during="print(flush=True); input()", between="")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, **pipes) as other:
            other.stdout.readline()
            DualStore.build(path, np.eye(3))
            assert len(list(tmp_path.iterdir())) == 2
            other.communicate(b"\n")
        assert other.returncode == 0
        assert list(tmp_path.iterdir()) == [path] and DualStore(path).shape == (50, 4)

    def test_what_is_no_store_is_not_replaced(self, tmp_path):
        (tmp_path / "other").mkdir()
        for overwrite in (True, False):
            with pytest.raises(FileExistsError, match=r"is no store.* give another path"):
                DualStore.build(tmp_path / "other", np.eye(3), overwrite=overwrite)
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            DualStore.build(tmp_path / "missing" / "store", np.eye(3))

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", "\xff", '{"format": 1, "files": {}}', "a header of something else"]
    )
    def test_a_header_of_something_else_makes_no_store(self, tmp_path, text):
        other = tmp_path / "other"
        other.mkdir()
        (other / "header.json").write_text(text, encoding="latin-1")
        (other / "rows.values").write_text("kept")
        with pytest.raises(FileExistsError, match=r"no store: its header\.json is not that of one"):
            DualStore.build(other, np.eye(3), overwrite=True)
        assert (other / "header.json").read_text(encoding="latin-1") == text
        assert (other / "rows.values").read_text() == "kept"
        assert list(tmp_path.iterdir()) == [other]

    def test_a_header_that_lists_files_of_others_makes_no_store(self, stored):
        path = stored[0].path / "header.json"
        header = json.loads(path.read_text())
        header["files"]["thesis.tex"] = header["files"]["rows.values"]
        header["checksum"] = building.header_checksum(header)
        path.write_text(json.dumps(header))
        with pytest.raises(FileExistsError, match=r"header\.json is not that of one"):
            DualStore.build(stored[0].path, np.eye(3), overwrite=True)

    @pytest.mark.parametrize("name", ["notes.txt", "rows.values.bak", ".hidden"])
    def test_files_of_others_in_a_store_are_kept(self, stored, tmp_path, name):
        store, X = stored
        (store.path / name).write_text("kept")
        with pytest.raises(FileExistsError, match=f"holds {name}, which is no part of a store"):
            DualStore.build(store.path, np.eye(3), overwrite=True)
        assert (store.path / name).read_text() == "kept"
        assert_lines(DualStore(store.path), X)
        assert list(tmp_path.iterdir()) == [store.path]

    def test_a_folder_in_the_place_of_a_file_is_kept(self, stored):
        values = stored[0].path / "rows.values"
        values.unlink()
        values.mkdir()
        (values / "notes.txt").write_text("kept")
        with pytest.raises(FileExistsError, match=r"holds rows\.values, which is no part"):
            DualStore.build(stored[0].path, np.eye(3), overwrite=True)
        assert (values / "notes.txt").read_text() == "kept"

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_what_comes_while_a_store_is_built_is_kept(self, tmp_path, overwrite):
        path = tmp_path / "store"
        if overwrite:
            DualStore.build(path, np.eye(3))

        def stream():
            yield np.eye(4)
            path.mkdir(exist_ok=True)
            (path / "notes.txt").write_text("kept")

        with pytest.raises(FileExistsError):
            DualStore.build(path, stream(), overwrite=overwrite)
        assert (path / "notes.txt").read_text() == "kept"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("damage", ["missing", "cut", "header"])
    def test_a_damaged_store_is_replaced(self, stored, damage):
        path = stored[0].path
        if damage == "missing":
            (path / "columns.values").unlink()
        elif damage == "cut":
            os.truncate(path / "rows.values", 8)
        else:
            header = json.loads((path / "header.json").read_text())
            (path / "header.json").write_text(json.dumps(header | {"shape": [1, 1]}))
        with pytest.raises(ValueError, match="build it again"):
            DualStore(path)
        assert DualStore.build(path, np.eye(4), overwrite=True).shape == (4, 4)
        assert list(path.parent.iterdir()) == [path]

    @pytest.mark.parametrize("options", [{"memory": 10}, {"dtype": np.int32}, {"overwrite": "yes"}])
    def test_unusable_parameters(self, tmp_path, options):
        with pytest.raises(ValueError, match=next(iter(options))):
            DualStore.build(tmp_path / "store", np.eye(3), **options)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_memory_is_bounded(self, tmp_path, kind):
        """A stream of 6 MB to 12 MB becomes a store of twice that with 1 MiB to work with."""
        X = make(64, 1000, density=0.5)

        def build(name, n_blocks):
            stream = (kind(X) for _ in range(n_blocks))
            return DualStore.build(tmp_path / name, stream, memory=2**20)

        build("first", 1)  # what is loaded late
        tracemalloc.start()
        store = build("second", 24)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert store.nbytes > 16e6
        assert peak < 4e6

    def test_a_long_column_takes_no_more_memory(self, tmp_path):
        rows = 20_000
        entries, offsets = np.ones(rows), np.arange(rows + 1)
        peaks = []
        for columns in (np.arange(rows) % 50, *(np.full(rows, j) for j in (0, 25, 49))):
            X = sparse.csr_array((entries, columns, offsets), shape=(rows, 50))
            tracemalloc.start()
            store = DualStore.build(tmp_path / "store", (X for _ in range(20)), memory=2**16)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert store.matrix().transposed().n_stored == 400_000
            shutil.rmtree(store.path)
        assert max(peaks) < 1.1 * peaks[0]


class TestOpen:
    def test_again(self, stored):
        store, X = stored
        assert_lines(DualStore(store.path), X)
        assert_lines(DualStore(str(store.path), verify=True), X)
        assert_lines(pickle.loads(pickle.dumps(store)), X)
        assert str(store.shape) in repr(store)
        store.verify()

    def test_arrays_are_read_only(self, stored):
        for array in stored[0].matrix().arrays[:1]:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1

    def test_no_store(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no store"):
            DualStore(tmp_path)

    @pytest.mark.parametrize("name", ["rows.values", "columns.values"])
    def test_cut_short(self, stored, name):
        path = stored[0].path / name
        os.truncate(path, path.stat().st_size - 8)
        with pytest.raises(
            ValueError, match=rf"store was changed or damaged: {name} has \d+ bytes"
        ):
            DualStore(stored[0].path)
        path.unlink()
        with pytest.raises(ValueError, match=rf"{name} is missing"):
            DualStore(stored[0].path)

    @pytest.mark.parametrize("name", ["rows.values", "columns.values", "header.json"])
    def test_changed(self, stored, name):
        path = stored[0].path / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"damaged.*{name}.*checksum; build it again"):
            DualStore(stored[0].path)

    def test_changed_under_the_old_time(self, stored):
        """Values are read at opening only on request, then; offsets always."""
        store, _ = stored

        def change(name):
            path = store.path / name
            status = path.stat()
            with open(path, "r+b") as file:
                file.write(b"\x01")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

        change("rows.values")
        DualStore(store.path)
        with pytest.raises(ValueError, match="bytes 0 to"):
            DualStore(store.path, verify=True)
        with pytest.raises(ValueError, match="bytes 0 to"):
            store.verify()
        if store.is_sparse:
            change("columns.offsets")
            with pytest.raises(ValueError, match=r"columns\.offsets"):
                DualStore(store.path)

    def test_a_copy_is_verified(self, stored, tmp_path):
        store, X = stored
        copy = shutil.copytree(store.path, tmp_path / "copy", copy_function=shutil.copyfile)
        assert_lines(DualStore(copy), X)

    @pytest.mark.parametrize(
        "change, words",
        [
            ({"format": 99}, "format 99"),
            ({"byteorder": "other"}, "byte order"),
        ],
    )
    def test_header_of_elsewhere(self, stored, change, words):
        path = stored[0].path / "header.json"
        header = json.loads(path.read_text()) | change
        header["checksum"] = building.header_checksum(header)
        path.write_text(json.dumps(header))
        with pytest.raises(ValueError, match=words):
            DualStore(stored[0].path)

    @pytest.mark.parametrize(
        "change",
        [
            {"shape": [60]},
            {"shape": [60, 0]},
            {"shape": [10**6, 7]},
            {"dtype": "object"},
            {"dtype": None},
            {"chunk": -1},
            {"files": {}},
            {"files": []},
            {"sparse": None, "index_dtype": None},
        ],
    )
    def test_forged_headers(self, stored, change):
        store, _ = stored
        path = store.path / "header.json"
        header = json.loads(path.read_text()) | change
        if change.get("sparse", 0) is None and not store.is_sparse:
            header["sparse"], header["index_dtype"] = True, "int32"
        header["checksum"] = building.header_checksum(header)
        path.write_text(json.dumps(header))
        with pytest.raises(ValueError, match=r"header\.json makes no sense"):
            DualStore(store.path)

    @pytest.mark.parametrize("name", ["rows.indices", "columns.indices", "rows.offsets"])
    @pytest.mark.parametrize("wrong", [2**30, -1])
    def test_forged_places(self, tmp_path, name, wrong):
        """Whoever writes files can write checksums."""
        path = DualStore.build(tmp_path / "store", sparse.csr_array(make())).path
        places = np.fromfile(path / name, np.int32)
        places[1] = wrong
        places.tofile(path / name)
        header = json.loads((path / "header.json").read_text())
        header["files"][name]["checksums"] = [zlib.crc32(places.tobytes())]
        header["checksum"] = building.header_checksum(header)
        (path / "header.json").write_text(json.dumps(header))
        with pytest.raises(ValueError, match=f"{name} (has indices|does not say)"):
            DualStore(path, verify=True)

    def test_verify_is_a_flag(self, stored):
        with pytest.raises(ValueError, match="verify"):
            DualStore(stored[0].path, verify="all")

    @pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="the system does not tell")
    def test_resident_bytes(self, stored):
        store, _ = stored
        store.verify()
        assert 0 < store.resident_bytes() <= store.nbytes + 8 * 4096


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_perceptron_takes_a_store(tmp_path, kind):
    X = make(80, 30)
    y = np.where(X @ np.random.default_rng(2).normal(size=30) > 0, 1, -1)
    store = DualStore.build(tmp_path / "store", kind(X))
    options = {"certify": None, "row_norm": 10.0, "max_iter": 2000, "random_state": 0}
    expected = SublinearPerceptron(**options).fit(kind(X), y)
    found = SublinearPerceptron(**options).fit(store, y)
    assert 0 < found.result_.accesses <= 2000 * 110
    assert found.score(X, y) == pytest.approx(expected.score(X, y), abs=0.2)
    if kind is sparse.csr_array:  # in memory dense columns are drawn by the cache line
        np.testing.assert_array_equal(found.coef_, expected.coef_)
    with pytest.raises(ValueError, match="may be 0 for rows in memory only"):
        SublinearPerceptron().fit(store, y, sample_weight=np.arange(80.0))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        SDCAClassifier(random_state=0),
        SDCAClassifier(penalize_intercept=False, random_state=0),
        SDCAClassifier(batch_size=8, random_state=0),
        PegasosRegressor(random_state=0),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_models_of_a_store_are_those_of_its_rows(tmp_path, kind, model):
    X = make(80, 30)
    y = (X @ np.random.default_rng(2).normal(size=30) > 0).astype(int)
    store = DualStore.build(tmp_path / "store", kind(X))
    expected = model.fit(kind(X), y).coef_.copy()
    np.testing.assert_allclose(model.fit(store, y).coef_, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        KernelPegasosClassifier(),
        KernelSDCARegressor(),
        SequencePegasos(),
        StreamingSVRGRegressor(),
    ],
)
def test_others_say_that_they_need_rows_in_memory(tmp_path, model):
    store = DualStore.build(tmp_path / "store", make(20, 5))
    with pytest.raises(ValueError, match="needs rows in memory: X is a store"):
        model.fit(store, np.arange(20) % 2)


@pytest.mark.parametrize("memory", [2**36, 2**37, 2**60])
def test_sparse_rows_are_cut_by_any_memory(tmp_path, memory):
    X = sparse.random_array((20, 5), density=0.5, format="csr", rng=np.random.default_rng(0))
    assert X.indptr.dtype == np.int32
    assert_lines(DualStore.build(tmp_path / "store", X, memory=memory), X.toarray())
