# Sequences of all combinations as a machine runs them. What a sequence is, is described in stacks.pxd.
from libc.stdint cimport int64_t, uint64_t

from keuka.kernel.buffers cimport Buffer
from keuka.kernel.machine cimport Machine, Operators, Status
from keuka.kernel.stacks cimport FeedRow, Sequence

cdef class Sequences(Operators):
    cdef int64_t n                 # only grows
    cdef Sequence* sequences
    cdef list arrays               # what they point into

    cdef place_one(self, int64_t number)
    cdef Sequence* at(self, int64_t number) except NULL
    cdef place(self, Machine machine, object rows)
    cdef void reset(self) noexcept nogil
    cdef Status run(self, Machine machine, int64_t number) noexcept nogil
    cdef bint next_deadline(self, int64_t* tick) noexcept nogil
    cdef int64_t n_bytes(self) noexcept nogil
    cdef int64_t n_batch_bytes(self) noexcept nogil
    cdef bint collect(self, int64_t slot_type, Buffer* found) noexcept nogil
    cdef void visit_nodes(self, Machine machine, int64_t* place, bint move) noexcept nogil

cdef int64_t stack_bytes(Sequence* seq) noexcept nogil
cdef Status run_sequence(Machine machine, Sequence* seq) noexcept nogil
cdef Status open_batch(Machine machine, Sequence* seq) noexcept nogil
cdef bint select_rows(Machine machine, Sequence* seq, int64_t port) noexcept nogil
cdef bint next_tick(Machine machine, Sequence* seq, int64_t* tick) noexcept nogil
cdef void begin_epoch(Machine machine, Sequence* seq, int64_t tick) noexcept nogil
cdef Status take_events(Machine machine, Sequence* seq) noexcept nogil
cdef Status take_event(Machine machine, Sequence* seq, int64_t number, int64_t row) noexcept nogil
cdef Status stack_event(
    Machine machine, Sequence* seq, const FeedRow* feed, int64_t row, int64_t* tops, uint64_t hash_, int64_t key
) noexcept nogil
cdef bint is_wanted(Sequence* seq, int64_t component, int64_t* tops, int64_t tick) noexcept nogil
cdef void rewind(Sequence* seq) noexcept nogil
cdef void fetch_ahead(Machine machine, Sequence* seq, int64_t port) noexcept nogil
