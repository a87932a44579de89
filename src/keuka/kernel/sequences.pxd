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
