"""Contributors: the source events behind instances and matches. The kernel keeps nodes and numbers of events, no ids.

A node adds an event to what another node stands for, so instances share their beginnings. Nodes are only added; what no instance
leads to any more is forgotten between batches, when enough of it may have come together.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import release
from cython.cimports.keuka.kernel.buffers import Buffer, copy_words, grow, push, shrink
from cython.cimports.keuka.kernel.machine import BYTES_A_CONTRIBUTOR, Operators, Status
from cython.cimports.libc.stdint import uint8_t


def push_node(machine, left, right, tag, start, end):
    """A new node; -1 when memory is out."""
    nodes: cython.pointer(Buffer) = cython.address(machine.lineage.nodes)
    times: cython.pointer(Buffer) = cython.address(machine.lineage.times)
    if machine.lineage.by_history and not (push(times, start) and push(times, end)):
        return -1
    if not (push(nodes, left) and push(nodes, right) and push(nodes, tag)):
        return -1
    return count_nodes(machine) - 1


def leaf_node(machine, view, row):
    """The node of an event's own contributors; -1 when memory is out."""
    if not view.is_source:
        return view.lineage[row]
    return push_node(machine, -2 - view.number, view.lineage[row], 0, 1, 0)


def event_node(machine, view, row, parent, tag, primitive):
    """The node of the parent's contributors, followed by the event's; -1 when memory is out."""
    leaf: int64_t = leaf_node(machine, view, row)
    if leaf < 0:
        return -1
    if primitive:
        return push_node(machine, parent, leaf, tag, view.starts[row], view.ends[row])
    return push_node(machine, parent, leaf, tag, 1, 0)


def contributors(machine: Machine, nodes: cython.const[int64_t][::1]):
    """The source events behind each node, in order: (offsets, streams, numbers, tags)."""
    offsets = np.zeros(nodes.shape[0] + 1, np.int64)
    ends: int64_t[::1] = offsets
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    stack: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    enough: cython.bint = True
    machine.begin_counting()
    with cython.nogil:
        for i in range(nodes.shape[0]):
            enough = enough and push(cython.address(stack), nodes[i]) and push(cython.address(stack), 0)
            while enough and stack.size > 0:
                tag = stack.data[stack.size - 1]
                node = node_at(machine, stack.data[stack.size - 2])
                stack.size -= 2
                if node.left <= -2:
                    enough = (
                        push(cython.address(found), -2 - node.left)
                        and push(cython.address(found), node.right)
                        and push(cython.address(found), tag)
                    )
                    continue
                # The left part comes first, so it is pushed last.
                enough = push(cython.address(stack), node.right) and push(cython.address(stack), tag + node.tag)
                if enough and node.left >= 0:
                    enough = push(cython.address(stack), node.left) and push(cython.address(stack), tag)
            ends[i + 1] = found.size // 3
    triples = copy_words(cython.address(found), found.size).reshape(-1, 3) if enough else None
    release(found.data, found.capacity * 8)
    release(stack.data, stack.capacity * 8)
    machine.end_counting()
    machine.fail(Status.FINE if enough else Status.NO_MEMORY)
    machine.fit(found.size // 3 * BYTES_A_CONTRIBUTOR)
    return offsets, triples[:, 0], triples[:, 1], triples[:, 2]


# -- nodes as arrays ---------------------------------------------------------------------------------------------------------


def leaves(machine: Machine, first: int64_t) -> "np.ndarray":
    """The (stream, number) pairs of source events among the nodes from `first` on."""
    first = min(max(first, 0), count_nodes(machine))
    rest: Buffer = Buffer(data=cython.cast(cython.pointer(int64_t), node_at(machine, first)), size=0, capacity=0)
    rows = copy_words(cython.address(rest), 3 * (count_nodes(machine) - first)).reshape(-1, 3)
    found = rows[rows[:, 0] <= -2, :2]
    found[:, 0] = -2 - found[:, 0]
    return found


def reachable_nodes(machine: Machine, roots: cython.const[int64_t][::1]) -> tuple:
    """The nodes that these lead to: their numbers, ascending; rows (left, right, tag), parts as they are numbered here; rows of Times.

    The time follows what is found: of the marks only those that are looked at are ever brought into memory.
    """
    machine.follow()
    marks: uint8_t[::1] = np.zeros(count_nodes(machine) + 1, np.uint8)
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    stack: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    enough: cython.bint = True
    for i in range(roots.shape[0]):
        if roots[i] >= count_nodes(machine):
            raise IndexError("there is no such node")
        enough = enough and (roots[i] < 0 or push(cython.address(stack), roots[i]))
    while enough and stack.size > 0:
        stack.size -= 1
        number = stack.data[stack.size]
        if marks[number]:
            continue
        marks[number] = 1
        node = node_at(machine, number)
        enough = push(cython.address(found), number)
        if node.left > -2:
            enough = enough and push(cython.address(stack), node.right)
            enough = enough and (node.left < 0 or push(cython.address(stack), node.left))
    numbers = np.sort(copy_words(cython.address(found), found.size))
    release(found.data, found.capacity * 8)
    release(stack.data, stack.capacity * 8)
    if not enough:
        raise MemoryError("no memory for contributors")
    rows = np.empty((len(numbers), 5), np.int64)
    sorted_: int64_t[::1] = numbers
    out: int64_t[:, ::1] = rows
    for i in range(sorted_.shape[0]):
        node = node_at(machine, sorted_[i])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = node.left, node.right, node.tag, 1, 0
        if machine.lineage.by_history:
            times = times_at(machine, sorted_[i])
            out[i, 3], out[i, 4] = times.start, times.end
    return numbers, rows[:, :3], rows[:, 3:]


def append_nodes(machine: Machine, rows: cython.const[int64_t][:, ::1], times: cython.const[int64_t][:, ::1]) -> int:
    """Add nodes whose parts are numbered among themselves; where the first one is comes back."""
    machine.follow()
    first: int64_t = count_nodes(machine)
    n: int64_t = rows.shape[0]
    if times.shape[0] != n or times.shape[1] != 2 or rows.shape[1] != 3:
        raise ValueError("nodes and their times do not fit")
    for i in range(n):
        if rows[i, 0] > -2 and (rows[i, 0] >= i or rows[i, 1] >= i or rows[i, 1] < 0):
            raise ValueError("a node is older than its parts")
    machine.held = -1
    if not grow(cython.address(machine.lineage.nodes), 3 * (first + n)):
        raise MemoryError("no memory for contributors")
    if machine.lineage.by_history and not grow(cython.address(machine.lineage.times), 2 * (first + n)):
        raise MemoryError("no memory for histories")
    for i in range(n):
        left = rows[i, 0] if rows[i, 0] < 0 else rows[i, 0] + first
        right = rows[i, 1] if left <= -2 else rows[i, 1] + first
        push_node(machine, left, right, rows[i, 2], times[i, 0], times[i, 1])
    return first


# -- forgetting --------------------------------------------------------------------------------------------------------------


def sweep_nodes(machine: Machine) -> "np.ndarray":
    """Forget contributors of no live instance; the (stream, number) pairs of events still held. Call between batches."""
    machine.follow()
    keep_nodes(machine, 0)
    return leaves(machine, 0)


def sweep_taken(machine: Machine) -> None:
    """Forget contributors of matches that were taken, of which there are many; what others still read of this batch stays."""
    if machine.has_more and count_nodes(machine) >= 2 * machine.lineage.n_left:
        keep_nodes(machine, machine.lineage.n_shared)
        machine.lineage.n_left = count_nodes(machine)


def keep_nodes(machine, n_kept):
    """Forget nodes that nothing leads to, but for the first ones."""
    n_nodes: int64_t = count_nodes(machine)
    moved = np.full(n_nodes + 1, -1, np.int64)
    moved[:n_kept] = 0
    place: int64_t[::1] = moved
    n: int64_t = 0
    i: int64_t = n_nodes - 1
    for kind in machine.operators:
        cython.cast(Operators, kind).visit_nodes(machine, cython.address(place[0]), False)
    # A node is younger than its parts: one pass downwards marks, one upwards moves.
    while i >= 0:
        node = node_at(machine, i)
        if place[i] == 0 and node.left > -2:
            place[node.right] = 0
            if node.left >= 0:
                place[node.left] = 0
        i -= 1
    for i in range(n_nodes):
        if place[i] != 0:
            continue
        place[i] = n
        node = node_at(machine, n)
        node[0] = node_at(machine, i)[0]
        if node.left > -2:
            node.right = place[node.right]
            node.left = place[node.left] if node.left >= 0 else -1
        if machine.lineage.by_history:
            times_at(machine, n)[0] = times_at(machine, i)[0]
        n += 1
    for kind in machine.operators:
        cython.cast(Operators, kind).visit_nodes(machine, cython.address(place[0]), True)
    machine.lineage.nodes.size = 3 * n
    machine.lineage.times.size = 2 * n if machine.lineage.by_history else 0
    machine.held = -1
    shrink(cython.address(machine.lineage.nodes))
    shrink(cython.address(machine.lineage.times))
