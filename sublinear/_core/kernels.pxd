from libc.stdint cimport int32_t, int64_t

from sublinear._core.line cimport Lines
from sublinear._core.matrix cimport Matrix


cdef extern from "panel.h" nogil:
    enum:
        PANEL
        PANEL_LINEAR
        PANEL_RBF
        PANEL_POLY
        PANEL_SIGMOID
    ctypedef struct panel_entry:
        int32_t offset
        float value
    ctypedef struct panel_kernel:
        int kind
        int degree
        float shift
    ctypedef struct panel_problem:
        Py_ssize_t size
        int has_kinks
        const float* values
        const float* curvature
        const float* above
        const float* below
        float* low
        float* high
        float* kink
        float* change
        float* gradient
    ctypedef struct panel_functions:
        void (*dots)(
            const panel_entry*, const int64_t*, Py_ssize_t, Py_ssize_t, const float*, const float*,
            const float*, float*) noexcept nogil
        void (*finish)(const panel_kernel*, float*, Py_ssize_t) noexcept nogil
        void (*product)(
            const float*, Py_ssize_t, const float*, Py_ssize_t, double*) noexcept nogil
        Py_ssize_t (*ascend)(panel_problem*, Py_ssize_t, float, float*) noexcept nogil
        Py_ssize_t (*ascend_pairs)(panel_problem*, Py_ssize_t, float, float*) noexcept nogil
    const panel_functions* panel_choose(int lanes) noexcept
    void panel_transpose(const float* tile, float* out, Py_ssize_t stride) noexcept


cdef const panel_functions* panels() noexcept nogil


cdef struct Part:
    # rows and columns of a product in panels
    const panel_entry* entries    # of the rows, chunk by chunk
    const int64_t* starts
    Py_ssize_t n_rows, n_chunks
    const float* row_shifts
    const int64_t* columns        # NULL: all
    Py_ssize_t n_columns


cdef class Kernel:
    cdef readonly double gamma, coef0
    cdef readonly int degree
    cdef panel_kernel form
    cdef readonly double scale           # of examples in panels and lists

    cdef double of_dot(self, double dot, double square, double other) noexcept nogil


cdef class KernelRows:
    cdef readonly Py_ssize_t n_rows, n_columns
    cdef public double error, deviation, rounding
    cdef readonly double unit


cdef class PanelRows(KernelRows):
    cdef readonly Kernel kernel
    cdef readonly Matrix left, right
    cdef readonly object store           # all panels of the right side, or None
    cdef readonly Py_ssize_t chunk, n_chunks
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
    cdef void _product(
        self, const Part* part, Py_ssize_t p, float* buffer, const float* changes,
        Py_ssize_t n_outputs, double* sums) noexcept nogil


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


cdef class CallableRows(KernelRows):
    cdef readonly object function, X, Y, diagonal


cdef class PrecomputedRows(KernelRows):
    cdef readonly object matrix, diagonal


cdef class ExactRows(KernelRows):
    cdef readonly KernelRows source
    cdef readonly bint keeps
    cdef object kept
