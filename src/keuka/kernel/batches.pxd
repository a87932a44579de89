# The functions of `batches.py`; operators call `take_result`.
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.bytecode cimport Column, Instruction
from keuka.kernel.machine cimport Machine, Status

cdef bind(Machine machine, int64_t stream, object given)
cdef bint reserve_stream(Machine machine, int64_t stream) noexcept nogil
cdef Status compute_rows(Machine machine, Machine leader, int64_t part, int64_t n_parts) noexcept nogil
cdef Status compute_stream(Machine machine, Machine leader, int64_t stream, int64_t low, int64_t high) noexcept nogil
cdef Status compute_derived(Machine machine, Machine leader, int64_t column, int64_t low, int64_t high) noexcept nogil
cdef void compute_hash(Machine machine, Machine leader, int64_t which, int64_t low, int64_t high) noexcept nogil
cdef Status take_result(Machine machine, int64_t stream) noexcept nogil
cdef void compare_with_constant(Column* column, int64_t constant, int64_t* values, uint8_t* flags, int64_t first, int64_t n) noexcept nogil
cdef bint is_equality(const Instruction* code) noexcept nogil
