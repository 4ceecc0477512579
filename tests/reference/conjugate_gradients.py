"""Twin of `sublinear._core.conjugate_gradients`: one system, one step at a time."""

import numpy as np


def conjugate_gradients(matrix, right):
    """Yield the iterates, of zeros on, as many as there are weights."""
    solution, rest, direction = np.zeros_like(right), right, right
    yield solution
    for _ in right:
        image = matrix @ direction
        length = rest @ rest / (direction @ image)
        solution = solution + length * direction
        before, rest = rest, rest - length * image
        direction = rest + rest @ rest / (before @ before) * direction
        yield solution
