"""Bytes from outside, damaged in every way: reading them gives a clean error or something that can be used.

Here are the damage and the target `tables`; `snapshots.py` has more to damage.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from keuka.automaton.tables import SourceColumns, Tables, from_bytes, to_bytes
from keuka.errors import KeukaError
from keuka.events.order import EventBatch, in_order
from keuka.events.sources import Stream, open_stream
from keuka.query import prepare
from keuka.run.embedded import last_end, run
from keuka.run.runner import Runner
from keuka.schema import ARROW_OF, MAX_TICK, Type

from .processes import Attempt


@dataclass(frozen=True)
class Target:
    """A kind of bytes, and what is done with them."""

    read: Callable[[bytes], Any]  # KeukaError with one of `refusals` for what it does not accept
    use: Callable[[Any], object]  # what comes of it, for comparison; KeukaError for what the data does not allow
    repair: Callable[[bytes], bytes]  # make checksums right again, so that the checks behind them are tried
    refusals: tuple[str, ...]  # codes, or how they begin


# -- damage ------------------------------------------------------------------------------------------------------------------

NUMBERS = (-1, 0, 1, 2, 3, 5, 7, 31, 62, 1000, 2**20, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
TOKENS = (b"-1", b"0", b"1", b"4", b"99999999", b"9" * 30, b"1.5", b"1e999", b"null", b"true", b"[]", b"{}", b'""', b'"a"', b'"\\ud800"')


def mutant(data: bytes, seed: int, index: int) -> bytes:
    """The damage with this number. Every second one changes one byte, and these go through the bytes one by one."""
    random = Random(f"{seed} {index}")
    if index % 2 == 0:
        at = index // 2 % len(data)
        return data[:at] + bytes([data[at] ^ random.randrange(1, 256)]) + data[at + 1 :]
    return random.choice(DAMAGES)(data, random)


def _cut_short(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def _leave_out(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + data[at + random.choice((1, 4, 8, 40, 400)) :]


def _repeat(data: bytes, random: Random) -> bytes:
    at, size = random.randrange(len(data)), random.choice((1, 4, 8, 40, 400))
    return data[: at + size] + data[at:]


def _word(data: bytes, random: Random) -> tuple[int, int]:
    """Place and size of a number: those of binary formats are aligned with the beginning or the end."""
    size = random.choice((4, 8))
    at = random.randrange(len(data) - size)
    at -= random.choice((at, at - len(data))) % size
    return max(at, 0), size


def _set_word(data: bytes, random: Random) -> bytes:
    at, size = _word(data, random)
    number = random.choice(NUMBERS) & ((1 << 8 * size) - 1)
    return data[:at] + number.to_bytes(size, "little") + data[at + size :]


def _copy_word(data: bytes, random: Random) -> bytes:
    """A number that has its place elsewhere is likelier to be accepted than any other."""
    (at, size), (source, _) = _word(data, random), _word(data, random)
    return data[:at] + data[source : source + size] + data[at + size :]


def _swap(data: bytes, random: Random) -> bytes:
    size = random.choice((1, 4, 8, 40))
    a, b = sorted([random.randrange(len(data)), random.randrange(len(data))])
    b = max(a + size, b)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def _set_token(data: bytes, random: Random) -> bytes:
    """Another value in JSON, or in what looks like it."""
    found = list(re.finditer(rb'-?\d+|"[^"\\]*"', data))
    if not found:
        return _set_word(data, random)
    chosen = random.choice(found)
    return data[: chosen.start()] + random.choice(TOKENS) + data[chosen.end() :]


DAMAGES = (_cut_short, _leave_out, _repeat, _set_word, _set_word, _copy_word, _copy_word, _swap, _set_token, _set_token)


def damaged(samples: list[bytes], seed: int, index: int) -> tuple[bytes, bytes]:
    """The damage with this number, and the sample it was done to."""
    sample = samples[index % len(samples)]
    return mutant(sample, seed, index // len(samples)), sample


class UncleanError(Exception):
    """Damaged bytes were neither refused as they should be nor harmless."""


def outcome(target: Target, data: bytes, sample: bytes) -> str:
    """What becomes of damaged bytes. UncleanError, or whatever comes out of Keuka, if it is neither a clean error nor usable."""
    read, code = read_or_code(target, data)
    if not code and target.use(read) != target.use(target.read(sample)):
        raise UncleanError("the checksum did not notice the damage")
    return tried(target, target.repair(data))


def tried(target: Target, data: bytes) -> str:
    read, code = read_or_code(target, data)
    if code:
        return f"refused with {code}"
    try:
        target.use(read)
    except KeukaError as error:
        return f"used up to {error.code}"
    return "used"


def read_or_code(target: Target, data: bytes) -> tuple[Any, str]:
    try:
        return target.read(data), ""
    except KeukaError as error:
        if not error.code.startswith(target.refusals):
            raise UncleanError("refused for a strange reason") from error
        return None, error.code


# -- tables ------------------------------------------------------------------------------------------------------------------

EVENTS = pa.table(
    {
        "t": [1, 2, 2, 3, 4, 5, 5, 6],
        "name": ["a", "b", "a", "b", None, "a", "ä", "b"],
        "price": [1.0, 2.0, 3.0, None, 2.5, 4.0, float("nan"), 1.0],
        "n": [1, 2, 3, 4, 5, None, 7, 8],
        "tags": [[1], [], None, [2, 3], [4], [5], [6], [7]],
    }
)
RUNS = """
SELECT * FROM
  (SELECT name, price_1, price, cnt, concat(upper(name), 'x') AS label
   FROM FILTER {cnt >= 2 AND (name LIKE 'a%' OR n IN (1, 2, 8))} (
          (SELECT *, 1 AS cnt FROM FILTER {price > 0.5} (SELECT name, price, n, t FROM S))
          FOLD {lower($2.name) = lower($.name), $2.price > $.price, $.cnt + 1 AS cnt} (SELECT name, price, n, t FROM S)))
  UNION
  (SELECT name, price AS price_1, price, n AS cnt, name AS label
   FROM S NEXT {substring($2.o, 1, 1) < $1.name} (SELECT n AS m, name AS o FROM S NEXT S))
"""
PAIRS = """
SELECT tags_1 AS before, tags, name, round(price, 1) AS price
FROM S NEXT {$2.n % 2 = $1.n % 2 AND DUR < 4} S PUBLISH Pairs;
SELECT name_1, name, coalesce(price, 0.0) AS price FROM Pairs NEXT {$2.price >= $1.price} Pairs PUBLISH Quartets;
"""

# Absences of all three kinds and alternatives, by a key of text; then in any order, and without a key.
ABSENCES = """
SEQ(!T x, S a, !T y, S b, !ANY(S, T) z)
WHERE [name] AND (a.price < b.price OR a.n + 1 <= b.n) AND y.m > a.n AND z.n > b.n AND x.m <= b.n
WITHIN 4
RETURN concat(a.name, upper(b.name)) AS name, a.n + b.n AS n, b.tags AS tags
PUBLISH Alone;
UNORDERED(S a, T b, Alone c) WHERE a.n <> c.n OR b.m < 4 WITHIN 6
"""
COMBINATIONS = """
SEQ(ANY(S, T) a, !S x (price > 2.0), ANY(S, T) b, S c) WHERE a.price = c.price AND NOT (b.m = 3 AND x.n = c.n) WITHIN 5;
SEQ(!S x, S a, T b) WHERE x.name = b.name AND a.n * 2 > b.m
"""
NOTES = pa.table({"t": [1, 2, 3, 3, 4, 5, 6], "name": ["a", "a", None, "b", "ä", "a", "b"], "m": [1, 2, 3, None, 5, 3, 4]})
STREAMS = {"S": EVENTS, "T": NOTES}


@functools.cache
def compiled() -> list[Tables]:
    """Of queries with contributors and of others, whose values pass through; of automata and of sequences."""
    return [
        prepare(RUNS, EVENTS, time="t", contributors=True).tables,
        prepare(PAIRS, EVENTS, time="t").tables,
        prepare(ABSENCES, STREAMS, time="t", contributors=True, language="sase").tables,
        prepare(COMBINATIONS, STREAMS, time="t", language="sase").tables,
    ]


def use_tables(tables: Tables) -> list[str]:
    """The matches over a few events: alone over whatever streams the tables are for, then beside queries that they may share with."""
    alone = [open_stream(source.name, Stream(stream_for(source), time="the time")) for source in tables.sources]
    found = [str(batch.rows.to_pylist()) for batch in run(tables, alone)]
    streams = [open_stream(name, Stream(rows, time="t")) for name, rows in STREAMS.items()]
    runner = Runner(streams, streams[0].type.axis)
    for name, loaded in (*enumerate(compiled()), ("damaged", tables)):
        runner.load(str(name), loaded)
    for step in in_order(streams, runner.columns(), chunk_rows=3):
        found += matches(runner, step, last_end(step))
    found += matches(runner, {}, MAX_TICK)
    for name in ("0", "2", "damaged", "1", "3"):
        runner.unload(name)
    return found


def matches(runner: Runner, step: dict[str, EventBatch], upto: int) -> list[str]:
    return [str(batch.rows.to_pylist()) for found in runner.process(step, upto) for batch in found]


def stream_for(source: SourceColumns) -> pa.Table:
    kinds = {Type.INTEGER: "n", Type.DOUBLE: "price", Type.STRING: "name", Type.OTHER: "tags", Type.NULL: "n"}
    columns = [EVENTS["t"]]
    for type_ in source.types:
        if type_ in (Type.BOOLEAN, Type.TIMESTAMP):
            columns.append(EVENTS["t"].cast(ARROW_OF[type_]))
        else:
            columns.append(EVENTS[kinds[type_]])
    return pa.table(columns, names=["the time", *source.columns])


HEAD = struct.Struct("<8sIIQ")  # magic, version, checksum of what follows, length of the JSON part


def repair_tables(data: bytes) -> bytes:
    """The right checksum, and the right length of the JSON part where that is still JSON."""
    if len(data) < HEAD.size:
        return data
    magic, version, _, n_text = HEAD.unpack_from(data)
    body = data[HEAD.size :]
    with contextlib.suppress(ValueError, RecursionError):
        n_text = json.JSONDecoder().raw_decode(body.decode("latin-1"))[1]
    return HEAD.pack(magic, version, zlib.crc32(body), n_text) + body


def prepare_tables() -> Attempt:
    samples = [to_bytes(tables) for tables in compiled()]
    target = Target(from_bytes, use_tables, repair_tables, ("K402", "K403"))
    for sample in samples:
        target.use(target.read(sample))
    return lambda seed, index: outcome(target, *damaged(samples, seed, index))
