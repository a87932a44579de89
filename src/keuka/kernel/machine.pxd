# The data dictionary of a running machine: what moves. The static arrays are described in rows.pxd.
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.bytecode cimport CHUNK, Column, Frame, Instruction
from keuka.kernel.buffers cimport Buffer, Flags
from keuka.kernel.instances cimport Pool, Sieve
from keuka.kernel.rows cimport Rows
from keuka.kernel.stacks cimport Sequence
from keuka.kernel.strings cimport StringTable

cpdef enum Status:
    FINE = 0
    NO_MEMORY = 1
    OVERFLOW = 2
    INTERRUPTED = 3
    MORE = 4  # matches are to be taken before the batch goes on
    OUT_OF_TIME = 5

cpdef enum:
    SIGNALS_AFTER = 1048576  # programs run between two looks at signals; some 50 ms
    LANES_A_PROGRAM = 16     # rows of a column that take about the time of one program
    INSTANCES_A_PROGRAM = 8  # that an event passes by, because it does not follow them
    BYTES_A_CONTRIBUTOR = 320 # that it takes on its way out of the kernel: words, hashes, and texts of stream and id while they are made
    ROW_HANDLE = 5           # type of slots whose value is not the kernel's (layout.py)
    MOST_APART = 16          # simultaneous events whose keys are compared with each other
    LARGE = 2048             # keys of a state beyond which memory is fetched ahead
    MANY_ROWS = 65536        # of an output, beyond which its memory is given back after a burst
    AHEAD = 12               # rows between fetching a key's entry and using it

cdef struct View:         # the rows of one stream in the batch at hand
    int64_t number        # of the stream
    int64_t n_rows
    const int64_t* starts
    const int64_t* ends
    const int64_t* lineage  # node of each row; for a source: the event's number
    bint is_source
    int64_t low           # rows low..high belong to the epoch at hand
    int64_t high

cdef struct Result:       # the output of one operator for one batch
    int64_t serial        # of the operator; 0 if the number of the stream is no operator's
    Buffer starts
    Buffer ends
    Buffer lineage
    int64_t n_columns
    Buffer* columns
    Flags* flags

cdef struct Computed:     # a column computed per batch
    Buffer values
    Flags flags

cdef struct StreamPart:
    View view
    Result result         # of an operator
    Flags owner           # by row: the machine that runs it; what this machine computed
    const uint8_t* owner_data

cdef struct HashPart:     # of the keys of candidates
    Buffer values         # by row, what this machine computed; 0: no candidate
    const int64_t* data   # where to read it
    Sieve sieve

cdef struct PortPart:     # a stream as a group reads it
    Flags fires           # by row: does a start look at it? What this machine computed
    const uint8_t* data   # where to read it

cdef struct Fault:        # where an overflow happened
    int64_t program
    int64_t stream
    int64_t row
    int64_t tick

cdef class Machine:
    cdef readonly object forest
    cdef readonly StringTable strings
    cdef list bound               # of the batch, kept alive while it runs
    cdef Rows rows                     # the static arrays of the forest
    cdef int64_t version               # of the forest, that was taken over
    # By number of the forest; these arrays only grow.
    cdef int64_t n_streams
    cdef int64_t n_columns
    cdef int64_t n_hashes
    cdef readonly int64_t n_states
    cdef StreamPart* streams
    cdef Column* columns
    cdef Computed* computed            # by column
    cdef HashPart* hashes
    cdef Pool* pools                   # by state
    cdef readonly int64_t n_sequences
    cdef Sequence* sequences           # by number of the forest
    cdef list sequence_arrays          # what they point into
    cdef int64_t n_allocated_groups
    cdef int64_t n_allocated_ports
    cdef Buffer* live                  # by group: states that may have instances
    cdef PortPart* ports               # by port of a group
    # Which rows of the sources are this machine's.
    cdef list owner_columns            # by stream: [(column, is it a double?)]
    cdef int64_t shard
    cdef Buffer own_rows               # of the stream at hand
    cdef Frame frame                   # one lane, for programs of states
    cdef Frame edge_frame              # one lane, for edges
    cdef Frame wide                    # CHUNK lanes
    cdef int64_t n_registers
    cdef int64_t n_wide
    cdef Buffer image                  # an instance on its way into a pool
    cdef int64_t epoch                 # mark of instances that go at its end; those who choose by history have several a tick
    cdef int64_t epoch_began           # the first of them
    cdef bint only_skip                # is the instance at hand gone already, to an event with an earlier history?
    cdef int64_t now                   # the last tick that was run
    cdef int64_t upto                  # the batch is all there is up to this tick
    cdef int64_t unit                  # the one at hand
    cdef public bint in_turns          # do matches come in turns, if there are many? Several machines would mix up their order
    cdef readonly bint has_more        # the batch goes on when its matches are taken
    cdef int64_t n_shared_nodes        # made of the batch before the first sequence that nobody reads
    cdef int64_t n_left_nodes          # by the last sweep between two turns of matches
    cdef bint single                   # has the epoch at hand one event only?
    cdef bint affected                 # what became of the instance at hand
    cdef bint rebound
    cdef bint track
    cdef bint by_history               # are the times of contributors kept?
    cdef Buffer pending                # (state, words) of instances that appear at the end of the epoch
    cdef Buffer dead                   # (state, hash) of keys with instances that go at the end of the epoch
    cdef Buffer crowded                # states to look for expired instances in
    cdef Buffer touched                # streams of operators with rows that were not taken yet
    cdef Buffer filled                 # those with rows in this batch
    cdef Buffer nodes                  # (left, right, tag) of contributors
    cdef Buffer times                  # by node: start and end of the event it adds, or 1, 0 if that is not a primitive one
    cdef Buffer node_stack
    cdef Buffer histories              # of the rows of an epoch, each from the end: end, start, end before, ...
    cdef Buffer history_ends           # by row of the epoch: where its history ends
    cdef Buffer ranked                 # (row, rank), by rank
    cdef Buffer merged
    cdef Buffer taken                  # row handles that instances of this batch hold
    cdef int64_t work                  # programs since signals were looked at
    cdef Status reason                 # why a test of a sequence could not be made
    cdef public int64_t room           # bytes that the step at hand may still take
    cdef public double deadline        # of the step at hand, in seconds of the monotonic clock; infinite if there is none
    cdef bint refused                  # was the room not enough?
    cdef int64_t n_text_bytes          # of the forest's strings, when the step began
    cdef int64_t held                  # bytes, as of the last step; -1: to be measured
    cdef bint stop                     # set from another thread
    cdef Fault fault

    cdef follow(self)
    cdef grow_arrays(self)
    cdef place_pools(self)
    cdef place_sequences(self)
    cdef place_sequence(self, int64_t number)
    cdef place_result(self, int64_t stream)
    cdef reserve_registers(self)
    cdef fail(self, Status status)
    cdef void begin_counting(self) noexcept
    cdef void end_counting(self) noexcept
    cdef void reset(self) noexcept nogil

cdef inline const Instruction* code_of(Machine machine, int64_t program) noexcept nogil:
    return &machine.rows.code[machine.rows.program[program].first_instruction]

cdef inline Status overflow(Machine machine, int64_t program, const View* view, int64_t row) noexcept nogil:
    machine.fault = Fault(program=program, stream=view.number, row=row, tick=view.ends[row])
    return Status.OVERFLOW
