"""Declarations of portable.h."""

cdef extern from "portable.h" nogil:
    const int SUBLINEAR_OPENMP
    int omp_get_max_threads()
    int omp_get_num_threads() noexcept
    void prefetch "sublinear_prefetch"(const void* address) noexcept
    void prefetch_span "sublinear_prefetch_span"(const void* start, const void* end) noexcept
    void prefetch_near_span "sublinear_prefetch_near_span"(
        const void* start, const void* end) noexcept
    double clip "sublinear_clip"(double value, double low, double high) noexcept
    double clock "sublinear_clock"() noexcept
    void publish "sublinear_publish"(long long* flag, long long value) noexcept
    void wait_for "sublinear_wait_for"(const long long* flag, long long value) noexcept
