"""Snapshots: resumed here, in another engine, in another process; damaged ones."""

from __future__ import annotations

import datetime
import json
import logging
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import keuka
from keuka.run import state_bytes

from .live import ALL, RISES, SCHEMA, raised, rows, ticks, unique


def found_by(engine: keuka.Engine, *batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in engine.push("S", batch).to_pylist()] + engine.close().to_pylist()


BATCHES = (rows((1, "a", 5), (2, "b", 1)), rows((3, "a", 7), (4, "b", 0)), rows((5, "b", 3), (6, "a", 9)))


def halfway(**options: Any) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA}, time="t", **options)
    engine.add(RISES, name="rises")
    for batch in BATCHES[:2]:
        engine.push("S", batch)
    return engine


def test_a_snapshot_restores_rules_partial_matches_and_waiting_events():
    engine = halfway()
    snapshot = engine.snapshot()
    resumed = keuka.Engine()
    resumed.restore(snapshot)
    assert list(resumed.rules) == ["rises"]
    assert resumed.rules["rises"].matches == engine.rules["rises"].matches == 1
    assert resumed.counters()["streams"] == engine.counters()["streams"]
    assert (resumed.time, resumed.waiting().stream) == (4, "S")
    assert found_by(resumed, BATCHES[2]) == found_by(engine, BATCHES[2])


def test_a_snapshot_restores_in_a_new_process(tmp_path: Any):
    engine = halfway(contributors=True)
    (tmp_path / "snapshot").write_bytes(engine.snapshot())
    program = (
        "import sys, keuka\n"
        "engine = keuka.Engine()\n"
        "engine.restore(open(sys.argv[1], 'rb').read())\n"
        f"matches = engine.push('S', {BATCHES[2]!r}).to_pylist() + engine.close().to_pylist()\n"
        "print(matches)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "snapshot")], capture_output=True, text=True, check=True)
    assert done.stdout == f"{found_by(engine, BATCHES[2])}\n"


def test_restoring_goes_back_in_time():
    engine = halfway()
    snapshot = engine.snapshot()
    first = engine.push("S", BATCHES[2]).to_pylist()
    assert len(first) == 2
    engine.restore(snapshot)
    assert engine.push("S", BATCHES[2]).to_pylist() == first


def test_own_rules_of_the_same_name_and_meaning_go_on_and_others_begin_anew(caplog: pytest.LogCaptureFixture):
    snapshot = halfway().snapshot()
    engine = keuka.Engine({"S": SCHEMA}, time="t")
    same = engine.add(RISES.replace("SELECT k", "SELECT  k"), name="rises")
    new = engine.add(RISES, name="new")
    engine.restore(snapshot)
    assert list(engine.rules.values()) == [same, new]
    assert (same.matches, new.matches) == (1, 0)
    matches = engine.push("S", BATCHES[2])
    assert sorted(matches.of("rises")["_start"].to_pylist()) == [2, 4]
    assert matches.of("new")["_start"].to_pylist() == [4]  # which waited when the snapshot was taken
    last = engine.close()
    assert [last.of(name)["_start"].to_pylist() for name in ("rises", "new")] == [[3], []]
    other = keuka.Engine({"S": SCHEMA}, time="t")
    other.add(ALL, name="rises")
    with caplog.at_level(logging.WARNING, "keuka"):
        other.restore(snapshot)
    assert caplog.messages == ["rule `rises` is another than in the snapshot, so it begins anew"]
    assert other.rules["rises"].matches == 0


def test_rules_of_the_snapshot_that_the_engine_does_not_have_are_left_out():
    engine = halfway()
    engine.add(ALL, name="gone")
    resumed = keuka.Engine({"S": SCHEMA}, time="t")
    resumed.add(RISES, name="rises")
    resumed.restore(engine.snapshot())
    assert list(resumed.rules) == ["rises"]
    assert {row["_query"] for row in found_by(resumed, BATCHES[2])} == {"rises"}


def test_a_snapshot_keeps_rules_that_read_rules_and_rules_that_wait():
    engine = keuka.Engine({"S": SCHEMA}, time="t")
    engine.add("SELECT n FROM FILTER {n > 1} (S) PUBLISH Large")
    engine.add("SELECT n_1 AS a, n AS b FROM Large NEXT Large", name="pairs")
    engine.push("S", ticks(1, 2, 3))
    engine.add("SELECT n FROM FILTER {n > :least} (Later)", name="waits", params={"least": 1})
    resumed = keuka.Engine(time="t")
    resumed.restore(engine.snapshot())
    assert raised(lambda: resumed.remove("Large")).code == "K307"
    resumed.push("S", ticks(4))
    matches = resumed.push("Later", ticks(2, 5))
    assert matches.of("pairs").to_pylist() == [{"a": 2, "b": 3, "_start": 2, "_end": 3}]
    assert resumed.close().of("waits")["n"].to_pylist() == [5]
    assert resumed.late["Later"] == 1  # 2 is before the time at which the rule was added


def test_parameters_of_every_kind_survive():
    at = datetime.datetime(2024, 1, 31, 9, 30, tzinfo=datetime.UTC)
    minute, day = datetime.timedelta(minutes=1), datetime.date(2024, 1, 1)
    params = {"a": 1, "b": 1.5, "c": "text", "d": True, "e": None, "f": at, "g": minute, "h": day, "i": [1, None, 2.5], "j": "1 min"}
    engine = keuka.Engine()
    engine.add(
        "SELECT :a AS a, :b AS b, :c AS c, :d AS d, n + :e AS e, :f AS f, :h AS h FROM FILTER {DUR < :g AND n IN :i AND DUR < :j} (S)",
        params=params,
    )
    resumed = keuka.Engine()
    resumed.restore(engine.snapshot())
    assert resumed.rules["rule_1"].spec.params == params
    for one in (engine, resumed):
        one.push("S", [{"at": at, "n": 1}])
    assert engine.close().to_pylist() == resumed.close().to_pylist() != []


def test_late_rows_limits_and_matches_not_yet_delivered_survive():
    engine = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", lateness=2)}, memory_limit="4 MB", keep_late=True)
    engine.add("SELECT k FROM S NEXT {$2.k = $1.k} S", name="hungry")
    engine.add(ALL, name="modest")
    engine.push("S", ticks(5, 1))
    raised(lambda: engine.push("S", unique(100_000, 10)))
    resumed = keuka.Engine(keep_late=True)
    resumed.restore(engine.snapshot())
    assert resumed.take_late("S").to_pylist() == ticks(1)
    assert resumed.late == {"S": 1}
    assert resumed.poll().of("modest")["n"].to_pylist() == [5, *range(10, 100_007)]


def test_waiting_events_of_every_type_survive():
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"t": pa.timestamp("ms", "Europe/Berlin"), "d": words, "list": pa.list_(pa.int64()), "i": pa.int16()})
    engine = keuka.Engine({"S": keuka.Stream(schema, lateness="1 hour")})
    engine.add("SELECT d, list, i FROM S")
    batch = pa.table({"t": [2, 1], "d": pa.array(["x", "y"]).dictionary_encode(), "list": [[1], None], "i": [1, 2]}, schema=None)
    engine.push("S", batch.cast(schema))
    resumed = keuka.Engine()
    resumed.restore(engine.snapshot())
    for one in (engine, resumed):
        one.push("S", batch.cast(schema))
    assert resumed.close().table.equals(engine.close().table)


def test_damaged_snapshots_are_refused_and_change_nothing():
    snapshot = halfway().snapshot()
    engine = halfway()
    for place in range(0, len(snapshot), 7):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << place % 8
        assert raised(lambda d=bytes(damaged): engine.restore(d)).code == "K519"
    for n in (0, 7, 20, 100, len(snapshot) - 1):
        assert raised(lambda n=n: engine.restore(snapshot[:n])).code == "K519"
    assert raised(lambda: engine.restore(snapshot + b"x")).code == "K519"
    assert len(found_by(engine, BATCHES[2])) == 3


def test_sections_that_do_not_fit_together_are_refused():
    snapshot = halfway().snapshot()
    sections = state_bytes.unpack(snapshot)
    assert state_bytes.pack(sections) == snapshot
    for name in sections:
        for content in (None, b"", b"{}", b"nonsense"):
            changed = {key: value for key, value in sections.items() if key != name}
            if content is not None:
                changed[name] = content
            if name.startswith("kernel/"):
                continue  # the runner's own
            assert raised(lambda c=changed: keuka.Engine().restore(state_bytes.pack(c))).code in ("K519", "K402")


def test_columns_that_arrow_reads_and_pyarrow_does_not_know_are_refused():
    """An interval of months, which pyarrow cannot write: a column of seconds with its type changed in the bytes."""
    engine = keuka.Engine(time="t")
    engine.add("SELECT d FROM S")
    engine.push("S", pa.table({"t": [1, 2], "d": pa.array([3, 4], pa.duration("s"))}))
    sections = state_bytes.unpack(engine.snapshot())
    held, duration, interval = sections["stream/0/held"], 18, 11  # codes of types in Arrow's format
    changed = [held[:i] + bytes([interval]) + held[i + 1 :] for i, byte in enumerate(held) if byte == duration]
    months = [held for held in changed if "month_interval" in _schema(held)]
    assert months
    for held in months:
        assert raised(lambda h=held: keuka.Engine().restore(state_bytes.pack({**sections, "stream/0/held": h}))).code == "K519"


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("query", "column"),
    [(keuka.sase("SEQ(S a, S b) WITHIN 9"), "end"), (keuka.cel("FROM S NEXT S"), "finish"), (keuka.cel("FROM S NEXT S"), "start")],
    ids=["stacked event", "instance", "end before the start"],
)
def test_partial_matches_of_a_time_that_is_still_to_come_are_refused(query: keuka.Query, column: str):
    """What was processed is over: such a match would be found after a second restore, and not after the first."""
    engine = keuka.Engine(time="t")
    engine.add(query)
    engine.push("S", pa.table({"t": [1, 2]}))
    sections = state_bytes.unpack(engine.snapshot())
    (name,) = [name for name in sections if name.startswith(("kernel/state", "kernel/stack"))]
    held = pa.ipc.open_stream(sections[name]).read_all()
    later = held.set_column(held.column_names.index(column), column, pa.array([2] * held.num_rows))
    error = raised(lambda: keuka.Engine().restore(state_bytes.pack({**sections, name: written(later)})))
    assert (error.code, "its partial matches do not fit together: an event" in str(error)) == ("K519", True)


def test_waiting_rows_whose_time_is_of_another_type_are_refused():
    engine = keuka.Engine(time="t")
    engine.add("SELECT n FROM S")
    engine.push("S", pa.table({"t": [1, 2], "n": [3, 4]}))
    sections = state_bytes.unpack(engine.snapshot())
    held = pa.ipc.open_stream(sections["stream/0/held"]).read_all()
    dated = held.set_column(0, "t", held["t"].cast(pa.int32()).cast(pa.date32()))
    changed = {**sections, "stream/0/held": written(dated)}
    assert raised(lambda: keuka.Engine().restore(state_bytes.pack(changed))).code == "K519"


def test_waiting_rows_in_another_type_than_their_stream_are_refused():
    """32 bits would be read as 64."""
    engine = keuka.Engine(time="t")
    engine.add("SELECT n FROM S")
    engine.push("S", pa.table({"t": [1, 2], "n": [3, 4]}))
    sections = state_bytes.unpack(engine.snapshot())
    held = pa.ipc.open_stream(sections["stream/0/held"]).read_all()
    for arrow in (pa.int32(), pa.bool_(), pa.string(), pa.float64()):
        changed = {**sections, "stream/0/held": written(held.set_column(1, "n", held["n"].cast(arrow)))}
        assert raised(lambda c=changed: keuka.Engine().restore(state_bytes.pack(c))).code == "K519"


def _schema(content: bytes) -> str:
    try:
        return str(pa.ipc.open_stream(content).schema)
    except (pa.ArrowException, OSError):
        return ""


def test_a_snapshot_restores_only_into_streams_of_the_same_columns():
    snapshot = halfway().snapshot()
    other = keuka.Engine({"S": pa.schema({"t": pa.int64(), "k": pa.string(), "n": pa.float64()})}, time="t")
    assert raised(lambda: other.restore(snapshot)).code == "K522"
    later = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", lateness=5), "T": SCHEMA}, time="t")
    later.restore(snapshot)
    assert set(later.late) == {"S", "T"}
    later.push("S", rows((4, "x", 0)))
    assert later.late["S"] == 0


def test_partial_matches_are_kept_whatever_order_rules_are_given_in():
    """The rule that came later keeps more values of the same state. Loaded first, its younger state would serve both."""
    schema = pa.schema({"t": pa.int64(), "k": pa.int64(), "x": pa.int64(), "y": pa.int64()})
    older, later = "SELECT x_1 AS x1, x FROM S NEXT {$2.k = $1.k} S", "SELECT x_1 AS x1, y_1 AS y1, x FROM S NEXT {$2.k = $1.k} S"

    def made(*rules: tuple[str, str]) -> keuka.Engine:
        engine = keuka.Engine({"S": keuka.Stream(schema, time="t")})
        for name, text in rules:
            engine.add(text, name=name)
        return engine

    def row(t: int, k: int) -> list[dict[str, int]]:
        return [{"t": t, "k": k, "x": t, "y": -t}]

    first = made(("older", older))
    for t in range(3):
        first.push("S", row(t, t))
    second = made(("later", later), ("older", older))
    second.restore(first.snapshot())
    third = made(("later", later), ("older", older))
    third.restore(second.snapshot())
    found = []
    for engine in (second, third):
        matches = [match for t in range(6, 13) for match in engine.push("S", row(t, t - 6)).to_pylist()]
        found.append(sorted([(match["_query"], match["_start"], match["_end"]) for match in matches + engine.close().to_pylist()]))
    assert found[0] == found[1]
    assert [match for match in found[0] if match[0] == "older"] == [("older", 0, 6), ("older", 1, 7), ("older", 2, 8)]


def test_a_snapshot_of_narrow_columns_can_be_restored_when_no_row_waits():
    engine = keuka.Engine(time="t")
    engine.add("SELECT x FROM S")
    engine.push("S", pa.table({"t": [1, 2], "x": pa.array([1, 2], pa.int32())}))
    engine.advance(5)
    again = keuka.Engine()
    again.restore(engine.snapshot())
    again.push("S", pa.table({"t": [6], "x": pa.array([3], pa.int32())}))
    assert [row["x"] for row in again.close().to_pylist()] == [3]


def changed(**facts: Any) -> bytes:
    """A snapshot that says something else of its engine, of its first rule (`rule_`) or of its first stream (`stream_`)."""
    sections = state_bytes.unpack(halfway().snapshot())
    said = json.loads(sections["engine"])
    for name, value in facts.items():
        holder, _, key = name.partition("_")
        where = {"rule": said["rules"], "stream": said["streams"]}.get(holder)
        (said if where is None else where[0])[name if where is None else key] = value
    return state_bytes.pack(sections | {"engine": json.dumps(said).encode()})


@pytest.mark.parametrize(
    "facts",
    [
        {"time": True}, {"time": 2**64}, {"rules": None}, {"streams": [1]}, {"rule_name": 1}, {"rule_texts": []}, {"rule_texts": [["a"]]},
        {"rule_outputs": []}, {"rule_n_matches": "1"}, {"rule_n_matches": -1}, {"rule_params": [1]}, {"rule_params": {"a": ["date", "x"]}},
        {"rule_params": {"a": ["timedelta", [1e300]]}}, {"rule_params": {"a": ["list", [["list", []]]]}},
        {"rule_params": {"a": ["list", 1]}},
        {"rule_params": {"a": 1}}, {"rule_language": "sql"}, {"rule_since": 2**63},
        {"rule_name": "\ud800"}, {"stream_name": 1.5}, {"stream_time": []}, {"stream_time": ["t", "t", "t"]}, {"stream_time": "t"},
        {"stream_wanted": ["z"]}, {"stream_n_rows": 2**63}, {"stream_frontier": None}, {"stream_id": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_snapshot_says_must_be_of_the_right_kind(facts: dict[str, Any]):
    assert raised(lambda: keuka.Engine().restore(changed(**facts))).code == "K519"


def test_a_row_that_waits_must_not_be_past():
    assert raised(lambda: keuka.Engine().restore(changed(time=100))).code == "K519"
