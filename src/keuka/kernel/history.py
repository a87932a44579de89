"""The rows of an epoch in the order of their histories (docs/semantics.md, 3): the starts and ends of the primitive events in them.

Histories are read from the end: at the first difference the smaller value comes first, and if there is none the longer history.
Only states that choose by history come here, and only in epochs with several events of their stream.
"""

import cython
from cython.cimports.keuka.kernel.buffers import Buffer, grow, push
from cython.cimports.keuka.kernel.lineage import node_at, times_at
from cython.cimports.keuka.kernel.machine import Lineage


def rank_rows(machine, view, primitive):
    """Fill `ranked` with (row, rank) of all rows of the epoch at hand, by rank; equal histories have equal ranks."""
    lineage: cython.pointer(Lineage) = cython.address(machine.lineage)
    n: int64_t = view.high - view.low
    rank: int64_t = 0
    lineage.histories.size = lineage.history_ends.size = 0
    for i in range(view.low, view.high):
        if primitive or not lineage.by_history or view.is_source or view.lineage[i] < 0:
            if not push(cython.address(lineage.histories), view.ends[i]) or not push(cython.address(lineage.histories), view.starts[i]):
                return False
        elif not write_history(machine, view.lineage[i]):
            return False
        if not push(cython.address(lineage.history_ends), lineage.histories.size):
            return False
    if not sort_rows(machine, n):
        return False
    for i in range(n):
        if i > 0 and compare(machine, lineage.ranked.data[2 * i - 2], lineage.ranked.data[2 * i]) != 0:
            rank += 1
        lineage.ranked.data[2 * i + 1] = rank
    for i in range(n):
        lineage.ranked.data[2 * i] += view.low
    return True


def write_history(machine, node):
    """Append the times of a node's primitive events, the last first, each as end and start."""
    lineage: cython.pointer(Lineage) = cython.address(machine.lineage)
    stack: cython.pointer(Buffer) = cython.address(lineage.stack)
    histories: cython.pointer(Buffer) = cython.address(lineage.histories)
    stack.size = 0
    if not push(stack, node):
        return False
    while stack.size > 0:
        stack.size -= 1
        node = stack.data[stack.size]
        parts = node_at(machine, node)
        times = times_at(machine, node)
        if parts.left <= -2:
            continue  # an event from before times were wanted
        if parts.left >= 0 and not push(stack, parts.left):
            return False
        if times.start <= times.end:
            if not (push(histories, times.end) and push(histories, times.start)):
                return False
        elif not push(stack, parts.right):
            return False
    return True


def compare(machine, first, second):
    """Negative if the first row's history comes first, 0 if they are equal."""
    lineage: cython.pointer(Lineage) = cython.address(machine.lineage)
    ends: cython.pointer(int64_t) = lineage.history_ends.data
    values: cython.pointer(int64_t) = lineage.histories.data
    a: int64_t = 0 if first == 0 else ends[first - 1]
    b: int64_t = 0 if second == 0 else ends[second - 1]
    while a < ends[first] and b < ends[second]:
        if values[a] != values[b]:
            return -1 if values[a] < values[b] else 1
        a += 1
        b += 1
    return (1 if a == ends[first] else 0) - (1 if b == ends[second] else 0)


def sort_rows(machine, n):
    """Merge sort: `ranked` gets the numbers of the epoch's rows in order, with room for their ranks."""
    lineage: cython.pointer(Lineage) = cython.address(machine.lineage)
    width: int64_t = 1
    if not grow(cython.address(lineage.ranked), 2 * n) or not grow(cython.address(lineage.merged), 2 * n):
        return False
    for i in range(n):
        lineage.ranked.data[2 * i] = i
    while width < n:
        i = 0
        while i < n:
            middle = min(i + width, n)
            last = min(i + 2 * width, n)
            a = i
            b = middle
            for k in range(i, last):
                if a < middle and (b == last or compare(machine, lineage.ranked.data[2 * a], lineage.ranked.data[2 * b]) <= 0):
                    lineage.merged.data[2 * k] = lineage.ranked.data[2 * a]
                    a += 1
                else:
                    lineage.merged.data[2 * k] = lineage.ranked.data[2 * b]
                    b += 1
            i += 2 * width
        lineage.ranked, lineage.merged = lineage.merged, lineage.ranked
        width *= 2
    return True
