# The string table of a run: text as 64-bit codes. Equal texts have equal codes, so equality and hashing never touch bytes.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from keuka.kernel.hashing cimport HASH_FINISH, HASH_SEED, mix

cdef struct Entry:
    int64_t offset  # of its bytes in `blob`; -1 while the code is free
    int64_t length  # bytes
    uint64_t hash
    uint64_t prefix # its first eight bytes; short texts are compared without looking at `blob`

cpdef enum:
    KNOWN_BITS = 10
    N_KNOWN = 1024

cdef struct Known:   # a text of up to eight bytes
    uint64_t prefix
    int64_t length
    int64_t code

cdef struct Verdicts: # what a regular expression says of texts
    int64_t pattern   # its code
    uint8_t* known    # (capacity,) by code: 0 not asked yet, 1 no match, 2 a match
    int64_t capacity

cdef class StringTable:
    cdef Entry* entries       # (capacity,) by code
    cdef int64_t n_codes      # codes ever given out, free ones included
    cdef int64_t capacity
    cdef int64_t n_free
    cdef int64_t* free_codes  # (capacity,) stack of codes to give out again
    cdef char* blob           # all bytes, UTF-8, back to back
    cdef int64_t blob_size
    cdef int64_t blob_capacity
    cdef int64_t* buckets     # (n_buckets,) code or -1; open addressing, linear probing
    cdef int64_t n_buckets    # a power of two, at least twice the codes in use
    cdef char* scratch        # for texts that are being made
    cdef int64_t scratch_capacity
    cdef Verdicts* verdicts   # (n_verdicts,) one for each pattern
    cdef int64_t n_verdicts

    cdef int64_t add(self, const char* data, int64_t length, int64_t readable) noexcept nogil
    cdef bint reserve_blob(self, int64_t length) noexcept nogil
    cdef bint reserve_code(self) noexcept nogil
    cdef bint rebuild_buckets(self, int64_t n_buckets) noexcept nogil
    cdef char* room(self, int64_t length) noexcept nogil
    cdef int compare(self, int64_t a, int64_t b) noexcept nogil
    cdef int64_t concat(self, int64_t a, int64_t b) noexcept nogil
    cdef int64_t substring(self, int64_t code, int64_t position, int64_t length) noexcept nogil
    cdef int64_t length(self, int64_t code) noexcept nogil
    cdef int64_t change_case(self, int64_t code, bint upper) noexcept nogil
    cdef Verdicts* verdicts_of(self, int64_t pattern) noexcept nogil
    cdef void forget_verdicts(self) noexcept nogil
    cdef bint like(self, int64_t text, int64_t pattern) noexcept nogil
    cdef int64_t total(self) noexcept nogil
    cdef str decoded(self, int64_t code)
cdef int64_t change_case_unicode(StringTable table, int64_t code, bint upper) noexcept nogil

cdef inline uint64_t first_word(const char* data, int64_t length, int64_t readable) noexcept nogil:
    # Up to eight bytes as a number. `readable` bytes from `data` on may be read: a whole load and a mask beat a short
    # copy.
    cdef uint64_t word = 0
    if length <= 0:
        return 0
    if readable >= 8:
        memcpy(&word, data, 8)
        return word if length >= 8 else word & ((<uint64_t>1 << (8 * length)) - 1)
    memcpy(&word, data, length if length < 8 else 8)
    return word

cdef inline uint64_t hash_bytes(const char* data, int64_t length, int64_t readable) noexcept nogil:
    cdef uint64_t h = HASH_SEED ^ <uint64_t>length
    cdef int64_t i = 0
    while i < length:
        h = mix(h, first_word(data + i, length - i, readable - i))
        i += 8
    h *= HASH_FINISH
    return h ^ (h >> 29)

cdef inline bint continues(char byte) noexcept nogil:
    # Is it a UTF-8 continuation byte, not the beginning of a code point?
    return (<unsigned char>byte & 0xC0) == 0x80

cdef inline int64_t next_point(const char* text, int64_t i, int64_t size) noexcept nogil:
    # Where the code point after the one at `i` begins.
    i += 1
    while i < size and continues(text[i]):
        i += 1
    return i
