"""Measure what a fit costs beside time to accuracy.

    python asv_bench/measure_costs.py FOLDER [--sets covtype news20] [--json measure_costs.json]

- peak memory of a fit above its input, in float64 vectors of length n + d; where rows are packed,
  also against 8 bytes for each stored entry, 64 for each row, 24 for each column (Linux only);
- a pass of row dots in random order, in pools and in row order, against scipy's `X @ w`;
- the first pass of SDCA's steps, on the rows as they are and on packed ones, against the same;
- the time from a Ctrl-C to the end of the fit, and whether the estimator is usable then;
- the time of `import sublinear`, against that of `import sklearn.linear_model`;
- what a fit costs before and after its solver: one pass over 100 rows of 10 numbers.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.solvers import linear_svc, pegasos, sdca, timed_fit
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of
from threadpoolctl import threadpool_limits

from sublinear._core.losses import MARGIN_LOSSES
from sublinear._core.matrix import Matrix
from sublinear._core.objective import Objective
from sublinear._core.order import Order
from sublinear._core.random import RandomBits
from sublinear._solvers.sdca import SDCA

CHILD = Path(__file__).with_name("one_fit.py")
PACKED = "SDCAClassifier, pack=True"
OURS = ("SDCAClassifier", "SDCAClassifier, pack=False", PACKED, "PegasosClassifier")
HEADER = ["what", "set", "figure", "compared with", "ratio"]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def save_arrays(problem, folder):
    """Save as .npy files: a child reads them without a peak of its own."""
    X = problem.X
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "y": problem.y}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "about.json").write_text(json.dumps({"shape": X.shape, "alpha": problem.alpha}))


def child(*arguments, **options):
    """Start one_fit.py in a fresh process with one thread."""
    command = [sys.executable, str(CHILD), *map(str, arguments)]
    environment = {**os.environ, **ONE_THREAD}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, **options)


def answer(process):
    """Return the JSON that a child printed last."""
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args} failed with code {process.returncode}")
    return json.loads(output.splitlines()[-1])


def memory(folder):
    """Return {solver: bytes above the input at the fit's peak}."""
    return {name: answer(child("memory", name, folder))["bytes"] for name in (*OURS, "LinearSVC")}


def interrupt(folder, solver, delays=(0.3, 0.7, 1.3)):
    """Return the longest time from signal to the end of the fit, over signals after `delays`."""
    latencies = []
    for delay in delays:
        process = child("endless", solver, folder)
        if process.stdout.readline().strip() != "fitting":
            raise RuntimeError("the child did not start")
        time.sleep(delay)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        ended = answer(process)
        if not ended["usable"] or ended["status"] != "interrupted":
            raise RuntimeError(f"not usable after Ctrl-C: {ended}")
        latencies.append(ended["time"] - sent)
    return max(latencies)


def random_pass(problem, repetitions):
    """Return median seconds of row dots in three orders, and of scipy's product."""
    X = problem.X
    rng = np.random.default_rng(0)
    matrix = Matrix(X)
    in_turn = np.arange(X.shape[0], dtype=np.uint32)  # the type that solvers use
    order = rng.permutation(in_turn)
    weights = rng.standard_normal(X.shape[1])
    seed = np.random.SeedSequence(0)
    pooled = Order(X.shape[0], "shuffle", RandomBits(seed), in_pools=True)
    tasks = {
        "random order": lambda _: seconds_of(lambda: matrix.row_dots(weights, order)),
        "pools": lambda _: seconds_of(lambda: matrix.row_dots(weights, pooled.take(len(order)))),
        "row order": lambda _: seconds_of(lambda: matrix.row_dots(weights, in_turn)),
        "scipy": lambda _: seconds_of(lambda: X @ weights),
    }
    interleaved_medians(tasks, 2)
    return interleaved_medians(tasks, repetitions)


def step_pass(problem, repetitions):
    """Return median seconds of the first pass of SDCA, packing not included, and of `X @ w`."""
    X, loss = problem.X, MARGIN_LOSSES["hinge"].loss()
    objective = Objective(Matrix(X), problem.y, loss, problem.alpha)
    weights = np.random.default_rng(0).standard_normal(X.shape[1])

    def first_pass(seed, pack):
        solver = SDCA(objective, RandomBits(np.random.SeedSequence(seed)), None, pack)
        return seconds_of(lambda: solver.advance(2**62))

    tasks = {
        "rows as they are": lambda seed: first_pass(seed, False),
        "packed rows": lambda seed: first_pass(seed, True),
        "scipy": lambda _: seconds_of(lambda: X @ weights),
    }
    interleaved_medians(tasks, 1)
    return interleaved_medians(tasks, repetitions)


def import_seconds(repetitions):
    """Return median seconds of importing each module in fresh processes, in turns."""
    program = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"

    def run(module):
        with tempfile.TemporaryDirectory() as folder:
            output = subprocess.check_output(
                [sys.executable, "-c", program.format(module)], cwd=folder, text=True
            )
        return float(output)

    modules = ("sublinear", "sklearn.linear_model")
    return interleaved_medians({m: lambda _, m=m: run(m) for m in modules}, repetitions)


def packed_bound(X):
    """Return the bytes that a packed fit may take above its input."""
    return 8 * X.nnz + 64 * X.shape[0] + 3 * 8 * X.shape[1]


def small_fit(repetitions):
    """Return median seconds of fits of one pass over hardly any data."""
    X = np.random.default_rng(0).standard_normal((100, 10))
    y = np.where(X[:, 0] > 0, 1, -1)
    models = {
        "SDCAClassifier": sdca(1e-4, seed=0, max_iter=1),
        "PegasosClassifier": pegasos(1e-4, seed=0, max_iter=1),
        "LinearSVC": linear_svc(100, 1e-4, seed=0, max_iter=1),
    }
    tasks = {name: lambda _, model=model: timed_fit(model, X, y) for name, model in models.items()}
    return interleaved_medians(tasks, 20 * repetitions)


def measure(problem, repetitions):
    """Return the figures of one data set, a JSON-ready dict."""
    with tempfile.TemporaryDirectory() as folder:
        save_arrays(problem, Path(folder))
        return {
            "set": problem.name,
            "n_plus_d": int(sum(problem.X.shape)),
            "packed_bound": packed_bound(problem.X),
            "memory": memory(folder),
            "interrupt": {name: interrupt(folder, name) for name in OURS},
            "random_pass": random_pass(problem, repetitions),
            "step_pass": step_pass(problem, repetitions),
        }


def rows(figures):
    """Yield the table's rows for one data set."""
    title, vectors = figures["set"], 8.0 * figures["n_plus_d"]
    for name, size in figures["memory"].items():
        text = f"{size / 2**20:.1f} MiB"
        yield [f"peak memory of {name}", title, text, "8 (n + d) bytes", f"{size / vectors:.2f}"]
        if name == PACKED:
            bound = figures["packed_bound"]
            against = f"8 an entry, 64 a row, 24 d: {bound / 2**20:.1f} MiB"
            yield [f"peak memory of {name}", title, text, against, f"{size / bound:.2f}"]
    for name, seconds in figures["interrupt"].items():
        yield [f"Ctrl-C in {name}", title, f"{seconds * 1e3:.0f} ms", "", ""]
    for what, group in (("row dots in", "random_pass"), ("a pass of steps,", "step_pass")):
        passes = dict(figures[group])
        scipy = passes.pop("scipy")
        against = f"X @ w, {scipy * 1e3:.2f} ms"
        for name, ours in passes.items():
            text = f"{ours * 1e3:.2f} ms"
            yield [f"{what} {name}", title, text, against, f"{ours / scipy:.2f}"]


def small_fit_rows(seconds):
    theirs = seconds["LinearSVC"]
    for name in ("SDCAClassifier", "PegasosClassifier"):
        ours = seconds[name]
        against = f"LinearSVC, {theirs * 1e3:.2f} ms"
        text = f"{ours * 1e3:.2f} ms"
        yield [f"a small fit of {name}", "100 x 10", text, against, f"{ours / theirs:.2f}"]


def import_row(seconds):
    ours, theirs = seconds["sublinear"], seconds["sklearn.linear_model"]
    against = f"sklearn.linear_model, {theirs:.3f} s"
    return ["import sublinear", "", f"{ours:.3f} s", against, f"{ours / theirs:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "measure_costs.json")
    parser.add_argument("--repetitions", type=int, default=11)
    options = parser.parse_args()
    with threadpool_limits(1):
        figures = [
            measure(problem, options.repetitions)
            for problem in problems(options.data, options.sets)
        ]
        small = small_fit(options.repetitions)
    imports = import_seconds(options.repetitions)
    table = [row for one in figures for row in rows(one)]
    table += [*small_fit_rows(small), import_row(imports)]
    found = {"sets": figures, "small_fit": small, "import": imports}
    report(HEADER, table, options.json, found)


if __name__ == "__main__":
    main()
