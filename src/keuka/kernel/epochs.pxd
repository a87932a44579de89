# The functions of `epochs.py`.
from libc.stdint cimport int64_t, uint64_t

from keuka.kernel.automata cimport Automata
from keuka.kernel.bytecode cimport Frame, Instruction
from keuka.kernel.instances cimport Pool
from keuka.kernel.machine cimport Machine, Status, View

cdef Status run_row(Machine machine, Automata own, int64_t group, int64_t stream, int64_t row, bint fires) noexcept nogil
cdef Status run_epoch(Machine machine, Automata own, int64_t group) noexcept nogil
cdef Status meet_by_history(Machine machine, Automata own, int64_t state, Pool* pool, View* view) noexcept nogil
cdef Status meet_candidate(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row) noexcept nogil
cdef Status run_starts(Machine machine, Automata own, int64_t group, int64_t stream, int64_t row) noexcept nogil
cdef bint has_key(Machine machine, Pool* pool, int64_t position, uint64_t hash_, int64_t row) noexcept nogil
cdef Status probe_alone(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
cdef Status probe(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
cdef Status meet(Machine machine, Automata own, int64_t state, Pool* pool, int64_t* words, View* view, int64_t row) noexcept nogil
cdef Status run_program(
    Machine machine, Automata own, const Instruction* code, int64_t program, int64_t state, Frame* frame, Pool* pool, int64_t* words, View* view, int64_t row, bint primitive,
    int64_t* node
) noexcept nogil
cdef Status follow_edge(
    Machine machine, Automata own, int64_t program, Pool* pool, int64_t* words, View* view, int64_t row, bint primitive, int64_t* node
) noexcept nogil
cdef Status follow_edges(Machine machine, Automata own, Pool* pool, int64_t* words, View* view, int64_t row, int64_t* node) noexcept nogil
cdef Status rebind(Automata own, int64_t state, Pool* pool, int64_t* words) noexcept nogil
cdef Status emit(Machine machine, Automata own, const Instruction* ins, Frame* frame, View* view, int64_t row, int64_t start, int64_t born, int64_t node) noexcept nogil
cdef Status emit_row(Machine machine, const Instruction* ins, Frame* frame, int64_t start, int64_t end, int64_t node) noexcept nogil
cdef Status add_instance(Machine machine, Automata own, int64_t state, const int64_t* words) noexcept nogil
cdef Status add_later(Automata own, int64_t state, const int64_t* words) noexcept nogil
cdef Status end_epoch(Machine machine, Automata own) noexcept nogil
