"""Small data sets that several test modules share, and the folder of the real ones."""

import _thread
import importlib.util
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sublinear


def as_float32(X):
    """X scaled so that the longest row has norm 1, in float64, all values exact in float32."""
    X = X / np.linalg.norm(X, axis=1).max()
    X = X.astype(np.float32).astype(np.float64)
    X.flags.writeable = False
    return X


def rows(n, d, density, seed):
    random = np.random.default_rng(seed)
    return as_float32(random.normal(size=(n, d)) * (random.random((n, d)) < density)), random


@pytest.fixture(scope="session")
def binary():
    """X (200, 12), half of it zero, and labels 0 and 1 that no hyperplane separates."""
    X, random = rows(200, 12, 0.5, 0)
    y = (X @ random.normal(size=12) + 0.3 * random.normal(size=200) > 0).astype(int)
    return X, y


@pytest.fixture(scope="session")
def multiclass():
    """X (240, 10) and the labels 0, 1, 2."""
    X, random = rows(240, 10, 0.6, 1)
    scores = X @ random.normal(size=(10, 3)) + 0.2 * random.normal(size=(240, 3))
    return X, scores.argmax(axis=1)


@pytest.fixture(scope="session")
def regression():
    """X (200, 8) and targets with noise."""
    X, random = rows(200, 8, 0.7, 2)
    return X, X @ random.normal(size=8) + 0.1 * random.normal(size=200) + 0.5


@pytest.fixture(scope="session")
def sparse_problem():
    """A larger CSR matrix (20 000, 500) and its labels: a fit of it takes a while."""
    random = np.random.default_rng(3)
    X = sparse.random_array((20_000, 500), density=0.02, rng=random, format="csr")
    y = (X @ random.normal(size=500) + random.normal(size=20_000) > 0).astype(int)
    return X, y


@pytest.fixture(scope="session")
def load():
    """The function that loads a real data set by its name; skips where there are none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SUBLINEAR_DATA", beside))
    if not (folder / "load.py").is_file():
        pytest.skip("no real data: SUBLINEAR_DATA does not name a folder with load.py")
    spec = importlib.util.spec_from_file_location("sublinear_test_data", folder / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load


@pytest.fixture
def as_stored(monkeypatch):
    """Let `fit` of linear Pegasos draw rows as they are stored, weights being factors of steps."""
    monkeypatch.setattr(
        sublinear.PegasosClassifier, "_draw_by_weight", lambda self, training, labels: training
    )


@pytest.fixture
def interrupt_after():
    """A function that does what Ctrl-C does, some seconds later; also where SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def start(seconds):
        timers.append(threading.Timer(seconds, _thread.interrupt_main))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.cancel()
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def lasting_client():
    """The client of a cluster of two processes, which restarts those that die."""
    distributed = pytest.importorskip("distributed", reason="no dask[distributed]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(lasting_client):
    """The same once two workers answer: a test before may have killed one."""
    for _ in range(300):
        try:
            if len(lasting_client.run(os.getpid)) == 2:
                break
        except OSError:  # the dead one is not forgotten yet
            pass
        time.sleep(0.1)
    return lasting_client


@pytest.fixture
def da(client):
    return pytest.importorskip("dask.array")
