"""What can be pushed, and what is refused before any of it is taken."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keuka

from .live import ALL, RISES, SCHEMA, numbers, raised, rows, ticks


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        lambda table: pl.from_arrow(table),
        lambda table: table.to_pylist(),
        lambda table: pl.from_arrow(table).lazy(),
        lambda table: [table.to_batches()[0]],
        lambda table: Foreign(table),
    ],
    ids=["table", "batch", "pandas", "polars", "dicts", "lazy", "batches", "other library"],
)
@pytest.mark.parametrize("declared", [False, True])
def test_events_may_come_as_any_table_in_memory(make: Callable[[pa.Table], Any], declared: bool):
    engine = keuka.Engine({"S": SCHEMA} if declared else None, time="t")
    engine.add(RISES)
    first, second = (pa.Table.from_pylist(found, SCHEMA) for found in (rows((1, "a", 5)), rows((2, "a", 6), (3, "b", 1))))
    engine.push("S", make(first))
    assert len(engine.push("S", make(second))) == 1
    assert len(engine.close()) == 0


class Foreign:
    """A table of a library that Keuka has never heard of."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_what_must_be_read_first_is_refused(engine: keuka.Engine):
    engine.add(ALL)
    table = pa.Table.from_pylist(ticks(1, 2), SCHEMA)
    for data in ("ticks.csv", table.to_reader(), iter(table.to_batches()), 5, None):
        for stream in ("S", "New"):
            assert raised(lambda s=stream, d=data: engine.push(s, d)).code == "K512"
    assert engine.counters()["events"] == 0


def test_batches_may_have_other_types_of_the_same_meaning_and_another_order_of_columns(engine: keuka.Engine):
    engine.add(RISES)
    engine.push("S", pa.table({"n": pa.array([5], pa.uint8()), "t": pa.array([1], pa.int32()), "k": pa.array(["a"]).dictionary_encode()}))
    engine.push("S", pa.table({"t": [2], "k": pa.array(["a"], pa.large_string()), "n": [6]}))
    engine.push("S", pa.table({"t": [3], "k": pa.nulls(1), "n": [7]}))
    assert engine.advance(3).of("rule_1").num_rows == 0
    assert engine.rules["rule_1"].matches == 1


def test_a_dictionary_column_takes_plain_text_and_other_words():
    schema = pa.schema({"t": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string())})
    engine = keuka.Engine({"S": schema}, time="t", lateness=10)
    engine.add("SELECT k FROM S")
    engine.push("S", pa.table({"t": [1], "k": pa.array(["a"]).dictionary_encode()}))
    engine.push("S", pa.table({"t": [2], "k": ["b"]}))
    engine.push("S", [{"t": 3, "k": "c"}])
    assert engine.close().table["k"].to_pylist() == ["a", "b", "c"]


def test_words_of_waiting_batches_need_not_fit_the_dictionary_of_one():
    schema = pa.schema({"t": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string()), "i": pa.dictionary(pa.int8(), pa.int64())})
    engine = keuka.Engine({"S": schema}, time="t", lateness=1000)
    engine.add("SELECT t FROM S")
    for first in range(0, 500, 50):
        numbers = list(range(first, first + 50))
        words = pa.array([f"word {n}" for n in numbers]).dictionary_encode()
        batch = pa.table({"t": numbers, "k": words, "i": pa.array(numbers).dictionary_encode()}).cast(schema)
        engine.push("S", pa.concat_tables([batch.slice(0, 20), batch.slice(20)]))
    engine.add("SELECT k, i FROM S", name="words")
    assert [row["k"] for row in engine.close().of("words").to_pylist()] == [f"word {n}" for n in range(500)]


def test_a_column_that_cannot_wait_is_refused_with_its_name():
    run_ends = pa.run_end_encoded(pa.int32(), pa.int64())
    error = raised(lambda: keuka.Engine({"S": pa.schema({"t": pa.int64(), "runs": run_ends})}, time="t"))
    assert (error.code, "column `runs`" in str(error)) == ("K512", True)


def test_rows_as_dicts_take_the_types_the_stream_has():
    engine = keuka.Engine(time="t")
    engine.add("SELECT x, word FROM S")
    engine.push("S", [{"t": 1, "x": 1.5, "word": None}])
    engine.push("S", [{"t": 2, "x": 2}])
    engine.push("S", [{"t": 3, "x": None, "word": "w"}])
    assert engine.advance(3).to_pylist() == [{"_query": "rule_1", "x": None, "word": "w", "_start": 3, "_end": 3}]
    assert raised(lambda: engine.push("S", [{"t": 4, "x": "text"}])).code == "K509"
    assert raised(lambda: engine.push("S", [{"t": 4, "y": 1}])).code == "K509"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pa.table({"t": [1], "k": ["a"]}), "column `n` is missing"),
        (pa.table({"t": [1], "k": ["a"], "n": [1.5]}), "column `n` is double, which was int64 before"),
        (pa.table({"t": [1], "k": ["a"], "n": [1], "more": [1]}), "column `more` was not there before"),
        (pa.table({"t": [1], "k": ["a"], "n": pa.array([2**63], pa.uint64())}), "column `n` is uint64, which was int64 before"),
    ],
)
def test_other_columns_are_refused_and_nothing_is_taken(engine: keuka.Engine, data: pa.Table, said: str):
    engine.add(ALL)
    error = raised(lambda: engine.push("S", data))
    assert error.code == "K509"
    assert said in str(error)
    assert engine.counters()["events"] == 0
    assert numbers(engine.push("S", ticks(1, 2))) == [1]


def test_a_row_without_time_is_refused_with_its_number_and_the_engine_goes_on(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1, 2))
    bad = pa.table({"t": pa.array([3, None]), "k": ["a", "a"], "n": [3, 4]}, schema=SCHEMA)
    error = raised(lambda: engine.push("S", bad))
    assert (error.code, "stream `S`, row 4, column `t`" in str(error)) == ("K502", True)
    assert numbers(engine.push("S", ticks(3))) == [2]


def test_an_interval_that_ends_before_it_starts_is_refused():
    engine = keuka.Engine(time=("a", "b"))
    engine.add("SELECT a FROM S")
    engine.push("S", [{"a": 1, "b": 2}])
    assert raised(lambda: engine.push("S", [{"a": 5, "b": 4}])).code == "K503"
    assert len(engine.push("S", [{"a": 1, "b": 3}])) == 1


def test_a_value_that_does_not_fit_is_refused_before_anything_is_taken():
    engine = keuka.Engine({"S": pa.schema({"t": pa.int64(), "at": pa.timestamp("ns")})}, time="t")
    engine.add("SELECT at FROM S")
    good, bad = (pa.table({"t": [1], "at": pa.array([ns], pa.timestamp("ns"))}) for ns in (1000, 1001))
    assert raised(lambda: engine.push("S", bad)).code == "K510"
    engine.push("S", good)
    assert engine.close().table.num_rows == 1


@pytest.mark.parametrize("n_rows", [3, 5_000])
def test_text_that_is_not_utf_8_refuses_the_batch_and_the_engine_goes_on(engine: keuka.Engine, n_rows: int):
    engine.add("SELECT k FROM S")
    words = pa.array([b"ab"] * (n_rows - 1) + [b"a\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), n_rows, words.buffers())
    for column in (text, pa.DictionaryArray.from_arrays(pa.array(range(n_rows), pa.int32()), text)):
        batch = pa.record_batch({"t": range(n_rows), "k": column, "n": range(n_rows)})
        error = raised(lambda b=batch: engine.push("S", b))
        assert (error.code, f"row {n_rows}, column `k`" in str(error)) == ("K514", True)
    assert engine.push("S", ticks(1, 2)).table["k"].to_pylist() == ["a"]


def test_a_rule_that_cannot_read_waiting_events_is_refused_and_the_engine_goes_on():
    engine = keuka.Engine({"S": pa.schema({"t": pa.int64(), "at": pa.timestamp("ns")})}, time="t")
    engine.add("SELECT t FROM S", name="times")
    engine.push("S", pa.table({"t": [1], "at": pa.array([1001], pa.timestamp("ns"))}))
    assert raised(lambda: engine.add("SELECT at FROM S", name="more")).code == "K510"
    assert list(engine.rules) == ["times"]
    assert len(engine.close()) == 1


def test_empty_batches_make_a_stream_known(engine: keuka.Engine):
    fresh = keuka.Engine(time="t")
    fresh.add(ALL)
    assert len(fresh.push("S", SCHEMA.empty_table())) == 0
    assert len(fresh.push("S", [])) == 0
    assert numbers(fresh.push("S", ticks(1, 2))) == [1]
    assert raised(lambda: keuka.Engine(time="t").push("S", [])).code == "K512"


def test_columns_that_only_pass_through_and_many_columns_do(engine: keuka.Engine):
    schema = pa.schema([("t", pa.int64()), ("list", pa.list_(pa.int64())), *[(f"c{i}", pa.int64()) for i in range(20)]])
    wide = keuka.Engine({"S": schema}, time="t")
    wide.add("SELECT list, c7 FROM S NEXT S".replace("list, c7", "list_1, c7"))
    for t in range(5):
        wide.push("S", pa.table({"t": [t], "list": [[t]], **{f"c{i}": [t * i] for i in range(20)}}, schema=schema))
    assert wide.rules["rule_1"].matches == 3


@pytest.mark.parametrize(
    "declared",
    [SCHEMA, SCHEMA.empty_table(), SCHEMA.empty_table().to_pandas(), keuka.Stream(SCHEMA, time="t"), keuka.Stream(SCHEMA.empty_table())],
)
def test_streams_are_declared_by_schema_or_empty_table(declared: object):
    engine = keuka.Engine({"S": declared}, time="t")
    engine.add("SELECT t FROM S")
    assert engine.late == {"S": 0}


def test_declarations_that_make_no_sense_are_refused():
    assert raised(lambda: keuka.Engine({"S": pa.table({"t": [1]})}, time="t")).code == "K512"
    assert raised(lambda: keuka.Engine({"S": "ticks.csv"}, time="t")).code == "K512"
    assert raised(lambda: keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", sort=True)})).code == "K515"
    assert raised(lambda: keuka.Engine({"S": SCHEMA})).code == "K501"
    assert raised(lambda: keuka.Engine(memory_limit="a lot")).code == "K515"
    assert raised(lambda: keuka.Engine(memory_limit=0)).code == "K515"
    assert raised(lambda: keuka.Engine(idle_after="soon")).code == "K515"
    assert raised(lambda: keuka.Engine(idle_after=0)).code == "K515"
    with pytest.raises(TypeError, match="streams must be a dict"):
        keuka.Engine(["S"])


def test_times_with_and_without_a_zone_do_not_mix():
    naive = datetime.datetime(2026, 1, 1, 12)
    aware = naive.replace(tzinfo=datetime.UTC)
    for first, second in ((naive, aware), (aware, naive)):
        engine = keuka.Engine()
        engine.add("SELECT n FROM S")
        engine.push("S", [{"at": first, "n": 1}])
        for data in ([{"at": second, "n": 2}], pd.DataFrame({"at": [second], "n": [2]})):
            error = raised(lambda e=engine, d=data: e.push("S", d))
            assert error.code == "K509"
            assert "only one of them has a zone" in str(error)
        assert engine.counters()["events"] == 1


def test_tables_of_many_columns_give_what_narrow_ones_give():
    table = pa.table({"t": range(40), **{f"c{i}": [(t * i) % 5 for t in range(40)] for i in range(50)}})
    query = "SELECT c7_1 AS a, c9, c49 FROM S NEXT {$2.c3 = $1.c3} S"
    for n_rows in (1, 7, 40):
        engine = keuka.Engine(time="t")
        engine.add(query, name="q")
        found = [engine.push("S", batch) for batch in table.to_batches(max_chunksize=n_rows)]
        together = pa.concat_tables([matches.of("q") for matches in [*found, engine.close()]])
        assert together.equals(keuka.match(query, table.select(["t", "c3", "c7", "c9", "c49"]), time="t", language="cel"))


class Tagged(pa.ExtensionType):
    """An extension type as its documentation shows one: it cannot be hashed."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


SPARSE = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
DENSE = pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])])
UNFIT = {
    "sparse union": SPARSE,
    "dense union": DENSE,
    "union in a list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), SPARSE),
    "union in a struct": pa.StructArray.from_arrays([DENSE], names=["a"]),
    "extension": pa.ExtensionArray.from_storage(Tagged(), pa.array([1, 2])),
}


@pytest.mark.parametrize("query", ["SELECT k, c FROM S NEXT {$2.k = $1.k} S", "SELECT k FROM S"])
@pytest.mark.parametrize("column", UNFIT.values(), ids=UNFIT)
def test_columns_that_cannot_wait_are_refused_and_the_engine_goes_on(column: pa.Array, query: str):
    engine = keuka.Engine(time="t")
    engine.add(query)
    with pytest.raises(keuka.DataError) as raised:
        engine.push("S", pa.table({"t": [1, 2], "k": [1, 1], "c": column}))
    assert (raised.value.code, raised.value.diagnostics[0].label) == ("K512", "stream `S`, column `c`")
    assert (engine.counters()["events"], engine.counters()["streams"]) == (0, {})
    engine.push("S", pa.table({"t": [1, 2], "k": [1, 1], "c": [1, 2]}))
    assert len(engine.close()) > 0
    with pytest.raises(keuka.DataError):
        keuka.Engine({"S": pa.schema({"t": pa.int64(), "c": column.type})}, time="t")


def test_match_passes_columns_of_extension_types_on():
    events = pa.table({"t": [1, 2], "c": UNFIT["extension"]})
    assert keuka.match("SELECT c FROM S", events, time="t")["c"].type == Tagged()


def test_a_first_batch_that_is_refused_does_not_decide_the_columns():
    engine = keuka.Engine(time="t")
    engine.add("SELECT x FROM S")
    with pytest.raises(keuka.DataError) as raised:
        engine.push("S", pa.table({"t": [1], "x": pa.array([2**64 - 1], pa.uint64())}))
    assert (raised.value.code, engine.counters()["streams"]) == ("K514", {})
    engine.push("S", pa.table({"t": [1], "x": ["a"]}))
    assert engine.close().to_pylist() == [{"_query": "rule_1", "x": "a", "_start": 1, "_end": 1}]
