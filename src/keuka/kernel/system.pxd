# What the kernel asks of the processor and of Python's C interface.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <time.h>
    static inline void keuka_prefetch(const void* place) { __builtin_prefetch(place); }
    static inline int keuka_highest_bit(uint64_t word) { return 63 - __builtin_clzll(word); }
    static inline double keuka_seconds(void) { struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); return now.tv_sec + 1e-9 * now.tv_nsec; }
    static inline int keuka_pending_exception(void) { return PyErr_Occurred() ? -1 : 0; }
    """
    void prefetch "keuka_prefetch"(const void* place) noexcept nogil
    double seconds "keuka_seconds"() noexcept nogil  # of the clock that time.monotonic() reads
    int highest_bit "keuka_highest_bit"(uint64_t word) noexcept nogil  # of a word that is not 0
    int check_signals "PyErr_CheckSignals"() noexcept  # -1: a handler raised, and its exception is pending
    bint is_initialized "Py_IsInitialized"() noexcept nogil
    int pending_exception "keuka_pending_exception"() except -1
