"""A machine: the instances of a forest's states. Batches of whole epochs in, matches out (cayuga-algebra.txt, sections 3.2 and 4).

Groups of automata run in the order of their depth, each over the whole batch, their streams merged by `end`. Within an epoch
every candidate meets the instances that were there when the epoch began, and only at its end do affected instances go; new
ones cannot be met before, because no event of their epoch follows them. So simultaneous events cannot see each other.

Several machines can run one forest in threads, each the rows whose key is its own. One of them leads: it has the columns of
the batch, and all compute their part of those before they run.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.buffers import copy_flags, copy_words, grow, grow_flags, push, push_flag
from cython.cimports.keuka.kernel.bytecode import canonical_double, evaluate, evaluate_one
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.keuka.kernel.instances import (
    BORN,
    FINISH,
    HEADER,
    LINEAGE,
    MARK,
    START,
    Entry,
    beyond,
    clear,
    count_key,
    expire,
    home_of,
    insert,
    is_sparse,
    key_of_instance,
    remove_empty,
    remove_entry,
    remove_instance,
    same_key,
)
from cython.cimports.keuka.kernel.system import check_signals, pending_exception, prefetch
from cython.cimports.libc.stdint import INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset


class Overflow(Exception):
    """Integer overflow at an event: (program, stream, row of the batch, tick)."""


@cython.cfunc
@cython.exceptval(check=False)
def enlarged(data: cython.p_void, n_old: int64_t, n_new: int64_t, size: int64_t) -> cython.p_void:
    """An array with more elements, the new ones all zero; NULL when memory is out."""
    grown: cython.pointer(cython.char) = cython.cast(cython.pointer(cython.char), realloc(data, (n_new + 1) * size))
    if grown != cython.NULL:
        memset(grown + n_old * size, 0, (n_new + 1 - n_old) * size)
    return grown


@cython.final
@cython.cclass
class Machine:
    def __cinit__(self, forest: object):
        self.forest = forest
        self.strings = forest.strings
        self.version = -1
        self.owner_columns = []
        self.now = INT64_MIN
        self.follow()

    def __dealloc__(self):
        i: int64_t
        c: int64_t
        for i in range(self.n_streams):
            if self.results[i].columns != cython.NULL and self.results[i].flags != cython.NULL:
                for c in range(self.results[i].n_columns):
                    free(self.results[i].columns[c].data)
                    free(self.results[i].flags[c].data)
            free(self.results[i].columns)
            free(self.results[i].flags)
            free(self.results[i].starts.data)
            free(self.results[i].ends.data)
            free(self.results[i].lineage.data)
            free(self.owners[i].data)
        for i in range(self.n_columns):
            free(self.computed[i].values.data)
            free(self.computed[i].flags.data)
        for i in range(self.n_states):
            clear(cython.address(self.pools[i]))
        for i in range(self.n_hashes):
            free(self.hashes[i].data)
            free(self.sieves[i].counts)
        for i in range(self.n_allocated_groups):
            free(self.live[i].data)
        for i in range(self.n_allocated_ports):
            free(self.fires[i].data)
        for memory in (
            cython.cast(cython.size_t, self.views),
            cython.cast(cython.size_t, self.results),
            cython.cast(cython.size_t, self.columns),
            cython.cast(cython.size_t, self.computed),
            cython.cast(cython.size_t, self.hashes),
            cython.cast(cython.size_t, self.hash_data),
            cython.cast(cython.size_t, self.sieves),
            cython.cast(cython.size_t, self.pools),
            cython.cast(cython.size_t, self.live),
            cython.cast(cython.size_t, self.fires),
            cython.cast(cython.size_t, self.fire_data),
            cython.cast(cython.size_t, self.owners),
            cython.cast(cython.size_t, self.owner_data),
            cython.cast(cython.size_t, self.frame.values),
            cython.cast(cython.size_t, self.frame.flags),
            cython.cast(cython.size_t, self.edge_frame.values),
            cython.cast(cython.size_t, self.edge_frame.flags),
            cython.cast(cython.size_t, self.wide.values),
            cython.cast(cython.size_t, self.wide.flags),
            cython.cast(cython.size_t, self.image.data),
            cython.cast(cython.size_t, self.pending.data),
            cython.cast(cython.size_t, self.dead.data),
            cython.cast(cython.size_t, self.crowded.data),
            cython.cast(cython.size_t, self.touched.data),
            cython.cast(cython.size_t, self.nodes.data),
            cython.cast(cython.size_t, self.taken.data),
        ):
            free(cython.cast(cython.p_void, cython.cast(cython.size_t, memory)))

    # -- following the forest ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def follow(self):
        """Take over what was loaded and unloaded. Only between batches."""
        if self.version == self.forest.version:
            return
        self.place_arrays()
        self.grow_arrays()
        self.place_pools()
        self.reserve_registers()
        self.track = len(self.forest.tracking) > 0
        self.version = self.forest.version

    @cython.cfunc
    def place_arrays(self):
        words: cython.const[int64_t][::1]
        narrow: cython.const[int32_t][::1]
        forest = self.forest
        n_streams: int64_t = forest.stream.size
        groups, ports, states, starts = forest.group_arrays()
        self.n_groups = len(groups) - 1
        self.n_ports = len(ports) - 1
        by_stream = []
        column, hash_ = forest.column.rows[: forest.column.size], forest.hash.rows[: forest.hash.size]
        derived = np.flatnonzero((column[:, 0] >= 0) & (column[:, 1] >= 0))
        hashes = np.flatnonzero(hash_[:, 0] >= 0)
        for numbers, streams in (
            (derived, column[derived, 0]),
            (hashes, hash_[hashes, 0]),
            (np.arange(self.n_ports), ports[: self.n_ports]),
        ):
            order = np.argsort(streams, kind="stable")
            by_stream += [np.searchsorted(streams[order], np.arange(n_streams + 1)), np.append(numbers[order], 0)]
        of_port = np.append(np.repeat(np.arange(self.n_groups), groups[: self.n_groups, 1]), 0)
        arenas = (
            forest.stream, forest.column, forest.hash, forest.state, forest.edge, forest.start, forest.program, forest.hash_key,
            forest.key, forest.slot_type, forest.constant, forest.set_bounds, forest.set_values,
        )  # fmt: skip
        flat = [arena.rows.reshape(-1) for arena in arenas]
        flat += [np.ascontiguousarray(x, np.int64).reshape(-1) for x in (groups, ports, states, starts, *by_stream, of_port)]
        self.arrays = [*flat, forest.code.rows.reshape(-1), forest.operand.rows]
        places: list = []
        for array in flat:
            words = array
            places.append(cython.cast(cython.size_t, cython.address(words[0])))
        self.stream_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[0]))
        self.column_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[1]))
        self.hash_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[2]))
        self.state_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[3]))
        self.edge_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[4]))
        self.start_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[5]))
        self.program_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[6]))
        self.hash_keys = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[7]))
        self.keys = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[8]))
        self.slot_types = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[9]))
        self.frame.constants = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[10]))
        self.frame.sets.bounds = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[11]))
        self.frame.sets.values = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[12]))
        self.group_rows = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[13]))
        self.group_ports = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[14]))
        self.group_states = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[15]))
        self.group_starts = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[16]))
        self.derived_first = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[17]))
        self.derived_columns = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[18]))
        self.hash_first = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[19]))
        self.hashes_of = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[20]))
        self.port_first = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[21]))
        self.ports_of = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[22]))
        self.port_group = cython.cast(cython.pointer(cython.const[int64_t]), cython.cast(cython.size_t, places[23]))
        for frame in (1, 2):
            other: cython.pointer(Frame) = cython.address(self.edge_frame) if frame == 1 else cython.address(self.wide)
            other.constants = self.frame.constants
            other.sets = self.frame.sets
        narrow = self.arrays[len(flat)]
        self.code = cython.address(narrow[0])
        narrow = self.arrays[len(flat) + 1]
        self.operands = cython.address(narrow[0])

    @cython.cfunc
    def grow_arrays(self):
        """Room for every number of the forest."""
        forest = self.forest
        n_streams: int64_t = forest.stream.size
        n_columns: int64_t = forest.column.size
        n_hashes: int64_t = forest.hash.size
        n_states: int64_t = forest.state.size
        ok: cython.bint = True
        memory: cython.p_void
        if n_streams > self.n_streams or self.views == cython.NULL:
            memory = enlarged(self.views, self.n_streams, n_streams, cython.sizeof(View))
            ok = ok and memory != cython.NULL
            self.views = cython.cast(cython.pointer(View), memory) if memory != cython.NULL else self.views
            memory = enlarged(self.results, self.n_streams, n_streams, cython.sizeof(Result))
            ok = ok and memory != cython.NULL
            self.results = cython.cast(cython.pointer(Result), memory) if memory != cython.NULL else self.results
            memory = enlarged(self.owners, self.n_streams, n_streams, cython.sizeof(Flags))
            ok = ok and memory != cython.NULL
            self.owners = cython.cast(cython.pointer(Flags), memory) if memory != cython.NULL else self.owners
            memory = enlarged(self.owner_data, self.n_streams, n_streams, 8)
            ok = ok and memory != cython.NULL
            if memory != cython.NULL:
                self.owner_data = cython.cast(cython.pointer(cython.pointer(cython.const[uint8_t])), memory)
            if ok:
                self.n_streams = n_streams
        if n_columns > self.n_columns or self.columns == cython.NULL:
            memory = enlarged(self.columns, self.n_columns, n_columns, cython.sizeof(Column))
            ok = ok and memory != cython.NULL
            self.columns = cython.cast(cython.pointer(Column), memory) if memory != cython.NULL else self.columns
            memory = enlarged(self.computed, self.n_columns, n_columns, cython.sizeof(Computed))
            ok = ok and memory != cython.NULL
            self.computed = cython.cast(cython.pointer(Computed), memory) if memory != cython.NULL else self.computed
            if ok:
                self.n_columns = n_columns
        if n_hashes > self.n_hashes or self.hashes == cython.NULL:
            memory = enlarged(self.hashes, self.n_hashes, n_hashes, cython.sizeof(Buffer))
            ok = ok and memory != cython.NULL
            self.hashes = cython.cast(cython.pointer(Buffer), memory) if memory != cython.NULL else self.hashes
            memory = enlarged(self.sieves, self.n_hashes, n_hashes, cython.sizeof(Sieve))
            ok = ok and memory != cython.NULL
            self.sieves = cython.cast(cython.pointer(Sieve), memory) if memory != cython.NULL else self.sieves
            memory = enlarged(self.hash_data, self.n_hashes, n_hashes, 8)
            ok = ok and memory != cython.NULL
            if memory != cython.NULL:
                self.hash_data = cython.cast(cython.pointer(cython.pointer(cython.const[int64_t])), memory)
            if ok:
                self.n_hashes = n_hashes
        if n_states > self.n_states or self.pools == cython.NULL:
            memory = enlarged(self.pools, self.n_states, n_states, cython.sizeof(Pool))
            ok = ok and memory != cython.NULL
            self.pools = cython.cast(cython.pointer(Pool), memory) if memory != cython.NULL else self.pools
            if ok:
                self.n_states = n_states
        if self.n_groups > self.n_allocated_groups or self.live == cython.NULL:
            memory = enlarged(self.live, self.n_allocated_groups, self.n_groups, cython.sizeof(Buffer))
            ok = ok and memory != cython.NULL
            self.live = cython.cast(cython.pointer(Buffer), memory) if memory != cython.NULL else self.live
            if ok:
                self.n_allocated_groups = self.n_groups
        if self.n_ports > self.n_allocated_ports or self.fires == cython.NULL:
            memory = enlarged(self.fires, self.n_allocated_ports, self.n_ports, cython.sizeof(Flags))
            ok = ok and memory != cython.NULL
            self.fires = cython.cast(cython.pointer(Flags), memory) if memory != cython.NULL else self.fires
            memory = enlarged(self.fire_data, self.n_allocated_ports, self.n_ports, 8)
            ok = ok and memory != cython.NULL
            if memory != cython.NULL:
                self.fire_data = cython.cast(cython.pointer(cython.pointer(cython.const[uint8_t])), memory)
            if ok:
                self.n_allocated_ports = self.n_ports
        if not ok:
            raise MemoryError("no memory for the automata")

    @cython.cfunc
    def place_pools(self):
        """Every state its pool, every operator its output; those of states that are gone are emptied."""
        i: int64_t
        g: int64_t
        s: int64_t
        c: int64_t
        widest: int64_t = 1
        row: cython.pointer(cython.const[int64_t])
        pool: cython.pointer(Pool)
        result: cython.pointer(Result)
        for i in range(self.n_states):
            row = self.state_rows + 10 * i
            pool = cython.address(self.pools[i])
            pool.listed = False
            pool.sieve = cython.NULL  # the array may have moved
            if i >= self.forest.state.size or row[0] < 0:
                clear(pool)
                pool.serial = 0
                continue
            if pool.serial != row[9]:
                clear(pool)
                pool.serial = row[9]
                pool.most_live = pool.n_tested = pool.n_affected = pool.n_taken = 0
                pool.swept_at = self.now
            pool.stream, pool.program, pool.n_slots = row[0], row[1], row[3]
            pool.n_keys, pool.window, pool.first_edge = row[6], row[7], row[8]
            pool.sieve = cython.address(self.sieves[row[2]])
            pool.sieve.stale = True
            pool.keys = self.keys + 3 * row[5]
            pool.slot_types = self.slot_types + row[4]
            pool.carries = False
            for c in range(pool.n_slots):
                pool.carries = pool.carries or pool.slot_types[c] == ROW_HANDLE
            pool.width = HEADER + pool.n_slots + (pool.n_slots + 7) // 8
            widest = max(widest, pool.width)
        if not grow(cython.address(self.image), widest):
            raise MemoryError("no memory for the automata")
        for g in range(self.n_groups):
            self.live[g].size = 0
            for i in range(self.group_rows[6 * g + 2], self.group_rows[6 * g + 2] + self.group_rows[6 * g + 3]):
                s = self.group_states[i]
                self.pools[s].group = g
                if self.pools[s].n_live > 0:
                    self.pools[s].listed = True
                    if not push(cython.address(self.live[g]), s):
                        raise MemoryError("no memory for the automata")
        for i in range(self.forest.stream.size):
            self.views[i].is_source = self.stream_rows[3 * i] == 0
            self.views[i].n_rows = 0
            result = cython.address(self.results[i])
            if self.stream_rows[3 * i] != 1 or (result.columns != cython.NULL and result.n_columns == self.stream_rows[3 * i + 1]):
                continue
            if result.columns != cython.NULL:
                for c in range(result.n_columns):
                    free(result.columns[c].data)
                    free(result.flags[c].data)
                free(result.columns)
                free(result.flags)
            result.n_columns = self.stream_rows[3 * i + 1]
            result.columns = cython.cast(cython.pointer(Buffer), calloc(result.n_columns + 1, cython.sizeof(Buffer)))
            result.flags = cython.cast(cython.pointer(Flags), calloc(result.n_columns + 1, cython.sizeof(Flags)))
            if result.columns == cython.NULL or result.flags == cython.NULL:
                raise MemoryError("no memory for the automata")
        self.reset()

    @cython.cfunc
    def reserve_registers(self):
        programs = self.forest.program.rows[: self.forest.program.size]
        used = programs[programs[:, 0] >= 0]
        column = self.forest.column.rows[: self.forest.column.size]
        wide = column[(column[:, 0] >= 0) & (column[:, 1] >= 0), 1]
        n_registers: int64_t = int(used[:, 2].max(initial=1))
        n_wide: int64_t = int(programs[wide, 2].max(initial=1))
        if n_registers > self.n_registers:
            for one in (1, 2):
                frame: cython.pointer(Frame) = cython.address(self.frame) if one == 1 else cython.address(self.edge_frame)
                free(frame.values)
                free(frame.flags)
                frame.values = cython.cast(cython.pointer(int64_t), calloc(n_registers, 8))
                frame.flags = cython.cast(cython.pointer(uint8_t), calloc(n_registers, 1))
                if frame.values == cython.NULL or frame.flags == cython.NULL:
                    raise MemoryError("no memory for the registers")
            self.n_registers = n_registers
        if n_wide > self.n_wide:
            free(self.wide.values)
            free(self.wide.flags)
            self.wide.values = cython.cast(cython.pointer(int64_t), calloc(n_wide * CHUNK, 8))
            self.wide.flags = cython.cast(cython.pointer(uint8_t), calloc(n_wide * CHUNK, 1))
            if self.wide.values == cython.NULL or self.wide.flags == cython.NULL:
                raise MemoryError("no memory for the registers")
            self.n_wide = n_wide

    # -- one batch -------------------------------------------------------------------------------------------------------------

    def process(self, inputs: dict) -> None:
        """Run a batch of whole epochs. `inputs`: source -> (starts, ends, numbers, [(column, values, flags or None)])."""
        self.prepare(inputs)
        self.compute(self, 0, 1)
        self.run(self, 0)

    def prepare(self, inputs: dict, owner_columns: dict = None) -> None:
        """Take the columns of a batch. With several machines, `owner_columns` divide it: source -> [(column, is it a double?)]."""
        stream: int64_t
        self.follow()
        self.bound = []
        for stream in range(self.n_streams):
            self.views[stream].n_rows = 0
            self.owner_data[stream] = cython.NULL
        self.owner_columns = [] if owner_columns is None else [(s, columns) for s, columns in owner_columns.items() if s in inputs]
        for stream, given in inputs.items():
            self.bind(stream, given)
            if not self.reserve_stream(stream):
                raise MemoryError("no memory for a batch")
        for stream, _ in self.owner_columns:
            if not grow_flags(cython.address(self.owners[stream]), self.views[stream].n_rows):
                raise MemoryError("no memory for a batch")
            self.owner_data[stream] = self.owners[stream].data

    @cython.cfunc
    def bind(self, stream: int64_t, given):
        view: cython.pointer(View) = cython.address(self.views[stream])
        column: int64_t
        n: int64_t
        words: cython.const[int64_t][::1]
        bytes_: cython.const[uint8_t][::1]
        starts, ends, numbers, columns = given
        n = len(ends)
        if not 0 <= stream < self.n_streams or self.stream_rows[3 * stream] != 0:
            raise ValueError("there is no such source")
        if n == 0:
            return
        self.bound.append(given)
        words = starts
        if words.shape[0] != n:
            raise ValueError("the columns of a batch differ in length")
        view.starts = cython.address(words[0])
        words = ends
        view.ends = cython.address(words[0])
        view.lineage = cython.NULL
        if self.track:
            words = numbers
            if words.shape[0] != n:
                raise ValueError("the events of a batch are not numbered")
            view.lineage = cython.address(words[0])
        if {number for number, _, _ in columns} < {number for number, _ in self.forest.source_columns(self.forest.names[stream])}:
            raise ValueError("a column of the stream is missing in its batch")
        for column, values, flags in columns:
            words = values
            if not 0 <= column < self.n_columns or self.column_rows[4 * column] != stream or words.shape[0] != n:
                raise ValueError("the columns of a batch are not those of its stream, or differ in length")
            self.columns[column].values = cython.address(words[0])
            self.columns[column].flags = cython.NULL
            if flags is not None:
                bytes_ = flags
                if bytes_.shape[0] != n:
                    raise ValueError("the columns of a batch differ in length")
                self.columns[column].flags = cython.address(bytes_[0])
        view.n_rows = n

    def compute(self, leader: Machine, part: int64_t, n_parts: int64_t) -> None:
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
        with cython.nogil:
            status: Status = self.compute_rows(leader, part, n_parts)
        self.fail(status)
        for stream, owner_columns in leader.owner_columns:
            n = min(len(owner_columns), 32)
            for k in range(n):
                keys[2 * k], keys[2 * k + 1] = owner_columns[k]
            low = leader.views[stream].n_rows * part // n_parts
            high = leader.views[stream].n_rows * (part + 1) // n_parts
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
                    leader.owners[stream].data[row] = ((h >> 16) & 0xFFFF) * n_parts >> 16

    def run(self, leader: Machine, shard: int64_t) -> None:
        """Run the rows that are this machine's; `leader` has the columns."""
        i: int64_t
        if self is not leader:
            self.follow()
            if self.version != leader.version:
                raise ValueError("the machines do not run the same queries")
            for i in range(self.n_streams):
                if self.views[i].is_source:
                    self.views[i] = leader.views[i]
                    self.owner_data[i] = leader.owner_data[i]
            for i in range(self.n_columns):
                if self.column_rows[4 * i] >= 0 and self.views[self.column_rows[4 * i]].is_source:
                    self.columns[i] = leader.columns[i]
            for i in range(self.n_hashes):
                if self.hash_rows[4 * i] >= 0 and self.views[self.hash_rows[4 * i]].is_source:
                    self.hash_data[i] = leader.hash_data[i]
            for i in range(self.n_ports):
                if self.views[self.group_ports[i]].is_source:
                    self.fire_data[i] = leader.fire_data[i]
        self.shard = shard
        self.stop = False
        with cython.nogil:
            self.reset()
            status: Status = self.run_groups()
        self.fail(status)

    @cython.cfunc
    def fail(self, status: Status):
        if status == Status.NO_MEMORY:
            raise MemoryError("the matching kernel ran out of memory")
        if status == Status.OVERFLOW:
            raise Overflow(self.fault.program, self.fault.stream, self.fault.row, self.fault.tick)
        if status == Status.INTERRUPTED:
            pending_exception()
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """Let a run in another thread end soon, with KeyboardInterrupt there."""
        self.stop = True

    def taken_rows(self):
        """The row handles that instances took since this was asked last."""
        taken = copy_words(cython.address(self.taken), self.taken.size)
        self.taken.size = 0
        return taken

    def touched_streams(self) -> list:
        """The outputs that have rows for the last batch."""
        return [self.touched.data[i] for i in range(self.touched.size)]

    def output(self, stream: int64_t):
        """What an operator gave for the last batch: (starts, ends, nodes, [values], [flags]) as fresh arrays."""
        if not 0 <= stream < self.n_streams or self.stream_rows[3 * stream] != 1:
            raise IndexError("there is no such output")
        result: cython.pointer(Result) = cython.address(self.results[stream])
        n: int64_t = result.ends.size
        nodes = copy_words(cython.address(result.lineage), n) if self.track else None
        values = [copy_words(cython.address(result.columns[c]), n) for c in range(result.n_columns)]
        flags = [copy_flags(cython.address(result.flags[c]), n) for c in range(result.n_columns)]
        return copy_words(cython.address(result.starts), n), copy_words(cython.address(result.ends), n), nodes, values, flags

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def reset(self) -> cython.void:
        """Forget the output of the last batch."""
        i: int64_t
        c: int64_t
        result: cython.pointer(Result)
        for i in range(self.touched.size):
            result = cython.address(self.results[self.touched.data[i]])
            self.views[self.touched.data[i]].n_rows = 0
            result.starts.size = result.ends.size = result.lineage.size = 0
            for c in range(result.n_columns):
                result.columns[c].size = 0
                result.flags[c].size = 0
        self.touched.size = 0

    # -- what is computed for all events of a batch -------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def reserve_stream(self, stream: int64_t) -> cython.bint:
        """Room for what is computed for the rows of a stream, and pointers to it."""
        n: int64_t = self.views[stream].n_rows
        i: int64_t
        number: int64_t
        for i in range(self.derived_first[stream], self.derived_first[stream + 1]):
            number = self.derived_columns[i]
            if not grow(cython.address(self.computed[number].values), n) or not grow_flags(cython.address(self.computed[number].flags), n):
                return False
            self.columns[number].values = self.computed[number].values.data
            self.columns[number].flags = self.computed[number].flags.data
        for i in range(self.hash_first[stream], self.hash_first[stream + 1]):
            number = self.hashes_of[i]
            if not grow(cython.address(self.hashes[number]), n):
                return False
            self.hash_data[number] = self.hashes[number].data
        for i in range(self.port_first[stream], self.port_first[stream + 1]):
            number = self.ports_of[i]
            if not grow_flags(cython.address(self.fires[number]), n):
                return False
            self.fire_data[number] = self.fires[number].data
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_rows(self, leader: Machine, part: int64_t, n_parts: int64_t) -> Status:
        stream: int64_t
        n: int64_t
        status: Status
        for stream in range(leader.n_streams):
            n = leader.views[stream].n_rows
            if n > 0 and leader.views[stream].is_source:
                status = self.compute_stream(leader, stream, n * part // n_parts, n * (part + 1) // n_parts)
                if status != Status.FINE:
                    return status
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_stream(self, leader: Machine, stream: int64_t, low: int64_t, high: int64_t) -> Status:
        """For rows low..high of a stream that `leader` holds."""
        i: int64_t
        status: Status
        for i in range(self.derived_first[stream], self.derived_first[stream + 1]):
            status = self.compute_derived(leader, self.derived_columns[i], low, high)
            if status != Status.FINE:
                return status
        for i in range(self.hash_first[stream], self.hash_first[stream + 1]):
            self.compute_hash(leader, self.hashes_of[i], low, high)
        for i in range(self.port_first[stream], self.port_first[stream + 1]):
            self.compute_fires(leader, self.ports_of[i], low, high)
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_derived(self, leader: Machine, column: int64_t, low: int64_t, high: int64_t) -> Status:
        """A predicate or value of single events, column by column."""
        stream: int64_t = self.column_rows[4 * column]
        program: int64_t = self.column_rows[4 * column + 1]
        code: cython.pointer(cython.const[int32_t]) = self.code + 5 * self.program_rows[3 * program]
        values: cython.pointer(int64_t) = leader.computed[column].values.data
        flags: cython.pointer(uint8_t) = leader.computed[column].flags.data
        row: int64_t = low
        lanes: int64_t
        i: int64_t
        self.wide.columns = leader.columns
        self.wide.starts = leader.views[stream].starts
        self.wide.ends = leader.views[stream].ends
        self.wide.slots = cython.NULL
        while row < high:
            lanes = min(high - row, cython.cast(int64_t, CHUNK))
            self.wide.row = row
            if evaluate(code, 0, cython.address(self.wide), lanes, self.strings) < 0:
                return Status.NO_MEMORY
            # The result of a program over columns is in register 0.
            memcpy(values + row, self.wide.values, lanes * 8)
            memcpy(flags + row, self.wide.flags, lanes)
            row += lanes
        if self.column_rows[4 * column + 2]:
            for i in range(low, high):
                if flags[i] == IS_ERROR:
                    self.fault.stream = stream
                    self.fault.tick = leader.views[stream].ends[i]
                    return self.note_fault(program, i)
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_hash(self, leader: Machine, which: int64_t, low: int64_t, high: int64_t) -> cython.void:
        """The key of every event as a state sees it; 0 where the event is no candidate for any instance.

        One pass here and one load per event in the epoch: half the time of hashing event by event.
        """
        first: int64_t = self.hash_rows[4 * which + 1]
        n_keys: int64_t = self.hash_rows[4 * which + 2]
        gate: int64_t = self.hash_rows[4 * which + 3]
        hashes: cython.pointer(int64_t) = leader.hashes[which].data
        column: cython.pointer(Column)
        row: int64_t
        k: int64_t
        for row in range(low, high):
            hashes[row] = HASH_SEED
        for k in range(first, first + n_keys):
            column = cython.address(leader.columns[self.hash_keys[2 * k]])
            if self.hash_keys[2 * k + 1]:
                for row in range(low, high):
                    hashes[row] = mix(hashes[row], canonical_double(column.values[row]))
            else:
                for row in range(low, high):
                    hashes[row] = mix(hashes[row], column.values[row])
        for row in range(low, high):
            # 0 is taken; the instances do the same in key_of_instance.
            hashes[row] |= 1
        for k in range(first, first + n_keys):
            column = cython.address(leader.columns[self.hash_keys[2 * k]])
            if column.flags != cython.NULL:
                for row in range(low, high):
                    if column.flags[row] != 0:
                        hashes[row] = 0
        if gate >= 0:
            column = cython.address(leader.columns[gate])
            for row in range(low, high):
                if column.flags[row] == IS_NULL or (column.values[row] == 0 and column.flags[row] == 0):
                    hashes[row] = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def compute_fires(self, leader: Machine, port: int64_t, low: int64_t, high: int64_t) -> cython.void:
        """Does a start of the group look at the row?"""
        row: int64_t
        i: int64_t
        start: int64_t
        group: int64_t = self.port_group[port]
        fires: cython.pointer(uint8_t) = leader.fires[port].data
        gate: cython.pointer(Column)
        memset(fires + low, 0, high - low)
        for i in range(self.group_rows[6 * group + 4], self.group_rows[6 * group + 4] + self.group_rows[6 * group + 5]):
            start = self.group_starts[i]
            if self.start_rows[3 * start] != self.group_ports[port]:
                continue
            if self.start_rows[3 * start + 1] < 0:
                memset(fires + low, 1, high - low)
                return
            gate = cython.address(leader.columns[self.start_rows[3 * start + 1]])
            for row in range(low, high):
                fires[row] |= (gate.values[row] != 0) & (gate.flags[row] == 0)

    # -- groups -----------------------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_groups(self) -> Status:
        g: int64_t
        i: int64_t
        first: int64_t
        n_ports: int64_t
        n_rows: int64_t
        state: int64_t
        stream: int64_t
        pool: cython.pointer(Pool)
        sieve: cython.pointer(Sieve)
        status: Status
        self.work = 0
        self.frame.columns = self.columns
        self.edge_frame.columns = self.columns
        for i in range(self.n_hashes):
            if self.hash_rows[4 * i] >= 0 and (self.sieves[i].stale or 8 * self.sieves[i].n_keys > self.sieves[i].n_cells):
                if not self.count_keys(i):
                    return Status.NO_MEMORY
        for g in range(self.n_groups):
            first = self.group_rows[6 * g]
            n_ports = self.group_rows[6 * g + 1]
            n_rows = 0
            for i in range(first, first + n_ports):
                stream = self.group_ports[i]
                self.views[stream].low = self.views[stream].high = 0
                if not self.views[stream].is_source:
                    status = self.take_result(stream)
                    if status != Status.FINE:
                        return status
                n_rows += self.views[stream].n_rows
            if n_rows == 0:
                continue
            sieve = self.place_hashes(g)
            if n_ports == 1:
                status = self.run_one_port(g, first, sieve)
            else:
                status = self.run_ports(g)
            if status != Status.FINE:
                return status
            for i in range(self.live[g].size):
                state = self.live[g].data[i]
                pool = cython.address(self.pools[state])
                # Quiet keys are not found by candidates: their time is looked at once a window.
                if is_sparse(pool) or (pool.n_live > 0 and beyond(pool.swept_at, self.now, pool.window)):
                    if not expire(pool, self.now):
                        return Status.NO_MEMORY
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def count_keys(self, which: int64_t) -> cython.bint:
        """Make the sieve of a hash anew, with sixteen cells a key."""
        sieve: cython.pointer(Sieve) = cython.address(self.sieves[which])
        pool: cython.pointer(Pool)
        s: int64_t
        i: int64_t
        n_keys: int64_t = 0
        for s in range(self.n_states):
            if self.pools[s].sieve == sieve:
                n_keys += self.pools[s].n_used
        free(sieve.counts)
        sieve.n_cells = 64
        sieve.shift = 58
        while sieve.n_cells < 16 * n_keys:
            sieve.n_cells *= 2
            sieve.shift -= 1
        sieve.counts = cython.cast(cython.pointer(uint8_t), calloc(sieve.n_cells, 1))
        sieve.n_keys = 0
        if sieve.counts == cython.NULL:
            sieve.n_cells = 0
            return False
        for s in range(self.n_states):
            pool = cython.address(self.pools[s])
            if pool.sieve == sieve:
                for i in range(pool.n_entries):
                    if pool.entries[i].hash != 0:
                        count_key(sieve, pool.entries[i].hash)
        sieve.stale = False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def place_hashes(self, group: int64_t) -> cython.pointer(Sieve):
        """Every state the hashes of its candidates. If all states of the group look for the same key, its sieve comes back."""
        first: int64_t = self.group_rows[6 * group + 2]
        n: int64_t = self.group_rows[6 * group + 3]
        i: int64_t
        which: int64_t
        same: cython.bint = n > 0
        pool: cython.pointer(Pool)
        for i in range(first, first + n):
            pool = cython.address(self.pools[self.group_states[i]])
            which = self.state_rows[10 * self.group_states[i] + 2]
            pool.hashes = self.hash_data[which]
            same = same and which == self.state_rows[10 * self.group_states[first] + 2]
        return cython.address(self.sieves[self.state_rows[10 * self.group_states[first] + 2]]) if same else cython.NULL

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def take_result(self, stream: int64_t) -> Status:
        """The output of an operator becomes the input of others: its columns, and what is computed of them."""
        result: cython.pointer(Result) = cython.address(self.results[stream])
        view: cython.pointer(View) = cython.address(self.views[stream])
        i: int64_t
        if view.n_rows == result.ends.size:
            return Status.FINE
        view.n_rows = result.ends.size
        view.starts = result.starts.data
        view.ends = result.ends.data
        view.lineage = result.lineage.data
        for i in range(self.n_columns):
            if self.column_rows[4 * i] == stream and self.column_rows[4 * i + 1] < 0:
                self.columns[i].values = result.columns[self.column_rows[4 * i + 3]].data
                self.columns[i].flags = result.flags[self.column_rows[4 * i + 3]].data
        if not self.reserve_stream(stream):
            return Status.NO_MEMORY
        return self.compute_stream(self, stream, 0, view.n_rows)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_one_port(self, group: int64_t, port: int64_t, sieve: cython.pointer(Sieve)) -> Status:
        """With one stream there is nothing to merge, and in most epochs nothing happens."""
        stream: int64_t = self.group_ports[port]
        fires: cython.pointer(cython.const[uint8_t]) = self.fire_data[port]
        owner: cython.pointer(cython.const[uint8_t]) = self.owner_data[stream]
        hashes: cython.pointer(cython.const[int64_t]) = cython.NULL
        ends: cython.pointer(cython.const[int64_t]) = self.views[stream].ends
        found: cython.bint
        view: cython.pointer(View) = cython.address(self.views[stream])
        live: cython.pointer(Buffer) = cython.address(self.live[group])
        rows: int64_t[MOST_APART]
        row: int64_t = 0
        n: int64_t = view.n_rows
        n_active: int64_t
        i: int64_t
        tick: int64_t
        large: cython.bint = False
        status: Status = Status.FINE
        for i in range(live.size):
            large = large or self.pools[live.data[i]].n_used > LARGE
        if sieve != cython.NULL:
            hashes = self.pools[self.group_states[self.group_rows[6 * group + 2]]].hashes
        while row < n:
            tick = ends[row]
            view.low = row
            n_active = 0
            while row < n and ends[row] == tick:
                if large and row + AHEAD < n:
                    self.fetch_ahead(live, row)
                if sieve != cython.NULL:
                    found = hashes[row] != 0 and sieve.counts[cython.cast(uint64_t, hashes[row]) >> sieve.shift] != 0
                else:
                    found = self.finds_some(live, row)
                if (found or fires[row]) and (owner == cython.NULL or owner[row] == self.shard):
                    if n_active < MOST_APART:
                        rows[n_active] = row
                    n_active += 1
                row += 1
            if n_active == 0:
                continue
            self.now = tick
            view.high = row
            if n_active > 1 and (n_active > MOST_APART or not self.are_apart(live, rows, n_active)):
                status = self.run_epoch(group)
            else:
                for i in range(n_active):
                    status = self.run_row(group, stream, rows[i], fires[rows[i]])
                    if status != Status.FINE:
                        return status
            if status != Status.FINE:
                return status
        self.now = max(self.now, view.ends[n - 1])
        return Status.FINE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def finds_some(self, live: cython.pointer(Buffer), row: int64_t) -> cython.bint:
        """Are there instances of the row's key?"""
        pool: cython.pointer(Pool)
        hash_: uint64_t
        i: int64_t
        position: int64_t
        for i in range(live.size):
            pool = cython.address(self.pools[live.data[i]])
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
    def fetch_ahead(self, live: cython.pointer(Buffer), row: int64_t) -> cython.void:
        """Ask for the memory that later rows will need: entries first, then the instances of an entry that has come."""
        pool: cython.pointer(Pool)
        i: int64_t
        position: int64_t
        for i in range(live.size):
            pool = cython.address(self.pools[live.data[i]])
            if pool.n_entries > 0:
                prefetch(pool.entries + home_of(pool, pool.hashes[row + AHEAD]))
                position = home_of(pool, pool.hashes[row + AHEAD // 2])
                if pool.entries[position].hash != 0:
                    prefetch(pool.data + pool.entries[position].block)
                    prefetch(pool.data + pool.entries[position].block + 8)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def are_apart(self, live: cython.pointer(Buffer), rows: cython.pointer(int64_t), n: int64_t) -> cython.bint:
        """Do simultaneous events have different keys for every state? Then none sees what another does, and each can run alone."""
        pool: cython.pointer(Pool)
        i: int64_t
        a: int64_t
        b: int64_t
        for i in range(live.size):
            pool = cython.address(self.pools[live.data[i]])
            for a in range(1, n):
                for b in range(a):
                    if pool.hashes[rows[a]] == pool.hashes[rows[b]] and pool.hashes[rows[a]] != 0:
                        return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_ports(self, group: int64_t) -> Status:
        """Merge the streams of a group by the ends of their rows."""
        first: int64_t = self.group_rows[6 * group]
        last: int64_t = first + self.group_rows[6 * group + 1]
        p: int64_t
        n: int64_t
        only: int64_t
        view: cython.pointer(View)
        tick: int64_t
        any_left: cython.bint
        status: Status
        while True:
            any_left = False
            tick = 0
            for p in range(first, last):
                view = cython.address(self.views[self.group_ports[p]])
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
                view = cython.address(self.views[self.group_ports[p]])
                while view.high < view.n_rows and view.ends[view.high] == tick:
                    view.high += 1
                    n += 1
                    only = p
            self.now = tick
            if n == 1:
                view = cython.address(self.views[self.group_ports[only]])
                if (
                    self.owner_data[self.group_ports[only]] == cython.NULL
                    or self.owner_data[self.group_ports[only]][view.low] == self.shard
                ):
                    status = self.run_row(group, self.group_ports[only], view.low, self.fire_data[only][view.low])
                else:
                    status = Status.FINE
            else:
                status = self.run_epoch(group)
            if status != Status.FINE:
                return status

    # -- one epoch ---------------------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_row(self, group: int64_t, stream: int64_t, row: int64_t, fires: cython.bint) -> Status:
        """An epoch of one event. What it does to an instance can be done at once."""
        live: cython.pointer(Buffer) = cython.address(self.live[group])
        pool: cython.pointer(Pool)
        i: int64_t = 0
        state: int64_t
        position: int64_t
        hash_: uint64_t
        status: Status
        self.single = True
        while i < live.size:
            state = live.data[i]
            pool = cython.address(self.pools[state])
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
                if pool.entries[position].hash == hash_ and self.has_key(pool, position, hash_, row):
                    status = self.probe_alone(state, pool, cython.address(self.views[stream]), row, position)
                    if status != Status.FINE:
                        return status
                    break
                position = (position + 1) & (pool.n_entries - 1)
        if fires:
            status = self.run_starts(group, stream, row)
            if status != Status.FINE:
                return status
        if self.pending.size + self.crowded.size > 0:
            return self.end_epoch()
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_epoch(self, group: int64_t) -> Status:
        """Several simultaneous events: each meets what was there before all of them."""
        live: cython.pointer(Buffer) = cython.address(self.live[group])
        first: int64_t = self.group_rows[6 * group]
        pool: cython.pointer(Pool)
        view: cython.pointer(View)
        owner: cython.pointer(cython.const[uint8_t])
        i: int64_t
        p: int64_t
        row: int64_t
        state: int64_t
        position: int64_t
        hash_: uint64_t
        status: Status
        self.single = False
        self.epoch += 1
        for i in range(live.size):
            state = live.data[i]
            pool = cython.address(self.pools[state])
            if pool.n_live == 0:
                continue
            view = cython.address(self.views[pool.stream])
            owner = self.owner_data[pool.stream]
            for row in range(view.low, view.high):
                hash_ = pool.hashes[row]
                if hash_ == 0 or (owner != cython.NULL and owner[row] != self.shard):
                    continue
                position = home_of(pool, hash_)
                while pool.entries[position].hash != 0:
                    if pool.entries[position].hash == hash_ and self.has_key(pool, position, hash_, row):
                        status = self.probe(state, pool, view, row, position)
                        if status != Status.FINE:
                            return status
                        break
                    position = (position + 1) & (pool.n_entries - 1)
        for p in range(first, first + self.group_rows[6 * group + 1]):
            view = cython.address(self.views[self.group_ports[p]])
            owner = self.owner_data[self.group_ports[p]]
            for row in range(view.low, view.high):
                if self.fire_data[p][row] and (owner == cython.NULL or owner[row] == self.shard):
                    status = self.run_starts(group, self.group_ports[p], row)
                    if status != Status.FINE:
                        return status
        return self.end_epoch()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run_starts(self, group: int64_t, stream: int64_t, row: int64_t) -> Status:
        i: int64_t
        start: int64_t
        node: int64_t
        gate: cython.pointer(Column)
        status: Status
        for i in range(self.group_rows[6 * group + 4], self.group_rows[6 * group + 4] + self.group_rows[6 * group + 5]):
            start = self.group_starts[i]
            if self.start_rows[3 * start] != stream:
                continue
            if self.start_rows[3 * start + 1] >= 0:
                gate = cython.address(self.columns[self.start_rows[3 * start + 1]])
                if gate.values[row] == 0 or gate.flags[row] != 0:
                    continue
            node = -1
            status = self.follow_edge(
                self.edge_rows[3 * self.start_rows[3 * start + 2]],
                cython.address(self.views[stream]),
                row,
                cython.NULL,
                cython.NULL,
                cython.address(node),
            )
            if status != Status.FINE:
                self.fault.stream = stream
                return status
        return Status.FINE

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def has_key(self, pool: cython.pointer(Pool), position: int64_t, hash_: uint64_t, row: int64_t) -> cython.bint:
        """Are the instances of an entry those of the candidate's key?"""
        words: cython.pointer(int64_t) = pool.data + pool.entries[position].block
        k: int64_t
        value: int64_t
        for k in range(pool.n_keys):
            value = self.columns[pool.keys[3 * k]].values[row]
            if pool.keys[3 * k + 2]:
                if canonical_double(value) != canonical_double(words[HEADER + pool.keys[3 * k + 1]]):
                    return False
            elif value != words[HEADER + pool.keys[3 * k + 1]]:
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def probe_alone(
        self, state: int64_t, pool: cython.pointer(Pool), view: cython.pointer(View), row: int64_t, position: int64_t
    ) -> Status:
        """Let the only candidate of an epoch meet the instances of its key."""
        entry: cython.pointer(Entry) = pool.entries + position
        words: cython.pointer(int64_t)
        start: int64_t = view.starts[row]
        tick: int64_t = view.ends[row]
        i: int64_t = 0
        status: Status
        while i < entry.n:
            words = pool.data + entry.block + i * pool.width
            if start <= words[FINISH]:
                i += 1
            elif beyond(words[START], tick, pool.window):
                remove_instance(pool, entry, i)
            else:
                status = self.meet(state, pool, words, view, row)
                if status != Status.FINE:
                    self.fault.stream = pool.stream
                    return status
                if self.affected and not self.rebound:
                    remove_instance(pool, entry, i)
                else:
                    i += 1
        if entry.n == 0:
            remove_entry(pool, position)
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def probe(self, state: int64_t, pool: cython.pointer(Pool), view: cython.pointer(View), row: int64_t, position: int64_t) -> Status:
        """Let one of several simultaneous candidates meet the instances of its key; they go at the end of the epoch."""
        entry: cython.pointer(Entry) = pool.entries + position
        words: cython.pointer(int64_t)
        start: int64_t = view.starts[row]
        tick: int64_t = view.ends[row]
        i: int64_t
        some_go: cython.bint = False
        status: Status
        for i in range(entry.n):
            words = pool.data + entry.block + i * pool.width
            if start <= words[FINISH]:
                continue
            if beyond(words[START], tick, pool.window):
                self.affected = True
            else:
                status = self.meet(state, pool, words, view, row)
                if status != Status.FINE:
                    self.fault.stream = pool.stream
                    return status
            if self.affected:
                words[MARK] = self.epoch
                some_go = True
        if some_go and (not push(cython.address(self.dead), state) or not push(cython.address(self.dead), entry.hash)):
            return Status.NO_MEMORY
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def meet(
        self, state: int64_t, pool: cython.pointer(Pool), words: cython.pointer(int64_t), view: cython.pointer(View), row: int64_t
    ) -> Status:
        """Run the program of a state for one instance and one candidate; `affected` and `rebound` say what became of it."""
        code: cython.pointer(cython.const[int32_t]) = self.code + 5 * self.program_rows[3 * pool.program]
        frame: cython.pointer(Frame) = cython.address(self.frame)
        ins: cython.pointer(cython.const[int32_t])
        pc: cython.int = 0
        edge: int64_t
        node: int64_t = -1
        status: Status
        self.affected = False
        self.rebound = False
        pool.n_tested += 1
        self.work += 1
        if self.work >= SIGNALS_AFTER:
            status = self.look_for_signals()
            if status != Status.FINE:
                return status
        frame.starts = view.starts
        frame.ends = view.ends
        frame.row = row
        frame.instance_start = words[START]
        frame.slots = words + HEADER
        frame.slot_flags = cython.cast(cython.pointer(uint8_t), words + HEADER + pool.n_slots)
        while True:
            pc = evaluate_one(code, pc, frame, self.strings)
            if pc < 0:
                return Status.NO_MEMORY
            ins = code + 5 * pc
            if ins[0] == JUMP_UNLESS:
                if frame.flags[ins[2]] == IS_ERROR:
                    self.fault.tick = view.ends[row]
                    return self.note_fault(pool.program, row)
                if frame.flags[ins[2]] != 0 or frame.values[ins[2]] == 0:
                    pc = ins[3]
                    continue
            elif ins[0] == AFFECT:
                self.affected = True
                pool.n_affected += 1
            elif ins[0] == FORWARD:
                pool.n_taken += 1
                edge = pool.first_edge
                while edge >= 0:
                    if self.edge_rows[3 * edge + 1] == INT64_MIN or words[BORN] > self.edge_rows[3 * edge + 1]:
                        status = self.follow_edge(self.edge_rows[3 * edge], view, row, words, pool, cython.address(node))
                        if status != Status.FINE:
                            return status
                    edge = self.edge_rows[3 * edge + 2]
            elif ins[0] == EMIT:
                if self.track and node < 0:
                    node = self.new_node(view, row, words[LINEAGE], ins[1])
                    if node < 0:
                        return Status.NO_MEMORY
                status = self.emit(ins, frame, view, row, words[START], words[BORN], node)
                if status == Status.OVERFLOW:
                    self.fault.tick = view.ends[row]
                    return self.note_fault(pool.program, row)
                if status != Status.FINE:
                    return status
                # The image is the instance after the step. Its key is the same but for runs over changing keys.
                if self.single and not pool.carries and same_key(pool, self.image.data, words):
                    memcpy(words, self.image.data, pool.width * 8)
                    self.rebound = True
                else:
                    status = self.add_later(state, self.image.data)
                    if status != Status.FINE:
                        return status
            else:
                return Status.FINE
            pc += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def follow_edge(
        self,
        program: int64_t,
        view: cython.pointer(View),
        row: int64_t,
        words: cython.pointer(cython.const[int64_t]),
        pool: cython.pointer(Pool),
        node: cython.pointer(int64_t),
    ) -> Status:
        """Run a forward edge for an instance and the candidate it took, or for an event alone (`words` is NULL).

        `node` is that of the contributors, -1 as long as there is none.
        """
        code: cython.pointer(cython.const[int32_t]) = self.code + 5 * self.program_rows[3 * program]
        frame: cython.pointer(Frame) = cython.address(self.edge_frame)
        ins: cython.pointer(cython.const[int32_t])
        pc: cython.int = 0
        start: int64_t = view.starts[row]
        born: int64_t = view.ends[row]
        parent: int64_t = -1
        status: Status
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
            pc = evaluate_one(code, pc, frame, self.strings)
            if pc < 0:
                return Status.NO_MEMORY
            ins = code + 5 * pc
            if ins[0] == JUMP_UNLESS:
                if frame.flags[ins[2]] == IS_ERROR:
                    self.fault.tick = view.ends[row]
                    return self.note_fault(program, row)
                if frame.flags[ins[2]] != 0 or frame.values[ins[2]] == 0:
                    pc = ins[3]
                    continue
            elif ins[0] == EMIT:
                if self.track and node[0] < 0:
                    node[0] = self.new_node(view, row, parent, ins[1])
                    if node[0] < 0:
                        return Status.NO_MEMORY
                status = self.emit(ins, frame, view, row, start, born, node[0])
                if status == Status.FINE and ins[2] >= 0:
                    status = self.add_instance(ins[2], self.image.data)
                if status == Status.OVERFLOW:
                    self.fault.tick = view.ends[row]
                    return self.note_fault(program, row)
                if status != Status.FINE:
                    return status
            else:
                return Status.FINE
            pc += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def emit(
        self,
        ins: cython.pointer(cython.const[int32_t]),
        frame: cython.pointer(Frame),
        view: cython.pointer(View),
        row: int64_t,
        start: int64_t,
        born: int64_t,
        node: int64_t,
    ) -> Status:
        """Bind the operands to a row of an output, or to the image of an instance."""
        i: int64_t
        n: int64_t = ins[4]
        register: int32_t
        operands: cython.pointer(cython.const[int32_t]) = self.operands + ins[3]
        for i in range(n):
            if frame.flags[operands[i]] == IS_ERROR:
                return Status.OVERFLOW
        if ins[2] < 0:
            return self.emit_row(ins, frame, start, view.ends[row], node)
        words: cython.pointer(int64_t) = self.image.data
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def emit_row(
        self, ins: cython.pointer(cython.const[int32_t]), frame: cython.pointer(Frame), start: int64_t, end: int64_t, node: int64_t
    ) -> Status:
        stream: int64_t = -1 - ins[2]
        result: cython.pointer(Result) = cython.address(self.results[stream])
        i: int64_t
        register: int32_t
        if result.ends.size == 0 and not push(cython.address(self.touched), stream):
            return Status.NO_MEMORY
        if not push(cython.address(result.starts), start) or not push(cython.address(result.ends), end):
            return Status.NO_MEMORY
        if self.track and not push(cython.address(result.lineage), node):
            return Status.NO_MEMORY
        for i in range(ins[4]):
            register = self.operands[ins[3] + i]
            if not push(cython.address(result.columns[i]), frame.values[register]):
                return Status.NO_MEMORY
            if not push_flag(cython.address(result.flags[i]), frame.flags[register]):
                return Status.NO_MEMORY
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_instance(self, state: int64_t, words: cython.pointer(cython.const[int64_t])) -> Status:
        """Put an instance where later candidates find it; in an epoch of several events only at its end."""
        pool: cython.pointer(Pool) = cython.address(self.pools[state])
        hash_: uint64_t = 0
        c: int64_t
        if not key_of_instance(pool, words, cython.address(hash_)):
            # A null in the key equals nothing, now or later: no candidate can ever affect it.
            return Status.FINE
        if not self.single:
            return self.add_later(state, words)
        if pool.carries:
            for c in range(pool.n_slots):
                if pool.slot_types[c] == ROW_HANDLE and not push(cython.address(self.taken), words[HEADER + c]):
                    return Status.NO_MEMORY
        if not insert(pool, words, hash_):
            return Status.NO_MEMORY
        if not pool.listed:
            pool.listed = True
            if not push(cython.address(self.live[pool.group]), state):
                return Status.NO_MEMORY
        if pool.n_live >= pool.sweep_at and not push(cython.address(self.crowded), state):
            return Status.NO_MEMORY
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_later(self, state: int64_t, words: cython.pointer(cython.const[int64_t])) -> Status:
        """Put an instance aside until the epoch ends."""
        n: int64_t = self.pools[state].width
        if not push(cython.address(self.pending), state) or not grow(cython.address(self.pending), self.pending.size + n):
            return Status.NO_MEMORY
        memcpy(self.pending.data + self.pending.size, words, n * 8)
        self.pending.size += n
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def new_node(self, view: cython.pointer(View), row: int64_t, parent: int64_t, tag: int64_t) -> int64_t:
        """The node of `parent`'s contributors followed by the event's; leaves are (-2 - stream, number of the event, 0)."""
        nodes: cython.pointer(Buffer) = cython.address(self.nodes)
        right: int64_t = view.lineage[row]
        if view.is_source:
            if not push(nodes, -2 - (view - self.views)) or not push(nodes, right) or not push(nodes, 0):
                return -1
            right = nodes.size // 3 - 1
        if not push(nodes, parent) or not push(nodes, right) or not push(nodes, tag):
            return -1
        return nodes.size // 3 - 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def end_epoch(self) -> Status:
        i: int64_t
        j: int64_t
        state: int64_t
        position: int64_t
        hash_: uint64_t
        pool: cython.pointer(Pool)
        entry: cython.pointer(Entry)
        status: Status
        for i in range(0, self.dead.size, 2):
            pool = cython.address(self.pools[self.dead.data[i]])
            hash_ = self.dead.data[i + 1]
            position = home_of(pool, hash_)
            while pool.entries[position].hash != 0:
                entry = pool.entries + position
                if entry.hash == hash_:
                    j = 0
                    while j < entry.n:
                        if (pool.data + entry.block + j * pool.width)[MARK] == self.epoch:
                            remove_instance(pool, entry, j)
                        else:
                            j += 1
                position = (position + 1) & (pool.n_entries - 1)
            remove_empty(pool, hash_)
        self.dead.size = 0
        self.single = True
        i = 0
        while i < self.pending.size:
            state = self.pending.data[i]
            status = self.add_instance(state, self.pending.data + i + 1)
            if status != Status.FINE:
                return status
            i += 1 + self.pools[state].width
        self.pending.size = 0
        for i in range(self.crowded.size):
            pool = cython.address(self.pools[self.crowded.data[i]])
            if pool.n_live >= pool.sweep_at and not expire(pool, self.now):
                return Status.NO_MEMORY
        self.crowded.size = 0
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def look_for_signals(self) -> Status:
        self.work = 0
        if self.stop:
            self.stop = False
            return Status.INTERRUPTED
        with cython.gil:
            if check_signals() != 0:
                return Status.INTERRUPTED
        return Status.FINE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def note_fault(self, program: int64_t, row: int64_t) -> Status:
        self.fault.program = program
        self.fault.row = row
        return Status.OVERFLOW

    # -- between batches -----------------------------------------------------------------------------------------------------------

    def usage(self, state: int64_t) -> tuple:
        """Of a state: live instances, the most there ever were, and bytes of memory."""
        if not 0 <= state < self.n_states:
            raise IndexError("there is no such state")
        pool: cython.pointer(Pool) = cython.address(self.pools[state])
        return pool.n_live, pool.most_live, pool.capacity * 8 + pool.n_entries * cython.sizeof(Entry)

    def counters(self, state: int64_t) -> tuple:
        """Of a state: instances that a candidate found, those of them that ended, and those that went on."""
        if not 0 <= state < self.n_states:
            raise IndexError("there is no such state")
        pool: cython.pointer(Pool) = cython.address(self.pools[state])
        return pool.n_tested, pool.n_affected, pool.n_taken

    @property
    def n_nodes(self) -> int:
        return self.nodes.size // 3

    @property
    def n_bytes(self) -> int:
        """Memory held by instances and contributors; strings are the forest's."""
        total: int64_t = self.nodes.capacity * 8
        i: int64_t
        for i in range(self.n_states):
            total += self.pools[i].capacity * 8 + self.pools[i].n_entries * cython.sizeof(Entry)
        return total
