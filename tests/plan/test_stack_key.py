"""Which equivalence test divides the stacks of a sequence: the one with most values, as far as that is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.algebra.semantics import Event, evaluate
from keuka.query import prepare

EVENTS = pa.table({"t": range(200), "type": ["A", "B"] * 100, "few": [i % 3 for i in range(200)], "many": [i // 2 for i in range(200)]})
BOTH = "SEQ(A a, B b) WHERE [few, many] WITHIN 50"


def divided_by(data: Any, query: str = BOTH, **said: Any) -> str:
    text = keuka.sase(query).explain({"E": keuka.Stream(data, time="t", **said)}, type_column="type")
    return next(line.strip().removeprefix("stacks divided by ") for line in text.splitlines() if "stacks" in line)


def test_data_in_memory_is_looked_at():
    assert divided_by(EVENTS) == "a.many = b.many"


def test_the_first_rows_of_a_file_are_looked_at(tmp_path: Path):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    assert divided_by(str(tmp_path / "events.parquet")) == "a.many = b.many"


def test_of_a_reader_nothing_is_known_so_the_first_one_is_taken():
    assert divided_by(EVENTS.to_reader()) == "a.few = b.few"


def test_what_is_declared_counts_more_than_what_is_seen():
    assert divided_by(EVENTS, distinct={"few": 1_000_000}) == "a.few = b.few"
    assert divided_by(EVENTS.to_reader(), distinct={"many": 100}) == "a.many = b.many"


def test_a_test_of_all_components_is_better_than_one_of_some():
    query = "SEQ(A a, B b, A c) WHERE [few] AND a.many = c.many WITHIN 50"
    assert divided_by(EVENTS, query) == "a.few = b.few = c.few"


def test_one_event_and_an_absence_share_a_key():
    assert divided_by(EVENTS, "SEQ(A a, !B b) WHERE [many] WITHIN 50") == "a.many = b.many"
    assert divided_by(EVENTS, "SEQ(!B b, A a) WHERE b.few = a.few") == "b.few = a.few"


MIXED = EVENTS.append_column("fraction", EVENTS["many"].cast(pa.float64()))


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SEQ(A a, B b) WHERE a.many = b.fraction", "a.many = b.fraction"),
        ("SEQ(A a, B b, A c) WHERE a.many = b.fraction AND c.fraction = b.many", "c.fraction = b.many"),
        ("SEQ(A a, B b, A c) WHERE a.many = b.many AND c.fraction = b.many", "a.many = b.many = c.fraction"),
        ("SEQ(A a, !B b, A c) WHERE a.many = c.fraction AND b.many = c.fraction", "a.many = b.many = c.fraction"),
        ("SEQ(A a, B b) WHERE a.many = b.fraction AND [few]", "a.few = b.few"),
        ("SEQ(A a, B b) WHERE a.many = b.fraction + 1", "stacks not divided: no equivalence test joins the components"),
    ],
)
def test_integers_and_doubles_share_a_key(query, key):
    found = divided_by(MIXED, f"{query} WITHIN 50")
    assert sorted(found.split(" = ")) == sorted(key.split(" = "))


INTEGERS = [0, 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, -(2**63), None]
DOUBLES = [0.0, -0.0, 1.0, 1.5, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), math.nan, math.inf, None]


@pytest.mark.parametrize(
    "query",
    [
        "SEQ(A a, B b) WHERE a.k = b.x",
        "SEQ(B b, A a) WHERE b.x = a.k",
        "SEQ(B c, A a, B b) WHERE a.k = b.x AND c.x = a.k",
        "SEQ(A c, A a, B b) WHERE a.k = b.x AND c.k = a.k",
        "SEQ(A a, !A n, B b) WHERE a.k = b.x AND n.k = b.x",
        "UNORDERED(A a, B b) WHERE a.k = b.x",
    ],
)
def test_keys_of_integers_and_doubles_are_equal_where_the_definitions_say_so(query):
    """An integer beyond 2^53 equals the double that is nearest to it; NaN, both zeros and NULL are as everywhere."""
    integers = pa.array([value for value in INTEGERS for _ in range(2)], pa.int64())
    data = {
        "A": pa.table({"t": pa.array(range(0, 4 * len(integers), 2)).slice(0, len(integers)), "k": integers}),
        "B": pa.table({"t": range(1, 4 * len(DOUBLES), 2), "x": pa.array(DOUBLES * 2, pa.float64())}),
    }
    prepared = prepare(query, data, time="t", language="sase")
    rows = {name: list(zip(*table.to_pydict().values(), strict=True)) for name, table in data.items()}
    events = {name: [Event(row, row[0], row[0], ((name, i),)) for i, row in enumerate(each)] for name, each in rows.items()}
    expected = [(*event.payload, event.start, event.end) for event in evaluate(prepared.program.outputs[0][1], events)]
    found = list(zip(*keuka.match(query, data, time="t", language="sase").to_pydict().values(), strict=True))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert len(expected) > 5


def test_without_a_test_stacks_are_not_divided():
    assert "not divided" in divided_by(EVENTS, "SEQ(A a, B b) WHERE a.few < b.few WITHIN 50")


@pytest.mark.parametrize("said", [{"other": 5}, {"few": 0}, {"few": "many"}, 5])
def test_a_wrong_declaration_is_refused(said: Any):
    with pytest.raises(keuka.DataError) as error:
        divided_by(EVENTS, distinct=said)
    assert error.value.code == "K515"
