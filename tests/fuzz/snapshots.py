"""Snapshots of engines: damaged bytes with repaired checksums, and sections that are whole but say something else.

What is restored is pushed to, taken as a snapshot again, and closed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import zlib
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

import keuka
from keuka import Engine
from keuka.run import state_bytes
from keuka.snapshots import from_bytes, to_bytes

from .damage import (
    ABSENCES,
    COMBINATIONS,
    EVENTS,
    HEAD,
    NUMBERS,
    PAIRS,
    RUNS,
    STREAMS,
    Target,
    damaged,
    outcome,
    repair_tables,
    tried,
)  # fmt: skip
from .processes import Attempt

# Rules over each other's results, with parameters, over intervals with a zone, ids, lateness and late rows that are kept.
LARGE = "SELECT name, n, b, e FROM FILTER {n > :least AND e > :since} (S) PUBLISH Large"
ABOVE = "SELECT n_1 AS low, n AS high FROM Large NEXT {$2.n > $1.n AND DUR < :gap} Large"
TIMED = "SEQ(Large a, S b) WHERE [name] AND b.n > a.n WITHIN 10 s RETURN a.n AS n, b.tags AS tags, b.name AS name"
BEGIN = datetime(2024, 5, 1)
TIMES = pa.array([BEGIN + timedelta(seconds=n) for n in (1, 2, 3, 9, 4, 5, 6, 7)], pa.timestamp("us", "Europe/Paris"))
INTERVALS = pa.table({"b": TIMES, "e": TIMES, "name": EVENTS["name"], "n": EVENTS["n"], "tags": EVENTS["tags"]})


@functools.cache
def snapshots() -> list[bytes]:
    """Of engines in the middle of the streams, with contributors and with values that pass through; some events wait."""
    found = []
    for query, contributors in ((RUNS, True), (PAIRS, False), (ABSENCES, True), (COMBINATIONS, False)):
        engine = Engine(time="t", contributors=contributors)
        engine.add(query, name="rule", language="sase" if "SEQ" in query else "cel")
        for name, rows in STREAMS.items():
            engine.push(name, rows.slice(0, 5))
        found.append(engine.snapshot())
    found.append(_timed())
    value = from_bytes(found[1])
    engine = Engine(time="t")
    engine.add(keuka.cel(PAIRS), name="rule")
    engine.push("S", EVENTS)
    found.append(to_bytes(replace(value, found=engine.close().tables)))
    return found


def _timed() -> bytes:
    stream = keuka.Stream(INTERVALS.schema, time=("b", "e"), id="n", lateness="2 s")
    engine = Engine({"S": stream}, keep_late=True)
    engine.add(keuka.cel(LARGE), params={"least": 0, "since": BEGIN}, contributors=True)
    engine.add(keuka.cel(ABOVE), params={"gap": timedelta(seconds=8)}, name="above")
    engine.add(keuka.sase(TIMED), name="timed", contributors=True)
    engine.add(keuka.cel("SELECT * FROM Unknown"), name="waits")
    engine.push("S", INTERVALS.slice(0, 6))
    return engine.snapshot()


def restored(data: bytes) -> Engine:
    engine = Engine(keep_late=True)
    engine.restore(data)
    return engine


def use_engine(engine: Engine) -> list[object]:
    """Push what fits the streams of a sample; then everything else that an engine can do."""
    found: list[object] = []
    for name in engine.counters()["streams"]:
        rows = INTERVALS if "b" in engine.take_late(name).column_names else STREAMS.get(name, EVENTS)
        found.append(shown(engine.push(name, rows.slice(5))))
    again = Engine()
    again.restore(engine.snapshot())
    found += [str(engine.waiting() is None), str(engine.time), shown(engine.close())]
    assert shown(again.close()) == found[-1]
    return [*found, engine.late, str(engine.counters()["matches"])]


def shown(matches: keuka.Matches) -> str:
    """As text: Python has no dates behind the year 9999."""
    return str([column.to_string(window=1000) for table in matches for column in table.combine_chunks().columns])


def repair_snapshot(data: bytes) -> bytes:
    """The right checksums, as far as sections can be told from each other; tables are repaired, too."""
    if len(data) < state_bytes.HEAD.size:
        return data
    magic, version, n_sections, _ = state_bytes.HEAD.unpack_from(data)
    pieces, at = [], state_bytes.HEAD.size
    while len(data) - at >= state_bytes.SECTION.size:
        n_name, n_content, _ = state_bytes.SECTION.unpack_from(data, at)
        begin = at + state_bytes.SECTION.size
        if n_name + n_content > len(data) - begin:
            break
        name, content = data[begin : begin + n_name], data[begin + n_name : begin + n_name + n_content]
        if name.endswith(b"/tables"):
            content = repair_tables(content)
        pieces += [state_bytes.SECTION.pack(n_name, len(content), zlib.crc32(content, zlib.crc32(name))), name, content]
        at = begin + n_name + n_content
    head = state_bytes.HEAD.pack(magic, version, n_sections, zlib.crc32(state_bytes.NUMBERS.pack(version, n_sections)))
    return head + b"".join(pieces) + data[at:]


# A damaged text of a query has mistakes of its own; sections that do not fit each other are another stream's, or another rule's.
SNAPSHOT_REFUSALS = ("K519", "K520", "K522", "K402", "K403", "K10", "K20", "K30", "K50", "K51")


# -- sections that are whole, but say something else -------------------------------------------------------------------------

VALUES = (None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1.5, float("nan"), "", "S", "t", "n", "name",
          "rule", "cel", "sase", "x\ud800", [], {}, [1], ["S"], [[]], {"a": 1})  # fmt: skip
TYPES = (pa.int64(), pa.int32(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.bool_(), pa.null(), pa.timestamp("us"),
         pa.timestamp("ns", "UTC"), pa.date32(), pa.list_(pa.int64()), pa.struct([]), pa.binary(), pa.dictionary(pa.int8(), pa.string()),
         pa.decimal128(5, 2), pa.uuid())  # fmt: skip


def change_json(value: Any, random: Random) -> Any:
    """The value with one thing in it changed: replaced, removed, doubled, or exchanged with its neighbour."""
    places = list(_places(value))
    holder, key = random.choice(places)
    match random.randrange(5):
        case 0 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 1:
            del holder[key]
        case 2:
            other, source = random.choice(places)
            holder[key] = json.loads(json.dumps(other[source]))
        case 3 if isinstance(holder[key], int):
            holder[key] += random.choice((-1, 1, 10))
        case _:
            holder[key] = random.choice(VALUES)
    return value


def _places(value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def change_table(table: pa.Table, random: Random) -> pa.Table:
    """The table with other values, rows, columns or types."""
    if not table.num_columns:
        return pa.table({"number": [1]})
    column = random.randrange(table.num_columns)
    name = table.column_names[column]
    match random.randrange(7):
        case 0:
            return table.remove_column(column)
        case 1:
            return table.rename_columns(
                [random.choice(("", "number", "x", n)) if i == column else n for i, n in enumerate(table.column_names)]
            )
        case 2:
            return pa.concat_tables([table, table.slice(random.randrange(table.num_rows + 1))])
        case 3:
            return table.slice(random.randrange(table.num_rows + 1))
        case 4:
            return table.set_column(column, name, pa.nulls(table.num_rows, random.choice(TYPES)))
        case 5:
            return table.set_column(column, name, table.column(column).cast(random.choice(TYPES)))
        case _:
            values = table.column(column).to_pylist()
            if values:
                place = random.randrange(len(values))
                other = random.choice((*VALUES[:12], random.choice(values)))
                values[place] = (
                    values[place] + random.choice((-1, 1)) if isinstance(values[place], int) and random.random() < 0.5 else other
                )
            return table.set_column(column, name, pa.array(values, table.schema.field(column).type))


def change_schema(content: bytes, random: Random) -> bytes:
    fields = list(pa.ipc.read_schema(pa.py_buffer(content)))
    place = random.randrange(len(fields))
    fields[place] = pa.field(random.choice((fields[place].name, "", "x", fields[0].name)), random.choice((fields[place].type, *TYPES)))
    if random.random() < 0.3:
        del fields[random.randrange(len(fields))]
    return bytes(pa.schema(fields).serialize())


def change_tables(content: bytes, random: Random) -> bytes:
    """Compiled tables with another number in an array or another name beside them."""
    if len(content) < HEAD.size:
        return content
    magic, version, _, n_text = HEAD.unpack_from(content)
    text, arrays = content[HEAD.size : HEAD.size + n_text], bytearray(content[HEAD.size + n_text :])
    if random.random() < 0.5:
        text = json.dumps(change_json(json.loads(text), random)).encode()
    elif arrays:
        place = random.randrange(len(arrays) // 8) * 8
        arrays[place : place + 8] = (random.choice(NUMBERS) & (2**64 - 1)).to_bytes(8, "little")
    return repair_tables(HEAD.pack(magic, version, 0, len(text)) + text + bytes(arrays))


def change_sections(sections: dict[str, bytes], other: dict[str, bytes], random: Random) -> None:
    name = random.choice(list(sections))
    match random.randrange(12):
        case 0:
            del sections[name]
        case 1:
            sections[random.choice((*sections, *other, name + "x"))] = sections[name]
        case 2:
            sections[name] = other.get(name) or random.choice(list(other.values()))
        case 3 | 4 | 5 if "engine" in sections:
            sections["engine"] = json.dumps(change_json(json.loads(sections["engine"]), random)).encode()
        case _ if name.endswith("/tables"):
            sections[name] = change_tables(sections[name], random)
        case _ if name.endswith("/schema"):
            sections[name] = change_schema(sections[name], random)
        case _ if name != "engine":
            sections[name] = _ipc(change_table(pa.ipc.open_stream(sections[name]).read_all(), random))


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def changed(samples: list[dict[str, bytes]], seed: int, index: int) -> bytes:
    random = Random(f"{seed} changed {index}")
    sections, other = dict(random.choice(samples)), random.choice(samples)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        # A section that an earlier change made unreadable, or a value that has no room, stays as it is.
        with contextlib.suppress(ValueError, TypeError, LookupError, OverflowError, AttributeError, pa.ArrowException):
            change_sections(sections, other, random)
    return state_bytes.pack(sections)


def prepare() -> Attempt:
    samples = snapshots()
    target = Target(restored, use_engine, repair_snapshot, SNAPSHOT_REFUSALS)
    unpacked = [state_bytes.unpack(sample) for sample in samples]
    for sample in samples:
        target.use(target.read(sample))

    def attempt(seed: int, index: int) -> str:
        if index % 2:
            return outcome(target, *damaged(samples, seed, index // 2))
        return tried(target, changed(unpacked, seed, index // 2))

    return attempt
