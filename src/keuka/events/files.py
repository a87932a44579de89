"""Files of events and standard input, before their format matters: names, formats, first bytes, places in messages."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass

import pyarrow as pa

from keuka.errors import DataError, data_error

BATCH_ROWS = 65_536
# Types of CSV and JSON columns are inferred from this many bytes, and later bytes are parsed in pieces of this size.
BLOCK_BYTES = 4 << 20

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


@dataclass(frozen=True)
class File:
    """A file of a known format. `head` is its beginning where the format needs it, or standard input had to give it."""

    stream: str  # for messages
    path: str  # "-" for standard input
    format: str
    head: bytes
    schema: pa.Schema  # empty until the format has been asked for it

    def where(self, row: int | None = None, column: str | None = None) -> str:
        return place(self.stream, self.path, row, column)


def place(stream: str, path: str | None, row: int | None = None, column: str | None = None) -> str:
    """Where something is wrong, for messages; rows are counted from 0 here and from 1 in the text."""
    parts = [f"stream `{stream}`"]
    if path is not None:
        parts.append("standard input" if path == "-" else f"file `{path}`")
    if row is not None:
        parts.append(f"row {row + 1}")
    if column is not None:
        parts.append(f"column `{column}`")
    return ", ".join(parts)


def is_possible(path: str) -> bool:
    """Can a file have this name? Not with a NUL, and Arrow opens only names that are text."""
    try:
        return b"\0" not in path.encode()
    except UnicodeEncodeError:
        return False


def identify(stream: str, path: str) -> File:
    """The file with its format: what its name promises, else what its first bytes look like."""
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
    if path == "-":
        return sys.stdin.buffer.read(BLOCK_BYTES)
    try:
        with pa.input_stream(path, compression="detect") as source:
            return bytes(source.read(BLOCK_BYTES))
    except OSError as error:
        raise cannot_open(stream, path, error) from error


def cannot_open(stream: str, path: str, error: OSError) -> DataError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error).split("\n")[0]
    return data_error("K513", f"`{path}` cannot be opened: {reason}", where=place(stream, path))


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
        # All there is. A thread of Arrow that still held a Python file when the interpreter ends would abort the process.
        return pa.BufferReader(file.head)
    if file.path == "-":
        return pa.PythonFile(_Continued(file.head), mode="r")
    return pa.input_stream(file.path, compression="detect")


class _Continued(io.RawIOBase):
    """Standard input, beginning with the bytes already taken from it."""

    def __init__(self, head: bytes) -> None:
        self._head = io.BytesIO(head)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        # Never fewer bytes than asked for before the end: Arrow IPC takes a short read for a cut file.
        taken = self._head.read(size)
        return taken if len(taken) == size else taken + sys.stdin.buffer.read(size - len(taken) if size >= 0 else -1)


def estimated_rows(file: File, n_head_rows: int) -> int | None:
    """How many rows the file has if all are as long as the first ones; None if its size is not known."""
    if file.path == "-" or file.path.lower().endswith(COMPRESSED):
        return None
    return max(n_head_rows, n_head_rows * os.path.getsize(file.path) // len(file.head))
