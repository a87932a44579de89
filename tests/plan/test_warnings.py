"""Conditions that can never hold, or always do: golden messages, what is left alone, and where warnings are logged."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import keuka
from keuka.diagnostics import render
from keuka.languages.sets import lower_texts
from keuka.plan.warnings import find_warnings
from keuka.schema import StreamType, TimeAxis

from ..languages import cel, sase

ERRORS = Path(__file__).parent.parent / "golden" / "errors"
CASES = sorted(ERRORS.glob("K32?_*/query.*"))
DAYS = {name: cel.stream(TimeAxis(1, pa.date32()), customer=pa.int64(), day=pa.date32()) for name in ("Visits", "Orders")}
STREAMS: dict[str, dict[str, StreamType]] = {".cel": cel.STREAMS, ".sase": sase.STREAMS | DAYS}


def warnings_of(text: str, suffix: str = ".cel", name: str = "<query>", **params: object) -> list[str]:
    query = (keuka.cel if suffix == ".cel" else keuka.sase)(text, name=name)
    streams = {stream: STREAMS[suffix][stream] for stream in query.inputs}
    return [render(warning) for warning in find_warnings(lower_texts(query.texts, streams, params), streams)]


def codes(text: str, suffix: str = ".cel", **params: object) -> list[str]:
    return [warning[8:12] for warning in warnings_of(text, suffix, **params)]


def in_filter(condition: str, stream: str = "Stock", **params: object) -> list[str]:
    return codes(f"SELECT * FROM FILTER {{{condition}}} ({stream})", **params)


@pytest.mark.parametrize("query", CASES, ids=lambda query: query.parent.name)
def test_the_warning_is_the_golden_one(query: Path, rewrite_goldens: bool):
    message = "\n".join(warnings_of(query.read_text(), query.suffix, query.name)) + "\n"
    if rewrite_goldens:
        (query.parent / "message.txt").write_text(message)
    assert message == (query.parent / "message.txt").read_text()
    assert message.startswith(f"warning[{query.parent.name[:4]}]: ")
    assert message.count("warning[") == 1


@pytest.mark.parametrize(
    "condition",
    [
        "Volume = 5 AND Volume = 6",
        "Volume = 5 AND Volume <> 5",
        "Volume IN (1, 2) AND Volume > 2",
        "Volume IN (1, 2) AND Volume <> 1 AND Volume <> 2",
        "Volume BETWEEN 5 AND 3",
        "Volume > 5 AND Volume < 6",
        "Volume >= 5 AND Volume <= 5 AND NOT Volume = 5",
        "Volume > 5 AND Volume < 3.5",
        "5 < Volume AND 3 > Volume",
        "Volume IS NULL AND Volume > 0",
        "NOT (Volume <= 5 OR Volume >= 3)",
        "Price > 5 AND Price <= 5",
        "Name = 'a' AND Name IN ('b', 'c')",
        "Name > 'b' AND Name < 'a'",
        "ts > '2024-01-02' AND ts <= '2024-01-01T12:00'",
        "Volume > 5 AND (Volume < 3 OR Price > 1)",
        "Price > 1 OR Volume > 5 AND Volume < 3",
        "DUR < 5 AND DUR > 10",
        "DUR < 1",
    ],
)
def test_conditions_that_contradict_each_other_are_found(condition: str):
    assert in_filter(condition) == ["K322"]


def test_truth_values_contradict_each_other():
    assert in_filter("Urgent AND NOT Urgent", "News") == ["K322"]


@pytest.mark.parametrize(
    "condition",
    [
        "Volume > 5 OR Volume < 3",
        "Volume >= 5 AND Volume <= 5",
        "Volume > 5 AND Volume < 7",
        "Price > 5 AND Price < 6",
        "Volume > 5 AND Price < 3",
        "Volume <> 5 AND Volume <> 6",
        "Volume IN (1, NULL)",
        "Price = -0.0 AND Price = 0.0",
        "Volume > 9007199254740992 AND Volume <= 9007199254740992.0",  # 2^53 + 1 becomes 2^53 as a double
        "TRUE",
        "FALSE",
        "COALESCE(Volume, NULL) = 5",
        "CASE WHEN Volume > 5 THEN NULL ELSE 1 END = 1",
        "Volume = Volume",
        'Name = "IBM"',
        "Volume IS NULL OR Volume > 5",
    ],
)
def test_conditions_that_can_hold_are_left_alone(condition: str):
    assert in_filter(condition) == []


def test_values_of_parameters_are_not_looked_at():
    assert in_filter(":x > 5 AND :x < 3", x=4) == []
    assert in_filter("Volume > :low AND Volume < :high", low=5, high=3) == []
    assert in_filter(":x IS NULL OR Volume = :x", x=None) == []
    assert in_filter("Volume > :low AND Volume = NULL", low=5) == ["K321"]


def test_each_side_is_looked_at_by_itself():
    assert codes("SELECT * FROM Stock NEXT {$1.Volume > 5 AND $2.Volume < 3} Stock") == []
    assert codes("SEQ(A a, A b) WHERE a.x = 1 AND b.x = 2", ".sase") == []


def test_both_conditions_of_a_fold_are_one_conjunction():
    assert codes("SELECT * FROM Stock FOLD {$2.Volume > 5, $2.Volume < 3} Stock") == ["K322"]


def test_alternatives_that_come_of_multiplying_out_are_left_alone():
    assert codes("SEQ(A a, !B b, C c) WHERE (a.x > 5 OR b.y = 1) AND (a.x < 3 OR b.y = 2)", ".sase") == []
    assert codes("SEQ(A a, !B b, C c) WHERE b.y > 5 AND b.y < 3", ".sase") == ["K322"]


def test_types_of_any_do_not_contradict_each_other():
    assert codes("SEQ(ANY(A, B) a, C c) WHERE NOT [y] AND a.y = 3", ".sase") == []


def test_windows_in_which_all_events_fit_are_left_alone():
    assert codes("SEQ(A a, B b) WITHIN 2", ".sase") == []
    assert codes("SEQ(A a) WITHIN 1", ".sase") == []
    assert codes("SEQ(A a, B b, C c) WITHIN 2", ".sase") == ["K323"]
    assert codes("SEQ(A a, !B b, C c) WITHIN 2", ".sase") == ["K323"]
    assert codes("SEQ(A a, !B b, C c) WITHIN 3", ".sase") == []
    assert codes("UNORDERED(A a, B b) WITHIN 1", ".sase") == ["K323"]


def test_two_days_are_the_shortest_window_of_a_clock_of_days():
    assert codes("SEQ(Visits a, Orders b) WITHIN 1 day", ".sase") == ["K323"]
    assert codes("SEQ(Visits a, Orders b) WITHIN 25 hours", ".sase") == []
    late = "SEQ(Visits v, !Orders o) WITHIN 36 hours PUBLISH Quiet; SEQ(Quiet a, Quiet b) WITHIN 2"
    assert codes(late, ".sase") == []  # a match that ends in an absence ends at any tick


def test_what_is_published_is_warned_of_once():
    text = "SELECT * FROM FILTER {Volume = NULL} (Stock) PUBLISH P; SELECT * FROM P NEXT P; SELECT * FROM P"
    assert codes(text) == ["K321"]


ROWS = pa.table({"at": pa.array([datetime.datetime(2024, 1, 1)]), "status": ["ok"]})
QUOTED = "SELECT * FROM FILTER {\"status\" = 'declined'} (S)"


def test_a_query_logs_its_warnings_once(caplog: pytest.LogCaptureFixture):
    query = keuka.cel(QUOTED)
    for _ in range(2):
        keuka.match(query, ROWS)
        keuka.match_all(query, ROWS, contributors=True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.messages[0].startswith("warning[K320]: `\"status\" = 'declined'` never holds")


def test_an_engine_logs_warnings_when_it_knows_the_columns(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine()
    engine.add(QUOTED)
    assert caplog.messages == []
    engine.push("S", ROWS)
    assert [message[:13] for message in caplog.messages] == ["warning[K320]"]
    declared = keuka.Engine({"S": ROWS.schema})
    declared.add(QUOTED)
    assert [message[:13] for message in caplog.messages] == ["warning[K320]"] * 2


def test_fields_of_one_struct_do_not_contradict_each_other(caplog):
    row = {"t": 1, "r": {"n": 1, "s": "a"}}
    keuka.match("FROM FILTER {r.n > 5 AND r.s = 'b'} (S)", [row], time="t")
    assert not caplog.records
    keuka.match("FROM FILTER {r.n > 5 AND r.n < 3} (S)", [row], time="t")
    assert "K322" in caplog.text
