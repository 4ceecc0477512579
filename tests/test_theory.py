"""sigma^2 against an SVD, beta_b, speedups, and Theorem 2 held to its word."""

import math
from fractions import Fraction

import numpy as np
import pytest
from reference import objective as values
from reference.losses import hinge
from reference.minibatch_sdca import minibatch_sdca
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sublinear import batch_speedup, spectral_norm_squared
from sublinear._core.matrix import Matrix
from sublinear.theory import (
    StreamingSVRGParameters,
    minibatch_sdca_iterations,
    safe_beta,
    spectral_norm_of,
    streaming_svrg_parameters,
)

FORMATS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array, sparse.coo_array]


def matrix(n_rows=40, n_columns=12, density=0.4, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns)) + 0.3
    return X * (random.random(X.shape) < density)


def by_svd(X):
    """sigma^2 by the definition, for a dense array."""
    norms = np.linalg.norm(X, axis=1)
    unit = X[norms > 0] / norms[norms > 0, np.newaxis]
    return np.linalg.norm(unit, ord=2) ** 2 / len(X)


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_spectral_norm_squared(make, seed):
    X = matrix(seed=seed)
    found = spectral_norm_squared(make(X), tol=1e-14, max_iter=100_000)
    assert found == pytest.approx(by_svd(X), rel=1e-7)


@pytest.mark.parametrize("make", FORMATS)
def test_rows_without_entries_are_left_out(make):
    X = matrix()
    X[::3] = 0
    found = spectral_norm_squared(make(X), tol=1e-14, max_iter=100_000)
    assert found == pytest.approx(by_svd(X), rel=1e-7)


def test_the_default_tolerance_comes_from_below():
    for seed in range(10):
        X = matrix(300, 60, seed=seed)
        assert 0.98 * by_svd(X) <= spectral_norm_squared(X) <= by_svd(X) * (1 + 1e-12)


def test_the_largest_eigenvalue_is_found_whatever_the_first_vector():
    """Power iteration rested at 0.294, the second one, of seed 2515."""
    for seed in (*range(100), 2515):
        random = np.random.default_rng(seed)
        n, d = random.integers(2, 40, 2)
        X = random.normal(size=(n, d))
        X[random.random(X.shape) < random.choice([0, 0.8, 0.9])] = 0
        expected = max(by_svd(X), 1 / n) if X.any() else 1 / n
        assert spectral_norm_squared(X) == pytest.approx(expected, rel=1e-3)
        assert spectral_norm_of(Matrix(X), 0.003) >= expected / 1.02


def test_the_length_of_rows_does_not_matter():
    X = matrix()
    scales = np.random.default_rng(1).lognormal(sigma=3, size=(40, 1))
    assert spectral_norm_squared(scales * X) == pytest.approx(spectral_norm_squared(X), rel=1e-9)


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-307])
@pytest.mark.parametrize("rows", [slice(None), slice(7, 11)])
def test_rows_whose_squared_norms_underflow_count(make, scale, rows):
    X = matrix() + np.eye(40, 12)
    X[30] = 0
    expected, speedup = spectral_norm_squared(X), batch_speedup(X, 20)
    X[rows] *= scale
    assert spectral_norm_squared(make(X)) == pytest.approx(expected, rel=1e-9)
    assert batch_speedup(make(X), 20) == pytest.approx(speedup, rel=1e-9)


def test_rows_of_the_smallest_numbers():
    assert spectral_norm_squared(np.full((3, 2), 5e-324)) == 1
    assert spectral_norm_squared(np.full((3, 2), 1e-45, dtype=np.float32)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types(dtype):
    X = np.rint(4 * matrix()).astype(dtype)
    for make in (np.asarray, sparse.csr_array):
        found = spectral_norm_squared(make(X), tol=1e-12, max_iter=100_000)
        assert found == pytest.approx(by_svd(X.astype(float)), rel=1e-6)


def test_the_two_ends_of_the_range():
    assert spectral_norm_squared(7 * np.eye(20)) == pytest.approx(1 / 20)
    assert spectral_norm_squared(np.arange(1, 21)[:, np.newaxis] * [[1.0, -2.0]]) == 1
    assert spectral_norm_squared(np.zeros((20, 3))) == 1 / 20
    assert spectral_norm_squared([[2.0]]) == 1


def test_the_constant_column_counts():
    X = matrix()
    extended = np.column_stack([X, np.full(40, 2.0)])
    found = spectral_norm_of(Matrix(sparse.csr_array(X), 2.0), 1e-12, 10_000)
    assert found == pytest.approx(by_svd(extended), rel=1e-7)


def test_too_few_iterations_warn():
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        spectral_norm_squared(matrix(), tol=1e-12, max_iter=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0}, "tol must be a number above 0"),
        ({"tol": math.nan}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
    ],
)
def test_spectral_norm_squared_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        spectral_norm_squared(matrix(), **options)


def test_spectral_norm_squared_refuses_rows_whose_squares_overflow():
    for function in (spectral_norm_squared, lambda X: batch_speedup(X, 20)):
        with pytest.raises(ValueError, match="overflows: scale X down"):
            function(1e160 * matrix())


def test_spectral_norm_squared_refuses_nan():
    with pytest.raises(ValueError, match="NaN"):
        spectral_norm_squared([[1.0], [math.nan]])


def test_safe_beta_limits():
    for n in (2, 10, 1000):
        for b in (1, 2, n // 2 or 1, n):
            assert safe_beta(n, b, 1 / n) == pytest.approx(1)  # orthogonal rows
            assert safe_beta(n, b, 1.0) == pytest.approx(b)  # rows on a line
            beta = safe_beta(n, b, 0.6)
            assert 1 <= beta <= b
            assert beta == pytest.approx(1 + (b - 1) * (0.6 * n - 1) / (n - 1))
        assert safe_beta(n, 1, 0.7) == 1
        assert safe_beta(n, n, 0.7) == pytest.approx(0.7 * n)
    assert safe_beta(1, 1, 1.0) == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 1, 0.5), "n_samples"),
        ((10.0, 1, 0.5), "n_samples"),
        ((10, 0, 0.5), "batch_size"),
        ((10, 11, 0.5), "batch_size"),
        ((10, 2.0, 0.5), "batch_size"),
        ((10, 2, 0.09), "sigma_squared"),
        ((10, 2, 1.01), "sigma_squared"),
        ((10, 2, math.nan), "sigma_squared"),
    ],
)
def test_safe_beta_refuses(arguments, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        safe_beta(*arguments)


@pytest.mark.parametrize("make", FORMATS)
def test_batch_speedup(make):
    X = matrix()
    sigma_squared = by_svd(X)
    for b in (1, 3, 40):
        expected = b / safe_beta(40, b, sigma_squared)
        assert batch_speedup(make(X), b) == pytest.approx(expected, rel=1e-2)
    assert batch_speedup(make(np.eye(30)), 30) == pytest.approx(30)
    assert batch_speedup(make(np.ones((30, 2))), 30) == pytest.approx(1)
    assert batch_speedup(X.tolist(), 40) == batch_speedup(X, 40)


@pytest.mark.parametrize("batch_size", [0, 41, 1.5])
def test_batch_speedup_refuses(batch_size):
    with pytest.raises(ValueError, match="batch_size must be"):
        batch_speedup(matrix(), batch_size)


@pytest.mark.parametrize("n", [1, 20, 5000])
@pytest.mark.parametrize("alpha", [1e-4, 0.03, 5.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_iteration_counts_meet_theorem_2(n, alpha, epsilon, share):
    """Equations 18 to 20, and no more than rounding up costs."""
    b = max(1, round(share * n))
    sigma_squared = max(1 / n, 0.3) if n > 1 else 1.0
    counts = minibatch_sdca_iterations(
        n, alpha, epsilon, batch_size=b, sigma_squared=sigma_squared
    )  # fmt: skip
    beta = safe_beta(n, b, sigma_squared)
    warm_up = max(0, n / b * math.log(2 * alpha * n / beta))
    phase = max(0, beta / b * (4 / (alpha * epsilon) - 2 * n / beta))
    tail = max(math.ceil(n / b), beta / b / (alpha * epsilon))
    assert warm_up <= counts.warm_up < warm_up + 1
    assert phase <= counts.averaging_from - counts.warm_up < phase + 1
    assert tail <= counts.total - counts.averaging_from < tail + 1


def test_iteration_counts_of_one_example_at_a_time():
    counts = minibatch_sdca_iterations(1000, 1e-2, 1e-1)
    assert counts.warm_up == math.ceil(1000 * math.log(20))
    assert counts.averaging_from == counts.warm_up + 4000 - 2000
    assert counts.total == counts.averaging_from + 1000


def test_batches_save_iterations_up_to_the_speedup():
    n, alpha, epsilon = 10_000, 1e-4, 1e-4
    one = minibatch_sdca_iterations(n, alpha, epsilon).total
    for b in (10, 100, 1000):
        beta = safe_beta(n, b, 0.01)
        batch = minibatch_sdca_iterations(
            n, alpha, epsilon, batch_size=b, sigma_squared=0.01
        ).total  # fmt: skip
        assert beta / b * one < batch * 1.1
        assert batch < one * beta / b * 1.1
        assert batch < minibatch_sdca_iterations(n, alpha, epsilon, batch_size=b).total


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        ((0, 0.1, 0.1), {}, "n_samples"),
        ((10, 0, 0.1), {}, "alpha"),
        ((10, 0.1, 0), {}, "epsilon"),
        ((10, 0.1, math.inf), {}, "epsilon"),
        ((10, 0.1, 0.1), {"batch_size": 11}, "batch_size"),
        ((10, 0.1, 0.1), {"sigma_squared": 0.01}, "sigma_squared"),
    ],
)
def test_iteration_counts_refuse(arguments, options, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        minibatch_sdca_iterations(*arguments, **options)


def test_counts_beyond_the_range_of_numbers_are_refused():
    with pytest.raises(ValueError, match="more steps than"):
        minibatch_sdca_iterations(10, 1e-300, 1e-300)
    with pytest.raises(ValueError, match="more steps than"):
        streaming_svrg_parameters(1e304)
    for large in ({"growth": 1e200, "order": 3.0}, {"order": 2000.0}):
        with pytest.raises(ValueError, match="more steps than"):
            streaming_svrg_parameters(10.0, **large)


def quadratic_errors(theory, condition, growth, n_stages, second_moment, noise):
    """Exact E[P(w) - P*] after the stages of Streaming SVRG, and the most rows they read.

    A row's objective is h w^2 / 2 + z w with E h = 1 and E h^2 = `second_moment`, E z = 0 and
    E z^2 = `noise`; w begins at 1. A step is linear in w, the anchor u and the mean gradient g, so
    second moments (w^2, w u, w g, u^2, u g, g^2) are mapped by a matrix.
    """
    rate, m = theory.step / condition, theory.inner_steps
    step = np.eye(6)
    step[0] = [
        1 - 2 * rate + rate**2 * second_moment,
        2 * rate - 2 * rate**2 * second_moment,
        2 * rate**2 - 2 * rate,
        rate**2 * second_moment,
        -2 * rate**2,
        rate**2,
    ]
    step[1] = [0, 1 - rate, 0, rate, -rate, 0]
    step[2] = [0, 0, 1 - rate, 0, rate, -rate]
    with_sum = np.block([[step, step], [np.zeros((6, 6)), np.eye(6)]])
    mean = np.linalg.matrix_power(with_sum, m)[:6, 6:] / m  # of w^2 after 1, .., m steps
    square, n_rows, found = 1.0, 0, []
    for s in range(n_stages):
        k = math.ceil(theory.first_stage * growth**s)
        of_gradient = square + ((second_moment - 1) * square + noise) / k
        square = mean[0] @ [square, square, square, square, square, of_gradient]
        n_rows += k + m
        found.append((square / 2, n_rows))
    return np.array(found).T


@pytest.mark.parametrize("noise", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("condition", [1.0, 10.0, 1000.0])
@pytest.mark.parametrize(("growth", "order"), [(3.0, 2.0), (3.0, 3.0), (5.0, 2.0)])
def test_streaming_svrg_has_the_rate_of_its_theory(growth, order, condition, noise):
    theory = streaming_svrg_parameters(condition, growth=growth, order=order)
    least = math.ceil((order + 1) ** 2)
    for second_moment in (1.0, condition):  # equal Hessians; rows of Hessian L, and of none
        errors, n_rows = quadratic_errors(
            theory, condition, growth, least + 2, second_moment, noise
        )
        sigma = np.sqrt(noise / 2)
        from_start = np.sqrt(0.5) * (condition / n_rows) ** (order / 2)
        bound = ((1 + 4 / growth) * sigma / np.sqrt(n_rows) + from_start) ** 2
        assert (errors <= bound)[least - 1 :].all()
        assert errors[0] > bound[0]  # which is why the condition is there


def test_quadratic_errors_are_those_of_simulated_stages():
    theory = StreamingSVRGParameters(step=0.3, inner_steps=5, first_stage=4)
    random, n_runs, condition = np.random.default_rng(0), 200_000, 4.0

    def rows(*shape):
        hessians = condition * (random.random(shape) < 1 / condition)
        return hessians, random.normal(size=shape)

    w = np.ones(n_runs)
    for k in (4, 8):
        anchor = w.copy()
        h, z = rows(k, n_runs)
        gradient = (h * anchor + z).mean(axis=0)
        n_steps = random.integers(1, 6, n_runs)
        for t in range(5):
            h, _ = rows(n_runs)
            moved = w - 0.3 / condition * (h * (w - anchor) + gradient)
            w = np.where(t < n_steps, moved, w)
    errors, n_rows = quadratic_errors(theory, condition, 2.0, 2, condition, 1.0)
    assert errors[1] == pytest.approx((w**2).mean() / 2, rel=0.02)
    assert n_rows[1] == 4 + 8 + 2 * 5


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_theorem_2_on_a_small_problem(batch_size):
    """After T iterations of the safe rule the averaged dual has a mean gap below epsilon."""
    n, alpha, epsilon = 16, 0.1, 0.1
    X = matrix(n, 5, density=1.0)
    X /= np.linalg.norm(X, axis=1).max()
    random = np.random.default_rng(1)
    y = np.sign(X @ random.normal(size=5) + 0.3 * random.normal(size=n))
    sigma_squared = by_svd(X)
    counts = minibatch_sdca_iterations(
        n, alpha, epsilon, batch_size=batch_size, sigma_squared=sigma_squared
    )  # fmt: skip
    beta = safe_beta(n, batch_size, sigma_squared)
    gaps = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        subsets = (draw.choice(n, batch_size, replace=False) for _ in range(counts.total - 1))
        states = minibatch_sdca(X, y, hinge(), alpha, subsets, "safe", beta)
        duals = [np.zeros(n), *(a for _, a, _ in states)]
        a = np.mean(duals[counts.averaging_from :], axis=0)
        assert len(duals) == counts.total
        w = values.weights_of_dual(X, alpha, a)
        gaps.append(values.primal(X, y, hinge(), alpha, w) - values.dual(X, y, hinge(), alpha, a))
    assert min(gaps) > -1e-12
    assert np.mean(gaps) <= epsilon


def test_numbers_of_numpy_do_not_overflow():
    expected = minibatch_sdca_iterations(200, 1e-2, 0.1, batch_size=3, sigma_squared=0.5)
    counts = minibatch_sdca_iterations(
        np.uint8(200), 1e-2, 0.1, batch_size=np.int8(3), sigma_squared=0.5
    )
    assert counts == expected


HUGE = {"int": 10**400, "not printed": 10**5000, "fraction": Fraction(10**400, 3)}


@pytest.mark.parametrize("huge", HUGE.values(), ids=HUGE)
@pytest.mark.parametrize(
    "count",
    [
        lambda huge: minibatch_sdca_iterations(10, huge, 1),
        lambda huge: minibatch_sdca_iterations(10, 1, huge),
        lambda huge: streaming_svrg_parameters(huge),
        lambda huge: streaming_svrg_parameters(2, growth=huge),
        lambda huge: spectral_norm_squared(np.eye(3), tol=huge),
    ],
)
def test_numbers_beyond_float64_are_refused(count, huge):
    with pytest.raises(ValueError, match="is beyond the range of floating-point numbers"):
        count(huge)


def test_a_number_of_rows_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="n_samples is beyond the range"):
        minibatch_sdca_iterations(10**400, 1, 1)


def test_integers_of_numpy_may_stand_beside_those_beyond_64_bits():
    assert minibatch_sdca_iterations(10, 10**30, np.int64(3)).total > 0
    assert streaming_svrg_parameters(10**30, hessian_ratio=np.int64(3)).first_stage > 0
