# Sequences of all combinations while they run. What a sequence has stacked is in a ring for each component, and
# by key it is known where each stack ends.
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from keuka.kernel.buffers cimport Buffer
from keuka.kernel.hashing cimport HASH_SEED, mix
from keuka.kernel.machine cimport Status

# The static arrays: each sequence has its own.
cdef struct ComponentRow:
    int64_t is_negated
    int64_t is_keyed      # 2: no other positive component has the key, so that an event without one can be part of matches
    int64_t first_only
    int64_t negated_before   # component; -1: none
    int64_t positive_before
    int64_t first_slot
    int64_t n_slots
    int64_t kept_for      # ticks; INT64_MAX: for ever

cdef struct FeedRow:      # a stream as a component reads it
    int64_t stream
    int64_t port
    int64_t gate          # column; -1: none
    int64_t key           # column; -1: none
    int64_t hash
    int64_t first_column  # in feed_columns
    int64_t tag
    int64_t is_primitive
    int64_t component

cdef struct LevelRow:
    int64_t component
    int64_t first_test
    int64_t n_tests
    int64_t first_absence
    int64_t n_absences

cdef struct TestRow:
    int64_t program
    int64_t alternative   # -1: every one

cdef struct AbsenceRow:
    int64_t component
    int64_t scope
    int64_t alternative   # -1: every one
    int64_t program       # -1: none
    int64_t bounds        # does it only limit how far back the search of its level goes?

cdef struct Description:  # one row of each kind, so that Python can read the names of their fields
    ComponentRow component
    FeedRow feed
    LevelRow level
    TestRow test
    AbsenceRow absence

# Words of a stacked event: header, then its slots, then one flag byte per slot. Events are numbered along their ring.
cpdef enum:
    EVENT_END = 0
    EVENT_START = 1
    EVENT_BELOW = 2   # the event below it on its stack: of its key; smaller than the ring's tail if there is none any more
    EVENT_RIP = 3     # the topmost event of the positive component before its own, when it came; UNKNOWN if that has another key
    EVENT_ABSENT = 4  # the same of the negated component right before its own
    EVENT_NODE = 5    # in the arena of contributors, or -1
    EVENT_KEY = 6     # 0 without a key
    EVENT_TAG = 7     # which occurrence of a source it came through, times four; IS_PRIMITIVE and WITHOUT_KEY are added
    EVENT_HEADER = 8

cpdef enum:
    IS_PRIMITIVE = 1
    WITHOUT_KEY = 2       # its key is null

cpdef enum:
    UNKNOWN = -2
    DROPPED = -3          # in place of EVENT_BELOW: the event is gone, but older ones of its ring are not
    FEWEST = 16           # places of a ring, entries of a table of keys

cdef struct Ring:
    int64_t* data         # ((mask + 1) * width,), NULL before the first event
    int64_t width         # words per event
    int64_t n_slots
    int64_t mask          # number of places - 1
    int64_t tail          # number of the oldest event that is kept
    int64_t head          # number of the next one

cdef struct Keys:         # open addressing; an entry is (hash, key, top of the stack of each component)
    int64_t* entries      # (n_entries * width,); hash 0: free
    int64_t width
    int64_t n_entries     # a power of two, or 0
    int64_t shift         # 64 - log2(n_entries)
    int64_t n_used

cpdef enum:
    BETWEEN = 0
    BEFORE = 1
    AFTER = 2

cpdef enum:
    ORDERED = 1
    RIPS = 2
    WINDOW_EARLY = 8
    WAITS = 16

cpdef enum:               # what comes of a condition
    NO = 0
    YES = 1
    FAILED = 2            # an overflow
    STOPPED = 3

cpdef enum:
    MATCH_CHUNK = 131072  # matches after which those who only deliver them get a turn

cdef struct First:        # an event of the first component that occurs
    int64_t end
    int64_t number

cdef struct Queue:        # in the order of time
    Buffer firsts         # of First
    int64_t n_past        # those in front that are gone

cdef struct Bound:        # the event of a component in the combination at hand
    int64_t end
    int64_t start
    int64_t rip
    int64_t absent
    int64_t node          # -1: not made yet
    int64_t tag           # as EVENT_TAG

cdef struct PortRows:     # the rows of a stream that are events of some component
    Buffer rows
    Buffer masks          # by row: a bit for each feed
    int64_t n
    int64_t low           # low..high belong to the epoch at hand
    int64_t high

cdef struct Sequence:
    int64_t serial        # which sequence it is: numbers are used again
    int64_t stream        # of its matches
    bint is_read          # by others, that need whole epochs
    int64_t n_components
    int64_t n_positive
    int64_t n_ports
    int64_t n_feeds
    int64_t n_slots
    int64_t within
    int64_t settings
    int64_t n_alternatives
    bint key_is_double
    int64_t key_type      # as column_type of layout.py; -1: no key
    int64_t program       # computes the payload; -1: it is copied
    int64_t n_items
    const ComponentRow* components
    const FeedRow* feeds
    const int64_t* feed_columns
    const LevelRow* levels
    const TestRow* tests
    const AbsenceRow* absences
    const int64_t* items
    const int64_t* ports
    const int64_t* slot_types
    bint carries          # is a slot a row handle?
    Ring* rings           # by component
    Queue waiting         # first events whose windows will end
    Queue arrived         # those of them that came from another kernel, and are older than others that were here
    Keys keys
    int64_t* shared       # by component: the top of the stack, of components without the key
    int64_t* nothing      # by component: -1, the tops of a key without events
    PortRows* port_rows
    Buffer masks          # by row of the port at hand
    # The combination at hand.
    int64_t* values       # (n_slots,) of all bound events
    uint8_t* flags
    Bound* bound          # by component
    int64_t* cursor       # by level: the event to look at next
    int64_t* low          # by level: events that ended before this tick are too old
    uint64_t* alive       # by level: alternatives that can still be satisfied
    int64_t* since        # by level: the smallest start so far
    uint64_t* failed      # by level: those of them in which something could not be calculated
    int64_t fault_program
    Status reason         # why a condition could not be tested
    bint is_searching
    bint by_deadline      # is it the end of a window that completes matches?
    int64_t level
    int64_t floor         # the search is over when it would go back behind this level
    int64_t search        # first level of the search
    int64_t root          # component of the event that completes matches
    int64_t root_event    # by deadline: its number
    int64_t root_stream
    int64_t root_row
    int64_t tick          # end of the matches
    const int64_t* own    # tops of the key at hand
    # The batch at hand.
    bint is_open
    bint in_epoch
    bint is_pushing       # of an epoch in any order: searches first, then all events are stacked
    int64_t at_feed       # the feed to do next, plus one
    int64_t at_row        # its next row, from the epoch's first
    bint is_single        # has the epoch one row only? Then:
    int64_t only_row
    uint64_t only_mask    # its feeds
    uint64_t mask         # those of them that are still to do
    int64_t n_events      # that are stacked
    int64_t most_events

cdef bint add_event(Ring* ring) noexcept nogil
cdef bint shrink_ring(Ring* ring) noexcept nogil
cdef bint add_key(Keys* keys, const Ring* rings, int64_t n_rings, uint64_t hash_, int64_t key, int64_t** tops) noexcept nogil
cdef bint tidy_keys(Keys* keys, const Ring* rings, int64_t n_rings) noexcept nogil

cdef int64_t* new_event(Sequence* seq, int64_t component, int64_t* tops, uint64_t hash_, int64_t key, int64_t tick) noexcept nogil
cdef void drop_event(Sequence* seq, int64_t component, int64_t number) noexcept nogil
cdef void shrink_queue(Sequence* seq, Queue* queue) noexcept nogil
cdef bint add_waiting(Sequence* seq, int64_t end, int64_t number) noexcept nogil
cdef void clear_sequence(Sequence* seq) noexcept nogil
cdef void prune(Sequence* seq, int64_t now) noexcept nogil
cdef bint place_event(Sequence* seq, int64_t component, const int64_t* words) noexcept nogil
cdef void free_sequence(Sequence* seq) noexcept nogil
cdef int64_t* tops_of(Sequence* seq, int64_t key, bint is_null) noexcept
cdef list copy_stacked(Sequence* seq, keys)
cdef put_stacked(Sequence* seq, list arriving)
cdef stack_again(Sequence* seq, list events)
cdef clear_stacks(Sequence* seq)
cdef drop_stacked(Sequence* seq, keys)
cdef bint place_events(Ring* ring, int64_t n_places) noexcept nogil
cdef bint place_keys(Keys* keys, const Ring* rings, int64_t n_rings, int64_t n_more) noexcept nogil
cdef bint is_alive(const int64_t* entry, const Ring* rings, int64_t n_rings) noexcept nogil
cdef int64_t* free_entry(Keys* keys, uint64_t hash_) noexcept nogil

cdef inline int64_t* event_at(const Ring* ring, int64_t number) noexcept nogil:
    return ring.data + (number & ring.mask) * ring.width

cdef inline bint is_dropped(const int64_t* words) noexcept nogil:
    return words[<int>EVENT_BELOW] == <int>DROPPED

cdef inline int64_t first_component(const Sequence* seq) noexcept nogil:
    # Of those that occur.
    return 1 if seq.components[0].is_negated else 0

cdef inline First* first_at(const Queue* queue, int64_t place) noexcept nogil:
    return <First*>queue.firsts.data + place

cdef inline int64_t count_firsts(const Queue* queue) noexcept nogil:
    return queue.firsts.size // <int64_t>(sizeof(First) // 8)

cdef inline int64_t* find_key(const Keys* keys, uint64_t hash_, int64_t key) noexcept nogil:
    # The tops of its stacks, or NULL.
    cdef int64_t position
    cdef int64_t* entry
    if keys.n_entries == 0:
        return NULL
    position = <int64_t>(hash_ >> keys.shift)
    while True:
        entry = keys.entries + position * keys.width
        if entry[0] == 0:
            return NULL
        if <uint64_t>entry[0] == hash_ and entry[1] == key:
            return entry + 2
        position = (position + 1) & (keys.n_entries - 1)

cdef inline uint64_t hash_of(int64_t key) noexcept nogil:
    # As batches.py computes it for a column.
    return mix(HASH_SEED, key) | 1

cdef inline uint64_t hash_of_event(const int64_t* words) noexcept nogil:
    # Events without a key have a place of their own, which no key has: 1 is not the hash of 0.
    return 1 if words[<int>EVENT_TAG] & <int>WITHOUT_KEY else hash_of(words[<int>EVENT_KEY])

cdef inline First* front(const Sequence* seq, Queue* queue) noexcept nogil:
    # The oldest event of a queue that is still there; NULL if there is none.
    cdef const Ring* ring = seq.rings + first_component(seq)
    cdef First* first
    while queue.n_past < count_firsts(queue):
        first = first_at(queue, queue.n_past)
        if first.number >= ring.tail and not is_dropped(event_at(ring, first.number)):
            return first
        queue.n_past += 1
    queue.n_past = queue.firsts.size = 0
    return NULL

cdef inline First* next_waiting(Sequence* seq) noexcept nogil:
    # The oldest first event whose window will end; NULL if there is none.
    cdef First* first = front(seq, &seq.waiting)
    cdef First* other = NULL
    if seq.arrived.firsts.size > 0:
        other = front(seq, &seq.arrived)
    return first if other == NULL or (first != NULL and first.end <= other.end) else other

cdef inline bint is_past(int64_t end, int64_t now, int64_t kept_for) noexcept nogil:
    # Is now - end at least so much? Written without overflow; end is not after now.
    return kept_for != INT64_MAX and <uint64_t>now - <uint64_t>end >= <uint64_t>kept_for

cdef inline void drop_old(Sequence* seq, int64_t component, int64_t now) noexcept nogil:
    # Forget the events of a component that can be part of no match any more.
    cdef Ring* ring = seq.rings + component
    cdef const int64_t* words
    while ring.tail < ring.head:
        words = event_at(ring, ring.tail)
        if not is_dropped(words):
            if not is_past(words[<int>EVENT_END], now, seq.components[component].kept_for):
                return
            seq.n_events -= 1
        ring.tail += 1

cdef inline int64_t earlier(const Ring* ring, int64_t number, int64_t tick) noexcept nogil:
    # The topmost event of a stack, from this one down, that ended before the tick; smaller than the tail if there is none.
    while number >= ring.tail and event_at(ring, number)[<int>EVENT_END] >= tick:
        number = event_at(ring, number)[<int>EVENT_BELOW]
    return number

cdef inline int64_t top_before(Sequence* seq, int64_t component, int64_t before, const int64_t* tops, int64_t tick) noexcept nogil:
    # Where the stack of an earlier component ends, for an event of this one. UNKNOWN if only the earlier one has the key.
    if not seq.components[before].is_keyed:
        return earlier(seq.rings + before, seq.shared[before], tick)
    if not seq.components[component].is_keyed:
        return <int>UNKNOWN
    return -1 if tops == NULL else earlier(seq.rings + before, tops[before], tick)
