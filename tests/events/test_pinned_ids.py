"""Ids that are written down, here and in other people's data: they never change with plan, batch or version (docs/semantics.md, 1, "Ids").

If one of these tests fails, the change that made it fail is wrong, and not the digits below. A plain program with Python's own
integers, value by value, found the same digits.
"""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import keuka
from keuka.algebra.operators import Program
from keuka.automaton.compile import compile_tables
from keuka.diagnostics import SourceText
from keuka.events.sources import open_stream
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import parse
from keuka.plan.planner import plan
from keuka.plan.rules import RULES
from keuka.run.embedded import run

# Rows 1 and 2 are equal, -0.0 and 0.0 being so; row 3 has nulls; texts are short, empty, and long and beyond ASCII.
TICKS = pa.table(
    {
        "at": pa.array([datetime(2024, 3, 1, 9, minute) for minute in (10, 15, 15, 17, 21, 24)], pa.timestamp("us")),
        "name": ["IBM", "Dell", "Dell", None, "", "IBM, a name of more than eight bytes: ä"],
        "price": [90.0, -0.0, 0.0, None, float("nan"), 91.5],
        "volume": [15_000, 7_000, 7_000, None, -1, 2**63 - 1],
        "halted": [False, True, True, None, False, False],
        "tags": [["a"], [], [], None, ["b", "c"], ["d"]],
    }
)
NEWS = pa.table(
    {
        "at": pa.array([datetime(2024, 3, 1, 9, minute) for minute in (12, 20)], pa.timestamp("us")),
        "headline": ["up", "down"],
        "key": ["n-1", "n-2"],
    }
)

TICK_IDS = [
    "32246409fa9b110b13c468d62b2adf1e",
    "61aed5a112be8e390ce57f7484da26bd",
    "ac870a94136259bd3a0ad627a3ffd3e5",
    "e243fc2035fb203b1ec82c7b4abe2703",
    "a904f7fdc3db94759330a4071d80a7b0",
    "9ee202378558f14159a7db626271fed0",
]
# What a query shows -> the query, and for each of its matches the id and the contributors: ticks by their row, news by their key.
MATCHES: dict[str, tuple[str, dict[str, tuple[int | str, ...]]]] = {
    "an event": (
        "SELECT * FROM FILTER {volume = 15000} (Ticks)",
        {"0272a805323dd080bb2eb4683ad624f1": (0,)},
    ),
    "an event with an id column": (
        "SELECT headline FROM FILTER {headline = 'up'} (News)",
        {"be51ec969b418dc4cf89a1f720a976a8": ("n-1",)},
    ),
    "equal rows of one epoch": (
        "SELECT price FROM FILTER {name = 'Dell'} (Ticks)",
        {"474105b926b89fcc70b8936af46d1d88": (1,), "c43196efeec243f54cf1fa98950384dd": (2,)},
    ),
    "an event of nulls": (
        "SELECT price FROM FILTER {name IS NULL} (Ticks)",
        {"e25c6f5e14dab44a4dca4be8154d031b": (3,)},
    ),
    "NEXT": (
        "SELECT price_1, price FROM FILTER {price = 90.0} (Ticks) NEXT {$2.volume > $1.volume} Ticks",
        {"002de8b5d40f00912a78ea279ee3d55e": (0, 5)},
    ),
    "FOLD": (
        "SELECT price FROM FILTER {price = 90.0} (Ticks) FOLD {$2.halted = $.halted, TRUE, $.volume AS volume} Ticks",
        {"a28aac88053fdac0d2c3c3fb36d7a565": (0, 4), "89eeaed8291bebafa4b9b143aaed15c2": (0, 4, 5)},
    ),
    "the sides of UNION": (
        "SELECT name FROM FILTER {name = ''} ((SELECT name FROM Ticks) UNION (SELECT name FROM Ticks))",
        {"a651e2639f5513bbf6ee0c4c5835c70c": (4,), "df4dcee90aef85c476a009ba4eb71462": (4,)},
    ),
    "a published stream": (
        "SELECT name, volume FROM FILTER {volume > 0} (Ticks) PUBLISH Big;"
        "SELECT name FROM FILTER {volume = 15000} (Big) NEXT {$2.volume < 0} Ticks",
        {"6ebccf4237a603e8e007a1e4fc6dcac4": (0, 4)},
    ),
    "two streams": (
        "SELECT headline, name FROM News NEXT {volume > 0 OR name = ''} Ticks",
        {
            "aeab8e4ee096e04e4e2b307051e59769": ("n-1", 1),
            "9a2800c5f2b79a28fd856ad06dab37c2": ("n-1", 2),
            "c9ec7177fbb63f598798bb8d3bf71ba6": ("n-2", 4),
        },
    ),
    "a right operand that is a query": (
        "SELECT price FROM FILTER {price = 90.0} (Ticks) NEXT (SELECT name AS later, headline FROM Ticks NEXT News)",
        {
            "045cce4f77391a3e966a09e01ee615c3": (0, 1, "n-2"),
            "a9dc4f8ef7ab38d2ef74e2e304b49f23": (0, 2, "n-2"),
            "0faa37aba6bb81a4a8c0b4ce8807ef76": (0, 3, "n-2"),
        },
    ),
}


def streams(ticks: pa.Table, news: pa.Table) -> dict[str, keuka.Stream]:
    return {"Ticks": keuka.Stream(ticks, time="at"), "News": keuka.Stream(news, time="at", id="key")}


def ids(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """By the id of a match, the ids of its contributors."""
    return {row["_id"]: [contributor["id"] for contributor in row["_contributors"]] for row in rows}


def pinned(what: str) -> dict[str, list[str]]:
    return {match: [TICK_IDS[c] if isinstance(c, int) else c for c in contributors] for match, contributors in MATCHES[what][1].items()}


@pytest.mark.parametrize("what", MATCHES)
def test_ids_are_the_same_in_every_version(what: str):
    query = keuka.cel(MATCHES[what][0])
    given = streams(TICKS, NEWS)
    found = keuka.match(query, {name: given[name] for name in query.inputs}, contributors=True)
    assert ids(found.to_pylist()) == pinned(what)


# Every rule and every index, none of them, and all operators apart.
PLANS = ({}, {"rules": (), "indices": False}, {"rules": RULES, "linear": False}, {"rules": RULES[::-1], "indices": False, "linear": False})


def ids_of_plan(what: str, ticks: pa.Table, news: pa.Table, chunk_rows: int, options: dict[str, Any]) -> dict[str, list[str]]:
    opened = {name: open_stream(name, stream) for name, stream in streams(ticks, news).items()}
    types = {name: stream.type for name, stream in opened.items()}
    name, last = LANGUAGE.lower((parse(SourceText("<query>", MATCHES[what][0])),), types, {}).outputs[-1]
    tables = compile_tables(plan(Program(((name, last),)), contributors=True, **options))
    batches = run(tables, [opened[source.name] for source in tables.sources], chunk_rows=chunk_rows)
    return ids([row for batch in batches for row in batch.rows.to_pylist()])


@pytest.mark.parametrize("what", MATCHES)
def test_ids_depend_neither_on_the_plan_nor_on_batches(what: str):
    for options, chunk_rows in itertools.product(PLANS, (1, 2, 100)):
        assert ids_of_plan(what, TICKS, NEWS, chunk_rows, options) == pinned(what), (options, chunk_rows)


@pytest.mark.parametrize("what", MATCHES)
def test_ids_depend_neither_on_the_order_of_columns_nor_on_their_layout(what: str):
    for order in ([5, 4, 3, 2, 1, 0], [1, 0, 3, 5, 2, 4]):
        assert ids_of_plan(what, TICKS.select(order), NEWS.select([2, 1, 0]), 100, {}) == pinned(what), order
    ticks = TICKS.set_column(0, "at", TICKS["at"].cast(pa.timestamp("ns"))).set_column(1, "name", TICKS["name"].dictionary_encode())
    news = NEWS.set_column(1, "headline", NEWS["headline"].cast(pa.large_string()))
    assert ids_of_plan(what, ticks, news, 100, {}) == pinned(what)


def test_the_id_of_an_event_does_not_depend_on_the_events_before_it():
    for first in range(6):
        rows = keuka.match("SELECT price FROM Ticks", streams(TICKS.slice(first), NEWS)["Ticks"], contributors=True).to_pylist()
        # Of two equal rows, the one that comes first is the first.
        expected = [TICK_IDS[1], *TICK_IDS[3:]] if first == 2 else TICK_IDS[first:]
        assert [row["_contributors"][0]["id"] for row in rows] == expected
