"""Kernels, and rows of kernel matrices, computed when they are asked for.

    linear   <x, z>                        poly     (gamma <x, z> + coef0)^degree
    rbf      exp(-gamma |x - z|^2)         sigmoid  tanh(gamma <x, z> + coef0)

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
from cython.parallel cimport prange, threadid
from libc.math cimport exp, fabs, pow, sqrt, tanh
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

import numpy as np
import scipy.sparse as sp

from sublinear._core.line cimport Line, line_at, line_size, nonzeros, scatter

from sublinear._core.aligned import aligned
from sublinear._core.blas import one_blas_thread

cdef enum:
    CHUNK = 128             # features: their part of a panel, 32 KB, stays in the first cache
    TILE = PANEL            # rows: their values for a panel, 16 KB, stay there too,
    SHORT_TILE = 16         # or 4 KB where the panel is read once only
    UNROLLED = 4            # entries; lists are padded to a multiple

cdef double LOG2_E = 1.4426950408889634
cdef double LARGEST = 1e37          # float32 holds 3.4e38
cdef double UNIT = 2.0**-24         # of rounding to float32
cdef double EXACT_UNIT = 2.0**-53   # to float64

FAR_OUT = 64                        # mean gamma |x|^2 from which on dense data is centred
FAR_OFF = 4                         # mean |x|^2 in variances of x, for the linear kernel
SAMPLE = 32                         # examples whose kernel values are compared with exact ones
LEAST_SPREAD = 1e-14                # of the mean square of images: none that float64 can tell
MOST_PANEL_BYTES = 2**22            # of one panel of sparse data
POSTING_COST = 40                   # of a matching pair, in stored entries of a row in panels
BLOCK_BYTES = 2**22                 # of values that a product keeps at a time
EXACT_TILE = 512                    # rows and columns of them, in float64
ASYMMETRY = 1e-5                    # of the largest value: what rounding to float32 may do

cdef const panel_functions* _chosen = NULL


def use_lanes(int lanes):
    """Use loops of 16, 8 or 4 float32 lanes; returns whether this processor can. For tests."""
    global _chosen
    cdef const panel_functions* functions = panel_choose(lanes)
    if functions == NULL:
        return False
    _chosen = functions
    return True


cdef const panel_functions* panels() noexcept nogil:
    return _chosen


if not use_lanes(16) and not use_lanes(8):
    use_lanes(4)


cdef class Kernel:
    """A function of <x, z>, |x|^2 and |z|^2.

    Parameters
    ----------
    gamma : float, default=1.0
        Positive.
    degree : int, default=3
        Not negative.
    coef0 : float, default=0.0
    """

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.form.shift, self.form.degree, self.scale = coef0, degree, sqrt(gamma)

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return dot

    def largest(self, double square):
        """Return a bound on |k(x, z)|, or on what float32 must hold on the way, by |x|^2."""
        return square

    def rounding(self, double n_values, double square):
        """Return a typical relative error of values for rows of so many values, by |x|^2."""
        return 0.0

    def shifts(self, squares):
        """Return what every example adds to the inner products of scaled examples (float32)."""
        return np.zeros(squares.shape[0], dtype=np.float32)

    def is_far(self, squares, mean_of):
        """Tell by |x|^2 whether dense data is to be centred; mean_of() is the mean of the rows."""
        return False

    def exact(self, X, Y, dots, int n_threads=1):
        """Return the values between the rows of two Matrix objects, by their products (float64)."""
        cdef double[:, ::1] values = dots
        cdef const double[::1] squares = X.squared_norms(), others = Y.squared_norms()
        cdef Py_ssize_t i, k
        for i in prange(values.shape[0], nogil=True, schedule="static", num_threads=n_threads):
            for k in range(values.shape[1]):
                values[i, k] = self.of_dot(values[i, k], squares[i], others[k])
        return dots


cdef class Linear(Kernel):
    """<x, z>"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind, self.scale = PANEL_LINEAR, 1

    def is_far(self, squares, mean_of):
        """As Kernel.is_far."""
        mean, square = mean_of(), squares.mean()
        return square > FAR_OFF * (square - np.sum(mean * mean))


cdef class RBF(Kernel):
    """exp(-gamma |x - z|^2)"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind, self.scale = PANEL_RBF, sqrt(2 * LOG2_E * gamma)

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return exp(-self.gamma * max(0.0, square + other - 2 * dot))

    def largest(self, double square):
        """Return the largest exponent."""
        return max(square, 4 * LOG2_E * self.gamma * square)

    def rounding(self, double n_values, double square):
        """Return that of the exponent."""
        return self.gamma * (2 * sqrt(n_values) + 8) * UNIT * 2 * square

    def shifts(self, squares):
        """Return -gamma log2(e) |x|^2."""
        return (-self.gamma * LOG2_E * squares).astype(np.float32)

    def is_far(self, squares, mean_of):
        """As Kernel.is_far."""
        return self.gamma * squares.mean() > FAR_OUT


cdef class Poly(Kernel):
    """(gamma <x, z> + coef0)^degree"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind = PANEL_POLY

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return pow(self.gamma * dot + self.coef0, self.degree)

    def largest(self, double square):
        """Return (gamma |x|^2 + |coef0|)^degree, or the inner product."""
        with np.errstate(over="ignore"):
            power = np.float64(self.gamma * square + fabs(self.coef0)) ** max(1, self.degree)
        return max(square, power)


cdef class Sigmoid(Kernel):
    """tanh(gamma <x, z> + coef0), which is not positive definite"""

    def __init__(self, double gamma=1.0, int degree=3, double coef0=0.0):
        super().__init__(gamma, degree, coef0)
        self.form.kind = PANEL_SIGMOID

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil:
        return tanh(self.gamma * dot + self.coef0)

    def largest(self, double square):
        """Return the largest argument."""
        return max(square, 4 * (self.gamma * square + fabs(self.coef0)))


KERNELS = {"linear": Linear, "poly": Poly, "rbf": RBF, "sigmoid": Sigmoid}


cdef Py_ssize_t padded(Py_ssize_t count) noexcept nogil:
    """The next multiple of a panel's examples."""
    return (count + PANEL - 1) // PANEL * PANEL


def kernel_rows(kernel, X, Y=None, double memory=float("inf"), int n_threads=1):
    """Return the KernelRows of a Kernel between the rows of X and those of Y.

    Parameters
    ----------
    kernel : Kernel
    X, Y : ndarray or CSR matrix
        As Matrix takes them; Y None means X.
    memory : float, default=inf
        Bytes that panels of Y may take; without them panels are built when they are needed.
    n_threads : int, default=1
        That build panels.
    """
    left = Matrix(X)
    right = left if Y is None else Matrix(Y)
    squares = left.squared_norms()
    largest = max(float(side.max()) for side in (squares, right.squared_norms()))
    if not kernel.largest(largest) < LARGEST:
        raise ValueError(
            "the kernel's values, or inner products they are made of, leave the range of float32: "
            "scale X down or choose a smaller gamma")
    stored = left.n_stored / <double> left.n_rows
    mean = None
    if left.is_sparse:
        if right.n_columns * PANEL * 4 > MOST_PANEL_BYTES \
                or matching_pairs(left, right) * POSTING_COST < stored:
            return measured(PostingRows(kernel, left, right), left, right, stored, largest)
    elif kernel.is_far(squares, lambda: column_means(left)):
        mean = column_means(left)
        left, right = centred(left, right, mean)
        largest = max(float(side.squared_norms().max()) for side in (left, right))
    bytes_needed = padded(right.n_rows) * right.n_columns * 4.0
    rows = PanelRows(kernel, left, right, bytes_needed <= memory, n_threads)
    measured(rows, left, right, stored, largest)
    if mean is not None and isinstance(kernel, Linear):
        rows.set_offsets(mean)
    return rows


def column_means(Matrix matrix):
    """Return the mean of the rows of a dense matrix (float64)."""
    return matrix.arrays[0].mean(axis=0, dtype=np.float64)


def centred(Matrix left, Matrix right, mean):
    """Return dense matrices with `mean` taken off their rows, one object if they are one."""
    moved = Matrix(left.arrays[0] - mean)
    return moved, moved if right is left else Matrix(right.arrays[0] - mean)


def spread_out(Matrix matrix, Py_ssize_t count):
    """Return up to so many row numbers at equal distances (int64)."""
    count = min(count, matrix.n_rows)
    return np.linspace(0, matrix.n_rows - 1, count).astype(np.int64)


def rows_of(Matrix matrix, numbers):
    """Return some rows of a matrix, numbers or a slice, as a Matrix of float64."""
    if matrix.is_sparse:
        return Matrix(matrix.csr()[numbers].astype(np.float64))
    return Matrix(np.ascontiguousarray(matrix.arrays[0][numbers], dtype=np.float64))


def exact_dots(Matrix X, Matrix Y, dense_dots):
    """Return the inner products between the rows of two matrices of one storage (float64)."""
    if X.is_sparse:
        return np.ascontiguousarray((X.csr() @ Y.csr().T).toarray())
    return dense_dots(X.arrays[0], Y.arrays[0])


def few_dots(X, Y):
    """Return the inner products between few rows."""
    return np.einsum("ik,jk->ij", X, Y)  # bits of BLAS depend on threads


def many_dots(X, Y):
    """Return the inner products between rows, by a BLAS."""
    with one_blas_thread():
        return X @ Y.T


def exact_values(Kernel kernel, X, Y, dense_dots=few_dots, int n_threads=1):
    """Return the kernel's values between the rows of two Matrix objects of float64."""
    return kernel.exact(X, Y, exact_dots(X, Y, dense_dots), n_threads)


def measured(rows, Matrix left, Matrix right, double stored, double largest):
    """Return KernelRows with their errors set, from a sample compared with float64."""
    kernel, same = rows.kernel, right is left
    numbers = spread_out(left, SAMPLE if same else SAMPLE // 2)
    others = numbers if same else spread_out(right, SAMPLE // 2)
    sides = rows_of(left, numbers), rows_of(right, others)
    between = exact_values(kernel, *sides)
    within = [between] * 2 if same else [exact_values(kernel, side, side) for side in sides]
    off = rows.block(numbers, others)[:, :len(others)] - between
    diagonal = float(np.mean([values.diagonal().mean() for values in within]))
    spread = spread_of(between, within, diagonal)
    rows.deviation = float(np.sqrt(np.mean(off**2)))
    rows.error = rows.deviation / diagonal if diagonal > 0 else 0.0
    rows.rounding = kernel.rounding(stored, largest)
    if spread > LEAST_SPREAD * diagonal:
        rows.rounding = max(rows.rounding, rows.deviation / spread)
    return rows


def spread_of(between, within, double diagonal):
    """Return how far images lie from their mean, squared, by values between and within two sides.

    Where the kernel has no images, that may be 0: the centred values are then looked at.
    """
    overall = (within[0].mean() + within[1].mean() + 2 * between.mean()) / 4
    centred_values = (
        between - between.mean(axis=0) - between.mean(axis=1, keepdims=True) + between.mean())
    return max(diagonal - overall, np.sqrt(np.mean(centred_values**2)))


def matching_pairs(Matrix left, Matrix right):
    """Return how many features a row of each have in common on average; sparse matrices."""
    counts, others = (feature_counts(side) for side in (left, right))
    return counts @ others / left.n_rows / right.n_rows


def feature_counts(Matrix side):
    """Return how many rows of a sparse matrix have each feature."""
    counts, step = np.zeros(side.n_columns), max(2**16, side.n_columns)
    for start in range(0, side.n_stored, step):  # bincount copies indices
        part = side.arrays[1][start:min(start + step, side.n_stored)]
        counts += np.bincount(part, minlength=side.n_columns)
    return counts


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
    rounding : float
        Typical error of values relative to their spread, where it can be large; else 0.
    unit : float
        Of the rounding of values and changes in products.
    """

    def __cinit__(self, *arguments, **options):
        self.error = self.unit = UNIT

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
        """Add changes @ matrix[rows] to margins, in place.

        Parameters
        ----------
        rows : ndarray of int64
        changes : ndarray of shape (n_outputs, len(rows))
            Rounded to float32.
        margins : ndarray of shape (n_outputs, n_columns), float64
        n_threads : int, default=1
        """
        cdef float[:, ::1] change = self._checked_changes(rows, changes, margins)
        cdef Py_ssize_t size = max(  # with a copy in float64 where functions or matrices give them
            1, BLOCK_BYTES // (12 * padded(self.n_columns) * TILE)) * TILE
        cdef float[:, ::1] values
        cdef Py_ssize_t start, p, n_rows
        for start in range(0, len(rows), size):
            values = self.block(rows[start:start + size], None, n_threads)
            n_rows = values.shape[0]
            for p in prange(
                values.shape[1] // PANEL, nogil=True, schedule="static", num_threads=n_threads
            ):
                add_panel(&values[0, 0], n_rows, values.shape[1], p, change, start, margins)

    def _checked_changes(self, rows, changes, margins):
        """Return changes in float32; loops over them and the margins look at no bounds."""
        change = np.ascontiguousarray(changes, dtype=np.float32)
        wanted = (margins.shape[0], len(rows)), self.n_columns
        if (change.shape, margins.shape[1]) != wanted:
            raise ValueError(
                f"changes of shape {change.shape} for {len(rows)} rows and margins of shape "
                f"{(margins.shape[0], margins.shape[1])} for {self.n_columns} columns")
        return change


cdef void add_panel(
    const float* values, Py_ssize_t n_rows, Py_ssize_t stride, Py_ssize_t p, float[:, ::1] change,
    Py_ssize_t start, double[:, ::1] margins
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


cdef inline void add_sums(
    const double* sums, double* margins, Py_ssize_t p, Py_ssize_t n_columns
) noexcept nogil:
    cdef Py_ssize_t lane
    for lane in range(min(PANEL, n_columns - p * PANEL)):
        margins[p * PANEL + lane] += sums[lane]


cdef class _Packed:
    """Some rows of a matrix as lists of their non-zeros, feature chunk by feature chunk."""
    cdef object arrays
    cdef Part part

    def __init__(
        self, PanelRows source, const int64_t[::1] rows, const float[::1] shifts, columns
    ):
        cdef Matrix matrix = source.left
        cdef Py_ssize_t n_rows = rows.shape[0], n_chunks = source.n_chunks, room = 0, r, k, used = 0
        cdef Py_ssize_t chunk, count
        cdef Line x
        for r in range(n_rows):
            x = line_at(&matrix.rows, rows[r])
            room += x.size + n_chunks * (UNROLLED - 1)
        entries = np.empty((room, 2), dtype=np.int32)
        cdef int32_t[:, ::1] storage = entries
        cdef panel_entry* entry = <panel_entry*> &storage[0, 0] if room else NULL
        cdef int64_t[::1] starts = np.empty(n_rows * n_chunks + 1, dtype=np.int64)
        cdef float[::1] values = np.empty(matrix.n_columns + 1, dtype=np.float32)
        cdef int32_t[::1] features = np.empty(matrix.n_columns + 1, dtype=np.int32)
        cdef float[::1] row_shifts = np.empty(max(n_rows, 1), dtype=np.float32)
        cdef const int64_t[::1] chosen
        with nogil:
            for r in range(n_rows):
                x = line_at(&matrix.rows, rows[r])
                row_shifts[r] = shifts[rows[r]]
                count = nonzeros(&x, &values[0], &features[0])
                k = 0
                for chunk in range(n_chunks):
                    starts[r * n_chunks + chunk] = used
                    while k < count and features[k] < (chunk + 1) * source.chunk:
                        entry[used].offset = features[k] * PANEL
                        entry[used].value = <float> (source.kernel.scale * values[k])
                        used += 1
                        k += 1
                    while (used - starts[r * n_chunks + chunk]) % UNROLLED:
                        entry[used].offset = chunk * <int32_t> source.chunk * PANEL
                        entry[used].value = 0
                        used += 1
            starts[n_rows * n_chunks] = used
        self.part.entries = entry
        self.part.starts = &starts[0]
        self.part.n_rows = n_rows
        self.part.n_chunks = n_chunks
        self.part.row_shifts = &row_shifts[0]
        self.part.columns = NULL
        self.part.n_columns = source.n_columns
        if columns is not None:
            chosen = columns
            self.part.columns = &chosen[0]
            self.part.n_columns = chosen.shape[0]
        self.arrays = (entries, starts, row_shifts, columns)


cdef class PanelRows(KernelRows):
    """A kernel matrix whose columns are panels of 64 examples, for few features.

    Parameters
    ----------
    kernel : Kernel
    left, right : Matrix
    keeps_panels : bool
        Build them once, 4 bytes for every value of `right`, zeros included; else anew for every
        product.
    n_threads : int, default=1
        That build them.
    """

    def __init__(
        self, Kernel kernel, Matrix left, Matrix right, bint keeps_panels=True, int n_threads=1
    ):
        cdef float[::1] view
        cdef const float[::1] shifts
        cdef Py_ssize_t p, n_panels, panel_size = right.n_columns * PANEL
        cdef Part part
        self.kernel, self.left, self.right = kernel, left, right
        self.n_rows, self.n_columns = left.n_rows, right.n_rows
        self.chunk = CHUNK
        self.n_chunks = (right.n_columns + CHUNK - 1) // CHUNK
        squares = left.squared_norms()
        self.left_shifts = kernel.shifts(squares)
        self.right_shifts = self.left_shifts
        if right is left:
            self.squares = np.array([kernel.of_dot(s, s, s) for s in squares])
        else:
            self.right_shifts = kernel.shifts(right.squared_norms())
        shifts = self.right_shifts
        self.right_shift = &shifts[0]
        self.stored = NULL
        if keeps_panels:
            n_panels = padded(right.n_rows) // PANEL
            self.store = aligned((n_panels * panel_size,), np.float32)
            view = self.store
            part.columns = NULL
            part.n_columns = self.n_columns
            for p in prange(n_panels, nogil=True, schedule="static", num_threads=n_threads):
                build_panel(&right.rows, kernel.scale, &part, p, &view[p * panel_size])
            self.stored = &view[0]

    cdef const float* _panel(
        self, const Part* part, Py_ssize_t p, float* buffer, float* shifts
    ) noexcept nogil:
        """The panel of 64 columns of the part, and their shifts."""
        cdef Py_ssize_t lane, column
        for lane in range(PANEL):
            column = p * PANEL + lane
            if column >= part.n_columns:
                shifts[lane] = 0
            else:
                shifts[lane] = self.right_shift[
                    column if part.columns == NULL else part.columns[column]]
        if self.stored != NULL and part.columns == NULL:
            return self.stored + p * self.right.n_columns * PANEL
        build_panel(&self.right.rows, self.kernel.scale, part, p, buffer)
        return buffer

    cdef void _tile(
        self, const Part* part, Py_ssize_t first, Py_ssize_t size, const float* panel,
        const float* shifts, float* tile
    ) noexcept nogil:
        """The kernel's values of `size` rows of the part with a panel."""
        cdef Py_ssize_t chunk
        for chunk in range(part.n_chunks):
            panels().dots(
                part.entries, part.starts + first * part.n_chunks + chunk, part.n_chunks, size,
                panel, NULL if chunk else part.row_shifts + first, shifts, tile)
        panels().finish(&self.kernel.form, tile, size)

    cdef void _values(
        self, const Part* part, Py_ssize_t p, bint symmetric, float* buffer, float* out
    ) noexcept nogil:
        """Store the values of a panel's columns; if symmetric, those below the diagonal twice."""
        cdef float* tile = buffer
        cdef float* shifts = tile + TILE * PANEL
        cdef const float* panel = self._panel(part, p, shifts + PANEL, shifts)
        cdef Py_ssize_t k, first, r, size, stride = padded(part.n_columns)
        for k in range(p if symmetric else 0, (part.n_rows + TILE - 1) // TILE):
            first = k * TILE
            size = min(TILE, part.n_rows - first)
            self._tile(part, first, size, panel, shifts, tile)
            for r in range(size):
                memcpy(out + (first + r) * stride + p * PANEL, tile + r * PANEL, PANEL * 4)
            if symmetric and k > p:
                memset(tile + size * PANEL, 0, (TILE - size) * PANEL * 4)
                panel_transpose(tile, out + p * PANEL * stride + first, stride)

    cdef void _product(
        self, const Part* part, Py_ssize_t p, float* buffer, const float* changes,
        Py_ssize_t n_outputs, double* sums
    ) noexcept nogil:
        """sums[output * 64 + k] += the product with column k of a panel."""
        cdef float* tile = buffer
        cdef float* shifts = tile + TILE * PANEL
        cdef const float* panel = self._panel(part, p, shifts + PANEL, shifts)
        cdef Py_ssize_t most = SHORT_TILE if part.n_chunks == 1 else TILE
        cdef Py_ssize_t k, first, output, size
        for k in range((part.n_rows + most - 1) // most):
            first = k * most
            size = min(most, part.n_rows - first)
            self._tile(part, first, size, panel, shifts, tile)
            for output in range(n_outputs):
                panels().product(
                    tile, PANEL, changes + output * part.n_rows + first, size,
                    sums + output * PANEL)

    def _buffers(self, int n_threads, columns):
        """Return one buffer per thread: a tile, a panel's shifts, and the panel if it is built."""
        size = (TILE + 1) * PANEL
        if self.stored == NULL or columns is not None:
            size += self.right.n_columns * PANEL
        return aligned((n_threads, size), np.float32)

    def set_offsets(self, mean):
        """Let the values of a linear kernel be those of the rows before `mean` was taken off.

        <x + mean, z + mean> = <x, z> + (<x, mean> + |mean|^2 / 2) + (<z, mean> + |mean|^2 / 2).
        """
        half = np.sum(mean * mean) / 2
        self.left_offsets = np.einsum("ij,j->i", self.left.arrays[0], mean) + half
        self.right_offsets = self.left_offsets
        if self.right is not self.left:
            self.right_offsets = np.einsum("ij,j->i", self.right.arrays[0], mean) + half

    @property
    def diagonal(self):
        """As KernelRows.diagonal."""
        if self.left_offsets is None or self.squares is None:
            return self.squares
        return self.squares + 2 * self.left_offsets

    @property
    def centred_diagonal(self):
        """As KernelRows.centred_diagonal."""
        return self.squares

    @property
    def is_centred(self):
        """As KernelRows.is_centred."""
        return self.left_offsets is not None

    @property
    def offsets(self):
        """As KernelRows.offsets."""
        return np.zeros(self.n_rows) if self.left_offsets is None else self.left_offsets

    @property
    def most_rank(self):
        """As KernelRows.most_rank."""
        return most_rank(self.kernel, self.left)

    def centred_block(self, rows, int n_threads=1):
        """As KernelRows.centred_block."""
        return self._block(rows, rows, n_threads)

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        values = self._block(rows, columns, n_threads)
        self.add_offsets(values, rows, columns)
        return values

    def add_offsets(self, values, rows, columns):
        """As KernelRows.add_offsets; values may have more columns."""
        if self.left_offsets is None:
            return
        others = self.right_offsets if columns is None else self.right_offsets[columns]
        for start in range(0, len(values), PANEL):  # sums in float64 take room
            offsets = self.left_offsets[rows[start:start + PANEL]]
            values[start:start + PANEL, :len(others)] += np.add.outer(offsets, others)

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return exact_block(self.kernel, self.left, self.right, rows, columns, n_threads)

    def _block(self, rows, columns, int n_threads):
        """The values of the rows at hand, which may be centred."""
        cdef bint symmetric = columns is rows and self.left is self.right
        cdef _Packed packed = _Packed(self, rows, self.left_shifts, columns)
        cdef const Part* part = &packed.part
        cdef float[:, ::1] buffers = self._buffers(n_threads, columns)
        cdef Py_ssize_t n_panels = padded(part.n_columns) // PANEL, p
        values = aligned((part.n_rows, n_panels * PANEL), np.float32)
        cdef float[:, ::1] out = values
        for p in prange(n_panels, nogil=True, schedule="dynamic", num_threads=n_threads):
            self._values(part, p, symmetric, &buffers[threadid(), 0], &out[0, 0])
        return values

    def add_product(self, rows, changes, double[:, ::1] margins, int n_threads=1):
        """As KernelRows.add_product."""
        cdef _Packed packed = _Packed(self, rows, self.left_shifts, None)
        cdef const Part* part = &packed.part
        cdef float[:, ::1] buffers = self._buffers(n_threads, None)
        cdef float[:, ::1] change = self._checked_changes(rows, changes, margins)
        cdef Py_ssize_t n_panels = padded(part.n_columns) // PANEL, p, output
        cdef Py_ssize_t n_outputs = margins.shape[0]
        cdef double[:, :, ::1] sums = np.zeros((n_threads, n_outputs, PANEL))
        if part.n_rows == 0:
            return
        for p in prange(n_panels, nogil=True, schedule="dynamic", num_threads=n_threads):
            memset(&sums[threadid(), 0, 0], 0, n_outputs * PANEL * sizeof(double))
            self._product(
                part, p, &buffers[threadid(), 0], &change[0, 0], n_outputs,
                &sums[threadid(), 0, 0])
            for output in range(n_outputs):
                add_sums(&sums[threadid(), output, 0], &margins[output, 0], p, part.n_columns)
        self.add_offset_products(rows, changes, np.asarray(margins))

    def add_offset_products(self, rows, changes, margins):
        """As KernelRows.add_offset_products."""
        if self.left_offsets is not None:
            totals = np.sum(changes, axis=1, dtype=np.float64)
            margins += (
                np.multiply(changes, self.left_offsets[rows]).sum(axis=1)[:, np.newaxis]
                + totals[:, np.newaxis] * self.right_offsets)


def most_rank(kernel, Matrix side):
    """Return a bound on the rank of a kernel matrix of some examples with themselves."""
    return min(side.n_rows, side.n_columns) if isinstance(kernel, Linear) else side.n_rows


def exact_block(
    Kernel kernel, Matrix left, Matrix right, rows, columns, int n_threads
):
    """Return the kernel's values between some rows of two matrices (float64)."""
    others = rows_of(right, slice(None) if columns is None else columns)
    values = np.empty((len(rows), others.n_rows))
    for start in range(0, len(rows), EXACT_TILE):
        part = slice(start, start + EXACT_TILE)
        values[part] = exact_values(
            kernel, rows_of(left, rows[part]), others, many_dots, n_threads)
        PyErr_CheckSignals()
    return values


cdef void build_panel(
    const Lines* rows, double scale, const Part* part, Py_ssize_t p, float* panel
) noexcept nogil:
    cdef Py_ssize_t lane, column, k
    cdef Line x
    memset(panel, 0, rows.length * PANEL * 4)
    for lane in range(min(PANEL, part.n_columns - p * PANEL)):
        column = p * PANEL + lane
        x = line_at(rows, column if part.columns == NULL else part.columns[column])
        scatter(&x, panel + lane, PANEL)
    for k in range(rows.length * PANEL):
        panel[k] = <float> (scale * panel[k])


cdef class PostingRows(KernelRows):
    """A kernel matrix by lists of the columns in which a feature occurs, for many features.

    Parameters
    ----------
    kernel : Kernel
    left, right : Matrix
        Sparse.
    """

    def __init__(self, Kernel kernel, Matrix left, Matrix right):
        self.kernel, self.left, self.unscaled = kernel, left, right
        self.n_rows, self.n_columns = left.n_rows, right.n_rows
        data, indices, offsets = right.arrays
        scaled = np.empty(data.shape, dtype=np.float32)
        np.multiply(data, np.float64(kernel.scale), out=scaled, casting="same_kind")
        self.right = sp.csr_array(
            (scaled, indices, offsets), shape=(right.n_rows, right.n_columns))
        self.postings = postings_of(self.right)
        squares = left.squared_norms()
        self.left_shifts = self.right_shifts = kernel.shifts(squares)
        if right is left:
            self.diagonal = np.array([kernel.of_dot(s, s, s) for s in squares])
        else:
            self.right_shifts = kernel.shifts(right.squared_norms())

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        cdef Py_ssize_t n_columns = self.n_columns if columns is None else len(columns)
        cdef Py_ssize_t width = padded(n_columns), longest = 1, r
        postings = self.postings if columns is None else postings_of(self.right[columns])
        cdef const int64_t[::1] offsets = postings[0]
        cdef const int32_t[::1] places = postings[1]
        cdef const float[::1] entries = postings[2]
        cdef const int64_t[::1] row = rows
        cdef const float[::1] row_shifts = self.left_shifts
        padded_shifts = np.zeros(width, dtype=np.float32)
        padded_shifts[:n_columns] = (
            self.right_shifts if columns is None else self.right_shifts[columns])
        cdef const float[::1] shifts = padded_shifts
        for r in row:
            longest = max(longest, line_size(&self.left.rows, r) + 1)
        cdef float[:, ::1] buffer = np.empty((n_threads, longest), dtype=np.float32)
        cdef int32_t[:, ::1] features = np.empty((n_threads, longest), dtype=np.int32)
        values = aligned((row.shape[0], width), np.float32)
        cdef float[:, ::1] out = values
        for r in prange(row.shape[0], nogil=True, schedule="dynamic", num_threads=n_threads):
            self._row(
                row[r], row_shifts[row[r]], offsets, places, entries, &shifts[0], width,
                &buffer[threadid(), 0], &features[threadid(), 0], &out[r, 0])
        return values

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return exact_block(self.kernel, self.left, self.unscaled, rows, columns, n_threads)

    @property
    def most_rank(self):
        """As KernelRows.most_rank."""
        return most_rank(self.kernel, self.left)

    cdef void _row(
        self, Py_ssize_t i, float row_shift, const int64_t[::1] offsets,
        const int32_t[::1] places, const float[::1] entries, const float* shifts,
        Py_ssize_t width, float* buffer, int32_t* features, float* out
    ) noexcept nogil:
        """One row of values: arguments from the lists of its features, then the kernel."""
        cdef Line x = line_at(&self.left.rows, i)
        cdef Py_ssize_t count = nonzeros(&x, buffer, features), k
        cdef float value
        cdef int64_t e
        for k in range(width):
            out[k] = row_shift + shifts[k]
        for k in range(count):
            value = <float> (self.kernel.scale * buffer[k])
            for e in range(offsets[features[k]], offsets[features[k] + 1]):
                out[places[e]] += value * entries[e]
        panels().finish(&self.kernel.form, out, width // PANEL)


def postings_of(rows):
    """Return the offsets (int64), rows (int32) and values of every column of a CSR array."""
    twin = rows.tocsc()
    return (
        twin.indptr.astype(np.int64, copy=False), twin.indices.astype(np.int32, copy=False),
        twin.data)


cdef class CallableRows(KernelRows):
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
            self.diagonal = np.concatenate([
                self._own_block(start).diagonal() for start in range(0, self.n_rows, PANEL)
            ]).astype(np.float64)

    def _call(self, X, Y):
        values = np.asarray(self.function(X, Y))
        if values.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {values.shape} for sets of {X.shape[0]} and "
                f"{Y.shape[0]} examples; it must return shape ({X.shape[0]}, {Y.shape[0]})")
        return checked_values(values, "the kernel function")

    def _own_block(self, Py_ssize_t start):
        part = self.X[start:start + PANEL]
        values = self._call(part, part)
        check_symmetric(values, "the kernel function")
        return values

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        return widened(self._values(rows, columns))

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return self._values(rows, columns).astype(np.float64, copy=False)

    def _values(self, rows, columns):
        return self._call(self.X[rows], self.Y if columns is None else self.Y[columns])


cdef class PrecomputedRows(KernelRows):
    """A kernel matrix that is there.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_columns)
    has_diagonal : bool, default=True
        The two sides are the same examples: the matrix must be square and symmetric.
    """

    def __init__(self, matrix, bint has_diagonal=True):
        self.matrix = matrix
        self.n_rows, self.n_columns = matrix.shape
        if has_diagonal:
            if self.n_rows != self.n_columns:
                raise ValueError(
                    'kernel="precomputed" needs the square matrix of the kernel between all '
                    f"training examples, got shape {matrix.shape}")
            check_symmetric(checked_values(matrix, "the precomputed matrix"),
                            "the precomputed matrix")
            self.diagonal = matrix.diagonal().astype(np.float64)

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        return widened(self._values(rows, columns))

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return self._values(rows, columns).astype(np.float64, copy=False)

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

    def __init__(self, KernelRows source, bint keeps_values=False):
        cdef double finer = EXACT_UNIT / UNIT
        self.source, self.n_rows, self.n_columns = source, source.n_rows, source.n_columns
        self.error, self.deviation = finer * source.error, finer * source.deviation
        self.rounding, self.unit = finer * source.rounding, EXACT_UNIT
        self.keeps = keeps_values and not isinstance(source, PrecomputedRows)

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


def checked_values(values, source):
    """Return an array of kernel values; ValueError if float32 cannot hold one."""
    if values.dtype.kind == "b":
        values = values.astype(np.float32)
    if values.dtype.kind not in "fiu" or not largest_of(values) < LARGEST:
        raise ValueError(f"{source} holds values that are not finite float32 numbers")
    return values


def largest_of(values):
    """Return the largest absolute value, nan if there is one, without a copy."""
    return np.maximum(values.max(initial=0), -float(values.min(initial=0)))


def check_symmetric(values, source):
    """Raise ValueError unless a square matrix is symmetric up to rounding."""
    tolerance = ASYMMETRY * largest_of(values)
    for start in range(0, values.shape[0], PANEL):
        stop = start + PANEL
        if not (np.abs(values[start:stop] - values[:, start:stop].T) <= tolerance).all():
            raise ValueError(f"{source} is not symmetric")


def widened(values):
    """Return values in float32, with columns of zeros up to a multiple of 64."""
    result = np.zeros((values.shape[0], padded(values.shape[1])), dtype=np.float32)
    result[:, :values.shape[1]] = values
    return result
