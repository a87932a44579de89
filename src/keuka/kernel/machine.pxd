# The data dictionary of the running kernel. Static tables are described in layout.py; here is what moves.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from keuka.kernel.bytecode cimport AFFECT, CHUNK, Column, END, Frame, IS_ERROR, IS_NULL, JUMP_UNLESS
from keuka.kernel.buffers cimport Buffer, Flags
from keuka.kernel.instances cimport State
from keuka.kernel.strings cimport StringTable

cpdef enum Status:
    FINE = 0
    NO_MEMORY = 1
    OVERFLOW = 2

cpdef enum:
    LEAST_STRINGS = 65536         # smaller string tables are never swept
    LEAST_TEXT_BYTES = 16000000

cdef struct Port:         # one stream as one operator reads it
    int64_t stream
    int64_t n_raw         # columns of the stream; derived ones follow
    int64_t n_columns
    int64_t first_derived
    Column* columns       # (n_columns,)
    Buffer derived        # (n_columns - n_raw) * n_rows values
    Flags derived_flags
    const int64_t* starts
    const int64_t* ends
    const int64_t* lineage  # node of each row; for a source: the event's number
    bint is_source
    int64_t n_rows
    int64_t low           # rows low..high belong to the epoch at hand
    int64_t high

cdef struct Result:       # the output of one operator for one batch
    Buffer starts
    Buffer ends
    Buffer lineage
    int64_t n_columns
    Buffer* columns
    Flags* flags

cdef struct Fault:         # where an overflow happened
    int64_t program
    int64_t stream
    int64_t row
    int64_t tick

cdef class Machine:
    cdef readonly StringTable strings
    cdef readonly dict tables
    cdef const int64_t[:, ::1] stream
    cdef const int64_t[:, ::1] operator
    cdef const int64_t[:, ::1] port_table
    cdef const int64_t[:, ::1] derived
    cdef const int64_t[:, ::1] state_table
    cdef const int64_t[:, ::1] key
    cdef const int64_t[:, ::1] start
    cdef const int64_t[:, ::1] program
    cdef const int64_t[::1] slot_type
    cdef const int32_t[:, ::1] code
    cdef const int32_t[::1] operand
    cdef readonly int64_t[::1] constants
    cdef int64_t[::1] set_bounds
    cdef int64_t[::1] set_values
    cdef bint track
    cdef int64_t n_sources
    cdef int64_t n_ports
    cdef int64_t n_states
    cdef int64_t n_operators
    cdef Port* ports
    cdef State* states
    cdef Result* results
    cdef Frame frame           # one lane
    cdef Frame wide            # CHUNK lanes
    cdef int64_t epoch
    cdef Buffer pending        # (state, instance) pairs that become visible at the end of the epoch
    cdef Buffer dead           # (state, instance) pairs that go at the end of the epoch
    cdef Buffer nodes          # (left, right, tag) of contributors
    cdef int64_t strings_sweep_at     # number of texts at which those that nothing holds are looked for
    cdef int64_t text_bytes_sweep_at  # the same for their bytes
    cdef Fault fault

    cdef Status run_operator(self, int64_t which) noexcept nogil
    cdef Status run_one_port(self, int64_t which, Port* port) noexcept nogil
    cdef int64_t next_active(self, int64_t which, Port* port, int64_t row) noexcept nogil
    cdef Status compute_derived(self, Port* port) noexcept nogil
    cdef bint hash_candidates(self, State* state) noexcept nogil
    cdef Status run_epoch(self, int64_t which, int64_t tick) noexcept nogil
    cdef Status probe(self, State* state, int64_t which, Port* port, int64_t row, Result* result) noexcept nogil
    cdef Status run_program(self, int64_t program, Port* port, int64_t row, int64_t which, int64_t instance, Result* result) noexcept nogil
    cdef Status emit(self, const int32_t* ins, Port* port, int64_t row, int64_t start, int64_t node, Result* result) noexcept nogil
    cdef int64_t new_node(self, Port* port, int64_t row, int64_t parent, int64_t tag) noexcept nogil
    cdef Status end_epoch(self, int64_t tick) noexcept nogil
    cdef bind(self, int64_t p, list inputs)
    cdef Status fail(self, Status status, int64_t program, Port* port, int64_t row) noexcept nogil
