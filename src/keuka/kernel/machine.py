"""A machine: the instances of a forest's states, the columns of the batch at hand, and the output of its operators.

Here it takes over what was loaded and unloaded. What it does with a batch is in `batches.py` (columns), `groups.py` (the way
through the automata) and `epochs.py` (single events). Several machines can run one forest in threads, each the rows whose key
is its own.
"""

import cython
import numpy as np
import pyarrow as pa
from cython.cimports.keuka.kernel.allocation import release, room, set_room, was_refused
from cython.cimports.keuka.kernel.buffers import copy_flags, copy_words, grow, push
from cython.cimports.keuka.kernel.construction import has_first, next_deadline
from cython.cimports.keuka.kernel.instances import HEADER, Entry, clear
from cython.cimports.keuka.kernel.lineage import count_nodes
from cython.cimports.keuka.kernel.rows import (
    BY_HISTORY,
    OUTPUT,
    PRIMITIVE,
    SOURCE,
    AbsenceRow,
    ComponentRow,
    FeedRow,
    LevelRow,
    StateRow,
    TestRow,
)
from cython.cimports.keuka.kernel.stacks import (
    EVENT_END,
    EVENT_HEADER,
    Bound,
    PortRows,
    Ring,
    Sequence,
    event_at,
    free_sequence,
    is_past,
)
from cython.cimports.keuka.kernel.system import pending_exception
from cython.cimports.libc.stdint import INT64_MIN, int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset


class Overflow(Exception):
    """Integer overflow at an event: (program, stream, row of the batch, tick)."""


class OutOfRoom(Exception):
    """A step needs more memory than it may take."""


class OutOfTime(Exception):
    """A step takes longer than it may."""


UNLIMITED = 1 << 62  # bytes


@cython.cfunc
def enlarged(data: cython.p_void, n_old: int64_t, n_new: int64_t, size: int64_t) -> cython.p_void:
    """An array with more elements, the new ones all zero. When memory is out the old one stays."""
    grown: cython.pointer(cython.char) = cython.cast(cython.pointer(cython.char), realloc(data, (n_new + 1) * size))
    if grown == cython.NULL:
        raise MemoryError("no memory for the automata")
    memset(grown + n_old * size, 0, (n_new + 1 - n_old) * size)
    return grown


FEW_WORDS = 1024


def fresh(n_words: int):
    """An array from Arrow's memory, which keeps what results gave back: with pages from the system matches cost a fifth more.

    Small ones have no pages of their own, and are had for less.
    """
    if n_words <= FEW_WORDS:
        return np.empty(n_words, np.int64)
    return np.frombuffer(pa.allocate_buffer(8 * n_words), np.int64)


@cython.cfunc
@cython.exceptval(check=False)
def free_frame(frame: cython.pointer(Frame)) -> cython.void:
    free(frame.values)
    free(frame.flags)


@cython.cfunc
@cython.exceptval(check=False)
def free_result(result: cython.pointer(Result)) -> cython.void:
    if result.columns != cython.NULL and result.flags != cython.NULL:
        free_rows(result)
    free(result.columns)
    free(result.flags)
    memset(result, 0, cython.sizeof(Result))


@cython.final
@cython.cclass
class Machine:
    def __cinit__(self, forest: object):
        self.forest = forest
        self.strings = forest.strings
        self.version = -1
        self.owner_columns = []
        self.now = INT64_MIN
        self.room = UNLIMITED
        self.deadline = float("inf")
        self.follow()

    def __dealloc__(self):
        i: int64_t
        for i in range(self.n_streams):
            free_result(cython.address(self.streams[i].result))
            free(self.streams[i].owner.data)
        for i in range(self.n_columns):
            free(self.computed[i].values.data)
            free(self.computed[i].flags.data)
        for i in range(self.automata.n_states):
            clear(cython.address(self.automata.pools[i]))
        for i in range(self.n_sequences):
            free_sequence(cython.address(self.sequences[i]))
        free(self.sequences)
        for i in range(self.n_hashes):
            free(self.hashes[i].values.data)
            free(self.hashes[i].sieve.counts)
        for i in range(self.automata.n_groups):
            free(self.automata.live[i].data)
        for i in range(self.automata.n_ports):
            free(self.automata.ports[i].fires.data)
        free(self.epoch.image.data)
        free(self.epoch.pending.data)
        free(self.epoch.dead.data)
        free(self.epoch.crowded.data)
        free(self.touched.data)
        free(self.filled.data)
        free(self.lineage.nodes.data)
        free(self.lineage.times.data)
        free(self.lineage.stack.data)
        free(self.lineage.histories.data)
        free(self.lineage.history_ends.data)
        free(self.lineage.ranked.data)
        free(self.lineage.merged.data)
        free(self.taken.data)
        free(self.own_rows.data)
        free(self.streams)
        free(self.columns)
        free(self.computed)
        free(self.hashes)
        free(self.automata.pools)
        free(self.automata.live)
        free(self.automata.ports)
        free_frame(cython.address(self.frames.state))
        free_frame(cython.address(self.frames.edge))
        free_frame(cython.address(self.frames.wide))

    # -- following the forest ------------------------------------------------------------------------------------------------

    @cython.cfunc
    def follow(self):
        """Take over what was loaded and unloaded. Only between batches."""
        if self.version == self.forest.version:
            return
        self.rows = self.forest.rows()
        self.held = -1
        self.has_more = False
        self.grow_arrays()
        self.place_pools()
        self.place_sequences()
        self.reserve_registers()
        self.lineage.is_wanted = len(self.forest.tracking) > 0
        self.lineage.by_history = len(self.forest.ordering) > 0
        if not self.lineage.by_history:
            self.lineage.times.size = 0
        elif not grow(cython.address(self.lineage.times), 2 * count_nodes(self)):
            raise MemoryError("no memory for histories")
        # Of events from before they were wanted the times are not known; no match that needs them goes back so far.
        while self.lineage.times.size < 2 * count_nodes(self) and self.lineage.by_history:
            self.lineage.times.data[self.lineage.times.size] = 1 - self.lineage.times.size % 2  # 1, 0: no primitive event
            self.lineage.times.size += 1
        self.version = self.rows.version

    @cython.cfunc
    def grow_arrays(self):
        """Room for every number of the forest."""
        n_streams: int64_t = self.rows.n_streams
        n_columns: int64_t = self.rows.n_columns
        n_hashes: int64_t = self.rows.n_hashes
        n_states: int64_t = self.rows.n_states
        memory: cython.p_void
        if n_streams > self.n_streams or self.streams == cython.NULL:
            memory = enlarged(self.streams, self.n_streams, n_streams, cython.sizeof(StreamPart))
            self.streams = cython.cast(cython.pointer(StreamPart), memory)
            self.n_streams = n_streams
        if n_columns > self.n_columns or self.columns == cython.NULL:
            memory = enlarged(self.columns, self.n_columns, n_columns, cython.sizeof(Column))
            self.columns = cython.cast(cython.pointer(Column), memory)
            memory = enlarged(self.computed, self.n_columns, n_columns, cython.sizeof(Computed))
            self.computed = cython.cast(cython.pointer(Computed), memory)
            self.n_columns = n_columns
        if n_hashes > self.n_hashes or self.hashes == cython.NULL:
            memory = enlarged(self.hashes, self.n_hashes, n_hashes, cython.sizeof(HashPart))
            self.hashes = cython.cast(cython.pointer(HashPart), memory)
            self.n_hashes = n_hashes
        if n_states > self.automata.n_states or self.automata.pools == cython.NULL:
            memory = enlarged(self.automata.pools, self.automata.n_states, n_states, cython.sizeof(Pool))
            self.automata.pools = cython.cast(cython.pointer(Pool), memory)
            self.automata.n_states = n_states
        if self.rows.n_groups > self.automata.n_groups or self.automata.live == cython.NULL:
            memory = enlarged(self.automata.live, self.automata.n_groups, self.rows.n_groups, cython.sizeof(Buffer))
            self.automata.live = cython.cast(cython.pointer(Buffer), memory)
            self.automata.n_groups = self.rows.n_groups
        if self.rows.n_ports > self.automata.n_ports or self.automata.ports == cython.NULL:
            memory = enlarged(self.automata.ports, self.automata.n_ports, self.rows.n_ports, cython.sizeof(PortPart))
            self.automata.ports = cython.cast(cython.pointer(PortPart), memory)
            self.automata.n_ports = self.rows.n_ports

    @cython.cfunc
    def place_pools(self):
        """Every state its pool, every operator its output; those of states that are gone are emptied."""
        i: int64_t
        g: int64_t
        s: int64_t
        c: int64_t
        widest: int64_t = 1
        row: cython.pointer(cython.const[StateRow])
        pool: cython.pointer(Pool)
        for i in range(self.automata.n_states):
            row = cython.address(self.rows.state[i])
            pool = cython.address(self.automata.pools[i])
            pool.listed = False
            pool.sieve = cython.NULL  # the array may have moved
            if row.stream < 0:
                clear(pool)
                pool.serial = 0
                continue
            if pool.serial != row.serial:
                clear(pool)
                pool.serial = row.serial
                pool.most_live = 0
                pool.swept_at = self.now
            pool.stream, pool.program, pool.n_slots = row.stream, row.program, row.n_slots
            pool.n_keys, pool.window, pool.first_edge = row.n_keys, row.window, row.first_edge
            pool.code = code_of(self, row.program)
            pool.primitive = (row.reading & PRIMITIVE) != 0
            pool.by_history = (row.reading & BY_HISTORY) != 0
            pool.sieve = cython.address(self.hashes[row.hash].sieve)
            pool.sieve.stale = True
            pool.keys = cython.address(self.rows.key[row.first_key])
            pool.slot_types = cython.address(self.rows.slot_type[row.first_slot])
            pool.carries = False
            for c in range(pool.n_slots):
                pool.carries = pool.carries or pool.slot_types[c] == ROW_HANDLE
            pool.width = HEADER + pool.n_slots + (pool.n_slots + 7) // 8
            widest = max(widest, pool.width)
        if not grow(cython.address(self.epoch.image), widest):
            raise MemoryError("no memory for the automata")
        for g in range(self.rows.n_groups):
            self.automata.live[g].size = 0
            for i in range(self.rows.group[g].first_state, self.rows.group[g].first_state + self.rows.group[g].n_states):
                s = self.rows.group_state[i]
                self.automata.pools[s].group = g
                if self.automata.pools[s].n_live > 0:
                    self.automata.pools[s].listed = True
                    if not push(cython.address(self.automata.live[g]), s):
                        raise MemoryError("no memory for the automata")
        for i in range(self.rows.n_streams):
            self.streams[i].view.number = i
            self.streams[i].view.is_source = self.rows.stream[i].kind == SOURCE
            self.streams[i].view.n_rows = 0
            self.place_result(i)
        self.reset()

    @cython.cfunc
    def place_sequences(self):
        """Every sequence its stacks; those of sequences that are gone are emptied."""
        number: int64_t
        n: int64_t = len(self.forest.sequences)
        memory: cython.p_void
        if n > self.n_sequences or self.sequences == cython.NULL:
            memory = enlarged(self.sequences, self.n_sequences, n, cython.sizeof(Sequence))
            self.sequences = cython.cast(cython.pointer(Sequence), memory)
            self.n_sequences = n
        for number in range(self.n_sequences):
            arrays = self.forest.sequences[number]
            if self.sequences[number].serial != 0 and (arrays is None or arrays.serial != self.sequences[number].serial):
                free_sequence(cython.address(self.sequences[number]))
            if arrays is not None:
                if self.sequences[number].serial == 0:
                    self.place_sequence(number)
                self.sequences[number].is_read = arrays.is_read
        self.sequence_arrays = list(self.forest.sequences)

    @cython.cfunc
    def place_sequence(self, number: int64_t):
        """An array each for what runs of a new sequence, and pointers into what does not change."""
        seq: cython.pointer(Sequence) = cython.address(self.sequences[number])
        arrays = self.forest.sequences[number]
        components: cython.const[ComponentRow][::1] = arrays.components
        feeds: cython.const[FeedRow][::1] = arrays.feeds
        levels: cython.const[LevelRow][::1] = arrays.levels
        tests: cython.const[TestRow][::1] = arrays.tests
        absences: cython.const[AbsenceRow][::1] = arrays.absences
        words: cython.const[int64_t][::1]
        i: int64_t
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
        seq.rings = cython.cast(cython.pointer(Ring), calloc(seq.n_components, cython.sizeof(Ring)))
        seq.port_rows = cython.cast(cython.pointer(PortRows), calloc(seq.n_ports, cython.sizeof(PortRows)))
        seq.shared = cython.cast(cython.pointer(int64_t), calloc(seq.n_components, 8))
        seq.nothing = cython.cast(cython.pointer(int64_t), calloc(seq.n_components, 8))
        seq.values = cython.cast(cython.pointer(int64_t), calloc(seq.n_slots + 1, 8))
        seq.flags = cython.cast(cython.pointer(uint8_t), calloc(seq.n_slots + 1, 1))
        seq.bound = cython.cast(cython.pointer(Bound), calloc(seq.n_components, cython.sizeof(Bound)))
        seq.cursor = cython.cast(cython.pointer(int64_t), calloc(seq.n_positive, 8))
        seq.low = cython.cast(cython.pointer(int64_t), calloc(seq.n_positive, 8))
        seq.since = cython.cast(cython.pointer(int64_t), calloc(seq.n_positive, 8))
        seq.alive = cython.cast(cython.pointer(uint64_t), calloc(seq.n_positive, 8))
        seq.failed = cython.cast(cython.pointer(uint64_t), calloc(seq.n_positive, 8))
        if (
            seq.rings == cython.NULL or seq.port_rows == cython.NULL or seq.shared == cython.NULL or seq.nothing == cython.NULL
            or seq.values == cython.NULL or seq.flags == cython.NULL or seq.bound == cython.NULL or seq.cursor == cython.NULL
            or seq.low == cython.NULL or seq.since == cython.NULL or seq.alive == cython.NULL or seq.failed == cython.NULL
        ):  # fmt: skip
            free_sequence(seq)
            raise MemoryError("no memory for a sequence")
        seq.keys.width = 2 + seq.n_components
        for i in range(seq.n_components):
            seq.shared[i] = seq.nothing[i] = -1
            seq.rings[i].n_slots = seq.components[i].n_slots
            seq.rings[i].width = EVENT_HEADER + seq.rings[i].n_slots + (seq.rings[i].n_slots + 7) // 8
        for i in range(seq.n_slots):
            seq.carries = seq.carries or seq.slot_types[i] == ROW_HANDLE
        seq.serial = arrays.serial

    @cython.cfunc
    def place_result(self, stream: int64_t):
        """Buffers for the output of an operator. A number that is another operator's now begins without any.

        A sequence reserves rows in all buffers at once and looks at the capacity of one, so none may be left of another operator.
        """
        result: cython.pointer(Result) = cython.address(self.streams[stream].result)
        serial: int64_t = self.rows.stream[stream].serial if self.rows.stream[stream].kind == OUTPUT else 0
        if result.serial == serial:
            return
        free_result(result)
        if serial == 0:
            return
        result.n_columns = self.rows.stream[stream].n_columns
        result.columns = cython.cast(cython.pointer(Buffer), calloc(result.n_columns + 1, cython.sizeof(Buffer)))
        result.flags = cython.cast(cython.pointer(Flags), calloc(result.n_columns + 1, cython.sizeof(Flags)))
        if result.columns == cython.NULL or result.flags == cython.NULL:
            raise MemoryError("no memory for the automata")
        result.serial = serial

    @cython.cfunc
    def reserve_registers(self):
        n_registers: int64_t = self.rows.n_registers
        n_wide: int64_t = self.rows.n_wide
        self.frames.state.constants = cython.address(self.rows.constant[0])
        self.frames.state.sets.rows = cython.address(self.rows.set[0])
        self.frames.state.sets.values = cython.address(self.rows.set_value[0])
        self.frames.edge.constants = self.frames.wide.constants = self.frames.state.constants
        self.frames.edge.sets = self.frames.wide.sets = self.frames.state.sets
        if n_registers > self.frames.n_registers:
            for one in (1, 2):
                frame: cython.pointer(Frame) = cython.address(self.frames.state) if one == 1 else cython.address(self.frames.edge)
                free(frame.values)
                free(frame.flags)
                frame.values = cython.cast(cython.pointer(int64_t), calloc(n_registers, 8))
                frame.flags = cython.cast(cython.pointer(uint8_t), calloc(n_registers, 1))
                if frame.values == cython.NULL or frame.flags == cython.NULL:
                    raise MemoryError("no memory for the registers")
            self.frames.n_registers = n_registers
        if n_wide > self.frames.n_wide:
            free(self.frames.wide.values)
            free(self.frames.wide.flags)
            self.frames.wide.values = cython.cast(cython.pointer(int64_t), calloc(n_wide * CHUNK, 8))
            self.frames.wide.flags = cython.cast(cython.pointer(uint8_t), calloc(n_wide * CHUNK, 1))
            if self.frames.wide.values == cython.NULL or self.frames.wide.flags == cython.NULL:
                raise MemoryError("no memory for the registers")
            self.frames.n_wide = n_wide

    # -- one batch -------------------------------------------------------------------------------------------------------------

    @cython.cfunc
    def fail(self, status: Status):
        if status == Status.NO_MEMORY and self.refused:
            raise OutOfRoom
        if status == Status.NO_MEMORY:
            raise MemoryError("the matching kernel ran out of memory")
        if status == Status.OUT_OF_TIME:
            raise OutOfTime
        if status == Status.OVERFLOW:
            raise Overflow(self.fault.program, self.fault.stream, self.fault.row, self.fault.tick)
        if status == Status.INTERRUPTED:
            pending_exception()
            raise KeyboardInterrupt

    @cython.cfunc
    @cython.exceptval(check=False)
    def begin_counting(self) -> cython.void:
        """What this thread takes of memory from now on is this machine's, and has to fit into its room."""
        self.n_text_bytes = self.strings.total()
        set_room(self.room)

    @cython.cfunc
    @cython.exceptval(check=False)
    def end_counting(self) -> cython.void:
        left: int64_t = room()
        if self.held >= 0:
            # Strings are the forest's, and counted there.
            self.held += self.room - left - (self.strings.total() - self.n_text_bytes)
        self.room = left
        self.refused = was_refused()
        set_room(UNLIMITED)

    def fit(self, n_bytes: int64_t) -> None:
        """Refuse a request for memory beyond the room of the step at hand."""
        if n_bytes > self.room:
            raise OutOfRoom

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
        """What an operator gave for the last batch, as fresh arrays: (words, nodes, [flags, or None if no value is null]).

        The rows of `words` are the starts, the ends and the columns.
        """
        if not 0 <= stream < self.n_streams or self.rows.stream[stream].kind != OUTPUT:
            raise IndexError("there is no such output")
        result: cython.pointer(Result) = cython.address(self.streams[stream].result)
        n: int64_t = result.ends.size
        c: int64_t
        self.fit(16 * n * (result.n_columns + 2))  # once as it is here, once in order
        words = fresh((result.n_columns + 2) * n).reshape(result.n_columns + 2, n)
        view: int64_t[:, ::1] = words
        if n > 0:
            memcpy(cython.address(view[0, 0]), result.starts.data, n * 8)
            memcpy(cython.address(view[1, 0]), result.ends.data, n * 8)
            for c in range(result.n_columns):
                memcpy(cython.address(view[c + 2, 0]), result.columns[c].data, n * 8)
        nodes = copy_words(cython.address(result.lineage), n) if self.lineage.is_wanted else None
        return words, nodes, [copy_flags(cython.address(result.flags[c]), n) for c in range(result.n_columns)]

    def is_in_order(self, stream: int64_t) -> bool:
        """Is the output of an operator in the order of end, and of start for equal ends? Sequences only keep the order of end."""
        if not 0 <= stream < self.n_streams or self.rows.stream[stream].kind != OUTPUT:
            raise IndexError("there is no such output")
        if stream in self.forest.combined:
            return True
        starts: cython.pointer(int64_t) = self.streams[stream].result.starts.data
        ends: cython.pointer(int64_t) = self.streams[stream].result.ends.data
        i: int64_t
        for i in range(1, self.streams[stream].result.ends.size):
            if ends[i] < ends[i - 1] or (ends[i] == ends[i - 1] and starts[i] < starts[i - 1]):
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def reset(self) -> cython.void:
        """Forget the output of the last batch, and give memory back after a burst."""
        i: int64_t
        c: int64_t
        result: cython.pointer(Result)
        for i in range(self.filled.size):
            result = cython.address(self.streams[self.filled.data[i]].result)
            self.streams[self.filled.data[i]].view.n_rows = 0
            if result.ends.capacity > MANY_ROWS and 8 * result.ends.size < result.ends.capacity:
                free_rows(result)
            result.starts.size = result.ends.size = result.lineage.size = 0
            for c in range(result.n_columns):
                result.columns[c].size = 0
                result.flags[c].size = 0
        self.touched.size = self.filled.size = 0

    # -- between batches -----------------------------------------------------------------------------------------------------------

    def usage(self, state: int64_t) -> tuple:
        """Of a state: live instances, the most there ever were, and bytes of memory."""
        self.follow()
        if not 0 <= state < self.automata.n_states:
            raise IndexError("there is no such state")
        pool: cython.pointer(Pool) = cython.address(self.automata.pools[state])
        return pool.n_live, pool.most_live, pool_bytes(pool)

    def sequence_usage(self, number: int64_t) -> tuple:
        """Of a sequence: stacked events, the most there ever were, and bytes of memory."""
        self.follow()
        if not 0 <= number < self.n_sequences or self.sequences[number].serial == 0:
            raise IndexError("there is no such sequence")
        seq: cython.pointer(Sequence) = cython.address(self.sequences[number])
        return seq.n_events, seq.most_events, sequence_bytes(seq)

    def result_usage(self, stream: int64_t) -> tuple:
        """Of an operator's output: the rows of the step at hand, and bytes of memory."""
        if not 0 <= stream < self.n_streams:
            raise IndexError("there is no such stream")
        result: cython.pointer(Result) = cython.address(self.streams[stream].result)
        return result.ends.size, result_bytes(result)

    def has_work(self, now: int64_t) -> bool:
        """Are there windows that are over at this tick, or stacked events that can be part of no match any more?"""
        self.follow()
        i: int64_t
        c: int64_t
        kept_for: int64_t
        seq: cython.pointer(Sequence)
        ring: cython.pointer(Ring)
        for i in range(self.n_sequences):
            seq = cython.address(self.sequences[i])
            if seq.serial != 0 and has_first(seq) and next_deadline(seq) <= now:
                return True
            for c in range(seq.n_components):
                ring = seq.rings + c
                kept_for = seq.components[c].kept_for
                if ring.tail < ring.head and is_past(event_at(ring, ring.tail)[EVENT_END], now, kept_for):
                    return True
        return False

    @property
    def n_nodes(self) -> int:
        return count_nodes(self)

    @property
    def n_bytes(self) -> int:
        """Memory held by instances and contributors; strings are the forest's."""
        self.follow()
        total: int64_t = (self.lineage.nodes.capacity + self.lineage.times.capacity) * 8
        i: int64_t
        for i in range(self.automata.n_states):
            total += pool_bytes(cython.address(self.automata.pools[i]))
        for i in range(self.n_sequences):
            total += sequence_bytes(cython.address(self.sequences[i]))
        return total

    @property
    def n_allocated(self) -> int:
        """All memory that grows with events: `n_bytes`, and what was computed for the last batch.

        Steps keep the sum up to date, so that a look at it costs nothing, however many states there are.
        """
        self.follow()
        if self.held >= 0:
            return self.held
        i: int64_t
        n_words: int64_t = (
            self.epoch.image.capacity + self.epoch.pending.capacity + self.epoch.dead.capacity + self.epoch.crowded.capacity
            + self.touched.capacity + self.filled.capacity + self.lineage.stack.capacity + self.lineage.histories.capacity
            + self.lineage.history_ends.capacity + self.lineage.ranked.capacity + self.lineage.merged.capacity
            + self.taken.capacity + self.own_rows.capacity
        )  # fmt: skip
        total: int64_t = 8 * n_words + self.n_bytes
        for i in range(self.n_streams):
            total += result_bytes(cython.address(self.streams[i].result)) + self.streams[i].owner.capacity
        for i in range(self.n_columns):
            total += 8 * self.computed[i].values.capacity + self.computed[i].flags.capacity
        for i in range(self.n_hashes):
            total += 8 * self.hashes[i].values.capacity + self.hashes[i].sieve.n_cells
        for i in range(self.automata.n_groups):
            total += 8 * self.automata.live[i].capacity
        for i in range(self.automata.n_ports):
            total += self.automata.ports[i].fires.capacity
        for i in range(self.n_sequences):
            total += row_bytes(cython.address(self.sequences[i]))
        self.held = total
        return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def free_rows(result: cython.pointer(Result)) -> cython.void:
    """Let go of an output's memory; the next row takes new."""
    c: int64_t
    free_words(cython.address(result.starts))
    free_words(cython.address(result.ends))
    free_words(cython.address(result.lineage))
    for c in range(result.n_columns):
        free_words(cython.address(result.columns[c]))
        release(result.flags[c].data, result.flags[c].capacity)
        result.flags[c].data = cython.NULL
        result.flags[c].size = result.flags[c].capacity = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def free_words(buffer: cython.pointer(Buffer)) -> cython.void:
    release(buffer.data, buffer.capacity * 8)
    buffer.data = cython.NULL
    buffer.size = buffer.capacity = 0


@cython.cfunc
@cython.exceptval(check=False)
def result_bytes(result: cython.pointer(Result)) -> int64_t:
    c: int64_t
    total: int64_t = 8 * (result.starts.capacity + result.ends.capacity + result.lineage.capacity)
    if result.columns != cython.NULL and result.flags != cython.NULL:
        for c in range(result.n_columns):
            total += 8 * result.columns[c].capacity + result.flags[c].capacity
    return total


@cython.cfunc
@cython.exceptval(check=False)
def pool_bytes(pool: cython.pointer(Pool)) -> int64_t:
    return pool.capacity * 8 + pool.n_entries * cython.sizeof(Entry)


@cython.cfunc
@cython.exceptval(check=False)
def sequence_bytes(seq: cython.pointer(Sequence)) -> int64_t:
    """Its stacks, and their keys."""
    i: int64_t
    total: int64_t = 8 * (seq.keys.n_entries * seq.keys.width + seq.waiting.firsts.capacity + seq.arrived.firsts.capacity)
    for i in range(seq.n_components if seq.serial != 0 else 0):
        if seq.rings[i].data != cython.NULL:
            total += (seq.rings[i].mask + 1) * seq.rings[i].width * 8
    return total


@cython.cfunc
@cython.exceptval(check=False)
def row_bytes(seq: cython.pointer(Sequence)) -> int64_t:
    """The rows of the last batch that a sequence looked at."""
    i: int64_t
    total: int64_t = seq.masks.capacity
    for i in range(seq.n_ports if seq.serial != 0 else 0):
        total += seq.port_rows[i].rows.capacity + seq.port_rows[i].masks.capacity
    return 8 * total
