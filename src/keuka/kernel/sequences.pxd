# What `groups.py` calls of `sequences.py`.
from keuka.kernel.machine cimport Machine, Status
from keuka.kernel.stacks cimport Sequence

cdef Status run_sequence(Machine machine, Sequence* seq) noexcept nogil
