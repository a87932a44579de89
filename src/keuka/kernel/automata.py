"""Automata as a machine runs them. Those that read the same streams are a group: one merge of the streams by `end` serves them all.

`epochs.py` runs what is found here to be worth running, `instances.py` holds the instances, `states.py` is the forest's side.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import release, zeroed
from cython.cimports.keuka.kernel.batches import take_result
from cython.cimports.keuka.kernel.buffers import grow, grow_flags, push
from cython.cimports.keuka.kernel.epochs import add_instance, run_epoch, run_row
from cython.cimports.keuka.kernel.instances import (
    HEADER,
    LINEAGE,
    Entry,
    beyond,
    clear,
    copy_instances,
    count_key,
    drop_entries,
    expire,
    home_of,
    is_sparse,
    reserve,
)
from cython.cimports.keuka.kernel.machine import AHEAD, LARGE, ROW_HANDLE, View, code_of, enlarge, visit
from cython.cimports.keuka.kernel.rows import BY_HISTORY, PRIMITIVE
from cython.cimports.keuka.kernel.system import prefetch
from cython.cimports.libc.stdint import INT64_MIN, uint64_t
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset

from keuka.kernel.rows import dtypes

description = cython.declare(Description)
DTYPES = dtypes(description)


@cython.final
@cython.cclass
class Automata(Operators):
    def __cinit__(self):
        self.now = INT64_MIN

    def __dealloc__(self):
        for i in range(self.n_states):
            clear(cython.address(self.pools[i]))
        for i in range(self.n_groups):
            free(self.live[i].data)
        for i in range(self.n_ports):
            free(self.fires[i].data)
        for i in range(self.n_sieves):
            free(self.sieves[i].counts)
        free(self.pools)
        free(self.live)
        free(self.fires)
        free(self.sieves)
        free(self.own_rows.data)
        free(self.epoch.image.data)
        free(self.epoch.pending.data)
        free(self.epoch.dead.data)
        free(self.epoch.crowded.data)

    def place(self, machine, rows):
        """Every state its pool; those of states that are gone are emptied."""
        widest: int64_t = 1
        n_states: int64_t = rows["n_states"]
        n_groups: int64_t = len(rows["group"]) - 1
        n_ports: int64_t = len(rows["group_port"]) - 1
        self.state, self.key, self.slot_type = rows["state"], rows["key"], rows["slot_type"]
        self.edge, self.start, self.group = rows["edge"], rows["start"], rows["group"]
        self.group_port, self.group_state, self.group_start = rows["group_port"], rows["group_state"], rows["group_start"]
        enlarge(cython.address(self.pools), self.n_states, n_states, cython.sizeof(Pool))
        enlarge(cython.address(self.live), self.n_groups, n_groups, cython.sizeof(Buffer))
        enlarge(cython.address(self.fires), self.n_ports, n_ports, cython.sizeof(Flags))
        enlarge(cython.address(self.sieves), self.n_sieves, machine.n_hashes, cython.sizeof(Sieve))
        self.n_states, self.n_groups = max(self.n_states, n_states), max(self.n_groups, n_groups)
        self.n_ports, self.n_sieves = max(self.n_ports, n_ports), machine.n_hashes
        for i in range(self.n_states):
            self.place_pool(machine, i)
            widest = max(widest, self.pools[i].width)
        if not grow(cython.address(self.epoch.image), widest):
            raise MemoryError("no memory for the automata")
        for g in range(n_groups):
            self.live[g].size = 0
            for i in range(self.group[g].first_state, self.group[g].first_state + self.group[g].n_states):
                s = self.group_state[i]
                self.pools[s].group = g
                if self.pools[s].n_live > 0:
                    self.pools[s].listed = True
                    if not push(cython.address(self.live[g]), s):
                        raise MemoryError("no memory for the automata")

    def place_pool(self, machine, state):
        row: cython.pointer(cython.const[StateRow]) = cython.address(self.state[state])
        pool: cython.pointer(Pool) = cython.address(self.pools[state])
        pool.listed = False
        pool.sieve = cython.NULL  # the array may have moved
        if row.stream < 0:
            clear(pool)
            pool.serial = 0
            return
        if pool.serial != row.serial:
            clear(pool)
            pool.serial = row.serial
            pool.most_live = 0
            pool.swept_at = self.now
        pool.stream, pool.program, pool.n_slots = row.stream, row.program, row.n_slots
        pool.n_keys, pool.window, pool.first_edge = row.n_keys, row.window, row.first_edge
        pool.code = code_of(machine, row.program)
        pool.primitive = (row.reading & PRIMITIVE) != 0
        pool.by_history = (row.reading & BY_HISTORY) != 0
        pool.sieve = cython.address(self.sieves[row.hash])
        pool.sieve.stale = True
        pool.keys = cython.address(self.key[row.first_key])
        pool.slot_types = cython.address(self.slot_type[row.first_slot])
        pool.carries = False
        for c in range(pool.n_slots):
            pool.carries = pool.carries or pool.slot_types[c] == ROW_HANDLE
        pool.width = HEADER + pool.n_slots + (pool.n_slots + 7) // 8

    def run(self, machine, number):
        """One group."""
        first: int64_t = self.group[number].first_port
        n_ports: int64_t = self.group[number].n_ports
        n_rows: int64_t = 0
        for i in range(first, first + n_ports):
            stream = self.group_port[i]
            machine.streams[stream].view.low = machine.streams[stream].view.high = 0
            if not machine.streams[stream].view.is_source:
                status = take_result(machine, stream)
                if status != Status.FINE:
                    return status
            n_rows += machine.streams[stream].view.n_rows
        if n_rows == 0:
            return Status.FINE
        for i in range(first, first + n_ports):
            if not find_starts(machine, self, number, i):
                return Status.NO_MEMORY
        sieve = place_hashes(machine, self, number)
        if sieve != cython.NULL and (sieve.stale or 8 * sieve.n_keys > sieve.n_cells) and not count_keys(self, sieve):
            return Status.NO_MEMORY
        if n_ports == 1:
            status = run_one_port(machine, self, number, first, sieve)
        else:
            status = run_ports(machine, self, number)
        if status != Status.FINE:
            return status
        for i in range(self.live[number].size):
            pool = cython.address(self.pools[self.live[number].data[i]])
            # Quiet keys are not found by candidates: their time is looked at once a window.
            if is_sparse(pool) or (pool.n_live > 0 and beyond(pool.swept_at, self.now, pool.window)):
                if not expire(pool, self.now):
                    return Status.NO_MEMORY
        return Status.FINE

    # -- between batches -----------------------------------------------------------------------------------------------------------

    def pool_of(self, state):
        if not 0 <= state < self.n_states:
            raise IndexError("there is no such state")
        return cython.address(self.pools[state])

    def usage(self, state: int64_t) -> tuple:
        """Live instances, the most there ever were, and bytes of memory."""
        pool: cython.pointer(Pool) = self.pool_of(state)
        return pool.n_live, pool.most_live, pool_bytes(pool)

    def instances(self, state: int64_t, slots=None, keys=None) -> "np.ndarray":
        """All instances of a state, a row of words each (`instances.pxd`); or those with one of the keys: rows of values of these slots."""
        return copy_instances(self.pool_of(state), slots, keys)

    def put_instances(self, machine: Machine, state: int64_t, rows: cython.const[int64_t][:, ::1]) -> None:
        """Add instances to a state, rows of words as `instances` gives them."""
        pool: cython.pointer(Pool) = self.pool_of(state)
        if rows.shape[0] > 0 and rows.shape[1] != pool.width:
            raise ValueError("instances of another state")
        if pool.n_live == 0 and not reserve(pool, rows.shape[0]):
            raise MemoryError("no memory for the instances")
        self.epoch.is_single = True
        for i in range(rows.shape[0]):
            if add_instance(machine, self, state, cython.address(rows[i, 0])) != Status.FINE:
                raise MemoryError("no memory for the instances")
        self.epoch.crowded.size = 0

    def drop_instances(self, state: int64_t, slots=None, keys=None) -> None:
        """Forget all instances of a state, or those with one of the keys."""
        pool: cython.pointer(Pool) = self.pool_of(state)
        if keys is None:
            clear(pool)
        else:
            drop_entries(pool, slots, keys)

    def n_bytes(self):
        total: int64_t = 0
        for i in range(self.n_states):
            total += pool_bytes(cython.address(self.pools[i]))
        return total

    def n_batch_bytes(self):
        n_words: int64_t = self.epoch.image.capacity + self.epoch.pending.capacity + self.epoch.dead.capacity
        n_words += self.epoch.crowded.capacity + self.own_rows.capacity
        total: int64_t = 8 * n_words
        for i in range(self.n_groups):
            total += 8 * self.live[i].capacity
        for i in range(self.n_ports):
            total += self.fires[i].capacity
        for i in range(self.n_sieves):
            total += self.sieves[i].n_cells
        return total

    def collect(self, slot_type, found):
        for s in range(self.n_states):
            pool = cython.address(self.pools[s])
            for c in range(pool.n_slots if pool.n_live > 0 else 0):
                if pool.slot_types[c] != slot_type:
                    continue
                for position in range(pool.n_entries):
                    for i in range(pool.entries[position].n if pool.entries[position].hash != 0 else 0):
                        words = pool.data + pool.entries[position].block + i * pool.width
                        flags = cython.cast(cython.pointer(uint8_t), words + HEADER + pool.n_slots)
                        if flags[c] == 0 and not push(found, words[HEADER + c]):
                            return False
        return True

    def visit_nodes(self, machine, place, move):
        for s in range(self.n_states):
            pool = cython.address(self.pools[s])
            for position in range(pool.n_entries):
                for i in range(pool.entries[position].n if pool.entries[position].hash != 0 else 0):
                    visit(pool.data + pool.entries[position].block + i * pool.width + LINEAGE, place, move)


def pool_bytes(pool):
    return pool.capacity * 8 + pool.n_entries * cython.sizeof(Entry)


def count_keys(own, sieve):
    """Make the sieve of a hash anew, with sixteen cells a key."""
    n_keys: int64_t = 0
    for s in range(own.n_states):
        if own.pools[s].sieve == sieve:
            n_keys += own.pools[s].n_used
    release(sieve.counts, sieve.n_cells)
    sieve.n_cells = 64
    sieve.shift = 58
    while sieve.n_cells < 16 * n_keys:
        sieve.n_cells *= 2
        sieve.shift -= 1
    sieve.counts = cython.cast(cython.pointer(uint8_t), zeroed(sieve.n_cells))
    sieve.n_keys = 0
    if sieve.counts == cython.NULL:
        sieve.n_cells = 0
        return False
    for s in range(own.n_states):
        pool = cython.address(own.pools[s])
        if pool.sieve == sieve:
            for i in range(pool.n_entries):
                if pool.entries[i].hash != 0:
                    count_key(sieve, pool.entries[i].hash)
    sieve.stale = False
    return True


def place_hashes(machine, own, group):
    """Every state the hashes of its candidates. If all states of the group look for the same key, its sieve comes back."""
    first: int64_t = own.group[group].first_state
    n: int64_t = own.group[group].n_states
    same: cython.bint = n > 0
    for i in range(first, first + n):
        pool = cython.address(own.pools[own.group_state[i]])
        which = own.state[own.group_state[i]].hash
        pool.hashes = machine.hashes[which].data
        same = same and which == own.state[own.group_state[first]].hash
    return cython.address(own.sieves[own.state[own.group_state[first]].hash]) if same else cython.NULL


def find_starts(machine, own, group, port):
    """Does a start of the group look at a row?"""
    stream: int64_t = own.group_port[port]
    n: int64_t = machine.streams[stream].view.n_rows
    if n == 0:
        return True
    if not grow_flags(cython.address(own.fires[port]), n):
        return False
    fires = own.fires[port].data
    memset(fires, 0, n)
    for i in range(own.group[group].first_start, own.group[group].first_start + own.group[group].n_starts):
        start = own.group_start[i]
        if own.start[start].stream != stream:
            continue
        if own.start[start].gate < 0:
            memset(fires, 1, n)
            return True
        gate = cython.address(machine.columns[own.start[start].gate])
        for row in range(n):
            fires[row] |= (gate.values[row] != 0) & (gate.flags[row] == 0)
    return True


def run_one_port(machine, own, group, port, sieve):
    """With one stream there is nothing to merge, and in most epochs nothing happens."""
    stream: int64_t = own.group_port[port]
    fires: cython.pointer(cython.const[uint8_t]) = own.fires[port].data
    owner: cython.pointer(cython.const[uint8_t]) = machine.streams[stream].owner_data
    hashes: cython.pointer(cython.const[int64_t]) = cython.NULL
    ends: cython.pointer(cython.const[int64_t]) = machine.streams[stream].view.ends
    found: cython.bint
    mine: cython.pointer(cython.const[int64_t]) = cython.NULL
    view: cython.pointer(View) = cython.address(machine.streams[stream].view)
    live: cython.pointer(Buffer) = cython.address(own.live[group])
    rows: int64_t[MOST_APART]
    row: int64_t
    n: int64_t = view.n_rows
    n_active: int64_t
    k: int64_t = 0
    tick: int64_t
    large: cython.bint = False
    status: Status = Status.FINE
    for i in range(live.size):
        large = large or own.pools[live.data[i]].n_used > LARGE
    if sieve != cython.NULL:
        hashes = own.pools[own.group_state[own.group[group].first_state]].hashes
    if owner != cython.NULL:
        # A list of its rows costs a machine a nanosecond a row; asking each row cost five, because no processor can guess the answer.
        if not grow(cython.address(own.own_rows), n + 1):
            return Status.NO_MEMORY
        for row in range(n):
            own.own_rows.data[k] = row
            k += owner[row] == machine.shard
        mine = own.own_rows.data
        n = k
        k = 0
    while k < n:
        row = k if mine == cython.NULL else mine[k]
        tick = ends[row]
        view.low = row
        n_active = 0
        while ends[row] == tick:
            if large and k + AHEAD < n:
                fetch_ahead(
                    own,
                    live,
                    k + AHEAD if mine == cython.NULL else mine[k + AHEAD],
                    k + AHEAD // 2 if mine == cython.NULL else mine[k + AHEAD // 2],
                )
            if sieve != cython.NULL:
                found = hashes[row] != 0 and sieve.counts[cython.cast(uint64_t, hashes[row]) >> sieve.shift] != 0
            else:
                found = finds_some(own, live, row)
            if found or fires[row]:
                if n_active < MOST_APART:
                    rows[n_active] = row
                n_active += 1
            view.high = row + 1
            k += 1
            if k == n:
                break
            row = k if mine == cython.NULL else mine[k]
        if n_active == 0:
            continue
        own.now = tick
        if n_active > 1 and (n_active > MOST_APART or not are_apart(own, live, rows, n_active)):
            status = run_epoch(machine, own, group)
            if status != Status.FINE:
                return status
        else:
            for i in range(n_active):
                status = run_row(machine, own, group, stream, rows[i], fires[rows[i]])
                if status != Status.FINE:
                    return status
    own.now = max(own.now, ends[view.n_rows - 1])
    return Status.FINE


def finds_some(own, live, row):
    """Are there instances of the row's key?"""
    for i in range(live.size):
        pool = cython.address(own.pools[live.data[i]])
        hash_ = pool.hashes[row]
        if pool.n_entries > 0 and hash_ != 0:
            position = home_of(pool, hash_)
            while pool.entries[position].hash != 0:
                if pool.entries[position].hash == hash_:
                    return True
                position = (position + 1) & (pool.n_entries - 1)
    return False


def fetch_ahead(own, live, later, sooner):
    """Ask for the memory that later rows will need: entries first, then the instances of an entry that has come."""
    for i in range(live.size):
        pool = cython.address(own.pools[live.data[i]])
        if pool.n_entries > 0:
            prefetch(pool.entries + home_of(pool, pool.hashes[later]))
            position = home_of(pool, pool.hashes[sooner])
            if pool.entries[position].hash != 0:
                prefetch(pool.data + pool.entries[position].block)
                prefetch(pool.data + pool.entries[position].block + 8)


def are_apart(own, live, rows, n):
    """Do simultaneous events have different keys for every state? Then none sees what another does, and each can run alone."""
    for i in range(live.size):
        pool = cython.address(own.pools[live.data[i]])
        for a in range(1, n):
            for b in range(a):
                if pool.hashes[rows[a]] == pool.hashes[rows[b]] and pool.hashes[rows[a]] != 0:
                    return False
    return True


def run_ports(machine, own, group):
    """Merge the streams of a group by the ends of their rows."""
    first: int64_t = own.group[group].first_port
    last: int64_t = first + own.group[group].n_ports
    while True:
        any_left = False
        tick = 0
        for p in range(first, last):
            view = cython.address(machine.streams[own.group_port[p]].view)
            view.low = view.high
            if view.low < view.n_rows:
                if not any_left or view.ends[view.low] < tick:
                    tick = view.ends[view.low]
                any_left = True
        if not any_left:
            return Status.FINE
        n = 0
        only = first
        for p in range(first, last):
            view = cython.address(machine.streams[own.group_port[p]].view)
            while view.high < view.n_rows and view.ends[view.high] == tick:
                view.high += 1
                n += 1
                only = p
        own.now = tick
        if n == 1:
            stream = own.group_port[only]
            row = machine.streams[stream].view.low
            status = Status.FINE
            if machine.streams[stream].owner_data == cython.NULL or machine.streams[stream].owner_data[row] == machine.shard:
                status = run_row(machine, own, group, stream, row, own.fires[only].data[row])
        else:
            status = run_epoch(machine, own, group)
        if status != Status.FINE:
            return status
