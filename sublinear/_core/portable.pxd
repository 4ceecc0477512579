"""Declarations of portable.h."""

cdef extern from "portable.h" nogil:
    const int SUBLINEAR_OPENMP
    int omp_get_max_threads()
    int omp_get_num_threads() noexcept
    void prefetch "sublinear_prefetch"(const void* address) noexcept
    double clock "sublinear_clock"() noexcept
    void publish "sublinear_publish"(long long* flag, long long value) noexcept
    void wait_for "sublinear_wait_for"(const long long* flag, long long value) noexcept
    double dense_dot32 "sublinear_dot32"(const float* x, const double* w, Py_ssize_t size) noexcept
    double dense_dot64 "sublinear_dot64"(const double* x, const double* w, Py_ssize_t size) noexcept
    void dense_add32 "sublinear_add32"(
        const float* x, double factor, double* w, Py_ssize_t size) noexcept
    void dense_add64 "sublinear_add64"(
        const double* x, double factor, double* w, Py_ssize_t size) noexcept
