# The static arrays of a forest that all operators share, as machines read them. This is their only description: forest.py writes rows
# under these names.
from libc.stdint cimport int32_t, int64_t

from keuka.kernel.bytecode cimport Instruction, SetRow

cpdef enum StreamKind:
    SOURCE = 0
    OUTPUT = 1            # of an operator

cdef struct StreamRow:
    int64_t kind
    int64_t n_columns     # of an output
    int64_t depth         # units run in the order of depth, so that what they read is complete
    int64_t serial        # of an output; numbers are used again
    int64_t any_start     # of an output: may rows with the same end come in any order?

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

cdef struct UnitRow:      # what runs, in the order it runs
    int64_t kind          # of operators
    int64_t number        # among the units of the kind
    int64_t stream        # of a unit that may stop in the middle, because nobody reads its output: the output; else -1

cpdef enum Reading:       # bits of `reading`
    PRIMITIVE = 1         # the events of the stream are primitive ones
    BY_HISTORY = 2        # of simultaneous candidates only those with the earliest history are the next

cdef struct Description:  # one row of each kind, so that Python can read the names of their fields
    StreamRow stream
    ColumnRow column
    HashRow hash
    HashKeyRow hash_key
    ProgramRow program
    Instruction code
    SetRow set
    UnitRow unit

cdef class Rows:
    cdef readonly int64_t version      # of the forest
    cdef readonly int64_t n_streams
    cdef readonly int64_t n_columns
    cdef readonly int64_t n_hashes
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
    cdef const UnitRow[::1] unit
    cdef readonly list of_kind             # by kind of operators: its own arrays
    # By stream, (n_streams + 1,): where its part of the array behind begins.
    cdef const int64_t[::1] given_first
    cdef const int64_t[::1] given_column   # what comes with the rows of the stream
    cdef const int64_t[::1] derived_first
    cdef const int64_t[::1] derived_column
    cdef const int64_t[::1] hash_first
    cdef const int64_t[::1] hash_of
