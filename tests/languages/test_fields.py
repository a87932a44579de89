"""Fields of structs by dots: in every place of CEL and SASE, null where a struct is, and with ids that do not change."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.plan.fields import extract_fields

STRUCT = pa.struct(
    [
        ("user", pa.struct([("id", pa.int64()), ("name", pa.string())])),
        *[("paid", pa.decimal128(10, 2)), ("day", pa.date32()), ("none", pa.null())],
    ]
)


def payload(user: tuple[int, str] | None, paid: str | None = None, day: date | None = None) -> dict[str, Any]:
    return {"user": user and {"id": user[0], "name": user[1]}, "paid": paid and Decimal(paid), "day": day, "none": None}


EVENTS = pa.table(
    {
        "at": [1, 2, 3, 4, 5],
        "payload": pa.array(
            [payload((1, "a"), "1.50"), payload((2, "b"), "2.50", date(2024, 3, 1)), payload(None), None, payload((1, "c"), "0.10")], STRUCT
        ),
    }
)


def rows(query: str, data: Any = EVENTS, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:-2] for row in keuka.match(query, data, time="at", **options).to_pylist()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT payload.user.id FROM S", [(1,), (2,), (None,), (None,), (1,)]),
        ("SELECT payload.paid + 1 AS v FROM FILTER {payload.user.name < 'c'} S", [(Decimal("2.50"),), (Decimal("3.50"),)]),
        ("SELECT at FROM FILTER {payload.day >= '2024-03-01'} S", [(2,)]),
        ("SELECT at FROM FILTER {payload.user.id IS NULL} S", [(3,), (4,)]),
        ("SELECT at FROM FILTER {payload.none IS NULL AND payload.user.id = 2} S", [(2,)]),
        ("SELECT payload.user FROM FILTER {at = 1} S", [({"id": 1, "name": "a"},)]),
        ("SELECT at_1, at, payload_1.user.name AS n FROM S NEXT {$2.payload.user.id = $1.payload.user.id} S", [(1, 5, "a")]),
        ("SELECT at_1, payload.user.name AS n FROM S FOLD {$2.payload.user.id = $.payload.user.id, TRUE} S", [(1, "c")]),
        ("SELECT payload.user.id AS i FROM FILTER {at < 3} S UNION FILTER {payload.user.id = 2} S", [(1,), (2,), (2,)]),
        ("FROM FILTER {payload.paid > 1} S PUBLISH P; SELECT payload.user.name AS n FROM P", [("a",), ("b",)]),
        ("SELECT p.user.id AS i FROM (SELECT payload AS p FROM FILTER {payload.paid < 2} S)", [(1,), (1,)]),
    ],
)
def test_fields_in_cel(query: str, expected: list[tuple[Any, ...]]):
    assert rows(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SEQ(S a, S b) WHERE a.payload.user.id = b.payload.user.id RETURN a.at, b.payload.user.name", [(1, "c")]),
        ("SEQ(S a, S b) WHERE [payload.user.id] RETURN a.at AS a, b.at AS b", [(1, 5)]),
        ("SEQ(S a (payload.paid > 2), S b) WHERE [payload.user.id = 1] RETURN a.at", []),
        ("SEQ(S a (payload.paid > 2), !S c (c.payload.user.id = 1), S b) WITHIN 3 RETURN a.at AS a, b.at AS b", [(2, 3), (2, 4)]),
        ("SEQ(S $1, S b) WHERE b.payload.user.id = 1".replace("S $1", "S a") + " AND $1.payload.user.id = 2 RETURN b.at", [(5,)]),
    ],
)
def test_fields_in_sase(query: str, expected: list[tuple[Any, ...]]):
    assert rows(query, language="sase") == expected


def test_a_column_without_a_name_is_called_by_the_last_one():
    assert keuka.match("SELECT payload.user.id FROM S", EVENTS, time="at").column_names[0] == "id"
    assert keuka.match("S a RETURN a.payload.user.id", EVENTS, time="at", language="sase").column_names[0] == "a_id"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("SELECT payload.usr FROM S", "K201", "`payload` has no field `usr`"),
        ("SELECT payload.user.id.x FROM S", "K201", "`payload.user.id` has no field `x`"),
        ("SELECT at.x FROM S", "K201", "`at` has no field `x`"),
        ("FROM FILTER {payload.user = 1} S", "K205", "the values of `payload.user` cannot be used in an expression"),
        ("SELECT S.at FROM S", "K201", "the selected stream has no attribute `S`"),
    ],
)
def test_mistakes(query: str, code: str, message: str):
    with pytest.raises(keuka.QueryError) as raised:
        rows(query)
    assert (raised.value.code, raised.value.diagnostics[0].message) == (code, message)


def test_an_equivalence_test_has_no_variable():
    with pytest.raises(keuka.QueryError, match=r"its attributes have no variable: `\[payload.user.id\]`"):
        rows("SEQ(S a, S b) WHERE [a.payload.user.id]", language="sase")


def test_a_column_with_a_dot_in_its_name_is_itself():
    table = pa.table({"at": [1], "a.b": [7], "a": pa.array([{"b": 8}])})
    assert rows("SELECT `a.b` AS x, a.b AS y FROM S", table) == [(7, 8)]


def test_a_plan_reads_fields_and_not_the_struct():
    query = keuka.cel("SELECT at, payload.user.id AS i FROM S NEXT {$2.payload.user.id = $1.payload.user.id} S")
    text = query.explain(EVENTS, time="at")
    assert "S: at, payload.user.id" in text
    assert "partitioned by payload.user.id" in text


def test_a_query_without_fields_stays_as_it_is():
    from keuka.query import prepare

    program = prepare("SELECT payload FROM S", EVENTS, time="at").program
    assert extract_fields(program) is program


def test_ids_and_contributors_do_not_depend_on_fields():
    fields = keuka.match("SELECT at FROM FILTER {payload.user.id = 1} S", EVENTS, time="at", contributors=True)
    plain = keuka.match("SELECT at FROM S", EVENTS, time="at", contributors=True)
    assert fields["_contributors"].to_pylist() == [plain["_contributors"].to_pylist()[i] for i in (0, 4)]


def test_files_dictionaries_and_rows_out_of_order(tmp_path: Path):
    pq.write_table(EVENTS, tmp_path / "events.parquet")
    assert rows("SELECT payload.user.id AS i FROM S", tmp_path / "events.parquet") == [(1,), (2,), (None,), (None,), (1,)]
    assert rows("SELECT payload.user.id AS i FROM S", EVENTS.take([4, 3, 2, 1, 0])) == [(1,), (2,), (None,), (None,), (1,)]
    assert rows("SELECT payload.user.name AS n FROM S", EVENTS.to_pylist()) == [("a",), ("b",), (None,), (None,), ("c",)]


def test_a_value_that_does_not_fit_names_its_field():
    table = pa.table({"at": [1, 2], "r": pa.array([{"p": Decimal(1)}, {"p": Decimal(10**20)}], pa.struct([("p", pa.decimal128(38, 0))]))})
    with pytest.raises(keuka.DataError, match=r"row 2, column `r.p`"):
        rows("SELECT r.p FROM S", table)
    with keuka.Engine(time="at") as engine:
        engine.add("SELECT r.p FROM S", name="q")
        with pytest.raises(keuka.DataError, match=r"row 2, column `r.p`"):
            engine.push("S", table)
        assert engine.push("S", table.slice(0, 1)).num_rows + engine.close().num_rows == 1


def test_an_engine_goes_on_from_a_snapshot():
    query = "SELECT at_1, at, payload.paid AS paid, payload_1.day AS day FROM S NEXT {$2.payload.user.id = $1.payload.user.id} S"
    found = []
    with keuka.Engine(time="at") as engine:
        engine.add(query, name="q")
        found += engine.push("S", EVENTS.slice(0, 3)).to_pylist()
        snapshot = engine.snapshot()
    with keuka.Engine(time="at") as engine:
        engine.add(query, name="q")
        engine.restore(snapshot)
        found += engine.push("S", EVENTS.slice(3)).to_pylist()
        found += engine.close().to_pylist()
    assert [(row["at_1"], row["at"], row["paid"], row["day"]) for row in found] == [(1, 5, Decimal("0.10"), None)]


def test_a_trace_shows_fields():
    text = str(keuka.cel("SELECT at FROM FILTER {payload.user.id = 2} S").trace(EVENTS, time="at"))
    assert "payload.user.id" in text
