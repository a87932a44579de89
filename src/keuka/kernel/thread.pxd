# What the thread at hand may still take of memory. Only `allocation.py` includes this file: every module that did would count for itself.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    static thread_local int64_t keuka_room = (int64_t)1 << 62;
    static thread_local bool keuka_refused = false;
    static inline int64_t keuka_get_room(void) { return keuka_room; }
    static inline void keuka_set_room(int64_t n_bytes) { keuka_room = n_bytes; }
    static inline bool keuka_get_refused(void) { return keuka_refused; }
    static inline void keuka_set_refused(bool refused) { keuka_refused = refused; }
    """
    int64_t get_room "keuka_get_room"() noexcept nogil
    void put_room "keuka_set_room"(int64_t n_bytes) noexcept nogil
    bint get_refused "keuka_get_refused"() noexcept nogil
    void put_refused "keuka_set_refused"(bint refused) noexcept nogil
