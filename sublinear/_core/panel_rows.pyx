"""Rows of kernel matrices from the examples themselves: loops over dense panels, or over lists."""
from cpython.exc cimport PyErr_CheckSignals
from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

import numpy as np
import scipy.sparse as sp

from sublinear._core.kernel_rows cimport EXACT_TILE, TILE, KernelRows, check_numbers
from sublinear._core.kernels cimport Kernel
from sublinear._core.line cimport (
    Line, Lines, cut, is_dense, line_at, line_size, nonzeros, scatter,
)
from sublinear._core.matrix cimport Matrix
from sublinear._core.panels cimport PANEL, padded, panel_entry, panel_transpose, panels

from sublinear._core.aligned import aligned
from sublinear._core.equal_rows import equal_rows
from sublinear._core.kernel_rows import check_groups, items_per_call
from sublinear._core.kernels import exact_values, many_dots, rows_of

cdef enum:
    CHUNK = 128             # features: their part of a panel, 32 KB, stays in the first cache
    SHORT_TILE = 16         # rows of a tile where the panel is read once only: 4 KB
    BUILDING = 64           # multiplications take as long as a value of a panel, in new memory
    PACKING = 64            # or as an entry of a list
    PACKED = 1 << 24        # entries of the lists that products take at a time
    UNROLLED = 4            # entries; lists are padded to a multiple


cdef Py_ssize_t pack_row(
    const Line* x, double scale, Py_ssize_t chunk, Py_ssize_t n_chunks, float* values,
    int32_t* features, panel_entry* entry, int64_t* starts, Py_ssize_t used
) noexcept nogil:
    """Append a row's non-zeros, scaled, chunk by chunk, each padded; returns how many there are.

    `values` and `features` have room for those of the row.
    """
    cdef Py_ssize_t count = nonzeros(x, scale, values, features), k = 0, c
    for c in range(n_chunks):
        starts[c] = used
        while k < count and features[k] < (c + 1) * chunk:
            entry[used].offset = features[k] * PANEL
            entry[used].value = values[k]
            used += 1
            k += 1
        while (used - starts[c]) % UNROLLED:
            entry[used].offset = <int32_t> (c * chunk * PANEL)
            entry[used].value = 0
            used += 1
    return used


cdef class _Packed:
    """Some rows of a matrix as lists of their non-zeros, feature chunk by feature chunk."""
    cdef object arrays
    cdef Part part

    def __init__(
        self, PanelRows source, const int64_t[::1] rows, const float[::1] shifts, columns
    ):
        cdef Matrix matrix = source.left
        cdef Py_ssize_t n_rows = rows.shape[0], n_chunks = source.n_chunks, room = 0, r, used = 0
        cdef double operations = float(PACKING) * matrix.n_stored / matrix.n_rows
        cdef Py_ssize_t first, step = items_per_call(operations)
        cdef Line x
        check_numbers(rows, matrix.n_rows)
        for r in range(n_rows):
            room += line_size(&matrix.rows, rows[r]) + n_chunks * (UNROLLED - 1)
        entries = np.empty((room, 2), dtype=np.int32)
        cdef int32_t[:, ::1] storage = entries
        cdef panel_entry* entry = <panel_entry*> &storage[0, 0] if room else NULL
        cdef int64_t[::1] starts = np.empty(n_rows * n_chunks + 1, dtype=np.int64)
        cdef float[::1] values = np.empty(matrix.n_columns + 1, dtype=np.float32)
        cdef int32_t[::1] features = np.empty(matrix.n_columns + 1, dtype=np.int32)
        cdef float[::1] row_shifts = np.empty(max(n_rows, 1), dtype=np.float32)
        cdef const int64_t[::1] chosen
        for first in range(0, n_rows, step):
            with nogil:
                for r in range(first, min(n_rows, first + step)):
                    x = line_at(&matrix.rows, rows[r])
                    row_shifts[r] = shifts[rows[r]]
                    used = pack_row(
                        &x, source.kernel.scale, source.chunk, n_chunks, &values[0],
                        &features[0], entry, &starts[r * n_chunks], used)
            PyErr_CheckSignals()
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
            check_numbers(chosen, source.n_columns)
            self.part.columns = &chosen[0]
            self.part.n_columns = chosen.shape[0]
        self.arrays = (entries, starts, row_shifts, columns)

    cdef Py_ssize_t panels_per_call(self, int n_threads):
        """Panels to meet the rows between two looks at pending signals."""
        n_entries = self.part.starts[self.part.n_rows * self.part.n_chunks]
        return items_per_call(n_entries * PANEL, n_threads)


def values_of_squares(Kernel kernel, const double[::1] squares):
    """Return k(x, x) by |x|^2 (float64)."""
    cdef double[::1] values = np.empty(squares.shape[0])
    cdef Py_ssize_t k
    for k in range(squares.shape[0]):
        values[k] = kernel.of_dot(squares[k], squares[k], squares[k])
    return values.base


cdef class PanelRows(KernelRows):
    """A kernel matrix whose columns are panels of 64 examples, for few features.

    Parameters
    ----------
    kernel : Kernel
    left, right : Matrix
    keeps_panels : bool
        Build them once, 4 bytes for every value of `right`, zeros included; else anew for every
        product, and for every `most_packed` entries of its rows.
    n_threads : int, default=1
        That build them.
    """

    def __init__(
        self, Kernel kernel, Matrix left, Matrix right, bint keeps_panels=True, int n_threads=1
    ):
        cdef float[::1] view
        cdef const float[::1] shifts
        cdef Py_ssize_t p, n_panels, panel_size = right.n_columns * PANEL
        cdef Py_ssize_t first, last, step
        cdef Part part
        self.kernel, self.left, self.right = kernel, left, right
        self.n_rows, self.n_columns, self.n_features = left.n_rows, right.n_rows, right.n_columns
        self.chunk, self.most_packed = CHUNK, PACKED
        self.n_chunks = (right.n_columns + CHUNK - 1) // CHUNK
        squares = left.squared_norms()
        self.left_shifts = kernel.shifts(squares)
        self.right_shifts = self.left_shifts
        if right is left:
            self.squares = values_of_squares(kernel, squares)
            self.groups = equal_rows(left, kernel.scale)
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
            step = items_per_call(BUILDING * panel_size, n_threads)
            for first in range(0, n_panels, step):
                last = min(n_panels, first + step)
                for p in prange(
                    first, last, nogil=True, schedule="static", num_threads=n_threads
                ):
                    build_panel(&right.rows, kernel.scale, &part, p, &view[p * panel_size])
                PyErr_CheckSignals()
            self.stored = &view[0]

    def with_rows(self, Matrix left):
        """Return the kernel matrix of other rows with the same columns: with their panels alone."""
        cdef PanelRows other = PanelRows.__new__(PanelRows)
        other.kernel, other.left = self.kernel, left
        other.n_rows, other.n_columns = left.n_rows, self.n_columns
        other.n_features = self.n_features
        other.chunk, other.n_chunks, other.most_packed = self.chunk, self.n_chunks, self.most_packed
        other.left_shifts = self.kernel.shifts(left.squared_norms())
        other.right_shifts, other.right_shift = self.right_shifts, self.right_shift
        other.store, other.stored = self.store, self.stored
        return other

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
            return self.stored + p * self.n_features * PANEL
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

    cdef void _products(
        self, const Part* part, Py_ssize_t p, float* buffer, float[:, ::1] changes,
        Py_ssize_t start, const int64_t[::1] ends, const int64_t[:, ::1] outputs, double* sums,
        double[:, :] margins
    ) noexcept nogil:
        """Add the products with the columns of a panel, one group of rows after another.

        Changes of the part's rows begin at `start`.
        """
        cdef float* tile = buffer
        cdef float* shifts = tile + TILE * PANEL
        cdef const float* panel = self._panel(part, p, shifts + PANEL, shifts)
        cdef Py_ssize_t most = SHORT_TILE if part.n_chunks == 1 else TILE
        cdef Py_ssize_t n_changes = changes.shape[0], first = 0, group, k, lane, size
        for group in range(ends.shape[0]):
            if first == ends[group]:
                continue
            memset(sums, 0, n_changes * PANEL * sizeof(double))
            while first < ends[group]:
                size = min(most, ends[group] - first)
                self._tile(part, first, size, panel, shifts, tile)
                for k in range(n_changes):
                    panels().product(
                        tile, PANEL, &changes[k, start + first], size, sums + k * PANEL)
                first += size
            for k in range(n_changes):
                for lane in range(min(PANEL, part.n_columns - p * PANEL)):
                    margins[outputs[group, k], p * PANEL + lane] += sums[k * PANEL + lane]

    def _buffers(self, int n_threads, columns):
        """Return one buffer per thread: a tile, a panel's shifts, and the panel if it is built."""
        size = (TILE + 1) * PANEL
        if self.stored == NULL or columns is not None:
            size += self.n_features * PANEL
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
        return self.kernel.most_rank(self.left.n_columns, self.n_rows)

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
        cdef float[:, ::1] buffers = self._buffers(n_threads, columns)
        cdef Py_ssize_t n_columns = self.n_columns if columns is None else len(columns)
        cdef Py_ssize_t n_rows = len(rows), start, p, first, last, step
        cdef Py_ssize_t n_panels = padded(n_columns) // PANEL
        cdef Py_ssize_t most = max(n_rows, 1) if symmetric else self._rows_together()
        cdef const Part* part
        cdef _Packed packed
        values = aligned((n_rows, n_panels * PANEL), np.float32)
        cdef float[:, ::1] out = values
        for start in range(0, n_rows, most):
            packed = _Packed(self, rows[start:start + most], self.left_shifts, columns)
            part, step = &packed.part, packed.panels_per_call(n_threads)
            for first in range(0, n_panels, step):
                last = min(n_panels, first + step)
                for p in prange(
                    first, last, nogil=True, schedule="dynamic", num_threads=n_threads
                ):
                    self._values(part, p, symmetric, &buffers[threadid(), 0], &out[start, 0])
                PyErr_CheckSignals()
        return values

    cdef Py_ssize_t _rows_together(self):
        """Rows whose lists are made at a time."""
        return max(TILE, self.most_packed * self.left.n_rows // max(1, self.left.n_stored))

    def _add_blocks(self, rows, float[:, ::1] change, double[:, ::1] margins, int n_threads):
        """As KernelRows._add_blocks."""
        every = np.arange(change.shape[0])
        self._add_panels(rows, change, margins, np.array([len(rows)]), every[np.newaxis], n_threads)

    def add_products(self, rows, changes, margins, ends, outputs, int n_threads=1):
        """As KernelRows.add_products; panels are built for all groups together."""
        check_groups(ends, outputs, len(rows), len(margins))
        change = self._checked_changes(rows, changes, margins[:outputs.shape[1]])
        self._add_panels(rows, change, margins, ends, outputs, n_threads)
        if self.left_offsets is None:
            return
        for start, end, places in zip([0, *ends], ends, outputs):
            part = np.zeros((len(places), self.n_columns))
            self.add_offset_products(rows[start:end], changes[:, start:end], part)
            margins[places] += part

    cdef _add_panels(
        self, rows, float[:, ::1] changes, double[:, :] margins, const int64_t[::1] ends,
        const int64_t[:, ::1] outputs, int n_threads
    ):
        """Add the products without offsets."""
        cdef float[:, ::1] buffers = self._buffers(n_threads, None)
        cdef Py_ssize_t n_panels = padded(self.n_columns) // PANEL, p, first, last, step
        cdef Py_ssize_t most = self._rows_together(), start
        cdef double[:, :, ::1] sums = np.empty((n_threads, changes.shape[0], PANEL))
        cdef const int64_t[::1] part_ends
        cdef const Part* part
        cdef _Packed packed
        for start in range(0, len(rows), most):
            packed = _Packed(self, rows[start:start + most], self.left_shifts, None)
            part, step = &packed.part, packed.panels_per_call(n_threads)
            part_ends = np.clip(np.asarray(ends) - start, 0, part.n_rows)
            for first in range(0, n_panels, step):
                last = min(n_panels, first + step)
                for p in prange(
                    first, last, nogil=True, schedule="dynamic", num_threads=n_threads
                ):
                    self._products(
                        part, p, &buffers[threadid(), 0], changes, start, part_ends, outputs,
                        &sums[threadid(), 0, 0], margins)
                PyErr_CheckSignals()

    def add_offset_products(self, rows, changes, margins):
        """As KernelRows.add_offset_products."""
        if self.left_offsets is not None:
            totals = np.sum(changes, axis=1, dtype=np.float64)
            margins += (
                np.multiply(changes, self.left_offsets[rows]).sum(axis=1)[:, np.newaxis]
                + totals[:, np.newaxis] * self.right_offsets)


def panel_bytes(Matrix side):
    """Return how many bytes a panel of a matrix's rows takes, and how many all of them."""
    one = 4.0 * PANEL * side.n_columns
    return one, one * (padded(side.n_rows) // PANEL)


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
    cdef Py_ssize_t first = 0, lane, column
    cdef Py_ssize_t step = CHUNK if is_dense(rows.storage) else rows.length
    cdef Line x
    memset(panel, 0, rows.length * PANEL * 4)
    while first < rows.length:
        for lane in range(min(PANEL, part.n_columns - p * PANEL)):
            column = p * PANEL + lane
            x = line_at(rows, column if part.columns == NULL else part.columns[column])
            if step < rows.length:
                cut(&x, first, min(step, rows.length - first))
            scatter(&x, scale, panel + first * PANEL + lane, PANEL)
        first += step


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
            self.diagonal = values_of_squares(kernel, squares)
            self.groups = equal_rows(left, kernel.scale)
        else:
            self.right_shifts = kernel.shifts(right.squared_norms())

    def block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.block."""
        cdef Py_ssize_t n_columns = self.n_columns if columns is None else len(columns)
        cdef Py_ssize_t width = padded(n_columns), longest = 1, r, first, last, step
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
        check_numbers(row, self.n_rows)
        for r in row:
            longest = max(longest, line_size(&self.left.rows, r) + 1)
        cdef float[:, ::1] buffer = np.empty((n_threads, longest), dtype=np.float32)
        cdef int32_t[:, ::1] features = np.empty((n_threads, longest), dtype=np.int32)
        values = aligned((row.shape[0], width), np.float32)
        cdef float[:, ::1] out = values
        step = items_per_call(float(n_columns) * self.left.n_stored / self.n_rows, n_threads)
        for first in range(0, row.shape[0], step):
            last = min(row.shape[0], first + step)
            for r in prange(first, last, nogil=True, schedule="dynamic", num_threads=n_threads):
                self._row(
                    row[r], row_shifts[row[r]], offsets, places, entries, &shifts[0], width,
                    &buffer[threadid(), 0], &features[threadid(), 0], &out[r, 0])
            PyErr_CheckSignals()
        return values

    def exact_block(self, rows, columns=None, int n_threads=1):
        """As KernelRows.exact_block."""
        return exact_block(self.kernel, self.left, self.unscaled, rows, columns, n_threads)

    @property
    def most_rank(self):
        """As KernelRows.most_rank."""
        return self.kernel.most_rank(self.left.n_columns, self.n_rows)

    cdef void _row(
        self, Py_ssize_t i, float row_shift, const int64_t[::1] offsets,
        const int32_t[::1] places, const float[::1] entries, const float* shifts,
        Py_ssize_t width, float* buffer, int32_t* features, float* out
    ) noexcept nogil:
        """One row of values: arguments from the lists of its features, then the kernel."""
        cdef Line x = line_at(&self.left.rows, i)
        cdef Py_ssize_t count = nonzeros(&x, self.kernel.scale, buffer, features), k
        cdef float value
        cdef int64_t e
        for k in range(width):
            out[k] = row_shift + shifts[k]
        for k in range(count):
            value = buffer[k]
            for e in range(offsets[features[k]], offsets[features[k] + 1]):
                out[places[e]] += value * entries[e]
        panels().finish(&self.kernel.form, out, width // PANEL)


def postings_of(rows):
    """Return the offsets (int64), rows (int32) and values of every column of a CSR array."""
    twin = rows.tocsc()
    return (
        twin.indptr.astype(np.int64, copy=False), twin.indices.astype(np.int32, copy=False),
        twin.data)
