"""Measure fits over a source: throughput against the source alone, and peak memory.

    python asv_bench/measure_streams.py [--parts throughput memory] [--json measure_streams.json]

- rows per second of `fit_stream` of PegasosClassifier and StreamingSVRGClassifier from a file of
  each format, against those of a bare loop over the same source, which reads and parses;
- peak resident memory of a whole process that fits 10^5, 10^6 and 10^7 rows (Linux only).

What is not among the `--parts` stays as the JSON file has it.
"""

import argparse
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from figures import interleaved_seconds, report, seconds_of
from one_fit import resident
from sklearn.datasets import dump_svmlight_file

from sublinear import PegasosClassifier, SDCAClassifier, StreamingSVRGClassifier
from sublinear.sources import GeneratorSource, ParquetSource, SvmlightSource, open_source

N_TEXT, N_BINARY = 60_000, 600_000  # rows: files of a few tenths of a second
N_LONG = 5 * N_TEXT  # of a stream that is long beside what a fit does at its beginning
N_SPARSE, N_DENSE = 1000, 50
BLOCK_ROWS = 10_000
LEAST_ROWS, TIMES = 10**5, (1, 10, 100)  # of the fits whose memory is measured
CLASSES = [-1, 1]
ALONE = "source alone"
TEXT_ROWS = {"svmlight": N_TEXT, "longer svmlight": N_LONG, "CSV": N_TEXT}
HEADER = ["what", "case", "figure", "compared with", "ratio"]


def write_files(folder):
    """Write the same rows in every format, the first ones as text; return {name: source}."""
    rng = np.random.default_rng(0)
    S = sp.random_array((N_BINARY, N_SPARSE), density=0.02, rng=rng, format="csr")
    D = rng.standard_normal((N_BINARY, N_DENSE))
    y = np.where(rng.random(N_BINARY) < 0.5, -1, 1)
    dump_svmlight_file(S[:N_TEXT], y[:N_TEXT], str(folder / "rows.svm"), zero_based=False)
    dump_svmlight_file(S[:N_LONG], y[:N_LONG], str(folder / "longer.svm"), zero_based=False)
    table = np.column_stack([D[:N_TEXT], y[:N_TEXT]])
    np.savetxt(folder / "rows.csv", table, delimiter=",", fmt="%.9g")
    np.save(folder / "rows.npy", D)
    np.save(folder / "y.npy", y)
    for start in range(0, N_BINARY, BLOCK_ROWS):
        part = S[start : start + BLOCK_ROWS]
        np.savez(
            folder / f"{start:08d}.npz",
            y=y[start : start + BLOCK_ROWS],
            **{name: getattr(part, name) for name in ("data", "indices", "indptr", "shape")},
        )
    svmlight = {"n_features": N_SPARSE, "index_base": 1}
    sources = {
        "svmlight": open_source(folder / "rows.svm", **svmlight),
        "longer svmlight": open_source(folder / "longer.svm", **svmlight),
        "CSV": open_source(folder / "rows.csv"),
        "CSR shards": open_source(sorted(folder.glob("*.npz"))),
        ".npy": open_source(folder / "rows.npy", labels=folder / "y.npy"),
    }
    if importlib.util.find_spec("pyarrow"):
        import pyarrow
        from pyarrow import parquet

        columns = {f"x{j}": D[:, j] for j in range(N_DENSE)} | {"y": y}
        parquet.write_table(pyarrow.table(columns), folder / "rows.parquet")
        sources["Parquet"] = open_source(folder / "rows.parquet")
    return sources


def throughput(source, repetitions):
    """Return median seconds of a bare loop over a source and of fits to it.

    And the median of the loop's time by that of a fit in the same turn: the speed of a machine may
    change between turns.
    """

    def read():
        for _ in source:
            pass

    def task(model):
        # a model is computed when it is first asked for
        return lambda _: seconds_of(lambda: model.fit_stream(source, classes=CLASSES).coef_)

    tasks = {
        ALONE: lambda _: seconds_of(read),
        "Pegasos": task(PegasosClassifier(random_state=0)),
        "Streaming SVRG": task(StreamingSVRGClassifier()),
    }
    interleaved_seconds(tasks, 1)
    seconds = interleaved_seconds(tasks, repetitions)
    alone = np.array(seconds[ALONE])
    return {
        name: {"seconds": float(np.median(own)), "share": float(np.median(alone / own))}
        for name, own in seconds.items()
    }


def generated(n_rows):
    """Return a source of so many rows, made block by block."""

    def blocks():
        rng = np.random.default_rng(0)
        for _ in range(n_rows // BLOCK_ROWS):
            X = rng.standard_normal((BLOCK_ROWS, 20))
            yield X, np.where(X[:, 0] + rng.standard_normal(BLOCK_ROWS) > 0, 1, -1)

    return GeneratorSource(blocks)


def peak(kind, n_rows, folder):
    """Fit in this process and print its peak memory in bytes."""
    source = generated(n_rows)
    if kind == "svmlight":
        source = SvmlightSource(
            Path(folder, f"{n_rows}.svm"), n_features=20, index_base=1, block_bytes=2**20
        )
    elif kind == "Parquet":
        source = ParquetSource(Path(folder, f"{n_rows}.parquet"))
    model = {
        "SDCA": SDCAClassifier(random_state=0, max_iter=2, tol=1.0),
        "StreamingSVRG": StreamingSVRGClassifier(),
    }.get(kind, PegasosClassifier(random_state=0))
    model.fit_stream(source, classes=CLASSES)
    assert model.stream_.rows == n_rows and np.isfinite(model.coef_).all()
    print(resident("VmHWM"))


def memory(kind, n_rows, folder):
    """Return the bytes that `peak` prints in a process of its own."""
    file = Path(folder, f"{n_rows}.{'parquet' if kind == 'Parquet' else 'svm'}")
    if kind == "svmlight":
        once = io.BytesIO()
        for X, y in generated(LEAST_ROWS):
            dump_svmlight_file(X.round(2), y, once, zero_based=False)
        with open(file, "wb") as stream:
            for _ in range(n_rows // LEAST_ROWS):
                stream.write(once.getvalue())
    elif kind == "Parquet":
        import pyarrow
        from pyarrow import parquet

        X, y = (np.concatenate(parts) for parts in zip(*generated(LEAST_ROWS), strict=True))
        table = pyarrow.table({f"x{j}": X[:, j] for j in range(20)} | {"y": y})
        with parquet.ParquetWriter(file, table.schema) as writer:
            for _ in range(n_rows // LEAST_ROWS):
                writer.write_table(table)
    command = [sys.executable, __file__, "--peak", kind, str(n_rows), str(folder)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    file.unlink(missing_ok=True)
    return int(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parts = ("throughput", "memory")
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--json", type=Path, default=Path("measure_streams.json"))
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        kind, n_rows, folder = options.peak
        return peak(kind, int(n_rows), folder)
    figures = json.loads(options.json.read_text()) if options.json.exists() else {}
    figures.pop("environment", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "throughput" in options.parts:
            figures["throughput"] = {
                name: throughput(source, options.repetitions)
                for name, source in write_files(folder).items()
            }
        if "memory" in options.parts:
            figures["memory"] = {
                kind: {str(k * LEAST_ROWS): memory(kind, k * LEAST_ROWS, folder) for k in TIMES}
                for kind in TITLES
                if kind != "Parquet" or importlib.util.find_spec("pyarrow")
            }
    report(HEADER, list(rows(figures)), options.json, figures)


TITLES = {
    "Pegasos": "PegasosClassifier, generated rows",
    "StreamingSVRG": "StreamingSVRGClassifier, generated rows",
    "svmlight": "PegasosClassifier, svmlight text",
    "Parquet": "PegasosClassifier, Parquet",
    "SDCA": "SDCAClassifier, generated rows",
}


def rows(figures):
    """Yield the table's rows."""
    for name, tasks in figures.get("throughput", {}).items():
        n_rows = TEXT_ROWS.get(name, N_BINARY)
        rates = {task: f"{task}, {n_rows / tasks[task]['seconds']:,.0f} rows/s" for task in tasks}
        for method in ("Pegasos", "Streaming SVRG"):
            share = f"{tasks[method]['share']:.2f}"
            yield ["throughput", name, rates[method], rates[ALONE], share]
    for kind, peaks in figures.get("memory", {}).items():
        first, *others = peaks
        for n_rows in others:
            yield [
                "peak memory of the process",
                TITLES[kind],
                f"{int(n_rows):,} rows, {peaks[n_rows] / 2**20:.0f} MiB",
                f"{int(first):,} rows, {peaks[first] / 2**20:.0f} MiB",
                f"{peaks[n_rows] / peaks[first]:.3f}",
            ]


if __name__ == "__main__":
    main()
