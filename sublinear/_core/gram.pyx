"""Products of rows, as matrices that second-order methods factorise."""
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport sqrt
from libc.stdint cimport uint32_t

import itertools

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf

from sublinear._core.line cimport Line, copy_dense, line_at
from sublinear._core.matrix cimport Matrix
from sublinear._core.sparse_rows cimport add_sparse_gram

# Times, measured on one thread, in that of a feature value in a step of coordinate ascent:
OUTER = 1.0 / 6         # of an entry of x x'
DENSE_OUTER = 1.0 / 40  # of one that a BLAS computes

LEAST_FACTOR = 1e-290   # smaller ones make subnormal products, which take many times as long
JITTERS = 1e-15, 1e-13, 1e-11   # of diagonal entries, where rounding has made them too small
FAR = 0.99              # of |x|^2 that is due to the mean row
LEAST_LENGTH = 1e-9     # of what a row adds to the span of those before, by its length
LEAST_PIVOT = 2.0**-50          # of the largest diagonal entry: what is left is rounding
NEAR_LARGEST = 0.3              # of the largest pivot, for those that come with it, as exactly
PIVOTS_AT_ONCE = 64             # which share a pass over the factor

cdef Py_ssize_t WHOLE_BLOCK = 2147483648    # products by a BLAS at once, if that spares copies

cdef enum:
    DENSE_BLOCK = 1 << 16        # values that are copied at a time, as float64, and stay in a cache
    DENSE_ROWS = 256             # of as many rows at least
    OUTER_BLOCK = 1 << 22        # products between two looks at pending signals, entry by entry
    MOST_OWN = 128               # columns of dense rows whose products need no BLAS
    BLAS_BLOCK = 1 << 29         # the same by a BLAS
    LEAST_COLUMNS = 64           # that a BLAS gets at a time: with fewer it would be slow


def weighted_gram(
    Matrix matrix, const uint32_t[::1] rows, const double[::1] factors,
    const double[::1] column=None
):
    """Return sum_k factors_k x_i x_i' with i = rows[k], in and above the diagonal.

    Parameters
    ----------
    matrix : Matrix
    rows : ndarray of uint32
        In the range of the matrix.
    factors : ndarray of shape (len(rows),), float64
        Not negative. Where they are all but 0 a row is left out.
    column : ndarray of shape (len(rows),), float64, default=None
        A last column of these rows, besides those of the matrix.

    Returns
    -------
    total : ndarray of shape (n_weights, n_weights), or one more with a column, float64
        What lies below the diagonal means nothing.
    """
    is_small = np.asarray(factors) < LEAST_FACTOR
    if is_small.any():
        rows, factors = np.asarray(rows)[~is_small], np.asarray(factors)[~is_small]
        column = None if column is None else np.asarray(column)[~is_small]
    if matrix.is_sparse:
        return sparse_gram(matrix, rows, factors, column)
    if matrix.n_weights + (column is not None) <= MOST_OWN:
        return narrow_gram(matrix, rows, factors, column)
    return wide_gram(matrix, rows, factors, column)


cdef sparse_gram(
    Matrix matrix, const uint32_t[::1] rows, const double[::1] factors, const double[::1] column
):
    cdef Py_ssize_t width = matrix.n_weights, pitch = width + (column is not None), start
    cdef Py_ssize_t n = rows.shape[0], length = max(1, matrix.n_stored // matrix.n_rows)
    cdef Py_ssize_t block = max(1, OUTER_BLOCK // (length * length))
    cdef double[:, ::1] total = np.zeros((pitch, pitch))
    for start in range(0, n, block):
        with nogil:
            add_sparse_gram(
                &matrix.rows, &rows[start], min(block, n - start), &factors[start], pitch,
                &total[0, 0])
        PyErr_CheckSignals()
    if matrix.constant != 0:    # no stored column
        total.base[:width, width - 1] = matrix.constant * weighted_sum(matrix, rows, factors)
    if column is not None:
        total.base[:width, width] = weighted_sum(matrix, rows, np.multiply(factors, column))
    return total.base


def weighted_sum(matrix, rows, factors):
    """Return sum_k factors_k x_i with i = rows[k]."""
    total = np.zeros(matrix.n_weights)
    matrix.add_rows(factors, rows, total)
    return total


cdef narrow_gram(
    Matrix matrix, const uint32_t[::1] rows, const double[::1] factors, const double[::1] column
):
    """Of dense rows with so few columns that a BLAS takes longer."""
    cdef Py_ssize_t width = matrix.n_weights + (column is not None), start = 0, last, stop
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t pitch = gram_pitch(width), block = max(1, GRAM_VALUES // pitch)
    cdef double[:, ::1] total = np.zeros((pitch, pitch)), copies = np.zeros((block, pitch))
    while start < n:
        last = min(n, start + OUTER_BLOCK // pitch)
        with nogil:
            while start < last:
                stop = min(last, start + block)
                copy_by_roots(
                    matrix, rows, factors, column, start, stop, pitch, &copies[0, 0])
                add_gram(&copies[0, 0], stop - start, width, pitch, &total[0, 0])
                start = stop
        PyErr_CheckSignals()
    return total.base[:width, :width].copy()


cdef wide_gram(
    Matrix matrix, const uint32_t[::1] rows, const double[::1] factors, const double[::1] column
):
    cdef Py_ssize_t width = matrix.n_weights + (column is not None), start, count
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t block = max(DENSE_ROWS, DENSE_BLOCK // width)
    cdef double[:, ::1] copies = np.empty((min(n, block), width))
    total = np.zeros((width, width))
    for start in range(0, n, block):
        count = min(block, n - start)
        with nogil:
            copy_by_roots(
                matrix, rows, factors, column, start, start + count, width, &copies[0, 0])
        # of transposed matrices, in the order of columns, on which a BLAS works in place
        dsyrk(1.0, copies.base[:count].T, beta=1.0, c=total.T, lower=True, overwrite_c=True)
        PyErr_CheckSignals()
    return total


cdef void copy_by_roots(
    Matrix matrix, const uint32_t[::1] rows, const double[::1] factors, const double[::1] column,
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t pitch, double* copies
) noexcept nogil:
    """Copy the dense rows x_i, i = rows[k], of start <= k < stop, times the root of factors_k."""
    cdef Py_ssize_t k
    cdef double root
    cdef Line x
    for k in range(start, stop):
        root, x = sqrt(factors[k]), line_at(&matrix.rows, rows[k])
        copy_dense(&x, root, copies)
        if column is not None:
            copies[x.length + (x.constant != 0)] = root * column[k]
        copies += pitch


def dense_rows(matrix, rows):
    """Return some rows as an array (len(rows), n_weights) of its own, float64."""
    values = np.empty((len(rows), matrix.n_weights))
    chosen = np.asarray(rows)
    values[:, :matrix.n_columns] = (
        matrix.csr()[chosen].toarray() if matrix.is_sparse else matrix.arrays[0][chosen])
    values[:, matrix.n_columns:] = matrix.constant
    return values


def is_worth_entries(matrix):
    """Tell whether products of rows are found sooner entry by entry than by a BLAS."""
    dense = DENSE_OUTER * matrix.n_rows * matrix.n_columns
    return matrix.is_sparse and OUTER * matrix.n_stored < dense


def row_products(Matrix matrix):
    """Return X X' without the constant column, an array (n_rows, n_rows), float64.

    Of a dense X only the part in and above the diagonal is there.
    """
    cdef Py_ssize_t n_rows = matrix.n_rows, start, step
    products = np.zeros((n_rows, n_rows))
    if is_worth_entries(matrix):
        X = matrix.csr().astype(np.float64)
        transposed = X.T.tocsr()
        step = max(1, OUTER_BLOCK // max(1, matrix.n_stored))
        for start in range(0, n_rows, step):
            products[start:start + step] = (X[start:start + step] @ transposed).toarray()
            PyErr_CheckSignals()
        return products
    step = max(LEAST_COLUMNS, BLAS_BLOCK // n_rows**2)
    if n_rows**2 * matrix.n_columns <= WHOLE_BLOCK and is_plain(matrix):
        step = max(step, matrix.n_columns)    # parts of its rows would have to be copied
    for part in column_blocks(matrix, step):
        # a BLAS works in place on what is in the order of columns, as transposed matrices are
        by_rows = part.flags.c_contiguous
        dsyrk(1.0, part.T if by_rows else part, trans=by_rows, beta=1.0, c=products.T, lower=True,
              overwrite_c=True)
        PyErr_CheckSignals()
    return products


def is_plain(matrix):
    """Tell whether the rows are a BLAS's own kind of array."""
    if matrix.is_sparse:
        return False
    array = matrix.arrays[0]
    return array.dtype == np.float64 and array.flags.c_contiguous


def column_blocks(matrix, step):
    """Yield `step` columns of a Matrix at a time, without the constant one, as float64 arrays.

    They are in the order of rows or of columns.
    """
    columns = matrix.csr().tocsc() if matrix.is_sparse else matrix.arrays[0]
    order = "F" if matrix.is_sparse or columns.flags.f_contiguous else "C"
    for start in range(0, matrix.n_columns, step):
        part = columns[:, start:start + step]
        part = part.toarray(order="F") if matrix.is_sparse else part
        yield np.array(part, dtype=np.float64, order=order, copy=None)


def row_factor(matrix, double constant):
    """Return U, an upper triangle, with U'U = X X' + constant^2 but for rounding.

    Where dense rows lie far from the origin, products of them have lost too many digits: then U
    comes from reflections of the rows themselves, which take a few times as long.
    """
    products = row_products(matrix)
    squares = products.diagonal().copy()
    above = sum(row[k + 1:].sum() for k, row in enumerate(products))
    is_far = 2 * above + squares.sum() > FAR * matrix.n_rows * squares.sum()
    if is_worth_entries(matrix) or not is_far:
        products += constant * constant
        return upper_factor(products)
    del products
    factor = np.diag(LEAST_LENGTH * np.sqrt(squares + constant * constant))
    blocks = column_blocks(matrix, max(LEAST_COLUMNS, matrix.n_rows))
    for part in itertools.chain([np.full((matrix.n_rows, 1), constant)], blocks):
        factor = qr(np.vstack([factor, part.T]), overwrite_a=True, mode="r", check_finite=False)[0]
        factor = factor[:matrix.n_rows]
        PyErr_CheckSignals()
    return factor


def upper_factor(matrix):
    """Return U with U'U the matrix, which is positive semidefinite but for rounding.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float64
        Read in and above the diagonal, which is written to.

    Raises
    ------
    LinAlgError
        If it is not, or has entries that are not finite.
    """
    diagonal = finite(matrix.diagonal().copy())
    least = np.finfo(float).tiny + np.finfo(float).eps ** 2 * diagonal.max()
    for jitter in JITTERS:
        np.fill_diagonal(matrix, diagonal * (1 + jitter) + least)
        factor, has_failed = dpotrf(matrix)    # SciPy's own takes longer than small ones
        if not has_failed:
            finite(factor.diagonal())    # which takes in all entries above it
            return factor
    raise LinAlgError("not positive semidefinite")


def solution(factor, right):
    """Return x with U'U x the right side; raises LinAlgError where it is not finite."""
    return finite(dpotrs(factor, right)[0])


def finite(values):
    """Return an array; raises LinAlgError unless all its values are finite."""
    if not np.isfinite(values).all():
        raise LinAlgError("not finite")
    return values


def pivoted_factor(matrix):
    """Factor a positive semidefinite matrix, by as many columns as float64 tells its rank.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float64

    Returns
    -------
    factor : ndarray of shape (n, rank)
        L with L L' the matrix, but for rounding of its largest diagonal entries.
    pivots : ndarray of shape (rank,)
        The rows of L that are a lower triangle.

    Raises
    ------
    LinAlgError
        If there is nothing to factor: no entry, or none that is finite.
    """
    reached, order, rank, _ = dpstrf(matrix, lower=1)
    factor = np.tril(reached[:, :rank])
    if rank == 0 or not np.isfinite(factor).all():
        raise LinAlgError("no positive diagonal entry, or entries that are not finite")
    order = order - 1
    rows = np.empty_like(factor)
    rows[order] = factor
    return rows, order[:rank]


def factor_by_columns(entries, diagonal, Py_ssize_t most):
    """Factor a matrix as pivoted_factor does, by those of its columns that the pivots name.

    Parameters
    ----------
    entries : callable
        entries(rows, columns) -> the matrix there, an array of its own, float64.
    diagonal : ndarray of shape (n,), float64
    most : int
        A bound on the rank.

    Returns
    -------
    factor : ndarray of shape (n, rank)
    pivots : ndarray of shape (rank,)

    Raises
    ------
    LinAlgError
        As pivoted_factor.
    """
    cdef Py_ssize_t n = len(diagonal), count = 0, end
    order, left = np.arange(n), np.array(diagonal)
    factor, pivots = np.zeros((n, most)), np.empty(most, dtype=np.intp)
    least = LEAST_PIVOT * left.max()
    while count < most and left.max() > least:
        tried = np.argsort(-left, kind="stable")[:min(PIVOTS_AT_ONCE, most - count)]
        known = factor[:, :count]
        among = entries(tried, tried) - known[tried] @ known[tried].T
        reached, places, rank, _ = dpstrf(among, tol=max(least, NEAR_LARGEST * left.max()), lower=1)
        if rank == 0:
            break
        taken, end = tried[places[:rank] - 1], count + rank
        columns = entries(order, taken) - known @ known[taken].T
        triangle = np.tril(reached[:rank, :rank])
        factor[:, count:end] = solve_triangular(
            triangle, columns.T, lower=True, check_finite=False).T
        factor[taken, count:end], pivots[count:end] = triangle, taken
        factor[pivots[:count], count:end] = 0
        left -= np.einsum("ij,ij->i", factor[:, count:end], factor[:, count:end])
        left[taken], count = 0, end
        PyErr_CheckSignals()
    if count == 0 or not np.isfinite(factor).all():
        raise LinAlgError("no positive diagonal entry, or entries that are not finite")
    return np.ascontiguousarray(factor[:, :count]), pivots[:count]
