"""The columns of a batch, and what is computed of them once for all events: gates, derived values, hashes of keys.

Before `epochs.py`, in which events are looked at one by one. With several machines one leads: it holds the columns, and every
machine computes its part of the rows.
"""

import cython
from cython.cimports.keuka.kernel.arrow import Words
from cython.cimports.keuka.kernel.buffers import grow, grow_flags
from cython.cimports.keuka.kernel.bytecode import (
    CHUNK,
    END,
    EQ_I,
    IS_ERROR,
    IS_NULL,
    LOAD_CONST,
    LOAD_EVENT,
    MOVE,
    canonical_double,
    evaluate,
)
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.keuka.kernel.machine import LANES_A_PROGRAM, Result, View, code_of, count_work, overflow
from cython.cimports.keuka.kernel.rows import SOURCE
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.string import memcpy, memset


def prepare(machine: Machine, inputs: dict, owner_columns: dict) -> None:
    """Take the columns of a batch. With several machines `owner_columns` divide it: source -> [(column, is it a double?)]."""
    machine.follow()
    machine.bound = []
    stream: int64_t
    enough: cython.bint = True
    for stream in range(machine.n_streams):
        machine.streams[stream].view.n_rows = 0
        machine.streams[stream].owner_data = cython.NULL
    machine.owner_columns = [(stream, columns) for stream, columns in owner_columns.items() if stream in inputs]
    for stream, given in inputs.items():
        bind(machine, stream, given)
    machine.begin_counting()
    for stream in inputs:
        enough = enough and reserve_stream(machine, stream)
    for stream, _ in machine.owner_columns:
        enough = enough and grow_flags(cython.address(machine.streams[stream].owner), machine.streams[stream].view.n_rows)
        machine.streams[stream].owner_data = machine.streams[stream].owner.data
    machine.end_counting()
    machine.fail(Status.FINE if enough else Status.NO_MEMORY)


def bind(machine, stream, given):
    view: cython.pointer(View) = cython.address(machine.streams[stream].view)
    column: int64_t
    i: int64_t
    n: int64_t
    words: cython.const[int64_t][::1]
    bytes_: cython.const[uint8_t][::1]
    plain: Words
    numbers, columns, plain = given
    n = plain.n_rows
    if not 0 <= stream < machine.n_streams or machine.rows.stream[stream].kind != SOURCE:
        raise ValueError("there is no such source")
    if n == 0:
        return
    machine.bound.append(given)
    view.starts = plain.starts
    view.ends = plain.ends
    view.lineage = cython.NULL
    if machine.lineage.is_wanted:
        words = numbers
        if words.shape[0] != n:
            raise ValueError("the events of a batch are not numbered")
        view.lineage = cython.address(words[0])
    for i in range(machine.rows.given_first[stream], machine.rows.given_first[stream + 1]):
        machine.columns[machine.rows.given_column[i]].values = cython.NULL
    for i in range(plain.n_columns):
        column = plain.columns[i].number
        if not 0 <= column < machine.n_columns or machine.rows.column[column].stream != stream:
            raise ValueError("the columns of a batch are not those of its stream")
        machine.columns[column].values = plain.columns[i].values
        machine.columns[column].flags = cython.NULL
    for column, values, flags in columns:
        words = values
        if not 0 <= column < machine.n_columns or machine.rows.column[column].stream != stream or words.shape[0] != n:
            raise ValueError("the columns of a batch are not those of its stream, or differ in length")
        machine.columns[column].values = cython.address(words[0])
        machine.columns[column].flags = cython.NULL
        if flags is not None:
            bytes_ = flags
            if bytes_.shape[0] != n:
                raise ValueError("the columns of a batch differ in length")
            machine.columns[column].flags = cython.address(bytes_[0])
    for i in range(machine.rows.given_first[stream], machine.rows.given_first[stream + 1]):
        if machine.columns[machine.rows.given_column[i]].values == cython.NULL:
            raise ValueError("a column of the stream is missing in its batch")
    view.n_rows = n


def compute(machine: Machine, leader: Machine, part: int64_t, n_parts: int64_t) -> None:
    """Compute part of what is computed per event: gates, derived values, hashes, and whose the row is."""
    stream: int64_t
    column: int64_t
    k: int64_t
    low: int64_t
    high: int64_t
    row: int64_t
    n: int64_t
    h: uint64_t
    columns: cython.pointer(Column) = leader.columns
    keys: int64_t[64]
    machine.follow()
    machine.begin_counting()
    with cython.nogil:
        status: Status = compute_rows(machine, leader, part, n_parts)
    machine.end_counting()
    machine.fail(status)
    for stream, owner_columns in leader.owner_columns:
        n = min(len(owner_columns), 32)
        for k in range(n):
            keys[2 * k], keys[2 * k + 1] = owner_columns[k]
        low = leader.streams[stream].view.n_rows * part // n_parts
        high = leader.streams[stream].view.n_rows * (part + 1) // n_parts
        with cython.nogil:
            for row in range(low, high):
                h = HASH_SEED
                for k in range(n):
                    column = keys[2 * k]
                    if columns[column].flags == cython.NULL or columns[column].flags[row] == 0:
                        if keys[2 * k + 1]:
                            h = mix(h, canonical_double(columns[column].values[row]))
                        else:
                            h = mix(h, columns[column].values[row])
                # Not the bits that choose an entry: the keys of one machine would share a part of its table.
                leader.streams[stream].owner.data[row] = ((h >> 16) & 0xFFFF) * n_parts >> 16


def reserve_stream(machine, stream):
    """Room for what is computed for the rows of a stream, and pointers to it."""
    n: int64_t = machine.streams[stream].view.n_rows
    for i in range(machine.rows.derived_first[stream], machine.rows.derived_first[stream + 1]):
        number = machine.rows.derived_column[i]
        if not grow(cython.address(machine.computed[number].values), n) or not grow_flags(
            cython.address(machine.computed[number].flags), n
        ):
            return False
        machine.columns[number].values = machine.computed[number].values.data
        machine.columns[number].flags = machine.computed[number].flags.data
    for i in range(machine.rows.hash_first[stream], machine.rows.hash_first[stream + 1]):
        number = machine.rows.hash_of[i]
        if not grow(cython.address(machine.hashes[number].values), n):
            return False
        machine.hashes[number].data = machine.hashes[number].values.data
    return True


def compute_rows(machine, leader, part, n_parts):
    for stream in range(leader.n_streams):
        n = leader.streams[stream].view.n_rows
        if n > 0 and leader.streams[stream].view.is_source:
            status = compute_stream(machine, leader, stream, n * part // n_parts, n * (part + 1) // n_parts)
            if status != Status.FINE:
                return status
    return Status.FINE


def compute_stream(machine, leader, stream, low, high):
    """For rows low..high of a stream that `leader` holds."""
    for i in range(machine.rows.derived_first[stream], machine.rows.derived_first[stream + 1]):
        status = compute_derived(machine, leader, machine.rows.derived_column[i], low, high)
        if status == Status.FINE:
            status = count_work(machine, (high - low) // LANES_A_PROGRAM)
        if status != Status.FINE:
            return status
    for i in range(machine.rows.hash_first[stream], machine.rows.hash_first[stream + 1]):
        compute_hash(machine, leader, machine.rows.hash_of[i], low, high)
        status = count_work(machine, (high - low) // LANES_A_PROGRAM)
        if status != Status.FINE:
            return status
    return Status.FINE


def compute_derived(machine, leader, column, low, high):
    """A predicate or value of single events, column by column."""
    stream: int64_t = machine.rows.column[column].stream
    program: int64_t = machine.rows.column[column].program
    code: cython.pointer(cython.const[Instruction]) = code_of(machine, program)
    values: cython.pointer(int64_t) = leader.computed[column].values.data
    flags: cython.pointer(uint8_t) = leader.computed[column].flags.data
    row: int64_t = low
    lanes: int64_t
    if is_equality(code):
        compare_with_constant(
            cython.address(leader.columns[code[0].a]), machine.rows.constant[code[1].a], values + low, flags + low, low, high - low
        )
        return Status.FINE
    machine.frames.wide.columns = leader.columns
    machine.frames.wide.starts = leader.streams[stream].view.starts
    machine.frames.wide.ends = leader.streams[stream].view.ends
    machine.frames.wide.slots = cython.NULL
    while row < high:
        lanes = min(high - row, cython.cast(int64_t, CHUNK))
        machine.frames.wide.row = row
        if evaluate(code, 0, cython.address(machine.frames.wide), lanes, machine.strings) < 0:
            return Status.NO_MEMORY
        # The result of a program over columns is in register 0.
        memcpy(values + row, machine.frames.wide.values, lanes * 8)
        memcpy(flags + row, machine.frames.wide.flags, lanes)
        row += lanes
    if machine.rows.column[column].must_hold:
        for i in range(low, high):
            if flags[i] == IS_ERROR:
                return overflow(machine, program, cython.address(leader.streams[stream].view), i)
    return Status.FINE


def is_equality(code):
    """Is it the program of `column = constant`? Tests of a type column are all of this kind, and there is one for each component."""
    return (
        code[0].op == LOAD_EVENT and code[1].op == LOAD_CONST and code[2].op == EQ_I and code[3].op == MOVE and code[4].op == END
        and code[2].a == code[0].dst and code[2].b == code[1].dst and code[3].a == code[2].dst
    )  # fmt: skip


def compare_with_constant(column, constant, values, flags, first, n):
    """What the program would do in four passes, in one: a third of the time."""
    given: cython.pointer(cython.const[int64_t]) = column.values + first
    for i in range(n):
        values[i] = given[i] == constant
    if column.flags == cython.NULL:
        memset(flags, 0, n)
    else:
        memcpy(flags, column.flags + first, n)


def compute_hash(machine, leader, which, low, high):
    """The key of every event as a state sees it; 0 where the event is no candidate for any instance.

    One pass here and one load per event in the epoch: half the time of hashing event by event.
    """
    first: int64_t = machine.rows.hash[which].first_key
    n_keys: int64_t = machine.rows.hash[which].n_keys
    gate: int64_t = machine.rows.hash[which].gate
    hashes: cython.pointer(int64_t) = leader.hashes[which].values.data
    if n_keys == 1 and not machine.rows.hash_key[first].is_double:
        # The usual key, in one pass instead of three.
        column = cython.address(leader.columns[machine.rows.hash_key[first].column])
        for row in range(low, high):
            hashes[row] = mix(HASH_SEED, column.values[row]) | 1
    else:
        for row in range(low, high):
            hashes[row] = HASH_SEED
        for k in range(first, first + n_keys):
            column = cython.address(leader.columns[machine.rows.hash_key[k].column])
            if machine.rows.hash_key[k].is_double:
                for row in range(low, high):
                    hashes[row] = mix(hashes[row], canonical_double(column.values[row]))
            else:
                for row in range(low, high):
                    hashes[row] = mix(hashes[row], column.values[row])
        for row in range(low, high):
            # 0 is taken; the instances do the same in key_of_instance.
            hashes[row] |= 1
    for k in range(first, first + n_keys):
        column = cython.address(leader.columns[machine.rows.hash_key[k].column])
        if column.flags != cython.NULL:
            for row in range(low, high):
                if column.flags[row] != 0:
                    hashes[row] = 0
    if gate >= 0:
        column = cython.address(leader.columns[gate])
        for row in range(low, high):
            if column.flags[row] == IS_NULL or (column.values[row] == 0 and column.flags[row] == 0):
                hashes[row] = 0


def take_result(machine, stream):
    """The output of an operator becomes the input of others: its columns, and what is computed of them."""
    result: cython.pointer(Result) = cython.address(machine.streams[stream].result)
    view: cython.pointer(View) = cython.address(machine.streams[stream].view)
    if view.n_rows == result.ends.size:
        return Status.FINE
    view.n_rows = result.ends.size
    view.starts = result.starts.data
    view.ends = result.ends.data
    view.lineage = result.lineage.data
    for i in range(machine.rows.given_first[stream], machine.rows.given_first[stream + 1]):
        column = machine.rows.given_column[i]
        machine.columns[column].values = result.columns[machine.rows.column[column].place].data
        machine.columns[column].flags = result.flags[machine.rows.column[column].place].data
    if not reserve_stream(machine, stream):
        return Status.NO_MEMORY
    return compute_stream(machine, machine, stream, 0, view.n_rows)
