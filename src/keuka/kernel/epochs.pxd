# The functions of `epochs.py`.
from libc.stdint cimport int64_t, uint64_t

from keuka.kernel.bytecode cimport Frame, Instruction
from keuka.kernel.instances cimport Pool
from keuka.kernel.machine cimport SIGNALS_AFTER, Machine, Status, View

cdef Status run_row(Machine machine, int64_t group, int64_t stream, int64_t row, bint fires) noexcept nogil
cdef Status run_epoch(Machine machine, int64_t group) noexcept nogil
cdef Status meet_by_history(Machine machine, int64_t state, Pool* pool, View* view) noexcept nogil
cdef Status meet_candidate(Machine machine, int64_t state, Pool* pool, View* view, int64_t row) noexcept nogil
cdef Status run_starts(Machine machine, int64_t group, int64_t stream, int64_t row) noexcept nogil
cdef bint has_key(Machine machine, Pool* pool, int64_t position, uint64_t hash_, int64_t row) noexcept nogil
cdef Status probe_alone(Machine machine, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
cdef Status probe(Machine machine, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
cdef Status meet(Machine machine, int64_t state, Pool* pool, int64_t* words, View* view, int64_t row) noexcept nogil
cdef Status run_program(
    Machine machine, const Instruction* code, int64_t program, int64_t state, Frame* frame, Pool* pool, int64_t* words, View* view, int64_t row, bint primitive,
    int64_t* node
) noexcept nogil
cdef Status follow_edge(
    Machine machine, int64_t program, Pool* pool, int64_t* words, View* view, int64_t row, bint primitive, int64_t* node
) noexcept nogil
cdef Status follow_edges(Machine machine, Pool* pool, int64_t* words, View* view, int64_t row, int64_t* node) noexcept nogil
cdef Status rebind(Machine machine, int64_t state, Pool* pool, int64_t* words) noexcept nogil
cdef Status emit(Machine machine, const Instruction* ins, Frame* frame, View* view, int64_t row, int64_t start, int64_t born, int64_t node) noexcept nogil
cdef Status emit_row(Machine machine, const Instruction* ins, Frame* frame, int64_t start, int64_t end, int64_t node) noexcept nogil
cdef Status add_instance(Machine machine, int64_t state, const int64_t* words) noexcept nogil
cdef Status add_later(Machine machine, int64_t state, const int64_t* words) noexcept nogil
cdef Status end_epoch(Machine machine) noexcept nogil
cdef Status look_for_signals(Machine machine) noexcept nogil

cdef inline Status count_work(Machine machine, int64_t n_programs) noexcept nogil:
    """Every loop counts what it does, so that Ctrl-C and a deadline end any of them."""
    machine.work += n_programs
    return look_for_signals(machine) if machine.work >= SIGNALS_AFTER else Status.FINE
