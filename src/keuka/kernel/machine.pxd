# The data dictionary of a running machine: what moves. The static arrays are described in rows.pxd.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.bytecode cimport CHUNK, Column, Frame, Instruction
from keuka.kernel.buffers cimport Buffer, Flags
from keuka.kernel.rows cimport Rows
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
    BYTES_A_CONTRIBUTOR = 320 # that it takes on its way out of the kernel: words, hashes, and texts of stream and id while they are made
    ROW_HANDLE = 5           # type of slots whose value is not the kernel's (layout.py)
    LARGE = 2048             # keys beyond which memory is fetched ahead
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

cdef struct Fault:        # where an overflow happened
    int64_t program
    int64_t stream
    int64_t row
    int64_t tick

cdef struct Frames:       # registers
    Frame state           # one lane
    Frame edge            # one lane more, for programs that run while another one does
    Frame wide            # CHUNK lanes
    int64_t n_registers
    int64_t n_wide

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
    int64_t n_shared      # nodes made of the batch before the first unit that can stop in the middle
    int64_t n_left        # by the last sweep between two turns of matches

cdef class Machine

cdef class Operators:
    # The operators of one kind, as a machine runs them. Each kind derives its own; what it does not say is as of a kind that holds nothing.
    # Numbers are the kind's own. In Python a kind also has `usage(number)`: what a part holds, the most it ever held, bytes; and what its
    # Stores call. The other half of a kind, what the forest knows of it, is described in operators.py.
    cdef place(self, Machine machine, object rows)  # the forest changed; `rows` are what the other half gave
    cdef void reset(self) noexcept nogil            # a batch begins; the last one may have ended in the middle
    cdef Status run(self, Machine machine, int64_t number) noexcept nogil  # one unit; MORE: again, when its matches are taken
    cdef bint next_deadline(self, int64_t* tick) noexcept nogil  # the first tick at which something happens without events; False: never
    cdef int64_t n_bytes(self) noexcept nogil       # of what is held
    cdef int64_t n_batch_bytes(self) noexcept nogil # of what was computed for the last batch
    cdef bint collect(self, int64_t slot_type, Buffer* found) noexcept nogil  # values of this type that are held; False when memory is out
    cdef void visit_nodes(self, Machine machine, int64_t* place, bint move) noexcept nogil  # `visit` each node that is held

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
    cdef readonly list operators       # by kind
    cdef PyObject** of_kind            # the same, for those without the GIL
    # The batch at hand.
    cdef list bound                    # its arrays, kept alive while it runs
    cdef list owner_columns            # which rows are whose: by stream [(column, is it a double?)]
    cdef int64_t shard                 # of the rows that are this machine's
    cdef int64_t upto                  # the batch is all there is up to this tick
    cdef int64_t unit                  # the one at hand
    cdef public bint in_turns          # do matches come in turns, if there are many? Several machines would mix up their order
    cdef readonly bint has_more        # the batch goes on when its matches are taken
    cdef Buffer touched                # streams of operators with rows that were not taken yet
    cdef Buffer filled                 # those with rows in this batch
    cdef Buffer taken                  # row handles that instances of this batch hold
    cdef Frames frames
    cdef Lineage lineage
    # What the step at hand may take.
    cdef public int64_t room           # bytes
    cdef public double deadline        # in seconds of the monotonic clock; infinite if there is none
    cdef bint refused                  # was the room not enough?
    cdef bint stop                     # set from another thread
    cdef int64_t work                  # programs since signals were looked at
    cdef int64_t n_text_bytes          # of the forest's strings, when the step began
    cdef int64_t held                  # bytes, as of the last step; -1: to be measured
    cdef Fault fault

    cdef follow(self)
    cdef grow_arrays(self)
    cdef place_streams(self)
    cdef place_result(self, int64_t stream)
    cdef reserve_registers(self)
    cdef fail(self, Status status)
    cdef void begin_counting(self) noexcept
    cdef void end_counting(self) noexcept
    cdef void reset(self) noexcept nogil

cdef enlarge(void* place, int64_t n_old, int64_t n_new, int64_t size)
cdef void empty_result(Result* result) noexcept nogil
cdef Status look_for_signals(Machine machine) noexcept nogil
cdef void free_frame(Frame* frame) noexcept
cdef reserve_frame(Frame* frame, int64_t n)
cdef void free_result(Result* result) noexcept
cdef void free_rows(Result* result) noexcept nogil
cdef void free_words(Buffer* buffer) noexcept nogil
cdef int64_t result_bytes(Result* result) noexcept

cdef inline Status count_work(Machine machine, int64_t n_programs) noexcept nogil:
    # Every loop counts what it does, so that Ctrl-C and a deadline end any of them.
    machine.work += n_programs
    return look_for_signals(machine) if machine.work >= SIGNALS_AFTER else Status.FINE

cdef inline void visit(int64_t* node, int64_t* place, bint move) noexcept nogil:
    # Mark a node, or give it its new number. What is from before contributors were wanted has none.
    if node[0] >= 0:
        if move:
            node[0] = place[node[0]]
        else:
            place[node[0]] = 0

cdef inline const Instruction* code_of(Machine machine, int64_t program) noexcept nogil:
    return &machine.rows.code[machine.rows.program[program].first_instruction]

cdef inline Status overflow(Machine machine, int64_t program, const View* view, int64_t row) noexcept nogil:
    machine.fault = Fault(program=program, stream=view.number, row=row, tick=view.ends[row])
    return Status.OVERFLOW
