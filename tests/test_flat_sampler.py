"""FlatSampler: the shares of entries and blocks, and draws in proportion to them."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sublinear._core.flat_sampler import FlatSampler


@pytest.mark.parametrize("size", (1, 2, 63, 64, 65, 200))
def test_draw_splits_the_unit_interval(size):
    weights = np.random.default_rng(size).integers(0, 5, size).astype(float)
    weights[0] = 3
    sampler = FlatSampler(size)
    sampler.chances[:] = weights
    assert sampler.update() == weights.sum()
    ends = np.cumsum(weights)
    for i in np.flatnonzero(weights):
        for mass in (ends[i] - weights[i] + 0.001, ends[i] - 0.001):
            start, stop, share = sampler.draw(mass / weights.sum())
            assert (start, stop) == (i, i + 1)
            assert share == pytest.approx(weights[i] / weights.sum())


@pytest.mark.parametrize(
    ("size", "width", "lead"),
    [
        (5, 5, 0),
        (40, 16, 0),
        (32, 16, 0),
        (33, 8, 0),
        (5, 16, 4),
        (40, 16, 4),
        (12, 16, 4),
        (33, 8, 2),
    ],
)
def test_blocks_are_drawn_whole(size, width, lead):
    weights = np.random.default_rng(size).random(size)
    sampler = FlatSampler(size, width, lead)
    sampler.chances[:] = weights
    total = sampler.update()
    before = 0.0
    starts = [0, *range(width - lead, size, width)]
    for start, stop in zip(starts, [*starts[1:], size], strict=True):
        here = weights[start:stop].sum()
        found = sampler.draw((before + here / 2) / total)
        assert found == (start, stop, pytest.approx(here / total))
        before += here


def test_no_entry_of_weight_zero_is_drawn():
    sampler = FlatSampler(200)
    sampler.chances[[3, 70, 130]] = 1.0, 1e-30, 1.0
    sampler.update()
    drawn = {sampler.draw(u)[0] for u in (0.0, 0.3, 0.5, 0.7, 1 - 2.0**-53)}
    assert drawn <= {3, 70, 130}


def test_draws_follow_the_weights_after_many_updates():
    random = np.random.default_rng(0)
    sampler = FlatSampler(30)
    for _ in range(1000):
        sampler.chances[random.integers(30, size=10)] = random.random(10)
        sampler.update()
    drawn = [sampler.draw(u)[0] for u in random.random(30_000)]
    counts = np.bincount(drawn, minlength=30)
    live = sampler.chances > 0
    expected = sampler.chances[live] / sampler.chances.sum() * len(drawn)
    assert counts[~live].sum() == 0
    assert chisquare(counts[live], expected).pvalue > 1e-3


def test_bad_calls_are_refused():
    with pytest.raises(ValueError, match="every weight is zero"):
        FlatSampler(3).draw(0.5)
    with pytest.raises(ValueError, match="width"):
        FlatSampler(3, 0)
    with pytest.raises(ValueError, match="lead"):
        FlatSampler(3, 2, 2)
