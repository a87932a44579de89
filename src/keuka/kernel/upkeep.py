"""What happens to machines between batches: contributors are read off, what nothing refers to any more is forgotten, and
instances and stacked events leave and enter as arrays, for snapshots.

Apart from `machine.py` because none of it runs per event. The sweeps walk all live instances, so callers run them only when
what they could free has doubled.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import reallocate, release
from cython.cimports.keuka.kernel.buffers import Buffer, copy_words, grow, push
from cython.cimports.keuka.kernel.epochs import add_instance
from cython.cimports.keuka.kernel.instances import HEADER, LINEAGE, Pool, clear, reserve
from cython.cimports.keuka.kernel.machine import BYTES_A_CONTRIBUTOR, MANY_ROWS, Machine, Status
from cython.cimports.keuka.kernel.rows import ComponentRow
from cython.cimports.keuka.kernel.stacks import (
    EVENT_HEADER,
    EVENT_KEY,
    EVENT_NODE,
    EVENT_TAG,
    WITHOUT_KEY,
    Ring,
    Sequence,
    event_at,
    place_event,
    tidy_keys,
)
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy


def contributors(machine: Machine, nodes: cython.const[int64_t][::1]):
    """The source events behind each node, in order: (offsets, streams, numbers, tags)."""
    offsets = np.zeros(nodes.shape[0] + 1, np.int64)
    ends: int64_t[::1] = offsets
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    stack: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    i: int64_t
    node: int64_t
    tag: int64_t
    enough: cython.bint = True
    machine.begin_counting()
    with cython.nogil:
        for i in range(nodes.shape[0]):
            enough = enough and push(cython.address(stack), nodes[i]) and push(cython.address(stack), 0)
            while enough and stack.size > 0:
                tag = stack.data[stack.size - 1]
                node = 3 * stack.data[stack.size - 2]
                stack.size -= 2
                if machine.nodes.data[node] <= -2:
                    enough = (
                        push(cython.address(found), -2 - machine.nodes.data[node])
                        and push(cython.address(found), machine.nodes.data[node + 1])
                        and push(cython.address(found), tag)
                    )
                    continue
                # The left part comes first, so it is pushed last.
                enough = push(cython.address(stack), machine.nodes.data[node + 1]) and push(
                    cython.address(stack), tag + machine.nodes.data[node + 2]
                )
                if enough and machine.nodes.data[node] >= 0:
                    enough = push(cython.address(stack), machine.nodes.data[node]) and push(cython.address(stack), tag)
            ends[i + 1] = found.size // 3
    triples = copy_words(cython.address(found), found.size).reshape(-1, 3) if enough else None
    release(found.data, found.capacity * 8)
    release(stack.data, stack.capacity * 8)
    machine.end_counting()
    machine.fail(Status.FINE if enough else Status.NO_MEMORY)
    machine.fit(found.size // 3 * BYTES_A_CONTRIBUTOR)
    return offsets, triples[:, 0], triples[:, 1], triples[:, 2]


# -- instances as arrays -----------------------------------------------------------------------------------------------------


def instances(machine: Machine, state: int64_t) -> "np.ndarray":
    """All instances of a state, one row of words each (`instances.pxd`)."""
    machine.follow()
    if not 0 <= state < machine.n_states:
        raise IndexError("there is no such state")
    pool: cython.pointer(Pool) = cython.address(machine.pools[state])
    flat: int64_t[::1] = np.empty(pool.n_live * pool.width + 1, np.int64)
    position: int64_t
    n: int64_t = 0
    size: int64_t
    for position in range(pool.n_entries):
        if pool.entries[position].hash != 0:
            size = pool.entries[position].n * pool.width
            memcpy(cython.address(flat[n]), pool.data + pool.entries[position].block, size * 8)
            n += size
    return np.asarray(flat)[:n].reshape(-1, pool.width)


def replace_instances(machine: Machine, state: int64_t, rows: cython.const[int64_t][:, ::1]) -> None:
    """Let a state have exactly these instances, rows of words as `instances` gives them."""
    machine.follow()
    if not 0 <= state < machine.n_states:
        raise IndexError("there is no such state")
    pool: cython.pointer(Pool) = cython.address(machine.pools[state])
    i: int64_t
    status: Status = Status.FINE
    if rows.shape[0] > 0 and rows.shape[1] != pool.width:
        raise ValueError("instances of another state")
    machine.held = -1
    clear(pool)
    if not reserve(pool, rows.shape[0]):
        raise MemoryError("no memory for the instances")
    machine.single = True
    for i in range(rows.shape[0]):
        status = add_instance(machine, state, cython.address(rows[i, 0]))
        if status != Status.FINE:
            raise MemoryError("no memory for the instances")
    machine.crowded.size = 0


def stacked(machine: Machine, number: int64_t, component: int64_t) -> "np.ndarray":
    """All stacked events of a component of a sequence in the order of time, one row of words each (`stacks.pxd`)."""
    machine.follow()
    if not 0 <= number < machine.n_sequences or not 0 <= component < machine.sequences[number].n_components:
        raise IndexError("there is no such component")
    ring: cython.pointer(Ring) = machine.sequences[number].rings + component
    n: int64_t = ring.head - ring.tail
    i: int64_t
    rows: int64_t[:, ::1] = np.empty((n + 1, ring.width), np.int64)
    for i in range(n):
        memcpy(cython.address(rows[i, 0]), event_at(ring, ring.tail + i), ring.width * 8)
    return np.asarray(rows)[:n]


def replace_stacked(machine: Machine, number: int64_t, all_rows: list) -> None:
    """Let a sequence have exactly these stacked events: by component, rows of words as `stacked` gives them."""
    machine.follow()
    machine.held = -1
    if not 0 <= number < machine.n_sequences or len(all_rows) != machine.sequences[number].n_components:
        raise IndexError("there is no such sequence")
    seq: cython.pointer(Sequence) = cython.address(machine.sequences[number])
    i: int64_t
    component: int64_t
    rows: cython.const[int64_t][:, ::1]
    for component in range(seq.n_components):
        if len(all_rows[component]) > 0 and all_rows[component].shape[1] != seq.rings[component].width:
            raise ValueError("events of another sequence")
        seq.rings[component].tail = seq.rings[component].head
        seq.shared[component] = -1
    seq.n_events = 0
    if not tidy_keys(cython.address(seq.keys), seq.rings, seq.n_components):
        raise MemoryError("no memory for the events of a sequence")
    # In the order of time, and at one time those of later components first, as they were stacked.
    ends = np.concatenate([one[:, 0] for one in all_rows])
    components = np.repeat(np.arange(len(all_rows)), [len(one) for one in all_rows])
    places = np.concatenate([np.arange(len(one)) for one in all_rows])
    for i in np.lexsort((places, -components, ends)):
        component = components[i]
        rows = all_rows[component]
        if not place_event(seq, component, cython.address(rows[places[i], 0])):
            raise MemoryError("no memory for the events of a sequence")


def nodes(machine: Machine, first: int64_t = 0) -> "np.ndarray":
    """The arena of contributors from a node on: rows (left, right, tag); a leaf is (-2 - stream, number of the event, 0)."""
    first = min(max(first, 0), machine.nodes.size // 3)
    rest: Buffer = Buffer(data=machine.nodes.data + 3 * first, size=0, capacity=0)
    return copy_words(cython.address(rest), machine.nodes.size - 3 * first).reshape(-1, 3)


def leaves(machine: Machine, first: int64_t) -> "np.ndarray":
    """The (stream, number) pairs of source events among the nodes from `first` on."""
    rows = nodes(machine, first)
    found = rows[rows[:, 0] <= -2, :2]
    found[:, 0] = -2 - found[:, 0]
    return found


def node_times(machine: Machine) -> "np.ndarray":
    """By node: start and end of the event that it adds, or 1, 0 if that is not a primitive one, or not known."""
    machine.follow()
    known = copy_words(cython.address(machine.times), machine.times.size).reshape(-1, 2)
    return known if machine.by_history else np.tile(np.array([1, 0]), (machine.nodes.size // 3, 1))


def append_nodes(machine: Machine, rows: cython.const[int64_t][:, ::1], times: cython.const[int64_t][:, ::1]) -> int:
    """Add nodes whose parts are numbered among themselves; where the first one is comes back."""
    machine.follow()
    first: int64_t = machine.nodes.size // 3
    i: int64_t
    left: int64_t
    right: int64_t
    if times.shape[0] != rows.shape[0] or times.shape[1] != 2 or rows.shape[1] != 3:
        raise ValueError("nodes and their times do not fit")
    machine.held = -1
    if not grow(cython.address(machine.nodes), machine.nodes.size + 3 * rows.shape[0]):
        raise MemoryError("no memory for contributors")
    if machine.by_history and not grow(cython.address(machine.times), 2 * (first + rows.shape[0])):
        raise MemoryError("no memory for histories")
    for i in range(rows.shape[0]):
        left = rows[i, 0]
        right = rows[i, 1]
        if left > -2:
            if left >= i or right >= i or right < 0:
                raise ValueError("a node is older than its parts")
            left = left if left < 0 else left + first
            right += first
        machine.nodes.data[3 * (first + i)] = left
        machine.nodes.data[3 * (first + i) + 1] = right
        machine.nodes.data[3 * (first + i) + 2] = rows[i, 2]
        if machine.by_history:
            machine.times.data[2 * (first + i)] = times[i, 0]
            machine.times.data[2 * (first + i) + 1] = times[i, 1]
    machine.nodes.size += 3 * rows.shape[0]
    machine.times.size += 2 * rows.shape[0] if machine.by_history else 0
    return first


# -- forgetting --------------------------------------------------------------------------------------------------------------


def live_slots(machine: Machine, slot_type: int64_t) -> "np.ndarray":
    """All values that live instances hold in slots of this type, nulls left out."""
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    s: int64_t
    i: int64_t
    c: int64_t
    position: int64_t
    words: cython.pointer(int64_t)
    flags: cython.pointer(uint8_t)
    pool: cython.pointer(Pool)
    enough: cython.bint = True
    machine.follow()
    for s in range(machine.n_states):
        pool = cython.address(machine.pools[s])
        for c in range(pool.n_slots if pool.n_live > 0 else 0):
            if machine.rows.slot_type[machine.rows.state[s].first_slot + c] != slot_type:
                continue
            for position in range(pool.n_entries):
                if pool.entries[position].hash == 0:
                    continue
                for i in range(pool.entries[position].n):
                    words = pool.data + pool.entries[position].block + i * pool.width
                    flags = cython.cast(cython.pointer(uint8_t), words + HEADER + pool.n_slots)
                    if flags[c] == 0:
                        enough = enough and push(cython.address(found), words[HEADER + c])
    for s in range(machine.n_sequences):
        enough = enough and collect_stacked(cython.address(machine.sequences[s]), slot_type, cython.address(found))
    values = copy_words(cython.address(found), found.size)
    free(found.data)
    if not enough:
        raise MemoryError("no memory to look through the instances")
    return values


@cython.cfunc
@cython.exceptval(check=False)
def collect_stacked(seq: cython.pointer(Sequence), slot_type: int64_t, found: cython.pointer(Buffer)) -> cython.bint:
    """All values that stacked events hold in slots of this type, and as keys."""
    ring: cython.pointer(Ring)
    words: cython.pointer(int64_t)
    row: cython.pointer(cython.const[ComponentRow])
    flags: cython.pointer(uint8_t)
    component: int64_t
    number: int64_t
    i: int64_t
    for component in range(seq.n_components):
        ring = seq.rings + component
        row = seq.components + component
        for number in range(ring.tail, ring.head):
            words = event_at(ring, number)
            if row.is_keyed and seq.key_type == slot_type and not words[EVENT_TAG] & WITHOUT_KEY and not push(found, words[EVENT_KEY]):
                return False
            flags = cython.cast(cython.pointer(uint8_t), words + EVENT_HEADER + ring.n_slots)
            for i in range(ring.n_slots):
                if seq.slot_types[row.first_slot + i] == slot_type and flags[i] == 0 and not push(found, words[EVENT_HEADER + i]):
                    return False
    return True


def sweep_nodes(machine: Machine) -> "np.ndarray":
    """Forget contributors of no live instance; the (stream, number) pairs of events still held. Call between batches."""
    machine.follow()
    keep_nodes(machine, 0)
    return leaves(machine, 0)


def sweep_taken(machine: Machine) -> None:
    """Forget contributors of matches that were taken, of which there are many; what others still read of this batch stays."""
    if machine.has_more and machine.nodes.size // 3 >= 2 * machine.n_left_nodes:
        keep_nodes(machine, machine.n_shared_nodes)
        machine.n_left_nodes = machine.nodes.size // 3


@cython.cfunc
def keep_nodes(machine: Machine, n_kept: int64_t):
    """Forget nodes that nothing leads to, but for the first ones."""
    n_nodes: int64_t = machine.nodes.size // 3
    moved = np.full(n_nodes + 1, -1, np.int64)
    moved[:n_kept] = 0
    place: int64_t[::1] = moved
    i: int64_t
    visit_lineage(machine, place, False)
    # A node is younger than its parts: one pass downwards marks, one upwards moves.
    i = n_nodes - 1
    while i >= 0:
        if place[i] == 0 and machine.nodes.data[3 * i] > -2:
            place[machine.nodes.data[3 * i + 1]] = 0
            if machine.nodes.data[3 * i] >= 0:
                place[machine.nodes.data[3 * i]] = 0
        i -= 1
    n: int64_t = 0
    for i in range(n_nodes):
        if place[i] == 0:
            place[i] = n
            if machine.nodes.data[3 * i] <= -2:
                machine.nodes.data[3 * n] = machine.nodes.data[3 * i]
                machine.nodes.data[3 * n + 1] = machine.nodes.data[3 * i + 1]
            else:
                machine.nodes.data[3 * n] = place[machine.nodes.data[3 * i]] if machine.nodes.data[3 * i] >= 0 else -1
                machine.nodes.data[3 * n + 1] = place[machine.nodes.data[3 * i + 1]]
            machine.nodes.data[3 * n + 2] = machine.nodes.data[3 * i + 2]
            if machine.by_history:
                machine.times.data[2 * n] = machine.times.data[2 * i]
                machine.times.data[2 * n + 1] = machine.times.data[2 * i + 1]
            n += 1
    visit_lineage(machine, place, True)
    machine.nodes.size = 3 * n
    machine.times.size = 2 * n if machine.by_history else 0
    machine.held = -1
    shrink(cython.address(machine.nodes))
    shrink(cython.address(machine.times))


@cython.cfunc
@cython.exceptval(check=False)
def shrink(buffer: cython.pointer(Buffer)) -> cython.void:
    """Give memory back after a burst."""
    wanted: int64_t = 2 * buffer.size + MANY_ROWS
    data: cython.p_void
    if buffer.capacity > 4 * wanted:
        data = reallocate(buffer.data, buffer.capacity * 8, wanted * 8)
        if data != cython.NULL:
            buffer.data = cython.cast(cython.pointer(int64_t), data)
            buffer.capacity = wanted


@cython.cfunc
def visit_lineage(machine: Machine, place: int64_t[::1], move: cython.bint):
    """Mark the nodes of all instances, or give the instances their new numbers. Those from before contributors were wanted have none.

    Where a search stopped after a match, the events of that match are bound, and it goes on with them.
    """
    ring: cython.pointer(Ring)
    seq: cython.pointer(Sequence)
    s: int64_t
    i: int64_t
    position: int64_t
    words: cython.pointer(int64_t)
    pool: cython.pointer(Pool)
    for s in range(machine.n_states):
        pool = cython.address(machine.pools[s])
        for position in range(pool.n_entries):
            if pool.entries[position].hash == 0:
                continue
            for i in range(pool.entries[position].n):
                words = pool.data + pool.entries[position].block + i * pool.width
                if words[LINEAGE] < 0:
                    continue
                if move:
                    words[LINEAGE] = place[words[LINEAGE]]
                else:
                    place[words[LINEAGE]] = 0
    for s in range(machine.n_sequences):
        for i in range(machine.sequences[s].n_components):
            ring = machine.sequences[s].rings + i
            for position in range(ring.tail, ring.head):
                words = event_at(ring, position)
                if words[EVENT_NODE] >= 0:
                    if move:
                        words[EVENT_NODE] = place[words[EVENT_NODE]]
                    else:
                        place[words[EVENT_NODE]] = 0
    if machine.has_more:
        seq = cython.address(machine.sequences[machine.rows.unit[machine.unit].number])
        for i in range(seq.n_components):
            if not seq.components[i].is_negated and seq.bound[i].node >= 0:
                if move:
                    seq.bound[i].node = place[seq.bound[i].node]
                else:
                    place[seq.bound[i].node] = 0
