"""What Spark is asked about a DataFrame before anything runs: its columns, and whether it streams.

In the functions of a Declarative Pipeline Spark answers no such question, because other tables of the pipeline may not exist yet. There
columns must be declared (`schema=`), and then nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from keuka.diagnostics import listing
from keuka.errors import data_error
from keuka.events import ddl
from keuka.events.files import place
from keuka.events.sources import Stream
from keuka.spark.schemas import spark_schema
from keuka.spark.session import is_connect

# The columns of a stream, as Spark writes them or as it holds them; of several streams by their names.
Schema = StructType | str | Mapping[str, StructType | str]

MOST_BYTES = 2**60  # Spark gives sources of unknown size some 2**63 bytes, and multiplies them in joins
NO_ANSWER = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"


def columns_of(stream: str, frame: DataFrame) -> StructType:
    try:
        return frame.schema
    except PySparkException as error:
        if error.getCondition() != NO_ANSWER:
            raise
        problem = "Spark lets nobody look at columns inside a function of a Declarative Pipeline"
        remedy = 'declare those that the query needs: `keuka.matching(query, schema="ts TIMESTAMP, name STRING")`, or `keuka.on_spark`'
        raise data_error("K512", problem, remedy, where=place(stream, None) if stream else "") from None


def is_streaming(frame: DataFrame, ask: bool) -> bool:
    """Without asking, the plan tells; it does not know of views that others made over streams."""
    if ask or not is_connect(frame.sparkSession):
        return frame.isStreaming
    connected: Any = frame
    return _reads_stream(connected._plan.to_proto(connected.sparkSession.client))


def _reads_stream(message: Any) -> bool:
    """Is there a source in this part of a plan, a message of protobuf, that never ends?"""
    for field, value in message.ListFields():
        if field.name == "is_streaming":
            return True  # a flag that is not set is not listed
        parts = [] if field.message_type is None else [value] if hasattr(value, "ListFields") else value
        if any(hasattr(part, "ListFields") and _reads_stream(part) for part in parts):
            return True
    return False


def declared(streams: Any, schema: Schema) -> Any:
    """The streams with just the declared columns, in the declared types."""
    if not isinstance(streams, Mapping):
        if isinstance(schema, Mapping):
            raise ValueError("schema: one DataFrame was given, so give its columns, not a dict from stream name to columns")
        return _declared(streams, schema)
    own = schema if isinstance(schema, Mapping) else dict.fromkeys(streams, schema)
    if unknown := [name for name in own if name not in streams]:
        raise ValueError(f"schema: there is no stream {listing(unknown)}; there are {listing(streams)}")
    return {name: _declared(stream, own[name]) if name in own else stream for name, stream in streams.items()}


def _declared(stream: Any, schema: StructType | str) -> Any:
    try:
        columns = spark_schema(ddl.arrow_schema(schema)) if isinstance(schema, str) else schema
    except ValueError as error:
        raise ValueError(f"schema: {error}; other types need a StructType") from None
    if isinstance(stream, Stream):
        return replace(stream, data=_declared(stream.data, columns))
    if not isinstance(stream, DataFrame):
        return stream  # what it is instead is said later
    chosen = [sf.col(f"`{field.name.replace('`', '``')}`").cast(field.dataType).alias(field.name) for field in columns]
    return knowing(stream.select(*chosen), columns)


def knowing(frame: DataFrame, columns: StructType) -> DataFrame:
    """A DataFrame that knows its columns, which are these: that of Connect would ask for them."""
    if is_connect(frame.sparkSession):
        frame._cached_schema = columns  # type: ignore[attr-defined]  # as `frame.to(columns)` does, which asks for those of its input
    return frame


def estimate_bytes(frame: DataFrame) -> int | None:
    """The size of the rows by Spark's statistics. None if Spark does not know it, and over Connect, which does not tell it."""
    if is_connect(frame.sparkSession):
        return None
    plan: Any = frame
    n_bytes = int(plan._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return None if n_bytes > MOST_BYTES else n_bytes
