# What `lineage.py` calls of `upkeep.py`.
from libc.stdint cimport int64_t

from keuka.kernel.machine cimport Machine

cdef visit_lineage(Machine machine, int64_t[::1] place, bint move)
