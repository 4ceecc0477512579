"""Files of NumPy and SciPy, .npy and .npz: pickled objects are never loaded."""

import io
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
from scipy import sparse

from sublinear._readers.dataset import Dataset
from sublinear._readers.files import check_readable


def read_npy(path, labels=None):
    return Dataset(map_npy(path), read_labels(labels))


def map_npy(path):
    """Return the 2-d array in a .npy file, memory-mapped."""
    X = _load_array(path, mmap_mode="r")
    if X.ndim != 2:
        raise ValueError(f"{path}: {X.ndim}-dimensional; the rows must form a 2-d array")
    _check_numeric(path, "X", X)
    return X


def read_npz(path, labels=None):
    arrays = _load_arrays(path)
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2:
            raise ValueError(f"{path}: X is {X.ndim}-dimensional; it must be 2-d")
        _check_numeric(path, "X", X)
    else:
        X = _sparse_from(path, arrays)
    if labels is None and "y" in arrays:
        return Dataset(X, _as_labels(path, arrays["y"]))
    return Dataset(X, read_labels(labels))


def read_labels(labels):
    if labels is None:
        return None
    labels = Path(labels)
    check_readable(labels)
    return _as_labels(labels, _load_array(labels))


def _as_labels(path, y):
    y = np.asarray(y)
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.ndim != 1:
        raise ValueError(f"{path}: labels must form a 1-d array, not one of shape {y.shape}")
    if y.dtype.kind == "S":
        try:
            y = np.char.decode(y, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: labels must be UTF-8 text: {error}") from error
    if y.dtype.kind not in "biufU":
        raise ValueError(f"{path}: labels must be numbers or strings, not {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"{path}: label {int(np.argmin(np.isfinite(y)))} is not finite")
    return y


def _check_numeric(path, name, array):
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {name} must hold real numbers, not {array.dtype}")


def _load_array(path, mmap_mode=None):
    array = _load_numpy(path, mmap_mode)
    if not isinstance(array, np.ndarray):
        array.close()
        raise ValueError(f"{path}: an archive of arrays (.npz) where one array (.npy) was expected")
    return array


def _load_arrays(path):
    archive = _load_numpy(path)
    if isinstance(archive, np.ndarray):
        raise ValueError(f"{path}: one array (.npy) where an archive of arrays (.npz) was expected")
    with archive:
        names = [name for name in archive.files if name in _NPZ_NAMES]
        return {name: _load_member(path, archive, name) for name in names}


_NPZ_NAMES = ("X", "y", "format", "shape", "data", "indices", "indptr")


def _load_numpy(path, mmap_mode=None):
    try:
        with open(path, "rb") as stream:
            if stream.peek(1)[:1] == np.lib.format.MAGIC_PREFIX[:1]:
                read_array_header(stream, os.path.getsize(path))
        return np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    except _ARRAY_ERRORS as error:
        raise ValueError(f"{path}: {_numpy_fault(error)}") from error


def _load_member(path, archive, name):
    try:
        return _array_in(archive.zip.read(f"{name}.npy"))
    except _ARRAY_ERRORS as error:
        raise ValueError(f"{path}, array {name!r}: {_numpy_fault(error)}") from error


def read_array_header(stream, size):
    """Return shape, order and dtype of the array in a .npy file of so many bytes; read no more.

    Raises
    ------
    ValueError
        If it holds Python objects, or an array larger than the file: NumPy would make room for it.
    """
    start = stream.tell()
    version = np.lib.format.read_magic(stream)
    read_header = _HEADERS.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of the format is for structured arrays")
    shape, in_columns, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("Python objects, which are never loaded")
    room = size - (stream.tell() - start)
    # entries of no size would be given one
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize > room:
        raise ValueError(f"no room for an array of shape {shape} and type {dtype}")
    return shape, "F" if in_columns else "C", dtype


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _array_in(data):
    """Return the array in the bytes of a .npy file, read-only; numpy copies it twice, in pieces."""
    stream = io.BytesIO(data)
    shape, order, dtype = read_array_header(stream, len(data))
    return np.ndarray(shape, dtype, data, stream.tell(), order=order)


_ARRAY_ERRORS = (
    *(ValueError, TypeError, KeyError, EOFError, OSError),
    *(SyntaxError, tokenize.TokenError),  # in a header
    *(RuntimeError, zipfile.BadZipFile, zlib.error),  # the first one of what zipfile cannot read
)


def _numpy_fault(error):
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return "not an array file, or one that holds pickled objects, which are never loaded"
    return f"damaged or not an array file ({error})"


def _sparse_from(path, arrays):
    missing = [name for name in ("data", "indices", "indptr", "shape") if name not in arrays]
    if missing:
        raise ValueError(
            f"{path}: neither an array X nor a CSR matrix (no array {', '.join(missing)}); "
            "save the rows with scipy.sparse.save_npz, or with numpy.savez as X and y"
        )
    format = str(np.asarray(arrays.get("format", "csr")).astype("U"))
    build = {"csr": sparse.csr_array, "csc": sparse.csc_array}.get(format)
    if build is None:
        raise ValueError(f"{path}: sparse format {format!r}; save the matrix in CSR format")
    for name in ("indices", "indptr", "shape"):
        if arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1:
            raise ValueError(f"{path}: {name} must be a 1-d array of whole numbers")
    _check_numeric(path, "data", arrays["data"])
    try:
        parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
        X = build(parts, shape=tuple(arrays["shape"].tolist()))
        # Out-of-range indices of a stranger's file must not reach compiled code.
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a valid sparse matrix ({error})") from error
    return X.tocsr()
