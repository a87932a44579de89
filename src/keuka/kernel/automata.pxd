# Automata: the static arrays of their states, and what moves. Instances are described in instances.pxd.
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.buffers cimport Buffer, Flags
from keuka.kernel.instances cimport KeyRow, Pool, Sieve
from keuka.kernel.machine cimport Machine, Operators, Status

cdef enum:
    MOST_APART = 16       # simultaneous events whose keys are compared with each other

cdef struct StateRow:
    int64_t stream        # where candidates come from
    int64_t program
    int64_t hash
    int64_t n_slots
    int64_t first_slot
    int64_t first_key
    int64_t n_keys
    int64_t window        # a candidate with a larger DUR can lead to no result
    int64_t first_edge
    int64_t serial
    int64_t reading

cdef struct EdgeRow:
    int64_t program
    int64_t since         # only instances that began after this tick; INT64_MIN: all
    int64_t next          # of the same state; -1: none

cdef struct StartRow:
    int64_t stream
    int64_t gate          # column; -1: none
    int64_t edge
    int64_t reading

cdef struct GroupRow:     # places in group_ports, group_states and group_starts
    int64_t first_port
    int64_t n_ports
    int64_t first_state
    int64_t n_states
    int64_t first_start
    int64_t n_starts

cdef struct Description:  # one row of each kind, so that Python can read the names of their fields
    StateRow state
    KeyRow key
    EdgeRow edge
    StartRow start
    GroupRow group

cdef struct Epoch:        # what becomes of instances in the epoch at hand
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

cdef class Automata(Operators):
    cdef const StateRow[::1] state
    cdef const KeyRow[::1] key
    cdef const int64_t[::1] slot_type
    cdef const EdgeRow[::1] edge
    cdef const StartRow[::1] start
    cdef const GroupRow[::1] group
    cdef const int64_t[::1] group_port
    cdef const int64_t[::1] group_state
    cdef const int64_t[::1] group_start
    # These arrays only grow.
    cdef int64_t n_states
    cdef int64_t n_groups
    cdef int64_t n_ports
    cdef int64_t n_sieves
    cdef Pool* pools                   # by state
    cdef Buffer* live                  # by group: states that may have instances
    cdef Flags* fires                  # by port of a group, by row: does a start look at it?
    cdef Sieve* sieves                 # by hash
    cdef Buffer own_rows               # of the stream at hand
    cdef int64_t now                   # the last tick that was run
    cdef Epoch epoch

    cdef place_pool(self, Machine machine, int64_t state)
    cdef Pool* pool_of(self, int64_t state) except NULL
    cdef place(self, Machine machine, object rows)
    cdef Status run(self, Machine machine, int64_t number) noexcept nogil
    cdef int64_t n_bytes(self) noexcept nogil
    cdef int64_t n_batch_bytes(self) noexcept nogil
    cdef bint collect(self, int64_t slot_type, Buffer* found) noexcept nogil
    cdef void visit_nodes(self, Machine machine, int64_t* place, bint move) noexcept nogil

cdef bint count_keys(Automata own, Sieve* sieve) noexcept nogil
cdef Sieve* place_hashes(Machine machine, Automata own, int64_t group) noexcept nogil
cdef bint find_starts(Machine machine, Automata own, int64_t group, int64_t port) noexcept nogil
cdef Status run_one_port(Machine machine, Automata own, int64_t group, int64_t port, Sieve* sieve) noexcept nogil
cdef bint are_apart(Automata own, Buffer* live, int64_t* rows, int64_t n) noexcept nogil
cdef Status run_ports(Machine machine, Automata own, int64_t group) noexcept nogil
cdef int64_t pool_bytes(Pool* pool) noexcept nogil
cdef bint finds_some(Automata own, Buffer* live, int64_t row) noexcept nogil
cdef void fetch_ahead(Automata own, Buffer* live, int64_t later, int64_t sooner) noexcept nogil
