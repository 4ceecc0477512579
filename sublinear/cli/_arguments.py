"""The arguments of all commands; each command's parser says which function runs it."""

import argparse

from sublinear._readers import FORMATS
from sublinear._version import __version__
from sublinear.cli._compare import run_compare
from sublinear.cli._console import one_line
from sublinear.cli._fit import OF_PASSES, OF_STREAMS, SOLVERS, run_fit
from sublinear.cli._predict import run_predict


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others."""

    def error(self, message):
        self.exit(2, f"sublinear: error: {one_line(message)} (see {self.prog} --help)\n")


def make_parser():
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
    parser.set_defaults(run=run_compare, stream=False, **OF_PASSES)


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
    _add_data_options(parser, streams=True)
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto: regression if some label is not a whole number, or only regression has the "
        "loss",
    )
    parser.add_argument(
        "--solver",
        choices=tuple(SOLVERS),
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
    parser.add_argument(
        "--class-weight",
        choices=("balanced",),
        help="balanced: classes weigh the same; pegasos with --stream balances every block by "
        "itself",
    )
    parser.add_argument("--max-accesses", type=_count, metavar="N", help="feature values to read")
    parser.add_argument("--no-intercept", action="store_true")
    parser.add_argument("--seed", type=_seed, help="random seed (a fresh one each time)")
    parser.add_argument("--jobs", type=_threads, metavar="N", help="threads; -1 for all")
    parser.add_argument("--quiet", action="store_true", help="no progress, no result")
    group = _add_stream_option(
        parser,
        "With --stream the file is read block by block, in one pass (pegasos, svrg) or several "
        "(sdca).",
    )
    group.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        help="whether a malformed line ends the fit or is left out and counted "
        f"({OF_STREAMS['on_error']})",
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="save the state of the fit there; go on from it if the file exists",
    )
    group.add_argument(
        "--no-resume",
        action="store_const",
        const=True,
        help="begin anew even if the file of --checkpoint exists",
    )
    group.add_argument(
        "--checkpoint-every",
        type=_count,
        metavar="K",
        help=f"blocks ({OF_STREAMS['checkpoint_every']})",
    )
    parser.set_defaults(run=run_fit)


def _add_predict(commands):
    parser = commands.add_parser(
        "predict",
        help="apply a saved model",
        description="Print one prediction a line, or comma-separated scores. Where DATA has "
        "labels, the error rate or R2 goes to standard error.",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="model file that fit wrote")
    parser.add_argument("data", metavar="DATA", help="data file")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the predictions to FILE")
    scores = parser.add_mutually_exclusive_group()
    scores.add_argument(
        "--probabilities",
        action="store_true",
        help="for every row the probabilities of the classes, which the first line names; of "
        "models with the logistic loss",
    )
    scores.add_argument(
        "--decision",
        action="store_true",
        help="for every row the score of every class, of two classes that of the second, behind a "
        "line that names them",
    )
    _add_data_options(parser, streams=True)
    _add_stream_option(parser, "With --stream the file is read and predicted block by block.")
    parser.set_defaults(run=run_predict)


def _add_data_options(parser, streams=False):
    table = "CSV or Parquet" if streams else "CSV"
    formats = (*FORMATS, "parquet") if streams else FORMATS
    by_first = ", with --stream by the first one" if streams else ""
    group = parser.add_argument_group(
        "data file",
        "NAME.csv, NAME.npz (CSR matrix or X, with y), NAME.npy with --labels; any other name is "
        "LIBSVM / svmlight text. Text may end in .gz, .bz2 or .xz.",
    )
    group.add_argument("--format", choices=formats, help="where the name does not tell")
    group.add_argument("--labels", metavar="FILE.npy", help="labels of a .npy or .npz file")
    group.add_argument(
        "--label-column",
        metavar="COLUMN",
        help=f"of a {table} file: last, first, none, a number from 0, or a name (default: "
        "last; for predict that of the fit, none if it holds one of the model's features)",
    )
    group.add_argument(
        "--weight-column",
        metavar="COLUMN",
        help=f"of a {table} file, in the same words: weights of the rows, which are no feature "
        "(default: none; for predict that of the fit)",
    )
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether a CSV file starts with column names (default: found out)",
    )
    group.add_argument(
        "--text-labels",
        action="store_const",
        const=True,
        help=f"take all labels of a CSV file for text, numbers too (default: found out{by_first})",
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
    parser.add_argument(
        "--tol", type=_positive, help=f"relative gap to stop at ({OF_PASSES['tol']})"
    )
    parser.add_argument(
        "--max-iter", type=_count, metavar="N", help=f"passes ({OF_PASSES['max_iter']})"
    )


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


def _threads(text):
    wanted = "a number of threads, or -1 for all"
    return _number(text, int, lambda value: value > 0 or value == -1, wanted)


def _seed(text):
    return _number(text, int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 2^32 - 1")
