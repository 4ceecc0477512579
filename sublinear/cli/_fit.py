"""``sublinear fit``: train a model and save it."""

import math
import sys

import numpy as np

from sublinear._callbacks import rows_shown
from sublinear._core.losses import COUNT_LOSSES, REGRESSION_LOSSES
from sublinear._labels import find_classes
from sublinear._model_file import write_model
from sublinear._readers.columns import special_columns
from sublinear.cli._console import results
from sublinear.cli._data_file import (
    as_column,
    check_few_labels,
    check_outputs,
    columns_of_table,
    naming_values,
    read_data,
)
from sublinear.pegasos import PegasosClassifier, PegasosRegressor
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.sources import distinct_labels
from sublinear.sources._read_ahead import SourceAround
from sublinear.streaming import (
    WHY_NOT_KNOWN,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    StreamResult,
)

# of classification and of regression
SOLVERS = {
    "sdca": (SDCAClassifier, SDCARegressor),
    "pegasos": (PegasosClassifier, PegasosRegressor),
    "svrg": (StreamingSVRGClassifier, StreamingSVRGRegressor),
}

# Options, with their defaults, that have no meaning unless a file is read block by block, and for a
# fit that takes one pass.
OF_STREAMS = {"on_error": "raise", "checkpoint": None, "no_resume": False, "checkpoint_every": 100}
OF_PASSES = {"tol": 1e-3, "max_iter": 1000, "max_accesses": None}


def run_fit(options):
    _settle(options)
    estimator, data, fit = (_prepare_stream if options.stream else _prepare)(options)
    names, notes = getattr(data, "feature_names", None), _notes(options, data)
    try:
        fit()
    except KeyboardInterrupt:
        _keep_interrupted(estimator, options.output, names, notes)
        raise
    _save(estimator, options.output, names, notes)
    if not options.quiet:
        with results():
            print(f"{_result_lines(estimator)}\nwrote {options.output}")


def _settle(options):
    """Set the options that are not given; ValueError for some that do not go together."""
    checkpoint = [] if options.checkpoint is None else [options.checkpoint]
    check_outputs([options.output, _interrupted(options.output), *checkpoint], options)
    if options.label_column == "none":
        raise ValueError("a fit needs labels: --label-column none is for predict")
    if options.class_weight and options.stream and options.solver == "svrg":
        raise ValueError(
            "--class-weight: svrg with --stream sees labels as they come and cannot balance them; "
            "sdca can"
        )
    one_pass = options.solver == "svrg" or (options.solver == "pegasos" and options.stream)
    why = "only for several passes; svrg, and pegasos with --stream, take one"
    if options.checkpoint is None and options.stream:
        of_checkpoints = {name: OF_STREAMS[name] for name in ("no_resume", "checkpoint_every")}
        _set_defaults(options, of_checkpoints, "only with --checkpoint")
    _set_defaults(options, OF_STREAMS, None if options.stream else "only with --stream")
    _set_defaults(options, OF_PASSES, why if one_pass else None)
    if options.task == "auto" and options.loss in (*REGRESSION_LOSSES, *COUNT_LOSSES):
        options.task = "regression"


def _set_defaults(options, defaults, why_not):
    """Set those of the options that are not given; ValueError if some are that must not be."""
    given = [name for name in defaults if getattr(options, name) is not None]
    if given and why_not:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"{flags}: {why_not}")
    for name, default in defaults.items():
        if name not in given:
            setattr(options, name, default)


def _prepare(options):
    """Return the estimator, the data, and a function that fits the one to the other."""
    data = read_data(options)
    if data.y is None:
        raise ValueError(f"{options.data}: no labels to learn from; give --labels FILE.npy")
    estimator = _estimator(options, _is_regression(options, data.y, data.y.size))

    def fit():
        with naming_values(options):
            estimator.fit(data.X, data.y, sample_weight=data.sample_weight)

    return estimator, data, fit


def _prepare_stream(options):
    skipping = {} if options.on_error == "raise" else {"on_error": options.on_error}
    source = read_data(options, **skipping)
    if not getattr(source, "knows_columns", True):
        with rows_shown(not options.quiet, "finding columns") as count:
            source.find_columns(count)
    classes, regression = None, options.task == "regression"
    if options.task == "auto" or (options.solver != "sdca" and not regression):
        with rows_shown(not options.quiet, "finding labels") as count:
            counted = _Counted(source, count)
            labels = distinct_labels(counted)
        regression = _is_regression(options, labels, counted.n_rows)
        classes = None if regression else find_classes(labels)
    elif regression:
        _refuse_text(options, next((y for _, y, *_ in source), None))
    estimator = _estimator(options, regression)

    def fit():
        estimator.fit_stream(
            source,
            classes=classes,
            checkpoint=options.checkpoint,
            checkpoint_every=options.checkpoint_every,
            resume=not options.no_resume,
        )

    return estimator, source, fit


class _Counted(SourceAround):
    """A source that tells how many rows each of its blocks has."""

    def __init__(self, source, count):
        super().__init__(source)
        self.count, self.n_rows = count, 0

    def __iter__(self):
        for block in super().__iter__():
            self.n_rows += block[0].shape[0]
            self.count(block[0].shape[0])
            yield block


def _notes(options, data):
    """Return what `predict` has to know of the data: the first index, the special columns."""
    base = getattr(data, "index_base", None)
    if base is not None:
        return {"index_base": base}
    header = getattr(data, "feature_names", None) is not None
    n_columns, names = columns_of_table(options, header)
    if n_columns is None:
        return {}
    columns = names if header else [""] * n_columns
    given = (as_column(options.label_column or "last"), as_column(options.weight_column))
    label, weight = special_columns(options.data, columns, *given, header)
    notes = {"label_column": label, "label_name": columns[label] or None}
    if weight is not None:
        notes["label_column"] -= weight < label  # as if there were no weights
        notes |= {"weight_column": weight, "weight_name": columns[weight] or None}
    return notes


def _save(estimator, path, names, notes):
    """Write the model with the names of its features, if there are any."""
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    write_model(estimator, path, notes)


def _estimator(options, regression):
    parameters = {
        "alpha": options.alpha,
        "fit_intercept": not options.no_intercept,
        "n_jobs": options.jobs,
        "random_state": options.seed,
        "verbose": 0 if options.quiet else 1,
    }
    kind = SOLVERS[options.solver][regression]
    if options.loss is not None:
        parameters["loss"] = options.loss
        if options.solver == "pegasos" and options.loss in kind._losses:
            # without which steps of such a loss may diverge
            parameters["projection"] = not kind._losses[options.loss].lipschitz
    if options.class_weight is not None:
        if regression:
            raise ValueError("--class-weight: only for classification; this is a regression")
        parameters["class_weight"] = options.class_weight
    if options.solver != "svrg":
        parameters |= {name: getattr(options, name) for name in OF_PASSES}
    return kind(**parameters)


def _is_regression(options, y, n_rows):
    """Decide by the labels of so many rows, or the distinct ones among them, unless told."""
    if options.task == "regression":
        _refuse_text(options, y)
    if options.task != "auto":
        return options.task == "regression"
    check_few_labels(options, y, n_rows, "say --task classification or --task regression")
    return y.dtype.kind == "f"


def _refuse_text(options, y):
    if y is not None and y.dtype.kind == "U":
        raise ValueError(
            f"{options.data}: the labels are text, and regression needs numbers; is another "
            "column meant (--label-column)?"
        )


def _keep_interrupted(estimator, output, names, notes):
    """Save what an interrupted fit reached, but never over a model that was finished."""
    if _is_fitted(estimator):
        path = _interrupted(output)
        _save(estimator, path, names, notes)
        print(f"{_result_lines(estimator)}\nwrote {path}", file=sys.stderr)


def _interrupted(output):
    """Return where the model of an interrupted fit goes."""
    return f"{output}.interrupted"


def _is_fitted(estimator):
    """Tell whether there is a model, and one that has seen a row."""
    try:
        return hasattr(estimator, "coef_") and estimator.result_.accesses > 0
    except ValueError:  # computed on demand, it may have left the range of numbers
        return False


def _result_lines(estimator):
    result = estimator.result_
    name = type(estimator).__name__
    if hasattr(estimator, "classes_"):
        name += f", {len(estimator.classes_)} classes"
    lines = [f"{name}, {estimator.loss} loss, {estimator.n_features_in_} features"]
    if hasattr(estimator, "stream_"):
        blocks, rows, skipped = estimator.stream_
        lines.append(
            f"{_counted_as(rows, 'row')} in {_counted_as(blocks, 'block')}, "
            f"{_counted_as(skipped, 'malformed line')} left out"
        )
    if isinstance(result, StreamResult):
        rows, stages = _counted_as(result.n_rows, "row"), _counted_as(result.n_stages, "stage")
        lines.append(f"{rows} in {stages}, {_excess_risk(result)}")
        return "\n".join(lines)
    if result.status != "partial_fit":
        lines[0] += f": {result.status}"
    parts = [f"{result.accesses:,} feature values read, {result.seconds:.3g} s"]
    if not (hasattr(estimator, "stream_") and isinstance(estimator, SOLVERS["pegasos"])):
        # whose n_iter counts blocks
        parts = [_certificate(result), _counted_as(result.n_iter, "pass"), *parts]
    lines.append(", ".join(parts))
    return "\n".join(lines)


def _certificate(result):
    if math.isinf(result.gap):
        return "no certificate yet"
    return (
        f"objective {result.primal:.6g}, certified gap {result.gap:.2g} "
        f"({result.relative_gap:.2g} of the objective)"
    )


def _counted_as(number, what):
    plural = what + ("es" if what.endswith("s") else "s")
    return f"{number:,} {what if number == 1 else plural}"


def _excess_risk(result):
    if math.isnan(result.excess_risk):
        return f"risk above the best possible: not known, because {WHY_NOT_KNOWN}"
    low, high = result.excess_risk_interval
    return (
        f"risk above the best possible by about {result.excess_risk:.2g} (95 %: {low:.2g} to "
        f"{high:.2g})"
    )
