from libc.stdint cimport int32_t, int64_t

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

cdef Py_ssize_t padded(Py_ssize_t count) noexcept nogil
