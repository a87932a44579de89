"""Sequences of all combinations: which events of a batch are events of a component, and what becomes of each (the SASE paper, section 4).

Rows that some component wants are looked at epoch by epoch. One that can complete matches begins a search (`construction.py`); the
others are stacked (`stacks.py`), if what must come before them is there. Where nothing may follow a match, the end of the first event's
window begins the search instead.
"""

import cython
from cython.cimports.keuka.kernel.batches import take_result
from cython.cimports.keuka.kernel.buffers import grow, push
from cython.cimports.keuka.kernel.bytecode import canonical_double
from cython.cimports.keuka.kernel.construction import (
    begin_by_deadline,
    begin_search,
    has_first,
    next_deadline,
    read_slots,
    search,
)
from cython.cimports.keuka.kernel.lineage import leaf_node
from cython.cimports.keuka.kernel.machine import AHEAD, LARGE, ROW_HANDLE, View, enlarge, visit
from cython.cimports.keuka.kernel.stacks import (
    EVENT_END,
    EVENT_HEADER,
    EVENT_KEY,
    EVENT_NODE,
    EVENT_START,
    EVENT_TAG,
    ORDERED,
    RIPS,
    UNKNOWN,
    WAITS,
    WITHOUT_KEY,
    AbsenceRow,
    Bound,
    ComponentRow,
    LevelRow,
    PortRows,
    Ring,
    TestRow,
    copy_stacked,
    drop_event,
    drop_old,
    drop_stacked,
    event_at,
    find_key,
    free_sequence,
    is_dropped,
    is_past,
    new_event,
    prune,
    put_stacked,
    shrink_queue,
    shrink_ring,
    tidy_keys,
    top_before,
)
from cython.cimports.keuka.kernel.system import highest_bit, prefetch
from cython.cimports.libc.stdint import INT64_MAX, uint8_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset


@cython.final
@cython.cclass
class Sequences(Operators):
    def __dealloc__(self):
        for number in range(self.n):
            free_sequence(cython.address(self.sequences[number]))
        free(self.sequences)

    def place(self, machine, rows):
        """Every sequence its stacks; those of sequences that are gone are emptied."""
        n: int64_t = len(rows)
        self.arrays = rows
        enlarge(cython.address(self.sequences), self.n, n, cython.sizeof(Sequence))
        self.n = n
        for number in range(n):
            arrays = rows[number]
            if self.sequences[number].serial != 0 and (arrays is None or arrays.serial != self.sequences[number].serial):
                free_sequence(cython.address(self.sequences[number]))
            if arrays is not None:
                if self.sequences[number].serial == 0:
                    self.place_one(number)
                self.sequences[number].is_read = arrays.is_read

    def place_one(self, number):
        """An array each for what runs of a new sequence, and pointers into what does not change."""
        seq: cython.pointer(Sequence) = cython.address(self.sequences[number])
        arrays = self.arrays[number]
        components: cython.const[ComponentRow][::1] = arrays.components
        feeds: cython.const[FeedRow][::1] = arrays.feeds
        levels: cython.const[LevelRow][::1] = arrays.levels
        tests: cython.const[TestRow][::1] = arrays.tests
        absences: cython.const[AbsenceRow][::1] = arrays.absences
        words: cython.const[int64_t][::1]
        seq.components, seq.feeds = cython.address(components[0]), cython.address(feeds[0])
        seq.levels, seq.tests, seq.absences = cython.address(levels[0]), cython.address(tests[0]), cython.address(absences[0])
        words = arrays.feed_columns
        seq.feed_columns = cython.address(words[0])
        words = arrays.items
        seq.items = cython.address(words[0])
        words = arrays.ports
        seq.ports = cython.address(words[0])
        words = arrays.slot_types
        seq.slot_types = cython.address(words[0])
        seq.stream, seq.within, seq.settings, seq.n_alternatives = arrays.stream, arrays.within, arrays.settings, arrays.n_alternatives
        seq.key_type, seq.key_is_double, seq.program, seq.n_items = arrays.key_type, arrays.key_type == 2, arrays.program, arrays.n_items
        seq.n_components, seq.n_positive, seq.n_ports = arrays.n_components, arrays.n_positive, arrays.n_ports
        seq.n_feeds, seq.n_slots = arrays.n_feeds, arrays.n_slots
        try:
            enlarge(cython.address(seq.rings), 0, seq.n_components, cython.sizeof(Ring))
            enlarge(cython.address(seq.port_rows), 0, seq.n_ports, cython.sizeof(PortRows))
            enlarge(cython.address(seq.bound), 0, seq.n_components, cython.sizeof(Bound))
            enlarge(cython.address(seq.shared), 0, seq.n_components, 8)
            enlarge(cython.address(seq.nothing), 0, seq.n_components, 8)
            enlarge(cython.address(seq.values), 0, seq.n_slots, 8)
            enlarge(cython.address(seq.flags), 0, seq.n_slots, 1)
            enlarge(cython.address(seq.cursor), 0, seq.n_positive, 8)
            enlarge(cython.address(seq.low), 0, seq.n_positive, 8)
            enlarge(cython.address(seq.since), 0, seq.n_positive, 8)
            enlarge(cython.address(seq.alive), 0, seq.n_positive, 8)
            enlarge(cython.address(seq.failed), 0, seq.n_positive, 8)
        except MemoryError:
            free_sequence(seq)
            raise
        seq.keys.width = 2 + seq.n_components
        for i in range(seq.n_components):
            seq.shared[i] = seq.nothing[i] = -1
            seq.rings[i].n_slots = seq.components[i].n_slots
            seq.rings[i].width = EVENT_HEADER + seq.rings[i].n_slots + (seq.rings[i].n_slots + 7) // 8
        for i in range(seq.n_slots):
            seq.carries = seq.carries or seq.slot_types[i] == ROW_HANDLE
        seq.serial = arrays.serial

    def reset(self):
        for number in range(self.n):
            self.sequences[number].is_open = self.sequences[number].is_searching = False

    def run(self, machine, number):
        return run_sequence(machine, cython.address(self.sequences[number]))

    def next_deadline(self, tick):
        """The end of a window that completes matches, or the tick from which on a stacked event can be part of no match."""
        some: cython.bint = False
        tick[0] = INT64_MAX
        for number in range(self.n):
            seq = cython.address(self.sequences[number])
            if seq.serial != 0 and has_first(seq):
                tick[0] = min(tick[0], next_deadline(seq))
                some = True
            for c in range(seq.n_components):
                ring = seq.rings + c
                kept_for = seq.components[c].kept_for
                if ring.tail < ring.head and kept_for != INT64_MAX:
                    end = event_at(ring, ring.tail)[EVENT_END]
                    if end < 0 or kept_for <= INT64_MAX - end:
                        tick[0] = min(tick[0], end + kept_for)
                        some = True
        return some

    # -- between batches -----------------------------------------------------------------------------------------------------------

    def at(self, number):
        if not 0 <= number < self.n or self.sequences[number].serial == 0:
            raise IndexError("there is no such sequence")
        return cython.address(self.sequences[number])

    def usage(self, number: int64_t) -> tuple:
        """Stacked events, the most there ever were, and bytes of memory."""
        seq: cython.pointer(Sequence) = self.at(number)
        return seq.n_events, seq.most_events, stack_bytes(seq)

    def stacked(self, number: int64_t, keys=None) -> list:
        """By component: the stacked events, rows of words (`stacks.pxd`); all, or those with one of the keys."""
        return copy_stacked(self.at(number), keys)

    def put_stacked(self, number: int64_t, arriving: list) -> None:
        put_stacked(self.at(number), arriving)

    def drop_stacked(self, number: int64_t, keys=None) -> None:
        drop_stacked(self.at(number), keys)

    def n_bytes(self):
        total: int64_t = 0
        for number in range(self.n):
            total += stack_bytes(cython.address(self.sequences[number]))
        return total

    def n_batch_bytes(self):
        """The rows of the last batch that sequences looked at."""
        total: int64_t = 0
        for number in range(self.n):
            seq = cython.address(self.sequences[number])
            total += seq.masks.capacity
            for p in range(seq.n_ports):
                total += seq.port_rows[p].rows.capacity + seq.port_rows[p].masks.capacity
        return 8 * total

    def collect(self, slot_type, found):
        """Values of slots, and keys."""
        for number in range(self.n):
            seq = cython.address(self.sequences[number])
            for component in range(seq.n_components):
                ring = seq.rings + component
                row = seq.components + component
                for event in range(ring.tail, ring.head):
                    words = event_at(ring, event)
                    if is_dropped(words):
                        continue
                    if row.is_keyed and seq.key_type == slot_type and not words[EVENT_TAG] & WITHOUT_KEY:
                        if not push(found, words[EVENT_KEY]):
                            return False
                    flags = cython.cast(cython.pointer(uint8_t), words + EVENT_HEADER + ring.n_slots)
                    for i in range(ring.n_slots):
                        if seq.slot_types[row.first_slot + i] == slot_type and flags[i] == 0:
                            if not push(found, words[EVENT_HEADER + i]):
                                return False
        return True

    def visit_nodes(self, machine, place, move):
        """Those of stacked events. Where a search stopped after a match, the events of that match are bound, and it goes on with them."""
        for number in range(self.n):
            seq = cython.address(self.sequences[number])
            for i in range(seq.n_components):
                for event in range(seq.rings[i].tail, seq.rings[i].head):
                    words = event_at(seq.rings + i, event)
                    if not is_dropped(words):
                        visit(words + EVENT_NODE, place, move)
                if machine.has_more and seq.is_searching and not seq.components[i].is_negated:
                    visit(cython.address(seq.bound[i].node), place, move)


def stack_bytes(seq):
    """The stacks, and their keys."""
    total: int64_t = 8 * (seq.keys.n_entries * seq.keys.width + seq.waiting.firsts.capacity + seq.arrived.firsts.capacity)
    for i in range(seq.n_components):
        if seq.rings[i].data != cython.NULL:
            total += (seq.rings[i].mask + 1) * seq.rings[i].width * 8
    return total


def run_sequence(machine, seq):
    """Run a batch, or go on with it. MORE: there are matches to take before it can go on."""
    tick: int64_t = 0
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


def open_batch(machine, seq):
    """Find the rows that are events of some component. Others cost nothing from here on."""
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


def select_rows(machine, seq, port):
    view: cython.pointer(View) = cython.address(machine.streams[seq.ports[port]].view)
    owner: cython.pointer(cython.const[uint8_t]) = machine.streams[seq.ports[port]].owner_data
    found: cython.pointer(PortRows) = seq.port_rows + port
    n: int64_t = view.n_rows
    k: int64_t = 0
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


def next_tick(machine, seq, tick):
    """The end of the next epoch that has events of the sequence."""
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


def begin_epoch(machine, seq, tick):
    n: int64_t = 0
    only: int64_t = 0
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


def rewind(seq):
    """To the first event of the epoch at hand."""
    seq.mask = seq.only_mask
    seq.at_feed = seq.n_feeds
    seq.at_row = 0


def fetch_ahead(machine, seq, port):
    """Ask for the entry of a later row's key."""
    found: cython.pointer(PortRows) = seq.port_rows + port
    later: int64_t = found.low + AHEAD
    if later < found.n:
        feed = seq.feeds + highest_bit(found.masks.data[later])
        if feed.key >= 0:
            hash_ = machine.hashes[feed.hash].data[found.rows.data[later]]
            prefetch(seq.keys.entries + cython.cast(int64_t, hash_ >> seq.keys.shift) * seq.keys.width)


def take_events(machine, seq):
    """The events of an epoch, those of later components first: none sees what is simultaneous with it. Stops when a search begins."""
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


def take_event(machine, seq, number, row):
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


def stack_event(machine, seq, feed, row, tops, hash_, key):
    component: int64_t = feed.component
    view: cython.pointer(View) = cython.address(machine.streams[feed.stream].view)
    tick: int64_t = view.ends[row]
    ring: cython.pointer(Ring) = seq.rings + component
    node: int64_t = -1
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


def is_wanted(seq, component, tops, tick):
    """Is there what must come before the event? Else it leads to no match."""
    row: cython.pointer(cython.const[ComponentRow]) = seq.components + component
    before: int64_t = row.positive_before
    if row.first_only and tops != cython.NULL and tops[component] >= seq.rings[component].tail:
        return False
    if before < 0 or not seq.settings & RIPS or not seq.settings & ORDERED:
        return True
    number = top_before(seq, component, before, tops, tick)
    return number == UNKNOWN or (
        number >= seq.rings[before].tail and not is_past(event_at(seq.rings + before, number)[EVENT_END], tick, seq.within)
    )
