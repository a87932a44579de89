# The functions of `groups.py`.
from keuka.kernel.machine cimport Machine, Status

cdef Status run_units(Machine machine) noexcept nogil
