"""Sequences in the kernel: matches in turns, ticks at the ends of time, and tables that would make it read what is not there."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import keuka
from keuka.automaton.tables import Tables, from_bytes, to_bytes
from keuka.events.frontiers import BEGINNING
from keuka.events.order import in_order
from keuka.events.sources import Stream, open_stream
from keuka.kernel.bytecode import Op
from keuka.query import prepare
from keuka.run import state
from keuka.run.embedded import last_end, run
from keuka.run.runner import Runner
from keuka.schema import MAX_TICK

from ..fuzz.damage import ABSENCES, COMBINATIONS, EVENTS, STREAMS

FIRST, LAST = BEGINNING, MAX_TICK


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


# What is given back is not always at once; a sanitizer keeps up to 256 MB of it, to see who still uses it. All matches of the tests
# below would be more than that.
MOST_GROWTH = 350_000_000 if "libasan" in os.environ.get("LD_PRELOAD", "") else 50_000_000


# -- many matches ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("contributors", "n_batches"), [(False, 100), (True, 30)])
def test_a_billion_matches_come_in_batches_of_bounded_size_and_bounded_memory(contributors: bool, n_batches: int):
    """All of them would be 1.3 billion rows."""
    events = pa.table({"t": range(2_000)})
    prepared = prepare("SEQ(A a, A b, A c)", events, time="t", language="sase", contributors=contributors)
    sizes, held = [], []
    for batch in itertools.islice(run(prepared.tables, prepared.opened), n_batches):
        sizes.append(batch.rows.num_rows)
        held.append(resident_bytes())
    assert sum(sizes) > 100_000 * n_batches
    assert max(sizes) < 200_000
    assert max(held[10:]) - max(held[:10]) < MOST_GROWTH


def test_contributors_of_matches_that_come_in_turns_are_right():
    """Nodes of the arena move between two turns, those of the stacked events of two sequences and of an automaton among them."""
    stream = keuka.Stream(pa.table({"t": range(130), "n": range(130)}), time="t", id="n")
    query = keuka.query(
        [
            keuka.cel("SELECT n_1 AS m, n FROM S NEXT {$2.n > $1.n + 20} S PUBLISH Far"),
            keuka.sase("SEQ(S a, Far b, S c) RETURN a.n AS a, b.m AS b, b.n AS c, c.n AS d"),
        ]
    )
    prepared = prepare(query, {"S": stream}, contributors=True, outputs=())
    batches = [batch.rows for batch in run(prepared.tables, prepared.opened)]
    assert len(batches) > 2
    for rows in batches:
        numbers = zip(*[rows.column(name).to_pylist() for name in "abcd"], strict=True)
        ids = [[int(leaf["id"]) for leaf in leaves] for leaves in rows.column("_contributors").to_pylist()]
        assert ids == [list(row) for row in numbers]


def test_matches_that_come_in_turns_are_all_there_in_order():
    """The last event completes two chunks of matches by itself."""
    n = 800
    prepared = prepare("SEQ(A a, A b, A c (n = 800)) RETURN a.n AS a, b.n AS b", pa.table({"t": range(n + 1), "n": range(n + 1)}),
                       time="t", language="sase")  # fmt: skip
    batches = [batch.rows for batch in run(prepared.tables, prepared.opened)]
    found = pa.Table.from_batches(batches)
    assert len(batches) > 2
    assert found.num_rows == math.comb(n, 2) == len(set(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)))
    assert set(found["_end"].to_pylist()) == {n}


def test_an_overflow_after_matches_were_taken_is_raised():
    numbers = [1] * 600 + [2**62]
    prepared = prepare("SEQ(A a, A b, A c) RETURN a.n + b.n + c.n + c.n AS n", pa.table({"t": range(601), "n": numbers}),
                       time="t", language="sase")  # fmt: skip
    batches = run(prepared.tables, prepared.opened)
    assert next(batches).rows.num_rows > 100_000
    with pytest.raises(keuka.DataError, match=r"(?s)K507.*row 601"):
        for _ in batches:
            pass


# -- the ends of time --------------------------------------------------------------------------------------------------------


def found(query: str, a: list[int], b: list[int]) -> list[tuple[int, int]]:
    streams = {name: pa.table({"t": pa.array(ticks, pa.int64())}) for name, ticks in (("A", a), ("B", b))}
    matches = keuka.match(query, streams, time="t", language="sase")
    return list(zip(matches["_start"].to_pylist(), matches["_end"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("query", "a", "b", "expected"),
    [
        ("SEQ(A a, B b)", [FIRST], [LAST], [(FIRST, LAST)]),
        (f"SEQ(A a, B b) WITHIN {LAST}", [FIRST, -1], [LAST - 3], [(-1, LAST - 3)]),
        ("SEQ(A a, B b) WITHIN 2", [FIRST, FIRST + 1], [FIRST + 1], [(FIRST, FIRST + 1)]),
        ("UNORDERED(A a, B b) WITHIN 3", [FIRST + 2, LAST], [FIRST, LAST - 2], [(FIRST, FIRST + 2), (LAST - 2, LAST)]),
        ("SEQ(A a, !B b) WITHIN 5", [FIRST, -3, LAST - 2], [], [(FIRST, FIRST + 4), (-3, 1), (LAST - 2, LAST)]),
        ("SEQ(A a, !B b) WITHIN 5", [LAST - 2, LAST], [LAST], [(LAST, LAST)]),
        (f"SEQ(A a, !B b) WITHIN {LAST}", [FIRST, 7], [], [(FIRST, -3), (7, LAST)]),
        (f"SEQ(A a, !B b) WITHIN {LAST}", [FIRST, 7], [-3], [(7, LAST)]),
        ("SEQ(!B b, A a) WITHIN 3", [FIRST, FIRST + 2, FIRST + 3], [FIRST], [(FIRST, FIRST), (FIRST + 3, FIRST + 3)]),
        ("SEQ(!B b, A a)", [FIRST, LAST], [FIRST], [(FIRST, FIRST)]),
        ("SEQ(A a, !B b, A c)", [FIRST, LAST], [FIRST, LAST], [(FIRST, LAST)]),
        ("SEQ(A a, !B b, A c)", [FIRST, LAST], [FIRST + 1], []),
    ],
)
def test_sequences_reach_the_first_and_the_last_tick(query: str, a: list[int], b: list[int], expected: list[tuple[int, int]]):
    assert found(query, a, b) == expected


def test_the_longest_window_survives_the_way_through_bytes():
    tables = prepare(f"SEQ(S a, !S b) WITHIN {LAST}", EVENTS, time="t", language="sase").tables
    assert to_bytes(from_bytes(to_bytes(tables))) == to_bytes(tables)


# -- state of keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "keys"), [("k", pa.array(["a", "c"])), ("x", pa.array([0.0, math.nan])), ("n", pa.array([0, 2]))])
def test_keys_move_from_one_runner_to_another(column: str, keys: pa.Array):
    values = {"k": ["a", "b", "c"], "x": [-0.0, 1.0, math.nan], "n": [0, 1, 2]}
    rows = {"t": range(12)} | {name: pa.array([of[t * 5 % 3] for t in range(12)]) for name, of in values.items()}
    stream = open_stream("S", Stream(pa.table(rows), time="t"))
    tables = prepare(f"SEQ(!S x (t = 1), S a, S b) WHERE [{column}] WITHIN 9", pa.table(rows), time="t", language="sase").tables
    home, away = Runner([stream], stream.type.axis), Runner([stream], stream.type.axis)
    for runner in (home, away):
        runner.load("q", tables)
    steps = list(in_order([stream], home.columns(), chunk_rows=6))
    list(home.process(steps[0], last_end(steps[0])))
    n_all = home.usage("q").n_instances
    chosen = pa.StructArray.from_arrays([keys], names=[column])
    state.put(away, state.take(home, chosen))
    state.drop(home, chosen)
    assert home.usage("q").n_instances + away.usage("q").n_instances == n_all
    assert home.usage("q").n_instances > 0
    assert away.usage("q").n_instances > home.usage("q").n_instances


@pytest.mark.parametrize("query", ["SEQ(S a, T b) WHERE [k] WITHIN 99999", "SEQ(S a, !T b) WHERE [k] WITHIN 99999"])
def test_a_key_that_comes_and_goes_leaves_no_memory_behind(query: str):
    rows = pa.table({"t": range(64), "k": [t % 8 for t in range(64)]})
    data = {"S": rows, "T": rows.slice(0, 0)}
    streams = [open_stream(name, Stream(of, time="t")) for name, of in data.items()]
    runner = Runner(streams, streams[0].type.axis)
    runner.load("q", prepare(query, data, time="t", language="sase").tables)
    for step in in_order(streams, runner.columns()):
        list(runner.process(step, last_end(step)))
    key = pa.StructArray.from_arrays([pa.array([3])], names=["k"])
    for _ in range(1_000):
        taken = state.take(runner, key)
        state.drop(runner, key)
        state.put(runner, taken)
    assert runner.usage("q").n_instances == 64
    assert runner.usage("q").n_bytes < 400_000  # 8,000 events were put
    ends = [end for name, table in state.take(runner).kernel.items() if name.startswith("stack/") for end in table["end"].to_pylist()]
    assert ends == list(range(64))


def test_stacked_events_without_their_contributors_are_refused():
    streams = [open_stream(name, Stream(rows, time="t")) for name, rows in STREAMS.items()]
    runner = Runner(streams, streams[0].type.axis)
    runner.load("q", prepare(ABSENCES, STREAMS, time="t", contributors=True, language="sase").tables)
    step = next(iter(in_order(streams, runner.columns(), chunk_rows=3)))
    list(runner.process(step, last_end(step)))
    sections = state.take(runner).kernel
    name = next(section for section in sections if section.startswith("stack/"))
    place = sections[name].column_names.index("node")
    unknown = pa.array([-1] * sections[name].num_rows, pa.int64())
    with pytest.raises(ValueError, match="contributors are missing"):
        state.put(runner, state.ShardState({**sections, name: sections[name].set_column(place, "node", unknown)}))


# -- tables that no compiler writes ------------------------------------------------------------------------------------------


def refused(tables: Tables, name: str, cell: tuple[int, ...], value: int) -> str:
    """Why tables with one other number are refused."""
    changed = tables.arrays[name].copy()
    changed[cell] = value
    with pytest.raises(keuka.QueryError) as raised:
        from_bytes(to_bytes(replace(tables, arrays=tables.arrays | {name: changed})))
    assert raised.value.code == "K402"
    return str(raised.value)


@pytest.mark.parametrize("query", [ABSENCES, COMBINATIONS])
def test_a_program_over_bound_events_asks_for_no_event_at_hand(query: str):
    tables = prepare(query, STREAMS, time="t", language="sase").tables
    for program in np.unique(tables.arrays["test"][:, 0]).tolist():
        first = int(tables.arrays["program"][program, 0])
        assert tables.arrays["code"][first, 0] in (Op.LOAD_SLOT, Op.LOAD_CONST)
        for op in (Op.LOAD_DUR, Op.LOAD_EVENT):
            assert "a program reads an event where there is none" in refused(tables, "code", (first, 0), op)


def test_a_value_that_could_not_be_calculated_is_not_passed_on():
    """A compiler lets the calculation fail; here nobody asks for that, and the value would be a row handle of nothing."""
    tables = prepare("SEQ(S a, S b) RETURN a.tags AS a, b.tags AS b", EVENTS, time="t", language="sase").tables
    arrays = dict(tables.arrays)
    code = [
        (Op.LOAD_EVENT, 0, 0, 0, 0),
        (Op.LOAD_CONST, 1, 0, 0, 0),
        (Op.ADD_I, 2, 1, 1, 0),
        (Op.SELECT, 1, 2, 0, 0),
        (Op.MOVE, 0, 1, 0, 0),
    ]
    arrays["code"] = np.array([*code, (Op.END, 0, 0, 0, 0)], np.int32)
    arrays["program"] = np.array([(0, len(code) + 1, 3)])
    arrays["constant"], arrays["constant_text"] = np.array([2**62]), np.array([-1])
    arrays["derived"] = np.array([(0, 0, 0)])
    arrays["feed_column"] = np.full(2, len(arrays["column_type"]))
    damaged = from_bytes(to_bytes(replace(tables, arrays=arrays, fallible=("",))))
    rows = [row for batch in run(damaged, [open_stream("S", Stream(EVENTS, time="t"))]) for row in batch.rows.to_pylist()]
    assert {(row["a"], row["b"]) for row in rows} == {(None, None)}


def test_a_row_handle_is_no_key():
    tables = prepare(ABSENCES, STREAMS, time="t", language="sase").tables
    assert "the type of a key is out of range" in refused(tables, "sequence", (0, 8), 5)


def test_threads_find_very_many_matches_once_and_in_order():
    rows = pa.table({"t": range(4_500), "type": ["A", "B", "B"] * 1_500, "k": [i % 5 for i in range(4_500)]})
    query = keuka.sase("SEQ(A a, B b) WHERE [k]")
    one, two = [keuka.match(query, rows, time="t", type_column="type", threads=n) for n in (1, 2)]
    assert one.num_rows == two.num_rows > 2 * 131_072
    ends = two.column("_end").to_pylist()
    assert ends == sorted(ends) == one.column("_end").to_pylist()
