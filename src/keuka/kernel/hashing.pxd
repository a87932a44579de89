# Constants and the leaf function of every hash in the kernel. Literals above 2^63 would be Python objects in pure mode.
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #define KEUKA_HASH_SEED 0x9E3779B97F4A7C15ULL
    #define KEUKA_HASH_STEP 0xFF51AFD7ED558CCDULL
    #define KEUKA_HASH_FINISH 0xC4CEB9FE1A85EC53ULL
    """
    const uint64_t HASH_SEED "KEUKA_HASH_SEED"
    const uint64_t HASH_FINISH "KEUKA_HASH_FINISH"
    const uint64_t HASH_STEP "KEUKA_HASH_STEP"

cdef inline uint64_t mix(uint64_t h, uint64_t word) noexcept nogil:
    h = (h ^ word) * HASH_STEP
    return h ^ (h >> 32)
