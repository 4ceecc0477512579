"""Rows of a stream that stay in memory, and sums over all of them, Gram matrices among them."""
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sublinear._core.classes cimport add_classes, dot_classes
from sublinear._core.gram cimport add_gram, gram_pitch
from sublinear._core.line cimport (
    Line, Lines, add, add_with_squares, copy_entries, copy_strided, dot, index_t, line_at,
    line_size,
)
from sublinear._core.losses cimport Loss
from sublinear._core.matrix cimport Matrix
from sublinear._core.row_groups cimport (
    MOST_TOGETHER, Group, add_group, dot_group, set_group, take_lines,
)
from sublinear._core.sparse_rows cimport add_sparse_gram

from sublinear._core.gram import LEAST_FACTOR
from sublinear._core.states import part_of, prefixed, reading, take

MOST_WEIGHTS = 512        # of a Gram matrix
ROUNDED_ROWS = 4096       # added to the rows that rounding is allowed for, as few vary much
SPARSE_COST = 10          # operations on dense values that take as long as one on a stored entry


class Sample(NamedTuple):
    """Rows in memory, their constant feature with them."""

    rows: object
    targets: np.ndarray
    weights: np.ndarray

    def to_state(self, prefix):
        """Return a flat dict of arrays and numbers."""
        state = {"targets": self.targets, "weights": self.weights}
        if sp.issparse(self.rows):
            state |= {
                "data": self.rows.data, "indices": self.rows.indices, "indptr": self.rows.indptr}
        else:
            state["rows"] = self.rows
        return prefixed(prefix, state)

    @classmethod
    def from_state(cls, state, prefix, n_weights):
        """Return the Sample of a `to_state`, None if there is none; ValueError for other rows."""
        state = part_of(state, prefix)
        if not state:
            return None
        targets = take(state, "targets", np.empty(0), any_length=True)
        weights = take(state, "weights", np.zeros(len(targets)))
        shape = len(targets), n_weights
        if "rows" in state:
            return cls(take(state, "rows", np.zeros(shape)), targets, weights)
        data = take(state, "data", np.empty(0), any_length=True)
        offsets = take(state, "indptr", np.zeros(len(targets) + 1, dtype=np.int64))
        with reading(state, "indices") as columns:
            rows = sp.csr_array((data, columns, offsets), shape=shape)
            rows.check_format()
        return cls(rows, targets, weights)

    def compact(self):
        """Return the Sample with dense rows where these are quicker."""
        if sp.issparse(self.rows):
            n_rows, n_columns = self.rows.shape
            share = self.rows.nnz / (n_rows * n_columns)
            if n_columns <= MOST_WEIGHTS:    # its Gram matrix costs most: pairs of entries
                share *= share
            if share * SPARSE_COST >= 1:
                return self._replace(rows=self.rows.toarray())
        if sp.issparse(self.rows) or self.rows.flags.c_contiguous:
            return self
        return self._replace(rows=np.ascontiguousarray(self.rows))


def joined(samples):
    """Return the Sample of the rows of all samples."""
    if len(samples) == 1:
        return samples[0]
    rows, targets, weights = zip(*samples, strict=True)
    sparse = any(map(sp.issparse, rows))
    stacked = sp.vstack(rows, format="csr") if sparse else np.vstack(rows)
    return Sample(stacked, np.concatenate(targets), np.concatenate(weights))


def copied_sparse(Matrix matrix, chosen):
    """Return the CSR matrix of some rows, with the constant as a column more, and small indices.

    Parameters
    ----------
    matrix : Matrix
        Sparse.
    chosen : slice without a step, or ndarray of row numbers

    Returns
    -------
    rows : CSR array, float64
    """
    if isinstance(chosen, slice):
        chosen = np.arange(chosen.start, chosen.stop)
    cdef const uint32_t[::1] numbers = chosen.astype(np.uint32)
    cdef Py_ssize_t r, n_rows = numbers.shape[0], n_weights = matrix.n_weights
    cdef int64_t[::1] offsets = np.zeros(n_rows + 1, dtype=np.int64)
    cdef bint has_constant = matrix.constant != 0
    with nogil:
        for r in range(n_rows):
            offsets[r + 1] = offsets[r] + line_size(&matrix.rows, numbers[r]) + has_constant
    cdef double[::1] values = np.empty(offsets[n_rows])
    cdef int32_t[::1] small
    cdef int64_t[::1] large
    if max(offsets[n_rows], n_weights) <= np.iinfo(np.int32).max:
        columns = small = np.empty(offsets[n_rows], dtype=np.int32)
        with nogil:
            copy_lines(&matrix.rows, numbers, offsets, values, small)
    else:
        columns = large = np.empty(offsets[n_rows], dtype=np.int64)
        with nogil:
            copy_lines(&matrix.rows, numbers, offsets, values, large)
    rows = sp.csr_array((n_rows, n_weights))    # whose arrays need no look
    rows.data, rows.indices, rows.indptr = values.base, columns, offsets.base.astype(columns.dtype)
    return rows


cdef void copy_lines(
    const Lines* lines, const uint32_t[::1] numbers, const int64_t[::1] offsets,
    double[::1] values, index_t[::1] columns
) noexcept nogil:
    """Copy lines, each to its offset."""
    cdef Py_ssize_t r, at
    cdef Line x
    for r in range(numbers.shape[0]):
        x, at = line_at(lines, numbers[r]), offsets[r]
        if x.size > 0:
            copy_entries(&x, &values[at], &columns[at])
        if x.constant != 0:
            values[at + x.size], columns[at + x.size] = x.constant, <index_t> x.length


class Evaluation(NamedTuple):
    """A sample's rows x_i at weights v.

    Attributes
    ----------
    scores : ndarray of shape (n_rows,)
        z_i = <v, x_i>.
    losses, slopes : ndarray of shape (n_rows,)
        l(z_i) and l'(z_i).
    gradient, squares : ndarray of shape (n_weights,)
        sum_i s_i l'(z_i) x_i and sum_i s_i x_i^2, s_i the shares.
    curvatures : ndarray of shape (n_rows,)
        c_i = s_i l''(z_i).
    gram : ndarray of shape (n_weights, n_weights) or None
        sum_i c_i x_i x_i', if asked for.
    """

    scores: np.ndarray
    losses: np.ndarray
    slopes: np.ndarray
    gradient: np.ndarray
    squares: np.ndarray
    curvatures: np.ndarray
    gram: np.ndarray | None


cdef class Gram:
    """A sum of weighted squares of rows, which come in groups."""
    cdef Py_ssize_t n_weights, pitch, n_waiting
    cdef double[:, ::1] sum, rows    # times their roots, of dense rows that wait for others

    def __init__(self, Py_ssize_t n_weights):
        self.n_weights = n_weights
        self.pitch = gram_pitch(n_weights)
        self.sum = np.zeros((self.pitch, self.pitch))
        self.rows = np.zeros((MOST_TOGETHER, self.pitch))

    cdef void add_rows(self, const Group* group, const double* weights) noexcept nogil:
        """Add weights[r] x x' for the rows x = r of a group."""
        cdef Py_ssize_t r
        if group.sparse:
            add_sparse_gram(
                group.lines, group.order, group.count, weights, self.pitch, &self.sum[0, 0])
            return
        if self.n_waiting + group.count > MOST_TOGETHER:
            self.add_waiting()
        for r in range(group.count):
            copy_strided(
                <const double*> group.rows[r], 1, self.n_weights, sqrt(weights[r]),
                &self.rows[self.n_waiting + r, 0])
        self.n_waiting += group.count

    cdef void add_waiting(self) noexcept nogil:
        add_gram(
            &self.rows[0, 0], self.n_waiting, self.n_weights, self.pitch, &self.sum[0, 0])
        self.n_waiting = 0

    def whole(self):
        """Return the sum, a symmetric matrix."""
        cdef Py_ssize_t i, j
        self.add_waiting()
        for i in range(self.n_weights):
            for j in range(i):
                self.sum[i, j] = self.sum[j, i]
        return self.sum.base[:self.n_weights, :self.n_weights].copy()


cdef class KeptRows:
    """Rows in memory, and sums over all of them: on one thread, always in the same order.

    Parameters
    ----------
    rows : ndarray, C-contiguous, or CSR matrix of shape (n_rows, n_weights), float64
    """
    def __init__(self, rows):
        self.rows, self.matrix, self.sparse = rows, Matrix(rows), sp.issparse(rows)

    @property
    def n_weights(self):
        """Length of a row."""
        return self.matrix.n_columns

    def evaluate(
        self, Loss loss, const double[::1] v, const double[::1] targets, const double[::1] shares,
        bint gram=False
    ):
        """Return the Evaluation at v, without a Gram matrix where there are too many weights."""
        cdef Py_ssize_t k = 0, r, count, n = self.matrix.n_rows, d = self.matrix.n_columns
        cdef double[:, ::1] sums = np.zeros((2, d)), of_rows = np.empty((4, n))
        cdef double[MOST_TOGETHER] factors
        cdef double* z = &of_rows[0, 0]
        cdef double* slopes = &of_rows[2, 0]
        cdef double* c = &of_rows[3, 0]
        cdef double least_factor = LEAST_FACTOR
        cdef Gram square = None
        cdef Group group
        set_group(&group, &self.matrix.rows)
        gram = gram and d <= MOST_WEIGHTS
        if gram:
            square = Gram(d)
        with nogil:
            while k < n:
                count = min(group.most, n - k)
                take_lines(&group, k, count, count)
                dot_group(&group, &v[0], z + k)
                loss.evaluate_of(
                    z + k, &targets[k], &of_rows[1, k], slopes + k, c + k, count)
                for r in range(count):
                    factors[r] = slopes[k + r] * shares[k + r]
                    c[k + r] = c[k + r] * shares[k + r] if c[k + r] >= least_factor else 0
                add_group(&group, factors, &shares[k], &sums[0, 0], &sums[1, 0])
                if gram:
                    square.add_rows(&group, c + k)
                k += count
        *of_losses, curvatures = of_rows.base
        return Evaluation(*of_losses, *sums.base, curvatures, square.whole() if gram else None)

    def gram(self, const double[::1] c):
        """Return sum_i c_i x_i x_i', shape (n_weights, n_weights)."""
        cdef Py_ssize_t k = 0, count, n = self.matrix.n_rows
        cdef Gram square = Gram(self.matrix.n_columns)
        cdef Group group
        set_group(&group, &self.matrix.rows)
        with nogil:
            while k < n:
                count = min(group.most, n - k)
                take_lines(&group, k, count, count)
                square.add_rows(&group, &c[k])
                k += count
        return square.whole()

    def variances(self, const double[::1] c):
        """Return sum_i c_i x_i^2, and what it is without that of the mean: 0 if but rounding.

        Both have the shape (n_weights,). Additions of the same number err alike, so that those of a
        constant feature may be off by a unit in the last place for each row.
        """
        cdef Py_ssize_t i
        cdef Line x
        cdef double[:, ::1] sums = np.zeros((2, self.matrix.n_columns))
        with nogil:
            for i in range(self.matrix.n_rows):
                x = line_at(&self.matrix.rows, i)
                add_with_squares(&x, c[i], c[i], &sums[0, 0], &sums[1, 0])
        means, squares = sums.base
        left = squares - means**2 / (np.sum(c) or 1.0)
        rounding = np.finfo(float).eps * (ROUNDED_ROWS + self.matrix.n_rows) * squares
        return squares, np.where(left > rounding, left, 0.0)

    def products(self, const double[::1] curvatures, const double[:, ::1] V):
        """Return sum_i c_i x_i x_i' V, shape (n_weights, n_vectors)."""
        cdef double[:, ::1] result = np.zeros((self.matrix.n_columns, V.shape[1]))
        cdef double[::1] factors = np.empty(V.shape[1])
        with nogil:
            self.add_products(curvatures, V, result, factors)
        return result.base

    cdef int add_products(
        self, const double[::1] curvatures, const double[:, ::1] V, double[:, ::1] result,
        double[::1] factors
    ) except -1 nogil:
        """result += sum_i c_i x_i x_i' V, with room for n_vectors factors"""
        cdef Py_ssize_t i, j, n_vectors = V.shape[1]
        cdef Line x
        if n_vectors > 1 and not self.sparse:
            with gil:
                along = self.rows @ np.asarray(V)
                np.asarray(result)[:] += self.rows.T @ (np.asarray(curvatures)[:, None] * along)
            return 0
        for i in range(self.matrix.n_rows):
            if curvatures[i] == 0:    # where a loss is flat
                continue
            x = line_at(&self.matrix.rows, i)
            if n_vectors == 1:
                add(&x, curvatures[i] * dot(&x, &V[0, 0]), &result[0, 0])
                continue
            dot_classes(&x, &V[0, 0], n_vectors, &factors[0])
            for j in range(n_vectors):
                factors[j] *= curvatures[i]
            add_classes(&x, &factors[0], n_vectors, &result[0, 0])
        return 0
