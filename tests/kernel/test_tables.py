"""Tables as bytes: what is damaged or newer is refused, and says so. `tests/fuzz` damages them at random."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import keuka
from keuka.automaton.tables import Tables, from_bytes, to_bytes
from keuka.kernel.layout import ARRAYS, VERSION
from keuka.query import prepare

from ..fuzz.damage import EVENTS, HEAD, RUNS, repair_tables


@pytest.fixture(scope="module")
def tables() -> Tables:
    return prepare(RUNS, EVENTS, time="t", contributors=True).tables


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


def test_tables_of_a_newer_version_are_refused_with_the_remedy(tables: Tables):
    data = bytearray(to_bytes(tables))
    struct.pack_into("<I", data, 8, 99)
    with pytest.raises(keuka.QueryError) as raised:
        from_bytes(bytes(data))
    assert str(raised.value) == (
        f"error[K403]: the tables have version 99; this Keuka reads up to version {VERSION}\n"
        " = help: update Keuka, or compile the query with this version"
    )


def test_a_wrong_number_behind_a_right_checksum_is_refused(tables: Tables):
    data = bytearray(to_bytes(tables))
    data[-8:] = struct.pack("<q", 7)  # settings: are contributors tracked; the array before it ends in the number of sources
    data[-16:-8] = struct.pack("<q", 10**6)
    with pytest.raises(keuka.QueryError, match="streams and operators do not fit"):
        from_bytes(repair_tables(bytes(data)))


def test_a_key_of_another_kind_than_its_column_is_refused():
    """A handle of a passed-on value was taken for a key: other instances were found after a snapshot than before it."""
    events = pa.table({"t": [1, 2], "name": ["a", "a"], "tags": [[1], [2]]})
    query = "SELECT name, tags_1 FROM S NEXT {$2.name = $1.name} S"
    tables = prepare(query, events, time="t").tables
    state = next(row for row in tables.arrays["state"].tolist() if row[6])
    other = [kind for kind, _ in tables.arrays["slot"][state[3] : state[3] + state[4]].tolist()].index(5)
    keys = tables.arrays["key"].copy()
    keys[state[5], 1] = other
    with pytest.raises(keuka.QueryError, match="a key is not what it is compared with"):
        from_bytes(to_bytes(replace(tables, arrays=tables.arrays | {"key": keys})))


def test_names_that_do_not_fit_the_arrays_are_refused(tables: Tables):
    data = to_bytes(tables)
    magic, version, _, n_text = HEAD.unpack_from(data)
    body = data[HEAD.size :]
    meta, arrays = json.loads(body[:n_text]), body[n_text:]
    wrong: list[dict[str, object]] = []
    for change in ("operator", "name of an output", "type of a source", "type of an output", "streams", "fallible", "partition", "missing"):
        damaged = json.loads(json.dumps(meta))
        if change == "operator":
            damaged["outputs"][0][1] = 99_999
        elif change == "name of an output":
            damaged["outputs"].append(damaged["outputs"][0])
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
        with pytest.raises(keuka.QueryError, match="K402"):
            from_bytes(repair_tables(HEAD.pack(magic, version, 0, len(text)) + text + arrays))
