"""The machine: tables and batches of whole epochs in, matches out (cayuga-algebra.txt, sections 3.2 and 4).

Operators run in topological order, each over the whole batch. An operator's ports are merged by `end`; within an epoch
every candidate meets the instances that were there when the epoch began, and only at its end do affected instances go and
new ones appear, so that simultaneous events cannot see each other.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.buffers import copy_flags, copy_words, grow, grow_flags, push, push_flag
from cython.cimports.keuka.kernel.bytecode import canonical_double, evaluate
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.keuka.kernel.instances import (
    FEWEST_BUCKETS,
    FINISH,
    HASH,
    HEADER,
    LINEAGE,
    MARK,
    NEXT,
    START,
    allocate,
    beyond,
    bucket_of,
    expire,
    key_of_instance,
    link,
    rehash,
    release,
    unlink,
)
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy

from keuka.kernel.layout import check
from keuka.kernel.strings import StringTable as StringTableObject


class Overflow(Exception):
    """Integer overflow at an event: (program, stream, row of the batch, tick)."""


@cython.cclass
class Machine:
    def __cinit__(self, tables: dict, texts: list):
        check(tables, texts)
        self.strings = StringTableObject()
        self.tables = tables
        self.stream = tables["stream"]
        self.operator = tables["operator"]
        self.port_table = tables["port"]
        self.derived = tables["derived"]
        self.state_table = tables["state"]
        self.key = tables["key"]
        self.start = tables["start"]
        self.program = tables["program"]
        self.slot_type = tables["slot_type"]
        self.code = tables["code"]
        self.operand = tables["operand"]
        self.n_sources = tables["settings"][1]
        self.track = tables["settings"][2] != 0
        self.n_operators = len(tables["operator"])
        self.n_ports = len(tables["port"])
        self.n_states = len(tables["state"])
        self.epoch = 0
        self.strings_sweep_at = LEAST_STRINGS
        self.text_bytes_sweep_at = LEAST_TEXT_BYTES
        self.load_constants(texts)
        self.allocate_all()

    def load_constants(self, texts: list) -> None:
        """Texts become codes of this run, and the constants of each IN list are sorted for binary search."""
        codes = [self.strings.intern_text(text) for text in texts]
        constants = self.tables["constant"].copy()
        which = self.tables["constant_text"]
        constants[which >= 0] = np.asarray(codes, np.int64)[which[which >= 0]]
        bounds = []
        values = []
        size = 0
        for first, n, _ in self.tables["set"]:
            chosen = np.sort(constants[first : first + n])
            bounds += [size, size + n]
            values.append(chosen)
            size += n
        # One spare element, so that a pointer to the first exists.
        self.constants = np.append(constants, 0)
        self.set_bounds = np.asarray([*bounds, 0], np.int64)
        self.set_values = np.concatenate([*values, np.zeros(1, np.int64)])

    def allocate_all(self) -> None:
        i: int64_t
        port: cython.pointer(Port)
        state: cython.pointer(State)
        result: cython.pointer(Result)
        self.ports = cython.cast(cython.pointer(Port), calloc(self.n_ports + 1, cython.sizeof(Port)))
        self.states = cython.cast(cython.pointer(State), calloc(self.n_states + 1, cython.sizeof(State)))
        self.results = cython.cast(cython.pointer(Result), calloc(self.n_operators + 1, cython.sizeof(Result)))
        if self.ports == cython.NULL or self.states == cython.NULL or self.results == cython.NULL:
            raise MemoryError("no memory for the automata")
        for i in range(self.n_ports):
            port = cython.address(self.ports[i])
            port.stream = self.port_table[i, 0]
            port.is_source = port.stream < self.n_sources
            port.n_raw = self.stream[port.stream, 1]
            port.first_derived = self.port_table[i, 1]
            port.n_columns = port.n_raw + self.port_table[i, 2]
            port.columns = cython.cast(cython.pointer(Column), calloc(port.n_columns + 1, cython.sizeof(Column)))
            if port.columns == cython.NULL:
                raise MemoryError("no memory for the automata")
        for i in range(self.n_states):
            state = cython.address(self.states[i])
            state.port, state.program, state.gate = self.state_table[i, 0], self.state_table[i, 1], self.state_table[i, 2]
            state.n_slots = self.state_table[i, 4]
            state.n_keys = self.state_table[i, 6]
            if state.n_keys > 0:
                state.keys = cython.address(self.key[self.state_table[i, 5], 0])
            state.window = self.state_table[i, 7]
            state.width = HEADER + state.n_slots + (state.n_slots + 7) // 8
            state.free_head = -1
            state.sweep_at = 1024
            if not rehash(state, FEWEST_BUCKETS):
                raise MemoryError("no memory for the automata")
        for i in range(self.n_operators):
            result = cython.address(self.results[i])
            result.n_columns = self.stream[self.n_sources + i, 1]
            result.columns = cython.cast(cython.pointer(Buffer), calloc(result.n_columns + 1, cython.sizeof(Buffer)))
            result.flags = cython.cast(cython.pointer(Flags), calloc(result.n_columns + 1, cython.sizeof(Flags)))
            if result.columns == cython.NULL or result.flags == cython.NULL:
                raise MemoryError("no memory for the automata")
        n_registers: int64_t = 1
        for i in range(self.program.shape[0]):
            n_registers = max(n_registers, self.program[i, 2])
        self.frame.stride = 1
        self.wide.stride = CHUNK
        self.frame.values = cython.cast(cython.pointer(int64_t), calloc(n_registers, 8))
        self.frame.flags = cython.cast(cython.pointer(uint8_t), calloc(n_registers, 1))
        n_wide: int64_t = 1
        for i in range(self.derived.shape[0]):
            n_wide = max(n_wide, self.program[self.derived[i, 0], 2])
        self.wide.values = cython.cast(cython.pointer(int64_t), calloc(n_wide * CHUNK, 8))
        self.wide.flags = cython.cast(cython.pointer(uint8_t), calloc(n_wide * CHUNK, 1))
        if self.frame.values == cython.NULL or self.frame.flags == cython.NULL:
            raise MemoryError("no memory for the registers")
        if self.wide.values == cython.NULL or self.wide.flags == cython.NULL:
            raise MemoryError("no memory for the registers")
        self.frame.constants = self.wide.constants = cython.address(self.constants[0])
        self.frame.sets.bounds = self.wide.sets.bounds = cython.address(self.set_bounds[0])
        self.frame.sets.values = self.wide.sets.values = cython.address(self.set_values[0])

    def __dealloc__(self):
        i: int64_t
        c: int64_t
        if self.ports != cython.NULL:
            for i in range(self.n_ports):
                free(self.ports[i].columns)
                free(self.ports[i].derived.data)
                free(self.ports[i].derived_flags.data)
        if self.states != cython.NULL:
            for i in range(self.n_states):
                free(self.states[i].data)
                free(self.states[i].buckets)
                free(self.states[i].hashes.data)
        if self.results != cython.NULL:
            for i in range(self.n_operators):
                free(self.results[i].starts.data)
                free(self.results[i].ends.data)
                free(self.results[i].lineage.data)
                if self.results[i].columns != cython.NULL and self.results[i].flags != cython.NULL:
                    for c in range(self.results[i].n_columns):
                        free(self.results[i].columns[c].data)
                        free(self.results[i].flags[c].data)
                free(self.results[i].columns)
                free(self.results[i].flags)
        free(self.ports)
        free(self.states)
        free(self.results)
        free(self.frame.values)
        free(self.frame.flags)
        free(self.wide.values)
        free(self.wide.flags)
        free(self.pending.data)
        free(self.dead.data)
        free(self.nodes.data)

    # -- one batch -----------------------------------------------------------------------------------------------------

    def process(self, inputs: list) -> None:
        """Run a batch of whole epochs. `inputs` has per source: (starts, ends, numbers, [values], [flags or None])."""
        which: int64_t
        p: int64_t
        for which in range(self.n_operators):
            for p in range(self.operator[which, 0], self.operator[which, 0] + self.operator[which, 1]):
                self.bind(p, inputs)
            with cython.nogil:
                status: Status = self.run_operator(which)
            if status == Status.NO_MEMORY:
                raise MemoryError("the matching kernel ran out of memory")
            if status == Status.OVERFLOW:
                raise Overflow(self.fault.program, self.fault.stream, self.fault.row, self.fault.tick)

    @cython.cfunc
    def bind(self, p: int64_t, inputs: list):
        port: cython.pointer(Port) = cython.address(self.ports[p])
        c: int64_t
        words: cython.const[int64_t][::1]
        bytes_: cython.const[uint8_t][::1]
        result: cython.pointer(Result)
        port.n_rows = 0
        port.lineage = cython.NULL
        if port.is_source:
            starts, ends, numbers, values, flags = inputs[port.stream]
            port.n_rows = len(ends)
            if port.n_rows == 0:
                return
            sizes = {len(starts), *[len(column) for column in values], *[len(column) for column in flags if column is not None]}
            if sizes != {port.n_rows} or len(values) != port.n_raw or len(flags) != port.n_raw:
                raise ValueError("the columns of a batch are not those of its stream, or differ in length")
            words = starts
            port.starts = cython.address(words[0])
            words = ends
            port.ends = cython.address(words[0])
            if self.track:
                words = numbers
                if words.shape[0] != port.n_rows:
                    raise ValueError("the events of a batch are not numbered")
                port.lineage = cython.address(words[0])
            for c in range(port.n_raw):
                words = values[c]
                port.columns[c].values = cython.address(words[0])
                port.columns[c].flags = cython.NULL
                if flags[c] is not None:
                    bytes_ = flags[c]
                    port.columns[c].flags = cython.address(bytes_[0])
            return
        result = cython.address(self.results[port.stream - self.n_sources])
        port.n_rows = result.ends.size
        port.starts = result.starts.data
        port.ends = result.ends.data
        port.lineage = result.lineage.data
        for c in range(port.n_raw):
            port.columns[c].values = result.columns[c].data
            port.columns[c].flags = result.flags[c].data

    def output(self, which: int64_t):
        """What the operator gave for the last batch: (starts, ends, nodes, [values], [flags]) as fresh arrays."""
        if which < 0 or which >= self.n_operators:
            raise IndexError("there is no such operator")
        result: cython.pointer(Result) = cython.address(self.results[which])
        n: int64_t = result.ends.size
        nodes = copy_words(cython.address(result.lineage), n) if self.track else None
        values = [copy_words(cython.address(result.columns[c]), n) for c in range(result.n_columns)]
        flags = [copy_flags(cython.address(result.flags[c]), n) for c in range(result.n_columns)]
        return copy_words(cython.address(result.starts), n), copy_words(cython.address(result.ends), n), nodes, values, flags

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def fail(self, status: Status, program: int64_t, port: cython.pointer(Port), row: int64_t) -> Status:
        self.fault.program = program
        self.fault.stream = port.stream
        self.fault.row = row
        self.fault.tick = port.ends[row]
        return status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_operator(self, which: int64_t) -> Status:
        first: int64_t = self.operator[which, 0]
        last: int64_t = first + self.operator[which, 1]
        result: cython.pointer(Result) = cython.address(self.results[which])
        p: int64_t
        c: int64_t
        tick: int64_t
        any_left: cython.bint
        status: Status
        result.starts.size = result.ends.size = result.lineage.size = 0
        for c in range(result.n_columns):
            result.columns[c].size = 0
            result.flags[c].size = 0
        for p in range(first, last):
            self.ports[p].low = self.ports[p].high = 0
            if self.ports[p].n_rows > 0:
                status = self.compute_derived(cython.address(self.ports[p]))
                if status != Status.FINE:
                    return status
        for p in range(self.operator[which, 2], self.operator[which, 2] + self.operator[which, 3]):
            if not self.hash_candidates(cython.address(self.states[p])):
                return Status.NO_MEMORY
        if last - first == 1:
            return self.run_one_port(which, cython.address(self.ports[first]))
        while True:
            any_left = False
            tick = 0
            for p in range(first, last):
                self.ports[p].low = self.ports[p].high
                if self.ports[p].low < self.ports[p].n_rows:
                    if not any_left or self.ports[p].ends[self.ports[p].low] < tick:
                        tick = self.ports[p].ends[self.ports[p].low]
                    any_left = True
            if not any_left:
                return Status.FINE
            for p in range(first, last):
                while self.ports[p].high < self.ports[p].n_rows and self.ports[p].ends[self.ports[p].high] == tick:
                    self.ports[p].high += 1
            status = self.run_epoch(which, tick)
            if status != Status.FINE:
                return status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_one_port(self, which: int64_t, port: cython.pointer(Port)) -> Status:
        """Jump from one epoch in which something can happen to the next; with one port there is nothing to merge."""
        row: int64_t = self.next_active(which, port, 0)
        tick: int64_t
        status: Status
        while row < port.n_rows:
            tick = port.ends[row]
            port.low = row
            while port.low > 0 and port.ends[port.low - 1] == tick:
                port.low -= 1
            port.high = row + 1
            while port.high < port.n_rows and port.ends[port.high] == tick:
                port.high += 1
            status = self.run_epoch(which, tick)
            if status != Status.FINE:
                return status
            row = self.next_active(which, port, port.high)
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def next_active(self, which: int64_t, port: cython.pointer(Port), row: int64_t) -> int64_t:
        """The first row from here on that starts something or finds a bucket with instances in it."""
        first_state: int64_t = self.operator[which, 2]
        n_states: int64_t = self.operator[which, 3]
        first_start: int64_t = self.operator[which, 4]
        n_starts: int64_t = self.operator[which, 5]
        gate: cython.pointer(Column)
        state: cython.pointer(State)
        i: int64_t
        hash_: int64_t
        while row < port.n_rows:
            for i in range(first_start, first_start + n_starts):
                if self.start[i, 2] < 0:
                    return row
                gate = cython.address(port.columns[self.start[i, 2]])
                if gate.values[row] != 0 and gate.flags[row] == 0:
                    return row
            for i in range(first_state, first_state + n_states):
                state = cython.address(self.states[i])
                hash_ = state.hashes.data[row]
                if hash_ != 0 and state.buckets[bucket_of(state, hash_)] >= 0:
                    return row
            row += 1
        return row

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_derived(self, port: cython.pointer(Port)) -> Status:
        """Predicates and keys of single events, once per batch and column by column."""
        n_derived: int64_t = port.n_columns - port.n_raw
        n: int64_t = port.n_rows
        if n_derived == 0:
            return Status.FINE
        if not grow(cython.address(port.derived), n_derived * n) or not grow_flags(cython.address(port.derived_flags), n_derived * n):
            return Status.NO_MEMORY
        d: int64_t
        row: int64_t
        lanes: int64_t
        i: int64_t
        program: int64_t
        values: cython.pointer(int64_t)
        flags: cython.pointer(uint8_t)
        self.wide.columns = port.columns
        self.wide.starts = port.starts
        self.wide.ends = port.ends
        self.wide.slots = cython.NULL
        for d in range(n_derived):
            program = self.derived[port.first_derived + d, 0]
            values = port.derived.data + d * n
            flags = port.derived_flags.data + d * n
            row = 0
            while row < n:
                lanes = min(n - row, cython.cast(int64_t, CHUNK))
                self.wide.row = row
                if evaluate(cython.address(self.code[self.program[program, 0], 0]), 0, cython.address(self.wide), lanes, self.strings) < 0:
                    return Status.NO_MEMORY
                # The result of a program over columns is in register 0.
                memcpy(values + row, self.wide.values, lanes * 8)
                memcpy(flags + row, self.wide.flags, lanes)
                row += lanes
            port.columns[port.n_raw + d].values = values
            port.columns[port.n_raw + d].flags = flags
            if self.derived[port.first_derived + d, 1]:
                for i in range(n):
                    if flags[i] == IS_ERROR:
                        return self.fail(Status.OVERFLOW, program, port, i)
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def hash_candidates(self, state: cython.pointer(State)) -> cython.bint:
        """The key of every event of the batch as the state sees it; 0 where the event is no candidate for any instance.

        One pass here and one load per event in the epoch: half the time of hashing event by event.
        """
        port: cython.pointer(Port) = cython.address(self.ports[state.port])
        n: int64_t = port.n_rows
        if not grow(cython.address(state.hashes), n):
            return False
        hashes: cython.pointer(int64_t) = state.hashes.data
        column: cython.pointer(Column)
        row: int64_t
        k: int64_t
        for row in range(n):
            hashes[row] = HASH_SEED
        for k in range(state.n_keys):
            column = cython.address(port.columns[state.keys[3 * k]])
            if state.keys[3 * k + 2]:
                for row in range(n):
                    hashes[row] = mix(hashes[row], canonical_double(column.values[row]))
            else:
                for row in range(n):
                    hashes[row] = mix(hashes[row], column.values[row])
        for row in range(n):
            # 0 is taken; the instances do the same in key_of_instance.
            hashes[row] |= 1
        for k in range(state.n_keys):
            column = cython.address(port.columns[state.keys[3 * k]])
            if column.flags != cython.NULL:
                for row in range(n):
                    if column.flags[row] != 0:
                        hashes[row] = 0
        if state.gate >= 0:
            column = cython.address(port.columns[state.gate])
            for row in range(n):
                if column.flags[row] == IS_NULL or (column.values[row] == 0 and column.flags[row] == 0):
                    hashes[row] = 0
        return True

    # -- one epoch -----------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_epoch(self, which: int64_t, tick: int64_t) -> Status:
        s: int64_t
        row: int64_t
        gate: cython.pointer(Column)
        port: cython.pointer(Port)
        state: cython.pointer(State)
        status: Status
        first_state: int64_t = self.operator[which, 2]
        self.epoch += 1
        for s in range(first_state, first_state + self.operator[which, 3]):
            state = cython.address(self.states[s])
            if state.n_live == 0:
                continue
            port = cython.address(self.ports[state.port])
            for row in range(port.low, port.high):
                if state.hashes.data[row] == 0 or state.buckets[bucket_of(state, state.hashes.data[row])] < 0:
                    continue
                status = self.probe(state, s, port, row, cython.address(self.results[which]))
                if status != Status.FINE:
                    return status
        for s in range(self.operator[which, 4], self.operator[which, 4] + self.operator[which, 5]):
            port = cython.address(self.ports[self.start[s, 0]])
            for row in range(port.low, port.high):
                if self.start[s, 2] >= 0:
                    gate = cython.address(port.columns[self.start[s, 2]])
                    if gate.values[row] == 0 or gate.flags[row] != 0:
                        continue
                status = self.run_program(self.start[s, 1], port, row, -1, -1, cython.address(self.results[which]))
                if status != Status.FINE:
                    return status
        if self.pending.size == 0 and self.dead.size == 0:
            return Status.FINE
        return self.end_epoch(tick)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def probe(
        self,
        state: cython.pointer(State),
        which: int64_t,
        port: cython.pointer(Port),
        row: int64_t,
        result: cython.pointer(Result),
    ) -> Status:
        """Let one candidate meet the instances of one state that its key finds."""
        hash_: int64_t = state.hashes.data[row]
        k: int64_t
        value: int64_t
        words: cython.pointer(int64_t)
        instance: int64_t = state.buckets[bucket_of(state, hash_)]
        start: int64_t = port.starts[row]
        tick: int64_t = port.ends[row]
        equal: cython.bint
        status: Status
        while instance >= 0:
            words = state.data + instance * state.width
            equal = words[HASH] == hash_
            k = 0
            while equal and k < state.n_keys:
                value = port.columns[state.keys[3 * k]].values[row]
                if state.keys[3 * k + 2]:
                    equal = canonical_double(value) == canonical_double(words[HEADER + state.keys[3 * k + 1]])
                else:
                    equal = value == words[HEADER + state.keys[3 * k + 1]]
                k += 1
            if equal and start > words[FINISH]:
                if beyond(words[START], tick, state.window):
                    if words[MARK] != self.epoch:
                        words[MARK] = self.epoch
                        if not push(cython.address(self.dead), which) or not push(cython.address(self.dead), instance):
                            return Status.NO_MEMORY
                else:
                    status = self.run_program(state.program, port, row, which, instance, result)
                    if status != Status.FINE:
                        return status
            instance = (state.data + instance * state.width)[NEXT]
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_program(
        self,
        program: int64_t,
        port: cython.pointer(Port),
        row: int64_t,
        which: int64_t,
        instance: int64_t,
        result: cython.pointer(Result),
    ) -> Status:
        """Run the edges of a state for one instance and one candidate, or of the start (instance -1) for one event."""
        code: cython.pointer(cython.const[int32_t]) = cython.address(self.code[self.program[program, 0], 0])
        frame: cython.pointer(Frame) = cython.address(self.frame)
        state: cython.pointer(State) = cython.NULL
        words: cython.pointer(int64_t) = cython.NULL
        ins: cython.pointer(cython.const[int32_t])
        pc: cython.int = 0
        start: int64_t = port.starts[row]
        node: int64_t = -1
        parent: int64_t = -1
        status: Status
        frame.columns = port.columns
        frame.starts = port.starts
        frame.ends = port.ends
        frame.row = row
        frame.slots = cython.NULL
        if instance >= 0:
            state = cython.address(self.states[which])
            words = state.data + instance * state.width
            start = words[START]
            parent = words[LINEAGE]
            frame.instance_start = start
            frame.slots = words + HEADER
            frame.slot_flags = cython.cast(cython.pointer(uint8_t), words + HEADER + state.n_slots)
        while True:
            pc = evaluate(code, pc, frame, 1, self.strings)
            if pc < 0:
                return Status.NO_MEMORY
            ins = code + 5 * pc
            if ins[0] == END:
                return Status.FINE
            elif ins[0] == JUMP_UNLESS:
                if frame.flags[ins[2]] == IS_ERROR:
                    return self.fail(Status.OVERFLOW, program, port, row)
                if frame.flags[ins[2]] != 0 or frame.values[ins[2]] == 0:
                    pc = ins[3]
                    continue
            elif ins[0] == AFFECT:
                words = state.data + instance * state.width
                if words[MARK] != self.epoch:
                    words[MARK] = self.epoch
                    if not push(cython.address(self.dead), which) or not push(cython.address(self.dead), instance):
                        return Status.NO_MEMORY
            else:
                if self.track and node < 0:
                    node = self.new_node(port, row, parent, ins[1])
                    if node < 0:
                        return Status.NO_MEMORY
                status = self.emit(ins, port, row, start, node, result)
                if status == Status.OVERFLOW:
                    return self.fail(status, program, port, row)
                if status != Status.FINE:
                    return status
                if instance >= 0:
                    # A new instance of the same state may have moved the pool.
                    words = state.data + instance * state.width
                    frame.slots = words + HEADER
                    frame.slot_flags = cython.cast(cython.pointer(uint8_t), words + HEADER + state.n_slots)
            pc += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def emit(
        self,
        ins: cython.pointer(cython.const[int32_t]),
        port: cython.pointer(Port),
        row: int64_t,
        start: int64_t,
        node: int64_t,
        result: cython.pointer(Result),
    ) -> Status:
        """Bind the operands to a new instance of a state, or to a row of the output."""
        i: int64_t
        n: int64_t = ins[4]
        register: int32_t
        for i in range(n):
            if self.frame.flags[self.operand[ins[3] + i]] == IS_ERROR:
                return Status.OVERFLOW
        if ins[2] < 0:
            if not push(cython.address(result.starts), start) or not push(cython.address(result.ends), port.ends[row]):
                return Status.NO_MEMORY
            if self.track and not push(cython.address(result.lineage), node):
                return Status.NO_MEMORY
            for i in range(n):
                register = self.operand[ins[3] + i]
                if not push(cython.address(result.columns[i]), self.frame.values[register]):
                    return Status.NO_MEMORY
                if not push_flag(cython.address(result.flags[i]), self.frame.flags[register]):
                    return Status.NO_MEMORY
            return Status.FINE
        state: cython.pointer(State) = cython.address(self.states[ins[2]])
        instance: int64_t = allocate(state)
        if instance < 0:
            return Status.NO_MEMORY
        words: cython.pointer(int64_t) = state.data + instance * state.width
        flags: cython.pointer(uint8_t) = cython.cast(cython.pointer(uint8_t), words + HEADER + state.n_slots)
        words[START] = start
        words[FINISH] = port.ends[row]
        words[MARK] = 0
        words[LINEAGE] = node
        for i in range(n):
            register = self.operand[ins[3] + i]
            words[HEADER + i] = self.frame.values[register]
            flags[i] = self.frame.flags[register]
        if not key_of_instance(state, words):
            # A null in the key equals nothing, now or later: no candidate can ever affect it.
            release(state, instance)
            return Status.FINE
        if not push(cython.address(self.pending), ins[2]) or not push(cython.address(self.pending), instance):
            return Status.NO_MEMORY
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def new_node(self, port: cython.pointer(Port), row: int64_t, parent: int64_t, tag: int64_t) -> int64_t:
        """The node of `parent`'s contributors followed by the event's; leaves are (-2 - stream, number of the event, 0)."""
        nodes: cython.pointer(Buffer) = cython.address(self.nodes)
        right: int64_t = port.lineage[row]
        if port.is_source:
            if not push(nodes, -2 - port.stream) or not push(nodes, right) or not push(nodes, 0):
                return -1
            right = nodes.size // 3 - 1
        if not push(nodes, parent) or not push(nodes, right) or not push(nodes, tag):
            return -1
        return nodes.size // 3 - 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def end_epoch(self, tick: int64_t) -> Status:
        i: int64_t
        state: cython.pointer(State)
        instance: int64_t
        for i in range(0, self.dead.size, 2):
            state = cython.address(self.states[self.dead.data[i]])
            instance = self.dead.data[i + 1]
            unlink(state, instance)
            release(state, instance)
        for i in range(0, self.pending.size, 2):
            state = cython.address(self.states[self.pending.data[i]])
            if not link(state, self.pending.data[i + 1]):
                return Status.NO_MEMORY
        for i in range(0, self.pending.size, 2):
            state = cython.address(self.states[self.pending.data[i]])
            if state.n_live >= state.sweep_at and not expire(state, tick):
                return Status.NO_MEMORY
        self.dead.size = 0
        self.pending.size = 0
        return Status.FINE

    # -- between batches -----------------------------------------------------------------------------------------------

    def instances(self) -> list:
        """Of every state: its live instances, and the most there ever were."""
        return [(self.states[i].n_live, self.states[i].most_live) for i in range(self.n_states)]

    @property
    def n_nodes(self) -> int:
        return self.nodes.size // 3

    @property
    def n_bytes(self) -> int:
        """Memory held by instances, contributors and strings."""
        total: int64_t = self.nodes.capacity * 8
        i: int64_t
        for i in range(self.n_states):
            total += (self.states[i].capacity * self.states[i].width + self.states[i].n_buckets) * 8
        return total + self.strings.n_bytes
