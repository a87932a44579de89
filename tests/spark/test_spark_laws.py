"""Law 5, and laws 4 and 8 there: a query over DataFrames gives what it gives in this process, however they are divided or arrive.

Examples are drawn by hypothesis and run in this process first; then those without errors are one job of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import keuka
from keuka.plan.planner import output_names, plan
from keuka.plan.prefilter import needed
from keuka.spark.jobs import results
from keuka.spark.schemas import spark_schema

from ..laws.outcomes import Bag, bag_without_contributors, check, lowered
from ..laws.queries import Program as ProgramText
from ..laws.streams import SHAPES, Rows, table
from ..laws.test_laws import Example, examples
from .cases import CASE, collected, in_slots

N_EXAMPLES = int(os.environ.get("KEUKA_SPARK_EXAMPLES", "40"))


@dataclass(frozen=True)
class Case:
    program: ProgramText
    output: str
    rows: Rows
    number: int  # of the example, whose rows it reads
    expected: Bag


def drawn(n_examples: int) -> list[Case]:
    cases: list[Case] = []
    numbers = iter(range(10 * n_examples))

    @settings(max_examples=n_examples, phases=[Phase.generate])
    @given(examples())
    def draw(example: Example) -> None:
        text, program, rows = example
        number = next(numbers)
        for output in output_names(program):
            expected = in_process(text, output, rows)
            if expected is not None:
                cases.append(Case(text, output, rows, number, expected))

    draw()
    return cases


def in_process(text: ProgramText, output: str, rows: Rows) -> Bag | None:
    """The matches; None if there is an overflow, which would end the job of all cases."""
    try:
        return bag_without_contributors(keuka.match(text.query, streams_of(text, rows), output=output))
    except keuka.DataError:
        return None


def streams_of(text: ProgramText, rows: Rows) -> dict[str, keuka.Stream]:
    return {s: keuka.Stream(table(s, rows[s]), time=SHAPES[s].time) for s in text.query.inputs}


@dataclass(frozen=True)
class Frames:
    """The rows of all cases, one DataFrame a stream."""

    of: dict[str, DataFrame]

    def streams(self, case: Case) -> dict[str, keuka.Stream]:
        names = case.program.query.inputs
        return {s: keuka.Stream(self.of[s].where(sf.col(CASE) == case.number).drop(CASE), time=SHAPES[s].time) for s in names}


def frames_of(spark: SparkSession, cases: Sequence[Case]) -> Frames:
    by_number = {case.number: case.rows for case in cases}
    found = {}
    for stream in SHAPES:
        tables = [
            table(stream, rows[stream]).append_column(CASE, pa.array([number] * len(rows[stream]), pa.int64()))
            for number, rows in by_number.items()
        ]
        # One chunk: Spark 4.3 stops at an empty one, without a word.
        found[stream] = spark.createDataFrame(pa.concat_tables(tables).combine_chunks()).cache()
    return Frames(found)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return drawn(N_EXAMPLES)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, cases: list[Case]) -> Frames:
    return frames_of(spark, cases)


def compare(cases: Sequence[Case], found: Sequence[pa.Table]) -> None:
    for case, result in zip(cases, found, strict=True):
        check(case.program.text, case.rows, {case.output: case.expected}, {case.output: bag_without_contributors(result)})


def test_queries_over_frames_give_what_they_give_in_this_process(cases: list[Case], frames: Frames):
    assert len(cases) > N_EXAMPLES / 2
    compare(cases, collected([keuka.match(case.program.query, frames.streams(case), output=case.output) for case in cases]))


def test_so_they_do_over_other_shards_without_ansi_and_without_filters_in_spark(spark: SparkSession, cases: list[Case], frames: Frames):
    some = cases[::2]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with mock.patch("keuka.spark.jobs.needed", return_value={}):
            found = [keuka.on_spark(case.program.query, frames.streams(case), output=case.output, shards=5) for case in some]
        compare(some, collected(found))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")


def test_so_they_do_without_ansi_and_with_filters_in_spark(spark: SparkSession, cases: list[Case], frames: Frames):
    filtered = [case for case in cases if has_filter(case)][:20]
    assert len(filtered) >= 3
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        compare(filtered, collected([keuka.match(case.program.query, frames.streams(case), output=case.output) for case in filtered]))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")


def test_the_same_events_are_behind_their_matches(cases: list[Case], frames: Frames):
    some = cases[1::3]
    found = [keuka.match(case.program.query, frames.streams(case), output=case.output, contributors=True) for case in some]
    for case, result in zip(some, collected(found), strict=True):
        expected = keuka.match(case.program.query, streams_of(case.program, case.rows), output=case.output, contributors=True)
        assert ids(result) == ids(expected), f"{case.program.text}\n{case.rows}"


def ids(matches: pa.Table) -> list[str]:
    """An id is made of those of the events behind a match, so equal ids have equal contributors."""
    return sorted(matches["_id"].to_pylist())


def has_filter(case: Case) -> bool:
    """Can some of its events be dropped before they are sent?"""
    return any(needed(plan(lowered(case.program), [case.output])).values())


# -- streams ---------------------------------------------------------------------------------------------------------------

N_STREAMED = max(6, N_EXAMPLES // 5)  # cases of one streaming query: each is a stateful function of its own
LATENESS = 3


def test_so_do_streams_however_rows_arrive(spark: SparkSession, cases: list[Case], tmp_path: Path):
    """Law 5 for streams: rows of all cases come in micro-batches, out of order by up to the lateness; in the end time goes to its end."""
    some = cases[:: max(1, len(cases) // N_STREAMED)][:N_STREAMED]
    rng = np.random.default_rng(len(cases))
    write_in_pieces(some, tmp_path, rng)
    (tmp_path / "control").mkdir()
    frames = {s: spark.readStream.schema(spark_schema(cased(s))).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / s)) for s in SHAPES}
    found = [streamed(Frames(frames), case, str(tmp_path / "control")) for case in some]
    rows, unpack = in_slots(found)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        (tmp_path / "control" / "end").write_text("flush\n")
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions or "3")
    compare(some, unpack(spark.read.schema(rows.schema).parquet(str(tmp_path / "out"))))


def streamed(frames: Frames, case: Case, control: str) -> DataFrame:
    streams = {name: replace(stream, lateness=LATENESS) for name, stream in frames.streams(case).items()}
    with mock.patch("keuka.spark.streaming.OBSERVED", f"keuka_{case.number}_{case.output}"):  # each has a name of its own in one query
        return results(case.program.query, streams, outputs=(case.output,), shards=2, control=control).output(case.output)


def cased(stream: str) -> pa.Schema:
    return SHAPES[stream].arrow.append(pa.field(CASE, pa.int64()))


def write_in_pieces(some: Sequence[Case], folder: Path, rng: np.random.Generator) -> None:
    """A file of each stream for each micro-batch. Rows are delayed, by less than would make them late."""
    by_number = {case.number: case.rows for case in some}
    for stream in SHAPES:
        (folder / stream).mkdir()
        tables = []
        for number, rows in by_number.items():
            own = table(stream, rows[stream])
            time = SHAPES[stream].time
            end = own[time if isinstance(time, str) else time[1]].to_numpy()
            arrival = end + rng.integers(0, LATENESS + 1, len(end)) if len(end) else end
            order = np.argsort(arrival, kind="stable")
            tables.append(own.take(pa.array(order)).append_column(CASE, pa.array([number] * len(end), pa.int64())))
        n_pieces = int(rng.integers(2, 5))
        cuts = [np.sort(rng.integers(0, each.num_rows + 1, n_pieces - 1)).tolist() for each in tables]
        for i in range(n_pieces):
            bounds = [[0, *cut, each.num_rows][i : i + 2] for cut, each in zip(cuts, tables, strict=True)]
            piece = pa.concat_tables([each.slice(begin, end - begin) for each, (begin, end) in zip(tables, bounds, strict=True)])
            path = folder / stream / f"{i}.parquet"
            pq.write_table(piece.combine_chunks(), path)
            os.utime(path, (1_000 + i, 1_000 + i))
