"""Ctrl-C during a fit: KeyboardInterrupt is raised and what was reached is kept.

The fits run in another interpreter, which sends SIGINT to itself; they would never end otherwise.
So do single passes over rows, which would go on to the last one.
"""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends itself SIGINT")

PROGRAM = '''
import json, os, signal, sys, threading, warnings
import numpy as np
from scipy import sparse
from sublinear import PegasosClassifier, SDCAClassifier, SDCARegressor

warnings.simplefilter("ignore")
random = np.random.default_rng(0)
S = sparse.random_array((20_000, 300), density=0.03, rng=random, format="csr")
X = random.normal(size=(5000, 40))
two = (S @ random.normal(size=300) + random.normal(size=20_000) > 0).astype(int)
five = random.integers(0, 5, size=20_000)
endless = dict(alpha=1e-7, tol=0, max_iter=10**9, random_state=0)
tall, wide = (3 + random.normal(size=size) for size in ((15_000, 500), (1200, 15_000)))
exact = dict(alpha=1e-9, tol=1e-15, second_order=True, random_state=0)

CASES = {
    "sdca": (SDCAClassifier(**endless), S, two),
    "sdca without packing": (SDCAClassifier(pack=False, **endless), S, two),
    "sdca, logistic loss": (SDCAClassifier("logistic", **endless), S, two),
    "sdca, dense float32": (SDCAClassifier(**endless), X.astype(np.float32), two[:5000]),
    "sdca, free intercept": (SDCAClassifier(penalize_intercept=False, **endless), S, two),
    "sdca, two threads": (SDCAClassifier(n_jobs=2, **endless), S, two),
    "sdca, batches": (SDCAClassifier(batch_size=64, **endless), S, two),
    "sdca, all": (SDCAClassifier(batch_size="all", batch_rule="aggressive", **endless), S, two),
    "sdca, five classes": (SDCAClassifier(**endless), S, five),
    "sdca, five classes, two threads": (SDCAClassifier(n_jobs=2, **endless), S, five),
    "sdca, five classes, five threads": (SDCAClassifier(n_jobs=5, **endless), S, five),
    "sdca, progress": (SDCAClassifier(verbose=1, **endless), S, two),
    "sdca, second order": (SDCAClassifier(**exact), tall, two[:15_000]),
    "sdca, second order, few rows": (SDCAClassifier("logistic", **exact), wide, two[:1200]),
    "regression": (SDCARegressor("absolute", **endless), X, X[:, 0] + random.normal(size=5000)),
    "pegasos": (PegasosClassifier(**endless), S, two),
    "pegasos, batches": (PegasosClassifier(batch_size=64, **endless), S, two),
    "pegasos, all": (PegasosClassifier(batch_size="all", **endless), S, two),
    "pegasos, five classes, two threads": (PegasosClassifier(n_jobs=2, **endless), S, five),
}


signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it


def interrupt_later(delay):
    """Send SIGINT to this process after so many seconds."""
    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()


def run(model, X, y):
    interrupt_later(0.25)
    raised = None
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    except BaseException as error:
        raised = repr(error)
    result = {"raised": raised, "attributes": sorted(
        name for name in vars(model) if name.endswith("_") and not name.startswith("_"))}
    if hasattr(model, "result_"):
        result["status"] = model.result_.status
        result["parts"] = [part.status for part in model.result_.parts]
        result["n_iter"] = [model.n_iter_, model.result_.n_iter]
        result["finite"] = bool(np.isfinite(model.coef_).all())
        result["moved"] = bool(model.coef_.any())
        result["shape"] = model.coef_.shape
        result["predictions"] = model.predict(X[:7]).shape
        result["consistent"] = consistent(model, X, y)
    quick = model.set_params(max_iter=2, verbose=0).fit(X, y)
    result["afterwards"] = quick.result_.status
    return result


def consistent(model, X, y):
    """Tell whether the primal value is that of coef_, where it is known."""
    if model.result_.parts or np.isnan(model.result_.primal):
        return True
    z = X.astype(float) @ np.ravel(model.coef_).astype(float) + np.ravel(model.intercept_)[0]
    free = not getattr(model, "penalize_intercept", True)
    square = np.sum(model.coef_.astype(float) ** 2)
    square += 0.0 if free else float(np.ravel(model.intercept_)[0]) ** 2
    margin = np.where(y, 1.0, -1.0) * z
    losses = {
        "hinge": lambda: np.maximum(0, 1 - margin),
        "logistic": lambda: np.logaddexp(0, -margin),
        "absolute": lambda: np.abs(z - y),
    }
    primal = model.alpha / 2 * square + losses[model.loss]().mean()
    return bool(np.isclose(primal, model.result_.primal, rtol=1e-6))


for name in sys.argv[1:] or CASES:
    print(json.dumps({"name": name, **run(*CASES[name])}), flush=True)

# a stream goes on after an interrupt
model = PegasosClassifier(alpha=1e-3, random_state=0)
interrupt_later(0.5)
calls = 0
try:
    while True:
        model.partial_fit(S, two, classes=[0, 1])
        calls += 1
except KeyboardInterrupt:
    pass
model.partial_fit(S, two)
print(json.dumps({"name": "stream", "calls": calls, "score": model.score(S, two)}), flush=True)
'''

NAMES = [
    line.split('"')[1]
    for line in PROGRAM.split("CASES = {")[1].split("\n}")[0].splitlines()
    if line.strip()
]


@pytest.fixture(scope="module")
def outcomes():
    """What became of every case; those that the program did not come to are missing."""
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
    lines = [json.loads(line) for line in output.splitlines()]
    found = {line["name"]: line for line in lines}
    found["errors"] = errors
    return found


def of(outcomes, name):
    assert name in outcomes, f"no answer within the time limit; {outcomes['errors'][-2000:]}"
    return outcomes[name]


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt_leaves_a_fitted_estimator(outcomes, name):
    outcome = of(outcomes, name)
    assert outcome["raised"] == "KeyboardInterrupt"
    expected = {"coef_", "intercept_", "n_iter_", "n_features_in_", "result_"}
    expected |= {"dual_coef_"} if "pegasos" not in name else set()
    expected |= {"classes_"} if name != "regression" else set()
    assert expected <= set(outcome["attributes"])
    assert outcome["status"] == "interrupted"
    assert outcome["finite"] and outcome["moved"] and outcome["consistent"]
    assert outcome["n_iter"][0] == outcome["n_iter"][1]
    assert outcome["predictions"] == [7]
    assert outcome["afterwards"] == "max_iter"
    if "five classes" in name:
        assert outcome["shape"] == [5, 300]
        assert outcome["parts"] == ["interrupted"] * 5


def test_a_stream_goes_on(outcomes):
    outcome = of(outcomes, "stream")
    assert outcome["calls"] > 1
    assert outcome["score"] > 0.6


PASSES = """
import json, os, signal, threading
from types import SimpleNamespace
import numpy as np
from sublinear._core.anchored_gradient import AnchoredGradient, inner_steps
from sublinear._core.losses import Hinge
from sublinear._core.kernels import Linear
from sublinear._core.matrix import Matrix
from sublinear._core.panel_rows import PanelRows

n, d, m = 4_000_000, 5000, 100_000    # one row of ones, so many times
matrix = Matrix(np.broadcast_to(np.ones(d), (n, d)))
ones, order, sums = np.ones(n), np.arange(n), np.zeros(2 * d + 2)
sums[:d] = -1
gradient = AnchoredGradient(Hinge(), np.zeros(d))
gradient.add_sums(sums, 1, 1, 1.0)    # a mean of -1 for every weight
block = SimpleNamespace(matrix=matrix, targets=-ones, weights=None, order=None)
kernel = PanelRows(Linear(), Matrix(np.ones((m, 1))), Matrix(np.ones((2 * m, 1))))
changes = np.ones((1, m))

# every row adds 1 to all of w
CASES = {
    "add_rows": (lambda w: matrix.add_rows(ones, order, w), n, d),
    "add_gram_product": (
        lambda w: matrix.add_gram_product(np.full(d, 1 / d), ones, order, w), n, d),
    "inner_steps": (
        lambda w: inner_steps(block, 0, n, Hinge(), 1.0, np.zeros(d), gradient, w), n, d),
    "add_long_product": (
        lambda w: kernel.add_long_product(order[:m], changes, w[np.newaxis]), m, 2 * m),
}

signal.signal(signal.SIGINT, signal.default_int_handler)
for name, (call, n_rows, n_weights) in CASES.items():
    w, raised = np.zeros(n_weights), False
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call(w)
    except KeyboardInterrupt:
        raised = True
    print(json.dumps({"name": name, "raised": raised, "part": w[0] / n_rows}), flush=True)
"""


def test_passes_over_rows_end_at_an_interrupt():
    found = subprocess.run(
        [sys.executable, "-c", PASSES], capture_output=True, text=True, timeout=90, check=True
    )
    outcomes = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(outcomes) == 4
    for outcome in outcomes:
        assert outcome["raised"] and outcome["part"] < 0.9, outcome
