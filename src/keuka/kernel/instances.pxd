# An automaton state and the pool of its instances. What runs per event is inline here.
from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from keuka.kernel.buffers cimport Buffer

# Words of an instance: header, then its slots, then one flag byte per slot.
cpdef enum:
    START = 0    # start tick
    FINISH = 1   # end tick: a candidate follows if its start is larger
    NEXT = 2     # instance after it in its hash bucket, or in the free list; -1: last
    PREVIOUS = 3 # instance before it; -1: first of its bucket
    HASH = 4     # of its key slots
    MARK = 5     # epoch in which a candidate affected it
    LINEAGE = 6  # node in the arena of contributors
    HEADER = 7

cpdef enum:
    FEWEST_BUCKETS = 2

cdef struct State:        # an automaton state and the pool of its instances
    int64_t port
    int64_t program
    int64_t gate
    int64_t n_slots
    int64_t n_keys
    const int64_t* keys   # (n_keys * 3,) rows of the table `key`
    int64_t window        # a candidate with a larger DUR can lead to no result
    int64_t width         # words per instance
    int64_t* data         # (capacity * width,)
    int64_t capacity
    int64_t n_used        # instances ever allocated
    int64_t free_head
    int64_t n_live        # linked ones
    int64_t most_live     # the largest n_live so far
    int64_t sweep_at      # n_live at which expired instances are looked for
    int64_t* buckets      # (n_buckets,) first instance, or -1
    int64_t n_buckets     # a power of two
    int64_t shift         # 64 - log2(n_buckets): the high bits of a hash choose the bucket
    Buffer hashes         # by row of the batch: hash of the candidate's key; 0: no candidate

cdef int64_t allocate(State* state) noexcept nogil
cdef bint key_of_instance(State* state, int64_t* words) noexcept nogil
cdef bint link(State* state, int64_t instance) noexcept nogil
cdef bint rehash(State* state, int64_t n_buckets) noexcept nogil
cdef bint compact(State* state) noexcept nogil
cdef void unlink(State* state, int64_t instance) noexcept nogil
cdef bint expire(State* state, int64_t tick) noexcept nogil
cdef void put_first(State* state, int64_t instance) noexcept nogil

cdef inline int64_t bucket_of(State* state, int64_t hash_) noexcept nogil:
    # The high bits: a product carries upwards, so the low ones know little of keys that end in zeros (whole doubles do).
    return <int64_t>(<uint64_t>hash_ >> state.shift)

cdef inline void release(State* state, int64_t instance) noexcept nogil:
    # An unlinked instance's place may be used again.
    (state.data + instance * state.width)[NEXT] = state.free_head
    state.free_head = instance

cdef inline bint beyond(int64_t start, int64_t tick, int64_t window) noexcept nogil:
    # Is tick - start + 1 larger than the window? Written without overflow.
    if window == INT64_MAX:
        return False
    return window <= 0 or <uint64_t>tick - <uint64_t>start >= <uint64_t>window
