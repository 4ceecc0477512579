"""Measure the working memory of the semi-streaming methods as the number of rows grows.

    python asv_bench/measure_semi_streaming.py [--rows 10000 100000 1000000] [--json ..]

Blocks are made anew in every pass, so nothing but the method's own memory remains. `words` is what
the solver counts of its own arrays; `peak` what Python allocated on top of a plain pass over the
blocks, whose own peak is subtracted. The interpreter keeps up to 2000 freed tuples of each length
until the garbage collector looks at everything, which would count as memory: it does before every
pass.
"""

import argparse
import gc
import tracemalloc
from pathlib import Path

import numpy as np
from figures import report

from sublinear._core.matrix import Matrix
from sublinear._labels import margin_targets
from sublinear._stream import Stream
from sublinear.semi_streaming import SemiStreamingEnclosingBall, SemiStreamingPerceptron
from sublinear.sources import GeneratorSource

BLOCK_ROWS, N_COLUMNS, MARGIN, EPSILON = 2000, 50, 0.3, 0.2
ESTIMATORS = (SemiStreamingPerceptron, SemiStreamingEnclosingBall)
HEADER = ["method", "rows", "passes", "words", "to the least", "peak, bytes", "to the least"]


def blocks(n_rows):
    """Yield unit rows with a margin along the first axis, the same in every pass."""
    random = np.random.default_rng(0)
    base = random.normal(size=(BLOCK_ROWS, N_COLUMNS - 1)).astype(np.float32)
    base *= np.sqrt(1 - MARGIN**2) / np.linalg.norm(base, axis=1, keepdims=True)
    y = random.integers(0, 2, BLOCK_ROWS)
    for k in range(n_rows // BLOCK_ROWS):
        X = np.empty((BLOCK_ROWS, N_COLUMNS), dtype=np.float32)
        X[:, 0] = np.where(y, MARGIN, -MARGIN)
        X[:, 1:] = np.roll(base, k, axis=1)
        yield X, y


def peak_of(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def measure(estimator, n_rows):
    """Return passes, words and bytes of a fit."""

    def one_pass():
        gc.collect()
        return blocks(n_rows)

    source = GeneratorSource(one_pass)
    model = estimator(EPSILON, random_state=0)

    def plain_pass():
        for block in Stream(source, y_numeric=False, read_ahead=0):
            Matrix(block.X)
            margin_targets(block.y, 1)

    # what is allocated once and for all: caches of classes and modules
    plain_pass()
    estimator(EPSILON, random_state=0).fit_stream(GeneratorSource(lambda: blocks(2 * BLOCK_ROWS)))
    base = peak_of(plain_pass)
    peak = peak_of(lambda: model.fit_stream(source))
    return {
        "method": estimator.__name__,
        "rows": n_rows,
        "passes": model.result_.passes,
        "words": model.result_.words,
        "peak": max(0, peak - base),
    }


def table_rows(figures):
    for name in dict.fromkeys(one["method"] for one in figures):
        mine = [one for one in figures if one["method"] == name]
        least = {key: max(1, min(one[key] for one in mine)) for key in ("words", "peak")}
        for one in mine:
            yield [
                name,
                one["rows"],
                one["passes"],
                one["words"],
                f"{one['words'] / least['words']:.3f}",
                one["peak"],
                f"{one['peak'] / least['peak']:.3f}",
            ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--json", type=Path, default=Path("measure_semi_streaming.json"))
    options = parser.parse_args()
    figures = [measure(estimator, rows) for estimator in ESTIMATORS for rows in options.rows]
    report(HEADER, list(table_rows(figures)), options.json, {"fits": figures})


if __name__ == "__main__":
    main()
