"""Queries over streaming DataFrames: files arrive one by one, and what is found is what an engine finds to which they are pushed.

The law that holds for all queries and all ways of arriving is in tests/laws/test_shard_law.py; here Spark itself is in between.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import keuka
from keuka.spark.schemas import spark_schema
from keuka.spark.streaming import observed_in

TICKS = pa.schema([("at", pa.int64()), ("name", pa.string()), ("price", pa.float64())])
RISES = keuka.cel("SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S")
ROWS = [(1, "a", 1), (2, "b", 5), (3, "a", 2), (4, "b", 9), (3, "c", 4), (5, "c", 1), (6, "a", 7), (9, "c", 8), (12, "b", 1)]


def tick_table(rows: list[tuple[int, str, float]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(TICKS.names, row, strict=True)) for row in rows], TICKS)


class Arriving:
    """A directory into which files come, in an order."""

    def __init__(self, spark: SparkSession, folder: Path, schema: pa.Schema) -> None:
        self.spark, self.folder, self.schema, self.n_files = spark, folder, schema, 0
        folder.mkdir()

    def add(self, table: pa.Table) -> None:
        path = self.folder / f"{self.n_files:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000 + self.n_files, 1_000 + self.n_files))  # Spark takes the older ones first
        self.n_files += 1

    @property
    def frame(self) -> DataFrame:
        reader = self.spark.readStream.schema(spark_schema(self.schema)).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


def run(found: DataFrame, folder: Path) -> list[dict[str, Any]]:
    """Runs a streaming query until there is nothing more to read. Returns the numbers of its batches."""
    writer = (
        found.writeStream.format("parquet").option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    )
    started = writer.trigger(availableNow=True).start()
    started.awaitTermination()
    told = [observed_in(progress) for progress in started.recentProgress]
    return [numbers["keuka"] for numbers in told if "keuka" in numbers]


def results(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted([tuple(row) for row in spark.read.parquet(str(folder / "out")).collect()])


def in_an_engine(batches: list[pa.Table], lateness: int = 0) -> list[tuple[Any, ...]]:
    with keuka.Engine({"S": keuka.Stream(TICKS, time="at", lateness=lateness)}) as engine:
        engine.add(RISES, name="rises")
        return sorted([tuple(row.values())[1:] for batch in batches for row in engine.push("S", batch).to_pylist()])


def test_files_that_arrive_give_what_an_engine_finds(spark: SparkSession, tmp_path: Path):
    arriving, batches = Arriving(spark, tmp_path / "in", TICKS), [tick_table(ROWS[i : i + 2]) for i in range(0, len(ROWS), 2)]
    for batch in batches[:3]:
        arriving.add(batch)
    found = keuka.on_spark(RISES, arriving.frame, time="at", lateness=1, shards=3)
    numbers = run(found, tmp_path)
    assert [n["events"] for n in numbers] == [2, 2, 2]
    assert [n["time"] for n in numbers] == [1, 3, 4]
    assert results(spark, tmp_path) == in_an_engine(batches[:3], lateness=1)
    for batch in batches[3:]:  # the query goes on where it was
        arriving.add(batch)
    numbers = run(found, tmp_path)
    expected = in_an_engine(batches, lateness=1)
    assert results(spark, tmp_path) == expected
    assert [n["late"] for n in numbers] == [0, 0]
    assert len(expected) == 5


def test_another_query_cannot_go_on_with_a_checkpoint(spark: SparkSession, tmp_path: Path):
    arriving = Arriving(spark, tmp_path / "in", TICKS)
    arriving.add(tick_table(ROWS[:2]))
    run(keuka.on_spark(RISES, arriving.frame, time="at", shards=2), tmp_path)
    arriving.add(tick_table(ROWS[2:4]))
    falls = keuka.cel("SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price < $1.price} S")
    with pytest.raises(StreamingQueryException, match=r"K557.*: the checkpoint belongs to a streaming query with another meaning"):
        run(keuka.on_spark(falls, arriving.frame, time="at", shards=2), tmp_path)
    run(keuka.on_spark(RISES, arriving.frame, time="at", shards=2), tmp_path)
    assert results(spark, tmp_path) == in_an_engine([tick_table(ROWS[:2]), tick_table(ROWS[2:4])])


@pytest.mark.parametrize(("tick", "n_late", "n_matches"), [(999, 1, 0), (1000, 0, 1), (1001, 0, 1)])
def test_a_row_is_late_to_the_microsecond(spark: SparkSession, tmp_path: Path, tick: int, n_late: int, n_matches: int):
    schema = pa.schema([("at", pa.timestamp("us")), ("name", pa.string())])
    arriving = Arriving(spark, tmp_path / "in", schema)
    for ticks in ([900, 2000], [tick], [9000]):  # 1 ms late at the most: after 2000 nothing before 1000
        arriving.add(pa.table([pa.array(ticks, pa.timestamp("us")), pa.array(["a"] * len(ticks))], schema=schema))
    pairs = keuka.sase("SEQ(S a, S b) WHERE [name] AND a.at = :at WITHIN 1 s RETURN a.at AS first")
    at = f"1970-01-01 00:00:00.{tick:06}"
    found = keuka.on_spark(pairs, keuka.Stream(arriving.frame, time="at", lateness="1 ms"), params={"at": at}, shards=1)
    numbers = run(found, tmp_path)
    assert sum(n["late"] for n in numbers) == n_late
    assert len(results(spark, tmp_path)) == n_matches


def test_rows_that_cannot_matter_still_move_time(spark: SparkSession, tmp_path: Path):
    """An absence at the end of a sequence is certain once time is over, whoever brings it there."""
    schema = pa.schema([("at", pa.int64()), ("type", pa.string()), ("k", pa.int64())])
    arriving = Arriving(spark, tmp_path / "in", schema)
    for rows in ([(1, "A", 1), (2, "A", 2)], [(3, "B", 2)], [(20, "Z", 7)]):
        arriving.add(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
    missing = keuka.sase("SEQ(A a, !B b) WHERE [k] WITHIN 5 RETURN a.k AS k")
    found = keuka.match(missing, arriving.frame, time="at", type_column="type")
    numbers = run(found, tmp_path)
    assert results(spark, tmp_path) == [(1, 1, 5)]
    assert numbers[-1]["live_instances"] == 0


def test_a_static_frame_and_one_that_falls_silent(spark: SparkSession, tmp_path: Path):
    """Rows of a static frame are all there before the first batch; a stream of which nothing comes holds time back."""
    limits = spark.createDataFrame([(0, "a", 3.0), (0, "b", 6.0)], "at BIGINT, name STRING, price DOUBLE")
    above = keuka.sase("SEQ(Limits l, S s) WHERE [name] AND s.price > l.price RETURN s.name AS name, s.price AS price")
    arriving = Arriving(spark, tmp_path / "in", TICKS)
    for i in range(0, len(ROWS), 5):
        arriving.add(tick_table(ROWS[i : i + 5]))
    numbers = run(keuka.on_spark(above, {"Limits": limits, "S": arriving.frame}, time="at", shards=2), tmp_path)
    assert results(spark, tmp_path) == [("a", 7.0, 0, 6), ("b", 9.0, 0, 4)]
    assert numbers[-1]["waiting"] == 1  # the last tick is not over

    silent = Arriving(spark, tmp_path / "silent", TICKS)
    streams = {"Limits": silent.frame, "S": arriving.frame}
    numbers = run(keuka.on_spark(above, streams, time="at", shards=2), tmp_path / "waits")
    assert numbers[-1]["waiting"] == len(ROWS)
    silent.add(tick_table([(0, "a", 3.0)]))
    arriving.add(tick_table([(30, "a", 5.0)]))
    arriving.add(tick_table([(40, "a", 5.0)]))
    numbers = run(keuka.on_spark(above, streams, time="at", shards=2, idle_after=1e-6), tmp_path / "goes_on")
    assert ("a", 5.0, 0, 30) in results(spark, tmp_path / "goes_on")


def test_rows_of_which_nobody_can_say_whether_they_matter(spark: SparkSession, tmp_path: Path):
    """A filter over a null is not true; nothing but the time of such a row is sent."""
    arriving = Arriving(spark, tmp_path / "in", TICKS)
    arriving.add(pa.table([[1, 2, 3, 4], ["a", "a", "b", "a"], [7.0, None, 8.0, 9.0]], schema=TICKS))
    high = keuka.cel("SELECT name, price FROM FILTER {price > 6} (S)")
    numbers = run(keuka.on_spark(high, arriving.frame, time="at", shards=2), tmp_path)
    assert sorted([row[1] for row in results(spark, tmp_path)]) == [7.0, 8.0]
    assert (numbers[-1]["events"], numbers[-1]["time"]) == (3, 4)


def test_each_stream_has_its_own_lateness(spark: SparkSession, tmp_path: Path):
    """The frontier of a stream is its largest time minus its own lateness; a row at the frontier is in time, one before it late."""
    exact, loose = Arriving(spark, tmp_path / "exact", TICKS), Arriving(spark, tmp_path / "loose", TICKS)
    for rows in ([(10, "a", 1), (10, "b", 1)], [(10, "c", 1), (9, "a", 2)], [(30, "z", 0)]):
        exact.add(tick_table(rows))
    for rows in ([(15, "a", 5), (15, "b", 5)], [(9, "c", 5), (10, "c", 6), (11, "b", 7)], [(40, "z", 0)]):
        loose.add(tick_table(rows))
    streams = {"Exact": keuka.Stream(exact.frame, time="at"), "Loose": keuka.Stream(loose.frame, time="at", lateness=5)}
    pairs = keuka.sase("SEQ(Exact e, Loose l) WHERE [name] RETURN e.at AS e, l.at AS l, l.price AS price")
    numbers = run(keuka.on_spark(pairs, streams, shards=2), tmp_path)
    # 9 of `Exact` is before 10, 9 of `Loose` before 15 - 5.
    assert [n["late"] for n in numbers] == [0, 2, 0]
    assert results(spark, tmp_path) == [(10, 11, 7.0, 10, 11), (10, 15, 5.0, 10, 15), (10, 15, 5.0, 10, 15)]


def test_what_streams_cannot_have_is_said_before_they_start(spark: SparkSession, tmp_path: Path):
    arriving = Arriving(spark, tmp_path / "in", TICKS)
    static = spark.createDataFrame([(0, "a", 3.0)], "at BIGINT, name STRING, price DOUBLE")
    for limits in (keuka.Limits(seconds=5), keuka.Limits(matches=5)):
        with pytest.raises(keuka.DataError, match="limits of seconds and matches are for runs that end") as caught:
            keuka.on_spark(RISES, arriving.frame, time="at", limits=limits)
        assert caught.value.code == "K515"
    apart = keuka.query([RISES, keuka.sase("SEQ(T a, T b) RETURN a.at AS t PUBLISH Still")])
    with pytest.raises(keuka.DataError, match="`Still` is found in `T` alone, which does not go on") as caught:
        keuka.match_all(apart, {"S": keuka.Stream(arriving.frame, time="at"), "T": keuka.Stream(static, time="at")})
    assert caught.value.code == "K512"
