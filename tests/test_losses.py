"""Every registered loss: derivative, conjugate and dual step held against their definitions."""

import itertools
import math

import numpy as np
import pytest
from reference import losses as reference
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from sublinear._core.losses import COUNT_LOSSES, MARGIN_LOSSES, REGRESSION_LOSSES, signs

REGISTRY = MARGIN_LOSSES | REGRESSION_LOSSES | COUNT_LOSSES
ORACLES = reference.LOSSES | reference.COUNT_LOSSES
PARAMETERS = {"smoothing": (0.5, 1.0, 2.0), "epsilon": (0.1, 1.35)}
MARGINS = np.concatenate([np.linspace(-4, 4, 41), [-1.0, 0.0, 1.0]])


def variants():
    """Yield (name, arguments) of every loss with several values of its parameters."""
    for name, entry in REGISTRY.items():
        choices = (PARAMETERS.get(parameter, ()) for parameter in entry.parameters)
        for arguments in itertools.product(*choices):
            yield name, arguments


VARIANTS = list(variants())


class Case:
    """A loss, predictions and targets that suit it, and duals from inside its domain."""

    def __init__(self, name, arguments):
        self.loss = REGISTRY[name].loss(*arguments)
        self.oracle = ORACLES[name](*arguments) if name in ORACLES else None
        random = np.random.default_rng(0)
        self.z = np.tile(MARGINS, 2)
        if name in MARGIN_LOSSES:
            self.y = np.repeat([1.0, -1.0], len(MARGINS))
        else:
            self.y = np.repeat([0.0, 0.7], len(MARGINS))
        # a domain is convex and holds -l'(z) for every z
        share = random.random(len(self.z))
        self.a = -share * self.derivative(self.z) - (1 - share) * self.derivative(
            random.permutation(self.z)
        )

    def derivative(self, z):
        return self.loss.derivatives(z, self.y)

    def dual_objective(self, new, a, z, y, q):
        """-l*(-a') - z (a' - a) - q (a' - a)^2 / 2, for one example."""
        return -self.loss.conjugates([new], [y])[0] - z * (new - a) - q * (new - a) ** 2 / 2

    def nearest(self, a, y):
        return self.loss.nearest_duals([a], [y])[0]


@pytest.fixture(params=VARIANTS, ids=lambda v: "-".join(map(str, (v[0], *v[1]))))
def case(request):
    return Case(*request.param)


def test_every_registered_loss_is_tested():
    assert {name for name, _ in VARIANTS} == REGISTRY.keys()
    for name, entry in REGISTRY.items():
        assert set(entry.parameters) <= PARAMETERS.keys(), f"give PARAMETERS values for {name}"


def test_some_losses_are_quadratic_where_no_example_is_easy():
    quadratic = {name for name, entry in REGISTRY.items() if entry.loss().has_quadratic_middle}
    assert quadratic == {"squared_hinge", "squared", "huber"}


def test_the_oracle_says_the_same(case):
    if case.oracle is None:
        pytest.skip("a loss without an oracle in tests/reference")
    np.testing.assert_allclose(
        case.loss.values(case.z, case.y), case.oracle.value(case.z, case.y), atol=1e-14
    )
    smooth = ~at_kink(case)
    np.testing.assert_allclose(
        case.derivative(case.z)[smooth], case.oracle.derivative(case.z, case.y)[smooth], atol=1e-14
    )
    np.testing.assert_allclose(
        case.loss.conjugates(case.a, case.y), case.oracle.conjugate(case.a, case.y), atol=1e-14
    )
    for a, z, y in zip(case.a, case.z, case.y, strict=True):
        for q in (0.1, 3.0):
            (step,) = case.loss.dual_steps([a], [z], [y], [q])
            assert step == pytest.approx(case.oracle.dual_step(a, z, y, q), abs=1e-12)


def at_kink(case, h=1e-6):
    """Where left and right differences of the loss differ: no derivative to compare with."""
    left, middle, right = (case.loss.values(case.z + shift, case.y) for shift in (-h, 0, h))
    return np.abs(right - 2 * middle + left) > 1e-3 * h


def test_values_are_not_negative_and_convex(case):
    values = case.loss.values(case.z, case.y)
    assert (values >= 0).all()
    h = 0.37
    around = case.loss.values(case.z - h, case.y) + case.loss.values(case.z + h, case.y)
    assert (around - 2 * values >= -1e-12).all()


def test_derivative_by_finite_differences(case):
    h = 1e-6
    difference = (case.loss.values(case.z + h, case.y) - case.loss.values(case.z - h, case.y)) / (
        2 * h
    )
    smooth = ~at_kink(case)
    assert smooth.mean() > 0.9
    np.testing.assert_allclose(case.derivative(case.z)[smooth], difference[smooth], atol=2e-6)


def test_second_derivative_by_finite_differences(case):
    """Zero where the derivative jumps somewhere: such losses are told as having none."""
    h = 1e-5
    left, right = case.derivative(case.z - h), case.derivative(case.z + h)
    inside = np.abs(left + right - 2 * case.derivative(case.z)) < 1e-7
    second = case.loss.second_derivatives(case.z, case.y)
    if np.abs(right - left).max() > 0.1:
        assert (second == 0).all()
    else:
        assert inside.mean() > 0.9
        np.testing.assert_allclose(second[inside], (right - left)[inside] / (2 * h), atol=1e-4)


def test_the_greatest_curvature_is_a_bound_that_is_met(case):
    z = np.linspace(-3, 3, 100_001)
    found = case.loss.second_derivatives(z, np.full(len(z), 1.0)).max()
    greatest = case.loss.greatest_curvature
    if math.isfinite(greatest):
        assert found == pytest.approx(greatest, rel=1e-8)
    elif case.loss.n_kinks:
        assert found == 0  # slopes jump


def test_derivative_is_a_subgradient_at_kinks_too(case):
    for shift in (-2.0, -1e-3, 1e-3, 2.0):
        rise = case.loss.values(case.z + shift, case.y) - case.loss.values(case.z, case.y)
        assert (rise >= case.derivative(case.z) * shift - 1e-12).all()


def test_lipschitz_losses_have_bounded_derivatives():
    for name, arguments in VARIANTS:
        case = Case(name, arguments)
        largest = np.abs(case.derivative(1e6 * case.z)).max()
        assert (largest < 100) == REGISTRY[name].lipschitz


def test_fenchel_young(case):
    """l(z) + l*(-a) + a z is never negative, and zero for a = -l'(z)."""
    excess = (
        case.loss.values(case.z, case.y) + case.loss.conjugates(case.a, case.y) + case.a * case.z
    )
    assert (excess >= -1e-12).all()
    a = -case.derivative(case.z)
    equal = case.loss.values(case.z, case.y) + case.loss.conjugates(a, case.y) + a * case.z
    np.testing.assert_allclose(equal, 0, atol=1e-12)


def test_conjugate_is_the_supremum(case):
    for a, y in zip(case.a[::5], case.y[::5], strict=True):
        best = minimize_scalar(
            lambda z, a=a, y=y: a * z + case.loss.values([z], [y])[0],
            bounds=(-60, 60),
            method="bounded",
            options={"xatol": 1e-10, "maxiter": 2000},
        )
        assert case.loss.conjugates([a], [y])[0] == pytest.approx(-best.fun, abs=1e-7)


def test_nearest_dual(case):
    random = np.random.default_rng(1)
    outside = random.normal(scale=5, size=len(case.y))
    inside = case.loss.nearest_duals(outside, case.y)
    np.testing.assert_array_equal(case.loss.nearest_duals(inside, case.y), inside)
    np.testing.assert_allclose(case.loss.nearest_duals(case.a, case.y), case.a, atol=1e-15)
    assert np.isfinite(case.loss.conjugates(inside, case.y)).all()
    # no feasible dual is nearer
    assert (np.abs(case.a - outside) >= np.abs(inside - outside) - 1e-12).all()


@pytest.mark.parametrize("q", [1e-3, 0.05, 1.0, 20.0, 1e3])
def test_dual_step_is_the_maximiser(case, q):
    for a, z, y in list(zip(case.a, case.z, case.y, strict=True))[::3]:
        (step,) = case.loss.dual_steps([a], [z], [y], [q])
        assert case.nearest(step, y) == step
        low, high = case.nearest(a - 1e3, y), case.nearest(a + 1e3, y)
        best = minimize_scalar(
            lambda new, a=a, z=z, y=y: -case.dual_objective(new, a, z, y, q),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-10, "maxiter": 2000},
        )
        reached = case.dual_objective(step, a, z, y, q)
        assert reached >= -best.fun - 1e-9 * (1 + abs(best.fun))
        assert reached >= case.dual_objective(a, a, z, y, q) - 1e-12


def test_dual_step_stays_at_its_own_optimum(case):
    """At a = -l'(z) the dual has nothing to gain."""
    a = -case.derivative(case.z)
    for q in (1e-2, 1.0, 1e2):
        steps = case.loss.dual_steps(a, case.z, case.y, np.full(len(a), q))
        np.testing.assert_allclose(steps, a, atol=1e-12)


@pytest.mark.parametrize("q", [5e-324, 1e-300, 1e-30, 1e30, 1e299])
def test_extreme_curvature(case, q):
    steps = case.loss.dual_steps(case.a, case.z, case.y, np.full(len(case.a), q))
    assert np.isfinite(steps).all()
    np.testing.assert_array_equal(case.loss.nearest_duals(steps, case.y), steps)
    if q > 1:
        np.testing.assert_allclose(steps, case.a, atol=1e-12)
    else:  # the prediction hardly answers: a' = -l'(z) but for kinks
        smooth = ~at_kink(case)
        np.testing.assert_allclose(steps[smooth], -case.derivative(case.z)[smooth], atol=1e-12)


@pytest.mark.parametrize("margin", [-1e300, -1e4, -800, -40, 40, 800, 1e4, 1e300])
def test_logistic_at_extreme_margins(margin):
    loss = MARGIN_LOSSES["logistic"].loss()
    for y in (1.0, -1.0):
        (value,), (derivative,) = (
            loss.values([y * margin], [y]),
            loss.derivatives([y * margin], [y]),
        )
        if margin < 0:
            assert value == -margin
            assert derivative == pytest.approx(-y)
        else:
            assert value == pytest.approx(np.exp(-margin), rel=1e-12)
            assert derivative == pytest.approx(-y * np.exp(-margin), rel=1e-12)
        for q in (1e-10, 1.0, 1e10):
            for b in (0.0, 1e-17, 0.5, 1.0):
                (step,) = loss.dual_steps([y * b], [y * margin], [y], [q])
                assert 0 <= y * step <= 1


@pytest.mark.parametrize("q", np.logspace(-6, 8, 15))
@pytest.mark.parametrize("b", [0.0, 1e-12, 0.3, 1 - 1e-9, 1.0])
def test_logistic_dual_step_is_stationary(q, b):
    """With u = log(b' / (1 - b')): u + m + q (b' - b) = 0, also where b' is tiny."""
    loss = MARGIN_LOSSES["logistic"].loss()
    for m in (-200.0, -30.0, -8.0, -3.0, -0.5, 0.0, 0.5, 3.0, 8.0, 30.0, 200.0):
        ends = -m - q * (1 - b) - 1e-9, -m + q * b + 1e-9
        u = brentq(lambda u, m=m: u + m + q * (expit(u) - b), *ends, xtol=1e-14, maxiter=1000)
        (new,) = loss.dual_steps([b], [m], [1.0], [q])
        assert new == pytest.approx(expit(u), rel=1e-9, abs=1e-13)


def test_logistic_conjugates_near_the_ends_and_beyond():
    loss = MARGIN_LOSSES["logistic"].loss()
    small = np.concatenate([np.geomspace(1e-300, 0.5, 200), np.nextafter(0.5, [0, 1])])
    expected = small * np.log(small) + (1 - small) * np.log1p(-small)
    for y in (1.0, -1.0):
        targets = np.full(len(small), y)
        np.testing.assert_allclose(loss.conjugates(y * small, targets), expected, rtol=4e-16)
        from_one = loss.conjugates(y * (1 - small), targets)
        other = 1 - (1 - small)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected_there = other * np.log(other) + (1 - other) * np.log1p(-other)
        expected_there = np.where(other > 0, expected_there, 0.0)
        np.testing.assert_allclose(from_one, expected_there, rtol=4e-16)
    ends = loss.conjugates([0.0, 1.0, -1e-17, 1 + 1e-15], np.ones(4))
    assert np.abs(ends).max() == 0


@pytest.mark.parametrize("n", [1, 3, 8, 37])
@pytest.mark.parametrize(
    ("classes", "kinds"),
    [([-1, 1], "fi"), ([0, 7], "fi"), ([-0.5, 2.5], "f")],
)
def test_signs_of_labels(classes, kinds, n):
    labels = np.random.default_rng(n).choice(classes, n)
    for kind in kinds:
        known = labels.astype(kind + "8")
        found = signs(known, np.unique(np.array(classes, dtype=kind + "8")))
        np.testing.assert_array_equal(found, np.where(labels == classes[1], 1.0, -1.0))
        assert signs(np.append(known, 3), np.array(classes, dtype=kind + "8")) is None


def test_signs_leave_other_labels_to_others():
    classes = np.array([0, 1])
    assert signs(np.array([0.0, np.nan]), classes) is None
    assert signs(np.array([], dtype=float), classes) is None
    assert signs(np.array(["0", "1"]), np.array(["0", "1"])) is None
    assert signs(np.array([True, False]), np.array([False, True])) is None
    assert signs(np.array([0, 1], dtype=np.int8), classes) is None
    assert signs(np.array([0, 1]), np.array([0.0, 1.0])) is None


def test_tiny_logistic_duals_keep_their_digits():
    """b log b + (1 - b) log(1 - b) = b log b - b + O(b^2), where 1 - b is rounded to 1."""
    b = np.logspace(-30, -10, 9)
    found = MARGIN_LOSSES["logistic"].maker(None)().conjugates(b, np.ones(9))
    np.testing.assert_allclose(found, b * np.log(b) - b, rtol=1e-9)


def test_the_logistic_loss_is_exact_to_rounding_however_large_margins_are():
    random = np.random.default_rng(0)
    y = random.choice([-1.0, 1.0], 3000)
    margins = random.normal(size=3000) * 10 ** random.uniform(-8, 2, 3000)
    loss, near = MARGIN_LOSSES["logistic"].loss(), {"rtol": 2e-15, "atol": 0}
    p = np.exp(-np.abs(margins))
    values = np.log1p(p) + np.maximum(-margins, 0)
    np.testing.assert_allclose(loss.values(y * margins, y), values, **near)
    slopes = -y * np.where(margins > 0, p, 1) / (1 + p)
    np.testing.assert_allclose(loss.derivatives(y * margins, y), slopes, **near)
    curvatures = p / (1 + p) ** 2
    np.testing.assert_allclose(loss.second_derivatives(y * margins, y), curvatures, **near)
