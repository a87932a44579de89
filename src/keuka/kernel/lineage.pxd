# Contributors: the source events behind instances and matches, as nodes that share their beginnings.
from libc.stdint cimport int64_t

from keuka.kernel.machine cimport Machine, View

cdef struct Node:
    int64_t left   # what came before, or -1; a leaf has -2 - its stream
    int64_t right  # the event that was added; a leaf has the number of its event
    int64_t tag

cdef struct Times:         # of the event that a node adds; 1, 0: it is not a primitive one, or not known
    int64_t start
    int64_t end

cdef int64_t push_node(Machine machine, int64_t left, int64_t right, int64_t tag, int64_t start, int64_t end) noexcept nogil
cdef int64_t leaf_node(Machine machine, View* view, int64_t row) noexcept nogil
cdef int64_t event_node(Machine machine, View* view, int64_t row, int64_t parent, int64_t tag, bint primitive) noexcept nogil
cdef keep_nodes(Machine machine, int64_t n_kept)

cdef inline Node* node_at(Machine machine, int64_t number) noexcept nogil:
    return <Node*>machine.lineage.nodes.data + number

cdef inline Times* times_at(Machine machine, int64_t number) noexcept nogil:
    return <Times*>machine.lineage.times.data + number

cdef inline int64_t count_nodes(Machine machine) noexcept nogil:
    return machine.lineage.nodes.size // <int64_t>(sizeof(Node) // 8)
