"""One fit of a kernel machine in a process of its own, for compare_kernel_peers.py.

    one_kernel_fit.py FOLDER '{"set": .., "rows": .., "solver": .., "parameters": {..}}'

Prints seconds of wall clock and of processors, the peak of resident memory above what was resident
before, test errors, support vectors and, of ours, kernel evaluations, gap and primal value. With
"predict": true an SVC's support vectors are given to our estimator too, and both predict test rows.
"lanes": 8 chooses loops of eight float32 lanes, AVX2's.
"""

import json
import statistics
import sys
import time
from functools import partial

import numpy as np
from figures import loader, seconds_of
from one_fit import forget_peak, resident
from scipy.sparse import csr_array
from sklearn.svm import SVC

from sublinear import KernelSDCAClassifier
from sublinear._core.panels import use_lanes

SOLVERS = {"SVC": SVC, "KernelSDCAClassifier": KernelSDCAClassifier}
PREDICTIONS = 3


def load(folder, name, rows):
    """Return the first rows of X, y, X_test, y_test; None: all."""
    return tuple(part[:rows] for part in loader(folder)(name))


def warm_up(make):
    """Load what is loaded late."""
    X = np.random.default_rng(0).normal(size=(200, 5))
    make().fit(X, np.where(X[:, 0] > 0, 1, -1)).predict(X)


def fit(make, data):
    X, y, X_test, y_test = data
    warm_up(make)
    model = make()
    forget_peak()
    before = resident("VmRSS")
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(X, y)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    figures = {
        "seconds": wall,
        "processor_seconds": processor,
        "bytes": resident("VmHWM") - before,
        "support": len(model.support_),
    }
    result = getattr(model, "result_", None)
    if result is not None:
        figures |= {
            "status": result.status,
            "kernel_evaluations": result.accesses,
            "certificate_kernel_evaluations": result.certificate_accesses,
            "primal": result.primal,
            "relative_gap": result.relative_gap,
        }
    figures["test_errors"] = int(np.sum(model.predict(X_test) != y_test))
    return model, figures


def with_support_vectors_of(model, data, n_jobs):
    """Return our estimator, fitted on a few rows, with another model's expansion."""
    X, y, _, _ = data
    some = np.concatenate([np.flatnonzero(y == label)[:50] for label in np.unique(y)])
    ours = KernelSDCAClassifier(kernel="rbf", gamma=model._fitted_kernel.gamma, n_jobs=n_jobs)
    ours.fit(X[some], y[some])
    ours.support_vectors_, ours.support_ = model.support_vectors_, model.support_
    ours.dual_coef_ = csr_array(model.dual_coef_).toarray()
    ours.intercept_ = model.intercept_
    return ours


def compare_predictions(model, data):
    """Return median seconds of decision_function, SVC's and ours with 1 and 2 threads."""
    X_test = data[2]
    models = {"SVC": model}
    for n_jobs in (1, 2):
        models[f"{n_jobs} threads"] = with_support_vectors_of(model, data, n_jobs)
    scores, seconds = {}, {}
    for name, one in models.items():
        runs = 1 if name == "SVC" else PREDICTIONS  # SVC takes long enough
        seconds[name] = statistics.median(
            seconds_of(partial(keep_scores, one, X_test, scores, name)) for _ in range(runs)
        )
    largest = max(np.abs(scores[name] - scores["SVC"]).max() for name in models)
    return {"seconds": seconds, "largest_difference": float(largest)}


def keep_scores(model, X, scores, name):
    scores[name] = model.decision_function(X)


def main():
    task = json.loads(sys.argv[2])
    data = load(sys.argv[1], task["set"], task["rows"])
    if "lanes" in task and not use_lanes(task["lanes"]):
        raise SystemExit(f"this processor has no {task['lanes']} lanes")
    model, figures = fit(lambda: SOLVERS[task["solver"]](**task["parameters"]), data)
    if task.get("predict"):
        figures["prediction"] = compare_predictions(model, data)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
