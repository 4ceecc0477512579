"""Matrix: owns (a reference to) the arrays of X and lends its rows as Lines.

What is usable as it is gets used as it is: CSR and dense data in either order or with any stride,
float32 or float64, int32 or int64 indices, read-only or memory-mapped. Foreign byte order,
unaligned buffers and other types are converted, CSR rows with unsorted or repeated columns are
brought into canonical form; both cost one copy.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint32_t
cimport numpy as cnp

import numpy as np
import scipy.sparse as sp
from sklearn.utils import assert_all_finite

from sublinear._core.adjacent cimport add_side_by_side
from sublinear._core.line cimport (
    DENSE_FLOAT32, DENSE_FLOAT64, SPARSE_FLOAT32_INT32, SPARSE_FLOAT32_INT64,
    SPARSE_FLOAT64_INT32, SPARSE_FLOAT64_INT64, CACHED_WEIGHTS, ROWS, Line, Several, add,
    add_constants, add_with_squares, dot, dot_rows, drawn_line, index_t, is_dense, line_at,
    prefetch_ahead, prefetch_lines_ahead, prefetch_weights, set_several, squared_norm, take_several,
    takes_rows,
)
from sublinear._core.row_groups cimport Group, add_group, append_line, set_group
from sublinear._core.sparse_rows cimport check_columns, dot_sparse, longest_row

cnp.import_array()

cdef enum:
    LOOK = 1 << 9             # rows whose columns are checked at a time
    LOOKS_PER_CALL = 1 << 9   # of these between two looks at pending signals
    ENTRIES_PER_CALL = 1 << 22      # between two such looks

COLUMNS_LOOKED_AT = 2**15    # entries, to find the middle of the columns
LEAST_SQUARE = 1e-300        # those below have lost digits, or all of them
VALUE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


def usable(array, dtypes):
    """Return the array itself if compiled code can read it, else a converted copy."""
    array = np.asarray(array)
    if array.dtype not in dtypes:
        native = array.dtype.newbyteorder("=")
        array = array.astype(native if native in dtypes else dtypes[1])
    if not array.flags.aligned:
        array = array.copy()
    return array


cdef int csr_verdict(
    const index_t[::1] offsets, const index_t[::1] indices, Py_ssize_t n_columns, int n_threads
) except -1:
    """0: canonical; 1: unsorted or repeated columns; 2: not a CSR matrix."""
    cdef Py_ssize_t n_rows = offsets.shape[0] - 1, n_blocks = (n_rows + LOOK - 1) // LOOK
    cdef Py_ssize_t first, last, block
    if longest_row(&offsets[0], n_rows) < 0 or offsets[n_rows] > indices.shape[0]:
        return 2
    if offsets[n_rows] == 0:
        return 0
    if offsets[n_rows] < WORTH_THREADS:
        n_threads = 1
    verdicts = np.zeros(n_blocks, dtype=np.intc)
    cdef int[::1] of_block = verdicts
    for first in range(0, n_blocks, LOOKS_PER_CALL):
        last = min(n_blocks, first + LOOKS_PER_CALL)
        for block in prange(first, last, nogil=True, num_threads=n_threads):
            of_block[block] = check_columns(
                &indices[0], &offsets[0], block * LOOK, min(n_rows, (block + 1) * LOOK), n_columns)
        PyErr_CheckSignals()
    return verdicts.max()


def csr_structure(X, int n_threads=1):
    """Return (indices, offsets) of a CSR matrix, of one index type, and whether canonical.

    Raises
    ------
    ValueError
        If there are indices that do not exist, at which scipy does not look.
    """
    indices = np.ascontiguousarray(usable(X.indices, INDEX_TYPES))
    offsets = np.ascontiguousarray(usable(X.indptr, INDEX_TYPES))
    if indices.dtype != offsets.dtype:
        indices, offsets = indices.astype(np.int64), offsets.astype(np.int64)
    if offsets.shape != (X.shape[0] + 1,) or X.data.size < indices.size:
        verdict = 2
    elif indices.dtype == np.int32:
        verdict = csr_verdict[int32_t](offsets, indices, X.shape[1], n_threads)
    else:
        verdict = csr_verdict[int64_t](offsets, indices, X.shape[1], n_threads)
    if verdict == 2:
        raise ValueError(
            "X is not a valid CSR matrix: its row pointers or column indices are out of range; "
            "X.check_format() tells more")
    return (indices, offsets), verdict == 0


def check_before_csr(X):
    """Raise ValueError if scipy would follow indices that do not exist to make X a CSR matrix."""
    if not sp.issparse(X) or X.format == "csr":
        return
    try:
        if X.format == "csc":
            csr_structure(X.T)
        elif X.format == "coo":
            for places, size in zip(X.coords, X.shape):
                if len(places) and not 0 <= places.min() <= places.max() < size:
                    raise ValueError("beyond the shape")
        elif X.format == "bsr":
            X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"X is not a valid {X.format.upper()} matrix: its indices are out of range"
        ) from error


def csr_arrays(X, int n_threads=1):
    """Return (data, indices, offsets) of a CSR matrix, and as `csr_structure` whether canonical."""
    structure, is_canonical = csr_structure(X, n_threads)
    return (np.ascontiguousarray(usable(X.data, VALUE_TYPES)), *structure), is_canonical


def canonical_arrays(X, int n_threads):
    """Return the arrays of `csr_arrays` with sorted columns, each once in a row."""
    arrays, is_canonical = csr_arrays(X, n_threads)
    if is_canonical:
        return arrays
    clean = sp.csr_array(tuple(array.copy() for array in arrays), shape=X.shape)
    clean.sum_duplicates()
    data, indices, offsets = clean.data, clean.indices, clean.indptr
    if indices.dtype != offsets.dtype:
        indices, offsets = indices.astype(np.int64), offsets.astype(np.int64)
    return data, indices, offsets


cdef void half_rows(
    const index_t[::1] indices, const index_t[::1] offsets, Py_ssize_t middle, index_t[::1] starts
) noexcept nogil:
    """starts <- where rows and, between them, their second halves begin."""
    cdef Py_ssize_t n_rows = offsets.shape[0] - 1, i
    cdef index_t low, high, centre
    for i in range(n_rows):
        low, high = offsets[i], offsets[i + 1]
        while low < high:
            centre = low + (high - low) // 2
            if indices[centre] < middle:
                low = centre + 1
            else:
                high = centre
        starts[2 * i], starts[2 * i + 1] = offsets[i], low
    starts[2 * n_rows] = offsets[n_rows]


def middle_column(indices, offsets):
    """Return the column before which about half of the stored entries lie."""
    columns = indices[offsets[0]:offsets[len(offsets) - 1]]
    if columns.size > COLUMNS_LOOKED_AT:
        # spread as multiples of the golden ratio are: rows may be equally long
        spread = np.arange(COLUMNS_LOOKED_AT) * 0.6180339887498949 % 1
        columns = columns[(spread * columns.size).astype(np.intp)]
    half = columns.size // 2
    return int(np.partition(columns, half)[half])


class NotFinite(ValueError):
    """What a solver raises that meets values which are not finite: it has no model."""

    def __init__(
        self,
        message="X holds NaN, infinity or values whose sums leave the range of floating-point "
        "numbers: replace or scale them",
    ):
        super().__init__(message)


class Underflow(NotFinite):
    """The same where the squared norms of all rows are too small to be told from 0."""

    def __init__(self, message="the squared norms of all rows underflow: scale the data up"):
        super().__init__(message)


cdef void dots(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop, const double* w,
    double* products
) noexcept nogil:
    """<line i, w> for i in [start, stop) or, unless it is NULL, of that part of `order`."""
    cdef Several several
    cdef Py_ssize_t k = start
    cdef Line x
    if not is_dense(lines.storage) and lines.length <= CACHED_WEIGHTS:
        dot_pairs(lines, order, start, stop, w, NULL, products, NULL)
        return
    set_several(&several, lines)
    while takes_rows(lines) and k + ROWS <= stop:
        take_several(&several, lines, order, k, stop)
        dot_rows(lines, several.rows, several.near, several.next, ROWS, w, &products[k - start])
        k += ROWS
    while k < stop:
        if order != NULL:
            prefetch_ahead(lines, order, k, stop, w)
        elif lines.length > CACHED_WEIGHTS and k + 1 < stop:
            x = line_at(lines, k + 1)
            prefetch_weights(&x, w)
        x = line_at(lines, k if order == NULL else order[k])
        products[k - start] = dot(&x, w)
        k += 1


cdef void add_lines(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    double* total
) noexcept nogil:
    """total += factors[k] x for the lines x = order[k]."""
    cdef Py_ssize_t k = add_in_fours(lines, order, 0, count, factors, NULL, total)
    cdef Line x
    while k < count:
        prefetch_ahead(lines, order, k, count, total)
        x = line_at(lines, order[k])
        add(&x, factors[k], total)
        k += 1


cdef void add_lines_with_squares(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    const double* weights, double* total, double* squares
) noexcept nogil:
    """As add_lines; squares += weights[k] x^2."""
    cdef Py_ssize_t k = add_moments_in_groups(lines, order, count, factors, weights, total, squares)
    cdef Line x
    while k < count:
        prefetch_ahead(lines, order, k, count, total)
        x = line_at(lines, order[k])
        add_with_squares(&x, factors[k], weights[k], total, squares)
        k += 1


cdef Py_ssize_t add_in_fours(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop,
    const double* factors, const double* v, double* total
) noexcept nogil:
    """total += factors[k] x for x = line order[k], times <x, v> unless v is NULL.

    For k from `start` as long as four dense lines are left before `stop`; returns the next k.
    """
    cdef Py_ssize_t place[ROWS]
    cdef double factor[ROWS]
    cdef Several several
    cdef Py_ssize_t k = start, r
    set_several(&several, lines)
    while takes_rows(lines) and k + ROWS <= stop:
        if v != NULL:
            take_several(&several, lines, order, k, stop)
            dot_rows(lines, several.rows, several.near, several.next, ROWS, v, factor)
        for r in range(ROWS):
            place[r] = order[k + r]
            if v == NULL:
                prefetch_lines_ahead(lines, order, k + r, stop)
                factor[r] = factors[k + r]
            else:
                factor[r] *= factors[k + r]
        add_side_by_side(lines, place, factor, total)
        k += ROWS
    return k


cdef Py_ssize_t add_moments_in_groups(
    const Lines* lines, const uint32_t* order, Py_ssize_t count, const double* factors,
    const double* weights, double* total, double* squares
) noexcept nogil:
    """What add_lines_with_squares does, if lines are dense ones whose entries are together.

    Returns the next k.
    """
    cdef Py_ssize_t k = 0, last
    cdef Group group
    set_group(&group, lines)
    while group.together and k < count:
        last = min(count, k + group.most)
        group.count = 0
        while k < last:
            append_line(&group, order[k], order[min(k + group.most, count - 1)])
            k += 1
        add_group(
            &group, factors + k - group.count, weights + k - group.count, total, squares)
    return k


cdef void dot_pairs(
    const Lines* lines, const uint32_t* order, Py_ssize_t start, Py_ssize_t stop, const double* w,
    const double* v, double* products, double* seconds
) noexcept nogil:
    """What `dots` does for sparse lines; unless v is NULL, <line i, v> in the same reading."""
    dot_sparse(lines, order, start, stop, w, v, products, seconds)
    add_constants(lines, stop - start, w, products)
    if v != NULL:
        add_constants(lines, stop - start, v, seconds)


cdef void squares(
    const Lines* lines, Py_ssize_t start, Py_ssize_t stop, double* norms
) noexcept nogil:
    """|line i|^2 for the lines [start, stop)."""
    cdef Py_ssize_t i
    cdef Line x
    for i in range(start, stop):
        x = line_at(lines, i)
        norms[i - start] = squared_norm(&x)


cdef class Matrix:
    """A matrix whose rows compiled code can walk through.

    Parameters
    ----------
    X : ndarray or CSR matrix or array of shape (n_rows, n_columns)
        Finite numbers, which `check_finite` looks at; at least one row and one column.
    constant : float, default=0.0
        Value of one more column, the same in every row and never stored; 0 for none.
    transposed : Matrix, default=None
        What `transposed()` shall return, if the caller has X in column order already.
    n_threads : int, default=1
        Look at sparse X with so many.

    Attributes
    ----------
    n_stored : int
        Stored entries: n_rows * n_columns if dense.
    dtype : numpy.dtype
        float32 or float64.
    is_computed : bool
        Whether lines must be held before compiled code reads them.
    """
    is_computed = False

    def __init__(self, X, double constant=0.0, Matrix transposed=None, int n_threads=1):
        if sp.issparse(X):
            self._use_csr(X, n_threads)
        else:
            self._use_dense(X)
        self._finish(X.shape, constant, transposed)

    @classmethod
    def of_canonical(
        cls, data, indices, offsets, Py_ssize_t n_columns, double constant=0.0,
        Matrix transposed=None
    ):
        """Return a matrix of CSR arrays that are known to be canonical: they are not looked at.

        Contiguous and of types that compiled code reads, indices and offsets of the same one.
        """
        cdef Matrix matrix = cls.__new__(cls)
        matrix._use_arrays(data, indices, offsets)
        matrix._finish((len(offsets) - 1, n_columns), constant, transposed)
        return matrix

    def with_constant(self, double constant):
        """Return a matrix of the same rows, which lie in memory, with another constant column."""
        cdef Matrix matrix = Matrix.__new__(Matrix)
        matrix.arrays, matrix.dtype, matrix.n_stored = self.arrays, self.dtype, self.n_stored
        matrix.rows = self.rows
        matrix._finish((self.n_rows, self.n_columns), constant, self._transposed)
        return matrix

    def _finish(self, shape, double constant, transposed):
        if 0 in shape:
            raise ValueError(f"X must have rows and columns, got shape {shape}")
        if transposed is not None and (transposed.n_columns, transposed.n_rows) != tuple(shape):
            raise ValueError("transposed has another shape")
        self.n_rows, self.n_columns = shape
        self.rows.count, self.rows.length = shape
        self.constant = self.rows.constant = constant
        self._transposed = transposed

    def _use_dense(self, X):
        X = usable(X, VALUE_TYPES)
        if X.ndim != 2:
            raise ValueError(f"X must be two-dimensional, got {X.ndim} dimensions")
        if any(stride % X.itemsize for stride in X.strides):
            X = np.ascontiguousarray(X)
        self.arrays = (X,)
        self.dtype = X.dtype
        self.n_stored = X.size
        self.rows.storage = DENSE_FLOAT32 if X.dtype == np.float32 else DENSE_FLOAT64
        self.rows.line_stride = X.strides[0] // X.itemsize
        # NumPy leaves the stride of a single column open, as 0
        self.rows.stride = X.strides[1] // X.itemsize if X.shape[1] != 1 else 1
        self.rows.values = <const char*> cnp.PyArray_DATA(X)

    def _use_csr(self, X, n_threads):
        if X.format != "csr":
            raise TypeError(f"sparse X must be CSR, got {X.format}: convert it with X.tocsr()")
        self._use_arrays(*canonical_arrays(X, n_threads))

    def _use_arrays(self, data, indices, offsets):
        self.arrays = (data, indices, offsets)
        self.dtype = data.dtype
        self.n_stored = offsets[len(offsets) - 1]
        cdef bint narrow = indices.dtype == np.int32
        if data.dtype == np.float32:
            self.rows.storage = SPARSE_FLOAT32_INT32 if narrow else SPARSE_FLOAT32_INT64
        else:
            self.rows.storage = SPARSE_FLOAT64_INT32 if narrow else SPARSE_FLOAT64_INT64
        self.rows.values = <const char*> cnp.PyArray_DATA(data)
        self.rows.indices = <const char*> cnp.PyArray_DATA(indices)
        self.rows.offsets = <const char*> cnp.PyArray_DATA(offsets)

    def check_finite(self):
        """Raise ValueError if a stored value is not finite."""
        values = self.arrays[0]
        assert_all_finite(values[:self.n_stored] if self.is_sparse else values, input_name="X")

    cdef Py_ssize_t checked_row(self, Py_ssize_t i) except -1:
        if not 0 <= i < self.n_rows:
            raise IndexError(f"row {i} is out of range for {self.n_rows} rows")
        return i

    @property
    def is_sparse(self):
        """Whether rows are stored sparsely."""
        return len(self.arrays) == 3

    @property
    def longest_row(self):
        """Stored entries of the row that has most."""
        if not self.is_sparse:
            return self.n_columns
        if self.arrays[2].dtype == np.int32:
            return longest_row(<const int32_t*> self.rows.offsets, self.n_rows)
        return longest_row(<const int64_t*> self.rows.offsets, self.n_rows)

    @property
    def n_weights(self):
        """Length of a weight vector: n_columns, one more with a constant column."""
        return self.n_columns + (self.constant != 0)

    def csr(self):
        """Return sparse rows as a CSR array that shares them, without the constant column."""
        return sp.csr_array(self.arrays, shape=(self.n_rows, self.n_columns))

    def transposed(self):
        """Return the matrix whose rows are the columns of this one, without its constant column.

        Dense data is shared. Sparse data is copied in column order, at the first call.
        """
        if self._transposed is None:
            columns = self.csr().tocsc().T if self.is_sparse else self.arrays[0].T
            self._transposed = Matrix(columns)
        return self._transposed

    def halves(self):
        """Return the matrix of the halves of sparse rows: 2 i and 2 i + 1 are those of row i.

        They share the entries. A first half has those before a column that is in the middle of all
        entries, or near it.
        """
        data, indices, offsets = self.arrays
        middle = middle_column(indices, offsets)
        starts = np.empty(2 * self.n_rows + 1, dtype=offsets.dtype)
        if offsets.dtype == np.int32:
            half_rows[int32_t](indices, offsets, middle, starts)
        else:
            half_rows[int64_t](indices, offsets, middle, starts)
        return Matrix.of_canonical(data, indices, starts, self.n_columns, self.constant)

    def _check_order(self, order):
        order = np.asarray(order)
        if order.size and not (0 <= order.min() and order.max() < self.n_rows):
            raise IndexError("order holds a row that the matrix does not have")
        return np.ascontiguousarray(order, dtype=np.uint32)

    def _check_sizes(
        self, Py_ssize_t n_factors, Py_ssize_t n, const double[::1] u, const double[::1] v
    ):
        if n_factors != n or u.shape[0] != self.n_weights or v.shape[0] != self.n_weights:
            raise ValueError("factors must have the length of order, others that of weights")

    def row_dots(self, const double[::1] w, order):
        """Return <row i, w> for every i of order, in that order, lines prefetched (float64).

        Parameters
        ----------
        w : ndarray of shape (n_weights,), float64
        order : array of int
        """
        cdef const uint32_t[::1] sequence = self._check_order(order)
        cdef Py_ssize_t n = sequence.shape[0], step = self.rows_per_call(), first, last
        if w.shape[0] != self.n_weights:
            raise ValueError(f"w must have {self.n_weights} entries, got {w.shape[0]}")
        result = np.empty(n)
        cdef double[::1] products = result
        for first in range(0, n, step):
            last = min(n, first + step)
            with nogil:
                dots(&self.rows, &sequence[0], first, last, &w[0], &products[first])
            PyErr_CheckSignals()
        return result

    def add_rows(self, const double[::1] factors, order, double[::1] w):
        """Add factors[k] * row order[k] to w, in place, for every k; Ctrl-C leaves a part of it.

        Parameters
        ----------
        factors : ndarray of shape (len(order),), float64
        order : array of int
        w : ndarray of shape (n_weights,), float64
        """
        cdef const uint32_t[::1] sequence = self._check_order(order)
        cdef Py_ssize_t n = sequence.shape[0], step = self.rows_per_call(), first
        self._check_sizes(factors.shape[0], n, w, w)
        for first in range(0, n, step):
            with nogil:
                add_lines(
                    &self.rows, &sequence[first], min(step, n - first), &factors[first], &w[0])
            PyErr_CheckSignals()

    def add_gram_product(
        self, const double[::1] v, const double[::1] factors, order, double[::1] total
    ):
        """Add sum_k factors[k] <x, v> x with x = row order[k] to total, in place.

        Every row is read once.

        Parameters
        ----------
        v, total : ndarray of shape (n_weights,), float64
        factors : ndarray of shape (len(order),), float64
        order : array of int
        """
        cdef const uint32_t[::1] sequence = self._check_order(order)
        cdef Py_ssize_t n = sequence.shape[0], step = self.rows_per_call(), first, last, k
        cdef Line x
        self._check_sizes(factors.shape[0], n, v, total)
        for first in range(0, n, step):
            last = min(n, first + step)
            with nogil:
                k = add_in_fours(
                    &self.rows, &sequence[0], first, last, &factors[0], &v[0], &total[0])
                while k < last:
                    x = drawn_line(&self.rows, &sequence[0], k, last, &v[0])
                    add(&x, factors[k] * dot(&x, &v[0]), &total[0])
                    k += 1
            PyErr_CheckSignals()

    def largest_norm(self, bint with_constant=True):
        """Return the largest |x_i|, the constant entry included or not; raises Underflow."""
        square = self.squared_norms(with_constant).max()
        self.check_underflow(square)
        return float(np.sqrt(square))

    def check_underflow(self, double square):
        """Raise Underflow unless the largest |x_i|^2, as computed, tells the largest |x_i|."""
        if square < LEAST_SQUARE and self.largest_entry() > 0:
            raise Underflow

    def largest_entry(self):
        """Return the largest absolute value stored."""
        values = self.arrays[0][:self.n_stored] if self.is_sparse else self.arrays[0]
        return float(max(values.max(), -values.min())) if values.size else 0.0

    def squared_norms(self, bint with_constant=True, Py_ssize_t step=1):
        """Return |row i|^2 of one row in `step`, the constant entry included or not (float64)."""
        result = np.empty((self.n_rows + step - 1) // step)
        cdef double[::1] norms = result
        cdef Py_ssize_t first, k, at_once = self.rows_per_call()
        cdef Lines rows = self.rows
        rows.constant *= with_constant
        for first in range(0, norms.shape[0], at_once):
            with nogil:
                for k in range(first, min(norms.shape[0], first + at_once)):
                    squares(&rows, k * step, k * step + 1, &norms[k])
            PyErr_CheckSignals()
        return result

    cpdef hold(self, lines):
        """Have these rows in place until the next call: here all of them are."""

    cdef Py_ssize_t rows_per_call(self):
        """Rows of a pass between two looks at pending signals: some milliseconds."""
        return max(1, ENTRIES_PER_CALL // max(1, self.n_stored // max(1, self.n_rows)))
