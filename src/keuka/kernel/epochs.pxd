# The functions of `epochs.py`.
from libc.stdint cimport int64_t, uint64_t

from keuka.kernel.automata cimport Automata
from keuka.kernel.bytecode cimport Frame, Instruction, canonical_double
from keuka.kernel.instances cimport HEADER, Pool
from keuka.kernel.machine cimport Machine, Status, View

cdef Status run_row(Machine machine, Automata own, int64_t group, int64_t stream, int64_t row, bint fires) noexcept nogil
cdef Status run_epoch(Machine machine, Automata own, int64_t group) noexcept nogil
cdef Status meet_by_history(Machine machine, Automata own, int64_t state, Pool* pool, View* view) noexcept nogil
cdef Status meet_candidate(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row) noexcept nogil
cdef Status run_starts(Machine machine, Automata own, int64_t group, int64_t stream, int64_t row) noexcept nogil
cdef Status probe_alone(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
cdef Status probe(Machine machine, Automata own, int64_t state, Pool* pool, View* view, int64_t row, int64_t position) noexcept nogil
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

cdef inline bint has_key(Machine machine, Pool* pool, int64_t position, int64_t row) noexcept nogil:
    # Are the instances of an entry those of the candidate's key?
    cdef const int64_t* words = pool.data + pool.entries[position].block
    cdef int64_t value
    for k in range(pool.n_keys):
        value = machine.columns[pool.keys[k].column].values[row]
        if pool.keys[k].is_double:
            if canonical_double(value) != canonical_double(words[<int>HEADER + pool.keys[k].slot]):
                return False
        elif value != words[<int>HEADER + pool.keys[k].slot]:
            return False
    return True
