"""One epoch: candidates meet instances, starts begin new ones, and at the end affected instances go.

What runs per event is all here. New instances cannot be met in their own epoch, because no event of it follows them; instances
that an event ended stay until the epoch is over, unless it is the only one that can meet them.
"""

import cython
from cython.cimports.keuka.kernel.automata import GroupRow, StartRow
from cython.cimports.keuka.kernel.buffers import Buffer, grow, push, push_flag
from cython.cimports.keuka.kernel.bytecode import AFFECT, EMIT, FORWARD, IS_ERROR, JUMP_UNLESS, evaluate_one
from cython.cimports.keuka.kernel.history import rank_rows
from cython.cimports.keuka.kernel.instances import (
    BORN,
    FINISH,
    HEADER,
    INSTANCES_A_PROGRAM,
    LINEAGE,
    MARK,
    START,
    Entry,
    beyond,
    expire,
    home_of,
    insert,
    key_of_instance,
    remove_empty,
    remove_entry,
    remove_instance,
    same_key,
)
from cython.cimports.keuka.kernel.lineage import event_node
from cython.cimports.keuka.kernel.machine import ROW_HANDLE, Result, code_of, count_work, overflow
from cython.cimports.keuka.kernel.rows import PRIMITIVE
from cython.cimports.libc.stdint import INT64_MIN, int32_t, uint8_t
from cython.cimports.libc.string import memcpy


def run_row(machine, own, group, stream, row, fires):
    """An epoch of one event. What it does to an instance can be done at once."""
    live: cython.pointer(Buffer) = cython.address(own.live[group])
    i: int64_t = 0
    own.epoch.is_single = True
    while i < live.size:
        state = live.data[i]
        pool = cython.address(own.pools[state])
        if pool.n_live == 0:
            pool.listed = False
            live.size -= 1
            live.data[i] = live.data[live.size]
            continue
        i += 1
        if pool.stream != stream:
            continue
        hash_ = pool.hashes[row]
        if hash_ == 0:
            continue
        position = home_of(pool, hash_)
        while pool.entries[position].hash != 0:
            if pool.entries[position].hash == hash_ and has_key(machine, pool, position, row):
                status = probe_alone(machine, own, state, pool, cython.address(machine.streams[stream].view), row, position)
                if status != Status.FINE:
                    return status
                break
            position = (position + 1) & (pool.n_entries - 1)
    if fires:
        status = run_starts(machine, own, group, stream, row)
        if status != Status.FINE:
            return status
    if own.epoch.pending.size + own.epoch.crowded.size > 0:
        return end_epoch(machine, own)
    return Status.FINE


def run_epoch(machine, own, group):
    """Several simultaneous events: each meets what was there before all of them."""
    live: cython.pointer(Buffer) = cython.address(own.live[group])
    first: int64_t = own.group[group].first_port
    own.epoch.is_single = False
    own.epoch.mark += 1
    own.epoch.began = own.epoch.mark
    for i in range(live.size):
        state = live.data[i]
        pool = cython.address(own.pools[state])
        if pool.n_live == 0:
            continue
        view = cython.address(machine.streams[pool.stream].view)
        if pool.by_history and view.high - view.low > 1:
            status = meet_by_history(machine, own, state, pool, view)
            if status != Status.FINE:
                return status
            continue
        for row in range(view.low, view.high):
            status = meet_candidate(machine, own, state, pool, view, row)
            if status != Status.FINE:
                return status
    for p in range(first, first + own.group[group].n_ports):
        view = cython.address(machine.streams[own.group_port[p]].view)
        owner = machine.streams[own.group_port[p]].owner_data
        for row in range(view.low, view.high):
            if own.fires[p].data[row] and (owner == cython.NULL or owner[row] == machine.shard):
                status = run_starts(machine, own, group, own.group_port[p], row)
                if status != Status.FINE:
                    return status
    return end_epoch(machine, own)


def meet_by_history(machine, own, state, pool, view):
    """Those with the earliest history come first; who was next for an instance leaves nothing of it for those with later ones."""
    if not rank_rows(machine, view, pool.primitive):
        return Status.NO_MEMORY
    for i in range(view.high - view.low):
        if i == 0 or machine.lineage.ranked.data[2 * i + 1] != machine.lineage.ranked.data[2 * i - 1]:
            own.epoch.mark += 1
        status = meet_candidate(machine, own, state, pool, view, machine.lineage.ranked.data[2 * i])
        if status != Status.FINE:
            return status
    return Status.FINE


def meet_candidate(machine, own, state, pool, view, row):
    """One of several simultaneous events meets the instances of its key."""
    owner: cython.pointer(cython.const[uint8_t]) = machine.streams[pool.stream].owner_data
    hash_: uint64_t = pool.hashes[row]
    if hash_ == 0 or (owner != cython.NULL and owner[row] != machine.shard):
        return Status.FINE
    position = home_of(pool, hash_)
    while pool.entries[position].hash != 0:
        if pool.entries[position].hash == hash_ and has_key(machine, pool, position, row):
            return probe(machine, own, state, pool, view, row, position)
        position = (position + 1) & (pool.n_entries - 1)
    return Status.FINE


def run_starts(machine, own, group, stream, row):
    rows: cython.pointer(cython.const[GroupRow]) = cython.address(own.group[group])
    numbers: cython.pointer(cython.const[int64_t]) = cython.address(own.group_start[rows.first_start])
    start: cython.pointer(cython.const[StartRow])
    view: cython.pointer(View)
    primitive: cython.bint
    program: int64_t
    node: int64_t
    status: Status
    for i in range(rows.n_starts):
        start = cython.address(own.start[numbers[i]])
        if start.stream != stream:
            continue
        if start.gate >= 0:
            gate = cython.address(machine.columns[start.gate])
            if gate.values[row] == 0 or gate.flags[row] != 0:
                continue
        node = -1
        view = cython.address(machine.streams[stream].view)
        program = own.edge[start.edge].program
        primitive = (start.reading & PRIMITIVE) != 0
        status = follow_edge(machine, own, program, cython.NULL, cython.NULL, view, row, primitive, cython.address(node))
        if status != Status.FINE:
            return status
    return Status.FINE


def probe_alone(machine, own, state, pool, view, row, position):
    """Let the only candidate of an epoch meet the instances of its key."""
    entry: cython.pointer(Entry) = pool.entries + position
    start: int64_t = view.starts[row]
    tick: int64_t = view.ends[row]
    i: int64_t = 0
    status: Status = count_work(machine, entry.n // INSTANCES_A_PROGRAM)
    if status != Status.FINE:
        return status
    while i < entry.n:
        words = pool.data + entry.block + i * pool.width
        if start <= words[FINISH]:
            i += 1
        elif beyond(words[START], tick, pool.window):
            remove_instance(pool, entry, i)
        else:
            status = meet(machine, own, state, pool, words, view, row)
            if status != Status.FINE:
                return status
            if own.epoch.affected and not own.epoch.rebound:
                remove_instance(pool, entry, i)
            else:
                i += 1
    if entry.n == 0:
        remove_entry(pool, position)
    return Status.FINE


def probe(machine, own, state, pool, view, row, position):
    """Let one of several simultaneous candidates meet the instances of its key; they go at the end of the epoch."""
    entry: cython.pointer(Entry) = pool.entries + position
    start: int64_t = view.starts[row]
    tick: int64_t = view.ends[row]
    some_go: cython.bint = False
    status: Status = count_work(machine, entry.n // INSTANCES_A_PROGRAM)
    if status != Status.FINE:
        return status
    for i in range(entry.n):
        words = pool.data + entry.block + i * pool.width
        if start <= words[FINISH]:
            continue
        if beyond(words[START], tick, pool.window):
            own.epoch.affected = True
        else:
            own.epoch.only_skip = pool.by_history and own.epoch.began <= words[MARK] < own.epoch.mark
            status = meet(machine, own, state, pool, words, view, row)
            own.epoch.only_skip = False
            if status != Status.FINE:
                return status
        if own.epoch.affected:
            words[MARK] = own.epoch.mark
            some_go = True
    if some_go and (not push(cython.address(own.epoch.dead), state) or not push(cython.address(own.epoch.dead), entry.hash)):
        return Status.NO_MEMORY
    return Status.FINE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def meet(
    machine: Machine,
    own: Automata,
    state: int64_t,
    pool: cython.pointer(Pool),
    words: cython.pointer(int64_t),
    view: cython.pointer(View),
    row: int64_t,
) -> Status:
    """Let a candidate meet an instance; `affected` and `rebound` say what became of it. A call would be an eighth of the instructions."""
    node: int64_t = -1
    own.epoch.affected = False
    own.epoch.rebound = False
    return run_program(
        machine,
        own,
        pool.code,
        pool.program,
        state,
        cython.address(machine.frames.state),
        pool,
        words,
        view,
        row,
        pool.primitive,
        cython.address(node),
    )


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def run_program(
    machine: Machine,
    own: Automata,
    code: cython.pointer(cython.const[Instruction]),
    program: int64_t,
    state: int64_t,
    frame: cython.pointer(Frame),
    pool: cython.pointer(Pool),
    words: cython.pointer(int64_t),
    view: cython.pointer(View),
    row: int64_t,
    primitive: cython.bint,
    node: cython.pointer(int64_t),
) -> Status:
    """Run the program of a state, for an instance and a candidate; or that of an edge (`state` is -1), for an instance and the
    candidate it took, or for an event alone (`words` is NULL).

    `node` is that of the contributors, -1 as long as there is none. The compiler makes two copies (setup.py forces this), one for states
    and one for edges: in one for both an event of Query 7 takes 3 % longer.
    """
    pc: cython.int = 0
    start: int64_t = view.starts[row]
    born: int64_t = view.ends[row]
    parent: int64_t = -1
    status: Status = count_work(machine, 1)
    if status != Status.FINE:
        return status
    frame.starts = view.starts
    frame.ends = view.ends
    frame.row = row
    frame.slots = cython.NULL
    if words != cython.NULL:
        start = words[START]
        born = words[BORN]
        parent = words[LINEAGE]
        frame.instance_start = start
        frame.slots = words + HEADER
        frame.slot_flags = cython.cast(cython.pointer(uint8_t), words + HEADER + pool.n_slots)
    while True:
        pc = evaluate_one(code, pc, frame, machine.strings)
        if pc < 0:
            return Status.NO_MEMORY
        ins = code + pc
        if ins.op == JUMP_UNLESS:
            if frame.flags[ins.a] == IS_ERROR:
                return overflow(machine, program, view, row)
            if frame.flags[ins.a] != 0 or frame.values[ins.a] == 0:
                pc = ins.b
                continue
        elif ins.op == EMIT:
            if machine.lineage.is_wanted and node[0] < 0:
                node[0] = event_node(machine, view, row, parent, ins.dst, primitive)
                if node[0] < 0:
                    return Status.NO_MEMORY
            status = emit(machine, own, ins, frame, view, row, start, born, node[0])
            if status == Status.FINE and state >= 0:
                status = rebind(own, state, pool, words)
            elif status == Status.FINE and ins.a >= 0:
                status = add_instance(machine, own, ins.a, own.epoch.image.data)
            if status == Status.OVERFLOW:
                return overflow(machine, program, view, row)
        elif ins.op == AFFECT:
            if own.epoch.only_skip:
                return Status.FINE
            own.epoch.affected = True
        elif ins.op == FORWARD:
            status = follow_edges(machine, own, pool, words, view, row, node)
        else:
            return Status.FINE
        if status != Status.FINE:
            return status
        pc += 1


def follow_edge(machine, own, program, pool, words, view, row, primitive, node):
    code: cython.pointer(cython.const[Instruction]) = code_of(machine, program)
    return run_program(machine, own, code, program, -1, cython.address(machine.frames.edge), pool, words, view, row, primitive, node)


def follow_edges(machine, own, pool, words, view, row, node):
    """An instance took a candidate: run the forward edges of its state that are open to it."""
    number: int64_t = pool.first_edge
    while number >= 0:
        edge = cython.address(own.edge[number])
        if edge.since == INT64_MIN or words[BORN] > edge.since:
            status = follow_edge(machine, own, edge.program, pool, words, view, row, pool.primitive, node)
            if status != Status.FINE:
                return status
        number = edge.next
    return Status.FINE


def rebind(own, state, pool, words):
    """The image is the instance after a step of its run. Its key is the same but for runs over changing keys."""
    if own.epoch.is_single and not pool.carries and same_key(pool, own.epoch.image.data, words):
        memcpy(words, own.epoch.image.data, pool.width * 8)
        own.epoch.rebound = True
        return Status.FINE
    return add_later(own, state, own.epoch.image.data)


def emit(machine, own, ins, frame, view, row, start, born, node):
    """Bind the operands to a row of an output, or to the image of an instance."""
    n: int64_t = ins.c
    operands: cython.pointer(cython.const[int32_t]) = cython.address(machine.rows.operand[ins.b])
    for i in range(n):
        if frame.flags[operands[i]] == IS_ERROR:
            return Status.OVERFLOW
    if ins.a < 0:
        return emit_row(machine, ins, frame, start, view.ends[row], node)
    words: cython.pointer(int64_t) = own.epoch.image.data
    flags: cython.pointer(uint8_t) = cython.cast(cython.pointer(uint8_t), words + HEADER + n)
    words[START] = start
    words[FINISH] = view.ends[row]
    words[BORN] = born
    words[MARK] = 0
    words[LINEAGE] = node
    if n > 0:
        words[HEADER + n + (n - 1) // 8] = 0  # no word of an instance is left undefined
    for i in range(n):
        register = operands[i]
        words[HEADER + i] = frame.values[register]
        flags[i] = frame.flags[register]
    return Status.FINE


def emit_row(machine, ins, frame, start, end, node):
    stream: int64_t = -1 - ins.a
    result: cython.pointer(Result) = cython.address(machine.streams[stream].result)
    operands: cython.pointer(cython.const[int32_t]) = cython.address(machine.rows.operand[ins.b])
    if result.ends.size == 0 and not (push(cython.address(machine.touched), stream) and push(cython.address(machine.filled), stream)):
        return Status.NO_MEMORY
    if not push(cython.address(result.starts), start) or not push(cython.address(result.ends), end):
        return Status.NO_MEMORY
    if machine.lineage.is_wanted and not push(cython.address(result.lineage), node):
        return Status.NO_MEMORY
    for i in range(ins.c):
        register = operands[i]
        if not push(cython.address(result.columns[i]), frame.values[register]):
            return Status.NO_MEMORY
        if not push_flag(cython.address(result.flags[i]), frame.flags[register]):
            return Status.NO_MEMORY
    return Status.FINE


def add_instance(machine, own, state, words):
    """Put an instance where later candidates find it; in an epoch of several events only at its end."""
    pool: cython.pointer(Pool) = cython.address(own.pools[state])
    hash_: uint64_t = 0
    if not key_of_instance(pool, words, cython.address(hash_)):
        # A null in the key equals nothing, now or later: no candidate can ever affect it.
        return Status.FINE
    if not own.epoch.is_single:
        return add_later(own, state, words)
    if pool.carries:
        flags: cython.pointer(cython.const[uint8_t]) = cython.cast(cython.pointer(cython.const[uint8_t]), words + HEADER + pool.n_slots)
        for c in range(pool.n_slots):
            if pool.slot_types[c] == ROW_HANDLE and flags[c] == 0 and not push(cython.address(machine.taken), words[HEADER + c]):
                return Status.NO_MEMORY
    if not insert(pool, words, hash_):
        return Status.NO_MEMORY
    if not pool.listed:
        pool.listed = True
        if not push(cython.address(own.live[pool.group]), state):
            return Status.NO_MEMORY
    if pool.n_live >= pool.sweep_at and not push(cython.address(own.epoch.crowded), state):
        return Status.NO_MEMORY
    return Status.FINE


def add_later(own, state, words):
    """Put an instance aside until the epoch ends."""
    pending: cython.pointer(Buffer) = cython.address(own.epoch.pending)
    n: int64_t = own.pools[state].width
    if not push(pending, state) or not grow(pending, pending.size + n):
        return Status.NO_MEMORY
    memcpy(pending.data + pending.size, words, n * 8)
    pending.size += n
    return Status.FINE


def end_epoch(machine, own):
    for i in range(0, own.epoch.dead.size, 2):
        pool = cython.address(own.pools[own.epoch.dead.data[i]])
        hash_ = own.epoch.dead.data[i + 1]
        position = home_of(pool, hash_)
        while pool.entries[position].hash != 0:
            entry = pool.entries + position
            if entry.hash == hash_:
                j = 0
                while j < entry.n:
                    if (pool.data + entry.block + j * pool.width)[MARK] >= own.epoch.began:
                        remove_instance(pool, entry, j)
                    else:
                        j += 1
            position = (position + 1) & (pool.n_entries - 1)
        remove_empty(pool, hash_)
    own.epoch.dead.size = 0
    own.epoch.is_single = True
    i = 0
    while i < own.epoch.pending.size:
        state = own.epoch.pending.data[i]
        status = add_instance(machine, own, state, own.epoch.pending.data + i + 1)
        if status != Status.FINE:
            return status
        i += 1 + own.pools[state].width
    own.epoch.pending.size = 0
    for i in range(own.epoch.crowded.size):
        pool = cython.address(own.pools[own.epoch.crowded.data[i]])
        if pool.n_live >= pool.sweep_at and not expire(pool, own.now):
            return Status.NO_MEMORY
    own.epoch.crowded.size = 0
    return Status.FINE
