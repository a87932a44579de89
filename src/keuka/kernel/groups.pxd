# The functions of `groups.py`.
from libc.stdint cimport int64_t

from keuka.kernel.buffers cimport Buffer
from keuka.kernel.instances cimport Sieve
from keuka.kernel.machine cimport Machine, Status

cdef Status begin_groups(Machine machine) noexcept nogil
cdef Status run_units(Machine machine) noexcept nogil
cdef Status run_group(Machine machine, int64_t g) noexcept nogil
cdef bint count_keys(Machine machine, int64_t which) noexcept nogil
cdef Sieve* place_hashes(Machine machine, int64_t group) noexcept nogil
cdef Status run_one_port(Machine machine, int64_t group, int64_t port, Sieve* sieve) noexcept nogil
cdef bint finds_some(Machine machine, Buffer* live, int64_t row) noexcept nogil
cdef void fetch_ahead(Machine machine, Buffer* live, int64_t later, int64_t sooner) noexcept nogil
cdef bint are_apart(Machine machine, Buffer* live, int64_t* rows, int64_t n) noexcept nogil
cdef Status run_ports(Machine machine, int64_t group) noexcept nogil
