"""Rows of kernel matrices, computed when they are asked for.

KernelRows is what solvers and prediction see of a kernel matrix between rows (examples on the left)
and columns (on the right): blocks of its values, and products with few of its rows. Where the
values come from is the business of its subclasses:

PanelRows        columns dense in panels of 64, rows as lists of their non-zeros: fused loops, for
                 up to some thousands of features
PostingRows      columns as lists of examples by feature, for any number of features
CallableRows     a function of two sets of examples
PrecomputedRows  a matrix
ExactRows        any of these, once float32 is not enough

Values are float32, and so are sums over eight rows; everything beyond is float64. With u = 2^-24
and x of m non-zeros, an inner product is within (m + 4) u <|x|, |z|> of the exact one. The relative
error of an rbf value is thus at most about gamma (2 m + 8) u (|x|^2 + |z|^2) + 8 u, and its typical
size has sqrt(m) for m. What rounding does to the values at hand is measured on a sample of them.
Dense data far from the origin is centred first. That changes no distance, and inner products by
terms of single rows and columns, which products get in float64. Values do not depend on tiles,
threads, or the processor.
"""
from cpython.exc cimport PyErr_CheckSignals
from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport fabs
from libc.string cimport memset

import numpy as np

from sublinear._core.panels cimport PANEL, padded, panels

from sublinear._core.blas import one_blas_thread
from sublinear._core.equal_rows import equal_rows
from sublinear._core.kernels import UNIT
from sublinear._core.matrix import Matrix

FEW_COLUMNS = 16                    # whose products take less than a call of a BLAS
EXACT_UNIT = 2.0**-53               # of rounding to float64, as UNIT to float32
LARGEST = 1e37                      # float32 holds 3.4e38
BLOCK_BYTES = 2**22                 # of values that a product keeps at a time
LEAST_ROWS, MOST_VALUES = 512, 2**26    # of a product whose changes are made at once
OPERATIONS_PER_CALL = 2**27         # multiplications of a thread between two looks at Ctrl-C
ASYMMETRY = 1e-5                    # of the largest value: what rounding to float32 may do
SYMMETRY_TILE = 256                 # rows and columns of a tile and its mirror
TOLD_APART = 64                     # columns in which rows that are not equal mostly differ

cdef enum:
    LINE_VALUES = 8                 # of float64 in a cache line
    COPIED_VALUES = 1 << 16         # of a precomputed matrix at a time


def items_per_call(double operations, int n_threads=1):
    """Return how many items, of so many multiplications, to compute between looks at Ctrl-C."""
    return n_threads * max(1, int(OPERATIONS_PER_CALL // max(operations, 1.0)))


cdef class KernelRows:
    """A kernel matrix of shape (n_rows, n_columns).

    Attributes
    ----------
    diagonal : ndarray of shape (n_rows,), float64, or None where the two sides differ
    centred_diagonal : ndarray of shape (n_rows,), float64, or None
        That of `centred_block`.
    error : float
        Typical error of a value that a product takes, in square roots of `centred_diagonal`.
    deviation : float
        Typical error of a value that a product takes; 0 where the values are given.
    exact_deviation : float
        The same for float64, where that was measured; else 0.
    mean_diagonal : float
        Where `deviation` was measured; else 0.
    rounding : float
        Typical error of values relative to their spread, where it can be large; else 0.
    asymmetry : float
        Typical distance of given values to those of the other side of the diagonal, as `error`.
    groups : ndarray of shape (n_rows,), int64, or None
        Equal numbers for rows that are equal, whose values have the same errors; None: no others.
    unit : float
        Of the rounding of values and changes in products.
    is_exact : bool
        Whether products have values in float64.
    is_there : bool
        Whether no value has to be computed.
    """
    is_exact = is_there = False

    def __cinit__(self, *arguments, **options):
        self.error = self.unit = UNIT

    def set_errors(self, double deviation, double mean_diagonal, double exact_deviation=0):
        """Set these measured ones, and `error`, which follows from them."""
        self.deviation, self.mean_diagonal = deviation, mean_diagonal
        self.exact_deviation = exact_deviation
        self.error = deviation / mean_diagonal if mean_diagonal > 0 else 0.0

    @property
    def centred_diagonal(self):
        """The diagonal of `centred_block`."""
        return self.diagonal

    @property
    def is_centred(self):
        """Whether `centred_block` differs from `block`: the images then sum up to 0."""
        return False

    @property
    def offsets(self):
        """What every row, and column, adds to values of `centred_block`, (n_rows,), float64."""
        return np.zeros(self.n_rows)

    @property
    def most_rank(self):
        """A bound on the rank of `centred_block`."""
        return self.n_rows

    def centred_block(self, rows, int n_threads=1):
        """Return a symmetric block up to terms of single rows and of single columns.

        They have no effect on changes that sum up to 0.
        """
        return self.block(rows, rows, n_threads)

    def block(self, rows, columns=None, int n_threads=1):
        """Return values of the matrix (float32).

        Parameters
        ----------
        rows : ndarray of int64
        columns : ndarray of int64, default=None
            None means all. The array given as rows means a symmetric block.
        n_threads : int, default=1

        Returns
        -------
        values : ndarray of shape (len(rows), size)
            size is the next multiple of 64; what is in the columns beyond len(columns) is finite.
        """
        raise NotImplementedError("a subclass knows how its rows are kept")

    def exact_block(self, rows, columns=None, int n_threads=1):
        """Return values as of `centred_block` (float64), of shape (len(rows), len(columns))."""
        raise NotImplementedError("a subclass knows how its rows are kept")

    def add_offsets(self, values, rows, columns):
        """Turn values of `exact_block` into those of the matrix, in place."""

    def add_offset_products(self, rows, changes, margins):
        """Add to margins what products with values of `exact_block` lack, in place."""

    def add_product(self, rows, changes, double[:, ::1] margins, int n_threads=1):
        """Add changes @ matrix[rows] to margins, in place; after Ctrl-C they are as they were.

        Parameters
        ----------
        rows : ndarray of int64
        changes : ndarray of shape (n_outputs, len(rows))
            Rounded to float32.
        margins : ndarray of shape (n_outputs, n_columns), float64
        n_threads : int, default=1
        """
        change, total = self._checked_changes(rows, changes, margins), np.array(margins)
        self._add_blocks(rows, change, total, n_threads)
        self.add_offset_products(rows, changes, total)
        np.asarray(margins)[...] = total

    def _add_blocks(self, rows, float[:, ::1] change, double[:, ::1] margins, int n_threads):
        """Add change @ matrix[rows], without offsets, to margins; Ctrl-C leaves a part of it."""
        cdef Py_ssize_t size = max(  # with a copy in float64 where functions or matrices give them
            1, BLOCK_BYTES // (12 * padded(self.n_columns) * TILE)) * TILE
        cdef Py_ssize_t start
        for start in range(0, len(rows), size):
            values = self.block(rows[start:start + size], None, n_threads)
            add_panels(values, len(values), change, start, margins, n_threads)
            PyErr_CheckSignals()

    def add_product_of(self, values, changes, double[:, ::1] margins, int n_threads=1):
        """Do as `add_product` with all rows, whose values are there, as of `centred_block`."""
        order = np.arange(self.n_rows)
        change = self._checked_changes(order, changes, margins)
        add_panels(values, self.n_rows, change, 0, margins, n_threads)
        self.add_offset_products(order, changes, np.asarray(margins))

    @property
    def rows_per_call(self):
        """Rows of a product whose changes are made at once: they share the panels read."""
        return max(LEAST_ROWS, MOST_VALUES // self.n_columns)

    def add_long_product(self, rows, changes, margins, int n_threads=1):
        """Do as `add_product`, of any number of rows; Ctrl-C leaves a part of it in the margins."""
        cdef Py_ssize_t start, step = self.rows_per_call
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            self.add_product(rows[part], changes[:, part], margins, n_threads)

    def add_products(self, rows, changes, margins, ends, outputs, int n_threads=1):
        """Add the products with groups of rows to margins of their own, in place.

        Parameters
        ----------
        rows : ndarray of int64
        changes : ndarray of shape (n_changes, len(rows))
        margins : ndarray of shape (n_outputs, n_columns), float64
        ends : ndarray of shape (n_groups,), int64
            Where each group of rows ends.
        outputs : ndarray of shape (n_groups, n_changes), int64
            The margins to which the changes of a group belong, no two to the same.
        n_threads : int, default=1
        """
        for start, end, places in zip([0, *ends], ends, outputs):
            part = np.zeros((len(places), self.n_columns))
            self.add_product(rows[start:end], changes[:, start:end], part, n_threads)
            margins[places] += part

    def add_column_products(self, changes, margins, ends, outputs, int n_threads=1):
        """Do what `add_products` of the transpose with all of its rows does, to the bit.

        Parameters
        ----------
        changes : ndarray of shape (n_changes, n_columns)
        margins : ndarray of shape (n_outputs, n_rows), float64
        ends, outputs : ndarray
            Of groups of columns.
        n_threads : int, default=1
        """
        check_groups(ends, outputs, self.n_columns, len(margins))
        change = np.ascontiguousarray(changes, dtype=np.float32)
        wanted = (outputs.shape[1], self.n_columns), self.n_rows
        if (change.shape, margins.shape[1]) != wanted:
            raise ValueError(
                f"changes of shape {change.shape} and margins of shape {margins.shape} for "
                f"{self.n_columns} columns and {self.n_rows} rows")
        values = self.block(np.arange(self.n_rows), None, n_threads)
        add_column_groups(values, change, margins, ends, outputs)

    def _checked_changes(self, rows, changes, margins, dtype=np.float32):
        """Return changes in their type; loops over them and the margins look at no bounds."""
        change = np.ascontiguousarray(changes, dtype=dtype)
        wanted = (margins.shape[0], len(rows)), self.n_columns
        if (change.shape, margins.shape[1]) != wanted:
            raise ValueError(
                f"changes of shape {change.shape} for {len(rows)} rows and margins of shape "
                f"{(margins.shape[0], margins.shape[1])} for {self.n_columns} columns")
        return change


def check_groups(ends, outputs, n_rows, n_outputs):
    """Raise ValueError unless groups are as `add_products` takes them: it looks at no bounds."""
    in_order = (np.diff(ends, prepend=0) >= 0).all() and ends[-1] == n_rows
    if not in_order or len(outputs) != len(ends):
        raise ValueError(f"groups that end at {ends} for {n_rows} rows, margins for {len(outputs)}")
    if outputs.size and not 0 <= outputs.min() <= outputs.max() < n_outputs:
        raise ValueError(f"groups lead to margins beyond the {n_outputs} there are")


cdef check_numbers(const int64_t[::1] numbers, Py_ssize_t count):
    """Raise IndexError unless there are examples of these numbers: loops look at no bounds."""
    cdef Py_ssize_t k
    for k in range(numbers.shape[0]):
        if not 0 <= numbers[k] < count:
            raise IndexError(f"there is no example {numbers[k]} among the {count} of a kernel")


def add_panels(
    const float[:, ::1] values, Py_ssize_t n_rows, const float[:, ::1] change, Py_ssize_t start,
    double[:, ::1] margins, int n_threads
):
    """Add the product of the changes from `start` on with so many rows of values."""
    cdef Py_ssize_t p
    for p in prange(
        padded(margins.shape[1]) // PANEL, nogil=True, schedule="static", num_threads=n_threads
    ):
        add_panel(&values[0, 0], n_rows, values.shape[1], p, change, start, margins)


cdef void add_panel(
    const float* values, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t p,
    const float[:, ::1] change, Py_ssize_t start, double[:, ::1] margins
) noexcept nogil:
    """Add the product with the 64 columns of a panel."""
    cdef double sums[PANEL]
    cdef Py_ssize_t tile, first, output
    for output in range(margins.shape[0]):
        memset(sums, 0, sizeof(sums))
        for tile in range((n_rows + TILE - 1) // TILE):
            first = tile * TILE
            panels().product(
                values + first * stride + p * PANEL, stride, &change[output, start + first],
                min(TILE, n_rows - first), sums)
        add_sums(sums, &margins[output, 0], p, margins.shape[1])


cdef class GivenRows(KernelRows):
    """A kernel matrix whose values are those of `_values(rows, columns)`, in any type."""

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        return widened(self._values(rows, columns))

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return self._values(rows, columns).astype(np.float64, copy=False)


cdef class CallableRows(GivenRows):
    """A kernel matrix from a function of two sets of examples, called for blocks of rows.

    Parameters
    ----------
    function : callable
        function(X, Y) -> array of shape (len(X), len(Y)).
    X : ndarray or CSR matrix
    Y : like X, default=None
        None means X.
    """

    def __init__(self, function, X, Y=None):
        self.function, self.X, self.Y = function, X, X if Y is None else Y
        self.n_rows, self.n_columns = X.shape[0], self.Y.shape[0]
        if Y is None:
            self.groups = equal_rows(Matrix(X))    # which looks at X before SciPy takes parts of it
            self.diagonal = np.concatenate([
                self._own_block(start).diagonal() for start in range(0, self.n_rows, PANEL)
            ]).astype(np.float64)

    @property
    def name(self):
        """How messages call the function."""
        return f"the kernel function {getattr(self.function, '__name__', self.function)}"

    def _call(self, X, Y):
        returned, shape = self.function(X, Y), (X.shape[0], Y.shape[0])
        values = np.asarray(returned)
        if values.shape != shape:
            what = f"shape {values.shape}" if values.ndim else f"a {type(returned).__name__}"
            raise ValueError(
                f"{self.name} returned {what} for sets of {shape[0]} and {shape[1]} examples; "
                f"it must return an array of shape {shape}")
        return checked_values(values, self.name)

    def _own_block(self, Py_ssize_t start):
        part = self.X[start:start + PANEL]
        values = self._call(part, part)
        check_symmetric(values, self.name)
        return values

    def _values(self, rows, columns):
        return self._call(self.X[rows], self.Y if columns is None else self.Y[columns])


cdef class PrecomputedRows(GivenRows):
    """A kernel matrix that is there.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_columns)
    has_diagonal : bool, default=True
        The two sides are the same examples: the matrix must be square and symmetric.
    """
    is_there = True

    def __init__(self, matrix, bint has_diagonal=True):
        self.matrix = matrix
        self.n_rows, self.n_columns = matrix.shape
        if has_diagonal:
            check_square(matrix)
            name = "the precomputed matrix"
            off = check_symmetric(real_values(matrix, name), name)
            self.diagonal = matrix.diagonal().astype(np.float64)
            # predictions have the other side of the diagonal
            self.asymmetry = off / mean if (mean := self.diagonal.mean()) > 0 else 0.0
            self.error = max(self.error, self.asymmetry)
            if equal_rows(Matrix(matrix[:, :TOLD_APART])) is not None:
                self.groups = equal_rows(Matrix(matrix))

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block; a few rows at a time, so that copies in float64 stay small."""
        cdef Py_ssize_t n_columns = self.n_columns if columns is None else len(columns), start
        cdef Py_ssize_t step = max(1, COPIED_VALUES // max(1, n_columns))
        result = np.zeros((len(rows), padded(n_columns)), dtype=np.float32)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            result[part, :n_columns] = self._values(rows[part], columns)
        return result

    def _values(self, rows, columns):
        return self.matrix[rows if columns is None else np.ix_(rows, columns)]


cdef class ExactRows(KernelRows):
    """A kernel matrix in float64, which is slower than that of other KernelRows.

    Blocks are float32 all the same: what the ascent makes of them is found in the next round, from
    margins that are exact.

    Parameters
    ----------
    source : KernelRows
        Where values come from.
    keeps_values : bool, default=False
        Compute all of them once, where they are not there anyway; else when they are needed.
    """
    is_exact = True

    def __init__(self, KernelRows source, bint keeps_values=False):
        cdef double finer = EXACT_UNIT / UNIT
        self.source, self.n_rows, self.n_columns = source, source.n_rows, source.n_columns
        self.groups = source.groups
        if source.mean_diagonal != 0:
            deviation = max(finer * source.deviation, source.exact_deviation)
            self.set_errors(deviation, source.mean_diagonal)
        else:
            self.error = finer * source.error
        self.error = max(self.error, source.asymmetry)
        self.rounding, self.unit = finer * source.rounding, EXACT_UNIT
        self.keeps = keeps_values and not source.is_there

    @property
    def diagonal(self):
        """As KernelRows.diagonal."""
        return self.source.diagonal

    @property
    def centred_diagonal(self):
        """As KernelRows.centred_diagonal."""
        return self.source.centred_diagonal

    @property
    def is_centred(self):
        """As KernelRows.is_centred."""
        return self.source.is_centred

    @property
    def offsets(self):
        """As KernelRows.offsets."""
        return self.source.offsets

    @property
    def most_rank(self):
        """As KernelRows.most_rank."""
        return self.source.most_rank

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        if not self.keeps:
            return self.source.exact_block(rows, columns, n_threads)
        if self.kept is None:
            order = np.arange(self.n_rows)
            others = order if self.diagonal is not None else None
            self.kept = self.source.exact_block(order, others, n_threads)
        return self.kept[rows if columns is None else np.ix_(rows, columns)]

    def centred_block(self, rows, int n_threads=1):
        """As KernelRows.centred_block."""
        return widened(self.exact_block(rows, rows, n_threads))

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        values = self.exact_block(rows, columns, n_threads)
        self.add_offsets(values, rows, columns)
        return widened(values)

    def add_offsets(self, values, rows, columns):
        """As KernelRows.add_offsets."""
        self.source.add_offsets(values, rows, columns)

    def add_offset_products(self, rows, changes, margins):
        """As KernelRows.add_offset_products."""
        self.source.add_offset_products(rows, changes, margins)

    def add_product(self, rows, changes, double[:, ::1] margins, int n_threads=1):
        """As KernelRows.add_product, but changes are not rounded."""
        changes = np.ascontiguousarray(changes, dtype=np.float64)
        total = np.zeros_like(margins)    # of which an interrupt leaves nothing
        for start in range(0, self.n_columns, EXACT_TILE):
            columns = np.arange(start, min(self.n_columns, start + EXACT_TILE))
            for first in range(0, len(rows), EXACT_TILE):
                part = slice(first, first + EXACT_TILE)
                values = self.exact_block(rows[part], columns, n_threads)
                with one_blas_thread():
                    total[:, columns] += changes[:, part] @ values
        self.add_offset_products(rows, changes, total)
        np.asarray(margins)[...] += total

    def add_products(self, rows, changes, margins, ends, outputs, int n_threads=1):
        """As KernelRows.add_products; of few columns without a call for every group."""
        if self.n_columns > FEW_COLUMNS or not self.source.is_there:
            super().add_products(rows, changes, margins, ends, outputs, n_threads)
            return
        check_groups(ends, outputs, len(rows), len(margins))
        changes = self._checked_changes(rows, changes, margins[:outputs.shape[1]], np.float64)
        add_groups(self.exact_block(rows, None, n_threads), changes, margins, ends, outputs)


cdef add_groups(
    const double[:, :] values, const double[:, ::1] changes, double[:, :] margins,
    const int64_t[::1] ends, const int64_t[:, ::1] outputs
):
    """Add the products of groups of rows of values with changes to the margins of each."""
    cdef Py_ssize_t group, start = 0, row, change, output, column
    for group in range(ends.shape[0]):
        for change in range(changes.shape[0]):
            output = outputs[group, change]
            for row in range(start, ends[group]):
                for column in range(values.shape[1]):
                    margins[output, column] += changes[change, row] * values[row, column]
        start = ends[group]


cdef add_column_groups(
    const float[:, ::1] values, const float[:, ::1] changes, double[:, :] margins,
    const int64_t[::1] ends, const int64_t[:, ::1] outputs
):
    """Add the products of groups of columns of values: eight in float32 at a time, as in panels."""
    cdef Py_ssize_t row, group, change, start, first, column
    cdef double total
    cdef float eight
    with nogil:
        for row in range(values.shape[0]):
            start = 0
            for group in range(ends.shape[0]):
                for change in range(changes.shape[0]):
                    total, first = 0, start
                    while first < ends[group]:
                        eight = 0
                        for column in range(first, min(first + 8, ends[group])):
                            eight += changes[change, column] * values[row, column]
                        total += eight
                        first += 8
                    margins[outputs[group, change], row] += total
                start = ends[group]


def checked_values(values, source):
    """Return kernel values; ValueError if one is none that float32 can hold."""
    values = real_values(values, source)
    if not np.maximum(values.max(initial=0), -float(values.min(initial=0))) < LARGEST:
        first = np.argmin(np.abs(values) < LARGEST)
        raise ValueError(f"{source} holds {values.flat[first]}, which is not finite in float32")
    return values


def real_values(values, source):
    """Return kernel values as numbers; ValueError if they are not real."""
    if values.dtype.kind == "b":
        values = values.astype(np.float32)
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{source} holds {values.dtype} values, not real numbers")
    return values


def check_square(matrix):
    """Raise ValueError unless a precomputed matrix has as many rows as columns."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            'kernel="precomputed" needs the square matrix of the kernel between all training '
            f"examples, got shape {matrix.shape}")


def check_symmetric(values, source):
    """Raise ValueError unless a square matrix is finite and, but for rounding, symmetric.

    That is rounding of its largest value. Returns how far values are from those of the other side
    of the diagonal (root mean square).
    """
    cdef Py_ssize_t n_rows = values.shape[0], first, other
    cdef Mirrored found = Mirrored(0, 0, 0)
    kind = np.float32 if values.dtype == np.float32 else np.float64
    for first in range(0, n_rows, SYMMETRY_TILE):
        rows = slice(first, first + SYMMETRY_TILE)
        for other in range(first, n_rows, SYMMETRY_TILE):
            columns = slice(other, other + SYMMETRY_TILE)
            tile = values[rows, columns].astype(kind, copy=False)
            mirror = values[columns, rows].astype(kind, copy=False)
            if kind == np.float32:
                compare[float](tile, mirror, 2 - (other == first), &found)
            else:
                compare[double](tile, mirror, 2 - (other == first), &found)
        PyErr_CheckSignals()
    if not (found.largest < LARGEST and found.squares < np.inf):
        checked_values(values, source)    # says which value it is
    if found.farthest > ASYMMETRY * found.largest:
        raise ValueError(f"{source} is not symmetric")
    return np.sqrt(found.squares / values.size)


cdef struct Mirrored:
    double largest, farthest, squares    # of values; of how far they are from their mirror images


cdef void compare(
    const floating[:, :] tile, const floating[:, :] mirror, double weight, Mirrored* found
) noexcept:
    """Note the values of two tiles, in squares that lie in few cache lines of either."""
    cdef Py_ssize_t n_rows = tile.shape[0], n_columns = tile.shape[1], row, column, i, j
    cdef double value, image, off
    for row in range(0, n_rows, LINE_VALUES):
        for column in range(0, n_columns, LINE_VALUES):
            for i in range(row, min(n_rows, row + LINE_VALUES)):
                for j in range(column, min(n_columns, column + LINE_VALUES)):
                    value, image = tile[i, j], mirror[j, i]
                    off = fabs(value - image)
                    found.largest = max(found.largest, max(fabs(value), fabs(image)))
                    found.farthest = max(found.farthest, off)
                    found.squares += weight * off * off


def widened(values):
    """Return values in float32, with columns of zeros up to a multiple of 64."""
    result = np.zeros((values.shape[0], padded(values.shape[1])), dtype=np.float32)
    result[:, :values.shape[1]] = values
    return result
