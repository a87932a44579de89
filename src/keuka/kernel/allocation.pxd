# Memory of the kernel. A thread that runs a step has so much room for it; what goes beyond is refused, as if memory were out.
from libc.stdint cimport int64_t

cdef bint reallocate(void* place, int64_t n_before, int64_t n_bytes) noexcept nogil
cdef void* zeroed(int64_t n_bytes) noexcept nogil
cdef void release(void* data, int64_t n_bytes) noexcept nogil
cdef void set_room(int64_t n_bytes) noexcept nogil
cdef int64_t room() noexcept nogil
cdef bint was_refused() noexcept nogil
cdef bint fits(int64_t n_bytes) noexcept nogil
