"""Fit from a DualStore with a cold cache, and tell what the system had to read (Linux).

    python asv_bench/cold_store.py FOLDER [--size 23168] [--keep] [--json cold_store.json]

FOLDER is on a disk with room for the store: 8 * size^2 bytes, 4 GiB by default, half of it rows and
half of it columns. The data is dense float32 with a planted margin of 0.1, built from a stream of
blocks of rows. Then, for every number of steps, the store's pages are dropped from the cache, a
SublinearPerceptron is fitted without a certificate, and what the system holds of the store
afterwards (mincore) is what the fit made it read; /proc/self/io tells what the process caused the
disk to deliver. The margin is computed last, by a pass.
"""

import argparse
import os
import re
import shutil
from pathlib import Path

import numpy as np
from figures import report, seconds_of
from planted import Planted

from sublinear import SublinearPerceptron
from sublinear.data import DualStore

HEADER = [
    "store, bytes",
    "max_iter",
    "least margin",
    "values read",
    "bytes of the store in memory",
    "share of the store",
    "bytes from the disk",
    "seconds",
]


def forget(folder):
    """Have the system drop the files' pages from its cache; they must not be mapped."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def from_the_disk():
    """Bytes that this process made the disk deliver."""
    return int(re.search(r"read_bytes: (\d+)", Path("/proc/self/io").read_text())[1])


def measure(folder, y, steps):
    """Return the figures of one fit from a cold cache."""
    forget(folder)
    store = DualStore(folder)
    before, disk = store.resident_bytes(), from_the_disk()
    model = SublinearPerceptron(
        fit_intercept=False, certify=None, row_norm=1.0, max_iter=steps, random_state=0
    )
    seconds = seconds_of(lambda: model.fit(store, y))
    figures = {
        "store_bytes": store.nbytes,
        "max_iter": steps,
        "accesses": model.result_.accesses,
        "resident_before": before,
        "resident": store.resident_bytes() - before,
        "disk": from_the_disk() - disk,
        "seconds": seconds,
    }
    w = model.coef_[0] / np.linalg.norm(model.coef_[0])
    margins = y * store.matrix().row_dots(w.astype(np.float64), np.arange(len(y)))
    return {**figures, "margin": float(margins.min())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=23168)
    parser.add_argument("--steps", nargs="+", type=int, default=[512, 1024, 2048, 4096])
    parser.add_argument("--keep", action="store_true", help="do not delete the store")
    parser.add_argument("--json", type=Path, default=Path("cold_store.json"))
    options = parser.parse_args()
    path = options.folder / f"planted-{options.size}"
    data = Planted(options.size)
    if not path.is_dir():
        needed, free = 8 * options.size**2, shutil.disk_usage(options.folder).free
        if free < 2 * needed:
            raise SystemExit(f"{options.folder} has {free} bytes left, {2 * needed} are wanted")
        DualStore.build(path, data.blocks())
    try:
        found = [measure(path, data.y, steps) for steps in options.steps]
    finally:
        if not options.keep:
            shutil.rmtree(path)
    rows = [
        [
            f"{one['store_bytes']:.3g}",
            one["max_iter"],
            f"{one['margin']:.4f}",
            f"{one['accesses']:.3g}",
            f"{one['resident']:.3g}",
            f"{one['resident'] / one['store_bytes']:.1%}",
            f"{one['disk']:.3g}",
            f"{one['seconds']:.2f}",
        ]
        for one in found
    ]
    report(HEADER, rows, options.json, {"size": options.size, "fits": found})


if __name__ == "__main__":
    main()
