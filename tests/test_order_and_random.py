"""Orders: what each promises, and that draws depend on the seed alone."""

import numpy as np
import pytest
from reference.orders import in_pools
from scipy import sparse
from scipy.stats import chisquare
from stepping import bits

from sublinear._core.matrix import Matrix
from sublinear._core.order import SAMPLINGS, Order, pools_pay, sort_indices
from sublinear._core.random import RandomBits


def epochs(order, n, count):
    return [order.take(n).tolist() for _ in range(count)]


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 1000])
def test_shuffled_epochs_are_permutations(n):
    order = Order(n, "shuffle", bits())
    seen = epochs(order, n, 5)
    assert all(sorted(epoch) == list(range(n)) for epoch in seen)
    assert n < 4 or seen[0] != seen[1]


@pytest.mark.parametrize(("n", "count"), [(1, 0), (1, 1), (9, 1), (300, 150), (300, 300)])
def test_indices_are_sorted_in_place(n, count):
    for seed in range(20):
        items = np.random.default_rng(seed).permutation(n)[:count].astype(np.uint32)
        expected = np.sort(items)
        sort_indices(items, n)
        np.testing.assert_array_equal(items, expected)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_fixed_repeats_one_permutation(n):
    seen = epochs(Order(n, "fixed", bits()), n, 4)
    assert sorted(seen[0]) == list(range(n))
    assert all(epoch == seen[0] for epoch in seen)


def test_replacement_draws_repeat():
    drawn = Order(50, "replacement", bits()).take(5000)
    assert len(set(drawn[:50].tolist())) < 50
    assert chisquare(np.bincount(drawn, minlength=50)).pvalue > 1e-3


@pytest.mark.parametrize(("n", "size"), [(1, 1), (5, 5), (40, 7), (1000, 600)])
def test_subsets_hold_an_example_once(n, size):
    order = Order(n, "subsets", bits(), size)
    for _ in range(50):
        batch = order.take(size).tolist()
        assert len(set(batch)) == size
        assert 0 <= min(batch) <= max(batch) < n


def test_subsets_are_uniform():
    order = Order(20, "subsets", bits(3), 4)
    batches = order.take(4 * 5000).reshape(-1, 4)
    assert chisquare(np.bincount(batches.ravel(), minlength=20)).pvalue > 1e-3
    pairs = np.zeros((20, 20))
    for batch in batches:
        pairs[np.ix_(batch, batch)] += 1
    assert chisquare(pairs[np.triu_indices(20, 1)]).pvalue > 1e-3


@pytest.mark.parametrize("position", [0, 3, 9])
def test_every_example_comes_at_every_place(position):
    order = Order(10, "shuffle", bits(4))
    counts = np.bincount([order.take(10)[position] for _ in range(5000)], minlength=10)
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_seed_decides(sampling):
    one, same, other = (Order(100, sampling, bits(seed), 10).take(250) for seed in (7, 7, 8))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_draws_do_not_depend_on_slices(sampling):
    whole = Order(700, sampling, bits(), 300).take(3000)
    sliced, cuts = Order(700, sampling, bits(), 300), np.random.default_rng(0)
    parts = []
    while sum(map(len, parts)) < 3000:
        parts.append(sliced.take(min(int(cuts.integers(1, 90)), 3000 - sum(map(len, parts)))))
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_two_streams_of_a_seed_sequence_differ():
    one, other = (RandomBits(seed) for seed in np.random.SeedSequence(0).spawn(2))
    assert (one.integers(1000, 20) != other.integers(1000, 20)).any()


@pytest.mark.parametrize("n", [0, -1, 2**32])
def test_sizes_that_no_order_has(n):
    with pytest.raises(ValueError, match="number of examples"):
        Order(n, "shuffle", bits())


def test_unknown_sampling():
    with pytest.raises(KeyError):
        Order(3, "sorted", bits())


def test_doubles_are_those_of_numpy():
    expected = np.random.Generator(np.random.SFC64(np.random.SeedSequence(9))).random(100)
    np.testing.assert_array_equal(bits(9).doubles(100), expected)


@pytest.mark.parametrize("n", [1, 2, 6, 1000])
def test_integers_are_uniform(n):
    drawn = bits(n).integers(n, 200 * min(n, 500))
    assert drawn.max() < n
    if n > 1:
        assert chisquare(np.bincount(drawn, minlength=n)).pvalue > 1e-3


def test_integers_of_a_large_range_are_unbiased():
    """For n = 3 * 2^30 a plain product would draw every third value twice as often."""
    drawn = bits(1).integers(3 << 30, 60_000)
    assert chisquare(np.bincount(drawn % 3, minlength=3)).pvalue > 1e-3
    assert chisquare(np.bincount(drawn >> 30, minlength=3)).pvalue > 1e-3


def test_no_integer_below_zero():
    with pytest.raises(ValueError, match="at least 1"):
        bits().integers(0, 3)


RUN, POOL = 64, 4096


@pytest.mark.parametrize("n", [1, 63, 64, 200, 4096, 5000, 8192, 20_001])
def test_pools_draw_what_their_oracle_draws(n):
    order, random = Order(n, "shuffle", bits(), in_pools=True), bits()
    shuffled = in_pools(lambda count: int(random.integers(count, 1)[0]), RUN, POOL)
    for _ in range(3):
        expected = shuffled(np.arange(n))
        taken = [order.take(size) for size in (n // 3, n - n // 3)]
        np.testing.assert_array_equal(np.concatenate(taken), expected)
    assert sorted(expected.tolist()) == list(range(n))


def test_a_pool_is_made_of_runs_from_everywhere():
    n = 40 * POOL
    first, second = Order(n, "shuffle", bits(), in_pools=True).take(2 * n).reshape(2, -1, POOL)
    assert not np.array_equal(first, second)
    for pool in (*first, *second):
        runs = np.sort(pool).reshape(-1, RUN)
        assert np.all(np.diff(runs, axis=1) == 1)
        counts = np.bincount(runs[:, 0] // (n // 8), minlength=8)
        assert chisquare(counts).pvalue > 1e-5
        assert np.abs(np.corrcoef(pool, np.arange(POOL))[0, 1]) < 0.1


def test_fixed_pools_repeat():
    order = Order(10_000, "fixed", bits(), in_pools=True)
    first = order.take(10_000).tolist()
    assert order.take(10_000).tolist() == first


@pytest.mark.parametrize(
    ("rows", "entries", "expected"),
    [(200_000, 2_000_000, True), (20_000, 2_000_000, False), (50_000, 700_000, False)],
)
def test_pools_pay_for_many_short_rows(rows, entries, expected):
    indices = np.tile(np.arange(entries // rows, dtype=np.int32), rows)
    offsets = np.arange(0, entries + 1, entries // rows, dtype=np.int32)
    X = sparse.csr_array((np.ones(entries, np.float32), indices, offsets), shape=(rows, 1000))
    assert pools_pay(Matrix(X)) is expected
