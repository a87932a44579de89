"""Sequences of all combinations: which events of a batch are events of a component, and what becomes of each (the SASE paper, section 4).

Rows that some component wants are looked at epoch by epoch. One that can complete matches begins a search (`construction.py`); the
others are stacked (`stacks.py`), if what must come before them is there. Where nothing may follow a match, the end of the first event's
window begins the search instead.
"""

import cython
from cython.cimports.keuka.kernel.batches import take_result
from cython.cimports.keuka.kernel.buffers import grow, push
from cython.cimports.keuka.kernel.bytecode import Column, canonical_double
from cython.cimports.keuka.kernel.construction import (
    begin_by_deadline,
    begin_search,
    has_first,
    next_deadline,
    read_slots,
    search,
)
from cython.cimports.keuka.kernel.lineage import leaf_node
from cython.cimports.keuka.kernel.machine import AHEAD, LARGE, ROW_HANDLE, Machine, Status, View
from cython.cimports.keuka.kernel.rows import ComponentRow, FeedRow
from cython.cimports.keuka.kernel.stacks import (
    EVENT_END,
    EVENT_HEADER,
    EVENT_NODE,
    EVENT_START,
    EVENT_TAG,
    ORDERED,
    RIPS,
    UNKNOWN,
    WAITS,
    WITHOUT_KEY,
    PortRows,
    Ring,
    Sequence,
    drop_event,
    drop_old,
    event_at,
    find_key,
    is_past,
    new_event,
    prune,
    shrink_queue,
    shrink_ring,
    tidy_keys,
    top_before,
)
from cython.cimports.keuka.kernel.system import highest_bit, prefetch
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_sequence(machine: Machine, seq: cython.pointer(Sequence)) -> Status:
    """Run a batch, or go on with it. MORE: there are matches to take before it can go on."""
    status: Status
    tick: int64_t = 0
    deadline: int64_t
    any_left: cython.bint
    i: int64_t
    if not seq.is_open:
        status = open_batch(machine, seq)
        if status != Status.FINE:
            return status
    while True:
        if seq.is_searching:
            status = search(machine, seq)
            if status != Status.FINE:
                return status
            seq.is_searching = False
            if seq.by_deadline:
                drop_event(seq, seq.root, seq.root_event)
        if seq.in_epoch:
            status = take_events(machine, seq)
            if status != Status.FINE:
                return status
            if seq.is_searching:
                continue
            seq.in_epoch = False
        any_left = next_tick(machine, seq, cython.address(tick))
        if seq.settings & WAITS:
            deadline = next_deadline(seq)
            # An event of the last tick may still be in the way: its epoch comes first.
            if has_first(seq) and (deadline < tick if any_left else deadline <= machine.upto):
                begin_by_deadline(seq, deadline)
                continue
        if not any_left:
            break
        begin_epoch(machine, seq, tick)
    prune(seq, machine.upto)
    seq.is_open = False
    shrink_queue(seq, cython.address(seq.waiting))
    shrink_queue(seq, cython.address(seq.arrived))
    for i in range(seq.n_components):
        if not shrink_ring(seq.rings + i):
            return Status.NO_MEMORY
    if not tidy_keys(cython.address(seq.keys), seq.rings, seq.n_components):
        return Status.NO_MEMORY
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def open_batch(machine: Machine, seq: cython.pointer(Sequence)) -> Status:
    """Find the rows that are events of some component. Others cost nothing from here on."""
    p: int64_t
    stream: int64_t
    status: Status
    for p in range(seq.n_ports):
        stream = seq.ports[p]
        if not machine.streams[stream].view.is_source:
            status = take_result(machine, stream)
            if status != Status.FINE:
                return status
        if not select_rows(machine, seq, p):
            return Status.NO_MEMORY
    seq.is_open = True
    seq.in_epoch = False
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def select_rows(machine: Machine, seq: cython.pointer(Sequence), port: int64_t) -> cython.bint:
    view: cython.pointer(View) = cython.address(machine.streams[seq.ports[port]].view)
    owner: cython.pointer(cython.const[uint8_t]) = machine.streams[seq.ports[port]].owner_data
    found: cython.pointer(PortRows) = seq.port_rows + port
    feed: cython.pointer(cython.const[FeedRow])
    gate: cython.pointer(Column)
    n: int64_t = view.n_rows
    k: int64_t = 0
    f: int64_t
    row: int64_t
    masks: cython.pointer(uint64_t)
    found.n = found.low = found.high = 0
    if n == 0:
        return True
    if not (grow(cython.address(seq.masks), n) and grow(cython.address(found.rows), n) and grow(cython.address(found.masks), n)):
        return False
    masks = cython.cast(cython.pointer(uint64_t), seq.masks.data)
    memset(masks, 0, n * 8)
    for f in range(seq.n_feeds):
        feed = seq.feeds + f
        if feed.port != port:
            continue
        if feed.gate < 0:
            for row in range(n):
                masks[row] |= cython.cast(uint64_t, 1) << f
        else:
            gate = cython.address(machine.columns[feed.gate])
            for row in range(n):
                masks[row] |= cython.cast(uint64_t, (gate.values[row] != 0) & (gate.flags[row] == 0)) << f
    for row in range(n):
        found.rows.data[k] = row
        found.masks.data[k] = masks[row]
        k += masks[row] != 0
    if owner != cython.NULL:
        n = k
        k = 0
        for row in range(n):
            found.rows.data[k] = found.rows.data[row]
            found.masks.data[k] = found.masks.data[row]
            k += owner[found.rows.data[row]] == machine.shard
    found.n = k
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_tick(machine: Machine, seq: cython.pointer(Sequence), tick: cython.pointer(int64_t)) -> cython.bint:
    """The end of the next epoch that has events of the sequence."""
    p: int64_t
    end: int64_t
    found: cython.pointer(PortRows)
    any_left: cython.bint = False
    for p in range(seq.n_ports):
        found = seq.port_rows + p
        found.low = found.high
        if found.low < found.n:
            end = machine.streams[seq.ports[p]].view.ends[found.rows.data[found.low]]
            if not any_left or end < tick[0]:
                tick[0] = end
            any_left = True
    return any_left


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def begin_epoch(machine: Machine, seq: cython.pointer(Sequence), tick: int64_t) -> cython.void:
    p: int64_t
    n: int64_t = 0
    only: int64_t = 0
    found: cython.pointer(PortRows)
    ends: cython.pointer(cython.const[int64_t])
    for p in range(seq.n_ports):
        found = seq.port_rows + p
        ends = machine.streams[seq.ports[p]].view.ends
        while found.high < found.n and ends[found.rows.data[found.high]] == tick:
            found.high += 1
            n += 1
            only = p
    seq.in_epoch = True
    seq.is_pushing = (seq.settings & ORDERED) != 0
    seq.is_single = n == 1
    if n == 1:
        found = seq.port_rows + only
        seq.only_row = found.rows.data[found.low]
        seq.only_mask = found.masks.data[found.low]
        if seq.keys.n_entries > LARGE:
            fetch_ahead(machine, seq, only)
    rewind(seq)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def rewind(seq: cython.pointer(Sequence)) -> cython.void:
    """To the first event of the epoch at hand."""
    seq.mask = seq.only_mask
    seq.at_feed = seq.n_feeds
    seq.at_row = 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def fetch_ahead(machine: Machine, seq: cython.pointer(Sequence), port: int64_t) -> cython.void:
    """Ask for the entry of a later row's key."""
    found: cython.pointer(PortRows) = seq.port_rows + port
    later: int64_t = found.low + AHEAD
    hash_: uint64_t
    feed: cython.pointer(cython.const[FeedRow])
    if later < found.n:
        feed = seq.feeds + highest_bit(found.masks.data[later])
        if feed.key >= 0:
            hash_ = machine.hashes[feed.hash].data[found.rows.data[later]]
            prefetch(seq.keys.entries + cython.cast(int64_t, hash_ >> seq.keys.shift) * seq.keys.width)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take_events(machine: Machine, seq: cython.pointer(Sequence)) -> Status:
    """The events of an epoch, those of later components first: none sees what is simultaneous with it. Stops when a search begins."""
    feed: int64_t
    k: int64_t
    found: cython.pointer(PortRows)
    status: Status
    while True:
        if seq.is_single:
            while seq.mask != 0:
                feed = highest_bit(seq.mask)
                seq.mask &= ~(cython.cast(uint64_t, 1) << feed)
                status = take_event(machine, seq, feed, seq.only_row)
                if status != Status.FINE or seq.is_searching:
                    return status
        else:
            while seq.at_feed > 0:
                feed = seq.at_feed - 1
                found = seq.port_rows + seq.feeds[feed].port
                while found.low + seq.at_row < found.high:
                    k = found.low + seq.at_row
                    seq.at_row += 1
                    if (cython.cast(uint64_t, found.masks.data[k]) >> feed) & 1:
                        status = take_event(machine, seq, feed, found.rows.data[k])
                        if status != Status.FINE or seq.is_searching:
                            return status
                seq.at_feed -= 1
                seq.at_row = 0
        if seq.is_pushing:
            return Status.FINE
        # In any order every event may complete matches: all searches come before the first event is stacked.
        seq.is_pushing = True
        rewind(seq)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take_event(machine: Machine, seq: cython.pointer(Sequence), number: int64_t, row: int64_t) -> Status:
    """One event of a component: it begins a search, or is stacked."""
    feed: cython.pointer(cython.const[FeedRow]) = seq.feeds + number
    component: int64_t = feed.component
    tops: cython.pointer(int64_t) = seq.shared
    hash_: uint64_t = 0
    key: int64_t = 0
    if feed.key >= 0:
        hash_ = machine.hashes[feed.hash].data[row]
        if hash_ == 0:
            # Null equals nothing: neither another event of a match, nor one that is in the way.
            if seq.components[component].is_keyed != 2:
                return Status.FINE
            hash_ = 1
        else:
            key = machine.columns[feed.key].values[row]
            if seq.key_is_double:
                key = canonical_double(key)
        tops = find_key(cython.address(seq.keys), hash_, key)
    if seq.settings & ORDERED:
        if component == seq.n_components - 1 and not seq.settings & WAITS:
            return begin_search(machine, seq, feed, row, tops if tops != cython.NULL else seq.nothing, 0)
    elif not seq.is_pushing:
        # The searches have the order of the components, which all occur.
        return begin_search(machine, seq, feed, row, tops if tops != cython.NULL else seq.nothing, component * seq.n_positive)
    return stack_event(machine, seq, feed, row, tops, hash_, key)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def stack_event(
    machine: Machine,
    seq: cython.pointer(Sequence),
    feed: cython.pointer(cython.const[FeedRow]),
    row: int64_t,
    tops: cython.pointer(int64_t),
    hash_: uint64_t,
    key: int64_t,
) -> Status:
    component: int64_t = feed.component
    view: cython.pointer(View) = cython.address(machine.streams[feed.stream].view)
    tick: int64_t = view.ends[row]
    ring: cython.pointer(Ring) = seq.rings + component
    words: cython.pointer(int64_t)
    node: int64_t = -1
    i: int64_t
    if not is_wanted(seq, component, tops, tick):
        return Status.FINE
    drop_old(seq, component, tick)
    if machine.lineage.is_wanted:
        node = leaf_node(machine, view, row)
        if node < 0:
            return Status.NO_MEMORY
    words = new_event(seq, component, tops, hash_, key, tick)
    if words == cython.NULL:
        return Status.NO_MEMORY
    words[EVENT_START] = view.starts[row]
    words[EVENT_NODE] = node
    words[EVENT_TAG] = 4 * feed.tag + feed.is_primitive
    if feed.key >= 0 and machine.hashes[feed.hash].data[row] == 0:
        words[EVENT_TAG] += WITHOUT_KEY
    flags: cython.pointer(uint8_t) = cython.cast(cython.pointer(uint8_t), words + EVENT_HEADER + ring.n_slots)
    read_slots(machine, feed, seq, row, words + EVENT_HEADER, flags)
    if seq.carries:
        first: int64_t = seq.components[component].first_slot
        for i in range(ring.n_slots):
            if seq.slot_types[first + i] == ROW_HANDLE and flags[i] == 0:
                if not push(cython.address(machine.taken), words[EVENT_HEADER + i]):
                    return Status.NO_MEMORY
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_wanted(seq: cython.pointer(Sequence), component: int64_t, tops: cython.pointer(int64_t), tick: int64_t) -> cython.bint:
    """Is there what must come before the event? Else it leads to no match."""
    row: cython.pointer(cython.const[ComponentRow]) = seq.components + component
    before: int64_t = row.positive_before
    number: int64_t
    if row.first_only and tops != cython.NULL and tops[component] >= seq.rings[component].tail:
        return False
    if before < 0 or not seq.settings & RIPS or not seq.settings & ORDERED:
        return True
    number = top_before(seq, component, before, tops, tick)
    return number == UNKNOWN or (
        number >= seq.rings[before].tail and not is_past(event_at(seq.rings + before, number)[EVENT_END], tick, seq.within)
    )
