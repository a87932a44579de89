# The functions of `construction.py`; `sequences.py` begins searches and goes on with them.
from libc.stdint cimport int64_t, uint8_t, uint64_t

from keuka.kernel.machine cimport Machine, Result, Status
from keuka.kernel.stacks cimport AbsenceRow, FeedRow, Ring, Sequence

cdef Status begin_search(Machine machine, Sequence* seq, const FeedRow* feed, int64_t row, const int64_t* tops, int64_t first_level) noexcept nogil
cdef void begin_by_deadline(Sequence* seq, int64_t deadline) noexcept nogil
cdef Status search(Machine machine, Sequence* seq) noexcept nogil
cdef bint has_first(Sequence* seq) noexcept nogil
cdef int64_t next_deadline(Sequence* seq) noexcept nogil
cdef void read_slots(Machine machine, const FeedRow* feed, Sequence* seq, int64_t row, int64_t* values, uint8_t* flags) noexcept nogil
cdef void enter(Sequence* seq, int64_t level) noexcept nogil
cdef int64_t latest_absent(Sequence* seq, const AbsenceRow* absence) noexcept nogil
cdef bint is_plain(Machine machine, Sequence* seq) noexcept nogil
cdef Status emit_plain(Machine machine, Sequence* seq, Ring* ring, int64_t component) noexcept nogil
cdef int passes(Machine machine, Sequence* seq, int64_t level) noexcept nogil
cdef int is_there(Machine machine, Sequence* seq, const AbsenceRow* absence) noexcept nogil
cdef Status emit_match(Machine machine, Sequence* seq, int64_t level) noexcept nogil
cdef int64_t first_end(Sequence* seq) noexcept nogil
cdef bint reserve_rows(Result* result, int64_t n) noexcept nogil
cdef Status fault(Machine machine, Sequence* seq, int64_t program) noexcept nogil
cdef int64_t match_node(Machine machine, Sequence* seq) noexcept nogil
cdef uint64_t all_alternatives(Sequence* seq) noexcept nogil
cdef int64_t top_of(Sequence* seq, int64_t component) noexcept nogil
cdef int64_t window_begin(int64_t tick, int64_t within) noexcept nogil
cdef int64_t absent_from(Sequence* seq, const AbsenceRow* absence) noexcept nogil
cdef bint fits(Sequence* seq, int64_t level, int64_t end) noexcept nogil
cdef void bind(Sequence* seq, int64_t component, const int64_t* words) noexcept nogil
cdef void bind_slots(Sequence* seq, int64_t component, const int64_t* words) noexcept nogil
cdef int holds(Machine machine, Sequence* seq, int64_t program) noexcept nogil
