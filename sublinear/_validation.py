"""From what users pass to what solvers read: parameters, data, weights, seeds."""

import contextlib
import math
import numbers
import reprlib
import sys

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_consistent_length, validate_data

from sublinear._core.aligned import contiguous
from sublinear._core.iterates import AVERAGES
from sublinear._core.losses import COUNT_LOSSES
from sublinear._core.matrix import Matrix, check_before_csr, csr_structure
from sublinear._core.order import SAMPLINGS

VALUES_OF_CALL = 5000  # that a sparse product reads in the time that a call of it takes
COPIED_WHILE_READ = 2  # weights, in the time that a sparse product reads a value
LEAST_TOTAL = 1e-150  # of weights: losses times smaller ones lose digits, or all
LEAST_NORM, MOST_NORM = 1e-150, 1e150  # whose squares are in range
OUT_OF_RANGE = "scores leave the range of floating-point numbers: scale X down"
SEEDS = 2**32  # whole numbers from 0 that numpy.random.RandomState takes
NO_WEIGHT = "sample_weight is zero for every example: there is nothing to fit"


def check_number(
    name, value, *, low, high=math.inf, integer=False, open_low=False, optional=False, words=()
):
    """Raise ValueError unless value is a number in [low, high], or (low, high] with open_low.

    Infinite values are refused, None is unless the number is `optional`, strings but the `words`.
    """
    if optional and value is None:
        return
    if isinstance(value, str) and value in words:
        return
    kind = numbers.Integral if integer else numbers.Real
    inside = (
        isinstance(value, kind)
        and not isinstance(value, (bool, np.bool_))
        and _is_finite(name, value)
        and (low < value if open_low else low <= value)
        and value <= high
    )
    if not inside:
        noun = "an integer" if integer else "a number"
        bound = f" {'above' if open_low else 'of at least'} {low}"
        if low == -math.inf:
            bound = "" if integer else " that is finite"
        limit = f" {'and' if bound else 'of'} at most {high}" if math.isfinite(high) else ""
        hint = ": take its item()" if isinstance(value, np.ndarray) and value.ndim == 0 else ""
        *others, last = f"{noun}{bound}{limit}", *(f'"{word}"' for word in words)
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise ValueError(f"{name} must be {wanted}{_or_none(optional)}, got {value!r}{hint}")


def _is_finite(name, value):
    """Tell whether a number is finite; ValueError for an integer or fraction beyond float64."""
    try:
        return math.isfinite(value)
    except OverflowError as error:
        raise ValueError(f"{name} is beyond the range of floating-point numbers") from error


def _or_none(optional):
    return " or None" if optional else ""


def check_float_dtype(dtype):
    """Raise ValueError unless this is float64 or float32."""
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")


def check_sizes(least, **sizes):
    """Return sizes as int; ValueError unless all are integers of at least so much.

    Those of NumPy overflow.
    """
    for name, size in sizes.items():
        check_number(name, size, low=least, integer=True)
    return map(int, sizes.values())


def check_squared_norms(squares, most=sys.float_info.max, name="X"):
    """Raise ValueError unless the squared norms of rows, whose values are finite, are at most so.

    Parameters
    ----------
    squares : ndarray
    most : float, default=the largest number
    name : str, default="X"
    """
    if not np.max(squares) <= most:
        raise ValueError(f"the squared norm of a row overflows: scale {name} down")


def check_batch_size(batch_size):
    """Raise ValueError unless batch_size is "all" or a number of examples."""
    check_number("batch_size", batch_size, low=1, integer=True, words=("all",))


def check_batch_fits(batch_size, n_examples):
    """Raise ValueError unless a checked batch_size is "all" or at most n_examples."""
    if batch_size != "all" and batch_size > n_examples:
        raise ValueError(
            f'batch_size={batch_size} exceeds the {n_examples} examples; use "all" for all'
        )


def examples_of_batch(batch_size, n_examples):
    """Return a checked batch_size as a number; a stream's block may be shorter than a batch."""
    return n_examples if batch_size == "all" else min(batch_size, n_examples)


def check_step_parameters(estimator):
    """Raise ValueError unless the parameters of sub-gradient steps over batches make sense."""
    check_choice("sampling", estimator.sampling, SAMPLINGS)
    check_choice("average", estimator.average, AVERAGES)
    check_batch_size(estimator.batch_size)


def check_flag(name, value, *, auto=False, optional=False):
    """Raise ValueError unless value is a bool, "auto" where that is a choice, or None likewise."""
    is_auto = auto and isinstance(value, str) and value == "auto"
    if not (isinstance(value, (bool, np.bool_)) or is_auto or (optional and value is None)):
        choices = 'True, False or "auto"' if auto else "True or False"
        raise ValueError(f"{name} must be {choices}{_or_none(optional)}, got {value!r}")


def check_intercept_scaling(estimator):
    """Raise ValueError unless the constant feature is above 0 and its square finite."""
    value = estimator.intercept_scaling
    check_number("intercept_scaling", value, low=0, high=MOST_NORM, open_low=True)


def check_loss(estimator, losses):
    """Raise ValueError unless the loss is registered and its parameters make sense."""
    elsewhere = COUNT_LOSSES.keys() - losses.keys()
    if isinstance(estimator.loss, str) and estimator.loss in elsewhere:
        raise ValueError(
            f"{type(estimator).__name__} has no loss={estimator.loss!r}: StreamingSVRGRegressor "
            "(--solver svrg) has it"
        )
    check_choice("loss", estimator.loss, losses)
    used = losses[estimator.loss].parameters
    for name in {name for loss in losses.values() for name in loss.parameters}:
        # at 0 the Huber loss would vanish, and a smoothed one be none
        may_be_0 = name not in used or (name == "epsilon" and estimator.loss != "huber")
        check_number(name, getattr(estimator, name), low=0, open_low=not may_be_0)


def check_run_parameters(estimator):
    """Raise ValueError unless n_jobs, verbose and callback make sense, where there are such."""
    n_jobs, callback = (getattr(estimator, name, None) for name in ("n_jobs", "callback"))
    verbose = getattr(estimator, "verbose", 0)
    check_number("n_jobs", n_jobs, low=-math.inf, high=2**31 - 1, integer=True, optional=True)
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of threads, -1 for all, or None, not 0")
    if not isinstance(verbose, bool):
        check_number("verbose", verbose, low=0, integer=True)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable or None, got {callback!r}")


def check_choice(name, value, choices, *, optional=False):
    """Raise ValueError unless value is one of the choices, or None where it is `optional`."""
    if optional and value is None:
        return
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}{_or_none(optional)}; got {value!r}")


@contextlib.contextmanager
def naming_entries(**arrays):
    """Say in the error of a conversion to real numbers which entry of which array has none.

    An OverflowError becomes a ValueError.
    """
    for name, values in arrays.items():
        _refuse_missing_dates(name, values)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        for name, values in arrays.items():
            if fault := _conversion_fault(name, values):
                raise kind(f"{fault}: {error}") from error
        raise


def _refuse_missing_dates(name, values):
    """Raise ValueError if there are dates of which some are missing: the least integers."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
    elif hasattr(values, "head"):  # a frame or its column
        kind = np.asarray(values.head(1)).dtype.kind
    else:
        return
    if kind in "mM" and np.isnat(np.asarray(values)).any():
        raise ValueError(f"{name} has missing dates (NaT): leave these rows out, or fill them in")


def _conversion_fault(name, values):
    """Return "X[0, 1] is ...", the first entry that is no real number, "" if there is none."""
    if sp.issparse(values):
        return ""
    try:
        if np.asarray(values).dtype.kind in "fiub":
            return ""
    except ValueError:
        return f"{name} must have rows of one length"
    for place, value in np.ndenumerate(np.asarray(values, dtype=object)):
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return f"{name}{list(place) or ''} is {reprlib.repr(value)}"
    return ""


def check_training_data(
    estimator, X, y, *, y_numeric=False, reset=True, ensure_all_finite=True, skip_check_array=False
):
    """Return X and y as arrays that solvers can read, X float32 or float64, CSR if sparse.

    With `skip_check_array` they are such arrays already.

    What has a `matrix` of its own, a store or an oracle, is taken as it is by those who can.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    if has_matrix(X):
        if not getattr(estimator, "_takes_stores", False):
            refuse_lines(estimator)
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None)
        check_consistent_length(X, y)
        return note_features(estimator, X, reset), y
    check_before_csr(X)
    with naming_entries(X=X, y=y if y_numeric else ()):
        return validate_data(
            estimator,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=[np.float64, np.float32],
            y_numeric=y_numeric,
            ensure_all_finite=ensure_all_finite,
            skip_check_array=skip_check_array,
        )


def refuse_lines(estimator):
    """Raise ValueError: a fit does not take a store or an oracle."""
    raise ValueError(f"{type(estimator).__name__} needs rows in memory: X is a store or an oracle")


def has_matrix(X):
    """Tell whether X lends its rows and columns itself, as those of sublinear.data do."""
    return callable(getattr(X, "matrix", None)) and hasattr(X, "shape")


def as_matrix(X, constant=0.0, n_threads=1):
    """Return the Matrix of checked data, of a store or of an oracle."""
    return X.matrix(constant) if has_matrix(X) else Matrix(X, constant, n_threads=n_threads)


def note_features(estimator, X, reset=True):
    """Note, or compare, the number of features of what has a matrix of its own; returns it."""
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif estimator.n_features_in_ != X.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, {type(estimator).__name__} was fitted with "
            f"{estimator.n_features_in_}"
        )
    return X


def column_names(X):
    """Return the names of a data frame's or table's columns, a list of str; None if it has none.

    Raises
    ------
    TypeError
        If only some of the names are text.
    """
    columns = getattr(X, "columns", None)
    if isinstance(columns, list):  # those of Arrow's tables are data
        columns = getattr(X, "column_names", columns)
    names = [] if columns is None else list(columns)
    n_text = sum(isinstance(name, str) for name in names)
    if n_text == 0:
        return None
    if n_text < len(names):
        kinds = sorted({type(name).__qualname__ for name in names})
        raise TypeError(
            f"the columns of X are named by {' and '.join(kinds)}: name all of them by strings "
            "(X.columns = X.columns.astype(str)), or none"
        )
    return names


def agreed_names(known, names):
    """Return whichever of two lists of column names there is, None for none.

    Raises
    ------
    ValueError
        If they differ.
    """
    if known is None or names is None:
        return names if known is None else known
    if len(names) != len(known):
        raise ValueError(f"{len(names)} columns have names, not {len(known)} as before")
    for name, before in zip(names, known, strict=True):
        if name != before:
            raise ValueError(f"a column is named {name!r}, not {before!r} as before")
    return known


def check_names_fit(names, n_features):
    """Raise ValueError unless there are as many names, if any, as columns."""
    if names is not None and len(names) != n_features:
        raise ValueError(f"{n_features} columns, but {len(names)} feature_names")


def drop_weightless(X, y, weights):
    """Return X, y and weights without the rows of weight 0; y and weights may be None."""
    if weights is None or weights.all():
        return X, y, weights
    if has_matrix(X):
        raise ValueError(
            "sample_weight may be 0 for rows in memory only: X is a store or an oracle"
        )
    kept = weights > 0
    return X[kept], None if y is None else y[kept], weights[kept]


class RowNumbers:
    """The numbers that the rows kept by `drop_weightless` had before.

    Parameters
    ----------
    weights : ndarray of shape (n_rows,) or None
    """

    def __init__(self, weights):
        all_count = weights is None or weights.all()
        self.kept = None if all_count else np.flatnonzero(weights)
        self.count = None if weights is None else len(weights)

    def numbers(self, rows):
        """Return the numbers of some of the rows kept."""
        return rows if self.kept is None else self.kept[rows]

    def part(self, values):
        """Return those values of all rows, None for no values, that the rows kept have."""
        return values if values is None or self.kept is None else values[self.kept]

    def places(self, numbers):
        """Return where rows of these numbers are among those kept, which they have to be."""
        return numbers if self.kept is None else np.searchsorted(self.kept, numbers)

    def spread(self, values):
        """Return values of the rows kept as ones of all rows, 0 for the others."""
        if self.kept is None:
            return values
        result = np.zeros(self.count)
        result[self.kept] = values
        return result


def check_rows(estimator, X, *, reset=False, accept_sparse="csr", ensure_all_finite=True):
    """Return X as `check_training_data` does, without targets: rows to predict, mostly."""
    if has_matrix(X):
        if reset:
            refuse_lines(estimator)
        raise ValueError(
            "predictions need rows in memory: X is a store or an oracle; give blocks of its rows"
        )
    if hasattr(X, "__iter__") and not (hasattr(X, "__len__") or hasattr(X, "__array__")):
        raise TypeError(
            f"X must hold rows, got {type(X).__name__}: of a source take the blocks one by one, "
            "[model.predict(X) for X, y in source]"
        )
    check_before_csr(X)
    with naming_entries(X=X):
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=accept_sparse,
            accept_large_sparse=True,
            ensure_all_finite=ensure_all_finite,
            dtype=[np.float64, np.float32],
        )


def check_matrix(X, name="X", **options):
    """Return X, of no estimator, as `check_rows` does; options are those of `check_array`."""
    check_before_csr(X)
    with naming_entries(**{name: X}):
        kinds = [np.float64, np.float32]
        X = check_array(X, accept_sparse="csr", dtype=kinds, input_name=name, **options)
    if sp.issparse(X):
        csr_structure(X)
    return X


def dense_product(X, weights):
    """Return X @ weights as an array.

    SciPy copies a matrix of weights that are laid out by problem. That takes longer than a product
    for each of them where X stores few values.
    """
    n_copied = weights.shape[0] if weights.ndim == 2 else 0
    if sp.issparse(X) and X.nnz + VALUES_OF_CALL < COPIED_WHILE_READ * n_copied:
        return np.stack([X @ of_problem for of_problem in weights.T], axis=1)
    return safe_sparse_dot(X, weights, dense_output=True)


def products_with(estimator, X, weights):
    """Return X @ weights, dense, for rows to predict.

    Values of X that are not finite show in the products, which spares a look at all of them. But
    BLAS may leave out weights of 0, which scipy does not. ValueError for values that are not
    finite, and for products that are no number, as infinities cancel.
    """
    looks = not (sp.issparse(X) or np.all(weights))
    X = check_rows(estimator, X, ensure_all_finite=looks)
    if sp.issparse(X):
        csr_structure(X)  # scipy does not look whether the indices exist
    with np.errstate(over="ignore", invalid="ignore"):
        products = dense_product(X, weights)
    if not np.isfinite(products).all():
        if not looks:
            check_rows(estimator, X)
        if np.isnan(products).any():
            raise ValueError(OUT_OF_RANGE)
    return products


def as_real(name, values):
    """Return an array-like as float64; ValueError if its numbers are complex."""
    if sp.issparse(values):
        raise ValueError(f"{name} must be dense: convert it by toarray()")
    with naming_entries(**{name: values}):
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError(f"{name} must be real, got complex numbers")
        return array.astype(np.float64, copy=False)


def check_sample_weight(sample_weight, X):
    """Return the weights as float64 of shape (n_rows,), or None if they are all 1."""
    if sample_weight is None:
        return None
    weights = weights_of_rows(sample_weight, X)
    if not weights.any():
        raise ValueError(NO_WEIGHT)
    check_total_weight(total_of(weights), "sample_weight")
    return None if (weights == 1).all() else weights


def weights_of_rows(sample_weight, X):
    """Return weights, which may all be 0, as float64 of shape (n_rows,)."""
    weights = as_real("sample_weight", sample_weight)
    if weights.ndim == 0:
        weights = np.full(X.shape[0], float(weights))
    weights = contiguous(weights)
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must be one-dimensional, got shape {weights.shape}")
    check_consistent_length(weights, X)
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight must not contain NaN or infinity")
    if (weights < 0).any():
        raise ValueError("sample_weight must not be negative")
    return weights


def total_of(weights):
    """Return the sum of weights, inf if it overflows."""
    with np.errstate(over="ignore"):
        return float(weights.sum())


def check_total_weight(total, name):
    """Raise ValueError unless the sum of the weights is a number that can be divided by."""
    if total == 0:
        raise ValueError(f"the sum of {name} is zero: there is nothing to fit")
    if not LEAST_TOTAL < total < math.inf:
        raise ValueError(
            f"the sum of {name} is outside the range of floating-point numbers: scale the weights"
        )


def sequence_offsets(lengths, n_rows):
    """Return where every sequence begins, and n_rows at the end (intp); None: there is one."""
    if lengths is None:
        lengths = [n_rows]
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu":
        raise ValueError("lengths must be a list of whole numbers, one for each sequence")
    if lengths.min() < 1:
        raise ValueError(
            f"every sequence needs at least one row, but lengths[{lengths.argmin()}] is "
            f"{lengths.min()}: leave empty sequences out"
        )
    total = sum(lengths.tolist())  # which does not overflow
    if total != n_rows:
        raise ValueError(f"lengths add up to {total}, but X has {n_rows} rows")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


def check_seeds(random_state):
    """Raise ValueError unless it is None, an int, a RandomState or a Generator; draws nothing."""
    if isinstance(random_state, numbers.Integral):  # a RandomState of it would take 0.1 ms
        if not 0 <= random_state < SEEDS:
            raise ValueError(_no_seeds(random_state))
    elif not isinstance(random_state, np.random.Generator):
        _random_state(random_state)


def _random_state(random_state):
    """Return the numpy.random.RandomState of None or such a one."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ValueError(_no_seeds(random_state)) from error


def _no_seeds(random_state):
    return (
        "random_state must be an integer from 0 to 2**32 - 1, a numpy.random.RandomState, a "
        f"numpy.random.Generator or None, got {random_state!r}"
    )


def seed_sequence(random_state):
    """Return a numpy.random.SeedSequence from None, an int, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, numbers.Integral):
        check_seeds(random_state)
        return np.random.SeedSequence(int(random_state))
    words = _random_state(random_state).randint(2**31, size=4)
    return np.random.SeedSequence(words.tolist())


def generator(random_state):
    """Return a numpy.random.Generator from None, an int, a RandomState or a Generator."""
    return np.random.default_rng(seed_sequence(random_state))
