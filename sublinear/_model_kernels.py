"""Sums of kernel functions in model files: the kernel in the header, support vectors as arrays."""

from itertools import combinations

import numpy as np
import scipy.sparse as sp

from sublinear._archive import ArchiveError, plain_scalar
from sublinear._core.kernels import KERNELS
from sublinear._kernel_machines.model import KernelModel, Reduction, SupportPanels
from sublinear._kernel_machines.saddle import NAMES
from sublinear._kernel_machines.training import FittedKernel, check_kernel_shape

DENSE = ("support_vectors",)
SPARSE = ("support_data", "support_indices", "support_indptr")
SUPPORT = (*DENSE, *SPARSE)


def kernel_entry(estimator):
    """Return what a header says of a model's kernel, None if it has none.

    Raises
    ------
    TypeError
        If the kernel is a function, which no file holds.
    """
    fitted = getattr(estimator, "_fitted_kernel", None)
    if fitted is None:
        return None
    if callable(fitted.name):
        raise TypeError(
            f"cannot save a {type(estimator).__name__} whose kernel is a function: pickle it, or "
            'fit it to the matrix of kernel values (kernel="precomputed")'
        )
    entry = {name: plain_scalar(value) for name, value in fitted._asdict().items()}
    if isinstance(estimator, KernelModel):
        entry |= {"is_exact": bool(estimator._is_exact), "spread": float(estimator._spread)}
        reduction = estimator.reduction_
        entry["reduction"] = reduction and [int(reduction.n_support), float(reduction.primal)]
    return entry


def support_arrays(estimator):
    """Return the support vectors as arrays by name; those of pairs of classes with their counts."""
    vectors = estimator.support_vectors_
    if sp.issparse(vectors) and not vectors.has_canonical_format:
        vectors = vectors.copy()
        vectors.sum_duplicates()
    parts = [vectors.data, vectors.indices, vectors.indptr] if sp.issparse(vectors) else [vectors]
    arrays = dict(zip(SPARSE if sp.issparse(vectors) else DENSE, parts, strict=True))
    if hasattr(estimator, "n_support_"):
        arrays["n_support"] = estimator.n_support_
    return arrays


def checked_kernel(kind, entry):
    """Return the FittedKernel of an entry; ArchiveError if models of the kind have no such one."""
    names = (*KERNELS, "precomputed") if issubclass(kind, KernelModel) else NAMES[1:]
    if not isinstance(entry, dict) or entry.get("name") not in names:
        raise ArchiveError(f"damaged model file (not the kernel of a {kind.__name__})")
    fitted = FittedKernel(*(entry.get(name) for name in FittedKernel._fields))
    gamma = 1.0 if fitted.is_precomputed else fitted.gamma
    if not isinstance(gamma, float):
        raise ArchiveError("damaged model file (gamma is no number)")
    check_kernel_shape(fitted._replace(gamma=gamma))
    return fitted


def set_expansion(estimator, fitted, entry, arrays):
    """Make a model of a checked kernel, and of arrays whose shapes are right, its support's aside.

    Raises
    ------
    ArchiveError
        If the support vectors are none of such a model.
    """
    n_features = estimator.n_features_in_
    estimator._fitted_kernel = fitted
    estimator.support_ = _checked_support(arrays["support"], fitted, n_features)
    n_support = len(estimator.support_)
    shape = (0, 0) if fitted.is_precomputed else (n_support, n_features)
    estimator.support_vectors_ = _checked_vectors(arrays, shape)
    if isinstance(estimator, KernelModel):
        _set_machine(estimator, entry)
        _set_pairs(estimator, arrays.get("n_support"))


def check_integers(name, array):
    """Raise ArchiveError unless an array is a list of whole numbers."""
    if array.dtype.kind != "i" or array.ndim != 1:
        raise ArchiveError(f"{name} must be a 1-d array of whole numbers")


def _checked_support(support, fitted, n_features):
    check_integers("support", support)
    end = n_features if fitted.is_precomputed else np.iinfo(np.int64).max
    if support.min(initial=0) < 0 or support.max(initial=0) >= end:
        raise ArchiveError("support is out of range")
    return support


def _checked_vectors(arrays, shape):
    """Return the support vectors, of such a shape."""
    names = [name for name in SUPPORT if name in arrays]
    if names not in (list(DENSE), list(SPARSE)):
        raise ArchiveError("damaged model file (not the support vectors of one model)")
    values = arrays[names[0]]
    if values.dtype not in (np.float32, np.float64) or not np.isfinite(values).all():
        raise ArchiveError("support vectors must be finite, and float32 or float64")
    if names == list(DENSE):
        if values.shape != shape:
            raise ArchiveError(f"support_vectors has shape {values.shape}, expected {shape}")
        return values
    for name in SPARSE[1:]:
        check_integers(name, arrays[name])
    vectors = sp.csr_array(tuple(arrays[name] for name in SPARSE), shape=shape)
    vectors.check_format(full_check=True)  # compiled loops follow the indices
    if not vectors.has_canonical_format:
        raise ArchiveError("support vectors have columns out of order, or twice")
    return vectors


def _set_machine(estimator, entry):
    """Set what a kernel machine knows of its kernel values; a fit does not go on from it."""
    is_exact, spread, reduction = (entry.get(name) for name in ("is_exact", "spread", "reduction"))
    if not (isinstance(is_exact, bool) and isinstance(spread, float) and 0 <= spread < np.inf):
        raise ArchiveError("damaged model file (not the kernel values of a machine)")
    estimator._is_exact, estimator._spread = is_exact, spread
    estimator.reduction_ = None if reduction is None else _checked_reduction(reduction)
    estimator._n_rows_fit, estimator._panels = 0, SupportPanels()


def _checked_reduction(reduction):
    if isinstance(reduction, list) and [type(number) for number in reduction] == [int, float]:
        return Reduction(*reduction)
    raise ArchiveError(f"damaged model file (reduction is {reduction!r})")


def _set_pairs(estimator, n_support):
    """Set the pairs of classes, none without the counts of their support vectors."""
    if hasattr(estimator, "classes_"):
        n_paired = 0 if n_support is None else len(estimator.classes_)
        estimator._pairs = list(combinations(range(n_paired), 2))
    if n_support is not None:
        check_integers("n_support", n_support)
        if n_support.min() < 0 or n_support.sum() != len(estimator.support_):
            raise ArchiveError("n_support are not the counts of support vectors")
        estimator.n_support_ = n_support.astype(np.int64)
