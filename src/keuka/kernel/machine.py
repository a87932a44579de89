"""A machine: the columns of the batch at hand, what the operators of a forest hold, and what they give out.

Here it takes over what was loaded and unloaded. What it does with a batch is in `batches.py` (columns) and `groups.py` (the way through
the operators), what operators do in the modules of their kinds. Several machines can run one forest in threads, each the rows whose key
is its own.
"""

import cython
import numpy as np
import pyarrow as pa
from cython.cimports.keuka.kernel.allocation import release, room, set_room, was_refused
from cython.cimports.keuka.kernel.buffers import copy_flags, copy_words, grow
from cython.cimports.keuka.kernel.lineage import count_nodes
from cython.cimports.keuka.kernel.rows import OUTPUT, SOURCE
from cython.cimports.keuka.kernel.system import check_signals, pending_exception, seconds
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memcpy, memset


class Overflow(Exception):
    """Integer overflow at an event: (program, stream, row of the batch, tick)."""


class OutOfRoom(Exception):
    """A step needs more memory than it may take."""


class OutOfTime(Exception):
    """A step takes longer than it may."""


UNLIMITED = 1 << 62  # bytes


def enlarge(place, n_old, n_new, size):
    """Give the array at a place at least so many elements, the new ones all zero. When memory is out the old one stays."""
    array: cython.pointer(cython.p_void) = cython.cast(cython.pointer(cython.p_void), place)
    if n_new <= n_old and array[0] != cython.NULL:
        return
    grown: cython.p_char = cython.cast(cython.p_char, realloc(array[0], (n_new + 1) * size))
    if grown == cython.NULL:
        raise MemoryError("no memory for the operators")
    memset(grown + n_old * size, 0, (n_new + 1 - n_old) * size)
    array[0] = grown


FEW_WORDS = 1024


def fresh(n_words: int):
    """An array from Arrow's memory, which keeps what results gave back: with pages from the system matches cost a fifth more.

    Small ones have no pages of their own, and are had for less.
    """
    if n_words <= FEW_WORDS:
        return np.empty(n_words, np.int64)
    return np.frombuffer(pa.allocate_buffer(8 * n_words), np.int64)


def free_frame(frame):
    free(frame.values)
    free(frame.flags)


def reserve_frame(frame, n):
    free_frame(frame)
    frame.values = cython.cast(cython.pointer(int64_t), calloc(n, 8))
    frame.flags = cython.cast(cython.pointer(uint8_t), calloc(n, 1))
    if frame.values == cython.NULL or frame.flags == cython.NULL:
        raise MemoryError("no memory for the registers")


def free_result(result):
    if result.columns != cython.NULL and result.flags != cython.NULL:
        free_rows(result)
    free(result.columns)
    free(result.flags)
    memset(result, 0, cython.sizeof(Result))


@cython.cclass
class Operators:
    """See machine.pxd."""

    def place(self, machine, rows):
        raise NotImplementedError

    def reset(self):
        pass

    def run(self, machine, number):
        return Status.FINE

    def next_deadline(self, tick):
        return False

    def n_bytes(self):
        return 0

    def n_batch_bytes(self):
        return 0

    def collect(self, slot_type, found):
        return True

    def visit_nodes(self, machine, place, move):
        pass


@cython.final
@cython.cclass
class Machine:
    def __cinit__(self, forest: object):
        self.forest = forest
        self.strings = forest.strings
        self.operators = [each.operators() for each in forest.kinds]
        enlarge(cython.address(self.of_kind), 0, len(self.operators), 8)
        for kind in range(len(self.operators)):
            self.of_kind[kind] = cython.cast(cython.pointer(PyObject), self.operators[kind])
        self.version = -1
        self.owner_columns = []
        self.room = UNLIMITED
        self.deadline = float("inf")
        self.follow()

    def __dealloc__(self):
        for i in range(self.n_streams):
            free_result(cython.address(self.streams[i].result))
            free(self.streams[i].owner.data)
        for i in range(self.n_columns):
            free(self.computed[i].values.data)
            free(self.computed[i].flags.data)
        for i in range(self.n_hashes):
            free(self.hashes[i].values.data)
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
        free(self.streams)
        free(self.columns)
        free(self.computed)
        free(self.hashes)
        free(self.of_kind)
        free_frame(cython.address(self.frames.state))
        free_frame(cython.address(self.frames.edge))
        free_frame(cython.address(self.frames.wide))

    # -- following the forest ------------------------------------------------------------------------------------------------

    def follow(self):
        """Take over what was loaded and unloaded. Only between batches."""
        if self.version == self.forest.version:
            return
        self.rows = self.forest.rows()
        self.held = -1
        self.has_more = False
        self.grow_arrays()
        self.place_streams()
        for kind, rows in zip(self.operators, self.rows.of_kind, strict=True):
            cython.cast(Operators, kind).place(self, rows)
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

    def grow_arrays(self):
        """Room for every number of the forest."""
        enlarge(cython.address(self.streams), self.n_streams, self.rows.n_streams, cython.sizeof(StreamPart))
        enlarge(cython.address(self.columns), self.n_columns, self.rows.n_columns, cython.sizeof(Column))
        enlarge(cython.address(self.computed), self.n_columns, self.rows.n_columns, cython.sizeof(Computed))
        enlarge(cython.address(self.hashes), self.n_hashes, self.rows.n_hashes, cython.sizeof(HashPart))
        self.n_streams = max(self.n_streams, self.rows.n_streams)
        self.n_columns = max(self.n_columns, self.rows.n_columns)
        self.n_hashes = max(self.n_hashes, self.rows.n_hashes)

    def place_streams(self):
        """Every operator its output."""
        for i in range(self.rows.n_streams):
            self.streams[i].view.number = i
            self.streams[i].view.is_source = self.rows.stream[i].kind == SOURCE
            self.streams[i].view.n_rows = 0
            self.place_result(i)
        self.reset()

    def place_result(self, stream):
        """Buffers for the output of an operator. A number that is another operator's now begins without any.

        Some reserve rows in all buffers at once and look at the capacity of one, so none may be left of another operator.
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
            raise MemoryError("no memory for the operators")
        result.serial = serial

    def reserve_registers(self):
        n_registers: int64_t = self.rows.n_registers
        n_wide: int64_t = self.rows.n_wide
        self.frames.state.constants = cython.address(self.rows.constant[0])
        self.frames.state.sets.rows = cython.address(self.rows.set[0])
        self.frames.state.sets.values = cython.address(self.rows.set_value[0])
        self.frames.edge.constants = self.frames.wide.constants = self.frames.state.constants
        self.frames.edge.sets = self.frames.wide.sets = self.frames.state.sets
        if n_registers > self.frames.n_registers:
            reserve_frame(cython.address(self.frames.state), n_registers)
            reserve_frame(cython.address(self.frames.edge), n_registers)
            self.frames.n_registers = n_registers
        if n_wide > self.frames.n_wide:
            reserve_frame(cython.address(self.frames.wide), n_wide * CHUNK)
            self.frames.n_wide = n_wide

    # -- one batch -------------------------------------------------------------------------------------------------------------

    def fail(self, status):
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

    def begin_counting(self):
        """What this thread takes of memory from now on is this machine's, and has to fit into its room."""
        self.n_text_bytes = self.strings.total()
        set_room(self.room)

    def end_counting(self):
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
        """Is the output of an operator in the order of end, and of start for equal ends, if its kind promises that?"""
        if not 0 <= stream < self.n_streams or self.rows.stream[stream].kind != OUTPUT:
            raise IndexError("there is no such output")
        if self.rows.stream[stream].any_start:
            return True
        starts: cython.pointer(int64_t) = self.streams[stream].result.starts.data
        ends: cython.pointer(int64_t) = self.streams[stream].result.ends.data
        for i in range(1, self.streams[stream].result.ends.size):
            if ends[i] < ends[i - 1] or (ends[i] == ends[i - 1] and starts[i] < starts[i - 1]):
                return False
        return True

    def reset(self):
        """Forget the output of the last batch, and give memory back after a burst."""
        for i in range(self.filled.size):
            result = cython.address(self.streams[self.filled.data[i]].result)
            self.streams[self.filled.data[i]].view.n_rows = 0
            if result.ends.capacity > MANY_ROWS and 8 * result.ends.size < result.ends.capacity:
                free_rows(result)
            empty_result(result)
        self.touched.size = self.filled.size = 0

    # -- between batches -----------------------------------------------------------------------------------------------------------

    def usage(self, kind: int64_t, number: int64_t) -> tuple:
        """Of a part of a query, as `Forest.parts_of` lists them: what it holds, the most there ever was, and bytes of memory."""
        self.follow()
        return self.operators[kind].usage(number)

    def kind(self, kind: int64_t):
        """The operators of a kind, to be looked at or changed between batches."""
        self.follow()
        self.held = -1
        return self.operators[kind]

    def result_usage(self, stream: int64_t) -> tuple:
        """Of an operator's output: the rows of the step at hand, and bytes of memory."""
        if not 0 <= stream < self.n_streams:
            raise IndexError("there is no such stream")
        result: cython.pointer(Result) = cython.address(self.streams[stream].result)
        return result.ends.size, result_bytes(result)

    def has_work(self, now: int64_t) -> bool:
        """Does something happen up to this tick without events? Matches may be due, or something that is held be of no use any more."""
        self.follow()
        tick: int64_t = 0
        for kind in self.operators:
            if cython.cast(Operators, kind).next_deadline(cython.address(tick)) and tick <= now:
                return True
        return False

    def live_slots(self, slot_type: int64_t) -> "np.ndarray":
        """All values of this type that operators hold, nulls left out."""
        self.follow()
        found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
        enough: cython.bint = True
        for kind in self.operators:
            enough = enough and cython.cast(Operators, kind).collect(slot_type, cython.address(found))
        values = copy_words(cython.address(found), found.size)
        free(found.data)
        if not enough:
            raise MemoryError("no memory to look through what operators hold")
        return values

    @property
    def n_nodes(self) -> int:
        return count_nodes(self)

    @property
    def n_bytes(self) -> int:
        """Memory held by instances and contributors; strings are the forest's."""
        self.follow()
        total: int64_t = (self.lineage.nodes.capacity + self.lineage.times.capacity) * 8
        for kind in self.operators:
            total += cython.cast(Operators, kind).n_bytes()
        return total

    @property
    def n_allocated(self) -> int:
        """All memory that grows with events: `n_bytes`, and what was computed for the last batch.

        Steps keep the sum up to date, so that a look at it costs nothing, however many states there are.
        """
        self.follow()
        if self.held >= 0:
            return self.held
        n_words: int64_t = (
            self.touched.capacity + self.filled.capacity + self.lineage.stack.capacity + self.lineage.histories.capacity
            + self.lineage.history_ends.capacity + self.lineage.ranked.capacity + self.lineage.merged.capacity
            + self.taken.capacity
        )  # fmt: skip
        total: int64_t = 8 * n_words + self.n_bytes
        for i in range(self.n_streams):
            total += result_bytes(cython.address(self.streams[i].result)) + self.streams[i].owner.capacity
        for i in range(self.n_columns):
            total += 8 * self.computed[i].values.capacity + self.computed[i].flags.capacity
        for i in range(self.n_hashes):
            total += 8 * self.hashes[i].values.capacity
        for kind in self.operators:
            total += cython.cast(Operators, kind).n_batch_bytes()
        self.held = total
        return total


def free_rows(result):
    """Let go of an output's memory; the next row takes new."""
    free_words(cython.address(result.starts))
    free_words(cython.address(result.ends))
    free_words(cython.address(result.lineage))
    for c in range(result.n_columns):
        free_words(cython.address(result.columns[c]))
        release(result.flags[c].data, result.flags[c].capacity)
        result.flags[c].data = cython.NULL
        result.flags[c].size = result.flags[c].capacity = 0


def free_words(buffer):
    release(buffer.data, buffer.capacity * 8)
    buffer.data = cython.NULL
    buffer.size = buffer.capacity = 0


def result_bytes(result):
    total: int64_t = 8 * (result.starts.capacity + result.ends.capacity + result.lineage.capacity)
    if result.columns != cython.NULL and result.flags != cython.NULL:
        for c in range(result.n_columns):
            total += 8 * result.columns[c].capacity + result.flags[c].capacity
    return total


def empty_result(result):
    """Forget the rows of an output, not their memory."""
    result.starts.size = result.ends.size = result.lineage.size = 0
    for c in range(result.n_columns):
        result.columns[c].size = 0
        result.flags[c].size = 0


def look_for_signals(machine):
    machine.work = 0
    if machine.stop:
        machine.stop = False
        return Status.INTERRUPTED
    if seconds() > machine.deadline:
        return Status.OUT_OF_TIME
    with cython.gil:
        if check_signals() != 0:
            return Status.INTERRUPTED
    return Status.FINE
