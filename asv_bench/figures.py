"""What the comparison scripts share: data sets, medians of interleaved timings, tables, JSON."""

import importlib.util
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn

import sublinear

DENSE = "-dense"  # what is left of the name is the set whose rows are made an array
ALPHAS = {
    "covtype": 1e-5,
    "news20": 1.25e-4,
    "news20-uni": 1e-4,
    "adult": 1e-5,
    "covtype-dense": 1e-5,
}


@dataclass(frozen=True)
class Problem:
    """A data set with all its rows, and the regularisation it is solved with."""

    name: str
    X: sp.csr_matrix | np.ndarray
    y: np.ndarray
    alpha: float


def add_common_arguments(parser, json_name, sets=True):
    parser.add_argument(
        "data",
        nargs="?",
        default=os.environ.get("SUBLINEAR_DATA"),
        help="folder with a load.py whose load(name) returns X, y, X_test, y_test; "
        "by default the environment variable SUBLINEAR_DATA",
    )
    if sets:
        parser.add_argument(
            "--sets", nargs="+", default=["covtype", "news20"], choices=list(ALPHAS)
        )
    parser.add_argument("--json", type=Path, default=Path(json_name), help="where to write")


def loader(folder):
    """Return the function `load` of the folder's load.py."""
    if not folder:
        raise SystemExit("give the folder of the data sets, or set SUBLINEAR_DATA")
    script = Path(folder) / "load.py"
    if not script.is_file():
        raise SystemExit(f"no load.py in {folder}")
    spec = importlib.util.spec_from_file_location("data_sets", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load


def problems(folder, names):
    """Load the named sets from `folder`, training and test rows stacked."""
    load = loader(folder)
    for name in names:
        X, y, X_test, y_test = load(name.removesuffix(DENSE))
        X = sp.vstack([X, X_test]).tocsr()
        longest = np.sqrt(X.multiply(X).sum(axis=1).max())
        X = X / max(longest, 1.0)
        X = X.toarray() if name.endswith(DENSE) else X
        yield Problem(name, X, np.r_[y, y_test], ALPHAS[name])


def interleaved_seconds(tasks, repetitions):
    """Return {name: seconds of each repetition}. Tasks take the repetition and return seconds.

    Each repetition runs every task once, so that a slow moment of the machine meets all of them.
    """
    seconds = {name: [] for name in tasks}
    for repetition in range(repetitions):
        for name, task in tasks.items():
            seconds[name].append(task(repetition))
    return seconds


def interleaved_medians(tasks, repetitions):
    """Return {name: median seconds} of the same."""
    seconds = interleaved_seconds(tasks, repetitions)
    return {name: statistics.median(values) for name, values in seconds.items()}


def seconds_of(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def environment():
    """Return what a reader needs to know about the machine and the versions."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "sublinear": sublinear.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def markdown_table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def write_text(path, text):
    """Write beside `path`, then rename, so that no half-written file is ever seen."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def earlier(path):
    """Return what `report` wrote to a JSON file before, {} if nothing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def report(header, rows, path, figures):
    """Print the table; write it as markdown and, with everything behind it, as JSON."""
    table = markdown_table(header, rows)
    print(table)
    write_text(path, json.dumps({"environment": environment(), **figures}, indent=2) + "\n")
    write_text(path.with_suffix(".md"), table + "\n")
