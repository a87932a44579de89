# The instances of one state, by key: those of one key lie next to each other. What runs per event is inline here.
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from keuka.kernel.buffers cimport Buffer
from keuka.kernel.bytecode cimport Instruction

cdef struct KeyRow:       # an equality that finds instances
    int64_t column
    int64_t slot
    int64_t is_double

# Words of an instance: header, then its slots, then one flag byte per slot.
cpdef enum:
    START = 0    # start tick
    FINISH = 1   # end tick: a candidate follows if its start is larger
    BORN = 2     # end tick of the event that it began with
    MARK = 3     # epoch in which a candidate affected it
    LINEAGE = 4  # node in the arena of contributors
    HEADER = 5

cpdef enum:
    LARGEST_CLASS = 48
    INSTANCES_A_PROGRAM = 8  # that an event passes by, because it does not follow them, in the time of a program

cdef struct Entry:        # one key, in a table with open addressing
    uint64_t hash         # never 0; 0: the place is free
    int64_t block         # word of `data` where its instances begin
    int32_t n             # instances
    int32_t size_class    # there is room for 2 ** size_class of them

cdef struct Sieve:        # which keys have instances, over all states that look for the same key: most events find none, at the cost of one load
    uint8_t* counts       # (n_cells,) by the high bits of a hash: entries; one that reached 255 stays
    int64_t n_cells       # a power of two; 0: not there yet
    int64_t shift
    int64_t n_keys        # entries counted
    bint stale            # counts may be too high; never are they too low

cdef struct Pool:
    int64_t serial        # which state it serves: numbers of states are used again
    int64_t stream        # where candidates come from
    int64_t program
    const Instruction* code
    int64_t first_edge
    int64_t n_slots
    int64_t n_keys
    const KeyRow* keys    # (n_keys,)
    int64_t window        # a candidate with a larger DUR can lead to no result
    int64_t width         # words per instance
    bint carries          # is a slot a row handle?
    bint primitive        # are the events of the stream primitive ones?
    bint by_history       # of simultaneous candidates, are only those with the earliest history the next?
    const int64_t* slot_types
    int64_t group
    bint listed           # among the states with instances of its group
    Sieve* sieve
    const int64_t* hashes # of the batch, by row: hash of the candidate's key; 0: no candidate
    Entry* entries        # (n_entries,), NULL before the first instance
    int64_t n_entries     # a power of two
    int64_t n_used        # entries in use
    int64_t shift         # 64 - log2(n_entries): the high bits of a hash choose the entry
    int64_t* data         # (capacity,) words
    int64_t size          # words given out, free blocks included
    int64_t capacity
    int64_t free_blocks[LARGEST_CLASS]  # by class: first free block or -1; the first word of a block leads to the next
    int64_t n_live        # instances
    int64_t most_live     # the largest n_live so far
    int64_t sweep_at      # n_live at which expired instances are looked for
    int64_t swept_at      # tick at which they were looked for last

cdef void clear(Pool* pool) noexcept nogil
cdef bint key_of_instance(Pool* pool, const int64_t* words, uint64_t* hash_) noexcept nogil
cdef bint same_key(Pool* pool, const int64_t* words, const int64_t* other) noexcept nogil
cdef bint insert(Pool* pool, const int64_t* words, uint64_t hash_) noexcept nogil
cdef bint reserve(Pool* pool, int64_t n_keys) noexcept nogil
cdef void remove_instance(Pool* pool, Entry* entry, int64_t i) noexcept nogil
cdef void remove_entry(Pool* pool, int64_t position) noexcept nogil
cdef void remove_empty(Pool* pool, uint64_t hash_) noexcept nogil
cdef bint expire(Pool* pool, int64_t tick) noexcept nogil
cdef bint rebuild(Pool* pool) noexcept nogil
cdef bint has_key(const Pool* pool, const int64_t* words, const int64_t[::1] slots, const int64_t[::1] key) noexcept
cdef int64_t find_entry(Pool* pool, const int64_t[::1] slots, const int64_t[::1] key, int64_t position) noexcept
cdef copy_instances(Pool* pool, slots, keys)
cdef bint copy_entry(Pool* pool, int64_t position, Buffer* found) noexcept
cdef drop_entries(Pool* pool, slots, keys)
cdef int64_t allocate(Pool* pool, int size_class) noexcept nogil
cdef bint widen(Pool* pool, Entry* entry) noexcept nogil
cdef bint resize(Pool* pool, int64_t n_entries) noexcept nogil

cdef inline int64_t home_of(Pool* pool, uint64_t hash_) noexcept nogil:
    # The high bits: a product carries upwards, so the low ones know little of keys that end in zeros (whole doubles do).
    return <int64_t>(hash_ >> pool.shift)

cdef inline void give_back(Pool* pool, int64_t block, int size_class) noexcept nogil:
    pool.data[block] = pool.free_blocks[size_class]
    pool.free_blocks[size_class] = block

cdef inline void count_key(Sieve* sieve, uint64_t hash_) noexcept nogil:
    sieve.n_keys += 1
    if sieve.n_cells > 0 and sieve.counts[hash_ >> sieve.shift] < 255:
        sieve.counts[hash_ >> sieve.shift] += 1

cdef inline void uncount_key(Sieve* sieve, uint64_t hash_) noexcept nogil:
    sieve.n_keys -= 1
    if sieve.n_cells > 0 and sieve.counts[hash_ >> sieve.shift] < 255:
        sieve.counts[hash_ >> sieve.shift] -= 1

cdef inline bint is_sparse(Pool* pool) noexcept nogil:
    return pool.capacity > 8 * pool.n_live * pool.width + 16384 or pool.n_entries > 32 * pool.n_used + 1024

cdef inline bint beyond(int64_t start, int64_t tick, int64_t window) noexcept nogil:
    # Is tick - start + 1 larger than the window? Written without overflow.
    if window == INT64_MAX:
        return False
    return window <= 0 or <uint64_t>tick - <uint64_t>start >= <uint64_t>window
