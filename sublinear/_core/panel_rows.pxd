from libc.stdint cimport int32_t, int64_t

from sublinear._core.kernel_rows cimport KernelRows
from sublinear._core.kernels cimport Kernel
from sublinear._core.matrix cimport Matrix
from sublinear._core.panels cimport panel_entry


cdef struct Part:
    # rows and columns of a product in panels
    const panel_entry* entries    # of the rows, chunk by chunk
    const int64_t* starts
    Py_ssize_t n_rows, n_chunks
    const float* row_shifts
    const int64_t* columns        # NULL: all
    Py_ssize_t n_columns


cdef class PanelRows(KernelRows):
    cdef readonly Kernel kernel
    cdef readonly Matrix left, right
    cdef readonly object store           # all panels of the right side, or None
    cdef readonly Py_ssize_t n_features, chunk, n_chunks
    cdef public Py_ssize_t most_packed   # entries of the lists that products take at a time
    cdef object left_shifts, right_shifts
    cdef object left_offsets, right_offsets    # what centring took off, or None
    cdef object squares                  # the diagonal of what is in panels, or None
    cdef const float* stored             # NULL: panels are built when they are needed
    cdef const float* right_shift
    cdef const float* _panel(
        self, const Part* part, Py_ssize_t p, float* buffer, float* shifts) noexcept nogil
    cdef void _tile(
        self, const Part* part, Py_ssize_t first, Py_ssize_t size, const float* panel,
        const float* shifts, float* tile) noexcept nogil
    cdef void _values(
        self, const Part* part, Py_ssize_t p, bint symmetric, float* buffer, float* out
    ) noexcept nogil
    cdef void _products(
        self, const Part* part, Py_ssize_t p, float* buffer, float[:, ::1] changes,
        Py_ssize_t start, const int64_t[::1] ends, const int64_t[:, ::1] outputs, double* sums,
        double[:, :] margins) noexcept nogil
    cdef Py_ssize_t _rows_together(self)
    cdef _add_panels(
        self, rows, float[:, ::1] changes, double[:, :] margins, const int64_t[::1] ends,
        const int64_t[:, ::1] outputs, int n_threads)


cdef class PostingRows(KernelRows):
    cdef readonly Kernel kernel
    cdef readonly Matrix left, unscaled
    cdef readonly object right           # CSR, scaled
    cdef readonly object postings        # of all columns: offsets, columns, float32 values
    cdef object left_shifts, right_shifts
    cdef readonly object diagonal
    cdef void _row(
        self, Py_ssize_t i, float row_shift, const int64_t[::1] offsets,
        const int32_t[::1] places, const float[::1] entries, const float* shifts,
        Py_ssize_t width, float* buffer, int32_t* features, float* out) noexcept nogil
