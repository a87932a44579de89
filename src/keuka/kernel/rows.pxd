# The static arrays of a forest, as machines read them. This is their only description: forest.py writes rows under these names.
from libc.stdint cimport int32_t, int64_t

from keuka.kernel.bytecode cimport Instruction, SetRow

cpdef enum StreamKind:
    SOURCE = 0
    OUTPUT = 1            # of an operator

cdef struct StreamRow:
    int64_t kind
    int64_t n_columns     # of an output
    int64_t depth         # groups and sequences run in the order of depth, so that what they read is complete
    int64_t serial        # of an output; numbers are used again

cdef struct ColumnRow:
    int64_t stream
    int64_t program       # of a derived column; -1: the column comes with the rows
    int64_t must_hold     # is an error in any row raised?
    int64_t place         # among the columns of an output

cdef struct HashRow:      # hashes of the keys of candidates
    int64_t stream
    int64_t first_key
    int64_t n_keys
    int64_t gate          # column; -1: none

cdef struct HashKeyRow:
    int64_t column
    int64_t is_double

cdef struct ProgramRow:
    int64_t first_instruction
    int64_t n_instructions
    int64_t n_registers

# Of automata.
cpdef enum Reading:       # bits of `reading`
    PRIMITIVE = 1         # the events of the stream are primitive ones
    BY_HISTORY = 2        # of simultaneous candidates only those with the earliest history are the next

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

cdef struct KeyRow:       # an equality that finds instances
    int64_t column
    int64_t slot
    int64_t is_double

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

# Of sequences: each has arrays of its own.
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

cdef struct UnitRow:      # what runs, in the order it runs
    int64_t kind
    int64_t number

cpdef enum UnitKind:
    GROUP = 0
    SEQUENCE = 1

cdef struct Description:  # one row of each kind, so that Python can read the names of their fields
    StreamRow stream
    ColumnRow column
    HashRow hash
    HashKeyRow hash_key
    ProgramRow program
    Instruction code
    SetRow set
    StateRow state
    KeyRow key
    EdgeRow edge
    StartRow start
    GroupRow group
    UnitRow unit
    ComponentRow component
    FeedRow feed
    LevelRow level
    TestRow test
    AbsenceRow absence

cdef class Rows:
    cdef readonly int64_t version      # of the forest
    cdef readonly int64_t n_streams
    cdef readonly int64_t n_columns
    cdef readonly int64_t n_hashes
    cdef readonly int64_t n_states
    cdef readonly int64_t n_groups
    cdef readonly int64_t n_ports
    cdef readonly int64_t n_units
    cdef readonly int64_t n_registers  # of any program
    cdef readonly int64_t n_wide       # registers of any program over columns
    cdef const StreamRow[::1] stream
    cdef const ColumnRow[::1] column
    cdef const HashRow[::1] hash
    cdef const HashKeyRow[::1] hash_key
    cdef const ProgramRow[::1] program
    cdef const Instruction[::1] code
    cdef const int32_t[::1] operand
    cdef const int64_t[::1] constant
    cdef const SetRow[::1] set
    cdef const int64_t[::1] set_value
    cdef const StateRow[::1] state
    cdef const KeyRow[::1] key
    cdef const int64_t[::1] slot_type
    cdef const EdgeRow[::1] edge
    cdef const StartRow[::1] start
    cdef const UnitRow[::1] unit
    cdef const GroupRow[::1] group
    cdef const int64_t[::1] group_port
    cdef const int64_t[::1] group_state
    cdef const int64_t[::1] group_start
    cdef const int64_t[::1] port_group     # by place in group_port
    # By stream, (n_streams + 1,): where its part of the array behind begins.
    cdef const int64_t[::1] given_first
    cdef const int64_t[::1] given_column   # what comes with the rows of the stream
    cdef const int64_t[::1] derived_first
    cdef const int64_t[::1] derived_column
    cdef const int64_t[::1] hash_first
    cdef const int64_t[::1] hash_of
    cdef const int64_t[::1] port_first
    cdef const int64_t[::1] port_of        # places in group_port
