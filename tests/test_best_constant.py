"""The constant of least loss, and the least value of a convex function above lines."""

import numpy as np
import pytest
from reference.losses import LOSSES as ORACLES
from reference.pegasos import best_constant
from scipy.optimize import linprog

from sublinear._core.best_constant import PIECEWISE_LINEAR, BestConstant
from sublinear._core.losses import MARGIN_LOSSES, REGRESSION_LOSSES
from sublinear._core.minorants import Minorants

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES


def make(name):
    return REGISTRY[name].loss()


def test_the_piecewise_linear_losses():
    assert PIECEWISE_LINEAR == ("hinge", "absolute", "epsilon_insensitive")


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("seed", range(5))
def test_against_all_places(name, n, seed):
    random = np.random.default_rng(seed)
    z, weights = random.normal(size=n), random.integers(1, 4, n) * 1.0
    y = random.choice([-1.0, 1.0], n) if name == "hinge" else random.normal(size=n)
    b, derivatives = BestConstant(make(name), n).fit(z, y, weights)
    expected_b, expected = best_constant(z, y, ORACLES[name](), weights)
    assert b == pytest.approx(expected_b, abs=1e-12)
    np.testing.assert_allclose(derivatives, expected, atol=1e-9)


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
@pytest.mark.parametrize("kind", ["equal", "two values", "sorted", "falling"])
def test_many_ties_and_long_orders(name, kind):
    n = 20_001
    z = {
        "equal": np.zeros(n),
        "two values": np.arange(n) % 2 * 1.0,
        "sorted": np.arange(n) * 1.0,
        "falling": -np.arange(n) * 1.0,
    }[kind]
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    b, derivatives = BestConstant(make(name), n).fit(z, y)
    loss = ORACLES[name]()
    here = np.sum(loss.value(z + b, y))
    for other in (b - 1e-3, b + 1e-3, b - 1, b + 1):
        assert here <= np.sum(loss.value(z + other, y)) + 1e-9
    assert abs(derivatives.sum()) < 1e-8
    slope = loss.derivative(z + b + 1e-9, y), loss.derivative(z + b - 1e-9, y)
    assert (derivatives <= np.maximum(*slope) + 1e-12).all()
    assert (derivatives >= np.minimum(*slope) - 1e-12).all()


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_alone_has_no_loss(label):
    z = np.array([0.3, -2.0, 5.0])
    b, derivatives = BestConstant(make("hinge"), 3).fit(z, np.full(3, label))
    assert np.all(label * (z + b) >= 1 - 1e-12)
    np.testing.assert_array_equal(derivatives, 0)


def test_examples_of_weight_zero_and_none_at_all():
    z, y, s = np.array([0.0, 1.0, 9.0]), np.array([1.0, -1.0, 1.0]), np.array([1.0, 1.0, 0.0])
    b, _ = BestConstant(make("absolute"), 3).fit(z, y, s)
    assert b == -2
    assert BestConstant(make("absolute"), 3).fit(z, y, np.zeros(3))[0] in (1, -2, -8)
    assert BestConstant(make("absolute"), 0).fit(np.empty(0), np.empty(0))[0] == 0


def test_smooth_losses_are_refused():
    with pytest.raises(ValueError, match="piecewise linear"):
        BestConstant(make("logistic"), 3)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_that_of_a_linear_program(seed):
    """min t over (b, t) with t >= value + slope (b - point) for every line."""
    random = np.random.default_rng(seed)
    minorants, rows, right = Minorants(), [], []
    for k in range(12):
        point, value = random.normal(size=2)
        slope = 0.0 if k == 7 and seed % 2 else random.normal()
        minorants.add(point, value, slope)
        rows.append([slope, -1])
        right.append(slope * point - value)
        program = linprog([0, 1], A_ub=rows, b_ub=right, bounds=[(None, None)] * 2)
        if program.status == 0:
            assert minorants.bound == pytest.approx(program.fun, abs=1e-9)
            highest = max(r[0] * minorants.lowest - c for r, c in zip(rows, right, strict=True))
            assert highest == pytest.approx(minorants.bound, abs=1e-9)
        else:
            assert minorants.bound == -np.inf and minorants.lowest is None


def test_lines_below_others_are_dropped():
    """A search that goes on for many fits would take ever longer."""
    random = np.random.default_rng(0)
    minorants = Minorants()
    for point in random.choice([-2.0, -1.0, 0.5, 3.0], 200):
        minorants.add(point, point**2 - random.exponential(), 2 * point)
    assert len(minorants.lines) == 4
    again = Minorants(minorants.lines)
    assert (again.bound, again.lowest) == (minorants.bound, minorants.lowest)
    minorants.add(0.0, -9.0, 0.5)
    assert minorants.lines == again.lines
