# The order of simultaneous events by their histories, for states that choose by it.
from libc.stdint cimport int64_t

from keuka.kernel.machine cimport Machine, View

cdef bint rank_rows(Machine machine, View* view, bint primitive) noexcept nogil
cdef bint write_history(Machine machine, int64_t node) noexcept nogil
cdef int64_t compare(Machine machine, int64_t first, int64_t second) noexcept nogil
cdef bint sort_rows(Machine machine, int64_t n) noexcept nogil
