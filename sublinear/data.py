"""Matrices that are expensive to read: larger than memory, or computed on demand."""

import ctypes
import json
import mmap
import os
import sys
import threading
import zlib
from pathlib import Path

import numpy as np

from sublinear import _dual_store_build as building
from sublinear._core.computed import ComputedMatrix
from sublinear._core.matrix import Matrix
from sublinear._documentation import with_parameters
from sublinear._validation import (
    check_flag,
    check_float_dtype,
    check_matrix,
    check_number,
    generator,
)

__all__ = ["AccessBudgetError", "DualStore", "FeatureOracle", "FourierFeatures"]

COUNTING = threading.Lock()  # of the values of FeatureOracles, which threads may share
LEAST_LINES = 32  # of a FeatureOracle that are kept, however long: a step reads 16


class DualStore:
    """A matrix on disk in row order and in column order, read by memory maps.

    The sublinear methods read a few rows and a few columns of a matrix. From a store they touch
    just the pages that hold them, so that a matrix larger than memory, or on a slow disk, costs
    what is read of it.

    Opening a store checks its header, the lengths of its files and the tables of where lines
    begin; values and indices are checked as well where the times of the files say that they were
    written after the store was built (a copy has to be read once, then), or on request. So verify
    a store that is a stranger's. Its files must not be written to while a fit reads them, which may
    end the process; `build` replaces a store, and fits go on with the old one, but on Windows,
    which replaces nothing that is open.

    Parameters
    ----------
    path : str or path-like
        A folder that `DualStore.build` has written.
    verify : bool, default=None
        Whether to read everything and compare it with its checksums; by default only the files
        whose time of modification is not that of the build.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        float32 or float64.
    n_stored : int
        Stored entries.
    is_sparse : bool
    nbytes : int
        Bytes on disk.

    Raises
    ------
    FileNotFoundError
        If there is no store at path.
    ValueError
        If the store is cut short, changed or of another format.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sublinear.data import DualStore
    >>> with TemporaryDirectory() as folder:
    ...     store = DualStore.build(Path(folder, "A"), np.eye(3, dtype=np.float32))
    ...     store.shape, store.n_stored
    ((3, 3), 9)
    """

    def __init__(self, path, *, verify=None):
        check_flag("verify", verify, optional=True)
        self.path = Path(path)
        self._header = self._read_header()
        self.shape = tuple(self._header["shape"])
        self.is_sparse = self._header["sparse"]
        self.dtype = np.dtype(self._header["dtype"])
        self.nbytes = sum(file["bytes"] for file in self._header["files"].values())
        self._check_sizes()
        for name, file in self._header["files"].items():
            modified = os.stat(self.path / name).st_mtime_ns != file["modified_ns"]
            if verify or name.endswith("offsets") or (verify is None and modified):
                self._verify(name)
        self._rows = self._map("rows", self.shape)
        self._columns = self._map("columns", self.shape[::-1])
        self.n_stored = len(self._rows[0]) if self.is_sparse else self._rows[0].size

    @classmethod
    def build(cls, path, X, *, dtype=None, memory=2**28, overwrite=False):
        """Write a store and open it.

        It is written beside its place and renamed, so that a build that fails leaves nothing. What
        a killed process leaves there (`.NAME.*.partial`, and `.NAME.*.old`, the store that was to
        be replaced) is removed by the next build, not on Windows nor where there are no locks.

        Parameters
        ----------
        path : str or path-like
            Where the folder of the store shall be.
        X : array-like, sparse matrix or array, or iterable of blocks of rows
            Finite numbers. Blocks are two-dimensional array-likes or sparse matrices, all with the
            same columns; they are read once, one at a time. A list of rows is an array-like.
        dtype : {float32, float64}, default=None
            The type of the values; by default float32 if X (or its first block) is, else float64.
        memory : int, default=2**28
            About how many bytes to use, apart from one block as it comes and from 16 bytes for
            each row and column.
        overwrite : bool, default=False
            Whether to replace a store that is there already, sound or damaged, if its header.json
            can still be read. A folder that holds anything else is left as it is.

        Returns
        -------
        DualStore

        Raises
        ------
        FileExistsError
            If there is something at path that may not be replaced.
        ValueError
            If blocks do not fit together, or hold NaN, infinity or what the type cannot hold.
        """
        check_number("memory", memory, low=2**12, integer=True)
        check_flag("overwrite", overwrite)
        if dtype is not None:
            check_float_dtype(dtype)
        building.build(path, X, dtype=dtype, memory=int(memory), overwrite=overwrite)
        return cls(path, verify=False)

    def matrix(self, constant=0.0):
        """Return the rows as solvers read them; its `transposed()` are the columns.

        Parameters
        ----------
        constant : float, default=0.0
            The value of one more column that is not stored; 0 for none.
        """
        columns = self._as_matrix(self._columns, self.shape[0])
        return self._as_matrix(self._rows, self.shape[1], constant, columns)

    def _as_matrix(self, arrays, length, constant=0.0, transposed=None):
        if self.is_sparse:
            return Matrix.of_canonical(*arrays, length, constant=constant, transposed=transposed)
        return Matrix(arrays[0], constant, transposed=transposed)

    def bytes_of(self, n_values):
        """Return how many bytes so many stored values take, with their indices.

        Parameters
        ----------
        n_values : int
            Stored values, as the `accesses` of a result count them.

        Returns
        -------
        n_bytes : int
        """
        index = np.dtype(self._header["index_dtype"]).itemsize if self.is_sparse else 0
        return int(n_values) * (self.dtype.itemsize + index)

    def verify(self):
        """Read the whole store and compare it with its checksums.

        Raises
        ------
        ValueError
            If a part of it differs.
        """
        for name in self._header["files"]:
            self._verify(name)

    def resident_bytes(self):
        """Return how many bytes of the store the operating system holds in memory now.

        After a fit from a cold cache that is what it made the system read. None where the system
        does not tell (it does on Linux and macOS).
        """
        maps = [a for a in (*self._rows, *self._columns) if isinstance(a, np.memmap)]
        counts = [_resident(array) for array in maps]
        return None if None in counts else sum(counts)

    def __repr__(self):
        kind = "sparse" if self.is_sparse else "dense"
        return f"DualStore({str(self.path)!r}, shape={self.shape}, {kind}, dtype={self.dtype})"

    def __reduce__(self):
        return DualStore, (self.path,)

    def _read_header(self):
        path = self.path / building.HEADER
        if not path.is_file():
            raise FileNotFoundError(f"{self.path}: no store, there is no {building.HEADER} in it")
        try:
            header = json.loads(path.read_text(encoding="utf-8"))
            intact = header["checksum"] == building.header_checksum(header)
        except (ValueError, KeyError, TypeError):
            intact = False
        if not intact:
            raise self._damaged(f"{building.HEADER} does not match its checksum")
        if header["format"] != building.FORMAT:
            raise ValueError(
                f"{self.path}: a store of format {header['format']}, this version reads format "
                f"{building.FORMAT}"
            )
        if header["byteorder"] != sys.byteorder:
            raise ValueError(f"{self.path}: a store of a machine with the other byte order")
        if not building.is_sound(header):
            raise self._damaged(f"{building.HEADER} makes no sense")
        return header

    def _check_sizes(self):
        for name, file in self._header["files"].items():
            path = self.path / name
            size = path.stat().st_size if path.is_file() else None
            if size != file["bytes"]:
                has = "is missing" if size is None else f"has {size} bytes"
                raise self._damaged(f"{name} {has}, {file['bytes']} were written")

    def _verify(self, name):
        chunk = self._header["chunk"]
        with open(self.path / name, "rb") as stream:
            for k, checksum in enumerate(self._header["files"][name]["checksums"]):
                if zlib.crc32(stream.read(chunk)) != checksum:
                    raise self._damaged(
                        f"bytes {k * chunk} to {(k + 1) * chunk} of {name} do not match their "
                        "checksum"
                    )
        side, _, part = name.partition(".")
        if part == "indices":  # a checksum does not tell who has written them
            last = self.shape[side == "rows"] - 1
            for indices in _pieces(self._array(name, self._header["index_dtype"])):
                if indices.min() < 0 or indices.max() > last:
                    raise self._damaged(f"{name} has indices that are not from 0 to {last}")

    def _damaged(self, how):
        return ValueError(f"{self.path}: the store was changed or damaged: {how}; build it again")

    def _map(self, side, shape):
        """The arrays of one order: values, and for sparse data indices and offsets."""
        values = self._array(f"{side}.values", self._header["dtype"])
        if not self.is_sparse:
            return (values.reshape(shape),)
        index = self._header["index_dtype"]
        offsets = np.fromfile(self.path / f"{side}.offsets", index)
        if offsets[0] != 0 or offsets[-1] != values.size or (np.diff(offsets) < 0).any():
            raise self._damaged(f"{side}.offsets does not say where lines begin")
        return values, self._array(f"{side}.indices", index), offsets

    def _array(self, name, dtype):
        return _advised(building.mapped(self.path / name, dtype))


def _pieces(array, size=2**20):
    return (array[start : start + size] for start in range(0, len(array), size))


def _advised(array):
    """Tell the system that pages will be read in random order: it would read ahead otherwise."""
    if isinstance(array, np.memmap) and hasattr(mmap, "MADV_RANDOM"):
        array._mmap.madvise(mmap.MADV_RANDOM)
    return array


def _resident(array):
    """Bytes of a memory map that are in memory, by mincore; None if the system has none."""
    if sys.platform not in ("linux", "darwin"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    start = array.ctypes.data // page * page
    length = array.ctypes.data + array.nbytes - start
    n_pages = -(-length // page)
    states = (ctypes.c_ubyte * n_pages)()
    if library.mincore(ctypes.c_void_p(start), ctypes.c_size_t(length), states) != 0:
        return None
    return int((np.frombuffer(states, np.uint8) & 1).sum()) * page


_STORAGE = """\
dtype : {float64, float32}, default=float64
        The type in which lines are kept.
    budget : int, default=None
        How many values may be computed; no limit by default.
    cache : int, default=2**26
        Bytes for rows, and for columns, that are kept."""


class AccessBudgetError(RuntimeError):
    """A FeatureOracle was asked for more values than its budget allows.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.data import FeatureOracle
    >>> oracle = FeatureOracle((2, 3), lambda i: np.ones(3), lambda j: np.ones(2), budget=2)
    >>> oracle.row(0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    sublinear.data.AccessBudgetError: row 0 has 3 values, but only 2 of the budget of 2 are left
    """


@with_parameters(storage=_STORAGE)
class FeatureOracle:
    """A matrix whose rows and columns a program computes when they are asked for.

    The sublinear methods ask for a few rows and a few columns, so features that are expensive to
    compute are computed only where they are needed. Every value is counted; lines are kept in a
    cache, and only what is computed counts.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns.
    row, column : callable
        Given a number, return that row, of shape (n_columns,), or that column, of shape
        (n_rows,): real and finite numbers.
    %(storage)s

    Attributes
    ----------
    accesses : int
        Values computed so far.
    n_rows_computed, n_columns_computed : int

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.data import FeatureOracle
    >>> A = np.arange(6.0).reshape(2, 3)
    >>> oracle = FeatureOracle(A.shape, lambda i: A[i], lambda j: A[:, j], budget=5)
    >>> oracle.column(1), oracle.accesses
    (array([1., 4.]), 2)
    """

    def __init__(self, shape, row, column, *, dtype=np.float64, budget=None, cache=2**26):
        if np.shape(shape) != (2,):
            raise ValueError(f"shape must be two numbers, those of rows and columns, got {shape!r}")
        for name, compute in (("row", row), ("column", column)):
            if not callable(compute):
                raise ValueError(f"{name} must be callable, got {compute!r}")
        for name, size in zip(("rows", "columns"), shape, strict=True):
            check_number(f"the number of {name}", size, low=1, integer=True)
        check_float_dtype(dtype)
        check_number("budget", budget, low=0, integer=True, optional=True)
        check_number("cache", cache, low=0, integer=True)
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)
        self.budget, self.cache = budget, cache
        self.accesses = self.n_rows_computed = self.n_columns_computed = 0
        self._compute_row, self._compute_column = row, column

    def row(self, i):
        """Compute row i.

        Parameters
        ----------
        i : int
            Its number, from 0 to n_rows - 1.

        Returns
        -------
        values : ndarray of shape (n_columns,)

        Raises
        ------
        AccessBudgetError
            If the budget does not allow it.
        IndexError
            For another number.
        ValueError
            If what comes out has a wrong shape or is not finite.
        """
        values = self._line("row", i, self._compute_row, *self.shape)
        self.n_rows_computed += 1
        return values

    def column(self, j):
        """Compute column j; errors are those of `row`.

        Parameters
        ----------
        j : int
            Its number, from 0 to n_columns - 1.

        Returns
        -------
        values : ndarray of shape (n_rows,)
        """
        values = self._line("column", j, self._compute_column, *self.shape[::-1])
        self.n_columns_computed += 1
        return values

    def _line(self, kind, number, compute, count, length):
        if not 0 <= number < count or number != int(number):
            raise IndexError(f"{kind} {number} is not there: the last of {count} is {count - 1}")
        with COUNTING:
            if self.budget is not None and self.accesses + length > self.budget:
                raise AccessBudgetError(
                    f"{kind} {number} has {length} values, but only {self.budget - self.accesses} "
                    f"of the budget of {self.budget} are left: raise budget, or stop earlier "
                    "(max_accesses)"
                )
            self.accesses += length
        try:
            return self._checked(kind, number, length, compute(int(number)))
        except BaseException:
            with COUNTING:
                self.accesses -= length
            raise

    def _checked(self, kind, number, length, values):
        values = np.asarray(values)
        if values.shape != (length,):
            raise ValueError(
                f"the oracle's {kind} {number} has shape {values.shape}, it must have ({length},)"
            )
        if values.dtype.kind not in "fiub":
            raise ValueError(f"the oracle's {kind} {number} holds {values.dtype}, no real numbers")
        with np.errstate(over="ignore"):
            converted = values.astype(self.dtype, copy=False)
        if not np.isfinite(converted).all():
            what = "what" if np.isfinite(values).all() else "NaN or infinity, which"
            raise ValueError(f"the oracle's {kind} {number} holds {what} {self.dtype} cannot hold")
        return converted

    def matrix(self, constant=0.0):
        """Return the rows as solvers read them; its `transposed()` are the columns.

        Parameters
        ----------
        constant : float, default=0.0
            The value of one more column that is not computed; 0 for none.
        """
        n_rows, n_columns = self.shape
        columns = self._computed(self.column, (n_columns, n_rows))
        return self._computed(self.row, self.shape, constant, columns)

    def _computed(self, compute, shape, constant=0.0, transposed=None):
        capacity = min(shape[0], max(LEAST_LINES, self.cache // (shape[1] * self.dtype.itemsize)))
        return ComputedMatrix(compute, shape, self.dtype, capacity, constant, transposed)


@with_parameters(storage=_STORAGE)
class FourierFeatures(FeatureOracle):
    """Random Fourier features of the rows of X, computed where they are asked for.

    sqrt(2 / n_components) cos(<omega_j, x_i> + phase_j), with omega_j from the normal distribution
    of variance 2 gamma: inner products of rows approach exp(-gamma |x - x'|^2).

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        The rows that features are computed of.
    n_components : int, default=1000
        Number of columns of the oracle.
    gamma : float, default=1.0
        Positive; that of the kernel exp(-gamma |x - x'|^2).
    %(random_draws)s
    %(storage)s

    Notes
    -----
    Rahimi and Recht, "Random features for large-scale kernel machines" (2007). Rows have length
    sqrt(2) at most, 1 on average.

    Examples
    --------
    >>> import numpy as np
    >>> from sublinear.data import FourierFeatures
    >>> features = FourierFeatures(np.eye(3), 500, gamma=0.5, random_state=0)
    >>> features.row(2).shape, features.column(7).shape, features.accesses
    ((500,), (3,), 503)
    """

    def __init__(
        self,
        X,
        n_components=1000,
        *,
        gamma=1.0,
        random_state=None,
        dtype=np.float64,
        budget=None,
        cache=2**26,
    ):
        check_number("n_components", n_components, low=1, integer=True)
        check_number("gamma", gamma, low=0, open_low=True)
        rng = generator(random_state)
        X = self.X = check_matrix(X, ensure_all_finite=False)
        self._directions = rng.standard_normal((n_components, X.shape[1])) * np.sqrt(2 * gamma)
        self._phases = rng.uniform(0, 2 * np.pi, n_components)
        super().__init__(
            (X.shape[0], n_components),
            self._fourier_row,
            self._fourier_column,
            dtype=dtype,
            budget=budget,
            cache=cache,
        )

    def _fourier_row(self, i):
        return self._waves(self.X[[i]] @ self._directions.T + self._phases)[0]

    def _fourier_column(self, j):
        return self._waves(self.X @ self._directions[j] + self._phases[j])

    def _waves(self, angles):
        return np.sqrt(2 / self.shape[1]) * np.cos(angles)

    def transform(self, X):
        """Return all features of other rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with as many columns as those of the oracle were made of.

        Returns
        -------
        features : ndarray of shape (n_rows, n_components), float64

        Raises
        ------
        ValueError
            For rows of another length, or values that are not finite.
        """
        X = check_matrix(X)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns, the oracle is made of {self.X.shape[1]}")
        return self._waves(X @ self._directions.T + self._phases)
