"""Conjugate gradients over kept rows against their NumPy twin."""

import numpy as np
import pytest
from reference.conjugate_gradients import conjugate_gradients as oracle
from scipy import sparse

from sublinear._core.conjugate_gradients import conjugate_gradients
from sublinear._core.kept_rows import KeptRows

LAYOUTS = np.asarray, sparse.csr_array


class System:
    """Rows, curvatures, a shift and units, and the matrix that they make."""

    def __init__(self, layout):
        self.random = np.random.default_rng(0)
        X, self.curvatures = self.random.normal(size=(80, 40)), self.random.random(80)
        self.rows, self.shift = KeptRows(layout(X)), self.random.random(40)
        self.units = 1 + self.random.random(40)
        self.matrix = X.T * self.curvatures @ X + np.diag(self.shift)
        self.matrix /= np.outer(self.units, self.units)

    def solve(self, right, *limits):
        return conjugate_gradients(
            self.rows, self.curvatures, self.shift, self.units, right, *limits
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conjugate_gradients_of_several_columns(layout):
    """Each is that of its own, however many steps the others take."""
    system = System(layout)
    vectors = np.linalg.eigh(system.matrix)[1]
    right = np.column_stack([system.random.normal(size=(40, 3)), vectors[:, 0], np.zeros(40)])
    together, rest = system.solve(right, 1e-2)
    np.testing.assert_allclose(rest, right - system.matrix @ together, rtol=0, atol=1e-12)
    sizes = np.linalg.norm(rest, axis=0)
    assert (sizes <= 1e-2 * np.linalg.norm(right, axis=0) * (1 + 1e-6)).all()
    np.testing.assert_array_equal(system.solve(np.asfortranarray(right), 1e-2)[0], together)
    for column, alone in zip(right.T, together.T, strict=True):
        np.testing.assert_allclose(system.solve(column, 1e-2)[0], alone, rtol=0, atol=1e-12)


def test_conjugate_gradients_follow_numpy_s():
    """Step by step, and to the end where neither number asks for less."""
    system = System(np.asarray)
    right = system.random.normal(size=40)
    steps = list(oracle(system.matrix, right))
    tolerance = 1.001 * np.linalg.norm(right - system.matrix @ steps[6]) / np.linalg.norm(right)
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(system.solve(right, tolerance)[0], steps[6], **close)
    np.testing.assert_allclose(system.matrix @ system.solve(right, 1e-12)[0], right, atol=1e-10)


def test_conjugate_gradients_stop_where_little_is_gained():
    system = System(np.asarray)
    right = system.random.normal(size=40)
    steps = list(oracle(system.matrix, right))
    gains = np.diff([right @ step for step in steps])
    rests = [np.linalg.norm(right - system.matrix @ step) for step in steps]
    halved = next(k for k, rest in enumerate(rests) if rest <= rests[0] / 2)
    assert 1 < halved < 8
    np.testing.assert_allclose(system.solve(right, 0.0, np.inf)[0], steps[halved], atol=1e-12)
    later = halved + 3
    found, _ = system.solve(right, 0.0, 1.001 * gains[halved:later].min())
    assert right @ found <= right @ steps[later] * (1 + 1e-12)
    np.testing.assert_allclose(
        found, steps[halved + 1 + np.argmin(gains[halved:later])], atol=1e-12
    )


def test_conjugate_gradients_stop_where_there_is_no_curvature():
    rows = KeptRows(np.zeros((4, 3)))
    found, rest = conjugate_gradients(rows, np.ones(4), 0.0, np.ones(3), np.ones((3, 2)), 1e-2)
    np.testing.assert_array_equal(found, 0)
    np.testing.assert_array_equal(rest, 1)
