"""The state of a shard as bytes: named sections, each with its own checksum, behind a head with a version.

Comes in: a ShardState. Goes out: facts for the JSON section of whoever keeps it, and sections of Arrow IPC streams, which a later
process, of this or a newer version, turns into the same value. `snapshots.py` adds the rules of an engine. What is damaged (K519) or
newer (K520) is refused.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from keuka.diagnostics import SURROGATE
from keuka.errors import DataError, data_error
from keuka.events.frontiers import BEGINNING, INFINITE
from keuka.run.state import ShardState, StreamState
from keuka.schema import Header, Type, attribute_of

VERSION = 1
_MAGIC = b"KEUKASNP"
HEAD = struct.Struct("<8sIII")  # magic, version, number of sections, checksum of these two numbers
NUMBERS = struct.Struct("<II")
SECTION = struct.Struct("<IQI")  # length of the name, length of the content, checksum of both

_KERNEL = "kernel/"  # before the names of the runner's sections
# What of a stream goes into the JSON section, and what into sections of its own.
_STREAM = ("name", "lateness", "unit", "frontier", "n_rows", "n_late", "wanted")
_ROWS = ("held", "held_rows", "late")


def write_state(state: ShardState) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The facts of a state that JSON holds, and its sections."""
    sections: dict[str, bytes] = {}
    for i, stream in enumerate(state.streams):
        sections[f"stream/{i}/schema"] = stream.schema.serialize().to_pybytes()
        sections |= {f"stream/{i}/{part}": write_table(getattr(stream, part)) for part in _ROWS}
    sections |= {f"{_KERNEL}{name}": write_table(table) for name, table in state.kernel.items()}
    streams = [
        {"time": stream.header.times, "id": stream.header.id, **{name: getattr(stream, name) for name in _STREAM}}
        for stream in state.streams
    ]
    return {"time": state.time, "promised": state.promised, "streams": streams}, sections


def read_state(facts: Facts, sections: Mapping[str, bytes]) -> ShardState:
    streams = [_stream(stream, i, sections) for i, stream in enumerate(facts.objects("streams"))]
    require_distinct("streams", [stream.name for stream in streams])
    return ShardState(
        time=facts.frontier("time"),
        promised=facts.frontier("promised"),
        streams=tuple(streams),
        kernel={name.removeprefix(_KERNEL): read_table(sections, name) for name in sections if name.startswith(_KERNEL)},
    )


def _stream(facts: Facts, i: int, sections: Mapping[str, bytes]) -> StreamState:
    time, wanted = facts.items("time"), facts.items("wanted")
    require(are_texts(time) and len(time) in (1, 2), "the time of a stream is none")
    require(are_texts(wanted), "the name of a column is not text")
    stream = StreamState(
        name=facts.text("name"),
        header=Header(time[0], time[-1], None if facts.get("id") is None else facts.text("id")),
        lateness=facts.number("lateness", 0, 2**63 - 1),
        unit=None if facts.get("unit") is None else facts.text("unit"),
        frontier=facts.frontier("frontier"),
        n_rows=facts.count("n_rows"),
        n_late=facts.count("n_late"),
        wanted=tuple(wanted),
        schema=_read_schema(section(sections, f"stream/{i}/schema")),
        **{part: read_table(sections, f"stream/{i}/{part}") for part in _ROWS},
    )
    _check_stream(stream)
    return stream


def _check_stream(stream: StreamState) -> None:
    """What waits must be rows of the stream, each with its number."""
    names = stream.schema.names
    require(len(set(names)) == len(names), "two columns have one name")
    require(stream.held.column_names == names and stream.late.schema.equals(stream.schema), "rows that wait have other columns")
    require({*stream.wanted, *stream.header.names} <= set(names), "a column is missing")
    # Where no row waits, columns have the types they are pushed in.
    for name in stream.wanted if stream.held.num_rows else ():
        attribute, arrow = attribute_of(name, stream.schema.field(name).type), stream.held.schema.field(name).type
        is_text = attribute.type is Type.STRING and attribute_of(name, arrow).type is Type.STRING
        require(is_text or attribute.type is Type.OTHER or arrow.equals(attribute.arrow), "a column is not in its canonical type")
    numbers = stream.held_rows
    require(numbers.num_columns == 1 and numbers.num_rows == stream.held.num_rows, "rows that wait have no numbers")
    require(pa.types.is_int64(numbers.column(0).type) and numbers.column(0).null_count == 0, "the number of a row is none")


# -- what JSON and Arrow hold, of the kind that is expected there ------------------------------------------------------------


class Facts:
    """A JSON object, whose values are of the kinds that are asked for, or K519."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __contains__(self, name: str) -> bool:
        return isinstance(self._value, dict) and name in self._value

    def get(self, name: str) -> Any:
        require(name in self, f"`{name}` is missing")
        return self._value[name]

    def items(self, name: str) -> list[Any]:
        value = self.get(name)
        require(isinstance(value, list), f"`{name}` is not a list")
        return list(value)

    def objects(self, name: str) -> list[Facts]:
        return [Facts(value) for value in self.items(name)]

    def flag(self, name: str) -> bool:
        value = self.get(name)
        require(isinstance(value, bool), f"`{name}` is neither true nor false")
        return bool(value)

    def text(self, name: str) -> str:
        value = self.get(name)
        require(are_texts([value]), f"`{name}` is not text")
        return str(value)

    def number(self, name: str, least: int, most: int) -> int:
        value = self.get(name)
        is_whole = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        require(is_whole, f"`{name}` is not a whole number from {least} to {most}")
        return int(value)

    def count(self, name: str) -> int:
        return self.number(name, 0, 2**62)  # with room for what is still to be counted

    def frontier(self, name: str) -> int:
        return self.number(name, BEGINNING, INFINITE)


def read_facts(sections: Mapping[str, bytes], name: str) -> Facts:
    content = section(sections, name)
    try:
        return Facts(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise damaged(f"section `{name}` is not JSON: {error}") from error


def are_texts(values: Any) -> bool:
    """JSON can write half a character, which no text can hold."""
    return isinstance(values, list) and all(isinstance(value, str) and not SURROGATE.search(value) for value in values)


def section(sections: Mapping[str, bytes], name: str) -> bytes:
    require(name in sections, f"section `{name}` is missing")
    return sections[name]


def write_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


# What Arrow raises for bytes that it cannot read: OSError for a file that ends too early, KeyError and NotImplementedError for types
# that Arrow knows and pyarrow has no class for, UnicodeDecodeError for names.
_UNREADABLE = (pa.ArrowException, OSError, KeyError, NotImplementedError, UnicodeDecodeError)


def read_table(sections: Mapping[str, bytes], name: str) -> pa.Table:
    content = section(sections, name)
    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
        for batch in table.to_batches():
            _ = batch.columns  # a type without arrays is found here, not when the column is first used
        _look_at_names(table.schema)
        return table
    except _UNREADABLE as error:
        raise damaged(f"section `{name}` cannot be read: {error!r}") from error


def _read_schema(content: bytes) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(content))
        schema.empty_table()
        _look_at_names(schema)
        return schema
    except _UNREADABLE as error:
        raise damaged(f"the columns of a stream cannot be read: {error!r}") from error


def _look_at_names(schema: pa.Schema) -> None:
    """Names and zones are decoded only when somebody looks at them."""
    for field in schema:
        _ = field.name, str(field.type)


def require(condition: bool, what: str) -> None:
    """K519 with what was found, unless the condition holds."""
    if not condition:
        raise damaged(what)


def require_distinct(kind: str, names: list[str]) -> None:
    require(len(set(names)) == len(names), f"two {kind} have one name")


def damaged(why: str) -> DataError:
    """K519, with what was found."""
    return data_error("K519", "the snapshot is damaged", "restore an older one", where=why)


# -- the container -----------------------------------------------------------------------------------------------------------


def pack(sections: Mapping[str, bytes]) -> bytes:
    """Named sections as one piece of bytes."""
    head = HEAD.pack(_MAGIC, VERSION, len(sections), zlib.crc32(NUMBERS.pack(VERSION, len(sections))))
    pieces = [head]
    for name, content in sections.items():
        text = name.encode()
        pieces += [SECTION.pack(len(text), len(content), zlib.crc32(content, zlib.crc32(text))), text, content]
    return b"".join(pieces)


def unpack(data: bytes) -> dict[str, bytes]:
    """The sections that `pack` wrote; K519 or K520 for anything else."""
    if len(data) < HEAD.size or data[:8] != _MAGIC:
        raise damaged("it does not begin as a snapshot does")
    _, version, n_sections, checksum = HEAD.unpack_from(data)
    if zlib.crc32(NUMBERS.pack(version, n_sections)) != checksum:
        raise damaged("its head was changed")
    if version > VERSION:
        message = f"the snapshot has version {version}; this Keuka reads up to version {VERSION}"
        raise data_error("K520", message, "restore it with the Keuka that made it, or update this one")
    sections: dict[str, bytes] = {}
    place = HEAD.size
    for _ in range(n_sections):
        if len(data) - place < SECTION.size:
            raise damaged("it was cut short")
        n_name, n_content, checksum = SECTION.unpack_from(data, place)
        middle = place + SECTION.size + n_name
        if n_name + n_content > len(data) - place - SECTION.size:
            raise damaged("it was cut short")
        text, content = data[place + SECTION.size : middle], data[middle : middle + n_content]
        if zlib.crc32(content, zlib.crc32(text)) != checksum:
            raise damaged(f"the checksum of section {len(sections) + 1} does not fit")
        sections[text.decode(errors="replace")] = content
        place = middle + n_content
    if place != len(data) or len(sections) != n_sections:
        raise damaged("there is more in it than its head says")
    return sections
