"""Fitted models on disk: plain arrays and a JSON header, safe to load from a stranger.

A model file is an uncompressed .npz archive. `header` holds UTF-8 bytes of JSON: the format's
version, the class, its parameters, a summary of the result, and of a model with a kernel what that
is. `coef` and `intercept`, or the centre of a ball, or support vectors and their coefficients, or
numbers of rows and their weights, and where the model has them `classes` and `feature_names`, are
numeric or string arrays. Nothing in it is code, and all of it is checked before an estimator is
built.
"""

import inspect
import json
import math

import numpy as np
from sklearn.base import ClassifierMixin, OutlierMixin

from sublinear._archive import (
    ArchiveError,
    plain_parameters,
    plain_scalar,
    read_archive,
    storable_labels,
    write_archive,
)
from sublinear._fitted_parameters import PREDICTED_BY, fitted_with, note_parameters
from sublinear._model_kernels import (
    SUPPORT,
    check_integers,
    checked_kernel,
    kernel_entry,
    set_expansion,
    support_arrays,
)
from sublinear._result import STATUSES, Result
from sublinear._stream import StreamSummary
from sublinear.geometry import MinimumEnclosingBall
from sublinear.kernel import KernelPegasosClassifier, KernelSDCAClassifier, KernelSDCARegressor
from sublinear.margin import L2SVMClassifier, SublinearPerceptron
from sublinear.pegasos import PegasosClassifier, PegasosRegressor
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.semi_streaming import (
    SemiStreamingEnclosingBall,
    SemiStreamingPerceptron,
    SemiStreamingResult,
)
from sublinear.soft_margin import SIMBAClassifier
from sublinear.streaming import StreamingSVRGClassifier, StreamingSVRGRegressor, StreamResult
from sublinear.structured import PegasosStructured, SequencePegasos

__all__ = ["load_model", "save_model"]

FORMAT = "sublinear model"
VERSION = 1

_OF_STREAMS = (StreamingSVRGClassifier, StreamingSVRGRegressor)
_MACHINES = (KernelSDCAClassifier, KernelSDCARegressor, KernelPegasosClassifier)
_OF_PASSES = (SemiStreamingPerceptron, SemiStreamingEnclosingBall)
_MAY_HAVE_KERNELS = (SublinearPerceptron, L2SVMClassifier, MinimumEnclosingBall)
_CLASSES = {
    kind.__name__: kind
    for kind in (
        *_OF_STREAMS,
        *_OF_PASSES,
        *_MACHINES,
        MinimumEnclosingBall,
        SDCAClassifier,
        SDCARegressor,
        PegasosClassifier,
        PegasosRegressor,
        SequencePegasos,
        SublinearPerceptron,
        L2SVMClassifier,
        SIMBAClassifier,
    )
}
_CHAIN_ARRAYS = ("transition", "start")
_ROWS = ("rows", "row_weights")
_WHOLE_NUMBERS = {"support", "rows"}
_DESCRIPTIONS = {"classes", "feature_names"}
_ARRAYS = {"coef", "intercept", "center", "support", "dual_coef", "center_coef", "n_support"}
_ARRAYS |= {*_DESCRIPTIONS, *_CHAIN_ARRAYS, *_ROWS, *SUPPORT}
_NUMBERS = {  # attributes
    MinimumEnclosingBall: ("radius_", "offset_"),
    SemiStreamingPerceptron: ("margin_estimate_", "margin_bound_"),
    SemiStreamingEnclosingBall: ("radius_estimate_", "radius_bound_"),
}
_LEFT_OUT = {"trace", "parts"}  # of results
_MAY_BE_UNKNOWN = ("full_accesses", "bytes_read")  # None where they are not counted


def save_model(estimator, path):
    """Save a fitted estimator as one file of plain arrays.

    What prediction needs is saved, with the parameters and the result's figures: the support
    vectors of a model with a kernel, among others, or what a semi-streaming one needs to be
    materialized. Training state (duals, the trace, what Streaming SVRG keeps of its stream) is not,
    nor are a callback and a random generator. The file appears at ``path`` complete or not at all.

    Parameters
    ----------
    estimator : a fitted estimator of this package
        Any but PegasosStructured, whose `problem` is code: keep its `coef_`, from which
        ``problem.decode(coef_, x)`` predicts, or pickle it. Of those of `sublinear.distributed`
        what ``to_local()`` returns.
    path : str or path-like
        Where to write; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator is a PegasosStructured or of another package, its kernel is a function, or
        a class label or a parameter is neither number nor string.
    ValueError
        If the estimator is not fitted, or its feature names are not one string for each feature.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import make_classification
    >>> from sublinear import SDCAClassifier, load_model, save_model
    >>> X, y = make_classification(random_state=0)
    >>> model = SDCAClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     save_model(model, path)
    ...     loaded = load_model(path)
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    write_model(estimator, path)


def load_model(path):
    """Load an estimator that `save_model` wrote; no code in the file is ever run.

    Parameters
    ----------
    path : str or path-like
        The model file.

    Returns
    -------
    estimator : object of the class that was saved
        Ready to predict. Its `result_` has the figures of the fit without the trace and the parts.

    Raises
    ------
    OSError
        If the file is missing or cannot be read.
    ValueError
        If the file is not a model, is damaged, or was written by a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from sublinear import SDCARegressor, load_model, save_model
    >>> model = SDCARegressor(random_state=0).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     save_model(model, path)
    ...     loaded = load_model(path)
    >>> type(loaded).__name__, bool((loaded.coef_ == model.coef_).all())
    ('SDCARegressor', True)
    """
    return read_model(path)[0]


def write_model(estimator, path, notes=None):
    """Save a fitted estimator and a small dict of ``notes`` on its data."""
    kind = type(estimator)
    _check_kind(estimator)
    fitted = ("coef_", "support_vectors_", "center_", "rows_")
    if not any(hasattr(estimator, found) for found in fitted):
        raise ValueError(f"this {kind.__name__} is not fitted; call fit before saving it")
    kernel = kernel_entry(estimator)
    arrays, classes = _arrays(estimator, kernel), getattr(estimator, "classes_", None)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": kind.__name__,
        "parameters": _parameters(estimator),
        "n_features_in": int(estimator.n_features_in_),
        "n_iter": int(estimator.n_iter_),
        "object_classes": classes is not None and classes.dtype == object,
        "result": _summary(estimator),
        "notes": notes or {},
    }
    if kernel:
        header["kernel"] = kernel
    if kind in _NUMBERS:
        numbers = _numbers(kind, kernel)
        header["numbers"] = {name: plain_scalar(getattr(estimator, name)) for name in numbers}
    if kind in _OF_PASSES:
        counts = estimator.stream_._asdict()
        header["stream"] = {name: plain_scalar(count) for name, count in counts.items()}
    write_archive(path, header, arrays)


def _check_kind(estimator):
    """Raise TypeError for what is no model that a file holds."""
    name = type(estimator).__name__
    if hasattr(estimator, "to_local"):
        raise TypeError(f"a distributed {name} holds its cluster: save its to_local()")
    if isinstance(estimator, PegasosStructured):
        raise TypeError(
            f"cannot save a {name}, whose problem is code: pickle it, or keep its coef_ "
            "(numpy.save), from which problem.decode(coef_, x) predicts"
        )
    if _CLASSES.get(name) is not type(estimator):
        hint = "; pickle it" if hasattr(estimator, "get_params") else ""
        if hasattr(estimator, "steps"):
            hint = "; save its last step, or pickle the whole"
        raise TypeError(f"cannot save a {name}; a model is one of {', '.join(_CLASSES)}{hint}")


def _arrays(estimator, kernel):
    """Return all arrays of a model by name."""
    names = _array_names(type(estimator), kernel, lambda name: hasattr(estimator, f"{name}_"))
    arrays = {part: np.asarray(getattr(estimator, f"{part}_")) for part in names}
    if kernel:
        arrays |= support_arrays(estimator)
    if getattr(estimator, "classes_", None) is not None:
        arrays["classes"] = storable_labels(estimator.classes_)
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names"] = _checked_names(estimator)
    return arrays


def _array_names(kind, kernel, is_there):
    """Return the arrays by which models of a kind predict, but for the support vectors.

    `is_there` tells of a name whether a model has it: of weights or a centre to be materialized.
    """
    if kind in _OF_PASSES:
        sum_of_rows = "coef" if issubclass(kind, ClassifierMixin) else "center"
        return (*_ROWS, sum_of_rows) if is_there(sum_of_rows) else _ROWS
    if issubclass(kind, OutlierMixin):
        return ("support", "center_coef") if kernel else ("center",)
    if kernel:
        return "support", "dual_coef", "intercept"
    return "coef", "intercept", *(_CHAIN_ARRAYS if kind is SequencePegasos else ())


def _numbers(kind, kernel):
    """Return the attributes of a kind that are single numbers, but for those of its result."""
    return *_NUMBERS[kind], *(("_center_square",) if kernel else ())


def _parameters(estimator):
    """Return the parameters, those by which the model predicts as the fit had them."""
    parameters = {
        name: fitted_with(estimator, name) if name in PREDICTED_BY else value
        for name, value in plain_parameters(estimator).items()
    }
    for name, value in parameters.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"cannot save {name}={value!r}: parameters in a model file are numbers and text"
            ) from error
    return parameters


def _checked_names(estimator):
    """Return the names of the features as an array that needs no pickling."""
    names = np.asarray(estimator.feature_names_in_)
    if not all(isinstance(name, str) for name in names.flat):
        raise ValueError(f"feature_names_in_ must hold strings, got {names.tolist()}")
    names = names.astype(str)
    if names.shape != (estimator.n_features_in_,):
        raise ValueError(
            f"feature_names_in_ holds {names.size} names, but the model has "
            f"{estimator.n_features_in_} features"
        )
    return names


def read_model(path):
    """Return the estimator in a model file and the notes saved with it."""

    def build(header, arrays):
        header = _checked_header(header)
        return _rebuilt(header, arrays), header["notes"]

    return read_archive(path, FORMAT, VERSION, build, known=_ARRAYS)


def _result_class(kind):
    if kind in _OF_PASSES:
        return SemiStreamingResult
    return StreamResult if kind in _OF_STREAMS else Result


def _figures(kind):
    """Return the names of what is saved of a class's result."""
    return sorted(set(inspect.signature(_result_class(kind)).parameters) - _LEFT_OUT)


def _summary(estimator):
    result = estimator.result_
    return {name: plain_scalar(getattr(result, name)) for name in _figures(type(estimator))}


def _checked_header(header):
    if not isinstance(header.get("class"), str) or header["class"] not in _CLASSES:
        raise ArchiveError(f"unknown class {header.get('class')!r}")
    for name in ("parameters", "result", "notes"):
        if not isinstance(header.get(name), dict):
            raise ArchiveError(f"damaged model file (no {name})")
    for name in ("n_features_in", "n_iter"):
        if type(header.get(name)) is not int or header[name] < 0:
            raise ArchiveError(f"damaged model file (no {name})")
    return header


def _rebuilt(header, arrays):
    kind, kernel = _CLASSES[header["class"]], header.get("kernel")
    estimator = kind(**_checked_parameters(kind, header["parameters"]))
    note_parameters(estimator)
    fitted = None
    if kind in _MACHINES or (kernel is not None and kind in _MAY_HAVE_KERNELS):
        fitted = checked_kernel(kind, kernel)
    elif kernel is not None:
        raise ArchiveError(f"damaged model file (a {kind.__name__} has no kernel)")
    _check_arrays(kind, header, arrays)
    result = _checked_result(kind, header["result"])
    estimator.n_features_in_ = header["n_features_in"]
    if "classes" in arrays:
        estimator.classes_ = arrays["classes"]
        if header.get("object_classes"):
            estimator.classes_ = estimator.classes_.astype(object)
    if "feature_names" in arrays:
        estimator.feature_names_in_ = arrays["feature_names"].astype(object)
    names = _array_names(kind, kernel, arrays.__contains__)
    values = {name: arrays[name][()] for name in names}  # some are numbers
    if kind in _OF_STREAMS:
        estimator._restore(values["coef"], values["intercept"], header["n_iter"], result)
        return estimator
    for name, value in values.items():
        setattr(estimator, f"{name}_", value)
    if fitted is not None:
        set_expansion(estimator, fitted, kernel, arrays)
    if kind in _NUMBERS:
        vars(estimator).update(_checked_numbers(kind, kernel, header.get("numbers")))
    if kind in _OF_PASSES:
        estimator.stream_ = _checked_stream(header.get("stream"))
        estimator.rows_ = _checked_rows(arrays["rows"], estimator.stream_.rows)
    estimator.n_iter_, estimator.result_ = header["n_iter"], result
    return estimator


def _checked_numbers(kind, kernel, numbers):
    """Return the single numbers of a model; what is not proved may be no finite one."""
    if not isinstance(numbers, dict) or sorted(numbers) != sorted(_numbers(kind, kernel)):
        raise ArchiveError(f"damaged model file (not the numbers of a {kind.__name__})")
    for name, value in numbers.items():
        if not isinstance(value, float):
            raise ArchiveError(f"damaged model file ({name} is {value!r})")
    return numbers


def _checked_stream(counts):
    """Return the StreamSummary of the source that a model is made of rows of."""
    if not isinstance(counts, dict) or sorted(counts) != sorted(StreamSummary._fields):
        raise ArchiveError("damaged model file (not the counts of a source)")
    for name, value in counts.items():
        if type(value) is not int or value < 0:
            raise ArchiveError(f"damaged model file ({name} of the source is {value!r})")
    return StreamSummary(**counts)


def _checked_rows(rows, end):
    """Return the numbers of a model's rows; `materialize` looks for them in order."""
    check_integers("rows", rows)
    if np.any(rows[1:] <= rows[:-1]) or rows.min(initial=0) < 0 or rows.max(initial=-1) >= end:
        raise ArchiveError(f"rows must be ascending and distinct, from 0 to {end - 1}")
    return rows.astype(np.int64)


def _checked_parameters(kind, parameters):
    known = set(kind().get_params(deep=False))
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ArchiveError(f"unknown parameter {unknown[0]!r} of {kind.__name__}")
    parameters = dict(parameters)
    weights = parameters.get("class_weight")
    if isinstance(weights, list):
        parameters["class_weight"] = {label: float(weight) for label, weight in weights}
    if parameters.get("cost") is not None:
        parameters["cost"] = np.array(parameters["cost"], dtype=np.float64)
    for name, value in parameters.items():
        plain = isinstance(value, bool | int | float | str) or value is None
        known_kind = {"class_weight": dict, "cost": np.ndarray}.get(name)
        if not plain and not (known_kind and isinstance(value, known_kind)):
            raise ArchiveError(f"parameter {name!r} is neither a number nor a string")
        if isinstance(value, float) and math.isnan(value):
            raise ArchiveError(f"parameter {name!r} is NaN")
    return parameters


def _check_arrays(kind, header, arrays):
    """Raise ArchiveError unless every array has the dtype and shape its class needs.

    But for support vectors and their numbers.
    """
    kernel, n_features = header.get("kernel"), header["n_features_in"]
    names = set(_array_names(kind, kernel, arrays.__contains__))
    known = names | _DESCRIPTIONS | set(SUPPORT if kernel else ())
    if kind in _MACHINES:
        known.add("n_support")
    if not names <= set(arrays) <= known:
        raise ArchiveError(f"damaged model file (not the arrays of a {kind.__name__})")
    kinds = ("float64",) if kernel or kind in _OF_PASSES else ("float32", "float64")
    for name in sorted(names - _WHOLE_NUMBERS):
        array = arrays[name]
        if array.dtype not in kinds:
            raise ArchiveError(f"{name} must be {' or '.join(kinds)}, not {array.dtype}")
        if not np.isfinite(array).all():
            raise ArchiveError(f"{name} is not finite")
    for name, shape in _expected_shapes(kind, header, arrays).items():
        if arrays[name].shape != shape:
            raise ArchiveError(f"{name} has shape {arrays[name].shape}, expected {shape}")
    found = arrays.get("feature_names")
    if found is not None and (found.dtype.kind != "U" or found.shape != (n_features,)):
        raise ArchiveError("feature_names must be one string for each feature")


def _expected_shapes(kind, header, arrays):
    kernel, n_features = header.get("kernel"), header["n_features_in"]
    if issubclass(kind, ClassifierMixin) or kind is SequencePegasos:
        return _shapes_of_classes(kind, kernel, n_features, arrays)
    if {"classes", "n_support"} & set(arrays):
        raise ArchiveError(f"damaged model file (not the arrays of a {kind.__name__})")
    if kind in _OF_PASSES:
        return _shapes_of_rows(arrays, "center", (n_features,))
    if issubclass(kind, OutlierMixin):
        return {"center_coef": arrays["support"].shape} if kernel else {"center": (n_features,)}
    if kernel:
        return {"dual_coef": (1, arrays["support"].size), "intercept": (1,)}
    is_number = arrays["intercept"].size == 1 and arrays["intercept"].ndim <= 1
    return {"coef": (n_features,)} | ({} if is_number else {"intercept": ()})


def _shapes_of_classes(kind, kernel, n_features, arrays):
    k = _n_classes(arrays)
    if kind is SequencePegasos:
        return {"coef": (k, n_features), "intercept": (k,), "transition": (k, k), "start": (k,)}
    if kind in _OF_PASSES:
        if k > 2:
            raise ArchiveError(f"class labels of a {kind.__name__} must be two")
        return _shapes_of_rows(arrays, "coef", (1, n_features))
    n_problems = 1 if k == 2 else k
    if not kernel:
        return {"coef": (n_problems, n_features), "intercept": (n_problems,)}
    size = arrays["support"].size
    if "n_support" not in arrays:
        return {"dual_coef": (n_problems, size), "intercept": (n_problems,)}
    if k == 2:
        raise ArchiveError("damaged model file (two classes are no pairs)")
    n_pairs = k * (k - 1) // 2
    return {"n_support": (k,), "dual_coef": (k - 1, size), "intercept": (n_pairs,)}


def _shapes_of_rows(arrays, name, shape):
    """Return the shapes of a semi-streaming model, materialized as an array of a name or not."""
    return {"row_weights": arrays["rows"].shape} | ({name: shape} if name in arrays else {})


def _n_classes(arrays):
    """Return the number of class labels."""
    classes = arrays.get("classes")
    if classes is None or classes.ndim != 1 or classes.dtype.kind not in "biufU":
        raise ArchiveError("damaged model file (no class labels)")
    if classes.size < 2 or np.any(classes[1:] <= classes[:-1]):
        raise ArchiveError("class labels must be two or more, ascending and distinct")
    return classes.size


def _checked_result(kind, summary):
    if sorted(summary) != _figures(kind):
        raise ArchiveError("damaged model file (not the figures of a result)")
    for name, value in summary.items():
        if not _is_figure(name, value):
            raise ArchiveError(f"damaged model file ({name} of the result is {value!r})")
    pairs = {name: tuple(value) for name, value in summary.items() if isinstance(value, list)}
    return _result_class(kind)(**summary | pairs)


def _is_figure(name, value):
    """Tell whether a result may have such a value under that name."""
    if name == "status":
        return isinstance(value, str) and value in STATUSES
    if name == "excess_risk_interval":
        numbers = isinstance(value, list) and len(value) == 2
        return numbers and all(isinstance(end, float) for end in value)
    is_count = type(value) is int and value >= 0
    return is_count or isinstance(value, float) or (name in _MAY_BE_UNKNOWN and value is None)
