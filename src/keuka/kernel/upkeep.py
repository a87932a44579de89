"""What happens to a machine between batches: contributors are read off, and what nothing refers to any more is forgotten.

Apart from `machine.py` because none of it runs per event. The sweeps walk all live instances, so callers run them only when
what they could free has doubled.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.buffers import Buffer, copy_words, push
from cython.cimports.keuka.kernel.instances import HEADER, LINEAGE, NEXT, State
from cython.cimports.keuka.kernel.machine import LEAST_STRINGS, LEAST_TEXT_BYTES, Machine
from cython.cimports.libc.stdint import int64_t, uint8_t
from cython.cimports.libc.stdlib import free


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
    free(found.data)
    free(stack.data)
    if triples is None:
        raise MemoryError("no memory for the contributors of a batch")
    return offsets, triples[:, 0], triples[:, 1], triples[:, 2]


def live_slots(machine: Machine, slot_type: int64_t) -> "np.ndarray":
    """All values that live instances hold in slots of this type, nulls left out."""
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    s: int64_t
    i: int64_t
    c: int64_t
    bucket: int64_t
    words: cython.pointer(int64_t)
    flags: cython.pointer(uint8_t)
    state: cython.pointer(State)
    enough: cython.bint = True
    for s in range(machine.n_states):
        state = cython.address(machine.states[s])
        for bucket in range(state.n_buckets):
            i = state.buckets[bucket]
            while i >= 0:
                words = state.data + i * state.width
                flags = cython.cast(cython.pointer(uint8_t), words + HEADER + state.n_slots)
                for c in range(state.n_slots):
                    if machine.slot_type[machine.state_table[s, 3] + c] == slot_type and flags[c] == 0:
                        enough = enough and push(cython.address(found), words[HEADER + c])
                i = words[NEXT]
    values = copy_words(cython.address(found), found.size)
    free(found.data)
    if not enough:
        raise MemoryError("no memory to look through the instances")
    return values


def sweep_strings(machine: Machine) -> bool:
    """Forget texts that nothing holds, when their number or their bytes have doubled since the last time. Call between batches."""
    if machine.strings.n_alive < machine.strings_sweep_at and machine.strings.blob_size < machine.text_bytes_sweep_at:
        return False
    alive = np.zeros(machine.strings.n_codes, np.uint8)
    alive[live_slots(machine, 3)] = 1
    constants = np.asarray(machine.constants)[: len(machine.tables["constant"])]
    alive[constants[machine.tables["constant_text"] >= 0]] = 1
    machine.strings.sweep(alive)
    machine.strings_sweep_at = max(LEAST_STRINGS, 2 * machine.strings.n_alive)
    machine.text_bytes_sweep_at = max(LEAST_TEXT_BYTES, 2 * machine.strings.blob_size)
    return True


def sweep_nodes(machine: Machine) -> "np.ndarray":
    """Forget contributors of no live instance; the (stream, number) pairs of events still held. Call between batches."""
    n_nodes: int64_t = machine.nodes.size // 3
    moved = np.full(n_nodes + 1, -1, np.int64)
    place: int64_t[::1] = moved
    s: int64_t
    i: int64_t
    bucket: int64_t
    state: cython.pointer(State)
    for s in range(machine.n_states):
        state = cython.address(machine.states[s])
        for bucket in range(state.n_buckets):
            i = state.buckets[bucket]
            while i >= 0:
                place[(state.data + i * state.width)[LINEAGE]] = 0
                i = (state.data + i * state.width)[NEXT]
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
            n += 1
    for s in range(machine.n_states):
        state = cython.address(machine.states[s])
        for bucket in range(state.n_buckets):
            i = state.buckets[bucket]
            while i >= 0:
                (state.data + i * state.width)[LINEAGE] = place[(state.data + i * state.width)[LINEAGE]]
                i = (state.data + i * state.width)[NEXT]
    machine.nodes.size = 3 * n
    kept = copy_words(cython.address(machine.nodes), 3 * n).reshape(-1, 3)
    leaves = kept[kept[:, 0] <= -2, :2]
    leaves[:, 0] = -2 - leaves[:, 0]
    return leaves
