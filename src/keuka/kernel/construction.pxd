# What `sequences.py` calls of `construction.py`.
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.machine cimport Machine, Status
from keuka.kernel.stacks cimport FeedRow, Sequence

cdef Status begin_search(Machine machine, Sequence* seq, const FeedRow* feed, int64_t row, const int64_t* tops, int64_t first_level) noexcept nogil
cdef void begin_by_deadline(Sequence* seq, int64_t deadline) noexcept nogil
cdef Status search(Machine machine, Sequence* seq) noexcept nogil
cdef bint has_first(Sequence* seq) noexcept nogil
cdef int64_t next_deadline(Sequence* seq) noexcept nogil
cdef void read_slots(Machine machine, const FeedRow* feed, Sequence* seq, int64_t row, int64_t* values, uint8_t* flags) noexcept nogil
