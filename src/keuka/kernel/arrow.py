"""Record batches in and out by Arrow's C data interface: a call for each batch instead of several for each column.

With small batches these calls are most of the time that an event takes.
"""

import cython
import numpy as np
import pyarrow as pa
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.keuka.kernel.system import is_initialized
from cython.cimports.libc.stdint import intptr_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcpy

WIDE = 32  # columns: of batches with more only those that are asked for are exported


@cython.cclass
class Chunk:
    """A record batch as it came, and the times of its rows.

    They are in one of its columns, or given: `starts` and `ends`, the same array for events without duration. If the batch has no
    columns, it has no rows, and there are as many events as times.
    """

    def __cinit__(self, batch, time_index: int64_t = -1, starts=None, ends=None):
        words: cython.const[int64_t][::1]
        self.batch = batch
        self.time_index = time_index
        self.n_batch_rows = batch.num_rows
        if batch.num_columns <= WIDE:
            batch._export_to_c(cython.cast(intptr_t, cython.address(self.array)))
        if time_index >= 0:
            self.n_rows = self.n_batch_rows
            self.is_point = True
            if self.may_have_nulls(time_index):
                return
            self.start_data = self.end_data = self.words(time_index, 0, self.n_rows)
        else:
            if starts is None or ends is None:
                raise TypeError("a batch needs the times of its rows")
            words = starts
            self.n_rows = words.shape[0]
            self.start_data = cython.address(words[0]) if self.n_rows else cython.NULL
            words = ends
            if words.shape[0] != self.n_rows:
                raise ValueError("the times of a batch differ in length")
            self.end_data = cython.address(words[0]) if self.n_rows else cython.NULL
            self.times = (starts, ends)
            self.is_point = starts is ends
        self.has_times = True

    def __dealloc__(self):
        if self.array.release != cython.NULL:
            self.array.release(cython.address(self.array))
        for i in range(self.n_singles):
            if self.singles[i].release != cython.NULL:
                self.singles[i].release(self.singles[i])
            free(self.singles[i])
        free(self.singles)
        free(self.single_indices)

    def is_ascending(self) -> bool:
        """Are the rows in the order of end?"""
        if not self.has_times:
            raise ValueError("a batch needs the times of its rows")
        for i in range(1, self.n_rows):
            if self.end_data[i] < self.end_data[i - 1]:
                return False
        return True

    def end_at(self, row: int64_t) -> int:
        if not (self.has_times and 0 <= row < self.n_rows):
            raise IndexError("a batch has no such row")
        return self.end_data[row]

    def n_before(self, frontier, first: int64_t, last: int64_t) -> int:
        """How many of the rows first..last, which are in order of end, end before the frontier, which may lie beyond all ticks."""
        low: int64_t = first
        high: int64_t = last
        bound: int64_t
        if not (self.has_times and 0 <= first <= last <= self.n_rows):
            raise IndexError("a batch has no such rows")
        if first == last or frontier > self.end_data[last - 1]:
            return last - first
        if frontier <= self.end_data[first]:
            return 0
        bound = frontier
        while low < high:
            middle = (low + high) >> 1
            if self.end_data[middle] < bound:
                low = middle + 1
            else:
                high = middle
        return low - first

    def starts(self):
        return self.ends() if self.is_point else self.times[0]

    def ends(self):
        """The ends of all rows, as an array that shares their memory."""
        if self.times is not None:
            return self.times[1]
        column = self.batch.column(self.time_index)
        return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset) if len(column) else np.empty(0, np.int64)

    def column(self, index):
        """A column of the batch, exported with it or by itself."""
        if self.array.release != cython.NULL:
            if not 0 <= index < self.array.n_children:
                raise IndexError("a batch has no such column")
            return self.array.children[index]
        for i in range(self.n_singles):
            if self.single_indices[i] == index:
                return self.singles[i]
        if not 0 <= index < self.batch.num_columns:
            raise IndexError("a batch has no such column")
        if self.singles == cython.NULL:
            self.singles = cython.cast(cython.pointer(cython.pointer(ArrowArray)), calloc(self.batch.num_columns, 8))
            self.single_indices = cython.cast(cython.pointer(int64_t), calloc(self.batch.num_columns, 8))
            if self.singles == cython.NULL or self.single_indices == cython.NULL:
                raise MemoryError("no memory for a batch")
        self.singles[self.n_singles] = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
        if self.singles[self.n_singles] == cython.NULL:
            raise MemoryError("no memory for a batch")
        self.single_indices[self.n_singles] = index
        self.n_singles += 1
        self.batch.column(index)._export_to_c(cython.cast(intptr_t, self.singles[self.n_singles - 1]))
        return self.singles[self.n_singles - 1]

    def may_have_nulls(self, index):
        child: cython.pointer(ArrowArray) = self.column(index)
        return child.null_count != 0 and child.n_buffers > 0 and child.buffers[0] != cython.NULL

    def words(self, index, first, last):
        """The values of rows first..last of a column without nulls; NULL if there are none of these rows."""
        child: cython.pointer(ArrowArray) = self.column(index)
        if not 0 <= first <= last <= min(self.n_batch_rows, child.length):
            raise IndexError("a batch has no such rows")
        if first == last:
            return cython.NULL
        if child.n_buffers != 2 or child.buffers[1] == cython.NULL:
            raise ValueError("a column is not one of 64-bit values")
        return cython.cast(cython.pointer(cython.const[int64_t]), child.buffers[1]) + child.offset + self.array.offset + first


@cython.cclass
class Words:
    """Times and columns of 64-bit values, read where they lie in a chunk; of several chunks they are copied into one piece.

    pieces: (chunk, first row, row after the last); wanted: (number of a column for the machine, its index in the batches). Columns
    that may have nulls are not read, but listed as `left`.
    """

    def __cinit__(self, pieces: list, wanted: list):
        chunk: Chunk
        first: int64_t
        last: int64_t
        self.left = []
        self.pieces = pieces  # their memory is used
        self.columns = cython.cast(cython.pointer(WordColumn), calloc(len(wanted) + 1, cython.sizeof(WordColumn)))
        if self.columns == cython.NULL:
            raise MemoryError("no memory for a batch")
        for chunk, first, last in pieces:
            if not (chunk.has_times and 0 <= first <= last <= chunk.n_rows):
                raise IndexError("a batch has no such rows")
            self.n_rows += last - first
        if len(pieces) > 1:
            self.copied = cython.cast(cython.pointer(int64_t), malloc((len(wanted) + HEADER_WORDS) * self.n_rows * 8 + 8))
            if self.copied == cython.NULL:
                raise MemoryError("no memory for a batch")
        self.read_times()
        for number, index in wanted:
            self.read(number, index)

    def read_times(self):
        chunk: Chunk
        first: int64_t
        last: int64_t
        n: int64_t = END_WORD * self.n_rows
        is_point: cython.bint = True
        if len(self.pieces) == 1:
            chunk, first, _ = self.pieces[0]
            self.starts = chunk.start_data + first
            self.ends = chunk.end_data + first
            return
        for chunk, first, last in self.pieces:
            memcpy(self.copied + n, chunk.end_data + first, (last - first) * 8)
            is_point = is_point and chunk.is_point
            n += last - first
        self.starts = self.ends = self.copied + END_WORD * self.n_rows
        if not is_point:
            n = START_WORD * self.n_rows
            self.starts = self.copied + n
            for chunk, first, last in self.pieces:
                memcpy(self.copied + n, chunk.start_data + first, (last - first) * 8)
                n += last - first

    def read(self, number, index):
        chunk: Chunk
        first: int64_t
        last: int64_t
        n: int64_t = (self.n_columns + HEADER_WORDS) * self.n_rows
        begin: int64_t = n
        values: cython.pointer(cython.const[int64_t]) = cython.NULL
        for chunk, first, last in self.pieces:
            if chunk.may_have_nulls(index):
                self.left.append(number)
                return
            values = chunk.words(index, first, last)
            if self.copied != cython.NULL:
                if last > first:
                    memcpy(self.copied + n, values, (last - first) * 8)
                n += last - first
        self.columns[self.n_columns].number = number
        self.columns[self.n_columns].values = values if self.copied == cython.NULL else self.copied + begin
        self.n_columns += 1

    def __dealloc__(self):
        free(self.columns)
        free(self.copied)


def match_batch(words: cython.const[int64_t][:, ::1], rows: list, arrays: dict, schema):
    """Matches as a record batch that shares the memory of `words`.

    `rows`: by column of the batch, its row of the words. `arrays`: by column, the Arrow arrays of those that are no words, or more than
    64-bit values without nulls.
    """
    batch: ArrowArray
    child: cython.pointer(ArrowArray)
    n_rows: int64_t = words.shape[1]
    n: int64_t = len(schema)
    i: int64_t
    row: int64_t
    owner = words.base
    if not allocate(cython.address(batch), n_rows, n):
        raise MemoryError("no memory for a batch")
    try:
        for i in range(n):
            child = batch.children[i]
            column = arrays.get(i)
            if column is not None:
                if len(column) != n_rows or not column.type.equals(schema.field(i).type):
                    raise ValueError("a column of a batch has another type or length than the batch")
                column._export_to_c(cython.cast(intptr_t, child))
                continue
            row = rows[i] if i < len(rows) else -1
            if not 0 <= row < words.shape[0]:
                raise ValueError("a column of a batch is missing")
            child.buffers = cython.cast(cython.pointer(cython.pointer(cython.const[cython.void])), calloc(2, 8))
            if child.buffers == cython.NULL:
                raise MemoryError("no memory for a batch")
            child.buffers[1] = cython.address(words[row, 0]) if n_rows else cython.NULL
            child.length = n_rows
            child.n_buffers = 2
            child.private_data = cython.cast(cython.p_void, owner)
            Py_INCREF(owner)
            child.release = release_words
        return pa.RecordBatch._import_from_c(cython.cast(intptr_t, cython.address(batch)), schema)
    finally:
        # Whoever has taken the batch over has also taken this away.
        if batch.release != cython.NULL:
            batch.release(cython.address(batch))


def allocate(batch, n_rows, n_children):
    """A batch with room for its columns, none of which is there yet."""
    batch.length, batch.null_count, batch.offset, batch.n_buffers, batch.n_children = n_rows, 0, 0, 1, n_children
    batch.dictionary = cython.NULL
    batch.private_data = cython.NULL
    batch.buffers = cython.cast(cython.pointer(cython.pointer(cython.const[cython.void])), calloc(1, 8))
    batch.children = cython.cast(cython.pointer(cython.pointer(ArrowArray)), calloc(n_children + 1, 8))
    batch.release = release_batch
    if batch.buffers == cython.NULL or batch.children == cython.NULL:
        batch.n_children = 0
        release_batch(batch)
        return False
    for i in range(n_children):
        batch.children[i] = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
        if batch.children[i] == cython.NULL:
            batch.n_children = i
            release_batch(batch)
            return False
    return True


def release_batch(batch):
    for i in range(batch.n_children):
        if batch.children[i].release != cython.NULL:
            batch.children[i].release(batch.children[i])
        free(batch.children[i])
    free(batch.children)
    free(batch.buffers)
    batch.release = cython.NULL


def release_words(column):
    if is_initialized():  # else Python has gone, and the array with it
        with cython.gil:
            Py_DECREF(cython.cast(object, cython.cast(cython.pointer(PyObject), column.private_data)))
    free(column.buffers)
    column.release = cython.NULL
