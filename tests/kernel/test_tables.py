"""Tables as bytes: what is damaged, newer or hostile is refused, and what is accepted cannot harm the process."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

import keuka
from keuka.automaton.tables import Tables, from_bytes, to_bytes
from keuka.kernel.layout import ARRAYS, Malformed, check
from keuka.kernel.machine import Machine, Overflow
from keuka.query import prepare

EVENTS = pa.table(
    {
        "t": [1, 2, 2, 3, 4, 5, 5, 6],
        "name": ["a", "b", "a", "b", None, "a", "ä", "b"],
        "price": [1.0, 2.0, 3.0, None, 2.5, 4.0, float("nan"), 1.0],
        "n": [1, 2, 3, 4, 5, None, 7, 8],
    }
)
QUERY = """
SELECT * FROM
  (SELECT name, price_1, price, cnt, concat(upper(name), 'x') AS label
   FROM FILTER {cnt >= 2 AND (name LIKE 'a%' OR n IN (1, 2, 8))} (
          (SELECT *, 1 AS cnt FROM FILTER {price > 0.5} (S))
          FOLD {lower($2.name) = lower($.name), $2.price > $.price, $.cnt + 1 AS cnt} S))
  UNION
  (SELECT name, price AS price_1, price, n AS cnt, name AS label
   FROM S NEXT {substring($2.o, 1, 1) < $1.name} (SELECT n AS m, name AS o FROM S NEXT S))
"""


@pytest.fixture(scope="module")
def tables() -> Tables:
    return prepare(QUERY, EVENTS, time="t", contributors=True).tables


def test_tables_survive_the_way_through_bytes(tables: Tables):
    again = from_bytes(to_bytes(tables))
    assert to_bytes(again) == to_bytes(tables)
    assert again.sources == tables.sources
    assert again.outputs == tables.outputs
    for name in ARRAYS:
        assert np.array_equal(again.arrays[name], tables.arrays[name])


@pytest.mark.parametrize("data", [b"", b"KEUKATAB", b"something else entirely, but long enough for a head"])
def test_bytes_that_are_no_tables_are_refused(data: bytes):
    with pytest.raises(keuka.QueryError, match="error\\[K402\\]: the compiled tables are damaged"):
        from_bytes(data)


def test_every_cut_and_every_changed_byte_is_noticed(tables: Tables):
    data = to_bytes(tables)
    random = np.random.default_rng(1)
    for position in random.integers(24, len(data), 200):
        changed = bytearray(data)
        changed[position] ^= int(random.integers(1, 256))
        for damaged in (bytes(changed), data[:position]):
            with pytest.raises(keuka.QueryError, match="K402"):
                from_bytes(damaged)


def test_tables_of_a_newer_version_are_refused_with_the_remedy(tables: Tables):
    data = bytearray(to_bytes(tables))
    struct.pack_into("<I", data, 8, 99)
    with pytest.raises(keuka.QueryError) as raised:
        from_bytes(bytes(data))
    assert str(raised.value) == (
        "error[K403]: the tables have version 99; this Keuka reads up to version 1\n"
        " = help: update Keuka, or compile the query with this version"
    )


def test_a_wrong_number_behind_a_right_checksum_is_refused(tables: Tables):
    data = bytearray(to_bytes(tables))
    data[-8:] = struct.pack("<q", 7)  # settings: are contributors tracked; the array before it ends in the number of sources
    data[-16:-8] = struct.pack("<q", 10**6)
    struct.pack_into("<I", data, 12, zlib.crc32(bytes(data[24:])))
    with pytest.raises(keuka.QueryError, match="streams and operators do not fit"):
        from_bytes(bytes(data))


def test_names_that_do_not_fit_the_arrays_are_refused(tables: Tables):
    data = to_bytes(tables)
    _, _, _, n_text = struct.unpack_from("<8sIIQ", data)
    meta, arrays = json.loads(data[24 : 24 + n_text]), data[24 + n_text :]
    wrong: list[dict[str, object]] = []
    for change in ("operator", "type of a source", "type of an output", "streams", "fallible", "missing"):
        damaged = json.loads(json.dumps(meta))
        if change == "operator":
            damaged["outputs"][0][1] = 99_999
        elif change == "type of a source":
            damaged["sources"][0][2] = ["string"] * len(damaged["sources"][0][2])
        elif change == "type of an output":
            damaged["outputs"][0][2] = base64.b64encode(pa.schema([("x", pa.string())]).serialize().to_pybytes()).decode()
        elif change == "missing":
            del damaged["sources"]
        else:
            damaged[change] = []
        wrong.append(damaged)
    for damaged in wrong:
        text = json.dumps(damaged).encode()
        body = text + arrays
        with pytest.raises(keuka.QueryError, match="K402"):
            from_bytes(struct.pack("<8sIIQ", b"KEUKATAB", 1, zlib.crc32(body), len(text)) + body)


def batch(tables: Tables) -> list[tuple[object, ...]]:
    """Columns of plain numbers for every source, so small that they are codes of known texts, too."""
    n = 8
    time = np.arange(n, dtype=np.int64) // 2
    columns = [[np.arange(n, dtype=np.int64) % 3 for _ in source.columns] for source in tables.sources]
    return [(time, time, np.arange(n, dtype=np.int64), c, [None] * len(c)) for c in columns]


def test_hostile_tables_are_refused_or_run_without_harm(tables: Tables):
    """Whatever passes the check may be nonsense, but must neither crash nor hang: 3,000 random changes of one number."""
    random = np.random.default_rng(2)
    names = [name for name in ARRAYS if len(tables.arrays[name])]
    outcomes = {"refused": 0, "ran": 0}
    for _ in range(3000):
        arrays = {name: array.copy() for name, array in tables.arrays.items()}
        name = str(random.choice(names))
        flat = arrays[name].reshape(-1)
        value = int(random.choice([-1, 0, 1, 2, 3, 5, 7, 31, 62, 1000, 2**31 - 1]))
        flat[random.integers(len(flat))] = value
        try:
            check(arrays, list(tables.texts))
        except Malformed:
            outcomes["refused"] += 1
            continue
        machine = Machine(arrays, list(tables.texts))
        for text in ("a", "b", "ä"):
            machine.strings.intern_text(text)
        for _ in range(3):
            try:
                machine.process(batch(tables))
            except (Overflow, ValueError):
                break
            for operator in range(len(arrays["operator"])):
                machine.output(operator)
        outcomes["ran"] += 1
    assert outcomes["refused"] > 1000
    assert outcomes["ran"] > 300
