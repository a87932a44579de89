"""Stacked events: rings and the table of their keys, growing, shrinking, forgetting what can be part of no match any more.

A ring holds the events of one component, of all keys: the window moves its tail, and nothing else is to be done for an event that
leaves. The events of one key are linked from the latest down. Events are in the order of time, but for those that came from another
kernel; so first events whose windows will end stand in queues of their own.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import reallocate, release, zeroed
from cython.cimports.keuka.kernel.buffers import push, shrink
from cython.cimports.keuka.kernel.bytecode import canonical_double
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy, memmove, memset

from keuka.kernel.rows import dtypes

description = cython.declare(Description)
DTYPES = dtypes(description)
MANY_PLACES = cython.declare(int64_t, 1024)  # of stacked events, below which gaps among them do not matter


def add_event(ring):
    """Room for one more event at the head; the caller fills it in. False when memory is out."""
    n_places: int64_t = 0 if ring.data == cython.NULL else ring.mask + 1
    if ring.head - ring.tail == n_places:
        return place_events(ring, 2 * n_places if n_places > 0 else FEWEST)
    return True


def shrink_ring(ring):
    """Give memory back after a burst; all of it if there is no event."""
    n: int64_t = ring.head - ring.tail
    n_places: int64_t = FEWEST
    if ring.data == cython.NULL:
        return True
    if n == 0:
        release(ring.data, (ring.mask + 1) * ring.width * 8)
        ring.data = cython.NULL
        ring.mask = 0
        return True
    if ring.mask + 1 <= 8 * n or ring.mask + 1 <= FEWEST:
        return True
    while n_places < 2 * n:
        n_places *= 2
    return place_events(ring, n_places)


def place_events(ring, n_places):
    data: cython.pointer(int64_t) = cython.NULL
    if not reallocate(cython.address(data), 0, n_places * ring.width * 8):
        return False
    for number in range(ring.tail, ring.head):
        memcpy(data + (number & (n_places - 1)) * ring.width, event_at(ring, number), ring.width * 8)
    if ring.data != cython.NULL:
        release(ring.data, (ring.mask + 1) * ring.width * 8)
    ring.data = data
    ring.mask = n_places - 1
    return True


def add_key(keys, rings, n_rings, hash_, key, tops):
    """A new entry, its stacks empty. Entries move, so that pointers to others are no longer good."""
    if 2 * (keys.n_used + 1) > keys.n_entries and not place_keys(keys, rings, n_rings, 1):
        return False
    entry = free_entry(keys, hash_)
    entry[0] = hash_
    entry[1] = key
    memset(entry + 2, 0xFF, n_rings * 8)  # -1
    keys.n_used += 1
    tops[0] = entry + 2
    return True


def tidy_keys(keys, rings, n_rings):
    """Forget keys without events when they may be most of the table."""
    n_events: int64_t = 0
    for i in range(n_rings):
        n_events += rings[i].head - rings[i].tail
    if keys.n_entries > 0 and (n_events == 0 or keys.n_entries > 8 * n_events + 8 * FEWEST):
        return place_keys(keys, rings, n_rings, 0)
    return True


def place_keys(keys, rings, n_rings, n_more):
    """Write the table anew, without keys that have no event any more, and room for as many again."""
    old: Keys = keys[0]
    n_alive: int64_t = 0
    for i in range(old.n_entries):
        n_alive += is_alive(old.entries + i * old.width, rings, n_rings)
    keys.entries = cython.NULL
    keys.n_entries = keys.n_used = 0
    if n_alive + n_more > 0:
        keys.n_entries = FEWEST
        keys.shift = 60
        while keys.n_entries < 4 * (n_alive + n_more):
            keys.n_entries *= 2
            keys.shift -= 1
        keys.entries = cython.cast(cython.pointer(int64_t), zeroed(keys.n_entries * keys.width * 8))
        if keys.entries == cython.NULL:
            keys[0] = old
            return False
    for i in range(old.n_entries):
        entry = old.entries + i * old.width
        if is_alive(entry, rings, n_rings):
            memcpy(free_entry(keys, entry[0]), entry, keys.width * 8)
            keys.n_used += 1
    release(old.entries, old.n_entries * old.width * 8)
    return True


def is_alive(entry, rings, n_rings):
    if entry[0] == 0:
        return False
    for i in range(n_rings):
        if entry[2 + i] >= rings[i].tail:
            return True
    return False


def free_entry(keys, hash_):
    position: int64_t = cython.cast(int64_t, hash_ >> keys.shift)
    while keys.entries[position * keys.width] != 0:
        position = (position + 1) & (keys.n_entries - 1)
    return keys.entries + position * keys.width


def new_event(seq, component, tops, hash_, key, tick):
    """A place on top of the stack, its links made; NULL when memory is out. Numbers follow the order of time, but for events that
    come from another kernel."""
    row: cython.pointer(cython.const[ComponentRow]) = seq.components + component
    ring: cython.pointer(Ring) = seq.rings + component
    use_rip: cython.bint = (seq.settings & RIPS) != 0 and (seq.settings & ORDERED) != 0
    if tops == cython.NULL and not add_key(cython.address(seq.keys), seq.rings, seq.n_components, hash_, key, cython.address(tops)):
        return cython.NULL
    if not add_event(ring):
        return cython.NULL
    if seq.settings & WAITS and component == first_component(seq) and not add_waiting(seq, tick, ring.head):
        return cython.NULL
    words = event_at(ring, ring.head)
    words[EVENT_END] = tick
    words[EVENT_KEY] = key
    words[EVENT_BELOW] = tops[component]
    words[EVENT_RIP] = top_before(seq, component, row.positive_before, tops, tick) if use_rip and row.positive_before >= 0 else UNKNOWN
    words[EVENT_ABSENT] = top_before(seq, component, row.negated_before, tops, tick) if row.negated_before >= 0 else UNKNOWN
    if ring.n_slots > 0:
        words[EVENT_HEADER + ring.n_slots + (ring.n_slots - 1) // 8] = 0  # no word is left undefined
    tops[component] = ring.head
    ring.head += 1
    seq.n_events += 1
    if seq.n_events > seq.most_events:
        seq.most_events = seq.n_events
    return words


def drop_event(seq, component, number):
    """Forget an event to which no link leads any more."""
    ring: cython.pointer(Ring) = seq.rings + component
    event_at(ring, number)[EVENT_BELOW] = DROPPED
    seq.n_events -= 1
    while ring.tail < ring.head and is_dropped(event_at(ring, ring.tail)):
        ring.tail += 1


def add_waiting(seq, end, number):
    """A first event takes its place among the others. It is the last, unless it comes from another kernel."""
    queue: cython.pointer(Queue) = cython.address(seq.waiting)
    n: int64_t = count_firsts(queue)
    if n > 0 and first_at(queue, n - 1).end > end:
        queue = cython.address(seq.arrived)
        n = count_firsts(queue)
    if queue.n_past > FEWEST and 2 * queue.n_past > n:
        n -= queue.n_past
        memmove(queue.firsts.data, first_at(queue, queue.n_past), n * cython.sizeof(First))
        queue.firsts.size = n * (cython.sizeof(First) // 8)
        queue.n_past = 0
    if not (push(cython.address(queue.firsts), end) and push(cython.address(queue.firsts), number)):
        return False
    low, high = queue.n_past, n
    while low < high:
        middle = (low + high) >> 1
        if first_at(queue, middle).end <= end:
            low = middle + 1
        else:
            high = middle
    if low < n:
        memmove(first_at(queue, low + 1), first_at(queue, low), (n - low) * cython.sizeof(First))
        first_at(queue, low).end = end
        first_at(queue, low).number = number
    return True


def shrink_queue(seq, queue):
    """Give memory back after a burst; all of it if no event waits."""
    if queue.firsts.data == cython.NULL:
        return
    if front(seq, queue) == cython.NULL:
        release(queue.firsts.data, queue.firsts.capacity * 8)
        queue.firsts.data = cython.NULL
        queue.firsts.capacity = 0
    shrink(cython.address(queue.firsts))


def clear_sequence(seq):
    """Forget all events."""
    for i in range(seq.n_components):
        seq.rings[i].tail = seq.rings[i].head
        seq.shared[i] = -1
    seq.n_events = seq.waiting.firsts.size = seq.waiting.n_past = seq.arrived.firsts.size = seq.arrived.n_past = 0


def prune(seq, now):
    for i in range(seq.n_components):
        if seq.rings[i].tail < seq.rings[i].head:
            drop_old(seq, i, now)


def place_event(seq, component, words):
    """Stack an event that was stacked before, somewhere else. They come in the order of time, later components first."""
    ring: cython.pointer(Ring) = seq.rings + component
    tops: cython.pointer(int64_t) = seq.shared
    hash_: uint64_t = hash_of_event(words)
    if seq.components[component].is_keyed:
        tops = find_key(cython.address(seq.keys), hash_, words[EVENT_KEY])
    placed = new_event(seq, component, tops, hash_, words[EVENT_KEY], words[EVENT_END])
    if placed == cython.NULL:
        return False
    placed[EVENT_START] = words[EVENT_START]
    placed[EVENT_NODE] = words[EVENT_NODE]
    placed[EVENT_TAG] = words[EVENT_TAG]
    memcpy(placed + EVENT_HEADER, words + EVENT_HEADER, (ring.width - EVENT_HEADER) * 8)
    return True


def free_sequence(seq):
    if seq.rings != cython.NULL:
        for i in range(seq.n_components):
            free(seq.rings[i].data)
    if seq.port_rows != cython.NULL:
        for i in range(seq.n_ports):
            free(seq.port_rows[i].rows.data)
            free(seq.port_rows[i].masks.data)
    free(seq.rings)
    free(seq.port_rows)
    free(seq.keys.entries)
    free(seq.shared)
    free(seq.nothing)
    free(seq.masks.data)
    free(seq.waiting.firsts.data)
    free(seq.arrived.firsts.data)
    free(seq.values)
    free(seq.flags)
    free(seq.bound)
    free(seq.cursor)
    free(seq.low)
    free(seq.since)
    free(seq.alive)
    free(seq.failed)
    memset(seq, 0, cython.sizeof(Sequence))


# -- between batches: stacked events as rows of words ----------------------------------------------------------------------------


def tops_of(seq, key, is_null):
    if is_null:
        return find_key(cython.address(seq.keys), 1, 0)
    if seq.key_is_double:
        key = canonical_double(key)
    return find_key(cython.address(seq.keys), hash_of(key), key)


def copy_stacked(seq, keys):
    """By component: its stacked events in the order of time, one row of words each.

    `keys`: only those with one of these, given as (value, is it null?), or None. Then every component must have the key.
    """
    numbers: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    enough: cython.bint = True
    found = []
    for component in range(seq.n_components):
        ring = seq.rings + component
        numbers.size = 0
        if keys is None:
            for event in range(ring.tail, ring.head):
                enough = enough and (is_dropped(event_at(ring, event)) or push(cython.address(numbers), event))
        else:
            for key, is_null in keys:
                tops = tops_of(seq, key, is_null)
                event = -1 if tops == cython.NULL else tops[component]
                while event >= ring.tail and not is_dropped(event_at(ring, event)):
                    enough = enough and push(cython.address(numbers), event)
                    event = event_at(ring, event)[EVENT_BELOW]
        rows: int64_t[:, ::1] = np.empty((numbers.size + 1, ring.width), np.int64)
        for i in range(numbers.size):
            memcpy(cython.address(rows[i, 0]), event_at(ring, numbers.data[i]), ring.width * 8)
        found.append(np.asarray(rows)[: numbers.size])
    free(numbers.data)
    if not enough:
        raise MemoryError("no memory for the events of a sequence")
    if keys is None:
        return [in_order(each) for each in found]
    return [in_order(each[::-1]) for each in found]


def in_order(rows):
    """By end. Numbers follow the order of time within a key, not over all of them."""
    return rows[np.argsort(rows[:, EVENT_END], kind="stable")]


def put_stacked(seq, arriving):
    """Add events: by component, rows of words as `copy_stacked` gives them.

    Those of one key are linked in the order of time. So what is there of the same keys, or everything if a component has no key, is
    stacked again together with them.
    """
    if len(arriving) != seq.n_components:
        raise ValueError("events of another sequence")
    keys = set()
    is_keyed: cython.bint = True
    for component in range(seq.n_components):
        if len(arriving[component]) > 0 and arriving[component].shape[1] != seq.rings[component].width:
            raise ValueError("events of another sequence")
        is_keyed = is_keyed and seq.components[component].is_keyed != 0
        are_null = arriving[component][:, EVENT_TAG] & WITHOUT_KEY != 0
        keys.update(zip(arriving[component][:, EVENT_KEY].tolist(), are_null.tolist(), strict=True))
    there = copy_stacked(seq, sorted(keys) if is_keyed else None)
    drop_stacked(seq, sorted(keys) if is_keyed else None)
    stack_again(seq, [np.concatenate(pair) for pair in zip(there, arriving, strict=True)])


def stack_again(seq, events):
    """Stack events in the order of time, and at one time those of later components first, as they were stacked."""
    rows: cython.const[int64_t][:, ::1]
    component: int64_t
    i: int64_t
    ends = np.concatenate([each[:, EVENT_END] for each in events])
    components = np.repeat(np.arange(len(events)), [len(each) for each in events])
    places = np.concatenate([np.arange(len(each)) for each in events])
    for i in np.lexsort((places, -components, ends)):
        component = components[i]
        rows = events[component]
        if not place_event(seq, component, cython.address(rows[places[i], 0])):
            raise MemoryError("no memory for the events of a sequence")


def clear_stacks(seq):
    clear_sequence(seq)
    if not tidy_keys(cython.address(seq.keys), seq.rings, seq.n_components):
        raise MemoryError("no memory for the events of a sequence")


def drop_stacked(seq, keys):
    """Forget all stacked events, or those with one of the keys, given as `copy_stacked` takes them."""
    if keys is None:
        clear_stacks(seq)
        return
    for key, is_null in keys:
        tops = tops_of(seq, key, is_null)
        for component in range(seq.n_components if tops != cython.NULL else 0):
            event = tops[component]
            while event >= seq.rings[component].tail and not is_dropped(event_at(seq.rings + component, event)):
                below = event_at(seq.rings + component, event)[EVENT_BELOW]
                drop_event(seq, component, event)
                event = below
            tops[component] = -1
    # Places of dropped events are free when older events are gone. Where most places are such, all events are stacked again.
    n_places: int64_t = 0
    for component in range(seq.n_components):
        n_places += seq.rings[component].head - seq.rings[component].tail
    if n_places > 2 * seq.n_events + MANY_PLACES:
        events = copy_stacked(seq, None)
        clear_stacks(seq)
        stack_again(seq, events)
