"""Measure partitions on a cluster of two processes against the same partitions in one process.

    python asv_bench/measure_rounds.py [FOLDER] [--sets covtype] [--json measure_rounds.json]

- the overhead of a round: rounds over two rows, for models of several lengths; also with a client
  that talks to workers directly, not through the scheduler;
- one pass of Streaming SVRG: two workers against the same two partitions in one process;
- a whole fit to a gap of 1e-3: two workers, the same two partitions in one process, SDCAClassifier
  with one thread. Data is on the workers before the clock starts.
"""

import argparse
import statistics
import warnings

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from figures import add_common_arguments, interleaved_medians, problems, report, seconds_of
from threadpoolctl import threadpool_limits

import sublinear
from sublinear.distributed import PegasosClassifier, SDCAClassifier, StreamingSVRGClassifier

LENGTHS = (100, 10_000, 100_000)
ROUNDS, FEW, REPETITIONS = 40, 10, 5
STAGE_ROWS = (1_000_000, 4_000_000)
HEADER = ["what", "figure", "compared with", "ratio"]


def overhead(client, length, kind):
    """Return the median seconds of a round whose work is nothing, and those here."""
    X = np.zeros((2, length))
    X[:, 0] = 1, -1
    sources = [[(X[k : k + 1], np.array([k]))] for k in range(2)]
    options = {"batch_size": 1} if kind is PegasosClassifier else {}

    def seconds(client, rounds):
        model = kind(client=client, tol=0, max_iter=rounds, random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return seconds_of(lambda: model.fit(sources))

    def per_round(client):
        """Of long fits less short ones: what begins and ends a fit is in both."""
        pairs = [(seconds(client, ROUNDS), seconds(client, FEW)) for _ in range(REPETITIONS)]
        return statistics.median((long - short) / (ROUNDS - FEW) for long, short in pairs)

    return {
        "kind": kind.__name__,
        "direct": bool(client.direct_to_workers),
        "length": length,
        "cluster": per_round(client),
        "here": per_round(None),
    }


def stages(client, n_rows):
    """Return the seconds of a pass of Streaming SVRG over rows that the workers hold."""
    X = da.random.default_rng(0).standard_normal((n_rows, 20), chunks=(n_rows // 8, 20))
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    X, y = client.persist([X, y])
    with client.as_current():
        wait([X, y])
    options = {"alpha": 1e-4, "kept_rows": 1000}
    model = StreamingSVRGClassifier(client=client, **options).fit(X, y)
    parts = client.gather(client.compute([(X.blocks[k], y.blocks[k]) for k in range(8)]))
    chunks = [tuple(part) for part in parts]
    sources = [[chunks[k] for k in group] for group in model.partitions_]
    here = StreamingSVRGClassifier(**options)
    tasks = {
        "cluster": lambda _: seconds_of(lambda: model.fit(X, y)),
        "here": lambda _: seconds_of(lambda: here.fit(sources)),
    }
    seconds = interleaved_medians(tasks, REPETITIONS)
    return {"seconds": seconds, "rounds": model.n_iter_ + 1, "rows": n_rows}


def fits(client, problem, repetitions):
    """Return median seconds of whole fits and the figures of their results."""
    X, y = problem.X.tocsr(), np.asarray(problem.y)
    half = X.shape[0] // 2
    order = np.random.default_rng(0).permutation(X.shape[0])
    halves = [(X[rows], y[rows]) for rows in (order[:half], order[half:])]
    arrays = [[], []]
    for half, worker in zip(halves, sorted(client.scheduler_info()["workers"]), strict=True):
        for chunks, part in zip(arrays, half, strict=True):
            future = client.scatter(part, workers=[worker])
            chunks.append(da.from_delayed(future, shape=part.shape, meta=part[:0]))
    A, b = map(da.concatenate, arrays)
    options = {"alpha": problem.alpha, "fit_intercept": False, "random_state": 0}
    cluster = SDCAClassifier(client=client, **options)
    here = SDCAClassifier(**options)
    plain = sublinear.SDCAClassifier(**options)
    tasks = {
        "two workers": lambda _: seconds_of(lambda: cluster.fit(A, b)),
        "same partitions, one process": lambda _: seconds_of(
            lambda: here.fit([[halves[k] for k in group] for group in cluster.partitions_])
        ),
        "SDCAClassifier": lambda _: seconds_of(lambda: plain.fit(X, y)),
    }
    seconds = interleaved_medians(tasks, repetitions)
    return {
        "set": problem.name,
        "seconds": seconds,
        "rounds": cluster.n_iter_,
        "gaps": [model.result_.relative_gap for model in (cluster, here, plain)],
        "largest difference of weights": float(abs(cluster.coef_ - here.coef_).max()),
    }


def rows(overheads, staged, fitted):
    for one in overheads:
        yield [
            f"{one['kind']}, round without work, {one['length']} weights"
            + (", directly" if one["direct"] else ""),
            f"{1e3 * one['cluster']:.1f} ms",
            f"in one process, {1e3 * one['here']:.2f} ms",
            f"{one['cluster'] / one['here']:.1f}",
        ]
    for one in staged:
        seconds = one["seconds"]
        yield [
            f"StreamingSVRGClassifier, {one['rows']:,} rows, {one['rounds']} stages",
            f"{seconds['cluster']:.2f} s",
            f"same partitions, one process, {seconds['here']:.2f} s",
            f"{seconds['cluster'] / seconds['here']:.2f}",
        ]
    for one in fitted:
        seconds = one["seconds"]
        ours = seconds["two workers"]
        for name in ("same partitions, one process", "SDCAClassifier"):
            yield [
                f"{one['set']}, two workers, {one['rounds']} rounds",
                f"{ours:.2f} s",
                f"{name}, {seconds[name]:.2f} s",
                f"{ours / seconds[name]:.2f}",
            ]
        yield [
            f"{one['set']}, largest difference of weights",
            f"{one['largest difference of weights']:.1e}",
            "same partitions, one process",
            "",
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_common_arguments(parser, "measure_rounds.json")
    parser.set_defaults(sets=["covtype"])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    with (
        threadpool_limits(1),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        Client(cluster, set_as_default=False, direct_to_workers=True) as direct,
    ):
        overheads = [
            overhead(through, length, kind)
            for through, kind in (
                (client, SDCAClassifier),
                (client, PegasosClassifier),
                (direct, SDCAClassifier),
            )
            for length in LENGTHS
        ]
        staged = [stages(client, n_rows) for n_rows in STAGE_ROWS]
        sets = problems(options.data, options.sets) if options.data else ()
        fitted = [fits(client, problem, options.repetitions) for problem in sets]
    report(
        HEADER,
        list(rows(overheads, staged, fitted)),
        options.json,
        {"rounds": overheads, "stages": staged, "fits": fitted},
    )


if __name__ == "__main__":
    main()
