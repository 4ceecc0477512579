"""One fit in a process of its own, for measure_costs.py: `one_fit.py memory|endless SOLVER FOLDER`.

`memory` prints the peak of resident memory during a fit above what was resident before it;
`endless` fits until it is interrupted and prints when the interrupt came out, and what is left.
"""

import ctypes
import json
import re
import signal
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from benchmarks.problems import make_sparse
from benchmarks.solvers import linear_svc, pegasos, sdca, timed_fit

PACK = {
    "SDCAClassifier": "auto",
    "SDCAClassifier, pack=False": False,
    "SDCAClassifier, pack=True": True,
}


def load(folder):
    """Return X, y and alpha as measure_costs.py saved them."""
    about = json.loads((folder / "about.json").read_text())
    data, indices, indptr, y = (
        np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr", "y")
    )
    return sp.csr_matrix((data, indices, indptr), shape=about["shape"]), y, about["alpha"]


def make(name, n_rows, alpha, max_iter):
    if name == "LinearSVC":
        return linear_svc(n_rows, alpha, seed=0, max_iter=max_iter)
    if name == "PegasosClassifier":
        return pegasos(alpha, seed=0, max_iter=max_iter)
    return sdca(alpha, seed=0, max_iter=max_iter, pack=PACK[name])


def resident(field):
    """Return VmRSS (now) or VmHWM (peak) of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status).group(1))


def forget_peak():
    """Give freed memory back and make the kernel count the peak from now on (Linux)."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def memory(name, folder):
    X, y, alpha = load(folder)
    small_X, small_y = make_sparse(200, 100, entries_per_row=5)
    timed_fit(make(name, 200, alpha, max_iter=2), small_X, small_y)  # load what is loaded late
    model = make(name, X.shape[0], alpha, max_iter=10)
    forget_peak()
    before = resident("VmRSS")
    timed_fit(model, X, y)
    print(json.dumps({"bytes": resident("VmHWM") - before}))


def endless(name, folder):
    # a parent that runs in the background may have told its children to ignore the signal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    X, y, alpha = load(folder)
    model = make(name, X.shape[0], alpha, max_iter=10**9)
    print("fitting", flush=True)
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        ended = time.time()
    usable = bool(np.isfinite(model.coef_).all()) and model.predict(X).shape == y.shape
    print(json.dumps({"time": ended, "usable": usable, "status": model.result_.status}))


if __name__ == "__main__":
    {"memory": memory, "endless": endless}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
