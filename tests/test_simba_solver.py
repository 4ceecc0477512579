"""The SIMBA solver: step by step against its oracle, means, budgets, layouts."""

import numpy as np
import pytest
from reference import certificates
from reference import simba as oracle
from reference.sampling import Replayed
from scipy import sparse

from sublinear._core.matrix import Matrix
from sublinear._core.random import RandomBits
from sublinear._solvers.simba import SIMBA

SEED = np.random.SeedSequence(0)


def problem(n=30, d=12, density=0.4, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < density)
    X[:, 0] += 0.1
    y = np.sign(X @ random.normal(size=d) + 0.2 * random.normal(size=n) + 0.1)
    return X / np.linalg.norm(X, axis=1).max(), y


def solver(X, y, seed=0, make=sparse.csr_array, **options):
    options = {"nu": 0.1, "bias": True, "round_steps": 200, "growth": 1, **options}
    random = RandomBits(np.random.SeedSequence(seed))
    return SIMBA(None, Matrix(make(X)), y, random, **options)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(
    "nu, density", [(0.0, 0.4), (0.0, 1.0), (0.05, 1.0), (0.2, 1.0), (0.99, 1.0), (1.0, 1.0)]
)
@pytest.mark.parametrize("refresh", [1, 7])
def test_every_step_is_the_oracles(bias, adaptive, nu, density, refresh):
    """With slack only where no weights come equal: their order would be one of rounding."""
    X, y = problem(density=density)
    T = 150
    ours = solver(X, y, nu=nu, bias=bias, adaptive=adaptive, refresh=refresh, round_steps=T)
    states, draws = [ours.iterate()], []
    for _ in range(T):
        draws.append(ours.step())
        states.append(ours.iterate())
    columns = [column for _, column in draws]
    assert min(columns) >= 0
    replayed = Replayed([row for row, _ in draws], columns)
    options = {"bias": bias, "adaptive": adaptive, "refresh": refresh}
    expected = list(oracle.simba(X, y, nu, T, replayed, **options))
    for t, (w, b, _, p, _) in enumerate(expected):
        np.testing.assert_allclose(states[t][2], p, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(states[t + 1][0], w, rtol=1e-9, atol=1e-12)
        if t > 0 or not bias:  # at first p'y is a sum of equal masses, or rounding
            assert states[t][1] == b
    w, b, p = ours.means()
    expected_w, expected_b, expected_p = oracle.means(expected, len(y))
    np.testing.assert_allclose(w, expected_w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p, expected_p, rtol=1e-9)
    assert b == pytest.approx(expected_b, abs=1.01 / T)


@pytest.mark.parametrize("bias", [True, False])
def test_the_gap_closes(bias):
    X, y = problem(200, 20)
    gaps = []
    for T in (2000, 32_000):
        ours = solver(X, y, bias=bias, round_steps=T, primal_rate=3.0)
        assert ours.advance(2**60)
        w, b, p = ours.means()
        lower, upper = (
            certificates.simba(X, y, 0.1, w, b, p)
            if bias
            else certificates.simba_without_bias(X, y, 0.1, w, p)
        )
        gaps.append(upper - lower)
    assert 0 <= gaps[1] < gaps[0] / 2


def test_rounds_double_and_have_means_of_their_own():
    X, y = problem()
    ours = solver(X, y, round_steps=50, growth=2)
    other = solver(X, y, round_steps=50, growth=2)
    assert ours.advance(2**60) and other.advance(2**60)
    assert ours.n_iter == 50
    assert ours.advance(2**60)
    assert ours.n_iter == 150
    iterates, weights = [], []
    mean = other.means()[2]
    other.advance(other.accesses)  # begins the round, takes no step
    np.testing.assert_allclose(other.iterate()[2], mean, rtol=1e-9)
    for _ in range(100):
        weights.append(other.iterate()[2])
        other.step()
        iterates.append(other.iterate()[0])
    np.testing.assert_allclose(ours.means()[0], np.mean(iterates, axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.means()[2], np.mean(weights, axis=0), rtol=1e-9)


def test_every_round_has_its_own_mean_of_the_bias():
    X, _ = problem()
    ours = solver(X, np.ones(30), round_steps=50, growth=2)
    for _ in range(3):
        assert ours.advance(2**60)
        assert ours.means()[1] == 1  # as b is the sign of p'y in every step


@pytest.mark.parametrize("make", [sparse.csr_array, np.asarray, np.asfortranarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_give_the_same(make, dtype):
    X, y = problem(density=1.0)
    X = X.astype(np.float32).astype(dtype)
    expected = solver(X.astype(np.float64), y, refresh=5)
    ours = solver(X, y, make=make, refresh=5)
    expected.advance(2**60)
    ours.advance(2**60)
    for found, wanted in zip(ours.means(), expected.means(), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_slices_give_the_same():
    X, y = problem()
    whole, sliced = solver(X, y), solver(X, y)
    whole.advance(2**60)
    while not sliced.advance(sliced.accesses + 40):
        pass
    np.testing.assert_array_equal(whole.model(), sliced.model())


def test_accesses_are_those_of_the_lines():
    X, y = problem()
    ours = solver(X, y)
    expected = 0
    for _ in range(100):
        i, j = ours.step()
        expected += np.count_nonzero(X[i]) + np.count_nonzero(X[:, j])
    assert ours.accesses == expected
    assert ours.full_accesses == 100 * sum(X.shape)
    assert ours.n_iter == 100


@pytest.mark.parametrize("limit", [0, 5, 100, 1234])
def test_a_budget_is_never_exceeded(limit):
    X, y = problem()
    ours = solver(X, y, round_steps=10**6)
    assert not ours.advance(limit)
    assert ours.accesses <= limit
    assert ours.accesses > limit - 50


def test_lines_are_divided_by_their_unit():
    X, y = problem()
    one, four = solver(X, y), solver(4 * X, y, unit=4.0)
    one.advance(2**60)
    four.advance(2**60)
    for found, wanted in zip(four.means(), one.means(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(4 * four.model()[:-1], one.model()[:-1], rtol=1e-12)


def test_it_goes_on_from_where_another_ended():
    X, y = problem()
    first = solver(X, y)
    first.advance(2**60)
    second = solver(X, y, start=first.state(), seed=1)
    np.testing.assert_allclose(second.iterate()[0], first.iterate()[0], rtol=1e-12)
    np.testing.assert_allclose(second.iterate()[2], first.iterate()[2], rtol=1e-9)


@pytest.mark.parametrize(
    "X, y",
    [
        (np.array([[0.5]]), np.array([1.0])),
        (np.array([[1.0], [-0.5]]), np.array([1.0, -1.0])),
        (np.array([[0.3, 0.4, 0.0]]), np.array([-1.0])),
        (np.zeros((3, 2)), np.array([1.0, -1.0, 1.0])),
        (np.array([[0.0, 0.0], [0.6, 0.0], [-0.6, 0.0]]), np.array([1.0, 1.0, -1.0])),
    ],
)
@pytest.mark.parametrize("nu", [0.0, 0.5, 1.0])
def test_tiny_and_empty_problems(X, y, nu):
    for refresh in (1, 3):
        ours = solver(X, y, nu=nu, refresh=refresh)
        assert ours.advance(2**60)
        w, b, p = ours.means()
        assert np.isfinite(w).all()
        assert np.linalg.norm(w) <= 1 + 1e-12
        assert abs(b) <= 1
        assert p.sum() == pytest.approx(1)
        lower, upper = certificates.simba(X, y, nu, w, b, p)
        assert lower <= upper + 1e-12


def test_rows_are_drawn_by_their_weights_after_many_steps():
    """Chi-square of 2 000 draws, the weights unchanged, after 10^5 steps of changes."""
    X, y = problem()
    ours = solver(X, y, round_steps=10**6, refresh=3)
    for _ in range(100_000):
        ours.step()
    state = ours.state()
    counts = np.zeros(len(y))
    for seed in range(2_000):
        again = solver(X, y, start=state, seed=seed)
        counts[again.step()[0]] += 1
    expected = state[1] * counts.sum()
    kept = expected > 5
    pooled = np.append(counts[kept], counts[~kept].sum())
    wanted = np.append(expected[kept], expected[~kept].sum())
    wanted, pooled = wanted[wanted > 0], pooled[wanted > 0]
    statistic = ((pooled - wanted) ** 2 / wanted).sum()
    assert statistic < 3 * len(wanted) + 10


@pytest.mark.parametrize("constant", [0.7, 3.0])
def test_a_constant_column_is_a_feature_like_others_without_bias(constant):
    X, y = problem(density=0.3)
    given = {"nu": 0.0, "bias": False, "adaptive": False, "growth": 2, "round_steps": 100}
    implicit = SIMBA(
        None, Matrix(sparse.csr_array(X), constant=constant), y, RandomBits(SEED), **given
    )
    stored = sparse.csr_array(np.c_[X, np.full(len(X), constant)])
    explicit = SIMBA(None, Matrix(stored), y, RandomBits(SEED), **given)
    for _ in range(2):
        assert implicit.advance(2**60) and explicit.advance(2**60)
        # sums of weights that change a lot are off by up to 1e-10 in every step
        for found, wanted in zip(implicit.means(), explicit.means(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert implicit.accesses < explicit.accesses


def test_values_that_are_not_finite_are_noticed():
    X, y = problem()
    X[:, 0] = np.nan
    ours = solver(X, y)
    ours.advance(2**60)
    with pytest.raises(ValueError, match="NaN"):
        ours.means()
