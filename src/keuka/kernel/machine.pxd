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

cdef struct Frames:       # registers
    Frame state           # one lane, for programs of states and sequences
    Frame edge            # one lane, for edges
    Frame wide            # CHUNK lanes
    int64_t n_registers
    int64_t n_wide

cdef struct Epoch:        # what becomes of the instances of automata in the epoch at hand
    int64_t mark          # of instances that go at its end; those who choose by history have several a tick
    int64_t began         # the first of them
    bint is_single        # has it one event only?
    bint only_skip        # is the instance at hand gone already, to an event with an earlier history?
    bint affected         # what became of the instance at hand
    bint rebound
    Buffer image          # an instance on its way into a pool
    Buffer pending        # (state, words) of instances that appear at its end
    Buffer dead           # (state, hash) of keys with instances that go at its end
    Buffer crowded        # states to look for expired instances in

cdef struct Lineage:      # contributors of instances and matches
    bint is_wanted
    bint by_history       # are the times of contributors kept?
    Buffer nodes          # (left, right, tag)
    Buffer times          # by node: start and end of the event it adds, or 1, 0 if that is not a primitive one
    Buffer stack
    Buffer histories      # of the rows of an epoch, each from the end: end, start, end before, ...
    Buffer history_ends   # by row of the epoch: where its history ends
    Buffer ranked         # (row, rank), by rank
    Buffer merged
    int64_t n_shared      # nodes made of the batch before the first sequence that nobody reads
    int64_t n_left        # by the last sweep between two turns of matches

cdef struct Automata:
    int64_t n_states      # these arrays only grow
    int64_t n_groups
    int64_t n_ports
    Pool* pools           # by state
    Buffer* live          # by group: states that may have instances
    PortPart* ports       # by port of a group

cdef class Machine:
    cdef readonly object forest
    cdef readonly StringTable strings
    cdef Rows rows                     # the static arrays of the forest
    cdef int64_t version               # of the forest, that was taken over
    # By number of the forest; these arrays only grow.
    cdef int64_t n_streams
    cdef int64_t n_columns
    cdef int64_t n_hashes
    cdef StreamPart* streams
    cdef Column* columns
    cdef Computed* computed            # by column
    cdef HashPart* hashes
    cdef Automata automata
    cdef int64_t n_sequences
    cdef Sequence* sequences
    cdef list sequence_arrays          # what they point into
    # The batch at hand.
    cdef list bound                    # its arrays, kept alive while it runs
    cdef list owner_columns            # which rows are whose: by stream [(column, is it a double?)]
    cdef int64_t shard                 # of the rows that are this machine's
    cdef Buffer own_rows               # of the stream at hand
    cdef int64_t now                   # the last tick that was run
    cdef int64_t upto                  # the batch is all there is up to this tick
    cdef int64_t unit                  # the one at hand
    cdef public bint in_turns          # do matches come in turns, if there are many? Several machines would mix up their order
    cdef readonly bint has_more        # the batch goes on when its matches are taken
    cdef Buffer touched                # streams of operators with rows that were not taken yet
    cdef Buffer filled                 # those with rows in this batch
    cdef Buffer taken                  # row handles that instances of this batch hold
    cdef Frames frames
    cdef Epoch epoch
    cdef Lineage lineage
    # What the step at hand may take.
    cdef public int64_t room           # bytes
    cdef public double deadline        # in seconds of the monotonic clock; infinite if there is none
    cdef bint refused                  # was the room not enough?
    cdef bint stop                     # set from another thread
    cdef int64_t work                  # programs since signals were looked at
    cdef int64_t n_text_bytes          # of the forest's strings, when the step began
    cdef int64_t held                  # bytes, as of the last step; -1: to be measured
    cdef Status reason                 # why a test of a sequence could not be made
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
