"""ComputedMatrix: rows that a Python function computes when they are asked for.

`hold` has the rows in place that compiled code is about to read; it keeps as many as its buffer
has room for, those asked for longest ago go first. A row that is not held reads as NaN.
"""
import numpy as np

from sublinear._core.line cimport Line, line_at, squared_norm
from sublinear._core.matrix cimport Matrix


cdef class ComputedMatrix(Matrix):
    """A dense matrix whose rows are computed on demand.

    Parameters
    ----------
    compute : callable
        Given the number of a row, returns its values: an array of shape (n_columns,).
    shape : tuple of int
    dtype : {float32, float64}
    capacity : int
        How many rows are kept.
    constant : float, default=0.0
        As for Matrix.
    transposed : ComputedMatrix, default=None
        The columns.
    """
    is_computed = True

    def __init__(
        self, compute, shape, dtype, Py_ssize_t capacity, double constant=0.0,
        Matrix transposed=None
    ):
        self.buffer = np.full((capacity + 1, shape[1]), np.nan, dtype)
        Matrix.__init__(self, self.buffer, constant)
        self.compute, self.capacity = compute, capacity
        self.n_rows = self.rows.count = shape[0]
        self.n_stored = self.n_rows * self.n_columns
        self._transposed = transposed
        self.slots = np.full(self.n_rows, capacity, np.intp)
        self.owners = np.full(capacity, -1, np.intp)
        self.turns = np.zeros(capacity, np.longlong)
        self.rows.slots = &self.slots[0]

    cpdef hold(self, lines):
        """Have these rows in place until the next call.

        Parameters
        ----------
        lines : iterable of int
        """
        cdef Py_ssize_t i
        self.turn += 1
        wanted = np.unique(np.fromiter(lines, np.intp))
        if len(wanted) > self.capacity:
            raise ValueError(
                f"{len(wanted)} lines are needed at once, the cache has room for {self.capacity}: "
                "enlarge it, or take smaller batches"
            )
        missing = []
        for i in wanted:
            self.checked_row(i)
            if self.slots[i] < self.capacity:
                self.turns[self.slots[i]] = self.turn
            else:
                missing.append(i)
        for i in missing:
            self._place(i)

    cdef Py_ssize_t rows_per_call(self):
        return min(self.capacity, Matrix.rows_per_call(self))

    def _place(self, Py_ssize_t i):
        """Compute a row into the next place whose row is not asked for now."""
        while self.turns[self.place] == self.turn:
            self.place = (self.place + 1) % self.capacity
        values = self.compute(i)
        if self.owners[self.place] >= 0:
            self.slots[self.owners[self.place]] = self.capacity
        self.buffer[self.place] = values
        self.owners[self.place] = i
        self.turns[self.place] = self.turn
        self.slots[i] = self.place
        self.place = (self.place + 1) % self.capacity

    def largest_entry(self):
        """Return the largest absolute value."""
        largest = 0.0
        for i in range(self.n_rows):
            self.hold((i,))
            largest = max(largest, float(np.abs(self.buffer[self.slots[i]]).max()))
        return largest

    def squared_norms(self, bint with_constant=True):
        """Return |row i|^2 for every row, the constant entry included or not (float64)."""
        result = np.empty(self.n_rows)
        cdef double[::1] norms = result
        cdef Py_ssize_t i
        cdef Line x
        for i in range(self.n_rows):
            self.hold((i,))
            x = line_at(&self.rows, i)
            x.constant *= with_constant
            norms[i] = squared_norm(&x)
        return result

    def row_dots(self, w, order):
        """Return <row i, w> for every i of order, in that order (float64)."""
        order = np.asarray(order)
        result = np.empty(len(order))
        for start in range(0, len(order), self.capacity):
            part = order[start:start + self.capacity]
            self.hold(part)
            result[start:start + self.capacity] = Matrix.row_dots(self, w, part)
        return result

    def add_rows(self, factors, order, w):
        """Add factors[k] * row order[k] to w, in place, for every k."""
        order = np.asarray(order)
        for start in range(0, len(order), self.capacity):
            part = order[start:start + self.capacity]
            self.hold(part)
            Matrix.add_rows(self, factors[start:start + self.capacity], part, w)
