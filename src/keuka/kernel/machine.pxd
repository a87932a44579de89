# The data dictionary of a running machine. The static arrays are described in forest.py; here is what moves.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from keuka.kernel.bytecode cimport AFFECT, CHUNK, Column, EMIT, END, FORWARD, Frame, IS_ERROR, IS_NULL, JUMP_UNLESS
from keuka.kernel.buffers cimport Buffer, Flags
from keuka.kernel.instances cimport Pool, Sieve
from keuka.kernel.strings cimport StringTable

cpdef enum Status:
    FINE = 0
    NO_MEMORY = 1
    OVERFLOW = 2
    INTERRUPTED = 3

cpdef enum:
    SIGNALS_AFTER = 1048576  # programs run between two looks at signals; some 50 ms
    ROW_HANDLE = 5           # type of slots whose value is not the kernel's (layout.py)
    MOST_APART = 16          # simultaneous events whose keys are compared with each other
    LARGE = 2048             # keys of a state beyond which memory is fetched ahead
    AHEAD = 12               # rows between fetching a key's entry and using it

cdef struct View:         # the rows of one stream in the batch at hand
    int64_t n_rows
    const int64_t* starts
    const int64_t* ends
    const int64_t* lineage  # node of each row; for a source: the event's number
    bint is_source
    int64_t low           # rows low..high belong to the epoch at hand
    int64_t high

cdef struct Result:       # the output of one operator for one batch
    Buffer starts
    Buffer ends
    Buffer lineage
    int64_t n_columns
    Buffer* columns
    Flags* flags

cdef struct Computed:     # a column computed per batch
    Buffer values
    Flags flags

cdef struct Fault:        # where an overflow happened
    int64_t program
    int64_t stream
    int64_t row
    int64_t tick

cdef class Machine:
    cdef readonly object forest
    cdef readonly StringTable strings
    cdef int64_t version
    cdef list arrays              # of the forest, kept alive
    cdef list bound               # of the batch, kept alive while it runs
    # The forest's rows, and how they hang together.
    cdef const int64_t* stream_rows    # 3 words each
    cdef const int64_t* column_rows    # 4
    cdef const int64_t* hash_rows      # 4
    cdef const int64_t* state_rows     # 10
    cdef const int64_t* edge_rows      # 3
    cdef const int64_t* start_rows     # 3
    cdef const int64_t* program_rows   # 3
    cdef const int64_t* hash_keys      # 2
    cdef const int64_t* keys           # 3
    cdef const int64_t* slot_types
    cdef const int32_t* code           # 5
    cdef const int32_t* operands
    cdef const int64_t* group_rows     # 6
    cdef const int64_t* group_ports
    cdef const int64_t* group_states
    cdef const int64_t* group_starts
    cdef const int64_t* derived_first  # (n_streams + 1,) into derived_columns
    cdef const int64_t* derived_columns
    cdef const int64_t* hash_first     # (n_streams + 1,) into hashes_of
    cdef const int64_t* hashes_of
    cdef const int64_t* port_first     # (n_streams + 1,) into ports_of
    cdef const int64_t* ports_of       # places in group_ports
    cdef const int64_t* port_group     # by place in group_ports
    cdef int64_t n_groups
    cdef int64_t n_ports
    # By number of the forest; these arrays only grow.
    cdef int64_t n_streams
    cdef int64_t n_columns
    cdef int64_t n_hashes
    cdef readonly int64_t n_states
    cdef View* views
    cdef Result* results
    cdef Column* columns
    cdef Computed* computed            # by column
    cdef Buffer* hashes                # by hash, of the batch: what this machine computed
    cdef const int64_t** hash_data     # by hash: where to read it
    cdef Sieve* sieves                 # by hash
    cdef Pool* pools                   # by state
    # By group, and by port of a group.
    cdef Buffer* live                  # states that may have instances
    cdef Flags* fires                  # by row: does a start look at it?
    cdef const uint8_t** fire_data
    cdef int64_t n_allocated_groups
    cdef int64_t n_allocated_ports
    # Which rows of the sources are this machine's.
    cdef Flags* owners                 # by stream, by row: the machine that runs it; what this machine computed
    cdef const uint8_t** owner_data
    cdef list owner_columns            # by stream: [(column, is it a double?)]
    cdef int64_t shard
    cdef Frame frame                   # one lane, for programs of states
    cdef Frame edge_frame              # one lane, for edges
    cdef Frame wide                    # CHUNK lanes
    cdef int64_t n_registers
    cdef int64_t n_wide
    cdef Buffer image                  # an instance on its way into a pool
    cdef int64_t epoch
    cdef int64_t now                   # the last tick that was run
    cdef bint single                   # has the epoch at hand one event only?
    cdef bint affected                 # what became of the instance at hand
    cdef bint rebound
    cdef bint track
    cdef Buffer pending                # (state, words) of instances that appear at the end of the epoch
    cdef Buffer dead                   # (state, hash) of keys with instances that go at the end of the epoch
    cdef Buffer crowded                # states to look for expired instances in
    cdef Buffer touched                # streams of operators with rows in this batch
    cdef Buffer nodes                  # (left, right, tag) of contributors
    cdef Buffer taken                  # row handles that instances of this batch hold
    cdef int64_t work                  # programs since signals were looked at
    cdef bint stop                     # set from another thread
    cdef Fault fault

    cdef follow(self)
    cdef place_arrays(self)
    cdef grow_arrays(self)
    cdef place_pools(self)
    cdef reserve_registers(self)
    cdef bind(self, int64_t stream, object given)
    cdef fail(self, Status status)
    cdef void reset(self) noexcept nogil
    cdef Status compute_rows(self, Machine leader, int64_t part, int64_t n_parts) noexcept nogil
    cdef Status compute_stream(self, Machine leader, int64_t stream, int64_t low, int64_t high) noexcept nogil
    cdef bint reserve_stream(self, int64_t stream) noexcept nogil
    cdef Status compute_derived(self, Machine leader, int64_t column, int64_t low, int64_t high) noexcept nogil
    cdef void compute_hash(self, Machine leader, int64_t which, int64_t low, int64_t high) noexcept nogil
    cdef void compute_fires(self, Machine leader, int64_t port, int64_t low, int64_t high) noexcept nogil
    cdef Status run_groups(self) noexcept nogil
    cdef bint count_keys(self, int64_t which) noexcept nogil
    cdef Sieve* place_hashes(self, int64_t group) noexcept nogil
    cdef Status take_result(self, int64_t stream) noexcept nogil
    cdef Status run_one_port(self, int64_t group, int64_t port, Sieve* sieve) noexcept nogil
    cdef bint finds_some(self, Buffer* live, int64_t row) noexcept nogil
    cdef void fetch_ahead(self, Buffer* live, int64_t row) noexcept nogil
    cdef bint are_apart(self, Buffer* live, int64_t* rows, int64_t n) noexcept nogil
    cdef Status run_ports(self, int64_t group) noexcept nogil
    cdef Status run_epoch(self, int64_t group) noexcept nogil
    cdef Status run_row(self, int64_t group, int64_t stream, int64_t row, bint fires) noexcept nogil
    cdef Status run_starts(self, int64_t group, int64_t stream, int64_t row) noexcept nogil
    cdef Status probe(self, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
    cdef Status probe_alone(self, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
    cdef bint has_key(self, Pool* pool, int64_t position, uint64_t hash_, int64_t row) noexcept nogil
    cdef Status meet(self, int64_t state, Pool* pool, int64_t* words, View* view, int64_t row) noexcept nogil
    cdef Status follow_edge(self, int64_t program, View* view, int64_t row, const int64_t* words, Pool* pool, int64_t* node) noexcept nogil
    cdef Status emit(self, const int32_t* ins, Frame* frame, View* view, int64_t row, int64_t start, int64_t born, int64_t node) noexcept nogil
    cdef Status emit_row(self, const int32_t* ins, Frame* frame, int64_t start, int64_t end, int64_t node) noexcept nogil
    cdef Status add_instance(self, int64_t state, const int64_t* words) noexcept nogil
    cdef Status add_later(self, int64_t state, const int64_t* words) noexcept nogil
    cdef int64_t new_node(self, View* view, int64_t row, int64_t parent, int64_t tag) noexcept nogil
    cdef Status end_epoch(self) noexcept nogil
    cdef Status look_for_signals(self) noexcept nogil
    cdef Status note_fault(self, int64_t program, int64_t row) noexcept nogil
