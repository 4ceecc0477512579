"""Building a DualStore: rows as they come, then columns by a transpose in bounded memory.

Dense data is transposed in bands of columns. Sparse entries are first sorted into buckets, ranges
of columns that fit into memory; then every bucket is sorted by column. Either way each byte is read
and written a fixed number of times, whatever the memory.
"""

import io
import json
import os
import shutil
import sys
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sublinear._core.matrix import check_before_csr, csr_structure
from sublinear._files import (
    NamedFile,
    locked_folder,
    naming_unwritten,
    place_beside,
    remove_left_folders,
)
from sublinear._validation import naming_entries

FORMAT = 1
HEADER = "header.json"
FIELDS = {"format", "shape", "sparse", "byteorder", "dtype", "index_dtype", "chunk", "files"}
FILES = {
    f"{side}.{part}" for side in ("rows", "columns") for part in ("values", "indices", "offsets")
}
CHUNK = 2**20  # bytes for each checksum
INT32_ENTRIES = 2**31 - 1  # stored entries and columns that int32 can number
SORT_BYTES = 64  # memory for each entry while entries are sorted


class ArrayFile:
    """A file that arrays are appended to, for `place`; keeps a checksum of every chunk."""

    def __init__(self, folder, name, place):
        self.path, self._place = folder / name, place
        self._stream = io.BufferedWriter(NamedFile(place, self.path))
        self._checksums, self._partial, self._filled = [], 0, 0

    def append(self, array):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._stream.write(data)
        while len(data):
            part = data[: CHUNK - self._filled]
            self._partial = zlib.crc32(part, self._partial)
            self._filled += len(part)
            data = data[len(part) :]
            if self._filled == CHUNK:
                self._end_chunk()

    def _end_chunk(self):
        self._checksums.append(self._partial)
        self._partial = self._filled = 0

    def close(self):
        """Close the file and return what the header says about it."""
        if self._filled:
            self._end_chunk()
        self._stream.flush()
        with naming_unwritten(self._place, self.path):
            os.fsync(self._stream.fileno())
        self._stream.close()
        status = os.stat(self.path)
        return {
            "bytes": status.st_size,
            "modified_ns": status.st_mtime_ns,
            "checksums": self._checksums,
        }

    def abandon(self):
        self._stream.raw.close()  # what waits to be written may not be writable


def header_checksum(header):
    """The checksum of a header without its own field."""
    rest = {name: value for name, value in header.items() if name != "checksum"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def is_sound(header):
    """Tell whether a header names the files of a store, as long as its shape asks for."""
    try:
        shape, chunk, files = header["shape"], header["chunk"], header["files"]
        value = {"float32": 4, "float64": 8}[header["dtype"]]
        index = {"int32": 4, "int64": 8}[header["index_dtype"]] if header["sparse"] else None
        if any(type(size) is not int or size < 1 for size in (*shape, chunk)):
            return False
        sizes = {}
        for side, count in zip(("rows", "columns"), shape, strict=True):
            if index is None:
                sizes[f"{side}.values"] = shape[0] * shape[1] * value
                continue
            n_stored = files["rows.values"]["bytes"] // value
            sizes[f"{side}.values"] = n_stored * value
            sizes[f"{side}.indices"] = n_stored * index
            sizes[f"{side}.offsets"] = (count + 1) * index
        return files.keys() == sizes.keys() and all(
            files[name]["bytes"] == size and len(files[name]["checksums"]) == -(-size // chunk)
            for name, size in sizes.items()
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def _check_replaceable(path, target, overwrite):
    """Raise FileExistsError if anything is at target but a store that may be overwritten."""
    if not target.exists():
        return
    fault = _foreign_part(target)
    if fault:
        raise FileExistsError(
            f"{path} {fault}; it is not overwritten: give another path, or move away what is there"
        )
    if not overwrite:
        raise FileExistsError(f"{path} exists already; overwrite=True replaces it")


def _foreign_part(folder):
    """Return what in a folder is not of a store, in words; None if all of it is."""
    if not (folder / HEADER).is_file():
        return f"exists and is no store: there is no {HEADER} in it"
    try:
        header = json.loads((folder / HEADER).read_bytes())
        # not its checksum: a store is replaced just because it is damaged
        is_ours = header.keys() >= FIELDS and header["files"].keys() <= FILES
    except (ValueError, AttributeError):
        is_ours = False
    if not is_ours:
        return f"exists and is no store: its {HEADER} is not that of one"
    for entry in sorted(folder.iterdir()):
        if entry.name not in {HEADER, *header["files"]} or not entry.is_file():
            return f"holds {entry.name}, which is no part of a store"
    return None


def build(path, X, *, dtype, memory, overwrite):
    """Write the store beside its place, then rename it; `DualStore.build` says what X may be."""
    target = Path(os.path.realpath(path))
    _check_replaceable(path, target, overwrite)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {target.parent}")
    remove_left_folders(target)
    beside = place_beside(target)
    with naming_unwritten(path, target):
        beside.mkdir()
    try:
        with locked_folder(beside):
            _Build(beside, path, dtype, memory).run(X)
            _check_replaceable(path, target, overwrite)  # something may have come there meanwhile
            _put(beside, target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    remove_left_folders(target, "old")  # not before: it may be all that a killed process left


def _put(beside, target):
    """Rename a store into its place; what is there is removed."""
    if not target.exists():
        os.rename(beside, target)
        return
    old = beside.with_suffix(".old")
    with locked_folder(target):
        try:
            os.rename(target, old)
            os.rename(beside, target)
        finally:
            if not target.exists():
                os.rename(old, target)
            shutil.rmtree(old, ignore_errors=True)


class _Build:
    """One store being written into a folder, which will be at `place`."""

    def __init__(self, folder, place, dtype, memory):
        self.folder, self.place, self.dtype, self.memory = folder, place, dtype, memory
        self.files, self.open_files = {}, []
        self.n_rows, self.n_columns, self.sparse = 0, None, None

    def run(self, X):
        try:
            self._write_rows(X)
            if self.sparse:
                self._write_sparse_columns()
            else:
                self._write_dense_columns()
            self._write_header()
        finally:
            for file in self.open_files:
                file.abandon()

    def _write_header(self):
        header = {
            "format": FORMAT,
            "shape": [self.n_rows, self.n_columns],
            "sparse": self.sparse,
            "byteorder": sys.byteorder,
            "dtype": np.dtype(self.dtype).name,
            "index_dtype": np.dtype(self.index_type).name if self.sparse else None,
            "chunk": CHUNK,
            "files": self.files,
        }
        header["checksum"] = header_checksum(header)
        file = self._open(HEADER)
        file.append(np.frombuffer(json.dumps(header).encode(), np.uint8))
        file.close()

    def _open(self, name):
        file = ArrayFile(self.folder, name, self.place)
        self.open_files.append(file)
        return file

    def _close(self, file):
        self.files[file.path.name] = file.close()

    def _write_rows(self, X):
        """Append every block of rows to the row files; learn the shape, count the columns."""
        values = self._open("rows.values")
        indices = None
        sizes = []
        for block in blocks(X, self.memory // 4):
            block = self._checked(block)
            if self.sparse and indices is None:
                indices = self._open("rows.indices")
                self.column_sizes = np.zeros(self.n_columns, np.int64)
                self.index_type = np.int32 if self.n_columns <= INT32_ENTRIES else np.int64
            self.n_rows += block.shape[0]
            if self.sparse:
                values.append(block.data)
                indices.append(block.indices.astype(self.index_type, copy=False))
                sizes.append(np.diff(block.indptr))
                self.column_sizes += np.bincount(block.indices, minlength=self.n_columns)
            else:
                values.append(block)
        if not self.n_rows or not self.n_columns:
            raise ValueError("X must have rows and columns")
        self._close(values)
        if self.sparse:
            self._close(indices)
            self.row_sizes = np.concatenate(sizes)
            if max(self.row_sizes.sum(), self.n_rows) > INT32_ENTRIES:
                self._widen("rows.indices")
            self._write_offsets("rows.offsets", self.row_sizes)

    def _checked(self, block):
        """A block of rows in the store's type, canonical if sparse; like the ones before it."""
        sparse = sp.issparse(block)
        block = sp.csr_array(block) if sparse else np.asarray(block)
        if block.ndim != 2:
            raise ValueError(f"blocks of rows must be two-dimensional, got {block.ndim} dimensions")
        if block.dtype.kind not in "biufO":
            raise ValueError(f"a store holds real numbers, got {block.dtype}")
        if self.n_columns is None:
            self.n_columns, self.sparse = int(block.shape[1]), sparse
            if self.dtype is None:
                self.dtype = np.float32 if block.dtype == np.float32 else np.float64
        if block.shape[1] != self.n_columns:
            raise ValueError(
                f"rows {self.n_rows} and after have {block.shape[1]} columns, those before them "
                f"{self.n_columns}"
            )
        if sparse != self.sparse:
            raise ValueError("blocks of rows must be all sparse or all dense")
        with naming_entries(X=block), np.errstate(over="ignore"):  # said below
            block = block.astype(self.dtype, copy=False)
        if sparse and not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        if not np.isfinite(block.data if sparse else block).all():
            last = self.n_rows + block.shape[0] - 1
            name = np.dtype(self.dtype).name
            raise ValueError(
                f"rows {self.n_rows} to {last} hold NaN or infinity, or values too large for {name}"
            )
        return block

    def _widen(self, name):
        """Write a file of int32 again as int64."""
        narrow = self.folder / f"{name}.narrow"
        os.rename(self.folder / name, narrow)
        file = self._open(name)
        for part in parts(np.memmap(narrow, np.int32, "r"), self.memory // 16):
            file.append(part.astype(np.int64))
        del part  # Windows removes no file that is mapped
        self._close(file)
        narrow.unlink()
        self.index_type = np.int64

    def _write_offsets(self, name, sizes):
        file = self._open(name)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        file.append(offsets.astype(self.index_type))
        self._close(file)

    def _write_dense_columns(self):
        rows = np.memmap(
            self.folder / "rows.values", self.dtype, "r", shape=(self.n_rows, self.n_columns)
        )
        width = max(1, self.memory // (2 * self.n_rows * rows.itemsize))
        file = self._open("columns.values")
        for start in range(0, self.n_columns, width):
            file.append(rows[:, start : start + width].T)
        self._close(file)

    def _write_sparse_columns(self):
        offsets = np.concatenate([[0], np.cumsum(self.column_sizes)])
        n_buckets = -(-int(offsets[-1]) * SORT_BYTES // self.memory)
        # the first columns of the buckets: as many entries in each as columns allow
        targets = np.arange(1, n_buckets) * (offsets[-1] / max(n_buckets, 1))
        long = np.flatnonzero(np.diff(offsets) > self.memory // SORT_BYTES)  # these by themselves
        ends = long[long + 1 < self.n_columns] + 1
        starts = np.concatenate([[0], np.searchsorted(offsets, targets), long, ends])
        starts = np.unique(starts)
        spools = [self.folder / f"bucket.{k}" for k in range(len(starts))]
        record = np.dtype([("row", self.index_type), ("column", np.int64), ("value", self.dtype)])
        for entries in self._entries_by_rows(record):
            entries = entries[np.argsort(entries["column"], kind="stable")]
            cuts = [*np.searchsorted(entries["column"], starts), len(entries)]
            for spool, start, stop in zip(spools, cuts, cuts[1:], strict=False):
                with io.BufferedWriter(NamedFile(self.place, spool, "ab")) as stream:
                    stream.write(entries[start:stop].view(np.uint8))
        values, indices = self._open("columns.values"), self._open("columns.indices")
        for spool, n_columns in zip(spools, np.diff([*starts, self.n_columns]), strict=True):
            for entries in self._entries_by_columns(spool, record, n_columns == 1):
                values.append(entries["value"])
                indices.append(entries["row"])
            spool.unlink(missing_ok=True)
        self._close(values)
        self._close(indices)
        self._write_offsets("columns.offsets", self.column_sizes)

    def _entries_by_columns(self, spool, record, is_column):
        """Yield a bucket's records, in parts if they are those of a single column."""
        if not spool.exists():
            return
        with open(spool, "rb") as stream:
            count = max(1, self.memory // SORT_BYTES) if is_column else -1
            while (entries := np.fromfile(stream, record, count)).size:
                # stable: rows ascend within a column
                yield entries[np.argsort(entries["column"], kind="stable")]

    def _entries_by_rows(self, record):
        """Yield the stored entries as records, in row order, as many at a time as memory allows."""
        values = mapped(self.folder / "rows.values", self.dtype)
        columns = mapped(self.folder / "rows.indices", self.index_type)
        ends = np.cumsum(self.row_sizes)
        size = max(1, self.memory // SORT_BYTES)
        for start in range(0, len(values), size):
            stop = min(start + size, len(values))
            entries = np.empty(stop - start, record)
            entries["value"] = values[start:stop]
            entries["column"] = columns[start:stop]
            entries["row"] = np.searchsorted(ends, np.arange(start, stop), side="right")
            yield entries


def mapped(path, dtype):
    """A file as a read-only array; mmap refuses empty files."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def parts(array, size):
    """Yield the array in parts of so many entries."""
    size = max(1, size)
    entries = getattr(array, "iloc", array)  # of a frame by their places, whatever its index says
    for start in range(0, len(array), size):
        yield entries[start : start + size]


def blocks(X, n_bytes):
    """Yield the rows of a matrix, or of a stream of blocks of rows, in blocks of limited size."""
    if _is_list_of_rows(X) or (hasattr(X, "__array__") and not hasattr(X, "ndim")):
        X = np.asarray(X)  # lists, and frames that are no arrays, may yield columns
    if sp.issparse(X):
        check_before_csr(X)
        X = X.tocsr()
        csr_structure(X)  # scipy slices without a look at it
        start = 0
        entries = max(1, n_bytes // 16)
        while start < X.shape[0]:
            last = min(int(X.indptr[start]) + entries, int(X.indptr[-1]))  # in range of its type
            stop = np.searchsorted(X.indptr, last, side="right") - 1
            stop = max(start + 1, int(stop))
            yield X[start:stop]
            start = stop
        if X.shape[0] == 0:
            yield X
    elif hasattr(X, "ndim"):
        if X.ndim != 2:
            raise ValueError(f"X must be two-dimensional, got {X.ndim} dimensions")
        yield from parts(X, n_bytes // max(1, X.shape[1] * 8)) if len(X) else [X]
    elif not hasattr(X, "__iter__"):
        raise TypeError(
            f"X must be an array, a sparse matrix or blocks of rows, got {type(X).__name__}"
        )
    else:
        for block in X:
            if isinstance(block, (list, tuple)) and len(block) and not _is_list_of_rows(block):
                raise TypeError(
                    f"blocks of rows must be two-dimensional arrays, got a {type(block).__name__} "
                    f"of {len(block)}; of a source of (X, y) give the rows: (X for X, y in source)"
                )
            yield from blocks(block if sp.issparse(block) else np.asarray(block), n_bytes)


def _is_list_of_rows(X):
    """Tell whether X is a list or tuple of rows, or of numbers, and not of blocks of rows."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) < 2
