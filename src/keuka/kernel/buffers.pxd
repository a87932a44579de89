# Growing arrays in plain C memory. Functions return False when memory is out; the caller turns that into a clean error.
from libc.stdint cimport int64_t, uint8_t

cpdef enum:
    MANY_WORDS = 65536     # memory of smaller buffers is not given back

cdef struct Buffer:       # of 64-bit words
    int64_t* data
    int64_t size
    int64_t capacity

cdef struct Flags:        # of flag bytes
    uint8_t* data
    int64_t size
    int64_t capacity

cdef bint grow(Buffer* buffer, int64_t size) noexcept nogil
cdef void shrink(Buffer* buffer) noexcept nogil
cdef bint grow_flags(Flags* buffer, int64_t size) noexcept nogil
cdef object copy_words(Buffer* buffer, int64_t n)
cdef object copy_flags(Flags* buffer, int64_t n)

cdef inline bint push(Buffer* buffer, int64_t value) noexcept nogil:
    if buffer.size == buffer.capacity and not grow(buffer, buffer.size + 1):
        return False
    buffer.data[buffer.size] = value
    buffer.size += 1
    return True

cdef inline bint push_flag(Flags* buffer, uint8_t value) noexcept nogil:
    if buffer.size == buffer.capacity and not grow_flags(buffer, buffer.size + 1):
        return False
    buffer.data[buffer.size] = value
    buffer.size += 1
    return True
