"""Queries over Spark's DataFrames: DataFrame in, DataFrame out, nothing computed before Spark computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keuka.spark import no_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from keuka.run.limits import Limits
    from keuka.spark.analysis import Schema
    from keuka.spark.jobs import Results


def on_spark(
    query: Any,
    streams: Any,
    *,
    language: str | None = None,
    time: Any = None,
    type_column: str | None = None,
    params: Mapping[str, object] | None = None,
    output: str | None = None,
    lateness: Any = None,
    unit: Any = None,
    contributors: bool = False,
    shards: int | None = None,
    schema: Schema | None = None,
    limits: Limits | None = None,
    on_bad_row: str | None = None,
    rejected: list[DataFrame] | None = None,
    idle_after: Any = None,
) -> DataFrame:
    """The matches of a query over DataFrames, as a DataFrame that is computed when Spark needs it: a streaming one if one of them streams.

    streams: a DataFrame if the query reads one stream, else a dict from stream name to DataFrame; `keuka.Stream(df, time=..., id=...)`
        where more must be said than the column of time.
    shards: into how many partitions events are divided; by default Spark decides.
    lateness: how far streams that go on may be out of order. A DataFrame that ends is sorted, so there it has no effect.
    schema: the columns to read and their types (`"ts TIMESTAMP, name STRING"`, or a StructType; a dict for several streams), where Spark
        cannot be asked for them: inside a function of a Declarative Pipeline.
    limits: what each task may take; by default half the memory of its machine or container, divided by the tasks of an executor.
    on_bad_row: "error", or "reject" to go on without rows that cannot be events: no time, or a start after the end.
    rejected: a list to which one DataFrame for each stream is added: its rejected rows, with the reason. Implies "reject".
    idle_after: a stream that brings no rows for so long, for example "10 min", no longer holds time back.

    Everything else is as in `keuka.match`. Mistakes in query, columns and types are raised here, before a job starts.
    """
    options = {"language": language, "time": time, "type_column": type_column, "params": params, "lateness": lateness, "unit": unit}
    options |= {"contributors": contributors, "shards": shards, "schema": schema, "limits": limits}
    options |= {"on_bad_row": on_bad_row, "rejected": rejected, "idle_after": idle_after}
    found = _results(query, streams, outputs=() if output is None else (output,), **options)
    return found.output(found.names[0])


def matching(query: Any, **options: Any) -> Callable[[DataFrame], DataFrame]:
    """A transformation, for `df.transform(keuka.matching(query, time="ts"))`. Takes the options of `on_spark`."""
    return lambda frame: on_spark(query, frame, **options)


def all_on_spark(
    query: Any,
    streams: Any,
    *,
    shards: int | None = None,
    contributors: bool = False,
    schema: Schema | None = None,
    limits: Limits | None = None,
    rejected: list[DataFrame] | None = None,
    idle_after: Any = None,
    **options: Any,
) -> Results:
    """The matches of every query of a set."""
    said = {"contributors": contributors, "shards": shards, "schema": schema, "limits": limits, "rejected": rejected}
    said |= {"idle_after": idle_after}
    return _results(query, streams, outputs=None, **said, **options)


def _results(query: Any, streams: Any, **options: Any) -> Results:
    """What needs pyspark is imported when a query meets Spark, not with Keuka."""
    try:
        from keuka.spark.jobs import results
    except ImportError as error:
        raise no_pyspark(error) from None
    return results(query, streams, **options)
