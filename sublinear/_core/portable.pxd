"""Declarations of portable.h."""

cdef extern from "portable.h" nogil:
    const int SUBLINEAR_OPENMP
    int omp_get_max_threads()
    int omp_get_num_threads() noexcept
    void prefetch "sublinear_prefetch"(const void* address) noexcept
    void prefetch_span "sublinear_prefetch_span"(const void* start, const void* end) noexcept
    double clip "sublinear_clip"(double value, double low, double high) noexcept
    double clock "sublinear_clock"() noexcept
    void publish "sublinear_publish"(long long* flag, long long value) noexcept
    void wait_for "sublinear_wait_for"(const long long* flag, long long value) noexcept
    double dense_dot32 "sublinear_dot_float"(
        const float* x, const double* w, Py_ssize_t size) noexcept
    double dense_dot64 "sublinear_dot_double"(
        const double* x, const double* w, Py_ssize_t size) noexcept
    void dense_add32 "sublinear_add_float"(
        const float* x, double factor, double* w, Py_ssize_t size) noexcept
    void dense_add64 "sublinear_add_double"(
        const double* x, double factor, double* w, Py_ssize_t size) noexcept
    double dense_squares32 "sublinear_squares_float"(const float* x, Py_ssize_t size) noexcept
    double dense_squares64 "sublinear_squares_double"(const double* x, Py_ssize_t size) noexcept
    void dense_dots32 "sublinear_dots_float"(
        const float* const* rows, const float* const* next, Py_ssize_t size, const double* x,
        double* dots) noexcept
    void dense_dots_squares32 "sublinear_dots_squares_float"(
        const float* const* rows, const float* const* next, Py_ssize_t size, const double* x,
        double* dots, double* squares) noexcept
    void dense_dots_add32 "sublinear_dots_add_float"(
        const float* const* rows, const float* const* next, Py_ssize_t size, const double* x,
        double* dots, const double* factors, double* w) noexcept
    void dense_dots64 "sublinear_dots_double"(
        const double* const* rows, const double* const* next, Py_ssize_t size, const double* x,
        double* dots) noexcept
    void dense_dots_squares64 "sublinear_dots_squares_double"(
        const double* const* rows, const double* const* next, Py_ssize_t size, const double* x,
        double* dots, double* squares) noexcept
    void dense_dots_add64 "sublinear_dots_add_double"(
        const double* const* rows, const double* const* next, Py_ssize_t size, const double* x,
        double* dots, const double* factors, double* w) noexcept
