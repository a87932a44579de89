"""Law 5 for batch, and laws 4 and 8 there: a query over DataFrames gives what it gives in this process, however they are divided.

Examples are drawn by hypothesis and run in this process first; then those without errors are one job of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import keuka
from keuka.plan.planner import output_names, plan
from keuka.plan.prefilter import needed

from ..laws.outcomes import Bag, bag_without_contributors, check, lowered
from ..laws.queries import Program as ProgramText
from ..laws.streams import SHAPES, Rows, table
from ..laws.test_laws import Example, examples
from .cases import CASE, collected

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
