"""A batch through all groups of automata and all sequences, in the order of their depth: the streams of each are merged by `end`.

Comes after `batches.py`; `epochs.py` runs what is found here to be worth running, `sequences.py` the sequences.
"""

import cython
from cython.cimports.keuka.kernel.allocation import release, zeroed
from cython.cimports.keuka.kernel.batches import take_result
from cython.cimports.keuka.kernel.buffers import Buffer, grow
from cython.cimports.keuka.kernel.epochs import run_epoch, run_row
from cython.cimports.keuka.kernel.instances import Pool, Sieve, beyond, count_key, expire, home_of, is_sparse
from cython.cimports.keuka.kernel.lineage import count_nodes
from cython.cimports.keuka.kernel.machine import AHEAD, LARGE, MOST_APART, Machine, Result, Status, View
from cython.cimports.keuka.kernel.rows import GROUP
from cython.cimports.keuka.kernel.sequences import run_sequence
from cython.cimports.keuka.kernel.system import prefetch
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t

from keuka.kernel.batches import compute, prepare


def process(machine: Machine, inputs: dict, upto: int64_t) -> None:
    """Run a batch of whole epochs, after which nothing more will come that ends at `upto` or earlier.

    `inputs`: source -> (numbers, [(column, values, flags or None)], times and the other columns as Words).
    """
    prepare(machine, inputs, {})
    compute(machine, machine, 0, 1)
    run(machine, machine, 0, upto)


def run(machine: Machine, leader: Machine, shard: int64_t, upto: int64_t) -> None:
    """Run the rows that are this machine's; `leader` has the columns. While it then `has_more`, take the matches and `go_on`."""
    i: int64_t
    if machine is not leader:
        machine.follow()
        if machine.version != leader.version:
            raise ValueError("the machines do not run the same queries")
        for i in range(machine.n_streams):
            if machine.streams[i].view.is_source:
                machine.streams[i].view = leader.streams[i].view
                machine.streams[i].owner_data = leader.streams[i].owner_data
        for i in range(machine.n_columns):
            if machine.rows.column[i].stream >= 0 and machine.streams[machine.rows.column[i].stream].view.is_source:
                machine.columns[i] = leader.columns[i]
        for i in range(machine.n_hashes):
            if machine.rows.hash[i].stream >= 0 and machine.streams[machine.rows.hash[i].stream].view.is_source:
                machine.hashes[i].data = leader.hashes[i].data
        for i in range(machine.rows.n_ports):
            if machine.streams[machine.rows.group_port[i]].view.is_source:
                machine.automata.ports[i].data = leader.automata.ports[i].data
    machine.shard = shard
    machine.stop = False
    machine.upto = upto
    machine.unit = 0
    machine.lineage.n_shared = -1
    machine.begin_counting()
    with cython.nogil:
        machine.reset()
        for i in range(machine.n_sequences):
            machine.sequences[i].is_open = machine.sequences[i].is_searching = False  # after a batch that ended in the middle
        status: Status = begin_groups(machine)
        if status == Status.FINE:
            status = run_units(machine)
    machine.end_counting()
    machine.has_more = status == Status.MORE
    machine.fail(status)


def go_on(machine: Machine) -> None:
    """The matches so far were taken: now the next ones. Only sequences that nobody reads stop in the middle, and they run last."""
    result: cython.pointer(Result)
    c: int64_t
    if not machine.has_more:
        raise ValueError("there is nothing to go on with")
    machine.begin_counting()
    with cython.nogil:
        machine.touched.size = 0
        result = cython.address(machine.streams[machine.sequences[machine.rows.unit[machine.unit].number].stream].result)
        result.starts.size = result.ends.size = result.lineage.size = 0
        for c in range(result.n_columns):
            result.columns[c].size = 0
            result.flags[c].size = 0
        status: Status = run_units(machine)
    machine.end_counting()
    machine.has_more = status == Status.MORE
    machine.fail(status)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def begin_groups(machine: Machine) -> Status:
    i: int64_t
    machine.work = 0
    machine.frames.state.columns = machine.columns
    machine.frames.edge.columns = machine.columns
    for i in range(machine.n_hashes):
        if machine.rows.hash[i].stream >= 0 and (
            machine.hashes[i].sieve.stale or 8 * machine.hashes[i].sieve.n_keys > machine.hashes[i].sieve.n_cells
        ):
            if not count_keys(machine, i):
                return Status.NO_MEMORY
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_units(machine: Machine) -> Status:
    """Everything from the unit at hand on."""
    number: int64_t
    status: Status
    while machine.unit < machine.rows.n_units:
        number = machine.rows.unit[machine.unit].number
        if machine.rows.unit[machine.unit].kind == GROUP:
            status = run_group(machine, number)
        else:
            if machine.lineage.n_shared < 0 and not machine.sequences[number].is_read:
                machine.lineage.n_shared = machine.lineage.n_left = count_nodes(machine)
            status = run_sequence(machine, cython.address(machine.sequences[number]))
        if status != Status.FINE:
            return status
        machine.unit += 1
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_group(machine: Machine, g: int64_t) -> Status:
    i: int64_t
    first: int64_t = machine.rows.group[g].first_port
    n_ports: int64_t = machine.rows.group[g].n_ports
    n_rows: int64_t = 0
    state: int64_t
    stream: int64_t
    pool: cython.pointer(Pool)
    sieve: cython.pointer(Sieve)
    status: Status
    for i in range(first, first + n_ports):
        stream = machine.rows.group_port[i]
        machine.streams[stream].view.low = machine.streams[stream].view.high = 0
        if not machine.streams[stream].view.is_source:
            status = take_result(machine, stream)
            if status != Status.FINE:
                return status
        n_rows += machine.streams[stream].view.n_rows
    if n_rows == 0:
        return Status.FINE
    sieve = place_hashes(machine, g)
    if n_ports == 1:
        status = run_one_port(machine, g, first, sieve)
    else:
        status = run_ports(machine, g)
    if status != Status.FINE:
        return status
    for i in range(machine.automata.live[g].size):
        state = machine.automata.live[g].data[i]
        pool = cython.address(machine.automata.pools[state])
        # Quiet keys are not found by candidates: their time is looked at once a window.
        if is_sparse(pool) or (pool.n_live > 0 and beyond(pool.swept_at, machine.now, pool.window)):
            if not expire(pool, machine.now):
                return Status.NO_MEMORY
    return Status.FINE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count_keys(machine: Machine, which: int64_t) -> cython.bint:
    """Make the sieve of a hash anew, with sixteen cells a key."""
    sieve: cython.pointer(Sieve) = cython.address(machine.hashes[which].sieve)
    pool: cython.pointer(Pool)
    s: int64_t
    i: int64_t
    n_keys: int64_t = 0
    for s in range(machine.automata.n_states):
        if machine.automata.pools[s].sieve == sieve:
            n_keys += machine.automata.pools[s].n_used
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
    for s in range(machine.automata.n_states):
        pool = cython.address(machine.automata.pools[s])
        if pool.sieve == sieve:
            for i in range(pool.n_entries):
                if pool.entries[i].hash != 0:
                    count_key(sieve, pool.entries[i].hash)
    sieve.stale = False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def place_hashes(machine: Machine, group: int64_t) -> cython.pointer(Sieve):
    """Every state the hashes of its candidates. If all states of the group look for the same key, its sieve comes back."""
    first: int64_t = machine.rows.group[group].first_state
    n: int64_t = machine.rows.group[group].n_states
    i: int64_t
    which: int64_t
    same: cython.bint = n > 0
    pool: cython.pointer(Pool)
    for i in range(first, first + n):
        pool = cython.address(machine.automata.pools[machine.rows.group_state[i]])
        which = machine.rows.state[machine.rows.group_state[i]].hash
        pool.hashes = machine.hashes[which].data
        same = same and which == machine.rows.state[machine.rows.group_state[first]].hash
    return cython.address(machine.hashes[machine.rows.state[machine.rows.group_state[first]].hash].sieve) if same else cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_one_port(machine: Machine, group: int64_t, port: int64_t, sieve: cython.pointer(Sieve)) -> Status:
    """With one stream there is nothing to merge, and in most epochs nothing happens."""
    stream: int64_t = machine.rows.group_port[port]
    fires: cython.pointer(cython.const[uint8_t]) = machine.automata.ports[port].data
    owner: cython.pointer(cython.const[uint8_t]) = machine.streams[stream].owner_data
    hashes: cython.pointer(cython.const[int64_t]) = cython.NULL
    ends: cython.pointer(cython.const[int64_t]) = machine.streams[stream].view.ends
    found: cython.bint
    own: cython.pointer(cython.const[int64_t]) = cython.NULL
    view: cython.pointer(View) = cython.address(machine.streams[stream].view)
    live: cython.pointer(Buffer) = cython.address(machine.automata.live[group])
    rows: int64_t[MOST_APART]
    row: int64_t
    n: int64_t = view.n_rows
    n_active: int64_t
    i: int64_t
    k: int64_t = 0
    tick: int64_t
    large: cython.bint = False
    status: Status = Status.FINE
    for i in range(live.size):
        large = large or machine.automata.pools[live.data[i]].n_used > LARGE
    if sieve != cython.NULL:
        hashes = machine.automata.pools[machine.rows.group_state[machine.rows.group[group].first_state]].hashes
    if owner != cython.NULL:
        # A list of its rows costs a machine a nanosecond a row; asking each row cost five, because no processor can guess the answer.
        if not grow(cython.address(machine.own_rows), n + 1):
            return Status.NO_MEMORY
        for row in range(n):
            machine.own_rows.data[k] = row
            k += owner[row] == machine.shard
        own = machine.own_rows.data
        n = k
        k = 0
    while k < n:
        row = k if own == cython.NULL else own[k]
        tick = ends[row]
        view.low = row
        n_active = 0
        while ends[row] == tick:
            if large and k + AHEAD < n:
                fetch_ahead(
                    machine,
                    live,
                    k + AHEAD if own == cython.NULL else own[k + AHEAD],
                    k + AHEAD // 2 if own == cython.NULL else own[k + AHEAD // 2],
                )
            if sieve != cython.NULL:
                found = hashes[row] != 0 and sieve.counts[cython.cast(uint64_t, hashes[row]) >> sieve.shift] != 0
            else:
                found = finds_some(machine, live, row)
            if found or fires[row]:
                if n_active < MOST_APART:
                    rows[n_active] = row
                n_active += 1
            view.high = row + 1
            k += 1
            if k == n:
                break
            row = k if own == cython.NULL else own[k]
        if n_active == 0:
            continue
        machine.now = tick
        if n_active > 1 and (n_active > MOST_APART or not are_apart(machine, live, rows, n_active)):
            status = run_epoch(machine, group)
            if status != Status.FINE:
                return status
        else:
            for i in range(n_active):
                status = run_row(machine, group, stream, rows[i], fires[rows[i]])
                if status != Status.FINE:
                    return status
    machine.now = max(machine.now, ends[view.n_rows - 1])
    return Status.FINE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def finds_some(machine: Machine, live: cython.pointer(Buffer), row: int64_t) -> cython.bint:
    """Are there instances of the row's key?"""
    pool: cython.pointer(Pool)
    hash_: uint64_t
    i: int64_t
    position: int64_t
    for i in range(live.size):
        pool = cython.address(machine.automata.pools[live.data[i]])
        hash_ = pool.hashes[row]
        if pool.n_entries > 0 and hash_ != 0:
            position = home_of(pool, hash_)
            while pool.entries[position].hash != 0:
                if pool.entries[position].hash == hash_:
                    return True
                position = (position + 1) & (pool.n_entries - 1)
    return False


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def fetch_ahead(machine: Machine, live: cython.pointer(Buffer), later: int64_t, sooner: int64_t) -> cython.void:
    """Ask for the memory that later rows will need: entries first, then the instances of an entry that has come."""
    pool: cython.pointer(Pool)
    i: int64_t
    position: int64_t
    for i in range(live.size):
        pool = cython.address(machine.automata.pools[live.data[i]])
        if pool.n_entries > 0:
            prefetch(pool.entries + home_of(pool, pool.hashes[later]))
            position = home_of(pool, pool.hashes[sooner])
            if pool.entries[position].hash != 0:
                prefetch(pool.data + pool.entries[position].block)
                prefetch(pool.data + pool.entries[position].block + 8)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def are_apart(machine: Machine, live: cython.pointer(Buffer), rows: cython.pointer(int64_t), n: int64_t) -> cython.bint:
    """Do simultaneous events have different keys for every state? Then none sees what another does, and each can run alone."""
    pool: cython.pointer(Pool)
    i: int64_t
    a: int64_t
    b: int64_t
    for i in range(live.size):
        pool = cython.address(machine.automata.pools[live.data[i]])
        for a in range(1, n):
            for b in range(a):
                if pool.hashes[rows[a]] == pool.hashes[rows[b]] and pool.hashes[rows[a]] != 0:
                    return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_ports(machine: Machine, group: int64_t) -> Status:
    """Merge the streams of a group by the ends of their rows."""
    first: int64_t = machine.rows.group[group].first_port
    last: int64_t = first + machine.rows.group[group].n_ports
    p: int64_t
    n: int64_t
    only: int64_t
    stream: int64_t
    row: int64_t
    view: cython.pointer(View)
    tick: int64_t
    any_left: cython.bint
    status: Status
    while True:
        any_left = False
        tick = 0
        for p in range(first, last):
            view = cython.address(machine.streams[machine.rows.group_port[p]].view)
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
            view = cython.address(machine.streams[machine.rows.group_port[p]].view)
            while view.high < view.n_rows and view.ends[view.high] == tick:
                view.high += 1
                n += 1
                only = p
        machine.now = tick
        if n == 1:
            stream = machine.rows.group_port[only]
            row = machine.streams[stream].view.low
            status = Status.FINE
            if machine.streams[stream].owner_data == cython.NULL or machine.streams[stream].owner_data[row] == machine.shard:
                status = run_row(machine, group, stream, row, machine.automata.ports[only].data[row])
        else:
            status = run_epoch(machine, group)
        if status != Status.FINE:
            return status
