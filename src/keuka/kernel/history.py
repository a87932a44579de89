"""The rows of an epoch in the order of their histories (docs/semantics.md, 3): the starts and ends of the primitive events in them.

Histories are read from the end: at the first difference the smaller value comes first, and if there is none the longer history.
Only states that choose by history come here, and only in epochs with several events of their stream.
"""

import cython
from cython.cimports.keuka.kernel.buffers import Buffer, grow, push
from cython.cimports.keuka.kernel.machine import Machine, View
from cython.cimports.libc.stdint import int64_t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rank_rows(machine: Machine, view: cython.pointer(View), primitive: cython.bint) -> cython.bint:
    """Fill `ranked` with (row, rank) of all rows of the epoch at hand, by rank; equal histories have equal ranks."""
    n: int64_t = view.high - view.low
    i: int64_t
    rank: int64_t = 0
    machine.histories.size = machine.history_ends.size = 0
    for i in range(view.low, view.high):
        if primitive or not machine.by_history or view.is_source or view.lineage[i] < 0:
            if not push(cython.address(machine.histories), view.ends[i]) or not push(cython.address(machine.histories), view.starts[i]):
                return False
        elif not write_history(machine, view.lineage[i]):
            return False
        if not push(cython.address(machine.history_ends), machine.histories.size):
            return False
    if not sort_rows(machine, n):
        return False
    for i in range(n):
        if i > 0 and compare(machine, machine.ranked.data[2 * i - 2], machine.ranked.data[2 * i]) != 0:
            rank += 1
        machine.ranked.data[2 * i + 1] = rank
    for i in range(n):
        machine.ranked.data[2 * i] += view.low
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_history(machine: Machine, node: int64_t) -> cython.bint:
    """Append the times of a node's primitive events, the last first, each as end and start."""
    stack: cython.pointer(Buffer) = cython.address(machine.node_stack)
    stack.size = 0
    if not push(stack, node):
        return False
    while stack.size > 0:
        stack.size -= 1
        node = stack.data[stack.size]
        if machine.nodes.data[3 * node] <= -2:
            continue  # an event from before times were wanted
        if machine.nodes.data[3 * node] >= 0 and not push(stack, machine.nodes.data[3 * node]):
            return False
        if machine.times.data[2 * node] <= machine.times.data[2 * node + 1]:
            if not push(cython.address(machine.histories), machine.times.data[2 * node + 1]):
                return False
            if not push(cython.address(machine.histories), machine.times.data[2 * node]):
                return False
        elif not push(stack, machine.nodes.data[3 * node + 1]):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def compare(machine: Machine, first: int64_t, second: int64_t) -> int64_t:
    """Negative if the first row's history comes first, 0 if they are equal."""
    ends: cython.pointer(int64_t) = machine.history_ends.data
    values: cython.pointer(int64_t) = machine.histories.data
    a: int64_t = 0 if first == 0 else ends[first - 1]
    b: int64_t = 0 if second == 0 else ends[second - 1]
    while a < ends[first] and b < ends[second]:
        if values[a] != values[b]:
            return -1 if values[a] < values[b] else 1
        a += 1
        b += 1
    return (1 if a == ends[first] else 0) - (1 if b == ends[second] else 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sort_rows(machine: Machine, n: int64_t) -> cython.bint:
    """Merge sort: `ranked` gets the numbers of the epoch's rows in order, with room for their ranks."""
    i: int64_t
    a: int64_t
    b: int64_t
    k: int64_t
    middle: int64_t
    last: int64_t
    width: int64_t = 1
    if not grow(cython.address(machine.ranked), 2 * n) or not grow(cython.address(machine.merged), 2 * n):
        return False
    for i in range(n):
        machine.ranked.data[2 * i] = i
    while width < n:
        i = 0
        while i < n:
            middle = min(i + width, n)
            last = min(i + 2 * width, n)
            a = i
            b = middle
            for k in range(i, last):
                if a < middle and (b == last or compare(machine, machine.ranked.data[2 * a], machine.ranked.data[2 * b]) <= 0):
                    machine.merged.data[2 * k] = machine.ranked.data[2 * a]
                    a += 1
                else:
                    machine.merged.data[2 * k] = machine.ranked.data[2 * b]
                    b += 1
            i += 2 * width
        machine.ranked, machine.merged = machine.merged, machine.ranked
        width *= 2
    return True
