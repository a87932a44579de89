"""Snapshots of an engine as bytes: named sections, each with its own checksum, behind a head with a version.

Comes in: what an engine is made of, as values. Goes out: bytes that a later process, of this or a newer version, turns into the
same values. A section is JSON, compiled tables (`automaton/tables.py`) or an Arrow IPC stream. What is damaged (K519) or newer
(K520) is refused.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from keuka.errors import DataError, data_error
from keuka.schema import Type, attribute_of

VERSION = 1
_KERNEL = "kernel/"  # before the names of the runner's sections
_MAGIC = b"KEUKASNP"
HEAD = struct.Struct("<8sIII")  # magic, version, number of sections, checksum of these two numbers
NUMBERS = struct.Struct("<II")
SECTION = struct.Struct("<IQI")  # length of the name, length of the content, checksum of both


@dataclass(frozen=True, eq=False)
class RuleState:
    """A rule as it was added, and where it stands. `tables` are empty while its streams are unknown."""

    name: str
    language: str
    texts: tuple[tuple[str, str], ...]  # name and text of each file
    params: dict[str, object]
    outputs: tuple[str, ...] | None
    contributors: bool
    since: int
    is_bounded: bool
    n_matches: int
    tables: bytes


@dataclass(frozen=True, eq=False)
class StreamState:
    """A stream as it was declared, how far it has come, and its rows that wait, in order of arrival."""

    name: str
    time: tuple[str, ...]
    lateness: int  # ticks
    id: str | None
    unit: str | None
    frontier: int
    n_rows: int
    n_late: int
    wanted: tuple[str, ...]  # the columns that are in their canonical types in `held`
    schema: pa.Schema
    held: pa.Table
    held_rows: pa.Table  # one column: the number of each waiting row
    late: pa.Table


@dataclass(frozen=True, eq=False)
class Checkpoint:
    time: int  # every event with a smaller end was processed
    promised: int
    rules: tuple[RuleState, ...]
    streams: tuple[StreamState, ...]
    kernel: tuple[tuple[str, pa.Table], ...]  # the runner's sections (`state.py`)
    found: tuple[pa.Table, ...]  # matches that were not delivered yet


def to_bytes(checkpoint: Checkpoint) -> bytes:
    sections: dict[str, bytes] = {}
    for i, rule in enumerate(checkpoint.rules):
        sections[f"rule/{i}/tables"] = rule.tables
    for i, stream in enumerate(checkpoint.streams):
        sections[f"stream/{i}/schema"] = stream.schema.serialize().to_pybytes()
        for part in ("held", "held_rows", "late"):
            sections[f"stream/{i}/{part}"] = _ipc(getattr(stream, part))
    for name, table in checkpoint.kernel:
        sections[f"{_KERNEL}{name}"] = _ipc(table)
    for i, table in enumerate(checkpoint.found):
        sections[f"found/{i}"] = _ipc(table)
    return pack({"engine": json.dumps(_facts(checkpoint)).encode(), **sections})


def from_bytes(data: bytes) -> Checkpoint:
    sections = unpack(data)
    try:
        checkpoint = _checkpoint(json.loads(sections["engine"]), sections)
        for rule in checkpoint.rules:
            _require(-(2**63) <= rule.since < 2**63, "a rule begins at no time")
        for stream in checkpoint.streams:
            _check_stream(stream)
        return checkpoint
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError, pa.ArrowException) as error:
        raise damaged(f"its sections do not fit together: {error!r}") from error


# What of a rule and of a stream goes into the JSON section; the rest are sections of their own.
_RULE = ("name", "language", "texts", "outputs", "contributors", "since", "is_bounded", "n_matches")
_STREAM = ("name", "time", "lateness", "id", "unit", "frontier", "n_rows", "n_late", "wanted")


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "time": checkpoint.time,
        "promised": checkpoint.promised,
        "rules": [
            {
                **{name: getattr(rule, name) for name in _RULE},
                "params": {name: _written(value) for name, value in rule.params.items()},
                "is_loaded": bool(rule.tables),
            }
            for rule in checkpoint.rules
        ],
        "streams": [{name: getattr(stream, name) for name in _STREAM} for stream in checkpoint.streams],
    }


def _checkpoint(facts: dict[str, Any], sections: Mapping[str, bytes]) -> Checkpoint:
    return Checkpoint(
        time=int(facts["time"]),
        promised=int(facts["promised"]),
        rules=tuple([_rule(rule, sections[f"rule/{i}/tables"]) for i, rule in enumerate(facts["rules"])]),
        streams=tuple([_stream(stream, i, sections) for i, stream in enumerate(facts["streams"])]),
        kernel=tuple([(name.removeprefix(_KERNEL), _table(content)) for name, content in sections.items() if name.startswith(_KERNEL)]),
        found=tuple([_table(content) for name, content in sections.items() if name.startswith("found/")]),
    )


def _rule(facts: dict[str, Any], tables: bytes) -> RuleState:
    if facts["is_loaded"] is not bool(tables):
        raise ValueError("the tables of a rule are missing")
    return RuleState(
        **{name: facts[name] for name in _RULE if name not in ("texts", "outputs")},
        texts=tuple([(str(name), str(text)) for name, text in facts["texts"]]),
        outputs=None if facts["outputs"] is None else tuple(facts["outputs"]),
        params={name: _read(value) for name, value in facts["params"].items()},
        tables=tables,
    )


def _stream(facts: dict[str, Any], i: int, sections: Mapping[str, bytes]) -> StreamState:
    return StreamState(
        **{name: facts[name] for name in _STREAM if name not in ("time", "wanted")},
        time=tuple(facts["time"]),
        wanted=tuple(facts["wanted"]),
        schema=pa.ipc.read_schema(pa.py_buffer(sections[f"stream/{i}/schema"])),
        held=_table(sections[f"stream/{i}/held"]),
        held_rows=_table(sections[f"stream/{i}/held_rows"]),
        late=_table(sections[f"stream/{i}/late"]),
    )


def _check_stream(stream: StreamState) -> None:
    """What waits must be rows of the stream, each with its number."""
    names = stream.schema.names
    _require(stream.held.column_names == names and stream.late.column_names == names, "rows that wait have other columns")
    _require({*stream.wanted, *stream.time, *([] if stream.id is None else [stream.id])} <= set(names), "a column is missing")
    for name in stream.wanted:
        attribute, arrow = attribute_of(name, stream.schema.field(name).type), stream.held.schema.field(name).type
        is_text = attribute.type is Type.STRING and attribute_of(name, arrow).type is Type.STRING
        _require(is_text or attribute.type is Type.OTHER or arrow.equals(attribute.arrow), "a column is not in its canonical type")
    numbers = stream.held_rows
    _require(numbers.num_columns == 1 and numbers.num_rows == stream.held.num_rows, "rows that wait have no numbers")
    _require(pa.types.is_int64(numbers.column(0).type) and numbers.column(0).null_count == 0, "the number of a row is none")
    # Frontiers may lie one tick behind the last.
    _require(all(-(2**63) <= n <= 2**63 for n in (stream.frontier, stream.lateness, stream.n_rows, stream.n_late)), "a count is none")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _table(content: bytes) -> pa.Table:
    table = pa.ipc.open_stream(content).read_all()
    table.validate(full=True)
    # Arrow reads types for which pyarrow has no arrays: a KeyError here, not when the column is first used.
    for batch in table.to_batches():
        _ = batch.columns
    return table


# -- values of parameters ----------------------------------------------------------------------------------------------------


def _written(value: Any) -> list[Any]:
    """A parameter as its kind and something JSON has."""
    if hasattr(value, "dtype") and hasattr(value, "item"):  # of numpy; its times must not become numbers of nanoseconds
        value = (value.astype(f"{value.dtype.kind}8[us]") if value.dtype.kind in "mM" else value).item()
    if isinstance(value, datetime) and value != value:  # pandas' NaT
        value = None
    if isinstance(value, datetime | date):
        return ["datetime" if isinstance(value, datetime) else "date", value.isoformat()]
    if isinstance(value, timedelta):
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    return ["float", value.hex()] if isinstance(value, float) else ["plain", value]


def _read(written: list[Any]) -> object:
    kind, value = written
    if kind == "timedelta":
        return timedelta(*value)
    if kind == "plain":
        return value
    known: dict[str, Callable[[str], object]] = {
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "float": float.fromhex,
    }
    return known[kind](value)


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


def damaged(why: str) -> DataError:
    """K519, with what was found."""
    return data_error("K519", "the snapshot is damaged", "restore an older one", where=why)
