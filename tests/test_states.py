"""States: what is restored is what was saved, and nothing else is taken for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from sublinear._core.states import (
    State,
    fill,
    part_of,
    parts_of,
    prefixed,
    reading,
    restore,
    saved,
    take,
)

NAMES = "w", "count", "gap", "is_over"


def owner(**changes):
    return SimpleNamespace(
        **{"w": np.zeros(3), "count": 0, "gap": np.inf, "is_over": False} | changes
    )


def test_arrays_keep_their_memory_and_numbers_their_type():
    first = owner(w=np.arange(3.0), count=np.int64(7), gap=np.float32(0.5), is_over=np.bool_(True))
    second = owner()
    w = second.w
    restore(second, NAMES, part_of(prefixed("one", saved(first, NAMES)), "one"))
    assert second.w is w and w.tolist() == [0, 1, 2]
    assert [type(value) for value in (second.count, second.gap, second.is_over)] == [
        int,
        float,
        bool,
    ]
    assert (second.count, second.gap, second.is_over) == (7, 0.5, True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("w", np.zeros(4), r"w is float64 of shape \(4,\) in place of float64 of shape \(3,\)"),
        ("w", np.zeros((1, 3)), r"w is float64 of shape \(1, 3\)"),
        ("w", 1.0, r"w is float64 of shape \(\)"),
        ("w", np.array(["a", "b", "c"]), "w is <U1"),
        ("count", 1.5, r"count is float64 of shape \(\) in place of int"),
        ("count", np.zeros(1, dtype=int), r"count is int\d+ of shape \(1,\)"),
        ("gap", "small", "gap is <U5"),
        ("gap", None, "gap is object"),
        ("is_over", 1, "is_over is int"),
        ("count", -1, "count is no count: -1"),
        ("count", 2**62, "count is no count: 46"),
        ("count", 2**70, "count is object"),
        ("count", [1, 2], r"count is object of shape \(2,\)"),
    ],
    ids=str,
)
def test_what_is_not_alike_is_refused(name, value, message):
    state = saved(owner(), NAMES) | {name: value}
    with pytest.raises(ValueError, match=f"damaged, or of another fit: {message}"):
        restore(owner(), NAMES, state)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match=r"^the saved state is damaged, .*: w is missing"):
        fill({"w": np.zeros(3)}, State())


def test_an_entry_is_named_as_in_its_file():
    (part,) = parts_of(State({"0.w": np.full(3, np.nan), "0.random": "?"}, "a file"))
    with pytest.raises(ValueError, match=r"^a file: the saved .*: 0\.w is not a number"):
        take(part, "w", np.zeros(3))
    with pytest.raises(ValueError, match=r"^a file: .*: 0\.count is missing"):
        take(part, "count", 0)
    with (
        pytest.raises(ValueError, match=r"^a file: .*: 0\.random cannot be used \(invalid"),
        reading(part, "random") as text,
    ):
        int(text)


def test_what_fits_hand_over_in_memory_may_be_no_number():
    assert np.isnan(take({"gap": np.nan}, "gap", 0.0))


def test_arrays_of_any_length_have_the_type_that_is_expected():
    rows = take({"rows": np.zeros((5, 2), dtype=int)}, "rows", np.empty((0, 2)), any_length=True)
    assert rows.shape == (5, 2) and rows.dtype == np.float64
    with pytest.raises(ValueError, match=r"rows is float64 of shape \(5, 3\)"):
        take({"rows": np.zeros((5, 3))}, "rows", np.empty((0, 2)), any_length=True)
