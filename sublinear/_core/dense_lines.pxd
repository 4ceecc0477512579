"""Declarations of dense_lines.h."""

cdef extern from "dense_lines.h" nogil:
    double dense_dot64 "sublinear_dot_double"(
        const double* x, const double* w, Py_ssize_t size) noexcept
    double dense_dot_asking32 "sublinear_dot_asking_float"(
        const float* x, const double* w, Py_ssize_t size, const float* later) noexcept
    double dense_dot_asking64 "sublinear_dot_asking_double"(
        const double* x, const double* w, Py_ssize_t size, const double* later) noexcept
    void dense_add32 "sublinear_add_float"(
        const float* x, double factor, double* w, Py_ssize_t size) noexcept
    void dense_add64 "sublinear_add_double"(
        const double* x, double factor, double* w, Py_ssize_t size) noexcept
    double dense_squares32 "sublinear_squares_float"(const float* x, Py_ssize_t size) noexcept
    double dense_squares64 "sublinear_squares_double"(const double* x, Py_ssize_t size) noexcept
    void dense_dots32 "sublinear_dots_float"(
        const float* const* rows, const float* const* near, const float* const* next,
        Py_ssize_t count, Py_ssize_t size, const double* x, double* dots) noexcept
    void dense_dots_squares32 "sublinear_dots_squares_float"(
        const float* const* rows, const float* const* near, const float* const* next,
        Py_ssize_t size, const double* x, double* dots, double* squares) noexcept
    void dense_dots_add32 "sublinear_dots_add_float"(
        const float* const* rows, const float* const* near, const float* const* next,
        Py_ssize_t size, const double* x, double* dots, const double* factors, double* w) noexcept
    void dense_dots64 "sublinear_dots_double"(
        const double* const* rows, const double* const* near, const double* const* next,
        Py_ssize_t count, Py_ssize_t size, const double* x, double* dots) noexcept
    void dense_dots_squares64 "sublinear_dots_squares_double"(
        const double* const* rows, const double* const* near, const double* const* next,
        Py_ssize_t size, const double* x, double* dots, double* squares) noexcept
    void dense_dots_add64 "sublinear_dots_add_double"(
        const double* const* rows, const double* const* near, const double* const* next,
        Py_ssize_t size, const double* x, double* dots, const double* factors, double* w) noexcept
