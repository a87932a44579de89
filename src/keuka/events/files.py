"""Files of events and standard input, before their format matters: names, formats, first bytes, places in messages."""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keuka.errors import DataError, data_error
from keuka.events.text_values import DEFAULT, Csv
from keuka.schema import shown_name

BATCH_ROWS = 65_536
# Types of CSV and JSON columns are inferred from this many bytes, and later bytes are parsed in pieces of this size.
BLOCK_BYTES = 4 << 20
N_LAST_BLOCKS = 3  # a row that is longer than two is refused while it is read

SUFFIXES = {
    ".csv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow IPC",
    ".arrows": "Arrow IPC",
    ".feather": "Arrow IPC",
    ".ipc": "Arrow IPC",
    ".ndjson": "JSON",
    ".jsonl": "JSON",
    ".json": "JSON",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")

Lent = TypeVar("Lent")


@dataclass(frozen=True, eq=False)
class Doubt:
    """A column whose texts are nearly all of one type: the odd ones among the first rows."""

    column: str
    arrow: pa.DataType  # of the others
    value: str  # the first odd one,
    row: int  # and where it is, counted from 0
    n_odd: int
    n_values: int  # that were looked at and are not null


@dataclass(frozen=True, eq=False)
class File:
    """A file of a known format. `head` is its beginning where the format needs it, or standard input had to give it."""

    stream: str  # for messages
    path: str  # "-" for standard input
    format: str
    head: bytes
    schema: pa.Schema  # empty until the format has been asked for it
    csv: Csv = DEFAULT
    declared: pa.Schema | None = None  # types of some columns, as the user says
    rejects: bool = False  # bad rows are skipped, also when the types are learned
    converted: Mapping[str, Csv] = field(default_factory=dict)  # columns that are read as text and converted with these options
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()  # columns that no query reads, and that are only shown in rejected rows

    def where(self, row: int | None = None, column: str | None = None, line: int | None = None) -> str:
        return place(self.stream, self.path, row, column, line)

    def is_declared(self, column: str) -> bool:
        return self.declared is not None and column in self.declared.names


@dataclass(frozen=True)
class Broken:
    """A row without values: it cannot be divided into fields, or (of JSON) has one of a wrong type; then `values` has what it says."""

    row: int  # counted from 0
    line: int
    reason: str
    text: str | None
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Originals:
    """Rows as they stand in their source: text for text formats."""

    columns: pa.RecordBatch
    lines: Sequence[int | None]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of a source whose bad rows are wanted apart: values of the wanted columns, and why a row is bad.

    `rows` are their numbers in the file. `reasons` is null where a row is good, and None if all are. `originals` gives the rows at
    some indices as they were written.
    """

    rows: npt.NDArray[np.int64]
    values: pa.RecordBatch
    reasons: pa.Array | None
    originals: Callable[[npt.NDArray[np.int64]], Originals]
    broken: tuple[Broken, ...] = ()


def place(stream: str, path: str | None, row: int | None = None, column: str | None = None, line: int | None = None) -> str:
    """Where something is wrong, for messages; rows are counted from 0 here and from 1 in the text, lines from 1."""
    parts = [f"stream `{stream}`"]
    if path is not None:
        parts.append("standard input" if path == "-" else f"file `{path}`")
    if row is not None:
        parts.append(f"row {row + 1}")
    if line is not None:
        parts.append(f"line {line}")
    if column is not None:
        parts.append(f"column `{shown_name(column)}`")
    return ", ".join(parts)


def is_possible(path: str) -> bool:
    """Can a file have this name? Not with a NUL, and Arrow opens only names that are text."""
    try:
        return b"\0" not in path.encode()
    except UnicodeEncodeError:
        return False


def check_regular(stream: str, path: str) -> None:
    """A file is read from its beginning more than once, which a pipe does not allow; to open one is to wait for its writer."""
    if path != "-" and os.path.exists(path) and not os.path.isfile(path):
        problem = f"`{path}` cannot be opened: it is not a regular file"
        raise data_error("K513", problem, f"read a pipe from standard input: `-`, with `< {path}`", where=place(stream, None))


def identify(stream: str, path: str) -> File:
    """The file with its format: what its name promises, else what its first bytes look like."""
    check_regular(stream, path)
    format = format_of(path)
    if format in ("Parquet", "Arrow IPC"):
        return File(stream, path, format, b"", pa.schema([]))
    head = _head(stream, path)
    return File(stream, path, format or _sniff(stream, path, head), head, pa.schema([]))


def format_of(path: str) -> str | None:
    stem, suffix = os.path.splitext(path)
    if suffix.lower() in COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return SUFFIXES.get(suffix.lower())


def _head(stream: str, path: str) -> bytes:
    if path == "-" and (sys.stdin is None or sys.stdin.closed):
        problem = "the data is to come from standard input, which is closed"
        remedy = "send the data through a pipe or `< FILE`, or name a file instead of `-`"
        raise data_error("K513", problem, remedy, where=place(stream, None))
    try:
        if path == "-":
            return _StandardInput(b"").read(BLOCK_BYTES)
        with pa.input_stream(path, compression="detect") as source:
            return bytes(source.read(BLOCK_BYTES))
    except OSError as error:
        raise cannot_open(stream, path, error) from error


def cannot_open(stream: str, path: str, error: OSError) -> DataError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error).split("\n")[0]
    name = "standard input" if path == "-" else f"`{path}`"
    return data_error("K513", f"{name} cannot be opened: {reason}", where=place(stream, path))


def _sniff(stream: str, path: str, head: bytes) -> str:
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "Arrow IPC"
    if head.startswith(b"PAR1") and path != "-":
        return "Parquet"
    if b"\0" in head:
        suffixes = ", ".join(f"`{suffix}`" for suffix in SUFFIXES)
        help = f"files are CSV, Parquet, Arrow IPC or newline-delimited JSON, named with one of the suffixes {suffixes}"
        if head.startswith(b"PAR1"):
            help = "Parquet cannot be read from standard input: name the file instead of `-`"
        raise data_error("K512", "the data is of no format that can be read here", help, where=place(stream, path))
    return "JSON" if head.lstrip().startswith(b"{") else "CSV"


def open_bytes(file: File) -> pa.NativeFile:
    """The file from its first byte on, decompressed."""
    if file.path == "-" and len(file.head) < BLOCK_BYTES:
        return in_memory(file.head)  # all there is
    if file.path == "-":
        return pa.PythonFile(lent(_StandardInput(file.head)), mode="r")
    return pa.input_stream(file.path, compression="detect")


def end_of(file: File) -> bytes:
    """The last megabytes of a file that was read to its end: more than a row of text may have. Empty if it is compressed."""
    if file.path == "-":
        return file.head if len(file.head) < BLOCK_BYTES else b"".join(_StandardInput.last_blocks)
    if file.path.lower().endswith(COMPRESSED):
        return b""
    with open(file.path, "rb") as source:
        source.seek(max(0, os.fstat(source.fileno()).st_size - N_LAST_BLOCKS * BLOCK_BYTES))
        return source.read()


# -- What threads of Arrow hold. One that needs Python after the interpreter has ended aborts the process, be it only to let go of memory.


def in_memory(content: bytes) -> pa.BufferReader:
    """A file of these bytes, in memory that is Arrow's own."""
    copy = pa.BufferOutputStream()
    copy.write(content)
    return pa.BufferReader(copy.getvalue())


_lent: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def lent(thing: Lent) -> Lent:
    """An object for Arrow to keep: the interpreter does not end before Arrow has let go of it."""
    _lent[id(thing)] = thing
    return thing


@atexit.register
def _wait_for_lent() -> None:
    for thing in list(_lent.values()):
        if isinstance(thing, _StandardInput):
            thing.end()
        del thing
    patience = time.monotonic() + 2  # what a program itself still holds will never be given back
    while _lent and time.monotonic() < patience:
        time.sleep(0.001)


class _StandardInput(io.RawIOBase):
    """Standard input, beginning with the bytes already taken from it. Arrow reads ahead: what waits for more must not wait for ever."""

    last_blocks: ClassVar[deque[bytes]] = deque(maxlen=N_LAST_BLOCKS)  # that were read; there is only one standard input

    def __init__(self, head: bytes) -> None:
        self._head = io.BytesIO(head)
        self._ended = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        # Never fewer bytes than asked for before the end: Arrow IPC takes a short read for a cut file.
        taken = [self._head.read(size)]
        missing = size - len(taken[0]) if size >= 0 else sys.maxsize
        while missing and (more := self._more(min(missing, BLOCK_BYTES))):
            taken.append(more)
            missing -= len(more)
        block = b"".join(taken)
        if block:
            self.last_blocks.append(block)
        return block

    def read_buffer(self, size: int = -1) -> npt.NDArray[np.uint8]:
        """What Arrow calls where it keeps the bytes. They are lent as an array, because bytes do not say when they are let go."""
        return lent(np.frombuffer(self.read(size), np.uint8))

    def _more(self, size: int) -> bytes:
        source = cast(io.BufferedReader, sys.stdin.buffer)
        while not self._ended:
            if select.select([source], [], [], 0.1)[0]:
                return source.read1(size)
        return b""

    def end(self) -> None:
        """Nothing more is wanted."""
        self._ended = True


def estimated_rows(file: File, n_head_rows: int) -> int | None:
    """How many rows the file has if all are as long as the first ones; None if its size is not known."""
    if file.path == "-" or file.path.lower().endswith(COMPRESSED):
        return None
    return max(n_head_rows, n_head_rows * os.path.getsize(file.path) // len(file.head))
