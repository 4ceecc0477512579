"""States: what is restored is what was saved, and nothing else is taken for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from sublinear._core.states import State, fill, part_of, prefixed, restore, saved

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
    ],
    ids=str,
)
def test_what_is_not_alike_is_refused(name, value, message):
    state = saved(owner(), NAMES) | {name: value}
    with pytest.raises(ValueError, match=f"damaged, or of another fit: {message}"):
        restore(owner(), NAMES, state)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="damaged, or of another fit: w is missing"):
        fill({"w": np.zeros(3)}, State())
