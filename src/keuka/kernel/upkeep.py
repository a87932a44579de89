"""What happens to machines between batches: instances and stacked events leave and enter as arrays, for snapshots, and it is asked
what they refer to, so that the rest can be forgotten.

Apart from `machine.py` because none of it runs per event. The sweeps walk all live instances, so callers run them only when
what they could free has doubled.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.buffers import Buffer, copy_words, grow, push
from cython.cimports.keuka.kernel.bytecode import canonical_double
from cython.cimports.keuka.kernel.epochs import add_instance
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.keuka.kernel.instances import HEADER, LINEAGE, Pool, clear, home_of, remove_entry, reserve
from cython.cimports.keuka.kernel.machine import Machine, Status
from cython.cimports.keuka.kernel.rows import ComponentRow
from cython.cimports.keuka.kernel.stacks import (
    EVENT_BELOW,
    EVENT_END,
    EVENT_HEADER,
    EVENT_KEY,
    EVENT_NODE,
    EVENT_TAG,
    WITHOUT_KEY,
    Ring,
    Sequence,
    clear_sequence,
    drop_event,
    event_at,
    find_key,
    hash_of,
    is_dropped,
    place_event,
    tidy_keys,
)
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy

MANY_PLACES = cython.declare(int64_t, 1024)  # of stacked events, below which gaps among them do not matter

# -- instances as rows of words ----------------------------------------------------------------------------------------------


@cython.cfunc
def pool_of(machine: Machine, state: int64_t) -> cython.pointer(Pool):
    machine.follow()
    if not 0 <= state < machine.automata.n_states:
        raise IndexError("there is no such state")
    return cython.address(machine.automata.pools[state])


@cython.cfunc
@cython.exceptval(check=False)
def has_key(
    pool: cython.pointer(Pool),
    words: cython.pointer(cython.const[int64_t]),
    slots: cython.const[int64_t][::1],
    key: cython.const[int64_t][::1],
) -> cython.bint:
    """Has an instance these values in these slots, as the kernel compares keys?"""
    i: int64_t
    k: int64_t
    value: int64_t
    wanted: int64_t
    for i in range(slots.shape[0]):
        value = words[HEADER + slots[i]]
        wanted = key[i]
        for k in range(pool.n_keys):
            if pool.keys[k].slot == slots[i] and pool.keys[k].is_double:
                value, wanted = canonical_double(value), canonical_double(wanted)
                break
        if value != wanted:
            return False
    return True


@cython.cfunc
def find_entry(
    pool: cython.pointer(Pool), slots: cython.const[int64_t][::1], key: cython.const[int64_t][::1], position: int64_t
) -> int64_t:
    """The next entry with the key, from a position on; -1 if there is none.

    A state that is looked up by the key alone has one entry for it, which its hash finds. Others are looked through, entry by entry.
    """
    h: uint64_t = HASH_SEED
    i: int64_t
    k: int64_t
    is_whole: cython.bint = pool.n_keys == slots.shape[0]
    if pool.n_entries == 0:
        return -1
    for k in range(pool.n_keys if is_whole else 0):
        for i in range(slots.shape[0]):
            if slots[i] == pool.keys[k].slot:
                h = mix(h, canonical_double(key[i]) if pool.keys[k].is_double else key[i])
                break
        else:
            is_whole = False
            break
    if not is_whole:
        while position < pool.n_entries:
            if pool.entries[position].hash != 0 and has_key(pool, pool.data + pool.entries[position].block, slots, key):
                return position
            position += 1
        return -1
    h |= 1
    i = home_of(pool, h)
    while pool.entries[i].hash != 0:
        if pool.entries[i].hash == h and has_key(pool, pool.data + pool.entries[i].block, slots, key):
            return i if i >= position else -1
        i = (i + 1) & (pool.n_entries - 1)
    return -1


def instances(machine: Machine, state: int64_t, slots=None, keys=None) -> "np.ndarray":
    """All instances of a state, one row of words each (`instances.pxd`); or those with one of the keys: rows of values of these slots."""
    pool: cython.pointer(Pool) = pool_of(machine, state)
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    position: int64_t = 0
    enough: cython.bint = True
    if keys is None:
        for position in range(pool.n_entries):
            enough = enough and (pool.entries[position].hash == 0 or copy_entry(pool, position, cython.address(found)))
    else:
        for key in keys:
            position = find_entry(pool, slots, key, 0)
            while position >= 0:
                enough = enough and copy_entry(pool, position, cython.address(found))
                position = find_entry(pool, slots, key, position + 1)
    rows = copy_words(cython.address(found), found.size if enough else 0).reshape(-1, pool.width)
    free(found.data)
    if not enough:
        raise MemoryError("no memory for the instances")
    return rows


@cython.cfunc
@cython.exceptval(check=False)
def copy_entry(pool: cython.pointer(Pool), position: int64_t, found: cython.pointer(Buffer)) -> cython.bint:
    n: int64_t = pool.entries[position].n * pool.width
    if not grow(found, found.size + n):
        return False
    memcpy(found.data + found.size, pool.data + pool.entries[position].block, n * 8)
    found.size += n
    return True


def put_instances(machine: Machine, state: int64_t, rows: cython.const[int64_t][:, ::1]) -> None:
    """Add instances to a state, rows of words as `instances` gives them."""
    pool: cython.pointer(Pool) = pool_of(machine, state)
    i: int64_t
    if rows.shape[0] > 0 and rows.shape[1] != pool.width:
        raise ValueError("instances of another state")
    machine.held = -1
    if pool.n_live == 0 and not reserve(pool, rows.shape[0]):
        raise MemoryError("no memory for the instances")
    machine.epoch.is_single = True
    for i in range(rows.shape[0]):
        if add_instance(machine, state, cython.address(rows[i, 0])) != Status.FINE:
            raise MemoryError("no memory for the instances")
    machine.epoch.crowded.size = 0


def drop_instances(machine: Machine, state: int64_t, slots=None, keys=None) -> None:
    """Forget all instances of a state, or those with one of the keys."""
    pool: cython.pointer(Pool) = pool_of(machine, state)
    position: int64_t
    machine.held = -1
    if keys is None:
        clear(pool)
        return
    for key in keys:
        position = find_entry(pool, slots, key, 0)
        while position >= 0:
            pool.n_live -= pool.entries[position].n
            pool.entries[position].n = 0
            remove_entry(pool, position)  # another one may move here
            position = find_entry(pool, slots, key, position)


# -- stacked events as rows of words -------------------------------------------------------------------------------------------


@cython.cfunc
def sequence_of(machine: Machine, number: int64_t) -> cython.pointer(Sequence):
    machine.follow()
    if not 0 <= number < machine.n_sequences or machine.sequences[number].serial == 0:
        raise IndexError("there is no such sequence")
    return cython.address(machine.sequences[number])


@cython.cfunc
@cython.exceptval(check=False)
def tops_of(seq: cython.pointer(Sequence), key: int64_t, is_null: cython.bint) -> cython.pointer(int64_t):
    if is_null:
        return find_key(cython.address(seq.keys), 1, 0)
    if seq.key_is_double:
        key = canonical_double(key)
    return find_key(cython.address(seq.keys), hash_of(key), key)


def stacked(machine: Machine, number: int64_t, keys=None) -> list:
    """By component of a sequence: its stacked events in the order of time, one row of words each (`stacks.pxd`).

    `keys`: only those with one of these, given as (value, is it null?). Then every component must have the key.
    """
    seq: cython.pointer(Sequence) = sequence_of(machine, number)
    ring: cython.pointer(Ring)
    tops: cython.pointer(int64_t)
    component: int64_t
    event: int64_t
    i: int64_t
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


def put_stacked(machine: Machine, number: int64_t, arriving: list) -> None:
    """Add stacked events to a sequence: by component, rows of words as `stacked` gives them.

    Those of one key are linked in the order of time. So what is there of the same keys, or everything if a component has no key, is
    stacked again together with them.
    """
    seq: cython.pointer(Sequence) = sequence_of(machine, number)
    component: int64_t
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
    there = stacked(machine, number, sorted(keys) if is_keyed else None)
    drop_stacked(machine, number, sorted(keys) if is_keyed else None)
    stack_again(machine, number, [np.concatenate(pair) for pair in zip(there, arriving, strict=True)])


def stack_again(machine: Machine, number: int64_t, events: list) -> None:
    """Stack events in the order of time, and at one time those of later components first, as they were stacked."""
    seq: cython.pointer(Sequence) = sequence_of(machine, number)
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


def drop_stacked(machine: Machine, number: int64_t, keys=None) -> None:
    """Forget all stacked events of a sequence, or those with one of the keys, given as `stacked` takes them."""
    seq: cython.pointer(Sequence) = sequence_of(machine, number)
    tops: cython.pointer(int64_t)
    component: int64_t
    event: int64_t
    below: int64_t
    machine.held = -1
    if keys is None:
        clear_sequence(seq)
        if not tidy_keys(cython.address(seq.keys), seq.rings, seq.n_components):
            raise MemoryError("no memory for the events of a sequence")
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
        events = stacked(machine, number)
        clear_sequence(seq)
        if not tidy_keys(cython.address(seq.keys), seq.rings, seq.n_components):
            raise MemoryError("no memory for the events of a sequence")
        stack_again(machine, number, events)


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
    for s in range(machine.automata.n_states):
        pool = cython.address(machine.automata.pools[s])
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
            if is_dropped(words):
                continue
            if row.is_keyed and seq.key_type == slot_type and not words[EVENT_TAG] & WITHOUT_KEY and not push(found, words[EVENT_KEY]):
                return False
            flags = cython.cast(cython.pointer(uint8_t), words + EVENT_HEADER + ring.n_slots)
            for i in range(ring.n_slots):
                if seq.slot_types[row.first_slot + i] == slot_type and flags[i] == 0 and not push(found, words[EVENT_HEADER + i]):
                    return False
    return True


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
    for s in range(machine.automata.n_states):
        pool = cython.address(machine.automata.pools[s])
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
                if words[EVENT_NODE] >= 0 and not is_dropped(words):
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
