"""``sublinear compare``: every linear classifier beside scikit-learn's."""

import contextlib
import importlib.util
import json
import math
from pathlib import Path

from sublinear._files import replacing
from sublinear.cli._console import results
from sublinear.cli._data_file import check_few_labels, check_outputs, read_data
from sublinear.datasets import make_sparse_classification


def run_compare(options):
    _require_demo()
    paths = [Path(options.output, name) for name in ("compare.json", "compare.png")]
    check_outputs(paths, options)
    # Imported here: matplotlib comes with an extra and takes its time.
    from sublinear.cli._comparison import Limits, compare, make_problem
    from sublinear.cli._comparison_report import as_json, draw, table

    X, y, weights = _compare_data(options)
    problem = make_problem(
        X,
        y,
        weights,
        alpha=options.alpha,
        scale=options.scale,
        intercept=options.intercept,
        test_size=options.test_size,
        seed=options.seed,
    )
    limits = Limits(options.tol, options.max_iter, options.max_seconds)
    comparison = compare(
        problem, limits, seed=options.seed, progress=_progress_display(options.quiet)
    )
    with replacing(paths[0]) as stream:
        document = json.dumps(as_json(comparison), indent=1, allow_nan=False)
        stream.write(document.encode() + b"\n")
    with replacing(paths[1]) as stream:
        draw(comparison).savefig(stream, format="png", dpi=120)
    with results():
        print(f"{table(comparison)}\n\nwrote {paths[0]} and {paths[1]}")


def _require_demo():
    missing = [name for name in ("matplotlib", "tqdm") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"compare needs {' and '.join(missing)}: "
            'python -m pip install ".[demo]" in the folder of the source'
        )


def _compare_data(options):
    if options.data is None:
        return *make_sparse_classification(random_state=options.seed), None
    data = read_data(options)
    if data.y is not None:
        check_few_labels(
            options, data.y, data.y.size, "compare trains classifiers; are these classes?"
        )
    return data.X, data.y, data.sample_weight


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
