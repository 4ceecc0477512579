"""Fitted models on disk: plain arrays and a JSON header, safe to load from a stranger.

A model file is an uncompressed .npz archive. `header` holds UTF-8 bytes of JSON: the format's
version, the class, its parameters, a summary of the result. `coef`, `intercept`, and where the
model has them `classes` and `feature_names`, are numeric or string arrays. Nothing in it is code,
and all of it is checked before an estimator is built.
"""

import dataclasses
import json

import numpy as np
from sklearn.base import RegressorMixin

from sublinear._archive import (
    ArchiveError,
    plain_parameters,
    plain_scalar,
    read_archive,
    storable_labels,
    write_archive,
)
from sublinear._fitted_parameters import PREDICTED_BY, fitted_with
from sublinear._result import Result
from sublinear.margin import L2SVMClassifier, SublinearPerceptron
from sublinear.pegasos import PegasosClassifier, PegasosRegressor
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.soft_margin import SIMBAClassifier
from sublinear.streaming import StreamingSVRGClassifier, StreamingSVRGRegressor, StreamResult
from sublinear.structured import SequencePegasos

__all__ = ["load_model", "save_model"]

FORMAT = "sublinear model"
VERSION = 1

_OF_STREAMS = (StreamingSVRGClassifier, StreamingSVRGRegressor)
_CLASSES = {
    kind.__name__: kind
    for kind in (
        *_OF_STREAMS,
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
_ARRAYS = {"coef", "intercept", "classes", "feature_names", *_CHAIN_ARRAYS}
_LEFT_OUT = {"trace", "parts"}  # of results
_MAY_BE_UNKNOWN = ("full_accesses", "bytes_read")  # None where they are not counted


def save_model(estimator, path):
    """Save a fitted estimator as one file of plain arrays.

    What prediction needs is saved, with the parameters and the result's figures. Training state
    (`dual_coef_`, the trace, what Streaming SVRG keeps of its stream) is not, nor are a callback
    and a random generator. The file appears at ``path`` complete or not at all.

    Parameters
    ----------
    estimator : a linear estimator or a SequencePegasos
        A fitted estimator: SDCAClassifier, SDCARegressor, PegasosClassifier, PegasosRegressor,
        StreamingSVRGClassifier, StreamingSVRGRegressor, SequencePegasos, SublinearPerceptron,
        L2SVMClassifier or SIMBAClassifier.
    path : str or path-like
        Where to write; an existing file is replaced.

    Raises
    ------
    TypeError
        If the estimator is of another class, or a class label or a parameter is neither number
        nor string.
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
        Ready to predict. Its `result_` has the figures of the fit without the trace.

    Raises
    ------
    OSError
        If the file is missing or cannot be read.
    ValueError
        If the file is not a model, is damaged, or was written by a newer version.

    Examples
    --------
    See `save_model`.
    """
    return read_model(path)[0]


def write_model(estimator, path, notes=None):
    """Save a fitted estimator and a small dict of ``notes`` on its data."""
    name = type(estimator).__name__
    if hasattr(estimator, "to_local"):
        raise TypeError(f"a distributed {name} holds its cluster: save its to_local()")
    if _CLASSES.get(name) is not type(estimator):
        hint = "; pickle it" if hasattr(estimator, "get_params") else ""
        if hasattr(estimator, "steps"):
            hint = "; save its last step, or pickle the whole"
        raise TypeError(f"cannot save a {name}; a model is one of {', '.join(_CLASSES)}{hint}")
    if hasattr(estimator, "support_vectors_"):
        raise ValueError(
            f"a model file holds coefficients of features, a {name} fitted with a kernel has none: "
            "pickle it"
        )
    if not hasattr(estimator, "coef_"):
        raise ValueError(f"this {name} is not fitted; call fit before saving it")
    arrays = {"coef": estimator.coef_, "intercept": np.asarray(estimator.intercept_)}
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        arrays["classes"] = storable_labels(classes)
    if name == SequencePegasos.__name__:
        arrays |= {part: getattr(estimator, f"{part}_") for part in _CHAIN_ARRAYS}
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names"] = _checked_names(estimator)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": name,
        "parameters": _parameters(estimator),
        "n_features_in": int(estimator.n_features_in_),
        "n_iter": int(estimator.n_iter_),
        "object_classes": classes is not None and classes.dtype == object,
        "result": _summary(estimator),
        "notes": notes or {},
    }
    write_archive(path, header, arrays)


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

    return read_archive(path, FORMAT, VERSION, build, required=("coef", "intercept"), known=_ARRAYS)


def _result_class(kind):
    return StreamResult if kind in _OF_STREAMS else Result


def _figures(kind):
    """Return the names of what is saved of a class's result."""
    fields = dataclasses.fields(_result_class(kind))
    return sorted({field.name for field in fields} - _LEFT_OUT)


def _summary(estimator):
    result = estimator.result_
    return {name: plain_scalar(getattr(result, name)) for name in _figures(type(estimator))}


def _checked_header(header):
    if not isinstance(header.get("class"), str) or header["class"] not in _CLASSES:
        raise ArchiveError(f"unknown class {header.get('class')!r}")
    for name, kind in (("parameters", dict), ("result", dict), ("notes", dict)):
        if not isinstance(header.get(name), kind):
            raise ArchiveError(f"damaged model file (no {name})")
    for name in ("n_features_in", "n_iter"):
        if type(header.get(name)) is not int or header[name] < 0:
            raise ArchiveError(f"damaged model file (no {name})")
    return header


def _rebuilt(header, arrays):
    kind = _CLASSES[header["class"]]
    estimator = kind(**_checked_parameters(kind, header["parameters"]))
    _check_arrays(header, arrays)
    result = _checked_result(kind, header["result"])
    intercept = arrays["intercept"][()]  # a number where it has no dimension
    if kind in _OF_STREAMS:
        estimator._restore(arrays["coef"], intercept, header["n_iter"], result)
    else:
        estimator.coef_, estimator.intercept_ = arrays["coef"], intercept
        estimator.n_iter_, estimator.result_ = header["n_iter"], result
    for name in _chain_arrays(header):
        setattr(estimator, f"{name}_", arrays[name])
    if "classes" in arrays:
        estimator.classes_ = arrays["classes"]
        if header.get("object_classes"):
            estimator.classes_ = estimator.classes_.astype(object)
    if "feature_names" in arrays:
        estimator.feature_names_in_ = arrays["feature_names"].astype(object)
    estimator.n_features_in_ = header["n_features_in"]
    return estimator


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
    return parameters


def _chain_arrays(header):
    return _CHAIN_ARRAYS if header["class"] == SequencePegasos.__name__ else ()


def _check_arrays(header, arrays):
    """Raise ArchiveError unless every array has the dtype and shape its class needs."""
    chain_arrays, n_features = _chain_arrays(header), header["n_features_in"]
    known = _ARRAYS - set(_CHAIN_ARRAYS) | set(chain_arrays)
    if not set(chain_arrays) <= set(arrays) <= known:
        raise ArchiveError(f"damaged model file (not the arrays of a {header['class']})")
    for name in ("coef", "intercept", *chain_arrays):
        array = arrays[name]
        if array.dtype not in (np.float32, np.float64):
            raise ArchiveError(f"{name} must be float32 or float64, not {array.dtype}")
        if not np.isfinite(array).all():
            raise ArchiveError(f"{name} is not finite")
    if issubclass(_CLASSES[header["class"]], RegressorMixin):
        if "classes" in arrays or arrays["intercept"].size != 1 or arrays["intercept"].ndim > 1:
            raise ArchiveError("damaged model file (not the arrays of a regressor)")
        expected = {"coef": (n_features,)}
    else:
        k = _n_classes(arrays)
        rows = 1 if k == 2 and not chain_arrays else k
        expected = {"coef": (rows, n_features), "intercept": (rows,)}
        expected |= {name: (k, k) if name == "transition" else (k,) for name in chain_arrays}
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise ArchiveError(f"{name} has shape {arrays[name].shape}, expected {shape}")
    names = arrays.get("feature_names")
    if names is not None and (names.dtype.kind != "U" or names.shape != (n_features,)):
        raise ArchiveError("feature_names must be one string for each feature")


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
        return isinstance(value, str)
    if name == "excess_risk_interval":
        numbers = isinstance(value, list) and len(value) == 2
        return numbers and all(isinstance(end, int | float) for end in value)
    return isinstance(value, int | float) or (name in _MAY_BE_UNKNOWN and value is None)
