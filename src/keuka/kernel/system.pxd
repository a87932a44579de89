# What the kernel asks of the processor and of Python's C interface.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    static inline void keuka_prefetch(const void* place) { __builtin_prefetch(place); }
    static inline int keuka_highest_bit(uint64_t word) { return 63 - __builtin_clzll(word); }
    static inline int keuka_pending_exception(void) { return PyErr_Occurred() ? -1 : 0; }
    """
    void prefetch "keuka_prefetch"(const void* place) noexcept nogil
    int highest_bit "keuka_highest_bit"(uint64_t word) noexcept nogil  # of a word that is not 0
    int check_signals "PyErr_CheckSignals"() noexcept  # -1: a handler raised, and its exception is pending
    bint is_initialized "Py_IsInitialized"() noexcept nogil
    int pending_exception "keuka_pending_exception"() except -1
