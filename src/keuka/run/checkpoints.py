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
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from keuka.diagnostics import SURROGATE
from keuka.errors import DataError, data_error
from keuka.events.delivery import QUERY, QUERY_TYPE
from keuka.events.frontiers import BEGINNING, INFINITE
from keuka.languages.parameters import elements
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


@dataclass(frozen=True)
class TypesState:
    """The column of types of the one stream of all events, and the types that came so far."""

    column: str
    stream: str
    seen: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    time: int  # every event with a smaller end was processed
    promised: int
    rules: tuple[RuleState, ...]
    streams: tuple[StreamState, ...]
    kernel: tuple[tuple[str, pa.Table], ...]  # the runner's sections (`state.py`)
    found: tuple[pa.Table, ...]  # matches that were not delivered yet
    types: TypesState | None = None


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
    facts = _json(_section(sections, "engine"))
    rules = [_rule(rule, _section(sections, f"rule/{i}/tables")) for i, rule in enumerate(_list(facts, "rules"))]
    streams = [_stream(stream, i, sections) for i, stream in enumerate(_list(facts, "streams"))]
    for kind, names in (("rules", [rule.name for rule in rules]), ("streams", [stream.name for stream in streams])):
        require(len(set(names)) == len(names), f"two {kind} have one name")
    return Checkpoint(
        time=_frontier(facts, "time"),
        promised=_frontier(facts, "promised"),
        rules=tuple(rules),
        streams=tuple(streams),
        kernel=tuple(
            [(name.removeprefix(_KERNEL), _table(name, content)) for name, content in sections.items() if name.startswith(_KERNEL)]
        ),
        found=tuple([_found(name, content) for name, content in sections.items() if name.startswith("found/")]),
        types=_types(facts),
    )


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
        **({} if checkpoint.types is None else {"types": asdict(checkpoint.types)}),
    }


def _types(facts: Any) -> TypesState | None:
    """Older snapshots know of no types."""
    if "types" not in facts:
        return None
    types = _fact(facts, "types")
    seen = _list(types, "seen")
    require(_are_texts(seen), "the types of events are none")
    return TypesState(_text(types, "column"), _text(types, "stream"), tuple(seen))


def _rule(facts: Any, tables: bytes) -> RuleState:
    require(_bool(facts, "is_loaded") is bool(tables), "the tables of a rule are missing")
    texts = _list(facts, "texts")
    require(bool(texts) and all(_are_texts(text) and len(text) == 2 for text in texts), "a rule has no text")
    outputs, params = _fact(facts, "outputs"), _fact(facts, "params")
    require(outputs is None or (_are_texts(outputs) and bool(outputs)), "the outputs of a rule are none")
    require(isinstance(params, dict) and _are_texts(list(params)), "the parameters of a rule are none")
    return RuleState(
        name=_text(facts, "name"),
        language=_text(facts, "language"),
        texts=tuple([(name, text) for name, text in texts]),
        params={name: _read(value) for name, value in params.items()},
        outputs=None if outputs is None else tuple(outputs),
        contributors=_bool(facts, "contributors"),
        since=_number(facts, "since", -(2**63), 2**63 - 1),
        is_bounded=_bool(facts, "is_bounded"),
        n_matches=_count(facts, "n_matches"),
        tables=tables,
    )


def _stream(facts: Any, i: int, sections: Mapping[str, bytes]) -> StreamState:
    time, wanted = _list(facts, "time"), _list(facts, "wanted")
    require(_are_texts(time) and len(time) in (1, 2), "the time of a stream is none")
    require(_are_texts(wanted), "the name of a column is not text")
    parts = {part: f"stream/{i}/{part}" for part in ("held", "held_rows", "late")}
    stream = StreamState(
        name=_text(facts, "name"),
        time=tuple(time),
        lateness=_number(facts, "lateness", 0, 2**63 - 1),
        id=None if _fact(facts, "id") is None else _text(facts, "id"),
        unit=None if _fact(facts, "unit") is None else _text(facts, "unit"),
        frontier=_frontier(facts, "frontier"),
        n_rows=_count(facts, "n_rows"),
        n_late=_count(facts, "n_late"),
        wanted=tuple(wanted),
        schema=_schema(_section(sections, f"stream/{i}/schema")),
        **{part: _table(name, _section(sections, name)) for part, name in parts.items()},
    )
    _check_stream(stream)
    return stream


def _check_stream(stream: StreamState) -> None:
    """What waits must be rows of the stream, each with its number."""
    names = stream.schema.names
    require(len(set(names)) == len(names), "two columns have one name")
    require(stream.held.column_names == names and stream.late.schema.equals(stream.schema), "rows that wait have other columns")
    require({*stream.wanted, *stream.time, *([] if stream.id is None else [stream.id])} <= set(names), "a column is missing")
    # Where no row waits, columns have the types they are pushed in.
    for name in stream.wanted if stream.held.num_rows else ():
        attribute, arrow = attribute_of(name, stream.schema.field(name).type), stream.held.schema.field(name).type
        is_text = attribute.type is Type.STRING and attribute_of(name, arrow).type is Type.STRING
        require(is_text or attribute.type is Type.OTHER or arrow.equals(attribute.arrow), "a column is not in its canonical type")
    numbers = stream.held_rows
    require(numbers.num_columns == 1 and numbers.num_rows == stream.held.num_rows, "rows that wait have no numbers")
    require(pa.types.is_int64(numbers.column(0).type) and numbers.column(0).null_count == 0, "the number of a row is none")


def _found(name: str, content: bytes) -> pa.Table:
    """Matches as `Delivery.pending` gives them: whose they are in front, and their times at the end."""
    table = _table(name, content)
    names = table.column_names
    require(names[:1] == [QUERY] and table.schema.field(0).type.equals(QUERY_TYPE), "matches do not say whose they are")
    require(len(set(names)) == len(names) and {"_start", "_end"} <= {*names}, "matches have no time")
    for column in (QUERY, "_start", "_end"):
        require(table.column(column).null_count == 0, f"matches have no `{column}`")
    return table


# -- what JSON and Arrow hold, of the kind that is expected there ------------------------------------------------------------


def require(condition: bool, what: str) -> None:
    """K519 with what was found, unless the condition holds."""
    if not condition:
        raise damaged(what)


def _section(sections: Mapping[str, bytes], name: str) -> bytes:
    require(name in sections, f"section `{name}` is missing")
    return sections[name]


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(f"section `engine` is not JSON: {error}") from error


def _fact(facts: Any, name: str) -> Any:
    require(isinstance(facts, dict) and name in facts, f"`{name}` is missing")
    return facts[name]


def _list(facts: Any, name: str) -> list[Any]:
    value = _fact(facts, name)
    require(isinstance(value, list), f"`{name}` is not a list")
    return list(value)


def _bool(facts: Any, name: str) -> bool:
    value = _fact(facts, name)
    require(isinstance(value, bool), f"`{name}` is neither true nor false")
    return bool(value)


def _text(facts: Any, name: str) -> str:
    value = _fact(facts, name)
    require(_are_texts([value]), f"`{name}` is not text")
    return str(value)


def _are_texts(values: Any) -> bool:
    """JSON can write half a character, which no text can hold."""
    return isinstance(values, list) and all(isinstance(value, str) and not SURROGATE.search(value) for value in values)


def _number(facts: Any, name: str, least: int, most: int) -> int:
    value = _fact(facts, name)
    require(
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        f"`{name}` is not a whole number from {least} to {most}",
    )
    return int(value)


def _count(facts: Any, name: str) -> int:
    return _number(facts, name, 0, 2**62)  # with room for what is still to be counted


def _frontier(facts: Any, name: str) -> int:
    return _number(facts, name, BEGINNING, INFINITE)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


# What Arrow raises for bytes that it cannot read: OSError for a file that ends too early, KeyError and NotImplementedError for types
# that Arrow knows and pyarrow has no class for, UnicodeDecodeError for names.
_UNREADABLE = (pa.ArrowException, OSError, KeyError, NotImplementedError, UnicodeDecodeError)


def _schema(content: bytes) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(content))
        schema.empty_table()
        return _with_names(schema)
    except _UNREADABLE as error:
        raise damaged(f"the columns of a stream cannot be read: {error!r}") from error


def _table(name: str, content: bytes) -> pa.Table:
    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
        for batch in table.to_batches():
            _ = batch.columns  # a type without arrays is found here, not when the column is first used
        _with_names(table.schema)
        return table
    except _UNREADABLE as error:
        raise damaged(f"section `{name}` cannot be read: {error!r}") from error


def _with_names(schema: pa.Schema) -> pa.Schema:
    """Names and zones are decoded only when somebody looks at them."""
    for field in schema:
        _ = field.name, str(field.type)
    return schema


# -- values of parameters ----------------------------------------------------------------------------------------------------


def _written(value: Any) -> list[Any]:
    """A parameter as its kind and something JSON has."""
    several = elements(value)
    if several is not None:
        return ["list", [_written(element) for element in several]]
    if hasattr(value, "dtype") and hasattr(value, "item"):  # of numpy; its times must not become numbers of nanoseconds
        value = (value.astype(f"{value.dtype.kind}8[us]") if value.dtype.kind in "mM" else value).item()
    if isinstance(value, datetime) and value != value:  # pandas' NaT
        value = None
    if isinstance(value, datetime | date):
        return ["datetime" if isinstance(value, datetime) else "date", value.isoformat()]
    if isinstance(value, timedelta):
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    return ["float", value.hex()] if isinstance(value, float) else ["plain", value]


def _read(written: Any) -> object:
    require(isinstance(written, list) and len(written) == 2, "a parameter has no value")
    kind, value = written
    if kind == "plain":
        return value
    if kind == "list":
        require(isinstance(value, list) and all(isinstance(e, list) and e[:1] != ["list"] for e in value), "a parameter is no list")
        return [_read(element) for element in value]
    known: dict[str, Callable[[Any], object]] = {
        "datetime": datetime.fromisoformat,
        "date": date.fromisoformat,
        "timedelta": lambda parts: timedelta(*parts),
        "float": float.fromhex,
    }
    require(isinstance(kind, str) and kind in known, "a parameter is of no kind")
    try:
        return known[kind](value)
    except (ValueError, TypeError, OverflowError) as error:
        raise damaged(f"a parameter is no {kind}: {value!r}") from error


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
