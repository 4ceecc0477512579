"""An error that ends a fit is held by no frame that it came through.

Such a cycle would keep the solver and its copies of the data until the garbage collector comes.
"""

import gc
import threading
import weakref
from functools import partial

import numpy as np
import pytest
from test_structured import Classes

from sublinear import (
    KernelSDCAClassifier,
    MinimumEnclosingBall,
    PegasosStructured,
    SDCAClassifier,
    solve_primal_dual,
    solve_simplex_qp,
)
from sublinear._certified_model import Outcome, solve_all
from sublinear._drive import drive
from sublinear.primal_dual import BallStep, L2Sampler

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 5))
Y = (X[:, 0] > 0).astype(int)
Y3 = np.digitize(X[:, 0], [-0.7, 0.7])


class Enough(Exception):
    """What the fits here end with."""


def fail(*args):
    raise Enough


class Broken:
    """A source that ends too early."""

    def __iter__(self):
        yield X, Y
        raise Enough


class Undecodable(Classes):
    decode = fail
    loss_augmented_decode = fail


FITS = {
    "one problem": lambda: SDCAClassifier(callback=fail).fit(X, Y),
    "classes": lambda: SDCAClassifier(callback=fail).fit(X, Y3),
    "classes in threads": lambda: SDCAClassifier(callback=fail, n_jobs=2).fit(X, Y3),
    "stream": lambda: SDCAClassifier(callback=fail).fit_stream([(X, Y)]),
    "source": lambda: SDCAClassifier().fit_stream(Broken()),
    "ball": lambda: MinimumEnclosingBall(callback=fail).fit(X),
    "ball of a kernel": lambda: MinimumEnclosingBall(callback=fail, kernel="rbf").fit(X),
    "generic": lambda: solve_primal_dual(BallStep(X), L2Sampler(X), callback=fail),
    "structured": lambda: PegasosStructured(Undecodable(3)).fit(list(X), list(Y3)),
    "block": lambda: PegasosStructured(Undecodable(3)).partial_fit(list(X), list(Y3)),
}


def leaves_no_cycle(fit):
    gc.disable()
    try:
        try:
            fit()
        except Enough as error:
            gone = weakref.ref(error)
        return gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", FITS)
def test_errors_of_fits(name):
    assert leaves_no_cycle(FITS[name])


@pytest.mark.parametrize(
    ("module", "fit"),
    {
        "_saddle": lambda: solve_simplex_qp(X),
        "_kernel_machines.support": lambda: KernelSDCAClassifier(max_support=5).fit(X, Y),
    }.items(),
)
def test_interrupts_of_what_has_no_callback(monkeypatch, module, fit):
    monkeypatch.setattr(f"sublinear.{module}.drive", partial(drive, tick=fail))
    assert leaves_no_cycle(fit)


def test_one_error_is_kept_where_several_fits_fail():
    together = threading.Barrier(2, timeout=10)

    def problem(stop):
        together.wait()
        return Outcome(None, None, [Enough()])

    assert len(solve_all([problem, problem], 2)[1]) == 1


def test_errors_of_threads():
    assert leaves_no_cycle(lambda: solve_all([fail, fail], 2))
