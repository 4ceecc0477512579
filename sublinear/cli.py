"""The command line: ``sublinear compare | fit | predict``.

Every command checks its output paths before it works, writes a file beside its place and renames
it. Errors are one line on standard error and exit status 2; Ctrl-C ends with status 1. A reader who
closes standard output has seen enough, status 0; nobody has to read standard error.
"""

import argparse
import codecs
import contextlib
import importlib.util
import json
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np

from sublinear import _readers
from sublinear._callbacks import rows_shown
from sublinear._core.losses import COUNT_LOSSES, REGRESSION_LOSSES
from sublinear._files import check_writable, replacing
from sublinear._model_file import read_model, write_model
from sublinear._validation import find_classes
from sublinear._version import __version__
from sublinear.datasets import make_sparse_classification
from sublinear.pegasos import PegasosClassifier, PegasosRegressor
from sublinear.sdca import SDCAClassifier, SDCARegressor
from sublinear.sources import SHARDS, ParquetSource, distinct_labels, open_source
from sublinear.streaming import (
    WHY_NOT_KNOWN,
    StreamingSVRGClassifier,
    StreamingSVRGRegressor,
    StreamResult,
)

__all__ = ["main"]

# of classification and of regression
_SOLVERS = {
    "sdca": (SDCAClassifier, SDCARegressor),
    "pegasos": (PegasosClassifier, PegasosRegressor),
    "svrg": (StreamingSVRGClassifier, StreamingSVRGRegressor),
}

# What has no meaning, but for these defaults, unless a file is read block by block, and for a fit
# that takes one pass.
_OF_STREAMS = {"on_error": "raise", "checkpoint": None, "no_resume": False, "checkpoint_every": 100}
_OF_PASSES = {"tol": 1e-3, "max_iter": 1000, "max_accesses": None}

# More distinct labels than both of these, and they may not be classes at all.
_MANY_LABELS = 100
_LARGE_SHARE = 0.05


def main(argv=None):
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : list of str, optional
        The arguments; by default those of the process.

    Returns
    -------
    status : int
        0 for success, 1 after Ctrl-C, 2 for an error.
    """
    options = _parser().parse_args(argv)
    with contextlib.redirect_stderr(_Progress(sys.stderr)):
        return _status_of(options)


def _status_of(options):
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            options.run(options)
    except KeyboardInterrupt:
        return _complain("interrupted", status=1)
    except _ReaderGone:
        return 0
    except MemoryError as error:
        return _complain(f"error: not enough memory ({error})")
    except (OSError, ValueError, ImportError) as error:
        return _complain(f"error: {error}".replace("pass resume=False", "give --no-resume"))
    return 0


class _ReaderGone(Exception):
    """Whoever read the results has seen enough."""


@contextlib.contextmanager
def _results():
    """Lend standard output; if its reader has gone, nothing more is written."""
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError as error:
        _discard(sys.stdout)
        raise _ReaderGone from error


class _Progress:
    """Standard error: the work goes on where nobody reads how far it is."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        with self._unheard():
            self.stream.write(text)
        return len(text)

    def flush(self):
        with self._unheard():
            self.stream.flush()

    @contextlib.contextmanager
    def _unheard(self):
        try:
            yield
        except BrokenPipeError:
            _discard(self.stream)


def _discard(stream):
    """Let what is written to a stream go nowhere, what waits in it to be written too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _complain(message, status=2):
    print(f"sublinear: {_one_line(message)}", file=sys.stderr)
    return status


def _one_line(message):
    return " ".join(str(message).split())


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"sublinear: warning: {_one_line(message)}", file=sys.stderr)


# Arguments


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others."""

    def error(self, message):
        self.exit(2, f"sublinear: error: {_one_line(message)} (see {self.prog} --help)\n")


def _parser():
    parser = _Parser(
        prog="sublinear",
        description="Certified linear models: compare solvers, train a model, apply a model.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"sublinear {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_compare(commands)
    _add_fit(commands)
    _add_predict(commands)
    return parser


def _add_compare(commands):
    parser = commands.add_parser(
        "compare",
        help="train every linear classifier beside scikit-learn's and tabulate",
        description="Train every linear classifier beside scikit-learn's LinearSVC and "
        "SGDClassifier, those for the hinge loss on one objective; print a table, write "
        "compare.json and compare.png. Without DATA the rows are generated.",
        allow_abbrev=False,
    )
    parser.add_argument("data", nargs="?", metavar="DATA", help="data file")
    _add_data_options(parser)
    _add_training_options(parser)
    parser.add_argument(
        "--max-seconds",
        type=_positive,
        default=60.0,
        metavar="S",
        help="time for each solver, all its refits together (%(default)s)",
    )
    parser.add_argument(
        "--test-size",
        type=_fraction,
        default=0.25,
        metavar="F",
        help="fraction of the rows to test on (%(default)s)",
    )
    parser.add_argument(
        "--scale",
        choices=("none", "rows", "columns"),
        default="none",
        help="make rows unit vectors, or divide columns by their largest absolute value",
    )
    parser.add_argument(
        "--intercept", action="store_true", help="append a constant column for every solver"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="random seed (%(default)s)")
    parser.add_argument(
        "-o",
        "--output",
        default=".",
        metavar="FOLDER",
        help="where compare.json and compare.png go (the current folder)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress display")
    parser.set_defaults(run=_compare, stream=False)


def _add_fit(commands):
    parser = commands.add_parser(
        "fit",
        help="train a model and save it",
        description="Train a linear model and save it as arrays that are safe to load.",
        allow_abbrev=False,
    )
    parser.add_argument("data", metavar="DATA", help="data file")
    parser.add_argument(
        "-o", "--output", required=True, metavar="MODEL", help="model file to write"
    )
    _add_data_options(parser)
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: regression if some label is not a whole number, or only regression has the "
        "loss",
    )
    parser.add_argument(
        "--solver",
        choices=tuple(_SOLVERS),
        default="sdca",
        help="svrg (Streaming SVRG), and pegasos with --stream, take one pass, so they have no "
        "--tol, --max-iter and --max-accesses, and certify nothing (%(default)s)",
    )
    parser.add_argument(
        "--loss",
        help="hinge for classification (svrg: logistic), squared for regression (pegasos: "
        "epsilon_insensitive), ...",
    )
    _add_training_options(parser)
    parser.add_argument("--max-accesses", type=_count, metavar="N", help="feature values to read")
    parser.add_argument("--no-intercept", action="store_true")
    parser.add_argument("--seed", type=_seed, help="random seed (a fresh one each time)")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; -1 for all")
    parser.add_argument("--quiet", action="store_true", help="no progress, no result")
    group = _add_stream_option(
        parser,
        "With --stream the file is read block by block, in one pass (pegasos, svrg) or several "
        "(sdca).",
    )
    group.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        help="whether a malformed line ends the fit or is left out and counted (%(default)s)",
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the state of the fit there; go on from it if the file exists",
    )
    group.add_argument(
        "--no-resume",
        action="store_true",
        help="begin anew even if the file of --checkpoint exists",
    )
    group.add_argument("--checkpoint-every", type=_count, metavar="K", help="blocks (%(default)s)")
    parser.set_defaults(run=_fit, **_OF_STREAMS)


def _add_predict(commands):
    parser = commands.add_parser(
        "predict",
        help="apply a saved model",
        description="Print one prediction a line. Where DATA has labels, the error rate or R2 "
        "goes to standard error.",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="model file that fit wrote")
    parser.add_argument("data", metavar="DATA", help="data file")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the predictions to FILE")
    _add_data_options(parser)
    _add_stream_option(parser, "With --stream the file is read and predicted block by block.")
    parser.set_defaults(run=_predict)


def _add_data_options(parser):
    parser.set_defaults(text_labels=None)  # found out; a model may tell
    group = parser.add_argument_group(
        "data file",
        "NAME.csv, NAME.npz (CSR matrix or X, with y), NAME.npy with --labels; any other name is "
        "LIBSVM / svmlight text. Text may end in .gz, .bz2 or .xz.",
    )
    group.add_argument("--format", choices=_readers.FORMATS, help="where the name does not tell")
    group.add_argument("--labels", metavar="FILE.npy", help="labels of a .npy or .npz file")
    group.add_argument(
        "--label-column",
        metavar="COLUMN",
        help="of a CSV or Parquet file: last (default; for predict none, if the last column is one "
        "of the model's features), first, none, a number from 0, or a name",
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether a CSV file starts with column names (default: found out)",
    )
    group.add_argument(
        "--index-base",
        type=int,
        choices=(0, 1),
        help="first index of svmlight text (default: 0 if the file uses index 0, else 1)",
    )
    group.add_argument(
        "--n-features",
        type=_count,
        metavar="N",
        help="columns of svmlight text (default: those that it uses, for predict the model's)",
    )


def _add_stream_option(parser, description):
    group = parser.add_argument_group(
        "data larger than memory",
        f"{description} DATA may also be a .parquet file, or a folder of .npz or .parquet files.",
    )
    group.add_argument("--stream", action="store_true", help="never hold more than some blocks")
    return group


def _add_training_options(parser):
    parser.add_argument(
        "--alpha", type=_positive, default=1e-4, help="regularisation (%(default)s)"
    )
    parser.add_argument("--tol", type=_positive, help="relative gap to stop at (%(default)s)")
    parser.add_argument("--max-iter", type=_count, metavar="N", help="passes (%(default)s)")
    parser.set_defaults(**_OF_PASSES)


def _number(text, convert, accept, wanted):
    try:
        value = convert(text)
    except ValueError:
        value = None
    if value is None or not accept(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return value


def _positive(text):
    return _number(text, float, lambda value: 0 < value < float("inf"), "a positive number")


def _fraction(text):
    return _number(text, float, lambda value: 0 < value < 1, "a number between 0 and 1")


def _count(text):
    return _number(text, int, lambda value: value > 0, "a positive whole number")


def _seed(text):
    return _number(text, int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 2^32 - 1")


# Commands


def _compare(options):
    _require_demo()
    paths = [Path(options.output, name) for name in ("compare.json", "compare.png")]
    _check_outputs(paths, options)
    # Imported here: matplotlib comes with an extra and takes its time.
    from sublinear import _compare, _compare_report

    X, y = _compare_data(options)
    problem = _compare.make_problem(
        X,
        y,
        alpha=options.alpha,
        scale=options.scale,
        intercept=options.intercept,
        test_size=options.test_size,
        seed=options.seed,
    )
    limits = _compare.Limits(options.tol, options.max_iter, options.max_seconds)
    comparison = _compare.compare(
        problem, limits, seed=options.seed, progress=_progress_display(options.quiet)
    )
    with replacing(paths[0]) as stream:
        document = json.dumps(_compare_report.as_json(comparison), indent=1, allow_nan=False)
        stream.write(document.encode() + b"\n")
    with replacing(paths[1]) as stream:
        _compare_report.draw(comparison).savefig(stream, format="png", dpi=120)
    with _results():
        print(f"{_compare_report.table(comparison)}\n\nwrote {paths[0]} and {paths[1]}")


def _require_demo():
    missing = [name for name in ("matplotlib", "tqdm") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"compare needs {' and '.join(missing)}: "
            'python -m pip install ".[demo]" in the folder of the source'
        )


def _compare_data(options):
    if options.data is None:
        return make_sparse_classification(random_state=options.seed)
    data = _read(options)
    if data.y is not None:
        _check_few_labels(
            options, data.y, data.y.size, "compare trains classifiers; are these classes?"
        )
    return data.X, data.y


def _progress_display(quiet):
    """Return a context manager: one line for each solver, kept up to date while it runs."""
    from tqdm import tqdm

    @contextlib.contextmanager
    def display(solver):
        layout = "{desc:<23} {n:>8.1f} passes  {elapsed}{postfix}"
        with tqdm(desc=solver, bar_format=layout, disable=quiet, mininterval=0) as bar:

            def show(passes, gap):
                bar.n = passes
                if not math.isnan(gap):
                    bar.set_postfix_str(f"gap {gap:.1e}", refresh=False)
                bar.refresh()

            yield show

    return display


def _check_outputs(outputs, options, *inputs):
    """Raise ValueError if an output would replace a file that is read, or another output.

    Or become one that is read: a shard of the data.
    """
    others = [path for path in (options.data, options.labels, *inputs) if path is not None]
    for output in outputs:
        place = os.path.realpath(output)
        for other in others:
            if os.path.realpath(other) == place:
                raise ValueError(f"{output}: it would replace {other}; give it another name")
        if options.data is not None and Path(options.data).is_dir():
            within = os.path.dirname(place) == os.path.realpath(options.data)
            if within and Path(place).suffix.lower()[1:] in SHARDS:
                raise ValueError(
                    f"{output}: it would be read as a shard of {options.data}; give it another "
                    "folder"
                )
        check_writable(output)
        others.append(output)


def _fit(options):
    checkpoint = [] if options.checkpoint is None else [options.checkpoint]
    _check_outputs([options.output, *checkpoint], options)
    if options.label_column == "none":
        raise ValueError("a fit needs labels: --label-column none is for predict")
    if not options.stream:
        _refuse_options(options, _OF_STREAMS, "only with --stream")
    if options.solver == "svrg" or (options.solver == "pegasos" and options.stream):
        why = "only for several passes; svrg, and pegasos with --stream, take one"
        _refuse_options(options, _OF_PASSES, why)
    if options.task == "auto" and options.loss in (*REGRESSION_LOSSES, *COUNT_LOSSES):
        options.task = "regression"
    estimator, data, fit = (_prepare_stream if options.stream else _prepare)(options)
    try:
        fit()
    except KeyboardInterrupt:
        _keep_interrupted(estimator, options.output, data)
        raise
    _save(estimator, options.output, data)
    if not options.quiet:
        with _results():
            print(f"{_result_lines(estimator)}\nwrote {options.output}")


def _refuse_options(options, defaults, why):
    """Raise ValueError if one of the options is not as by default."""
    given = [name for name, default in defaults.items() if getattr(options, name) != default]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"{flags}: {why}")


def _prepare(options):
    """Return the estimator, the data, and a function that fits the one to the other."""
    data = _read(options)
    if data.y is None:
        raise ValueError(f"{options.data}: no labels to learn from; give --labels FILE.npy")
    estimator = _estimator(options, _is_regression(options, data.y, data.y.size))
    return estimator, data, lambda: estimator.fit(data.X, data.y)


def _prepare_stream(options):
    skipping = {} if options.on_error == "raise" else {"on_error": options.on_error}
    source = _read(options, **skipping)
    if not getattr(source, "knows_columns", True):
        with rows_shown(not options.quiet, "finding columns") as count:
            source.find_columns(count)
    classes, regression = None, options.task == "regression"
    if options.task == "auto" or (options.solver != "sdca" and not regression):
        with rows_shown(not options.quiet, "finding labels") as count:
            labels, n_rows = _labels_and_rows(source, count)
        regression = _is_regression(options, labels, n_rows)
        classes = None if regression else find_classes(labels)
    elif regression:
        _refuse_text(options, next((y for _, y in source), None))
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


def _labels_and_rows(source, count):
    """Return the distinct labels of a source, and how many rows it has."""
    n_rows = 0

    def counted():
        nonlocal n_rows
        for X, y in source:
            n_rows += X.shape[0]
            count(X.shape[0])
            yield X, y

    return distinct_labels(counted()), n_rows


def _save(estimator, path, data):
    """Write the model with what `predict` has to know of the data: names, the first index."""
    names, base = (getattr(data, name, None) for name in ("feature_names", "index_base"))
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    write_model(estimator, path, {} if base is None else {"index_base": base})


def _estimator(options, regression):
    parameters = {
        "alpha": options.alpha,
        "fit_intercept": not options.no_intercept,
        "n_jobs": options.jobs,
        "random_state": options.seed,
        "verbose": 0 if options.quiet else 1,
    }
    if options.loss is not None:
        parameters["loss"] = options.loss
    if options.solver != "svrg":
        parameters |= {name: getattr(options, name) for name in _OF_PASSES}
    return _SOLVERS[options.solver][regression](**parameters)


def _is_regression(options, y, n_rows):
    """Decide by the labels of so many rows, or the distinct ones among them, unless told."""
    if options.task == "regression":
        _refuse_text(options, y)
    if options.task != "auto":
        return options.task == "regression"
    _check_few_labels(options, y, n_rows, "say --task classification or --task regression")
    return y.dtype.kind == "f"


def _refuse_text(options, y):
    if y is not None and y.dtype.kind == "U":
        raise ValueError(
            f"{options.data}: the labels are text, and regression needs numbers; is another "
            "column meant (--label-column)?"
        )


def _check_few_labels(options, y, n_rows, advice):
    if y.dtype.kind == "f":
        return
    n_labels = np.unique(y).size
    if n_labels > max(_MANY_LABELS, _LARGE_SHARE * n_rows):
        raise ValueError(f"{options.data}: {n_labels} distinct labels; {advice}")


def _keep_interrupted(estimator, output, data):
    """Save what an interrupted fit reached, but never over a model that was finished."""
    if _is_fitted(estimator):
        path = f"{output}.interrupted"
        _save(estimator, path, data)
        print(f"{_result_lines(estimator)}\nwrote {path}", file=sys.stderr)


def _is_fitted(estimator):
    """Tell whether there is a model, and one that has seen a row."""
    try:
        return hasattr(estimator, "coef_") and estimator.result_.accesses > 0
    except ValueError:  # computed on demand, it may have left the range of numbers
        return False


def _result_lines(estimator):
    result = estimator.result_
    name = type(estimator).__name__
    stream = ""
    if hasattr(estimator, "stream_"):
        blocks, rows, skipped = estimator.stream_
        stream = (
            f"\n{_counted_as(rows, 'row')} in {_counted_as(blocks, 'block')}, "
            f"{_counted_as(skipped, 'malformed line')} left out"
        )
    if hasattr(estimator, "classes_"):
        name += f", {len(estimator.classes_)} classes"
    title = f"{name}, {estimator.loss} loss, {estimator.n_features_in_} features"
    if isinstance(result, StreamResult):
        return (
            f"{title}{stream}\n{_counted_as(result.n_rows, 'row')} in "
            f"{_counted_as(result.n_stages, 'stage')}, "
            f"{_excess_risk(result)}"
        )
    certificate = "no certificate yet"
    if math.isfinite(result.gap):
        certificate = (
            f"objective {result.primal:.6g}, certified gap {result.gap:.2g} "
            f"({result.relative_gap:.2g} of the objective)"
        )
    if result.status == "partial_fit":  # the result is that of the last block
        return f"{title}{stream}"
    return (
        f"{title}: {result.status}{stream}\n{certificate}, "
        f"{_counted_as(result.n_iter, 'pass')}, {result.accesses:,} feature values read, "
        f"{result.seconds:.3g} s"
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


def _predict(options):
    if options.output is not None:
        _check_outputs([options.output], options, options.model)
    estimator, notes = read_model(options.model)
    options = _with_what_is_known(options, estimator, notes)
    score = _ErrorRate(estimator.classes_) if hasattr(estimator, "classes_") else _Determination()
    with _text_output(options.output) as stream:
        for X, y in _rows_for(estimator, options):
            predicted = estimator.predict(X)
            stream.write("".join(f"{label}\n" for label in predicted.tolist()))
            if y is not None:
                score.add(predicted, _readers.whole_numbers_as_integers(y))
    if score.rows:
        print(score, file=sys.stderr)


def _with_what_is_known(options, estimator, notes):
    """Return the options with what a model tells of its data where they say nothing."""
    known, format = {}, _format(options)
    if format == "svmlight":  # which says neither by itself
        known = {"index_base": _index_base(notes), "n_features": estimator.n_features_in_}
    if options.label_column is None and _is_unlabelled(estimator, options):
        known["label_column"] = "none"
    classes = getattr(estimator, "classes_", ())
    if format == "csv" and any(isinstance(label, str) for label in classes):
        known["text_labels"] = True  # the labels of this file may all look like numbers
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**vars(options) | known | given)


def _format(options):
    """Return the format of the data file, None for a folder."""
    path = Path(options.data)
    return None if path.is_dir() else options.format or _readers.format_of(path)


def _is_unlabelled(estimator, options):
    """Tell whether the last column of a table is a feature of the model."""
    n_columns, names = _columns(options)
    known = getattr(estimator, "feature_names_in_", None)
    if names is None or known is None:
        return n_columns == estimator.n_features_in_
    return names[-1] in known


def _columns(options):
    """Return how many columns a CSV or Parquet file has, and their names; None: not known."""
    path, names = Path(options.data), None
    if _format(options) == "csv":
        _readers.check_readable(path)
        return _readers.columns_of(path, options.header)
    source = open_source(path, format=options.format) if options.stream else None
    if isinstance(source, ParquetSource):
        source.label_column = None
        names = source.feature_names
    return names and len(names), names


def _index_base(notes):
    base = notes.get("index_base")
    return base if base in (0, 1) else None


@contextlib.contextmanager
def _text_output(path):
    if path is None:
        with _results() as stream:
            yield stream
    else:
        with replacing(path) as stream:
            yield codecs.getwriter("utf-8")(stream)


def _rows_for(estimator, options):
    """Yield the blocks of the data with the columns of the model."""
    data = _read(options)
    n_features = estimator.n_features_in_
    # taken from the model: its warning would be of rows whose names are compared here
    model_names = vars(estimator).pop("feature_names_in_", None)
    order, n_rows = None, 0
    for number, (X, y) in enumerate(data if options.stream else [(data.X, data.y)]):
        n_rows += X.shape[0]
        if number == 0:
            names = getattr(data, "feature_names", None)
            order = _order(names, model_names, options.data)
        if order is None and X.shape[1] != n_features:
            hint = "" if y is None else "; if it has no labels, give --label-column none"
            raise ValueError(
                f"{options.data} has {X.shape[1]} features, the model {n_features}"
                f"{hint if _columns(options)[0] else ''}"
            )
        yield X if order is None else X[:, order], y
    if not n_rows:  # of a source; files that are read as a whole have been looked at
        kind = "folder" if Path(options.data).is_dir() else "file"
        raise ValueError(f"{options.data}: the {kind} holds no rows")


def _order(names, model_names, path):
    """Return the places of the model's features among a file's; None: as they are, or unknown."""
    if names is None or model_names is None or names == list(model_names):
        return None
    for name in model_names:
        if names.count(name) != 1:
            found = "several" if name in names else "no"
            raise ValueError(
                f"{path}: {found} feature columns named {name!r}, as in the model "
                "(the label's column is none of them; see --label-column)"
            )
    return [names.index(name) for name in model_names]


class _ErrorRate:
    """How many predictions are not the label of their row, which may be text or a number."""

    def __init__(self, classes):
        self.classes, self.rows, self.wrong, self.known = classes, 0, 0, False

    def add(self, predicted, y):
        classes = self.classes
        if y.dtype.kind == "U" or classes.dtype.kind in "OU":
            predicted, y, classes = (array.astype(str) for array in (predicted, y, classes))
        self.rows += y.size
        self.wrong += np.count_nonzero(predicted != y)
        self.known |= bool(np.isin(y, classes).any())

    def __str__(self):
        if not self.known:
            return "none of the labels is one of the model's classes"
        return f"error rate {self.wrong / self.rows:.4f} ({self.wrong} of {self.rows})"


class _Determination:
    """The coefficient of determination, R2."""

    def __init__(self):
        self.rows, self.first, self.sums, self.numeric = 0, None, np.zeros(3), True

    def add(self, predicted, y):
        self.rows += y.size
        self.numeric &= y.dtype.kind != "U"
        if self.numeric:
            y = y.astype(np.float64)
            self.first = y[0] if self.first is None else self.first
            offsets = y - self.first  # smaller than the labels, and 0 if all are equal
            self.sums += np.sum(offsets), np.sum(offsets**2), np.sum((y - predicted) ** 2)

    def __str__(self):
        if not self.numeric:
            return "the labels are not numbers"
        total, squares, errors = self.sums
        spread = squares - total**2 / self.rows
        if squares == 0:
            return "R2 is undefined: all labels are equal"
        return f"R2 {1 - errors / spread:.4f}"


def _label_column(options):
    column = options.label_column
    if column == "none":
        return None
    return int(column) if column.removeprefix("-").isdecimal() else column


def _read(options, **more):
    """Return the Dataset in the data file, or with --stream a source of its blocks."""
    given = {
        "labels": options.labels,
        "header": options.header,
        "index_base": options.index_base,
        "n_features": options.n_features,
        "text_labels": options.text_labels,
    }
    given = {name: value for name, value in given.items() if value is not None} | more
    if options.label_column not in (None, "last"):
        given["label_column"] = _label_column(options)
    path = Path(options.data)
    if options.stream:
        return open_source(path, format=options.format, **given)
    if path.is_dir() or (options.format is None and _readers.format_of(path) == "parquet"):
        raise ValueError(
            f"{path}: folders and Parquet files are read block by block: give fit or predict "
            "--stream"
        )
    return _readers.read(path, format=options.format, **given)
