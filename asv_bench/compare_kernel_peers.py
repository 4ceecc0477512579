"""Time whole fits of KernelSDCAClassifier against scikit-learn's SVC.

    python asv_bench/compare_kernel_peers.py FOLDER [--parts adult "mnist8 C=10"] [--json FILE]

Each fit is a process of its own; those of a part are run in turns, and ratios are taken within a
part. A part that is run again replaces its figures in the file, the others stay: SVC takes minutes.
Without repetitions of SVC its figures of the last run stay. "--clock processor" counts processor
seconds, on a machine that does other things, and leaves fits with two threads out.
Both have their default settings but for kernel parameters and C; ours has no bias but where the
name says so, and SVC's unpenalised bias there. "AVX2 alone" leaves wider vectors unused.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from figures import add_common_arguments, earlier, report

CHILD = Path(__file__).with_name("one_kernel_fit.py")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
HEADER = [
    "set", "solver", "seconds", "SVC / this", "test errors", "support vectors", "kernel values",
    "relative gap", "MB above the data",
]  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One data set with one setting."""

    data: str
    gamma: float | str
    C: float = 1.0
    n_classes: int = 2
    n_rows: int | None = None

    def tasks(self):
        """Return {name: what one_kernel_fit.py is asked to do}."""
        common = {"kernel": "rbf", "gamma": self.gamma, "C": self.C}
        ours = {**common, "random_state": 0}
        variants = {"": {"fit_intercept": False}, ", bias": {"penalize_intercept": False}}
        if self.n_classes > 2:
            variants = {
                ", ovo": {"fit_intercept": False},
                ", ovo, bias": {"penalize_intercept": False},
                ", ovr": {"fit_intercept": False, "multi_class": "ovr"},
            }
        tasks = {
            "SVC": {
                "solver": "SVC",
                "parameters": common,
                "predict": self.n_classes == 2 and self.C == 1,
            }
        }
        first = next(iter(variants))
        for suffix, n_jobs in [*((suffix, 1) for suffix in variants), (first, 2)]:
            threads = "" if n_jobs == 1 else ", 2 threads"
            tasks[f"KernelSDCAClassifier{suffix}{threads}"] = {
                "solver": "KernelSDCAClassifier",
                "parameters": {**ours, **variants[suffix], "n_jobs": n_jobs},
            }
        alone = dict(tasks[f"KernelSDCAClassifier{first}"], lanes=8)
        tasks[f"KernelSDCAClassifier{first}, AVX2 alone"] = alone
        return {
            name: {"set": self.data, "rows": self.n_rows, **task} for name, task in tasks.items()
        }


PARTS = {
    "adult": Part("adult", 0.05),
    "mnist8": Part("mnist8", 0.02),
    "covtype-20000": Part("covtype", "scale", n_rows=20_000),
    "news20-uni": Part("news20-uni", "scale"),
    **{f"adult C={C:g}": Part("adult", 0.05, C) for C in (0.1, 10, 100)},
    **{f"mnist8 C={C:g}": Part("mnist8", 0.02, C) for C in (0.1, 10, 100)},
    "mnist": Part("mnist", 0.02, n_classes=10),
}


def run(task, folder, prefix):
    """Return the figures of one fit."""
    command = [*prefix, sys.executable, str(CHILD), str(folder), json.dumps(task)]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    print(task["set"], task["solver"], f"{figures['seconds']:.2f} s", file=sys.stderr, flush=True)
    return figures


def measure(part, known, options):
    """Return {solver: the figures of its first fit, with medians of the seconds of all}."""
    tasks = part.tasks()
    if options.clock == "processor":
        tasks = {name: task for name, task in tasks.items() if "threads" not in name}
    runs = {name: [] for name in tasks}
    for repetition in range(options.repetitions):
        for name, task in tasks.items():
            if name != "SVC" or repetition < options.repetitions_of_svc:
                runs[name].append(run(task, options.data, shlex.split(options.prefix)))
    kept = [name for name, of_one in runs.items() if not of_one]
    for name in kept:
        if known is None or known[name]["clock"] != options.clock:
            raise SystemExit(f"{name} has no seconds of the {options.clock} clock: fit it again")
    return {
        name: known[name] if name in kept else summary(of_one, options.clock)
        for name, of_one in runs.items()
    }


def summary(fits, clock):
    """Return the figures of the first fit with the median seconds of all."""
    wall, processor = (
        statistics.median(fit[key] for fit in fits) for key in ("seconds", "processor_seconds")
    )
    return {
        **fits[0],
        "seconds": wall if clock == "wall" else processor,
        "processor_seconds": processor,
        "clock": clock,
        "fits": len(fits),
    }


def rows(name, figures):
    """Yield the table's rows for one part."""
    part = PARTS[name]
    title = f"{part.data}, gamma {part.gamma}, C {part.C:g}"
    if part.n_rows:
        title += f", {part.n_rows} rows"
    if any(found.get("clock") == "processor" for found in figures.values()):
        title += ", processor seconds"
    slowest = figures["SVC"]["seconds"]
    for solver, found in figures.items():
        certified = "relative_gap" in found
        yield [
            title,
            solver,
            f"{found['seconds']:.3g}",
            f"{slowest / found['seconds']:.1f}",
            found["test_errors"],
            found["support"],
            f"{found['kernel_evaluations']:.2e}" if certified else "-",
            f"{found['relative_gap']:.1e}" if certified else "-",
            f"{found['bytes'] / 1e6:.0f}",
        ]
    prediction = figures["SVC"].get("prediction")
    if prediction:
        for solver, seconds in prediction["seconds"].items():
            ratio = prediction["seconds"]["SVC"] / seconds
            name = f"prediction with SVC's support vectors, {solver}"
            yield [title, name, f"{seconds:.3g}", f"{ratio:.1f}", *["-"] * 5]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "compare_kernel_peers.json", sets=False)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--repetitions-of-svc", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    parser.add_argument("--prefix", default="", help="a command that runs each fit, e.g. taskset")
    options = parser.parse_args()
    parts = earlier(options.json).get("parts", {})
    for name in options.parts:
        parts[name] = measure(PARTS[name], parts.get(name), options)
        parts = {known: parts[known] for known in PARTS if known in parts}
        table = [row for known, figures in parts.items() for row in rows(known, figures)]
        report(HEADER, table, options.json, {"parts": parts})


if __name__ == "__main__":
    main()
